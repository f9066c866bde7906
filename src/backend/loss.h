/*-------------------------------------------------------------------------
 *
 * loss.h
 *	  What the loss of a lock does to the current statement (loss.c).  For
 *	  zklock.c and funcs.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LOSS_H
#define ZKLOCK_LOSS_H

#include <signal.h>

#include "zklock.h"
#include "deed.h"

/* The action on the current statement when a lock is lost. */
typedef enum LossAction
{
	LOSS_CANCEL,
	LOSS_REPORT
} LossAction;

extern int	zklock_on_lock_loss;

extern void zklock_handle_loss(SIGNAL_ARGS);
extern void zklock_statement_begin(Deed deed);
extern bool zklock_statement_alone(void);
extern bool zklock_statement_is_call(Oid function);
extern void zklock_statement_end(void);
extern void zklock_statement_failed(MemoryContext context);

/* What a hook calls to run a statement goes between these two. */
#define STATEMENT_BEGIN(deed) \
	do { \
		MemoryContext statement_context = CurrentMemoryContext; \
		Deed		statement_deed = (deed); \
		PG_TRY(); \
		{ \
			zklock_statement_begin(statement_deed)

#define STATEMENT_END() \
		} \
		PG_CATCH(); \
		{ \
			zklock_statement_failed(statement_context); \
			PG_RE_THROW(); \
		} \
		PG_END_TRY(); \
		zklock_statement_end(); \
	} while (0)

#endif							/* ZKLOCK_LOSS_H */
