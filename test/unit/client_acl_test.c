/*-------------------------------------------------------------------------
 *
 * client_acl_test.c
 *	  The lock client where ACLs deny it access.
 *
 * A contender that it may not read or delete ends with its ZooKeeper session,
 * unless that is permitted before; one that it may not prove is lost; other
 * contenders are not affected.  Also the client with an identity, which creates
 * ACLs.
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* the library's synchronous functions, too */

#include <zookeeper/proto.h>

#include "client_proxied.h"
#include "zk_check.h"

/* Let all clients do only this with a znode. */
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

/* Its backend may look at it only when it has gone with the session. */
static void
test_no_delete_seen_late(void)
{
	char		node[128];
	ZkContenderId id;
	ZkContenderStatus status;

	make_node(node, "no-delete-late");
	restrict_node(node, ZOO_PERM_ALL & ~ZOO_PERM_DELETE);
	id = acquire(node, ZK_EXCLUSIVE);
	zk_contender_release(client, id);
	wait_session(ZK_SESSION_CLOSED);
	ok(wait_children(node, 0), "another one has gone with its session");
	zk_contender_status(client, id, &status);
	ok(status.state == ZK_FAILED && status.error == ZK_ERR_FORBIDDEN,
	   "S81: and that it could not be deleted can still be seen");
	zk_contender_abandon(client, id);
	ok(wait_no_contenders(), "until it is abandoned");
}

/* Give up a contender that may not be deleted from now on. */
static void
give_up_undeletable(const char *node, ZkContenderId id)
{
	ZkContenderStatus status;

	restrict_node(node, ZOO_PERM_ALL & ~ZOO_PERM_DELETE);
	zk_contender_release(client, id);
	ok(wait_state(id, ZK_FAILED, &status), "a release is not allowed");
	zk_contender_abandon(client, id);
}

/*
 * The session of a contender that may not be deleted goes on, for another lock: the
 * contender is deleted when that is permitted again.
 */
static void
test_late_delete(void)
{
	char		node[128];
	char		other[128];
	ZkContenderId id;
	ZkContenderId held;
	ZkSessionStatus before;
	ZkSessionStatus after;

	make_node(node, "late-delete");
	make_node(other, "kept");
	held = acquire(other, ZK_EXCLUSIVE);
	id = acquire(node, ZK_EXCLUSIVE);
	zk_client_status(client, &before);
	give_up_undeletable(node, id);
	ok(children(node) == 1, "the contender is still there");
	zoo_set_acl(stranger, node, -1, &ZOO_OPEN_ACL_UNSAFE);
	ok(wait_children(node, 0), "S60: and is deleted when that is permitted again");
	zk_client_status(client, &after);
	ok(after.session_id == before.session_id, "in the same session");
	ok(release(held), "in which another lock is held");
}

/* Wait until the helper is to wake, by itself, after a good part of the session timeout. */
static bool
wait_helper_asleep(void)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	ZkTime		wakes_at;

	do
	{
		wait_event();
		pthread_mutex_lock(&client->engine_lock);
		wakes_at = client->helper_wakes_at;
		pthread_mutex_unlock(&client->engine_lock);
	} while (wakes_at < zk_now() + ZK_MS(LONG_TIMEOUT_MS) / 12 && zk_now() < deadline);
	return zk_now() < deadline;
}

/*
 * It ends when the other lock is released, and not when the helper next looks around by
 * itself, after an eighth of the session timeout.
 */
static void
test_delete_by_end(void)
{
	char		node[128];
	char		other[128];
	ZkContenderId held;
	ZkTime		began;

	make_node(node, "delete-by-end");
	make_node(other, "released");
	held = acquire(other, ZK_EXCLUSIVE);
	give_up_undeletable(node, acquire(node, ZK_EXCLUSIVE));
	ok(wait_helper_asleep(), "and nothing else happens for long");
	began = zk_now();
	zk_contender_abandon(client, held);
	ok(wait_children(node, 0), "S60: the contender goes with its session");
	ok(zk_now() - began < ZK_MS(LONG_TIMEOUT_MS) / 16, "S60: as soon as nothing is held by it");
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
	is_int(wait_loss_signal(), 1, "and was signalled once");
	do
	{
		wait_event();
		zk_contender_status(client, id, &status);
	} while (status.state == ZK_HELD &&
			 status.proved_at < restricted_at + ZK_MS(TIMEOUT_MS * 2));
	is_int(status.state, ZK_HELD, "another one is still proved and held");
	zk_contender_abandon(client, unreadable);
	ok(!zk_client_lost_any(client), "a lost lock that was abandoned is no loss");
	ok(release(id), "the other one is released");
	ok(wait_children(node, 0), "the lost one's contender is deleted");
	ok(wait_no_contenders(), "and all slots are free");
}

