/*-------------------------------------------------------------------------
 *
 * create.c
 *	  Bringing a contender into being, for certain and only once.
 *
 * Q7. A create that was not answered is looked for by its uuid in a list,
 * which is read behind an operation that was committed over the same
 * connection.  If it is there it is taken up, so that a request has one
 * contender whatever happened to the connection.  If not, it counts as not
 * executed, and a new one is sent: the leader refuses what comes from a server
 * that the session has left.  A contender that is missing from a list is
 * looked for in the same way: a new handle has forgotten what the previous one
 * had seen, so its server may lag behind.  For the same reason a holder's
 * contender that a read does not find is deleted nevertheless.
 *
 * But the create may still be executed.  If the session is on its way back to
 * the first server, the leader notes that (LearnerHandler, REVALIDATE) before
 * the requests that arrived ahead of it, because these are queued
 * (PrepRequestProcessor).  So all that was stuck between the two servers
 * passes, behind the operation that was to settle it.  That takes a leader
 * that is cut off from that server for a moment, and a client that goes to and
 * fro in the meantime (S351).  So such a create is left to a slot of its own,
 * which looks for it again shortly after each new connection, and whenever the
 * time it has waited so far has passed again, and deletes it
 * (zk_contender_doubted()).  Several are looked for one by one, or a network
 * that loses much would carry nothing else.  The session has then been moved
 * to the other server, and what it commits next ends its connection
 * (ZOOKEEPER-710); so a new connection comes.  The slot gives up after eight
 * session timeouts: servers that do not hear of each other for syncLimit ticks
 * close their connection, and what was stuck is gone.
 *
 * A sync would not do.  A leader that was stopped and is woken answers it by
 * itself until it finds that it has been replaced (Leader.processSync, if
 * nothing is outstanding), and a server that throttles refuses it and then
 * answers the list.  So the operation is a check of the lock node, whose
 * result is looked at: it is a transaction, even if it fails (S237).
 *
 * If a contender of our own ZooKeeper session that no slot knows of is in the
 * way of another client, it is deleted: the session would keep it alive, and
 * we would wait for ourselves (S238).
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "client.h"
#include "answer.h"
#include "auth.h"
#include "contender.h"
#include "create.h"
#include "own_watch.h"
#include "parents.h"
#include "place.h"
#include "request.h"
#include "znode.h"

/* The contender exists and this is its znode. */
void
zk_create_adopt(ZkClient *client, Contender *c, const char *name,
				const struct Stat *stat, ZkProof proof)
{
	zk_znode_set_name(c, name);
	if (stat->ephemeralOwner != zk_session_id(client))
	{
		/* of an earlier session of ours: never to be trusted, only deleted */
		zk_contender_reap_elsewhere(client, c);
		zk_contender_vanished(client, c);
		return;
	}
	zk_znode_set_token(c, stat->czxid);
	zk_contender_move(c, ZK_QUEUED);
	zk_contender_set_lease(client, c, proof);
}

/* The create was answered with an error. */
void
zk_create_failed(ZkClient *client, Contender *c, int rc)
{
	if (zk_is_connection_error(rc) && rc != ZSESSIONCLOSEDREQUIRESASLAUTH)
	{
		zk_contender_retry(client, c);
		return;					/* it may exist: CREATING finds out */
	}
	zk_contender_not_created(c);
	if (c->claim != CLAIM_WANTED ||
		zk_creation_denied(client, c, rc, strlen(c->node)))
		return;
	switch (rc)
	{
		case ZNONODE:
			zk_parents_missing(c, PARENTS_OF_CONTENDER);
			if (!zk_contender_attempt(c))
				zk_contender_fail(client, c, ZK_ERR_VANISHING,
								  "Lock node \"%.150s\" was deleted %d times while being created.",
								  c->node, ZK_MAX_ATTEMPTS);
			break;
		case ZTHROTTLEDOP:
			zk_contender_retry(client, c);
			break;
		case ZNOCHILDRENFOREPHEMERALS:
			zk_contender_fail(client, c, ZK_ERR_EPHEMERAL_PARENT,
							  "Znode \"%.150s\" is ephemeral and cannot have children.",
							  c->node);
			break;
		default:
			zk_contender_fail(client, c, zk_answer_error(rc),
							  "Could not create a contender: %s.",
							  zk_answer_text(rc));
	}
}

static void
on_create(ZkClient *client, Contender *c, const Answer *answer)
{
	int			rc = answer->rc;

	if (rc == ZOK)
		zk_create_adopt(client, c, strrchr(answer->text, '/') + 1, answer->stat,
						zk_request_proof(answer->request));
	else
		zk_create_failed(client, c, rc);
}

