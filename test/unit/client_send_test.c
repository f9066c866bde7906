/*-------------------------------------------------------------------------
 *
 * client_send_test.c
 *	  How requests leave: in how few calls, and without waking a thread.
 *
 * ZK_SERVERS names a server.  The linker sends the library's calls of write() to this
 * program, which counts how often its I/O thread was woken.  It also has sendmsg() in the
 * place of libc's: it counts calls and packets, and may take less than it is given, or
 * fail, as the kernel can.
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* the library's synchronous functions, too */

#include <stdlib.h>

#include "client_common.h"
#include "loopback.h"
#include <arpa/inet.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#ifdef ZKLOCK_STATIC_LIBRARY

#define CYCLES			50

/* Bytes of the length that stands in front of a packet, and of what wakes the I/O thread. */
#define LENGTH_WORD		4
#define WAKING			1

/* What a socket takes whose buffer is nearly full, and how many locks take much more. */
#define SHORT_OF_ROOM	7
#define MANY_LOCKS		50

/* What is sent so soon waits for no ping, and no timeout. */
#define SOON			(ZK_MS(LONG_TIMEOUT_MS) / 4)

extern ssize_t __real_write(int fd, const void *data, size_t size);
extern ssize_t __wrap_write(int fd, const void *data, size_t size);

static atomic_int connection;	/* the client's */
static int	strangers;
static pthread_t stranger_thread;	/* makes all of the stranger's requests */

/* Counted by all threads. */
static atomic_int wakings;
static atomic_int requests;
static atomic_int sends;
static atomic_int empty_words;	/* a length that left alone */

/* How the connection's socket behaves; and how often it has done so. */
static atomic_int behaviour;
static atomic_int misbehaved;
enum
{
	TAKES_ALL,
	TAKES_LITTLE,				/* every other time; else nothing */
	TAKES_NOTHING,
	FAILS
};

/* Where the connection's stream of packets is.  One thread sends at a time. */
static size_t word_have;
static size_t packet_left;
static unsigned char word[LENGTH_WORD];

ssize_t
__wrap_write(int fd, const void *data, size_t size)
{
	if (size == WAKING && !pthread_equal(pthread_self(), stranger_thread))
		atomic_fetch_add(&wakings, 1);
	return __real_write(fd, data, size);
}

/* Count the packets that are in so many bytes of a message. */
static void
count_packets(const struct msghdr *message, size_t size)
{
	uint32_t	length;

	for (size_t i = 0; i < message->msg_iovlen; i++)
	{
		const unsigned char *bytes = message->msg_iov[i].iov_base;
		size_t		most = message->msg_iov[i].iov_len;

		for (size_t at = 0; at < most && size > 0; at++, size--)
		{
			if (packet_left > 0)
			{
				if (--packet_left == 0)
					atomic_fetch_add(&requests, 1);
				continue;
			}
			word[word_have++] = bytes[at];
			if (word_have < LENGTH_WORD)
				continue;
			memcpy(&length, word, LENGTH_WORD);
			packet_left = ntohl(length);
			word_have = 0;
		}
	}
}

/* As sendmsg(), of no more than so many bytes. */
static ssize_t
send_some(int fd, const struct msghdr *message, int flags, size_t most)
{
	struct iovec part = message->msg_iov[0];
	struct msghdr less = {.msg_iov = &part,.msg_iovlen = 1};

	if (part.iov_len > most)
		part.iov_len = most;
	return syscall(SYS_sendmsg, fd, &less, flags);
}

