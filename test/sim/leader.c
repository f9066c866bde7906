/*-------------------------------------------------------------------------
 *
 * leader.c
 *	  The leader: how it comes to lead, proposals and commits, the quorum, the
 *	  expiry of sessions, the container manager.
 *
 * As Leader and LearnerHandler do it.  A server that was elected waits for a
 * majority of followers, finds an epoch that none of them has accepted, makes
 * their logs like its own, and leads when a majority has it.  It waits for initLimit in
 * each of these steps.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "server.h"

/* ContainerManager: maxPerMinute is 10000. */
#define CONTAINER_PAUSE		SIM_MS(6)

/* ------ learners ------ */

/* A follower has come. */
Learner *
leader_learner(Endpoint *endpoint)
{
	Leading    *leading = endpoint->server->leading;
	Learner    *learner = sim_alloc(sizeof(Learner));

	learner->endpoint = endpoint;
	learner->owner = OWNER_LEADER + ++ensemble.owners;
	learner->server = -1;
	learner->heard_at = sim_now();
	learner->deadline_tick = leading->tick + ensemble.config.init_limit +
		ensemble.config.sync_limit;
	learner->next = leading->learners;
	if (leading->learners != NULL)
		leading->learners->prev = learner;
	leading->learners = learner;
	return learner;
}

/* Its endpoint is being closed. */
void
leader_lost(Learner *learner)
{
	Leading    *leading = learner->endpoint->server->leading;

	if (learner->prev != NULL)
		learner->prev->next = learner->next;
	else
		leading->learners = learner->next;
	if (learner->next != NULL)
		learner->next->prev = learner->prev;
	free(learner);
}

static void
learner_send(Learner *learner, PeerMessage *message)
{
	peer_send(learner->endpoint->server, learner->endpoint->link, message);
}

static bool
is_quorum(ServerSet servers)
{
	return __builtin_popcount(servers) >= majority();
}

/* The servers that the leader has heard of lately, and itself. */
static ServerSet
synced_lately(const Server *server)
{
	const Leading *leading = server->leading;
	ServerSet	synced = server_bit(server->number);

	for (const Learner *learner = leading->learners; learner != NULL; learner = learner->next)
	{
		if (learner->synced && leading->tick <= learner->deadline_tick)
			synced |= server_bit(learner->server);
	}
	return synced;
}

/* ------ how a server comes to lead ------ */

static void
send_epoch(Learner *learner)
{
	PeerMessage *message = peer_make(PEER_EPOCH);

	message->epoch = learner->endpoint->server->leading->epoch;
	learner_send(learner, message);
}

/* Tells the follower how its log becomes that of the leader. */
static void
send_diff(Learner *learner)
{
	Server	   *server = learner->endpoint->server;
	Log		   *log = &server->log;
	PeerMessage *message = peer_make(PEER_DIFF);
	int			common = log_find(log, learner->last_zxid);

	if (learner->last_zxid < log->base)
		sim_violation("ensemble", "a follower lacks what all had");
	message->zxid = common > 0 ? log->txns[common - 1]->zxid : log->base;
	message->committed = server->role == ROLE_LEADING ? server->leading->committed : log_last(log);
	message->count = log->count - common;
	message->txns = sim_alloc(sizeof(Transaction *) * (size_t) message->count);
	for (int i = 0; i < message->count; i++)
		message->txns[i] = txn_share(log->txns[common + i]);
	learner->forwarding = true;
	learner_send(learner, message);
}

static void
send_up_to_date(Learner *learner)
{
	learner_send(learner, peer_make(PEER_UPTODATE));
}

static void leader_tick(Server *server);
static void leader_expire(Server *server);
static void leader_containers(Server *server);

int64_t
leader_clock_ms(const Server *server)
{
	return sim_now() / 1000 + server->leading->clock_ms;
}

