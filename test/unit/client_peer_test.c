/*-------------------------------------------------------------------------
 *
 * client_peer_test.c
 *	  The lock client against peers that do not behave as ZooKeeper does.
 *
 * Between the client and the ensemble that ZK_SERVERS names there is a proxy,
 * which is at times an HTTP server, falls silent, or sends what no server sends.
 * The client must neither believe it, nor wait for it, nor crash.
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* the library's synchronous functions, too */

#include <assert.h>
#include <sys/wait.h>

#include "client_proxied.h"

static void
test_stop_frozen(void)
{
	char		node[128];
	char		path[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus status;
	ZkTime		began;
	ZkTime		took;
	int			rounds = 0;
	bool		stopped;

	make_node(node, "stop");
	id = acquire(node, ZK_EXCLUSIVE);

	/* once more if it took long: the machine may have stood still */
	do
	{
		zk_contender_status(client, id, &status);
		snprintf(path, sizeof(path), "%s/%s", node, status.name);
		proxy_freeze();
		began = zk_now();
		stopped = zk_client_stop(client, 300);
		took = zk_now() - began;
		start_client(proxied, TIMEOUT_MS);
		id = request(node, ZK_EXCLUSIVE);
		proxy_thaw();
		ok(wait_state(id, ZK_HELD, &status), "the next client gets on");
		ok(wait_absent(path), "the lock of the one before is gone");
	} while ((stopped || took >= ZK_MS(2000)) && ++rounds < 5);
	ok(!stopped, "a client cannot close its session behind a frozen link");
	ok(took >= ZK_MS(300) && took < ZK_MS(2000),
	   "the stop waits no longer than allowed (S47)");
	proxy_refuse(true);
	proxy_cut();
	wait_session(ZK_SESSION_SUSPENDED);
	began = zk_now();
	ok(zk_client_stop(client, 30000), "a client without a connection stops");
	ok(zk_now() - began < ZK_MS(10000), "at once");
	proxy_refuse(false);
}

/* Replies of peers that are not ZooKeeper servers. */
static const char http_answer[] =
"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/* A handshake with a session timeout of 0: 36 bytes follow the length. */
static const char zero_answer[41] = "\0\0\0\x25" "\0\0\0\0" "\0\0\0\0"
"\1\2\3\4\5\6\7\x8" "\0\0\0\x10" "0123456789abcdef";

static void
test_fake_peer(const void *answer, size_t size, const char *what)
{
	char		node[128];
	ZkContenderId id;
	ZkContenderStatus contender;
	ZkSessionStatus status;
	ZkTime		deadline;

	make_node(node, what);
	proxy_impersonate(answer, size);
	start_client(proxied, TIMEOUT_MS);
	id = request(node, ZK_EXCLUSIVE);
	deadline = zk_now() + (size > 0 ? DEADLINE : ZK_MS(500));
	do
	{
		wait_event();
		zk_client_status(client, &status);
	} while (status.error == ZK_OK && zk_now() < deadline);
	if (size > 0)
	{
		is_int(status.error, ZK_ERR_NOT_ZOOKEEPER, "%s: seen through", what);
		ok(status.definite, "%s: not worth waiting for", what);
	}
	else
		is_int(status.state, ZK_SESSION_CONNECTING, "%s: waited for", what);
	proxy_impersonate(NULL, 0);
	proxy_cut();
	ok(wait_state(id, ZK_HELD, &contender),
	   "%s: the real one is found when it is back", what);
	ok(zk_client_stop(client, 30000), "%s: the client stops", what);
}

/*
 * The real one is back: a session that is asked for comes about, and goes.
 */
static void
check_connect(void)
{
	proxy_impersonate(NULL, 0);
	zk_client_connect(client, 30000);
	wait_session(ZK_SESSION_CONNECTED);
	ok(zk_client_stop(client, 30000), "the client stops");
}

/*
 * A session that is asked for as such: there without a request, and not tried for when
 * time is up, or there is a reason against it.
 */
static void
test_connect(void)
{
	ZkSessionStatus status;
	ZkTime		deadline;

	start_client(proxied, TIMEOUT_MS);
	zk_client_connect(client, 30000);
	wait_session(ZK_SESSION_CONNECTED);
	zk_client_status(client, &status);
	is_int(status.sessions, 1, "a session is there before it is needed (S150)");
	ok(zk_client_stop(client, 30000), "the client stops");

	proxy_impersonate("", 0);
	start_client(proxied, TIMEOUT_MS);
	zk_client_connect(client, 1000);
	wait_session(ZK_SESSION_CONNECTING);
	wait_session(ZK_SESSION_CLOSED);
	zk_client_status(client, &status);
	is_int(status.state, ZK_SESSION_CLOSED,
		   "the client stops connecting when the time is up (S150)");
	check_connect();

	proxy_impersonate(http_answer, sizeof(http_answer) - 1);
	start_client(proxied, TIMEOUT_MS);
	zk_client_connect(client, 60000);
	deadline = zk_now() + DEADLINE;
	do
	{
		wait_event();
		zk_client_status(client, &status);
	} while ((!status.definite || status.state != ZK_SESSION_CLOSED) &&
			 zk_now() < deadline);
	is_int(status.state, ZK_SESSION_CLOSED,
		   "nor when there is a reason against it (S150)");
	is_int(status.error, ZK_ERR_NOT_ZOOKEEPER,
		   "which is reported");
	check_connect();
}

/*
 * An answer to no request, and to the wrong one, ends the connection and nothing else.
 */
static void
test_nonsense(const void *packet, size_t size, const char *what)
{
	char		node[128];
	ZkContenderId id;
	ZkSessionStatus before;
	ZkSessionStatus status;
	ZkTime		deadline = zk_now() + DEADLINE;

	node_path(node, "nonsense");
	id = acquire(node, ZK_EXCLUSIVE);
	zk_client_status(client, &before);
	proxy_inject(packet, size);
	do
	{
		wait_event();
		zk_client_status(client, &status);
	} while (status.reconnects == before.reconnects && zk_now() < deadline);
	ok(status.reconnects > before.reconnects && wait_session(ZK_SESSION_CONNECTED), "%s ends the connection (S220)", what);
	ok(zk_contender_lease_runs(client, id), "%s: a lock is held on", what);
	ok(release(id), "%s: and released", what);
}

/*
 * A failed check of the library, which would end the process: another thread fails one
 * as the library would.
 */
static void *
fail_check(void *arg)
{
	(void) arg;
	assert(!"a check of the library");
	return NULL;
}

/* One of the things that can go wrong there, on a slow machine, too. */
#define STOPPED_LATE	7

/*
 * Runs in a process of its own, and returns the number of the
 * first thing that went wrong.  Its session is not closed, and keeps its lock for long:
 * each round has one of its own.
 */
static int
be_poisoned(int round)
{
	pthread_t	thread;
	ZkContenderId id;
	ZkContenderStatus status;
	ZkSessionStatus session;
	ZkError		error;
	ZkConfig	config = {.servers = proxied,.session_timeout_ms = TIMEOUT_MS};
	char		detail[ZK_DETAIL_SIZE];
	char		name[24];
	char		node[128];
	ZkTime		began;

	if (!proxy_start(servers, proxied, sizeof(proxied)))
		return 1;
	start_client(proxied, LONG_TIMEOUT_MS);
	snprintf(name, sizeof(name), "poisoned%d", round);
	node_path(node, name);
	id = acquire(node, ZK_EXCLUSIVE);
	if (!zk_contender_lease_runs(client, id))
		return 2;
	if (zk_thread_create(&thread, fail_check, NULL) != 0)
		return 9;
	if (!wait_state(id, ZK_LOST, &status) || status.loss != ZK_LOST_POISONED)
		return 3;
	if (zk_contender_lease_runs(client, id))
		return 4;
	if (wait_loss_signal() != 1)
		return 10;
	zk_client_status(client, &session);
	if (session.error != ZK_ERR_POISONED || !session.definite)
		return 5;
	if (request_or_error(node, ZK_SHARED, &error) != 0 ||
		error != ZK_ERR_POISONED)
		return 6;
	zk_contender_abandon(client, id);
	began = zk_now();
	zk_client_stop(client, 300);
	if (zk_now() - began > ZK_MS(2000))
		return STOPPED_LATE;
	if (zk_client_start(&config, &error, detail) != NULL ||
		error != ZK_ERR_POISONED)
		return 8;
	return 0;
}

static void
test_poisoned(void)
{
	int			status = -1;
	int			rounds = 0;

	/* once more if the stop took long: the machine may have stood still */
	do
	{
		pid_t		child;

		fflush(stdout);
		child = fork();
		if (child == 0)
			_exit(be_poisoned(rounds));
		waitpid(child, &status, 0);
	} while (WIFEXITED(status) && WEXITSTATUS(status) == STOPPED_LATE && ++rounds < 5);
	ok(WIFEXITED(status), "a failed check of the library ends no process");
	is_int(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0,
		   "it loses the locks, and nothing works any more");
}

int
main(void)
{
	if (!find_servers("client_peer_test"))
		return 1;
	test_poisoned();			/* first: it forks, so no thread may be there */

	if (!open_proxied())
		return 1;
	start_client(proxied, LONG_TIMEOUT_MS);
	test_nonsense("\0\0\0\x10" "\0\0\0\1" "\0\0\0\0\0\0\0\1" "\0\0\0\0", 20,
				  "an answer to no request");
	test_nonsense("\0\0\0\x10" "\xff\xff\xff\xfc" "\0\0\0\0\0\0\0\0" "\0\0\0\0", 20,
				  "an answer to no credential");
	test_nonsense("\0\0\0\4" "\0\0\0\1", 8, "a packet without a header");
	restart_client(proxied, TIMEOUT_MS);	/* this waits for sessions to end */
	test_stop_frozen();
	test_fake_peer(http_answer, sizeof(http_answer) - 1, "an HTTP server");
	test_fake_peer(zero_answer, sizeof(zero_answer), "a timeout of 0");
	test_fake_peer("", 0, "silence");
	test_connect();
	zookeeper_close(stranger);
	proxy_stop();
	return done_testing();
}
