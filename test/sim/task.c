/*-------------------------------------------------------------------------
 *
 * task.c
 *	  Simulated processes and their threads.
 *
 * A task has a stack of its own (stack.c).  The scheduler runs on the program's
 * own, in sim_run().
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "stack.h"
#include "task.h"

typedef enum TaskState
{
	TASK_READY,					/* in the list of those who can go on */
	TASK_HELD,					/* it could, but its process is stopped */
	TASK_RUNNING,
	TASK_WAITING,
	TASK_WAKING,				/* woken, but the processor is late */
	TASK_ENDED
} TaskState;

typedef struct Alarm Alarm;

struct Task
{
	TaskState	state;
	Chance		chance;			/* preemption, pauses, delays, turns */
	uint64_t	turn;			/* in the list of those who can go on */
	Process    *process;
	const char *name;
	void	   *(*start) (void *);
	void	   *argument;
	Stack	   *stack;			/* NULL before it begins, and after its end */
	Task	   *next;			/* in a WaitList */
	WaitList   *list;			/* which one; or NULL */
	SimTime		until;			/* of the wait, on the process's clock */
	SimTime		due;			/* the wait ends then, if it is not woken
								 * before; or SIM_NEVER */
	uint64_t	turn_due;		/* in its turn of that time */
	Alarm	   *alarms;			/* earliest first, and that not after due */
	bool		monotonic;
	bool		timed_out;
	WaitList	joiners;
	Task	   *sibling;		/* of the same process */
};

/*
 * An event that looks after a waiting task.  Most waits are over before they are due;
 * so one alarm serves all those that are due at its time or later, one by one.
 */
struct Alarm
{
	Alarm	   *next;
	Task	   *task;
	SimTime		when;
	uint64_t	turn;
};

/* Steps at one time that cannot be but a loop without an end. */
#define MAX_STEPS_AT_ONCE	2000000

static struct
{
	TaskConfig	config;
	Task	   *running;
	Process    *loaded;			/* whose globals the client has */
	Process    *last;			/* that ran */
	char	   *pristine;		/* the globals of a process that begins */
	int			ready_count;
	int			ready_room;
	Task	  **ready;
	Alarm	   *free_alarms;
	Process    *killed;			/* alarms still refer to their tasks */
	int			processes;
	SimTime		stepped_at;
	uint64_t	steps_at_once;
}			tasks;

/* The client's global variables, in sections of their own (Makefile). */
extern char __start_client_data[] __attribute__((weak));
extern char __stop_client_data[] __attribute__((weak));
extern char __start_client_bss[] __attribute__((weak));
extern char __stop_client_bss[] __attribute__((weak));

static void process_free(Process *process);

/*-------------------------------------------------------------------------
 * The client's global variables
 *-------------------------------------------------------------------------
 */

static size_t
data_size(void)
{
	return (uintptr_t) __stop_client_data - (uintptr_t) __start_client_data;
}

static size_t
bss_size(void)
{
	return (uintptr_t) __stop_client_bss - (uintptr_t) __start_client_bss;
}

#ifdef __SANITIZE_ADDRESS__

typedef uint64_t __attribute__((may_alias, aligned(1)))
Word;

/*
 * As memcpy(), which would report what AddressSanitizer has put between variables.  What is
 * volatile keeps the compiler from calling it all the same.
 */
__attribute__((no_sanitize("address", "undefined"))) static void
copy_globals(char *to, const char *from, size_t size)
{
	size_t		done = 0;

	for (; done + sizeof(Word) <= size; done += sizeof(Word))
		*(volatile Word *) (to + done) = *(const Word *) (from + done);
	for (; done < size; done++)
		*(volatile char *) (to + done) = from[done];
}

#else
#define copy_globals	memcpy
#endif

static void
save_globals(char *copy)
{
	copy_globals(copy, __start_client_data, data_size());
	copy_globals(copy + data_size(), __start_client_bss, bss_size());
}

static void
load_globals(const char *copy)
{
	copy_globals(__start_client_data, copy, data_size());
	copy_globals(__start_client_bss, copy + data_size(), bss_size());
}

