/*-------------------------------------------------------------------------
 *
 * mailbox.c
 *	  The mailbox between the backend thread and the client threads.
 *
 * Orders go in (orders.c), states come out, and nothing else: no function here
 * calls libzookeeper, waits, or takes a lock other than the mailbox's.  An
 * order lies in the slot of its contender, and the slot in a list, which
 * allocates nothing and cannot fail (D2).  The thread that enters the engine
 * next empties the list, and the client publishes states back.
 *
 * A slot is allocated by the backend and freed in the engine, when the
 * contender is abandoned and certain to be gone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "slot.h"

#define SLOT_OF(id)			((int) ((id) & 0xFFFF))
#define GENERATION_OF(id)	((uint32_t) ((id) >> 16))

/* The time at which the helper's timer rings at once (0 would stop it). */
#define RING				((ZkTime) 1)

/*
 * The answer where there is no memory for one, or for the query; constant, and
 * not freed.
 */
ZkQueueListing zk_listing_no_memory = {.error = ZK_ERR_NO_MEMORY};

/* Open what wakes threads.  Returns false, with the reason, if that fails. */
static bool
open_descriptors(Mailbox *mailbox, char *detail)
{
	mailbox->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (mailbox->event_fd < 0)
	{
		snprintf(detail, ZK_DETAIL_SIZE, "eventfd: %m.");
		return false;
	}
	mailbox->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
	if (mailbox->timer_fd < 0)
	{
		snprintf(detail, ZK_DETAIL_SIZE, "timerfd: %m.");
		close(mailbox->event_fd);
		return false;
	}
	return true;
}

/*
 * Make an empty mailbox in zeroed memory; engine_size is the number of bytes
 * that the engine keeps for each slot.  Returns false with an error, and the
 * reason in detail, if that fails.
 */
bool
zk_mailbox_init(Mailbox *mailbox, size_t engine_size, ZkError *error, char *detail)
{
	*error = ZK_ERR_NO_MEMORY;
	if (!zk_array_reserve(&mailbox->slot_array, sizeof(MailboxSlot),
						  ZK_MAX_CONTENDERS) ||
		!zk_array_reserve(&mailbox->engine_array, engine_size, ZK_MAX_CONTENDERS))
	{
		zk_array_free(&mailbox->slot_array);
		return false;
	}
	mailbox->slots = mailbox->slot_array.items;
	*error = ZK_ERR_NO_DESCRIPTOR;
	if (!open_descriptors(mailbox, detail))
	{
		zk_array_free(&mailbox->slot_array);
		zk_array_free(&mailbox->engine_array);
		return false;
	}
	pthread_mutex_init(&mailbox->lock, NULL);
	mailbox->first_order = mailbox->last_order = mailbox->first_free = ZK_NO_SLOT;
	return true;
}

/* Free what the mailbox owns, but not itself.  No other thread may be left. */
void
zk_mailbox_destroy(Mailbox *mailbox)
{
	for (int i = 0; i < mailbox->used; i++)
	{
		free(mailbox->slots[i].node);
		free(mailbox->slots[i].owner);
		free(mailbox->slots[i].record);
	}
	zk_query_clear(&mailbox->news.query);
	zk_wait_clear(&mailbox->news.wait);
	zk_queue_free(mailbox->listing);
	zk_array_free(&mailbox->slot_array);
	zk_array_free(&mailbox->engine_array);
	pthread_mutex_destroy(&mailbox->lock);
	close(mailbox->event_fd);
	close(mailbox->timer_fd);
}

/* The slot of an id, or NULL if the contender is no more.  mailbox.lock. */
MailboxSlot *
zk_mailbox_find(Mailbox *mailbox, ZkContenderId id)
{
	MailboxSlot *slot;

	if (id == 0 || SLOT_OF(id) >= mailbox->used)
		return NULL;
	slot = &mailbox->slots[SLOT_OF(id)];
	if (!slot->in_use || slot->dead || slot->generation != GENERATION_OF(id))
		return NULL;
	return slot;
}

int
zk_client_event_fd(const ZkClient *client)
{
	return client->mailbox.event_fd;
}

void
zk_client_clear_event(ZkClient *client)
{
	uint64_t	count;

	while (read(client->mailbox.event_fd, &count, sizeof(count)) < 0 &&
		   errno == EINTR)
		;
}

