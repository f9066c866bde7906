/*-------------------------------------------------------------------------
 *
 * pgpeer.c
 *	  A peer of the bench: locks that are taken in PostgreSQL.
 *
 *	pgpeer KIND CONNINFO
 *
 * KIND is one of
 *
 *	zklock		what this is all about
 *	advisory	pg_advisory_lock, which knows no other cluster
 *	plpython	kazoo's Lock in PL/Python, with the client kept in the backend
 *	empty		no lock, but as many statements: what the others take besides
 *	asleep		the same, and each sleeps for a millisecond, as one would that
 *			waits for an answer
 *
 * A session is a backend.  Hand-offs are measured in the backends, by one statement
 * for all holds, so what a client and its statements cost is not part of them.
 *
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "peer.h"

/*
 * A kind of lock.  In its expressions $1 is the lock's path, or an array of them.
 */
typedef struct Kind
{
	const char *name;
	const char *setup;			/* statements; NULL: none */
	const char *acquire;
	const char *release;
	const char *queued;			/* how many wait in their places */
	const char *acquire_many;	/* NULL: one after another */
	const char *release_many;
	bool		excludes_nobody;	/* is no lock */
} Kind;

typedef struct Session
{
	PGconn	   *connection;
	bool		warm;			/* has prepared all statements */
} Session;

static const Kind kinds[] = {
	{
		.name = "zklock",
		.setup = "CREATE EXTENSION IF NOT EXISTS zklock",
		.acquire = "zk_lock_acquire($1)",
		.release = "zk_lock_release($1)",
		.queued = "(SELECT count(*) FROM zk_lock_waits w"
		" WHERE w.path = $1 AND w.blocker IS NOT NULL)",
		.acquire_many = "zk_lock_acquire($1)",
		.release_many = "(SELECT count(zk_lock_release(path))"
		" FROM unnest($1) AS u(path))",
	},
	{
		.name = "advisory",
		.acquire = "pg_advisory_lock(hashtext($1))",
		.release = "pg_advisory_unlock(hashtext($1))",
		.queued = "(SELECT count(*) FROM pg_locks"
		" WHERE locktype = 'advisory' AND NOT granted)",
	},
	{
		.name = "empty",
		.acquire = "$1 IS NULL",
		.release = "$1 IS NULL",
		.queued = "waiters",
		.excludes_nobody = true,
	},
	{
		.name = "asleep",
		.acquire = "$1 IS NULL OR pg_sleep(0.001) IS NULL",
		.release = "$1 IS NULL OR pg_sleep(0.001) IS NULL",
		.queued = "waiters",
		.excludes_nobody = true,
	},
	{
		.name = "plpython",
		.setup = "CREATE EXTENSION IF NOT EXISTS plpython3u;\n"
		"CREATE OR REPLACE FUNCTION bench_kazoo(what text, path text)"
		" RETURNS bigint LANGUAGE plpython3u AS $$\n"
		"if 'zk' not in GD:\n"
		"    from kazoo.client import KazooClient\n"
		"    servers = plpy.execute('SHOW zklock.servers')[0]['zklock.servers']\n"
		"    GD['zk'] = KazooClient(hosts=servers, timeout=30.0)\n"
		"    GD['zk'].start(timeout=30)\n"
		"    GD['locks'] = {}\n"
		"if what == 'acquire':\n"
		"    lock = GD['zk'].Lock(path, 'x' * 200)\n"
		"    lock.acquire()\n"
		"    GD['locks'][path] = lock\n"
		"elif what == 'release':\n"
		"    GD['locks'].pop(path).release()\n"
		"elif what == 'waiters':\n"
		"    return len(GD['zk'].get_children(path)) - 1\n"
		"return 0\n"
		"$$",
		.acquire = "bench_kazoo('acquire', $1)",
		.release = "bench_kazoo('release', $1)",
		.queued = "bench_kazoo('waiters', $1)",
	},
};

/*
 * Holds the lock so often: a row each, with acquire, when it was acquired, the pause,
 * when it is released, and release.  Times are in microseconds.  The columns of a row
 * are computed in turn, so nothing comes between a lock's function and its time.  For
 * the kind, acquire, release.
 */
static const char hold_statement[] =
"SELECT %s, date_part('epoch', clock_timestamp()) * 1e6, pg_sleep($3::float8 / 1e6),"
" date_part('epoch', clock_timestamp()) * 1e6, %s"
" FROM generate_series(1, $2::integer)";

/* Its columns. */
enum
{
	HOLD_ACQUIRED = 1, HOLD_RELEASED = 3
};

/*
 * Releases the lock when so many others wait for it, and tells when.  For the
 * kind, queued, release.
 */
