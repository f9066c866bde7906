
=pod

=head1 NAME

ChaosClient - an SQL client of a chaos run: its connection, and its history

=head1 DESCRIPTION

What a worker is built upon.  It connects for as long as it takes, executes
statements, and writes down each of them: see ChaosWorker for the lines.

=cut

package ChaosClient;

use strict;
use warnings;

use ChaosRandom qw(now);
use DBD::Pg qw(:async);
use DBI;
use IO::Handle;
use JSON::PP;
use Time::HiRes qw(sleep);

# How long a statement may take beyond its limit before the worker gives up.
my $patience = 60;

# Statements whose "false" differs from a "true".
my $tells = qr/^(acquire|release|job_begin|job_end)$/;

=pod

=head1 METHODS

=over

=item ChaosClient->new($folder, $number)

The client's name, from FOLDER/params.json.

=cut

sub new
{
	my ($class, $folder, $number) = @_;
	my $params = read_params($folder);
	open my $history, '>', "$folder/worker-$number.tsv" or die "history: $!";
	$history->autoflush(1);
	my $random = ChaosRandom->new($params->{seed}, "worker $number");
	my @clusters = sort keys %{ $params->{clusters} };
	return bless {
		folder => $folder,
		number => $number,
		params => $params,
		history => $history,
		random => $random,
		cluster => $clusters[ $number % @clusters ],
		sections => 0
	}, $class;
}

sub read_params
{
	my ($folder) = @_;
	open my $file, '<', "$folder/params.json" or die "params.json: $!";
	return decode_json(join '', <$file>);
}

=pod

=item $client->await_begin()

Until the first line of standard input; then the parameters tell when the run ends.

=item $client->await_end_of_faults()

Until the next line.

=cut

sub await_begin
{
	my ($self) = @_;
	<STDIN> // die "the run did not begin\n";
	$self->{params} = read_params($self->{folder});
	return;
}

sub await_end_of_faults
{
	<STDIN> // die "the run ended before its faults\n";
	return;
}

=pod

=item $client->note(@fields)

A line of the history.

=cut

sub note
{
	my ($self, @fields) = @_;
	print { $self->{history} } join("\t", @fields), "\n";
	return;
}

=pod

=item $client->connect()

Connect, however often that takes, let the nemesis know the backend, and end
the prepared transactions of an earlier connection.

=cut

sub connect
{
	my ($self) = @_;
	my $random = $self->{random};
	my $guards = $self->{params}{guards};
	$self->{guard} = $random->pick(@$guards);
	my $loss = $random->pick(qw(cancel report));
	my $options =
	  "-c zklock.commit_guard=$self->{guard} -c zklock.on_lock_loss=$loss";
	my $deadline = now() + $patience;
	delete $self->{dbh};

	until ($self->try_connect($options) && $self->resolve)
	{
		die "no connection to $self->{cluster} any more: $DBI::errstr\n"
		  if now() > $deadline;
		sleep 0.1;
	}
	return;
}

# One try.  A cluster that restarts refuses, which is no error here.
sub try_connect
{
	my ($self, $options) = @_;
	my $begin = now();
	my $dbh = DBI->connect(
		"dbi:Pg:$self->{params}{clusters}{$self->{cluster}}"
		  . ";connect_timeout=40;options='$options'",
		'', '',
		{
			PrintError => 0,
			PrintWarn => 0,
			RaiseError => 0,
			AutoCommit => 1,
			pg_server_prepare => 0
		});
	$self->note('C', $begin, now(), 'connect', '-', $dbh ? 'ok' : 'lost', 0);
	return 0 unless $dbh;
	$dbh->do('SET client_min_messages = error');
	$self->{lost} = 0;
	$self->{dbh} = $dbh;
	$self->{pid} = $dbh->{pg_pid};
	$self->{link} = undef;
	$self->note('B', now(), $self->{cluster}, $self->{pid});
	$self->publish("$self->{cluster} $self->{pid}");
	return 1;
}

