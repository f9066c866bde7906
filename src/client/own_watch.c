/*-------------------------------------------------------------------------
 *
 * own_watch.c
 *	  Watching over our own contenders: what others do to them.
 *
 * Others can delete a contender of ours, ask for the lock back, or break it.
 * A client that deletes it says nothing else.  A revocation writes
 * "__REVOKE__" into it, as Curator's Revoker does. zk_lock_break() writes who
 * broke it, and deletes it if its owner has not done so a moment later
 * (query.c): so an owner that is alive gives up the lock before another client
 * is granted it, and can say why.  W3 is in query.c, W5 and W7 in reader.c, W6
 * in owner.c.
 *
 * W1. A contender that holds a lock, or is next, for longer than 250 ms has a
 * watch on itself, and one further behind a second after it came, and another
 * 10 ms for each contender ahead of it.  So a deletion is known immediately,
 * where the renewal of the lease would find it a quarter of the timeout later,
 * and short holds and waits pay nothing for it.  One further behind is in no
 * danger of a wrong grant, as it finds itself in a list before.  Both are
 * so from when the contender's place is known; then the helper's timer is set.
 * Where locks are requested often it is set already, and rings four times a
 * second.  A contender that has waited sets it back when it is gone, or the
 * helper would wake for each of them.
 *
 * W2. A holder whose contender is gone has lost its lock.  A waiter looks for
 * it, as for a create that was not answered (Q7), and queues again.
 *
 * W4. "__REVOKE__" is what Curator's Revoker writes.  No other change of a
 * contender's data means anything, and a client that watches the contender
 * reads the queue when they change (Q2).  As the revocation takes the place of
 * the owner's data, the owner writes that again when it has read the
 * revocation, with the member "revoked"; conditional on the version, as in P6.
 * So there may be another revocation, and what needs to know the owner (X3, W3,
 * jobs) does not for a moment only, or until an owner that is cut off is back.
 *
 * W8. The data of a contender that was granted after more than a second says,
 * a second after the grant, for how long it waited ("waited", in ms).  The
 * server knows when it was created, and so others know when it was granted.
 * Shorter waits and holds pay nothing for that.
 *
 * All functions run on client threads under engine_lock, which the watcher
 * takes itself.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "client.h"
#include "contender.h"
#include "own_watch.h"
#include "request.h"

/*
 * The same as ZK_WATCH_DELAY for a contender far behind in a queue, which will
 * be looked for in a list anyhow: since it came, and for each one ahead.
 */
#define FAR_WATCH_DELAY			ZK_MS(1000)
#define FAR_WATCH_DELAY_EACH	ZK_MS(10)

/* A wait, and a hold, of which the data tell (W8). */
#define LONG_TIME		ZK_MS(1000)

/* Requests left to those who want locks while many watches are being set. */
#define WATCH_RESERVE	16

/* What a contender's data has, before the last brace, when it says more. */
#define WAITED_MEMBER	",\"waited\":%lld"
#define REVOKED_MEMBER	",\"revoked\":true"

/* Room for these behind all data of ours. */
#define OWN_DATA_SIZE \
	(ZK_OWNER_SIZE + sizeof(WAITED_MEMBER) + 20 + sizeof(REVOKED_MEMBER))

static void own_watcher(zhandle_t *zh, int type, int state, const char *path,
						void *context);

/* Watches the contender a moment later. */
static void
watch_later(ZkClient *client, Contender *c)
{
	c->own.watch_at = zk_now() + ZK_WATCH_DELAY;
	zk_helper_by(client, c->own.watch_at);
}

/* Begins again, for a contender with a new identity. */
void
zk_own_watch_begin(Contender *c)
{
	ZkTime		now = zk_now();

	memset(&c->own, 0, sizeof(c->own));
	c->own.queued_at = now;
	c->own.watch_at = now + ZK_WATCH_DELAY;
}

/* The contender is next, or will be with the next event: watches it soon. */
void
zk_own_watch_soon(ZkClient *client, Contender *c)
{
	ZkTime		soon = zk_now() + ZK_WATCH_DELAY;

	c->own.behind = true;
	if (c->own.watch_at <= soon)
		return;
	c->own.watch_at = soon;
	zk_helper_by(client, soon);
}

