/*-------------------------------------------------------------------------
 *
 * lock_connection.c
 *	  The connection that holds the lock: SQL, by libpq.
 *
 * E6. Time counts from before a question is sent, so an answer that was
 * delayed, or a process that was, makes a lease shorter and never longer.
 *
 * E7. Settings of the role or the database that end long waits are not for this
 * connection, except lock_timeout, which is about locks.  A backend whose
 * client has vanished notices that within a second, also while it waits.  One
 * that holds the lock ends after a session timeout without a question: we ask
 * four times as often, unless we are cut off or stopped; then the command has
 * ended by that time.
 *
 *-------------------------------------------------------------------------
 */
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock_connection.h"

/* How long a cancelled wait for the lock may take to end. */
#define CANCEL_TIME		MS(1000)

/* Most parameters of a query. */
#define MAX_PARAMS		3

static PGconn *connection = NULL;

/* The process that cancels a query; 0 if there is none. */
static pid_t canceller = 0;

/* No answer came in time, or the connection broke: it is of no use any more. */
static bool broken = false;

static char last_error[4096];

/* Returns what went wrong, in lines as PostgreSQL has them. */
const char *
connection_error(void)
{
	return last_error;
}

/* Keeps a message for connection_error(), without the newline at its end. */
static void
keep_error(const char *message)
{
	size_t		length;

	snprintf(last_error, sizeof(last_error), "%s", message);
	length = strlen(last_error);
	if (length > 0 && last_error[length - 1] == '\n')
		last_error[length - 1] = '\0';
}

/* Returns what an error of the server means. */
static Outcome
judge_error(const PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	keep_error(PQresultErrorMessage(result));
	if (state == NULL || PQstatus(connection) == CONNECTION_BAD ||
		strncmp(state, "08", 2) == 0 || strncmp(state, "57P", 3) == 0)
		return OUTCOME_UNREACHABLE;
	return strcmp(state, "ZKL01") == 0 ? OUTCOME_LOST : OUTCOME_REFUSED;
}

/*
 * Cancels the running query in a process of its own, as libpq's call may wait
 * for a server that is frozen.
 */
static void
cancel_query(void)
{
	char		message[256];
	PGcancel   *cancel = PQgetCancel(connection);
	pid_t		pid = cancel != NULL ? fork() : -1;

	if (pid == 0)
	{
		(void) alarm(CANCEL_TIME / 1000000 + 1);
		(void) PQcancel(cancel, message, sizeof(message));
		_exit(0);
	}
	if (pid > 0)
		canceller = pid;
	PQfreeCancel(cancel);
}

/* Waits for the end of that, which must not hit the next query. */
static void
await_canceller(void)
{
	if (canceller != 0)
		(void) waitpid(canceller, NULL, 0);
	canceller = 0;
}

/*
 * Waits for the results of a query; *result is the last one, to be freed by the
 * caller, and NULL unless the outcome is DONE.  A signal that ends the program
 * cancels it, if it is the wait for the lock (cancellable).
 */
static Outcome
await_result(Time until, bool cancellable, PGresult **result)
{
	bool		cancelled = false;
	PGresult   *next;

	*result = NULL;
	for (;;)
	{
		int			unsent = PQflush(connection);

		if (unsent < 0 || PQconsumeInput(connection) == 0)
			break;
		while (PQisBusy(connection) == 0)
		{
			next = PQgetResult(connection);
			if (next == NULL)
				return OUTCOME_DONE;
			PQclear(*result);
			*result = next;
		}
		if (cancellable && events.signal != 0 && !cancelled)
		{
			cancelled = true;
			until = now() + CANCEL_TIME;
			cancel_query();
		}
		if (now() >= until)
		{
			broken = true;
			keep_error("no response from PostgreSQL");
			PQclear(*result);
			*result = NULL;
			return cancelled ? OUTCOME_INTERRUPTED : OUTCOME_UNREACHABLE;
		}
		(void) events_wait(PQsocket(connection), unsent != 0 ? POLLIN | POLLOUT : POLLIN, until);
	}
	broken = true;
	keep_error(PQerrorMessage(connection));
	PQclear(*result);
	*result = NULL;
	return OUTCOME_UNREACHABLE;
}

/* Returns true if the connection can be used. */
bool
connection_is_up(void)
{
	return connection != NULL && !broken && PQstatus(connection) == CONNECTION_OK;
}

/*
 * Executes a query with text parameters, at most until that time.  *result is
 * the caller's.
 */
static Outcome
query(const char *sql, int count, const char *const *params, Time until,
	  bool cancellable, PGresult **result)
{
	Outcome		outcome;

	*result = NULL;
	if (broken)
		return OUTCOME_UNREACHABLE;
	await_canceller();
	if (PQsendQueryParams(connection, sql, count, NULL, params, NULL, NULL, 0) == 0)
	{
		broken = true;
		keep_error(PQerrorMessage(connection));
		return OUTCOME_UNREACHABLE;
	}
	outcome = await_result(until, cancellable, result);
	if (outcome != OUTCOME_DONE)
		return outcome;
	if (*result != NULL && (PQresultStatus(*result) == PGRES_TUPLES_OK ||
							PQresultStatus(*result) == PGRES_COMMAND_OK))
		return OUTCOME_DONE;
	outcome = cancellable && events.signal != 0 ? OUTCOME_INTERRUPTED : judge_error(*result);
	PQclear(*result);
	*result = NULL;
	return outcome;
}

