/*-------------------------------------------------------------------------
 *
 * client_lock_delay_test.c
 *	  Lock delay: the unclean markers of holders exist as long as their contenders, and
 *	  longer if these vanish without a release (S140 to S144).
 *
 * The client reaches the ensemble that ZK_SERVERS names through a proxy
 * (proxy.h).  The stranger has a connection of its own that nothing happens to,
 * and sees what is really there.
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* the library's synchronous functions, too */

#include <zookeeper/proto.h>

#include "client_proxied.h"

/* A delay that is clearly longer than a few round trips. */
#define DELAY	ZK_MS(3000)

/* The path, PATH_SIZE bytes, of a lock node's record, or of a marker below. */
static void
path_of_marker(const char *node, const char *name, char *path)
{
	char		whole[ZK_RECORD_PATH_SIZE];

	zk_record_path(node, strlen(root), whole);
	snprintf(path, PATH_SIZE, "%.150s%s%s", whole, name[0] != '\0' ? "/" : "",
			 name);
}

/* How many markers has a lock? */
static int
markers(const char *node)
{
	char		path[PATH_SIZE];

	path_of_marker(node, "", path);
	return children(path);
}

/* Has a contender its marker? */
static bool
has_marker(const char *node, const char *name)
{
	char		path[PATH_SIZE];
	struct Stat stat;

	path_of_marker(node, name, path);
	return zoo_exists(stranger, path, 0, &stat) == ZOK;
}

/* A holder has vanished without a release. */
static void
leave_marker(const char *node, const char *name)
{
	char		path[PATH_SIZE];
	int			rc;

	path_of_marker(node, name, path);
	rc = zoo_create(stranger, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT,
					NULL, 0);
	if (rc != ZOK)
		diag("could not create %s: %s", path, zerror(rc));
}

/* Delete a contender, or its marker, as a stranger. */
static void
delete_contender(const char *node, const char *name)
{
	char		path[PATH_SIZE];

	snprintf(path, sizeof(path), "%.150s/%.90s", node, name);
	zoo_delete(stranger, path, -1);
}

static void
delete_marker(const char *node, const char *name)
{
	char		path[PATH_SIZE];

	path_of_marker(node, name, path);
	zoo_delete(stranger, path, -1);
}

/* Ask for locks with a delay, and do not wait. */
static bool
request_delayed(int count, const char *const *nodes, ZkMode mode, bool record,
				ZkContenderId *ids)
{
	ZkLockRequest wish = {
		.mode = mode,.owner = OWNER,
		.root_len = strlen(root),.record = record,.lock_delay = DELAY
	};
	ZkError		error;

	return zk_contenders_request(client, &wish, count, nodes, ids, &error);
}

/* Has the last lock that was acquired been delayed, as far as one could see? */
static bool seen_delayed;

/* Ask for one and wait for it; its name is left in name. */
static ZkContenderId
acquire_delayed(const char *node, ZkMode mode, bool record, char *name)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	ZkContenderId id = 0;
	ZkContenderStatus status;

	request_delayed(1, &node, mode, record, &id);
	seen_delayed = false;
	do
	{
		wait_event();
		zk_contender_status(client, id, &status);
		seen_delayed |= status.delayed;
	} while (status.state != ZK_HELD && zk_now() < deadline);
	strcpy(name, status.name);
	return id;
}

/* Wait until the backend would see that a lock is delayed. */
static bool
wait_delayed(ZkContenderId id)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	ZkContenderStatus status;

	do
	{
		zk_contender_status(client, id, &status);
		if (status.delayed)
			return true;
		wait_event();
	} while (status.state != ZK_HELD && zk_now() < deadline);
	diag("not delayed: state %d, error %d, \"%s\"", status.state, status.error,
		 status.detail);
	return false;
}

