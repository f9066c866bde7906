/*-------------------------------------------------------------------------
 *
 * queue_test.c
 *	  Tests of queue.c: names, order, decision, paths.
 *
 * S-numbers name scenarios that broke other lock clients: S18 order by the
 * number only, S19 nearest predecessor, S20 to S22 wrapping numbers, S23 and
 * S24 downgrade, S25 upgrade, S53 and S54 readers and writers, S82 foreign
 * children, S102 paths.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "granted.h"
#include "queue.h"
#include "random.h"
#include "tap.h"
#include "zk_check.h"

#define lengthof(array) ((int) (sizeof(array) / sizeof((array)[0])))

/* Names up to the word; as text, later letters of the alphabet come first. */
#define ME		"_c_77777777-0000-4000-8000-000000000000-"
#define ALICE	"_c_ffffffff-0000-4000-8000-000000000000-"
#define BOB		"_c_aaaaaaaa-0000-4000-8000-000000000000-"
#define CAROL	"_c_11111111-0000-4000-8000-000000000000-"
#define DAVE	"_c_00000000-0000-4000-8000-000000000000-"
#define HEX		"0123456789abcdef0123456789abcdef"

#define MAX_LIST	16

/* ---------- names ---------- */

static void
test_base_names(void)
{
	static const char *const uuid = "01234567-89ab-cdef-0123-456789abcdef";
	static const struct
	{
		ZkZnodeStyle style;
		ZkMode		mode;
		const char *name;
	}			cases[] =
	{
		{ZK_STYLE_CURATOR, ZK_EXCLUSIVE, "_c_01234567-89ab-cdef-0123-456789abcdef-lock-"},
		{ZK_STYLE_CURATOR, ZK_SHARED, "_c_01234567-89ab-cdef-0123-456789abcdef-__READ__"},
		{ZK_STYLE_CURATOR_RW, ZK_EXCLUSIVE, "_c_01234567-89ab-cdef-0123-456789abcdef-__WRIT__"},
		{ZK_STYLE_CURATOR_RW, ZK_SHARED, "_c_01234567-89ab-cdef-0123-456789abcdef-__READ__"},
		{ZK_STYLE_KAZOO, ZK_EXCLUSIVE, HEX "__lock__"},
		{ZK_STYLE_KAZOO, ZK_SHARED, HEX "__rlock__"}
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		char		base[ZK_NAME_SIZE];
		char		full[ZK_NAME_SIZE + 16];
		char		cut[8];
		int			len;
		ZkQueueEntry entry;

		len = zk_queue_base_name(base, sizeof(base), cases[i].style,
								 cases[i].mode, 0, uuid);
		is_str(base, cases[i].name, "base name %d", i);
		is_int(len, strlen(cases[i].name), "length of base name %d", i);

		snprintf(full, sizeof(full), "%s-1234567890", base);
		ok(strlen(full) < ZK_NAME_SIZE, "base name %d leaves room for any number", i);
		ok(zk_queue_parse(full, &entry) && entry.mode == cases[i].mode &&
		   entry.sequence == -1234567890, "base name %d is recognised", i);

		is_int(zk_queue_base_name(cut, sizeof(cut), cases[i].style,
								  cases[i].mode, 0, uuid), len,
			   "length of base name %d when cut", i);
		is_int(strlen(cut), sizeof(cut) - 1, "base name %d is cut, not overrun", i);
	}
}

typedef struct ParseCase
{
	const char *what;
	const char *name;
	int64_t		sequence;
	ZkMode		mode;
	bool		may_downgrade;
} ParseCase;

static const ParseCase contenders[] =
{
	{"Curator mutex", ALICE "lock-0000000000", 0, ZK_EXCLUSIVE, false},
	{"Curator writer", ALICE "__WRIT__0000000017", 17, ZK_EXCLUSIVE, true},
	{"Curator reader", ALICE "__READ__0000000018", 18, ZK_SHARED, false},
	{"kazoo Lock", HEX "__lock__0000000001", 1, ZK_EXCLUSIVE, false},
	{"kazoo ReadLock", HEX "__rlock__0000000001", 1, ZK_SHARED, false},
	{"go-zookeeper", "_c_" HEX "-lock-0000000123", 123, ZK_EXCLUSIVE, false},
	{"bare lock- (pipeline_kafka, .NET)", "lock-0000000004", 4, ZK_EXCLUSIVE, false},
	{"bare __lock__", "__lock__0000000004", 4, ZK_EXCLUSIVE, false},
	{"bare __rlock__", "__rlock__0000000004", 4, ZK_SHARED, false},
	{"C recipe", "x-0100a1b2c3d4e5f6-0000000009", 9, ZK_EXCLUSIVE, false},
	{"Java recipe", "x-72067691513970688-0000000010", 10, ZK_EXCLUSIVE, false},
	{"Java recipe, negative id", "x--72067691513970688-0000000011", 11, ZK_EXCLUSIVE, false},
	{"longest id of a recipe", "x--9223372036854775808-2147483647", 2147483647, ZK_EXCLUSIVE, false},
	{"a word inside the identity", "__READ__lock-0000000002", 2, ZK_EXCLUSIVE, false},
	{"two numbers", "_c_x-lock-0000000001-lock-0000000002", 2, ZK_EXCLUSIVE, false},
	{"S20: last number", ALICE "lock-2147483647", 2147483647, ZK_EXCLUSIVE, false},
	{"S20: number after the last", ALICE "lock--2147483648", INT32_MIN, ZK_EXCLUSIVE, false},
	{"S21: second negative number", ALICE "lock--2147483647", -2147483647, ZK_EXCLUSIVE, false},
	{"S21: nine digits", ALICE "lock--000000005", -5, ZK_EXCLUSIVE, false},
	{"S21: nine digits, kazoo", HEX "__lock__-000000005", -5, ZK_EXCLUSIVE, false},
	{"S21: nine digits, kazoo reader", HEX "__rlock__-999999999", -999999999, ZK_SHARED, false},
	{"S21: ten digits, kazoo reader", HEX "__rlock__-1000000000", -1000000000, ZK_SHARED, false},
	{"S21: nine digits, Curator reader", ALICE "__READ__-000000001", -1, ZK_SHARED, false},
	{"S21: ten digits, Curator writer", ALICE "__WRIT__-1000000001", -1000000001, ZK_EXCLUSIVE, true},
	{"S21: nine digits, recipe", "x-5--000000005", -5, ZK_EXCLUSIVE, false},
	{"S21: ten digits, recipe: the second dash is a sign", "x-5--1000000005", -1000000005, ZK_EXCLUSIVE, false},
	{"S21: ten digits, recipe with negative id", "x--5--2147483648", INT32_MIN, ZK_EXCLUSIVE, false}
};

