/*-------------------------------------------------------------------------
 *
 * hash.h
 *	  Hash tables whose entries are part of what they find.
 *
 * A table knows hashes only: whoever looks for something compares the keys of
 * the entries that have its hash.  The order of entries depends on nothing but
 * their hashes and on when they were added.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HASH_H
#define HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct HashEntry
{
	struct HashEntry *next;
	uint64_t	hash;
} HashEntry;

typedef struct HashTable
{
	HashEntry **buckets;
	size_t		size;			/* a power of two, or 0 */
	size_t		count;
} HashTable;

extern uint64_t hash_text(const char *text, size_t len);
extern uint64_t hash_path(const char *path, size_t len);	/* only for tables:
															 * quick, and another
															 * one on machines of
															 * another byte order */
extern uint64_t hash_number(uint64_t number);

extern HashEntry *hash_first(const HashTable *table, uint64_t hash);
extern HashEntry *hash_next(const HashEntry *entry);	/* of the same hash */
extern void hash_add(HashTable *table, HashEntry *entry, uint64_t hash);
extern void hash_remove(HashTable *table, HashEntry *entry);

/* Empties the table; each, if not null, gets every entry, to be freed. */
extern void hash_clear(HashTable *table, void (*each) (HashEntry *entry));

#endif							/* HASH_H */
