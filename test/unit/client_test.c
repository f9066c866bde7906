/*-------------------------------------------------------------------------
 *
 * client_test.c
 *	  The lock client against a real ensemble, without PostgreSQL.
 *
 * ZK_SERVERS names the ensemble.  Other clients' contenders are made through a
 * handle of the library of our own ("the stranger").
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* the library's synchronous functions, too */

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client_common.h"

/* As many contenders as there can be are in queues that are quickly listed. */
#define CAPS_QUEUES	16

static void
test_uncontended(void)
{
	char		node[128];
	char		path[256];
	struct Stat stat;
	ZkContenderId id;
	ZkContenderStatus status;

	node_path(node, "deep/below/free");
	id = request(node, ZK_EXCLUSIVE);
	ok(wait_state(id, ZK_HELD, &status), "a free lock is granted");
	snprintf(path, sizeof(path), "%s/%s", node, status.name);
	is_int(zoo_exists(stranger, path, 0, &stat), ZOK,
		   "its contender is where its status says");
	ok(stat.czxid == status.token, "the token is its czxid");
	ok(zk_contender_lease_runs(client, id), "its lease runs");
	ok(release(id), "it is released");
	is_int(children(node), 0, "no contender is left");
	zk_contender_status(client, id, &status);
	is_int(status.state, ZK_NONE, "the id is dead");
}

static void
test_waiting(void)
{
	char		node[128];
	char		first[256];
	char		second[256];
	ZkContenderId id;
	ZkContenderStatus status;

	node_path(node, "waiting");
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	stranger_queues(node, "_c_bbb-lock-", second, sizeof(second));
	id = request(node, ZK_EXCLUSIVE);
	ok(wait_state(id, ZK_WATCHING, &status), "a lock that is held is waited for");
	is_int(status.ahead, 2, "two are ahead");
	is_str(status.blocker, strrchr(second, '/') + 1,
		   "the nearest one ahead is watched (S19)");
	is_str(status.holder, strrchr(first, '/') + 1, "the first one holds");
	is_int(status.position, 3, "in the third place");
	for (ZkTime deadline = zk_now() + DEADLINE;
		 status.blocker_session == 0 && zk_now() < deadline;)
	{
		wait_event();
		zk_contender_status(client, id, &status);
	}
	ok(status.blocker_session == zoo_client_id(stranger)->client_id,
	   "it is known whose the one is that is watched");
	zoo_delete(stranger, second, -1);
	for (ZkTime deadline = zk_now() + DEADLINE; zk_now() < deadline;)
	{
		zk_contender_status(client, id, &status);
		if (status.ahead == 1)
			break;
		wait_event();
	}
	is_int(status.state, ZK_WATCHING, "a waiter that gives up grants nothing (S9)");
	is_str(status.blocker, strrchr(first, '/') + 1, "the holder is watched then");
	zoo_set(stranger, first, "x", 1, -1);
	zoo_delete(stranger, first, -1);
	ok(wait_state(id, ZK_HELD, &status), "the holder's going is the grant");
	release(id);
}

static void
test_shared(void)
{
	char		node[128];
	char		reader[256];
	ZkContenderId shared;
	ZkContenderId exclusive;
	ZkContenderStatus status;

	node_path(node, "shared");
	stranger_queues(node, "_c_aaa-__READ__", reader, sizeof(reader));
	shared = request(node, ZK_SHARED);
	ok(wait_state(shared, ZK_HELD, &status), "readers share");
	exclusive = request(node, ZK_EXCLUSIVE);
	ok(wait_state(exclusive, ZK_WATCHING, &status),
	   "an upgrade waits for the other reader");
	is_int(status.ahead, 1, "our own shared lock is not in its way");
	ok(!status.deadlock, "that is no deadlock");
	zoo_delete(stranger, reader, -1);
	ok(wait_state(exclusive, ZK_HELD, &status), "the upgrade is granted");
	release(exclusive);
	release(shared);
}

