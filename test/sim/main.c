/*-------------------------------------------------------------------------
 *
 * main.c
 *	  Simulates lock clients, one world for each seed or plan.
 *
 *	  sim [-s SEED] [-n WORLDS] [-t SECONDS] [-j JOBS] [-p PLAN] [-f TEXT] [-v]
 *	  sim -r PLAN [-p PLAN] [-f TEXT] [-v]
 *
 * -s is the first seed, -n how many worlds, one seed after the other, -t for how
 * many seconds of the machine's time at most, -j in how many processes.  -p is a
 * file for the plan of the last world, above all if something is violated in it.
 * -r runs the world of a plan.
 * -f reports a violation where the trace has that text.  -v prints the trace.
 *
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "workers.h"
#include "world.h"

/* Rounds of faults in a world, and how long it rests after each. */
#define ROUNDS		4
#define REST		(SIM_SECONDS(120) + SIM_MS(world->timeout_ms) * 16)

/* Seconds of the processor's time that a world needs at most, on a slow machine. */
#ifdef __SANITIZE_ADDRESS__
#define LONGEST		300
#else
#define LONGEST		60
#endif

World		world_of_now;
WorldStats	world_stats;
static uint64_t seed = 1;
static long worlds = 1;
static double limit = 1e9;		/* seconds of the machine's time */
static int	jobs = 1;

/* What a worker has done. */
typedef struct Done
{
	long		worlds;
	SimTime		simulated;
	WorldStats	stats;
} Done;

/* In memory that the workers share. */
static struct
{
	atomic_flag violated;		/* one has found something */
	Done		done[WORKERS_MAX];	/* each writes its own */
}		   *shared;

static const char *plan_file;	/* to be written; or NULL */
static bool replays;			/* the plan has been read */
static const char *forbidden;	/* in the trace; or NULL */

void
sim_violation(const char *rule, const char *fmt,...)
{
	va_list		args;

	fflush(stdout);
	while (jobs > 1 && atomic_flag_test_and_set(&shared->violated))
		pause();				/* until killed: one plan is enough */
	if (plan_file != NULL)
		plan_write(plan_file);
	fprintf(stderr, "seed %llu: %s: ", (unsigned long long) seed, rule);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, " (%lld.%06lld s)\n", (long long) (sim_now() / 1000000),
			(long long) (sim_now() % 1000000));
	exit(1);
}

/* A line of the trace. */
static void
hear(const char *line)
{
	if (forbidden != NULL && strstr(line, forbidden) != NULL)
		sim_violation("forbidden", "%s", line);
	plan_hear(line);
}

/* The program is about to die; tasks have small stacks. */
static void
die(int number)
{
	signal(number, SIG_DFL);
	if (number == SIGVTALRM)
		sim_violation("hang", "a world takes more than %d s of the processor", LONGEST);
	sim_violation("crash", "signal %d", number);
}

static void
catch_signals(void)
{
	static char memory[256 * 1024];
	stack_t		stack = {.ss_sp = memory,.ss_size = sizeof(memory)};
	struct sigaction action = {.sa_handler = die,.sa_flags = SA_ONSTACK};

	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGABRT, &action, NULL);
	sigaction(SIGVTALRM, &action, NULL);
}

/* The line says something about the servers or the session. */
static void
apply_to_servers(const PlanLine *line)
{
	if (line->word == PLAN_ENSEMBLE)
	{
		world->ensemble.servers = (int) line->servers;
		world->ensemble.behaves_as_39 = line->as_39 != 0;
		world->ensemble.sync_limit = line->sync_limit > 0 ? (int) line->sync_limit : 5;
	}
	else if (line->word == PLAN_SESSION)
	{
		if (line->timeout > 0)
			world->timeout_ms = world->shortest_ms = (int) (line->timeout / 1000);
		world->tls = line->tls != 0;
	}
	else if (line->word == PLAN_THROTTLE)
		world->ensemble.throttle_one_in = (uint64_t) line->one_in;
}

static int
at_least(int count, int64_t more)
{
	return count > (int) more ? count : (int) more;
}

