/*-------------------------------------------------------------------------
 *
 * client_fault_test.c
 *	  The lock client with network failures.
 *
 * The client reaches the ensemble that ZK_SERVERS names through a proxy that
 * loses replies, cuts, freezes and refuses (proxy.h).  The stranger has a
 * connection of its own that nothing happens to, and sees what is really there.
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* the library's synchronous functions, too */

#include <stdlib.h>
#include <time.h>
#include <zookeeper/proto.h>

#include "client_proxied.h"
#include "lease.h"

/* More locks than one renewal, or two, can prove. */
#define MANY		(ZK_RENEWAL_BATCH * 2 + 40)

/* In queues of a length that is quickly listed, under any sanitizer. */
#define MANY_QUEUES	16

/* They are to be had, and renewed, before their first leases end. */
#define MANY_TIMEOUT_MS	(TIMEOUT_MS * 3)

/* Watches that the server does not take back in one packet. */
#define MANY_WATCHES			1150
#define WATCHED_NAME_LENGTH		900

/* Part the client from the ensemble, and let it come back. */
static void
disconnect(void)
{
	proxy_refuse(true);
	proxy_cut();
	wait_session(ZK_SESSION_SUSPENDED);
}

static void
reconnect(void)
{
	proxy_refuse(false);
	wait_session(ZK_SESSION_CONNECTED);
}

/* How many children were ever created below a znode?  See scenarios of it. */
static int
creations(const char *node)
{
	struct Stat stat;

	if (zoo_exists(stranger, node, 0, &stat) != ZOK)
		return -1;

	/* what clients are shown is creations * 2 - children */
	return (stat.cversion + stat.numChildren) / 2;
}

/* The ephemeralOwner of a contender. */
static int64_t
owner_of(const char *node, const char *name)
{
	char		path[PATH_SIZE];
	struct Stat stat;

	snprintf(path, sizeof(path), "%s/%s", node, name);
	return zoo_exists(stranger, path, 0, &stat) == ZOK ? stat.ephemeralOwner : 0;
}

/*
 * The stranger, who holds exclusively, puts a shared contender in the place of
 * its exclusive one, as the client itself does (zk_send_downgrade).
 */
static void
stranger_downgrades(const char *node, const char *exclusive, char *shared)
{
	zoo_op_t	ops[3];
	zoo_op_result_t results[3];

	snprintf(shared, PATH_SIZE, "%s/_c_aaa-__READ__%s", node,
			 exclusive + strlen(exclusive) - 10);
	zoo_create_op_init(&ops[0], shared, "", 0, &ZOO_OPEN_ACL_UNSAFE,
					   ZOO_EPHEMERAL, NULL, 0);
	zoo_set_op_init(&ops[1], exclusive, "", 0, -1, NULL);
	zoo_delete_op_init(&ops[2], exclusive, -1);
	if (zoo_multi(stranger, 3, ops, results) != ZOK)
		diag("the stranger could not downgrade");
}

static void
test_create_lost(void)
{
	char		node[128];
	ZkContenderId id;
	ZkContenderStatus status;
	ZkSessionStatus before;
	ZkSessionStatus after;
	int			cuts = proxy_cuts();

	make_node(node, "create-reply");
	zk_client_renew(client);
	release(acquire(root, ZK_SHARED));
	zk_client_status(client, &before);
	lose_reply(ZOO_CREATE2_OP, false);
	id = request(node, ZK_EXCLUSIVE);
	ok(wait_state(id, ZK_HELD, &status) && wait_cut(cuts),
	   "a lock is granted though the reply to its create was lost (S1, S39)");
	zk_client_status(client, &after);
	ok(after.session_id == before.session_id, "in the same session");
	is_int(creations(node), 1, "its contender was found and taken up");
	ok(status.token > 0 && owner_of(node, status.name) == after.session_id,
	   "with its token and under its name");
	ok(release(id), "it can be released");
	is_int(children(node), 0, "nothing is left of it");

	make_node(node, "create-request");
	proxy_cut_at(ZOO_CREATE2_OP, 1, PROXY_BEFORE_REQUEST, false);
	id = request(node, ZK_EXCLUSIVE);
	ok(wait_state(id, ZK_HELD, &status),
	   "it is granted, too, when the create itself was lost");
	is_int(creations(node), 1, "with one contender");
	release(id);
}

/*
 * What a server that is behind does next: lists that are empty, checks that are refused,
 * and, as long as there are such lists, syncs.
 */
static atomic_int lists_behind;
static atomic_int checks_throttled;
static atomic_bool syncs_throttled;

