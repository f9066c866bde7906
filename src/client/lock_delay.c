/*-------------------------------------------------------------------------
 *
 * lock_delay.c
 *	  Lock delay: the marks of a lock's holders, and who has left one behind.
 *
 * A contender that was asked for with a lock delay makes a persistent znode,
 * its mark, below the record of the lock before it is granted, and that goes in
 * the transaction that deletes the contender when the lock is released
 * (remove.c).  If the contender goes in any other way the mark stays, and with
 * that the word that nobody has released the lock.
 *
 *    contender  ---[created]=====[mark made]====HELD====[both deleted]
 *    or                              \===HELD==X  expired, broken, deleted
 *    mark                            |----------------> stays
 *    next one                                      list, marks: unclean!
 *                                                  |-- delay --| list, marks
 *                                                              | multi: old marks
 *                                                              | deleted, own
 *                                                              | made; HELD
 *
 * K1. A mark is made by a multi-op that checks the contender, so it is made
 * only while that is there; and names of contenders are never used again.  So
 * the two of a holder have but four states: contender alone, both, and then
 * none (released) or the mark alone (unclean), which stays until somebody else
 * deletes it.
 *
 * K2. Contenders and marks are children of two znodes, and cannot be read at
 * once.  Behind each list of the queue (Q) the marks are read (M), in the same
 * go.  A mark is unclean if it was in the M before, is not in Q as a contender,
 * and is in M now.  That is certain: when the M before was read the contender
 * had been created, so if it is not in Q it is gone; by a release it would have
 * taken the mark with it at that moment, and M now is later.  Nothing is
 * missed: the mark of one that was gone by Q is in M.  If it was in no M
 * before, its contender may have been created after Q: then both are read once
 * more, and that settles it.  So a newcomer sends one request more than without
 * a delay, and waits for one round trip more only if there is a mark of
 * somebody who is not in the queue.  Within one handle the server never goes
 * back in time; with another one what was read is forgotten.
 *
 * K3. An event is not a grant for such a contender, as it says nothing about
 * marks: both are read, which takes one round trip (as for a record, R3).
 *
 * K4. The delay begins with the answer that shows an unclean mark, on this
 * client's clock, and anew with each that was not among them before.  It is
 * judged by what is read when it is over, as others that share the lock may
 * have gone meanwhile.  The contender keeps its place and its lease; for the
 * backend it is behind somebody (ZkContenderStatus.delayed).
 *
 * K5. The multi-op that makes the own mark deletes the unclean ones.  If one of
 * them is gone by then, somebody else has waited for it: all is read anew.  It
 * is a proof (L1).
 *
 * K6. For marks Q5 holds: one of ours can exist only while Marking.own says so,
 * and the slot is in use.  A contender that is given up goes with its mark, in
 * one multi-op, whether that is certain to be there or not: if it is missing
 * the contender goes alone; if the contender is missing (by a multi-op that was
 * not answered, or by a stranger) the mark goes alone.  Only if the ZooKeeper
 * session ends between the mark and HELD it stays, and somebody waits for
 * nothing.  A lost lock leaves its mark, and so does one that was broken, in
 * the presence of its owner or not.
 *
 * K7. A downgrade moves the mark in its multi-op.  If that is not possible (a
 * stranger has deleted it) the shared contender has none.  A client that stops
 * deletes the marks of what it holds along with the contenders, as it writes
 * records (R4), in half of its time.
 *
 * K8. Without a delay nothing of this is read or written.
 *
 * All functions run on client threads under engine_lock.
 *
 * IDENTIFICATION
 *	  src/client/lock_delay.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "contender.h"
#include "lock_delay.h"
#include "nameset.h"
#include "record_io.h"
#include "refusal.h"
#include "request.h"
#include "server_timeout.h"
#include "zk_check.h"

/* Write the path of a mark into ZK_MARK_PATH_SIZE bytes. */
static void
mark_path(const Contender *c, const char *name, char *path)
{
	zk_record_path(c->node, c->request.root_len, path);
	snprintf(path + strlen(path), ZK_MARK_PATH_SIZE - strlen(path), "/%s", name);
}

/*
 * An empty list with room for so many bytes of names, each with its NUL.
 * Malloc'd; NULL if out of memory.
 */
