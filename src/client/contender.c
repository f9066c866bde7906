/*-------------------------------------------------------------------------
 *
 * contender.c
 *	  What can happen to a contender, whatever the protocol is doing.
 *
 * It is published, granted, lost, refused, found gone, given up.  Nothing here
 * sends anything: a change marks the contender as touched, and what comes next
 * for it is sent when the engine is left (zk_engine_leave, protocol.c).
 *
 * All functions run on client threads under engine_lock.
 *
 * IDENTIFICATION
 *	  src/client/contender.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client.h"
#include "contender.h"
#include "jitter.h"
#include "request.h"
#include "server_timeout.h"

/*
 * How long to wait before trying again what failed while connected, and up to
 * how much longer.
 */
#define RETRY_DELAY		ZK_MS(100)
#define RETRY_JITTER	ZK_MS(50)

/*
 * For how many session timeouts a create is doubted that was not answered and
 * not executed.  What a server could not tell its leader is lost with their
 * connection, which lasts syncLimit ticks without an answer: one session
 * timeout, by default.
 */
#define DOUBT			8

/*
 * Write the path of a child of the contender's lock node, into
 * ZK_CONTENDER_PATH_SIZE bytes.  The name is one of ours, so it fits.
 */
void
zk_contender_path(const Contender *c, const char *name, char *path)
{
	snprintf(path, ZK_CONTENDER_PATH_SIZE, "%s/%s", c->node, name);
}

/*
 * A request for a contender was handed to the library, which answered rc: it
 * is on its way, or it was refused and will be tried again.  Returns which.
 */
bool
zk_contender_sent(ZkClient *client, int slot, void *context, int rc)
{
	Contender  *c = &client->contenders[slot];

	if (rc == ZOK)
	{
		c->pending++;
		return true;
	}
	zk_request_undo(client, context);
	zk_contender_retry(client, c);
	return false;
}

/*
 * Tell the backend where a contender stands; wake it if it may be waiting for
 * just this.
 */
void
zk_contender_publish(ZkClient *client, int slot, bool wake)
{
	Contender  *c = &client->contenders[slot];
	ZkContenderStatus status;
	const Contender *named;
	const char *blocker;

	if (c->abandoned)
		return;
	memset(&status, 0, sizeof(status));
	if (c->state == ZK_GONE && c->released)
		status.state = ZK_GONE;
	else if (c->end != ZK_NONE)
		status.state = c->end;
	else
		status.state = c->unwanted ? ZK_RELEASING : c->state;
	status.error = c->error;
	status.loss = c->loss;
	memcpy(status.detail, c->detail, sizeof(status.detail));

	/* a downgrade that is not sent yet: the exclusive one stands for both */
	named = c->name[0] == '\0' && c->partner != ZK_NO_SLOT ?
		&client->contenders[c->partner] : c;
	memcpy(status.name, named->name, sizeof(status.name));
	status.token = c->token;
	status.proved_at = c->proved_at;
	status.lease_end = c->lease_end;
	status.presumed_lost = c->presumed_lost;
	status.granted_at = c->granted_at;
	status.revoked = c->revoked;
	status.recorded = c->recorded;
	status.delayed = c->state == ZK_QUEUED && c->marking.shown != 0;
	if (c->state == ZK_WATCHING && c->watched != NULL)
	{
		status.deadlock = c->rival[0] != '\0';
		blocker = status.deadlock ? c->rival : strrchr(c->watched, '/') + 1;
		snprintf(status.blocker, sizeof(status.blocker), "%s", blocker);
		if (!status.deadlock)
		{
			strcpy(status.blocker_owner, c->blocker_owner);
			status.blocker_session = c->blocker_session;
		}
		status.own_ahead = c->own_ahead;
		memcpy(status.holder, c->holder, sizeof(status.holder));
		status.ahead = c->ahead;
		status.position = c->position;
	}
	if (c->loss == ZK_LOST_BROKEN || c->error == ZK_ERR_BROKEN)
		strcpy(status.blocker_owner, c->blocker_owner);
	zk_mailbox_publish(&client->mailbox, slot, &status, wake);
}

