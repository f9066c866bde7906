/*-------------------------------------------------------------------------
 *
 * client_waits_test.c
 *	  Published waits: our own, over network failures, and reading those of all
 *	  clients (S72).
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* the library's synchronous functions, too */

#include <stdlib.h>
#include <zookeeper/proto.h>

#include "client_proxied.h"

#define WAITER	"{\"pid\":1}\n_c_x-lock-0000000001 /a\n"

static char waits[128];			/* where waits are published */

/* Publish a text. */
static void
publish(const char *text)
{
	zk_wait_publish(client, waits, text, strlen(text));
}

/* Wait until it is published; returns since when, 0 if that does not come. */
static int64_t
published(void)
{
	ZkTime		deadline = zk_now() + DEADLINE;

	while (zk_wait_zxid(client) == 0 && zk_now() < deadline)
		wait_event();
	return zk_wait_zxid(client);
}

/* Does the znode of the client's session say so, since then? */
static bool
says(const char *text, int64_t zxid)
{
	char		path[PATH_SIZE];
	char		data[1024];
	int			len = sizeof(data);
	struct Stat stat;

	snprintf(path, sizeof(path), "%s/%016llx", waits,
			 (unsigned long long) session_of_client().client_id);
	return zoo_get(stranger, path, 0, data, &len, &stat) == ZOK &&
		len == (int) strlen(text) && memcmp(data, text, (size_t) len) == 0 &&
		stat.mzxid == zxid &&
		stat.ephemeralOwner == session_of_client().client_id;
}

static void
test_life(void)
{
	int64_t		first;
	int64_t		second;

	is_int(zk_wait_zxid(client), 0, "nothing is published at first");
	publish(WAITER);
	first = published();
	ok(says(WAITER, first), "a wait is published, and its parents made");
	publish(WAITER "x");
	second = published();
	ok(second > first && says(WAITER "x", second), "another one takes its place");
	publish(WAITER "x");
	ok(published() > second, "the same once more is new");
	zk_wait_withdraw(client);
	is_int(zk_wait_zxid(client), 0, "it is withdrawn");
	ok(wait_children(waits, 0), "and deleted");
	zk_wait_withdraw(client);

	for (int i = 0; i < 300; i++)
	{
		publish(WAITER);
		usleep((useconds_t) (i * 10));
		zk_wait_withdraw(client);
	}
	ok(wait_children(waits, 0), "withdrawn in the middle: nothing is left");
}

/* The answer to a request is lost, and comes about all the same. */
static void
test_lost(int type, const char *what)
{
	int			cuts = proxy_cuts();

	publish(WAITER);
	published();
	lose_reply(type, false);
	if (type == ZOO_CREATE2_OP)
	{
		zk_wait_withdraw(client);
		wait_children(waits, 0);
		publish(WAITER);
	}
	else if (type == ZOO_SETDATA_OP)
		publish(WAITER "y");
	else
		zk_wait_withdraw(client);
	ok(wait_cut(cuts), "the reply to %s is lost", what);
	if (type == ZOO_DELETE_OP)
		ok(wait_children(waits, 0), "%s: nothing is left", what);
	else
		ok(says(type == ZOO_SETDATA_OP ? WAITER "y" : WAITER, published()),
		   "%s: it is published", what);
	zk_wait_withdraw(client);
	ok(wait_children(waits, 0), "%s: and withdrawn", what);
}

/* It is withdrawn while there is no connection, or published. */
static void
test_away(void)
{
	int64_t		before;

	publish(WAITER);
	before = published();
	proxy_refuse(true);
	proxy_cut();
	wait_session(ZK_SESSION_SUSPENDED);
	is_int(zk_wait_zxid(client), 0, "without a connection it is unknown");
	proxy_refuse(false);
	ok(published() > before, "it is published again after that");

	proxy_refuse(true);
	proxy_cut();
	wait_session(ZK_SESSION_SUSPENDED);
	zk_wait_withdraw(client);
	is_int(children(waits), 1, "withdrawn without a connection it stays");
	proxy_refuse(false);
	ok(wait_children(waits, 0), "until there is one");
}

/* Wait until the client has logged a line that begins like this. */
static bool
said(const char *begin)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	char		line[512];
	bool		warning;
	int			repeats;
	int			dropped;

	while (zk_now() < deadline)
	{
		while (zk_client_log_line(client, line, sizeof(line), &warning, &repeats,
								  &dropped))
			if (strncmp(line, begin, strlen(begin)) == 0)
				return true;
		wait_event();
	}
	return false;
}

/*
 * An ACL does not let it be published: that is said, and the next wait is tried all the
 * same.  A stranger's child keeps the server from tidying the parent away.
 */
