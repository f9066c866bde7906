# What an operator reads: notes beside locks and waits (S401), figures for each lock
# (S402), the locks with the most harmful first (S403), and the short names by which a
# contender is broken (S404).  And a lock that a statement acquires for nothing (S405).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(wait_for);

my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my $node = zk_cluster('main', $ensemble,
	settings => {
		shared_preload_libraries => 'zklock',
		'zklock.session_timeout' => '60s',
		deadlock_timeout => '10ms',
		log_lock_waits => 'on'
	});
$node->safe_psql('postgres', 'CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher;
	CREATE ROLE guest LOGIN');
my $admin = ZkPsql->new($node);
my ($holder, $waiter, $late) =
  map { ZkPsql->new($node, application_name => $_) } qw(holder waiter late);

# What a role is told when it sends some SQL.
sub answer_to
{
	my ($role, $sql) = @_;
	my ($status, $output, $errors) = $node->psql('postgres', $sql,
		extra_params => [ '-U', $role ]);
	return $status == 0 ? $output : $errors;
}

# ---- Notes.

my $note = 'nightly "import", part 1/2';
$holder->ask("SET zklock.note = '$note'");
$waiter->ask("SET zklock.note = 'waits'");
$holder->ask("SELECT zk_lock_acquire('/noted')");
$holder->ask("SET zklock.note = 'something else'");
is($holder->ask('SELECT path, note, granted_at <= clock_timestamp(), lost_at FROM zk_locks'),
	"/noted|$note|t|", 'S401: a lock has the note from when it was acquired');
my $log = -s $node->logfile;
$waiter->send("SELECT zk_lock_acquire('/noted')");
$waiter->wait_until_behind($admin, 'holder_pid');
is($admin->ask("SELECT application_name, note, granted FROM zk_lock_queue('/noted')"),
	"holder|$note|t\nwaiter|waits|f", 'S401: which the queue shows');
is( $admin->ask('SELECT application_name, note, waited > interval \'0\',
		holder_datname, holder_usename, holder_note FROM zk_lock_waits'),
	"waiter|waits|t|postgres|${\$admin->ask('SELECT session_user')}|$note",
	'S401: and those who wait for it');
$node->wait_for_log(qr/held by process \d+ of cluster "main" .*, note "nightly "import"/, $log);
pass('S401: and the server log');
$holder->ask('SELECT zk_lock_release_all()');
$waiter->answer;
$waiter->ask('SELECT zk_lock_release_all()');

# When a lock was granted is known within a second, also after a wait (S408).
$holder->ask("SELECT zk_lock_acquire('/granted')");
is( $admin->ask("SELECT granted_at = since, held >= age FROM zk_lock_queue('/granted')"),
	't|t', 'S408: a lock that was free is granted when it is requested');
$waiter->send("SELECT zk_lock_acquire('/granted')");
wait_for(sub { $admin->ask("SELECT age > interval '1500 ms' FROM zk_lock_queue('/granted')
		WHERE NOT granted", 'quiet') eq 't' }, 'a long wait');
is( $admin->ask("SELECT count(granted_at), count(held) FROM zk_lock_queue('/granted')
		WHERE NOT granted"),
	'0|0', 'S408: a waiter has not been granted it');
$holder->ask('SELECT zk_lock_release_all()');
$waiter->answer;
my $granted = $waiter->ask('SELECT granted_at FROM zk_locks');
wait_for(sub { $admin->ask("SELECT granted_at > since FROM zk_lock_queue('/granted')", 'quiet')
			eq 't' }, 'the holder to say for how long it waited');
is( $admin->ask("SELECT abs(extract(epoch FROM granted_at - '$granted')) < 1,
		granted_at - since > interval '1500 ms' FROM zk_lock_queue('/granted')"),
	't|t', 'S408: then others know when it was granted');
is($admin->ask("SELECT zk_lock_revoke('/granted', token) FROM zk_lock_queue('/granted')"),
	't', 'it is revoked');
wait_for(sub { $admin->ask("SELECT revoked AND application_name = 'waiter'
			AND granted_at > since FROM zk_lock_queue('/granted')", 'quiet') eq 't' },
	'both to be known');
is($waiter->ask('SELECT revoked FROM zk_locks'), 't', 'S408: also after a revocation');
$waiter->ask('SELECT zk_lock_release_all()');

# With the longest names of all kinds the data can still be read.
my $long = '"' x 63;
my $quoted = '"' x 126;
$node->safe_psql('postgres', qq{CREATE ROLE "$quoted" SUPERUSER});
my $longest = ZkPsql->new($node, application_name => $long, 'zklock.note' => '"' x 127);
$longest->ask("SET SESSION AUTHORIZATION '$long'");
$longest->ask("SELECT zk_job_begin('/longest', now())");
is( $admin->ask("SELECT usename, application_name, length(note), pid FROM zk_lock_queue('/longest')"),
	"$long|$long|127|${\$longest->pid}",
	'S401: the longest note beside the longest names');
is( $admin->ask("SELECT running_fire_time IS NOT NULL, length(note) FROM zk_job_status('/longest')"),
	't|127', 'S401: also of a job');
$longest->quit;
my $over = 'x' x 128;
like(answer_to('guest', "SET zklock.note = '$over'"),
	qr/DETAIL:  The note must be shorter than 128 bytes\./, 'S401: a note has an end');

# In a database with another encoding.
$node->safe_psql('postgres', q(CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0
	LC_COLLATE 'C' LC_CTYPE 'C'));
my $umlaut = 'chr(228)';
is( $node->safe_psql('latin', "CREATE EXTENSION zklock;
		DO \$\$ BEGIN PERFORM set_config('zklock.note', $umlaut, false); END \$\$;
		DO \$\$ BEGIN PERFORM zk_lock_acquire('/latin'); END \$\$;
		SELECT l.note = $umlaut, q.note = $umlaut, s.last_note = $umlaut
		FROM zk_locks l, zk_lock_queue('/latin') q, pg_stat_zklock_locks s
		WHERE s.path = '/latin'"),
	't|t|t', 'S401: a note in another encoding');
is($admin->ask("SELECT last_note = $umlaut FROM pg_stat_zklock_locks WHERE path = '/latin'"),
	't', 'S401: which is shown in that of the reader');

# ---- Figures for each lock.

# Figures of a lock, as text.
sub figures
{
	my ($path, $columns) = @_;
	return $admin->ask("SELECT $columns FROM pg_stat_zklock_locks WHERE path = '$path'");
}

$admin->ask('SELECT pg_stat_zklock_locks_reset()');
$holder->ask("SELECT zk_lock_acquire('/counted'), zk_lock_acquire('/counted')");
is( figures('/counted', 'grants, waits, timeouts, lost, wait_time, hold_time,
		last_pid, last_datname, last_application_name, last_note'),
	"1|0|0|0|0|0|${\$holder->pid}|postgres|holder|something else",
	'S402: a grant, and no more for a second acquisition');
is($waiter->ask("SELECT zk_lock_acquire('/counted', '0')"), 'f', 'an attempt');
is($waiter->ask("SELECT zk_lock_acquire('/counted', '1 s')"), 'f', 'a wait in vain');
$waiter->ask("SET lock_timeout = '1s'");
$waiter->ask("SELECT zk_lock_acquire('/counted')");
is($waiter->sqlstate, '55P03', 'another one');
$waiter->ask('RESET lock_timeout');
is( figures('/counted', 'waits, timeouts, wait_time BETWEEN 500 AND 60000,
		longest_wait BETWEEN 250 AND wait_time'),
	'2|3|t|t', 'S402: timeouts, and waits in vain');
$waiter->send("SELECT zk_lock_acquire('/counted', shared => true)");
$waiter->wait_until_behind($admin, 'holder_pid');
my $held = $holder->ask("SELECT extract(epoch FROM clock_timestamp() - granted_at) * 1000
	FROM zk_locks; SELECT zk_lock_release_all()");
$held =~ s/\n.*//s;
is($waiter->answer, 't', 'the wait ends');
is( figures('/counted', "grants, waits, hold_time >= $held, longest_hold = hold_time,
		last_pid, last_granted_at BETWEEN stats_since AND clock_timestamp()"),
	"2|3|t|t|${\$waiter->pid}|t", 'S402: the hold that ended, and the next holder');
$waiter->quit;
$waiter = ZkPsql->new($node, application_name => 'waiter');
wait_for(sub { figures('/counted', 'hold_time > longest_hold') eq 't' },
	'S402: the hold of a session that ends');

# One hold, however often its mode changes.
$holder->ask("SELECT zk_lock_acquire('/downgraded'), zk_lock_acquire('/downgraded', shared => true)");
$holder->ask("SELECT zk_lock_release('/downgraded', shared => false)");
is(figures('/downgraded', 'grants, hold_time'), '1|0', 'a downgrade ends no hold');
$holder->ask('SELECT zk_lock_release_all()');
is(figures('/downgraded', 'hold_time > 0, longest_hold = hold_time'), 't|t',
	'S402: one hold');

# A loss.
$holder->ask("SELECT zk_lock_acquire('/lost')");
$admin->ask("SELECT zk_lock_break('/lost', contender) FROM zk_lock_queue('/lost')");
$holder->wait_until_lost('/lost');
is($holder->ask("SELECT state, granted_at < lost_at FROM zk_locks WHERE path = '/lost'"),
	'lost|t', 'a lost lock says when it was granted, and when it was lost');
is(figures('/lost', 'grants, lost, hold_time > 0'), '1|1|t', 'S402: a loss');
$holder->ask('SELECT zk_lock_release_all()');

# More locks than there is room for: the least used give way, and are summed up.
my $locks = 620;
$holder->ask("SELECT zk_lock_acquire('/often'), zk_lock_release('/often')") foreach 1 .. 5;
$holder->ask("SELECT count(zk_lock_acquire('/many/' || n)), count(zk_lock_release('/many/' || n))
	FROM generate_series(1, $locks) n");
is( $admin->ask("SELECT count(*) FILTER (WHERE path IS NULL), count(*) <= 501,
		sum(grants) FILTER (WHERE path IS NULL OR path LIKE '/many/%') >= $locks
	FROM pg_stat_zklock_locks"),
	'1|t|t', 'S402: no more than there is room for, and nothing is missing');
is(figures('/often', 'grants'), '5', 'S402: what is used often remains');

# Who may see and reset them.
is(answer_to('watcher', "SELECT grants FROM pg_stat_zklock_locks WHERE path = '/often'"),
	'5', 'S402: pg_monitor may see them');
like(answer_to('guest', 'SELECT * FROM pg_stat_zklock_locks'),
	qr/permission denied/, 'and others may not');
like(answer_to('watcher', 'SELECT pg_stat_zklock_locks_reset()'),
	qr/permission denied/, 'nor reset them');
$admin->ask("SELECT pg_stat_zklock_locks_reset('/often')");
is(figures('/often', 'grants'), '', 'S402: those of one lock are reset');
$admin->ask('SELECT pg_stat_zklock_locks_reset()');
is($admin->ask('SELECT path, grants FROM pg_stat_zklock_locks'), '|0',
	'S402: or all');

# ---- The most harmful first.

$holder->ask("SET zklock.note = 'monthly report'");
$holder->ask("SELECT zk_lock_acquire('/top/' || n) FROM generate_series(1, 3) n");
$admin->ask("SELECT zk_lock_acquire('/top/shared', shared => true)");
$late->ask("SELECT zk_lock_acquire('/top/shared', shared => true)");
$waiter->send("SELECT zk_lock_acquire('/top/2')");
$ensemble->wait_for_queue('/top/2', 2);
my @top = split /\n/,
  $admin->ask("SELECT path, holder, waiters, longest_wait IS NOT NULL, note FROM zk_top('/top')");
is($top[0], "/top/2|main/postgres ${\$holder->pid}|1|t|monthly report",
	'S403: what others wait for is first');
is(scalar(@top), 4, 'S403: and what none waits for follows');
is( (grep { /shared/ } @top)[0],
	"/top/shared|main/postgres ${\$admin->pid} +1|0|f|",
	'S403: several holders');
my ($status, $screen) = $node->psql('postgres',
	"\\pset format aligned\n\\pset tuples_only off\nSELECT * FROM zk_top()",
	extra_params => [ '-U', 'watcher' ]);
like($screen, qr/^ +path +\| +holder +\| +held /m, 'S403: the screen');
is($status, 0, 'S403: pg_monitor may use it');
is((grep { length > 100 } split /\n/, $screen), 0, 'S403: in 100 columns');
like(answer_to('guest', 'SELECT zk_top()'), qr/permission denied/, 'and others may not');
is($admin->ask("SELECT count(*) FROM zk_top('/top/2')"), '1', 'S403: below a path');

# ---- Break by token.

my $token = $holder->ask("SELECT zk_lock_token('/top/2')");
is($admin->ask("SELECT zk_lock_revoke('/top/2', $token)"), 't', 'S404: revoked by its token');
wait_for(sub { $admin->ask("SELECT revoked, application_name FROM zk_lock_queue('/top/2')
			WHERE token = $token", 'quiet') eq 't|holder' },
	'the queue to show that, and still whose it is');
pass('S404: the queue shows that, and still whose it is');
is($admin->ask("SELECT zk_lock_break('/top/2', $token + 1)"), 'f', 'no such token');
is($admin->ask("SELECT zk_lock_break('/top/2', $token)"), 't', 'S404: broken by its token');
is($waiter->answer, 't', 'the next one gets the lock');
is($admin->ask("SELECT zk_lock_break('/top/2', $token)"), 'f', 'S404: once');
foreach my $function (qw(zk_lock_break zk_lock_revoke))
{
	$admin->ask("SELECT $function('/top/2', NULL::bigint)");
	is($admin->sqlstate, '22004', "$function without a token");
	like(answer_to('watcher', "SELECT $function('/top/2', 1)"),
		qr/permission denied/, "$function is not for all roles");
}
$_->ask('SELECT zk_lock_release_all()') foreach $holder, $waiter, $admin, $late;

# ---- A lock that is released with the statement.

my $acquire = "SELECT zk_lock_acquire_xact('/alone')";
my $permit = "SELECT zk_semaphore_acquire_xact('/permits', 1)";
foreach my $sql ($acquire, "SELECT zk_lock_acquire_xact(ARRAY['/alone'])", $permit)
{
	$holder->ask($sql);
	like($holder->errors, qr/WARNING: .* is released with this statement\nHINT: .*transaction block/,
		"S405: $sql warns");
}
$waiter->ask($acquire);
$holder->ask('CREATE TABLE work (n integer)');
$holder->ask('BEGIN');
foreach my $sql (
	$acquire, $permit, 'COMMIT',
	"INSERT INTO work SELECT 1 WHERE zk_lock_acquire_xact('/alone')",
	"SELECT count(*) FROM work WHERE zk_lock_acquire_xact('/alone')",
	"DO \$\$ BEGIN PERFORM zk_lock_acquire_xact('/alone'); END \$\$")
{
	$holder->ask($sql);
	is($holder->errors, '', "S405: $sql does not");
}

done_testing();
