# When a lock is lost, the running statement is cancelled, with the reason, and nothing
# else is (S330).  With zklock.on_lock_loss = report it continues, and its commit fails.
#
# Locks are lost in two ways: another client expires the ZooKeeper session, which is
# known immediately, or the network fails until the lease has run out.

use strict;
use warnings;

use DBI;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main',
	minSessionTimeout => 2000, maxSessionTimeout => 20000);
my $proxy = $ensemble->proxy;
my $node = zk_cluster('main', $proxy,
	settings => {
		'zklock.session_timeout' => '8s',
		'zklock.on_lock_loss' => 'cancel'
	});

$node->safe_psql('postgres', 'CREATE TABLE work (step text)');
$node->safe_psql('postgres',
	'CREATE TABLE rows AS SELECT n, 0 AS x FROM generate_series(1, 100000) n');

my $holder = ZkPsql->new($node);
my $other = ZkPsql->new($node);
my $observer = ZkPsql->new($node);

# Expire the holder's ZooKeeper session, which was noted when it took its lock.
my $zk_session;

sub expire
{
	$proxy->expire($ensemble->zk, $zk_session);
	return;
}

# Take a lock of transaction scope, in a transaction that has written.
sub begin_work
{
	my ($path, $settings) = @_;
	$holder->ask('ROLLBACK');
	$holder->ask('SELECT zk_lock_release_all()');
	$holder->ask($settings) if $settings;
	$holder->ask('BEGIN');
	is($holder->ask("SELECT zk_lock_acquire_xact('$path')"),
		't', "$path: acquired");
	$zk_session = $holder->ask('SELECT session_id FROM zk_session()');
	$holder->ask("INSERT INTO work VALUES ('$path')");
	return;
}

sub committed
{
	my ($path) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM work WHERE step = '$path'");
}

# The statement that runs has been cancelled, and its error says why.
sub is_cancelled
{
	my ($path, $what) = @_;
	is($holder->sqlstate, 'ZKL01', "S330: $what: cancelled");
	like($holder->errors, qr/lock "\Q$path\E" was lost\n.*DETAIL: .* It had token \d+ and was lost at \d/s,
		"$what: the error names the lock and its token");
	unlike($holder->errors, qr/user request/, "$what: no user requested it");
	return;
}

# ---- Whatever it is that runs.

$other->ask('BEGIN');
$other->ask('UPDATE rows SET x = 1 WHERE n = 1');

my %busy = (
	'a sleep' => 'SELECT pg_sleep(300)',
	'a query' => 'SELECT count(*) FROM generate_series(1, 1000000000000)',
	'a join' => 'SELECT count(*) FROM rows a, rows b, rows c',
	'PL/pgSQL' => 'DO $$ DECLARE i bigint := 0; BEGIN
		LOOP i := i + 1; END LOOP; END $$',
	'PL/pgSQL that catches errors' => 'DO $$ BEGIN
		LOOP
			BEGIN PERFORM pg_sleep(0.01);
			EXCEPTION WHEN OTHERS THEN NULL; END;
		END LOOP; END $$',
	'COPY' => "COPY (SELECT generate_series(1, 1000000000000)) TO '/dev/null'",
	'a wait for a row' => 'UPDATE rows SET x = 2 WHERE n = 1',
	'a wait for a ZooKeeper lock' => "SELECT zk_lock_acquire('/other')");

is($other->ask("SELECT zk_lock_acquire('/other')"), 't', 'another lock is taken');
foreach my $what (sort keys %busy)
{
	my $path = '/busy/' . ($what =~ tr/a-zA-Z/_/cr);
	begin_work($path);
	$holder->send($busy{$what});
	$holder->wait_until_busy($observer);
	expire();
	$holder->answer;
	is_cancelled($path, "$what, expired");
	$holder->ask('ROLLBACK');
	is(committed($path), 0, "$what: nothing was committed");
}

# Only a handler of query_canceled sees the cancel itself, and that names the lock, too.
begin_work('/handler');
$holder->send(q{DO $$ BEGIN PERFORM pg_sleep(300);
	EXCEPTION WHEN query_canceled THEN RAISE NOTICE 'caught: %', SQLERRM; END $$});
$holder->wait_until_busy($observer, "wait_event = 'PgSleep'");
expire();
$holder->answer;
like(
	$holder->errors,
	qr{NOTICE: .*caught: canceling statement because lock "/handler" was lost$}m,
	'S321: a handler of query_canceled can tell for which lock that is');
