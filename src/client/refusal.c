/*-------------------------------------------------------------------------
 *
 * refusal.c
 *	  Why ZooKeeper has refused something: the ACL, or a wrong password?
 *
 * The answer to both is "not authorized".  A client with a credential reads
 * ACLs to find out: of the znode in question, of the root, and of the user
 * node (auth.c).  That delays an error by some round trips.  An entry with our
 * user's name that has the permission that was refused says that we are not
 * that user; so does one with the permission to administer whose hash is not
 * shown ("user:x"), because administrators see hashes.  Reading an ACL takes
 * the permission to read or to administer the znode, so none of them may be
 * readable; then both possibilities are reported.
 *
 * A3. A client whose user's name stands in an ACL with permissions that it was
 * refused has another password.  But where the world has no permissions, it
 * cannot read that.  Hence the user node <root>/.zklock/users/<user>,
 * persistent, empty, made along with the first lock node that a client makes
 * in creator mode: all may read it, as its ACL says, and in an ACL ZooKeeper
 * shows the hash of a password only to those who may administer; others read
 * "user:x".  So the world learns the name of a user and nothing else.  Without
 * one, both possibilities are reported, with 42501.  Only the same user and
 * administrators can change it.  If the very first client has the wrong
 * password, it is the right one for all that it makes.
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "answer.h"
#include "contender.h"
#include "refusal.h"
#include "request.h"

/* Whose ACLs are read, in this order. */
enum
{
	ASK_ZNODE,					/* what was refused was refused of it */
	ASK_ROOT,
	ASK_USER_NODE,
	ASK_NOBODY
};

/*
 * Notes that something was refused: with a znode, whose path is the first len
 * bytes, and for want of which permission. zk_refusal_forget() frees what this
 * allocates.
 */
void
zk_refusal_note(const ZkClient *client, Refusal *refusal, int permission,
				const char *znode, size_t len)
{
	refusal->permission = permission;
	refusal->asking = client->identity.credential != NULL ?
		ASK_ZNODE : ASK_NOBODY;
	free(refusal->znode);
	refusal->znode = strndup(len > 0 ? znode : "/", len > 0 ? len : 1);
}

/* There is none, or it was dealt with. */
void
zk_refusal_forget(Refusal *refusal)
{
	free(refusal->znode);
	refusal->znode = NULL;
}

/* Returns the path of the next znode whose ACL is to be read; or NULL. */
const char *
zk_refusal_next(const ZkClient *client, const Refusal *refusal)
{
	switch (refusal->asking)
	{
		case ASK_ZNODE:
			return refusal->znode;
		case ASK_ROOT:
			return client->identity.root;
		case ASK_USER_NODE:
			return client->identity.user_node;
		default:
			return NULL;
	}
}

/*
 * Returns the part of a digest ACL entry's id after our user's name and the
 * colon; NULL if it is another user's.
 */
static const char *
own_hash(const ZkIdentity *identity, const struct ACL *entry)
{
	if (strcmp(entry->id.scheme, "digest") != 0 ||
		strncmp(entry->id.id, identity->credential,
				(size_t) identity->user_len + 1) != 0)
		return NULL;
	return entry->id.id + identity->user_len + 1;
}

/*
 * Returns what an ACL says: ZK_ERR_AUTH, ZK_ERR_FORBIDDEN, or ZK_OK for
 * nothing.
 */
static ZkError
judge(const ZkClient *client, const Refusal *refusal,
	  const struct ACL_vector *acl)
{
	bool		is_us = false;

	for (int i = 0; i < acl->count; i++)
	{
		const struct ACL *entry = &acl->data[i];
		const char *hash = own_hash(&client->identity, entry);

		if (hash == NULL)
			continue;
		if (refusal->asking == ASK_ZNODE && (entry->perms & refusal->permission))
			return ZK_ERR_AUTH;
		if ((entry->perms & ZOO_PERM_ADMIN) == 0)
			continue;
		if (strcmp(hash, "x") == 0)
			return ZK_ERR_AUTH;
		is_us = true;
	}
	/* the znode's own ACL has no room for us, whatever the password is */
	if (refusal->asking == ASK_ZNODE || is_us)
		return ZK_ERR_FORBIDDEN;
	return ZK_OK;
}

