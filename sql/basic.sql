--
-- ARGUMENTS, PATHS, SETTINGS
--
-- S-numbers name the scenario that a test covers.

-- the outcome of a statement: its result, or SQLSTATE, message and detail
CREATE FUNCTION pg_temp.try(statement text) RETURNS text
LANGUAGE plpgsql AS
$$
DECLARE
	result text;
	detail text;
BEGIN
	EXECUTE statement INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ': ' || left(SQLERRM, 80) || ' (' || detail || ')';
END;
$$;

-- the functions are not for parallel workers (S32), and may be called for each
-- row (S99); whatever touches others is not for PUBLIC (S118)
SELECT proname, pronargs, provolatile, proparallel, proisstrict,
	has_function_privilege('public', p.oid, 'EXECUTE') AS public,
	has_function_privilege('pg_monitor', p.oid, 'EXECUTE') AS monitor,
	obj_description(p.oid, 'pg_proc') IS NOT NULL AS described
FROM pg_proc p WHERE proname ~ '^(zk|pg_stat_zk)' ORDER BY proname COLLATE "C", pronargs;

-- nothing is connected before something is asked for (S70)
SELECT state, session_id, server, session_timeout, state_since, sessions,
	reconnects, detail
FROM zk_session();

-- paths (S102)
SELECT path, pg_temp.try(format('SELECT zk_lock_acquire(%L)', path))
FROM (VALUES
	(1, ''), (2, '/'), (3, 'jobs'), (4, '/jobs/'), (5, '//jobs'),
	(6, '/jobs//nightly'), (7, '/.'), (8, '/jobs/./nightly'), (9, '/..'),
	(10, '/jobs/..'), (11, E'/a\x01b'), (12, E'/a\nb'), (13, E'/a\x7Fb'),
	(14, '/zookeeper'), (15, '/zookeeper/a'), (16, '/.zklock'),
	(17, '/.zklock/a')) AS paths(n, path)
ORDER BY n;
SELECT pg_temp.try(format('SELECT zk_lock_acquire(%L)', '/' || repeat('x', 1023)));
SELECT pg_temp.try(format('SELECT zk_lock_acquire(%L)', '/' || repeat('x', 1020)));

-- the answer is the same for every function, and a null path is an error
SELECT pg_temp.try('SELECT zk_lock_acquire_xact($$jobs$$)');
SELECT pg_temp.try('SELECT zk_lock_release($$jobs$$)');
SELECT pg_temp.try('SELECT zk_lock_token($$jobs$$)');
SELECT pg_temp.try('SELECT zk_lock_verify($$jobs$$)');
SELECT pg_temp.try('SELECT zk_lock_queue($$jobs$$)');
SELECT pg_temp.try('SELECT zk_lock_tree($$jobs$$)');
SELECT pg_temp.try('SELECT zk_lock_tree($$/jobs/$$)');
SELECT pg_temp.try('SELECT zk_lock_acquire(NULL)');
SELECT pg_temp.try('SELECT zk_lock_acquire_xact(NULL)');
SELECT pg_temp.try('SELECT zk_lock_release(NULL)');
SELECT pg_temp.try('SELECT zk_lock_token(NULL)');
SELECT pg_temp.try('SELECT zk_lock_verify(NULL)');
SELECT pg_temp.try('SELECT zk_lock_queue(NULL)');
SELECT right(pg_temp.try(format('SELECT zk_lock_acquire(%L)', repeat('/' || repeat('x', 203), 5))), 90);

-- timeouts (S89)
SELECT pg_temp.try('SELECT zk_lock_acquire($$/a$$, $$-1 microsecond$$)');
SELECT pg_temp.try('SELECT zk_lock_acquire($$/a$$, $$1 day -25 hours$$)');
SELECT pg_temp.try('SELECT zk_lock_acquire($$/a$$, $$-178000000 years$$)');

-- what is not held
SELECT zk_lock_release('/a');
SELECT zk_lock_release('/a', true);
SELECT zk_lock_release('/a', false);
SELECT zk_lock_release_all();
SELECT pg_temp.try('SELECT zk_lock_token($$/a$$)');
SELECT pg_temp.try('SELECT zk_lock_verify($$/a$$)');
SELECT * FROM zk_locks;
SELECT zk_session_close();

-- none of this needed a connection
SELECT state, sessions FROM zk_session();

