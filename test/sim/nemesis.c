/*-------------------------------------------------------------------------
 *
 * nemesis.c
 *	  Makes go wrong in the simulated world what the plan says, for so long.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "handle.h"
#include "own_watch.h"
#include "request.h"
#include "resolver.h"
#include "world.h"

/* A fault that ends later; of which round it is. */
typedef struct Fault
{
	void		(*end) (int which, int other);
	int			which;
	int			other;
	int			round;
} Fault;

/* Of the round whose faults are over. */
static int	healed;

static void
end_fault(void *argument)
{
	Fault	   *fault = argument;

	if (fault->round > healed)
		fault->end(fault->which, fault->other);
	free(fault);
}

/* A fault ends after that time, or with all others. */
static void
end_after(SimTime time, void (*end) (int which, int other), int which, int other)
{
	Fault	   *fault = sim_alloc(sizeof(Fault));

	fault->end = end;
	fault->which = which;
	fault->other = other;
	fault->round = healed < world->round ? world->round : world->round + 1;
	sim_at(sim_now() + time, end_fault, fault);
}

/* The fault of that line ends after its time. */
static void
end_later(const PlanLine *line, void (*end) (int which, int other), int which, int other)
{
	end_after(line->lasts, end, which, other);
}

/* The number of a server, which a line counts from 1 on; 0 is the leader, or the first. */
static int
server_of(int64_t server)
{
	int			leader = ensemble_leader();

	if (server == 0)
		return leader >= 0 ? leader : 0;
	return (int) ((server - 1) % world->ensemble.servers);
}

static Backend *
backend_of(const PlanLine *line)
{
	return &world->backends[line->client];
}

/*-------------------------------------------------------------------------
 * Servers
 *-------------------------------------------------------------------------
 */

static void
wake_server(int server, int other)
{
	(void) other;
	host_go_on(ensemble_host(server));
}

static void
stop_server(const PlanLine *line)
{
	int			server = server_of(line->server);

	sim_trace("fault: server %d is stopped", server);
	host_stop(ensemble_host(server));
	end_later(line, wake_server, server, 0);
}

/* In calm times, when all else is well: the next one, if that is the leader. */
static void
hang_server(const PlanLine *line)
{
	int			server = server_of(line->server);

	if (ensemble_leader() < 0 || world->ensemble.servers < 3 || !calm())
		return;
	if (server == ensemble_leader())
		server = (server + 1) % world->ensemble.servers;
	sim_trace("fault: server %d hangs", server);
	host_stop(ensemble_host(server));
	end_later(line, wake_server, server, 0);
	world->one_hangs = true;
	world->calm_from = sim_now() + line->lasts + CALMING;
}

static void
start_server(int server, int other)
{
	(void) other;
	ensemble_start(server);
}

static void
crash_server(const PlanLine *line)
{
	int			server = server_of(line->server);

	sim_trace("fault: server %d crashes", server);
	ensemble_crash(server);
	if (line->wiped && ensemble_wipe_server(server))
		sim_trace("fault: server %d has lost its disk", server);
	end_later(line, start_server, server, 0);
}

/* The power fails; servers start again one after the other. */
static void
crash_servers(const PlanLine *line)
{
	int			count = world->ensemble.servers;

	sim_trace("fault: all servers crash%s", line->wiped ? ", and have lost their disks" : "");
	if (line->wiped)
	{
		check_wiped();
		ensemble_wipe();
	}
	for (int i = 0; i < count; i++)
	{
		ensemble_crash(i);
		end_after(line->lasts * (i + 1) / count, start_server, i, 0);
	}
}

static void
calm_requests(int which, int other)
{
	(void) which;
	(void) other;
	ensemble_throttle(world->ensemble.throttle_one_in);
}

/* The servers refuse many requests, because there are too many. */
static void
overload_servers(const PlanLine *line)
{
	sim_trace("fault: servers throttle one request in %lld", (long long) line->one_in);
	ensemble_throttle((uint64_t) line->one_in);
	end_later(line, calm_requests, 0, 0);
}