static const char release_function[] =
"CREATE OR REPLACE FUNCTION bench_%s_release(path text, waiters integer,"
" OUT released timestamptz) LANGUAGE plpgsql AS $$\n"
"BEGIN\n"
"  WHILE %s < waiters LOOP\n"
"    IF clock_timestamp() > statement_timestamp() + interval '60 s' THEN\n"
"      RAISE 'not all are queued';\n"
"    END IF;\n"
"    PERFORM pg_sleep(0.02);\n"
"  END LOOP;\n"
"  PERFORM pg_sleep(0.02);\n"
"  released := clock_timestamp();\n"
"  PERFORM %s;\n"
"END $$";

/* What a session can have prepared. */
enum
{
	ACQUIRE, RELEASE, ACQUIRE_MANY, RELEASE_MANY, HOLD, RELEASE_WHEN,
	STATEMENTS
};

/* Their texts, once the kind is known; empty if the kind does not have it. */
static char statements[STATEMENTS][512];

/* Their names when prepared. */
static const char *const names[STATEMENTS] = {
	"acquire", "release", "acquire_many", "release_many", "hold", "release_when"
};

/* Types of their first parameters: text, or an array of it. */
#define TEXT_OID		25
#define TEXT_ARRAY_OID	1009

static const Kind *kind;
static const char *conninfo;

/*-------------------------------------------------------------------------
 * Statements
 *-------------------------------------------------------------------------
 */

/*
 * Make the texts of the statements.
 */
static void
make_statements(void)
{
	const char *expressions[] = {
		kind->acquire, kind->release, kind->acquire_many, kind->release_many
	};

	for (int i = 0; i <= RELEASE_MANY; i++)
		if (expressions[i])
			snprintf(statements[i], sizeof(statements[i]), "SELECT %s",
					 expressions[i]);
	snprintf(statements[HOLD], sizeof(statements[HOLD]), hold_statement,
			 kind->acquire, kind->release);
	snprintf(statements[RELEASE_WHEN], sizeof(statements[RELEASE_WHEN]),
			 "SELECT extract(epoch FROM bench_%s_release($1, $2)) * 1e6",
			 kind->name);
}

/*
 * The type of the first parameter of a statement; the others follow from what
 * they are used for.
 */
static Oid
parameter_type(int number)
{
	return number == ACQUIRE_MANY || number == RELEASE_MANY ?
		TEXT_ARRAY_OID : TEXT_OID;
}

/*
 * Check a result, and clear it if it is an error.
 */
static PGresult *
check(PGconn *connection, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
		return result;
	peer_fail("%s", PQerrorMessage(connection));
	PQclear(result);
	return NULL;
}

/*
 * Run SQL, without parameters.
 */
static bool
run_sql(PGconn *connection, const char *sql)
{
	PGresult   *result = check(connection, PQexec(connection, sql));

	PQclear(result);
	return result != NULL;
}

/*
 * Run a statement with parameters, all of them text, and return its result; NULL
 * if it fails.
 */
static PGresult *
query(Session *session, int number, int count, const char *const *parameters)
{
	Oid			types[3] = {parameter_type(number)};

	if (session->warm)
		return check(session->connection,
					 PQexecPrepared(session->connection, names[number], count,
									parameters, NULL, NULL, 0));
	return check(session->connection,
				 PQexecParams(session->connection, statements[number], count,
							  types, parameters, NULL, NULL, 0));
}

/*
 * Run a statement with one parameter, whatever it returns.
 */
static bool
execute(Session *session, int number, const char *parameter)
{
	PGresult   *result = query(session, number, 1, &parameter);

	PQclear(result);
	return result != NULL;
}

/*-------------------------------------------------------------------------
 * Sessions
 *-------------------------------------------------------------------------
 */

/*
 * Open a connection; NULL if that fails.
 */
static PGconn *
open_connection(void)
{
	PGconn	   *connection = PQconnectdb(conninfo);

	if (PQstatus(connection) == CONNECTION_OK)
		return connection;
	peer_fail("%s", PQerrorMessage(connection));
	PQfinish(connection);
	return NULL;
}

/*
 * PeerClient.connect: a backend, as it is at first.
 */
static void *
pg_connect(void)
{
	PGconn	   *connection = open_connection();
	Session    *session;

	if (connection == NULL)
		return NULL;
	session = calloc(1, sizeof(*session));
	if (session == NULL)
		abort();
	session->connection = connection;
	return session;
}

/*
 * PeerClient.disconnect: wait until the backend has ended, and with it its ZooKeeper
 * session.  Then it closes its end of the connection.
 */
static void
pg_disconnect(void *arg)
{
	Session    *session = arg;
	int			fd = dup(PQsocket(session->connection));
	char		byte;

	PQfinish(session->connection);
	if (fd >= 0 && fcntl(fd, F_SETFL, 0) == 0)
	{
		while (read(fd, &byte, 1) > 0)
			;
		close(fd);
	}
	free(session);
}

/*
 * Prepare all statements.
 */
static bool
prepare_statements(Session *session)
{
	for (int i = 0; i < STATEMENTS; i++)
	{
		Oid			type = parameter_type(i);
		PGresult   *result;

		if (statements[i][0] == '\0')
			continue;
		result = check(session->connection,
					   PQprepare(session->connection, names[i], statements[i],
								 1, &type));
		if (result == NULL)
			return false;
		PQclear(result);
	}
	return true;
}

