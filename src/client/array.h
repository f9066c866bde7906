/*-------------------------------------------------------------------------
 *
 * array.h
 *	  Arrays that grow without moving.
 *
 * For mailbox.c and slot.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ARRAY_H
#define ZKLOCK_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ZkArray
{
	void	   *items;			/* room for all; NULL before
								 * zk_array_reserve() */
	size_t		item_size;
	size_t		reserved;		/* bytes of address space */
	size_t		provided;		/* bytes of it that are memory */
} ZkArray;

extern bool zk_array_reserve(ZkArray *array, size_t item_size, int count);
extern bool zk_array_provide(ZkArray *array, int count);
extern void zk_array_free(ZkArray *array);

#endif							/* ZKLOCK_ARRAY_H */
