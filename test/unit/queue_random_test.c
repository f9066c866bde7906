/*-------------------------------------------------------------------------
 *
 * queue_random_test.c
 *	  Test of queue.c: random queues in which the decisions are obeyed.
 *
 * Clients of all kinds queue up below one lock node, wait, hold, cancel,
 * release, upgrade, downgrade and vanish in random order.  They know the queue
 * only from reading it and from the events of what they watch, both of which
 * come late.  They obey queue.c as a lock client does.  Then
 *
 * - no two clients ever hold what excludes each other, whether they got it
 *	 from a list or, by last_ahead, from an event alone (S9, S18, S19, S23, S24),
 *	 be that after a list or, by last_second_watch, after another event;
 * - the first of a queue is always granted, and once all events have arrived
 *	 every contender that may hold does (S53, S54);
 * - clients that hold on until their upgrade succeeds never end up waiting for
 *	 each other, because the last one to join them was told (S25).
 *
 * The ensemble and the clients' habits are simulated, not the code under
 * test.  ZKLOCK_TEST_SEEDS sets how many queues there are.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "queue.h"
#include "random.h"
#include "tap.h"

#define CLIENTS			7
#define CONTENDERS		32
#define STRANGERS		3
#define STEPS			1000
#define DEFAULT_SEEDS	300

typedef enum State
{
	NEW,						/* created, the queue not read yet */
	LISTED,						/* told to wait, no watch set yet */
	WATCHING,
	HELD
} State;

typedef struct Contender
{
	bool		exists;			/* for the ensemble */
	bool		abandoned;		/* by its client, and still to be deleted */
	bool		event;			/* what it watches has changed... */
	bool		deleted;		/* ...and the event says deleted */
	bool		second_watch_event; /* its second watch has fired... */
	bool		second_watch_deleted;
	bool		second_watch_first; /* ...and that event came before the other */
	bool		last_ahead;
	bool		last_second_watch;
	int			client;
	State		state;
	ZkQueueEntry entry;			/* its name is that below */
	char		base[ZK_NAME_SIZE];
	char		name[ZK_NAME_SIZE];
	char		watched[ZK_NAME_SIZE];
	char		second_watch[ZK_NAME_SIZE]; /* empty if there is none */
} Contender;

static Contender contenders[CONTENDERS];
static int32_t counter;			/* the lock node's next number */
static const char *violation;	/* the first thing that went wrong */

/* what has been exercised, over all queues */
static int	grants_by_list;
static int	grants_by_event;
static int	lists_in_advance;
static int	lists_saved;
static int	vain_events;
static int	deadlocks;
static int	upgrades;
static int	downgrades;

static void
violated(const char *what)
{
	if (violation == NULL)
		violation = what;
}

/* Does the contender belong to this client, and is it not abandoned? */
static bool
lives(const Contender *c, int client)
{
	return c->exists && !c->abandoned && c->client == client;
}

static int
count_living(int client)
{
	int			count = 0;

	for (int i = 0; i < CONTENDERS; i++)
		count += lives(&contenders[i], client);
	return count;
}

static Contender *
find_child(const char *name)
{
	for (int i = 0; i < CONTENDERS; i++)
	{
		if (contenders[i].exists && strcmp(contenders[i].name, name) == 0)
			return &contenders[i];
	}
	return NULL;
}

/* Read the queue, in random order as servers list it; returns how many. */
static int
read_queue(ZkQueueEntry *entries)
{
	static const char *const strangers[STRANGERS] =
	{"0", "latch-0000000001", ".x"};
	const char *names[CONTENDERS + STRANGERS];
	int			count = 0;
	int			first = random_below(CONTENDERS);

	for (int i = 0; i < STRANGERS; i++)
		names[count++] = strangers[i];
	for (int i = 0; i < CONTENDERS; i++)
	{
		const Contender *c = &contenders[(first + i * 5) % CONTENDERS];

		if (c->exists)
			names[count++] = c->name;
	}
	return zk_queue_sort(INT64_MAX, names, count, entries, NULL);
}

static void
decide(const Contender *c, const ZkQueueEntry *entries, int count,
	   ZkVerdict *verdict)
{
	const char *own[CONTENDERS];
	int			own_count = 0;

	for (int i = 0; i < CONTENDERS; i++)
	{
		const Contender *other = &contenders[i];

		if (other->exists && other != c && other->client == c->client)
			own[own_count++] = other->base;
	}
	zk_queue_decide(entries, count, c->name, own, own_count, verdict);
}

