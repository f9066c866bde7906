/*-------------------------------------------------------------------------
 *
 * descendants.h
 *	  All processes that come from this one (descendants.c).  For guardian.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DESCENDANTS_H
#define ZKLOCK_DESCENDANTS_H

#include <stdbool.h>
#include <sys/types.h>

extern bool descendants_adopt(void);
extern void descendants_signal(int signal_number, pid_t group);

#endif							/* ZKLOCK_DESCENDANTS_H */
