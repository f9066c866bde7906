/*-------------------------------------------------------------------------
 *
 * record_io.c
 *	  The record of a lock: read with a grant, written with the end of it.
 *
 * What a holder leaves for the next one lies in a znode of its own, as other
 * programs choke on unknown children of a lock node: lines of text (record.c),
 * with the token of the last release, WAL positions of up to eight clusters,
 * and the last run of a job that was ended, of up to four databases.  A record
 * outlives its lock node.  The znode and those above it are persistent, and
 * made when they are missing.  Only contenders that were requested with a
 * record deal with it (RecordBuffer), so others cost nothing and leave nothing
 * behind.
 *
 * R1. It is written in the transaction that deletes the contender: whoever is
 * granted the lock after that finds it, and a client that has lost the lock
 * has written nothing.  A downgrade is a release for others that share the
 * lock, and writes it, too.
 *
 * R2. It is written on the condition that it is as it was read.  Of those that
 * share a lock the one that comes second reads it again and adds to that.
 * Until then the contender stays.  If the record cannot be written (an ACL, a
 * quota) the contender goes without, and the log says so.
 *
 * R3. The get is sent behind the list of the queue that the grant is for, in
 * the same go, and HELD is not published before it was answered.  A grant by
 * an event waits for a get of its own, one round trip, as an event carries no
 * data: what a waiter has read before may have been overwritten.  That is the
 * only round trip that a record costs, except for those that make the znodes
 * above it when the first one is written.  Contenders of one client do not
 * exclude each other: if another one has been released and must still write,
 * the grant waits for that and reads again, or the same run would begin twice.
 *
 * R4. If the multi-op was not answered and the contender is gone, the record
 * tells whether it was carried out: it has the release, the run or the reset.
 * If it is as it was, another client has deleted the contender.  If a later
 * holder has written its own release over it, nobody can know, and the
 * contender ends with that error.  A backend that exits releases nothing.
 * Therefore what is to be written is noted with each commit, too, and the
 * client writes it before it closes the ZooKeeper session, in half the time
 * that it has for all of that.
 *
 * R5. The room for what is to be written is made when the contender is
 * requested, so D2 holds.  In a downgrade it passes to the shared contender,
 * and back if the two are given up before that was carried out.
 *
 *    UNREAD ---> READ ---> SENT ---> WRITTEN     read for the grant; sent with
 *                                                the end, and carried out
 *    READ ---> UNREAD                            the queue is listed again
 *    SENT ---> CHANGED ---> READ                 refused for that, read again
 *    SENT ---> VERIFY ---> WRITTEN               the contender was gone before:
 *                                                by our multi-op
 *    SENT ---> READ                              not due any more
 *    WRITTEN ---> SENT                           released after a downgrade
 *    READ, CHANGED, SENT ---> GIVEN_UP           refused for good
 *
 * All functions but the last ones run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "client.h"
#include "answer.h"
#include "contender.h"
#include "parents.h"
#include "record_io.h"
#include "refusal.h"
#include "request.h"
#include "slot.h"

/*
 * Tries to write a record.  Each one in vain is due to a write of another
 * client, so this is more than any crowd of shared holders needs.
 */
#define MAX_ATTEMPTS	2000

static void
record_path(const Contender *c, char *path)
{
	zk_record_path(c->node, c->request.root_len, path);
}

/* Hands the record that a grant comes with to the backend. */
static void
publish_record(Mailbox *mailbox, RecordBuffer *record)
{
	pthread_mutex_lock(&mailbox->lock);
	record->found = record->base;
	record->known = true;
	pthread_mutex_unlock(&mailbox->lock);
}

/*
 * Copies what the backend has noted for a record, with the release itself;
 * false if it has noted nothing.
 */
static bool
take_note(ZkClient *client, const Contender *c, ZkRecord *note)
{
	const RecordBuffer *record = c->record;
	bool		noted;

	pthread_mutex_lock(&client->mailbox.lock);
	noted = record->noted;
	if (noted)
		*note = record->note;
	pthread_mutex_unlock(&client->mailbox.lock);
	if (!noted)
		return false;
	note->token = c->znode.token;
	memcpy(note->contender, c->znode.name, sizeof(note->contender));
	return true;
}

/*
 * Copies what has to be written into the record when the contender ends; false
 * if nothing.  Only for a contender that was held to the end.
 */
static bool
take_due_note(ZkClient *client, const Contender *c, ZkRecord *note)
{
	return c->record != NULL && c->record->state != RECORD_GIVEN_UP && c->state == ZK_HELD &&
		take_note(client, c, note);
}

/* Returns true if something has to be written when the contender ends. */
static bool
record_due(ZkClient *client, const Contender *c)
{
	ZkRecord	note;

	return take_due_note(client, c, &note);
}

/* Returns true if that is the end of a run. */
bool
zk_record_run_due(ZkClient *client, const Contender *c)
{
	ZkRecord	note;

	return take_due_note(client, c, &note) && note.run_count > 0;
}

/*
 * Returns true if another contender of this client's for the same lock must
 * still write what it leaves for the next holder (R3).
 */
