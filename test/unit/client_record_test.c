/*-------------------------------------------------------------------------
 *
 * client_record_test.c
 *	  The record of a lock: read with a grant, written with its end, whatever
 *	  happens.
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
#include "lease.h"
#include "request.h"

/* The path, PATH_SIZE bytes, of the record of a lock node of this run. */
static void
path_of_record(const char *node, char *path)
{
	char		whole[ZK_RECORD_PATH_SIZE];

	zk_record_path(node, strlen(root), whole);
	snprintf(path, PATH_SIZE, "%.*s", PATH_SIZE - 1, whole);
}

/*
 * Read the record of a lock node as the stranger sees it.  Returns the version of
 * the znode; -1 if there is none.
 */
static int
record_of(const char *node, ZkRecord *record)
{
	char		path[PATH_SIZE];
	char		data[ZK_RECORD_SIZE];
	int			len = sizeof(data);
	struct Stat stat;

	path_of_record(node, path);
	memset(record, 0, sizeof(*record));
	if (zoo_get(stranger, path, 0, data, &len, &stat) != ZOK)
		return -1;
	zk_record_parse(data, len, record);
	return stat.version;
}

/* A contender with a record. */
static ZkLockRequest
recorded(ZkMode mode)
{
	ZkLockRequest wish = {
		.mode = mode,.owner = OWNER,
		.root_len = strlen(root),.record = true
	};

	return wish;
}

/* Ask for locks with their records, and wait for them. */
static bool
acquire_all(int count, const char *const *nodes, ZkMode mode,
			ZkContenderId *ids)
{
	ZkError		error;
	ZkContenderStatus status;

	ZkLockRequest wish = recorded(mode);

	if (!zk_contenders_request(client, &wish, count, nodes, ids, &error))
		return false;
	for (int i = 0; i < count; i++)
		if (!wait_state(ids[i], ZK_HELD, &status))
			return false;
	return true;
}

/* The same for one. */
static ZkContenderId
acquire_recorded(const char *node, ZkMode mode)
{
	ZkContenderId id = 0;

	acquire_all(1, &node, mode, &id);
	return id;
}

/* Ask for one, and do not wait. */
static ZkContenderId
request_recorded(const char *node, ZkMode mode)
{
	ZkLockRequest wish = recorded(mode);
	ZkContenderId id = 0;
	ZkError		error;

	zk_contenders_request(client, &wish, 1, &node, &id, &error);
	return id;
}

/* Note a position and a run, which that number says. */
static void
note(ZkContenderId id, int number)
{
	ZkRecord	record = {0};

	record.position_count = 1;
	record.positions[0] = (ZkPosition)
	{
		7, 1, (uint64_t) number
	};
	record.run_count = 1;
	record.runs[0].fire_time = number;
	record.runs[0].ended_at = number + 1;
	strcpy(record.runs[0].ended_by, "test");
	zk_contender_note(client, id, &record);
}

/* The number of the run that a lock's record shows; -1 if it shows none. */
static int
run_of(const char *node)
{
	ZkRecord	record;

	record_of(node, &record);
	return record.run_count > 0 ? (int) record.runs[0].fire_time : -1;
}

/* Release, and learn whether the record was written, and what else became of it. */
static bool
release_and_look(ZkContenderId id, ZkContenderStatus *status)
{
	bool		gone;

	zk_contender_release(client, id);
	gone = wait_state(id, ZK_GONE, status);
	zk_contender_abandon(client, id);
	return gone && status->recorded;
}

static bool
release_recorded(ZkContenderId id)
{
	ZkContenderStatus status;

	return release_and_look(id, &status);
}

/* Note a number in a lock's record. */
static void
leave_record(const char *node, int number)
{
	ZkContenderId id = acquire_recorded(node, ZK_EXCLUSIVE);

	note(id, number);
	release_recorded(id);
}