# The transaction prepared under this name is in doubt: an earlier connection was lost,
# or the cluster failed over and lost the decision.  No other process ends it.  True if
# nothing is left.
sub resolve
{
	my ($self) = @_;
	my ($gids) = $self->run('look', 'SELECT string_agg(gid, \' \')'
		  . " FROM pg_prepared_xacts WHERE gid LIKE '$self->{number}.%'");
	return 0 unless $self->{outcome} eq 'ok';
	$self->run('resolve', "ROLLBACK PREPARED '$_'")
	  foreach split ' ', $gids // '';
	return $self->{outcome} =~ /^(ok|42704)$/;
}

# Tell the nemesis which backend this is.
sub publish
{
	my ($self, $text) = @_;
	my $name = "$self->{folder}/worker-$self->{number}.backend";
	open my $file, '>', "$name.new" or die "$name: $!";
	print $file "$text\n";
	close $file;
	rename "$name.new", $name or die "$name: $!";
	return;
}

=pod

=item $client->run($name, $sql, $limit)

Execute a statement.  Returns its first row if it succeeds, and sets {outcome};
that of a boolean is the value.

=item $client->did($name, $sql, $limit)

The same; returns true if it succeeded, and was not false.

=item $client->insist($name, $sql, $limit)

The same, repeatedly: another client may cancel it.  Ends, too, when the
connection is lost.

=back

=cut

sub run
{
	my ($self, $name, $sql, $limit) = @_;
	my $begin = now();
	my $deadline = $begin + ($limit // 0) + $patience;
	my @row = eval { $self->exchange($sql, $deadline) };
	my $error = $@;
	my $end = now();
	$self->{outcome} = 'hang' if $error;
	$self->{outcome} = 'false'
	  if $self->{outcome} eq 'ok'
	  && $name =~ $tells
	  && $row[0] eq '0';
	@{$self}{qw(begin_time end_time)} = ($begin, $end);
	$self->note('C', $begin, $end, $name, $self->{id} // '-',
		$self->{outcome}, $limit // 0);
	die $error if $error;
	return @row;
}

# Send a statement and wait for the answer, until a deadline at most.  Sets
# {outcome} and {lost}.
sub exchange
{
	my ($self, $sql, $deadline) = @_;
	my $dbh = $self->{dbh};
	my $statement = $dbh->prepare($sql, { pg_async => PG_ASYNC })
	  or return $self->failed;
	$statement->execute or return $self->failed;
	my $ready;
	until ($ready = $dbh->pg_ready)
	{
		my $fds = '';
		vec($fds, $dbh->{pg_socket}, 1) = 1;
		select($fds, undef, undef, 1);
		die "no answer to: $sql\n" if now() > $deadline;
	}
	# To newer versions of DBD::Pg it is no failure to be cancelled.
	return $self->failed
	  if $ready < 0 || !defined $dbh->pg_result || $dbh->state ne '';
	$self->{outcome} = 'ok';
	return $statement->{NUM_OF_FIELDS} ? $statement->fetchrow_array : ();
}

# A statement has failed, or the connection has, which DBD::Pg tells as 08000,
# whatever the server had to say last.
sub failed
{
	my ($self) = @_;
	my $state = $self->{dbh}->state || '08000';
	$self->{lost} = $state eq '08000' || $state =~ /^57P/;
	$self->{outcome} = $state eq '08000' ? 'lost' : $state;
	return;
}

sub did
{
	my ($self, @arguments) = @_;
	$self->run(@arguments);
	return $self->{outcome} eq 'ok';
}

sub insist
{
	my ($self, @arguments) = @_;
	my $deadline = now() + $patience;
	until ($self->{lost} || $self->did(@arguments))
	{
		die "in vain: @arguments: $self->{outcome}\n" if now() > $deadline;
	}
	return;
}

1;
