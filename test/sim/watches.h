/*-------------------------------------------------------------------------
 *
 * watches.h
 *	  The watches of one server, as WatchManager keeps them: each fires once.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WATCHES_H
#define WATCHES_H

#include "tree.h"

typedef enum WatchKind
{
	WATCH_DATA,					/* and existence */
	WATCH_CHILDREN
} WatchKind;

typedef struct Watch Watch;

/* A connection; its number is its own. */
typedef struct Watcher
{
	uint64_t	number;
	Watch	   *watches;
	uint64_t	told;			/* the last deletion that it was told of */
	void	   *connection;
} Watcher;

/* Sends an event, if the connection may know of it. */
typedef void (*WatchSend) (Watcher *watcher, int event, const char *path,
						   const AclList *acl, int64_t zxid);

typedef struct Watches
{
	HashTable	paths;
	HashTable	watches;
	uint64_t	deletions;
	WatchSend	send;
} Watches;

extern void watches_add(Watches *watches, WatchKind kind, const char *path, Watcher *watcher);
extern void watches_forget(Watches *watches, Watcher *watcher);
extern void watches_end(Watches *watches);

/* Sends the events of a change, in the order of DataTree. */
extern void watches_fire(Watches *watches, const TreeEvent *event);

#endif							/* WATCHES_H */