/* A ProxyAlter. */
static size_t
be_behind(int type, const unsigned char *packet, size_t size, unsigned char *altered)
{
	static const unsigned char throttled[] = {0xff, 0xff, 0xff, 0x81};	/* -127 */
	size_t		header = 4 + 16;

	memcpy(altered, packet, size);
	if (type == ZOO_MULTI_OP && checks_throttled > 0)
	{
		checks_throttled--;
		memcpy(altered + 16, throttled, sizeof(throttled));
	}
	else if (type == ZOO_SYNC_OP && lists_behind > 0 && syncs_throttled)
		memcpy(altered + 16, throttled, sizeof(throttled));
	else if (type == ZOO_GETCHILDREN_OP && lists_behind > 0)
	{
		lists_behind--;
		memset(altered + header, 0, 4);
		header += 4;
	}
	else
		return size;
	memset(altered, 0, 4);
	altered[3] = (unsigned char) (header - 4);
	return header;
}

/*
 * The reply to a create is lost, and the list in which it is looked for does not show
 * it, as that of a server that is behind.
 */
static void
test_find_behind(void)
{
	char		node[128];
	ZkContenderId id;
	ZkContenderStatus status;

	make_node(node, "find-throttled");
	proxy_alter(be_behind);
	lists_behind = checks_throttled = 1;
	lose_reply(ZOO_CREATE2_OP, false);
	id = request(node, ZK_EXCLUSIVE);
	ok(wait_state(id, ZK_HELD, &status) && lists_behind == 0 && checks_throttled == 0,
	   "S237: a server that is behind was not made to catch up: the lock is granted later");
	is_int(creations(node), 1, "S237: for the contender that was there");
	ok(release(id), "it can be released");

	make_node(node, "find-orphan");
	lists_behind = 1;
	lose_reply(ZOO_CREATE2_OP, false);
	id = request(node, ZK_EXCLUSIVE);
	ok(wait_state(id, ZK_HELD, &status) && lists_behind == 0,
	   "S238: a contender of ours that we have lost sight of is not waited for");
	is_int(children(node), 1, "S238: it is deleted");
	ok(release(id), "the other one can be released");
	proxy_alter(NULL);
}

/* How many members does a listing have that was asked for?  -1 if it failed. */
static int
count_listing(void)
{
	ZkQueueListing *listing = await_listing();
	int			count = listing == NULL || listing->error != ZK_OK ? -1 : listing->count;

	if (listing != NULL && listing->error != ZK_OK)
		diag("error %d: %s", listing->error, listing->detail);
	zk_queue_free(listing);
	return count;
}

/*
 * A read of a queue, a tree or a record meets a server that lags, and has too much
 * to do to catch up.
 */
static void
test_look_behind(void)
{
	char		node[128];
	ZkContenderId id;
	int			throttled = proxy_throttled();

	make_node(node, "look-behind");
	id = acquire(node, ZK_EXCLUSIVE);
	proxy_alter(be_behind);
	syncs_throttled = true;
	lists_behind = 1;
	zk_query_request(client, ZK_QUERY_QUEUE, node, NULL);
	is_int(count_listing(), 1, "S340: a queue is read until the server has caught up");
	is_int(lists_behind, 0, "which it had not at first");
	lists_behind = 6;
	zk_query_request(client, ZK_QUERY_TREE, node, NULL);
	is_int(count_listing(), 1, "S340: and so is a tree");
	is_int(lists_behind, 0, "however often");
	proxy_alter(NULL);
	ok(release(id), "the lock is released");

	proxy_throttle_at(ZOO_GETDATA_OP, 1);
	zk_record_request(client, node, root);
	is_int(count_listing(), 0, "S340: a record is read again that was refused");
	is_int(proxy_throttled() - throttled, 1, "as it was");
}

static void
test_create_given_up(ProxyMoment moment, const char *what)
{
	char		node[128];
	ZkContenderId id;
	int			cuts = proxy_cuts();

	make_node(node, what);
	proxy_refuse(true);
	proxy_cut_at(ZOO_CREATE2_OP, 1, moment, false);
	id = request(node, ZK_EXCLUSIVE);
	wait_cut(cuts);
	zk_contender_abandon(client, id);
	is_int(children(node), moment == PROXY_BEFORE_REPLY ? 1 : 0,
		   "%s: abandoned while disconnected", what);
	reconnect();
	ok(wait_children(node, 0),
	   "%s: the contender is deleted later (S40, S41)", what);
	ok(wait_no_contenders(), "%s: and its slot is free", what);
	is_int(creations(node), moment == PROXY_BEFORE_REPLY ? 1 : 0,
		   "%s: none was made after that", what);
}

