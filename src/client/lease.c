/*-------------------------------------------------------------------------
 *
 * lease.c
 *	  How long a lock may be believed in, and renewing that.
 *
 * The library never says that a session has expired before it has reached a
 * server again, and neither a ping nor a read proves that it has not: a
 * follower that is cut off from its leader answers both, for seconds after the
 * session has expired at the leader and another client works.  L4 is in
 * connection.c, L5 in xact.c, L6 and L7 are in loss.c.
 *
 * L1. A proof is a committed operation, and it is dated by when it was *sent*.
 * The lease runs until two thirds of the timeout after the proof, on
 * CLOCK_BOOTTIME, which goes on through suspend and never steps.  It does
 * stand still while a hypervisor has stopped the machine, for a snapshot or a
 * migration: a lease is then longer than it should be by that time.  Only
 * fences help.
 *
 * The operation proves that the session was alive when it was committed; but
 * the leader expires the session a timeout after it has last *heard* of it,
 * and an operation that a follower forwards does not count.  Followers report
 * when the leader asks, every half tick.  So if a session was silent for some
 * time, then acquires, and the follower hangs at that moment, the session can
 * expire at the leader before the lease is over.  Therefore a lease also ends
 * eleven twelfths of the timeout after the leader has certainly heard of the
 * session: when the connection was begun, or when an operation x was sent, if
 * x was answered, and a quarter of the timeout (half a tick at least) later y
 * was sent, and y was answered before the proof was sent.  All of them go by
 * way of the leader, as a sync does, and are those of L2. leader_contact.c
 * says why that is certain, with the places in ZooKeeper's code.  A read would
 * not do: a leader that is stopped hears nothing while its followers go on
 * answering, and when it wakes it commits what has queued up before it expires
 * the session (tap/121_leader_pause, S236).  This assumes that
 * minSessionTimeout is not below its default of two ticks.
 *
 * So a lease is one function of three things (zk_lease_end(),
 * leader_contact.c): when the proof was sent, since when the leader had heard
 * of the session by then, and the negotiated timeout.  A connection with a
 * shorter timeout cuts running leases: each ends at the latest as if it had
 * been proved when that connection was begun, and presumed_lost with it
 * (tap/120_timeout, S235).  One whose answer is lost has shortened the timeout
 * unseen: so maxSessionTimeout must not become less than the timeouts of
 * sessions with locks.  A connection with a longer one changes nothing: the
 * server of an earlier connection may receive what was sent there only now, and
 * report the session with the timeout of that connection, from which the leader
 * then counts (S373).  So the timeout is the shortest one of the session.
 *
 * L2. A create is a proof.  Each session has a beat (zk_lease_heartbeat()): a
 * sync, and when that is answered one multi-op of checks over all held
 * contenders, which is a transaction, changes no znode, fires no watch, and
 * proves that the contenders exist.  The next beat is due a quarter of the
 * timeout after the sync was *answered*, and up to a sixty-fourth later at
 * random.  So this sync is the x of the next proof, and the next sync its y.
 * (A period of exactly a quarter from sending to sending would miss that by a
 * round trip each time, and each lease would be a quarter shorter.) Hence, of
 * a timeout T and a round trip r:
 *
 *    right after a proof a lease is
 *       11/12 T - (1/4 + 1/64) T - 2 r = 0.65 T - 2 r
 *    and right before the next one
 *       0.65 T - (1/4 + 1/64) T - 4 r = 0.385 T - 4 r
 *
 * A lock that was acquired between two beats has 0.38 T at least, and is
 * renewed with the next one.  So has a proof that a commit asks for between two
 * beats: the leader has not heard of the session since, and the lease ends when
 * it would have ended, or later.  The next beat renews that lease, too, unless
 * it would gain less than T / 32 (S383). unit/client_lease_test measures the
 * lengths (S231).  A lease can be kept running as long as a round trip takes
 * less than about a tenth of T.  The waiter that is next in line keeps its
 * lease too, so that the event is its grant; a waiter further behind whose
 * lease ran out, or has less than a quarter of T left, proves itself before it
 * is granted: the helper may look at a new lease only an eighth of T later
 * (S372).
 *
 * L3. If the lease runs out while a renewal is not answered, or there is no
 * connection, the lock is lost.  If it has run out because the process was
 * stopped, a proof is asked for once (over a new connection, because the
 * library gives up the old one when it finds how long it has heard nothing);
 * but once the whole timeout has passed since the last proof the lock is lost
 * without asking.  (S5, S94)
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "auth.h"
#include "contender.h"
#include "jitter.h"
#include "lease.h"
#include "lock_delay.h"
#include "request.h"
#include "server_timeout.h"

/* What a renewal asks for.  engine_lock; results also by the library. */
typedef struct Renewal
{
	int			count;
	uint16_t	slots[ZK_RENEWAL_BATCH];
	uint32_t	incarnations[ZK_RENEWAL_BATCH];
	zoo_op_result_t results[ZK_RENEWAL_BATCH];
} Renewal;

