/*-------------------------------------------------------------------------
 *
 * events.c
 *	  What can happen while "zklock run" waits: signals, and the guardian's
 *	  report.
 *
 * While there is nothing but a connection, a signal ends the program as it does
 * any other; libpq may wait for the resolver then.  From the request for the
 * lock on, signals are read from a descriptor, so nothing is interrupted.
 * Those that ask a process to end, or tell it something, concern the command:
 * they end the wait for the lock, and are forwarded from the order to run the
 * command on (E4).  The terminal sends its signals to the command, too, as soon
 * as that runs.  What was ignored when we were started (nohup) remains so.  The
 * terminal's SIGTSTP and SIGTTOU cannot stop us, because a stopped process
 * proves no lock; SIGPIPE does not end us if our messages have no reader.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "events.h"

static const int handled_signals[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP
};

Events		events;

static int	guardian_socket = -1;
static int	signals = -1;
static bool forwarding = false;

/* Starts to watch signals and the guardian.  Returns false, with errno. */
bool
events_begin(int socket)
{
	sigset_t	set;
	struct sigaction action;

	guardian_socket = socket;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(handled_signals) / sizeof(handled_signals[0]); i++)
		if (sigaction(handled_signals[i], NULL, &action) == 0 &&
			action.sa_handler != SIG_IGN)
			sigaddset(&set, handled_signals[i]);
	(void) sigprocmask(SIG_BLOCK, &set, NULL);
	(void) signal(SIGPIPE, SIG_IGN);
	(void) signal(SIGTTOU, SIG_IGN);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return signals >= 0;
}

/* Sends the guardian an order.  One that has ended needs none. */
void
events_order(const Order *order)
{
	while (send(guardian_socket, order, sizeof(*order), MSG_NOSIGNAL) < 0 &&
		   errno == EINTR)
		;
}

/* From now on, signals are the command's. */
void
events_forward_signals(void)
{
	forwarding = true;
}

/* Takes a signal: forwards it, or notes it if it asks to end. */
static void
take_signal(void)
{
	struct signalfd_siginfo info;
	Order		order = {.kind = ORDER_SIGNAL};

	if (read(signals, &info, sizeof(info)) != sizeof(info) ||
		info.ssi_signo == SIGTSTP)
		return;
	order.signal = (int) info.ssi_signo;
	if (forwarding)
	{
		if (info.ssi_code != SI_KERNEL || !events.report.runs)
			events_order(&order);
	}
	else if (order.signal == SIGHUP || order.signal == SIGINT ||
			 order.signal == SIGQUIT || order.signal == SIGTERM)
		events.signal = order.signal;
}

/*
 * Takes the guardian's report, or its end without one.  If it has ended without
 * having read all orders, there is an error before the report.
 */
static void
take_report(void)
{
	ssize_t		size;

	do
		size = recv(guardian_socket, &events.report, sizeof(events.report), MSG_DONTWAIT);
	while (size < 0 && (errno == EINTR || errno == ECONNRESET));
	if (size == sizeof(events.report))
		events.reported = !events.report.runs;
	else if (size == 0 || errno != EAGAIN)
		events.guardian_lost = !events.reported;
}

/*
 * Waits for an event on a descriptor (or -1), or another event, at most until
 * that time.  Returns what has happened on the descriptor.
 */
short
events_wait(int fd, short wanted, Time until)
{
	struct pollfd fds[] = {
		{.fd = fd,.events = wanted},
		{.fd = signals,.events = POLLIN},
		{.fd = events.reported || events.guardian_lost ? -1 : guardian_socket,.events = POLLIN}
	};
	Time		left = until == FOREVER ? -1 : until - now();
	int			timeout = until == FOREVER ? -1 : left <= 0 ? 0 :
	left > MS(60000) ? 60000 : (int) (left / 1000) + 1;

	if (poll(fds, 3, timeout) <= 0)
		return 0;
	if (fds[1].revents != 0)
		take_signal();
	if (fds[2].revents != 0)
		take_report();
	return fds[0].revents;
}
