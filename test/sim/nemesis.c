/*-------------------------------------------------------------------------
 *
 * nemesis.c
 *	  What goes wrong in the simulated world, and for how long.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resolver.h"
#include "world.h"

static struct
{
	SimTime		until;			/* no fault begins after that */
	uint64_t	round;			/* of healing: a fault of an earlier one is
								 * over */
	Chance		chance;
}			nemesis;

/* A fault that ends later. */
typedef struct Fault
{
	void		(*end) (int which, int other);
	int			which;
	int			other;
	uint64_t	round;
} Fault;

static void
end_fault(void *argument)
{
	Fault	   *fault = argument;

	if (fault->round == nemesis.round)
		fault->end(fault->which, fault->other);
	free(fault);
}

/* The fault ends after a time that suits what it is to test. */
static void
end_later(void (*end) (int which, int other), int which, int other, SimTime longest)
{
	Fault	   *fault = sim_alloc(sizeof(Fault));

	fault->end = end;
	fault->which = which;
	fault->other = other;
	fault->round = nemesis.round;
	sim_at(sim_now() + chance_between(&nemesis.chance, 0, longest >> chance_below(&nemesis.chance, 6)), end_fault, fault);
}

static int
some_server(void)
{
	int			leader = ensemble_leader();

	if (leader >= 0 && chance_one_in(&nemesis.chance, 3))
		return leader;
	return (int) chance_below(&nemesis.chance, (uint64_t) world->ensemble.servers);
}

