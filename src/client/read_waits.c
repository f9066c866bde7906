/*-------------------------------------------------------------------------
 *
 * read_waits.c
 *	  Reading published waits, and the queues they are in, for a backend that
 *	  looks for a deadlock.
 *
 * The walk is one of those of read_tree.c, along other ways.  Its first item is
 * the parent of the published waits.  These are its "contenders", whose data is
 * read; each lock node that is named there becomes an item; of its queue the
 * contenders are listed, and those are read that hold the lock.
 *
 * What others have published may be anything: waitgraph.c takes no text apart
 * that is not as it should be, and the whole has limits.
 *
 * All functions run on client threads under engine_lock.
 *
 * IDENTIFICATION
 *	  src/client/read_waits.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "publish_wait.h"
#include "queue.h"
#include "read_queue.h"
#include "read_tree.h"
#include "read_waits.h"
#include "request.h"
#include "waitgraph.h"

/*
 * Add the published waits.
 */
static void
add_waits(ZkClient *client, const struct String_vector *children)
{
	TreeRead   *tree = client->tree;
	bool		good = zk_tree_make_room(client, children->count);

	if (good && children->count > ZK_WAITS_MAX)
	{
		zk_tree_failed(client, ZK_ERR_TREE, "Too many sessions are waiting.");
		return;
	}
	if (good)
	{
		tree->items[0].first = tree->count;
		tree->items[0].contenders = children->count;
	}
	for (int i = 0; good && i < children->count; i++)
		good = zk_tree_add(client, NULL, strdup(children->data[i]), 0);
}

/*
 * Add the queue of a lock.  Of its contenders only those are to be read that
 * hold it.
 */
static void
add_queue(ZkClient *client, int lock, const struct String_vector *children)
{
	TreeRead   *tree = client->tree;
	ZkQueueEntry *entries;
	int			first;
	int			count;

	if (!zk_tree_make_room(client, children->count) ||
		!zk_tree_add_contenders(client, lock, children))
		return;
	first = tree->items[lock].first;
	count = tree->items[lock].contenders;
	entries = malloc(sizeof(ZkQueueEntry) * (size_t) (count + 1));
	if (entries == NULL)
	{
		zk_tree_failed(client, ZK_ERR_NO_MEMORY, "Out of memory.");
		return;
	}
	for (int i = 0; i < count; i++)
		zk_queue_parse(tree->items[first + i].member.name, &entries[i]);
	for (int i = zk_queue_front(entries, count); i < count; i++)
		tree->items[first + i].step = TREE_DONE;
	free(entries);
}

static void
on_children(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;

	(void) zk_tree_answered(client, which);
	if (rc == ZOK && which == 0)
		add_waits(client, answer->children);
	else if (rc == ZOK)
		add_queue(client, which, answer->children);
	else if (rc == ZNOAUTH)
		zk_tree_forbidden(client, which);
	else if (rc != ZNONODE)
		zk_tree_refused(client, which, rc);
	zk_waits_advance(client);
}

/*
 * Add the lock nodes that a published wait names, each once.
 */
static void
add_locks(ZkClient *client, const char *text, int len)
{
	NameSet    *nodes = &client->tree->nodes;
	ZkWaitedFor lock;
	int			at = 0;

	while (zk_wait_next(text, len, &at, &lock))
	{
		size_t		node_len = (size_t) lock.node_len;

		if (zk_nameset_has(nodes, lock.node, node_len))
			continue;
		if (!zk_tree_make_room(client, 1))
			return;
		if (!zk_nameset_add(nodes, lock.node, node_len))
		{
			zk_tree_failed(client, ZK_ERR_NO_MEMORY, "Out of memory.");
			return;
		}
		if (!zk_tree_add(client, strndup(lock.node, node_len), NULL, -1))
			return;
	}
}

/*
 * The data of a published wait, or of a holder.  Who has gone, or may not be
 * read, is left out.
 */
static void
on_data(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;
	TreeItem   *item = zk_tree_answered(client, which);
	int			limit = item->lock == 0 ? ZK_WAIT_MAX_TEXT : ZK_TREE_MAX_DATA;
	int			len = answer->len > limit ? 0 : answer->len;

	item->data_known = true;
	if (rc == ZOK)
	{
		zk_member_fill(&item->member, answer->text, len, answer->stat);
		if (zk_tree_reserve(client, (size_t) item->member.data_len) &&
			item->lock == 0 && answer->stat->ephemeralOwner != 0)
			add_locks(client, answer->text, len);
	}
	else if (rc != ZNONODE && rc != ZNOAUTH)
	{
		item->data_known = false;
		zk_tree_refused(client, which, rc);
	}
	zk_waits_advance(client);
}

/*
 * Ask for an item: the children of a znode, or the data of a published wait or
 * of a holder.  Returns the library's answer.
 */
static int
ask(ZkClient *client, const TreeItem *item, const char *path,
	void *context)
{
	zk_request_expect(client, context, item->lock < 0 ? on_children : on_data);
	if (item->lock < 0)
		return zoo_aget_children(client->connection.zh, path, 0, zk_on_children, context);
	return zoo_aget(client->connection.zh, path, 0, zk_on_data, context);
}

/*
 * Move those below one item to the listing that have not gone.  The first gets
 * the path of the item if it is a lock node.
 */
static void
hand_over(TreeRead *tree, int parent, ZkQueueListing *listing)
{
	TreeItem   *above = &tree->items[parent];
	int			first = listing->count;

	for (int i = above->first; i < above->first + above->contenders; i++)
	{
		TreeItem   *item = &tree->items[i];
		ZkQueueEntry entry;

		if (item->member.czxid == 0 && (parent == 0 || item->data_known))
			continue;
		if (parent > 0 && zk_queue_parse(item->member.name, &entry))
		{
			item->member.mode = entry.mode;
			item->member.sequence = entry.sequence;
		}
		listing->members[listing->count++] = item->member;
		memset(&item->member, 0, sizeof(ZkQueueMember));
	}
	if (parent == 0 || listing->count == first)
		return;
	listing->members[first].node = above->path;
	above->path = NULL;
}

/* The walk is over: hand over what was found. */
static void
complete(ZkClient *client)
{
	TreeRead   *tree = client->tree;
	ZkQueueListing *listing = calloc(1, sizeof(ZkQueueListing));

	if (listing != NULL)
		listing->members = calloc((size_t) tree->count, sizeof(ZkQueueMember));
	if (listing == NULL || listing->members == NULL)
	{
		zk_queue_free(listing);
		zk_tree_failed(client, ZK_ERR_NO_MEMORY, "Out of memory.");
		return;
	}
	for (int i = 0; i < tree->count; i++)
	{
		if (tree->items[i].contenders > 0)
			hand_over(tree, i, listing);
		if (i == 0)
			listing->waits = listing->count;
	}
	zk_tree_forget(client);
	zk_query_done(client, listing);
}

/*
 * Do what comes next for the walk, if there is one and it can be done now: not
 * before what this client waits for is published itself.
 */
void
zk_waits_advance(ZkClient *client)
{
	if (zk_publish_settled(client) && zk_tree_ready(client) &&
		zk_tree_all_answered(client, ask))
		complete(client);
}
