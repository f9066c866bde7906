
=pod

=head1 NAME

ZkFastPath - a client that calls functions without SQL, as libpq's PQfn() does

=head1 SYNOPSIS

  my $client = ZkFastPath->new($node);
  $client->ask('BEGIN');
  $client->call('pg_notify(text,text)', 'channel', 'x');
  $client->ask('COMMIT');
  is($client->sqlstate, '');

=head1 DESCRIPTION

It speaks PostgreSQL's protocol itself, as psql calls the functions of large objects only.  It
connects to the socket of a PostgreSQL::Test::Cluster, which trusts it.

=cut

package ZkFastPath;

use strict;
use warnings;

use Carp;
use IO::Socket::UNIX;
use Test::More;

=pod

=head1 METHODS

=over

=item ZkFastPath->new($node)

Connect to database C<postgres>.

=cut

sub new
{
	my ($class, $node) = @_;
	my $path = $node->host . '/.s.PGSQL.' . $node->port;
	my $socket = IO::Socket::UNIX->new(Peer => $path) or croak "$path: $!";
	my $self = bless { node => $node, socket => $socket }, $class;
	my $user = getpwuid $>;
	my $startup = pack 'N (Z*)*', 3 << 16, user => $user, database => 'postgres', '';

	$self->transmit(pack 'N a*', 4 + length $startup, $startup);
	$self->answer;
	croak "cannot connect: $self->{sqlstate}" if $self->{sqlstate};
	return $self;
}

sub transmit
{
	my ($self, $bytes) = @_;
	$self->{socket}->syswrite($bytes) == length $bytes or croak "cannot send: $!";
	return;
}

sub receive
{
	my ($self, $length) = @_;
	my $bytes = '';
	while (length $bytes < $length)
	{
		$self->{socket}->sysread($bytes, $length - length $bytes, length $bytes)
		  or croak 'the server has closed the connection';
	}
	return $bytes;
}

# Read until the server is ready for more.  Returns the results of rows or a call, as text.
sub answer
{
	my ($self) = @_;
	my ($type, @values) = ('');

	$self->{sqlstate} = '';
	until ($type eq 'Z')
	{
		($type, my $length) = unpack 'a N', $self->receive(5);
		my $body = $self->receive($length - 4);
		push @values, unpack 'x2 (l>/a*)*', $body if $type eq 'D';
		push @values, unpack 'l>/a*', $body if $type eq 'V' && $length > 8;
		($self->{sqlstate}) = $body =~ /\0C(.{5})\0/s if $type eq 'E';
	}
	return join '|', @values;
}

=pod

=item $client->ask($sql, $quiet)

Execute a query.  Returns its result; no value may be null.  With C<$quiet> it is not
noted in the test's output.

=item $client->call($signature, @arguments)

Call a function, with its arguments and its result as text.  The session executes nothing else
for that.

=item $client->sqlstate()

Of the error of the last call of these; empty if there was none.

=item $client->quit()

=back

=cut

sub ask
{
	my ($self, $sql, $quiet) = @_;
	$self->transmit(pack 'a N Z*', 'Q', 5 + length $sql, $sql);
	my $values = $self->answer;
	note "fast path: $sql -> $values $self->{sqlstate}" unless $quiet;
	return $values;
}

sub call
{
	my ($self, $signature, @arguments) = @_;
	$self->{oid}{$signature} //= $self->{node}
	  ->safe_psql('postgres', "SELECT '$signature'::regprocedure::oid");
	my $message = pack 'N n n (N/a*)' . @arguments . ' n', $self->{oid}{$signature}, 0,
	  scalar @arguments, @arguments, 0;
	$self->transmit(pack 'a N a*', 'F', 4 + length $message, $message);
	my $value = $self->answer;
	note "fast path: call of $signature: @arguments -> $value $self->{sqlstate}";
	return $value;
}

sub sqlstate { return $_[0]->{sqlstate}; }

sub quit
{
	my ($self) = @_;
	$self->transmit(pack 'a N', 'X', 4);
	close $self->{socket};
	return;
}

1;
