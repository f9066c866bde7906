/*-------------------------------------------------------------------------
 *
 * socket.c
 *	  The library's connection to a server, as far as we have a hand in it.
 *
 * Where the library is linked statically, the linker's --wrap sends the calls
 * below to us, as in guards.c:
 *
 * socket	makes descriptors that COPY ... TO PROGRAM does not inherit, and
 *			notes the library's socket and when it was opened.  So we know the
 *			server's address without the library's accessor, which races with
 *			its own thread, and can break a connection that comes to nothing.
 * close	hears out the server when the session was closed: see hear_out().
 * recv, send	have packets.c look at what comes and goes, and give up a
 *			connection over which something comes that the library must not see.
 *			They also save system calls: the library receives and sends the
 *			length of a packet and the packet each for itself.  See below.
 * connect	passes over the server that was just given up, until another one was
 *			tried: the library knows one of an even number of servers twice.
 * adaptor_send_queue	leaves a request to zk_socket_send(), with which the
 *			thread that made it sends all that it has made in one turn.  The
 *			library would wake its I/O thread for each, through a pipe: a change
 *			of threads and four system calls before anything is sent.
 *
 * What one thread sends in one go leaves in one call, at the end: the requests
 * of a turn of the engine, with zk_socket_send(), and what the I/O thread sends
 * in one of its two steps, zookeeper_interest() and zookeeper_process().  Until
 * then packets.c keeps it.  The library takes what is kept for sent; so if the
 * kernel does not take all of it, or if there is an error, we have the I/O
 * thread wait until the socket is writable, or give up the connection.
 *
 * One call receives all that has come, as far as there is room, while the I/O
 * thread is in zookeeper_process(), which is called again until all of it is
 * given out: the socket would not show it any more.  The rest of a packet that
 * is longer goes directly to where the library wants it.
 *
 * With the shared library none of that is done.
 *
 * Of the rules about TLS (tls.c):
 *
 * C3. A TLS connection has one user, the I/O thread, as OpenSSL's connections
 * are not for two.  So requests are not sent by the threads that make them:
 * socket.c never takes such a connection for established.  Nor with SASL, whose
 * packets come before the credential.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <arpa/inet.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inside.h"
#include "reply.h"

/* How often connect() skips a server; the library may try it again. */
#define MAX_AVOIDED		4

/*
 * The library's socket, -1 if it has none, and when it was opened.
 * socket_lock, which any thread may take, is held while the socket is used by
 * others than the library, which waits with closing it until then.
 */
static pthread_mutex_t socket_lock = PTHREAD_MUTEX_INITIALIZER;
static int	last_socket = -1;
static ZkTime last_socket_at;

/*
 * The server of that socket, the one whose connection was broken last, and how
 * often that is still to be passed over.  socket_lock.
 */
static struct sockaddr_storage last_server;
static struct sockaddr_storage avoided;
static int	avoiding;
static bool several_servers;

/* The handle of that socket, once connected.  socket_lock. */
static zhandle_t *handle;

/* We broke that connection; no other one is to be made.  socket_lock. */
static bool broken;
static bool closing;

/* Something has answered that is no server.  Cleared for a new handle. */
static atomic_bool no_server;

/* The I/O thread loops over unusable files.  Cleared for a new handle. */
static atomic_bool stuck;

/* The handle that this thread closes is connected: the server is told. */
static __thread bool parting;

/*
 * Whether the threads that make requests may send them, which is over when the
 * handle is to be closed; and with which descriptors the library can do.  Set
 * while there is no handle.  socket_lock.
 */
static bool direct = true;
static int	max_descriptor = INT_MAX;

/*
 * ZkHandleWish.on_end; set while there is no handle.  NULL for handles of
 * others, which there are in tests.
 */
static void (*on_end) (void);

/* Note that, and let the log know.  socket_lock. */
static void
set_broken(bool is_broken, bool is_closing)
{
	broken = is_broken;
	closing = is_closing;
	zk_log_broken_off(broken || closing);
}

#ifdef ZKLOCK_STATIC_LIBRARY

/* How long a server may take to say its last word. */
#define LAST_WORD_TIME	ZK_MS(500)

/* The most bytes that are received in one call, unless a packet has more. */
#define INPUT_SIZE		4096

