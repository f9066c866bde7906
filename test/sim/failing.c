/*-------------------------------------------------------------------------
 *
 * failing.c
 *	  Each allocation, thread and descriptor of a lock client fails in turn.
 *
 *	  failing [SEEDS]
 *	  failing SEED COUNT NUMBER
 *
 * One backend does everything that the lock client offers, on a server that
 * works well: it acquires, waits behind other clients, loses, downgrades,
 * releases, asks, breaks, publishes and ends.  This is repeated: the first time the
 * first allocation fails, then the second one, and so on until none is left;
 * then the same with several in a row, and in other orders of threads, one for
 * each of so many seeds (10).  Whatever fails, no call may hang, no contender may
 * be left, and no memory.  With three arguments, prints the trace of one run.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "ensemble.h"
#include "record.h"
#include "task.h"
#include "zk_check.h"
#include "zk_inspect.h"
#include "zk_lock.h"
#include "zk_session.h"

#define ROOT		"/zklock"
#define WAITS		ROOT "/.zklock/waits"
#define TIMEOUT_MS	4000
#define OWNER		"{\"cluster\":\"alpha\",\"pid\":1}"
#define OTHER		"_c_x-lock-0000000000"
#define ACL			"creator"
#define LOCK_DELAY	SIM_MS(100)

/* No step may take longer than this. */
#define PATIENCE	SIM_SECONDS(60)

static const char *const nodes[] = {ROOT "/a", ROOT "/deep/down/b", ROOT "/c"};

static Process *process;
static ZkClient *client;
static uint64_t number;			/* of the first allocation that fails */
static uint64_t in_a_row;
static uint64_t seed;
static bool done;
static const char *step;		/* for reports */

