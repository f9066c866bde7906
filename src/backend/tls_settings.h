/*-------------------------------------------------------------------------
 *
 * tls_settings.h
 *	  The settings about TLS and SASL (tls_settings.c).
 *
 * For the files of backend/ that start the lock client or define settings.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_TLS_SETTINGS_H
#define ZKLOCK_TLS_SETTINGS_H

#include "zklock.h"
#include "zk_session.h"

extern void zklock_secure_define(void);
extern bool zklock_secure_identifies(void);
extern bool zklock_secure_tls(void);
extern const char *zklock_secure_mechanism(void);
extern uint64 zklock_secure_stamp(uint64 stamp);
extern void zklock_secure_config(ZkConfig *config);
extern void zklock_secure_wipe(const char **transport);

#endif							/* ZKLOCK_TLS_SETTINGS_H */
