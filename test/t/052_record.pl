# The record of a lock: its contents, and that it costs no round trip, counted in
# requests to the server.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

# Pings and renewals are no part of what is counted; with a session timeout as
# long as this there are none of the latter: a quarter of it is longer than the test.
# Lock nodes stay, though they are empty between locks.
my $ensemble = ZkEnsemble->new('main',
	maxSessionTimeout => 1_200_000,
	'java.znode.container.checkIntervalMs' => 3_600_000);
my $proxy = $ensemble->proxy;
my $node = zk_cluster('main', $proxy,
	settings => { 'zklock.session_timeout' => '20min', autovacuum => 'off' });
my $zk = $ensemble->zk;
$node->safe_psql('postgres', 'CREATE TABLE work (step int)');
my $system = $node->safe_psql('postgres',
	'SELECT system_identifier FROM pg_control_system()');

# What came through the proxy since the last look, as text.
sub cost { return $proxy->cost(qr/^(ping|event)$/, @_); }

# What one statement costs, which has to return this.
sub cost_of
{
	my ($session, $sql, $answer) = @_;
	cost();
	is($session->ask($sql), $answer, $sql);
	return cost();
}

# What an acquire costs; the release follows.  Of many tries the cheapest, as a
# lock that is held for longer than a moment has a watch set on its contender.
sub cost_of_acquire
{
	my ($session, $paths) = @_;
	my @costs;
	foreach (1 .. 20)
	{
		push @costs, cost_of($session, "SELECT zk_lock_acquire($paths)", 't');
		$session->ask('SELECT zk_lock_release_all()');
	}
	return (sort @costs)[0];
}

# The lines of a lock's record; empty if there is none.
sub record
{
	my ($path) = @_;
	my $znode = "/zklock/.zklock/records$path";
	return '' unless $zk->stat($znode);
	return $zk->get($znode);
}

my $holder = ZkPsql->new($node, 'zklock.servers' => $ensemble->connect_string);
my $session = ZkPsql->new($node);

# ---- Locks without a record cost nothing for it.

$session->ask("SELECT zk_lock_acquire('/plain')");
$session->ask("SELECT zk_lock_release('/plain')");
is(cost_of_acquire($session, "'/plain'"),
	'create2=1 getChildren=1', 'without hand-over nothing is read');
$session->ask("SELECT zk_lock_acquire('/plain')");
$session->ask('INSERT INTO work VALUES (0)');
like(cost_of($session, "SELECT zk_lock_release('/plain')", 't'),
	qr/^delete=1( getData=1)?$/, 'and nothing written');
ok(!$zk->stat('/zklock/.zklock'), 'S93: no znode is left for records');

# ---- Session scope.

$session->ask('SET zklock.handover = on');
$session->ask("SELECT zk_lock_acquire('/a/b')");
is(record('/a/b'), '', 'a lock has no record at first');
my $token = $session->ask("SELECT zk_lock_token('/a/b')");
my ($contender) = $ensemble->queue('/a/b');
$session->ask('INSERT INTO work VALUES (1)');
my $committed = $session->ask('SELECT pg_current_wal_lsn()');
is($session->ask("SELECT zk_lock_release('/a/b')"), 't', 'the first release');
is($session->errors, '', 'makes it without a word');
like(record('/a/b'), qr/\Azklock record 1\nrelease $token \Q$contender\E\nposition $system 1 [0-9A-F]+\n\z/,
	'it tells the release and how far the WAL went');
ok( $session->ask(
		sprintf "SELECT '%s'::pg_lsn >= '%s'",
		record('/a/b') =~ /position \d+ 1 (\w{1,8})$/m ? "0/$1" : '0/0',
		$committed) eq 't',
	'which is to the end of the last commit');

is(cost_of_acquire($session, "'/a/b'"),
	'create2=1 getChildren=1 getData=1', 'an acquire sends three requests');
$session->ask("SELECT zk_lock_acquire('/a/b')");
like(cost_of($session, "SELECT zk_lock_release('/a/b')", 't'),
	qr/^(getData=1 )?multi=1$/, 'a release sends one');

# All of an acquire is on its way before the first is answered.
cost();
$proxy->trap('hold_reply', 'create2',
	sub { $session->send("SELECT zk_lock_acquire('/a/b')") });
is(cost('getData', 1), 'create2=1 getChildren=1 getData=1',
	'create, list and get are sent without waiting in between');
ok(!$session->answered, 'the acquire waits for the answer');
$proxy->pass;
is($session->answer, 't', 'and then has the lock');
like(cost(), qr/^(getData=1)?$/, 'without a second list, or create');
$session->ask("SELECT zk_lock_release('/a/b')");

# The lock is not had before the record is read.
$proxy->trap('hold_reply', 'getData',
	sub { $session->send("SELECT zk_lock_acquire('/a/b')") });
ok(!$session->answered, 'the acquire waits for the record');
$proxy->pass;
is($session->answer, 't', 'and then has the lock');
$session->ask("SELECT zk_lock_release('/a/b')");

# ---- Transaction scope.

