/*-------------------------------------------------------------------------
 *
 * uuid.c
 *	  Random uuids, for the names of contenders.
 *
 * A backend needs one for each lock that it acquires.  The kernel is asked for
 * the bytes of several at a time, which is one system call less for each of the
 * others.
 *
 * Each client has bytes of its own, and begins without any.  It starts in the
 * process that uses it, and does not live on in a child that the process forks:
 * so no two processes have the same bytes.  They are wiped when they are used.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "uuid.h"

/* Fetches random bytes. */
static void
refill(ZkUuidSource *source)
{
	unsigned char *bytes = source->bytes[0];
	size_t		have = 0;

	while (have < sizeof(source->bytes))
	{
		ssize_t		n = getrandom(bytes + have, sizeof(source->bytes) - have, 0);

		if (n > 0)
			have += (size_t) n;
	}
	source->left = ZK_UUIDS_AT_ONCE;
}

/*
 * Writes a random (version 4) uuid in text form, ZK_UUID_SIZE bytes.  The
 * caller sees to it that no other thread uses the source.
 */
void
zk_uuid_make(ZkUuidSource *source, char *uuid)
{
	unsigned char *r;

	if (source->left == 0)
		refill(source);
	r = source->bytes[--source->left];
	r[6] = (r[6] & 0x0F) | 0x40;
	r[8] = (r[8] & 0x3F) | 0x80;
	snprintf(uuid, ZK_UUID_SIZE,
			 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
			 "%02x%02x%02x%02x%02x%02x",
			 r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7],
			 r[8], r[9], r[10], r[11], r[12], r[13], r[14], r[15]);
	memset(r, 0, ZK_UUID_BYTES);
}
