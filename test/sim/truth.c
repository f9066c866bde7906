/*-------------------------------------------------------------------------
 *
 * truth.c
 *	  What a client believes, compared with what the ensemble has.
 *
 * No other client needs to be there for these promises to be broken: a lock that
 * is believed in has its contender (L1, L4), each contender of a client's session
 * has a slot (Q5, Q7), a grant comes with the record as it is (R1, R3), and the
 * lock delay runs from the moment when the contender of a dead holder goes (K4).
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "client.h"
#include "contender.h"
#include "record.h"
#include "slot.h"
#include "world.h"

static uint64_t seen;			/* transactions, when all was compared last */

void
truth_begin(void)
{
	seen = 0;
}

/*
 * What is believed in is there: the session outlives its leases.  While a
 * downgrade is under way it has one of two names.
 */
static void
compare_hold(const Backend *backend, const Hold *hold)
{
	Hold		renamed = *hold;

	if (!check_believed(backend, hold) || check_is_spoilt(backend, hold) ||
		check_contender_exists(hold))
		return;
	strcpy(renamed.name, check_present_name(backend, hold));
	if (!check_contender_exists(&renamed))
		sim_violation("belief", "%s believes in %s, which is gone; its session %s",
					  backend->process->name, hold->name,
					  ensemble_session_lives(hold->session) ? "lives" : "is over");
}

/*
 * A client does not end the session that it goes on with, nor has a handle do that
 * which it replaces (L4).
 */
static void
compare_session(const Backend *backend)
{
	const ZkClient *client = backend->client;
	int64_t		session;

	if (client == NULL || backend->process->dead || client->stage != CLIENT_RUNNING ||
		client->connection.close_wanted)
		return;
	session = zk_session_id(client);
	if (session != 0 && ensemble_session_closed(session))
		sim_violation("session", "%s has closed its own session %llx",
					  backend->process->name, (unsigned long long) session);
}

/* Returns the backend whose client has that session now; or NULL. */
static const Backend *
find_owner(int64_t session)
{
	for (int i = 0; i < world->clients; i++)
	{
		const Backend *backend = &world->backends[i];

		if (backend->client != NULL && !backend->process->dead &&
			zk_session_id(backend->client) == session)
			return backend;
	}
	return NULL;
}

/* Returns true if a slot of the client is in use for the contender. */
static bool
has_slot(const ZkClient *client, const char *node, const char *name)
{
	for (int i = 0; i < client->used; i++)
	{
		const Contender *c = &client->contenders[i];

		if (c->claim != CLAIM_NONE && c->znode.existence != ZNODE_ABSENT &&
			strcmp(c->node, node) == 0 &&
			strncmp(name, c->znode.base, strlen(c->znode.base)) == 0)
			return true;
	}
	return false;
}

/*
 * A contender of a client that runs is in one of its slots, wanted or being
 * deleted.  A client that got no memory may have none for it.
 */
static void
compare_child(const char *name, const NodeView *view, void *argument)
{
	const WorldLock *lock = argument;
	const Backend *backend;

	if (strncmp(name, "_c_", 3) != 0)
		return;
	backend = find_owner(view->stat->ephemeralOwner);
	if (backend != NULL && backend->process->fail_from == 0 &&
		!has_slot(backend->client, lock->node, name))
		sim_violation("slots", "%s has forgotten its contender %s", backend->process->name,
					  view->path);
}

/* The contender of a dead holder goes at some time: then the delay begins. */
static void
compare_unclean(WorldLock *lock)
{
	Hold		dead = {.lock = lock};

	if (lock->unclean[0] == '\0' || lock->unclean_since != 0)
		return;
	strcpy(dead.name, lock->unclean);
	if (!check_contender_exists(&dead))
		lock->unclean_since = sim_now();
}

/* After each step: compares all if something was committed. */
void
truth_step(void)
{
	if (ensemble_stats.transactions == seen)
		return;
	seen = ensemble_stats.transactions;
	for (int i = 0; i < world->clients; i++)
	{
		compare_session(&world->backends[i]);
		for (int k = 0; k < world->backends[i].holds; k++)
			if (world->backends[i].held[k].in_use)
				compare_hold(&world->backends[i], &world->backends[i].held[k]);
	}
	for (int i = 0; i < world->locks; i++)
	{
		ensemble_children(world->lock[i].node, compare_child, &world->lock[i]);
		compare_unclean(&world->lock[i]);
	}
}

/*
 * A holder with a lock delay has a marker (K1), and comes that long after the
 * contender of one that was killed has gone (K4).
 */
static void
compare_delay(const Backend *backend, const Hold *hold)
{
	WorldLock  *lock = hold->lock;

	if (hold->delay == 0 || check_is_tampered(hold->name))
		return;
	if (check_contender_exists(hold) && !check_marker_exists(hold))
		sim_violation("markers", "%s holds %s without a marker", backend->process->name,
					  hold->name);
	compare_unclean(lock);
	if (lock->unclean[0] == '\0' || lock->unclean_since == 0)
		return;
	if (sim_now() < lock->unclean_since + hold->delay * 9 / 10)
		sim_violation("delay", "%s: %s was granted %lld ms after %s had gone",
					  lock->node, hold->name,
					  (long long) (sim_now() - lock->unclean_since) / 1000, lock->unclean);
	lock->unclean[0] = '\0';
}

/*
 * A grant comes with the record as it is: nobody else can write while the lock
 * is held in exclusive mode, and what the same client had released has been
 * written.  It has nothing of a holder that had lost the lock.
 */
static void
compare_record(const Backend *backend, const Hold *hold)
{
	char		path[ZK_RECORD_PATH_SIZE];
	NodeView	view;
	ZkRecord	found;
	ZkRecord	there = {0};

	if (!hold->recorded)
		return;
	if (!zk_contender_record(backend->client, hold->id, &found))
		sim_violation("records", "%s: %s came without a record", hold->lock->node,
					  hold->name);
	zk_record_path(hold->lock->node, strlen(WORLD_ROOT), path);
	if (ensemble_node(path, &view))
		zk_record_parse(view.data, view.len, &there);
	if (hold->mode == ZK_EXCLUSIVE && !check_is_tampered(hold->name) &&
		found.token != there.token)
		sim_violation("records", "%s: %s came with the release %llx, and there is %llx",
					  hold->lock->node, hold->name, (unsigned long long) found.token,
					  (unsigned long long) there.token);
	if (check_is_loser(found.contender))
		sim_violation("records", "%s: %s had lost the lock, and wrote its record",
					  hold->lock->node, found.contender);
}

/* A backend has accepted a grant in which it can believe. */
void
truth_granted(Backend *backend, const Hold *hold)
{
	compare_delay(backend, hold);
	compare_record(backend, hold);
}

/* A backend is about to be killed: the next holder has to wait for its delay. */
void
truth_killed(const Backend *backend)
{
	for (int k = 0; k < backend->holds; k++)
	{
		const Hold *hold = &backend->held[k];

		if (!check_believed(backend, hold) || hold->mode != ZK_EXCLUSIVE ||
			hold->downgraded || hold->delay == 0 || check_is_tampered(hold->name) ||
			!check_contender_exists(hold) || !check_marker_exists(hold))
			continue;
		strcpy(hold->lock->unclean, hold->name);
		hold->lock->unclean_since = 0;
	}
}
