# A server that hangs: it does not answer requests, or accepts a connection and never
# sends anything (as does a server that lost track of the connection while it started).
# The client moves on to the next server while the leases of its locks run (S334).
#
# Two proxies before one server stand for two servers.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use ZkTest;

# While a machine stands still for a moment the leases must not run out.
my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 20000);
my %proxy;
$proxy{ $_->address } = $_ foreach $ensemble->proxy, $ensemble->proxy;
my $node = zk_cluster('main', join(',', sort keys %proxy),
	settings => { 'zklock.session_timeout' => '20s' });
my $session = ZkPsql->new($node);

# Have a proxy work again.  What it has kept back is dropped: a server that was
# just stopped would read it late, and take the session over once more.
sub recover
{
	my ($hanging) = @_;
	$hanging->cut;
	$hanging->pass;
	return;
}

# The proxy that the session is connected through, and the other one.
sub proxies
{
	my ($used) = $session->ask('SELECT server FROM zk_session()');
	my ($other) = grep { $_ ne $used } keys %proxy;
	return ($proxy{$used}, $proxy{$other});
}

is($session->ask("SELECT zk_lock_acquire('/hangs')"), 't', 'a lock is acquired');
my ($id) = $session->ask('SELECT session_id FROM zk_session()');

# The client finds the other server, and nothing is lost.
sub goes_on
{
	my ($what) = @_;
	wait_for(
		sub { $session->ask('SELECT state FROM zk_session()', 'quiet') eq 'connected' },
		'the client to move to the other one');
	is($session->lock_state('/hangs'), 'held', "S334: $what: the lock is held");
	cmp_ok($session->ask("SELECT zk_lock_verify('/hangs')"),
		'>', 0, "$what: the ensemble says so, too");
	is($session->ask('SELECT session_id FROM zk_session()'),
		$id, "S334: $what: it is the same ZooKeeper session");
	return;
}

foreach my $round (1 .. 3)
{
	my ($used, $hanging) = proxies();
	$hanging->accepted;
	$hanging->freeze;
	$used->refuse;
	$used->cut;
	wait_for(sub { $hanging->accepted > 0 },
		'the client to try the server that hangs');
	is($session->ask('SELECT state FROM zk_session()'),
		'suspended', "round $round: there is no connection");
	$used->pass;
	goes_on("round $round");
	recover($hanging);
}

# The server that it is connected to hangs, when the lock has been held for longer than its
# first lease: it has been renewed twice since the last request for a proof.  (How long it
# was held does not matter: unit/client_lease_test.)
foreach my $round (1 .. 2)
{
	my ($hanging, $other) = proxies();
	$hanging->count;
	my $renewals = 0;
	wait_for(sub { ($renewals += $hanging->count->{multi} // 0) >= 2 }, 'two renewals');
	$other->accepted;
	$hanging->freeze;
	wait_for(sub { $other->accepted > 0 }, 'the client to go to the other server');
	goes_on("it hangs, $round");
	recover($hanging);
}

# If none of them answers it ends as always, and begins again when one does.
$_->freeze foreach values %proxy;
wait_for(sub { $session->lock_state('/hangs') eq 'lost' }, 'the lock to be lost', 60);
pass('the lock is lost when no server answers');
recover($_) foreach values %proxy;
is($session->ask("SELECT zk_lock_release('/hangs')"), 'f', 'released');
is($session->ask("SELECT zk_lock_acquire('/hangs')"), 't', 'acquired again');

done_testing();
