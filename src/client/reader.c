/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Reading queues, trees of locks, published waits and records for the
 *	  backend.
 *
 * All that a query meets is one array of items, whose first is the znode that
 * the query names.  Items are asked for in order, many at a time, and what an
 * answer leads to is appended:
 *
 * READ		the contenders of a lock node, and the data of each
 * HEAD		the same, but data only of the first that is not our own
 * TREE		every child that is no contender is listed in turn; the Stat of each
 *			contender, then the data of the first one of each lock
 * WAITS	the children are published waits, and the data of each names lock
 *			nodes; of these the contenders, and the data of those that hold
 *			the lock
 * RECORD	the data of the first item, nothing else
 *
 * What goes in between is left out.  A lock node that we may not list is left
 * out and counted, unless it is the first item: then the query fails.
 *
 * W5. A tree costs one request for each znode, one for the Stat of each
 * contender, and one for the data of each first holder.  Nothing below a
 * contender is read.  Some requests stay free for backends that want locks.  A
 * tree that is read keeps its answers over a lost connection, or a large one
 * could never be read over a bad network; it fails if nothing at all is
 * answered in a row of connections.  Its items and bytes are limited.  The
 * other queries begin again: their answers come from one server.
 *
 * W7. A queue, a tree or a record is read after a sync, because a server may be
 * behind its leader by anything within syncLimit, and users look at a queue to
 * break a contender, or to see whether that has helped.  So what is shown is no
 * older than the call (S96); but parts of a tree are from different moments.  A
 * server that has lost its leader answers no sync, so it shows nothing; then
 * the connection is given up for another server.  One that throttles refuses
 * the sync and answers the rest: all of it is asked again (S340).  The head of
 * a queue needs no sync: it is for a message.  Nor do published waits:
 * publishing our own has brought the server up to date (publish_wait.c).
 *
 * N5. From ZooKeeper 3.9.3 on, exists needs the permission to read a znode, as
 * get does (ZOOKEEPER-2590).  So a contender that an ACL hides has no more than
 * a name, which gives its place in the queue: it is shown and counted
 * (zk_member_gone).  Clients can read the contenders that they have made.
 *
 * Published waits may contain anything: waitgraph.c accepts only well-formed
 * text, and their number and size are limited.
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE				/* asprintf */
#endif

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "answer.h"
#include "auth.h"
#include "contender.h"
#include "listing.h"
#include "nameset.h"
#include "publish_wait.h"
#include "queue.h"
#include "reader.h"
#include "refusal.h"
#include "request.h"
#include "waitgraph.h"

/* Items there is room for at first. */
#define FIRST_CAPACITY	256

/* Connections lost in a row, without an answer, before a tree is given up. */
#define MAX_FAILURES	5

/* engine_lock */
struct Reader
{
	Item	   *items;
	int			count;
	int			capacity;
	int			next;			/* items before it are asked for, or answered */
	int			pending;		/* answers to come */
	size_t		bytes;			/* that the items take */
	bool		synced;			/* the sync is on its way, or not needed */
	bool		progress;		/* something was answered by this connection */
	bool		lost;			/* something was not, for want of it */
	int			failures;		/* connections in a row without progress */
	int			forbidden;		/* znodes that may not be listed */
	char		detail[ZK_DETAIL_SIZE]; /* path of the first of them */
	NameSet		nodes;			/* lock nodes that published waits name */
	Refusal		refusal;		/* why the first item may not be listed */
};

/* What the queries differ in. */
typedef struct ReadKind
{
	Ask			first;			/* for the first item */
	Ask			contender;		/* for contenders */
	bool		sync;			/* W7 */
	bool		keep;			/* the answers outlive the connection (W5) */
	int			max_data;		/* longer data of a contender is left out */
	int			max_items;
	size_t		max_bytes;
} ReadKind;

static const ReadKind kinds[] = {
	[ZK_QUERY_QUEUE] = {
		ASK_CHILDREN, ASK_DATA, true, false, INT_MAX, INT_MAX, SIZE_MAX
	},
	[ZK_QUERY_HEAD] = {
		ASK_CHILDREN, ASK_DATA, false, false, INT_MAX, INT_MAX, SIZE_MAX
	},
	[ZK_QUERY_TREE] = {
		ASK_CHILDREN, ASK_STAT, true, true, ZK_TREE_MAX_DATA, ZK_TREE_MAX_ZNODES,
		ZK_TREE_MAX_BYTES
	},
	[ZK_QUERY_RECORD] = {
		ASK_DATA, ASK_NOTHING, true, false, INT_MAX, INT_MAX, SIZE_MAX
	},
	[ZK_QUERY_WAITS] = {
		ASK_CHILDREN, ASK_DATA, false, false, ZK_TREE_MAX_DATA, ZK_WAITS_MAX_ZNODES,
		ZK_WAITS_MAX_BYTES
	}
};

