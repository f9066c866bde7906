/*-------------------------------------------------------------------------
 *
 * script.c
 *	  What a single backend does with its lock client, act by act.
 *
 * It acquires, waits behind other clients, loses, downgrades, releases, asks,
 * breaks, publishes and ends.  Any of it may fail for want of memory, and then
 * the next act comes; but nothing may hang, and nothing may be left.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "hash.h"
#include "record.h"
#include "script.h"
#include "zk_check.h"
#include "zk_session.h"

#define NEW_ZNODES	"creator"

/* No act may take longer than this. */
#define PATIENCE	SIM_SECONDS(60)

const char *const script_nodes[SCRIPT_NODES] = {
	SCRIPT_ROOT "/a", SCRIPT_ROOT "/deep/down/b", SCRIPT_ROOT "/c"
};

Process    *script_process;
ZkClient   *script_client;

static bool done;

/*-------------------------------------------------------------------------
 * What acts are made of
 *-------------------------------------------------------------------------
 */

char		script_ends[SCRIPT_ENDS];

/* Notes what an act has come to, if there is room: a letter, and a number unless 0. */
static void
note_end(char letter, int number)
{
	size_t		len = strlen(script_ends);

	if (len + 8 > sizeof(script_ends))
		return;
	snprintf(script_ends + len, sizeof(script_ends) - len, number != 0 ? "%c%d" : "%c",
			 letter, number);
}

/* Notes a text by a number, unless it is empty. */
static void
note_text(const char *text)
{
	if (text[0] != '\0')
		note_end('.', (int) (hash_text(text, strlen(text)) % 1000));
}

void
script_note(const ZkContenderStatus *status)
{
	switch (status->state)
	{
		case ZK_HELD:
			note_end('h', 0);
			break;
		case ZK_LOST:
			note_end('l', (int) status->loss);
			break;
		case ZK_GONE:
			note_end(status->recorded ? 'r' : 'g', (int) status->error);
			break;
		default:
			note_end(status->state == ZK_FAILED ? 'f' : 'o', (int) status->error);
			break;
	}
	note_text(status->detail);
	if (status->revoked)
		note_end('!', 0);
	if (status->deadlock)
		note_end('?', 0);
}

/* Notes what an answer says of all that it lists. */
static void
note_listing(const ZkQueueListing *listing)
{
	int			sum = 0;

	for (int i = 0; i < listing->count; i++)
	{
		const ZkQueueMember *member = &listing->members[i];

		sum = (sum * 7 + (int) member->mode * 2 + member->granted + member->own * 3 +
			   member->hidden * 5 + (member->session_id != 0) + (member->data_len > 0) * 9 +
			   (member->data_len > 0 ? member->data[member->data_len - 1] : 0) + member->holders * 11 + member->waiters * 13 +
			   (member->czxid != 0) + (member->ctime_ms != 0) + (member->mzxid != 0) +
			   (member->sequence >= 0) + (member->node != NULL)) % 1000;
	}
	if (listing->error != ZK_OK)
		note_end('e', (int) listing->error);
	else
		note_end('a', listing->count);
	if (listing->count > 0)
		note_end('=', sum);
	if (listing->forbidden > 0)
		note_end('-', listing->forbidden);
	note_text(listing->detail);
	if (listing->record.token != 0)
		note_end('t', 0);
	if (listing->waits > 0)
		note_end('w', listing->waits);
}

void
script_play(const Act *act)
{
	sim_trace("act: %s", act->name);
	script_ends[0] = '\0';
	act->play();
}

void
script_await(Seen seen, void *argument)
{
	if (!await(script_client, seen, argument, PATIENCE))
		sim_violation("liveness", "nothing comes of it");
}

void
script_await_group(Seen seen, const Group *group)
{
	ZkContenderStatus status[SCRIPT_NODES];
	Awaited		awaited = {group->count, group->ids, status, false};

	script_await(seen, &awaited);
	for (int i = 0; i < group->count; i++)
		script_note(&status[i]);
}

/* A request was refused: nothing but memory can have been missing. */
static void
check_reason(ZkError error)
{
	if (error != ZK_ERR_NO_MEMORY)
		sim_violation("reason", "error %d, not %d", (int) error, (int) ZK_ERR_NO_MEMORY);
}

