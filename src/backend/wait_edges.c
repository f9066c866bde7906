/*-------------------------------------------------------------------------
 *
 * wait_edges.c
 *	  The graph of waits, as far as it can be seen from here.
 *
 * It has two sources.  Published waits in ZooKeeper, with the queues concerned,
 * show which ZooKeeper session waits for which (reader.c of the lock
 * client); PostgreSQL's lock manager shows the same for the processes of this
 * instance.  Contenders' data connects ZooKeeper sessions with processes.  Only
 * what can be reached from this backend is examined.
 *
 * X3. Edges.  In a queue an exclusive contender waits for all that are ahead,
 * a shared one for the nearest exclusive one and all ahead of that.  That is
 * the transitive closure, so plain waiters in between, which publish nothing,
 * do no harm.  Those ahead are known if they are holders, from their Stat and
 * data, or have published.  A call waits for all of its locks, so a cycle
 * through any of them is a deadlock.  A process of this instance that holds a
 * lock and does not wait in ZooKeeper may wait in PostgreSQL;
 * pg_blocking_pids() tells for which processes.  "Instance" and pid, in the
 * data of contenders and waits, connect the two worlds.
 *
 * X7. Any client of the ensemble may have written what is read.  It is limited
 * (2000 waits, 20000 znodes, 8 MB), parsed with that in mind, and converted and
 * cleaned before it is shown.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "queue.h"
#include "zklock.h"
#include "owner.h"
#include "wait_edges.h"
#include "waitgraph.h"

/* Most edges of the graph. */
#define MAX_EDGES	20000

/* A party that waits, or is waited for. */
typedef struct Vertex
{
	Waiter		waiter;
	int			wait;			/* what it publishes: member of the listing;
								 * or -1 */
} Vertex;

/* What an edge is known by. */
typedef struct Fact
{
	int			contender;		/* members of the listing */
	int			ahead;
	int			queue;			/* first member of their queue */
	LOCKTAG		tag;			/* of a local edge */
	LOCKMODE	lock_mode;
	TimestampTz since;
} Fact;

/* The graph as it grows. */
typedef struct Graph
{
	const ZkQueueListing *listing;
	ZkQueueEntry *entries;		/* by member: the contender's name */
	int		   *owners;			/* by member: the wait that it belongs to; or
								 * -1 */
	int			vertex_count;
	int			vertex_capacity;
	Vertex	   *vertices;
	int			edge_count;
	ZkWaitEdge *edges;			/* sorted by "from"; room for MAX_EDGES */
	Fact	   *facts;			/* of each edge */
} Graph;

/* Returns true if a process seems to wait for a PostgreSQL lock of ours. */
bool
zklock_waited_for_locally(void)
{
	bool		found = false;

	for (int i = 0; i < NUM_LOCK_PARTITIONS && !found; i++)
	{
		LWLock	   *partition = LockHashPartitionLockByIndex(i);

		LWLockAcquire(partition, LW_SHARED);
		for (PROCLOCK *lock = proc_first_lock(MyProc, i);
			 lock != NULL && !found; lock = proc_next_lock(MyProc, i, lock))
			found = lock->holdMask != 0 && lock->tag.myLock->nRequested >
				lock->tag.myLock->nGranted;
		LWLockRelease(partition);
	}
	return found;
}

/* Returns the process of this instance that data is of; 0 if of another one. */
static int
local_pid(const char *data, int length)
{
	const char *instance = zklock_instance();
	Datum		values[OWNER_FIELDS];
	bool		nulls[OWNER_FIELDS];

	if (data == NULL ||
		memmem(data, length, instance, strlen(instance)) == NULL)
		return 0;
	zklock_owner_fields(data, length, values, nulls);
	if (nulls[OWNER_PID] || nulls[OWNER_INSTANCE] ||
		strcmp(TextDatumGetCString(values[OWNER_INSTANCE]), instance) != 0)
		return 0;
	return DatumGetInt32(values[OWNER_PID]);
}

