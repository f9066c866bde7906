/*-------------------------------------------------------------------------
 *
 * recipe.h
 *	  The least that a lock's queue takes, with the bare client library.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_BENCH_RECIPE_H
#define ZKLOCK_BENCH_RECIPE_H

#include <stdatomic.h>

#include "peer.h"

extern const PeerClient recipe_client;

extern void recipe_init(const char *addresses);
extern void recipe_show_queued(void *arg, atomic_bool *queued);

#endif							/* ZKLOCK_BENCH_RECIPE_H */
