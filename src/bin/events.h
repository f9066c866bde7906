/*-------------------------------------------------------------------------
 *
 * events.h
 *	  What can happen while "zklock run" waits (events.c).  For run.c and
 *	  lock_connection.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_EVENTS_H
#define ZKLOCK_EVENTS_H

#include "guardian.h"

typedef struct Events
{
	int			signal;			/* one that asks to end came; 0 for none */
	bool		reported;		/* the guardian has, and ends */
	bool		guardian_lost;	/* it has ended without a report */
	Report		report;
} Events;

extern Events events;

extern bool events_begin(int guardian_socket);
extern short events_wait(int fd, short wanted, Time until);
extern void events_forward_signals(void);
extern void events_order(const Order *order);

#endif							/* ZKLOCK_EVENTS_H */
