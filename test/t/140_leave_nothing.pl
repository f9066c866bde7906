# The remains in ZooKeeper of a backend that ends right after it released locks: none
# (S250, S251).  A thousand backends, each with up to a hundred locks; and every way to
# end.
#
# The session timeout is longer than the test, so anything that exists after a backend's
# end was left behind.
#
# Takes long: a thousand backends start and end.

use strict;
use warnings;

use IPC::Run ();
use List::Util qw(max min sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(gave_up);

my $ensemble =
  ZkEnsemble->new('main', tick_time => 6000, maxSessionTimeout => 120000);
my $node = zk_cluster(
	'main',
	$ensemble,
	settings => {
		max_connections => 120,
		max_prepared_transactions => 2,
		'zklock.session_timeout' => '120s',
		'zklock.connect_timeout' => '60s'
	});

# The processes of the backends that there are.
sub backends
{
	my $postmaster = $node->{_pid};
	my @children =
	  split ' ', slurp_file("/proc/$postmaster/task/$postmaster/children");
	return grep {
		my $title = '';
		if (open my $file, '<', "/proc/$_/cmdline")
		{
			$title = <$file> // '';
			close $file;
		}
		$title =~ /\[local\]/;
	} @children;
}

# The contenders that there are, and ZooKeeper sessions, less the probe's, as the server
# shows them.
sub remains
{
	my $dump = $ensemble->four_letter(1, 'dump');
	my @contenders = $dump =~ m{^\s(/zklock/\S+)}mg;
	return (scalar @contenders, $ensemble->mntr(1)->{global_sessions} - 1);
}

# How soon after the end of a backend nothing is to be left of it, in seconds; and for
# how long that is looked for again, so that the machine's speed does not decide.
my $soon = 0.1;
my $late = 5;

# What is left already, by an earlier failure; and how many backends have said that they
# could not close their session, as the server took more than half a second for that.
my @known = (0, 0);
my $slow = 0;

# How much is left 100 ms after the last backend has ended, and how many sessions much
# later of which no backend has said that they would be.
sub left_behind
{
	my ($what) = @_;
	wait_for(sub { !backends() }, 'all backends to end', 120);
	sleep $soon;
	my @soon = remains();
	my @late = @soon;
	my $deadline = time + $late;
	while (sum0(@late) > sum0(@known) && time < $deadline)
	{
		sleep 0.05;
		@late = remains();
	}
	my $said = gave_up($node, 0) - $slow;
	note sprintf '%s: %d contenders and %d sessions are left; %d and %d later,'
	  . ' %d announced', $what, @soon, @late, $said;

	# What an earlier failure has left may have expired meanwhile.
	my @more = map { max(0, $_) } (sum0(@soon) - sum0(@known), $late[1] - $known[1] - $said);
	@known = @late;
	$slow += $said;
	return @more;
}

# Let backends end in some way, a few times; more often on a machine that is too busy.
sub nothing_is_left
{
	my ($what, $round) = @_;
	my (@soon, @late);
	while (@soon < 2 || (min(@soon) > 0 && @soon < 8))
	{
		$round->();
		my ($soon_left, $late_left) = left_behind($what);
		push @soon, $soon_left;
		push @late, $late_left;
	}
	is(min(@soon), 0, "$what: nothing is left 100 ms after the end");
	is(sum0(@late), 0, "$what: no session is left, each time");
	return;
}

# Start a psql that executes these statements, one after the other, and goes on after
# errors.
my $serial = 0;
my $said = '';

sub start_psql
{
	my ($parameters, @statements) = @_;
	my $output = '';
	$serial++;
	s/#/$serial/g foreach @statements;
	my $run = IPC::Run::start(
		[
			'psql', '-XqAt',
			(map { ('-c', $_) } @statements),
			$node->connstr('postgres') . " options='$parameters'"
		],
		'>', \$output, '2>&1');
	return { run => $run, output => \$output };
}

# Several at a time, until all have ended.
sub run_psql
{
	my @psql = map { start_psql(@_) } 1 .. 4;
	$_->{run}->finish foreach @psql;
	$said .= join '', map { ${ $_->{output} } } @psql;
	return;
}

# What they said of errors, each once, since that was asked last.
sub errors
{
	my %errors = map { $_ => 1 } $said =~ /^(?:ERROR|FATAL): +(.*)/mg;
	$said = '';
	return join '; ', sort keys %errors;
}

$ensemble->zk;

# ---- A thousand, each with up to a hundred locks, which are acquired one after the other
# or together.

my $storm = $node->basedir . '/storm.sql';
append_to_file(
	$storm, q{
	\set n random_exponential(1, 100, 8)
	\set own random(1, 1000000000)
	BEGIN;
	\if random(1, 2) = 1
		SELECT count(zk_lock_acquire_xact('/storm/' || :own || '/' || i))
			FROM generate_series(1, :n) i;
	\else
		SELECT zk_lock_acquire_xact(array_agg('/storm/' || :own || '/' || i))
			FROM generate_series(1, least(:n, 60)) i;
	\endif
	COMMIT;
});

my ($best, $total, $ended) = (undef, 0, 0);
foreach my $wave (1 .. 10)
{
	my ($output, $errors);
	IPC::Run::run(
		[
			'pgbench', '--no-vacuum', '--connect', '--file', $storm,
			'--client', 20, '--jobs', 2, '--transactions', 5,
			'--host', $node->host, '--port', $node->port, 'postgres'
		],
		'>', \$output, '2>', \$errors);
	my ($processed) = $output =~ m{processed: (\d+)/100};
	$ended += $processed // 0;
	note $errors if ($processed // 0) != 100;
	my ($soon_left, $late_left) = left_behind("wave $wave");
	$best = min(grep { defined } $best, $soon_left);
	$total += $late_left;
}
is($ended, 1000, 'S250: a thousand backends have come and gone');
is($best, 0, 'S250: nothing is left of them 100 ms after the end');
is($total, 0, 'S250: no session is left of any of them');

# ---- Every way to end.  A "#" stands for a number that is a backend's own.

my $acquire =
  q{SELECT count(zk_lock_acquire('/end/#/' || i)) FROM generate_series(1, 60) i};
my $acquire_xact =
  q{SELECT count(zk_lock_acquire_xact('/end/#/' || i)) FROM generate_series(1, 60) i};
my $terminate = 'SELECT pg_terminate_backend(pg_backend_pid())';
my $terminated = 'terminating connection due to administrator command';
my $cancelled = 'canceling statement due to statement timeout';
my %ends = (
	'COMMIT' => [ '', 'BEGIN', $acquire_xact, 'COMMIT' ],
	'ROLLBACK' => [ '', 'BEGIN', $acquire_xact, 'ROLLBACK' ],
	'an error' => [ 'division by zero', 'BEGIN', $acquire_xact, 'SELECT 1/0' ],
	'a group' => [
		'', 'BEGIN',
		q{SELECT zk_lock_acquire_xact(array_agg('/end/#/' || i)) FROM generate_series(1, 60) i},
		'COMMIT'
	],
	'DISCARD ALL' => [ '', $acquire, 'DISCARD ALL' ],
	'zk_lock_release_all' => [ '', $acquire, 'SELECT zk_lock_release_all()' ],
	'zk_session_close' => [ '', $acquire, 'SELECT zk_session_close()' ],
	'locks that are held' => [ '', $acquire ],
	'shared locks and permits' => [
		'',
		$acquire =~ s/i\)\) FROM/i, shared => true)) FROM/r,
		q{SELECT zk_semaphore_acquire('/end-semaphore', 100)}, 'DISCARD ALL'
	],
	'the end of a job' => [
		'',
		q{SELECT zk_job_begin('/end-job/#', now())},
		q{SELECT zk_job_end('/end-job/#')}
	],
	'new settings' => [
		'', 'BEGIN', $acquire_xact, 'COMMIT',
		q{SET zklock.session_timeout = '110s'},
		q{SELECT zk_lock_acquire('/end-new/#')}
	],
	'a cancelled look at all locks' => [
		$cancelled,
		$acquire =~ s/60/300/r,
		q{SET statement_timeout = '2ms'},
		q{SELECT count(*) FROM zk_lock_tree()}
	],
	'a cancelled acquisition' => [
		$cancelled, q{SELECT zk_lock_acquire('/end/#/0')},
		q{SET statement_timeout = '60ms'}, $acquire =~ s/60/3000/r
	],
	'pg_terminate_backend' => [ $terminated, 'BEGIN', $acquire_xact, 'COMMIT', $terminate ],
	'pg_terminate_backend in a transaction' =>
	  [ $terminated, 'BEGIN', $acquire_xact, $terminate ],
);
foreach my $end (sort keys %ends)
{
	my ($errors, @statements) = @{ $ends{$end} };
	nothing_is_left("S251: $end", sub { run_psql('', @statements); });
	is(errors(), $errors, 'S251: and nothing but that has happened');
}

