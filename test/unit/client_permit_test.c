/*-------------------------------------------------------------------------
 *
 * client_permit_test.c
 *	  The lock client in the queue of a semaphore, against a real ensemble.
 *
 * ZK_SERVERS names the ensemble.  All others in the queue are strangers, whose
 * contenders are made, changed and deleted one by one, so that it is known which
 * event wakes which waiter.
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* the library's synchronous functions, too */

#include <stdlib.h>

#include "client_common.h"
#include "own_watch.h"
#include "request.h"

#define MANY	200

/* Ask for a permit with a description of the owner; it is not waited for. */
static ZkContenderId
request_permit_as(const char *node, int permits, const char *owner)
{
	ZkLockRequest wish = {
		.mode = ZK_PERMIT,.permits = permits,.owner = owner,
	};
	ZkContenderId id = 0;
	ZkError		error;

	zk_contenders_request(client, &wish, 1, &node, &id, &error);
	return id;
}

static ZkContenderId
request_permit(const char *node, int permits)
{
	return request_permit_as(node, permits, OWNER);
}

/* Make a stranger's contender; its full path, 256 bytes, is left in path. */
static void
queue_permit(const char *node, int permits, int number, char *path)
{
	char		base[ZK_NAME_SIZE];

	snprintf(base, sizeof(base), "_c_%08x-0000-4000-8000-000000000000-sem%d-",
			 (unsigned) number, permits);
	stranger_queues(node, base, path, 256);
}

/* The name of the contender of that path. */
static const char *
name_of(const char *path)
{
	return strrchr(path, '/') + 1;
}

/* Wait until a waiter is behind that contender and so many must go first. */
static bool
wait_place(ZkContenderId id, const char *blocker, int ahead)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	ZkContenderStatus status;

	for (;;)
	{
		zk_contender_status(client, id, &status);
		if (status.state == ZK_WATCHING && status.ahead == ahead &&
			strcmp(status.blocker, name_of(blocker)) == 0)
			return true;
		if (zk_now() > deadline || status.state >= ZK_HELD)
		{
			diag("state %d behind \"%s\", %d ahead", status.state,
				 status.blocker, status.ahead);
			return false;
		}
		wait_event();
	}
}

/* What the client waits for now is watched, by the server's account too. */
static void
settle(void)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	bool		busy = true;

	while (busy && zk_now() < deadline)
	{
		usleep(2000);
		pthread_mutex_lock(&client->engine_lock);
		busy = zk_requests_free(client) < ZK_MAX_IN_FLIGHT;
		pthread_mutex_unlock(&client->engine_lock);
	}
}

/* The version of a contender's data, as soon as it is that or higher; else what it is. */
static int
wait_version(const char *node, const char *name, int version)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	struct Stat stat = {0};
	char		path[256];

	snprintf(path, sizeof(path), "%s/%s", node, name);
	do
	{
		usleep(2000);
		if (zoo_exists(stranger, path, 0, &stat) != ZOK)
			return -1;
	} while (stat.version < version && zk_now() < deadline);
	return stat.version;
}

static void
test_granted(void)
{
	char		node[128];
	char		first[256];
	ZkContenderId id;
	ZkContenderStatus status;
	struct Stat stat;
	char		path[256];

	node_path(node, "granted");
	queue_permit(node, 2, 1, first);
	id = request_permit(node, 2);
	ok(wait_state(id, ZK_HELD, &status), "S131: a free permit is granted");
	ok(strstr(status.name, "-sem2-") != NULL, "its name says of how many");
	snprintf(path, sizeof(path), "%s/%s", node, status.name);
	zoo_exists(stranger, path, 0, &stat);
	ok(stat.czxid == status.token, "the token is its czxid");
	settle();
	is_int(wait_version(node, status.name, 0), 0,
		   "nothing is announced if no waiter is behind");
	ok(release(id), "it is released");
	is_int(children(node), 1, "only the other one is left");
	zoo_delete(stranger, first, -1);
}