void
zk_client_status(ZkClient *client, ZkSessionStatus *status)
{
	Mailbox    *mailbox = &client->mailbox;

	mailbox_enter(mailbox);
	*status = mailbox->session;
	mailbox_leave(mailbox);
	if (atomic_load(&zk_poisoned))
	{
		status->state = ZK_SESSION_CLOSED;
		status->error = ZK_ERR_POISONED;
		status->definite = true;
	}
	else if (status->resolving && status->error == ZK_OK)
		snprintf(status->detail, sizeof(status->detail),
				 "The names in \"%.180s\" have not been resolved yet.",
				 client->servers);
	else if (status->state != ZK_SESSION_CONNECTED && status->error == ZK_OK)
		status->error = zk_log_last_error(status->detail);
}

bool
zk_client_log_line(ZkClient *client, char *line, size_t size,
				   bool *warning, int *repeats, int *dropped)
{
	(void) client;				/* the ring is the process's: see log.c */
	return zk_log_take(line, size, warning, repeats, dropped);
}

void
zk_contender_rely_on(ZkClient *client, ZkContenderId id)
{
	Mailbox    *mailbox = &client->mailbox;
	MailboxSlot *slot;
	bool		lost = false;

	mailbox_enter(mailbox);
	slot = zk_mailbox_find(mailbox, id);
	if (slot != NULL)
	{
		slot->relied_on = true;
		lost = zk_slot_count_loss(mailbox, slot);
	}
	mailbox_leave(mailbox);
	if (lost)
		zk_signal_loss();
}

bool
zk_client_lost_any(const ZkClient *client)
{
	return atomic_load(&client->mailbox.losses) > 0 || atomic_load(&zk_poisoned);
}

bool
zk_client_overtime(const ZkClient *client)
{
	return atomic_load(&client->mailbox.overtimes) > 0;
}

int
zk_client_revocations(const ZkClient *client)
{
	return atomic_load(&client->mailbox.revocations);
}

void
zk_contender_status(ZkClient *client, ZkContenderId id,
					ZkContenderStatus *status)
{
	Mailbox    *mailbox = &client->mailbox;
	MailboxSlot *slot;

	mailbox_enter(mailbox);
	slot = zk_mailbox_find(mailbox, id);
	if (slot != NULL)
	{
		*status = slot->status;
		status->lost_at = slot->lost_at;
	}
	else
		memset(status, 0, sizeof(*status));
	mailbox_leave(mailbox);

	if (!atomic_load(&zk_poisoned))
		return;
	if (status->state == ZK_HELD)
	{
		status->state = ZK_LOST;
		status->loss = ZK_LOST_POISONED;
	}
	else if (status->state != ZK_NONE && status->state != ZK_RESERVED &&
			 status->state != ZK_GONE && status->state != ZK_LOST)
	{
		status->state = ZK_FAILED;
		status->error = ZK_ERR_POISONED;
	}
}

bool
zk_contender_lease_runs(ZkClient *client, ZkContenderId id)
{
	Mailbox    *mailbox = &client->mailbox;
	MailboxSlot *slot;
	bool		runs;

	mailbox_enter(mailbox);
	slot = zk_mailbox_find(mailbox, id);
	runs = slot != NULL && slot->status.state == ZK_HELD &&
		zk_now() < slot->status.lease_end;
	mailbox_leave(mailbox);
	return runs && !atomic_load(&zk_poisoned);
}

/* Free what a query consists of, but not the number that it has. */
void
zk_query_clear(Query *query)
{
	free(query->node);
	free(query->name);
	free(query->note);
	query->node = query->name = query->note = NULL;
}

/* Free the strings of a wait, but not the number that it has. */
void
zk_wait_clear(WaitText *wait)
{
	free(wait->parent);
	free(wait->text);
	wait->parent = wait->text = NULL;
}

ZkQueueListing *
zk_queue_take(ZkClient *client)
{
	Mailbox    *mailbox = &client->mailbox;
	ZkQueueListing *listing;

	mailbox_enter(mailbox);
	listing = mailbox->listing;
	mailbox->listing = NULL;
	mailbox_leave(mailbox);
	return listing;
}

void
zk_queue_free(ZkQueueListing *listing)
{
	if (listing == NULL || listing == &zk_listing_no_memory)
		return;
	for (int i = 0; i < listing->count; i++)
	{
		free(listing->members[i].name);
		free(listing->members[i].data);
		free(listing->members[i].node);
	}
	free(listing->members);
	free(listing);
}

