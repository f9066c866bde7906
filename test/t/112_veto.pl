# The veto of commits, wherever the point of no return is.  The rows are those of the
# table Y5 in src/backend/deed.c: everything that makes an effect durable, or visible
# outside of the transaction, and its guard.
#
# S202: a command that takes effect before its commit is judged before it begins.
# S203: once it has taken effect it is no longer refused; a WARNING reports a loss.
# S204: releases and reads are never refused.
# S205: what cannot be guarded happens, and the commit is refused.
# S207: the transaction after a doomed one commits, within a procedure, too.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkLoss;
use ZkPsql;
use ZkSyncWait;
use ZkTest;

my $ensemble = ZkEnsemble->new('main');
my $node = zk_cluster('main', $ensemble,
	allows_streaming => 1,
	settings => {
		'max_prepared_transactions' => 8,
		'wal_level' => 'logical',
		'fsync' => 'off'
	});
my $files = PostgreSQL::Test::Utils::tempdir;
mkdir "$files/$_" or die $! foreach 'one', 'two';
my $connection = $node->connstr('postgres') =~ s/'//gr;

create_lose($node);
$node->safe_psql(
	'postgres', qq(
	SELECT pg_create_logical_replication_slot('decoded', 'test_decoding');
	SELECT pg_replication_origin_create('origin'), pg_replication_origin_create('other');
	SELECT pg_replication_origin_advance('origin', '0/1');
	CREATE EXTENSION file_fdw;
	CREATE SERVER programs FOREIGN DATA WRAPPER file_fdw;
	CREATE FOREIGN TABLE program (line text) SERVER programs
		OPTIONS (program 'echo | tee $files/scanned');
	CREATE TABLE work (step text);
	CREATE TABLE indexed (n integer PRIMARY KEY);
	INSERT INTO indexed SELECT generate_series(1, 10);
	CLUSTER indexed USING indexed_pkey;
	CREATE INDEX other ON indexed (n);
	CREATE TABLE parts (n integer) PARTITION BY RANGE (n);
	CREATE INDEX ON parts (n);
	CREATE TABLE part PARTITION OF parts FOR VALUES FROM (1) TO (9);
	CREATE TABLE part2 PARTITION OF parts FOR VALUES FROM (11) TO (19);
	CREATE TABLE part3 PARTITION OF parts FOR VALUES FROM (21) TO (29);
	CREATE TABLE clustered (n integer PRIMARY KEY);
	INSERT INTO clustered SELECT generate_series(1, 10);
	CLUSTER clustered USING clustered_pkey;
	CREATE MATERIALIZED VIEW copy AS SELECT n FROM indexed;
	CREATE UNIQUE INDEX ON copy (n);
	SELECT lo_create(4711);
	CREATE SEQUENCE numbers;
	CREATE PROCEDURE two_steps() LANGUAGE plpgsql AS \$\$
	BEGIN
		INSERT INTO work VALUES ('procedure');
		COMMIT;
		INSERT INTO work VALUES ('procedure');
	END \$\$;
	CREATE PROCEDURE loses_between() LANGUAGE plpgsql AS \$\$
	BEGIN
		INSERT INTO work VALUES ('before');
		COMMIT;
		INSERT INTO work VALUES ('between');
		PERFORM lose('/proc');
		COMMIT;
		INSERT INTO work VALUES ('after');
	END \$\$;
	CREATE PROCEDURE goes_on() LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM lose('/rolled');
		PERFORM zk_lock_release('/rolled');
		ROLLBACK;
		INSERT INTO work VALUES ('goes on');
	END \$\$;
	CREATE TABLE losing (step text);
	CREATE FUNCTION loses() RETURNS trigger LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM lose('/copy');
		RETURN new;
	END \$\$;
	CREATE TRIGGER loses BEFORE INSERT ON losing FOR EACH ROW EXECUTE FUNCTION loses()));
$node->safe_psql('postgres', $_)
  foreach 'CREATE DATABASE victim', "CREATE TABLESPACE one LOCATION '$files/one'",
  "CREATE SUBSCRIPTION sub CONNECTION '$connection' PUBLICATION nothing"
  . " WITH (connect = false, slot_name = 'sub')",
  map { "BEGIN; INSERT INTO work VALUES ('$_'); PREPARE TRANSACTION '$_'" } 'p1' .. 'p4';

