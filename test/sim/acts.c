/*-------------------------------------------------------------------------
 *
 * acts.c
 *	  Further acts of a single backend: what others do to it, and what takes long.
 *
 * None of them may fail for want of memory.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "own_watch.h"
#include "record.h"
#include "script.h"
#include "zk_record.h"
#include "zk_session.h"

static const char *const ahead[] = {
	SCRIPT_ROOT "/a/_c_x-lock-0000000000", SCRIPT_ROOT "/a/_c_y-lock-0000000001",
	SCRIPT_ROOT "/a/_c_z-lock-0000000002"
};

/* Holds the first locks for a minute. */
static void
hold_long(int count, bool recorded)
{
	Group		group;

	script_hold(&group, count, ZK_EXCLUSIVE, recorded);
	task_sleep(SIM_SECONDS(60));
	script_release(&group);
}

static void
acquire_bare(void)
{
	Group		group;

	script_hold(&group, 1, ZK_EXCLUSIVE, false);
	script_release(&group);
}

static void
acquire_below_new(void)
{
	Group		group;

	script_change(OP_DELETE, script_nodes[1]);
	script_change(OP_DELETE, SCRIPT_ROOT "/deep/down");
	script_change(OP_DELETE, SCRIPT_ROOT "/deep");
	script_hold(&group, 2, ZK_SHARED, false);
	script_release(&group);
}

static void
hold_one(void)
{
	hold_long(1, false);
}

static void
hold_three(void)
{
	hold_long(3, true);
}

static void
idle(void)
{
	task_sleep(SIM_SECONDS(60));
}

/* Waits behind the first of other clients, until each of them goes, in this order. */
static void
wait_behind(int count, const int *order, ZkMode mode, bool recorded)
{
	Group		group;

	for (int i = 0; i < count; i++)
		script_change(OP_CREATE, ahead[i]);
	script_request(&group, 1, mode, recorded);
	for (int i = 0; i < count; i++)
	{
		task_sleep(SIM_SECONDS(3));
		script_change(OP_DELETE, ahead[order[i]]);
	}
	script_await_group(seen_end, &group);
	script_release(&group);
}

static void
wait_for_one(void)
{
	static const int order[] = {0};

	wait_behind(1, order, ZK_EXCLUSIVE, false);
}

static void
wait_with_record(void)
{
	static const int order[] = {0};

	wait_behind(1, order, ZK_EXCLUSIVE, true);
}

static void
wait_for_three(void)
{
	static const int order[] = {0, 1, 2};

	wait_behind(3, order, ZK_EXCLUSIVE, false);
}

static void
wait_for_nearest(void)
{
	static const int order[] = {2, 1, 0};

	wait_behind(3, order, ZK_SHARED, false);
}

static void
wait_for_second(void)
{
	static const int order[] = {1, 0, 2};

	wait_behind(3, order, ZK_EXCLUSIVE, true);
}

/* Waits for so long that only what a waiter does all the time counts. */
static void
wait_long(void)
{
	Group		group;

	script_change(OP_CREATE, ahead[0]);
	script_request(&group, 1, ZK_EXCLUSIVE, false);
	task_sleep(SIM_SECONDS(60));
	script_change(OP_DELETE, ahead[0]);
	script_await_group(seen_end, &group);
	script_release(&group);
}

/* Shared beside another client's shared contender. */
static void
share(void)
{
	const char *first = SCRIPT_ROOT "/a/_c_x-__READ__0000000000";
	Group		group;

	script_change(OP_CREATE, first);
	script_hold(&group, 1, ZK_SHARED, false);
	task_sleep(SIM_SECONDS(3));
	script_release(&group);
	script_change(OP_DELETE, first);
}

static void
wait_for_permit(void)
{
	static const char *const permits[] = {
		SCRIPT_ROOT "/c/" SCRIPT_PERMIT "0", SCRIPT_ROOT "/c/" SCRIPT_PERMIT "1"
	};
	Group		group;

	script_change(OP_CREATE, permits[0]);
	script_change(OP_CREATE, permits[1]);
	script_request(&group, 1, ZK_PERMIT, false);
	task_sleep(SIM_SECONDS(3));
	script_change(OP_DELETE, permits[1]);
	script_await_group(seen_end, &group);
	script_change(OP_DELETE, permits[0]);
	script_release(&group);
}

