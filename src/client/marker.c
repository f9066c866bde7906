/*-------------------------------------------------------------------------
 *
 * marker.c
 *	  The marker of a contender itself: whether it exists, and its end.
 *
 * lock_delay.c says what markers are for.
 *
 *    ABSENT ---> UNKNOWN ---> THERE          made, or moved by a downgrade
 *    UNKNOWN, THERE ---> ABSENT              deleted with the contender, or
 *                                            left behind (a lost lock)
 *    UNKNOWN, THERE ---> ORPHANED ---> ABSENT
 *                                            the contender was gone before: the
 *                                            marker is deleted alone
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "client.h"
#include "answer.h"
#include "contender.h"
#include "marker.h"
#include "record.h"
#include "request.h"

/* Sets whether the marker exists. */
void
zk_marker_set(Contender *c, MarkerState state)
{
	c->marker.state = state;
}

/*
 * Returns true if there is a marker that must go with the contender.  That of a
 * lock that was lost stays.
 */
bool
zk_marker_to_go(const Contender *c)
{
	return c->marker.state != MARKER_ABSENT && c->state != ZK_LOST;
}

/* Writes the path of the marker of that name into ZK_MARKER_PATH_SIZE bytes. */
void
zk_marker_path(const Contender *c, const char *name, char *path)
{
	zk_record_path(c->node, c->request.root_len, path);
	snprintf(path + strlen(path), ZK_MARKER_PATH_SIZE - strlen(path), "/%s", name);
}

/*
 * Makes the operations, of a multi-op of the contender's, that delete the
 * marker of "from", and if that is another contender move it to this one's
 * name.  The multi-op must be sent before paths are used for something else.
 * Returns how many they are, none if there is no marker.
 */
int
zk_marker_ops(const ZkClient *client, Contender *c, const Contender *from,
			  zoo_op_t *ops, char paths[2][ZK_MARKER_PATH_SIZE])
{
	c->marker.ops = 0;
	if (!zk_marker_to_go(from))
		return 0;
	zk_marker_path(from, from->znode.name, paths[0]);
	zoo_delete_op_init(&ops[0], paths[0], -1);
	c->marker.ops = 1;
	if (c == from)
		return 1;
	zk_marker_path(c, c->znode.name, paths[1]);
	zoo_create_op_init(&ops[1], paths[1], "", 0, &client->identity.acl,
					   ZOO_PERSISTENT, NULL, 0);
	zk_marker_set(c, MARKER_UNKNOWN);
	c->marker.ops = 2;
	return 2;
}

/*
 * Returns true if a multi-op of the contender was refused because of the
 * operations on its marker, which come after so many.  Then it is tried
 * without them.  If the marker still exists that is logged, because the next
 * holder will wait for nothing.
 */
bool
zk_marker_to_blame(const Contender *c, int before)
{
	int			rc = ZOK;

	for (int i = 0; i < before + c->marker.ops && rc == ZOK; i++)
	{
		rc = c->results[i].err;
		if (rc != ZOK && i < before)
			return false;
	}
	if (rc == ZOK)
		return false;
	if (rc != ZNONODE)
		zk_log(true, "could not delete or move the unclean marker of contender \"%s\" of lock node \"%.150s\": %s",
			   c->znode.name, c->node, rc == ZNOAUTH ? "permission denied" : zk_answer_text(rc));
	return true;
}

/* The answer to the delete of a marker alone. */
static void
on_marker_deleted(ZkClient *client, Contender *c, const Answer *answer)
{
	if (zk_is_transient(answer->rc))
		zk_contender_retry(client, c);
	else
		zk_marker_set(c, MARKER_ABSENT);
}

/* Deletes the marker of a contender that is gone. */
void
zk_send_marker_delete(ZkClient *client, Contender *c)
{
	void	   *context = zk_contender_ask(client, c, on_marker_deleted);
	char		path[ZK_MARKER_PATH_SIZE];

	zk_marker_path(c, c->znode.name, path);
	zk_contender_sent(client, c, context,
					  zoo_adelete(client->connection.zh, path, -1, zk_on_void,
								  context));
}
