/*-------------------------------------------------------------------------
 *
 * client_backend_test.c
 *	  The backend's thread in the engine, and what ends its way through it: a
 *	  failed check of the library (S331), a signal handler that does not return
 *	  (S108), and a handle that is being closed.
 *
 * ZK_SERVERS names a server.  The linker sends some calls to this program, which also has
 * sendmsg() in the place of libc's: so things happen to a thread in the midst of it.
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* the library's synchronous functions, too */

#include <assert.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "client_common.h"

#ifdef ZKLOCK_STATIC_LIBRARY

/* How often a process is terminated, and how often a handle is closed. */
#define TERMINATIONS	30
#define CLOSINGS		5

/* How long a helper that wants to close a handle is given, in milliseconds. */
#define CLOSING_TIME	500

/* What the end of a process says; other numbers say which step went wrong. */
#define INTERRUPTED		50
#define STOPPED_LATE	51
#define HANGS			52

extern int	__real_zoo_acreate2(zhandle_t *zh, const char *path, const char *value,
								int len, const struct ACL_vector *acl, int mode,
								string_stat_completion_t completion, const void *data);
extern int	__wrap_zoo_acreate2(zhandle_t *zh, const char *path, const char *value,
								int len, const struct ACL_vector *acl, int mode,
								string_stat_completion_t completion, const void *data);
extern ssize_t __real_write(int fd, const void *data, size_t size);
extern ssize_t __wrap_write(int fd, const void *data, size_t size);
extern int	__real_zookeeper_close(zhandle_t *zh);
extern int	__wrap_zookeeper_close(zhandle_t *zh);

/* What happens to the backend's thread, and where; once. */
typedef enum Event
{
	NOTHING,
	FAILS_IN_ENGINE,			/* with engine_lock taken */
	FAILS_SENDING,				/* with socket_lock taken */
	SIGNAL_IN_ENGINE,
	SIGNAL_SENDING,
	CLOSES_SENDING				/* the handle is about to be closed, and the
								 * socket takes nothing */
} Event;

static pthread_t backend;
static atomic_int event;

/*
 * What exits from a signal handler calls functions there that a handler should not call.
 * PostgreSQL's default one for background workers does.
 */
extern const char *__tsan_default_options(void);

const char *
__tsan_default_options(void)
{
	return "report_signal_unsafe=0";
}

/* Handles that were closed, and whether the backend might use them then. */
static atomic_int closed;
static atomic_bool direct_in_close;

/* It was while the backend's thread woke the handle's I/O thread. */
static atomic_bool closed_under_backend;

/* Returns true if that is to happen now; then it has happened. */
static bool
happens(Event what)
{
	int			expected = what;

	return pthread_equal(pthread_self(), backend) &&
		atomic_compare_exchange_strong(&event, &expected, NOTHING);
}

int
__wrap_zoo_acreate2(zhandle_t *zh, const char *path, const char *value, int len,
					const struct ACL_vector *acl, int mode,
					string_stat_completion_t completion, const void *data)
{
	if (happens(FAILS_IN_ENGINE))
		assert(!"a check of the library");
	if (happens(SIGNAL_IN_ENGINE))
		raise(SIGTERM);
	return __real_zoo_acreate2(zh, path, value, len, acl, mode, completion, data);
}

