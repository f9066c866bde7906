/*-------------------------------------------------------------------------
 *
 * sessions.c
 *	  What the leader knows of sessions, and what a follower has to tell it.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#include "sessions.h"

typedef struct Tracked Tracked;

/* The sessions that end at one time. */
typedef struct Bucket
{
	HashEntry	entry;
	int64_t		end_ms;
	Tracked    *first;
} Bucket;

struct Tracked
{
	HashEntry	entry;
	int64_t		session;
	bool		closing;
	Owner		owner;
	Bucket	   *bucket;			/* null after it has expired */
	Tracked    *prev;
	Tracked    *next;
};

static Tracked *
find(const Tracker *tracker, int64_t session)
{
	HashEntry  *entry = hash_first(&tracker->sessions, hash_number((uint64_t) session));

	while (entry != NULL && ((Tracked *) entry)->session != session)
		entry = hash_next(entry);
	return (Tracked *) entry;
}

static Bucket *
find_bucket(const Tracker *tracker, int64_t end_ms)
{
	HashEntry  *entry = hash_first(&tracker->buckets, hash_number((uint64_t) end_ms));

	while (entry != NULL && ((Bucket *) entry)->end_ms != end_ms)
		entry = hash_next(entry);
	return (Bucket *) entry;
}

static Bucket *
need_bucket(Tracker *tracker, int64_t end_ms)
{
	Bucket	   *bucket = find_bucket(tracker, end_ms);

	if (bucket != NULL)
		return bucket;
	bucket = sim_alloc(sizeof(Bucket));
	bucket->end_ms = end_ms;
	hash_add(&tracker->buckets, &bucket->entry, hash_number((uint64_t) end_ms));
	return bucket;
}

static int64_t
next_tick(const Tracker *tracker, int64_t ms)
{
	return (ms / tracker->tick_ms + 1) * tracker->tick_ms;
}

static void
leave_bucket(Tracked *tracked)
{
	if (tracked->bucket == NULL)
		return;
	if (tracked->prev != NULL)
		tracked->prev->next = tracked->next;
	else
		tracked->bucket->first = tracked->next;
	if (tracked->next != NULL)
		tracked->next->prev = tracked->prev;
	tracked->bucket = NULL;
}

static void
move_to_bucket(Tracked *tracked, Bucket *bucket)
{
	if (tracked->bucket == bucket)
		return;
	leave_bucket(tracked);
	tracked->bucket = bucket;
	tracked->prev = NULL;
	tracked->next = bucket->first;
	if (bucket->first != NULL)
		bucket->first->prev = tracked;
	bucket->first = tracked;
}

void
tracker_begin(Tracker *tracker, int64_t tick_ms, int64_t now_ms)
{
	memset(tracker, 0, sizeof(Tracker));
	tracker->tick_ms = tick_ms;
	tracker->next_ms = next_tick(tracker, now_ms);
}

static void
free_entry(HashEntry *entry)
{
	free(entry);
}

void
tracker_end(Tracker *tracker)
{
	hash_clear(&tracker->sessions, free_entry);
	hash_clear(&tracker->buckets, free_entry);
}

void
tracker_track(Tracker *tracker, int64_t session, int timeout_ms, int64_t now_ms)
{
	Tracked    *tracked = find(tracker, session);

	if (tracked == NULL)
	{
		tracked = sim_alloc(sizeof(Tracked));
		tracked->session = session;
		hash_add(&tracker->sessions, &tracked->entry, hash_number((uint64_t) session));
	}
	move_to_bucket(tracked, need_bucket(tracker, next_tick(tracker, now_ms + timeout_ms)));
}

bool
tracker_touch(Tracker *tracker, int64_t session, int timeout_ms, int64_t now_ms)
{
	Tracked    *tracked = find(tracker, session);

	if (tracked == NULL || tracked->closing)
		return false;
	move_to_bucket(tracked, need_bucket(tracker, next_tick(tracker, now_ms + timeout_ms)));
	return true;
}