/* Whichever holder leaves, the first waiter gets the permit. */
static void
test_first_waiter(int which)
{
	char		node[128];
	char		paths[3][256];
	ZkContenderId id;
	ZkContenderStatus status;

	node_path(node, "first");
	for (int i = 0; i < 3; i++)
		queue_permit(node, 3, i, paths[i]);
	id = request_permit(node, 3);
	ok(wait_place(id, paths[2], 1), "the first waiter: one must go");
	settle();
	zoo_set(stranger, paths[which], "x", 1, -1);
	settle();
	zk_contender_status(client, id, &status);
	is_int(status.state, ZK_WATCHING, "a holder that is changed grants nothing");
	settle();
	zoo_delete(stranger, paths[which], -1);
	ok(wait_state(id, ZK_HELD, &status), "S131: holder %d goes, and lets it in",
	   which);
	release(id);
	for (int i = 0; i < 3; i++)
		zoo_delete(stranger, paths[i], -1);
	ok(wait_children(node, 0), "nothing is left");
}

/* Others are woken by the one right ahead of them only. */
static void
test_second_waiter(void)
{
	char		node[128];
	char		paths[4][256];
	ZkContenderId id;
	ZkContenderStatus status;

	node_path(node, "second");
	for (int i = 0; i < 4; i++)
		queue_permit(node, 2, i, paths[i]);
	id = request_permit(node, 2);
	ok(wait_place(id, paths[3], 3), "the third waiter: three must go");
	settle();
	zoo_delete(stranger, paths[0], -1);
	settle();
	ok(wait_place(id, paths[3], 3), "S131: it does not hear of a release");
	zoo_delete(stranger, paths[3], -1);
	ok(wait_place(id, paths[2], 1), "S131: when the one ahead gives up it moves up");
	settle();
	zoo_set(stranger, paths[2], OWNER, strlen(OWNER), -1);
	settle();
	ok(wait_place(id, paths[2], 1), "it is the first waiter already");
	settle();
	zoo_delete(stranger, paths[1], -1);
	ok(wait_state(id, ZK_HELD, &status), "and gets the next permit");
	release(id);
	zoo_delete(stranger, paths[2], -1);
}

/* The one ahead says that it holds a permit now. */
static void
test_announced(bool early)
{
	char		node[128];
	char		paths[3][256];
	ZkContenderId id;
	ZkContenderStatus status;

	node_path(node, "announced");
	for (int i = 0; i < 3; i++)
		queue_permit(node, 2, i, paths[i]);
	if (early)
		zoo_set(stranger, paths[2], "x", 1, -1);
	id = request_permit(node, 2);
	ok(wait_place(id, paths[2], 2), "the second waiter: two must go");
	settle();
	ok(wait_place(id, paths[2], 2), "and it knows its place");
	zoo_delete(stranger, paths[0], -1);
	zoo_set(stranger, paths[2], OWNER, strlen(OWNER), -1);
	ok(wait_place(id, paths[2], 1), "S131: an announcement makes it the first");
	settle();
	zoo_delete(stranger, paths[1], -1);
	ok(wait_state(id, ZK_HELD, &status), "which watches all holders");
	release(id);
	zoo_delete(stranger, paths[2], -1);
}

/* Returns true if these are the data of a contender. */
static bool
has_data(const char *node, const char *name, const char *expected)
{
	char		path[256];
	char		data[4096];
	int			len = sizeof(data);
	struct Stat stat;

	snprintf(path, sizeof(path), "%s/%s", node, name);
	return zoo_get(stranger, path, 0, data, &len, &stat) == ZOK &&
		len == (int) strlen(expected) && memcmp(data, expected, (size_t) len) == 0;
}