static char *
make_names(size_t bytes)
{
	return calloc(1, bytes + 1);
}

/* How many bytes do these names have, each with a NUL? */
static size_t
bytes_of(const struct String_vector *list)
{
	size_t		bytes = 0;

	for (int i = 0; i < list->count; i++)
		bytes += strlen(list->data[i]) + 1;
	return bytes;
}

/* Add a name to a list that has room for it, of which *end is the end. */
static void
add_name(char **end, const char *name)
{
	strcpy(*end, name);
	*end += strlen(name) + 1;
}

/*
 * The queue was listed: keep who was in it until the marks are known.  Nothing
 * to do for a contender without a delay.  False if out of memory.
 */
bool
zk_marks_queue_listed(Contender *c, const struct String_vector *list)
{
	char	   *end;

	if (c->request.lock_delay == 0)
		return true;
	free(c->marking.queue);
	end = c->marking.queue = make_names(bytes_of(list));
	for (int i = 0; end != NULL && i < list->count; i++)
		add_name(&end, list->data[i]);
	return end != NULL;
}

/* Forget what was read, the delay included, but not the own mark. */
void
zk_marks_forget(Contender *c)
{
	Marking    *m = &c->marking;

	free(m->queue);
	free(m->seen);
	free(m->unclean);
	m->queue = m->seen = m->unclean = NULL;
	m->due = m->looked = m->doubtful = false;
	m->parent_len = 0;
	m->until = m->shown = 0;
}

/*
 * Is a child of the record's znode a mark?  Others are records of locks below,
 * which no contender has the name of.
 */
static bool
is_mark(const char *name)
{
	return strlen(name) < ZK_NAME_SIZE && zk_contender_check(name);
}

/* What a contender knows of others, as sets: there may be thousands. */
typedef struct Known
{
	NameSet		queue;
	NameSet		seen;
	NameSet		unclean;
} Known;

/* Make a set of a list of names, NULL for none.  False if out of memory. */
static bool
make_set(NameSet *set, const char *names)
{
	for (; names != NULL && *names != '\0'; names += strlen(names) + 1)
		if (!zk_nameset_add(set, names, strlen(names)))
			return false;
	return true;
}

static void
forget_known(Known *known)
{
	zk_nameset_free(&known->queue);
	zk_nameset_free(&known->seen);
	zk_nameset_free(&known->unclean);
}

/*
 * Sort out the marks that were read behind a list of the queue: into seen go
 * all of others, into unclean those without a contender in the list; both have
 * room.  Returns whether there is one that was not unclean before.
 */
static bool
sort_out(Contender *c, const Known *known, const struct String_vector *list,
		 char *seen, char *unclean)
{
	Marking    *m = &c->marking;
	bool		another = false;

	m->doubtful = false;
	for (int i = 0; i < list->count; i++)
	{
		const char *name = list->data[i];
		size_t		len = strlen(name);

		if (strcmp(name, c->name) == 0)
			m->own = MARK_THERE;
		if (strcmp(name, c->name) == 0 || !is_mark(name))
			continue;
		add_name(&seen, name);
		if (zk_nameset_has(&known->queue, name, len))
			continue;
		add_name(&unclean, name);
		m->doubtful |= !zk_nameset_has(&known->seen, name, len);
		another |= !zk_nameset_has(&known->unclean, name, len);
	}
	return another;
}

/*
 * Which of the marks that were read are those of holders that are gone?  That
 * is not told if one is doubtful.  False if out of memory.
 */
static bool
judge(Contender *c, const struct String_vector *list)
{
	Marking    *m = &c->marking;
	char	   *seen = make_names(bytes_of(list));
	char	   *unclean = make_names(bytes_of(list));
	Known		known = {0};
	bool		another;

	if (seen == NULL || unclean == NULL || !make_set(&known.queue, m->queue) ||
		!make_set(&known.seen, m->seen) || !make_set(&known.unclean, m->unclean))
	{
		forget_known(&known);
		free(seen);
		free(unclean);
		return false;
	}
	another = sort_out(c, &known, list, seen, unclean);
	forget_known(&known);
	free(m->seen);
	m->seen = seen;
	if (m->doubtful)
	{
		free(unclean);
		return true;
	}
	free(m->unclean);
	m->unclean = unclean;
	if (another)
		m->until = zk_now() + c->request.lock_delay;
	return true;
}

