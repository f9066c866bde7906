/*-------------------------------------------------------------------------
 *
 * watch.c
 *	  Waiting for the contenders ahead: whom to watch, and what an event means.
 *
 * Q2. An event is a grant only if, in the list last read, exactly one
 * conflicting contender was ahead, it is the one that was watched, it was
 * deleted (not changed), and the connection has lasted all the time.  That is
 * enough: numbers only grow, so nobody can come in ahead.  The one exception
 * is a downgrade, which puts a shared contender into an exclusive one's place
 * under the same number.  Ours changes the data of the exclusive one before
 * deleting it, in one transaction, which no get comes between, so a watcher
 * sees "changed".  A server that is told of a watch after a reconnect says just
 * "deleted", hence the condition on the connection.  Curator's read-write lock
 * leaves no trace at all, so behind a __WRIT__ contender the list is always
 * read.  A downgrade ahead does not hurt a shared contender.  A list may be
 * read while the watch is set already (Q4): if the watched one is in it, that
 * says the same as a get after it.
 *
 * Q3. Watches are set with get, which leaves none on a znode that is gone
 * (exists would).  The context of a watch is the slot alone, so that waiting
 * repeatedly for one holder registers one watch, in the library and on the
 * server.
 *
 * Q4. An exclusive contender watches the nearest one ahead, a shared one the
 * nearest exclusive one.  So that the event of that one can be the grant, it
 * watches the one before as well, and lists when that one goes: then the
 * nearest one has become the holder, as a rule, and the list says that it is
 * the only one ahead.  So a release wakes two waiters, or one batch of readers
 * and the one behind it: one is granted, with no further round trip, and one
 * gets ready while that one holds the lock.  Of two ahead no list is needed,
 * because the deletion of one, under the conditions of Q2, leaves the other
 * one.  The whole wait takes six requests, wherever it begins: create, list,
 * two gets, list, delete.  After a loss of the connection the second watch is
 * given up, and a list follows the event.
 *
 * The contenders of a semaphore stand in one queue, and the first of them, as
 * many as there are permits, hold one each.  A permit is a third mode of a
 * contender; it differs in the decision (queue.c) and in whom to wait for.
 * unit/permit_test tries P1 to P5 with clients that see the queue late.
 *
 * P1. The name contains the number of permits, so all readers of a queue know
 * it.  A contender that finds one of another kind ahead of it, a lock's or one
 * with another number, fails, even if that is a waiter that is about to fail,
 * too.  So all holders are of one kind: of any two the later one has found the
 * earlier one ahead.
 *
 * P2. Places count, nothing else.  A client's own contender ahead that it is
 * about to delete counts as well: those behind go by what they see, and must
 * come to the same result about which one is the first waiter.  (Of another
 * kind it does not count: nobody behind it can be waiting.)  But where there
 * would be a permit without it, the wait is for a round trip, like that for a
 * create, and not for another client (own_ahead), so a timeout of zero does
 * not end it with "false".  As a rule there is nothing to wait for: orders are
 * carried out in turn, so the delete is sent before the create.
 *
 * P3. The first waiter watches all holders, because any of them may go first;
 * any other one watches the contender right ahead, so that nobody else is
 * woken.  Watches left on holders when one is granted fire into nothing; they
 * count like others when the handle is replaced.
 *
 * P4. When the first waiter becomes a holder it stays where it is, and the
 * next one must learn that it is the first waiter now.  So a contender that is
 * granted writes its own data once more, if anybody is behind it in the list
 * that was its grant, even if it has not waited: one behind it may have read
 * the queue before, and so take it for a waiter.  One that is not in that list
 * was created later, and finds it among the first.
 *
 * P5. An announcement that came between the list and the watch shows in the
 * version of the data, which is 0 otherwise: then the queue is read again, once
 * for each version.
 *
 * P6. The announcement is sent until it is answered, over reconnects, unless
 * the contender goes, which is an event as well.  It is conditional on the
 * version, so that it wipes out no revocation and no word of a client that
 * breaks the contender; if another client has written, that is read first
 * (own_watch.c).
 *
 * P7. For a permit an event is never a grant: it does not say whether anybody
 * is behind, who must learn of the grant (P4).
 *
 * All functions run on client threads under engine_lock, which the watcher
 * takes itself.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "contender.h"
#include "own_watch.h"
#include "refusal.h"
#include "request.h"
#include "watch.h"
#include "znode.h"

/* Gives up the second watch: a list after the first one's event will do. */
static void
drop_second(Watching *w, SecondWatch left)
{
	free(w->second_path);
	w->second_path = NULL;
	w->second = left;
}

