/*-------------------------------------------------------------------------
 *
 * query.c
 *	  What the backend asks about the contenders of other clients, or does to
 *	  them.
 *
 * There is one query at a time; the next one takes its place.  reader.c does
 * those that read.  Breaking a contender, or revoking it, goes like this:
 *
 * LOOK		get the contender, to see whose it is
 * MARK		write a note into it: "__REVOKE__" (that is all of a revocation), or
 *			who breaks it
 * WATCH	if it is to be broken, get it again with a watch
 * AWAIT	its owner has a watch on it, too (own_watch.c), and deletes it
 * DELETE	or has not done so in time, or is no zklock client: delete it
 *
 * W3. Breaking writes who breaks it into the contender and gives its owner a
 * second to delete it: an owner that hears of it stops believing in the lock
 * before anybody else is granted it, and knows the reason.  We do not wait for
 * one that does not react, which is the usual reason to break a lock; it may
 * believe in the lock until its lease runs out.  A waiter that is broken ends;
 * otherwise it would come back.  So does a call that has been granted one of
 * several locks and waits for the others.  The beginning of its data tells
 * whether a contender is a zklock client's.
 *
 * All functions run on client threads under engine_lock, which the watcher
 * takes itself.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "answer.h"
#include "auth.h"
#include "listing.h"
#include "own_watch.h"
#include "query.h"
#include "reader.h"
#include "request.h"

/* How long the owner of a contender has to give it up. */
#define OWNER_TIMEOUT	ZK_MS(1000)

/* What comes next for a contender that is to be broken or revoked. */
typedef enum BreakStep
{
	BREAK_LOOK,
	BREAK_MARK,
	BREAK_WATCH,
	BREAK_AWAIT,
	BREAK_DELETE
} BreakStep;

/* engine_lock */
struct Breaking
{
	BreakStep	step;
	bool		pending;		/* an answer is to come */
	bool		begun;			/* a request that changes it was sent */
	ZkTime		delete_at;		/* AWAIT: delete it then */
	ZkQueueListing *found;		/* the contender as it was before; NULL while
								 * unknown */
};

/*
 * The contender does not exist (any more).  If we have sent something that
 * changes it, it is broken.
 */
static void
gone(ZkClient *client)
{
	Breaking   *breaking = client->breaking;
	ZkQueueListing *found = breaking->found;

	breaking->found = NULL;
	if (found == NULL || !breaking->begun)
	{
		zk_queue_free(found);
		found = calloc(1, sizeof(ZkQueueListing));
	}
	zk_query_done(client, found);
}

/*
 * Keep what a get says of the contender; stat is NULL if it may not be read.
 * What is known already is kept, as it is from before any change.  False if out
 * of memory.
 */
static bool
keep_found(const ZkClient *client, const Answer *answer, const struct Stat *stat)
{
	ZkQueueListing *found = client->breaking->found;

	if (found != NULL)
		return true;
	client->breaking->found = found = calloc(1, sizeof(ZkQueueListing));
	if (found != NULL)
		found->members = calloc(1, sizeof(ZkQueueMember));
	if (found == NULL || found->members == NULL)
		return false;
	found->count = 1;
	found->members[0].name = strdup(client->query.name);
	if (stat != NULL)
		zk_member_fill(&found->members[0], answer->text, answer->len, stat);
	return found->members[0].name != NULL;
}

/* Returns true if a zklock client wrote the data, as owner or to break it. */
static bool
of_zklock(const ZkQueueMember *member)
{
	return zk_begins_with(member->data, member->data_len, ZK_OWNER_PREFIX) ||
		zk_begins_with(member->data, member->data_len, ZK_BREAK_PREFIX);
}

static void
looked(ZkClient *client, const Answer *answer)
{
	Breaking   *breaking = client->breaking;

	if (!keep_found(client, answer, answer->rc == ZOK ? answer->stat : NULL))
		zk_query_failed(client, ZK_ERR_NO_MEMORY, "Out of memory.");
	else if (client->query.kind == ZK_QUERY_REVOKE ||
			 of_zklock(&breaking->found->members[0]))
		breaking->step = BREAK_MARK;
	else
		breaking->step = BREAK_DELETE;
}

/* A step failed, for another reason than a missing znode. */
static void
refused(ZkClient *client, int rc)
{
	static const char *const texts[] = {
		[BREAK_LOOK] = "Could not read contender \"%.80s\": %s.",
		[BREAK_MARK] = "Could not change contender \"%.80s\": %s.",
		[BREAK_DELETE] = "Could not delete contender \"%.80s\": %s."
	};
	Breaking   *breaking = client->breaking;

	/* deleting takes another permission than changing */
	if (client->query.kind == ZK_QUERY_BREAK &&
		(breaking->step == BREAK_MARK || breaking->step == BREAK_WATCH))
		breaking->step = BREAK_DELETE;
	else
		zk_query_failed(client, zk_refused_error(client, rc),
						texts[breaking->step], client->query.name,
						rc == ZNOAUTH ? "permission denied" : zk_answer_text(rc));
}

static void
carried_out(ZkClient *client)
{
	Breaking   *breaking = client->breaking;

	if (breaking->step == BREAK_WATCH)
	{
		breaking->step = BREAK_AWAIT;
		zk_mailbox_wake_helper(&client->mailbox);
	}
	else if (breaking->step == BREAK_MARK && client->query.kind == ZK_QUERY_BREAK)
	{
		breaking->step = BREAK_WATCH;
		breaking->delete_at = zk_now() + OWNER_TIMEOUT;
	}
	else
		gone(client);
}

