/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  The memory of simulated processes: counted, refused, and taken back.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory.h"

/* In front of each piece of memory. */
struct Block
{
	Process    *process;		/* whose it is; NULL for nobody's */
	Block	   *next;
	Block	   *previous;
	size_t		size;
	max_align_t memory[];
};

/* Returns true if the process's next allocation is to fail. */
static bool
must_fail(Process *process)
{
	process->allocations++;
	if (process->fail_from == 0 || process->allocations < process->fail_from ||
		process->allocations >= process->fail_from + process->fail_count)
		return false;
	sim_trace("%s: an allocation fails", process->name);
	return true;
}

bool
memory_is_refused(void)
{
	return process_now() != NULL && must_fail(process_now());
}

static Block *
block_of(void *memory)
{
	return (Block *) ((char *) memory - offsetof(Block, memory));
}

void *
memory_get(size_t size)
{
	Process    *process = process_now();
	Block	   *block;

	if (process != NULL && must_fail(process))
		return NULL;
	block = sim_alloc(sizeof(Block) + size);
	block->process = process;
	block->size = size;
	if (process == NULL)
		return block->memory;
	block->next = process->blocks;
	if (block->next != NULL)
		block->next->previous = block;
	process->blocks = block;
	process->allocated += size;
	return block->memory;
}

void
memory_put(void *memory)
{
	Block	   *block;
	Process    *process;

	if (memory == NULL)
		return;
	block = block_of(memory);
	process = block->process;
	if (process != NULL)
	{
		process->allocated -= block->size;
		if (block->next != NULL)
			block->next->previous = block->previous;
		if (block->previous != NULL)
			block->previous->next = block->next;
		else
			process->blocks = block->next;
	}
	free(block);
}

void *
memory_resize(void *old, size_t size)
{
	void	   *memory = memory_get(size);
	size_t		kept;

	if (memory == NULL || old == NULL)
		return memory;
	kept = block_of(old)->size < size ? block_of(old)->size : size;
	memcpy(memory, old, kept);
	memory_put(old);
	return memory;
}

/* As mmap() of anonymous memory, for the process that runs. */
void *
memory_map(size_t size, int protection, int flags)
{
	Process    *process = process_now();
	void	   *memory;

	if (must_fail(process))
		return MAP_FAILED;
	memory = mmap(NULL, size, protection, flags, -1, 0);
	for (int i = 0; memory != MAP_FAILED; i++)
	{
		if (i == PROCESS_MAPS)
			sim_violation("seam", "too many calls of mmap()");
		if (process->maps[i].memory != NULL)
			continue;
		process->maps[i].memory = memory;
		process->maps[i].size = size;
		break;
	}
	return memory;
}

void
memory_unmap(void *memory, size_t size)
{
	Process    *process = process_now();

	for (int i = 0; i < PROCESS_MAPS; i++)
		if (process->maps[i].memory == memory)
			process->maps[i].memory = NULL;
	munmap(memory, size);
}

void
memory_free_all(Process *process)
{
	for (int i = 0; i < PROCESS_MAPS; i++)
	{
		if (process->maps[i].memory != NULL)
			munmap(process->maps[i].memory, process->maps[i].size);
		process->maps[i].memory = NULL;
	}
	while (process->blocks != NULL)
		memory_put(process->blocks->memory);
}
