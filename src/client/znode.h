/*-------------------------------------------------------------------------
 *
 * znode.h
 *	  The znode of a contender: its names, and whether it exists.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZNODE_H
#define ZKLOCK_ZNODE_H

#include "client.h"

/* Longest path of a contender of our own, terminating NUL included. */
#define ZK_CONTENDER_PATH_SIZE	(ZK_NODE_PATH_SIZE + ZK_NAME_SIZE)

/* Whether a contender's znode exists; znode.c draws the transitions. */
typedef enum Existence
{
	ZNODE_ABSENT,				/* certainly not */
	ZNODE_UNCERTAIN,			/* maybe, under a name that is not known */
	ZNODE_SETTLED,				/* the same, and what is read now shows it */
	ZNODE_NAMED					/* yes, or it did a moment ago, by this name */
} Existence;

/* The znode of a contender.  Written by znode.c.  engine_lock. */
typedef struct Znode
{
	Existence	existence;
	uint32_t	incarnation;	/* bumped with each new identity (base) */
	char		base[ZK_NAME_SIZE]; /* its name up to the number */
	char		name[ZK_NAME_SIZE]; /* its name; empty unless NAMED */
	int64_t		token;			/* its czxid, or what it has in place of that */
	ZkTime		doubted_since;	/* when its create was found not to have been
								 * executed, which it may be yet; or 0 */
} Znode;

extern void zk_znode_begin(Contender *c, uint32_t incarnation);
extern void zk_znode_new_base(ZkClient *client, Contender *c);
extern void zk_znode_set(Contender *c, Existence existence);
extern void zk_znode_set_name(Contender *c, const char *name);
extern bool zk_znode_take_place(Contender *c, const Contender *from);
extern void zk_znode_set_orphan(Contender *c, const char *name);
extern void zk_znode_set_token(Contender *c, int64_t token);
extern void zk_znode_doubt(Contender *c, ZkTime since);
extern void zk_znode_copy(Contender *c, const Contender *from);
extern bool zk_znode_is_doubted(const Contender *c);
extern void zk_contender_path(const Contender *c, const char *name, char *path);

#endif							/* ZKLOCK_ZNODE_H */
