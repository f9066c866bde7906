# Jobs: one of many sessions begins a run, and only once, whatever happens to the
# sessions.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(wait_for_cluster);

my $ensemble = ZkEnsemble->new('main');
my %node = map {
	$_ => zk_cluster($_, $ensemble,
		settings => {
			'zklock.session_timeout' => '10s',
			max_prepared_transactions => 2,
			restart_after_crash => 'on'
		})
} qw(one two three);
my $fire = '2026-01-01 00:00:00+00';

# The fire time of that run of a job.
sub due
{
	my ($number) = @_;
	return "timestamptz '$fire' + $number * interval '1 minute'";
}

foreach my $name (sort keys %node)
{
	# Run a job unless another session does or did, and report that.
	$node{$name}->safe_psql(
		'postgres', q{
		CREATE TABLE run (path text, fire_time timestamptz);
		CREATE FUNCTION run_job(job text, fire_time timestamptz, timeout interval)
		RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN
			IF NOT zk_job_begin(job, fire_time, timeout) THEN
				RETURN false;
			END IF;
			INSERT INTO run VALUES (job, fire_time);
			RETURN zk_job_end(job);
		END $$;});
}
my %session = map { $_ => ZkPsql->new($node{$_}) } keys %node;
my ($one, $two, $three) = @session{qw(one two three)};

# How often a job has run on all servers, for a fire time or in all.
sub runs
{
	my ($path, $number) = @_;
	my $condition = "path = '$path'"
	  . (defined $number ? ' AND fire_time = ' . due($number) : '');
	my $count = 0;
	$count += $node{$_}->safe_psql('postgres',
		"SELECT count(*) FROM run WHERE $condition")
	  foreach keys %node;
	return $count;
}

# What zk_job_status() shows of that: last run, run under way, its pid.
sub status
{
	my ($path) = @_;
	return $three->ask(
		"SELECT coalesce(extract(epoch FROM last_fire_time - '$fire')::int / 60, -1),"
		  . " coalesce(extract(epoch FROM running_fire_time - '$fire')::int / 60, -1),"
		  . " pid FROM zk_job_status('$path')");
}

# It is to show that now, or soon: the mark of a run follows the commit that ends it.
sub shows
{
	my ($path, $expected, $name) = @_;
	my $status = '';
	wait_for(sub { ($status = status($path)) eq $expected }, "$name: $path");
	is($status, $expected, $name);
	return;
}

# ---- One run after the other.

is(status('/plain'), '-1|-1|', 'of a job that was never run there is nothing');
is($one->ask("SELECT zk_job_begin('/plain', " . due(5) . ')'),
	't', 'a run is begun');
is(status('/plain'), "-1|5|$one->{pid}", 'which is shown, with its runner');
$one->ask("SELECT zk_job_begin('/plain', " . due(5) . ')');
is($one->sqlstate, '55006', 'it cannot be begun again by the same backend');
is($two->ask("SELECT zk_job_begin('/plain', " . due(5) . ", '0')"),
	'f', 'and another session cannot begin it, either');
is($two->ask("SELECT zk_job_begin('/plain', " . due(6) . ", '0')"),
	'f', 'or the next run, while it is in progress');
is($one->ask("SELECT zk_job_end('/plain')"), 't', 'it is ended');
is($one->errors, '', 'without a word');
shows('/plain', '5|-1|', 'which is shown');
is( $three->ask(
		"SELECT ended_by LIKE 'user % cluster one, host _%', ended_at BETWEEN now() - interval '1 h' AND now() + interval '1 h'"
		  . " FROM zk_job_status('/plain')"),
	't|t',
	'by whom, and when');
foreach my $session ($one, $two)
{
	is($session->ask("SELECT zk_job_begin('/plain', " . due(5) . ')'),
		'f', 'S111: it is not run again');
	is($session->ask("SELECT zk_job_begin('/plain', " . due(4) . ')'),
		'f', 'S111: and an earlier one is not, either');
}
is(scalar(my @queue = $ensemble->queue('/plain')), 0,
	'a session that is too late holds nothing');
is($two->ask("SELECT zk_job_begin('/plain', " . due(6) . ", '0')"),
	't', 'the next one is');
is($two->ask("SELECT zk_lock_release('/plain')"), 't', 'and abandoned');
is(status('/plain'), '5|-1|', 'so it is not done');
is($one->ask("SELECT zk_job_begin('/plain', " . due(6) . ", '0')"),
	't', 'and can be taken over');
