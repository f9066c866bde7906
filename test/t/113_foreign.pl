# S206: other extensions also act before the commit: postgres_fdw commits its remote
# transactions.  The veto comes before that, whichever was used first, and in every kind
# of commit.
#
# S207: a transaction in which a lock was lost is doomed until its end, whatever it
# does.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkLoss;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main');
my $node = zk_cluster('main', $ensemble, settings => { 'fsync' => 'off' });
my $options = sprintf "host '%s', port '%s', dbname 'remote'", $node->host, $node->port;

$node->safe_psql('postgres', 'CREATE DATABASE remote');
$node->safe_psql('remote', 'CREATE TABLE work (step text)');

create_lose($node);
$node->safe_psql(
	'postgres', qq(
	CREATE EXTENSION postgres_fdw;
	CREATE SERVER remote FOREIGN DATA WRAPPER postgres_fdw OPTIONS ($options);
	CREATE USER MAPPING FOR PUBLIC SERVER remote;
	CREATE FOREIGN TABLE far (step text) SERVER remote OPTIONS (table_name 'work');
	CREATE TABLE near (step text);
	CREATE TABLE deferred (step text);
	CREATE FUNCTION write_far() RETURNS trigger LANGUAGE plpgsql AS \$\$
	BEGIN
		INSERT INTO far VALUES (new.step);
		RETURN NULL;
	END \$\$;
	CREATE CONSTRAINT TRIGGER write_far AFTER INSERT ON deferred
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION write_far();
	CREATE PROCEDURE work_and_lose(step text) LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM zk_lock_acquire('/work');
		INSERT INTO far VALUES (step);
		INSERT INTO near VALUES (step);
		PERFORM lose('/work');
		COMMIT;
	END \$\$;
	CREATE FUNCTION work_and_lose_f(step text) RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM zk_lock_acquire('/work');
		INSERT INTO far VALUES (step);
		INSERT INTO near VALUES (step);
		PERFORM lose('/work');
	END \$\$));

my $eye = ZkPsql->new($node);

# In how many rows is that step here, and there?
sub rows
{
	my ($step) = @_;
	return $eye->ask("SELECT (SELECT count(*) FROM near WHERE step = '$step') ||"
		  . " (SELECT count(*) FROM deferred WHERE step = '$step')::text ||"
		  . " (SELECT count(*) FROM far WHERE step = '$step')", 'quiet');
}

# ---- S206: in a new backend each, so that the order of first use is that of the statements.

my $lock = "SELECT zk_lock_acquire('/work')";
my $far = "INSERT INTO far VALUES ('%s')";
my $near = "INSERT INTO near VALUES ('%s')";
my $lose = "SELECT lose('/work')";
my %order = (
	'lock first' => [ $lock, 'BEGIN', $far, $near, $lose, 'COMMIT' ],
	'foreign table first' => [ 'SELECT count(*) FROM far', $lock, 'BEGIN', $far, $near, $lose,
		'COMMIT' ],
	'all in one transaction' => [ 'BEGIN', $lock, $near, $far, $lose, 'COMMIT' ],
	'AND CHAIN' => [ 'BEGIN', $lock, $far, $near, $lose, 'COMMIT AND CHAIN', 'ROLLBACK' ],
	'implicit' => [ $lock, "SELECT work_and_lose_f('%s')" ],
	'procedure' => [ "CALL work_and_lose('%s')" ],
	'deferred trigger' => [ 'BEGIN', $lock, "INSERT INTO deferred VALUES ('%s')", $lose,
		'COMMIT' ],
	'lost before' => [ $lock, "BEGIN; $lose; ROLLBACK", $far ]);
foreach my $name (sort keys %order)
{
	my $session = ZkPsql->new($node);
	my $failed = '';
	foreach my $sql (@{ $order{$name} })
	{
		$session->ask($sql =~ s/%s/$name/r);
		$failed ||= $session->sqlstate;
	}
	is($failed, 'ZKL01', "S206: $name: the commit is refused");
	is(rows($name), '000', "S206: $name: neither the foreign row nor the local one is there");
	$session->quit;
}

# Without a loss both are, in a backend that has used the lock first.
my $session = ZkPsql->new($node);
$session->ask($_) foreach $lock, 'BEGIN', map({ s/%s/kept/r } $far, $near), 'COMMIT';
is($session->sqlstate, '', 'S206: a lock that is held prevents nothing');
is(rows('kept'), '101', 'S206: and both rows are there');
$session->ask('SELECT zk_lock_release_all()');

# A deferred trigger that is the first to use a foreign table, at the commit.
$session->quit;
$session = ZkPsql->new($node);
$session->ask($_) foreach 'BEGIN', $lock, "INSERT INTO deferred VALUES ('trigger')", 'COMMIT';
is(rows('trigger'), '011', 'S206: and both of a deferred trigger');
$session->ask('SELECT zk_lock_release_all()');

# ---- S207.  The lock is lost in the transaction, and this does not help.

