/*-------------------------------------------------------------------------
 *
 * zk_lock.h
 *	  Contenders: ask for locks, rely on them, give them back.
 *
 * Part of the interface between the worlds: see zk_session.h.
 *
 * IDENTIFICATION
 *	  src/zkclient/zk_lock.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZK_LOCK_H
#define ZK_LOCK_H

#include "zk_record.h"
#include "zk_types.h"

/* Contenders of one client at a time, wanted ones and those being reaped. */
#define ZK_MAX_CONTENDERS	1024

/*
 * Bytes of contender paths of one client at a time.  The server writes the
 * paths of all ephemeral nodes of a session into the transaction that closes
 * it, and cannot read that transaction back when it has grown too large
 * (ZOOKEEPER-4306).
 */
#define ZK_MAX_PATH_BYTES	(256 * 1024)

/*
 * Contenders that can be created together: so many that their queues can be
 * listed in the same go.
 */
#define ZK_MAX_GROUP		60

/* The most permits that a semaphore can have. */
#define ZK_MAX_PERMITS		1000

/*
 * The life of a contender.  ABANDONED of the design is not a state of its
 * own: it is an order (zk_contender_abandon) that may come in any state and
 * ends in GONE unseen.
 */
typedef enum ZkContenderState
{
	ZK_NONE,					/* no such contender (any more) */
	ZK_RESERVED,				/* room made by zk_contender_reserve */
	ZK_WANTED,					/* not sent yet */
	ZK_CREATING,				/* create sent, outcome unknown */
	ZK_QUEUED,					/* exists; its place is being looked up */
	ZK_WATCHING,				/* waits for another contender to go */
	ZK_HELD,					/* granted */
	ZK_RELEASING,				/* to be deleted */
	ZK_GONE,					/* certain to exist no more */
	ZK_FAILED,					/* cannot be granted; error says why */
	ZK_LOST						/* was granted; loss says why */
} ZkContenderState;

typedef struct ZkContenderStatus
{
	ZkContenderState state;
	ZkError		error;			/* in FAILED */
	ZkLoss		loss;			/* in LOST */
	char		detail[ZK_DETAIL_SIZE]; /* to error or loss; may be empty */
	char		name[ZK_NAME_SIZE]; /* child name; empty while unknown */
	int64_t		token;			/* czxid of the grant; 0 while unknown */

	/*
	 * When the last operation that proved this contender's existence was
	 * sent.  In HELD the lease runs until lease_end (two thirds of the
	 * negotiated session timeout after proved_at), and at presumed_lost (the
	 * whole timeout after it) the server may have expired the session.
	 */
	ZkTime		proved_at;
	ZkTime		lease_end;
	ZkTime		presumed_lost;
	ZkTime		granted_at;		/* since when it is held */

	bool		revoked;		/* somebody asks for the lock to be given back */
	bool		delayed;		/* in QUEUED: nobody is ahead, the lock delay
								 * runs */

	/*
	 * In GONE: what was noted is in the lock's record.  If not, though the
	 * contender was held until it was released, error says why.
	 */
	bool		recorded;

	/* In WATCHING, from the queue as last read. */
	int			ahead;			/* contenders that must go first */
	char		blocker[ZK_NAME_SIZE];	/* the one watched, maybe cut short */
	int			position;		/* in the queue, from 1 on */
	char		holder[ZK_NAME_SIZE];	/* the first one that is not this
										 * client's, maybe cut short */
	int64_t		blocker_session;	/* ZooKeeper session of the one watched; 0
									 * while unknown */
	char		blocker_owner[ZK_OWNER_SIZE];	/* start of its data, which is
												 * anybody's; empty while
												 * unknown.  When the
												 * contender was broken: who
												 * did that */

	/*
	 * In WATCHING, for a permit: nobody else is in the way, but contenders of
	 * this client that are about to be deleted.
	 */
	bool		own_ahead;

	/*
	 * In WATCHING: an upgrade that cannot succeed by waiting.  The exclusive
	 * contender named by blocker stands behind our shared one, waits for it,
	 * and is ahead of us.
	 */
	bool		deadlock;
} ZkContenderStatus;

/*
 * Ask for a proof, now, of every held contender: proved_at of each moves to a
 * time after this call, or its state leaves ZK_HELD.
 */
extern void zk_client_renew(ZkClient *client);

/*
 * What is asked for: the same struct from the function that SQL calls to the
 * contender that is created.
 */
typedef struct ZkLockRequest
{
	ZkMode		mode;
	int			permits;		/* in ZK_PERMIT: of how many one is wanted;
								 * else 0 */
	const char *owner;			/* the contenders' data: at most 4 kB, copied;
								 * begins with ZK_OWNER_PREFIX */

	/*
	 * The contenders will not wait behind others: the backend is woken as
	 * soon as it is known that they would have to, not when it is known for
	 * whom.
	 */
	bool		no_wait;

	/*
	 * Bytes of the lock nodes' paths that are the root; for the next two, or
	 * 0.
	 */
	size_t		root_len;

	/*
	 * They read the record of their lock and write to it.  It is read before
	 * the contender is granted, and with it.
	 */
	bool		record;

	/*
	 * If not 0: a contender is granted only when so much time has passed
	 * since this client saw a holder of the lock gone that had not released
	 * it; and if it does not release the lock itself, others that were asked
	 * for with a delay will know.  Not in ZK_PERMIT.
	 */
	ZkTime		lock_delay;

	/*
	 * If not 0: a contender that has been held for so long is lost, and
	 * deleted.
	 */
	ZkTime		max_hold;
} ZkLockRequest;

