/*-------------------------------------------------------------------------
 *
 * memory.h
 *	  The memory of simulated processes: counted, refused, and taken back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef MEMORY_H
#define MEMORY_H

#include "task.h"

/* For the process that runs; in its absence as malloc() and free(). */
extern void *memory_get(size_t size);
extern void *memory_resize(void *old, size_t size);
extern void memory_put(void *memory);
extern void *memory_map(size_t size, int protection, int flags);
extern void memory_unmap(void *memory, size_t size);

/*
 * Returns true if the process that runs gets no memory now, or none of what takes
 * some: a thread, a descriptor.  Counts as an allocation.
 */
extern bool memory_is_refused(void);
extern void memory_free_all(Process *process);

#endif							/* MEMORY_H */
