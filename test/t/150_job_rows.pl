# Jobs: a run is done when its row is committed.  The rows and marks when transactions
# roll back, backends die between the commit and the mark, or the lock is lost; and the
# time between the two.

use strict;
use warnings;

use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main');
my %node = map {
	$_ => zk_cluster($_, $ensemble,
		settings => {
			'zklock.session_timeout' => '10s',
			track_commit_timestamp => 'on',
			restart_after_crash => 'on'
		})
} qw(one two);
$node{$_}->safe_psql('postgres', 'CREATE TABLE work (path text)') foreach keys %node;
my ($one, $two) = map { ZkPsql->new($node{$_}) } qw(one two);
my $due = "'2026-01-01 03:00+00'";
my $next = "'2026-01-02 03:00+00'";

# The record of a job as ZooKeeper has it.
sub record
{
	my ($path) = @_;
	my $znode = "/zklock/.zklock/records$path";
	return $ensemble->zk->get($znode) // '';
}

# How many runs the record has.
sub marks
{
	my ($path) = @_;
	return scalar(() = record($path) =~ /^run /mg);
}

# What became of the runs of a job in a cluster.
sub outcomes
{
	my ($name, $path) = @_;
	return join ' ',
	  split /\n/,
	  $node{$name}->safe_psql('postgres',
		"SELECT outcome FROM zk_job_history('$path') ORDER BY fire_time, token");
}

# ---- A rollback: whatever was written, and when, there is no mark.

is($one->ask("SELECT zk_job_begin('/back', $due)"), 't', 'a run is begun');
foreach my $statements (
	[ "WITH w AS (INSERT INTO work VALUES ('/back') RETURNING 1) SELECT zk_job_end('/back')" ],
	[ "SELECT zk_job_end('/back')", "INSERT INTO work VALUES ('/back')" ],
	[ 'NOTIFY nobody', "SELECT zk_job_end('/back')" ],
	[ "SELECT zk_job_end('/back')" ])
{
	$one->ask($_) foreach 'BEGIN', @$statements;
	is($one->errors, '', "the run is ended: $statements->[0]");
	$one->ask('ROLLBACK');
	is($two->ask("SELECT zk_job_begin('/back', $due, '0')"),
		'f', 'S262: after the rollback no other session can begin it, because its lock is held');
	is(marks('/back'), 0, 'S262: and it has no mark');
}
$one->ask("SELECT zk_lock_release('/back')");
is($two->ask("SELECT zk_job_begin('/back', $due)"),
	't', 'S262: the run is not done, so it is taken over');
$two->ask("SELECT zk_job_end('/back')");
is($one->ask("SELECT zk_job_begin('/back', $due)"), 'f', 'and done once');
is(outcomes('one', '/back'), 'running', 'that it has failed is not known here');
is($one->ask("SELECT zk_job_begin('/back', $next)"), 't', 'the next run is begun');
is(outcomes('one', '/back'), 'failed running', 'S265: then it is');
$one->ask("SELECT zk_job_end('/back')");

# ---- The end of the session is none of the run.

my $gone = ZkPsql->new($node{one});
is($gone->ask("SELECT zk_job_begin('/dead', $due)"), 't', 'a run is begun');
$gone->crash($node{one});
$one = ZkPsql->new($node{one});
is($one->ask("SELECT zk_job_begin('/dead', $due, '60 s')"),
	't', 'S265: when its backend has died it is taken over');
$one->ask("SELECT zk_job_end('/dead')");
is(outcomes('one', '/dead'), 'failed done', 'S265: and shows as failed');

# ---- A crash between the commit and the mark.

