/*-------------------------------------------------------------------------
 *
 * orders.c
 *	  What the backend asks of the client: orders for contenders, proofs,
 *	  queries.
 *
 * The backend writes an order into the slot of its contender, under
 * mailbox.lock, and then sees that it is carried out, without ever waiting for
 * that (zk_engine_ask()).
 *
 * All functions run on the backend thread.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "request.h"
#include "slot.h"

/*
 * Give an order that can wait until the engine is entered anyway; the latest
 * one counts.  mailbox.lock.
 */
static void
leave_order(Mailbox *mailbox, MailboxSlot *slot, ZkOrder order)
{
	uint16_t	index = (uint16_t) (slot - mailbox->slots);

	slot->order = order;
	if (!slot->ordered)
	{
		slot->ordered = true;
		slot->next = ZK_NO_SLOT;
		if (mailbox->first_order == ZK_NO_SLOT)
			mailbox->first_order = index;
		else
			mailbox->slots[mailbox->last_order].next = index;
		mailbox->last_order = index;
	}
}

/* Give an order that is to be carried out now.  mailbox.lock. */
static void
give_order(Mailbox *mailbox, MailboxSlot *slot, ZkOrder order)
{
	leave_order(mailbox, slot, order);
	atomic_store(&mailbox->asked, true);
}

/*
 * Leaves the mailbox, and sees that what was asked for is done: orders, and
 * what the news say.
 */
static void
leave_mailbox(ZkClient *client)
{
	bool		asked = atomic_load(&client->mailbox.asked);

	mailbox_leave(&client->mailbox);
	if (asked)
		zk_engine_ask(client);
}

/*
 * Returns true if a slot may stay in use for some time: its contender is gone
 * for certain, and there is room for as many others.
 */
static bool
can_wait(const Mailbox *mailbox, const MailboxSlot *slot)
{
	return slot->status.state == ZK_GONE &&
		mailbox->contenders <= ZK_MAX_CONTENDERS / 2 &&
		mailbox->path_bytes <= ZK_MAX_PATH_BYTES / 2;
}

/*
 * Something new is asked for: the error of an earlier attempt to connect is no
 * answer to that.  mailbox.lock.
 */
static void
forget_error(Mailbox *mailbox)
{
	mailbox->session.error = ZK_OK;
	mailbox->session.definite = false;
	mailbox->session.detail[0] = '\0';
}

void
zk_client_renew(ZkClient *client)
{
	Mailbox    *mailbox = &client->mailbox;

	mailbox_enter(mailbox);
	mailbox->news.renew = true;
	atomic_store(&mailbox->asked, true);
	leave_mailbox(client);
}

void
zk_client_connect(ZkClient *client, int timeout_ms)
{
	Mailbox    *mailbox = &client->mailbox;

	mailbox_enter(mailbox);
	mailbox->duties.connect_by = zk_now() + ZK_MS(timeout_ms);
	forget_error(mailbox);
	mailbox_leave_and_wake(mailbox);
}

bool
zk_contenders_request(ZkClient *client, const ZkLockRequest *request, int count,
					  const char *const *nodes, ZkContenderId *ids,
					  ZkError *error)
{
	Mailbox    *mailbox = &client->mailbox;
	uint16_t	slots[ZK_MAX_GROUP];
	bool		asked;

	*error = ZK_ERR_POISONED;
	if (atomic_load(&zk_poisoned))
		return false;
	*error = ZK_ERR_LIMIT;
	if (count > ZK_MAX_GROUP)
		return false;
	mailbox_enter(mailbox);
	asked = zk_slots_allocate(mailbox, request, count, nodes, slots, error);
	for (int i = 0; asked && i < count; i++)
	{
		MailboxSlot *slot = &mailbox->slots[slots[i]];

		if (count > 1)
			slot->next_member = slots[(i + 1) % count];
		slot->status.state = ZK_WANTED;
		give_order(mailbox, slot, ZK_ORDER_REQUEST);
		ids[i] = zk_slot_id(mailbox, slot);
	}
	if (asked)
		forget_error(mailbox);
	leave_mailbox(client);
	return asked;
}

ZkContenderId
zk_contender_reserve(ZkClient *client, ZkContenderId exclusive, ZkError *error)
{
	Mailbox    *mailbox = &client->mailbox;
	ZkContenderId id = 0;
	MailboxSlot *held;
	MailboxSlot *slot = NULL;

	mailbox_enter(mailbox);
	held = zk_mailbox_find(mailbox, exclusive);
	*error = ZK_ERR_OTHER;
	if (held != NULL)
		slot = zk_slot_allocate(mailbox, held->node, error);
	if (slot != NULL)
	{
		slot->request.mode = ZK_SHARED;
		slot->status.state = ZK_RESERVED;
		id = zk_slot_id(mailbox, slot);
	}
	mailbox_leave(mailbox);
	return id;
}

