
=pod

=head1 NAME

BenchProcessor - how much of the processors something takes

=head1 SYNOPSIS

  my %microseconds = processor_time($world, $who, sub {
  	$peer->command("cycle $path 1000");
  	return 1000;
  });

=head1 DESCRIPTION

A client is its program and the processes below that, and if it works in PostgreSQL the
backends as well.  Its sessions have to be open before and stay open: processes that start
or end in between are not counted.  Threads that start or end in between are.

=cut

package BenchProcessor;

use strict;
use warnings;

use Exporter 'import';
use List::Util qw(sum0);
use Time::HiRes qw(clock_gettime);

our @EXPORT = qw(processor_time thread_times threads_time);

=pod

=head1 FUNCTIONS

=over

=item processor_time($world, $who, $what, @without)

Do something, which returns how often it was done, and return a hash of what each
took of the processors, in microseconds: C<servers> those of the ensemble, C<client>
who was measured, without these processes.

=item threads_time($pid)

What the threads that a process has now have taken, in microseconds.

=item thread_times($pid)

The same as a hash, by the number of the thread.

=back

=cut

sub processor_time
{
	my ($world, $who, $what, @without) = @_;
	my @before = taken($world, $who);
	delete @{ $before[1] }{@without};
	my $times = $what->() or return;
	my @after = taken($world, $who);
	return (
		servers => growth($before[0], $after[0]) / $times,
		client => growth($before[1], $after[1]) / $times);
}

# What was taken up to now by the servers and by a client: hashes by process.
sub taken
{
	my ($world, $who) = @_;
	my %parents = parents();
	return map { +{ map { process_time($_) } family(\%parents, @$_) } }
	  [ $world->servers ], [ $world->client($who) ];
}

# What those have taken in between that were there before and after.
sub growth
{
	my ($before, $after) = @_;
	return sum0(map { $after->{$_} - $before->{$_} }
		grep { exists $after->{$_} } keys %$before);
}

# A process and what it has taken; nothing if it has ended.  Its own clock counts
# nanoseconds, and the threads that have ended.  Linux numbers the clock of a process by
# the inverted number of the process (see clock_getcpuclockid(3)).
sub process_time
{
	my ($pid) = @_;
	my $seconds = clock_gettime(8 * (-$pid - 1) + 2);
	return $seconds < 0 ? () : ($pid => 1e6 * $seconds);
}

# The parents of all processes.
sub parents
{
	my %parents;
	foreach my $file (glob '/proc/[0-9]*/stat')
	{
		open my $stat, '<', $file or next;
		$parents{$1} = $2 if (<$stat> // '') =~ /^(\d+) \(.*\) \S+ (\d+)/;
	}
	return %parents;
}

# These processes and all below them.
sub family
{
	my ($parents, @pids) = @_;
	my %family = map { $_ => 1 } @pids;
	my $size = 0;
	while ($size < keys %family)
	{
		$size = keys %family;
		$family{$_} = 1
		  foreach grep { $family{ $parents->{$_} } } keys %$parents;
	}
	return keys %family;
}

sub thread_times
{
	my ($pid) = @_;
	my %taken;
	foreach my $file (glob "/proc/$pid/task/*/schedstat")
	{
		open my $schedstat, '<', $file or next;
		my ($thread) = $file =~ m{/(\d+)/schedstat$};
		my ($nanoseconds) = split ' ', <$schedstat> // '0';
		$taken{$thread} = $nanoseconds / 1000;
	}
	return %taken;
}

sub threads_time
{
	my %taken = thread_times(@_);
	return sum0(values %taken);
}

1;