/* Two of the same backend, of which one waits for the other. */
static void
wait_for_own(void)
{
	Group		first;
	Group		second;

	script_hold(&first, 1, ZK_SHARED, false);
	script_request(&second, 1, ZK_EXCLUSIVE, false);
	task_sleep(SIM_SECONDS(3));
	script_release(&first);
	script_await_group(seen_end, &second);
	script_release(&second);
}

/* Copies where the contender is. */
static void
contender_path(const Group *group, char *path, size_t size)
{
	ZkContenderStatus status;

	zk_contender_status(script_client, group->ids[0], &status);
	snprintf(path, size, "%s/%s", script_nodes[0], status.name);
}

/* Does something to the contender, which is held or waits, and gives it time to be noticed. */
static void
meddle(OpKind kind, const char *data, int perms, bool waits)
{
	struct Id	anyone = {"world", "anyone"};
	struct ACL	entry = {perms, anyone};
	char		path[ZK_RECORD_PATH_SIZE];
	Op			op = {
		.kind = kind,.path = path,.data = (char *) data,
		.len = data != NULL ? (int) strlen(data) : -1,.version = -1,.acl = {1, &entry}
	};
	Group		group;

	if (waits)
		script_change(OP_CREATE, ahead[0]);
	script_request(&group, 1, ZK_EXCLUSIVE, false);
	if (!waits)
		script_await_group(seen_end, &group);
	task_sleep(SIM_SECONDS(3));
	contender_path(&group, path, sizeof(path));
	script_commit(&op);
	task_sleep(SIM_SECONDS(10));
	if (waits)
		script_change(OP_DELETE, ahead[0]);
	script_release(&group);
}

static void
lose_contender(void)
{
	meddle(OP_DELETE, NULL, 0, false);
}

static void
lose_place(void)
{
	meddle(OP_DELETE, NULL, 0, true);
}

static void
be_asked_for_release(void)
{
	meddle(OP_SET, ZK_REVOCATION, 0, false);
}

static void
be_asked_for_release_in_queue(void)
{
	meddle(OP_SET, ZK_REVOCATION, 0, true);
}

static void
be_asked_throttled(void)
{
	ensemble_throttle(2);
	meddle(OP_SET, ZK_REVOCATION, 0, false);
	ensemble_throttle(0);
}

static void
be_broken(void)
{
	meddle(OP_SET, "{\"broken\":{}}", 0, false);
}

static void
be_broken_in_queue(void)
{
	meddle(OP_SET, "{\"broken\":{}}", 0, true);
}

static void
be_unreadable(void)
{
	meddle(OP_SET_ACL, NULL, ZOO_PERM_DELETE, false);
}

static void
be_unreadable_in_queue(void)
{
	meddle(OP_SET_ACL, NULL, ZOO_PERM_DELETE, true);
}

/* May not delete what it has created, until it may again. */
static void
be_stuck(void)
{
	Group		group;

	script_hold(&group, 1, ZK_EXCLUSIVE, true);
	script_permit(script_nodes[0], ZOO_PERM_READ | ZOO_PERM_CREATE);
	zk_contender_abandon(script_client, group.ids[0]);
	task_sleep(SIM_SECONDS(30));
	script_permit(script_nodes[0], ZOO_PERM_ALL);
	task_sleep(SIM_SECONDS(30));
}

/* May not do what these permissions leave out. */
static void
be_refused(int perms, int count)
{
	Group		group;

	script_hold(&group, count, ZK_SHARED, false);
	script_release(&group);
	script_permit(script_nodes[0], perms);
	script_hold(&group, count, ZK_SHARED, false);
	script_release(&group);
	script_permit(script_nodes[0], ZOO_PERM_ALL);
}

static void
may_not_create(void)
{
	be_refused(ZOO_PERM_READ | ZOO_PERM_DELETE, 1);
}

static void
may_not_create_group(void)
{
	be_refused(ZOO_PERM_READ | ZOO_PERM_DELETE, 2);
}

static void
may_not_list(void)
{
	be_refused(ZOO_PERM_CREATE | ZOO_PERM_DELETE, 2);
}

static void
may_not_delete_group(void)
{
	be_refused(ZOO_PERM_CREATE | ZOO_PERM_READ, 2);
}

/* Another client deletes the lock node, again and again. */
static void
delete_node(void *argument)
{
	Op			op = {.kind = OP_DELETE,.path = (char *) script_nodes[0],.version = -1};
	int		   *times = argument;
	int			err;

	(void) ensemble_commit(&op, &err);
	if (--*times > 0)
		sim_at(sim_now() + SIM_MS(1) / 2, delete_node, times);
}