int
tracker_check(Tracker *tracker, int64_t session, Owner owner)
{
	Tracked    *tracked = find(tracker, session);

	if (tracked == NULL || tracked->closing)
		return ZSESSIONEXPIRED;
	if (tracked->owner == OWNER_NONE)
		tracked->owner = owner;
	return tracked->owner == owner ? ZOK : ZSESSIONMOVED;
}

void
tracker_set_owner(Tracker *tracker, int64_t session, Owner owner)
{
	Tracked    *tracked = find(tracker, session);

	if (tracked != NULL && !tracked->closing)
		tracked->owner = owner;
}

void
tracker_close(Tracker *tracker, int64_t session)
{
	Tracked    *tracked = find(tracker, session);

	if (tracked != NULL)
		tracked->closing = true;
}

void
tracker_remove(Tracker *tracker, int64_t session)
{
	Tracked    *tracked = find(tracker, session);

	if (tracked == NULL)
		return;
	leave_bucket(tracked);
	hash_remove(&tracker->sessions, &tracked->entry);
	free(tracked);
}

int64_t
tracker_expire(Tracker *tracker, int64_t now_ms)
{
	while (now_ms >= tracker->next_ms)
	{
		Bucket	   *bucket = find_bucket(tracker, tracker->next_ms);

		if (bucket != NULL && bucket->first != NULL)
		{
			Tracked    *tracked = bucket->first;

			leave_bucket(tracked);
			tracked->closing = true;
			return tracked->session;
		}
		if (bucket != NULL)
		{
			hash_remove(&tracker->buckets, &bucket->entry);
			free(bucket);
		}
		tracker->next_ms += tracker->tick_ms;
	}
	return 0;
}

/* ------ followers ------ */

typedef struct TouchEntry
{
	HashEntry	entry;
	Touch		touch;
	int			place;
} TouchEntry;

static TouchEntry *
find_touch(const TouchTable *table, int64_t session)
{
	HashEntry  *entry = hash_first(&table->index, hash_number((uint64_t) session));

	while (entry != NULL && ((TouchEntry *) entry)->touch.session != session)
		entry = hash_next(entry);
	return (TouchEntry *) entry;
}

void
touches_add(TouchTable *table, int64_t session, int timeout_ms)
{
	TouchEntry *touch = find_touch(table, session);

	if (touch != NULL)
	{
		touch->touch.timeout_ms = timeout_ms;
		return;
	}
	touch = sim_alloc(sizeof(TouchEntry));
	touch->touch.session = session;
	touch->touch.timeout_ms = timeout_ms;
	if (table->count == table->room)
	{
		table->room = table->room == 0 ? 16 : table->room * 2;
		table->entries = sim_realloc(table->entries,
									 sizeof(TouchEntry *) * (size_t) table->room);
	}
	touch->place = table->count;
	table->entries[table->count++] = touch;
	hash_add(&table->index, &touch->entry, hash_number((uint64_t) session));
}

void
touches_remove(TouchTable *table, int64_t session)
{
	TouchEntry *touch = find_touch(table, session);

	if (touch == NULL)
		return;
	hash_remove(&table->index, &touch->entry);
	table->entries[touch->place] = table->entries[--table->count];
	table->entries[touch->place]->place = touch->place;
	free(touch);
}

Touch *
touches_take(TouchTable *table, int *count)
{
	Touch	   *touches = NULL;

	*count = table->count;
	if (table->count > 0)
		touches = sim_alloc(sizeof(Touch) * (size_t) table->count);
	for (int i = 0; i < table->count; i++)
	{
		TouchEntry *touch = table->entries[i];

		touches[i] = touch->touch;
		hash_remove(&table->index, &touch->entry);
		free(touch);
	}
	table->count = 0;
	return touches;
}

void
touches_end(TouchTable *table)
{
	hash_clear(&table->index, free_entry);
	free(table->entries);
	memset(table, 0, sizeof(TouchTable));
}
