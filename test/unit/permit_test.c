/*-------------------------------------------------------------------------
 *
 * permit_test.c
 *	  Tests of queue.c: the queue of a semaphore.
 *
 * First the decisions about given lists.  Then clients queue up, hold, give up and
 * vanish in random order, in queues that are obeyed as watch.c does.  Each sees
 * the ensemble as it was some time ago, never going back: what it reads is old,
 * and what it watches fires late.  Then
 *
 * - never more clients hold a permit than there are permits;
 * - when all events have arrived, the first of the queue hold one, as many as
 *	 there are permits, and no others;
 * - a release has two clients read the queue, one that gives up only one.
 *
 * The ensemble is simulated, and so is watch.c's handling of a verdict.
 * ZKLOCK_TEST_SEEDS sets how many queues there are.
 *
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <stdlib.h>

#include "granted.h"
#include "queue.h"
#include "random.h"
#include "tap.h"
#include "zk_lock.h"
#include "zk_check.h"

#define lengthof(array) ((int) (sizeof(array) / sizeof((array)[0])))

#define ME		"_c_77777777-0000-4000-8000-000000000000-"
#define ALICE	"_c_ffffffff-0000-4000-8000-000000000000-"
#define BOB		"_c_aaaaaaaa-0000-4000-8000-000000000000-"
#define CAROL	"_c_11111111-0000-4000-8000-000000000000-"
#define HEX		"0123456789abcdef0123456789abcdef"

#define MAX_LIST		8
#define CONTENDERS		400		/* ever, in one random queue */
#define QUEUE_MAX		12		/* at a time */
#define SETS_MAX		4
#define STEPS			1500
#define DEFAULT_SEEDS	300

/* ---------- names ---------- */

static const struct
{
	const char *what;
	const char *name;
	int64_t		sequence;
	int			permits;		/* 0: this is no contender for a permit */
}			names[] =

{
	{"one permit", ALICE "sem1-0000000007", 7, 1},
	{"as many as can be", ALICE "sem1000-2147483647", INT32_MAX, 1000},
	{"nine digits and a sign", ALICE "sem12--000000005", -5, 12},
	{"ten digits and a sign", ALICE "sem12--2147483648", INT32_MIN, 12},
	{"no permits", ALICE "sem0-0000000001", 0, 0},
	{"no number of permits", ALICE "sem-0000000001", 0, 0},
	{"too many", ALICE "sem1001-0000000001", 0, 0},
	{"far too many", ALICE "sem99999999999999999999-0000000001", 0, 0},
	{"a leading zero", ALICE "sem01-0000000001", 0, 0},
	{"a sign", ALICE "sem-1-0000000001", 0, 0},
	{"no digits", ALICE "semx-0000000001", 0, 0},
	{"no dash behind it", ALICE "sem10000000001", 0, 0},
	{"two digits, and no dash behind them", ALICE "sem120000000001", 0, 0},
	{"no uuid", "_c_-sem1-0000000001", 0, 0},
	{"a short uuid", "_c_ffffffff-0000-4000-8000-00000000000-sem1-0000000001", 0, 0},
	{"not our beginning", "xc_ffffffff-0000-4000-8000-000000000000-sem1-0000000001", 0, 0},
	{"no number", ALICE "sem1-", 0, 0},
	{"a short number", ALICE "sem1-000000001", 0, 0}
};

static void
test_names(void)
{
	static const char *const uuid = "01234567-89ab-cdef-0123-456789abcdef";
	ZkQueueEntry entry;

	for (int i = 0; i < lengthof(names); i++)
	{
		bool		found = zk_queue_parse(names[i].name, &entry);

		is_int(found, names[i].permits > 0, "S131: recognised: %s", names[i].what);
		if (!found || names[i].permits == 0)
			continue;
		is_int(entry.mode, ZK_PERMIT, "mode: %s", names[i].what);
		is_int(entry.permits, names[i].permits, "permits: %s", names[i].what);
		is_int(entry.sequence, names[i].sequence, "number: %s", names[i].what);
		ok(!entry.may_downgrade, "no downgrade: %s", names[i].what);
	}
	for (ZkZnodeStyle style = ZK_STYLE_CURATOR; style <= ZK_STYLE_KAZOO; style++)
	{
		char		name[ZK_NAME_SIZE];

		int			len = zk_queue_base_name(name, sizeof(name), style,
											 ZK_PERMIT, ZK_MAX_PERMITS, uuid);

		is_int(len, strlen(name), "the longest base name fits");
		is_str(name, "_c_01234567-89ab-cdef-0123-456789abcdef-sem1000-",
			   "in every style");
		strcat(name, "-2147483648");
		ok(zk_queue_parse(name, &entry) && entry.permits == ZK_MAX_PERMITS,
		   "with any number it is recognised");
	}
	ok(zk_queue_parse(ALICE "lock-0000000001", &entry) && entry.permits == 0,
	   "a lock has no permits");
	ok(zk_path_check("/a/" ALICE "sem3-0000000001", 2 + strlen(ALICE) + 16) != NULL,
	   "S131: a path has no component of such a name");
}

