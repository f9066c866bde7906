/*-------------------------------------------------------------------------
 *
 * task.h
 *	  Simulated processes and their threads.
 *
 * A process is one lock client and whoever uses it: a backend.  It has a host, a
 * clock that runs too fast or too slow, its own copy of the client's global
 * variables, and memory of its own, which is gone when it is killed.  Its
 * threads are tasks.  A task is preempted only in what it calls of this file, or
 * by way of seam.c; in between it is alone in the world.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TASK_H
#define TASK_H

#include "net.h"
#include "sim.h"

typedef struct Task Task;
typedef struct Process Process;
typedef struct Block Block;

/* Tasks that wait for the same thing, in the order in which they came. */
typedef struct WaitList
{
	Task	   *first;
} WaitList;

/* Descriptors of a process: eventfds and timers. */
#define PROCESS_FDS		8
#define PROCESS_NAME	16

/* Memory that is mapped: for arrays of slots (array.c). */
#define PROCESS_MAPS	8

typedef struct Mapping
{
	void	   *memory;
	size_t		size;
} Mapping;

typedef struct SimFd
{
	bool		open;
	uint64_t	count;			/* of an eventfd */
	SimTime		rings_at;		/* a timer, by CLOCK_BOOTTIME; SIM_NEVER if it
								 * is not set, 0 for an eventfd */
	WaitList	readers;		/* those who wait for it */
} SimFd;

struct Process
{
	char		name[PROCESS_NAME];
	int			number;
	Host	   *host;
	bool		stopped;		/* SIGSTOP, or the machine is suspended */
	bool		dead;
	Process    *next_killed;
	Task	   *first_task;
	int			tasks;			/* that it has ever had */
	Chance		chance;			/* the system's random bytes, the resolver */

	/* the clock: local = base + true time * rate / 1,000,000 */
	SimTime		base;
	int64_t		rate;
	SimTime		suspended;		/* what CLOCK_MONOTONIC stood still so far */
	SimTime		suspended_at;	/* since when it does now; 0 if it runs */
	SimTime		went_on_at;		/* when it was last woken after a stop */

	void	   *globals;		/* of the client, while another process runs */
	SimFd		fds[PROCESS_FDS];

	/* memory: what it has, and of which allocation on it gets none */
	Block	   *blocks;
	Mapping		maps[PROCESS_MAPS];
	size_t		allocated;
	uint64_t	allocations;
	uint64_t	fail_from;		/* number of the first one that fails; 0: none */
	uint64_t	fail_count;		/* how many fail in a row */

	/* how often its threads have waited: for a time, and for a descriptor */
	uint64_t	waits_timed;
	uint64_t	polls;

	void	   *library;		/* library.c's */
	void	   *program;		/* program.c's */
};

/* How tasks are scheduled; constant while a simulation runs. */
typedef struct TaskConfig
{
	uint64_t	preempt_one_in; /* calls of the seam at which another task
								 * comes first */
	uint64_t	pause_one_in;	/* and at which a task stands still */
	SimTime		pause;			/* for so long at most */
	SimTime		wake;			/* until a woken task runs, at most */
} TaskConfig;

extern void tasks_begin(const TaskConfig *config);
extern void tasks_end(void);

extern Process *process_make(const char *name);

/*
 * All tasks end where they are, and the memory is gone (kill -9).  What is left
 * of it is freed by tasks_end().
 */
extern void process_kill(Process *process);
extern void process_stop(Process *process, bool suspend);
extern void process_go_on(Process *process);

/* The clocks of a process, by its own rate. */
extern SimTime process_boottime(const Process *process);
extern SimTime process_monotonic(const Process *process);

/* The process and the task that run; NULL in an event. */
extern Process *process_now(void);
extern Task *task_now(void);

/* The process that ran last. */
extern Process *task_last_process(void);

extern Task *task_start(Process *process, const char *name,
						void *(*start) (void *), void *argument);

/* The task that runs is the last one of its process. */
extern bool task_is_alone(void);
extern void task_join(Task *task);

/* A call of the seam: another task may come first.  Does nothing in an event. */
extern void task_step(void);

/*
 * Waits until woken, or until the process's clock shows that; SIM_NEVER for no
 * limit.  Returns false if the time is over.
 */
extern bool task_wait(WaitList *list, SimTime until, bool monotonic);
extern void task_sleep(SimTime span);
extern void task_wake_one(WaitList *list);
extern void task_wake_all(WaitList *list);

#endif							/* TASK_H */
