/*-------------------------------------------------------------------------
 *
 * processes.c
 *	  A peer of the bench: the bare client library, a process for each session.
 *
 *	processes KIND SERVERS
 *
 * KIND is one of
 *
 *	recipe		the same as raw (see recipe.c)
 *	empty		no lock, but as many commands to processes: what the other one
 *				takes besides
 *
 * PostgreSQL has a process for each session, too.  Processes take more than
 * threads of one process: each switch changes the address space, and they share
 * less of the caches.  This shows how much more.  The threads of this program
 * only send commands to the processes, as clients of PostgreSQL do.
 *
 * A process is this program again, with a third argument.  Its standard input
 * is the socket from which it takes commands.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recipe.h"

/* Holds that a command can ask for. */
#define MAX_HOLDS		1024

/* Where a process finds the memory that it shares with the program. */
#define SHARED_FD		3

/* What a process can do: what PeerClient has. */
typedef enum Action
{
	PREPARE, ACQUIRE, RELEASE, ACQUIRE_MANY, RELEASE_MANY, HOLD
} Action;

/* To a process.  The answer is a bool. */
typedef struct Command
{
	Action		action;
	int			count;
	int			hold_us;
	char		path[256];
} Command;

/* What a process and the program share. */
typedef struct Shared
{
	atomic_bool queued;			/* is in its place in the queue */
	char		failure[512];	/* why the answer is false */
	PeerHold	holds[MAX_HOLDS];
} Shared;

/* A session, as the program has it. */
typedef struct Process
{
	pid_t		pid;
	int			socket;
	Shared	   *shared;
} Process;

extern char **environ;

static const char *kind;
static const char *servers;

/*-------------------------------------------------------------------------
 * The lock of the kind "empty": a session's process
 *-------------------------------------------------------------------------
 */

static void *
empty_connect(void)
{
	return (void *) kind;
}

static void
empty_disconnect(void *session)
{
	(void) session;
}

static bool
empty_one(void *session, const char *path)
{
	(void) session;
	(void) path;
	return true;
}

static bool
empty_many(void *session, const char *path, int count)
{
	(void) session;
	(void) path;
	(void) count;
	return true;
}

static const PeerClient empty_client = {
	.connect = empty_connect,
	.disconnect = empty_disconnect,
	.prepare = empty_one,
	.acquire = empty_one,
	.release = empty_one,
	.acquire_many = empty_many,
	.release_many = empty_many,
	.excludes_nobody = true,
};

/*
 * The lock of this kind; NULL if there is none.
 */
static const PeerClient *
lock_client(void)
{
	if (strcmp(kind, "recipe") == 0)
		return &recipe_client;
	return strcmp(kind, "empty") == 0 ? &empty_client : NULL;
}

/*-------------------------------------------------------------------------
 * A session's process
 *-------------------------------------------------------------------------
 */

/*
 * The memory of a descriptor, which is closed.
 */
static Shared *
map_shared(int fd)
{
	Shared	   *shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE,
							  MAP_SHARED, fd, 0);

	if (shared == MAP_FAILED)
		abort();
	close(fd);
	return shared;
}

/*
 * Hold the lock so many times.
 */
static bool
hold(const PeerClient *lock, void *session, const Command *command,
	 PeerHold *holds)
{
	for (int i = 0; i < command->count; i++)
		if (!peer_hold(lock, session, command->path, command->hold_us,
					   &holds[i]))
			return false;
	return true;
}

/*
 * Do what a command says.
 */
static bool
run_command(const PeerClient *lock, void *session, const Command *command,
			PeerHold *holds)
{
	switch (command->action)
	{
		case PREPARE:
			return lock->prepare(session, command->path);
		case ACQUIRE:
			return lock->acquire(session, command->path);
		case RELEASE:
			return lock->release(session, command->path);
		case ACQUIRE_MANY:
			return lock->acquire_many(session, command->path, command->count);
		case RELEASE_MANY:
			return lock->release_many(session, command->path, command->count);
		case HOLD:
			return hold(lock, session, command, holds);
	}
	return peer_fail("an unknown command");
}

/*
 * Answer, and say why if it is a failure.
 */
static bool
answer(Shared *shared, bool ok)
{
	if (!ok)
		snprintf(shared->failure, sizeof(shared->failure), "%s",
				 peer_failure());
	return send(STDIN_FILENO, &ok, sizeof(ok), 0) == sizeof(ok);
}

/*
 * Connect, and take commands until the program closes the socket.  Returns the
 * process's exit status.
 */
static int
session_main(const PeerClient *lock)
{
	Shared	   *shared = map_shared(SHARED_FD);
	void	   *session = lock->connect();
	Command		command;

	if (session && lock == &recipe_client)
		recipe_show_queued(session, &shared->queued);
	if (!answer(shared, session != NULL) || session == NULL)
		return 1;
	while (recv(STDIN_FILENO, &command, sizeof(command), 0) == sizeof(command) &&
		   answer(shared,
				  run_command(lock, session, &command, shared->holds)))
		;
	lock->disconnect(session);
	return 0;
}

/*-------------------------------------------------------------------------
 * The program
 *-------------------------------------------------------------------------
 */

