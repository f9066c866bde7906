/*-------------------------------------------------------------------------
 *
 * zk_types.h
 *	  What both worlds mean by a time, a mode, an error: the words of the interface.
 *
 * Part of the interface between the worlds: see zk_session.h.
 *
 * IDENTIFICATION
 *	  src/zkclient/zk_types.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZK_TYPES_H
#define ZK_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest path of a lock node (root and lock path), terminating NUL included. */
#define ZK_NODE_PATH_SIZE	1024

/* Longest name of a contender of our own, terminating NUL included. */
#define ZK_NAME_SIZE		80

/*
 * How the data of a contender of a zklock client begins, and what it is changed
 * to when the contender is broken.
 */
#define ZK_OWNER_PREFIX		"{\"cluster\":"
#define ZK_BREAK_PREFIX		"{\"broken\":"

/* What is kept of a contender's data, terminating NUL included: all of ours. */
#define ZK_OWNER_SIZE		1024

/* Longest explanation of an error, terminating NUL included. */
#define ZK_DETAIL_SIZE		256

/*
 * A point in time or a span, in microseconds.  Points are on CLOCK_BOOTTIME,
 * which never steps and goes on while the machine is suspended.
 */
typedef int64_t ZkTime;

#define ZK_MS(ms)	((ZkTime) (ms) * 1000)

typedef enum ZkMode
{
	ZK_EXCLUSIVE,
	ZK_SHARED,
	ZK_PERMIT					/* of a semaphore, which has a number of them */
} ZkMode;

/* How many modes there are, for arrays by mode. */
#define ZK_MODE_COUNT		3

/* Whose names our contenders have; see the README on what excludes what. */
typedef enum ZkZnodeStyle
{
	ZK_STYLE_CURATOR,			/* Curator's mutex; "__READ__" for shared */
	ZK_STYLE_CURATOR_RW,		/* Curator's read-write lock */
	ZK_STYLE_KAZOO				/* kazoo's Lock and ReadLock */
} ZkZnodeStyle;

/* Why something could not be done. */
typedef enum ZkError
{
	ZK_OK,
	ZK_ERR_UNRESOLVED,			/* no server's name could be resolved */
	ZK_ERR_UNREACHABLE,			/* no server accepts us as a client */
	ZK_ERR_CLOSED,				/* likewise: the server closes the connection */
	ZK_ERR_NOT_ZOOKEEPER,		/* what answers is no ZooKeeper ensemble */
	ZK_ERR_AUTH,				/* authentication failed, or is missing */
	ZK_ERR_NO_THREAD,			/* a thread could not be created */
	ZK_ERR_NO_DESCRIPTOR,		/* a descriptor could not be had */
	ZK_ERR_NO_MEMORY,
	ZK_ERR_POISONED,			/* the library failed a check of its own */
	ZK_ERR_LIMIT,				/* too many contenders or path bytes */
	ZK_ERR_FORBIDDEN,			/* not authorized by an ACL */
	ZK_ERR_REFUSED,				/* likewise, or the password is wrong */
	ZK_ERR_ACL,					/* the ACL for new znodes is not accepted */
	ZK_ERR_QUOTA,				/* a quota of the ensemble is used up */
	ZK_ERR_EPHEMERAL_PARENT,	/* the lock node, or one above it, is
								 * ephemeral */
	ZK_ERR_SEQUENCE,			/* sequence numbers are about to run out */
	ZK_ERR_TIED,				/* a stranger has the same sequence number */
	ZK_ERR_VANISHING,			/* the lock node or contender keeps vanishing */
	ZK_ERR_BROKEN,				/* the contender was broken (zk_queue_break) */
	ZK_ERR_TREE,				/* the tree is too large (zk_tree_request) */
	ZK_ERR_UNSTEADY,			/* connections are lost before anything is
								 * answered (likewise) */
	ZK_ERR_UNQUEUED,			/* of a group: not created, or not in this
								 * ZooKeeper session; the group may be asked
								 * for anew */
	ZK_ERR_VANISHED,			/* of a group: deleted by a stranger; likewise */
	ZK_ERR_TLS,					/* no connection by way of TLS */
	ZK_ERR_TLS_FILES,			/* our own certificate, key or CA is of no use */
	ZK_ERR_CERTIFICATE,			/* servers do not accept our certificate */
	ZK_ERR_SASL,				/* SASL authentication failed */
	ZK_ERR_KIND,				/* a lock where a semaphore is asked for, the
								 * reverse, or another number of permits */
	ZK_ERR_OTHER				/* anything else; the detail says what */
} ZkError;

/* Why a lock was lost. */
typedef enum ZkLoss
{
	ZK_NOT_LOST,
	ZK_LOST_EXPIRED,			/* the ZooKeeper session has expired */
	ZK_LOST_CONTENDER,			/* the contender is gone */
	ZK_LOST_BROKEN,				/* likewise: it was broken (zk_queue_break) */
	ZK_LOST_LEASE,				/* not proved in time */
	ZK_LOST_OVERTIME,			/* held for as long as it was to be at most */
	ZK_LOST_POISONED			/* the client can prove nothing any more */
} ZkLoss;

/*
 * A contender as the backend side knows it: slot and generation in one
 * number.  An id is never reused; 0 is none.
 */
typedef uint64_t ZkContenderId;

typedef struct ZkClient ZkClient;

/* in clock.c: now, on the clock that all ZkTime points are on.  Any thread. */
extern ZkTime zk_now(void);

#endif							/* ZK_TYPES_H */
