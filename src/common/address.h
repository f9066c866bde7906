/*-------------------------------------------------------------------------
 *
 * address.h
 *	  Server lists, resolved into numeric addresses (address.c).  For client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ADDRESS_H
#define ZKLOCK_ADDRESS_H

#include "zk_types.h"

/* Longest host, terminating NUL included. */
#define ZK_HOST_SIZE	256

/* Longest numeric address with scope and port, terminating NUL included. */
#define ZK_ADDRESS_SIZE	80

/* One of the addresses of a server: "1.2.3.4:2181" or "::1:2181". */
typedef struct ZkEndpoint
{
	char		address[ZK_ADDRESS_SIZE];
	char		host[ZK_HOST_SIZE]; /* as in the list, without brackets */
} ZkEndpoint;

/* The servers of a list. */
typedef struct ZkServers
{
	char	   *addresses;		/* in the form that libzookeeper takes */
	ZkEndpoint *endpoints;		/* an address has one for each host it is of */
	int			count;
	int			capacity;		/* in endpoints */
} ZkServers;

extern bool zk_servers_resolve(const char *list, ZkServers *servers,
							   ZkError *error, char *detail);
extern void zk_servers_free(ZkServers *servers);

#endif							/* ZKLOCK_ADDRESS_H */
