--
-- WHAT PSQL SHOWS OF THE EXTENSION
--
-- It is to be read in a window of 100 columns.

\pset format wrapped
\pset columns 100
\df zk_*
\df pg_stat_zk*

-- tables, views and types; no line is wider
\pset format aligned
\o | awk 'length > 100 { print "too wide: " $0 }'
\d zk_*
\d pg_stat_zk*
\o

-- nor is a line of a description, in the expanded form of \df+
SELECT objid::regprocedure AS function, line
FROM pg_depend
	CROSS JOIN regexp_split_to_table(obj_description(objid, 'pg_proc'), '\n') line
WHERE classid = 'pg_proc'::regclass AND deptype = 'e'
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'zklock')
	AND length('Argument data types | ' || line) > 100;

-- each type and each column is described, in the same words if it means the same
SELECT typname, obj_description(t.oid, 'pg_type') AS description
FROM pg_type t JOIN pg_depend ON classid = 'pg_type'::regclass AND objid = t.oid
	JOIN pg_class c ON c.oid = typrelid AND c.relkind = 'c'
WHERE deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'zklock')
ORDER BY typname COLLATE "C";
CREATE TEMP VIEW described AS
SELECT attrelid::regclass AS relation, attname, col_description(attrelid, attnum)
FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
WHERE relname ~ '^(zk|pg_stat_zk)' AND relkind IN ('c', 'r', 'v') AND attnum > 0;
SELECT relation, attname FROM described WHERE col_description IS NULL;
SELECT a.relation, b.relation, a.attname, a.col_description, b.col_description
FROM (VALUES ('zk_own_lock'::regclass, 'zk_locks'::regclass),
	('zk_waiter', 'zk_lock_waits'), ('zk_lock_stats', 'pg_stat_zklock')) same (a, b)
	JOIN described a ON a.relation = same.a
	JOIN described b ON b.relation = same.b AND b.attname = a.attname
WHERE a.col_description <> b.col_description;