/* Ours is granted while another one is behind; whatever the owner is, it stays. */
static void
test_announcing(const char *owner, const char *what)
{
	char		node[128];
	char		first[256];
	char		behind[256];
	ZkContenderId id;
	ZkContenderStatus status;

	node_path(node, "announcing");
	queue_permit(node, 1, 1, first);
	id = request_permit_as(node, 1, owner);
	ok(wait_place(id, first, 1), "%s waits", what);
	queue_permit(node, 1, 2, behind);
	zoo_delete(stranger, first, -1);
	ok(wait_state(id, ZK_HELD, &status), "and is granted");
	is_int(wait_version(node, status.name, 1), 1,
		   "S131: it announces that to the waiter behind it");
	ok(has_data(node, status.name, owner), "and still says whose it is");
	for (ZkTime end = zk_now() + 3 * ZK_WATCH_DELAY; zk_now() < end;)
		wait_event();
	settle();
	zk_contender_status(client, id, &status);
	ok(status.state == ZK_HELD && !status.revoked, "and does not mistake itself for others");
	ok(release(id), "it is released");
	zoo_delete(stranger, behind, -1);
}

/* Another client writes into our contender before it can announce anything. */
static void
test_announcing_over(void)
{
	char		node[128];
	char		first[256];
	char		behind[256];
	char		path[256];
	ZkContenderId id;
	ZkContenderStatus status;

	node_path(node, "over");
	queue_permit(node, 1, 1, first);
	id = request_permit(node, 1);
	ok(wait_place(id, first, 1), "one waits");
	zk_contender_status(client, id, &status);
	snprintf(path, sizeof(path), "%s/%s", node, status.name);
	queue_permit(node, 1, 2, behind);
	zoo_set(stranger, path, ZK_REVOCATION, strlen(ZK_REVOCATION), -1);
	zoo_delete(stranger, first, -1);
	ok(wait_state(id, ZK_HELD, &status), "and is granted");
	/* If it was a waiter for long, it may have read that and written before. */
	ok(wait_version(node, status.name, 2) >= 2, "S131: it announces that all the same");
	zk_contender_status(client, id, &status);
	ok(status.revoked, "S131: the other client's data is not lost");
	ok(release(id), "it is released");
	zoo_delete(stranger, behind, -1);
}

#define PERMIT_OF_FOUR	"_c_00000000-0000-4000-8000-000000000000-sem4-"

static void
test_mixed(void)
{
	static const struct
	{
		const char *ahead;
		ZkMode		mode;
		int			permits;
		const char *what;		/* what is said of it */
	}			cases[] =
	{
		{"_c_aaa-lock-", ZK_PERMIT, 3, "is for a lock."},
		{"_c_aaa-__READ__", ZK_PERMIT, 3, "is for a lock."},
		{PERMIT_OF_FOUR, ZK_PERMIT, 3, "is for a semaphore with 4 permits."},
		{PERMIT_OF_FOUR, ZK_EXCLUSIVE, 0, "is for a semaphore with 4 permits."},
		{PERMIT_OF_FOUR, ZK_SHARED, 0, "is for a semaphore with 4 permits."}
	};
	char		node[128];
	char		path[256];
	ZkContenderId id;
	ZkContenderStatus status;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		node_path(node, "mixed");
		stranger_queues(node, cases[i].ahead, path, sizeof(path));
		id = cases[i].mode == ZK_PERMIT ? request_permit(node, cases[i].permits) :
			request(node, cases[i].mode);
		ok(wait_state(id, ZK_FAILED, &status), "S131: a mixed queue fails, %d", (int) i);
		is_int(status.error, ZK_ERR_KIND, "as that");
		ok(strstr(status.detail, name_of(path)) != NULL &&
		   strstr(status.detail, cases[i].what) != NULL, "and names the other: %s",
		   status.detail);
		ok(wait_children(node, 1), "S131: nothing is left of ours");
		zk_contender_abandon(client, id);
		zoo_delete(stranger, path, -1);
	}
}