/* Adds a vertex; returns its number. */
static int
add_vertex(Graph *graph, const Waiter *waiter, int wait)
{
	if (graph->vertex_count == graph->vertex_capacity)
	{
		graph->vertex_capacity *= 2;
		graph->vertices = repalloc(graph->vertices,
								   graph->vertex_capacity * sizeof(Vertex));
	}
	graph->vertices[graph->vertex_count].waiter = *waiter;
	graph->vertices[graph->vertex_count].wait = wait;
	return graph->vertex_count++;
}

/* Returns the vertex of a published wait. */
static int
vertex_of_wait(Graph *graph, int wait)
{
	const ZkQueueMember *member = &graph->listing->members[wait];
	Waiter		waiter = {0};

	for (int i = 0; i < graph->vertex_count; i++)
		if (graph->vertices[i].wait == wait)
			return i;
	waiter.session_id = member->session_id;
	waiter.mzxid = member->mzxid;
	waiter.owner = member->data;
	waiter.owner_length = zk_wait_line_length(member->data, member->data_len);
	waiter.pid = local_pid(waiter.owner, waiter.owner_length);
	return add_vertex(graph, &waiter, wait);
}

/*
 * Returns the vertex of a process of this instance, that of its published wait
 * if any. contender, if not NULL, is one of its own.
 */
static int
vertex_of_process(Graph *graph, int pid, const ZkQueueMember *contender)
{
	Waiter		waiter = {.pid = pid};

	for (int i = 0; i < graph->vertex_count; i++)
		if (graph->vertices[i].waiter.pid == pid)
			return i;
	for (int i = 0; i < graph->listing->waits; i++)
	{
		const ZkQueueMember *member = &graph->listing->members[i];

		if (local_pid(member->data,
					  zk_wait_line_length(member->data, member->data_len)) == pid)
			return vertex_of_wait(graph, i);
	}
	if (contender != NULL)
	{
		waiter.session_id = contender->session_id;
		waiter.owner = contender->data;
		waiter.owner_length = contender->data_len;
	}
	return add_vertex(graph, &waiter, -1);
}

/* Returns the vertex of a contender's owner; -1 if its waits are unknown. */
static int
vertex_of_contender(Graph *graph, int which)
{
	const ZkQueueMember *contender = &graph->listing->members[which];
	int			pid;

	if (graph->owners[which] >= 0)
		return vertex_of_wait(graph, graph->owners[which]);
	if (contender->session_id == 0)
		return -1;
	for (int i = 0; i < graph->listing->waits; i++)
		if (graph->listing->members[i].session_id == contender->session_id)
			return vertex_of_wait(graph, i);
	pid = local_pid(contender->data, contender->data_len);
	return pid == 0 ? -1 : vertex_of_process(graph, pid, contender);
}

/* Adds an edge, if there are not too many. */
static void
add_edge(Graph *graph, int from, int to, bool local, const Fact *fact)
{
	ZkWaitEdge *edge;

	if (graph->edge_count == MAX_EDGES)
		return;
	graph->facts[graph->edge_count] = *fact;
	edge = &graph->edges[graph->edge_count++];
	edge->from = from;
	edge->to = to;
	edge->local = local;
}

/* Finds the member of a contender, and the first of its queue; or -1. */
static int
find_contender(const Graph *graph, const ZkWaitedFor *lock, int *queue)
{
	const ZkQueueListing *listing = graph->listing;
	bool		right = false;

	for (int i = listing->waits; i < listing->count; i++)
	{
		const ZkQueueMember *member = &listing->members[i];

		if (member->node != NULL)
		{
			if (right)
				break;
			right = strlen(member->node) == (size_t) lock->node_len &&
				memcmp(member->node, lock->node, lock->node_len) == 0;
			*queue = i;
		}
		if (right && strlen(member->name) == (size_t) lock->name_len &&
			memcmp(member->name, lock->name, lock->name_len) == 0)
			return i;
	}
	return -1;
}

