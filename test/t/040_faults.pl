# A connection that breaks at every point of the protocol: a request has one contender,
# or none, and no session wrongly holds a lock.
#
# The backends under test connect through a proxy, the others do not.

use strict;
use warnings;

use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(times_until_fast);

# So long a session timeout that no connection is given up because a machine is slow.
my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my $zk = $ensemble->zk;
my $proxy = $ensemble->proxy;
my $node = zk_cluster('far', $proxy,
	settings => { 'zklock.session_timeout' => '60s' });
my $near_node = zk_cluster('near', $ensemble);

my $far = ZkPsql->new($node);
my $holder = ZkPsql->new($near_node);
my $third = ZkPsql->new($near_node);

# Have a session wait for a lock that another holds.  Returns when its watch
# is set.
sub wait_behind
{
	my ($waiter, $path, $length) = @_;
	my $watches = $ensemble->waiter_watch_count;
	$waiter->send("SELECT zk_lock_acquire('$path')");
	$ensemble->wait_for_queue($path, $length // 2);
	wait_for(sub { $ensemble->waiter_watch_count > $watches }, 'the watch to be set');
	return;
}

# So many requests of each type, or events, have passed the proxy since it was
# last asked.
sub wait_for_count
{
	my (%wanted) = @_;
	my %seen;
	wait_for(
		sub {
			my $counts = $proxy->count;
			$seen{$_} += $counts->{$_} foreach keys %$counts;
			return !grep { ($seen{$_} // 0) < $wanted{$_} } keys %wanted;
		},
		join(' and ', map { "$wanted{$_} $_" } sort keys %wanted) . ' to pass');
	return;
}

$far->ask("SELECT zk_lock_acquire('/warm'), zk_lock_release('/warm')");
my $session = $far->zk_session;
is($session->{state}, 'connected', 'a backend is connected through the proxy');

# ---- The answer to the create is lost.

# Create the lock nodes first.  Otherwise the first create would only find that they are
# missing.
$zk->make_path("/zklock/create/$_")
  foreach qw(lost unsent cancelled-pass cancelled-cut timeout);
$zk->make_path("/zklock/expired/$_") foreach qw(create2 getChildren);

$proxy->trap('cut_after_request', 'create2',
	sub { $far->send("SELECT zk_lock_acquire('/create/lost')") });
is($far->answer, 't', 'S39: the answer to the create lost, the lock is acquired');
is(scalar($ensemble->queue('/create/lost')), 1, 'S39: with one contender');
is($zk->stat('/zklock/create/lost')->{cversion},
	1, 'S39: the only one that was ever created');
is($far->zk_session->{session_id},
	$session->{session_id}, 'S39: in the same session');
is($far->ask("SELECT zk_lock_release('/create/lost')"), 't', 'it is released');
is(scalar($ensemble->queue('/create/lost')), 0, 'and none is left');

$proxy->trap('cut_before_request', 'create2',
	sub { $far->send("SELECT zk_lock_acquire('/create/unsent')") });
is($far->answer, 't', 'the create itself lost, the lock is acquired');
is(scalar($ensemble->queue('/create/unsent')), 1, 'with one contender');
$far->ask("SELECT zk_lock_release('/create/unsent')");

$holder->ask("SELECT zk_lock_acquire('/create/behind')");
$proxy->trap('cut_after_request', 'create2',
	sub { $far->send("SELECT zk_lock_acquire('/create/behind')") });
wait_for(sub { $ensemble->waiter_watch_count > 0 }, 'the watch to be set');
is(scalar($ensemble->queue('/create/behind')),
	2, 'S39: behind a holder there is one contender, too');
ok(!$far->answered, 'S39: which waits');
$holder->ask("SELECT zk_lock_release('/create/behind')");
is($far->answer, 't', 'S39: and is granted');
$far->ask("SELECT zk_lock_release('/create/behind')");

# Cancelled while the answer is missing: it comes late, or never does.
foreach my $end ('pass', 'cut')
{
	my $path = "/create/cancelled-$end";
	$proxy->trap('hold_reply', 'create2',
		sub { $far->send("SELECT zk_lock_acquire('$path')") });
	$ensemble->wait_for_queue($path, 1);
	ok(!$far->answered, "$end: the contender exists, and the client does not know it yet");
	kill 'INT', $far->pid;
	$far->answer;
	is($far->sqlstate, '57014', "$end: the acquire is cancelled");
	is(scalar($ensemble->queue($path)),
		1, "$end: the contender is still there");
	$proxy->$end;
	$ensemble->wait_for_queue($path, 0);
	pass($end eq 'pass'
		? 'S41: the answer comes late: an idle backend deletes the contender'
		: 'S40: the answer never comes: an idle backend deletes the contender');
	$proxy->pass;
}
$proxy->trap('hold_reply', 'create2',
	sub { $far->send("SELECT zk_lock_acquire('/create/timeout', '1 s')") });
$far->answer;
is($far->sqlstate, '08006', 'S40: without an answer a timeout is an error');
is(scalar($ensemble->queue('/create/timeout')),
	1, 'S40: it leaves the contender');
$proxy->cut;
$ensemble->wait_for_queue('/create/timeout', 0);
pass('S40: until there is a connection again');
$proxy->pass;
is($far->zk_session->{session_id},
	$session->{session_id}, 'all this in one session');

# ---- The answer to the create is lost, and the session over (S1, S2).

foreach my $type ('create2', 'getChildren')
{
	my $path = "/expired/$type";
	my $old = $far->zk_session;
	$proxy->trap('hold_reply', $type,
		sub { $far->send("SELECT zk_lock_acquire('$path')") });
	$ensemble->wait_for_queue($path, 1);
	my ($contender) = $ensemble->queue($path);
	$proxy->expire($zk, $old->{session_id});
	$proxy->cut;
	is($far->answer, 't', "S1, S2: $type unanswered, session over: acquired");
	my @now = $ensemble->queue($path);
	is(scalar @now, 1, "S1, S2: $type: with one contender");
	isnt($now[0], $contender, "S1, S2: $type: another one");
	my $new = $far->zk_session;
	isnt($new->{session_id}, $old->{session_id}, "$type: in another session");
	is($zk->stat("/zklock$path/$now[0]")->{ephemeralOwner},
		$new->{session_id}, "$type: which owns the contender");
	$far->ask("SELECT zk_lock_release('$path')");
}

# ---- Deletes.

$proxy->trap('cut_after_request', 'delete', sub {
	$far->send(
		"SELECT zk_lock_acquire('/delete/lost'), zk_lock_release('/delete/lost')");
});
is($far->answer, 't|t', 'S43: the answer to the delete lost, it is a release');
$ensemble->wait_for_queue('/delete/lost', 0);
is($far->ask("SELECT zk_lock_acquire('/delete/lost', '0')"),
	't', 'S43: and the lock is free');
$far->ask("SELECT zk_lock_release('/delete/lost')");

$holder->ask("SELECT zk_lock_acquire('/delete/try')");
$proxy->trap('cut_before_request', 'delete',
	sub { $far->send("SELECT zk_lock_acquire('/delete/try', '0')") });
is($far->answer, 'f', 'S43: a try that fails, its delete lost, is false');
$ensemble->wait_for_queue('/delete/try', 1);
pass('S43: its contender is deleted none the less');
$holder->ask("SELECT zk_lock_release('/delete/try')");

# Release without a connection.
$far->ask("SELECT zk_lock_acquire('/delete/later')");
my ($orphan) = $ensemble->queue('/delete/later');
$proxy->refuse;
$proxy->cut;
wait_for(sub { $far->zk_session->{state} eq 'suspended' },
	'the backend to notice');
is($far->ask("SELECT zk_lock_release('/delete/later')"),
	't', 'S45: a release without a connection succeeds');
like($far->errors, qr/WARNING: .*lock "\/delete\/later" could not be released yet/,
	'S45: with a warning that it is pending');
is($far->ask('SELECT count(*) FROM zk_locks'), 0, 'S45: it is not held');
$far->send("SELECT zk_lock_acquire('/delete/later')");
is_deeply([ $ensemble->queue('/delete/later') ],
	[$orphan], 'S45: the contender is there');
$proxy->pass;
is($far->answer, 't', 'S45: the next acquire does not wait for what it left');
$ensemble->wait_for_queue('/delete/later', 1);
isnt(($ensemble->queue('/delete/later'))[0],
	$orphan, 'S45: which is deleted');
$far->ask("SELECT zk_lock_release('/delete/later')");

# ---- The connection is lost while waiting (S51, S109).

$holder->ask("SELECT zk_lock_acquire('/wait/cut')");
wait_behind($far, '/wait/cut');
my @before = $ensemble->queue('/wait/cut');
$proxy->count;
foreach my $round (1 .. 3)
{
	$proxy->cut;
	wait_for_count(connect => 1);
	wait_for(sub { $ensemble->waiter_watch_count == 1 }, 'the watch to be set again');
}
ok(!$far->answered, 'S13: no reconnect is a grant');
is_deeply([ $ensemble->queue('/wait/cut') ],
	\@before, 'S51, S109: and it does not make or lose a contender');
$holder->ask("SELECT zk_lock_release('/wait/cut')");
is($far->answer, 't', 'S51: the watch has come back, and the waiter is granted');
$far->ask("SELECT zk_lock_release('/wait/cut')");

# The holder goes while the waiter is away.
$holder->ask("SELECT zk_lock_acquire('/wait/away')");
wait_behind($far, '/wait/away');
$proxy->refuse;
$proxy->cut;
$holder->ask("SELECT zk_lock_release('/wait/away')");
$ensemble->wait_for_queue('/wait/away', 1);
$proxy->pass;
is($far->answer, 't', 'S50: the waiter learns what happened while it was away');
$far->ask("SELECT zk_lock_release('/wait/away')");

# The request that sets the watch is lost, or its answer is.
foreach my $trap ('cut_before_request', 'cut_after_request')
{
	my $path = "/wait/$trap" =~ tr/_/-/r;
	$holder->ask("SELECT zk_lock_acquire('$path')");
	$proxy->trap($trap, 'getData',
		sub { $far->send("SELECT zk_lock_acquire('$path')") });
	@before = $ensemble->queue($path);
	is(scalar @before, 2, "S52: $trap: the waiter is in the queue");
	wait_for(sub { $ensemble->waiter_watch_count == 1 }, 'the watch to be set');
	ok(!$far->answered, "S52: $trap: it waits");
	is_deeply([ $ensemble->queue($path) ],
		\@before, "S52: $trap: and keeps its place");
	$holder->ask("SELECT zk_lock_release('$path')");
	is($far->answer, 't', "S52: $trap: and is granted");
	$far->ask("SELECT zk_lock_release('$path')");
}

# The predecessor goes between list and watch, or between watch and wait (S50).
foreach my $type ('getChildren', 'getData')
{
	my $path = "/between/$type";
	my $watching;
	foreach my $try (1 .. 10)
	{
		$holder->ask("SELECT zk_lock_acquire('$path')");
		$proxy->trap('hold_reply', $type,
			sub { $far->send("SELECT zk_lock_acquire('$path')") });
		$ensemble->wait_for_queue($path, 2);
		$watching = $type ne 'getData' || eval {
			wait_for(sub { $ensemble->waiter_watch_count == 1 }, 'the watch', 2);
		};
		last if $watching;

		# On a busy machine the waiter may read its own contender before the list is
		# there.  Then it does not come to its watch.
		$proxy->pass;
		$holder->ask("SELECT zk_lock_release('$path')");
		$far->answer;
		$far->ask("SELECT zk_lock_release('$path')");
	}
	ok($watching, "S50: $type: the request is carried out");
	$holder->ask("SELECT zk_lock_release('$path')");
	ok(!$far->answered, "S50: $type: the answer is on its way");
	$proxy->pass;
	is($far->answer, 't', "S50: $type: the waiter is granted");
	$far->ask("SELECT zk_lock_release('$path')");
}
is($ensemble->watch_count, 0, 'and no watch is left behind');

# ---- Events that are no grant.

$holder->ask("SELECT zk_lock_acquire('/event/changed')");
wait_behind($far, '/event/changed');
my ($first) = $ensemble->queue('/event/changed');
$proxy->count;
$zk->set("/zklock/event/changed/$first", '__REVOKE__');
wait_for_count(getChildren => 1);
wait_for(sub { $ensemble->waiter_watch_count == 1 }, 'the watch to be set again');
ok(!$far->answered, 'S13: a change of data is no grant');
$holder->ask("SELECT zk_lock_release('/event/changed')");
is($far->answer, 't', 'S13: the deletion is');
$far->ask("SELECT zk_lock_release('/event/changed')");

$holder->ask("SELECT zk_lock_acquire('/event/gave-up')");
wait_behind($third, '/event/gave-up');
wait_behind($far, '/event/gave-up', 3);
$proxy->count;
$near_node->safe_psql('postgres', "SELECT pg_cancel_backend(${\$third->pid})");
$third->answer;
is($third->sqlstate, '57014', 'S9: the waiter in front gives up');
wait_for_count(event => 1, getChildren => 1, getData => 1);
wait_for(sub { $ensemble->waiter_watch_count == 2 },
	'both to watch the holder, one of them for nothing');
ok(!$far->answered, 'S9: the one behind it continues to wait');
$holder->ask("SELECT zk_lock_release('/event/gave-up')");
is($far->answer, 't', 'S9: until the holder goes');
$far->ask("SELECT zk_lock_release('/event/gave-up')");

# A watch of an earlier wait fires late (S14, S68).
$holder->ask("SELECT zk_lock_acquire('/event/old')");
$third->ask("SELECT zk_lock_acquire('/event/new')");
is($far->ask("SELECT zk_lock_acquire('/event/old', '5 s')"),
	'f', 'S14: a wait is over');
wait_behind($far, '/event/new');
$proxy->count;
$holder->ask("SELECT zk_lock_release('/event/old')");
wait_for_count(event => 1);
wait_for_count(multi => 1);
ok(!$far->answered, 'S14: its watch fires when the next one has begun: no grant');
$third->ask("SELECT zk_lock_release('/event/new')");
is($far->answer, 't', 'S14: the grant comes with the present watch');
$far->ask("SELECT zk_lock_release('/event/new')");

# ---- The waiter's session is over (S3).

$holder->ask("SELECT zk_lock_acquire('/waiter/expired')");
wait_behind($far, '/waiter/expired');
my (undef, $old) = $ensemble->queue('/waiter/expired');
my ($id) = grep { $_ ne $zk->session_id } keys %{ $proxy->sessions };
$proxy->expire($zk, $id);
wait_for(
	sub {
		my (undef, $new) = $ensemble->queue('/waiter/expired');
		defined $new && $new ne $old;
	},
	'the waiter to queue up again');
ok(!$far->answered, 'S3: a waiter whose session expires requeues');
$holder->ask("SELECT zk_lock_release('/waiter/expired')");
is($far->answer, 't', 'S3: and is granted');
isnt($far->zk_session->{session_id}, $id, 'S3: in another session');
$far->ask("SELECT zk_lock_release('/waiter/expired')");

# Both sessions go, of the waiter and of the holder, while the waiter is away;
# then another client comes first.
$holder->ask("SELECT zk_lock_acquire('/waiter/overtaken')");
wait_behind($far, '/waiter/overtaken');
($id) = keys %{ $proxy->sessions };
my $password = $proxy->sessions->{$id};
$proxy->refuse;
$proxy->cut;
$zk->expect([0], 'expire', $id, $password);
$holder->ask("SELECT zk_lock_release('/waiter/overtaken')");
is($third->ask("SELECT zk_lock_acquire('/waiter/overtaken')"),
	't', 'S3: with both gone another client acquires');
$proxy->pass;
$ensemble->wait_for_queue('/waiter/overtaken', 2);
wait_for(sub { $ensemble->waiter_watch_count == 1 }, 'the watch to be set');
ok(!$far->answered, 'S3: the waiter does not take the empty queue for a grant');
$third->ask("SELECT zk_lock_release('/waiter/overtaken')");
is($far->answer, 't', 'S3: it is granted after that client');
$far->ask("SELECT zk_lock_release('/waiter/overtaken')");

# ---- Slow, and not at all.

$zk->make_path('/zklock/slow/free');
$proxy->delay(200);
my @slow = times_until_fast(
	0.4 + 0.5,
	3,
	sub {
		my $start = time;
		is($far->ask("SELECT zk_lock_acquire('/slow/free')"),
			't', 'over a slow connection a lock is acquired');
		my $took = time - $start;
		is($far->ask("SELECT zk_lock_release('/slow/free')"), 't', 'and released');
		return $took;
	});
cmp_ok(min(@slow), '>=', 0.2, 'slowly');
cmp_ok(min(@slow), '<', 0.4 + 0.5, 'in one round trip, give or take');
$far->ask("SELECT zk_lock_acquire('/slow/free', '50 ms')");
is($far->sqlstate, '08006',
	'a timeout before the answer is an error, because the lock may be free');
$ensemble->wait_for_queue('/slow/free', 0);
$proxy->pass;

$proxy->refuse;
$proxy->cut;
foreach my $timeout (1, 2)
{
	my @took = times_until_fast(
		$timeout + 3,
		3,
		sub {
			my $start = time;
			$far->ask("SELECT zk_lock_acquire('/slow/down', '$timeout s')");
			my $took = time - $start;
			like($far->sqlstate, qr/^0800[16]$/,
				"S87: $timeout s in an outage: an error");
			return $took;
		});
	cmp_ok(min(@took), '>=', $timeout, "S87: $timeout s: not too early");
	cmp_ok(min(@took), '<', $timeout + 3, "S87: $timeout s: and not late");
}
$proxy->pass;
is($far->ask("SELECT zk_lock_acquire('/slow/down', '20 s')"),
	't', 'and afterwards all is well');
is(scalar($ensemble->queue('/slow/down')), 1, 'with one contender');
$far->ask('SELECT zk_session_close()');
wait_for(sub { $ensemble->watch_count == 0 }, 'the watches to be removed');
pass('no watch is left');

done_testing();
