/*-------------------------------------------------------------------------
 *
 * array_test.c
 *	  Tests of array.c: address space that becomes memory bit by bit.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "array.h"
#include "tap.h"

#define ITEM_SIZE	100
#define ITEMS		10000

static void
test_room(void)
{
	ZkArray		array;
	size_t		page = (size_t) sysconf(_SC_PAGESIZE);
	unsigned char resident;
	char	   *items;
	int			nonzero = 0;

	memset(&array, 0x5A, sizeof(array));
	ok(zk_array_reserve(&array, ITEM_SIZE, ITEMS), "there is address space");
	ok(array.items != NULL && array.provided == 0, "and no memory yet, whatever was there before");
	ok(array.reserved >= ITEM_SIZE * ITEMS && array.reserved < ITEM_SIZE * ITEMS + page &&
	   array.reserved % page == 0, "it is as much as is needed, in pages");

	items = array.items;
	ok(zk_array_provide(&array, 1), "the first item gets memory");
	ok(array.provided == page, "a page of it");
	for (size_t i = 0; i < page; i++)
		nonzero += items[i] != 0;
	is_int(nonzero, 0, "which is zero");
	memset(items, 1, page);
	ok(zk_array_provide(&array, (int) (page / ITEM_SIZE)) && array.provided == page,
	   "there is room in it for more");
	ok(zk_array_provide(&array, ITEMS) && array.provided == array.reserved, "and then for all");
	ok(array.items == items && items[0] == 1, "where the first ones are, nothing has moved");
	items[array.reserved - 1] = 1;
	ok(zk_array_provide(&array, 1) && array.provided == array.reserved && items[0] == 1,
	   "memory that was provided stays");
	zk_array_free(&array);
	ok(mincore(items, page, &resident) != 0 && errno == ENOMEM, "after the end nothing is there");
}

static void
test_no_room(void)
{
	ZkArray		array;

	memset(&array, 0x5A, sizeof(array));
	ok(!zk_array_reserve(&array, SIZE_MAX / 2 / INT_MAX, INT_MAX),
	   "there is not so much address space");
	ok(array.items == NULL && array.provided == 0, "and then there are no items");
}

int
main(void)
{
	test_room();
	test_no_room();
	return done_testing();
}