static void
schedule_expiry(Server *server)
{
	int64_t		wait_ms = server->leading->tracker.next_ms - leader_clock_ms(server);

	server_at(server, sim_now() + SIM_MS(wait_ms > 0 ? wait_ms : 0) +
			  chance_between(&server->chance, 0, 1000),
			  leader_expire);
}

/* All sessions start again: the leader before this one knew when they end. */
static void
track_sessions(Server *server)
{
	Leading    *leading = server->leading;
	int64_t		now_ms = leader_clock_ms(server);
	const TreeSession *session = server->tree.first_session;

	tracker_begin(&leading->tracker, ensemble.config.tick_ms, now_ms);
	for (; session != NULL; session = session->next)
		tracker_track(&leading->tracker, session->id, session->timeout_ms, now_ms);
}

/* A majority has the leader's log: it is committed, and the leader leads. */
static void
leader_start(Server *server)
{
	Leading    *leading = server->leading;

	server_set_role(server, ROLE_LEADING);
	server_apply_up_to(server, log_last(&server->log));
	leading->committed = log_last(&server->log);
	leading->zxid = leading->epoch << 32;
	server->tree.last_zxid = leading->zxid;
	track_sessions(server);
	leading->ticked_at = sim_now();
	ensemble_stats.elections++;
	for (Learner *learner = leading->learners; learner != NULL; learner = learner->next)
	{
		if (learner->synced)
			send_up_to_date(learner);
	}
	server_at(server, sim_now() + ticks(1) / 2, leader_tick);
	schedule_expiry(server);
	if (ensemble.config.container_check > 0)
		server_at(server, sim_now() + ensemble.config.container_check, leader_containers);
}

static void
leader_gives_up(Server *server)
{
	if (sim_now() >= server->leading->waits_until)
		server_look(server, "no quorum to lead in time");
}

/* The leader waits for a quorum to come, then to accept the epoch, then to have the diff. */
static void
leader_wait(Server *server)
{
	server->leading->waits_until = sim_now() + ticks(ensemble.config.init_limit);
	server_at(server, server->leading->waits_until, leader_gives_up);
}

/* Goes on with the preparations as far as followers have answered. */
static void
leader_prepare_to_lead(Server *server)
{
	Leading    *leading = server->leading;
	Learner    *learner;

	if (leading->epoch == 0 && is_quorum(leading->known))
	{
		leader_wait(server);
		leading->epoch = leading->highest_epoch + 1;
		server->accepted_epoch = leading->epoch;
		for (learner = leading->learners; learner != NULL; learner = learner->next)
		{
			if (learner->server >= 0)
				send_epoch(learner);
		}
	}
	if (leading->epoch != 0 && !leading->epoch_acked && is_quorum(leading->voted))
	{
		leader_wait(server);
		leading->epoch_acked = true;
		server->epoch = leading->epoch;
		for (learner = leading->learners; learner != NULL; learner = learner->next)
		{
			if (learner->has_answered)
				send_diff(learner);
		}
	}
	if (leading->epoch_acked && server->role == ROLE_PREPARING &&
		is_quorum(leading->synced))
		leader_start(server);
}

void
leader_begin(Server *server)
{
	Leading    *leading = sim_alloc(sizeof(Leading));

	server->leading = leading;
	leading->clock_ms = chance_between(&server->chance, 0, 10 * ensemble.config.tick_ms);
	leading->prepare.tree = &server->tree;
	leading->prepare.tracker = &leading->tracker;
	leading->highest_epoch = server->accepted_epoch;
	leading->acked[server->number] = log_last(&server->log);
	leading->known = leading->voted = leading->synced = server_bit(server->number);
	server_set_role(server, ROLE_PREPARING);
	leader_wait(server);
	leader_prepare_to_lead(server);
}

/* The endpoints are closed already. */
void
leader_end(Server *server)
{
	Leading    *leading = server->leading;

	while (leading->first_sync != NULL)
	{
		PendingSync *sync = leading->first_sync;

		leading->first_sync = sync->next;
		free(sync);
	}
	prepare_end(&leading->prepare);
	tracker_end(&leading->tracker);
	strings_free(&leading->containers);
	free(leading);
	server->leading = NULL;
}

