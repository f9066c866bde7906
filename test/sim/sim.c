/*-------------------------------------------------------------------------
 *
 * sim.c
 *	  The simulated world: events in the order of their times, and the trace.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* An event; a heap, earliest first, then in the order of asking. */
typedef struct Event
{
	SimTime		when;
	uint64_t	serial;
	SimAction	action;
	void	   *argument;
} Event;

static struct
{
	SimTime		now;
	uint64_t	serial;
	int			count;
	int			room;
	Event	   *events;
}			world;

bool		sim_tracing;
void		(*sim_hear) (const char *line);
bool		(*sim_step) (void);
void		(*sim_after) (void);

void
sim_begin(uint64_t seed)
{
	chance_begin(seed);
	world.now = 0;
	world.serial = 0;
	world.count = 0;
}

void
sim_end(void)
{
	free(world.events);
	memset(&world, 0, sizeof(world));
}

SimTime
sim_now(void)
{
	return world.now;
}

static bool
is_before(const Event *a, const Event *b)
{
	return a->when < b->when || (a->when == b->when && a->serial < b->serial);
}

uint64_t
sim_turn(void)
{
	return world.serial++;
}

void
sim_at(SimTime when, SimAction action, void *argument)
{
	sim_at_turn(when, sim_turn(), action, argument);
}

void
sim_at_turn(SimTime when, uint64_t turn, SimAction action, void *argument)
{
	Event		event = {when, turn, action, argument};
	int			i;

	if (event.when < world.now)
		event.when = world.now;
	if (world.count == world.room)
	{
		world.room = world.room == 0 ? 1024 : world.room * 2;
		world.events = sim_realloc(world.events, sizeof(Event) * (size_t) world.room);
	}
	for (i = world.count++; i > 0 && is_before(&event, &world.events[(i - 1) / 2]);
		 i = (i - 1) / 2)
		world.events[i] = world.events[(i - 1) / 2];
	world.events[i] = event;
}

/* Takes the earliest event from the heap, which is not empty. */
static Event
next_event(void)
{
	Event		first = world.events[0];
	Event		last = world.events[--world.count];
	int			i = 0;

	for (;;)
	{
		int			child = 2 * i + 1;

		if (child >= world.count)
			break;
		if (child + 1 < world.count &&
			is_before(&world.events[child + 1], &world.events[child]))
			child++;
		if (!is_before(&world.events[child], &last))
			break;
		world.events[i] = world.events[child];
		i = child;
	}
	world.events[i] = last;
	return first;
}

void
sim_run(SimTime until)
{
	for (;;)
	{
		while (sim_step != NULL && sim_step())
			if (sim_after != NULL)
				sim_after();
		if (world.count == 0 || world.events[0].when > until)
			break;

		Event		event = next_event();

		world.now = event.when;
		event.action(event.argument);
	}
	world.now = until;
}

void
sim_trace_line(const char *fmt,...)
{
	char		line[512];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (sim_tracing)
		printf("%10lld.%06lld  %s\n", (long long) (world.now / 1000000),
			   (long long) (world.now % 1000000), line);
	if (sim_hear != NULL)
		sim_hear(line);
}

/* Returns what was allocated, if it was. */
static void *
certain(void *memory)
{
	if (memory != NULL)
		return memory;
	fprintf(stderr, "out of memory\n");
	exit(2);
}

/* calloc() of some versions of glibc does not use what this thread has freed. */
void *
sim_alloc(size_t size)
{
	return memset(certain(malloc(size > 0 ? size : 1)), 0, size);
}

void *
sim_realloc(void *old, size_t size)
{
	return certain(realloc(old, size > 0 ? size : 1));
}

char *
sim_strdup(const char *text)
{
	return text != NULL ? certain(strdup(text)) : NULL;
}

void *
sim_memdup(const void *data, size_t size)
{
	return data != NULL ? memcpy(sim_alloc(size), data, size) : NULL;
}
