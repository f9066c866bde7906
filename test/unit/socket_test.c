/*-------------------------------------------------------------------------
 *
 * socket_test.c
 *	  Tests of socket.c: which connections the library gets, and how they end.
 *
 * This program calls what the library calls, which the linker sends to socket.c.  The two
 * servers are sockets of its own; it plays the library's part and theirs.
 *
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inside.h"
#include "loopback.h"
#include "tap.h"

#ifdef ZKLOCK_STATIC_LIBRARY

/* How often a server is passed over, and how long its last word may take: see socket.c. */
#define MAX_AVOIDED		4
#define LAST_WORD_TIME	ZK_MS(500)

/* How often something is tried that takes longer if the machine stands still. */
#define ROUNDS			5

static const char http_answer[] = "HTTP/1.1 400 Bad Request\r\n\r\n";

/* A server, and its end of the connection to it. */
static struct
{
	int			listening;
	int			port;
	int			end;
}			servers[2];

/*
 * The socket that the library reads from, how often that was called, and how often in vain.
 * As recv() is defined here, this file's own calls of it are not the library's.
 */
static int	processed_fd = -1;
static int	receives;
static int	receives_in_vain;
extern ssize_t __wrap_recv(int fd, void *data, size_t size, int flags);

/* In the place of libc's, which socket.c calls. */
ssize_t
recv(int fd, void *data, size_t size, int flags)
{
	ssize_t		got = recvfrom(fd, data, size, flags, NULL, NULL);

	if (fd == processed_fd)
	{
		receives++;
		receives_in_vain += got < 0;
	}
	return got;
}

/* How often we were called because a handle may have come to its end. */
static int	ends;

static void
count_end(void)
{
	ends++;
}

static void
start_servers(void)
{
	for (int i = 0; i < 2; i++)
	{
		servers[i].listening = loopback_listen(AF_INET, 8, &servers[i].port);
		if (servers[i].listening < 0)
			diag("no socket to listen on: %m");
	}
}