void
sim_violation(const char *rule, const char *fmt,...)
{
	va_list		args;

	fflush(stdout);
	fprintf(stderr, "seed %llu, allocations %llu to %llu: %s: %s: ",
			(unsigned long long) seed, (unsigned long long) number,
			(unsigned long long) (number + in_a_row - 1), step, rule);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/*-------------------------------------------------------------------------
 * Steps of the backend
 *-------------------------------------------------------------------------
 */

/* Waits until it is seen, which must not take long. */
static void
wait_until(Seen seen, void *argument)
{
	if (!await(client, seen, argument, PATIENCE))
		sim_violation("liveness", "nothing comes of it");
}

/* Contenders of one request. */
typedef struct Group
{
	int			count;
	ZkContenderId ids[3];
} Group;

/* Waits for that, of all. */
static void
wait_for_group(Seen seen, const Group *group)
{
	ZkContenderStatus status[3];
	Awaited		awaited = {group->count, group->ids, status, false};

	wait_until(seen, &awaited);
}

static void
begin(const char *what)
{
	step = what;
	sim_trace("step: %s", what);
}

/* A request was refused: nothing but memory can have been missing. */
static void
check_reason(ZkError error)
{
	if (error != ZK_ERR_NO_MEMORY)
		sim_violation("reason", "error %d, not %d", (int) error, (int) ZK_ERR_NO_MEMORY);
}

/* Requests the first locks of the list; false if that fails at once. */
static bool
request(Group *group, int count, ZkMode mode, bool record)
{
	ZkLockRequest wish = {
		.mode = mode,.permits = mode == ZK_PERMIT ? 2 : 0,.owner = OWNER,
		.root_len = strlen(ROOT),.record = record,
		.lock_delay = record ? LOCK_DELAY : 0
	};
	ZkError		error;

	group->count = count;
	if (zk_contenders_request(client, &wish, count, mode == ZK_PERMIT ? nodes + 2 : nodes,
							  group->ids, &error))
		return true;
	check_reason(error);
	return false;
}

static void
release(Group *group)
{
	ZkRecord	note = {0};

	zk_contender_note(client, group->ids[0], &note);
	for (int i = 0; i < group->count; i++)
		zk_contender_release(client, group->ids[i]);
	wait_for_group(seen_gone, group);
	for (int i = 0; i < group->count; i++)
		zk_contender_abandon(client, group->ids[i]);
}

static void
acquire_and_release(const char *what, int count, ZkMode mode, bool record)
{
	Group		group;

	begin(what);
	if (!request(&group, count, mode, record))
		return;
	wait_for_group(seen_end, &group);
	release(&group);
}

/* A znode of another client, which creates or deletes it; false if it cannot. */
static bool
change_other(OpKind kind, const char *path)
{
	char		owner[] = OWNER;
	Op			op = {
		.kind = kind,.path = (char *) path,.data = owner,.len = sizeof(owner) - 1,.version = -1
	};
	int			err;

	ensemble_commit(&op, &err);
	return err == ZOK;
}

/* Cancels a wait behind two contenders of other clients. */
static void
cancel(const char *what, ZkMode mode, const char *first, const char *second)
{
	Group		group;

	begin(what);
	change_other(OP_CREATE, first);
	change_other(OP_CREATE, second);
	if (request(&group, 1, mode, false))
	{
		task_sleep(SIM_SECONDS(2));
		zk_contender_abandon(client, group.ids[0]);
	}
	change_other(OP_DELETE, first);
	change_other(OP_DELETE, second);
}

/* Cancels a request before it begins. */
static void
cancel_at_once(void)
{
	Group		group;

	begin("cancel at once");
	if (!request(&group, 2, ZK_SHARED, true))
		return;
	zk_contender_abandon(client, group.ids[0]);
	zk_contender_abandon(client, group.ids[1]);
}

/* Acquires a lock behind a contender of its own session that it does not know. */
static void
acquire_behind_orphan(void)
{
	ZkSessionStatus status;
	Op			op = {
		.kind = OP_CREATE,.path = ROOT "/a/" OTHER,.len = -1,.mode = ZOO_EPHEMERAL
	};
	int			err;

	zk_client_status(client, &status);
	op.owner = status.session_id;
	if (op.owner != 0)
		ensemble_commit(&op, &err);
	acquire_and_release("acquire behind an orphan", 1, ZK_EXCLUSIVE, false);
}

/* Acquires a lock whose holder has died and left its marker: not before the lock delay. */
static void
acquire_after_death(void)
{
	char		marker[ZK_RECORD_PATH_SIZE + sizeof(OTHER)];
	ZkContenderStatus status;
	SimTime		began = sim_now();
	Group		group;
	bool		marked;

	begin("acquire after a death");
	zk_record_path(nodes[0], strlen(ROOT), marker);
	strcat(marker, "/" OTHER);
	marked = change_other(OP_CREATE, marker);
	if (request(&group, 1, ZK_EXCLUSIVE, true))
	{
		wait_for_group(seen_end, &group);
		zk_contender_status(client, group.ids[0], &status);
		if (marked && status.state == ZK_HELD && sim_now() < began + LOCK_DELAY)
			sim_violation("delay", "the lock is held after %lld us",
						  (long long) (sim_now() - began));
		release(&group);
	}
	change_other(OP_DELETE, marker);
}

static void
downgrade(void)
{
	Group		group;
	ZkError		error;
	ZkContenderId shared;

	begin("downgrade");
	if (!request(&group, 1, ZK_EXCLUSIVE, true))
		return;
	wait_for_group(seen_end, &group);
	if (!zk_contender_lease_runs(client, group.ids[0]))
	{
		release(&group);
		return;
	}
	shared = zk_contender_reserve(client, group.ids[0], &error);
	if (shared == 0)
		check_reason(error);
	else
	{
		zk_contender_downgrade(client, group.ids[0], shared);
		group.ids[0] = shared;
		task_sleep(SIM_SECONDS(1));
	}
	release(&group);
}

/* The session is suspended for so long that the ensemble ends it. */
static void
lose(void)
{
	Group		group;

	begin("loss");
	if (!request(&group, 1, ZK_EXCLUSIVE, true))
		return;
	wait_for_group(seen_end, &group);
	zk_contender_rely_on(client, group.ids[0]);
	net_cut(process->host, ensemble_host(0));
	task_sleep(SIM_MS(TIMEOUT_MS) * 3);
	net_join(process->host, ensemble_host(0));
	release(&group);
}

static void
ask(const char *what, ZkQueryKind kind, const char *node)
{
	ZkQueueListing *listing;

	begin(what);
	if (kind == ZK_QUERY_RECORD)
		zk_record_request(client, node, ROOT);
	else if (kind == ZK_QUERY_BREAK)
		zk_queue_break(client, node, OTHER, "{\"broken\":{}}", false);
	else
		zk_query_request(client, kind, node, kind == ZK_QUERY_TREE ? ".zklock" : NULL);
	wait_until(seen_listing, &listing);
	zk_queue_free(listing);
}

/* Breaks another client's contender, and one that is gone. */
static void
break_other(void)
{
	const char *path = ROOT "/a/" OTHER;

	change_other(OP_CREATE, path);
	ask("break", ZK_QUERY_BREAK, nodes[0]);
	change_other(OP_DELETE, path);
	ask("break again", ZK_QUERY_BREAK, nodes[0]);
}

static void
publish(void)
{
	begin("publish");
	zk_wait_publish(client, WAITS, "x", 1);
	task_sleep(SIM_SECONDS(1));
	ask("waits", ZK_QUERY_WAITS, WAITS);
	zk_wait_withdraw(client);
}

static void *
backend_main(void *argument)
{
	ZkConfig	config = {
		.servers = "10.0.0.1:2181",.session_timeout_ms = TIMEOUT_MS,.root = ROOT,
		.credential = "a b:secret",.acl = ACL
	};
	char		detail[ZK_DETAIL_SIZE];
	ZkError		error;

	(void) argument;
	begin("start");
	while (!zk_acl_check(ACL, detail))
		task_sleep(SIM_SECONDS(1));
	while ((client = zk_client_start(&config, &error, detail)) == NULL)
		task_sleep(SIM_SECONDS(1));
	acquire_and_release("acquire", 1, ZK_EXCLUSIVE, true);
	acquire_and_release("acquire a group", 2, ZK_SHARED, true);
	acquire_and_release("acquire a permit", 1, ZK_PERMIT, false);
	cancel("cancel", ZK_EXCLUSIVE, ROOT "/a/other-lock-0000000000", ROOT "/a/other-lock-0000000001");
	cancel("cancel a permit", ZK_PERMIT, ROOT "/c/_c_x-sem2-0000000000", ROOT "/c/_c_x-sem2-0000000001");
	cancel_at_once();
	acquire_behind_orphan();
	acquire_after_death();
	downgrade();
	lose();
	ask("queue", ZK_QUERY_QUEUE, nodes[0]);
	ask("head", ZK_QUERY_HEAD, nodes[0]);
	ask("tree", ZK_QUERY_TREE, ROOT);
	ask("record", ZK_QUERY_RECORD, nodes[0]);
	break_other();
	publish();
	begin("stop");
	zk_client_stop(client, 500);
	zk_clients_await_close(10000);
	task_sleep(SIM_SECONDS(10));
	if (!task_is_alone())
		sim_violation("liveness", "a thread of the client remains");
	if (process->blocks != NULL)
		sim_violation("memory", "%zu bytes are left", process->allocated);
	done = true;
	return NULL;
}

/*-------------------------------------------------------------------------
 * One run for each allocation
 *-------------------------------------------------------------------------
 */

static void
check_left(const char *name, const NodeView *view, void *argument)
{
	(void) view;
	(void) argument;
	sim_violation("orphans", "%s is left", name);
}

/* Runs all of it; returns how many allocations there were. */
static uint64_t
run(void)
{
	EnsembleConfig config = {
		.servers = 1,.tick_ms = 1000,.init_limit = 10,.sync_limit = 5,.container_check = SIM_SECONDS(60)
	};
	TaskConfig	schedule = {.preempt_one_in = 10,.wake = 50};
	uint64_t	allocations;

	sim_begin(seed);
	net_begin();
	ensemble_begin(&config);
	tasks_begin(&schedule);
	sim_run(SIM_SECONDS(10));
	done = false;
	process = process_make("backend");
	process->fail_from = number;
	process->fail_count = in_a_row;
	task_start(process, "backend", backend_main, NULL);
	sim_run(SIM_SECONDS(1000));
	if (!done)
		sim_violation("liveness", "the backend has not ended");
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		ensemble_children(nodes[i], check_left, NULL);
	allocations = process->allocations;
	process_kill(process);
	ensemble_end();
	net_end();
	sim_end();
	tasks_end();
	return allocations;
}

int
main(int argc, char **argv)
{
	static const uint64_t counts[] = {1, 2, 5, 25};
	uint64_t	seeds = argc == 2 ? strtoull(argv[1], NULL, 10) : 10;
	uint64_t	runs = 0;

	if (argc == 4)
	{
		sim_tracing = true;
		seed = strtoull(argv[1], NULL, 10);
		in_a_row = strtoull(argv[2], NULL, 10);
		number = strtoull(argv[3], NULL, 10);
		run();
		return 0;
	}
	for (seed = 1; seed <= seeds; seed++)
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		{
			in_a_row = counts[i];
			for (number = 1; run() >= number; number++)
				runs++;
		}
	printf("%llu runs, in each of which other allocations failed\n",
		   (unsigned long long) runs);
	return 0;
}
