/*-------------------------------------------------------------------------
 *
 * server_timeout.c
 *	  For how long a server is waited for, and a session that nobody needs yet.
 *
 * A server that accepts a connection and does not answer would be waited for as
 * long as a lease lasts, and so would one that does not answer a request.  We
 * break the connection of one that does not answer a request after a tenth of
 * the timeout and up to an eighth more, at random, and after an eighth (a
 * quarter of a second at least) while a connection is being made.  A beat is
 * sent a quarter after the last proof, which leaves a lease of 0.38 T: so 0.155
 * T are left, at worst, for the next server.  That is not the one that was just
 * given up, though the library has one address of an even number twice
 * (connect, socket.c).  Hence a held lock survives that any one server hangs,
 * dies or is cut off, whenever that happens, provided that the others have a
 * leader (S230).  Those who notice at the same time come to the next server
 * within an eighth of the timeout and not all at once (S233).
 *
 * If all servers are slow that would be of no use.  So that time is no shorter
 * than twice what the last answers have taken, doubles with each connection
 * that was given up without one, and ends at five eighths.  A lock can be
 * acquired as long as a round trip takes less than 0.458 T (S232): over a new
 * connection, of which the leader has heard when it was made, create and list
 * are answered before 11/12 T are over.  If the proof comes too late over an
 * older one, another connection is made for that
 * (zk_server_timeout_proof_late()).
 *
 * A session that was asked for ahead of its use is tried for as long as a call
 * would wait for it.  After that nobody knocks any more until something is
 * asked for, or backends that may never do so would, in an outage, knock all
 * the time.
 *
 * B5. A client that ends while its first connection is being made waits for the
 * answer (zk_session_beginning()), for as long as it has for records, half of
 * what zk_client_stop() is given: a server that has read the request makes a
 * session, and keeps it until it expires, whether anybody is there to hear of
 * that or not.  Once the library has complained, only an attempt that is under
 * way is waited for, not the next one.  Likewise a handle is not closed for a
 * quarter of a second whose connection is being made for something that nobody
 * asks for any more, as after a cancel.
 *
 * All functions run on client threads under engine_lock.
 *
 * IDENTIFICATION
 *	  src/client/server_timeout.c
 *
 *-------------------------------------------------------------------------
 */
#include "client.h"
#include "jitter.h"
#include "request.h"
#include "server_timeout.h"

/* How long a session may take to begin that nobody asks for any more. */
#define UNNEEDED_TIME				ZK_MS(250)

/* What a server has at least to answer a new connection, in any case. */
#define MIN_HANDSHAKE				ZK_MS(250)

/* How many times that is doubled; the library itself is not so patient. */
#define MAX_GIVEN_UP				3

/* How many times patience with a server that is connected is. */
#define MAX_SILENCES				2

/*
 * Until when may the server that is being tried take to answer as one?  The
 * library would wait for two thirds of the timeout, which is as long as a lease
 * is: one server that accepts connections and does nothing else (it hangs, or
 * has just been started) would cost every lock.  Others get a chance first; and
 * more time, if none of them answers either.
 */
static ZkTime
handshake_due(const ZkClient *client, ZkTime begun)
{
	ZkTime		patience = zk_timeout(client) / 8;

	if (patience < MIN_HANDSHAKE)
		patience = MIN_HANDSHAKE;
	if (patience < client->round_trip * 5 / 4)
		patience = client->round_trip * 5 / 4;
	return begun + (patience << client->given_up) + client->timeout_jitter / 2;
}

/*
 * Until when may a server take to answer a request that was sent then?  A
 * renewal is sent little more than a quarter of the timeout after the one
 * before, when its lease has three eighths left.  Given up after a tenth more,
 * and up to an eighth at random, there is time to find a server that answers.
 *
 * A server that has taken long for what it has answered, or after others were
 * given up for being silent, has up to five eighths.  Thus whatever takes less
 * than half of the timeout is answered once.
 */
static ZkTime
silence_due(const ZkClient *client, ZkTime since)
{
	ZkTime		timeout = zk_timeout(client);
	ZkTime		patience = timeout / 10 > client->round_trip * 2 ?
	timeout / 10 : client->round_trip * 2;

	patience <<= client->silences;
	if (patience > timeout / 2)
		patience = timeout / 2;
	return since + patience + client->timeout_jitter;
}

/*
 * When is the connection to be given up over which requests are sent, which was
 * begun then?  Also if the leader has not heard of the session for so long that
 * a proof comes too late to be one, and takes so long that it never will:
 * making another one, it does.
 */
static ZkTime
connection_due(const ZkClient *client, ZkTime begun)
{
	ZkTime		since = zk_requests_unanswered_since(client);
	ZkTime		due = INT64_MAX;

	/* else it was sent over one that the library has lost and we have not */
	if (since != INT64_MAX && since >= begun)
		due = silence_due(client, since);
	if (client->stale && due > begun + zk_timeout(client) / 2)
		due = begun + zk_timeout(client) / 2;
	return due;
}

/*
 * When is the connection to be given up that is there, or is being made?
 * INT64_MAX if there is none, or none that we could break, or it was given up
 * already.  If this process was stopped, the answer may be there and just not
 * have been read.
 */
