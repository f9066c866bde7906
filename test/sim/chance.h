/*-------------------------------------------------------------------------
 *
 * chance.h
 *	  What is left to chance in the simulated world: a stream for each source.
 *
 * A stream is the seed's, and that of its source: of a thread, a connection, a
 * server, the third operation of a client.  It gives the same numbers whatever
 * the others take from theirs.  So a world from which one thing is left out is
 * otherwise much the same.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CHANCE_H
#define CHANCE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Chance
{
	uint64_t	state;
} Chance;

/* All streams that are made from now on are those of this seed. */
extern void chance_begin(uint64_t seed);

/* The stream of what has this name, or these numbers. */
extern Chance chance_named(const char *fmt,...)
			__attribute__((format(printf, 1, 2)));
extern Chance chance_numbered(uint64_t first, uint64_t second);

/* Both included. */
extern int64_t chance_between(Chance *chance, int64_t low, int64_t high);

/* splitmix64, by Steele, Lea and Flood.  Here, because each step of a thread asks for it. */
static inline uint64_t
chance_next(Chance *chance)
{
	uint64_t	z = (chance->state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/* 0 to limit - 1; limit > 0. */
static inline uint64_t
chance_below(Chance *chance, uint64_t limit)
{
	return (uint64_t) (((unsigned __int128) chance_next(chance) * limit) >> 64);
}

/* True once in so many times; never for 0. */
static inline bool
chance_one_in(Chance *chance, uint64_t count)
{
	return count > 0 && chance_below(chance, count) == 0;
}

#endif							/* CHANCE_H */
