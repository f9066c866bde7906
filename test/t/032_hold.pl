# Locks that stay held as they should: for a long time, whatever the backend does, and
# until the commit is visible.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(gave_up);

# No connection is given up because a machine is slow.
my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 20000);

# Commits take 20 ms, so that there is time to get in before their end.
my $node = zk_cluster('main', $ensemble,
	settings => {
		'zklock.session_timeout' => '10s',
		fsync => 'on',
		commit_delay => 20000,
		commit_siblings => 0
	});
my $session_row =
  'SELECT session_id, sessions, session_timeout FROM zk_session()';
my $reconnects = 'SELECT reconnects FROM zk_session()';

# ---- Held for several session timeouts (S110), while other things go on.

# The work of each backend.
my %work = (
	'idle' => 'SELECT 1',
	'computing' => q(
		DO $$ BEGIN
			WHILE clock_timestamp() < now() + interval '31 s' LOOP
			END LOOP;
		END $$),
	'asleep' => 'SELECT pg_sleep(31)');
my %session;
my %before;

foreach my $name (keys %work)
{
	$session{$name} = ZkPsql->new($node);
	$session{$name}->ask('BEGIN');
	$session{$name}->ask("SELECT zk_lock_acquire_xact('/long/$name')");
	$before{$name} = $session{$name}->ask($session_row);
}
$session{$_}->send($work{$_}) foreach keys %work;
$session{$_}->answer foreach keys %work;
foreach my $name (sort keys %work)
{
	is($session{$name}->ask('SELECT state FROM zk_locks'),
		'held', "S110: $name: the lease runs after three session timeouts");
	is($session{$name}->ask($session_row),
		$before{$name}, "S110: $name: in one session");
	ok($session{$name}->ask($reconnects) == 0 || slurp_file($node->logfile) =~
		  /\[${\$session{$name}->pid}\] .*closing connection to \S+: no response for/,
		"S110: $name: without a reconnect, unless the server said nothing for too long");
	$session{$name}->ask('COMMIT');
	is($session{$name}->errors, '', "S110: $name: and the commit succeeds");
	$session{$name}->quit;
}

# ---- No waiter gets the lock before the commit is visible (S27).

# Each step reads what is the last step and adds the next: a session that does not see
# a commit makes a number twice.
$node->safe_psql('postgres', 'CREATE TABLE step (counter text, n integer)');

my %script = (
	'read committed' => q(
		BEGIN ISOLATION LEVEL READ COMMITTED;
		SELECT zk_lock_acquire_xact('/step/rc');
		INSERT INTO step SELECT 'read committed', coalesce(max(n), 0) + 1
			FROM step WHERE counter = 'read committed';
		COMMIT;),

	# There the snapshot is as old as the statement that acquires the lock, and
	# so the lock has to be acquired in a transaction before.
	'repeatable read' => q(
		SELECT zk_lock_acquire('/step/rr');
		BEGIN ISOLATION LEVEL REPEATABLE READ;
		SELECT zk_lock_acquire_xact('/step/rr');
		SELECT zk_lock_release('/step/rr');
		INSERT INTO step SELECT 'repeatable read', coalesce(max(n), 0) + 1
			FROM step WHERE counter = 'repeatable read';
		COMMIT;));
my ($clients, $rounds) = (4, 25);

foreach my $level (sort keys %script)
{
	$node->pgbench(
		"--no-vacuum --client=$clients --transactions=$rounds --protocol=simple",
		0,
		[qr/processed: ${\($clients * $rounds)}\/${\($clients * $rounds)}/],
		[qr/^$/],
		"S27: $level: all of $clients clients finish",
		{ "032_hold_$level" =~ tr/ /_/r => $script{$level} });
	is( $node->safe_psql('postgres',
			"SELECT count(*), count(DISTINCT n), max(n) FROM step WHERE counter = '$level'"),
		join('|', ($clients * $rounds) x 3),
		"S27: $level: each sees what was committed before");
}

# The clients have gone without waiting for the ends of their backends.
my $none = sub { $ensemble->ephemeral_count == 0 };
eval { wait_for($none, 'the contenders to be deleted', 8) }
  or gave_up($node, 0) && wait_for($none, 'the contenders of a session to expire')
  or die 'contenders are left';
pass('no contender is left');
wait_for(sub { $ensemble->watch_count == 0 }, 'the watches to be removed', 8);
pass('and no watch');

done_testing();
