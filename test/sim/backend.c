/*-------------------------------------------------------------------------
 *
 * backend.c
 *	  What the backends of the simulated world do, at random.
 *
 * Each uses the lock client as a session of the database does: it requests
 * locks and waits, relies on them, releases or abandons them, looks at queues,
 * breaks those of others, publishes what it waits for, and ends.
 *
 *-------------------------------------------------------------------------
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "seam.h"
#include "world.h"

#define OWNER	"{\"cluster\":\"alpha\",\"pid\":1}"

static void
now_doing(Backend *backend, Doing doing)
{
	backend->doing = doing;
	backend->since = sim_now();
}

/* A span of up to so many session timeouts, more often a short one. */
static SimTime
some_time(Backend *backend, SimTime longest)
{
	SimTime		limit = longest >> chance_below(&backend->chance, 8);

	return chance_between(&backend->chance, 0, limit);
}

/* Whether there is what a backend waits for. */
typedef bool (*Seen) (Backend *backend, void *argument);

/*
 * Waits until that is seen; false if it was not, after so long.  Looks before
 * each wait.
 */
static bool
wait_until(Backend *backend, Seen seen, void *argument, SimTime longest)
{
	SimTime		until = process_monotonic(backend->process) + longest;

	for (;;)
	{
		SimTime		left;

		zk_client_clear_event(backend->client);
		if (seen(backend, argument))
			return true;
		left = until - process_monotonic(backend->process);
		if (left <= 0)
			return false;

		struct pollfd pfd = {.fd = zk_client_event_fd(backend->client),.events = POLLIN};

		seam_poll(&pfd, 1, (int) (left / 1000) + 1);
	}
}

/*-------------------------------------------------------------------------
 * Locks
 *-------------------------------------------------------------------------
 */

/* Locks that are requested together. */
typedef struct Wanted
{
	int			count;
	ZkMode		mode;
	WorldLock  *locks[MAX_LOCKS];
	ZkContenderId ids[MAX_LOCKS];
	ZkContenderStatus status[MAX_LOCKS];
	ZkLockRequest request;
	Hold		held[MAX_LOCKS];	/* as they were given up */
	bool		failed;
} Wanted;

/* Seen: all are granted with running leases, or one has failed. */
static bool
seen_end(Backend *backend, void *argument)
{
	Wanted	   *wanted = argument;
	int			granted = 0;

	for (int i = 0; i < wanted->count; i++)
	{
		ZkContenderStatus *status = &wanted->status[i];

		zk_contender_status(backend->client, wanted->ids[i], status);
		if (status->state == ZK_FAILED || status->state == ZK_LOST)
			wanted->failed = true;
		granted += status->state == ZK_HELD && zk_now() < status->lease_end;
	}
	return wanted->failed || granted == wanted->count;
}

/* Seen: they are gone. */
static bool
seen_gone(Backend *backend, void *argument)
{
	Wanted	   *wanted = argument;

	for (int i = 0; i < wanted->count; i++)
	{
		ZkContenderStatus status;

		zk_contender_status(backend->client, wanted->ids[i], &status);
		if (status.state != ZK_GONE && status.state != ZK_FAILED)
			return false;
	}
	return true;
}

/* Chooses locks of one kind, in the order of their names. */
static void
choose_locks(Backend *backend, Wanted *wanted)
{
	int			most = chance_one_in(&backend->chance, 6) ? 4 : 1;

	memset(wanted, 0, sizeof(*wanted));
	wanted->mode = chance_one_in(&backend->chance, 3) ? ZK_SHARED : ZK_EXCLUSIVE;
	while (wanted->count == 0)
		for (int i = 0; i < world->locks && wanted->count < most; i++)
		{
			WorldLock  *lock = &world->lock[i];

			if (!chance_one_in(&backend->chance, (uint64_t) world->locks))
				continue;
			if (lock->permits > 0 && wanted->count > 0)
				continue;
			wanted->locks[wanted->count++] = lock;
			if (lock->permits > 0)
			{
				wanted->mode = ZK_PERMIT;
				return;
			}
		}
}