static const struct
{
	const char *what;
	const char *name;
}			strangers[] =

{
	{"S82: empty name", ""},
	{"S82: digits only", "0000000001"},
	{"S82: one digit", "0"},
	{"S82: negative digit", "-1"},
	{"S82: dot", ".x"},
	{"S82: word only", "lock-"},
	{"S82: kazoo word only", HEX "__lock__"},
	{"S82: 9 digits", "lock-000000001"},
	{"S82: 11 digits", "lock-00000000001"},
	{"S82: 19 digits", "lock-9999999999999999999"},
	{"S82: 40 digits", "lock-9999999999999999999999999999999999999999"},
	{"S82: number beyond 32 bits", "lock-2147483648"},
	{"S82: number far beyond 32 bits", "lock-9999999999"},
	{"S82: negative number beyond 32 bits", "lock--2147483649"},
	{"S82: negative zero", "lock--000000000"},
	{"S82: ten digits where nine are written", "lock--0000000005"},
	{"S82: eight digits and sign", "lock--00000005"},
	{"S82: eleven digits and sign", "lock--00000000005"},
	{"S82: plus sign", "lock-+000000005"},
	{"S82: space for a digit", "lock- 000000005"},
	{"S82: letter among the digits", "lock-00000000l1"},
	{"S82: text behind the number", "lock-0000000001x"},
	{"S82: no dash", "lock0000000001"},
	{"S82: word in capitals", ALICE "LOCK-0000000001"},
	{"S82: half of kazoo's word", HEX "lock__0000000001"},
	{"S82: half of Curator's word", ALICE "WRIT__0000000001"},
	{"leases of Curator's semaphore", ALICE "lease-0000000001"},
	{"Curator's leader latch", ALICE "latch-0000000001"},
	{"lease of kazoo's semaphore", HEX},
	{"zk of Ruby, exclusive", "ex0000000001"},
	{"zk of Ruby, shared", "sh0000000001"},
	{".NET reader", "read-0000000001"},
	{"recipe without id", "x-0000000001"},
	{"recipe with a dash for an id", "x--0000000001"},
	{"recipe with an empty id and a negative number", "x--1000000001"},
	{"recipe without a second dash", "x-50000000001"},
	{"recipe with a longer id without one", "x-570000000001"},
	{"not quite a recipe", "y-5-0000000001"}
};

static void
test_parse(void)
{
	char	   *huge;
	ZkQueueEntry entry;

	for (int i = 0; i < lengthof(contenders); i++)
	{
		const ParseCase *c = &contenders[i];

		memset(&entry, 0x55, sizeof(entry));
		if (!ok(zk_queue_parse(c->name, &entry), "recognised: %s", c->what))
			continue;
		ok(entry.name == c->name, "name is borrowed: %s", c->what);
		is_int(entry.sequence, c->sequence, "number: %s", c->what);
		is_int(entry.mode, c->mode, "mode: %s", c->what);
		is_int(entry.may_downgrade, c->may_downgrade, "may downgrade: %s", c->what);
	}
	for (int i = 0; i < lengthof(strangers); i++)
		ok(!zk_queue_parse(strangers[i].name, &entry),
		   "not recognised: %s", strangers[i].what);

	huge = malloc(1000001);
	memset(huge, '7', 1000000);
	huge[1000000] = '\0';
	ok(!zk_queue_parse(huge, &entry), "S82: not recognised: a million digits");
	memcpy(huge + 1000000 - 15, "lock-0000000042", 15);
	ok(zk_queue_parse(huge, &entry) && entry.sequence == 42,
	   "S82: recognised: a huge name that ends well");
	free(huge);
}

/* Put the names into a random order. */
static void
shuffle(const char **names, int count)
{
	for (int i = count - 1; i > 0; i--)
	{
		int			j = random_below(i + 1);
		const char *name = names[i];

		names[i] = names[j];
		names[j] = name;
	}
}

/*
 * Whatever number a server writes is read back, whatever name it ends.
 */
static void
test_numbers(void)
{
	static const char *const bases[] =
	{
		ALICE "lock-", ALICE "__WRIT__", ALICE "__READ__", HEX "__lock__",
		HEX "__rlock__", "x-00ff-", "x--12-", "lock-"
	};
	static const int32_t edges[] =
	{
		0, 1, -1, 9, -9, 999999999, -999999999, 1000000000, -1000000000,
		-1000000001, -999999998, INT32_MAX, INT32_MAX - 1, INT32_MIN, INT32_MIN + 1
	};
	int			wrong = 0;

	seed_random(1);
	for (int i = 0; i < 20000; i++)
	{
		int32_t		number = i < lengthof(edges) ? edges[i] :
		(int32_t) (next_random() >> 32) / (i % 2 ? 1 : 1000);

		for (int b = 0; b < lengthof(bases); b++)
		{
			char		name[100];
			ZkQueueEntry entry;

			snprintf(name, sizeof(name), "%s%010d", bases[b], number);
			if ((!zk_queue_parse(name, &entry) || entry.sequence != number) &&
				wrong++ == 0)
				diag("wrong: %s", name);
		}
	}
	is_int(wrong, 0, "S20, S21: every number of 32 bits is read back");
}

/*
 * A downgrade's name has the same number, whatever its sign and width.
 */