static void
test_delete_reply_lost(void)
{
	char		node[128];
	ZkContenderId id;
	int			cuts = proxy_cuts();

	make_node(node, "delete-reply");
	id = acquire(node, ZK_EXCLUSIVE);
	lose_reply(ZOO_DELETE_OP, false);
	ok(release(id) && wait_cut(cuts),
	   "a release is done though the reply to its delete was lost (S43)");
	is_int(children(node), 0, "the contender is gone");
	id = acquire(node, ZK_EXCLUSIVE);
	proxy_cut_at(ZOO_DELETE_OP, 1, PROXY_BEFORE_REQUEST, false);
	ok(release(id), "and though the delete itself was lost");
	is_int(children(node), 0, "the contender is gone then, too");
}

static void
test_release_disconnected(void)
{
	char		node[128];
	char		path[PATH_SIZE];
	ZkContenderId old;
	ZkContenderId new;
	ZkContenderStatus status;

	make_node(node, "release");
	old = acquire(node, ZK_EXCLUSIVE);
	zk_contender_status(client, old, &status);
	snprintf(path, sizeof(path), "%s/%s", node, status.name);
	disconnect();
	zk_contender_release(client, old);
	zk_contender_status(client, old, &status);
	is_int(status.state, ZK_RELEASING,
		   "a release without a connection is under way (S45)");
	ok(!zk_contender_lease_runs(client, old), "the lock is not held any more");
	new = request(node, ZK_EXCLUSIVE);

	/* the new one gets there first */
	proxy_cut_at(ZOO_DELETE_OP, 1, PROXY_BEFORE_REQUEST, false);
	reconnect();
	ok(wait_state(new, ZK_HELD, &status),
	   "a new request does not queue behind the old contender");
	ok(wait_state(old, ZK_GONE, &status), "the release gets done");
	ok(wait_absent(path), "the contender is gone");
	is_int(children(node), 1, "the new one is left");
	proxy_cut_at(0, 0, PROXY_BEFORE_REQUEST, false);
	zk_contender_abandon(client, old);
	release(new);
}

