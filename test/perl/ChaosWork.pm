
=pod

=head1 NAME

ChaosWork - the work of a worker of a chaos run under a lock

=head1 DESCRIPTION

Part of ChaosWorker.  A section reads a counter in one statement and writes it in
another, or reads it twice if the lock is shared, and adds a row to the table of all
sections.  A foreign one adds a row to a table of the other cluster as well.

=cut

package ChaosWork;

use strict;
use warnings;

use ChaosRandom qw(now);
use List::Util qw(all min);
use Time::HiRes qw(sleep);

# The ZooKeeper session, and which of its connections it is.
my $link_column = "(SELECT session_id || '/' || reconnects FROM zk_session())";

=pod

=head1 METHODS

Those that return something return true if all has succeeded.

=over

=item $worker->work($plan)

The counter is read in one statement and written in another.

=cut

sub work
{
	my ($self, $plan) = @_;
	return $self->look($plan) if $plan->{mode} eq 'shared';
	my $table = $plan->{counter};
	my $path = $plan->{path};

	if ($table eq 'fenced' && $self->{params}{fence})
	{
		$self->did('fence', "SELECT zk_lock_fence('$path')") or return 0;
	}
	my ($seen, $token, $link) = $self->run('read',
			"SELECT n, zk_lock_token('$path'), $link_column"
		  . " FROM $table WHERE path = '$path'");
	return 0 unless $self->{outcome} eq 'ok';
	$self->note_section($plan, $link, $token, $seen, $seen);
	my @steps = (
		sub {
			$self->did('write',
				"WITH counted AS (UPDATE $table SET n = $seen + 1 WHERE path = '$path')"
				  . $self->row($plan, $seen, $token));
		});
	splice @steps, $plan->{far_first} ? 0 : 1, 0, sub { $self->write_far }
	  if $plan->{kind} eq 'foreign';
	return $self->hold($plan) && all { $_->() } @steps;
}

# A shared holder reads twice, and checks that nothing has changed.
sub look
{
	my ($self, $plan) = @_;
	my $path = $plan->{path};
	my @looks;

	foreach (1, 2)
	{
		my ($seen, $token, $link) = $self->run('read',
				"SELECT plain.n || '/' || fenced.n, zk_lock_token('$path'),"
			  . " $link_column FROM plain"
			  . " JOIN fenced USING (path) WHERE path = '$path'");
		return 0 unless $self->{outcome} eq 'ok';
		push @looks, [ $link, $token, $seen ];
		return 0 if @looks == 1 && !$self->hold($plan);
	}
	$self->note_section($plan, @{ $looks[0] }, $looks[1][2]);
	return $self->did('write', $self->row($plan, $looks[0][2], $looks[0][1]));
}

=pod

=item $worker->hold($plan)

Take time, as planned: idle in the transaction, or within a statement.  No worker
continues for much longer than the run.

=cut

sub hold
{
	my ($self, $plan) = @_;
	my $seconds = min($plan->{hold}, $self->{params}{end} - now() + 1);
	return 1 if $seconds <= 0;
	return $self->did('sleep', "SELECT pg_sleep($seconds)", $seconds)
	  if $plan->{in_statement};
	sleep $seconds;
	return 1;
}

=pod

=item $worker->row($plan, $seen, $token)

What tells that the section was committed, in the table of all: a statement.

=cut

sub row
{
	my ($self, $plan, $seen, $token) = @_;
	return ' INSERT INTO sections VALUES ('
	  . "'$self->{id}', '$plan->{path}', '$plan->{counter}', '$seen', $token)";
}

# What tells the same in the other cluster.
sub write_far
{
	my ($self) = @_;
	return $self->did('far', "INSERT INTO far_guests VALUES ('$self->{id}')");
}

=pod

=item $worker->note_section($plan, $link, $token, $seen, $again)

Write the findings into the history.  The wait was a steady one if the ZooKeeper session
and its connection were the same as before: a client that reconnects may have to create
its contender again, and it breaks a connection itself where a busy server is silent.

=back

=cut

sub note_section
{
	my ($self, $plan, $link, $token, $seen, $again) = @_;
	my ($session) = split m{/}, $link;
	$self->note(
		'S',
		$self->{id},
		$self->{cluster},
		@{$plan}{qw(path mode counter)},
		$self->{guard},
		$self->{pid},
		$session,
		$token,
		$seen,
		$again,
		$self->{hold_id},
		@{$self}{qw(invoked acquired)},
		($self->{link} // '') eq $link ? 1 : 0,
		@{$plan}{qw(kind hold)});
	$self->{link} = $link;
	return;
}

1;
