/*-------------------------------------------------------------------------
 *
 * seam.c
 *	  What the lock client calls of the C library, in the simulated world.
 *
 * The client's object files are those that are shipped.  The Makefile renames
 * the functions in seam.list in a copy, so that they call the ones below; a
 * function that is neither there nor in pure.list is an error.
 *
 * A mutex and a condition variable are what they are to the scheduler: who has
 * it, and who waits.  They live in the memory of the real ones.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>

#include "memory.h"
#include "seam.h"
#include "task.h"

/* What is in a pthread_mutex_t; all zeroes when it is initialized. */
typedef struct Mutex
{
	Task	   *owner;
	WaitList	waiters;
} Mutex;

_Static_assert(sizeof(Mutex) <= sizeof(pthread_mutex_t), "no room for a mutex");
_Static_assert(sizeof(WaitList) <= sizeof(pthread_cond_t), "no room for a condition");

/* What stands for the task of those who are none: events, and main(). */
#define NO_TASK		((Task *) 1)

/*-------------------------------------------------------------------------
 * Memory
 *-------------------------------------------------------------------------
 */

void *
seam_malloc(size_t size)
{
	return memory_get(size);
}

void *
seam_calloc(size_t count, size_t size)
{
	return memory_get(count * size);	/* it is zeroed */
}

void *
seam_realloc(void *old, size_t size)
{
	return memory_resize(old, size);
}

void
seam_free(void *memory)
{
	memory_put(memory);
}

char *
seam_strndup(const char *text, size_t size)
{
	size_t		len = strnlen(text, size);
	char	   *copy = memory_get(len + 1);

	if (copy != NULL)
		memcpy(copy, text, len);
	return copy;
}

char *
seam_strdup(const char *text)
{
	return seam_strndup(text, strlen(text));
}

/* As vasprintf(). */
static int
print(char **text, const char *fmt, va_list args)
{
	char	   *written;
	int			len = vasprintf(&written, fmt, args);

	if (len < 0)
		return len;
	*text = seam_strdup(written);
	free(written);
	return *text != NULL ? len : -1;
}

int
seam_asprintf(char **text, const char *fmt,...)
{
	va_list		args;
	int			len;

	va_start(args, fmt);
	len = print(text, fmt, args);
	va_end(args);
	return len;
}

int
seam_asprintf_chk(char **text, int flag, const char *fmt,...)
{
	va_list		args;
	int			len;

	(void) flag;
	va_start(args, fmt);
	len = print(text, fmt, args);
	va_end(args);
	return len;
}

int
seam_mallopt(int parameter, int value)
{
	(void) parameter;
	(void) value;
	return 1;
}

void *
seam_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	(void) address;
	(void) offset;
	return fd < 0 ? memory_map(size, protection, flags) : MAP_FAILED;
}

int
seam_munmap(void *address, size_t size)
{
	memory_unmap(address, size);
	return 0;
}

/* Memory is provided, or not. */
int
seam_mprotect(void *address, size_t size, int protection)
{
	return memory_is_refused() ? -1 : mprotect(address, size, protection);
}

/*-------------------------------------------------------------------------
 * Time, chance, and who we are
 *-------------------------------------------------------------------------
 */

int
seam_clock_gettime(clockid_t clock, struct timespec *time)
{
	Process    *process = process_now();
	SimTime		now;

	if (process == NULL)
		now = sim_now();
	else if (clock == CLOCK_MONOTONIC)
		now = process_monotonic(process);
	else
		now = process_boottime(process);
	time->tv_sec = now / 1000000;
	time->tv_nsec = now % 1000000 * 1000;
	return 0;
}

ssize_t
seam_getrandom(void *data, size_t size, unsigned int flags)
{
	char	   *bytes = data;

	if ((flags & GRND_NONBLOCK) != 0 && memory_is_refused())
		return -1;
	for (size_t i = 0; i < size; i++)
		bytes[i] = (char) chance_next(&process_now()->chance);
	return (ssize_t) size;
}

pid_t
seam_getpid(void)
{
	Process    *process = process_now();

	return process != NULL ? process->number : 1;
}

/*-------------------------------------------------------------------------
 * Descriptors: eventfds, and timers
 *-------------------------------------------------------------------------
 */

/* The lowest descriptor: not one that something else could be. */
#define FIRST_FD	1000

static SimFd *
find_fd(int fd)
{
	SimFd	   *found = &process_now()->fds[fd - FIRST_FD];

	if (fd < FIRST_FD || fd >= FIRST_FD + PROCESS_FDS || !found->open)
		sim_violation("seam", "descriptor %d is not open", fd);
	return found;
}

/* Opens a descriptor; returns -1 if it must fail. */
static int
open_fd(uint64_t count, SimTime rings_at)
{
	Process    *process = process_now();

	for (int i = 0; i < PROCESS_FDS && !memory_is_refused(); i++)
	{
		if (process->fds[i].open)
			continue;
		process->fds[i].open = true;
		process->fds[i].count = count;
		process->fds[i].rings_at = rings_at;
		return FIRST_FD + i;
	}
	errno = EMFILE;
	return -1;
}

int
seam_eventfd(unsigned int count, int flags)
{
	(void) flags;
	return open_fd(count, 0);
}

int
seam_timerfd_create(int clock, int flags)
{
	(void) flags;
	if (clock != CLOCK_BOOTTIME)
		sim_violation("seam", "a timer has another clock");
	return open_fd(0, SIM_NEVER);
}

