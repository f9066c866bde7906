/*-------------------------------------------------------------------------
 *
 * helper.c
 *	  The lock client as a whole: its helper thread, from start to end.
 *
 * The helper is one loop (helper_main()): it keeps the timers, opens and closes
 * handles, and carries out those orders of the mailbox that are left to it
 * (D6), until the backend has said its last word (ClientStage).
 *
 * Closing the ZooKeeper session deletes every contender, so most of what is
 * left to be done then is done by that.  But these have to come before, and the
 * loop goes on for them, with time limits:
 *
 * - a session that is just beginning has to be there, to be closed (B5);
 * - records are written, and markers deleted, by the contenders' own deletes;
 * - the end of a job's run is written.  It has more time than the rest, and may
 *	 outlast a connection: without it the next holder would run the job again;
 * - what was sent is answered, or heard out when the socket is closed
 *	 (socket.c).  If that is closed while something is there to be read, or
 *	 comes later, the kernel sends a reset, at which the server forgets what it
 *	 has not read yet: deletes, and the word that the session is closed.
 *	 Everything would stay until the session expires.  With the shared library,
 *	 which does not hear out, the answers are waited for first.
 *
 * Nothing else is begun any more; what is to be tried again is tried again.
 * The same goes for a client that is replaced, or stopped by
 * zk_session_close(): that is done in the background, and an exit waits for it.
 * An exit that runs out of time says so in the server log.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "auth.h"
#include "connection.h"
#include "contender.h"
#include "group.h"
#include "jitter.h"
#include "lease.h"
#include "lock_delay.h"
#include "own_watch.h"
#include "protocol.h"
#include "publish_wait.h"
#include "query.h"
#include "record_io.h"
#include "refusal.h"
#include "request.h"
#include "server_timeout.h"

/* What is left to be done before the session is closed may take so long. */
#define FLUSH_TIME				ZK_MS(250)

/*
 * How often a leaving client looks at what tells nobody that it is over, and at
 * most looks at what it will not do any more.
 */
#define LEAVING_POLL			ZK_MS(1)

/* The helper looks around at least that often. */
#define LONGEST_SLEEP			ZK_MS(3600 * 1000)

/* A question about a contender. */
typedef bool (*ContenderTest) (ZkClient *client, const Contender *c);

/*-------------------------------------------------------------------------
 * The helper thread
 *-------------------------------------------------------------------------
 */

/*
 * Carry out one order.  Of an order that was overtaken by the next one before
 * we looked, only the next is left: the contender is begun all the same, so
 * that there is one way to end it.  engine_lock.
 */
static void
apply_order(ZkClient *client, const MailboxOrder *order)
{
	Contender  *c = &client->contenders[order->slot];

	if (c->claim == CLAIM_NONE)
	{
		zk_contender_begin(client, order);
		zk_connection_hurry(client);
	}
	if (order->order == ZK_ORDER_RELEASE || order->order == ZK_ORDER_ABANDON)
		zk_contender_end(client, c, order->order == ZK_ORDER_ABANDON);
	else
		zk_contender_touch(client, c);
}

/*
 * Take what the backend has asked for: orders, proofs, queries, waits.  Returns
 * true if proofs are.  engine_lock.
 */
static bool
take(ZkClient *client)
{
	MailboxOrder order;
	MailboxNews news;

	zk_mailbox_take_news(&client->mailbox, &news);
	while (zk_mailbox_next_order(&client->mailbox, &order))
		apply_order(client, &order);
	if (news.renew)
		zk_leases_prove(client);
	zk_publish_begin(client, &news.wait);
	if (news.query.serial != client->query.serial)
	{
		zk_query_begin(client, &news.query);
		zk_connection_hurry(client);
	}
	return news.renew;
}

/*
 * The same, and see what comes next, for a thread that may not be the helper:
 * that one alone makes a connection if there is none, and ends a session that
 * is to end when nothing is wanted of it any more.  engine_lock.
 */
