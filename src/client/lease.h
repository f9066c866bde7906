/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  How long a lock may be believed in, and renewing that.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LEASE_H
#define ZKLOCK_LEASE_H

#include "client.h"

/* Contenders that one renewal proves. */
#define ZK_RENEWAL_BATCH	128

/*
 * Renewals under way: as many as it takes to prove all contenders at the same
 * time; and a server that has stalled (ZOOKEEPER-4537) is often woken by the
 * next commit.
 */
#define ZK_RENEWALS		(ZK_MAX_CONTENDERS / ZK_RENEWAL_BATCH)

/* What was asked to renew a lease.  Written by lease.c.  engine_lock. */
typedef struct Renewing
{
	ZkTime		asked_at;		/* when the last renewal with it was sent; 0
								 * if there is to be another one at once */
	bool		overdue;		/* held for longer than allowed, by a commit
								 * that is under way */
} Renewing;

extern Leases *zk_leases_create(void);
extern void zk_leases_prove(ZkClient *client);
extern void zk_lease_renew(ZkClient *client);
extern void zk_lease_check(ZkClient *client);
extern void zk_lease_heartbeat(ZkClient *client);
extern ZkTime zk_lease_heartbeat_due(const ZkClient *client);
extern void zk_leases_connected(ZkClient *client, ZkTime since, ZkTime timeout_before);
extern void zk_leases_handle_closed(ZkClient *client);
extern bool zk_leases_run(const ZkClient *client);
extern ZkTime zk_lease_next_timer(ZkClient *client);

#endif							/* ZKLOCK_LEASE_H */
