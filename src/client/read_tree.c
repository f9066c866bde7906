/*-------------------------------------------------------------------------
 *
 * read_tree.c
 *	  Reading all locks below a znode for somebody who wants to see them.
 *
 * A walk has two parts.  First the children of every znode are listed, from the
 * top down: those that are contenders are looked at (their Stat tells whose
 * they are), all others may be lock nodes and are listed in turn.  Then the
 * data of the first holder of each lock is read.  Many requests are on their
 * way at a time; contenders have no children, and nobody looks for any.
 *
 * All that was met is one array, of which the items are worked off in order.
 * What is found is put at its end.  It has an upper limit, in items and in
 * bytes: who wants to see more has to name a path further down.
 *
 * What goes while we walk is left out.  A znode whose children may not be
 * listed is left out, too, and counted; unless it is the one at the top.  When
 * the connection is lost the walk goes on where it was, so it ends even if that
 * happens again and again; but not if nothing at all is answered in between.
 *
 * Reads prove nothing, and they are not made at the same moment: what is seen
 * has been there at some time during the walk, give or take what the server
 * that answers is behind.
 *
 * W5. A tree of locks is read with one request for each znode, one for the Stat
 * of each contender, and one for the data of each first holder.  Nothing below
 * a contender is looked for.  Many are on their way at a time, but room is left
 * for who wants locks meanwhile.  What has been answered is kept when the
 * connection is lost, or a large tree would never be read over a bad one; the
 * items and bytes that are kept are limited.
 *
 * Published waits (read_waits.c) are read as another kind of walk, with the
 * same array.
 *
 * All functions run on client threads under engine_lock.
 *
 * IDENTIFICATION
 *	  src/client/read_tree.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "answer.h"
#include "auth.h"
#include "queue.h"
#include "read_queue.h"
#include "read_tree.h"
#include "request.h"

/* Items there is room for at first. */
#define FIRST_CAPACITY		256

/* Connections lost in a row, with nothing answered, before the walk is given up. */
#define MAX_FAILURES	5

/* Free all that the walk has come to. */
void
zk_tree_forget(ZkClient *client)
{
	TreeRead   *tree = client->tree;

	for (int i = 0; i < tree->count; i++)
	{
		free(tree->items[i].path);
		free(tree->items[i].member.name);
		free(tree->items[i].member.data);
	}
	free(tree->items);
	zk_nameset_free(&tree->nodes);
	memset(tree, 0, sizeof(*tree));
}

/* The walk has failed: say why, and end it. */
void
zk_tree_failed(ZkClient *client, ZkError error, const char *detail)
{
	zk_tree_forget(client);
	zk_query_failed(client, error, detail);
}

/*
 * Something that takes so many bytes is to be kept.  False, and the walk has
 * failed, if that is too much.
 */
bool
zk_tree_reserve(ZkClient *client, size_t bytes)
{
	char		detail[ZK_DETAIL_SIZE];
	size_t		limit = client->query.kind == QUERY_WAITS ?
	ZK_WAITS_MAX_BYTES : ZK_TREE_MAX_BYTES;

	client->tree->bytes += bytes;
	if (client->tree->bytes <= limit)
		return true;
	snprintf(detail, sizeof(detail),
			 "The paths and the contenders' data take more than %d MB.",
			 (int) (limit / (1024 * 1024)));
	zk_tree_failed(client, ZK_ERR_TREE, detail);
	return false;
}

/*
 * Make room for so many more items.  False, and the walk has failed, if there
 * is none.
 */
bool
zk_tree_make_room(ZkClient *client, int more)
{
	TreeRead   *tree = client->tree;
	char		detail[ZK_DETAIL_SIZE];
	int			capacity = tree->capacity > 0 ? tree->capacity : FIRST_CAPACITY;
	int			limit = client->query.kind == QUERY_WAITS ?
	ZK_WAITS_MAX_ZNODES : ZK_TREE_MAX_ZNODES;
	TreeItem   *items;

	if (more > limit - tree->count)
	{
		snprintf(detail, sizeof(detail), "There are more than %d znodes.",
				 limit);
		zk_tree_failed(client, ZK_ERR_TREE, detail);
		return false;
	}
	while (capacity < tree->count + more)
		capacity *= 2;
	if (capacity == tree->capacity)
		return true;
	items = realloc(tree->items, sizeof(TreeItem) * (size_t) capacity);
	if (items == NULL)
	{
		zk_tree_failed(client, ZK_ERR_NO_MEMORY, "Out of memory.");
		return false;
	}
	tree->items = items;
	tree->capacity = capacity;
	return true;
}

/*
 * Add an item, for which there is room: a znode by its path, or a contender by
 * its name and the index of its lock node.  The string, malloc'd, is taken
 * over.  False, and the walk has failed, if it is NULL or too long.
 */
