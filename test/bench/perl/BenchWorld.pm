
=pod

=head1 NAME

BenchWorld - the servers that the bench runs against, and the clients

=head1 SYNOPSIS

  my $world = BenchWorld->new('three', @peer_names);
  my $peer = $world->peer('raw');
  $world->end;

=head1 DESCRIPTION

A set-up is an ensemble, a PostgreSQL that uses it, and one of each lock client.
There is one set-up at a time.

=cut

package BenchWorld;

use strict;
use warnings;

use BenchPeer;
use File::Basename;
use File::Spec;
use IO::Socket::IP;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;

my $bench = File::Spec->rel2abs(dirname(dirname(__FILE__)));

# The set-ups by name: how many servers, and whether they sync each transaction to
# disk.
my %setups = (
	'standalone' => [ 1, 'yes' ],
	'standalone-nosync' => [ 1, 'no' ],
	'three' => [ 3, 'yes' ],
	'three-nosync' => [ 3, 'no' ]);

# ZooKeeper's own defaults where those of the tests are others, and what it takes
# for many clients of one machine.
my %ensemble_settings = (
	tick_time => 2000,
	preAllocSize => 65536,
	heap => '512m',
	maxClientCnxns => 0);

# A setting of the servers' JVM: compile as it does by default.
my $jvm_options = "-XX:TieredStopAtLevel=4\n";

# Some are PostgreSQL's defaults again, which its test modules change.
my %cluster_settings = (
	max_connections => 1100,
	log_statement => 'none',
	log_replication_commands => 'off',
	shared_preload_libraries => 'zklock',
	'zklock.session_timeout' => '30s');

# The programs, less their arguments.
my %programs = (
	raw => ['raw'],
	processes => [ 'processes', 'recipe' ],
	processes_empty => [ 'processes', 'empty' ],
	zklock => [ 'pgpeer', 'zklock' ],
	curator => ['curator/run'],
	kazoo => ['kazoopeer'],
	crecipe => ['crecipe'],
	plpython => [ 'pgpeer', 'plpython' ],
	advisory => [ 'pgpeer', 'advisory' ],
	empty => [ 'pgpeer', 'empty' ],
	asleep => [ 'pgpeer', 'asleep' ],
	redis => ['redispeer']);

# For how long a client is made use of before it counts, in seconds.
my $warm_up = 4;

my ($redis_pid, $redis_port);

=pod

=head1 FUNCTIONS

=over

=item BenchWorld::setup_names()

=item BenchWorld::peer_names()

All of them, in the order in which they are shown.  The peers C<empty>,
C<asleep> and C<processes_empty> are not among them: they are there if one is that they are
compared with.

=cut

sub setup_names
{
	return qw(standalone standalone-nosync three three-nosync);
}

sub peer_names
{
	return qw(raw processes zklock curator kazoo crecipe plpython advisory redis);
}

=pod

=item BenchWorld::runs_statements($name)

Does a peer work in PostgreSQL?

=back

=head1 METHODS

=over

=item BenchWorld->new($setup, @peers)

Start the servers, and those of the clients that can be had.

=cut

sub new
{
	my ($class, $setup, @peers) = @_;
	my ($servers, $sync) = @{ $setups{$setup} };
	my $ensemble = ZkEnsemble->new(
		$setup,
		servers => $servers,
		'java.zookeeper.forceSync' => $sync,
		%ensemble_settings,
		start => 0);
	my $self = bless {
		setup => $setup,
		ensemble => $ensemble,
		peers => {},
		missing => {}
	}, $class;

	append_to_file("$ensemble->{dir}/$_/java.options", $jvm_options)
	  foreach $ensemble->ids;
	$ensemble->start;
	$self->{node} =
	  zk_cluster($setup =~ tr/-/_/r, $ensemble, settings => \%cluster_settings);
	push @peers, qw(empty asleep) if grep { runs_statements($_) } @peers;
	push @peers, 'processes_empty' if grep { $_ eq 'processes' } @peers;
	$self->start_peer($_) foreach @peers;
	return $self;
}

