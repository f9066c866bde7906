
=pod

=head1 NAME

ChaosRandom - random numbers and the clock, for all processes of a chaos run

=head1 SYNOPSIS

  my $random = ChaosRandom->new($seed, 'worker 3');
  sleep $random->between(0.1, 2) if $random->chance(0.05);
  my $path = $random->pick(@paths);

=head1 DESCRIPTION

Each user has a generator of its own: Perl's is shared by whatever runs in the
process, so a seed would decide less than it seems to.

=cut

package ChaosRandom;

use strict;
use warnings;

use Digest::MD5 qw(md5);
use Exporter 'import';
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

our @EXPORT_OK = qw(is_stayer now);

=pod

=head1 METHODS

=over

=item ChaosRandom->new($seed, $name)

The same seed and name give the same numbers again.

=cut

sub new
{
	my ($class, $seed, $name) = @_;
	return bless { seed => "$seed/$name", count => 0, numbers => [] }, $class;
}

=pod

=item $random->uniform()

At least 0 and less than 1.

=cut

sub uniform
{
	my ($self) = @_;
	my $numbers = $self->{numbers};
	@$numbers = unpack 'L4', md5("$self->{seed}/" . $self->{count}++)
	  unless @$numbers;
	return shift(@$numbers) / 2**32;
}

=pod

=item $random->between($low, $high), $random->chance($probability)

=item $random->pick(@list)

One of them; undef of none.

=item $random->weighted(%weights)

One of the keys, as often as its weight says.

=item $random->interval($mean)

Until the next of events that have nothing to do with each other.

=back

=cut

sub between
{
	my ($self, $low, $high) = @_;
	return $low + ($high - $low) * $self->uniform;
}

sub chance
{
	my ($self, $probability) = @_;
	return $self->uniform < $probability;
}

sub pick
{
	my ($self, @list) = @_;
	return $list[ int($self->uniform * @list) ];
}

sub weighted
{
	my ($self, %weights) = @_;
	my $sum = 0;
	$sum += $_ foreach values %weights;
	my $at = $self->uniform * $sum;
	my @names = sort keys %weights;
	foreach my $name (@names)
	{
		$at -= $weights{$name};
		return $name if $at < 0;
	}
	return $names[-1];
}

sub interval
{
	my ($self, $mean) = @_;
	return -$mean * log(1 - $self->uniform);
}

=pod

=head1 FUNCTIONS

=over

=item now()

The machine's monotonic clock in seconds, the same for all processes.

=item is_stayer($worker)

Is this one of the workers that keep their connection?  What lives for long
shows what adds up.

=back

Both have to be asked for by name.

=cut

sub is_stayer
{
	my ($worker) = @_;
	return $worker % 4 == 1;
}

sub now
{
	return clock_gettime(CLOCK_MONOTONIC);
}

1;
