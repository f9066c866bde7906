/* sql/zklock--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION zklock" to load this file. \quit

CREATE FUNCTION zk_lock_acquire(path text, timeout interval DEFAULT NULL,
	shared boolean DEFAULT false)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_acquire(text, interval, boolean) IS
'acquire a lock until it is released or the backend exits; false if somebody else holds it.
path: the lock, as in ''/jobs/nightly''; timeout: bounds the whole call, null waits as long as lock_timeout allows, zero does not wait for others; shared: share it with other shared holders';

CREATE FUNCTION zk_lock_acquire_xact(path text, timeout interval DEFAULT NULL,
	shared boolean DEFAULT false)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_acquire_xact(text, interval, boolean) IS
'acquire a lock until the end of the transaction; false if somebody else holds it.
path: the lock, as in ''/jobs/nightly''; timeout: bounds the whole call, null waits as long as lock_timeout allows, zero does not wait for others; shared: share it with other shared holders';

CREATE FUNCTION zk_lock_acquire(paths text[], timeout interval DEFAULT NULL,
	shared boolean DEFAULT false)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_lock_acquire_several'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_acquire(text[], interval, boolean) IS
'acquire several locks until they are released or the backend exits, all or none; false if somebody else holds one of them. Calls of this form never deadlock with each other.
paths: the locks, each is acquired once; timeout: bounds the whole call, null waits as long as lock_timeout allows, zero does not wait for others; shared: share them with other shared holders';

CREATE FUNCTION zk_lock_acquire_xact(paths text[], timeout interval DEFAULT NULL,
	shared boolean DEFAULT false)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_lock_acquire_several_xact'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_acquire_xact(text[], interval, boolean) IS
'acquire several locks until the end of the transaction, all or none; false if somebody else holds one of them. Calls of this form never deadlock with each other.
paths: the locks, each is acquired once; timeout: bounds the whole call, null waits as long as lock_timeout allows, zero does not wait for others; shared: share them with other shared holders';

CREATE PROCEDURE zk_lock_wait(path text, timeout interval DEFAULT NULL,
	shared boolean DEFAULT false, INOUT acquired boolean DEFAULT NULL)
AS 'MODULE_PATHNAME'
LANGUAGE C;

COMMENT ON PROCEDURE zk_lock_wait(text, interval, boolean, boolean) IS
'acquires a lock until it is released or the backend exits, and holds no snapshot while it waits. To be called outside transaction blocks and functions.
path: the lock, as in ''/jobs/nightly''; timeout: bounds the whole call, null waits as long as lock_timeout allows, zero does not wait for others; shared: share it with other shared holders; acquired: false if another session holds it';

CREATE PROCEDURE zk_lock_wait(paths text[], timeout interval DEFAULT NULL,
	shared boolean DEFAULT false, INOUT acquired boolean DEFAULT NULL)
AS 'MODULE_PATHNAME', 'zk_lock_wait_several'
LANGUAGE C;

COMMENT ON PROCEDURE zk_lock_wait(text[], interval, boolean, boolean) IS
'acquires several locks until they are released or the backend exits, all or none, and holds no snapshot while it waits. To be called outside transaction blocks and functions.
paths: the locks, each is acquired once; timeout: bounds the whole call, null waits as long as lock_timeout allows, zero does not wait for others; shared: share them with other shared holders; acquired: false if another session holds one of them';

CREATE FUNCTION zk_lock_release(path text, shared boolean DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_release(text, boolean) IS
'release one session-scope acquisition of a lock; false, with a warning, if there is none or the lock had been lost.
path: the lock; shared: true or false for an acquisition in that mode, null for either, exclusive first';

CREATE FUNCTION zk_lock_release_all()
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_release_all() IS
'release every session-scope lock of this backend; returns how many contenders went';

CREATE FUNCTION zk_semaphore_acquire(path text, permits integer,
	timeout interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_semaphore_acquire(text, integer, interval) IS
'acquire one permit of a semaphore until it is released or the backend exits; false if others hold all of them.
path: the semaphore, as in ''/pools/export''; permits: how many there are, the same for everybody; timeout: bounds the whole call, null waits as long as lock_timeout allows, zero does not wait for others';

CREATE FUNCTION zk_semaphore_acquire_xact(path text, permits integer,
	timeout interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_semaphore_acquire_xact(text, integer, interval) IS
'acquire one permit of a semaphore until the end of the transaction; false if others hold all of them.
path: the semaphore, as in ''/pools/export''; permits: how many there are, the same for everybody; timeout: bounds the whole call, null waits as long as lock_timeout allows, zero does not wait for others';

CREATE FUNCTION zk_semaphore_release(path text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_semaphore_release(text) IS
'release one session-scope acquisition of a semaphore''s permit; false, with a warning, if there is none or it had been lost.
path: the semaphore';

CREATE FUNCTION zk_lock_token(path text)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_token(text) IS
'the token of a lock held by this backend, a number that grows with every grant; an error if it is not held, or lost.
path: the lock';

CREATE FUNCTION zk_lock_verify(path text)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_verify(text) IS
'have the ensemble prove that a lock is held by this backend, and return its token; an error if it is not held, or lost.
path: the lock';

-- Logged, though after a crash no holder is left here: a backend that holds a
-- lock on a standby lives on when that is promoted.  "C", so that no other
-- version of a collation ever hides a row.  Every transaction that passes makes
-- a new version of its row; the free space keeps that on one page.
CREATE TABLE zk_lock_fences (
	path text COLLATE "C" PRIMARY KEY,
	token bigint NOT NULL,
	since timestamptz NOT NULL
) WITH (fillfactor = 50);

COMMENT ON TABLE zk_lock_fences IS
'the fences: for each lock the highest token under which this database was written to; see zk_lock_fence()';
COMMENT ON COLUMN zk_lock_fences.path IS 'the lock';
COMMENT ON COLUMN zk_lock_fences.token IS 'the token';
COMMENT ON COLUMN zk_lock_fences.since IS
'when it first came to the fence, by the clock of this server';

-- A dump has all fences: they guard the data that is in it, too, and without them
-- a holder from before could write to what was restored.
SELECT pg_extension_config_dump('zk_lock_fences', '');

-- everybody may look: it tells no more of others than pg_locks does, and who
-- may not read it could not dump the database
GRANT SELECT ON zk_lock_fences TO PUBLIC;

CREATE FUNCTION zk_lock_fence(path text)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION zk_lock_fence(text) IS
'fence a lock held in exclusive mode by this backend, until the transaction ends: it cannot commit after a newer holder that has fenced, too, and one that comes later waits for it. Returns the token; an error if a newer holder came first, or the lock is not held, or lost.
path: the lock';

CREATE FUNCTION zk_lock_fence_reset(path text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION zk_lock_fence_reset(text) IS
'remove the fence of a lock, after the ensemble was rebuilt and tokens have begun anew; false if there is none.
path: the lock';

-- it lets older holders pass
REVOKE ALL ON FUNCTION zk_lock_fence_reset(text) FROM PUBLIC;

CREATE FUNCTION zk_lock_fence_trigger()
RETURNS trigger
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION zk_lock_fence_trigger() IS
'trigger function: a statement writes to the table only under a lock held in exclusive mode, which it fences.
argument of the trigger: the lock; to be called BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE, FOR EACH STATEMENT';

CREATE FUNCTION zk_lock_queue(path text,
	OUT "position" integer, OUT contender text, OUT mode text,
	OUT granted boolean, OUT own boolean, OUT session_id text,
	OUT token bigint, OUT since timestamptz, OUT age interval,
	OUT owner text,
	OUT cluster_name text, OUT host text, OUT port integer,
	OUT database text, OUT pid integer, OUT user_name text,
	OUT application_name text, OUT wait_start timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_queue(text) IS
'every contender for a lock in order, waiting or granted, of this backend or of anybody else.
path: the lock. Columns: session_id: its ZooKeeper session; token: valid once granted; since, age: of the contender, by the clocks of ZooKeeper and of this server; owner: what it says about itself; the others: the same in detail, null if it is not a backend''s: of which cluster, host, port, database, pid, user and application_name it is, and since when it asks for the lock, by its own clock';

-- it shows what others do
REVOKE ALL ON FUNCTION zk_lock_queue(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION zk_lock_queue(text) TO pg_monitor;

-- Each attempt at a run has its token.  Only one of them may have done it: who is
-- about to write that has to wait for another one who is.
CREATE TABLE zk_job_runs (
	path text COLLATE "C" NOT NULL,
	fire_time timestamptz NOT NULL,
	token bigint NOT NULL,
	begun_at timestamptz NOT NULL,
	ended_at timestamptz,
	outcome text COLLATE "C" NOT NULL
		CHECK (outcome IN ('running', 'done', 'failed', 'reset')),
	role_name text NOT NULL,
	cluster_name text,
	host text NOT NULL,
	PRIMARY KEY (path, fire_time, token, begun_at)
);

CREATE UNIQUE INDEX zk_job_runs_done ON zk_job_runs (path, fire_time)
	WHERE outcome = 'done';

COMMENT ON TABLE zk_job_runs IS
'the runs of jobs whose work was done in this database, as far as they are known; see zk_job_begin()';
COMMENT ON COLUMN zk_job_runs.path IS 'the job';
COMMENT ON COLUMN zk_job_runs.fire_time IS 'when the run was due';
COMMENT ON COLUMN zk_job_runs.token IS 'the token of the lock under which it was begun';
COMMENT ON COLUMN zk_job_runs.begun_at IS 'when that was, by the clock of the server';
COMMENT ON COLUMN zk_job_runs.ended_at IS
'when it was ended, or was found to have failed; null while it runs, and if it ended with the transaction that has begun it';
COMMENT ON COLUMN zk_job_runs.outcome IS
'running, done, failed if it was not ended, or reset by zk_job_reset() after it was done';
COMMENT ON COLUMN zk_job_runs.role_name IS 'the role that ran it';
COMMENT ON COLUMN zk_job_runs.cluster_name IS 'the cluster_name of the server on which it ran';
COMMENT ON COLUMN zk_job_runs.host IS 'the host of that server';

-- The rows tell whether the work is done that is in the dump, too.
SELECT pg_extension_config_dump('zk_job_runs', '');

-- Like the fences: who owns the database, but not the extension, can dump them.
GRANT SELECT ON zk_job_runs TO PUBLIC;

CREATE FUNCTION zk_job_begin(path text, fire_time timestamptz,
	timeout interval DEFAULT NULL, max_runtime interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION zk_job_begin(text, timestamptz, interval, interval) IS
'begin the run of a job that was due at a time, under a lock of the session, until zk_job_end() or a rollback of this transaction; false if another backend runs it, or this run or a later one is done.
path: the job, which is a lock; fire_time: when the run was due, the same wherever it may be begun; timeout: bounds the whole call, null waits as long as lock_timeout allows, zero does not wait for others; max_runtime: after that the run is given up, and its statement cancelled';

CREATE FUNCTION zk_job_begin_xact(path text, fire_time timestamptz,
	timeout interval DEFAULT NULL, max_runtime interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION zk_job_begin_xact(text, timestamptz, interval, interval) IS
'begin the run of a job that was due at a time: the commit of this transaction ends it; false if another backend runs it, or this run or a later one is done.
path: the job, which is a lock; fire_time: when the run was due, the same wherever it may be begun; timeout: bounds the whole call, null waits as long as lock_timeout allows, zero does not wait for others; max_runtime: after that the run is given up, and its statement cancelled';

CREATE FUNCTION zk_job_end(path text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION zk_job_end(text) IS
'end the run of a job that this backend has begun: when the transaction commits the run is done, and its lock is released. An error if the lock was lost.
path: the job';

CREATE FUNCTION zk_job_reset(path text, fire_time timestamptz)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION zk_job_reset(text, timestamptz) IS
'have the runs of a job that were due at a time or later count as not done, so that they can be begun again; those due before count as done. At once, whatever becomes of the transaction, and everywhere. False if there are none; an error if the job is running.
path: the job; fire_time: of the earliest run that is to be due again';

-- What is done to a job outlives who has done it.
REVOKE ALL ON FUNCTION zk_job_begin(text, timestamptz, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION zk_job_begin_xact(text, timestamptz, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION zk_job_end(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION zk_job_reset(text, timestamptz) FROM PUBLIC;

CREATE FUNCTION zk_job_history(path text, "limit" integer DEFAULT 100,
	OUT fire_time timestamptz, OUT outcome text, OUT begun_at timestamptz,
	OUT ended_at timestamptz, OUT token bigint, OUT role_name text,
	OUT cluster_name text, OUT host text)
RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT r.fire_time, r.outcome, r.begun_at, r.ended_at, r.token,
		r.role_name, r.cluster_name, r.host
	FROM zk_job_runs r
	WHERE r.path = zk_job_history.path
	ORDER BY r.fire_time DESC, r.token DESC
	LIMIT zk_job_history."limit";
END;

COMMENT ON FUNCTION zk_job_history(text, integer) IS
'the runs of a job in this database, the latest fire time first, and what became of them.
path: the job; limit: how many rows at most, null for all. Columns: as in zk_job_runs';

CREATE FUNCTION zk_job_missed(path text, since timestamptz, step interval,
	"limit" integer DEFAULT 100, OUT fire_time timestamptz)
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
'the fire times of a job, from one on in equal steps until now, that no run in this database has ended.
path: the job; since: the first fire time; step: from one to the next; limit: how many rows at most, null for all';

CREATE FUNCTION zk_job_status(path text,
	OUT last_fire_time timestamptz, OUT ended_at timestamptz,
	OUT ended_by text, OUT running_fire_time timestamptz,
	OUT cluster_name text, OUT host text, OUT port integer,
	OUT database text, OUT pid integer, OUT user_name text,
	OUT application_name text, OUT wait_start timestamptz)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_job_status(text) IS
'the last run of a job that was ended, and the one under way; null where there is none.
path: the job. Columns: last_fire_time, ended_at, ended_by: of the run with the latest fire time that was ended, by the clock and in the words of who has; running_fire_time: of the run under way; the others: who runs it, as in zk_lock_queue()';

-- it shows what others do
REVOKE ALL ON FUNCTION zk_job_status(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION zk_job_status(text) TO pg_monitor;

CREATE FUNCTION zk_lock_tree(INOUT path text DEFAULT NULL,
	OUT mode text, OUT holders integer, OUT waiters integer,
	OUT contender text, OUT session_id text,
	OUT token bigint, OUT since timestamptz, OUT age interval,
	OUT owner text,
	OUT cluster_name text, OUT host text, OUT port integer,
	OUT database text, OUT pid integer, OUT user_name text,
	OUT application_name text, OUT wait_start timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_tree(text) IS
'the locks at and below a path that somebody holds, one row for each, with how many hold it and how many wait.
path: a lock, or what the paths of locks begin with; null, or a slash, for all below zklock.root. Columns: path: the lock; contender and what follows: of the first holder, as zk_lock_queue() shows them';

-- likewise
REVOKE ALL ON FUNCTION zk_lock_tree(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION zk_lock_tree(text) TO pg_monitor;

CREATE FUNCTION zk_lock_revoke(path text, contender text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_revoke(text, text) IS
'ask the owner of a contender to release the lock, as Curator does; false if there is no such contender. Nothing makes it do so.
path: the lock; contender: as zk_lock_queue() shows it';

CREATE FUNCTION zk_lock_break(path text, contender text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_break(text, text) IS
'take a lock, or a place in its queue, away from somebody else: delete a contender; false if there is no such contender. It is written to the server log.
path: the lock; contender: as zk_lock_queue() shows it';

-- they concern what others hold
REVOKE ALL ON FUNCTION zk_lock_revoke(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION zk_lock_break(text, text) FROM PUBLIC;

CREATE FUNCTION zk_locks(
	OUT path text, OUT mode text, OUT session_count integer,
	OUT transaction_count integer, OUT contender text, OUT token bigint,
	OUT state text, OUT since timestamptz, OUT revoked boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_locks() IS
'the locks of this backend, for the view zk_locks';

CREATE VIEW zk_locks AS
SELECT path, mode, session_count, transaction_count, contender, token, state,
	since, revoked
FROM zk_locks();

COMMENT ON VIEW zk_locks IS
'the locks of this backend by mode';
COMMENT ON COLUMN zk_locks.path IS 'the lock';
COMMENT ON COLUMN zk_locks.mode IS 'exclusive, shared, or permit for a semaphore';
COMMENT ON COLUMN zk_locks.session_count IS
'acquisitions in session scope that were not released';
COMMENT ON COLUMN zk_locks.transaction_count IS
'acquisitions in transaction scope';
COMMENT ON COLUMN zk_locks.contender IS
'the contender that stands for them; an exclusive one stands for shared ones too';
COMMENT ON COLUMN zk_locks.token IS 'the token of the contender';
COMMENT ON COLUMN zk_locks.state IS
'held, lost, or unproved: it may be held, but the last proof is too old';
COMMENT ON COLUMN zk_locks.since IS 'since when it is held, or lost';
COMMENT ON COLUMN zk_locks.revoked IS
'somebody asks for it to be released; see zk_lock_revoke()';

GRANT SELECT ON zk_locks TO PUBLIC;

CREATE FUNCTION zk_lock_waits(
	OUT pid integer, OUT path text, OUT mode text,
	OUT wait_start timestamptz, OUT "position" integer, OUT ahead integer,
	OUT seen_at timestamptz,
	OUT contender text, OUT blocker text, OUT blocker_owner text,
	OUT holder text, OUT holder_owner text,
	OUT holder_cluster_name text, OUT holder_host text,
	OUT holder_port integer, OUT holder_database text,
	OUT holder_pid integer, OUT holder_user_name text,
	OUT holder_application_name text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_lock_waits() IS
'the backends of this cluster that wait for locks, for the view zk_lock_waits';

CREATE VIEW zk_lock_waits AS
SELECT w.pid, a.datname, a.usename, w.path, w.mode, w.wait_start, w."position",
	w.ahead, w.seen_at, w.contender, w.blocker, w.blocker_owner, w.holder, w.holder_owner,
	w.holder_cluster_name, w.holder_host, w.holder_port, w.holder_database,
	w.holder_pid, w.holder_user_name, w.holder_application_name
FROM zk_lock_waits() w
	LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) w.pid;

COMMENT ON VIEW zk_lock_waits IS
'the backends of this cluster that wait for locks others hold; details of other roles'' are for members of pg_read_all_stats';
COMMENT ON COLUMN zk_lock_waits.pid IS 'process of the backend';
COMMENT ON COLUMN zk_lock_waits.datname IS 'its database';
COMMENT ON COLUMN zk_lock_waits.usename IS 'its user';
COMMENT ON COLUMN zk_lock_waits.path IS 'the lock, of several the one that is waited for at the moment';
COMMENT ON COLUMN zk_lock_waits.mode IS 'exclusive or shared';
COMMENT ON COLUMN zk_lock_waits.wait_start IS 'when its call had to wait first';
COMMENT ON COLUMN zk_lock_waits."position" IS
'place in the queue when that was read last, from 1 on';
COMMENT ON COLUMN zk_lock_waits.ahead IS
'how many contenders had to go first, then';
COMMENT ON COLUMN zk_lock_waits.seen_at IS
'when that was: never longer ago than half of the wait, or deadlock_timeout';
COMMENT ON COLUMN zk_lock_waits.contender IS 'its contender';
COMMENT ON COLUMN zk_lock_waits.blocker IS
'the contender that it watches: the nearest that must go first';
COMMENT ON COLUMN zk_lock_waits.blocker_owner IS 'what that says about itself';
COMMENT ON COLUMN zk_lock_waits.holder IS
'the first contender of the queue, when that was read last';
COMMENT ON COLUMN zk_lock_waits.holder_owner IS
'what that says about itself; known after deadlock_timeout, or if it is the blocker';
COMMENT ON COLUMN zk_lock_waits.holder_cluster_name IS
'the same in detail, null if it is not a backend''s';
COMMENT ON COLUMN zk_lock_waits.holder_host IS 'likewise';
COMMENT ON COLUMN zk_lock_waits.holder_port IS 'likewise';
COMMENT ON COLUMN zk_lock_waits.holder_database IS 'likewise';
COMMENT ON COLUMN zk_lock_waits.holder_pid IS 'likewise';
COMMENT ON COLUMN zk_lock_waits.holder_user_name IS 'likewise';
COMMENT ON COLUMN zk_lock_waits.holder_application_name IS 'likewise';

-- what it shows whom is decided by the function
GRANT SELECT ON zk_lock_waits TO PUBLIC;

CREATE FUNCTION zk_blocking_pids(pid integer)
RETURNS integer[]
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_blocking_pids(integer) IS
'the processes of this cluster that a process waits for to get a lock: those that hold it or are before it in the queue, as far as the waiters know them; empty if it waits for none of this cluster.
pid: the process that waits';

CREATE FUNCTION pg_stat_zklock(
	OUT scope text, OUT attempts bigint, OUT granted_at_once bigint,
	OUT granted_after_wait bigint, OUT timeouts bigint, OUT cancels bigint,
	OUT deadlocks bigint, OUT errors bigint, OUT lost bigint,
	OUT sessions bigint, OUT reconnects bigint, OUT expiries bigint,
	OUT wait_time double precision, OUT wait_bounds double precision[],
	OUT wait_counts bigint[], OUT stats_reset timestamptz)
RETURNS record
AS 'MODULE_PATHNAME', 'zk_stat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_stat_zklock() IS
'statistics of locks, for the view pg_stat_zklock';

CREATE VIEW pg_stat_zklock AS
SELECT scope, attempts, granted_at_once, granted_after_wait, timeouts, cancels,
	deadlocks, errors, lost, sessions, reconnects, expiries, wait_time,
	wait_bounds, wait_counts, stats_reset
FROM pg_stat_zklock();

COMMENT ON VIEW pg_stat_zklock IS
'statistics of locks, one row; attempts are the sum of the next six columns and of the calls being made';
COMMENT ON COLUMN pg_stat_zklock.scope IS
'what it counts for: cluster if zklock is in shared_preload_libraries, else backend';
COMMENT ON COLUMN pg_stat_zklock.attempts IS
'acquire calls that were begun; one for several locks counts once';
COMMENT ON COLUMN pg_stat_zklock.granted_at_once IS
'those that were granted without waiting for somebody else';
COMMENT ON COLUMN pg_stat_zklock.granted_after_wait IS
'those that were granted after they had waited for somebody else';
COMMENT ON COLUMN pg_stat_zklock.timeouts IS
'those whose time was up, by their timeout (zero included) or lock_timeout';
COMMENT ON COLUMN pg_stat_zklock.cancels IS
'those that were cancelled, or ended with their backend';
COMMENT ON COLUMN pg_stat_zklock.deadlocks IS 'those that ended as a deadlock';
COMMENT ON COLUMN pg_stat_zklock.errors IS 'those that ended by another error';
COMMENT ON COLUMN pg_stat_zklock.lost IS
'locks that turned out to be lost, when their backends noticed';
COMMENT ON COLUMN pg_stat_zklock.sessions IS
'ZooKeeper sessions that were begun';
COMMENT ON COLUMN pg_stat_zklock.reconnects IS
'connections to ZooKeeper that were lost and regained';
COMMENT ON COLUMN pg_stat_zklock.expiries IS
'ZooKeeper sessions that have expired';
COMMENT ON COLUMN pg_stat_zklock.wait_time IS
'time that calls have waited for somebody else, however they ended, in milliseconds';
COMMENT ON COLUMN pg_stat_zklock.wait_bounds IS
'the histogram of these waits: upper bounds in milliseconds';
COMMENT ON COLUMN pg_stat_zklock.wait_counts IS
'how many were shorter than each bound, and not than the one before; at last those that were longer';
COMMENT ON COLUMN pg_stat_zklock.stats_reset IS 'since when all this is counted';

GRANT SELECT ON pg_stat_zklock TO PUBLIC;

CREATE FUNCTION pg_stat_zklock_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'zk_stat_reset'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_stat_zklock_reset() IS
'begin to count anew what pg_stat_zklock shows';

-- as of other statistics of a cluster
REVOKE ALL ON FUNCTION pg_stat_zklock_reset() FROM PUBLIC;

CREATE FUNCTION zk_session(
	OUT state text, OUT session_id text, OUT server text,
	OUT session_timeout interval, OUT state_since timestamptz,
	OUT sessions bigint, OUT reconnects bigint, OUT detail text)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_session() IS
'the ZooKeeper session of this backend; does not begin one.
Columns: state: closed, connecting, connected or suspended; session_timeout: as negotiated with the ensemble; sessions, reconnects: how many since the client was started; detail: why there is no connection';

CREATE FUNCTION zk_session_close()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION zk_session_close() IS
'release every lock of this backend and close its ZooKeeper session; a transaction that holds locks cannot commit after it. The next call that needs ZooKeeper begins a new one';