bool
script_request(Group *group, int count, ZkMode mode, bool recorded)
{
	ZkLockRequest wish = {
		.mode = mode,.permits = mode == ZK_PERMIT ? 2 : 0,.owner = SCRIPT_OWNER,
		.root_len = strlen(SCRIPT_ROOT),.record = recorded,
		.lock_delay = recorded ? SCRIPT_LOCK_DELAY : 0
	};
	ZkError		error;

	group->count = count;
	if (zk_contenders_request(script_client, &wish, count,
							  mode == ZK_PERMIT ? script_nodes + 2 : script_nodes,
							  group->ids, &error))
		return true;
	check_reason(error);
	return false;
}

void
script_release(Group *group)
{
	ZkRecord	note = {0};
	ZkContenderStatus status;

	zk_contender_note(script_client, group->ids[0], &note);
	for (int i = 0; i < group->count; i++)
	{
		zk_contender_status(script_client, group->ids[i], &status);
		if (status.state == ZK_LOST || status.revoked)
			script_note(&status);
		zk_contender_release(script_client, group->ids[i]);
	}
	script_await_group(seen_gone, group);
	for (int i = 0; i < group->count; i++)
		zk_contender_abandon(script_client, group->ids[i]);
}

bool
script_commit(const Op *op)
{
	int			err;

	while (!ensemble_commit(op, &err))
		task_sleep(SIM_MS(100));
	return err == ZOK;
}

/* Creates what is above a znode, where it is missing. */
static void
create_above(const char *path)
{
	char		above[ZK_RECORD_PATH_SIZE];
	Op			op = {.kind = OP_CREATE,.path = above,.len = -1};

	for (const char *end = strchr(path + 1, '/'); end != NULL; end = strchr(end + 1, '/'))
	{
		snprintf(above, sizeof(above), "%.*s", (int) (end - path), path);
		script_commit(&op);
	}
}

bool
script_change(OpKind kind, const char *path)
{
	char		owner[] = SCRIPT_OWNER;
	Op			op = {
		.kind = kind,.path = (char *) path,.data = owner,.len = sizeof(owner) - 1,.version = -1
	};

	if (kind == OP_CREATE)
		create_above(path);
	return script_commit(&op);
}

void
script_hold(Group *group, int count, ZkMode mode, bool recorded)
{
	script_request(group, count, mode, recorded);
	script_await_group(seen_end, group);
}

void
script_permit(const char *path, int perms)
{
	struct Id	anyone = {"world", "anyone"};
	struct ACL	entry = {perms, anyone};
	Op			op = {
		.kind = OP_SET_ACL,.path = (char *) path,.version = -1,.acl = {1, &entry}
	};

	script_commit(&op);
}

void
script_create_next(int more, char *path, size_t size)
{
	NodeView	view;
	int			number = 0;

	/* a Stat's version of the children counts creates and deletes */
	if (ensemble_node(script_nodes[0], &view))
		number = (view.stat->cversion + view.stat->numChildren) / 2;

	snprintf(path, size, "%s/_c_x-lock-%010d", script_nodes[0], number + more);
	script_change(OP_CREATE, path);
}

void
script_create_own(const char *path)
{
	ZkSessionStatus status;
	Op			op = {
		.kind = OP_CREATE,.path = (char *) path,.len = -1,.mode = ZOO_EPHEMERAL
	};

	zk_client_status(script_client, &status);
	op.owner = status.session_id;
	if (op.owner != 0)
		script_commit(&op);
}

void
script_downgrade(Group *group)
{
	ZkError		error;
	ZkContenderId shared = zk_contender_reserve(script_client, group->ids[0], &error);

	if (shared == 0)
	{
		check_reason(error);
		return;
	}
	zk_contender_downgrade(script_client, group->ids[0], shared);
	group->ids[0] = shared;
	task_sleep(SIM_SECONDS(1));
}

void
script_take_answer(void)
{
	ZkQueueListing *listing;

	script_await(seen_listing, &listing);
	note_listing(listing);
	zk_queue_free(listing);
}

void
script_ask(ZkQueryKind kind, const char *node)
{
	zk_query_request(script_client, kind, node, kind == ZK_QUERY_TREE ? ".zklock" : NULL);
	script_take_answer();
}

/*-------------------------------------------------------------------------
 * Acts
 *-------------------------------------------------------------------------
 */

