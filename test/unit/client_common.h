/*-------------------------------------------------------------------------
 *
 * client_common.h
 *	  The common part of the lock client's tests.
 *
 * One client at a time, and a handle of the library of our own for whatever
 * other clients do ("the stranger").  A program that includes this defines
 * THREADED first, for the library's synchronous functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CLIENT_COMMON_H
#define ZKLOCK_CLIENT_COMMON_H

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "client.h"
#include "contender.h"
#include "inside.h"
#include "tap.h"

#define DEADLINE	ZK_MS(60000)
#define OWNER		"{\"pid\":1}"

/*
 * The session timeout of whoever is to lose nothing: the stranger, and a client
 * whose test is not about that.  A busy machine may stand still for seconds.  The
 * server of the tests allows as much.
 */
#define LONG_TIMEOUT_MS	60000

/* That of a client whose session another one ends, which it may learn by silence only. */
#define ENDED_TIMEOUT_MS	6000

/*
 * The library drops what it has queued when it is closed (ZOOKEEPER-3868).
 */
extern const char *__lsan_default_suppressions(void);

const char *
__lsan_default_suppressions(void)
{
	return "leak:queue_session_event\n"
		"leak:queue_completion\n"
		"leak:add_completion\n"
		"leak:free_completions\n"
		"leak:create_buffer_oarchive\n"
		"leak:allocate_buffer\n"
		"leak:recv_buffer\n";
}

/*
 * Handles of one process share the buffer in which the library writes the
 * server's address for its log (ZOOKEEPER-4810).  A backend has only one
 * handle, but a test has the stranger's as well.
 */
extern const char *__tsan_default_suppressions(void);

const char *
__tsan_default_suppressions(void)
{
	return "race:format_endpoint_info\n";
}

static const char *servers;		/* the ensemble */
static zhandle_t *stranger;		/* another client's handle */
static ZkClient *client;		/* the one that is tested */
static char root[64];			/* below it are the lock nodes of this run */

/*
 * Wait for the client to say something, at most two milliseconds: not all that
 * a test waits for is announced, as a backend needs no word of it.
 */
static inline void
wait_event(void)
{
	struct pollfd pfd = {.fd = zk_client_event_fd(client),.events = POLLIN};

	poll(&pfd, 1, 2);
	zk_client_clear_event(client);
}

/* Wait for what was asked for to be read; NULL if it does not come. */
static inline ZkQueueListing *
await_listing(void)
{
	ZkQueueListing *listing = NULL;

	for (ZkTime deadline = zk_now() + DEADLINE;
		 listing == NULL && zk_now() < deadline;)
	{
		listing = zk_queue_take(client);
		if (listing == NULL)
			wait_event();
	}
	return listing;
}

/*
 * Wait until a contender is in a state, in vain if it is lost or has failed by
 * then; its status is left in *status.
 */
static inline bool
wait_state(ZkContenderId id, ZkContenderState state, ZkContenderStatus *status)
{
	ZkTime		deadline = zk_now() + DEADLINE;

	for (;;)
	{
		zk_contender_status(client, id, status);
		if (status->state == state)
			return true;
		if (zk_now() > deadline ||
			(status->state > ZK_GONE && state < ZK_RELEASING))
		{
			diag("state is %d (error %d, loss %d, \"%s\"), not %d",
				 status->state, status->error, status->loss, status->detail,
				 state);
			return false;
		}
		wait_event();
	}
}

/*
 * Wait until a downgrade is known to be done: the contender has another name
 * than the one that it replaces.
 */
static inline bool
wait_renamed(ZkContenderId id, const char *name, ZkContenderStatus *status)
{
	ZkTime		deadline = zk_now() + DEADLINE;

	for (;;)
	{
		zk_contender_status(client, id, status);
		if (strcmp(status->name, name) != 0)
			return true;
		if (zk_now() > deadline)
			return false;
		wait_event();
	}
}

/* Ask for a lock; it is not waited for.  Returns 0, with *error set, if it is refused. */
static inline ZkContenderId
request_or_error(const char *node, ZkMode mode, ZkError *error)
{
	ZkLockRequest wish = {
		.mode = mode,.owner = OWNER
	};
	ZkContenderId id;

	return zk_contenders_request(client, &wish, 1, &node, &id, error) ? id : 0;
}

static inline ZkContenderId
request(const char *node, ZkMode mode)
{
	ZkError		error;

	return request_or_error(node, mode, &error);
}

/* Ask for a lock and wait for it. */
static inline ZkContenderId
acquire(const char *node, ZkMode mode)
{
	ZkContenderId id = request(node, mode);
	ZkContenderStatus status;

	wait_state(id, ZK_HELD, &status);
	return id;
}

/* Release a lock and wait until it is gone. */
static inline bool
release(ZkContenderId id)
{
	ZkContenderStatus status;
	bool		gone;

	zk_contender_release(client, id);
	gone = wait_state(id, ZK_GONE, &status);
	zk_contender_abandon(client, id);
	return gone;
}

/*
 * Returns the number of children of a znode: 0 if it does not exist, because the
 * server removes an empty container some time; -1 if it is unknown.
 */
static inline int
children(const char *node)
{
	struct String_vector list;
	int			count;
	int			rc = zoo_get_children(stranger, node, 0, &list);

	if (rc != ZOK)
		return rc == ZNONODE ? 0 : -1;
	count = list.count;
	deallocate_String_vector(&list);
	return count;
}

