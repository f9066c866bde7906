/*-------------------------------------------------------------------------
 *
 * workers.h
 *	  Several processes share the work.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKERS_H
#define WORKERS_H

#include <stdbool.h>

#define WORKERS_MAX		256

/*
 * Has so many processes do the work, each with its number, from 0; one does it in this
 * process.  Returns true if all have come to the end of it.  As soon as one has exited
 * otherwise, the others are killed.
 */
extern bool workers_run(int count, void (*work) (int number));

#endif
