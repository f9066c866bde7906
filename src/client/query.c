/*-------------------------------------------------------------------------
 *
 * query.c
 *	  What the backend wants of the contenders of others: to see them, to ask
 *	  for a lock back, to break one.
 *
 * There is one query at a time; the next one takes its place.  Reading a queue
 * is in read_queue.c, reading a tree of them in read_tree.c, published waits in
 * read_waits.c.  The others go like this:
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
 * before anybody else is granted it, and knows the reason.  One that does not
 * is not waited for, as it is mostly what the breaking is for; it may believe
 * in the lock until its lease runs out.  A waiter that is broken ends; it would
 * come back otherwise.  So does a call that has been granted one of several
 * locks and waits for the others.  The client's contenders are told from those
 * of others by how their data begins.
 *
 * All functions run on client threads under engine_lock, which the completions
 * and the watcher take themselves.
 *
 * IDENTIFICATION
 *	  src/client/query.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "answer.h"
#include "auth.h"
#include "own_watch.h"
#include "owner.h"
#include "query.h"
#include "read_queue.h"
#include "read_tree.h"
#include "read_waits.h"
#include "record_io.h"
#include "request.h"

/* How long the owner of a contender has to give it up. */
#define OWNER_TIMEOUT	ZK_MS(1000)

/* Requests that must be free for a step. */
#define BREAK_RESERVE	2

/* How far the breaking of a contender has come. */
typedef enum BreakStep
{
	BREAK_LOOK,					/* whose is it? */
	BREAK_MARK,					/* write the note into it */
	BREAK_WATCH,				/* see it go */
	BREAK_AWAIT,
	BREAK_DELETE
} BreakStep;

/* A contender being broken, or revoked.  engine_lock. */
struct Breaking
{
	BreakStep	step;
	bool		pending;		/* an answer is to come */
	bool		begun;			/* something that changes it was sent */
	ZkTime		patience;		/* AWAIT: delete it then */
	ZkQueueListing *found;		/* the contender; NULL while unknown */
};

/* What was sent last is answered. */
static Breaking *
answered(ZkClient *client)
{
	client->breaking->pending = false;
	return client->breaking;
}

/*
 * The contender is not there (any more).  If something was sent that changes
 * it, that has done it, or its owner has.
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

/* What was found is the answer. */
static void
done(ZkClient *client)
{
	client->breaking->begun = true;
	gone(client);
}

/*
 * A step (what, as in "delete") was refused.  If it is the connection that is
 * missing all begins anew, when it is there again.
 */
static void
refused(ZkClient *client, int rc, const char *what)
{
	char		detail[ZK_DETAIL_SIZE];

	if (zk_identity_wanted(&client->identity, rc))
	{
		zk_query_failed(client, ZK_ERR_AUTH, ZK_IDENTITY_WANTED);
		return;
	}
	if (zk_is_connection_error(rc))
		return;
	snprintf(detail, sizeof(detail), "Could not %s contender \"%.80s\": %s.",
			 what, client->query.name,
			 rc == ZNOAUTH ? "permission denied" : zk_answer_text(rc));
	zk_query_failed(client, rc != ZNOAUTH ? zk_answer_error(rc) :
					client->identity.credential != NULL ? ZK_ERR_REFUSED :
					ZK_ERR_FORBIDDEN, detail);
}

/*
 * Keep what a get says of the contender, stat being NULL if it may not be read.
 * What was found first is kept, as it is from before anything was changed.
 * False if out of memory.
 */
static bool
keep_found(Breaking *breaking, const char *name, const char *value,
		   int value_len, const struct Stat *stat)
{
	ZkQueueListing *found;

	if (breaking->found != NULL)
		return true;
	breaking->found = found = calloc(1, sizeof(ZkQueueListing));
	if (found != NULL)
		found->members = calloc(1, sizeof(ZkQueueMember));
	if (found == NULL || found->members == NULL)
		return false;
	found->count = 1;
	found->members[0].name = strdup(name);
	if (stat != NULL)
		zk_member_fill(&found->members[0], value, value_len, stat);
	return found->members[0].name != NULL;
}

