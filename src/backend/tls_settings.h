/*-------------------------------------------------------------------------
 *
 * tls_settings.h
 *	  The settings about TLS and SASL (tls_settings.c).  For the files of
 *	  backend/ that start the lock client or define settings.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_TLS_SETTINGS_H
#define ZKLOCK_TLS_SETTINGS_H

#include "zklock.h"
#include "zk_session.h"

extern void zklock_transport_define(void);
extern bool zklock_transport_identifies(void);
extern bool zklock_transport_tls(void);
extern const char *zklock_transport_mechanism(void);
extern uint64 zklock_transport_stamp(uint64 stamp);
extern void zklock_transport_config(ZkConfig *config);
extern void zklock_transport_wipe(const char **transport);

#endif							/* ZKLOCK_TLS_SETTINGS_H */
