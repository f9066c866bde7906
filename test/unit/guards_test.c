/*-------------------------------------------------------------------------
 *
 * guards_test.c
 *	  Tests of guards.c: a check of the library fails on a thread of its own (S331).
 *
 *-------------------------------------------------------------------------
 */
#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "inside.h"
#include "tap.h"

#ifdef ZKLOCK_STATIC_LIBRARY

/* How long to wait for what is to come, in milliseconds. */
#define DEADLINE	60000

static volatile sig_atomic_t losses;

static void
count_loss(int signal_number)
{
	(void) signal_number;
	losses++;
}

/* As the library does; goes on only if that ends the process or nothing. */
static void *
fail_check(void *went_on)
{
	errno = EINTR;				/* which is not about what we do then */
	assert(!"a check of the library");
	*(atomic_bool *) went_on = true;
	return NULL;
}

/* Returns true if the descriptor becomes readable in time, in milliseconds. */
static bool
wakes(int fd, int time)
{
	struct pollfd pfd = {.fd = fd,.events = POLLIN};
	int			rc;

	while ((rc = poll(&pfd, 1, time)) < 0 && errno == EINTR)
		;
	return rc == 1;
}

/* A thread fails a check.  Returns once it has told everything that it tells. */
static void
fail_on_thread(void)
{
	static atomic_bool went_on;
	pthread_t	thread;
	sig_atomic_t before = losses;

	pthread_create(&thread, NULL, fail_check, &went_on);
	for (int i = 0; i < DEADLINE && losses == before; i++)
		poll(NULL, 0, 1);
	is_int(losses, before + 1, "S331: the backend gets a signal");
	ok(zk_poisoned && !went_on, "S331: and the thread goes no further");
}

int
main(void)
{
	int			event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int			other_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int			fds[2];
	char		line[512] = "";
	uint64_t	count = 0;
	bool		warning = false;
	int			repeats;
	int			dropped;

	signal(SIGRTMIN, count_loss);
	zk_guard_backend(event_fd, 0);
	zk_signal_loss();
	is_int(losses, 0, "a backend need not want a signal");
	zk_guard_backend(event_fd, SIGRTMIN);
	ok(!zk_poisoned && !wakes(event_fd, 0), "nothing has failed yet");
	zk_guard_forget_event_fd(other_fd);
	fail_on_thread();
	ok(wakes(event_fd, DEADLINE), "S331: the backend wakes up");
	ok(read(event_fd, &count, sizeof(count)) == sizeof(count) && count == 1, "S331: once");
	ok(zk_log_take(line, sizeof(line), &warning, &repeats, &dropped) && warning &&
	   strstr(line, "failed a check: !\"a check of the library\" (guards_test.c:") != NULL,
	   "S331: the log has it: %s", line);

	zk_guard_forget_event_fd(event_fd);
	fail_on_thread();
	ok(!wakes(event_fd, 0), "S331: a descriptor that was closed is not written to");

	ok(pipe(fds) == 0 && (fcntl(fds[0], F_GETFD) & FD_CLOEXEC) != 0 &&
	   (fcntl(fds[1], F_GETFD) & FD_CLOEXEC) != 0, "S70: programs inherit no pipe");
	return done_testing();
}

#else

int
main(void)
{
	return skip_all("the client library is a shared one");
}

#endif							/* ZKLOCK_STATIC_LIBRARY */
