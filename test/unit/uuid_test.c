/*-------------------------------------------------------------------------
 *
 * uuid_test.c
 *	  Tests of uuid.c: random uuids, for which the kernel is seldom asked.
 *
 * getrandom() is here in the place of libc's: it is counted, and gives fewer bytes than it
 * is asked for, or is interrupted, as the kernel's may be.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tap.h"
#include "uuid.h"

#define UUIDS		(10 * ZK_UUIDS_AT_ONCE)

static int	calls;
static size_t most = SIZE_MAX;	/* that a call gives */
static bool interrupted;		/* every other call */

ssize_t
getrandom(void *data, size_t size, unsigned int flags)
{
	calls++;
	if (interrupted && calls % 2 == 1)
	{
		errno = EINTR;
		return -1;
	}
	return syscall(SYS_getrandom, data, size < most ? size : most, flags);
}

/* Is that a uuid of version 4? */
static bool
is_version_4(const char *uuid)
{
	return strlen(uuid) == ZK_UUID_SIZE - 1 && strspn(uuid, "0123456789abcdef-") == strlen(uuid) &&
		uuid[8] == '-' && uuid[13] == '-' && uuid[18] == '-' && uuid[23] == '-' &&
		uuid[14] == '4' && strchr("89ab", uuid[19]) != NULL;
}

static int
compare(const void *one, const void *two)
{
	return strcmp(one, two);
}

/* Make many from two sources by turns.  Returns true if no two are the same. */
static bool
all_differ(void)
{
	static char uuids[UUIDS][ZK_UUID_SIZE];
	ZkUuidSource sources[2] = {0};
	bool		good = true;

	for (int i = 0; i < UUIDS; i++)
	{
		zk_uuid_make(&sources[i % 2], uuids[i]);
		good &= is_version_4(uuids[i]);
	}
	qsort(uuids, UUIDS, ZK_UUID_SIZE, compare);
	for (int i = 1; i < UUIDS; i++)
		good &= strcmp(uuids[i - 1], uuids[i]) != 0;
	return good;
}

/* Are all bytes that were used wiped, and no others? */
static bool
used_are_wiped(void)
{
	static const unsigned char nothing[ZK_UUID_BYTES];
	ZkUuidSource source = {0};
	char		uuid[ZK_UUID_SIZE];
	bool		good = true;

	for (int i = 0; i < ZK_UUIDS_AT_ONCE; i++)
	{
		zk_uuid_make(&source, uuid);
		for (size_t j = 0; j < ZK_UUIDS_AT_ONCE; j++)
			good &= (memcmp(source.bytes[j], nothing, ZK_UUID_BYTES) == 0) == (j >= source.left);
	}
	return good && source.left == 0;
}

int
main(void)
{
	ok(all_differ(), "uuids of two sources differ");
	is_int(calls, UUIDS / ZK_UUIDS_AT_ONCE, "and take few calls");
	ok(used_are_wiped(), "bytes that were used are wiped");
	most = 7;
	interrupted = true;
	ok(all_differ() && used_are_wiped(), "bytes may come in pieces");
	return done_testing();
}