/* The marker of a holder is there, and goes with a release of any kind. */
static void
test_made_and_removed(bool record)
{
	const char *what = record ? "with a record" : "without one";
	char		node[128];
	char		name[ZK_NAME_SIZE];
	ZkContenderId id;
	ZkRecord	empty = {0};

	node_path(node, record ? "deep/down/record" : "deep/down/plain");
	id = acquire_delayed(node, ZK_EXCLUSIVE, record, name);
	ok(!seen_delayed, "%s: a new lock is not delayed", what);
	ok(has_marker(node, name) && markers(node) == 1, "%s: a holder has a marker", what);
	zk_contender_note(client, id, &empty);
	ok(release(id), "%s: it releases the lock", what);
	is_int(markers(node), 0, "%s: the marker is gone with the contender", what);

	id = acquire_delayed(node, ZK_SHARED, record, name);
	ok(!seen_delayed, "%s: the next one is not delayed", what);
	ok(has_marker(node, name), "%s: it has a marker, too", what);
	zk_contender_abandon(client, id);
	ok(wait_no_contenders() && markers(node) == 0 && children(node) == 0,
	   "%s: nothing is left of a lock that was abandoned", what);
	is_int(children(node), 0, "%s: nor a contender", what);
}

/* After a holder that left a marker, the lock is granted a delay later, not before. */
static void
test_delay(ZkMode mode)
{
	const char *what = mode == ZK_SHARED ? "shared" : "exclusive";
	char		node[128];
	char		name[ZK_NAME_SIZE];
	const char *nodes = node;
	ZkContenderId id;
	ZkContenderStatus status;
	ZkTime		begin;

	make_node(node, what);
	release(acquire_delayed(node, mode, false, name));
	for (int i = 0; i < 12; i++)
	{
		char		left[ZK_NAME_SIZE];

		snprintf(left, sizeof(left), "_c_aaa-lock-00000000%02d", 90 - i);
		leave_marker(node, left);
	}
	begin = zk_now();
	request_delayed(1, &nodes, mode, false, &id);
	ok(wait_delayed(id), "%s: the lock delay runs", what);
	ok(wait_state(id, ZK_HELD, &status), "%s: then the lock is had", what);
	ok(zk_now() - begin >= DELAY, "%s: not before the delay", what);
	ok(zk_now() - begin < DELAY + ZK_MS(30000), "%s: nor much later", what);
	ok(has_marker(node, status.name) && markers(node) == 1,
	   "%s: the markers of 12 that are gone are deleted", what);
	zk_contender_abandon(client, id);
	wait_no_contenders();

	/*
	 * a waiter that gives up leaves the markers of others, and none of its
	 * own
	 */
	leave_marker(node, "_c_aaa-lock-0000000099");
	request_delayed(1, &nodes, mode, false, &id);
	ok(wait_delayed(id), "%s: the lock delay runs", what);
	ok(release(id), "%s: the waiter gives up", what);
	ok(children(node) == 0 && markers(node) == 1,
	   "%s: the marker of the one that is gone stays", what);
	delete_marker(node, "_c_aaa-lock-0000000099");
}

/* A holder whose contender is deleted in another way leaves its marker. */
static void
test_left(void)
{
	char		node[128];
	char		name[ZK_NAME_SIZE];
	const char *nodes = node;
	ZkContenderId id;
	ZkContenderId next;
	ZkContenderStatus status;
	ZkTime		begin;

	make_node(node, "left");
	id = acquire_delayed(node, ZK_EXCLUSIVE, true, name);
	request_delayed(1, &nodes, ZK_EXCLUSIVE, true, &next);
	delete_contender(node, name);
	begin = zk_now();
	ok(wait_state(id, ZK_LOST, &status), "a contender is deleted by a stranger");
	release(id);
	ok(has_marker(node, name), "its marker stays");
	zk_contender_abandon(client, next);
	next = acquire_delayed(node, ZK_EXCLUSIVE, true, name);
	ok(zk_now() - begin >= DELAY, "the next holder has waited");

	end_session();
	ok(wait_state(next, ZK_LOST, &status), "a ZooKeeper session ends");
	release(next);
	ok(has_marker(node, name), "the marker of the holder stays");
	id = acquire_delayed(node, ZK_EXCLUSIVE, true, name);
	ok(has_marker(node, name) && markers(node) == 1,
	   "until the next holder has waited");
	release(id);
	is_int(markers(node), 0, "which deletes its own when it releases the lock");
}

