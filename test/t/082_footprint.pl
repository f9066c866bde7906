# The cost of an unused ZooKeeper session in a backend: memory, threads, processor time.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use ZkEnsemble;
use ZkPsql;

my $many = 20;
my $ensemble = ZkEnsemble->new('main', tick_time => 2000);
my $node = zk_cluster('main', $ensemble);
my @sessions = map { ZkPsql->new($node) } 1 .. $many;

# What a process has: kilobytes in memory, all of them and those that are its own (code
# that is mapped comes in chunks of any size, and is there once for all); kilobytes that
# the system has to answer for, if it keeps account ("ac", see proc(5)); threads;
# nanoseconds that they have run.
sub look
{
	my ($pid) = @_;
	my %look = (rss => 0, own => 0, charge => 0, threads => 0, cpu => 0);
	my $size;
	foreach (split /\n/, slurp_file("/proc/$pid/smaps"))
	{
		$size = $1 if /^Size:\s*(\d+) kB/;
		$look{rss} += $1 if /^Rss:\s*(\d+) kB/;
		$look{own} += $1 if /^Anonymous:\s*(\d+) kB/;
		$look{charge} += $size if /^VmFlags:.* ac\b/;
	}
	foreach my $task (glob "/proc/$pid/task/*")
	{
		my ($run) = split ' ', slurp_file("$task/schedstat");
		$look{threads}++;
		$look{cpu} += $run;
	}
	return \%look;
}

# All of them, in their order.
sub look_at_all { return map { look($_->pid) } @sessions; }

# What each has more than it had, sorted.
sub growth
{
	my ($what, $before, $after) = @_;
	my @growth =
	  sort { $a <=> $b }
	  map { $after->[$_]{$what} - $before->[$_]{$what} } 0 .. $#sessions;
	note "$what: +$growth[0] to +$growth[-1], median +$growth[@growth / 2]";
	return @growth;
}

# What the statements take is there before: they are planned, but not executed; and
# the library is loaded.
my @statements = map { "SELECT zk_lock_$_('/footprint')" } qw(acquire release);
foreach my $session (@sessions)
{
	$session->ask("EXPLAIN $_", 'quiet') foreach @statements, @statements;
	is($session->ask('SELECT count(*) FROM zk_locks'), 0, 'no lock is held');
}

# One that has nothing does not come back when its connection breaks, as it does if the
# server stands still.
sub all_connected
{
	return 1 if keys %{ $ensemble->connections } == $many;
	foreach my $session (@sessions) { $session->ask($_, 'quiet') foreach @statements; }
	return 0;
}

my @before = look_at_all();
foreach my $session (@sessions)
{
	is($session->ask($statements[0]), 't', 'a lock is acquired');
	is($session->ask($statements[1]), 't', 'and released');
}
wait_for(\&all_connected, 'each backend to have a ZooKeeper session');
pass('each backend has a ZooKeeper session');
my @after = look_at_all();

growth('rss', \@before, \@after);
my @growth = growth('own', \@before, \@after);
cmp_ok($growth[ @growth / 2 ], '<=', 250, 'S86: it takes at most 250 kB of memory of its own');
@growth = growth('charge', \@before, \@after);
cmp_ok($growth[-1], '<=', 1024, 'S86: the system answers for at most 1 MB');
@growth = growth('threads', \@before, \@after);
cmp_ok($growth[-1], '<=', 2, 'S86: there are at most two more threads');

# Nothing is asked of the backends for some time: what they do is by the clock.
my ($share, $alive);
foreach (1 .. 5)
{
	wait_for(\&all_connected, 'each backend to have a ZooKeeper session');
	my $start = time;
	@before = look_at_all();
	sleep 15;
	@after = look_at_all();
	my $took = time - $start;
	@growth = growth('cpu', \@before, \@after);
	$share = $growth[ @growth / 2 ] / 1e9 / $took;
	$alive = keys %{ $ensemble->connections };
	last if $alive == $many;
}
note sprintf '%.3f %% of a processor', 100 * $share;
cmp_ok($share, '<', 0.001, 'S86: it takes less than 0.1 % of a processor');
cmp_ok($share, '>', 0, 'but it is alive');
is($alive, $many, 'and so are the ZooKeeper sessions');

done_testing();