/* Connect to a server, as the library does.  Returns -1 with errno if that fails. */
static int
dial(int server)
{
	int			fd = socket(AF_INET, SOCK_STREAM, 0);
	int			error;

	if (loopback_connect(fd, AF_INET, servers[server].port) == 0)
	{
		servers[server].end = accept(servers[server].listening, NULL, NULL);
		return fd;
	}
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

/* The library ends that connection, if there is one, and so does the server. */
static void
hang_up(int fd, int server)
{
	if (fd < 0)
		return;
	close(fd);
	close(servers[server].end);
}

/* Returns true if a connection comes about, which then ends. */
static bool
connects(int server)
{
	int			fd = dial(server);

	hang_up(fd, server);
	return fd >= 0;
}

/* Returns true if a server is passed over, as if it did not respond. */
static bool
is_passed_over(int server)
{
	return !connects(server) && errno == ETIMEDOUT;
}

/* Returns true if the server sees the end of its connection. */
static bool
has_ended(int server)
{
	char		c;

	return recv(servers[server].end, &c, 1, MSG_DONTWAIT) == 0;
}

/* The client breaks a connection to this server. */
static void
give_up(int server)
{
	int			fd = dial(server);

	ok(zk_socket_break_connection(zk_socket_connecting_since(0)), "a connection is given up");
	ok(has_ended(server) && zk_socket_given_up(), "its server sees that");
	hang_up(fd, server);
}

/*
 * The library knows one of two servers twice, and so may try the one that hangs again; it
 * may be the only one that is left.
 */
static void
test_passing_over(void)
{
	zk_socket_prepare(true, INT_MAX, true, NULL);
	give_up(0);
	for (int i = 0; i < MAX_AVOIDED; i++)
		ok(is_passed_over(0), "S334: the server that was given up is passed over");
	ok(connects(0), "S334: but not for ever");
	ok(connects(0) && !zk_socket_given_up(), "S334: then it is as any other");

	give_up(0);
	ok(is_passed_over(0) && connects(1), "S334: another one is tried instead");
	ok(connects(0), "S334: and after that the same");

	give_up(0);
	zk_socket_belongs_to((zhandle_t *) servers);	/* only its address
													 * matters */
	ok(connects(0), "S334: a handle that was connected may lose that server and find it again");

	zk_socket_prepare(true, INT_MAX, false, NULL);
	give_up(0);
	ok(connects(0), "S334: the only server is tried again");
}

/* The client breaks the connection that it has looked at, and no later one. */
static void
test_breaking(void)
{
	int			fd;
	ZkTime		begun;

	zk_socket_prepare(true, INT_MAX, true, NULL);
	fd = dial(0);
	begun = zk_socket_connecting_since(0);
	ok(begun > 0 && begun <= zk_now(), "S334: it is known when a connection was begun");
	ok(zk_socket_connecting_since(begun + 1) == begun + 1,
	   "S334: which was not before the one before was lost");
	ok(zk_socket_is_open(), "there is a socket");
	ok(!zk_socket_break_connection(begun - 1), "S334: an earlier connection is not there to be broken");
	ok(!has_ended(0) && !zk_socket_given_up(), "S334: and that of now continues");
	hang_up(fd, 0);
	ok(!zk_socket_is_open(), "there is none any more");
	ok(!zk_socket_break_connection(begun), "S334: a connection that has ended cannot be broken");
	ok(connects(0), "S334: and its server is not passed over");
}

/* While a handle is being closed there are no new connections. */
static void
test_closing(void)
{
	int			other = dial(1);
	int			other_end = servers[1].end;
	int			fd;

	zk_socket_prepare(true, INT_MAX, false, NULL);
	fd = dial(0);
	zk_socket_give_up(false);
	ok(!has_ended(0) && zk_socket_given_up(), "S47: the session is ended over the connection that there is");
	hang_up(fd, 0);
	ok(is_passed_over(0) && is_passed_over(1), "S47: no other one is made for that");
	ok(zk_socket_given_up(), "S47: nor later");
	zk_socket_parted();
	ok(!zk_socket_given_up() && connects(0), "S47: the next handle has one");

	fd = dial(0);
	zk_socket_give_up(true);
	ok(has_ended(0), "S47: a handshake that hangs is broken");
	hang_up(fd, 0);
	zk_socket_give_up(true);
	ok(is_passed_over(0), "S47: as is one that has not begun");
	zk_socket_parted();

	close(other);
	ok(recv(other_end, &fd, 1, MSG_DONTWAIT) == 0, "another socket ends when it is closed");
	close(other_end);
}

/* The server has something to say when the session ends, and is to read our last word. */
static void *
say_last_word(void *arg)
{
	struct pollfd pfd = {.fd = servers[0].end,.events = POLLIN};
	bool	   *waited_for = arg;
	char		word[8];

	if (recv(servers[0].end, word, sizeof(word), 0) <= 0)
		return NULL;
	*waited_for = poll(&pfd, 1, (int) (LAST_WORD_TIME / 4000)) == 0;
	send(servers[0].end, "end", 3, 0);
	close(servers[0].end);
	return NULL;
}

/* Close a connection whose server has sent something.  Returns how long that took. */
static ZkTime
part(bool connected, bool *waited_for)
{
	int			fd = dial(0);
	struct pollfd pfd = {.fd = fd,.events = POLLIN};
	pthread_t	thread;
	ZkTime		began;

	*waited_for = false;
	send(servers[0].end, "e", 1, 0);
	poll(&pfd, 1, -1);
	pthread_create(&thread, NULL, say_last_word, waited_for);
	send(fd, "bye", 3, 0);
	zk_socket_part(connected);
	began = zk_now();
	close(fd);
	began = zk_now() - began;
	zk_socket_parted();
	pthread_join(thread, NULL);
	return began;
}

static void
test_last_word(void)
{
	bool		waited_for = false;
	int			fd;
	ZkTime		took;

	zk_socket_prepare(true, INT_MAX, false, NULL);
	for (int i = 0; i < ROUNDS && !waited_for; i++)
		part(true, &waited_for);
	ok(waited_for, "S47: a session is closed when the server has read that");
	for (int i = 0; i < ROUNDS && waited_for; i++)
		part(false, &waited_for);
	ok(!waited_for, "S47: if the server was not told, nothing is waited for");

	fd = dial(0);
	zk_socket_part(true);
	took = zk_now();
	close(fd);
	took = zk_now() - took;
	ok(took >= LAST_WORD_TIME, "S47: a server that hangs is waited for so long");
	fd = dial(1);
	close(servers[0].end);
	for (int i = 0; i < ROUNDS && took >= LAST_WORD_TIME; i++)
	{
		servers[0].end = dup(fd);
		took = zk_now();
		close(servers[0].end);
		took = zk_now() - took;
	}
	ok(took < LAST_WORD_TIME, "S47: but no longer, and not with another socket");
	zk_socket_parted();
	hang_up(fd, 1);
}

/* Returns the error with which no socket is made; 0 if one is. */
static int
socket_error(int family)
{
	int			fd = socket(family, SOCK_STREAM, 0);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* With TLS the library cannot wait for descriptors that are too high. */
static void
test_descriptors(void)
{
	int			fd;
	int			next = dup(0);

	close(next);
	zk_socket_prepare(true, next - 1, false, NULL);
	is_int(socket_error(AF_INET), EMFILE, "S174: a socket that is too high is refused");
	ok(!zk_socket_is_open(), "S174: there is none then");
	zk_socket_prepare(true, next, false, NULL);
	fd = dial(0);
	is_int(fd, next, "S174: the highest that there can be is used");
	ok((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0, "S70: programs do not inherit it");
	hang_up(fd, 0);
	is_int(socket_error(-1), EAFNOSUPPORT, "S174: another error is as it was");
}

static void
test_peer(void)
{
	char		server[80];
	char		expected[80];
	int			port = 0;
	int			listening;
	int			fd;

	zk_socket_prepare(true, INT_MAX, false, NULL);
	fd = dial(0);
	snprintf(expected, sizeof(expected), "127.0.0.1:%d", servers[0].port);
	ok(zk_socket_peer(server, sizeof(server)), "a server has an address");
	is_str(server, expected, "which is shown");
	hang_up(fd, 0);
	ok(!zk_socket_peer(server, sizeof(server)), "without a connection there is none");

	listening = loopback_listen(AF_INET6, 1, &port);
	if (listening < 0)
		return;
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	ok(loopback_connect(fd, AF_INET6, port) == 0 && zk_socket_peer(server, sizeof(server)),
	   "one of IPv6 has one, too");
	snprintf(expected, sizeof(expected), "[::1]:%d", port);
	is_str(server, expected, "in brackets");
	close(fd);
	close(listening);
}

/* What is no server is seen through, and the client hears of it when the library ends. */
static void
test_strangers(void)
{
	char		detail[ZK_DETAIL_SIZE];
	char		data[sizeof(http_answer)];
	int			fd;

	zk_socket_prepare(true, INT_MAX, false, count_end);
	zk_socket_processed(NULL, ZSSLCONNECTIONERROR);
	ok(!zk_socket_is_stuck() && ends == 0, "without a socket, TLS has failed as it may");
	fd = dial(0);
	zk_socket_processed(NULL, ZOK);
	zk_socket_processed(NULL, ZNOTHING);
	zk_socket_processed(NULL, ZCONNECTIONLOSS);
	ok(!zk_socket_met_no_server() && ends == 0, "a connection may be lost");

	zk_log_clear_error();
	send(servers[0].end, http_answer, sizeof(http_answer), 0);
	ok(__wrap_recv(fd, data, sizeof(data), 0) == -1 && errno == EPROTO,
	   "S220: an answer that no server gives is not passed on");
	ok(zk_socket_met_no_server(), "S220: what gave it is no server");
	zk_log_last_error(detail);
	ok(strstr(detail, "The connection to 127.0.0.1:") == detail, "S220: which is said: %s", detail);
	zk_socket_processed(NULL, ZCONNECTIONLOSS);
	is_int(ends, 1, "S220: the client looks at that");
	zk_socket_processed(NULL, ZCONNECTIONLOSS);
	is_int(ends, 1, "S220: once");

	zk_socket_processed(NULL, ZSSLCONNECTIONERROR);
	ok(zk_socket_is_stuck() && ends == 2, "with a socket, the library goes round in circles");
	hang_up(fd, 0);
	zk_socket_prepare(true, INT_MAX, false, NULL);
	ok(!zk_socket_met_no_server() && !zk_socket_is_stuck(), "the next handle knows nothing of that");
	ok(zk_socket_hears_out(), "servers are heard out");
}

/*-------------------------------------------------------------------------
 * What leaves
 *-------------------------------------------------------------------------
 */

/* Calls that send. */
static int	sends;

/* In the place of libc's, which packets.c calls. */
ssize_t
sendmsg(int fd, const struct msghdr *message, int flags)
{
	sends++;
	return syscall(SYS_sendmsg, fd, message, flags);
}

/* Bytes that differ from their neighbours. */
static unsigned char
pattern(size_t at)
{
	return (unsigned char) (at * 7 + at / 251);
}

/* Have the library send a packet of so many bytes of the pattern.  Returns those sent. */
static size_t
send_packet(int fd, size_t size)
{
	unsigned char *packet = malloc(size);
	uint32_t	length = htonl((uint32_t) size);
	ssize_t		sent = send(fd, &length, sizeof(length), 0);

	for (size_t i = 0; i < size; i++)
		packet[i] = pattern(i);
	if (sent == sizeof(length))
		sent = send(fd, packet, size, 0);
	free(packet);
	return sent > 0 ? (size_t) sent : 0;
}

/* Returns true if so many bytes come to a server, which are packets of this size. */
static bool
packets_come(int server, size_t count, size_t size)
{
	size_t		total = count * (sizeof(uint32_t) + size);
	unsigned char *got = malloc(total + 1);
	bool		good = recv(servers[server].end, got, total, MSG_WAITALL) == (ssize_t) total &&
	recv(servers[server].end, got + total, 1, MSG_DONTWAIT) == -1;

	for (size_t i = 0; good && i < total; i++)
	{
		size_t		at = i % (sizeof(uint32_t) + size);
		uint32_t	length = htonl((uint32_t) size);

		good = got[i] == (at < sizeof(length) ? ((unsigned char *) &length)[at] :
						  pattern(at - sizeof(length)));
	}
	free(got);
	return good;
}

/* The library's function: what it was called with; it may read. */
static int	process_events;
static int	process_errno;

static int
try_to_read(zhandle_t *zh, int events)
{
	char		c;

	(void) zh;
	process_events = events;
	process_errno = 0;
	if ((events & ZOOKEEPER_READ) && __wrap_recv(processed_fd, &c, 1, MSG_DONTWAIT) < 0)
		process_errno = errno;
	return ZNOTHING;
}

/* What a thread sends in one go leaves in one call. */
static void
test_gathering(void)
{
	unsigned char hundred[100];
	int			fd = dial(0);

	zk_socket_gather();
	sends = 0;
	for (int i = 0; i < 10; i++)
		send_packet(fd, 100);
	is_int(sends, 0, "S387: what is gathered is kept");
	is_int(zk_packets_kept(fd), EAGAIN, "S387: which is known");
	is_int(zk_socket_send_gathered(), 0, "S387: and sent at the end");
	ok(sends == 1 && packets_come(0, 10, 100), "S387: in one call, all of it, in order");

	zk_socket_gather();
	for (int i = 0; i < 100; i++)
		send_packet(fd, 100);
	zk_socket_send_gathered();
	ok(sends <= 5 && packets_come(0, 100, 100), "S387: more than can be kept, in few calls");

	sends = 0;
	zk_socket_gather();
	is_int((int) send_packet(fd, 100000), 100000, "S387: a long packet bypasses that");
	is_int(zk_socket_send_gathered(), 0, "S387: and leaves nothing");
	ok(sends == 1 && packets_come(0, 1, 100000), "S387: in one call, with its length");

	sends = 0;
	zk_socket_gather();
	send_packet(fd, 100);
	send(fd, "\0\0\0\144", sizeof(uint32_t), 0);
	is_int(zk_packets_flush(fd), EAGAIN, "S387: a length waits for its packet");
	ok(sends == 1 && packets_come(0, 1, 100), "S387: but nothing else does");
	ok(zk_packets_flush(fd) == EAGAIN && sends == 1, "S387: whoever sends then");
	for (size_t i = 0; i < sizeof(hundred); i++)
		hundred[i] = pattern(i);
	send(fd, hundred, sizeof(hundred), 0);
	is_int(zk_socket_send_gathered(), 0, "S387: and leaves with that");
	ok(sends == 2 && packets_come(0, 1, 100), "S387: in one call");

	zk_socket_gather();
	is_int(zk_socket_send_gathered(), 0, "nothing is gathered");
	is_int(zk_packets_kept(servers[0].end), 0, "nothing is kept for another socket");
	hang_up(fd, 0);
}

/* Have the library send packets until the socket takes no more.  Returns how many. */
static size_t
fill_socket(int fd, size_t size)
{
	size_t		count = 0;
	int			rc;

	do
	{
		zk_socket_gather();
		for (int i = 0; i < 10; i++)
			count += send_packet(fd, size) == size;
		rc = zk_socket_send_gathered();
	} while (rc == 0);
	is_int(rc, EAGAIN, "S387: a socket has no room for all that");
	return count;
}

/* What a server is to read, and whether it has. */
static size_t expected_packets;
static bool has_all;

static void *
read_all(void *arg)
{
	(void) arg;
	has_all = packets_come(0, expected_packets, 100);
	return NULL;
}

/* What is left over is sent when there is room. */
static void
test_full_socket(void)
{
	int			fd = dial(0);
	int			size = 4096;
	int			interest = 0;
	struct timeval timeout = {.tv_sec = 5};
	struct pollfd pfd = {.fd = fd,.events = POLLOUT};
	pthread_t	thread;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	expected_packets = fill_socket(fd, 100);
	zk_socket_watch(fd, &interest, &timeout);
	ok(interest == ZOOKEEPER_WRITE && timeout.tv_sec == 5,
	   "S387: the I/O thread waits until there is room");
	zk_socket_process(NULL, 0, try_to_read);
	is_int(zk_packets_kept(fd), EAGAIN, "S387: and does nothing before that");
	pthread_create(&thread, NULL, read_all, NULL);
	for (int i = 0; i < 1000 && zk_packets_kept(fd) == EAGAIN; i++)
	{
		poll(&pfd, 1, -1);
		zk_socket_process(NULL, ZOOKEEPER_WRITE, try_to_read);
	}
	is_int(process_events, ZOOKEEPER_WRITE, "S387: which the library hears of, too");
	pthread_join(thread, NULL);
	ok(has_all, "S387: all comes, in order");
	interest = 0;
	zk_socket_watch(fd, &interest, &timeout);
	is_int(interest, 0, "S387: then it does not wait for room");
	hang_up(fd, 0);

	fd = dial(0);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	fill_socket(fd, 100);
	hang_up(fd, 0);
	is_int(dial(0), fd, "the next connection has the same descriptor");
	is_int(zk_packets_kept(fd), 0, "S387: nothing is kept for it");
	zk_socket_gather();
	send_packet(fd, 100);
	zk_socket_send_gathered();
	ok(packets_come(0, 1, 100), "S387: and it begins with what is sent by it");
	hang_up(fd, 0);
}

/* An error is met by the library. */
static void
test_failing(void)
{
	int			fd = dial(0);
	int			interest = ZOOKEEPER_READ;
	struct timeval timeout = {.tv_sec = 5};

	processed_fd = fd;
	shutdown(fd, SHUT_WR);
	zk_socket_gather();
	send_packet(fd, 100);
	is_int(zk_socket_send_gathered(), EPIPE, "S387: sending fails");
	zk_socket_watch(fd, &interest, &timeout);
	ok(interest == ZOOKEEPER_READ && timeout.tv_sec == 0, "S387: the I/O thread does not wait then");
	zk_socket_process(NULL, 0, try_to_read);
	is_int(process_events, ZOOKEEPER_READ, "S387: but has the library read");
	is_int(process_errno, EPIPE, "S387: and fail");
	ok(send_packet(fd, 100) == 0 && errno == EPIPE, "S387: as it does when it sends");
	hang_up(fd, 0);
	fd = dial(0);
	is_int(zk_packets_kept(fd), 0, "S387: the next connection is good");
	hang_up(fd, 0);
}

/*-------------------------------------------------------------------------
 * What comes
 *-------------------------------------------------------------------------
 */

/* A packet of the stream: an event, of which the longest is longer than what is buffered. */
#define EVENTS			40
#define LONGEST_PATH	9000
#define EVENT_HEAD		(16 + 4 + 4 + 4)

/* The packet that the library reads now, and how many it has had. */
static struct
{
	size_t		have;
	uint32_t	word;
	uint32_t	length;
	unsigned char *body;
	int			packets;
	bool		wrong;
}			library;

static size_t
path_size(int event)
{
	return event == EVENTS / 2 ? LONGEST_PATH : 2 + (size_t) event * 3;
}

/* Write the event with this number, as a packet.  Returns its bytes. */
static size_t
write_event(int event, unsigned char *to)
{
	size_t		path = path_size(event);
	uint32_t	words[] = {
		htonl((uint32_t) (EVENT_HEAD + path)), 0xffffffff, 0xffffffff, 0xffffffff, 0,
		htonl(1), htonl(3), htonl((uint32_t) path)
	};

	memcpy(to, words, sizeof(words));
	memset(to + sizeof(words), 'a' + event % 26, path);
	to[sizeof(words)] = '/';
	return sizeof(words) + path;
}

/* Is the packet that the library has the one that is next? */
static bool
is_next_event(void)
{
	static unsigned char expected[EVENT_HEAD + 4 + LONGEST_PATH];
	size_t		size = write_event(library.packets, expected);

	return library.packets < EVENTS && library.length == size - 4 &&
		memcmp(library.body, expected + 4, size - 4) == 0;
}

/* As recv_buffer() of the library: a length, then the packet, as far as they have come. */
static int
read_packet(zhandle_t *zh, int events)
{
	ssize_t		got;

	(void) zh;
	if (!(events & ZOOKEEPER_READ))
		return ZOK;
	if (library.have < 4)
	{
		got = __wrap_recv(processed_fd, (char *) &library.word + library.have, 4 - library.have, 0);
		if (got <= 0)
			return got < 0 && errno == EAGAIN ? ZNOTHING : ZCONNECTIONLOSS;
		library.have += (size_t) got;
		if (library.have < 4)
			return ZNOTHING;
		library.length = ntohl(library.word);
		library.body = calloc(1, library.length);
	}
	got = __wrap_recv(processed_fd, library.body + library.have - 4, library.length + 4 - library.have, 0);
	if (got <= 0)
		return got < 0 && errno == EAGAIN ? ZNOTHING : ZCONNECTIONLOSS;
	library.have += (size_t) got;
	if (library.have < library.length + 4)
		return ZNOTHING;
	library.wrong |= !is_next_event();
	library.packets++;
	library.have = 0;
	free(library.body);
	library.body = NULL;
	return ZOK;
}

/* Wait for something to read. */
static bool
something_comes(int fd)
{
	struct pollfd pfd = {.fd = fd,.events = POLLIN};

	return poll(&pfd, 1, 5000) == 1;
}

/* Connect and have the handshake, so that events may come. */
static int
shake_hands(void)
{
	static const unsigned char hello[45] = {0, 0, 0, 41};
	static const unsigned char get[12] = {0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 4};
	unsigned char greeting[41] = {
		0, 0, 0, 37, 0, 0, 0, 0, 0, 0, 0x0f, 0xa0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 16
	};
	int			fd = dial(0);

	fcntl(fd, F_SETFL, O_NONBLOCK);
	send(fd, hello, 4, 0);
	send(fd, hello + 4, sizeof(hello) - 4, 0);
	send(servers[0].end, greeting, sizeof(greeting), 0);
	if (!something_comes(fd) ||
		__wrap_recv(fd, greeting, sizeof(greeting), 0) != sizeof(greeting))
		diag("no handshake: %m");
	send(fd, get, 4, 0);
	send(fd, get + 4, sizeof(get) - 4, 0);
	memset(&library, 0, sizeof(library));
	processed_fd = fd;
	receives = receives_in_vain = 0;
	return fd;
}

/* The I/O thread goes on as long as something comes.  Returns how often it waits for it. */
static int
read_events(int fd)
{
	struct pollfd pfd = {.fd = fd,.events = POLLIN};
	int			waits = 0;

	while (poll(&pfd, 1, 0) == 1)
	{
		waits++;
		if (zk_socket_process(NULL, ZOOKEEPER_READ, read_packet) == ZCONNECTIONLOSS)
			break;
	}
	return waits;
}

/* Send these bytes in pieces of a size, each of which has come before it is read. */
static void
send_pieces(int fd, const unsigned char *bytes, size_t size, size_t piece)
{
	int			pending;
	size_t		most;

	for (size_t at = 0; at < size; at += most)
	{
		most = size - at < piece ? size - at : piece;
		send(servers[0].end, bytes + at, most, 0);
		for (int i = 0; i < 10000; i++)
		{
			if (ioctl(fd, FIONREAD, &pending) == 0 && pending >= (int) most)
				break;
			usleep(10);
		}
		read_events(fd);
	}
}

static void
test_input(void)
{
	static unsigned char bytes[EVENTS * (EVENT_HEAD + 4 + 2 + EVENTS * 3) + LONGEST_PATH];
	static const size_t pieces[] = {
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
		63, 64, 65, 100, 127, 128, 500, 1000, 1460, 4095, 4096, 4097, 4100, 8191, 8192, 8193, 12000
	};
	size_t		size = 0;
	size_t		few = 0;
	int			good = 0;
	int			fd;
	int			waits;

	for (int i = 0; i < EVENTS; i++)
	{
		size += write_event(i, bytes + size);
		if (i == 9)
			few = size;
	}

	fd = shake_hands();
	send(servers[0].end, bytes, few, 0);
	something_comes(fd);
	waits = read_events(fd);
	ok(library.packets == 10 && !library.wrong, "ten packets of one segment are read");
	ok(waits == 1 && receives == 1, "after one wait, in one call");
	hang_up(fd, 0);

	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
	{
		bool		vain;

		fd = shake_hands();
		send_pieces(fd, bytes, size, pieces[i]);
		vain = receives_in_vain > 0 && pieces[i] != 4096 && pieces[i] != 8192;
		if (library.packets == EVENTS && !library.wrong && !vain)
			good++;
		else
			diag("pieces of %zu: %d packets, %d calls, %d in vain", pieces[i], library.packets,
				 receives, receives_in_vain);
		free(library.body);
		hang_up(fd, 0);
	}
	is_int(good, (int) (sizeof(pieces) / sizeof(pieces[0])), "in pieces of any size, too");

	fd = shake_hands();
	library.packets = EVENTS / 2;
	send(servers[0].end, bytes, write_event(EVENTS / 2, bytes), 0);
	for (int pending = 0; pending < LONGEST_PATH;)
		ioctl(fd, FIONREAD, &pending);
	waits = read_events(fd);
	ok(library.packets == EVENTS / 2 + 1 && !library.wrong, "a long packet is read");
	ok(waits == 1 && receives == 2, "what does not fit is received directly");
	hang_up(fd, 0);
}

/* A connection is closed while something is in the input: the next one begins without it. */
static int
close_within(zhandle_t *zh, int events)
{
	int			rc = read_packet(zh, events);

	if (library.packets < 2)
		return rc;
	close(processed_fd);
	return ZCONNECTIONLOSS;
}

static void
test_closing_with_input(void)
{
	unsigned char bytes[1000];
	size_t		size = 0;
	int			fd = shake_hands();

	for (int i = 0; i < 5; i++)
		size += write_event(i, bytes + size);
	send(servers[0].end, bytes, size, 0);
	something_comes(fd);
	zk_socket_process(NULL, ZOOKEEPER_READ, close_within);
	is_int(library.packets, 2, "a connection is closed with three packets unread");
	close(servers[0].end);

	is_int(shake_hands(), fd, "the next one has the same descriptor");
	size = write_event(0, bytes);
	send(servers[0].end, bytes, size, 0);
	something_comes(fd);
	read_events(fd);
	ok(library.packets == 1 && !library.wrong, "and begins with its own packets");
	close(servers[0].end);
	send(servers[0].end, bytes, 0, 0);
	something_comes(fd);
	is_int(zk_socket_process(NULL, ZOOKEEPER_READ, read_packet), ZCONNECTIONLOSS,
		   "its end is seen");
	close(fd);
}

int
main(void)
{
	start_servers();
	test_passing_over();
	test_breaking();
	test_closing();
	test_last_word();
	test_descriptors();
	test_peer();
	test_strangers();
	test_gathering();
	test_full_socket();
	test_failing();
	test_input();
	test_closing_with_input();
	return done_testing();
}

#else

int
main(void)
{
	return skip_all("the client library is a shared one");
}

#endif							/* ZKLOCK_STATIC_LIBRARY */