is_cancelled('/handler', 'S321: and then');
$holder->ask('ROLLBACK');

# Of several locks, the cancel names the lost one.
begin_work('/kept');
$holder->ask("SELECT zk_lock_acquire('/kept/' || n) FROM generate_series(1, 9) n");
$holder->ask("SELECT zk_semaphore_acquire('/permit', 2)");
$holder->send(q{DO $$ BEGIN PERFORM pg_sleep(300);
	EXCEPTION WHEN query_canceled THEN RAISE NOTICE 'caught: %', SQLERRM; END $$});
$holder->wait_until_busy($observer, "wait_event = 'PgSleep'");
my ($permit) = $ensemble->queue('/permit');
$observer->ask("SELECT zk_lock_break('/permit', '$permit')");
$holder->answer;
like(
	$holder->errors,
	qr{NOTICE: .*caught: canceling statement because semaphore "/permit" was lost$}m,
	'S321: a handler can tell for which semaphore that is');
is($holder->sqlstate, 'ZKL01', 'S321: and then it is cancelled');
$holder->ask($_) foreach 'ROLLBACK', "SELECT zk_semaphore_release('/permit')";
is($holder->ask("SELECT count(*) FROM zk_locks WHERE state = 'held'"), '9', 'the other locks are held');
$holder->ask('SELECT zk_lock_release_all()');

# VACUUM is not for transactions: a lock of session scope, lost without network.
$holder->ask("SELECT zk_lock_acquire('/busy/vacuum')");
$holder->ask('SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1');
$holder->send('VACUUM (DISABLE_PAGE_SKIPPING) rows');
$holder->wait_until_busy($observer, "query LIKE 'VACUUM%'");
$proxy->freeze;
$holder->answer;
$proxy->pass;
is_cancelled('/busy/vacuum', 'VACUUM, cut off');
$holder->ask('SELECT zk_lock_release_all()');

# A COPY that waits for the client reads nothing else until that says something.  The
# contender is broken: it goes when its owner has heard of it.
my $client = DBI->connect('dbi:Pg:dbname=postgres;host=' . $node->host . ';port=' . $node->port,
	undef, undef, { RaiseError => 1, PrintError => 0 });
$client->do($_) foreach 'BEGIN', "SELECT zk_lock_acquire_xact('/copy')";
$client->do('COPY rows FROM STDIN');
my ($contender) = $ensemble->queue('/copy');
$observer->ask("SELECT zk_lock_break('/copy', '$contender')");
$ensemble->wait_for_queue('/copy', 0);
wait_for(
	sub {
		$observer->ask('SELECT state, wait_event FROM pg_stat_activity'
			  . " WHERE pid = $client->{pg_pid}", 'quiet') eq 'active|ClientRead';
	},
	'the COPY to have heard of it, too');
pass('S330: a COPY continues to wait when the lock is lost');
$client->pg_putcopydata("0\t0\n");
ok(!eval { $client->pg_putcopyend }, 'S330: and fails when the client continues');
is($client->state, 'ZKL01', 'S330: for the loss');
$client->disconnect;

# An exception block that does not handle the cancel releases the lock before the statement
# ends.
$holder->send(q{DO $$ BEGIN PERFORM zk_lock_acquire_xact('/block'); PERFORM pg_sleep(300);
	EXCEPTION WHEN OTHERS THEN NULL; END $$});
$holder->wait_until_busy($observer, "wait_event = 'PgSleep'");
($contender) = $ensemble->queue('/block');
$observer->ask("SELECT zk_lock_break('/block', '$contender')");
$holder->answer;
is($holder->sqlstate, 'ZKL01', 'S330: a lock of an exception block: cancelled');
like($holder->errors, qr{lock "/block" was lost in this transaction\n.*DETAIL: .* It had token \d+}s,
	'S330: the error names the lock, and its token');

# How long after the loss?  The error says when that was.
begin_work('/late');
$holder->send('SELECT pg_sleep(300)');
$holder->wait_until_busy($observer, "wait_event = 'PgSleep'");
$proxy->freeze;
$holder->answer;
my $after = $observer->ask('SELECT clock_timestamp()');
$proxy->pass;
is_cancelled('/late', 'a sleep, cut off');
my ($lost_at) = $holder->errors =~ /lost at (.*)\.$/m;
my $late = $observer->ask(
	"SELECT extract(epoch FROM '$after'::timestamptz - '$lost_at')");
