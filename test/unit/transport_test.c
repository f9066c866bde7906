/*-------------------------------------------------------------------------
 *
 * transport_test.c
 *	  Tests of transport.c: handles that are opened, looked at and closed, without a server.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inside.h"
#include "log_lines.h"
#include "loopback.h"
#include "tap.h"
#include "wiped.h"
#include "zk_check.h"

/* The highest free descriptor with which TLS is tried: see transport.c. */
#define MAX_FREE_DESCRIPTOR	900

/* How long to wait for a connection, in milliseconds. */
#define DEADLINE	60000

static const char http_answer[] = "HTTP/1.1 400 Bad Request\r\n\r\n";

/* For the events of a session, of which there are none. */
static void
watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	(void) zh;
	(void) type;
	(void) state;
	(void) path;
	(void) context;
}

/* Make a transport by that text (-1: plain), of which only the kind matters. */
static bool
init_transport(ZkTransport *transport, int text)
{
	ZkConfig	config = {0};
	static char value[] = "none";

	memset(transport, 0, sizeof(*transport));
	if (text >= 0)
		config.transport[text] = value;
	return zk_transport_init(transport, &config);
}

static void
make_transport(ZkTransport *transport, int text)
{
	ok(init_transport(transport, text), "a transport is made");
}

/* Open a handle to so many servers; NULL if that fails. */
static zhandle_t *
open_handle(const ZkTransport *transport, const char *addresses, int count, ZkError *error,
			char *detail)
{
	char		text[64];
	ZkServers	servers = {.addresses = text,.count = count};
	ZkHandleWish wish = {.watcher = watch,.session_timeout_ms = 10000};

	snprintf(text, sizeof(text), "%s", addresses);
	return zk_transport_open(transport, &servers, &wish, error, detail);
}

static void
test_opening(void)
{
	ZkTransport transport;
	ZkError		error = ZK_OK;
	char		detail[ZK_DETAIL_SIZE] = "before";
	zhandle_t  *zh;
	extern const int ZOO_SSL_CONNECTING_STATE;

	make_transport(&transport, -1);
	ok(zk_transport_check(&transport, &error, detail), "without TLS there is nothing to check");
	is_int(error, ZK_OK, "which is no error");
	is_str(detail, "", "and has no reason");
	zh = open_handle(&transport, "127.0.0.1:1", 1, &error, detail);
	ok(zh != NULL, "a handle is opened");
	is_int(zk_transport_look(&transport, zh, false, &error, detail), ZK_HANDLE_WORKS, "it works");
	zk_transport_close(&transport, zh, true);
	ok(!zk_socket_given_up(), "the next one may connect");
	ok(zk_transport_connecting(ZOO_SSL_CONNECTING_STATE) &&
	   !zk_transport_connecting(ZOO_CONNECTING_STATE), "a handshake of TLS is told from others");

	ok(open_handle(&transport, "nonsense", 1, &error, detail) == NULL, "S63: the library has no use for that");
	is_int(error, ZK_ERR_UNREACHABLE, "S63: which is an error");
	is_str(detail, "Could not set up the ZooKeeper client library: Invalid argument.", "S63: with a reason");
	zk_transport_free(&transport);
}

/* How many threads this process has. */
static int
count_threads(void)
{
	DIR		   *tasks = opendir("/proc/self/task");
	int			count = 0;

	while (readdir(tasks) != NULL)
		count++;
	closedir(tasks);
	return count - 2;
}

/* Returns true if it has so many in the end: one that was joined may still show. */
static bool
has_threads(int count)
{
	for (int i = 0; i < DEADLINE && count_threads() != count; i++)
		poll(NULL, 0, 1);
	return count_threads() == count;
}

/* Lets this user create processes and threads, or not, as far as it ever may. */
static void
allow_threads(bool allowed)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NPROC, &limit);
	limit.rlim_cur = allowed ? limit.rlim_max : 0;
	setrlimit(RLIMIT_NPROC, &limit);
}

static void *
do_nothing(void *arg)
{
	return arg;
}

/* Returns true if a thread can be created. */
static bool
thread_comes(void)
{
	pthread_t	thread;

	if (zk_thread_create(&thread, do_nothing, NULL) != 0)
		return false;
	pthread_join(thread, NULL);
	return true;
}

