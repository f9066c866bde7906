/*-------------------------------------------------------------------------
 *
 * deed.h
 *	  What a statement does, as far as the veto of commits is concerned.
 *
 * For the files of backend/.
 *
 * IDENTIFICATION
 *	  src/backend/deed.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEED_H
#define ZKLOCK_DEED_H

#include "zklock.h"

extern Deed zklock_deed_of_call(Oid function);
extern Deed zklock_deed_of_plan(const PlannedStmt *plan);
extern Deed zklock_deed_of_utility(Node *command, bool top_level);

#endif							/* ZKLOCK_DEED_H */