/* ---------- decisions ---------- */

static const struct
{
	const char *what;
	const char *names[MAX_LIST];	/* in queue order; ours begins with ME */
	const char *own;			/* base name of another one of our client's */
	ZkDecision	decision;
	int			watch;
	int			ahead;
	bool		first_waiter;
	bool		announce;
	bool		own_ahead;
}			decisions[] =

{
	{"alone", {ME "sem1-0000000001"}, NULL, ZK_DECIDE_GRANTED, -1, 0, false, false, false},
	{"one of two", {ALICE "sem2-0000000001", ME "sem2-0000000002"}, NULL,
	ZK_DECIDE_GRANTED, -1, 0, false, false, false},
	{"granted, with others behind", {ALICE "sem2-0000000001", ME "sem2-0000000002", BOB "sem2-0000000003"}, NULL,
	ZK_DECIDE_GRANTED, -1, 0, false, true, false},
	{"the first waiter watches all", {ALICE "sem2-0000000001", BOB "sem2-0000000002", ME "sem2-0000000003"}, NULL,
	ZK_DECIDE_WAIT, 1, 1, true, false, false},
	{"the second watches the first", {ALICE "sem1-0000000001", BOB "sem1-0000000002", ME "sem1-0000000003"}, NULL,
	ZK_DECIDE_WAIT, 1, 2, false, false, false},
	{"a mutex's first waiter", {ALICE "sem1-0000000001", ME "sem1-0000000003"}, NULL,
	ZK_DECIDE_WAIT, 0, 1, true, false, false},
	{"not in the list", {ALICE "sem1-0000000001"}, NULL, ZK_DECIDE_MISSING, -1, 0, false, false, false},
	{"a stranger with the same number", {ALICE "sem3-0000000001", ME "sem3-0000000001"}, NULL,
	ZK_DECIDE_TIED, 1, 0, false, false, false},
	{"one of the last numbers", {ME "sem3-2147483000"}, NULL, ZK_DECIDE_SEQUENCE, -1, 0, false, false, false},
	{"another number of permits ahead", {ALICE "sem3-0000000001", ME "sem4-0000000002"}, NULL,
	ZK_DECIDE_MIXED, 0, 0, false, false, false},
	{"another number of permits behind", {ME "sem4-0000000002", ALICE "sem3-0000000003"}, NULL,
	ZK_DECIDE_GRANTED, -1, 0, false, true, false},
	{"a lock ahead", {ALICE "lock-0000000001", ME "sem4-0000000002"}, NULL,
	ZK_DECIDE_MIXED, 0, 0, false, false, false},
	{"a shared lock ahead", {ALICE "__READ__0000000001", ME "sem4-0000000002"}, NULL,
	ZK_DECIDE_MIXED, 0, 0, false, false, false},
	{"a stranger's lock between", {ALICE "sem4-0000000001", HEX "__lock__0000000002", ME "sem4-0000000003"}, NULL,
	ZK_DECIDE_MIXED, 1, 0, false, false, false},
	{"a lock behind", {ME "sem4-0000000002", ALICE "lock-0000000003"}, NULL,
	ZK_DECIDE_GRANTED, -1, 0, false, true, false},
	{"a semaphore ahead of a lock", {ALICE "sem4-0000000001", ME "lock-0000000002"}, NULL,
	ZK_DECIDE_MIXED, 0, 0, false, false, false},
	{"a semaphore ahead of a reader", {ALICE "sem4-0000000001", ME "__READ__0000000002"}, NULL,
	ZK_DECIDE_MIXED, 0, 0, false, false, false},
	{"a semaphore behind a lock", {ME "lock-0000000002", ALICE "sem4-0000000003"}, NULL,
	ZK_DECIDE_GRANTED, -1, 0, false, false, false},
	{"our own lock ahead, on its way out", {BOB "lock-0000000001", ME "sem1-0000000002"}, BOB "lock-",
	ZK_DECIDE_GRANTED, -1, 0, false, false, false},
	{"our own permit of another number ahead, on its way out",
		{BOB "sem2-0000000001", ME "sem1-0000000002"}, BOB "sem2-",
	ZK_DECIDE_GRANTED, -1, 0, false, false, false},
	{"our own permit ahead counts", {BOB "sem1-0000000001", ME "sem1-0000000002"}, BOB "sem1-",
	ZK_DECIDE_WAIT, 0, 1, true, false, true},
	{"our own and another's, which is enough", {ALICE "sem2-0000000001", BOB "sem2-0000000002", ME "sem2-0000000003"}, BOB "sem2-",
	ZK_DECIDE_WAIT, 1, 1, true, false, true},
	{"our own, and another's that gets the permit", {BOB "sem1-0000000001", ALICE "sem1-0000000002", ME "sem1-0000000003"}, BOB "sem1-",
	ZK_DECIDE_WAIT, 1, 2, false, false, false},
	{"our own permit ahead of a lock does not", {BOB "sem1-0000000001", ME "lock-0000000002"}, BOB "sem1-",
	ZK_DECIDE_GRANTED, -1, 0, false, false, false}
};