static void
on_step(ZkClient *client, const Answer *answer)
{
	Breaking   *breaking = client->breaking;
	int			rc = answer->rc;

	breaking->pending = false;
	if (zk_identity_wanted(&client->identity, rc))
		zk_query_failed(client, ZK_ERR_AUTH, ZK_IDENTITY_WANTED);
	else if (rc == ZNONODE)
		gone(client);
	else if (breaking->step == BREAK_LOOK && (rc == ZOK || rc == ZNOAUTH))
		looked(client, answer);
	else if (rc == ZOK)
		carried_out(client);
	else if (!zk_is_connection_error(rc))
		refused(client, rc);
	zk_query_advance(client);
}

/* Something happened to the contender that is being broken. */
static void
break_watcher(zhandle_t *zh, int type, int state, const char *path,
			  void *context)
{
	ZkClient   *client = zk_watch_fired(zh, type, path);

	(void) state;
	(void) context;
	if (client == NULL)
		return;
	if (client->query.node != NULL && client->query.kind == ZK_QUERY_BREAK &&
		client->breaking->step == BREAK_AWAIT)
	{
		client->breaking->step = BREAK_WATCH;
		zk_query_advance(client);
	}
	zk_engine_leave(client);
}

/* Send a step; returns the library's answer. */
static int
send_step(ZkClient *client, const char *path, void *context)
{
	const Query *query = &client->query;
	const char *note = query->kind == ZK_QUERY_REVOKE ? ZK_REVOCATION : query->note;

	switch (client->breaking->step)
	{
		case BREAK_LOOK:
			return zoo_aget(client->connection.zh, path, 0, zk_on_data, context);
		case BREAK_MARK:
			return zoo_aset(client->connection.zh, path, note, (int) strlen(note), -1,
							zk_on_stat, context);
		case BREAK_WATCH:
			zk_watch_asked(client, path);
			return zoo_awget(client->connection.zh, path, break_watcher, NULL, zk_on_data,
							 context);
		case BREAK_AWAIT:
		case BREAK_DELETE:
			break;
	}
	return zoo_adelete(client->connection.zh, path, -1, zk_on_void, context);
}

static void
break_advance(ZkClient *client)
{
	Breaking   *breaking = client->breaking;
	char		path[ZK_NODE_PATH_SIZE * 2];
	void	   *context;

	if (breaking->pending || client->query.node == NULL ||
		!zk_requests_available(client, ZK_READ_RESERVE))
		return;
	if (breaking->step == BREAK_AWAIT)
	{
		if (zk_now() < breaking->delete_at)
			return;
		breaking->step = BREAK_DELETE;
	}
	snprintf(path, sizeof(path), "%s/%s", client->query.node, client->query.name);
	context = zk_request_begin(client, REQ_QUERY, 0, on_step);
	if (send_step(client, path, context) != ZOK)
	{
		zk_request_undo(client, context);
		return;
	}
	breaking->pending = true;
	breaking->begun |= breaking->step == BREAK_MARK ||
		breaking->step == BREAK_DELETE;
}

/* Returns true if the query breaks or revokes a contender. */
static bool
breaks(const Query *query)
{
	return query->kind == ZK_QUERY_BREAK || query->kind == ZK_QUERY_REVOKE;
}

/* Do what comes next for the query, if there is one and it can be done now. */
void
zk_query_advance(ZkClient *client)
{
	if (breaks(&client->query))
		break_advance(client);
	else
		zk_reader_advance(client);
}

/*
 * The connection was lost, or the handle closed: begin again.  What was found
 * of a contender is kept: it is from before we changed it.
 */
void
zk_query_restart(ZkClient *client)
{
	zk_requests_forget_kind(client, REQ_QUERY);
	if (!breaks(&client->query))
		zk_reader_restart(client);
	client->breaking->pending = false;
	client->breaking->step = BREAK_LOOK;
}

/* Allocate what queries need.  False if out of memory; zk_query_free() then. */
bool
zk_query_init(ZkClient *client)
{
	client->reader = zk_reader_create();
	client->breaking = calloc(1, sizeof(Breaking));
	return client->reader != NULL && client->breaking != NULL;
}

/* Free what zk_query_init() has allocated, and what the last query has left. */
void
zk_query_free(ZkClient *client)
{
	if (client->reader != NULL)
		zk_reader_clear(client->reader);
	if (client->breaking != NULL)
		zk_queue_free(client->breaking->found);
	zk_query_clear(&client->query);
	free(client->reader);
	free(client->breaking);
}

/* Begin a query, which is taken over, in place of the one before. */
void
zk_query_begin(ZkClient *client, Query *query)
{
	zk_requests_forget_kind(client, REQ_QUERY);
	zk_reader_clear(client->reader);
	zk_queue_free(client->breaking->found);
	memset(client->breaking, 0, sizeof(Breaking));
	zk_query_clear(&client->query);
	client->query = *query;
	memset(query, 0, sizeof(*query));
	zk_query_advance(client);
}

/* When there is something to be done that no answer will cause. */
ZkTime
zk_query_due(const ZkClient *client)
{
	if (client->query.node == NULL || !zk_is_connected(client) ||
		client->breaking->pending || client->breaking->step != BREAK_AWAIT)
		return INT64_MAX;
	return client->breaking->delete_at;
}