bool
zk_tree_add(ZkClient *client, char *path, char *name, int lock)
{
	TreeRead   *tree = client->tree;
	TreeItem   *item = &tree->items[tree->count];
	const char *string = path != NULL ? path : name;

	if (string == NULL)
	{
		zk_tree_failed(client, ZK_ERR_NO_MEMORY, "Out of memory.");
		return false;
	}
	memset(item, 0, sizeof(*item));
	item->path = path;
	item->member.name = name;
	item->lock = lock;
	tree->count++;
	return zk_tree_reserve(client, sizeof(TreeItem) + strlen(string) + 1);
}

/* The path of a child; malloc'd, NULL if out of memory. */
static char *
child_path(const char *parent, const char *name)
{
	char	   *path;

	return asprintf(&path, "%s/%s", parent, name) < 0 ? NULL : path;
}

/*
 * Add those children of a znode that are contenders, in queue order.  There is
 * room for them.  False if the walk has failed.
 */
bool
zk_tree_add_contenders(ZkClient *client, int lock, const struct String_vector *children)
{
	size_t		room = (size_t) children->count + 1;
	ZkQueueEntry *entries = malloc(sizeof(ZkQueueEntry) * room);
	bool		good = true;
	int			count;

	if (entries == NULL)
	{
		zk_tree_failed(client, ZK_ERR_NO_MEMORY, "Out of memory.");
		return false;
	}
	count = zk_queue_sort((const char *const *) children->data,
						  children->count, entries, NULL);
	client->tree->items[lock].first = client->tree->count;
	client->tree->items[lock].contenders = count;
	for (int i = 0; good && i < count; i++)
		good = zk_tree_add(client, NULL, strdup(entries[i].name), lock);
	free(entries);
	return good;
}

/*
 * Add the children of a znode that are none, but for what is reserved.  There
 * is room for them.  False if the walk has failed.
 */
static bool
add_znodes(ZkClient *client, int parent, const struct String_vector *children)
{
	const char *reserved = parent == 0 ? client->query.name : NULL;
	bool		good = true;

	for (int i = 0; good && i < children->count; i++)
	{
		const char *name = children->data[i];
		ZkQueueEntry entry;

		if (zk_queue_parse(name, &entry) ||
			(reserved != NULL && strcmp(name, reserved) == 0))
			continue;
		good = zk_tree_add(client,
						   child_path(client->tree->items[parent].path, name),
						   NULL, -1);
	}
	return good;
}

/*
 * The children of a znode may not be listed: go on without, if it is not the
 * one that was asked for.
 */
void
zk_tree_forbidden(ZkClient *client, int which)
{
	TreeRead   *tree = client->tree;
	const char *path = tree->items[which].path;
	char		detail[ZK_DETAIL_SIZE];

	if (which > 0)
	{
		if (tree->forbidden++ == 0)
			snprintf(tree->detail, sizeof(tree->detail), "%s", path);
		return;
	}
	snprintf(detail, sizeof(detail),
			 "READ permission is required on znode \"%.120s\".",
			 path);
	zk_tree_failed(client, client->identity.credential != NULL ? ZK_ERR_REFUSED :
				   ZK_ERR_FORBIDDEN, detail);
}

/* An item is to be asked for once more. */
static void
ask_again(TreeRead *tree, int which)
{
	tree->items[which].step = TREE_TODO;
	if (which < tree->next)
		tree->next = which;
}

/*
 * An item was answered: which one.
 */
TreeItem *
zk_tree_answered(ZkClient *client, int which)
{
	TreeItem   *item = &client->tree->items[which];

	client->tree->pending--;
	item->step = TREE_DONE;
	return item;
}

/*
 * Deal with an answer that is neither ZOK nor ZNONODE.
 */
void
zk_tree_refused(ZkClient *client, int which, int rc)
{
	TreeRead   *tree = client->tree;

	if (zk_identity_wanted(&client->identity, rc))
		zk_tree_failed(client, ZK_ERR_AUTH, ZK_IDENTITY_WANTED);
	else if (zk_is_connection_error(rc))
	{
		tree->lost = true;
		ask_again(tree, which);
	}
	else if (rc == ZTHROTTLEDOP)
		ask_again(tree, which);
	else
		zk_tree_failed(client, zk_answer_error(rc), zk_answer_text(rc));
}

static void
on_children(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;

	(void) zk_tree_answered(client, which);
	if (rc == ZOK)
	{
		client->tree->progress = true;
		if (zk_tree_make_room(client, answer->children->count) &&
			zk_tree_add_contenders(client, which, answer->children))
			(void) add_znodes(client, which, answer->children);
	}
	else if (rc == ZNOAUTH)
		zk_tree_forbidden(client, which);
	else if (rc != ZNONODE)
		zk_tree_refused(client, which, rc);
	zk_tree_advance(client);
}

