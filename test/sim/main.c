/*-------------------------------------------------------------------------
 *
 * main.c
 *	  Simulates lock clients, one world for each seed.
 *
 *	  sim [-s SEED] [-n WORLDS] [-t SECONDS] [-v]
 *
 * -s is the first seed, -n how many worlds, one seed after the other, -t for how
 * many seconds of the machine's time at most; -v prints the trace.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

/*
 * Rounds of faults in a world, how long their effects last, and how long it rests
 * after each.
 */
#define ROUNDS		4
#define CALMING		(SIM_SECONDS(10) + SIM_MS(world->timeout_ms) * 4)
#define REST		(SIM_SECONDS(120) + SIM_MS(world->timeout_ms) * 16)

World		world_of_now;
WorldStats	world_stats;
static uint64_t seed;
static Chance chance;			/* of how the world is */

void
sim_violation(const char *rule, const char *fmt,...)
{
	va_list		args;

	fflush(stdout);
	fprintf(stderr, "seed %llu: %s: ", (unsigned long long) seed, rule);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, " (%lld.%06lld s)\n", (long long) (sim_now() / 1000000),
			(long long) (sim_now() % 1000000));
	exit(1);
}

/* The seed chooses how the world is. */
static void
choose_world(void)
{
	static const int server_counts[] = {1, 3, 3, 3, 5};
	static const int timeouts[] = {4000, 6000, 10000, 20000, 40000};

	memset(world, 0, sizeof(*world));
	world->ensemble.servers = server_counts[chance_below(&chance, 5)];
	world->timeout_ms = timeouts[chance_below(&chance, 5)];
	world->ensemble.tick_ms = world->timeout_ms > 4000 ? 2000 : 1000;
	world->ensemble.sync_limit = 5;
	world->ensemble.behaves_as_39 = chance_one_in(&chance, 2);
	world->ensemble.container_check = SIM_SECONDS(60);
	world->ensemble.throttle_one_in = chance_one_in(&chance, 8) ? 200 : 0;
	world->clients = 2 + (int) chance_below(&chance, chance_one_in(&chance, 16) ? 40 : 6);
	world->locks = 1 + (int) chance_below(&chance, MAX_LOCKS);
	world->delay = chance_between(&chance, 0, SIM_MS(world->timeout_ms));
	world->busy = SIM_SECONDS(60) << chance_below(&chance, 6);
	world->fault_every = (SIM_MS(world->timeout_ms) << chance_below(&chance, 5)) / 4;
	world->idle = SIM_SECONDS(20) << chance_below(&chance, 6);
	for (int i = 0; i < world->ensemble.servers; i++)
	{
		size_t		len = strlen(world->servers);

		snprintf(world->servers + len, sizeof(world->servers) - len,
				 "%s10.0.0.%d:2181", i > 0 ? "," : "", i + 1);
	}
	for (int i = 0; i < world->locks; i++)
	{
		snprintf(world->lock[i].node, sizeof(world->lock[i].node), "%s/%s%c", WORLD_ROOT,
				 chance_one_in(&chance, 4) ? "a/b/" : "", 'a' + i);
		world->lock[i].permits = chance_one_in(&chance, 4) ? 1 + (int) chance_below(&chance, 4) : 0;
	}
}

static void
choose_schedule(TaskConfig *config)
{
	config->preempt_one_in = UINT64_C(2) << chance_below(&chance, 6);
	config->pause_one_in = UINT64_C(1000) << chance_below(&chance, 6);
	config->pause = SIM_MS(1) << chance_below(&chance, 14);
	config->wake = 1 + (SimTime) chance_below(&chance, 200);
	world->steady = config->pause <= SIM_MS(world->timeout_ms) / 40 &&
		world->ensemble.throttle_one_in == 0;
}

/* One world, from its beginning to its end. */
static SimTime
run_world(void)
{
	TaskConfig	config;
	SimTime		end;

	sim_begin(seed);
	chance = chance_named("world");
	net_begin();
	choose_world();
	choose_schedule(&config);
	ensemble_begin(&world->ensemble);
	tasks_begin(&config);
	check_begin();
	calm_begin();
	for (int i = 0; i < world->clients; i++)
	{
		world->backends[i].number = i;
		backend_start(&world->backends[i]);
	}
	for (int round = 0; round < ROUNDS; round++)
	{
		world->resting = false;
		world->keeping = chance_one_in(&chance, 2);
		world->calm_from = SIM_NEVER;
		nemesis_begin(sim_now() + world->busy);
		sim_run(sim_now() + world->busy);
		nemesis_heal();
		world->calm_from = sim_now() + CALMING;
		sim_run(sim_now() + REST / 2);
		world->resting = true;
		sim_run(sim_now() + REST);
		check_at_rest();
	}
	end = sim_now();
	sim_after = NULL;
	for (int i = 0; i < world->clients; i++)
		process_kill(world->backends[i].process);
	ensemble_end();
	net_end();
	sim_end();
	tasks_end();
	return end;
}

static double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

int
main(int argc, char **argv)
{
	double		begin = seconds();
	double		limit = 1e9;
	double		simulated = 0;
	long		worlds = 1;
	long		done = 0;
	int			option;

	seed = 1;
	while ((option = getopt(argc, argv, "s:n:t:v")) != -1)
	{
		if (option == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (option == 'n')
			worlds = strtol(optarg, NULL, 10);
		else if (option == 't')
		{
			limit = strtod(optarg, NULL);
			worlds = 1000000000;
		}
		else if (option == 'v')
			sim_tracing = true;
		else
			return 2;
	}
	for (; done < worlds && seconds() - begin < limit; done++, seed++)
		simulated += (double) run_world() / 1e6;
	printf("%ld worlds, %.1f hours, %llu faults, %llu grants, %llu losses, %llu kills, "
		   "%llu steps in %.1f s\n",
		   done, simulated / 3600, (unsigned long long) world_stats.faults,
		   (unsigned long long) world_stats.grants, (unsigned long long) world_stats.losses,
		   (unsigned long long) world_stats.kills, (unsigned long long) world_stats.checks,
		   seconds() - begin);
	return 0;
}