/*
 * Write a random (version 4) uuid in text form.
 */
static void
make_uuid(char *uuid)
{
	unsigned char r[16];
	size_t		have = 0;

	while (have < sizeof(r))
	{
		ssize_t		n = getrandom(r + have, sizeof(r) - have, 0);

		if (n > 0)
			have += (size_t) n;
	}
	r[6] = (r[6] & 0x0F) | 0x40;
	r[8] = (r[8] & 0x3F) | 0x80;
	snprintf(uuid, ZK_UUID_SIZE,
			 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
			 "%02x%02x%02x%02x%02x%02x",
			 r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7],
			 r[8], r[9], r[10], r[11], r[12], r[13], r[14], r[15]);
}

/*
 * Give the contender a new identity.  Each create has one of its own: were it
 * reused, a create that was executed late could be taken for another.  And what
 * a renewal says of the one before is not about this one.
 */
void
zk_contender_new_name(ZkClient *client, Contender *c)
{
	char		uuid[ZK_UUID_SIZE];

	c->incarnation++;
	c->own_watch = c->changed = c->revoked = c->rewrite = false;
	c->watch_serial = c->rewrite_serial = 0;
	c->version = 0;
	c->watch_at = zk_now() + ZK_WATCH_DELAY;
	make_uuid(uuid);
	zk_queue_base_name(c->base, sizeof(c->base), client->style, c->request.mode,
					   c->request.permits, uuid);
}

/*
 * Nothing of it exists in ZooKeeper any more, but the mark that it may have
 * left on purpose.
 */
void
zk_contender_forget(Contender *c)
{
	c->maybe_exists = false;
	c->name[0] = '\0';
	c->marking.own = MARK_ABSENT;
	c->marking.orphaned_mark = false;
}

/*
 * Do without looking out for the one before the watched one: a list that is
 * read when that one is gone will do.
 */
void
zk_contender_drop_second_watch(Contender *c)
{
	free(c->second_watch);
	c->second_watch = NULL;
	c->last_second_watch = c->relist = false;
}

void
zk_contender_unwatch(Contender *c)
{
	free(c->watched);
	free(c->to_watch);
	c->watched = c->to_watch = NULL;
	c->unbroken = false;
	zk_contender_drop_second_watch(c);
}

/*
 * The contender has come to another place: its own znode is watched that much
 * later (own_watch.c), unless it is already, or is about to be, or never will
 * be.  A time that is set already for later stays: the helper, which waits for
 * it, need not be woken to wait for another one.
 */
void
zk_contender_watch_own_in(Contender *c, ZkTime delay)
{
	ZkTime		now = zk_now();

	if (c->own_watch || c->watch_serial != 0 || c->watch_at <= now ||
		c->watch_at >= now + delay)
		return;
	c->watch_at = now + delay;
}

/*
 * The contender must wait: remember its place in the queue that was read, whose
 * entries these are.  Who is behind the one ahead is known only if that is
 * being watched already.
 */
void
zk_contender_placed(Contender *c, const ZkQueueEntry *entries,
					const ZkVerdict *verdict)
{
	c->ahead = verdict->ahead;
	c->position = verdict->self + 1;
	snprintf(c->holder, sizeof(c->holder), "%s", entries[verdict->first].name);

	/* who has to know the marks reads them, and the queue once more */
	c->last_ahead = verdict->last_ahead && c->request.lock_delay == 0;
	c->rival[0] = '\0';
	if (c->watched != NULL)
		return;
	c->blocker_owner[0] = '\0';
	c->blocker_session = 0;
}

/*
 * The slot of this client's whose that contender of the lock node is, or may
 * be; ZK_NO_SLOT if there is none.
 */
static int
slot_of(const ZkClient *client, const char *node, const char *name)
{
	for (int i = 0; i < client->used; i++)
	{
		const Contender *c = &client->contenders[i];

		if (c->in_use && c->base[0] != '\0' && strcmp(c->node, node) == 0 &&
			strncmp(name, c->base, strlen(c->base)) == 0)
			return i;
	}
	return ZK_NO_SLOT;
}

