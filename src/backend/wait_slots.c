/*-------------------------------------------------------------------------
 *
 * wait_slots.c
 *	  Who of this cluster waits for what, for all of it to see.
 *
 * If the library is in shared_preload_libraries there is a place in shared
 * memory for each backend, where it says what it waits for when it has to wait
 * for somebody else, and which ZooKeeper session is its own.
 *
 * V3. A place in shared memory is written when a call has to wait, when what it
 * knows changes, and when the wait ends, through PG_CATCH or an exit callback.
 * One LWLock is enough for that.  A backend that need not wait takes it once
 * for each ZooKeeper session.  After a crash shared memory is made anew.
 *
 * V4. Which backend is behind a contender is told by the ZooKeeper session: of
 * the contender by its ephemeralOwner, which the server says, of the backend by
 * itself.  What the contender's data say would be anybody's word, and would
 * have to name this cluster in a way that nobody else's does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "wait_slots.h"

#define TRANCHE_NAME	"zklock"

/* The place of one backend. */
typedef struct Place
{
	int			pid;			/* 0 if it has said nothing */
	int64		session;		/* its last ZooKeeper session with a contender */
	bool		waits;
	Wait		wait;			/* valid if so */
} Place;

typedef struct Places
{
	int			count;
	Place		items[FLEXIBLE_ARRAY_MEMBER];
} Places;

/* In shared memory; NULL if the library was not preloaded. */
static Places *places = NULL;
static LWLock *places_lock = NULL;

/* What this backend has in its place. */
static int64 shown_session = 0;
static bool shown_waiting = false;
static Wait shown;

static size_t
places_size(int count)
{
	return add_size(offsetof(Places, items), mul_size(count, sizeof(Place)));
}

/* Ask for shared memory, in the hook that is for that. */
void
zklock_waiting_request_shmem(void)
{
	RequestAddinShmemSpace(places_size(max_backends_to_be()));
	RequestNamedLWLockTranche(TRANCHE_NAME, 1);
}

/*
 * Find the places in shared memory, or make them; for the startup hook, which
 * holds AddinShmemInitLock.
 */
void
zklock_waiting_attach(void)
{
	size_t		size = places_size(MaxBackends);
	bool		found;

	places = ShmemInitStruct("zklock waits", size, &found);
	if (!found)
	{
		memset(places, 0, size);
		places->count = MaxBackends;
	}
	places_lock = &GetNamedLWLockTranche(TRANCHE_NAME)->lock;
}

/* How many places there are; 0 if the library was not preloaded. */
int
zklock_waiting_places(void)
{
	return places != NULL ? places->count : 0;
}

/*
 * Exit callback: leave the place empty for the next one.  What this process may
 * have held of the lock when it was interrupted was released when its
 * transaction was aborted, before.
 */
static void
leave_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	LWLockAcquire(places_lock, LW_EXCLUSIVE);
	memset(&places->items[MyProcNumber], 0, sizeof(Place));
	LWLockRelease(places_lock);
}

/* This backend's place, the lock taken. */
static Place *
enter_place(void)
{
	static bool callback_registered = false;
	Place	   *place = &places->items[MyProcNumber];

	if (!callback_registered)
	{
		on_shmem_exit(leave_at_exit, 0);
		callback_registered = true;
	}
	LWLockAcquire(places_lock, LW_EXCLUSIVE);
	place->pid = MyProcPid;
	return place;
}

/* This backend has contenders of that ZooKeeper session now. */
void
zklock_waiting_session(int64 session)
{
	if (places == NULL || session == shown_session)
		return;
	enter_place()->session = session;
	LWLockRelease(places_lock);
	shown_session = session;
}

/*
 * This backend waits for a lock, and knows that of it; since when is filled in
 * here.
 */
void
zklock_waiting_show(Wait *wait)
{
	Place	   *place;

	if (places == NULL)
		return;
	wait->role = GetSessionUserId();
	wait->since = shown_waiting ? shown.since : GetCurrentTimestamp();
	if (shown_waiting && memcmp(wait, &shown, sizeof(shown)) == 0)
		return;
	place = enter_place();
	place->waits = true;
	place->wait = *wait;
	LWLockRelease(places_lock);
	shown = *wait;
	shown_waiting = true;
}

/* This backend waits no more. */
void
zklock_waiting_end(void)
{
	if (!shown_waiting)
		return;
	shown_waiting = false;
	enter_place()->waits = false;
	LWLockRelease(places_lock);
}

/* Read a place: the process that waits there, and for what; 0 if none does. */
int
zklock_waiting_read(int index, Wait *wait)
{
	const Place *place = &places->items[index];
	int			pid = 0;

	LWLockAcquire(places_lock, LW_SHARED);
	if (place->waits)
	{
		pid = place->pid;
		*wait = place->wait;
	}
	LWLockRelease(places_lock);
	return pid;
}

/* The backend with that ZooKeeper session, or NULL.  Under the lock. */
static const Place *
find_session(int64 session)
{
	for (int i = 0; session != 0 && i < places->count; i++)
		if (places->items[i].pid != 0 && places->items[i].session == session)
			return &places->items[i];
	return NULL;
}

/* The backend with that pid, or NULL.  Under the lock. */
static const Place *
find_pid(int pid)
{
	for (int i = 0; pid != 0 && i < places->count; i++)
		if (places->items[i].pid == pid)
			return &places->items[i];
	return NULL;
}

/* Add a process to a list, unless it is in it.  Returns how many there are then. */
static int
add_pid(int *pids, int count, const Place *place)
{
	for (int i = 0; i < count; i++)
		if (pids[i] == place->pid)
			return count;
	pids[count] = place->pid;
	return count + 1;
}

/*
 * Which processes of this cluster does a process wait for?  Those behind the
 * contender that it watches and behind the one that holds the lock, as far as
 * it knows them; and of those that wait for the same lock themselves likewise.
 * Puts them into pids, which has room for as many as there are places, and
 * returns how many they are.
 */
int
zklock_waiting_blockers(int pid, int *pids)
{
	int			count = 0;
	const Place *waiter;
	const Place *first;

	LWLockAcquire(places_lock, LW_SHARED);
	first = waiter = find_pid(pid);
	for (int next = 0; waiter != NULL; next++)
	{
		if (waiter->waits && strcmp(waiter->wait.path, first->wait.path) == 0)
		{
			const Place *blocker = find_session(waiter->wait.blocker_session);
			const Place *holder = find_session(waiter->wait.holder_session);

			if (blocker != NULL && blocker != first)
				count = add_pid(pids, count, blocker);
			if (holder != NULL && holder != first)
				count = add_pid(pids, count, holder);
		}
		waiter = next < count ? find_pid(pids[next]) : NULL;
	}
	LWLockRelease(places_lock);
	return count;
}