my $eye = ZkPsql->new($node);
my $holder = ZkPsql->new($node);

sub count_of
{
	my ($step) = @_;
	return $eye->ask("SELECT count(*) FROM work WHERE step = '$step'", 'quiet');
}

# ---- With a lost lock: nothing of these happens.  Each: the row, the statement, and a
# query that shows the state of things, which must not change.

my $files_of = q(SELECT string_agg(relname || relfilenode, ' ' ORDER BY relname)
	FROM pg_class WHERE relname ~ '^(indexed|other|part)');
my $settings = q(SELECT pg_read_file('postgresql.auto.conf'));
my $slots = q(SELECT count(*) FROM pg_replication_slots);
my $folders = q(SELECT string_agg(f, ' ' ORDER BY f) FROM pg_ls_dir('base') f);
my $work = q(SELECT count(*) FROM work);
my $progress = q(SELECT remote_lsn FROM pg_replication_origin_status WHERE external_id = '%s');

# What the WAL has of messages, as one sees who decodes it.  A commit has it flushed.
my $messages = q(DO 'BEGIN PERFORM txid_current(); END';
	SELECT count(*) FROM pg_logical_slot_peek_changes('decoded', NULL, NULL)
		WHERE data ~ 'prefix: zklock');
my $with_origin = q(BEGIN; SELECT pg_replication_origin_xact_setup('0/77', now());
	INSERT INTO work VALUES ('origin'); COMMIT);
