--
-- SEVERAL LOCKS AT ONCE (S80)
--
-- S-numbers name the scenario that a test covers.

SET zklock.root = '/zklock_regress_several';
CREATE TEMP VIEW my_locks AS
SELECT path, mode, session_count AS session, transaction_count AS xact, state
FROM zk_locks ORDER BY path COLLATE "C", mode;

-- the state of an error, and the message
CREATE FUNCTION pg_temp.try(statement text) RETURNS text AS $$
BEGIN
	EXECUTE statement;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END
$$ LANGUAGE plpgsql;

-- all of them, whatever the order; a path that is named twice counts once
SELECT zk_lock_acquire(ARRAY['/c', '/a', '/b', '/a', '/c']);
SELECT * FROM my_locks;

-- they were created by one transaction
SELECT count(DISTINCT token) AS tokens, min(token) > 0 AS valid FROM zk_locks;
SELECT zk_lock_verify('/a') = zk_lock_token('/c') AS proved;

-- they are locks like others
SELECT zk_lock_release('/b'), zk_lock_release('/b');
SELECT zk_lock_acquire('/a');
SELECT * FROM my_locks;

-- what is held is only counted; the rest is acquired
SELECT zk_lock_acquire('{/d,/c,/a}'::text[], '0');
SELECT zk_lock_acquire(paths => '{/a,/d}', shared => true, timeout => '20 s');
SELECT * FROM my_locks;
SELECT zk_lock_release_all();
SELECT * FROM my_locks;

-- shared
SELECT zk_lock_acquire('{/a,/b}'::text[], shared => true);
SELECT * FROM my_locks;

-- some of them are upgraded
SELECT zk_lock_acquire('{/b,/c}'::text[]);
SELECT * FROM my_locks;
SELECT zk_lock_release_all();

-- transaction scope, and subtransactions
BEGIN;
SELECT zk_lock_acquire_xact('{/a,/b}'::text[]);
SAVEPOINT s;
SELECT zk_lock_acquire_xact(ARRAY['/c', '/b']);
SELECT * FROM my_locks;
ROLLBACK TO s;
SELECT * FROM my_locks;
COMMIT;
SELECT * FROM my_locks;

-- none at all; one; more dimensions than one
SELECT zk_lock_acquire('{}'::text[]), zk_lock_acquire_xact(ARRAY[]::text[]);
SELECT count(*) FROM zk_locks;
SELECT zk_lock_acquire(ARRAY['/a']);
SELECT zk_lock_acquire('{{/a,/b},{/c,/d}}'::text[]);
SELECT * FROM my_locks;
SELECT zk_lock_release_all();

-- other types that become text
SELECT zk_lock_acquire(ARRAY['/a'::varchar, '/b']);
SELECT zk_lock_acquire('/c'::name);
SELECT count(*) FROM zk_locks;
SELECT zk_lock_release_all();

-- a literal of unknown type, and a null, is one path as ever
SELECT zk_lock_acquire('/a');
SELECT zk_lock_acquire_xact('/a', '0', true);
SELECT * FROM my_locks;
SELECT zk_lock_release_all();
SELECT pg_temp.try('SELECT zk_lock_acquire($${/a,/b}$$)');
SELECT pg_temp.try('SELECT zk_lock_acquire(NULL)');

-- nulls, paths that are none, too many: nothing is acquired
SELECT pg_temp.try('SELECT zk_lock_acquire(NULL::text[])');
SELECT pg_temp.try('SELECT zk_lock_acquire_xact(ARRAY[$$/a$$, NULL])');
SELECT pg_temp.try('SELECT zk_lock_acquire(ARRAY[$$/a$$, $$b$$])');
SELECT pg_temp.try('SELECT zk_lock_acquire(ARRAY[$$/a$$, $$/b$$], $$-1 s$$)');
SELECT pg_temp.try('SELECT zk_lock_acquire($${}$$::text[], $$-1 s$$)');
SELECT pg_temp.try('SELECT zk_lock_acquire(array_agg($$/$$ || n))
	FROM generate_series(1, 61) n');
SELECT count(*) FROM zk_locks;

-- as many as can be, with repetitions and long paths
SELECT zk_lock_acquire(array_agg(repeat('/' || repeat('x', 200), 4) || '/' || n % 60))
FROM generate_series(1, 1000) n;
SELECT count(*), min(session_count), max(session_count) FROM zk_locks;
SELECT zk_lock_release_all();

-- an error after them
BEGIN;
SELECT zk_lock_acquire_xact('{/a,/b}'::text[]);
SELECT 1 / 0;
ROLLBACK;
SELECT count(*) FROM zk_locks;

-- S209: many paths can be cancelled: before the last of these, which is an error, is looked at
SELECT zk_lock_acquire(CASE WHEN pg_cancel_backend(pg_backend_pid())
	THEN ARRAY['/a', NULL] END);
