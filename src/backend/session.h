/*-------------------------------------------------------------------------
 *
 * session.h
 *	  The lock client of this backend: started, judged, ended (session.c), and
 *	  waited for (session_wait.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SESSION_H
#define ZKLOCK_SESSION_H

#include "libpq/pqsignal.h"

#include "zklock.h"
#include "zk_lock.h"
#include "zk_session.h"

/*
 * How long a call whose time is up, or that has no connection, waits for its
 * contender to be gone.  It is deleted in any case.
 */
#define ZKLOCK_CLEANUP_TIMEOUT	ZK_MS(20)

/* A point in time that never comes. */
#define ZKLOCK_FOREVER			((ZkTime) PG_INT64_MAX)

/* Whether it can be proved that a lock is held. */
typedef enum HoldState
{
	HOLD_PROVED,				/* the last proof is recent enough */
	HOLD_UNPROVED,				/* it is not; a new one may yet succeed */
	HOLD_LOST
} HoldState;

/*
 * What a backend waits for; wait events have these names from PostgreSQL 17 on.
 */
typedef enum WaitPurpose
{
	WAIT_FOR_CONNECT,			/* a connection to the ensemble */
	WAIT_FOR_LOCK,				/* a lock to be granted */
	WAIT_FOR_RELEASE,			/* a contender to be gone */
	WAIT_FOR_PROOF,				/* a proof that locks are held */
	WAIT_FOR_READ				/* an answer about the contenders of others */
} WaitPurpose;

/*
 * What one call has seen of the connection.  It decides how long the call waits
 * without one.
 */
typedef struct Link
{
	ZkSessionStatus status;		/* as last looked at */
	bool		was_up;			/* connected at some time during this call */
	ZkTime		down_since;		/* start of this outage, as far as this call
								 * saw it; 0 when connected */
	int64		connections;	/* ever made, as last looked at */
} Link;

extern char *zklock_servers;
extern int	zklock_session_timeout;
extern int	zklock_connect_timeout;
extern int	zklock_znode_style;
extern pqsigfunc zklock_loss_handler;
extern ZkClient *zklock_client;

extern void zklock_session_open(bool idle);
extern void zklock_session_stop(void);
extern void zklock_session_leave(void);
extern void zklock_session_count(void);
extern void zklock_session_wait_for(WaitPurpose event, ZkTime until,
									const char *doing, const char *path);
extern void zklock_session_wait_over(void);
extern void zklock_drain_log(void);
extern void zklock_link_begin(Link *link);
extern void zklock_link_look(Link *link);
extern ZkTime zklock_link_deadline(const Link *link);
extern ZkTime zklock_deadline(ZkTime timeout);
extern ZkTime zklock_lock_deadline(void);
pg_noreturn extern void zklock_link_report(const Link *link, const char *what,
										   const char *path);
pg_noreturn extern void zklock_report_error(ZkError error, const char *detail,
											const char *what, const char *path);
extern HoldState zklock_lease_judge(ZkContenderId id, ZkContenderStatus *status);
extern HoldState zklock_lease_prove(ZkContenderId id, ZkTime asked,
									ZkTime deadline, const char *path,
									ZkContenderStatus *status);

#endif							/* ZKLOCK_SESSION_H */