/*-------------------------------------------------------------------------
 * The end of a query
 *-------------------------------------------------------------------------
 */

/* An empty reader, freed after zk_reader_clear(); NULL if out of memory. */
Reader *
zk_reader_create(void)
{
	return calloc(1, sizeof(Reader));
}

/* Forget all that was read. */
void
zk_reader_clear(Reader *reader)
{
	zk_items_free(reader->items, reader->count);
	zk_nameset_free(&reader->nodes);
	zk_refusal_forget(&reader->refusal);
	memset(reader, 0, sizeof(*reader));
}

/*
 * Hand over the answer to the query, a listing that is taken over, and end the
 * query.
 */
void
zk_query_done(ZkClient *client, ZkQueueListing *listing)
{
	zk_mailbox_publish_listing(&client->mailbox, client->query.serial, listing);
	zk_requests_forget_kind(client, REQ_QUERY);
	zk_query_clear(&client->query);
	zk_reader_clear(client->reader);
}

/* End the query with an error.  The detail is formatted as by printf(). */
void
zk_query_failed(ZkClient *client, ZkError error, const char *format,...)
{
	ZkQueueListing *listing = calloc(1, sizeof(ZkQueueListing));
	va_list		args;

	if (listing != NULL)
	{
		listing->error = error;
		va_start(args, format);
		vsnprintf(listing->detail, sizeof(listing->detail), format, args);
		va_end(args);
	}
	zk_query_done(client, listing);
}

/* Of an answer that ends a query: the kind of error that it is. */
ZkError
zk_refused_error(const ZkClient *client, int rc)
{
	if (rc != ZNOAUTH)
		return zk_answer_error(rc);
	return client->identity.credential != NULL ? ZK_ERR_REFUSED : ZK_ERR_FORBIDDEN;
}

/* Returns false, for the caller to do the same. */
static bool
out_of_memory(ZkClient *client)
{
	zk_query_failed(client, ZK_ERR_NO_MEMORY, "Out of memory.");
	return false;
}

/*-------------------------------------------------------------------------
 * The items.  What adds to them returns false if the query has failed.
 *-------------------------------------------------------------------------
 */

/* Account for bytes that are to be kept. */
static bool
reserve(ZkClient *client, size_t bytes)
{
	size_t		limit = kinds[client->query.kind].max_bytes;

	client->reader->bytes += bytes;
	if (client->reader->bytes <= limit)
		return true;
	zk_query_failed(client, ZK_ERR_TREE,
					"The paths and the contenders' data take more than %d MB.",
					(int) (limit / (1024 * 1024)));
	return false;
}

/* Make room for so many more items. */
static bool
make_room(ZkClient *client, int more)
{
	Reader	   *reader = client->reader;
	int			capacity = reader->capacity > 0 ? reader->capacity : FIRST_CAPACITY;
	int			limit = kinds[client->query.kind].max_items;
	Item	   *items;

	if (more > limit - reader->count)
	{
		zk_query_failed(client, ZK_ERR_TREE, "There are more than %d znodes.", limit);
		return false;
	}
	while (capacity < reader->count + more)
		capacity *= 2;
	if (capacity == reader->capacity)
		return true;
	items = realloc(reader->items, sizeof(Item) * (size_t) capacity);
	if (items == NULL)
		return out_of_memory(client);
	reader->items = items;
	reader->capacity = capacity;
	return true;
}

/*
 * Add an item, for which there is room: a child by its name, or another znode
 * (above is -1) by its path.  The string, malloc'd, is taken over; NULL means
 * that there was no memory for it.
 */
static bool
add_item(ZkClient *client, int above, char *string, Ask ask)
{
	Reader	   *reader = client->reader;
	Item	   *item = &reader->items[reader->count];

	if (string == NULL)
		return out_of_memory(client);
	memset(item, 0, sizeof(*item));
	item->above = above;
	item->ask = ask;
	if (above < 0)
		item->path = string;
	else
		item->member.name = string;
	reader->count++;
	return reserve(client, sizeof(Item) + strlen(string) + 1);
}