/* The contender has come to a place with so many ahead of it. */
void
zk_own_watch_far(ZkClient *client, Contender *c, int ahead)
{
	c->own.behind = true;
	c->own.watch_at = c->own.queued_at + FAR_WATCH_DELAY + ahead * FAR_WATCH_DELAY_EACH;
	zk_helper_by(client, c->own.watch_at);
}

/* Others may take the contender, a holder, for a waiter (P4). */
void
zk_own_watch_announce(Contender *c)
{
	c->own.rewrite = true;
}

/* The contender was broken; data says who did it. */
static void
broken(ZkClient *client, Contender *c, const char *data, int len)
{
	int			skip = (int) strlen(ZK_BREAK_PREFIX);

	zk_contender_set_blocker(c, data + skip, len - 1 - skip, 0);
	if (c->state == ZK_HELD)
		zk_contender_lose(client, c, ZK_LOST_BROKEN,
						  "Its contender was broken.");
	else
		zk_contender_fail(client, c, ZK_ERR_BROKEN,
						  "Its contender was broken.");
}

/*
 * Looks at changed data of the contender.  What they do not say does not
 * matter (S105).
 */
static void
data_changed(ZkClient *client, Contender *c, const char *data, int len)
{
	if (zk_begins_with(data, len, ZK_BREAK_PREFIX))
		broken(client, c, data, len);
	else if (len == (int) strlen(ZK_REVOCATION) &&
			 zk_begins_with(data, len, ZK_REVOCATION))
	{
		c->own.rewrite = true;
		if (c->own.revoked)
			return;
		c->own.revoked = true;
		zk_contender_publish(client, c, true);
	}
}

/*
 * A read did not find the contender.  A waiter is looked for.  A holder has
 * lost its lock: if the server only lags behind, as a new handle would not
 * notice, that is a mistake on the safe side, provided that the contender goes
 * now.  So it is deleted, and not considered gone before that is answered.
 */
static void
not_there(ZkClient *client, Contender *c)
{
	if (c->state == ZK_QUEUED || c->state == ZK_WATCHING)
		zk_contender_missing(client, c);
	else if (c->state == ZK_HELD && c->own.changed)
	{
		zk_contender_set_blocker(c, NULL, 0, 0);
		zk_contender_lose(client, c, ZK_LOST_BROKEN,
						  "Another client deleted its contender, probably with zk_lock_break().");
	}
	else if (c->state == ZK_HELD)
		zk_contender_lose(client, c, ZK_LOST_CONTENDER,
						  "Another client deleted its contender.");
	zk_contender_touch(client, c);
}

/* Returns how long the contender waited, or has waited. */
static ZkTime
waited(const Contender *c)
{
	return (c->state == ZK_HELD ? c->proof.granted_at : zk_now()) - c->own.queued_at;
}

/*
 * Writes what the contender's data should be into data (OWN_DATA_SIZE bytes):
 * what it was created with, for how long it waited (W8), and whether it is
 * revoked.  Returns the length, or -1 if it is not an object of ours.
 */
static int
own_data(const Contender *c, bool long_held, bool revoked, char *data)
{
	int			len = c->owner_len;

	if (len == 0 || len >= ZK_OWNER_SIZE)
		return -1;
	memcpy(data, c->owner, (size_t) len);
	if (data[len - 1] != '}')
		return len;
	len--;
	if (long_held)
		len += snprintf(data + len, OWN_DATA_SIZE - (size_t) len, WAITED_MEMBER,
						(long long) (waited(c) / 1000));
	if (revoked)
		len += snprintf(data + len, OWN_DATA_SIZE - (size_t) len, REVOKED_MEMBER);
	data[len++] = '}';
	return len;
}

/* Returns true if the data says that much, and no other client wrote it. */
static bool
says(const Contender *c, bool long_held, bool revoked, const char *data, int len)
{
	char		own[OWN_DATA_SIZE];

	return own_data(c, long_held, revoked, own) == len &&
		memcmp(data, own, (size_t) len) == 0;
}

/*
 * Returns true if this is what the contender's data should be, or was before
 * it said more: then no other client has changed it.
 */
static bool
has_own_data(const Contender *c, const char *data, int len)
{
	bool		revoked = c->own.revoked;

	if (len <= 0)
		return false;
	if (len == c->owner_len && memcmp(data, c->owner, (size_t) len) == 0)
		return true;
	return (revoked && says(c, false, true, data, len)) ||
		(c->own.long_held && (says(c, true, false, data, len) ||
							  (revoked && says(c, true, true, data, len))));
}

