/*-------------------------------------------------------------------------
 *
 * guards.c
 *	  What libzookeeper must not do to the process it runs in, and its log.
 *
 * The library was written for programs that it may end: it checks itself with
 * assert(), and a failed thread creation or a reply nobody asked for is an
 * assertion (ZOOKEEPER-5073).  In a backend SIGABRT would take the whole
 * cluster down.  Where the library is linked statically, the linker's --wrap
 * sends the calls below to us:
 *
 * __assert_fail	poisons the client and parks the thread for ever.  Held
 *					locks are lost then, later calls fail, the backend lives.
 * pipe				makes descriptors that COPY ... TO PROGRAM does not inherit.
 *
 * and those that have to do with its threads to threads.c, with its socket to
 * socket.c.
 *
 * The log: the library's callback comes without a context on any client
 * thread, so lines go to one ring for the process, and from there, on the
 * backend thread, to the server log.
 *
 * IDENTIFICATION
 *	  src/client/library/guards.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE				/* pipe2 */
#endif

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define LOG_LINES		64
#define LOG_LINE_SIZE	200

typedef struct LogLine
{
	bool		warning;
	int			repeats;
	char		text[LOG_LINE_SIZE];
} LogLine;

/* The log ring; all under log_lock, which any thread may take for a copy. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static LogLine log_lines[LOG_LINES];
static unsigned int log_head;	/* next to write */
static unsigned int log_tail;	/* next to read */
static int	log_dropped;
static char log_error[ZK_DETAIL_SIZE];	/* last complaint of the library */
static ZkError log_error_kind;	/* what it is about, if that is known */

/*
 * The cause of what the library is about to complain about is noted already.  Each thread
 * has its own.
 */
static __thread bool cause_noted;

/* Set once, by the thread that failed a check; read by all. */
atomic_bool zk_poisoned;

static atomic_int poison_event_fd = -1;

/* Whom to interrupt; written before there is any other thread. */
static pthread_t backend_thread;
static atomic_int loss_signal;

/*
 * Tell how the backend, whose thread this is, learns that the client is poisoned
 * (the descriptor wakes it), or has lost a lock (the signal; 0 for none).
 */
void
zk_guard_backend(int event_fd, int signal_number)
{
	backend_thread = pthread_self();
	atomic_store(&poison_event_fd, event_fd);
	atomic_store(&loss_signal, signal_number);
}

/*
 * A lock is lost: interrupt the backend, as it asked for.  Any thread; takes no
 * lock.
 */
void
zk_signal_loss(void)
{
	int			signal_number = atomic_load(&loss_signal);

	if (signal_number != 0)
		pthread_kill(backend_thread, signal_number);
}

/*
 * The descriptor is about to be closed.  It may not be the one any more: the
 * next client may have been started before the last one has ended.  Any thread.
 */
void
zk_guard_forget_event_fd(int fd)
{
	atomic_compare_exchange_strong(&poison_event_fd, &fd, -1);
}

#ifdef ZKLOCK_STATIC_LIBRARY

extern void __wrap___assert_fail(const char *expression, const char *file,
								 unsigned int line, const char *function)
			__attribute__((noreturn));
extern int	__wrap_pipe(int fds[2]);

/*
 * An assertion of the library failed, on whatever client thread.  Its locks
 * may be held and its data half changed, so nothing of it can be used again,
 * nor freed: leave everything as it is, and say so.
 */
void
__wrap___assert_fail(const char *expression, const char *file,
					 unsigned int line, const char *function)
{
	uint64_t	one = 1;
	int			fd = atomic_load(&poison_event_fd);

	zk_log(true, "ZooKeeper client library failed a check: %s (%s:%u, %s)",
		   expression, file, line, function);
	atomic_store(&zk_poisoned, true);
	if (fd >= 0)
		while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	zk_signal_loss();
	for (;;)
		pause();
}

/*
 * As pipe(), close-on-exec.
 */
int
__wrap_pipe(int fds[2])
{
	return pipe2(fds, O_CLOEXEC);
}

#endif							/* ZKLOCK_STATIC_LIBRARY */

/*
 * Put a line into the ring.  A line like the one before only counts, a full
 * ring drops.  log_lock is held.
 */