ZkTime
zk_server_timeout_due(const ZkClient *client)
{
	ZkTime		begun = zk_socket_connecting_since(client->gave_up);
	ZkTime		due;

	if (client->zh == NULL || begun <= client->gave_up || !zk_socket_is_open())
		return INT64_MAX;
	due = client->connected ? connection_due(client, begun) :
		handshake_due(client, begun);
	return due > client->no_timeout_until ? due : client->no_timeout_until;
}

/*
 * The leader has answered a request that was sent then.  What that has taken
 * counts less with each answer that took less.
 */
void
zk_leader_answered(ZkClient *client, ZkTime sent_at)
{
	ZkTime		took = zk_now() - sent_at;

	zk_leader_contact_answered(&client->leader_contact, sent_at, zk_now(), zk_timeout(client));
	client->round_trip = took > client->round_trip ? took :
		(client->round_trip + took) / 2;
	client->silences = 0;
}

/*
 * There is a connection, that was begun then.
 */
void
zk_server_timeout_connected(ZkClient *client, ZkTime begun)
{
	ZkTime		took = zk_now() - begun;

	if (took > client->round_trip)
		client->round_trip = took;
	client->given_up = 0;
	client->stale = false;
	client->timeout_jitter = zk_jitter(&client->random, zk_timeout(client) / 8);
}

/*
 * Do answers take so long that a proof tends to come when its lease is over?
 * It is dated by its sending, and the account of what the leader has heard is
 * behind by two round trips and a quarter of the timeout (leader_contact.c).
 */
bool
zk_server_timeout_slow(const ZkClient *client)
{
	return client->round_trip > zk_timeout(client) / 6;
}

/*
 * The lease of a contender that is to be granted is over, whose proof was sent
 * then.  Is that for want of the leader's hearing, and will it be so with the
 * next one?  Then a new connection is to be made, of which the leader does
 * hear: right after that a proof is good for long enough.
 */
void
zk_server_timeout_proof_late(ZkClient *client, ZkTime sent_at)
{
	if (zk_now() < sent_at + zk_timeout(client) * 2 / 3 && zk_server_timeout_slow(client))
		client->stale = true;
}

/*
 * Give up a connection that is not worth waiting for.  The helper looks every
 * eighth of the timeout at least, if it is not stopped with its process.
 * Helper thread.
 */
void
zk_server_timeout_check(ZkClient *client)
{
	ZkTime		now = zk_now();
	ZkTime		tick = zk_timeout(client) / 8;
	ZkTime		begun = zk_socket_connecting_since(client->gave_up);
	ZkTime		since = zk_requests_unanswered_since(client);

	if (now - client->looked_at > tick * 3 / 2)
		client->no_timeout_until = now + tick / 2;
	client->looked_at = now;
	if (now < zk_server_timeout_due(client))
		return;
	client->gave_up = begun;
	if (!zk_socket_break_connection(begun))
		return;
	if (!client->connected && client->given_up < MAX_GIVEN_UP)
		client->given_up++;
	if (!client->connected || since == INT64_MAX || now < silence_due(client, since))
		return;
	zk_log(true, "closing connection to %s: no response for %d ms",
		   client->status.server, (int) ((now - since) / 1000));
	if (client->silences < MAX_SILENCES)
		client->silences++;
}

/*
 * Somebody wants a session until then, though nothing is asked for; the same
 * time again is no news.  Helper thread.
 */
void
zk_connect_begin(ZkClient *client, ZkTime until)
{
	if (until == client->connect_by)
		return;
	client->connect_by = until;
	client->status.definite = false;
	client->next_open = 0;
}

/*
 * Is it to be tried to have a session, though nothing is asked for?  Not any
 * more when there is a reason why there cannot be one: the next who asks for
 * something is told.
 */
bool
zk_connect_wanted(const ZkClient *client)
{
	return !client->status.definite && zk_now() < client->connect_by;
}

/*
 * Is the first connection for a session being made?  Once the library has
 * complained, only while there is another attempt; it pauses between those.
 * There is a handle.
 *
 * Who ends waits for that: a server that was asked for a session makes one,
 * though nobody may be there any more to read the answer, and keeps it until it
 * expires, unless it is closed.
 */
bool
zk_session_beginning(ZkClient *client)
{
	char		complaint[ZK_DETAIL_SIZE];
	int			state = zoo_state(client->zh);

	if (client->connected || client->dead || client->client_id.client_id != 0)
		return false;
	if (state == ZOO_CONNECTING_STATE || state == ZOO_ASSOCIATING_STATE ||
		zk_transport_connecting(state))
		return true;
	zk_log_last_error(complaint);
	return state == ZOO_NOTCONNECTED_STATE && complaint[0] == '\0';
}

/*
 * There is no connection, and nothing is asked for any more, as after a cancel.
 * Is a session that is just beginning waited for even so, for the same reason?
 * For a moment; and as long as zk_flush_goes_on() says if the client is to end.
 */
bool
zk_session_awaited(ZkClient *client, ZkTime now)
{
	if (client->unneeded_since == 0)
		client->unneeded_since = now;
	return client->leaving ||
		(now < client->unneeded_since + UNNEEDED_TIME && zk_session_beginning(client));
}
