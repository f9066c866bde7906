# doc/reference.md is complete, and names nothing that does not exist: functions, views
# and their columns, settings with their defaults, SQLSTATEs, wait events, and messages.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use DocMessages qw(pattern sources $string);
use DocPage;
use ZkEnsemble;

my $node = zk_cluster('main', '', settings => { shared_preload_libraries => 'zklock' });

# The rows of a query, as lists.
sub rows
{
	my ($query) = @_;
	return map { [ split /\t/, $_, -1 ] }
	  split /\n/, $node->safe_psql('postgres', $query, extra_params => [ '-F', "\t" ]);
}

# Both lists have the same members, in whatever order.
sub same_members
{
	my ($documented, $existing, $what) = @_;
	my %documented = map { $_ => 1 } @$documented;
	my %existing = map { $_ => 1 } @$existing;
	is_deeply([ grep { !$documented{$_} } sort keys %existing ],
		[], "$what: none is missing from the reference");
	is_deeply([ grep { !$existing{$_} } sort keys %documented ],
		[], "$what: none is there that does not exist");
	cmp_ok(scalar keys %existing, '>', 2, "$what: there are some");
	return;
}

# ---- The reference: its chapters, and the rows of their tables.

my $reference = DocPage->new('doc/reference.md');
my (%chapter, $heading);
foreach my $line ($reference->prose)
{
	$heading = $1 if $line->{text} =~ /^## (.*)$/;
	$chapter{ $heading // '' } .= $line->{text};
}

# The cells of the rows of a chapter of which the first one matches.
sub table
{
	my ($name, $first) = @_;
	my @rows;
	foreach (split /\n/, $chapter{$name} // '')
	{
		my @cells = /^\| (.*) \|$/ ? split / \| /, $1 : next;
		push @rows, \@cells if $cells[0] =~ $first;
	}
	return @rows;
}

# What is between backquotes in a text.
sub quoted
{
	my ($text) = @_;
	return $text =~ /`([^`\n]+)`/g;
}

# ---- Functions.

my $members = q{
	FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
		AND e.extname = 'zklock'};
my @functions = rows(
	"SELECT proname, pg_get_function_arguments(oid), lower(pg_get_function_result(oid)),"
	  . " coalesce((SELECT string_agg(name, ' ') FROM unnest(proargnames, proargmodes) a (name, mode)"
	  . " WHERE mode IN ('o', 'b', 't')), (SELECT string_agg(attname, ' ') FROM pg_attribute"
	  . " JOIN pg_class c ON attrelid = c.oid WHERE reltype = prorettype AND relkind = 'c' AND attnum > 0), '')"
	  . " FROM pg_proc WHERE oid IN (SELECT d.objid $members AND d.classid = 'pg_proc'::regclass)");
my @relations = rows(
	"SELECT relname, string_agg(attname, ' ') FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0"
	  . " WHERE c.oid IN (SELECT d.objid $members AND d.classid = 'pg_class'::regclass) AND relkind IN ('r', 'v')"
	  . ' GROUP BY relname');
my %is_relation = map { $_->[0] => 1 } @relations;
my @types = rows(
	"SELECT typname FROM pg_type WHERE oid IN (SELECT d.objid $members AND d.classid = 'pg_type'::regclass)");

# How the reference writes a function: name and arguments, and what it returns.
sub signature
{
	my ($function) = @_;
	my ($name, $arguments, $result) = @$function;
	my @in = grep { !/^OUT / } split /, /, $arguments;
	foreach (@in)
	{
		s/^(?:IN|INOUT) //;
		s/::\w+//;
		s/timestamp with time zone/timestamptz/;
	}
	return "$name(" . join(', ', @in) . ") $result";
}

same_members(
	[ map { "@{[ quoted($_->[0]) ]} @{[ quoted($_->[1]) ]}" } table('Functions', qr/^`\w+\(/) ],
	[ map { signature($_) } grep { !$is_relation{ $_->[0] } } @functions ],
	'functions, with arguments and results');

# ---- Views, and columns of both.

same_members([ $chapter{'Views and tables'} =~ /^\*\*`(\w+)`\*\*/mg ],
	[ keys %is_relation ], 'views and tables');
foreach my $part (split /^(?=\*\*`)/m, $chapter{'Views and tables'})
{
	my ($name) = $part =~ /^\*\*`(\w+)`\*\*/ or next;
	my ($relation) = grep { $_->[0] eq $name } @relations;
	same_members(
		[ map { quoted($_) } $part =~ /^\| (`.*?) \|/mg ],
		[ split ' ', $relation->[1] ],
		"columns of $name") if $relation;
}
my %column = map { $_ => 1 } map { quoted($_->[0]) } table('Functions', qr/^`\w+`/);
is_deeply(
	[
		grep { !$column{$_} } map { split ' ', $_->[3] }
		  grep { !$is_relation{ $_->[0] } } @functions
	],
	[],
	'columns that functions return: none is missing from the reference');

# ---- Settings.  One is in no view.

