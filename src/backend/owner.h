/*-------------------------------------------------------------------------
 *
 * owner.h
 *	  What the data of a contender says about its owner (owner.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_OWNER_H
#define ZKLOCK_OWNER_H

#include "zklock.h"

/*
 * What the data of a contender says about its owner; the columns that show
 * that, in this order, are the first ones.
 */
typedef enum OwnerField
{
	OWNER_CLUSTER,
	OWNER_HOST,
	OWNER_PORT,
	OWNER_DATNAME,
	OWNER_PID,
	OWNER_USENAME,
	OWNER_APPLICATION,
	OWNER_NOTE,
	OWNER_START,
	OWNER_INSTANCE,				/* see zklock_instance() */
	OWNER_REVOKED,				/* its release is asked for */
	OWNER_WAITED,				/* before the grant, in ms (W8) */
	OWNER_FIRE_TIME,			/* of the job it runs */
	OWNER_TOKEN					/* of what was exclusive before */
} OwnerField;

#define OWNER_COLS			9
#define OWNER_FIELDS			14

/* Bytes of zklock.note, terminating NUL included. */
#define NOTE_SIZE			128

/* The setting; see zklock.c for what it means. */
extern char *zklock_note;

extern bool zklock_check_note(char **newval, void **extra, GucSource source);

extern char *zklock_clean_name(const char *name);
extern char *zklock_convert(const char *text, int length, int from, int to);
extern char *zklock_owner_data(void);
extern const char *zklock_host(void);
extern void zklock_forget_host(void);
extern const char *zklock_instance(void);
extern char *zklock_foreign_string(const char *data, int length);
extern void zklock_owner_fields(const char *data, int length, Datum *values,
								bool *nulls);
extern void zklock_owner_append(StringInfo buf, const Datum *values,
								const bool *nulls);
extern char *zklock_owner_describe(const char *data, int64 session_id, bool all);
extern char *zklock_broken_sentence(const char *by, bool all);

#endif							/* ZKLOCK_OWNER_H */
