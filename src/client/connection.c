/*-------------------------------------------------------------------------
 *
 * connection.c
 *	  The library's handle, and what its session tells.
 *
 * The helper is the only thread that opens and closes library handles, as both
 * wait: for the resolver, for threads, for the network.
 *
 * A handle is opened when something is wanted of the ensemble, and kept.  When
 * the connection is lost the library looks for another server by itself.  What
 * it does not do:
 *
 * - resolve names in time, so we do, and after half a session timeout without
 *	 a connection again: by closing the handle, which sends nothing then, and
 *	 opening another one with the same ZooKeeper session;
 * - give up the watches of waits that are long over.  It tells a server of all
 *	 of them when it reconnects, in one packet, and the server hangs up on one
 *	 that is too long (ZOOKEEPER-706), for ever: so there is a limit for what a
 *	 handle is used for again;
 * - tell that the session has expired before it has reached a server (it
 *	 never will where the servers were wiped): after one and a half session
 *	 timeouts the session is given up and a new one begun.  Locks were lost
 *	 long before, see lease.c.
 *
 * L4. Lost is final.  The contender is deleted as soon as can be, and never
 * taken up again.  No handle is closed while a lease runs: if its connection
 * came back at that very moment the ensemble would be told that the session
 * ends, and the next one would get the lock before we know.  So whether it is
 * to be closed is decided, and it is given up, without letting go of
 * engine_lock in between (give_up_handle()): from then on it grants nothing
 * (S4, S7, S234).
 *
 * IDENTIFICATION
 *	  src/client/connection.c
 *
 *-------------------------------------------------------------------------
 */
#include "client.h"
#include "auth.h"
#include "connection.h"
#include "jitter.h"
#include "lease.h"
#include "protocol.h"
#include "publish_wait.h"
#include "query.h"
#include "request.h"
#include "server_timeout.h"

/*
 * A peer is believed to be ZooKeeper only if it negotiates a timeout within
 * reason: the library takes whatever the first 41 bytes happen to say.
 */
#define MIN_TIMEOUT_MS				1000
#define MAX_TIMEOUT_MS(asked)		(10 * (asked) + 40000)

/* How long to wait after an attempt that failed for good, and up to how much longer. */
#define REOPEN_DELAY				ZK_MS(1000)
#define REOPEN_JITTER				ZK_MS(250)

/* How long to wait for an earlier client of this process to be closed. */
#define CLAIM_DELAY					ZK_MS(10)

/* Half of what a server takes in one packet, by default. */
#define MAX_WATCH_BYTES				(512 * 1024)

/* How long the library may look for a first server on resolved addresses. */
#define RESOLVE_AGAIN				ZK_MS(10000)

/*
 * Publish the state of the session.  engine_lock.
 */
static void
publish_session(ZkClient *client, ZkSessionState state)
{
	ZkSessionStatus *status = &client->status;

	if (status->state != state)
	{
		status->state = state;
		status->state_since = zk_now();
	}
	status->session_id = client->client_id.client_id;
	status->timeout_ms = status->session_id != 0 ? client->timeout_ms : 0;
	if (state == ZK_SESSION_CONNECTED)
	{
		status->error = ZK_OK;
		status->definite = false;
		status->detail[0] = '\0';
	}
	else
		status->server[0] = '\0';
	zk_mailbox_publish_session(&client->mailbox, status);
}

/* The state that a client without a connection is in. */
static ZkSessionState
unconnected_state(const ZkClient *client)
{
	if (client->client_id.client_id != 0)
		return ZK_SESSION_SUSPENDED;
	return client->zh != NULL ? ZK_SESSION_CONNECTING : ZK_SESSION_CLOSED;
}

/*
 * There is no connection, for a reason that waiting will not cure.
 * engine_lock.
 */
static void
connect_failed(ZkClient *client, ZkError error, const char *detail)
{
	client->status.error = error;
	client->status.definite = true;
	snprintf(client->status.detail, sizeof(client->status.detail), "%s",
			 detail);
	client->next_open = zk_now() + REOPEN_DELAY +
		zk_jitter(&client->random, REOPEN_JITTER);
	publish_session(client, unconnected_state(client));
}

/*
 * The handle is of no use, for a reason that another one would meet as well:
 * close it and try again later.  engine_lock.
 */
static void
handle_useless(ZkClient *client, ZkError error, const char *detail)
{
	client->dead = true;
	connect_failed(client, error, detail);
	zk_mailbox_wake_helper(&client->mailbox);
}

/*
 * The session is over: forget all that belongs to it.  engine_lock.
 */
