
=pod

=head1 NAME

ChaosServers - the nemesis's faults of ensemble servers

=head1 DESCRIPTION

One server at a time is killed, stopped or parted from the others, the leader
above all; or all of them are restarted one after the other.  The next fault
waits until all of them serve again.

=cut

package ChaosServers;

use strict;
use warnings;

use ChaosRandom qw(now);
use Time::HiRes qw(sleep);

# How often each kind comes.
my %weights = (
	kill_leader => 5,
	kill_follower => 4,
	pause_leader => 4,
	pause_follower => 7,
	part_leader => 2,
	part_follower => 5,
	rolling => 1);

=pod

=head1 METHODS

=over

=item ChaosServers->new($nemesis)

=cut

sub new
{
	my ($class, $nemesis) = @_;
	return bless {
		nemesis => $nemesis,
		ensemble => $nemesis->world->ensemble,
		look_next => 0,
		to_restart => []
	}, $class;
}

=pod

=item $servers->whole()

Do all of them serve?

=item $servers->strike()

Do something to one of them; false if that is not the time for it.

=item $servers->tick()

Check whether they have recovered, and continue a rolling restart.

=item $servers->end()

Let everything recover.

=back

=cut

sub whole
{
	my ($self) = @_;
	return !$self->{fault};
}

sub strike
{
	my ($self) = @_;
	return 0 unless $self->whole;
	my $random = $self->{nemesis}->random;
	my ($kind, $role) = split /_/, $random->weighted(%weights);
	my $leader = $self->{ensemble}->leader // return 0;
	my @followers = grep { $_ != $leader } $self->{ensemble}->ids;

	if ($kind eq 'rolling')
	{
		$self->{to_restart} = [ @followers, $leader ];
		return $self->restart_next;
	}
	my $id = $role eq 'leader' ? $leader : $random->pick(@followers);
	my $method = "${kind}_server";
	$self->begin("${kind}_$role", $id);
	return $self->$method($id);
}

# A fault begins; it is over when all servers serve.  The log names its cluster.
sub begin
{
	my ($self, $kind, $id) = @_;
	my $sessions = $self->{nemesis}->world->proxies->{$id}->sessions;
	$self->{fault} =
	  $self->{nemesis}->fault($kind, 'all',
		text => join ' ', "server $id:", sort keys %$sessions);
	$self->{struck} = 1;
	return;
}

# The server is to recover from here on.
sub let_recover
{
	my ($self) = @_;
	$self->{struck} = 0;
	return;
}

sub kill_server
{
	my ($self, $id) = @_;
	$self->{ensemble}->kill_server($id);
	return $self->{nemesis}->later(
		$self->{nemesis}->random->between(0.1, 2),
		sub {
			$self->{ensemble}->start_server($id, wait => 0);
			$self->let_recover;
		});
}

sub pause_server
{
	my ($self, $id) = @_;
	$self->{ensemble}->pause_server($id);
	return $self->{nemesis}->later($self->{nemesis}->random->between(0.1, 8),
		sub { $self->{ensemble}->resume_server($id); $self->let_recover; });
}

sub part_server
{
	my ($self, $id) = @_;
	$self->{ensemble}->partition($id);
	return $self->{nemesis}->later($self->{nemesis}->random->between(0.5, 9),
		sub { $self->{ensemble}->heal($id); $self->let_recover; });
}

# The next server of a rolling restart, ended as a service manager does.
sub restart_next
{
	my ($self) = @_;
	my $id = shift @{ $self->{to_restart} };
	$self->begin('rolling_restart', $id);
	$self->{ensemble}->kill_server($id, 'TERM');
	return $self->{nemesis}->later(
		0.3,
		sub {
			$self->{ensemble}->stop_server($id);
			$self->{ensemble}->start_server($id, wait => 0);
			$self->let_recover;
		});
}

sub tick
{
	my ($self) = @_;
	return if !$self->{fault} || $self->{struck} || now() < $self->{look_next};
	$self->{look_next} = now() + 0.25;
	die "the ensemble does not recover from: $self->{fault}{kind}\n"
	  if now() > $self->{fault}{begin} + 120;
	return unless $self->all_serve;
	$self->{nemesis}->log($self->{fault});
	$self->{fault} = undef;
	$self->restart_next if @{ $self->{to_restart} };
	return;
}

# Is one the leader, and do the others follow?
sub all_serve
{
	my ($self) = @_;
	my %states;
	foreach my $id ($self->{ensemble}->ids)
	{
		my $state = $self->{ensemble}->mntr($id)->{server_state} // return 0;
		$states{$state}++;
	}
	return ($states{leader} // 0) == 1 && ($states{follower} // 0) == 2;
}

sub end
{
	my ($self) = @_;
	$self->{to_restart} = [];
	while ($self->{fault})
	{
		$self->tick;
		sleep 0.05;
	}
	return;
}

1;
