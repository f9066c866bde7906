/*-------------------------------------------------------------------------
 *
 * contender.c
 *	  What can happen to a contender, whatever the protocol is doing.
 *
 * A contender is published, granted, lost, refused, found gone, given up.
 * Nothing here sends anything: a change marks the contender as touched, and
 * what comes next for it is sent when the engine is left (zk_engine_leave(),
 * protocol.c).
 *
 * What the backend wants of it ("claim"):
 *
 *   NONE --order--> WANTED --fails, is lost--> ENDED
 *     ^                |                        |  ^
 *     |                +------- release --------+  | gone, and published
 *     |                v                           |
 *     |             RELEASED ----------------------+
 *     |
 *     +---gone--- ABANDONED <--abandon-- any but NONE
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "contender.h"
#include "request.h"
#include "server_timeout.h"
#include "slot.h"
#include "znode.h"

/*
 * For how many session timeouts an unanswered create is doubted.  What a
 * server could not tell its leader is lost with their connection, which lasts
 * syncLimit ticks without an answer: one session timeout, by default.
 */
#define DOUBT			8

/* Adds to the status for whom the contender waits. */
static void
describe_wait(const Contender *c, ZkContenderStatus *status)
{
	const Watching *w = &c->watching;
	const char *blocker = strrchr(w->path, '/') + 1;

	status->deadlock = w->rival[0] != '\0';
	snprintf(status->blocker, sizeof(status->blocker), "%s",
			 status->deadlock ? w->rival : blocker);
	if (!status->deadlock)
	{
		strcpy(status->blocker_owner, c->blocker_owner);
		status->blocker_session = c->blocker_session;
	}
	status->own_ahead = w->own_ahead;
	memcpy(status->holder, w->holder, sizeof(status->holder));
	status->ahead = w->ahead;
	status->position = w->position;
}

/*
 * Publishes where a contender stands; wakes the backend if it may wait for
 * that.
 */
void
zk_contender_publish(ZkClient *client, Contender *c, bool wake)
{
	ZkContenderStatus status;
	const Contender *named;

	if (c->claim == CLAIM_ABANDONED)
		return;
	memset(&status, 0, sizeof(status));
	status.state = c->claim == CLAIM_WANTED || c->state == ZK_GONE ||
		zk_contender_has_ended(c) ? c->state : ZK_RELEASING;
	status.error = c->error;
	status.loss = c->loss;
	memcpy(status.detail, c->detail, sizeof(status.detail));

	/* a downgrade that is not sent yet: the exclusive one stands for both */
	named = c->znode.existence != ZNODE_NAMED && c->partner != NULL ? c->partner : c;
	memcpy(status.name, named->znode.name, sizeof(status.name));
	status.token = c->znode.token;
	status.proved_at = c->proof.proved_at;
	status.lease_end = c->proof.lease_end;
	status.presumed_lost = c->proof.presumed_lost;
	status.granted_at = c->proof.granted_at;
	status.behind_since = c->behind_since;
	status.revoked = c->own.revoked;
	status.recorded = zk_record_is(c, RECORD_WRITTEN);
	status.delayed = c->state == ZK_QUEUED && c->markers.shown != 0;
	if (c->state == ZK_WATCHING && c->watching.path != NULL)
		describe_wait(c, &status);
	if (c->loss == ZK_LOST_BROKEN || c->error == ZK_ERR_BROKEN)
		strcpy(status.blocker_owner, c->blocker_owner);
	zk_mailbox_publish(&client->mailbox, zk_contender_slot(client, c), &status, wake);
}

/* Moves a contender that has not ended to another state, without a grant. */
void
zk_contender_move(Contender *c, ZkContenderState state)
{
	if (zk_contender_has_ended(c))
		return;
	c->state = state;
	c->grant = GRANT_NONE;
}

/*
 * A create is about to be sent.  If it succeeds, it is a proof as old as this.
 */