my @refused = (
	[ 'COMMIT PREPARED', "COMMIT PREPARED 'p1'", 'SELECT count(*) FROM pg_prepared_xacts' ],
	[ 'CREATE DATABASE', 'CREATE DATABASE another', $folders ],
	[ 'DROP DATABASE', 'DROP DATABASE victim', q(SELECT datconnlimit FROM pg_database
		WHERE datname = 'victim') ],
	[ 'ALTER DATABASE SET TABLESPACE', 'ALTER DATABASE victim SET TABLESPACE one', $folders ],
	[ 'CREATE TABLESPACE', "CREATE TABLESPACE two LOCATION '$files/two'",
		"SELECT count(*) FROM pg_ls_dir('$files/two')" ],
	[ 'DROP TABLESPACE', 'DROP TABLESPACE one', "SELECT count(*) FROM pg_ls_dir('$files/one')" ],
	[ 'ALTER SYSTEM', "ALTER SYSTEM SET work_mem = '5MB'", $settings ],
	[ 'CREATE SUBSCRIPTION', "CREATE SUBSCRIPTION another CONNECTION '$connection'"
		. ' PUBLICATION nothing', $slots ],
	[ 'ALTER SUBSCRIPTION', 'ALTER SUBSCRIPTION sub REFRESH PUBLICATION', $slots ],
	[ 'ALTER SUBSCRIPTION, here only', 'ALTER SUBSCRIPTION sub SET (binary = true)',
		'SELECT subbinary FROM pg_subscription' ],
	[ 'ALTER SUBSCRIPTION SET PUBLICATION', 'ALTER SUBSCRIPTION sub SET PUBLICATION other',
		'SELECT subpublications FROM pg_subscription' ],
	[ 'ALTER SUBSCRIPTION SET PUBLICATION, here only', 'ALTER SUBSCRIPTION sub'
		. ' SET PUBLICATION other WITH (refresh = false)',
		'SELECT subpublications FROM pg_subscription' ],
	[ 'ALTER SUBSCRIPTION CONNECTION', "ALTER SUBSCRIPTION sub CONNECTION 'dbname=other'",
		'SELECT subconninfo FROM pg_subscription' ],
	[ 'DROP SUBSCRIPTION', 'DROP SUBSCRIPTION sub', 'SELECT count(*) FROM pg_subscription' ],
	[ 'VACUUM', 'VACUUM FULL indexed', $files_of ],
	[ 'CLUSTER', 'CLUSTER', $files_of ],
	[ 'REINDEX SCHEMA', 'REINDEX SCHEMA public', $files_of ],
	[ 'REINDEX CONCURRENTLY', 'REINDEX TABLE CONCURRENTLY indexed', $files_of ],
	[ 'REINDEX, partitioned', 'REINDEX TABLE parts', $files_of ],
	[ 'CREATE INDEX CONCURRENTLY', 'CREATE INDEX CONCURRENTLY indexed_n ON indexed (n)', $files_of ],
	[ 'DROP INDEX CONCURRENTLY', 'DROP INDEX CONCURRENTLY other', $files_of ],
	[ 'DETACH CONCURRENTLY', 'ALTER TABLE parts DETACH PARTITION part CONCURRENTLY',
		'SELECT inhdetachpending FROM pg_inherits' ],
	[ 'REFRESH CONCURRENTLY', 'REFRESH MATERIALIZED VIEW CONCURRENTLY copy',
		'SELECT count(*) FROM copy' ],
	[ 'COPY TO PROGRAM', "COPY work TO PROGRAM 'cat >$files/copied'",
		"SELECT pg_stat_file('$files/copied', true) IS NULL" ],
	[ 'COPY TO PROGRAM in a function',
		"DO \$\$ BEGIN COPY work TO PROGRAM 'cat >$files/copied'; END \$\$",
		"SELECT pg_stat_file('$files/copied', true) IS NULL" ],
	[ 'COPY FROM PROGRAM', "COPY work FROM PROGRAM 'echo x | tee $files/copied'",
		"SELECT pg_stat_file('$files/copied', true) IS NULL" ],
	[ 'COPY TO a file', "COPY work TO '$files/copied'",
		"SELECT pg_stat_file('$files/copied', true) IS NULL" ],
	[ 'implicit commit', "INSERT INTO work VALUES ('implicit')", $work ],
	[ 'EXECUTE', "EXECUTE write('x')", $work ],
	[ 'EXECUTE with a function', "EXECUTE write(upper('x'))", $work ],
	[ 'COMMIT', "BEGIN; INSERT INTO work VALUES ('commit'); COMMIT", $work ],
	[ 'COMMIT AND CHAIN', "BEGIN; INSERT INTO work VALUES ('chain'); COMMIT AND CHAIN;"
		. ' ROLLBACK', $work ],
	[ 'PREPARE TRANSACTION', "BEGIN; INSERT INTO work VALUES ('prepare');"
		. " PREPARE TRANSACTION 'another'", 'SELECT count(*) FROM pg_prepared_xacts' ],
	[ 'COMMIT in a procedure', 'CALL two_steps()', $work ],
	[ 'COMMIT in DO', "DO 'BEGIN INSERT INTO work VALUES (''do''); COMMIT; END'", $work ],
	[ 'reading', 'SELECT count(*) FROM work', $work ],
	[ 'large object', 'SELECT lo_create(0)', 'SELECT count(*) FROM pg_largeobject_metadata' ],
	[ 'transactional message', "SELECT pg_logical_emit_message(true, 'zklock', 'x')",
		$messages ],
	[ 'progress of an origin', $with_origin,
		sprintf($progress, 'origin') ],
	[ 'ANALYZE', 'ANALYZE indexed, clustered', q(SELECT count(*) FROM pg_stats
		WHERE tablename IN ('indexed', 'clustered')) ],
	[ 'parallel workers', 'SET max_parallel_workers_per_gather = 2; SET force_parallel_mode = on;'
		. ' CREATE TABLE parallel AS SELECT count(*) FROM work', q(SELECT count(*) FROM pg_class
		WHERE relname = 'parallel') ],
	[ 'LISTEN', 'LISTEN zklock', $work ]);

$node->safe_psql('postgres', 'INSERT INTO indexed VALUES (11)');
$holder->ask('PREPARE write(text) AS INSERT INTO work VALUES ($1)');
$holder->ask("PREPARE release AS SELECT zk_lock_release('/lost')");
$holder->ask("SELECT pg_replication_origin_session_setup('origin')");
lost_lock($holder, '/lost');
foreach my $row (@refused)
{
	my ($name, $sql, $state) = @$row;
	my $before = $eye->ask($state, 'quiet');
	$holder->ask($sql);
	like($holder->errors, qr/^ERROR: +ZKL01: lock "\/lost" was lost/m, "S202: $name is refused");
	is($eye->ask($state, 'quiet'), $before, "S202: $name has not happened");
	$holder->ask('ROLLBACK', 'quiet');
}
$holder->ask('RESET ALL');

