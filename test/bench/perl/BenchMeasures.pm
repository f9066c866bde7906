
=pod

=head1 NAME

BenchMeasures - what the bench measures in each round

=head1 SYNOPSIS

  foreach my $measure (BenchMeasures::all())
  {
  	my %value = $measure->{run}->($world, $who);
  }

=head1 DESCRIPTION

A measure has

=over

=item name

What it is called on the command line.

=item title

In the table.

=item who

Whom it is about: clients, or pgbench with one of the scripts below.

=item run

A function that measures one of those for a moment, and returns names and
values: durations in microseconds, or numbers per second.

=item less

Optional: for some of them, the one whose median is to be taken off in the same
round.

=item less_metric

Optional: the only value to take off, from the same value of the other.

=item metrics

The names of the values that are shown; by default the median.

=item setups

Optional: a pattern that the set-up is to match.

=item every

Optional: it is done in the first round and every so many after that only.

=back

=cut

package BenchMeasures;

use strict;
use warnings;

use BenchPgbench;
use BenchProcessor;
use BenchStats;
use BenchWorld;
use List::Util qw(sum0);

# How long a slice is, in seconds.
my $slice = 0.5;

# For how long a lock is held between hand-offs, in microseconds: longer than what
# a waiter does to queue up.
my $long = 3000;

my @zookeeper = qw(raw zklock curator kazoo crecipe plpython);
my @everybody = (@zookeeper, qw(advisory redis));
my @contenders = ('raw', 'processes', grep { $_ ne 'raw' } @everybody);
my @queues = qw(raw processes zklock curator kazoo crecipe);

# What processor time is an average of: so many cycles, or drains.
my $many_cycles = 2000;
my $many_drains = 5;

# These have nothing to do with the ensemble, so one set-up is enough.
my %yardsticks = map { $_ => 1 } qw(advisory redis);

# What pgbench runs.
my %scripts = (
	empty => "SELECT 1;\nSELECT 1;\n",
	empty_xact => "BEGIN;\nSELECT 1;\nCOMMIT;\n",
	zklock =>
	  "SELECT zk_lock_acquire('/bench/zklock/cycle');\n"
	  . "SELECT zk_lock_release('/bench/zklock/cycle');\n",
	zklock_xact =>
	  "BEGIN;\nSELECT zk_lock_acquire_xact('/bench/zklock/cycle');\nCOMMIT;\n",
	plpython =>
	  "SELECT bench_kazoo('acquire', '/bench/plpython/cycle');\n"
	  . "SELECT bench_kazoo('release', '/bench/plpython/cycle');\n",
	advisory =>
	  "SELECT pg_advisory_lock(1);\nSELECT pg_advisory_unlock(1);\n",
	advisory_xact =>
	  "BEGIN;\nSELECT pg_advisory_xact_lock(1);\nCOMMIT;\n");

# A short transaction of a session that holds a session-level lock, or none.
my $short = "BEGIN;\nSELECT 1;\nCOMMIT;\n";
my $held = "\\if :first\nSELECT zk_lock_acquire('/bench/guard');\n"
  . "\\set first 0\n\\endif\n$short";

# What a connection does before its first lock, if it does something.
my $before = "SELECT pg_sleep(0.02);\n";

# The first lock of a connection.  The one before may not be given back yet, so it
# is one of many.
my $first = "\\set lock random(1, 64)\n"
  . "SELECT zk_lock_acquire('/bench/first/' || :lock);\n";
my %connect_scripts = (
	connect_empty => "SELECT 1;\n",
	connect_zklock => $first,
	connect_preconnect => $first);

# Each session has a path of its own.
my %throughput_scripts = (
	zklock =>
	  "SELECT zk_lock_acquire('/bench/zklock/own/' || :client_id);\n"
	  . "SELECT zk_lock_release('/bench/zklock/own/' || :client_id);\n",
	advisory =>
	  "SELECT pg_advisory_lock(:client_id);\n"
	  . "SELECT pg_advisory_unlock(:client_id);\n"
);

# The values of a list of durations; none if there are none.
sub summary
{
	my (@durations) = @_;
	return unless @durations;
	return (p50 => median(@durations), p99 => quantile(0.99, @durations));
}

# The measures of these names; they are called with the world and the peer.
sub cycle
{
	my ($world, $who) = @_;
	return summary(pgbench($world->node, $scripts{$who})->latencies)
	  if $scripts{$who};
	return summary($world->peer($who)->sample("cycle /bench/$who/cycle", $slice));
}

sub single
{
	my ($world, $who) = @_;
	return summary(
		$world->peer($who)->sample("array /bench/$who/single 1", $slice / 3));
}

sub array
{
	my ($world, $who) = @_;
	return summary(
		$world->peer($who)->sample("array /bench/$who/array 10", $slice / 2));
}