static void
test_decisions(void)
{
	for (int i = 0; i < lengthof(decisions); i++)
	{
		ZkQueueEntry entries[MAX_LIST];
		ZkVerdict	verdict;
		const char *self = ME "none";
		const char *what = decisions[i].what;
		int			count = 0;

		for (; count < MAX_LIST && decisions[i].names[count] != NULL; count++)
			if (strncmp(decisions[i].names[count], ME, strlen(ME)) == 0)
				self = decisions[i].names[count];
		is_int(zk_queue_sort(INT64_MAX, decisions[i].names, count, entries, NULL), count,
			   "all recognised: %s", what);
		zk_queue_decide(entries, count, self, &decisions[i].own,
						decisions[i].own != NULL, &verdict);
		is_int(verdict.decision, decisions[i].decision, "S131: decision: %s", what);
		is_int(verdict.watch, decisions[i].watch, "contender to watch: %s", what);
		is_int(verdict.ahead, decisions[i].ahead, "how many ahead: %s", what);
		is_int(verdict.first_waiter, decisions[i].first_waiter,
			   "first waiter: %s", what);
		is_int(verdict.announce, decisions[i].announce, "announce: %s", what);
		is_int(verdict.own_ahead, decisions[i].own_ahead,
			   "S288: only our own in the way: %s", what);
		ok(!verdict.last_ahead && verdict.deadlock == -1,
		   "nothing that is for locks only: %s", what);
	}
}

/* ---------- random queues ---------- */

typedef enum State
{
	LIST,						/* the queue is to be read */
	WATCH,						/* to_watch are to be watched */
	WAIT,
	HELD
} State;

/* A contender and its client; points in time are numbers of transactions. */
typedef struct Contender
{
	int			created;
	int			deleted;		/* INT_MAX while it exists */
	int			sets[SETS_MAX]; /* when its data was changed */
	int			set_count;
	State		state;
	bool		announce;		/* is to be sent */
	int			view;			/* its client sees what was then */
	bool		watch_all;
	int			version;		/* seen of nearest */
	int			nearest;		/* right ahead of it */
	int			watched[QUEUE_MAX]; /* contenders... */
	int			since[QUEUE_MAX];	/* ... and from when on; -1 not yet */
	int			watch_count;
	char		name[ZK_NAME_SIZE];
} Contender;

static Contender contenders[CONTENDERS];
static int	used;				/* contenders ever, by number */
static int	now;				/* transactions so far */
static int	permits;
static int	lists;				/* reads of the queue so far */
static int	max_lists[2];		/* after a release, after one has given up */
static int	announced;
static int	vain_lists;			/* that were as the one before */
static bool disturbed;			/* strangers write into contenders */
static const char *violation;