/* ------ proposals and commits ------ */

int64_t
leader_next_zxid(Server *server)
{
	return ++server->leading->zxid;
}

/* Makes the transaction of a write. */
Transaction *
leader_prepare(Server *server, const Request *request, Owner owner)
{
	Leading    *leading = server->leading;
	Asker		asker = {request->session, request->cxid, owner, request->identities};
	int64_t		zxid = leader_next_zxid(server);
	Transaction *txn;

	if (request->kind == REQUEST_OPEN)
	{
		txn = txn_make(zxid, request->session, request->cxid, wall_ms());
		txn->change.kind = CHANGE_OPEN_SESSION;
		txn->timeout_ms = request->timeout_ms;
		tracker_track(&leading->tracker, request->session, request->timeout_ms,
					  leader_clock_ms(server));
		tracker_set_owner(&leading->tracker, request->session, owner);
		return txn;
	}
	if (request->packet->op.kind == OP_CLOSE)
	{
		ensemble.closed[ensemble.closed_count++ % CLOSED_MAX] = request->session;
		return prepare_close(&leading->prepare, &asker, zxid, wall_ms());
	}
	return prepare_op(&leading->prepare, &request->packet->op, &asker, zxid, wall_ms());
}

/* Returns the zxid up to which a majority has the log. */
static int64_t
acked_by_majority(const Leading *leading)
{
	int64_t		sorted[ENSEMBLE_MAX] = {0};
	int			count = 0;

	for (int i = 0; i < ensemble.config.servers; i++)
	{
		int			j = count++;

		for (; j > 0 && sorted[j - 1] < leading->acked[i]; j--)
			sorted[j] = sorted[j - 1];
		sorted[j] = leading->acked[i];
	}
	return sorted[majority() - 1];
}

static void
send_syncs(Server *server)
{
	Leading    *leading = server->leading;

	while (leading->first_sync != NULL && leading->first_sync->zxid <= leading->committed)
	{
		PendingSync *sync = leading->first_sync;
		Learner    *learner = leading->learners;

		leading->first_sync = sync->next;
		if (leading->first_sync == NULL)
			leading->last_sync = NULL;
		while (learner != NULL && learner->owner != sync->owner)
			learner = learner->next;
		if (learner != NULL)
			learner_send(learner, peer_make(PEER_SYNC));
		free(sync);
	}
}

/* Commits what a majority has. */
static void
leader_commit(Server *server)
{
	Leading    *leading = server->leading;
	Log		   *log = &server->log;
	int64_t		acked = acked_by_majority(leading);

	while (leading->committed < acked && log->applied < log->count)
	{
		Transaction *txn = log->txns[log->applied++];

		leading->committed = txn->zxid;
		for (Learner *learner = leading->learners; learner != NULL; learner = learner->next)
		{
			PeerMessage *message;

			if (!learner->forwarding)
				continue;
			message = peer_make(PEER_COMMIT);
			message->zxid = txn->zxid;
			learner_send(learner, message);
		}
		ensemble_stats.transactions++;
		server_apply(server, txn);
		send_syncs(server);
	}
}

/* Takes the transaction, and proposes it to all. */
void
leader_propose(Server *server, Transaction *txn)
{
	Leading    *leading = server->leading;

	log_append(&server->log, txn);
	leading->acked[server->number] = txn->zxid;
	for (Learner *learner = leading->learners; learner != NULL; learner = learner->next)
	{
		PeerMessage *message;

		if (!learner->forwarding)
			continue;
		message = peer_make(PEER_PROPOSAL);
		message->txns = sim_alloc(sizeof(Transaction *));
		message->txns[0] = txn_share(txn);
		message->count = 1;
		learner_send(learner, message);
	}
	leader_commit(server);
}

