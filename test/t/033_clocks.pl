# Clocks that step: the wall clock, which must not matter, and all clocks, as in a
# suspended machine, which must.
#
# Only the clocks of the holder's cluster step; the rival's and the ensemble's continue.
# All sessions stay connected.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);
use ZkClock;
use ZkEnsemble;
use ZkPsql;

# Seconds.  The lease runs for two thirds of it.
my $session_timeout = 30;

my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my %settings = ('zklock.session_timeout' => "${session_timeout}s");
my $node = zk_cluster('holder', $ensemble,
	start => 0,
	settings => \%settings);
my $clock = ZkClock->new('holder');
$clock->start_cluster($node);
$node->safe_psql('postgres',
	'CREATE EXTENSION zklock; CREATE TABLE work (step text)');
my $rival_node = zk_cluster('rival', $ensemble, settings => \%settings);

my $holder = ZkPsql->new($node);
my $waiter = ZkPsql->new($node);
my $rival = ZkPsql->new($rival_node);

sub monotonic { return clock_gettime(CLOCK_MONOTONIC); }

# What the holder's cluster has for the time of day, in seconds.
sub wall_clock
{
	return $waiter->ask('SELECT extract(epoch FROM clock_timestamp())');
}

# Begin a transaction that works under a lock of transaction scope.
sub work_under
{
	my ($path) = @_;
	$holder->ask('BEGIN');
	is($holder->ask("SELECT zk_lock_acquire_xact('$path')"),
		't', "$path: acquired");
	$holder->ask("INSERT INTO work VALUES ('$path')");
	return;
}

sub committed
{
	my ($path) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM work WHERE step = '$path'");
}

# Suspend for longer than the lease, after which the ensemble does not answer.  The
# holder stands still meanwhile, as in a suspended machine: what it asked for while its
# lease ran, and was not told, would lose its lock at once.
sub suspend_unanswered
{
	$holder->stop;
	$ensemble->pause;
	$clock->suspend($session_timeout * 2 / 3 + 1);
	$holder->continue;
	return;
}

# ---- The wall clock is set forward and back while a session waits (S88).

# All are connected before the time of a wait runs.
my $limit = 8;
$_->ask("SELECT zk_lock_acquire('/warm'), zk_lock_release('/warm')")
  foreach $holder, $waiter, $rival;
$ensemble->wait_for_queue('/warm', 0);

foreach my $step (3600, -7200)
{
	my $path = "/wall/wait$step";
	$rival->ask("SELECT zk_lock_acquire('$path')");
	$holder->send("SELECT zk_lock_acquire('$path')");
	$ensemble->wait_for_queue($path, 2);
	my $before = wall_clock();
	my $start = monotonic();
	$waiter->send("SELECT zk_lock_acquire('$path', '$limit s')");
	$ensemble->wait_for_queue($path, 3);
	$clock->set_wall_clock($step);
	is($waiter->answer, 'f', "S88: $step s: the wait times out");
	my $took = monotonic() - $start;
	cmp_ok($took, '>=', $limit, "S88: $step s: not before its time");
	cmp_ok($took, '<', $limit + 14, "S88: $step s: and not long after");
	cmp_ok(abs(wall_clock() - $before - $step),
		'<', 60, "$step s: the wall clock was set");
	$rival->ask("SELECT zk_lock_release('$path')");
	is($holder->answer, 't', "S88: $step s: the waiter is granted");
	$holder->ask("SELECT zk_lock_release('$path')");
}

# ---- ... and while a session holds, for longer than a lease.

work_under('/wall/hold');
my $token = $holder->ask("SELECT zk_lock_token('/wall/hold')");
my $until = monotonic() + $session_timeout * 2 / 3 + 1;
my $step = 3600;
wait_for(
	sub {
		$clock->set_wall_clock($step);
		$step = -$step;
		$holder->ask(
			"SELECT state FROM zk_locks WHERE path = '/wall/hold'", 'quiet')
		  eq 'held'
		  or die 'S88: the lock is not held any more';
		return monotonic() > $until;
	},
	'the first lease to be over',
	$session_timeout * 4);
is($holder->ask("SELECT zk_lock_verify('/wall/hold')"),
	$token, 'S88: a lock outlives any setting of the wall clock');
$holder->ask('COMMIT');
is(committed('/wall/hold'), 1, 'S88: and its transaction commits');

# ---- Suspended for longer than the session timeout (S6).

work_under('/suspended/long');
$token = $holder->ask("SELECT zk_lock_token('/suspended/long')");
$rival->send("SELECT zk_lock_acquire('/suspended/long')");
$ensemble->wait_for_queue('/suspended/long', 2);
$clock->suspend($session_timeout + 1);
$holder->ask('COMMIT');
is($holder->sqlstate, 'ZKL01',
	'S6: no commit after a suspension beyond the session timeout');
