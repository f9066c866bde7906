#!/usr/bin/env perl
#
# Measure what many sessions take of ZooKeeper, PostgreSQL and the network, and write a
# document about it.
#
#   sizing.pl FILE
#
# Called by run, which says what is chosen by which variable of the environment.

use strict;
use warnings;

use BenchMachine;
use BenchSizing;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

$SIG{PIPE} = 'IGNORE';

my ($output) = @ARGV;
my $began = time;
my @counts = split /,/, $ENV{BACKENDS} || '100,1000';
my @calculated = @counts == 2 ? split /,/, $ENV{CALCULATE} || '10000' : ();
my $servers = $ENV{SERVERS} || 1;
my $seconds = $ENV{REST} || 60;
my $timeout = $ENV{TIMEOUT} || '10s';

# What was found out, by the number of backends.
my (%states, $cost, @machine);

# The rows of each state: a name, the number, a divisor, and decimal places.  Most numbers
# grow with that of the backends, and those of %squares with its square, because each waiter
# of a queue reads all of it now and then.
my %squares = ('queue bytes_sent' => 1);
my @rows = (
	[ 'ZooKeeper sessions', 'global_sessions', 1, 0 ],
	[ 'connections to ZooKeeper', 'connections', 1, 0 ],
	[ 'znodes', 'znode_count', 1, 0 ],
	[ 'of these ephemeral', 'ephemerals_count', 1, 0 ],
	[ 'their paths and data, kB', 'approximate_data_size', 1e3, 0 ],
	[ 'watches', 'watch_count', 1, 0 ],
	[ 'packets from clients, per second', 'received', 1, 0 ],
	[ 'packets to clients, per second', 'sent', 1, 0 ],
	[ 'bytes from clients, kB per second', 'bytes_received', 1e3, 1 ],
	[ 'bytes to clients, kB per second', 'bytes_sent', 1e3, 1 ],
	[ 'heap of the servers, live objects, MB', 'heap', 1e6, 1 ],
	[ 'processor, servers, %', 'cpu_servers', 0.01, 1 ],
	[ 'processor, backends, %', 'cpu_backends', 0.01, 1 ]);

my @memory_rows = (
	[ 'RSS', 'rss' ],
	[ 'PSS', 'pss' ],
	[ 'private dirty', 'dirty' ],
	[ 'commit charge (VmData)', 'charge' ],
	[ 'threads', 'threads' ]);

my @traffic_rows = (
	[ 'packets to the servers', 'received' ],
	[ 'packets from the servers', 'sent' ],
	[ 'bytes to the servers', 'bytes_received' ],
	[ 'bytes from the servers', 'bytes_sent' ]);

my %titles = (
	hold => 'each holds a lock of its own',
	queue => 'one holds a lock, all others wait for it',
	idle => 'each has used a lock, and none holds one');

# Tell what is going on.
sub progress
{
	my ($text) = @_;
	diag sprintf '%5.0f s  %s', time - $began, $text;
	return;
}

# Numbers of all counts of backends, as cells, and those that are calculated: on the straight
# line through the two, or with the square of the number of backends.
sub cells
{
	my ($format, $number, $law) = @_;
	my @values = map { $number->($states{$_}) } @counts;
	my @more = $law eq 'constant' ? () : @calculated;
	foreach my $count (@more)
	{
		push @values,
		  $law eq 'square'
		  ? $values[1] * ($count / $counts[1])**2
		  : $values[1] + ($values[1] - $values[0]) / ($counts[1] - $counts[0]) *
		  ($count - $counts[1]);
	}
	return join ' | ', map { sprintf($format, $_) } @values;
}

sub head
{
	my ($title, $law) = @_;
	my @columns = (@counts, map { "$_ (calculated)" } $law eq 'constant' ? () : @calculated);
	return "| $title | " . join(' | ', @columns) . " |\n|---" . '|---' x @columns . "|\n";
}

sub text
{
	my $text = "# Sizing\n\n"
	  . join('', map { "* $_\n" } @machine,
		"ZooKeeper servers: $servers",
		"zklock.session_timeout: $timeout",
		"each state was watched for: $seconds s")
	  . "\n";
	foreach my $state (qw(hold queue idle))
	{
		$text .= head($titles{$state}, 'line');
		foreach my $row (@rows)
		{
			my ($title, $name, $divisor, $places) = @$row;
			my $law = $squares{"$state $name"} ? 'square' : 'line';
			$text .= "| $title | "
			  . cells("%.${places}f", sub { $_[0]{$state}{$name} / $divisor }, $law) . " |\n";
		}
		$text .= "\n";
	}
	$text .= head('of the ensemble, and of the cluster', 'line');
	$text .= '| snapshot while each holds a lock, kB | '
	  . cells('%.0f', sub { $_[0]{snapshot} / 1e3 }, 'line') . " |\n"
	  if $servers == 1;
	$text .= '| file descriptors of the servers | '
	  . cells('%.0f', sub { $_[0]{hold}{open_file_descriptor_count} }, 'line') . " |\n";
	$text .= '| shared memory of zklock, kB | '
	  . cells('%.0f', sub { $_[0]{shared} / 1e3 }, 'line') . " |\n";
	$text .= "\n" . head('more in a backend that has used zklock, kB', 'constant');
	foreach my $row (@memory_rows)
	{
		my ($title, $name) = @$row;
		$text .= "| $title | "
		  . cells('%.0f',
			sub { $_[0]{idle}{memory}{$name} - $_[0]{connected}{memory}{$name} }, 'constant')
		  . " |\n";
	}
	$text .= "\n" . head('for each session', 'constant');
	foreach my $state ([ first => 'first lock' ], [ forming => 'queueing up' ],
		[ draining => 'from the first release to the last' ])
	{
		foreach my $row (@traffic_rows)
		{
			$text .= "| $state->[1]: $row->[0] | "
			  . cells('%.1f', sub { $_[0]{ $state->[0] }{ $row->[1] } }, 'constant') . " |\n";
		}
	}
	$text .= '| sessions that expired, of all | ' . cells('%d', sub { $_[0]{lost} }, 'constant')
	  . " |\n\n";
	$text .= "| a cycle of one session | session level | transaction level |\n|---|---|---|\n";
	foreach my $row (@traffic_rows)
	{
		$text .= sprintf "| %s | %.1f | %.1f |\n", $row->[0],
		  map { $cost->{$_}{ $row->[1] } } qw(session transaction);
	}
	return $text;
}

foreach my $count (@counts)
{
	progress("$count backends");
	my $world = BenchSizing->new(
		servers => $servers,
		backends => $count,
		timeout => $timeout);
	$states{$count} = $world->states($seconds);
	$cost = $world->cost;
	@machine = machine_facts($world);
	$world->end;
}
unlink $output;
append_to_file($output, text());
progress('done');
pass('all was measured');
done_testing();
