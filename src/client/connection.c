/*-------------------------------------------------------------------------
 *
 * connection.c
 *	  The library's handle, and the events of its session.
 *
 * The helper is the only thread that opens and closes library handles, as both
 * wait: for the resolver, for threads, for the network.  So only it enters and
 * leaves NONE, of a handle's states (ConnectionState); session events, on the
 * completion thread, do most of the rest:
 *
 *               open_handle()            a server accepts us
 *       NONE -----------------> TRYING ----------------------> UP
 *         ^                      | ^                           | |
 *         |                      | +---------------------------+ |
 *         |                      |      connection lost          |
 *         |<---------------------+                               |
 *         |      must_close()    |  expired, refused, useless    |
 *         |                      v                               |
 *         +-------------------- DEAD <---------------------------+
 *
 * and from UP to NONE if nobody needs the session but to end it (close_wanted).
 *
 * A handle is opened when something is wanted of the ensemble, and kept.  When
 * the connection is lost the library looks for another server by itself.  What
 * it does not do:
 *
 * - resolve names in time, so we do, and after half a session timeout without
 *	 a connection again: by closing the handle, which sends nothing then, and
 *	 opening another one with the same ZooKeeper session;
 * - give up the watches of waits that are long over.  It sends all of them to a
 *	 server when it reconnects, in one packet, and the server hangs up on one
 *	 that is too long (ZOOKEEPER-706), for ever: so a handle with too many is
 *	 not used again;
 * - report that the session has expired before it has reached a server (it
 *	 never will where the servers were wiped): after one and a half session
 *	 timeouts the session is given up and a new one begun.  Locks were lost
 *	 long before, see lease.c.
 *
 * A session that was asked for ahead of its use is tried for as long as a call
 * would wait for it.  After that nothing is tried until something is asked for,
 * or idle backends would knock all through an outage.
 *
 * B5. A client that ends while its first connection is being made waits for the
 * answer (zk_session_beginning()), for half of what zk_client_stop() is given:
 * a server that has read the request makes a session, and keeps it until it
 * expires, though nobody may be left to read the answer.  Once the library has
 * complained, only an attempt that is under way is waited for, not the next
 * one.  And if nobody asks for anything any more while the connection is being
 * made, as after a cancel, the handle is closed a quarter of a second later.
 *
 * L4. Lost is final.  The contender is deleted as soon as can be, and never
 * taken up again.  No handle is closed while a lease runs: if its connection
 * came back at that very moment the ensemble would be told that the session
 * ends, and the next one would get the lock before we know.  So whether it is
 * to be closed is decided, and it is given up, without letting go of
 * engine_lock in between (give_up_handle()): from then on it grants nothing
 * (S4, S7, S234).  If another handle is to take over the session, the ensemble
 * is not told of an end, even if the connection comes back: such a word can be
 * held up on its way, and the leader takes it from a server that the session
 * has left, after a proof over the next connection (S361).
 *
 *-------------------------------------------------------------------------
 */
#include "client.h"
#include "auth.h"
#include "connection.h"
#include "contender.h"
#include "jitter.h"
#include "lease.h"
#include "handle_owner.h"
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

/* The wait after an attempt that failed for good, and its random addition. */
#define REOPEN_DELAY				ZK_MS(1000)
#define REOPEN_JITTER				ZK_MS(250)

/* How long to wait for an earlier client of this process to be closed. */
#define CLAIM_DELAY					ZK_MS(10)

/* Half of what a server takes in one packet, by default. */
#define MAX_WATCH_BYTES				(512 * 1024)

/* How long the library may look for a first server on resolved addresses. */
#define RESOLVE_AGAIN				ZK_MS(10000)

/* How long a session that nobody asks for any more may take to begin. */
#define UNNEEDED_TIME				ZK_MS(250)

