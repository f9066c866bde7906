/*-------------------------------------------------------------------------
 *
 * mark.h
 *	  The mark of a contender itself: whether it exists, and its end.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/mark.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_MARK_H
#define ZKLOCK_MARK_H

#include "client.h"
#include "record.h"

/* Whether a contender's mark exists; mark.c draws the transitions. */
typedef enum MarkState
{
	MARK_ABSENT,
	MARK_UNKNOWN,				/* something was sent, and not answered */
	MARK_THERE,
	MARK_ORPHANED				/* maybe, while its contender is gone */
} MarkState;

/* The mark of a contender itself.  Written by mark.c.  engine_lock. */
typedef struct OwnMark
{
	MarkState	state;
	int			ops;			/* about it, in the multi-op on its way */
} OwnMark;

extern void zk_mark_set(Contender *c, MarkState state);
extern bool zk_mark_to_go(const Contender *c);
extern void zk_mark_path(const Contender *c, const char *name, char *path);
extern int	zk_mark_ops(const ZkClient *client, Contender *c,
						const Contender *from, zoo_op_t *ops,
						char paths[2][ZK_MARK_PATH_SIZE]);
extern bool zk_mark_to_blame(const Contender *contender, int before);
extern void zk_send_mark_delete(ZkClient *client, int slot);

#endif							/* ZKLOCK_MARK_H */
