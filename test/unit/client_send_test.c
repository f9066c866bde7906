/*-------------------------------------------------------------------------
 *
 * client_send_test.c
 *	  How requests leave: in how few segments, and without waking a thread.
 *
 * ZK_SERVERS names a server.  The linker sends the library's calls of write() to this
 * program, which counts how often its I/O thread was woken; the kernel counts segments.
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* the library's synchronous functions, too */

#include <stdlib.h>

#include "client_common.h"
#include "loopback.h"
#include <linux/tcp.h>

#ifdef ZKLOCK_STATIC_LIBRARY

#define CYCLES			50

/* Bytes of the length that stands in front of a packet, and of what wakes the I/O thread. */
#define LENGTH_WORD		4
#define WAKING			1

extern ssize_t __real_write(int fd, const void *data, size_t size);
extern ssize_t __wrap_write(int fd, const void *data, size_t size);

static atomic_int connection;	/* the client's */
static pthread_t stranger_thread;	/* makes all of the stranger's requests */

/* Counted by all threads. */
static atomic_int wakings;
static atomic_int requests;

ssize_t
__wrap_write(int fd, const void *data, size_t size)
{
	if (size == WAKING && !pthread_equal(pthread_self(), stranger_thread))
		atomic_fetch_add(&wakings, 1);
	return __real_write(fd, data, size);
}

/* In the place of libc's, which socket.c calls. */
ssize_t
send(int fd, const void *data, size_t size, int flags)
{
	if (size == LENGTH_WORD && fd == atomic_load(&connection))
		atomic_fetch_add(&requests, 1);
	return sendto(fd, data, size, flags, NULL, 0);
}

/* Returns a connection with a descriptor above this one; or -1. */
static int
find_connection(int above)
{
	struct sockaddr_storage peer;

	for (int fd = above + 1; fd < 100; fd++)
	{
		socklen_t	len = sizeof(peer);

		if (getpeername(fd, (struct sockaddr *) &peer, &len) == 0 &&
			(peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
			return fd;
	}
	return -1;
}

/* Returns how many segments with data have left by now; -1 if the kernel does not say. */
static int
segments(void)
{
	struct tcp_info info = {0};
	socklen_t	len = sizeof(info);

	if (getsockopt(atomic_load(&connection), IPPROTO_TCP, TCP_INFO, &info, &len) != 0 ||
		len < offsetof(struct tcp_info, tcpi_data_segs_out) + sizeof(info.tcpi_data_segs_out))
		return -1;
	return (int) info.tcpi_data_segs_out;
}

/* Returns true if the connection keeps what is no full segment. */
static bool
is_corked(void)
{
	int			corked = 0;
	socklen_t	len = sizeof(corked);

	return getsockopt(atomic_load(&connection), IPPROTO_TCP, TCP_CORK, &corked, &len) != 0 || corked;
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

/* Do that many times.  What is done takes at least so many requests each time. */
static void
test_leaving(void (*act) (const char *node), int each, const char *what)
{
	int			sent;
	int			left;

	act(root);
	atomic_store(&wakings, 0);
	atomic_store(&requests, 0);
	left = segments();
	for (int i = 0; i < CYCLES; i++)
		act(root);
	left = segments() - left;
	sent = atomic_load(&requests);
	diag("%s: %d requests, %d segments, %d times woken", what, sent, left, atomic_load(&wakings));
	ok(sent >= each * CYCLES, "S387: %s takes some requests", what);
	ok(left < sent - CYCLES / 2, "S387: of which those of one moment leave in one segment");
	ok(!is_corked(), "S387: nothing is kept back afterwards");
	ok(atomic_load(&wakings) < CYCLES / 5,
	   "S387: who makes them sends them, and wakes no thread for it");
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
	/* A ping is due after a third of that without a request. */
	start_client(servers, LONG_TIMEOUT_MS);
	snprintf(root, sizeof(root), "/send_test_%d", (int) getpid());
	cycle(root);
	atomic_store(&connection, find_connection(find_connection(STDERR_FILENO)));
	test_leaving(cycle, 3, "a lock");
	test_leaving(hand_over, 4, "one who waits");
	zookeeper_close(stranger);
	ok(zk_client_stop(client, 30000), "the client stops in time");
	return done_testing();
}

#else

int
main(void)
{
	return skip_all("the client library is a shared one");
}

#endif							/* ZKLOCK_STATIC_LIBRARY */