/* A waiter that is there when the holder goes. */
static void
test_waiter(void)
{
	char		node[128];
	char		path[PATH_SIZE];
	char		name[ZK_NAME_SIZE];
	const char *nodes = node;
	ZkContenderId id;
	ZkContenderStatus status;
	ZkTime		gone;

	make_node(node, "waiter");
	release(acquire_delayed(node, ZK_EXCLUSIVE, false, name));
	for (int i = 0; i < 2; i++)
	{
		/*
		 * a holder with a marker that the waiter has seen, or that is new to
		 * it
		 */
		stranger_queues(node, "_c_aaa-lock-", path, sizeof(path));
		snprintf(name, sizeof(name), "%s", strrchr(path, '/') + 1);
		if (i == 0)
			leave_marker(node, name);
		request_delayed(1, &nodes, ZK_EXCLUSIVE, false, &id);
		wait_state(id, ZK_WATCHING, &status);
		if (i == 1)
			leave_marker(node, name);
		gone = zk_now();
		zoo_delete(stranger, path, -1);
		ok(wait_delayed(id), "waiter %d: the lock delay runs", i);
		ok(wait_state(id, ZK_HELD, &status) && zk_now() - gone >= DELAY,
		   "waiter %d: then the lock is had", i);
		release(id);
		ok(markers(node) == 0 && children(node) == 0, "waiter %d: nothing is left",
		   i);
	}
}

/* Answers are lost, or requests, on the way to the lock and from it. */
static void
test_cut(void)
{
	char		node[128];
	char		name[ZK_NAME_SIZE];
	ZkContenderId id;
	ZkTime		begin;

	make_node(node, "cut");
	release(acquire_delayed(node, ZK_EXCLUSIVE, false, name));
	for (int i = 0; i < 4; i++)
	{
		ProxyMoment moment = i % 2 ? PROXY_BEFORE_REPLY : PROXY_BEFORE_REQUEST;
		int			cuts = proxy_cuts();

		begin = zk_now();
		proxy_cut_at(ZOO_MULTI_OP, 1, moment, false);
		id = acquire_delayed(node, ZK_EXCLUSIVE, i > 1, name);
		ok(wait_cut(cuts), "cut %d: the marker is made, or the answer lost", i);
		ok(has_marker(node, name) && markers(node) == 1, "cut %d: it is there", i);
		cuts = proxy_cuts();
		proxy_cut_at(ZOO_MULTI_OP, 1, moment, false);
		ok(release(id) && wait_cut(cuts), "cut %d: the same for the release", i);
		ok(markers(node) == 0 && children(node) == 0, "cut %d: nothing is left", i);
		ok(zk_now() - begin < ZK_MS(LONG_TIMEOUT_MS) / 2 + DELAY,
		   "cut %d: within a moment", i);
	}
}

/* Given up when it is not known whether the marker was made. */
static void
test_given_up(ProxyMoment moment)
{
	const char *what = moment == PROXY_BEFORE_REPLY ? "made" : "not made";
	char		node[128];
	char		name[ZK_NAME_SIZE];
	const char *nodes = node;
	ZkContenderId id;
	int			cuts = proxy_cuts();

	make_node(node, moment == PROXY_BEFORE_REPLY ? "given-up" : "given-up-2");
	release(acquire_delayed(node, ZK_EXCLUSIVE, false, name));
	proxy_cut_at(ZOO_MULTI_OP, 1, moment, false);
	proxy_refuse(true);
	request_delayed(1, &nodes, ZK_EXCLUSIVE, false, &id);
	wait_cut(cuts);
	is_int(markers(node), moment == PROXY_BEFORE_REPLY, "%s: the marker", what);
	zk_contender_abandon(client, id);
	proxy_refuse(false);
	ok(wait_no_contenders(), "%s: the lock is abandoned", what);
	ok(markers(node) == 0 && children(node) == 0, "%s: nothing is left", what);
}

