# The limits of the promises.  Locks are for all databases, and data in a database is
# for that one: runs of jobs (S335), and fences (S336).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(wait_for_cluster);

my $ensemble = ZkEnsemble->new('main');
my $proxy = $ensemble->proxy;
my %node = map {
	$_ => zk_cluster($_, $ensemble,
		settings => { 'zklock.session_timeout' => '10s', restart_after_crash => 'on' })
} qw(one two);
$node{$_}->safe_psql('postgres', 'CREATE TABLE work (step text)') foreach keys %node;
my ($one, $two) = map { ZkPsql->new($node{$_}) } qw(one two);
my $due = "'2026-01-01 03:00+00'";

# ---- S335: a job.

is($one->ask("SELECT zk_job_begin('/job', $due)"), 't', 'a run is begun');
is($one->ask("SELECT zk_job_end('/job')"), 't', 'and ended');
is($two->ask("SELECT zk_job_begin('/job', $due, '20 s')"),
	'f', 'S335: in the other database its mark counts');
$one->ask('DELETE FROM zk_job_runs');
is($two->ask("SELECT zk_job_begin('/job', $due, '20 s')"),
	'f', 'S335: also when the work is lost, which that does not know');
is($one->ask("SELECT zk_job_begin('/job', $due, '20 s')"),
	't', 'S335: the database that it was lost from does');
is($one->ask("SELECT zk_job_end('/job')"), 't', 'and does it again');

# The window: a crash between the commit and the mark.
my $far = ZkPsql->new($node{one}, 'zklock.servers' => $proxy->address);
is($far->ask("SELECT zk_job_begin('/window', $due)"), 't', 'a run is begun');
$proxy->cut_before_request('multi');
$proxy->refuse;
is($far->ask("SELECT zk_job_end('/window')"), 't', 'and committed');
kill 'KILL', $far->pid;
is($two->ask("SELECT zk_job_begin('/window', $due, '60 s')"),
	't', 'S335: another database runs it again');
$proxy->pass;
wait_for_cluster($node{one});
is($two->ask("SELECT zk_job_end('/window')"), 't', 'and ends it');

# ---- S336: a fence.  A holder that has passed it is stopped, and goes on later with its guard off.

my $stale = ZkPsql->new($node{one}, 'zklock.commit_guard' => 'off',
	'zklock.on_lock_loss' => 'report');
$one = ZkPsql->new($node{one});
foreach my $case ([ 'one', $one ], [ 'two', $two ])
{
	my ($name, $next) = @$case;
	$stale->ask($_)
	  foreach 'BEGIN', "SELECT zk_lock_acquire_xact('/fenced')", "SELECT zk_lock_fence('/fenced')",
	  "INSERT INTO work VALUES ('$name')";
	$stale->stop;
	is($next->ask("SELECT zk_lock_acquire('/fenced', '60 s')"),
		't', "$name: the next one acquires the lock while the holder is stopped");
	if ($name eq 'one')
	{
		$next->send("SELECT zk_lock_fence('/fenced') > 0");
		$node{one}->poll_query_until('postgres',
			"SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = ${\$next->pid}");
		ok(!$next->answered, 'S336: in the same database it waits at the fence');
	}
	else
	{
		is($next->ask("SELECT zk_lock_fence('/fenced') > 0"),
			't', 'S336: another database has a fence of its own');
	}
	$stale->continue;
	$stale->ask('COMMIT');
	is($stale->errors, '', 'the stale holder commits');
	is($next->answer, 't', 'S336: then the next one continues') if $name eq 'one';
	$next->ask("SELECT zk_lock_release('/fenced')");
}

done_testing();
