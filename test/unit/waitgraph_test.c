/*-------------------------------------------------------------------------
 *
 * waitgraph_test.c
 *	  Tests of waitgraph.c: published waits taken apart, and cycles with their
 *	  victims (S72, S73).
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "random.h"
#include "tap.h"
#include "waitgraph.h"

#define lengthof(array) ((int) (sizeof(array) / sizeof((array)[0])))

#define ALICE	"_c_ffffffff-0000-4000-8000-000000000000-lock-0000000001"
#define BOB		"_c_aaaaaaaa-0000-4000-8000-000000000000-__READ__0000000002"

/* ---------- text ---------- */

typedef struct TextCase
{
	const char *what;
	const char *text;
	const char *locks;			/* "name node;" for each */
} TextCase;

static const TextCase text_cases[] = {
	{"nothing", "", ""},
	{"only who it is", "{}", ""},
	{"a line that is no end", "{}\n", ""},
	{"one lock", "{}\n" ALICE " /a\n", ALICE " /a;"},
	{"without the last end of a line", "{}\n" ALICE " /a", ALICE " /a;"},
	{"two", "{}\n" ALICE " /a\n" BOB " /a/b\n", ALICE " /a;" BOB " /a/b;"},
	{"a blank in a path", "{}\n" ALICE " /a b\n", ALICE " /a b;"},
	{"the first line is never one", ALICE " /a\n" BOB " /b\n", BOB " /b;"},
	{"an empty line", "{}\n\n" BOB " /b\n", BOB " /b;"},
	{"no contender", "{}\nx /a\n" BOB " /b\n", BOB " /b;"},
	{"no node", "{}\n" ALICE "\n" ALICE " \n" BOB " /b\n", BOB " /b;"},
	{"no path", "{}\n" ALICE " a\n" ALICE " /\n" ALICE " /a/\n" ALICE " /" "/\n", ""},
	{"a path in a name", "{}\n../lock-0000000001 /a\n", ""},
	{"a name that is too long", "{}\n"
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	"lock-0000000001 /a\n", ""},
	{"ZooKeeper's own", "{}\n" ALICE " /zookeeper/a\n", ""}
};

/* Take a text apart into a string as text_cases has them. */
static void
join(const char *text, int len, char *result, size_t size)
{
	ZkWaitedFor lock;
	size_t		used = 0;
	int			at = 0;

	result[0] = '\0';
	while (zk_wait_next(text, len, &at, &lock))
		used += (size_t) snprintf(result + used, size - used, "%.*s %.*s;",
								  lock.name_len, lock.name, lock.node_len,
								  lock.node);
}

static void
test_text(void)
{
	static const char zero[] = "{}\n" ALICE "\0 /a\n" BOB " /b\n";
	char		result[1024];

	for (int i = 0; i < lengthof(text_cases); i++)
	{
		/* a copy without a NUL behind it, so that a sanitizer sees an overrun */
		size_t		len = strlen(text_cases[i].text);
		char	   *text = malloc(len + (len == 0));

		memcpy(text, text_cases[i].text, len);
		join(text, (int) len, result, sizeof(result));
		is_str(result, text_cases[i].locks, "a published wait: %s",
			   text_cases[i].what);
		free(text);
	}
	join(zero, sizeof(zero) - 1, result, sizeof(result));
	is_str(result, BOB " /b;", "a published wait: a zero byte in a name");
	is_int(zk_wait_line_length("{}\nx", 4), 2, "an owner");
	is_int(zk_wait_line_length("{}", 2), 2, "an owner, and nothing else");
	is_int(zk_wait_line_length("", 0), 0, "or nothing");
}

/* ---------- cycles ---------- */

typedef struct CycleCase
{
	const char *what;
	const char *edges;			/* "ab" a waits for b, "aB" locally; sorted */
	const char *published;		/* in this order, those that have */
	const char *victims;		/* of a cycle, each */
} CycleCase;

static const CycleCase cycle_cases[] = {
	{"none", "", "a", ""},
	{"a chain", "ab bc", "abc", ""},
	{"two", "ab ba", "ab", "b"},
	{"two, the other way", "ab ba", "ba", "a"},
	{"three", "ab bc ca", "bca", "a"},
	{"one behind a cycle", "ab ba ca", "abc", "b"},
	{"two cycles with a common edge", "ab bc ba ca", "abc", "bc"},
	{"a way out of a younger one's", "ab ba bc ca", "acb", "b"},
	{"through PostgreSQL", "ab bA", "a", "a"},
	{"a chain in PostgreSQL", "ab bC cA", "a", "a"},
	{"through another cluster", "ab bc cA", "ab", "a"},
	{"twice through PostgreSQL", "ab bC cd dA", "ac", "c"},
	{"twice, the other way", "ab bC cd dA", "ca", "a"},
	{"the younger is not waited for locally", "ab bc cA", "ba", "a"},
	{"PostgreSQL on one side", "aB ba", "b", "b"}
};