/* The client's globals are those of this process from now on. */
static void
load_process(Process *process)
{
	if (tasks.loaded == process)
		return;
	if (tasks.loaded != NULL)
		save_globals(tasks.loaded->globals);
	load_globals(process->globals);
	tasks.loaded = process;
}

/*-------------------------------------------------------------------------
 * The scheduler
 *-------------------------------------------------------------------------
 */

static void
make_ready(Task *task)
{
	if (tasks.ready_count == tasks.ready_room)
	{
		tasks.ready_room = tasks.ready_room == 0 ? 64 : tasks.ready_room * 2;
		tasks.ready = sim_realloc(tasks.ready, sizeof(Task *) * (size_t) tasks.ready_room);
	}
	task->state = TASK_READY;
	task->turn = chance_next(&task->chance);
	tasks.ready[tasks.ready_count++] = task;
}

/* Returns who is next of those who can go on, by the turns that they have drawn. */
static int
next_ready(void)
{
	int			next = 0;

	for (int i = 1; i < tasks.ready_count; i++)
		if (tasks.ready[i]->turn < tasks.ready[next]->turn)
			next = i;
	return next;
}

/* Takes the next of those who can go on; NULL if there is none. */
static Task *
take_ready(void)
{
	while (tasks.ready_count > 0)
	{
		int			i = next_ready();
		Task	   *task = tasks.ready[i];

		tasks.ready[i] = tasks.ready[--tasks.ready_count];
		if (!task->process->stopped)
			return task;
		task->state = TASK_HELD;
	}
	return NULL;
}

/* Back to the scheduler; returns when the task is chosen again. */
static void
leave(Task *task)
{
	stack_leave(task->stack);
}

/* Where a task begins, and ends. */
static void
task_main(void)
{
	Task	   *task = tasks.running;

	task->start(task->argument);
	task->state = TASK_ENDED;
	task_wake_all(&task->joiners);
	leave(task);
	abort();
}

static void
free_stack(Task *task)
{
	stack_free(task->stack);
	task->stack = NULL;
}

/* Goes to a task, until it comes back. */
static void
enter(Task *task)
{
	tasks.running = task;
	task->state = TASK_RUNNING;
	if (task->stack == NULL)
		task->stack = stack_make(task_main);
	stack_enter(task->stack);
	tasks.running = NULL;
	tasks.last = task->process;
}

/* Counts a step, so that tasks that go round and round are found. */
static void
count_step(void)
{
	if (tasks.stepped_at != sim_now())
	{
		tasks.stepped_at = sim_now();
		tasks.steps_at_once = 0;
	}
	if (++tasks.steps_at_once > MAX_STEPS_AT_ONCE)
		sim_violation("liveness", "tasks run without an end, and no time passes");
}

/* Runs a task until it waits or is preempted; sim_step. */
static bool
run_one(void)
{
	Task	   *task = take_ready();

	if (task == NULL)
		return false;
	count_step();
	load_process(task->process);
	enter(task);
	if (task->state == TASK_ENDED)
		free_stack(task);
	return true;
}

void
tasks_begin(const TaskConfig *config)
{
	tasks.config = *config;
	sim_step = run_one;
	if (tasks.pristine == NULL)
	{
		tasks.pristine = sim_alloc(data_size() + bss_size());
		save_globals(tasks.pristine);
	}
	tasks.loaded = NULL;
	tasks.processes = 0;
	tasks.stepped_at = -1;
}

void
tasks_end(void)
{
	tasks.ready_count = 0;
	sim_step = NULL;
	while (tasks.killed != NULL)
	{
		Process    *process = tasks.killed;

		tasks.killed = process->next_killed;
		process_free(process);
	}
}

Process *
process_now(void)
{
	return tasks.running != NULL ? tasks.running->process : NULL;
}

Task *
task_now(void)
{
	return tasks.running;
}

Process *
task_last_process(void)
{
	return tasks.last;
}

