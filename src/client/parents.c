/*-------------------------------------------------------------------------
 *
 * parents.c
 *	  Creating the lock node of a contender, and the containers above it.
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "client.h"
#include "answer.h"
#include "contender.h"
#include "parents.h"
#include "refusal.h"
#include "request.h"
#include "server_timeout.h"

/* The lock node is not there: it is to be created first. */
void
zk_parents_missing(Contender *c)
{
	c->parents.needed = true;
	c->parents.seen = false;
	c->parents.len = (uint16_t) strlen(c->node);
}

/*
 * A znode was not created, below the path that is the first len bytes of the
 * lock node's.  Returns true, and the contender fails, if that is due to who
 * we are.
 */
bool
zk_creation_denied(ZkClient *client, int slot, int rc, size_t len)
{
	Contender  *c = &client->contenders[slot];

	if (zk_identity_wanted(&client->identity, rc))
	{
		zk_contender_fail(client, slot, ZK_ERR_AUTH, ZK_IDENTITY_WANTED);
		return true;
	}
	switch (rc)
	{
		case ZNOAUTH:
			zk_contender_refused(client, slot, ZOO_PERM_CREATE, c->node, len);
			return true;
		case ZINVALIDACL:
			zk_contender_fail(client, slot, ZK_ERR_ACL,
							  "The ACL was for a znode below \"%.*s/\".",
							  len > 150 ? 150 : (int) len, c->node);
			return true;
		default:
			return false;
	}
}

/* Returns the length of the path above the container to be created. */
static uint16_t
parent_length(const Contender *c)
{
	uint16_t	len = c->parents.len;

	while (len > 0 && c->node[--len] != '/')
		;
	return len;
}

/*
 * The container above is missing: that is to be created first.  If it existed
 * just before, one more attempt was in vain.
 */
static void
go_up(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];

	c->parents.len = parent_length(c);
	if (c->parents.seen && c->claim == CLAIM_WANTED && !zk_contender_attempt(c))
		zk_contender_fail(client, slot, ZK_ERR_VANISHING,
						  "Znode \"%.*s\" was deleted %d times while being created.",
						  c->parents.len > 150 ? 150 : c->parents.len, c->node,
						  ZK_MAX_ATTEMPTS);
	c->parents.seen = false;
}

static void
on_parent(ZkClient *client, int slot, const Answer *answer)
{
	int			rc = answer->rc;
	Contender  *c = &client->contenders[slot];
	const char *end;

	if (rc == ZOK || rc == ZNODEEXISTS || rc == ZNONODE)
		zk_leader_answered(client, answer->request->sent_at);
	if (rc == ZOK || rc == ZNODEEXISTS)
	{
		/* one level down, or done */
		end = c->node + c->parents.len;
		if (*end == '\0')
		{
			c->parents.needed = false;
			zk_identity_leave_user(client);
		}
		else
			c->parents.len += (uint16_t) (1 + strcspn(end + 1, "/"));
		c->parents.seen = true;
	}
	else if (rc == ZNONODE && parent_length(c) > 0)
		go_up(client, slot);
	else if ((zk_is_connection_error(rc) &&
			  rc != ZSESSIONCLOSEDREQUIRESASLAUTH) || rc == ZTHROTTLEDOP)
		zk_contender_retry(client, c);
	else if (c->claim == CLAIM_WANTED &&
			 !zk_creation_denied(client, slot, rc, parent_length(c)))
		zk_contender_fail(client, slot, zk_answer_error(rc),
						  "Could not create znode \"%.*s\": %s.",
						  c->parents.len > 150 ? 150 : c->parents.len, c->node,
						  zk_answer_text(rc));
}

/*
 * Creates the deepest missing znode on the way to the lock node as a
 * container, which the server removes some time after it has become empty.
 * Bottom-up, so that nothing is asked of znodes without permissions for us.
 */
void
zk_send_parent(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];
	void	   *context;
	char		path[ZK_NODE_PATH_SIZE];
	int			rc;

	snprintf(path, sizeof(path), "%.*s", c->parents.len, c->node);
	context = zk_contender_ask(client, slot, on_parent);
	rc = zoo_acreate(client->connection.zh, path, "", 0, &client->identity.acl,
					 ZOO_CONTAINER, zk_on_string, context);
	if (rc == ZOK || zk_is_connection_error(rc))
	{
		zk_contender_sent(client, slot, context, rc);
		return;
	}
	zk_request_undo(client, context);
	zk_contender_fail(client, slot, ZK_ERR_OTHER,
					  "Could not create znode \"%.150s\": %s.", path, zerror(rc));
}