#define ADMIN	"digest:admin:0DPiKuNIrrVmD8IUCuw1hQxNqZc="

static void
check_credential(const char *credential, const char *wrong)
{
	const char *found = zk_credential_check(credential, strlen(credential));

	ok(wrong == NULL ? found == NULL : found != NULL && strstr(found, wrong),
	   "credential \"%.20s\": %s", credential, wrong ? wrong : "good");
}

static void
check_acl(const char *acl, const char *wrong)
{
	char		detail[ZK_DETAIL_SIZE] = "";
	bool		good = zk_acl_check(acl, detail);

	ok(wrong == NULL ? good : !good && strstr(detail, wrong),
	   "ACL \"%.60s\": %s", acl, wrong ? wrong : "good");
}

static void
test_checks(void)
{
	char		long_user[200];
	char		long_password[2000];

	memset(long_user, 'u', sizeof(long_user));
	strcpy(long_user + sizeof(long_user) - 3, ":p");
	memset(long_password, 'p', sizeof(long_password));
	memcpy(long_password, "u:", 2);
	long_password[sizeof(long_password) - 1] = '\0';
	check_credential("app:sesame", NULL);
	check_credential("a:b:c", NULL);
	check_credential("app:open sesame", NULL);
	check_credential("\xc3\xa4:\xc3\xb6", NULL);
	check_credential("", "no colon");
	check_credential("app", "no colon");
	check_credential(":sesame", "no user");
	check_credential("app:", "no password");
	check_credential("app:sesame\n", "control character");
	check_credential("app:\x7f", "control character");
	check_credential(long_user, "user longer");
	check_credential(long_password, "longer than 1024");
	check_acl("open", NULL);
	check_acl(" Open ", NULL);
	check_acl("creator", NULL);
	check_acl("creator," ADMIN, NULL);
	check_acl("CREATOR , " ADMIN " ,ip:10.0.0.0/8, sasl:admin", NULL);
	check_acl("", "Item 1");
	check_acl("world", "Item 1");
	check_acl(ADMIN, "Item 1");
	check_acl("open, " ADMIN, "Item 1");
	check_acl("creator,", "Item 2");
	check_acl("creator,, " ADMIN, "Item 2");
	check_acl("creator, world:anyone", "scheme");
	check_acl("creator, auth:", "scheme");
	check_acl("creator, digest:admin", "digest:user:hash");
	check_acl("creator, digest:admin:sesame", "digest:user:hash");
	check_acl("creator, " ADMIN "=", "digest:user:hash");
	check_acl("creator, ip:", "no id");
	check_acl("creator, ip:\x01", "control character");
	ok(zk_acl_wants_creator(" creator, " ADMIN) && !zk_acl_wants_creator("open"),
	   "which of them take a credential");
}

/* Start a client with an identity. */
static void
start_client_as(const char *credential, int timeout_ms)
{
	ZkConfig	config = {
		.servers = servers,.session_timeout_ms = timeout_ms,
		.credential = credential,.root = root,
		.acl = "creator, " ADMIN
	};
	ZkError		error;
	char		detail[ZK_DETAIL_SIZE];

	client = zk_client_start(&config, &error, detail);
}

/* Take all log lines; how many of them have a text in them? */
static int
logged(const char *text)
{
	char		line[ZK_DETAIL_SIZE];
	bool		warning;
	int			repeats;
	int			dropped;
	int			count = 0;

	while (zk_client_log_line(client, line, sizeof(line), &warning, &repeats,
							  &dropped))
	{
		if (strstr(line, "sesame") != NULL)
			diag("%s", line);
		count += strstr(line, text) != NULL;
	}
	return count;
}

/*
 * The library logs all that it can.  The log has its packets and its
 * authentication, but not the password.
 */
static void
test_identity(void)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	ZkContenderStatus status;
	ZkContenderId id;
	struct ACL_vector acl;
	struct Stat stat;
	char		node[128];
	char		path[PATH_SIZE];
	int			told = 0;

	node_path(node, "private/lock");
	start_client_as("app:sesame", TIMEOUT_MS);
	(void) logged("");
	zoo_set_debug_level(ZOO_LOG_LEVEL_DEBUG);
	id = request(node, ZK_EXCLUSIVE);
	do
	{
		wait_event();
		told += logged("auth info request");
		zk_contender_status(client, id, &status);
	} while ((status.state != ZK_HELD || told == 0) && zk_now() < deadline);
	is_int(status.state, ZK_HELD, "a lock that belongs to a user (S115)");
	ok(told > 0, "the library tells that it authenticates");
	snprintf(path, sizeof(path), "%s/%s", node, status.name);
	is_int(zoo_get_acl(stranger, path, &acl, &stat), ZNOAUTH,
		   "a stranger may not know its ACL");
	is_int(zoo_get_acl(stranger, node, &acl, &stat), ZNOAUTH,
		   "nor that of the lock node");
	is_int(zoo_delete(stranger, path, -1), ZNOAUTH, "nor delete it");
	is_int(logged("sesame"), 0, "no log line has the password (S113)");
	ok(release(id), "it is released");
	is_int(logged("sesame"), 0, "and again none has");
	zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
	ok(zk_client_stop(client, 30000), "the client stops");
}