my $fire = "'2026-01-02 03:04Z'";
my %doomed = (
	'release' => [ $lock, $lose, "SELECT zk_lock_release('/work')" ],
	'release all' => [ $lock, $lose, 'SELECT zk_lock_release_all()' ],
	'closing' => [ $lock, $lose, 'SELECT zk_session_close()' ],
	'closing with a lock of the transaction' =>
	  [ "SELECT zk_lock_acquire_xact('/work')", 'SELECT zk_session_close()' ],
	'reacquiring' => [ $lock, $lose, 'SAVEPOINT a', $lock, 'ROLLBACK TO a' ],
	'release and acquire' => [ $lock, $lose, "SELECT zk_lock_release('/work')",
		'SAVEPOINT a', $lock, 'ROLLBACK TO a' ],
	'release in a savepoint' => [ $lock, $lose, 'SAVEPOINT a',
		"SELECT zk_lock_release('/work')", 'ROLLBACK TO a' ],
	'rollback to before' => [ 'SAVEPOINT a', "SELECT zk_lock_acquire_xact('/work')", $lose,
		'ROLLBACK TO a' ],
	'rollback, not noticed before' => [ 'SAVEPOINT a', 'SAVEPOINT b',
		"SELECT zk_lock_acquire_xact('/work')", 'RELEASE b', $lose, 'ROLLBACK TO a', 'RELEASE a' ],
	'exception block' => [ $lock, $lose, q(DO $$ BEGIN BEGIN
			PERFORM zk_lock_release('/work'); RAISE 'x';
		EXCEPTION WHEN OTHERS THEN END; END $$) ],
	'end of a job' => [ "SELECT zk_job_begin('/work', $fire)", $lose, 'SAVEPOINT a',
		"SELECT zk_job_end('/work')", 'ROLLBACK TO a' ],
	'end of a job in a block' => [ "SELECT zk_job_begin('/work', $fire)", $lose, q(DO $$ BEGIN
			PERFORM zk_job_end('/work');
		EXCEPTION WHEN OTHERS THEN END $$) ],
	'permit' => [ "SELECT zk_semaphore_acquire('/work', 2)", $lose,
		"SELECT zk_semaphore_release('/work')" ],
	'discarding' => [ $lock, $lose, 'DISCARD TEMP', 'SELECT zk_lock_release_all()' ],
	'shared' => [ "SELECT zk_lock_acquire('/work', shared => true)", $lose,
		"SELECT zk_lock_release('/work', true)" ]);
foreach my $name (sort keys %doomed)
{
	foreach my $writes (1, 0)
	{
		$session->ask('BEGIN');
		$session->ask($writes ? "INSERT INTO near VALUES ('$name')" : 'SELECT count(*) FROM near');
		$session->ask($_) foreach @{ $doomed{$name} };
		$session->ask('COMMIT');
		like($session->errors, qr/ERROR: +ZKL01: (?:lock|semaphore) "\/work" was lost.*DETAIL: .*HINT: /s,
			"S207: $name: the commit is refused" . ($writes ? '' : ', with nothing written'));
		$session->ask('SELECT zk_lock_release_all()');
	}
	is(rows($name), '000', "S207: $name: nothing is there");
	$session->ask("INSERT INTO near VALUES ('after $name')");
	is(rows("after $name"), '100', "S207: $name: the next transaction commits");
}

# Of what was lost before the transaction it says nothing, as long as that has done nothing.
sub lost_before
{
	my ($name, $expected, @statements) = @_;
	$session->ask($lock);
	$session->ask("BEGIN; $lose; ROLLBACK");
	$session->ask($_) foreach @statements;
	is(rows($name), $expected, "S207: lost before, $name");
	$session->ask('ROLLBACK', 'quiet');
	$session->ask('SELECT zk_lock_release_all()');
	return;
}
my $release = "SELECT zk_lock_release('/work')";
lost_before('release, work', '100', 'BEGIN', $release, "INSERT INTO near VALUES ('release, work')",
	'COMMIT');
lost_before('acquire, work', '100', 'BEGIN', $lock, "INSERT INTO near VALUES ('acquire, work')",
	'COMMIT');
lost_before('work, release', '000', 'BEGIN', "INSERT INTO near VALUES ('work, release')", $release,
	'COMMIT');
lost_before('work, acquire', '000', 'BEGIN', "INSERT INTO near VALUES ('work, acquire')", $lock,
	'COMMIT');
lost_before('both in one', '000', "WITH w AS (INSERT INTO near VALUES ('both in one') RETURNING 1)"
	. " SELECT zk_lock_release('/work') FROM w");

# With another lock lost nothing is acquired that would be held after the failure.
$session->ask($lock);
$session->ask("BEGIN; $lose; ROLLBACK");
foreach my $sql ("SELECT zk_lock_acquire('/other')", "SELECT zk_job_begin('/other', $fire)",
	"SELECT zk_semaphore_acquire('/other', 2)", "SELECT zk_lock_acquire(ARRAY['/other', '/work'])",
	"CALL zk_lock_wait('/other')")
{
	my $both = $sql =~ /ARRAY/;
	$session->ask($sql);
	is($session->sqlstate, $both ? '' : 'ZKL01', "S207: with another lock lost: $sql");
	is(scalar $ensemble->queue('/other'), $both ? 1 : 0,
		'S207: ' . ($both ? 'acquires both' : 'leaves nothing behind'));
	next unless $both;
	$session->ask('SELECT zk_lock_release_all()');
	$session->ask($lock);
	$session->ask("BEGIN; $lose; ROLLBACK");
}
$session->ask('SELECT zk_lock_release_all()');

# With the guard off nothing is refused.
$session->ask("SET zklock.commit_guard = 'off'");
$session->ask($_) foreach 'BEGIN', $lock, "INSERT INTO near VALUES ('off')", $lose, $release, 'COMMIT';
is(rows('off'), '100', 'S207: without the guard it commits');

done_testing();