static void
test_upgrade_deadlock(void)
{
	char		node[128];
	char		reader[256];
	char		writer[256];
	ZkContenderId shared;
	ZkContenderId exclusive;
	ZkContenderStatus status;

	node_path(node, "upgrade");
	stranger_queues(node, "_c_aaa-__READ__", reader, sizeof(reader));
	shared = acquire(node, ZK_SHARED);
	stranger_queues(node, "_c_aab-lock-", writer, sizeof(writer));
	exclusive = request(node, ZK_EXCLUSIVE);
	wait_state(exclusive, ZK_WATCHING, &status);
	ok(status.deadlock, "two upgraders are a deadlock (S25)");
	is_str(status.blocker, strrchr(writer, '/') + 1, "with the one named");
	zk_contender_abandon(client, exclusive);
	zk_contender_abandon(client, shared);
	ok(wait_children(node, 2), "the waiter that gives up leaves nothing");
	zoo_delete(stranger, reader, -1);
	zoo_delete(stranger, writer, -1);
}

static void
test_downgrade(void)
{
	char		node[128];
	char		writer[256];
	char		path[256];
	ZkContenderId exclusive;
	ZkContenderId shared;
	ZkContenderId other;
	ZkContenderStatus before;
	ZkContenderStatus after;
	ZkError		error;
	struct Stat stat;

	node_path(node, "downgrade");
	exclusive = acquire(node, ZK_EXCLUSIVE);
	zk_contender_status(client, exclusive, &before);
	stranger_queues(node, "_c_aaa-lock-", writer, sizeof(writer));
	shared = zk_contender_reserve(client, exclusive, &error);
	ok(shared != 0, "room is made for a downgrade");
	zk_contender_downgrade(client, exclusive, shared);
	zk_contender_status(client, shared, &after);
	is_int(after.state, ZK_HELD, "a downgrade leaves no gap (S24)");
	ok(after.token == before.token, "the token stays");
	snprintf(path, sizeof(path), "%s/%s", node, before.name);
	for (ZkTime deadline = zk_now() + DEADLINE;
		 zoo_exists(stranger, path, 0, &stat) == ZOK && zk_now() < deadline;)
		usleep(1000);
	is_int(children(node), 2, "shared has taken the place of exclusive");
	zk_contender_status(client, shared, &after);
	is_str(after.name + strlen(after.name) - 10,
		   before.name + strlen(before.name) - 10,
		   "and has its number, ahead of the waiters");
	other = request(node, ZK_SHARED);
	ok(wait_state(other, ZK_WATCHING, &after), "the waiting writer stays ahead of new readers");
	zk_contender_abandon(client, other);
	zoo_delete(stranger, writer, -1);
	ok(release(shared), "the shared lock is released");
	ok(wait_children(node, 0), "nothing is left");

	exclusive = acquire(node, ZK_EXCLUSIVE);
	shared = zk_contender_reserve(client, exclusive, &error);
	zk_contender_downgrade(client, exclusive, shared);
	zk_contender_abandon(client, shared);
	ok(wait_children(node, 0), "a downgrade that is abandoned immediately leaves nothing");
}

static void
test_renewal(void)
{
	char		node[128];
	char		path[256];
	ZkContenderId id;
	ZkContenderId other;
	ZkContenderStatus before;
	ZkContenderStatus after = {0};
	ZkTime		asked;

	node_path(node, "renewal");
	id = acquire(node, ZK_EXCLUSIVE);
	node_path(path, "renewal-other");
	other = acquire(path, ZK_SHARED);
	zk_contender_status(client, id, &before);
	asked = zk_now();
	zk_client_renew(client);
	for (ZkTime deadline = zk_now() + DEADLINE; zk_now() < deadline;)
	{
		zk_contender_status(client, id, &after);
		if (after.proved_at >= asked)
			break;
		wait_event();
	}
	ok(after.proved_at >= asked, "a proof can be had on demand");
	snprintf(path, sizeof(path), "%s/%s", node, before.name);
	zoo_delete(stranger, path, -1);
	zk_client_renew(client);
	ok(wait_state(id, ZK_LOST, &after), "a contender that is gone is a lost lock");
	is_int(after.loss, ZK_LOST_CONTENDER, "and that is the reason given");
	zk_contender_abandon(client, id);
	for (ZkTime deadline = zk_now() + DEADLINE; zk_now() < deadline;)
	{
		zk_contender_status(client, other, &after);
		if (after.proved_at >= asked && after.state == ZK_HELD)
			break;
		wait_event();
	}
	is_int(after.state, ZK_HELD, "the other lock is proved all the same");
	release(other);
}

