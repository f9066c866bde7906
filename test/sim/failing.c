/*-------------------------------------------------------------------------
 *
 * failing.c
 *	  Each allocation, thread and descriptor of a lock client fails in turn.
 *
 *	  failing [SEEDS]
 *	  failing SEED COUNT NUMBER
 *
 * One backend does everything that the lock client offers (script.c).  This is
 * repeated: the first time the first allocation fails, then the second one, and so
 * on until none is left; then the same with several in a row, and in other orders of
 * threads, one for each of so many seeds (10).  Whatever fails, no call may hang, no
 * contender may be left, and no memory.  With three arguments, prints the trace of
 * one run.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>

#include "script.h"
#include "violation.h"

static uint64_t number;			/* of the first allocation that fails */
static uint64_t in_a_row;
static uint64_t seed;
static const char *act = "start";	/* for reports */

void
violation_where(void)
{
	fprintf(stderr, "seed %llu, allocations %llu to %llu: %s: ",
			(unsigned long long) seed, (unsigned long long) number,
			(unsigned long long) (number + in_a_row - 1), act);
}

static void
play_all(void)
{
	for (int i = 0; i < SCRIPT_ACTS; i++)
	{
		act = script_acts[i].name;
		script_play(&script_acts[i]);
	}
	act = "stop";
}

/* Runs all of it; returns how many allocations there were. */
static uint64_t
run(void)
{
	TaskConfig	schedule = {.preempt_one_in = 10,.wake = 50};
	uint64_t	allocations;

	act = "start";
	script_begin(seed, &schedule);
	script_process->fail_from = number;
	script_process->fail_count = in_a_row;
	script_run(play_all);
	allocations = script_process->allocations;
	script_end();
	return allocations;
}

int
main(int argc, char **argv)
{
	static const uint64_t counts[] = {1, 2, 5, 25};
	uint64_t	seeds = argc == 2 ? strtoull(argv[1], NULL, 10) : 10;
	uint64_t	runs = 0;

	if (argc == 4)
	{
		sim_tracing = true;
		seed = strtoull(argv[1], NULL, 10);
		in_a_row = strtoull(argv[2], NULL, 10);
		number = strtoull(argv[3], NULL, 10);
		run();
		return 0;
	}
	for (seed = 1; seed <= seeds; seed++)
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		{
			in_a_row = counts[i];
			for (number = 1; run() >= number; number++)
				runs++;
		}
	printf("%llu runs, in each of which other allocations failed\n",
		   (unsigned long long) runs);
	return 0;
}
