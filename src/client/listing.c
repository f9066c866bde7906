/*-------------------------------------------------------------------------
 *
 * listing.c
 *	  What a query that reads has met, and the listing that the backend gets.
 *
 * Pure functions.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "listing.h"
#include "queue.h"

/* Free the items and all they have. */
void
zk_items_free(Item *items, int count)
{
	for (int i = 0; i < count; i++)
	{
		free(items[i].path);
		free(items[i].member.name);
		free(items[i].member.data);
	}
	free(items);
}

/*
 * Fill in what the answer to a get says of a contender, or just its Stat (value
 * is NULL).
 */
void
zk_member_fill(ZkQueueMember *member, const char *value, int value_len,
			   const struct Stat *stat)
{
	member->czxid = stat->czxid;
	member->mzxid = stat->mzxid;
	member->session_id = stat->ephemeralOwner;
	member->ctime_ms = stat->ctime;
	if (value_len <= 0)
		return;
	member->data = malloc((size_t) value_len);
	if (member->data == NULL)
		return;
	memcpy(member->data, value, (size_t) value_len);
	member->data_len = value_len;
}

bool
zk_member_gone(const ZkQueueMember *member)
{
	return member->czxid == 0 && !member->hidden;
}

/* Put the children of an item that have gone behind the others. */
static void
drop_gone(Item *items, Item *item)
{
	int			kept = item->first;

	for (int i = item->first; i < item->first + item->count; i++)
	{
		Item		child = items[i];

		if (child.ask != ASK_NOTHING && zk_member_gone(&child.member))
			continue;
		items[i] = items[kept];
		items[kept++] = child;
	}
	item->count = kept - item->first;
}

/*
 * See which contenders of a lock node hold the lock.  False if out of memory.
 */
static bool
find_holders(Item *items, Item *lock)
{
	size_t		count = (size_t) lock->count;
	ZkQueueEntry *entries = malloc(sizeof(ZkQueueEntry) * count);
	int64_t    *owners = malloc(sizeof(int64_t) * count);
	bool	   *granted = malloc(sizeof(bool) * count);
	bool		good = entries != NULL && owners != NULL && granted != NULL;

	for (int i = 0; good && i < lock->count; i++)
	{
		const ZkQueueMember *member = &items[lock->first + i].member;

		zk_queue_parse(member->name, &entries[i]);
		owners[i] = member->session_id;
	}
	if (good)
	{
		lock->member.holders = zk_queue_all_granted(entries, owners, lock->count, granted);
		lock->member.waiters = lock->count - lock->member.holders;
	}
	for (int i = 0; good && i < lock->count; i++)
		items[lock->first + i].member.granted = granted[i];
	free(granted);
	free(owners);
	free(entries);
	return good;
}

/*
 * Move an item's children to the listing: all of them, or of a tree just the
 * first, which stands for its lock.  False if out of memory.
 */
static bool
list_children(ZkQueryKind kind, Item *items, Item *item, ZkQueueListing *listing)
{
	ZkQueueMember *first = &listing->members[listing->count];

	drop_gone(items, item);
	if (item->count == 0)
		return true;
	if ((kind == ZK_QUERY_QUEUE || kind == ZK_QUERY_TREE) && !find_holders(items, item))
		return false;
	for (int i = 0; i < (kind == ZK_QUERY_TREE ? 1 : item->count); i++)
	{
		ZkQueueMember *member = &items[item->first + i].member;

		listing->members[listing->count++] = *member;
		memset(member, 0, sizeof(*member));
	}
	if (kind == ZK_QUERY_TREE || (kind == ZK_QUERY_WAITS && item != items))
	{
		first->node = item->path;
		first->holders = item->member.holders;
		first->waiters = item->member.waiters;
		item->path = NULL;
	}
	if (kind == ZK_QUERY_WAITS && item == items)
		listing->waits = listing->count;
	return true;
}

/* Order of two locks, for qsort(): by the bytes of their paths. */
static int
compare_locks(const void *a, const void *b)
{
	return strcmp(((const ZkQueueMember *) a)->node,
				  ((const ZkQueueMember *) b)->node);
}

/*
 * Make the answer to a query of what it has met; NULL if out of memory.  The
 * strings of what is listed pass from the items to the listing.
 */
ZkQueueListing *
zk_listing_make(ZkQueryKind kind, Item *items, int count)
{
	ZkQueueListing *listing = calloc(1, sizeof(ZkQueueListing));
	bool		good = listing != NULL;

	if (good)
	{
		listing->members = calloc((size_t) count, sizeof(ZkQueueMember));
		good = listing->members != NULL;
	}
	for (int i = 0; good && i < count; i++)
		good = list_children(kind, items, &items[i], listing);
	if (!good)
	{
		zk_queue_free(listing);
		return NULL;
	}
	if (kind == ZK_QUERY_TREE)
		qsort(listing->members, (size_t) listing->count, sizeof(ZkQueueMember),
			  compare_locks);
	return listing;
}
