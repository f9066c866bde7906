/*-------------------------------------------------------------------------
 *
 * create.c
 *	  Bringing a contender into being, for certain and only once.
 *
 * A create is answered, or it is not: then the contender may exist.  It is
 * looked for by the uuid in its name and taken up if it is there, so that there
 * is one contender for a request whatever happened to the connection.
 *
 * Q7. A create that was not answered is looked for by its uuid in a list, which
 * is read behind an operation that was committed over the same connection.  If
 * it is there it is taken up; if not, it is taken not to have been executed,
 * and a new one is sent: the leader refuses what comes from a server that the
 * session has left.  The same is done for a contender that is missing from a
 * list: a handle that was opened anew has forgotten what the one before had
 * seen, so the server may lag behind.  Likewise a holder's contender that a
 * read does not find is deleted all the same.
 *
 * But it may be executed yet.  If the session is on its way back to that
 * server, its attempt is noted by the leader (LearnerHandler, REVALIDATE)
 * before the requests are that arrived ahead of it, for these are queued
 * (PrepRequestProcessor).  So all that was stuck between the two servers
 * passes, behind the operation that was to tell whether it had.  That takes a
 * leader that is cut off from that server for a moment, and a client that goes
 * to and fro meanwhile (S351).  So such a create is left to a slot of its own,
 * which looks for it again when there has been a new connection for a moment,
 * and after as long as it has waited already, and deletes it
 * (zk_contender_doubted()).  Of several one after the other is looked for, or a
 * network that loses much would carry nothing else.  The session has then been
 * moved to the other server, and what it commits next ends its connection
 * (ZOOKEEPER-710); so a new connection comes.  It is given up after eight
 * session timeouts.  Servers that do not hear of each other for syncLimit ticks
 * close their connection, and what was stuck is gone.
 *
 * A sync would not do.  A leader that was stopped and is woken answers it by
 * itself until it finds that it has been replaced (Leader.processSync, if
 * nothing is outstanding), and a server that throttles refuses it and then
 * answers the list.  So the operation is a check of the lock node, whose result
 * is looked at: it is a transaction, even if it fails (S237).
 *
 * Should a contender of our own ZooKeeper session be in somebody's way that no
 * slot knows of, it is deleted: the session would keep it alive, and we would
 * wait for ourselves (S238).
 *
 * All functions run on client threads under engine_lock.
 *
 * IDENTIFICATION
 *	  src/client/create.c
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "client.h"
#include "auth.h"
#include "contender.h"
#include "create.h"
#include "place.h"
#include "refusal.h"
#include "request.h"
#include "server_timeout.h"

/*
 * The contender exists and this is its znode.
 */
void
zk_create_adopt(ZkClient *client, int slot, const char *name,
				const struct Stat *stat, ZkProof proof)
{
	Contender  *c = &client->contenders[slot];

	if (name != c->name)
		snprintf(c->name, sizeof(c->name), "%s", name);
	c->maybe_exists = false;
	if (stat->ephemeralOwner != zk_session_id(client))
	{
		/* of an earlier session of ours: never to be trusted, only deleted */
		zk_contender_reap_elsewhere(client, c);
		zk_contender_vanished(client, slot);
		return;
	}
	c->token = stat->czxid;
	c->state = ZK_QUEUED;
	zk_contender_set_lease(client, c, proof);
}

/*
 * A znode was not created, for a reason that has to do with who we are: the
 * contender cannot be granted.  False if it is another reason.  The path of
 * the znode above it is the first len bytes of the lock node's.
 */
static bool
creation_denied(ZkClient *client, int slot, int rc, size_t len)
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

/*
 * The create was answered with an error.
 */
