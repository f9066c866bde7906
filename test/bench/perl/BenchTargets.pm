
=pod

=head1 NAME

BenchTargets - what is to be reached, and whether it was

=head1 SYNOPSIS

  my @rows = (ratio_rows($report, @setups), number_rows($cost, $calls));

=head1 DESCRIPTION

Ratios are medians of those of each round.

=cut

package BenchTargets;

use strict;
use warnings;

use BenchStats;
use Exporter 'import';

our @EXPORT = qw(number_rows ratio_rows);

# A ratio to the bare library's and one to Curator's, or only one of them: the most that
# they may be, or the least if "least" is set.  "raw_three" and "curator_three" are for
# ensembles of three.
my @ratios = (
	{
		text => 'processor time of a cycle, client',
		measure => 'processor_cycle',
		metric => 'client',
		raw => 1.15
	},
	{
		text => 'processor time of a waiter, client',
		measure => 'processor_waiter',
		metric => 'client',
		raw => 1.6
	},
	{
		text => 'acquire and release, session scope',
		measure => 'cycle',
		raw => 1.0,
		curator => 0.95
	},
	{
		text => 'acquire and release, transaction scope',
		measure => 'cycle',
		who => 'zklock_xact',
		raw => 0.85,
		curator => 0.75
	},
	(
		map {
			{
				text => "throughput, $_->[0] backends",
				measure => "throughput$_->[0]",
				metric => 'rate',
				least => 1,
				curator => $_->[1]
			}
		} [ 8, 1.15 ],
		[ 32, 1.5 ]),
	{
		text => 'hand-off, 2 contenders',
		measure => 'handoff2',
		raw => 1.1,
		raw_three => 1.2,
		curator => 1.1,
		curator_three => 0.95
	},
	{
		text => 'hand-off, 8 contenders',
		measure => 'handoff8',
		raw => 1.1,
		raw_three => 1.2,
		curator => 0.75
	},
	{
		text => 'drain of 100, each hand-off',
		measure => 'drain100',
		metric => 'mean',
		raw => 1.3,
		curator => 0.5
	},
	{
		text => 'drain of 1,000, each hand-off',
		measure => 'drain1000',
		metric => 'mean',
		raw => 1.4,
		curator => 0.35
	},
	{
		text => 'first lock of a connection, less the connection to PostgreSQL',
		measure => 'first',
		raw => 1.3
	},
	{
		text => 'array of 10, to one acquire of raw, to ten of Curator',
		measure => 'array',
		raw_measure => 'single',
		raw => 1.5,
		curator => 0.2
	});

# What was counted, and the most that it may be.
my @numbers = (
	[ 'system calls of a cycle, client', 20, qw(calls zklock total) ],
	[ 'requests, uncontended cycle', 3, qw(cycle zklock received) ],
	[ 'requests, whole cycle of a waiter in a queue', 6, qw(waiter zklock received) ],
	[
		'requests between release and grant, hold longer than a round trip',
		0, qw(proof zklock received)
	],
	[
		'packets of the commit guard in a short transaction', 0,
		qw(guard_lease zklock received)
	],
	[ 'backend with an idle session: more RSS, kB', 250, qw(idle rss) ],
	[ 'of that its own, not of files (RssAnon), kB', 250, qw(idle anonymous) ],
	[ 'more commit charge, kB', 1024, qw(idle charge) ],
	[ 'more threads', 3, qw(idle threads) ],
	[ 'processor, %', 0.1, qw(idle cpu_percent) ]);

# A ratio as text, its bound, and whether it is kept; all empty if there is none.
sub judged
{
	my ($target, $bound, @ratios) = @_;
	@ratios = grep { defined } @ratios;
	return [ '', '', '' ] unless @ratios && defined $bound;
	my $ratio = median(@ratios);
	my $reached = $target->{least} ? $ratio >= $bound : $ratio <= $bound;
	return [
		sprintf('%.2f', $ratio),
		sprintf('%s %.2f', $target->{least} ? '≥' : '≤', $bound),
		$reached ? 'yes' : '**no**'
	];
}

# The bound of a target in a set-up, for "raw" or "curator"; undef if it has none.
sub bound
{
	my ($target, $other, $setup) = @_;
	my $three = $setup =~ /^three/ ? $target->{"${other}_three"} : undef;
	return $three // $target->{$other};
}

# What a target has come to in a set-up: columns for the bare library and Curator.
sub ratio_row
{
	my ($report, $target, $setup) = @_;
	my $who = $target->{who} // 'zklock';
	my $metric = $target->{metric} // 'p50';
	my @to_raw = $report->ratios($setup, $target->{measure}, $who, $metric, 'raw',
		$target->{raw_measure});
	my @to_processes = grep { defined }
	  $report->ratios($setup, $target->{measure}, $who, $metric, 'processes');
	my @to_curator =
	  $report->ratios($setup, $target->{measure}, $who, $metric, 'curator');
	my $raw = judged($target, bound($target, 'raw', $setup), @to_raw);
	my $curator = judged($target, bound($target, 'curator', $setup), @to_curator);
	return unless length $raw->[0] || length $curator->[0];
	return [
		$target->{text}, $setup, @$raw,
		@to_processes ? sprintf('%.2f', median(@to_processes)) : '', @$curator
	];
}

=pod

=head1 FUNCTIONS

=over

=item ratio_rows($report, @setups)

Rows of: what, set-up; ratio to raw, target, reached; ratio to raw in a process for each
session, which has no target; ratio to Curator, target, reached.

=item number_rows($cost, $calls)

Rows of: what, number, target, reached; of what BenchCost and BenchCalls have counted.

=back

=cut

sub ratio_rows
{
	my ($report, @setups) = @_;
	my @rows;
	foreach my $target (@ratios)
	{
		push @rows, map { ratio_row($report, $target, $_) } @setups;
	}
	return @rows;
}

sub number_rows
{
	my ($cost, $calls) = @_;
	my %counted = (%{ $cost // {} }, calls => $calls);
	my @rows;
	foreach my $row (@numbers)
	{
		my ($text, $bound, @path) = @$row;
		my $value = \%counted;
		$value = $value->{ shift @path } while ref $value && @path;
		next unless defined $value;
		push @rows,
		  [
			$text,
			$value >= 100 ? sprintf('%.0f', $value) : sprintf('%.3g', $value),
			"≤ $bound",
			$value <= $bound ? 'yes' : '**no**'
		  ];
	}
	return @rows;
}

1;
