
=pod

=head1 NAME

BenchReport - the document that the bench ends with

=head1 SYNOPSIS

  my $report = BenchReport->new(setups => [...], measures => [...],
  	results => \%results, rounds => 7);
  print $report->text;

=head1 DESCRIPTION

The results are a hash by set-up, of hashes by measure, of lists by round, of
hashes by who was measured, of what the measure has returned.

=cut

package BenchReport;

use strict;
use warnings;

use BenchStats;
use BenchTargets;
use BenchWorld;
use List::Util qw(sum0);
use POSIX qw(strftime);

# What the tables call those that are measured.
my %labels = (
	raw => 'raw',
	processes => 'raw, a process for each session',
	processes_empty => '(empty commands to such processes)',
	zklock => '**zklock**',
	zklock_xact => '**zklock**, transaction scope',
	curator => 'Curator',
	kazoo => 'kazoo',
	crecipe => 'C recipe',
	plpython => 'PL/Python with kazoo',
	advisory => 'pg_advisory_lock',
	advisory_xact => 'pg_advisory_xact_lock',
	redis => 'Redis',
	empty => '(empty statements)',
	asleep => '(statements that sleep for 1 ms)',
	empty_xact => '(an empty statement in a transaction)',
	connect_empty => '(connect, an empty statement)',
	connect_zklock => '**zklock**',
	connect_preconnect => '**zklock**, preconnect',
	guard_none => '(no lock)',
	guard_off => '**zklock**, commit_guard = off',
	guard_lease => '**zklock**, commit_guard = lease',
	guard_quorum => '**zklock**, commit_guard = quorum');

# What was counted, in the order of the table.
my @cost_rows = (
	[ cycle => 'acquire and release' ],
	[ xact => 'acquire, commit' ],
	[ waiter => 'whole cycle of a waiter' ],
	[ proof => 'between release and grant' ],
	[ array => 'acquire and release of 10 locks' ],
	[ first => 'connect, acquire, release, disconnect' ],
	[ guard_lease => 'short transaction, commit_guard = lease' ],
	[ guard_quorum => 'short transaction, commit_guard = quorum' ]);

my @idle_rows = (
	[ rss => 'RSS, kB' ],
	[ anonymous => 'of that, its own (RssAnon)' ],
	[ file => 'of that, of files, such as libraries (RssFile)' ],
	[ shared => 'of that, of shared memory (RssShmem)' ],
	[ dirty => 'private dirty memory, kB' ],
	[ charge => 'commit charge, kB (VmData)' ],
	[ committed => 'the same as its share of Committed_AS' ],
	[ threads => 'threads' ],
	[ cpu_percent => 'processor, %' ]);

# What the threads of zklock and of raw are called: see BenchWatch.
my %roles = (
	caller => [ 'backend', 'program' ],
	io => ['I/O thread'],
	helper => [ 'helper', 'completion thread' ]);

# Of what share of its thread's time on a function is named.
my $share = 0.02;

# What else than a median of durations a measure may have.
my %metrics = (
	p50 => 'median, ms',
	p99 => '99th percentile, ms',
	mean => 'mean, ms',
	hand_off => 'median, ms',
	rate => 'per second',
	servers => 'by the servers, ms',
	client => 'by the client, ms');

=pod

=head1 METHODS

=over

=item BenchReport->new(%facts)

=cut

sub new
{
	my ($class, %facts) = @_;
	return bless {%facts}, $class;
}

=pod

=item $report->series($setup, $measure, $who, $metric)

Those of all rounds, in order; undef where there is none.

=item $report->ratios($setup, $measure, $who, $metric, $other, $other_measure)

Likewise, of one to another in the same round; of another measure if one is named.

=cut

