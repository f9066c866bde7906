/*-------------------------------------------------------------------------
 *
 * waitgraph.c
 *	  Published waits, and cycles among them: pure functions, no I/O, any
 *	  thread.
 *
 * A published wait is text.  Its first line describes the waiter, like the data
 * of its contenders.  Each other line has the name of one of its contenders, a
 * space, and the lock node: it waits for all of them.
 *
 * X5. Each cycle has exactly one victim.  Without local edges it is the waiter
 * that published last, by the zxid.  That one certainly sees the whole cycle:
 * the others' znodes existed when its own was written, and its reads come
 * after the answer.  So one walk after publishing is enough.  A wait in
 * PostgreSQL publishes nothing.  So with local edges it is the last to publish
 * of the waiters that a local edge leads to: they know that a process waits
 * for them, and repeat the walk every 150 ms, or every deadlock_timeout if
 * that is shorter, and less often if it takes long.  They have published, as a
 * waiter in PostgreSQL is waited for in PostgreSQL or holds what is waited
 * for, and every way out of PostgreSQL is a published wait.  They are all of
 * one instance; a cycle with local waits on two instances is not detected.  A
 * backend searches only for cycles whose victim it would be, so it does not
 * miss one by finding another first.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "waitgraph.h"
#include "zk_check.h"

/* A search for a way back to its start; see zk_cycle_find(). */
typedef struct Search
{
	const ZkWaitEdge *edges;
	const int64_t *published;
	int			self;
	bool		local;			/* search for cycles with local edges only */
	int		   *first;			/* by vertex: its first edge, and one more */
	int		   *reached;		/* by vertex: the edge it was reached by, or
								 * -1 */
	int		   *queue;			/* vertices that were reached */
} Search;

/*
 * Returns the length of the first line of a text, without its end.  That of a
 * published wait describes the waiter.
 */
int
zk_wait_line_length(const char *text, int len)
{
	const char *end = len > 0 ? memchr(text, '\n', (size_t) len) : NULL;

	return end != NULL ? (int) (end - text) : len;
}

/*
 * Parses a contender and its lock node.  As any client may have written it,
 * returns false for what could not be read.
 */
static bool
parse_line(const char *line, int len, ZkWaitedFor *lock)
{
	const char *space = len > 0 ? memchr(line, ' ', (size_t) len) : NULL;
	char		name[ZK_NAME_SIZE];

	if (space == NULL || space - line >= (int) sizeof(name))
		return false;
	lock->name = line;
	lock->name_len = (int) (space - line);
	lock->node = space + 1;
	lock->node_len = len - lock->name_len - 1;
	memcpy(name, line, (size_t) lock->name_len);
	name[lock->name_len] = '\0';
	return strlen(name) == (size_t) lock->name_len && zk_contender_check(name) &&
		zk_path_check(lock->node, (size_t) lock->node_len) == NULL;
}

/*
 * Takes the next lock that a published wait is for; *at is the position, 0 at
 * first.  Returns false at the end.
 */
bool
zk_wait_next(const char *text, int len, int *at, ZkWaitedFor *lock)
{
	if (*at == 0)
		*at = zk_wait_line_length(text, len) + 1;
	while (*at < len)
	{
		const char *line = text + *at;
		int			length = zk_wait_line_length(line, len - *at);

		*at += length + 1;
		if (parse_line(line, length, lock))
			return true;
	}
	return false;
}

/* Returns true if the search may take this edge. */
static bool
may_take(const Search *search, const ZkWaitEdge *edge)
{
	bool		older = search->published[edge->to] <
	search->published[search->self];

	if (!search->local)
		return !edge->local && (older || edge->to == search->self);
	if (edge->to == search->self)
		return edge->local;
	return !edge->local || older;
}

/*
 * Finds the shortest way from self to self, breadth first.  Returns its last
 * edge, or -1.
 */
static int
search_back(Search *search, int count)
{
	int			tail = 1;

	for (int i = 0; i < count; i++)
		search->reached[i] = -1;
	search->queue[0] = search->self;
	for (int head = 0; head < tail; head++)
	{
		int			vertex = search->queue[head];

		for (int e = search->first[vertex]; e < search->first[vertex + 1]; e++)
		{
			int			to = search->edges[e].to;

			if (!may_take(search, &search->edges[e]))
				continue;
			if (to == search->self)
				return e;
			if (search->reached[to] >= 0)
				continue;
			search->reached[to] = e;
			search->queue[tail++] = to;
		}
	}
	return -1;
}

/* Writes down the way that ends with this edge.  Returns its length. */
static int
trace(const Search *search, int last, int *cycle)
{
	int			length = 1;

	for (int e = last; search->edges[e].from != search->self;
		 e = search->reached[search->edges[e].from])
		length++;
	for (int i = length - 1, e = last; i >= 0; i--)
	{
		cycle[i] = e;
		e = search->reached[search->edges[e].from];
	}
	return length;
}

/*
 * Finds a cycle whose victim is "self" (X5).  The edges are sorted by "from".
 * published[i] is a zxid, or 0 for a waiter that has not published; count is
 * their number.  Returns the number of edges of the cycle, whose indexes it
 * puts into cycle, which has room for count, from self on; 0 if there is none,
 * -1 if out of memory.
 */
int
zk_cycle_find(const ZkWaitEdge *edges, int edge_count,
			  const int64_t *published, int count, int self, int *cycle)
{
	int		   *memory = malloc(sizeof(int) * 3 * (size_t) (count + 1));
	Search		search = {.edges = edges,.published = published,.self = self};
	int			last = -1;
	int			length;
	int			edge = 0;

	if (memory == NULL)
		return -1;
	search.first = memory;
	search.reached = memory + count + 1;
	search.queue = search.reached + count + 1;
	for (int i = 0; i <= count; i++)
	{
		while (edge < edge_count && edges[edge].from < i)
			edge++;
		search.first[i] = edge;
	}
	for (int local = 0; last < 0 && local <= 1; local++)
	{
		search.local = local == 1;
		last = search_back(&search, count);
	}
	length = last < 0 ? 0 : trace(&search, last, cycle);
	free(memory);
	return length;
}
