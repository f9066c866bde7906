/*-------------------------------------------------------------------------
 *
 * deed.h
 *	  What a statement does, for the veto of commits (deed.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEED_H
#define ZKLOCK_DEED_H

#include "nodes/plannodes.h"

#include "zklock.h"

/*
 * What a statement does, for the commit.  What begins within a statement beyond
 * FRAME is a part of that.
 */
typedef enum Deed
{
	DEED_NONE,					/* no statement runs */
	DEED_FRAME,					/* begins or ends a transaction or a part of
								 * one, or executes what was prepared */
	DEED_HARMLESS,				/* releases, looks at locks, or sets
								 * something: is never refused */
	DEED_LOCKING,				/* calls functions of this extension only */
	DEED_WORK,					/* anything else */
	DEED_OUTSIDE,				/* shows outside of the database at once */
	DEED_STEPS,					/* commits several times */
	DEED_AT_ONCE				/* takes effect before it commits */
} Deed;

extern Deed zklock_deed_of_call(Oid function);
extern Deed zklock_deed_of_plan(const PlannedStmt *plan);
extern Deed zklock_deed_of_utility(Node *command, bool top_level);

#endif							/* ZKLOCK_DEED_H */
