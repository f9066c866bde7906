# A disturbance settles: one contender and one watch for each wait, and no more requests
# than necessary.
#
# Sessions under test connect through a proxy, which counts.  Timed requests, pings and
# proofs, are not counted.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my $zk = $ensemble->zk;
my $proxy = $ensemble->proxy;
my %settings = ('zklock.session_timeout' => '60s');
my $node = zk_cluster('far', $proxy, settings => \%settings);
my $near_node = zk_cluster('near', $ensemble, settings => \%settings);
my $holder = ZkPsql->new($near_node);

# The watches on other clients' znodes, by the server's own account: a hash of
# lists of ZooKeeper sessions, by path.
sub watches
{
	my %watches;
	my ($path, $owner);
	foreach (split /\n/, $ensemble->four_letter(1, 'wchp'))
	{
		if (m{^/})
		{
			$path = $_;
			$owner = ($zk->stat($path) // {})->{ephemeralOwner} // '';
		}
		elsif (/^\t(0x\w+)/ && $1 ne $owner)
		{
			push @{ $watches{$path} }, $1;
		}
	}
	return \%watches;
}

# Count what passes the proxy until so much of each kind has; then until the
# server has answered whatever else there may be.  Returns the sums.
sub count_until
{
	my (%wanted) = @_;
	my %seen;
	my $look = sub {
		my $counts = $proxy->count;
		$seen{$_} += $counts->{$_} foreach keys %$counts;
		return !grep { ($seen{$_} // 0) < $wanted{$_} } keys %wanted;
	};
	wait_for($look, join(' and ', map { "$wanted{$_} $_" } sort keys %wanted));
	$holder->ask('SELECT zk_lock_verify(path) FROM zk_locks LIMIT 1', 'quiet')
	  foreach 1 .. 20;
	$look->();
	delete @seen{qw(ping multi sync)};
	return \%seen;
}

# ---- A waiter's connection goes and comes, again and again (S109).

$holder->ask("SELECT zk_lock_acquire('/flapping')");
my $waiter = ZkPsql->new($node);
$waiter->send("SELECT zk_lock_acquire('/flapping')");
$ensemble->wait_for_queue('/flapping', 2);
wait_for(sub { $ensemble->waiter_watch_count == 1 }, 'the watch');
my @queue = $ensemble->queue('/flapping');
my $watches = watches();
my ($session) = keys %{ $proxy->sessions };
is_deeply($watches, { "/zklock/flapping/$queue[0]" => [$session] },
	'a waiter watches the holder, once');
my @faults = (
	sub { $proxy->cut },
	sub {
		$proxy->refuse;
		$proxy->cut;
		wait_for(sub { $ensemble->waiter_watch_count == 0 }, 'the watch to be removed');
		$proxy->pass;
	},
	sub {
		$proxy->hang_up;
		$proxy->cut;
		wait_for(sub { $proxy->accepted > 0 }, 'a connection that fails');
		$proxy->pass;
	});
my $second = 0;
foreach my $round (1 .. 12)
{
	my $set_again = 0;
	$proxy->accepted;
	$proxy->count;
	$faults[ $round % @faults ]->();
	wait_for(
		sub {
			# Until then the watch may be that of the connection before.
			my $counts = $proxy->count;
			$set_again += $counts->{$_} // 0 foreach 'setWatches', 'setWatches2';
			return $set_again > 0 && $ensemble->waiter_watch_count == 1;
		},
		'the watch to be set again');
	$second++ unless eq_array([ $ensemble->queue('/flapping') ], \@queue);
	is_deeply(watches(), $watches, "S109: reconnect $round: still one watch");
}
is($second, 0, 'S109: and never another contender');
is($zk->stat('/zklock/flapping')->{cversion},
	2, 'S109: and there was none in between');
$holder->ask("SELECT zk_lock_release('/flapping')");
is($waiter->answer, 't', 'S109: the waiter is granted');
is_deeply(watches(), {}, 'S109: no watch is left');
is($waiter->ask("SELECT zk_lock_release('/flapping')"), 't', 'released');

# ---- The connection goes between the create and the list (S37): the place that
# was taken is used, or given up, and no client is admitted beside it.

foreach my $what ('granted', 'waiting', 'cancelled')
{
	my $path = "/between/$what";
	$zk->make_path("/zklock$path");
	$holder->ask("SELECT zk_lock_acquire('$path')") if $what eq 'waiting';
	my $others = $what eq 'waiting' ? 1 : 0;
	my $fired = $proxy->fired;
	$proxy->hold_request('getChildren');
	$waiter->send("SELECT zk_lock_acquire('$path')");
	wait_for(sub { $proxy->fired > $fired }, 'the list to be held up');
	$ensemble->wait_for_queue($path, $others + 1);
	my @before = $ensemble->queue($path);
	if ($what eq 'cancelled')
	{
		$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\$waiter->pid})");
		$waiter->answer;
		is($waiter->sqlstate, '57014', "S37: $what");
	}
	$proxy->cut;
	$proxy->pass;
	if ($what eq 'waiting')
	{
		wait_for(sub { $ensemble->waiter_watch_count == 1 }, 'the watch');
		ok(!$waiter->answered, "S37: $what: no client gets the lock beside the holder");
		$holder->ask("SELECT zk_lock_release('$path')");
	}
	if ($what eq 'cancelled')
	{
		$ensemble->wait_for_queue($path, 0);
	}
	else
	{
		is($waiter->answer, 't', "S37: $what: the lock is held");
		is_deeply([ $ensemble->queue($path) ],
			[ $before[$others] ], "S37: $what: by the contender that was made");
		is($waiter->ask("SELECT zk_lock_release('$path')"), 't', 'released');
	}
	is($holder->ask("SELECT zk_lock_acquire('$path', '0')"),
		't', "S37: $what: the next one is not kept out");
	$holder->ask("SELECT zk_lock_release('$path')");
}

# ---- Two waiters, one behind the other, that lose what they have by turns, or
# both at once (S77): each time a few requests, and then silence.

$waiter->quit;
($waiter, my $other) = map { ZkPsql->new($node) } 1 .. 2;
$holder->ask("SELECT zk_lock_acquire('/each-other')");
foreach my $backend ($waiter, $other)
{
	my $queued = $ensemble->queue('/each-other');
	$backend->send("SELECT zk_lock_acquire('/each-other')");
	$ensemble->wait_for_queue('/each-other', $queued + 1);
	wait_for(sub { $ensemble->waiter_watch_count == 2 * $queued - 1 },
		'the watches: of one ahead one, of two ahead two');
}

# Both learn of it by their watches: who lost it, and the one behind.
foreach my $round (1 .. 4)
{
	my @names = $ensemble->queue('/each-other');
	count_until();
	$zk->delete("/zklock/each-other/$names[1]");
	my $seen = count_until(create2 => 1, event => 1, getData => 2);
	is($seen->{create2}, 1, "S77: round $round: one queues up again, once");
	is(join(' ', map { "$_=$seen->{$_}" } grep { $seen->{$_} > 20 } sort keys %$seen),
		'', "S77: round $round: and there are only a few requests of each type");
	$ensemble->wait_for_queue('/each-other', 3);
}
note explain watches();
ok(!$waiter->answered && !$other->answered, 'S77: both wait');

my $passwords = $proxy->sessions;
is(scalar(keys %$passwords), 2, 'there are two sessions');
count_until();
$proxy->expire($zk, $_) foreach keys %$passwords;
my $seen = count_until(create2 => 2, getData => 2);
note explain $seen;
is($seen->{create2}, 2, 'S77: both sessions at once: each queues up once');
cmp_ok($seen->{$_}, '<=', 20, "S77: $_: a few times")
  foreach sort keys %$seen;
$ensemble->wait_for_queue('/each-other', 3);
$holder->ask("SELECT zk_lock_release('/each-other')");
wait_for(sub { $waiter->answered || $other->answered }, 'one to be granted');
my ($first, $last) = $waiter->answered ? ($waiter, $other) : ($other, $waiter);
is($first->answer, 't', 'S77: then one is granted');
ok(!$last->answered, 'S77: not both');
$first->ask("SELECT zk_lock_release('/each-other')");
is($last->answer, 't', 'S77: then the other');

done_testing();
