/*-------------------------------------------------------------------------
 *
 * wait_fuzz.c
 *	  Published waits, and cycles among them (S365).
 *
 * The input is taken for the text of a published wait, and its bytes also for a graph.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"
#include "waitgraph.h"
#include "zk_check.h"

#define MAX_WAITERS	12
#define MAX_EDGES	40

/* Reads the locks of a text.  Writes them as text again, and returns its length. */
static size_t
read_wait(const char *text, size_t size, char *again)
{
	ZkWaitedFor lock;
	size_t		len = 0;
	int			at = 0;
	int			before = 0;

	again[len++] = '\n';
	while (zk_wait_next(text, (int) size, &at, &lock))
	{
		char	   *name;

		CHECK(at > before);
		before = at;
		CHECK(lock.name > text && lock.name + lock.name_len < text + size);
		CHECK(lock.node > lock.name && lock.node + lock.node_len <= text + size);
		name = exact_text(lock.name, (size_t) lock.name_len);
		CHECK(zk_contender_check(name) && strchr(name, ' ') == NULL);
		free(name);
		CHECK(zk_path_check(lock.node, (size_t) lock.node_len) == NULL);

		/* a name, a blank and a path, from the text without a change */
		memcpy(again + len, lock.name, (size_t) (lock.name_len + 1 + lock.node_len));
		len += (size_t) (lock.name_len + 1 + lock.node_len);
		again[len++] = '\n';
	}
	CHECK(!zk_wait_next(text, (int) size, &at, &lock));
	return len;
}

static void
check_wait(const uint8_t *data, size_t size)
{
	char	   *text = exact_copy(data, size);
	char	   *again = malloc(size + 2);
	char	   *third = malloc(size + 3);
	char	   *copy;
	int			line = zk_wait_line_length(text, (int) size);
	size_t		len;

	CHECK(again != NULL && third != NULL);
	CHECK(line >= 0 && (size_t) line <= size && ((size_t) line == size || text[line] == '\n'));
	len = read_wait(text, size, again);
	CHECK(len <= size + 2);
	copy = exact_copy(again, len);
	CHECK(read_wait(copy, len, third) == len && memcmp(third, again, len) == 0);
	free(copy);
	free(third);
	free(again);
	free(text);
}

/* Returns true if there is a way along such edges. */
static bool
leads_to(const ZkWaitEdge *edges, int count, int from, int to)
{
	bool		reached[MAX_WAITERS] = {false};
	bool		more = true;

	for (int i = 0; i < count; i++)
		if (!edges[i].local && edges[i].from == from)
			reached[edges[i].to] = true;
	while (more)
	{
		more = false;
		for (int i = 0; i < count; i++)
			if (!edges[i].local && reached[edges[i].from] && !reached[edges[i].to])
				more = reached[edges[i].to] = true;
	}
	return reached[to];
}

/* A cycle goes from its victim to its victim, which it is by the rules. */
static void
check_cycle(const ZkWaitEdge *edges, const int64_t *published, int self, const int *cycle,
			int length)
{
	bool		local = false;

	CHECK(edges[cycle[0]].from == self && edges[cycle[length - 1]].to == self);
	for (int i = 0; i < length; i++)
	{
		CHECK(i == 0 || edges[cycle[i]].from == edges[cycle[i - 1]].to);
		CHECK(i == 0 || edges[cycle[i]].from != self);
		local |= edges[cycle[i]].local;
	}
	for (int i = 0; i < length; i++)
	{
		const ZkWaitEdge *edge = &edges[cycle[i]];

		CHECK(edge->to == self || published[edge->to] < published[self] || (local && !edge->local));
	}
	CHECK(!local || edges[cycle[length - 1]].local);
}

/*
 * A graph: how many waiters, when each has published, and edges.  Only who has published
 * waits for another cluster's.
 */
static void
check_graph(const uint8_t *data, size_t size)
{
	int			count = size > 0 ? 1 + data[0] % MAX_WAITERS : 0;
	int64_t		published[MAX_WAITERS];
	ZkWaitEdge *edges = malloc(sizeof(ZkWaitEdge) * MAX_EDGES);
	int		   *cycle = malloc(sizeof(int) * (size_t) (count > 0 ? count : 1));
	int			edge_count = 0;
	bool		found = false;
	bool		expected = false;

	CHECK(edges != NULL && cycle != NULL);
	for (int i = 0; i < count; i++)
	{
		int			value = (size_t) i + 1 < size ? data[i + 1] : 0;

		published[i] = value == 0 ? 0 : value * MAX_WAITERS + i;
	}
	for (int from = 0; from < count; from++)
		for (size_t at = (size_t) count + 1; at + 1 < size && edge_count < MAX_EDGES; at += 2)
			if (data[at] % count == from)
				edges[edge_count++] = (ZkWaitEdge)
			{
				.from = from,.to = data[at + 1] % count,
					.local = published[from] == 0 || data[at] >= 128
			};
	for (int self = 0; self < count; self++)
	{
		int			length = zk_cycle_find(edges, edge_count, published, count, self, cycle);

		CHECK(length >= 0 && length <= count);
		if (length > 0)
			check_cycle(edges, published, self, cycle, length);
		found |= length > 0;
		expected |= leads_to(edges, edge_count, self, self);
	}
	CHECK(found || !expected);
	free(cycle);
	free(edges);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_wait(data, size);
	check_graph(data, size);
	return 0;
}
