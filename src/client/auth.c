/*-------------------------------------------------------------------------
 *
 * auth.c
 *	  The client's identity to the ensemble: its credential, and the ACLs of
 *	  the znodes that it creates.
 *
 * The credential is "user:password" of ZooKeeper's scheme "digest".  The
 * library gets it once for each handle, before anything else is sent, and sends
 * it again on every new connection.  The client keeps it for the next handle
 * and wipes it at its end.  No part of it, nor the user's name, appears in a
 * message or a log line.
 *
 * ZooKeeper accepts any credential: it hashes it, and compares the hash with
 * ACLs later.  So a client with a wrong password is not refused at first; it
 * counts as another user, which ACLs refuse.  Hence the user node (A3,
 * refusal.c).
 *
 * A1. Each handle gets the credential when it is opened, and nothing is sent
 * before that was answered for the first time.  If a connection fails before
 * the answer, the handle gets it again with the next connection: the library
 * would present it, but forget who waits for the answer (S384).  So no request
 * is sent without an identity, and the library reads a refusal.  (The server
 * closes the connection after a refusal.  With requests on their way, the
 * library would only see the connection break, and would retry for ever.)  This
 * costs one round trip for each handle with a credential.  The callback for the
 * answer comes on any thread, under locks of the library, so it only notes the
 * answer and wakes the helper.
 *
 * A server that does not support the scheme says so.  That ends the handle and
 * is a definite error: 28000, for each call.  So does a server that requires
 * authentication, in answer to the first request; it closes the connection, and
 * the ZooKeeper session survives.
 *
 * A2. In creator mode (zklock.acl) every znode that we create has the ACL
 * "auth", which the server replaces by its creator with all permissions, and an
 * entry with all permissions for each administrator.  This includes all
 * containers from the root down, because a user that may write above a lock
 * node may remove the znodes below.  All permissions are needed: the same user
 * reads, breaks, and writes to our contenders from other backends.  There is no
 * fallback to an open ACL: creator mode without a credential is an error, and
 * so is an ACL that the server rejects.
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client.h"
#include "auth.h"
#include "handle_owner.h"
#include "request.h"
#include "zk_check.h"

/* Longest credential and user's name, in bytes. */
#define MAX_CREDENTIAL	1024
#define MAX_USER		128

/* Length of a SHA-1 hash in base64, with the one sign of padding. */
#define HASH_LENGTH		28

#define RESERVED_NODE	"/.zklock"
#define USERS_NODE		RESERVED_NODE "/users"

static bool
is_control(char c)
{
	return (unsigned char) c < 0x20 || c == 0x7F;
}

const char *
zk_credential_check(const char *credential, size_t len)
{
	const char *colon = memchr(credential, ':', len);

	for (size_t i = 0; i < len; i++)
		if (is_control(credential[i]))
			return "It contains a control character.";
	if (len > MAX_CREDENTIAL)
		return "It is longer than 1024 bytes.";
	if (colon == NULL)
		return "It has no colon between user and password.";
	if (colon == credential)
		return "It has no user.";
	if (colon - credential > MAX_USER)
		return "It has a user longer than 128 bytes.";
	if (colon == credential + len - 1)
		return "It has no password.";
	return NULL;
}

/* Cut blanks off both ends of a piece of text, in place. */
static char *
trim(char *text)
{
	char	   *end;

	while (isspace((unsigned char) *text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char) end[-1]))
		end--;
	*end = '\0';
	return text;
}

