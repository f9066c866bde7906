# One backend in long use: nothing accumulates, neither memory (S85), nor watches and
# contenders at the server (S92).
#
# Takes long: accumulation is slow.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(process_status);

# Empty lock nodes are to stay, so that znodes can be counted.
my $ensemble = ZkEnsemble->new('main',
	maxSessionTimeout => 60000,
	'java.znode.container.checkIntervalMs' => 3_600_000);
my $node = zk_cluster('main', $ensemble,
	settings => {
		'zklock.session_timeout' => '60s',
		log_statement => 'none'
	});
my $session = ZkPsql->new($node);
my $holder = ZkPsql->new($node);
my $pid = $session->pid;

# A lock taken and given back so many times, in each scope.
$session->ask(q{
	CREATE PROCEDURE cycles(count integer) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. count / 2 LOOP
			IF NOT zk_lock_acquire('/endurance/session')
				OR NOT zk_lock_release('/endurance/session') THEN
				RAISE 'cycle % failed', i;
			END IF;
		END LOOP;
		FOR i IN 1 .. count / 2 LOOP
			IF NOT zk_lock_acquire_xact('/endurance/xact') THEN
				RAISE 'cycle % failed', i;
			END IF;
			COMMIT;
		END LOOP;
	END $$});

# As many waits in vain, three of four without waiting at all.  The others are so
# short that the server may not have answered by then, which is an error; how many are
# is counted; the first one is made, so that the warm-up has loaded what that takes.  After
# each the next waits are somewhat longer: on a busy machine answers take longer.
$session->ask('CREATE SEQUENCE unanswered');
$session->ask(q{
	CREATE PROCEDURE waits(count integer) LANGUAGE plpgsql AS $$
	DECLARE
		patience interval := '5 ms';
	BEGIN
		BEGIN
			RAISE connection_failure;
		EXCEPTION WHEN connection_failure THEN
			PERFORM nextval('unanswered');
		END;
		FOR i IN 1 .. count / 4 LOOP
			IF zk_lock_acquire('/endurance/held', '0')
				OR zk_lock_acquire('/endurance/held', '0', true)
				OR zk_lock_acquire_xact('/endurance/held', '0', i % 2 = 1) THEN
				RAISE 'try % was granted', i;
			END IF;
			BEGIN
				IF zk_lock_acquire_xact('/endurance/held', patience, i % 2 = 0) THEN
					RAISE 'wait % was granted', i;
				END IF;
			EXCEPTION WHEN connection_failure THEN
				PERFORM nextval('unanswered');
				patience := least(patience * 1.2, '100 ms');
			END;
			COMMIT;
		END LOOP;
	END $$});

# How many descriptors the process has, besides those of PostgreSQL's data, of which it
# closes some from time to time.
sub descriptors
{
	my $data = $node->data_dir;
	return scalar grep { (readlink($_) // '') !~ m{^\Q$data\E/} } glob "/proc/$pid/fd/*";
}

# What must not grow: of the process, then at the server.
sub look
{
	# Neither a commit nor an error waits for the end of a contender.
	wait_for(
		sub {
			return $ensemble->queue('/endurance/xact') == 0
			  && $ensemble->queue('/endurance/held') <= 1;
		},
		'contenders that are not needed any more to go');
	my $contexts = $session->ask(
		'SELECT sum(used_bytes) / 1024 FROM pg_backend_memory_contexts');
	my %look = (
		memory => process_status($pid, 'RssAnon'),
		contexts => int $contexts,
		threads => process_status($pid, 'Threads'),
		descriptors => descriptors(),
		watches => $ensemble->watch_count,
		znodes => $ensemble->znode_count,
		contenders => $ensemble->ephemeral_count);
	note explain \%look;
	return \%look;
}

# Run a procedure for a part of its work at first, then for all of it, and
# compare.
sub endure
{
	my ($procedure, $count, $what) = @_;
	$session->ask("CALL $procedure($count / 20)");
	is($session->errors, '', "$what: warm-up");
	my $before = look();
	my $start = time;
	$session->send("CALL $procedure($count)");
	$session->answer(600);
	note sprintf '%s: %.1f s', $what, time - $start;
	is($session->errors, '', "$what: $count times");
	my $after = look();

	cmp_ok($after->{memory} - $before->{memory},
		'<', 256, "S85: $what: memory is flat");
	cmp_ok($after->{contexts} - $before->{contexts},
		'<', 64, "S85: $what: that of PostgreSQL, too");
	is($after->{$_}, $before->{$_}, "S92: $what: $_")
	  foreach qw(threads descriptors watches znodes contenders);
	return $after;
}

endure('cycles', 10_000, 'cycles');

is($holder->ask("SELECT zk_lock_acquire('/endurance/held')"),
	't', 'a session holds a lock');
my $end = endure('waits', 4_000, 'waits that time out');
is($end->{contenders}, 1, 'S92: the only contender is the holder\'s');
cmp_ok($end->{watches}, '<=', 2, 'S92: which one watch is for, and its own');
cmp_ok($session->ask('SELECT last_value FROM unanswered'),
	'<', 500, 'most waits end because another session has the lock');
is($session->zk_session->{sessions},
	1, 'all of this was in one ZooKeeper session');

$holder->ask("SELECT zk_lock_release('/endurance/held')");
is($ensemble->watch_count, 0, 'S92: when the holder goes, the watch does');
is($ensemble->ephemeral_count, 0, 'and nothing is left');
is($session->ask("SELECT zk_lock_acquire('/endurance/held', '0')"),
	't', 'the lock can be had');

done_testing();