/*-------------------------------------------------------------------------
 * Locks
 *-------------------------------------------------------------------------
 */

/*
 * PeerClient.acquire and release.
 */
static bool
pg_acquire(void *session, const char *path)
{
	return execute(session, ACQUIRE, path);
}

static bool
pg_release(void *session, const char *path)
{
	return execute(session, RELEASE, path);
}

/*
 * Run a statement with the array of path/0 to path/count-1.
 */
static bool
execute_many(Session *session, int number, const char *path, int count)
{
	char	   *array = NULL;
	size_t		size;
	FILE	   *stream = open_memstream(&array, &size);
	bool		ok;

	if (stream == NULL)
		abort();
	for (int i = 0; i < count; i++)
		fprintf(stream, "%c\"%s/%d\"", i == 0 ? '{' : ',', path, i);
	fputc('}', stream);
	fclose(stream);
	ok = execute(session, number, array);
	free(array);
	return ok;
}

/*
 * PeerClient.acquire_many and release_many: one statement.
 */
static bool
pg_acquire_many(void *session, const char *path, int count)
{
	return execute_many(session, ACQUIRE_MANY, path, count);
}

static bool
pg_release_many(void *session, const char *path, int count)
{
	return execute_many(session, RELEASE_MANY, path, count);
}

/* A time in that column of a result. */
static double
column_time(PGresult *result, int row, int column)
{
	return atof(PQgetvalue(result, row, column));
}

/*
 * PeerClient.hold: one statement; the times are the backend's.
 */
static bool
pg_hold(void *session, const char *path, int count, int hold_us,
		PeerHold *holds)
{
	char		times[16];
	char		us[16];
	const char *parameters[] = {path, times, us};
	PGresult   *result;
	bool		ok;

	snprintf(times, sizeof(times), "%d", count);
	snprintf(us, sizeof(us), "%d", hold_us);
	result = query(session, HOLD, 3, parameters);
	if (result == NULL)
		return false;
	ok = PQntuples(result) == count || peer_fail("not as many holds as asked for");
	for (int i = 0; ok && i < count; i++)
	{
		holds[i].acquired = column_time(result, i, HOLD_ACQUIRED);
		holds[i].released = column_time(result, i, HOLD_RELEASED);
	}
	PQclear(result);
	return ok;
}

/*
 * PeerClient.warm: prepare all statements, and connect the backend to ZooKeeper with a
 * hold, on a lock that no other session requests.
 */
static bool
pg_warm(void *arg)
{
	Session    *session = arg;
	PeerHold	hold;
	char		path[64];

	if (session->warm)
		return true;
	snprintf(path, sizeof(path), "/bench/warm/%d",
			 PQbackendPID(session->connection));
	session->warm = prepare_statements(session);
	return session->warm && pg_hold(session, path, 1, 0, &hold);
}

/*
 * PeerClient.release_when: one statement, too.
 */
static bool
pg_release_when(void *session, const char *path, int waiters, double *released)
{
	char		count[16];
	const char *parameters[] = {path, count};
	PGresult   *result;

	snprintf(count, sizeof(count), "%d", waiters);
	result = query(session, RELEASE_WHEN, 2, parameters);
	if (result == NULL)
		return false;
	*released = column_time(result, 0, 0);
	PQclear(result);
	return true;
}

/*
 * Make what the kind needs in the database.
 */
static bool
set_up(void)
{
	PGconn	   *connection = open_connection();
	char		sql[2048];
	bool		ok;

	if (connection == NULL)
		return false;
	ok = run_sql(connection, "SET client_min_messages = warning");
	if (ok && kind->setup)
		ok = run_sql(connection, kind->setup);
	snprintf(sql, sizeof(sql), release_function, kind->name, kind->queued,
			 kind->release);
	ok = ok && run_sql(connection, sql);
	PQfinish(connection);
	return ok;
}

int
main(int argc, char **argv)
{
	PeerClient	client = {
		.connect = pg_connect,
		.disconnect = pg_disconnect,
		.warm = pg_warm,
		.acquire = pg_acquire,
		.release = pg_release,
		.hold = pg_hold,
		.release_when = pg_release_when,
	};

	for (size_t i = 0; argc == 3 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, argv[1]) == 0)
			kind = &kinds[i];
	if (kind == NULL)
	{
		fputs("usage: pgpeer zklock|advisory|plpython|empty|asleep CONNINFO\n", stderr);
		return 2;
	}
	conninfo = argv[2];
	client.excludes_nobody = kind->excludes_nobody;
	make_statements();
	if (kind->acquire_many)
	{
		client.acquire_many = pg_acquire_many;
		client.release_many = pg_release_many;
	}
	if (!set_up())
	{
		fprintf(stderr, "pgpeer %s: %s\n", kind->name, peer_failure());
		return 1;
	}
	return peer_main(&client);
}
