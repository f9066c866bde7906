/*-------------------------------------------------------------------------
 *
 * verdict.h
 *	  What stands against the commit of the transaction that runs.
 *
 * For the files of backend/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_VERDICT_H
#define ZKLOCK_VERDICT_H

#include "zklock.h"
#include "deed.h"
#include "lock_table.h"

extern volatile sig_atomic_t zklock_shielded;

extern bool zklock_verdict_worked(void);
extern bool zklock_verdict_harmless(void);
extern bool zklock_verdict_doomed(void);
extern bool zklock_verdict_effective(void);
extern void zklock_verdict_work(void);
extern bool zklock_verdict_open(void);
extern bool zklock_verdict_in_statement(void);
extern void zklock_verdict_begin(Deed deed);
extern void zklock_verdict_call(Deed deed);
extern void zklock_verdict_take_effect(Deed deed);
extern Deed zklock_verdict_end(void);
extern void zklock_verdict_doom(const Lock *lock, const LossNote *loss);
extern void zklock_verdict_reset(void);
extern int	zklock_errdetail_loss(const LossNote *loss);
pg_noreturn extern void zklock_report_doom(void);

#endif							/* ZKLOCK_VERDICT_H */
