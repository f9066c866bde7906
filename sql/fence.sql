--
-- FENCING
--
-- S-numbers name the scenario that a test covers.

SET zklock.root = '/zklock_regress';

-- the outcome of a statement: its result, or SQLSTATE, message and detail;
-- tokens and times differ each time
CREATE FUNCTION pg_temp.try(statement text) RETURNS text
LANGUAGE plpgsql AS
$$
DECLARE
	detail text;
BEGIN
	EXECUTE statement;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	detail := regexp_replace(detail, 'since [^;]+;', 'since <time>;');
	RETURN SQLSTATE || ': ' || SQLERRM || ' ('
		|| regexp_replace(detail, '[0-9]+', '<token>', 'g') || ')';
END;
$$;

-- the table: who may do what, and what pg_dump is told
SELECT relkind, relpersistence, obj_description(c.oid, 'pg_class') IS NOT NULL AS described,
	has_table_privilege('public', c.oid, 'SELECT') AS read,
	has_table_privilege('public', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER, REFERENCES') AS write,
	c.oid = ANY (extconfig) AS dumped, extcondition
FROM pg_class c, pg_extension
WHERE relname = 'zk_lock_fences' AND extname = 'zklock';
SELECT attname, format_type(atttypid, atttypmod), attnotnull, collname,
	col_description(attrelid, attnum) IS NOT NULL AS described
FROM pg_attribute LEFT JOIN pg_collation c ON c.oid = attcollation
WHERE attrelid = 'zk_lock_fences'::regclass AND attnum > 0
ORDER BY attnum;

-- what is not held, or not exclusive, is not fenced
SELECT pg_temp.try('SELECT zk_lock_fence($$/1$$)');
SELECT pg_temp.try('SELECT zk_lock_fence($$1$$)');
SELECT pg_temp.try('SELECT zk_lock_fence(NULL)');
SELECT pg_temp.try('SELECT zk_lock_fence_reset($$1$$)');
SELECT pg_temp.try('SELECT zk_lock_fence_reset(NULL)');
SELECT zk_lock_acquire('/1', shared => true);
SELECT pg_temp.try('SELECT zk_lock_fence($$/1$$)');
SELECT zk_lock_release('/1');
SELECT count(*) FROM zk_lock_fences;

-- the token is returned, and in the table
SELECT zk_lock_acquire('/1');
SELECT zk_lock_token('/1') AS token \gset
SELECT zk_lock_fence('/1') = :token AS token;
SELECT path, token = :token AS token, since <= clock_timestamp() AS since
FROM zk_lock_fences;

-- shared besides exclusive does no harm; the next transaction writes the row,
-- but it has the token since then
SELECT ctid AS version, since FROM zk_lock_fences \gset
SELECT zk_lock_acquire('/1', shared => true);
SELECT zk_lock_fence('/1') = :token AS token;
SELECT path, token = :token AS token, since = :'since' AS since,
	ctid <> :'version' AS written
FROM zk_lock_fences;

-- a downgraded lock is shared
SELECT zk_lock_release('/1', false);
SELECT pg_temp.try('SELECT zk_lock_fence($$/1$$)');
SELECT zk_lock_release_all();

-- the next holder's token replaces it
SELECT zk_lock_acquire('/1');
SELECT zk_lock_fence('/1') > :token AS token;
SELECT path, token > :token AS token, since > :'since' AS since
FROM zk_lock_fences;

-- unless a higher one is there
UPDATE zk_lock_fences SET token = token + 1;
SELECT pg_temp.try('SELECT zk_lock_fence($$/1$$)');
SELECT token = zk_lock_token('/1') + 1 AS token FROM zk_lock_fences;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT pg_temp.try('SELECT zk_lock_fence($$/1$$)');
COMMIT;
BEGIN;
\set VERBOSITY terse
SELECT zk_lock_fence('/1');
\set VERBOSITY default
\echo :LAST_ERROR_SQLSTATE
COMMIT;

-- which is removed when the ensemble was rebuilt (S12)
SELECT zk_lock_fence_reset('/1'), zk_lock_fence_reset('/1');
SELECT pg_temp.try('SELECT zk_lock_fence($$/1$$)');
SELECT path, token = zk_lock_token('/1') AS token FROM zk_lock_fences;

-- in the same transaction, too, and when that is taken back
BEGIN;
SELECT zk_lock_fence('/1') > 0 AS token;
SELECT zk_lock_fence_reset('/1');
SELECT zk_lock_fence('/1') > 0 AS token;
SAVEPOINT a;
SELECT zk_lock_fence_reset('/1');
ROLLBACK TO a;
SELECT zk_lock_fence('/1') > 0 AS token;
COMMIT;
SELECT path, token = zk_lock_token('/1') AS token FROM zk_lock_fences;
SELECT zk_lock_fence_reset('/1');

-- a transaction writes the row once; what is rolled back counts for nothing
CREATE TEMP VIEW fence AS
SELECT ctid AS version, token FROM zk_lock_fences WHERE path = '/1';
BEGIN;
SAVEPOINT a;
SELECT zk_lock_fence('/1') > 0 AS token;
ROLLBACK TO a;
SELECT count(*) FROM fence;
SELECT zk_lock_fence('/1') > 0 AS token;
SELECT version FROM fence \gset
SELECT zk_lock_fence('/1') > 0 AS token;
SAVEPOINT b;
SELECT zk_lock_fence('/1') > 0 AS token;
SELECT version = :'version' AS same FROM fence;
ROLLBACK TO b;
SELECT zk_lock_fence('/1') > 0 AS token;
SELECT version = :'version' AS same FROM fence;
ROLLBACK;
SELECT count(*) FROM fence;

-- what a subtransaction that has committed wrote is its parent's
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SAVEPOINT c;
SELECT zk_lock_fence('/1') > 0 AS token;
SELECT version FROM fence \gset
RELEASE c;
SELECT zk_lock_fence('/1') > 0 AS token;
SELECT version = :'version' AS same FROM fence;
SAVEPOINT d;
ROLLBACK TO d;
SELECT zk_lock_fence('/1') > 0 AS token;
SELECT version = :'version' AS same FROM fence;
RELEASE b;
SELECT zk_lock_fence('/1') > 0 AS token;
SELECT version = :'version' AS same FROM fence;
ROLLBACK TO a;
SELECT count(*) FROM fence;
SAVEPOINT b;
SELECT zk_lock_fence('/1') > 0 AS token;
RELEASE a;
SELECT version FROM fence \gset
SELECT zk_lock_fence('/1') > 0 AS token;
SELECT version = :'version' AS same FROM fence;
COMMIT;
SELECT count(*) FROM fence;
BEGIN;
SELECT zk_lock_fence('/1') > 0 AS token;
SELECT version = :'version' AS same FROM fence;
COMMIT;

-- a lock that is acquired again in the transaction has to pass as well
BEGIN;
SELECT zk_lock_fence('/1') AS token \gset
SELECT zk_lock_release('/1');
SELECT pg_temp.try('SELECT zk_lock_fence($$/1$$)');
SELECT zk_lock_acquire_xact('/1');
SELECT token = :token AS same FROM fence;
SELECT zk_lock_fence('/1') > :token AS token;
SELECT token > :token AS next FROM fence;
COMMIT;

-- also when it was held in shared mode in between
SELECT zk_lock_acquire('/1', shared => true);
BEGIN;
SELECT zk_lock_acquire('/1');
SELECT zk_lock_fence('/1') AS token \gset
SELECT zk_lock_release('/1');
SELECT zk_lock_acquire('/1');
SELECT zk_lock_fence('/1') > :token AS token;
SELECT token > :token AS next FROM fence;
COMMIT;
SELECT zk_lock_release_all();

-- not in a transaction that is read-only
BEGIN READ ONLY;
SELECT zk_lock_acquire_xact('/1');
SELECT pg_temp.try('SELECT zk_lock_fence($$/1$$)');
SELECT pg_temp.try('SELECT zk_lock_fence_reset($$/1$$)');
COMMIT;

-- names that need care, and locks that are not each other's
SELECT zk_lock_acquire('/a b/"c"/{d}/e%s%n''$1'), zk_lock_acquire('/a');
SELECT zk_lock_fence('/a b/"c"/{d}/e%s%n''$1') < zk_lock_fence('/a');
SELECT path, token = zk_lock_token(path) AS token FROM zk_lock_fences
WHERE path <> '/1' ORDER BY path;
SELECT zk_lock_release_all();
SELECT path, zk_lock_fence_reset(path) FROM zk_lock_fences ORDER BY path;

--
-- The trigger
--
CREATE TABLE zk_regress_guarded (n integer PRIMARY KEY, twice integer);
CREATE TRIGGER fence
BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON zk_regress_guarded
FOR EACH STATEMENT EXECUTE FUNCTION zk_lock_fence_trigger('/1');

-- each kind of write, as it comes out
CREATE FUNCTION pg_temp.try_writes() RETURNS TABLE (kind text, outcome text)
LANGUAGE sql AS
$$
	SELECT kind, pg_temp.try(statement)
	FROM (VALUES
		(1, 'insert', 'INSERT INTO zk_regress_guarded VALUES (1)'),
		(2, 'update', 'UPDATE zk_regress_guarded SET twice = 2 * n'),
		(3, 'update of nothing', 'UPDATE zk_regress_guarded SET n = 0 WHERE false'),
		(4, 'upsert', 'INSERT INTO zk_regress_guarded VALUES (1) ON CONFLICT (n) DO UPDATE SET twice = 3'),
		(5, 'merge',
		 CASE WHEN current_setting('server_version_num')::integer >= 150000
		 THEN 'MERGE INTO zk_regress_guarded USING (VALUES (1), (2)) AS v(m) ON n = m
			WHEN MATCHED THEN UPDATE SET twice = 4
			WHEN NOT MATCHED THEN INSERT VALUES (m)'
		 ELSE 'INSERT INTO zk_regress_guarded VALUES (2)' END),
		(6, 'with', 'WITH gone AS (DELETE FROM zk_regress_guarded RETURNING n) SELECT n FROM gone'),
		(7, 'copy', 'COPY zk_regress_guarded FROM PROGRAM ''echo 3,6'' (FORMAT csv)'),
		(8, 'delete', 'DELETE FROM zk_regress_guarded'),
		(9, 'truncate', 'TRUNCATE zk_regress_guarded'))
		AS writes(i, kind, statement)
	ORDER BY i
$$;

-- without the lock, with a shared one, with the right one; reading is free
SELECT * FROM pg_temp.try_writes();
SELECT zk_lock_acquire('/1', shared => true);
SELECT * FROM pg_temp.try_writes() LIMIT 1;
SELECT zk_lock_release('/1');
SELECT count(*) FROM zk_regress_guarded;
SELECT count(*) FROM zk_lock_fences;
BEGIN;
SELECT zk_lock_acquire_xact('/1');
SELECT * FROM pg_temp.try_writes();
SELECT path, token = zk_lock_token('/1') AS token FROM zk_lock_fences;
COMMIT;
INSERT INTO zk_regress_guarded VALUES (1);
\echo :LAST_ERROR_SQLSTATE
SELECT zk_lock_acquire('/1');
COPY zk_regress_guarded FROM stdin;
10	20
11	22
\.
SELECT * FROM zk_regress_guarded;

-- fenced once in a transaction, by whichever comes first
BEGIN;
INSERT INTO zk_regress_guarded VALUES (12);
SELECT version FROM fence \gset
UPDATE zk_regress_guarded SET twice = 2 * n;
SELECT zk_lock_fence('/1') > 0 AS token;
SELECT version = :'version' AS same FROM fence;
SAVEPOINT a;
DELETE FROM zk_regress_guarded;
ROLLBACK TO a;
SELECT version = :'version' AS same FROM fence;
ROLLBACK;
BEGIN;
SAVEPOINT a;
INSERT INTO zk_regress_guarded VALUES (12);
ROLLBACK TO a;
SELECT version FROM fence \gset
INSERT INTO zk_regress_guarded VALUES (12);
SELECT version = :'version' AS same FROM fence;
COMMIT;

-- a higher token stops every write
UPDATE zk_lock_fences SET token = token + 1;
SELECT * FROM pg_temp.try_writes();
SELECT zk_lock_fence_reset('/1');
SELECT * FROM zk_regress_guarded;

-- restores and replication do not fire it, superusers do
SELECT zk_lock_release_all();
SET session_replication_role = replica;
INSERT INTO zk_regress_guarded VALUES (13);
SET session_replication_role = local;
SELECT pg_temp.try('INSERT INTO zk_regress_guarded VALUES (14)');
RESET session_replication_role;
SELECT count(*) FROM fence;

-- a cascade is a write; so is one to a partition by way of the table with the
-- trigger, but not one to the partition itself
CREATE TABLE zk_regress_parent (n integer PRIMARY KEY);
INSERT INTO zk_regress_parent VALUES (10), (11);
DELETE FROM zk_regress_parent;
SET session_replication_role = replica;
DELETE FROM zk_regress_guarded WHERE n > 11;
RESET session_replication_role;
INSERT INTO zk_regress_parent VALUES (10), (11);
ALTER TABLE zk_regress_guarded
ADD FOREIGN KEY (n) REFERENCES zk_regress_parent ON DELETE CASCADE;
SELECT pg_temp.try('DELETE FROM zk_regress_parent WHERE n = 10');
BEGIN;
SELECT zk_lock_acquire_xact('/1');
DELETE FROM zk_regress_parent WHERE n = 10;
COMMIT;
SELECT * FROM zk_regress_guarded;
DROP TABLE zk_regress_guarded, zk_regress_parent;

CREATE TABLE zk_regress_guarded (n integer) PARTITION BY LIST (n);
CREATE TABLE zk_regress_guarded_1 PARTITION OF zk_regress_guarded FOR VALUES IN (1);
CREATE TRIGGER fence
BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON zk_regress_guarded
FOR EACH STATEMENT EXECUTE FUNCTION zk_lock_fence_trigger('/1');
SELECT pg_temp.try('INSERT INTO zk_regress_guarded VALUES (1)');
SELECT pg_temp.try('TRUNCATE zk_regress_guarded');
SELECT pg_temp.try('INSERT INTO zk_regress_guarded_1 VALUES (1)');
BEGIN;
SELECT zk_lock_acquire_xact('/1');
INSERT INTO zk_regress_guarded VALUES (1);
COMMIT;
DROP TABLE zk_regress_guarded;

-- nor is one to the table, if only the partition has the trigger; but to truncate it is
CREATE TABLE zk_regress_guarded (n integer) PARTITION BY LIST (n);
CREATE TABLE zk_regress_guarded_1 PARTITION OF zk_regress_guarded FOR VALUES IN (1);
CREATE TRIGGER fence
BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON zk_regress_guarded_1
FOR EACH STATEMENT EXECUTE FUNCTION zk_lock_fence_trigger('/1');
SELECT pg_temp.try('INSERT INTO zk_regress_guarded_1 VALUES (1)');
SELECT pg_temp.try('INSERT INTO zk_regress_guarded VALUES (1)');
SELECT pg_temp.try('UPDATE zk_regress_guarded SET n = 1');
SELECT pg_temp.try('DELETE FROM zk_regress_guarded');
SELECT pg_temp.try('TRUNCATE zk_regress_guarded');
DROP TABLE zk_regress_guarded;

-- a temporary table, which a read-only transaction may write to, but not fence
CREATE TEMP TABLE guarded (n integer);
CREATE TRIGGER fence
BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON guarded
FOR EACH STATEMENT EXECUTE FUNCTION zk_lock_fence_trigger('/1');
SELECT pg_temp.try('INSERT INTO guarded VALUES (1)');
SELECT zk_lock_acquire('/1');
INSERT INTO guarded VALUES (1);
BEGIN READ ONLY;
SELECT pg_temp.try('INSERT INTO guarded VALUES (2)');
COMMIT;
SELECT * FROM guarded;

-- a session that was closed takes the lock with it
SELECT zk_session_close();
SELECT pg_temp.try('INSERT INTO guarded VALUES (3)');

-- wrong use
SELECT pg_temp.try('SELECT zk_lock_fence_trigger()');
CREATE FUNCTION pg_temp.try_trigger(trigger text) RETURNS text LANGUAGE plpgsql AS
$$
BEGIN
	DROP TRIGGER fence ON guarded;
	EXECUTE 'CREATE TRIGGER fence ' || trigger;
	RETURN pg_temp.try('INSERT INTO guarded VALUES (4)');
END;
$$;
SELECT trigger, pg_temp.try_trigger(trigger)
FROM (VALUES
	('AFTER INSERT ON guarded EXECUTE FUNCTION zk_lock_fence_trigger(''/1'')'),
	('BEFORE INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION zk_lock_fence_trigger(''/1'')'),
	('AFTER INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION zk_lock_fence_trigger(''/1'')'),
	('BEFORE INSERT ON guarded EXECUTE FUNCTION zk_lock_fence_trigger()'),
	('BEFORE INSERT ON guarded EXECUTE FUNCTION zk_lock_fence_trigger(''/1'', ''/2'')'),
	('BEFORE INSERT ON guarded EXECUTE FUNCTION zk_lock_fence_trigger(''1'')'),
	('BEFORE INSERT ON guarded EXECUTE FUNCTION zk_lock_fence_trigger('''')'))
	AS triggers(trigger);
SELECT * FROM guarded;
DROP TABLE guarded;

--
-- Rights, schemas
--

-- all roles may fence, and read the table; none may write to it
CREATE ROLE regress_zklock_user;
CREATE TABLE zk_regress_guarded (n integer);
CREATE TRIGGER fence
BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON zk_regress_guarded
FOR EACH STATEMENT EXECUTE FUNCTION zk_lock_fence_trigger('/1');
GRANT INSERT ON zk_regress_guarded TO regress_zklock_user;
SET ROLE regress_zklock_user;
SELECT zk_lock_acquire('/1'), zk_lock_acquire('/2');
SELECT zk_lock_fence('/2') = zk_lock_token('/2') AS token;
INSERT INTO zk_regress_guarded VALUES (1);
SELECT current_user;
SELECT path, token = zk_lock_token(path) AS token FROM zk_lock_fences ORDER BY path;
SELECT pg_temp.try(statement)
FROM (VALUES
	('INSERT INTO zk_lock_fences VALUES ($$/3$$, 0, now())'),
	('UPDATE zk_lock_fences SET token = 0'),
	('DELETE FROM zk_lock_fences'),
	('TRUNCATE zk_lock_fences'),
	('SELECT zk_lock_fence_reset($$/1$$)'),
	('DELETE FROM zk_regress_guarded')) AS statements(statement);
RESET ROLE;

-- names that come first in the caller's search_path are not ours
CREATE SCHEMA zk_regress_other AUTHORIZATION regress_zklock_user;
\c -
SET zklock.root = '/zklock_regress';
SET ROLE regress_zklock_user;
CREATE FUNCTION zk_regress_other.yes(bigint, bigint) RETURNS boolean
LANGUAGE plpgsql AS $$ BEGIN RAISE 'called as %', current_user; END $$;
CREATE OPERATOR zk_regress_other.<= (FUNCTION = zk_regress_other.yes, LEFTARG = bigint, RIGHTARG = bigint);
CREATE OPERATOR zk_regress_other.= (FUNCTION = zk_regress_other.yes, LEFTARG = bigint, RIGHTARG = bigint);
CREATE TABLE zk_regress_other.zk_lock_fences (path text PRIMARY KEY, token bigint, since timestamptz);
SET search_path = zk_regress_other, pg_catalog, public;
SELECT zk_lock_acquire('/1');
SELECT zk_lock_fence('/1') AS token \gset
INSERT INTO public.zk_regress_guarded VALUES (2);
SELECT count(*) FROM zk_lock_fences;
SELECT token OPERATOR(pg_catalog.=) :token AS token
FROM public.zk_lock_fences WHERE path = '/1';
DROP TABLE zk_lock_fences;
RESET search_path;
RESET ROLE;

-- the table is found wherever the extension is moved to, and whatever it leaves
-- behind
ALTER EXTENSION zklock SET SCHEMA zk_regress_other;
CREATE TABLE zk_lock_fences (LIKE zk_regress_other.zk_lock_fences INCLUDING ALL);
SELECT zk_regress_other.zk_lock_fence('/1') > 0 AS token;
INSERT INTO zk_regress_guarded VALUES (3);
ALTER SCHEMA zk_regress_other RENAME TO "zk_regress Other";
SELECT "zk_regress Other".zk_lock_fence('/1') > 0 AS token;
SELECT "zk_regress Other".zk_lock_fence_reset('/1');
INSERT INTO zk_regress_guarded VALUES (4);
SELECT path FROM "zk_regress Other".zk_lock_fences ORDER BY path;
SELECT count(*) FROM zk_lock_fences;
DROP TABLE zk_lock_fences;
ALTER EXTENSION zklock SET SCHEMA public;
SELECT zk_lock_fence('/1') > 0 AS token;

-- another name is another table, even for the extension's owner
ALTER TABLE zk_lock_fences RENAME TO my_fences;
SELECT zk_lock_fence('/1');
\echo :LAST_ERROR_SQLSTATE
ALTER TABLE my_fences RENAME TO zk_lock_fences;

-- it is the function that was called that tells the schema
CREATE FUNCTION "zk_regress Other".zk_lock_fence(path text) RETURNS bigint
AS '$libdir/zklock' LANGUAGE C;
CREATE TABLE "zk_regress Other".zk_lock_fences (LIKE zk_lock_fences INCLUDING ALL);
SELECT zk_lock_fence_reset('/1');
SELECT "zk_regress Other".zk_lock_fence('/1') > 0 AS token;
SELECT count(*) FROM zk_lock_fences WHERE path = '/1';
SELECT path FROM "zk_regress Other".zk_lock_fences;
SELECT zk_lock_fence('/1') > 0 AS token;
SELECT count(*) FROM zk_lock_fences WHERE path = '/1';

-- the extension can be created again
SELECT zk_lock_release_all();
DROP TABLE zk_regress_guarded;
DROP EXTENSION zklock;
CREATE EXTENSION zklock;
SELECT zk_lock_acquire('/1');
SELECT zk_lock_fence('/1') > 0 AS token;
SELECT path FROM zk_lock_fences;
SELECT zk_lock_release_all();
SELECT zk_lock_fence_reset('/1');
DROP SCHEMA "zk_regress Other" CASCADE;
DROP ROLE regress_zklock_user;
