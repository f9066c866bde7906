/*-------------------------------------------------------------------------
 *
 * lock_delay.c
 *	  Lock delay: the markers of a lock's holders, and who has left one behind.
 *
 * A contender that was requested with a lock delay makes a persistent znode,
 * its marker, below the record of the lock before it is granted.  The
 * transaction that deletes the contender when the lock is released (remove.c)
 * deletes the marker, too.  If the contender goes in any other way the marker
 * stays, which says that the lock was not released.
 *
 *    contender  ---[created]=====[marker made]====HELD====[both deleted]
 *    or                              \===HELD==X  expired, broken, deleted
 *    marker                          |----------------> stays
 *    next one                                      list, markers: alone!
 *                                                  |-- delay --| list, markers
 *                                                              | multi: others
 *                                                              | deleted, own
 *                                                              | made; HELD
 *
 * K1. A marker is made by a multi-op that checks the contender, so it is made
 * only while that exists; and names of contenders are never used again.  So a
 * holder has a contender alone, both, and then neither (released) or the marker
 * alone (left behind), until another client deletes it.
 *
 * K2. Contenders and markers are children of two znodes, and cannot be read at
 * once.  Behind each list of the queue (Q) the markers are read (M), in the
 * same go.  A marker was left behind if it was in the previous M, is not in Q
 * as a contender, and is in M.  That is certain: when the previous M was read
 * the contender had been created, so if it is not in Q it is gone; a release
 * would have taken the marker with it at that moment, and M is later.  Nothing
 * is missed: the marker of one that was gone by Q is in M.  If it was in no
 * previous M, its contender may have been created after Q: then both are read
 * again, and that settles it.  So a newcomer sends one request more than
 * without a delay, and waits for one round trip more only if there is a marker
 * without a contender in the queue.  Within one handle the server never goes
 * back in time; with another one what was read is forgotten.
 *
 * K3. An event is not a grant for such a contender, as it says nothing about
 * markers: both are read, which takes one round trip (as for a record, R3).
 *
 * K4. The delay begins with the answer that shows a marker left behind, on this
 * client's clock, and again with each that was not among them before.  What is
 * read when it is over decides, as others that share the lock may have gone in
 * the meantime.  The contender keeps its place and its lease; for the backend
 * it is behind another one (ZkContenderStatus.delayed).
 *
 * K5. The multi-op that makes the own marker deletes those left behind.  If one
 * of them is gone by then, another client has waited for it: all is read
 * again.  It is a proof (L1).
 *
 * K6. Q5 holds for markers: one of ours can exist only while OwnMarker
 * (marker.c) says so, and the slot is in use.  A contender that is given up
 * goes with its marker, in one multi-op, whether that is certain to exist or
 * not: if it is missing the contender goes alone; if the contender is missing
 * (by a multi-op that was not answered, or by another client) the marker goes
 * alone.  Only if the ZooKeeper session ends between the marker and HELD it
 * stays, and the next client waits for nothing.  A lost lock leaves its
 * marker, and so does one that was broken.
 *
 * K7. A downgrade moves the marker in its multi-op.  If that is not possible
 * (another client has deleted it) the shared contender has none.  A client
 * that stops deletes the markers of what it holds along with the contenders, as
 * it writes records (R4), in half of its time.
 *
 * K8. Without a delay nothing of this is read or written.
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "client.h"
#include "answer.h"
#include "contender.h"
#include "lock_delay.h"
#include "marker.h"
#include "nameset.h"
#include "parents.h"
#include "record_io.h"
#include "refusal.h"
#include "request.h"
#include "zk_check.h"

/*
 * The queue was listed: keeps its names until the markers are known, if there
 * is a delay.  Returns false if out of memory.
 */
bool
zk_markers_queue_listed(Contender *c, const struct String_vector *list)
{
	Markers    *m = &c->markers;

	if (c->request.lock_delay == 0)
		return true;
	zk_nameset_free(&m->queue);
	m->known = MARKERS_LISTED;
	for (int i = 0; i < list->count; i++)
		if (!zk_nameset_add(&m->queue, list->data[i], strlen(list->data[i])))
			return false;
	return true;
}

/* What was read of the markers is older than the list that is to be read. */
void
zk_markers_outdated(Contender *c)
{
	c->markers.known = MARKERS_UNKNOWN;
}

/* Forget what was read, the delay included, but not the own marker. */
void
zk_markers_forget(Contender *c)
{
	Markers    *m = &c->markers;

	zk_nameset_free(&m->queue);
	zk_nameset_free(&m->seen);
	zk_nameset_free(&m->unclean);
	m->known = MARKERS_UNKNOWN;
	m->until = m->shown = 0;
}

/*
 * Returns true if a child of the record's znode is a marker.  Others are
 * records of locks below, which no contender has the name of.
 */
static bool
is_marker(const char *name)
{
	return strlen(name) < ZK_NAME_SIZE && zk_contender_check(name);
}

/*
 * Sorts the markers that were read behind a list of the queue: all of others
 * into seen, those without a contender in the list into unclean.  *another
 * says that one was not unclean before, and *doubtful that one may not be now.
 * Returns false if out of memory.
 */
