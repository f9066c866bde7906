# S208: which contender is named when a lock was lost that several stood for.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main');
my $proxy = $ensemble->proxy;
my $node = zk_cluster('main', $proxy);
my $holder = ZkPsql->new($node);

sub contender
{
	my ($mode) = @_;
	return $holder->ask("BEGIN; SELECT contender FROM zk_locks WHERE mode = '$mode'; ROLLBACK",
		'quiet');
}

$holder->ask("SELECT zk_lock_acquire('/names', shared => true)");
my $shared = contender('shared');
$holder->ask("SELECT zk_lock_acquire('/names')");
isnt(contender('exclusive'), $shared, 'each mode has a contender of its own');
$holder->ask("SELECT zk_lock_release('/names', shared => false)");
is(contender('shared'), $shared, 'the shared one remains');
is_deeply([ $ensemble->queue('/names') ], [$shared], 'as the ensemble has it');

$proxy->expire($ensemble->zk, $holder->zk_session->{session_id});
$holder->wait_until_lost('/names');
is(contender('shared'), $shared, 'S208: when it is lost, zk_locks names that one');
$holder->ask('SELECT 1 / 1');
like($holder->errors, qr/ZKL01.*DETAIL: .*contender "\Q$shared\E"/s, 'S208: and so does the error');

done_testing();
