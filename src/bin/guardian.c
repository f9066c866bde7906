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
 * E4. On a terminal, the command stays in the process group that we were
 * started in, as under flock(1): so it can read from the terminal whenever that
 * job is in the foreground, and keys interrupt the whole job, also a script or
 * a pipeline that we are part of.  Without a terminal, the command has a group
 * of its own.  Signals that others send us are forwarded to the processes of
 * the group that are the command's.  It cannot be suspended from the terminal,
 * as others wait for the lock.  The guardian has a group of its own, so what
 * kills a whole job (timeout -k) leaves it the time to kill the rest (E2).
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <termios.h>
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
	pid_t		job;			/* the process group that we were started in */
	int			terminal;		/* -1 if there is none */
	bool		foreground;		/* the job had the terminal at first */
	struct termios modes;		/* of the terminal then */
	pid_t		pid;			/* of the command */
	pid_t		group;			/* its process group: job, or its own */
	bool		ended;			/* the command itself has */
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
	if (guardian.terminal < 0 || setpgid(0, guardian.job) != 0)
		(void) setpgid(0, 0);
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
	guardian.foreground = guardian.terminal >= 0 &&
		tcgetpgrp(guardian.terminal) == guardian.job &&
		tcgetattr(guardian.terminal, &guardian.modes) == 0;
	guardian.pid = fork();
	if (guardian.pid < 0)
		error = errno;
	else if (guardian.pid == 0)
		become_command(failure[1]);
	(void) close(failure[1]);
	if (error == 0)
	{
		if (read(failure[0], &error, sizeof(error)) != sizeof(error))
			error = 0;
		guardian.group = getpgid(guardian.pid);
	}
	(void) close(failure[0]);
	return error;
}

/* Sends a signal to the processes of the command's group that are its own. */
static void
signal_command(int signal_number)
{
	if (guardian.group == guardian.pid)
		(void) kill(-guardian.group, signal_number);
	else
		descendants_signal(signal_number, guardian.group);
}

/*
 * Gives the terminal back to the job if a command (a shell) gave it to a group
 * of which nothing is left.  Restores the modes that a command has changed and
 * could not restore, because we ended it.
 */
static void
restore_terminal(void)
{
	pid_t		group;

	if (!guardian.foreground)
		return;
	group = tcgetpgrp(guardian.terminal);
	if (group > 0 && group != guardian.job && kill(-group, 0) != 0 && errno == ESRCH &&
		tcsetpgrp(guardian.terminal, guardian.job) == 0)
		group = guardian.job;
	if (group == guardian.job && guardian.report.ended_by_us)
		(void) tcsetattr(guardian.terminal, TCSANOW, &guardian.modes);
}

/* Reports that the command runs, or that nothing of it does any more. */
static void
send_report(bool runs)
{
	guardian.report.runs = runs;
	(void) send(guardian.socket, &guardian.report, sizeof(guardian.report), MSG_NOSIGNAL);
}

/* Reports, and ends. */
static void
leave(void)
{
	restore_terminal();
	send_report(false);
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
	descendants_signal(SIGTERM, 0);
	descendants_signal(SIGCONT, 0);
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

/*
 * Takes note of a process that has stopped.  It is continued if that came from
 * a key.  In the background, it stops if it reads from the terminal, and the
 * shell's "fg" continues it; but the shell does not show that it has stopped.
 */
static void
handle_stop(pid_t pid, int signal_number)
{
	if (signal_number == SIGTSTP)
		signal_command(SIGCONT);
	else if (signal_number == SIGTTIN && pid == guardian.pid)
		fprintf(stderr, "zklock: the command has stopped, because it reads from the terminal "
				"in the background; it still holds the lock\n");
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
			handle_stop(pid, WSTOPSIG(status));
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
	descendants_signal(SIGKILL, 0);
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
	{
		send_report(true);
		return;
	}
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
				signal_command(order.signal);
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
	pid_t		job = getpgrp();
	pid_t		pid;

	if (setenv("ZKLOCK_PATH", path, 1) != 0 || !descendants_adopt() ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return -1;
	pid = fork();
	if (pid != 0)
	{
		(void) setpgid(pid, pid);
		(void) close(pair[1]);
		*socket = pair[0];
		return pid;
	}
	(void) close(pair[0]);
	(void) setpgid(0, 0);
	/* SIGTTOU as well: it may write to the terminal, and set its group */
	sigfillset(&all);
	(void) sigprocmask(SIG_SETMASK, &all, &guardian.mask);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	guardian.command = command;
	guardian.job = job;
	guardian.terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
	guardian.socket = pair[1];
	guardian.end = guardian.kill = FOREVER;
	guardian.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	guardian.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (guardian.signals < 0 || guardian.timer < 0 || !descendants_adopt())
		_exit(1);
	run_guardian();
	return -1;
}