/* Publish the state of the session.  engine_lock. */
static void
publish_session(ZkClient *client, ZkSessionState state)
{
	ZkSessionStatus *status = &client->connection.status;

	if (status->state != state)
	{
		status->state = state;
		status->state_since = zk_now();
	}
	status->session_id = zk_session_id(client);
	status->timeout_ms = status->session_id != 0 ? client->connection.timeout_ms : 0;
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
	if (zk_session_id(client) != 0)
		return ZK_SESSION_SUSPENDED;
	return client->connection.zh != NULL ? ZK_SESSION_CONNECTING : ZK_SESSION_CLOSED;
}

/* Publish that there is no connection, and wake the backend.  engine_lock. */
static void
publish_unconnected(ZkClient *client)
{
	publish_session(client, unconnected_state(client));
	zk_mailbox_wake_backend(&client->mailbox);
}

/* There is no connection, for a reason that lasts.  engine_lock. */
static void
connect_failed(ZkClient *client, ZkError error, const char *detail)
{
	ZkSessionStatus *status = &client->connection.status;

	status->error = error;
	status->definite = true;
	snprintf(status->detail, sizeof(status->detail), "%s", detail);
	client->connection.next_open = zk_now() + REOPEN_DELAY +
		zk_jitter(&client->random, REOPEN_JITTER);
	publish_unconnected(client);
}

/*
 * The handle is of no use, nor would another one be now: close it and try again
 * later.  engine_lock.
 */
static void
handle_useless(ZkClient *client, ZkError error, const char *detail)
{
	client->connection.state = CONNECTION_DEAD;
	connect_failed(client, error, detail);
	zk_mailbox_wake_helper(&client->mailbox);
}

/*
 * The session is over, and so the handle is not UP any more: forget all that
 * belongs to it.  engine_lock.
 */