/* Has that data been written by a zklock client, for itself or to break it? */
static bool
of_zklock(const ZkQueueMember *member)
{
	return zk_begins_with(member->data, member->data_len, ZK_OWNER_PREFIX) ||
		zk_begins_with(member->data, member->data_len, ZK_BREAK_PREFIX);
}

static void
on_look(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;
	Breaking   *breaking = answered(client);

	(void) which;
	if (rc == ZNONODE)
		gone(client);
	else if (rc != ZOK && rc != ZNOAUTH)
		refused(client, rc, "read");
	else if (!keep_found(breaking, client->query.name, answer->text, answer->len,
						 rc == ZOK ? answer->stat : NULL))
		zk_query_failed(client, ZK_ERR_NO_MEMORY, "Out of memory.");
	else if (client->query.kind == QUERY_REVOKE ||
			 of_zklock(&breaking->found->members[0]))
		breaking->step = BREAK_MARK;
	else
		breaking->step = BREAK_DELETE;
	zk_query_advance(client);
}

static void
on_mark(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;
	Breaking   *breaking = answered(client);

	(void) which;
	if (rc == ZNONODE)
		gone(client);
	else if (client->query.kind == QUERY_REVOKE)
	{
		if (rc == ZOK)
			done(client);
		else
			refused(client, rc, "change");
	}
	else if (rc == ZOK)
	{
		breaking->step = BREAK_WATCH;
		breaking->patience = zk_now() + OWNER_TIMEOUT;
	}
	else if (!zk_is_connection_error(rc))
		breaking->step = BREAK_DELETE;	/* which asks for another permission */
	zk_query_advance(client);
}

/*
 * Something happened to the contender that is being broken.
 */
static void
break_watcher(zhandle_t *zh, int type, int state, const char *path,
			  void *context)
{
	ZkClient   *client;

	(void) state;
	(void) path;
	(void) context;
	if (type == ZOO_SESSION_EVENT)
		return;
	client = zk_client_enter();
	if (zk_is_current(client, zh) &&
		client->query.node != NULL && client->query.kind == QUERY_BREAK &&
		client->breaking->step == BREAK_AWAIT)
	{
		client->breaking->step = BREAK_WATCH;
		zk_query_advance(client);
	}
	zk_engine_leave(client);
}

static void
on_watch(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;
	Breaking   *breaking = answered(client);

	(void) which;
	if (rc == ZNONODE)
		gone(client);
	else if (rc == ZOK)
	{
		breaking->step = BREAK_AWAIT;
		zk_mailbox_wake_helper(&client->mailbox);
	}
	else if (!zk_is_connection_error(rc))
		breaking->step = BREAK_DELETE;
	zk_query_advance(client);
}

static void
on_delete(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;

	(void) which;
	(void) answered(client);
	if (rc == ZOK || rc == ZNONODE)
		done(client);
	else
		refused(client, rc, "delete");
	zk_query_advance(client);
}

/*
 * Send a step; returns the library's answer.
 */
static int
send_step(ZkClient *client, const char *path, void *context)
{
	const Query *query = &client->query;
	const char *note = query->kind == QUERY_REVOKE ?
	ZK_REVOCATION : query->note;

	switch (client->breaking->step)
	{
		case BREAK_LOOK:
			zk_request_expect(client, context, on_look);
			return zoo_aget(client->connection.zh, path, 0, zk_on_data, context);
		case BREAK_MARK:
			zk_request_expect(client, context, on_mark);
			return zoo_aset(client->connection.zh, path, note, (int) strlen(note), -1,
							zk_on_stat, context);
		case BREAK_WATCH:
			zk_request_expect(client, context, on_watch);
			zk_watch_asked(client, path);
			return zoo_awget(client->connection.zh, path, break_watcher, NULL, zk_on_data,
							 context);
		case BREAK_AWAIT:
		case BREAK_DELETE:
			break;
	}
	zk_request_expect(client, context, on_delete);
	return zoo_adelete(client->connection.zh, path, -1, zk_on_void, context);
}