# Makes the measure for so many sessions.
sub throughput
{
	my ($count) = @_;
	return sub {
		my ($world, $who) = @_;
		if ($throughput_scripts{$who})
		{
			my $run =
			  pgbench($world->node, $throughput_scripts{$who}, clients => $count);
			return (rate => $run->throughput);
		}
		my $peer = $world->peer($who);
		$peer->command("throughput /bench/$who/own $count 0.1");
		my ($cycles, $seconds) =
		  $peer->command("throughput /bench/$who/own $count $slice");
		return defined $cycles ? (rate => $cycles / $seconds) : ();
	};
}

# Who tries again only now and then needs fewer turns to take as long.
sub handoff
{
	my ($contenders, $count, $hold) = @_;
	return sub {
		my ($world, $who) = @_;
		my $turns = $who eq 'redis' ? int($count / 8) : $count;
		return summary(
			$world->peer($who)
			  ->command("handoff /bench/$who/handoff $contenders $turns $hold"));
	};
}

# Everybody releases at once: so the time from the first release to the last grant
# is the sum of the hand-offs.
sub drain
{
	my ($waiters) = @_;
	return sub {
		my ($world, $who) = @_;
		my @durations =
		  $world->peer($who)->command("drain /bench/$who/drain $waiters");
		return unless @durations;
		return (
			mean => sum0(@durations) / @durations,
			hand_off => median(@durations));
	};
}

# What the cycles of one session take of the processors.  What runs in PostgreSQL runs two
# statements in each.
sub cycle_processor
{
	my ($world, $who) = @_;
	my $peer = $world->peer($who);
	$peer->command('open 1');
	$peer->command("cycle /bench/$who/cycle 100");
	return processor_time($world, $who,
		sub { scalar $peer->command("cycle /bench/$who/cycle $many_cycles") });
}

# The backend of the first holder, which looks in the database whether all wait.
sub first_holder
{
	my ($world, $who) = @_;
	return unless BenchWorld::runs_statements($who);
	return $world->node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE query LIKE '%bench\_${who}\_release(%'"
		  . ' AND pid <> pg_backend_pid()');
}

