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
