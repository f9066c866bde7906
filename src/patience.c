/*-------------------------------------------------------------------------
 *
 * patience.c
 *	  For how long a server is waited for, and a session that nobody needs yet.
 *
 * The library waits for two thirds of the session timeout, for the answer to a
 * new connection as for that to a request, and a lease lasts as long.  So a
 * server that hangs would cost every lock, although the others are fine.  We are
 * less patient: the connection is broken, and the library goes on to the next
 * server while the leases run.
 *
 * A session that was asked for ahead of its use is tried for as long as a call would
 * wait for it.  After that nobody knocks any more until something is asked for, or
 * backends that may never do so would, in an outage, knock all the time.
 *
 * All functions run on client threads under engine_lock.
 *
 * IDENTIFICATION
 *	  src/patience.c
 *
 *-------------------------------------------------------------------------
 */
#include "client.h"

/* What a server has at least to answer a new connection, in any case. */
#define MIN_HANDSHAKE				ZK_MS(1000)

/* How many times that is doubled; the library itself is not so patient. */
#define MAX_GIVEN_UP				3

/*
 * Until when may the server that is being tried take to answer as one?  The
 * library would wait for two thirds of the timeout, which is as long as a lease
 * is: one server that accepts connections and does nothing else (it hangs, or has
 * just been started) would cost every lock.  Others get a chance first; and more
 * time, if none of them answers either.
 */
ZkTime
zk_patience_due(const ZkClient *client)
{
	ZkTime		begun;
	ZkTime		patience = zk_timeout(client) / 8;

	if (client->zh == NULL || client->connected)
		return INT64_MAX;
	begun = zk_socket_connecting_since(client->gave_up);
	if (begun <= client->gave_up)
		return INT64_MAX;
	if (patience < MIN_HANDSHAKE)
		patience = MIN_HANDSHAKE;
	return begun + (patience << client->given_up);
}

/*
 * Give up a connection that comes to nothing.
 */
static void
check_handshake(ZkClient *client)
{
	if (zk_now() < zk_patience_due(client))
		return;
	client->gave_up = zk_socket_connecting_since(client->gave_up);
	if (zk_socket_break_connection() && client->given_up < MAX_GIVEN_UP)
		client->given_up++;
}

/*
 * Give up a connection over which a request is not answered.  Again the library
 * would wait for as long as a lease lasts.  A renewal is sent after a quarter of
 * the timeout; given up after another one, there is a sixth left for finding a
 * server that answers.  If this process has been stopped, the answer may be there
 * and just not have been read: then the next look counts.
 */
static void
check_silence(ZkClient *client)
{
	ZkTime		now = zk_now();
	ZkTime		patience = zk_timeout(client) / 4;
	bool		was_stopped = now - client->looked_at > patience;

	client->looked_at = now;
	if (!client->connected || was_stopped ||
		now - patience < zk_requests_unanswered_since(client))
		return;
	if (zk_socket_break_connection())
		zk_log(true, "giving up the connection to %s: no answer for %d ms",
			   client->status.server, (int) (patience / 1000));
}

/*
 * Give up a connection that is not worth waiting for.  Helper thread.
 */
void
zk_patience_check(ZkClient *client)
{
	check_handshake(client);
	check_silence(client);
}

/*
 * Somebody wants a session until then, though nothing is asked for; the same time
 * again is no news.  Helper thread.
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
 * Is it to be tried to have a session, though nothing is asked for?  Not any more
 * when there is a reason why there cannot be one: the next who asks for something
 * is told.
 */
bool
zk_connect_wanted(const ZkClient *client)
{
	return !client->status.definite && zk_now() < client->connect_by;
}

/*
 * Is the first connection for a session being made?  Once the library has complained,
 * only while there is another attempt; it pauses between those.  There is a handle.
 *
 * Who ends waits for that: a server that was asked for a session makes one, though
 * nobody may be there any more to read the answer, and keeps it until it expires,
 * unless it is closed.
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