/* The sync with which the leader hears of the session.  engine_lock. */
typedef struct Heartbeat
{
	bool		pending;		/* one is on its way */
	ZkTime		sent_at;		/* when the last one was sent */
	ZkTime		at;				/* and answered, or there was a connection:
								 * what was asked before may be asked again */
	ZkTime		due;			/* when to send the next one */
} Heartbeat;

struct Leases
{
	Heartbeat	heartbeat;
	ZkTime		prove_since;	/* proofs older than this will not do */
	bool		pending[ZK_RENEWALS];	/* which renewals are on their way */
	Renewal		renewals[ZK_RENEWALS];
};

/*
 * Make one, with nothing under way; NULL if out of memory.  The renewals are
 * large, and each is touched when it is needed first.
 */
Leases *
zk_leases_create(void)
{
	Leases	   *leases = malloc(sizeof(Leases));

	if (leases != NULL)
		memset(leases, 0, offsetof(Leases, renewals));
	return leases;
}

/* A proof of each contender is wanted that is sent from now on.  Helper. */
void
zk_leases_prove(ZkClient *client)
{
	client->leases->prove_since = zk_now();
}

/*
 * Returns true if the contender's lease must be renewed.  Holders need it, and
 * so does the waiter that is next in line: an event then grants the lock
 * without another round trip.  One that waits for a lock delay does, too; and
 * where answers take long, any that may be next by then.  During a downgrade
 * it is not known which of the two contenders exists; its success is a proof.
 */
static bool
keep_lease(const ZkClient *client, const Contender *c)
{
	if (c->claim != CLAIM_WANTED || c->znode.existence != ZNODE_NAMED ||
		c->partner != NULL || c->successor != NULL)
		return false;
	return c->state == ZK_HELD || c->grant == GRANT_PROOF ||
		(c->state == ZK_QUEUED && (c->grant == GRANT_MARKERS || zk_server_timeout_slow(client))) ||
		(c->state == ZK_WATCHING && c->watching.next_in_line);
}

/*
 * Returns when its renewal is due: with a beat, after which the leader is
 * known to have heard of the session recently; in between only if that gains
 * something, or there is no lease to lose.
 */
static ZkTime
renewal_due(const ZkClient *client, const Contender *c)
{
	ZkTime		timeout = zk_timeout(client);
	ZkTime		asked = c->renewing.asked_at > c->proof.proved_at ?
	c->renewing.asked_at : c->proof.proved_at;
	ZkTime		due = c->proof.lease_end - timeout / 4;
	ZkProof		proof = {.leader_heard_at = client->leader_contact.leader_heard_at};

	/* do not ask again what was just asked */
	if (asked < client->leases->prove_since)
		return 0;
	proof.sent_at = client->leases->heartbeat.at;
	if (asked < client->leases->heartbeat.at &&
		zk_lease_end(proof, timeout) >= c->proof.lease_end + timeout / 32)
		return client->leases->heartbeat.at;
	if (c->renewing.asked_at > c->proof.proved_at)
		return c->renewing.asked_at + timeout / 4;
	if (due < asked + timeout / 16)
		due = asked + timeout / 16;
	proof.sent_at = due;
	if (zk_lease_end(proof, timeout) >= c->proof.lease_end + timeout / 8)
		return due;
	return c->proof.lease_end > due ? c->proof.lease_end : due;
}

