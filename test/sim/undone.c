/*-------------------------------------------------------------------------
 *
 * undone.c
 *	  A client leaves nothing undone, and its mailbox adds up.
 *
 * Whoever leaves the engine has done all that could be done (request.c): each
 * contender waits for an answer, for a time, for another contender, or for room.
 * One that waits for nothing would go on when the helper wakes for something
 * else, after an eighth of the session timeout at most: late enough to cost
 * somebody that time, and early enough to be seen by no other check.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "client.h"
#include "contender.h"
#include "own_watch.h"
#include "record_io.h"
#include "request.h"
#include "seam.h"
#include "slot.h"
#include "world.h"

/* Returns true if a contender that was granted waits for what comes before HELD. */
static bool
waits_for_grant(ZkClient *client, const Contender *c)
{
	switch (c->grant)
	{
		case GRANT_RECORD:
			return zk_record_end_pending(client, c);
		case GRANT_MARKERS:
			return c->markers.known == MARKERS_READ && c->markers.unclean.root != NULL &&
				c->parents.of != PARENTS_OF_MARKER;
		case GRANT_PROOF:
			return true;
		default:
			return false;
	}
}

/*
 * Returns true if a member of a group waits until all members are ready, or until
 * another group is made.
 */
static bool
waits_for_group(const ZkClient *client, const Contender *member)
{
	for (int i = 0; i < client->used && member->member.state == MEMBER_IN_RING; i++)
	{
		const Contender *c = &client->contenders[i];

		if (c->member.state != MEMBER_NONE && (c->turn.pending > 0 || c->turn.retry_at != 0))
			return true;
	}
	return false;
}

/* Returns true if a contender that is wanted waits for others, or for nothing more. */
static bool
waits_for_others(ZkClient *client, const Contender *c)
{
	if (c->refusal.znode != NULL)
		return false;
	switch (c->state)
	{
		case ZK_WANTED:
			return waits_for_group(client, c);
		case ZK_QUEUED:
			return waits_for_grant(client, c);
		case ZK_WATCHING:
			return c->watching.second != SECOND_GONE;
		case ZK_HELD:
			return c->partner == NULL;
		default:
			return false;
	}
}

static void
check_contender(const Backend *backend, const Contender *c)
{
	ZkClient   *client = backend->client;

	if (c->claim == CLAIM_NONE || c->turn.pending > 0 || c->turn.retry_at != 0)
		return;
	if (c->claim == CLAIM_WANTED && waits_for_others(client, c))
		return;
	if (c->claim != CLAIM_WANTED && c->znode.existence == ZNODE_ABSENT &&
		(c->claim == CLAIM_ENDED || c->partner != NULL))
		return;					/* but for the backend, or for its partner to
								 * go */
	sim_violation("undone", "%s: contender %s of %s, state %d, claim %d, waits for nothing",
				  backend->process->name, c->znode.name, c->node, (int) c->state,
				  (int) c->claim);
}

/* What the mailbox counts is what is in its slots. */
static void
check_mailbox(const Backend *backend)
{
	const Mailbox *mailbox = &backend->client->mailbox;
	int			contenders = 0;
	int			bytes = 0;

	for (int i = 0; i < mailbox->used; i++)
		if (mailbox->slots[i].in_use)
		{
			contenders++;
			bytes += (int) strlen(mailbox->slots[i].node) + ZK_NAME_SIZE;
		}
	if (contenders != mailbox->contenders || bytes != mailbox->path_bytes)
		sim_violation("undone", "%s: %d slots with %d bytes are in use, counted as %d with %d",
					  backend->process->name, contenders, bytes, mailbox->contenders,
					  mailbox->path_bytes);
}

/*
 * What the mailbox says of the session is what the engine knows, unless the handle is
 * being closed.
 */
static void
check_session(const Backend *backend)
{
	const ZkClient *client = backend->client;
	ZkSessionState state = client->mailbox.session.state;

	if (client->connection.state != CONNECTION_NONE &&
		(state == ZK_SESSION_CONNECTED) != zk_is_connected(client))
		sim_violation("undone", "%s: the session's state is %d, and the connection's %d",
					  backend->process->name, (int) state, (int) client->connection.state);
}

/*
 * What the backend asks for is taken by a thread that is awake (D6): long before the
 * helper would look around.
 */
static void
check_asked(Backend *backend)
{
	const Mailbox *mailbox = &backend->client->mailbox;
	SimTime		since;

	if (!atomic_load(&mailbox->asked) || mailbox->backend_inside != 0 ||
		!zk_is_connected(backend->client))
		backend->asked_since = 0;
	else if (backend->asked_since == 0)
		backend->asked_since = sim_now();
	since = backend->asked_since > backend->process->went_on_at ?
		backend->asked_since : backend->process->went_on_at;
	if (backend->asked_since != 0 && world->quick &&
		sim_now() - since > world->pause * 4 + SIM_MS(20))
		sim_violation("undone", "%s: what was asked for %lld us ago is not taken",
					  backend->process->name, (long long) (sim_now() - since));
}

/* The helper is awake when a contender is to get its watch (W1). */
static void
check_own_watch(const Backend *backend)
{
	SimTime		due = zk_own_watch_due(backend->client);
	SimTime		now = process_boottime(backend->process);
	SimTime		most = world->pause * 4 + SIM_MS(200);

	if (world->quick && due < now - most &&
		backend->process->went_on_at < sim_now() - most)
		sim_violation("undone", "%s: the watch on a contender is late by %lld us",
					  backend->process->name, (long long) (now - due));
}

/* After a step of a task of that backend's process. */
void
undone_step(Backend *backend)
{
	ZkClient   *client = backend->client;

	if (client == NULL)
		return;
	if (!seam_is_locked(&client->mailbox.lock))
		check_mailbox(backend);
	if (seam_is_locked(&client->engine_lock) || client->stage != CLIENT_RUNNING)
		return;
	check_session(backend);
	check_asked(backend);
	if (!zk_is_connected(client) || zk_requests_free(client) < 3)
		return;
	check_own_watch(backend);
	for (int i = 0; i < client->used; i++)
		check_contender(backend, &client->contenders[i]);
}
