
=pod

=head1 NAME

InteropClient - a client that takes one kind of lock, whatever program it is of

=head1 SYNOPSIS

  my $curator = InteropProgram->new('curator', $ensemble, $node);
  my $theirs = InteropClient->theirs($curator->session, 'mutex');
  my $ours = InteropClient->ours($node, 'curator', 'exclusive');

  $theirs->ask(acquire => '/a');
  $ours->send(acquire => '/a');
  ok(!$ours->answered);
  $theirs->ask(release => '/a');
  $ours->answer;

=head1 DESCRIPTION

Tests can treat all clients alike: paths are lock paths, and the commands are the same
for all.

  acquire PATH        wait for the lock
  release PATH
  contenders PATH     answered with how many the client's own listing has
  count PATH TIMES    so many times: acquire, add one to the number in the table
                      counter, release

The table, and what our own clients call to count, are made by C<prepare_to_count>.

=cut

package InteropClient;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use ZkPsql;

our @EXPORT = qw(prepare_to_count);

=pod

=head1 METHODS

=over

=item InteropClient->ours($node, $style, $mode)

A backend whose contenders are named in that style; the mode is C<exclusive> or
C<shared>.

=item InteropClient->theirs($session, $kind)

One of a session of an InteropProgram.

=item $client->name()

=item $client->session()

The ZkPsql or the session.

=cut

sub ours
{
	my ($class, $node, $style, $mode) = @_;
	my $shared = $mode eq 'shared' ? 'true' : 'false';
	return bless {
		name => "zklock's $mode in style $style",
		session => ZkPsql->new($node, 'zklock.znode_style' => $style),
		acquire => "SELECT zk_lock_acquire('%s', shared => $shared)",
		release => "SELECT zk_lock_release('%s', shared => $shared)",
		contenders => "SELECT count(*) FROM zk_lock_queue('%s')",
		count => "CALL count_under('%s', %d); SELECT true"
	}, $class;
}

sub theirs
{
	my ($class, $session, $kind) = @_;
	return bless {
		name => $session->name . "'s $kind",
		session => $session,
		acquire => "acquire $kind /zklock%s",
		release => "release $kind /zklock%s",
		contenders => "contenders $kind /zklock%s",
		count => "count $kind /zklock%s %d"
	}, $class;
}

sub name { return $_[0]->{name}; }
sub session { return $_[0]->{session}; }

=pod

=item $client->send($command, @arguments)

Do not wait for the answer.

=item $client->answered()

=item $client->answer($seconds)

Wait for it.  A number is returned; anything but that or success dies.

=item $client->ask($command, @arguments)

=back

=cut

sub send
{
	my ($self, $command, @arguments) = @_;
	$self->{session}->send(sprintf $self->{$command}, @arguments);
	return;
}

sub answered
{
	my ($self) = @_;
	return $self->{session}->answered;
}

sub answer
{
	my ($self, $seconds) = @_;
	my $answer = $self->{session}->answer($seconds);
	croak "$self->{name}: \"$answer\"" unless $answer =~ /^(?:t|\d+)$/;
	return $answer;
}

sub ask
{
	my ($self, $command, @arguments) = @_;
	$self->send($command, @arguments);
	return $self->answer;
}

=pod

=head1 FUNCTIONS

=over

=item prepare_to_count($node)

=back

=cut

sub prepare_to_count
{
	my ($node) = @_;
	$node->safe_psql(
		'postgres', q(
		CREATE TABLE counter AS SELECT 0 AS n;
		CREATE PROCEDURE count_under(path text, times integer)
		LANGUAGE plpgsql AS $$
		DECLARE
			seen integer;
		BEGIN
			FOR i IN 1 .. times LOOP
				PERFORM zk_lock_acquire_xact(path);
				SELECT n INTO seen FROM counter, pg_sleep(0.002);
				UPDATE counter SET n = seen + 1;
				COMMIT;
			END LOOP;
		END $$));
	return;
}

1;
