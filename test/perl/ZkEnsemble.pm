
=pod

=head1 NAME

ZkEnsemble - real ZooKeeper servers for a test

=head1 SYNOPSIS

  use PostgreSQL::Test::Cluster;
  use ZkEnsemble;

  my $ensemble = ZkEnsemble->new('main', servers => 3);
  my $node = zk_cluster('primary', $ensemble);

  $ensemble->kill_server($ensemble->leader);

  my $ensemble = ZkEnsemble->new('parted', servers => 3, peer_proxies => 1);
  my ($server) = $ensemble->followers;
  $ensemble->partition($server);
  ... its clients still reach it; it does not reach the others ...
  $ensemble->heal($server);

  wait_for(sub { $ensemble->watch_count == 0 }, 'watches to go');

=head1 DESCRIPTION

Servers of Debian's package, on free loopback ports, in the test's folder.  They
are stopped when the test ends, however it does.

C<wait_for> is ZkTest's, exported from here as well.

=cut

package ZkEnsemble;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use File::Basename;
use File::Path qw(rmtree);
use File::Spec;
use IO::Socket::IP;
use PostgreSQL::Test::Utils ();
use ZkProbe;
use ZkProxy;
use ZkTest qw(stop_process wait_for);

our @EXPORT = qw(wait_for zk_cluster zk_standby);

my $command =
  File::Spec->rel2abs(
	File::Spec->catfile(dirname(__FILE__), '..', 'lib', 'zookeeper'));

my @ensembles;
my $templates = 0;

=pod

=head1 METHODS

=over

=item ZkEnsemble->new($name, %settings)

Make an ensemble and start it.  The settings are those of "test/lib/zookeeper
init": servers, observers, address, tick_time, heap, tls, C<java.NAME>, or a line of
ZooKeeper's configuration.  C<< start => 0 >> leaves it to the caller to start.
With C<< peer_proxies => 1 >> the servers reach each other through proxies, so
that C<partition> can be called.

=cut

sub new
{
	my ($class, $name, %settings) = @_;
	my $start = delete $settings{start} // 1;
	my $peer_proxies = delete $settings{peer_proxies};
	my $test = basename($0) =~ s/\.[^.]+$//r;
	my $dir = File::Spec->rel2abs(
		"$PostgreSQL::Test::Utils::tmp_check/t_${test}_${name}_zookeeper");
	my $self = bless { name => $name, dir => $dir }, $class;

	$settings{peer_links} = 'yes' if $peer_proxies;
	rmtree($dir);
	push @ensembles, $self;
	run_command('init', $dir, map { "$_=$settings{$_}" } sort keys %settings);
	open my $list, '<', "$dir/servers" or die "$dir/servers: $!";
	while (<$list>)
	{
		my ($id, $host, $port, $secure) = split;
		$self->{servers}{$id} = { host => $host, port => $port, secure => $secure };
	}
	close $list;
	$self->start_peer_proxies if $peer_proxies;
	$self->start if $start;
	return $self;
}

# One for every way from a server to another, and for each of the two ports
# that servers have for their peers: one for the election, one for the leader.
sub start_peer_proxies
{
	my ($self) = @_;
	open my $list, '<', "$self->{dir}/links" or die "$self->{dir}/links: $!";
	while (<$list>)
	{
		my ($from, $to, $address, $port) = split;
		push @{ $self->{links} },
		  {
			ends => [ $from, $to ],
			proxy => ZkProxy->new("127.0.0.1:$port",
				raw => 1, listen => "$address:$port")
		  };
	}
	close $list;
	return;
}

# Run test/lib/zookeeper.
sub run_command
{
	PostgreSQL::Test::Utils::system_log('bash', $command, @_) == 0
	  or croak "zookeeper @_ failed";
	return;
}

=pod

=item $ensemble->start(), $ensemble->stop()

All servers that do not run, until they serve; all servers, in whatever state.

=cut

sub start
{
	my ($self) = @_;
	run_command('start', $self->{dir});
	return;
}

sub stop
{
	my ($self) = @_;
	run_command('stop', $self->{dir}) if -e "$self->{dir}/servers";
	return;
}

=pod

=item $ensemble->rebuild()

Restart all servers empty: no znodes, no sessions, and
transactions counted from the beginning.

=cut