my $source = slurp_file('src/backend/zklock.c') . slurp_file('src/backend/tls_settings.c');
my @settings;
foreach my $name ($source =~ /(?:DefineCustom\w+Variable\(|\b(?:true|false), )"(zklock\.\w+)"/g)
{
	my ($row) = rows("SELECT boot_val, unit, context FROM pg_settings WHERE name = '$name'");
	my ($default, $unit, $context) = @{ $row // [ '', '', 'superuser' ] };
	($default) = @{ (rows("SELECT set_config('$name', '$default', true)"))[0] } if $unit eq 'ms';
	push @settings, join ' ', $name, $default eq '' ? 'empty' : $default, $context;
}
same_members(
	[
		map { join ' ', map { tr/`//dr } @{$_}[ 0 .. 2 ] } table('Settings', qr/^`zklock\./)
	],
	\@settings,
	'settings, with defaults and who may set them');
same_members(
	[ map { quoted($_->[0]) } table('Settings', qr/^`zklock\./) ],
	[
		'zklock.auth', map { @$_ } rows("SELECT name FROM pg_settings WHERE name LIKE 'zklock.%'")
	],
	'settings that the server knows');

# ---- SQLSTATEs.

my $sources = sources();
chomp(my $headers = `pg_config --includedir-server`);
my %state = slurp_file("$headers/utils/errcodes.h") =~
  /^#define (ERRCODE_\w+) MAKE_SQLSTATE\(('.',*'.',*'.',*'.',*'.')\)/mg;
tr/',//d foreach values %state;
$state{ERRCODE_ZK_LOCK_LOST} = 'ZKL01';
my %thrown = map { $_ => 1 } $sources =~ /\b(ERRCODE_\w+)/g;

# These come from functions of PostgreSQL that are called; and one is looked for only,
# when a backend is told to end.
my @foreign = qw(25006 40001 58P01);
delete $thrown{ERRCODE_ADMIN_SHUTDOWN};
same_members(
	[ map { quoted($_->[0]) } table('Errors', qr/^`/) ],
	[ @foreign, map { $state{$_} // $_ } keys %thrown ],
	'SQLSTATEs');

# ---- Wait events.

same_members(
	[ grep { /^ZooKeeper/ } quoted($chapter{'Wait events'}) ],
	[ $sources =~ /\] = "(ZooKeeper\w+)"/g ],
	'wait events');

# ---- Messages that are not errors.

# Every format is among these messages, and every message was made by one of them.
sub same_messages
{
	my ($messages, $formats, $what) = @_;
	my @patterns = map { pattern($_) } @$formats;
	is_deeply([ grep { my $p = $_; !grep { /^$p$/ } @$messages } @patterns ],
		[], "$what: none is missing from the reference");
	is_deeply([ grep { my $m = $_; !grep { $m =~ /^$_$/ } @patterns } @$messages ],
		[], "$what: none is there that does not exist");
	cmp_ok(scalar @patterns, '>', 0, "$what: there are some");
	return;
}

my %formats;
while ($sources =~ /\bereport\((LOG|WARNING|NOTICE)\w*,(.*?)\);\n/gs)
{
	my ($level, $report) = ($1, $2);
	push @{ $formats{$level} }, map { s/^"|"$//gr }
	  ($report =~ /\berrmsg(?:_internal)?\(($string)/g,
		$report =~ /\berrmsg_plural\(($string),\s*($string)/g);
}

# Those about a wait are in an array with a text for each mode; the reference has one for all.
push @{ $formats{LOG} }, map { s/(?:exclusive|shared) lock|a permit of semaphore/%s/r }
  $sources =~ /^\s+\[ZK_\w+\] = "(process (?:[^"\\]|\\.)*)"/mg;
foreach my $level (qw(LOG WARNING NOTICE))
{
	same_messages(
		[ map { quoted($_->[1]) } table('Messages in the log', qr/^`$level`$/) ],
		$formats{$level}, "messages of level $level");
}

# What is refused is the end of one line.
my @refusals = map { s/^"/"closing connection to %s: /r }
  $sources =~ /\b(?:refuse\(|snprintf\()why, (?:ZK_REPLY_WHY, )?($string)/g;
same_messages(
	[
		map { quoted($_->[0]) }
		  grep { $_->[0] !~ /^`(?:LOG|WARNING|NOTICE)`$/ }
		  table('Messages in the log', qr/^`/)
	],
	[
		grep { !/^%[.\d]*s$/ } map { s/^"|"$//gr }
		  ($sources =~ /\bzk_log\((?:true|false), ($string)/g, @refusals)
	],
	'lines of the client');

# ---- All pages: what is named there exists.

my %exists = map { $_ => 1 } (
	(map { $_->[0] } @functions, @relations, @types),
	(map { (split)[0] } @settings));
foreach my $page (DocPage->all)
{
	my $text = join '', map { $_->{text} } $page->prose;
	my @names = map { /\b(zk_\w+|pg_stat_zk\w+|zklock\.[a-z]\w+)/g } quoted($text);
	is_deeply([ grep { !$exists{$_} } @names ], [], $page->file . ': every name exists');
}

done_testing();