/* Take a slot into use, for a contender that is wanted. */
Contender *
zk_contender_use(ZkClient *client, int slot, const char *node, ZkMode mode)
{
	Contender  *c = &client->contenders[slot];
	uint32_t	incarnation = c->incarnation;
	bool		touched = c->touched;

	memset(c, 0, sizeof(*c));
	c->touched = touched;
	c->incarnation = incarnation + 1;
	c->in_use = true;
	c->node = node;
	c->request.mode = mode;
	c->partner = c->successor = c->next_member = ZK_NO_SLOT;
	c->state = ZK_WANTED;
	if (slot >= client->used)
		client->used = (uint16_t) (slot + 1);
	return c;
}

/*
 * A slot of its own for a contender that is to be deleted, and that nobody
 * waits for: of the same lock node and mode as that one.  Its names are for the
 * caller to give.  NULL if there is no room.
 */
static Contender *
take_reaper(ZkClient *client, const Contender *like)
{
	int			slot = zk_mailbox_take_slot(&client->mailbox, like->node);
	Contender  *reaper;

	if (slot < 0)
		return NULL;
	reaper = zk_contender_use(client, slot, client->mailbox.slots[slot].node, like->request.mode);
	reaper->state = ZK_CREATING;
	reaper->unwanted = reaper->abandoned = true;
	zk_contender_touch(client, slot);
	return reaper;
}

/*
 * A contender of our own ZooKeeper session is in somebody's way that nobody
 * here knows of: an orphan.  There should be none (Q5, Q7); but our session
 * would keep it alive for ever, and we would wait for ourselves.
 */
static void
reap_orphan(ZkClient *client, const Contender *behind, const char *name)
{
	Contender  *reaper = take_reaper(client, behind);

	if (reaper == NULL)
		return;
	zk_log(true, "deleting contender \"%.80s\" of lock node \"%.80s\", which belongs to this ZooKeeper session but to no lock",
		   name, behind->node);
	snprintf(reaper->base, sizeof(reaper->base), "%s", name);
	snprintf(reaper->name, sizeof(reaper->name), "%s", name);
}

/*
 * Somebody waits for a contender with that name and Stat: see that it is not
 * for an orphan, nor for one whose create was executed late.
 */
void
zk_contender_seen_ahead(ZkClient *client, int slot, const char *name,
						const struct Stat *stat)
{
	const Contender *c = &client->contenders[slot];
	int			whose;

	if (stat->ephemeralOwner != zk_session_id(client))
		return;
	whose = slot_of(client, c->node, name);
	if (whose == ZK_NO_SLOT)
		reap_orphan(client, c, name);
	else if (client->contenders[whose].doubted_since != 0)
	{
		client->contenders[whose].retry_at = 0;
		zk_contender_touch(client, whose);
	}
}

/*
 * The contender right ahead was read: that is who is behind it.
 */
void
zk_contender_blocker_known(ZkClient *client, int slot, const char *value,
						   int value_len, const struct Stat *stat)
{
	Contender  *c = &client->contenders[slot];

	snprintf(c->blocker_owner, sizeof(c->blocker_owner), "%.*s",
			 value_len > 0 ? value_len : 0, value_len > 0 ? value : "");
	c->blocker_session = stat->ephemeralOwner;
	if (c->state == ZK_WATCHING && c->watched != NULL)
		zk_contender_seen_ahead(client, slot, strrchr(c->watched, '/') + 1, stat);
	zk_contender_publish(client, slot, true);
}

/* Try again soon; the helper sees to it. */
void
zk_contender_retry(ZkClient *client, Contender *c)
{
	c->retry_at = zk_now() + RETRY_DELAY + zk_jitter(&client->random, RETRY_JITTER);
	zk_mailbox_wake_helper(&client->mailbox);
}

/*
 * From now on the record is the business of another contender of the lock node.
 */
