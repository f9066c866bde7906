/*-------------------------------------------------------------------------
 *
 * refusal.h
 *	  Why ZooKeeper has refused something: the ACL, or a wrong password?
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_REFUSAL_H
#define ZKLOCK_REFUSAL_H

#include <zookeeper/zookeeper.h>

#include "zk_types.h"

/* Something that an ACL seems to forbid (refusal.c).  engine_lock. */
typedef struct Refusal
{
	char	   *znode;			/* malloc'd; NULL if nothing was refused */
	int			permission;		/* ZOO_PERM_... */
	int			asking;			/* whose ACL is to be read next */
} Refusal;

extern void zk_refusal_note(const ZkClient *client, Refusal *refusal,
							int permission, const char *znode,
							size_t len);
extern void zk_refusal_forget(Refusal *refusal);
extern const char *zk_refusal_next(const ZkClient *client,
								   const Refusal *refusal);
extern ZkError zk_refusal_answer(const ZkClient *client, Refusal *refusal,
								 int rc, const struct ACL_vector *acl);
extern ZkError zk_refusal_plain(const Refusal *refusal);
extern void zk_refusal_describe(const Refusal *refusal, ZkError error,
								char *detail);
extern void zk_contender_refused(ZkClient *client, Contender *c, int permission,
								 const char *znode, size_t len);
extern void zk_contender_impossible(ZkClient *client, Contender *c, int rc,
									int permission, const char *path);
extern void zk_send_inquiry(ZkClient *client, Contender *c);

#endif							/* ZKLOCK_REFUSAL_H */