/*-------------------------------------------------------------------------
 * Waiting
 *-------------------------------------------------------------------------
 */

static void
remove_from_list(Task *task)
{
	Task	  **link;

	if (task->list == NULL)
		return;
	link = &task->list->first;
	while (*link != task)
		link = &(*link)->next;
	*link = task->next;
	task->list = NULL;
}

static void alarm_rings(void *argument);

/* Makes the alarm ring that is due, unless an earlier one will see to that. */
static void
need_alarm(Task *task)
{
	Alarm	   *alarm = tasks.free_alarms;

	if (task->alarms != NULL && task->alarms->when <= task->due)
		return;
	if (alarm != NULL)
		tasks.free_alarms = alarm->next;
	else
		alarm = sim_alloc(sizeof(Alarm));
	alarm->task = task;
	alarm->when = task->due;
	alarm->turn = task->turn_due;
	alarm->next = task->alarms;
	task->alarms = alarm;
	sim_at_turn(alarm->when, alarm->turn, alarm_rings, alarm);
}

/* Has the alarm of a task's wait ring at that time. */
static void
set_alarm(Task *task, SimTime when)
{
	task->due = when;
	task->turn_due = sim_turn();
	need_alarm(task);
}

/* Forgets the first alarm. */
static void
drop_alarm(Task *task)
{
	Alarm	   *alarm = task->alarms;

	task->alarms = alarm->next;
	alarm->next = tasks.free_alarms;
	tasks.free_alarms = alarm;
}

/* What a process's clock shows, the one or the other. */
static SimTime
local_time(const Process *process, bool monotonic)
{
	return monotonic ? process_monotonic(process) : process_boottime(process);
}

/* When the alarm of a task's wait has to ring. */
static SimTime
alarm_due(const Task *task)
{
	const Process *process = task->process;
	SimTime		left = task->until - local_time(process, task->monotonic);

	return sim_now() + (left <= 0 ? 0 : left * 1000000 / process->rate + 1);
}

/* The task can go on. */
static void
release(Task *task)
{
	remove_from_list(task);
	task->due = SIM_NEVER;
	make_ready(task);
}

static void
alarm_rings(void *argument)
{
	Alarm	   *alarm = argument;
	Task	   *task = alarm->task;
	bool		is_due = alarm->turn == task->turn_due;

	drop_alarm(task);
	if (task->due == SIM_NEVER)
		return;
	if (!is_due)
	{
		need_alarm(task);
		return;
	}
	if (task->state == TASK_WAITING)
	{
		if (local_time(task->process, task->monotonic) < task->until)
		{
			/* the machine was suspended meanwhile, or is */
			SimTime		due = alarm_due(task);

			set_alarm(task, due > sim_now() + SIM_MS(10) ? due : sim_now() + SIM_MS(10));
			return;
		}
		task->timed_out = true;
	}
	release(task);
}

/* A task has been woken: it goes on soon. */
static void
wake(Task *task)
{
	remove_from_list(task);
	if (tasks.config.wake == 0)
	{
		release(task);
		return;
	}
	task->state = TASK_WAKING;
	set_alarm(task, sim_now() + chance_between(&task->chance, 0, tasks.config.wake));
}

void
task_wake_one(WaitList *list)
{
	if (list->first != NULL)
		wake(list->first);
}

void
task_wake_all(WaitList *list)
{
	while (list->first != NULL)
		wake(list->first);
}

bool
task_wait(WaitList *list, SimTime until, bool monotonic)
{
	Task	   *task = tasks.running;

	task->until = until;
	task->due = SIM_NEVER;
	task->monotonic = monotonic;
	task->timed_out = false;
	task->state = TASK_WAITING;
	if (list != NULL)
	{
		Task	  **link = &list->first;

		while (*link != NULL)
			link = &(*link)->next;
		*link = task;
		task->next = NULL;
		task->list = list;
	}
	if (until != SIM_NEVER)
		set_alarm(task, alarm_due(task));
	leave(task);
	return !task->timed_out;
}