/*-------------------------------------------------------------------------
 * The other side: client threads.
 *-------------------------------------------------------------------------
 */

/* A state that the backend may read has changed.  Any thread, no lock. */
void
zk_mailbox_wake_backend(Mailbox *mailbox)
{
	uint64_t	one = 1;

	while (write(mailbox->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/*
 * Publishes a contender's state, wakes the backend if wanted.  Client threads.
 */
void
zk_mailbox_publish(Mailbox *mailbox, int index, const ZkContenderStatus *status,
				   bool wake)
{
	MailboxSlot *slot = &mailbox->slots[index];
	bool		lost;

	pthread_mutex_lock(&mailbox->lock);
	if (status->revoked && status->state == ZK_HELD && !slot->dead &&
		!(slot->status.revoked && slot->status.state == ZK_HELD))
		atomic_fetch_add(&mailbox->revocations, 1);
	slot->status = *status;
	slot->status.state = zk_slot_shown_state(slot, status->state);
	lost = zk_slot_count_loss(mailbox, slot);
	pthread_mutex_unlock(&mailbox->lock);
	if (wake)
		zk_mailbox_wake_backend(mailbox);
	if (lost)
		zk_signal_loss();
}

/*
 * A contender has been held for the maximum time: from now on the backend sees
 * it as lost, and why (a sentence).  Returns false while a commit is under
 * way, which may have seen it held: then the helper is woken when that is
 * over; or if the backend has released it, and what it leaves must be written.
 * Client threads.
 */
bool
zk_mailbox_end_hold(Mailbox *mailbox, int index, const char *why)
{
	MailboxSlot *slot = &mailbox->slots[index];
	bool		ended;

	pthread_mutex_lock(&mailbox->lock);
	ended = !mailbox->committing &&
		!(slot->ordered && slot->order == ZK_ORDER_RELEASE);
	if (mailbox->committing)
		mailbox->overdue = true;
	if (ended && slot->status.state == ZK_HELD)
	{
		slot->status.state = ZK_LOST;
		slot->status.loss = ZK_LOST_OVERTIME;
		snprintf(slot->status.detail, sizeof(slot->status.detail), "%s", why);
	}
	pthread_mutex_unlock(&mailbox->lock);
	return ended;
}

/* Publish the state of the session.  Wakes nobody.  Client threads. */
void
zk_mailbox_publish_session(Mailbox *mailbox, const ZkSessionStatus *session)
{
	pthread_mutex_lock(&mailbox->lock);
	mailbox->session = *session;
	pthread_mutex_unlock(&mailbox->lock);
}

/* Free a dead slot, whose contender is gone for certain.  Client threads. */
void
zk_mailbox_free_slot(Mailbox *mailbox, int index)
{
	pthread_mutex_lock(&mailbox->lock);
	zk_slot_free(mailbox, &mailbox->slots[index]);
	pthread_mutex_unlock(&mailbox->lock);
}

/*
 * Take a slot for the client's own use (a znode to be reaped), unknown to the
 * backend.  Returns -1 if there is no room.  Client threads.
 */
int
zk_mailbox_take_slot(Mailbox *mailbox, const char *node)
{
	MailboxSlot *slot;
	ZkError		error;
	int			index = -1;

	pthread_mutex_lock(&mailbox->lock);
	slot = zk_slot_allocate(mailbox, node, &error);
	if (slot != NULL)
	{
		slot->dead = true;
		index = (int) (slot - mailbox->slots);
	}
	pthread_mutex_unlock(&mailbox->lock);
	return index;
}

/*
 * Set the timer, by zk_now()'s clock, which goes on while the machine is
 * suspended.
 */
static void
set_timer(Mailbox *mailbox, ZkTime when)
{
	struct itimerspec spec = {
		.it_value = {.tv_sec = when / 1000000,.tv_nsec = when % 1000000 * 1000}
	};

	timerfd_settime(mailbox->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

/*
 * The helper is to wake at that time, if nothing else wakes it; this moves what
 * was said before, without waking it.  Client threads, or in the engine.
 */
void
zk_mailbox_set_timer(Mailbox *mailbox, ZkTime when)
{
	pthread_mutex_lock(&mailbox->lock);
	if (!mailbox->wake)
		set_timer(mailbox, when > RING ? when : RING);
	pthread_mutex_unlock(&mailbox->lock);
}

/*
 * Wait until the helper is woken, or its timer rings.  Does not wait if there
 * is something that no thread has taken yet: it may have been asked for while
 * the helper was in the engine.  May return for no reason.  Helper.
 */
void
zk_mailbox_wait(Mailbox *mailbox, HelperDuties *duties)
{
	uint64_t	count;
	bool		asleep;

	pthread_mutex_lock(&mailbox->lock);
	asleep = !mailbox->wake && !atomic_load(&mailbox->asked);
	mailbox->asleep = asleep;
	pthread_mutex_unlock(&mailbox->lock);
	while (asleep && read(mailbox->timer_fd, &count, sizeof(count)) < 0 &&
		   errno == EINTR)
		;
	pthread_mutex_lock(&mailbox->lock);
	mailbox->asleep = false;
	mailbox->wake = false;
	*duties = mailbox->duties;
	pthread_mutex_unlock(&mailbox->lock);
}

/*
 * Take what is asked for; orders follow (zk_mailbox_next_order()).  Whatever is
 * asked for from now on is for the next one to take.  Client threads, or in the
 * engine.
 */
void
zk_mailbox_take_news(Mailbox *mailbox, MailboxNews *news)
{
	pthread_mutex_lock(&mailbox->lock);
	atomic_store(&mailbox->asked, false);
	*news = mailbox->news;
	mailbox->news.renew = false;
	mailbox->news.query.node = mailbox->news.query.name = mailbox->news.query.note = NULL;
	mailbox->news.wait.parent = mailbox->news.wait.text = NULL;
	pthread_mutex_unlock(&mailbox->lock);
}

/*
 * Wake the helper: without the lock, or it would wake to wait for that.  (The
 * mailbox is not freed meanwhile: the backend does that, or the helper, when
 * neither the backend nor the library's threads can call this any more.)  Any
 * thread.
 */
void
zk_mailbox_wake_helper(Mailbox *mailbox)
{
	bool		asleep;

	pthread_mutex_lock(&mailbox->lock);
	asleep = mailbox->asleep && !mailbox->wake;
	mailbox->wake = true;
	pthread_mutex_unlock(&mailbox->lock);
	if (asleep)
		set_timer(mailbox, RING);
}

/*
 * Returns true if a contender has the end of a run to write before it is
 * deleted.  mailbox.lock.
 */
bool
zk_mailbox_has_run(const Mailbox *mailbox)
{
	for (int i = 0; i < mailbox->used; i++)
	{
		const RecordBuffer *record = mailbox->slots[i].record;

		if (mailbox->slots[i].in_use && record != NULL && record->noted &&
			record->note.run_count > 0)
			return true;
	}
	return false;
}

/*
 * Take the oldest order, with the owner's data; returns false if there is none.
 * engine_lock.
 */
bool
zk_mailbox_next_order(Mailbox *mailbox, MailboxOrder *order)
{
	bool		found;

	pthread_mutex_lock(&mailbox->lock);
	found = mailbox->first_order != ZK_NO_SLOT;
	if (found)
	{
		MailboxSlot *slot = &mailbox->slots[mailbox->first_order];

		order->slot = mailbox->first_order;
		order->order = slot->order;
		order->partner = slot->partner;
		order->next_member = slot->next_member;
		order->request = slot->request;
		order->node = slot->node;
		order->owner = slot->owner;
		order->owner_len = slot->owner_len;
		order->record = slot->record;
		order->status = slot->status;
		slot->owner = NULL;
		slot->ordered = false;
		mailbox->first_order = slot->next;
	}
	pthread_mutex_unlock(&mailbox->lock);
	return found;
}

/*
 * Hand a listing (NULL: there was no memory for one) to the backend, or free it
 * if that wants another one by now, or none.  Client threads.
 */
void
zk_mailbox_publish_listing(Mailbox *mailbox, uint32_t serial, ZkQueueListing *listing)
{
	ZkQueueListing *unwanted;

	if (listing == NULL)
		listing = &zk_listing_no_memory;
	unwanted = listing;

	pthread_mutex_lock(&mailbox->lock);
	if (mailbox->news.query.serial == serial)
	{
		unwanted = mailbox->listing;
		mailbox->listing = listing;
	}
	pthread_mutex_unlock(&mailbox->lock);
	zk_queue_free(unwanted);
	zk_mailbox_wake_backend(mailbox);
}
