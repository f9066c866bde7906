/*-------------------------------------------------------------------------
 *
 * asks.c
 *	  Further acts of a single backend: what it asks, publishes and connects for.
 *
 * None of them may fail for want of memory.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "record.h"
#include "script.h"
#include "zk_session.h"

/* Another client asks for what this one holds, through this one. */
static void
revoke(void)
{
	Group		group;
	ZkContenderStatus status;

	script_hold(&group, 1, ZK_EXCLUSIVE, false);
	zk_contender_status(script_client, group.ids[0], &status);
	zk_queue_break(script_client, script_nodes[0], status.name, SCRIPT_OWNER, true);
	script_take_answer();
	task_sleep(SIM_SECONDS(3));
	script_release(&group);
}

/* Asks all that can be asked, while there are others. */
static void
ask_all(void)
{
	const char *foreign = SCRIPT_ROOT "/a/no contender";
	char		behind[ZK_RECORD_PATH_SIZE];
	Group		group;

	script_hold(&group, 2, ZK_SHARED, true);
	script_create_next(0, behind, sizeof(behind));
	script_change(OP_CREATE, foreign);
	zk_wait_publish(script_client, SCRIPT_WAITS, "x", 1);
	task_sleep(SIM_MS(20));
	script_ask(ZK_QUERY_QUEUE, script_nodes[0]);
	script_ask(ZK_QUERY_HEAD, script_nodes[0]);
	script_ask(ZK_QUERY_TREE, SCRIPT_ROOT);
	script_ask(ZK_QUERY_WAITS, SCRIPT_WAITS);
	zk_record_request(script_client, script_nodes[0], SCRIPT_ROOT);
	script_take_answer();
	zk_wait_withdraw(script_client);
	script_change(OP_DELETE, behind);
	script_change(OP_DELETE, foreign);
	script_release(&group);
}

static void
ask_throttled(void)
{
	ensemble_throttle(3);
	ask_all();
	ensemble_throttle(0);
}

/* Some of the tree may not be listed, some of the queue not be read. */
static void
ask_denied(void)
{
	Group		group;

	script_hold(&group, 2, ZK_SHARED, true);
	script_permit(script_nodes[0], ZOO_PERM_CREATE | ZOO_PERM_DELETE);
	script_ask(ZK_QUERY_TREE, SCRIPT_ROOT);
	script_ask(ZK_QUERY_QUEUE, script_nodes[0]);
	script_ask(ZK_QUERY_HEAD, script_nodes[0]);
	script_permit(script_nodes[0], ZOO_PERM_ALL);
	script_release(&group);
}

/* Gives a query up, and asks another one. */
static void
ask_anew(void)
{
	zk_query_request(script_client, ZK_QUERY_TREE, SCRIPT_ROOT, NULL);
	task_sleep(SIM_MS(3));
	zk_queue_cancel(script_client);
	script_ask(ZK_QUERY_HEAD, script_nodes[1]);
}

/* Others' contenders may not be read. */
static void
ask_hidden(void)
{
	char		path[ZK_RECORD_PATH_SIZE];
	Group		group;

	script_create_next(0, path, sizeof(path));
	script_permit(path, ZOO_PERM_DELETE);
	script_request(&group, 1, ZK_EXCLUSIVE, false);
	task_sleep(SIM_MS(20));
	script_ask(ZK_QUERY_QUEUE, script_nodes[0]);
	script_ask(ZK_QUERY_HEAD, script_nodes[0]);
	script_ask(ZK_QUERY_TREE, SCRIPT_ROOT);
	script_change(OP_DELETE, path);
	script_await_group(seen_end, &group);
	script_release(&group);
}

/* Breaks a contender whose session lives: after some time, in which it may go. */
static void
break_live(void)
{
	Op			op = {
		.kind = OP_CREATE,.path = SCRIPT_ROOT "/a/" SCRIPT_OTHER,.len = -1,
		.mode = ZOO_EPHEMERAL,.owner = 77
	};

	script_commit(&op);
	zk_queue_break(script_client, script_nodes[0], SCRIPT_OTHER, SCRIPT_OWNER, false);
	script_take_answer();
	script_change(OP_DELETE, op.path);
}

/* Publishes what it waits for, and at once something else. */
static void
publish_anew(void)
{
	const char *first = "{\"pid\":1}\n_c_x-lock-0000000001 /a\n_c_x-lock-0000000001 /c\n";
	const char *second = "{\"pid\":2}\n_c_x-lock-0000000000 /a\n";

	script_change(OP_CREATE, SCRIPT_ROOT "/a/" SCRIPT_OTHER);
	script_change(OP_CREATE, SCRIPT_ROOT "/a/_c_x-lock-0000000001");
	zk_wait_publish(script_client, SCRIPT_WAITS, first, strlen(first));
	task_sleep(SIM_MS(2));
	script_ask(ZK_QUERY_WAITS, SCRIPT_WAITS);
	zk_wait_publish(script_client, SCRIPT_WAITS, second, strlen(second));
	task_sleep(SIM_MS(1));
	script_ask(ZK_QUERY_WAITS, SCRIPT_WAITS);
	task_sleep(SIM_SECONDS(2));
	script_ask(ZK_QUERY_WAITS, SCRIPT_WAITS);
	zk_wait_withdraw(script_client);
	script_change(OP_DELETE, SCRIPT_ROOT "/a/" SCRIPT_OTHER);
	script_change(OP_DELETE, SCRIPT_ROOT "/a/_c_x-lock-0000000001");
}

/* Publishes a wait, though nothing else is asked for. */
static void
publish_alone(void)
{
	zk_wait_publish(script_client, SCRIPT_WAITS, "x", 1);
	task_sleep(SIM_SECONDS(2));
	zk_wait_withdraw(script_client);
}

static bool
seen_connected(ZkClient *client, void *argument)
{
	ZkSessionStatus status;

	(void) argument;
	zk_client_status(client, &status);
	return status.state == ZK_SESSION_CONNECTED;
}

/* Connects ahead of the use. */
static void
connect_ahead(void)
{
	zk_client_connect(script_client, 20000);
	script_await(seen_connected, NULL);
	task_sleep(SIM_SECONDS(10));
}

/* Connects again, after an attempt that has come to nothing. */
static void
connect_again(void)
{
	ensemble_crash(0);
	task_sleep(SIM_SECONDS(5));
	zk_client_connect(script_client, 200);
	task_sleep(SIM_MS(500));
	ensemble_start(0);
	while (ensemble_serving() == 0)
		task_sleep(SIM_MS(1));
	connect_ahead();
}

const Act	script_questions[] = {
	{"ask for own release", revoke},
	{"ask all", ask_all},
	{"ask, throttled", ask_throttled},
	{"ask, denied", ask_denied},
	{"ask anew", ask_anew},
	{"ask, hidden", ask_hidden},
	{"break a live one", break_live},
	{"publish anew", publish_anew},
	{"publish alone", publish_alone},
	{"connect", connect_ahead},
	{"connect again", connect_again},
};

const int	script_question_count = (int) (sizeof(script_questions) / sizeof(script_questions[0]));
