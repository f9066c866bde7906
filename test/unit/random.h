/*-------------------------------------------------------------------------
 *
 * random.h
 *	  Random numbers for tests: the same ones on every machine.
 *
 * For one thread.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RANDOM_H
#define ZKLOCK_RANDOM_H

#include <stdint.h>

static uint64_t random_state;

/* The next number of xorshift64*. */
static inline uint64_t
next_random(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * UINT64_C(2685821657736338717);
}

/* Start the sequence of numbers that belongs to a seed. */
static inline void
seed_random(uint64_t seed)
{
	random_state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
	for (int i = 0; i < 8; i++)
		next_random();
}

/* A number from 0 to below - 1. */
static inline int
random_below(int below)
{
	return (int) ((next_random() >> 33) % (unsigned) below);
}

#endif							/* ZKLOCK_RANDOM_H */
