/*-------------------------------------------------------------------------
 *
 * read_queue.c
 *	  Reading a queue for somebody who wants to see it.
 *
 * The list of children first, then the data of each contender, as many at a
 * time as there is room for.  A contender that has gone in between is left
 * out.
 *
 * W7. A queue, a tree or a record is read after a sync: the server that is
 * asked may be behind its leader by any time within syncLimit, and who looks at
 * a queue wants to break somebody, or to know whether that has helped.  So what
 * is shown is no older than the call (S96).  It is older than the answer, of
 * course, and of a tree each part is from another moment.  A server that has
 * lost its leader answers no sync, so it shows nothing; then the connection is
 * given up for another server.  One that throttles refuses the sync and answers
 * the rest: that is asked again (S340).
 *
 * For the head of a queue (a waiter wants to know who holds the lock) the
 * server's own word is enough, and the data of one contender.
 *
 * N5. From ZooKeeper 3.9.3 on, exists needs the permission to read a znode, as
 * get does (ZOOKEEPER-2590).  So a contender that an ACL hides has no more than
 * a name, of which its place in the queue follows: it is shown with that, and
 * counted (zk_member_gone).  zklock's own contenders can be read by who made
 * them.
 *
 * All functions run on client threads under engine_lock.
 *
 * IDENTIFICATION
 *	  src/client/read_queue.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "answer.h"
#include "auth.h"
#include "contender.h"
#include "nameset.h"
#include "queue.h"
#include "read_queue.h"
#include "refusal.h"
#include "request.h"

/*
 * Forget what was read so far, to begin again or to give up.
 */
void
zk_read_restart(ZkClient *client)
{
	zk_refusal_forget(&client->read->refusal);
	zk_queue_free(client->read->listing);
	memset(client->read, 0, sizeof(QueueRead));
}

/*
 * The query is run: hand over what it was for.
 */
void
zk_query_done(ZkClient *client, ZkQueueListing *listing)
{
	zk_mailbox_publish_listing(&client->mailbox, client->query.serial, listing);
	zk_requests_forget_kind(client, REQ_QUERY);
	zk_query_clear(&client->query);
	zk_read_restart(client);
}

/*
 * The query has failed: say why.
 */
void
zk_query_failed(ZkClient *client, ZkError error, const char *detail)
{
	ZkQueueListing *listing = calloc(1, sizeof(ZkQueueListing));

	if (listing != NULL)
	{
		listing->error = error;
		snprintf(listing->detail, sizeof(listing->detail), "%s", detail);
	}
	zk_query_done(client, listing);
}

/*
 * Have the server catch up with its leader before it answers what is sent next
 * for the query.  The handler begins with zk_sync_refused().  There is room for
 * a request.  False if it cannot be sent now.
 */
bool
zk_query_sync(ZkClient *client, AnswerHandler handler)
{
	void	   *context = zk_request_begin(client, REQ_QUERY, 0, handler);

	if (zoo_async(client->connection.zh, client->query.node, zk_on_string, context) == ZOK)
		return true;
	zk_request_undo(client, context);
	return false;
}

/*
 * Was the sync refused?  A server that throttles does so, and may answer all
 * the same what was sent behind it: then nobody waits for those answers any
 * more, and all is to be asked for again.
 */
bool
zk_sync_refused(ZkClient *client, const Answer *answer)
{
	int			rc = answer->rc;

	if (rc == ZTHROTTLEDOP)
	{
		zk_requests_forget_kind(client, REQ_QUERY);
		return true;
	}
	if (!zk_identity_wanted(&client->identity, rc) && rc != ZOK &&
		!zk_is_connection_error(rc))
		zk_query_failed(client, zk_answer_error(rc), zk_answer_text(rc));
	return false;
}

/*
 * Drop the members that have gone meanwhile, say who holds, and hand over.
 */
