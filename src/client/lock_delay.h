/*-------------------------------------------------------------------------
 *
 * lock_delay.h
 *	  Lock delay: the marks of a lock's holders, and who has left one behind.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/lock_delay.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LOCK_DELAY_H
#define ZKLOCK_LOCK_DELAY_H

#include "client.h"

extern bool zk_marks_queue_listed(Contender *contender,
								  const struct String_vector *list);
extern void zk_send_marks(ZkClient *client, int slot);
extern bool zk_marks_advance(ZkClient *client, int slot);
extern void zk_marks_forget(Contender *contender);
extern ZkTime zk_marks_due(const ZkClient *client, const Contender *contender);
extern int	zk_mark_ops(const ZkClient *client, const Contender *contender,
						const char *to, zoo_op_t *ops,
						char paths[2][ZK_MARK_PATH_SIZE]);
extern bool zk_mark_to_blame(const Contender *contender, int before);
extern void zk_send_mark_delete(ZkClient *client, int slot);

#endif							/* ZKLOCK_LOCK_DELAY_H */