/* Another client deletes the marker, or contender and marker. */
static void
test_stranger(void)
{
	char		node[128];
	char		name[ZK_NAME_SIZE];
	ZkContenderId id;
	ZkRecord	empty = {0};
	int			cuts;

	make_node(node, "stranger");
	for (int record = 0; record < 2; record++)
	{
		id = acquire_delayed(node, ZK_EXCLUSIVE, record, name);
		zk_contender_note(client, id, &empty);
		delete_marker(node, name);
		ok(release(id), "a marker that is missing keeps no contender");
		ok(markers(node) == 0 && children(node) == 0, "nothing is left");

		id = acquire_delayed(node, ZK_EXCLUSIVE, record, name);
		zk_contender_note(client, id, &empty);
		cuts = proxy_cuts();
		proxy_refuse(true);
		proxy_cut_at(ZOO_MULTI_OP, 1, PROXY_BEFORE_REQUEST, false);
		zk_contender_abandon(client, id);
		wait_cut(cuts);
		delete_contender(node, name);
		proxy_refuse(false);
		ok(wait_no_contenders(), "nor does a contender that is missing");
		ok(markers(node) == 0 && children(node) == 0, "keep its marker");
	}
}

/* A downgrade moves the marker. */
static void
test_downgrade(void)
{
	char		node[128];
	char		name[ZK_NAME_SIZE];
	ZkContenderId exclusive;
	ZkContenderId shared;
	ZkContenderStatus status;
	ZkError		error;
	ZkRecord	empty = {0};

	make_node(node, "downgrade");
	for (int i = 0; i < 10; i++)
	{
		bool		gentle = i < 2;

		exclusive = acquire_delayed(node, ZK_EXCLUSIVE, i % 2 != 0, name);
		zk_contender_note(client, exclusive, &empty);
		shared = zk_contender_reserve(client, exclusive, &error);
		if (i / 2 == 2 || i / 2 == 3)
			proxy_cut_at(ZOO_MULTI_OP, 1, i / 2 == 2 ? PROXY_BEFORE_REPLY :
						 PROXY_BEFORE_REQUEST, false);
		if (i / 2 == 4)
			delete_marker(node, name);
		zk_contender_downgrade(client, exclusive, shared);
		if (i / 2 != 1)
		{
			release(acquire(node, ZK_SHARED));
			wait_renamed(shared, name, &status);
			is_int(has_marker(node, status.name), i / 2 != 4,
				   "downgrade %d: the shared one has a marker, or none", i);
			is_int(markers(node), i / 2 != 4, "downgrade %d: alone", i);
		}
		if (gentle)
			ok(release(shared), "downgrade %d: it is released", i);
		else
			zk_contender_abandon(client, shared);
		ok(wait_no_contenders() && markers(node) == 0 && children(node) == 0,
		   "downgrade %d: nothing is left", i);
	}
}

static void
test_group(void)
{
	char		names[20][128];
	const char *nodes[20];
	char		unused[ZK_NAME_SIZE];
	ZkContenderId ids[20];
	ZkContenderStatus status;
	ZkTime		begin;
	int			held = 0;
	int			left = 0;

	for (int i = 0; i < 20; i++)
	{
		char		name[24];

		snprintf(name, sizeof(name), "group-%d", i);
		make_node(names[i], name);
		nodes[i] = names[i];
	}
	release(acquire_delayed(nodes[7], ZK_EXCLUSIVE, false, unused));
	leave_marker(nodes[7], "_c_aaa-lock-0000000099");
	begin = zk_now();
	request_delayed(20, nodes, ZK_EXCLUSIVE, true, ids);
	for (int i = 0; i < 20; i++)
		held += wait_state(ids[i], ZK_HELD, &status);
	is_int(held, 20, "20 locks are acquired at once");
	ok(zk_now() - begin >= DELAY, "one of them waited for its delay");
	for (int i = 0; i < 20; i++)
		held -= markers(nodes[i]);
	is_int(held, 0, "each has its marker");
	for (int i = 0; i < 20; i++)
		zk_contender_abandon(client, ids[i]);
	ok(wait_no_contenders(), "all are abandoned");
	for (int i = 0; i < 20; i++)
		left += markers(nodes[i]) + children(nodes[i]);
	is_int(left, 0, "nothing is left");
}

