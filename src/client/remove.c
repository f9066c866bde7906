/*-------------------------------------------------------------------------
 *
 * remove.c
 *	  Deleting a contender, and putting a shared one in its place.
 *
 * Q6. A contender is deleted by its own full name, and forgotten only when the
 * answer was "deleted" or "no such node", or its session is over.  A shared
 * one that was to take an exclusive one's place is gone only when that is,
 * too: a backend that waits for a release is told that the lock is free.
 *
 * F9. A lock that was downgraded keeps its token, that of the exclusive
 * contender.  The shared contender in its place has a later czxid, later than
 * those of contenders that wait behind it: if that were the token, the next
 * holder would have a lower one, and be refused wherever tokens are compared.
 * So the shared contender's data contains the token (add_token()), and
 * zk_lock_queue() and zk_lock_tree() show that, if it is earlier than the
 * czxid, as it must be.  The holder never asks the ensemble for it, so it
 * cannot be lost with the answer to the multi-op.
 *
 * A lock that was acquired shared first and then exclusively has two
 * contenders, and so a token for each mode.  When the exclusive one is
 * released the token is again that of the shared one, which is lower.  That
 * breaks no order: later holders have greater tokens than both.
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include "client.h"
#include "answer.h"
#include "contender.h"
#include "marker.h"
#include "record_io.h"
#include "remove.h"
#include "request.h"
#include "znode.h"

static void
on_delete(ZkClient *client, Contender *c, const Answer *answer)
{
	int			rc = answer->rc;

	if (rc == ZOK || rc == ZNONODE)
		zk_contender_forget(c);
	else if (rc == ZNOAUTH)
		zk_contender_stuck(client, c, true);
	else
		zk_contender_retry(client, c);
}

/*
 * The contender that was to be deleted with its marker or record is gone.  If
 * by an unanswered multi-op of ours they are done, too.
 */
static void
already_gone(Contender *c)
{
	if (zk_marker_to_go(c))
		zk_marker_set(c, MARKER_ORPHANED);
	else if (zk_record_is(c, RECORD_SENT))
		zk_record_verify(c);
	else
		zk_contender_forget(c);
}

static void
on_flush(ZkClient *client, Contender *c, const Answer *answer)
{
	int			rc = answer->rc;

	if (rc == ZOK)
	{
		zk_record_written(c);
		zk_contender_forget(c);
	}
	else if (zk_is_transient(rc))
	{
		zk_record_unanswered(c, rc);
		zk_contender_retry(client, c);
	}
	else if (c->results[0].err == ZNONODE)
		already_gone(c);
	else if (c->results[0].err == ZNOAUTH)
		zk_contender_stuck(client, c, true);
	else if (zk_marker_to_blame(c, 1))
		zk_marker_set(c, MARKER_ABSENT);
	else if (zk_record_is(c, RECORD_SENT))
		zk_record_conflict(client, c, rc);
	else
		zk_contender_retry(client, c);
}

/*
 * Sends a multi-op of a contender that begins with these operations, and goes
 * on with those on the marker of "from" and on the record: three more at most.
 */
static void
send_with_rest(ZkClient *client, Contender *c, const Contender *from, zoo_op_t *ops,
			   int count, ContenderHandler handler)
{
	char		marker_paths[2][ZK_MARKER_PATH_SIZE];
	char		record_path[ZK_RECORD_PATH_SIZE];
	char		record[ZK_RECORD_SIZE];

	count += zk_marker_ops(client, c, from, &ops[count], marker_paths);
	if (zk_record_is(c, RECORD_SENT))
		zk_record_op(client, c, &ops[count++], record_path, record);
	zk_contender_multi(client, c, count, ops, handler);
}

/*
 * Deletes the contender and its marker, and writes the record, in one
 * transaction: the next holder finds all that done.
 */
static void
send_flush(ZkClient *client, Contender *c)
{
	zoo_op_t	ops[3];
	char		path[ZK_CONTENDER_PATH_SIZE];

	zk_contender_path(c, c->znode.name, path);
	zoo_delete_op_init(&ops[0], path, -1);
	send_with_rest(client, c, c, ops, 1, on_flush);
}

/* Deletes the contender, with its marker and what is due in the record. */
void
zk_send_delete(ZkClient *client, Contender *c)
{
	void	   *context;
	char		path[ZK_CONTENDER_PATH_SIZE];

	if (c->marker.state == MARKER_ORPHANED && zk_marker_to_go(c))
	{
		zk_send_marker_delete(client, c);
		return;
	}
	if (!zk_record_ready(client, c))
		return;
	if (zk_record_is(c, RECORD_SENT) || zk_marker_to_go(c))
	{
		send_flush(client, c);
		return;
	}
	zk_contender_path(c, c->znode.name, path);
	context = zk_contender_ask(client, c, on_delete);
	zk_contender_sent(client, c, context,
					  zoo_adelete(client->connection.zh, path, -1, zk_on_void, context));
}