static void
take_over(ZkClient *client)
{
	if (take(client))
		zk_lease_renew(client);
	zk_publish_advance(client);
	zk_query_advance(client);
	if (!zk_is_connected(client) || client->connection.close_wanted)
		zk_mailbox_wake_helper(&client->mailbox);
}

/*
 * Do what the mailbox and the timers ask for.
 */
static void
run_once(ZkClient *client, const HelperDuties *duties)
{
	pthread_mutex_lock(&client->engine_lock);
	zk_connection_settle(client);
	zk_connection_look(client);
	(void) take(client);
	zk_connection_want(client, duties->connect_by);
	zk_lease_check(client);
	zk_lease_renew(client);
	zk_lease_heartbeat(client);
	zk_query_advance(client);
	zk_publish_advance(client);
	zk_server_timeout_check(client);
	zk_contenders_touch_all(client);
	zk_engine_leave(client);
}

/*
 * There is room for requests again.  engine_lock.
 */
static void
resume(ZkClient *client)
{
	zk_lease_renew(client);
	zk_contenders_touch_all(client);
	zk_publish_advance(client);
	zk_query_advance(client);
}

/*
 * Begin to leave: nobody waits for what was asked for, and those contenders go
 * at once that leave more than their own znode.  engine_lock.
 */
static void
begin_to_leave(ZkClient *client)
{
	Query		none = {.serial = client->query.serial};

	client->stage = CLIENT_LEAVING;
	zk_query_begin(client, &none);
	for (int i = 0; i < client->used; i++)
	{
		Contender  *c = &client->contenders[i];

		if (c->claim != CLAIM_NONE && c->claim != CLAIM_ABANDONED &&
			c->successor == NULL &&
			zk_record_flush(client, c))
			zk_contender_end(client, c, true);
	}
}

/*
 * Returns true if there is a contender that is on its way out and passes the
 * test.  engine_lock.
 */
static bool
any_leaving(ZkClient *client, ContenderTest test)
{
	for (int i = 0; i < client->used; i++)
	{
		const Contender *c = &client->contenders[i];

		if (c->claim > CLAIM_WANTED && c->znode.existence == ZNODE_NAMED &&
			test(client, c))
			return true;
	}
	return false;
}

/* Returns true if something is worth the time up to stop_by.  engine_lock. */
static bool
is_flushing(ZkClient *client)
{
	if (!zk_is_connected(client))
		return zk_session_beginning(client);
	return any_leaving(client, zk_record_flush) ||
		(zk_requests_free(client) < ZK_MAX_IN_FLIGHT && !zk_socket_hears_out());
}

/*
 * The backend has said its last word: see until when something has to be waited
 * for before the ZooKeeper session is closed.  If nothing has, the client is
 * DONE.
 */
static void
leave(ZkClient *client, const HelperDuties *duties)
{
	ZkTime		now = zk_now();

	pthread_mutex_lock(&client->engine_lock);
	if (client->stage == CLIENT_RUNNING)
		begin_to_leave(client);
	if (now < duties->stop_by && is_flushing(client))
		client->leave_by = duties->stop_by;
	else if (now < duties->runs_by && any_leaving(client, zk_record_run_due))
		client->leave_by = duties->runs_by;
	else
		client->stage = CLIENT_DONE;
	zk_engine_leave(client);
}

static ZkTime
earlier(ZkTime a, ZkTime b)
{
	return a < b ? a : b;
}

/*
 * Decide when the helper has to wake.  With a handle no later than an eighth of
 * the session timeout from now, so that no thread has to wake it for a lease
 * that has just begun.
 */
static void
set_timer(ZkClient *client)
{
	ZkTime		now = zk_now();
	ZkTime		next = now + LONGEST_SLEEP;

	pthread_mutex_lock(&client->engine_lock);
	next = earlier(next, zk_lease_next_timer(client));
	next = earlier(next, zk_lease_heartbeat_due(client));
	next = earlier(next, zk_query_due(client));
	next = earlier(next, zk_publish_due(client));
	next = earlier(next, zk_server_timeout_due(client));
	next = earlier(next, zk_connection_due(client));
	if (client->connection.state != CONNECTION_NONE)
		next = earlier(next, now + zk_timeout(client) / 8);
	if (client->stage == CLIENT_LEAVING)
	{
		next = earlier(next, client->leave_by);
		if (next < now + LEAVING_POLL || zk_session_id(client) == 0)
			next = now + LEAVING_POLL;
	}
	client->helper_due = next;
	zk_helper_at(client, earlier(next, zk_own_watch_due(client)));
	pthread_mutex_unlock(&client->engine_lock);
}

