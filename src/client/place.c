/*-------------------------------------------------------------------------
 *
 * place.c
 *	  A contender's place in its queue: list, decide, watch, grant.
 *
 * Other lock clients broke each of the rules Q1 to Q9, at the price of two
 * holders or of a queue that stood still.  Q5 and the life of a contender are
 * in protocol.c, Q6 in remove.c, Q7 in create.c, Q8 in queue.c and Q9 in
 * group.c.
 *
 * Q1. A contender is granted only when it was found by its exact name in a list
 * that was read after it was created, in the ZooKeeper session that created it.
 * When a session ends, names, numbers and watches go with it
 * (zk_contenders_session_over); nothing is adopted from an earlier session.
 *
 * Q2. An event is a grant only if, in the list last read, exactly one
 * conflicting contender was ahead, it is the one that was watched, it was
 * deleted (not changed), and the connection has been there all the time.  Why
 * that is enough: numbers only grow, so nobody can come in ahead; the one
 * exception is a downgrade, which puts a shared contender into an exclusive
 * one's place under the same number.  Ours changes the data of the exclusive
 * one before deleting it, in one transaction, so a watcher sees "changed", or,
 * if it set its watch later, a version other than 0.  A server that is told of
 * a watch after a reconnect says just "deleted", which is why the connection
 * matters.  Curator's read-write lock leaves no trace at all, so behind a
 * __WRIT__ contender the list is always read.  A shared contender is not hurt
 * by a downgrade ahead of it.  A list may be read while the watch is there
 * already (Q4): that of the watched one being in it, under its own name, says
 * the same as a get after it.
 *
 * Q3. Watches are set with get, which leaves none on a znode that is gone
 * (exists would).  The context of a watch is the slot alone, so that waiting
 * again and again for one holder registers one watch, in the library and on the
 * server.
 *
 * Q4. An exclusive contender watches the nearest one ahead, a shared one the
 * nearest exclusive one.  So that the event of that one can be the grant, it
 * looks out for the one before as well, and lists when that one goes: then the
 * nearest one has become the holder, as a rule, and the list says that it is
 * the only one ahead.  So a release wakes two waiters, or one batch of readers
 * and who is behind it: one is granted, with no further round trip, and one
 * gets ready while that one holds the lock.  Of two ahead no list is needed,
 * for the deletion of one, under the conditions of Q2, leaves the other one.
 * The whole wait takes six requests, wherever it begins: create, list, two
 * gets, list, delete.  After a loss of the connection nobody looks out any
 * more, and a list follows the event.
 *
 * All functions run on client threads under engine_lock.
 *
 * IDENTIFICATION
 *	  src/client/place.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "contender.h"
#include "lock_delay.h"
#include "place.h"
#include "record_io.h"
#include "refusal.h"
#include "request.h"
#include "semaphore.h"

/*
 * Collect the base names of this client's other contenders of the same lock
 * node: they never conflict.  One that should not exist is waited for, so that
 * it is noticed and deleted (zk_contender_seen_ahead()).  Returns a malloc'd
 * array (NULL if none or no memory: then we wait for ourselves, which is safe),
 * and whether one of them is a shared lock that is held.
 */
static const char **
own_names(ZkClient *client, const Contender *self, int *count, bool *shared)
{
	const char **names = NULL;

	*count = 0;
	*shared = false;
	for (int i = 0; i < client->used; i++)
	{
		const Contender *c = &client->contenders[i];

		if (!c->in_use || c == self || strcmp(c->node, self->node) != 0 ||
			c->base[0] == '\0' ||
			zk_is_doubted(c))
			continue;
		if (names == NULL)
			names = malloc(sizeof(char *) * (size_t) client->used);
		if (names == NULL)
			return NULL;
		names[(*count)++] = c->base;
		if (c->request.mode == ZK_SHARED && c->state == ZK_HELD && !c->unwanted)
			*shared = true;
	}
	return names;
}

/*
 * Are the contenders ahead holders, all of them?  Then we are next.
 */
static bool
only_holders_ahead(const ZkQueueEntry *entries, int blocker, ZkMode mode)
{
	for (int i = 0; i <= blocker; i++)
		if (entries[i].mode == ZK_EXCLUSIVE && blocker > 0)
			return false;
	return mode == ZK_EXCLUSIVE || blocker == 0;
}