void
zk_create_failed(ZkClient *client, int slot, int rc)
{
	Contender  *c = &client->contenders[slot];

	if (zk_is_connection_error(rc) && rc != ZSESSIONCLOSEDREQUIRESASLAUTH)
	{
		zk_contender_retry(client, c);
		return;					/* it may exist: CREATING finds out */
	}
	c->maybe_exists = false;
	c->state = ZK_WANTED;
	if (c->unwanted || creation_denied(client, slot, rc, strlen(c->node)))
		return;
	switch (rc)
	{
		case ZNONODE:
			zk_contender_parent_missing(c);
			if (++c->attempts > ZK_MAX_ATTEMPTS)
				zk_contender_fail(client, slot, ZK_ERR_VANISHING,
								  "Lock node \"%.150s\" was deleted %d times while being created.",
								  c->node, ZK_MAX_ATTEMPTS);
			break;
		case ZTHROTTLEDOP:
			zk_contender_retry(client, c);
			break;
		case ZNOCHILDRENFOREPHEMERALS:
			zk_contender_fail(client, slot, ZK_ERR_EPHEMERAL_PARENT,
							  "Znode \"%.150s\" is ephemeral and cannot have children.",
							  c->node);
			break;
		default:
			zk_contender_fail(client, slot, zk_answer_error(rc),
							  "Could not create a contender: %s.",
							  zk_answer_text(rc));
	}
}

static void
on_create(ZkClient *client, int slot, const Answer *answer)
{
	int			rc = answer->rc;

	if (rc == ZOK || rc == ZNONODE)
		zk_leader_answered(client, answer->request->sent_at);
	if (rc == ZOK)
		zk_create_adopt(client, slot, strrchr(answer->text, '/') + 1, answer->stat,
						zk_request_proof(answer->request));
	else
		zk_create_failed(client, slot, rc);
}

/*
 * Create the contender and list the queue, in one go: the list is read after
 * the create is applied, for the requests of a session are processed in their
 * order.
 */
void
zk_send_create(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];
	void	   *context;
	char		path[ZK_CONTENDER_PATH_SIZE];
	int			rc;

	zk_contender_new_name(client, c);
	zk_contender_path(c, c->base, path);
	c->token = 0;
	c->proved_at = zk_now();	/* it will prove so much if it succeeds */
	context = zk_contender_ask(client, slot, on_create);
	rc = zoo_acreate2(client->connection.zh, path, c->owner, c->owner_len,
					  &client->identity.acl,
					  ZOO_EPHEMERAL_SEQUENTIAL, zk_on_created, context);
	if (rc != ZOK && !zk_is_connection_error(rc))
	{
		zk_request_undo(client, context);
		zk_contender_fail(client, slot, ZK_ERR_OTHER,
						  "Could not create a contender: %s.", zerror(rc));
		return;
	}
	c->state = ZK_CREATING;
	c->maybe_exists = true;		/* even if refused: it may be in the queue */
	if (zk_contender_sent(client, slot, context, rc))
		zk_place_send_list(client, slot);
}

/* How long is the path above the container that was to be created? */
static uint16_t
parent_length(const Contender *c)
{
	uint16_t	len = c->parent_len;

	while (len > 0 && c->node[--len] != '/')
		;
	return len;
}

/*
 * The container cannot be created for want of the one above: that is to be
 * created first.  If it was there, or made, just before, one more attempt was
 * in vain; the contender fails when that was one too many.
 */
static void
go_up(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];

	c->parent_len = parent_length(c);
	if (c->parent_seen && !c->unwanted && ++c->attempts > ZK_MAX_ATTEMPTS)
		zk_contender_fail(client, slot, ZK_ERR_VANISHING,
						  "Znode \"%.*s\" was deleted %d times while being created.",
						  c->parent_len > 150 ? 150 : c->parent_len, c->node,
						  ZK_MAX_ATTEMPTS);
	c->parent_seen = false;
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
		end = c->node + c->parent_len;
		if (*end == '\0')
		{
			c->need_parent = false;
			zk_identity_leave_user(client);
		}
		else
			c->parent_len += (uint16_t) (1 + strcspn(end + 1, "/"));
		c->parent_seen = true;
	}
	else if (rc == ZNONODE && parent_length(c) > 0)
		go_up(client, slot);
	else if ((zk_is_connection_error(rc) &&
			  rc != ZSESSIONCLOSEDREQUIRESASLAUTH) || rc == ZTHROTTLEDOP)
		zk_contender_retry(client, c);
	else if (!c->unwanted &&
			 !creation_denied(client, slot, rc, parent_length(c)))
		zk_contender_fail(client, slot, zk_answer_error(rc),
						  "Could not create znode \"%.*s\": %s.",
						  c->parent_len > 150 ? 150 : c->parent_len, c->node,
						  zk_answer_text(rc));
}

/*
 * Create the lock node, or the deepest znode above it that is missing, as a
 * container: the server removes it some time after it has become empty.
 * Bottom-up, so that nothing is asked of znodes we may have no rights to.
 */