void
zk_contender_creating(ZkClient *client, Contender *c)
{
	zk_znode_new_base(client, c);
	zk_znode_set_token(c, 0);
	zk_znode_set(c, ZNODE_UNCERTAIN);	/* even if refused: it may be in the
										 * queue */
	c->proof.proved_at = zk_now();
	zk_contender_move(c, ZK_CREATING);
}

/* The contender's create was not executed. */
void
zk_contender_not_created(Contender *c)
{
	zk_znode_set(c, ZNODE_ABSENT);
	zk_contender_move(c, ZK_WANTED);
}

/* Counts an attempt in vain. Returns false if it was one too many. */
bool
zk_contender_attempt(Contender *c)
{
	return ++c->attempts <= ZK_MAX_ATTEMPTS;
}

/*
 * Sets what is known of the client ahead, or of one that broke the contender:
 * len bytes of its data, none if len is not positive.
 */
void
zk_contender_set_blocker(Contender *c, const char *owner, int len, int64_t session)
{
	snprintf(c->blocker_owner, sizeof(c->blocker_owner), "%.*s",
			 len > 0 ? len : 0, len > 0 ? owner : "");
	c->blocker_session = session;
}

/* It waits for other clients, or for the end of a lock delay. */
void
zk_contender_behind(Contender *c)
{
	if (c->behind_since == 0)
		c->behind_since = zk_now();
}

/* Nothing of it exists any more, except for a marker left behind on purpose. */
void
zk_contender_forget(Contender *c)
{
	zk_znode_set(c, ZNODE_ABSENT);
	zk_marker_set(c, MARKER_ABSENT);
}

/*
 * Returns the contender of this client's that has, or may have, this name below
 * the lock node; or NULL.
 */
static Contender *
find_named(const ZkClient *client, const char *node, const char *name)
{
	for (int i = 0; i < client->used; i++)
	{
		Contender  *c = &client->contenders[i];

		if (c->claim != CLAIM_NONE && c->znode.base[0] != '\0' &&
			strcmp(c->node, node) == 0 &&
			strncmp(name, c->znode.base, strlen(c->znode.base)) == 0)
			return c;
	}
	return NULL;
}

/* Take a slot into use, for a contender that is wanted. */
static Contender *
use(ZkClient *client, int slot, const char *node, ZkMode mode)
{
	Contender  *c = &client->contenders[slot];
	uint32_t	incarnation = c->znode.incarnation;

	memset(c, 0, sizeof(*c));
	zk_znode_begin(c, incarnation + 1);
	c->claim = CLAIM_WANTED;
	c->node = node;
	c->request.mode = mode;
	c->state = ZK_WANTED;
	if (slot >= client->used)
		client->used = (uint16_t) (slot + 1);
	return c;
}

/* Leaves the record to another contender of the lock node. */
static void
pass_record(Contender *to, Contender *from)
{
	to->record = from->record;
	from->record = NULL;
}

/*
 * Adds the token to the owner's data of an exclusive contender, for the shared
 * one that takes its place and holds the lock under the same token (F9).
 */
static void
add_token(Contender *c)
{
	int			len = c->owner_len - 1;

	if (len > 0 && c->owner[len] == '}')
		c->owner_len = len + snprintf(c->owner + len, ZK_TOKEN_ROOM,
									  ZK_TOKEN_MEMBER, c->znode.token);
}

/* Makes a shared contender that is to take the place of an exclusive one. */
static Contender *
begin_downgrade(ZkClient *client, const MailboxOrder *order)
{
	Contender  *c = use(client, order->slot, order->node, ZK_SHARED);
	Contender  *from = &client->contenders[order->partner];

	c->partner = from;
	from->successor = c;
	add_token(from);
	pass_record(c, from);
	c->request.lock_delay = from->request.lock_delay;
	c->request.root_len = from->request.root_len;
	c->proof = from->proof;
	zk_znode_set_token(c, from->znode.token);
	zk_znode_new_base(client, c);
	zk_contender_move(c, ZK_HELD);
	if (from->state == ZK_LOST)
		zk_contender_lose(client, c, from->loss, from->detail);
	else
		zk_contender_publish(client, c, false);
	return c;
}

