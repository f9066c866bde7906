/*-------------------------------------------------------------------------
 *
 * choose.c
 *	  Draws lots for the plan of a world: how it is, what goes wrong, what each
 *	  client does.
 *
 *-------------------------------------------------------------------------
 */
#include "world.h"

static Chance chance;			/* of what is drawn now */
static SimTime idle;			/* at most, between two operations */

static uint64_t
below(uint64_t limit)
{
	return chance_below(&chance, limit);
}

static bool
one_in(uint64_t count)
{
	return chance_one_in(&chance, count);
}

static int64_t
between(int64_t low, int64_t high)
{
	return chance_between(&chance, low, high);
}

/* A span of up to so long, more often a short one. */
static SimTime
some_time(SimTime longest)
{
	SimTime		limit = longest >> below(8);

	return between(0, limit);
}

static SimTime
timeouts(int count)
{
	return SIM_MS(world->timeout_ms) * count;
}

/*-------------------------------------------------------------------------
 * The world
 *-------------------------------------------------------------------------
 */

static void
choose_servers(void)
{
	static const int server_counts[] = {1, 3, 3, 3, 5};
	static const int timeouts_ms[] = {4000, 6000, 10000, 20000, 40000};
	PlanLine   *line = plan_add(PLAN_ENSEMBLE);

	line->servers = server_counts[below(5)];
	line->as_39 = one_in(2);
	line->sync_limit = one_in(3) ? 15 : 5;
	line = plan_add(PLAN_SESSION);
	line->timeout = SIM_MS(timeouts_ms[below(5)]);
	line->tls = one_in(4);
	if (one_in(8))
		plan_add(PLAN_THROTTLE)->one_in = 200;
}

static void
choose_locks(void)
{
	int			count = 1 + (int) below(one_in(2) ? 2 : MAX_LOCKS);
	PlanLine   *line = plan_add(PLAN_LOCKS);

	line->count = count;
	for (int i = 0; i < count; i++)
	{
		line = plan_add(PLAN_LOCK);
		line->locks = 1 << i;
		line->deep = one_in(4);
		line->permits = one_in(4) ? between(1, 4) : 0;
	}
}

static void
choose_schedule(void)
{
	PlanLine   *line = plan_add(PLAN_CLOCKS);

	line->slow = 75000;
	line->fast = 80000;
	plan_add(PLAN_PREEMPT)->one_in = 2 << below(6);
	line = plan_add(PLAN_PAUSE);
	line->one_in = 1000 << below(6);
	line->longest = SIM_MS(1) << below(14);
	plan_add(PLAN_WAKE)->longest = 1 + (SimTime) below(200);
}

void
choose_world(uint64_t seed)
{
	PlanLine   *line;

	plan_clear();
	chance = chance_named("world");
	plan_add(PLAN_CHANCE)->seed = (int64_t) seed;
	choose_servers();
	line = plan_add(PLAN_CLIENTS);
	line->count = 2 + (int) below(one_in(16) ? 40 : 6);
	line->identity = one_in(4);
	choose_locks();
	choose_schedule();
	idle = SIM_SECONDS(20) << below(6);
}

/*-------------------------------------------------------------------------
 * What goes wrong
 *-------------------------------------------------------------------------
 */

/* How long a fault lasts. */
static SimTime
some_while(SimTime longest)
{
	return between(0, longest >> below(6));
}

/* The leader now and then. */
static int
some_server(void)
{
	return one_in(3) ? 0 : 1 + (int) below((uint64_t) world->ensemble.servers);
}

static void
choose_servers_to_cut(PlanLine *line)
{
	line->server = some_server();
	line->other = 1 + (int) below((uint64_t) world->ensemble.servers);
	line->lasts = some_while(timeouts(3));
}

/*
 * The leader stands still now and then for less than it takes its followers to give it
 * up: they answer reads, and it commits what has queued up before it expires sessions
 * (L1).
 */
static void
choose_server_to_stop(PlanLine *line)
{
	line->server = one_in(4) ? 0 : some_server();
	line->lasts = some_while(one_in(4) ?
							 SIM_MS(world->ensemble.tick_ms) * world->ensemble.sync_limit :
							 timeouts(3));
}

