# An ensemble whose servers are added and removed by reconfiguration, and one that is
# reset to an older state.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

# ---- Each server in turn is taken out of the ensemble, stopped, and taken in again
# (S116).

my $ensemble = ZkEnsemble->new('main',
	servers => 3,
	maxSessionTimeout => 60000,
	reconfigEnabled => 'true',
	'java.zookeeper.skipACL' => 'yes');
my $node = zk_cluster('main', $ensemble,
	settings => {
		'zklock.session_timeout' => '60s',
		'zklock.connect_timeout' => '60s'
	});
my @ids = $ensemble->ids;

my (@holders, @waiters);
foreach my $id (@ids)
{
	my $holder = ZkPsql->new($node);
	my $waiter = ZkPsql->new($node);
	$holder->ask("SELECT zk_lock_acquire('/members/$id')");
	$waiter->send("SELECT zk_lock_acquire('/members/$id')");
	$ensemble->wait_for_queue("/members/$id", 2);
	push @holders, $holder;
	push @waiters, $waiter;
}
my @tokens =
  map { $holders[ $_ - 1 ]->ask("SELECT zk_lock_token('/members/$_')") } @ids;

# Are they where they were?
sub check_in_place
{
	my ($when) = @_;
	is_deeply(
		[
			map { $holders[ $_ - 1 ]->ask("SELECT zk_lock_verify('/members/$_')") }
			  @ids
		],
		\@tokens,
		"S116: $when: the holders hold");
	is(scalar(grep { $_->answered } @waiters),
		0, "S116: $when: the waiters wait");
	$ensemble->wait_for_queue("/members/$_", 2) foreach @ids;
	return;
}

foreach my $id (@ids)
{
	my $what = $id == $ensemble->leader ? 'the leader' : 'a follower';
	$ensemble->remove_server($id);
	check_in_place("server $id, $what, removed");
	$ensemble->stop_server($id);
	wait_for(sub { defined $ensemble->leader }, 'a leader', 60);
	check_in_place("server $id stopped");
	$ensemble->add_server($id);
	check_in_place("server $id added");
}
$holders[ $_ - 1 ]->ask("SELECT zk_lock_release('/members/$_')") foreach @ids;
is(join(' ', map { $_->answer . $_->sqlstate } @waiters),
	't t t', 'S116: the waiters are granted in the end');
my @sessions = map { $_->zk_session } @holders, @waiters;
is(join(' ', map { $_->{sessions} } @sessions),
	'1 1 1 1 1 1', 'S116: all that in one ZooKeeper session each');
is(scalar(grep { $_->{reconnects} == 0 } @sessions),
	0, 'S116: though every server was gone for some time');
$_->quit foreach @holders, @waiters;
$ensemble->stop;

# ---- An ensemble that is set back to an older state (S12).  There it does not know
# of one lock any more, while the ZooKeeper session and its other lock are there.

my $older = ZkEnsemble->new('older', maxSessionTimeout => 120000);
my $proxy = $older->proxy;
my $keeper = ZkPsql->new($node,
	'zklock.servers' => $proxy->address,
	'zklock.session_timeout' => '120s');
my $rival = ZkPsql->new($node, 'zklock.servers' => $older->connect_string);
$node->safe_psql('postgres', 'CREATE TABLE work (step text)');

$keeper->ask("SELECT zk_lock_acquire('/set-back/early')");
my $token = $keeper->ask("SELECT zk_lock_token('/set-back/early')");
$older->save_state;
$keeper->ask("SELECT zk_lock_acquire('/set-back/late')");

# While a server starts it may forget about who connects, and then it refuses who
# has seen more than it has itself: no client is let through before that is over.
$proxy->refuse;
$proxy->cut;
$older->restore_state;
$older->zk->create('/filler');
$older->zk->set('/filler', $_) foreach 1 .. 50;
$proxy->pass;
$keeper->ask("SELECT zk_lock_verify('/set-back/late')");
is($keeper->sqlstate, 'ZKL01',
	'S12: a lock that the ensemble does not know any more is lost');
$keeper->ask("INSERT INTO work VALUES ('set back')");
is($keeper->sqlstate, 'ZKL01', 'S12: and nothing can be committed');
is($keeper->ask("SELECT zk_lock_release('/set-back/late')"),
	'f', 'S12: until the loss is cleared');
is($rival->ask("SELECT zk_lock_acquire('/set-back/late', '20 s')"),
	't', 'S12: others get the lock, in a new lock node');
is($keeper->ask("SELECT zk_lock_acquire('/set-back/late', '0')"),
	'f', 'S12: and exclude the previous holder');
is($keeper->ask("SELECT zk_lock_verify('/set-back/early')"),
	$token, 'S12: a lock that it still knows is held');
is($rival->ask("SELECT zk_lock_acquire('/set-back/early', '0')"),
	'f', 'S12: against others');
is($node->safe_psql('postgres', 'SELECT count(*) FROM work'),
	0, 'S12: nothing was committed');

done_testing();