void
zk_contender_pass_record(Contender *to, Contender *from)
{
	to->record = from->record;
	from->record = NULL;
}

/*
 * The contender is unwanted: so is the exclusive one whose place it was to
 * take.  It remains the partner until it is gone, for this one is not gone
 * before: somebody may be waiting to hear that the lock is free.  What was to
 * be written into the record is the exclusive one's to write again.
 */
void
zk_contender_give_up_partner(ZkClient *client, Contender *c)
{
	if (c->partner == ZK_NO_SLOT)
		return;
	if (c->record != NULL && c->end == ZK_NONE)
		zk_contender_pass_record(&client->contenders[c->partner], c);
	if (c->end == ZK_LOST)		/* its mark stays */
		client->contenders[c->partner].marking.own = MARK_ABSENT;
	zk_contender_end(client, c->partner, true);
}

/*
 * The contender is not wanted any more.
 */
void
zk_contender_end(ZkClient *client, int slot, bool abandon)
{
	Contender  *c = &client->contenders[slot];

	c->unwanted = true;
	if (abandon)
		c->abandoned = true;
	else
		c->released = true;
	if (c->pending == 0)
		zk_contender_give_up_partner(client, c);
	zk_contender_touch(client, slot);
}

/*
 * The contender cannot be granted.  What exists of it will be deleted.
 */
void
zk_contender_fail(ZkClient *client, int slot, ZkError error,
				  const char *fmt,...)
{
	Contender  *c = &client->contenders[slot];
	va_list		args;

	if (c->end == ZK_NONE)
	{
		c->end = ZK_FAILED;
		c->error = error;
		va_start(args, fmt);
		vsnprintf(c->detail, sizeof(c->detail), fmt, args);
		va_end(args);
	}
	c->unwanted = true;
	zk_contender_publish(client, slot, true);
	zk_contender_touch(client, slot);
}

/*
 * The lock is lost.  That is final; what exists of the contender is deleted
 * as soon as can be, whether the backend looks or not, and never taken up
 * again.
 */
void
zk_contender_lose(ZkClient *client, int slot, ZkLoss loss, const char *detail)
{
	Contender  *c = &client->contenders[slot];

	if (c->end != ZK_NONE || c->unwanted)
		return;
	c->end = ZK_LOST;
	c->loss = loss;
	snprintf(c->detail, sizeof(c->detail), "%s", detail);
	c->unwanted = true;
	zk_contender_publish(client, slot, true);
	zk_contender_give_up_partner(client, c);
	if (c->successor != ZK_NO_SLOT)
		zk_contender_lose(client, c->successor, loss, detail);
	zk_contender_touch(client, slot);
}

/*
 * A waiter's contender was deleted by somebody else, or so it seems: one more
 * attempt was in vain.  False if it was one too many.
 */
static bool
may_try_again(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];

	if (++c->attempts <= ZK_MAX_ATTEMPTS)
		return true;
	zk_contender_fail(client, slot, ZK_ERR_VANISHING,
					  "Another client deleted the contender %d times.",
					  ZK_MAX_ATTEMPTS);
	return false;
}

/*
 * A contender that was not held, or not yet, is not there, or seems not to be.
 * So is its mark to go.
 */
static void
reap_mark(ZkClient *client, Contender *c)
{
	if (zk_mark_to_go(c))
		zk_contender_reap_elsewhere(client, c);
	c->marking.own = MARK_ABSENT;
	c->marking.due = false;
}

/*
 * A contender of a group is not in the queue, or not any more: at the place
 * that it would get now the order of the group would not hold.
 */
void
zk_contender_unqueued(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];

	if (c->token != 0)
		zk_contender_fail(client, slot, ZK_ERR_VANISHED,
						  "Another client deleted the contender.");
	else
		zk_contender_fail(client, slot, ZK_ERR_UNQUEUED,
						  "The contender was not created.");
}

/*
 * The contender's znode is gone, and nobody here deleted it.  A holder has
 * lost its lock; a waiter queues anew, as long as that makes sense.
 */