/* Which fault, and what of it. */
static PlanLine *
choose_fault(SimTime at)
{
	static const PlanWord faults[] = {
		PLAN_STOP_SERVER, PLAN_STOP_SERVER, PLAN_CRASH_SERVER, PLAN_CRASH_SERVER,
		PLAN_CUT_SERVERS, PLAN_CUT_SERVERS, PLAN_CUT_CLIENT, PLAN_CUT_CLIENT,
		PLAN_CUT_CLIENT, PLAN_STOP_CLIENT, PLAN_STOP_CLIENT, PLAN_STOP_CLIENT,
		PLAN_AMBUSH, PLAN_AMBUSH, PLAN_AMBUSH, PLAN_AMBUSH, PLAN_SPLIT_NETWORK,
		PLAN_KILL_CLIENT, PLAN_DELETE, PLAN_SLOW_NETWORK, PLAN_REFUSE_MEMORY,
		PLAN_CHANGE_TIMEOUT, PLAN_SLOW_RESOLVER, PLAN_CRASH_SERVERS, PLAN_OVERLOAD, PLAN_DENY,
		PLAN_DENY
	};
	PlanLine   *line = plan_add(faults[below(sizeof(faults) / sizeof(faults[0]))]);

	line->at = at;
	if (line->word >= PLAN_CUT_CLIENT && line->word <= PLAN_AMBUSH)
		line->client = (int64_t) below((uint64_t) world->clients);
	return line;
}

/* A contender of some lock is deleted. */
static void
choose_contender(PlanLine *line)
{
	line->locks = 1 << below((uint64_t) world->locks);
	line->pick = (int64_t) below(1000);
}

/* Some permissions are left on the znode of a lock, or on another one. */
static void
choose_permissions(PlanLine *line, int64_t guarded)
{
	line->guarded = guarded;
	if (guarded == 0)
		line->locks = 1 << below((uint64_t) world->locks);
	line->permissions = (int64_t) below(ZOO_PERM_ALL);
}

/* A client is stopped or cut off at a bad moment. */
static void
choose_ambush(PlanLine *line)
{
	line->reconnected = one_in(2);
	if (line->reconnected && one_in(2))
		line->timeout = SIM_MS(between(world->ensemble.tick_ms * 2, world->timeout_ms));
	line->cut = one_in(3);
	line->suspended = one_in(3);
	line->lasts = some_while(timeouts(one_in(8) ? 20 : 2));
}

static void
choose_details(PlanLine *line)
{
	switch (line->word)
	{
		case PLAN_STOP_SERVER:
			choose_server_to_stop(line);
			break;
		case PLAN_CRASH_SERVER:
			line->server = some_server();
			line->wiped = one_in(4);
			line->lasts = some_while(timeouts(3));
			break;
		case PLAN_CRASH_SERVERS:
			line->wiped = one_in(4);
			line->lasts = some_while(timeouts(1));
			break;
		case PLAN_OVERLOAD:
			line->one_in = between(2, 9);
			line->lasts = some_while(timeouts(4));
			break;
		case PLAN_DENY:
			choose_permissions(line, one_in(2) ? between(1, 4) : 0);
			line->lasts = some_while(timeouts(4));
			break;
		case PLAN_CUT_SERVERS:
			choose_servers_to_cut(line);
			break;
		case PLAN_CUT_CLIENT:
			line->server = one_in(2) ? 0 : 1 + (int) below((uint64_t) world->ensemble.servers);
			line->lasts = some_while(timeouts(4));
			break;
		case PLAN_STOP_CLIENT:
			line->suspended = one_in(3);
			line->lasts = some_while(timeouts(one_in(8) ? 20 : 2));
			break;
		case PLAN_AMBUSH:
			choose_ambush(line);
			break;
		case PLAN_SPLIT_NETWORK:
			line->side = (int64_t) below(UINT64_C(1) << world->ensemble.servers);
			line->clients = (int64_t) below(UINT64_C(1) << world->clients);
			line->lasts = some_while(timeouts(4));
			break;
		case PLAN_DELETE:
			choose_contender(line);
			break;
		case PLAN_SLOW_NETWORK:
			line->longest = between(SIM_MS(2), timeouts(1) / 4);
			line->lasts = some_while(timeouts(4));
			break;
		case PLAN_SLOW_RESOLVER:
			line->longest = timeouts(1) >> below(6);
			line->one_in = (int64_t) below(4);
			line->lasts = some_while(timeouts(4));
			break;
		case PLAN_REFUSE_MEMORY:
			line->client = (int64_t) below((uint64_t) world->clients);
			line->after = (int64_t) below(20);
			line->count = between(1, 4);
			break;
		case PLAN_CHANGE_TIMEOUT:
			line->timeout = SIM_MS(between(world->ensemble.tick_ms * 2,
										   world->timeout_ms * 3 / 2));
			break;
		default:
			break;
	}
}

static PlanLine *
plan_add_at(PlanWord word, SimTime at)
{
	PlanLine   *line = plan_add(word);

	line->at = at;
	return line;
}

/* Permissions for a lock are not there, for a short time. */
static void
choose_denial(PlanLine *line)
{
	choose_permissions(line, 0);
	line->lasts = some_while(SIM_SECONDS(10));
}

/* One server hangs in calm times; the leader does not. */
static void
choose_hang(SimTime begin, SimTime end)
{
	PlanLine   *line = plan_add(PLAN_HANG_SERVER);

	line->at = between(begin, end);
	line->server = 1 + (int) below((uint64_t) world->ensemble.servers);
	line->lasts = between(timeouts(1) / 2, timeouts(2));
}

