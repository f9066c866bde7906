/*-------------------------------------------------------------------------
 *
 * array.c
 *	  Arrays that grow without moving.
 *
 * A client may have a thousand contenders, and mostly has one.  Each takes
 * several kilobytes, and cannot move, as threads have pointers to it.  Where
 * the kernel does not overcommit memory (vm.overcommit_memory = 2), an array
 * of the largest size would be charged to every backend, touched or not.  So
 * only address space is reserved for all items, which costs nothing, and
 * zeroed memory is put there as the array grows.
 *
 * Nothing here locks: a caller that changes an array has a lock for it, and one
 * that reads an item either has that, or learned of the item later.
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
 * Make an empty array with room for so many items of that size in bytes.
 * Returns false if there is no address space.  Any thread.
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
 * Provide memory for the first so many items, no more than there is room for;
 * new ones are zero.  Returns false, with the array as it was, if out of
 * memory.  Any thread.
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

/* Free all of it, if anything was reserved; for good.  Any thread. */
void
zk_array_free(ZkArray *array)
{
	munmap(array->items, array->reserved);
}
