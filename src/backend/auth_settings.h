/*-------------------------------------------------------------------------
 *
 * auth_settings.h
 *	  The settings about access to ZooKeeper (auth_settings.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_AUTH_SETTINGS_H
#define ZKLOCK_AUTH_SETTINGS_H

#include "zklock.h"

extern char *zklock_root;
extern char *zklock_acl;
extern char *zklock_auth;
extern char *zklock_auth_file;

extern void zklock_auth_loaded(void);
extern bool zklock_check_auth(char **newval, void **extra, GucSource source);
extern const char *zklock_show_auth(void);
extern bool zklock_check_acl(char **newval, void **extra, GucSource source);
extern void zklock_auth_screen(Node *statement);
extern uint64 zklock_auth_stamp(void);
extern char *zklock_credential(void);

#endif							/* ZKLOCK_AUTH_SETTINGS_H */