static void
acquire_and_release(int count, ZkMode mode, bool recorded)
{
	Group		group;

	if (!script_request(&group, count, mode, recorded))
		return;
	script_await_group(seen_end, &group);
	script_release(&group);
}

static void
acquire(void)
{
	acquire_and_release(1, ZK_EXCLUSIVE, true);
}

static void
acquire_group(void)
{
	acquire_and_release(2, ZK_SHARED, true);
}

static void
acquire_permit(void)
{
	acquire_and_release(1, ZK_PERMIT, false);
}

/* Cancels a wait behind two contenders of other clients. */
static void
cancel_behind(ZkMode mode, const char *first, const char *second)
{
	Group		group;

	script_change(OP_CREATE, first);
	script_change(OP_CREATE, second);
	if (script_request(&group, 1, mode, false))
	{
		task_sleep(SIM_SECONDS(2));
		zk_contender_abandon(script_client, group.ids[0]);
	}
	script_change(OP_DELETE, first);
	script_change(OP_DELETE, second);
}

static void
cancel(void)
{
	cancel_behind(ZK_EXCLUSIVE, SCRIPT_ROOT "/a/other-lock-0000000000",
				  SCRIPT_ROOT "/a/other-lock-0000000001");
}

static void
cancel_permit(void)
{
	cancel_behind(ZK_PERMIT, SCRIPT_ROOT "/c/" SCRIPT_PERMIT "0", SCRIPT_ROOT "/c/" SCRIPT_PERMIT "1");
}

/* Cancels a request before it begins. */
static void
cancel_at_once(void)
{
	Group		group;

	if (!script_request(&group, 2, ZK_SHARED, true))
		return;
	zk_contender_abandon(script_client, group.ids[0]);
	zk_contender_abandon(script_client, group.ids[1]);
}

/* Acquires a lock behind a contender of its own session that it does not know. */
static void
acquire_behind_orphan(void)
{
	script_create_own(SCRIPT_ROOT "/a/" SCRIPT_OTHER);
	acquire_and_release(1, ZK_EXCLUSIVE, false);
}

/* Acquires a lock whose holder has died and left its marker: not before the lock delay. */
static void
acquire_after_death(void)
{
	char		marker[ZK_RECORD_PATH_SIZE + sizeof(SCRIPT_OTHER)];
	ZkContenderStatus status;
	SimTime		began = sim_now();
	Group		group;
	bool		marked;

	zk_record_path(script_nodes[0], strlen(SCRIPT_ROOT), marker);
	strcat(marker, "/" SCRIPT_OTHER);
	marked = script_change(OP_CREATE, marker);
	if (script_request(&group, 1, ZK_EXCLUSIVE, true))
	{
		script_await_group(seen_end, &group);
		zk_contender_status(script_client, group.ids[0], &status);
		if (marked && status.state == ZK_HELD && sim_now() < began + SCRIPT_LOCK_DELAY)
			sim_violation("delay", "the lock is held after %lld us",
						  (long long) (sim_now() - began));
		script_release(&group);
	}
	script_change(OP_DELETE, marker);
}

static void
downgrade(void)
{
	Group		group;

	if (!script_request(&group, 1, ZK_EXCLUSIVE, true))
		return;
	script_await_group(seen_end, &group);
	if (zk_contender_lease_runs(script_client, group.ids[0]))
		script_downgrade(&group);
	script_release(&group);
}

/* The session is suspended for so long that the ensemble ends it. */
static void
lose(void)
{
	Group		group;

	if (!script_request(&group, 1, ZK_EXCLUSIVE, true))
		return;
	script_await_group(seen_end, &group);
	zk_contender_rely_on(script_client, group.ids[0]);
	net_cut(script_process->host, ensemble_host(0));
	task_sleep(SIM_MS(SCRIPT_TIMEOUT_MS) * 3);
	net_join(script_process->host, ensemble_host(0));
	script_release(&group);
}

static void
ask_queue(void)
{
	script_ask(ZK_QUERY_QUEUE, script_nodes[0]);
}

static void
ask_head(void)
{
	script_ask(ZK_QUERY_HEAD, script_nodes[0]);
}

static void
ask_tree(void)
{
	script_ask(ZK_QUERY_TREE, SCRIPT_ROOT);
}