/* In the place of libc's, which packets.c calls. */
ssize_t
sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (happens(FAILS_SENDING))
		assert(!"a check of the library");
	if (happens(SIGNAL_SENDING))
		raise(SIGTERM);
	if (pthread_equal(pthread_self(), backend) && atomic_load(&event) == CLOSES_SENDING)
	{
		errno = EAGAIN;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

/* Have the helper end the client, as zk_client_stop() does.  Returns before it has. */
static void
order_end(void)
{
	Mailbox    *mailbox = &client->mailbox;

	pthread_mutex_lock(&mailbox->lock);
	mailbox->duties.stop = true;
	pthread_mutex_unlock(&mailbox->lock);
	zk_mailbox_wake_helper(mailbox);
}

/* The backend's thread has not sent everything, and wakes the I/O thread for the rest. */
ssize_t
__wrap_write(int fd, const void *data, size_t size)
{
	if (size == 1 && happens(CLOSES_SENDING))
	{
		int			before = closed;

		order_end();
		for (int i = 0; i < CLOSING_TIME && closed == before; i++)
			usleep(1000);
		closed_under_backend = closed != before;
	}
	return __real_write(fd, data, size);
}

int
__wrap_zookeeper_close(zhandle_t *zh)
{
	bool		clients = zh != stranger;
	int			rc;

	if (clients)
		direct_in_close |= zk_socket_is_direct();
	rc = __real_zookeeper_close(zh);
	if (clients)
		closed++;
	return rc;
}

/* As a background worker's default handler for SIGTERM: ends the process. */
static void
exit_in_handler(int signal_number)
{
	(void) signal_number;
	if (zk_client_interrupted(client))
		_exit(INTERRUPTED);
	_exit(zk_client_stop_at_exit(client, 10000) ? 0 : STOPPED_LATE);
}

/* Wait for a process to end.  Returns what it says, or a signal's number and 100. */
static int
await_end(pid_t child)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	int			status;

	while (waitpid(child, &status, WNOHANG) == 0)
	{
		if (zk_now() > deadline)
		{
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
			return HANGS;
		}
		usleep(1000);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/* Ask for locks until that has happened: another thread may be in the engine. */
static bool
ask_until(Event what, const char *node)
{
	ZkTime		deadline = zk_now() + DEADLINE;

	atomic_store(&event, what);
	while (zk_now() < deadline)
	{
		ZkContenderId id = request(node, ZK_EXCLUSIVE);

		zk_contender_abandon(client, id);
		if (atomic_load(&event) == NOTHING)
			return true;
		wait_event();
	}
	return false;
}

/*
 * The library fails a check on this thread.  Runs in a process of its own, and returns the
 * number of the first thing that went wrong.
 */
static int
be_poisoned(Event where)
{
	ZkContenderId id;
	ZkContenderStatus status;
	ZkSessionStatus session;
	ZkError		error;
	ZkConfig	config = {.servers = servers,.session_timeout_ms = LONG_TIMEOUT_MS};
	struct pollfd pfd = {.events = POLLIN};
	char		detail[ZK_DETAIL_SIZE];
	char		node[128];
	char		other[128];
	ZkTime		began;

	backend = pthread_self();
	start_client(servers, LONG_TIMEOUT_MS);
	node_path(node, where == FAILS_SENDING ? "poisoned_sending" : "poisoned_inside");
	node_path(other, "poisoned");
	id = acquire(node, ZK_EXCLUSIVE);
	if (!zk_contender_lease_runs(client, id))
		return 1;
	if (!ask_until(where, other))
		return 2;
	if (!atomic_load(&zk_poisoned) || zk_client_interrupted(client))
		return 3;
	pfd.fd = zk_client_event_fd(client);
	if (poll(&pfd, 1, 0) != 1)
		return 9;
	if (wait_loss_signal() != 1)
		return 4;
	zk_contender_status(client, id, &status);
	if (status.state != ZK_LOST || status.loss != ZK_LOST_POISONED ||
		zk_contender_lease_runs(client, id))
		return 5;
	zk_client_status(client, &session);
	if (session.error != ZK_ERR_POISONED || !session.definite)
		return 6;
	if (request_or_error(node, ZK_SHARED, &error) != 0 || error != ZK_ERR_POISONED)
		return 7;

	/* none of these waits for a lock that remains taken */
	zk_client_renew(client);
	zk_wait_withdraw(client);
	zk_query_request(client, ZK_QUERY_QUEUE, node, NULL);
	zk_queue_cancel(client);
	zk_contender_release(client, id);
	zk_contender_abandon(client, id);
	began = zk_now();
	zk_client_stop(client, 300);	/* in vain if the helper is in the engine */
	if (zk_now() - began > ZK_MS(2000))
		return STOPPED_LATE;
	if (zk_client_start(&config, &error, detail) != NULL || error != ZK_ERR_POISONED)
		return 8;
	return 0;
}

static void
test_poisoned(Event where, const char *what)
{
	int			result;
	int			rounds = 0;

	/* once more if the stop took long: the machine may have stood still */
	do
	{
		pid_t		child;

		fflush(stdout);
		child = fork();
		if (child == 0)
			_exit(be_poisoned(where));
		result = await_end(child);
	} while (result == STOPPED_LATE && ++rounds < 5);
	is_int(result, 0, "S331: the library fails a check on the backend's thread, %s", what);
}

/*
 * A background worker, in a process of its own: asks for locks until it is terminated, or
 * until it terminates itself there.  Returns only if something goes wrong.
 */
static int
be_terminated(Event where, int ready)
{
	ZkConfig	config = {
		.servers = servers,.session_timeout_ms = LONG_TIMEOUT_MS,.handlers_exit = true
	};
	ZkError		error;
	char		detail[ZK_DETAIL_SIZE];
	char		node[128];

	backend = pthread_self();
	client = zk_client_start(&config, &error, detail);
	if (client == NULL)
		return 1;
	signal(SIGTERM, exit_in_handler);
	node_path(node, "terminated");
	release(acquire(node, ZK_EXCLUSIVE));
	if (write(ready, "", 1) != 1)
		return 2;
	if (where != NOTHING)
		return ask_until(where, node) ? 3 : 4;
	for (;;)
	{
		ZkContenderId id = request(node, ZK_SHARED);

		if (id == 0)
			wait_event();		/* there are too many to be deleted */
		zk_contender_release(client, id);
		zk_contender_abandon(client, id);
	}
}

/* Run it, and terminate it after so many microseconds.  Returns what it says. */
static int
terminate(Event where, useconds_t after)
{
	int			fds[2];
	char		ready;
	pid_t		child;
	int			result;

	fflush(stdout);
	if (pipe(fds) != 0 || (child = fork()) < 0)
		return -1;
	if (child == 0)
		_exit(be_terminated(where, fds[1]));
	close(fds[1]);
	if (where == NOTHING && read(fds[0], &ready, 1) == 1)
	{
		usleep(after);
		kill(child, SIGTERM);
	}
	result = await_end(child);
	close(fds[0]);
	return result;
}

static void
test_terminated(void)
{
	int			ended = 0;

	is_int(terminate(SIGNAL_IN_ENGINE, 0), 0,
		   "S108: a signal that ends a worker in the engine waits until it has left that");
	is_int(terminate(SIGNAL_SENDING, 0), 0, "S108: and until everything is sent");
	for (int i = 0; i < TERMINATIONS; i++)
	{
		int			result = terminate(NOTHING, (useconds_t) (i * 211 % 3000));

		if (result == 0)
			ended++;
		else
			diag("round %d: the worker says %d", i, result);
	}
	is_int(ended, TERMINATIONS,
		   "S108: whenever it comes, the worker ends in time, and with it its session");
}

/* Somebody closes the handle while the backend's thread still has to do with it. */
static void
test_closing(void)
{
	char		node[128];

	node_path(node, "closing");
	backend = pthread_self();
	for (int i = 0; i < CLOSINGS; i++)
	{
		start_client(servers, LONG_TIMEOUT_MS);
		release(acquire(node, ZK_EXCLUSIVE));
		if (!ask_until(CLOSES_SENDING, node))
			diag("the backend's thread has not sent anything itself");
		zk_client_stop(client, 30000);
	}
	is_int(closed, CLOSINGS, "S387: handles are closed while their clients send");
	ok(!closed_under_backend, "S387: not as long as the backend's thread uses them");
	ok(!direct_in_close, "S387: which uses none that is being closed");
	ok(wait_children(node, 0), "S387: and nothing is left");
}

int
main(void)
{
	char		node[128];

	servers = getenv("ZK_SERVERS");
	if (servers == NULL)
	{
		fprintf(stderr, "ZK_SERVERS is not set\n");
		return 1;
	}
	snprintf(root, sizeof(root), "/backend_test_%d", (int) getpid());

	/* first those that fork, so no thread may be there */
	test_poisoned(FAILS_IN_ENGINE, "in the engine");
	test_poisoned(FAILS_SENDING, "as it sends");
	test_terminated();

	stranger = open_handle(NULL);
	node_path(node, "terminated");
	is_int(children(node), 0, "S108: workers that were terminated leave nothing");
	test_closing();
	zookeeper_close(stranger);
	return done_testing();
}

#else

int
main(void)
{
	return skip_all("the client library is a shared one");
}

#endif							/* ZKLOCK_STATIC_LIBRARY */