static void
test_written_and_read(void)
{
	char		node[128];
	ZkContenderId id;
	ZkContenderStatus status;
	ZkRecord	record;

	node_path(node, "plain/deep/down");
	id = acquire_recorded(node, ZK_EXCLUSIVE);
	ok(zk_contender_record(client, id, &record) && record.contender[0] == '\0' &&
	   record.position_count == 0,
	   "a lock that has no record comes with an empty one");
	zk_contender_status(client, id, &status);
	note(id, 5);
	ok(release_recorded(id), "the release writes one, and what is above it");
	is_int(record_of(node, &record), 0, "which is there");
	ok(record.token == status.token &&
	   strcmp(record.contender, status.name) == 0, "it names the release");
	ok(record.position_count == 1 && record.positions[0].lsn == 5 &&
	   record.runs[0].fire_time == 5, "and the notes");

	id = acquire_recorded(node, ZK_SHARED);
	ok(zk_contender_record(client, id, &record) && record.runs[0].fire_time == 5,
	   "the next holder gets it");
	note(id, 6);
	zk_contender_abandon(client, id);
	ok(wait_no_contenders(), "it abandons the lock");
	is_int(run_of(node), 6, "which writes the record as well");

	id = acquire_recorded(node, ZK_EXCLUSIVE);
	ok(!release_recorded(id), "nothing noted, nothing written");
	id = acquire(node, ZK_EXCLUSIVE);
	ok(!zk_contender_record(client, id, &record), "a plain contender has none");
	note(id, 7);
	ok(!release_recorded(id), "and writes none");
	is_int(record_of(node, &record), 1, "it was written twice in all");
	ok(children(node) == 0, "no contender is left");
}

