# A server that lags behind its leader: zk_lock_queue() and zk_lock_tree() show nothing
# older than the request (S96).
#
# The leader's messages to one follower arrive a second late.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkProbe;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main',
	servers => 3, peer_proxies => 1, maxSessionTimeout => 60000);
my $leader = $ensemble->leader;
my ($behind) = $ensemble->followers;
my $late_zk = ZkProbe->new($ensemble->address($behind), 60000);
my $node = zk_cluster('main', $ensemble->connect_string($leader),
	settings => { 'zklock.session_timeout' => '30s' });
my $holder = ZkPsql->new($node);
my $reader = ZkPsql->new($node,
	'zklock.servers' => $ensemble->address($behind),
	'zklock.connect_timeout' => '60s');

# Both sessions are connected, and the follower knows the paths.
foreach my $session ($holder, $reader)
{
	$session->ask("SELECT zk_lock_acquire('/lag/first')");
	$session->ask("SELECT zk_lock_release('/lag/first')");
}
$_->delay(1000) foreach $ensemble->links_of($behind);

# Does the follower show the contender by itself?
sub late_shows
{
	my ($path) = @_;
	my ($rc, @names) = $late_zk->call('ls', "/zklock$path");
	return $rc == ZkProbe::OK() ? scalar @names : 0;
}

my $lagged = 0;
foreach my $round (1 .. 3)
{
	my $path = "/lag/$round";
	is($holder->ask("SELECT zk_lock_acquire('$path')"), 't', "$path is held");
	$lagged++ if late_shows($path) == 0;
	is( $reader->ask("SELECT count(*), bool_and(granted) FROM zk_lock_queue('$path')"),
		'1|t',
		'S96: zk_lock_queue shows it immediately');
	is($holder->ask("SELECT zk_lock_release('$path')"), 't', 'released');
	$lagged++ if late_shows($path) == 1;
	is($reader->ask("SELECT count(*) FROM zk_lock_tree('$path')"),
		'0', 'S96: zk_lock_tree shows that it is free');
}
# Six times, unless the machine stood still between the answer and this question.
cmp_ok($lagged, '>=', 3, 'which the follower had not heard of yet');

$_->pass foreach $ensemble->links_of($behind);

done_testing();
