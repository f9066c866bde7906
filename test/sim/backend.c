/*-------------------------------------------------------------------------
 *
 * backend.c
 *	  What the backends of the simulated world do, by the plan.
 *
 * Each uses the lock client as a session of the database does: it requests
 * locks and waits, relies on them, releases or abandons them, looks at queues,
 * breaks those of others, publishes what it waits for, and ends.
 *
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "memory.h"
#include "world.h"

/* Locks that are requested at once, now and then; in two groups. */
#define CROWD	100

#define OWNER	"{\"cluster\":\"alpha\",\"pid\":1}"

static void
now_doing(Backend *backend, Doing doing)
{
	backend->doing = doing;
	backend->since = sim_now();
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
} Wanted;

/* What there is to wait for. */
static Awaited
awaited(Wanted *wanted)
{
	Awaited		awaited = {wanted->count, wanted->ids, wanted->status, false};

	return awaited;
}

/* Collects the locks of the line: of one kind, and in the order of their names. */
static void
find_locks(const PlanLine *line, Wanted *wanted)
{
	memset(wanted, 0, sizeof(*wanted));
	wanted->mode = line->shared ? ZK_SHARED : ZK_EXCLUSIVE;
	for (int i = 0; i < MAX_LOCKS; i++)
	{
		WorldLock  *lock = &world->lock[i];

		if ((line->locks >> i & 1) == 0 || (lock->permits > 0 && wanted->count > 0))
			continue;
		wanted->locks[wanted->count++] = lock;
		if (lock->permits == 0)
			continue;
		wanted->mode = ZK_PERMIT;
		break;
	}
}

