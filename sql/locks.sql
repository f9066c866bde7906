--
-- LOCKS OF ONE BACKEND
--
-- This follows PostgreSQL's test of advisory locks, whose rules these are.
-- S-numbers name the scenario that a test covers.

SET zklock.root = '/zklock_regress';
CREATE TEMP VIEW my_locks AS
SELECT path, mode, session_count AS session, transaction_count AS xact, state
FROM zk_locks ORDER BY path COLLATE "C", mode;

-- transaction scope
BEGIN;
SELECT zk_lock_acquire_xact('/1'), zk_lock_acquire_xact('/2', shared => true);
SELECT * FROM my_locks;

-- releasing all does not release transaction scope
SELECT zk_lock_release_all();
SELECT count(*) FROM zk_locks;

-- nor can it be released
SELECT zk_lock_release('/1'), zk_lock_release('/2', true);

-- it is at commit
COMMIT;
SELECT count(*) FROM zk_locks;

-- both scopes on the same locks, transaction first; neither blocks the other
BEGIN;
SELECT zk_lock_acquire_xact('/1'), zk_lock_acquire_xact('/2', shared => true);
SELECT zk_lock_acquire('/1'), zk_lock_acquire('/2', shared => true);
SELECT * FROM my_locks;
ROLLBACK;
SELECT * FROM my_locks;

-- releasing session scope: once is enough (S97)
SELECT zk_lock_release('/1'), zk_lock_release('/1'),
	zk_lock_release('/2', true), zk_lock_release('/2', true);
SELECT count(*) FROM zk_locks;

-- session first
BEGIN;
SELECT zk_lock_acquire('/1'), zk_lock_acquire('/2', shared => true);
SELECT zk_lock_acquire_xact('/1'), zk_lock_acquire_xact('/2', shared => true);
ROLLBACK;
SELECT * FROM my_locks;
SELECT zk_lock_release_all();
SELECT count(*) FROM zk_locks;

-- transaction scope many times
BEGIN;
SELECT zk_lock_acquire_xact('/1'), zk_lock_acquire_xact('/1'),
	zk_lock_acquire_xact('/2', shared => true),
	zk_lock_acquire_xact('/2', shared => true);
SELECT * FROM my_locks;
COMMIT;
SELECT count(*) FROM zk_locks;

-- session scope many times: one contender, gone with the last release (S35)
SELECT zk_lock_acquire('/1'), zk_lock_acquire('/1'),
	zk_lock_acquire('/2', shared => true),
	zk_lock_acquire('/2', shared => true);
SELECT * FROM my_locks;
SELECT position, mode, granted, own FROM zk_lock_queue('/1');
SELECT zk_lock_release('/1'), zk_lock_release('/2', true);
SELECT * FROM my_locks;
SELECT position, mode, granted, own FROM zk_lock_queue('/1');
SELECT zk_lock_release('/1'), zk_lock_release('/2', true);
SELECT count(*) FROM zk_locks;
SELECT count(*) FROM zk_lock_queue('/1');

-- session twice and transaction once, ended in mixed order (S35)
SELECT zk_lock_acquire('/1');
BEGIN;
SELECT zk_lock_acquire_xact('/1');
SELECT zk_lock_acquire('/1');
SELECT zk_lock_release('/1');
SELECT zk_lock_release('/1');
SELECT * FROM my_locks;
SELECT count(*) FROM zk_lock_queue('/1');
COMMIT;
SELECT count(*) FROM zk_lock_queue('/1');

-- session scope outlives the rollback of the transaction that acquired it
BEGIN;
SELECT zk_lock_acquire('/1');
ROLLBACK;
SELECT * FROM my_locks;
SELECT zk_lock_release('/1');

-- subtransactions (S30)
BEGIN;
SELECT zk_lock_acquire_xact('/1');
SAVEPOINT a;
SELECT zk_lock_acquire_xact('/1');
SELECT zk_lock_acquire_xact('/2');
SAVEPOINT b;
SELECT zk_lock_acquire_xact('/1');
SELECT zk_lock_acquire_xact('/3');
SELECT * FROM my_locks;
RELEASE b;
SELECT * FROM my_locks;
ROLLBACK TO a;
SELECT * FROM my_locks;
SELECT zk_lock_acquire_xact('/4');
SAVEPOINT c;
SAVEPOINT d;
SELECT zk_lock_acquire_xact('/5');
RELEASE d;
ROLLBACK TO c;
SELECT * FROM my_locks;
RELEASE a;
SELECT * FROM my_locks;
COMMIT;
SELECT count(*) FROM zk_locks;