/* The path of a child; malloc'd, NULL if out of memory. */
static char *
child_path(const char *parent, const char *name)
{
	char	   *path;

	return asprintf(&path, "%s/%s", parent, name) < 0 ? NULL : path;
}

/* See which contenders of the query's lock node are this client's own. */
static bool
find_own(ZkClient *client, const Item *lock)
{
	Item	   *contenders = client->reader->items + lock->first;
	NameSet		own = {0};
	bool		good = true;

	for (int i = 0; good && i < client->used; i++)
	{
		const Contender *c = &client->contenders[i];

		if (c->claim != CLAIM_NONE && strcmp(c->node, lock->path) == 0)
			good = zk_nameset_add(&own, c->znode.name, strlen(c->znode.name));
	}
	for (int i = 0; good && i < lock->count; i++)
		contenders[i].member.own = zk_nameset_has(&own, contenders[i].member.name,
												  strlen(contenders[i].member.name));
	zk_nameset_free(&own);
	return good || out_of_memory(client);
}

/*
 * Leave out what the query does not need of the contenders of a lock node,
 * which are sorted in entries, too.
 */
static bool
choose(ZkClient *client, const Item *lock, const ZkQueueEntry *entries)
{
	Item	   *contenders = client->reader->items + lock->first;
	ZkQueryKind kind = client->query.kind;
	int			from = 0;
	int			to = lock->count;

	if (kind != ZK_QUERY_WAITS && kind != ZK_QUERY_TREE && !find_own(client, lock))
		return false;
	if (kind == ZK_QUERY_WAITS)
		to = zk_queue_front(entries, to);
	else if (kind == ZK_QUERY_HEAD)
	{
		while (from < to && contenders[from].member.own)
			from++;
		to = from + 1;
	}
	for (int i = 0; i < lock->count; i++)
		if (i < from || i >= to)
			contenders[i].ask = ASK_NOTHING;
	return true;
}

/* Add those children of a lock node that are contenders; there is room. */
static bool
add_contenders(ZkClient *client, int above, const struct String_vector *children)
{
	Reader	   *reader = client->reader;
	ZkQueueEntry *entries = malloc(sizeof(ZkQueueEntry) * ((size_t) children->count + 1));
	bool		good = true;
	int			count;

	if (entries == NULL)
		return out_of_memory(client);
	count = zk_queue_sort(INT64_MAX, (const char *const *) children->data, children->count,
						  entries, NULL);
	reader->items[above].first = reader->count;
	reader->items[above].count = count;
	for (int i = 0; i < count; i++)
	{
		Item	   *item = &reader->items[reader->count];

		good = add_item(client, above, strdup(entries[i].name),
						kinds[client->query.kind].contender);
		if (!good)
			break;
		item->member.mode = entries[i].mode;
		item->member.sequence = entries[i].sequence;
	}
	good = good && choose(client, &reader->items[above], entries);
	free(entries);
	return good;
}

/*
 * Add those children of a znode that may be lock nodes themselves, except the
 * one that the query leaves out; there is room.
 */
static bool
add_znodes(ZkClient *client, int above, const struct String_vector *children)
{
	const char *reserved = above == 0 ? client->query.name : NULL;
	bool		good = true;

	for (int i = 0; good && i < children->count; i++)
	{
		const char *name = children->data[i];
		ZkQueueEntry entry;

		if (zk_queue_parse(name, &entry) ||
			(reserved != NULL && strcmp(name, reserved) == 0))
			continue;
		good = add_item(client, -1,
						child_path(client->reader->items[above].path, name),
						ASK_CHILDREN);
	}
	return good;
}

/* Add published waits; there is room. */
static bool
add_waits(ZkClient *client, const struct String_vector *children)
{
	Reader	   *reader = client->reader;
	bool		good = true;

	if (children->count > ZK_WAITS_MAX)
	{
		zk_query_failed(client, ZK_ERR_TREE, "Too many sessions are waiting.");
		return false;
	}
	reader->items[0].first = reader->count;
	reader->items[0].count = children->count;
	for (int i = 0; good && i < children->count; i++)
		good = add_item(client, 0, strdup(children->data[i]), ASK_DATA);
	return good;
}