static int
some_backend(void)
{
	return (int) chance_below(&nemesis.chance, (uint64_t) world->clients);
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
stop_server(void)
{
	int			server = some_server();

	sim_trace("fault: server %d is stopped", server);
	host_stop(ensemble_host(server));
	end_later(wake_server, server, 0, SIM_MS(world->timeout_ms) * 3);
}

static void
start_server(int server, int other)
{
	(void) other;
	ensemble_start(server);
}

static void
crash_server(void)
{
	int			server = some_server();

	sim_trace("fault: server %d crashes", server);
	ensemble_crash(server);
	end_later(start_server, server, 0, SIM_MS(world->timeout_ms) * 3);
}

static void
join_servers(int one, int other)
{
	net_join(ensemble_host(one), ensemble_host(other));
}

static void
cut_servers(void)
{
	int			one = some_server();
	int			other = (int) chance_below(&nemesis.chance, (uint64_t) world->ensemble.servers);

	if (one == other)
		return;
	sim_trace("fault: servers %d and %d are cut off", one, other);
	net_cut(ensemble_host(one), ensemble_host(other));
	end_later(join_servers, one, other, SIM_MS(world->timeout_ms) * 3);
}

/*-------------------------------------------------------------------------
 * Backends
 *-------------------------------------------------------------------------
 */

static void
join_backend(int number, int server)
{
	net_join(world->backends[number].process->host, ensemble_host(server));
}

static void
cut_backend(void)
{
	int			number = some_backend();
	bool		all = chance_one_in(&nemesis.chance, 2);
	int			server = some_server();
	SimTime		longest = SIM_MS(world->timeout_ms) * 4;

	for (int i = 0; i < world->ensemble.servers; i++)
	{
		if (!all && i != server)
			continue;
		sim_trace("fault: %s is cut off from server %d",
				  world->backends[number].process->name, i);
		net_cut(world->backends[number].process->host, ensemble_host(i));
		end_later(join_backend, number, i, longest);
	}
}

static void
wake_backend(int number, int life)
{
	if (world->backends[number].life == life)
		process_go_on(world->backends[number].process);
}

static void
stop_backend(void)
{
	Backend    *backend = &world->backends[some_backend()];
	bool		suspend = chance_one_in(&nemesis.chance, 3);

	sim_trace("fault: %s is %s", backend->process->name, suspend ? "suspended" : "stopped");
	process_stop(backend->process, suspend);
	end_later(wake_backend, backend->number, backend->life,
			  SIM_MS(world->timeout_ms) * (chance_one_in(&nemesis.chance, 8) ? 20 : 2));
}

static void
kill_backend(void)
{
	backend_kill(&world->backends[some_backend()]);
}

/*-------------------------------------------------------------------------
 * Others
 *-------------------------------------------------------------------------
 */

/* A child of a lock node, chosen at random. */
typedef struct Choice
{
	int			seen;
	char		name[ZK_NAME_SIZE];
} Choice;

static void
choose_child(const char *name, void *argument)
{
	Choice	   *choice = argument;

	if (chance_one_in(&nemesis.chance, (uint64_t) ++choice->seen))
		snprintf(choice->name, sizeof(choice->name), "%s", name);
}

/* An administrator, or another program, deletes a contender. */
void
nemesis_delete(void)
{
	WorldLock  *lock = &world->lock[chance_below(&nemesis.chance, (uint64_t) world->locks)];
	Choice		choice = {0};
	char		path[160];
	Op			op = {.kind = OP_DELETE,.path = path,.len = -1,.version = -1};
	int			err;

	ensemble_children(lock->node, choose_child, &choice);
	if (choice.seen == 0)
		return;
	snprintf(path, sizeof(path), "%s/%s", lock->node, choice.name);
	sim_trace("fault: %s is deleted", path);
	check_tampered(choice.name);
	ensemble_commit(&op, &err);
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
slow_network(void)
{
	Latency		slow = {
		SIM_MS(1), chance_between(&nemesis.chance, SIM_MS(2), SIM_MS(world->timeout_ms) / 4),
		SIM_MS(world->timeout_ms), 50
	};

	sim_trace("fault: the network is slow, up to %lld ms", (long long) slow.high / 1000);
	net_latency(&slow);
	end_later(calm_network, 0, 0, SIM_MS(world->timeout_ms) * 4);
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
slow_resolver(void)
{
	sim_trace("fault: the resolver is slow, and fails");
	resolver_be(SIM_MS(world->timeout_ms) >> chance_below(&nemesis.chance, 6),
				chance_below(&nemesis.chance, 4));
	end_later(calm_resolver, 0, 0, SIM_MS(world->timeout_ms) * 4);
}

/* The servers were started again with another maxSessionTimeout. */
static void
change_timeouts(void)
{
	int			longest = (int) chance_between(&nemesis.chance, world->ensemble.tick_ms * 2,
											   world->timeout_ms * 3 / 2);

	sim_trace("fault: the longest session timeout is %d ms", longest);
	ensemble_set_timeouts(0, longest);
}

/* A client gets no memory for a moment. */
static void
fail_memory(void)
{
	Process    *process = world->backends[some_backend()].process;

	sim_trace("fault: %s gets no memory", process->name);
	process->fail_from = process->allocations + 1 + chance_below(&nemesis.chance, 20);
	process->fail_count = 1 + chance_below(&nemesis.chance, 4);
}

static void (*const faults[]) (void) =
{
	stop_server, stop_server, crash_server, crash_server, cut_servers, cut_servers,
		cut_backend, cut_backend, cut_backend, stop_backend, stop_backend, stop_backend,
		kill_backend, nemesis_delete, slow_network, fail_memory, change_timeouts,
		slow_resolver
};

static void
next_fault(void *argument)
{
	uint64_t	round = (uint64_t) (uintptr_t) argument;

	if (round != nemesis.round || sim_now() >= nemesis.until)
		return;
	faults[chance_below(&nemesis.chance, sizeof(faults) / sizeof(faults[0]))] ();
	world_stats.faults++;
	sim_at(sim_now() + chance_between(&nemesis.chance, 0, 2 * world->fault_every), next_fault, argument);
}

/* Faults come from now on until that time. */
void
nemesis_begin(SimTime until)
{
	nemesis.until = until;
	nemesis.chance = chance_named("faults from %lld", (long long) sim_now());
	calm_network(0, 0);
	sim_at(sim_now() + world->fault_every, next_fault, (void *) (uintptr_t) nemesis.round);
}

/* All faults are over. */
void
nemesis_heal(void)
{
	nemesis.round++;
	sim_trace("all faults are over");
	calm_network(0, 0);
	calm_resolver(0, 0);
	ensemble_set_timeouts(0, 0);
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
	}
}