/*
 * The marks were read.
 */
static void
marks_read(ZkClient *client, int slot, const struct String_vector *list)
{
	Contender  *c = &client->contenders[slot];
	Marking    *m = &c->marking;

	if (m->queue == NULL)
		return;					/* it will be listed once more */
	if (!judge(c, list))
	{
		zk_contender_fail(client, slot, ZK_ERR_NO_MEMORY, "Out of memory.");
		return;
	}
	free(m->queue);
	m->queue = NULL;
	m->looked = true;
	m->looked_at = zk_now();
	if (m->due && m->own == MARK_THERE && !c->unwanted)
	{
		m->due = false;
		zk_contender_grant(client, slot);
	}
}

/*
 * Something that has to do with marks cannot be done, for the reason rc, which
 * is that of an ACL or another one: the contender cannot be granted.
 */
static void
impossible(ZkClient *client, int slot, int rc, int permission,
		   const char *doing, const char *path)
{
	if (rc == ZNOAUTH)
		zk_contender_refused(client, slot, permission, path, strlen(path));
	else
		zk_contender_fail(client, slot, zk_answer_error(rc),
						  "Could not %s znode \"%.150s\": %s.", doing, path,
						  zk_answer_text(rc));
}

static void
on_marks(ZkClient *client, int slot, const Answer *answer)
{
	int			rc = answer->rc;
	static const struct String_vector none;
	Contender  *c = &client->contenders[slot];
	char		path[ZK_RECORD_PATH_SIZE];

	if (c->unwanted || (c->state != ZK_QUEUED && c->state != ZK_WATCHING))
		;						/* nobody wants to know any more */
	else if (rc == ZOK || rc == ZNONODE)
		marks_read(client, slot, rc == ZOK ? answer->children : &none);
	else if (zk_is_transient(rc))
		zk_contender_retry(client, c);
	else
	{
		zk_record_path(c->node, c->request.root_len, path);
		impossible(client, slot, rc, ZOO_PERM_READ,
				   "list the children of", path);
	}
}

/*
 * Read the marks of a contender's lock.
 */
void
zk_send_marks(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];
	void	   *context = zk_contender_ask(client, slot, on_marks);
	char		path[ZK_RECORD_PATH_SIZE];
	int			rc;

	zk_record_path(c->node, c->request.root_len, path);
	rc = zoo_aget_children(client->connection.zh, path, 0, zk_on_children, context);
	zk_contender_sent(client, slot, context, rc);
}

/*
 * The znode on the way to the mark is there, or is not, as the one above it is
 * missing.  A record that was found missing and is made now is an empty one.
 */
static void
go_on(Contender *c, const char *path, int rc)
{
	Marking    *m = &c->marking;

	if (rc == ZOK && c->record != NULL && c->record->version < 0 &&
		m->parent_len == zk_record_above(path, strlen(path)))
		c->record->version = 0;
	if (!zk_record_next_above(path, c->request.root_len, &m->parent_len,
							  rc != ZNONODE))
		m->parent_len = 0;
}

static void
on_parent(ZkClient *client, int slot, const Answer *answer)
{
	int			rc = answer->rc;
	Contender  *c = &client->contenders[slot];
	char		path[ZK_MARK_PATH_SIZE];

	mark_path(c, c->name, path);
	if (zk_is_transient(rc))
		zk_contender_retry(client, c);
	else if (c->unwanted || c->marking.parent_len == 0)
		;
	else if (rc == ZOK || rc == ZNODEEXISTS || rc == ZNONODE)
		go_on(c, path, rc);
	else
	{
		path[zk_record_above(path, c->marking.parent_len)] = '\0';
		impossible(client, slot, rc, ZOO_PERM_CREATE,
				   "create children of", path);
	}
}

/*
 * Create a znode on the way to the mark.
 */
static void
send_parent(ZkClient *client, int slot)
{
	const Contender *c = &client->contenders[slot];
	char		path[ZK_MARK_PATH_SIZE];

	mark_path(c, c->name, path);
	zk_record_send_above(client, slot, path, c->marking.parent_len, on_parent);
}

