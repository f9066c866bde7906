/*-------------------------------------------------------------------------
 *
 * follower.c
 *	  A follower: how it joins a leader, and what comes from it.
 *
 * As Learner and Follower do it.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "server.h"

/* Learner.connectToLeader */
#define ATTEMPTS		5
#define ATTEMPT_PAUSE	SIM_MS(100)

static void follower_connected(Link *link, void *owner);
static void follower_received(Link *link, void *owner, void *body);
static void follower_broken(Link *link, void *owner);

static const LinkCalls follower_calls = {
	follower_connected, follower_received, follower_broken
};

static void
follower_connect(Server *server)
{
	Following  *following = server->following;

	following->link = link_connect(server->host, following->leader->host,
								   &follower_calls, server);
}

/* Looks whether the leader still says something. */
static void
follower_watch(Server *server)
{
	Following  *following = server->following;
	int			limit = following->synced ? ensemble.config.sync_limit :
	ensemble.config.init_limit;
	bool		was_stopped = sim_now() - following->watched_at > ticks(2);

	following->watched_at = sim_now();
	if (!was_stopped && sim_now() - following->heard_at > ticks(limit))
	{
		server_look(server, "nothing from the leader");
		return;
	}
	clients_check_idle(server);
	server_at(server, sim_now() + ticks(1) / 2, follower_watch);
}

void
follower_begin(Server *server, Server *leader)
{
	Following  *following = sim_alloc(sizeof(Following));

	server->following = following;
	following->leader = leader;
	following->heard_at = sim_now();
	following->watched_at = sim_now();
	server_set_role(server, ROLE_JOINING);
	follower_connect(server);
	server_at(server, sim_now() + ticks(1) / 2, follower_watch);
}

void
follower_end(Server *server)
{
	Following  *following = server->following;

	if (following->link != NULL)
		link_close(following->link, server->host);
	while (following->first_sync != NULL)
	{
		Request    *request = following->first_sync;

		following->first_sync = request->next_sync;
		request_drop(request);
	}
	touches_end(&following->touches);
	free(following);
	server->following = NULL;
}

static void
follower_send(Server *server, PeerMessage *message)
{
	if (server->following->link != NULL)
		peer_send(server, server->following->link, message);
	else
		peer_free(message);
}

/* ------ what clients ask for ------ */

/* Sends the request to the leader; takes the reference. */
void
follower_forward(Server *server, Request *request)
{
	Following  *following = server->following;
	PeerMessage *message = peer_make(PEER_REQUEST);

	message->request = request;
	if (!request_is_write(request))
	{
		request->next_sync = NULL;
		if (following->last_sync != NULL)
			following->last_sync->next_sync = request;
		else
			following->first_sync = request;
		following->last_sync = request_share(request);
	}
	follower_send(server, message);
}

void
follower_revalidate(Server *server, int64_t session, int timeout_ms)
{
	PeerMessage *message = peer_make(PEER_REVALIDATE);

	message->session = session;
	message->timeout_ms = timeout_ms;
	follower_send(server, message);
}

/* ------ joining ------ */

static void
follower_connected(Link *link, void *owner)
{
	Server	   *server = owner;
	PeerMessage *message = peer_make(PEER_INFO);

	(void) link;
	server->following->heard_at = sim_now();
	message->server = server->number;
	message->epoch = server->accepted_epoch;
	follower_send(server, message);
}

/* A leader that is not ready yet refuses: another attempt. */
static void
follower_broken(Link *link, void *owner)
{
	Server	   *server = owner;
	Following  *following = server->following;

	(void) link;
	following->link = NULL;
	if (following->epoch == 0 && ++following->attempts < ATTEMPTS)
		server_at(server, sim_now() + ATTEMPT_PAUSE, follower_connect);
	else
		server_look(server, "the leader is gone");
}

static void
received_epoch(Server *server, int64_t epoch)
{
	PeerMessage *answer;

	if (epoch < server->accepted_epoch)
	{
		server_look(server, "the leader's epoch is old");
		return;
	}
	answer = peer_make(PEER_EPOCH_ACK);
	answer->epoch = epoch > server->accepted_epoch ? server->epoch : -1;
	answer->zxid = log_last(&server->log);
	server->accepted_epoch = epoch;
	server->following->epoch = epoch;
	follower_send(server, answer);
}

/* The log becomes that of the leader. */
static void
received_diff(Server *server, const PeerMessage *message)
{
	Following  *following = server->following;
	PeerMessage *answer = peer_make(PEER_DIFF_ACK);

	log_cut(&server->log, log_find(&server->log, message->zxid));
	if (log_last(&server->log) != message->zxid)
		sim_violation("ensemble", "a follower's log does not fit the leader's");
	for (int i = 0; i < message->count; i++)
		log_append(&server->log, txn_share(message->txns[i]));
	server->epoch = following->epoch;
	following->committed = message->committed;
	answer->zxid = log_last(&server->log);
	following->synced = true;
	follower_send(server, answer);
}

static void
received_up_to_date(Server *server)
{
	server_set_role(server, ROLE_FOLLOWING);
	server_apply_up_to(server, server->following->committed);
	server_at(server, sim_now() + ticks(1) / 2, follower_watch);
}

/* ------ following ------ */

static void
received_proposal(Server *server, const PeerMessage *message)
{
	PeerMessage *answer = peer_make(PEER_ACK);

	log_append(&server->log, txn_share(message->txns[0]));
	answer->zxid = message->txns[0]->zxid;
	follower_send(server, answer);
}

/* The answer says of which sessions the follower has heard since the last. */
static void
received_ping(Server *server)
{
	PeerMessage *answer = peer_make(PEER_PING);

	answer->touches = touches_take(&server->following->touches, &answer->count);
	follower_send(server, answer);
}

static void
received_sync(Server *server)
{
	Following  *following = server->following;
	Request    *request = following->first_sync;

	if (request == NULL)
		sim_violation("ensemble", "an answer to no sync");
	following->first_sync = request->next_sync;
	if (following->first_sync == NULL)
		following->last_sync = NULL;
	requests_synced(server, request);
	request_drop(request);
}

static void
follower_received(Link *link, void *owner, void *body)
{
	Server	   *server = owner;
	PeerMessage *message = body;

	(void) link;
	server->following->heard_at = sim_now();
	switch (message->kind)
	{
		case PEER_EPOCH:
			received_epoch(server, message->epoch);
			break;
		case PEER_DIFF:
			received_diff(server, message);
			break;
		case PEER_UPTODATE:
			received_up_to_date(server);
			break;
		case PEER_PROPOSAL:
			received_proposal(server, message);
			break;
		case PEER_COMMIT:
			server->following->committed = message->zxid;
			if (server->role == ROLE_FOLLOWING)
				server_apply_up_to(server, message->zxid);
			break;
		case PEER_PING:
			received_ping(server);
			break;
		case PEER_SYNC:
			received_sync(server);
			break;
		case PEER_REVALIDATE:
			clients_revalidated(server, message->session, message->valid);
			break;
		default:
			sim_violation("ensemble", "message %d to a follower", message->kind);
	}
	peer_free(message);
}
