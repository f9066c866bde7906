# A follower that hangs right after an answer.
#
# A proof through a follower shows that the ZooKeeper session lives, not that the leader
# knows: a follower reports its live sessions only when the leader asks, every half
# tick.  If it hangs before that, the leader counts from the previous report, and gives
# the lock to another client that much earlier.  The holder must have lost it by then.
#
# Takes long: it waits for a server of ZooKeeper, with ticks as in production.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use ZkEnsemble;
use ZkPsql;

# Seconds.
my $session_timeout = 15;

my $ensemble = ZkEnsemble->new('main', servers => 3, tick_time => 2000);
my ($follower) = $ensemble->followers;
my $leader = $ensemble->leader;
my $node = zk_cluster('holder', $ensemble->address($follower),
	settings => { 'zklock.session_timeout' => "${session_timeout}s" });
my $rival_node = zk_cluster('rival', $ensemble->address($leader));
my $holder = ZkPsql->new($node);
my $rival = ZkPsql->new($rival_node);

# The holder has a ZooKeeper session that has had nothing to do for so many
# seconds, or was stopped for as long, acquires, and its follower hangs.
sub hang_after
{
	my ($path, $seconds, $stopped) = @_;
	my $what = ($stopped ? 'stopped' : 'idle') . " for $seconds s";

	foreach my $session ($holder, $rival)
	{
		$session->ask("SELECT zk_lock_acquire('/other')");
		$session->ask("SELECT zk_lock_release('/other')");
	}
	$holder->stop if $stopped;
	sleep $seconds;
	$holder->continue if $stopped;
	is($holder->ask("SELECT zk_lock_acquire('$path')"),
		't', "$what: the holder acquires");
	$ensemble->pause_server($follower);
	$rival->send_timed("zk_lock_acquire('$path')");
	my $start = time;
	my $last_held = $holder->last_held;
	my $lost = time - $start;
	my ($got, $got_at) = $rival->answer_timed;
	is($got, 't', "$what: the next one gets the lock then");
	cmp_ok($last_held, '<', $got_at,
		"S7: $what: the holder detects the loss before the next one holds");
	note sprintf '%s: lost after %.2f s, acquired after %.2f s', $what, $lost,
	  time - $start;
	$ensemble->resume_server($follower);
	$rival->ask('SELECT zk_lock_release_all()');
	$holder->ask('SELECT zk_lock_release_all()');
	return;
}

hang_after('/idle/short', 0.5, 0);
hang_after('/idle/long', $session_timeout / 2, 0);
hang_after('/stopped/long', $session_timeout * 0.6, 1);

done_testing();
