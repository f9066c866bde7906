
=pod

=head1 NAME

BenchPgbench - slices of pgbench

=head1 SYNOPSIS

  my $run = pgbench($node, "SELECT 1;\n", clients => 8);
  my @microseconds = $run->latencies;
  my $per_second = $run->throughput;

=cut

package BenchPgbench;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use File::Path qw(make_path rmtree);
use IPC::Run ();
use List::Util qw(max min);
use PostgreSQL::Test::Utils;

our @EXPORT = qw(pgbench);

# What share of a client's transactions is left out at the beginning: the first one
# connects to ZooKeeper.
my $warm_up = 0.1;

=pod

=head1 FUNCTIONS

=over

=item pgbench($node, $script, %params)

Run a script.  The parameters are C<clients> (1), C<seconds> (1) or
C<transactions> (of each client), C<< connect => 1 >> for a new connection for each
transaction, and C<define>, a hash of variables.

=back

=cut

sub pgbench
{
	my ($node, $script, %params) = @_;
	my $dir = $node->basedir . '/pgbench';
	my ($output, $errors);
	my $clients = $params{clients} // 1;

	rmtree($dir);
	make_path($dir);
	append_to_file("$dir/script.sql", $script);
	my @command = (
		'pgbench', '--no-vacuum', '--protocol', 'prepared',
		'--file', "$dir/script.sql", '--client', $clients,
		'--jobs', min($clients, 2), '--log', '--log-prefix', "$dir/log",
		$params{transactions}
		? ('--transactions', $params{transactions})
		: ('--time', $params{seconds} // 1),
		$params{connect} ? '--connect' : (),
		(map { ('--define', "$_=$params{define}{$_}") } keys %{ $params{define} }),
		'--host', $node->host, '--port', $node->port, 'postgres');
	IPC::Run::run(\@command, '>', \$output, '2>', \$errors)
	  or croak "pgbench failed: $errors";
	my $self = bless { clients => {}, output => $output }, 'BenchPgbench';
	$self->read_log($_) foreach glob "$dir/log.*";
	return $self;
}

# Note the transactions of a log file, by client: when each ended and how long it
# took, in microseconds.
sub read_log
{
	my ($self, $file) = @_;
	open my $log, '<', $file or die "$file: $!";
	while (my $line = <$log>)
	{
		my ($client, undef, $latency, undef, $seconds, $us) = split ' ', $line;
		push @{ $self->{clients}{$client} },
		  [ $seconds * 1e6 + $us, $latency ];
	}
	close $log;
	return;
}

=pod

=head1 METHODS

=over

=item $run->latencies()

Of each transaction, without the first ones; in microseconds.

=item $run->throughput()

Transactions per second while all clients were at work, without the first ones.

=item $run->time_per_transaction()

In microseconds, on the average, with the time it takes to connect if each
transaction has a connection of its own.

=back

=cut

sub latencies
{
	my ($self) = @_;
	my @latencies;
	foreach my $transactions (values %{ $self->{clients} })
	{
		my $first = int($warm_up * @$transactions) + 1;
		push @latencies, map { $_->[1] } @{$transactions}[ $first .. $#$transactions ];
	}
	return @latencies;
}

sub throughput
{
	my ($self) = @_;
	my @clients = values %{ $self->{clients} };
	my $begin = max(map { $_->[ int($warm_up * @$_) ][0] } @clients);
	my $end = min(map { $_->[-1][0] } @clients);
	croak 'the clients of pgbench were not at work at the same time'
	  unless $end > $begin;
	my $count = grep { $_->[0] > $begin && $_->[0] <= $end } map { @$_ } @clients;
	return $count / ($end - $begin) * 1e6;
}

sub time_per_transaction
{
	my ($self) = @_;
	my ($per_second) = $self->{output} =~ /^tps = ([0-9.]+)/m;
	return 1e6 / $per_second;
}

1;
