/*-------------------------------------------------------------------------
 *
 * zklock.h
 *	  What the files of backend/ share.
 *
 * Calls point down only, from zklock.c and funcs.c to the client API
 * (zkclient/); src/README has the order of the files.  All of backend/ runs on
 * the backend's own thread.  The comment of a function names the errors that it
 * throws itself; those of the functions that it calls pass through it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_H
#define ZKLOCK_H

#include "compat.h"
#include "datatype/timestamp.h"
#include "zk_types.h"

/* A lock was lost; the class is outside the range reserved by the standard. */
#define ERRCODE_ZK_LOCK_LOST	MAKE_SQLSTATE('Z', 'K', 'L', '0', '1')

typedef enum LockScope
{
	SCOPE_SESSION,				/* until released or the backend exits */
	SCOPE_TRANSACTION			/* until commit or rollback */
} LockScope;

/* A lock as the caller names it, and the lock node that stands for it. */
typedef struct LockName
{
	const char *path;			/* in the server encoding */
	char		node[ZK_NODE_PATH_SIZE];	/* with the root, in UTF-8 */
	int			root_len;		/* of the root, in bytes */
} LockName;

#endif							/* ZKLOCK_H */
