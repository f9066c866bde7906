/*-------------------------------------------------------------------------
 *
 * session_wait.c
 *	  Wait until the lock client may have something new.
 *
 * There is one place where the backend waits for the client, and all that may
 * end such a wait is looked at there: the client's eventfd, the latch, a point
 * in time, the death of the postmaster.  The set of these is made once for each
 * client, as a lock and its release are two waits, which would spend more on
 * making it than on waiting.
 *
 * IDENTIFICATION
 *	  src/backend/session_wait.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "zklock.h"
#include "session.h"

/* At most so many lines of the client go to the server log in a window. */
#define LOG_WINDOW			ZK_MS(30 * 1000)
#define LOG_LINES			3	/* warnings and others */
#define LOG_OTHER_LINES		2

/* Latch, eventfd, postmaster. */
#define WAIT_EVENTS		3

/* The running client, NULL if there is none. */
ZkClient   *zklock_client = NULL;

/* What a wait for it waits for; NULL before the first. */
static WaitEventSet *wait_set = NULL;

/* What a wait is for, for the CONTEXT of what interrupts it. */
typedef struct WaitReason
{
	const char *doing;
	const char *path;
} WaitReason;

static void
wait_context(void *arg)
{
	WaitReason *reason = (WaitReason *) arg;

	errcontext(reason->doing, reason->path);
}

/* How that shows in pg_stat_activity. */
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

/*
 * Put into the set all that ends a wait, but for a point in time.  Throws what
 * PostgreSQL does if it cannot.
 */
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

/*
 * Have the set of what ends a wait for the client.  Throws as fill_wait_set().
 */
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

/* The client is about to end: nobody waits for it any more. */
void
zklock_session_wait_over(void)
{
	if (wait_set != NULL)
		FreeWaitEventSet(wait_set);
	wait_set = NULL;
}

/*
 * Wait until a state of the client may have changed, or until a point in time.
 * The caller reads the states it is interested in before and after, and calls
 * again: a return says nothing by itself.  What it does with which lock (doing,
 * a format for the path, as in "while releasing lock \"%s\"") becomes the
 * CONTEXT of an interrupt.
 *
 * If nothing else needs a snapshot then none is held meanwhile (snapshot.c).
 *
 * Throws what interrupts throw (57014, 57P01, ...); exits when the postmaster
 * dies.
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
	 * not looked at.  Changes from here on wake the next wait.
	 */
	ResetLatch(MyLatch);
	zk_client_clear_event(zklock_client);
	zklock_drain_log();
	CHECK_FOR_INTERRUPTS();

	error_context_stack = context.previous;
}

/* The same, for a lock. */
void
zklock_session_wait(ZkTime until, const char *doing, const char *path)
{
	zklock_session_wait_for(WAIT_FOR_LOCK, until, doing, path);
}

/*
 * Write the client's log lines to the server log.  An outage can produce many
 * lines in each of many backends, so few are let through in a window, and a
 * place is kept for a warning.
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