static void
join_servers(int one, int other)
{
	net_join(ensemble_host(one), ensemble_host(other));
}

static void
cut_servers(const PlanLine *line)
{
	int			one = server_of(line->server);
	int			other = server_of(line->other);

	if (one == other)
		return;
	sim_trace("fault: servers %d and %d are cut off", one, other);
	net_cut(ensemble_host(one), ensemble_host(other));
	end_later(line, join_servers, one, other);
}

/*-------------------------------------------------------------------------
 * Clients
 *-------------------------------------------------------------------------
 */

static void
join_backend(int number, int server)
{
	net_join(world->backends[number].process->host, ensemble_host(server));
}

static void
cut_from(const PlanLine *line, const Backend *backend, int server)
{
	sim_trace("fault: %s is cut off from server %d", backend->process->name, server);
	net_cut(backend->process->host, ensemble_host(server));
	end_later(line, join_backend, backend->number, server);
}

/* From one server, or from all. */
static void
cut_client(const PlanLine *line)
{
	for (int i = 0; i < world->ensemble.servers; i++)
		if (line->server == 0 || server_of(line->server) == i)
			cut_from(line, backend_of(line), i);
}

/*
 * The network falls into two parts: clients go on with the servers in theirs, even if
 * these have no leader.
 */
static void
split_network(const PlanLine *line)
{
	sim_trace("fault: the network is split");
	for (int i = 0; i < world->ensemble.servers; i++)
	{
		for (int k = 0; k < i; k++)
			if (((line->side >> i) ^ (line->side >> k)) & 1)
			{
				net_cut(ensemble_host(i), ensemble_host(k));
				end_later(line, join_servers, i, k);
			}
		for (int k = 0; k < world->clients; k++)
			if (((line->side >> i) ^ (line->clients >> k)) & 1)
				cut_from(line, &world->backends[k], i);
	}
}

static void
wake_backend(int number, int life)
{
	if (world->backends[number].life == life)
		process_go_on(world->backends[number].process);
}

static void
stop_client(const PlanLine *line)
{
	Backend    *backend = backend_of(line);

	sim_trace("fault: %s is %s", backend->process->name,
			  line->suspended ? "suspended" : "stopped");
	process_stop(backend->process, line->suspended != 0);
	end_later(line, wake_backend, backend->number, backend->life);
}

/* The servers were started again with another maxSessionTimeout. */
static void
change_timeout(const PlanLine *line)
{
	int			longest = (int) (line->timeout / 1000);

	sim_trace("fault: the longest session timeout is %d ms", longest);
	if (longest < world->shortest_ms)
		world->shortest_ms = longest;
	ensemble_set_timeouts(0, longest);
}

/*
 * A client is hit at the next moment when a request of it is under way; or it is cut
 * off from its server first, and hit as soon as it has come to another one, which may
 * grant it another timeout.
 */
static void
lie_in_wait(const PlanLine *line)
{
	Backend    *backend = backend_of(line);
	const Library *library = backend->process->library;

	if (backend->client == NULL || library == NULL || library->current == NULL ||
		!zk_is_connected(backend->client))
		return;
	backend->ambush = line;
	backend->reconnects = backend->client->connection.status.reconnects;
	if (line->timeout > 0)
		change_timeout(line);
	if (line->reconnected)
		cut_from(line, backend, library->current->server);
}

/* After each step of a client: hits it, if that was waited for. */
void
nemesis_step(Backend *backend)
{
	const ZkClient *client = backend->client;
	const PlanLine *line = backend->ambush;

	if (line == NULL || client == NULL || !zk_is_connected(client) ||
		zk_requests_free(client) == ZK_MAX_IN_FLIGHT ||
		(line->reconnected && client->connection.status.reconnects == backend->reconnects))
		return;
	backend->ambush = NULL;
	if (line->cut)
		cut_client(line);
	else
		stop_client(line);
}

static void
kill_client(const PlanLine *line)
{
	backend_kill(backend_of(line));
}