static bool
request_locks(Backend *backend, Wanted *wanted)
{
	ZkLockRequest request = {
		.mode = wanted->mode,
		.permits = wanted->mode == ZK_PERMIT ? wanted->locks[0]->permits : 0,
		.owner = OWNER,
		.no_wait = chance_one_in(&backend->chance, 8),
		.root_len = strlen(WORLD_ROOT),
		.record = wanted->mode != ZK_PERMIT && chance_one_in(&backend->chance, 4),
		.lock_delay = wanted->mode != ZK_PERMIT && chance_one_in(&backend->chance, 4) ? world->delay : 0,
		.max_hold = chance_one_in(&backend->chance, 16) ?
		chance_between(&backend->chance, 1000, SIM_MS(world->timeout_ms) * 2) : 0
	};
	const char *nodes[MAX_LOCKS];
	ZkError		error;

	for (int i = 0; i < wanted->count; i++)
		nodes[i] = wanted->locks[i]->node;
	wanted->request = request;
	world_stats.requests++;
	return zk_contenders_request(backend->client, &request, wanted->count, nodes,
								 wanted->ids, &error);
}

/* They are gone, as the client says. */
static void
check_gone(Backend *backend, Wanted *wanted)
{
	for (int i = 0; i < wanted->count; i++)
	{
		zk_contender_status(backend->client, wanted->ids[i], &wanted->status[i]);
		if (wanted->held[i].lock != NULL && wanted->status[i].state == ZK_GONE)
			check_released(backend, &wanted->held[i], &wanted->status[i]);
	}
}

/* Gives them up: waits until they are gone, or does not. */
static void
give_up(Backend *backend, Wanted *wanted)
{
	now_doing(backend, DOING_RELEASE);
	if (!chance_one_in(&backend->chance, 3))
	{
		for (int i = 0; i < wanted->count; i++)
			zk_contender_release(backend->client, wanted->ids[i]);
		if (wait_until(backend, seen_gone, wanted, some_time(backend, SIM_SECONDS(60))))
			check_gone(backend, wanted);
	}
	for (int i = 0; i < wanted->count; i++)
		zk_contender_abandon(backend->client, wanted->ids[i]);
}

/* Turns an exclusive lock into a shared one. */
static void
downgrade(Backend *backend, Wanted *wanted, Hold *hold)
{
	ZkError		error;
	ZkContenderId shared = zk_contender_reserve(backend->client, wanted->ids[0], &error);

	if (shared == 0)
		return;
	zk_contender_downgrade(backend->client, wanted->ids[0], shared);
	wanted->ids[0] = hold->id = shared;
	wanted->mode = hold->mode = ZK_SHARED;
	hold->downgraded = true;
}

/* Leaves something for the next holder of the first lock, now and then. */
static void
note_something(Backend *backend, const Wanted *wanted, Hold *hold)
{
	ZkRecord	note = {0};

	if (!chance_one_in(&backend->chance, 4))
		return;
	zk_contender_note(backend->client, wanted->ids[0], &note);
	hold->noted = wanted->request.record;
}

/* Does something for some time, and asks for proofs now and then, as commits do. */
static void
work(Backend *backend)
{
	for (int commits = (int) chance_below(&backend->chance, 4); commits > 0; commits--)
	{
		task_sleep(world->resting ? 0 : some_time(backend, SIM_MS(world->timeout_ms) * 2));
		zk_client_renew(backend->client);
	}
	task_sleep(world->resting ? 0 : some_time(backend, SIM_MS(world->timeout_ms) * 6));
}

