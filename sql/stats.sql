--
-- STATISTICS
--
-- Without preloading they are the backend's own.
\set VERBOSITY terse
CREATE VIEW pg_temp.counted AS
SELECT scope, attempts, granted_at_once AS at_once, granted_after_wait AS waited,
	timeouts, cancels, deadlocks, errors, lost,
	attempts - granted_at_once - granted_after_wait - timeouts - cancels -
	deadlocks - errors AS rest, sessions, reconnects, expiries, wait_time > 0 AS time,
	(SELECT sum(waits) FROM pg_stat_zklock_waits) AS waits
FROM pg_stat_zklock;
TABLE pg_temp.counted;
SELECT stats_reset <= now() AS reset FROM pg_stat_zklock;
-- the histogram
TABLE pg_stat_zklock_waits;
-- all grants are immediate: a new lock, a counted one, or several
SELECT zk_lock_acquire('/stats/a');
SELECT zk_lock_acquire('/stats/a', shared => true);
SELECT zk_lock_acquire(ARRAY['/stats/a', '/stats/b']);
BEGIN;
SELECT zk_lock_acquire_xact('/stats/a', '0');
ROLLBACK;
TABLE pg_temp.counted;
-- what is no call that could be made is not counted, nor is one for nothing
SELECT zk_lock_acquire('stats');
SELECT zk_lock_acquire('/stats/a', '-1');
SELECT zk_lock_acquire(NULL);
SELECT zk_lock_acquire('{}'::text[]);
SELECT attempts FROM pg_stat_zklock;
-- a call that fails is, whatever becomes of the error (S121)
SELECT zk_lock_release_all();
SELECT zk_session_close();
SET zklock.servers = '127.0.0.1:1';
SET zklock.connect_timeout = '10ms';
DO $$
BEGIN
	PERFORM zk_lock_acquire('/stats/a');
EXCEPTION WHEN sqlclient_unable_to_establish_sqlconnection THEN
	RAISE NOTICE 'caught %', SQLSTATE;
END;
$$;
SELECT zk_lock_acquire('/stats/a');
RESET zklock.servers;
RESET zklock.connect_timeout;
TABLE pg_temp.counted;
SELECT zk_lock_acquire('/stats/a');
TABLE pg_temp.counted;
-- reset
SELECT stats_reset AS before FROM pg_stat_zklock \gset
SELECT pg_stat_zklock_reset();
TABLE pg_temp.counted;
SELECT stats_reset > :'before' AS later FROM pg_stat_zklock;
SELECT zk_lock_release_all();
-- who waits cannot be seen
SELECT * FROM zk_lock_waits;
SELECT * FROM pg_stat_zklock_locks;
SELECT pg_stat_zklock_locks_reset();
\set VERBOSITY default
SELECT zk_blocking_pids(1);
-- an ordinary user may look, and not reset
CREATE ROLE regress_zklock_stats;
SET ROLE regress_zklock_stats;
SELECT attempts FROM pg_stat_zklock;
SELECT pg_stat_zklock_reset();
RESET ROLE;
DROP ROLE regress_zklock_stats;
