/*-------------------------------------------------------------------------
 *
 * detour.h
 *	  Leads each session of operations.c to the real server of its choice.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DETOUR_H
#define DETOUR_H

/* Begins, with servers as the library takes them: HOST:PORT,...  Returns how many. */
extern int	detour_begin(const char *servers);

/* Returns the address that leads to the session's server. */
extern const char *detour_address(int session);

/* Leads it to that server from now on, or to none if -1: its connections are closed. */
extern void detour_lead(int session, int server);

#endif							/* DETOUR_H */