/* ------ what comes from followers ------ */

static void
received_info(Learner *learner, const PeerMessage *message)
{
	Server	   *server = learner->endpoint->server;
	Leading    *leading = server->leading;

	learner->server = message->server;
	leading->known |= server_bit(message->server);
	if (leading->epoch != 0)
	{
		send_epoch(learner);
		return;
	}
	if (message->epoch > leading->highest_epoch)
		leading->highest_epoch = message->epoch;
	leader_prepare_to_lead(server);
}

static void
received_epoch_ack(Learner *learner, const PeerMessage *message)
{
	Server	   *server = learner->endpoint->server;
	Leading    *leading = server->leading;

	learner->last_zxid = message->zxid;
	learner->has_answered = true;
	if (leading->epoch_acked)
	{
		send_diff(learner);
		return;
	}
	if (message->epoch > server->epoch ||
		(message->epoch == server->epoch && message->zxid > log_last(&server->log)))
	{
		sim_trace("%s: a follower is ahead", host_name(server->host));
		endpoint_close(learner->endpoint);
		return;
	}
	if (message->epoch != -1)
		leading->voted |= server_bit(learner->server);
	leader_prepare_to_lead(server);
}

static void
received_ack(Learner *learner, int64_t zxid)
{
	Server	   *server = learner->endpoint->server;
	Leading    *leading = server->leading;

	if (zxid > leading->acked[learner->server])
		leading->acked[learner->server] = zxid;
	if (server->role == ROLE_LEADING)
		leader_commit(server);
}

static void
received_diff_ack(Learner *learner, int64_t zxid)
{
	Server	   *server = learner->endpoint->server;

	learner->synced = true;
	server->leading->synced |= server_bit(learner->server);
	if (server->role == ROLE_LEADING)
		send_up_to_date(learner);
	received_ack(learner, zxid);
	if (server->role == ROLE_PREPARING)
		leader_prepare_to_lead(server);
}

/* The answer comes when all that was proposed before is committed. */
static void
received_sync(Learner *learner)
{
	Server	   *server = learner->endpoint->server;
	Leading    *leading = server->leading;
	PendingSync *sync;

	if (leading->committed >= log_last(&server->log))
	{
		learner_send(learner, peer_make(PEER_SYNC));
		return;
	}
	sync = sim_alloc(sizeof(PendingSync));
	sync->zxid = log_last(&server->log);
	sync->owner = learner->owner;
	if (leading->last_sync != NULL)
		leading->last_sync->next = sync;
	else
		leading->first_sync = sync;
	leading->last_sync = sync;
}

/* A forwarded request touches nothing. */
static void
received_request(Learner *learner, const Request *request)
{
	Server	   *server = learner->endpoint->server;

	if (request_is_write(request))
		leader_propose(server, leader_prepare(server, request, learner->owner));
	else
		received_sync(learner);
}

static void
received_revalidate(Learner *learner, const PeerMessage *message)
{
	Server	   *server = learner->endpoint->server;
	Tracker    *tracker = &server->leading->tracker;
	PeerMessage *answer = peer_make(PEER_REVALIDATE);

	answer->session = message->session;
	answer->valid = tracker_touch(tracker, message->session, message->timeout_ms,
								  leader_clock_ms(server));
	if (answer->valid)
		tracker_set_owner(tracker, message->session, learner->owner);
	learner_send(learner, answer);
}

