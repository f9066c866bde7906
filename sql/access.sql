--
-- ACCESS: WHO IS WHO TO ZOOKEEPER, AND WHO MAY WHAT HERE
--
-- S-numbers name the scenario that a test covers.

-- before the library is loaded PostgreSQL knows nothing of these settings
LOAD 'zklock';
SET zklock.root = '/zklock_regress';

-- a value that is no credential is refused, and not quoted (S113)
SET zklock.auth = 'sesame';
\echo :LAST_ERROR_SQLSTATE
SET zklock.auth = ':sesame';
SET zklock.auth = 'app:';
SET zklock.auth = E'app:se\tsame';
SELECT set_config('zklock.auth', 'sesame', false);
DO $$ BEGIN EXECUTE 'SET zklock.auth = ''sesame'''; END $$;

-- nor can one be set where it could be read (S113)
ALTER SYSTEM SET zklock.auth = 'app:sesame';
\echo :LAST_ERROR_SQLSTATE
ALTER DATABASE :"DBNAME" SET zklock.auth = 'app:sesame';
CREATE ROLE regress_zklock_user;
ALTER ROLE regress_zklock_user SET zklock.auth = 'app:sesame';
ALTER ROLE ALL SET zklock.auth = 'app:sesame';
CREATE FUNCTION regress_zklock_function() RETURNS integer LANGUAGE sql
SET zklock.auth = 'app:sesame' AS 'SELECT 1';
\echo :LAST_ERROR_SQLSTATE
SELECT count(*) FROM pg_db_role_setting WHERE setconfig::text ~ 'sesame';

-- one that is set is not shown to any role, the superuser included (S113)
SET zklock.auth = 'app:sesame';
SHOW zklock.auth;
SELECT current_setting('zklock.auth');
SELECT count(*) FROM pg_settings s WHERE s::text ~ 'sesame';
SELECT count(*) FROM pg_show_all_settings() s WHERE s::text ~ 'sesame';
CREATE FUNCTION regress_zklock_function() RETURNS integer LANGUAGE sql
SET zklock.auth FROM CURRENT AS 'SELECT 1';
SET ROLE regress_zklock_user;
\set VERBOSITY sqlstate
SHOW zklock.auth;
SELECT current_setting('zklock.auth', true);
SHOW zklock.auth_file;
SHOW zklock.acl;
\set VERBOSITY default
SELECT count(*) FROM pg_settings WHERE name ~ '^zklock\.(a|acl)';
SET zklock.auth = 'app:other';
SET zklock.auth_file = 'zklock.auth';
SET zklock.acl = 'open';
RESET ROLE;

-- but it can be taken back
RESET zklock.auth;
SHOW zklock.auth;
BEGIN;
SET LOCAL zklock.auth = 'app:sesame';
SHOW zklock.auth;
COMMIT;
SHOW zklock.auth;

-- a parallel worker gets by with it
SET zklock.auth = 'app:sesame';
CREATE TABLE zk_regress_rows AS SELECT generate_series(1, 10) AS n;
BEGIN;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL parallel_leader_participation = off;
SELECT count(*) FROM zk_regress_rows;
COMMIT;
DROP TABLE zk_regress_rows;
RESET zklock.auth;

-- ACLs are checked before they are used, and not quoted (S115)
SET zklock.acl = '';
\echo :LAST_ERROR_SQLSTATE
SET zklock.acl = 'closed';
SET zklock.acl = 'open, digest:admin:0DPiKuNIrrVmD8IUCuw1hQxNqZc=';
SET zklock.acl = 'creator,';
SET zklock.acl = 'creator, admin';
SET zklock.acl = 'creator, world:anyone';
SET zklock.acl = 'creator, digest:admin:sesame';
SET zklock.acl = 'creator, digest::0DPiKuNIrrVmD8IUCuw1hQxNqZc=';
SET zklock.acl = 'creator, digest:admin:0DPiKuNIrrVmD8IUCuw1hQxNqZc=, digest:admin:0DPiKuNIrrVmD8IUCuw1hQxNqZ=c';
SET zklock.acl = 'creator, ip:';
SET zklock.acl = 'creator, ip:::1, ip:::1, ip:::1, ip:::1, ip:::1, ip:::1, ip:::1, ip:::1, ip:::1';
SET zklock.acl = ' Creator ,digest:admin:0DPiKuNIrrVmD8IUCuw1hQxNqZc=,sasl:admin ,ip:10.0.0.0/8';

-- an unauthenticated client cannot own znodes (S115)
SELECT zk_lock_acquire('/a');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM zk_lock_queue('/a');
RESET zklock.acl;

-- two credentials are one too many
SET zklock.auth = 'app:sesame';
SET zklock.auth_file = 'nosuchfile';
SELECT zk_lock_acquire('/a');
\echo :LAST_ERROR_SQLSTATE
RESET zklock.auth;

-- a file that is not there, and whose name is no user's business
\set VERBOSITY terse
SELECT zk_lock_acquire('/a');
\set VERBOSITY default
\echo :LAST_ERROR_SQLSTATE
SET ROLE regress_zklock_user;
SELECT zk_lock_acquire('/a');
RESET ROLE;
RESET zklock.auth_file;

-- none of this needed a connection, and the next call works
SELECT state, sessions FROM zk_session();
SELECT zk_lock_acquire('/a', '20 s');
SELECT zk_lock_release('/a');

-- PUBLIC may do what concerns a caller's own locks, and nothing that touches
-- others' (S118)
SELECT proname FROM pg_proc p
WHERE pronamespace = (SELECT extnamespace FROM pg_extension
	WHERE extname = 'zklock')
	AND EXISTS (SELECT FROM pg_depend WHERE deptype = 'e'
		AND classid = 'pg_proc'::regclass AND objid = p.oid)
	AND NOT has_function_privilege('public', p.oid, 'EXECUTE')
ORDER BY proname COLLATE "C";
SET ROLE regress_zklock_user;
SELECT zk_lock_acquire('/a');
SELECT zk_lock_release_all();
SELECT zk_lock_queue('/a');
\echo :LAST_ERROR_SQLSTATE
INSERT INTO zk_lock_fences VALUES ('/a', 1, now());
\echo :LAST_ERROR_SQLSTATE
RESET ROLE;
GRANT EXECUTE ON FUNCTION zk_lock_queue(text) TO regress_zklock_user;
SET ROLE regress_zklock_user;
SELECT count(*) FROM zk_lock_queue('/a');
RESET ROLE;
DROP OWNED BY regress_zklock_user;
DROP ROLE regress_zklock_user;

-- a lock path cannot leave the root, however it is written
DO $$
DECLARE
	path text;
BEGIN
	FOREACH path IN ARRAY ARRAY['/..', '/../a', '/a/../../b', '/a/..', '/.',
		'/a/./b', '//', '//a', '/a//b', 'a', '../a', '/', '', '/a/']
	LOOP
		BEGIN
			PERFORM zk_lock_acquire(path);
			RAISE 'lock path "%" was accepted', path;
		EXCEPTION WHEN invalid_parameter_value THEN
		END;
	END LOOP;
END;
$$;