static void
lose_lock_node(int count)
{
	int			times = 500;
	Group		group;

	sim_at(sim_now(), delete_node, &times);
	script_hold(&group, count, ZK_SHARED, false);
	script_release(&group);
	while (times > 0)
		task_sleep(SIM_MS(100));
}

static void
lose_lock_node_of_one(void)
{
	lose_lock_node(1);
}

static void
lose_lock_node_of_group(void)
{
	lose_lock_node(2);
}

/* The record is changed by another client while the lock is held. */
static void
find_record_changed(void)
{
	char		path[ZK_RECORD_PATH_SIZE];
	Op			op = {.kind = OP_SET,.path = path,.data = "",.len = 0,.version = -1};
	Group		group;

	zk_record_path(script_nodes[0], strlen(SCRIPT_ROOT), path);
	script_hold(&group, 1, ZK_EXCLUSIVE, true);
	script_commit(&op);
	script_release(&group);
}

/* The marker is deleted by another client while the lock is held. */
static void
find_marker_deleted(ZkMode after)
{
	char		path[ZK_MARKER_PATH_SIZE];
	ZkContenderStatus status;
	Group		group;

	script_hold(&group, 1, ZK_EXCLUSIVE, true);
	zk_contender_status(script_client, group.ids[0], &status);
	zk_record_path(script_nodes[0], strlen(SCRIPT_ROOT), path);
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%s", status.name);
	script_change(OP_DELETE, path);
	if (after == ZK_SHARED && status.state == ZK_HELD)
		script_downgrade(&group);
	script_release(&group);
}

static void
release_without_marker(void)
{
	find_marker_deleted(ZK_EXCLUSIVE);
}

static void
downgrade_without_marker(void)
{
	find_marker_deleted(ZK_SHARED);
}

/* The lease has been proved anew since it was asked for. */
static bool
seen_proved(ZkClient *client, void *argument)
{
	const Awaited *awaited = argument;
	SimTime		before = awaited->status[0].proved_at;
	ZkContenderStatus status;

	zk_contender_status(client, awaited->ids[0], &status);
	return status.state != ZK_HELD || status.proved_at != before;
}

static void
prove(void)
{
	ZkContenderStatus status;
	Group		group;

	script_hold(&group, 1, ZK_EXCLUSIVE, false);
	for (int i = 0; i < 3; i++)
	{
		Awaited		awaited = {1, group.ids, &status, false};

		zk_contender_status(script_client, group.ids[0], &status);
		task_sleep(SIM_MS(500));
		zk_client_renew(script_client);
		if (status.state == ZK_HELD)
			script_await(seen_proved, &awaited);
	}
	script_release(&group);
}

static void
find_contender(const char *name, const NodeView *view, void *path)
{
	if (strncmp(name, "_c_", 3) == 0)
		snprintf(path, ZK_RECORD_PATH_SIZE, "%s", view->path);
}

/* Another client deletes a contender, again and again. */
static void
delete_contenders(void *argument)
{
	char		path[ZK_RECORD_PATH_SIZE] = "";
	Op			op = {.kind = OP_DELETE,.path = path,.version = -1};
	int		   *times = argument;
	int			err;

	ensemble_children(script_nodes[0], find_contender, path);
	if (path[0] != '\0')
		(void) ensemble_commit(&op, &err);
	if (--*times > 0)
		sim_at(sim_now() + SIM_MS(1) / 2, delete_contenders, times);
}

static void
lose_contender_again(void)
{
	int			times = 500;
	Group		group;

	script_change(OP_CREATE, ahead[0]);
	script_request(&group, 1, ZK_EXCLUSIVE, false);
	task_sleep(SIM_MS(20));
	sim_at(sim_now(), delete_contenders, &times);
	while (times > 0)
		task_sleep(SIM_MS(100));
	script_change(OP_DELETE, ahead[0]);
	script_await_group(seen_end, &group);
	script_release(&group);
}

/* Requests a lock in a way that is the caller's. */
static void
request_at(const char *node, const ZkLockRequest *wish, ZkContenderId *id)
{
	ZkError		error;

	if (!zk_contenders_request(script_client, wish, 1, &node, id, &error))
		sim_violation("reason", "error %d", (int) error);
}

/* Nothing can be created below a znode of a session. */
static void
acquire_below_ephemeral(void)
{
	ZkLockRequest wish = {.mode = ZK_EXCLUSIVE,.owner = SCRIPT_OWNER};
	Group		group = {.count = 1};

	script_create_own(ahead[0]);
	request_at(ahead[0], &wish, group.ids);
	script_await_group(seen_end, &group);
	script_release(&group);
	script_change(OP_DELETE, ahead[0]);
}

