/*-------------------------------------------------------------------------
 *
 * fuzz.h
 *	  What the fuzz targets share: checks, and copies of exact size.
 *
 * A target is a program of libFuzzer, which calls LLVMFuzzerTestOneInput() with one
 * input after another (see README).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_FUZZ_H
#define ZKLOCK_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program, which reports the input, unless the condition is true. */
#define CHECK(condition) \
	((condition) ? (void) 0 : fail(__FILE__, __LINE__, #condition))

static inline void
__attribute__((noreturn))
fail(const char *file, int line, const char *condition)
{
	fprintf(stderr, "%s:%d: not true: %s\n", file, line, condition);
	abort();
}

/*
 * A malloc'd copy in memory of exactly that size, so that AddressSanitizer sees a read
 * beyond it.
 */
static inline void *
exact_copy(const void *data, size_t size)
{
	void	   *copy = malloc(size);

	CHECK(copy != NULL);
	if (size > 0)
		memcpy(copy, data, size);
	return copy;
}

/* The same, with a NUL behind it. */
static inline char *
exact_text(const void *data, size_t size)
{
	char	   *copy = malloc(size + 1);

	CHECK(copy != NULL);
	if (size > 0)
		memcpy(copy, data, size);
	copy[size] = '\0';
	return copy;
}

#endif							/* ZKLOCK_FUZZ_H */