/* The answer to the get that set the watch. */
static void
on_own(ZkClient *client, const Answer *answer)
{
	int			rc = answer->rc;
	Contender  *c = &client->contenders[answer->request->which];

	if (c->claim == CLAIM_NONE || c->own.state != OWN_ASKED ||
		c->own.watch_serial != answer->request->serial)
		return;
	c->own.state = rc == ZOK ? OWN_WATCHED : OWN_UNWATCHED;
	if (rc == ZOK)
	{
		c->own.version = answer->stat->version;
		c->own.changed &= !has_own_data(c, answer->text, answer->len);
	}
	if (c->claim == CLAIM_WANTED && rc == ZOK && answer->stat->version != 0)
		data_changed(client, c, answer->text, answer->len);
	else if (c->claim == CLAIM_WANTED && rc == ZNONODE)
		not_there(client, c);
	else if (rc == ZNOAUTH)
	{
		c->own.state = OWN_HIDDEN;
		c->own.version = -1;
	}
	else if (rc != ZOK)
		watch_later(client, c);
	if (c->own.rewrite)
		zk_contender_touch(client, c);
}

/* Returns true if the contender's place in its queue is known. */
static bool
has_place(const Contender *c)
{
	return c->state == ZK_WATCHING || c->state == ZK_HELD || c->grant != GRANT_NONE;
}

/* Returns true if the contender is to get a watch, now or later. */
static bool
needs_watch(const Contender *c)
{
	return c->claim == CLAIM_WANTED && c->own.state == OWN_UNWATCHED && c->partner == NULL &&
		c->successor == NULL && c->znode.existence == ZNODE_NAMED && has_place(c);
}

/*
 * Returns when the contender is to get its watch, INT64_MAX if it needs none.
 * A grant puts it off.
 */
static ZkTime
watch_due(const Contender *c)
{
	ZkTime		granted = c->proof.granted_at;

	if (!needs_watch(c))
		return INT64_MAX;
	if (c->state == ZK_HELD && c->own.watch_at > granted &&
		c->own.watch_at < granted + ZK_WATCH_DELAY)
		return granted + ZK_WATCH_DELAY;
	return c->own.watch_at;
}

/*
 * Set the watch, and read the data.
 */
static void
send_own_watch(ZkClient *client, Contender *c)
{
	void	   *context = zk_request_begin(client, REQ_CLIENT, zk_contender_slot(client, c), on_own);
	char		path[ZK_CONTENDER_PATH_SIZE];

	zk_contender_path(c, c->znode.name, path);
	if (zoo_awget(client->connection.zh, path, own_watcher, zk_watch_context(client, c),
				  zk_on_data, context) == ZOK)
	{
		c->own.state = OWN_ASKED;
		c->own.watch_serial = zk_request_serial(context);
		zk_watch_asked(client, path);
	}
	else
	{
		zk_request_undo(client, context);
		watch_later(client, c);
	}
}

/* Returns true if that is the path of this contender. */
static bool
is_at(const Contender *c, const char *path)
{
	char		own_path[ZK_CONTENDER_PATH_SIZE];

	zk_contender_path(c, c->znode.name, own_path);
	return strcmp(own_path, path) == 0;
}

/* Something happened to a contender of ours, or to one that was ours. */
static void
own_watcher(zhandle_t *zh, int type, int state, const char *path,
			void *context)
{
	ZkClient   *client = zk_watch_fired(zh, type, path);
	Contender  *c;

	(void) state;
	if (client == NULL)
		return;
	c = zk_watch_contender(client, context);
	if (c->claim != CLAIM_NONE && c->own.state == OWN_WATCHED && is_at(c, path))
	{
		c->own.state = OWN_UNWATCHED;
		c->own.changed |= type == ZOO_CHANGED_EVENT;
		c->own.watch_at = 0;
		zk_contender_touch(client, c);
	}
	zk_engine_leave(client);
}

/* Returns when the data has to say how long the contender waited (W8). */
static ZkTime
long_hold_due(const Contender *c)
{
	if (c->state != ZK_HELD || c->claim != CLAIM_WANTED || c->own.long_held ||
		c->partner != NULL || waited(c) < LONG_TIME)
		return INT64_MAX;
	return c->proof.granted_at + LONG_TIME;
}

/*
 * Gives a contender its watch if that is due and possible, and sees when its
 * data have to say more.
 */