/* Stops waiting for anybody. */
void
zk_unwatch(Contender *c)
{
	Watching   *w = &c->watching;

	free(w->path);
	free(w->names);
	w->path = w->names = NULL;
	w->unbroken = false;
	drop_second(w, SECOND_NONE);
}

/* The queue is being listed while the contender waits, as that asked for. */
void
zk_watch_listing(Contender *c)
{
	c->watching.second = SECOND_NONE;
}

/*
 * The connection is lost.  The library will set the watches again, and the
 * server answers that with a plain "deleted" for what went in the meantime,
 * even if a shared contender was put in its place: no such event is a grant,
 * nor does it say who is ahead.
 */
void
zk_watch_disconnected(Contender *c)
{
	c->watching.last_ahead = c->watching.unbroken = false;
	drop_second(&c->watching, SECOND_NONE);
}

/*
 * The contender is next in line: it keeps its lease from now on, and watches
 * its own znode soon.  The helper looks after leases every eighth of the
 * timeout, so it is woken for an older one only.
 */
static void
come_next(ZkClient *client, Contender *c)
{
	if (c->watching.next_in_line)
		return;
	c->watching.next_in_line = true;
	zk_own_watch_soon(client, c);
	if (zk_now() - c->proof.proved_at > zk_timeout(client) / 8)
		zk_mailbox_wake_helper(&client->mailbox);
}

/*
 * The second one is gone, or was changed.  If it was the only other one ahead
 * then the watched one is the last, else a list will tell.
 */
static void
second_gone(ZkClient *client, Contender *c, bool deleted)
{
	Watching   *w = &c->watching;
	bool		last = deleted && w->second == SECOND_LAST;

	drop_second(w, last ? SECOND_NONE : SECOND_GONE);
	if (!last)
	{
		zk_contender_touch(client, c);
		return;
	}
	w->last_ahead = true;
	w->ahead--;
	w->position--;
	snprintf(w->holder, sizeof(w->holder), "%s", strrchr(w->path, '/') + 1);
	come_next(client, c);
	zk_contender_publish(client, c, false);
}

/* The watched one is gone, or was changed. */
static void
watched_gone(ZkClient *client, Contender *c, bool deleted)
{
	if (deleted && c->watching.last_ahead && c->watching.unbroken &&
		c->turn.pending == 0)
	{
		zk_unwatch(c);
		zk_contender_grant(client, c);
	}
	else
	{
		zk_contender_move(c, ZK_QUEUED);
		zk_contender_touch(client, c);
	}
}

/*
 * Returns true if the contender waits for that one.  Watches of earlier waits
 * stay until what they watch is gone.  A contender that waits for all ahead has
 * hardly any other, so it does not look for the path among them.
 */
static bool
waits_for(const Contender *c, const char *path)
{
	size_t		len = strlen(c->node);

	if (c->watching.all)
		return strncmp(path, c->node, len) == 0 && path[len] == '/';
	return c->watching.path != NULL && strcmp(c->watching.path, path) == 0;
}

/* Something happened to a znode that was watched.  Completion thread. */
static void
watcher(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	ZkClient   *client = zk_watch_fired(zh, type, path);
	Contender  *c;
	bool		deleted = type == ZOO_DELETED_EVENT;

	(void) state;
	if (client == NULL)
		return;
	c = zk_watch_contender(client, context);
	if (c->claim != CLAIM_WANTED || c->state != ZK_WATCHING)
		;						/* of a wait that is over; the slot may be
								 * free */
	else if (waits_for(c, path))
		watched_gone(client, c, deleted);
	else if (c->watching.second_path != NULL &&
			 strcmp(c->watching.second_path, path) == 0)
		second_gone(client, c, deleted);
	zk_engine_leave(client);
}

/* Reads a contender, which sets a watch on it.  Returns whether it was sent. */
static bool
send_watch(ZkClient *client, Contender *c, const char *path, ContenderHandler handler)
{
	void	   *context = zk_contender_ask(client, c, handler);
	int			rc = zoo_awget(client->connection.zh, path, watcher,
							   zk_watch_context(client, c), zk_on_data, context);

	if (!zk_contender_sent(client, c, context, rc))
		return false;
	zk_watch_asked(client, path);
	return true;
}

/*
 * The contender with that path could not be watched, for the reason rc: it is
 * gone, so see who is ahead now; or that is tried again, or cannot be done.
 */