# What waiters take of them, from queueing up until they have released the lock.  Peers
# that start a thread for each do so without a lock as well, and that is taken off.
sub drain_processor
{
	my ($world, $who) = @_;
	my $peer = $world->peer($who);
	my $drain = "drain /bench/$who/drain 100";
	my $threads = 'threads 100';
	$peer->command('open 101');
	$peer->command($drain);
	$peer->command($threads);
	my %taken = processor_time(
		$world, $who,
		sub { sum0(map { scalar $peer->command($drain) } 1 .. $many_drains) },
		first_holder($world, $who));
	my %besides = processor_time(
		$world, $who,
		sub {
			sum0(map { ($peer->command($threads))[0] // 0 } 1 .. $many_drains);
		});
	$taken{client} -= $besides{client} if %taken && %besides;
	return %taken;
}

# What works in PostgreSQL is less a connection with an empty statement.  The two take
# turns: to start a process takes much longer at some times than at others.  The first
# times do not count: they may make the lock node.
sub first
{
	my ($world, $who) = @_;
	my @peers = ($world->peer($who));
	push @peers, $world->peer('empty') // die "there is nothing to take off\n"
	  if $who ne 'empty' && BenchWorld::runs_statements($who);
	my @durations = map { [] } @peers;
	$_->command('first 2') foreach @peers;
	foreach (1 .. 8)
	{
		push @{ $durations[$_] }, $peers[$_]->command('first 2') foreach 0 .. $#peers;
	}
	$world->peer('empty')->command('close') if @peers > 1;
	my ($own, $empty) = map { median(@$_) } @durations;
	return (p50 => $own - ($empty // 0));
}

# A connection for each transaction, which begins with these statements.
sub connection
{
	my ($beginning) = @_;
	return sub {
		my ($world, $who) = @_;
		local $ENV{PGOPTIONS} =
		  $who eq 'connect_preconnect' ? '-c zklock.preconnect=on' : '';
		my $run = pgbench(
			$world->node, $beginning . $connect_scripts{$who},
			transactions => 20,
			connect => 1);
		return (p50 => $run->time_per_transaction);
	};
}

# Transactions that do nothing, with a lock and each kind of guard.
sub guard
{
	my ($world, $who) = @_;
	return summary(pgbench($world->node, $short)->latencies)
	  if $who eq 'guard_none';
	my ($guard) = $who =~ /_(.*)/;
	local $ENV{PGOPTIONS} = "-c zklock.commit_guard=$guard";
	return summary(
		pgbench($world->node, $held, define => { first => 1 })->latencies);
}

# Those that sync to disk, as ensembles do; what is measured only there would not
# tell more elsewhere.
my $synced = qr/^(standalone|three)$/;

my @measures = (
	{
		name => 'cycle',
		title => 'acquire and release, nobody else there',
		who => [
			qw(empty empty_xact processes_empty raw processes zklock zklock_xact
			  curator kazoo crecipe plpython advisory advisory_xact redis)
		],
		less => {
			processes => 'processes_empty',
			zklock => 'empty',
			plpython => 'empty',
			advisory => 'empty',
			zklock_xact => 'empty_xact',
			advisory_xact => 'empty_xact'
		},
		metrics => [qw(p50 p99)],
		run => \&cycle
	},
	{
		name => 'single',
		title => 'acquire alone',
		who => \@everybody,
		run => \&single
	},
	{
		name => 'array',
		title => 'acquire 10 locks',
		who => \@everybody,
		run => \&array
	},
	{
		name => 'first',
		title => 'connect and acquire',
		who => [ 'empty', @everybody ],
		setups => $synced,
		run => \&first
	},
	(
		map {
			{
				name => $_->[0],
				title => $_->[1],
				who => [qw(connect_empty connect_zklock connect_preconnect)],
				less => {
					connect_zklock => 'connect_empty',
					connect_preconnect => 'connect_empty'
				},
				setups => $synced,
				run => connection($_->[2])
			}
		} [
			'connection', 'first lock of a new connection of pgbench, on the average', ''
		],
		[
			'connection_later',
			'the same 20 ms after the beginning of another statement', $before
		]),
	{
		name => 'guard',
		title => 'a short transaction that holds a lock of session scope',
		who => [qw(guard_none guard_off guard_lease guard_quorum)],
		setups => $synced,
		run => \&guard
	},
	(
		map {
			{
				name => "throughput$_->[0]",
				title =>
				  "acquire and release, sessions on paths of their own: $_->[0]",
				who => [qw(raw processes zklock curator kazoo advisory redis)],
				metrics => ['rate'],
				setups => $_->[1],
				run => throughput($_->[0])
			}
		} [ 1, $synced ],
		[ 8, qr// ],
		[ 32, $synced ]),
	{
		name => 'handoff2',
		title => 'hand-off, 2 contenders',
		who => \@contenders,
		run => handoff(2, 100, $long)
	},
	{
		name => 'handoff8',
		title => 'hand-off, 8 contenders',
		who => \@contenders,
		run => handoff(8, 100, $long)
	},
	(
		map {
			{
				name => "quick$_",
				title => "hand-off, $_ contenders, released at once",
				who => \@queues,
				setups => $synced,
				run => handoff($_, 100, 0)
			}
		} 2, 8),
	{
		name => 'handoff10',
		title => 'hand-off, queue of 10',
		who => \@queues,
		setups => $synced,
		run => handoff(10, 80, $long)
	},
	{
		name => 'handoff100',
		title => 'hand-off, queue of 100',
		who => \@queues,
		setups => $synced,
		every => 3,
		run => handoff(100, 80, $long)
	},
	{
		name => 'drain100',
		title => 'drain of 100 waiters, each hand-off',
		who => [ @queues, 'advisory' ],
		metrics => [qw(mean hand_off)],
		run => drain(100)
	},
	{
		name => 'drain1000',
		title => 'drain of 1,000 waiters, each hand-off',
		who => [qw(raw processes zklock curator kazoo)],
		metrics => [qw(mean hand_off)],
		setups => $synced,
		every => 3,
		run => drain(1000)
	},
	{
		name => 'processor_cycle',
		title => 'processor time of an acquire and release',
		who => [ 'empty', 'asleep', 'processes_empty', @queues, 'advisory' ],
		less => {
			asleep => 'empty',
			processes => 'processes_empty',
			zklock => 'empty',
			advisory => 'empty'
		},
		less_metric => 'client',
		metrics => [qw(servers client)],
		setups => $synced,
		run => \&cycle_processor
	},
	{
		name => 'processor_waiter',
		title => 'processor time of a whole cycle of a waiter',
		who => [ 'empty', 'processes_empty', @queues ],
		less => { processes => 'processes_empty', zklock => 'empty' },
		less_metric => 'client',
		metrics => [qw(servers client)],
		setups => $synced,
		run => \&drain_processor
	});

=pod

=head1 FUNCTIONS

=over

=item BenchMeasures::all()

=item BenchMeasures::needs($who)

The client that has to be there.

=item BenchMeasures::is_yardstick($client)

Has it nothing to do with the ensemble?

=back

=cut

sub all { return @measures; }

sub needs
{
	my ($who) = @_;
	return $who if $who eq 'processes_empty';
	return 'empty' if $who =~ /empty/;
	return 'zklock' if $who =~ /^(guard|connect)_/;
	return $who =~ s/_xact$//r;
}

sub is_yardstick { return $yardsticks{ $_[0] }; }

1;