static void
session_over(ZkClient *client, bool expired)
{
	client->connected = false;
	client->client_id.client_id = 0;
	client->disconnected_at = 0;
	client->leader_contact.leader_heard_at = 0;
	zk_requests_forget(client);
	zk_leases_handle_closed(client);
	zk_query_restart(client);
	zk_publish_session_over(client);
	zk_contenders_session_over(client, expired);
}

/*-------------------------------------------------------------------------
 * Session events: completion thread
 *-------------------------------------------------------------------------
 */

/*
 * A server has accepted us; is it one?
 */
static void
session_connected(ZkClient *client, zhandle_t *zh)
{
	const clientid_t *id = zoo_client_id(zh);
	int			timeout_ms = zoo_recv_timeout(zh);
	bool		resumed = client->client_id.client_id != 0;
	ZkTime		timeout_before = resumed ? zk_timeout(client) : 0;
	ZkTime		begun;

	if (id->client_id == 0 || timeout_ms < MIN_TIMEOUT_MS ||
		timeout_ms > MAX_TIMEOUT_MS(client->session_timeout_ms))
	{
		handle_useless(client, ZK_ERR_NOT_ZOOKEEPER, ZK_NOT_ZOOKEEPER);
		return;
	}
	if (!zk_identity_present(client, zh))
	{
		handle_useless(client, ZK_ERR_NO_MEMORY, "");
		return;
	}
	if (!zk_identity_settled(&client->identity))
		return;					/* zk_connection_settle() goes on */
	zk_lease_check(client);		/* the helper may be behind with that */
	client->handle = zh;
	client->connected = true;
	zk_socket_belongs_to(zh);
	client->client_id = *id;
	client->timeout_ms = timeout_ms;
	begun = zk_socket_connecting_since(client->disconnected_at);
	zk_server_timeout_connected(client, begun);
	zk_leases_connected(client, begun, timeout_before);
	client->disconnected_at = 0;
	if (resumed)
		client->status.reconnects++;
	else
		client->status.sessions++;
	zk_log_clear_error();
	if (!zk_socket_peer(client->status.server, sizeof(client->status.server)))
		client->status.server[0] = '\0';
	publish_session(client, ZK_SESSION_CONNECTED);

	zk_contenders_connected(client);
	zk_publish_advance(client);
	zk_query_advance(client);
	zk_lease_renew(client);
	zk_mailbox_wake_helper(&client->mailbox);
}

/*
 * The connection was made some time ago, and the credential has been answered
 * now.  Helper thread; engine_lock.
 */
void
zk_connection_settle(ZkClient *client)
{
	if (client->zh != NULL && !client->dead && !client->connected &&
		client->identity.presented &&
		zk_identity_settled(&client->identity) &&
		zoo_state(client->zh) == ZOO_CONNECTED_STATE)
		session_connected(client, client->zh);
}

/*
 * The ensemble does not take us for who we are, nor as nobody.  That is how it
 * will be the next time; and as it has done nothing for this session, nothing
 * is to be looked for.  engine_lock.
 */
static void
session_refused(ZkClient *client, ZkError error, const char *detail)
{
	session_over(client, true);
	handle_useless(client, error, detail);
}

static void
session_suspended(ZkClient *client)
{
	if (client->identity.wanted)
	{
		session_refused(client, ZK_ERR_AUTH, ZK_IDENTITY_WANTED);
		return;
	}
	client->connected = false;
	if (client->disconnected_at == 0)
		client->disconnected_at = zk_now();
	zk_contenders_disconnected(client);
	zk_publish_interrupted(client);
	zk_query_restart(client);
	publish_session(client, unconnected_state(client));
	zk_mailbox_wake_helper(&client->mailbox);
}

static void
session_expired(ZkClient *client)
{
	zk_log(true, "ZooKeeper session 0x%llx has expired",
		   (unsigned long long) client->client_id.client_id);
	client->dead = true;
	client->status.expiries++;
	session_over(client, true);
	publish_session(client, unconnected_state(client));
	zk_mailbox_wake_helper(&client->mailbox);
}

/*
 * The library's default watcher.
 */
