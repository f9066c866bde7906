/*-------------------------------------------------------------------------
 *
 * switchboard.h
 *	  Many ports before one ZooKeeper server, each of which stands for a server that
 *	  can hang, die, be cut off or be slow.
 *
 * It is a process of its own, and shares memory with the test and all that the test
 * forks after it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SWITCHBOARD_H
#define ZKLOCK_SWITCHBOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What is the matter with a server? */
typedef enum PortMode
{
	PORT_WORKS,
	PORT_HANGS,					/* it reads nothing and accepts nothing, as a
								 * process that was stopped; its kernel
								 * accepts connections */
	PORT_CUT_OFF,				/* what is sent to it or by it is lost */
	PORT_DEAD					/* its process was killed */
} PortMode;

typedef struct Port
{
	int			port;			/* on 127.0.0.1; constant */
	atomic_int	mode;
	atomic_int	delay_ms;		/* of each way */
	atomic_llong accepted_at;	/* when the last connection was made,
								 * zk_now(); or 0 */
} Port;

/*
 * Start it, with so many ports, before a server ("host:port", the host in numbers).
 * NULL if that cannot be done.  It ends with the caller.
 */
extern Port *switchboard_start(const char *server, int count);

#endif							/* ZKLOCK_SWITCHBOARD_H */
