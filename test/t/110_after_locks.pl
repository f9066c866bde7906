# S200: a transaction-level lock is released after everything that PostgreSQL itself
# holds for the transaction.  So the next holder meets no row, table or advisory lock of
# the last one, and sees its current catalog.
#
# The holder creates many tables, so that releasing everything takes a while.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $tables = 500;
my $rounds = 3;

my $ensemble = ZkEnsemble->new('main');
my $node = zk_cluster('main', $ensemble,
	settings => { 'max_locks_per_transaction' => 256, 'fsync' => 'off' });
$node->safe_psql(
	'postgres', qq(
	CREATE TABLE shared (n integer);
	INSERT INTO shared VALUES (0);
	CREATE PROCEDURE make(prefix text) LANGUAGE plpgsql AS \$\$
	BEGIN
		FOR i IN 1..$tables LOOP
			EXECUTE format('CREATE TABLE %I (n integer)', prefix || i);
		END LOOP;
		LOCK TABLE shared;
		UPDATE shared SET n = n + 1;
		PERFORM pg_advisory_xact_lock(1);
	END \$\$;
	CREATE FUNCTION take_over() RETURNS text LANGUAGE plpgsql AS \$\$
	DECLARE
		seen text := '';
	BEGIN
		PERFORM zk_lock_acquire_xact('/after');
		seen := seen || pg_try_advisory_xact_lock(1);
		LOCK TABLE shared NOWAIT;
		seen := seen || ', ' || (SELECT n FROM shared FOR UPDATE NOWAIT);
		RETURN seen;
	END \$\$));

my $holder = ZkPsql->new($node);
my $next = ZkPsql->new($node);
$_->ask('SELECT zk_lock_release_all()', 'quiet') foreach $holder, $next;

# The next one waits while the holder works, and goes on at once when that has ended.
sub hand_over
{
	my ($prefix, $end, $expected, $what, @before) = @_;
	$holder->ask('BEGIN');
	$holder->ask($_) foreach @before;
	is($holder->ask("SELECT zk_lock_acquire_xact('/after')"), 't', "$what: held");
	$holder->ask("CALL make('$prefix')");
	is($holder->sqlstate, '', "$what: and worked under");
	$next->send('SELECT take_over()');
	$ensemble->wait_for_queue('/after', 2);
	$holder->ask($end);
	is($next->answer, "true, $expected", "S200: $what: nothing obstructs the next");
	$holder->ask('ROLLBACK', 'quiet') unless $end eq 'COMMIT';
	return;
}

foreach my $round (1 .. $rounds)
{
	hand_over("c${round}_", 'COMMIT', $round, "commit $round");
	hand_over("r${round}_", 'ROLLBACK', $round, "rollback $round");
	hand_over("s${round}_", 'ROLLBACK TO a', $round, "savepoint $round", 'SAVEPOINT a');
}

$ensemble->wait_for_queue('/after', 0);
pass('and nothing is left behind');

done_testing();
