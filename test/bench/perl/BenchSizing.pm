
=pod

=head1 NAME

BenchSizing - what many sessions take of ZooKeeper, PostgreSQL and the network

=head1 SYNOPSIS

  my $world = BenchSizing->new(servers => 1, backends => 1000, timeout => '10s');
  my $states = $world->states(60);
  print $states->{hold}{watch_count};
  my $cost = $world->cost;
  $world->end;

=head1 DESCRIPTION

Counts are ZooKeeper's own, of its four-letter word C<mntr>, as sums over its servers, and
those of /proc.  Other programs on the machine have no part in them, except that they slow
everything down.

=cut

package BenchSizing;

use strict;
use warnings;

use BenchProcessor;
use DBD::Pg ':async';
use DBI;
use List::Util qw(max min sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep time);
use ZkEnsemble;
use ZkProbe;
use ZkTest qw(cpu_time);

# ZooKeeper's own defaults where those of the tests are others, and what it takes for
# many clients of one machine.
my %ensemble_settings = (
	tick_time => 2000,
	preAllocSize => 65536,
	heap => '512m',
	maxClientCnxns => 0);

# Counters of a server, and what they are called here.
my %counters = (
	packets_received => 'received',
	packets_sent => 'sent',
	bytes_received_count => 'bytes_received',
	response_bytes => 'bytes_sent');

# Numbers of a state.
my @numbers = qw(global_sessions znode_count ephemerals_count watch_count
  approximate_data_size open_file_descriptor_count stale_sessions_expired);

# How often a cycle is repeated while its packets are counted.
my $cycles = 200;

# How long to wait for all sessions to be in a state, in seconds.
my $patience = 300;

=pod

=head1 METHODS

=over

=item BenchSizing->new(servers => $n, backends => $n, timeout => $timeout)

Start so many ZooKeeper servers and a PostgreSQL.  C<zookeeper> is a hash of more settings
of the servers, and C<settle> is for how long a queue waits before it is watched, in
seconds.

=item $world->ensemble()

=cut

sub ensemble { return $_[0]->{ensemble}; }