static void
session_over(ZkClient *client, bool expired)
{
	client->connection.session.client_id = 0;
	client->connection.disconnected_at = 0;
	zk_leader_contact_forget(&client->leader_contact);
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

/* A server has accepted us; check that it is one.  engine_lock. */
static void
session_connected(ZkClient *client, zhandle_t *zh)
{
	Connection *connection = &client->connection;
	ZkSessionStatus *status = &connection->status;
	const clientid_t *id = zoo_client_id(zh);
	int			timeout_ms = zoo_recv_timeout(zh);
	bool		resumed = zk_session_id(client) != 0;
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
	connection->zh = zh;
	connection->state = CONNECTION_UP;
	zk_socket_belongs_to(zh);
	connection->session = *id;
	if (!resumed || timeout_ms < connection->timeout_ms)
		connection->timeout_ms = timeout_ms;	/* see L1 */
	begun = zk_socket_connecting_since(connection->disconnected_at);
	zk_server_timeout_connected(client, begun);
	zk_leases_connected(client, begun, timeout_before);
	connection->disconnected_at = 0;
	if (resumed)
		status->reconnects++;
	else
		status->sessions++;
	zk_log_clear_error();
	if (!zk_socket_peer(status->server, sizeof(status->server)))
		status->server[0] = '\0';
	publish_session(client, ZK_SESSION_CONNECTED);

	zk_contenders_connected(client);
	zk_publish_advance(client);
	zk_query_advance(client);
	zk_lease_renew(client);
	zk_mailbox_wake_helper(&client->mailbox);
	zk_mailbox_wake_backend(&client->mailbox);
}

/*
 * The connection was made some time ago; see whether the credential has been
 * answered now.  Helper; engine_lock.
 */
void
zk_connection_settle(ZkClient *client)
{
	zhandle_t  *zh = client->connection.zh;

	if (client->connection.state == CONNECTION_TRYING &&
		zk_identity_answered(&client->identity) && zoo_state(zh) == ZOO_CONNECTED_STATE)
		session_connected(client, zh);
}

/*
 * The ensemble refuses our credential, or wants one, and would do so again.  It
 * has done nothing for this session, so nothing has to be cleaned up.
 * engine_lock.
 */
static void
session_refused(ZkClient *client, ZkError error, const char *detail)
{
	client->connection.state = CONNECTION_DEAD;
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
	client->connection.state = CONNECTION_TRYING;
	if (client->connection.disconnected_at == 0)
		client->connection.disconnected_at = zk_now();
	zk_contenders_disconnected(client);
	zk_publish_interrupted(client);
	zk_query_restart(client);
	publish_unconnected(client);
	zk_mailbox_wake_helper(&client->mailbox);
}

static void
session_expired(ZkClient *client)
{
	zk_log(true, "ZooKeeper session 0x%llx has expired",
		   (unsigned long long) zk_session_id(client));
	client->connection.state = CONNECTION_DEAD;
	client->connection.status.expiries++;
	session_over(client, true);
	publish_unconnected(client);
	zk_mailbox_wake_helper(&client->mailbox);
}

/* The library's default watcher. */
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
	if (!zk_is_current(client, zh) || client->connection.state == CONNECTION_DEAD)
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
 * See whether the handle has come to an end of which the library gives no
 * event.  Helper; engine_lock.
 */
void
zk_connection_look(ZkClient *client)
{
	char		detail[ZK_DETAIL_SIZE];
	ZkError		error;

	if (client->connection.state != CONNECTION_TRYING &&
		client->connection.state != CONNECTION_UP)
		return;
	switch (zk_transport_look(&client->transport, client->connection.zh,
							  zk_session_id(client) != 0, &error, detail))
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

/* It may have: let the helper look.  I/O thread, without any lock. */
static void
handle_ended(void)
{
	ZkClient   *client = zk_client_owner();

	if (client != NULL)
		zk_mailbox_wake_helper(&client->mailbox);
}

/*-------------------------------------------------------------------------
 * What a connection is needed for
 *-------------------------------------------------------------------------
 */

/* Something new is asked for: do not wait with the next handle.  Helper. */
void
zk_connection_hurry(ZkClient *client)
{
	client->connection.next_open = 0;
}

/*
 * A session is wanted until then, though nothing is asked for; the same time
 * again is no news.  Helper; engine_lock.
 */
void
zk_connection_want(ZkClient *client, ZkTime until)
{
	if (until == client->connection.connect_by)
		return;
	client->connection.connect_by = until;
	client->connection.status.definite = false;
	zk_connection_hurry(client);
}

/*
 * Returns true if the contender needs a connection.  A create that is only
 * doubted does not: without a connection the ZooKeeper session ends, and the
 * create fails.
 */
static bool
contender_needs_ensemble(const Contender *c)
{
	return c->claim == CLAIM_WANTED ||
		(c->claim != CLAIM_NONE && c->znode.existence != ZNODE_ABSENT &&
		 !zk_znode_is_doubted(c));
}

/*
 * Returns true if there is anything that a connection is needed for; *wanted
 * says whether a call waits for it, or a lock is held.  A session that was
 * requested ahead of its use is not tried for any more when there is a definite
 * reason against it.  engine_lock.
 */
static bool
ensemble_needed(const ZkClient *client, bool *wanted)
{
	bool		needed = client->query.node != NULL;

	*wanted = needed;
	needed |= zk_publish_needs_ensemble(client) ||
		(!client->connection.status.definite && zk_now() < client->connection.connect_by);
	for (int i = 0; i < client->used; i++)
	{
		if (!contender_needs_ensemble(&client->contenders[i]))
			continue;
		needed = true;
		if (client->contenders[i].claim == CLAIM_WANTED)
			*wanted = true;
	}
	return needed;
}

/*
 * When the helper has to open a handle; INT64_MAX if there is one, or none is
 * needed.  engine_lock.
 */
ZkTime
zk_connection_due(const ZkClient *client)
{
	bool		wanted;

	return client->connection.state == CONNECTION_NONE && ensemble_needed(client, &wanted) ?
		client->connection.next_open : INT64_MAX;
}

/*
 * Returns true if the first connection for a session is being made (B5); the
 * library pauses between attempts once it has complained.  Helper; engine_lock.
 */
bool
zk_session_beginning(ZkClient *client)
{
	char		complaint[ZK_DETAIL_SIZE];
	int			state;

	if (client->connection.state != CONNECTION_TRYING || zk_session_id(client) != 0)
		return false;
	state = zoo_state(client->connection.zh);
	if (state == ZOO_CONNECTING_STATE || state == ZOO_ASSOCIATING_STATE ||
		zk_transport_connecting(state))
		return true;
	zk_log_last_error(complaint);
	return state == ZOO_NOTCONNECTED_STATE && complaint[0] == '\0';
}

/*
 * Returns true if a handle that nothing is asked of any more, and that has no
 * connection, is kept for a moment all the same (B5).  Helper; engine_lock.
 */
static bool
session_awaited(ZkClient *client, ZkTime now)
{
	Connection *connection = &client->connection;

	if (connection->unneeded_since == 0)
		connection->unneeded_since = now;
	return client->stage != CLIENT_RUNNING ||
		(now < connection->unneeded_since + UNNEEDED_TIME && zk_session_beginning(client));
}

/*-------------------------------------------------------------------------
 * The handle: helper thread
 *-------------------------------------------------------------------------
 */

/*
 * Give the handle up: from here on nothing that comes through it counts, and no
 * contender is granted.  Returns the handle, to be closed without engine_lock.
 * A caller that decides this keeps engine_lock in between, or the I/O thread
 * might grant a lock whose ZooKeeper session is about to be closed.
 * engine_lock.
 */
static zhandle_t *
give_up_handle(ZkClient *client)
{
	zhandle_t  *zh = client->connection.zh;

	client->connection.epoch++;
	client->connection.state = CONNECTION_NONE;
	client->connection.zh = NULL;
	zk_requests_forget(client);
	zk_leases_handle_closed(client);
	zk_contenders_handle_closed(client);
	zk_publish_interrupted(client);
	zk_query_restart(client);
	return zh;
}

/*
 * Close a handle that was given up.  If it is connected the ensemble is told,
 * and deletes all contenders of the session; unless keep_session, for another
 * handle.  Without engine_lock.
 */
static void
close_handle(ZkClient *client, zhandle_t *zh, bool keep_session)
{
	zk_transport_close(&client->transport, zh, keep_session);
	zk_client_disclaim();
}

/*
 * A new attempt to connect begins: forget why the last one failed, and publish
 * that names are being resolved.  That ends no wait, so the backend sleeps on.
 */
static void
publish_resolving(ZkClient *client)
{
	ZkSessionStatus *status = &client->connection.status;

	pthread_mutex_lock(&client->engine_lock);
	status->resolving = true;
	status->error = ZK_OK;
	status->definite = false;
	status->detail[0] = '\0';
	publish_session(client, unconnected_state(client));
	pthread_mutex_unlock(&client->engine_lock);
}

/*
 * Open a handle, for the present ZooKeeper session or a new one.  Resolves
 * names and creates threads, without engine_lock.  Does nothing while another
 * client of this process has a handle, which is then being closed.
 */
static void
open_handle(ZkClient *client)
{
	Connection *connection = &client->connection;
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

	connection->next_open = zk_now() + REOPEN_DELAY;
	if (!zk_client_may_claim())
	{
		connection->next_open = zk_now() + CLAIM_DELAY;
		return;
	}
	publish_resolving(client);
	resolved = zk_transport_check(&client->transport, &error, detail) &&
		zk_servers_resolve(client->servers, &servers, &error, detail);
	if (!zk_client_claim(client))
	{
		/* that one has come back from the resolver, too, and was faster */
		zk_servers_free(&servers);
		connection->next_open = zk_now() + CLAIM_DELAY;
		return;
	}
	if (resolved && detail[0] != '\0')
		zk_log(true, "%.150s", detail);

	pthread_mutex_lock(&client->engine_lock);
	connection->epoch++;
	connection->state = CONNECTION_TRYING;
	client->identity.wanted = false;
	atomic_store(&client->identity.credential_state, CREDENTIAL_UNKNOWN);
	connection->opened_at = zk_now();
	if (connection->disconnected_at == 0)
		connection->disconnected_at = connection->opened_at;
	id = connection->session;
	wish.session = id.client_id != 0 ? &id : NULL;
	wish.context = (void *) connection->epoch;
	connection->status.resolving = false;
	pthread_mutex_unlock(&client->engine_lock);

	if (resolved)
	{
		zk_log_clear_error();
		zh = zk_transport_open(&client->transport, &servers, &wish, &error, detail);
	}
	zk_servers_free(&servers);

	pthread_mutex_lock(&client->engine_lock);
	connection->zh = zh;
	if (zh == NULL)
	{
		connection->state = CONNECTION_NONE;
		zk_client_disclaim();
		connect_failed(client, error, detail);
	}
	else
	{
		(void) zk_identity_present(client, zh);
		if (!zk_is_connected(client))
			publish_session(client, unconnected_state(client));
	}
	zk_engine_leave(client);
}

/*
 * Returns true if the open handle must be closed.  May end the session.
 * engine_lock.
 */
static bool
must_close(ZkClient *client)
{
	Connection *connection = &client->connection;
	ZkTime		now = zk_now();
	ZkTime		gone_for = now - connection->disconnected_at;
	ZkTime		resolve_after = zk_server_timeout_resolve_after(client);
	bool		wanted;
	bool		needed = ensemble_needed(client, &wanted);

	if (connection->state == CONNECTION_DEAD)
	{
		/* closing it may end the session: let nobody rely on that one */
		if (zk_leases_run(client))
			session_over(client, false);
		return true;
	}
	if (needed || zk_is_connected(client))
		connection->unneeded_since = 0;
	if (zk_is_connected(client))
		return connection->close_wanted && !wanted;
	if (!needed && !session_awaited(client, now))
	{
		/* nothing to come back for: do not go on knocking */
		session_over(client, false);
		return true;
	}
	if (zk_session_id(client) == 0)
		return now - connection->opened_at >= RESOLVE_AGAIN;
	if (gone_for >= zk_timeout(client) * 3 / 2)
	{
		zk_log(true, "abandoning ZooKeeper session 0x%llx: disconnected for %d ms",
			   (unsigned long long) zk_session_id(client), (int) (gone_for / 1000));
		connection->status.expiries++;
		session_over(client, false);
		return true;
	}

	/*
	 * Take another handle for the session.  Not while a lease is relied on
	 * (L4).  The resolver may also take long, and a session that loses a lock
	 * has to know in time.
	 */
	if (zk_leases_run(client))
		return false;
	return zk_watch_bytes(client) > MAX_WATCH_BYTES ||
		(gone_for >= resolve_after &&
		 connection->opened_at < connection->disconnected_at + resolve_after);
}

/* See that there is a handle if there must be one, and the right one. */
void
zk_connection_manage(ZkClient *client)
{
	zhandle_t  *closing = NULL;
	bool		graceful = false;
	bool		keep_session = false;
	bool		open_it;

	pthread_mutex_lock(&client->engine_lock);
	if (client->connection.state != CONNECTION_NONE && must_close(client))
	{
		graceful = zk_is_connected(client);
		keep_session = !graceful && zk_session_id(client) != 0;
		closing = give_up_handle(client);
	}
	pthread_mutex_unlock(&client->engine_lock);

	if (closing != NULL)
		close_handle(client, closing, keep_session);

	pthread_mutex_lock(&client->engine_lock);
	if (graceful)
	{
		client->connection.close_wanted = false;
		session_over(client, true);
	}
	open_it = zk_now() >= zk_connection_due(client);
	if (closing != NULL && !open_it)
		publish_unconnected(client);
	zk_engine_leave(client);	/* there may be contenders that are gone now */

	if (open_it)
		open_handle(client);
}

/* The helper ends: close the handle, if there is one. */
void
zk_connection_end(ZkClient *client)
{
	zhandle_t  *zh = NULL;

	pthread_mutex_lock(&client->engine_lock);
	if (client->connection.state != CONNECTION_NONE)
		zh = give_up_handle(client);
	pthread_mutex_unlock(&client->engine_lock);
	if (zh != NULL)
		close_handle(client, zh, false);
}
