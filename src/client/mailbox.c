/*-------------------------------------------------------------------------
 *
 * mailbox.c
 *	  The mailbox between the backend thread and the client threads.
 *
 * Orders go in, states come out, and nothing else: no function here calls
 * libzookeeper, waits, or takes a lock other than the door's.  The backend
 * gives an order by writing it into the slot of the contender and putting the
 * slot into a list, so giving one allocates nothing and cannot fail; that is
 * what lets a lock be released after commit.  The helper empties the list, the
 * client publishes states back.
 *
 * A slot is allocated by the backend and freed by the helper, when the
 * contender is abandoned and certain to be gone.
 *
 * IDENTIFICATION
 *	  src/client/mailbox.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define SLOT_OF(id)			((int) ((id) & 0xFFFF))
#define GENERATION_OF(id)	((uint32_t) ((id) >> 16))
#define MAKE_ID(slot, generation) \
	(((ZkContenderId) (generation) << 16) | (ZkContenderId) (slot))

/*
 * Make an empty mailbox in zeroed memory; engine_size is the number of bytes that
 * the engine keeps for each slot.  False with an error, and the reason in detail.
 */
bool
zk_door_init(Door *door, size_t engine_size, ZkError *error, char *detail)
{
	pthread_condattr_t attr;

	*error = ZK_ERR_NO_MEMORY;
	if (!zk_array_reserve(&door->slot_array, sizeof(DoorSlot),
						  ZK_MAX_CONTENDERS) ||
		!zk_array_reserve(&door->engine_array, engine_size, ZK_MAX_CONTENDERS))
	{
		zk_array_free(&door->slot_array);
		return false;
	}
	door->slots = door->slot_array.items;
	*error = ZK_ERR_NO_DESCRIPTOR;
	door->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (door->event_fd < 0)
	{
		snprintf(detail, ZK_DETAIL_SIZE, "eventfd: %m.");
		zk_array_free(&door->slot_array);
		zk_array_free(&door->engine_array);
		return false;
	}
	pthread_mutex_init(&door->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&door->wake_helper, &attr);
	pthread_condattr_destroy(&attr);
	door->first_order = door->last_order = door->first_free = ZK_NO_SLOT;
	return true;
}

/*
 * Free what the mailbox owns, but not itself.  No other thread may be left.
 */
void
zk_door_destroy(Door *door)
{
	for (int i = 0; i < door->used; i++)
	{
		free(door->slots[i].node);
		free(door->slots[i].owner);
		free(door->slots[i].room);
	}
	zk_errand_clear(&door->errand);
	zk_wait_clear(&door->wait);
	zk_queue_free(door->listing);
	zk_array_free(&door->slot_array);
	zk_array_free(&door->engine_array);
	pthread_cond_destroy(&door->wake_helper);
	pthread_mutex_destroy(&door->lock);
	close(door->event_fd);
}

/*
 * The slot of an id, or NULL if the contender is no more.  The lock is held.
 */
DoorSlot *
zk_door_find(Door *door, ZkContenderId id)
{
	DoorSlot   *slot;

	if (id == 0 || SLOT_OF(id) >= door->used)
		return NULL;
	slot = &door->slots[SLOT_OF(id)];
	if (!slot->in_use || slot->dead || slot->generation != GENERATION_OF(id))
		return NULL;
	return slot;
}

/*
 * The state to show of a slot whose contender is in that state: once it is to
 * be released, nothing but how it ends.  The lock is held.
 */
static ZkContenderState
shown_state(const DoorSlot *slot, ZkContenderState state)
{
	if (slot->order != ZK_ORDER_RELEASE || state == ZK_FAILED ||
		state == ZK_LOST || state == ZK_GONE)
		return state;
	return ZK_RELEASING;
}

/*
 * The slot has changed: count it among the losses if it is one.  Returns
 * whether it was none before.  The lock is held.
 */
static bool
count_loss(Door *door, DoorSlot *slot)
{
	bool		before = slot->counted;
	bool		overtime = slot->overtime;

	slot->counted = slot->relied_on && !slot->dead &&
		slot->order != ZK_ORDER_RELEASE && slot->status.state == ZK_LOST;
	slot->overtime = slot->counted && slot->status.loss == ZK_LOST_OVERTIME;
	atomic_fetch_add(&door->losses, slot->counted - before);
	atomic_fetch_add(&door->overtimes, slot->overtime - overtime);
	return slot->counted && !before;
}

static ZkContenderId
slot_id(Door *door, DoorSlot *slot)
{
	return MAKE_ID(slot - door->slots, slot->generation);
}

