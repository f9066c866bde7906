# The cost of locks, in requests to the server, not in time.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

# Pings and renewals are no part of what is counted; with a session timeout as
# long as this there are none of the latter: a quarter of it is longer than the test.
# The lock node stays, though it is empty between locks.
my $ensemble = ZkEnsemble->new('main',
	maxSessionTimeout => 1_200_000,
	'java.znode.container.checkIntervalMs' => 3_600_000);
my $proxy = $ensemble->proxy;
my $node = zk_cluster(
	'main', $proxy,
	settings => {
		'zklock.session_timeout' => '20min',
		deadlock_timeout => '10ms',
		max_connections => 150
	});
my $elsewhere = $ensemble->connect_string;
my $path = '/cost';

# What is left out: pings; and, as long as there are no waiters, the watch on the
# own contender, which is set only if a lock is held for a moment.
my $left_out = qr/^(ping|getData|event)$/;

# What came through the proxy since the last look, as text.
sub cost { return $proxy->cost($left_out, @_); }

# The same of one statement, which has to return this.
sub cost_of
{
	my ($session, $sql, $answer) = @_;
	cost();
	is($session->ask($sql), $answer, $sql);
	return cost();
}

my $session = ZkPsql->new($node);
my $holder = ZkPsql->new($node, 'zklock.servers' => $elsewhere);

# The first lock of a backend makes the connection and the lock node.
$session->ask("SELECT zk_lock_acquire('$path')");
$session->ask("SELECT zk_lock_release('$path')");

# ---- A lock that no other session wants.

is(cost_of($session, "SELECT zk_lock_acquire('$path')", 't'),
	'create2=1 getChildren=1', 'S90: an acquire sends two requests');
is(cost_of($session, "SELECT zk_lock_acquire('$path')", 't'),
	'', 'S90: once more: none');
is(cost_of($session, "SELECT zk_lock_acquire('$path', shared => true)", 't'),
	'', 'shared as well: none');
is(cost_of($session, "SELECT zk_lock_release('$path', true)", 't'),
	'', 'releasing that: none');
is(cost_of($session, "SELECT zk_lock_release('$path')", 't'),
	'', 'releasing one of two: none');
is(cost_of($session, 'SELECT zk_lock_token(\'/cost\') > 0', 't'),
	'', 'the token: none');
is(cost_of($session, "SELECT count(*) FROM zk_locks", '1'),
	'', 'the view: none');
is(cost_of($session, 'SELECT zk_lock_verify(\'/cost\') > 0', 't'),
	'multi=1', 'zk_lock_verify: one');
is(cost_of($session, "SELECT zk_lock_release('$path')", 't'),
	'delete=1', 'S90: the last release sends one request');

# Both requests of an acquire are on their way before the first is answered:
# so it waits for one round trip.
cost();
$proxy->hold_reply('create2');
my $fired = $proxy->fired;
$session->send("SELECT zk_lock_acquire('$path')");
wait_for(sub { $ensemble->queue($path) == 1 }, 'the contender');
wait_for(sub { $proxy->fired == $fired + 1 }, 'the reply to be held');
is( cost('getChildren', 1), 'create2=1 getChildren=1',
	'S90: create and list are sent without waiting in between');
ok(!$session->answered, 'the acquire waits for the answer');
$proxy->pass;
is($session->answer, 't', 'and then has the lock');
is(cost(), '', 'S90: without a second round trip');
$session->ask("SELECT zk_lock_release('$path')");

# ---- Transaction scope.

$session->ask('BEGIN');
is( cost_of($session, "SELECT zk_lock_acquire_xact('$path')", 't'),
	'create2=1 getChildren=1',
	'transaction scope: the same');
is(cost_of($session, 'SAVEPOINT a', ''), '', 'a savepoint costs nothing');
is(cost_of($session, "SELECT zk_lock_acquire_xact('$path')", 't'),
	'', 'acquiring it again costs nothing');
is(cost_of($session, 'ROLLBACK TO a', ''), '', 'rolling back to it costs nothing');
$session->ask('COMMIT');
$ensemble->wait_for_queue($path, 0);
is(cost(), 'delete=1',
	'the commit sends one request, and its check of the lease none');

# The commit waits for no answer, ...
$session->ask('BEGIN');
$session->ask("SELECT zk_lock_acquire_xact('$path')");
$proxy->hold_reply('delete');
$fired = $proxy->fired;
$session->ask('COMMIT');
is($session->errors, '', 'S27: a commit returns');
wait_for(sub { $proxy->fired == $fired + 1 }, 'the reply to be held');
pass('S27: while the answer to its release is held');
$ensemble->wait_for_queue($path, 0);
$proxy->pass;

# ... nor does it have to reach the server.
$session->ask('BEGIN');
$session->ask("SELECT zk_lock_acquire_xact('$path')");
$proxy->freeze_requests;
$session->ask('COMMIT');
is($session->errors, '', 'a commit returns while nothing reaches the server');
is(scalar(my @names = $ensemble->queue($path)), 1, 'which still has the lock');
$proxy->pass;
$ensemble->wait_for_queue($path, 0);

