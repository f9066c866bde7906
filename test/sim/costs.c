/*-------------------------------------------------------------------------
 *
 * costs.c
 *	  What each thing that a client does costs.
 *
 * A backend does each thing once (script.c, acts.c, asks.c), in a world in which a
 * message takes a millisecond and everything else no time.  Printed is how long it
 * takes, what the server gets and sends, and how often the helper and the backend
 * wait for something: first when all is well, then summed up over moments at which
 * something happens.  costs.out has what is to come out.  So a request more, a timer
 * too early, or a contender that begins too late is seen at once, where all that is
 * promised is kept nevertheless.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "script.h"
#include "violation.h"

/* Faults come so many milliseconds after an act has begun, and half of one. */
#define MOMENTS		8

/* Some only after that time. */
#define LATER		SIM_MS(3000)

/* After each act, until all is as it was. */
#define SETTLING	SIM_SECONDS(20)

typedef struct Cost
{
	SimTime		took;
	uint64_t	requests;
	uint64_t	events;
	uint64_t	helper;
	uint64_t	backend;
} Cost;

static const Act *act;			/* for reports */

void
violation_where(void)
{
	fprintf(stderr, "%s: ", act != NULL ? act->name : "start");
}

/*-------------------------------------------------------------------------
 * Weather
 *-------------------------------------------------------------------------
 */

/* The server fails, and comes back. */
static void
crash(void *argument)
{
	(void) argument;
	ensemble_crash(0);
}

static void
restart(void *argument)
{
	(void) argument;
	ensemble_start(0);
}

/* It stands still. */
static void
stall(void *argument)
{
	(void) argument;
	host_stop(ensemble_host(0));
}

static void
go_on(void *argument)
{
	(void) argument;
	host_go_on(ensemble_host(0));
}

/* The client stands still. */
static void
pause_client(void *argument)
{
	(void) argument;
	process_stop(script_process, false);
}

static void
wake_client(void *argument)
{
	(void) argument;
	process_go_on(script_process);
}

/* They cannot reach each other. */
static void
cut(void *argument)
{
	(void) argument;
	net_cut(script_process->host, ensemble_host(0));
}

static void
join(void *argument)
{
	(void) argument;
	net_join(script_process->host, ensemble_host(0));
}

typedef struct Weather
{
	const char *name;
	SimTime		after;			/* since an act has begun; those that are over
								 * by then are left out */
	SimAction	begin;			/* NULL if nothing happens */
	SimAction	end;
	SimTime		lasts;
} Weather;

static const Weather weathers[] = {
	{"calm", 0, NULL, NULL, 0},
	{"crashes", 0, crash, restart, SIM_MS(300)},
	{"stalls", 0, stall, go_on, SIM_MS(SCRIPT_TIMEOUT_MS) / 4},
	{"pauses", 0, pause_client, wake_client, SIM_MS(SCRIPT_TIMEOUT_MS) * 3 / 4},
	{"cuts", 0, cut, join, SIM_MS(SCRIPT_TIMEOUT_MS) / 2},
	{"expiries", 0, cut, join, SIM_MS(SCRIPT_TIMEOUT_MS) * 3},
	{"crashes+", LATER, crash, restart, SIM_MS(300)},
	{"expiries+", LATER, cut, join, SIM_MS(SCRIPT_TIMEOUT_MS) * 3},
};

#define WEATHERS	((int) (sizeof(weathers) / sizeof(weathers[0])))

static Cost
now(void)
{
	Cost		cost = {
		sim_now(), ensemble_stats.requests, ensemble_stats.events,
		script_process->waits_timed, script_process->polls
	};

	return cost;
}

/* Plays the act, and adds what it costs. */
static void
play(Cost *sum)
{
	Cost		before = now();
	Cost		after;

	script_play(act);
	sum->took += sim_now() - before.took;
	task_sleep(SETTLING);
	after = now();
	sum->requests += after.requests - before.requests;
	sum->events += after.events - before.events;
	sum->helper += after.helper - before.helper;
	sum->backend += after.backend - before.backend;
}

/* Prints what the act came to at each moment, and how often. */
static void
print_ends(char ends[][SCRIPT_ENDS], int count)
{
	for (int i = 0; i < count; i++)
	{
		int			times = 0;

		for (int k = 0; k < count; k++)
		{
			if (strcmp(ends[k], ends[i]) != 0)
				continue;
			if (k < i)
				break;
			times++;
		}
		if (times > 0 && ends[i][0] != '\0')
			printf("%s%s", i > 0 ? ", " : "  ", ends[i]);
		if (times > 1 && ends[i][0] != '\0')
			printf("*%d", times);
	}
	putchar('\n');
}

/* Plays it in that weather, prints what that costs, and returns how long it took. */
static SimTime
play_in(const Weather *weather)
{
	int			moments = weather->begin != NULL ? MOMENTS : 1;
	char		ends[MOMENTS][SCRIPT_ENDS];
	Cost		sum = {0};

	for (int moment = 0; moment < moments; moment++)
	{
		SimTime		at = sim_now() + weather->after + SIM_MS(moment) + SIM_MS(1) / 2;

		if (weather->begin != NULL)
		{
			sim_at(at, weather->begin, NULL);
			sim_at(at + weather->lasts, weather->end, NULL);
		}
		play(&sum);
		strcpy(ends[moment], script_ends);
	}
	printf("%-29s %-9s %6lld.%03d s %5d requests %4d events %5d + %3d waits",
		   act->name, weather->name, (long long) sum.took / 1000000,
		   (int) (sum.took / 1000 % 1000), (int) sum.requests, (int) sum.events,
		   (int) sum.helper, (int) sum.backend);
	print_ends(ends, moments);
	return sum.took;
}

static void
play_each(const Act *acts, int count)
{
	for (act = acts; act < acts + count; act++)
	{
		SimTime		calm = play_in(&weathers[0]);

		for (int i = 1; i < WEATHERS; i++)
			if (weathers[i].after < calm)
				(void) play_in(&weathers[i]);
	}
}

static void
play_all(void)
{
	play_each(script_acts, SCRIPT_ACTS);
	play_each(script_more_acts, script_more_count);
	play_each(script_questions, script_question_count);
}

int
main(int argc, char **argv)
{
	Latency		latency = {.low = SIM_MS(1),.high = SIM_MS(1)};
	TaskConfig	schedule = {0};

	(void) argv;
	sim_tracing = argc > 1;
	script_begin(1, &schedule);
	net_latency(&latency);
	script_run(play_all);
	script_end();
	return 0;
}
