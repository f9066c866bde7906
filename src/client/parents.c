/*-------------------------------------------------------------------------
 *
 * parents.c
 *	  Creating the znodes above a contender, its marker or its record.
 *
 * The deepest one is tried first, then the one above it, until one exists; then
 * the way leads down again.  So nothing is asked of znodes without permissions
 * for us.  A lock node and those above it are containers, which the server
 * removes some time after they have become empty; the others are persistent.
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "client.h"
#include "answer.h"
#include "contender.h"
#include "marker.h"
#include "parents.h"
#include "refusal.h"
#include "request.h"

/* Writes the path of what cannot be created yet (ZK_MARKER_PATH_SIZE bytes). */
static void
path_below(const Contender *c, char *path)
{
	if (c->parents.of == PARENTS_OF_RECORD)
		zk_record_path(c->node, c->request.root_len, path);
	else if (c->parents.of == PARENTS_OF_MARKER)
		zk_marker_path(c, c->znode.name, path);
	else
		zk_contender_path(c, c->znode.base, path);
}

/* The znode above that is not there: it is to be created first. */
void
zk_parents_missing(Contender *c, ParentsOf of)
{
	char		path[ZK_MARKER_PATH_SIZE];

	c->parents.of = of;
	c->parents.seen = false;
	path_below(c, path);
	c->parents.len = zk_path_above(path, strlen(path));
}

/*
 * A znode was not created, below the path that is the first len bytes of the
 * lock node's.  Returns true, and the contender fails, if that is due to who
 * we are.
 */
bool
zk_creation_denied(ZkClient *client, Contender *c, int rc, size_t len)
{
	if (zk_identity_wanted(&client->identity, rc))
	{
		zk_contender_fail(client, c, ZK_ERR_AUTH, ZK_IDENTITY_WANTED);
		return true;
	}
	switch (rc)
	{
		case ZNOAUTH:
			zk_contender_refused(client, c, ZOO_PERM_CREATE, c->node, len);
			return true;
		case ZINVALIDACL:
			zk_contender_fail(client, c, ZK_ERR_ACL,
							  "The ACL was for a znode below \"%.*s/\".",
							  len > 150 ? 150 : (int) len, c->node);
			return true;
		default:
			return false;
	}
}

/*
 * A znode was created, or not: goes one down, until all exist, or up, unless
 * the root is missing, which is above lock nodes only.  Then none is to be
 * created.  Returns false, and does nothing, if there is another reason that
 * will not pass by itself.
 */
bool
zk_parent_answered(ZkClient *client, Contender *c, const Answer *answer)
{
	Parents    *parents = &c->parents;
	bool		there = answer->rc == ZOK || answer->rc == ZNODEEXISTS;
	char		path[ZK_MARKER_PATH_SIZE];

	if (zk_is_transient(answer->rc))
		zk_contender_retry(client, c);
	else if (!there && answer->rc != ZNONODE)
		return false;
	else
	{
		path_below(c, path);
		if (!zk_path_next_above(path, parents->of == PARENTS_OF_CONTENDER ?
								0 : c->request.root_len, &parents->len, there))
			parents->of = PARENTS_OF_NONE;
		parents->seen = there;
	}
	return true;
}

/* Creates the znode that comes next, with the contender waiting. */
void
zk_send_parent(ZkClient *client, Contender *c, ContenderHandler handler)
{
	bool		container = c->parents.of == PARENTS_OF_CONTENDER;
	void	   *context = zk_contender_ask(client, c, handler);
	char		path[ZK_MARKER_PATH_SIZE];
	int			rc;

	path_below(c, path);
	path[c->parents.len] = '\0';
	rc = zoo_acreate(client->connection.zh, path, "", 0, &client->identity.acl,
					 container ? ZOO_CONTAINER : ZOO_PERSISTENT, zk_on_string, context);
	if (rc == ZOK || zk_is_connection_error(rc) || !container)
	{
		zk_contender_sent(client, c, context, rc);
		return;
	}
	zk_request_undo(client, context);
	zk_contender_fail(client, c, ZK_ERR_OTHER,
					  "Could not create znode \"%.150s\": %s.", path, zerror(rc));
}

/*
 * The lock node, or a container above it, was created, or not.  If the one
 * above was missing although it existed just before, one more attempt was in
 * vain.
 */
static void
on_lock_node(ZkClient *client, Contender *c, const Answer *answer)
{
	int			rc = answer->rc;
	size_t		len = c->parents.len;
	bool		vanished = rc == ZNONODE && c->parents.seen;
	bool		settled;

	if (c->claim == CLAIM_WANTED &&
		zk_creation_denied(client, c, rc, zk_path_above(c->node, len)))
		return;
	settled = zk_parent_answered(client, c, answer);
	if (c->parents.of == PARENTS_OF_NONE && rc != ZNONODE)
		zk_identity_leave_user(client);
	else if (c->claim != CLAIM_WANTED)
		;
	else if (!settled || c->parents.of == PARENTS_OF_NONE)
		zk_contender_fail(client, c, zk_answer_error(rc),
						  "Could not create znode \"%.*s\": %s.",
						  len > 150 ? 150 : (int) len, c->node, zk_answer_text(rc));
	else if (vanished && !zk_contender_attempt(c))
		zk_contender_fail(client, c, ZK_ERR_VANISHING,
						  "Znode \"%.*s\" was deleted %d times while being created.",
						  c->parents.len > 150 ? 150 : (int) c->parents.len, c->node,
						  ZK_MAX_ATTEMPTS);
}

/* Creates the lock node, or the container above it that comes next. */
void
zk_send_lock_node(ZkClient *client, Contender *c)
{
	zk_send_parent(client, c, on_lock_node);
}