sub rebuild
{
	my ($self) = @_;
	$self->{zk} = undef;
	$self->stop;
	rmtree("$self->{dir}/$_/data/version-2") foreach $self->ids;
	$self->start;
	return;
}

=pod

=item $ensemble->save_state(), $ensemble->restore_state()

Copy the data of all servers on disk, while they run; restart all servers with
the copies.

=cut

sub save_state
{
	my ($self) = @_;
	foreach my $id ($self->ids)
	{
		my $data = "$self->{dir}/$id/data";
		rmtree("$data/saved");
		PostgreSQL::Test::Utils::system_or_bail('cp', '-R', "$data/version-2",
			"$data/saved");
	}
	return;
}

sub restore_state
{
	my ($self) = @_;
	$self->{zk} = undef;
	$self->stop;
	foreach my $id ($self->ids)
	{
		my $data = "$self->{dir}/$id/data";
		rmtree("$data/version-2");
		PostgreSQL::Test::Utils::system_or_bail('cp', '-R', "$data/saved",
			"$data/version-2");
	}
	$self->start;
	return;
}

=pod

=item $ensemble->start_server($id), $ensemble->stop_server($id)

One server.  start_server waits until it serves, which takes a majority, unless
it is called with C<< wait => 0 >>.

=item $ensemble->restart_server($id)

=cut

