/*-------------------------------------------------------------------------
 *
 * protocol.c
 *	  The life of a contender from request to end: what comes next for it.
 *
 * Everything is driven by zk_contender_advance(), which looks at where a
 * contender stands and sends what comes next, if nothing is on its way for it,
 * the ensemble is there and there is room.  Whatever happens (an answer, a lost
 * connection, an order, a timer) changes the contender and has it called again.
 * So there is no path on which a step is forgotten: what could not be done now
 * is done at the next occasion, whether the backend is idle, busy, or in
 * another transaction.
 *
 * WANTED     nothing sent: create and list, in one go
 * CREATING   create sent, its outcome unknown: find out
 * QUEUED     exists, its place is not known: list
 * WATCHING   waits for the deletion of the contender watched, or of one of several
 * HELD       granted
 * GONE       certain to exist no more
 *
 * At most one step is on its way for a contender at a time ("pending").  There
 * are two ends that the backend sees while the znode behind them may still have
 * to be deleted: FAILED (it cannot be granted, and why) and LOST.  "Abandoned"
 * is an order that may come in any state; from then on nobody watches, and the
 * slot is freed when the znode is certain to be gone.
 *
 * An uncontended acquire waits for one round trip: create and list are sent
 * together, and the list is read after the create was applied.  A release waits
 * for one, a release at commit for none.  A waiter sends one get (with a
 * watch), and a second one for who is before that, lists once more when that
 * one goes, and then nothing until its predecessor goes, whose event is the
 * grant (place.c).
 *
 * Q5. Every znode this client may have created belongs to a slot that is in use
 * (name set, or maybe_exists), and a slot is either wanted by the lock table or
 * being reaped by the client.  The reaper needs nothing of the backend.  What
 * cannot be deleted (an ACL forbids it) goes with the ZooKeeper session, which
 * is closed when nothing else is held in it.
 *
 * All functions run on client threads under engine_lock.
 *
 * IDENTIFICATION
 *	  src/client/protocol.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "contender.h"
#include "create.h"
#include "group.h"
#include "lock_delay.h"
#include "own_watch.h"
#include "place.h"
#include "protocol.h"
#include "publish_wait.h"
#include "record_io.h"
#include "refusal.h"
#include "remove.h"
#include "request.h"
#include "semaphore.h"
#include "server_timeout.h"

/*
 * The contender is gone: say so to who waits for it, else free the slot.
 */
static void
gone(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];

	zk_contender_unwatch(c);
	zk_marks_forget(c);
	zk_record_ended(client, c);
	zk_group_dissolve(client, slot);
	if (c->successor != ZK_NO_SLOT)
	{
		client->contenders[c->successor].partner = ZK_NO_SLOT;
		zk_contender_touch(client, c->successor);
		c->successor = ZK_NO_SLOT;
	}
	if (c->state != ZK_GONE || c->released)
	{
		c->state = ZK_GONE;
		zk_contender_publish(client, slot, true);
		c->released = false;
	}
	if (!c->abandoned)
		return;
	free(c->owner);
	c->owner = NULL;
	zk_refusal_forget(&c->refusal);
	c->in_use = false;
	zk_mailbox_free_slot(&client->mailbox, slot);
}

/*
 * The backend wants a contender: make it known.  zk_contender_advance() does
 * the rest.
 */
void
zk_contender_begin(ZkClient *client, const MailboxOrder *order)
{
	Contender  *c = zk_contender_use(client, order->slot, order->node,
									 order->request.mode);

	c->request = order->request;
	c->owner = order->owner;
	c->owner_len = order->owner_len;
	c->record = order->record;
	c->overdue = false;
	c->next_member = order->next_member;
	c->grouped = c->next_member != ZK_NO_SLOT;
}

/*
 * Add the token to what the exclusive contender says about its owner, which the
 * shared one is to say in its place.  That holds the lock under the same token,
 * as those who wait behind it have later ones; but its own czxid is later
 * still.
 */
static void
add_token(Contender *c)
{
	int			len = c->owner_len - 1;

	if (len > 0 && c->owner[len] == '}')
		c->owner_len = len + snprintf(c->owner + len, ZK_TOKEN_ROOM,
									  ZK_TOKEN_MEMBER, c->token);
}

/*
 * The backend wants a held exclusive lock turned into a shared one: likewise.
 */
void
zk_contender_begin_downgrade(ZkClient *client, const MailboxOrder *order)
{
	Contender  *c = zk_contender_use(client, order->slot, order->node,
									 ZK_SHARED);
	Contender  *from = &client->contenders[order->partner];

	c->partner = order->partner;
	from->successor = (uint16_t) order->slot;
	add_token(from);
	zk_contender_pass_record(c, from);
	c->request.lock_delay = from->request.lock_delay;
	c->request.root_len = from->request.root_len;
	c->token = from->token;
	c->proved_at = from->proved_at;
	c->lease_end = from->lease_end;
	c->presumed_lost = from->presumed_lost;
	c->granted_at = from->granted_at;
	c->state = ZK_HELD;
	zk_contender_new_name(client, c);
	if (from->end == ZK_LOST)
		zk_contender_lose(client, order->slot, from->loss, from->detail);
	else
		zk_contender_publish(client, order->slot, false);
}

/*
 * Send what comes next for a contender, if that can be done now.
 */