static bool
holds_shared(int client)
{
	for (int i = 0; i < CONTENDERS; i++)
	{
		if (lives(&contenders[i], client) && contenders[i].state == HELD &&
			contenders[i].entry.mode == ZK_SHARED)
			return true;
	}
	return false;
}

/*
 * Look out for the contender before the watched one, sometimes too late.  That one
 * may be gone then, which says nothing.
 */
static void
look_out(Contender *c, const ZkQueueEntry *entries, const ZkVerdict *verdict)
{
	c->second_watch[0] = '\0';
	c->second_watch_event = false;
	c->last_second_watch = verdict->last_second_watch;
	if (verdict->second_watch >= 0 && random_below(4) > 0)
		snprintf(c->second_watch, sizeof(c->second_watch), "%s",
				 entries[verdict->second_watch].name);
}

/*
 * Read the queue for a contender that is not granted yet, and obey.  Who waits
 * for the same one as before keeps its watch.
 */
static void
look(Contender *c)
{
	ZkQueueEntry entries[CONTENDERS + STRANGERS];
	ZkVerdict	verdict;

	decide(c, entries, read_queue(entries), &verdict);
	if (verdict.decision == ZK_DECIDE_GRANTED)
	{
		c->state = HELD;
		grants_by_list++;
		return;
	}
	if (verdict.decision != ZK_DECIDE_WAIT)
	{
		violated("a contender in the list was refused");
		return;
	}

	look_out(c, entries, &verdict);
	c->last_ahead = verdict.last_ahead;
	if (c->state == WATCHING &&
		strcmp(c->watched, entries[verdict.watch].name) == 0)
		return;
	c->state = LISTED;
	c->event = false;
	snprintf(c->watched, sizeof(c->watched), "%s", entries[verdict.watch].name);
	if (verdict.deadlock >= 0 && holds_shared(c->client))
	{
		c->abandoned = true;
		deadlocks++;
	}
}

/* Is there something for the client to do about this contender? */
static bool
is_pending(const Contender *c)
{
	return c->exists && !c->abandoned &&
		(c->state == NEW || c->state == LISTED ||
		 (c->state == WATCHING && (c->event || c->second_watch_event)));
}

/*
 * The event of the second_watch has arrived.
 */
static void
second_watch_gone(Contender *c)
{
	c->second_watch_event = false;
	c->second_watch[0] = '\0';
	if (c->second_watch_deleted && c->last_second_watch)
	{
		c->last_ahead = true;
		lists_saved++;
	}
	else
	{
		look(c);
		lists_in_advance++;
	}
}

static void
advance(Contender *c)
{
	if (c->state == NEW)
		look(c);
	else if (c->state == LISTED)
	{
		/* nothing there to watch: the absence says nothing, so read again */
		if (!find_child(c->watched))
			look(c);
		else
		{
			c->state = WATCHING;
			c->second_watch_event = c->second_watch[0] != '\0' && !find_child(c->second_watch);
			c->second_watch_deleted = false;
		}
	}
	else if (c->second_watch_event && (!c->event || c->second_watch_first))
		second_watch_gone(c);
	else if (c->deleted && c->last_ahead)
	{
		c->state = HELD;
		grants_by_event++;
	}
	else
	{
		vain_events++;
		c->state = LISTED;		/* its watch is used up */
		look(c);
	}
}

/*
 * If the contender watches that name, or looks out for it, there is an event for it.
 */
static void
notify(Contender *waiter, const char *name, bool deleted_event)
{
	if (!waiter->exists || waiter->state != WATCHING)
		return;
	if (!waiter->event && strcmp(waiter->watched, name) == 0)
	{
		waiter->event = true;
		waiter->deleted = deleted_event;
		waiter->second_watch_first = waiter->second_watch_event;
	}
	else if (!waiter->second_watch_event && strcmp(waiter->second_watch, name) == 0)
	{
		waiter->second_watch_event = true;
		waiter->second_watch_deleted = deleted_event;
		waiter->second_watch_first = !waiter->event;
	}
}

/* Delete a child, and notify those that watch it. */
static void
remove_child(Contender *c, bool deleted_event)
{
	c->exists = false;
	for (int i = 0; i < CONTENDERS; i++)
		notify(&contenders[i], c->name, deleted_event);
}

static Contender *
free_slot(void)
{
	for (int i = 0; i < CONTENDERS; i++)
	{
		if (!contenders[i].exists)
			return &contenders[i];
	}
	return NULL;
}

/*
 * Create a child in the manner of one of the clients' libraries.  number is
 * the one to take over, or -1 for the next.
 */
