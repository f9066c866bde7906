/*-------------------------------------------------------------------------
 *
 * lease.c
 *	  How long a lock may be believed in, and renewing that.
 *
 * The library never says that a session has expired before it has reached a
 * server again, and neither a ping nor a read proves that it has not: a
 * follower that is cut off from its leader answers both, for seconds after the
 * session has expired at the leader and somebody else works.  L4 is in
 * connection.c, L5 in xact.c, L6 and L7 are in loss.c.
 *
 * L1. A proof is a committed operation, and it is dated by when it was *sent*.
 * The lease runs until two thirds of the timeout after the proof.  Clock:
 * CLOCK_BOOTTIME, which goes on through suspend and never steps.  It does stand
 * still while a hypervisor has stopped the machine, for a snapshot or for a
 * migration, and no clock of the machine can know: a lease is then longer than
 * it should be by that time.  Only fences help.
 *
 * That alone is not enough.  The operation proves that the session was alive
 * when it was committed; but the leader expires the session a timeout after it
 * has last *heard* of it, and it does not hear of it by an operation that a
 * follower forwards.  Followers tell it whom they have heard of when it asks,
 * which it does every half tick.  So if a session was silent for some time
 * (idle, or its process stopped), then acquires, and the follower hangs at that
 * moment, the session can expire at the leader before the lease is over.
 * Therefore a lease ends, too, eleven twelfths of the timeout after the leader
 * has certainly heard of the session: when the connection was begun, or when an
 * operation x was sent, if x was answered, and a quarter of the timeout (half a
 * tick at least) later y was sent, and y was answered before the proof was
 * sent.  All of them go by way of the leader, as a sync does.  leader_contact.c
 * says why that is certain, with the places in ZooKeeper's code.  A read would
 * not do: a leader that is stopped hears nothing while its followers go on
 * answering, and when it wakes it commits what has queued up before it expires
 * the session (tap/121_leader_pause, S236).  What is assumed:
 * minSessionTimeout is not below its default of two ticks.
 *
 * So a lease is one function of three things (zk_lease_end(),
 * leader_contact.c): when the proof was sent, since when the leader had heard
 * of the session by then, and the timeout that was negotiated.  A connection
 * with a shorter timeout cuts the leases that run: each ends at the latest as
 * if it had been proved when that connection was begun, and presumed_lost with
 * it (tap/120_timeout, S235).
 *
 * L2. A create is a proof.  Each session has a beat (zk_lease_heartbeat()): a
 * sync, and when that is answered one multi-op of checks over all held
 * contenders, which is a transaction, changes no znode, fires no watch, and
 * proves that the contenders are there.  The next beat is due a quarter of the
 * timeout after the sync was *answered*, and up to a sixty-fourth later at
 * random.  So this sync is the x of the next proof, and the next sync its y.
 * (A period of exactly a quarter from sending to sending would miss that by a
 * round trip each time, and each lease would be a quarter shorter.)  Hence, of
 * a timeout T and a round trip r:
 *
 *    right after a proof a lease is
 *       11/12 T - (1/4 + 1/64) T - 2 r = 0.65 T - 2 r
 *    and right before the next one
 *       0.65 T - (1/4 + 1/64) T - 4 r = 0.385 T - 4 r
 *
 * A lock that was acquired between two beats has 0.38 T at least, and is
 * renewed with the next one; unit/client_lease_test measures the lengths
 * (S231).  A lease can be kept running as long as a round trip takes less than
 * about a tenth of T.
 *
 * The waiter that is next in line keeps its lease too, so that the event is its
 * grant; a waiter whose lease ran out proves itself before it is granted.
 *
 * L3. If the lease runs out while a renewal is not answered, or there is no
 * connection, the lock is lost.  If it has run out because the process was
 * stopped, it is asked once (over a new connection, for the library gives the
 * old one up when it finds how long it has heard nothing); but once the whole
 * timeout has passed since the last proof the lock is lost without asking
 * anybody. (S5, S94)
 *
 * All functions run on client threads under engine_lock.
 *
 * IDENTIFICATION
 *	  src/client/lease.c
 *
 *-------------------------------------------------------------------------
 */
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