static void
test_forbidden(void)
{
	struct ACL	entry = {ZOO_PERM_READ | ZOO_PERM_DELETE | ZOO_PERM_ADMIN, ZOO_ANYONE_ID_UNSAFE};
	struct ACL_vector acl = {1, &entry};
	char		other[PATH_SIZE];

	publish(WAITER);
	published();
	snprintf(other, sizeof(other), "%s/other", waits);
	zoo_create(stranger, other, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
	zk_wait_withdraw(client);
	ok(wait_children(waits, 1), "a stranger's znode is left");

	is_int(zoo_set_acl(stranger, waits, -1, &acl), ZOK, "nothing may be created");
	publish(WAITER);
	ok(said("could not publish wait information"), "so it is logged");
	is_int(zk_wait_zxid(client), 0, "and nothing is published");
	zk_wait_withdraw(client);
	zoo_set_acl(stranger, waits, -1, &ZOO_OPEN_ACL_UNSAFE);
	publish(WAITER);
	ok(says(WAITER, published()), "the next one is, when it may be");
	zoo_delete(stranger, other, -1);
	zk_wait_withdraw(client);
	ok(wait_children(waits, 0), "and withdrawn");
}

/*
 * The answer to the create is lost, and creating is forbidden then: the znode is found, and
 * deleted in the end (S375).
 */
static void
test_lost_and_forbidden(void)
{
	struct ACL	entry = {ZOO_PERM_ALL & ~ZOO_PERM_CREATE, ZOO_ANYONE_ID_UNSAFE};
	struct ACL_vector acl = {1, &entry};
	int			cuts = proxy_cuts();

	publish(WAITER);
	published();
	zk_wait_withdraw(client);
	ok(wait_children(waits, 0), "nothing is left of the last one");
	lose_reply(ZOO_CREATE2_OP, true);
	publish(WAITER);
	ok(wait_cut(cuts), "the reply to create is lost");
	ok(wait_children(waits, 1), "it was carried out");
	is_int(zoo_set_acl(stranger, waits, -1, &acl), ZOK, "nothing more may be created");
	proxy_refuse(false);
	ok(says(WAITER, published()), "it is found, and published");
	zk_wait_withdraw(client);
	ok(wait_children(waits, 0), "and withdrawn (S375)");
	zoo_set_acl(stranger, waits, -1, &ZOO_OPEN_ACL_UNSAFE);
}

static void
test_reading(void)
{
	char		node[128];
	char		first[PATH_SIZE];
	char		second[PATH_SIZE];
	char		text[1024];
	int64_t		zxid;
	ZkQueueListing *listing;
	const ZkQueueMember *members;

	node_path(node, "queue");
	stranger_queues(node, "_c_aaa-__READ__", first, sizeof(first));
	stranger_queues(node, "_c_bbb-lock-", second, sizeof(second));
	snprintf(text, sizeof(text), "{}\n%s %s\n%s %s\n",
			 strrchr(second, '/') + 1, node, strrchr(second, '/') + 1, waits);
	zk_query_request(client, ZK_QUERY_WAITS, waits, NULL);
	listing = await_listing();
	ok(listing != NULL && listing->error == ZK_OK && listing->count == 0,
	   "nothing is published, nothing is read");
	zk_queue_free(listing);

	publish(text);
	zk_query_request(client, ZK_QUERY_WAITS, waits, NULL);
	zxid = published();
	listing = await_listing();
	ok(listing != NULL && listing->error == ZK_OK && listing->waits == 1 &&
	   listing->count == 3, "one wait and two contenders are");
	if (listing == NULL || listing->count != 3)
		return;
	members = listing->members;
	ok(members[0].mzxid == zxid &&
	   members[0].session_id == session_of_client().client_id,
	   "it was read after it had been published");
	ok(members[0].data_len == (int) strlen(text) &&
	   memcmp(members[0].data, text, strlen(text)) == 0, "with what it says");
	is_str(members[1].node, node, "the queue it is about");
	ok(members[2].node == NULL, "and no other");
	is_int(members[1].session_id, zoo_client_id(stranger)->client_id,
		   "with its holder");
	is_int(members[2].session_id, 0, "the waiter is not looked up");
	zk_queue_free(listing);

	for (int i = 0; i < 200; i++)
	{
		zk_query_request(client, ZK_QUERY_WAITS, waits, NULL);
		usleep((useconds_t) (i * 20));
		if (i % 20 == 0)
			proxy_cut();
		zk_queue_cancel(client);
	}
	zk_client_clear_event(client);
	ok(zk_queue_take(client) == NULL, "a query that was cancelled has no result");
	zk_wait_withdraw(client);
	wait_children(waits, 0);
	zoo_delete(stranger, first, -1);
	zoo_delete(stranger, second, -1);
}

static void
on_created(int rc, const char *path, const void *context)
{
	(void) rc;
	(void) path;
	(void) context;
}

/* There is a limit for what is read. */
static void
test_too_many(void)
{
	char		path[PATH_SIZE];
	ZkQueueListing *listing;

	for (int i = 0; i <= ZK_WAITS_MAX; i++)
	{
		snprintf(path, sizeof(path), "%s/%d", waits, i);
		zoo_acreate(stranger, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL,
					on_created, NULL);
		if (i % 200 == 0)
			wait_children(waits, i + 1);
	}
	wait_children(waits, ZK_WAITS_MAX + 1);
	zk_query_request(client, ZK_QUERY_WAITS, waits, NULL);
	listing = await_listing();
	is_int(listing != NULL ? listing->error : ZK_OK, ZK_ERR_TREE,
		   "too many waits are not read");
	zk_queue_free(listing);
}

int
main(void)
{
	char		own[128];

	if (!find_servers("client_waits_test") || !open_proxied())
		return 1;
	zoo_create(stranger, root, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
	snprintf(waits, sizeof(waits), "%s/.zklock/waits", root);
	start_client(proxied, LONG_TIMEOUT_MS);
	node_path(own, "own");		/* something to be connected for */
	acquire(own, ZK_EXCLUSIVE);

	test_life();
	test_lost(ZOO_CREATE2_OP, "create");
	test_lost(ZOO_SETDATA_OP, "set");
	test_lost(ZOO_DELETE_OP, "delete");
	test_away();
	test_forbidden();
	test_lost_and_forbidden();
	restart_client(proxied, TIMEOUT_MS * 3);	/* it is cut very often */
	acquire(own, ZK_EXCLUSIVE);
	test_reading();
	test_too_many();
	ok(zk_client_stop(client, 30000), "the client stops in time");
	zookeeper_close(stranger);
	return done_testing();
}