/* A waiter behind more holders than requests can be on their way. */
static void
test_many(void)
{
	char		node[128];
	static char paths[MANY][256];
	ZkContenderId id;
	ZkContenderStatus status;

	node_path(node, "many");
	for (int i = 0; i < MANY; i++)
		queue_permit(node, MANY, i, paths[i]);
	id = request_permit(node, MANY);
	ok(wait_place(id, paths[MANY - 1], 1), "one waits for %d", MANY);
	zk_contender_abandon(client, id);
	ok(wait_children(node, MANY), "and gives up: nothing is left");
	id = request_permit(node, MANY);
	ok(wait_place(id, paths[MANY - 1], 1), "another one waits");
	settle();
	zoo_delete(stranger, paths[MANY / 2], -1);
	ok(wait_state(id, ZK_HELD, &status), "S131: any of them lets it in");
	for (int i = 0; i < MANY; i++)
		zoo_delete(stranger, paths[i], -1);
	settle();
	zk_contender_status(client, id, &status);
	is_int(status.state, ZK_HELD, "the watches that are left do no harm");
	release(id);
	ok(wait_children(node, 0), "nothing is left");
}

/* The ZooKeeper session ends while a permit is waited for, or held. */
static void
test_expiry(void)
{
	char		node[128];
	char		first[256];
	ZkContenderId id;
	ZkContenderStatus status;

	node_path(node, "expiry");
	queue_permit(node, 1, 1, first);
	id = request_permit(node, 1);
	ok(wait_place(id, first, 1), "one waits");
	end_session();
	ok(wait_children(node, 2), "S131: it requeues in the next session");
	ok(wait_place(id, first, 1), "and waits");
	settle();
	zoo_delete(stranger, first, -1);
	ok(wait_state(id, ZK_HELD, &status), "and is granted");
	end_session();
	ok(wait_state(id, ZK_LOST, &status), "S131: a permit goes with its session");
	zk_contender_abandon(client, id);
	ok(wait_children(node, 0), "nothing is left");
}

/* Right after it was given up, the same client asks again. */
static void
test_cycles(int rounds)
{
	char		node[128];
	char		other[256];
	ZkContenderStatus status;
	int			granted = 0;

	node_path(node, "cycles");
	for (int i = 0; i < rounds; i++)
	{
		ZkContenderId id;

		queue_permit(node, 2, i, other);
		id = request_permit(node, 2);
		granted += wait_state(id, ZK_HELD, &status);
		zk_contender_abandon(client, id);
		id = request_permit(node, 2);
		granted += wait_state(id, ZK_HELD, &status);
		zk_contender_abandon(client, id);
		zoo_delete(stranger, other, -1);
	}
	is_int(granted, 2 * rounds, "S131: granted, and abandoned, %d times", granted);
	ok(wait_children(node, 0), "nothing is left");
}

int
main(void)
{
	char		long_owner[2 * ZK_OWNER_SIZE] = "";

	int			rounds;

	servers = getenv("ZK_SERVERS");
	if (servers == NULL)
	{
		fprintf(stderr, "ZK_SERVERS is not set\n");
		return 1;
	}
	rounds = getenv("ROUNDS") ? atoi(getenv("ROUNDS")) : 300;
	start_client(servers, LONG_TIMEOUT_MS);
	snprintf(root, sizeof(root), "/permit_test_%d", (int) getpid());
	stranger = open_handle(NULL);
	zoo_create(stranger, root, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, NULL, 0);

	test_granted();
	for (int i = 0; i < 3; i++)
		test_first_waiter(i);
	test_second_waiter();
	test_announced(false);
	test_announced(true);
	test_announcing(OWNER, "an owner");
	memset(long_owner, 'x', sizeof(long_owner) - 1);
	test_announcing(long_owner, "an owner with a long description");
	test_announcing_over();
	test_mixed();
	test_many();
	test_cycles(rounds);
	restart_client(servers, ENDED_TIMEOUT_MS);
	test_expiry();
	ok(zk_client_stop(client, 30000), "the client stops in time");
	zookeeper_close(stranger);
	return done_testing();
}
