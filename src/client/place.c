/*-------------------------------------------------------------------------
 *
 * place.c
 *	  A contender's place in its queue: list, and decide.
 *
 * Other lock clients broke each of the rules Q1 to Q9, at the price of two
 * holders or of a queue that stood still.  Q2 to Q4 are in watch.c, Q5 is in
 * protocol.c, Q6 in remove.c, Q7 in create.c, Q8 in queue.c and Q9 in group.c.
 *
 * Q1. A contender is granted only when it was found by its exact name in a list
 * that was read after it was created, in the ZooKeeper session that created it.
 * When a session ends, names, numbers and watches go with it
 * (zk_contenders_session_over); nothing is adopted from an earlier session.
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "contender.h"
#include "lock_delay.h"
#include "own_watch.h"
#include "parents.h"
#include "place.h"
#include "record_io.h"
#include "refusal.h"
#include "request.h"
#include "watch.h"
#include "znode.h"

/*
 * Collects the base names of this client's other contenders of the same lock
 * node, which never conflict.  One that should not exist is waited for, so
 * that it is noticed and deleted (zk_contender_seen_ahead()).  Returns a
 * malloc'd array (NULL if none, or without memory: then we wait for ourselves,
 * which is safe), and whether one of them is a shared lock that is held.
 */
static const char **
own_names(ZkClient *client, const Contender *self, int *count, bool *shared)
{
	const char **names = NULL;

	*count = 0;
	*shared = false;
	for (int i = 0; i < client->used; i++)
	{
		const Contender *c = &client->contenders[i];

		if (c->claim == CLAIM_NONE || c == self || strcmp(c->node, self->node) != 0 ||
			c->znode.base[0] == '\0' ||
			zk_znode_is_doubted(c))
			continue;
		if (names == NULL)
			names = malloc(sizeof(char *) * (size_t) client->used);
		if (names == NULL)
			return NULL;
		names[(*count)++] = c->znode.base;
		if (c->request.mode == ZK_SHARED && zk_contender_is_held(c))
			*shared = true;
	}
	return names;
}

/*
 * Warns, once per client, of a child that is no contender: it is ignored, but
 * its owner may believe that it excludes us.
 */
static void
warn_foreign(ZkClient *client, const Contender *c, const char *name)
{
	if (client->warned_foreign)
		return;
	client->warned_foreign = true;
	zk_log(true, "ignoring znode \"%.60s\" below lock node \"%.80s\": not a contender",
		   name, c->node);
}

/* A contender of another kind is ahead: this one cannot be granted. */
static void
mixed(ZkClient *client, Contender *c, const ZkQueueEntry *other)
{
	if (other->permits > 0)
		zk_contender_fail(client, c, ZK_ERR_KIND,
						  "Contender \"%.80s\", which is ahead, is for a semaphore with %d permits.",
						  other->name, other->permits);
	else
		zk_contender_fail(client, c, ZK_ERR_KIND,
						  "Contender \"%.80s\", which is ahead, is for a lock.",
						  other->name);
}

/* Finds the contender's place in a list of children just read. */
static void
evaluate(ZkClient *client, Contender *c, const struct String_vector *list)
{
	ZkQueueEntry self = {.sequence = INT64_MAX};
	ZkQueueEntry *entries;
	ZkVerdict	verdict;
	const char *ignored = NULL;
	const char **own;
	int			own_count;
	bool		upgrade;
	int			count;

	entries = malloc(sizeof(ZkQueueEntry) * (size_t) (list->count + 1));
	if (entries == NULL)
	{
		zk_contender_fail(client, c, ZK_ERR_NO_MEMORY, "Out of memory.");
		return;
	}
	zk_queue_parse(c->znode.name, &self);
	count = zk_queue_sort(self.sequence, (const char *const *) list->data,
						  list->count, entries, &ignored);
	if (ignored != NULL)
		warn_foreign(client, c, ignored);
	own = own_names(client, c, &own_count, &upgrade);
	zk_queue_decide(entries, count, c->znode.name, own, own_count, &verdict);
	switch (verdict.decision)
	{
		case ZK_DECIDE_GRANTED:
			if (verdict.announce)
				zk_own_watch_announce(c);
			zk_unwatch(c);
			zk_contender_grant(client, c);
			break;
		case ZK_DECIDE_WAIT:
			zk_watch_ahead(client, c, entries, &verdict, upgrade);
			break;
		case ZK_DECIDE_MISSING:
			zk_contender_missing(client, c);
			break;
		case ZK_DECIDE_TIED:
			zk_contender_fail(client, c, ZK_ERR_TIED,
							  "Contender \"%.80s\" has the same sequence number as \"%s\".",
							  entries[verdict.watch].name, c->znode.name);
			break;
		case ZK_DECIDE_MIXED:
			mixed(client, c, &entries[verdict.watch]);
			break;
		case ZK_DECIDE_SEQUENCE:
			zk_contender_fail(client, c, ZK_ERR_SEQUENCE,
							  "Contender \"%s\" has one of the last sequence numbers.",
							  c->znode.name);
			break;
	}
	free(own);
	free(entries);
}

static void
on_list(ZkClient *client, Contender *c, const Answer *answer)
{
	int			rc = answer->rc;

	if (c->claim == CLAIM_WANTED && c->state == ZK_WANTED &&
		c->member.state != MEMBER_NONE && rc == ZNONODE)
	{
		/* the group could not be created */
		zk_parents_missing(c, PARENTS_OF_CONTENDER);
	}
	else if (c->claim != CLAIM_WANTED ||
			 (c->state != ZK_QUEUED && c->state != ZK_WATCHING))
		;						/* the create that went with it failed */
	else if (rc == ZOK && !zk_markers_queue_listed(c, answer->children))
		zk_contender_fail(client, c, ZK_ERR_NO_MEMORY,
						  "Out of memory.");
	else if (rc == ZOK)
		evaluate(client, c, answer->children);
	else if (rc == ZNONODE)
		zk_contender_missing(client, c);
	else if (rc == ZNOAUTH)
		zk_contender_refused(client, c, ZOO_PERM_READ,
							 c->node, strlen(c->node));
	else if (c->state == ZK_QUEUED)
		zk_contender_retry(client, c);
}

/*
 * Lists the queue while the contender waits, to find out whether the watched
 * one is the last one ahead.
 */
void
zk_place_relist(ZkClient *client, Contender *c)
{
	zk_watch_listing(c);
	zk_send_children(client, c, c->node, on_list);
}

/*
 * Lists the queue, and reads the record and the markers behind that if needed.
 */
void
zk_place_send_list(ZkClient *client, Contender *c)
{
	zk_record_outdated(c);
	zk_markers_outdated(c);
	zk_send_children(client, c, c->node, on_list);
	if (c->record != NULL && zk_requests_available(client, 1))
		zk_send_record(client, c);
	if (c->request.lock_delay > 0 && zk_requests_available(client, 1))
		zk_send_markers(client, c);
}