/* Wants a lock where there are permits, and a permit where there is a lock. */
static void
mistake_kind(void)
{
	const char *permit = SCRIPT_ROOT "/a/" SCRIPT_PERMIT "0";
	const char *lock = SCRIPT_ROOT "/c/_c_x-lock-0000000000";
	Group		group;

	script_change(OP_CREATE, permit);
	script_hold(&group, 1, ZK_EXCLUSIVE, false);
	script_release(&group);
	script_change(OP_DELETE, permit);
	script_change(OP_CREATE, lock);
	script_hold(&group, 1, ZK_PERMIT, false);
	script_release(&group);
	script_change(OP_DELETE, lock);
}

/* Another contender gets the number that this one will have. */
static void
be_tied(void)
{
	char		path[ZK_RECORD_PATH_SIZE];
	Group		group;

	script_create_next(1, path, sizeof(path));
	script_request(&group, 1, ZK_EXCLUSIVE, false);
	task_sleep(SIM_SECONDS(1));
	script_change(OP_DELETE, path);
	script_await_group(seen_end, &group);
	script_release(&group);
}

/* Holds a lock in shared mode, and wants it alone, as does another one before. */
static void
upgrade(void)
{
	char		path[ZK_RECORD_PATH_SIZE];
	ZkContenderStatus status;
	Group		first;
	Group		second;

	script_hold(&first, 1, ZK_SHARED, false);
	script_create_next(0, path, sizeof(path));
	script_request(&second, 1, ZK_EXCLUSIVE, false);
	task_sleep(SIM_SECONDS(1));
	zk_contender_status(script_client, second.ids[0], &status);
	script_note(&status);
	script_change(OP_DELETE, path);
	script_release(&first);
	script_await_group(seen_end, &second);
	script_release(&second);
}

/* Would have to wait, and does not. */
static void
try_in_vain(void)
{
	ZkLockRequest wish = {.mode = ZK_EXCLUSIVE,.owner = SCRIPT_OWNER,.no_wait = true};
	Group		group = {.count = 1};

	script_change(OP_CREATE, ahead[0]);
	request_at(script_nodes[0], &wish, group.ids);
	task_sleep(SIM_SECONDS(1));
	zk_contender_abandon(script_client, group.ids[0]);
	script_change(OP_DELETE, ahead[0]);
}

static bool
seen_loss(ZkClient *client, void *argument)
{
	(void) argument;
	return zk_client_lost_any(client);
}

/* Holds a lock for longer than it may; a commit is under way for a part of that. */
static void
hold_too_long(void)
{
	ZkLockRequest wish = {.mode = ZK_EXCLUSIVE,.owner = SCRIPT_OWNER,.max_hold = SIM_SECONDS(5)};
	Group		group = {.count = 1};

	request_at(script_nodes[0], &wish, group.ids);
	script_await_group(seen_end, &group);
	zk_contender_rely_on(script_client, group.ids[0]);
	task_sleep(SIM_SECONDS(3));
	zk_client_commit(script_client, true);
	task_sleep(SIM_SECONDS(4));
	zk_client_commit(script_client, false);
	script_await(seen_loss, NULL);
	script_release(&group);
}

/* More than fit in flight, each for itself. */
#define CROWD	100

static void
acquire_crowd(void)
{
	ZkLockRequest wish = {.mode = ZK_EXCLUSIVE,.owner = SCRIPT_OWNER};
	static ZkContenderId ids[CROWD];
	static ZkContenderStatus status[CROWD];
	Awaited		awaited = {CROWD, ids, status, false};

	for (int i = 0; i < CROWD; i++)
	{
		char		node[64];

		snprintf(node, sizeof(node), SCRIPT_ROOT "/crowd/%d", i);
		request_at(node, &wish, &ids[i]);
	}
	script_await(seen_end, &awaited);
	for (int i = 0; i < CROWD; i++)
		zk_contender_release(script_client, ids[i]);
	script_await(seen_gone, &awaited);
	for (int i = 0; i < CROWD; i++)
		zk_contender_abandon(script_client, ids[i]);
}

