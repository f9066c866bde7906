/*-------------------------------------------------------------------------
 *
 * znode.c
 *	  The znode of a contender: its names, and whether it exists.
 *
 *                 create sent                 list behind a commit lacks it
 *      ABSENT -----------------> UNCERTAIN <------------------------ SETTLED
 *        ^ ^                      |  ^  |                              ^ |
 *        | |            answered  |  |  |    something was committed   | |
 *        | |            or found  |  |  +------------------------------+ |
 *        | |                      v  | missing in a list                 |
 *        | +--------------------- NAMED <--------------------------------+
 *        |   deleted, or its                       found by its base     |
 *        |   session is over                                             |
 *        +---------------------------------------------------------------+
 *                          not there, and not doubted (Q7)
 *
 * Invariant: a znode of ours can exist only while the state is not ABSENT, and
 * then the slot is in use.  So each contender that this client may have created
 * is at every moment wanted or being deleted (Q5).
 *
 * All functions run on client threads under engine_lock.
 *
 *-------------------------------------------------------------------------
 */
#include "client.h"
#include "contender.h"
#include "znode.h"

/* Begins with no znode, in a slot that is taken into use. */
void
zk_znode_begin(Contender *c, uint32_t incarnation)
{
	c->znode.incarnation = incarnation;
}

/*
 * Gives the contender a new identity.  Each create has its own: if it were
 * reused, a create that was executed late could be taken for another.  What a
 * renewal says about the previous one is not about this one.
 */
void
zk_znode_new_base(ZkClient *client, Contender *c)
{
	char		uuid[ZK_UUID_SIZE];

	c->znode.incarnation++;
	zk_uuid_make(&client->uuids, uuid);
	zk_queue_base_name(c->znode.base, sizeof(c->znode.base), client->style,
					   c->request.mode, c->request.permits, uuid);
}

/* Sets whether the znode exists, if its name is not known. */
void
zk_znode_set(Contender *c, Existence existence)
{
	c->znode.existence = existence;
	c->znode.name[0] = '\0';
}

/* The znode exists and has this name. */
void
zk_znode_set_name(Contender *c, const char *name)
{
	if (name != c->znode.name)
		snprintf(c->znode.name, sizeof(c->znode.name), "%s", name);
	c->znode.existence = ZNODE_NAMED;
}

/*
 * The znode is about to take the place of another one, so it has its number.
 * Returns true if that was tried before, and may have been carried out.
 */
bool
zk_znode_take_place(Contender *c, const Contender *from)
{
	bool		again = c->znode.existence != ZNODE_ABSENT;

	zk_queue_take_place(c->znode.name, sizeof(c->znode.name), c->znode.base,
						from->znode.name);
	c->znode.existence = ZNODE_NAMED;
	return again;
}

/* The znode is one that has this name and belongs to no slot. */
void
zk_znode_set_orphan(Contender *c, const char *name)
{
	snprintf(c->znode.base, sizeof(c->znode.base), "%s", name);
	zk_znode_set_name(c, name);
}

/* Sets the token; 0 for none. */
void
zk_znode_set_token(Contender *c, int64_t token)
{
	c->znode.token = token;
}

/* Its create was found, at that time, not to have been executed yet (Q7). */
void
zk_znode_doubt(Contender *c, ZkTime since)
{
	c->znode.doubted_since = since;
}

/* Takes over the znode of another slot, to delete it. */
void
zk_znode_copy(Contender *c, const Contender *from)
{
	c->znode.existence = from->znode.existence;
	c->znode.doubted_since = from->znode.doubted_since;
	memcpy(c->znode.base, from->znode.base, sizeof(c->znode.base));
	memcpy(c->znode.name, from->znode.name, sizeof(c->znode.name));
}

/*
 * Returns true if all there is of the contender is a create that may be
 * executed late (Q7).  Then nobody wants it any more.
 */
bool
zk_znode_is_doubted(const Contender *c)
{
	return c->znode.doubted_since != 0 && c->znode.existence != ZNODE_NAMED;
}

/*
 * Writes the path of a child of the contender's lock node into
 * ZK_CONTENDER_PATH_SIZE bytes.  The name is one of ours, so it fits.
 */
void
zk_contender_path(const Contender *c, const char *name, char *path)
{
	snprintf(path, ZK_CONTENDER_PATH_SIZE, "%s/%s", c->node, name);
}
