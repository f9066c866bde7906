/*-------------------------------------------------------------------------
 *
 * group.c
 *	  Contenders that come into being together: several locks in one call.
 *
 * A call that waits for several locks would wait without end if another one
 * had queued for them in a different order.  So the contenders of a group are
 * created by one multi-op, with all its lists behind it in the same go.  If a
 * lock node is missing nothing is created; the lists say which are, so all are
 * made at once.  A multi-op that was not answered was carried out as a whole
 * or not at all, so each member is looked for by its uuid as if it had been
 * created alone.
 *
 * The order is all that a group is.  Until its multi-op has been carried out
 * its members form a ring; after that each goes its own way, and only
 * remembers that it was created with others.  The backend has the locks when
 * all are granted; until then those that were granted first keep their lease.
 *
 * Q9. Of two groups one is ahead of the other in all queues in which they
 * meet, because each was created by one transaction.  So waits lead from a
 * later group to an earlier one only, and never in a circle.  That would not
 * hold for a member that is created again on its own: a member that is not in
 * the queue any more (the ZooKeeper session is over, another client has
 * deleted it, the multi-op was not executed) fails, the backend gives up the
 * whole group, in whatever state the others are, and requests a new one.
 * (zk_contender_unqueued(); the backend counts the attempts.)
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "answer.h"
#include "contender.h"
#include "create.h"
#include "group.h"
#include "own_watch.h"
#include "place.h"
#include "request.h"

/*
 * The operations that follow the creates and tell their zxid, which is the
 * token.  A create in a multi-op is answered without a Stat, but a set has
 * one.  So a znode is created, changed and deleted, unseen, in the same
 * transaction.
 */
#define STAMP_CREATE	0
#define STAMP_SET		1
#define STAMP_DELETE	2
#define STAMP_OPS		3

/*
 * A group being created; one at a time. engine_lock; results, stat and paths
 * also by the library.
 */
struct GroupCreate
{
	bool		pending;
	int			count;
	Contender  *members[ZK_MAX_GROUP];
	zoo_op_result_t results[ZK_MAX_GROUP + STAMP_OPS];
	struct Stat stat;			/* of the transaction: czxid, ephemeralOwner */
	char		paths[ZK_MAX_GROUP][ZK_CONTENDER_PATH_SIZE];
};

/*
 * Make room for the group that is being created; NULL if out of memory.  It is
 * large, and not touched before there is a group.
 */
GroupCreate *
zk_group_create(void)
{
	GroupCreate *group = malloc(sizeof(GroupCreate));

	if (group != NULL)
		group->pending = false;
	return group;
}

/* The handle is closed: the multi-op will not be answered. */
void
zk_group_handle_closed(ZkClient *client)
{
	client->group->pending = false;
}

/* Makes the contender a member of a group that is to be created, a ring. */
void
zk_group_join(Contender *c, uint16_t next)
{
	c->member.next = next;
	c->member.state = next != ZK_NO_SLOT ? MEMBER_IN_RING : MEMBER_NONE;
}

/* A contender leaves its group before that was created: it never will be. */
void
zk_group_dissolve(ZkClient *client, Contender *c)
{
	while (c->member.state == MEMBER_IN_RING)
	{
		c->member.state = MEMBER_LEFT;
		zk_contender_touch(client, c);
		c = &client->contenders[c->member.next];
	}
}

/* All members exist: takes their names from the answer. */
static void
created(ZkClient *client, ZkProof proof)
{
	GroupCreate *group = client->group;

	for (int i = 0; i < group->count; i++)
	{
		group->members[i]->member.state = MEMBER_LEFT;
		zk_create_adopt(client, group->members[i],
						strrchr(group->paths[i], '/') + 1, &group->stat,
						proof);
	}
}

/*
 * No member exists, for the reason rc.  The member that it is about bears the
 * consequences; the others wait for it.
 */
static void
not_created(ZkClient *client, int rc)
{
	GroupCreate *group = client->group;
	int			culprit = 0;
	int			ops = group->count + STAMP_OPS;

	for (int i = 0; i < group->count; i++)
		zk_contender_not_created(group->members[i]);
	while (culprit < ops && group->results[culprit].err != rc)
		culprit++;
	if (culprit < group->count)
		zk_create_failed(client, group->members[culprit], rc);
	else if (culprit == group->count + STAMP_DELETE && rc == ZNOAUTH)
		zk_contender_fail(client, group->members[0], ZK_ERR_FORBIDDEN,
						  "DELETE permission is required on znode \"%.150s\".",
						  group->members[0]->node);
	else
		zk_create_failed(client, group->members[0], rc);
}

