--
-- JOBS
--
-- S-numbers name the scenario that a test covers.

SET zklock.root = '/zklock_regress';
SET datestyle = 'ISO, YMD';
SET timezone = 'UTC';

-- the outcome of a statement: its result, or SQLSTATE, message and detail;
-- clocks differ each time
CREATE FUNCTION pg_temp.try(statement text) RETURNS text
LANGUAGE plpgsql AS
$$
DECLARE
	result text;
	detail text;
BEGIN
	EXECUTE statement INTO result;
	RETURN coalesce(result, 'null');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	detail := regexp_replace(detail, 'shows .*\.$', 'shows <time>.');
	RETURN SQLSTATE || ': ' || SQLERRM || ' (' || detail || ')';
END;
$$;

-- what became of the runs of a job; the lock; whether it could be begun
CREATE VIEW job AS
SELECT path, fire_time, outcome, ended_at IS NULL AS open, role_name = session_user AS mine,
	cluster_name, host IS NOT NULL AS host, token > 0 AS token
FROM zk_job_runs ORDER BY path, fire_time, zk_job_runs.token;
CREATE TABLE work (step text);

-- the table: who may do what, and what pg_dump is told
SELECT relkind, relpersistence, obj_description(c.oid, 'pg_class') IS NOT NULL AS described,
	has_table_privilege('public', c.oid, 'SELECT') AS read,
	has_table_privilege('public', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER, REFERENCES') AS write,
	c.oid = ANY (extconfig) AS dumped, extcondition
FROM pg_class c, pg_extension
WHERE relname = 'zk_job_runs' AND extname = 'zklock';
SELECT attname, format_type(atttypid, atttypmod), attnotnull, collname,
	col_description(attrelid, attnum) IS NOT NULL AS described
FROM pg_attribute LEFT JOIN pg_collation c ON c.oid = attcollation
WHERE attrelid = 'zk_job_runs'::regclass AND attnum > 0
ORDER BY attnum;

-- a run has a row from its beginning, and is done with its end
SELECT zk_job_begin('/a', '2026-01-01 00:01');
TABLE job;
SELECT zk_job_end('/a');
TABLE job;
SELECT zk_job_begin('/a', '2026-01-01 00:01');
SELECT zk_job_begin('/a', '2026-01-01 00:00');
SELECT last_fire_time, ended_by ~ '^user \S+, (cluster \S+, )?host \S+$' AS by, running_fire_time
FROM zk_job_status('/a');

-- S260: a role without privileges can do nothing to a job
CREATE ROLE regress_zklock_jobs;
SET ROLE regress_zklock_jobs;
SELECT pg_temp.try($$SELECT zk_job_begin('/a', '2026-01-02')$$);
SELECT pg_temp.try($$SELECT zk_job_begin_xact('/a', '2026-01-02')$$);
SELECT pg_temp.try($$SELECT zk_job_end('/a')$$);
SELECT pg_temp.try($$SELECT zk_job_reset('/a', '2026-01-02')$$);
SELECT pg_temp.try($$SELECT zk_job_status('/a')$$);
SELECT outcome FROM zk_job_history('/a');
RESET ROLE;
GRANT EXECUTE ON FUNCTION zk_job_begin, zk_job_end
TO regress_zklock_jobs;
SET ROLE regress_zklock_jobs;
SELECT zk_job_begin('/granted', '2026-01-01');
SELECT zk_job_end('/granted');
SELECT pg_temp.try($$DELETE FROM zk_job_runs RETURNING 1$$);
RESET ROLE;
TABLE job;

-- S260: nor can a role with privileges end future runs by mistake
SELECT pg_temp.try($$SELECT zk_job_begin('/a', '294276-12-31')$$);
SELECT pg_temp.try(format('SELECT zk_job_begin_xact(''/a'', %L)',
	date_trunc('year', now()) + interval '5 years')) ~ '^22023: fire time .* is more than one hour ahead';
SELECT pg_temp.try($$SELECT zk_job_begin('/a', 'infinity')$$);
SELECT pg_temp.try($$SELECT zk_job_begin('/a', '-infinity')$$);
SELECT zk_job_begin('/ahead', now() + interval '59 minutes');
SELECT zk_job_end('/ahead');

-- S262: what is rolled back is not done, whatever the transaction had written when the
-- run was to be ended
SELECT zk_job_begin('/b', '2026-01-01');
BEGIN;
WITH w AS (INSERT INTO work VALUES ('b') RETURNING 1) SELECT zk_job_end('/b') FROM w;
ROLLBACK;
SELECT running_fire_time FROM zk_job_status('/b');
BEGIN;
SELECT zk_job_end('/b');
INSERT INTO work VALUES ('b');
ROLLBACK;
SELECT running_fire_time FROM zk_job_status('/b');
BEGIN;
NOTIFY regress_zklock;
SELECT zk_job_end('/b');
ROLLBACK;
SELECT running_fire_time FROM zk_job_status('/b');
BEGIN;
SELECT zk_job_end('/b');
ROLLBACK;
SELECT path, running_fire_time IS NOT NULL AS running, outcome, granted
FROM zk_job_status('/b'), job, zk_lock_queue('/b') WHERE path = '/b';
BEGIN;
SELECT zk_job_end('/b');
INSERT INTO work VALUES ('b');
COMMIT;
SELECT path, outcome FROM job WHERE path = '/b';
TABLE work;

-- S263: between its end and the commit nothing can be done to the lock of a job
SELECT zk_job_begin('/c', '2026-01-01');
BEGIN;
INSERT INTO work VALUES ('c');
SELECT zk_job_end('/c');
SELECT pg_temp.try($$SELECT zk_lock_acquire('/c')$$);
SELECT pg_temp.try($$SELECT zk_lock_acquire('/c', shared => true)$$);
SELECT pg_temp.try($$SELECT zk_lock_acquire_xact('/c')$$);
SELECT pg_temp.try($$SELECT zk_lock_acquire('{/c,/d}'::text[])$$);
SELECT pg_temp.try($$SELECT zk_lock_release('/c')$$);
SELECT pg_temp.try($$SELECT zk_lock_release_all()$$);
SELECT pg_temp.try($$SELECT zk_session_close()$$);
SELECT pg_temp.try($$SELECT zk_job_end('/c')$$);
SELECT pg_temp.try($$SELECT zk_job_begin('/c', '2026-01-01')$$);
SELECT path, mode, session_count, transaction_count FROM zk_locks ORDER BY path;
COMMIT;
SELECT path, outcome FROM job WHERE path = '/c';
SELECT zk_job_begin('/c', '2026-01-01');
SELECT count(*) FROM zk_locks;

-- nor can a run be ended while the job has the lock for other reasons
SELECT zk_job_begin('/c', '2026-01-02');
SELECT last_fire_time, running_fire_time FROM zk_job_status('/c');
SELECT zk_lock_acquire('/c');
SELECT pg_temp.try($$SELECT zk_job_end('/c')$$);
SELECT zk_lock_release('/c');

-- a rollback to a savepoint between its end and the commit leaves the end alone
BEGIN;
SELECT zk_job_end('/c');
SAVEPOINT a;
SELECT zk_lock_fence('/c') > 0;
ROLLBACK TO a;
SELECT pg_temp.try($$SELECT zk_lock_release('/c')$$);
COMMIT;
SELECT last_fire_time FROM zk_job_status('/c');

-- a rollback of the transaction that has begun a run gives it up
BEGIN;
SELECT zk_job_begin('/d', '2026-01-01');
SAVEPOINT a;
SELECT zk_job_begin('/e', '2026-01-01');
ROLLBACK TO a;
SELECT path, session_count FROM zk_locks;
ROLLBACK;
SELECT count(*) FROM zk_locks;
SELECT count(*) FROM job WHERE path IN ('/d', '/e');
BEGIN;
SAVEPOINT a;
SELECT zk_job_begin('/d', '2026-01-01');
RELEASE a;
COMMIT;
BEGIN;
INSERT INTO work VALUES ('d');
ROLLBACK;
SELECT path, session_count FROM zk_locks;
SELECT zk_job_end('/d');

-- also if that fails for another reason, whichever function began it
\set SHOW_CONTEXT never
CREATE FUNCTION pg_temp.fail() RETURNS boolean LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'it fails, and a lock is held: %', (SELECT path FROM zk_locks); END; $$;
SELECT zk_job_begin('/e', '2026-01-01'), pg_temp.fail();
SELECT count(*) FROM zk_locks;

-- one that is given up has failed, as the next one finds
SELECT zk_job_begin('/d', '2026-01-02');
SELECT zk_lock_release('/d');
SELECT fire_time, outcome FROM zk_job_history('/d');
SELECT zk_job_begin('/d', '2026-01-02');
SELECT fire_time, outcome, ended_at IS NOT NULL AS ended FROM zk_job_history('/d');
SELECT zk_job_end('/d');
SELECT fire_time, outcome, ended_at IS NOT NULL AS ended FROM zk_job_history('/d');
SELECT fire_time FROM zk_job_history('/d', 1);
SELECT count(*) FROM zk_job_history('/d', NULL);

-- S293: as one finds, too, that is a transaction, if that commits
SELECT zk_job_begin('/g', '2026-01-01');
SELECT zk_lock_release('/g');
BEGIN;
SELECT zk_job_begin_xact('/g', '2026-01-01');
ROLLBACK;
SELECT fire_time, outcome FROM zk_job_history('/g');
BEGIN;
SELECT zk_job_begin_xact('/g', '2026-01-02');
COMMIT;
SELECT fire_time, outcome, ended_at IS NOT NULL AS ended FROM zk_job_history('/g');

-- S264: the run is the transaction
BEGIN;
SELECT zk_job_begin_xact('/x', '2026-01-01');
SELECT path, mode, session_count, transaction_count FROM zk_locks;
SELECT pg_temp.try($$SELECT zk_job_end('/x')$$);
SELECT pg_temp.try($$SELECT zk_lock_release('/x')$$);
INSERT INTO work VALUES ('x');
ROLLBACK;
SELECT count(*) FROM zk_locks;
SELECT count(*) FROM job WHERE path = '/x';
BEGIN;
SAVEPOINT a;
SELECT zk_job_begin_xact('/x', '2026-01-01');
ROLLBACK TO a;
COMMIT;
SELECT count(*) FROM job WHERE path = '/x';
BEGIN;
SAVEPOINT a;
SELECT zk_job_begin_xact('/x', '2026-01-01');
RELEASE a;
INSERT INTO work VALUES ('x');
COMMIT;
SELECT count(*) FROM zk_locks;
SELECT fire_time, outcome, open FROM job WHERE path = '/x';
BEGIN;
SELECT zk_job_begin_xact('/x', '2026-01-01');
SELECT count(*) FROM zk_locks;
COMMIT;
SELECT count(*) FROM work WHERE step = 'x';
-- alone it has no time for its work
SELECT zk_job_begin_xact('/alone', '2026-01-01');
SELECT zk_job_begin_xact('/alone', '2026-01-01');
DO $$ BEGIN PERFORM zk_job_begin_xact('/together', '2026-01-01'); INSERT INTO work VALUES ('y'); END $$;
CREATE FUNCTION pg_temp.run() RETURNS boolean LANGUAGE plpgsql AS
$$ BEGIN RETURN zk_job_begin_xact('/together', '2026-01-02'); END; $$;
SELECT pg_temp.run();
BEGIN READ ONLY;
SELECT pg_temp.try($$SELECT zk_job_begin_xact('/x', '2026-01-02')$$);
COMMIT;
SELECT count(*) FROM zk_locks;

-- without a transaction that could write there is no end, but a beginning
BEGIN READ ONLY;
SELECT zk_job_begin('/r', '2026-01-01');
SELECT pg_temp.try($$SELECT zk_job_end('/r')$$);
COMMIT;
SELECT zk_job_end('/r');
SELECT path, outcome FROM job WHERE path = '/r';

-- isolation levels see what is there, not what was
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM work;
SELECT zk_job_begin('/s', '2026-01-01');
SELECT zk_job_end('/s');
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT zk_job_begin_xact('/s', '2026-01-01');
SELECT zk_job_begin_xact('/s', '2026-01-02');
COMMIT;
SELECT path, fire_time, outcome FROM job WHERE path = '/s';

-- S261: what was done by mistake can be undone
SELECT zk_job_reset('/never', '2026-01-01');
SELECT zk_job_begin('/z', '2026-01-01');
SELECT zk_job_end('/z');
SELECT zk_job_begin('/z', '2026-01-07');
SELECT zk_job_end('/z');
SELECT zk_job_begin('/z', '2026-01-05');
SELECT zk_job_reset('/z', '2026-01-08');
SELECT zk_job_reset('/z', '2026-01-05');
SELECT zk_job_reset('/z', 'infinity');
SELECT fire_time, outcome FROM zk_job_history('/z');
SELECT last_fire_time FROM zk_job_status('/z');
SELECT zk_job_begin('/z', '2026-01-04');
SELECT zk_job_begin('/z', '2026-01-05');
SELECT pg_temp.try($$SELECT zk_job_reset('/z', '2026-01-05')$$);
SELECT zk_job_end('/z');
SELECT zk_job_begin('/z', '2026-01-05');
SELECT zk_job_begin('/z', '2026-01-07');
SELECT zk_job_end('/z');
SELECT fire_time, outcome FROM zk_job_history('/z');
SELECT last_fire_time FROM zk_job_status('/z');

-- S265: what was missed
SELECT zk_job_missed('/z', '2026-01-01', '1 day', 7);
SELECT count(*), min(m) FROM zk_job_missed('/z', '2026-01-01', '1 day', 3) m;
SELECT count(*) FROM zk_job_missed('/z', now() + interval '1 day', '1 day');
SELECT count(*) FROM zk_job_missed('/z', '-infinity', '1 day');
SELECT pg_temp.try($$SELECT zk_job_missed('/z', '2026-01-01', '0')$$);
-- nor does that take longer for all that are not asked for
SELECT count(*) FROM zk_job_missed('/z', '2000-01-01', '1 microsecond');

-- S431: the same text is another fire time in another zone, and so is the
-- beginning of an hour or the next day, unless the zone is given
SET timezone = 'Europe/Berlin';
SELECT zk_job_begin('/zone', '2026-01-02 03:00'), zk_job_end('/zone');
SELECT zk_job_missed('/zone', '2026-03-28 03:00+00', '1 day', 2) AT TIME ZONE 'UTC' AS missed;
SELECT zk_job_missed('/zone', '2026-03-28 03:00+00', '24 hours', 2) AT TIME ZONE 'UTC' AS missed;
SET timezone = 'UTC';
SELECT zk_job_begin('/zone', '2026-01-02 03:00'), zk_job_end('/zone');
SELECT zk_job_begin('/zone', '2026-01-02 03:00+00');
SET timezone = 'Asia/Kolkata';
SELECT zk_job_begin('/hour', date_trunc('hour', '2026-01-02 03:10+00'::timestamptz)), zk_job_end('/hour');
SELECT zk_job_begin('/hour/utc', date_trunc('hour', '2026-01-02 03:10+00'::timestamptz, 'UTC')), zk_job_end('/hour/utc');
SET timezone = 'UTC';
SELECT zk_job_begin('/hour', date_trunc('hour', '2026-01-02 03:10+00'::timestamptz)), zk_job_end('/hour');
SELECT zk_job_begin('/hour/utc', date_trunc('hour', '2026-01-02 03:10+00'::timestamptz, 'UTC'));
SELECT path, fire_time FROM job WHERE path IN ('/zone', '/hour', '/hour/utc');

-- a job whose table is gone says so, and holds nothing
BEGIN;
ALTER TABLE zk_job_runs RENAME TO zk_job_runs_gone;
SAVEPOINT a;
SELECT pg_temp.try($$SELECT zk_job_begin('/gone', '2026-01-01')$$);
SELECT count(*) FROM zk_locks;
ROLLBACK;

DROP VIEW job;
DROP TABLE work;
REVOKE ALL ON FUNCTION zk_job_begin, zk_job_end
FROM regress_zklock_jobs;
DROP ROLE regress_zklock_jobs;
