/*-------------------------------------------------------------------------
 *
 * guardian.c
 *	  The process that runs the command, and ends it in time.
 *
 * "zklock run" is two processes.  The one that the user started (run.c) has the
 * connection to PostgreSQL and proves the lock; its child, the guardian, has
 * the command.  They talk by packets of a socket.
 *
 * E1. Nothing of the command runs when the next holder begins.  The guardian
 * knows until when the lock is held, whatever happens to the other process, to
 * PostgreSQL and to the network: each proof moves the end.  At the end of the
 * lease it sends SIGTERM, and SIGCONT, as a stopped process handles no signal;
 * a sixth of the session timeout later SIGKILL, to all descendants, until none
 * is left.  Another sixth is reserved for that: the ensemble cannot give the
 * lock to others before the whole timeout has passed since the last proof.
 * Times are those of CLOCK_BOOTTIME, so a suspended machine counts.
 *
 * E2. If the other process vanishes, the socket ends, and all is killed at
 * once.  The backend leaves its lock to the expiry of its ZooKeeper session
 * then (zklock.release_at_exit), which comes later.  If the guardian itself is
 * killed, the kernel kills the command (PR_SET_PDEATHSIG), and the other
 * process, which adopts, kills what else there is.
 *
 * E3. The lock is released only when nothing of the command runs: the report
 * comes when the guardian has no child left.  What the command leaves running
 * when it ends gets SIGTERM, and SIGKILL two seconds later.
 *
 * E4. The command has a process group of its own, to which signals are
 * forwarded, and which is that of the terminal while the command runs, if ours
 * was.  It cannot be suspended from the terminal, as others wait for the lock.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "descendants.h"
#include "guardian.h"

/* How long what a command leaves behind may take to end by itself. */
#define REST_TIME	MS(2000)

/* How often SIGKILL is repeated while processes are left. */
#define KILL_PAUSE	MS(5)

typedef enum Stage
{
	STAGE_IDLE,					/* not started */
	STAGE_RUNNING,
	STAGE_ENDING,				/* SIGTERM was sent */
	STAGE_KILLING
} Stage;

static struct
{
	char	  **command;
	sigset_t	mask;			/* of signals, as the user's shell left it */
	int			socket;			/* -1 when the other process has vanished */
	int			signals;		/* signalfd for SIGCHLD */
	int			timer;
	Stage		stage;
	pid_t		pid;			/* of the command, and its process group */
	bool		ended;			/* the command itself has */
	bool		has_terminal;	/* its process group is the terminal's */
	Time		end;			/* SIGTERM is due */
	Time		kill;			/* SIGKILL is due */
	Report		report;
}			guardian;

/* Returns the time by CLOCK_BOOTTIME. */
Time
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_BOOTTIME, &time);
	return (Time) time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

/* Makes the timer wake the guardian at that time. */
static void
set_timer(Time at)
{
	struct itimerspec setting = {0};

	if (at != FOREVER)
	{
		setting.it_value.tv_sec = at / 1000000;
		setting.it_value.tv_nsec = at % 1000000 * 1000 + 1;
	}
	(void) timerfd_settime(guardian.timer, TFD_TIMER_ABSTIME, &setting, NULL);
}

/* In the new process: becomes the command.  Reports errno if that fails. */
static void
become_command(int failure)
{
	ssize_t		ignored;

	(void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void) setpgid(0, 0);
	if (guardian.has_terminal)
		(void) tcsetpgrp(STDIN_FILENO, getpid());
	(void) sigprocmask(SIG_SETMASK, &guardian.mask, NULL);
	(void) execvp(guardian.command[0], guardian.command);
	ignored = write(failure, &errno, sizeof(errno));
	(void) ignored;
	_exit(127);
}

/* Starts the command with that token.  Returns 0, or errno. */
static int
start_command(const char *token)
{
	int			failure[2];
	int			error = 0;

	if (setenv("ZKLOCK_TOKEN", token, 1) != 0 || pipe2(failure, O_CLOEXEC) != 0)
		return errno;
	guardian.has_terminal = isatty(STDIN_FILENO) &&
		tcgetpgrp(STDIN_FILENO) == getpgrp();
	guardian.pid = fork();
	if (guardian.pid < 0)
		error = errno;
	else if (guardian.pid == 0)
		become_command(failure[1]);
	(void) close(failure[1]);
	if (error == 0)
	{
		(void) setpgid(guardian.pid, guardian.pid);
		if (read(failure[0], &error, sizeof(error)) != sizeof(error))
			error = 0;
	}
	(void) close(failure[0]);
	return error;
}

/* Reports, gives the terminal back, and ends. */
static void
leave(void)
{
	if (guardian.has_terminal)
		(void) tcsetpgrp(STDIN_FILENO, getpgrp());
	(void) send(guardian.socket, &guardian.report, sizeof(guardian.report), MSG_NOSIGNAL);
	_exit(0);
}