static void
test_take_place(void)
{
	static const struct
	{
		const char *base;
		const char *exclusive;
		const char *name;
	}			cases[] =
	{
		{BOB "__READ__", ALICE "lock-0000000005", BOB "__READ__0000000005"},
		{BOB "__READ__", ALICE "__WRIT__2147483647", BOB "__READ__2147483647"},
		{HEX "__rlock__", HEX "__lock__0000000000", HEX "__rlock__0000000000"},
		{BOB "__READ__", ALICE "lock--000000005", BOB "__READ__-000000005"},
		{BOB "__READ__", ALICE "lock--2147483648", BOB "__READ__-2147483648"}
	};
	char		name[ZK_NAME_SIZE];
	char		cut[10];

	for (int i = 0; i < lengthof(cases); i++)
	{
		is_int(zk_queue_take_place(name, sizeof(name), cases[i].base, cases[i].exclusive),
			   strlen(cases[i].name), "S24: length of the name %s", cases[i].name);
		is_str(name, cases[i].name, "S24: name for the place of %s", cases[i].exclusive);
	}
	is_int(zk_queue_take_place(cut, sizeof(cut), BOB "__READ__", ALICE "lock-0000000005"),
		   strlen(BOB "__READ__0000000005"), "S24: length when cut");
	is_int(strlen(cut), sizeof(cut) - 1, "S24: cut, not overrun");
	is_int(zk_queue_take_place(name, sizeof(name), BOB "__READ__", ALICE "lock-"), -1,
		   "S24: no place to take");
	is_str(name, "", "S24: and no name");
}

/* ---------- order ---------- */

typedef struct SortCase
{
	const char *what;
	const char *sorted[MAX_LIST];	/* in the order to come out */
	const char *ignored;		/* a child to be ignored, or NULL */
} SortCase;

static const SortCase sort_cases[] =
{
	{"an empty list", {NULL}, NULL},
	{"S82: nothing but a stranger", {NULL}, "0"},
	{"S18: numbers against identities",
		{ALICE "lock-0000000001", BOB "lock-0000000002", CAROL "lock-0000000003",
	DAVE "lock-0000000004"}, NULL},
	{"S18: numbers against words and identities",
		{"x-ffffffffffffffff-0000000008", "lock-0000000009", HEX "__rlock__0000000010",
			"x-0-0000000011", ALICE "__WRIT__0000000012", HEX "__lock__0000000013",
	DAVE "__READ__0000000014", "x--1-0000000015"}, NULL},
	{"S20, S21: negative numbers by value",
		{DAVE "lock--2147483648", CAROL "lock--2147483647", ALICE "lock--1000000000",
			BOB "lock--999999999", DAVE "lock--000000005", CAROL "lock--000000004",
	BOB "lock-0000000000", ALICE "lock-2147483647"}, "lock--000000000"},
	{"S23: the exclusive one of a pair first",
		{ALICE "lock-0000000004", DAVE "__WRIT__0000000005", DAVE "__READ__0000000005",
	CAROL "lock-0000000006"}, "latch-0000000001"},
	{"S24: also if the words are ours",
	{DAVE "lock-0000000005", DAVE "__READ__0000000005"}, NULL},
	{"S24: also if the words are kazoo's",
	{HEX "__lock__0000000005", HEX "__rlock__0000000005"}, NULL},
	{"S22: the same order for all when numbers are equal",
		{DAVE "lock-2147483647", CAROL "lock-2147483647", BOB "lock-2147483647",
	ALICE "lock-2147483647"}, NULL}
};

static int
count_names(const char *const *names)
{
	int			count = 0;

	while (names[count])
		count++;
	return count;
}

/*
 * Does every order of the children that is tried sort to the same queue?
 */
static bool
sorts_to(const SortCase *c)
{
	int			expected = count_names(c->sorted);

	for (int round = 0; round < 50; round++)
	{
		const char *names[MAX_LIST + 1];
		const char *ignored = "never set";
		ZkQueueEntry entries[MAX_LIST + 1];
		int			count = expected;

		memcpy(names, c->sorted, expected * sizeof(names[0]));
		if (c->ignored)
			names[count++] = c->ignored;
		shuffle(names, count);

		if (zk_queue_sort(INT64_MAX, names, count, entries, &ignored) != expected ||
			ignored != c->ignored)
			return false;
		if (zk_queue_sort(INT64_MAX, names, count, entries, NULL) != expected)
			return false;
		for (int i = 0; i < expected; i++)
		{
			if (strcmp(entries[i].name, c->sorted[i]) != 0)
				return false;
		}
	}
	return true;
}

static void
test_sort(void)
{
	static const char *const junk[] = {"0", "lock-0000000001", ".x"};
	static const char *const numbered[] = {"lock-0000000005", "lock-0000000008",
	"lock-0000000006", "lock-0000000007"};
	ZkQueueEntry entries[4];
	const char *ignored;

	seed_random(2);
	for (int i = 0; i < lengthof(sort_cases); i++)
		ok(sorts_to(&sort_cases[i]), "order: %s", sort_cases[i].what);

	is_int(zk_queue_sort(INT64_MAX, junk, 3, entries, &ignored), 1, "S82: two of three are ignored");
	is_str(ignored, "0", "S82: the first ignored child is named");
	is_int(zk_queue_sort(6, numbered, lengthof(numbered), entries, NULL), 3,
		   "of those behind a number one is kept");
	is_str(entries[2].name, numbered[1], "the first one that is found");
}

/* ---------- decision ---------- */

typedef struct DecideCase
{
	const char *what;
	const char *names[MAX_LIST];
	const char *self;
	const char *own[4];
	ZkDecision	decision;
	const char *watch;			/* with WAIT and TIED */
	int			ahead;			/* the rest with WAIT */
	bool		last_ahead;
	const char *deadlock;
} DecideCase;

#define GRANTED		ZK_DECIDE_GRANTED, NULL, 0, false, NULL
#define MISSING		ZK_DECIDE_MISSING, NULL, 0, false, NULL
#define SEQUENCE	ZK_DECIDE_SEQUENCE, NULL, 0, false, NULL
#define TIED(with)	ZK_DECIDE_TIED, with, 0, false, NULL
#define WAIT(watch, ahead, last_ahead) \
	ZK_DECIDE_WAIT, watch, ahead, last_ahead, NULL
#define DEADLOCK(watch, ahead, last_ahead, with) \
	ZK_DECIDE_WAIT, watch, ahead, last_ahead, with