-- in more of them than there is room for at first
BEGIN;
SELECT zk_lock_acquire_xact('/1');
SAVEPOINT a;
SELECT zk_lock_acquire_xact('/1');
SAVEPOINT b;
SELECT zk_lock_acquire_xact('/1');
SAVEPOINT c;
SELECT zk_lock_acquire_xact('/1');
SAVEPOINT d;
SELECT zk_lock_acquire_xact('/1');
SAVEPOINT e;
SELECT zk_lock_acquire_xact('/1');
ROLLBACK TO e;
SELECT * FROM my_locks;
ROLLBACK TO b;
SELECT * FROM my_locks;
COMMIT;
SELECT count(*) FROM zk_locks;

-- an exception block is one, too (S30, S100)
DO
$$
BEGIN
	PERFORM zk_lock_acquire_xact('/1');
	BEGIN
		PERFORM zk_lock_acquire_xact('/1');
		PERFORM zk_lock_acquire_xact('/2');
		PERFORM zk_lock_acquire('/3');
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		RAISE NOTICE 'still: %', (SELECT array_agg(m) FROM my_locks m);
	END;
END;
$$;
SELECT * FROM my_locks;
SELECT zk_lock_release('/3');

-- a procedure that commits (S100)
CREATE PROCEDURE pg_temp.two_steps() LANGUAGE plpgsql AS
$$
BEGIN
	PERFORM zk_lock_acquire_xact('/1');
	RAISE NOTICE 'before: %', (SELECT array_agg(m) FROM my_locks m);
	COMMIT;
	RAISE NOTICE 'after: %', (SELECT array_agg(m) FROM my_locks m);
	PERFORM zk_lock_acquire_xact('/2');
	ROLLBACK;
	RAISE NOTICE 'at last: %', (SELECT array_agg(m) FROM my_locks m);
END;
$$;
CALL pg_temp.two_steps();

-- exclusive grants shared at once; the last exclusive one turns it into a
-- shared lock, with the same token (S24)
SELECT zk_lock_acquire('/1');
SELECT zk_lock_acquire('/1', '0', true);
SELECT * FROM my_locks;
SELECT zk_lock_token('/1') AS token \gset
SELECT zk_lock_release('/1');
SELECT * FROM my_locks;
SELECT zk_lock_verify('/1') = :token AS same_token;
SELECT position, mode, granted, own FROM zk_lock_queue('/1');
SELECT zk_lock_acquire('/1', '0', true);
SELECT zk_lock_release('/1'), zk_lock_release('/1', false),
	zk_lock_release('/1', true);
SELECT count(*) FROM zk_lock_queue('/1');

-- the same by the end of a transaction
SELECT zk_lock_acquire('/1', shared => true);
BEGIN;
SELECT zk_lock_acquire_xact('/1');
SELECT * FROM my_locks;
SELECT position, mode, granted, own FROM zk_lock_queue('/1');
COMMIT;
SELECT * FROM my_locks;
SELECT zk_lock_release('/1');
BEGIN;
SELECT zk_lock_acquire_xact('/1');
SELECT zk_lock_acquire('/1', shared => true);
ROLLBACK;
SELECT * FROM my_locks;
SELECT zk_lock_verify('/1') > :token AS greater_token;
SELECT zk_lock_release('/1');

-- shared to exclusive without others: a second contender, not its own
-- deadlock (S36, S74)
SELECT zk_lock_acquire('/1', shared => true);
SELECT zk_lock_acquire('/1', '20 s');
SELECT * FROM my_locks;
SELECT position, mode, granted, own FROM zk_lock_queue('/1');
SELECT zk_lock_release('/1', true);
SELECT position, mode, granted, own FROM zk_lock_queue('/1');
SELECT zk_lock_release('/1', false);
SELECT count(*) FROM zk_lock_queue('/1');

-- tokens grow with every grant
SELECT zk_lock_acquire('/1');
SELECT zk_lock_token('/1') AS first \gset
SELECT zk_lock_verify('/1') = :first AS same, zk_lock_release('/1');
SELECT zk_lock_acquire('/1', shared => true);
SELECT zk_lock_token('/1') > :first AS greater, zk_lock_release('/1');
SELECT zk_lock_token('/1');

