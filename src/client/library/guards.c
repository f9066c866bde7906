/*-------------------------------------------------------------------------
 *
 * guards.c
 *	  What libzookeeper must not do to the process it runs in.
 *
 * The library was written for programs that it may end: it checks itself with
 * assert(), and a failed thread creation or a reply nobody asked for is an
 * assertion (ZOOKEEPER-5073).  In a backend SIGABRT would take the whole
 * cluster down.  Where the library is linked statically, the linker's --wrap
 * sends the calls below to us:
 *
 * __assert_fail	poisons the client and parks the thread for ever; the
 *					backend's, which the server needs, leaves the library and
 *					the engine as they are (zk_guarded()).  Held locks are lost
 *					then, later calls fail, the backend lives.
 * pipe				makes descriptors that COPY ... TO PROGRAM does not inherit.
 *
 * and others to threads.c, socket.c and tls.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE				/* pipe2 */
#endif

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inside.h"

/* Set once, by the thread that failed a check; read by all. */
atomic_bool zk_poisoned;

static atomic_int poison_event_fd = -1;

/* Whom to interrupt; written before there is any other thread. */
static pthread_t backend_thread;
static atomic_int loss_signal;

/*
 * From now on the backend, whose thread this is, learns that the client is
 * poisoned by the descriptor, and that it has lost a lock by the signal (0 for
 * none).
 */
void
zk_guard_backend(int event_fd, int signal_number)
{
	backend_thread = pthread_self();
	atomic_store(&poison_event_fd, event_fd);
	atomic_store(&loss_signal, signal_number);
}

/*
 * A lock is lost: interrupt the backend, to which a signal 0 does nothing.  Any
 * thread; takes no lock.
 */
void
zk_signal_loss(void)
{
	pthread_kill(backend_thread, atomic_load(&loss_signal));
}

/*
 * The descriptor is about to be closed.  Another one may have taken its place:
 * the next client can start before the last one has ended.  Any thread.
 */
void
zk_guard_forget_event_fd(int fd)
{
	atomic_compare_exchange_strong(&poison_event_fd, &fd, -1);
}

/* Where this thread goes on if the library fails a check; NULL for nowhere. */
static __thread jmp_buf * way_out;

/*
 * Act on this thread.  Where the library fails a check in that, the client is
 * poisoned, and this returns; locks that act has taken remain taken.  Backend
 * thread.
 */
void
zk_guarded(void (*act) (void *arg), void *arg)
{
	jmp_buf		here;

	if (setjmp(here) == 0)
	{
		way_out = &here;
		act(arg);
	}
	way_out = NULL;
}

#ifdef ZKLOCK_STATIC_LIBRARY

extern void __wrap___assert_fail(const char *expression, const char *file,
								 unsigned int line, const char *function)
			__attribute__((noreturn));

WRAPPED(int, pipe, int fds[2]);

/*
 * An assertion of the library failed, on any thread.  Its locks may be held and
 * its data half changed, so nothing of it can be used again or freed.
 */
void
__wrap___assert_fail(const char *expression, const char *file,
					 unsigned int line, const char *function)
{
	uint64_t	one = 1;
	int			fd = atomic_load(&poison_event_fd);

	zk_log(true, "ZooKeeper client library failed a check: %s (%s:%u, %s)",
		   expression, file, line, function);
	atomic_store(&zk_poisoned, true);
	if (fd >= 0)
		while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	zk_signal_loss();
	if (way_out != NULL)
		longjmp(*way_out, 1);
	for (;;)
		pause();
}

/* As pipe(), close-on-exec. */
int
__wrap_pipe(int fds[2])
{
	return pipe2(fds, O_CLOEXEC);
}

#endif							/* ZKLOCK_STATIC_LIBRARY */
