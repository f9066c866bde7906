/* sql/zklock--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION zklock" to load this file. \quit

CREATE FUNCTION zk_lock_acquire(path text, timeout interval DEFAULT NULL,
	shared boolean DEFAULT false)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_lock_acquire(text, interval, boolean) IS
'acquires a lock until it is released or the session ends
Returns false if another session holds it. A null timeout means to wait
as long as lock_timeout allows, zero not to wait for other sessions.';

CREATE FUNCTION zk_lock_acquire_xact(path text, timeout interval DEFAULT NULL,
	shared boolean DEFAULT false)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_lock_acquire_xact(text, interval, boolean) IS
'acquires a lock until the end of the transaction
Returns false if another session holds it. A null timeout means to wait
as long as lock_timeout allows, zero not to wait for other sessions.';

CREATE FUNCTION zk_lock_acquire(paths text[], timeout interval DEFAULT NULL,
	shared boolean DEFAULT false)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_lock_acquire_several'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_lock_acquire(text[], interval, boolean) IS
'acquires several locks, all or none, until release or the end of the session
Returns false if another session holds one of them. The timeout limits
the whole call. Such calls cannot deadlock with each other.';

CREATE FUNCTION zk_lock_acquire_xact(paths text[], timeout interval DEFAULT NULL,
	shared boolean DEFAULT false)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_lock_acquire_several_xact'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_lock_acquire_xact(text[], interval, boolean) IS
'acquires several locks, all or none, until the end of the transaction
Returns false if another session holds one of them. The timeout limits
the whole call. Such calls cannot deadlock with each other.';

CREATE PROCEDURE zk_lock_wait(path text, timeout interval DEFAULT NULL,
	shared boolean DEFAULT false, INOUT acquired boolean DEFAULT false)
AS 'MODULE_PATHNAME'
LANGUAGE C;

COMMENT ON PROCEDURE zk_lock_wait(text, interval, boolean, boolean) IS
'acquires a lock like zk_lock_acquire(), without a snapshot during the wait
Sets acquired to false if another session holds the lock. Must be called
outside transaction blocks and functions.';

CREATE PROCEDURE zk_lock_wait(paths text[], timeout interval DEFAULT NULL,
	shared boolean DEFAULT false, INOUT acquired boolean DEFAULT false)
AS 'MODULE_PATHNAME', 'zk_lock_wait_several'
LANGUAGE C;

COMMENT ON PROCEDURE zk_lock_wait(text[], interval, boolean, boolean) IS
'acquires several locks, all or none, without a snapshot during the wait
Sets acquired to false if another session holds one of them. Must be
called outside transaction blocks and functions.';

CREATE FUNCTION zk_lock_release(path text, shared boolean DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_lock_release(text, boolean) IS
'releases one session-level acquisition of a lock
Returns false, with a warning, if there is none or if the lock was lost.
If shared is null, releases the exclusive mode first.';

CREATE FUNCTION zk_lock_release_all()
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_lock_release_all() IS
'releases all session-level locks and permits of this session
Returns the number of contenders that were deleted.';

CREATE FUNCTION zk_semaphore_acquire(path text, capacity integer,
	timeout interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_semaphore_acquire(text, integer, interval) IS
'acquires a permit of a semaphore until it is released or the session ends
Returns false if other sessions hold all permits. All sessions must pass
the same capacity, the number of permits.';

CREATE PROCEDURE zk_semaphore_wait(path text, capacity integer,
	timeout interval DEFAULT NULL, INOUT acquired boolean DEFAULT false)
AS 'MODULE_PATHNAME'
LANGUAGE C;

COMMENT ON PROCEDURE zk_semaphore_wait(text, integer, interval, boolean) IS
'acquires a permit without a snapshot during the wait
Sets acquired to false if other sessions hold all permits. Must be called
outside transaction blocks and functions.';

CREATE FUNCTION zk_semaphore_acquire_xact(path text, capacity integer,
	timeout interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_semaphore_acquire_xact(text, integer, interval) IS
'acquires a permit of a semaphore until the end of the transaction
Returns false if other sessions hold all permits. All sessions must pass
the same capacity, the number of permits.';

CREATE FUNCTION zk_semaphore_release(path text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_semaphore_release(text) IS
'releases one session-level acquisition of a permit
Returns false, with a warning, if there is none or if it was lost.';

CREATE FUNCTION zk_lock_token(path text)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_token(text) IS
'returns the token of a lock that this session holds
A token is a number that grows with every grant. Fails if the lock is
not held.';

CREATE FUNCTION zk_lock_verify(path text)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_lock_verify(text) IS
'asks the ensemble whether this session holds a lock
Returns the token. Fails if the lock is not held.';

CREATE FUNCTION zk_lock_lease(path text)
RETURNS interval
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_lock_lease(text) IS
'returns for how long from now on this session certainly holds a lock
Asks the ensemble. Fails if the lock is not held.';

-- Logged, because a backend that holds a lock on a standby survives its promotion.
-- Collation "C", so that a new version of a collation never hides a row.  Each
-- transaction that passes makes a new version of its row; free space keeps it on one page.
CREATE TABLE zk_lock_fences (
	path text COLLATE "C" PRIMARY KEY,
	token bigint NOT NULL,
	since timestamptz NOT NULL
) WITH (fillfactor = 50);

COMMENT ON TABLE zk_lock_fences IS
'highest token that has written to this database, for each lock';
COMMENT ON COLUMN zk_lock_fences.path IS 'lock path';
COMMENT ON COLUMN zk_lock_fences.token IS 'highest token that passed the fence';
COMMENT ON COLUMN zk_lock_fences.since IS
'time at which that token first passed, by this server''s clock';

-- A dump has all fences, because they guard its data: without them an earlier holder
-- could write to the restored database.
SELECT pg_extension_config_dump('zk_lock_fences', '');

-- All roles may read it: it shows no more of other sessions than pg_locks does, and a
-- role that cannot read it could not dump the database.
GRANT SELECT ON zk_lock_fences TO PUBLIC;

CREATE FUNCTION zk_lock_fence(path text)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;

COMMENT ON FUNCTION zk_lock_fence(text) IS
'fences a lock held in exclusive mode, and returns its token
This transaction cannot commit after a newer holder that has fenced the
lock. A newer holder that fences it waits for this transaction to end.';

CREATE FUNCTION zk_lock_fence_reset(path text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;

COMMENT ON FUNCTION zk_lock_fence_reset(text) IS
'removes the fence of a lock, after the ensemble was rebuilt
Returns false if there is none.';

-- It lets older holders pass.
REVOKE ALL ON FUNCTION zk_lock_fence_reset(text) FROM PUBLIC;

CREATE FUNCTION zk_lock_fence_trigger()
RETURNS trigger
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION zk_lock_fence_trigger() IS
'trigger function that rejects writes without a lock and fences it
The argument of the trigger is the lock path. Create it BEFORE INSERT OR
UPDATE OR DELETE OR TRUNCATE, FOR EACH STATEMENT.';

CREATE TYPE zk_contender AS (
	"position" integer,
	mode text,
	granted boolean,
	own boolean,
	revoked boolean,
	token bigint,
	since timestamptz,
	age interval,
	granted_at timestamptz,
	held interval,
	cluster_name text,
	host text,
	port integer,
	datname text,
	pid integer,
	usename text,
	application_name text,
	note text,
	wait_start timestamptz,
	contender text,
	session_id text,
	owner text
);

COMMENT ON TYPE zk_contender IS
'contender in the queue of a lock: a row of zk_lock_queue()';
COMMENT ON COLUMN zk_contender."position" IS 'place in the queue, from 1 on';
COMMENT ON COLUMN zk_contender.mode IS 'exclusive, shared, or permit for a semaphore';
COMMENT ON COLUMN zk_contender.granted IS 'true if it holds the lock';
COMMENT ON COLUMN zk_contender.own IS 'true if it belongs to this session';
COMMENT ON COLUMN zk_contender.revoked IS
'true if zk_lock_revoke() asks for its release';
COMMENT ON COLUMN zk_contender.token IS 'its token, valid once granted';
COMMENT ON COLUMN zk_contender.since IS
'time at which it was created, by ZooKeeper''s clock';
COMMENT ON COLUMN zk_contender.age IS 'how long ago, by this server''s clock';
COMMENT ON COLUMN zk_contender.granted_at IS
'time at which it was granted; null for a waiter';
COMMENT ON COLUMN zk_contender.held IS 'how long ago that was';
COMMENT ON COLUMN zk_contender.cluster_name IS
'cluster_name of the owner; null if it is not a PostgreSQL session';
COMMENT ON COLUMN zk_contender.host IS 'host name of the owner';
COMMENT ON COLUMN zk_contender.port IS 'port of the owner';
COMMENT ON COLUMN zk_contender.datname IS 'database of the owner';
COMMENT ON COLUMN zk_contender.pid IS 'process ID of the owner';
COMMENT ON COLUMN zk_contender.usename IS 'user of the owner';
COMMENT ON COLUMN zk_contender.application_name IS 'application_name of the owner';
COMMENT ON COLUMN zk_contender.note IS 'zklock.note of the owner';
COMMENT ON COLUMN zk_contender.wait_start IS
'time at which the owner requested the lock, by its own clock';
COMMENT ON COLUMN zk_contender.contender IS 'name of the contender';
COMMENT ON COLUMN zk_contender.session_id IS 'its ZooKeeper session';
COMMENT ON COLUMN zk_contender.owner IS 'its owner, as it describes itself';

CREATE FUNCTION zk_lock_queue(path text)
RETURNS SETOF zk_contender
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000 ROWS 10;

COMMENT ON FUNCTION zk_lock_queue(text) IS
'lists the holders and waiters of a lock, in queue order';

-- It shows the activity of other sessions.
REVOKE ALL ON FUNCTION zk_lock_queue(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION zk_lock_queue(text) TO pg_monitor;

-- Each attempt at a run has its own token, and the unique index lets only one of them be
-- done: an attempt that ends waits for another one that is ending.
CREATE TABLE zk_job_runs (
	path text COLLATE "C" NOT NULL,
	fire_time timestamptz NOT NULL,
	token bigint NOT NULL,
	begun_at timestamptz NOT NULL,
	ended_at timestamptz,
	outcome text COLLATE "C" NOT NULL
		CHECK (outcome ~ '^(running|done|failed|reset)$'),
	role_name text NOT NULL,
	cluster_name text,
	host text NOT NULL,
	PRIMARY KEY (path, fire_time, token, begun_at)
);

CREATE UNIQUE INDEX zk_job_runs_done ON zk_job_runs (path, fire_time)
	WHERE outcome = 'done';

COMMENT ON TABLE zk_job_runs IS 'runs of jobs that did their work in this database';
COMMENT ON COLUMN zk_job_runs.path IS 'path of the job';
COMMENT ON COLUMN zk_job_runs.fire_time IS 'time at which the run was due';
COMMENT ON COLUMN zk_job_runs.token IS 'token of the lock under which the run began';
COMMENT ON COLUMN zk_job_runs.begun_at IS
'time of its beginning, by the server''s clock';
COMMENT ON COLUMN zk_job_runs.ended_at IS
'time of its end or of the discovery of its failure; null after zk_job_begin_xact()';
COMMENT ON COLUMN zk_job_runs.outcome IS
'running, done, failed (it did not end), or reset (by zk_job_reset())';
COMMENT ON COLUMN zk_job_runs.role_name IS 'role that ran it';
COMMENT ON COLUMN zk_job_runs.cluster_name IS
'cluster_name of the server on which it ran';
COMMENT ON COLUMN zk_job_runs.host IS 'host name of that server';

-- The rows say which of the work in the dump is done.
SELECT pg_extension_config_dump('zk_job_runs', '');

-- As for fences, the owner of the database can then dump them without owning the extension.
GRANT SELECT ON zk_job_runs TO PUBLIC;

CREATE FUNCTION zk_job_begin(path text, fire_time timestamptz,
	timeout interval DEFAULT NULL, max_runtime interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;

COMMENT ON FUNCTION zk_job_begin(text, timestamptz, interval, interval) IS
'begins a run of a job, until zk_job_end() or a rollback of this transaction
Returns false if another session runs the job, or if this run or a later
one is done. After max_runtime the run loses its lock.';

CREATE PROCEDURE zk_job_wait(path text, fire_time timestamptz,
	timeout interval DEFAULT NULL, max_runtime interval DEFAULT NULL,
	INOUT begun boolean DEFAULT false)
AS 'MODULE_PATHNAME'
LANGUAGE C;

COMMENT ON PROCEDURE zk_job_wait(text, timestamptz, interval, interval, boolean) IS
'begins a run like zk_job_begin(), without a snapshot while it waits
Sets begun to false if another session runs the job, or if this run or a
later one is done. Must be called outside transaction blocks and functions.';

CREATE FUNCTION zk_job_begin_xact(path text, fire_time timestamptz,
	timeout interval DEFAULT NULL, max_runtime interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;

COMMENT ON FUNCTION zk_job_begin_xact(text, timestamptz, interval, interval) IS
'begins a run of a job that the commit of this transaction ends
Returns false if another session runs the job, or if this run or a later
one is done. After max_runtime the run loses its lock.';

CREATE FUNCTION zk_job_end(path text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;

COMMENT ON FUNCTION zk_job_end(text) IS
'ends the run of a job that this session began
When the transaction commits, the run is done and its lock is released.
Fails if the lock was lost.';

CREATE FUNCTION zk_job_reset(path text, fire_time timestamptz)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;

COMMENT ON FUNCTION zk_job_reset(text, timestamptz) IS
'marks the runs of a job that were due at a time or later as not done
They can then be run again. Takes effect immediately, in all databases.
Returns false if there are none; fails if the job is running.';

-- Changes to a job outlive the session that makes them.
REVOKE ALL ON FUNCTION zk_job_begin(text, timestamptz, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION zk_job_begin_xact(text, timestamptz, interval, interval) FROM PUBLIC;
REVOKE ALL ON PROCEDURE zk_job_wait(text, timestamptz, interval, interval, boolean)
FROM PUBLIC;
REVOKE ALL ON FUNCTION zk_job_end(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION zk_job_reset(text, timestamptz) FROM PUBLIC;

CREATE FUNCTION zk_job_history(path text, "limit" integer DEFAULT 100)
RETURNS SETOF zk_job_runs
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT r.*
	FROM zk_job_runs r
	WHERE r.path = zk_job_history.path
	ORDER BY r.fire_time DESC, r.token DESC
	LIMIT zk_job_history."limit";
END;

COMMENT ON FUNCTION zk_job_history(text, integer) IS
'lists the runs of a job in this database, latest fire time first';

CREATE FUNCTION zk_job_missed(path text, since timestamptz, step interval,
	"limit" integer DEFAULT 100)
RETURNS SETOF timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT due.fire_time
	FROM (SELECT generate_series(zk_job_missed.since, now(), zk_job_missed.step)
		AS fire_time WHERE isfinite(zk_job_missed.since)) due
	WHERE coalesce((SELECT false FROM zk_job_runs r
		WHERE r.path = zk_job_missed.path AND r.fire_time = due.fire_time
			AND r.outcome = 'done'), true)
	LIMIT zk_job_missed."limit";
END;

COMMENT ON FUNCTION zk_job_missed(text, timestamptz, interval, integer) IS
'lists the fire times of a job that no run in this database has ended
Fire times are since, since + step, and so on until now.';

CREATE TYPE zk_job_state AS (
	last_fire_time timestamptz,
	ended_at timestamptz,
	ended_by text,
	running_fire_time timestamptz,
	cluster_name text,
	host text,
	port integer,
	datname text,
	pid integer,
	usename text,
	application_name text,
	note text,
	wait_start timestamptz
);

COMMENT ON TYPE zk_job_state IS 'state of a job, as zk_job_status() returns it';
COMMENT ON COLUMN zk_job_state.last_fire_time IS
'latest fire time of the runs that are done';
COMMENT ON COLUMN zk_job_state.ended_at IS
'time at which that run ended, by the clock of the server that ended it';
COMMENT ON COLUMN zk_job_state.ended_by IS 'user, cluster and host that ended it';
COMMENT ON COLUMN zk_job_state.running_fire_time IS
'fire time of the run in progress; null if there is none';
COMMENT ON COLUMN zk_job_state.cluster_name IS
'cluster_name of the owner; null if it is not a PostgreSQL session';
COMMENT ON COLUMN zk_job_state.host IS 'host name of the owner';
COMMENT ON COLUMN zk_job_state.port IS 'port of the owner';
COMMENT ON COLUMN zk_job_state.datname IS 'database of the owner';
COMMENT ON COLUMN zk_job_state.pid IS 'process ID of the owner';
COMMENT ON COLUMN zk_job_state.usename IS 'user of the owner';
COMMENT ON COLUMN zk_job_state.application_name IS 'application_name of the owner';
COMMENT ON COLUMN zk_job_state.note IS 'zklock.note of the owner';
COMMENT ON COLUMN zk_job_state.wait_start IS
'time at which the owner requested the lock, by its own clock';

CREATE FUNCTION zk_job_status(path text)
RETURNS zk_job_state
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_job_status(text) IS
'returns the last run of a job that was done, and the run in progress
The columns from cluster_name on are about the session that runs the job.';

-- It shows the activity of other sessions.
REVOKE ALL ON FUNCTION zk_job_status(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION zk_job_status(text) TO pg_monitor;

CREATE TYPE zk_lock_summary AS (
	path text,
	mode text,
	holders integer,
	waiters integer,
	token bigint,
	since timestamptz,
	age interval,
	granted_at timestamptz,
	held interval,
	cluster_name text,
	host text,
	port integer,
	datname text,
	pid integer,
	usename text,
	application_name text,
	note text,
	wait_start timestamptz,
	contender text,
	session_id text,
	owner text
);

COMMENT ON TYPE zk_lock_summary IS
'lock with its first holder: a row of zk_lock_tree()';
COMMENT ON COLUMN zk_lock_summary.path IS 'lock path';
COMMENT ON COLUMN zk_lock_summary.mode IS
'exclusive, shared, or permit for a semaphore';
COMMENT ON COLUMN zk_lock_summary.holders IS 'number of holders';
COMMENT ON COLUMN zk_lock_summary.waiters IS 'number of waiters';
COMMENT ON COLUMN zk_lock_summary.token IS 'its token, valid once granted';
COMMENT ON COLUMN zk_lock_summary.since IS
'time at which it was created, by ZooKeeper''s clock';
COMMENT ON COLUMN zk_lock_summary.age IS 'how long ago, by this server''s clock';
COMMENT ON COLUMN zk_lock_summary.granted_at IS
'time at which it was granted; null for a waiter';
COMMENT ON COLUMN zk_lock_summary.held IS 'how long ago that was';
COMMENT ON COLUMN zk_lock_summary.cluster_name IS
'cluster_name of the owner; null if it is not a PostgreSQL session';
COMMENT ON COLUMN zk_lock_summary.host IS 'host name of the owner';
COMMENT ON COLUMN zk_lock_summary.port IS 'port of the owner';
COMMENT ON COLUMN zk_lock_summary.datname IS 'database of the owner';
COMMENT ON COLUMN zk_lock_summary.pid IS 'process ID of the owner';
COMMENT ON COLUMN zk_lock_summary.usename IS 'user of the owner';
COMMENT ON COLUMN zk_lock_summary.application_name IS 'application_name of the owner';
COMMENT ON COLUMN zk_lock_summary.note IS 'zklock.note of the owner';
COMMENT ON COLUMN zk_lock_summary.wait_start IS
'time at which the owner requested the lock, by its own clock';
COMMENT ON COLUMN zk_lock_summary.contender IS 'name of the first holder''s contender';
COMMENT ON COLUMN zk_lock_summary.session_id IS 'its ZooKeeper session';
COMMENT ON COLUMN zk_lock_summary.owner IS 'its owner, as it describes itself';

CREATE FUNCTION zk_lock_tree(path text DEFAULT NULL)
RETURNS SETOF zk_lock_summary
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000 ROWS 100;

COMMENT ON FUNCTION zk_lock_tree(text) IS
'lists the locks at and below a path that have a contender
A null path means all locks. The columns from contender on are about the
first holder.';

-- It shows the activity of other sessions.
REVOKE ALL ON FUNCTION zk_lock_tree(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION zk_lock_tree(text) TO pg_monitor;

CREATE TYPE zk_top_lock AS (
	path text,
	holder text,
	held interval,
	waiters integer,
	longest_wait interval,
	note text
);

COMMENT ON TYPE zk_top_lock IS 'row of zk_top()';
COMMENT ON COLUMN zk_top_lock.path IS 'lock path';
COMMENT ON COLUMN zk_top_lock.holder IS
'cluster, database and process ID of the first holder, and the number of others';
COMMENT ON COLUMN zk_top_lock.held IS
'how long ago the first holder was granted the lock';
COMMENT ON COLUMN zk_top_lock.waiters IS 'number of waiters';
COMMENT ON COLUMN zk_top_lock.longest_wait IS 'how long ago the first of them began';
COMMENT ON COLUMN zk_top_lock.note IS 'zklock.note of the first holder';

CREATE FUNCTION zk_top(path text DEFAULT NULL)
RETURNS SETOF zk_top_lock
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000 ROWS 100
BEGIN ATOMIC
	SELECT t.path,
		pg_catalog.concat(coalesce(nullif(t.cluster_name, ''), t.host),
			'/' || t.datname, ' ' || t.pid::text, ' +' || nullif(t.holders - 1, 0)::text),
		date_trunc('second', t.held), t.waiters,
		date_trunc('second', w.longest), t.note
	FROM zk_lock_tree(zk_top.path) t
		LEFT JOIN LATERAL (SELECT max(q.age) AS longest, sum(q.age) AS total
			FROM zk_lock_queue(t.path) q
			WHERE t.waiters > 0 AND NOT q.granted) w ON true
	ORDER BY w.total DESC NULLS LAST, t.held DESC;
END;

COMMENT ON FUNCTION zk_top(text) IS
'lists the locks at and below a path, the most harmful first
That is the lock whose waiters have waited longest in all. A null path
means all locks. Meant for \watch in psql.';

-- It shows the activity of other sessions.
REVOKE ALL ON FUNCTION zk_top(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION zk_top(text) TO pg_monitor;

CREATE FUNCTION zk_lock_revoke(path text, contender text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_lock_revoke(text, text) IS
'asks the owner of a contender to release the lock
Returns false if there is no such contender.';

CREATE FUNCTION zk_lock_break(path text, contender text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_lock_break(text, text) IS
'takes a lock, or a place in its queue, away from its owner
Deletes the contender and writes that to the server log. Returns false
if there is no such contender.';

CREATE FUNCTION zk_lock_revoke(path text, token bigint)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_lock_revoke_token'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_lock_revoke(text, bigint) IS
'asks the owner of the contender with that token to release the lock
Returns false if there is no such contender.';

CREATE FUNCTION zk_lock_break(path text, token bigint)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_lock_break_token'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_lock_break(text, bigint) IS
'takes a lock, or a place in its queue, away from the owner of that token
Deletes the contender and writes that to the server log. Returns false
if there is no such contender.';

-- They affect the locks of other sessions.
REVOKE ALL ON FUNCTION zk_lock_revoke(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION zk_lock_break(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION zk_lock_revoke(text, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION zk_lock_break(text, bigint) FROM PUBLIC;

CREATE TYPE zk_own_lock AS (
	path text,
	mode text,
	session_count integer,
	transaction_count integer,
	state text,
	granted_at timestamptz,
	lost_at timestamptz,
	token bigint,
	revoked boolean,
	note text,
	contender text
);

COMMENT ON TYPE zk_own_lock IS 'row of the view zk_locks';
COMMENT ON COLUMN zk_own_lock.path IS 'lock path';
COMMENT ON COLUMN zk_own_lock.mode IS 'exclusive, shared, or permit for a semaphore';
COMMENT ON COLUMN zk_own_lock.session_count IS 'number of session-level acquisitions';
COMMENT ON COLUMN zk_own_lock.transaction_count IS
'number of transaction-level acquisitions';
COMMENT ON COLUMN zk_own_lock.state IS
'held, lost, or unproved (the last proof is too old)';
COMMENT ON COLUMN zk_own_lock.granted_at IS 'time at which the lock was granted';
COMMENT ON COLUMN zk_own_lock.lost_at IS
'time at which it was lost; null if it was not';
COMMENT ON COLUMN zk_own_lock.token IS 'token of the contender';
COMMENT ON COLUMN zk_own_lock.revoked IS
'true if zk_lock_revoke() asks for its release';
COMMENT ON COLUMN zk_own_lock.note IS 'zklock.note when it was acquired';
COMMENT ON COLUMN zk_own_lock.contender IS
'name of the contender of these acquisitions';

CREATE FUNCTION zk_locks()
RETURNS SETOF zk_own_lock
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 10;

COMMENT ON FUNCTION zk_locks() IS
'lists the locks of this session, for the view zk_locks';

CREATE VIEW zk_locks AS
SELECT * FROM zk_locks();

COMMENT ON VIEW zk_locks IS 'locks of this session, by mode';
COMMENT ON COLUMN zk_locks.path IS 'lock path';
COMMENT ON COLUMN zk_locks.mode IS 'exclusive, shared, or permit for a semaphore';
COMMENT ON COLUMN zk_locks.session_count IS 'number of session-level acquisitions';
COMMENT ON COLUMN zk_locks.transaction_count IS
'number of transaction-level acquisitions';
COMMENT ON COLUMN zk_locks.state IS
'held, lost, or unproved (the last proof is too old)';
COMMENT ON COLUMN zk_locks.granted_at IS 'time at which the lock was granted';
COMMENT ON COLUMN zk_locks.lost_at IS
'time at which it was lost; null if it was not';
COMMENT ON COLUMN zk_locks.token IS 'token of the contender';
COMMENT ON COLUMN zk_locks.revoked IS 'true if zk_lock_revoke() asks for its release';
COMMENT ON COLUMN zk_locks.note IS 'zklock.note when it was acquired';
COMMENT ON COLUMN zk_locks.contender IS 'name of the contender of these acquisitions';

GRANT SELECT ON zk_locks TO PUBLIC;

CREATE TYPE zk_waiter AS (
	pid integer,
	path text,
	mode text,
	wait_start timestamptz,
	"position" integer,
	ahead integer,
	seen_at timestamptz,
	note text,
	holder_cluster_name text,
	holder_host text,
	holder_port integer,
	holder_datname text,
	holder_pid integer,
	holder_usename text,
	holder_application_name text,
	holder_note text,
	contender text,
	blocker text,
	blocker_owner text,
	holder text,
	holder_owner text
);

COMMENT ON TYPE zk_waiter IS 'row of the view zk_lock_waits';
COMMENT ON COLUMN zk_waiter.pid IS 'process ID of the waiter';
COMMENT ON COLUMN zk_waiter.path IS
'lock path; of several locks, the one that blocks the call now';
COMMENT ON COLUMN zk_waiter.mode IS 'exclusive, shared, or permit for a semaphore';
COMMENT ON COLUMN zk_waiter.wait_start IS 'time at which the call began to wait';
COMMENT ON COLUMN zk_waiter."position" IS 'place in the queue, from 1 on';
COMMENT ON COLUMN zk_waiter.ahead IS 'number of contenders that block this one';
COMMENT ON COLUMN zk_waiter.seen_at IS 'time at which the queue was last read';
COMMENT ON COLUMN zk_waiter.note IS 'zklock.note of the waiter';
COMMENT ON COLUMN zk_waiter.holder_cluster_name IS
'cluster_name of the holder; null if it is not a session';
COMMENT ON COLUMN zk_waiter.holder_host IS 'host name of the holder';
COMMENT ON COLUMN zk_waiter.holder_port IS 'port of the holder';
COMMENT ON COLUMN zk_waiter.holder_datname IS 'database of the holder';
COMMENT ON COLUMN zk_waiter.holder_pid IS 'process ID of the holder';
COMMENT ON COLUMN zk_waiter.holder_usename IS 'user of the holder';
COMMENT ON COLUMN zk_waiter.holder_application_name IS 'application_name of the holder';
COMMENT ON COLUMN zk_waiter.holder_note IS 'zklock.note of the holder';
COMMENT ON COLUMN zk_waiter.contender IS 'name of the contender';
COMMENT ON COLUMN zk_waiter.blocker IS 'nearest contender that must go first';
COMMENT ON COLUMN zk_waiter.blocker_owner IS
'owner of the blocker, as it describes itself';
COMMENT ON COLUMN zk_waiter.holder IS 'first contender of the queue';
COMMENT ON COLUMN zk_waiter.holder_owner IS
'owner of the holder, as it describes itself';

CREATE FUNCTION zk_lock_waits()
RETURNS SETOF zk_waiter
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 10;

COMMENT ON FUNCTION zk_lock_waits() IS
'lists the waiting sessions of this cluster, for the view zk_lock_waits';

CREATE VIEW zk_lock_waits AS
SELECT w.pid, a.datname, a.usename, a.application_name, w.path, w.mode, w.wait_start,
	pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) w.wait_start AS waited,
	w."position", w.ahead, w.seen_at, w.note, w.holder_cluster_name, w.holder_host,
	w.holder_port, w.holder_datname, w.holder_pid, w.holder_usename,
	w.holder_application_name, w.holder_note, w.contender, w.blocker, w.blocker_owner,
	w.holder, w.holder_owner
FROM zk_lock_waits() w
	LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) w.pid;

COMMENT ON VIEW zk_lock_waits IS
'sessions of this cluster that wait for locks of other sessions
Members of pg_read_all_stats see the details of other roles'' sessions.';
COMMENT ON COLUMN zk_lock_waits.pid IS 'process ID of the waiter';
COMMENT ON COLUMN zk_lock_waits.datname IS 'database of the waiter';
COMMENT ON COLUMN zk_lock_waits.usename IS 'user of the waiter';
COMMENT ON COLUMN zk_lock_waits.application_name IS
'application_name of the waiter';
COMMENT ON COLUMN zk_lock_waits.path IS
'lock path; of several locks, the one that blocks the call now';
COMMENT ON COLUMN zk_lock_waits.mode IS 'exclusive, shared, or permit for a semaphore';
COMMENT ON COLUMN zk_lock_waits.wait_start IS 'time at which the call began to wait';
COMMENT ON COLUMN zk_lock_waits.waited IS 'how long ago that was';
COMMENT ON COLUMN zk_lock_waits."position" IS 'place in the queue, from 1 on';
COMMENT ON COLUMN zk_lock_waits.ahead IS 'number of contenders that block this one';
COMMENT ON COLUMN zk_lock_waits.seen_at IS 'time at which the queue was last read';
COMMENT ON COLUMN zk_lock_waits.note IS 'zklock.note of the waiter';
COMMENT ON COLUMN zk_lock_waits.holder_cluster_name IS
'cluster_name of the holder; null if it is not a session';
COMMENT ON COLUMN zk_lock_waits.holder_host IS 'host name of the holder';
COMMENT ON COLUMN zk_lock_waits.holder_port IS 'port of the holder';
COMMENT ON COLUMN zk_lock_waits.holder_datname IS 'database of the holder';
COMMENT ON COLUMN zk_lock_waits.holder_pid IS 'process ID of the holder';
COMMENT ON COLUMN zk_lock_waits.holder_usename IS 'user of the holder';
COMMENT ON COLUMN zk_lock_waits.holder_application_name IS
'application_name of the holder';
COMMENT ON COLUMN zk_lock_waits.holder_note IS 'zklock.note of the holder';
COMMENT ON COLUMN zk_lock_waits.contender IS 'name of the contender';
COMMENT ON COLUMN zk_lock_waits.blocker IS 'nearest contender that must go first';
COMMENT ON COLUMN zk_lock_waits.blocker_owner IS
'owner of the blocker, as it describes itself';
COMMENT ON COLUMN zk_lock_waits.holder IS 'first contender of the queue';
COMMENT ON COLUMN zk_lock_waits.holder_owner IS
'owner of the holder, as it describes itself';

-- The function decides which role sees which details.
GRANT SELECT ON zk_lock_waits TO PUBLIC;

CREATE FUNCTION zk_blocking_pids(pid integer)
RETURNS integer[]
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_blocking_pids(integer) IS
'returns the processes of this cluster that block a process on a lock
These are the holders and the waiters ahead of it in the queue.';

CREATE TYPE zk_lock_stats AS (
	scope text,
	attempts bigint,
	granted_at_once bigint,
	granted_after_wait bigint,
	timeouts bigint,
	cancels bigint,
	deadlocks bigint,
	errors bigint,
	lost bigint,
	sessions bigint,
	reconnects bigint,
	expiries bigint,
	wait_time double precision,
	stats_reset timestamptz
);

COMMENT ON TYPE zk_lock_stats IS 'row of the view pg_stat_zklock';
COMMENT ON COLUMN zk_lock_stats.scope IS
'cluster if zklock is preloaded, otherwise backend';
COMMENT ON COLUMN zk_lock_stats.attempts IS
'acquire calls; a call for several locks counts once';
COMMENT ON COLUMN zk_lock_stats.granted_at_once IS
'acquire calls that succeeded without waiting';
COMMENT ON COLUMN zk_lock_stats.granted_after_wait IS
'acquire calls that succeeded after waiting';
COMMENT ON COLUMN zk_lock_stats.timeouts IS
'acquire calls that reached their timeout or lock_timeout';
COMMENT ON COLUMN zk_lock_stats.cancels IS
'acquire calls that were cancelled or terminated';
COMMENT ON COLUMN zk_lock_stats.deadlocks IS
'acquire calls that failed with a deadlock';
COMMENT ON COLUMN zk_lock_stats.errors IS
'acquire calls that failed with another error';
COMMENT ON COLUMN zk_lock_stats.lost IS
'locks that were lost, counted when their sessions notice';
COMMENT ON COLUMN zk_lock_stats.sessions IS 'ZooKeeper sessions opened';
COMMENT ON COLUMN zk_lock_stats.reconnects IS
'connections to ZooKeeper regained after a loss';
COMMENT ON COLUMN zk_lock_stats.expiries IS 'ZooKeeper sessions expired';
COMMENT ON COLUMN zk_lock_stats.wait_time IS
'total time waited for other sessions, in milliseconds';
COMMENT ON COLUMN zk_lock_stats.stats_reset IS 'time of the last reset';

CREATE FUNCTION pg_stat_zklock()
RETURNS zk_lock_stats
AS 'MODULE_PATHNAME', 'zk_stat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_stat_zklock() IS
'returns statistics of locks, for the view pg_stat_zklock';

CREATE VIEW pg_stat_zklock AS
SELECT * FROM pg_stat_zklock();

COMMENT ON VIEW pg_stat_zklock IS 'statistics of locks, in one row';
COMMENT ON COLUMN pg_stat_zklock.scope IS
'cluster if zklock is preloaded, otherwise backend';
COMMENT ON COLUMN pg_stat_zklock.attempts IS
'acquire calls; a call for several locks counts once';
COMMENT ON COLUMN pg_stat_zklock.granted_at_once IS
'acquire calls that succeeded without waiting';
COMMENT ON COLUMN pg_stat_zklock.granted_after_wait IS
'acquire calls that succeeded after waiting';
COMMENT ON COLUMN pg_stat_zklock.timeouts IS
'acquire calls that reached their timeout or lock_timeout';
COMMENT ON COLUMN pg_stat_zklock.cancels IS
'acquire calls that were cancelled or terminated';
COMMENT ON COLUMN pg_stat_zklock.deadlocks IS
'acquire calls that failed with a deadlock';
COMMENT ON COLUMN pg_stat_zklock.errors IS
'acquire calls that failed with another error';
COMMENT ON COLUMN pg_stat_zklock.lost IS
'locks that were lost, counted when their sessions notice';
COMMENT ON COLUMN pg_stat_zklock.sessions IS 'ZooKeeper sessions opened';
COMMENT ON COLUMN pg_stat_zklock.reconnects IS
'connections to ZooKeeper regained after a loss';
COMMENT ON COLUMN pg_stat_zklock.expiries IS 'ZooKeeper sessions expired';
COMMENT ON COLUMN pg_stat_zklock.wait_time IS
'total time waited for other sessions, in milliseconds';
COMMENT ON COLUMN pg_stat_zklock.stats_reset IS 'time of the last reset';

GRANT SELECT ON pg_stat_zklock TO PUBLIC;

CREATE FUNCTION pg_stat_zklock_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'zk_stat_reset'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_stat_zklock_reset() IS 'resets the statistics in pg_stat_zklock';

-- As for other cluster-wide statistics.
REVOKE ALL ON FUNCTION pg_stat_zklock_reset() FROM PUBLIC;

CREATE TYPE zk_wait_bucket AS (
	from_ms double precision,
	to_ms double precision,
	waits bigint
);

COMMENT ON TYPE zk_wait_bucket IS 'row of the view pg_stat_zklock_waits';
COMMENT ON COLUMN zk_wait_bucket.from_ms IS
'these waits were at least as long, in milliseconds';
COMMENT ON COLUMN zk_wait_bucket.to_ms IS 'and shorter than this, in milliseconds';
COMMENT ON COLUMN zk_wait_bucket.waits IS 'number of these waits';

CREATE FUNCTION pg_stat_zklock_waits()
RETURNS SETOF zk_wait_bucket
AS 'MODULE_PATHNAME', 'zk_stat_waits'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 11;

COMMENT ON FUNCTION pg_stat_zklock_waits() IS
'returns the histogram of waits, for the view pg_stat_zklock_waits';

CREATE VIEW pg_stat_zklock_waits AS
SELECT * FROM pg_stat_zklock_waits();

COMMENT ON VIEW pg_stat_zklock_waits IS
'histogram of the waits that pg_stat_zklock counts';
COMMENT ON COLUMN pg_stat_zklock_waits.from_ms IS
'these waits were at least as long, in milliseconds';
COMMENT ON COLUMN pg_stat_zklock_waits.to_ms IS
'and shorter than this, in milliseconds';
COMMENT ON COLUMN pg_stat_zklock_waits.waits IS 'number of these waits';

GRANT SELECT ON pg_stat_zklock_waits TO PUBLIC;

CREATE TYPE zk_lock_figures AS (
	path text,
	grants bigint,
	waits bigint,
	timeouts bigint,
	lost bigint,
	wait_time double precision,
	longest_wait double precision,
	hold_time double precision,
	longest_hold double precision,
	stats_since timestamptz,
	last_granted_at timestamptz,
	last_pid integer,
	last_datname text,
	last_usename text,
	last_application_name text,
	last_note text
);

COMMENT ON TYPE zk_lock_figures IS 'row of the view pg_stat_zklock_locks';
COMMENT ON COLUMN zk_lock_figures.path IS
'lock path; null for all locks without a row of their own';
COMMENT ON COLUMN zk_lock_figures.grants IS 'number of grants';
COMMENT ON COLUMN zk_lock_figures.waits IS
'number of waits for other sessions, also in vain';
COMMENT ON COLUMN zk_lock_figures.timeouts IS
'number of calls that reached their timeout or lock_timeout';
COMMENT ON COLUMN zk_lock_figures.lost IS
'number of losses, counted when their sessions notice';
COMMENT ON COLUMN zk_lock_figures.wait_time IS
'total time of these waits, in milliseconds';
COMMENT ON COLUMN zk_lock_figures.longest_wait IS
'time of the longest wait, in milliseconds';
COMMENT ON COLUMN zk_lock_figures.hold_time IS
'total time of holds that have ended, in milliseconds';
COMMENT ON COLUMN zk_lock_figures.longest_hold IS
'time of the longest such hold, in milliseconds';
COMMENT ON COLUMN zk_lock_figures.stats_since IS 'time since which this is counted';
COMMENT ON COLUMN zk_lock_figures.last_granted_at IS 'time of the last grant';
COMMENT ON COLUMN zk_lock_figures.last_pid IS
'process ID of the session that was granted the lock last';
COMMENT ON COLUMN zk_lock_figures.last_datname IS 'its database';
COMMENT ON COLUMN zk_lock_figures.last_usename IS 'its user';
COMMENT ON COLUMN zk_lock_figures.last_application_name IS 'its application_name';
COMMENT ON COLUMN zk_lock_figures.last_note IS 'its zklock.note';

CREATE FUNCTION pg_stat_zklock_locks()
RETURNS SETOF zk_lock_figures
AS 'MODULE_PATHNAME', 'zk_stat_locks'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 100;

COMMENT ON FUNCTION pg_stat_zklock_locks() IS
'returns figures for each lock, for the view pg_stat_zklock_locks';

CREATE VIEW pg_stat_zklock_locks AS
SELECT * FROM pg_stat_zklock_locks();

COMMENT ON VIEW pg_stat_zklock_locks IS
'figures for each lock that sessions of this cluster use';
COMMENT ON COLUMN pg_stat_zklock_locks.path IS
'lock path; null for all locks without a row of their own';
COMMENT ON COLUMN pg_stat_zklock_locks.grants IS 'number of grants';
COMMENT ON COLUMN pg_stat_zklock_locks.waits IS
'number of waits for other sessions, also in vain';
COMMENT ON COLUMN pg_stat_zklock_locks.timeouts IS
'number of calls that reached their timeout or lock_timeout';
COMMENT ON COLUMN pg_stat_zklock_locks.lost IS
'number of losses, counted when their sessions notice';
COMMENT ON COLUMN pg_stat_zklock_locks.wait_time IS
'total time of these waits, in milliseconds';
COMMENT ON COLUMN pg_stat_zklock_locks.longest_wait IS
'time of the longest wait, in milliseconds';
COMMENT ON COLUMN pg_stat_zklock_locks.hold_time IS
'total time of holds that have ended, in milliseconds';
COMMENT ON COLUMN pg_stat_zklock_locks.longest_hold IS
'time of the longest such hold, in milliseconds';
COMMENT ON COLUMN pg_stat_zklock_locks.stats_since IS
'time since which this is counted';
COMMENT ON COLUMN pg_stat_zklock_locks.last_granted_at IS 'time of the last grant';
COMMENT ON COLUMN pg_stat_zklock_locks.last_pid IS
'process ID of the session that was granted the lock last';
COMMENT ON COLUMN pg_stat_zklock_locks.last_datname IS 'its database';
COMMENT ON COLUMN pg_stat_zklock_locks.last_usename IS 'its user';
COMMENT ON COLUMN pg_stat_zklock_locks.last_application_name IS
'its application_name';
COMMENT ON COLUMN pg_stat_zklock_locks.last_note IS 'its zklock.note';

CREATE FUNCTION pg_stat_zklock_locks_reset(path text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'zk_stat_locks_reset'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_stat_zklock_locks_reset(text) IS
'resets the figures of a lock, or of all locks, in pg_stat_zklock_locks';

-- They show the activity of other sessions.
REVOKE ALL ON FUNCTION pg_stat_zklock_locks() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_stat_zklock_locks_reset(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_stat_zklock_locks() TO pg_monitor;
GRANT SELECT ON pg_stat_zklock_locks TO pg_monitor;

CREATE TYPE zk_session_state AS (
	state text,
	session_id text,
	server text,
	session_timeout interval,
	state_since timestamptz,
	sessions bigint,
	reconnects bigint,
	detail text
);

COMMENT ON TYPE zk_session_state IS
'state of a ZooKeeper session, as zk_session() returns it';
COMMENT ON COLUMN zk_session_state.state IS
'closed, connecting, connected or suspended';
COMMENT ON COLUMN zk_session_state.session_id IS 'the ZooKeeper session';
COMMENT ON COLUMN zk_session_state.server IS 'server to which it is connected';
COMMENT ON COLUMN zk_session_state.session_timeout IS
'shortest timeout that the ensemble has granted this session';
COMMENT ON COLUMN zk_session_state.state_since IS 'time of the last change of state';
COMMENT ON COLUMN zk_session_state.sessions IS 'ZooKeeper sessions opened';
COMMENT ON COLUMN zk_session_state.reconnects IS
'connections to ZooKeeper regained after a loss';
COMMENT ON COLUMN zk_session_state.detail IS 'reason why there is no connection';

CREATE FUNCTION zk_session()
RETURNS zk_session_state
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_session() IS
'returns the state of this session''s ZooKeeper session, without opening one';

CREATE FUNCTION zk_session_close()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION zk_session_close() IS
'releases all locks of this session and closes its ZooKeeper session
A transaction that holds locks cannot commit afterwards. The next call
that needs ZooKeeper connects again.';
