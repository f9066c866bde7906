/*-------------------------------------------------------------------------
 *
 * wait_slots.c
 *	  The waits of this cluster, in shared memory.
 *
 * If the library is in shared_preload_libraries, each backend has a slot in
 * shared memory, with its ZooKeeper session, and what it waits for if it waits
 * for another client.
 *
 * V3. A slot is written when a call has to wait, when what it knows changes, and
 * when the wait ends, through PG_CATCH or an exit callback.  One LWLock is enough
 * for that: a backend that need not wait takes it once for each ZooKeeper
 * session.  After a crash shared memory is initialized again.
 *
 * V4. The ZooKeeper session connects a contender with a backend: the server says
 * the contender's ephemeralOwner, the backend its own session.  The contender's
 * data could have been written by anyone, and would have to identify this
 * cluster.
 *
 * IDENTIFICATION
 *	  src/backend/wait_slots.c
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

/* The slot of one backend. */
typedef struct Place
{
	int			pid;			/* 0 for an unused slot */
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

/* What this backend has in its slot. */
static int64 shown_session = 0;
static bool shown_waiting = false;
static Wait shown;

static size_t
places_size(int count)
{
	return add_size(offsetof(Places, items), mul_size(count, sizeof(Place)));
}

/* Asks for shared memory, in the hook for that. */
void
zklock_waiting_request_shmem(void)
{
	RequestAddinShmemSpace(places_size(max_backends_to_be()));
	RequestNamedLWLockTranche(TRANCHE_NAME, 1);
}

/* Finds or creates the slots in shared memory, in the startup hook. */
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

/* Returns the number of slots; 0 if the library was not preloaded. */
int
zklock_waiting_places(void)
{
	return places != NULL ? places->count : 0;
}

/* Exit callback: clears the slot. The abort has released the lock. */
static void
leave_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	LWLockAcquire(places_lock, LW_EXCLUSIVE);
	memset(&places->items[MyProcNumber], 0, sizeof(Place));
	LWLockRelease(places_lock);
}

/* Returns this backend's slot, with the lock taken. */
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

/* Shows the ZooKeeper session of this backend's contenders. */
void
zklock_waiting_session(int64 session)
{
	if (places == NULL || session == shown_session)
		return;
	enter_place()->session = session;
	LWLockRelease(places_lock);
	shown_session = session;
}

/* Shows what this backend waits for; role and since are filled in here. */
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

/* Shows that this backend waits no more. */
void
zklock_waiting_end(void)
{
	if (!shown_waiting)
		return;
	shown_waiting = false;
	enter_place()->waits = false;
	LWLockRelease(places_lock);
}

/* Reads a slot: returns the process that waits there, or 0. */
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

/* Returns the backend with that ZooKeeper session, or NULL. Under the lock. */
static const Place *
find_session(int64 session)
{
	for (int i = 0; session != 0 && i < places->count; i++)
		if (places->items[i].pid != 0 && places->items[i].session == session)
			return &places->items[i];
	return NULL;
}

/* Returns the backend with that pid, or NULL. Under the lock. */
static const Place *
find_pid(int pid)
{
	for (int i = 0; pid != 0 && i < places->count; i++)
		if (places->items[i].pid == pid)
			return &places->items[i];
	return NULL;
}

/* Adds a process to a list, unless it is there. Returns the new count. */
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
 * Puts the processes of this cluster that a process waits for into pids, which
 * has room for all slots. Returns their number. These are the owners of the
 * contender that it watches and of the holder's, as far as known, and those
 * that they wait for, for the same lock.
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
