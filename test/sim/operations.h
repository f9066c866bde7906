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

/*
 * Makes so many operations, chosen by the seed, below a znode that is named
 * after it, and prints them.
 */
extern void operations_run(FILE *file, const char *servers, uint64_t seed, int count);

#endif							/* OPERATIONS_H */
