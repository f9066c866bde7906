/*-------------------------------------------------------------------------
 *
 * wait_slots.c
 *	  The waits of this cluster, in shared memory.
 *
 * If the library is in shared_preload_libraries, each backend has a slot in
 * shared memory, with its ZooKeeper session, and what it waits for if it waits
 * for another client.
 *
 * V3. A slot is written when a call has to wait, when what it knows changes,
 * and when the wait ends, through PG_CATCH or an exit callback.  One LWLock is
 * enough for that: a backend that need not wait takes it once for each
 * ZooKeeper session.  After a crash shared memory is initialized again.
 *
 * V4. The ZooKeeper session connects a contender with a backend: the server
 * says the contender's ephemeralOwner, the backend its own session.  The
 * contender's data could have been written by anyone, and would have to
 * identify this cluster.
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
typedef struct WaitSlot
{
	int			pid;			/* 0 for an unused slot */
	int64		session;		/* its last ZooKeeper session with a contender */
	bool		waits;
	Wait		wait;			/* valid if so */
} WaitSlot;

typedef struct WaitSlots
{
	int			count;
	WaitSlot	items[FLEXIBLE_ARRAY_MEMBER];
} WaitSlots;

/* In shared memory; NULL if the library was not preloaded. */
static WaitSlots *slots = NULL;
static LWLock *slots_lock = NULL;

/* What this backend has in its slot. */
static int64 shown_session = 0;
static bool shown_waiting = false;
static Wait shown;

static size_t
slots_size(int count)
{
	return add_size(offsetof(WaitSlots, items), mul_size(count, sizeof(WaitSlot)));
}

/* Asks for shared memory, in the hook for that. */
void
zklock_wait_slots_request(void)
{
	RequestAddinShmemSpace(slots_size(max_backends_to_be()));
	RequestNamedLWLockTranche(TRANCHE_NAME, 1);
}

/* Finds or creates the slots in shared memory, in the startup hook. */
void
zklock_wait_slots_attach(void)
{
	size_t		size = slots_size(MaxBackends);
	bool		found;

	slots = ShmemInitStruct("zklock waits", size, &found);
	if (!found)
	{
		memset(slots, 0, size);
		slots->count = MaxBackends;
	}
	slots_lock = &GetNamedLWLockTranche(TRANCHE_NAME)->lock;
}

/* Returns the number of slots; 0 if the library was not preloaded. */
int
zklock_wait_slots_count(void)
{
	return slots != NULL ? slots->count : 0;
}

/* Exit callback: clears the slot.  The abort has released the lock. */
static void
leave_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	LWLockAcquire(slots_lock, LW_EXCLUSIVE);
	memset(&slots->items[MyProcNumber], 0, sizeof(WaitSlot));
	LWLockRelease(slots_lock);
}

/* Returns this backend's slot, with the lock taken. */
static WaitSlot *
enter_slot(void)
{
	static bool callback_registered = false;
	WaitSlot   *slot = &slots->items[MyProcNumber];

	if (!callback_registered)
	{
		on_shmem_exit(leave_at_exit, 0);
		callback_registered = true;
	}
	LWLockAcquire(slots_lock, LW_EXCLUSIVE);
	slot->pid = MyProcPid;
	return slot;
}

/* Shows the ZooKeeper session of this backend's contenders. */
void
zklock_wait_slot_session(int64 session)
{
	if (slots == NULL || session == shown_session)
		return;
	enter_slot()->session = session;
	LWLockRelease(slots_lock);
	shown_session = session;
}

/*
 * Shows what this backend waits for; role is filled in here, and since remains
 * what it was at first.
 */
void
zklock_wait_slot_show(Wait *wait)
{
	WaitSlot   *slot;

	if (slots == NULL)
		return;
	wait->role = GetSessionUserId();
	if (shown_waiting)
		wait->since = shown.since;
	if (shown_waiting && memcmp(wait, &shown, sizeof(shown)) == 0)
		return;
	slot = enter_slot();
	slot->waits = true;
	slot->wait = *wait;
	LWLockRelease(slots_lock);
	shown = *wait;
	shown_waiting = true;
}

/* Shows that this backend waits no more. */
void
zklock_wait_slot_clear(void)
{
	if (!shown_waiting)
		return;
	shown_waiting = false;
	enter_slot()->waits = false;
	LWLockRelease(slots_lock);
}

/* Reads a slot: returns the process that waits there, or 0. */
int
zklock_wait_slot_read(int index, Wait *wait)
{
	const WaitSlot *slot = &slots->items[index];
	int			pid = 0;

	LWLockAcquire(slots_lock, LW_SHARED);
	if (slot->waits)
	{
		pid = slot->pid;
		*wait = slot->wait;
	}
	LWLockRelease(slots_lock);
	return pid;
}

/* Returns the slot of a pid, or of a session; or NULL.  Under the lock. */
static const WaitSlot *
find_slot(int pid, int64 session)
{
	for (int i = 0; (pid != 0 || session != 0) && i < slots->count; i++)
	{
		const WaitSlot *slot = &slots->items[i];

		if (slot->pid != 0 &&
			(pid != 0 ? slot->pid == pid : slot->session == session))
			return slot;
	}
	return NULL;
}

/* Adds a process to a list, unless it is there.  Returns the new count. */
static int
add_pid(int *pids, int count, const WaitSlot *slot)
{
	for (int i = 0; i < count; i++)
		if (pids[i] == slot->pid)
			return count;
	pids[count] = slot->pid;
	return count + 1;
}

/*
 * Puts the processes of this cluster that a process waits for into pids, which
 * has room for all slots.  Returns their number.  These are the owners of the
 * contender that it watches and of the holder's, as far as known, and those
 * that they wait for, for the same lock.
 */
int
zklock_wait_slots_blockers(int pid, int *pids)
{
	int			count = 0;
	const WaitSlot *waiter;
	const WaitSlot *first;

	LWLockAcquire(slots_lock, LW_SHARED);
	first = waiter = find_slot(pid, 0);
	for (int next = 0; waiter != NULL; next++)
	{
		if (waiter->waits && strcmp(waiter->wait.path, first->wait.path) == 0)
		{
			const WaitSlot *blocker = find_slot(0, waiter->wait.blocker_session);
			const WaitSlot *holder = find_slot(0, waiter->wait.holder.session);

			if (blocker != NULL && blocker != first)
				count = add_pid(pids, count, blocker);
			if (holder != NULL && holder != first)
				count = add_pid(pids, count, holder);
		}
		waiter = next < count ? find_slot(pids[next], 0) : NULL;
	}
	LWLockRelease(slots_lock);
	return count;
}
