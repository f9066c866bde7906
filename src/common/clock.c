/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  The clock of all points in time.
 *
 *-------------------------------------------------------------------------
 */
#include <time.h>

#include "zk_types.h"

/* Now; see ZkTime.  Any thread. */
ZkTime
zk_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (ZkTime) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
