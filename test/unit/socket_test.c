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
	ok(recv(fd, data, sizeof(data), 0) == -1 && errno == EPROTO,
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
	return done_testing();
}

#else

int
main(void)
{
	return skip_all("the client library is a shared one");
}

#endif							/* ZKLOCK_STATIC_LIBRARY */
