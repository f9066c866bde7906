
=pod

=head1 NAME

ZkSyncWait - a time in which commits wait for a standby

=head1 SYNOPSIS

  my $wait = ZkSyncWait->new($node);
  $session->send('COMMIT');
  $session->wait_until_busy($observer, "wait_event = 'SyncRep'");
  ok(!$session->answered);
  $wait->end;
  $session->answer;

=head1 DESCRIPTION

From new() to end(), whatever commits in this cluster waits for a synchronous standby which
does not exist, unless its synchronous_commit says otherwise.

That does not begin when sessions see the setting: the checkpointer has to have read it, and
tells the others.  So a session of ours commits again and again, until it waits.

=cut

package ZkSyncWait;

use strict;
use warnings;

use ZkPsql;
use ZkTest qw(wait_for);

=pod

=head1 METHODS

=over

=item ZkSyncWait->new($node)

=item $wait->end()

=back

=cut

sub new
{
	my ($class, $node) = @_;
	my $self = bless { node => $node, probe => ZkPsql->new($node) }, $class;

	$node->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
	$node->reload;
	$self->send_probe;
	wait_for(sub { $self->probe_waits }, 'commits to wait for a standby');
	return $self;
}

# A commit that PostgreSQL does not leave out, as it has written WAL.
sub send_probe
{
	my ($self) = @_;
	$self->{probe}->send(q(SELECT pg_logical_emit_message(true, 'probe', '')), 'quiet');
	return;
}

sub probe_waits
{
	my ($self) = @_;
	if ($self->{probe}->answered)
	{
		$self->{probe}->answer;
		$self->send_probe;
	}
	return $self->{node}->safe_psql('postgres',
		"SELECT wait_event FROM pg_stat_activity WHERE pid = ${\$self->{probe}->pid}") eq 'SyncRep';
}

sub end
{
	my ($self) = @_;
	$self->{node}->safe_psql('postgres', 'ALTER SYSTEM RESET synchronous_standby_names');
	$self->{node}->reload;
	$self->{probe}->answer;
	$self->{probe}->quit;
	return;
}

1;