void
zk_contender_vanished(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];

	if (c->state != ZK_HELD)
		reap_mark(client, c);
	zk_contender_forget(c);
	if (c->unwanted)
		;
	else if (c->state == ZK_HELD)
		zk_contender_lose(client, slot, ZK_LOST_CONTENDER,
						  "Another client deleted its contender.");
	else if (c->grouped)
		zk_contender_unqueued(client, slot);
	else if (may_try_again(client, slot))
	{
		c->state = ZK_WANTED;
		c->proving = c->reading = false;
	}
	zk_contender_touch(client, slot);
}

/*
 * The lock node is not there: it is to be created first.
 */
void
zk_contender_parent_missing(Contender *c)
{
	c->need_parent = true;
	c->parent_seen = false;
	c->parent_len = (uint16_t) strlen(c->node);
}

/*
 * A waiter's contender is not in a list of its queue.  That is not to say that
 * it is gone: a handle that was opened anew for the session has forgotten what
 * the one before had seen, and so the server asked may lag behind.  Look for it
 * as if its create had not been answered, which begins with a sync.
 */
void
zk_contender_missing(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];

	reap_mark(client, c);
	c->name[0] = '\0';
	c->maybe_exists = true;
	c->reading = false;
	if (may_try_again(client, slot))
		c->state = ZK_CREATING;
}

/*
 * An ACL forbids to delete the contender (deleting), or to find out whether
 * there is one.  It can go in one way only: with its ZooKeeper session.  Others
 * wait for it until then, and maybe nobody looks at the contender any more: so
 * the server log is told.
 */
void
zk_contender_stuck(ZkClient *client, int slot, bool deleting)
{
	Contender  *c = &client->contenders[slot];
	const char *permission = deleting ? "DELETE" : "READ";

	client->connection.close_wanted = true;
	c->retry_at = INT64_MAX;
	if (deleting)
		zk_log(true, "could not delete a contender of lock node \"%.150s\": permission denied; it remains until the ZooKeeper session ends",
			   c->node);
	else
		zk_log(true, "could not list the contenders of lock node \"%.150s\": permission denied; its contender remains until the ZooKeeper session ends",
			   c->node);
	zk_contender_fail(client, slot, ZK_ERR_FORBIDDEN,
					  "%s permission is required on znode \"%.150s\".", permission,
					  c->node);
	if (c->successor != ZK_NO_SLOT)
		zk_contender_fail(client, c->successor, ZK_ERR_FORBIDDEN,
						  "%s permission is required on znode \"%.150s\".", permission,
						  c->node);
}

/*
 * The lock is ours: nobody conflicting is ahead.  It is reported only with a
 * lease that is running; who waited for longer than that proves first that its
 * ZooKeeper session is still alive, for an event or a list may be as old as the
 * process slept.  And it is reported with the lock's record, if that was asked
 * for: what was read before the grant is not to be relied on.  And not before
 * the lock delay is over, and the contender has its mark.
 */
void
zk_contender_grant(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];
	ZkTime		now = zk_now();

	zk_contender_unwatch(c);
	if (c->record != NULL && !c->record_known)
	{
		c->state = ZK_QUEUED;
		c->reading = true;
		zk_contender_touch(client, slot);
		return;
	}
	if (c->request.lock_delay > 0 && c->marking.own != MARK_THERE)
	{
		c->state = ZK_QUEUED;
		c->marking.due = true;
		zk_contender_touch(client, slot);
		return;
	}
	if (now >= c->lease_end)
	{
		c->state = ZK_QUEUED;
		c->proving = true;
		zk_server_timeout_proof_late(client, c->proved_at);
		zk_mailbox_wake_helper(&client->mailbox);
		return;
	}
	c->proving = false;
	c->state = ZK_HELD;
	zk_contender_watch_own_in(c, ZK_WATCH_DELAY);
	c->granted_at = now;
	c->attempts = 0;
	zk_contender_publish(client, slot, true);
}