/* Adds the edges of a published wait. */
static void
add_published(Graph *graph, int vertex)
{
	const ZkQueueMember *wait =
	&graph->listing->members[graph->vertices[vertex].wait];
	ZkWaitedFor lock;
	int			at = 0;

	while (zk_wait_next(wait->data, wait->data_len, &at, &lock))
	{
		Fact		fact = {0};
		int			blockers = 0;

		fact.contender = find_contender(graph, &lock, &fact.queue);
		if (fact.contender >= 0)
			blockers = zk_queue_blockers(&graph->entries[fact.queue],
										 fact.contender - fact.queue);
		for (int i = 0; i < blockers; i++)
		{
			int			to;

			fact.ahead = fact.queue + i;
			to = vertex_of_contender(graph, fact.ahead);
			if (to >= 0 && to != vertex)
				add_edge(graph, vertex, to, false, &fact);
		}
	}
}

/* Finds what a process certainly waits for in PostgreSQL, since when. */
static bool
find_local_wait(int pid, Fact *fact)
{
	PGPROC	   *proc = BackendPidGetProc(pid);
	BlockedProcsData *blocked;

	if (proc == NULL)
		return false;
	fact->since = pg_atomic_read_u64(&proc->waitStart);
	if (fact->since == 0)
		return false;
	blocked = GetBlockerStatusData(pid);
	for (int i = 0; i < blocked->nlocks; i++)
	{
		const LockInstanceData *lock = &blocked->locks[i];

		if (lock->pid != pid || lock->waitLockMode == NoLock)
			continue;
		fact->tag = lock->locktag;
		fact->lock_mode = lock->waitLockMode;
		return true;
	}
	return false;
}

/* Adds the edges of a process that waits in PostgreSQL. */
static void
add_local(Graph *graph, int vertex)
{
	int			pid = graph->vertices[vertex].waiter.pid;
	Fact		fact = {0};
	ArrayType  *blockers;
	int32	   *pids;
	int			count;

	if (!find_local_wait(pid, &fact))
		return;
	blockers = DatumGetArrayTypeP(DirectFunctionCall1(pg_blocking_pids,
													  Int32GetDatum(pid)));
	count = ArrayGetNItems(ARR_NDIM(blockers), ARR_DIMS(blockers));
	pids = (int32 *) ARR_DATA_PTR(blockers);
	for (int i = 0; i < count; i++)
		if (pids[i] != 0)		/* a prepared transaction */
			add_edge(graph, vertex, vertex_of_process(graph, pids[i], NULL),
					 true, &fact);
}

/* Makes the graph of a listing, without edges. */
static void
init_graph(Graph *graph, const ZkQueueListing *listing)
{
	memset(graph, 0, sizeof(*graph));
	graph->listing = listing;
	graph->entries = palloc0((listing->count + 1) * sizeof(ZkQueueEntry));
	graph->owners = palloc((listing->count + 1) * sizeof(int));
	graph->vertex_capacity = 64;
	graph->vertices = palloc(graph->vertex_capacity * sizeof(Vertex));
	graph->edges = palloc(MAX_EDGES * sizeof(ZkWaitEdge));
	graph->facts = palloc(MAX_EDGES * sizeof(Fact));
	for (int i = 0; i < listing->count; i++)
	{
		graph->owners[i] = -1;
		if (i >= listing->waits)
			(void) zk_queue_parse(listing->members[i].name, &graph->entries[i]);
	}
	for (int i = 0; i < listing->waits; i++)
	{
		const ZkQueueMember *wait = &listing->members[i];
		ZkWaitedFor lock;
		int			at = 0;
		int			queue;

		while (zk_wait_next(wait->data, wait->data_len, &at, &lock))
		{
			int			contender = find_contender(graph, &lock, &queue);

			if (contender >= 0)
				graph->owners[contender] = i;
		}
	}
}

