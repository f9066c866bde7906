/*-------------------------------------------------------------------------
 *
 * nameset_test.c
 *	  Tests of nameset.c, and of the cost of a large queue: in proportion to its length.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>
#include <time.h>

#include "nameset.h"
#include "queue.h"
#include "tap.h"

/* A size at which a comparison of each with each takes a quarter of a second. */
#define MANY	20000

#define TRIES	5

/* Seconds of processor time that a measurement takes at least. */
#define MEASURED	0.02

static ZkQueueEntry entries[4 * MANY];
static int64_t sessions[4 * MANY];
static bool granted[4 * MANY];

/* Processor time of this process, in seconds. */
static double
used_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

/* Names that differ at their ends, as those of lock nodes below one may. */
static size_t
make_name(char *name, size_t size, int number)
{
	return (size_t) snprintf(name, size, "/zklock/application/locks/%08d", number);
}

static void
test_set(void)
{
	NameSet		set = {0};
	const char *names[3] = {NULL};

	ok(!zk_nameset_has(&set, "a", 1) && zk_nameset_some(&set, names, 3) == 0,
	   "an empty set has nothing");
	ok(zk_nameset_add(&set, "ab", 2) && zk_nameset_add(&set, "ab", 2) &&
	   zk_nameset_add(&set, "b", 1), "names are added, one of them twice");
	ok(zk_nameset_has(&set, "abc", 2) && zk_nameset_has(&set, "b", 1),
	   "they are there, as far as their length goes");
	ok(!zk_nameset_has(&set, "a", 1) && !zk_nameset_has(&set, "ba", 2) &&
	   !zk_nameset_has(&set, "", 0), "others are not");
	ok(zk_nameset_some(&set, names, 3) == 2 && strlen(names[0]) + strlen(names[1]) == 3,
	   "all can be had");
	ok(zk_nameset_some(&set, names, 1) == 1, "or some");
	zk_nameset_free(&set);
	ok(!zk_nameset_has(&set, "ab", 2), "none is after it was made empty");
	ok(zk_nameset_add(&set, "", 0) && zk_nameset_has(&set, "x", 0),
	   "the empty name is one");
	zk_nameset_free(&set);
}

/* Add so many names, and look for each: what a walk does with published waits. */
static void
fill_set(int count)
{
	NameSet		set = {0};
	char		name[64];
	int			found = 0;

	for (int i = 0; i < count; i++)
	{
		size_t		len = make_name(name, sizeof(name), i);

		found += zk_nameset_has(&set, name, len);
		zk_nameset_add(&set, name, len);
	}
	for (int i = 0; i < count; i++)
		found += zk_nameset_has(&set, name, make_name(name, sizeof(name), i));
	if (found != count)
		diag("%d names were found, not %d", found, count);
	zk_nameset_free(&set);
}

/* Judge a queue of so many sharers of a lock. */
static void
judge_queue(int count)
{
	for (int i = 0; i < count; i++)
	{
		entries[i].sequence = i;
		entries[i].mode = ZK_SHARED;
		sessions[i] = i + 1;
	}
	if (zk_queue_all_granted(entries, sessions, count, granted) != count)
		diag("not all hold the lock");
}

/* Returns how long the work takes, in seconds; it is repeated, as clocks may be coarse. */
static double
time_of(void (*work) (int count), int count)
{
	double		start = used_time();
	double		used;
	int			times = 0;

	do
	{
		work(count);
		times++;
		used = used_time() - start;
	} while (used < MEASURED);
	return used / times;
}

/*
 * Four times as much takes less than ten times as long, where it would take sixteen
 * times if each was compared with each.
 */
static void
test_scaling(void (*work) (int count), const char *what)
{
	double		best = 100;

	for (int i = 0; i < TRIES && best >= 10; i++)
	{
		double		once = time_of(work, MANY);
		double		ratio = time_of(work, 4 * MANY) / once;

		if (ratio < best)
			best = ratio;
	}
	ok(best < 10, "S254: %s: four times as many take %.1f times as long", what, best);
}

int
main(void)
{
	test_set();
	test_scaling(fill_set, "names in a set");
	test_scaling(judge_queue, "contenders that share a lock");
	return done_testing();
}
