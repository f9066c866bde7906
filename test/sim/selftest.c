/*-------------------------------------------------------------------------
 *
 * selftest.c
 *	  A test of the simulated network and ensemble alone: clients that speak its
 *	  protocol do everything at random while hosts fail.
 *
 *	selftest [seeds [first [trace]]]
 *
 * For each seed: what a client is told must be in order and true; at the end,
 * when all works again, what was acknowledged is there, no event is missing,
 * and all servers have the same data.  Prints a number for what has happened.
 *
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "violation.h"

#define CLIENTS			6
#define PENDING			64
#define WATCHED			256
#define TIMEOUT_MS		6000

typedef struct Pending
{
	int32_t		xid;
	OpKind		op;
	bool		watch;
	bool		must_exist;		/* read of what the request before creates */
	bool		must_be_new;	/* what a failed multi-op has not made */
	char		path[64];
} Pending;

typedef struct Watched
{
	bool		child;
	bool		exists;			/* at the time of the read */
	int64_t		zxid;			/* of the last change that was seen */
	char		path[64];
} Watched;

typedef struct Client
{
	int			number;
	Host	   *host;
	Link	   *link;
	bool		ready;
	int64_t		session;
	int64_t		password;
	int64_t		zxid;
	int32_t		xid;
	SimTime		heard_at;
	Pending		pending[PENDING];
	int			pending_count;
	Watched		watched[WATCHED];
	int			watched_count;
	int			made;			/* nodes that it has named */
	bool		created;
	char		kept[64];		/* a persistent node that was acknowledged */
} Client;

static Client clients[CLIENTS];
static uint64_t digest;
static uint64_t current_seed;
static bool faults;
static SimTime fault_pause;
static bool quiet;
static Chance luck;
static int64_t counted;			/* acknowledged increments */
static uint64_t replies;
static EnsembleConfig config;

void
violation_where(void)
{
	fprintf(stderr, "seed %" PRIu64 ", %.6f s: ", current_seed, (double) sim_now() / 1e6);
}

static void
remember(uint64_t what)
{
	digest = hash_number(digest ^ what ^ (uint64_t) sim_now());
}

/* ------ sending ------ */

static void
discard(void *packet)
{
	packet_free(packet);
}

static void
send_packet(Client *client, Packet *packet)
{
	Message		message = {packet, discard};

	link_send(client->link, client->host, message);
}

static Pending *
expect(Client *client, int32_t xid, OpKind op, const char *path)
{
	Pending    *pending = &client->pending[client->pending_count++];

	memset(pending, 0, sizeof(Pending));
	pending->xid = xid;
	pending->op = op;
	snprintf(pending->path, sizeof(pending->path), "%s", path);
	return pending;
}

static void
open_acl(Op *op)
{
	struct ACL	entry = {31, {(char *) "world", (char *) "anyone"}};
	struct ACL_vector acl = {1, &entry};

	acl_copy(&op->acl, &acl);
}

static Pending *
ask(Client *client, OpKind kind, const char *path, int mode, bool watch)
{
	Packet	   *packet = packet_make(PACKET_REQUEST);
	Pending    *pending = expect(client, ++client->xid, kind, path);

	packet->xid = client->xid;
	packet->op.kind = kind;
	packet->op.path = sim_strdup(path);
	packet->op.version = -1;
	packet->op.mode = mode;
	packet->op.watch = watch;
	if (kind == OP_CREATE || kind == OP_SET)
	{
		packet->op.data = sim_strdup("data");
		packet->op.len = 4;
	}
	if (kind == OP_CREATE)
		open_acl(&packet->op);
	pending->watch = watch;
	send_packet(client, packet);
	return pending;
}

/*
 * Two increments of the counter and a check of something, at once; or what
 * fails, and then alone the first op of that.
 */
static void
ask_multi(Client *client, bool fails)
{
	Packet	   *packet = packet_make(PACKET_REQUEST);
	char		path[64];

	expect(client, ++client->xid, OP_MULTI, "/count");
	packet->xid = client->xid;
	packet->op.kind = OP_MULTI;
	packet->op.count = 3;
	packet->op.ops = sim_alloc(sizeof(Op) * 3);
	for (int i = 0; i < 3; i++)
	{
		Op		   *op = &packet->op.ops[i];

		op->kind = i == 1 ? OP_CHECK : OP_SET;
		op->path = sim_strdup(i == 1 && fails ? "/nowhere" : "/count");
		op->version = -1;
		op->len = -1;
	}
	if (!fails)
	{
		send_packet(client, packet);
		return;
	}
	snprintf(path, sizeof(path), "/dir0/new%d-%d", client->number, client->made++);
	packet->op.ops[0].kind = OP_CREATE;
	free(packet->op.ops[0].path);
	packet->op.ops[0].path = sim_strdup(path);
	open_acl(&packet->op.ops[0]);
	send_packet(client, packet);
	ask(client, OP_CREATE, path, 1, false)->must_be_new = true;
}

