
=pod

=head1 NAME

BenchPeer - a lock client that is measured

=head1 SYNOPSIS

  my $peer = BenchPeer->new('test/bench/raw', $servers);
  my @microseconds = $peer->sample('cycle /bench/cycle', 0.5);

=head1 DESCRIPTION

A program that takes the commands which are described in test/bench/README.

=cut

package BenchPeer;

use strict;
use warnings;

use BenchStats;
use Carp;
use List::Util qw(max min);
use parent 'ZkTool';

# How long a command may take, in seconds: a thousand waiters of some clients
# take a while.
my $patience = 180;

# How many times something is done to find out how long it takes.
my $trial = 20;

# And at most, however fast it is.
my $most = 3000;

=pod

=head1 METHODS

=over

=item BenchPeer->new($program, @arguments)

=item $peer->command($line)

The words of the answer; none if the client has no way to do this.  Dies of an
error.

=cut

sub command
{
	my ($self, $line) = @_;
	my ($result, @words) = split ' ', $self->ask($line, $patience);
	return @words if $result eq 'ok';
	return if $result eq 'unsupported';
	croak "$line: $result @words";
}

=pod

=item $peer->sample($command, $seconds)

Run a command, which ends with how often something is to be done, so often that
it takes about as long, and return the durations in microseconds.  Before that it
is run a few times that do not count.

=back

=cut

sub sample
{
	my ($self, $command, $seconds) = @_;
	my @durations = $self->command("$command $trial");
	return unless @durations;
	my $count = min($most, max($trial, int($seconds * 1e6 / median(@durations))));
	return $self->command("$command $count");
}

1;