static void
watch_failed(ZkClient *client, Contender *c, int rc, const char *path)
{
	zk_contender_move(c, ZK_QUEUED);
	if (rc == ZNOAUTH)
		zk_contender_refused(client, c, ZOO_PERM_READ, path, strlen(path));
	else if (rc != ZNONODE)
		zk_contender_retry(client, c);
}

/*
 * The answer to the get that set the watch.  A contender of a semaphore whose
 * data was changed may have become a holder (P5).
 */
static void
on_watch(ZkClient *client, Contender *c, const Answer *answer)
{
	Watching   *w = &c->watching;

	if (c->claim != CLAIM_WANTED || c->state != ZK_WATCHING)
		;						/* something has happened since */
	else if (answer->rc != ZOK)
		watch_failed(client, c, answer->rc, w->path);
	else if (c->request.mode == ZK_PERMIT && !w->all &&
			 answer->stat->version != w->version)
	{
		w->version = answer->stat->version;
		zk_contender_move(c, ZK_QUEUED);
	}
	else
	{
		w->unbroken = true;
		zk_contender_set_blocker(c, answer->text, answer->len,
								 answer->stat->ephemeralOwner);
		zk_contender_seen_ahead(client, c, strrchr(w->path, '/') + 1,
								answer->stat);
		zk_contender_publish(client, c, c->request.no_wait);
	}
}

/*
 * The answer to the get that set the second watch.  If that could not be done,
 * but not because the contender is gone, then the wait goes on without one.
 */
static void
on_second(ZkClient *client, Contender *c, const Answer *answer)
{
	Watching   *w = &c->watching;

	(void) client;
	if (w->second_path == NULL)
		return;
	if (answer->rc != ZOK)
		drop_second(w, answer->rc == ZNONODE ? SECOND_GONE : SECOND_NONE);
}

/* Another holder is watched.  Answers come in the order of requests. */
static void
on_other(ZkClient *client, Contender *c, const Answer *answer)
{
	Watching   *w = &c->watching;
	const char *name;
	char		path[ZK_CONTENDER_PATH_SIZE];

	if (c->claim != CLAIM_WANTED || c->state != ZK_WATCHING || w->names == NULL)
		return;
	name = w->names + w->answered;
	w->answered += (int) strlen(name) + 1;
	zk_contender_path(c, name, path);
	if (answer->rc != ZOK)
		watch_failed(client, c, answer->rc, path);
	else
		zk_contender_seen_ahead(client, c, name, answer->stat);
}

/*
 * Watches as many of the other holders as can be done now.  There may be none.
 */
void
zk_watch_more(ZkClient *client, Contender *c)
{
	Watching   *w = &c->watching;

	while (w->names != NULL && w->names[w->asked] != '\0' &&
		   zk_requests_available(client, ZK_READ_RESERVE))
	{
		const char *name = w->names + w->asked;
		char		path[ZK_CONTENDER_PATH_SIZE];

		zk_contender_path(c, name, path);
		if (!send_watch(client, c, path, on_other))
		{
			zk_contender_move(c, ZK_QUEUED);
			break;
		}
		w->asked += (int) strlen(name) + 1;
	}
}

/*
 * Returns the path of an entry of the contender's queue, malloc'd; NULL if out
 * of memory.
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
 * Returns the names of a semaphore's holders ahead of entry "nearest", each
 * with a NUL, and an empty one.  Malloc'd; NULL if out of memory.
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
 * Remembers the contender's place in the queue that was read.  The owner of the
 * one ahead is known only if that is being watched already.
 */
static void
placed(Contender *c, const ZkQueueEntry *entries, const ZkVerdict *verdict)
{
	Watching   *w = &c->watching;

	w->ahead = verdict->ahead;
	w->position = verdict->self + 1;
	w->own_ahead = verdict->own_ahead;
	if (!w->own_ahead)
		zk_contender_behind(c);
	snprintf(w->holder, sizeof(w->holder), "%s", entries[verdict->first].name);

	/* a contender that must know the markers reads them, and the queue again */
	w->last_ahead = verdict->last_ahead && c->request.lock_delay == 0;
	w->rival[0] = '\0';
	if (w->path == NULL)
		zk_contender_set_blocker(c, NULL, 0, 0);
}

/*
 * Waits for a contender to go.  Returns whether that could be asked for; else
 * the contender has failed or will be placed again.
 */
static bool
watch(ZkClient *client, Contender *c, const ZkQueueEntry *entry)
{
	c->watching.path = entry_path(c, entry);
	if (c->watching.path == NULL)
	{
		zk_contender_fail(client, c, ZK_ERR_NO_MEMORY, "Out of memory.");
		return false;
	}
	zk_contender_move(c, ZK_WATCHING);
	if (!send_watch(client, c, c->watching.path, on_watch))
		zk_contender_move(c, ZK_QUEUED);
	return c->state == ZK_WATCHING;
}

