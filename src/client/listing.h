/*-------------------------------------------------------------------------
 *
 * listing.h
 *	  What a query that reads has met, and the listing that the backend gets.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LISTING_H
#define ZKLOCK_LISTING_H

#include "client.h"

/* What to ask for about an item. */
typedef enum Ask
{
	ASK_NOTHING,				/* its name will do */
	ASK_CHILDREN,
	ASK_STAT,
	ASK_DATA,
	ASK_ACL						/* why its children may not be listed */
} Ask;

typedef enum ItemStep
{
	ITEM_TODO,
	ITEM_ASKED,
	ITEM_DONE
} ItemStep;

/* Something that a query has met. */
typedef struct Item
{
	ItemStep	step;
	Ask			ask;			/* what is asked for next, or was last */
	int			above;			/* item that this is a child of; -1 for one
								 * known by its path */
	int			first;			/* its first child of interest */
	int			count;			/* and how many, in queue order */
	int			size;			/* of a contender: bytes of its data */
	char	   *path;			/* malloc'd; NULL for a child */
	ZkQueueMember member;		/* of a child; czxid is 0 until it is known */
} Item;

extern void zk_member_fill(ZkQueueMember *member, const char *value,
						   int value_len, const struct Stat *stat);
extern ZkQueueListing *zk_listing_make(ZkQueryKind kind, Item *items, int count);
extern void zk_items_free(Item *items, int count);

#endif							/* ZKLOCK_LISTING_H */
