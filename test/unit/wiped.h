/*-------------------------------------------------------------------------
 *
 * wiped.h
 *	  Sees whether a secret is wiped before its memory is freed.
 *
 * For a program that is linked with --wrap=free.  For one thread.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WIPED_H
#define ZKLOCK_WIPED_H

#include <stdbool.h>
#include <stddef.h>

#include "inside.h"

/* Memory that is to be freed, the secret in it, and whether that was wiped by then. */
static const void *wiped_memory;
static const char *wiped_secret;
static size_t wiped_size;
static bool wiped;

WRAPPED(void, free, void *memory);

/* From now on wiped says whether these bytes of the secret were zero when memory was freed. */
static inline void
expect_wiped(const void *memory, const void *secret, size_t size)
{
	wiped = false;
	wiped_memory = memory;
	wiped_secret = secret;
	wiped_size = size;
}

void
__wrap_free(void *memory)
{
	if (memory != NULL && memory == wiped_memory)
	{
		wiped = true;
		for (size_t i = 0; i < wiped_size; i++)
			wiped &= wiped_secret[i] == '\0';
		wiped_memory = NULL;
	}
	__real_free(memory);
}

#endif							/* ZKLOCK_WIPED_H */
