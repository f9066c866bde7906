# Logical replication of tables behind a fence (S163).  Replicated rows were written
# under the lock at their origin: so the trigger does not fire for them, and the
# subscriber's fence does not block them.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main');
my %node = map {
	$_ => zk_cluster(
		$_, $ensemble,
		allows_streaming => 'logical',
		settings => { wal_retrieve_retry_interval => '100ms' })
} qw(east west);
my ($east, $west) = @node{qw(east west)};

# Each table is written in one place and read in both.
my %writer = (eastern => $east, western => $west);
my %reader = (eastern => $west, western => $east);
foreach my $node ($east, $west)
{
	$node->safe_psql(
		'postgres', "CREATE TABLE $_ (step text PRIMARY KEY);
		CREATE TRIGGER fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON $_
			FOR EACH STATEMENT EXECUTE FUNCTION zk_lock_fence_trigger('/$_')")
	  foreach sort keys %writer;
}
my %session = (east => ZkPsql->new($east), west => ZkPsql->new($west));
my %here = (eastern => $session{east}, western => $session{west});
my %there = (eastern => $session{west}, western => $session{east});

sub subscribe
{
	my ($table) = @_;
	$writer{$table}->safe_psql('postgres', "CREATE PUBLICATION $table FOR TABLE $table");
	$reader{$table}->safe_psql('postgres',
		"CREATE SUBSCRIPTION $table CONNECTION '"
		  . $writer{$table}->connstr
		  . " dbname=postgres' PUBLICATION $table");
	$reader{$table}->poll_query_until('postgres',
		"SELECT srsubstate = 'r' FROM pg_subscription_rel WHERE srrelid = '$table'::regclass")
	  or die "timed out waiting for $table to be synchronized";
	return;
}

# Write under the lock, where the table is written.
sub write_step
{
	my ($table, $step) = @_;
	my $session = $here{$table};
	$session->ask("BEGIN; SELECT zk_lock_acquire_xact('/$table');"
		  . " INSERT INTO $table VALUES ('$step'); COMMIT");
	is($session->errors, '', "$step is written to $table");
	return;
}

# Both sides have the same in a table.
sub same
{
	my ($table, $what) = @_;
	$writer{$table}->wait_for_catchup($table);
	is($reader{$table}->safe_psql('postgres', "TABLE $table ORDER BY step"),
		$writer{$table}->safe_psql('postgres', "TABLE $table ORDER BY step"), $what);
	return;
}

sub fences
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		"SELECT string_agg(path, ' ' ORDER BY path) FROM zk_lock_fences");
}

# ---- Both ways at once.

write_step($_, 'before') foreach sort keys %writer;
subscribe($_) foreach sort keys %writer;
same($_, "S163: $_: the first copy needs no lock") foreach sort keys %writer;
foreach my $table (sort keys %writer)
{
	write_step($table, 'one');
	write_step($table, 'two');
}
same($_, "S163: $_: and later changes need none, either") foreach sort keys %writer;
is(fences($east), '/eastern', 'S163: each side has the fences of its own writers');
is(fences($west), '/western', 'and the other has its');

# ---- A fence of another session on the subscriber.

write_step('eastern', 'three');
my $keeper = $there{eastern};
$west->safe_psql('postgres', 'ALTER SUBSCRIPTION eastern DISABLE');
$west->poll_query_until('postgres',
	"SELECT pid IS NULL FROM pg_stat_subscription WHERE subname = 'eastern'")
  or die 'timed out waiting for the worker to end';
write_step('eastern', 'four');
$keeper->ask("BEGIN; SELECT zk_lock_acquire_xact('/eastern'), zk_lock_fence('/eastern')");
is($keeper->errors, '', 'a session holds the fence on the subscriber');
$west->safe_psql('postgres', 'ALTER SUBSCRIPTION eastern ENABLE');
same('eastern', 'S163: applied changes do not wait for it');
$keeper->ask("INSERT INTO eastern VALUES ('five')");
is($keeper->errors, '', 'S163: the holder of the lock there can write there, too');
$keeper->ask('ROLLBACK');
$keeper->ask("INSERT INTO eastern VALUES ('six')");
is($keeper->sqlstate, '55000', 'S163: and a session without it cannot');

# ---- A trigger that is to fire always: what is applied row by row fires none for a
# statement, but TRUNCATE and a first copy do, and the worker holds no lock.

my $log_start = -s $west->logfile;
$west->safe_psql('postgres', 'ALTER TABLE eastern ENABLE ALWAYS TRIGGER fence');
write_step('eastern', 'seven');
same('eastern', 'S163: ENABLE ALWAYS: rows are applied');
$here{eastern}->ask(
	"BEGIN; SELECT zk_lock_acquire_xact('/eastern'); TRUNCATE eastern; COMMIT");