static void
log_append(bool warning, const char *text)
{
	LogLine    *line;

	if (log_head != log_tail)
	{
		line = &log_lines[(log_head - 1) % LOG_LINES];
		if (strncmp(line->text, text, LOG_LINE_SIZE - 1) == 0)
		{
			line->repeats++;
			return;
		}
	}
	if (log_head - log_tail >= LOG_LINES)
	{
		log_dropped++;
		return;
	}
	line = &log_lines[log_head++ % LOG_LINES];
	line->warning = warning;
	line->repeats = 1;
	snprintf(line->text, sizeof(line->text), "%s", text);
}

/*
 * Log a line of our own.  Any thread.
 */
void
zk_log(bool warning, const char *fmt,...)
{
	char		text[LOG_LINE_SIZE];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	pthread_mutex_lock(&log_lock);
	log_append(warning, text);
	pthread_mutex_unlock(&log_lock);
}

/*
 * The library is about to complain of what has a cause that it cannot tell: this.
 * log_lock is held.
 */
static void
note_cause(ZkError error, const char *text)
{
	snprintf(log_error, sizeof(log_error), "%s", text);
	log_error_kind = error;
	cause_noted = true;
}

/*
 * Log the cause of an error, which the library cannot tell, before it complains.  On the
 * thread of that complaint.
 */
void
zk_log_cause(ZkError error, const char *fmt,...)
{
	char		text[LOG_LINE_SIZE];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	pthread_mutex_lock(&log_lock);
	log_append(false, text);
	note_cause(error, text);
	pthread_mutex_unlock(&log_lock);
}

/*
 * A connection is given up for that reason, which begins with a small letter: log it,
 * before the library complains.  On the thread of that complaint.
 */
void
zk_log_given_up(const char *server, const char *why)
{
	char		text[LOG_LINE_SIZE];

	pthread_mutex_lock(&log_lock);
	snprintf(text, sizeof(text), "giving up the connection to %s: %s", server, why);
	log_append(true, text);
	snprintf(text, sizeof(text), "The connection to %s was given up: %s.", server, why);
	note_cause(ZK_OK, text);
	pthread_mutex_unlock(&log_lock);
}

/*
 * The library complains.  Of the two lines about a failure of SASL the first one is about
 * the cause.  log_lock is held.
 */
static void
note_error(const char *message)
{
	if (!cause_noted)
	{
		snprintf(log_error, sizeof(log_error), "%.200s", message);
		log_error_kind = ZK_OK;
	}
	cause_noted = strstr(message, "SASL negotiation: ") != NULL ||
		strstr(message, "SASL connection state: ") != NULL;
}

/*
 * The library's log callback: "time:pid:ZOO_LEVEL@function@line: message".
 * Runs on any client thread, under locks of the library.
 */
void
zk_log_callback(const char *line)
{
	const char *level = strstr(line, "ZOO_");
	const char *message;

	if (level == NULL)
		return;
	message = strstr(level, ": ");
	message = message != NULL ? message + 2 : level;
	pthread_mutex_lock(&log_lock);
	log_append(false, message);
	if (strncmp(level, "ZOO_ERROR", 9) == 0)
		note_error(message);
	pthread_mutex_unlock(&log_lock);
}

/*
 * Take the oldest line; see zk_client_log_line().  Any thread.
 */
bool
zk_log_take(char *line, size_t size, bool *warning, int *repeats, int *dropped)
{
	bool		found = false;

	pthread_mutex_lock(&log_lock);
	if (log_head != log_tail)
	{
		LogLine    *oldest = &log_lines[log_tail++ % LOG_LINES];

		snprintf(line, size, "%s", oldest->text);
		*warning = oldest->warning;
		*repeats = oldest->repeats;
		*dropped = log_dropped;
		log_dropped = 0;
		found = true;
	}
	pthread_mutex_unlock(&log_lock);
	return found;
}

/*
 * The library's last complaint since zk_log_clear_error(), or its cause, or an empty
 * string, into ZK_DETAIL_SIZE bytes.  Returns what it is about, ZK_OK if that is not
 * known.  Any thread.
 */
ZkError
zk_log_last_error(char *detail)
{
	ZkError		kind;

	pthread_mutex_lock(&log_lock);
	memcpy(detail, log_error, ZK_DETAIL_SIZE);
	kind = log_error_kind;
	pthread_mutex_unlock(&log_lock);
	return kind;
}

void
zk_log_clear_error(void)
{
	pthread_mutex_lock(&log_lock);
	log_error[0] = '\0';
	log_error_kind = ZK_OK;
	pthread_mutex_unlock(&log_lock);
}