/*
 * A round: what goes wrong in it, and in calm times, what others do to contenders and
 * whether a server hangs.
 */
void
choose_round(int number, SimTime calming, SimTime rest)
{
	PlanLine   *line = plan_add(PLAN_ROUND);
	SimTime		fault_every;

	chance = chance_named("round %d", number);
	line->busy = SIM_SECONDS(60) << below(6);
	line->keeping = one_in(2);
	fault_every = (timeouts(1) << below(5)) / 4;
	for (SimTime at = fault_every; at < line->busy; at += between(0, 2 * fault_every))
		choose_details(choose_fault(at));
	if (!world->steady)
		return;
	for (SimTime at = line->busy + calming; at < line->busy + rest; at += SIM_SECONDS(1))
	{
		if (one_in(20))
			choose_contender(plan_add_at(PLAN_DELETE, at));
		if (one_in(10))
			choose_contender(plan_add_at(PLAN_REVOKE, at));
		if (one_in(60))
			choose_denial(plan_add_at(PLAN_DENY, at));
	}
	if (world->ensemble.servers > 2 && one_in(2))
		choose_hang(line->busy + calming, line->busy + rest);
}

/*-------------------------------------------------------------------------
 * What clients do
 *-------------------------------------------------------------------------
 */

/* Chooses locks of one kind. */
static int64_t
some_locks(void)
{
	int			most = one_in(6) ? 4 : 1;
	int			count = 0;
	int64_t		locks = 0;

	while (count == 0)
		for (int i = 0; i < world->locks && count < most; i++)
		{
			if (!one_in((uint64_t) world->locks))
				continue;
			if (world->lock[i].permits > 0 && count == 0)
				return INT64_C(1) << i;
			if (world->lock[i].permits > 0)
				continue;
			locks |= INT64_C(1) << i;
			count++;
		}
	return locks;
}

/* The lock delay of all requests that have one. */
static SimTime
lock_delay(void)
{
	Chance		delays = chance_named("lock delay");

	return chance_between(&delays, 1, timeouts(1));
}

static void
choose_acquire(PlanLine *line)
{
	line->locks = some_locks();
	line->shared = one_in(3);
	line->no_wait = one_in(8);
	line->recorded = one_in(4);
	line->delay = one_in(4) ? lock_delay() : 0;
	line->max_hold = one_in(16) ? between(1000, timeouts(2)) : 0;
	line->patience = one_in(3) ? 1 + some_time(SIM_SECONDS(30)) : 0;
	line->hold = some_time(timeouts(6));
	line->commits = (int64_t) below(4);
	line->commit_after = some_time(timeouts(2));
	line->downgraded = one_in(3) ? 1 + some_time(timeouts(2)) : 0;
	line->note_first = one_in(4);
	line->note_last = one_in(4);
	line->released = one_in(3) ? 0 : 1 + some_time(SIM_SECONDS(60));
}

static void
choose_query(PlanLine *line)
{
	line->locks = 1 << below((uint64_t) world->locks);
	line->patience = some_time(SIM_SECONDS(10));
	if (line->word != PLAN_LIST || !one_in(4))
		return;
	line->pick = (int64_t) below(1000);
	line->broken = one_in(2);
	line->revoked = !line->broken;
}

static PlanWord
some_word(void)
{
	static const PlanWord queries[] = {
		PLAN_HEAD, PLAN_TREE, PLAN_RECORD, PLAN_WAITS, PLAN_LIST
	};

	if (one_in(40))
		return PLAN_CLOSE;
	switch (below(16))
	{
		case 0:
		case 1:
			return queries[below(5)];
		case 2:
			return one_in(2) ? PLAN_PUBLISH : PLAN_WITHDRAW;
		case 3:
			return one_in(4) && calm() ? PLAN_CROWD : PLAN_CONNECT;
		default:
			return PLAN_ACQUIRE;
	}
}

/* How long the client thinks about what to do next. */
static SimTime
some_thought(bool is_first)
{
	SimTime		thought = is_first ? some_time(SIM_SECONDS(30)) : 0;

	if (one_in(4))
		thought += some_time(idle);
	if (one_in(16))
		thought += some_time(timeouts(8));
	return thought;
}

PlanLine *
choose_operation(int client, int number, SimTime since)
{
	PlanLine   *line;

	chance = chance_named("operation %d of client %d", number, client);
	line = plan_add(some_word());
	line->client = client;
	line->at = since + some_thought(number == 0);
	if (line->word == PLAN_ACQUIRE)
		choose_acquire(line);
	else if (line->word >= PLAN_LIST && line->word <= PLAN_WAITS)
		choose_query(line);
	else if (line->word == PLAN_CROWD)
		line->hold = some_time(SIM_SECONDS(20));
	else if (line->word == PLAN_CLOSE)
		line->hasty = one_in(8);
	return line;
}