sub start_server
{
	my ($self, $id, %params) = @_;
	run_command('start', $self->{dir},
		$params{wait} // 1 ? () : '--no-wait', $id);
	return;
}

sub stop_server
{
	my ($self, $id) = @_;
	run_command('stop', $self->{dir}, $id);
	return;
}

sub restart_server
{
	my ($self, $id) = @_;
	$self->stop_server($id);
	$self->start_server($id);
	return;
}

=pod

=item $ensemble->kill_server($id, $signal)

Send a signal, by default SIGKILL.

=item $ensemble->pause_server($id), $ensemble->resume_server($id)

SIGSTOP and SIGCONT: a server that hangs, for its clients and for its peers.

=item $ensemble->pause(), $ensemble->resume()

All servers.

=item $ensemble->server_pid($id)

=cut

sub server_pid
{
	my ($self, $id) = @_;
	my $file = "$self->{dir}/$id/zookeeper.pid";
	my ($pid) = split ' ', PostgreSQL::Test::Utils::slurp_file($file);
	return $pid;
}

sub kill_server
{
	my ($self, $id, $signal) = @_;
	kill($signal // 'KILL', $self->server_pid($id)) or croak "cannot signal server $id: $!";
	return;
}

sub pause_server
{
	my ($self, $id) = @_;
	stop_process($self->server_pid($id));
	return;
}

sub resume_server
{
	my ($self, $id) = @_;
	$self->kill_server($id, 'CONT');
	return;
}

sub pause
{
	my ($self) = @_;
	$self->pause_server($_) foreach $self->ids;
	return;
}

sub resume
{
	my ($self) = @_;
	$self->resume_server($_) foreach $self->ids;
	return;
}

=pod

=item $ensemble->partition($id), $ensemble->heal($id)

Cut one server off from all others, and undo that.  What they send to each other
vanishes, but no connection breaks; new ones seem to be established, but carry
no data.  Clients still reach all servers.  Data that was sent in this time arrives
with C<heal>, as if TCP had sent it again, unless the servers have closed the
connection before.  That takes C<syncLimit> ticks.

=cut

sub partition
{
	my ($self, $id) = @_;
	$_->freeze foreach $self->links_of($id);
	return;
}

sub heal
{
	my ($self, $id) = @_;
	$_->pass foreach $self->links_of($id);
	return;
}

# The proxies between a server and all others.
sub links_of
{
	my ($self, $id) = @_;
	croak 'the servers are not connected through proxies'
	  unless $self->{links};
	return map { $_->{proxy} }
	  grep { grep { $_ == $id } @{ $_->{ends} } } @{ $self->{links} };
}

=pod

=item $ensemble->remove_server($id), $ensemble->add_server($id)

Change the ensemble's members while it works.  That wants the settings
C<reconfigEnabled> and C<java.zookeeper.skipACL>, because only an administrator may do
it.  A removed server continues to run, and to serve its clients, until it is stopped.
One is added by starting it with the configuration that the ensemble had at first, and
with nothing in it.

=cut

sub remove_server
{
	my ($self, $id) = @_;
	$self->reconfigure('', $id);
	return;
}

sub add_server
{
	my ($self, $id) = @_;
	my $dir = "$self->{dir}/$id";

	# Its configuration says by now that it is no member; then it does not start.
	rename "$dir/zoo.cfg.bak", "$dir/zoo.cfg" or die "$dir/zoo.cfg.bak: $!";
	rmtree("$dir/data/version-2");
	my ($member) =
	  PostgreSQL::Test::Utils::slurp_file("$dir/zoo.cfg") =~ /^(server\.$id=.*)$/m;
	$self->start_server($id, wait => 0);
	$self->reconfigure("$member;" . $self->address($id), '');
	wait_for(
		sub { grep { $_ == $id } $self->ids_in_state('leader', 'follower') },
		"server $id to be a member", 60);
	return;
}

# Repeat it until it succeeds: the answer may be lost with a leader that leaves, and a
# server that joins may not have caught up yet.
sub reconfigure
{
	my ($self, $joining, $leaving) = @_;
	wait_for(
		sub {
			my ($rc) = $self->zk->call('reconfig', $joining, $leaving);
			return $rc == ZkProbe::OK();
		},
		"the ensemble to change: $joining$leaving",
		60);
	return;
}

=pod

=item $ensemble->ids()

The numbers of all servers, observers last.

=item $ensemble->address($id)

C<host:port> of a server.

=item $ensemble->connect_string(@ids)

Of these servers, or all, as C<zklock.servers> takes it.

=item $ensemble->secure_address($id), $ensemble->secure_string(@ids)

The same for the TLS ports, if the servers have some.

=item $ensemble->logfile($id)

=cut

sub ids
{
	my ($self) = @_;
	return sort { $a <=> $b } keys %{ $self->{servers} };
}

sub address
{
	my ($self, $id) = @_;
	my ($host, $port) = @{ $self->{servers}{$id} }{qw(host port)};
	return $host =~ /:/ ? "[$host]:$port" : "$host:$port";
}

sub secure_address
{
	my ($self, $id) = @_;
	my ($host, $port) = @{ $self->{servers}{$id} }{qw(host secure)};
	return "$host:$port";
}

sub secure_string
{
	my ($self, @ids) = @_;
	@ids = $self->ids unless @ids;
	return join ',', map { $self->secure_address($_) } @ids;
}

sub connect_string
{
	my ($self, @ids) = @_;
	@ids = $self->ids unless @ids;
	return join ',', map { $self->address($_) } @ids;
}

sub logfile
{
	my ($self, $id) = @_;
	return "$self->{dir}/$id/server.log";
}

=pod

=item $ensemble->zk(@ids)

The ensemble's own ZkProbe.  The first call, by whatever comes first, connects
it, to one of these servers or of all.

=item $ensemble->queue($path)

The contenders of a lock, by number; none if there is no lock node.

=item $ensemble->latest_queue($path)

The same, read behind a sync: the probe's server may be behind that of a client which
has just seen more.

=item $ensemble->wait_for_queue($path, $count)

Wait until there are so many.

=item $ensemble->proxy($id)

A new ZkProxy before one of the servers, by default the first.

=cut

sub zk
{
	my ($self, @ids) = @_;
	$self->{zk} //= ZkProbe->new($self->connect_string(@ids));
	return $self->{zk};
}

sub queue
{
	my ($self, $path) = @_;
	my @names = sort { substr($a, -10) cmp substr($b, -10) }
	  $self->zk->ls("/zklock$path");
	return @names;
}

sub latest_queue
{
	my ($self, $path) = @_;
	$self->zk->sync("/zklock$path");
	return $self->queue($path);
}

sub wait_for_queue
{
	my ($self, $path, $count) = @_;
	wait_for(
		sub {
			# The probe's server may have died.
			my ($rc, @names) = $self->zk->call('ls', "/zklock$path");
			return @names == $count
			  && ($rc == ZkProbe::OK() || $rc == ZkProbe::NONODE());
		},
		"$count contenders of $path");
	return;
}

sub proxy
{
	my ($self, $id) = @_;
	return ZkProxy->new($self->address($id // 1));
}

=pod

=item $ensemble->four_letter($id, $word)

A server's answer to a four-letter word; empty if it gives none within 5 s.

=cut

sub four_letter
{
	my ($self, $id, $word) = @_;
	my $server = $self->{servers}{$id} or croak "no server $id";
	my $socket = IO::Socket::IP->new(
		PeerHost => $server->{host},
		PeerPort => $server->{port},
		Timeout => 5) or return '';
	my ($answer, $readable) = ('', '');
	syswrite $socket, $word;
	vec($readable, fileno($socket), 1) = 1;
	while (select(my $ready = $readable, undef, undef, 5) > 0)
	{
		sysread($socket, $answer, 65536, length $answer) or last;
	}
	return $answer;
}

=pod

=item $ensemble->mntr($id)

A server's counters: a hash, without the C<zk_> before each name.

=item $ensemble->leader()

The number of the leader (or of the only server); undef if there is none.

=item $ensemble->followers()

Those that follow it, observers not included.

=cut

sub mntr
{
	my ($self, $id) = @_;
	return { $self->four_letter($id, 'mntr') =~ /^zk_(\S+)\t(.*)$/mg };
}

# The numbers of the servers in one of these states.
sub ids_in_state
{
	my ($self, @states) = @_;
	my %wanted = map { $_ => 1 } @states;
	return grep { $wanted{ $self->mntr($_)->{server_state} // '' } } $self->ids;
}

sub leader
{
	my ($self) = @_;
	my ($id) = $self->ids_in_state('leader', 'standalone');
	return $id;
}

sub followers
{
	my ($self) = @_;
	return $self->ids_in_state('follower');
}

=pod

=item $ensemble->watch_count(), $ensemble->ephemeral_count(),
$ensemble->znode_count()

Watches are counted by the server that the client is connected to: the sum.
Of the others, which are the same on all servers in the end, the leader's.

=item $ensemble->waiter_watch_count(), $ensemble->own_watch_count()

Watches on ephemeral znodes by others than their owners, which belong to waiters; and by
their owners, which each session has that holds a lock, or waits for one, for longer than
a moment.

=cut

sub watch_count
{
	my ($self) = @_;
	my $count = 0;
	$count += $self->mntr($_)->{watch_count} // 0 foreach $self->ids;
	return $count;
}

# Count the watches on ephemeral znodes, by whether it is the owner's.
sub count_watches
{
	my ($self) = @_;
	my %count = (0 => 0, 1 => 0);
	my (%owner, $session, $path);
	foreach (split /\n/, $self->four_letter($self->leader, 'dump'))
	{
		$session = $1 if /^(0x[0-9a-f]+):$/;
		$owner{$1} = $session if m{^\t(/.*)$};
	}
	foreach (map { split /\n/, $self->four_letter($_, 'wchp') } $self->ids)
	{
		$path = $_ if m{^/};
		next unless /^\t(0x[0-9a-f]+)$/ && defined $owner{$path};
		$count{ $owner{$path} eq $1 ? 1 : 0 }++;
	}
	return \%count;
}

sub waiter_watch_count { return $_[0]->count_watches->{0}; }
sub own_watch_count { return $_[0]->count_watches->{1}; }

sub ephemeral_count
{
	my ($self) = @_;
	return $self->mntr($self->leader)->{ephemerals_count};
}

sub znode_count
{
	my ($self) = @_;
	return $self->mntr($self->leader)->{znode_count};
}

=pod

=item $ensemble->connections()

The clients' connections, as the servers see them: a hash by ZooKeeper session
id (0x...), each with C<server> and the numbers of the four-letter word "cons",
such as C<recved> and C<sent> (packets, pings included) and C<to> (the negotiated
timeout).

=cut

sub connections
{
	my ($self) = @_;
	my %connections;
	foreach my $id ($self->ids)
	{
		foreach ($self->four_letter($id, 'cons') =~ /\(([^()]*sid=[^()]*)\)/g)
		{
			my %fields = map { split /=/, $_, 2 } split /,/;
			$connections{ $fields{sid} } = { %fields, server => $id };
		}
	}
	return \%connections;
}

=pod

=item $ensemble->packets($session_id)

How many packets a server has received from this session's client and sent to it over
the present connection.  That includes pings, so use a session timeout that is long
compared with the measurement.

=cut

sub packets
{
	my ($self, $session_id) = @_;
	my $connection = $self->connections->{$session_id}
	  or croak "ZooKeeper session $session_id is not connected";
	return @{$connection}{qw(recved sent)};
}

=pod

=back

=head1 FUNCTIONS

=over

=item zk_cluster($name, $servers, %params)

A PostgreSQL::Test::Cluster that is started and has the extension in database
C<postgres>.  The servers are an ensemble, a proxy, or the text for
C<zklock.servers>.  A session that only observes the loss of locks is not cancelled,
unless the test sets that.  Of the parameters, C<settings> is a hash of settings,
C<< start => 0 >> leaves starting, and the extension, to the caller,
C<install_path> chooses another PostgreSQL, and the rest goes to C<init>.

=item zk_standby($name, $primary, %settings)

A hot standby of a cluster that C<allows_streaming>, as that is now.  It is started, and
has caught up.

=back

=cut

sub zk_standby
{
	my ($name, $primary, %settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$primary->backup($name);
	$node->init_from_backup($primary, $name, has_streaming => 1);
	%settings = (cluster_name => $name, %settings);
	$node->append_conf('postgresql.conf', "$_ = '$settings{$_}'") foreach sort keys %settings;
	$node->start;
	$primary->wait_for_catchup($node);
	return $node;
}

sub zk_cluster
{
	my ($name, $servers, %params) = @_;
	my %settings = %{ delete $params{settings} // {} };
	my $start = delete $params{start} // 1;
	my $install_path = delete $params{install_path};
	my $node = PostgreSQL::Test::Cluster->new($name, install_path => $install_path);

	if (ref $servers)
	{
		$servers = $servers->can('connect_string')
		  ? $servers->connect_string
		  : $servers->address;
	}
	my $template = $install_path || $params{extra} ? undef : template();
	init_node($node, $template, %params);
	%settings = (
		cluster_name => $name,
		# so that one that is killed leaves nothing behind elsewhere
		dynamic_shared_memory_type => 'mmap',
		max_connections => 100,
		'zklock.servers' => $servers,
		'zklock.on_lock_loss' => 'report',
		%settings);
	$node->append_conf('postgresql.conf', "$_ = '$settings{$_}'")
	  foreach sort keys %settings;
	if ($start)
	{
		$node->start;
		$node->safe_psql('postgres', 'CREATE EXTENSION zklock');
	}
	return $node;
}

# The folder of an empty cluster that test/run has made, if there is one.  Each can be
# used once in a test, because zklock tells clusters apart by their system identifiers,
# which copies have in common.
sub template
{
	return unless $ENV{CLUSTER_TEMPLATES};
	my $template = "$ENV{CLUSTER_TEMPLATES}/" . ++$templates;
	return -d $template ? $template : undef;
}

# Prepare a node, as a copy if there is a template: that takes a fifth of the time.
sub init_node
{
	my ($node, $template, %params) = @_;
	my $system_or_bail = \&PostgreSQL::Test::Utils::system_or_bail;
	no warnings 'redefine';
	local *PostgreSQL::Test::Utils::system_or_bail = sub {
		my @command = @_;
		@command = ('cp', '-a', $template, $node->data_dir)
		  if $template && $command[0] eq 'initdb';
		return $system_or_bail->(@command);
	};
	# Whatever the machine's locale is, even none.
	$node->init(%params,
		extra => [ qw(--encoding=UTF8 --no-locale), @{ $params{extra} // [] } ]);
	return;
}

# PostgreSQL::Test::Cluster stops its servers in immediate mode, which loses the counts
# of their processes.  Runs that need the counts stop them before, in the usual way.
sub stop_nodes
{
	no warnings 'once';
	$_->stop('fast', fail_ok => 1) foreach @PostgreSQL::Test::Cluster::all_nodes;
	return;
}

END
{
	# take care not to change the script's exit value
	my $exit_code = $?;

	stop_nodes() if $ENV{COVERAGE};
	foreach my $ensemble (@ensembles)
	{
		$ensemble->{zk} = undef;
		$ensemble->stop;
		$ensemble->{links} = undef;
		rmtree($ensemble->{dir})
		  if $exit_code == 0
		  && !defined $ENV{PG_TEST_NOCLEAN}
		  && PostgreSQL::Test::Utils::all_tests_passing();
	}
	$? = $exit_code;
}

1;