is($here{eastern}->errors, '', 'the table is emptied');
wait_for(
	sub {
		slurp_file($west->logfile, $log_start) =~ /without holding lock "\/eastern"/;
	},
	'the worker to be stopped',
	120);
pass('S163: ENABLE ALWAYS: TRUNCATE stops the worker');
write_step('western', 'eight');
same('western', 'S163: and nothing else');
$west->safe_psql('postgres', 'ALTER TABLE eastern ENABLE TRIGGER fence');
write_step('eastern', 'nine');
same('eastern', 'S163: enabled like others it does not fire, and the worker continues');

# ---- All tables, and then the other server takes over: the fences have come along.

foreach my $table (sort keys %writer)
{
	$reader{$table}->safe_psql('postgres', "DROP SUBSCRIPTION $table");
}
$_->safe_psql('postgres', 'CREATE DATABASE whole') foreach ($east, $west);
$_->safe_psql(
	'whole', q{
	CREATE EXTENSION zklock;
	CREATE TABLE moved (step text PRIMARY KEY);
	CREATE TRIGGER fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON moved
		FOR EACH STATEMENT EXECUTE FUNCTION zk_lock_fence_trigger('/moved');})
  foreach ($east, $west);
$east->safe_psql('whole', 'CREATE PUBLICATION whole FOR ALL TABLES');
$west->safe_psql('whole',
	"CREATE SUBSCRIPTION whole CONNECTION '"
	  . $east->connstr
	  . " dbname=whole' PUBLICATION whole");
my $move = q{
	SELECT zk_lock_acquire('/moved');
	INSERT INTO moved VALUES ('%s');
	SELECT zk_lock_release('/moved');};
$east->safe_psql('whole', sprintf $move, $_) foreach ('a', 'b');
$west->poll_query_until('whole',
	"SELECT count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel")
  or die 'timed out waiting for the tables to be synchronized';
$east->wait_for_catchup('whole');
my $fence = 'SELECT path, token FROM zk_lock_fences';
is($west->safe_psql('whole', $fence),
	$east->safe_psql('whole', $fence), 'S163: all tables: so are the fences');
$west->safe_psql('whole', 'DROP SUBSCRIPTION whole');
my $token = $west->safe_psql('whole', 'SELECT token FROM zk_lock_fences');
$west->safe_psql('whole', sprintf $move, 'c');
is($west->safe_psql('whole', 'TABLE moved ORDER BY step'),
	"a\nb\nc", 'S163: the next holder writes on the other server');
cmp_ok($west->safe_psql('whole', 'SELECT token FROM zk_lock_fences'),
	'>', $token, 'with a newer token');

# ---- All tables, while both servers fence one lock: not so.

my $pass = q{
	SELECT zk_lock_acquire('/both');
	SELECT zk_lock_fence('/both');
	SELECT zk_lock_release('/both');};
foreach my $node ($east, $west)
{
	$node->safe_psql('postgres', 'CREATE DATABASE both_sides');
	$node->safe_psql('both_sides', "CREATE EXTENSION zklock; $pass");
}
$east->safe_psql('both_sides', 'CREATE PUBLICATION both_sides FOR ALL TABLES');
$log_start = -s $west->logfile;
$west->safe_psql('both_sides',
	"CREATE SUBSCRIPTION both_sides CONNECTION '"
	  . $east->connstr
	  . " dbname=both_sides' PUBLICATION both_sides");
wait_for(
	sub {
		slurp_file($west->logfile, $log_start) =~
		  /duplicate key value violates unique constraint "zk_lock_fences_pkey"/;
	},
	'the worker to be stopped',
	120);
pass('S163: all tables, both ways: a fence of both stops the worker');
$west->safe_psql('both_sides', q{SELECT zk_lock_fence_reset('/both')});
$west->poll_query_until('both_sides',
	q{SELECT count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel})
  or die 'timed out waiting for the fences to be copied';
is($west->safe_psql('both_sides', $fence),
	$east->safe_psql('both_sides', $fence), 'S163: without its own it takes the other one');
$west->safe_psql('both_sides', 'ALTER SUBSCRIPTION both_sides DISABLE');
$west->poll_query_until('both_sides',
	q{SELECT pid IS NULL FROM pg_stat_subscription WHERE subname = 'both_sides'})
  or die 'timed out waiting for the worker to end';
$_->safe_psql('both_sides', $pass) foreach ($east, $west);
isnt(
	$west->safe_psql('both_sides', $fence),
	$east->safe_psql('both_sides', $fence),
	'one after the other they pass the fence');
$west->safe_psql('both_sides', 'ALTER SUBSCRIPTION both_sides ENABLE');
$east->wait_for_catchup('both_sides');
is($west->safe_psql('both_sides', $fence),
	$east->safe_psql('both_sides', $fence),
	'S163: and the fence goes back to the older token');

done_testing();
