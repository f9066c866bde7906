/*-------------------------------------------------------------------------
 *
 * log_lines.h
 *	  The lines of the client's log, for tests without a client.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LOG_LINES_H
#define ZKLOCK_LOG_LINES_H

#include "library.h"

/* Take all lines of the log.  Returns how many of them have a text in them.  Any thread. */
static inline int
take_log_lines(const char *text)
{
	char		line[512];
	bool		warning;
	int			repeats;
	int			dropped;
	int			count = 0;

	while (zk_log_take(line, sizeof(line), &warning, &repeats, &dropped))
		count += strstr(line, text) != NULL;
	return count;
}

#endif							/* ZKLOCK_LOG_LINES_H */
