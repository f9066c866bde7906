/*-------------------------------------------------------------------------
 *
 * zk_types.h
 *	  Types of the interface: times, modes, errors.
 *
 * Part of the interface between the worlds: see zk_session.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZK_TYPES_H
#define ZK_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Longest path of a lock node (root and lock path), terminating NUL included.
 */
#define ZK_NODE_PATH_SIZE	1024

/* Longest name of a contender of our own, terminating NUL included. */
#define ZK_NAME_SIZE		80

/*
 * Start of the data of a zklock client's contender, and of the data that
 * replaces it when the contender is broken.
 */
#define ZK_OWNER_PREFIX		"{\"cluster\":"
#define ZK_BREAK_PREFIX		"{\"broken\":"

/* All of the data that asks for the release, also of a contender of Curator. */
#define ZK_REVOCATION		"__REVOKE__"

/* Longest kept data of a contender, terminating NUL included: all of ours. */
#define ZK_OWNER_SIZE		1280

/* Longest explanation of an error, terminating NUL included. */
#define ZK_DETAIL_SIZE		256

/*
 * A point in time or a span, in microseconds.  Points are on CLOCK_BOOTTIME,
 * which never steps and continues while the machine is suspended.
 */
typedef int64_t ZkTime;

#define ZK_MS(ms)	((ZkTime) (ms) * 1000)

typedef enum ZkMode
{
	ZK_EXCLUSIVE,
	ZK_SHARED,
	ZK_PERMIT					/* of a semaphore */
} ZkMode;

/* The number of modes, for arrays by mode. */
#define ZK_MODE_COUNT		3

/*
 * The naming of our contenders; doc/interop.md says which styles exclude what.
 */
typedef enum ZkZnodeStyle
{
	ZK_STYLE_CURATOR,			/* Curator's mutex; "__READ__" for shared */
	ZK_STYLE_CURATOR_RW,		/* Curator's read-write lock */
	ZK_STYLE_KAZOO				/* kazoo's Lock and ReadLock */
} ZkZnodeStyle;

/* Reasons of failures. */
typedef enum ZkError
{
	ZK_OK,
	ZK_ERR_UNRESOLVED,			/* no server's name could be resolved */
	ZK_ERR_UNREACHABLE,			/* no server accepts a connection */
	ZK_ERR_CLOSED,				/* the server closes the connection */
	ZK_ERR_NOT_ZOOKEEPER,		/* the peer is not a ZooKeeper server */
	ZK_ERR_AUTH,				/* authentication failed, or is missing */
	ZK_ERR_NO_THREAD,			/* a thread could not be created */
	ZK_ERR_NO_DESCRIPTOR,		/* no file descriptor is available */
	ZK_ERR_NO_MEMORY,
	ZK_ERR_POISONED,			/* the library failed an assertion */
	ZK_ERR_LIMIT,				/* too many contenders or path bytes */
	ZK_ERR_FORBIDDEN,			/* not authorized by an ACL */
	ZK_ERR_REFUSED,				/* the same, or a wrong password */
	ZK_ERR_ACL,					/* the ACL for new znodes was rejected */
	ZK_ERR_QUOTA,				/* quota of the ensemble exceeded */
	ZK_ERR_EPHEMERAL_PARENT,	/* the lock node or a parent is ephemeral */
	ZK_ERR_SEQUENCE,			/* sequence numbers are nearly used up */
	ZK_ERR_TIED,				/* another client has the same number */
	ZK_ERR_VANISHING,			/* the lock node or contender keeps vanishing */
	ZK_ERR_BROKEN,				/* the contender was broken (zk_queue_break) */
	ZK_ERR_TREE,				/* the tree is too large (ZK_QUERY_TREE) */
	ZK_ERR_UNSTEADY,			/* each connection is lost before an answer
								 * (ZK_QUERY_TREE) */
	ZK_ERR_UNQUEUED,			/* of a group: not created, or not in this
								 * ZooKeeper session; may be requested again */
	ZK_ERR_VANISHED,			/* of a group: deleted by another client; may
								 * be requested again */
	ZK_ERR_TLS,					/* no connection over TLS */
	ZK_ERR_TLS_FILES,			/* our certificate, key or CA is unusable */
	ZK_ERR_CERTIFICATE,			/* servers reject our certificate */
	ZK_ERR_SASL,				/* SASL authentication failed */
	ZK_ERR_KIND,				/* a lock instead of a semaphore, or the
								 * reverse, or another number of permits */
	ZK_ERR_UNCERTAIN,			/* of a release: whether the record was
								 * written cannot be known */
	ZK_ERR_OTHER				/* anything else; the detail says what */
} ZkError;

/* Reasons of the loss of a lock. */
typedef enum ZkLoss
{
	ZK_NOT_LOST,
	ZK_LOST_EXPIRED,			/* the ZooKeeper session has expired */
	ZK_LOST_CONTENDER,			/* the contender was deleted */
	ZK_LOST_BROKEN,				/* the contender was broken (zk_queue_break) */
	ZK_LOST_LEASE,				/* not proved in time */
	ZK_LOST_OVERTIME,			/* held for its max_hold */
	ZK_LOST_POISONED			/* the client can no longer prove anything */
} ZkLoss;

/*
 * A contender for the backend: slot and generation in one number.  An id is
 * never reused; 0 is none.
 */
typedef uint64_t ZkContenderId;

typedef struct ZkClient ZkClient;

/* In clock.c: now, on the clock of all ZkTime points. For any thread. */
extern ZkTime zk_now(void);

#endif							/* ZK_TYPES_H */