/* Returns true if the text is "user:hash", as in ZooKeeper's ACLs. */
static bool
is_digest(const char *id)
{
	static const char base64[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *hash = strchr(id, ':');

	return hash != NULL && hash != id && strlen(++hash) == HASH_LENGTH &&
		strspn(hash, base64) == HASH_LENGTH - 1 &&
		hash[HASH_LENGTH - 1] == '=';
}

/*
 * Parses an administrator's identity, "scheme:id", into an ACL entry that
 * points into the text, which is cut up.  Returns NULL, or the error.
 */
static const char *
parse_admin(char *text, struct ACL *entry)
{
	char	   *id = strchr(text, ':');

	if (id == NULL)
		return "Item %d of the list is not of the form scheme:id.";
	*id++ = '\0';
	for (const char *c = id; *c != '\0'; c++)
		if (is_control(*c))
			return "Item %d of the list contains a control character.";
	if (strcmp(text, "digest") == 0)
	{
		if (!is_digest(id))
			return "Item %d of the list is not of the form digest:user:hash, with the SHA-1 hash of \"user:password\" in base64.";
	}
	else if (strcmp(text, "ip") != 0 && strcmp(text, "sasl") != 0)
		return "Item %d of the list has a scheme other than digest, ip and sasl.";
	else if (id[0] == '\0')
		return "Item %d of the list has no id.";
	entry->perms = ZOO_PERM_ALL;
	entry->id.scheme = text;
	entry->id.id = id;
	return NULL;
}

/*
 * Parses the text of zklock.acl, which is cut up, into the identity, whose ACL
 * points into it.  Returns false with the reason in detail (ZK_DETAIL_SIZE
 * bytes), which quotes nothing of the text.
 */
static bool
parse_acl(char *text, ZkIdentity *identity, char *detail)
{
	struct ACL *entries = identity->entries;
	const char *wrong = NULL;
	char	   *rest = text;
	char	   *mode = trim(strsep(&rest, ","));
	int			count = 1;
	int			number = 1;

	identity->creator = strcasecmp(mode, "creator") == 0;
	if (!identity->creator && strcasecmp(mode, "open") != 0)
		wrong = "Item %d of the list is neither \"open\" nor \"creator\".";
	else if (!identity->creator && rest != NULL)
		wrong = "Item %d of the list is \"open\", which cannot be combined with identities.";
	entries[0].perms = ZOO_PERM_ALL;
	entries[0].id = ZOO_AUTH_IDS;
	while (wrong == NULL && rest != NULL)
	{
		char	   *item = trim(strsep(&rest, ","));

		number++;
		if (count > ZK_MAX_ADMINS)
		{
			snprintf(detail, ZK_DETAIL_SIZE, "The list contains more than %d identities.",
					 ZK_MAX_ADMINS);
			return false;
		}
		wrong = parse_admin(item, &entries[count++]);
	}
	if (wrong != NULL)
	{
		snprintf(detail, ZK_DETAIL_SIZE, wrong, number);
		return false;
	}
	entries[count].perms = ZOO_PERM_READ;
	entries[count].id = ZOO_ANYONE_ID_UNSAFE;
	identity->acl.count = count;
	identity->user_acl.count = count + 1;
	identity->acl.data = identity->user_acl.data = entries;
	if (!identity->creator)
		identity->acl = ZOO_OPEN_ACL_UNSAFE;
	return true;
}

bool
zk_acl_check(const char *acl, char *detail)
{
	ZkIdentity	identity;
	char	   *text = strdup(acl);
	bool		good;

	if (text == NULL)
	{
		snprintf(detail, ZK_DETAIL_SIZE, "Out of memory.");
		return false;
	}
	good = parse_acl(text, &identity, detail);
	free(text);
	return good;
}

bool
zk_acl_wants_creator(const char *acl)
{
	return strncasecmp(acl + strspn(acl, " \t\n\v\f\r"), "creator",
					   strlen("creator")) == 0;
}

/*
 * Returns the path of the user node, malloc'd; NULL if out of memory.  Bytes
 * other than letters, digits, "-" and "_" are written in hexadecimal.
 */
static char *
make_user_node(const char *root, const char *user, int len)
{
	size_t		size = strlen(root) + sizeof(USERS_NODE) + 1 + 3 * (size_t) len;
	char	   *path = malloc(size);
	char	   *to;

	if (path == NULL)
		return NULL;
	to = path + sprintf(path, "%s" USERS_NODE "/", root);
	for (int i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) user[i];

		if ((c < 0x80 && isalnum(c)) || c == '-' || c == '_')
			*to++ = (char) c;
		else
			to += sprintf(to, "%%%02X", c);
	}
	*to = '\0';
	return path;
}

/*
 * Fills a zeroed identity from a config that was checked.  Returns false if out
 * of memory; zk_identity_free() is due either way.  Backend thread.
 */
bool
zk_identity_init(ZkIdentity *identity, const ZkConfig *config)
{
	char		detail[ZK_DETAIL_SIZE];

	identity->acl_text = strdup(config->acl != NULL ? config->acl : "open");
	if (identity->acl_text == NULL ||
		!parse_acl(identity->acl_text, identity, detail))
		return false;
	if (config->credential == NULL)
		return true;
	identity->credential = strdup(config->credential);
	identity->root = strdup(config->root);
	if (identity->credential == NULL || identity->root == NULL)
		return false;
	identity->user_len = (int) strcspn(identity->credential, ":");
	identity->user_node = make_user_node(identity->root, identity->credential,
										 identity->user_len);
	return identity->user_node != NULL;
}

