/*-------------------------------------------------------------------------
 *
 * marker.h
 *	  The marker of a contender itself: whether it exists, and its end.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_MARKER_H
#define ZKLOCK_MARKER_H

#include "client.h"
#include "record.h"

/* Whether a contender's marker exists; marker.c draws the transitions. */
typedef enum MarkerState
{
	MARKER_ABSENT,
	MARKER_UNKNOWN,				/* something was sent, and not answered */
	MARKER_THERE,
	MARKER_ORPHANED				/* maybe, while its contender is gone */
} MarkerState;

/* The marker of a contender itself.  Written by marker.c.  engine_lock. */
typedef struct OwnMarker
{
	MarkerState state;
	int			ops;			/* about it, in the multi-op on its way */
} OwnMarker;

extern void zk_marker_set(Contender *c, MarkerState state);
extern bool zk_marker_to_go(const Contender *c);
extern void zk_marker_path(const Contender *c, const char *name, char *path);
extern int	zk_marker_ops(const ZkClient *client, Contender *c,
						  const Contender *from, zoo_op_t *ops,
						  char paths[2][ZK_MARKER_PATH_SIZE]);
extern bool zk_marker_to_blame(const Contender *contender, int before);
extern void zk_send_marker_delete(ZkClient *client, Contender *c);

#endif							/* ZKLOCK_MARKER_H */