/*
 * Give an order that can wait until there is another one, or the helper wakes by
 * itself: the latest one counts.  The lock is held.
 */
static void
leave_order(Door *door, DoorSlot *slot, ZkOrder order)
{
	uint16_t	index = (uint16_t) (slot - door->slots);

	slot->order = order;
	if (!slot->ordered)
	{
		slot->ordered = true;
		slot->next = ZK_NO_SLOT;
		if (door->first_order == ZK_NO_SLOT)
			door->first_order = index;
		else
			door->slots[door->last_order].next = index;
		door->last_order = index;
	}
}

/* Give an order, likewise, to be carried out at once. */
static void
give_order(Door *door, DoorSlot *slot, ZkOrder order)
{
	leave_order(door, slot, order);
	wake_helper(door);
}

/*
 * Does it do no harm if a slot stays in use for some more time?  Its contender is gone
 * for certain, and there is room for as many others.
 */
static bool
can_wait(const Door *door, const DoorSlot *slot)
{
	return slot->status.state == ZK_GONE &&
		door->contenders <= ZK_MAX_CONTENDERS / 2 &&
		door->path_bytes <= ZK_MAX_PATH_BYTES / 2;
}

/*
 * Somebody asks anew: what an earlier attempt to connect came to is no answer
 * to that.  The lock is held.
 */
static void
forget_error(Door *door)
{
	door->session.error = ZK_OK;
	door->session.definite = false;
	door->session.detail[0] = '\0';
}

int
zk_client_event_fd(const ZkClient *client)
{
	return client->door.event_fd;
}

void
zk_client_clear_event(ZkClient *client)
{
	uint64_t	count;

	while (read(client->door.event_fd, &count, sizeof(count)) < 0 &&
		   errno == EINTR)
		;
}

