/*-------------------------------------------------------------------------
 *
 * resolver.h
 *	  The resolver of the simulated world.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RESOLVER_H
#define RESOLVER_H

#include "sim.h"

/*
 * From now on a look-up takes up to that long, and one in so many (0 for none)
 * fails.
 */
extern void resolver_be(SimTime longest, uint64_t fail_one_in);

#endif							/* RESOLVER_H */
