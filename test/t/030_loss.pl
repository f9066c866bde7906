# Lost locks: the holder detects the loss by its clock, before another client can hold
# them, and refuses to commit.
#
# The lease of a lock runs for two thirds of the session timeout.  The holder connects
# through a proxy and the rival does not, so that they can be separated.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main',
	minSessionTimeout => 2000, maxSessionTimeout => 30000);
my $proxy = $ensemble->proxy;
my $node = zk_cluster('holder', $proxy,
	settings => { 'zklock.session_timeout' => '6s' });
my $rival_node = zk_cluster('rival', $ensemble);

$node->safe_psql('postgres', 'CREATE TABLE work (step text)');

my $holder = ZkPsql->new($node);
my $rival = ZkPsql->new($rival_node);

# Was this step committed?
sub committed
{
	my ($step) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM work WHERE step = '$step'");
}

# Give up everything, lost or not.
sub clean_slate
{
	foreach my $session ($holder, $rival)
	{
		$session->ask('ROLLBACK');
		$session->ask('SELECT zk_lock_release_all()');
	}
	return;
}

# ---- A backend that is stopped for longer than its session timeout (S5).

# Stop the holder, let the rival acquire, and continue with no network: all
# that the holder can judge by is its clock.
sub overtake
{
	my ($path, $statement) = @_;
	$holder->stop;
	is($rival->ask("SELECT zk_lock_acquire('$path')"),
		't', "$path: the rival acquires while the holder is stopped");
	$holder->send($statement);
	$proxy->freeze;
	my $start = time;
	$holder->continue;
	$holder->answer;
	my $took = time - $start;
	$proxy->pass;
	is($holder->sqlstate, 'ZKL01', "$path: S5: \"$statement\" fails");
	cmp_ok($took, '<', 5, "$path: and needs no answer to know that");
	return;
}

$holder->ask('BEGIN');
$holder->ask("SELECT zk_lock_acquire_xact('/stopped/xact')");
$holder->ask("INSERT INTO work VALUES ('stopped, xact')");
overtake('/stopped/xact', 'COMMIT');
like(
	$holder->errors,
	qr/lock "\/stopped\/xact" was lost.*DETAIL: .* token \d+ and was lost at \d/s,
	'the message names the lock, the token and the time');
is(committed('stopped, xact'), 0, 'nothing was committed');
is($holder->ask("INSERT INTO work VALUES ('next') RETURNING 1"),
	1, 'the loss of a transaction-scope lock dooms its transaction only');
clean_slate();

$holder->ask("SELECT zk_lock_acquire('/stopped/session')");
$holder->ask('BEGIN');
$holder->ask("INSERT INTO work VALUES ('stopped, session')");
overtake('/stopped/session', 'COMMIT');
is(committed('stopped, session'), 0, 'nothing was committed');
$holder->ask("INSERT INTO work VALUES ('stopped, session, again')");
is($holder->sqlstate, 'ZKL01', 'the next commit fails too');
is(committed('stopped, session, again'), 0, 'and commits nothing');

# S15: release after loss.
my ($theirs) = $rival->ask('SELECT contender FROM zk_locks');
is($holder->ask("SELECT zk_lock_release('/stopped/session')"),
	'f', 'S15: releasing what was lost returns false');
like($holder->errors, qr/^WARNING: +ZKL01: +lock .* was already lost/m,
	'with a warning');
is($holder->ask("INSERT INTO work VALUES ('released') RETURNING 1"),
	1, 'then commits succeed again');
is_deeply([ $ensemble->queue('/stopped/session') ],
	[$theirs], "and the rival's contender is untouched");
like($rival->ask("SELECT zk_lock_verify('/stopped/session')"),
	qr/^\d+$/, 'the rival holds the lock');
clean_slate();

$holder->ask("SELECT zk_lock_acquire('/stopped/first')");
overtake('/stopped/first', "SELECT zk_lock_token('/stopped/first')");
clean_slate();

$holder->ask("SELECT zk_lock_acquire('/stopped/verify')");
overtake('/stopped/verify', "SELECT zk_lock_verify('/stopped/verify')");
clean_slate();