/* Makes the contender that the backend wants, and takes what the order owns. */
Contender *
zk_contender_take_order(ZkClient *client, const MailboxOrder *order)
{
	Contender  *c;

	if (order->partner != ZK_NO_SLOT)
		return begin_downgrade(client, order);
	c = use(client, order->slot, order->node, order->request.mode);
	c->request = order->request;
	c->owner = order->owner;
	c->owner_len = order->owner_len;
	c->record = order->record;
	return c;
}

/*
 * Takes a slot for a contender that is to be deleted and that nobody waits
 * for, of the same lock node and mode.  The caller names it.  NULL if there is
 * no room.
 */
static Contender *
take_reaper(ZkClient *client, const Contender *like)
{
	int			slot = zk_mailbox_take_slot(&client->mailbox, like->node);
	Contender  *reaper;

	if (slot < 0)
		return NULL;
	reaper = use(client, slot, client->mailbox.slots[slot].node, like->request.mode);
	reaper->state = ZK_CREATING;
	reaper->claim = CLAIM_ABANDONED;
	zk_contender_touch(client, reaper);
	return reaper;
}

/*
 * A contender of our own ZooKeeper session, unknown to all slots, is ahead.
 * There should be none (Q5, Q7); but our session would keep it alive for ever,
 * and we would wait for ourselves.  Without room to delete it, the one behind
 * sees it again after a while.
 */
static void
reap_orphan(ZkClient *client, Contender *behind, const char *name)
{
	Contender  *reaper = take_reaper(client, behind);

	if (reaper == NULL)
	{
		zk_contender_move(behind, ZK_QUEUED);
		zk_contender_retry(client, behind);
		return;
	}
	zk_log(true, "deleting contender \"%.80s\" of lock node \"%.80s\", which belongs to this ZooKeeper session but to no lock",
		   name, behind->node);
	zk_znode_set_orphan(reaper, name);
}

/*
 * A contender waits for one with that name and Stat.  Deletes that if it is an
 * orphan or its create was executed late.
 */
void
zk_contender_seen_ahead(ZkClient *client, Contender *c, const char *name,
						const struct Stat *stat)
{
	Contender  *whose;

	if (stat->ephemeralOwner != zk_session_id(client))
		return;
	whose = find_named(client, c->node, name);
	if (whose == NULL)
		reap_orphan(client, c, name);
	else if (whose->znode.doubted_since != 0)
	{
		zk_contender_retry_at(whose, 0);
		zk_contender_touch(client, whose);
	}
}

/*
 * Abandons the exclusive contender whose place this one, now unwanted, was to
 * take.  It remains the partner until it is gone, because the backend may wait
 * to hear that the lock is free.  What was to be written into the record is
 * left to it again.
 */
void
zk_contender_give_up_partner(ZkClient *client, Contender *c)
{
	if (c->partner == NULL)
		return;
	if (c->record != NULL && !zk_contender_has_ended(c))
		pass_record(c->partner, c);
	if (c->state == ZK_LOST)	/* its marker stays */
		zk_marker_set(c->partner, MARKER_ABSENT);
	zk_contender_end(client, c->partner, true);
}

/*
 * The shared contender has taken the place of the exclusive one, which is
 * gone, and its owner's data.
 */
void
zk_contender_replaced(ZkClient *client, Contender *c)
{
	Contender  *from = c->partner;

	c->partner = NULL;
	from->successor = NULL;
	c->owner = from->owner;
	c->owner_len = from->owner_len;
	from->owner = NULL;
	from->owner_len = 0;
	zk_contender_forget(from);
	zk_contender_end(client, from, true);
}

/* The backend releases or abandons the contender. */
void
zk_contender_end(ZkClient *client, Contender *c, bool abandon)
{
	if (c->claim != CLAIM_ABANDONED)
		c->claim = abandon ? CLAIM_ABANDONED : CLAIM_RELEASED;
	zk_contender_touch(client, c);
}

