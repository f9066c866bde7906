# A request that was delayed, and a follower that hangs right after its answer.
#
# The time of sending says nothing about the time of arrival.  A session is idle, its
# path to the follower is blocked, and just before the client gives the connection up
# everything arrives at the same time, an acquire among it.  Then the follower hangs
# before its report to the leader.  The leader counts from before the delay, and gives
# the lock to another client that much earlier.  The holder must have lost it by then.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use ZkEnsemble;
use ZkPsql;

# Seconds.
my $session_timeout = 12;

# Followers are asked every half tick: the longer it is, the more likely is it
# that none is between the answer and the hang.
my $ensemble = ZkEnsemble->new('main', servers => 3, tick_time => 1000);
my ($follower) = $ensemble->followers;
my $leader = $ensemble->leader;
my $proxy = $ensemble->proxy($follower);
my $node = zk_cluster('holder', $proxy,
	settings => { 'zklock.session_timeout' => "${session_timeout}s" });
my $rival_node = zk_cluster('rival', $ensemble->address($leader),
	settings => { 'zklock.session_timeout' => "${session_timeout}s" });
$node->safe_psql('postgres', 'CREATE TABLE work (step text)');

my $holder = ZkPsql->new($node);
my $rival = ZkPsql->new($rival_node);

foreach my $session ($holder, $rival)
{
	$session->ask("SELECT zk_lock_acquire('/late'), zk_lock_release('/late')");
}

# From the last that was heard of the idle session until shortly before its client
# gives the connection up: it says something a quarter of the timeout later, and
# has the patience to wait for the answer for another one.  Returns when that was, and
# whether the client has kept the connection: not on a machine that was busy at the
# wrong moment.
sub acquire_late
{
	$holder->ask('BEGIN');
	$holder->ask("INSERT INTO work VALUES ('late')");
	$proxy->count;
	wait_for(sub { $proxy->count->{sync} }, 'the idle session to be heard');
	my $silent_since = time;
	$proxy->freeze_requests;
	$proxy->accepted;
	sleep($session_timeout * 0.33);
	$holder->send("SELECT zk_lock_acquire_xact('/late')");
	$proxy->pass;
	is($holder->answer, 't', 'after a silence the holder acquires');
	$ensemble->pause_server($follower);
	return ($silent_since, $proxy->accepted == 0);
}

my ($frozen, $kept) = acquire_late();
foreach (1 .. 9)
{
	last if $kept;
	$ensemble->resume_server($follower);
	$holder->ask('ROLLBACK');
	$ensemble->wait_for_queue('/late', 0);
	($frozen, $kept) = acquire_late();
}
ok($kept, 'over the connection that it had');
my $granted = time;
$rival->send_timed("zk_lock_acquire('/late')");
my $last_held = $holder->last_held(1);
my $lost = time;
my ($got, $got_at) = $rival->answer_timed;
is($got, 't', 'the next one gets the lock then');
cmp_ok($last_held, '<', $got_at,
	'S7: the holder detects the loss before the next one holds');
note sprintf 'of the silence: acquired after %.2f s, lost after %.2f s,'
  . ' the next one after %.2f s', $granted - $frozen, $lost - $frozen,
  time - $frozen;
$holder->ask('COMMIT');
is($holder->sqlstate, 'ZKL01', 'S7: and cannot commit');
is($node->safe_psql('postgres', 'SELECT count(*) FROM work'),
	0, 'nothing was committed');
$ensemble->resume_server($follower);
is($rival->ask("SELECT zk_lock_release('/late')"), 't', 'the next one releases');

done_testing();