static void
violated(const char *what)
{
	if (violation == NULL)
		violation = what;
}

static bool
lives(const Contender *c)
{
	return c->deleted == INT_MAX;
}

static int
count_living(State least)
{
	int			count = 0;

	for (int i = 0; i < used; i++)
		count += lives(&contenders[i]) && contenders[i].state >= least;
	return count;
}

static int
version_at(const Contender *c, int time)
{
	int			version = 0;

	for (int i = 0; i < c->set_count; i++)
		version += c->sets[i] <= time;
	return version;
}

static void
create(void)
{
	Contender  *c = &contenders[used];

	memset(c, 0, sizeof(*c));
	c->created = c->view = ++now;
	c->deleted = INT_MAX;
	c->nearest = -1;
	snprintf(c->name, sizeof(c->name),
			 "_c_%08x-0000-4000-8000-000000000000-sem%d-%010d",
			 (unsigned) (next_random() >> 32), permits, used++);
}

/* The queue as it is at some time. */
static int
queue_at(int time, ZkQueueEntry *entries)
{
	const char *list[CONTENDERS];
	int			count = 0;

	for (int i = 0; i < used; i++)
		if (contenders[i].created <= time && contenders[i].deleted > time)
			list[count++] = contenders[i].name;
	return zk_queue_sort(INT64_MAX, list, count, entries, NULL);
}

/* The client gets to see something newer, maybe. */
static void
see(Contender *c)
{
	if (random_below(2))
		c->view += random_below(now - c->view + 1);
}

/* Note the contenders to watch: entries from the nearest on, as watch.c does. */
static void
plan_watches(Contender *c, const ZkQueueEntry *entries, const ZkVerdict *verdict)
{
	int			nearest = (int) entries[verdict->watch].sequence;

	if (nearest != c->nearest)
		c->version = 0;
	c->nearest = nearest;
	c->watch_all = verdict->first_waiter;
	c->watch_count = 0;
	for (int i = verdict->watch; i >= (c->watch_all ? 0 : verdict->watch); i--)
	{
		c->watched[c->watch_count] = (int) entries[i].sequence;
		c->since[c->watch_count++] = -1;
	}
	c->state = WATCH;
}

static void
read_queue(Contender *c)
{
	ZkQueueEntry entries[CONTENDERS];
	ZkVerdict	verdict;
	int			count;

	see(c);
	lists++;
	count = queue_at(c->view, entries);
	zk_queue_decide(entries, count, c->name, NULL, 0, &verdict);
	if (verdict.decision == ZK_DECIDE_WAIT)
		plan_watches(c, entries, &verdict);
	else if (verdict.decision != ZK_DECIDE_GRANTED)
		violated("a contender in the list was refused");
	else
	{
		c->state = HELD;
		c->announce = verdict.announce;
	}
}

/* Set the next watch. */
static void
watch_next(Contender *c)
{
	int			i = 0;
	const Contender *other;

	while (c->since[i] >= 0)
		i++;
	see(c);
	other = &contenders[c->watched[i]];
	c->since[i] = c->view;
	if (other->deleted <= c->view)
		c->state = LIST;
	else if (!c->watch_all && version_at(other, c->view) != c->version)
	{
		c->version = version_at(other, c->view);
		c->state = LIST;
		vain_lists++;
	}
	else if (i == c->watch_count - 1)
		c->state = WAIT;
}

/* Has a watch fired, as far as the client has heard? */
static bool
has_event(const Contender *c)
{
	for (int i = 0; i < c->watch_count; i++)
	{
		const Contender *other = &contenders[c->watched[i]];

		if (c->since[i] >= 0 &&
			(other->deleted <= c->view ||
			 version_at(other, c->view) != version_at(other, c->since[i])))
			return true;
	}
	return false;
}

static void
change(Contender *c)
{
	if (c->set_count < SETS_MAX)
		c->sets[c->set_count++] = ++now;
}