/* Works under locks that were granted. */
static void
hold_locks(Backend *backend, Wanted *wanted)
{
	Hold	   *held[MAX_LOCKS];

	now_doing(backend, DOING_HOLD);
	for (int i = 0; i < wanted->count; i++)
	{
		held[i] = check_granted(backend, wanted->locks[i], wanted->mode, wanted->ids[i],
								&wanted->status[i], &wanted->request);
		zk_contender_rely_on(backend->client, wanted->ids[i]);
	}
	note_something(backend, wanted, held[0]);
	work(backend);
	if (wanted->mode == ZK_EXCLUSIVE && wanted->count == 1 && chance_one_in(&backend->chance, 8))
	{
		downgrade(backend, wanted, held[0]);
		task_sleep(some_time(backend, SIM_MS(world->timeout_ms) * 2));
	}
	note_something(backend, wanted, held[0]);
	for (int i = 0; i < wanted->count; i++)
	{
		wanted->held[i] = *held[i];
		check_let_go(held[i]);
	}
}

/* A call of zk_lock_acquire(), and the work. */
static void
use_locks(Backend *backend)
{
	Wanted		wanted;
	SimTime		patience = chance_one_in(&backend->chance, 3) ?
	some_time(backend, SIM_SECONDS(30)) : SIM_SECONDS(36000);

	choose_locks(backend, &wanted);
	if (!request_locks(backend, &wanted))
		return;
	now_doing(backend, DOING_WAIT);
	if (wait_until(backend, seen_end, &wanted, patience) && !wanted.failed)
		hold_locks(backend, &wanted);
	give_up(backend, &wanted);
}

/*-------------------------------------------------------------------------
 * Queries, waits
 *-------------------------------------------------------------------------
 */

/* Seen: the answer to a query. */
static bool
seen_listing(Backend *backend, void *argument)
{
	ZkQueueListing **listing = argument;

	*listing = zk_queue_take(backend->client);
	return *listing != NULL;
}

/* Breaks one of those in a listing, or asks for its lock. */
static void
break_one(Backend *backend, const WorldLock *lock, const ZkQueueListing *listing)
{
	const ZkQueueMember *member;
	ZkQueueListing *answer = NULL;
	bool		only_revoke = chance_one_in(&backend->chance, 2);

	if (listing->count == 0)
		return;
	member = &listing->members[chance_below(&backend->chance, (uint64_t) listing->count)];
	if (!only_revoke)
		check_tampered(member->name);
	zk_queue_break(backend->client, lock->node, member->name, "{\"broken\":{}}", only_revoke);
	wait_until(backend, seen_listing, &answer, some_time(backend, SIM_SECONDS(10)));
	if (!only_revoke)
		check_tampered(member->name);
	if (answer != NULL && answer->count == 1)
		(only_revoke ? calm_revoked : calm_broken) (member->name);
	if (answer != NULL)
		zk_queue_free(answer);
}

static void
ask(Backend *backend)
{
	const WorldLock *lock = &world->lock[chance_below(&backend->chance, (uint64_t) world->locks)];
	ZkQueueListing *listing = NULL;
	int			kind = (int) chance_below(&backend->chance, 5);

	now_doing(backend, DOING_QUERY);
	if (kind == 0)
		zk_query_request(backend->client, ZK_QUERY_HEAD, lock->node, NULL);
	else if (kind == 1)
		zk_query_request(backend->client, ZK_QUERY_TREE, WORLD_ROOT, ".zklock");
	else if (kind == 2)
		zk_record_request(backend->client, lock->node, WORLD_ROOT);
	else if (kind == 3)
		zk_query_request(backend->client, ZK_QUERY_WAITS, WORLD_ROOT "/.zklock/waits", NULL);
	else
		zk_query_request(backend->client, ZK_QUERY_QUEUE, lock->node, NULL);
	wait_until(backend, seen_listing, &listing, some_time(backend, SIM_SECONDS(10)));
	if (listing != NULL && kind == 4 && chance_one_in(&backend->chance, 4))
		break_one(backend, lock, listing);
	if (listing != NULL)
		zk_queue_free(listing);
	zk_queue_cancel(backend->client);
}