static void watcher(zhandle_t *zh, int type, int state, const char *path,
					void *context);

/*
 * The answer to the get that set the watch.  A contender whose data was
 * changed may have put a shared one in its place (send_downgrade), so that its
 * deletion proves nothing.
 */
static void
on_watch(ZkClient *client, int slot, const Answer *answer)
{
	Contender  *c = &client->contenders[slot];

	if (answer->rc == ZOK)
	{
		c->unbroken = answer->stat->version == 0;
		zk_contender_blocker_known(client, slot, answer->text, answer->len,
								   answer->stat);
	}
	else if (c->state == ZK_WATCHING && !c->unwanted)
		zk_watch_failed(client, slot, answer->rc, c->watched);
}

/*
 * The answer to the get that set the watch on the second_watch.  If that could
 * not be done, but not because it is gone, then the contender waits without
 * one.
 */
static void
on_second_watch(ZkClient *client, int slot, const Answer *answer)
{
	Contender  *c = &client->contenders[slot];

	if (c->second_watch != NULL && answer->rc == ZOK)
		c->last_second_watch &= answer->stat->version == 0;
	else if (c->second_watch != NULL)
	{
		zk_contender_drop_second_watch(c);
		c->relist = answer->rc == ZNONODE;
	}
}

/*
 * The path of an entry of the contender's queue, malloc'd; NULL if out of
 * memory.
 */
static char *
entry_path(const Contender *c, const ZkQueueEntry *entry)
{
	size_t		size = strlen(c->node) + strlen(entry->name) + 2;
	char	   *path = malloc(size);

	if (path != NULL)
		snprintf(path, size, "%s/%s", c->node, entry->name);
	return path;
}

/*
 * Wait for a contender to go.  Returns whether that could be asked for; else
 * the contender has failed or will be placed anew.
 */
static bool
send_watch(ZkClient *client, int slot, const ZkQueueEntry *entry)
{
	Contender  *c = &client->contenders[slot];

	c->watched = entry_path(c, entry);
	if (c->watched == NULL)
	{
		zk_contender_fail(client, slot, ZK_ERR_NO_MEMORY, "Out of memory.");
		return false;
	}
	c->state = ZK_WATCHING;
	if (!zk_send_watch(client, slot, c->watched, watcher, on_watch))
		c->state = ZK_QUEUED;
	return c->state == ZK_WATCHING;
}

/*
 * Look out for the contender before the watched one, so that it is known to be
 * the only one ahead before it goes.  Who has to know the marks lists anyhow.
 */
static void
send_second_watch(ZkClient *client, int slot, const ZkQueueEntry *entries,
				  const ZkVerdict *verdict)
{
	Contender  *c = &client->contenders[slot];

	if (verdict->second_watch < 0 || c->request.lock_delay > 0 ||
		!zk_requests_available(client, ZK_READ_RESERVE))
		return;
	c->second_watch = entry_path(c, &entries[verdict->second_watch]);
	c->last_second_watch = verdict->last_second_watch;
	if (c->second_watch != NULL && !zk_send_watch(client, slot, c->second_watch, watcher, on_second_watch))
		zk_contender_drop_second_watch(c);
}

/*
 * The contender is next in line: it keeps its lease from now on, and watches
 * its own znode soon.  The helper looks after leases every eighth of the
 * timeout anyway, so it is woken for an older one only.
 */
static void
come_next(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];

	if (c->next_in_line)
		return;
	c->next_in_line = true;
	zk_contender_watch_own_in(c, ZK_WATCH_DELAY);
	if (zk_now() - c->proved_at > zk_timeout(client) / 8)
		zk_mailbox_wake_helper(&client->mailbox);
}

/*
 * The queue says that the contender must wait.  If it is for the one that it
 * waits for already, then the watch is kept: that one is in a list which was
 * read after its watch was set, and should something have happened to it then
 * the event is on its way.
 */
