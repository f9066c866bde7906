
=pod

=head1 NAME

RandomQueues - the queues of a random run, as the model has them

=head1 DESCRIPTION

What an ensemble that keeps its promises would have: for each path the contenders in
the order in which they came, and who may hold the lock.  A contender is a hash with
C<id> (a number that grows), C<session>, C<path>, C<mode> (C<x>, C<s> or C<p>),
C<permits> (0 for a lock) and C<delay> (whether it was requested with a lock delay).  A
path is unclean if a holder with a delay vanished, until another one has waited for that.

=cut

package RandomQueues;

use strict;
use warnings;

sub new
{
	my ($class) = @_;
	return bless { queues => {}, last => 0, contenders => {}, unclean => {} }, $class;
}

=pod

=head1 METHODS

=over

=item $queues->add($session, $path, $mode, $permits, $delay)

A new contender at the end of a queue; returns its id.

=item $queues->remove($id), $queues->requeue($id)

=item $queues->vanish($id)

The same without a release.

=item $queues->is_delayed($id), $queues->end_delay($id), $queues->is_unclean()

Whether it waits for a vanished holder's work when it is its turn; it has.

=item $queues->downgrade($id)

An exclusive contender becomes a shared one in the same place.

=cut

sub add
{
	my ($self, $session, $path, $mode, $permits, $delay) = @_;
	my $id = ++$self->{last};
	$self->{contenders}{$id} = {
		id => $id,
		session => $session,
		path => $path,
		mode => $mode,
		permits => $permits,
		delay => $delay
	};
	push @{ $self->{queues}{$path} }, $id;
	return $id;
}

sub remove
{
	my ($self, $id) = @_;
	my $contender = delete $self->{contenders}{$id} or return;
	my $queue = $self->{queues}{ $contender->{path} };
	@$queue = grep { $_ != $id } @$queue;
	return;
}

sub vanish
{
	my ($self, $id) = @_;
	my $contender = $self->get($id);
	$self->{unclean}{ $contender->{path} } = 1 if $contender->{delay};
	return $self->remove($id);
}

sub is_delayed
{
	my ($self, $id) = @_;
	my $contender = $self->get($id);
	return $contender->{delay} && $self->{unclean}{ $contender->{path} };
}

sub is_unclean { return %{ $_[0]->{unclean} } ? 1 : 0; }

sub end_delay
{
	my ($self, $id) = @_;
	delete $self->{unclean}{ $self->get($id)->{path} } if $self->is_delayed($id);
	return;
}

sub downgrade
{
	my ($self, $id) = @_;
	$self->{contenders}{$id}{mode} = 's';
	return;
}

=pod

=item $queues->get($id), $queues->list($path), $queues->paths()

A contender, those of a path in order, all paths that were ever used.

=item $queues->of_session($session)

The ids of its contenders.

=cut

sub get { return $_[0]->{contenders}{ $_[1] }; }

sub list
{
	my ($self, $path) = @_;
	return map { $self->{contenders}{$_} } @{ $self->{queues}{$path} // [] };
}

sub paths { return sort keys %{ $_[0]->{queues} }; }

sub of_session
{
	my ($self, $session) = @_;
	return sort { $a <=> $b }
	  grep { $self->{contenders}{$_}{session} == $session } keys %{ $self->{contenders} };
}

=pod

=item $queues->ahead($id)

The contenders of other sessions that are ahead of this one.

=item $queues->mistaken($id)

Whether one of those is for another kind of lock.

=item $queues->blockers($id)

Those that keep it from being granted; none if it is.

=back

=cut

sub ahead
{
	my ($self, $id) = @_;
	my $self_contender = $self->{contenders}{$id};
	my @ahead;
	foreach my $other ($self->list($self_contender->{path}))
	{
		last if $other->{id} == $id;
		push @ahead, $other if $other->{session} != $self_contender->{session};
	}
	return @ahead;
}

sub mistaken
{
	my ($self, $id) = @_;
	my $permits = $self->{contenders}{$id}{permits};
	return grep { $_->{permits} != $permits } $self->ahead($id);
}

sub blockers
{
	my ($self, $id) = @_;
	my $contender = $self->{contenders}{$id};
	my @ahead = $self->ahead($id);
	return grep { $_->{mode} eq 'x' } @ahead if $contender->{mode} eq 's';
	return @ahead if $contender->{mode} eq 'x' || @ahead >= $contender->{permits};
	return;
}

=pod

=head1 TEXT

C<text()> is the same for queues that differ in numbers only.

=cut

sub text
{
	my ($self) = @_;
	return join "\n", (map { "unclean $_" } sort keys %{ $self->{unclean} }), map {
		my $path = $_;
		my @list = map { "$_->{session}$_->{mode}" . ($_->{delay} ? 'd' : '') } $self->list($path);
		@list ? "$path @list" : ()
	} $self->paths;
}

1;
