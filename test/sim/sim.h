/*-------------------------------------------------------------------------
 *
 * sim.h
 *	  The simulated world: one seed, one virtual clock, one thread.
 *
 * Everything that happens is either an event, which comes at its time and does
 * not wait, or a step of a task, which is a thread of a simulated process.  A
 * task runs until it waits or is preempted, and the seed chooses who is next.
 * The same seed makes the same history.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chance.h"

/* True time: microseconds since the simulation began. */
typedef int64_t SimTime;

#define SIM_MS(ms)		((SimTime) (ms) * 1000)
#define SIM_SECONDS(s)	((SimTime) (s) * 1000000)
#define SIM_NEVER		INT64_MAX

typedef void (*SimAction) (void *argument);

/*
 * The world.  Begin forgets whatever was before, except what the trace is
 * written to.
 */
extern void sim_begin(uint64_t seed);
extern void sim_end(void);

/* Runs events and tasks until that time. */
extern void sim_run(SimTime until);
extern SimTime sim_now(void);

/*
 * Runs a step of a task that can go on, and returns false if there is none;
 * and what looks at the world after each.  Set by task.c and check.c.
 */
extern bool (*sim_step) (void);
extern void (*sim_after) (void);

/*
 * Runs the action at that time, or as soon as that is past.  It must not wait.
 * Those of one time come in the order in which they were asked for.  Cancelling
 * is the action's own affair: it finds that there is nothing to do.
 */
extern void sim_at(SimTime when, SimAction action, void *argument);

/*
 * The same in two parts: draws the action's turn among those of its time now, and asks
 * for it later.  So actions that are seldom needed in the end do not fill the memory.
 */
extern uint64_t sim_turn(void);
extern void sim_at_turn(SimTime when, uint64_t turn, SimAction action, void *argument);

/*
 * The trace: a line with the time is printed, or heard, if somebody wants that.
 * Costs nothing otherwise.
 */
extern bool sim_tracing;
extern void (*sim_hear) (const char *line);
extern void sim_trace_line(const char *fmt,...)
			__attribute__((format(printf, 1, 2)));
#define sim_trace(...) \
	do { if (sim_tracing || sim_hear != NULL) sim_trace_line(__VA_ARGS__); } while (0)

/* Memory that is there: ends the program if it is not. */
extern void *sim_alloc(size_t size);	/* zeroed */
extern void *sim_realloc(void *old, size_t size);
extern char *sim_strdup(const char *text);
extern void *sim_memdup(const void *data, size_t size);

/*
 * A promise was broken: reports it and ends the run.  In main.c.
 */
extern void sim_violation(const char *rule, const char *fmt,...)
			__attribute__((format(printf, 2, 3), noreturn));

#endif							/* SIM_H */