# A lock that is held for longer than a moment has a watch on its contender.  An event
# for the lock before comes before the answers to this.
$session->ask("SELECT zk_lock_acquire('/before'), zk_lock_release('/before')");
cost();
$left_out = qr/^ping$/;
$session->ask("SELECT zk_lock_acquire('$path')");
wait_for(sub { $ensemble->own_watch_count == 1 }, 'the watch');
is(cost(), 'create2=1 getChildren=1 getData=1',
	'S10: a longer hold costs one request more');
is(cost_of($session, "SELECT zk_lock_release('$path')", 't'),
	'delete=1 event=1', 'S10: and one event');

# ---- A lock that another session holds.

$holder->ask("SELECT zk_lock_acquire('$path')");

# Of several tries the cheapest, as one that takes longer than a moment has a watch set
# on its contender.  A try does not wait long for the end of that.
my @tries;
foreach (1 .. 20)
{
	cost();
	is($session->ask("SELECT zk_lock_acquire('$path', '0')"), 'f', 'a try');
	$ensemble->wait_for_queue($path, 1);
	push @tries, cost();
}
is((sort { length $a <=> length $b } @tries)[0], 'create2=1 delete=1 getChildren=1 getData=1',
	'S43: a try without success sends four requests');

$session->ask("SELECT zk_lock_acquire('/before'), zk_lock_release('/before')");
cost();
$session->send("SELECT zk_lock_acquire('$path')");
$ensemble->wait_for_queue($path, 2);
wait_for(sub { $ensemble->waiter_watch_count > 0 && $ensemble->own_watch_count == 2 },
	'the watches');

# What is sent after the answers to these would have come by the time of
# another session's round trips.
$holder->ask("SELECT zk_lock_verify('$path')");
is(cost(), 'create2=1 getChildren=1 getData=2',
	'a waiter sends four requests, for two watches');
$holder->ask("SELECT zk_lock_release('$path')");
is($session->answer, 't', 'the waiter gets the lock');
is(cost(), 'event=1', 'by an event, and without any request');
is( cost_of($session, "SELECT zk_lock_release('$path')", 't'),
	'delete=1 event=1',
	'so its whole cycle is five');

# The second of two waiters watches both that are ahead of it.  When the first of
# these goes, it knows that only the other one is left.
$holder->ask("SELECT zk_lock_acquire('$path')");
my $middle = ZkPsql->new($node, 'zklock.servers' => $elsewhere);
$middle->send("SELECT zk_lock_acquire('$path')");
$ensemble->wait_for_queue($path, 2);
$session->send("SELECT zk_lock_acquire('$path')");
$ensemble->wait_for_queue($path, 3);
wait_for(
	sub { $ensemble->waiter_watch_count == 3 && $ensemble->own_watch_count == 3 },
	'the watches');
$holder->ask("SELECT zk_lock_release('$path')");
is($middle->answer, 't', 'the first of two waiters gets the lock');
is(cost('event', 1), 'create2=1 event=1 getChildren=1 getData=3',
	'S91: which the second hears of, and asks for nothing');
$middle->ask("SELECT zk_lock_release('$path')");
is($session->answer, 't', 'then the second');
is(cost(), 'event=1', 'S90: by an event, and without any request');
is(cost_of($session, "SELECT zk_lock_release('$path')", 't'),
	'delete=1 event=1', 'six requests in all');
$middle->quit;

# ---- Nothing is held and nothing is asked for: then there is only a sync,
# in place of pings.  A client leaves a server that does not answer for a tenth of the
# session timeout, which must not be too short for that.

my $idle = ZkPsql->new($node, 'zklock.session_timeout' => '40s');
$idle->ask("SELECT zk_lock_acquire('/idle/$_')") foreach 1 .. 3;

# While something is, one request for all locks proves it, every quarter.
wait_for(sub { $ensemble->own_watch_count == 3 }, 'the watches');
cost();
like(
	cost('multi', 2),
	qr/^multi=2 sync=[1-3]$/,
	'three locks that are held are proved by one request each time, behind a sync');

$idle->ask('SELECT zk_lock_release_all()');
$ensemble->wait_for_queue("/idle/$_", 0) foreach 1 .. 3;
cost();
my $heard = cost('sync', 1);

# What follows the answer to that would have come by the time of another session's
# round trips.
$holder->ask("SELECT zk_lock_acquire('/before'), zk_lock_release('/before')");
is($heard . cost(), 'sync=1', 'an idle backend without locks just makes itself heard');
$idle->quit;

# ---- Many waiters (S91).

# Each waiter gets the lock and then waits for our leave to give it back.
my $many = 100;
my $gate = ZkPsql->new($node, 'zklock.servers' => $elsewhere);

