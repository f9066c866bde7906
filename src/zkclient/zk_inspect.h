/*-------------------------------------------------------------------------
 *
 * zk_inspect.h
 *	  Contenders of other clients: list them, list waits, break one.
 *
 * Part of the interface between the worlds: see zk_session.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZK_INSPECT_H
#define ZK_INSPECT_H

#include "zk_record.h"
#include "zk_types.h"

/*
 * Limits of one read of a tree: znodes, contenders included; bytes; and bytes
 * of one contender's data (ours are shorter).
 */
#define ZK_TREE_MAX_ZNODES	100000
#define ZK_TREE_MAX_BYTES	(32 * 1024 * 1024)
#define ZK_TREE_MAX_DATA	4096

/*
 * Limits of one read of published waits: waits; znodes, the contenders of
 * their locks included; bytes; and bytes of one wait.
 */
#define ZK_WAITS_MAX		2000
#define ZK_WAITS_MAX_ZNODES	20000
#define ZK_WAITS_MAX_BYTES	(8 * 1024 * 1024)
#define ZK_WAIT_MAX_TEXT	(96 * 1024)

/*
 * A contender in a queue that was read, a broken one, or the first holder of a
 * lock in a tree.
 */
typedef struct ZkQueueMember
{
	char	   *name;
	ZkMode		mode;
	bool		granted;
	bool		own;			/* one of this client's contenders */
	bool		hidden;			/* only its name may be read */
	int64_t		sequence;
	int64_t		session_id;		/* ephemeralOwner; 0 for a persistent node */
	int64_t		czxid;
	int64_t		mzxid;
	int64_t		ctime_ms;		/* server's wall clock, since 1970 */
	char	   *data;			/* not NUL-terminated, untrusted; NULL if
								 * empty */
	int			data_len;

	/*
	 * In a tree only: the lock node, and the contenders below it.  Among
	 * waits: the lock node, of its first contender only.
	 */
	char	   *node;
	int			holders;
	int			waiters;
} ZkQueueMember;

typedef struct ZkQueueListing
{
	ZkError		error;			/* then count is 0 */
	char		detail[ZK_DETAIL_SIZE];
	int			count;			/* contenders, in queue order */
	int			forbidden;		/* in a tree: znodes that may not be listed;
								 * detail is the path of one, maybe cut */
	ZkRecord	record;			/* if it was requested; then count is 0 */
	int			waits;			/* of waits: their number; the members behind
								 * them are contenders */
	ZkQueueMember *members;
} ZkQueueListing;

/* What the backend wants to know of, or do to, the contenders of others. */
typedef enum ZkQueryKind
{
	ZK_QUERY_QUEUE,				/* the queue below a lock node, no older than
								 * this call */
	ZK_QUERY_HEAD,				/* the same, but only what the server knows
								 * now, and of the first contender that is not
								 * this client's; of the others only mode and
								 * number.  Two requests, however long the
								 * queue is */
	ZK_QUERY_TREE,				/* the locks at and below a znode */
	ZK_QUERY_RECORD,			/* zk_record_request() */
	ZK_QUERY_WAITS,				/* waits published below a znode, and the
								 * queues that they are in */
	ZK_QUERY_REVOKE,			/* zk_queue_break() */
	ZK_QUERY_BREAK
} ZkQueryKind;

/*
 * Reads a queue, its head, a tree, or waits.  zk_queue_take() returns NULL
 * until the answer has arrived, then the listing, which the caller frees with
 * zk_queue_free().  There is one query at a time: a new request, or
 * zk_queue_cancel(), drops the previous one.
 *
 * A tree is no older than this call: one member for each lock that has a
 * contender, by path, which describes its first holder.  Leaves out a child of
 * that name (NULL for none, as for the other kinds) of the znode itself, and
 * data longer than ZK_TREE_MAX_DATA.  Resumes after the loss of a connection.
 *
 * Of waits, the first members are these, each with the ZooKeeper session and
 * the mzxid of its znode; then follow the contenders of each lock, in queue
 * order, the first one with the lock node.  Owner and data are known only of
 * those that hold the lock (zk_queue_front).  Begins when this client's own
 * wait is published.
 *
 * Both fail with ZK_ERR_TREE if there is too much to read.
 */
extern void zk_query_request(ZkClient *client, ZkQueryKind kind,
							 const char *node, const char *name);
extern ZkQueueListing *zk_queue_take(ZkClient *client);
extern void zk_queue_cancel(ZkClient *client);
extern void zk_queue_free(ZkQueueListing *listing);

/*
 * Returns true if a listed member was deleted before it could be read; one
 * that an ACL hides was not.  For any thread; reads only the member.
 */
extern bool zk_member_gone(const ZkQueueMember *member);

/*
 * Reads the record of a lock node, an empty one if there is none; root is
 * ZkLockRequest.root.  Counts as a read of a queue.
 */
extern void zk_record_request(ZkClient *client, const char *node,
							  const char *root);

/*
 * Publishes what this client waits for: text, in the format of waitgraph.c, of
 * less than ZK_WAIT_MAX_TEXT bytes, copied.  It becomes the data of an
 * ephemeral child of a znode (parent), which is created if it is missing, and
 * replaces what was published before.  A failure is only logged.
 */
extern void zk_wait_publish(ZkClient *client, const char *parent,
							const char *text, size_t len);

/*
 * Deletes what was published, if anything.  As for an abandoned contender, the
 * client repeats that until it succeeds.  Allocates nothing, and cannot fail.
 */
extern void zk_wait_withdraw(ZkClient *client);

/*
 * The zxid of the publication, 0 if it is still to be made.  It changes when
 * that is repeated, for example after the loss of a connection.
 */
extern int64_t zk_wait_zxid(ZkClient *client);

/*
 * Breaks another client's contender (name, which passed zk_contender_check())
 * below a lock node: asks its owner to give it up, and deletes it if that does
 * not happen soon.  "who", one line of JSON, tells the owner who asks.  With
 * only_revoke, only requests the lock from its owner, as Curator's Revoker
 * does.
 *
 * zk_queue_take() returns the answer: the contender as it was found, or an
 * empty listing if there is none.  Counts as a read of a queue, and replaces a
 * pending one.  Restarts if the connection is lost.  After zk_queue_cancel()
 * it may still take effect.
 */
extern void zk_queue_break(ZkClient *client, const char *node,
						   const char *name, const char *who,
						   bool only_revoke);

#endif							/* ZK_INSPECT_H */
