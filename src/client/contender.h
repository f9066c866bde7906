/*-------------------------------------------------------------------------
 *
 * contender.h
 *	  What can happen to a contender, whatever the protocol is doing.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CONTENDER_H
#define ZKLOCK_CONTENDER_H

#include "client.h"
#include "group.h"
#include "lease.h"
#include "lock_delay.h"
#include "marker.h"
#include "own_watch.h"
#include "parents.h"
#include "queue.h"
#include "record_io.h"
#include "refusal.h"
#include "request.h"
#include "watch.h"
#include "znode.h"

/* Creates of one contender that may find its lock node gone. */
#define ZK_MAX_ATTEMPTS		10

/* Creates that are watched at a time for a late execution (Q7). */
#define ZK_MAX_DOUBTED		64

/* What the backend wants of a contender; contender.c draws the transitions. */
typedef enum Claim
{
	CLAIM_NONE,					/* nothing: the slot is free */
	CLAIM_WANTED,				/* that it is granted, or stays so */
	CLAIM_ENDED,				/* it failed, is lost or gone, and the backend
								 * has not let go of it yet */
	CLAIM_RELEASED,				/* to see it gone */
	CLAIM_ABANDONED				/* to hear no more of it: free the slot */
} Claim;

/* The steps between the place that grants the lock and HELD. */
typedef enum GrantStep
{
	GRANT_NONE,					/* not granted as far as is known, or HELD */
	GRANT_RECORD,				/* the record is to be read */
	GRANT_MARKERS,				/* the own marker is to be made */
	GRANT_PROOF					/* the lease is to be proved */
} GrantStep;

/* How long a contender may be believed in.  Written by contender.c. */
typedef struct Proof
{
	ZkTime		proved_at;		/* when the last proof was sent */
	ZkTime		lease_end;		/* it is held until then without another */
	ZkTime		presumed_lost;	/* and lost from then on without asking */
	ZkTime		granted_at;
} Proof;

/*
 * A contender as the engine knows it.  The slot number is its index in
 * ZkClient.contenders and in Mailbox.slots.  engine_lock.
 *
 * The state is where the protocol stands, until it is ZK_LOST or ZK_FAILED:
 * then the backend sees that for good, while "znode" says what is still to be
 * deleted behind it.
 */
struct Contender
{
	/* written by contender.c, as is "proof" */
	Claim		claim;
	ZkContenderState state;
	GrantStep	grant;			/* in QUEUED; else NONE */
	ZkError		error;
	ZkLoss		loss;
	uint8_t		attempts;		/* creates in vain, in a row */
	bool		stuck;			/* an ACL forbids to delete it, which was
								 * logged */
	Contender  *partner;		/* exclusive one to take the place of, or to
								 * see gone before this one is; or NULL */
	Contender  *successor;		/* the one whose partner this is; or NULL */
	ZkLockRequest request;
	const char *node;			/* MailboxSlot.node */
	char	   *owner;			/* malloc'd data of the znode */
	int			owner_len;
	RecordBuffer *record;		/* MailboxSlot.record; NULL without a record */
	char		detail[ZK_DETAIL_SIZE];
	char		blocker_owner[ZK_OWNER_SIZE];	/* data of the one watched, or
												 * of a client that broke it */
	int64_t		blocker_session;	/* whose that is */
	ZkTime		behind_since;	/* ZkContenderStatus.behind_since */
	Proof		proof;

	/* each written by the file of its type */
	Turn		turn;
	Znode		znode;
	Parents		parents;
	Membership	member;
	Watching	watching;
	OwnWatch	own;
	Renewing	renewing;
	Refusal		refusal;		/* to be explained; then it fails */
	OwnMarker	marker;
	Markers		markers;

	/* of a multi-op of its own; written by the library */
	zoo_op_result_t results[ZK_OWN_OPS];
};

/* The number of its slot. */
static inline uint16_t
zk_contender_slot(const ZkClient *client, const Contender *c)
{
	return (uint16_t) (c - client->contenders);
}

/* The context of a watch for it: its slot, which the library compares (Q3). */
static inline void *
zk_watch_context(const ZkClient *client, const Contender *c)
{
	return (void *) (intptr_t) zk_contender_slot(client, c);
}

/* The contender that a watch with that context is for. */
static inline Contender *
zk_watch_contender(const ZkClient *client, const void *context)
{
	return &client->contenders[(intptr_t) context];
}

/* Returns true if the lock is held, as far as is known.  engine_lock. */
static inline bool
zk_contender_is_held(const Contender *c)
{
	return c->claim == CLAIM_WANTED && c->state == ZK_HELD;
}

/* Returns true if it can never be held again.  engine_lock. */
static inline bool
zk_contender_has_ended(const Contender *c)
{
	return c->state == ZK_LOST || c->state == ZK_FAILED;
}

/* Returns true if it has a record, which is in that state.  engine_lock. */
static inline bool
zk_record_is(const Contender *c, RecordState state)
{
	return c->record != NULL && c->record->state == state;
}

extern void zk_contender_move(Contender *c, ZkContenderState state);
extern void zk_contender_creating(ZkClient *client, Contender *c);
extern void zk_contender_not_created(Contender *c);
extern bool zk_contender_attempt(Contender *c);
extern Contender *zk_contender_take_order(ZkClient *client, const MailboxOrder *order);
extern void zk_contender_replaced(ZkClient *client, Contender *c);
extern void zk_contender_gone(ZkClient *client, Contender *c);
extern void zk_contender_publish(ZkClient *client, Contender *c, bool wake);
extern void zk_contender_forget(Contender *c);
extern void zk_contender_seen_ahead(ZkClient *client, Contender *c, const char *name,
									const struct Stat *stat);
extern void zk_contender_set_blocker(Contender *c, const char *owner, int len,
									 int64_t session);
extern void zk_contender_behind(Contender *c);
extern void zk_contender_set_lease(ZkClient *client, Contender *c,
								   ZkProof proof);
extern void zk_contender_proved(ZkClient *client, Contender *c, ZkProof proof);
extern void zk_contender_cut_lease(ZkClient *client, Contender *c, ZkTime since);
extern void zk_contender_grant(ZkClient *client, Contender *c);
extern void zk_contender_explain(Contender *c, ZkError error, const char *fmt,...)
			__attribute__((format(printf, 3, 4)));
extern void zk_contender_fail(ZkClient *client, Contender *c, ZkError error,
							  const char *fmt,...)
			__attribute__((format(printf, 4, 5)));
extern void zk_contender_lose(ZkClient *client, Contender *c, ZkLoss loss,
							  const char *detail);
extern void zk_contender_unqueued(ZkClient *client, Contender *c);
extern void zk_contender_vanished(ZkClient *client, Contender *c);
extern void zk_contender_missing(ZkClient *client, Contender *c);
extern void zk_contender_stuck(ZkClient *client, Contender *c, bool deleting);
extern void zk_contender_give_up_partner(ZkClient *client, Contender *c);
extern void zk_contender_end(ZkClient *client, Contender *c, bool abandon);
extern void zk_contender_reap_elsewhere(ZkClient *client, const Contender *c);
extern bool zk_contender_doubted(ZkClient *client, Contender *c);

#endif							/* ZKLOCK_CONTENDER_H */
