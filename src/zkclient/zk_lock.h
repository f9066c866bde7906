/*-------------------------------------------------------------------------
 *
 * zk_lock.h
 *	  Contenders: request locks, rely on them, release them.
 *
 * Part of the interface between the worlds: see zk_session.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZK_LOCK_H
#define ZK_LOCK_H

#include "zk_record.h"
#include "zk_types.h"

/* Contenders of one client, including those that are being deleted. */
#define ZK_MAX_CONTENDERS	1024

/*
 * Bytes of contender paths of one client.  The server writes the paths of all
 * ephemeral nodes of a session into the transaction that closes it, and cannot
 * read a transaction that is too large (ZOOKEEPER-4306).
 */
#define ZK_MAX_PATH_BYTES	(256 * 1024)

/*
 * Contenders that can be created together, so that one batch of requests can
 * list all their queues.
 */
#define ZK_MAX_GROUP		60

/* The most permits that a semaphore can have. */
#define ZK_MAX_PERMITS		1000

/*
 * The states of a contender.  "Abandoned" is none of them:
 * zk_contender_abandon() is an order for any state, after which the id is
 * dead.
 */
typedef enum ZkContenderState
{
	ZK_NONE,					/* no such contender (any more) */
	ZK_RESERVED,				/* by zk_contender_reserve */
	ZK_WANTED,					/* not sent yet */
	ZK_CREATING,				/* create sent, outcome unknown */
	ZK_QUEUED,					/* exists; its place is being read */
	ZK_WATCHING,				/* waits for another contender to end */
	ZK_HELD,					/* granted */
	ZK_RELEASING,				/* to be deleted */
	ZK_GONE,					/* certainly deleted */
	ZK_FAILED,					/* cannot be granted; error says why */
	ZK_LOST						/* was granted; loss says why */
} ZkContenderState;

typedef struct ZkContenderStatus
{
	ZkContenderState state;
	ZkError		error;			/* in FAILED */
	ZkLoss		loss;			/* in LOST */
	char		detail[ZK_DETAIL_SIZE]; /* of error or loss; may be empty */
	char		name[ZK_NAME_SIZE]; /* child name; empty while unknown */
	int64_t		token;			/* czxid of the grant; 0 while unknown */

	/*
	 * When the last operation was sent that proved this contender's
	 * existence. In HELD the lease runs until lease_end (two thirds of the
	 * negotiated session timeout after proved_at); from presumed_lost on (the
	 * whole timeout after it) the server may have expired the session.
	 */
	ZkTime		proved_at;
	ZkTime		lease_end;
	ZkTime		presumed_lost;
	ZkTime		granted_at;		/* start of the hold */
	ZkTime		lost_at;		/* when the loss became known; 0 for not yet */

	/*
	 * Since when it waited for contenders of other clients, or for the end of
	 * a lock delay; 0 if it never did.
	 */
	ZkTime		behind_since;

	bool		revoked;		/* another client asks for its release */
	bool		delayed;		/* in QUEUED: only the lock delay is left */

	/*
	 * In GONE: the note is in the lock's record.  If not, although the
	 * contender was held until its release, error says why.
	 */
	bool		recorded;

	/* In WATCHING, from the last read of the queue. */
	int			ahead;			/* contenders that must go first */
	char		blocker[ZK_NAME_SIZE];	/* the one watched, maybe cut */
	int			position;		/* in the queue, from 1 on */
	char		holder[ZK_NAME_SIZE];	/* the first one that is not this
										 * client's, maybe cut */
	int64_t		blocker_session;	/* its ZooKeeper session; 0 while unknown */
	char		blocker_owner[ZK_OWNER_SIZE];	/* start of its data,
												 * untrusted; empty while
												 * unknown.  After a break:
												 * who did that */

	/*
	 * In WATCHING, for a permit: only contenders of this client that are
	 * being deleted are in the way.
	 */
	bool		own_ahead;

	/*
	 * In WATCHING: an upgrade that cannot succeed by waiting.  The exclusive
	 * contender named by blocker is behind our shared one, waits for it, and
	 * is ahead of us.
	 */
	bool		deadlock;
} ZkContenderStatus;

/*
 * Requests a proof of every held contender: proved_at of each moves to a time
 * after this call, or its state leaves ZK_HELD.
 */
extern void zk_client_renew(ZkClient *client);

/*
 * A request for locks: the same struct from the SQL function to the contender.
 */
typedef struct ZkLockRequest
{
	ZkMode		mode;
	int			permits;		/* in ZK_PERMIT: their number; else 0 */
	const char *owner;			/* the contenders' data: at most 4 kB, copied;
								 * begins with ZK_OWNER_PREFIX */

	/*
	 * The contenders will not wait for others: the backend is woken as soon
	 * as it is known that they would have to, not when it is known for which
	 * one.
	 */
	bool		no_wait;

	/*
	 * Bytes of the lock nodes' paths that are the root; needed for the next
	 * two, else 0.
	 */
	size_t		root_len;

	/*
	 * The contenders read the record of their lock before they are granted,
	 * and write to it.
	 */
	bool		record;

	/*
	 * If not 0: a contender is granted only this long after this client saw
	 * that a holder had vanished without a release.  If the contender itself
	 * vanishes without a release, other clients with a lock delay will detect
	 * that.  Not for ZK_PERMIT.
	 */
	ZkTime		lock_delay;

	/*
	 * If not 0: a contender that has been held for this long is lost, and
	 * deleted.
	 */
	ZkTime		max_hold;
} ZkLockRequest;