void
task_sleep(SimTime span)
{
	task_wait(NULL, process_boottime(tasks.running->process) + span, false);
}

void
task_step(void)
{
	Task	   *task = tasks.running;

	if (task == NULL)
		return;
	if (chance_one_in(&task->chance, tasks.config.preempt_one_in))
	{
		make_ready(task);
		leave(task);
	}
	else if (chance_one_in(&task->chance, tasks.config.pause_one_in))
		task_sleep(chance_between(&task->chance, 0, tasks.config.pause));
}

Task *
task_start(Process *process, const char *name, void *(*start) (void *), void *argument)
{
	Task	   *task = sim_alloc(sizeof(Task));

	task->process = process;
	task->name = name;
	task->chance = chance_named("task %d of %s", ++process->tasks, process->name);
	task->start = start;
	task->argument = argument;
	task->sibling = process->first_task;
	process->first_task = task;
	make_ready(task);
	return task;
}

bool
task_is_alone(void)
{
	for (Task *task = tasks.running->process->first_task; task != NULL; task = task->sibling)
		if (task != tasks.running && task->state != TASK_ENDED)
			return false;
	return true;
}

void
task_join(Task *task)
{
	while (task->state != TASK_ENDED)
		task_wait(&task->joiners, SIM_NEVER, false);
}

/*-------------------------------------------------------------------------
 * Processes
 *-------------------------------------------------------------------------
 */

Process *
process_make(const char *name)
{
	Process    *process = sim_alloc(sizeof(Process));

	snprintf(process->name, sizeof(process->name), "%s", name);
	process->number = ++tasks.processes;
	process->host = net_host(process->name);
	process->chance = chance_named("process %s", process->name);
	process->rate = 1000000;
	process->base = SIM_SECONDS(1000);
	process->globals = sim_memdup(tasks.pristine, data_size() + bss_size());
	return process;
}

/* Takes a task out of whatever it is in: it will never go on. */
static void
end_task(Task *task)
{
	remove_from_list(task);
	for (int i = 0; i < tasks.ready_count; i++)
		if (tasks.ready[i] == task)
			tasks.ready[i--] = tasks.ready[--tasks.ready_count];
	task->due = SIM_NEVER;
	task->state = TASK_ENDED;
	free_stack(task);
}

void
process_kill(Process *process)
{
	process->dead = true;
	for (Task *task = process->first_task; task != NULL; task = task->sibling)
		end_task(task);
	if (tasks.loaded == process)
		tasks.loaded = NULL;
	memory_free_all(process);
	host_die(process->host);
	process->next_killed = tasks.killed;
	tasks.killed = process;
}

static void
process_free(Process *process)
{
	if (tasks.loaded == process)
		tasks.loaded = NULL;
	memory_free_all(process);
	while (process->first_task != NULL)
	{
		Task	   *task = process->first_task;

		process->first_task = task->sibling;
		end_task(task);
		while (task->alarms != NULL)
			drop_alarm(task);
		free(task);
	}
	free(process->globals);
	free(process->library);
	free(process);
}

void
process_stop(Process *process, bool suspend)
{
	process->stopped = true;
	if (suspend && process->suspended_at == 0)
		process->suspended_at = process_boottime(process);
	host_stop(process->host);
}

void
process_go_on(Process *process)
{
	process->stopped = false;
	process->went_on_at = sim_now();
	if (process->suspended_at != 0)
		process->suspended += process_boottime(process) - process->suspended_at;
	process->suspended_at = 0;
	for (Task *task = process->first_task; task != NULL; task = task->sibling)
		if (task->state == TASK_HELD)
			make_ready(task);
	host_go_on(process->host);
}

SimTime
process_boottime(const Process *process)
{
	/* parts, for a product of both would be too large after some days */
	SimTime		now = sim_now();

	return process->base + now / 1000000 * process->rate +
		now % 1000000 * process->rate / 1000000;
}

SimTime
process_monotonic(const Process *process)
{
	return (process->suspended_at != 0 ? process->suspended_at :
			process_boottime(process)) - process->suspended;
}
