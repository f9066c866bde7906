#!/usr/bin/env perl
#
# Measure lock clients against each other, and write a document about it.
#
#   bench.pl FILE
#
# Called by run, which says what is chosen by which variable of the environment.

use strict;
use warnings;

use BenchCalls;
use BenchCost;
use BenchMachine;
use BenchMeasures;
use BenchProfile;
use BenchReport;
use BenchStats;
use BenchWorld;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

# A client that has died is to be missing, no more.
$SIG{PIPE} = 'IGNORE';

my ($output) = @ARGV;
my $rounds = $ENV{ROUNDS} // 7;
my $began = time;

# What is chosen, and what was found out.
my (@setups, @peers, @measures);
my (%results, $cost, $calls, $profile, @machine, %missing);

# What is not measured in rounds, but looked at once.
my @once = qw(cost calls profile);

# The names in a variable of the environment, or all.
sub chosen
{
	my ($variable, @all) = @_;
	my @names = split /,/, $ENV{$variable} // '';
	return @all unless @names;
	foreach my $name (@names)
	{
		die "$variable: there is no $name, but: @all\n"
		  unless grep { $_ eq $name } @all;
	}
	my %chosen = map { $_ => 1 } @names;
	return grep { $chosen{$_} } @all;
}

# Tell what is going on.
sub progress
{
	my ($text) = @_;
	diag sprintf '%5.0f s  %s', time - $began, $text;
	return;
}

# What is chosen by a name that may be the beginning of several.
sub chosen_measures
{
	my @all = BenchMeasures::all();
	my @names = split /,/, $ENV{ONLY} // '';
	return @all unless @names;
	my $pattern = join '|', map { quotemeta } @names;
	my @found = grep { $_->{name} =~ /^($pattern)\d*$/ } @all;
	die "ONLY: nothing of that name, but: @{[map { $_->{name} } @all]} @once\n"
	  unless @found || grep { looks_at($_) } @once;
	return @found;
}

# Is something of that kind chosen?  A profile only by its name.
sub looks_at
{
	my ($name) = @_;
	return $name ne 'profile' unless $ENV{ONLY};
	return grep { $_ eq $name } split /,/, $ENV{ONLY};
}

# Is there a client to measure in this set-up?
sub takes_part
{
	my ($world, $who) = @_;
	return $world->peer(BenchMeasures::needs($who));
}

# Measure one of them once.  Returns a hash, or nothing if that fails: then the
# client is restarted.
sub try_one
{
	my ($world, $measure, $who) = @_;
	my $client = BenchMeasures::needs($who);
	my $start = time;
	my $values = eval {
		my %measured = $measure->{run}->($world, $who);
		$world->peer($client)->command('close');
		\%measured;
	};
	my $error = $@;
	note sprintf 'slice %s %s: %.1f s', $measure->{name}, $who, time - $start;
	return $values if $values;
	progress("$measure->{name} $who: $error");
	$world->start_peer($client);
	return;
}

# The same, twice if necessary: an ensemble of Debian's version may not answer a request
# (ZOOKEEPER-4537), which ends a peer that does not reconnect.
sub measure_one
{
	my ($world, $measure, $who) = @_;
	foreach my $try (1, 2)
	{
		my $values = takes_part($world, $who) && try_one($world, $measure, $who);
		return $values if $values;
	}
	return {};
}

# Take off what statements cost that do nothing.
sub take_off_empty
{
	my ($measure, $values) = @_;
	my $metric = $measure->{less_metric};
	foreach my $who (keys %{ $measure->{less} })
	{
		my $empty = $values->{ $measure->{less}{$who} }{ $metric // 'p50' };
		my $taken = $values->{$who};
		if ($taken && defined $empty)
		{
			$taken->{$_} -= $empty
			  foreach grep { !defined $metric || $_ eq $metric } keys %$taken;
		}
		else
		{
			delete $values->{$who};
		}
	}
	return;
}

# One round of one measure: each in turn, beginning with another one each time.
sub run_measure
{
	my ($world, $measure, $round) = @_;
	my @who = grep { takes_part($world, $_) } @{ $measure->{who} };
	my %values;
	return unless @who;
	push @who, splice @who, 0, $round % @who;
	foreach my $who (@who)
	{
		$values{$who} = measure_one($world, $measure, $who);
	}
	take_off_empty($measure, \%values);
	return \%values;
}

# Is something to be measured in this round?
sub is_due
{
	my ($measure, $setup, $round) = @_;
	return 0 if $measure->{setups} && $setup !~ $measure->{setups};
	return ($round - 1) % ($measure->{every} // 1) == 0;
}

# All rounds of a set-up, numbered from 1.
sub run_setup
{
	my ($setup) = @_;
	my %measured;
	progress("$setup: starting");
	my $world = BenchWorld->new($setup,
		grep { $setup eq $setups[0] || !BenchMeasures::is_yardstick($_) } @peers);
	foreach my $round (1 .. $rounds)
	{
		progress("$setup: round $round of $rounds");
		foreach my $measure (@measures)
		{
			next unless is_due($measure, $setup, $round);
			my $values = run_measure($world, $measure, $round) or next;
			$measured{ $measure->{name} }[ $round - 1 ] = $values;
		}
	}
	finish($world) if $setup eq $setups[0];
	$world->end;
	return \%measured;
}

# What is looked at once.
sub finish
{
	my ($world) = @_;
	if (looks_at('cost'))
	{
		progress('counting requests and memory');
		$cost = measure_cost($world);
	}
	if (looks_at('calls'))
	{
		progress('counting system calls');
		$calls = measure_calls($world);
	}
	if (looks_at('profile'))
	{
		progress('taking samples of what runs');
		$profile = measure_profile($world);
	}
	@machine = machine_facts($world);
	%missing = %{ $world->missing };
	return;
}

# Write what is known by now.
sub write_report
{
	my $report = BenchReport->new(
		setups => [ grep { $results{$_} } @setups ],
		measures => \@measures,
		results => \%results,
		rounds => $rounds,
		cost => $cost,
		calls => $calls,
		profile => $profile,
		machine => \@machine,
		missing => \%missing);
	unlink $output;
	append_to_file($output, $report->text);
	return;
}

@setups = chosen('SETUPS', BenchWorld::setup_names());
@peers = chosen('PEERS', BenchWorld::peer_names());
@measures = chosen_measures();
foreach my $setup (@setups)
{
	$results{$setup} = run_setup($setup);
	write_report();
}
progress('done');
pass('all was measured');
done_testing();