/*
 * The first connections fail.  The library forgets then who waits for the answer to the
 * credential, and does not report it when it authenticates later.  A client that waited
 * for that would take another handle in the end.
 */
static void
test_identity_later(void)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	ZkContenderId id;
	ZkContenderStatus status;
	ZkSessionStatus session;
	ZkTime		open_at;
	uintptr_t	handle;
	char		node[128];
	const char *direct = servers;

	node_path(node, "private/later");
	servers = proxied;
	proxy_refuse(true);
	start_client_as("app:sesame", TIMEOUT_MS * 6);
	id = request(node, ZK_EXCLUSIVE);
	do
	{
		usleep(1000);
		zk_client_status(client, &session);
	} while (session.error == ZK_OK && zk_now() < deadline);
	ok(session.error != ZK_OK, "the first connection fails: %s", session.detail);
	handle = handle_of_client();
	proxy_refuse(false);
	open_at = zk_now();
	ok(wait_state(id, ZK_HELD, &status), "S384: a later one authenticates");
	ok(handle_of_client() == handle, "and is used, by the same handle, after %d ms",
	   (int) ((zk_now() - open_at) / 1000));
	ok(release(id), "the lock is released");
	ok(zk_client_stop(client, 30000), "the client stops");
	servers = direct;
}

/* Another user, or the same one with another password, is refused the lock. */
static void
test_refused(const char *credential, ZkError error)
{
	ZkContenderId id;
	ZkContenderStatus status;
	char		node[128];

	node_path(node, "private/lock");
	start_client_as(credential, TIMEOUT_MS);
	id = request(node, ZK_SHARED);
	ok(wait_state(id, ZK_FAILED, &status), "\"%s\" is refused", credential);
	is_int(status.error, error, "for that reason");
	ok(strstr(status.detail, "/private/lock") != NULL &&
	   strstr(status.detail, "app") == NULL, "which names the znode, and no user");
	zk_contender_abandon(client, id);
	ok(wait_no_contenders(), "nothing is left of it");
	ok(zk_client_stop(client, 30000), "the client stops");
}

/* The user is known, and may read the lock node and no more: that is no wrong password. */
static void
test_few_permissions(void)
{
	static char digest[] = "digest";
	static char user[] = "app:+QUexaXHpYDk3DhLi0Ks1Ds9OMw=";	/* the hash of
																 * "app:sesame" */
	struct ACL	entries[] = {{ZOO_PERM_READ, {digest, user}}};
	struct ACL_vector acl = {1, entries};
	ZkContenderId id;
	ZkContenderStatus status;
	char		node[128];

	make_node(node, "few");
	is_int(zoo_set_acl(stranger, node, -1, &acl), ZOK,
		   "a lock node that a user may read");
	start_client_as("app:sesame", TIMEOUT_MS);
	id = request(node, ZK_SHARED);
	ok(wait_state(id, ZK_FAILED, &status), "the user is refused the lock");
	is_int(status.error, ZK_ERR_FORBIDDEN, "for want of a permission");
	zk_contender_abandon(client, id);
	ok(wait_no_contenders(), "nothing is left of it");
	ok(zk_client_stop(client, 30000), "the client stops");
}

int
main(void)
{
	if (!find_servers("client_acl_test") || !open_proxied())
		return 1;
	start_client(proxied, LONG_TIMEOUT_MS);
	test_no_list();
	test_no_delete();
	test_no_delete_seen_late();
	restart_client(proxied, TIMEOUT_MS * 3);	/* these wait for parts of it */
	test_no_read();
	test_late_delete();
	restart_client(proxied, LONG_TIMEOUT_MS);
	test_delete_by_end();
	ok(zk_client_stop(client, 30000), "the client stops");
	test_checks();
	test_identity();
	test_identity_later();
	test_refused("app:other", ZK_ERR_AUTH);
	test_refused("bob:sesame", ZK_ERR_REFUSED);
	test_few_permissions();
	zookeeper_close(stranger);
	proxy_stop();
	return done_testing();
}