$one->ask("SELECT zk_job_end('/plain')");

# ---- Who has no business to.

$one->ask("SELECT zk_job_end('/plain')");
is($one->sqlstate, '55000', 'an ended run cannot be ended again');
$one->ask("SELECT zk_lock_acquire('/plain')");
$one->ask("SELECT zk_job_end('/plain')");
is($one->sqlstate, '55000', 'a lock that is only held cannot be ended');
$one->ask("SELECT zk_job_begin('/plain', " . due(7) . ')');
is($one->sqlstate, '55006', 'a lock that is held is no job');
$one->ask("SELECT zk_lock_release('/plain')");
foreach my $case (
	[ "NULL, now()", '22004' ],
	[ "'/plain', NULL", '22004' ],
	[ "'/plain', 'infinity'", '22023' ],
	[ "'/plain', now(), '-1 s'", '22023' ])
{
	$one->ask("SELECT zk_job_begin($case->[0])");
	is($one->sqlstate, $case->[1], "zk_job_begin($case->[0]) fails");
}

# ---- Three servers begin a run at the same time.

my $rounds = 12;
foreach my $round (1 .. $rounds)
{
	my $run = "SELECT run_job('/race', " . due($round) . ", '30 s')";
	$_->send($run, 'quiet') foreach values %session;
	my @answers = sort map { $_->answer } values %session;
	is("@answers", 'f f t', "S111: round $round: one of three runs the job");
	is(runs('/race', $round), 1, "S111: round $round: it has run once");

	# The clock of this one is late, and the job took milliseconds.
	is($two->ask($run), 'f', "S111: round $round: a late session does not run it");
}
is(runs('/race'), $rounds, 'S111: each run was run once in the end');
shows('/race', "$rounds|-1|", 'the last one is shown');

# ---- The end of a run is part of the transaction.

$one->ask("SELECT zk_job_begin('/xact', " . due(1) . ')');
$one->ask('BEGIN');
$one->ask("INSERT INTO run VALUES ('/xact', " . due(1) . ')');
is($one->ask("SELECT zk_job_end('/xact')"), 't', 'a run ends in a transaction');
$one->ask("SELECT zk_job_end('/xact')");
is($one->sqlstate, '55000', 'once');
$one->ask('ROLLBACK');
is(status('/xact'), "-1|1|$one->{pid}", 'which rolls back: the run continues');
is($two->ask("SELECT zk_job_begin('/xact', " . due(1) . ", '0')"),
	'f', 'against others');

$one->ask('BEGIN');
$one->ask('SAVEPOINT a');
$one->ask("INSERT INTO run VALUES ('/xact', " . due(1) . ')');
$one->ask("SELECT zk_job_end('/xact')");
$one->ask('ROLLBACK TO a');
$one->ask('COMMIT');
is(status('/xact'), "-1|1|$one->{pid}",
	'so it does when a subtransaction rolls back');

$one->ask('BEGIN');
$one->ask("INSERT INTO run VALUES ('/xact', " . due(1) . ')');
$one->ask("SELECT zk_job_end('/xact')");
$one->ask("PREPARE TRANSACTION 'job'");
is($one->sqlstate, '0A000', 'a prepared transaction cannot end it');
is(status('/xact'), "-1|1|$one->{pid}", 'the run continues');

$one->ask('BEGIN');
$one->ask("INSERT INTO run VALUES ('/xact', " . due(1) . ')');
$one->ask('SAVEPOINT a');
$one->ask("SELECT zk_job_end('/xact')");
$one->ask('RELEASE a');
is(status('/xact'), "-1|1|$one->{pid}", 'before the commit the run continues');
$two->send("SELECT zk_job_begin('/xact', " . due(1) . ')');
$ensemble->wait_for_queue('/xact', 2);
ok(!$two->answered, 'and others wait');
$one->ask('COMMIT');
is($two->answer, 'f', 'with the commit it has ended');
is(runs('/xact'), 1, 'and the work is done');
shows('/xact', '1|-1|', 'as is shown');

# The backend that has ended a run does not wait for that with its commit.  Below a root
# that is not there the mark takes longest.
foreach my $number (1 .. 5)
{
	my $twice = "SELECT run_job('/twice', " . due($number) . ", '30 s');";
	is( $node{one}->safe_psql('postgres', $twice x 2,
			connstr => $node{one}->connstr('postgres') . " options='-c zklock.root=/again$number'"),
		"t\nf", 'S111: a session that ended a run with its commit cannot begin it again');
}

