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

extern uint64_t chance_next(Chance *chance);
extern uint64_t chance_below(Chance *chance, uint64_t limit);	/* 0 to limit - 1; limit
																 * > 0 */
extern int64_t chance_between(Chance *chance, int64_t low, int64_t high);	/* both included */
extern bool chance_one_in(Chance *chance, uint64_t count);	/* true once in so many
															 * times; never for 0 */

#endif							/* CHANCE_H */