static bool
sort_out(Contender *c, const struct String_vector *list, NameSet *seen,
		 NameSet *unclean, bool *another, bool *doubtful)
{
	const Markers *m = &c->markers;

	for (int i = 0; i < list->count; i++)
	{
		const char *name = list->data[i];
		size_t		len = strlen(name);

		if (strcmp(name, c->znode.name) == 0)
			zk_marker_set(c, MARKER_THERE);
		if (strcmp(name, c->znode.name) == 0 || !is_marker(name))
			continue;
		if (!zk_nameset_add(seen, name, len))
			return false;
		if (zk_nameset_has(&m->queue, name, len))
			continue;
		if (!zk_nameset_add(unclean, name, len))
			return false;
		*doubtful |= !zk_nameset_has(&m->seen, name, len);
		*another |= !zk_nameset_has(&m->unclean, name, len);
	}
	return true;
}

/* Puts a set, which is then empty, into the place of another one. */
static void
replace(NameSet *old, NameSet *new)
{
	zk_nameset_free(old);
	*old = *new;
	new->root = NULL;
}

/*
 * Finds out which of the markers are unclean, unless one is doubtful.  Returns
 * false if out of memory.
 */
static bool
judge(Contender *c, const struct String_vector *list)
{
	Markers    *m = &c->markers;
	NameSet		seen = {0};
	NameSet		unclean = {0};
	bool		another = false;
	bool		doubtful = false;
	bool		sorted = sort_out(c, list, &seen, &unclean, &another, &doubtful);

	if (sorted)
		replace(&m->seen, &seen);
	if (sorted && !doubtful)
	{
		replace(&m->unclean, &unclean);
		if (another)
			m->until = zk_now() + c->request.lock_delay;
	}
	m->known = doubtful ? MARKERS_DOUBTFUL : MARKERS_READ;
	zk_nameset_free(&m->queue);
	zk_nameset_free(&seen);
	zk_nameset_free(&unclean);
	return sorted;
}

static void
markers_read(ZkClient *client, Contender *c, const struct String_vector *list)
{
	Markers    *m = &c->markers;

	if (m->known != MARKERS_LISTED)
		return;					/* it will be listed once more */
	if (!judge(c, list))
	{
		zk_contender_fail(client, c, ZK_ERR_NO_MEMORY, "Out of memory.");
		return;
	}
	m->looked_at = zk_now();
	if (c->claim == CLAIM_WANTED && c->grant == GRANT_MARKERS &&
		c->marker.state == MARKER_THERE)
		zk_contender_grant(client, c);
}

static void
on_markers(ZkClient *client, Contender *c, const Answer *answer)
{
	int			rc = answer->rc;
	char		path[ZK_RECORD_PATH_SIZE];

	if (c->claim != CLAIM_WANTED || (c->state != ZK_QUEUED && c->state != ZK_WATCHING))
		;						/* the answer is of no use any more */
	else if (rc == ZOK || rc == ZNONODE)
		markers_read(client, c, answer->children);
	else if (zk_is_transient(rc))
		zk_contender_retry(client, c);
	else
	{
		zk_record_path(c->node, c->request.root_len, path);
		zk_contender_impossible(client, c, rc, ZOO_PERM_READ, path);
	}
}

/* Reads the markers of a contender's lock. */
void
zk_send_markers(ZkClient *client, Contender *c)
{
	char		path[ZK_RECORD_PATH_SIZE];

	zk_record_path(c->node, c->request.root_len, path);
	zk_send_children(client, c, path, on_markers);
}

/*
 * A znode above the marker was created, or not.  A missing record that was made
 * by that is an empty one.
 */
static void
on_parent(ZkClient *client, Contender *c, const Answer *answer)
{
	char		path[ZK_RECORD_PATH_SIZE];

	if (zk_parent_answered(client, c, answer))
	{
		if (answer->rc == ZOK && c->parents.of == PARENTS_OF_NONE)
			zk_record_created(c);
	}
	else if (c->claim == CLAIM_WANTED)
	{
		zk_record_path(c->node, c->request.root_len, path);
		path[zk_path_above(path, c->parents.len)] = '\0';
		zk_contender_impossible(client, c, answer->rc, ZOO_PERM_CREATE, path);
	}
}

/*
 * Operation number "culprit" of the multi-op that makes the marker was refused,
 * for the reason rc.  The first one checks the contender.  If another marker
 * that was to be deleted is gone, all is read again.
 */
static void
not_made(ZkClient *client, Contender *c, int culprit, int rc)
{
	Markers    *m = &c->markers;
	int			permission = culprit == 0 ? ZOO_PERM_READ : ZOO_PERM_DELETE;
	char		path[ZK_MARKER_PATH_SIZE];

	m->known = MARKERS_UNKNOWN;
	zk_record_path(c->node, c->request.root_len, path);
	if (culprit == 0)
		zk_contender_path(c, c->znode.name, path);
	else if (culprit == m->create_at)
		permission = ZOO_PERM_CREATE;
	if (rc == ZNONODE && culprit == 0)
		zk_contender_missing(client, c);
	else if (rc == ZNONODE && permission == ZOO_PERM_CREATE)
		zk_parents_missing(c, PARENTS_OF_MARKER);
	else if (rc == ZNODEEXISTS)
		zk_marker_set(c, MARKER_THERE); /* by a multi-op that was not answered */
	else if (rc != ZNONODE)
		zk_contender_impossible(client, c, rc, permission, path);
}

