/*-------------------------------------------------------------------------
 *
 * context.h
 *	  The number that the library is given as context of a request.
 *
 * It is an index into the table of requests, and a serial that tells whether
 * what is there is still the request.  Both fit into a pointer, whatever its
 * size: where that has 32 bits the serial has 26, and comes again after 67
 * million requests.  A callback that late is not known, for none outlives the
 * handle that its request was made through.
 *
 * For request.c.  Pure functions; the size of a pointer is an argument, so that
 * others can be tested.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CONTEXT_H
#define ZKLOCK_CONTEXT_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/* Requests that a table can have. */
#define ZK_CONTEXT_INDEX_BITS	6
#define ZK_CONTEXT_INDEXES		(1U << ZK_CONTEXT_INDEX_BITS)

/* The highest serial, where a pointer has so many bytes. */
static inline uint32_t
zk_context_last_serial(size_t pointer_size)
{
	size_t		bits = pointer_size * CHAR_BIT - ZK_CONTEXT_INDEX_BITS;

	return bits < 32 ? (UINT32_C(1) << bits) - 1 : UINT32_MAX;
}

/* The serial after that one; never 0. */
static inline uint32_t
zk_context_next_serial(uint32_t serial, size_t pointer_size)
{
	return serial < zk_context_last_serial(pointer_size) ? serial + 1 : 1;
}

/*
 * The number, which a pointer of that size can hold if the serial came from
 * zk_context_next_serial().
 */
static inline uint64_t
zk_context_make(unsigned int index, uint32_t serial)
{
	return (uint64_t) serial << ZK_CONTEXT_INDEX_BITS | index;
}

static inline unsigned int
zk_context_index(uint64_t context)
{
	return (unsigned int) (context % ZK_CONTEXT_INDEXES);
}

static inline uint32_t
zk_context_serial(uint64_t context)
{
	return (uint32_t) (context >> ZK_CONTEXT_INDEX_BITS);
}

#endif							/* ZKLOCK_CONTEXT_H */