# No session is notified.
$eye->ask('LISTEN zklock');
$holder->ask($_) foreach 'NOTIFY zklock', "SELECT pg_notify('zklock', 'x')";
unlike($eye->ask('SELECT 1'), qr/notification/, 'S202: NOTIFY is not sent');

# ---- With two lost locks: what is never refused.

lost_lock($holder, '/lost'), $holder->ask("SELECT zk_lock_release('/lost')", 'quiet')
  if $holder->lock_state('/lost') ne 'lost';
$eye->ask('SELECT zk_lock_release_all()', 'quiet');
{
	my $second = ZkPsql->new($node);
	$second->ask("SELECT zk_lock_acquire('/one'), zk_lock_acquire('/two'),"
		  . " zk_lock_acquire('/three'), zk_lock_acquire('/four'),"
		  . " zk_semaphore_acquire('/permit', 2)");
	$second->ask("BEGIN; SELECT lose('/one'), lose('/two'), lose('/three'), lose('/four'),"
		  . " lose('/permit'); ROLLBACK");
	$second->ask("INSERT INTO work VALUES ('many')");
	is($second->sqlstate, 'ZKL01', 'S204: with five lost locks nothing commits');
	foreach my $sql (
		"ROLLBACK PREPARED 'p2'", "SET work_mem = '5MB'", 'SHOW work_mem', 'RESET work_mem',
		'DEALLOCATE ALL', 'CLOSE ALL', 'UNLISTEN *', 'DISCARD TEMP', 'DISCARD PLANS',
		"SELECT count(*) FROM zk_locks WHERE state = 'lost'", 'SELECT state FROM zk_session()',
		"SELECT count(*) FROM zk_lock_queue('/one')", 'BEGIN; ROLLBACK',
		"SELECT zk_lock_release('/one')", "SELECT * FROM zk_lock_release('/two')",
		"SELECT n FROM generate_series(1, 1) n WHERE zk_lock_release('/four')",
		"PREPARE p AS SELECT zk_lock_release('/three')",
		"SELECT zk_semaphore_release('/permit')",
		"BEGIN; SELECT zk_lock_release('/three'); SELECT zk_lock_release_all(); COMMIT")
	{
		$second->ask($sql);
		next if $sql =~ /^PREPARE/ && $second->sqlstate eq 'ZKL01';
		is($second->sqlstate, '', "S204: not refused: $sql");
	}
	is($eye->ask("SELECT count(*) FROM pg_prepared_xacts WHERE gid = 'p2'", 'quiet'),
		0, 'S204: ROLLBACK PREPARED has been carried out');
	$second->ask("INSERT INTO work VALUES ('cleared')");
	is(count_of('cleared'), 1, 'S204: and when all are given back, commits succeed');
	$second->quit;
}
is($holder->ask('EXECUTE release'), 'f', 'S204: EXECUTE is what it executes');
is($holder->sqlstate, '', 'S204: and so not refused either');
lost_lock($holder, '/all');
$holder->ask('DISCARD ALL');
is($holder->errors, '', 'S204: DISCARD ALL is not refused');
$holder->ask('\set VERBOSITY verbose', 'quiet');
$holder->ask("SET zklock.on_lock_loss = 'report'", 'quiet');

# A transaction is doomed until it ends, even if the statement goes on (S207).
$holder->ask("SELECT zk_lock_acquire('/rolled')", 'quiet');
$holder->ask('CALL goes_on()');
is($holder->sqlstate, '', 'S207: a procedure that rolls back what relied on a lost lock goes on');
is(count_of('goes on'), 1, 'S207: and its next transaction commits');

# ---- What cannot be guarded has happened when the commit is refused.