/* Returns true if a check failed because of its own contender. */
static bool
is_refusal(int err)
{
	return err == ZNONODE || err == ZNOAUTH;
}

/*
 * The check of a contender was refused: it is gone, or may not be read any
 * more.
 */
static void
unprovable(ZkClient *client, Contender *c, int err)
{
	if (err == ZNONODE)
		zk_contender_vanished(client, c);
	else if (c->state == ZK_HELD)
		zk_contender_lose(client, c, ZK_LOST_CONTENDER,
						  "This session is no longer permitted to read its contender.");
	else
		zk_contender_fail(client, c, ZK_ERR_FORBIDDEN,
						  "This session is no longer permitted to read its contender.");
}

/* Send the next sync that much later, or somewhat after that. */
static void
heartbeat_in(ZkClient *client, ZkTime delay)
{
	client->leases->heartbeat.due = zk_now() + delay +
		zk_jitter(&client->random, zk_timeout(client) / 64);
}

/*
 * A server that throttles has refused a sync or a renewal, and may do so
 * several times: sends the next sync soon, after which leases are renewed, so
 * that no lock is lost for that (S386).
 */
static void
beat_soon(ZkClient *client)
{
	heartbeat_in(client, zk_timeout(client) / 16);
	zk_mailbox_wake_helper(&client->mailbox);
}

static void
on_renewal(ZkClient *client, const Answer *answer)
{
	int			rc = answer->rc;
	Renewal    *renewal;
	bool		refused = false;

	renewal = &client->leases->renewals[answer->request->which];
	client->leases->pending[answer->request->which] = false;
	if (rc == ZOK)
		zk_leader_answered(client, answer->request->sent_at);
	for (int i = 0; i < renewal->count && rc != ZOK; i++)
		refused |= is_refusal(renewal->results[i].err);
	if (rc != ZOK && !refused)
		beat_soon(client);
	for (int i = 0; i < renewal->count; i++)
	{
		Contender  *c = &client->contenders[renewal->slots[i]];

		if (c->claim == CLAIM_NONE || c->znode.incarnation != renewal->incarnations[i])
			continue;
		if (rc == ZOK)
			zk_contender_proved(client, c, zk_request_proof(answer->request));
		else if (refused && !is_refusal(renewal->results[i].err))
			c->renewing.asked_at = 0;	/* not proved by this: ask again, at
										 * once */
		else if (refused && c->claim == CLAIM_WANTED)
			unprovable(client, c, renewal->results[i].err);
	}
	zk_lease_renew(client);
}

/* Adds the contenders to a renewal whose renewal is due. */
static void
choose(const ZkClient *client, Renewal *renewal, ZkTime now)
{
	for (int i = 0;
		 i < client->used && renewal->count < ZK_RENEWAL_BATCH; i++)
	{
		const Contender *c = &client->contenders[i];

		if (!keep_lease(client, c) || renewal_due(client, c) > now)
			continue;
		renewal->slots[renewal->count] = (uint16_t) i;
		renewal->incarnations[renewal->count] = c->znode.incarnation;
		renewal->count++;
	}
}

/* Sends the checks. Returns the library's answer. */
static int
send_checks(ZkClient *client, Renewal *renewal, void *context)
{
	struct check
	{
		zoo_op_t	op;
		char		path[ZK_NODE_PATH_SIZE + ZK_NAME_SIZE];
	}		   *checks = malloc(sizeof(struct check) * (size_t) renewal->count);
	zoo_op_t   *ops = malloc(sizeof(zoo_op_t) * (size_t) renewal->count);
	int			rc = ZSYSTEMERROR;

	for (int i = 0; checks != NULL && ops != NULL && i < renewal->count; i++)
	{
		const Contender *c = &client->contenders[renewal->slots[i]];

		snprintf(checks[i].path, sizeof(checks[i].path), "%s/%s",
				 c->node, c->znode.name);
		zoo_check_op_init(&ops[i], checks[i].path, -1);
	}
	if (checks != NULL && ops != NULL)
		rc = zoo_amulti(client->connection.zh, renewal->count, ops, renewal->results,
						zk_on_void, context);
	free(checks);
	free(ops);
	return rc;
}

