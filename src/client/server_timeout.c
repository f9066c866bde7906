/*-------------------------------------------------------------------------
 *
 * server_timeout.c
 *	  How long the client waits for a server before it tries the next one.
 *
 * The library would wait for a silent server as long as a lease lasts.  A
 * server that starts may leave a connection without an answer
 * (ZOOKEEPER-5051).  We break the connection, at random times within a range:
 *
 * - a tenth of the timeout T after a request without an answer, and up to an
 *	 eighth of T more;
 * - an eighth of T, a quarter of a second at least, after a connection attempt
 *	 began, and up to a sixteenth of T more.
 *
 * A heartbeat is sent T/4 after the last proof, which leaves a lease of 0.38 T.
 * So 0.155 T are left, at worst, for the next server.  That is another one,
 * though the library has one address of an even number twice (connect,
 * socket.c).  Hence a held lock survives that any one server hangs, dies or is
 * cut off at any moment, provided that the others have a leader (S230).
 * Clients that notice at the same time come to the next server spread over an
 * eighth of T (S233).
 *
 * If all servers are slow, haste would be of no use.  So these times are no
 * shorter than twice what the last answers have taken, double with each
 * connection that was broken without an answer, and end at five eighths of T.
 * A lock can be acquired as long as a round trip takes less than 0.458 T
 * (S232): over a new connection, of which the leader heard when it was made,
 * create and list are answered before 11/12 T are over.  If the proof comes
 * too late over an older connection, another one is made
 * (zk_server_timeout_proof_late()).
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "client.h"
#include "jitter.h"
#include "request.h"
#include "server_timeout.h"

/* What a server has at least to answer a new connection. */
#define MIN_HANDSHAKE				ZK_MS(250)

/* How often that time is doubled; the library does not wait longer itself. */
#define MAX_GIVEN_UP				3

/* How often the time for an answer is doubled. */
#define MAX_SILENCES				2

/* engine_lock. */
struct ServerTimeout
{
	ZkTime		gave_up;		/* when the attempt that was broken last had
								 * begun */
	int			given_up;		/* attempts broken since there was a
								 * connection */
	int			silences;		/* connections broken since an answer of the
								 * leader */
	ZkTime		looked_at;		/* when the helper checked last */
	ZkTime		not_before;		/* nothing is broken before then */
	ZkTime		jitter;			/* random; how much later this connection is */
	ZkTime		round_trip;		/* what connections and the leader's answers
								 * take, at worst */
	bool		stale;			/* proofs over this connection will come too
								 * late */
};

/* Make one; NULL if out of memory. */
ServerTimeout *
zk_server_timeout_create(void)
{
	return calloc(1, sizeof(ServerTimeout));
}

static ZkTime
later(ZkTime a, ZkTime b)
{
	return a > b ? a : b;
}

/*
 * Until when the server that is being tried may take to answer as one.  A
 * server that accepts connections and does nothing else would cost every lock,
 * so others get a chance first, and more time if none of them answers either.
 */
static ZkTime
handshake_due(const ZkClient *client, ZkTime begun)
{
	const ServerTimeout *timeout = client->server_timeout;
	ZkTime		wait = later(zk_timeout(client) / 8, MIN_HANDSHAKE);

	wait = later(wait, timeout->round_trip * 5 / 4);
	return begun + (wait << timeout->given_up) + timeout->jitter / 2;
}

/*
 * Until when a server may take to answer a request that was sent then.  Thus
 * whatever takes less than half of the session timeout is answered once.
 */
static ZkTime
silence_due(const ZkClient *client, ZkTime since)
{
	const ServerTimeout *timeout = client->server_timeout;
	ZkTime		wait = later(zk_timeout(client) / 10, timeout->round_trip * 2);

	wait <<= timeout->silences;
	if (wait > zk_timeout(client) / 2)
		wait = zk_timeout(client) / 2;
	return since + wait + timeout->jitter;
}

/*
 * When to break a connection in use that was begun then: also if the leader has
 * not heard of the session for so long that no proof would come in time.
 */