lost_lock($holder, '/lost');
my @unguarded = (
	[ 'sequence', "SELECT setval('numbers', 77)", 'SELECT last_value FROM numbers', 77 ],
	[ 'dblink', "SELECT dblink_exec('$connection', 'INSERT INTO work VALUES (''dblink'')')",
		"SELECT count(*) FROM work WHERE step = 'dblink'", 1 ],
	[ 'advisory lock of the session', 'SELECT pg_advisory_lock(5)',
		q(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), 1 ],
	[ 'message', "SELECT pg_logical_emit_message(false, 'zklock', 'x')", $messages, 1 ],
	[ 'slot', "SELECT pg_create_physical_replication_slot('made')",
		"$slots WHERE slot_name = 'made'", 1 ],
	[ 'drop of a slot', "SELECT pg_drop_replication_slot('made')",
		"$slots WHERE slot_name = 'made'", 0 ],
	[ 'progress of an origin, set', "SELECT pg_replication_origin_advance('other', '0/99')",
		sprintf($progress, 'other'), '0/99' ],
	[ 'a program of file_fdw', 'SELECT * FROM program',
		"SELECT (pg_stat_file('$files/scanned', true)).size IS NOT NULL", 't' ],
	[ 'lo_export', "SELECT lo_export(4711, '$files/exported')",
		"SELECT (pg_stat_file('$files/exported', true)).size IS NOT NULL", 't' ],
	[ 'signal', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
		. " WHERE application_name = 'the victim'",
		q(SELECT count(*) FROM pg_stat_activity WHERE application_name = 'the victim'), 0 ]);
my $victim = ZkPsql->new($node, application_name => 'the victim');
foreach my $row (@unguarded)
{
	my ($name, $sql, $state, $expected) = @$row;
	$holder->ask($sql);
	is($holder->sqlstate, 'ZKL01', "S205: $name: the commit is refused");
	wait_for(sub { $eye->ask($state, 'quiet') eq $expected }, "the effect of: $name");
	pass("S205: $name: has happened");
}
$holder->ask('SELECT zk_lock_release_all()', 'quiet');

# With the lock they are committed.
$holder->ask("SELECT pg_logical_emit_message(true, 'zklock', 'x')");
is($eye->ask($messages), 2, 'a message that is transactional is there without a loss');
$holder->ask($with_origin =~ s/77/AA/r);
is($eye->ask(sprintf $progress, 'origin'), '0/AA', 'and an origin makes progress');
$holder->ask('SELECT pg_replication_origin_session_reset()');

# A program has run by the time the lock is lost, and the rest is refused.
foreach my $case ([ "COPY (SELECT lose('/copy')) TO PROGRAM 'cat >$files/to'", 'to' ],
	[ "COPY losing FROM PROGRAM 'echo x | tee $files/from'", 'from' ])
{
	my ($sql, $file) = @$case;
	$holder->ask("SELECT zk_lock_acquire('/copy')");
	$holder->ask($sql);
	is($holder->sqlstate, 'ZKL01', "S205: loss while it runs: $sql");
	ok(-e "$files/$file", "S205: the program has run");
	$holder->ask('SELECT zk_lock_release_all()', 'quiet');
}
is($eye->ask('SELECT count(*) FROM losing'), 0, 'S205: the copied rows are not there');

# An exit commits nothing.
foreach my $how ('quit', 'terminated')
{
	my $leaver = ZkPsql->new($node);
	$leaver->ask("BEGIN; SELECT zk_lock_acquire_xact('/exit'); INSERT INTO work VALUES ('exit')");
	$leaver->quit if $how eq 'quit';
	$eye->ask("SELECT pg_terminate_backend(${\$leaver->pid}, 60000)", 'quiet')
	  if $how eq 'terminated';
	$ensemble->wait_for_queue('/exit', 0);
	is(count_of('exit'), 0, "exit: $how: nothing is committed");
}

# ---- A loss between the commits of a procedure.

$holder->ask("SELECT zk_lock_acquire('/proc')");
$holder->ask('CALL loses_between()');
is($holder->sqlstate, 'ZKL01', 'S202: a loss between two commits of a procedure');
is(join('', map { count_of($_) } 'before', 'between', 'after'),
	'100', 'S202: earlier commits remain, the rest is refused');
$holder->ask('SELECT zk_lock_release_all()');

