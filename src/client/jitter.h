/*-------------------------------------------------------------------------
 *
 * jitter.h
 *	  Random delays, so that many clients do not do the same at the same moment.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_JITTER_H
#define ZKLOCK_JITTER_H

#include <stdint.h>

#include "zk_types.h"

extern void zk_jitter_seed(uint64_t *state);
extern ZkTime zk_jitter(uint64_t *state, ZkTime limit);

#endif							/* ZKLOCK_JITTER_H */