-- release of everything: one contender for each lock
SELECT zk_lock_acquire('/1'), zk_lock_acquire('/1'), zk_lock_acquire('/2'),
	zk_lock_acquire('/3', shared => true);
BEGIN;
SELECT zk_lock_acquire_xact('/2');
SELECT zk_lock_release_all();
SELECT * FROM my_locks;
COMMIT;
SELECT zk_lock_release_all();

-- DISCARD ALL releases session scope (S78)
SELECT zk_lock_acquire('/1'), zk_lock_acquire('/2', shared => true);
DISCARD ALL;
SET zklock.root = '/zklock_regress';
SELECT path FROM zk_locks;
SELECT zk_lock_acquire('/1', '20 s');
DISCARD PLANS;
RESET ALL;
SELECT path FROM zk_locks;
SELECT zk_lock_release_all();
SET zklock.root = '/zklock_regress';
CREATE TEMP VIEW my_locks AS
SELECT path, mode, session_count AS session, transaction_count AS xact, state
FROM zk_locks ORDER BY path COLLATE "C", mode;

-- a transaction that holds locks cannot be prepared (S31)
BEGIN;
SELECT zk_lock_acquire_xact('/1');
PREPARE TRANSACTION 'zklock_regress';
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM my_locks;

-- read-only transactions may lock
BEGIN READ ONLY;
SELECT zk_lock_acquire('/1'), zk_lock_acquire_xact('/2');
SELECT zk_lock_release('/1');
COMMIT;

-- closing the ZooKeeper session releases everything, and what the transaction
-- holds is lost
SELECT zk_lock_acquire('/1');
BEGIN;
SELECT zk_lock_acquire_xact('/2');
SAVEPOINT a;
SELECT zk_lock_acquire_xact('/3');
SELECT zk_session_close();
SELECT state FROM zk_session();
SELECT * FROM my_locks;
-- names and times of contenders are in the DETAIL
\set VERBOSITY terse
SELECT zk_lock_token('/2');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK TO a;
SELECT * FROM my_locks;
-- nothing is acquired where the commit is forbidden
SAVEPOINT b;
SELECT zk_lock_acquire('/1', '10 s');
ROLLBACK TO b;
COMMIT;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY default
SELECT * FROM my_locks;

-- one call for each row, wherever it stands (S99)
SELECT n, zk_lock_acquire('/row' || n) FROM generate_series(1, 3) AS n;
SELECT n FROM generate_series(1, 3) AS n WHERE zk_lock_release('/row' || n);
DO
$$
BEGIN
	EXECUTE 'EXPLAIN ANALYZE SELECT zk_lock_acquire(''/1'')';
END;
$$;
SELECT * FROM my_locks;
EXPLAIN (COSTS OFF) SELECT zk_lock_acquire('/1');
WITH once AS MATERIALIZED (SELECT zk_lock_release('/1') AS released)
SELECT released, released AS again FROM once;
SELECT count(*) FROM zk_locks;

-- a trigger (S100)
CREATE TEMP TABLE guarded (n integer);
CREATE FUNCTION pg_temp.guard() RETURNS trigger LANGUAGE plpgsql AS
$$
BEGIN
	PERFORM zk_lock_acquire_xact('/guarded');
	RETURN NEW;
END;
$$;
CREATE TRIGGER guard BEFORE INSERT ON guarded
FOR EACH ROW EXECUTE FUNCTION pg_temp.guard();
BEGIN;
INSERT INTO guarded VALUES (1), (2);
SELECT * FROM my_locks;
COMMIT;
SELECT count(*) FROM zk_locks;

-- names that need care
SELECT zk_lock_acquire('/a b/"c"/{d}/e%s%n/lock-000000001');
SELECT path, mode, session_count FROM zk_locks;
SELECT position, mode, granted, own, token > 0 AS token,
	since <= clock_timestamp() + '1 min' AS since, owner::json ->> 'pid' = pg_backend_pid()::text AS pid,
	owner::json ->> 'database' = current_database() AS database,
	owner::json ->> 'application_name' AS application_name
FROM zk_lock_queue('/a b/"c"/{d}/e%s%n/lock-000000001');
SELECT zk_lock_release('/a b/"c"/{d}/e%s%n/lock-000000001');
-- one that the lock above it would take for a contender
SELECT zk_lock_acquire('/a b/lock-0000000001');