/*
 * Wait for the answer to a command, or to the start.
 */
static bool
heard(const Process *process)
{
	bool		ok;

	if (recv(process->socket, &ok, sizeof(ok), 0) != sizeof(ok))
		return peer_fail("the process of a session has ended");
	return ok || peer_fail("%s", process->shared->failure);
}

/*
 * Have a process do something.
 */
static bool
ask(const Process *process, Action action, const char *path, int count,
	int hold_us)
{
	Command		command = {.action = action,.count = count,.hold_us = hold_us};

	snprintf(command.path, sizeof(command.path), "%s", path);
	if (send(process->socket, &command, sizeof(command), 0) != sizeof(command))
		return peer_fail("the process of a session has ended");
	return heard(process);
}

/*
 * Start this program again, with a socket and the memory that it shares.  It
 * inherits no other session's.  Returns 0, or an error number.
 */
static int
spawn(pid_t *pid, int socket, int shared)
{
	char	   *argv[] = {
		"processes", (char *) kind, (char *) servers, "session", NULL
	};
	posix_spawn_file_actions_t actions;
	int			error;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, shared, SHARED_FD);
	error = posix_spawn(pid, "/proc/self/exe", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

/*
 * Start a session's process, which begins to connect.  Returns NULL if that
 * fails.
 */
static Process *
start_process(void)
{
	Process    *process = calloc(1, sizeof(*process));
	int			sockets[2] = {-1, -1};
	int			fd = memfd_create("session", MFD_CLOEXEC);
	int			error = 0;

	if (process == NULL)
		abort();
	if (fd < 0 || ftruncate(fd, sizeof(Shared)) != 0 ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
		error = errno;
	else
		error = spawn(&process->pid, sockets[1], fd);
	if (sockets[1] >= 0)
		close(sockets[1]);
	process->socket = sockets[0];
	if (error == 0)
	{
		process->shared = map_shared(fd);
		return process;
	}
	peer_fail("a process cannot be started: %s", strerror(error));
	close(sockets[0]);
	close(fd);
	free(process);
	return NULL;
}

/*
 * PeerClient.disconnect: wait until the process has ended, and with it its
 * session.
 */
static void
disconnect(void *arg)
{
	Process    *process = arg;

	close(process->socket);
	while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
		;
	munmap(process->shared, sizeof(Shared));
	free(process);
}

/*
 * PeerClient.connect_many: all connect at the same time, or none is left.
 */
static bool
connect_many(void **sessions, int count)
{
	int			begun = 0;
	bool		ok = true;

	while (begun < count && (sessions[begun] = start_process()) != NULL)
		begun++;
	for (int i = 0; i < begun; i++)
		ok = heard(sessions[i]) && ok;
	if (ok && begun == count)
		return true;
	while (begun > 0)
		disconnect(sessions[--begun]);
	return false;
}

/*
 * PeerClient.connect.
 */
static void *
connect_one(void)
{
	void	   *session;

	return connect_many(&session, 1) ? session : NULL;
}

/*
 * The functions of PeerClient that a process does.
 */
static bool
prepare(void *process, const char *path)
{
	return ask(process, PREPARE, path, 0, 0);
}

static bool
acquire(void *process, const char *path)
{
	return ask(process, ACQUIRE, path, 0, 0);
}

static bool
release(void *process, const char *path)
{
	return ask(process, RELEASE, path, 0, 0);
}

static bool
acquire_many(void *process, const char *path, int count)
{
	return ask(process, ACQUIRE_MANY, path, count, 0);
}

static bool
release_many(void *process, const char *path, int count)
{
	return ask(process, RELEASE_MANY, path, count, 0);
}

/*
 * PeerClient.hold: one command; the times are the process's.
 */
static bool
hold_many(void *arg, const char *path, int count, int hold_us, PeerHold *holds)
{
	Process    *process = arg;

	if (count > MAX_HOLDS)
		return peer_fail("%d holds are too many", count);
	if (!ask(process, HOLD, path, count, hold_us))
		return false;
	memcpy(holds, process->shared->holds, count * sizeof(*holds));
	return true;
}

/*
 * PeerClient.queued.  What is no lock has no queue to wait for.
 */
static bool
is_queued(void *arg)
{
	return lock_client()->excludes_nobody ||
		atomic_load(&((Process *) arg)->shared->queued);
}

int
main(int argc, char **argv)
{
	PeerClient	client = {
		.connect = connect_one,
		.connect_many = connect_many,
		.disconnect = disconnect,
		.prepare = prepare,
		.acquire = acquire,
		.release = release,
		.acquire_many = acquire_many,
		.release_many = release_many,
		.queued = is_queued,
		.hold = hold_many,
	};
	const PeerClient *lock;

	if (argc >= 3)
	{
		kind = argv[1];
		servers = argv[2];
	}
	lock = kind ? lock_client() : NULL;
	if (lock == NULL)
	{
		fputs("usage: processes recipe|empty SERVERS\n", stderr);
		return 2;
	}
	if (argc == 4)
	{
		recipe_init(servers);
		return session_main(lock);
	}
	client.excludes_nobody = lock->excludes_nobody;
	return peer_main(&client);
}