/* Add the lock nodes that a published wait names, each once. */
static bool
add_locks(ZkClient *client, const char *text, int len)
{
	NameSet    *nodes = &client->reader->nodes;
	ZkWaitedFor lock;
	int			at = 0;

	while (zk_wait_next(text, len, &at, &lock))
	{
		size_t		node_len = (size_t) lock.node_len;

		if (zk_nameset_has(nodes, lock.node, node_len))
			continue;
		if (!make_room(client, 1))
			return false;
		if (!zk_nameset_add(nodes, lock.node, node_len))
			return out_of_memory(client);
		if (!add_item(client, -1, strndup(lock.node, node_len), ASK_CHILDREN))
			return false;
	}
	return true;
}

/* Everything is answered: hand over what was found. */
static void
complete(ZkClient *client)
{
	Reader	   *reader = client->reader;
	ZkQueueListing *listing;

	listing = zk_listing_make(client->query.kind, reader->items, reader->count);
	if (listing == NULL)
	{
		(void) out_of_memory(client);
		return;
	}
	listing->forbidden = reader->forbidden;
	memcpy(listing->detail, reader->detail, sizeof(listing->detail));
	zk_query_done(client, listing);
}

/* The record was read (data is NULL if there is none): hand it over. */
static void
record_read(ZkClient *client, const char *data, int len)
{
	ZkQueueListing *listing = calloc(1, sizeof(ZkQueueListing));

	if (listing != NULL)
		zk_record_parse(data, len, &listing->record);
	zk_query_done(client, listing);
}

/*-------------------------------------------------------------------------
 * Answers
 *-------------------------------------------------------------------------
 */

/* Ask for an item again. */
static void
ask_again(Reader *reader, int which)
{
	reader->items[which].step = ITEM_TODO;
	if (which < reader->next)
		reader->next = which;
}

/*
 * It is known why the first item may not be listed, unless error is ZK_OK: then
 * the next ACL may tell.
 */
static void
explain(ZkClient *client, ZkError error)
{
	Reader	   *reader = client->reader;
	char		detail[ZK_DETAIL_SIZE];

	if (error == ZK_OK)
	{
		reader->items[0].ask = ASK_ACL;
		ask_again(reader, 0);
		return;
	}
	zk_refusal_describe(&reader->refusal, error, detail);
	zk_query_failed(client, error, "%s", detail);
}

/*
 * An item may not be listed: go on without, unless it is the first.  Only for a
 * single queue ACLs are read to learn why.
 */
static void
forbidden(ZkClient *client, int which)
{
	Reader	   *reader = client->reader;
	const char *path = reader->items[which].path;

	if (which > 0)
	{
		if (reader->forbidden++ == 0)
			snprintf(reader->detail, sizeof(reader->detail), "%s", path);
		return;
	}
	zk_refusal_note(client, &reader->refusal, ZOO_PERM_READ, path, strlen(path));
	explain(client, client->query.kind == ZK_QUERY_QUEUE || client->query.kind == ZK_QUERY_HEAD ?
			zk_refusal_plain(&reader->refusal) : zk_refused_error(client, ZNOAUTH));
}

static void
listed(ZkClient *client, int which, const struct String_vector *children)
{
	if (!make_room(client, children->count))
		return;
	if (client->query.kind == ZK_QUERY_WAITS && which == 0)
		(void) add_waits(client, children);
	else if (add_contenders(client, which, children) &&
			 client->query.kind == ZK_QUERY_TREE)
		(void) add_znodes(client, which, children);
}

static void
stat_read(Item *item, const Answer *answer)
{
	if (answer->rc == ZOK)
	{
		zk_member_fill(&item->member, NULL, 0, answer->stat);
		item->size = answer->stat->dataLength;
	}
	else if (answer->rc == ZNOAUTH)
		item->member.hidden = true;
}

/*
 * The data of a child came.  Of a contender in a queue whose data may not be
 * read, the Stat may yet; up to ZooKeeper 3.9.2 anybody may read that (N5).
 */
