/*-------------------------------------------------------------------------
 *
 * contender.h
 *	  What can happen to a contender, whatever the protocol is doing.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/contender.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CONTENDER_H
#define ZKLOCK_CONTENDER_H

#include "client.h"
#include "lock_delay.h"
#include "queue.h"
#include "refusal.h"

/* Longest path of a contender of our own, terminating NUL included. */
#define ZK_CONTENDER_PATH_SIZE	(ZK_NODE_PATH_SIZE + ZK_NAME_SIZE)

/*
 * How long a contender stays in one place before it gets a watch on its own
 * znode, and how long far behind in a queue, where it will be looked for in a
 * list anyhow.
 */
#define ZK_WATCH_DELAY		ZK_MS(100)
#define ZK_FAR_WATCH_DELAY	ZK_MS(1000)

/* Creates of one contender that may find its lock node gone. */
#define ZK_MAX_ATTEMPTS		10

/* Creates at a time of which it is looked whether they are executed late (Q7). */
#define ZK_MAX_DOUBTED		64

/*
 * A contender as the engine knows it.  The slot number is its index in
 * ZkClient.contenders and in Mailbox.slots.  engine_lock.
 *
 * "state" is where the protocol stands.  Once "end" is set (ZK_LOST or
 * ZK_FAILED, both final) the backend sees that, while behind it the znode is
 * still being deleted.
 *
 * Invariant: a znode of ours can exist only while name is set or
 * maybe_exists, and then the slot is in use.  So every contender this client
 * may have created is at every moment wanted or being reaped.
 */
struct Contender
{
	bool		in_use;
	bool		unwanted;		/* delete it: released, abandoned, or ended */
	bool		released;		/* somebody waits for GONE */
	bool		abandoned;		/* nobody does: free the slot then */
	bool		maybe_exists;	/* create sent, name not known */
	bool		settled;		/* what is read now shows whether it does */
	bool		need_parent;	/* the lock node was not there */
	bool		parent_seen;	/* the znode above the one to create was there */
	bool		last_ahead;		/* the watched one is the only one ahead */
	bool		unbroken;		/* it is watched without a break since it was
								 * created: that it is deleted says that
								 * nothing has taken its place */
	bool		last_second_watch;	/* last_ahead, once the second_watch is
									 * deleted */
	bool		relist;			/* the second_watch is gone: list while
								 * waiting */
	bool		proving;		/* granted, but the lease must be proved first */
	bool		next_in_line;	/* only holders are ahead: keep the lease */
	bool		touched;		/* is in ZkClient.touched */
	bool		own_watch;		/* its own znode is being watched */
	bool		changed;		/* its data was changed by somebody else */
	bool		revoked;		/* somebody asks for the lock back */
	bool		grouped;		/* created in one transaction with others */
	bool		watch_all;		/* waits for any of several (semaphore.c) */
	bool		own_ahead;		/* and all of them are our own (likewise) */
	bool		rewrite;		/* its data is to be written once more:
								 * somebody behind may take it for a waiter,
								 * or a revocation has wiped it out */
	bool		reading;		/* granted, but the record is to be read first */
	bool		record_known;	/* it was, since the queue was listed */
	bool		recording;		/* the multi-op on its way writes the record */
	bool		recorded;		/* what was noted is in the record */
	uint8_t		attempts;		/* creates in vain, in a row */
	uint8_t		pending;		/* requests on their way for it */
	uint16_t	partner;		/* exclusive one to take the place of, or to
								 * see gone before this one is */
	uint16_t	successor;		/* the one whose partner this is */
	uint16_t	next_member;	/* of the group that is to be created; a ring */
	uint16_t	parent_len;		/* bytes of the path of the container to
								 * create */
	uint32_t	incarnation;	/* bumped with each new identity (base) */
	uint32_t	watch_serial;	/* of the REQ_CLIENT on its way; 0 for none */
	uint32_t	rewrite_serial; /* likewise of the REQ_CLIENT */
	int32_t		version;		/* of its data, as last seen; -1 if that may
								 * not be read */
	int32_t		watched_version;	/* likewise of the one watched
									 * (semaphore.c) */
	ZkLockRequest request;
	ZkContenderState state;
	ZkContenderState end;		/* ZK_LOST, ZK_FAILED, or ZK_NONE */
	ZkError		error;
	ZkLoss		loss;
	const char *node;			/* MailboxSlot.node */
	char	   *owner;			/* malloc'd data of the znode */
	int			owner_len;
	char		base[ZK_NAME_SIZE]; /* its name up to the number */
	char		name[ZK_NAME_SIZE]; /* its name; empty while unknown */
	char		detail[ZK_DETAIL_SIZE];
	char	   *watched;		/* malloc'd path of the one waited for */
	char	   *second_watch;	/* malloc'd path of the one before that, while
								 * it is watched as well; or NULL */
	char	   *to_watch;		/* malloc'd names of others to watch, each
								 * with a NUL, an empty one at the end; or
								 * NULL */
	int			watches_asked;	/* bytes of them that were asked for */
	int			watches_answered;	/* and answered */
	char		rival[ZK_NAME_SIZE];	/* makes an upgrade a deadlock; or
										 * empty */
	char		blocker_owner[ZK_OWNER_SIZE];	/* data of the one watched */
	int64_t		blocker_session;	/* whose that is */
	char		holder[ZK_NAME_SIZE];	/* first in the queue */
	int			ahead;
	int			position;
	int64_t		token;
	ZkTime		proved_at;
	ZkTime		asked_at;		/* when the last renewal with it was sent; 0
								 * if there is to be another one at once */
	ZkTime		lease_end;
	ZkTime		presumed_lost;
	ZkTime		granted_at;
	bool		overdue;		/* for longer, by a commit that is under way */
	ZkTime		retry_at;		/* not before then; 0 if there is nothing to
								 * try again */
	ZkTime		doubted_since;	/* when its create was found not to have been
								 * executed, which it may be yet; or 0 */
	ZkTime		watch_at;		/* not before then is its own znode watched */
	Refusal		refusal;		/* to be explained; then it fails */
	RecordBuffer *record;		/* MailboxSlot.record; NULL without a record */
	Marking		marking;
	zoo_op_result_t results[ZK_OWN_OPS];	/* of a multi-op of its own;
											 * written by the library */
};