/* ------ what clients do ------ */

static void
random_path(char *path, size_t size)
{
	int			choice = (int) chance_below(&luck, 2 * CLIENTS * 8);

	snprintf(path, size, "/dir%d/c%d-%d", choice % 2, choice / 2 % CLIENTS,
			 choice / 2 / CLIENTS);
}

static void
act(Client *client)
{
	char		path[64];
	const char *dir = chance_one_in(&luck, 2) ? "/dir0" : "/dir1";

	random_path(path, sizeof(path));
	switch (chance_below(&luck, 12))
	{
		case 0:
			snprintf(path, sizeof(path), "%s/q-", dir);
			ask(client, OP_CREATE, path, 3, false);
			break;
		case 1:
			snprintf(path, sizeof(path), "%s/own%d-%d", dir, client->number, client->made++);
			ask(client, OP_CREATE, path, 1, false);
			ask(client, OP_GET, path, 0, false)->must_exist = true;
			break;
		case 2:
			ask(client, OP_CREATE, path, (int) chance_below(&luck, 2), false);
			break;
		case 3:
			ask(client, OP_DELETE, path, 0, false);
			break;
		case 4:
			ask(client, OP_SET, path, 0, false);
			break;
		case 5:
			ask(client, OP_GET, path, 0, true);
			break;
		case 6:
			ask(client, OP_EXISTS, path, 0, true);
			break;
		case 7:
			ask(client, OP_GET_CHILDREN, chance_one_in(&luck, 2) ? dir : path, 0, true);
			break;
		case 8:
			ask(client, OP_SET, "/count", 0, false);
			break;
		case 9:
			ask_multi(client, chance_one_in(&luck, 2));
			break;
		case 10:
			ask(client, OP_SYNC, "/", 0, false);
			break;
		default:
			snprintf(path, sizeof(path), "/kept%d-%d", client->number, client->made++);
			ask(client, OP_CREATE, path, 0, false);
			break;
	}
}

static void connect_soon(Client *client);

static void
lose(Client *client)
{
	if (client->link != NULL)
		link_close(client->link, client->host);
	client->link = NULL;
	client->ready = false;
	client->pending_count = 0;
	connect_soon(client);
}

static void
client_step(void *argument)
{
	Client	   *client = argument;

	sim_at(sim_now() + chance_between(&luck, SIM_MS(1), SIM_MS(quiet ? 500 : 150)), client_step, client);
	if (client->link == NULL || host_is_stopped(client->host))
		return;
	if (sim_now() - client->heard_at > SIM_MS(TIMEOUT_MS) * 2 / 3)
		lose(client);
	if (!client->ready)
		return;
	if (!quiet && chance_one_in(&luck, 200))
	{
		if (chance_one_in(&luck, 2))
			lose(client);
		else
			ask(client, OP_CLOSE, "", 0, false);
	}
	else if (!quiet && client->pending_count < PENDING - 8 && client->watched_count < WATCHED - 80)
		act(client);
	else if (client->pending_count < PENDING - 8 && chance_one_in(&luck, 2))
	{
		Packet	   *packet = packet_make(PACKET_PING);

		packet->xid = -2;
		expect(client, -2, OP_CHECK, "");
		send_packet(client, packet);
	}
}

/* ------ what clients are told ------ */

static void
watch(Client *client, const Pending *pending, const Result *result)
{
	Watched    *watched = &client->watched[client->watched_count];
	bool		child = pending->op == OP_GET_CHILDREN;

	for (int i = 0; i < client->watched_count; i++)
	{
		if (client->watched[i].child == child &&
			strcmp(client->watched[i].path, pending->path) == 0)
			return;
	}
	client->watched_count++;
	watched->child = child;
	watched->exists = result->err == ZOK;
	watched->zxid = child ? result->stat.pzxid : result->stat.mzxid;
	snprintf(watched->path, sizeof(watched->path), "%s", pending->path);
}

/* A node that was watched in two ways, and is gone, makes two events then. */
static bool
is_renewing(const Client *client)
{
	return client->pending_count > 0 && client->pending[0].xid == -8;
}

