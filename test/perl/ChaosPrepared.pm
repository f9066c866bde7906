
=pod

=head1 NAME

ChaosPrepared - sections of a chaos run that are committed in two phases

=head1 DESCRIPTION

Part of ChaosWorker.  The transaction is prepared under a lock of session scope, and
committed later, when the lock may be lost.  A refused client rolls it back, which is
never refused.  What is left over when a connection was lost, C<resolve> of ChaosClient
takes back with the next one.

=cut

package ChaosPrepared;

use strict;
use warnings;

use ChaosRandom qw(now);
use Time::HiRes qw(sleep);

# For how many seconds it tries to roll back prepared transactions.
my $patience = 60;

=pod

=head1 METHODS

=over

=item $worker->prepared_scope($plan)

Such a section; true if it was committed.

=back

=cut

sub prepared_scope
{
	my ($self, $plan) = @_;
	return
		 $self->acquire($plan)
	  && $self->did('begin', 'BEGIN')
	  && $self->work($plan)
	  && $self->prepare($plan)
	  && $self->commit_prepared
	  && $self->give_back($plan);
}

# The first phase, and some time between the two.
sub prepare
{
	my ($self, $plan) = @_;
	if ($self->did('prepare', "PREPARE TRANSACTION '$self->{id}'"))
	{
		return 1 if $self->hold($plan);
	}
	# If it was refused there is nothing, and the checker sees that.
	$self->insist('rollback', 'ROLLBACK');
	$self->take_back('resolve') unless $self->{lost};
	return 0;
}

# The second one.
sub commit_prepared
{
	my ($self) = @_;
	return 1 if $self->did('commit_prepared', "COMMIT PREPARED '$self->{id}'");
	$self->take_back('rollback_prepared') unless $self->{lost};
	return 0;
}

# Roll it back, whatever that takes: it may be cancelled.
sub take_back
{
	my ($self, $name) = @_;
	my $deadline = now() + $patience;
	do
	{
		die "a prepared transaction cannot be taken back: $self->{outcome}\n"
		  if now() > $deadline;
		$self->run($name, "ROLLBACK PREPARED '$self->{id}'");
	} until ($self->{lost} || $self->{outcome} =~ /^(ok|42704|ZKL01)$/);
	return;
}

1;