static void
test_not_held(void)
{
	char		node[128];
	char		first[PATH_SIZE];
	char		own[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus status;
	ZkRecord	record;

	make_node(node, "not-held");
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	id = request_recorded(node, ZK_EXCLUSIVE);
	wait_state(id, ZK_WATCHING, &status);
	note(id, 1);
	ok(!release_recorded(id), "a waiter that gives up leaves no record");
	zoo_delete(stranger, first, -1);

	id = acquire_recorded(node, ZK_EXCLUSIVE);
	zk_contender_status(client, id, &status);
	snprintf(own, sizeof(own), "%s/%s", node, status.name);
	note(id, 2);
	zoo_delete(stranger, own, -1);
	ok(wait_state(id, ZK_LOST, &status), "a lock is lost");
	ok(!release_recorded(id), "its holder leaves no record, either");
	is_int(record_of(node, &record), -1, "there is none");
}

/*
 * Two shared holders write at once: the second one finds that the record is not as
 * it was read.
 */
static void
test_conflicts(void)
{
	char		node[128];
	char		path[PATH_SIZE];
	ZkContenderId ids[20];
	ZkContenderStatus status;
	ZkRecord	record;
	ZkRecord	mine = {0};
	int			written = 0;

	make_node(node, "conflicts");
	for (int i = 0; i < 20; i++)
		ids[i] = acquire_recorded(node, ZK_SHARED);
	for (int i = 0; i < 20; i++)
	{
		mine.position_count = 1;
		mine.positions[0].system = (uint64_t) (i % ZK_RECORD_POSITIONS + 1);
		mine.positions[0].timeline = 1;
		mine.positions[0].lsn = (uint64_t) (i + 1);
		zk_contender_note(client, ids[i], &mine);
	}
	for (int i = 0; i < 20; i++)
		zk_contender_release(client, ids[i]);
	for (int i = 0; i < 20; i++)
	{
		written += wait_state(ids[i], ZK_GONE, &status) && status.recorded;
		zk_contender_abandon(client, ids[i]);
	}
	is_int(written, 20, "20 holders that release together all write");
	is_int(record_of(node, &record), 19, "one after the other");
	ok(record.position_count == ZK_RECORD_POSITIONS &&
	   zk_record_position(&record, 4)->lsn == 20 &&
	   zk_record_position(&record, 5)->lsn == 13, "and nothing gets lost");

	path_of_record(node, path);
	ids[0] = acquire_recorded(node, ZK_EXCLUSIVE);
	zoo_set(stranger, path, "garbage", 7, -1);
	note(ids[0], 3);
	ok(release_recorded(ids[0]), "garbage is written over");
	is_int(run_of(node), 3, "by a record");
	ids[0] = acquire_recorded(node, ZK_EXCLUSIVE);
	zoo_delete(stranger, path, -1);
	note(ids[0], 2);
	ok(release_recorded(ids[0]), "a record that was deleted is created again");
	is_int(run_of(node), 2, "without what it was");
}

/* The connection breaks as the multi-op, or its answer, is under way. */
static void
test_cut(void)
{
	char		node[128];
	ZkContenderId id;
	ZkRecord	record;
	int			cuts = proxy_cuts();

	make_node(node, "cut");
	leave_record(node, 1);
	id = acquire_recorded(node, ZK_EXCLUSIVE);
	note(id, 2);
	lose_reply(ZOO_MULTI_OP, false);
	ok(release_recorded(id) && wait_cut(cuts),
	   "the answer is lost: the record tells that it was written");
	is_int(record_of(node, &record), 1, "once");
	is_int(run_of(node), 2, "as noted");

	id = acquire_recorded(node, ZK_EXCLUSIVE);
	note(id, 3);
	proxy_cut_at(ZOO_MULTI_OP, 1, PROXY_BEFORE_REQUEST, false);
	ok(release_recorded(id), "the multi-op is lost: it is sent again");
	is_int(record_of(node, &record), 2, "and the record written");
	is_int(children(node), 0, "no contender is left");
}

/* The multi-op was lost, and another client has since deleted the contender. */
static void
test_cut_and_broken(void)
{
	char		node[128];
	char		own[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus status;
	int			cuts = proxy_cuts();

	make_node(node, "broken");
	leave_record(node, 1);
	id = acquire_recorded(node, ZK_EXCLUSIVE);
	zk_contender_status(client, id, &status);
	snprintf(own, sizeof(own), "%s/%s", node, status.name);
	note(id, 2);
	proxy_refuse(true);
	proxy_cut_at(ZOO_MULTI_OP, 1, PROXY_BEFORE_REQUEST, false);
	zk_contender_release(client, id);
	wait_cut(cuts);
	zoo_delete(stranger, own, -1);
	proxy_refuse(false);
	ok(wait_state(id, ZK_GONE, &status) && !status.recorded,
	   "a contender that another client deleted writes nothing");
	zk_contender_abandon(client, id);
	is_int(run_of(node), 1, "the record is as it was");
}

/*
 * The answer to the multi-op was lost, and a later holder has since written its
 * own release over ours (S378).
 */
static void
test_cut_and_written_over(void)
{
	const char *text = "zklock record 1\nrelease 4611686018427387904 b\n";
	char		node[128];
	char		path[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus status;
	int			cuts = proxy_cuts();

	make_node(node, "over");
	leave_record(node, 1);
	path_of_record(node, path);
	id = acquire_recorded(node, ZK_EXCLUSIVE);
	note(id, 2);
	lose_reply(ZOO_MULTI_OP, true);
	zk_contender_release(client, id);
	wait_cut(cuts);
	is_int(run_of(node), 2, "a release whose answer is lost is carried out");
	zoo_set(stranger, path, text, (int) strlen(text), -1);
	proxy_refuse(false);
	ok(wait_state(id, ZK_GONE, &status) && !status.recorded &&
	   status.error == ZK_ERR_UNCERTAIN,
	   "written over, it cannot be known: \"%s\"", status.detail);
	zk_contender_abandon(client, id);
	is_int(children(node), 0, "no contender is left");
}

static void
test_read_lost(void)
{
	char		node[128];
	ZkContenderId id;
	ZkRecord	record;

	make_node(node, "read");
	leave_record(node, 4);
	lose_reply(ZOO_GETDATA_OP, false);
	id = acquire_recorded(node, ZK_EXCLUSIVE);
	ok(zk_contender_record(client, id, &record) && record.runs[0].fire_time == 4,
	   "a record whose answer was lost is read again before the grant");
	release(id);
}

/*
 * A waiter is granted the lock by the event that the holder's contender is deleted.
 * The holder wrote the record in the same transaction.
 */
static void
test_granted_by_event(void)
{
	char		node[128];
	char		first[PATH_SIZE];
	char		path[PATH_SIZE];
	zoo_op_t	ops[2];
	zoo_op_result_t results[2];
	const char *text = "zklock record 1\nrun 9 9 7 5 1 F stranger\n";
	ZkContenderId id;
	ZkContenderStatus status;
	ZkRecord	record;
	int			told = 0;

	make_node(node, "event");
	leave_record(node, 1);
	path_of_record(node, path);
	for (int i = 0; i < 20; i++)
	{
		stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
		id = request_recorded(node, ZK_EXCLUSIVE);
		wait_state(id, ZK_WATCHING, &status);
		zoo_set(stranger, path, "", 0, -1);
		zoo_delete_op_init(&ops[0], first, -1);
		zoo_set_op_init(&ops[1], path, text, (int) strlen(text), -1, NULL);
		zoo_multi(stranger, 2, ops, results);
		told += wait_state(id, ZK_HELD, &status) &&
			zk_contender_record(client, id, &record) &&
			record.runs[0].fire_time == 9;
		release(id);
	}
	is_int(told, 20, "a waiter gets the record that the holder leaves at the end");
}

static void
test_group(void)
{
	char		names[40][128];
	const char *nodes[40];
	ZkContenderId ids[40];
	ZkRecord	record;
	int			known = 0;

	for (int i = 0; i < 40; i++)
	{
		char		name[24];

		snprintf(name, sizeof(name), "group/%d", i);
		node_path(names[i], name);
		nodes[i] = names[i];
	}
	leave_record(nodes[0], 1);
	leave_record(nodes[39], 39);
	ok(acquire_all(40, nodes, ZK_EXCLUSIVE, ids), "40 locks are acquired at once");
	for (int i = 0; i < 40; i++)
		known += zk_contender_record(client, ids[i], &record);
	is_int(known, 40, "each with its record");
	ok(zk_contender_record(client, ids[39], &record) && record.runs[0].fire_time == 39,
	   "which is its own");
	for (int i = 0; i < 40; i++)
	{
		note(ids[i], 100 + i);
		zk_contender_release(client, ids[i]);
	}
	for (int i = 0; i < 40; i++)
		known -= release_recorded(ids[i]) && run_of(nodes[i]) == 100 + i;
	is_int(known, 0, "and all are written");
}

/*
 * Turns an exclusive lock into a shared one, with run 2 noted where there was run 1.
 * Returns the shared one.
 */
static ZkContenderId
downgrade(const char *node)
{
	ZkContenderId exclusive;
	ZkContenderId shared;
	ZkError		error;

	leave_record(node, 1);
	exclusive = acquire_recorded(node, ZK_EXCLUSIVE);
	shared = zk_contender_reserve(client, exclusive, &error);
	note(exclusive, 2);
	zk_contender_downgrade(client, exclusive, shared);
	return shared;
}

/* A downgrade lets other readers in: they find the record. */
static void
test_downgrade(bool at_once)
{
	const char *what = at_once ? "abandoned immediately" : "kept";
	char		node[128];
	ZkContenderId shared;
	ZkContenderStatus status;
	ZkTime		deadline = zk_now() + DEADLINE;

	make_node(node, at_once ? "downgrade-end" : "downgrade");
	shared = downgrade(node);
	if (!at_once)
	{
		while (run_of(node) != 2 && zk_now() < deadline)
			usleep(1000);
		zk_contender_status(client, shared, &status);
		ok(run_of(node) == 2 && status.state == ZK_HELD && children(node) == 1,
		   "%s: a downgrade writes the record", what);
		note(shared, 3);
	}
	zk_contender_release(client, shared);
	ok(wait_state(shared, ZK_GONE, &status), "%s: the lock is free", what);
	zk_contender_abandon(client, shared);
	is_int(run_of(node), at_once ? 2 : 3, "%s: the record is written", what);
	ok(wait_no_contenders() && children(node) == 0, "%s: nothing is left", what);
}

/*
 * A contender that writes only its own end is given up, and the lock is requested again
 * immediately, alone or with another one: it comes with the record that tells of that end
 * (S376).  If the server is too busy for the first attempt at that end, then the answers
 * that the grant needs come before it is written.
 */
static void
test_again(ZkContenderId first, const char *node, const char *other, bool busy,
		   const char *what)
{
	const char *nodes[2] = {node, other};
	ZkContenderId ids[2];
	int			count = other != NULL ? 2 : 1;
	int			throttled = proxy_throttled();
	ZkContenderStatus before;
	ZkRecord	record = {0};

	zk_contender_status(client, first, &before);
	zk_contender_note(client, first, &record);
	if (busy)
		proxy_throttle_at(ZOO_MULTI_OP, 1);
	zk_contender_abandon(client, first);
	if (busy)
		ok(wait_throttled(throttled), "%s: the server is too busy", what);
	ok(acquire_all(count, nodes, ZK_EXCLUSIVE, ids), "%s: the lock is granted again", what);
	ok(zk_contender_record(client, ids[0], &record) && record.token == before.token,
	   "%s: and shows the last end (S376)", what);
	for (int i = 0; i < count; i++)
		zk_contender_abandon(client, ids[i]);
	ok(wait_no_contenders(), "%s: nothing is left", what);
}

static void
test_again_in_all_ways(bool busy)
{
	char		node[128];
	char		other[128];

	make_node(node, busy ? "again-busy" : "again");
	make_node(other, busy ? "again-busy-other" : "again-other");
	test_again(acquire_recorded(node, ZK_EXCLUSIVE), node, NULL, busy, "record missing");
	test_again(downgrade(node), node, NULL, busy, "downgrade under way");
	test_again(downgrade(node), node, other, busy, "downgrade under way, group");
}

/* What a downgrade has written stays when the release notes only a position. */
static void
test_downgrade_kept(void)
{
	ZkRecord	later = {.position_count = 1,.positions = {{7, 1, 3}}};
	char		node[128];
	ZkContenderId shared;
	ZkContenderStatus status;
	ZkTime		deadline = zk_now() + DEADLINE;

	make_node(node, "downgrade-kept");
	shared = downgrade(node);
	while (run_of(node) != 2 && zk_now() < deadline)
		usleep(1000);
	is_int(run_of(node), 2, "a downgrade writes a run");
	zk_contender_note(client, shared, &later);
	zk_contender_release(client, shared);
	ok(wait_state(shared, ZK_GONE, &status) && status.recorded, "and released");
	zk_contender_abandon(client, shared);
	is_int(run_of(node), 2, "the record has the run that the downgrade wrote");
	record_of(node, &later);
	is_int(later.positions[0].lsn, 3, "and the position that the release wrote");
}

/* A downgrade when the record is not as it was read, or an answer is lost. */
static void
test_downgrade_faults(void)
{
	char		node[128];
	char		path[PATH_SIZE];
	ZkContenderId exclusive;
	ZkContenderId shared;
	ZkContenderStatus status;
	ZkError		error;

	for (int i = 0; i < 4; i++)
	{
		make_node(node, "downgrade-faults");
		exclusive = acquire_recorded(node, ZK_EXCLUSIVE);
		shared = zk_contender_reserve(client, exclusive, &error);
		path_of_record(node, path);
		note(exclusive, i);
		if (i == 1)
			zoo_set(stranger, path, "x", 1, -1);
		else if (i > 1)
			proxy_cut_at(ZOO_MULTI_OP, 1, i == 2 ? PROXY_BEFORE_REPLY :
						 PROXY_BEFORE_REQUEST, false);
		zk_contender_downgrade(client, exclusive, shared);
		if (i != 3)
			release(acquire(node, ZK_SHARED));
		ok(wait_state(shared, ZK_HELD, &status),
		   "downgrade with fault %d: the lock is held", i);
		ok(release(shared), "downgrade with fault %d: and released", i);
		is_int(run_of(node), i, "downgrade with fault %d: the record is written",
			   i);
		ok(wait_no_contenders() && children(node) == 0,
		   "downgrade with fault %d: nothing is left", i);
	}
}

/*
 * The answer to a downgrade is lost, and an ACL forbids it when it is tried again: the lock
 * is lost, and what the first one made is deleted (S377).
 */
static void
test_downgrade_refused(void)
{
	struct ACL	entry = {ZOO_PERM_ALL & ~ZOO_PERM_CREATE, ZOO_ANYONE_ID_UNSAFE};
	struct ACL_vector acl = {1, &entry};
	char		node[128];
	int			cuts = proxy_cuts();
	ZkContenderId exclusive;
	ZkContenderId shared;
	ZkContenderStatus status;
	ZkError		error;

	make_node(node, "downgrade-refused");
	exclusive = acquire(node, ZK_EXCLUSIVE);
	shared = zk_contender_reserve(client, exclusive, &error);
	lose_reply(ZOO_MULTI_OP, true);
	zk_contender_downgrade(client, exclusive, shared);
	ok(wait_cut(cuts), "the reply to a downgrade is lost");
	is_int(zoo_set_acl(stranger, node, -1, &acl), ZOK, "nothing more may be created");
	proxy_refuse(false);
	ok(wait_state(shared, ZK_LOST, &status), "the lock is lost");
	zk_contender_abandon(client, shared);
	ok(wait_no_contenders(), "its contender is forgotten");
	is_int(children(node), 0, "and gone (S377)");
}

/* Another client created the record and lets no other change it, or read it. */
static void
test_forbidden(void)
{
	struct ACL	entry = {ZOO_PERM_READ, {"world", "anyone"}};
	struct ACL_vector acl = {1, &entry};
	char		node[128];
	char		path[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus status;

	make_node(node, "forbidden");
	leave_record(node, 1);
	path_of_record(node, path);
	zoo_set_acl(stranger, path, -1, &acl);
	id = acquire_recorded(node, ZK_EXCLUSIVE);
	note(id, 2);
	zk_contender_release(client, id);
	ok(wait_state(id, ZK_GONE, &status) && !status.recorded &&
	   status.error == ZK_ERR_FORBIDDEN,
	   "a record that may not be written keeps no lock from being released");
	zk_contender_abandon(client, id);

	make_node(node, "unreadable");
	leave_record(node, 1);
	path_of_record(node, path);
	entry.perms = ZOO_PERM_WRITE;
	zoo_set_acl(stranger, path, -1, &acl);
	id = request_recorded(node, ZK_EXCLUSIVE);
	ok(wait_state(id, ZK_FAILED, &status) && status.error == ZK_ERR_FORBIDDEN,
	   "one that may not be read does: \"%s\"", status.detail);
	zk_contender_abandon(client, id);
	ok(wait_children(node, 0), "no contender is left");
}

static void
test_query(void)
{
	char		node[128];
	ZkQueueListing *listing;
	ZkTime		deadline = zk_now() + DEADLINE;

	make_node(node, "query");
	leave_record(node, 8);
	lose_reply(ZOO_GETDATA_OP, false);
	zk_record_request(client, node, root);
	while ((listing = zk_queue_take(client)) == NULL && zk_now() < deadline)
		wait_event();
	ok(listing != NULL && listing->error == ZK_OK &&
	   listing->record.runs[0].fire_time == 8, "a record can be read without the lock");
	zk_queue_free(listing);
	node_path(node, "query/none");
	zk_record_request(client, node, root);
	while ((listing = zk_queue_take(client)) == NULL && zk_now() < deadline)
		wait_event();
	ok(listing != NULL && listing->error == ZK_OK && listing->record.run_count == 0,
	   "or found to be missing");
	zk_queue_free(listing);
}

/*
 * While connections are cut: what was reported as written is there, and no
 * contender is left.
 */
static void
test_cutting(ProxyMoment moment, int rounds)
{
	const char *what = moment == PROXY_BEFORE_REPLY ? "replies" : "requests";
	char		node[128];
	ZkContenderStatus status;
	int			wrong = 0;
	int			written = 0;
	int			lost = 0;
	int			cuts = proxy_cuts();

	make_node(node, what);
	leave_record(node, 0);
	proxy_cut_at(PROXY_ANY_REQUEST, 5, moment, true);
	for (int i = 1; i <= rounds; i++)
	{
		ZkContenderId id = acquire_recorded(node, i % 3 ? ZK_EXCLUSIVE : ZK_SHARED);
		ZkRecord	record;
		bool		was_written;

		zk_contender_record(client, id, &record);
		note(id, i);
		was_written = release_and_look(id, &status);
		if (status.loss != ZK_NOT_LOST)
			lost++;				/* the machine stood still for a lease */
		else if (was_written)
		{
			written++;
			wrong += run_of(node) != i;
		}
	}
	cuts = proxy_cuts() - cuts;
	proxy_cut_at(0, 0, moment, false);
	is_int(wrong, 0, "%s are lost: the written record is there", what);
	is_int(written, rounds - lost, "%s are lost: all was written", what);
	ok(lost <= rounds / 10, "%s are lost: hardly a lock is", what);
	ok(wait_children(node, 0), "%s are lost: no contender is left", what);
	ok(cuts > rounds / 5, "%d connections were cut", cuts);
}

/* A client that stops while it holds a lock writes the record, too. */
static void
test_stop(void)
{
	char		node[128];
	ZkContenderId id;

	make_node(node, "stop");
	leave_record(node, 1);
	id = acquire_recorded(node, ZK_EXCLUSIVE);
	note(id, 2);
	ok(zk_client_stop(client, 30000), "the client stops");
	is_int(run_of(node), 2, "and has written the record of what it held");
	ok(wait_children(node, 0), "no contender is left");
}

/*
 * The multi-op that writes the end of a run is refused by a server that has too much to
 * do, as the client stops: it is tried again.
 */
static void
test_stop_throttled(void)
{
	char		node[128];
	ZkContenderId id;
	int			throttled = proxy_throttled();

	make_node(node, "throttled");
	start_client(proxied, TIMEOUT_MS * 3);
	leave_record(node, 1);
	id = acquire_recorded(node, ZK_EXCLUSIVE);
	note(id, 2);
	proxy_throttle_at(ZOO_MULTI_OP, 1);
	zk_contender_abandon(client, id);
	ok(zk_client_stop_at_exit(client, 30000), "S252: the client stops while it is throttled");
	is_int(proxy_throttled() - throttled, 1, "S252: one request was");
	is_int(run_of(node), 2, "S252: and has written the end of the run");
	ok(wait_children(node, 0), "S252: no contender is left");
}

/*
 * A lock has been held for as long as it may while a commit was under way, and was
 * released with it.  The client's threads may look at the time before they take that
 * order, as the I/O thread does when a connection is back.
 */
static void
test_overtime(void)
{
	ZkLockRequest wish = recorded(ZK_EXCLUSIVE);
	char		node[128];
	const char *nodes[1] = {node};
	ZkContenderId id;
	ZkError		error;
	ZkContenderStatus status;

	make_node(node, "overtime");
	wish.max_hold = ZK_MS(200);
	zk_client_commit(client, true);
	ok(zk_contenders_request(client, &wish, 1, nodes, &id, &error) &&
	   wait_state(id, ZK_HELD, &status), "a lock is held that may be for 200 ms");
	note(id, 2);
	usleep(300 * 1000);
	zk_contender_status(client, id, &status);
	is_int(status.state, ZK_HELD, "S322: it is kept under a commit");

	pthread_mutex_lock(&client->engine_lock);
	zk_contender_release(client, id);
	zk_client_commit(client, false);
	zk_lease_check(client);
	zk_engine_leave(client);
	ok(wait_state(id, ZK_GONE, &status), "it is released");
	ok(status.recorded, "S322: and the end of the run is written");
	is_int(run_of(node), 2, "S322: where all clients see it");
	zk_contender_abandon(client, id);

	/* not so soon that it could be lost before it is seen to be held */
	wish.max_hold = ZK_MS(3000);
	ok(zk_contenders_request(client, &wish, 1, nodes, &id, &error) &&
	   wait_state(id, ZK_HELD, &status), "it is held again");
	ok(wait_state(id, ZK_LOST, &status), "S322: without a commit it is lost in time");
	zk_contender_abandon(client, id);
	ok(wait_children(node, 0), "and others can have it");
}

int
main(void)
{
	if (!find_servers("client_record_test") || !open_proxied())
		return 1;
	start_client(proxied, LONG_TIMEOUT_MS);
	test_written_and_read();
	test_not_held();
	test_conflicts();
	test_cut();
	test_cut_and_broken();
	test_cut_and_written_over();
	test_read_lost();
	test_granted_by_event();
	test_group();
	test_downgrade(false);
	test_downgrade(true);
	test_again_in_all_ways(false);
	test_again_in_all_ways(true);
	test_downgrade_kept();
	test_downgrade_faults();
	test_downgrade_refused();
	test_overtime();
	test_forbidden();
	test_query();
	restart_client(proxied, TIMEOUT_MS * 3);	/* it is cut very often */
	test_cutting(PROXY_BEFORE_REPLY, 60);
	test_cutting(PROXY_BEFORE_REQUEST, 60);
	test_stop();
	test_stop_throttled();
	zookeeper_close(stranger);
	proxy_stop();
	return done_testing();
}