/*
 * An ACL was read, or not.  Returns the error to report, or ZK_OK if there is
 * more to ask (zk_refusal_next()).
 */
ZkError
zk_refusal_answer(const ZkClient *client, Refusal *refusal, int rc,
				  const struct ACL_vector *acl)
{
	ZkError		error = ZK_OK;

	if (zk_is_transient(rc))
		return ZK_OK;			/* the same once more */
	if (rc == ZOK)
		error = judge(client, refusal, acl);
	if (error == ZK_OK && ++refusal->asking == ASK_NOBODY)
		error = ZK_ERR_REFUSED;
	return error;
}

/*
 * Returns the error if there is nothing to ask: without a credential none is
 * wrong.
 */
ZkError
zk_refusal_plain(const Refusal *refusal)
{
	return refusal->znode == NULL || refusal->asking == ASK_NOBODY ?
		ZK_ERR_FORBIDDEN : ZK_OK;
}

/* Writes what was refused as a sentence of ZK_DETAIL_SIZE bytes. */
void
zk_refusal_describe(const Refusal *refusal, ZkError error, char *detail)
{
	const char *znode = refusal->znode != NULL ? refusal->znode : "";
	const char *permission = "READ";

	if (refusal->permission == ZOO_PERM_CREATE)
		permission = "CREATE";
	if (error == ZK_ERR_AUTH)
		snprintf(detail, ZK_DETAIL_SIZE,
				 "The configured user's password does not match the ACL of znode \"%.120s\".",
				 znode);
	else
		snprintf(detail, ZK_DETAIL_SIZE,
				 "%s permission is required on znode \"%.120s\".", permission, znode);
}

/* The reason is known: the contender has failed for it. */
static void
conclude(ZkClient *client, Contender *c, ZkError error)
{
	char		detail[ZK_DETAIL_SIZE];

	zk_refusal_describe(&c->refusal, error, detail);
	zk_refusal_forget(&c->refusal);
	zk_contender_fail(client, c, error, "%s", detail);
}

/*
 * Something that a contender needs was refused, as in zk_refusal_note(): it
 * fails, once the reason is known.
 */
void
zk_contender_refused(ZkClient *client, Contender *c, int permission,
					 const char *znode, size_t len)
{
	ZkError		error;

	zk_refusal_note(client, &c->refusal, permission, znode, len);
	error = zk_refusal_plain(&c->refusal);
	if (error != ZK_OK)
		conclude(client, c, error);
}

/*
 * The contender fails: a request that it needs, and that takes this permission
 * on the znode, failed for the reason rc.
 */
void
zk_contender_impossible(ZkClient *client, Contender *c, int rc, int permission,
						const char *path)
{
	const char *text = permission == ZOO_PERM_READ ? "Could not read znode \"%.150s\": %s." :
	permission == ZOO_PERM_CREATE ? "Could not create children of znode \"%.150s\": %s." :
	"Could not delete children of znode \"%.150s\": %s.";

	if (rc == ZNOAUTH)
		zk_contender_refused(client, c, permission, path, strlen(path));
	else
		zk_contender_fail(client, c, zk_answer_error(rc), text, path, zk_answer_text(rc));
}

static void
on_acl(ZkClient *client, Contender *c, const Answer *answer)
{
	int			rc = answer->rc;
	ZkError		error;

	if (c->claim == CLAIM_WANTED && c->refusal.znode != NULL)
	{
		error = zk_refusal_answer(client, &c->refusal, rc, answer->acl);
		if (error != ZK_OK)
			conclude(client, c, error);
		else if (zk_is_transient(rc))
			zk_contender_retry(client, c);
	}
}

/* Finds out why something was refused to a contender. */
void
zk_send_inquiry(ZkClient *client, Contender *c)
{
	void	   *context = zk_contender_ask(client, c, on_acl);

	zk_contender_sent(client, c, context,
					  zoo_aget_acl(client->connection.zh, zk_refusal_next(client, &c->refusal),
								   zk_on_acl, context));
}