/*
 * An operation of the ZooKeeper session was committed: the contender may be
 * believed in until its lease runs out, and until then its session cannot have
 * expired (leader_contact.c).
 */
void
zk_contender_set_lease(ZkClient *client, Contender *c, ZkProof proof)
{
	c->proved_at = proof.sent_at;
	c->lease_end = zk_lease_end(proof, zk_timeout(client));
	c->presumed_lost = proof.sent_at + zk_timeout(client);
}

/*
 * The ZooKeeper session has got a shorter timeout with a connection that was
 * begun then: no lease is longer than it could be if all had been proved at
 * that moment.
 */
void
zk_contender_cut_lease(ZkClient *client, int slot, ZkTime since)
{
	Contender  *c = &client->contenders[slot];
	ZkProof		proof = {since, since};
	ZkTime		end = zk_lease_end(proof, zk_timeout(client));

	if (c->lease_end > end)
		c->lease_end = end;
	if (c->presumed_lost > since + zk_timeout(client))
		c->presumed_lost = since + zk_timeout(client);
	if (c->state == ZK_HELD)
		zk_contender_publish(client, slot, true);
}

/*
 * An operation has proved that the contender exists.
 */
void
zk_contender_proved(ZkClient *client, int slot, ZkProof proof)
{
	Contender  *c = &client->contenders[slot];

	zk_contender_set_lease(client, c, proof);
	if (c->unwanted)
		return;
	if (c->proving)
		zk_contender_grant(client, slot);
	else
		zk_contender_publish(client, slot, c->state == ZK_HELD);
}

/*
 * A waiting contender is given up with the ZooKeeper session that created it,
 * but that session may not be over yet: leave its znode to a slot of its own
 * to be deleted.  If there is no room, it goes with its session: nobody keeps
 * that alive any more.
 */
void
zk_contender_reap_elsewhere(ZkClient *client, const Contender *c)
{
	Contender  *reaper = take_reaper(client, c);

	if (reaper == NULL)
		return;
	memcpy(reaper->base, c->base, sizeof(reaper->base));
	memcpy(reaper->name, c->name, sizeof(reaper->name));
	reaper->maybe_exists = c->maybe_exists;
	reaper->doubted_since = c->doubted_since;
	reaper->request.lock_delay = c->request.lock_delay;
	reaper->request.root_len = c->request.root_len;
	reaper->marking.own = c->marking.own;
	if (c->doubted_since != 0)
		reaper->retry_at = c->doubted_since + zk_timeout(client) / 4;
}

/* How many creates there are of which it is not certain that they never come to be. */
static int
count_doubted(const ZkClient *client)
{
	int			count = 0;

	for (int i = 0; i < client->used; i++)
		count += client->contenders[i].in_use &&
			client->contenders[i].doubted_since != 0;
	return count;
}

/*
 * Leave a create that may be executed yet to a slot of its own.  If there is no
 * room, reap_orphan() may have to do with it.
 */
static void
doubt_elsewhere(ZkClient *client, Contender *c)
{
	c->doubted_since = zk_now();
	if (count_doubted(client) <= ZK_MAX_DOUBTED)
		zk_contender_reap_elsewhere(client, c);
	c->doubted_since = 0;
}

/*
 * A create that was not answered has not been executed.  It may be yet (Q7): so
 * it is looked for after each new connection, and after as long as has been
 * waited already, until that was for DOUBT session timeouts.  Returns true if
 * that is to be done with this contender itself: it may still come into being.
 */
bool
zk_contender_doubted(ZkClient *client, int slot)
{
	Contender  *c = &client->contenders[slot];
	ZkTime		timeout = zk_timeout(client);
	ZkTime		waited;

	if (c->token != 0)
		return false;			/* it was answered, and is gone */
	if (c->doubted_since == 0)
	{
		doubt_elsewhere(client, c);
		return false;
	}
	waited = zk_now() - c->doubted_since;
	if (waited >= DOUBT * timeout)
		return false;
	c->retry_at = zk_now() + (waited > timeout / 4 ? waited : timeout / 4);
	return true;
}