/* The same for a query with one row; copies its columns into values. */
static Outcome
query_row(const char *sql, int count, const char *const *params, Time until,
		  bool cancellable, int columns, char values[][64])
{
	PGresult   *result;
	Outcome		outcome = query(sql, count, params, until, cancellable, &result);

	if (outcome == OUTCOME_DONE && PQntuples(result) != 1)
	{
		keep_error("ERROR:  extension \"zklock\" is not in this database\n"
				   "HINT:  Use CREATE EXTENSION zklock.");
		outcome = OUTCOME_REFUSED;
	}
	for (int i = 0; outcome == OUTCOME_DONE && i < columns; i++)
		snprintf(values[i], 64, "%s", PQgetvalue(result, 0, i));
	PQclear(result);
	return outcome;
}

/* Makes the settings of the connection (E7), and finds the extension. */
static Outcome
prepare_session(void)
{
	char		schema[1][64];

	return query_row("SELECT set_config('search_path', quote_ident(n.nspname), false)"
					 " FROM pg_catalog.pg_extension e"
					 " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace,"
					 " set_config('statement_timeout', '0', false) AS a,"
					 " set_config('idle_session_timeout', '0', false) AS b,"
					 " set_config('client_connection_check_interval', '1s', false) AS c"
					 " WHERE e.extname = 'zklock'",
					 0, NULL, FOREVER, true, 1, schema);
}

/* Connects, with libpq's parameters.  May wait as long as these allow. */
Outcome
connection_open(const char *const *keywords, const char *const *values)
{
	connection = PQconnectdbParams(keywords, values, 1);
	if (connection == NULL || PQstatus(connection) != CONNECTION_OK)
	{
		keep_error(connection == NULL ? "out of memory" : PQerrorMessage(connection));
		return OUTCOME_UNREACHABLE;
	}
	(void) PQsetnonblocking(connection, 1);
	return prepare_session();
}

/* Sets the note, after the library is loaded, which checks it. */
static Outcome
set_note(const Target *target)
{
	const char *params[MAX_PARAMS] = {target->note};
	char		row[1][64];

	if (target->note == NULL)
		return OUTCOME_DONE;
	return query_row("SELECT set_config('zklock.note', $1::text, false) FROM zk_session()",
					 1, params, FOREVER, true, 1, row);
}

/* Waits for the lock without a snapshot, and has it outlast the connection. */
Outcome
connection_acquire(const Target *target, bool *acquired)
{
	const char *params[MAX_PARAMS] = {target->path, target->timeout};
	const char *sql;
	char		row[1][64];
	Outcome		outcome = set_note(target);

	if (outcome != OUTCOME_DONE)
		return outcome;
	if (target->fire_time != NULL)
	{
		sql = "CALL zk_job_wait($1::text, $3::timestamptz, $2::interval)";
		params[2] = target->fire_time;
	}
	else if (target->permits != NULL)
	{
		sql = "CALL zk_semaphore_wait($1::text, $3::integer, $2::interval)";
		params[2] = target->permits;
	}
	else
	{
		sql = "CALL zk_lock_wait($1::text, $2::interval, $3::boolean)";
		params[2] = target->shared ? "true" : "false";
	}
	outcome = query_row(sql, 3, params, FOREVER, true, 1, row);
	if (outcome != OUTCOME_DONE)
		return outcome;
	*acquired = row[0][0] == 't';
	if (!*acquired)
		return OUTCOME_DONE;
	return query_row("SELECT set_config('zklock.release_at_exit', 'off', false),"
					 " set_config('idle_session_timeout', session_timeout, false) FROM"
					 " (SELECT (extract(epoch FROM session_timeout) * 1000)::integer::text"
					 " AS session_timeout FROM zk_session()) s",
					 0, NULL, FOREVER, true, 1, row);
}

/*
 * Proves that the lock is held, and says until when (E6).  A signal that ends
 * the program cancels that if there is no time limit.
 */
Outcome
connection_prove(const Target *target, Lease *lease, Time until)
{
	const char *params[] = {target->path};
	char		row[3][64];
	Time		asked = now();
	Outcome		outcome = query_row("SELECT (extract(epoch FROM zk_lock_lease($1::text)) * 1000000)::bigint,"
									" (extract(epoch FROM session_timeout) * 1000000)::bigint,"
									" zk_lock_token($1::text) FROM zk_session()",
									1, params, until, until == FOREVER, 3, row);

	if (outcome != OUTCOME_DONE)
		return outcome;
	lease->proved_at = asked;
	lease->end = asked + strtoll(row[0], NULL, 10);
	lease->session_timeout = strtoll(row[1], NULL, 10);
	snprintf(lease->token, sizeof(lease->token), "%.23s", row[2]);
	return OUTCOME_DONE;
}

/*
 * Releases the lock; ends the run of a job if it was a success.  *held is
 * whether it was held until then.
 */
Outcome
connection_release(const Target *target, bool success, bool *held, Time until)
{
	const char *params[] = {target->path};
	char		row[1][64];
	Outcome		outcome = query_row(target->fire_time != NULL && success ?
									"SELECT zk_job_end($1::text)" :
									target->permits != NULL ?
									"SELECT zk_semaphore_release($1::text)" :
									"SELECT zk_lock_release($1::text)",
									1, params, until, false, 1, row);

	*held = outcome == OUTCOME_DONE && row[0][0] == 't';
	return outcome;
}

/* Closes the connection, if there is one. */
void
connection_close(void)
{
	PQfinish(connection);
	connection = NULL;
}