/* The library's threads: it would fail a check without them. */
static void
test_threads(void)
{
	int			before = count_threads();
	ZkTransport transport;
	ZkError		error = ZK_OK;
	char		detail[ZK_DETAIL_SIZE] = "";
	zhandle_t  *zh;

	make_transport(&transport, -1);
	ok(open_handle(&transport, "nonsense", 1, &error, detail) == NULL, "S370: a handle is not opened");
	ok(has_threads(before), "S370: and leaves no thread behind");

	allow_threads(false);
	if (thread_comes())
		diag("this user can always create threads");
	else
	{
		ok(open_handle(&transport, "127.0.0.1:1", 1, &error, detail) == NULL,
		   "S370: without a thread no handle is opened");
		is_int(error, ZK_ERR_NO_THREAD, "S370: which is the error");
		is_str(detail, "Could not create a thread.", "S370: with a reason");
	}
	allow_threads(true);
	zh = open_handle(&transport, "127.0.0.1:1", 1, &error, detail);
	ok(zh != NULL && !zk_poisoned, "S370: the next one is opened");
	zk_transport_close(&transport, zh, true);
	ok(has_threads(before), "S370: no thread is left of that, either");
	zk_transport_free(&transport);
}

/*
 * Returns true if a server is passed over after its connection was broken.  It is in the
 * list so many times.
 */
static bool
is_passed_over(int count)
{
	int			port = 0;
	int			listening = loopback_listen(AF_INET, 8, &port);
	ZkTransport transport;
	ZkError		error;
	char		detail[ZK_DETAIL_SIZE];
	char		list[64];
	zhandle_t  *zh;
	int			first;
	int			second;

	snprintf(list, sizeof(list), "127.0.0.1:%d,127.0.0.1:%d", port, port);
	if (count == 1)
		*strchr(list, ',') = '\0';
	make_transport(&transport, -1);
	zh = open_handle(&transport, list, count, &error, detail);
	first = loopback_accept(listening, DEADLINE);
	ok(zk_socket_break_connection(zk_socket_connecting_since(0)), "a connection is broken");
	second = loopback_accept(listening, DEADLINE);
	zk_transport_close(&transport, zh, true);
	zk_transport_free(&transport);
	close(first);
	close(second);
	close(listening);
	return take_log_lines("Connection timed out") > 0;
}

static void
test_several(void)
{
	if (!zk_socket_hears_out())
		return;					/* a shared library passes over none */
	ok(is_passed_over(2), "S334: one of several servers is passed over");
	ok(!is_passed_over(1), "S334: the only one is not");
}

/* What a handle has come to is known by what it has met. */
static void
test_looking(void)
{
	ZkTransport plain;
	ZkTransport tls;
	ZkTransport sasl;
	ZkError		error = ZK_OK;
	char		detail[ZK_DETAIL_SIZE] = "";
	char		answer[sizeof(http_answer)];
	zhandle_t  *zh;
	int			fd;

	make_transport(&plain, -1);
	make_transport(&tls, ZK_TLS_CA);
	make_transport(&sasl, ZK_SASL_MECHANISM);
	zh = open_handle(&plain, "127.0.0.1:1", 1, &error, detail);
	is_int(zk_transport_look(&sasl, zh, false, &error, detail), ZK_HANDLE_WORKS,
		   "S177: a handle that is not connected is not refused");
	is_int(error, ZK_OK, "S177: that is no error");

	/* another one than the handle's, which has none */
	fd = socket(AF_INET, SOCK_STREAM, 0);
	zk_socket_processed(zh, ZSSLCONNECTIONERROR);
	is_int(zk_transport_look(&plain, zh, false, &error, detail), ZK_HANDLE_WORKS,
		   "without TLS its files do not matter");
	is_int(zk_transport_look(&tls, zh, false, &error, detail), ZK_HANDLE_USELESS,
		   "with TLS a handle that cannot use them is useless");
	is_int(error, ZK_ERR_TLS_FILES, "and that is the error");

	memcpy(answer, http_answer, sizeof(answer));
	zk_socket_received(fd, answer, sizeof(answer));
	is_int(zk_transport_look(&plain, zh, true, &error, detail), ZK_HANDLE_WORKS,
		   "S220: a session outlives what is no server");
	is_int(zk_transport_look(&plain, zh, false, &error, detail), ZK_HANDLE_USELESS,
		   "S220: which makes none");
	is_int(error, ZK_ERR_NOT_ZOOKEEPER, "S220: that is the error");
	is_str(detail, ZK_NOT_ZOOKEEPER, "S220: with a reason");
	close(fd);
	zk_transport_close(&plain, zh, true);
	zk_transport_free(&plain);
	zk_transport_free(&tls);
	zk_transport_free(&sasl);
}

