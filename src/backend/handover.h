/*-------------------------------------------------------------------------
 *
 * handover.h
 *	  Causal hand-over (handover.c).  For the files of backend/ that acquire or
 *	  release locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_HANDOVER_H
#define ZKLOCK_HANDOVER_H

#include "zklock.h"
#include "zk_record.h"

/* How far a server has replayed what the record of a lock asks for. */
typedef enum ReplayState
{
	REPLAY_DONE,
	REPLAY_PENDING,
	REPLAY_NEVER				/* it is not in the history of this server */
} ReplayState;

extern bool zklock_handover;

extern void zklock_handover_note(ZkRecord *note);
extern ZkPosition zklock_handover_commit(void);
extern ZkPosition zklock_handover_here(void);
extern ReplayState zklock_handover_judge_position(const ZkPosition *wanted,
												  ZkPosition *have);
extern ReplayState zklock_handover_judge(const ZkRecord *record,
										 ZkPosition *wanted, ZkPosition *have);
extern ZkTime zklock_handover_look_at(ZkTime since, ZkTime now);
extern char *zklock_handover_describe(const ZkPosition *wanted,
									  const ZkPosition *have);
extern void zklock_handover_warn(const char *path, const ZkPosition *wanted,
								 const ZkPosition *have);

#endif							/* ZKLOCK_HANDOVER_H */
