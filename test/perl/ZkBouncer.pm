
=pod

=head1 NAME

ZkBouncer - PgBouncer, for a test

=head1 SYNOPSIS

  my $bouncer = ZkBouncer->new("$tmp/pgbouncer", "[databases]\n...", qw(web batch));
  my ($status, $output, $errors) = $bouncer->psql('app', 'web', 'SELECT 1');

=head1 DESCRIPTION

A pooler that trusts its users.  It ends when the test does.

=cut

package ZkBouncer;

use strict;
use warnings;

use Carp;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils qw(append_to_file);
use ZkTest;

# Debian installs it where only the administrator's PATH leads.
my $program = '/usr/sbin/pgbouncer';

=pod

=head1 METHODS

=over

=item ZkBouncer->new($dir, $configuration, @users)

Write a configuration, the last section of which is C<[pgbouncer]>, to a new folder,
start, and wait until it listens.

=item $bouncer->connstr($database, $user)

=item $bouncer->psql($database, $user, $sql)

Run SQL over a connection.  Returns the exit status, and what psql has said.

=back

=cut

sub new
{
	my ($class, $dir, $configuration, @users) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $self = bless { port => $port, log => '' }, $class;

	mkdir $dir or croak "$dir: $!";
	append_to_file("$dir/users.txt", join '', map { "\"$_\" \"\"\n" } @users);
	append_to_file(
		"$dir/pgbouncer.ini", "$configuration
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = trust
auth_file = $dir/users.txt
");
	$self->{run} =
	  IPC::Run::start([ $program, "$dir/pgbouncer.ini" ], '<', \undef, '>&', \$self->{log});
	wait_for(
		sub {
			$self->{run}->pump_nb if $self->{run}->pumpable;
			$self->{log} =~ /process up/ || !$self->{run}->pumpable;
		},
		'PgBouncer to start');
	croak "PgBouncer does not start: $self->{log}" unless $self->{run}->pumpable;
	return $self;
}

sub connstr
{
	my ($self, $database, $user) = @_;
	return "host=127.0.0.1 port=$self->{port} user=$user dbname=$database";
}

sub psql
{
	my ($self, $database, $user, $sql) = @_;
	my ($output, $errors) = ('', '');

	IPC::Run::run([ qw(psql -XAtq -v VERBOSITY=verbose), $self->connstr($database, $user) ],
		'<', \$sql, '>', \$output, '2>', \$errors);
	chomp $output;
	return ($? >> 8, $output, $errors);
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	my $run = delete $self->{run} or return;
	$run->signal('KILL');
	$run->finish;
	return;
}

1;