void
zk_contender_downgrade(ZkClient *client, ZkContenderId exclusive,
					   ZkContenderId shared)
{
	Mailbox    *mailbox = &client->mailbox;
	MailboxSlot *from;
	MailboxSlot *to;

	mailbox_enter(mailbox);
	from = zk_mailbox_find(mailbox, exclusive);
	to = zk_mailbox_find(mailbox, shared);
	if (from != NULL && to != NULL)
	{
		to->status = from->status;
		to->status.revoked = false; /* only the exclusive one was asked for */
		to->partner = (uint16_t) (from - mailbox->slots);
		to->relied_on = from->relied_on;
		to->record = from->record;	/* which is not freed before from is gone */
		from->record = NULL;
		from->dead = true;
		zk_slot_count_loss(mailbox, from);
		zk_slot_count_loss(mailbox, to);
		give_order(mailbox, to, ZK_ORDER_DOWNGRADE);
	}
	leave_mailbox(client);
}

void
zk_contender_release(ZkClient *client, ZkContenderId id)
{
	Mailbox    *mailbox = &client->mailbox;
	MailboxSlot *slot;

	mailbox_enter(mailbox);
	slot = zk_mailbox_find(mailbox, id);
	if (slot != NULL)
	{
		give_order(mailbox, slot, ZK_ORDER_RELEASE);
		slot->status.state = zk_slot_shown_state(slot, slot->status.state);
		zk_slot_count_loss(mailbox, slot);
	}
	leave_mailbox(client);
}

void
zk_contender_abandon(ZkClient *client, ZkContenderId id)
{
	Mailbox    *mailbox = &client->mailbox;
	MailboxSlot *slot;

	mailbox_enter(mailbox);
	slot = zk_mailbox_find(mailbox, id);
	if (slot != NULL)
	{
		slot->dead = true;
		zk_slot_count_loss(mailbox, slot);
		if (slot->status.state == ZK_RESERVED)
			zk_slot_free(mailbox, slot);	/* the engine has never seen it */
		else if (can_wait(mailbox, slot))
			leave_order(mailbox, slot, ZK_ORDER_ABANDON);
		else
			give_order(mailbox, slot, ZK_ORDER_ABANDON);
	}
	leave_mailbox(client);
}

void
zk_client_commit(ZkClient *client, bool under_way)
{
	Mailbox    *mailbox = &client->mailbox;
	bool		overdue;

	mailbox_enter(mailbox);
	mailbox->committing = under_way;
	overdue = !under_way && mailbox->overdue;
	if (overdue)
	{
		mailbox->overdue = false;
		mailbox_leave_and_wake(mailbox);
	}
	else
		mailbox_leave(mailbox);
}

/*
 * Give a query, which is taken over, in place of the last one; an empty one
 * only ends that, with the answer that is given.
 */
static void
give_query(ZkClient *client, const Query *query, ZkQueueListing *answer)
{
	Mailbox    *mailbox = &client->mailbox;
	Query		old;
	ZkQueueListing *old_listing;

	mailbox_enter(mailbox);
	old = mailbox->news.query;
	old_listing = mailbox->listing;
	mailbox->news.query = *query;
	mailbox->news.query.serial = zk_next_serial(old.serial);
	mailbox->listing = answer;
	if (query->node != NULL)
		forget_error(mailbox);
	atomic_store(&mailbox->asked, true);
	leave_mailbox(client);
	zk_query_clear(&old);
	zk_queue_free(old_listing);
}

void
zk_query_request(ZkClient *client, ZkQueryKind kind, const char *node,
				 const char *name)
{
	Query		query = {.kind = kind,.node = strdup(node)};

	if (name != NULL)
	{
		query.name = strdup(name);
		if (query.name == NULL)
			zk_query_clear(&query);
	}
	give_query(client, &query, query.node != NULL ? NULL : &zk_listing_no_memory);
}

void
zk_queue_break(ZkClient *client, const char *node, const char *name,
			   const char *who, bool only_revoke)
{
	Query		query = {.kind = only_revoke ? ZK_QUERY_REVOKE : ZK_QUERY_BREAK};
	size_t		size = sizeof(ZK_BREAK_PREFIX) + strlen(who) + 1;

	query.node = strdup(node);
	query.name = strdup(name);
	query.note = malloc(size);
	if (query.node == NULL || query.name == NULL || query.note == NULL)
		zk_query_clear(&query);
	else
		snprintf(query.note, size, ZK_BREAK_PREFIX "%s}", who);
	give_query(client, &query, query.node != NULL ? NULL : &zk_listing_no_memory);
}

void
zk_queue_cancel(ZkClient *client)
{
	Query		none = {0};

	give_query(client, &none, NULL);
}