sub series
{
	my ($self, $setup, $measure, $who, $metric) = @_;
	my $rounds = $self->{results}{$setup}{$measure} // [];
	return map { $_->{$who}{$metric} } map { $_ // {} } @$rounds;
}

sub ratios
{
	my ($self, $setup, $measure, $who, $metric, $other, $other_measure) = @_;
	my @own = $self->series($setup, $measure, $who, $metric);
	my @others =
	  $self->series($setup, $other_measure // $measure, $other, $metric);
	return map { $own[$_] && $others[$_] ? $own[$_] / $others[$_] : undef }
	  0 .. $#own;
}

# With as many digits as mean something.
sub number
{
	my ($value) = @_;
	return sprintf '%.0f', $value if $value >= 100;
	return sprintf '%.1f', $value if $value >= 10;
	return sprintf '%.2f', $value if $value >= 0.1;
	return sprintf '%.3f', $value;
}

# What one has reached in a set-up: median of the rounds, quartiles, ratio to raw.
sub cell
{
	my ($self, $setup, $measure, $who, $metric) = @_;
	my @values = grep { defined } $self->series($setup, $measure, $who, $metric);
	return '' unless @values;
	@values = map { $_ / 1000 } @values unless $metric eq 'rate';
	my $text = sprintf '%s (%s–%s)', map { number($_) } median(@values),
	  quartiles(@values);
	my @ratios =
	  grep { defined } $self->ratios($setup, $measure, $who, $metric, 'raw');
	$text .= sprintf ' ×%.2f', median(@ratios)
	  if @ratios && $who ne 'raw' && $who !~ /empty/;
	return $text;
}

# The rows of a table; the first is its head.
sub table
{
	my (@rows) = @_;
	my ($head, @body) = map { '| ' . join(' | ', @$_) . " |\n" } @rows;
	return join '', $head, '|' . '---|' x @{ $rows[0] } . "\n", @body, "\n";
}

# One measure's table for one metric, with set-ups as columns.
sub measure_table
{
	my ($self, $measure, $metric) = @_;
	my @setups = @{ $self->{setups} };
	my @rows;
	foreach my $who (@{ $measure->{who} })
	{
		my @cells =
		  map { $self->cell($_, $measure->{name}, $who, $metric) } @setups;
		push @rows, [ $labels{$who}, @cells ] if grep { length } @cells;
	}
	return '' unless @rows;
	return table([ $metrics{$metric}, @setups ], @rows);
}

=pod

=item $report->text()

All of it.

=back

=cut

sub text
{
	my ($self) = @_;
	return join '', $self->head, $self->targets,
	  (map { $self->measure($_) } @{ $self->{measures} }), $self->costs,
	  $self->calls, $self->profile;
}

# What was run, where and how.
sub head
{
	my ($self) = @_;
	my $missing = $self->{missing};
	my @facts = (
		'command: `' . command() . '`',
		'date: ' . strftime('%Y-%m-%d %H:%M', gmtime) . ' UTC',
		$ENV{BENCH_COMMIT} ? "commit: $ENV{BENCH_COMMIT}" : (),
		@{ $self->{machine} },
		map { "left out: $labels{$_}: $missing->{$_}" } sort keys %$missing);
	return join '', "# How fast zklock is, and others are\n\n",
	  (map { "* $_\n" } @facts), <<~"END";

	A number is the median of $self->{rounds} rounds, each of which has a median of its own; the
	quartiles of the rounds are in parentheses, and × is the median of the rounds'
	ratios to raw, which is the bare client library.  See test/bench/README.

	END
}

# How to do this again.
sub command
{
	my @settings =
	  map { defined $ENV{$_} ? ("$_=$ENV{$_}") : () } qw(ROUNDS ONLY SETUPS PEERS AWAKE);
	return join ' ', 'make bench', @settings;
}

# The tables of what was to be reached.
sub targets
{
	my ($self) = @_;
	my @ratios = ratio_rows($self, @{ $self->{setups} });
	my @numbers = number_rows($self->{cost}, $self->{calls});
	my $text = "## Targets\n\n";
	$text .= table(
		[
			'', 'set-up', 'to raw', 'target',
			'reached', 'to raw in processes', 'to Curator', 'target',
			'reached'
		],
		@ratios) if @ratios;
	$text .= table([ '', 'number', 'target', 'reached' ], @numbers) if @numbers;
	return @ratios || @numbers ? $text : '';
}

# The tables of one measure.
sub measure
{
	my ($self, $measure) = @_;
	return join '', "## \u$measure->{title} (`$measure->{name}`)\n\n",
	  map { $self->measure_table($measure, $_) }
	  @{ $measure->{metrics} // ['p50'] };
}

# What was counted once.
sub costs
{
	my ($self) = @_;
	my $cost = $self->{cost} or return '';
	my $text = "## Packets and bytes at the servers (`cost`)\n\n";
	my @rows;
	foreach my $row (@cost_rows)
	{
		my ($what, $label) = @$row;
		foreach my $who (grep { $cost->{$what}{$_} } BenchWorld::peer_names())
		{
			my $counts = $cost->{$what}{$who};
			push @rows, [
				$label,
				$labels{$who},
				map { defined $counts->{$_} ? sprintf '%.1f', $counts->{$_} : '' }
				  qw(received sent bytes_received bytes_sent)
			];
		}
	}
	$text .= table(
		[ '', '', 'received', 'sent', 'bytes received', 'bytes sent' ], @rows);
	return $text unless $cost->{idle};
	$text .= "## What a ZooKeeper session adds to a backend (`cost`)\n\n";
	return $text . table(
		[ '', '' ],
		map { [ $_->[1], number($cost->{idle}{ $_->[0] }) ] } @idle_rows);
}

# Of zklock, and of raw if it differs.
sub role_names { return @{ $roles{ $_[0] } // \@_ }; }

# Why something could not be looked at, as lines of text.
sub failures
{
	my ($looked_at) = @_;
	return join '',
	  map { "$labels{$_} is left out: $looked_at->{$_}{failure}\n\n" }
	  grep { $looked_at->{$_}{failure} } sort keys %$looked_at;
}

# The system calls of a cycle, by thread.
sub calls
{
	my ($self) = @_;
	my $calls = $self->{calls} or return '';
	my @who = grep { $calls->{$_} && !$calls->{$_}{failure} } qw(zklock raw);
	my $text = "## System calls of a cycle (`calls`)\n\n" . failures($calls);
	return $text unless @who;
	return $text
	  . calls_table('of a cycle', \@who, map { $calls->{$_} } @who)
	  . calls_table('of a second, by the clock', \@who, map { $calls->{$_}{clock} } @who);
}

# One table of them; "counts" are those of each client.
sub calls_table
{
	my ($title, $who, @counts) = @_;
	my (%calls, @rows);
	foreach my $i (0 .. $#counts)
	{
		my $threads = $counts[$i]{threads};
		foreach my $role (keys %$threads)
		{
			$calls{$role}{$_}[$i] = $threads->{$role}{$_}
			  foreach keys %{ $threads->{$role} };
		}
	}
	foreach my $role (sort keys %calls)
	{
		foreach my $call (sort keys %{ $calls{$role} })
		{
			my @numbers =
			  map { sprintf '%.1f', $calls{$role}{$call}[$_] // 0 } 0 .. $#counts;
			push @rows, [ join('; raw: ', role_names($role)), $call, @numbers ]
			  if grep { $_ > 0 } @numbers;
		}
	}
	return table(
		[ $title, 'call', map { $labels{$_} } @$who ],
		@rows, [ 'all', '', map { sprintf '%.1f', $_->{total} } @counts ]);
}

# Where the processor time of a cycle goes.
sub profile
{
	my ($self) = @_;
	my $profile = $self->{profile} or return '';
	my $text = "## Where the processor time of a cycle goes (`profile`)\n\n"
	  . failures($profile);
	foreach my $who (grep { $profile->{$_} && !$profile->{$_}{failure} } qw(zklock raw))
	{
		my $total = $profile->{$who}{total};
		my @rows =
		  map { [ @$_[ 0, 1 ], sprintf('%.0f %%', 100 * $_->[2] / $total), number($_->[2]) ] }
		  profile_rows($profile->{$who});
		$_->[0] = (role_names($_->[0]))[ $who eq 'raw' ? -1 : 0 ] foreach @rows;
		$text .= table([ $labels{$who}, 'function', 'of the cycle', 'µs' ], @rows);
	}
	return $text;
}

# Thread, function and microseconds: what takes more than its share, and what is left of
# each file.
sub profile_rows
{
	my ($profile) = @_;
	my (%thread, %rest, @rows);
	$thread{ $_->[0] } += $_->[3] foreach @{ $profile->{rows} };
	foreach my $row (@{ $profile->{rows} })
	{
		my ($role, $function, $file, $us) = @$row;
		if ($file eq '')
		{
			push @rows, [ $role, $function, $us ];
		}
		elsif ($us >= $share * $thread{$role} && $function ne '[unknown]')
		{
			push @rows, [ $role, "$function ($file)", $us ];
		}
		else
		{
			$rest{$role}{$file} += $us;
		}
	}
	foreach my $role (keys %rest)
	{
		my $rest = $rest{$role};
		my @small = grep { $rest->{$_} < $share * $thread{$role} } keys %$rest;
		push @rows, [ $role, 'everything else', sum0(delete @$rest{@small}) ] if @small;
		push @rows, map { [ $role, "other functions ($_)", $rest->{$_} ] } keys %$rest;
	}
	push @rows, map { [ $_, '**all**', $thread{$_} ] } keys %thread;
	return sort { $a->[0] cmp $b->[0] || $b->[2] <=> $a->[2] } @rows;
}

1;
