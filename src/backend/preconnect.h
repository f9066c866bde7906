/*-------------------------------------------------------------------------
 *
 * preconnect.h
 *	  Connect before the first lock (preconnect.c).  For zklock.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PRECONNECT_H
#define ZKLOCK_PRECONNECT_H

#include "zklock.h"

extern bool zklock_preconnect;
extern bool zklock_preconnect_due;

extern void zklock_assign_preconnect(bool newval, void *extra);
extern void zklock_preconnect_begin(void);
extern void zklock_preconnect_loaded(void);

#endif							/* ZKLOCK_PRECONNECT_H */