/* Sets why an action of the contender failed, as printf() does. */
void
zk_contender_explain(Contender *c, ZkError error, const char *fmt,...)
{
	va_list		args;

	c->error = error;
	va_start(args, fmt);
	vsnprintf(c->detail, sizeof(c->detail), fmt, args);
	va_end(args);
}

/* The contender cannot be granted. What exists of it will be deleted. */
void
zk_contender_fail(ZkClient *client, Contender *c, ZkError error,
				  const char *fmt,...)
{
	va_list		args;

	if (!zk_contender_has_ended(c))
	{
		zk_contender_move(c, ZK_FAILED);
		c->error = error;
		va_start(args, fmt);
		vsnprintf(c->detail, sizeof(c->detail), fmt, args);
		va_end(args);
	}
	if (c->claim == CLAIM_WANTED)
		c->claim = CLAIM_ENDED;
	zk_contender_publish(client, c, true);
	zk_contender_touch(client, c);
}

/*
 * The lock is lost, for good.  What exists of the contender is deleted as soon
 * as possible, whether the backend looks or not.
 */
void
zk_contender_lose(ZkClient *client, Contender *c, ZkLoss loss, const char *detail)
{
	if (zk_contender_has_ended(c) || c->claim != CLAIM_WANTED)
		return;
	zk_contender_move(c, ZK_LOST);
	c->loss = loss;
	snprintf(c->detail, sizeof(c->detail), "%s", detail);
	c->claim = CLAIM_ENDED;
	zk_contender_publish(client, c, true);
	zk_contender_give_up_partner(client, c);
	if (c->successor != NULL)
		zk_contender_lose(client, c->successor, loss, detail);
	zk_contender_touch(client, c);
}

/*
 * A waiter's contender seems to have been deleted by another client.  Returns
 * false, and the contender fails, if that is one attempt too many.
 */
static bool
may_try_again(ZkClient *client, Contender *c)
{
	if (zk_contender_attempt(c))
		return true;
	zk_contender_fail(client, c, ZK_ERR_VANISHING,
					  "Another client deleted the contender %d times.",
					  ZK_MAX_ATTEMPTS);
	return false;
}

/*
 * A contender that is not held yet seems to be gone: its marker has to go, too.
 */
static void
reap_marker(ZkClient *client, Contender *c)
{
	if (zk_marker_to_go(c))
		zk_contender_reap_elsewhere(client, c);
	zk_marker_set(c, MARKER_ABSENT);
}

/*
 * A contender of a group is not in the queue: the place that it would get now
 * would break the order of the group.
 */
void
zk_contender_unqueued(ZkClient *client, Contender *c)
{
	if (c->znode.token != 0)
		zk_contender_fail(client, c, ZK_ERR_VANISHED,
						  "Another client deleted the contender.");
	else
		zk_contender_fail(client, c, ZK_ERR_UNQUEUED,
						  "The contender was not created.");
}

/*
 * Another client deleted the contender.  A holder has lost its lock; a waiter
 * queues again, up to a number of times.
 */
void
zk_contender_vanished(ZkClient *client, Contender *c)
{
	if (c->state != ZK_HELD)
		reap_marker(client, c);
	zk_contender_forget(c);
	if (c->claim != CLAIM_WANTED)
		;
	else if (c->state == ZK_HELD)
		zk_contender_lose(client, c, ZK_LOST_CONTENDER,
						  "Another client deleted its contender.");
	else if (c->member.state != MEMBER_NONE)
		zk_contender_unqueued(client, c);
	else if (may_try_again(client, c))
		zk_contender_move(c, ZK_WANTED);
	zk_contender_touch(client, c);
}

/*
 * A waiter's contender is not in a list of its queue.  It need not be gone: a
 * new handle does not know what the previous one had seen, so its server may
 * lag behind.  Looks for it as if its create had not been answered (Q7).
 */
void
zk_contender_missing(ZkClient *client, Contender *c)
{
	reap_marker(client, c);
	zk_znode_set(c, ZNODE_UNCERTAIN);
	if (may_try_again(client, c))
		zk_contender_move(c, ZK_CREATING);
}