/* Wait for that, as long as their number changes. */
static inline bool
wait_children(const char *node, int count)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	int			before = -1;

	for (int now; (now = children(node)) != count; before = now)
	{
		if (now != before)
			deadline = zk_now() + DEADLINE;
		else if (zk_now() > deadline)
		{
			diag("%d children below %.100s, not %d", now, node, count);
			return false;
		}
		usleep(2000);
	}
	return true;
}

/* Make a contender of a stranger; its full path is left in path. */
static inline void
stranger_queues(const char *node, const char *base, char *path, int size)
{
	char		prefix[256];
	int			rc;

	zoo_create(stranger, node, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER,
			   NULL, 0);
	snprintf(prefix, sizeof(prefix), "%s/%s", node, base);
	rc = zoo_create(stranger, prefix, "", 0, &ZOO_OPEN_ACL_UNSAFE,
					ZOO_EPHEMERAL_SEQUENTIAL, path, size);
	if (rc != ZOK)
		diag("could not create %s: %s", prefix, zerror(rc));
}

/* The path, 128 bytes, of a lock node of this run. */
static inline void
node_path(char *node, const char *name)
{
	snprintf(node, 128, "%s/%s", root, name);
}

/*
 * Connect as another client, or take over a ZooKeeper session, unless that is over.
 */
static inline zhandle_t *
open_handle(const clientid_t *id)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	zhandle_t  *zh;
	sigset_t	all;
	sigset_t	saved;

	/* client_test looks at the signal masks of all threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	zh = zookeeper_init2(servers, NULL, LONG_TIMEOUT_MS, id, NULL,
						 ZOO_NO_LOG_CLIENTENV, zk_log_callback);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	while (zoo_state(zh) != ZOO_CONNECTED_STATE &&
		   zoo_state(zh) != ZOO_EXPIRED_SESSION_STATE && zk_now() < deadline)
		usleep(1000);
	return zh;
}

/* Which handle of the library does the client have?  They are counted. */
static inline uintptr_t
handle_of_client(void)
{
	uintptr_t	epoch;

	pthread_mutex_lock(&client->engine_lock);
	epoch = client->connection.epoch;
	pthread_mutex_unlock(&client->engine_lock);
	return epoch;
}

/* The ZooKeeper session that the client has; its client_id is 0 for none. */
static inline clientid_t
session_of_client(void)
{
	clientid_t	id;

	pthread_mutex_lock(&client->engine_lock);
	id = client->connection.session;
	pthread_mutex_unlock(&client->engine_lock);
	return id;
}

/*
 * End the client's ZooKeeper session from outside: a second handle that resumes the
 * session closes it, as Curator's tests do.  The client is thrown out when
 * another client takes over its session, and may take it over again before that one has
 * closed it: try until the session is gone.
 */
static inline void
end_session(void)
{
	clientid_t	id = session_of_client();
	ZkTime		deadline = zk_now() + DEADLINE;

	while (session_of_client().client_id == id.client_id &&
		   zk_now() < deadline)
	{
		zookeeper_close(open_handle(&id));
		for (int i = 0;
			 i < 100 && session_of_client().client_id == id.client_id; i++)
			usleep(5000);
	}
}

/* How many loss signals have come. */
static volatile sig_atomic_t losses_signalled = 0;

static void
handle_loss(int signal_number)
{
	(void) signal_number;
	losses_signalled++;
}

/* Wait until the loss of a lock was signalled.  Returns how often by then. */
static inline int
wait_loss_signal(void)
{
	ZkTime		deadline = zk_now() + DEADLINE;

	while (losses_signalled == 0 && zk_now() < deadline)
		wait_event();
	return losses_signalled;
}

/* Start the client, for a list of servers and with a session timeout. */
static inline void
start_client(const char *list, int timeout_ms)
{
	ZkConfig	config = {.servers = list,.session_timeout_ms = timeout_ms,.loss_signal = SIGRTMIN};
	ZkError		error;
	char		detail[ZK_DETAIL_SIZE];

	signal(config.loss_signal, handle_loss);
	client = zk_client_start(&config, &error, detail);
	if (client == NULL)
		diag("could not start a client: error %d, %s", error, detail);
}

/* Go on with another client. */
static inline void
restart_client(const char *list, int timeout_ms)
{
	ok(zk_client_stop(client, 30000), "the client stops");
	start_client(list, timeout_ms);
}

/* Wait until the client's ZooKeeper session is in a state. */
static inline bool
wait_session(ZkSessionState state)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	ZkSessionStatus status;

	for (;;)
	{
		zk_client_status(client, &status);
		if (status.state == state)
			return true;
		if (zk_now() > deadline)
		{
			diag("session state is %d, not %d (\"%s\")", status.state, state,
				 status.detail);
			return false;
		}
		wait_event();
	}
}

/* Make a lock node, so that the creations below it can be counted. */
static inline void
make_node(char *node, const char *name)
{
	zoo_create(stranger, root, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER,
			   NULL, 0);
	node_path(node, name);
	if (zoo_create(stranger, node, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER,
				   NULL, 0) != ZOK)
		diag("could not create %s", node);
}

/* Wait until a znode is gone. */
static inline bool
wait_absent(const char *path)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	struct Stat stat;

	while (zoo_exists(stranger, path, 0, &stat) != ZNONODE)
	{
		if (zk_now() > deadline)
			return false;
		usleep(2000);
	}
	return true;
}

#endif							/* ZKLOCK_CLIENT_COMMON_H */