is(committed('/suspended/long'), 0, 'S6: nothing was committed');
is($rival->answer, 't', 'S6: the waiter has the lock');
cmp_ok($rival->ask("SELECT zk_lock_token('/suspended/long')"),
	'>', $token, 'S6: with a greater token');
$rival->ask("SELECT zk_lock_release('/suspended/long')");
work_under('/suspended/long');
$holder->ask('COMMIT');
is(committed('/suspended/long'), 1, 'S6: the next transaction commits');

# An idle backend detects the loss without a statement.
$holder->ask("SELECT zk_lock_acquire('/suspended/idle')");
$clock->suspend($session_timeout + 1);
$ensemble->wait_for_queue('/suspended/idle', 0);
is($holder->lock_state('/suspended/idle'),
	'lost', 'S6: an idle backend loses its locks by the clock');
$holder->ask("SELECT zk_lock_release('/suspended/idle')");

# ---- Suspended for longer than the lease, but not so long that the ZooKeeper
# session can have expired: it is asked once more.

work_under('/suspended/short');
$holder->ask("SELECT zk_lock_verify('/suspended/short')");
$clock->suspend($session_timeout * 2 / 3 + 1);
$holder->ask('COMMIT');
is($holder->sqlstate, '', 'a lease that ran out is renewed at commit');
is(committed('/suspended/short'), 1, 'which then succeeds');

work_under('/suspended/short/frozen');
$holder->ask("SELECT zk_lock_verify('/suspended/short/frozen')");
suspend_unanswered();
is($holder->ask('SELECT state FROM zk_locks'),
	'unproved', 'S94: until it is, nothing says that it is held');
my $start = monotonic();
$holder->ask('COMMIT');
my $took = monotonic() - $start;
$ensemble->resume;
is($holder->sqlstate, 'ZKL01', 'not if the ensemble does not answer');
cmp_ok($took, '<', $session_timeout / 3 + 5,
	'which is waited for until the session may have expired, no longer');
is(committed('/suspended/short/frozen'), 0, 'nothing was committed');

# ---- The same, but the lock is released before any answer: as it is unknown whether
# it was held until then, the transaction is doomed.

sub give_up_unproved
{
	my ($what, $acquire, $give_up) = @_;
	$holder->ask($acquire);
	$holder->ask("SELECT zk_lock_verify('/unproved')");
	suspend_unanswered();
	is($holder->ask("SELECT state FROM zk_locks WHERE path = '/unproved'"),
		'unproved', "$what: it is not known whether the lock is held");
	$holder->ask($give_up);
	is($holder->sqlstate, '', "$what: it is released");
	$ensemble->resume;
	return;
}

foreach my $case (
	[ 'release', "SELECT zk_lock_acquire('/unproved')", "SELECT zk_lock_release('/unproved')" ],
	[ 'release of all', "SELECT zk_lock_acquire('/unproved')", 'SELECT zk_lock_release_all()' ],
	[ 'closing', "SELECT zk_lock_acquire('/unproved')", 'SELECT zk_session_close()' ],
	[ 'savepoint', "SAVEPOINT a; SELECT zk_lock_acquire_xact('/unproved')", 'ROLLBACK TO a' ])
{
	my ($what, @statements) = @$case;
	$holder->ask("BEGIN; INSERT INTO work VALUES ('$what')");
	give_up_unproved($what, @statements);
	$holder->ask('COMMIT');
	is($holder->sqlstate, 'ZKL01', "S215: $what: the commit is refused");
	like($holder->errors, qr/lock "\/unproved" was lost in this transaction.*(?:lease expired before ZooKeeper confirmed it|ZooKeeper (?:did|had) not confirm)/s,
		"S215: $what: and says why");
	is(committed($what), 0, "S215: $what: nothing was committed");
	$holder->ask("INSERT INTO work VALUES ('after $what')");
	is(committed("after $what"), 1, "S215: $what: the next transaction commits");
}

# A transaction that has done nothing yet has not relied on it.
give_up_unproved('before', "SELECT zk_lock_acquire('/unproved')",
	"BEGIN; SELECT zk_lock_release('/unproved')");
$holder->ask("INSERT INTO work VALUES ('before'); COMMIT");
is(committed('before'), 1, 'S215: a lock that was released first does not matter');

# ---- A wait goes on through a suspension.

$rival->ask("SELECT zk_lock_acquire('/suspended/wait')");
$waiter->send("SELECT zk_lock_acquire('/suspended/wait')");
$ensemble->wait_for_queue('/suspended/wait', 2);
$clock->suspend(2 * $session_timeout);
$rival->ask("SELECT zk_lock_release('/suspended/wait')");
is($waiter->answer, 't', 'S6: a waiter that waited through it is granted');
like($waiter->ask("SELECT zk_lock_verify('/suspended/wait')"),
	qr/^\d+$/, 'S6: and holds the lock');

done_testing();