/*
 * An ACL forbids to delete the contender (deleting), or to find out whether it
 * exists.  This is tried again each session timeout, until it is permitted or
 * the ZooKeeper session has ended: the session may be kept by a wait behind
 * that very contender.  The first time is logged, because nobody may be looking
 * at the contender any more.
 */
void
zk_contender_stuck(ZkClient *client, Contender *c, bool deleting)
{
	const char *permission = deleting ? "DELETE" : "READ";

	client->connection.close_wanted = true;
	zk_contender_retry_at(c, zk_now() + zk_timeout(client));
	zk_mailbox_wake_helper(&client->mailbox);
	if (c->stuck)
		return;
	c->stuck = true;
	if (deleting)
		zk_log(true, "could not delete a contender of lock node \"%.150s\": permission denied; retrying until the ZooKeeper session ends",
			   c->node);
	else
		zk_log(true, "could not list the contenders of lock node \"%.150s\": permission denied; retrying until the ZooKeeper session ends",
			   c->node);
	zk_contender_fail(client, c, ZK_ERR_FORBIDDEN,
					  "%s permission is required on znode \"%.150s\".", permission,
					  c->node);
	zk_contenders_touch_all(client);	/* its record is not waited for */
	if (c->successor != NULL)
		zk_contender_fail(client, c->successor, ZK_ERR_FORBIDDEN,
						  "%s permission is required on znode \"%.150s\".", permission,
						  c->node);
}

/* The lock is ours, except for that step. */
static void
grant_behind(ZkClient *client, Contender *c, GrantStep step)
{
	zk_contender_move(c, ZK_QUEUED);
	c->grant = step;
	zk_contender_touch(client, c);
}

/*
 * Returns true if the lease must be proved before the grant: it is over, or is
 * to be renewed anyway, and might end before the helper looks (L2).  Right
 * after a proof, and where answers take long, any lease that runs will do.
 */
static bool
needs_proof(const ZkClient *client, const Contender *c)
{
	ZkTime		left = c->proof.lease_end - zk_now();

	if (c->grant == GRANT_PROOF || zk_server_timeout_slow(client))
		return left <= 0;
	return left < zk_timeout(client) / 4;
}

/*
 * The lock is ours.  HELD is published only with a running lease: after a
 * longer wait the session is proved to be alive first, because an event or a
 * list may be as old as a pause of the process.  It is also published only
 * with the lock's record, read since the queue was listed, and after the lock
 * delay, with the own marker made.
 */
void
zk_contender_grant(ZkClient *client, Contender *c)
{
	if (zk_record_is(c, RECORD_UNREAD))
	{
		grant_behind(client, c, GRANT_RECORD);
		return;
	}
	if (c->request.lock_delay > 0 && c->marker.state != MARKER_THERE)
	{
		grant_behind(client, c, GRANT_MARKERS);
		return;
	}
	if (needs_proof(client, c))
	{
		grant_behind(client, c, GRANT_PROOF);
		zk_server_timeout_proof_late(client, c->proof.proved_at);
		zk_mailbox_wake_helper(&client->mailbox);
		return;
	}
	zk_contender_move(c, ZK_HELD);
	c->proof.granted_at = zk_now();
	c->attempts = 0;
	zk_contender_publish(client, c, true);
	zk_contender_touch(client, c);
}

/*
 * The contender is gone.  Tells a backend that waits for that, unless the
 * deletion was forbidden: a backend that looks only now is told so too.  Frees
 * the slot if the contender was abandoned, as that of one whose place another
 * is to take was by the downgrade.
 */
void
zk_contender_gone(ZkClient *client, Contender *c)
{
	if (c->successor != NULL)
	{
		c->successor->partner = NULL;
		zk_contender_touch(client, c->successor);
		c->successor = NULL;
		c->claim = CLAIM_ABANDONED;
	}
	if (c->claim == CLAIM_RELEASED)
	{
		if (!c->stuck)
			c->state = ZK_GONE;
		zk_contender_publish(client, c, true);
		c->claim = CLAIM_ENDED;
	}
	if (c->claim != CLAIM_ABANDONED)
		return;
	free(c->owner);
	c->owner = NULL;
	c->claim = CLAIM_NONE;
	zk_mailbox_free_slot(&client->mailbox, zk_contender_slot(client, c));
}