/* The message is the caller's.  The learner may be gone afterwards. */
void
leader_received(Learner *learner, PeerMessage *message)
{
	Server	   *server = learner->endpoint->server;
	Leading    *leading = server->leading;

	learner->heard_at = sim_now();
	if (learner->synced)
		learner->deadline_tick = leading->tick + ensemble.config.sync_limit;
	switch (message->kind)
	{
		case PEER_INFO:
			received_info(learner, message);
			break;
		case PEER_EPOCH_ACK:
			received_epoch_ack(learner, message);
			break;
		case PEER_DIFF_ACK:
			received_diff_ack(learner, message->zxid);
			break;
		case PEER_ACK:
			received_ack(learner, message->zxid);
			break;
		case PEER_PING:
			for (int i = 0; i < message->count; i++)
				tracker_touch(&leading->tracker, message->touches[i].session,
							  message->touches[i].timeout_ms, leader_clock_ms(server));
			break;
		case PEER_REQUEST:
			received_request(learner, message->request);
			break;
		case PEER_REVALIDATE:
			received_revalidate(learner, message);
			break;
		default:
			sim_violation("ensemble", "message %d to a leader", message->kind);
	}
}

/* ------ time ------ */

/*
 * Pings all followers that have a diff, and drops those that say nothing.  A
 * leader that was stopped first reads what has come.
 */
static void
ping_learners(Server *server, bool was_stopped)
{
	Learner    *learner = server->leading->learners;
	const EnsembleConfig *config = &ensemble.config;

	while (learner != NULL)
	{
		Learner    *next = learner->next;

		if (!was_stopped &&
			sim_now() - learner->heard_at >
			ticks(learner->synced ? config->sync_limit : config->init_limit))
			endpoint_close(learner->endpoint);
		else if (learner->forwarding)
			learner_send(learner, peer_make(PEER_PING));
		learner = next;
	}
}

/* Leader.lead: every half tick, and the quorum every other time. */
static void
leader_tick(Server *server)
{
	Leading    *leading = server->leading;
	bool		was_stopped = sim_now() - leading->ticked_at > ticks(2);

	leading->ticked_at = sim_now();
	if (leading->half_tick)
	{
		leading->tick++;
		if (!is_quorum(synced_lately(server)))
		{
			server_look(server, "not enough followers");
			return;
		}
	}
	leading->half_tick = !leading->half_tick;
	ping_learners(server, was_stopped);
	clients_check_idle(server);
	server_at(server, sim_now() + ticks(1) / 2, leader_tick);
}

static void
leader_expire(Server *server)
{
	Leading    *leading = server->leading;
	int64_t		session;

	while ((session = tracker_expire(&leading->tracker, leader_clock_ms(server))) != 0)
	{
		Asker		asker = {session, 0, OWNER_NONE, NULL};

		sim_trace("%s expires session %llx", host_name(server->host),
				  (unsigned long long) session);
		ensemble_stats.expired++;
		leader_propose(server, prepare_close(&leading->prepare, &asker,
											 leader_next_zxid(server), wall_ms()));
	}
	schedule_expiry(server);
}

/* ContainerManager.getCandidates */
static bool
is_candidate(const Node *node)
{
	SimTime		unused = ensemble.config.container_unused;

	if (node->child_count > 0)
		return false;
	return node->stat.cversion > 0 ||
		(unused > 0 && SIM_MS(wall_ms() - node->stat.mtime) > unused);
}

/* Deletes the next container, if there is still one to be deleted. */
static void
delete_container(Server *server)
{
	Leading    *leading = server->leading;
	struct String_vector *paths = &leading->containers;

	if (paths->count > 0)
	{
		char	   *path = paths->data[--paths->count];

		leader_propose(server, prepare_delete_container(&leading->prepare, path,
														leader_next_zxid(server), wall_ms()));
		free(path);
	}
	if (paths->count > 0)
		server_at(server, sim_now() + CONTAINER_PAUSE, delete_container);
	else
		strings_free(paths);
}

static void
leader_containers(Server *server)
{
	Leading    *leading = server->leading;
	const Node *node = server->tree.containers.first;

	if (leading->containers.count == 0)
	{
		for (; node != NULL; node = node->next_owned)
		{
			if (is_candidate(node))
				strings_add(&leading->containers, node->path);
		}
		delete_container(server);
	}
	server_at(server, sim_now() + ensemble.config.container_check, leader_containers);
}