bool
zk_record_end_pending(ZkClient *client, const Contender *c)
{
	for (int i = 0; i < client->used; i++)
	{
		const Contender *other = &client->contenders[i];

		if (other->claim > CLAIM_WANTED && strcmp(other->node, c->node) == 0 &&
			record_due(client, other))
			return true;
	}
	return false;
}

/*
 * The contender is gone, or leaves nothing: advances those whose grant
 * zk_record_end_pending() has kept.
 */
void
zk_record_ended(ZkClient *client, const Contender *ended)
{
	if (ended->record == NULL)
		return;
	for (int i = 0; i < client->used; i++)
	{
		Contender  *c = &client->contenders[i];

		if (c->claim == CLAIM_WANTED && c->grant == GRANT_RECORD &&
			strcmp(c->node, ended->node) == 0)
			zk_contender_touch(client, c);
	}
}

/*
 * The record cannot be written: the contender goes without.  That is logged,
 * because nobody may be looking at the contender any more.
 */
static void
give_up(ZkClient *client, Contender *c, int rc)
{
	char		path[ZK_RECORD_PATH_SIZE];

	record_path(c, path);
	c->record->state = RECORD_GIVEN_UP;
	zk_contender_explain(c, rc == ZNOAUTH ? ZK_ERR_FORBIDDEN : zk_answer_error(rc),
						 "Could not write to znode \"%.150s\": %s.", path,
						 rc == ZNOAUTH ? "permission denied" : zk_answer_text(rc));
	zk_log(true, "could not write to the record of a lock, znode \"%.150s\": %s",
		   path, rc == ZNOAUTH ? "permission denied" : zk_answer_text(rc));
	zk_record_ended(client, c);
}

/* Sets that nobody can know whether the unanswered multi-op was carried out. */
static void
explain_uncertain(Contender *c, const char *why)
{
	char		path[ZK_RECORD_PATH_SIZE];

	record_path(c, path);
	zk_contender_explain(c, ZK_ERR_UNCERTAIN, "Znode \"%.150s\": %s.", path, why);
}

/*
 * The contender is gone, and a multi-op of ours was not answered: the record
 * tells whether it was that one.  "changed" is true if it is not as the
 * multi-op expects it.
 */
static void
verified(ZkClient *client, Contender *c, bool changed)
{
	ZkRecord	note;

	if (take_note(client, c, &note) && zk_record_shows(&c->record->base, &note))
		c->record->state = RECORD_WRITTEN;
	else if (changed)
		explain_uncertain(c, "written by another client since");
	zk_contender_forget(c);
}

static void
was_read(ZkClient *client, Contender *c, bool changed)
{
	if (c->record->state == RECORD_VERIFY)
		verified(client, c, changed);
	else if (c->record->state == RECORD_CHANGED)
		c->record->state = RECORD_READ;
	if (c->grant != GRANT_RECORD || c->claim != CLAIM_WANTED ||
		zk_record_end_pending(client, c))
		return;
	c->record->state = RECORD_READ;
	publish_record(&client->mailbox, c->record);
	zk_contender_grant(client, c);
}

/*
 * The record was not read: a waiter fails, a holder goes without the record.
 */
static void
not_read(ZkClient *client, Contender *c, int rc)
{
	char		path[ZK_RECORD_PATH_SIZE];

	record_path(c, path);
	if (zk_is_transient(rc))
		zk_contender_retry(client, c);
	else if (c->record->state == RECORD_VERIFY)
	{
		explain_uncertain(c, zk_answer_text(rc));
		zk_contender_forget(c);
	}
	else if (c->state == ZK_HELD)
		give_up(client, c, rc);
	else if (c->claim == CLAIM_WANTED)
		zk_contender_impossible(client, c, rc, ZOO_PERM_READ, path);
}

static void
on_record(ZkClient *client, Contender *c, const Answer *answer)
{
	int			rc = answer->rc;

	if (rc == ZOK || rc == ZNONODE)
	{
		int			version = rc == ZOK ? answer->stat->version : -1;
		bool		changed = version != c->record->version;

		zk_record_parse(rc == ZOK ? answer->text : NULL, answer->len, &c->record->base);
		c->record->version = version;
		was_read(client, c, changed);
	}
	else
		not_read(client, c, rc);
}

/* What was read of the record is older than the list that is to be read. */
void
zk_record_outdated(Contender *c)
{
	if (c->record != NULL)
		c->record->state = RECORD_UNREAD;
}

/* The record was made, empty, along with something below it. */
void
zk_record_created(Contender *c)
{
	if (c->record != NULL && c->record->version < 0)
		c->record->version = 0;
}

/*
 * The multi-op that ends the contender was not answered, for the reason rc:
 * the record may be written.
 */
void
zk_record_unanswered(Contender *c, int rc)
{
	if (zk_record_is(c, RECORD_SENT))
		c->record->uncertain |= rc != ZTHROTTLEDOP;
}