/*
 * Watches the contender before the watched one, so that it is known to be the
 * only one ahead before it goes.  One with a lock delay lists in any case.
 */
static void
watch_second(ZkClient *client, Contender *c, const ZkQueueEntry *entries,
			 const ZkVerdict *verdict)
{
	Watching   *w = &c->watching;

	if (verdict->second_watch < 0 || c->request.lock_delay > 0 ||
		!zk_requests_available(client, ZK_READ_RESERVE))
		return;
	w->second_path = entry_path(c, &entries[verdict->second_watch]);
	if (w->second_path == NULL)
		return;
	w->second = verdict->last_second_watch ? SECOND_LAST : SECOND_OTHER;
	if (!send_watch(client, c, w->second_path, on_second))
		drop_second(w, SECOND_NONE);
}

/* Returns true if the contender waits for the one of that name already. */
static bool
is_watched(const Watching *w, const char *name)
{
	return w->path != NULL && strcmp(strrchr(w->path, '/') + 1, name) == 0;
}

/* Returns true if all contenders ahead are holders: then we are next. */
static bool
only_holders_ahead(const ZkQueueEntry *entries, int blocker, ZkMode mode)
{
	for (int i = 0; i <= blocker; i++)
		if (entries[i].mode == ZK_EXCLUSIVE && blocker > 0)
			return false;
	return mode == ZK_EXCLUSIVE || blocker == 0;
}

/*
 * Waits for a permit of a semaphore.  Returns whether that could be asked for.
 */
static bool
wait_for_permit(ZkClient *client, Contender *c, const ZkQueueEntry *entries,
				const ZkVerdict *verdict)
{
	Watching   *w = &c->watching;

	if (!is_watched(w, entries[verdict->watch].name))
		w->version = 0;
	zk_unwatch(c);
	placed(c, entries, verdict);
	w->next_in_line = w->all = verdict->first_waiter;
	w->asked = w->answered = 0;
	if (w->all)
	{
		w->names = names_ahead(entries, verdict->watch);
		if (w->names == NULL)
		{
			zk_contender_fail(client, c, ZK_ERR_NO_MEMORY, "Out of memory.");
			return false;
		}
	}
	if (!watch(client, c, &entries[verdict->watch]))
		return false;
	zk_watch_more(client, c);
	return true;
}

/*
 * Waits for a lock.  If the contender to wait for is watched already, the watch
 * is kept: that one is in a list which was read after its watch was set, and if
 * something has happened to it then the event is on its way.  Returns whether
 * that could be asked for.
 */
static bool
wait_for_lock(ZkClient *client, Contender *c, const ZkQueueEntry *entries,
			  const ZkVerdict *verdict, bool upgrade)
{
	Watching   *w = &c->watching;
	const ZkQueueEntry *nearest = &entries[verdict->watch];
	bool		kept = c->state == ZK_WATCHING && w->unbroken &&
	is_watched(w, nearest->name);

	if (kept)
		drop_second(w, SECOND_NONE);
	else
		zk_unwatch(c);
	placed(c, entries, verdict);
	if (upgrade && verdict->deadlock >= 0)
		snprintf(w->rival, sizeof(w->rival), "%s", entries[verdict->deadlock].name);
	if (!kept && !watch(client, c, nearest))
		return false;
	watch_second(client, c, entries, verdict);
	if (only_holders_ahead(entries, verdict->watch, c->request.mode))
		come_next(client, c);
	else
	{
		w->next_in_line = false;
		if (w->second == SECOND_LAST)
			zk_own_watch_soon(client, c);
		else
			zk_own_watch_far(client, c, w->ahead);
	}
	return true;
}

/*
 * The queue, whose entries these are, says that the contender must wait.
 * upgrade says that this client holds the lock in shared mode.
 */
void
zk_watch_ahead(ZkClient *client, Contender *c, const ZkQueueEntry *entries,
			   const ZkVerdict *verdict, bool upgrade)
{
	bool		waits = c->request.mode == ZK_PERMIT ?
	wait_for_permit(client, c, entries, verdict) :
	wait_for_lock(client, c, entries, verdict, upgrade);

	/* else who is ahead is known already, or will be told in a moment */
	if (waits)
		zk_contender_publish(client, c, c->request.no_wait ||
							 c->watching.rival[0] != '\0');
}