/* Do one thing for a client.  Returns false if there is nothing to do. */
static bool
advance(Contender *c, bool settling)
{
	if (!lives(c))
		return false;
	if (c->announce && random_below(2))
	{
		change(c);
		announced++;
		c->announce = false;
	}
	else if (c->state == LIST)
		read_queue(c);
	else if (c->state == WATCH)
		watch_next(c);
	else if (c->state == WAIT && has_event(c))
		c->state = LIST;
	else if (c->state == WAIT && c->view < now)
		c->view += settling ? now - c->view : random_below(now - c->view + 1);
	else
		return c->announce;
	return true;
}

static void
check_held(void)
{
	if (count_living(HELD) > permits)
		violated("more hold a permit than there are");
}

/* Let all events arrive; then the first hold, and no others. */
static void
settle(void)
{
	bool		busy = true;
	int			place = 0;

	while (busy && violation == NULL)
	{
		int			first = random_below(used + 1);

		busy = false;
		for (int i = 0; i < used; i++)
			busy |= advance(&contenders[(first + i) % used], true);
		check_held();
	}
	for (int i = 0; i < used; i++)
	{
		if (!lives(&contenders[i]))
			continue;
		if (place++ < permits)
		{
			if (contenders[i].state != HELD)
				violated("a permit is free, and the first waiter was not woken");
		}
		else if (contenders[i].state != WAIT)
			violated("a contender has overtaken others");
	}
}

/* A random contender that exists, or NULL. */
static Contender *
pick(void)
{
	int			first = random_below(used + 1);

	for (int i = 0; i < used; i++)
		if (lives(&contenders[(first + i) % used]))
			return &contenders[(first + i) % used];
	return NULL;
}

/* One goes, when all is quiet: how many read the queue? */
static void
count_woken(void)
{
	Contender  *c;
	int			before;

	settle();
	c = pick();
	if (c == NULL || violation != NULL)
		return;
	c->deleted = ++now;
	before = lists;
	settle();
	if (!disturbed && lists - before > max_lists[c->state != HELD])
		max_lists[c->state != HELD] = lists - before;
}

static void
run_queue(int seed)
{
	seed_random(seed);
	used = now = 0;
	permits = 1 + random_below(5);
	disturbed = seed % 2;
	violation = NULL;
	for (int step = 0; step < STEPS && violation == NULL; step++)
	{
		int			what = random_below(100);
		Contender  *c = pick();

		if (what < 12 && used < CONTENDERS && count_living(LIST) < QUEUE_MAX)
			create();
		else if (c != NULL && what < 20)
			c->deleted = ++now;
		else if (c != NULL && what < 21 && disturbed)
			change(c);			/* another client writes into it */
		else if (c != NULL)
			(void) advance(c, false);
		check_held();
		if (step % 100 == 99)
			count_woken();
	}
	settle();
}

static void
test_random(void)
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
	is_int(failed, 0, "S131: %d random queues", seeds);
	is_int(max_lists[0], 2, "S131: after a release at most two read the queue");
	is_int(max_lists[1], 1, "S131: after a waiter gives up one does");
	ok(announced > seeds, "%d announcements", announced);
	ok(vain_lists > 0, "%d times a change had come before the watch", vain_lists);
}

/* How many hold is what comes of asking for each, in short random queues. */
static void
test_count_granted(void)
{
	int			wrong = 0;

	seed_random(1);
	for (int round = 0; round < 20000; round++)
	{
		ZkQueueEntry entries[MAX_LIST] = {0};
		int64_t		sessions[MAX_LIST];
		bool		granted[MAX_LIST];
		int			count = random_below(MAX_LIST + 1);
		int			total = 0;

		for (int i = 0; i < count; i++)
		{
			entries[i].sequence = (i > 0 ? entries[i - 1].sequence : 0) +
				random_below(3);
			entries[i].mode = random_below(8) ? ZK_PERMIT : random_below(2);
			entries[i].permits = entries[i].mode != ZK_PERMIT ? 0 :
				random_below(12) ? 3 : 4;
			sessions[i] = random_below(3);
		}
		for (int i = 0; i < count; i++)
			total += is_granted(entries, sessions, i);
		wrong += zk_queue_all_granted(entries, sessions, count, granted) != total;
		for (int i = 0; i < count; i++)
			wrong += granted[i] != is_granted(entries, sessions, i);
	}
	is_int(wrong, 0, "granted: which and how many, of a queue at a time");
}

int
main(void)
{
	test_names();
	test_decisions();
	test_random();
	test_count_granted();
	return done_testing();
}
