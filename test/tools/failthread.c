/*-------------------------------------------------------------------------
 *
 * failthread.c
 *	  A system that has no threads for the ZooKeeper client library.
 *
 * To be preloaded (LD_PRELOAD) into a program.  Its pthread_create() is the
 * system's, but as long as the file exists that the environment variable
 * FAIL_THREAD names, there is no thread with a small stack (SMALL_STACK bytes), as
 * zklock gives those of the library and no others.  The library checks with an
 * assertion that it has got one.
 *
 *-------------------------------------------------------------------------
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define SMALL_STACK		(128 * 1024)

typedef int (*CreateFunction) (pthread_t *thread, const pthread_attr_t *attr,
							   void *(*start) (void *), void *arg);

/* Is the thread one that there is not? */
static bool
is_to_fail(const pthread_attr_t *attr)
{
	const char *file = getenv("FAIL_THREAD");
	size_t		stack = 0;

	return file != NULL && attr != NULL &&
		pthread_attr_getstacksize(attr, &stack) == 0 && stack == SMALL_STACK &&
		access(file, F_OK) == 0;
}

/*
 * As pthread_create() of the C library, or EAGAIN.
 */
int
pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			   void *(*start) (void *), void *arg)
{
	CreateFunction real = (CreateFunction) dlsym(RTLD_NEXT, "pthread_create");

	if (real == NULL || is_to_fail(attr))
		return EAGAIN;
	return real(thread, attr, start, arg);
}