/* While connections are cut, no marker is left, and no lock delayed. */
static void
test_cutting(ProxyMoment moment, int rounds)
{
	const char *what = moment == PROXY_BEFORE_REPLY ? "replies" : "requests";
	char		node[128];
	char		name[ZK_NAME_SIZE];
	int			cuts = proxy_cuts();
	int			missing = 0;
	ZkRecord	empty = {0};

	make_node(node, what);
	proxy_cut_at(PROXY_ANY_REQUEST, 5, moment, true);
	for (int i = 1; i <= rounds; i++)
	{
		ZkContenderId id = acquire_delayed(node, i % 3 ? ZK_EXCLUSIVE : ZK_SHARED,
										   i % 2, name);

		missing += !has_marker(node, name);
		zk_contender_note(client, id, &empty);
		if (i % 4 == 0)
			zk_contender_abandon(client, id);
		else
			release(id);
	}
	cuts = proxy_cuts() - cuts;
	proxy_cut_at(0, 0, moment, false);
	is_int(missing, 0, "%s are lost: each holder has its marker", what);
	ok(wait_no_contenders() && markers(node) == 0 && children(node) == 0,
	   "%s are lost: nothing is left", what);
	ok(cuts > rounds / 5, "%d connections were cut", cuts);
}

/* A client that stops while it holds a lock deletes its marker, too. */
static void
test_stop(void)
{
	char		node[128];
	char		name[ZK_NAME_SIZE];
	char		unused[ZK_NAME_SIZE];
	char		record[PATH_SIZE];

	make_node(node, "stop");
	path_of_marker(node, "", record);
	acquire_delayed(node, ZK_SHARED, false, name);
	acquire_delayed(node, ZK_SHARED, true, unused);
	is_int(markers(node), 2, "two locks are held");
	ok(zk_client_stop(client, 30000), "the client stops");
	ok(wait_children(record, 0), "and has deleted the markers");
	ok(wait_children(node, 0), "no contender is left");
}

/*
 * The same of one whose server has too much to do at that moment: it is tried again, for
 * a quarter of a second.  The machine may stand still for so long.
 */
static void
test_stop_throttled(void)
{
	char		node[128];
	char		place[24];
	char		name[ZK_NAME_SIZE];
	int			throttled = proxy_throttled();
	int			left = -1;

	for (int i = 0; i < 5 && left != 0; i++)
	{
		snprintf(place, sizeof(place), "throttled%d", i);
		make_node(node, place);
		start_client(proxied, TIMEOUT_MS);
		acquire_delayed(node, ZK_EXCLUSIVE, false, name);
		proxy_throttle_at(ZOO_MULTI_OP, 1);
		zk_client_stop(client, 30000);
		left = markers(node);
	}
	ok(proxy_throttled() > throttled, "S252: the server had too much to do");
	is_int(left, 0, "S252: the marker was deleted all the same");
	ok(wait_children(node, 0), "S252: no contender is left");
}

int
main(void)
{
	if (!find_servers("client_lock_delay_test") || !open_proxied())
		return 1;
	start_client(proxied, LONG_TIMEOUT_MS);
	test_made_and_removed(false);
	test_made_and_removed(true);
	test_delay(ZK_EXCLUSIVE);
	test_delay(ZK_SHARED);
	test_waiter();
	test_cut();
	test_given_up(PROXY_BEFORE_REPLY);
	test_given_up(PROXY_BEFORE_REQUEST);
	test_stranger();
	test_downgrade();
	test_group();
	restart_client(proxied, TIMEOUT_MS * 3);	/* it is lost, or cut often */
	test_left();
	test_cutting(PROXY_BEFORE_REPLY, 60);
	test_cutting(PROXY_BEFORE_REQUEST, 60);
	test_stop();
	test_stop_throttled();
	zookeeper_close(stranger);
	proxy_stop();
	return done_testing();
}
