
=pod

=head1 NAME

RandomClient - a connection of a random run

=head1 SYNOPSIS

  my $client = RandomClient->new($connection, 'zklock.root' => '/random/1');
  $client->send('SELECT 1');
  until ($client->is_ready) { ... }
  $client->answer;    # { state => '', value => '1', notices => [] }

=cut

package RandomClient;

use strict;
use warnings;

use DBD::Pg qw(:async);
use DBI;

=pod

=head1 METHODS

=over

=item RandomClient->new($connection, %settings)

=item $client->pid()

=item $client->send($sql), $client->is_ready(), $client->answer()

A statement, whether it has ended, and how: SQLSTATE, the first column of the first row,
and warnings and notices, each as severity, SQLSTATE and what it names.

=item $client->wait($seconds)

Waits for the end of the statement, or so long.

=item $client->ask($sql)

Execute a statement that cannot fail; returns the rows.

=item $client->close()

=back

=cut

sub new
{
	my ($class, $connection, %settings) = @_;
	my $options = join ' ', map { "-c $_=$settings{$_}" } sort keys %settings;
	my $dbh = DBI->connect(
		"dbi:Pg:$connection;options='$options'",
		'', '',
		{
			PrintError => 0,
			PrintWarn => 1,
			Warn => 1,
			RaiseError => 0,
			AutoCommit => 1,
			pg_server_prepare => 0,
			pg_bool_tf => 1
		}) or die "cannot connect: $DBI::errstr\n";
	$dbh->{pg_errorlevel} = 2;
	return bless { dbh => $dbh, notices => [] }, $class;
}

sub pid { return $_[0]->{dbh}{pg_pid}; }

# Do something with the connection, in which notices may arrive.
sub listen
{
	my ($self, $sub) = @_;
	local $SIG{__WARN__} = sub { push @{ $self->{notices} }, brief($_[0]) };
	return $sub->();
}

# What a test compares of a notice.
sub brief
{
	my ($text) = @_;
	my ($severity, $state, $message) = $text =~ /^(\w+): +(\w{5}): +([^\n]*)/
	  or return "unknown $text";
	return "NOTICE $state $message" if $severity eq 'NOTICE';
	my ($name) = $message =~ /"([^"]*)"/;
	return join ' ', $severity, $state, $name // ();
}

sub send
{
	my ($self, $sql) = @_;
	$self->{notices} = [];
	$self->listen(
		sub {
			$self->{statement} = $self->{dbh}->prepare($sql, { pg_async => PG_ASYNC });
			$self->{statement}->execute;
		});
	return;
}

sub is_ready
{
	my ($self) = @_;
	$self->{ready} = $self->listen(sub { $self->{dbh}->pg_ready });
	return $self->{ready};
}

# How many notices have arrived since the statement was sent?
sub notices_heard { return scalar @{ $_[0]->{notices} }; }

sub wait
{
	my ($self, $seconds) = @_;
	return 1 if $self->is_ready;
	my $fds = '';
	vec($fds, $self->{dbh}{pg_socket}, 1) = 1;
	select($fds, undef, undef, $seconds);
	return $self->is_ready;
}

sub answer
{
	my ($self) = @_;
	my $dbh = $self->{dbh};
	my $failed = $self->listen(
		sub { $self->{ready} < 0 || !defined $dbh->pg_result || $dbh->state ne '' });
	my $state = $failed ? $dbh->state || '08000' : '';
	my $value = '';
	if (!$failed && $self->{statement}{NUM_OF_FIELDS})
	{
		my $row = $self->{statement}->fetchrow_arrayref;
		$value = $row && defined $row->[0] ? $row->[0] : '';
	}
	return {
		state => $state,
		value => $value,
		notices => $self->{notices},
		message => $failed ? $dbh->errstr : ''
	};
}

sub ask
{
	my ($self, $sql) = @_;
	my $dbh = $self->{dbh};
	my $rows = $self->listen(
		sub {
			my $statement = $dbh->prepare($sql);
			return unless $statement->execute;
			return $statement->{NUM_OF_FIELDS} ? $statement->fetchall_arrayref : [];
		});
	die "$sql: " . $dbh->errstr . "\n" unless $rows;
	return @$rows;
}

sub close
{
	my ($self) = @_;
	$self->listen(sub { $self->{dbh}->disconnect });
	return;
}

1;
