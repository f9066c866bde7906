/*-------------------------------------------------------------------------
 *
 * protocol.c
 *	  The life of a contender from request to end: what comes next for it.
 *
 * Everything is driven by zk_contender_advance(), which looks at the state of
 * a contender and sends what comes next, if nothing is on its way for it, the
 * ensemble is connected and there is room.  Whatever happens (an answer, a
 * lost connection, an order, a timer) changes the contender and has it called
 * again.  So no step is forgotten, whatever the backend is doing.
 *
 *    order           create sent             answered, found
 *   -----> WANTED ---------------> CREATING ----------------> QUEUED
 *            ^  ^                   |    ^                    ^    |
 *            |  +-------------------+    |   event, or the    |    | list:
 *            |      not executed         |   handle is closed |    | wait
 *            |                           |                    |    v
 *            |                           +---- missing --- WATCHING
 *            |                                 in a list       |
 *   session over, or deleted by           (also from QUEUED)   | event is
 *   another client (not from HELD)                             | the grant
 *                                                              v
 *      QUEUED, granted: read the record, make the marker, ----> HELD
 *      prove the lease ("grant"), as far as needed
 *
 * WANTED: create and list, in one go.  CREATING: find out what became of the
 * create.  QUEUED: list, to find the place.  WATCHING: wait for a contender to
 * go, or for one of several.  Once the contender is not wanted any more, what
 * exists of it is deleted, in any state, until it is certainly gone (GONE).
 * The backend sees two ends before that: FAILED (it cannot be granted) and
 * LOST.
 *
 * An uncontended acquire waits for one round trip: the list is read after the
 * create was applied.  A release waits for one, a release at commit for none.
 *
 * Q5. Every znode this client may have created belongs to a slot that is in
 * use (znode.c), and a slot is either wanted by the lock table or being reaped
 * by the client.  The reaper needs nothing of the backend.  What an ACL
 * protects from deletion goes with the ZooKeeper session, which is closed when
 * nothing else is held in it.
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include "client.h"
#include "contender.h"
#include "create.h"
#include "group.h"
#include "lock_delay.h"
#include "own_watch.h"
#include "parents.h"
#include "place.h"
#include "protocol.h"
#include "record_io.h"
#include "refusal.h"
#include "remove.h"
#include "request.h"
#include "watch.h"
#include "znode.h"

/* The contender is gone. */
static void
gone(ZkClient *client, Contender *c)
{
	zk_unwatch(c);
	zk_markers_forget(c);
	zk_record_ended(client, c);
	zk_group_dissolve(client, c);
	if (c->claim == CLAIM_ABANDONED)
		zk_refusal_forget(&c->refusal);
	zk_contender_gone(client, c);
	zk_own_watch_end(client, c);
}

/* Makes the contender that an order asks for. */
void
zk_contender_begin(ZkClient *client, const MailboxOrder *order)
{
	Contender  *c = zk_contender_take_order(client, order);

	if (order->partner != ZK_NO_SLOT)
		zk_own_watch_begin(c);
	else
		zk_group_join(c, order->next_member);
}

/* Sends the next request for a contender that exists: for place or grant. */
static void
send_queued(ZkClient *client, Contender *c)
{
	if (c->grant == GRANT_RECORD)
	{
		if (!zk_record_end_pending(client, c))
			zk_send_record(client, c);
	}
	else if (c->grant == GRANT_NONE)
		zk_place_send_list(client, c);
	else if (c->grant == GRANT_MARKERS && !zk_markers_advance(client, c))
	{
		zk_contender_move(c, ZK_QUEUED);
		zk_place_send_list(client, c);
	}
}

/* Sends what comes next for a contender that is wanted. */
static void
send_next(ZkClient *client, Contender *c)
{
	switch (c->state)
	{
		case ZK_WANTED:
			if (c->parents.of == PARENTS_OF_CONTENDER)
				zk_send_lock_node(client, c);
			else if (c->member.state != MEMBER_NONE)
				zk_send_group(client, c);
			else
				zk_send_create(client, c);
			break;
		case ZK_CREATING:
			if (c->znode.existence == ZNODE_NAMED)
				zk_send_stat(client, c);
			else
				zk_send_find(client, c);
			break;
		case ZK_QUEUED:
			send_queued(client, c);
			break;
		case ZK_WATCHING:
			if (c->watching.second == SECOND_GONE)
				zk_place_relist(client, c);
			else
				zk_watch_more(client, c);
			break;
		case ZK_HELD:
			if (c->partner != NULL)
				zk_send_downgrade(client, c);
			break;
		default:
			break;
	}
}