static Contender *
create_child(int client, ZkMode mode, ZkZnodeStyle style, int32_t number)
{
	Contender  *c = free_slot();
	char		uuid[ZK_UUID_SIZE];
	char		base[ZK_NAME_SIZE];

	if (c == NULL)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->exists = true;
	c->client = client;
	c->state = NEW;

	snprintf(uuid, sizeof(uuid), "%08x-%04x-%04x-%04x-%04x%08x",
			 (unsigned) (next_random() >> 32), (unsigned) (next_random() >> 48),
			 (unsigned) (next_random() >> 48), (unsigned) (next_random() >> 48),
			 (unsigned) (next_random() >> 48), (unsigned) (next_random() >> 32));
	zk_queue_base_name(base, sizeof(base), style, mode, 0, uuid);
	if (mode == ZK_EXCLUSIVE && style == ZK_STYLE_CURATOR && random_below(4) == 0)
		snprintf(base, sizeof(base), "x-%s-", uuid);
	strcpy(c->base, base);
	snprintf(c->name, sizeof(c->name), "%.64s%010d", base,
			 number < 0 ? counter++ : number);
	if (!zk_queue_parse(c->name, &c->entry))
		violated("a client's name was not recognised");
	return c;
}

static ZkZnodeStyle
random_style(void)
{
	static const ZkZnodeStyle styles[] =
	{ZK_STYLE_CURATOR, ZK_STYLE_CURATOR_RW, ZK_STYLE_KAZOO};

	return styles[random_below(3)];
}

/* ---------- what clients do ---------- */

/* A client wants the lock, or more of it than it holds. */
static void
request(int client)
{
	int			living = count_living(client);

	if (living == 0)
		create_child(client, random_below(2) ? ZK_SHARED : ZK_EXCLUSIVE,
					 random_style(), -1);
	else if (living == 1 && holds_shared(client) && random_below(8) == 0)
	{
		if (create_child(client, ZK_EXCLUSIVE, random_style(), -1))
			upgrades++;
	}
}

/*
 * A client turns its exclusive lock into a shared one with the same number.
 * Our client leaves a trace for the watchers; Curator's does not, and may continue
 * to hold both.
 */
static void
downgrade(Contender *exclusive)
{
	Contender  *shared;

	if (count_living(exclusive->client) != 1)
		return;
	shared = create_child(exclusive->client, ZK_SHARED,
						  strstr(exclusive->name, "__lock__") ?
						  ZK_STYLE_KAZOO : ZK_STYLE_CURATOR,
						  (int32_t) exclusive->entry.sequence);
	if (shared == NULL)
		return;
	shared->state = HELD;
	downgrades++;
	if (strstr(exclusive->name, "__WRIT__") == NULL)
		remove_child(exclusive, false);
	else if (random_below(2))
		remove_child(exclusive, true);
}

/* A client releases a lock or gives up a wait, perhaps slowly. */
static void
finish(Contender *c)
{
	if (c->abandoned || random_below(2))
		remove_child(c, true);
	else
		c->abandoned = true;
}

/* A client's ZooKeeper session ends, and with it all that it had. */
static void
vanish(int client)
{
	for (int i = 0; i < CONTENDERS; i++)
	{
		if (contenders[i].exists && contenders[i].client == client)
			remove_child(&contenders[i], true);
	}
}

static bool
exists(const Contender *c)
{
	return c->exists;
}

static bool
can_downgrade(const Contender *c)
{
	return c->exists && !c->abandoned && c->state == HELD &&
		c->entry.mode == ZK_EXCLUSIVE;
}

/* A random contender of a kind, or NULL if there is none. */
static Contender *
pick(bool (*is_suitable) (const Contender *))
{
	int			first = random_below(CONTENDERS);

	for (int i = 0; i < CONTENDERS; i++)
	{
		Contender  *c = &contenders[(first + i) % CONTENDERS];

		if (is_suitable(c))
			return c;
	}
	return NULL;
}

static void
random_step(void)
{
	int			what = random_below(100);
	Contender  *c;

	if (what < 1)
		vanish(random_below(CLIENTS));
	else if (what < 30)
		request(random_below(CLIENTS));
	else if (what < 50)
	{
		if ((c = pick(exists)) != NULL)
			finish(c);
	}
	else if (what < 58)
	{
		if ((c = pick(can_downgrade)) != NULL)
			downgrade(c);
	}
	else if ((c = pick(is_pending)) != NULL)
		advance(c);
}

/* ---------- what must hold ---------- */

