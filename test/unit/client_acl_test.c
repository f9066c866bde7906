/*-------------------------------------------------------------------------
 *
 * client_acl_test.c
 *	  The lock client where ACLs forbid it something.
 *
 * What it may not find out or delete, it gets rid of with its ZooKeeper session;
 * what it may not prove, it loses; and nothing else with it.
 *
 * IDENTIFICATION
 *	  test/unit/client_acl_test.c
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* the library's synchronous functions, too */

#include <zookeeper/proto.h>

#include "client_proxied.h"

/* Let anybody do only this with a znode. */
static void
restrict_node(const char *path, int perms)
{
	struct ACL	acl = {perms, ZOO_ANYONE_ID_UNSAFE};
	struct ACL_vector acls = {1, &acl};

	if (zoo_set_acl(stranger, path, -1, &acls) != ZOK)
		diag("could not set the ACL of %s", path);
}

static void
test_no_list(void)
{
	char		node[128];
	ZkContenderId id;
	ZkContenderStatus status;
	int			cuts = proxy_cuts();

	make_node(node, "no-list");
	restrict_node(node,
				  ZOO_PERM_CREATE | ZOO_PERM_DELETE | ZOO_PERM_ADMIN);
	lose_reply(ZOO_CREATE2_OP, false);
	id = request(node, ZK_EXCLUSIVE);
	wait_cut(cuts);
	ok(wait_state(id, ZK_FAILED, &status),
	   "a lost create that cannot be looked for is a failure (S60)");
	is_int(status.error, ZK_ERR_FORBIDDEN, "and that is the reason given");
	zk_contender_abandon(client, id);
	ok(wait_no_contenders(), "it goes with its session");
	zoo_set_acl(stranger, node, -1, &ZOO_OPEN_ACL_UNSAFE);
	ok(wait_children(node, 0), "nothing is left");
}

static void
test_no_delete(void)
{
	char		node[128];
	ZkContenderId id;
	ZkContenderStatus status;

	make_node(node, "no-delete");
	restrict_node(node, ZOO_PERM_ALL & ~ZOO_PERM_DELETE);
	id = acquire(node, ZK_EXCLUSIVE);
	zk_contender_release(client, id);
	ok(wait_state(id, ZK_FAILED, &status) &&
	   status.error == ZK_ERR_FORBIDDEN,
	   "a release that is not allowed is a failure");
	zk_contender_abandon(client, id);
	ok(wait_children(node, 0), "the contender goes with its session");
	ok(wait_no_contenders(), "and its slot is free");
}

/*
 * Checks need the right to read.  Who takes it from one contender keeps that one
 * from being proved; those that are checked in the same request are not.
 */
static void
test_no_read(void)
{
	char		node[128];
	char		other[128];
	char		path[PATH_SIZE];
	ZkContenderId unreadable;
	ZkContenderId id;
	ZkContenderStatus status;
	ZkTime		restricted_at;
	ZkTime		deadline;

	make_node(node, "no-read");
	make_node(other, "readable");
	id = acquire(other, ZK_EXCLUSIVE);
	unreadable = acquire(node, ZK_EXCLUSIVE);
	zk_contender_status(client, unreadable, &status);
	snprintf(path, sizeof(path), "%s/%s", node, status.name);
	zk_contender_rely_on(client, id);
	zk_contender_rely_on(client, unreadable);
	losses_signalled = 0;
	restrict_node(path, ZOO_PERM_ADMIN | ZOO_PERM_DELETE);
	restricted_at = zk_now();
	ok(wait_state(unreadable, ZK_LOST, &status) &&
	   status.loss == ZK_LOST_CONTENDER,
	   "a lock whose contender may not be read is lost");
	ok(zk_client_lost_any(client), "the loss can be asked for without a lock");
	deadline = zk_now() + DEADLINE;
	while (losses_signalled == 0 && zk_now() < deadline)
		wait_event();
	is_int(losses_signalled, 1, "and was signalled once");
	do
	{
		wait_event();
		zk_contender_status(client, id, &status);
	} while (status.state == ZK_HELD &&
			 status.proved_at < restricted_at + ZK_MS(TIMEOUT_MS));
	is_int(status.state, ZK_HELD, "another one is proved and held as ever");
	zk_contender_abandon(client, unreadable);
	ok(!zk_client_lost_any(client), "a lost lock that was given up is no loss");
	ok(release(id), "the other one is released");
	ok(wait_children(node, 0), "the lost one's contender is deleted");
	ok(wait_no_contenders(), "and all slots are free");
}

int
main(void)
{
	if (!find_servers("client_acl_test") || !open_proxied())
		return 1;
	start_client(proxied, TIMEOUT_MS);
	test_no_list();
	test_no_delete();
	test_no_read();
	ok(zk_client_stop(client, 5000), "the client stops");
	zookeeper_close(stranger);
	proxy_stop();
	return done_testing();
}
