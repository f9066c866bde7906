/*-------------------------------------------------------------------------
 *
 * failtable.c
 *	  A system that has no memory for the tables of the ZooKeeper client library.
 *
 * To be preloaded (LD_PRELOAD) into a program.  Its calloc() is the system's, but
 * as long as the file exists that the environment variable FAIL_TABLE names,
 * threads other than the first get no memory of TABLE_SIZE bytes, which is what
 * the library asks for when it makes a table of watches, and nobody else does
 * there.  The library checks with an assertion that it has got that.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* A zk_hashtable: one pointer. */
#define TABLE_SIZE		sizeof(void *)

/* The C library's own, which needs not be looked for with memory of its own. */
extern void *__libc_calloc(size_t count, size_t size);

/* Is that the memory which there is not? */
static bool
is_to_fail(size_t count, size_t size)
{
	const char *file = getenv("FAIL_TABLE");

	return count == 1 && size == TABLE_SIZE && file != NULL && gettid() != getpid() &&
		access(file, F_OK) == 0;
}

/*
 * As calloc() of the C library, or ENOMEM.
 */
void *
calloc(size_t count, size_t size)
{
	if (!is_to_fail(count, size))
		return __libc_calloc(count, size);
	errno = ENOMEM;
	return NULL;
}
