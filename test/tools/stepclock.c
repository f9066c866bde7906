/*-------------------------------------------------------------------------
 *
 * stepclock.c
 *	  Clocks that a test can step.
 *
 * To be preloaded (LD_PRELOAD) into a program.  The clocks are the system's,
 * each with an offset added, which the file that the environment variable
 * STEP_CLOCK names holds: two 64-bit numbers of seconds, for the wall clock and
 * for the clock that counts through suspend, CLOCK_BOOTTIME.  A wall clock that
 * is set moves the first; a machine that was suspended moves both, and what
 * CLOCK_MONOTONIC says does not move with them.
 *
 * The file is mapped when the program starts, so a test steps the clocks of all
 * its processes at once by writing to it.
 *
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

typedef struct Offsets
{
	_Atomic int64_t wall;		/* seconds */
	_Atomic int64_t boot;
} Offsets;

/* None before map_offsets(), and without STEP_CLOCK. */
static Offsets no_offsets;
static const Offsets *offsets = &no_offsets;

__attribute__((constructor)) static void
map_offsets(void)
{
	const char *file = getenv("STEP_CLOCK");
	int			fd;
	void	   *map;

	if (file == NULL)
		return;
	fd = open(file, O_RDONLY | O_CLOEXEC);
	map = mmap(NULL, sizeof(Offsets), PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
	{
		perror(file);
		_exit(1);
	}
	close(fd);
	offsets = map;
}

/*
 * As clock_gettime() of the C library, stepped.  Any thread.
 */
int
clock_gettime(clockid_t clock, struct timespec *now)
{
	int			result = (int) syscall(SYS_clock_gettime, clock, now);

	if (result == 0 && clock == CLOCK_REALTIME)
		now->tv_sec += atomic_load(&offsets->wall);
	if (result == 0 && clock == CLOCK_BOOTTIME)
		now->tv_sec += atomic_load(&offsets->boot);
	return result;
}

/*
 * As gettimeofday() of the C library, stepped.  Any thread.
 */
int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;

	(void) zone;
	clock_gettime(CLOCK_REALTIME, &precise);
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return 0;
}

/*
 * As time() of the C library, stepped.  Any thread.
 */
time_t
time(time_t *result)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (result != NULL)
		*result = now.tv_sec;
	return now.tv_sec;
}

/*
 * As timerfd_settime() of the C library: a point in time, which is one of the
 * stepped CLOCK_BOOTTIME, becomes one of the system's.  If the clock is stepped
 * later, the timer does not notice, so it rings late.  Any thread.
 */
int
timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	struct itimerspec real = *new;

	if ((flags & TFD_TIMER_ABSTIME) != 0 &&
		(new->it_value.tv_sec != 0 || new->it_value.tv_nsec != 0))
	{
		real.it_value.tv_sec -= atomic_load(&offsets->boot);
		if (real.it_value.tv_sec < 0)
			real.it_value = (struct timespec)
		{
			.tv_nsec = 1
		};
	}
	return (int) syscall(SYS_timerfd_settime, fd, flags, &real, old);
}