static void
got_event(Client *client, const Packet *packet)
{
	bool		found = packet->event == EVENT_DELETED && is_renewing(client);

	for (int i = client->watched_count - 1; i >= 0; i--)
	{
		Watched    *watched = &client->watched[i];

		if (strcmp(watched->path, packet->path) != 0 ||
			(watched->child && packet->event != EVENT_CHILD && packet->event != EVENT_DELETED) ||
			(!watched->child && packet->event == EVENT_CHILD))
			continue;
		found = true;
		*watched = client->watched[--client->watched_count];
	}
	if (!found)
		sim_violation("watches", "client %d gets event %d of %s, which it does not watch",
					  client->number, packet->event, packet->path);
	remember((uint64_t) packet->event);
}

static void
got_write(Client *client, const Pending *pending, const Result *result)
{
	if (pending->op == OP_SET && result->err == ZOK && strcmp(pending->path, "/count") == 0)
		counted++;
	if (pending->op == OP_MULTI && result->err == ZOK)
		counted += 2;
	if (pending->op == OP_MULTI && result->err != ZOK && result->err != ZTHROTTLEDOP &&
		(result->err != ZNONODE || result->results[0].err != ZOK ||
		 result->results[1].err != ZNONODE || result->results[2].err != ZRUNTIMEINCONSISTENCY))
		sim_violation("multi", "errors %d", result->err);
	if (pending->op != OP_CREATE)
		return;
	client->created = result->err == ZOK;
	if (result->err == ZOK && strncmp(result->path, "/kept", 5) == 0)
		snprintf(client->kept, sizeof(client->kept), "%s", result->path);
	if (result->err == ZOK && !result->stat.czxid)
		sim_violation("create", "no stat");
}

static void
got_reply(Client *client, const Packet *packet)
{
	Pending		pending = client->pending[0];
	int			err = packet->result.err;

	if (client->pending_count == 0 || pending.xid != packet->xid)
		sim_violation("order", "client %d gets answer %d instead of %d", client->number,
					  packet->xid, client->pending_count > 0 ? pending.xid : 0);
	memmove(client->pending, client->pending + 1, sizeof(Pending) * (size_t) --client->pending_count);
	if (packet->zxid < client->zxid)
		sim_violation("order", "the zxid goes back");
	client->zxid = packet->zxid;
	replies++;
	remember((uint64_t) packet->zxid * 131 + (uint64_t) err);
	if (packet->kind == PACKET_PONG)
		return;
	got_write(client, &pending, &packet->result);
	if (pending.must_exist && client->created && err != ZOK && err != ZTHROTTLEDOP)
		sim_violation("order", "%s is not seen by who has made it: %d", pending.path, err);
	if (pending.must_be_new && err == ZNODEEXISTS)
		sim_violation("multi", "%s exists, but its multi-op has failed", pending.path);
	if (pending.watch && (err == ZOK || (err == ZNONODE && pending.op == OP_EXISTS)))
		watch(client, &pending, &packet->result);
}

/* Sets all watches again. */
static void
renew_watches(Client *client)
{
	Packet	   *packet = packet_make(PACKET_SET_WATCHES);

	packet->xid = -8;
	packet->zxid = client->zxid;
	for (int i = 0; i < client->watched_count; i++)
	{
		Watched    *watched = &client->watched[i];

		if (watched->child)
			strings_add(&packet->child_watches, watched->path);
		else if (watched->exists)
			strings_add(&packet->data_watches, watched->path);
		else
			strings_add(&packet->exist_watches, watched->path);
	}
	expect(client, -8, OP_CHECK, "");
	send_packet(client, packet);
}

static void
got_connected(Client *client, const Packet *packet)
{
	remember((uint64_t) packet->session);
	if (packet->session == 0)
	{
		if (client->session != 0 && quiet && ensemble_session_lives(client->session))
			sim_violation("sessions", "a session that lives is refused");
		client->session = 0;
		client->watched_count = 0;
		return;					/* the link breaks next */
	}
	client->session = packet->session;
	client->password = packet->password;
	client->ready = true;
	if (client->watched_count > 0)
		renew_watches(client);
}

static void
received(Link *link, void *owner, void *body)
{
	Client	   *client = owner;
	Packet	   *packet = body;

	(void) link;
	client->heard_at = sim_now();
	switch (packet->kind)
	{
		case PACKET_CONNECTED:
			got_connected(client, packet);
			break;
		case PACKET_REPLY:
		case PACKET_PONG:
		case PACKET_WATCHES_SET:
			got_reply(client, packet);
			break;
		case PACKET_EVENT:
			got_event(client, packet);
			break;
		default:
			sim_violation("protocol", "packet %d", packet->kind);
	}
	packet_free(packet);
}