/* What a call has received and the library has not. */
typedef struct Input
{
	size_t		at;
	size_t		end;
	bool		exhausted;		/* nothing else had come yet */
	int			error;			/* sending has failed: receiving is to fail */
	unsigned char bytes[INPUT_SIZE];
} Input;

/* While this thread is in zookeeper_process(), which reads from one socket. */
static __thread Input *input;

/* What this thread sends is kept; and for which socket, -1 for none yet. */
static __thread bool gathering;
static __thread int gathered = -1;

/*
 * This thread's socket: the thread that opens the library's socket is the one
 * that reads from it.  And as far as it knows, whether others may send.
 */
static __thread int own_socket = -1;
static __thread bool own_established;

/* What this thread is connected to has just not answered as a server does. */
static __thread bool own_refused;

/* This thread runs completions just now, and is the I/O thread. */
static __thread bool completing;

/* Something has not been sent by this thread, or not in full. */
static __thread bool fell_short;

/*
 * From now on, threads may send their own requests.  Written with socket_lock.
 */
static atomic_bool established;

/*
 * Requests in the handle's queue that zk_socket_send() is to send.  None after
 * the socket was closed, so the handle exists while there are any.
 * socket_lock.
 */
static int	held_back;

WRAPPED(int, adaptor_send_queue, zhandle_t *zh, int timeout);
WRAPPED(int, socket, int domain, int type, int protocol);
WRAPPED(int, close, int fd);
WRAPPED(int, connect, int fd, const struct sockaddr *address, socklen_t len);
WRAPPED(ssize_t, recv, int fd, void *data, size_t size, int flags);
WRAPPED(ssize_t, send, int fd, const void *data, size_t size, int flags);

/*
 * As socket(), close-on-exec.  Also fails with EMFILE if the library cannot use
 * the descriptor, or with ENOMEM.
 */
static int
open_socket(int domain, int type, int protocol)
{
	int			fd = __real_socket(domain, type | SOCK_CLOEXEC, protocol);

	if (fd <= max_descriptor && (fd < 0 || zk_packets_begin(fd)))
		return fd;
	__real_close(fd);
	if (fd <= max_descriptor)
	{
		errno = ENOMEM;
		return -1;
	}
	zk_log(true, "not using file descriptor %d: TLS requires descriptors up to %d",
		   fd, max_descriptor);
	errno = EMFILE;
	return -1;
}

/* As socket(), close-on-exec, and noted. */
int
__wrap_socket(int domain, int type, int protocol)
{
	int			fd;

	pthread_mutex_lock(&socket_lock);
	last_socket_at = zk_now();
	last_socket = fd = open_socket(domain, type, protocol);
	established = false;
	set_broken(false, closing);
	pthread_mutex_unlock(&socket_lock);
	own_socket = fd;
	own_established = false;
	return fd;
}

/*
 * The server was told that the session is closed: wait until it has done that
 * and closes the connection, and throw away what it sends until then.  If a
 * socket is closed with something left to be read, or something comes later,
 * the server's kernel gets a reset, and forgets what the server has not read:
 * that word, as the last of all.  The library waits for something to come,
 * whatever it is.
 */
