/*-------------------------------------------------------------------------
 *
 * threads.c
 *	  The library's threads, and on which of them completions run.
 *
 * libzookeeper_mt reads answers on its I/O thread and hands each to a second
 * one, its completion thread.  An answer that ends a wait passes through three
 * threads so, the backend's being the third, and each change of threads costs
 * more than the work, most of all where processors are virtual and idle ones
 * halt.  The library's single-threaded build runs the same completions in the
 * thread that reads.  So do we, where the library is linked statically and the
 * linker's --wrap sends the calls below to us:
 *
 * zookeeper_process, zookeeper_interest	the I/O thread's two steps.  At the
 *					end of each, without a lock of the library, we run the
 *					completions.
 * pthread_create	gives the library's I/O thread, which exists by then and
 *					waits, its handle, and creates no completion thread.
 * pthread_join, adaptor_finish	know that there is none.
 *
 * The library fails a check if its I/O thread cannot be created.  So that is
 * done before a handle is opened, when it is just an error, and with a small
 * stack (the default costs 16 MB of commit charge for each backend).
 *
 * A completion must not keep the I/O thread for long: it takes engine_lock,
 * under which nobody waits for anything, and copies and sends without waiting.
 *
 * With the shared library the completion thread does its work, stacks are set
 * through the process-wide default, and whether the two threads can be created
 * is tried with two others.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE				/* pthread_setattr_default_np */
#endif

#include "inside.h"

/*
 * Stacks of the helper and of the library's threads.  16 kB were seen used by
 * the resolver, which works for the helper only, and 12 kB by the others.
 * Certificates and Kerberos take more.
 */
#if defined(ZKLOCK_TLS) || defined(ZKLOCK_SASL)
#define ZK_THREAD_STACK		(512 * 1024)
#define ZK_LIBRARY_STACK	(512 * 1024)
#else
#define ZK_THREAD_STACK		(256 * 1024)
#define ZK_LIBRARY_STACK	(128 * 1024)
#endif

/* Create a thread with a stack of so many bytes.  Returns 0 or an errno. */
static int
create_thread(pthread_t *thread, size_t stack, void *(*start) (void *), void *arg)
{
	pthread_attr_t attr;
	int			rc = pthread_attr_init(&attr);

	if (rc != 0)
		return rc;
	pthread_attr_setstacksize(&attr, stack);
	rc = pthread_create(thread, &attr, start, arg);
	pthread_attr_destroy(&attr);
	return rc;
}

#ifdef ZKLOCK_STATIC_LIBRARY

/* What stands for the completion thread: no thread's number in glibc. */
#define NO_THREAD		((pthread_t) 0)

/*
 * The handle that the I/O thread is for; NULL if none comes.  Of the one helper
 * that has the library's handle, and that thread, under the lock.
 */
typedef struct Assignment
{
	pthread_mutex_t lock;
	pthread_cond_t is_known;
	bool		known;
	zhandle_t  *zh;
} Assignment;

static Assignment assignment = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.is_known = PTHREAD_COND_INITIALIZER
};

/* The I/O thread that waits for its handle, and whether this thread has one. */
static __thread pthread_t waiting_thread;
static __thread bool has_waiting;

WRAPPED(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr,
		void *(*start) (void *), void *arg);
WRAPPED(int, pthread_join, pthread_t thread, void **result);
WRAPPED(int, zookeeper_interest, zhandle_t *zh, int *fd, int *interest,
		struct timeval *timeout);
WRAPPED(int, zookeeper_process, zhandle_t *zh, int events);

/* As pthread_join(); a thread that was not created has ended. */
int
__wrap_pthread_join(pthread_t thread, void **result)
{
	return thread == NO_THREAD ? 0 : __real_pthread_join(thread, result);
}

/* The I/O thread: wait for its handle, and serve that. */
static void *
io_main(void *arg)
{
	zhandle_t  *zh;

	(void) arg;
	pthread_mutex_lock(&assignment.lock);
	while (!assignment.known)
		pthread_cond_wait(&assignment.is_known, &assignment.lock);
	zh = assignment.zh;
	pthread_mutex_unlock(&assignment.lock);
	return zh != NULL ? zk_internals_io(zh) : NULL;
}

/* Give the thread that waits, which there is, its handle, or none.  Helper. */
static void
assign(zhandle_t *zh)
{
	has_waiting = false;
	pthread_mutex_lock(&assignment.lock);
	assignment.known = true;
	assignment.zh = zh;
	pthread_mutex_unlock(&assignment.lock);
	pthread_cond_signal(&assignment.is_known);
}

/*
 * As pthread_create(), but takes the I/O thread that waits, unless the caller
 * has attributes, and creates no completion thread.
 */
