# The counts of pg_stat_zklock: every acquire call once, by its result, however it ends
# (S121); lost locks; and ZooKeeper sessions and their ends.

use strict;
use warnings;

use List::Util qw(sum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

# No client leaves a server that is slow, which takes a tenth of the session timeout:
# that would be counted.
my $ensemble = ZkEnsemble->new('main', tick_time => 500, maxSessionTimeout => 30000);
my $zk = $ensemble->zk;
my $proxy = $ensemble->proxy;
my $node = zk_cluster('main', $ensemble,
	settings => {
		shared_preload_libraries => 'pg_stat_statements,zklock',
		'zklock.session_timeout' => '30s',
		deadlock_timeout => '50ms'
	});
my $other_node = zk_cluster('other', $ensemble);
my $control = ZkPsql->new($node);

my @outcomes =
  qw(granted_at_once granted_after_wait timeouts cancels deadlocks errors);
my @names = ('attempts', @outcomes, qw(lost sessions reconnects expiries));

# The counters, as a hash; the histogram is a list in it.
sub counters
{
	my ($session) = @_;
	my ($row, $waits, $time) = split /\n/, ($session // $control)->ask(
		'SELECT ' . join(', ', @names) . " FROM pg_stat_zklock;\n"
		  . "SELECT string_agg(waits::text, '|' ORDER BY to_ms) FROM pg_stat_zklock_waits;\n"
		  . 'SELECT wait_time FROM pg_stat_zklock', 'quiet');
	my %counter;
	@counter{@names} = split /\|/, $row;
	$counter{waits} = [ split /\|/, $waits ];
	$counter{time} = $time;
	return \%counter;
}

# What has been counted since that, without what has not changed.
sub counted_since
{
	my ($before) = @_;
	my $now = counters();
	return { map { $_ => $now->{$_} - $before->{$_} }
		  grep { $now->{$_} != $before->{$_} } @names };
}

# How many waits there have been, of at least so many ms.
sub waits
{
	my ($counters, $least) = @_;
	my ($bucket, $bound) = (0, 1);
	while ($bound <= ($least // 0))
	{
		$bucket++;
		$bound *= 4;
	}
	return sum(@{ $counters->{waits} }[ $bucket .. 10 ]);
}

# ---- The counters are those of all backends, and each has its own without
# preloading.

is($control->ask('SELECT scope FROM pg_stat_zklock'), 'cluster',
	'preloaded: of the cluster');
my @session = map { ZkPsql->new($node) } 1 .. 4;
my $start = counters();
is($start->{attempts}, 0, 'nothing is counted at first');
foreach my $n (0 .. $#session)
{
	$session[$n]->ask("SELECT zk_lock_acquire('/own/$n')");
	$session[$n]->ask("SELECT zk_lock_acquire('/own/$n')");
	$session[$n]->ask('SELECT zk_lock_release_all()');
}
is_deeply(counted_since($start),
	{ attempts => 8, granted_at_once => 8, sessions => 4 },
	'S121: the calls of all backends are counted');

my ($holder, $stranger) = map { ZkPsql->new($other_node) } 1 .. 2;
is($holder->ask("SELECT zk_lock_acquire('/busy')"), 't', 'a lock is busy');
is(counters($holder)->{attempts}, 1, 'not preloaded: each counts its own');
is($stranger->ask('SELECT scope, attempts FROM pg_stat_zklock'),
	'backend|0', 'and not that of others');

# ---- A storm of calls that end in every way.

$start = counters();
my %expected = map { $_ => 0 } @outcomes;
my $waited = 0;

# A call that ends by itself: what it returns, or its SQLSTATE.
sub call
{
	my ($session, $outcome, $sql, $answer) = @_;
	calls([ $session, $outcome, $sql, $answer ]);
	return;
}

# Some of them, each in a session of its own, at the same time.
sub calls
{
	$_->[0]->send($_->[2]) foreach @_;
	foreach (@_)
	{
		my ($session, $outcome, undef, $answer) = @$_;
		my $output = $session->answer;
		is($session->sqlstate || $output, $answer, "$outcome: $answer");
		$expected{$outcome}++;
	}
	return;
}

foreach my $round (1 .. 3)
{
	my ($one, $two, $three, $four) = @session;

	# The last one is caught within a subtransaction.
	call($one, 'timeouts', "SELECT zk_lock_acquire('/busy', '0')", 'f');
	$three->ask("SET lock_timeout = '4s'");
	calls(
		[ $two, 'timeouts', "SELECT zk_lock_acquire('/busy', '4 s')", 'f' ],
		[ $three, 'timeouts', "SELECT zk_lock_acquire('/busy')", '55P03' ],
		[
			$four, 'timeouts',
			"SELECT zk_lock_acquire(ARRAY['/busy', '/free'], '4 s')", 'f'
		],
		[
			$one,
			'timeouts',
			q(DO $$
			BEGIN
				SET LOCAL lock_timeout = '4s';
				PERFORM zk_lock_acquire('/busy', shared => true);
			EXCEPTION WHEN lock_not_available THEN
				NULL;
			END $$),
			''
		]);
	$three->ask('RESET lock_timeout');
	$three->ask("SET statement_timeout = '4s'");
	call($three, 'cancels', "SELECT zk_lock_acquire('/busy')", '57014');
	$three->ask('RESET statement_timeout');

	# cancelled, and broken
	$one->send("SELECT zk_lock_acquire('/busy')");
	$one->wait_until_behind($control);
	$control->ask("SELECT pg_cancel_backend(${\$one->pid})");
	$one->answer;
	is($one->sqlstate, '57014', 'cancels: cancelled');
	$expected{cancels}++;
	$two->send("SELECT zk_lock_acquire('/busy')");
	$two->wait_until_behind($control);

	# One that is broken before it watches its own contender only loses its place.
	wait_for(
		sub {
			$control->ask("SELECT zk_lock_break('/busy', contender) FROM zk_lock_waits",
				'quiet');
			return $two->answered;
		},
		'the waiter to be broken');
	$two->answer;
	is($two->sqlstate, '57000', 'errors: broken');
	$expected{errors}++;

	# terminated: FATAL leaves through the exit callbacks
	my $victim = ZkPsql->new($node);
	$victim->send("SELECT zk_lock_acquire('/busy')");
	$victim->wait_until_behind($control);
	$control->ask("SELECT pg_terminate_backend(${\$victim->pid})");
	$expected{cancels}++;
	wait_for(sub { $control->ask('SELECT count(*) FROM pg_stat_activity'
				  . " WHERE pid = ${\$victim->pid}", 'quiet') eq '0' },
		'the backend to be gone');

	# no ensemble to be had
	$four->ask("SET zklock.servers = '127.0.0.1:1'; SET zklock.connect_timeout = '20ms'");
	call($four, 'errors', "SELECT zk_lock_acquire('/busy')", '08001');
	$four->ask('RESET zklock.servers; RESET zklock.connect_timeout');

	# two that upgrade
	call($_, 'granted_at_once',
		"SELECT zk_lock_acquire('/up', shared => true)", 't')
	  foreach $one, $two;
	$one->send("SELECT zk_lock_acquire('/up')");
	$one->wait_until_behind($control);
	call($two, 'deadlocks', "SELECT zk_lock_acquire('/up')", '40P01');
	$two->ask('SELECT zk_lock_release_all()');
	is($one->answer, 't', 'granted_after_wait: the other one');
	$expected{granted_after_wait}++;
	$one->ask('SELECT zk_lock_release_all()');
	$waited += 10;
}
$expected{attempts} = sum(@expected{@outcomes});
my $now = counters();
is_deeply(
	{ map { $_ => $now->{$_} - $start->{$_} } 'attempts', @outcomes },
	\%expected, 'S121: every call is counted once, by how it ends');
is($now->{attempts}, sum(@{$now}{@outcomes}),
	'S121: attempts are the sum of the outcomes');

# ---- The time waited, and the histogram.

is(waits($now) - waits($start), $waited,
	'S121: each wait for another session is in the histogram');
cmp_ok(waits($now, 64) - waits($start, 64), '>=', 5 * 3,
	'among the longer ones those that had to last');
cmp_ok($now->{time} - $start->{time}, '>=', 3 * 5 * 1000,
	'S121: the time waited');

# ---- Waits that are over before a backend has looked whom it waits for.

$start = counters();
my $watches = $ensemble->waiter_watch_count;
foreach (1 .. 10)
{
	$holder->ask("SELECT zk_lock_acquire('/short')");
	$session[0]->send("SELECT zk_lock_acquire('/short')");
	wait_for(sub { $ensemble->waiter_watch_count > $watches }, 'the waiter to watch');
	$holder->ask("SELECT zk_lock_release('/short')");
	$session[0]->answer;
	$session[0]->ask("SELECT zk_lock_release('/short')");
	wait_for(sub { $ensemble->waiter_watch_count == $watches }, 'its watch to go');
}
is_deeply(counted_since($start), { attempts => 10, granted_after_wait => 10 },
	'S121: a wait is counted however short it is');
is($control->ask(q(SELECT waits, wait_time > 0 FROM pg_stat_zklock_locks WHERE path = '/short')),
	'10|t', 'S121: also for the lock');

# ---- A reset, with a call in progress.

$session[0]->send("SELECT zk_lock_acquire('/busy')");
$session[0]->wait_until_behind($control);
$control->ask('SELECT pg_stat_zklock_reset()');
$now = counters();
is_deeply(
	{ map { $_ => $now->{$_} } grep { $now->{$_} != 0 } @names },
	{ attempts => 1 }, 'a reset leaves what has not ended');
is(waits($now) + $now->{time}, 0, 'and no waits');
$holder->ask("SELECT zk_lock_release('/busy')");
is($session[0]->answer, 't', 'that is granted');
$now = counters();
is_deeply(
	{ map { $_ => $now->{$_} } grep { $now->{$_} != 0 } @names },
	{ attempts => 1, granted_after_wait => 1 }, 'the sum is right again');
is(waits($now), 1, 'and its wait is counted');
$session[0]->ask('SELECT zk_lock_release_all()');

# ---- ZooKeeper sessions.

my $far = ZkPsql->new($node, 'zklock.servers' => $proxy->address);
$start = counters();
$far->ask("SELECT zk_lock_acquire('/far')");
foreach my $n (1 .. 3)
{
	$proxy->cut;
	wait_for(sub { $far->zk_session->{reconnects} == $n }, 'the connection');
}
is_deeply(counted_since($start),
	{ attempts => 1, granted_at_once => 1, sessions => 1, reconnects => 3 },
	'reconnects are counted');
$proxy->expire($zk);
$far->wait_until_lost('/far');
is($far->ask("SELECT zk_lock_release('/far')"), 'f', 'the lock was lost');
$far->ask("SELECT zk_lock_acquire('/far')");
is_deeply(
	counted_since($start),
	{
		attempts => 2, granted_at_once => 2, sessions => 2,
		reconnects => 3, expiries => 1, lost => 1
	},
	'an expiry and the loss are counted');

# What a backend has not looked at is counted when it exits.  It knows of the connection
# when it asks something over it: the renewal of the lock.
$proxy->accepted;
$proxy->cut;
wait_for(sub { $proxy->accepted > 0 }, 'a connection');
$proxy->count;
wait_for(sub { $proxy->count->{multi} }, 'the client to use it');
$far->ask("SELECT 1");
$far->quit;
wait_for(sub { counted_since($start)->{reconnects} == 4 },
	'the exit of the backend');
pass('events that a backend has not seen are counted at its exit');

$now = counters();
is($now->{attempts}, sum(@{$now}{@outcomes}), 'the sum is still right');

# Another library with the same hooks sees the same statements.
$control->ask('CREATE EXTENSION pg_stat_statements');
is( $control->ask('SELECT sum(calls) > 0, bool_or(query ~ $$^CREATE EXTENSION$$)'
		  . ' FROM pg_stat_statements'),
	't|t', 'pg_stat_statements counts queries and commands');
is($control->ask('SELECT count(*) FROM pg_stat_statements WHERE query ~ $$^SELECT zk_lock_acquire$$ AND calls > 0') > 0,
	1, 'also those that call zklock');

done_testing();