my $proxy = $ensemble->proxy;
my $far = ZkPsql->new($node{one}, 'zklock.servers' => $proxy->address);
is($far->ask("SELECT zk_job_begin('/crash', $due)"), 't', 'a run is begun');
$proxy->cut_before_request('multi');
$proxy->refuse;
$far->ask('BEGIN');
$far->ask("INSERT INTO work VALUES ('/crash')");
$far->ask("SELECT zk_job_end('/crash')");
$far->ask('COMMIT');
is($far->errors, '', 'it is committed');
$far->crash($node{one});
$one = ZkPsql->new($node{one});
is($one->ask("SELECT zk_job_begin('/crash', $due, '60 s')"),
	'f', 'S266: a run that was committed and not marked is done');
is(marks('/crash'), 1, 'S266: the mark is written now');
is($two->ask("SELECT zk_job_begin('/crash', $due, '60 s')"),
	'f', 'S266: so the other cluster sees it');
$proxy->pass;

# ---- A reset concerns all clusters.

foreach my $session ($one, $two)
{
	my $fire = $session == $one ? $due : $next;
	is($session->ask("SELECT zk_job_begin('/reset', $fire, '60 s')"), 't', 'a run is begun');
	is($session->ask("SELECT zk_job_end('/reset')"), 't', 'and ended');
}
is($two->ask("SELECT zk_job_begin('/reset', $next, '60 s')"), 'f', 'it is done');
is(marks('/reset'), 2, 'each cluster has left a mark');
is($two->ask("SELECT zk_job_reset('/reset', $due)"), 't', 'S261: the runs are reset');
is(marks('/reset'), 0, 'S261: there is none any more');
is($one->ask("SELECT zk_job_begin('/reset', $due, '60 s')"),
	't', 'S261: a row in the other cluster does not count');
$one->ask("SELECT zk_job_end('/reset')");
is(outcomes('one', '/reset'), 'reset done', 'S261: as it says');
is($two->ask("SELECT zk_job_begin('/reset', $due, '60 s')"), 'f', 'the run is done again');
is($two->ask("SELECT zk_job_begin('/reset', $next, '60 s')"), 't', 'S261: the later one is due');
$one->ask("SELECT zk_job_reset('/reset', $due)");
is($one->sqlstate, '55006', 'S261: a job that is running is not reset');
$two->ask("SELECT zk_job_end('/reset')");

# ---- A session that waited continues with the rows committed by then.

