/*-------------------------------------------------------------------------
 *
 * violation.h
 *	  What a program tells of a violation (violation.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef VIOLATION_H
#define VIOLATION_H

/* Writes to stderr where the program is, for the beginning of the report. */
extern void violation_where(void);

#endif							/* VIOLATION_H */
