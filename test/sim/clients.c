/*-------------------------------------------------------------------------
 *
 * clients.c
 *	  The connections of a server: how sessions begin and move, authentication,
 *	  events.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "server.h"

#define PERM_READ		1

/* NIOServerCnxnFactory rounds to this when it closes silent connections. */
#define IDLE_MS			10000

static void endpoint_received(Link *link, void *owner, void *body);
static void endpoint_broken(Link *link, void *owner);

const LinkCalls endpoint_calls = {NULL, endpoint_received, endpoint_broken};

/* ------ connections ------ */

static void
connection_heard(Connection *connection)
{
	int			timeout_ms = connection->timeout_ms > 0 ? connection->timeout_ms : IDLE_MS;

	connection->idle_until_ms = ((wall_ms() + timeout_ms) / IDLE_MS + 1) * IDLE_MS;
}

static Connection *
connection_make(Endpoint *endpoint)
{
	Server	   *server = endpoint->server;
	Connection *connection = sim_alloc(sizeof(Connection));

	connection->refs = 1;
	connection->endpoint = endpoint;
	connection->watcher.number = ++ensemble.connections;
	connection->watcher.connection = connection;
	connection->next = server->connections;
	if (server->connections != NULL)
		server->connections->prev = connection;
	server->connections = connection;
	return connection;
}

void
connection_drop(Connection *connection)
{
	if (connection == NULL || --connection->refs > 0)
		return;
	identities_drop(connection->identities);
	free(connection);
}

static void
forget_waiting(Connection *connection)
{
	for (int i = 0; i < connection->waiting_count; i++)
		packet_free(connection->waiting[i]);
	free(connection->waiting);
	connection->waiting = NULL;
	connection->waiting_count = 0;
}

/* The endpoint is being closed. */
static void
connection_over(Server *server, Connection *connection)
{
	watches_forget(&server->watches, &connection->watcher);
	forget_waiting(connection);
	if (connection->prev != NULL)
		connection->prev->next = connection->next;
	else
		server->connections = connection->next;
	if (connection->next != NULL)
		connection->next->prev = connection->prev;
	connection->endpoint = NULL;
	connection_drop(connection);
}

static void
packet_discard(void *packet)
{
	packet_free(packet);
}

/* Sends the packet, or frees it if the connection is closed. */
void
connection_send(Connection *connection, Packet *packet)
{
	Endpoint   *endpoint = connection->endpoint;
	Message		message = {packet, packet_discard};

	if (endpoint != NULL)
		link_send(endpoint->link, endpoint->server->host, message);
	else
		packet_free(packet);
}

/* ------ endpoints ------ */

/* A connection comes to a server; only those that have a leader take it. */
void *
endpoint_accept(Host *host, Link *link, void *context)
{
	Server	   *server = context;
	Endpoint   *endpoint;

	(void) host;
	if (!server_serves(server) && server->role != ROLE_PREPARING)
		return NULL;
	endpoint = sim_alloc(sizeof(Endpoint));
	endpoint->server = server;
	endpoint->link = link;
	endpoint->next = server->endpoints;
	if (server->endpoints != NULL)
		server->endpoints->prev = endpoint;
	server->endpoints = endpoint;
	return endpoint;
}

/* Closes the endpoint and whatever it belongs to, and frees it. */
void
endpoint_close(Endpoint *endpoint)
{
	Server	   *server = endpoint->server;

	if (endpoint->prev != NULL)
		endpoint->prev->next = endpoint->next;
	else
		server->endpoints = endpoint->next;
	if (endpoint->next != NULL)
		endpoint->next->prev = endpoint->prev;
	if (endpoint->client != NULL)
		connection_over(server, endpoint->client);
	if (endpoint->learner != NULL)
		leader_lost(endpoint->learner);
	if (endpoint->link != NULL)
		link_close(endpoint->link, server->host);
	free(endpoint);
}

static void
endpoint_broken(Link *link, void *owner)
{
	Endpoint   *endpoint = owner;

	(void) link;
	endpoint->link = NULL;
	endpoint_close(endpoint);
}

/* ------ sessions ------ */

/* As SessionTrackerImpl makes them. */
static int64_t
new_session_id(Server *server)
{
	uint64_t	start = ((uint64_t) wall_ms() << 24) >> 8;
	int64_t		id = (int64_t) (start | ((uint64_t) (server->number + 1) << 56));

	if (id <= server->last_session)
		id = server->last_session + 1;
	server->last_session = id;
	return id;
}

