/*-------------------------------------------------------------------------
 *
 * on_simulated.c
 *	  Random operations on simulated servers, by the simulated library.
 *
 *	  on_simulated VERSION SERVERS SEED COUNT
 *
 * VERSION is 3.8 or 3.9, and SERVERS how many there are.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ensemble.h"
#include "handle.h"
#include "operations.h"
#include "violation.h"

/* The number of a machine without a server. */
#define NOWHERE		(ENSEMBLE_MAX - 1)

static int	leads_to[MAX_SLOTS];
static Servers servers;
static uint64_t seed;
static int	count;
static bool done;

void
violation_where(void)
{
}

static const char *
address(int slot)
{
	static char text[32];

	snprintf(text, sizeof(text), "10.0.0.%d:2181", leads_to[slot] + 1);
	return text;
}

static void
lead(int slot, zhandle_t *zh, int server)
{
	leads_to[slot] = server >= 0 ? server : NOWHERE;
	if (zh == NULL)
		return;
	for (int i = 0; i < zh->server_count; i++)
		zh->servers[i] = leads_to[slot];
	if (zh->stage != LINK_NONE)
		handle_break(zh);
}

static void *
run(void *argument)
{
	(void) argument;
	operations_run(stdout, &servers, seed, count);
	done = true;
	return NULL;
}

int
main(int argc, char **argv)
{
	EnsembleConfig config = {
		.tick_ms = 1000,.init_limit = 20,.sync_limit = 10,
		.container_check = SIM_SECONDS(1000000)
	};
	TaskConfig	schedule = {.preempt_one_in = 10,.wake = 50};

	if (argc != 5)
		return 2;
	config.behaves_as_39 = strcmp(argv[1], "3.9") == 0;
	servers.count = config.servers = atoi(argv[2]);
	servers.address = address;
	servers.lead = lead;
	seed = strtoull(argv[3], NULL, 0);
	count = atoi(argv[4]);
	sim_begin(seed);
	net_begin();
	ensemble_begin(&config);
	ensemble_add_host(NOWHERE, "nowhere");
	tasks_begin(&schedule);
	task_start(process_make("client"), "main", run, NULL);
	while (!done)
		sim_run(sim_now() + SIM_SECONDS(1));
	return 0;
}