foreach my $level ('repeatable read', 'serializable')
{
	my $path = '/level/' . ($level =~ s/ .*//r);
	my $waiter = ZkPsql->new($node{one}, default_transaction_isolation => $level);
	$one->ask("SELECT zk_job_begin('$path', $due)");
	$waiter->send("SELECT zk_job_begin('$path', $next)");
	$ensemble->wait_for_queue($path, 2);
	$one->ask("SELECT zk_job_end('$path')");
	is($waiter->answer, 't', "S278: $level: the next run begins when the last one has ended");
	is($waiter->errors, '', 'S278: without an error');
	is($waiter->ask("SELECT zk_job_end('$path')"), 't', 'S278: and ends');
	is(outcomes('one', $path), 'done done', 'S278: both are done');
	$waiter->quit;
}

# ---- Jobs have nothing to do with each other, whatever the isolation level, and however
# their rows are found.

foreach my $rows (0, 5000)
{
	$node{one}->safe_psql('postgres', 'INSERT INTO zk_job_runs'
		  . " SELECT '/many/' || n % 7, $due, n, now(), now(), 'failed', 'joe', null, 'far'"
		  . " FROM generate_series(1, $rows) n");
	$node{one}->safe_psql('postgres', 'ANALYZE zk_job_runs');
	my ($long, $short) =
	  map { ZkPsql->new($node{one}, default_transaction_isolation => 'serializable') } 1, 2;

	foreach my $turn (1 .. 8)
	{
		my $fire = "timestamptz $due + $turn * interval '1 hour'";
		my @jobs = map { "/serial/$rows/$_" } qw(long short);
		$long->ask("SELECT zk_job_begin('$jobs[0]', $fire, '60 s')") if $turn % 2;
		$long->ask('BEGIN');
		$long->ask(
			$turn % 2
			? "SELECT zk_job_end('$jobs[0]')"
			: "SELECT zk_job_begin_xact('$jobs[0]', $fire, '60 s')");
		is( $short->ask("SELECT zk_job_begin('$jobs[1]', $fire, '60 s')"),
			't', "S296: $rows rows: while a job runs another one is begun");
		$short->ask('BEGIN');
		is($short->ask("SELECT zk_job_end('$jobs[1]')"), 't', 'S296: and is to end');
		my $first = $turn < 5 ? $short : $long;
		foreach my $session ($first, $first == $short ? $long : $short)
		{
			$session->ask('COMMIT');
			is($session->errors, '', "S296: $rows rows: none obstructs the other");
		}
	}
	is( $node{one}->safe_psql('postgres',
			"SELECT count(*) FROM zk_job_runs WHERE path LIKE '/serial/$rows/%' AND outcome = 'done'"),
		16, 'S296: all are done');

	# what other runs leave is found, too
	my $path = "/serial/$rows/dead";
	is($short->ask("SELECT zk_job_begin('$path', $due)"), 't', 'a run is begun');
	my ($contender) = $ensemble->queue($path);
	$ensemble->zk->delete("/zklock$path/$contender");
	is($long->ask("SELECT zk_job_begin('$path', $due)"), 't', 'and taken over');
	is(outcomes('one', $path), 'failed running', 'S296: which its row says');
	is($long->ask("SELECT zk_job_end('$path')"), 't', 'it ends');
	is($long->ask("SELECT zk_job_begin('$path', $due, '60 s')"), 'f', 'S296: it is done');
	is($long->ask("SELECT zk_job_reset('$path', $due)"), 't', 'and reset');
	is($long->ask("SELECT zk_job_begin('$path', $due)"), 't', 'S296: so it is due');
	is($long->ask("SELECT zk_job_end('$path')"), 't', 'and ends again');
	is(outcomes('one', $path), 'failed reset done', 'S296: as the rows say');
	$_->quit foreach $long, $short;
}
# ---- A reset that is not committed delays no session.

$one->ask("SELECT zk_job_begin_xact('/open', $due)");
$ensemble->wait_for_queue('/open', 0);
my $admin = ZkPsql->new($node{one});
$admin->ask('BEGIN');
is($admin->ask("SELECT zk_job_reset('/open', $due)"), 't', 'a run is reset');
is( $one->ask("SET statement_timeout = '20 s'; SELECT zk_job_begin('/open', $due)"),
	't', 'S279: and begun while the transaction of the reset is in progress');
$admin->ask('ROLLBACK');
$one->ask("RESET statement_timeout; SELECT zk_job_end('/open')");
is(outcomes('one', '/open'), 'reset done', 'S279: the reset counts even so');
$admin->quit;

# ---- The lock is lost unnoticed: the row decides.

my $stubborn = ZkPsql->new($node{one},
	'zklock.commit_guard' => 'off', 'zklock.on_lock_loss' => 'report');
foreach my $end (qw(COMMIT ROLLBACK))
{
	my $path = '/lost/' . lc $end;
	$stubborn->ask("SELECT zk_job_begin('$path', $due)");
	$stubborn->ask('BEGIN');
	$stubborn->ask("INSERT INTO work VALUES ('$path')");
	is($stubborn->ask("SELECT zk_job_end('$path')"), 't', 'a run is about to end');
	my ($contender) = $ensemble->queue($path);
	$ensemble->zk->delete("/zklock$path/$contender");
	is($one->ask("SELECT zk_job_begin('$path', $due)"),
		't', 'its lock is free, and another session begins it');
	$one->send("SELECT zk_job_end('$path')");
	$node{one}->poll_query_until('postgres',
		"SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $one->{pid}");
	ok(!$one->answered, 'S267: the second session that ends it waits for the first one');
	$stubborn->ask($end);
	$one->answer;
	is($one->sqlstate, $end eq 'COMMIT' ? 'ZKL01' : '', "S267: and fails if that commits: $end");
	$_->ask("SELECT zk_lock_release_all()") foreach $one, $stubborn;
	is( $node{one}->safe_psql('postgres',
			"SELECT count(*) FROM zk_job_runs WHERE path = '$path' AND outcome = 'done'"),
		1, 'S267: the run is done once');
}
$stubborn->ask("SELECT zk_job_begin('/overtaken', $due)");
my ($contender) = $ensemble->queue('/overtaken');
$ensemble->zk->delete("/zklock/overtaken/$contender");
is($one->ask("SELECT zk_job_begin('/overtaken', $due)"), 't', 'a run is taken over');
$stubborn->ask("SELECT zk_job_end('/overtaken')");
is($stubborn->sqlstate, 'ZKL01', 'S267: the first one cannot end it');
is($one->ask("SELECT zk_job_end('/overtaken')"), 't', 'S267: the other one can');

# ---- A run whose beginning fails for a lock that was lost before has not begun.

$stubborn->ask('SELECT zk_lock_release_all()');
$stubborn->ask('RESET zklock.commit_guard; RESET zklock.on_lock_loss');
$stubborn->ask("SET zklock.commit_guard = lease");
$stubborn->ask("SELECT zk_lock_acquire('/elsewhere')");
($contender) = $ensemble->queue('/elsewhere');
$ensemble->zk->delete("/zklock/elsewhere/$contender");
$stubborn->wait_until_lost('/elsewhere');
$stubborn->ask("SELECT zk_job_begin('/vain', $due)");
is($stubborn->sqlstate, 'ZKL01', 'a run cannot begin, as another lock was lost');
is($two->ask("SELECT zk_job_begin('/vain', $due, '60 s')"),
	't', 'S262: so another session can');
$two->ask("SELECT zk_job_end('/vain')");
$stubborn->ask('SELECT zk_lock_release_all()');

# ---- A transaction that is a run, through whatever backend.

$one->ask('BEGIN');
is($one->ask("SELECT zk_job_begin_xact('/xact', $due)"), 't', 'a run is begun');
$two->send("SELECT zk_job_begin_xact('/xact', $due, '60 s')");
$ensemble->wait_for_queue('/xact', 2);
ok(!$two->answered, 'S264: others wait');
$one->ask('ROLLBACK');
is($two->answer, 't', 'S264: a rollback lets them begin it (and their statement ends it)');
is($one->ask("SELECT zk_job_begin_xact('/xact', $due, '60 s')"), 'f', 'S264: once');

# ---- How long it is from the commit to the mark: until another cluster has the lock.

my @windows;
foreach my $round (1 .. 60)
{
	my $path = "/window/$round";
	$one->ask("SELECT zk_job_begin('$path', $due)");
	$two->send("SELECT zk_lock_acquire('$path')");
	$ensemble->wait_for_queue($path, 2);
	$one->ask('BEGIN');
	my $xid = $one->ask("INSERT INTO work VALUES ('$path') RETURNING pg_current_xact_id()::xid");
	$one->ask("SELECT zk_job_end('$path')");
	$one->ask('COMMIT');
	$two->answer;
	my $granted = $two->ask(
		"SELECT extract(epoch FROM granted_at) * 1e6 FROM zk_locks WHERE path = '$path'");
	my $committed = $one->ask(
		"SELECT extract(epoch FROM pg_xact_commit_timestamp('$xid')) * 1e6");
	push @windows, ($granted - $committed) / 1000;
	$two->ask("SELECT zk_lock_release('$path')");
}
@windows = sort { $a <=> $b } @windows;
note sprintf('from the commit until another cluster has the lock: median %.2f ms, 95%% within %.2f ms, longest %.2f ms',
	@windows[ @windows / 2, @windows * 0.95, -1 ]);
cmp_ok($windows[0], '>', 0, 'S266: the mark follows the commit');
cmp_ok($windows[ @windows / 2 ], '<', 1000, 'S266: soon');

done_testing();