/*
 * Free what make_client() has made.
 */
static void
unmake_client(ZkClient *client)
{
	zk_query_free(client);
	zk_publish_free(client);
	zk_identity_free(&client->identity);
	zk_transport_free(&client->transport);
	free(client->servers);
	free(client->engine);
	free(client->server_timeout);
	free(client->leases);
	free(client->group);
	free(client);
}

/* Free the client.  No other thread has to do with it any more. */
static void
free_client(ZkClient *client)
{
	zk_guard_forget_event_fd(client->mailbox.event_fd);
	for (int i = 0; i < client->used; i++)
	{
		free(client->contenders[i].owner);
		zk_unwatch(&client->contenders[i]);
		zk_markers_forget(&client->contenders[i]);
		zk_refusal_forget(&client->contenders[i].refusal);
	}
	zk_mailbox_destroy(&client->mailbox);
	pthread_mutex_destroy(&client->engine_lock);
	unmake_client(client);
}

/*
 * The helper's last act: leave, or free the client if nobody waits.  A
 * poisoned one is left as it is, for threads of the library are parked in it.
 */
static void
finish(ZkClient *client)
{
	Mailbox    *mailbox = &client->mailbox;
	bool		orphaned;

	pthread_mutex_lock(&mailbox->lock);
	mailbox->finished = true;
	orphaned = mailbox->orphaned;
	pthread_mutex_unlock(&mailbox->lock);
	if (!orphaned)
		zk_mailbox_wake_backend(mailbox);
	else if (!atomic_load(&zk_poisoned))
	{
		pthread_detach(client->helper);
		free_client(client);
	}
}

static void *
helper_main(void *arg)
{
	ZkClient   *client = arg;
	HelperDuties duties;

	for (;;)
	{
		set_timer(client);
		zk_mailbox_wait(&client->mailbox, &duties);
		if (atomic_load(&zk_poisoned))
			break;
		run_once(client, &duties);
		if (duties.stop)
			leave(client, &duties);
		if (client->stage == CLIENT_DONE)
			break;
		zk_connection_manage(client);
	}
	if (!atomic_load(&zk_poisoned))
		zk_connection_end(client);
	finish(client);
	return NULL;
}

/*-------------------------------------------------------------------------
 * Start and stop: backend thread
 *-------------------------------------------------------------------------
 */

/*
 * Create the helper with every signal blocked, which the library's threads
 * inherit: no signal handler of the backend may run on them, and a SIGURG
 * taken by one of them would be a lost latch wake-up.
 */
static int
start_helper(ZkClient *client)
{
	sigset_t	all;
	sigset_t	saved;
	int			rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	rc = zk_thread_create(&client->helper, helper_main, client);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return rc;
}

/*
 * Make a client, with its own copy of the config.  Returns NULL if there is no
 * memory.
 */
static ZkClient *
make_client(const ZkConfig *config)
{
	ZkClient   *client = calloc(1, sizeof(ZkClient));

	if (client == NULL)
		return NULL;
	client->servers = strdup(config->servers);
	client->engine = zk_engine_create(zk_contender_advance, resume, take_over);
	client->server_timeout = zk_server_timeout_create();
	client->leases = zk_leases_create();
	client->group = zk_group_create();
	if (client->servers == NULL || client->engine == NULL ||
		client->server_timeout == NULL || client->leases == NULL ||
		client->group == NULL ||
		!zk_identity_init(&client->identity, config) ||
		!zk_transport_init(&client->transport, config) ||
		!zk_query_init(client) || !zk_publish_init(client))
	{
		unmake_client(client);
		return NULL;
	}
	client->session_timeout_ms = config->session_timeout_ms;
	client->connection.timeout_ms = config->session_timeout_ms;
	client->style = config->style;
	zk_jitter_seed(&client->random);
	return client;
}

