
=pod

=head1 NAME

ChaosCluster - a PostgreSQL cluster of a chaos run, which may fail over

=head1 DESCRIPTION

It has two tables of counters by lock path, C<plain> and C<fenced>, one of the sections
that were committed, and one of C<guests>, whose rows another cluster writes.  With a
standby it is two servers, either of which may be the primary; replication is
asynchronous.  Clients find the one that can be written.

=cut

package ChaosCluster;

use strict;
use warnings;

use File::Path qw(rmtree);
use POSIX ();
use PostgreSQL::Test::Cluster;
use ZkEnsemble;

=pod

=head1 METHODS

=over

=item ChaosCluster->new($name, $servers, %params)

C<timeout>: of the ZooKeeper sessions, in seconds.  C<standby>: whether there is one.
C<install_path>: another PostgreSQL with another zklock.

=cut

sub new
{
	my ($class, $name, $servers, %params) = @_;
	my $self = bless { name => $name, nodes => [] }, $class;
	my $primary = zk_cluster(
		$name, $servers,
		install_path => $params{install_path},
		allows_streaming => $params{standby},
		settings => {
			'zklock.session_timeout' => "$params{timeout}s",
			'zklock.connect_timeout' => '5s',
			session_preload_libraries => 'zklock',
			restart_after_crash => 'on',
			shared_buffers => '16MB',
			max_prepared_transactions => 50,
			log_statement => 'none',
			log_min_error_statement => 'panic'
		});
	push @{ $self->{nodes} }, $primary;
	$self->psql(
		'CREATE TABLE plain (path text PRIMARY KEY, n bigint)
			WITH (fillfactor = 20);
		CREATE TABLE fenced (LIKE plain INCLUDING ALL) WITH (fillfactor = 20);
		CREATE TABLE sections (id text PRIMARY KEY, path text, counter text,
			seen text, token bigint);
		CREATE INDEX ON sections (path, (seen::bigint)) WHERE counter = \'job\';
		CREATE TABLE guests (id text PRIMARY KEY);
		CREATE EXTENSION postgres_fdw');
	$self->make_standby(%params) if $params{standby};
	return $self;
}

sub make_standby
{
	my ($self, %params) = @_;
	my $standby = PostgreSQL::Test::Cluster->new("$self->{name}_b",
		install_path => $params{install_path});
	$self->primary->backup('base');
	$standby->init_from_backup($self->primary, 'base', has_streaming => 1);
	$standby->start;
	push @{ $self->{nodes} }, $standby;
	return;
}

=pod

=item $cluster->name(), $cluster->logs()

=item $cluster->primary(), $cluster->standby()

The PostgreSQL::Test::Cluster of each; no standby is undef.

=cut

sub name { return $_[0]->{name}; }
sub primary { return $_[0]->{nodes}[0]; }
sub standby { return $_[0]->{nodes}[1]; }

sub logs
{
	my ($self) = @_;
	return map { $_->logfile } @{ $self->{nodes} };
}

=pod

=item $cluster->psql($sql)

What the primary says.

=cut

sub psql
{
	my ($self, $sql) = @_;
	return $self->primary->safe_psql('postgres', $sql);
}

=pod

=item $cluster->data_source()

How DBD::Pg reaches whichever is the primary.  The user that creates clusters is their superuser.

=item $cluster->link($other)

Make a foreign table C<far_guests> of the other one's C<guests>.

=cut

# What libpq is to know.
sub connection
{
	my ($self) = @_;
	return (
		host => join(',', map { $_->host } @{ $self->{nodes} }),
		port => join(',', map { $_->port } @{ $self->{nodes} }),
		dbname => 'postgres',
		target_session_attrs => 'read-write');
}

sub user { return scalar getpwuid($>); }

sub data_source
{
	my ($self) = @_;
	my %connection = ($self->connection, user => user());
	return join ';', map { "$_=$connection{$_}" } sort keys %connection;
}

sub link
{
	my ($self, $other) = @_;
	my %connection = $other->connection;
	my $options = join ', ', map { "$_ '$connection{$_}'" } sort keys %connection;
	$self->psql("
		CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS ($options);
		CREATE USER MAPPING FOR CURRENT_USER SERVER far
			OPTIONS (user '@{[ user() ]}');
		CREATE FOREIGN TABLE far_guests (id text) SERVER far
			OPTIONS (table_name 'guests')");
	return;
}

=pod

=item $cluster->reset_counters(@paths)

Restart with these locks.

=cut

sub reset_counters
{
	my ($self, @paths) = @_;
	my $rows = join ',', map { "('$_', 0)" } @paths;
	$self->psql("TRUNCATE plain, fenced, sections, guests;
		INSERT INTO plain VALUES $rows; INSERT INTO fenced VALUES $rows");
	return;
}

=pod

=back

=head1 A FAILOVER

In this order; those that begin something return the number of a process to wait for.

=over

=item $cluster->position(), $cluster->has_received($position)

Where the primary's log ends; and whether the standby has all up to there.

=item $cluster->part(), $cluster->is_parted()

Nothing is replicated any more; and whether that is so.

=item $cluster->kill_primary()

Without a shutdown.

=item $cluster->promote()

=item $cluster->begin_copy(), $cluster->follow()

The standby is the primary now, and has the other one's place taken by a copy of its
own; which is started as the standby.

=item $cluster->is_followed()

Is there a standby at work?

=back

=cut

sub position
{
	my ($self) = @_;
	return $self->psql('SELECT pg_current_wal_flush_lsn()');
}

sub has_received
{
	my ($self, $position) = @_;
	return $self->standby->safe_psql('postgres',
		"SELECT pg_last_wal_receive_lsn() >= '$position'") eq 't';
}

sub part
{
	my ($self) = @_;
	$self->standby->append_conf('postgresql.conf', "primary_conninfo = ''");
	$self->standby->reload;
	return;
}

sub is_parted
{
	my ($self) = @_;
	return $self->standby->safe_psql('postgres',
		'SELECT count(*) FROM pg_stat_wal_receiver') eq '0';
}

sub kill_primary
{
	my ($self) = @_;
	$self->primary->stop('immediate');
	return;
}

sub promote
{
	my ($self) = @_;
	my $standby = $self->standby;
	return start_process($standby->installed_command('pg_ctl'),
		qw(promote --silent --wait --pgdata), $standby->data_dir);
}

sub begin_copy
{
	my ($self) = @_;
	@{ $self->{nodes} } = reverse @{ $self->{nodes} };
	rmtree($self->standby->data_dir);
	return start_process(
		$self->primary->installed_command('pg_basebackup'),
		qw(--no-sync --checkpoint=fast --pgdata), $self->standby->data_dir,
		'--host', $self->primary->host, '--port', $self->primary->port);
}

sub follow
{
	my ($self) = @_;
	my $standby = $self->standby;
	$standby->append_conf('postgresql.conf', 'port = ' . $standby->port);
	$standby->append_conf('postgresql.conf',
		"unix_socket_directories = '" . $standby->host . "'");
	$standby->enable_streaming($self->primary);
	$standby->start;
	return;
}

sub is_followed
{
	my ($self) = @_;
	return $self->psql(
		"SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") eq '1';
}

# A program that runs in the background.
sub start_process
{
	my (@command) = @_;
	my $pid = fork // die "fork: $!";
	return $pid if $pid;
	open STDOUT, '>', '/dev/null';
	# POSIX::_exit() does not end the processes of the test.
	exec @command or POSIX::_exit(127);
}

1;
