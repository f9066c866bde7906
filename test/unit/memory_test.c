/*-------------------------------------------------------------------------
 *
 * memory_test.c
 *	  Functions that need nothing but memory, when there is none: each of their
 *	  allocations fails in turn, alone or with all that follow (S370).
 *
 * test/sim does the same with the whole client, where another reason may hide
 * the one that is reported.  The sanitizers see what is not freed.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "address.h"
#include "nameset.h"
#include "tap.h"
#include "waitgraph.h"

/* More than there is room for after the first allocation. */
#define NINE_SERVERS	"127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4,127.0.0.1:5,127.0.0.1:6," \
	"127.0.0.1:7,127.0.0.1:8,127.0.0.1:9"

/* Allocations until one fails, and whether those behind that fail, too. */
static int	left;
static bool all_behind;

extern void *__real_malloc(size_t size);
extern void *__wrap_malloc(size_t size);
extern void *__real_realloc(void *old, size_t size);
extern void *__wrap_realloc(void *old, size_t size);

static bool
fails(void)
{
	left--;
	return left == 0 || (left < 0 && all_behind);
}

void *
__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *
__wrap_realloc(void *old, size_t size)
{
	return fails() ? NULL : __real_realloc(old, size);
}

/* Servers: with any failure the error is the memory, whatever was resolved before. */
static void
test_servers(void)
{
	ZkServers	found;
	ZkError		error;
	char		detail[ZK_DETAIL_SIZE];
	int			number = 0;
	bool		good;

	do
	{
		error = ZK_OK;
		left = ++number;
		good = zk_servers_resolve(NINE_SERVERS, &found, &error, detail);
		if (left > 0)
			break;
		ok(!good && found.addresses == NULL, "S370: servers: allocation %d fails", number);
		is_int(error, ZK_ERR_NO_MEMORY, "the error is no other one");
		is_str(detail, "Out of memory.", "nor is the detail");
		zk_servers_free(&found);
	} while (number < 100);
	ok(good && number > 3, "servers: all allocations failed once");
	zk_servers_free(&found);
}

/* A cycle that is not looked for is not reported as none. */
static void
test_cycle(void)
{
	static const ZkWaitEdge edges[] = {{.from = 0,.to = 1}, {.from = 1,.to = 0}};
	static const int64_t published[] = {1, 2};
	int			cycle[2];

	left = 1;
	is_int(zk_cycle_find(edges, 2, published, 2, 1, cycle), -1, "S370: a cycle: no memory");
	left = 0;
	is_int(zk_cycle_find(edges, 2, published, 2, 1, cycle), 2, "a cycle: memory");
}

/* A name that could not be added is not in the set, and can be added later. */
static void
test_names(void)
{
	NameSet		set = {0};

	left = 1;
	ok(!zk_nameset_add(&set, "name", 4), "S370: a name: no memory");
	ok(!zk_nameset_has(&set, "name", 4), "the set does not have it");
	left = 0;
	ok(zk_nameset_add(&set, "name", 4), "a name: memory");
	ok(zk_nameset_has(&set, "name", 4), "the set has it");
	zk_nameset_free(&set);
}

int
main(void)
{
	test_servers();
	all_behind = true;
	test_servers();
	all_behind = false;
	test_cycle();
	test_names();
	return done_testing();
}