static void
test_expiry(void)
{
	char		held_node[128];
	char		node[128];
	char		first[256];
	ZkContenderId held;
	ZkContenderId waiting;
	ZkContenderStatus status;
	ZkSessionStatus before;
	ZkSessionStatus after;

	node_path(held_node, "expiry-held");
	node_path(node, "expiry-waiting");
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	held = acquire(held_node, ZK_EXCLUSIVE);
	waiting = request(node, ZK_EXCLUSIVE);
	wait_state(waiting, ZK_WATCHING, &status);
	zk_client_status(client, &before);
	end_session();
	ok(wait_state(held, ZK_LOST, &status), "a lock is lost with its session");

	/*
	 * The server says nothing any more to who has another connection for that
	 * session; whether the library's patience or the lease ends first
	 * depends.
	 */
	ok(status.loss == ZK_LOST_EXPIRED || status.loss == ZK_LOST_LEASE,
	   "and that, or the silence, is the reason given");
	zoo_delete(stranger, first, -1);
	ok(wait_state(waiting, ZK_HELD, &status),
	   "the waiter requeues in the next session (S3)");
	zk_client_status(client, &after);
	ok(after.session_id != before.session_id && after.session_id != 0,
	   "it is another session");
	is_int(children(held_node), 0, "the lost lock is not taken up again");
	zk_contender_release(client, held);
	ok(wait_state(held, ZK_GONE, &status), "a lost lock can be released");
	zk_contender_abandon(client, held);
	release(waiting);
	for (int i = 0; i < 5; i++)
	{
		held = acquire(held_node, ZK_EXCLUSIVE);
		end_session();
		wait_state(held, ZK_LOST, &status);
		zk_contender_abandon(client, held);
	}
	is_int(status.state, ZK_LOST, "expiry again and again is survived (S76)");
}