static void
hear_out(int fd)
{
	struct pollfd pfd = {.fd = fd,.events = POLLIN};
	ZkTime		deadline = zk_now() + LAST_WORD_TIME;
	ZkTime		left;
	char		data[4096];

	while ((left = deadline - zk_now()) > 0 &&
		   poll(&pfd, 1, (int) (left / 1000) + 1) > 0 &&
		   __real_recv(fd, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
}

/* As close(); if it is the library's socket, that has none then. */
int
__wrap_close(int fd)
{
	bool		is_last = parting;

	pthread_mutex_lock(&socket_lock);
	is_last &= fd == last_socket;
	pthread_mutex_unlock(&socket_lock);
	if (is_last)
		hear_out(fd);

	pthread_mutex_lock(&socket_lock);
	if (fd == last_socket)
	{
		last_socket = -1;
		established = false;
		held_back = 0;
	}
	pthread_mutex_unlock(&socket_lock);
	if (fd == own_socket)
		own_socket = -1;
	zk_packets_end(fd);
	return __real_close(fd);
}

/*
 * As connect().  Fails for the server whose connection was broken last, as if
 * it did not respond; then the library tries the next one.  Fails for all when
 * the handle is about to be closed.  I/O thread.
 */
int
__wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
	bool		pass_over = false;

	pthread_mutex_lock(&socket_lock);
	if (fd == last_socket && len <= sizeof(last_server))
	{
		memset(&last_server, 0, sizeof(last_server));
		memcpy(&last_server, address, len);
		pass_over = avoiding > 0 && several_servers &&
			memcmp(&last_server, &avoided, sizeof(avoided)) == 0;
		avoiding = pass_over ? avoiding - 1 : 0;
		pass_over |= closing;
	}
	pthread_mutex_unlock(&socket_lock);
	if (!pass_over)
		return __real_connect(fd, address, len);
	errno = ETIMEDOUT;
	return -1;
}

/*
 * A packet has come after the handshake: from now on the threads that make
 * requests may send them, except as in C3.  By now the library has put the
 * credential, and the watches that it sets again, in front of all requests.
 * I/O thread.
 */
static void
establish(int fd)
{
	pthread_mutex_lock(&socket_lock);
	if (fd == last_socket && direct)
		established = true;
	pthread_mutex_unlock(&socket_lock);
}

/* Log why the connection is given up.  I/O thread. */
static void
log_refusal(const char *why)
{
	char		server[80];

	if (!zk_socket_peer(server, sizeof(server)))
		server[0] = '\0';
	zk_log_given_up(server, why);
}

/*
 * So many bytes were received from that socket, decrypted.  Returns false if
 * the library must not see them: given an error (EPROTO), it closes the
 * connection and tries the next server.  I/O thread.
 */
bool
zk_socket_received(int fd, void *data, size_t size)
{
	char		why[ZK_REPLY_WHY];

	switch (zk_packets_received(fd, data, size, why))
	{
		case ZK_RECEIVED_GREETING:
			return true;
		case ZK_RECEIVED_PACKET:
			if (fd == own_socket && !own_established)
			{
				establish(fd);
				own_established = true;
			}
			return true;
		case ZK_REFUSED_GREETING:
			atomic_store(&no_server, true);
			own_refused = true;
			break;
		case ZK_REFUSED_PACKET:
			break;
	}
	log_refusal(why);
	return false;
}

/* The I/O thread, which this is, begins to run completions, or has done so. */
void
zk_socket_completing(bool completes)
{
	completing = completes;
}

/*
 * The I/O thread has made a step, which returned that.  If it is its last one,
 * it is going round in circles, or it has met something that is no server, have
 * zk_transport_look() called.  I/O thread, without any lock.
 */
void
zk_socket_processed(zhandle_t *zh, int rc)
{
	bool		refused;

	if (rc == ZOK || rc == ZNOTHING)
		return;
	refused = own_refused;
	own_refused = false;
	if (rc == ZSSLCONNECTIONERROR && zk_socket_is_open())
		atomic_store(&stuck, true);
	else if (!refused && zoo_state(zh) != ZOO_AUTH_FAILED_STATE)
		return;
	if (on_end != NULL)
		on_end();
}

/* As recv(), and note whether that has taken all there was.  I/O thread. */
static ssize_t
receive(int fd, void *data, size_t size, int flags)
{
	ssize_t		got = __real_recv(fd, data, size, flags);

	input->exhausted = got < (ssize_t) size;
	return got;
}

/* Give out what was received already.  Returns how many bytes that is. */
static size_t
give_out(void *data, size_t size)
{
	size_t		given = input->end - input->at;

	if (given > size)
		given = size;
	memcpy(data, input->bytes + input->at, given);
	input->at += given;
	return given;
}

/* Fill the input, which is empty, and give out what is wanted of it. */
static ssize_t
refill(int fd, void *data, size_t size, int flags)
{
	ssize_t		got = receive(fd, input->bytes, INPUT_SIZE, flags);

	input->at = 0;
	input->end = got > 0 ? (size_t) got : 0;
	return got > 0 ? (ssize_t) give_out(data, size) : got;
}

/*
 * As recv(), from the input.  The rest of what does not fit there is received
 * directly.  Where nothing else had come, that is not asked for again: the I/O
 * thread waits for it.  I/O thread.
 */
static ssize_t
receive_buffered(int fd, char *data, size_t size, int flags)
{
	size_t		given = give_out(data, size);
	size_t		wanted = size - given;
	ssize_t		got = -1;

	if (wanted == 0)
		return (ssize_t) given;
	if (input->exhausted)
		errno = EAGAIN;
	else
		got = wanted < INPUT_SIZE ? refill(fd, data + given, wanted, flags) :
			receive(fd, data + given, wanted, flags);
	if (given == 0)
		return got;
	return (ssize_t) given + (got > 0 ? got : 0);
}

/* As recv(), in zookeeper_process() from its input.  I/O thread. */
static ssize_t
receive_any(int fd, void *data, size_t size, int flags)
{
	if (input == NULL)
		return __real_recv(fd, data, size, flags);
	if (input->error != 0)
	{
		errno = input->error;
		return -1;
	}
	return receive_buffered(fd, data, size, flags);
}

/* As recv(); EPROTO after a packet the library must not see.  I/O thread. */
ssize_t
__wrap_recv(int fd, void *data, size_t size, int flags)
{
	ssize_t		got = receive_any(fd, data, size, flags);

	if (got <= 0 || zk_socket_received(fd, data, (size_t) got))
		return got;
	errno = EPROTO;
	return -1;
}

/* As send(); while this thread gathers, what is sent is kept if it fits. */
ssize_t
__wrap_send(int fd, const void *data, size_t size, int flags)
{
	ssize_t		sent = zk_packets_send(fd, data, size, flags, gathering);

	if (gathering)
		gathered = fd;
	fell_short |= sent != (ssize_t) size;
	return sent;
}

/* This thread is about to send something, which is to leave in one go. */
void
zk_socket_gather(void)
{
	gathering = true;
	gathered = -1;
}

/*
 * It was: send it now, as far as it goes without waiting.  Returns as
 * zk_packets_flush().
 */
int
zk_socket_send_gathered(void)
{
	gathering = false;
	return gathered < 0 ? 0 : zk_packets_flush(gathered);
}

/*
 * The I/O thread is about to wait for its socket, -1 for none: also until that
 * is writable, if something is kept; or not at all, if sending has failed.
 */
void
zk_socket_watch(int fd, int *interest, struct timeval *timeout)
{
	int			kept = fd < 0 ? 0 : zk_packets_kept(fd);

	if (kept == EAGAIN)
		*interest |= ZOOKEEPER_WRITE;
	else if (kept != 0)
		memset(timeout, 0, sizeof(*timeout));
}

/*
 * Send what is kept for this thread's socket, if that is writable.  Returns the
 * error with which sending has failed, now or before; 0 if it has not.
 */
static int
resume_sending(int events)
{
	int			kept;

	if (own_socket < 0)
		return 0;
	kept = (events & ZOOKEEPER_WRITE) != 0 ? zk_packets_flush(own_socket) :
		zk_packets_kept(own_socket);
	return kept == EAGAIN ? 0 : kept;
}

/*
 * The I/O thread has waited: process these events, with the library's function.
 * What is kept goes first.  If sending has failed, the library meets that error
 * when it receives.
 *
 * What OpenSSL has read and not given out, and what is left in our input, the
 * socket does not show any more.  So nothing stays in the input: with any
 * result but ZOK the library had all of it, has closed the connection, or
 * receives no more.
 */
int
zk_socket_process(zhandle_t *zh, int events,
				  int (*process) (zhandle_t *zh, int events))
{
	Input		mine;
	int			rc;

	mine.at = mine.end = 0;
	mine.exhausted = false;
	mine.error = resume_sending(events);
	input = &mine;
	zk_socket_gather();
	rc = process(zh, mine.error == 0 ? events : ZOOKEEPER_READ);
	while (rc == ZOK && (mine.at < mine.end || zk_tls_pending() > 0))
		rc = process(zh, ZOOKEEPER_READ);
	zk_socket_send_gathered();
	input = NULL;
	return rc;
}

/*
 * Send what is kept for a socket, within so many milliseconds; with 0, as far
 * as it goes without waiting.  Returns a result of the library.
 */
static int
send_kept_within(int fd, int timeout)
{
	struct pollfd pfd = {.fd = fd,.events = POLLOUT};
	ZkTime		deadline = zk_now() + ZK_MS(timeout);
	ZkTime		left = ZK_MS(timeout);
	int			kept;

	while ((kept = zk_packets_flush(fd)) == EAGAIN && left > 0)
	{
		poll(&pfd, 1, (int) (left / 1000) + 1);
		left = deadline - zk_now();
	}
	if (kept == EAGAIN)
		return timeout == 0 ? ZOK : ZOPERATIONTIMEOUT;
	return kept == 0 ? ZOK : ZCONNECTIONLOSS;
}

/*
 * As adaptor_send_queue(), which sends by itself when the handle is closed.  In
 * its two steps the I/O thread need not be woken: it asks next whether there is
 * something to send.
 */
static int
send_queue(zhandle_t *zh, int timeout)
{
	int			rc;

	if (gathering)
		return ZOK;
	zk_socket_gather();
	rc = zk_internals_wake_sender(zh, timeout);
	gathering = false;
	return rc == ZOK && gathered >= 0 ? send_kept_within(gathered, timeout) : rc;
}

/*
 * Leave what is in the handle's queue to zk_socket_send(), or to the library:
 * when the I/O thread asks with a ping, and not in a completion; in any state
 * other than connected; and with a timeout, as when a handle is closed.  Any
 * client thread.
 */
int
__wrap_adaptor_send_queue(zhandle_t *zh, int timeout)
{
	bool		held;

	pthread_mutex_lock(&socket_lock);
	held = established && zh == handle && timeout == 0 &&
		(own_socket < 0 || completing) &&
		zoo_state(zh) == ZOO_CONNECTED_STATE;
	if (held)
		held_back++;
	pthread_mutex_unlock(&socket_lock);
	return held ? ZOK : send_queue(zh, timeout);
}

/*
 * Send what is in the handle's queue, as far as it goes without waiting, in one
 * go.  Returns false if something is left.  socket_lock.
 */
static bool
flush(void)
{
	bool		sent;

	fell_short = false;
	zk_socket_gather();
	sent = zk_internals_flush(handle);
	return zk_socket_send_gathered() == 0 && sent && !fell_short;
}

/*
 * Send the requests that were made in a turn of the engine, and those of other
 * threads meanwhile.  Any thread, without engine_lock.
 *
 * The queue has a lock of its own, under which packets are sent one after the
 * other, whichever thread does it; and the socket does not block, so no thread
 * waits here for the network.  socket_lock keeps the socket open meanwhile, or
 * its number might be that of another file; the I/O thread, which waits for it
 * before it closes the socket, takes the rest off the queue afterwards.
 *
 * What does not go, for want of room or because of an error, stays in the
 * queue, or is kept, and the I/O thread is woken: it waits until there is room,
 * or meets the same error and gives up the connection.  That, too, is done with
 * socket_lock, for which the helper waits before it closes the handle
 * (zk_socket_part()): the thread may be the backend's, and the client another
 * one than the handle's.
 *
 * The library reads the time of the last send without a lock, to know when a
 * ping is due.  A torn read makes a ping a second early or late, after a third
 * of the session timeout without a request.
 */
void
zk_socket_send(void)
{
	pthread_mutex_lock(&socket_lock);
	if (held_back > 0)
	{
		held_back = 0;
		if (!flush())
			zk_internals_wake_sender(handle, 0);
	}
	pthread_mutex_unlock(&socket_lock);
}

/*
 * Returns true if requests are sent by the threads that make them, over the
 * connection that there is.  That may be over at any moment.  Any thread.
 */
bool
zk_socket_is_direct(void)
{
	return atomic_load(&established);
}

#else

/* The I/O thread sends. */
void
zk_socket_send(void)
{
}

bool
zk_socket_is_direct(void)
{
	return false;
}

#endif							/* ZKLOCK_STATIC_LIBRARY */

/*
 * That is the client's handle, the only one of this process; it is connected.
 * Completion thread or helper.
 */
void
zk_socket_belongs_to(zhandle_t *zh)
{
	pthread_mutex_lock(&socket_lock);
	handle = zh;
	avoiding = 0;
	pthread_mutex_unlock(&socket_lock);
}

/*
 * Write the numeric "host:port" of the server at the other end of the library's
 * socket.  Returns false if that is not known.  Any client thread.
 */
bool
zk_socket_peer(char *server, size_t size)
{
	struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
	socklen_t	len = sizeof(peer);
	char		host[64];
	char		port[8];
	int			rc;

	pthread_mutex_lock(&socket_lock);
	rc = getpeername(last_socket, (struct sockaddr *) &peer, &len);
	pthread_mutex_unlock(&socket_lock);
	if (rc != 0 ||
		getnameinfo((struct sockaddr *) &peer, len, host, sizeof(host),
					port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return false;
	snprintf(server, size, peer.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
			 host, port);
	return true;
}

/*
 * When the library began to make the connection that it has; not before
 * disconnected_at, which is all that is known with the shared library.  Any
 * client thread.
 */
ZkTime
zk_socket_connecting_since(ZkTime disconnected_at)
{
	ZkTime		since;

	pthread_mutex_lock(&socket_lock);
	since = last_socket_at;
	pthread_mutex_unlock(&socket_lock);
	return since > disconnected_at ? since : disconnected_at;
}

/*
 * Break the connection that the library began to make then, made or not: it
 * tries the next server.  Returns false if it has none, or another one by now.
 * Any client thread.
 */
bool
zk_socket_break_connection(ZkTime begun)
{
	bool		has_one;

	pthread_mutex_lock(&socket_lock);
	has_one = last_socket >= 0 && last_socket_at == begun;
	if (has_one)
	{
		shutdown(last_socket, SHUT_RDWR);
		avoided = last_server;
		avoiding = MAX_AVOIDED;
	}
	set_broken(has_one, closing);
	pthread_mutex_unlock(&socket_lock);
	return has_one;
}

/*
 * A handle is about to be opened: whether the threads that make requests may
 * send them, the highest descriptor that it can use, whether there is more than
 * one server, and ZkHandleWish.on_end.  Helper.
 */
void
zk_socket_prepare(bool may_send, int highest, bool several, void (*end) (void))
{
	pthread_mutex_lock(&socket_lock);
	several_servers = several;
	direct = may_send;
	max_descriptor = highest;
	on_end = end;
	atomic_store(&no_server, false);
	atomic_store(&stuck, false);
	set_broken(false, false);
	pthread_mutex_unlock(&socket_lock);
}

/*
 * The handle is about to be closed, whatever its connection is at: no other one
 * is to be made.  If breaking, break the one that there is, or is being made.
 * Helper.
 */
void
zk_socket_give_up(bool breaking)
{
	pthread_mutex_lock(&socket_lock);
	set_broken(broken, true);
	if (breaking && last_socket >= 0)
		shutdown(last_socket, SHUT_RDWR);
	pthread_mutex_unlock(&socket_lock);
}

/*
 * This thread is about to close the handle.  If that is connected the server is
 * told.  From now on no other thread but the I/O thread uses it: the library
 * sends what is left, with the lock of its queue held while it waits for room.
 * Helper.
 */
void
zk_socket_part(bool connected)
{
	parting = connected;
	pthread_mutex_lock(&socket_lock);
	direct = false;
#ifdef ZKLOCK_STATIC_LIBRARY
	established = false;
	held_back = 0;
#endif
	pthread_mutex_unlock(&socket_lock);
}

/* The handle is closed.  Helper. */
void
zk_socket_parted(void)
{
	parting = false;
	pthread_mutex_lock(&socket_lock);
	set_broken(broken, false);
	pthread_mutex_unlock(&socket_lock);
}

/* Returns true if closing a handle reads what servers send (hear_out()). */
bool
zk_socket_hears_out(void)
{
#ifdef ZKLOCK_STATIC_LIBRARY
	return true;
#else
	return false;
#endif
}

/*
 * Returns true if the connection was broken by us, or is to be.  Any client
 * thread.
 */
bool
zk_socket_given_up(void)
{
	bool		given_up;

	pthread_mutex_lock(&socket_lock);
	given_up = broken || closing;
	pthread_mutex_unlock(&socket_lock);
	return given_up;
}

/* Returns true if the library has a socket.  Any client thread. */
bool
zk_socket_is_open(void)
{
	bool		is_open;

	pthread_mutex_lock(&socket_lock);
	is_open = last_socket >= 0;
	pthread_mutex_unlock(&socket_lock);
	return is_open;
}

/*
 * Returns true if something has answered that is no server, since the handle
 * was opened.  Any client thread.
 */
bool
zk_socket_met_no_server(void)
{
	return atomic_load(&no_server);
}

/*
 * Returns true if the I/O thread goes round and round, as it cannot use the
 * files for TLS.  Any client thread.
 */
bool
zk_socket_is_stuck(void)
{
	return atomic_load(&stuck);
}