static void
test_cut_while_waiting(bool deleted)
{
	const char *what = deleted ? "deleted in between" : "still there";
	char		node[128];
	char		first[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus before;
	ZkContenderStatus after;

	make_node(node, deleted ? "waiting-deleted" : "waiting-there");
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	id = request(node, ZK_EXCLUSIVE);
	wait_state(id, ZK_WATCHING, &before);
	disconnect();
	if (deleted)
		zoo_delete(stranger, first, -1);
	reconnect();
	if (!deleted)
	{
		/* a round trip over the new connection */
		release(acquire(root, ZK_SHARED));
		zk_contender_status(client, id, &after);
		is_int(after.state, ZK_WATCHING, "%s: the wait continues", what);
		zoo_delete(stranger, first, -1);
	}
	ok(wait_state(id, ZK_HELD, &after), "%s: the lock is granted (S51)", what);
	is_str(after.name, before.name, "%s: with the same contender (S109)", what);
	is_int(creations(node), 2, "%s: no other was made", what);
	release(id);
}

/*
 * Repeats a test that returns whether it came in time, as it does unless the machine
 * stands still.
 */
static void
test_in_time(bool (*test) (void), const char *what)
{
	bool		in_time = false;

	for (int i = 0; i < 5 && !in_time; i++)
		in_time = test();
	ok(in_time, "%s", what);
}

/*
 * After some time without a connection the client looks for other addresses:
 * with another handle, that knows of no watch.  Returns whether the client was back in
 * time for its session, as it is unless the machine stands still.
 */
static bool
reopen(void)
{
	char		node[128];
	char		first[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus before;
	ZkContenderStatus after;
	clientid_t	session;
	uintptr_t	handle;
	ZkTime		heard;
	ZkTime		deadline;
	bool		in_time;

	make_node(node, "reopened");
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	id = request(node, ZK_EXCLUSIVE);
	wait_state(id, ZK_WATCHING, &before);
	heard = zk_now();
	release(acquire(root, ZK_SHARED));
	session = session_of_client();
	handle = handle_of_client();
	disconnect();
	deadline = zk_now() + DEADLINE;
	while (handle_of_client() == handle && zk_now() < deadline)
		wait_event();
	ok(handle_of_client() != handle, "another handle is opened");
	reconnect();
	in_time = zk_now() < heard + ZK_MS(TIMEOUT_MS);
	ok(session_of_client().client_id == session.client_id || !in_time,
	   "it takes up the session");
	ok(wait_state(id, ZK_WATCHING, &after), "the wait continues");
	zoo_delete(stranger, first, -1);
	ok(wait_state(id, ZK_HELD, &after), "the lock is granted then");
	ok(strcmp(after.name, before.name) == 0 || !in_time, "with the same contender");
	release(id);
	return in_time;
}

static void
test_watch_lost(void)
{
	char		node[128];
	char		first[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus status;
	int			cuts = proxy_cuts();

	make_node(node, "watch");
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	lose_reply(ZOO_GETDATA_OP, false);
	id = request(node, ZK_EXCLUSIVE);
	wait_cut(cuts);
	reconnect();
	release(acquire(root, ZK_SHARED));
	ok(wait_state(id, ZK_WATCHING, &status),
	   "the wait continues although its watch was lost (S52)");
	zoo_delete(stranger, first, -1);
	ok(wait_state(id, ZK_HELD, &status), "the lock is granted then");
	is_int(creations(node), 2, "the place in the queue was kept");
	release(id);
}

/*
 * A wait reads the queue once if one or two are ahead: the deletion of the last one
 * is the grant.  A list would be the end of the connection.
 */
static void
test_event_is_grant(bool second)
{
	char		node[128];
	char		first[PATH_SIZE];
	char		next[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus status;
	int			cuts = proxy_cuts();

	make_node(node, second ? "event-of-two" : "event");
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	if (second)
		stranger_queues(node, "_c_bbb-lock-", next, sizeof(next));
	id = request(node, ZK_EXCLUSIVE);
	wait_state(id, ZK_WATCHING, &status);
	/* an acquire behind them shows that the watches have been set */
	release(acquire(root, ZK_SHARED));
	proxy_cut_at(ZOO_GETCHILDREN_OP, 1, PROXY_BEFORE_REQUEST, true);
	zoo_delete(stranger, first, -1);
	if (second)
		zoo_delete(stranger, next, -1);
	ok(wait_state(id, ZK_HELD, &status), "S90: %s ahead: the lock is granted",
	   second ? "two" : "one");
	proxy_cut_at(0, 0, PROXY_BEFORE_REQUEST, false);
	is_int(proxy_cuts(), cuts, "without another list of the queue");
	release(id);
}

/*
 * While a waiter is away, the holder turns its exclusive lock into a shared
 * one.  On return the waiter hears that the watched contender is deleted,
 * which is no grant.
 */
static void
test_downgrade_unseen(bool away)
{
	const char *what = away ? "behind our back" : "before our eyes";
	char		node[128];
	char		first[PATH_SIZE];
	char		shared[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus status;
	bool		granted = false;

	make_node(node, away ? "downgrade-unseen" : "downgrade-seen");
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	id = request(node, ZK_EXCLUSIVE);
	wait_state(id, ZK_WATCHING, &status);
	if (away)
		disconnect();
	stranger_downgrades(node, first, shared);
	if (away)
		reconnect();
	for (ZkTime deadline = zk_now() + DEADLINE; zk_now() < deadline;)
	{
		zk_contender_status(client, id, &status);
		granted |= status.state == ZK_HELD;
		if (granted || (status.state == ZK_WATCHING &&
						strcmp(status.blocker, strrchr(shared, '/') + 1) == 0))
			break;
		wait_event();
	}
	ok(!granted, "%s: a downgrade of the holder is no grant (S13, S24)", what);
	is_int(status.state, ZK_WATCHING, "%s: the shared one is waited for", what);
	zoo_delete(stranger, shared, -1);
	ok(wait_state(id, ZK_HELD, &status), "%s: granted when it goes", what);
	release(id);
}

static void
test_own_downgrade(void)
{
	char		node[128];
	char		path[PATH_SIZE];
	ZkContenderId exclusive;
	ZkContenderId shared;
	ZkContenderStatus status;
	ZkError		error;
	char		data[PATH_SIZE];
	char		said[PATH_SIZE];
	int			size;
	int64_t		token;
	int			cuts = proxy_cuts();

	make_node(node, "downgrade-reply");
	exclusive = acquire(node, ZK_EXCLUSIVE);
	zk_contender_status(client, exclusive, &status);
	token = status.token;
	snprintf(path, sizeof(path), "%s/%s", node, status.name);
	shared = zk_contender_reserve(client, exclusive, &error);
	lose_reply(ZOO_MULTI_OP, false);
	zk_contender_downgrade(client, exclusive, shared);
	ok(wait_cut(cuts) && wait_absent(path), "a downgrade's reply is lost");
	reconnect();
	zk_client_renew(client);
	release(acquire(root, ZK_SHARED));
	ok(wait_renamed(shared, strrchr(path, '/') + 1, &status),
	   "the shared contender is found");
	is_int(status.state, ZK_HELD, "the shared lock is held all the same");
	ok(status.token == token, "with its token");
	is_int(children(node), 1, "with one contender");
	snprintf(path, sizeof(path), "%s/%s", node, status.name);
	snprintf(said, sizeof(said), "{\"pid\":1,\"token\":%" PRId64 "}", token);
	size = sizeof(data) - 1;
	ok(zoo_get(stranger, path, 0, data, &size, NULL) == ZOK && size >= 0,
	   "which others can read");
	data[size > 0 ? size : 0] = '\0';
	is_str(data, said, "and which says the token (S210)");
	ok(release(shared), "that can be released");
	is_int(children(node), 0, "nothing is left");

	exclusive = acquire(node, ZK_EXCLUSIVE);
	shared = zk_contender_reserve(client, exclusive, &error);
	disconnect();
	zk_contender_downgrade(client, exclusive, shared);
	zk_contender_release(client, shared);
	for (ZkTime deadline = zk_now() + ZK_MS(200);
		 zk_now() < deadline && status.state != ZK_GONE;)
	{
		wait_event();
		zk_contender_status(client, shared, &status);
	}
	is_int(status.state, ZK_RELEASING,
		   "a release right after a downgrade is not done while the exclusive contender is there (S45)");
	reconnect();
	ok(wait_state(shared, ZK_GONE, &status), "it is when that could be deleted");
	is_int(children(node), 0, "nothing is left");
	zk_contender_abandon(client, shared);
}

/* When a renewal was sent last.  With engine_lock. */
static ZkTime
last_asked(void)
{
	ZkTime		last = 0;

	for (int i = 0; i < client->used; i++)
		if (client->contenders[i].claim != CLAIM_NONE && client->contenders[i].renewing.asked_at > last)
			last = client->contenders[i].renewing.asked_at;
	return last;
}

/* Waits until something is true of the engine since that time. */
static void
wait_for_engine(bool (*condition) (ZkTime since), ZkTime since)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	bool		met = false;

	while (!met && zk_now() < deadline)
	{
		usleep(1000);
		pthread_mutex_lock(&client->engine_lock);
		met = condition(since);
		pthread_mutex_unlock(&client->engine_lock);
	}
}

static bool
has_asked(ZkTime since)
{
	return last_asked() > since;
}

/* Asks for a proof, and waits until that is on its way. */
static void
begin_renewal(void)
{
	ZkTime		asked = zk_now();

	zk_client_renew(client);
	wait_for_engine(has_asked, asked);
}

/* Returns true if the request of a downgrade is on its way, since whenever. */
static bool
is_downgrading(ZkTime since)
{
	(void) since;
	for (int i = 0; i < client->used; i++)
		if (client->contenders[i].partner != NULL &&
			client->contenders[i].turn.pending > 0)
			return true;
	return false;
}

/*
 * The answer to a renewal says that another client has deleted a contender.  Its downgrade
 * is on its way then, and the backend has given up the shared one.
 */
static void
test_downgrade_given_up(void)
{
	char		node[128];
	char		path[PATH_SIZE];
	ZkContenderId exclusive;
	ZkContenderId shared;
	ZkContenderStatus status;
	ZkError		error;

	make_node(node, "downgrade-given-up");
	exclusive = acquire(node, ZK_EXCLUSIVE);
	zk_contender_status(client, exclusive, &status);
	snprintf(path, sizeof(path), "%s/%s", node, status.name);
	shared = zk_contender_reserve(client, exclusive, &error);
	proxy_freeze();
	begin_renewal();
	zk_contender_downgrade(client, exclusive, shared);
	wait_for_engine(is_downgrading, 0);
	zk_contender_abandon(client, shared);
	zoo_delete(stranger, path, -1);
	proxy_thaw();
	ok(wait_no_contenders(), "a downgrade is given up, and its contender deleted: all slots are free (S382)");
	is_int(children(node), 0, "and nothing is left");
}

/*
 * A waiter whose contender was deleted requeues, and two answers say so.
 * The second is not about the new contender.
 */
static void
test_vanished_twice(void)
{
	char		node[128];
	char		path[PATH_SIZE];
	char		first[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus status;
	int			cuts = proxy_cuts();

	make_node(node, "vanished");
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	id = request(node, ZK_EXCLUSIVE);
	wait_state(id, ZK_WATCHING, &status);
	snprintf(path, sizeof(path), "%s/%s", node, status.name);
	release(acquire(root, ZK_SHARED));
	proxy_freeze();
	for (int i = 0; i < ZK_RENEWALS; i++)
		begin_renewal();
	zoo_delete(stranger, path, -1);
	lose_reply(ZOO_CREATE2_OP, false);
	proxy_thaw();
	ok(wait_cut(cuts), "a waiter whose contender is deleted requeues");
	reconnect();
	wait_state(id, ZK_WATCHING, &status);
	zoo_delete(stranger, first, -1);
	ok(wait_state(id, ZK_HELD, &status), "it gets the lock");
	is_int(children(node), 1, "and leaves no contender behind");
	release(id);
}

/*
 * Cut off for longer than its lease, a holder knows by its own clock that it
 * holds no more.  What is left is deleted on return.  Returns whether the client was
 * back in time for its session, as it is unless the machine stands still.
 */
static bool
partition_short(void)
{
	char		node[128];
	char		next[PATH_SIZE];
	char		path[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus before;
	ZkContenderStatus status;
	clientid_t	session;
	uintptr_t	handle;
	bool		kept = true;
	int			left;
	bool		in_time;

	make_node(node, "partition-short");
	id = acquire(node, ZK_EXCLUSIVE);
	handle = handle_of_client();
	stranger_queues(node, "_c_aaa-lock-", next, sizeof(next));
	disconnect();
	session = session_of_client();
	zk_contender_status(client, id, &before);
	snprintf(path, sizeof(path), "%s/%s", node, before.name);
	while (zk_now() < before.lease_end)
	{
		bool		same = handle_of_client() == handle;

		zk_contender_status(client, id, &status);
		if (status.state != ZK_HELD)
			break;
		kept &= same;
		wait_event();
	}
	ok(kept, "no handle is closed on which a lease depends");
	ok(wait_state(id, ZK_LOST, &status), "a lock is lost without a connection");
	ok(zk_now() >= before.lease_end, "when its lease ends, not before");
	is_int(status.loss, ZK_LOST_LEASE, "and that is the reason given (S7)");
	left = children(node);
	reconnect();
	in_time = zk_now() < before.lease_end + ZK_MS(TIMEOUT_MS) / 4;
	ok(left == 2 || !in_time, "its contender is still there");
	ok(wait_absent(path), "on return it is deleted");
	ok(session_of_client().client_id == session.client_id || !in_time,
	   "though the session is the same");
	zk_contender_status(client, id, &status);
	is_int(status.state, ZK_LOST, "the lock stays lost");
	zk_contender_abandon(client, id);
	zoo_delete(stranger, next, -1);
	return in_time;
}

/*
 * Cut off until its session expires, a holder knows before that that it holds no more.
 * Returns whether this was seen in time, as it is unless the machine stands still.
 */
static bool
partition_expiry(void)
{
	char		node[128];
	char		next[PATH_SIZE];
	char		path[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus status;
	ZkTime		lost_at;
	bool		in_time;

	make_node(node, "partition-expiry");
	id = acquire(node, ZK_EXCLUSIVE);
	zk_contender_status(client, id, &status);
	snprintf(path, sizeof(path), "%s/%s", node, status.name);
	stranger_queues(node, "_c_aaa-lock-", next, sizeof(next));
	proxy_freeze();
	ok(wait_state(id, ZK_LOST, &status), "a lock is lost behind a frozen link");
	lost_at = zk_now();
	in_time = children(node) == 2 && lost_at < status.presumed_lost;
	ok(wait_children(node, 1), "the next one gets it");
	ok(zk_now() > lost_at, "after that");
	proxy_thaw();
	release(acquire(root, ZK_SHARED));
	zk_contender_status(client, id, &status);
	is_int(status.state, ZK_LOST, "the lock stays lost");
	is_int(children(node), 1, "its contender is not made again");
	zk_contender_abandon(client, id);
	zoo_delete(stranger, next, -1);
	return in_time;
}

/*
 * The session is given up, while another client keeps it alive at the server:
 * all that is left of it must be deleted, and never be taken for our own.  Returns
 * whether that client was in time, as it is unless the machine stands still.
 */
static bool
session_given_up(void)
{
	char		held_node[128];
	char		node[128];
	char		lost_node[128];
	char		first[PATH_SIZE];
	ZkContenderId held;
	ZkContenderId waiting;
	ZkContenderId lost;
	ZkContenderStatus status;
	clientid_t	session = session_of_client();
	struct Stat stat;
	zhandle_t  *keeper;
	ZkTime		deadline;
	int			cuts = proxy_cuts();
	bool		in_time;

	make_node(held_node, "given-up-held");
	make_node(node, "given-up-waiting");
	make_node(lost_node, "given-up-create");
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	held = acquire(held_node, ZK_EXCLUSIVE);
	waiting = request(node, ZK_EXCLUSIVE);
	wait_state(waiting, ZK_WATCHING, &status);
	lose_reply(ZOO_CREATE2_OP, true);
	lost = request(lost_node, ZK_EXCLUSIVE);
	wait_cut(cuts);
	keeper = open_handle(&session);
	ok(wait_state(held, ZK_LOST, &status), "cut off for long, a lock is lost");

	/*
	 * A request that the server reads late from the cut connection brings
	 * back its shorter timeout, until the keeper's next request.
	 */
	in_time = zoo_exists(keeper, root, 0, &stat) == ZOK;
	deadline = zk_now() + DEADLINE;
	while (session_of_client().client_id != 0 && zk_now() < deadline)
		wait_event();
	ok(session_of_client().client_id == 0, "the session is abandoned");
	ok(children(held_node) + children(node) + children(lost_node) == 4 || !in_time,
	   "its contenders are there");
	reconnect();
	ok(session_of_client().client_id != session.client_id,
	   "the next session is another one");
	ok(wait_state(lost, ZK_HELD, &status),
	   "a lock that was requested while cut off is granted (S62)");
	ok(owner_of(lost_node, status.name) == session_of_client().client_id,
	   "with a contender of the new session (S1)");
	ok(wait_children(held_node, 0) && wait_children(lost_node, 1) &&
	   wait_children(node, 2), "those of the old one are deleted");
	zk_contender_status(client, held, &status);
	is_int(status.state, ZK_LOST, "a lost lock stays lost");
	wait_state(waiting, ZK_WATCHING, &status);
	zoo_delete(stranger, first, -1);
	ok(wait_state(waiting, ZK_HELD, &status), "the waiter requeues (S3)");
	zookeeper_close(keeper);
	zk_contender_abandon(client, held);
	release(waiting);
	release(lost);
	return in_time;
}

/*
 * Holds many locks for longer than their first leases.  Returns how many leases run
 * then, in the end: all, unless the machine has stood still for as long as a lease.
 */
static int
hold_many(char nodes[][128])
{
	static ZkContenderId ids[MANY];
	ZkContenderStatus status;
	ZkTime		until;
	int			held = 0;

	for (int i = 0; i < MANY; i++)
		ids[i] = request(nodes[i % MANY_QUEUES], ZK_SHARED);
	for (int i = 0; i < MANY; i++)
		wait_state(ids[i], ZK_HELD, &status);
	until = status.presumed_lost + ZK_MS(MANY_TIMEOUT_MS) / 4;
	while (zk_now() < until)
		wait_event();
	for (int i = 0; i < MANY; i++)
		held += zk_contender_lease_runs(client, ids[i]);
	for (int i = 0; i < MANY; i++)
		zk_contender_abandon(client, ids[i]);
	return held;
}

static void
test_many_locks(void)
{
	char		nodes[MANY_QUEUES][128];
	char		name[32];
	int			held;
	int			left = 0;
	int			rounds = 0;

	for (int i = 0; i < MANY_QUEUES; i++)
	{
		snprintf(name, sizeof(name), "many-%d", i);
		make_node(nodes[i], name);
	}
	do
		held = hold_many(nodes);
	while (held < MANY && ++rounds < 5);
	is_int(held, MANY, "the leases of many locks are all renewed");
	ok(wait_no_contenders(), "all of them can be abandoned");
	for (int i = 0; i < MANY_QUEUES; i++)
		left += children(nodes[i]);
	is_int(left, 0, "and nothing is left of them");
}

static ZkTime
cpu_time(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (ZkTime) used.tv_sec * 1000000 + used.tv_nsec / 1000;
}

static void
test_frozen(void)
{
	char		node[128];
	char		first[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus status;
	ZkTime		cpu;
	ZkTime		began;

	make_node(node, "frozen");
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	id = request(node, ZK_EXCLUSIVE);
	wait_state(id, ZK_WATCHING, &status);
	proxy_freeze();
	cpu = cpu_time();
	began = zk_now();
	for (int i = 0; i < 10; i++)
	{
		zk_client_renew(client);
		wait_event();
	}
	wait_session(ZK_SESSION_SUSPENDED);
	cpu = cpu_time() - cpu;
	began = zk_now() - began;
	ok(cpu < began / 10, "waiting for a silent server costs no time");
	diag("%d ms of %d ms", (int) (cpu / 1000), (int) (began / 1000));
	proxy_thaw();
	zoo_delete(stranger, first, -1);
	ok(wait_state(id, ZK_HELD, &status), "the wait survives it");
	release(id);
}

/*
 * Wait until a lock is acquired and released twice by one connection.  A server
 * closes a new connection if the request of an earlier one, which the client has
 * left, reaches it later.  So one that was regained may be lost again.
 */
static bool
connection_stays(const char *node, ZkSessionStatus *status)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	int64_t		before;

	zk_client_status(client, status);
	do
	{
		before = status->reconnects;
		for (int i = 0; i < 2; i++)
			if (!release(acquire(node, ZK_EXCLUSIVE)))
				return false;
		zk_client_status(client, status);
	} while (status->reconnects != before && zk_now() < deadline);
	return status->reconnects == before;
}

/*
 * Every lock that was waited for in vain leaves a watch, for as long as it is
 * held by the same contender.
 */
static void
test_many_watches(void)
{
	char		node[ZK_NODE_PATH_SIZE];
	char		path[ZK_NODE_PATH_SIZE * 2];
	char		small[128];
	ZkContenderId id;
	ZkContenderStatus status;
	ZkSessionStatus before;
	ZkSessionStatus after;

	make_node(small, "after-watches");
	for (int i = 0; i < MANY_WATCHES; i++)
	{
		snprintf(node, sizeof(node), "%s/%0*d", root, WATCHED_NAME_LENGTH, i);
		snprintf(path, sizeof(path), "%s/_c_aaa-lock-", node);
		zoo_create(stranger, node, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
		zoo_create(stranger, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE,
				   NULL, 0);
		id = request(node, ZK_EXCLUSIVE);
		wait_state(id, ZK_WATCHING, &status);
		zk_contender_abandon(client, id);
	}
	zk_client_status(client, &before);
	proxy_cut();
	ok(release(acquire(small, ZK_EXCLUSIVE)),
	   "after %d abandoned waits the connection can be lost", MANY_WATCHES);
	ok(connection_stays(small, &after) && after.session_id == before.session_id,
	   "and is regained, and stays");
	diag("%d connections, session %llx, before %llx",
		 (int) (after.reconnects - before.reconnects),
		 (unsigned long long) after.session_id,
		 (unsigned long long) before.session_id);
	for (int i = 0; i < MANY_WATCHES; i++)
	{
		snprintf(node, sizeof(node), "%s/%0*d", root, WATCHED_NAME_LENGTH, i);
		snprintf(path, sizeof(path), "%s/_c_aaa-lock-%010d", node, 0);
		zoo_delete(stranger, path, -1);
		wait_children(node, 0);
		zoo_delete(stranger, node, -1);
	}
}

static void
test_cutting(ProxyMoment moment, int rounds)
{
	const char *what = moment == PROXY_BEFORE_REPLY ? "replies" : "requests";
	char		node[128];
	char		first[PATH_SIZE];
	ZkContenderStatus status;
	int			cuts = proxy_cuts();
	ZkTime		deadline = zk_now() + DEADLINE;

	make_node(node, what);
	stranger_queues(node, "_c_aaa-lock-", first, sizeof(first));
	proxy_cut_at(PROXY_ANY_REQUEST, 7, moment, true);

	/* on a slow machine most are abandoned before anything is sent */
	for (int i = 0; i < rounds ||
		 (proxy_cuts() - cuts <= rounds / 10 && zk_now() < deadline); i++)
	{
		ZkContenderId id = request(node, i % 3 ? ZK_EXCLUSIVE : ZK_SHARED);

		if (i % 8 == 0)
			wait_state(id, ZK_WATCHING, &status);
		else
			usleep((useconds_t) (rand() % 20000));
		if (i % 5 == 0)
			zk_contender_release(client, id);
		zk_contender_abandon(client, id);
	}
	cuts = proxy_cuts() - cuts;
	proxy_cut_at(0, 0, moment, false);
	ok(wait_children(node, 1),
	   "%d waits abandoned while %s are lost leave nothing (S41, S44)", rounds,
	   what);
	ok(wait_no_contenders(), "and all slots are free");
	ok(cuts > rounds / 10, "%d connections were cut", cuts);
	zoo_delete(stranger, first, -1);
}

int
main(void)
{
	if (!find_servers("client_fault_test") || !open_proxied())
		return 1;
	start_client(proxied, LONG_TIMEOUT_MS);
	test_create_lost();
	test_find_behind();
	test_look_behind();
	test_create_given_up(PROXY_BEFORE_REPLY, "reply");
	test_create_given_up(PROXY_BEFORE_REQUEST, "request");
	test_delete_reply_lost();
	test_release_disconnected();
	test_cut_while_waiting(true);
	test_cut_while_waiting(false);
	test_watch_lost();
	test_event_is_grant(false);
	test_event_is_grant(true);
	test_downgrade_unseen(true);
	test_downgrade_unseen(false);
	test_own_downgrade();
	test_downgrade_given_up();
	test_vanished_twice();
	test_many_watches();
	restart_client(proxied, TIMEOUT_MS);
	test_in_time(reopen,
				 "the client was back before its session expired");
	test_in_time(partition_short,
				 "the client was back before its session expired");
	test_in_time(partition_expiry,
				 "a lock is lost before another client can have it, and before the session may expire");
	test_in_time(session_given_up,
				 "a session is given up while another client keeps it");
	test_frozen();
	test_cutting(PROXY_BEFORE_REPLY, 200);
	test_cutting(PROXY_BEFORE_REQUEST, 100);
	restart_client(proxied, MANY_TIMEOUT_MS);
	test_many_locks();
	ok(zk_client_stop(client, 30000), "the client stops");
	zookeeper_close(stranger);
	proxy_stop();
	return done_testing();
}