static void
test_listing(void)
{
	char		node[128];
	char		first[256];
	char		junk[256];
	ZkContenderId held;
	ZkQueueListing *listing;

	node_path(node, "listing");
	held = acquire(node, ZK_SHARED);
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	snprintf(junk, sizeof(junk), "%s/junk", node);
	zoo_create(stranger, junk, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
	zk_query_request(client, ZK_QUERY_QUEUE, node, NULL);
	listing = await_listing();
	ok(listing != NULL, "a queue can be read");
	if (listing == NULL)
		return;
	is_int(listing->count, 2, "it has two contenders, and a child that is none does not count (S82)");
	ok(listing->members[0].own && listing->members[0].granted,
	   "ours is first and granted");
	ok(listing->members[0].data_len == (int) strlen(OWNER) &&
	   memcmp(listing->members[0].data, OWNER, strlen(OWNER)) == 0,
	   "its data is the owner's");
	ok(!listing->members[1].own && !listing->members[1].granted,
	   "the stranger's waits");
	zk_queue_free(listing);
	zoo_delete(stranger, junk, -1);
	zoo_delete(stranger, first, -1);
	release(held);
}

/*
 * The head of a queue: all that are in it, and the first stranger.
 */
static void
test_head(void)
{
	char		node[128];
	char		first[256];
	char		second[256];
	ZkContenderId held;
	ZkQueueListing *listing;

	node_path(node, "head");
	zk_query_request(client, ZK_QUERY_HEAD, node, NULL);
	listing = await_listing();
	ok(listing != NULL && listing->error == ZK_OK && listing->count == 0,
	   "a queue that is not there has no head");
	zk_queue_free(listing);

	held = acquire(node, ZK_SHARED);
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	stranger_queues(node, "_c_bbb-lock-", second, sizeof(second));
	zk_query_request(client, ZK_QUERY_HEAD, node, NULL);
	listing = await_listing();
	ok(listing != NULL && listing->error == ZK_OK && listing->count == 3,
	   "the head of a queue is listed with all that follow");
	if (listing == NULL || listing->count != 3)
		return;
	ok(listing->members[0].own && listing->members[0].czxid == 0,
	   "our own contender is not read");
	is_str(listing->members[1].name, strrchr(first, '/') + 1, "the first stranger");
	ok(listing->members[1].czxid != 0 && listing->members[1].session_id != 0,
	   "is read");
	ok(listing->members[2].czxid == 0, "and no contender behind it");
	zk_queue_free(listing);
	zoo_delete(stranger, first, -1);
	zoo_delete(stranger, second, -1);
	release(held);
}

/* Request a tree and cancel, immediately or in the middle, repeatedly. */
static void
give_up_trees(const char *node)
{
	for (int i = 0; i < 200; i++)
	{
		zk_query_request(client, ZK_QUERY_TREE, node, NULL);
		usleep((useconds_t) (i * 20));
		zk_queue_cancel(client);
	}
	zk_client_clear_event(client);
	ok(zk_queue_take(client) == NULL, "a query that was cancelled has no result");
}

static void
test_tree(void)
{
	char		node[128];
	char		below[160];
	char		child[200];
	char		first[256];
	ZkContenderId held[2];
	ZkQueueListing *listing;

	node_path(node, "tree");
	snprintf(below, sizeof(below), "%s/below", node);
	held[0] = acquire(node, ZK_SHARED);
	held[1] = acquire(below, ZK_EXCLUSIVE);
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	for (int i = 0; i < 100; i++)
	{
		snprintf(child, sizeof(child), "%s/%d", below, i);
		zoo_create(stranger, child, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
	}
	give_up_trees(node);

	zk_query_request(client, ZK_QUERY_TREE, node, NULL);
	listing = await_listing();
	ok(listing != NULL && listing->error == ZK_OK && listing->count == 2,
	   "a tree can be read: two locks");
	if (listing == NULL || listing->count != 2)
		return;
	is_str(listing->members[0].node, node, "the upper one");
	is_int(listing->members[0].holders, 1, "is held");
	is_int(listing->members[0].waiters, 1, "and waited for");
	is_int(listing->members[0].mode, ZK_SHARED, "in the mode of its holder");
	is_str(listing->members[1].node, below, "the lower one");
	is_int(listing->members[1].waiters, 0, "is held only");
	ok(listing->members[1].data_len == (int) strlen(OWNER) &&
	   memcmp(listing->members[1].data, OWNER, strlen(OWNER)) == 0,
	   "with the data of its owner");
	zk_queue_free(listing);

	zk_query_request(client, ZK_QUERY_TREE, node, "below");
	listing = await_listing();
	ok(listing != NULL && listing->count == 1, "a child can be left out");
	zk_queue_free(listing);

	for (int i = 0; i < 100; i++)
	{
		snprintf(child, sizeof(child), "%s/%d", below, i);
		zoo_delete(stranger, child, -1);
	}
	zoo_delete(stranger, first, -1);
	release(held[0]);
	release(held[1]);
}

/*
 * How many watches the server keeps on what is below our root, for all connections;
 * other tests may use it, too.  -1 if that is unknown.
 */
static int
server_watches(void)
{
	char		command[256];
	char		line[1024];
	bool		ours = false;
	int			watches = 0;
	FILE	   *out;

	snprintf(command, sizeof(command),
			 "bash -c 'exec 3<>/dev/tcp/${0%%:*}/${0##*:} && printf wchp >&3 && cat <&3' %s",
			 servers);
	out = popen(command, "r");
	while (fgets(line, sizeof(line), out) != NULL)
	{
		/* a path, and then the sessions that watch it, each after a tab */
		if (line[0] == '/')
			ours = strncmp(line, root, strlen(root)) == 0 &&
				line[strlen(root)] == '/';
		else if (line[0] == '\t' && ours)
			watches++;
	}
	return pclose(out) == 0 ? watches : -1;
}

static void
test_abandoning(int rounds)
{
	char		node[128];
	char		first[256];
	ZkContenderStatus status;
	size_t		before = 0;
	size_t		after;
	int			watches;

	node_path(node, "abandoning");
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	for (int i = 0; i < rounds; i++)
	{
		ZkContenderId id = request(node, i % 3 ? ZK_EXCLUSIVE : ZK_SHARED);

		/* a different point of the protocol each time */
		if (i % 4 == 0)
			wait_state(id, ZK_WATCHING, &status);
		else
			usleep((useconds_t) (rand() % 1500));
		zk_contender_abandon(client, id);
		if (i == rounds / 2)
		{
			wait_children(node, 1);
			before = mallinfo2().uordblks;
		}
	}
	ok(wait_children(node, 1),
	   "%d waits abandoned at any point leave no contender (S41, S42)", rounds);
	after = mallinfo2().uordblks;
	ok(after < before + 100 * 1024, "memory is flat (S85)");
	watches = server_watches();
	ok(watches >= 0 && watches <= 2, "%d watches are left (S92)", watches);
	zoo_delete(stranger, first, -1);
	wait_children(node, 0);
}

static void
test_cycles(int rounds)
{
	char		node[128];
	size_t		before = 0;

	node_path(node, "cycles");
	for (int i = 0; i < rounds; i++)
	{
		if (!release(acquire(node, ZK_EXCLUSIVE)))
			break;
		if (i == rounds / 2)
			before = mallinfo2().uordblks;
	}
	is_int(children(node), 0, "%d cycles leave no contender", rounds);
	ok(mallinfo2().uordblks < before + 100 * 1024, "memory is flat (S85)");
}

/* Contenders of a small group. */
#define MEMBERS		5

/* Ask for locks below a lock node, all at once. */
static bool
request_group(const char *node, int count, ZkContenderId *ids, ZkError *error)
{
	char		paths[ZK_MAX_GROUP + 1][140];
	const char *nodes[ZK_MAX_GROUP + 1];

	ZkLockRequest wish = {
		.mode = ZK_EXCLUSIVE,.owner = OWNER
	};

	for (int i = 0; i < count; i++)
	{
		snprintf(paths[i], sizeof(paths[i]), "%s/%d", node, i);
		nodes[i] = paths[i];
	}
	return zk_contenders_request(client, &wish, count, nodes, ids, error);
}

/* Give up a group, and wait until nothing is left of it. */
static bool
abandon_group(const char *node, int count, const ZkContenderId *ids)
{
	char		path[140];
	bool		gone = true;

	for (int i = 0; i < count; i++)
		zk_contender_abandon(client, ids[i]);
	for (int i = 0; i < count; i++)
	{
		snprintf(path, sizeof(path), "%s/%d", node, i);
		gone &= wait_children(path, 0);
	}
	return gone;
}

static void
test_group(void)
{
	char		node[128];
	char		path[256];
	struct Stat stat;
	ZkContenderId ids[ZK_MAX_GROUP + 1];
	ZkContenderStatus status[ZK_MAX_GROUP];
	ZkError		error;
	int			granted = 0;

	node_path(node, "group");
	ok(!request_group(node, ZK_MAX_GROUP + 1, ids, &error) &&
	   error == ZK_ERR_LIMIT, "a group has a limit");
	ok(request_group(node, ZK_MAX_GROUP, ids, &error),
	   "a group is asked for, no lock node is there");
	for (int i = 0; i < ZK_MAX_GROUP; i++)
		granted += wait_state(ids[i], ZK_HELD, &status[i]) &&
			status[i].token == status[0].token;
	is_int(granted, ZK_MAX_GROUP, "all are granted, with one token");
	snprintf(path, sizeof(path), "%s/7/%s", node, status[7].name);
	is_int(zoo_exists(stranger, path, 0, &stat), ZOK, "each where its status says");
	ok(stat.czxid == status[0].token, "the token is its czxid");
	ok(stat.ephemeralOwner == session_of_client().client_id, "and it is ours");
	ok(abandon_group(node, ZK_MAX_GROUP, ids), "it is abandoned");
	ok(request_group(node, MEMBERS, ids, &error), "another one is asked for");
	ok(abandon_group(node, MEMBERS, ids), "and abandoned immediately");
}

/*
 * A member that loses its place does not requeue, but the others are not affected.
 */
static void
test_group_broken(void)
{
	char		node[128];
	char		queue[140];
	char		holder[256];
	char		path[256];
	ZkContenderId ids[MEMBERS];
	ZkContenderStatus status;
	ZkError		error;

	node_path(node, "broken");
	zoo_create(stranger, node, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER,
			   NULL, 0);
	snprintf(queue, sizeof(queue), "%s/2", node);
	stranger_queues(queue, "_c_aaa-lock-", holder, sizeof(holder));
	request_group(node, MEMBERS, ids, &error);
	ok(wait_state(ids[4], ZK_HELD, &status), "of a group some are granted");
	ok(wait_state(ids[2], ZK_WATCHING, &status), "and one is waited for");
	snprintf(path, sizeof(path), "%s/%s", queue, status.name);
	zoo_delete(stranger, path, -1);
	ok(wait_state(ids[2], ZK_FAILED, &status), "a stranger deletes it: it fails");
	is_int(status.error, ZK_ERR_VANISHED, "for that reason");
	zk_contender_status(client, ids[4], &status);
	is_int(status.state, ZK_HELD, "the others are still held");
	zoo_delete(stranger, holder, -1);
	ok(abandon_group(node, MEMBERS, ids), "until all are abandoned");

	stranger_queues(queue, "_c_aaa-lock-", holder, sizeof(holder));
	request_group(node, MEMBERS, ids, &error);
	ok(wait_state(ids[2], ZK_WATCHING, &status), "a group waits");
	ok(wait_state(ids[4], ZK_HELD, &status), "for one of its locks");
	end_session();
	ok(wait_state(ids[2], ZK_FAILED, &status), "the session ends: it fails");
	is_int(status.error, ZK_ERR_UNQUEUED, "for that reason");
	ok(wait_state(ids[4], ZK_LOST, &status), "the granted lock is lost");
	zoo_delete(stranger, holder, -1);
	ok(abandon_group(node, MEMBERS, ids), "and nothing is left");
}

/* A group is not created if that fails for one of its members, which says why. */
static void
test_group_ephemeral(void)
{
	char		node[128];
	char		queue[140];
	ZkContenderId ids[MEMBERS];
	ZkContenderStatus status;
	ZkError		error;

	node_path(node, "mixed");
	zoo_create(stranger, node, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, NULL, 0);
	snprintf(queue, sizeof(queue), "%s/2", node);
	zoo_create(stranger, queue, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0);
	request_group(node, MEMBERS, ids, &error);
	ok(wait_state(ids[2], ZK_FAILED, &status), "S61: one lock node of a group is ephemeral");
	is_int(status.error, ZK_ERR_EPHEMERAL_PARENT, "S61: that is the error");
	ok(wait_state(ids[0], ZK_FAILED, &status), "the others fail with it");
	is_int(status.error, ZK_ERR_UNQUEUED, "because they were not created");
	ok(abandon_group(node, MEMBERS, ids), "nothing is left");
	zoo_delete(stranger, queue, -1);
}

static void
test_caps(void)
{
	static ZkContenderId ids[ZK_MAX_CONTENDERS + 1];
	char		nodes[CAPS_QUEUES][128];
	char		node[ZK_NODE_PATH_SIZE];
	ZkError		error = ZK_OK;
	ZkContenderStatus status;
	ZkTime		deadline = zk_now() + DEADLINE;
	int			count = 0;
	int			granted;
	bool		gone = true;

	for (int i = 0; i < CAPS_QUEUES; i++)
		snprintf(nodes[i], sizeof(nodes[i]), "%s/caps-%d", root, i);
	/* the helper may not have freed the slots of the previous test yet */
	while (count <= ZK_MAX_CONTENDERS && zk_now() < deadline)
	{
		ids[count] = request_or_error(nodes[count % CAPS_QUEUES], ZK_SHARED, &error);
		if (ids[count] != 0)
			count++;
		else if (count < ZK_MAX_CONTENDERS)
			usleep(1000);
		else
			break;
	}
	is_int(count, ZK_MAX_CONTENDERS, "there is a cap on contenders");
	is_int(error, ZK_ERR_LIMIT, "with an error of its own");
	/* a busy machine may be too slow to renew the leases of so many */
	for (granted = 0; granted < count; granted++)
		if (!wait_state(ids[granted], ZK_HELD, &status) && status.state != ZK_LOST)
			break;
	is_int(granted, count, "up to it all goes well");
	for (int i = 0; i < count; i++)
		zk_contender_abandon(client, ids[i]);
	for (int i = 0; i < CAPS_QUEUES; i++)
		gone &= wait_children(nodes[i], 0);
	ok(gone, "all of them can be abandoned together");

	node_path(node, "caps");
	memset(node + strlen(node), 'x', sizeof(node) - strlen(node) - 1);
	node[sizeof(node) - 1] = '\0';
	for (count = 0; (ids[count] = request(node, ZK_SHARED)) != 0; count++)
		;
	ok(count < ZK_MAX_PATH_BYTES / 1000, "there is a cap on path bytes");
	for (int i = 0; i < count; i++)
		zk_contender_abandon(client, ids[i]);
	ok(wait_children(node, 0), "all of them can be abandoned, too");
}

/* Threads of this process that are not the client's. */
#define MAX_OTHERS 8
static pid_t others[MAX_OTHERS];
static int	n_others;

static bool
is_other(pid_t thread)
{
	for (int i = 0; i < n_others; i++)
	{
		if (others[i] == thread)
			return true;
	}
	return false;
}

static void *
do_nothing(void *nothing)
{
	return nothing;
}

/*
 * Remember the threads there are before the client starts: this one, and that of a
 * sanitizer.  ThreadSanitizer starts one with the first thread of the program, and
 * does not block all signals in it, newer ones not SIGSYS.
 */
static void
remember_others(void)
{
	pthread_t	first;
	DIR		   *dir;
	struct dirent *entry;

	ok(pthread_create(&first, NULL, do_nothing, NULL) == 0 &&
	   pthread_join(first, NULL) == 0, "a thread comes and goes");
	dir = opendir("/proc/self/task");
	while ((entry = readdir(dir)) != NULL && n_others < MAX_OTHERS)
	{
		if (entry->d_name[0] != '.')
			others[n_others++] = atoi(entry->d_name);
	}
	closedir(dir);
}

/* The signals that a thread of this process has blocked, a bit each. */
static unsigned long long
blocked_signals(pid_t thread)
{
	char		path[64];
	char		line[256];
	unsigned long long blocked = 0;
	FILE	   *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int) thread);
	file = fopen(path, "r");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		sscanf(line, "SigBlk: %llx", &blocked);
	if (file != NULL)
		fclose(file);
	return blocked;
}