static void
broken(Link *link, void *owner)
{
	Client	   *client = owner;

	(void) link;
	client->link = NULL;
	lose(client);
}

static void
connected(Link *link, void *owner)
{
	Client	   *client = owner;
	Packet	   *packet = packet_make(PACKET_CONNECT);

	(void) link;
	packet->session = client->session;
	packet->password = client->password;
	packet->zxid = client->zxid;
	packet->timeout_ms = TIMEOUT_MS;
	send_packet(client, packet);
}

static const LinkCalls calls = {connected, received, broken};

static void
connect_now(void *argument)
{
	Client	   *client = argument;

	if (client->link != NULL)
		return;
	client->heard_at = sim_now();
	client->link = link_connect(client->host, ensemble_host((int) chance_below(&luck, (uint64_t) config.servers)),
								&calls, client);
}

static void
connect_soon(Client *client)
{
	sim_at(sim_now() + chance_between(&luck, SIM_MS(1), SIM_MS(200)), connect_now, client);
}

/* ------ what fails ------ */

static void
fail(void *argument)
{
	int			leader = ensemble_leader();
	int			server = leader >= 0 && chance_one_in(&luck, 3) ? leader :
	(int) chance_below(&luck, (uint64_t) config.servers);
	Host	   *host = ensemble_host(server);
	Host	   *other = chance_one_in(&luck, 2) ? clients[chance_below(&luck, CLIENTS)].host :
	ensemble_host((int) chance_below(&luck, (uint64_t) config.servers));

	(void) argument;
	if (!faults)
		return;
	switch (chance_below(&luck, 8))
	{
		case 0:
			host_stop(host);
			break;
		case 1:
		case 2:
			host_go_on(host);
			break;
		case 3:
			if (other != host)
				net_cut(host, other);
			break;
		case 4:
		case 5:
			if (other != host)
				net_join(host, other);
			break;
		case 6:
			ensemble_crash(server);
			break;
		case 7:
			ensemble_start(server);
			break;
	}
	sim_at(sim_now() + chance_between(&luck, 0, fault_pause), fail, NULL);
}

static void
heal(void)
{
	faults = false;
	for (int i = 0; i < config.servers; i++)
	{
		host_go_on(ensemble_host(i));
		ensemble_start(i);
		for (int j = 0; j < config.servers; j++)
			net_join(ensemble_host(i), ensemble_host(j));
		for (int j = 0; j < CLIENTS; j++)
			net_join(ensemble_host(i), clients[j].host);
	}
}

/* ------ the end ------ */

static bool
same_nodes(const Tree *one, const Tree *other, const Node *node)
{
	const Node *twin = tree_find(other, node->path);

	if (twin == NULL || memcmp(&node->stat, &twin->stat, sizeof(node->stat)) != 0 ||
		node->child_count != twin->child_count)
		return false;
	for (const Node *child = node->first_child; child != NULL; child = child->next)
	{
		if (!same_nodes(one, other, child))
			return false;
	}
	return true;
}

static void
check_watches(Client *client)
{
	for (int i = 0; i < client->watched_count; i++)
	{
		Watched    *watched = &client->watched[i];
		NodeView	view;
		bool		exists = ensemble_node(watched->path, &view);
		int64_t		zxid = !exists ? 0 : watched->child ? view.stat->pzxid : view.stat->mzxid;

		if (exists != watched->exists || (exists && zxid != watched->zxid))
			sim_violation("watches", "client %d has not heard of %s (%s)", client->number,
						  watched->path, watched->child ? "children" : "data");
	}
}

static void
check_end(uint64_t expired)
{
	NodeView	view;
	int			leader = ensemble_leader();

	if (leader < 0)
		sim_violation("ensemble", "no leader at the end");
	if (ensemble_stats.expired != expired)
		sim_violation("sessions", "a session has expired while nothing failed");
	for (int i = 0; i < config.servers; i++)
	{
		const Tree *tree = &ensemble.servers[i].tree;

		if (!same_nodes(&ensemble.servers[leader].tree, tree, ensemble.servers[leader].tree.root))
			sim_violation("ensemble", "%s differs from the leader", host_name(ensemble_host(i)));
	}
	if (!ensemble_node("/count", &view) || view.stat->version < counted)
		sim_violation("ensemble", "acknowledged increments are lost");
	for (int i = 0; i < CLIENTS; i++)
	{
		if (clients[i].kept[0] != '\0' && !ensemble_node(clients[i].kept, &view))
			sim_violation("ensemble", "acknowledged node %s is lost", clients[i].kept);
		if (!clients[i].ready || !ensemble_session_lives(clients[i].session))
			sim_violation("sessions", "client %d is not connected", i);
		check_watches(&clients[i]);
	}
	for (TreeSession *session = ensemble.servers[leader].tree.first_session; session != NULL;
		 session = session->next)
	{
		bool		known = false;

		for (int i = 0; i < CLIENTS; i++)
			known = known || clients[i].session == session->id;
		if (!known)
			sim_violation("sessions", "a session of nobody still lives");
	}
}