/* Returns true if something can be sent for a contender now. */
static bool
can_send(ZkClient *client, const Contender *c)
{
	if (c->turn.retry_at != 0 || !zk_requests_available(client, 3))
		return false;
	return client->stage == CLIENT_RUNNING ||	/* else it goes with the
												 * session */
		(c->claim != CLAIM_WANTED && zk_record_flush(client, c));
}

/* Sends what comes next for a contender, if that can be done now. */
void
zk_contender_advance(ZkClient *client, Contender *c)
{
	zk_own_watch(client, c);
	zk_own_rewrite(client, c);
	if (c->claim == CLAIM_NONE || c->turn.pending > 0)
		return;
	if (c->turn.retry_at <= zk_now())
		zk_contender_retry_at(c, 0);	/* or its timer would fire for ever */
	if (c->claim != CLAIM_WANTED)
		zk_contender_give_up_partner(client, c);	/* if it was not sent, or
													 * failed */
	if (c->claim != CLAIM_WANTED && c->znode.existence == ZNODE_ABSENT)
	{
		if (c->partner == NULL)
			gone(client, c);
	}
	else if (!can_send(client, c))
		;
	else if (c->claim == CLAIM_WANTED && c->refusal.znode != NULL)
		zk_send_inquiry(client, c);
	else if (c->claim == CLAIM_WANTED)
		send_next(client, c);
	else if (c->znode.existence == ZNODE_NAMED)
		zk_send_delete(client, c);
	else
		zk_send_find(client, c);
}

/*
 * There is a connection (again): tries everything now.  Creates that may be
 * executed late are looked for after a moment, one by one, to leave a bad
 * network to the others.
 */
void
zk_contenders_connected(ZkClient *client)
{
	ZkTime		next = zk_now() + zk_timeout(client) / 8;

	for (int i = 0; i < client->used; i++)
	{
		Contender  *c = &client->contenders[i];

		if (zk_znode_is_doubted(c))
		{
			zk_contender_retry_at(c, next);
			next += zk_timeout(client) / ZK_MAX_DOUBTED;
		}
		else
			zk_contender_retry_at(c, 0);
	}
	zk_contenders_touch_all(client);
}

/* The connection is lost. */
void
zk_contenders_disconnected(ZkClient *client)
{
	for (int i = 0; i < client->used; i++)
		zk_watch_disconnected(&client->contenders[i]);
}

/*
 * The handle is closed, with its requests and watches.  The ZooKeeper session
 * may live on.
 */
void
zk_contenders_handle_closed(ZkClient *client)
{
	zk_own_watches_gone(client);
	zk_group_handle_closed(client);
	for (int i = 0; i < client->used; i++)
	{
		Contender  *c = &client->contenders[i];

		if (c->claim == CLAIM_NONE)
			continue;
		zk_markers_forget(c);
		zk_contender_move(c, c->state == ZK_WATCHING ? ZK_QUEUED : c->state);
		if (c->claim != CLAIM_WANTED)
			zk_contender_give_up_partner(client, c);
	}
}

/* A waiter's ZooKeeper session is over: it queues again, or its group does. */
static void
requeue(ZkClient *client, Contender *c, bool expired)
{
	if (c->member.state != MEMBER_NONE && c->state != ZK_WANTED)
	{
		if (expired)
			zk_contender_forget(c);
		zk_contender_fail(client, c, ZK_ERR_UNQUEUED,
						  "The ZooKeeper session has ended.");
		return;
	}
	if (!expired && c->znode.existence != ZNODE_ABSENT)
		zk_contender_reap_elsewhere(client, c);
	zk_contender_forget(c);
	zk_unwatch(c);
	zk_contender_move(c, ZK_WANTED);
	zk_contender_retry_at(c, 0);
	zk_contender_publish(client, c, true);
}

/*
 * The ZooKeeper session has expired or was given up.  Held locks are lost;
 * waiters queue again.
 */
void
zk_contenders_session_over(ZkClient *client, bool expired)
{
	int			used = client->used;

	zk_contenders_handle_closed(client);
	for (int i = 0; i < used; i++)
	{
		Contender  *c = &client->contenders[i];

		if (c->claim == CLAIM_NONE)
			continue;
		if (c->znode.doubted_since != 0)
			zk_contender_forget(c);
		if (c->claim == CLAIM_WANTED && c->state != ZK_HELD)
		{
			requeue(client, c, expired);
			continue;
		}
		if (expired)
			zk_contender_forget(c);
		zk_contender_lose(client, c, expired ? ZK_LOST_EXPIRED : ZK_LOST_LEASE,
						  expired ? "The ZooKeeper session has expired." :
						  "The ZooKeeper ensemble could not be reached.");
		zk_contender_touch(client, c);
	}
}