static void
ask_record(void)
{
	zk_record_request(script_client, script_nodes[0], SCRIPT_ROOT);
	script_take_answer();
}

/* Breaks another client's contender, and one that is gone. */
static void
break_other(void)
{
	const char *path = SCRIPT_ROOT "/a/" SCRIPT_OTHER;

	script_change(OP_CREATE, path);
	zk_queue_break(script_client, script_nodes[0], SCRIPT_OTHER, "{\"broken\":{}}", false);
	script_take_answer();
	script_change(OP_DELETE, path);
	zk_queue_break(script_client, script_nodes[0], SCRIPT_OTHER, "{\"broken\":{}}", false);
	script_take_answer();
}

static void
publish(void)
{
	zk_wait_publish(script_client, SCRIPT_WAITS, "x", 1);
	task_sleep(SIM_SECONDS(1));
	script_ask(ZK_QUERY_WAITS, SCRIPT_WAITS);
	zk_wait_withdraw(script_client);
}

const Act	script_acts[SCRIPT_ACTS] = {
	{"acquire", acquire},
	{"acquire a group", acquire_group},
	{"acquire a permit", acquire_permit},
	{"cancel", cancel},
	{"cancel a permit", cancel_permit},
	{"cancel at once", cancel_at_once},
	{"acquire behind an orphan", acquire_behind_orphan},
	{"acquire after a death", acquire_after_death},
	{"downgrade", downgrade},
	{"lose", lose},
	{"ask for the queue", ask_queue},
	{"ask for its head", ask_head},
	{"ask for the tree", ask_tree},
	{"ask for a record", ask_record},
	{"break", break_other},
	{"publish", publish},
};

/*-------------------------------------------------------------------------
 * The world around them
 *-------------------------------------------------------------------------
 */

void
script_start(void)
{
	ZkConfig	config = {
		.servers = "10.0.0.1:2181",.session_timeout_ms = SCRIPT_TIMEOUT_MS,
		.root = SCRIPT_ROOT,.credential = "a b:secret",.acl = NEW_ZNODES
	};
	char		detail[ZK_DETAIL_SIZE];
	ZkError		error;

	while (!zk_acl_check(NEW_ZNODES, detail))
		task_sleep(SIM_SECONDS(1));
	while ((script_client = zk_client_start(&config, &error, detail)) == NULL)
		task_sleep(SIM_SECONDS(1));
}

void
script_stop(void)
{
	zk_client_stop(script_client, 500);
	zk_clients_await_close(10000);
}

static void
stop_for_good(void)
{
	script_stop();
	task_sleep(SIM_SECONDS(10));
	if (!task_is_alone())
		sim_violation("liveness", "a thread of the client remains");
	if (script_process->blocks != NULL)
		sim_violation("memory", "%zu bytes are left", script_process->allocated);
}

static void *
backend_main(void *argument)
{
	void		(*const *part) (void) = argument;
	static const Act starting = {"start", script_start};
	static const Act stopping = {"stop", stop_for_good};

	script_play(&starting);
	(*part) ();
	script_play(&stopping);
	done = true;
	return NULL;
}

void
script_begin(uint64_t seed, const TaskConfig *schedule)
{
	EnsembleConfig config = {
		.servers = 1,.tick_ms = 1000,.init_limit = 10,.sync_limit = 5,
		.container_check = SIM_SECONDS(60)
	};

	sim_begin(seed);
	net_begin();
	ensemble_begin(&config);
	tasks_begin(schedule);
	sim_run(SIM_SECONDS(10));
	script_process = process_make("backend");
}

static void
check_left(const char *name, const NodeView *view, void *argument)
{
	(void) view;
	(void) argument;
	sim_violation("orphans", "%s is left", name);
}

void
script_run(void (*part) (void))
{
	done = false;
	task_start(script_process, "backend", backend_main, &part);
	for (int i = 0; i < 10000 && !done; i++)
		sim_run(sim_now() + SIM_SECONDS(100));
	if (!done)
		sim_violation("liveness", "the backend has not ended");
	for (int i = 0; i < SCRIPT_NODES; i++)
		ensemble_children(script_nodes[i], check_left, NULL);
}

void
script_end(void)
{
	process_kill(script_process);
	ensemble_end();
	net_end();
	sim_end();
	tasks_end();
}