/* A client gets no memory for a moment. */
static void
refuse_memory(const PlanLine *line)
{
	Process    *process = backend_of(line)->process;

	sim_trace("fault: %s gets no memory", process->name);
	process->fail_from = process->allocations + 1 + (uint64_t) line->after;
	process->fail_count = (uint64_t) line->count;
}

/*-------------------------------------------------------------------------
 * Others
 *-------------------------------------------------------------------------
 */

/* A child of a lock node, and how many there are. */
typedef struct Choice
{
	int64_t		pick;			/* of which the name is wanted; -1 for none */
	int64_t		seen;
	char		name[ZK_NAME_SIZE];
} Choice;

static void
choose_child(const char *name, const NodeView *view, void *argument)
{
	Choice	   *choice = argument;

	(void) view;
	if (choice->seen++ == choice->pick)
		snprintf(choice->name, sizeof(choice->name), "%s", name);
}

/* Chooses a child of the line's lock node, and its path; false if there is none. */
static bool
choose_by(const PlanLine *line, Choice *choice, char *path, size_t size)
{
	int			number = plan_first_lock(line);
	WorldLock  *lock = &world->lock[number];

	choice->pick = -1;
	choice->seen = 0;
	if (number < 0)
		return false;
	ensemble_children(lock->node, choose_child, choice);
	if (choice->seen == 0)
		return false;
	choice->pick = line->pick % choice->seen;
	choice->seen = 0;
	ensemble_children(lock->node, choose_child, choice);
	snprintf(path, size, "%s/%s", lock->node, choice->name);
	return true;
}

/* An administrator, or another program, deletes a contender. */
static void
delete_contender(const PlanLine *line)
{
	Choice		choice;
	char		path[160];
	Op			op = {.kind = OP_DELETE,.path = path,.len = -1,.version = -1};
	int			err;

	if (!choose_by(line, &choice, path, sizeof(path)))
		return;
	sim_trace("fault: %s is deleted", path);
	check_tampered(choice.name);
	ensemble_commit(&op, &err);
}

/* Another program asks for a lock, as Curator's Revoker does. */
static void
revoke_contender(const PlanLine *line)
{
	char		word[] = ZK_REVOCATION;
	Choice		choice;
	char		path[160];
	Op			op = {.kind = OP_SET,.path = path,.data = word,.len = sizeof(word) - 1,
	.version = -1};
	int			err;

	if (!choose_by(line, &choice, path, sizeof(path)) ||
		strncmp(choice.name, "_c_", 3) != 0)
		return;
	sim_trace("fault: %s is revoked", path);
	if (ensemble_commit(&op, &err) && err == ZOK)
		calm_revoked(choice.name);
}

/* Znodes whose ACLs change, behind those of the locks. */
static const char *const guarded[] = {
	WORLD_ROOT, WORLD_ROOT "/.zklock", WORLD_ROOT "/.zklock/waits", WORLD_ROOT "/.zklock/records"
};
#define GUARDED		((int) (sizeof(guarded) / sizeof(guarded[0])))

/* Anyone has these permissions on that znode from now on. */
static void
permit(int which, int permissions)
{
	const char *node = which < world->locks ? world->lock[which].node :
	guarded[which - world->locks];
	char		path[160];
	struct ACL	anyone = {permissions, {"world", "anyone"}};
	Op			op = {.kind = OP_SET_ACL,.path = path,.len = -1,.version = -1,.acl = {1, &anyone}};
	int			err;

	snprintf(path, sizeof(path), "%s", node);
	ensemble_commit(&op, &err);
}

static void
permit_all(int which, int other)
{
	(void) other;
	permit(which, ZOO_PERM_ALL);
}

/*
 * An administrator takes permissions away for a while: of the first lock, or of one
 * of those behind them, counted from 1 on.
 */
static void
deny(const PlanLine *line)
{
	int			which = line->guarded > 0 ?
	world->locks + (int) (line->guarded - 1) % GUARDED : plan_first_lock(line);

	if (which < 0)
		return;
	sim_trace("fault: permissions %x on znode %d", (unsigned int) line->permissions, which);
	world->denied = world->denied || line->guarded > 0;
	world->denied_at = sim_now();
	permit(which, (int) line->permissions);
	end_later(line, permit_all, which, 0);
}

