/*-------------------------------------------------------------------------
 *
 * address.h
 *	  Server lists: what zklock.servers may be, and the numbers behind it.
 *
 * IDENTIFICATION
 *	  src/address.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ADDRESS_H
#define ZKLOCK_ADDRESS_H

#include "zkclient.h"

/*
 * Resolve a list of servers into a malloc'd list in the form that libzookeeper
 * takes, numeric, each address once, and an odd count of them (then one is
 * repeated).  NULL, with *error and the reason in detail, if not one of the
 * names can be resolved.  If only some can, they do, and detail names the
 * others (else it is empty).  Blocks as long as the resolver does: never on
 * the backend's thread.
 */
extern char *zk_servers_resolve(const char *servers, ZkError *error,
								char *detail);

#endif							/* ZKLOCK_ADDRESS_H */
