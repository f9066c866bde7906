/*-------------------------------------------------------------------------
 *
 * owner.h
 *	  What the data of a contender says about its owner.
 *
 * For the files of backend/.
 *
 * IDENTIFICATION
 *	  src/backend/owner.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_OWNER_H
#define ZKLOCK_OWNER_H

#include "zklock.h"

extern char *zklock_foreign_string(const char *data, int length);
extern void zklock_owner_fields(const char *data, int length, Datum *values,
								bool *nulls);
extern void zklock_owner_columns(const char *data, int length, Datum *values,
								 bool *nulls);
extern void zklock_owner_append(StringInfo buf, const Datum *values,
								const bool *nulls);
extern char *zklock_owner_describe(const char *data, int64 session_id, bool all);
extern char *zklock_broken_sentence(const char *by, bool all);

#endif							/* ZKLOCK_OWNER_H */