static void
make_node(const char *path, int mode)
{
	Op			op = {0};
	int			err;

	op.kind = OP_CREATE;
	op.path = sim_strdup(path);
	op.mode = mode;
	op.len = -1;
	open_acl(&op);
	if (!ensemble_commit(&op, &err) || err != ZOK)
		sim_violation("ensemble", "could not make %s: %d", path, err);
	op_free(&op);
}

static void
begin(uint64_t seed)
{
	static const int sizes[] = {1, 3, 3, 5};
	static const int tick_times[] = {500, 1000, 2000};
	static const SimTime pauses[] = {SIM_MS(500), SIM_SECONDS(4), SIM_SECONDS(20)};
	Latency		latency = {100, 2000, SIM_MS(400), 0};

	sim_begin(seed);
	luck = chance_named("clients and faults");
	net_begin();
	memset(&config, 0, sizeof(config));
	config.servers = sizes[chance_below(&luck, 4)];
	config.tick_ms = tick_times[chance_below(&luck, 3)];
	config.sync_limit = (int) chance_between(&luck, 2, 5);
	config.init_limit = 2 * config.sync_limit;
	config.min_timeout_ms = 1000;
	config.max_timeout_ms = 60000;
	config.behaves_as_39 = chance_one_in(&luck, 2);
	config.container_check = SIM_SECONDS(5);
	config.throttle_one_in = chance_one_in(&luck, 4) ? 100 : 0;
	latency.slow_one_in = chance_one_in(&luck, 2) ? 100 : 0;
	net_latency(&latency);
	ensemble_begin(&config);
	memset(clients, 0, sizeof(clients));
	counted = 0;
	digest = seed;
	quiet = false;
	faults = true;
	fault_pause = pauses[chance_below(&luck, 3)];
}

static void
run(uint64_t seed)
{
	uint64_t	expired;

	current_seed = seed;
	begin(seed);
	while (ensemble_leader() < 0)
	{
		if (sim_now() > SIM_SECONDS(60))
			sim_violation("ensemble", "no leader after a minute");
		sim_run(sim_now() + SIM_SECONDS(1));
	}
	make_node("/dir0", 0);
	make_node("/dir1", 4);
	make_node("/count", 0);
	for (int i = 0; i < CLIENTS; i++)
	{
		char		name[24];

		snprintf(name, sizeof(name), "client%d", i);
		clients[i].number = i;
		clients[i].host = net_host(name);
		connect_now(&clients[i]);
		sim_at(sim_now(), client_step, &clients[i]);
	}
	sim_at(sim_now() + SIM_SECONDS(5), fail, NULL);
	sim_run(sim_now() + SIM_SECONDS(120));
	heal();
	sim_run(sim_now() + SIM_SECONDS(60));
	if (ensemble_serving() != config.servers)
		sim_violation("ensemble", "%d of %d servers serve a minute after the last fault",
					  ensemble_serving(), config.servers);
	quiet = true;
	sim_run(sim_now() + SIM_SECONDS(60));
	expired = ensemble_stats.expired;
	sim_run(sim_now() + SIM_SECONDS(60));
	check_end(expired);
	remember(ensemble_stats.transactions);
	printf("%6" PRIu64 " %016" PRIx64 "  servers %d requests %" PRIu64 " transactions %" PRIu64
		   " elections %" PRIu64 " expired %" PRIu64 " events %" PRIu64 "\n",
		   seed, digest, config.servers, ensemble_stats.requests, ensemble_stats.transactions,
		   ensemble_stats.elections, ensemble_stats.expired, ensemble_stats.events);
	ensemble_end();
	net_end();
	sim_end();
}

int
main(int argc, char **argv)
{
	uint64_t	seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
	uint64_t	first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

	sim_tracing = argc > 3;
	for (uint64_t seed = first; seed < first + seeds; seed++)
		run(seed);
	return 0;
}
