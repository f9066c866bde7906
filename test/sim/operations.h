/*-------------------------------------------------------------------------
 *
 * operations.h
 *	  Random operations on an ensemble, and what came of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include <stdint.h>
#include <stdio.h>
#include <zookeeper/zookeeper.h>

#define MAX_SERVERS		3

/* Handles that there are at a time. */
#define MAX_SLOTS		(4 + MAX_SERVERS)

/* How handles come to the servers, which are numbered from 0 on. */
typedef struct Servers
{
	int			count;

	/*
	 * Returns the address for the handle in a slot, which leads to its
	 * server.
	 */
	const char *(*address) (int slot);

	/*
	 * Leads it to that server from now on, or to none if -1: a connection
	 * that it has breaks.  The handle is null before it is made.
	 */
	void		(*lead) (int slot, zhandle_t *zh, int server);
} Servers;

/*
 * Makes so many operations, chosen by the seed, below a znode that is named
 * after it, and prints them.
 */
extern void operations_run(FILE *file, const Servers *servers, uint64_t seed, int count);

#endif							/* OPERATIONS_H */
