/*-------------------------------------------------------------------------
 *
 * secret_file.h
 *	  Files that settings name (secret_file.c).  For auth_settings.c,
 *	  tls_settings.c and session.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SECRET_FILE_H
#define ZKLOCK_SECRET_FILE_H

#include "zklock.h"

extern void zklock_wipe(char *secret);
extern char *zklock_file_path(const char *file);
extern uint64 zklock_stamp_text(uint64 stamp, const char *text);
extern uint64 zklock_stamp_file(uint64 stamp, const char *file);
extern char *zklock_file_read(const char *setting, const char *file, bool secret,
							  size_t *len);
pg_noreturn extern void zklock_file_report(const char *setting, const char *file,
										   const char *wrong, const char *hint);

#endif							/* ZKLOCK_SECRET_FILE_H */