static void
on_stat(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;
	TreeItem   *item = zk_tree_answered(client, which);

	if (rc == ZOK)
	{
		client->tree->progress = true;
		zk_member_fill(&item->member, NULL, 0, answer->stat);
		item->size = answer->stat->dataLength;
	}
	else if (rc == ZNOAUTH)
	{
		client->tree->progress = true;
		item->member.hidden = true;
	}
	else if (rc != ZNONODE)
		zk_tree_refused(client, which, rc);
	zk_tree_advance(client);
}

/*
 * The data of a first holder.  If that may not be read, or has become too long,
 * it is listed without.
 */
static void
on_data(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;
	TreeItem   *item = zk_tree_answered(client, which);

	if (rc == ZOK || rc == ZNOAUTH)
	{
		client->tree->progress = true;
		item->data_known = true;
		if (rc == ZOK && answer->len <= ZK_TREE_MAX_DATA &&
			zk_tree_reserve(client, (size_t) (answer->len > 0 ? answer->len : 0)))
			zk_member_fill(&item->member, answer->text, answer->len, answer->stat);
	}
	else if (rc == ZNONODE)
		item->member.czxid = 0;
	else
		zk_tree_refused(client, which, rc);
	zk_tree_advance(client);
}

/*
 * Ask for an item: the children of a znode, the Stat of a contender, or, if
 * that is known, its data.  Returns the library's answer.
 */
static int
ask(ZkClient *client, const TreeItem *item, const char *path,
	void *context)
{
	zk_request_expect(client, context, item->lock < 0 ? on_children :
					  item->member.czxid == 0 ? on_stat : on_data);
	if (item->lock < 0)
		return zoo_aget_children(client->connection.zh, path, 0, zk_on_children, context);
	if (item->member.czxid == 0)
		return zoo_aexists(client->connection.zh, path, 0, zk_on_stat, context);
	return zoo_aget(client->connection.zh, path, 0, zk_on_data, context);
}

/*
 * The first contender of a lock that is still there; -1 if there is none.
 */
static int
first_of(const TreeRead *tree, const TreeItem *lock)
{
	for (int i = lock->first; i < lock->first + lock->contenders; i++)
		if (!zk_member_gone(&tree->items[i].member))
			return i;
	return -1;
}

/*
 * All that was asked for is there.  See of which first holders the data is to
 * be read, if they have any, and no more than a lock client writes.  They may
 * go meanwhile; then others are the first.  Returns whether there are any.
 */
static bool
want_data(TreeRead *tree)
{
	bool		any = false;

	for (int i = 0; i < tree->count; i++)
	{
		int			first = tree->items[i].contenders > 0 ?
		first_of(tree, &tree->items[i]) : -1;

		if (first < 0 || tree->items[first].data_known ||
			tree->items[first].size == 0 ||
			tree->items[first].size > ZK_TREE_MAX_DATA)
			continue;
		ask_again(tree, first);
		any = true;
	}
	return any;
}

/*
 * How many hold a lock, and how many wait?  Scratch memory for its contenders
 * is the caller's.
 */
static void
count_queue(const TreeRead *tree, const TreeItem *lock, ZkQueueEntry *entries,
			int64_t *owners, ZkQueueMember *result)
{
	int			count = 0;

	for (int i = lock->first; i < lock->first + lock->contenders; i++)
	{
		const ZkQueueMember *member = &tree->items[i].member;

		if (zk_member_gone(member))
			continue;
		zk_queue_parse(member->name, &entries[count]);
		owners[count++] = member->session_id;
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): there is one */
	result->mode = entries[0].mode;
	result->sequence = entries[0].sequence;
	result->holders = zk_queue_all_granted(entries, owners, count, NULL);
	result->waiters = count - result->holders;
}

/* Order of two locks, for qsort(): by the bytes of their paths. */
static int
compare_locks(const void *a, const void *b)
{
	return strcmp(((const ZkQueueMember *) a)->node,
				  ((const ZkQueueMember *) b)->node);
}

/*
 * Put every lock that has a contender into the listing, its first holder
 * standing for it.  The strings pass to the listing.
 */
static void
list_locks(TreeRead *tree, ZkQueueListing *listing, ZkQueueEntry *entries,
		   int64_t *owners)
{
	for (int i = 0; i < tree->count; i++)
	{
		TreeItem   *lock = &tree->items[i];
		int			first = lock->contenders > 0 ? first_of(tree, lock) : -1;
		ZkQueueMember *member = &listing->members[listing->count];

		if (first < 0)
			continue;
		*member = tree->items[first].member;
		count_queue(tree, lock, entries, owners, member);
		member->node = lock->path;
		member->granted = true;
		listing->count++;
		lock->path = NULL;
		memset(&tree->items[first].member, 0, sizeof(ZkQueueMember));
	}
	if (listing->count > 1)
		qsort(listing->members, (size_t) listing->count, sizeof(ZkQueueMember),
			  compare_locks);
}