note "cancelled $late s after the loss";
cmp_ok($late, '<', 5, 'cancelled right after the loss');

# ---- report: nothing is cancelled, but the commit is refused.  The loss is known
# after a quarter of the session timeout, if the server leaves the connection open.

begin_work('/report', "SET zklock.on_lock_loss = 'report'");
$holder->send('SELECT count(*) FROM generate_series(1, 3), pg_sleep(10)');
$holder->wait_until_busy($observer, "wait_event = 'PgSleep'");
expire();
is($holder->answer, 3, 'S330: report: the statement continues');
wait_for(
	sub {
		$holder->ask("SELECT state FROM zk_locks WHERE path = '/report'", 1) eq
		  'lost';
	},
	'the loss to be known');
$holder->ask('COMMIT');
is($holder->sqlstate, 'ZKL01', 'report: the commit fails');
is(committed('/report'), 0, 'report: nothing was committed');
$holder->ask('RESET zklock.on_lock_loss');

# ---- Nothing else is cancelled.

# The next statement, when nothing ran.  The loss may meet one that asks for it, which
# is cancelled then, as it should be.
my $met;
do
{
	begin_work('/idle');
	expire();
	wait_for(
		sub {
			my $state =
			  $holder->ask("SELECT state FROM zk_locks WHERE path = '/idle'", 1);
			$met = $holder->sqlstate eq 'ZKL01';
			return $met || $state eq 'lost';
		},
		'the loss to be known');
} while ($met);
is($holder->ask('SELECT count(*) FROM generate_series(1, 3), pg_sleep(0.1)'),
	3, 'S330: a statement after the loss is not cancelled');
$holder->ask('COMMIT');
is($holder->sqlstate, 'ZKL01', 'but the commit fails');

# A transaction that has acquired a lock may rely on it, though it has done nothing else:
# to release what was lost does not clear it.
$holder->ask('ROLLBACK');
$holder->ask('BEGIN');
$holder->ask("SELECT zk_lock_acquire('/only')");
($contender) = $ensemble->queue('/only');
$observer->ask("SELECT zk_lock_break('/only', '$contender')");
wait_for(sub { $holder->ask("SELECT state FROM zk_locks WHERE path = '/only'", 1) eq 'lost' },
	'the loss to be known');
is($holder->ask("SELECT zk_lock_release('/only')"), 'f', 'a lost lock is released');
$holder->ask('COMMIT');
is($holder->sqlstate, 'ZKL01', 'S207: the transaction that has acquired it cannot commit');
is($holder->ask('SELECT 1'), 1, 'S207: the next one can');

# A cancel by the user stays one.
begin_work('/user');
$holder->send('SELECT pg_sleep(300)');
$holder->wait_until_busy($observer, "wait_event = 'PgSleep'");
kill 'INT', $holder->pid;
$holder->answer;
is($holder->sqlstate, '57014', "S330: a user's cancel is a user's cancel");
$holder->ask('ROLLBACK');

# A loss at any moment of release and of what comes after it.  It is known some time
# after the session has expired: the library waits for a sixtieth of the timeout before
# it connects again.  If it meets the release itself, that is cancelled as whatever
# runs, and the lock not released.  How long that takes depends on the machine: the
# release comes later the next time if the loss came after it, and else sooner.
my %outcome;
my $before = 0.2;
foreach (1 .. 30)
{
	$holder->ask("SELECT zk_lock_acquire('/storm')");
	$zk_session = $holder->ask('SELECT session_id FROM zk_session()');
	$holder->send("SELECT pg_sleep($before);SELECT zk_lock_release_all();"
		  . 'SELECT count(*) FROM generate_series(1, 3), pg_sleep(0.2)');
	sleep rand 0.1;
	expire();
	my $answer = $holder->answer;
	my $released = $answer =~ /^[01]$/m;
	$before *= $released ? 1.25 : 0.8;
	$outcome{ !$released ? 'met the release' : $answer =~ /^3$/m ? 'went on' : 'cancelled' }++;
	$outcome{$_}++ foreach $holder->errors =~ /^ERROR: +(\w+)/mg;
	$holder->ask('SELECT zk_lock_release_all()');
}
note explain \%outcome;
is($outcome{cancelled} // 0, 0, 'S330: statements after the release continued');
cmp_ok($outcome{ZKL01} // 0, '>', 3, 'statements before it were cancelled');
is_deeply([ grep { !/^(went on|met the release|ZKL01)$/ } keys %outcome ],
	[], 'and no other error came of it');

done_testing();
