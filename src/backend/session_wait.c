/*-------------------------------------------------------------------------
 *
 * session_wait.c
 *	  Wait until the lock client may have something new.
 *
 * This is the only place where the backend waits for the client.  It waits for
 * the client's eventfd, the latch, a point in time, and the death of the
 * postmaster.  The wait event set is made once for each client: a lock and its
 * release are two waits, which would spend more on making it than on waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "zklock.h"
#include "session.h"

/* Limits for the client's lines in the server log, in each window. */
#define LOG_WINDOW			ZK_MS(30 * 1000)
#define LOG_LINES			3	/* warnings and others */
#define LOG_OTHER_LINES		2

/* Latch, eventfd, postmaster. */
#define WAIT_EVENTS		3

/* The running client, NULL if there is none. */
ZkClient   *zklock_client = NULL;

/* The events that end a wait for it; NULL before the first wait. */
static WaitEventSet *wait_set = NULL;

/* What a wait is for, for the CONTEXT of an interrupt. */
typedef struct WaitReason
{
	const char *doing;
	const char *path;
} WaitReason;

static void
wait_context(void *arg)
{
	const WaitReason *reason = arg;

	errcontext(reason->doing, reason->path);
}

/* Returns the wait event for pg_stat_activity. */
static uint32
wait_event_info(WaitPurpose event)
{
	static const char *const names[] = {
		[WAIT_FOR_CONNECT] = "ZooKeeperConnect",
		[WAIT_FOR_LOCK] = "ZooKeeperLock",
		[WAIT_FOR_RELEASE] = "ZooKeeperRelease",
		[WAIT_FOR_PROOF] = "ZooKeeperProof",
		[WAIT_FOR_READ] = "ZooKeeperRead"
	};
	static uint32 infos[lengthof(names)];

	if (infos[event] == 0)
		infos[event] = WaitEventExtensionNew(names[event]);
	return infos[event];
}

/* Adds all that ends a wait, except a point in time. */
static void
fill_wait_set(WaitEventSet *set)
{
	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_SOCKET_READABLE,
					  zk_client_event_fd(zklock_client), NULL, NULL);
	if (IsUnderPostmaster)
		AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL,
						  NULL);
}

/* Makes the wait event set if there is none.  Throws as fill_wait_set(). */
static void
make_wait_set(void)
{
	WaitEventSet *set;

	if (wait_set != NULL)
		return;
	set = CreateWaitEventSetForBackend(WAIT_EVENTS);
	PG_TRY();
	{
		fill_wait_set(set);
	}
	PG_CATCH();
	{
		FreeWaitEventSet(set);
		PG_RE_THROW();
	}
	PG_END_TRY();
	wait_set = set;
}

/* Frees the wait event set: the client is about to end. */
void
zklock_session_wait_over(void)
{
	if (wait_set != NULL)
		FreeWaitEventSet(wait_set);
	wait_set = NULL;
}

/*
 * Waits until a state of the client may have changed, or until a point in time.
 * The caller reads the states before and after, and calls again. doing, a
 * format for the path, becomes the CONTEXT of an interrupt.  A snapshot that
 * nothing else needs is dropped (snapshot.c).  Throws what interrupts throw;
 * exits when the postmaster dies.
 */
void
zklock_session_wait_for(WaitPurpose event, ZkTime until, const char *doing,
						const char *path)
{
	WaitReason	reason = {doing, path};
	ErrorContextCallback context;
	WaitEvent	occurred;
	ZkTime		left = Max(until - zk_now(), 0);
	long		timeout = (long) Min((left + 999) / 1000, INT_MAX);

	context.callback = wait_context;
	context.arg = &reason;
	context.previous = error_context_stack;
	error_context_stack = &context;

	make_wait_set();
	InvalidateCatalogSnapshotConditionally();
	(void) WaitEventSetWait(wait_set, timeout, &occurred, 1,
							wait_event_info(event));

	/*
	 * Reset both, whatever was reported: with the latch set the descriptor is
	 * not checked.  Later changes wake the next wait.
	 */
	ResetLatch(MyLatch);
	zk_client_clear_event(zklock_client);
	zklock_drain_log();
	CHECK_FOR_INTERRUPTS();

	error_context_stack = context.previous;
}

/* Returns when a timeout that begins now ends; ZKLOCK_FOREVER never does. */
ZkTime
zklock_deadline(ZkTime timeout)
{
	ZkTime		now = zk_now();

	return timeout > ZKLOCK_FOREVER - now ? ZKLOCK_FOREVER : now + timeout;
}

/* Returns when lock_timeout ends for a call that begins now. */
ZkTime
zklock_lock_deadline(void)
{
	return LockTimeout > 0 ? zk_now() + ZK_MS(LockTimeout) : ZKLOCK_FOREVER;
}

/*
 * Writes the client's log lines to the server log: only a few in each window,
 * one place of which is for a warning, as an outage produces many in many
 * backends.
 */
void
zklock_drain_log(void)
{
	static ZkTime window_start = 0;
	static int	lines = 0;
	static int64 suppressed = 0;
	static char last[ZK_DETAIL_SIZE] = "";
	char		line[ZK_DETAIL_SIZE];
	bool		warning;
	int			repeats;
	int			dropped;

	if (zklock_client == NULL)
		return;
	while (zk_client_log_line(zklock_client, line, sizeof(line), &warning,
							  &repeats, &dropped))
	{
		ZkTime		now = zk_now();

		if (window_start == 0 || now - window_start >= LOG_WINDOW)
		{
			window_start = now;
			lines = 0;
			last[0] = '\0';
		}
		suppressed += dropped;
		if (lines >= (warning ? LOG_LINES : LOG_OTHER_LINES) ||
			strcmp(line, last) == 0)
		{
			suppressed += repeats;
			continue;
		}
		suppressed += repeats - 1;
		ereport(LOG_SERVER_ONLY,
				(errmsg_internal("ZooKeeper client: %s", line),
				 suppressed > 0 ?
				 errdetail_internal("%lld similar messages were suppressed.",
									(long long) suppressed) : 0,
				 errhidestmt(true), errhidecontext(true)));
		strlcpy(last, line, sizeof(last));
		lines++;
		suppressed = 0;
	}
}