static const DecideCase decide_cases[] =
{
	{"alone", {ME "lock-0000000000"}, ME "lock-0000000000", {NULL}, GRANTED},
	{"alone, shared", {ME "__READ__0000000000"}, ME "__READ__0000000000", {NULL}, GRANTED},
	{"S2: an empty list grants nothing", {NULL}, ME "lock-0000000000", {NULL}, MISSING},
	{"S2: a list of others grants nothing",
	{ALICE "lock-0000000009"}, ME "lock-0000000000", {NULL}, MISSING},
	{"S1: the same identity with another number is not ours",
	{ME "lock-0000000003"}, ME "lock-0000000004", {NULL}, MISSING},
	{"S1: a longer name is not ours",
	{ME "lock-0000000003-lock-0000000004"}, ME "lock-0000000003", {NULL}, MISSING},
	{"a name of ours that is no contender", {ME "lock-"}, ME "lock-", {NULL}, MISSING},

	{"second of two", {ALICE "lock-0000000001", ME "lock-0000000002"},
	ME "lock-0000000002", {NULL}, WAIT(ALICE "lock-0000000001", 1, true)},
	{"those behind do not matter", {ME "lock-0000000002", ALICE "lock-0000000003",
	BOB "__READ__0000000004"}, ME "lock-0000000002", {NULL}, GRANTED},
	{"S9: with two ahead, one that goes is no grant",
		{ALICE "lock-0000000001", BOB "lock-0000000002", ME "lock-0000000003"},
	ME "lock-0000000003", {NULL}, WAIT(BOB "lock-0000000002", 2, false)},

	{"S18: ahead by number, behind by name",
		{ALICE "lock-0000000002", DAVE "lock-0000000004", ME "lock-0000000003"},
	ME "lock-0000000003", {NULL}, WAIT(ALICE "lock-0000000002", 1, true)},
	{"S18: behind by number, ahead by name",
		{DAVE "lock-0000000004", CAROL "lock-0000000005", ME "lock-0000000003"},
	ME "lock-0000000003", {NULL}, GRANTED},
	{"S18: all clients' names in one queue",
		{"x-ffff-0000000001", ALICE "__WRIT__0000000002", HEX "__lock__0000000003",
			HEX "__rlock__0000000004", "x--1-0000000005", "lock-0000000006",
		ME "lock-0000000007"},
	ME "lock-0000000007", {NULL}, WAIT("lock-0000000006", 6, false)},
	{"S18: the same, shared",
		{"x-ffff-0000000001", ALICE "__WRIT__0000000002", HEX "__lock__0000000003",
			HEX "__rlock__0000000004", "x--1-0000000005", BOB "__READ__0000000006",
		ME "__READ__0000000007"},
	ME "__READ__0000000007", {NULL}, WAIT("x--1-0000000005", 4, false)},
	{"S19: the nearest over gaps",
		{ALICE "lock-0000000001", BOB "lock-0000000004", CAROL "lock-0000000009",
		ME "lock-0000000400", DAVE "lock-0000000401"},
	ME "lock-0000000400", {NULL}, WAIT(CAROL "lock-0000000009", 3, false)},
	{"S19: the nearest over a gap of one",
		{ALICE "lock-0000000001", BOB "lock-0000000003", ME "lock-0000000005"},
	ME "lock-0000000005", {NULL}, WAIT(BOB "lock-0000000003", 2, false)},

	{"S20: a newcomer after the wrap",
		{ALICE "lock-2147483647", ME "lock--2147483648"},
	ME "lock--2147483648", {NULL}, SEQUENCE},
	{"S20: the last number", {ME "lock-2147483647"}, ME "lock-2147483647", {NULL}, SEQUENCE},
	{"S20: the first number refused",
	{ME "lock-2146435072"}, ME "lock-2146435072", {NULL}, SEQUENCE},
	{"S20: the last number not refused",
	{ME "lock-2146435071"}, ME "lock-2146435071", {NULL}, GRANTED},
	{"S20: shared, after the wrap",
	{ME "__READ__-000000001"}, ME "__READ__-000000001", {NULL}, SEQUENCE},
	{"S21: both after the wrap", {ALICE "lock--2147483648", ME "lock--2147483647"},
	ME "lock--2147483647", {NULL}, SEQUENCE},
	{"S21: someone with nine digits is ahead", {ALICE "lock--000000005", ME "lock-0000000000"},
	ME "lock-0000000000", {NULL}, WAIT(ALICE "lock--000000005", 1, true)},
	{"S21: someone with ten digits is ahead", {"x-1--2147483648", ME "lock-0000000000"},
	ME "lock-0000000000", {NULL}, WAIT("x-1--2147483648", 1, true)},
	{"S22: a stuck counter", {ALICE "lock-2147483647", ME "lock-2147483647"},
	ME "lock-2147483647", {NULL}, SEQUENCE},
	{"S22: a tie, the other's name first",
		{DAVE "lock-0000000007", ME "lock-0000000007"},
	ME "lock-0000000007", {NULL}, TIED(DAVE "lock-0000000007")},
	{"S22: a tie, our name first",
		{ALICE "lock-0000000007", ME "lock-0000000007"},
	ME "lock-0000000007", {NULL}, TIED(ALICE "lock-0000000007")},
	{"S22: a tie of two shared", {ALICE "__READ__0000000007", ME "__READ__0000000007"},
	ME "__READ__0000000007", {NULL}, TIED(ALICE "__READ__0000000007")},
	{"S22: a tie behind others",
		{BOB "lock-0000000001", ALICE "lock-0000000007", ME "lock-0000000007"},
	ME "lock-0000000007", {NULL}, TIED(ALICE "lock-0000000007")},
	{"S22: a tie of others does not matter",
		{ALICE "lock-0000000007", BOB "lock-0000000007", ME "lock-0000000006"},
	ME "lock-0000000006", {NULL}, GRANTED},

	{"S23: one that may downgrade is not the last",
		{ALICE "__WRIT__0000000005", ME "lock-0000000006"},
	ME "lock-0000000006", {NULL}, WAIT(ALICE "__WRIT__0000000005", 1, false)},
	{"S23: of a pair watch the one that stays",
		{ALICE "__WRIT__0000000005", ALICE "__READ__0000000005", ME "lock-0000000006"},
	ME "lock-0000000006", {NULL}, WAIT(ALICE "__READ__0000000005", 2, false)},
	{"S23: still blocked when only the shared one is left",
		{ALICE "__READ__0000000005", ME "lock-0000000006"},
	ME "lock-0000000006", {NULL}, WAIT(ALICE "__READ__0000000005", 1, true)},
	{"S23: a writer's leftover does not block a reader",
		{ALICE "__WRIT__0000000005", ME "__READ__0000000006"},
	ME "__READ__0000000006", {NULL}, WAIT(ALICE "__WRIT__0000000005", 1, true)},
	{"S23: a reader behind a pair",
		{ALICE "__WRIT__0000000005", ALICE "__READ__0000000005", ME "__READ__0000000006"},
	ME "__READ__0000000006", {NULL}, WAIT(ALICE "__WRIT__0000000005", 1, true)},
	{"S24: our own pair is no tie", {ME "lock-0000000005", BOB "__READ__0000000005",
	ALICE "lock-0000000006"}, BOB "__READ__0000000005", {ME "lock-"}, GRANTED},
	{"S24: nor seen from the exclusive one", {ME "lock-0000000005", BOB "__READ__0000000005",
	ALICE "lock-0000000006"}, ME "lock-0000000005", {BOB "__READ__"}, GRANTED},
	{"S24: the waiter behind a pair of ours",
		{ALICE "lock-0000000005", BOB "__READ__0000000005", ME "lock-0000000006"},
	ME "lock-0000000006", {NULL}, WAIT(BOB "__READ__0000000005", 2, false)},
	{"S24: the waiter after the downgrade",
		{BOB "__READ__0000000005", ME "lock-0000000006"},
	ME "lock-0000000006", {NULL}, WAIT(BOB "__READ__0000000005", 1, true)},

	{"S25: the first to upgrade waits for the other reader",
		{ALICE "__READ__0000000001", BOB "__READ__0000000002", ME "lock-0000000003"},
	ME "lock-0000000003", {ALICE "__READ__"}, WAIT(BOB "__READ__0000000002", 1, true)},
	{"S25: the second one is a deadlock",
		{ALICE "__READ__0000000001", BOB "__READ__0000000002", CAROL "lock-0000000003",
		ME "lock-0000000004"}, ME "lock-0000000004", {BOB "__READ__"},
	DEADLOCK(CAROL "lock-0000000003", 2, false, CAROL "lock-0000000003")},
	{"S25: a plain writer between ours is a deadlock",
		{ALICE "__READ__0000000001", BOB "lock-0000000002", ME "lock-0000000003"},
		ME "lock-0000000003", {ALICE "__READ__"},
	DEADLOCK(BOB "lock-0000000002", 1, true, BOB "lock-0000000002")},
	{"S25: the first of several writers is named",
		{ALICE "__READ__0000000001", BOB "lock-0000000002", CAROL "__WRIT__0000000003",
		DAVE "__READ__0000000004", ME "lock-0000000005"},
		ME "lock-0000000005", {ALICE "__READ__"},
	DEADLOCK(DAVE "__READ__0000000004", 3, false, BOB "lock-0000000002")},
	{"S25: a writer ahead of our shared one is none",
		{BOB "lock-0000000001", ALICE "__READ__0000000002", ME "lock-0000000003"},
	ME "lock-0000000003", {ALICE "__READ__"}, WAIT(BOB "lock-0000000001", 1, true)},
	{"S25: a writer behind us is none",
		{ALICE "__READ__0000000001", ME "lock-0000000002", BOB "lock-0000000003"},
	ME "lock-0000000002", {ALICE "__READ__"}, GRANTED},
	{"S25: an exclusive one of ours makes none",
		{ALICE "lock-0000000001", BOB "lock-0000000002", ME "lock-0000000003"},
	ME "lock-0000000003", {ALICE "lock-"}, WAIT(BOB "lock-0000000002", 1, true)},
	{"S25: a shared request makes none",
		{ALICE "__READ__0000000001", BOB "lock-0000000002", ME "__READ__0000000003"},
	ME "__READ__0000000003", {ALICE "__READ__"}, WAIT(BOB "lock-0000000002", 1, true)},
	{"S25: alone with a shared one of ours",
		{ALICE "__READ__0000000001", ME "lock-0000000003"},
	ME "lock-0000000003", {ALICE "__READ__"}, GRANTED},

	{"S36: ours do not exclude each other",
		{ALICE "lock-0000000001", BOB "__READ__0000000002", ME "lock-0000000003"},
	ME "lock-0000000003", {ALICE "lock-", BOB "__READ__"}, GRANTED},
	{"S36: our base name names itself only",
		{ALICE "lock-0000000001", ME "lock-0000000003"},
	ME "lock-0000000003", {ALICE "__READ__", ""}, WAIT(ALICE "lock-0000000001", 1, true)},
	{"S36: ours between strangers are not watched",
		{ALICE "lock-0000000001", BOB "lock-0000000002", ME "lock-0000000003"},
	ME "lock-0000000003", {BOB "lock-"}, WAIT(ALICE "lock-0000000001", 1, true)},

	{"S53: the reader between two writers waits for the first",
		{ALICE "lock-0000000001", ME "__READ__0000000002", BOB "lock-0000000003"},
	ME "__READ__0000000002", {NULL}, WAIT(ALICE "lock-0000000001", 1, true)},
	{"S53: the second writer waits for the reader",
		{ALICE "lock-0000000001", BOB "__READ__0000000002", ME "lock-0000000003"},
	ME "lock-0000000003", {NULL}, WAIT(BOB "__READ__0000000002", 2, false)},
	{"S53: the reader gets it when the first writer has gone",
		{ME "__READ__0000000002", BOB "lock-0000000003"},
	ME "__READ__0000000002", {NULL}, GRANTED},
	{"S53: readers hold together",
		{ALICE "__READ__0000000001", HEX "__rlock__0000000002", ME "__READ__0000000003"},
	ME "__READ__0000000003", {NULL}, GRANTED},
	{"S54: a reader watches the nearest of two writers",
		{ALICE "lock-0000000001", BOB "__WRIT__0000000002", CAROL "__READ__0000000003",
		ME "__READ__0000000004"},
	ME "__READ__0000000004", {NULL}, WAIT(BOB "__WRIT__0000000002", 2, false)},
	{"S54: the nearer one cancelled",
		{ALICE "lock-0000000001", CAROL "__READ__0000000003", ME "__READ__0000000004"},
	ME "__READ__0000000004", {NULL}, WAIT(ALICE "lock-0000000001", 1, true)},
	{"S54: the farther one cancelled",
		{BOB "__WRIT__0000000002", CAROL "__READ__0000000003", ME "__READ__0000000004"},
	ME "__READ__0000000004", {NULL}, WAIT(BOB "__WRIT__0000000002", 1, true)},

	{"S82: children that are no contenders do not block",
		{"0", "-1", ".x", "lock-", "lock-00000000000", "ex0000000000", "!", "",
		ALICE "latch-0000000000", "x-0000000000", ME "lock-0000000003"},
	ME "lock-0000000003", {NULL}, GRANTED}
};