static void
publish(Backend *backend)
{
	if (chance_one_in(&backend->chance, 2))
		zk_wait_publish(backend->client, WORLD_ROOT "/.zklock/waits", "x", 1);
	else
		zk_wait_withdraw(backend->client);
}

/*-------------------------------------------------------------------------
 * The life of a backend
 *-------------------------------------------------------------------------
 */

/* Starts the client; false if there is no memory. */
static bool
start_client(Backend *backend)
{
	char		detail[ZK_DETAIL_SIZE];
	ZkError		error;

	now_doing(backend, DOING_START);
	backend->config.servers = world->servers;
	backend->config.session_timeout_ms = world->timeout_ms;
	backend->config.root = WORLD_ROOT;
	backend->client = zk_client_start(&backend->config, &error, detail);
	return backend->client != NULL;
}

/* Stops it, as the end of a session or zk_session_close() does. */
static void
stop_client(Backend *backend)
{
	ZkClient   *client = backend->client;

	now_doing(backend, DOING_STOP);
	backend->client = NULL;
	zk_client_stop(client, chance_one_in(&backend->chance, 8) ? 0 : 500);
	zk_clients_await_close(10000);
	if (task_is_alone() && backend->process->blocks != NULL)
		sim_violation("memory", "%s: %zu bytes are left by clients that have stopped",
					  backend->process->name, backend->process->allocated);
}

static void
do_something(Backend *backend)
{
	switch (chance_below(&backend->chance, 16))
	{
		case 0:
		case 1:
			ask(backend);
			break;
		case 2:
			publish(backend);
			break;
		case 3:
			task_sleep(some_time(backend, SIM_MS(world->timeout_ms) * 8));
			break;
		case 4:
			zk_client_connect(backend->client, 1000);
			break;
		default:
			use_locks(backend);
			break;
	}
}

/* Wants nothing for some time. */
static void
idle(Backend *backend)
{
	for (SimTime left = some_time(backend, world->idle); left > 0 && !world->resting;
		 left -= SIM_SECONDS(10))
		task_sleep(left < SIM_SECONDS(10) ? left : SIM_SECONDS(10));
}

static void *
backend_main(void *argument)
{
	Backend    *backend = argument;

	task_sleep(some_time(backend, SIM_SECONDS(30)));
	for (;;)
	{
		if (world->resting)
		{
			if (backend->doing != DOING_REST && backend->client != NULL)
				zk_wait_withdraw(backend->client);
			now_doing(backend, DOING_REST);
			task_sleep(SIM_SECONDS(1));
			continue;
		}
		if (backend->client == NULL && !start_client(backend))
		{
			task_sleep(SIM_SECONDS(1));
			continue;
		}
		do_something(backend);
		if ((world->resting && !world->keeping) || chance_one_in(&backend->chance, 40))
			stop_client(backend);
		else if (chance_one_in(&backend->chance, 4))
			idle(backend);
	}
	return NULL;
}

void
backend_start(Backend *backend)
{
	char		name[PROCESS_NAME];
	Chance		clock;

	snprintf(name, sizeof(name), "b%d.%d", backend->number, ++backend->life);
	clock = chance_named("clock of %s", name);
	backend->process = process_make(name);
	backend->process->program = backend;
	backend->process->rate = chance_between(&clock, 925000, 1080000);
	backend->process->base = chance_between(&clock, 0, SIM_SECONDS(100000));
	backend->client = NULL;
	backend->chance = chance_named("backend %s", name);
	memset(backend->held, 0, sizeof(backend->held));
	backend->holds = 0;
	memset(backend->due, 0, sizeof(backend->due));
	backend->connecting = 0;
	backend->attempts = 0;
	now_doing(backend, DOING_NOTHING);
	task_start(backend->process, "backend", backend_main, backend);
}

/* Kills it, and starts another in its place. */
void
backend_kill(Backend *backend)
{
	sim_trace("%s: is killed", backend->process->name);
	check_killed(backend);
	process_kill(backend->process);
	world_stats.kills++;
	backend_start(backend);
}