static void
session_watcher(zhandle_t *zh, int type, int state, const char *path,
				void *context)
{
	ZkClient   *client;

	(void) path;
	(void) context;
	if (type != ZOO_SESSION_EVENT)
		return;
	client = zk_client_enter();
	if ((uintptr_t) zoo_get_context(zh) != client->epoch || client->dead)
		;						/* of a handle that was given up */
	else if (state == ZOO_CONNECTED_STATE)
		session_connected(client, zh);
	else if (state == ZOO_EXPIRED_SESSION_STATE)
		session_expired(client);
	else if (state == ZOO_AUTH_FAILED_STATE)
		session_refused(client, ZK_ERR_AUTH,
						"The ZooKeeper ensemble refused the authentication.");
	else if (state == ZOO_READONLY_STATE)
	{
		/* never asked for: no proof of anything comes from such a server */
		handle_useless(client, ZK_ERR_NOT_ZOOKEEPER, ZK_NOT_ZOOKEEPER);
	}
	else
		session_suspended(client);
	zk_engine_leave(client);
}

/*
 * See whether the handle has come to an end that the library does not tell.
 * Helper; engine_lock.
 */
void
zk_connection_look(ZkClient *client)
{
	char		detail[ZK_DETAIL_SIZE];
	ZkError		error;

	if (client->zh == NULL || client->dead)
		return;
	switch (zk_transport_look(&client->transport, client->zh,
							  client->client_id.client_id != 0, &error, detail))
	{
		case ZK_HANDLE_WORKS:
			break;
		case ZK_HANDLE_USELESS:
			handle_useless(client, error, detail);
			break;
		case ZK_HANDLE_REFUSED:
			session_refused(client, error, detail);
			break;
	}
}

/* It may have: have the helper look.  I/O thread, without any lock. */
static void
handle_ended(void)
{
	ZkClient   *client = zk_client_owner();

	if (client != NULL)
		zk_mailbox_wake_helper(&client->mailbox);
}

/*-------------------------------------------------------------------------
 * The handle: helper thread
 *-------------------------------------------------------------------------
 */

/*
 * Give the handle up: from here on nothing that comes through it counts, and no
 * contender is granted.  Returns it; it is still to be closed, without
 * engine_lock.  Whoever decides that must not let go of engine_lock in between,
 * or the I/O thread might grant a lock whose ZooKeeper session is about to be
 * closed.  engine_lock.
 */
static zhandle_t *
give_up_handle(ZkClient *client)
{
	zhandle_t  *zh = client->zh;

	client->epoch++;
	client->handle = NULL;
	client->connected = false;
	client->dead = false;
	client->zh = NULL;
	zk_requests_forget(client);
	zk_leases_handle_closed(client);
	zk_contenders_handle_closed(client);
	zk_publish_interrupted(client);
	zk_query_restart(client);
	return zh;
}

/*
 * Close a handle that was given up.  If it is connected the ensemble is told,
 * and deletes all contenders of the session.  Without engine_lock.
 */
static void
close_handle(ZkClient *client, zhandle_t *zh)
{
	zk_transport_close(&client->transport, zh);
	zk_client_disclaim();
}

/*
 * A new attempt to connect begins: forget why the last one failed, and let the
 * backend know that it is the resolver that is waited for now.
 */
static void
publish_resolving(ZkClient *client)
{
	pthread_mutex_lock(&client->engine_lock);
	client->status.resolving = true;
	client->status.error = ZK_OK;
	client->status.definite = false;
	client->status.detail[0] = '\0';
	publish_session(client, unconnected_state(client));
	pthread_mutex_unlock(&client->engine_lock);
}

/*
 * Open a handle, for the ZooKeeper session there is or a new one.  Resolves
 * names and creates threads, without engine_lock.
 *
 * While another client of this process has a handle, which is then being
 * closed, nothing is done.  One that was stopped while it waited for the
 * resolver has none and is not waited for: other servers may be the way out.
 */
