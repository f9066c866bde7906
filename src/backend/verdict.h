/*-------------------------------------------------------------------------
 *
 * verdict.h
 *	  What stands against the commit of the current transaction (verdict.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_VERDICT_H
#define ZKLOCK_VERDICT_H

#include "zklock.h"
#include "deed.h"
#include "lock_table.h"

/* What the current transaction has done (Y4). */
typedef enum Conduct
{
	CONDUCT_UNKNOWN,			/* nothing that we have seen */
	CONDUCT_HARMLESS,			/* released and looked, and nothing else */
	CONDUCT_WORK,				/* something that may rest on its locks */
	CONDUCT_DOOMED,				/* that, and it lost one of them */
	CONDUCT_EFFECTIVE			/* a command that took effect by itself */
} Conduct;

/*
 * A note of a lock that was lost, for when it is released.  A path takes at
 * most twice as many bytes in the server's encoding as in UTF-8.
 */
typedef struct LostLock
{
	bool		semaphore;
	char		path[2 * ZK_NODE_PATH_SIZE];	/* empty for no lock */
	LossNote	loss;
} LostLock;

extern volatile sig_atomic_t zklock_shielded;

extern Conduct zklock_verdict_conduct(void);
extern bool zklock_verdict_idle(void);
extern Deed zklock_verdict_statement(void);
extern void zklock_verdict_work(void);
extern void zklock_verdict_begin(Deed deed);
extern void zklock_verdict_call(Deed deed);
extern void zklock_verdict_take_effect(Deed deed);
extern Deed zklock_verdict_end(void);
extern void zklock_verdict_doom(const Lock *lock, const LossNote *loss);
extern void zklock_verdict_reset(void);
extern int	zklock_errdetail_loss(const LossNote *loss);
extern void zklock_note_lost(LostLock *lost, const Lock *lock,
							 const LossNote *loss);
pg_noreturn extern void zklock_report_note(const LostLock *lost);
pg_noreturn extern void zklock_report_doom(void);

#endif							/* ZKLOCK_VERDICT_H */