-- settings
SELECT name, boot_val, unit, context, min_val, max_val, enumvals
FROM pg_settings
WHERE name LIKE 'zklock.%'
ORDER BY name COLLATE "C";
SET zklock.root = 'jobs';
SET zklock.root = '/jobs/';
SET zklock.root = '/zookeeper';
SET zklock.servers = 'localhost:';
SET zklock.servers = 'localhost:0';
SET zklock.servers = 'localhost:2181,';
SET zklock.servers = 'localhost:2181/chroot';
SET zklock.servers = '::1:2181';
-- a range is told in other words from PostgreSQL 17 on
\set VERBOSITY sqlstate
SET zklock.session_timeout = '999ms';
SET zklock.connect_timeout = 0;
\set VERBOSITY default
SET zklock.commit_guard = 'nosuch';
SET zklock.on_lock_loss = 'nosuch';
SET zklock.znode_style = 'nosuch';

-- no servers
SET zklock.servers = '';
SELECT zk_lock_acquire('/a');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM zk_lock_queue('/a');
\echo :LAST_ERROR_SQLSTATE

-- servers that cannot be reached, or have no address, within the time allowed
-- (S62, S63, S87)
SET zklock.servers = '127.0.0.1:1,[::1]:1';
SET zklock.connect_timeout = '200ms';
SELECT left(pg_temp.try('SELECT zk_lock_acquire($$/a$$)'), 60);
SELECT left(pg_temp.try('SELECT zk_lock_acquire($$/a$$, $$0$$)'), 60);
SELECT left(pg_temp.try('SELECT zk_lock_acquire($$/a$$, $$50 ms$$)'), 60);
SELECT left(pg_temp.try('SELECT zk_lock_queue($$/a$$)'), 67);
SELECT left(pg_temp.try('SELECT zk_lock_tree()'), 67);
SET zklock.connect_timeout = '10s';
SET lock_timeout = '50ms';
SELECT left(pg_temp.try('SELECT zk_lock_acquire($$/a$$)'), 84);
RESET lock_timeout;
SET zklock.servers = 'zklock.invalid:2181';
SELECT left(pg_temp.try('SELECT zk_lock_acquire($$/a$$)'), 87);
RESET zklock.servers;

-- and the next call works (S62)
SET zklock.root = '/zklock_regress';
SELECT zk_lock_acquire('/a', '20 s');
SELECT state, session_id ~ '^0x[0-9a-f]+$' AS session_id,
	server ~ ':[0-9]+$' AS server, session_timeout >= '1 s' AS timeout,
	state_since <= clock_timestamp() AS since, sessions, reconnects, detail
FROM zk_session();
SELECT zk_lock_release('/a');

-- long timeouts do not overflow (S89)
SELECT zk_lock_acquire('/a', '178000000 years');
SELECT zk_lock_acquire('/b', '292000 years 1 microsecond');
SELECT zk_lock_release_all();

-- null is: no timeout, not shared
SELECT zk_lock_acquire('/a', NULL, NULL);
SELECT path, mode FROM zk_locks;
SELECT zk_lock_release('/a', NULL);

-- what a user may do
CREATE ROLE regress_zklock_user;
SET ROLE regress_zklock_user;
SELECT zk_lock_acquire('/a');
SELECT path, mode, session_count FROM zk_locks;
SELECT state FROM zk_session();
SELECT zk_lock_queue('/a');
\echo :LAST_ERROR_SQLSTATE
SELECT zk_lock_tree();
\echo :LAST_ERROR_SQLSTATE
SET zklock.root = '/elsewhere';
SET zklock.servers = 'localhost:2181';
SELECT zk_lock_release('/a');
SELECT zk_session_close();
RESET ROLE;
DROP ROLE regress_zklock_user;

-- a function that is wrongly labelled does not lock in a parallel worker (S32)
CREATE FUNCTION zk_regress_lock(n integer) RETURNS boolean
LANGUAGE plpgsql PARALLEL SAFE AS
$$
BEGIN
	RETURN zk_lock_acquire('/' || n);
END;
$$;
CREATE TABLE zk_regress_rows AS SELECT generate_series(1, 10) AS n;
BEGIN;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL parallel_leader_participation = off;
\set VERBOSITY terse
SELECT count(*) FROM zk_regress_rows WHERE zk_regress_lock(n);
\set VERBOSITY default
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
SELECT count(*) FROM zk_locks;
DROP TABLE zk_regress_rows;
DROP FUNCTION zk_regress_lock(integer);

-- a path in another root is another lock
SELECT zk_lock_acquire('/a');
SET zklock.root = '/zklock_regress/below';
SELECT zk_lock_release('/a');
SELECT zk_lock_acquire('/a');
SELECT path, session_count FROM zk_locks;
SELECT path, mode, holders, waiters, pid = pg_backend_pid() AS own
FROM zk_lock_tree();
SELECT zk_lock_release_all();