# ---- A command that has taken effect is not refused.  The lock is lost while it is held up.

sub wait_until_waiting
{
	my ($event) = @_;
	wait_for(
		sub {
			$eye->ask("SELECT count(*) FROM pg_stat_activity WHERE pid = ${\$holder->pid}"
				  . " AND '$event' IN (wait_event_type, wait_event)", 'quiet');
		},
		"the command to wait for $event");
	return;
}

# Break the holder's lock, and wait until it knows.
sub break_and_wait
{
	my ($path) = @_;
	my ($contender) = $ensemble->queue($path);
	is($eye->ask("SELECT zk_lock_break('$path', '$contender')"), 't', "$path is broken");
	wait_for(sub { !$ensemble->queue($path) }, "$path to be gone");
	return;
}

my $blocker = ZkPsql->new($node);
sub held_up
{
	my ($what, $sql, $loss, $block, $unblock, $event) = @_;
	$holder->ask("SET zklock.on_lock_loss = '$loss'", 'quiet');
	$holder->ask("SELECT zk_lock_acquire('/held/up')");
	$block->();
	$holder->send($sql);
	wait_until_waiting($event);
	break_and_wait('/held/up');
	$unblock->();
	$holder->answer;
	return;
}
my @in_the_way = (
	sub { $blocker->ask('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM work LIMIT 1;'
		. ' INSERT INTO indexed SELECT max(n) + 1 FROM indexed') },
	sub { $blocker->ask('ROLLBACK') },
	'Lock');
my @reader = (
	sub { $blocker->ask('BEGIN; SELECT count(*) FROM parts') },
	@in_the_way[ 1, 2 ]);
my @locks = (
	sub { $blocker->ask('BEGIN; LOCK TABLE indexed, clustered, parts IN SHARE UPDATE EXCLUSIVE MODE') },
	@in_the_way[ 1, 2 ]);
my $sync_wait;
my @no_standby =
  (sub { $sync_wait = ZkSyncWait->new($node) }, sub { $sync_wait->end }, 'SyncRep');

# How many of these relations have other files than in the table "files"?
sub new_files
{
	my ($names) = @_;
	return "SELECT count(*) FROM files JOIN pg_class c USING (relname)"
	  . " WHERE files.relfilenode <> c.relfilenode AND relname ~ '$names'";
}

# Is the partition one still?
sub is_part
{
	my ($name) = @_;
	return "SELECT count(*) FROM pg_inherits WHERE inhrelid = '$name'::regclass";
}

# Each: the row, the command, a query and what it gives then, and what the command has to wait
# for while the lock is lost: it commits after that, and not only at its end.
foreach my $case (
	[ 'CREATE INDEX CONCURRENTLY', 'CREATE INDEX CONCURRENTLY made ON indexed (n)',
		"SELECT indisvalid FROM pg_index WHERE indexrelid = 'made'::regclass", 't', @in_the_way ],
	[ 'REINDEX CONCURRENTLY', 'REINDEX INDEX CONCURRENTLY made',
		q(SELECT count(*) FROM pg_class WHERE relname LIKE 'made%' AND relkind = 'i'), 1,
		@in_the_way ],
	[ 'DROP INDEX CONCURRENTLY', 'DROP INDEX CONCURRENTLY made',
		q(SELECT count(*) FROM pg_class WHERE relname = 'made'), 0, @in_the_way ],
	[ 'VACUUM', 'VACUUM FULL indexed', new_files('^indexed$'), 1, @in_the_way ],
	[ 'VACUUM of several tables', 'VACUUM FULL indexed, clustered',
		new_files('^(indexed|clustered)$'), 2, @locks ],
	[ 'CLUSTER of all tables', 'CLUSTER', new_files('^(indexed|clustered)$'), 2, @locks ],
	[ 'REINDEX of a partitioned table', 'REINDEX TABLE parts', new_files('^part.*_n_idx$'), 3,
		@locks ],
	[ 'DETACH CONCURRENTLY, first step', 'ALTER TABLE parts DETACH PARTITION part CONCURRENTLY',
		is_part('part'), 0, @locks ],
	[ 'DETACH CONCURRENTLY, second step', 'ALTER TABLE parts DETACH PARTITION part2 CONCURRENTLY',
		is_part('part2'), 0, @reader ])
{
	my ($name, $sql, $state, $expected, @obstacle) = @$case;
	$eye->ask('DROP TABLE IF EXISTS files;'
		  . ' CREATE TABLE files AS SELECT relname, relfilenode FROM pg_class', 'quiet');
	held_up($name, $sql, 'report', @obstacle);
	is($holder->sqlstate, '', "S203: $name: a loss while it runs does not end it");
	like($holder->errors, qr/WARNING: +ZKL01: lock "\/held\/up" was lost while the command ran/,
		"S203: $name: a warning tells of it");
	is($eye->ask($state, 'quiet'), $expected, "S203: $name: it is complete");
	$holder->ask("INSERT INTO work VALUES ('$name')");
	is($holder->sqlstate, 'ZKL01', "S203: $name: the next commit is refused");
	is($holder->ask("SELECT zk_lock_release('/held/up')"), 'f', 'until it is released');
}

