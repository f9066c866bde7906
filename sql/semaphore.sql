--
-- SEMAPHORES
--
-- S-numbers name the scenario that a test covers.

SET zklock.root = '/zklock_regress_semaphore';
CREATE TEMP VIEW my_locks AS
SELECT path, mode, session_count AS session, transaction_count AS xact, state
FROM zk_locks ORDER BY path COLLATE "C", mode;

-- the state of an error, the message and the detail without names of contenders
CREATE FUNCTION pg_temp.try(statement text) RETURNS text AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE statement;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || SQLERRM || ' / ' || detail;
END
$$ LANGUAGE plpgsql;

-- a permit, and once more; the contender goes with the last release
SELECT zk_semaphore_acquire('/a', 2);
SELECT zk_semaphore_acquire('/a', 2, '0');
SELECT * FROM my_locks;
SELECT contender ~ '^_c_[-0-9a-f]{36}-sem2-[0-9]{10}$' AS name, token > 0 AS token
FROM zk_locks;
SELECT "position", mode, granted, own FROM zk_lock_queue('/a');
SELECT path, mode, holders, waiters FROM zk_lock_tree('/a');
SELECT zk_semaphore_release('/a'), zk_semaphore_release('/a');
SELECT count(*) FROM zk_lock_queue('/a');
SELECT * FROM my_locks;

-- a release is true once (S97)
SELECT zk_semaphore_release('/a');

-- named arguments, and the limits of what there can be
SELECT zk_semaphore_acquire(path => '/a', capacity => 1, timeout => '20 s');
SELECT zk_semaphore_acquire(capacity => 1000, path => '/b');
SELECT * FROM my_locks;
SELECT zk_lock_release_all();

-- bad arguments
SELECT pg_temp.try('SELECT zk_semaphore_acquire($$/a$$, 0)');
SELECT pg_temp.try('SELECT zk_semaphore_acquire($$/a$$, -1)');
SELECT pg_temp.try('SELECT zk_semaphore_acquire_xact($$/a$$, 1001)');
SELECT pg_temp.try('SELECT zk_semaphore_acquire($$/a$$, NULL)');
SELECT pg_temp.try('SELECT zk_semaphore_acquire(NULL, 1)');
SELECT pg_temp.try('SELECT zk_semaphore_acquire($$a$$, 1)');
SELECT pg_temp.try('SELECT zk_semaphore_acquire($$/a$$, 1, $$-1 s$$)');
SELECT pg_temp.try('SELECT zk_semaphore_release(NULL)');
SELECT pg_temp.try('SELECT zk_lock_acquire($$/a/_c_00000000-0000-4000-8000-000000000000-sem3-0000000001$$)');

-- transaction scope
BEGIN;
SELECT zk_semaphore_acquire_xact('/a', 3);
SELECT zk_semaphore_release('/a');
SAVEPOINT s;
SELECT zk_semaphore_acquire_xact('/a', 3), zk_semaphore_acquire_xact('/b', 3);
SELECT * FROM my_locks;
ROLLBACK TO s;
SELECT * FROM my_locks;
SAVEPOINT s;
SELECT zk_semaphore_acquire_xact('/c', 3), zk_semaphore_acquire('/d', 1);
RELEASE s;
SELECT * FROM my_locks;
PREPARE TRANSACTION 'zklock';
SELECT * FROM my_locks;
SELECT zk_semaphore_release('/d');

-- right after a commit, which does not wait for the release
BEGIN;
SELECT zk_semaphore_acquire_xact('/a', 1);
COMMIT;
SELECT zk_semaphore_acquire('/a', 1);
SELECT zk_semaphore_release('/a');
BEGIN;
SELECT zk_semaphore_acquire_xact('/a', 1);
COMMIT;
SELECT zk_semaphore_acquire('/a', 2);
SELECT zk_semaphore_release('/a');
BEGIN;
SELECT zk_semaphore_acquire_xact('/a', 2);
COMMIT;
SELECT zk_lock_acquire('/a');
SELECT zk_lock_release('/a');
BEGIN;
SELECT zk_lock_acquire_xact('/a');
COMMIT;
SELECT zk_semaphore_acquire('/a', 2);

-- both scopes on one permit
BEGIN;
SELECT zk_semaphore_acquire_xact('/a', 2);
SELECT * FROM my_locks;
SELECT zk_semaphore_release('/a');
SELECT * FROM my_locks;
COMMIT;
SELECT * FROM my_locks;

-- one number of permits for a path
SELECT zk_semaphore_acquire('/a', 2);
SELECT pg_temp.try('SELECT zk_semaphore_acquire($$/a$$, 3)');
SELECT zk_semaphore_acquire_xact('/a', 1);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM my_locks;

-- a path is a semaphore or a lock
SELECT zk_lock_acquire('/a');
\echo :LAST_ERROR_SQLSTATE
SELECT pg_temp.try('SELECT zk_lock_acquire($$/a$$, shared => true)');
SELECT pg_temp.try('SELECT zk_lock_acquire_xact(ARRAY[$$/b$$, $$/a$$])');
SELECT zk_lock_release('/a');
SELECT zk_lock_release('/a', true);
SELECT zk_lock_acquire('/b');
SELECT pg_temp.try('SELECT zk_semaphore_acquire($$/b$$, 3)');
SELECT zk_semaphore_release('/b');
SELECT * FROM my_locks;

-- the token, and a proof; but no fence
SELECT zk_lock_token('/a') = token AS token, zk_lock_verify('/a') = token AS verified
FROM zk_locks WHERE path = '/a';
SELECT pg_temp.try('SELECT zk_lock_fence($$/a$$)');
CREATE TEMP TABLE fenced (n integer);
CREATE TRIGGER fence BEFORE INSERT ON fenced
	EXECUTE FUNCTION zk_lock_fence_trigger('/a');
SELECT pg_temp.try('INSERT INTO fenced VALUES (1)');

-- its own contender is not broken
SELECT left(pg_temp.try(format('SELECT zk_lock_break(%L, %L)', path, contender)), 20)
FROM zk_locks WHERE path = '/a';

-- released with all locks, and by DISCARD ALL (S78)
SELECT zk_lock_release_all();
SELECT * FROM my_locks;
SELECT zk_semaphore_acquire('/a', 2);
DISCARD ALL;
SET zklock.root = '/zklock_regress_semaphore';
SELECT count(*) FROM zk_locks;

-- a session that is closed
SELECT zk_semaphore_acquire('/a', 2);
BEGIN;
SELECT zk_semaphore_acquire_xact('/b', 2);
SELECT zk_session_close();
\set VERBOSITY terse
COMMIT;
\set VERBOSITY default
\echo :LAST_ERROR_SQLSTATE
SELECT count(*) FROM zk_locks;

-- all roles may use them
CREATE ROLE regress_zklock_user;
SET ROLE regress_zklock_user;
SELECT zk_semaphore_acquire('/a', 2), zk_semaphore_acquire_xact('/a', 2),
	zk_semaphore_release('/a');
RESET ROLE;
DROP ROLE regress_zklock_user;
