# The leader is stopped for about the session timeout, too short for it to be replaced;
# its followers still answer reads.  When it wakes it commits the queued requests, and
# then expires the sessions without a report.  A session that was granted a lock by that
# must not believe in it any more when the next one has it.
#
# Takes long: it waits for session timeouts.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use ZkEnsemble;
use ZkPsql;

# Seconds; an ensemble that does not replace its leader for so long.
my $session_timeout = 4;
my $clients = 16;
my $rounds = 5;

my $ensemble = ZkEnsemble->new('main', servers => 3, syncLimit => 40);
my ($follower) = $ensemble->followers;

# The probe must not be connected to the server that is stopped.
$ensemble->zk($follower);
my $node = zk_cluster('holders', $ensemble->address($follower),
	settings => { 'zklock.session_timeout' => "${session_timeout}s" });
my @holders = map { ZkPsql->new($node) } 1 .. $clients;

# Who holds the lock of that number, by the ensemble's word, and by its own at the moment.
my @paths = map { "/pause/$_" } 1 .. $clients;

# All clients have sessions that have been idle for a while.
$_->ask("SELECT zk_lock_acquire('/warm'), zk_lock_release('/warm')") foreach @holders;

my $granted = 0;
foreach my $round (1 .. $rounds)
{
	my $pause = $session_timeout * (0.98 + 0.05 * $round);
	my $leader = $ensemble->leader;
	sleep($session_timeout / 2);
	$ensemble->pause_server($leader);
	my $start = time;

	# They ask for their locks one after the other, shortly before it wakes.
	foreach my $i (0 .. $#holders)
	{
		my $at = $pause - 0.7 + 0.6 * $i / $#holders;
		sleep($start + $at - time) if $start + $at > time;
		$holders[$i]->send("SELECT zk_lock_acquire('$paths[$i]', '20 s')", 'quiet');
	}
	sleep($start + $pause - time) if $start + $pause > time;
	$ensemble->resume_server($leader);

	# Who believes in its lock has a contender; else the next one might have the lock.
	my $wrong = 0;
	my $deadline = time + 2 * $session_timeout;
	my %answered;
	while (time < $deadline)
	{
		foreach my $i (grep { !$answered{$_} && $holders[$_]->answered } 0 .. $#holders)
		{
			$answered{$i} = 1;
			$granted += $holders[$i]->answer eq 't';
		}
		last if keys %answered == @holders && time > $start + $pause + $session_timeout;
		foreach my $i (sort keys %answered)
		{
			my $believed = $holders[$i]->lock_state($paths[$i], 'quiet') eq 'held';
			next unless $believed;
			my @queue = $ensemble->latest_queue($paths[$i]);
			next if @queue;
			$wrong++
			  if $holders[$i]->lock_state($paths[$i], 'quiet') eq 'held';
		}
	}
	is($wrong, 0,
		sprintf 'S236: the leader paused for %.2f T: each holder has a contender',
		$pause / $session_timeout);
	foreach my $i (0 .. $#holders)
	{
		$holders[$i]->answer unless $answered{$i};
		$holders[$i]->ask('SELECT zk_lock_release_all()', 'quiet');
	}
}
cmp_ok($granted, '>', 0, 'some were granted');
note "$granted locks were granted";

done_testing();