# Begin as many sessions that each run a script with one acquire.
sub start_crowd
{
	my ($count, $acquire) = @_;
	my $script = $node->basedir . '/crowd.sql';
	unlink $script;
	append_to_file($script, "$acquire\nSELECT pg_advisory_lock_shared(1);\n"
		  . "SELECT zk_lock_release('$path');\n");
	$gate->ask('SELECT pg_advisory_lock(1)');
	my ($output, $errors) = ('', '');

	# Every deadlock_timeout who waits looks whether it is waited for in PostgreSQL.
	# That asks nothing of ZooKeeper, but it is a wake-up.  Together they keep a machine
	# busy while they connect, and none is to fail for that.
	local $ENV{PGOPTIONS} = '-c deadlock_timeout=1h -c zklock.connect_timeout=60s';
	my $crowd = IPC::Run::start(
		[
			'pgbench', '--no-vacuum', '--file', $script, '--client', $count,
			'--transactions', 1, '--host', $node->host, '--port', $node->port,
			'postgres'
		],
		'>', \$output,
		'2>', \$errors);
	wait_for(sub { $ensemble->queue($path) == $count + 1 }, "$count to queue up", 300);
	return ($crowd, \$output);
}

# The backends in a certain kind of wait, by pid.
sub backends_in_wait
{
	my ($type) = @_;
	return split /\n/,
	  $gate->ask(
		"SELECT pid FROM pg_stat_activity WHERE state = 'active'"
		  . " AND wait_event_type = '$type'");
}

# How often the main thread of a backend has gone to sleep.
sub sleeps
{
	my ($pid) = @_;
	my ($count) = slurp_file("/proc/$pid/task/$pid/status") =~
	  /^voluntary_ctxt_switches:\s*(\d+)/m;
	return $count;
}

$holder->ask("SELECT zk_lock_acquire('$path')");
my ($crowd, $output) =
  start_crowd($many, "SELECT zk_lock_acquire('$path');");
wait_for(
	sub {
		return $ensemble->waiter_watch_count == 2 * $many - 1
		  && $ensemble->own_watch_count == $many + 1;
	},
	'the watches of each: two, and one of the first');

# Nothing is due but a wake-up.  One that is ready to run may have to wait for a
# processor.
wait_for(sub { backends_in_wait('Extension') == $many }, 'all to wait');
my %before;
my $times_quiet = 0;
wait_for(
	sub {
		my %now = map { $_ => sleeps($_) } backends_in_wait('Extension');
		$times_quiet = 0 if grep { ($before{$_} // -1) != $now{$_} } keys %now;
		%before = %now;
		return ++$times_quiet == 20;
	},
	'all to be quiet');
is(scalar(keys %before), $many, "S91: $many backends wait");
cost();
$holder->ask("SELECT zk_lock_release('$path')");
my @granted;
wait_for(sub { @granted = backends_in_wait('Lock') }, 'one to have the lock');
is(scalar(@granted), 1, 'S91: one of them gets the lock');
is(cost('event', 2), 'event=2',
	'S91: one event was sent for it, and one for the next, and nothing was asked');
is_deeply([ grep { sleeps($_) != $before{$_} } sort keys %before ],
	\@granted, 'S91: no other backend woke up');
is(scalar(@names = $ensemble->queue($path)), $many, 'they wait on');
is($ensemble->waiter_watch_count, 2 * $many - 3, 'with two watches each');

# Let them go, one after the other.
$gate->ask('SELECT pg_advisory_unlock(1)');
$crowd->finish;
like($$output, qr/processed: $many\/$many$/m,
	'S91: each gets the lock in the end');
my $count = $proxy->count;
cmp_ok($count->{event}, '<=', 3 * $many - 3,
	'S91: two events for each, and one about its own contender');
cmp_ok($count->{getChildren}, '<=', $many - 1, 'and one list');
is($count->{getData} // 0, 0, 'but no other watch');
$ensemble->wait_for_queue($path, 0);
is($ensemble->watch_count, 0, 'no watch is left');

# ---- Readers come in together.

my $readers = 10;
$holder->ask("SELECT zk_lock_acquire('$path')");
($crowd, $output) = start_crowd($readers,
	"SELECT zk_lock_acquire('$path', shared => true);");
wait_for(
	sub {
		return $ensemble->waiter_watch_count == $readers
		  && $ensemble->own_watch_count == $readers + 1;
	},
	'the watches of each');
cost();
$holder->ask("SELECT zk_lock_release('$path')");
wait_for(sub { backends_in_wait('Lock') == $readers }, 'all to have the lock');
is(cost(), "event=$readers",
	'one release lets all readers in, by one event each and no request');
$session->send("SELECT zk_lock_acquire('$path')");
$ensemble->wait_for_queue($path, $readers + 1);
wait_for(
	sub {
		return $ensemble->waiter_watch_count == 2
		  && $ensemble->own_watch_count == $readers + 1;
	},
	'the watches of a writer');
is(cost(), 'create2=1 getChildren=1 getData=3',
	'a writer watches two of them');
$gate->ask('SELECT pg_advisory_unlock(1)');
$crowd->finish;
is($session->answer, 't', 'and gets the lock when all have released it');
$session->ask("SELECT zk_lock_release('$path')");
is($ensemble->watch_count, 0, 'no watch is left');
is($ensemble->ephemeral_count, 0, 'and no contender');

done_testing();