void
zk_send_parent(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];
	void	   *context;
	char		path[ZK_NODE_PATH_SIZE];
	int			rc;

	snprintf(path, sizeof(path), "%.*s", c->parent_len, c->node);
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

/*
 * The own contender's Stat, asked for after its name was found in a list.
 */
static void
on_stat(ZkClient *client, int slot, const Answer *answer)
{
	Contender  *c = &client->contenders[slot];

	if (answer->rc == ZOK)
	{
		/*
		 * what was committed to find it (zk_send_find) came before this was
		 * sent
		 */
		ZkProof		proof = {c->proved_at, answer->request->leader_heard_at};

		zk_create_adopt(client, slot, c->name, answer->stat, proof);
	}
	else if (answer->rc == ZNONODE)
		zk_contender_missing(client, slot);
	else
		zk_contender_retry(client, c);
}

/*
 * Find out about a contender whose name is known but whose create was not
 * answered.  (exists, not get: no watch is asked for.)
 */
void
zk_send_stat(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];
	void	   *context;
	char		path[ZK_CONTENDER_PATH_SIZE];
	int			rc;

	zk_contender_path(c, c->name, path);
	context = zk_contender_ask(client, slot, on_stat);
	rc = zoo_aexists(client->connection.zh, path, 0, zk_on_stat, context);
	zk_contender_sent(client, slot, context, rc);
}

/*
 * Look for a contender whose create may have been executed, in a list that
 * shows all that was executed before the connection was regained.
 */
static void
find_by_base(ZkClient *client, int slot, const struct String_vector *list)
{
	Contender  *c = &client->contenders[slot];
	size_t		len = strlen(c->base);

	for (int i = 0; i < list->count; i++)
		if (strncmp(list->data[i], c->base, len) == 0)
		{
			snprintf(c->name, sizeof(c->name), "%s", list->data[i]);
			c->maybe_exists = false;
			return;
		}
	if (zk_contender_doubted(client, slot))
		return;
	zk_contender_forget(c);
	if (c->unwanted)
		return;
	if (c->grouped)
		zk_contender_unqueued(client, slot);
	else
		c->state = ZK_WANTED;
}

/*
 * The list that was to show the contender.  If what was to be committed before
 * it was not, it may be as old as its server likes.
 */
static void
on_find(ZkClient *client, int slot, const Answer *answer)
{
	int			rc = answer->rc;
	static const struct String_vector none;
	Contender  *c = &client->contenders[slot];

	if (rc == ZNOAUTH)
		zk_contender_stuck(client, slot, false);
	else if ((rc == ZOK || rc == ZNONODE) && c->settled)
		find_by_base(client, slot, rc == ZOK ? answer->children : &none);
	else
		zk_contender_retry(client, c);
}

/*
 * The answer to what is to be committed before the list is read.  A check that
 * fails is a transaction as well; any other answer may come from a server that
 * has not asked its leader.
 */
static void
on_settled(ZkClient *client, int slot, const Answer *answer)
{
	int			rc = answer->rc;
	Contender  *c = &client->contenders[slot];

	c->settled = rc == ZOK || rc == ZNONODE || rc == ZNOAUTH;
	(void) zk_identity_wanted(&client->identity, rc);
}

/*
 * Find the contender of a create that was not answered.  This may be another
 * server than the create was sent to, and lag behind; and its leader may be one
 * no more, and not know it yet.  So something is committed first, which takes
 * the leader of now and shows in the list what was committed before it.  (A
 * sync does not do: a leader that nobody follows answers it by itself, and a
 * server that throttles does not even ask.)  What was sent over the old
 * connection is refused by the leader after that, as the session has left the
 * server that it comes from; unless it has come back (Q7).
 */
void
zk_send_find(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];
	zoo_op_t	check;
	void	   *context;

	if (!zk_multi_possible(client))
	{
		zk_contender_retry(client, c);
		return;
	}
	c->settled = false;
	zoo_check_op_init(&check, c->node, -1);
	context = zk_contender_ask(client, slot, on_settled);
	if (zk_contender_sent(client, slot, context,
						  zoo_amulti(client->connection.zh, 1, &check, c->results, zk_on_void,
									 context)))
		zk_send_children(client, slot, on_find);
}
