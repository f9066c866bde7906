/*-------------------------------------------------------------------------
 *
 * nameset.h
 *	  A set of names.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_NAMESET_H
#define ZKLOCK_NAMESET_H

#include <stdbool.h>
#include <stddef.h>

/* Empty while it is filled with zeros. */
typedef struct NameSet
{
	void	   *root;			/* of tsearch(3) */
} NameSet;

extern bool zk_nameset_has(const NameSet *set, const char *name, size_t len);
extern bool zk_nameset_add(NameSet *set, const char *name, size_t len);
extern int	zk_nameset_some(const NameSet *set, const char **names, int max);
extern void zk_nameset_free(NameSet *set);

#endif							/* ZKLOCK_NAMESET_H */
