
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
backends as well.  Its sessions have to be open before, as what has ended is not
counted.

=cut

package BenchProcessor;

use strict;
use warnings;

use Exporter 'import';
use List::Util qw(max sum0);
use POSIX qw(sysconf _SC_CLK_TCK);

our @EXPORT = qw(processor_time);

# Microseconds of the clock in which the kernel tells it.
my $tick = 1e6 / sysconf(_SC_CLK_TCK);

# The fields of /proc/PID/stat behind the name that are looked at: the parent, and
# the time taken by the process itself and by the kernel for it, of threads that have
# ended as well.
my ($parent, $user, $system) = (1, 11, 12);

=pod

=head1 FUNCTIONS

=over

=item processor_time($world, $who, $what)

Do something, which returns how often it was done, and return a hash of what each
took of the processors, in microseconds: C<servers> those of the ensemble, C<client>
who was measured.

=back

=cut

sub processor_time
{
	my ($world, $who, $what) = @_;
	my @before = taken($world, $who);
	my $times = $what->() or return;
	my @after = taken($world, $who);
	return (
		servers => ($after[0] - $before[0]) / $times,
		client => ($after[1] - $before[1]) / $times);
}

# What was taken up to now by the servers and by a client.
sub taken
{
	my ($world, $who) = @_;
	my %processes = processes();
	return map { sum0(map { max($processes{$_}{taken}, by_threads($_)) }
		  family(\%processes, @$_)) } [ $world->servers ], [ $world->client($who) ];
}

# All processes by their number: the parent, and what each has taken.
sub processes
{
	my %processes;
	foreach my $file (glob '/proc/[0-9]*/stat')
	{
		open my $stat, '<', $file or next;
		my ($pid, $rest) = (<$stat> // '') =~ /^(\d+) \(.*\) (.*)/ or next;
		my @fields = split ' ', $rest;
		$processes{$pid} = {
			parent => $fields[$parent],
			taken => $tick * ($fields[$user] + $fields[$system])
		};
	}
	return %processes;
}

# These processes and all below them.
sub family
{
	my ($processes, @pids) = @_;
	my %family = map { $_ => 1 } @pids;
	my $size = 0;
	while ($size < keys %family)
	{
		$size = keys %family;
		$family{$_} = 1
		  foreach grep { $family{ $processes->{$_}{parent} } } keys %$processes;
	}
	return grep { $processes->{$_} } keys %family;
}

# What the threads that a process has now have taken, to the nanosecond: many backends
# with little to do each would not come to one tick.
sub by_threads
{
	my ($pid) = @_;
	my $taken = 0;
	foreach my $file (glob "/proc/$pid/task/*/schedstat")
	{
		open my $schedstat, '<', $file or next;
		my ($nanoseconds) = split ' ', <$schedstat> // '0';
		$taken += $nanoseconds / 1000;
	}
	return $taken;
}

1;
