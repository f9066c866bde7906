/*-------------------------------------------------------------------------
 *
 * flush_at_exit.c
 *	  What is still to be done when the client is to end.
 *
 * Closing the ZooKeeper session deletes every contender, so most of what there
 * is to do is done by that.  But some things have to come before:
 *
 * - a session that is just beginning has to be there, to be closed;
 * - records are written, and marks deleted, by the contenders' own deletes;
 * - what was sent is answered, or heard out by the one who closes the socket
 *	 (socket.c).  If that is closed while something is there to be read, or
 *	 comes later, the kernel sends a reset, at which the server forgets what it
 *	 has not read yet: deletes, and the word that the session is closed.
 *	 Everything would stay until the session expires.  The library waits for the
 *	 answer to that word, but takes any other for it.  With the shared library,
 *	 whose calls we have no hand on, the answers are waited for first.
 *
 * Nothing else is begun any more.  Until that is over the helper goes on as
 * ever, so what is to be tried again is tried again.  The same goes for a
 * client that is replaced, or stopped by zk_session_close(): that is done in
 * the background, and an exit waits for it.  An exit that runs out of time says
 * so in the server log.
 *
 * All functions run on the helper thread, under engine_lock but for one.
 *
 * IDENTIFICATION
 *	  src/client/flush_at_exit.c
 *
 *-------------------------------------------------------------------------
 */
#include "client.h"
#include "contender.h"
#include "flush_at_exit.h"
#include "query.h"
#include "record_io.h"
#include "request.h"
#include "server_timeout.h"

/*
 * How often to look at what tells nobody that it is over.  And a timer for what
 * will not be done any more cannot have the helper spin.
 */
#define POLL			ZK_MS(1)

/* A question about a contender. */
typedef bool (*ContenderTest) (ZkClient *client, const Contender *c);

/*
 * The client is to end: nobody waits for what was asked for, and those
 * contenders go at once whose going is more than that of the session.
 */
static void
begin(ZkClient *client)
{
	Query		none = {.serial = client->query.serial};

	client->leaving = true;
	zk_query_begin(client, &none);
	for (int i = 0; i < client->used; i++)
	{
		const Contender *c = &client->contenders[i];

		if (c->in_use && !c->abandoned && c->successor == ZK_NO_SLOT &&
			zk_record_flush(client, c))
			zk_contender_end(client, i, true);
	}
}

/*
 * Is there a contender left that is on its way out and of which that is so?
 */
static bool
any_leaving(ZkClient *client, ContenderTest is_so)
{
	for (int i = 0; i < client->used; i++)
	{
		const Contender *c = &client->contenders[i];

		if (c->in_use && c->unwanted && c->name[0] != '\0' && is_so(client, c))
			return true;
	}
	return false;
}

/*
 * Is there something to wait for that does not take long?
 */
static bool
under_way(ZkClient *client)
{
	if (client->zh == NULL)
		return false;
	if (!client->connected)
		return zk_session_beginning(client);
	return any_leaving(client, zk_record_flush) ||
		(client->free_requests < ZK_MAX_IN_FLIGHT && !zk_socket_hears_out());
}

/*
 * The backend has said its last word.  Is there something to be done before the
 * ZooKeeper session is closed, and time for it?  Then the helper is to go on.
 *
 * The end of a run has more time than the rest, and may outlast a connection:
 * closing the session without it would give the lock to somebody who runs it
 * again.  Without engine_lock.
 */
bool
zk_flush_goes_on(ZkClient *client, const MailboxNews *news)
{
	ZkTime		now = zk_now();

	pthread_mutex_lock(&client->engine_lock);
	if (!client->leaving)
		begin(client);
	if (now < news->stop_by && under_way(client))
		client->leave_by = news->stop_by;
	else if (now < news->runs_by && any_leaving(client, zk_record_run_due))
		client->leave_by = news->runs_by;
	else
		client->leave_by = 0;
	zk_engine_leave(client);
	return client->leave_by != 0;
}

/*
 * When is the helper to look again that would do so then?
 */
ZkTime
zk_flush_timer(const ZkClient *client, ZkTime next)
{
	ZkTime		soon = zk_now() + POLL;

	if (!client->leaving)
		return next;
	if (next < soon || client->client_id.client_id == 0)
		return soon;
	return next < client->leave_by ? next : client->leave_by;
}