/* A renewal.  engine_lock; results also by the library. */
typedef struct Renewal
{
	bool		pending;
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
	Renewal		renewals[ZK_RENEWALS];
};

/* Make one, with nothing under way; NULL if out of memory. */
Leases *
zk_leases_create(void)
{
	return calloc(1, sizeof(Leases));
}

/* A proof of each contender is wanted that is sent from now on.  Helper. */
void
zk_leases_prove(ZkClient *client)
{
	client->leases->prove_since = zk_now();
}

/*
 * Is the contender's lease to be kept running?  Waiters far behind need none;
 * the next in line does, so that an event is its grant, and so does who is
 * granted but for the lock delay; and where answers take long, whoever may be
 * by the time that they come.  While a downgrade is on its way nobody knows
 * which of the two contenders exists; its success is a proof.
 */
static bool
keep_lease(const ZkClient *client, const Contender *c)
{
	if (c->claim != CLAIM_WANTED || c->znode.existence != ZNODE_NAMED ||
		c->partner != ZK_NO_SLOT || c->successor != ZK_NO_SLOT)
		return false;
	return c->state == ZK_HELD || c->grant == GRANT_PROOF ||
		(c->state == ZK_QUEUED && (c->grant == GRANT_MARKS || zk_server_timeout_slow(client))) ||
		(c->state == ZK_WATCHING && c->watching.next_in_line);
}

/*
 * When is its renewal due?  With a beat, after which the leader is known to
 * have heard of the session a short time ago; in between only if there is
 * something to be gained by that, or no lease to lose.
 */