/* Asks all descendants to end, and has them killed at that time. */
static void
begin_to_end(Time kill_at)
{
	guardian.kill = kill_at;
	if (guardian.stage >= STAGE_ENDING)
		return;
	guardian.stage = STAGE_ENDING;
	descendants_signal(SIGTERM);
	descendants_signal(SIGCONT);
}

/* Ends the command because the lock is lost, or will be. */
static void
end_command(Time kill_at)
{
	if (guardian.stage == STAGE_IDLE)
		leave();
	if (!guardian.ended)
		guardian.report.ended_by_us = true;
	begin_to_end(kill_at);
}

/* Takes note of children that have ended or stopped; leaves after the last. */
static void
collect_children(void)
{
	int			status;
	pid_t		pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0)
	{
		if (WIFSTOPPED(status))
		{
			if (WSTOPSIG(status) == SIGTSTP)
				(void) kill(-guardian.pid, SIGCONT);
			continue;
		}
		if (pid != guardian.pid)
			continue;
		guardian.ended = true;
		guardian.report.status = status;
		if (guardian.stage == STAGE_RUNNING)
			begin_to_end(now() + REST_TIME < guardian.kill ?
						 now() + REST_TIME : guardian.kill);
	}
	if (pid < 0 && errno == ECHILD && guardian.stage > STAGE_IDLE)
		leave();
}

/* Does what is due by the clock.  Returns when to look again. */
static Time
look_at_clock(void)
{
	Time		time = now();

	if (guardian.stage == STAGE_IDLE)
		return FOREVER;
	if (guardian.stage == STAGE_RUNNING && time >= guardian.end)
		end_command(guardian.kill);
	if (guardian.stage == STAGE_RUNNING)
		return guardian.end;
	if (time < guardian.kill)
		return guardian.kill;
	guardian.stage = STAGE_KILLING;
	descendants_signal(SIGKILL);
	return time + KILL_PAUSE;
}

/* Carries out ORDER_START; does not return if the command cannot be run. */
static void
start(const Order *order)
{
	int			error = start_command(order->token);

	guardian.end = order->end;
	guardian.kill = order->kill;
	guardian.stage = STAGE_RUNNING;
	guardian.report.started = error == 0;
	if (error == 0)
		return;
	guardian.report.status = error;
	leave();
}

/* Carries out one order; the end of the other process is one, too (E2). */
static void
take_order(void)
{
	Order		order;
	ssize_t		size = recv(guardian.socket, &order, sizeof(order), MSG_DONTWAIT);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size != sizeof(order))
	{
		(void) close(guardian.socket);
		guardian.socket = -1;
		end_command(0);
		return;
	}
	switch (order.kind)
	{
		case ORDER_START:
			start(&order);
			break;
		case ORDER_LEASE:
			guardian.end = order.end;
			if (guardian.stage == STAGE_RUNNING)
				guardian.kill = order.kill;
			break;
		case ORDER_SIGNAL:
			if (guardian.stage == STAGE_RUNNING && !guardian.ended)
				(void) kill(-guardian.pid, order.signal);
			break;
		case ORDER_END:
			end_command(order.kill);
			break;
	}
}

/* The guardian's loop, which leave() ends. */
static void
run_guardian(void)
{
	struct pollfd fds[] = {
		{.fd = guardian.socket,.events = POLLIN},
		{.fd = guardian.signals,.events = POLLIN},
		{.fd = guardian.timer,.events = POLLIN}
	};
	struct signalfd_siginfo info;

	for (;;)
	{
		set_timer(look_at_clock());
		fds[0].fd = guardian.socket;
		if (poll(fds, 3, -1) < 0)
			continue;
		if (fds[1].revents != 0)
			(void) (read(guardian.signals, &info, sizeof(info)) < 0);
		collect_children();
		if (fds[0].revents != 0)
			take_order();
	}
}

/*
 * Starts the guardian for a command and a lock path; *socket is for orders, and
 * for the report.  It has no descriptor that is opened later.  Returns its
 * process ID, or -1 with errno.
 */
pid_t
guardian_start(char **command, const char *path, int *socket)
{
	int			pair[2];
	sigset_t	all;
	sigset_t	child;
	pid_t		pid;

	if (setenv("ZKLOCK_PATH", path, 1) != 0 || !descendants_adopt() ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return -1;
	pid = fork();
	if (pid != 0)
	{
		(void) close(pair[1]);
		*socket = pair[0];
		return pid;
	}
	(void) close(pair[0]);
	/* SIGTTOU as well: it may set the group of the terminal */
	sigfillset(&all);
	(void) sigprocmask(SIG_SETMASK, &all, &guardian.mask);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	guardian.command = command;
	guardian.socket = pair[1];
	guardian.end = guardian.kill = FOREVER;
	guardian.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	guardian.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (guardian.signals < 0 || guardian.timer < 0 || !descendants_adopt())
		_exit(1);
	run_guardian();
	return -1;
}
