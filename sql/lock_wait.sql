--
-- WAITING WITHOUT A SNAPSHOT
--
-- S-numbers name the scenario that a test covers.

SET zklock.root = '/zklock_regress_lock_wait';
CREATE TEMP VIEW my_locks AS
SELECT path, mode, session_count AS session, transaction_count AS xact, state
FROM zk_locks ORDER BY path COLLATE "C", mode;

-- a statement of its own
CALL zk_lock_wait('/a');
CALL zk_lock_wait('/a', '0');
CALL zk_lock_wait('/b', shared => true);
CALL zk_lock_wait(path => '/c', timeout => '20 s', acquired => false);
CALL zk_lock_wait(ARRAY['/d', '/c', '/d']);
CALL zk_lock_wait('{}'::text[]);
SELECT * FROM my_locks;
SELECT zk_lock_release_all();

-- arguments are checked as those of zk_lock_acquire()
CALL zk_lock_wait(NULL::text);
CALL zk_lock_wait('a');
CALL zk_lock_wait('/a', '-1 s');
CALL zk_lock_wait(ARRAY['/a', NULL]);

-- S280: not in a transaction block, explicit or implicit
BEGIN;
CALL zk_lock_wait('/a');
ROLLBACK;
SELECT 1 AS one\; CALL zk_lock_wait('/a');

-- S280: not in a function, nor in a procedure that must not commit
CREATE FUNCTION wait_in_function() RETURNS boolean AS $$
DECLARE
	got boolean;
BEGIN
	CALL zk_lock_wait('/a', acquired => got);
	RETURN got;
END
$$ LANGUAGE plpgsql;
SELECT wait_in_function();
DROP FUNCTION wait_in_function();
CREATE PROCEDURE wait_as_definer() AS $$
DECLARE
	got boolean;
BEGIN
	CALL zk_lock_wait('/a', acquired => got);
END
$$ LANGUAGE plpgsql SECURITY DEFINER;
CALL wait_as_definer();
DROP PROCEDURE wait_as_definer();

-- S281: in a DO block, first and after COMMIT
CREATE TABLE notes (note text);
DO $$
DECLARE
	got boolean;
BEGIN
	CALL zk_lock_wait('/first', acquired => got);
	INSERT INTO notes SELECT 'first: ' || got;
	COMMIT;
	CALL zk_lock_wait('/second', '20 s', acquired => got);
	INSERT INTO notes SELECT 'second: ' || got;
END
$$;
SELECT * FROM notes;
SELECT * FROM my_locks;
SELECT zk_lock_release_all();

-- S281: in a procedure, and in one that this calls; not after it has written
CREATE PROCEDURE wait_inside(path text, INOUT got boolean) AS $$
BEGIN
	CALL zk_lock_wait(path, '20 s', false, got);
END
$$ LANGUAGE plpgsql;
CREATE PROCEDURE wait_twice() AS $$
DECLARE
	got boolean;
BEGIN
	CALL wait_inside('/first', got);
	INSERT INTO notes SELECT 'in a procedure: ' || got;
	BEGIN
		CALL wait_inside('/second', got);
	EXCEPTION WHEN active_sql_transaction THEN
		RAISE NOTICE '%', SQLERRM;
	END;
	INSERT INTO notes SELECT 'still here';
	COMMIT;
	CALL wait_inside('/second', got);
	INSERT INTO notes SELECT 'after COMMIT: ' || got;
END
$$ LANGUAGE plpgsql;
CALL wait_twice();
SELECT * FROM notes;
SELECT * FROM my_locks;
SELECT zk_lock_release_all();

-- S281: after a query; not with a cursor open
DO $$
DECLARE
	got boolean;
	n bigint;
	r record;
BEGIN
	SELECT count(*) INTO n FROM notes;
	CALL zk_lock_wait('/queried', '20 s', acquired => got);
	RAISE NOTICE '% notes, %', n, got;
	FOR r IN SELECT note FROM notes ORDER BY note LIMIT 1 LOOP
		COMMIT;
		CALL zk_lock_wait('/cursor', '20 s', acquired => got);
		SELECT count(*) INTO n FROM notes;
		RAISE NOTICE '%, % notes, %', r.note, n, got;
	END LOOP;
END
$$;
SELECT * FROM my_locks;
SELECT zk_lock_release_all();

DO $$
DECLARE
	got boolean;
	r record;
BEGIN
	FOR r IN SELECT note FROM notes LOOP
		CALL zk_lock_wait('/cursor', '20 s', acquired => got);
	END LOOP;
END
$$;

-- S281: what the transaction holds stays
DO $$
DECLARE
	got boolean;
BEGIN
	PERFORM zk_lock_acquire_xact('/xact');
	PERFORM pg_advisory_xact_lock(1);
	CALL zk_lock_wait('/more', '20 s', acquired => got);
	INSERT INTO notes SELECT format('%s and %s advisory', string_agg(path, ' ' ORDER BY path COLLATE "C"),
		(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()))
	FROM zk_locks;
END
$$;
SELECT note FROM notes WHERE note LIKE '%advisory';
SELECT zk_lock_release_all();

-- S282: where a transaction keeps its snapshot
SET default_transaction_isolation = 'repeatable read';
CALL zk_lock_wait('/a', '20 s');
SELECT state FROM zk_locks WHERE path = '/a';
DO $$
DECLARE
	got boolean;
BEGIN
	CALL zk_lock_wait('/b', acquired => got);
END
$$;
DO $$
DECLARE
	got boolean;
BEGIN
	COMMIT;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	CALL zk_lock_wait('/b', '20 s', acquired => got);
	RAISE NOTICE '%', got;
END
$$;
SET default_transaction_isolation = 'serializable';
CALL zk_lock_wait('/c', '20 s');
RESET default_transaction_isolation;
SELECT * FROM my_locks;
SELECT zk_lock_release_all();

-- in PL/pgSQL the result needs a variable
DO $$ BEGIN CALL zk_lock_wait('/a'); END $$;

DROP PROCEDURE wait_twice();
DROP PROCEDURE wait_inside(text, boolean);
DROP TABLE notes;

-- permits and jobs wait in the same way (S398)
CALL zk_semaphore_wait('/sem', 2, '1 s');
SELECT path, mode, session_count FROM zk_locks;
SELECT zk_lock_lease('/sem') BETWEEN interval '0' AND interval '10 s';
SELECT zk_semaphore_release('/sem');
SELECT zk_lock_lease('/sem');
\echo :LAST_ERROR_SQLSTATE
CALL zk_semaphore_wait('/sem', 0);
CALL zk_job_wait('/job', '2026-01-01 UTC');
SELECT zk_job_end('/job');
CALL zk_job_wait('/job', '2026-01-01 UTC', max_runtime => '1 h');
BEGIN;
CALL zk_semaphore_wait('/sem', 2);
ROLLBACK;
BEGIN;
CALL zk_job_wait('/job', '2026-01-02 UTC');
ROLLBACK;
SELECT count(*) FROM zk_locks;
DELETE FROM zk_job_runs;
