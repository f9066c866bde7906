
=pod

=head1 NAME

ChaosFailover - the nemesis's failovers, which lose commits

=head1 DESCRIPTION

Replication to the standby ends.  The primary continues for a while and is killed, and
the standby is promoted without its last commits.  Then it gets a standby of its own, and
the cluster can fail over again.

The fault in the log begins before anything that could be lost was committed, is
applied when the primary is dead, and ends when the other one is the primary.

=cut

package ChaosFailover;

use strict;
use warnings;

use ChaosRandom qw(now);
use POSIX qw(WNOHANG);
use Time::HiRes qw(sleep);

# One takes its time until the next may begin; and no client must end
# during one.
my $rest = 15;

=pod

=head1 METHODS

=over

=item ChaosFailover->new($nemesis, $cluster)

Of a ChaosCluster; of one without a standby there are none.

=item $failover->under_way()

=item $failover->tick()

Begin one when it is time, and continue it.

=item $failover->end()

Come to the end of it.

=back

=cut

sub new
{
	my ($class, $nemesis, $cluster) = @_;
	return bless {
		nemesis => $nemesis,
		cluster => $cluster,
		step => 'rest',
		due => now() + $nemesis->random->between(3, 8),
		look_next => 0
	}, $class;
}

sub under_way
{
	my ($self) = @_;
	return $self->{step} ne 'rest';
}

sub tick
{
	my ($self) = @_;
	return if now() < $self->{look_next};
	$self->{look_next} = now() + 0.2;
	my $step = $self->{step};
	my $next = $self->can($step)->($self) or return;
	$self->{step} = $next;
	return;
}

sub end
{
	my ($self) = @_;
	my $deadline = now() + 120;
	while ($self->under_way)
	{
		die "the failover does not end: $self->{step}\n" if now() > $deadline;
		$self->tick;
		sleep 0.02;
	}
	return;
}

# ---- The steps.  Each returns the next one when its own is done.

# A cluster that restarts has no position.
sub rest
{
	my ($self) = @_;
	my $nemesis = $self->{nemesis};
	return if now() < $self->{due} || $nemesis->remaining < $rest;
	my $name = $self->{cluster}->name;
	return if $nemesis->has_stopped($name);
	my $fault = $nemesis->fault('failover', 'cluster', cluster => $name);
	$self->{position} = eval { $self->{cluster}->position } or return;
	$self->{fault} = $fault;
	return 'replicate';
}

sub replicate
{
	my ($self) = @_;
	return unless $self->{cluster}->has_received($self->{position});
	$self->{cluster}->part;
	return 'part';
}

sub part
{
	my ($self) = @_;
	return unless $self->{cluster}->is_parted;
	$self->{due} = now() + $self->{nemesis}->random->between(0.1, 1.5);
	return 'go_on';
}

# What is committed now is lost.
sub go_on
{
	my ($self) = @_;
	return if now() < $self->{due};
	$self->{cluster}->kill_primary;
	$self->{fault}{applied} = now();
	$self->{process} = $self->{cluster}->promote;
	return 'promote';
}

sub promote
{
	my ($self) = @_;
	return unless $self->process_ended;
	$self->{nemesis}->log($self->{fault});
	$self->{process} = $self->{cluster}->begin_copy;
	return 'copy';
}

sub copy
{
	my ($self) = @_;
	return unless $self->process_ended;
	$self->{cluster}->follow;
	return 'follow';
}

sub follow
{
	my ($self) = @_;
	return unless $self->{cluster}->is_followed;
	$self->{due} = now() + $self->{nemesis}->random->between(1, 2) * $rest;
	return 'rest';
}

# Returns true if the process of this step has ended.
sub process_ended
{
	my ($self) = @_;
	return 0 if waitpid($self->{process}, WNOHANG) != $self->{process};
	die "$self->{step} has failed with status $?\n" if $? != 0;
	return 1;
}

1;