/* Returns the index of a renewal that is not on its way, or -1. */
static int
free_renewal(const Leases *leases)
{
	for (int i = 0; i < ZK_RENEWALS; i++)
		if (!leases->pending[i])
			return i;
	return -1;
}

/*
 * Renews as much of what is due as one request can, if possible.  Returns
 * whether it did, so that there may be more.
 */
static bool
renew_batch(ZkClient *client)
{
	Leases	   *leases = client->leases;
	int			which = free_renewal(leases);
	Renewal    *renewal;
	ZkTime		now = zk_now();
	void	   *context;

	if (which < 0 || !zk_requests_available(client, 1))
		return false;
	renewal = &leases->renewals[which];
	renewal->count = 0;
	choose(client, renewal, now);
	if (renewal->count == 0)
		return false;

	memset(renewal->results, 0, sizeof(renewal->results));
	context = zk_request_begin(client, REQ_CLIENT, which, on_renewal);
	for (int i = 0; i < renewal->count; i++)
		client->contenders[renewal->slots[i]].renewing.asked_at = now;
	if (zk_multi_possible(client) &&
		send_checks(client, renewal, context) == ZOK)
		leases->pending[which] = true;
	else
		zk_request_undo(client, context);
	return leases->pending[which];
}

/* Renews what is due, if possible. */
void
zk_lease_renew(ZkClient *client)
{
	while (renew_batch(client))
		;
}

/*
 * The answer to the sync.  If it does not come from the leader (a server that
 * throttles does not forward it), leases are renewed nevertheless.
 */
static void
on_heartbeat(ZkClient *client, const Answer *answer)
{
	client->leases->heartbeat.pending = false;
	client->leases->heartbeat.at = zk_now();
	(void) zk_identity_wanted(&client->identity, answer->rc);
	if (answer->rc == ZOK)
	{
		zk_leader_answered(client, answer->request->sent_at);
		heartbeat_in(client, zk_timeout(client) / 4);
	}
	else
		beat_soon(client);
	zk_lease_renew(client);
}

/* Returns when the next sync is due (L2). */
ZkTime
zk_lease_heartbeat_due(const ZkClient *client)
{
	const Heartbeat *heartbeat = &client->leases->heartbeat;

	return zk_is_connected(client) && !heartbeat->pending ? heartbeat->due : INT64_MAX;
}

/*
 * Makes the leader hear of the session, with or without a lock, if that is due
 * and possible.
 */
void
zk_lease_heartbeat(ZkClient *client)
{
	Heartbeat  *heartbeat = &client->leases->heartbeat;
	ZkTime		now = zk_now();
	void	   *context;

	if (now < zk_lease_heartbeat_due(client) || !zk_requests_available(client, 1))
		return;
	heartbeat->sent_at = now;
	context = zk_request_begin(client, REQ_CLIENT, 0, on_heartbeat);
	heartbeat->pending = zoo_async(client->connection.zh, "/", zk_on_string, context) == ZOK;
	if (heartbeat->pending)
		return;
	zk_request_undo(client, context);
	heartbeat_in(client, zk_timeout(client) / 16);
}

/*
 * There is a connection (again), begun at that time, maybe with another
 * timeout.  What was asked over the last one will not be answered.
 */
void
zk_leases_connected(ZkClient *client, ZkTime since, ZkTime timeout_before)
{
	zk_leader_contact_connected(&client->leader_contact, since);
	for (int i = 0; i < client->used; i++)
	{
		Contender  *c = &client->contenders[i];

		c->renewing.asked_at = 0;
		if (c->claim != CLAIM_NONE && zk_timeout(client) < timeout_before)
			zk_contender_cut_lease(client, c, client->leader_contact.leader_heard_at);
	}
	client->leases->heartbeat.pending = false;
	client->leases->heartbeat.at = zk_now();
	heartbeat_in(client, zk_timeout(client) / 4);
}

/* The handle is closed: no renewal will be answered. */
void
zk_leases_handle_closed(ZkClient *client)
{
	client->leases->heartbeat.pending = false;
	for (int i = 0; i < ZK_RENEWALS; i++)
		client->leases->pending[i] = false;
}