/* The line says something about clients and locks, or is about some of them. */
static void
apply_to_clients(const PlanLine *line)
{
	world->identity |= line->word == PLAN_CLIENTS && line->identity != 0;
	world->clients = at_least(world->clients,
							  line->word == PLAN_CLIENTS ? line->count : line->client + 1);
	world->locks = at_least(world->locks, line->word == PLAN_LOCKS ? line->count :
							64 - __builtin_clzll((uint64_t) line->locks | 1));
	if (line->client < 0 || world->clients > MAX_CLIENTS || world->locks > MAX_LOCKS)
		sim_violation("plan", "a client or a lock is one too many");
	if (line->word == PLAN_LOCK)
	{
		int			i = plan_first_lock(line);

		world->lock[i].permits = (int) line->permits;
		snprintf(world->lock[i].node, sizeof(world->lock[i].node), "%s/%s%c", WORLD_ROOT,
				 line->deep ? "a/b/" : "", 'a' + i);
	}
}

/* The line says something about threads and clocks. */
static void
apply_to_schedule(const PlanLine *line, TaskConfig *config)
{
	if (line->word == PLAN_PREEMPT)
		config->preempt_one_in = (uint64_t) line->one_in;
	else if (line->word == PLAN_PAUSE)
	{
		config->pause_one_in = (uint64_t) line->one_in;
		config->pause = line->longest;
	}
	else if (line->word == PLAN_WAKE)
		config->wake = line->longest;
	else if (line->word == PLAN_CLOCKS)
	{
		world->slow = line->slow;
		world->fast = line->fast;
	}
}

/* Makes the world, and how tasks are scheduled, as the plan says. */
static void
apply_plan(TaskConfig *config)
{
	const PlanLine *line;

	world->ensemble.servers = 1;
	world->ensemble.sync_limit = 5;
	world->timeout_ms = world->shortest_ms = 4000;
	for (int i = 0; i < MAX_LOCKS; i++)
		snprintf(world->lock[i].node, sizeof(world->lock[i].node), WORLD_ROOT "/%c", 'a' + i);
	for (int i = 0; (line = plan_line(i)) != NULL; i++)
	{
		apply_to_servers(line);
		apply_to_clients(line);
		apply_to_schedule(line, config);
	}
	world->ensemble.init_limit = 10;
	world->ensemble.tick_ms = world->timeout_ms > 4000 ? 2000 : 1000;
	world->ensemble.container_check = SIM_SECONDS(60);
	for (int i = 0; i < world->ensemble.servers; i++)
	{
		size_t		len = strlen(world->servers);

		snprintf(world->servers + len, sizeof(world->servers) - len,
				 "%s10.0.0.%d:2181", i > 0 ? "," : "", i + 1);
	}
	world->pause = config->pause;
	world->steady = config->pause <= SIM_MS(world->timeout_ms) / 40 &&
		world->ensemble.throttle_one_in == 0;
	world->quick = world->steady && config->pause <= SIM_MS(20);
}

/* Returns the line of the next round, or NULL. */
static const PlanLine *
next_round(void)
{
	const PlanLine *line;

	if (!replays && world->round < ROUNDS)
		choose_round(world->round + 1, CALMING, REST / 2);
	for (int i = 0; (line = plan_line(i)) != NULL; i++)
		if (line->word == PLAN_ROUND && line->round == world->round + 1)
			return line;
	return NULL;
}

/* What goes wrong, and what clients do, until they rest. */
static void
run_round(const PlanLine *line)
{
	world->round++;
	world->round_began = sim_now();
	world->resting = false;
	world->keeping = line->keeping != 0;
	world->healed_at = SIM_NEVER;
	world->calm_from = SIM_NEVER;
	world->one_hangs = false;
	nemesis_begin();
	sim_run(sim_now() + line->busy);
	world->healed_at = sim_now();
	world->calm_from = sim_now() + CALMING;
	nemesis_heal();
	sim_run(sim_now() + REST / 2);
	world->resting = true;
	sim_run(sim_now() + REST);
	check_at_rest();
}