static ZkTime
connection_due(const ZkClient *client, ZkTime begun)
{
	ZkTime		since = zk_requests_unanswered_since(client);
	ZkTime		due = INT64_MAX;

	/* else it was sent over one that the library has lost and we have not */
	if (since != INT64_MAX && since >= begun)
		due = silence_due(client, since);
	if (client->server_timeout->stale && due > begun + zk_timeout(client) / 2)
		due = begun + zk_timeout(client) / 2;
	return due;
}

/*
 * When to break the connection that is there, or is being made; INT64_MAX if
 * there is none that we could break, or it was broken already.
 */
ZkTime
zk_server_timeout_due(const ZkClient *client)
{
	const ServerTimeout *timeout = client->server_timeout;
	ZkTime		begun = zk_socket_connecting_since(timeout->gave_up);

	if (client->connection.state == CONNECTION_NONE ||
		begun <= timeout->gave_up || !zk_socket_is_open())
		return INT64_MAX;
	return later(zk_is_connected(client) ? connection_due(client, begun) :
				 handshake_due(client, begun), timeout->not_before);
}

/*
 * The leader has answered a sync or a renewal that was sent then.  What that
 * took counts less with each answer that took less.
 */
void
zk_leader_answered(ZkClient *client, ZkTime sent_at)
{
	ServerTimeout *timeout = client->server_timeout;
	ZkTime		took = zk_now() - sent_at;

	zk_leader_contact_answered(&client->leader_contact, sent_at, zk_now(), zk_timeout(client));
	timeout->round_trip = later(took, (timeout->round_trip + took) / 2);
	timeout->silences = 0;
}

/* There is a connection, which was begun then. */
void
zk_server_timeout_connected(ZkClient *client, ZkTime begun)
{
	ServerTimeout *timeout = client->server_timeout;

	timeout->round_trip = later(timeout->round_trip, zk_now() - begun);
	timeout->given_up = 0;
	timeout->stale = false;
	timeout->jitter = zk_jitter(&client->random, zk_timeout(client) / 8);
}

/*
 * Returns true if answers take so long that a proof tends to come when its
 * lease is over: it is dated by its sending, and the account of what the leader
 * has heard is behind by two round trips and T/4 (leader_contact.c).
 */
bool
zk_server_timeout_slow(const ZkClient *client)
{
	return client->server_timeout->round_trip > zk_timeout(client) / 6;
}

/*
 * The lease of a contender that is to be granted is over, and its proof was
 * sent then.  If that is because the leader did not hear of the session in
 * time, and will be so with the next proof, a new connection is made: right
 * after that a proof is good for long enough.
 */
void
zk_server_timeout_proof_late(ZkClient *client, ZkTime sent_at)
{
	if (zk_now() < sent_at + zk_timeout(client) * 2 / 3 && zk_server_timeout_slow(client))
		client->server_timeout->stale = true;
}

/*
 * How long to be without a connection before names are resolved again, in
 * microseconds: half a session timeout, and a random time.
 */
ZkTime
zk_server_timeout_resolve_after(const ZkClient *client)
{
	return zk_timeout(client) / 2 + client->server_timeout->jitter / 2;
}

/*
 * Break a connection that is not worth waiting for.  The helper checks every
 * eighth of the timeout at least.  If it did not, the process was stopped, and
 * the answer may be there and just not have been read: then wait a little more.
 * Helper thread.
 */
void
zk_server_timeout_check(ZkClient *client)
{
	ServerTimeout *timeout = client->server_timeout;
	ZkTime		now = zk_now();
	ZkTime		tick = zk_timeout(client) / 8;
	ZkTime		begun = zk_socket_connecting_since(timeout->gave_up);
	ZkTime		since = zk_requests_unanswered_since(client);

	if (now - timeout->looked_at > tick * 3 / 2)
		timeout->not_before = now + tick / 2;
	timeout->looked_at = now;
	if (now < zk_server_timeout_due(client))
		return;
	timeout->gave_up = begun;
	if (!zk_socket_break_connection(begun))
		return;
	if (!zk_is_connected(client))
	{
		if (timeout->given_up < MAX_GIVEN_UP)
			timeout->given_up++;
		return;
	}
	if (since == INT64_MAX || now < silence_due(client, since))
		return;
	zk_log(true, "closing connection to %s: no response for %d ms",
		   client->connection.status.server, (int) ((now - since) / 1000));
	if (timeout->silences < MAX_SILENCES)
		timeout->silences++;
}