/* In the place of libc's, which packets.c calls. */
ssize_t
sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t		sent;

	if (fd != atomic_load(&connection))
		return syscall(SYS_sendmsg, fd, message, flags);
	atomic_fetch_add(&sends, 1);
	switch (atomic_load(&behaviour))
	{
		case TAKES_LITTLE:
			if (atomic_fetch_add(&misbehaved, 1) % 2 == 0)
			{
				sent = send_some(fd, message, flags, SHORT_OF_ROOM);
				break;
			}
			errno = EAGAIN;
			return -1;
		case TAKES_NOTHING:
			atomic_fetch_add(&misbehaved, 1);
			errno = EAGAIN;
			return -1;
		case FAILS:
			atomic_fetch_add(&misbehaved, 1);
			errno = ENOBUFS;
			return -1;
		default:
			sent = syscall(SYS_sendmsg, fd, message, flags);
			break;
	}
	if (sent > 0)
		count_packets(message, (size_t) sent);
	if (word_have == 0 && sent == LENGTH_WORD)
		atomic_fetch_add(&empty_words, 1);
	return sent;
}

/* Returns a connection other than this one; or -1. */
static int
find_connection(int other)
{
	struct sockaddr_storage peer;

	for (int fd = STDERR_FILENO + 1; fd < 100; fd++)
	{
		socklen_t	len = sizeof(peer);

		if (fd != other && getpeername(fd, (struct sockaddr *) &peer, &len) == 0 &&
			(peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
			return fd;
	}
	return -1;
}

/* Take a lock and release it, without others. */
static void
cycle(const char *node)
{
	release(acquire(node, ZK_EXCLUSIVE));
}

/* The same behind a stranger, whose going is an event. */
static void
hand_over(const char *node)
{
	char		first[256];
	ZkContenderId waiter;
	ZkContenderStatus status;

	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	waiter = request(node, ZK_EXCLUSIVE);
	wait_state(waiter, ZK_WATCHING, &status);
	zoo_delete(stranger, first, -1);
	wait_state(waiter, ZK_HELD, &status);
	release(waiter);
}

/*
 * Do that many times.  What is done takes at least so many requests each time, and so many
 * calls at most, but for what the client does beside it.
 */
static void
test_leaving(void (*act) (const char *node), int each, int calls, const char *what)
{
	int			sent;
	int			left;

	act(root);
	atomic_store(&wakings, 0);
	atomic_store(&requests, 0);
	atomic_store(&sends, 0);
	for (int i = 0; i < CYCLES; i++)
		act(root);
	sent = atomic_load(&requests);
	left = atomic_load(&sends);
	diag("%s: %d requests, %d calls, %d times woken", what, sent, left, atomic_load(&wakings));
	ok(sent >= each * CYCLES, "S387: %s takes some requests", what);
	ok(left <= calls * CYCLES + CYCLES / 5, "S387: of which those of one moment leave in one call");
	is_int(atomic_load(&empty_words), 0, "S387: no length leaves without its packet");
	ok(atomic_load(&wakings) < CYCLES / 5,
	   "S387: who makes them sends them, and wakes no thread for it");
}

/* Have the socket behave so from now on. */
static void
behave(int how)
{
	atomic_store(&misbehaved, 0);
	atomic_store(&behaviour, how);
}

/* Wait until it has. */
static bool
has_misbehaved(void)
{
	for (ZkTime deadline = zk_now() + DEADLINE; atomic_load(&misbehaved) == 0;)
	{
		if (zk_now() > deadline)
			return false;
		usleep(1000);
	}
	return true;
}

/* Queue for many locks with long names: a packet that is longer than what can be kept. */
static bool
take_many(void)
{
	static char names[MANY_LOCKS][ZK_NODE_PATH_SIZE];
	const char *nodes[MANY_LOCKS];
	ZkContenderId ids[MANY_LOCKS];
	ZkLockRequest wish = {.mode = ZK_EXCLUSIVE,.owner = OWNER};
	ZkContenderStatus status;
	ZkError		error;
	bool		good = true;

	for (int i = 0; i < MANY_LOCKS; i++)
	{
		snprintf(names[i], sizeof(names[i]), "%s/%02d%0300d", root, i, i);
		nodes[i] = names[i];
	}
	if (!zk_contenders_request(client, &wish, MANY_LOCKS, nodes, ids, &error))
		return false;
	for (int i = 0; i < MANY_LOCKS; i++)
		good &= wait_state(ids[i], ZK_HELD, &status);
	for (int i = 0; i < MANY_LOCKS; i++)
		zk_contender_release(client, ids[i]);
	for (int i = 0; i < MANY_LOCKS; i++)
	{
		good &= wait_state(ids[i], ZK_GONE, &status);
		zk_contender_abandon(client, ids[i]);
	}
	return good;
}

/*
 * The socket takes less than it is given: the rest goes when there is room, without anything
 * else to be sent, and in order, or the server would end the connection.
 */
static void
test_full_socket(void)
{
	clientid_t	session = session_of_client();
	ZkContenderId id;
	ZkContenderStatus status;
	ZkTime		began;

	behave(TAKES_NOTHING);
	id = request(root, ZK_EXCLUSIVE);
	ok(has_misbehaved(), "S387: a request is made while the socket takes nothing");
	began = zk_now();
	behave(TAKES_ALL);
	ok(wait_state(id, ZK_HELD, &status) && release(id), "S387: it is sent when that is over");
	ok(zk_now() - began < SOON, "S387: before anything else is");

	behave(TAKES_LITTLE);
	for (int i = 0; i < 3; i++)
		cycle(root);
	ok(atomic_load(&misbehaved) > 3 * 2, "S387: some bytes at a time, locks are taken, too");
	behave(TAKES_ALL);
	ok(take_many(), "S387: a packet leaves that is longer than what can be kept");
	behave(TAKES_LITTLE);
	ok(take_many(), "S387: some bytes at a time, too");
	behave(TAKES_ALL);
	ok(session_of_client().client_id == session.client_id, "S387: all that by one session");
}

/* Sending fails: the connection is given up, and the next one begins with nothing kept. */
static void
test_failing_socket(void)
{
	ZkContenderId id;
	ZkContenderStatus status;
	ZkTime		began = zk_now();

	behave(FAILS);
	id = request(root, ZK_EXCLUSIVE);
	ok(has_misbehaved(), "S387: a request cannot be sent");
	behave(TAKES_ALL);
	ok(wait_state(id, ZK_HELD, &status) && release(id),
	   "S387: it is by the next connection");
	ok(zk_now() - began < SOON, "S387: which is made without a wait");
}

/* The last word is sent, too, before the connection is closed. */
static void
test_last_word(void)
{
	char		node[128];
	ZkTime		began;

	atomic_store(&connection, find_connection(strangers));
	node_path(node, "last");
	acquire(node, ZK_EXCLUSIVE);
	began = zk_now();
	behave(TAKES_LITTLE);
	ok(zk_client_stop(client, 30000), "the client stops in time");
	ok(atomic_load(&misbehaved) > 2, "S47: some bytes at a time, a session is closed");
	ok(wait_children(node, 0) && zk_now() - began < SOON, "S47: and its lock is free then");
}

int
main(void)
{
	servers = getenv("ZK_SERVERS");
	if (servers == NULL)
	{
		fprintf(stderr, "ZK_SERVERS is not set\n");
		return 1;
	}

	/*
	 * Only the last handle of a process is the client's, so the stranger
	 * comes first.
	 */
	stranger_thread = pthread_self();
	stranger = open_handle(NULL);
	strangers = find_connection(-1);
	/* A ping is due after a third of that without a request. */
	start_client(servers, LONG_TIMEOUT_MS);
	snprintf(root, sizeof(root), "/send_test_%d", (int) getpid());
	cycle(root);
	atomic_store(&connection, find_connection(strangers));
	test_leaving(cycle, 3, 2, "a lock");
	test_leaving(hand_over, 4, 3, "one who waits");
	test_full_socket();
	test_failing_socket();
	test_last_word();
	zookeeper_close(stranger);
	return done_testing();
}

#else

int
main(void)
{
	return skip_all("the client library is a shared one");
}

#endif							/* ZKLOCK_STATIC_LIBRARY */