static void
read_complete(ZkClient *client)
{
	QueueRead  *read = client->read;
	ZkQueueListing *listing = read->listing;
	ZkQueueEntry *entries;
	int64_t    *owners;
	bool	   *granted;
	int			count = 0;

	if (client->query.kind == QUERY_HEAD)
	{
		read->listing = NULL;
		zk_query_done(client, listing);
		return;
	}
	for (int i = 0; i < listing->count; i++)
	{
		if (zk_member_gone(&listing->members[i]))
			free(listing->members[i].name);
		else
			listing->members[count++] = listing->members[i];
	}
	listing->count = count;

	entries = malloc(sizeof(ZkQueueEntry) * (size_t) (count + 1));
	owners = malloc(sizeof(int64_t) * (size_t) (count + 1));
	granted = malloc(sizeof(bool) * (size_t) (count + 1));
	if (entries != NULL && owners != NULL && granted != NULL)
	{
		for (int i = 0; i < count; i++)
		{
			zk_queue_parse(listing->members[i].name, &entries[i]);
			owners[i] = listing->members[i].session_id;
		}
		zk_queue_all_granted(entries, owners, count, granted);
		for (int i = 0; i < count; i++)
			listing->members[i].granted = granted[i];
	}
	free(granted);
	free(entries);
	free(owners);

	read->listing = NULL;
	zk_query_done(client, listing);
}

/* The names of this client's contenders of a lock node.  False if out of memory. */
static bool
find_own(const ZkClient *client, const char *node, NameSet *own)
{
	for (int i = 0; i < client->used; i++)
	{
		const Contender *c = &client->contenders[i];

		if (c->claim != CLAIM_NONE && strcmp(c->node, node) == 0 &&
			!zk_nameset_add(own, c->znode.name, strlen(c->znode.name)))
			return false;
	}
	return true;
}

/*
 * Make an empty listing of the contenders among some children.  NULL if out
 * of memory.
 */
static ZkQueueListing *
make_listing(const ZkClient *client, const struct String_vector *children)
{
	ZkQueueListing *listing = calloc(1, sizeof(ZkQueueListing));
	ZkQueueEntry *entries;
	NameSet		own = {0};
	size_t		room = (size_t) children->count + 1;
	bool		good;

	entries = malloc(sizeof(ZkQueueEntry) * room);
	if (listing != NULL)
		listing->members = calloc(room, sizeof(ZkQueueMember));
	good = entries != NULL && listing != NULL && listing->members != NULL &&
		find_own(client, client->query.node, &own);
	if (good)
		listing->count = zk_queue_sort((const char *const *) children->data,
									   children->count, entries, NULL);
	for (int i = 0; good && i < listing->count; i++)
	{
		ZkQueueMember *member = &listing->members[i];

		member->name = strdup(entries[i].name);
		member->mode = entries[i].mode;
		member->sequence = entries[i].sequence;
		member->own = zk_nameset_has(&own, entries[i].name, strlen(entries[i].name));
		good = member->name != NULL;
	}
	zk_nameset_free(&own);
	free(entries);
	if (!good)
	{
		zk_queue_free(listing);
		return NULL;
	}
	return listing;
}

bool
zk_member_gone(const ZkQueueMember *member)
{
	return member->czxid == 0 && !member->hidden;
}

/*
 * Fill in what the answer to a get says of a contender, or just its Stat.
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

/*
 * The Stat of a contender whose data may not be read.
 */
static void
on_data_stat(ZkClient *client, int which, const Answer *answer)
{
	client->read->pending--;
	if (answer->rc == ZOK)
		zk_member_fill(&client->read->listing->members[which], NULL, 0,
					   answer->stat);
	else if (answer->rc == ZNOAUTH)
		client->read->listing->members[which].hidden = true;
	zk_read_advance(client);
}

/*
 * An ACL forbids to read a contender's data: it is listed without.  Up to
 * ZooKeeper 3.9.2 everybody may read the Stat; later, it is forbidden with the
 * data.
 */
static void
send_data_stat(ZkClient *client, int which)
{
	QueueRead  *read = client->read;
	void	   *context = zk_request_begin(client, REQ_QUERY, which, on_data_stat);
	char		path[ZK_NODE_PATH_SIZE * 2];

	snprintf(path, sizeof(path), "%s/%s", client->query.node,
			 read->listing->members[which].name);
	if (zoo_aexists(client->connection.zh, path, 0, zk_on_stat, context) == ZOK)
		read->pending++;
	else
		zk_request_undo(client, context);
}

static void
on_data(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;
	QueueRead  *read;
	ZkQueueMember *member;

	read = client->read;
	read->pending--;
	member = &read->listing->members[which];
	if (rc == ZTHROTTLEDOP)
	{
		/* not executed: read all of it again */
		zk_requests_forget_kind(client, REQ_QUERY);
		zk_read_restart(client);
	}
	else if (rc == ZOK)
		zk_member_fill(member, answer->text, answer->len, answer->stat);
	else if (rc == ZNOAUTH)
		send_data_stat(client, which);
	zk_read_advance(client);
}

/*
 * The list was refused: fail, if it is known for what reason, and else (ZK_OK)
 * find out.
 */
