/*-------------------------------------------------------------------------
 *
 * rights.h
 *	  What this role may lock (rights.c).  For funcs.c, acquire.c,
 *	  admin.c and zklock.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RIGHTS_H
#define ZKLOCK_RIGHTS_H

#include "utils/guc.h"

#include "zklock.h"

/* zklock.session_scope: what a session-level acquisition is. */
typedef enum SessionScope
{
	SESSION_SCOPE_OFF,			/* an error */
	SESSION_SCOPE_WARN,			/* possible, with a WARNING */
	SESSION_SCOPE_ON
} SessionScope;

extern char *zklock_paths;
extern int	zklock_max_locks;
extern int	zklock_session_scope;

extern bool zklock_check_paths(char **newval, void **extra, GucSource source);
extern void zklock_rights_check_path(const LockName *name, bool below);
extern void zklock_rights_check_scope(LockScope scope, const char *instead);
extern void zklock_rights_check_count(int more);

#endif							/* ZKLOCK_RIGHTS_H */