/* The walk is over: hand over what was found. */
static void
complete(ZkClient *client)
{
	TreeRead   *tree = client->tree;
	size_t		room = (size_t) tree->count;
	ZkQueueListing *listing = calloc(1, sizeof(ZkQueueListing));
	ZkQueueEntry *entries = malloc(sizeof(ZkQueueEntry) * room);
	int64_t    *owners = malloc(sizeof(int64_t) * room);

	if (listing != NULL)
		listing->members = calloc(room, sizeof(ZkQueueMember));
	if (listing == NULL || listing->members == NULL || entries == NULL ||
		owners == NULL)
	{
		zk_queue_free(listing);
		zk_tree_failed(client, ZK_ERR_NO_MEMORY, "Out of memory.");
	}
	else
	{
		list_locks(tree, listing, entries, owners);
		listing->forbidden = tree->forbidden;
		memcpy(listing->detail, tree->detail, sizeof(listing->detail));
		zk_tree_forget(client);
		zk_query_done(client, listing);
	}
	free(entries);
	free(owners);
}

/*
 * Send what asks for an item.  False if that cannot be done now.
 */
static bool
send_item(ZkClient *client, int which, ZkTreeAsk ask_for)
{
	TreeRead   *tree = client->tree;
	TreeItem   *item = &tree->items[which];
	char	   *path = item->lock < 0 ? item->path :
	child_path(tree->items[item->lock].path, item->member.name);
	void	   *context;
	int			rc;

	if (path == NULL)
	{
		zk_tree_failed(client, ZK_ERR_NO_MEMORY, "Out of memory.");
		return false;
	}
	context = zk_request_begin(client, REQ_QUERY, which, NULL);
	rc = ask_for(client, item, path, context);
	if (path != item->path)
		free(path);
	if (rc != ZOK)
	{
		zk_request_undo(client, context);
		return false;
	}
	item->step = TREE_ASKED;
	tree->pending++;
	return true;
}

/*
 * Ask for what is to be asked for, with "ask_for", as far as there is room.
 * Returns whether everything was asked for and answered.
 */
bool
zk_tree_all_answered(ZkClient *client, ZkTreeAsk ask_for)
{
	TreeRead   *tree = client->tree;

	while (tree->next < tree->count)
	{
		if (tree->items[tree->next].step == TREE_TODO &&
			(!zk_requests_available(client, ZK_READ_RESERVE) ||
			 !send_item(client, tree->next, ask_for)))
			return false;
		tree->next++;
	}
	return tree->pending == 0;
}

/*
 * Is there a walk that can be gone on with now?  It has its first item then.
 */
bool
zk_tree_ready(ZkClient *client)
{
	TreeRead   *tree = client->tree;

	if (client->query.node == NULL || !zk_is_connected(client) ||
		atomic_load(&zk_poisoned))
		return false;
	if (tree->failures >= MAX_FAILURES)
	{
		zk_tree_failed(client, ZK_ERR_UNSTEADY, "ZooKeeper did not respond in the meantime.");
		return false;
	}
	return tree->count > 0 ||
		(zk_tree_make_room(client, 1) &&
		 zk_tree_add(client, strdup(client->query.node), NULL, -1));
}

/*
 * The answer to the sync.  That it was refused is no failure of the connection.
 */
static void
on_sync(ZkClient *client, int which, const Answer *answer)
{
	(void) which;
	if (!zk_sync_refused(client, answer))
		return;
	client->tree->progress = true;
	zk_tree_restart(client);
	zk_tree_advance(client);
}

/*
 * Do what comes next for the walk, if there is one and it can be done now.
 */
void
zk_tree_advance(ZkClient *client)
{
	TreeRead   *tree = client->tree;

	if (!zk_tree_ready(client))
		return;
	if (!tree->synced && zk_requests_available(client, ZK_READ_RESERVE))
		tree->synced = zk_query_sync(client, on_sync);
	if (!tree->synced)
		return;
	while (zk_tree_all_answered(client, ask))
		if (!want_data(tree))
		{
			complete(client);
			return;
		}
}

/*
 * The connection was lost, or the handle closed: what was not answered will not
 * be, and is to be asked for again.
 */
void
zk_tree_restart(ZkClient *client)
{
	TreeRead   *tree = client->tree;

	if (tree->pending > 0 || tree->lost)
		tree->failures = tree->progress ? 0 : tree->failures + 1;
	tree->progress = tree->lost = tree->synced = false;
	for (int i = 0; i < tree->count; i++)
		if (tree->items[i].step == TREE_ASKED)
			ask_again(tree, i);
	tree->pending = 0;
}
