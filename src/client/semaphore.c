/*-------------------------------------------------------------------------
 *
 * semaphore.c
 *	  Waiting for a permit of a semaphore: for one of several to go.
 *
 * The contenders of a semaphore stand in one queue, and the first of them, as
 * many as there are permits, hold one each.  Whoever of them goes lets the
 * first waiter in, so that one watches all of them.  The others watch the
 * contender right ahead of them, so that nobody else is woken.  But when the
 * first waiter becomes a holder it stays where it is, and the next one has to
 * learn that it is the first waiter now: the one that was granted says so by
 * writing its own data into its contender once more, which fires the watch.
 * Nobody waits for that.
 *
 * A permit is a third mode of a contender.  Creating, finding again, proving
 * and reaping are as for a lock; what differs is the decision (queue.c) and
 * whom to wait for.  unit/permit_test tries P1 to P5 with clients that
 * see the queue late.
 *
 * P1. The name says how many permits there are, so whoever reads a queue knows.
 * A contender that finds one of another kind ahead of it, a lock's or one with
 * another number, fails, be that a holder or a waiter that is about to fail,
 * too.  So all who hold at a time are of one kind: of any two the later one has
 * found the earlier one ahead.
 *
 * P2. Places count, nothing else.  A client's own contender ahead, that it is
 * about to delete, counts as well: those behind go by what they see, and have
 * to come to the same result about who is the first waiter.  (Of another kind
 * it does not count: nobody behind it can be waiting.)  But it is nobody
 * else's: where there would be a permit without it, the wait is for a round
 * trip, like that for a create, and not for another client (own_ahead), so a
 * timeout of zero does not end it with "false".  As a rule there is nothing to
 * wait for: orders are carried out in turn, so the delete is sent before the
 * create.
 *
 * P3. The first waiter watches all holders, any other one the contender right
 * ahead.  So a release wakes the first waiter and, through that, the second
 * one; and who gives up, the one behind.  Watches left on holders when one is
 * granted fire into nothing; they count like others when the handle is
 * replaced.
 *
 * P4. Who is granted announces it by writing its own data once more, if anybody
 * is behind it in the list that was its grant, whether it has waited or not:
 * one behind it may have read the queue before, and so take it for a waiter.
 * One that is not in that list was created later, and finds it among the first.
 *
 * P5. An announcement that came between the list and the watch shows in the
 * version of the data, which is 0 otherwise: then the queue is read again, once
 * for each version.
 *
 * P6. The announcement is sent until it is answered, over reconnects, unless
 * the contender goes, which is an event as well.  It is conditional on the
 * version, so that it wipes out no revocation and no word of who breaks the
 * contender; if somebody has written, that is read first.
 *
 * P7. An event is never a grant.  Of several holders that are watched one may
 * have gone before another is.
 *
 * All functions run on client threads under engine_lock, which the completions
 * and the watcher take themselves.
 *
 * IDENTIFICATION
 *	  src/client/semaphore.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "contender.h"
#include "refusal.h"
#include "request.h"
#include "semaphore.h"

/*
 * Is this the path of a contender that is waited for now?  Watches of earlier
 * waits stay until what they watch is gone.  Who waits for all ahead has hardly
 * any other, and does not look for the path among them.
 */
static bool
concerns(const Contender *c, const char *path)
{
	size_t		len;

	if (!c->in_use || c->unwanted || c->request.mode != ZK_PERMIT ||
		c->state != ZK_WATCHING || c->watched == NULL)
		return false;
	if (!c->watch_all)
		return strcmp(c->watched, path) == 0;
	len = strlen(c->node);
	return strncmp(path, c->node, len) == 0 && path[len] == '/';
}

/*
 * Something happened to a contender that was watched: see what that means.
 */
static void
watcher(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	ZkClient   *client = zk_watch_fired(zh, type, path);
	Contender  *c;
	int			slot = (int) (intptr_t) context;

	(void) state;
	if (client == NULL)
		return;
	c = &client->contenders[slot];
	if (concerns(c, path))
	{
		c->state = ZK_QUEUED;
		zk_contender_touch(client, slot);
	}
	zk_engine_leave(client);
}

/*
 * Read a contender on the way of another one, which sets a watch on it.  The
 * watcher's context is the slot alone, so that waiting again and again for one
 * holder registers one watch with the library, not one a time.  Returns whether
 * it was sent.
 */
bool
zk_send_watch(ZkClient *client, int slot, const char *path,
			  watcher_fn on_event, AnswerHandler handler)
{
	void	   *context = zk_contender_ask(client, slot, handler);
	int			rc = zoo_awget(client->connection.zh, path, on_event,
							   (void *) (intptr_t) slot, zk_on_data, context);

	if (!zk_contender_sent(client, slot, context, rc))
		return false;
	zk_watch_asked(client, path);
	return true;
}

/*
 * A contender could not be watched, for the reason rc: it is gone, so see who
 * is ahead now; or that is tried again, or cannot be done.  path is the
 * contender's.
 */