void
zk_send_record(ZkClient *client, Contender *c)
{
	void	   *context = zk_contender_ask(client, c, on_record);
	char		path[ZK_RECORD_PATH_SIZE];

	record_path(c, path);
	zk_contender_sent(client, c, context,
					  zoo_aget(client->connection.zh, path, 0, zk_on_data, context));
}

/* A znode above the record was created, or not. */
static void
on_parent(ZkClient *client, Contender *c, const Answer *answer)
{
	if (!zk_parent_answered(client, c, answer))
		give_up(client, c, answer->rc);
}

/*
 * The contender is to be ended.  Decides whether the record is written with
 * that.  Returns false if that cannot be done yet: then what comes next for it
 * is sent.
 */
bool
zk_record_ready(ZkClient *client, Contender *c)
{
	if (!record_due(client, c))
	{
		if (zk_record_is(c, RECORD_SENT))
			c->record->state = RECORD_READ;
	}
	else if (c->parents.of == PARENTS_OF_RECORD)
	{
		zk_send_parent(client, c, on_parent);
		return false;
	}
	else if (c->record->state == RECORD_CHANGED || c->record->state == RECORD_VERIFY)
	{
		zk_send_record(client, c);
		return false;
	}
	else
		c->record->state = RECORD_SENT;
	return true;
}

/*
 * Makes the operation that writes the record.  The multi-op must be sent
 * before path (ZK_RECORD_PATH_SIZE bytes) and text (ZK_RECORD_SIZE) are used
 * for something else.
 */
void
zk_record_op(ZkClient *client, Contender *c, zoo_op_t *op, char *path,
			 char *text)
{
	RecordBuffer *record = c->record;
	ZkRecord	note;
	int			len;

	record->written = record->base;
	if (take_note(client, c, &note))
		zk_record_merge(&record->written, &note);
	len = zk_record_format(&record->written, text);
	record_path(c, path);
	if (record->version >= 0)
		zoo_set_op_init(op, path, text, len, record->version, NULL);
	else
		zoo_create_op_init(op, path, text, len, &client->identity.acl,
						   ZOO_PERSISTENT, NULL, 0);
}

/* The multi-op was carried out. */
void
zk_record_written(Contender *c)
{
	if (!zk_record_is(c, RECORD_SENT))
		return;
	c->record->state = RECORD_WRITTEN;
	c->record->base = c->record->written;
	c->record->version++;
}

/* The multi-op failed because of the record, with that error. */
void
zk_record_conflict(ZkClient *client, Contender *c, int err)
{
	RecordBuffer *record = c->record;

	if (err == ZTHROTTLEDOP)
		zk_contender_retry(client, c);
	else if (++record->attempts > MAX_ATTEMPTS ||
			 (err != ZBADVERSION && err != ZNODEEXISTS && err != ZNONODE))
		give_up(client, c, err);
	else if (err != ZNONODE)
		record->state = RECORD_CHANGED;
	else if (record->version >= 0)
	{
		/* another client has deleted it: start with an empty one */
		record->version = -1;
		memset(&record->base, 0, sizeof(record->base));
	}
	else
		zk_parents_missing(c, PARENTS_OF_RECORD);
}

/* The contender is gone, while the record was to be written. */
void
zk_record_verify(Contender *c)
{
	if (c->record->uncertain)
		c->record->state = RECORD_VERIFY;
	else
		zk_contender_forget(c);
}

/*
 * Returns true if there is more to a contender's end than the end of its
 * ZooKeeper session: a record to write, or a marker to delete, its own or its
 * partner's.
 */
bool
zk_record_flush(ZkClient *client, const Contender *c)
{
	return record_due(client, c) || zk_marker_to_go(c) ||
		(c->partner != NULL && !zk_contender_has_ended(c) &&
		 zk_marker_to_go(c->partner));
}

/*-------------------------------------------------------------------------
 * Backend thread
 *-------------------------------------------------------------------------
 */

bool
zk_contender_record(ZkClient *client, ZkContenderId id, ZkRecord *record)
{
	Mailbox    *mailbox = &client->mailbox;
	MailboxSlot *slot;
	bool		known;

	memset(record, 0, sizeof(*record));
	mailbox_enter(mailbox);
	slot = zk_mailbox_find(mailbox, id);
	known = slot != NULL && slot->record != NULL && slot->record->known;
	if (known)
		*record = slot->record->found;
	mailbox_leave(mailbox);
	return known;
}

void
zk_contender_note(ZkClient *client, ZkContenderId id, const ZkRecord *note)
{
	Mailbox    *mailbox = &client->mailbox;
	MailboxSlot *slot;

	mailbox_enter(mailbox);
	slot = zk_mailbox_find(mailbox, id);
	if (slot != NULL && slot->record != NULL)
	{
		slot->record->note = *note;
		slot->record->noted = true;
	}
	mailbox_leave(mailbox);
}

void
zk_record_request(ZkClient *client, const char *node, const char *root)
{
	char		path[ZK_RECORD_PATH_SIZE];

	zk_record_path(node, strlen(root), path);
	zk_query_request(client, ZK_QUERY_RECORD, path, NULL);
}
