/*-------------------------------------------------------------------------
 *
 * raw.c
 *	  A peer of the bench: the bare client library, as fast as it goes.
 *
 *	raw SERVERS
 *
 * All sessions are in this process.  See recipe.c for what they do.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "recipe.h"

int
main(int argc, char **argv)
{
	if (argc != 2)
	{
		fputs("usage: raw SERVERS\n", stderr);
		return 2;
	}
	recipe_init(argv[1]);
	return peer_main(&recipe_client);
}