/* Every thread of the client must have every signal blocked. */
static void
test_signal_masks(void)
{
	DIR		   *dir = opendir("/proc/self/task");
	struct dirent *entry;
	int			checked = 0;
	int			wrong = 0;

	while ((entry = readdir(dir)) != NULL)
	{
		if (entry->d_name[0] == '.' || is_other(atoi(entry->d_name)))
			continue;
		checked++;
		if ((blocked_signals(atoi(entry->d_name)) & 0xfffffffe7ffbfeffULL) !=
			0xfffffffe7ffbfeffULL)
			wrong++;
	}
	closedir(dir);
	ok(checked >= 2, "the client has threads");
	is_int(wrong, 0, "all signals are blocked in each of them");
}

/*
 * What the library opened must not be inherited by programs we run.  A shared library's
 * calls are not in our hands, so there all of its descriptors are: this sees them.
 */
static void
test_descriptors(void)
{
	int			leaking = 0;

	for (int fd = 3; fd < 64; fd++)
	{
		struct stat st;
		int			flags = fcntl(fd, F_GETFD);

		if (flags >= 0 && fstat(fd, &st) == 0 && !(flags & FD_CLOEXEC) &&
			(S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode)))
			leaking++;
	}
#ifdef ZKLOCK_STATIC_LIBRARY
	is_int(leaking, 0, "no descriptor is inherited across exec (S70)");