static void
read_refused(ZkClient *client, ZkError error)
{
	char		detail[ZK_DETAIL_SIZE];

	if (error == ZK_OK)
		return;
	zk_refusal_describe(&client->read->refusal, error, detail);
	zk_query_failed(client, error, detail);
}

static void
on_read_acl(ZkClient *client, int which, const Answer *answer)
{
	(void) which;
	client->read->pending--;
	read_refused(client,
				 zk_refusal_answer(client, &client->read->refusal, answer->rc, answer->acl));
	zk_read_advance(client);
}

/*
 * Choose whose data to read: everybody's, or of the first who is a stranger.
 */
static void
choose_data(ZkClient *client)
{
	QueueRead  *read = client->read;

	read->end = read->listing->count;
	if (client->query.kind != QUERY_HEAD)
		return;
	while (read->next < read->end && read->listing->members[read->next].own)
		read->next++;
	if (read->next < read->end)
		read->end = read->next + 1;
}

static void
on_read_list(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;
	static struct String_vector none;

	(void) which;
	client->read->pending--;
	if (rc == ZOK || rc == ZNONODE)
	{
		client->read->listing = make_listing(client,
											 rc == ZOK ? answer->children : &none);
		client->read->listed = true;
		if (client->read->listing == NULL)
			zk_query_failed(client, ZK_ERR_NO_MEMORY, "Out of memory.");
		else
			choose_data(client);
	}
	else if (rc == ZNOAUTH)
	{
		zk_refusal_note(client, &client->read->refusal, ZOO_PERM_READ,
						client->query.node, strlen(client->query.node));
		read_refused(client, zk_refusal_plain(&client->read->refusal));
	}
	else if (zk_identity_wanted(&client->identity, rc))
		zk_query_failed(client, ZK_ERR_AUTH, ZK_IDENTITY_WANTED);
	else if (!zk_is_transient(rc))
		zk_query_failed(client, zk_answer_error(rc), zk_answer_text(rc));
	zk_read_advance(client);
}

/*
 * Ask for the data of the next member.  False if that cannot be done now.
 */
static bool
send_data(ZkClient *client)
{
	QueueRead  *read = client->read;
	char		path[ZK_NODE_PATH_SIZE * 2];
	void	   *context;

	context = zk_request_begin(client, REQ_QUERY, read->next, on_data);
	snprintf(path, sizeof(path), "%s/%s", client->query.node,
			 read->listing->members[read->next].name);
	if (zoo_aget(client->connection.zh, path, 0, zk_on_data, context) != ZOK)
	{
		zk_request_undo(client, context);
		return false;
	}
	read->next++;
	read->pending++;
	return true;
}

static void
on_read_sync(ZkClient *client, int which, const Answer *answer)
{
	(void) which;
	if (!zk_sync_refused(client, answer))
		return;
	zk_read_restart(client);
	zk_read_advance(client);
}

/*
 * Ask for the list of children, or when that was refused, for what may tell
 * why.
 */
static void
send_list(ZkClient *client)
{
	QueueRead  *read = client->read;
	bool		refused = read->refusal.znode != NULL;
	void	   *context;
	int			rc;

	/* a server may be behind, and who breaks a contender looks here first */
	if (!refused && client->query.kind == QUERY_READ &&
		!zk_query_sync(client, on_read_sync))
		return;
	context = zk_request_begin(client, REQ_QUERY, 0,
							   refused ? on_read_acl : on_read_list);
	if (refused)
		rc = zoo_aget_acl(client->connection.zh,
						  zk_refusal_next(client, &read->refusal), zk_on_acl,
						  context);
	else
		rc = zoo_aget_children(client->connection.zh, client->query.node, 0, zk_on_children,
							   context);
	if (rc == ZOK)
		read->pending++;
	else
		zk_request_undo(client, context);
}

/*
 * Do what comes next for the read, if there is one and it can be done now.
 */
void
zk_read_advance(ZkClient *client)
{
	QueueRead  *read = client->read;

	if (client->query.node == NULL || !zk_is_connected(client) ||
		atomic_load(&zk_poisoned))
		return;
	if (!read->listed)
	{
		if (read->pending == 0 && zk_requests_available(client, ZK_READ_RESERVE))
			send_list(client);
		return;
	}
	while (read->next < read->end &&
		   zk_requests_available(client, ZK_READ_RESERVE))
		if (!send_data(client))
			return;
	if (read->next == read->end && read->pending == 0)
		read_complete(client);
}
