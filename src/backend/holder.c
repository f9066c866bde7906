/*-------------------------------------------------------------------------
 *
 * holder.c
 *	  Find the holder of a lock that is waited for.
 *
 * V5. A waiter watches its predecessor, so it knows that one; it knows the
 * holder from the list in which it found its place, and that gets old.  A
 * watch on the holder would wake all waiters with each release (Q4).  So after
 * deadlock_timeout, and only if log_lock_waits is on or there is shared memory
 * to show it in, the waiter reads the list and the data of the first contender
 * only.  For zk_lock_waits it does so again whenever the wait has doubled, so
 * that what is shown is never older than half of the wait.  A wait shorter than
 * deadlock_timeout, or behind the holder itself, reads nothing; and for
 * zk_lock_waits alone none that is shorter than 10 ms for each contender ahead.
 * So the lists that a long queue reads do not grow with the square of its
 * length, and one that is served quickly reads none.
 *
 * The lock client has one query at a time, so several locks of a call are read
 * one after the other.  The deadlock check waits for its turn as well.
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

/* How long to wait for an answer; the lock may be granted before. */
#define ANSWER_TIMEOUT		ZK_MS(1000)

/* How long to wait for each contender ahead before the queue is read (V5). */
#define PATIENCE		ZK_MS(10)

/* When to check whether another lock of the call has got its answer. */
#define TURN				ZK_MS(10)

/* Whose queue's head is being read; NULL for none. */
static Holder *asking = NULL;

/* The deadlock check has the query. */
static bool lent = false;

/* Takes over the state of a waiting contender; forgets another blocker's. */
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

/* Works out the position, and how many must go first (one for a permit). */
static void
find_position(Holder *holder, const ZkQueueListing *listing, const Lock *lock,
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

/* Takes over what was read of the queue. */
static void
take_head(Holder *holder, const ZkQueueListing *listing, const Lock *lock,
		  const ZkContenderStatus *status)
{
	find_position(holder, listing, lock, status);
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

/* Takes the answer.  Returns false if it is yet to come. */
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
 * Finds the holder of a lock, for a long wait that began at since; not yet if
 * it is not needed now, but only shown, and many are ahead.  Returns false if
 * there is no answer yet.  Moves *next up to when to call again.  Throws
 * nothing.
 */
bool
zklock_holder_learn(Holder *holder, const Lock *lock,
					const ZkContenderStatus *status, ZkTime since, bool needed,
					ZkTime *next)
{
	ZkTime		now = zk_now();
	ZkTime		patient_until = since + holder->ahead * PATIENCE;
	bool		known = holder->ask_at != 0;

	/* who that is comes with the watch; its end will not go unnoticed */
	if (strcmp(holder->name, holder->blocker) == 0)
	{
		known = holder->session != 0 || now >= since + ANSWER_TIMEOUT;
		if (!known)
			*next = Min(*next, now + TURN);
		return known;
	}
	if (!needed && asking != holder && now < patient_until)
	{
		*next = Min(*next, patient_until);
		return true;
	}
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
		zk_query_request(zklock_client, ZK_QUERY_HEAD, lock->node, NULL);
		holder->ask_at = now + ANSWER_TIMEOUT;
		asking = holder;
	}
	*next = Min(*next, holder->ask_at);
	return known;
}

/* Drops the query for this holder (NULL: for any), before that is gone. */
void
zklock_holder_forget(const Holder *holder)
{
	if (asking == NULL || (holder != NULL && asking != holder))
		return;
	zk_queue_cancel(zklock_client);
	asking = NULL;
}

/* Gives the client's query to the deadlock check, if it is free. */
bool
zklock_holder_pause(void)
{
	lent = asking == NULL;
	return lent;
}

/* The deadlock check has finished or dropped its query. */
void
zklock_holder_resume(void)
{
	lent = false;
}