static void
wait_for(ZkClient *client, int slot, const ZkQueueEntry *entries,
		 const ZkVerdict *verdict, bool upgrade)
{
	Contender  *c = &client->contenders[slot];
	const ZkQueueEntry *nearest = &entries[verdict->watch];
	bool		kept = c->state == ZK_WATCHING && c->unbroken &&
	strcmp(strrchr(c->watched, '/') + 1, nearest->name) == 0;

	zk_contender_drop_second_watch(c);
	if (!kept)
		zk_contender_unwatch(c);
	zk_contender_placed(c, entries, verdict);
	if (upgrade && verdict->deadlock >= 0)
		snprintf(c->rival, sizeof(c->rival), "%s",
				 entries[verdict->deadlock].name);
	if (!kept && !send_watch(client, slot, nearest))
		return;
	send_second_watch(client, slot, entries, verdict);
	if (only_holders_ahead(entries, verdict->watch, c->request.mode))
		come_next(client, slot);
	else
	{
		c->next_in_line = false;
		zk_contender_watch_own_in(c,
								  c->last_second_watch ? ZK_WATCH_DELAY : ZK_FAR_WATCH_DELAY);
	}

	/* else who is ahead is known already, or will be told in a moment */
	zk_contender_publish(client, slot, c->request.no_wait || c->rival[0] != '\0');
}

/*
 * Warn, once for this client, of a child that is no contender of any kind we
 * know: it is ignored, but somebody may believe that it excludes us.
 */
static void
warn_foreign(ZkClient *client, const Contender *c, const char *name)
{
	if (client->warned_foreign)
		return;
	client->warned_foreign = true;
	zk_log(true, "ignoring znode \"%.60s\" below lock node \"%.80s\": not a contender",
		   name, c->node);
}

/*
 * A contender of another kind is ahead: whatever ours waited for, it would not
 * get what was asked for.
 */
static void
mixed(ZkClient *client, int slot, const ZkQueueEntry *other)
{
	if (other->permits > 0)
		zk_contender_fail(client, slot, ZK_ERR_KIND,
						  "Contender \"%.80s\", which is ahead, is for a semaphore with %d permits.",
						  other->name, other->permits);
	else
		zk_contender_fail(client, slot, ZK_ERR_KIND,
						  "Contender \"%.80s\", which is ahead, is for a lock.",
						  other->name);
}

/*
 * Find the contender's place in a list of children just read.
 */
static void
evaluate(ZkClient *client, int slot, const struct String_vector *list)
{
	Contender  *c = &client->contenders[slot];
	ZkQueueEntry self = {.sequence = INT64_MAX};
	ZkQueueEntry *entries;
	ZkVerdict	verdict;
	const char *ignored = NULL;
	const char **own;
	int			own_count;
	bool		upgrade;
	int			count;

	entries = malloc(sizeof(ZkQueueEntry) * (size_t) (list->count + 1));
	if (entries == NULL)
	{
		zk_contender_fail(client, slot, ZK_ERR_NO_MEMORY, "Out of memory.");
		return;
	}
	zk_queue_parse(c->name, &self);
	count = zk_queue_sort_up_to(self.sequence, (const char *const *) list->data,
								list->count, entries, &ignored);
	if (ignored != NULL)
		warn_foreign(client, c, ignored);
	own = own_names(client, c, &own_count, &upgrade);
	zk_queue_decide(entries, count, c->name, own, own_count, &verdict);
	switch (verdict.decision)
	{
		case ZK_DECIDE_GRANTED:
			c->rewrite = verdict.announce;
			zk_contender_grant(client, slot);
			break;
		case ZK_DECIDE_WAIT:
			if (c->request.mode == ZK_PERMIT)
				zk_permit_wait(client, slot, entries, &verdict);
			else
				wait_for(client, slot, entries, &verdict, upgrade);
			break;
		case ZK_DECIDE_MISSING:
			zk_contender_missing(client, slot);
			break;
		case ZK_DECIDE_TIED:
			zk_contender_fail(client, slot, ZK_ERR_TIED,
							  "Contender \"%.80s\" has the same sequence number as \"%s\".",
							  entries[verdict.watch].name, c->name);
			break;
		case ZK_DECIDE_MIXED:
			mixed(client, slot, &entries[verdict.watch]);
			break;
		case ZK_DECIDE_SEQUENCE:
			zk_contender_fail(client, slot, ZK_ERR_SEQUENCE,
							  "Contender \"%s\" has one of the last sequence numbers.",
							  c->name);
			break;
	}
	free(own);
	free(entries);
}

/*
 * The second_watch is gone, or was changed.  If it was the only other one ahead
 * then the watched one is the last, else a list will tell.
 */
