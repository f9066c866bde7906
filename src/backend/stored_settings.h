/*-------------------------------------------------------------------------
 *
 * stored_settings.h
 *	  Settings that were made before the library was loaded (stored_settings.c).
 *	  For zklock.c and rights.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_STORED_SETTINGS_H
#define ZKLOCK_STORED_SETTINGS_H

#include "zklock.h"

extern void zklock_stored_settings_note(void);
extern void zklock_stored_settings_check(void);

#endif							/* ZKLOCK_STORED_SETTINGS_H */