/* Build a graph of up to 26 vertices.  Returns how many edges it has. */
static int
build(const CycleCase *test, ZkWaitEdge *edges, int64_t *published)
{
	int			count = 0;

	memset(published, 0, sizeof(int64_t) * 26);
	for (int i = 0; test->published[i] != '\0'; i++)
		published[test->published[i] - 'a'] = 100 + i;
	for (const char *c = test->edges; *c != '\0'; c += c[2] == ' ' ? 3 : 2)
	{
		edges[count].from = c[0] - 'a';
		edges[count].local = c[1] < 'a';
		edges[count++].to = c[1] - (c[1] < 'a' ? 'A' : 'a');
	}
	return count;
}

/* Do these edges lead from self back to it? */
static bool
closed(const ZkWaitEdge *edges, const int *cycle, int length, int self)
{
	int			at = self;

	for (int i = 0; i < length; i++)
	{
		if (edges[cycle[i]].from != at)
			return false;
		at = edges[cycle[i]].to;
	}
	return at == self;
}

static void
test_cycles(void)
{
	for (int i = 0; i < lengthof(cycle_cases); i++)
	{
		const CycleCase *test = &cycle_cases[i];
		ZkWaitEdge	edges[26];
		int64_t		published[26];
		int			cycle[26];
		int			count = build(test, edges, published);
		char		victims[27] = "";
		bool		good = true;

		for (int self = 0; self < 26; self++)
		{
			int			length;

			if (published[self] == 0)
				continue;
			length = zk_cycle_find(edges, count, published, 26, self, cycle);
			if (length == 0)
				continue;
			sprintf(victims + strlen(victims), "%c", 'a' + self);
			good &= closed(edges, cycle, length, self);
		}
		is_str(victims, test->victims, "victims: %s", test->what);
		ok(good, "the result is a cycle: %s", test->what);
	}
}

/* ---------- at random, against a plain search of everything ---------- */

#define VERTICES	7

typedef struct Plain
{
	const ZkWaitEdge *edges;
	int			count;
	const int64_t *published;
	int			way[VERTICES];	/* edges from the first vertex on */
	bool		victim[VERTICES];
} Plain;

/* Whose cycle is it, by the definition? */
static int
victim_of(const Plain *plain, int length)
{
	bool		local = false;
	int			victim = -1;

	for (int i = 0; i < length; i++)
		local |= plain->edges[plain->way[i]].local;
	for (int i = 0; i < length; i++)
	{
		const ZkWaitEdge *edge = &plain->edges[plain->way[i]];

		if (plain->published[edge->to] != 0 && (!local || edge->local) &&
			(victim < 0 ||
			 plain->published[edge->to] > plain->published[victim]))
			victim = edge->to;
	}
	return victim;
}

/* Follow every way that visits no vertex twice. */
static void
follow(Plain *plain, int start, int at, unsigned visited, int length)
{
	for (int e = 0; e < plain->count; e++)
	{
		int			to = plain->edges[e].to;

		if (plain->edges[e].from != at)
			continue;
		plain->way[length] = e;
		if (to == start)
			plain->victim[victim_of(plain, length + 1)] = true;
		else if ((visited & (1u << to)) == 0)
			follow(plain, start, to, visited | 1u << to, length + 1);
	}
}

/*
 * A possible graph: some sessions have published waits in ZooKeeper, others wait
 * in PostgreSQL.  Some wait for nothing.
 */
static int
random_graph(ZkWaitEdge *edges, int64_t *published)
{
	int			count = 0;

	for (int v = 0; v < VERTICES; v++)
	{
		published[v] = random_below(3) > 0 ? 1 + v * 7 % 11 + 20 * random_below(50) : 0;
		for (int i = 0; i < v; i++)
			if (published[i] == published[v])
				published[v] = 0;
		for (int to = 0; to < VERTICES; to++)
			if (to != v && random_below(4) == 0)
				edges[count++] = (ZkWaitEdge)
			{
				v, to, published[v] == 0
			};
	}
	return count;
}

static void
test_random(void)
{
	int			wrong = 0;
	int			cycles = 0;

	seed_random(1);
	for (int round = 0; round < 20000; round++)
	{
		ZkWaitEdge	edges[VERTICES * VERTICES];
		int64_t		published[VERTICES];
		int			cycle[VERTICES];
		Plain		plain = {.edges = edges,.published = published};

		plain.count = random_graph(edges, published);
		for (int v = 0; v < VERTICES; v++)
			if (published[v] != 0)
				follow(&plain, v, v, 1u << v, 0);
		for (int v = 0; v < VERTICES; v++)
		{
			int			length = published[v] == 0 ? 0 :
			zk_cycle_find(edges, plain.count, published, VERTICES, v, cycle);

			cycles += length > 0;
			if ((length > 0) != plain.victim[v] ||
				!closed(edges, cycle, length, v))
				wrong++;
		}
	}
	is_int(wrong, 0, "at random: the right session finds the cycle");
	ok(cycles > 1000, "at random: there were cycles");
}

int
main(void)
{
	test_text();
	test_cycles();
	test_random();
	return done_testing();
}