static ZkTime
renewal_due(const ZkClient *client, const Contender *c)
{
	ZkTime		timeout = zk_timeout(client);
	ZkTime		asked = c->renewing.asked_at > c->proof.proved_at ? c->renewing.asked_at : c->proof.proved_at;
	ZkTime		due = c->proof.lease_end - timeout / 4;
	ZkProof		proof = {.leader_heard_at = client->leader_contact.leader_heard_at};

	/* do not ask again what was just asked */
	if (asked < client->leases->prove_since)
		return 0;
	proof.sent_at = client->leases->heartbeat.at;
	if (asked < client->leases->heartbeat.at &&
		zk_lease_end(proof, timeout) >= c->proof.lease_end + timeout / 8)
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

/* Does this result of a check say what is wrong with its own contender? */
static bool
is_refusal(int err)
{
	return err == ZNONODE || err == ZNOAUTH;
}

/*
 * The check of a contender was refused: it is gone, or somebody has taken
 * away the right to read it, which a check needs.
 */
static void
unprovable(ZkClient *client, int slot, int err)
{
	if (err == ZNONODE)
		zk_contender_vanished(client, slot);
	else if (client->contenders[slot].state == ZK_HELD)
		zk_contender_lose(client, slot, ZK_LOST_CONTENDER,
						  "This session is no longer permitted to read its contender.");
	else
		zk_contender_fail(client, slot, ZK_ERR_FORBIDDEN,
						  "This session is no longer permitted to read its contender.");
}

static void
on_renewal(ZkClient *client, int which, const Answer *answer)
{
	int			rc = answer->rc;
	Renewal    *renewal;
	bool		refused = false;

	renewal = &client->leases->renewals[which];
	renewal->pending = false;
	if (rc == ZOK)
		zk_leader_answered(client, answer->request->sent_at);
	for (int i = 0; i < renewal->count && rc != ZOK; i++)
		refused |= is_refusal(renewal->results[i].err);
	for (int i = 0; i < renewal->count; i++)
	{
		int			slot = renewal->slots[i];
		Contender  *c = &client->contenders[slot];

		if (c->claim == CLAIM_NONE || c->znode.incarnation != renewal->incarnations[i])
			continue;
		if (rc == ZOK)
			zk_contender_proved(client, slot, zk_request_proof(answer->request));
		else if (refused && !is_refusal(renewal->results[i].err))
			c->renewing.asked_at = 0;	/* not proved by this: ask again, at
										 * once */
		else if (refused && c->claim == CLAIM_WANTED)
			unprovable(client, slot, renewal->results[i].err);
	}
	zk_lease_renew(client);
}

/*
 * Add the contenders to a renewal whose renewal is due.
 */
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

/*
 * Send the checks.  Returns the library's answer.
 */
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

/*
 * A renewal that is not on its way, or NULL.
 */
static Renewal *
free_renewal(ZkClient *client)
{
	for (int i = 0; i < ZK_RENEWALS; i++)
		if (!client->leases->renewals[i].pending)
			return &client->leases->renewals[i];
	return NULL;
}

/*
 * Renew what is due, as much of it as one request can, if it can be done now.
 * Returns whether it was, so that there may be more.
 */
static bool
renew_batch(ZkClient *client)
{
	Renewal    *renewal = free_renewal(client);
	ZkTime		now = zk_now();
	void	   *context;

	if (renewal == NULL || !zk_is_connected(client) || atomic_load(&zk_poisoned) ||
		!zk_requests_available(client, 1))
		return false;
	renewal->count = 0;
	choose(client, renewal, now);
	if (renewal->count == 0)
		return false;

	memset(renewal->results, 0, sizeof(renewal->results));
	context = zk_request_begin(client, REQ_CLIENT,
							   (int) (renewal - client->leases->renewals), on_renewal);
	for (int i = 0; i < renewal->count; i++)
		client->contenders[renewal->slots[i]].renewing.asked_at = now;
	if (zk_multi_possible(client) &&
		send_checks(client, renewal, context) == ZOK)
		renewal->pending = true;
	else
		zk_request_undo(client, context);
	return renewal->pending;
}

/*
 * Renew what is due, if it can be done now.
 */
void
zk_lease_renew(ZkClient *client)
{
	while (renew_batch(client))
		;
}

/* Send the next sync that much later, or somewhat after that. */
static void
heartbeat_in(ZkClient *client, ZkTime delay)
{
	client->leases->heartbeat.due = zk_now() + delay +
		zk_jitter(&client->random, zk_timeout(client) / 64);
}

/*
 * The sync was answered.  If it was not, or not by the leader (a server that
 * throttles does not forward it), leases are renewed all the same, as well as
 * can be.
 */
static void
on_heartbeat(ZkClient *client, int which, const Answer *answer)
{
	bool		succeeded = answer->rc == ZOK;

	(void) which;
	client->leases->heartbeat.pending = false;
	(void) zk_identity_wanted(&client->identity, answer->rc);
	if (succeeded)
		zk_leader_answered(client, answer->request->sent_at);
	client->leases->heartbeat.at = zk_now();
	heartbeat_in(client, zk_timeout(client) / (succeeded ? 4 : 16));
	zk_lease_renew(client);
}

/*
 * When is the next sync to be sent?  A quarter of the timeout after the last
 * one was answered, which is half a tick at least (leader_contact.c), and a
 * little more: so that one counts, and the proof behind the next has a lease of
 * nearly two thirds.
 */
ZkTime
zk_lease_heartbeat_due(const ZkClient *client)
{
	const Heartbeat *heartbeat = &client->leases->heartbeat;

	return zk_is_connected(client) && !heartbeat->pending ? heartbeat->due : INT64_MAX;
}

/*
 * Have the leader hear of the session, with or without a lock, if that is due
 * and can be done now.
 */
void
zk_lease_heartbeat(ZkClient *client)
{
	Heartbeat  *heartbeat = &client->leases->heartbeat;
	ZkTime		now = zk_now();
	void	   *context;

	if (atomic_load(&zk_poisoned) || now < zk_lease_heartbeat_due(client) ||
		!zk_requests_available(client, 1))
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
 * There is a connection (again), begun at that time, and the session's timeout
 * may be another one than before.  What was asked over the last connection will
 * not be answered: ask again.
 */
void
zk_leases_connected(ZkClient *client, ZkTime since, ZkTime timeout_before)
{
	zk_leader_contact_connected(&client->leader_contact, since);
	for (int i = 0; i < client->used; i++)
	{
		client->contenders[i].renewing.asked_at = 0;
		if (client->contenders[i].claim != CLAIM_NONE && zk_timeout(client) < timeout_before)
			zk_contender_cut_lease(client, i, client->leader_contact.leader_heard_at);
	}
	client->leases->heartbeat.pending = false;
	client->leases->heartbeat.at = zk_now();
	heartbeat_in(client, zk_timeout(client) / 4);
}

/*
 * The handle is closed: no renewal will be answered.
 */
void
zk_leases_handle_closed(ZkClient *client)
{
	client->leases->heartbeat.pending = false;
	for (int i = 0; i < ZK_RENEWALS; i++)
		client->leases->renewals[i].pending = false;
}

/*
 * Does somebody believe, with right, that a lock is held?
 */
bool
zk_leases_run(const ZkClient *client)
{
	for (int i = 0; i < client->used; i++)
	{
		const Contender *c = &client->contenders[i];

		if (c->claim == CLAIM_WANTED && c->state == ZK_HELD)
			return true;
	}
	return false;
}

/*
 * Was a proof asked for while that lease ran, by a renewal (or the sync before
 * it) or a downgrade, and was there no answer?  That it failed with the
 * connection is none: the library gives up a silent connection in the same
 * moment as the lease ends that was proved by the last thing it heard.
 */
static bool
asked_in_vain(const ZkClient *client, const Contender *c)
{
	return c->partner != ZK_NO_SLOT ||
		(c->renewing.asked_at > c->proof.proved_at && c->renewing.asked_at < c->proof.lease_end) ||
		(client->leases->heartbeat.pending && client->leases->heartbeat.sent_at < c->proof.lease_end);
}

/*
 * Was there no connection when that lease ran out, and is there none yet?  One
 * that broke later does not count: after a pause of the process the library
 * gives it up, as it has heard nothing for so long, and makes another.
 */
static bool
connection_was_lost(const ZkClient *client, const Contender *c)
{
	return !zk_is_connected(client) && client->connection.disconnected_at < c->proof.lease_end;
}

/* Until when may a contender be held, if it is?  INT64_MAX for ever. */
static ZkTime
hold_until(const Contender *c)
{
	return c->request.max_hold == 0 ? INT64_MAX :
		c->proof.granted_at + c->request.max_hold;
}

/*
 * Give up a contender that has been held for long enough; but not under a
 * commit, which is to have the lock to its end.
 */
static void
end_hold(ZkClient *client, int slot)
{
	static const char why[] = "It was held for the maximum time that is allowed.";

	client->contenders[slot].renewing.overdue = !zk_mailbox_end_hold(&client->mailbox, slot,
																	 why);
	if (!client->contenders[slot].renewing.overdue)
		zk_contender_lose(client, slot, ZK_LOST_OVERTIME, why);
}

/*
 * Lose what can no longer be proved, or has been held for long enough.  To be
 * called on time, and before a connection is used that was regained.
 */
void
zk_lease_check(ZkClient *client)
{
	ZkTime		now = zk_now();

	for (int i = 0; i < client->used; i++)
	{
		Contender  *c = &client->contenders[i];

		if (c->claim != CLAIM_WANTED || c->state != ZK_HELD)
			continue;
		if (now >= hold_until(c))
			end_hold(client, i);
		if (now < c->proof.lease_end)
			continue;
		if (now >= c->proof.presumed_lost || connection_was_lost(client, c) ||
			asked_in_vain(client, c))
			zk_contender_lose(client, i, ZK_LOST_LEASE,
							  "Its lease expired before ZooKeeper confirmed it.");
	}
}

/*
 * When is there something to do for a contender: renew (if that can be done),
 * judge, or try again?
 */
static ZkTime
contender_timer(const ZkClient *client, const Contender *c, bool can_renew)
{
	ZkTime		timer = INT64_MAX;

	if (can_renew && keep_lease(client, c))
		timer = renewal_due(client, c);
	if (c->state == ZK_HELD && c->claim == CLAIM_WANTED)
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
	if (zk_marks_due(client, c) < timer)
		timer = zk_marks_due(client, c);
	return timer;
}

/*
 * When must the helper look again?  What waits for an answer needs no timer:
 * the answer does what comes next, and until then a time that has passed would
 * have the helper spin.
 */
ZkTime
zk_lease_next_timer(ZkClient *client)
{
	ZkTime		next = INT64_MAX;
	bool		can_renew = zk_is_connected(client) && zk_requests_free(client) > 0 &&
	free_renewal(client) != NULL;

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