# ---- The runner dies.

$two->ask("SELECT zk_job_begin('/killed', " . due(1) . ')');
$three->send("SELECT run_job('/killed', " . due(1) . ", '60 s')");
$ensemble->wait_for_queue('/killed', 2);
kill 'KILL', $two->pid;
is($three->answer(60), 't', 'a run whose backend was killed is taken over');
wait_for_cluster($node{two});
is(runs('/killed', 1), 1, 'and has run');
is($one->ask("SELECT run_job('/killed', " . due(1) . ", '0')"),
	'f', 'once');
$two = $session{two} = ZkPsql->new($node{two});

$two->ask("SELECT zk_job_begin('/quit', " . due(1) . ')');
$two->quit;
is($three->ask("SELECT run_job('/quit', " . due(1) . ", '30 s')"),
	't', 'so is one whose backend has just ended');
$two = $session{two} = ZkPsql->new($node{two});

# ---- The lock is lost while the job runs.

$one->ask("SELECT zk_job_begin('/lost', " . due(1) . ')');
$one->ask('BEGIN');
$one->ask("INSERT INTO run VALUES ('/lost', " . due(1) . ')');
$one->stop;
is($two->ask("SELECT run_job('/lost', " . due(1) . ", '60 s')"),
	't', 'S112: a runner that is silent for too long loses the job');
$one->continue;
$one->ask("SELECT zk_job_end('/lost')");
is($one->sqlstate, 'ZKL01', 'S112: and gets an error when it ends it');
$one->ask('COMMIT');
is(runs('/lost', 1), 1, 'S112: its work is not committed');

$one->ask("SELECT zk_job_begin('/deleted', " . due(1) . ')');
my ($contender) = $ensemble->queue('/deleted');
$ensemble->zk->delete("/zklock/deleted/$contender");
$one->wait_until_lost('/deleted');
$one->ask("SELECT zk_job_end('/deleted')");
is($one->sqlstate, 'ZKL01', 'S112: a run whose contender is deleted cannot end');
is(status('/deleted'), '-1|-1|', 'S112: the run is not recorded');
is($one->ask('SELECT 1'), 1, 'the backend is free of it');
is($one->ask("SELECT run_job('/deleted', " . due(1) . ", '0')"),
	't', 'and can begin it again');
is(runs('/deleted'), 1, 'it has run once');

# ---- What the record is, or its lock, is not ours to choose.

$ensemble->zk->set('/zklock/.zklock/records/deleted', "zklock record 1\nrun 1 x");
is(status('/deleted'), '-1|-1|', 'nonsense in the record is no run');
$ensemble->zk->set('/zklock/.zklock/records/deleted',
	"zklock record 1\nrun 9223372036854775807 9223372036854775807 7 1 1 F x\n");
is(status('/deleted'), '-1|-1|', 'and an infinite time is none');
$one->ask("SELECT zk_lock_acquire('/locked')");
is(status('/locked'), '-1|-1|', 'a lock that is held is no job under way');

# ---- A backend that exits as soon as its job is done, as pg_cron's do, while the ensemble
# takes its time, or the connection breaks.

my $proxy = $ensemble->proxy;
my %far = ('zklock.servers' => $proxy->address, 'zklock.session_timeout' => '10s');
my @cases = (
	[ '/far/away/slow', sub { $proxy->delay(300) }, sub { } ],
	[
		'/far/away/cut',
		sub { $proxy->cut_before_request('multi'); $proxy->refuse; },
		# no connection for longer than an exit takes else
		sub { sleep 1; $proxy->pass; }
	]);
foreach my $case (@cases)
{
	my ($path, $befall, $relent) = @$case;
	my $late = ZkPsql->new($node{one}, %far);
	$late->ask('BEGIN');
	is($late->ask("SELECT run_job('$path', " . due(1) . ", '30 s')"),
		't', "$path: a job has run");
	$befall->();
	$late->ask('COMMIT');
	$late->quit;
	$relent->();
	is($two->ask("SELECT run_job('$path', " . due(1) . ", '60 s')"),
		'f',
		'S179: it is not run again, for its end was recorded before the backend was gone');
	is(runs($path), 1, 'S179: it has run once');
	$proxy->pass;
	$proxy->delay(0);
}

done_testing();