/*
 * Operation number "culprit" of the multi-op that makes the mark was refused,
 * for the reason rc.  The first one checks the contender.  If another mark to
 * be deleted is gone by now, all is read anew.
 */
static void
not_made(ZkClient *client, int slot, int culprit, int rc)
{
	Contender  *c = &client->contenders[slot];
	Marking    *m = &c->marking;
	int			permission = culprit == 0 ? ZOO_PERM_READ : ZOO_PERM_DELETE;
	const char *doing = culprit == 0 ? "read" : "delete children of";
	char		path[ZK_MARK_PATH_SIZE];

	m->looked = false;
	zk_record_path(c->node, c->request.root_len, path);
	if (culprit == 0)
		zk_contender_path(c, c->name, path);
	else if (culprit == m->create_at)
	{
		permission = ZOO_PERM_CREATE;
		doing = "create children of";
	}
	if (rc == ZNONODE && culprit == 0)
		zk_contender_missing(client, slot);
	else if (rc == ZNONODE && permission == ZOO_PERM_CREATE)
		m->parent_len = strlen(path);
	else if (rc == ZNODEEXISTS)
		m->own = MARK_THERE;	/* by a multi-op that was not answered */
	else if (rc != ZNONODE)
		impossible(client, slot, rc, permission, doing, path);
}

static void
on_mark(ZkClient *client, int slot, const Answer *answer)
{
	int			rc = answer->rc;
	Contender  *c = &client->contenders[slot];
	Marking    *m;
	int			culprit = 0;

	m = &c->marking;
	if (rc == ZOK)
	{
		m->looked = false;
		if (m->create_at > 0)
			m->own = MARK_THERE;
		zk_leader_answered(client, answer->request->sent_at);
		zk_contender_set_lease(client, c, zk_request_proof(answer->request));
		if (!c->unwanted && c->state == ZK_QUEUED && m->create_at > 0)
		{
			m->due = false;
			zk_contender_grant(client, slot);
		}
	}
	else if (zk_is_transient(rc))
	{
		m->looked = false;
		zk_contender_retry(client, c);
	}
	else if (!c->unwanted)
	{
		while (culprit < m->ops && c->results[culprit].err == ZOK)
			culprit++;
		not_made(client, slot, culprit, rc);
	}
}

/*
 * Fill in the operations that follow the check: delete the marks of who has
 * gone without a release, then make the own one.  If they are too many for one
 * transaction, they come first, and it is made by a later one.
 */
static void
fill_in(ZkClient *client, Contender *c, zoo_op_t *ops,
		char paths[][ZK_MARK_PATH_SIZE])
{
	Marking    *m = &c->marking;
	const char *name = m->unclean;

	m->ops = 1;
	m->create_at = 0;
	for (; name != NULL && *name != '\0' && m->ops <= ZK_MARK_BATCH;
		 name += strlen(name) + 1)
	{
		mark_path(c, name, paths[m->ops]);
		zoo_delete_op_init(&ops[m->ops], paths[m->ops], -1);
		m->ops++;
	}
	if (name != NULL && *name != '\0')
		return;
	m->own = MARK_UNKNOWN;
	m->create_at = m->ops++;
	mark_path(c, c->name, paths[m->create_at]);
	zoo_create_op_init(&ops[m->create_at], paths[m->create_at], "", 0,
					   &client->identity.acl, ZOO_PERSISTENT, NULL, 0);
}

/*
 * Make the mark, in a transaction that proves that the contender is there.
 */
static void
send_mark(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];
	zoo_op_t	ops[ZK_OWN_OPS];
	char		own_path[ZK_CONTENDER_PATH_SIZE];
	char		paths[ZK_OWN_OPS][ZK_MARK_PATH_SIZE];
	void	   *context;
	int			rc;

	if (!zk_multi_possible(client))
	{
		zk_contender_retry(client, c);
		return;
	}
	zk_contender_path(c, c->name, own_path);
	zoo_check_op_init(&ops[0], own_path, -1);
	fill_in(client, c, ops, paths);
	memset(c->results, 0, sizeof(c->results));
	context = zk_contender_ask(client, slot, on_mark);
	rc = zoo_amulti(client->connection.zh, c->marking.ops, ops, c->results, zk_on_void,
					context);
	zk_contender_sent(client, slot, context, rc);
}

