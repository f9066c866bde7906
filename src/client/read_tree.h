/*-------------------------------------------------------------------------
 *
 * read_tree.h
 *	  Reading all locks below a znode for somebody who wants to see them.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/read_tree.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_READ_TREE_H
#define ZKLOCK_READ_TREE_H

#include "client.h"
#include "nameset.h"

/* How far one item of a tree has come. */
typedef enum TreeStep
{
	TREE_TODO,
	TREE_ASKED,
	TREE_DONE
} TreeStep;

/*
 * What was met in a tree: a znode that may be a lock node, or (lock is not -1)
 * a contender, of which member says what is known: czxid is 0 before that, and
 * again when it has gone.
 */
typedef struct TreeItem
{
	TreeStep	step;
	int			lock;			/* index of a contender's lock node, or -1 */
	int			first;			/* of a znode: index of its first contender */
	int			contenders;		/* and how many there were, in queue order */
	char	   *path;			/* malloc'd; of a znode */
	int			size;			/* of a contender: bytes of its data */
	bool		data_known;		/* which was asked for, and answered */
	ZkQueueMember member;
} TreeItem;

/* A tree being read for the backend (read_tree.c).  engine_lock. */
struct TreeRead
{
	TreeItem   *items;			/* the first is the znode at the top */
	int			count;
	int			capacity;
	int			next;			/* items before it are asked for, or answered */
	int			pending;		/* answers to come */
	size_t		bytes;			/* that all this takes */
	bool		synced;			/* its server was told to catch up */
	bool		progress;		/* something was answered by this connection */
	bool		lost;			/* something was not, for want of it */
	int			failures;		/* connections in a row without progress */
	int			forbidden;		/* znodes that may not be listed */
	NameSet		nodes;			/* lock nodes that published waits name */
	char		detail[ZK_DETAIL_SIZE]; /* path of the first of them */
};

typedef int (*ZkTreeAsk) (ZkClient *client, const TreeItem *item,
						  const char *path, void *context);
extern void zk_tree_advance(ZkClient *client);
extern void zk_tree_restart(ZkClient *client);
extern void zk_tree_forget(ZkClient *client);
extern void zk_tree_failed(ZkClient *client, ZkError error, const char *detail);
extern bool zk_tree_reserve(ZkClient *client, size_t bytes);
extern bool zk_tree_make_room(ZkClient *client, int more);
extern bool zk_tree_add(ZkClient *client, char *path, char *name, int lock);
extern bool zk_tree_add_contenders(ZkClient *client, int lock,
								   const struct String_vector *children);
extern void zk_tree_forbidden(ZkClient *client, int which);
extern TreeItem *zk_tree_answered(ZkClient *client, int which);
extern void zk_tree_refused(ZkClient *client, int which, int rc);
extern bool zk_tree_all_answered(ZkClient *client, ZkTreeAsk ask_for);
extern bool zk_tree_ready(ZkClient *client);

#endif							/* ZKLOCK_READ_TREE_H */