# S94: before any request, nothing reports that it is held.
$holder->ask("SELECT zk_lock_acquire('/stopped/look')");
$holder->ask('BEGIN');
$holder->stop;
is($rival->ask("SELECT zk_lock_acquire('/stopped/look')"),
	't', 'the rival acquires while the holder is stopped');
$proxy->freeze;
$holder->send('SELECT state FROM zk_locks');
$holder->continue;
is($holder->answer, 'lost', 'S94: the view says so at the first look');
$holder->ask('SAVEPOINT a');
foreach my $call ('token', 'verify', 'acquire_xact')
{
	$holder->ask("SELECT zk_lock_$call('/stopped/look')");
	is($holder->sqlstate, 'ZKL01', "S94: zk_lock_$call does not take it for held");
	$holder->ask('ROLLBACK TO a');
}
$proxy->pass;
clean_slate();

# S4: acquiring again what was lost is no re-entrance.
my $old_token = $holder->ask(
	"SELECT zk_lock_acquire('/stopped/again'); SELECT zk_lock_token('/stopped/again')"
) =~ s/.*\n//r;
$holder->stop;
is($rival->ask("SELECT zk_lock_acquire('/stopped/again')"),
	't', 'the rival acquires while the holder is stopped');
$holder->send("SELECT zk_lock_acquire('/stopped/again', '0')");
$holder->continue;
is($holder->answer, '', 'S4: the old holder does not hold it again');
is($holder->sqlstate, 'ZKL01', 'S4: as the statement cannot commit');
$holder->ask("SELECT zk_lock_acquire_xact('/stopped/again', '0')");
is($holder->sqlstate, 'ZKL01',
	'S4: and a transaction-level lock does not hide the loss');
$ensemble->wait_for_queue('/stopped/again', 1);
$holder->send("SELECT zk_lock_acquire('/stopped/again')");
$ensemble->wait_for_queue('/stopped/again', 2);
ok(!$holder->answered, 'S4: the holder waits behind the rival');
$rival->ask("SELECT zk_lock_release('/stopped/again')");
is($holder->answer, 't', 'and gets the lock after it');
like($holder->errors, qr/^WARNING: +ZKL01: +lock .* was already lost/m,
	'with a warning that it had been lost');
cmp_ok($holder->ask("SELECT zk_lock_token('/stopped/again')"),
	'>', $old_token, 'and a new token');
is($holder->ask("SELECT session_count FROM zk_locks"),
	1, 'it is held once: lost acquisitions do not count');
clean_slate();

# The guard can be turned off.
$holder->ask("SET zklock.commit_guard = off");
$holder->ask('BEGIN');
$holder->ask("SELECT zk_lock_acquire_xact('/stopped/off')");
$holder->ask("INSERT INTO work VALUES ('guard off')");
$holder->stop;
is($rival->ask("SELECT zk_lock_acquire('/stopped/off')"),
	't', 'once more the rival acquires');
$holder->continue;
$holder->ask('COMMIT');
is($holder->errors, '', 'commit_guard = off refuses nothing');
is(committed('guard off'), 1, 'and the transaction is committed');
$holder->ask("SET zklock.commit_guard = lease");
clean_slate();

# ---- Stopped for longer than the lease, but not than the session timeout.

my %function = (
	'session' => 'zk_lock_acquire',
	'transaction' => 'zk_lock_acquire_xact');
my %paused =
  map { $_ => ZkPsql->new($node, 'zklock.session_timeout' => '30s') }
  keys %function;

foreach my $scope (keys %paused)
{
	my $session = $paused{$scope};
	$session->ask('BEGIN');
	$session->ask("SELECT $function{$scope}('/paused/$scope')");
	$session->ask("INSERT INTO work VALUES ('paused, $scope')");
	$session->ask("SELECT zk_lock_verify('/paused/$scope')");
	$session->stop;
}
sleep 21;
$_->send('COMMIT') foreach values %paused;
$_->continue foreach values %paused;
$_->answer foreach values %paused;
foreach my $scope (sort keys %paused)
{
	my $session = $paused{$scope};
	is($session->errors, '',
		"$scope scope: after a pause longer than the lease the lock is proved again"
	);
	is(committed("paused, $scope"), 1, 'and the transaction is committed');
	is($session->zk_session->{sessions},
		1, 'the ZooKeeper session has gone on');
	$session->quit;
}

done_testing();