/* Returns true if a lock is held. */
bool
zk_leases_run(const ZkClient *client)
{
	for (int i = 0; i < client->used; i++)
	{
		const Contender *c = &client->contenders[i];

		if (zk_contender_is_held(c))
			return true;
	}
	return false;
}

/*
 * Returns true if a proof was asked for while that lease ran, by a renewal (or
 * the sync before it) or a downgrade, without an answer.  A failure with the
 * connection is none: the library gives up a silent connection at the moment
 * when the lease ends that the last answer proved.
 */
static bool
asked_in_vain(const ZkClient *client, const Contender *c)
{
	return c->partner != NULL ||
		(c->renewing.asked_at > c->proof.proved_at &&
		 c->renewing.asked_at < c->proof.lease_end) ||
		(client->leases->heartbeat.pending &&
		 client->leases->heartbeat.sent_at < c->proof.lease_end);
}

/*
 * Returns true if there was no connection when that lease ran out, and still
 * is none.  One that broke later does not count: after a pause of the process
 * the library gives it up, as it has heard nothing for so long.
 */
static bool
connection_was_lost(const ZkClient *client, const Contender *c)
{
	return !zk_is_connected(client) &&
		client->connection.disconnected_at < c->proof.lease_end;
}

/* The end of the time that a contender may be held; INT64_MAX for ever. */
static ZkTime
hold_until(const Contender *c)
{
	return c->request.max_hold == 0 ? INT64_MAX :
		c->proof.granted_at + c->request.max_hold;
}

/* Gives up a contender that was held for too long, but not under a commit. */
static void
end_hold(ZkClient *client, Contender *c)
{
	static const char why[] = "It was held for the maximum time that is allowed.";

	c->renewing.overdue = !zk_mailbox_end_hold(&client->mailbox, zk_contender_slot(client, c), why);
	if (!c->renewing.overdue)
		zk_contender_lose(client, c, ZK_LOST_OVERTIME, why);
}

/*
 * Loses what can no longer be proved, or was held for too long.  To be called
 * on time, and before a regained connection is used.
 */
void
zk_lease_check(ZkClient *client)
{
	ZkTime		now = zk_now();

	for (int i = 0; i < client->used; i++)
	{
		Contender  *c = &client->contenders[i];

		if (!zk_contender_is_held(c))
			continue;
		if (now >= hold_until(c))
			end_hold(client, c);
		if (now < c->proof.lease_end)
			continue;
		if (now >= c->proof.presumed_lost || connection_was_lost(client, c) ||
			asked_in_vain(client, c))
			zk_contender_lose(client, c, ZK_LOST_LEASE,
							  "Its lease expired before ZooKeeper confirmed it.");
	}
}

/* Returns when to renew (if possible), judge, or retry a contender. */
static ZkTime
contender_timer(const ZkClient *client, const Contender *c, bool can_renew)
{
	ZkTime		timer = INT64_MAX;

	if (can_renew && keep_lease(client, c))
		timer = renewal_due(client, c);
	if (zk_contender_is_held(c))
	{
		ZkTime		judge = zk_now() < c->proof.lease_end ?
		c->proof.lease_end : c->proof.presumed_lost;

		if (judge < timer)
			timer = judge;
		if (!c->renewing.overdue && hold_until(c) < timer)
			timer = hold_until(c);
	}
	if (zk_is_connected(client) && c->turn.retry_at != 0 && c->turn.retry_at < timer &&
		c->turn.pending == 0)
		timer = c->turn.retry_at;
	if (zk_markers_due(client, c) < timer)
		timer = zk_markers_due(client, c);
	return timer;
}

/*
 * Returns when the helper must look again.  What waits for an answer needs no
 * timer; one that has passed would make the helper spin.
 */
ZkTime
zk_lease_next_timer(ZkClient *client)
{
	ZkTime		next = INT64_MAX;
	bool		can_renew = zk_is_connected(client) && zk_requests_free(client) > 0 &&
	free_renewal(client->leases) >= 0;

	for (int i = 0; i < client->used; i++)
	{
		const Contender *c = &client->contenders[i];
		ZkTime		timer;

		if (c->claim == CLAIM_NONE)
			continue;
		timer = contender_timer(client, c, can_renew);
		if (timer < next)
			next = timer;
	}
	return next;
}