static void
second_watch_gone(ZkClient *client, int slot, bool deleted)
{
	Contender  *c = &client->contenders[slot];
	bool		last = deleted && c->last_second_watch;

	zk_contender_drop_second_watch(c);
	if (last)
	{
		c->last_ahead = true;
		c->ahead--;
		c->position--;
		snprintf(c->holder, sizeof(c->holder), "%s",
				 strrchr(c->watched, '/') + 1);
		come_next(client, slot);
		zk_contender_publish(client, slot, false);
	}
	else
	{
		c->relist = true;
		zk_contender_touch(client, slot);
	}
}

/*
 * The watched one is gone, or was changed.
 */
static void
watched_gone(ZkClient *client, int slot, bool deleted)
{
	Contender  *c = &client->contenders[slot];

	if (deleted && c->last_ahead && c->unbroken && c->pending == 0)
		zk_contender_grant(client, slot);
	else
	{
		c->state = ZK_QUEUED;
		zk_contender_touch(client, slot);
	}
}

/*
 * Something happened to a znode that was watched.
 */
static void
watcher(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	ZkClient   *client = zk_watch_fired(zh, type, path);
	Contender  *c;
	int			slot = (int) (intptr_t) context;
	bool		deleted = type == ZOO_DELETED_EVENT;

	(void) state;
	if (client == NULL)
		return;
	c = &client->contenders[slot];
	if (!c->in_use || c->unwanted || c->state != ZK_WATCHING)
		;						/* of a wait that is over */
	else if (c->watched != NULL && strcmp(c->watched, path) == 0)
		watched_gone(client, slot, deleted);
	else if (c->second_watch != NULL && strcmp(c->second_watch, path) == 0)
		second_watch_gone(client, slot, deleted);
	zk_engine_leave(client);
}

/*
 * The connection is lost.  The library will set the watches anew, and the
 * server answers that with a plain "deleted" for what went meanwhile, even if a
 * shared contender was put in its place: no such event is a grant, nor does it
 * say who is ahead.
 */
void
zk_place_disconnected(Contender *c)
{
	c->last_ahead = c->unbroken = false;
	zk_contender_drop_second_watch(c);
}

/*
 * Ask for the children of a contender's lock node.  engine_lock.
 */
void
zk_send_children(ZkClient *client, int slot, AnswerHandler handler)
{
	void	   *context = zk_contender_ask(client, slot, handler);
	int			rc;

	rc = zoo_aget_children(client->connection.zh, client->contenders[slot].node, 0,
						   zk_on_children, context);
	zk_contender_sent(client, slot, context, rc);
}

/*
 * The list of a queue.
 */
static void
on_list(ZkClient *client, int slot, const Answer *answer)
{
	int			rc = answer->rc;
	Contender  *c = &client->contenders[slot];

	if (!c->unwanted && c->state == ZK_WANTED && c->grouped && rc == ZNONODE)
		zk_contender_parent_missing(c); /* the group could not be created */
	else if (c->unwanted ||
			 (c->state != ZK_QUEUED && c->state != ZK_WATCHING))
		;						/* the create that went with it failed */
	else if (rc == ZOK && !zk_marks_queue_listed(c, answer->children))
		zk_contender_fail(client, slot, ZK_ERR_NO_MEMORY,
						  "Out of memory.");
	else if (rc == ZOK)
		evaluate(client, slot, answer->children);
	else if (rc == ZNONODE)
		zk_contender_missing(client, slot);
	else if (rc == ZNOAUTH)
		zk_contender_refused(client, slot, ZOO_PERM_READ,
							 c->node, strlen(c->node));
	else if (c->state == ZK_QUEUED)
		zk_contender_retry(client, c);
}

/*
 * The second_watch is gone: list the queue while the contender goes on waiting,
 * to find out whether the watched one is the last one ahead.
 */
void
zk_place_relist(ZkClient *client, int slot)
{
	client->contenders[slot].relist = false;
	zk_send_children(client, slot, on_list);
}

/*
 * List the queue, to find the contender's place in it; and read the record and
 * the marks that it wants behind that, in the same go.
 */
void
zk_place_send_list(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];

	c->reading = c->record_known = false;
	c->marking.due = c->marking.looked = false;
	zk_send_children(client, slot, on_list);
	if (c->record != NULL && zk_requests_available(client, 1))
		zk_send_record(client, slot);
	if (c->request.lock_delay > 0 && zk_requests_available(client, 1))
		zk_send_marks(client, slot);
}
