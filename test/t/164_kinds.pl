# Several locks in one call, one a semaphore's path and another one locked by another
# session: that is an error, in any order of the paths (S292).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main');
my $node = zk_cluster('main', $ensemble);
my ($holder, $session) = map { ZkPsql->new($node) } 1 .. 2;

$holder->ask("SELECT zk_lock_acquire('/kinds/lock'), zk_semaphore_acquire('/kinds/semaphore', 2)");
my @paths = ('/kinds/lock', map { "/kinds/free/$_" } 1 .. 8);
foreach my $round (1 .. 10)
{
	foreach my $order ([ @paths, '/kinds/semaphore' ], [ '/kinds/semaphore', @paths ])
	{
		my $list = join ', ', map { "'$_'" } @$order;
		$session->ask("SELECT zk_lock_acquire(ARRAY[$list], '0')");
		is($session->sqlstate, '55006', "S292: $order->[0] first: an error");
	}
}
is( $session->ask("SELECT zk_lock_acquire(ARRAY['/kinds/free/1', '/kinds/lock'], '0')"),
	'f', 'S292: without the semaphore it is refused');
is($session->ask("SELECT zk_lock_acquire(ARRAY['/kinds/free/1', '/kinds/free/2'], '0')"),
	't', 'S292: and granted where the locks are free');

done_testing();