/* All permissions are there again: for some time, because leaders may still change. */
static void
permit_again(void *argument)
{
	for (int i = 0; i < world->locks + GUARDED; i++)
		permit_all(i, 0);
	if (sim_now() < world->calm_from - SIM_SECONDS(4))
		sim_at(sim_now() + SIM_SECONDS(1), permit_again, argument);
}

static void
calm_network(int which, int other)
{
	Latency		normal = {200, 1500, SIM_MS(20), 200};

	(void) which;
	(void) other;
	net_latency(&normal);
}

/* All messages take long for a while. */
static void
slow_network(const PlanLine *line)
{
	Latency		slow = {SIM_MS(1), line->longest, SIM_MS(world->timeout_ms), 50};

	sim_trace("fault: the network is slow, up to %lld ms", (long long) slow.high / 1000);
	net_latency(&slow);
	end_later(line, calm_network, 0, 0);
}

static void
calm_resolver(int which, int other)
{
	(void) which;
	(void) other;
	resolver_be(0, 0);
}

/* Names are looked up slowly for a while, or not at all. */
static void
slow_resolver(const PlanLine *line)
{
	sim_trace("fault: the resolver is slow, and fails");
	resolver_be(line->longest, (uint64_t) line->one_in);
	end_later(line, calm_resolver, 0, 0);
}

static void (*const faults[PLAN_WORDS]) (const PlanLine *line) =
{
	[PLAN_STOP_SERVER] = stop_server,
		[PLAN_CRASH_SERVER] = crash_server,
		[PLAN_CRASH_SERVERS] = crash_servers,
		[PLAN_OVERLOAD] = overload_servers,
		[PLAN_CUT_SERVERS] = cut_servers,
		[PLAN_CUT_CLIENT] = cut_client,
		[PLAN_STOP_CLIENT] = stop_client,
		[PLAN_KILL_CLIENT] = kill_client,
		[PLAN_AMBUSH] = lie_in_wait,
		[PLAN_SPLIT_NETWORK] = split_network,
		[PLAN_HANG_SERVER] = hang_server,
		[PLAN_DELETE] = delete_contender,
		[PLAN_DENY] = deny,
		[PLAN_REVOKE] = revoke_contender,
		[PLAN_SLOW_NETWORK] = slow_network,
		[PLAN_SLOW_RESOLVER] = slow_resolver,
		[PLAN_REFUSE_MEMORY] = refuse_memory,
		[PLAN_CHANGE_TIMEOUT] = change_timeout,
};

static void
make_fault(void *argument)
{
	const PlanLine *line = argument;

	if (line->round != world->round || (line->round == healed && line->word < PLAN_HANG_SERVER))
		return;
	world_stats.faults++;
	faults[line->word] (line);
}

/* The faults of the round that begins now are to come. */
void
nemesis_begin(void)
{
	PlanLine   *line;

	healed = world->round - 1;
	world->denied = false;
	calm_network(0, 0);
	for (int i = 0; (line = plan_line(i)) != NULL; i++)
		if (line->round == world->round && faults[line->word] != NULL)
			sim_at(sim_now() + line->at, make_fault, line);
}

/* All faults are over. */
void
nemesis_heal(void)
{
	healed = world->round;
	sim_trace("all faults are over");
	calm_network(0, 0);
	calm_resolver(0, 0);
	calm_requests(0, 0);
	ensemble_set_timeouts(0, 0);
	permit_again(NULL);
	for (int i = 0; i < world->ensemble.servers; i++)
	{
		ensemble_start(i);
		wake_server(i, 0);
		for (int k = 0; k < i; k++)
			join_servers(i, k);
		for (int k = 0; k < world->clients; k++)
			join_backend(k, i);
	}
	for (int i = 0; i < world->clients; i++)
	{
		process_go_on(world->backends[i].process);
		world->backends[i].process->fail_count = 0;
		world->backends[i].ambush = NULL;
	}
}