void
zk_client_status(ZkClient *client, ZkSessionStatus *status)
{
	Door	   *door = &client->door;

	door_enter(door);
	*status = door->session;
	door_leave(door);
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

void
zk_client_renew(ZkClient *client)
{
	Door	   *door = &client->door;

	door_enter(door);
	door->renew = true;
	wake_helper(door);
	door_leave(door);
}

void
zk_client_connect(ZkClient *client, int timeout_ms)
{
	Door	   *door = &client->door;

	door_enter(door);
	door->connect_by = zk_now() + ZK_MS(timeout_ms);
	forget_error(door);
	wake_helper(door);
	door_leave(door);
}

bool
zk_client_log_line(ZkClient *client, char *line, size_t size,
				   bool *warning, int *repeats, int *dropped)
{
	(void) client;				/* the ring is the process's: see guards.c */
	return zk_log_take(line, size, warning, repeats, dropped);
}

bool
zk_contenders_request(ZkClient *client, const ZkContenderWish *wish, int count,
					  const char *const *nodes, ZkContenderId *ids,
					  ZkError *error)
{
	Door	   *door = &client->door;
	uint16_t	slots[ZK_MAX_GROUP];
	bool		asked;

	*error = ZK_ERR_POISONED;
	if (atomic_load(&zk_poisoned))
		return false;
	*error = ZK_ERR_LIMIT;
	if (count > ZK_MAX_GROUP)
		return false;
	door_enter(door);
	asked = zk_slots_allocate(door, wish, count, nodes, slots, error);
	for (int i = 0; asked && i < count; i++)
	{
		DoorSlot   *slot = &door->slots[slots[i]];

		if (count > 1)
			slot->next_member = slots[(i + 1) % count];
		slot->status.state = ZK_WANTED;
		give_order(door, slot, ZK_ORDER_REQUEST);
		ids[i] = slot_id(door, slot);
	}
	if (asked)
		forget_error(door);
	door_leave(door);
	return asked;
}

ZkContenderId
zk_contender_reserve(ZkClient *client, ZkContenderId exclusive, ZkError *error)
{
	Door	   *door = &client->door;
	ZkContenderId id = 0;
	DoorSlot   *held;
	DoorSlot   *slot = NULL;

	door_enter(door);
	held = zk_door_find(door, exclusive);
	*error = ZK_ERR_OTHER;
	if (held != NULL)
		slot = zk_slot_allocate(door, held->node, error);
	if (slot != NULL)
	{
		slot->mode = ZK_SHARED;
		slot->status.state = ZK_RESERVED;
		id = slot_id(door, slot);
	}
	door_leave(door);
	return id;
}

void
zk_contender_downgrade(ZkClient *client, ZkContenderId exclusive,
					   ZkContenderId shared)
{
	Door	   *door = &client->door;
	DoorSlot   *from;
	DoorSlot   *to;

	door_enter(door);
	from = zk_door_find(door, exclusive);
	to = zk_door_find(door, shared);
	if (from != NULL && to != NULL)
	{
		to->status = from->status;
		to->partner = (uint16_t) SLOT_OF(exclusive);
		to->relied_on = from->relied_on;
		to->room = from->room;	/* which is not freed before from is gone */
		from->room = NULL;
		from->dead = true;
		count_loss(door, from);
		count_loss(door, to);
		give_order(door, to, ZK_ORDER_DOWNGRADE);
	}
	door_leave(door);
}

void
zk_contender_release(ZkClient *client, ZkContenderId id)
{
	Door	   *door = &client->door;
	DoorSlot   *slot;

	door_enter(door);
	slot = zk_door_find(door, id);
	if (slot != NULL)
	{
		give_order(door, slot, ZK_ORDER_RELEASE);
		slot->status.state = shown_state(slot, slot->status.state);
		count_loss(door, slot);
	}
	door_leave(door);
}

void
zk_contender_abandon(ZkClient *client, ZkContenderId id)
{
	Door	   *door = &client->door;
	DoorSlot   *slot;

	door_enter(door);
	slot = zk_door_find(door, id);
	if (slot != NULL)
	{
		slot->dead = true;
		count_loss(door, slot);
		if (slot->status.state == ZK_RESERVED)
			zk_slot_free(door, slot);	/* the helper has never seen it */
		else if (can_wait(door, slot))
			leave_order(door, slot, ZK_ORDER_ABANDON);
		else
			give_order(door, slot, ZK_ORDER_ABANDON);
	}
	door_leave(door);
}

void
zk_contender_rely_on(ZkClient *client, ZkContenderId id)
{
	Door	   *door = &client->door;
	DoorSlot   *slot;
	bool		lost = false;

	door_enter(door);
	slot = zk_door_find(door, id);
	if (slot != NULL)
	{
		slot->relied_on = true;
		lost = count_loss(door, slot);
	}
	door_leave(door);
	if (lost)
		zk_signal_loss();
}

bool
zk_client_lost_any(const ZkClient *client)
{
	return atomic_load(&client->door.losses) > 0 || atomic_load(&zk_poisoned);
}

bool
zk_client_overtime(const ZkClient *client)
{
	return atomic_load(&client->door.overtimes) > 0;
}

void
zk_client_commit(ZkClient *client, bool under_way)
{
	Door	   *door = &client->door;

	door_enter(door);
	door->committing = under_way;
	if (!under_way && door->overdue)
	{
		door->overdue = false;
		wake_helper(door);
	}
	door_leave(door);
}

int
zk_client_revocations(const ZkClient *client)
{
	return atomic_load(&client->door.revocations);
}

void
zk_contender_status(ZkClient *client, ZkContenderId id,
					ZkContenderStatus *status)
{
	Door	   *door = &client->door;
	DoorSlot   *slot;

	door_enter(door);
	slot = zk_door_find(door, id);
	if (slot != NULL)
		*status = slot->status;
	else
		memset(status, 0, sizeof(*status));
	door_leave(door);

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
	Door	   *door = &client->door;
	DoorSlot   *slot;
	bool		runs;

	door_enter(door);
	slot = zk_door_find(door, id);
	runs = slot != NULL && slot->status.state == ZK_HELD &&
		zk_now() < slot->status.lease_end;
	door_leave(door);
	return runs && !atomic_load(&zk_poisoned);
}

/* Free what an errand consists of, but not the number that it has. */
void
zk_errand_clear(Errand *errand)
{
	free(errand->node);
	free(errand->name);
	free(errand->note);
	errand->node = errand->name = errand->note = NULL;
}

/* Free the strings of a wait, but not the number that it has. */
void
zk_wait_clear(WaitText *wait)
{
	free(wait->parent);
	free(wait->text);
	wait->parent = wait->text = NULL;
}

/*
 * Give an errand, which is taken over, in place of the last one; an empty one
 * just ends that.
 */
void
zk_door_give_errand(Door *door, const Errand *errand)
{
	Errand		old;
	ZkQueueListing *old_listing;

	door_enter(door);
	old = door->errand;
	old_listing = door->listing;
	door->errand = *errand;
	door->errand.serial = old.serial + 1;
	if (door->errand.serial == 0)
		door->errand.serial = 1;
	door->listing = NULL;
	if (errand->node != NULL)
		forget_error(door);
	wake_helper(door);
	door_leave(door);
	zk_errand_clear(&old);
	zk_queue_free(old_listing);
}

void
zk_queue_request(ZkClient *client, const char *node)
{
	Errand		errand = {.kind = ERRAND_READ,.node = strdup(node)};

	zk_door_give_errand(&client->door, &errand);
}

void
zk_head_request(ZkClient *client, const char *node)
{
	Errand		errand = {.kind = ERRAND_HEAD,.node = strdup(node)};

	zk_door_give_errand(&client->door, &errand);
}

void
zk_tree_request(ZkClient *client, const char *node, const char *except)
{
	Errand		errand = {.kind = ERRAND_TREE,.node = strdup(node)};

	if (except != NULL && errand.node != NULL)
	{
		errand.name = strdup(except);
		if (errand.name == NULL)
			zk_errand_clear(&errand);
	}
	zk_door_give_errand(&client->door, &errand);
}

void
zk_waits_request(ZkClient *client, const char *parent)
{
	Errand		errand = {.kind = ERRAND_WAITS,.node = strdup(parent)};

	zk_door_give_errand(&client->door, &errand);
}

void
zk_queue_break(ZkClient *client, const char *node, const char *name,
			   const char *who, bool only_revoke)
{
	Errand		errand = {.kind = only_revoke ? ERRAND_REVOKE : ERRAND_BREAK};
	size_t		size = sizeof(ZK_BREAK_PREFIX) + strlen(who) + 1;

	errand.node = strdup(node);
	errand.name = strdup(name);
	errand.note = malloc(size);
	if (errand.node == NULL || errand.name == NULL || errand.note == NULL)
		zk_errand_clear(&errand);
	else
		snprintf(errand.note, size, ZK_BREAK_PREFIX "%s}", who);
	zk_door_give_errand(&client->door, &errand);
}

ZkQueueListing *
zk_queue_take(ZkClient *client)
{
	Door	   *door = &client->door;
	ZkQueueListing *listing;

	door_enter(door);
	listing = door->listing;
	door->listing = NULL;
	door_leave(door);
	return listing;
}

void
zk_queue_cancel(ZkClient *client)
{
	Errand		none = {0};

	zk_door_give_errand(&client->door, &none);
}

void
zk_queue_free(ZkQueueListing *listing)
{
	if (listing == NULL)
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

/*
 * Wake the backend: something it may read has changed.  Any thread; needs no
 * lock.
 */
void
zk_door_wake_backend(Door *door)
{
	uint64_t	one = 1;

	while (write(door->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/*
 * Publish the state of a contender.  Client threads.
 */
void
zk_door_publish(Door *door, int index, const ZkContenderStatus *status,
				bool wake)
{
	DoorSlot   *slot = &door->slots[index];
	bool		lost;

	pthread_mutex_lock(&door->lock);
	if (status->revoked && status->state == ZK_HELD && !slot->dead &&
		!(slot->status.revoked && slot->status.state == ZK_HELD))
		atomic_fetch_add(&door->revocations, 1);
	slot->status = *status;
	slot->status.state = shown_state(slot, status->state);
	lost = count_loss(door, slot);
	pthread_mutex_unlock(&door->lock);
	if (wake)
		zk_door_wake_backend(door);
	if (lost)
		zk_signal_loss();
}

/*
 * A contender has been held for long enough: the backend does not see it as held from
 * now on, and why (a sentence) it was lost.  Returns false while a commit is under
 * way, which may have seen it held: then the helper is woken when that is over.  So it
 * does if the backend has released the contender, and what it leaves is to be written.
 * Client threads.
 */
bool
zk_door_end_hold(Door *door, int index, const char *why)
{
	DoorSlot   *slot = &door->slots[index];
	bool		ended;

	pthread_mutex_lock(&door->lock);
	ended = !door->committing &&
		!(slot->ordered && slot->order == ZK_ORDER_RELEASE);
	if (door->committing)
		door->overdue = true;
	if (ended && slot->status.state == ZK_HELD)
	{
		slot->status.state = ZK_LOST;
		slot->status.loss = ZK_LOST_OVERTIME;
		snprintf(slot->status.detail, sizeof(slot->status.detail), "%s", why);
	}
	pthread_mutex_unlock(&door->lock);
	return ended;
}

/*
 * Publish the state of the session and wake the backend.  Client threads.
 */
void
zk_door_publish_session(Door *door, const ZkSessionStatus *session)
{
	pthread_mutex_lock(&door->lock);
	door->session = *session;
	pthread_mutex_unlock(&door->lock);
	zk_door_wake_backend(door);
}

/*
 * The contender of a dead slot is gone for certain: free the slot.  Client
 * threads.
 */
void
zk_door_free_slot(Door *door, int index)
{
	pthread_mutex_lock(&door->lock);
	zk_slot_free(door, &door->slots[index]);
	pthread_mutex_unlock(&door->lock);
}

/*
 * Take a slot for the client's own use (a znode to be reaped); the backend
 * knows nothing of it.  Returns -1 if there is no room.  Client threads.
 */
int
zk_door_take_slot(Door *door, const char *node)
{
	DoorSlot   *slot;
	ZkError		error;
	int			index = -1;

	pthread_mutex_lock(&door->lock);
	slot = zk_slot_allocate(door, node, &error);
	if (slot != NULL)
	{
		slot->dead = true;
		index = (int) (slot - door->slots);
	}
	pthread_mutex_unlock(&door->lock);
	return index;
}

/*
 * Wait until there is something new for the helper, or until a point in time.
 * Then take what concerns no single contender.  Helper thread.
 */
void
zk_door_wait(Door *door, ZkTime until, DoorNews *news)
{
	struct timespec deadline;
	ZkTime		span = until - zk_now();

	/* conditions cannot wait on CLOCK_BOOTTIME: see that we wake no later */
	clock_gettime(CLOCK_MONOTONIC, &deadline);
	if (span < 0)
		span = 0;
	deadline.tv_sec += span / 1000000;
	deadline.tv_nsec += (span % 1000000) * 1000;
	if (deadline.tv_nsec >= 1000000000)
	{
		deadline.tv_nsec -= 1000000000;
		deadline.tv_sec++;
	}

	pthread_mutex_lock(&door->lock);
	while (!door->wake)
		if (pthread_cond_timedwait(&door->wake_helper, &door->lock,
								   &deadline) == ETIMEDOUT)
			break;
	door->wake = false;
	news->stop = door->stop;
	news->stop_by = door->stop_by;
	news->runs_by = door->runs_by;
	news->connect_by = door->connect_by;
	news->renew = door->renew;
	news->errand = door->errand;
	news->wait = door->wait;
	door->renew = false;
	door->errand.node = door->errand.name = door->errand.note = NULL;
	door->wait.parent = door->wait.text = NULL;
	pthread_mutex_unlock(&door->lock);
}

/*
 * Wake the helper from another client thread.
 */
void
zk_door_wake_helper(Door *door)
{
	bool		awake;

	pthread_mutex_lock(&door->lock);
	awake = door->wake;
	door->wake = true;
	pthread_mutex_unlock(&door->lock);
	if (!awake)
		pthread_cond_signal(&door->wake_helper);
}

/*
 * Is there a contender that has the end of a run to write before it goes?  door.lock.
 */
bool
zk_door_has_run(const Door *door)
{
	for (int i = 0; i < door->used; i++)
	{
		const RecordRoom *room = door->slots[i].room;

		if (door->slots[i].in_use && room != NULL && room->noted &&
			room->note.run_count > 0)
			return true;
	}
	return false;
}

/*
 * Take the oldest order; false if there is none.  The owner's data passes to
 * the caller.  Helper thread.
 */
bool
zk_door_next_order(Door *door, DoorOrder *order)
{
	bool		found;

	pthread_mutex_lock(&door->lock);
	found = door->first_order != ZK_NO_SLOT;
	if (found)
	{
		DoorSlot   *slot = &door->slots[door->first_order];

		order->slot = door->first_order;
		order->order = slot->order;
		order->partner = slot->partner;
		order->next_member = slot->next_member;
		order->mode = slot->mode;
		order->permits = slot->permits;
		order->node = slot->node;
		order->owner = slot->owner;
		order->owner_len = slot->owner_len;
		order->room = slot->room;
		order->lock_delay = slot->lock_delay;
		order->max_hold = slot->max_hold;
		order->no_wait = slot->no_wait;
		order->root_len = slot->root_len;
		order->status = slot->status;
		slot->owner = NULL;
		slot->ordered = false;
		door->first_order = slot->next;
	}
	pthread_mutex_unlock(&door->lock);
	return found;
}

/*
 * Hand a listing to the backend, unless it wants another one by now or none:
 * then free it.  Client threads.
 */
void
zk_door_publish_listing(Door *door, uint32_t serial, ZkQueueListing *listing)
{
	ZkQueueListing *unwanted = listing;

	pthread_mutex_lock(&door->lock);
	if (door->errand.serial == serial)
	{
		unwanted = door->listing;
		door->listing = listing;
	}
	pthread_mutex_unlock(&door->lock);
	zk_queue_free(unwanted);
	zk_door_wake_backend(door);
}