/*
 * Creates the contender and lists the queue in one go: the requests of a
 * session are processed in order.
 */
void
zk_send_create(ZkClient *client, Contender *c)
{
	void	   *context;
	char		path[ZK_CONTENDER_PATH_SIZE];
	int			rc;

	zk_contender_creating(client, c);
	zk_own_watch_begin(c);
	zk_contender_path(c, c->znode.base, path);
	context = zk_contender_ask(client, c, on_create);
	rc = zoo_acreate2(client->connection.zh, path, c->owner, c->owner_len,
					  &client->identity.acl,
					  ZOO_EPHEMERAL_SEQUENTIAL, zk_on_created, context);
	if (rc != ZOK && !zk_is_connection_error(rc))
	{
		zk_request_undo(client, context);
		zk_contender_not_created(c);
		zk_contender_fail(client, c, ZK_ERR_OTHER,
						  "Could not create a contender: %s.", zerror(rc));
		return;
	}
	if (zk_contender_sent(client, c, context, rc))
		zk_place_send_list(client, c);
}

/* The contender's Stat, asked for after its name was found in a list. */
static void
on_stat(ZkClient *client, Contender *c, const Answer *answer)
{
	if (answer->rc == ZOK)
	{
		/*
		 * what was committed to find it (zk_send_find) came before this was
		 * sent
		 */
		ZkProof		proof = {c->proof.proved_at, answer->request->leader_heard_at};

		zk_create_adopt(client, c, c->znode.name, answer->stat, proof);
	}
	else if (answer->rc == ZNONODE)
		zk_contender_missing(client, c);
	else
		zk_contender_retry(client, c);
}

/*
 * Reads the Stat of a contender whose name was found.  (exists, not get: no
 * watch is asked for.)
 */
void
zk_send_stat(ZkClient *client, Contender *c)
{
	void	   *context;
	char		path[ZK_CONTENDER_PATH_SIZE];

	zk_contender_path(c, c->znode.name, path);
	context = zk_contender_ask(client, c, on_stat);
	zk_contender_sent(client, c, context,
					  zoo_aexists(client->connection.zh, path, 0, zk_on_stat, context));
}

/*
 * Looks for a contender in a list that shows all that was executed before the
 * connection was regained.
 */
static void
find_by_base(ZkClient *client, Contender *c, const struct String_vector *list)
{
	size_t		len = strlen(c->znode.base);

	for (int i = 0; i < list->count; i++)
		if (strncmp(list->data[i], c->znode.base, len) == 0)
		{
			zk_znode_set_name(c, list->data[i]);
			return;
		}
	if (zk_contender_doubted(client, c))
		return;
	zk_contender_forget(c);
	if (c->claim != CLAIM_WANTED)
		return;
	if (c->member.state != MEMBER_NONE)
		zk_contender_unqueued(client, c);
	else
		zk_contender_move(c, ZK_WANTED);
}

/*
 * The list that was to show the contender.  It counts only if the check before
 * it was committed.
 */
static void
on_find(ZkClient *client, Contender *c, const Answer *answer)
{
	int			rc = answer->rc;

	if (rc == ZNOAUTH)
		zk_contender_stuck(client, c, false);
	else if ((rc == ZOK || rc == ZNONODE) && c->znode.existence == ZNODE_SETTLED)
		find_by_base(client, c, answer->children);
	else
		zk_contender_retry(client, c);
}

/*
 * The answer to the check before the list.  One that fails is a transaction as
 * well; any other answer may come from a server that has not asked its leader.
 */
static void
on_settled(ZkClient *client, Contender *c, const Answer *answer)
{
	int			rc = answer->rc;

	if (rc == ZOK || rc == ZNONODE || rc == ZNOAUTH)
		zk_znode_set(c, ZNODE_SETTLED);
	(void) zk_identity_wanted(&client->identity, rc);
}

/*
 * Finds the contender of a create that was not answered: a check, which is
 * committed by the current leader, and then a list, which shows what was
 * committed before it (Q7).
 */
void
zk_send_find(ZkClient *client, Contender *c)
{
	zoo_op_t	check;

	zk_znode_set(c, ZNODE_UNCERTAIN);
	zoo_check_op_init(&check, c->node, -1);
	if (zk_contender_multi(client, c, 1, &check, on_settled))
		zk_send_children(client, c, c->node, on_find);
}