static void
data_read(ZkClient *client, int which, const Answer *answer)
{
	Reader	   *reader = client->reader;
	Item	   *item = &reader->items[which];
	ZkQueryKind kind = client->query.kind;
	bool		wait = kind == ZK_QUERY_WAITS && item->above == 0;
	int			len = answer->len;

	if (answer->rc == ZOK)
	{
		if (len < 0 || len > (wait ? ZK_WAIT_MAX_TEXT : kinds[kind].max_data))
			len = 0;
		zk_member_fill(&item->member, answer->text, len, answer->stat);
		if (reserve(client, (size_t) len) && wait && item->member.session_id != 0)
			(void) add_locks(client, answer->text, len);
	}
	else if (answer->rc == ZNONODE)
		item->member.czxid = 0;
	else if (kind == ZK_QUERY_QUEUE || kind == ZK_QUERY_HEAD)
	{
		item->ask = ASK_STAT;
		ask_again(reader, which);
	}
}

/* Deal with an answer that will not be another one if we ask again. */
static void
settled(ZkClient *client, int which, const Answer *answer)
{
	Reader	   *reader = client->reader;
	Item	   *item = &reader->items[which];
	bool		record = client->query.kind == ZK_QUERY_RECORD;
	int			rc = answer->rc;

	reader->progress = true;
	if (item->ask == ASK_ACL)
		explain(client, zk_refusal_answer(client, &reader->refusal, rc, answer->acl));
	else if (record && (rc == ZOK || rc == ZNONODE))
		record_read(client, rc == ZOK ? answer->text : NULL, answer->len);
	else if (record)
		zk_query_failed(client, zk_refused_error(client, rc),
						"Could not read znode \"%.150s\": %s.", item->path,
						zk_answer_text(rc));
	else if (rc != ZOK && rc != ZNONODE && rc != ZNOAUTH)
		zk_query_failed(client, zk_answer_error(rc), "%s", zk_answer_text(rc));
	else if (item->ask == ASK_DATA)
		data_read(client, which, answer);
	else if (item->ask == ASK_STAT)
		stat_read(item, answer);
	else if (rc == ZOK)
		listed(client, which, answer->children);
	else if (rc == ZNOAUTH)
		forbidden(client, which);
}

static void
on_item(ZkClient *client, const Answer *answer)
{
	Reader	   *reader = client->reader;
	int			which = answer->request->which;
	int			rc = answer->rc;

	reader->pending--;
	reader->items[which].step = ITEM_DONE;
	if (zk_identity_wanted(&client->identity, rc))
		zk_query_failed(client, ZK_ERR_AUTH, ZK_IDENTITY_WANTED);
	else if (zk_is_transient(rc))
	{
		reader->lost |= rc != ZTHROTTLEDOP;
		ask_again(reader, which);
	}
	else
		settled(client, which, answer);
	zk_reader_advance(client);
}

/*
 * The answer to the sync.  A server that throttles may refuse it and answer
 * what was sent behind it: then all that is not answered yet is asked for
 * again.  That is no failure of the connection.
 */
static void
on_sync(ZkClient *client, const Answer *answer)
{
	int			rc = answer->rc;

	if (zk_identity_wanted(&client->identity, rc))
		zk_query_failed(client, ZK_ERR_AUTH, ZK_IDENTITY_WANTED);
	else if (rc == ZTHROTTLEDOP)
	{
		zk_requests_forget_kind(client, REQ_QUERY);
		client->reader->progress = true;
		zk_reader_restart(client);
		zk_reader_advance(client);
	}
	else if (rc != ZOK && !zk_is_connection_error(rc))
		zk_query_failed(client, zk_answer_error(rc), "%s", zk_answer_text(rc));
}

/*-------------------------------------------------------------------------
 * Requests
 *-------------------------------------------------------------------------
 */

/* Send the request for an item; returns the library's answer. */
static int
send_request(ZkClient *client, const Item *item, const char *path, void *context)
{
	switch (item->ask)
	{
		case ASK_CHILDREN:
			return zoo_aget_children(client->connection.zh, path, 0, zk_on_children, context);
		case ASK_STAT:
			return zoo_aexists(client->connection.zh, path, 0, zk_on_stat, context);
		case ASK_ACL:
			return zoo_aget_acl(client->connection.zh,
								zk_refusal_next(client, &client->reader->refusal),
								zk_on_acl, context);
		case ASK_DATA:
		case ASK_NOTHING:
			break;
	}
	return zoo_aget(client->connection.zh, path, 0, zk_on_data, context);
}