/*
 * An operation was committed: the contender may be believed in until its lease
 * ends, and its session cannot expire before (leader_contact.c).
 */
void
zk_contender_set_lease(ZkClient *client, Contender *c, ZkProof proof)
{
	c->proof.proved_at = proof.sent_at;
	c->proof.lease_end = zk_lease_end(proof, zk_timeout(client));
	c->proof.presumed_lost = proof.sent_at + zk_timeout(client);
}

/*
 * A connection that was begun at that time has shortened the session timeout:
 * cuts the lease to what a proof at that time would allow.
 */
void
zk_contender_cut_lease(ZkClient *client, Contender *c, ZkTime since)
{
	ZkProof		proof = {since, since};
	ZkTime		end = zk_lease_end(proof, zk_timeout(client));

	if (c->proof.lease_end > end)
		c->proof.lease_end = end;
	if (c->proof.presumed_lost > since + zk_timeout(client))
		c->proof.presumed_lost = since + zk_timeout(client);
	if (c->state == ZK_HELD)
		zk_contender_publish(client, c, true);
}

/*
 * An operation has proved that the contender exists.
 */
void
zk_contender_proved(ZkClient *client, Contender *c, ZkProof proof)
{
	zk_contender_set_lease(client, c, proof);
	if (c->claim != CLAIM_WANTED)
		return;
	if (c->grant == GRANT_PROOF)
		zk_contender_grant(client, c);
	else
		zk_contender_publish(client, c, c->state == ZK_HELD);
}

/*
 * Leaves the znode of a contender to another slot that deletes it.  If there
 * is no room, it goes with its ZooKeeper session, which nothing keeps alive.
 */
void
zk_contender_reap_elsewhere(ZkClient *client, const Contender *c)
{
	Contender  *reaper = take_reaper(client, c);

	if (reaper == NULL)
		return;
	zk_znode_copy(reaper, c);
	reaper->request.lock_delay = c->request.lock_delay;
	reaper->request.root_len = c->request.root_len;
	zk_marker_set(reaper, c->marker.state);
	if (c->znode.doubted_since != 0)
		zk_contender_retry_at(reaper, c->znode.doubted_since + zk_timeout(client) / 4);
}

/* Returns the number of creates that may still be executed. */
static int
count_doubted(const ZkClient *client)
{
	int			count = 0;

	for (int i = 0; i < client->used; i++)
		count += client->contenders[i].claim != CLAIM_NONE &&
			client->contenders[i].znode.doubted_since != 0;
	return count;
}

/*
 * Leaves a create that may be executed late to another slot.  If there is no
 * room, reap_orphan() may have to deal with it.
 */
static void
doubt_elsewhere(ZkClient *client, Contender *c)
{
	zk_znode_doubt(c, zk_now());
	if (count_doubted(client) <= ZK_MAX_DOUBTED)
		zk_contender_reap_elsewhere(client, c);
	zk_znode_doubt(c, 0);
}

/*
 * A create that was not answered has not been executed, but still may be (Q7).
 * It is looked for after each new connection, and whenever the time waited so
 * far has passed again, for DOUBT session timeouts.  Returns true if this
 * contender itself does that.
 */
bool
zk_contender_doubted(ZkClient *client, Contender *c)
{
	ZkTime		timeout = zk_timeout(client);
	ZkTime		waited;

	if (c->znode.token != 0)
		return false;			/* it was answered, and is gone */
	if (c->znode.doubted_since == 0)
	{
		doubt_elsewhere(client, c);
		return false;
	}
	waited = zk_now() - c->znode.doubted_since;
	if (waited >= DOUBT * timeout)
		return false;
	zk_contender_retry_at(c, zk_now() + (waited > timeout / 4 ? waited : timeout / 4));
	return true;
}
