/*-------------------------------------------------------------------------
 *
 * violation.c
 *	  A violation ends the program: for programs that say where they were.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"
#include "violation.h"

void
sim_violation(const char *rule, const char *fmt,...)
{
	va_list		args;

	fflush(stdout);
	violation_where();
	fprintf(stderr, "%s: ", rule);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}