static void
open_handle(ZkClient *client)
{
	char		detail[ZK_DETAIL_SIZE];
	ZkError		error;
	ZkServers	servers = {0};
	bool		resolved;
	clientid_t	id;

	ZkHandleWish wish = {
		.watcher = session_watcher,
		.session_timeout_ms = client->session_timeout_ms,
		.on_end = handle_ended
	};
	zhandle_t  *zh = NULL;

	client->next_open = zk_now() + REOPEN_DELAY;
	if (!zk_client_may_claim())
	{
		client->next_open = zk_now() + CLAIM_DELAY;
		return;
	}
	publish_resolving(client);
	resolved = zk_transport_check(&client->transport, &error, detail) &&
		zk_servers_resolve(client->servers, &servers, &error, detail);
	if (!zk_client_claim(client))
	{
		/* that one has come back from the resolver, too, and was faster */
		zk_servers_free(&servers);
		client->next_open = zk_now() + CLAIM_DELAY;
		return;
	}
	if (resolved && !zk_threads_probe())
	{
		resolved = false;
		error = ZK_ERR_NO_THREAD;
		snprintf(detail, sizeof(detail), "Could not create a thread.");
	}
	if (resolved && detail[0] != '\0')
		zk_log(true, "%.150s", detail);

	pthread_mutex_lock(&client->engine_lock);
	client->epoch++;
	client->watch_bytes = 0;
	client->identity.presented = client->identity.wanted = false;
	atomic_store(&client->identity.answered, false);
	client->opened_at = zk_now();
	if (client->disconnected_at == 0)
		client->disconnected_at = client->opened_at;
	id = client->client_id;
	wish.session = id.client_id != 0 ? &id : NULL;
	wish.context = (void *) client->epoch;
	client->status.resolving = false;
	pthread_mutex_unlock(&client->engine_lock);

	if (resolved)
	{
		zk_log_clear_error();
		zh = zk_transport_open(&client->transport, &servers, &wish, &error, detail);
	}
	zk_servers_free(&servers);

	pthread_mutex_lock(&client->engine_lock);
	client->zh = zh;
	if (zh == NULL)
	{
		zk_client_disclaim();
		connect_failed(client, error, detail);
	}
	else
		(void) zk_identity_present(client, zh);
	if (zh != NULL && !client->connected)
		publish_session(client, unconnected_state(client));
	zk_engine_leave(client);
}

/*
 * Must the open handle be closed?  May end the session.  engine_lock.
 */
static bool
must_close(ZkClient *client)
{
	ZkTime		now = zk_now();
	ZkTime		timeout = zk_timeout(client);
	ZkTime		gone_for;
	ZkTime		resolve_after;
	bool		wanted;
	bool		needed = zk_ensemble_needed(client, &wanted);

	if (client->dead)
	{
		/* closing it may end the session: let nobody rely on that one */
		if (zk_leases_run(client))
			session_over(client, false);
		return true;
	}
	if (needed || client->connected)
		client->unneeded_since = 0;
	if (client->connected)
		return client->close_wanted && !wanted;
	if (!needed && !zk_session_awaited(client, now))
	{
		/* nothing to come back for: do not go on knocking */
		session_over(client, false);
		return true;
	}
	gone_for = now - client->disconnected_at;
	if (client->client_id.client_id == 0)
		return now - client->opened_at >= RESOLVE_AGAIN;
	if (gone_for >= timeout * 3 / 2)
	{
		zk_log(true, "abandoning ZooKeeper session 0x%llx: disconnected for %d ms",
			   (unsigned long long) client->client_id.client_id,
			   (int) (gone_for / 1000));
		client->status.expiries++;
		session_over(client, false);
		return true;
	}

	/*
	 * Take another handle for the session.  Not while somebody relies on a
	 * lease: if the connection comes back at this very moment, closing the
	 * handle ends the session, and the lock is another's although its lease
	 * runs.  It also takes as long as the resolver likes, and who loses a
	 * lock is to be told in time.
	 */
	if (zk_leases_run(client))
		return false;
	resolve_after = timeout / 2 + client->timeout_jitter / 2;
	return client->watch_bytes > MAX_WATCH_BYTES ||
		(gone_for >= resolve_after &&
		 client->opened_at < client->disconnected_at + resolve_after);
}

/*
 * See that there is a handle if there must be one, and the right one.
 */
void
zk_connection_manage(ZkClient *client)
{
	zhandle_t  *closing = NULL;
	bool		graceful = false;
	bool		open_it;
	bool		wanted;

	pthread_mutex_lock(&client->engine_lock);
	if (client->zh != NULL && must_close(client))
	{
		graceful = client->connected;
		closing = give_up_handle(client);
	}
	pthread_mutex_unlock(&client->engine_lock);

	if (closing != NULL)
		close_handle(client, closing);

	pthread_mutex_lock(&client->engine_lock);
	if (graceful)
	{
		client->close_wanted = false;
		session_over(client, true);
	}
	open_it = client->zh == NULL && zk_ensemble_needed(client, &wanted) &&
		zk_now() >= client->next_open;
	if (closing != NULL && !open_it)
		publish_session(client, unconnected_state(client));
	zk_engine_leave(client);	/* there may be contenders that are gone now */

	if (open_it)
		open_handle(client);
}

/*
 * The helper ends: give up the handle, and close it.
 */
void
zk_connection_end(ZkClient *client)
{
	zhandle_t  *zh;

	pthread_mutex_lock(&client->engine_lock);
	zh = give_up_handle(client);
	pthread_mutex_unlock(&client->engine_lock);
	close_handle(client, zh);
}