sub new
{
	my ($class, %params) = @_;
	my $name = "sizing_$params{servers}_$params{backends}";
	my $self = bless {
		count => $params{backends},
		settle => $params{settle} // 15,
		backends => [],
		questions => 0
	}, $class;
	$self->{ensemble} = ZkEnsemble->new(
		$name,
		servers => $params{servers},
		%ensemble_settings,
		%{ $params{zookeeper} // {} },
		start => 0);
	append_to_file("$self->{ensemble}{dir}/$_/java.options", "-XX:TieredStopAtLevel=4\n")
	  foreach $self->{ensemble}->ids;
	$self->{ensemble}->start;
	$self->{node} = zk_cluster(
		$name,
		$self->{ensemble},
		settings => {
			max_connections => $params{backends} + 10,
			shared_preload_libraries => 'zklock',
			'zklock.on_lock_loss' => 'cancel',
			'zklock.session_timeout' => $params{timeout}
		});
	return $self;
}

# A connection to PostgreSQL.
sub connect
{
	my ($self) = @_;
	my $source = $self->{node}->connstr('postgres') =~ tr/ /;/r;
	return DBI->connect("dbi:Pg:$source", undef, undef,
		{ RaiseError => 1, PrintError => 0, PrintWarn => 0, AutoCommit => 1 });
}

# Execute a statement in each backend, where $1 is the number of the backend.
sub in_all
{
	my ($self, $sql) = @_;
	my $number = 0;
	foreach my $backend (@{ $self->{backends} })
	{
		$number++;
		$backend->do($sql =~ s/\$1/$number/gr);
	}
	return;
}

# The sums of the servers' counters, less our own questions, which are packets of four
# bytes.
sub counters
{
	my ($self) = @_;
	my %sum = map { $_ => 0 } values %counters;
	foreach my $id ($self->{ensemble}->ids)
	{
		my $mntr = $self->{ensemble}->mntr($id);
		$sum{ $counters{$_} } += $mntr->{$_} // 0 foreach keys %counters;
		$self->{questions}++;
	}
	$sum{received} -= $self->{questions};
	$sum{bytes_received} -= 4 * $self->{questions};
	return \%sum;
}

# One of the servers' numbers: the sum, or the greatest of those that are the same on all
# servers in the end.
sub number
{
	my ($self, $name) = @_;
	my @each = map { $self->{ensemble}->mntr($_)->{$name} // 0 } $self->{ensemble}->ids;
	$self->{questions} += @each;
	return $name =~ /^(?:watch_count|open_file_descriptor_count)$/ ? sum0(@each) : max(@each);
}

=pod

=item $world->cost()

Ends all sessions, and returns the packets and bytes of a lock cycle of another one, and
of C<BEGIN>, acquire and C<COMMIT>: the least of three tries, because the pings of that
session are counted as well.

=cut

sub cost
{
	my ($self) = @_;
	$_->disconnect foreach splice @{ $self->{backends} };
	wait_for(sub { $self->connections == 0 }, 'all sessions to end', $patience);
	my $backend = $self->connect;
	my %cycle = (
		session => ["SELECT zk_lock_acquire('/sizing/cost'), zk_lock_release('/sizing/cost')"],
		transaction => [ 'BEGIN', "SELECT zk_lock_acquire_xact('/sizing/cost')", 'COMMIT' ]);
	my %cost;
	foreach my $name (keys %cycle)
	{
		$backend->do($_) foreach @{ $cycle{$name} };
		foreach my $try (1 .. 3)
		{
			my $before = $self->counters;
			foreach my $cycle (1 .. $cycles)
			{
				$backend->do($_) foreach @{ $cycle{$name} };
			}
			my $after = $self->counters;
			foreach (values %counters)
			{
				my $each = ($after->{$_} - $before->{$_}) / $cycles;
				$cost{$name}{$_} = min($cost{$name}{$_} // $each, $each);
			}
		}
	}
	$backend->disconnect;
	return \%cost;
}

# The numbers of kilobytes of a process: RSS, PSS, what is its own, and the kernel's charge;
# and its threads.
sub memory_of
{
	my ($pid) = @_;
	my %kb = map { /^(\w+):\s*(\d+)/ ? ($1 => $2) : () }
	  split /\n/, slurp_file("/proc/$pid/status") . slurp_file("/proc/$pid/smaps_rollup");
	return {
		rss => $kb{Rss},
		pss => $kb{Pss},
		dirty => $kb{Private_Dirty},
		charge => $kb{VmData},
		threads => $kb{Threads}
	};
}

# The means over all backends.
sub memory
{
	my ($self) = @_;
	my @each = map { memory_of($_->{pg_pid}) } @{ $self->{backends} };
	my %mean;
	foreach my $name (keys %{ $each[0] })
	{
		$mean{$name} = sum0(map { $_->{$name} } @each) / @each;
	}
	return \%mean;
}

# Bytes of live objects in the heaps of all servers: the histogram begins with a full
# collection.
sub heap
{
	my ($self) = @_;
	my $bytes = 0;
	foreach my $id ($self->{ensemble}->ids)
	{
		my $pid = $self->{ensemble}->server_pid($id);
		my ($total) = qx(jcmd $pid GC.class_histogram) =~ /^Total\s+\d+\s+(\d+)/m
		  or die "no histogram of the heap of process $pid\n";
		$bytes += $total;
	}
	return $bytes;
}

# What all servers have taken, in seconds of a processor; and all backends.
sub processor
{
	my ($self) = @_;
	return {
		servers => sum0(
			map { cpu_time($self->{ensemble}->server_pid($_)) } $self->{ensemble}->ids),
		backends => sum0(map { threads_time($_->{pg_pid}) } @{ $self->{backends} }) / 1e6
	};
}

# The open connections of ZooKeeper sessions to all servers.
sub connections
{
	my ($self) = @_;
	return scalar keys %{ $self->{ensemble}->connections };
}

# Watch a state for so many seconds, and then look at everything.  What was there before the
# first connection does not count.
sub look
{
	my ($self, $seconds) = @_;
	my ($counted, $used, $began) = ($self->counters, $self->processor, time);
	sleep $seconds;
	my ($counted_then, $used_then, $took) = ($self->counters, $self->processor, time - $began);
	return {
		(map { $_ => ($counted_then->{$_} - $counted->{$_}) / $took } values %counters),
		(map { ("cpu_$_" => ($used_then->{$_} - $used->{$_}) / $took) } keys %$used),
		(map { $_ => $self->number($_) - ($self->{start}{$_} // 0) } @numbers),
		connections => $self->connections,
		memory => $self->memory,
		heap => $self->heap - $self->{start}{heap}
	};
}

# Packets and bytes since then, for each backend.
sub traffic
{
	my ($self, $before) = @_;
	my $after = $self->counters;
	my $count = @{ $self->{backends} };
	return { map { $_ => ($after->{$_} - $before->{$_}) / $count } keys %$after };
}

# Wait until one of the servers' numbers is as the condition wants it.
sub wait_for_number
{
	my ($self, $name, $condition) = @_;
	wait_for(sub { $condition->($self->number($name)) }, "the right $name", $patience);
	return;
}

# Wait until each session has set its watches, which it does when it has held a lock, or
# waited for it, for a moment.
sub wait_for_watches
{
	my ($self) = @_;
	my ($last, $since) = (-1, time);
	$self->wait_for_number(
		'watch_count',
		sub {
			($last, $since) = ($_[0], time) if $_[0] != $last;
			return time - $since > 5;
		});
	return;
}

# Have each session hold a lock of its own, or none.
sub acquire_all
{
	my ($self) = @_;
	my $count = @{ $self->{backends} };
	$self->in_all(q{SELECT zk_lock_acquire('/sizing/own/$1')});
	$self->wait_for_number('ephemerals_count', sub { $_[0] == $count });
	return;
}

sub release_all
{
	my ($self) = @_;
	$self->in_all(q{SELECT zk_lock_release('/sizing/own/$1')});
	$self->wait_for_number('ephemerals_count', sub { $_[0] == 0 });
	return;
}

=pod

=item $world->states($seconds)

What sessions take in each state, as a hash of hashes.  Traffic is watched for so many
seconds.

  connected	not even a use of zklock: the memory only
  hold		each holds a lock of its own
  idle		each has released it, and the ensemble has removed the lock nodes
  queue		one holds a lock, and all others wait for it
  first, forming, draining
		packets and bytes of each session, of the first lock, of queueing up, and
		from the first release until each one has had the lock

C<lost> is the number of sessions that have expired by the end, C<snapshot> the size of a
snapshot in state C<hold>, in bytes (of a single server only: a follower that restarts
writes none), and C<shared> that of zklock's shared memory.

=back

=cut

sub states
{
	my ($self, $seconds) = @_;
	my %states;

	# The znodes above the lock nodes stay: removing a container takes a minute for each level.
	my $probe = ZkProbe->new($self->{ensemble}->connect_string);
	$probe->make_path('/zklock/sizing/own');
	$probe = undef;
	wait_for(sub { $self->connections == 0 }, 'that session to end', $patience);
	$self->{start} = { map { $_ => $self->number($_) } qw(znode_count
		  approximate_data_size open_file_descriptor_count) };
	$self->{start}{heap} = $self->heap;
	$self->{backends} = [ map { $self->connect } 1 .. $self->{count} ];

	# What any statement about locks takes is not zklock's.
	$self->in_all('SELECT pg_advisory_lock($1), pg_advisory_unlock($1)');
	$states{connected} = { memory => $self->memory };

	my $before = $self->counters;
	$self->acquire_all;
	$states{first} = $self->traffic($before);
	$self->wait_for_watches;
	$states{hold} = $self->look($seconds);
	$self->release_all;
	my $parents = $self->{start}{znode_count};
	$self->wait_for_number('znode_count', sub { $_[0] == $parents });
	$states{idle} = $self->look($seconds);
	$self->queue_states(\%states, $seconds);

	$self->acquire_all;
	$states{snapshot} = $self->snapshot if $self->{ensemble}->ids == 1;
	($states{shared}) = $self->{backends}[0]->selectrow_array(
		"SELECT sum(allocated_size) FROM pg_shmem_allocations WHERE name ~ 'zklock'");
	$states{lost} = $self->number('stale_sessions_expired');
	return \%states;
}

# Those of one queue.  A waiter reads the queue once more when deadlock_timeout is over, and
# each time its wait has doubled: the first few of these are over before it is watched.
sub queue_states
{
	my ($self, $states, $seconds) = @_;
	my ($first, @others) = @{ $self->{backends} };
	my $before = $self->counters;
	$first->do(q{SELECT zk_lock_acquire('/sizing/queue')});
	$_->do(q{SELECT zk_lock_acquire('/sizing/queue'), zk_lock_release('/sizing/queue')},
		{ pg_async => PG_ASYNC })
	  foreach @others;
	$self->wait_for_number('ephemerals_count', sub { $_[0] == $self->{count} });
	$states->{forming} = $self->traffic($before);
	$self->wait_for_watches;
	sleep $self->{settle};
	$states->{queue} = $self->look($seconds);
	$before = $self->counters;
	$first->do(q{SELECT zk_lock_release('/sizing/queue')});
	$_->pg_result foreach @others;
	$self->wait_for_number('ephemerals_count', sub { $_[0] == 0 });
	$states->{draining} = $self->traffic($before);
	return;
}

# The size of the snapshot that a server writes when it starts.
sub snapshot
{
	my ($self) = @_;
	my $ensemble = $self->{ensemble};
	my ($id) = $ensemble->ids;
	$ensemble->restart_server($id);
	wait_for(sub { $self->connections >= $self->{count} },
		'all sessions to be connected', $patience);
	my ($latest) = sort { (stat $b)[9] <=> (stat $a)[9] }
	  glob "$ensemble->{dir}/$id/data/version-2/snapshot.*";
	return -s $latest;
}

sub end
{
	my ($self) = @_;
	$_->disconnect foreach @{ $self->{backends} };
	$self->{node}->stop('fast');
	$self->{ensemble}->stop;
	return;
}

1;