# To be cancelled is another matter: that is what the setting asks for.
held_up('CREATE INDEX CONCURRENTLY', 'CREATE INDEX CONCURRENTLY half ON indexed (n)', 'cancel',
	@in_the_way);
is($holder->sqlstate, 'ZKL01', 'S203: with "cancel" the build of an index is cancelled');
$holder->ask("SELECT zk_lock_release('/held/up')");
my $detach = 'ALTER TABLE parts DETACH PARTITION part3';
held_up('DETACH CONCURRENTLY', "$detach CONCURRENTLY", 'cancel', @reader);
is($holder->sqlstate, 'ZKL01', 'S203: with "cancel" a partition is being detached');
is($eye->ask('SELECT inhdetachpending FROM pg_inherits'
		  . " WHERE inhrelid = 'part3'::regclass"), 't', 'S203: which is pending');
$holder->ask("$detach FINALIZE");
is($holder->sqlstate, 'ZKL01', 'S203: and not finished under the lock that was lost');
$holder->ask("SELECT zk_lock_release('/held/up')");
$holder->ask("$detach FINALIZE");
is($eye->ask(is_part('part3')), 0, 'S203: but later');

# ANALYZE of several tables is refused where it is: what it has committed by then is complete.
held_up('ANALYZE', 'ANALYZE indexed, clustered', 'report',
	sub { $blocker->ask('BEGIN; LOCK TABLE clustered IN SHARE UPDATE EXCLUSIVE MODE') },
	@in_the_way[ 1, 2 ]);
is($holder->sqlstate, 'ZKL01', 'S202: ANALYZE of several tables is refused in the middle');
is($eye->ask(q(SELECT string_agg(DISTINCT tablename, ' ') FROM pg_stats
		WHERE tablename IN ('indexed', 'clustered'))),
	'indexed', 'S202: one has been committed before');
$holder->ask("SELECT zk_lock_release('/held/up')");

# But not so what is done with one stroke, and waits for a standby only.
foreach my $loss ('report', 'cancel')
{
	my $gid = $loss eq 'report' ? 'p3' : 'p4';
	held_up('COMMIT PREPARED', "COMMIT PREPARED '$gid'", $loss, @no_standby);
	is($holder->sqlstate, '', "S203: COMMIT PREPARED, $loss: a loss while it runs does not end it");
	like($holder->errors, qr/^WARNING: +ZKL01: lock "\/held\/up" was lost while the command ran/m,
		"S203: COMMIT PREPARED, $loss: a warning tells of it");
	unlike($holder->errors, qr/synchronous replication/, "S203: $loss: and the wait is not disturbed");
	is(count_of($gid), 1, "S203: COMMIT PREPARED, $loss: it is committed");
	$holder->ask("SELECT zk_lock_release('/held/up')");
}

# With the guard off nothing is refused, nor told.
$holder->ask("SET zklock.commit_guard = 'off'; SET zklock.on_lock_loss = 'report'");
lost_lock($holder, '/off');
$holder->ask("COMMIT PREPARED 'p1'");
is($holder->errors, '', 'without the guard: COMMIT PREPARED');
is(count_of('p1'), 1, 'without the guard: it is committed');

done_testing();
