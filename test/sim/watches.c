/*-------------------------------------------------------------------------
 *
 * watches.c
 *	  The watches of one server, as WatchManager keeps them.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "watches.h"

/* Who watches one path in one way. */
typedef struct WatchedPath
{
	HashEntry	entry;			/* by the path and the kind */
	WatchKind	kind;
	char	   *path;
	Watch	   *first;
	Watch	   *last;
} WatchedPath;

struct Watch
{
	HashEntry	entry;			/* by the path, the kind and the watcher */
	WatchedPath *where;
	Watcher    *watcher;
	Watch	   *prev;			/* of the same path, in order */
	Watch	   *next;
	Watch	   *prev_own;		/* of the same watcher */
	Watch	   *next_own;
};

static uint64_t
path_hash(WatchKind kind, const char *path)
{
	return hash_path(path, strlen(path)) + (uint64_t) kind;
}

static uint64_t
watch_hash(const WatchedPath *where, const Watcher *watcher)
{
	return hash_number(where->entry.hash ^ hash_number(watcher->number));
}

static WatchedPath *
find_path(const Watches *watches, WatchKind kind, const char *path)
{
	HashEntry  *entry = hash_first(&watches->paths, path_hash(kind, path));

	for (; entry != NULL; entry = hash_next(entry))
	{
		WatchedPath *where = (WatchedPath *) entry;

		if (where->kind == kind && strcmp(where->path, path) == 0)
			return where;
	}
	return NULL;
}

static WatchedPath *
make_path(Watches *watches, WatchKind kind, const char *path)
{
	WatchedPath *where = sim_alloc(sizeof(WatchedPath));

	where->kind = kind;
	where->path = sim_strdup(path);
	hash_add(&watches->paths, &where->entry, path_hash(kind, path));
	return where;
}

static bool
is_watching(const Watches *watches, const WatchedPath *where, const Watcher *watcher)
{
	HashEntry  *entry = hash_first(&watches->watches, watch_hash(where, watcher));

	for (; entry != NULL; entry = hash_next(entry))
	{
		if (((Watch *) entry)->where == where && ((Watch *) entry)->watcher == watcher)
			return true;
	}
	return false;
}

/* Adds a watch, unless the watcher has it already. */
void
watches_add(Watches *watches, WatchKind kind, const char *path, Watcher *watcher)
{
	WatchedPath *where = find_path(watches, kind, path);
	Watch	   *watch;

	if (where == NULL)
		where = make_path(watches, kind, path);
	if (is_watching(watches, where, watcher))
		return;
	watch = sim_alloc(sizeof(Watch));
	watch->where = where;
	watch->watcher = watcher;
	watch->prev = where->last;
	if (where->last != NULL)
		where->last->next = watch;
	else
		where->first = watch;
	where->last = watch;
	watch->next_own = watcher->watches;
	if (watcher->watches != NULL)
		watcher->watches->prev_own = watch;
	watcher->watches = watch;
	hash_add(&watches->watches, &watch->entry, watch_hash(where, watcher));
}

/* Removes a watch from its watcher, not from its path, and frees it. */
static void
drop_watch(Watches *watches, Watch *watch)
{
	if (watch->prev_own != NULL)
		watch->prev_own->next_own = watch->next_own;
	else
		watch->watcher->watches = watch->next_own;
	if (watch->next_own != NULL)
		watch->next_own->prev_own = watch->prev_own;
	hash_remove(&watches->watches, &watch->entry);
	free(watch);
}

static void
drop_path(Watches *watches, WatchedPath *where)
{
	hash_remove(&watches->paths, &where->entry);
	free(where->path);
	free(where);
}

/* The connection is over. */
void
watches_forget(Watches *watches, Watcher *watcher)
{
	while (watcher->watches != NULL)
	{
		Watch	   *watch = watcher->watches;
		WatchedPath *where = watch->where;

		if (watch->prev != NULL)
			watch->prev->next = watch->next;
		else
			where->first = watch->next;
		if (watch->next != NULL)
			watch->next->prev = watch->prev;
		else
			where->last = watch->prev;
		drop_watch(watches, watch);
		if (where->first == NULL)
			drop_path(watches, where);
	}
}

static void
free_path(HashEntry *entry)
{
	free(((WatchedPath *) entry)->path);
	free(entry);
}

static void
free_watch(HashEntry *entry)
{
	((Watch *) entry)->watcher->watches = NULL;
	free(entry);
}

/* Forgets all. */
void
watches_end(Watches *watches)
{
	hash_clear(&watches->watches, free_watch);
	hash_clear(&watches->paths, free_path);
}

/*
 * Sends the event to those who watch the path in that way, who then do so no
 * more.  With once, only to those who were not told of this deletion.
 */
static void
trigger(Watches *watches, WatchKind kind, int event, const char *path,
		const AclList *acl, int64_t zxid, bool once)
{
	WatchedPath *where = find_path(watches, kind, path);
	Watch	   *watch;

	if (where == NULL)
		return;
	watch = where->first;
	while (watch != NULL)
	{
		Watch	   *next = watch->next;
		Watcher    *watcher = watch->watcher;

		drop_watch(watches, watch);
		if (!once || watcher->told != watches->deletions)
			watches->send(watcher, event, path, acl, zxid);
		if (once)
			watcher->told = watches->deletions;
		watch = next;
	}
	drop_path(watches, where);
}

void
watches_fire(Watches *watches, const TreeEvent *event)
{
	bool		deleted = event->event == EVENT_DELETED;

	if (watches->paths.count == 0)
		return;
	watches->deletions++;
	trigger(watches, WATCH_DATA, event->event, event->path, event->acl, event->zxid, deleted);
	if (deleted)
		trigger(watches, WATCH_CHILDREN, EVENT_DELETED, event->path, event->acl,
				event->zxid, true);
	if (event->parent != NULL)
		trigger(watches, WATCH_CHILDREN, EVENT_CHILD, event->parent, event->parent_acl,
				event->zxid, false);
}