# A session that is just beginning is waited for, for a quarter of a second.  Should the
# machine be too slow for that, it is tried again, with ever fewer.
sub no_session_is_left
{
	my ($what, $start) = @_;
	my $left;
	foreach my $number (20, 20, 10, 5, 2, 1, 1, 1)
	{
		my @psql = map { $start->($_) } 1 .. $number;
		$_->{run}->finish foreach @psql;
		(undef, $left) = left_behind($what);
		last if $left == 0;
	}
	is($left, 0, "$what: no session is left");
	return;
}

no_session_is_left('S251: a session ahead of the first lock',
	sub { return start_psql('-c zklock.preconnect=on', 'SELECT 1') });
no_session_is_left(
	'S251: a cancel while the first connection is made',
	sub {
		my ($milliseconds) = @_;
		return start_psql("-c statement_timeout=${milliseconds}ms", $acquire);
	});
nothing_is_left(
	'S251: idle_session_timeout',
	sub {
		run_psql('-c idle_session_timeout=1s', 'BEGIN', $acquire_xact, 'COMMIT',
			'\! sleep 1.5');
	});
nothing_is_left(
	'S251: the death of a client',
	sub {
		my @psql =
		  map { start_psql('-c client_connection_check_interval=10ms', $acquire =~ s/60/2000/r) }
		  1 .. 4;
		wait_for(sub { (remains())[0] > 200 }, 'them to be at work');
		$_->{run}->kill_kill foreach @psql;
	});
foreach my $mode (qw(smart fast))
{
	nothing_is_left(
		"S251: pg_ctl stop -m $mode",
		sub {
			my @psql =
			  map { start_psql('', ('BEGIN', $acquire_xact, 'COMMIT') x 20) } 1 .. 4;
			wait_for(sub { (remains())[0] > 50 }, 'them to be at work');
			$node->stop($mode);
			$_->{run}->finish foreach @psql;
			$node->start;
		});
}

done_testing();
