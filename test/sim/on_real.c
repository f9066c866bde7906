/*-------------------------------------------------------------------------
 *
 * on_real.c
 *	  Random operations on real servers, by the real library.
 *
 *	  on_real SERVERS SEED COUNT
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "detour.h"
#include "operations.h"

static void
lead(int slot, zhandle_t *zh, int server)
{
	(void) zh;
	detour_lead(slot, server);
}

int
main(int argc, char **argv)
{
	Servers		servers = {.address = detour_address,.lead = lead};

	if (argc != 4)
		return 2;
	zoo_set_debug_level((ZooLogLevel) 0);	/* broken connections are no news */
	servers.count = detour_begin(argv[1]);
	operations_run(stdout, &servers, strtoull(argv[2], NULL, 0), atoi(argv[3]));
	return 0;
}
