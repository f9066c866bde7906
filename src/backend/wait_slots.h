/*-------------------------------------------------------------------------
 *
 * wait_slots.h
 *	  Who of this cluster waits for what, for all of it to see.
 *
 * For the files of backend/.
 *
 * IDENTIFICATION
 *	  src/backend/wait_slots.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WAIT_SLOTS_H
#define ZKLOCK_WAIT_SLOTS_H

#include "zklock.h"

extern void zklock_waiting_request_shmem(void);
extern void zklock_waiting_attach(void);
extern int	zklock_waiting_places(void);
extern void zklock_waiting_session(int64 session);
extern void zklock_waiting_show(Wait *wait);
extern void zklock_waiting_end(void);
extern int	zklock_waiting_read(int index, Wait *wait);
extern int	zklock_waiting_blockers(int pid, int *pids);

#endif							/* ZKLOCK_WAIT_SLOTS_H */