/*
 * Somebody has gone without a release: the backend is told, and the helper's
 * timer set.
 */
static void
show_delay(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];

	if (c->marking.shown == c->marking.until)
		return;
	c->marking.shown = c->marking.until;
	zk_contender_publish(client, slot, true);
	zk_mailbox_wake_helper(&client->mailbox);
}

/* Does the contender have to wait, before it can be judged again? */
static bool
must_wait(const Marking *m)
{
	return m->looked && !m->doubtful && m->unclean != NULL &&
		*m->unclean != '\0' && m->looked_at < m->until;
}

/*
 * The contender is granted but for the marks: do what comes next about them.
 * There is room for that.  Returns false if the queue is to be listed anew.
 */
bool
zk_marks_advance(ZkClient *client, int slot)
{
	Marking    *m = &client->contenders[slot].marking;

	if (m->parent_len > 0)
		send_parent(client, slot);
	else if (!m->looked && m->queue != NULL)
		zk_send_marks(client, slot);
	else if (!m->looked || m->doubtful)
		return false;
	else if (!must_wait(m))
	{
		m->shown = 0;
		send_mark(client, slot);
	}
	else if (zk_now() >= m->until)
		return false;
	else
		show_delay(client, slot);
	return true;
}

/*
 * When is the delay of a contender over?  INT64_MAX if there is none, or
 * nothing could be done then.
 */
ZkTime
zk_marks_due(const ZkClient *client, const Contender *c)
{
	if (!zk_is_connected(client) || c->unwanted || c->state != ZK_QUEUED ||
		c->pending > 0 || c->retry_at != 0 || !c->marking.due ||
		zk_requests_free(client) < 3 || !must_wait(&c->marking))
		return INT64_MAX;
	return c->marking.until;
}

/*
 * Make the operations that delete a contender's mark, and make one of another
 * name (to) if that is not NULL.  For a multi-op that is sent before paths are
 * used for something else.  Returns how many they are, none if there is no
 * mark.
 */
int
zk_mark_ops(const ZkClient *client, const Contender *c, const char *to,
			zoo_op_t *ops, char paths[2][ZK_MARK_PATH_SIZE])
{
	if (!zk_mark_to_go(c))
		return 0;
	mark_path(c, c->name, paths[0]);
	zoo_delete_op_init(&ops[0], paths[0], -1);
	if (to == NULL)
		return 1;
	mark_path(c, to, paths[1]);
	zoo_create_op_init(&ops[1], paths[1], "", 0, &client->identity.acl,
					   ZOO_PERSISTENT, NULL, 0);
	return 2;
}

/*
 * Was a multi-op of the contender refused because of the operations on its
 * mark, which come after so many?  Then it is to be tried without them: a mark
 * that somebody else has deleted keeps no contender, nor does one that cannot
 * be deleted.  The latter is logged, as the next holder will wait for nothing.
 */
bool
zk_mark_to_blame(const Contender *c, int before)
{
	int			rc = ZOK;

	for (int i = 0; i < before + c->marking.ops && rc == ZOK; i++)
	{
		rc = c->results[i].err;
		if (rc != ZOK && i < before)
			return false;
	}
	if (rc == ZOK)
		return false;
	if (rc != ZNONODE)
		zk_log(true, "could not delete or move the mark of contender \"%s\" of lock node \"%.150s\": %s",
			   c->name, c->node, rc == ZNOAUTH ? "permission denied" : zk_answer_text(rc));
	return true;
}

static void
on_mark_deleted(ZkClient *client, int slot, const Answer *answer)
{
	Contender  *c = &client->contenders[slot];

	if (zk_is_transient(answer->rc))
		zk_contender_retry(client, c);
	else
		c->marking.own = MARK_ABSENT;
}

/*
 * Delete the mark of a contender that is gone already: somebody else has
 * deleted it, or it went with the mark, in a transaction that was not answered.
 */
void
zk_send_mark_delete(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];
	void	   *context = zk_contender_ask(client, slot, on_mark_deleted);
	char		path[ZK_MARK_PATH_SIZE];
	int			rc;

	mark_path(c, c->name, path);
	rc = zoo_adelete(client->connection.zh, path, -1, zk_on_void, context);
	zk_contender_sent(client, slot, context, rc);
}