/* Copies a waiter out of the listing. */
static Waiter
copy_waiter(const Waiter *waiter)
{
	Waiter		copy = *waiter;

	if (waiter->owner != NULL)
		copy.owner = pnstrdup(waiter->owner, waiter->owner_length);
	return copy;
}

/* Makes a cycle from its edges. */
static WaitCycle *
make_cycle(const Graph *graph, const int *edges, int count)
{
	WaitCycle  *cycle = palloc(sizeof(WaitCycle));
	const ZkQueueMember *members = graph->listing->members;

	cycle->count = count;
	cycle->steps = palloc0(count * sizeof(WaitStep));
	for (int i = 0; i < count; i++)
	{
		const ZkWaitEdge *edge = &graph->edges[edges[i]];
		const Fact *fact = &graph->facts[edges[i]];
		WaitStep   *step = &cycle->steps[i];

		step->waiter = copy_waiter(&graph->vertices[edge->from].waiter);
		step->blocker = copy_waiter(&graph->vertices[edge->to].waiter);
		step->local = edge->local;
		step->tag = fact->tag;
		step->lock_mode = fact->lock_mode;
		step->since = fact->since;
		if (edge->local)
			continue;
		step->node = pstrdup(members[fact->queue].node);
		step->contender = pstrdup(members[fact->contender].name);
		step->ahead = pstrdup(members[fact->ahead].name);
		step->mode = members[fact->contender].mode;
		step->held = members[fact->ahead].session_id != 0;
	}
	return cycle;
}

/*
 * Finds a cycle whose victim is this backend (zk_cycle_find), with that
 * ZooKeeper session and its wait published at that zxid; palloc'd.  Returns
 * NULL if there is none, or if the listing lacks that wait.  Throws 53200.
 */
WaitCycle *
zklock_find_cycle(const ZkQueueListing *listing, int64 session_id, int64 zxid)
{
	Graph		graph;
	int64	   *published;
	int		   *edges;
	int			count;
	int			self = -1;

	for (int i = 0; i < listing->waits; i++)
		if (listing->members[i].session_id == session_id &&
			listing->members[i].mzxid == zxid)
			self = i;
	if (self < 0)
		return NULL;
	init_graph(&graph, listing);
	self = vertex_of_wait(&graph, self);
	for (int i = 0; i < graph.vertex_count; i++)
	{
		if (graph.vertices[i].wait >= 0)
			add_published(&graph, i);
		else
			add_local(&graph, i);
	}
	published = palloc(graph.vertex_count * sizeof(int64));
	edges = palloc(graph.vertex_count * sizeof(int));
	for (int i = 0; i < graph.vertex_count; i++)
		published[i] = graph.vertices[i].waiter.mzxid;
	count = zk_cycle_find(graph.edges, graph.edge_count, published,
						  graph.vertex_count, self, edges);
	if (count < 0)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	return count > 0 ? make_cycle(&graph, edges, count) : NULL;
}

/* Returns true for the same waiter, if it has waited without a break. */
static bool
same_waiter(const Waiter *a, const Waiter *b)
{
	return a->session_id == b->session_id && a->mzxid == b->mzxid &&
		a->pid == b->pid;
}

/* Returns true if two readings show the same cycle, in each fact. */
bool
zklock_same_cycle(const WaitCycle *a, const WaitCycle *b)
{
	if (a->count != b->count)
		return false;
	for (int i = 0; i < a->count; i++)
	{
		const WaitStep *x = &a->steps[i];
		const WaitStep *y = &b->steps[i];

		if (x->local != y->local || !same_waiter(&x->waiter, &y->waiter) ||
			!same_waiter(&x->blocker, &y->blocker))
			return false;
		if (x->local ? x->since != y->since || x->lock_mode != y->lock_mode ||
			memcmp(&x->tag, &y->tag, sizeof(LOCKTAG)) != 0 :
			strcmp(x->node, y->node) != 0 ||
			strcmp(x->contender, y->contender) != 0 ||
			strcmp(x->ahead, y->ahead) != 0)
			return false;
	}
	return true;
}