/*
 * Frees the identity's memory, and wipes the credential.  No other thread may
 * use it any more.
 */
void
zk_identity_free(ZkIdentity *identity)
{
	if (identity->credential != NULL)
		explicit_bzero(identity->credential, strlen(identity->credential));
	free(identity->credential);
	free(identity->acl_text);
	free(identity->root);
	free(identity->user_node);
}

/*
 * The ensemble has answered the credential, or the connection is lost.  Then
 * the library will present it to the next server, but not report that answer.
 * Any thread, under locks of the library, so it only wakes the helper.  The
 * library reports a refusal by a session event.
 */
static void
on_auth(int rc, const void *context)
{
	ZkClient   *client = zk_client_owner();

	(void) context;
	atomic_store(&client->identity.credential_state,
				 rc == ZOK ? CREDENTIAL_ANSWERED : CREDENTIAL_UNKNOWN);
	if (rc == ZOK)
		zk_mailbox_wake_helper(&client->mailbox);
}

/*
 * Gives the credential to a handle that is new, or whose connection was lost
 * before there was an answer (S384).  The library sends it when it has a
 * connection.  If it has one already, only a request wakes it for that.
 * Returns false if out of memory.  engine_lock.
 */
bool
zk_identity_present(ZkClient *client, zhandle_t *zh)
{
	ZkIdentity *identity = &client->identity;
	int			rc;

	if (identity->credential == NULL ||
		atomic_load(&identity->credential_state) != CREDENTIAL_UNKNOWN)
		return true;
	atomic_store(&identity->credential_state, CREDENTIAL_PRESENTED);
	rc = zoo_add_auth(zh, "digest", identity->credential,
					  (int) strlen(identity->credential), on_auth, NULL);
	if (rc != ZOK)
		atomic_store(&identity->credential_state, CREDENTIAL_UNKNOWN);
	else if (zoo_state(zh) == ZOO_CONNECTED_STATE)
		zoo_aexists(zh, "/", 0, zk_on_stat, ZK_NO_REQUEST);
	return rc == ZOK || rc == ZINVALIDSTATE;	/* lost again by now */
}

/* Returns true if there is a credential, and it was answered.  Any thread. */
bool
zk_identity_answered(const ZkIdentity *identity)
{
	return atomic_load(&identity->credential_state) == CREDENTIAL_ANSWERED;
}

/*
 * Returns true if requests may be sent through the handle: there is no
 * credential, or it was answered (A1).  Any thread.
 */
bool
zk_identity_settled(const ZkIdentity *identity)
{
	return identity->credential == NULL || zk_identity_answered(identity);
}

/*
 * In creator mode, after a lock node was created: creates the user node and its
 * parents, once for each client.  Nothing depends on these: they may exist
 * already, or not be permitted.  engine_lock.
 */
void
zk_identity_leave_user(ZkClient *client)
{
	ZkIdentity *identity = &client->identity;
	char		path[ZK_NODE_PATH_SIZE];

	if (!identity->creator || identity->user_node == NULL || identity->user_left)
		return;
	identity->user_left = true;
	snprintf(path, sizeof(path), "%s" RESERVED_NODE, identity->root);
	zoo_acreate(client->connection.zh, path, "", 0, &identity->acl, ZOO_CONTAINER,
				zk_on_string, ZK_NO_REQUEST);
	snprintf(path, sizeof(path), "%s" USERS_NODE, identity->root);
	zoo_acreate(client->connection.zh, path, "", 0, &identity->acl, ZOO_CONTAINER,
				zk_on_string, ZK_NO_REQUEST);
	zoo_acreate(client->connection.zh, identity->user_node, "", 0,
				&identity->user_acl, ZOO_PERSISTENT, zk_on_string, ZK_NO_REQUEST);
}

/*
 * Returns true if an answer's code is the one for a client that must
 * authenticate and has not.  Only the first request of a connection gets it,
 * before the server closes the connection, and the ZooKeeper session survives:
 * so it is noted for the moment when the connection is lost (connection.c).
 * engine_lock.
 */
bool
zk_identity_wanted(ZkIdentity *identity, int rc)
{
	if (rc != ZSESSIONCLOSEDREQUIRESASLAUTH)
		return false;
	identity->wanted = true;
	return true;
}
