/*-------------------------------------------------------------------------
 *
 * holder.c
 *	  Who holds a lock that is waited for.
 *
 * V5. A waiter watches its predecessor, so it knows that; who holds the lock it
 * knows from the list in which it found its place, and that grows old.  A watch
 * on the holder would wake all waiters with each release (Q4).  So after
 * deadlock_timeout, and only if log_lock_waits is on or there is shared memory
 * to show it in, the waiter reads the list and the data of the first contender,
 * never of all: 1,000 waiters read 1,000 lists and 1,000 data in all.  For
 * zk_lock_waits it does so anew each time the wait has become twice as long, so
 * that what is shown is never older than half of the wait.  A wait that is
 * shorter than deadlock_timeout, or whose predecessor is the holder, asks for
 * nothing.
 *
 * There is one query of the lock client at a time, so several locks of a call
 * are asked for one after the other.  Who looks for deadlocks waits for a turn
 * as well.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "zklock.h"
#include "holder.h"
#include "lock_table.h"
#include "session.h"
#include "zk_inspect.h"

/* How long an answer is waited for; the lock itself may be granted any time. */
#define ANSWER_TIMEOUT		ZK_MS(1000)

/* When to see whether another lock of the call has got its answer. */
#define TURN				ZK_MS(10)

/* For whom the head of a queue is being read; NULL if none is. */
static Holder *asking = NULL;

/* Is it somebody else's turn? */
static bool lent = false;

/*
 * Take over what the state of a waiting contender says.  What was read of the
 * queue stays, as long as the wait is for the same contender.
 */
void
zklock_holder_refresh(Holder *holder, const ZkContenderStatus *status)
{
	bool		same = strcmp(holder->blocker, status->blocker) == 0;

	if (same && holder->ask_at != 0)
		return;
	if (!same)
	{
		zklock_holder_forget(holder);
		memset(holder, 0, sizeof(*holder));
		strlcpy(holder->blocker, status->blocker, sizeof(holder->blocker));
		holder->seen_at = GetCurrentTimestamp();
	}
	strlcpy(holder->name, status->holder, sizeof(holder->name));
	holder->position = status->position;
	holder->ahead = status->ahead;
	if (strcmp(holder->name, holder->blocker) == 0)
	{
		holder->session = status->blocker_session;
		strlcpy(holder->owner, status->blocker_owner, sizeof(holder->owner));
	}
}

/*
 * Which place in the queue is that, and how many must go first?  Of a
 * semaphore's holders it is enough if one does.
 */
static void
find_place(Holder *holder, const ZkQueueListing *listing, const Lock *lock,
		   const ZkContenderStatus *status)
{
	const ZkQueueMember *self = NULL;
	int			ahead = 0;

	for (int i = 0; i < listing->count && self == NULL; i++)
		if (strcmp(listing->members[i].name, status->name) == 0)
			self = &listing->members[i];
	if (self == NULL)
		return;
	for (const ZkQueueMember *other = listing->members; other < self; other++)
		if (!other->own &&
			(self->mode != ZK_SHARED || other->mode != ZK_SHARED))
			ahead++;
	if (lock->permits > 0)
		ahead -= lock->permits - 1;
	holder->position = (int) (self - listing->members) + 1;
	holder->ahead = Max(ahead, 0);
}

/* Take over what was read of the queue, if anything was. */
static void
take_head(Holder *holder, const ZkQueueListing *listing, const Lock *lock,
		  const ZkContenderStatus *status)
{
	find_place(holder, listing, lock, status);
	holder->seen_at = GetCurrentTimestamp();
	for (int i = 0; i < listing->count; i++)
	{
		const ZkQueueMember *first = &listing->members[i];
		int			length = Min(first->data_len,
								 (int) sizeof(holder->owner) - 1);

		/* gone before it could be read */
		if (zk_member_gone(first))
			continue;
		strlcpy(holder->name, first->name, sizeof(holder->name));
		holder->session = first->session_id;
		if (length > 0)
			memcpy(holder->owner, first->data, length);
		holder->owner[length] = '\0';
		break;
	}
}

/*
 * Take the answer, if there is one by now or will be none.  False if it is to
 * be waited for.
 */
static bool
take_answer(Holder *holder, const Lock *lock,
			const ZkContenderStatus *status, ZkTime now)
{
	ZkQueueListing *listing = zk_queue_take(zklock_client);

	if (listing == NULL && now < holder->ask_at)
		return false;
	zklock_holder_forget(holder);
	if (listing != NULL)
		take_head(holder, listing, lock, status);
	zk_queue_free(listing);
	return true;
}

/*
 * A wait for a lock, which goes on since then, has become a long one: find out
 * who holds it, unless that is known.  Returns false if there is no answer yet.
 * *next is moved up to when to come back at the latest.  Throws nothing.
 */
bool
zklock_holder_learn(Holder *holder, const Lock *lock,
					const ZkContenderStatus *status, ZkTime since, ZkTime *next)
{
	ZkTime		now = zk_now();
	bool		known = holder->ask_at != 0;

	/* its end will not go unnoticed */
	if (strcmp(holder->name, holder->blocker) == 0)
		return true;
	if (asking == holder)
	{
		known = take_answer(holder, lock, status, now);
		if (known)
			holder->ask_at = now + (now - since);
	}
	else if (asking != NULL || (lent && now >= holder->ask_at))
	{
		*next = Min(*next, Max(holder->ask_at, now + TURN));
		return known;
	}
	else if (now >= holder->ask_at)
	{
		zk_head_request(zklock_client, lock->node);
		holder->ask_at = now + ANSWER_TIMEOUT;
		asking = holder;
	}
	*next = Min(*next, holder->ask_at);
	return known;
}

/*
 * Whoever asks does not wait for the answer any more; NULL for whoever it is.
 * To be called before the Holder is gone.
 */
void
zklock_holder_forget(const Holder *holder)
{
	if (asking == NULL || (holder != NULL && asking != holder))
		return;
	zk_queue_cancel(zklock_client);
	asking = NULL;
}

/*
 * May somebody else have a query of the lock client run?  If so it is his turn
 * until zklock_holder_resume().
 */
bool
zklock_holder_pause(void)
{
	lent = asking == NULL;
	return lent;
}

/* That one is over, or dropped. */
void
zklock_holder_resume(void)
{
	lent = false;
}