extern void zk_contender_path(const Contender *c, const char *name,
							  char *path);
extern bool zk_contender_sent(ZkClient *client, int slot, void *context,
							  int rc);
extern void zk_contender_retry(ZkClient *client, Contender *c);
extern void zk_contender_publish(ZkClient *client, int slot, bool wake);
extern void zk_contender_new_name(ZkClient *client, Contender *c);
extern void zk_contender_forget(Contender *c);
extern void zk_contender_drop_second_watch(Contender *c);
extern void zk_contender_unwatch(Contender *c);
extern void zk_contender_watch_own_in(Contender *c, ZkTime delay);
extern void zk_contender_placed(Contender *c, const ZkQueueEntry *entries,
								const ZkVerdict *verdict);
extern void zk_contender_seen_ahead(ZkClient *client, int slot, const char *name,
									const struct Stat *stat);
extern void zk_contender_blocker_known(ZkClient *client, int slot,
									   const char *value, int value_len,
									   const struct Stat *stat);
extern Contender *zk_contender_use(ZkClient *client, int slot,
								   const char *node, ZkMode mode);
extern void zk_contender_set_lease(ZkClient *client, Contender *c,
								   ZkProof proof);
extern void zk_contender_proved(ZkClient *client, int slot, ZkProof proof);
extern void zk_contender_cut_lease(ZkClient *client, int slot, ZkTime since);
extern void zk_contender_grant(ZkClient *client, int slot);
extern void zk_contender_fail(ZkClient *client, int slot, ZkError error,
							  const char *fmt,...)
			__attribute__((format(printf, 4, 5)));
extern void zk_contender_lose(ZkClient *client, int slot, ZkLoss loss,
							  const char *detail);
extern void zk_contender_unqueued(ZkClient *client, int slot);
extern void zk_contender_vanished(ZkClient *client, int slot);
extern void zk_contender_parent_missing(Contender *c);
extern void zk_contender_pass_record(Contender *to, Contender *from);
extern void zk_contender_missing(ZkClient *client, int slot);
extern void zk_contender_stuck(ZkClient *client, int slot, bool deleting);
extern void zk_contender_give_up_partner(ZkClient *client, Contender *c);
extern void zk_contender_end(ZkClient *client, int slot, bool abandon);
extern void zk_contender_reap_elsewhere(ZkClient *client, const Contender *c);
extern bool zk_contender_doubted(ZkClient *client, int slot);

/*
 * Is there a mark that has to go with the contender?  Not that of a lock that
 * was lost.  engine_lock.
 */
static inline bool
zk_mark_to_go(const Contender *contender)
{
	return contender->marking.own != MARK_ABSENT && contender->end != ZK_LOST;
}

/*
 * Is all there is of the contender a create that may be executed late (Q7)?
 * Nobody wants it any more, and its name is not known.  engine_lock.
 */
static inline bool
zk_is_doubted(const Contender *contender)
{
	return contender->doubted_since != 0 && contender->name[0] == '\0';
}

#endif							/* ZKLOCK_CONTENDER_H */