/*
 * Queue new contenders of at most ZK_MAX_GROUP lock nodes (absolute, checked by
 * zk_path_check(), below ZK_NODE_PATH_SIZE), no two of which are the same, at
 * once: one transaction creates all of them, so that of two groups one is ahead
 * of the other in all queues in which they meet.  Missing znodes on the way are
 * created as containers.  ids gets one for each.  Returns false when out of
 * room or poisoned, with *error set and nothing asked for.
 *
 * From then on somebody must end the life of each: zk_contender_release() and
 * after ZK_GONE zk_contender_abandon(), or zk_contender_abandon() alone, in any
 * state.  The client goes on reconnecting and queueing anew as long as the
 * contender is wanted: how long to wait is for the caller to judge.  But one of
 * several does not queue anew on its own, as it would lose the place that it
 * has before others: it fails with ZK_ERR_UNQUEUED or ZK_ERR_VANISHED.  Then
 * all are to be ended, and a new group can be asked for.
 *
 * A contender fails with ZK_ERR_KIND if one of another kind is ahead of it: a
 * lock's for a permit, a permit's for a lock, or one with another number of
 * permits.
 */
extern bool zk_contenders_request(ZkClient *client, const ZkLockRequest *request,
								  int count, const char *const *nodes,
								  ZkContenderId *ids, ZkError *error);

/*
 * The record of the lock as it was when the contender was granted.  False, and
 * an empty one, if that is not known.
 */
extern bool zk_contender_record(ZkClient *client, ZkContenderId id,
								ZkRecord *record);

/*
 * Note what is to be added to the record, in the transaction that deletes the
 * contender, or that puts a shared one in its place: positions and a run; the
 * client knows the release itself.  Takes the place of what was noted before.
 * Nothing is written for a contender that is not held when it is ended, nor for
 * one that was not asked for with a record.  Allocates nothing and cannot fail.
 */
extern void zk_contender_note(ZkClient *client, ZkContenderId id,
							  const ZkRecord *note);

/*
 * Make room for a shared contender in the place of a held exclusive one, so
 * that zk_contender_downgrade() cannot fail.  Returns 0 as above.
 */
extern ZkContenderId zk_contender_reserve(ZkClient *client,
										  ZkContenderId exclusive,
										  ZkError *error);

/*
 * Turn a held exclusive contender into the reserved shared one, without a
 * gap.  The shared one reads ZK_HELD (or ZK_LOST) from here on and inherits
 * the token; the exclusive one is abandoned and must not be named again.
 */
extern void zk_contender_downgrade(ZkClient *client, ZkContenderId exclusive,
								   ZkContenderId shared);

/*
 * Delete a contender.  Its state reads ZK_RELEASING from here on, or how it has
 * ended (ZK_LOST, ZK_FAILED), until it reads ZK_GONE (or ZK_FAILED when an ACL
 * forbids it).  Goes on over reconnects until certain.
 */
extern void zk_contender_release(ZkClient *client, ZkContenderId id);

/*
 * Give up a contender in whatever state it is.  The client deletes what there
 * is to delete, now or as soon as it can; the id is dead.  Allocates nothing,
 * cannot fail, and may be called after commit.
 */
extern void zk_contender_abandon(ZkClient *client, ZkContenderId id);

/*
 * The caller takes the lock of a contender that was granted, and relies on it:
 * should it be lost before it is released or abandoned, the loss signal is
 * sent to the thread that has started the client, at that moment.
 */
extern void zk_contender_rely_on(ZkClient *client, ZkContenderId id);

/*
 * Is a lock lost that is relied on?  Takes no lock, so that the handler of the
 * loss signal can ask; a signal that comes late may find that there is none any
 * more.
 */
extern bool zk_client_lost_any(const ZkClient *client);

/* Likewise, one that had been held for as long as it was to be at most? */
extern bool zk_client_overtime(const ZkClient *client);

/*
 * A commit that relies on the contenders is under way, or is over.  Meanwhile
 * none is given up because it has been held for long enough.  To be said before
 * they are looked at.
 */
extern void zk_client_commit(ZkClient *client, bool under_way);

/*
 * A number that changes when the owner of a held contender is asked for it
 * (ZkContenderStatus.revoked).  Takes no lock.
 */
extern int	zk_client_revocations(const ZkClient *client);

/* The state of a contender; ZK_NONE for an unknown or dead id. */
extern void zk_contender_status(ZkClient *client, ZkContenderId id,
								ZkContenderStatus *status);

/* Is the contender held, and its lease running?  The same, for less. */
extern bool zk_contender_lease_runs(ZkClient *client, ZkContenderId id);

#endif							/* ZK_LOCK_H */