static void
check_exclusion(void)
{
	for (int i = 0; i < CONTENDERS; i++)
	{
		const Contender *a = &contenders[i];

		if (!a->exists || a->state != HELD)
			continue;
		for (int j = 0; j < i; j++)
		{
			const Contender *b = &contenders[j];

			if (b->exists && b->state == HELD && a->client != b->client &&
				(a->entry.mode == ZK_EXCLUSIVE || b->entry.mode == ZK_EXCLUSIVE))
				violated("two clients hold what excludes each other");
		}
	}
}

/*
 * The queue, read again, agrees with the holders, and lets the first pass.  If
 * settled, it also agrees with the waiters, and none of them waits for a deleted
 * contender.
 */
static void
check_verdicts(bool settled)
{
	ZkQueueEntry entries[CONTENDERS + STRANGERS];
	int			count = read_queue(entries);

	for (int i = 0; i < count; i++)
	{
		const Contender *c = find_child(entries[i].name);
		ZkVerdict	verdict;

		decide(c, entries, count, &verdict);
		if (i == 0 && verdict.decision != ZK_DECIDE_GRANTED)
			violated("the first of the queue was not granted");
		if (c->state == HELD && verdict.decision != ZK_DECIDE_GRANTED)
			violated("a holder was told to wait");
		if (settled && c->state != HELD && verdict.decision == ZK_DECIDE_GRANTED)
			violated("a waiter was not woken");
		if (settled && c->state != HELD && find_child(c->watched) == NULL)
			violated("a waiter watches what is gone");
	}
}

/* Let all events arrive and all that is abandoned be deleted. */
static void
settle(void)
{
	bool		busy = true;

	while (busy && violation == NULL)
	{
		int			first = random_below(CONTENDERS);

		busy = false;
		for (int i = 0; i < CONTENDERS; i++)
		{
			Contender  *c = &contenders[(first + i * 7) % CONTENDERS];

			if (is_pending(c))
				advance(c);
			else if (c->exists && c->abandoned)
				remove_child(c, true);
			else
				continue;
			busy = true;
			check_exclusion();
		}
	}
	check_verdicts(true);
}

/* Has the client all that it asked for, and something? */
static bool
is_satisfied(int client)
{
	bool		holds = false;

	for (int i = 0; i < CONTENDERS; i++)
	{
		if (!lives(&contenders[i], client))
			continue;
		if (contenders[i].state != HELD)
			return false;
		holds = true;
	}
	return holds;
}

/*
 * Let the clients finish one by one, each only once it has all it asked for.
 */
static void
drain(void)
{
	settle();
	while (violation == NULL)
	{
		int			client = random_below(CLIENTS);
		int			tried = 0;

		while (tried < CLIENTS && !is_satisfied(client))
		{
			client = (client + 1) % CLIENTS;
			tried++;
		}
		if (tried == CLIENTS)
			break;
		vanish(client);
		settle();
	}
	for (int i = 0; i < CONTENDERS; i++)
	{
		if (contenders[i].exists)
			violated("clients wait for each other");
	}
}

static void
run_queue(int seed)
{
	seed_random(seed);
	memset(contenders, 0, sizeof(contenders));
	counter = random_below(2) ? 0 : random_below(2000000000);
	violation = NULL;

	for (int step = 0; step < STEPS && violation == NULL; step++)
	{
		random_step();
		check_exclusion();
		check_verdicts(false);
		if (step % 100 == 99)
			settle();
	}
	drain();
}

int
main(void)
{
	const char *setting = getenv("ZKLOCK_TEST_SEEDS");
	int			seeds = setting ? atoi(setting) : DEFAULT_SEEDS;
	int			failed = 0;

	for (int seed = 1; seed <= seeds; seed++)
	{
		run_queue(seed);
		if (violation && failed++ < 10)
			diag("seed %d: %s", seed, violation);
	}

	is_int(failed, 0, "S9, S18, S19, S23, S24, S25, S53, S54: %d random queues", seeds);
	ok(grants_by_list > seeds, "%d grants by a list", grants_by_list);
	ok(grants_by_event > seeds, "%d grants by an event", grants_by_event);
	ok(lists_in_advance > seeds, "%d lists before the predecessor went",
	   lists_in_advance);
	ok(lists_saved > seeds, "%d such lists that were not needed", lists_saved);
	ok(vain_events > seeds, "%d events that were no grant", vain_events);
	ok(upgrades > seeds, "%d upgrades", upgrades);
	ok(deadlocks > 0, "%d deadlocks of upgrades", deadlocks);
	ok(downgrades > seeds, "%d downgrades", downgrades);
	return done_testing();
}