/*
 * The downgrade was not carried out; or, if it was tried before without an
 * answer, may have been then: so what may exist is deleted.
 */
static void
downgrade_failed(ZkClient *client, Contender *c, int rc, bool tried_before)
{
	char		detail[ZK_DETAIL_SIZE];

	if (zk_is_transient(rc))
	{
		if (c->claim != CLAIM_WANTED)
			zk_contender_give_up_partner(client, c);
		zk_contender_retry(client, c);
		return;
	}
	if (!tried_before)
		zk_contender_forget(c);
	snprintf(detail, sizeof(detail),
			 "Could not convert the exclusive lock into a shared one: %s.",
			 zerror(rc));
	zk_contender_lose(client, c, ZK_LOST_CONTENDER, detail);
	zk_contender_give_up_partner(client, c);
}

/*
 * The shared contender is in the place of the exclusive one, which is gone.
 */
static void
downgrade_done(ZkClient *client, Contender *c)
{
	if (c->partner == NULL)
		return;					/* it was deleted in the meantime, too */
	if (c->marker.state == MARKER_UNKNOWN)
		zk_marker_set(c, MARKER_THERE);
	zk_contender_replaced(client, c);
	zk_mailbox_wake_helper(&client->mailbox);	/* its lease can be renewed
												 * now */
}

/* Returns true if the downgrade failed because of the record. */
static bool
record_to_blame(const Contender *c, int rc)
{
	return zk_record_is(c, RECORD_SENT) && !zk_is_transient(rc) &&
		c->results[0].err == ZOK && c->results[1].err == ZOK &&
		c->results[2].err == ZOK;
}

/* The same because of the marker: then there is none from now on. */
static bool
marker_to_blame(Contender *c, int rc)
{
	if (zk_is_transient(rc) ||
		c->partner == NULL || !zk_marker_to_blame(c, 3))
		return false;
	zk_marker_set(c, MARKER_ABSENT);
	zk_marker_set(c->partner, MARKER_ABSENT);
	return true;
}

static void
downgrade_answered(ZkClient *client, Contender *c, const Answer *answer,
				   bool tried_before)
{
	int			rc = answer->rc;

	/* all or nothing: if the shared one was there, so was all the rest done */
	if (rc == ZOK || c->results[0].err == ZNODEEXISTS)
	{
		if (rc == ZOK)
			zk_record_written(c);
		downgrade_done(client, c);
		if (rc == ZOK)
			zk_contender_proved(client, c, zk_request_proof(answer->request));
	}
	else if (marker_to_blame(c, rc))
		zk_znode_set(c, ZNODE_ABSENT);
	else if (!record_to_blame(c, rc))
		downgrade_failed(client, c, rc, tried_before);
	else
	{
		zk_znode_set(c, ZNODE_ABSENT);
		zk_record_conflict(client, c, rc);
	}
}

static void
on_downgrade(ZkClient *client, Contender *c, const Answer *answer)
{
	downgrade_answered(client, c, answer, false);
}

static void
on_downgrade_again(ZkClient *client, Contender *c, const Answer *answer)
{
	downgrade_answered(client, c, answer, true);
}

/*
 * Puts the shared contender into the place of the exclusive one, in one
 * transaction: it gets the same number, as in Curator (CURATOR-621), so that
 * no waiter can slip in.  Changing the exclusive one's data before deleting it
 * makes a waiter that watches it see "changed", and read the queue instead of
 * taking the deletion for its grant (Q2).  For
 * others that share the lock it is a release: the record is written.  A marker
 * gets another name.
 */
void
zk_send_downgrade(ZkClient *client, Contender *c)
{
	Contender  *from = c->partner;
	zoo_op_t	ops[6];
	char		to_path[ZK_CONTENDER_PATH_SIZE];
	char		from_path[ZK_CONTENDER_PATH_SIZE];
	bool		again;

	if (!zk_record_ready(client, c))
		return;
	again = zk_znode_take_place(c, from);
	zk_contender_path(c, c->znode.name, to_path);
	zk_contender_path(from, from->znode.name, from_path);
	zoo_create_op_init(&ops[0], to_path, from->owner, from->owner_len,
					   &client->identity.acl, ZOO_EPHEMERAL, NULL, 0);
	zoo_set_op_init(&ops[1], from_path, from->owner, from->owner_len, -1, NULL);
	zoo_delete_op_init(&ops[2], from_path, -1);
	send_with_rest(client, c, from, ops, 3,
				   again ? on_downgrade_again : on_downgrade);
}