#else
	ok(leaking > 0, "descriptors of a shared library are inherited across exec (S224)");
#endif
}

static void
test_stop(void)
{
	char		node[128];

	node_path(node, "stop");
	acquire(node, ZK_EXCLUSIVE);
	ok(zk_client_stop(client, 30000), "the client stops in time");
	is_int(children(node), 0, "and its contenders are gone with it");
}

static void
test_unreachable(const char *list, ZkError error, bool definite,
				 const char *what)
{
	char		node[128];
	ZkSessionStatus status;
	ZkContenderId id;
	ZkTime		deadline = zk_now() + DEADLINE;

	start_client(list, 4000);
	node_path(node, "unreachable");
	id = request(node, ZK_EXCLUSIVE);
	do
	{
		wait_event();
		zk_client_status(client, &status);
	} while ((status.resolving || status.detail[0] == '\0') &&
			 zk_now() < deadline);
	is_int(status.error, error, "%s: the error is the right one", what);
	ok(status.definite == definite, "%s: it is %sdefinite", what,
	   definite ? "" : "not ");
	diag("%s: %s", what, status.detail);
	zk_contender_abandon(client, id);
	ok(zk_client_stop(client, 30000), "%s: the client stops in time", what);
}

int
main(void)
{
	int			rounds;

	servers = getenv("ZK_SERVERS");
	if (servers == NULL)
	{
		fprintf(stderr, "ZK_SERVERS is not set\n");
		return 1;
	}
	rounds = getenv("ROUNDS") ? atoi(getenv("ROUNDS")) : 2000;
	remember_others();
	start_client(servers, LONG_TIMEOUT_MS);
	snprintf(root, sizeof(root), "/client_test_%d", (int) getpid());
	stranger = open_handle(NULL);

	test_uncontended();
	test_waiting();
	test_shared();
	test_upgrade_deadlock();
	test_downgrade();
	test_renewal();
	test_listing();
	test_head();
	test_tree();
	test_abandoning(rounds);
	test_cycles(rounds);
	test_group();
	test_group_ephemeral();
	test_caps();
	restart_client(servers, ENDED_TIMEOUT_MS);
	test_expiry();
	test_group_broken();
	test_signal_masks();
	test_descriptors();
	test_stop();
	test_unreachable("127.0.0.1:1", ZK_OK, false, "refused");
	test_unreachable("no-such-host.invalid:2181", ZK_ERR_UNRESOLVED, true,
					 "misspelt");
	zookeeper_close(stranger);
	return done_testing();
}