/*
 * Queues new contenders for at most ZK_MAX_GROUP different lock nodes
 * (absolute paths that passed zk_path_check(), shorter than
 * ZK_NODE_PATH_SIZE). One transaction creates all of them, so of two groups
 * one is ahead of the other in all queues that they share.  Missing parent
 * znodes are created as containers.  ids receives one id each.  Returns false
 * when out of room or poisoned, with *error set and nothing requested.
 *
 * The caller must end each contender: by zk_contender_release() and, after
 * ZK_GONE, zk_contender_abandon(), or by zk_contender_abandon() alone, in any
 * state.  Until then the client reconnects and requeues; the caller decides
 * how long to wait.  But a member of a group does not requeue alone, because
 * it would lose its place ahead of others: it fails with ZK_ERR_UNQUEUED or
 * ZK_ERR_VANISHED. Then the caller must end all of them, and may request a new
 * group.
 *
 * A contender fails with ZK_ERR_KIND if one of another kind is ahead of it: a
 * lock's for a permit, a permit's for a lock, or one with another number of
 * permits.
 */
extern bool zk_contenders_request(ZkClient *client, const ZkLockRequest *request,
								  int count, const char *const *nodes,
								  ZkContenderId *ids, ZkError *error);

/*
 * The record of the lock at the time of the grant.  Returns false, and an
 * empty record, if that is unknown.
 */
extern bool zk_contender_record(ZkClient *client, ZkContenderId id,
								ZkRecord *record);

/*
 * Notes an addition to the record: positions and a run.  It is written by the
 * transaction that deletes the contender or replaces it with a shared one; the
 * client adds the release itself.  Replaces the previous note.  Nothing is
 * written for a contender that is not held when it ends, or that was requested
 * without a record.  Allocates nothing and cannot fail.
 */
extern void zk_contender_note(ZkClient *client, ZkContenderId id,
							  const ZkRecord *note);

/*
 * Makes room for a shared contender in the place of a held exclusive one, so
 * that zk_contender_downgrade() cannot fail.  Returns 0, with *error set, when
 * out of room or poisoned.
 */
extern ZkContenderId zk_contender_reserve(ZkClient *client,
										  ZkContenderId exclusive,
										  ZkError *error);

/*
 * Turns a held exclusive contender into the reserved shared one, without a
 * gap.  The shared one reads ZK_HELD (or ZK_LOST) from now on and inherits the
 * token; the exclusive one is abandoned, its id is dead.
 */
extern void zk_contender_downgrade(ZkClient *client, ZkContenderId exclusive,
								   ZkContenderId shared);

/*
 * Deletes a contender, over reconnects until that is certain.  Its state reads
 * ZK_RELEASING from now on, or how it ended (ZK_LOST, ZK_FAILED), and finally
 * ZK_GONE (or ZK_FAILED if an ACL forbids the delete).
 */
extern void zk_contender_release(ZkClient *client, ZkContenderId id);

/*
 * Gives up a contender in any state; its id is dead.  The client deletes what
 * exists, now or as soon as it can.  Allocates nothing, cannot fail, and may
 * be called after commit.
 */
extern void zk_contender_abandon(ZkClient *client, ZkContenderId id);

/*
 * The caller now relies on a granted contender: if it is lost before it is
 * released or abandoned, the loss signal is sent to the thread that started
 * the client, at that moment.
 */
extern void zk_contender_rely_on(ZkClient *client, ZkContenderId id);

/*
 * Returns true if a lock is lost that the caller relies on.  Takes no lock, so
 * the handler of the loss signal may call it; a late signal may find none.
 */
extern bool zk_client_lost_any(const ZkClient *client);

/* The same, for a lock that reached its max_hold. */
extern bool zk_client_overtime(const ZkClient *client);

/*
 * Tells the client that a commit that relies on the contenders begins or has
 * ended.  In between none is given up for its max_hold.  Call it before the
 * contenders are checked.
 */
extern void zk_client_commit(ZkClient *client, bool under_way);

/*
 * A number that changes when another client asks for a held contender
 * (ZkContenderStatus.revoked). Takes no lock.
 */
extern int	zk_client_revocations(const ZkClient *client);

/* The state of a contender; ZK_NONE for an unknown or dead id. */
extern void zk_contender_status(ZkClient *client, ZkContenderId id,
								ZkContenderStatus *status);

/*
 * Returns true if the contender is held and its lease running; cheaper than
 * the above.
 */
extern bool zk_contender_lease_runs(ZkClient *client, ZkContenderId id);

#endif							/* ZK_LOCK_H */