/* Makes the world. */
static void
begin_world(void)
{
	TaskConfig	config = {0};

	memset(world, 0, sizeof(*world));
	world->choosing = !replays;
	sim_begin(seed);
	if (!replays)
		choose_world(seed);
	net_begin();
	apply_plan(&config);
	ensemble_begin(&world->ensemble);
	tasks_begin(&config);
	check_begin();
	calm_begin();
	world->resting = true;
	for (int i = 0; i < world->clients; i++)
	{
		world->backends[i].number = i;
		backend_start(&world->backends[i]);
	}
}

/* One world, from its beginning to its end. */
static SimTime
run_world(void)
{
	struct itimerval longest = {.it_value.tv_sec = LONGEST};
	const PlanLine *round;
	SimTime		end;

	setitimer(ITIMER_VIRTUAL, &longest, NULL);
	begin_world();
	while ((round = next_round()) != NULL)
		run_round(round);
	end = sim_now();
	sim_after = NULL;
	for (int i = 0; i < world->clients; i++)
		process_kill(world->backends[i].process);
	ensemble_end();
	net_end();
	sim_end();
	tasks_end();
	plan_check_expected();
	return end;
}

/* Reads a plan, and the seed that is in it. */
static void
read_plan(const char *file)
{
	const PlanLine *line;

	plan_read(file);
	replays = true;
	for (int i = 0; (line = plan_line(i)) != NULL; i++)
		if (line->word == PLAN_CHANCE)
			seed = (uint64_t) line->seed;
}

static double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

/* The worlds of a worker. */
static void
run_worlds(int number)
{
	double		begin = seconds();
	Done	   *done = &shared->done[number];

	seed += (uint64_t) number;
	for (long i = number; i < worlds && seconds() - begin < limit; i += jobs)
	{
		done->simulated += run_world();
		done->worlds++;
		seed += (uint64_t) jobs;
	}
	done->stats = world_stats;
	if (plan_file != NULL && number == 0)
		plan_write(plan_file);
}

static void
print_results(double took)
{
	Done		sum = {0};

	for (int i = 0; i < jobs; i++)
	{
		const Done *done = &shared->done[i];

		sum.worlds += done->worlds;
		sum.simulated += done->simulated;
		sum.stats.faults += done->stats.faults;
		sum.stats.grants += done->stats.grants;
		sum.stats.losses += done->stats.losses;
		sum.stats.kills += done->stats.kills;
		sum.stats.checks += done->stats.checks;
	}
	printf("%ld worlds, %.1f hours, %llu faults, %llu grants, %llu losses, %llu kills, "
		   "%llu steps in %.1f s\n",
		   sum.worlds, (double) sum.simulated / 3600e6, (unsigned long long) sum.stats.faults,
		   (unsigned long long) sum.stats.grants, (unsigned long long) sum.stats.losses,
		   (unsigned long long) sum.stats.kills, (unsigned long long) sum.stats.checks, took);
}

/* Sets what an option says; false if there is no such option. */
static bool
take_option(int option)
{
	if (option == 's')
		seed = strtoull(optarg, NULL, 0);
	else if (option == 'n')
		worlds = strtol(optarg, NULL, 10);
	else if (option == 't')
	{
		limit = strtod(optarg, NULL);
		worlds = LONG_MAX;
	}
	else if (option == 'j')
		jobs = atoi(optarg);
	else if (option == 'p')
		plan_file = optarg;
	else if (option == 'r')
		read_plan(optarg);
	else if (option == 'f')
		forbidden = optarg;
	else if (option == 'v')
		sim_tracing = true;
	else
		return false;
	return jobs >= 1 && jobs <= WORKERS_MAX;
}

int
main(int argc, char **argv)
{
	double		begin = seconds();
	int			option;

	while ((option = getopt(argc, argv, "s:n:t:j:p:r:f:v")) != -1)
		if (!take_option(option))
			return 2;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				  -1, 0);
	if (shared == MAP_FAILED)
		return 2;
	catch_signals();
	sim_hear = forbidden != NULL || plan_expects() ? hear : NULL;
	if (!workers_run(jobs, run_worlds))
		return 1;
	print_results(seconds() - begin);
	return 0;
}
