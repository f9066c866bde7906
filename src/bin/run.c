/*-------------------------------------------------------------------------
 *
 * run.c
 *	  Run a command under a lock: connect, wait for the lock, have the guardian
 *	  run the command, prove the lock, release it.
 *
 * E8. The lock is proved every quarter of the session timeout, and the guardian
 * told until when it is held (E1).  If PostgreSQL or ZooKeeper cannot be
 * reached, the command goes on until the lease ends: it may be done before.  If
 * the lock is lost, the command is ended at once.
 *
 * E9. The exit status is the command's if the lock was held until its end; if a
 * signal killed it, we die of that, too.  If the lock was not held, the status
 * says that it was lost, whatever the command says: another one may have run
 * beside it.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descendants.h"
#include "events.h"
#include "run.h"

/* How long to wait before another proof after an error. */
#define RETRY_TIME		MS(200)

/* How long a release may take, when the lease is over anyway. */
#define RELEASE_TIME	MS(1000)

static const Target *target;
static Lease lease;

/* Prints a message of ours. */
static void
complain(const char *format, const char *argument)
{
	fprintf(stderr, "zklock: ");
	fprintf(stderr, format, argument);
	fprintf(stderr, "\n");
}

/*
 * Dies of the signal that killed the command, or that came while the lock was
 * waited for: a shell looks at that, and ends a loop.  Our core would not help.
 */
static int
die_of_signal(int signal_number)
{
	sigset_t	set;

	connection_close();
	(void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void) signal(signal_number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, signal_number);
	(void) sigprocmask(SIG_UNBLOCK, &set, NULL);
	(void) kill(getpid(), signal_number);
	return 128 + signal_number;
}

/* Reports why there is no lock.  Returns the exit status. */
static int
fail(Outcome outcome)
{
	connection_close();
	complain("could not acquire the lock\n%s", connection_error());
	return outcome == OUTCOME_UNREACHABLE ? EXIT_UNREACHABLE :
		outcome == OUTCOME_LOST ? EXIT_LOST : EXIT_ERROR;
}

/* Ends because of a signal that came before the command was run. */
static int
give_up(bool acquired)
{
	bool		held;

	if (acquired && connection_is_up())
		(void) connection_release(target, false, &held, now() + RELEASE_TIME);
	return die_of_signal(events.signal);
}

/* Until when the command may run after a lease: see E1. */
static Time
kill_time(Time end)
{
	return end + lease.session_timeout / 6;
}

/* Proves the lock, and tells the guardian.  Returns when to do so again. */
static Time
prove(void)
{
	Order		order = {.kind = ORDER_LEASE};
	Outcome		outcome = connection_prove(target, &lease, lease.end);
	Time		time = now();

	switch (outcome)
	{
		case OUTCOME_DONE:
			order.end = lease.end;
			order.kill = kill_time(lease.end);
			events_order(&order);
			return lease.proved_at + lease.session_timeout / 4;
		case OUTCOME_LOST:
			complain("%s", connection_error());
			order.kind = ORDER_END;
			order.kill = kill_time(time < lease.end ? time : lease.end);
			events_order(&order);
			return FOREVER;
		default:
			if (connection_is_up())
				return time + RETRY_TIME;
			complain("connection to PostgreSQL was lost, so the command must end soon\n%s",
					 connection_error());
			return FOREVER;
	}
}

/* Waits until nothing of the command runs, and proves the lock meanwhile. */
static void
watch_command(void)
{
	Order		order = {
		.kind = ORDER_START,
		.end = lease.end,
		.kill = kill_time(lease.end)
	};
	Time		next = lease.proved_at + lease.session_timeout / 4;

	snprintf(order.token, sizeof(order.token), "%s", lease.token);
	events_forward_signals();
	events_order(&order);
	while (!events.reported && !events.guardian_lost)
	{
		if (now() >= next)
			next = prove();
		else
			(void) events_wait(-1, 0, next);
	}
}

/* The guardian was killed: does its work (E2). */
static void
end_orphans(void)
{
	do
	{
		descendants_signal(SIGKILL, 0);
		(void) poll(NULL, 0, 5);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	} while (waitpid(-1, NULL, WNOHANG) == 0);
}

/* Returns the signal that killed the command; 0 if none did. */
static int
killed_by(void)
{
	const Report *report = &events.report;

	return report->started && WIFSIGNALED(report->status) ? WTERMSIG(report->status) : 0;
}

/* Returns the exit status that the command's end amounts to (E9). */
static int
command_status(void)
{
	const Report *report = &events.report;

	if (!report->started)
	{
		fprintf(stderr, "zklock: could not execute the command: %s\n",
				strerror(report->status));
		return report->status == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
	}
	return killed_by() != 0 ? 128 + killed_by() : WEXITSTATUS(report->status);
}

/* Releases the lock after the command.  Returns the exit status. */
static int
finish(void)
{
	bool		by_us = events.guardian_lost || events.report.ended_by_us;
	int			status = events.guardian_lost ? EXIT_ERROR : command_status();
	bool		held;
	Time		until = now() + RELEASE_TIME;
	Outcome		outcome;

	outcome = connection_release(target, !by_us && status == 0, &held,
								 until > lease.end ? until : lease.end);
	if (events.guardian_lost)
		complain("%s", "the process that runs the command was killed, and so was the command");
	else if (by_us)
		complain("lock \"%s\" was lost, and the command was ended", target->path);
	else if (outcome == OUTCOME_LOST || (outcome == OUTCOME_DONE && !held))
	{
		complain("lock \"%s\" was lost before the command ended", target->path);
		by_us = true;
	}
	else if (outcome != OUTCOME_DONE)
	{
		complain("could not release the lock; it becomes free when its ZooKeeper session expires\n%s",
				 connection_error());
		if (target->fire_time != NULL && status == 0)
			return EXIT_UNREACHABLE;
	}
	return events.guardian_lost ? EXIT_ERROR : by_us ? EXIT_LOST : status;
}

/* Runs the command under the lock.  Returns the exit status. */
int
run(const RunOptions *options)
{
	int			guardian;
	bool		acquired = false;
	Outcome		outcome;
	int			status;

	target = &options->target;
	if (guardian_start(options->command, target->path, &guardian) < 0)
	{
		complain("could not start: %s", strerror(errno));
		return EXIT_ERROR;
	}
	outcome = connection_open(options->keywords, options->values);
	if (outcome == OUTCOME_DONE && !events_begin(guardian))
	{
		complain("could not handle signals: %s", strerror(errno));
		return EXIT_ERROR;
	}
	if (outcome == OUTCOME_DONE)
		outcome = connection_acquire(target, &acquired);
	if (outcome == OUTCOME_DONE && !acquired)
	{
		connection_close();
		return options->busy_status;
	}
	if (outcome == OUTCOME_DONE)
		outcome = connection_prove(target, &lease, FOREVER);
	if (events.signal != 0)
		return give_up(acquired);
	if (outcome != OUTCOME_DONE)
		return fail(outcome);
	watch_command();
	if (events.guardian_lost)
		end_orphans();
	status = finish();
	connection_close();
	return status > 128 && status == killed_by() + 128 ? die_of_signal(killed_by()) : status;
}
