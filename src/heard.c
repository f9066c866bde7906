/*-------------------------------------------------------------------------
 *
 * heard.c
 *	  Since when the leader has certainly heard of the ZooKeeper session.
 *
 * The leader expires a session that it has not heard of for the session's
 * timeout.  Of a session whose client is connected to a follower it hears when
 * the follower answers its pings, every half tick, and when a connection is
 * made.  What the follower forwards to be committed does not count
 * (LeaderZooKeeperServer.submitLearnerRequest goes round that).  So an operation
 * that was committed proves that the session was alive, and not for how much
 * longer it will be: should the follower hang right after it, the leader counts
 * from what it was told before.  test/t/037_follower.pl shows it happen.
 *
 * So we keep account.  A request that was answered was heard by the server,
 * between its sending and its answer.  Half a tick after the answer the leader
 * has been told, that it was heard after its sending: at the latest before an
 * operation that is sent so much later is committed.  Half a tick is taken for a
 * quarter of the timeout, which it is at most, unless somebody has set
 * minSessionTimeout below its default of two ticks.  What remains is a
 * connection between leader and follower that stalls and flows again just then.
 *
 * Lest a session with nothing to do gives no account, it sends a small read from
 * time to time, in place of the library's pings, of which we learn nothing.
 *
 * All functions run on client threads under engine_lock.
 *
 * IDENTIFICATION
 *	  src/heard.c
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "client.h"

/*
 * A connection was made: the leader was asked about the session, or made it,
 * after that time.
 */
void
zk_heard_connected(ZkClient *client, ZkTime since)
{
	if (since > client->told)
		client->told = since;
	client->heard_count = 0;
	client->spoke_at = zk_now();
}

/*
 * A request that was sent then has been answered.
 */
void
zk_heard(ZkClient *client, ZkTime sent_at)
{
	int			count = client->heard_count;
	ZkTime		now = zk_now();

	if (sent_at > client->spoke_at)
		client->spoke_at = sent_at;
	if (count > 0 && (sent_at < client->heard[count - 1].sent_at ||
					  now < client->heard[count - 1].answered_at +
					  zk_timeout(client) / ZK_HEARD_MAX / 2))
		return;
	if (count == ZK_HEARD_MAX)
	{
		count--;
		memmove(client->heard, client->heard + 1, sizeof(ZkHeard) * count);
	}
	client->heard[count].sent_at = sent_at;
	client->heard[count].answered_at = now;
	client->heard_count = count + 1;
}

/*
 * Until when may an operation that was committed, and sent then, be taken as a
 * proof?  Two thirds of the timeout, as far as the leader cannot expire the
 * session before; a twelfth is left for clocks that differ.
 */
ZkTime
zk_heard_lease_end(ZkClient *client, ZkTime sent_at)
{
	ZkTime		timeout = zk_timeout(client);
	ZkTime		end = sent_at + timeout * 2 / 3;

	for (int i = 0; i < client->heard_count; i++)
		if (client->heard[i].answered_at <= sent_at - timeout / 4 &&
			client->heard[i].sent_at > client->told)
			client->told = client->heard[i].sent_at;
	if (end > client->told + timeout * 11 / 12)
		end = client->told + timeout * 11 / 12;
	return end;
}

/* When is something to be sent, for want of anything else? */
ZkTime
zk_heard_due(const ZkClient *client)
{
	return client->connected ? client->spoke_at + zk_timeout(client) / 4 :
		INT64_MAX;
}

static void
on_heartbeat(int rc, const struct Stat *stat, const void *context)
{
	Request		request;
	ZkClient   *client = zk_request_end(context, &request);

	(void) stat;
	if (client == NULL)
		return;
	if (!zk_is_connection_error(rc))
		zk_heard(client, request.sent_at);
	zk_engine_leave(client);
}

/*
 * Send a read if nothing was sent for long, and it can be done now.
 */
void
zk_heard_speak(ZkClient *client)
{
	ZkTime		now = zk_now();
	void	   *context;

	if (!client->connected || atomic_load(&zk_poisoned) ||
		now < zk_heard_due(client) || !zk_requests_available(client, 1))
		return;
	client->spoke_at = now;
	context = zk_request_begin(client, REQ_HEARTBEAT, 0);
	if (zoo_aexists(client->handle, "/", 0, on_heartbeat, context) != ZOK)
		zk_request_undo(client, context);
}
