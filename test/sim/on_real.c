/*-------------------------------------------------------------------------
 *
 * on_real.c
 *	  Random operations on a real server, by the real library.
 *
 *	  on_real SERVERS SEED COUNT
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <zookeeper/zookeeper.h>

#include "operations.h"

int
main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
	operations_run(stdout, argv[1], strtoull(argv[2], NULL, 0), atoi(argv[3]));
	return 0;
}