/* The servers agree to less, from the next connection on. */
static void
hold_for_less(void)
{
	Group		group;

	script_hold(&group, 1, ZK_EXCLUSIVE, false);
	ensemble_set_timeouts(1000, 3000);
	ensemble_crash(0);
	task_sleep(SIM_MS(300));
	ensemble_start(0);
	task_sleep(SIM_SECONDS(20));
	script_release(&group);
	ensemble_set_timeouts(2000, 20000);
}

/* One in three requests is refused for the load. */
static void
acquire_throttled(void)
{
	Group		group;

	ensemble_throttle(3);
	script_hold(&group, 2, ZK_SHARED, true);
	script_release(&group);
	ensemble_throttle(0);
}

static void
hold_throttled(void)
{
	Group		group;

	ensemble_throttle(3);
	script_hold(&group, 1, ZK_EXCLUSIVE, false);
	task_sleep(SIM_SECONDS(30));
	ensemble_throttle(0);
	script_release(&group);
}

/* Stops and starts again. */
static void
stop_idle(void)
{
	script_stop();
	script_start();
}

static void
stop_holding(void)
{
	Group		group;

	script_hold(&group, 2, ZK_SHARED, true);
	stop_idle();
}

static void
stop_waiting(void)
{
	Group		group;

	script_change(OP_CREATE, ahead[0]);
	script_request(&group, 1, ZK_EXCLUSIVE, false);
	task_sleep(SIM_MS(10));
	stop_idle();
	script_change(OP_DELETE, ahead[0]);
}

/* Stops with a release on its way, which leaves a note; or the end of a run. */
static void
stop_releasing(int runs)
{
	ZkRecord	note = {.run_count = runs};
	Group		group;

	script_hold(&group, 1, ZK_EXCLUSIVE, true);
	zk_contender_note(script_client, group.ids[0], &note);
	zk_contender_abandon(script_client, group.ids[0]);
	stop_idle();
}

static void
stop_with_note(void)
{
	stop_releasing(0);
}

static void
stop_with_run(void)
{
	stop_releasing(1);
}

/* Stops before the first connection is made. */
static void
stop_at_once(void)
{
	Group		group;

	stop_idle();
	script_request(&group, 1, ZK_EXCLUSIVE, true);
	task_sleep(SIM_MS(1));
	stop_idle();
}

const Act	script_more_acts[] = {
	{"acquire without record", acquire_bare},
	{"acquire below new znodes", acquire_below_new},
	{"share", share},
	{"hold", hold_one},
	{"hold three", hold_three},
	{"idle", idle},
	{"wait for one", wait_for_one},
	{"wait for one, with record", wait_with_record},
	{"wait for three", wait_for_three},
	{"wait for three, nearest first", wait_for_nearest},
	{"wait for three, second first", wait_for_second},
	{"wait long", wait_long},
	{"wait for a permit", wait_for_permit},
	{"wait for a lock of its own", wait_for_own},
	{"prove", prove},
	{"contender deleted", lose_contender},
	{"contender deleted in queue", lose_place},
	{"asked for release", be_asked_for_release},
	{"asked for release in queue", be_asked_for_release_in_queue},
	{"asked, throttled", be_asked_throttled},
	{"broken", be_broken},
	{"broken in queue", be_broken_in_queue},
	{"unreadable", be_unreadable},
	{"unreadable in queue", be_unreadable_in_queue},
	{"may not delete", be_stuck},
	{"may not create", may_not_create},
	{"may not create a group", may_not_create_group},
	{"may not list", may_not_list},
	{"may not delete a group", may_not_delete_group},
	{"contenders deleted", lose_contender_again},
	{"acquire below an ephemeral", acquire_below_ephemeral},
	{"lock node deleted", lose_lock_node_of_one},
	{"lock node deleted, of a group", lose_lock_node_of_group},
	{"record changed", find_record_changed},
	{"marker deleted", release_without_marker},
	{"marker deleted, then shared", downgrade_without_marker},
	{"mistaken kind", mistake_kind},
	{"tied", be_tied},
	{"upgrade", upgrade},
	{"try in vain", try_in_vain},
	{"hold too long", hold_too_long},
	{"acquire a crowd", acquire_crowd},
	{"hold for less", hold_for_less},
	{"acquire, throttled", acquire_throttled},
	{"hold, throttled", hold_throttled},
	{"stop", stop_idle},
	{"stop, holding", stop_holding},
	{"stop, waiting", stop_waiting},
	{"stop, with a note", stop_with_note},
	{"stop, with a run", stop_with_run},
	{"stop at once", stop_at_once},
};

const int	script_more_count = (int) (sizeof(script_more_acts) / sizeof(script_more_acts[0]));
