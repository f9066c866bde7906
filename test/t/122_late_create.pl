# A create that a server could not forward to its leader, because the leader was cut
# off, is executed late: after the operation by which the client asked the leader
# whether it was executed.  The reason is that the client was on its way back to the
# first server for a moment; the leader takes that for a return, and accepts the stuck
# request.  No session has to wait for such a contender until the ZooKeeper session ends
# (S351).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

# For so many seconds the servers do not give each other up, nor a session.
my $patient = 60;
my $ensemble = ZkEnsemble->new('main',
	servers => 3, peer_proxies => 1,
	tick_time => 1000, syncLimit => $patient, maxSessionTimeout => $patient * 1000);
my $leader = $ensemble->leader;
my ($follower) = $ensemble->followers;
my $zk = $ensemble->zk;
my $stuck = $ensemble->proxy($follower);
my $way_out = $ensemble->proxy($leader);
my $node = zk_cluster('main', $stuck->address . ',' . $way_out->address,
	settings => { 'zklock.session_timeout' => '30s' });

# Have the client go from one server to the other.
sub move
{
	my ($from, $to) = @_;
	$to->pass;
	$from->refuse;
	$from->cut;
	return;
}

# Their requests, which are stuck with the same server, keep the leader busy while the
# client's return is noted.
my $busy = $ensemble->proxy($follower);
my @others = map { ZkPsql->new($node, 'zklock.servers' => $busy->address) } 1 .. 4;

# Wait until requests of a type have come since the last count.
sub wait_until_asked
{
	my ($proxy, $type, $number) = @_;
	my $asked = 0;
	wait_for(sub { ($asked += $proxy->count->{$type} // 0) >= $number },
		"$number requests of type $type");
	return;
}

# Delay a create of a new client until the client has given up.  Returns how many creates
# and deletes there were in the end.
sub create_late
{
	my ($path) = @_;
	my $client = ZkPsql->new($node);
	move($way_out, $stuck);

	# Who has nothing would not come back.
	$client->ask("SELECT zk_lock_acquire('/kept$path')");
	my $session = $client->zk_session->{session_id};
	$others[$_]->ask("SELECT zk_lock_acquire(ARRAY(SELECT '/other/$_/' || g"
		  . ' FROM generate_series(1, 60) g))')
	  foreach 0 .. $#others;
	$ensemble->partition($leader);
	$_->count foreach $stuck, $way_out, $busy;
	$_->send('SELECT zk_lock_release_all()') foreach @others;
	wait_until_asked($busy, 'delete', 100);
	$client->send("SELECT zk_lock_acquire('$path', '1 s')");
	wait_until_asked($stuck, 'create2', 1);
	$client->answer;

	# The leader cannot commit what is to show whether it was executed.
	move($stuck, $way_out);
	wait_until_asked($way_out, 'multi', 1);

	# Back, as far as the server that cannot tell the leader; and away again.
	my $log = length slurp_file($ensemble->logfile($follower));
	move($way_out, $stuck);
	wait_for(
		sub {
			substr(slurp_file($ensemble->logfile($follower)), $log) =~
			  /Revalidating client: \Q$session\E/;
		},
		'the client to be on its way back');
	move($stuck, $way_out);
	wait_until_asked($way_out, 'multi', 1);
	$ensemble->heal($leader);

	# What came behind it shows that it has arrived.
	$_->answer foreach @others;
	wait_for(sub { ($zk->call('sync', "/zklock$path"))[0] == ZkProbe::OK() },
		'the probe to see what the others saw');
	$ensemble->wait_for_queue($path, 0);
	is($client->zk_session->{session_id},
		$session, 'S351: there is no contender, and the session continues');
	$client->quit;
	return $zk->stat("/zklock$path")->{cversion};
}

# The leader may be too quick.
my $executed = 0;
foreach my $round (1 .. 10)
{
	$zk->make_path("/zklock/late/$round");
	$executed++ if create_late("/late/$round") > 0;
	last if $executed;
}
cmp_ok($executed, '>', 0, 'S351: a create was executed late');

done_testing();
