/*-------------------------------------------------------------------------
 *
 * zk_inspect.h
 *	  The contenders of others: see them, see who waits, break one.
 *
 * Part of the interface between the worlds: see zk_session.h.
 *
 * IDENTIFICATION
 *	  src/zkclient/zk_inspect.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZK_INSPECT_H
#define ZK_INSPECT_H

#include "zk_record.h"
#include "zk_types.h"

/*
 * What one read of a tree visits and keeps: znodes, contenders included; bytes;
 * and bytes of a contender's data, of which one of ours has fewer.
 */
#define ZK_TREE_MAX_ZNODES	100000
#define ZK_TREE_MAX_BYTES	(32 * 1024 * 1024)
#define ZK_TREE_MAX_DATA	4096

/*
 * What one read of published waits visits and keeps: waits; znodes, their
 * locks' contenders included; bytes; and bytes of one wait.
 */
#define ZK_WAITS_MAX		2000
#define ZK_WAITS_MAX_ZNODES	20000
#define ZK_WAITS_MAX_BYTES	(8 * 1024 * 1024)
#define ZK_WAIT_MAX_TEXT	(96 * 1024)

/*
 * One contender in a queue that was read, or one that was broken, or the first
 * holder of one of the locks in a tree.
 */
typedef struct ZkQueueMember
{
	char	   *name;
	ZkMode		mode;
	bool		granted;
	bool		own;			/* one of this client's contenders */
	bool		hidden;			/* no more than its name may be read */
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
								 * the detail is the path of one, maybe cut
								 * short */
	ZkRecord	record;			/* if that was read; then count is 0 */
	int			waits;			/* among waits: so many members are such, and
								 * behind them are contenders */
	ZkQueueMember *members;
} ZkQueueListing;

/*
 * Read the queue below a lock node, as it is when this is called, or later.
 * zk_queue_take() returns NULL until the answer is there, then the listing, to
 * be freed by zk_queue_free().  One read at a time: a new request, or
 * zk_queue_cancel(), drops the one before.
 */
extern void zk_queue_request(ZkClient *client, const char *node);

/*
 * Likewise, but only what the server knows now, and of the contenders
 * themselves only the first one that is not this client's; of the others there
 * are mode and number.  So it takes two requests however long the queue is.
 */
extern void zk_head_request(ZkClient *client, const char *node);
extern ZkQueueListing *zk_queue_take(ZkClient *client);
extern void zk_queue_cancel(ZkClient *client);
extern void zk_queue_free(ZkQueueListing *listing);

/*
 * Has a member that was listed by name gone before more of it could be read?
 * One that an ACL hides has not.  Any thread; sees the member only.
 */
extern bool zk_member_gone(const ZkQueueMember *member);

/*
 * Read the locks at and below a znode, not from before this call: one member
 * for each that has a contender, by path, which stands for its first holder.  A
 * child of that name (except, or NULL) of the znode itself is left out.  Counts
 * as a read of a queue; if the connection is lost it goes on where it was.
 * Longer data than ZK_TREE_MAX_DATA is left out.  ZK_ERR_TREE when there is too
 * much to be read.
 */
extern void zk_tree_request(ZkClient *client, const char *node,
							const char *except);

/*
 * Read the record of a lock node; root is ZkLockRequest.root.
 * Counts as a read of a queue; it is empty if there is none.
 */
extern void zk_record_request(ZkClient *client, const char *node,
							  const char *root);

/*
 * Publish what this client waits for: text, of less than ZK_WAIT_MAX_TEXT
 * bytes, copied, as data of an ephemeral child of a znode (parent), which is
 * made if it is missing.  The text is as waitgraph.c has it.  It takes the
 * place of what was published before.  If it cannot be published that is
 * logged, and nothing else comes of it.
 */
extern void zk_wait_publish(ZkClient *client, const char *parent,
							const char *text, size_t len);

/*
 * Have it deleted, if there is something; as with a contender that was
 * abandoned, the client sees to it.  Allocates nothing, and cannot fail.
 */
extern void zk_wait_withdraw(ZkClient *client);

/*
 * The zxid at which what is to be published was, 0 if it is not yet.  It
 * changes when that was done anew, as after the loss of a connection.
 */
extern int64_t zk_wait_zxid(ZkClient *client);

/*
 * Read the waits that are published below a znode, and the queues that they are
 * in.  The members are the waits first, each with the ZooKeeper session and the
 * mzxid of its znode; then the contenders of each lock, in queue order, the
 * first with the lock node.  Only of those that hold the lock (zk_queue_front)
 * are owner and data known.  Counts as a read of a queue; it begins when what
 * this client publishes is there.  ZK_ERR_TREE when there is too much to be
 * read.
 */
extern void zk_waits_request(ZkClient *client, const char *parent);

/*
 * Break a contender of somebody else's (name, passed zk_contender_check())
 * below a lock node: have its owner give it up, and delete it if that is not
 * done in a moment.  "who", one line of JSON, tells its owner on whose behalf.
 * Or, if only asked to revoke, leave word for its owner that the lock is wanted
 * back, as Curator's Revoker does.
 *
 * The answer is taken with zk_queue_take(): the contender as it was found, or
 * an empty listing if there is none.  Counts as a read of a queue: it takes the
 * place of one that is under way.  If the connection is lost it is begun anew.
 * Given up with zk_queue_cancel(), it may yet be carried out.
 */
extern void zk_queue_break(ZkClient *client, const char *node,
						   const char *name, const char *who,
						   bool only_revoke);

#endif							/* ZK_INSPECT_H */