void
zk_watch_failed(ZkClient *client, int slot, int rc, const char *path)
{
	Contender  *c = &client->contenders[slot];

	c->state = ZK_QUEUED;
	if (rc == ZNOAUTH)
		zk_contender_refused(client, slot, ZOO_PERM_READ, path, strlen(path));
	else if (rc != ZNONODE)
		zk_contender_retry(client, c);
}

/*
 * Watch a contender by reading it, which leaves no watch if it is gone.
 * Returns false if that could not be sent; the queue is read again some time.
 */
static bool
send_watch(ZkClient *client, int slot, const char *name,
		   AnswerHandler handler)
{
	Contender  *c = &client->contenders[slot];
	char		path[ZK_CONTENDER_PATH_SIZE];

	zk_contender_path(c, name, path);
	if (zk_send_watch(client, slot, path, watcher, handler))
		return true;
	c->state = ZK_QUEUED;
	return false;
}

/*
 * The contender right ahead is watched.  If that was a waiter in the list, and
 * has been changed since, it may have become a holder before the watch was set:
 * then its announcement would be missed.  So the list is read again, once for
 * each change.
 */
static void
on_nearest(ZkClient *client, int slot, const Answer *answer)
{
	Contender  *c = &client->contenders[slot];

	if (c->unwanted || c->state != ZK_WATCHING)
		;						/* something has happened since */
	else if (answer->rc != ZOK)
		zk_watch_failed(client, slot, answer->rc, c->watched);
	else if (!c->watch_all && answer->stat->version != c->watched_version)
	{
		c->watched_version = answer->stat->version;
		c->state = ZK_QUEUED;
	}
	else
		zk_contender_blocker_known(client, slot, answer->text, answer->len,
								   answer->stat);
}

/*
 * One of the others is watched.  Answers come in the order of the requests.
 */
static void
on_other(ZkClient *client, int slot, const Answer *answer)
{
	Contender  *c = &client->contenders[slot];
	const char *name;
	char		path[ZK_CONTENDER_PATH_SIZE];

	if (!c->unwanted && c->state == ZK_WATCHING && c->to_watch != NULL)
	{
		name = c->to_watch + c->watches_answered;
		c->watches_answered += (int) strlen(name) + 1;
		if (answer->rc != ZOK)
		{
			zk_contender_path(c, name, path);
			zk_watch_failed(client, slot, answer->rc, path);
		}
		else
			zk_contender_seen_ahead(client, slot, name, answer->stat);
	}
}

/*
 * Watch as many of those that are still to be watched as can be done now.
 * There may be none.
 */
void
zk_permit_watch_more(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];

	while (c->to_watch != NULL && c->to_watch[c->watches_asked] != '\0' &&
		   zk_requests_available(client, ZK_READ_RESERVE))
	{
		const char *name = c->to_watch + c->watches_asked;

		if (!send_watch(client, slot, name, on_other))
			break;
		c->watches_asked += (int) strlen(name) + 1;
	}
}

/*
 * The names of the holders of a semaphore ahead of entry "nearest", each with a
 * NUL, and an empty one.  Malloc'd; NULL if out of memory.
 */
static char *
names_ahead(const ZkQueueEntry *entries, int nearest)
{
	char	   *names = malloc((size_t) (nearest + 1) * ZK_NAME_SIZE);
	size_t		used = 0;

	if (names == NULL)
		return NULL;
	for (int i = 0; i < nearest; i++)
	{
		size_t		size = strlen(entries[i].name) + 1;

		if (entries[i].permits != entries[nearest].permits)
			continue;
		memcpy(names + used, entries[i].name, size);
		used += size;
	}
	names[used] = '\0';
	return names;
}

/*
 * The queue says that the contender must wait for a permit.
 */
void
zk_permit_wait(ZkClient *client, int slot, const ZkQueueEntry *entries,
			   const ZkVerdict *verdict)
{
	Contender  *c = &client->contenders[slot];
	const char *nearest = entries[verdict->watch].name;
	char		path[ZK_CONTENDER_PATH_SIZE];

	zk_contender_path(c, nearest, path);
	if (c->watched == NULL || strcmp(c->watched, path) != 0)
		c->watched_version = 0;
	zk_contender_unwatch(c);
	zk_contender_placed(c, entries, verdict);
	c->next_in_line = c->watch_all = verdict->first_waiter;
	c->own_ahead = verdict->own_ahead;
	c->watches_asked = c->watches_answered = 0;
	c->watched = strdup(path);
	if (c->watch_all)
		c->to_watch = names_ahead(entries, verdict->watch);
	if (c->watched == NULL || (c->watch_all && c->to_watch == NULL))
	{
		zk_contender_fail(client, slot, ZK_ERR_NO_MEMORY, "Out of memory.");
		return;
	}

	c->state = ZK_WATCHING;
	if (!send_watch(client, slot, nearest, on_nearest))
		return;
	zk_permit_watch_more(client, slot);
	zk_contender_publish(client, slot, c->request.no_wait);
}