$session->ask('BEGIN');
$session->ask("SELECT zk_lock_acquire_xact('/a/b')");
$session->ask('INSERT INTO work VALUES (2)');
my $before = record('/a/b');
cost();
$proxy->trap('hold_reply', 'multi', sub { $session->ask('COMMIT') });
is($session->errors, '', 'a commit returns');
like(cost('multi', 1), qr/^(getData=1 )?multi=1$/,
	'while the answer to its one request is held');
$ensemble->wait_for_queue('/a/b', 0);
isnt(record('/a/b'), $before, 'which has written the record');
$proxy->pass;

$before = record('/a/b') =~ s/^release.*\n//mr;
$session->ask('BEGIN');
$session->ask("SELECT zk_lock_acquire_xact('/a/b')");
$session->ask('INSERT INTO work VALUES (3)');
$session->ask('ROLLBACK');
$ensemble->wait_for_queue('/a/b', 0);
is(record('/a/b') =~ s/^release.*\n//mr, $before,
	'a rollback leaves what was committed before it');

# ---- A waiter.

$holder->ask('SET zklock.handover = on');
$holder->ask("SELECT zk_lock_acquire('/a/b')");
cost();
$session->send("SELECT zk_lock_acquire('/a/b')");
$ensemble->wait_for_queue('/a/b', 2);
wait_for(
	sub { $ensemble->waiter_watch_count > 0 && $ensemble->own_watch_count == 2 },
	'the watches');
$holder->ask("SELECT zk_lock_verify('/a/b')");
is(cost(), 'create2=1 getChildren=1 getData=3',
	'a waiter sends one request more than without a record');
$holder->ask("SELECT zk_lock_release('/a/b')");
is($session->answer, 't', 'it gets the lock');
is(cost(), 'getData=1', 'and reads the record again for that');
$session->ask("SELECT zk_lock_release('/a/b')");

# ---- Several locks, a downgrade, a loss.

$session->ask("SELECT zk_lock_acquire('{/s/1,/s/2}'::text[])");
$session->ask('SELECT zk_lock_release_all()');
is(cost_of_acquire($session, "'{/s/1,/s/2}'::text[]"),
	'getChildren=2 getData=2 multi=1',
	'several locks: a list and a get for each, in one go');
$session->ask("SELECT zk_lock_acquire('{/s/1,/s/2}'::text[])");
like(cost_of($session, 'SELECT zk_lock_release_all()', 2),
	qr/^(getData=\d )?multi=2$/, 'and a release for each');
like(record('/s/2'), qr/^position $system/m, 'each has its record');

$session->ask("SELECT zk_lock_acquire('/down')");
$session->ask("SELECT zk_lock_acquire('/down', shared => true)");
$session->ask('INSERT INTO work VALUES (4)');
$session->ask("SELECT zk_lock_release('/down', false)");
wait_for(sub { record('/down') =~ /^position $system/m }, 'the record');
is(scalar(my @queue = $ensemble->queue('/down')),
	1, 'a downgrade writes the record, and the shared lock is held');
$session->ask("SELECT zk_lock_release('/down')");

$session->ask("SELECT zk_lock_acquire('/lost')");
$zk->deleteall('/zklock/lost');
$session->ask("SELECT zk_lock_verify('/lost')");
is($session->sqlstate, 'ZKL01', 'a lock is lost');
$session->ask("SELECT zk_lock_release('/lost')");
is(record('/lost'), '', 'and leaves no record');

# ---- Who goes without a release leaves it, too.  An exit does not wait for long, which
# may be too short on a busy machine: not always.

my $left = '';
for (my $try = 1; $left !~ /^position/m && $try <= 10; $try++)
{
	my $leaver = ZkPsql->new($node,
		'zklock.servers' => $ensemble->connect_string,
		'zklock.session_timeout' => '10s',
		'zklock.handover' => 'on');
	$leaver->ask("SELECT zk_lock_acquire('/exit')");
	$leaver->ask('INSERT INTO work VALUES (5)');
	$leaver->quit;
	$ensemble->wait_for_queue('/exit', 0);
	$left = record('/exit');
}
like($left, qr/^position $system/m, 'so does a backend that exits');
$session->ask("SELECT zk_lock_acquire('/close')");
$session->ask('SELECT zk_session_close()');
like(record('/close'), qr/^position $system/m, 'or closes its ZooKeeper session');
$session->ask("SELECT zk_lock_acquire('/discard')");
$session->ask('DISCARD ALL');
$ensemble->wait_for_queue('/discard', 0);
like(record('/discard'), qr/^position $system/m, 'or discards all');

# ---- What may not be written, or is none.

$zk->set('/zklock/.zklock/records/a/b', 'nonsense');
$session->ask('SET zklock.handover = on');
is($session->ask("SELECT zk_lock_acquire('/a/b')"), 't',
	'a record that is none counts as empty');
is($session->errors, '', 'without a word');
$zk->set_acl('/zklock/.zklock/records/a/b', 'world:anyone:r');
is($session->ask("SELECT zk_lock_release('/a/b')"), 't',
	'a record that may not be written does not prevent a release');
like($session->errors, qr/WARNING: .*could not write to the record of lock "\/a\/b"/,
	'with a warning');
is($ensemble->queue('/a/b') + 0, 0, 'the contender is gone');

done_testing();