ZkClient *
zk_client_start(const ZkConfig *config, ZkError *error, char *detail)
{
	ZkClient   *client;
	int			rc;

	detail[0] = '\0';
	if (atomic_load(&zk_poisoned))
	{
		*error = ZK_ERR_POISONED;
		return NULL;
	}

	/* one arena: threads of their own arenas cost address space, not speed */
	mallopt(M_ARENA_MAX, 1);	/* NOLINT(concurrency-mt-unsafe): our only
								 * call */
	zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
	zk_log_clear_error();		/* of an earlier client's servers */

	client = make_client(config);
	if (client == NULL)
	{
		*error = ZK_ERR_NO_MEMORY;
		return NULL;
	}
	if (!zk_mailbox_init(&client->mailbox, sizeof(Contender), error, detail))
	{
		unmake_client(client);
		return NULL;
	}
	client->mailbox.handlers_exit = config->handlers_exit;
	client->contenders = client->mailbox.engine_array.items;
	pthread_mutex_init(&client->engine_lock, NULL);
	zk_guard_backend(client->mailbox.event_fd, config->loss_signal);
	rc = start_helper(client);
	if (rc != 0)
	{
		free_client(client);
		*error = ZK_ERR_NO_THREAD;
		errno = rc;
		snprintf(detail, ZK_DETAIL_SIZE, "%m.");
		return NULL;
	}
	return client;
}

/*
 * Waits until the helper has finished, or gives up: then the helper frees the
 * client.  While the end of a run is to be written the time starts again, but
 * not beyond runs_by.
 */
static bool
wait_finished(ZkClient *client, int timeout_ms, ZkTime runs_by)
{
	Mailbox    *mailbox = &client->mailbox;
	ZkTime		deadline = zk_now() + ZK_MS(timeout_ms);
	struct pollfd pfd = {.fd = mailbox->event_fd,.events = POLLIN};

	for (;;)
	{
		ZkTime		now = zk_now();
		ZkTime		left;
		bool		finished;

		zk_client_clear_event(client);
		pthread_mutex_lock(&mailbox->lock);
		finished = mailbox->finished;
		if (now < runs_by && zk_mailbox_has_run(mailbox))
			deadline = now + ZK_MS(timeout_ms);
		left = deadline - now;
		if (!finished && left <= 0)
			mailbox->orphaned = true;
		pthread_mutex_unlock(&mailbox->lock);
		if (finished || left <= 0)
			return finished;
		poll(&pfd, 1, (int) (left / 1000) + 1);
	}
}

bool
zk_client_interrupted(const ZkClient *client)
{
	return client->mailbox.backend_inside != 0;
}

/*
 * End the client, and wait for that; see zk_session.h.
 */
static bool
stop(ZkClient *client, int timeout_ms, bool exiting)
{
	Mailbox    *mailbox = &client->mailbox;
	ZkTime		now = zk_now();
	ZkTime		runs_by = now + ZK_MS(client->session_timeout_ms);

	if (zk_client_interrupted(client))
		return false;
	pthread_mutex_lock(&mailbox->lock);
	mailbox->duties.stop = true;
	mailbox->duties.stop_by = now + FLUSH_TIME;
	mailbox->duties.runs_by = runs_by;
	pthread_mutex_unlock(&mailbox->lock);
	zk_mailbox_wake_helper(mailbox);

	if (!wait_finished(client, timeout_ms, exiting ? runs_by : now))
		return false;
	pthread_join(client->helper, NULL);
	if (!atomic_load(&zk_poisoned))
		free_client(client);
	return true;
}

bool
zk_client_stop(ZkClient *client, int timeout_ms)
{
	return stop(client, timeout_ms, false);
}

bool
zk_client_stop_at_exit(ZkClient *client, int timeout_ms)
{
	return stop(client, timeout_ms, true);
}
