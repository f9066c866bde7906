/*-------------------------------------------------------------------------
 *
 * hash.c
 *	  Hash tables whose entries are part of what they find.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "sim.h"

/* FNV-1a, then mixed, because a table uses the low bits. */
uint64_t
hash_text(const char *text, size_t len)
{
	uint64_t	hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char) text[i]) * UINT64_C(0x100000001b3);
	return hash_number(hash);
}

/* Eight bytes in one go. */
uint64_t
hash_path(const char *path, size_t len)
{
	uint64_t	hash = len;
	uint64_t	part = 0;

	for (; len >= sizeof(part); len -= sizeof(part), path += sizeof(part))
	{
		memcpy(&part, path, sizeof(part));
		hash = (hash ^ part) * UINT64_C(0x9E3779B97F4A7C15);
		hash ^= hash >> 32;
	}
	part = 0;
	memcpy(&part, path, len);
	return hash_number(hash ^ part);
}

uint64_t
hash_number(uint64_t number)
{
	number = (number ^ (number >> 33)) * UINT64_C(0xff51afd7ed558ccd);
	number = (number ^ (number >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
	return number ^ (number >> 33);
}

HashEntry *
hash_first(const HashTable *table, uint64_t hash)
{
	HashEntry  *entry;

	if (table->size == 0)
		return NULL;
	entry = table->buckets[hash & (table->size - 1)];
	while (entry != NULL && entry->hash != hash)
		entry = entry->next;
	return entry;
}

HashEntry *
hash_next(const HashEntry *entry)
{
	HashEntry  *next = entry->next;

	while (next != NULL && next->hash != entry->hash)
		next = next->next;
	return next;
}

static void
grow(HashTable *table)
{
	size_t		size = table->size == 0 ? 16 : table->size * 2;
	HashEntry **buckets = sim_alloc(sizeof(HashEntry *) * size);

	for (size_t i = 0; i < table->size; i++)
	{
		HashEntry  *entry = table->buckets[i];

		while (entry != NULL)
		{
			HashEntry  *next = entry->next;

			entry->next = buckets[entry->hash & (size - 1)];
			buckets[entry->hash & (size - 1)] = entry;
			entry = next;
		}
	}
	free(table->buckets);
	table->buckets = buckets;
	table->size = size;
}

void
hash_add(HashTable *table, HashEntry *entry, uint64_t hash)
{
	HashEntry **bucket;

	if (table->count >= table->size)
		grow(table);
	bucket = &table->buckets[hash & (table->size - 1)];
	entry->hash = hash;
	entry->next = *bucket;
	*bucket = entry;
	table->count++;
}

/* The entry is in the table. */
void
hash_remove(HashTable *table, HashEntry *entry)
{
	HashEntry **place = &table->buckets[entry->hash & (table->size - 1)];

	while (*place != entry)
		place = &(*place)->next;
	*place = entry->next;
	table->count--;
}

void
hash_clear(HashTable *table, void (*each) (HashEntry *entry))
{
	for (size_t i = 0; each != NULL && i < table->size; i++)
	{
		HashEntry  *entry = table->buckets[i];

		while (entry != NULL)
		{
			HashEntry  *next = entry->next;

			each(entry);
			entry = next;
		}
	}
	free(table->buckets);
	memset(table, 0, sizeof(HashTable));
}