static void
test_texts(void)
{
	ZkTransport transport;

	make_transport(&transport, ZK_SASL_PASSWORD);
	is_str(transport.texts[ZK_SASL_PASSWORD], "none", "texts are copied");
	expect_wiped(transport.texts[ZK_SASL_PASSWORD], transport.texts[ZK_SASL_PASSWORD],
				 strlen("none"));
	zk_transport_free(&transport);
	ok(wiped, "S113: they are wiped and freed");
	ok(transport.texts[ZK_SASL_PASSWORD] == NULL, "once");
	zk_transport_free(&transport);
}

/* TLS needs a descriptor that is not too high. */
static void
test_descriptors(void)
{
	struct rlimit limit = {2 * MAX_FREE_DESCRIPTOR, 2 * MAX_FREE_DESCRIPTOR};
	ZkTransport transport;
	ZkError		error = ZK_OK;
	char		detail[ZK_DETAIL_SIZE] = "";
	int			last;

	if (!zk_tls_supported())
		return;
	setrlimit(RLIMIT_NOFILE, &limit);
	make_transport(&transport, ZK_TLS_CA);
	do
		last = dup(0);
	while (last >= 0 && last < MAX_FREE_DESCRIPTOR - 1);
	ok(!zk_transport_check(&transport, &error, detail), "S174: with enough of them, the files are looked at");
	is_int(error, ZK_ERR_TLS_FILES, "S174: which are the error");
	last = dup(0);
	ok(!zk_transport_check(&transport, &error, detail), "S174: one less is too few");
	is_int(error, ZK_ERR_NO_DESCRIPTOR, "S174: which is the error");
	is_str(detail, "TLS requires file descriptors below 1024, and the next one of this process is 901.",
		   "S174: with a reason");
	zk_transport_free(&transport);
	for (; last > 100; last--)
		close(last);
}

/* What a function tells that exit() calls later than ours. */
static int	told[2];

static void
tell(void)
{
	if (write(told[1], "x", 1) != 1)
		_exit(1);
}

/* Returns true if exit() calls it, with a transport by a text (-1: plain), freed or not. */
static bool
exit_goes_on(int text, bool freed)
{
	ZkTransport transport;
	int			status = 0;
	char		c;
	pid_t		pid;

	fflush(stdout);
	if (pipe2(told, O_NONBLOCK) != 0)
		diag("no pipe");
	pid = fork();
	if (pid == 0)
	{
		atexit(tell);
		if (!init_transport(&transport, text))
			_exit(1);
		if (freed)
			zk_transport_free(&transport);
		exit(7);
	}
	waitpid(pid, &status, 0);
	is_int(WEXITSTATUS(status), 7, "S47: a process ends");
	close(told[1]);
	status = (int) read(told[0], &c, 1);
	close(told[0]);
	return status == 1;
}

/* Threads may be inside OpenSSL, which exit() would clean up. */
static void
test_exit(void)
{
	ok(!exit_goes_on(ZK_TLS_CA, false), "S47: with TLS it is cut short");
	ok(!exit_goes_on(ZK_SASL_MECHANISM, false), "S47: and with SASL");
	ok(exit_goes_on(ZK_TLS_CA, true), "S47: but not when the threads have ended");
	ok(exit_goes_on(-1, false), "S47: nor without either");
}

/* How many addresses a host has, with such flags; -1 for none. */
static int
count_addresses(const char *host, int flags)
{
	struct addrinfo hints = {.ai_flags = flags,.ai_family = AF_UNSPEC,.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	int			count = 0;

	if (getaddrinfo(host, "2181", &hints, &found) != 0)
		return -1;
	for (struct addrinfo *it = found; it != NULL; it = it->ai_next)
		count++;
	freeaddrinfo(found);
	return count;
}

/* As the library asks for them. */
static void
test_addresses(void)
{
	is_int(count_addresses("127.0.0.1", AI_ADDRCONFIG), 1, "S63: a number is an address");
	is_int(count_addresses("::1", AI_ADDRCONFIG), 1, "S63: also of IPv6");
	ok(count_addresses("localhost", 0) > 0, "S63: a name has an address");
	is_int(count_addresses("localhost", AI_NUMERICHOST), -1, "S63: if it may be a name");
}

int
main(void)
{
	test_exit();
	test_addresses();
	test_texts();
	test_opening();
	test_threads();
	test_several();
	test_looking();
	test_descriptors();
	return done_testing();
}