/* The name of an entry of the queue, or NULL for none. */
static const char *
entry_name(const ZkQueueEntry *entries, int index)
{
	return index < 0 ? NULL : entries[index].name;
}

static bool
same_name(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The first before "self" that is none of our own, -1 if there is none. */
static int
first_stranger(const DecideCase *c, const ZkQueueEntry *entries, int self)
{
	for (int i = 0; i < self; i++)
	{
		bool		own = false;

		for (int j = 0; j < count_names(c->own); j++)
			own |= c->own[j][0] != '\0' &&
				strncmp(entries[i].name, c->own[j], strlen(c->own[j])) == 0;
		if (!own)
			return i;
	}
	return -1;
}

static bool
is_verdict(const DecideCase *c, const ZkQueueEntry *entries,
		   const ZkVerdict *verdict)
{
	return verdict->decision == c->decision &&
		same_name(entry_name(entries, verdict->watch), c->watch) &&
		verdict->ahead == c->ahead &&
		same_name(entry_name(entries, verdict->self),
				  verdict->decision == ZK_DECIDE_MISSING ? NULL : c->self) &&
		(verdict->decision != ZK_DECIDE_WAIT ||
		 verdict->first == first_stranger(c, entries, verdict->self)) &&
		verdict->last_ahead == c->last_ahead &&
		same_name(entry_name(entries, verdict->deadlock), c->deadlock);
}

static void
test_decide(void)
{
	seed_random(3);
	for (int i = 0; i < lengthof(decide_cases); i++)
	{
		const DecideCase *c = &decide_cases[i];
		const char *names[MAX_LIST];
		ZkQueueEntry entries[MAX_LIST];
		ZkVerdict	verdict;
		bool		as_expected = true;

		/* the server lists children in any order */
		memcpy(names, c->names, sizeof(names));
		for (int round = 0; as_expected && round < 20; round++)
		{
			int			count;

			shuffle(names, count_names(c->names));
			count = zk_queue_sort(INT64_MAX, names, count_names(c->names), entries, NULL);
			memset(&verdict, 0x55, sizeof(verdict));
			zk_queue_decide(entries, count, c->self, c->own,
							count_names(c->own), &verdict);
			as_expected = is_verdict(c, entries, &verdict);
		}
		if (!ok(as_expected, "decision: %s", c->what))
			diag("  got %d, watch %s, ahead %d, last ahead %d, deadlock %s",
				 verdict.decision, verdict.watch < 0 ? "none" : entries[verdict.watch].name,
				 verdict.ahead, verdict.last_ahead,
				 verdict.deadlock < 0 ? "none" : entries[verdict.deadlock].name);
	}
}

/*
 * Whom to look out for, and whether a list is needed when that one goes.
 */
static void
test_second_watch(void)
{
	static const struct
	{
		const char *what;
		const char *names[MAX_LIST];	/* in queue order, our own last */
		const char *own[2];
		const char *second_watch;
		bool		last;
	}			cases[] =
	{
		{"none, behind one", {ALICE "lock-0000000001", ME "lock-0000000002"}, {NULL}, NULL, false},
		{"S90: the one before, behind two",
			{ALICE "lock-0000000001", BOB "lock-0000000002", ME "lock-0000000003"}, {NULL},
		ALICE "lock-0000000001", true},
		{"S90: the one before, behind three",
			{ALICE "lock-0000000001", BOB "lock-0000000002", ALICE "lock-0000000003",
		ME "lock-0000000004"}, {NULL}, BOB "lock-0000000002", false},
		{"an exclusive one for a shared one too",
			{ALICE "__READ__0000000001", BOB "__READ__0000000002", ME "lock-0000000003"}, {NULL},
		ALICE "__READ__0000000001", true},
		{"a shared one for exclusive ones only",
			{ALICE "lock-0000000001", BOB "__READ__0000000002", BOB "lock-0000000003",
		ME "__READ__0000000004"}, {NULL}, ALICE "lock-0000000001", false},
		{"none, if a list is needed anyhow",
		{ALICE "lock-0000000001", BOB "__WRIT__0000000002", ME "lock-0000000003"}, {NULL}, NULL, false},
		{"a list is needed behind one that may be replaced",
			{ALICE "__WRIT__0000000001", BOB "lock-0000000002", ME "lock-0000000003"}, {NULL},
		ALICE "__WRIT__0000000001", false},
		{"... but not for a shared one",
			{ALICE "__WRIT__0000000001", BOB "__WRIT__0000000002", ME "__READ__0000000003"}, {NULL},
		ALICE "__WRIT__0000000001", true},
		{"none of our own",
			{ME "__READ__0000000001", BOB "__READ__0000000002", ME "lock-0000000003"},
		{ME "__READ__"}, NULL, false},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		ZkQueueEntry entries[MAX_LIST];
		ZkVerdict	verdict;
		int			count = count_names(cases[i].names);

		zk_queue_sort(INT64_MAX, cases[i].names, count, entries, NULL);
		zk_queue_decide(entries, count, cases[i].names[count - 1], cases[i].own,
						count_names(cases[i].own), &verdict);
		ok(verdict.decision == ZK_DECIDE_WAIT &&
		   same_name(entry_name(entries, verdict.second_watch), cases[i].second_watch) &&
		   verdict.last_second_watch == cases[i].last,
		   "second_watch: %s", cases[i].what);
	}
}

static void
test_granted(void)
{
	static const struct
	{
		const char *what;
		const char *names[MAX_LIST];	/* in queue order */
		int64_t		sessions[MAX_LIST];
		const char *granted;	/* a letter for each: y or n */
	}			cases[] =
	{
		{"one", {"lock-0000000001"}, {1}, "y"},
		{"writers", {"lock-0000000001", "x-2-0000000002"}, {1, 2}, "yn"},
		{"readers, writer, reader",
			{"a__READ__0000000001", "b__rlock__0000000002", "lock-0000000003",
		"c__READ__0000000004"}, {1, 2, 3, 4}, "yynn"},
		{"S24: a downgrade's pair and a reader",
			{"a__WRIT__0000000001", "a__READ__0000000001", "b__READ__0000000002"},
		{1, 1, 2}, "yyn"},
		{"S25: an upgrade without other contenders",
		{"a__READ__0000000001", "b-lock-0000000002"}, {1, 1}, "yy"},
		{"S25: an upgrade with another reader",
			{"a__READ__0000000001", "c__READ__0000000002", "b-lock-0000000003"},
		{1, 2, 1}, "yyn"},
		{"one session, twice, with a stranger between",
			{"a-lock-0000000001", "b-lock-0000000002", "c-lock-0000000003"},
		{1, 2, 1}, "ynn"},
		{"persistent ones", {"a-lock-0000000001", "b-lock-0000000002"}, {0, 0}, "yn"},
		{"S22: each of two with one number may think so",
		{"a-lock-2147483647", "b-lock-2147483647"}, {1, 2}, "yy"}
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		ZkQueueEntry entries[MAX_LIST];
		char		granted[MAX_LIST + 1] = "";
		int			count = count_names(cases[i].names);
		int			total = 0;

		is_int(zk_queue_sort(INT64_MAX, cases[i].names, count, entries, NULL), count,
			   "granted: all recognised: %s", cases[i].what);
		for (int j = 0; j < count; j++)
		{
			bool		one = is_granted(entries, cases[i].sessions, j);

			strcat(granted, one ? "y" : "n");
			total += one;
		}
		is_str(granted, cases[i].granted, "granted: %s", cases[i].what);
		is_int(zk_queue_all_granted(entries, cases[i].sessions, count, NULL), total,
			   "granted: how many: %s", cases[i].what);
	}
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
			entries[i].mode = random_below(3) == 0 ? ZK_EXCLUSIVE : ZK_SHARED;
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

/* ---------- paths ---------- */

#define TEN			"0123456789"
#define HUNDRED		TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define BYTES_255	HUNDRED HUNDRED TEN TEN TEN TEN TEN "01234"

/* a path, with its length so that it may contain a null character */
#define PATH(path)	path, sizeof(path) - 1

static const struct
{
	const char *what;
	const char *path;
	size_t		len;
	const char *problem;
}			path_cases[] =

{
	{"one component", PATH("/a"), NULL},
	{"several", PATH("/jobs/nightly/eu-1"), NULL},
	{"spaces", PATH("/ a / b "), NULL},
	{"dots in names", PATH("/.a/..b/c./d../e.f/..."), NULL},
	{"not ASCII", PATH("/caf\xC3\xA9/\xE6\x97\xA5\xE6\x9C\xAC/\xEF\xBF\xAF"), NULL},
	{"printing ASCII", PATH("/!\"#$%&'()*+,-0:;<=>?@[\\]^_`{|}~"), NULL},
	{"a longest component", PATH("/" BYTES_255 "/b"), NULL},
	{"a longest path", PATH("/" BYTES_255 "/" BYTES_255 "/" BYTES_255 "/" HUNDRED HUNDRED TEN TEN TEN TEN TEN "0123"), NULL},
	{"almost reserved", PATH("/.zklock2"), NULL},
	{"almost ZooKeeper's", PATH("/zookeepers/x"), NULL},
	{"reserved word further down", PATH("/a/.zklock/zookeeper"), NULL},
	{"empty", PATH(""), "The path is empty."},
	{"no leading slash", PATH("a/b"), "The path does not begin with a slash."},
	{"leading space", PATH(" /a"), "The path does not begin with a slash."},
	{"root", PATH("/"), "The path must have at least one component after the slash."},
	{"trailing slash", PATH("/a/"), "The path ends with a slash."},
	{"two slashes only", PATH("//"), "The path ends with a slash."},
	{"two slashes first", PATH("//a"), "The path has an empty component."},
	{"two slashes inside", PATH("/a//b"), "The path has an empty component."},
	{"almost a contender", PATH("/lock-1/__READ__/x-000000001"), NULL},
	{"a contender", PATH("/a/lock-0000000001"), "The path has a component that has the form of a contender's name."},
	{"a contender above", PATH("/a/_c_x-__READ__0000000001/b"), "The path has a component that has the form of a contender's name."},
	{"a contender first", PATH("/x-5-0000000001"), "The path has a component that has the form of a contender's name."},
	{"dot", PATH("/."), "The path has the component \".\"."},
	{"dot inside", PATH("/a/./b"), "The path has the component \".\"."},
	{"two dots", PATH("/.."), "The path has the component \"..\"."},
	{"two dots inside", PATH("/a/../b"), "The path has the component \"..\"."},
	{"two dots at the end", PATH("/a/.."), "The path has the component \"..\"."},
	{"null character", PATH("/a\0b"), "The path contains a null character."},
	{"null character at the end", PATH("/a\0"), "The path contains a null character."},
	{"line feed", PATH("/a\nb"), "The path contains a control character."},
	{"U+0001", PATH("/\x01"), "The path contains a control character."},
	{"U+001F", PATH("/\x1F"), "The path contains a control character."},
	{"U+007F", PATH("/\x7F"), "The path contains a control character."},
	{"U+009F", PATH("/\xC2\x9F"), "The path contains a control character."},
	{"U+E000", PATH("/\xEE\x80\x80"), "The path contains a character that ZooKeeper does not accept."},
	{"U+FFFD", PATH("/\xEF\xBF\xBD"), "The path contains a character that ZooKeeper does not accept."},
	{"U+1F600", PATH("/\xF0\x9F\x98\x80"), "The path contains a character that ZooKeeper does not accept."},
	{"Latin-1", PATH("/caf\xE9"), "The path is not valid UTF-8."},
	{"cut UTF-8", PATH("/a\xE6\x97"), "The path is not valid UTF-8."},
	{"UTF-8 that does not go on", PATH("/a\xE6\x97x"), "The path is not valid UTF-8."},
	{"lone continuation", PATH("/\x80"), "The path is not valid UTF-8."},
	{"overlong slash", PATH("/\xC0\xAF"), "The path is not valid UTF-8."},
	{"overlong null", PATH("/\xC0\x80"), "The path is not valid UTF-8."},
	{"overlong in three", PATH("/\xE0\x82\xA9"), "The path is not valid UTF-8."},
	{"beyond Unicode", PATH("/\xF4\x90\x80\x80"), "The path is not valid UTF-8."},
	{"no lead byte", PATH("/\xFF"), "The path is not valid UTF-8."},
	{"256 bytes in a component", PATH("/a/" BYTES_255 "0"),
	"The path has a component longer than 255 bytes."},
	{"256 bytes first", PATH("/" BYTES_255 "0/a"),
	"The path has a component longer than 255 bytes."},
	{"1024 bytes", PATH("/" BYTES_255 "/" BYTES_255 "/" BYTES_255 "/" BYTES_255),
	"The path must be shorter than 1024 bytes."},
	{"reserved", PATH("/.zklock"), "The path \"/.zklock\" and all below it are reserved."},
	{"below reserved", PATH("/.zklock/records/a"),
	"The path \"/.zklock\" and all below it are reserved."},
	{"ZooKeeper's", PATH("/zookeeper"),
	"The path \"/zookeeper\" and all below it are ZooKeeper's own."},
	{"below ZooKeeper's", PATH("/zookeeper/quota"),
	"The path \"/zookeeper\" and all below it are ZooKeeper's own."}
};

/* Write a character as UTF-8, also one that may not be; returns the length. */
static int
write_utf8(char *out, uint32_t c)
{
	int			size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};

	for (int i = size - 1; i > 0; i--)
	{
		out[i] = (char) (0x80 | (c & 0x3F));
		c >>= 6;
	}
	out[0] = (char) (lead[size] | c);
	return size;
}

/* As ZooKeeper's PathUtils.validatePath() has it, for one character. */
static bool
zookeeper_accepts(uint32_t c)
{
	return !(c <= 0x1F || (c >= 0x7F && c <= 0x9F) ||
			 (c >= 0xD800 && c <= 0xF8FF) || c >= 0xFFF0);
}

static void
test_paths(void)
{
	int			wrong = 0;

	for (int i = 0; i < lengthof(path_cases); i++)
	{
		/* a copy without a NUL behind it, so that a sanitizer sees an overrun */
		char	   *path = malloc(path_cases[i].len + (path_cases[i].len == 0));

		memcpy(path, path_cases[i].path, path_cases[i].len);
		is_str(zk_path_check(path, path_cases[i].len), path_cases[i].problem,
			   "S102: path: %s", path_cases[i].what);
		free(path);
	}

	for (uint32_t c = 0; c < 0x110000; c++)
	{
		char		path[8] = "/x";

		/* the slash ends the path, all others are a name of two characters */
		if ((zk_path_check(path, 2 + write_utf8(path + 2, c)) == NULL) !=
			(zookeeper_accepts(c) && c != '/') && wrong++ == 0)
			diag("wrong: U+%04X", (unsigned) c);
	}
	is_int(wrong, 0, "S102: every character of Unicode as ZooKeeper has it");
}

typedef struct WaitCase
{
	const char *what;
	const char *queue;			/* X exclusive, s shared; first of the queue
								 * first */
	int			which;
	int			blockers;
	int			front;
} WaitCase;

static const WaitCase wait_cases[] = {
	{"alone", "X", 0, 0, 1},
	{"readers only", "sss", 2, 0, 3},
	{"behind a holder", "XX", 1, 1, 1},
	{"behind all others", "XsX", 2, 2, 1},
	{"a writer behind readers", "ssX", 2, 2, 2},
	{"a reader behind readers and a writer", "ssXs", 3, 3, 2},
	{"a reader behind readers behind a writer", "XsssS", 4, 1, 1},
	{"a reader behind the second writer", "XsXss", 4, 3, 1},
	{"a reader ahead of it", "XsXss", 1, 1, 1},
	{"the first writer", "XsXss", 0, 0, 1},
	{"a reader in a writer's place", "X=", 1, 0, 2},
	{"one behind a downgrade", "X=X", 2, 2, 2},
	{"a reader behind a downgrade", "X=s", 2, 1, 2}
};

/*
 * The waits between contenders: '=' is a reader with the number of the writer before it.
 */
static void
test_blockers(void)
{
	for (int i = 0; i < lengthof(wait_cases); i++)
	{
		const WaitCase *test = &wait_cases[i];
		int			count = (int) strlen(test->queue);
		char		names[MAX_LIST][80];
		const char *list[MAX_LIST];
		ZkQueueEntry entries[MAX_LIST];

		for (int j = 0; j < count; j++)
		{
			snprintf(names[j], sizeof(names[j]), "%s%s%010d",
					 j % 2 ? ALICE : DAVE,
					 test->queue[j] == 'X' ? "lock-" : "__READ__",
					 test->queue[j] == '=' ? j - 1 : j);
			list[j] = names[j];
		}
		is_int(zk_queue_sort(INT64_MAX, list, count, entries, NULL), count, "a queue");
		is_int(zk_queue_blockers(entries, test->which), test->blockers,
			   "S72: the blockers: %s", test->what);
		is_int(zk_queue_front(entries, count), test->front,
			   "S72: the holders: %s", test->what);
	}
	is_int(zk_queue_front(NULL, 0), 0, "S72: no contender is in front of an empty queue");
}

int
main(void)
{
	test_base_names();
	test_parse();
	test_numbers();
	test_take_place();
	test_sort();
	test_decide();
	test_second_watch();
	test_granted();
	test_count_granted();
	test_blockers();
	test_paths();
	return done_testing();
}