static void
on_marker(ZkClient *client, Contender *c, const Answer *answer)
{
	int			rc = answer->rc;
	Markers    *m;
	int			culprit = 0;

	m = &c->markers;
	if (rc == ZOK)
	{
		m->known = MARKERS_UNKNOWN;
		if (m->create_at > 0)
			zk_marker_set(c, MARKER_THERE);
		zk_contender_set_lease(client, c, zk_request_proof(answer->request));
		if (c->claim == CLAIM_WANTED && c->state == ZK_QUEUED && m->create_at > 0)
			zk_contender_grant(client, c);
	}
	else if (zk_is_transient(rc))
	{
		m->known = MARKERS_UNKNOWN;
		zk_contender_retry(client, c);
	}
	else if (c->claim == CLAIM_WANTED)
	{
		while (culprit < m->ops && c->results[culprit].err == ZOK)
			culprit++;
		not_made(client, c, culprit, rc);
	}
}

/*
 * Adds the operations that follow the check: delete the unclean markers, then
 * make the own one.  If they are too many, a later transaction makes it.
 */
static void
fill_in(ZkClient *client, Contender *c, zoo_op_t *ops,
		char paths[][ZK_MARKER_PATH_SIZE])
{
	Markers    *m = &c->markers;
	const char *names[ZK_MARKER_BATCH + 1];
	int			count = zk_nameset_some(&m->unclean, names, ZK_MARKER_BATCH + 1);

	m->ops = 1;
	m->create_at = 0;
	for (; m->ops <= count && m->ops <= ZK_MARKER_BATCH; m->ops++)
	{
		zk_marker_path(c, names[m->ops - 1], paths[m->ops]);
		zoo_delete_op_init(&ops[m->ops], paths[m->ops], -1);
	}
	if (count > ZK_MARKER_BATCH)
		return;
	zk_marker_set(c, MARKER_UNKNOWN);
	m->create_at = m->ops++;
	zk_marker_path(c, c->znode.name, paths[m->create_at]);
	zoo_create_op_init(&ops[m->create_at], paths[m->create_at], "", 0,
					   &client->identity.acl, ZOO_PERSISTENT, NULL, 0);
}

/* Makes the marker, in a transaction that proves that the contender exists. */
static void
send_marker(ZkClient *client, Contender *c)
{
	zoo_op_t	ops[ZK_OWN_OPS];
	char		own_path[ZK_CONTENDER_PATH_SIZE];
	char		paths[ZK_OWN_OPS][ZK_MARKER_PATH_SIZE];

	zk_contender_path(c, c->znode.name, own_path);
	zoo_check_op_init(&ops[0], own_path, -1);
	fill_in(client, c, ops, paths);
	zk_contender_multi(client, c, c->markers.ops, ops, on_marker);
}

/* Tells the backend of the delay, and has the helper set its timer. */
static void
show_delay(ZkClient *client, Contender *c)
{
	if (c->markers.shown == c->markers.until)
		return;
	c->markers.shown = c->markers.until;
	zk_contender_behind(c);
	zk_contender_publish(client, c, true);
	zk_mailbox_wake_helper(&client->mailbox);
}

/* Returns true if the delay is running. */
static bool
must_wait(const Markers *m)
{
	return m->known == MARKERS_READ && m->unclean.root != NULL &&
		m->looked_at < m->until;
}

/*
 * Does what comes next about the markers for a contender that is granted
 * otherwise.  Returns false if the queue is to be listed again.
 */
bool
zk_markers_advance(ZkClient *client, Contender *c)
{
	Markers    *m = &c->markers;

	if (c->parents.of == PARENTS_OF_MARKER)
		zk_send_parent(client, c, on_parent);
	else if (m->known == MARKERS_LISTED)
		zk_send_markers(client, c);
	else if (m->known != MARKERS_READ)
		return false;
	else if (!must_wait(m))
	{
		m->shown = 0;
		send_marker(client, c);
	}
	else if (zk_now() >= m->until)
		return false;
	else
		show_delay(client, c);
	return true;
}

/*
 * Returns when the delay of a contender is over; INT64_MAX if there is none,
 * or nothing could be done then.
 */
ZkTime
zk_markers_due(const ZkClient *client, const Contender *c)
{
	if (!zk_is_connected(client) || c->claim != CLAIM_WANTED || c->state != ZK_QUEUED ||
		c->turn.pending > 0 || c->turn.retry_at != 0 || c->grant != GRANT_MARKERS ||
		zk_requests_free(client) < 3 || !must_wait(&c->markers))
		return INT64_MAX;
	return c->markers.until;
}
