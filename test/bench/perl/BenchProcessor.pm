
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
use ZkTest qw(cpu_time);

our @EXPORT = qw(processor_time threads_time);

=pod

=head1 FUNCTIONS

=over

=item processor_time($world, $who, $what)

Do something, which returns how often it was done, and return a hash of what each
took of the processors, in microseconds: C<servers> those of the ensemble, C<client>
who was measured.

=item threads_time($pid)

What the threads that a process has now have taken, in microseconds.

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
	my %parents = parents();
	return map { sum0(map { process_time($_) } family(\%parents, @$_)) }
	  [ $world->servers ], [ $world->client($who) ];
}

# What a process has taken.  The kernel tells that in ticks, of which many backends with
# little to do each would not come to one, or to the nanosecond, but without the threads
# that have ended.
sub process_time
{
	my ($pid) = @_;
	return max(1e6 * (eval { cpu_time($pid) } // 0), threads_time($pid));
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

sub threads_time
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