sub runs_statements
{
	my ($name) = @_;
	return $programs{$name}[0] eq 'pgpeer';
}

# Where PostgreSQL is.
sub conninfo
{
	my ($self) = @_;
	return $self->{node}->connstr('postgres');
}

# What a peer is to connect to.
sub arguments
{
	my ($self, $name) = @_;
	return $self->conninfo if runs_statements($name);
	return $self->redis_address if $name eq 'redis';
	return $self->{ensemble}->connect_string;
}

=pod

=item $world->start_peer($name)

Start a client, or start it anew, and warm it up.  One that cannot be had is said to
be missing.

=item $world->peer($name)

The client, as a BenchPeer; undef if it is missing.

=item $world->missing()

A hash of those that are, with the reasons.

=cut

sub start_peer
{
	my ($self, $name) = @_;
	my ($program, @arguments) = @{ $programs{$name} };
	my $path = "$bench/$program";

	$self->stop_peer($name);
	eval {
		die "its program was not built\n" unless -x $path;
		my $peer =
		  BenchPeer->new($path, @arguments, $self->arguments($name));
		warm_up($peer, $name);
		$self->{peers}{$name} = $peer;
		1;
	} or $self->{missing}{$name} = $@ =~ s/ at \S+ line \d+\.?\n//r;
	diag "$name is left out: $self->{missing}{$name}"
	  if $self->{missing}{$name};
	return;
}

# Have a client, and the servers, do for a while what they will have to: for those
# that run in a virtual machine all is slow before it is compiled.
sub warm_up
{
	my ($peer, $name) = @_;
	$peer->command("throughput /bench/$name/warm 8 $warm_up");
	$peer->command("handoff /bench/$name/handoff 8 20 1000");
	$peer->command('close');
	return;
}

sub stop_peer
{
	my ($self, $name) = @_;
	my $peer = delete $self->{peers}{$name} or return;
	$peer->kill;
	$peer->end;
	return;
}

sub peer { return $_[0]->{peers}{ $_[1] }; }
sub missing { return $_[0]->{missing}; }

=pod

=item $world->setup(), $world->ensemble(), $world->node()

=item $world->servers()

The process numbers of the ensemble's servers.

=item $world->client($name)

Those of a client: of its program, and of the postmaster if it works in PostgreSQL.

=item $world->end()

Stop everything.

=back

=cut

sub setup { return $_[0]->{setup}; }
sub ensemble { return $_[0]->{ensemble}; }
sub node { return $_[0]->{node}; }

sub servers
{
	my ($self) = @_;
	my $ensemble = $self->{ensemble};
	return map { $ensemble->server_pid($_) } $ensemble->ids;
}

sub client
{
	my ($self, $name) = @_;
	my @pids = $self->peer($name)->pid;
	push @pids, $self->{node}{_pid} if runs_statements($name);
	return @pids;
}

sub end
{
	my ($self) = @_;
	$self->stop_peer($_) foreach keys %{ $self->{peers} };
	$self->{node}->stop('fast');
	$self->{ensemble}->stop;
	return;
}

# Host and port of a Redis of our own, which is started when it is asked for and
# has the settings that it has by default.
sub redis_address
{
	my @address = ('127.0.0.1', $redis_port);
	return @address if $redis_pid;
	$address[1] = $redis_port = PostgreSQL::Test::Cluster::get_free_port();
	my $dir = "$PostgreSQL::Test::Utils::tmp_check/redis";
	mkdir $dir;
	$redis_pid = fork // die "fork: $!";
	if ($redis_pid == 0)
	{
		open STDOUT, '>', "$dir/server.log";
		{ no warnings; exec 'redis-server', '--port', $redis_port, '--dir', $dir; }
		POSIX::_exit(1);
	}
	wait_for(
		sub { IO::Socket::IP->new(PeerHost => $address[0], PeerPort => $redis_port) },
		'Redis to start');
	return @address;
}

END
{
	my $exit_code = $?;
	if ($redis_pid)
	{
		kill 'KILL', $redis_pid;
		waitpid $redis_pid, 0;
	}
	$? = $exit_code;
}

1;
