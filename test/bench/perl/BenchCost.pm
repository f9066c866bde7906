
=pod

=head1 NAME

BenchCost - what locks cost besides time

=head1 SYNOPSIS

  my $cost = measure_cost($world);
  $cost->{cycle}{zklock}{received};
  $cost->{idle}{threads};

=head1 DESCRIPTION

Packets and bytes are counted by the servers, for everybody: so nothing else may go
on.  What little there is, such as pings, is why the least of a few tries counts.

=cut

package BenchCost;

use strict;
use warnings;

use BenchProcessor;
use BenchStats;
use DBD::Pg ':async';
use DBI;
use Exporter 'import';
use List::Util qw(min);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use ZkEnsemble;

our @EXPORT = qw(measure_cost);

# How often something is done while it is counted.
my $count = 100;

# Waiters of the queue that is counted.
my $waiters = 50;

# How often something is tried.
my $tries = 3;

# How many backends share what is measured of them, and for how long they are
# watched doing nothing, in seconds.
my $backends = 20;
my $idle_time = 30;

# The servers' counters that are looked at, and what they are called here.
my %counters = (
	packets_received => 'received',
	packets_sent => 'sent',
	bytes_received_count => 'bytes_received',
	response_bytes => 'bytes_sent');

# How often the servers were asked for their counters.
my $questions = 0;

=pod

=head1 FUNCTIONS

=over

=item measure_cost($world)

A hash: C<cycle>, C<waiter>, C<array> and C<first> by client, and C<xact>, C<proof>,
C<guard_lease> and C<guard_quorum>, of hashes of packets and bytes that the servers
have received and sent; C<idle>, a hash of what a backend with an idle session takes.

=back

=cut

sub measure_cost
{
	my ($world) = @_;
	my %cost;
	foreach my $who (grep { $world->peer($_) }
		qw(raw zklock curator kazoo crecipe plpython))
	{
		my $costs = eval { client_cost($world, $who) };
		diag "cost of $who: $@" unless $costs;
		$cost{$_}{$who} = $costs->{$_} foreach keys %$costs;
	}
	return \%cost unless $world->peer('zklock');
	$cost{xact}{zklock} = xact_cost($world);
	$cost{"guard_$_"}{zklock} = guard_cost($world, $_) foreach qw(lease quorum);
	$cost{proof}{zklock} = proof_cost($world);
	$cost{idle} = idle_backend($world);
	return \%cost;
}

# The counters of all servers together, less our own questions, which are packets of
# four bytes.
sub counters
{
	my ($world) = @_;
	my %sum = map { $_ => 0 } values %counters;
	foreach my $id ($world->ensemble->ids)
	{
		my $mntr = $world->ensemble->mntr($id);
		$sum{ $counters{$_} } += $mntr->{$_} // 0 foreach keys %counters;
		$questions++;
	}
	$sum{received} -= $questions;
	$sum{bytes_received} -= 4 * $questions;
	return \%sum;
}