void
zk_contender_advance(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];

	zk_own_watch(client, slot);
	zk_own_rewrite(client, slot);
	if (!c->in_use || c->pending > 0)
		return;
	if (c->retry_at <= zk_now())
		c->retry_at = 0;		/* or its timer would fire for ever */
	if (c->unwanted)
		zk_contender_give_up_partner(client, c);	/* if it was not sent, or
													 * failed */
	if (c->unwanted && c->name[0] == '\0' && !c->maybe_exists)
	{
		if (c->partner == ZK_NO_SLOT)
			gone(client, slot);
		return;
	}
	if (!zk_is_connected(client) || atomic_load(&zk_poisoned) ||
		c->retry_at != 0 || !zk_requests_available(client, 3))
		return;
	if (client->stage != CLIENT_RUNNING && !(c->unwanted && zk_record_flush(client, c)))
		return;					/* it goes with the session */

	if (c->unwanted)
	{
		if (c->name[0] != '\0')
			zk_send_delete(client, slot);
		else
			zk_send_find(client, slot);
		return;
	}
	if (c->refusal.znode != NULL)
	{
		zk_send_inquiry(client, slot);
		return;
	}
	switch (c->state)
	{
		case ZK_WANTED:
			if (c->need_parent)
				zk_send_parent(client, slot);
			else if (c->grouped)
				zk_send_group(client, slot);
			else if (!zk_record_end_pending(client, c))
				zk_send_create(client, slot);
			break;
		case ZK_CREATING:
			if (c->name[0] != '\0')
				zk_send_stat(client, slot);
			else
				zk_send_find(client, slot);
			break;
		case ZK_QUEUED:
			if (c->reading)
				zk_send_record(client, slot);
			else if (c->marking.due ? !zk_marks_advance(client, slot) :
					 !c->proving)
				zk_place_send_list(client, slot);
			break;
		case ZK_WATCHING:
			if (c->relist)
				zk_place_relist(client, slot);
			else
				zk_permit_watch_more(client, slot);
			break;
		case ZK_HELD:
			if (c->partner != ZK_NO_SLOT)
				zk_send_downgrade(client, slot);
			break;
		default:
			break;
	}
}

/*
 * There is a connection (again): try everything now.  Those whose create may be
 * executed late are looked for when it has lasted for a moment, and one after
 * the other: on a bad network they must not keep others from what they want.
 */
void
zk_contenders_connected(ZkClient *client)
{
	ZkTime		next = zk_now() + zk_timeout(client) / 8;

	for (int i = 0; i < client->used; i++)
	{
		Contender  *c = &client->contenders[i];

		if (zk_is_doubted(c))
		{
			c->retry_at = next;
			next += zk_timeout(client) / ZK_MAX_DOUBTED;
		}
		else if (c->retry_at != INT64_MAX)
			c->retry_at = 0;
	}
	zk_contenders_touch_all(client);
}

/*
 * The connection is lost.
 */
void
zk_contenders_disconnected(ZkClient *client)
{
	for (int i = 0; i < client->used; i++)
		zk_place_disconnected(&client->contenders[i]);
}

/*
 * The handle is closed: nothing on its way will be answered, and its watches
 * are gone.  The ZooKeeper session may live on.
 */
void
zk_contenders_handle_closed(ZkClient *client)
{
	zk_own_watches_gone(client);
	zk_group_handle_closed(client);
	for (int i = 0; i < client->used; i++)
	{
		Contender  *c = &client->contenders[i];

		if (!c->in_use)
			continue;
		c->pending = 0;
		c->rewrite_serial = 0;
		c->proving = c->reading = false;
		zk_marks_forget(c);
		if (c->state == ZK_WATCHING)
			c->state = ZK_QUEUED;
		if (c->unwanted)
			zk_contender_give_up_partner(client, c);
	}
}

/*
 * The ZooKeeper session is over: by its expiry, or because we have given it
 * up.  Nothing of it is trusted again.  Held locks are lost; who waited queues
 * anew.
 */
void
zk_contenders_session_over(ZkClient *client, bool expired)
{
	int			used = client->used;

	zk_contenders_handle_closed(client);
	for (int i = 0; i < used; i++)
	{
		Contender  *c = &client->contenders[i];

		if (!c->in_use)
			continue;
		if (c->doubted_since != 0)
			zk_contender_forget(c);
		if (!c->unwanted && c->grouped &&
			c->state != ZK_HELD && c->state != ZK_WANTED)
		{
			/* the backend has its whole group queue anew */
			if (expired)
				zk_contender_forget(c);
			zk_contender_fail(client, i, ZK_ERR_UNQUEUED,
							  "The ZooKeeper session has ended.");
			continue;
		}
		if (!c->unwanted && c->state != ZK_HELD)
		{
			if (!expired && (c->name[0] != '\0' || c->maybe_exists))
				zk_contender_reap_elsewhere(client, c);
			zk_contender_forget(c);
			zk_contender_unwatch(c);
			c->state = ZK_WANTED;
			c->retry_at = 0;
			zk_contender_publish(client, i, true);
			continue;
		}
		if (expired)
		{
			zk_contender_forget(c);
			zk_contender_lose(client, i, ZK_LOST_EXPIRED,
							  "The ZooKeeper session has expired.");
		}
		else
			zk_contender_lose(client, i, ZK_LOST_LEASE,
							  "The ZooKeeper ensemble could not be reached.");
		zk_contender_touch(client, i);
	}
}