static int64_t
password_of(int64_t session)
{
	return (int64_t) (hash_number((uint64_t) session ^ ensemble.secret) | 1);
}

static int
negotiate(int asked_ms)
{
	const EnsembleConfig *config = &ensemble.config;
	int			min = config->min_timeout_ms > 0 ? config->min_timeout_ms : 2 * config->tick_ms;
	int			max = config->max_timeout_ms > 0 ? config->max_timeout_ms : 20 * config->tick_ms;

	if (asked_ms < min)
		asked_ms = min;
	return asked_ms > max ? max : asked_ms;
}

void
clients_close_session(Server *server, int64_t session, const Connection *but)
{
	Connection *connection = server->connections;

	while (connection != NULL)
	{
		Connection *next = connection->next;

		if (connection->session == session && connection != but)
			endpoint_close(connection->endpoint);
		connection = next;
	}
}

static void connection_packet(Connection *connection, Packet *packet);

/* What has come in the meantime is handled now. */
static void
handle_waiting(Connection *connection)
{
	Packet	  **waiting = connection->waiting;
	int			count = connection->waiting_count;

	connection->waiting = NULL;
	connection->waiting_count = 0;
	connection->refs++;
	for (int i = 0; i < count; i++)
	{
		if (connection->endpoint != NULL)
			connection_packet(connection, waiting[i]);
		else
			packet_free(waiting[i]);
	}
	connection_drop(connection);
	free(waiting);
}

/* The session is there; or it is not, which ends the connection. */
void
connection_opened(Connection *connection, bool valid)
{
	Packet	   *packet;

	if (connection->endpoint == NULL)
		return;
	packet = packet_make(PACKET_CONNECTED);
	if (valid)
	{
		packet->session = connection->session;
		packet->password = password_of(connection->session);
		packet->timeout_ms = connection->timeout_ms;
	}
	connection_send(connection, packet);
	if (!valid)
	{
		endpoint_close(connection->endpoint);
		return;
	}
	connection->state = CONNECTION_READY;
	handle_waiting(connection);
}

static void
session_begin(Server *server, Connection *connection)
{
	connection->session = new_session_id(server);
	requests_submit(server, request_make(REQUEST_OPEN, connection, NULL));
}

/* The session will have less time than its client asks for, and may never know. */
static void
note_shortened(int64_t session, int timeout_ms)
{
	unsigned int i = ensemble.shortened_count++ % CLOSED_MAX;

	ensemble.shortened[i].session = session;
	ensemble.shortened[i].timeout_ms = timeout_ms;
}

static void
session_resume(Server *server, Connection *connection, const Packet *packet)
{
	if (connection->timeout_ms < packet->timeout_ms)
		note_shortened(packet->session, connection->timeout_ms);
	clients_close_session(server, packet->session, connection);
	connection->session = packet->session;
	if (packet->password != password_of(packet->session))
		connection_opened(connection, false);
	else if (server->role == ROLE_FOLLOWING)
		follower_revalidate(server, packet->session, connection->timeout_ms);
	else
	{
		Tracker    *tracker = &server->leading->tracker;
		bool		valid = tracker_touch(tracker, packet->session, connection->timeout_ms,
										  leader_clock_ms(server));

		if (valid)
			tracker_set_owner(tracker, packet->session, OWNER_LEADER);
		connection_opened(connection, valid);
	}
}

static void
connection_connect(Connection *connection, const Packet *packet)
{
	Server	   *server = connection->endpoint->server;

	if (packet->kind != PACKET_CONNECT || packet->zxid > server->tree.last_zxid)
	{
		endpoint_close(connection->endpoint);
		return;
	}
	connection->timeout_ms = negotiate(packet->timeout_ms);
	connection->state = CONNECTION_WAITS;
	if (packet->session == 0)
		session_begin(server, connection);
	else
		session_resume(server, connection, packet);
}

void
clients_revalidated(Server *server, int64_t session, bool valid)
{
	Connection *connection = server->connections;

	while (connection != NULL &&
		   (connection->session != session || connection->state != CONNECTION_WAITS))
		connection = connection->next;
	if (connection != NULL)
		connection_opened(connection, valid);
}

/* ------ packets ------ */

