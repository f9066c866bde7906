/*-------------------------------------------------------------------------
 *
 * on_simulated.c
 *	  Random operations on a simulated server, by the simulated library.
 *
 *	  on_simulated VERSION SEED COUNT
 *
 * VERSION is 3.8 or 3.9.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ensemble.h"
#include "operations.h"
#include "task.h"

static uint64_t seed;
static int	count;
static bool done;

void
sim_violation(const char *rule, const char *fmt,...)
{
	va_list		args;

	fprintf(stderr, "%s: ", rule);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static void *
run(void *argument)
{
	(void) argument;
	operations_run(stdout, "10.0.0.1:2181", seed, count);
	done = true;
	return NULL;
}

int
main(int argc, char **argv)
{
	EnsembleConfig config = {
		.servers = 1,.tick_ms = 2000,.init_limit = 10,.sync_limit = 5,
		.container_check = SIM_SECONDS(1000000)
	};
	TaskConfig	schedule = {.preempt_one_in = 10,.wake = 50};

	if (argc != 4)
		return 2;
	config.behaves_as_39 = strcmp(argv[1], "3.9") == 0;
	seed = strtoull(argv[2], NULL, 0);
	count = atoi(argv[3]);
	sim_begin(seed);
	net_begin();
	ensemble_begin(&config);
	tasks_begin(&schedule);
	task_start(process_make("client"), "main", run, NULL);
	while (!done)
		sim_run(sim_now() + SIM_SECONDS(1));
	return 0;
}