int
seam_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	SimFd	   *timer = find_fd(fd);

	(void) old;
	if (flags != TFD_TIMER_ABSTIME || timer->rings_at == 0)
		sim_violation("seam", "a timer is set in another way");
	timer->rings_at = (SimTime) new->it_value.tv_sec * 1000000 + new->it_value.tv_nsec / 1000;
	if (timer->rings_at == 0)
		timer->rings_at = SIM_NEVER;
	task_wake_all(&timer->readers);
	task_step();
	return 0;
}

/* Waits until the timer has rung. */
static void
await_timer(SimFd *timer)
{
	process_now()->waits_timed++;
	while (process_boottime(process_now()) < timer->rings_at)
		task_wait(&timer->readers, timer->rings_at, false);
	timer->rings_at = SIM_NEVER;
}

ssize_t
seam_write(int fd, const void *data, size_t size)
{
	SimFd	   *found = find_fd(fd);
	uint64_t	more;

	memcpy(&more, data, sizeof(more));
	found->count += more;
	task_wake_all(&found->readers);
	task_step();
	return (ssize_t) size;
}

ssize_t
seam_read(int fd, void *data, size_t size)
{
	SimFd	   *found = find_fd(fd);

	task_step();
	if (found->rings_at != 0)
	{
		await_timer(found);
		return (ssize_t) size;
	}
	if (found->count == 0)
	{
		errno = EAGAIN;
		return -1;
	}
	memcpy(data, &found->count, sizeof(found->count));
	found->count = 0;
	return (ssize_t) size;
}

int
seam_close(int fd)
{
	find_fd(fd)->open = false;
	return 0;
}

int
seam_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	Process    *process = process_now();
	SimTime		until = timeout_ms < 0 ? SIM_NEVER :
	process_monotonic(process) + SIM_MS(timeout_ms);
	SimFd	   *found = count > 0 ? find_fd(fds[0].fd) : NULL;

	if (count > 1)
		sim_violation("seam", "poll() of several descriptors");
	task_step();
	process->polls++;
	if (found == NULL || found->count == 0)
		task_wait(found != NULL ? &found->readers : NULL, until, true);
	if (found == NULL || found->count == 0)
		return 0;
	fds[0].revents = POLLIN;
	return 1;
}

/*-------------------------------------------------------------------------
 * Threads
 *-------------------------------------------------------------------------
 */

/* The task that runs. */
static Task *
self(void)
{
	return task_now() != NULL ? task_now() : NO_TASK;
}

int
seam_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t * attr)
{
	(void) attr;
	memset(mutex, 0, sizeof(*mutex));
	return 0;
}

int
seam_mutex_destroy(pthread_mutex_t *mutex)
{
	if (((Mutex *) mutex)->owner != NULL)
		sim_violation("seam", "a mutex is destroyed while it is locked");
	return 0;
}

int
seam_mutex_lock(pthread_mutex_t *mutex)
{
	Mutex	   *m = (Mutex *) mutex;

	task_step();
	if (m->owner == self())
		sim_violation("seam", "a thread locks a mutex that it has");
	while (m->owner != NULL)
		task_wait(&m->waiters, SIM_NEVER, false);
	m->owner = self();
	return 0;
}

int
seam_mutex_trylock(pthread_mutex_t *mutex)
{
	Mutex	   *m = (Mutex *) mutex;

	task_step();
	if (m->owner != NULL)
		return EBUSY;
	m->owner = self();
	return 0;
}

int
seam_mutex_unlock(pthread_mutex_t *mutex)
{
	Mutex	   *m = (Mutex *) mutex;

	if (m->owner != self())
		sim_violation("seam", "a thread unlocks a mutex that it has not");
	m->owner = NULL;
	task_wake_one(&m->waiters);
	task_step();
	return 0;
}

/* Returns true if a thread has the mutex.  For checks. */
bool
seam_is_locked(const pthread_mutex_t *mutex)
{
	return ((const Mutex *) mutex)->owner != NULL;
}

int
seam_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
	(void) attr;
	memset(cond, 0, sizeof(*cond));
	return 0;
}

int
seam_cond_destroy(pthread_cond_t *cond)
{
	if (((WaitList *) cond)->first != NULL)
		sim_violation("seam", "a condition is destroyed while somebody waits");
	return 0;
}

int
seam_cond_signal(pthread_cond_t *cond)
{
	task_wake_one((WaitList *) cond);
	task_step();
	return 0;
}

int
seam_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
					const struct timespec *until)
{
	Mutex	   *m = (Mutex *) mutex;
	bool		woken;

	process_now()->waits_timed++;
	m->owner = NULL;
	task_wake_one(&m->waiters);
	woken = task_wait((WaitList *) cond,
					  (SimTime) until->tv_sec * 1000000 + until->tv_nsec / 1000, true);
	seam_mutex_lock(mutex);
	return woken ? 0 : ETIMEDOUT;
}

int
seam_join(pthread_t thread, void **result)
{
	(void) result;
	task_join((Task *) thread);
	return 0;
}

int
seam_detach(pthread_t thread)
{
	(void) thread;
	return 0;
}

int
seam_sigmask(int how, const sigset_t * set, sigset_t * old)
{
	(void) how;
	(void) set;
	(void) old;
	return 0;
}

int
seam_condattr_init(pthread_condattr_t *attr)
{
	(void) attr;
	return 0;
}

int
seam_condattr_destroy(pthread_condattr_t *attr)
{
	(void) attr;
	return 0;
}

/* All conditions wait by CLOCK_MONOTONIC. */
int
seam_condattr_setclock(pthread_condattr_t *attr, clockid_t clock)
{
	(void) attr;
	if (clock != CLOCK_MONOTONIC)
		sim_violation("seam", "a condition waits by another clock");
	return 0;
}
