/*-------------------------------------------------------------------------
 *
 * sim.c
 *	  The simulated world: events in the order of their times, the choices of
 *	  the seed, the trace.
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
	uint64_t	state[4];		/* of the random numbers */
	SimTime		now;
	uint64_t	serial;
	int			count;
	int			room;
	Event	   *events;
}			world;

bool		sim_tracing;
bool		(*sim_step) (void);
void		(*sim_after) (void);

/* The next number of splitmix64, with which the state is filled. */
static uint64_t
splitmix(uint64_t *seed)
{
	uint64_t	z = (*seed += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

void
sim_begin(uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		world.state[i] = splitmix(&seed);
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

static uint64_t
rotate(uint64_t x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

/* xoshiro256**, by Blackman and Vigna. */
uint64_t
sim_random(void)
{
	uint64_t   *s = world.state;
	uint64_t	result = rotate(s[1] * 5, 7) * 9;
	uint64_t	t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate(s[3], 45);
	return result;
}

uint64_t
sim_below(uint64_t limit)
{
	return sim_random() % limit;
}

SimTime
sim_between(SimTime low, SimTime high)
{
	return low + (SimTime) sim_below((uint64_t) (high - low) + 1);
}

bool
sim_one_in(uint64_t count)
{
	return count > 0 && sim_below(count) == 0;
}

static bool
is_before(const Event *a, const Event *b)
{
	return a->when < b->when || (a->when == b->when && a->serial < b->serial);
}

void
sim_at(SimTime when, SimAction action, void *argument)
{
	Event		event = {when, world.serial++, action, argument};
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
	va_list		args;

	printf("%10lld.%06lld  ", (long long) (world.now / 1000000),
		   (long long) (world.now % 1000000));
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
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

void *
sim_alloc(size_t size)
{
	return certain(calloc(1, size > 0 ? size : 1));
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
