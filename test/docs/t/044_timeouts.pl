# What doc/howto-timeouts.md says about each timeout, beyond the SQL that it shows: how each
# one ends a wait or a session, and what becomes of the locks (S434).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my $node = zk_cluster(
	'db1',
	$ensemble,
	settings => {
		'zklock.session_timeout' => '60s',
		'zklock.connect_timeout' => '60s',
		deadlock_timeout => '50ms',
		log_lock_waits => 'on'
	});
my ($holder, $waiter) = map { ZkPsql->new($node) } 1 .. 2;
is($holder->ask(q{SELECT zk_lock_acquire('/a')}), 't', 'a session holds a lock');

# A call, with settings: what it returns, or the SQLSTATE.
sub result
{
	my ($call, @settings) = @_;
	my $answer = $waiter->ask(join '; ', 'BEGIN', (map { "SET LOCAL $_" } @settings), "SELECT $call");
	my $state = $waiter->sqlstate;
	$waiter->ask('ROLLBACK');
	return $state || $answer;
}

# ---- Waits.

my $call = q{zk_lock_acquire('/a'};
is(result("$call, '2 s')"), 'f', 'S434: the timeout of the call: false');
is(result("$call, '0')"), 'f', 'S434: a timeout of zero: false');
is(result("$call, make_interval(secs => 2))"), 'f', 'S434: seconds as an interval');
is(result("$call)", 'lock_timeout = 50'), '55P03', 'S434: lock_timeout');
is(result("$call)", 'statement_timeout = 50'), '57014', 'S434: statement_timeout');
is(result("$call, '2 s')", "lock_timeout = '60s'"), 'f', 'S434: the shorter one of two: false');
is(result("$call, '60 s')", 'lock_timeout = 50'), '55P03', 'S434: or an error');
like(result("$call, '1 microsecond')"), qr/^0800[16]$/, 'S434: one that is too short to know');
is(result('zk_lock_acquire(\'/a\', 5)'), '42883', 'S434: a number is no timeout');
my $log = -s $node->logfile;
is(result("$call, '2 s')"), 'f', 'a wait that is longer than deadlock_timeout');
like(slurp_file($node->logfile, $log),
	qr/still waiting for exclusive lock/, 'S434: deadlock_timeout: it is logged, and continues');

# ---- Sessions.

foreach my $case (
	[ 'idle_session_timeout', q{SELECT zk_lock_acquire('/b')} ],
	[
		'idle_in_transaction_session_timeout', q{BEGIN; SELECT zk_lock_acquire_xact('/b')}
	])
{
	my ($setting, $sql) = @$case;
	my $idle = ZkPsql->new($node);
	is($idle->ask("SET $setting = 200; $sql"), 't', "$setting: a session holds a lock");
	is($waiter->ask(q{SELECT zk_lock_acquire('/b', '60 s'), zk_lock_release('/b')}),
		't|t', "S434: $setting: its lock is released");
}

# ---- ZooKeeper is down.

$waiter->ask('SELECT zk_session_close()');
$waiter->ask(q{SET zklock.connect_timeout = '200ms'});
$ensemble->stop;
is(result("$call)"), '08001', 'S434: connect_timeout');

# ---- The bounds of the ensemble.

$ensemble->start;
$waiter->ask(q{SET zklock.connect_timeout = '60s'; SET zklock.session_timeout = '1h'});
is(result(q{zk_lock_acquire('/c')}), 't', 'a session connects');
is($waiter->ask('SELECT session_timeout FROM zk_session()'),
	'00:01:00', 'S434: maxSessionTimeout bounds session_timeout');

done_testing();