static bool
request_locks(Backend *backend, const PlanLine *line, Wanted *wanted)
{
	ZkLockRequest request = {
		.mode = wanted->mode,
		.permits = wanted->mode == ZK_PERMIT ? wanted->locks[0]->permits : 0,
		.owner = OWNER,
		.no_wait = line->no_wait,
		.root_len = strlen(WORLD_ROOT),
		.record = wanted->mode != ZK_PERMIT && line->recorded,
		.lock_delay = wanted->mode != ZK_PERMIT ? line->delay : 0,
		.max_hold = line->max_hold
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
give_up(Backend *backend, const PlanLine *line, Wanted *wanted)
{
	Awaited		gone = awaited(wanted);

	now_doing(backend, DOING_RELEASE);
	if (line->released > 0)
	{
		for (int i = 0; i < wanted->count; i++)
			zk_contender_release(backend->client, wanted->ids[i]);
		if (await(backend->client, seen_gone, &gone, line->released))
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

/* Leaves something for the next holder of the first lock. */
static void
note_something(Backend *backend, const Wanted *wanted, Hold *hold)
{
	ZkRecord	note = {0};

	zk_contender_note(backend->client, wanted->ids[0], &note);
	hold->noted = hold->recorded;
}

/* Does something for some time, and asks for proofs now and then, as commits do. */
static void
work(Backend *backend, const PlanLine *line)
{
	for (int64_t commits = line->commits; commits > 0; commits--)
	{
		task_sleep(world->resting ? 0 : line->commit_after);
		zk_client_renew(backend->client);
	}
	task_sleep(world->resting ? 0 : line->hold);
}

/* Works under locks that were granted. */
static void
hold_locks(Backend *backend, const PlanLine *line, Wanted *wanted)
{
	Hold	   *held[MAX_LOCKS];

	now_doing(backend, DOING_HOLD);
	for (int i = 0; i < wanted->count; i++)
	{
		held[i] = check_granted(backend, wanted->locks[i], wanted->mode, wanted->ids[i],
								&wanted->status[i], &wanted->request);
		zk_contender_rely_on(backend->client, wanted->ids[i]);
	}
	check_group(backend, held, wanted->count);
	if (line->note_first)
		note_something(backend, wanted, held[0]);
	work(backend, line);
	if (wanted->mode == ZK_EXCLUSIVE && wanted->count == 1 && line->downgraded > 0)
	{
		downgrade(backend, wanted, held[0]);
		task_sleep(line->downgraded);
	}
	if (line->note_last)
		note_something(backend, wanted, held[0]);
	for (int i = 0; i < wanted->count; i++)
	{
		wanted->held[i] = *held[i];
		check_let_go(held[i]);
	}
}

/* A call of zk_lock_acquire(), and the work. */
static void
acquire(Backend *backend, const PlanLine *line)
{
	Wanted		wanted;
	Awaited		granted;
	SimTime		patience = line->patience > 0 ? line->patience : SIM_SECONDS(36000);

	find_locks(line, &wanted);
	if (wanted.count == 0 || !request_locks(backend, line, &wanted))
		return;
	now_doing(backend, DOING_WAIT);
	granted = awaited(&wanted);
	if (await(backend->client, seen_end, &granted, patience) && !granted.failed)
		hold_locks(backend, line, &wanted);
	give_up(backend, line, &wanted);
}

/* Returns true if all contenders of a crowd are in that state. */
static bool
crowd_is(ZkClient *client, const ZkContenderId *ids, ZkContenderState state)
{
	ZkContenderStatus status;

	for (int i = 0; i < CROWD; i++)
	{
		zk_contender_status(client, ids[i], &status);
		if (status.state != state)
			return false;
	}
	return true;
}

static bool
seen_crowd_held(ZkClient *client, void *ids)
{
	return crowd_is(client, ids, ZK_HELD);
}

static bool
seen_crowd_gone(ZkClient *client, void *ids)
{
	return crowd_is(client, ids, ZK_GONE);
}

/* Requests more locks than there may be requests under way, which are its own. */
static bool
request_crowd(Backend *backend, ZkContenderId *ids)
{
	ZkLockRequest request = {.mode = ZK_EXCLUSIVE,.owner = OWNER,.root_len = strlen(WORLD_ROOT)};
	char		paths[CROWD][48];
	const char *nodes[CROWD];
	ZkError		error;

	for (int i = 0; i < CROWD; i++)
	{
		snprintf(paths[i], sizeof(paths[i]), WORLD_ROOT "/crowd/%d-%02d", backend->number, i);
		nodes[i] = paths[i];
	}
	return zk_contenders_request(backend->client, &request, CROWD / 2, nodes, ids, &error) &&
		zk_contenders_request(backend->client, &request, CROWD / 2, nodes + CROWD / 2,
							  ids + CROWD / 2, &error);
}

/*
 * Many locks at once are released in the time of some round trips: what finds no
 * room for its request is sent when there is some (request.c).
 */
static void
use_crowd(Backend *backend, const PlanLine *line)
{
	ZkContenderId ids[CROWD] = {0};
	SimTime		begin;

	now_doing(backend, DOING_HOLD);
	if (request_crowd(backend, ids) &&
		await(backend->client, seen_crowd_held, ids, SIM_SECONDS(60)))
	{
		task_sleep(line->hold);
		now_doing(backend, DOING_RELEASE);
		begin = sim_now();
		for (int i = 0; i < CROWD; i++)
			zk_contender_release(backend->client, ids[i]);
		if (await(backend->client, seen_crowd_gone, ids, SIM_SECONDS(60)))
			calm_crowd_gone(backend, sim_now() - begin);
	}
	for (int i = 0; i < CROWD; i++)
		if (ids[i] != 0)
			zk_contender_abandon(backend->client, ids[i]);
}

/*-------------------------------------------------------------------------
 * Queries, waits
 *-------------------------------------------------------------------------
 */

/* Breaks one of those in a listing, or asks for its lock. */
static void
break_one(Backend *backend, const PlanLine *line, const WorldLock *lock,
		  const ZkQueueListing *listing)
{
	const ZkQueueMember *member;
	ZkQueueListing *answer = NULL;

	if (listing->count == 0)
		return;
	member = &listing->members[line->pick % listing->count];
	if (line->broken)
		check_tampered(member->name);
	zk_queue_break(backend->client, lock->node, member->name, "{\"broken\":{}}",
				   line->revoked != 0);
	await(backend->client, seen_listing, &answer, line->patience);
	if (line->broken)
		check_tampered(member->name);
	if (answer != NULL && answer->count == 1)
		(line->revoked ? calm_revoked : calm_broken) (member->name);
	if (answer != NULL)
		zk_queue_free(answer);
}

static void
query(Backend *backend, const PlanLine *line)
{
	int			number = plan_first_lock(line);
	const WorldLock *lock = &world->lock[number >= 0 ? number : 0];
	ZkQueueListing *listing = NULL;

	now_doing(backend, DOING_QUERY);
	if (line->word == PLAN_HEAD)
		zk_query_request(backend->client, ZK_QUERY_HEAD, lock->node, NULL);
	else if (line->word == PLAN_TREE)
		zk_query_request(backend->client, ZK_QUERY_TREE, WORLD_ROOT, ".zklock");
	else if (line->word == PLAN_RECORD)
		zk_record_request(backend->client, lock->node, WORLD_ROOT);
	else if (line->word == PLAN_WAITS)
		zk_query_request(backend->client, ZK_QUERY_WAITS, WORLD_ROOT "/.zklock/waits", NULL);
	else
		zk_query_request(backend->client, ZK_QUERY_QUEUE, lock->node, NULL);
	await(backend->client, seen_listing, &listing, line->patience);
	if (listing != NULL && line->word == PLAN_LIST && (line->broken || line->revoked))
		break_one(backend, line, lock, listing);
	if (listing != NULL)
		zk_queue_free(listing);
	zk_queue_cancel(backend->client);
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
	backend->config.transport[ZK_TLS_CA] = world->tls ? "ca.pem" : NULL;
	backend->config.credential = world->identity ? "app:sesame" : NULL;
	backend->client = zk_client_start(&backend->config, &error, detail);
	return backend->client != NULL;
}

/* Stops it, as the end of a session or zk_session_close() does. */
static void
stop_client(Backend *backend, bool hasty)
{
	ZkClient   *client = backend->client;

	now_doing(backend, DOING_STOP);
	backend->client = NULL;
	zk_client_stop(client, hasty ? 0 : 500);
	zk_clients_await_close(10000);
	if (task_is_alone() && backend->process->blocks != NULL)
		sim_violation("memory", "%s: %zu bytes are left by clients that have stopped",
					  backend->process->name, backend->process->allocated);
}

static void
operate(Backend *backend, const PlanLine *line)
{
	sim_trace("%s: begins line at %lld.%06lld of round %d", backend->process->name,
			  (long long) line->at / 1000000, (long long) line->at % 1000000, line->round);
	backend->calls++;
	now_doing(backend, DOING_NOTHING);	/* and rests no more */
	switch (line->word)
	{
		case PLAN_ACQUIRE:
			acquire(backend, line);
			break;
		case PLAN_PUBLISH:
			zk_wait_publish(backend->client, WORLD_ROOT "/.zklock/waits", "x", 1);
			break;
		case PLAN_WITHDRAW:
			zk_wait_withdraw(backend->client);
			break;
		case PLAN_CONNECT:
			zk_client_connect(backend->client, 1000);
			break;
		case PLAN_CROWD:
			use_crowd(backend, line);
			break;
		case PLAN_CLOSE:
			stop_client(backend, line->hasty != 0);
			break;
		default:
			query(backend, line);
			break;
	}
}

/* Returns the next line of the backend in the plan, or NULL if it has no more. */
static const PlanLine *
next_line(Backend *backend)
{
	const PlanLine *line;

	if (world->choosing)
		return choose_operation(backend->number, backend->next_line++,
								sim_now() - world->round_began);
	while ((line = plan_line(backend->next_line)) != NULL)
	{
		backend->next_line++;
		if (line->word >= PLAN_FIRST_OPERATION && line->client == backend->number)
			return line;
	}
	return NULL;
}

/* Nothing is wanted any more in this round. */
static void
rest(Backend *backend)
{
	if (backend->doing != DOING_REST && backend->client != NULL)
	{
		if (world->keeping)
			zk_wait_withdraw(backend->client);
		else
			stop_client(backend, false);
	}
	now_doing(backend, DOING_REST);
	task_sleep(SIM_SECONDS(1));
}

/* Rests until that time of that round, or a later round. */
static void
await_turn(Backend *backend, int round, SimTime at)
{
	while (world->resting || round > world->round ||
		   (round == world->round && sim_now() < world->round_began + at))
	{
		SimTime		left = world->round_began + at - sim_now();

		if (world->resting)
			rest(backend);
		else
			task_sleep(left <= 0 || left > SIM_SECONDS(1) ? SIM_SECONDS(1) : left);
	}
}

static void *
backend_main(void *argument)
{
	Backend    *backend = argument;

	for (;;)
	{
		const PlanLine *line;

		await_turn(backend, world->round, 0);
		if (backend->line == NULL)
			backend->line = next_line(backend);
		line = backend->line;
		while (line == NULL)
			await_turn(backend, INT_MAX, 0);
		await_turn(backend, line->round, line->at);
		backend->line = NULL;
		if (line->round < world->round)
			continue;
		while (backend->client == NULL && !start_client(backend))
			task_sleep(SIM_SECONDS(1));
		operate(backend, line);
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
	backend->process->rate = 1000000 + chance_between(&clock, -world->slow, world->fast);
	backend->process->base = chance_between(&clock, 0, SIM_SECONDS(100000));
	backend->client = NULL;
	memset(backend->held, 0, sizeof(backend->held));
	backend->holds = 0;
	memset(backend->due, 0, sizeof(backend->due));
	backend->connecting = 0;
	backend->attempts = backend->calm_attempts = backend->calls = 0;
	now_doing(backend, DOING_NOTHING);
	task_start(backend->process, "backend", backend_main, backend);
}

/* Kills it, and starts another in its place. */
void
backend_kill(Backend *backend)
{
	sim_trace("%s: is killed", backend->process->name);
	truth_killed(backend);
	process_kill(backend->process);
	world_stats.kills++;
	backend_start(backend);
}
