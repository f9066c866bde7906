--
-- RIGHTS: WHICH PATHS, HOW MANY LOCKS, IN WHICH SCOPE
--
-- S-numbers name the scenario that a test covers.

LOAD 'zklock';
SET zklock.root = '/zklock_regress';
CREATE ROLE regress_zklock_tenant;

-- lists that cannot be read are refused (S389)
SET zklock.paths = 'app';
SET zklock.paths = '/app/';
SET zklock.paths = '/app*';
SET zklock.paths = '/*/app';
SET zklock.paths = '/app, , /b';
SET zklock.paths = '/app', '/app/_c_00000000-0000-0000-0000-000000000000-lock-0000000001';
\echo :LAST_ERROR_SQLSTATE
ALTER ROLE regress_zklock_tenant SET zklock.paths = 'app';
SHOW zklock.paths;

-- only the listed paths, and those below others, in each function (S388)
GRANT EXECUTE ON FUNCTION zk_lock_queue(text), zk_lock_tree(text),
	zk_lock_revoke(text, text), zk_lock_break(text, text),
	zk_job_begin(text, timestamptz, interval, interval),
	zk_job_begin_xact(text, timestamptz, interval, interval),
	zk_job_reset(text, timestamptz), zk_job_status(text)
TO regress_zklock_tenant;
SET zklock.paths = '/app/*', '/one';
SHOW zklock.paths;
SET ROLE regress_zklock_tenant;
SET zklock.paths = '';
SELECT zk_lock_acquire('/app/a'), zk_lock_acquire('/app/a/b'), zk_lock_acquire('/one');
SELECT zk_lock_acquire('/app');
\echo :LAST_ERROR_SQLSTATE
SELECT zk_lock_acquire('/apps/a');
SELECT zk_lock_acquire('/one/a');
SELECT zk_lock_acquire(ARRAY['/app/c', '/other']);
SELECT zk_lock_acquire_xact('/other');
SELECT zk_lock_acquire_xact(ARRAY['/other']);
CALL zk_lock_wait('/other');
CALL zk_lock_wait(ARRAY['/other']);
SELECT zk_semaphore_acquire('/other', 2);
SELECT zk_semaphore_acquire_xact('/other', 2);
SELECT zk_job_begin('/other', '2026-01-01 UTC');
SELECT zk_job_begin_xact('/other', '2026-01-01 UTC');
SELECT zk_job_reset('/other', '2026-01-01 UTC');
SELECT zk_job_status('/other');
SELECT * FROM zk_lock_queue('/other');
SELECT zk_lock_revoke('/other', 'lock-0000000001');
SELECT zk_lock_break('/other', 'lock-0000000001');
SELECT * FROM zk_lock_tree();
SELECT * FROM zk_lock_tree('/one');
SELECT path, holders FROM zk_lock_tree('/app') ORDER BY path COLLATE "C";
SELECT count(*) FROM zk_lock_queue('/one');
SELECT path, session_count FROM zk_locks ORDER BY path COLLATE "C";

-- what is held can be verified and released whatever the list says now (S388)
RESET ROLE;
SET zklock.paths = '/nothing';
SET ROLE regress_zklock_tenant;
SELECT zk_lock_verify('/one') = zk_lock_token('/one');
SELECT zk_lock_acquire('/one');
SELECT zk_lock_release('/one'), zk_lock_release('/app/a');
SELECT zk_lock_release_all();
RESET ROLE;

-- everything, and names with special characters (S388)
SET zklock.paths = '/*';
SELECT zk_lock_acquire_xact('/other');
SELECT count(*) FROM zk_lock_tree();
SET zklock.paths = '"/a, b/*"';
SELECT zk_lock_acquire_xact('/a, b/c');
SELECT zk_lock_acquire_xact('/a');
RESET zklock.paths;

-- how many (S390)
SET zklock.max_locks = 2;
SELECT zk_lock_acquire('/1'), zk_semaphore_acquire('/2', 2), zk_lock_acquire('/1');
SELECT zk_lock_acquire('/3');
\echo :LAST_ERROR_SQLSTATE
SELECT zk_lock_acquire(ARRAY['/1', '/3', '/4']);
SELECT zk_lock_acquire_xact('/1', shared => true), zk_semaphore_acquire_xact('/2', 2);
SELECT zk_semaphore_release('/2');
SELECT zk_lock_acquire('/3');
SELECT zk_lock_release_all();
SET zklock.max_locks = 0;
SELECT zk_lock_acquire_xact('/1');
SET ROLE regress_zklock_tenant;
SET zklock.max_locks = -1;
RESET ROLE;
RESET zklock.max_locks;

-- no session-level locks (S391)
SET zklock.session_scope = off;
SELECT zk_lock_acquire('/1');
\echo :LAST_ERROR_SQLSTATE
SELECT zk_lock_acquire(ARRAY['/1', '/2']);
CALL zk_lock_wait('/1');
SELECT zk_semaphore_acquire('/1', 2);
SELECT zk_job_begin('/1', '2026-01-01 UTC');
SELECT zk_lock_acquire_xact('/1'), zk_semaphore_acquire_xact('/2', 2);
SET zklock.session_scope = warn;
SELECT zk_lock_acquire('/1');
SET zklock.session_scope = off;
SELECT zk_lock_verify('/1') = zk_lock_token('/1'), zk_lock_release('/1');
RESET zklock.session_scope;
SELECT zk_lock_acquire('/1'), zk_lock_release('/1');

REVOKE ALL ON FUNCTION zk_lock_queue(text), zk_lock_tree(text),
	zk_lock_revoke(text, text), zk_lock_break(text, text),
	zk_job_begin(text, timestamptz, interval, interval),
	zk_job_begin_xact(text, timestamptz, interval, interval),
	zk_job_reset(text, timestamptz), zk_job_status(text)
FROM regress_zklock_tenant;
DROP ROLE regress_zklock_tenant;
SELECT zk_session_close();
