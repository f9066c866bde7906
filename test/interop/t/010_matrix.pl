# The two tables of doc/interop.md about who waits for whom when zklock and other
# programs use the same path: every cell, with the real clients.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use InteropClient;
use InteropProgram;

# A session timeout that is longer than any machine stands still; ticks bound it.
my $ensemble = ZkEnsemble->new('main', tick_time => 3000);
my $zk = $ensemble->zk;
my $node = zk_cluster('main', $ensemble,
	settings => { 'zklock.session_timeout' => '60s' });
my %programs = map { $_ => InteropProgram->new($_, $ensemble, $node) }
  qw(curator kazoo);

# A row of the tables: whose lock it is, and what kind.
my %rows = (
	'Curator: `InterProcessMutex`' => [ 'curator', 'mutex' ],
	'Curator: `LeaderSelector`' => [ 'curator', 'leader' ],
	'Curator: `InterProcessReadWriteLock`, write' => [ 'curator', 'write' ],
	'Curator: `InterProcessReadWriteLock`, read' => [ 'curator', 'read' ],
	'ZooKeeper: `WriteLock`' => [ 'curator', 'recipe' ],
	'kazoo: `Lock`' => [ 'kazoo', 'lock' ],
	'kazoo: `Lock`, `extra_lock_patterns`' => [ 'kazoo', 'extended' ],
	'kazoo: `CuratorLock`' => [ 'kazoo', 'named' ],
	'kazoo: `WriteLock`' => [ 'kazoo', 'write' ],
	'kazoo: `ReadLock`' => [ 'kazoo', 'read' ]);
my @styles = qw(curator curator_rw kazoo);
my @modes = qw(exclusive shared);

# The table whose first heading is this: a hash of rows, each by column.
sub table
{
	my ($corner) = @_;
	my (@rows, %table);
	my @lines = split /\n/, slurp_file('doc/interop.md');
	shift @lines while @lines && $lines[0] !~ /^\| \Q$corner\E \|/;
	while (@lines && $lines[0] =~ /^\|(.*)\|$/)
	{
		push @rows, [ map { s/^\s+|\s+$//gr } split /\|/, $1 ];
		shift @lines;
	}
	my ($headings, undef, @cells) = @rows or die "no table: $corner";
	my (undef, @columns) = @$headings;
	foreach my $row (@cells)
	{
		my ($name, @values) = @$row;
		@{ $table{$name} }{@columns} = @values;
	}
	return \%table;
}

# A table has exactly these columns for every row, and each cell says yes or no.
sub is_complete
{
	my ($corner, $table, @columns) = @_;
	my %found = map { $_ => [ sort keys %{ $table->{$_} } ] } keys %$table;
	is_deeply(
		\%found,
		{ map { $_ => [ sort @columns ] } keys %rows },
		"$corner everything is there");
	my @odd = grep { ($_ // '') !~ /^(?:yes|no)$/ } map { values %$_ } values %$table;
	is_deeply(\@odd, [], "$corner nothing but yes and no");
	return;
}

my $cells = 0;

# Does who comes wait for who holds?  If not, both hold the lock at once.
sub waits
{
	my ($comer, $holder) = @_;
	my $path = '/cell/' . ++$cells;
	$zk->make_path("/zklock$path");
	$holder->ask(acquire => $path);
	$comer->send(acquire => $path);
	wait_for(sub { $comer->answered || $ensemble->waiter_watch_count > 0 },
		$comer->name . ' to have the lock, or to wait');
	my $result = $comer->answered ? 'no' : 'yes';
	my @contenders = $ensemble->queue($path);
	$result = "@contenders" if @contenders != 2;
	$holder->ask(release => $path);
	$comer->answer;
	$comer->ask(release => $path);
	$ensemble->wait_for_queue($path, 0);
	return $result;
}

my $for_ours = table('Does it wait for ours?');
my $for_theirs = table('Does ours wait for it?');
my %ours;
foreach my $style (@styles)
{
	$ours{"`$style` $_"} = InteropClient->ours($node, $style, $_) foreach @modes;
}
is_complete('Does it wait for ours?', $for_ours, keys %ours);
is_complete('Does ours wait for it?', $for_theirs, @modes);

foreach my $row (sort keys %rows)
{
	my ($program, $kind) = @{ $rows{$row} };
	my $theirs = InteropClient->theirs($programs{$program}->session, $kind);
	foreach my $column (sort keys %ours)
	{
		my $mode = (split / /, $column)[1];
		is(waits($theirs, $ours{$column}),
			$for_ours->{$row}{$column},
			"S33: $row waits for $column: $for_ours->{$row}{$column}");
		is(waits($ours{$column}, $theirs),
			$for_theirs->{$row}{$mode},
			"S33: $column waits for $row: $for_theirs->{$row}{$mode}");
	}
}

$_->end foreach values %programs;
done_testing();