# What is counted while something is done, divided by a number: the least of some
# tries.
sub counted
{
	my ($world, $divisor, $what) = @_;
	my %least;
	foreach (1 .. $tries)
	{
		my $before = counters($world);
		$what->();
		my $after = counters($world);
		foreach my $name (keys %$after)
		{
			my $cost = ($after->{$name} - $before->{$name}) / $divisor;
			$least{$name} = min($least{$name} // $cost, $cost);
		}
	}
	return \%least;
}

# A client's cycle without and with a queue, of ten locks, and with a session of its
# own.
sub client_cost
{
	my ($world, $who) = @_;
	my $peer = $world->peer($who);
	my %cost;
	$peer->command('open ' . ($waiters + 1));
	$peer->command("cycle /bench/$who/cost 1");
	$peer->command("drain /bench/$who/cost $waiters");
	$cost{cycle} = counted($world, $count,
		sub { $peer->command("cycle /bench/$who/cost $count") });
	$cost{waiter} = counted($world, $waiters,
		sub { $peer->command("drain /bench/$who/cost $waiters") });

	# The first holder of the lock was no waiter.
	$cost{waiter}{$_} -= $cost{cycle}{$_} / $waiters foreach keys %{ $cost{cycle} };
	$peer->command("array /bench/$who/costs 10 1");
	$cost{array} = counted($world, 10,
		sub { $peer->command("array /bench/$who/costs 10 10") });
	$peer->command('close');
	$peer->command('first 1');
	$cost{first} = counted($world, 10, sub { $peer->command('first 10') });
	$peer->command('close');
	return \%cost;
}

# A backend of our own.
sub backend
{
	my ($world) = @_;
	my $source = $world->node->connstr('postgres') =~ tr/ /;/r;
	return DBI->connect("dbi:Pg:$source", undef, undef,
		{ RaiseError => 1, PrintError => 0, AutoCommit => 1 });
}

# A whole cycle of transaction scope.
sub xact_cost
{
	my ($world) = @_;
	my $backend = backend($world);
	my $cycle = sub {
		$backend->do('BEGIN');
		$backend->do("SELECT zk_lock_acquire_xact('/bench/cost')");
		$backend->do('COMMIT');
	};
	$cycle->();
	return counted($world, $count, sub { $cycle->() foreach 1 .. $count });
}

# Short transactions while a lock of session scope is held.
sub guard_cost
{
	my ($world, $guard) = @_;
	my $backend = backend($world);
	$backend->do("SET zklock.commit_guard = $guard");
	$backend->do("SELECT zk_lock_acquire('/bench/cost')");
	settle($world);
	return counted(
		$world, $count,
		sub {
			foreach (1 .. $count)
			{
				$backend->do('BEGIN');
				$backend->do('SELECT 1');
				$backend->do('COMMIT');
			}
		});
}

# Wait until the servers have had nothing to do for a moment: what a hold causes
# besides is over by then.
sub settle
{
	my ($world) = @_;
	my $last = -1;
	wait_for(
		sub {
			my $received = counters($world)->{received};
			my $quiet = $received == $last;
			$last = $received;
			sleep 0.5 unless $quiet;
			return $quiet;
		},
		'the servers to have nothing to do');
	return;
}

# What is asked of the servers from a release until the next one has the lock,
# besides the release: in a queue of some, each of which holds it for longer than a
# round trip.  That of the last one, without one that gets ready behind it at the same time.
sub proof_cost
{
	my ($world) = @_;
	my @queue = map { backend($world) } 1 .. 4;
	my $observer = backend($world);
	my $cost;
	foreach my $place (0 .. $#queue)
	{
		$queue[$place]
		  ->do("SELECT zk_lock_acquire('/bench/proof')", { pg_async => PG_ASYNC });
		$queue[$place]->pg_result if $place == 0;
		wait_for(
			sub {
				my ($waiters) =
				  $observer->selectrow_array('SELECT count(*) FROM zk_lock_waits');
				return $waiters == $place;
			},
			"waiter $place");
	}
	foreach my $place (1 .. $#queue)
	{
		settle($world);
		my $before = counters($world);
		$queue[ $place - 1 ]->do("SELECT zk_lock_release('/bench/proof')");
		$queue[$place]->pg_result;
		$cost = counters($world)->{received} - $before->{received} - 1;
	}
	return { received => $cost };
}

# A number from a file of /proc.
sub proc_number
{
	my ($file, $name) = @_;
	my ($number) = slurp_file($file) =~ /^$name:\s*(\d+)/m;
	return $number;
}

# What a backend has and takes: kB, threads, microseconds of a processor.  The kernel
# charges for its private writable memory, used or not; of the machine's sum others
# have their part.
sub backend_facts
{
	my ($pid) = @_;
	return {
		rss => proc_number("/proc/$pid/status", 'VmRSS'),
		anonymous => proc_number("/proc/$pid/status", 'RssAnon'),
		file => proc_number("/proc/$pid/status", 'RssFile'),
		shared => proc_number("/proc/$pid/status", 'RssShmem'),
		dirty => proc_number("/proc/$pid/smaps_rollup", 'Private_Dirty'),
		charge => proc_number("/proc/$pid/status", 'VmData'),
		threads => proc_number("/proc/$pid/status", 'Threads'),
		cpu => threads_time($pid)
	};
}

# The medians of what some backends have more than before.
sub growth
{
	my ($before, $after) = @_;
	my %growth;
	foreach my $name (keys %{ $before->[0] })
	{
		$growth{$name} =
		  median(map { $after->[$_]{$name} - $before->[$_]{$name} } 0 .. $#$before);
	}
	return \%growth;
}

# What a ZooKeeper session is to backends that have used the extension before, and
# what it takes while nothing is done.
sub idle_backend
{
	my ($world) = @_;
	my @backends = map { backend($world) } 1 .. $backends;
	my $facts = sub {
		[ map { backend_facts($_->{pg_pid}) } @backends ]
	};
	my $charge = sub { proc_number('/proc/meminfo', 'Committed_AS') };

	foreach my $backend (@backends)
	{
		# What any call maps and caches is not the session's.
		$backend->do('SET client_min_messages = error');
		$backend->do("SELECT zk_lock_release('/bench/idle')");
		$backend->do('SELECT count(*) FROM zk_locks');
	}
	my ($before, $charged) = ($facts->(), $charge->());
	foreach my $backend (@backends)
	{
		$backend->do("SELECT zk_lock_acquire('/bench/idle')");
		$backend->do("SELECT zk_lock_release('/bench/idle')");
	}
	settle($world);
	my ($after, $charged_then) = ($facts->(), $charge->());
	my $growth = growth($before, $after);
	$growth->{committed} = ($charged_then - $charged) / $backends;

	my $began = time;
	sleep $idle_time;
	my $idle = growth($after, $facts->());
	$growth->{cpu_percent} = 100 * $idle->{cpu} / 1e6 / (time - $began);
	return $growth;
}

1;
