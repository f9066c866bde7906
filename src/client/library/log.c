/*-------------------------------------------------------------------------
 *
 * log.c
 *	  The log lines of library and client, until the backend takes them.
 *
 * Their threads cannot write to the server's log, and the library's callback
 * comes without a context.  So lines go into one ring for the process, from
 * which the backend takes them (zk_client_log_line()).  The library's last
 * complaint is kept, as nothing else says why there is no connection.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "inside.h"

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
 * This thread has noted the cause of what the library is about to complain
 * about.
 */
static __thread bool cause_noted;

/* See zk_log_broken_off(). */
static atomic_bool broken_off;

/*
 * Put a line into the ring.  One like the line before is only counted; a full
 * ring drops it.  log_lock.
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

/* Log a line of our own.  Any thread. */
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
 * Note the cause of what the library is about to complain about, which it does
 * not know.  log_lock.
 */
static void
note_cause(ZkError error, const char *text)
{
	snprintf(log_error, sizeof(log_error), "%s", text);
	log_error_kind = error;
	cause_noted = true;
}

/* Log and note such a cause, a sentence.  On the thread that will complain. */
void
zk_log_cause(ZkError error, const char *fmt,...)
{
	char		text[LOG_LINE_SIZE];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	zk_log(false, "%s", text);
	pthread_mutex_lock(&log_lock);
	note_cause(error, text);
	pthread_mutex_unlock(&log_lock);
}

/*
 * A connection is given up for that reason, which begins with a small letter:
 * log and note it.  On the thread that will complain.
 */
void
zk_log_given_up(const char *server, const char *why)
{
	char		text[LOG_LINE_SIZE];

	zk_log(true, "closing connection to %s: %s", server, why);
	pthread_mutex_lock(&log_lock);
	snprintf(text, sizeof(text), "The connection to %s was closed: %s.", server, why);
	note_cause(ZK_OK, text);
	pthread_mutex_unlock(&log_lock);
}

/*
 * Set whether the connection was broken by us, or is to be: then the library's
 * complaint says no more than that the server did not answer in time.  Any
 * thread; takes no lock.
 */
void
zk_log_broken_off(bool broken)
{
	atomic_store(&broken_off, broken);
}

/*
 * Has the server closed the connection?  The library says EHOSTDOWN when there
 * is nothing more to be read; a connection that the server closes at once can
 * be reset before the library has looked at it, which then calls that a
 * refusal (S71).
 */
static bool
is_closed(long code, bool connecting)
{
	return code == ECONNRESET || code == EPIPE || (code == EHOSTDOWN && !connecting);
}

/*
 * Note what the library says of a connection, as a sentence of ours.  Its words
 * are "Socket ADDRESS zk retcode=N, errno=N(TEXT): WHAT"; returns false if they
 * are others.  log_lock.
 */
static bool
note_socket_error(const char *message)
{
	char		address[100];
	const char *number = strstr(message, " errno=");
	const char *text = number != NULL ? strchr(number, '(') : NULL;
	const char *what = text != NULL ? strstr(text, "): ") : NULL;
	int			text_len;
	long		code;
	bool		connecting;

	if (what == NULL || sscanf(message, "Socket %99s zk retcode=", address) != 1)
		return false;
	code = strtol(number + strlen(" errno="), NULL, 10);
	text_len = (int) (what - ++text);
	connecting = strstr(what, " refused to ") != NULL ||
		strstr(what, "() call failed") != NULL;
	if (atomic_load(&broken_off) || strstr(what, " timed out ") != NULL)
		snprintf(log_error, sizeof(log_error), "The server at %s did not respond in time.",
				 address);
	else if (is_closed(code, connecting))
	{
		snprintf(log_error, sizeof(log_error), "The server at %s closed the connection.",
				 address);
		log_error_kind = ZK_ERR_CLOSED;
	}
	else if (connecting)
		snprintf(log_error, sizeof(log_error), "Could not connect to %s: %.*s.", address,
				 text_len, text);
	else
		snprintf(log_error, sizeof(log_error), "The connection to %s failed: %.*s.",
				 address, text_len, text);
	return true;
}

/*
 * The library complains.  Of its two lines about a failure of SASL the first
 * has the cause.  log_lock.
 */
static void
note_error(const char *message)
{
	if (!cause_noted)
	{
		log_error_kind = ZK_OK;
		if (!note_socket_error(message))
			snprintf(log_error, sizeof(log_error),
					 "The ZooKeeper client library reported: %.190s.", message);
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
	if (strncmp(level, "ZOO_ERROR", strlen("ZOO_ERROR")) == 0)
		note_error(message);
	pthread_mutex_unlock(&log_lock);
}

/* Take the oldest line; see zk_client_log_line().  Any thread. */
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
 * Copy the library's last complaint since zk_log_clear_error(), or its cause,
 * or an empty string, to ZK_DETAIL_SIZE bytes.  Returns what it is about,
 * ZK_OK if that is not known.  Any thread.
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
