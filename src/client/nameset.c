/*-------------------------------------------------------------------------
 *
 * nameset.c
 *	  A set of names: paths of lock nodes, or contenders.
 *
 * Other clients choose the names, and each of thousands may be looked up among
 * all of them under a lock.  A balanced tree takes logarithmic time for each,
 * whatever the names are; names can be chosen to collide in a hash table.
 *
 * Pure functions; libc only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE				/* tdestroy */
#endif

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "nameset.h"

typedef struct Name
{
	const char *text;			/* behind this one, if the set has it */
	size_t		len;
} Name;

/* For tsearch(): by length first, which costs nothing. */
static int
compare(const void *a, const void *b)
{
	const Name *one = a;
	const Name *two = b;

	if (one->len != two->len)
		return one->len < two->len ? -1 : 1;
	return memcmp(one->text, two->text, one->len);
}

/* Returns true if the set has a name of so many bytes. */
bool
zk_nameset_has(const NameSet *set, const char *name, size_t len)
{
	Name		key = {name, len};

	return tfind(&key, &set->root, compare) != NULL;
}

/*
 * Add a copy of a name of so many bytes, unless the set has it.  False, with
 * the set unchanged, if out of memory.
 */
bool
zk_nameset_add(NameSet *set, const char *name, size_t len)
{
	Name	   *copy;

	if (zk_nameset_has(set, name, len))
		return true;
	copy = malloc(sizeof(Name) + len + 1);
	if (copy == NULL)
		return false;
	copy->text = (char *) (copy + 1);
	copy->len = len;
	memcpy(copy + 1, name, len);
	((char *) (copy + 1))[len] = '\0';
	if (tsearch(copy, &set->root, compare) != NULL)
		return true;
	free(copy);
	return false;
}

/* Names that are being taken out of a set. */
typedef struct Taken
{
	const char **names;
	int			count;
	int			max;
} Taken;

/* For twalk_r(). */
static void
take(const void *node, VISIT visit, void *closure)
{
	Taken	   *taken = closure;

	if ((visit == postorder || visit == leaf) && taken->count < taken->max)
		taken->names[taken->count++] = (*(const Name *const *) node)->text;
}

/*
 * Writes some names of the set, max at the most, into names.  They live as long
 * as the set has them.  Returns how many they are.
 */
int
zk_nameset_some(const NameSet *set, const char **names, int max)
{
	Taken		taken = {.names = names,.max = max};

	twalk_r(set->root, take, &taken);
	return taken.count;
}

/* Make the set empty. */
void
zk_nameset_free(NameSet *set)
{
	tdestroy(set->root, free);
	set->root = NULL;
}