/* Ask for an item.  Returns false if that cannot be done now. */
static bool
send_item(ZkClient *client, int which)
{
	Reader	   *reader = client->reader;
	Item	   *item = &reader->items[which];
	char	   *path = item->above < 0 ? item->path :
	child_path(reader->items[item->above].path, item->member.name);
	void	   *context;
	int			rc;

	if (path == NULL)
		return out_of_memory(client);
	context = zk_request_begin(client, REQ_QUERY, which, on_item);
	rc = send_request(client, item, path, context);
	if (path != item->path)
		free(path);
	if (rc != ZOK)
	{
		zk_request_undo(client, context);
		return false;
	}
	item->step = ITEM_ASKED;
	reader->pending++;
	return true;
}

/*
 * Ask for what is to be asked for, as far as there is room.  Returns true if
 * everything has been asked for and answered.
 */
static bool
all_answered(ZkClient *client)
{
	Reader	   *reader = client->reader;

	while (reader->next < reader->count)
	{
		const Item *item = &reader->items[reader->next];

		if (item->step == ITEM_TODO && item->ask != ASK_NOTHING &&
			(!zk_requests_available(client, ZK_READ_RESERVE) ||
			 !send_item(client, reader->next)))
			return false;
		reader->next++;
	}
	return reader->pending == 0;
}

/*
 * Ask for the data of the first contender of each lock of a tree that is still
 * there, if it has any, and no more than a lock client writes.  It may have
 * gone by then; then another one is the first.  Returns false if nothing is
 * left to ask for.
 */
static bool
want_first_data(Reader *reader)
{
	bool		any = false;

	for (int i = 0; i < reader->count; i++)
	{
		int			first = reader->items[i].first;
		int			end = first + reader->items[i].count;

		while (first < end && zk_member_gone(&reader->items[first].member))
			first++;
		if (first == end || reader->items[first].ask == ASK_DATA ||
			reader->items[first].size == 0 ||
			reader->items[first].size > ZK_TREE_MAX_DATA)
			continue;
		reader->items[first].ask = ASK_DATA;
		ask_again(reader, first);
		any = true;
	}
	return any;
}

/*
 * Begin, unless that is done: with the first item, and a sync if the kind of
 * query needs one.  Returns false if that is not possible now.
 */
static bool
begin(ZkClient *client)
{
	Reader	   *reader = client->reader;
	const ReadKind *kind = &kinds[client->query.kind];
	void	   *context;

	if (reader->failures >= MAX_FAILURES)
	{
		zk_query_failed(client, ZK_ERR_UNSTEADY, "ZooKeeper did not respond in the meantime.");
		return false;
	}
	if (reader->count == 0 &&
		(!make_room(client, 1) ||
		 !add_item(client, -1, strdup(client->query.node), kind->first)))
		return false;
	if (!kind->sync || reader->synced)
		return true;
	if (!zk_requests_available(client, ZK_READ_RESERVE))
		return false;
	context = zk_request_begin(client, REQ_QUERY, 0, on_sync);
	if (zoo_async(client->connection.zh, client->query.node, zk_on_string, context) == ZOK)
		reader->synced = true;
	else
		zk_request_undo(client, context);
	return reader->synced;
}

/*
 * Do what comes next for a query that reads, if there is one and it can be done
 * now: waits are read once what this client waits for is published itself.
 */
void
zk_reader_advance(ZkClient *client)
{
	if (client->query.node == NULL || !zk_requests_available(client, 0) ||
		(client->query.kind == ZK_QUERY_WAITS && !zk_publish_settled(client)) ||
		!begin(client))
		return;
	while (all_answered(client))
		if (client->query.kind != ZK_QUERY_TREE || !want_first_data(client->reader))
		{
			complete(client);
			return;
		}
}

/*
 * The connection was lost, or the handle closed, or the server throttles: what
 * was not answered will not be, and is asked for again.
 */
void
zk_reader_restart(ZkClient *client)
{
	Reader	   *reader = client->reader;

	if (!kinds[client->query.kind].keep)
	{
		zk_reader_clear(reader);
		return;
	}
	if (reader->pending > 0 || reader->lost)
		reader->failures = reader->progress ? 0 : reader->failures + 1;
	reader->progress = reader->lost = reader->synced = false;
	for (int i = 0; i < reader->count; i++)
		if (reader->items[i].step == ITEM_ASKED)
			ask_again(reader, i);
	reader->pending = 0;
}