/*
 * Do what comes next for a contender that is to be broken or revoked.
 */
static void
break_advance(ZkClient *client)
{
	Breaking   *breaking = client->breaking;
	char		path[ZK_NODE_PATH_SIZE * 2];
	void	   *context;

	if (client->query.node == NULL || breaking->pending ||
		!zk_is_connected(client) || atomic_load(&zk_poisoned) ||
		!zk_requests_available(client, BREAK_RESERVE))
		return;
	if (breaking->step == BREAK_AWAIT)
	{
		if (zk_now() < breaking->patience)
			return;
		breaking->step = BREAK_DELETE;
	}
	snprintf(path, sizeof(path), "%s/%s", client->query.node,
			 client->query.name);
	context = zk_request_begin(client, REQ_QUERY, 0, NULL);
	if (send_step(client, path, context) != ZOK)
	{
		zk_request_undo(client, context);
		return;
	}
	breaking->pending = true;
	breaking->begun |= breaking->step == BREAK_MARK ||
		breaking->step == BREAK_DELETE;
}

/*
 * Do what comes next for the query, if there is one and it can be done now.
 */
void
zk_query_advance(ZkClient *client)
{
	if (client->query.kind == QUERY_READ ||
		client->query.kind == QUERY_HEAD)
		zk_read_advance(client);
	else if (client->query.kind == QUERY_TREE)
		zk_tree_advance(client);
	else if (client->query.kind == QUERY_RECORD)
		zk_record_query_advance(client);
	else if (client->query.kind == QUERY_WAITS)
		zk_waits_advance(client);
	else
		break_advance(client);
}

/*
 * The connection was lost, or the handle closed: begin again.  What was found
 * before something was changed is kept, for the contender may be gone by now;
 * and what was found of a tree, for there may be much of it.  Waits are read
 * within one connection, as one server sees them.
 */
void
zk_query_restart(ZkClient *client)
{
	Breaking   *breaking = client->breaking;

	zk_requests_forget_kind(client, REQ_QUERY);
	zk_read_restart(client);
	if (client->query.kind == QUERY_WAITS)
		zk_tree_forget(client);
	else
		zk_tree_restart(client);
	breaking->pending = false;
	breaking->step = BREAK_LOOK;
}

/*
 * Allocate what queries need.  False if out of memory; zk_query_free() frees
 * what there is.
 */
bool
zk_query_init(ZkClient *client)
{
	client->read = calloc(1, sizeof(QueueRead));
	client->tree = calloc(1, sizeof(TreeRead));
	client->breaking = calloc(1, sizeof(Breaking));
	return client->read != NULL && client->tree != NULL &&
		client->breaking != NULL;
}

/* Free that.  No query is under way. */
void
zk_query_free(ZkClient *client)
{
	free(client->read);
	free(client->tree);
	free(client->breaking);
}

/*
 * Begin a query, which is taken over, in place of the one before.
 */
void
zk_query_begin(ZkClient *client, Query *query)
{
	zk_query_restart(client);
	zk_tree_forget(client);
	zk_queue_free(client->breaking->found);
	memset(client->breaking, 0, sizeof(Breaking));
	zk_query_clear(&client->query);
	client->query = *query;
	memset(query, 0, sizeof(*query));
	zk_query_advance(client);
}

/* When is there something to be done that no answer will cause? */
ZkTime
zk_query_due(const ZkClient *client)
{
	if (client->query.node == NULL || !zk_is_connected(client) ||
		client->breaking->pending || client->breaking->step != BREAK_AWAIT)
		return INT64_MAX;
	return client->breaking->patience;
}
