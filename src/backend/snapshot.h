/*-------------------------------------------------------------------------
 *
 * snapshot.h
 *	  Wait without a snapshot (snapshot.c).  For funcs.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SNAPSHOT_H
#define ZKLOCK_SNAPSHOT_H

#include "zklock.h"

extern void zklock_snapshot_give_up(Node *context);

#endif							/* ZKLOCK_SNAPSHOT_H */
