/*-------------------------------------------------------------------------
 *
 * array.c
 *	  Arrays that grow without moving.
 *
 * A client may have a thousand contenders, and mostly has one.  What is kept
 * for each is several kilobytes, and threads have pointers to it, so it cannot
 * move.  An array of the largest size would be charged to every backend in
 * whole, touched or not, where the kernel does not overcommit memory
 * (vm.overcommit_memory = 2), and there is one client in each.  So only address
 * space is taken for all items, which costs nothing, and memory, filled with
 * zeros, is put there as the array grows.
 *
 * Nothing here locks: who changes an array has a lock for it, and so has who
 * reads an item, or the item was provided before it was told of.
 *
 * IDENTIFICATION
 *	  src/client/array.c
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "array.h"

/* Bytes, up to whole pages. */
static size_t
whole_pages(size_t bytes)
{
	size_t		page = (size_t) sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

/*
 * Make an empty array with room for so many items of that size in bytes.  False
 * if there is no address space.  Any thread.
 */
bool
zk_array_reserve(ZkArray *array, size_t item_size, int count)
{
	void	   *items;

	memset(array, 0, sizeof(*array));
	array->item_size = item_size;
	array->reserved = whole_pages(item_size * (size_t) count);
	items = mmap(NULL, array->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
	if (items == MAP_FAILED)
		return false;
	array->items = items;
	return true;
}

/*
 * Have memory for the first so many items, no more than there is room for.  New
 * ones are zero.  False if there is no memory; the array is as it was then.
 * Any thread.
 */
bool
zk_array_provide(ZkArray *array, int count)
{
	size_t		needed = whole_pages(array->item_size * (size_t) count);

	if (needed <= array->provided)
		return true;
	if (mprotect((char *) array->items + array->provided,
				 needed - array->provided, PROT_READ | PROT_WRITE) != 0)
		return false;
	array->provided = needed;
	return true;
}

/*
 * Give all of it back, if anything was reserved.  Any thread.
 */
void
zk_array_free(ZkArray *array)
{
	if (array->items != NULL)
		munmap(array->items, array->reserved);
	memset(array, 0, sizeof(*array));
}