/* The answer comes at once, ahead of those to requests. */
static void
connection_auth(Connection *connection, const Packet *packet)
{
	Packet	   *answer = packet_make(PACKET_AUTH_RESULT);
	bool		known = packet->scheme != NULL && strcmp(packet->scheme, "digest") == 0 &&
	packet->credential != NULL;

	answer->xid = -4;
	answer->result.err = known ? ZOK : ZAUTHFAILED;
	if (known)
	{
		char	   *digest = digest_of(packet->credential);

		connection->identities = identities_add(connection->identities, digest);
		free(digest);
	}
	connection_send(connection, answer);
	if (!known)
		endpoint_close(connection->endpoint);
}

static void
connection_wait(Connection *connection, Packet *packet)
{
	int			count = connection->waiting_count++;

	connection->waiting = sim_realloc(connection->waiting,
									  sizeof(Packet *) * (size_t) (count + 1));
	connection->waiting[count] = packet;
}

/* Handles what a client has sent, and frees it unless it is kept. */
static void
connection_packet(Connection *connection, Packet *packet)
{
	Server	   *server = connection->endpoint->server;

	if (connection->state == CONNECTION_WAITS)
	{
		connection_wait(connection, packet);
		return;
	}
	if (connection->state == CONNECTION_READY)
	{
		RequestKind kind = REQUEST_OP;

		if (packet->kind == PACKET_PING)
			kind = REQUEST_PING;
		else if (packet->kind == PACKET_SET_WATCHES)
			kind = REQUEST_WATCHES;
		if (kind != REQUEST_OP || packet->kind == PACKET_REQUEST)
		{
			requests_submit(server, request_make(kind, connection, packet));
			return;
		}
		if (packet->kind == PACKET_AUTH)
			connection_auth(connection, packet);
	}
	else
		connection_connect(connection, packet);
	packet_free(packet);
}

/* The first message shows who it is.  Returns false if it is not welcome. */
static bool
endpoint_introduced(Endpoint *endpoint, bool is_peer)
{
	Server	   *server = endpoint->server;

	if (is_peer && server->leading != NULL)
		endpoint->learner = leader_learner(endpoint);
	else if (!is_peer && server_serves(server))
		endpoint->client = connection_make(endpoint);
	return endpoint->learner != NULL || endpoint->client != NULL;
}

static void
endpoint_received(Link *link, void *owner, void *body)
{
	Endpoint   *endpoint = owner;
	int			kind;
	bool		is_peer;

	(void) link;
	memcpy(&kind, body, sizeof(kind));
	is_peer = kind >= PEER_INFO;
	if (endpoint->client == NULL && endpoint->learner == NULL &&
		!endpoint_introduced(endpoint, is_peer))
	{
		endpoint_close(endpoint);
		if (is_peer)
			peer_free(body);
		else
			packet_free(body);
		return;
	}
	if (is_peer)
	{
		leader_received(endpoint->learner, body);
		peer_free(body);
		return;
	}
	connection_heard(endpoint->client);
	connection_packet(endpoint->client, body);
}

/* ------ events ------ */

void
clients_changed(void *context, const TreeEvent *event)
{
	Server	   *server = context;

	watches_fire(&server->watches, event);
}

void
clients_watch(Watcher *watcher, int event, const char *path,
			  const AclList *acl, int64_t zxid)
{
	Connection *connection = watcher->connection;
	bool		as_39 = ensemble.config.behaves_as_39;
	Packet	   *packet;

	if (as_39 && acl != NULL && !acl_allows(acl, PERM_READ, connection->identities))
		return;
	packet = packet_make(PACKET_EVENT);
	packet->xid = -1;
	packet->zxid = as_39 ? zxid : -1;
	packet->event = event;
	packet->path = sim_strdup(path);
	ensemble_stats.events++;
	connection_send(connection, packet);
}

/* ------ ends ------ */

/* Closes connections of which nothing has been heard for too long. */
void
clients_check_idle(Server *server)
{
	Connection *connection = server->connections;
	int64_t		now_ms = wall_ms();

	while (connection != NULL)
	{
		Connection *next = connection->next;

		if (connection->idle_until_ms <= now_ms)
			endpoint_close(connection->endpoint);
		connection = next;
	}
}

void
clients_end(Server *server)
{
	while (server->endpoints != NULL)
		endpoint_close(server->endpoints);
	requests_end(server);
}