static void
on_group(ZkClient *client, const Answer *answer)
{
	int			rc = answer->rc;
	GroupCreate *group;

	group = client->group;
	group->pending = false;
	for (int i = 0; i < group->count; i++)
		zk_contender_answered(group->members[i]);
	if (rc == ZOK)
		created(client, zk_request_proof(answer->request));
	else if (zk_is_connection_error(rc) && rc != ZSESSIONCLOSEDREQUIRESASLAUTH)
	{
		for (int i = 0; i < group->count; i++)
			zk_contender_retry(client, group->members[i]);
	}
	else
		not_created(client, rc);
	zk_contenders_touch_all(client);	/* another group may have waited, too */
}

/*
 * Collects the group of a contender.  Returns false if a member is not ready.
 */
static bool
gather(ZkClient *client, Contender *first)
{
	GroupCreate *group = client->group;
	Contender  *c = first;

	group->count = 0;
	do
	{
		if (c->claim != CLAIM_WANTED || c->state != ZK_WANTED || c->turn.pending > 0 ||
			c->parents.of == PARENTS_OF_CONTENDER || c->turn.retry_at != 0 || c->refusal.znode != NULL)
			return false;
		group->members[group->count++] = c;
		c = &client->contenders[c->member.next];
	} while (c != first);
	return true;
}

/* Hands the multi-op to the library. Returns its answer. */
static int
send_multi(ZkClient *client, void *context)
{
	GroupCreate *group = client->group;
	const struct ACL_vector *acl = &client->identity.acl;
	zoo_op_t	ops[ZK_MAX_GROUP + STAMP_OPS];
	zoo_op_t   *stamp = &ops[group->count];
	char		stamp_path[ZK_CONTENDER_PATH_SIZE];
	const Contender *c;

	for (int i = 0; i < group->count; i++)
	{
		c = group->members[i];
		zk_contender_path(c, c->znode.base, group->paths[i]);
		zoo_create_op_init(&ops[i], group->paths[i], c->owner, c->owner_len,
						   acl, ZOO_EPHEMERAL_SEQUENTIAL, group->paths[i],
						   ZK_CONTENDER_PATH_SIZE);
	}
	c = group->members[0];
	snprintf(stamp_path, sizeof(stamp_path), "%s/%sstamp", c->node, c->znode.base);
	zoo_create_op_init(&stamp[STAMP_CREATE], stamp_path, "", 0, acl,
					   ZOO_EPHEMERAL, NULL, 0);
	zoo_set_op_init(&stamp[STAMP_SET], stamp_path, "", 0, -1, &group->stat);
	zoo_delete_op_init(&stamp[STAMP_DELETE], stamp_path, -1);
	memset(group->results, 0, sizeof(group->results));
	return zoo_amulti(client->connection.zh, group->count + STAMP_OPS, ops,
					  group->results, zk_on_void, context);
}

/* The multi-op is on its way. Lists the queues of all members behind it. */
static void
sent(ZkClient *client)
{
	GroupCreate *group = client->group;

	group->pending = true;
	for (int i = 0; i < group->count; i++)
		zk_contender_expect(group->members[i]);
	for (int i = 0; i < group->count; i++)
		if (zk_requests_available(client, 1))
			zk_place_send_list(client, group->members[i]);
}

/*
 * Creates the group of a contender, if all its members are ready and no other
 * group is being created.
 */
void
zk_send_group(ZkClient *client, Contender *c)
{
	GroupCreate *group = client->group;
	void	   *context;
	int			rc;

	if (c->member.state == MEMBER_LEFT)
	{
		zk_contender_unqueued(client, c);
		return;
	}
	if (group->pending || !gather(client, c))
		return;
	if (!zk_multi_possible(client))
	{
		zk_contender_retry(client, c);
		return;
	}
	for (int i = 0; i < group->count; i++)
	{
		zk_contender_creating(client, group->members[i]);
		zk_own_watch_begin(group->members[i]);
	}
	context = zk_request_begin(client, REQ_CLIENT, 0, on_group);
	rc = send_multi(client, context);
	if (rc == ZOK)
	{
		sent(client);
		return;
	}
	zk_request_undo(client, context);
	if (!zk_is_connection_error(rc))
		not_created(client, rc);
	for (int i = 0; i < group->count; i++)
		zk_contender_retry(client, group->members[i]);
}