int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
					  void *(*start) (void *), void *arg)
{
	if (zk_internals_replace_completion_thread(start, arg))
	{
		*thread = NO_THREAD;
		return 0;
	}
	if (attr != NULL || !has_waiting)
		return __real_pthread_create(thread, attr, start, arg);
	*thread = waiting_thread;
	assign(arg);
	return 0;
}

/*
 * Before zookeeper_init2(): create the I/O thread, with the caller's signal
 * mask.  Returns false if that fails; else zk_threads_leave_init() is due.
 * Helper.
 */
bool
zk_threads_enter_init(void)
{
	assignment.known = false;	/* the last thread knew its handle */
	has_waiting = create_thread(&waiting_thread, ZK_LIBRARY_STACK, io_main, NULL) == 0;
	return has_waiting;
}

/* After it: if it has failed without need of the thread, end that. */
void
zk_threads_leave_init(void)
{
	if (!has_waiting)
		return;
	assign(NULL);
	__real_pthread_join(waiting_thread, NULL);
}

/* Run the completions of what has come.  I/O thread, without any lock. */
static void
complete(zhandle_t *zh)
{
	zk_socket_completing(true);
	zk_internals_complete(zh);
	zk_socket_completing(false);
}

/*
 * As zookeeper_interest(): send a ping that is due, connect, or give up a
 * server that does not answer.
 */
int
__wrap_zookeeper_interest(zhandle_t *zh, int *fd, int *interest,
						  struct timeval *timeout)
{
	int			result;

	zk_socket_gather();
	result = __real_zookeeper_interest(zh, fd, interest, timeout);
	zk_socket_send_gathered();
	complete(zh);
	if (result == ZOK)
		zk_socket_watch(*fd, interest, timeout);
	return result;
}

/* As zookeeper_process(): receive and send what can be. */
int
__wrap_zookeeper_process(zhandle_t *zh, int events)
{
	int			rc = zk_socket_process(zh, events, __real_zookeeper_process);

	zk_socket_processed(zh, rc);
	complete(zh);
	return rc;
}

#else

/* Threads that zookeeper_init2() creates. */
#define LIBRARY_THREADS		2

/*
 * The process's defaults for new threads, while ours are in their place.  Of
 * the one helper thread that has the library's handle.
 */
static pthread_attr_t saved_attr;
static bool attr_is_saved;

/* Waits for the probe to be over: the mutex is held until then. */
static void *
probe_main(void *arg)
{
	pthread_mutex_t *over = arg;

	pthread_mutex_lock(over);
	pthread_mutex_unlock(over);
	return NULL;
}

/*
 * Returns true if the library's threads can be had.  (Another process may take
 * the last one in between: then the library asserts, and only then.)  Helper.
 */
static bool
probe_threads(void)
{
	pthread_mutex_t over = PTHREAD_MUTEX_INITIALIZER;
	pthread_t	threads[LIBRARY_THREADS];
	int			started = 0;

	pthread_mutex_lock(&over);
	while (started < LIBRARY_THREADS &&
		   create_thread(&threads[started], ZK_LIBRARY_STACK, probe_main, &over) == 0)
		started++;
	pthread_mutex_unlock(&over);
	for (int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_destroy(&over);
	return started == LIBRARY_THREADS;
}

/*
 * Before zookeeper_init2(): give its threads small stacks, until
 * zk_threads_leave_init().  Returns false, and does nothing, if they cannot be
 * had; it asserts if so.  Helper.
 */
bool
zk_threads_enter_init(void)
{
	pthread_attr_t attr;

	if (!probe_threads())
		return false;
	attr_is_saved = pthread_getattr_default_np(&saved_attr) == 0;
	if (!attr_is_saved || pthread_attr_init(&attr) != 0)
		return true;
	pthread_attr_setstacksize(&attr, ZK_LIBRARY_STACK);
	pthread_setattr_default_np(&attr);
	pthread_attr_destroy(&attr);
	return true;
}

/* After it.  (Attributes just initialized would change nothing.) */
void
zk_threads_leave_init(void)
{
	if (!attr_is_saved)
		return;
	pthread_setattr_default_np(&saved_attr);
	pthread_attr_destroy(&saved_attr);
	attr_is_saved = false;
}

#endif							/* ZKLOCK_STATIC_LIBRARY */

/*
 * Create a thread with our stack size and the caller's signal mask.  Returns
 * 0 or an errno.  Any thread.
 */
int
zk_thread_create(pthread_t *thread, void *(*start) (void *), void *arg)
{
	return create_thread(thread, ZK_THREAD_STACK, start, arg);
}