void
zk_own_watch(ZkClient *client, Contender *c)
{
	ZkTime		hold_due = long_hold_due(c);
	ZkTime		own_due = watch_due(c);

	if (zk_now() >= hold_due)
		c->own.long_held = c->own.rewrite = true;
	else
		zk_helper_by(client, hold_due);
	if (zk_now() < own_due)
		zk_helper_by(client, own_due);
	else if (zk_requests_available(client, WATCH_RESERVE))
		send_own_watch(client, c);
}

/*
 * Returns when the next watch is due.  A contender whose time has come, and
 * that waits for room, needs no timer; nor does one whose place is not known.
 */
ZkTime
zk_own_watch_due(const ZkClient *client)
{
	ZkTime		due = INT64_MAX;
	ZkTime		now = zk_now();
	bool		room = zk_requests_free(client) >= WATCH_RESERVE;

	if (!zk_is_connected(client))
		return INT64_MAX;
	for (int i = 0; i < client->used; i++)
	{
		const Contender *c = &client->contenders[i];
		ZkTime		hold_due = long_hold_due(c);
		ZkTime		own_due = watch_due(c);

		if (hold_due < due && (room || hold_due > now))
			due = hold_due;
		if (own_due < due && (room || own_due > now))
			due = own_due;
	}
	return due;
}

/* The contender is gone: the helper need not wake for it. */
void
zk_own_watch_end(ZkClient *client, Contender *c)
{
	ZkTime		due;

	if (!c->own.behind)
		return;
	c->own.behind = false;
	due = zk_own_watch_due(client);
	if (client->helper_due < due)
		due = client->helper_due;
	if (client->helper_wakes_at < due)
		zk_helper_at(client, due);
}

/* The handle is closed, and the watches are gone with it. */
void
zk_own_watches_gone(ZkClient *client)
{
	for (int i = 0; i < client->used; i++)
	{
		OwnWatch   *own = &client->contenders[i].own;

		own->rewrite_serial = 0;
		if (own->state == OWN_HIDDEN)
			continue;
		own->state = OWN_UNWATCHED;
		own->watch_at = 0;
	}
}

/*
 * The answer to the rewriting.  If another client has written in the meantime,
 * that is read first.
 */
static void
on_rewrite(ZkClient *client, const Answer *answer)
{
	int			rc = answer->rc;
	Contender  *c = &client->contenders[answer->request->which];

	if (c->claim == CLAIM_NONE || c->own.rewrite_serial != answer->request->serial)
		return;
	c->own.rewrite_serial = 0;
	c->own.rewrite = rc != ZOK && rc != ZNONODE && rc != ZNOAUTH;
	if (rc == ZOK)
		c->own.version = answer->stat->version;
	else if (rc == ZBADVERSION)
	{
		if (c->own.state == OWN_WATCHED)
			c->own.state = OWN_UNWATCHED;
		c->own.watch_at = 0;
	}
	else if (c->own.rewrite)
		zk_contender_retry(client, c);
	zk_contender_touch(client, c);
}

/*
 * Writes the contender's own data once more, if that is due and possible:
 * because others may take a holder for a waiter (P4), because a revocation has
 * taken their place, or because they have to say more (W8).
 */
void
zk_own_rewrite(ZkClient *client, Contender *c)
{
	void	   *context;
	char		path[ZK_CONTENDER_PATH_SIZE];
	char		own[OWN_DATA_SIZE];
	const char *data = own;
	int			len;

	if (!c->own.rewrite || c->claim != CLAIM_WANTED ||
		c->znode.existence != ZNODE_NAMED ||
		c->own.rewrite_serial != 0 || c->own.state == OWN_ASKED ||
		c->turn.retry_at > zk_now() || !zk_requests_available(client, 1))
		return;
	len = own_data(c, c->own.long_held, c->own.revoked, own);
	if (len < 0)
	{
		data = c->owner;
		len = c->owner_len;
	}
	zk_contender_path(c, c->znode.name, path);
	context = zk_request_begin(client, REQ_CLIENT, zk_contender_slot(client, c), on_rewrite);
	if (zoo_aset(client->connection.zh, path, data, len, c->own.version, zk_on_stat,
				 context) == ZOK)
		c->own.rewrite_serial = zk_request_serial(context);
	else
	{
		zk_request_undo(client, context);
		zk_contender_retry(client, c);
	}
}
