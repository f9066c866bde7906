# Locks without proof: the holder detects that by its clock, before another client can
# hold them, without any message.  Locks that other clients take away: the holder
# detects that with the next proof.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;

# So long session timeouts that a machine that stands still for a moment between the loss
# of a lock and its next holder does not matter.
my $ensemble = ZkEnsemble->new('main',
	minSessionTimeout => 8000, maxSessionTimeout => 15000);
my $zk = $ensemble->zk;
my $proxy = $ensemble->proxy;
my $node = zk_cluster('holder', $proxy,
	settings => { 'zklock.session_timeout' => '15s' });
my $rival_node = zk_cluster('rival', $ensemble);

$node->safe_psql('postgres', 'CREATE TABLE work (step text)');

my $rival = ZkPsql->new($rival_node);

# Was this step committed?
sub committed
{
	my ($step) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM work WHERE step = '$step'");
}

# Let the rival wait for a lock, and say when it has it.
sub wait_behind
{
	my ($path) = @_;
	$rival->send_timed("zk_lock_acquire('$path')");
	$ensemble->wait_for_queue($path, 2);
	return;
}

# ---- A partition: nothing comes any more (S7).

my $holder = ZkPsql->new($node);
$holder->ask("SELECT zk_lock_acquire('/parted')");
wait_behind('/parted');
$proxy->freeze;
my $last_held = $holder->last_held;
my ($granted, $granted_at) = $rival->answer_timed;
is($granted, 't', 'the rival does hold it then');
cmp_ok($last_held, '<', $granted_at,
	'S7: parted from ZooKeeper, the holder reports the lock lost before the rival holds it'
);
is($holder->zk_session->{state},
	'suspended', 'while the holder has not heard of it');
$holder->ask("INSERT INTO work VALUES ('parted')");
is($holder->sqlstate, 'ZKL01', 'and cannot commit');
$proxy->pass;
wait_for(
	sub { $holder->zk_session->{state} ne 'suspended' },
	'the holder to hear that its session has expired');
is($holder->lock_state('/parted'), 'lost', 'with a connection it is lost still');
is($holder->ask("SELECT zk_lock_release_all()"),
	0, 'releasing everything counts no contender');
like($holder->errors, qr/^WARNING: +ZKL01: +lock "\/parted" was already lost/m,
	'and warns');
is(committed('parted'), 0, 'nothing was committed');
$rival->ask("SELECT zk_lock_release('/parted')");

# A partition that is over before the session is: lost remains lost, and what
# is left over goes without the backend's doing.  If the machine stands still in
# between, the session may expire all the same; then once more.
my ($patient, $contender, $before, $there, $after);
foreach (1 .. 5)
{
	$patient->quit if $patient;
	$patient = ZkPsql->new($node);
	$patient->ask("SELECT zk_lock_acquire('/sticky')");
	($contender) = $ensemble->queue('/sticky');
	$before = $patient->zk_session;
	$proxy->freeze;
	$patient->wait_until_lost('/sticky');
	$there = $zk->stat("/zklock/sticky/$contender");
	$proxy->pass;
	$ensemble->wait_for_queue('/sticky', 0);
	$after = $patient->zk_session;
	last if $there && $after->{session_id} eq $before->{session_id};
}
ok($there, 'the lock is lost while the contender is there');
is($after->{session_id}, $before->{session_id},
	'it is deleted, and the session continues');
# One at least: on a busy machine that may take a second try.
cmp_ok($after->{reconnects}, '>', $before->{reconnects}, 'after a reconnect');
is($patient->lock_state('/sticky'), 'lost', 'lost is sticky');
$patient->ask("INSERT INTO work VALUES ('sticky')");
is($patient->sqlstate, 'ZKL01', 'the commit fails with a connection, too');
is($patient->ask("SELECT zk_lock_acquire('/sticky')"),
	't', 'the lock can be acquired again');
isnt(($ensemble->queue('/sticky'))[0],
	$contender, 'which is another contender');
is($patient->ask("INSERT INTO work VALUES ('again') RETURNING 1"),
	1, 'and then commits succeed');
$patient->quit;

# ---- The timeout that counts is the negotiated one (S8).

foreach ([ '1min', '00:00:15' ], [ '1s', '00:00:08' ])
{
	my ($asked, $negotiated) = @$_;
	my $session = ZkPsql->new($node, 'zklock.session_timeout' => $asked);
	my ($timeout) = $negotiated =~ /(\d+)$/;

	$session->ask("SELECT zk_lock_acquire('/negotiated')");
	is($session->zk_session->{session_timeout},
		$negotiated, "asked for $asked, the servers give $negotiated");
	wait_behind('/negotiated');
	my $start = time;
	$session->ask("SELECT zk_lock_verify('/negotiated')");
	$proxy->freeze;
	$last_held = $session->last_held;
	my $took = time - $start;

	# Less than two thirds, if it took long since the leader had heard of the session.
	cmp_ok($took, '>', $timeout / 3, "S8: $asked: not before its time");
	$proxy->pass;
	($granted, $granted_at) = $rival->answer_timed;
	is($granted, 't', 'the rival gets it');
	cmp_ok($last_held, '<', $granted_at, "S8: $asked: lost before the rival holds it");
	$rival->ask("SELECT zk_lock_release_all()");
	$session->quit;
}

# ---- The contender is taken away (S10).

$holder->ask("SELECT zk_lock_acquire('/deleted')");
$rival->send("SELECT zk_lock_acquire('/deleted')");
$ensemble->wait_for_queue('/deleted', 2);
($contender) = $holder->ask('SELECT contender FROM zk_locks');
ok($zk->delete("/zklock/deleted/$contender"),
	'S10: an administrator deletes the contender');
is($rival->answer, 't', 'the next in the queue acquires immediately');
$holder->ask("SELECT zk_lock_verify('/deleted')");
is($holder->sqlstate, 'ZKL01', 'zk_lock_verify says that the lock was lost');
like($holder->errors, qr/Another client deleted its contender/, 'and why');
$holder->ask("SELECT zk_lock_release_all()");
$rival->ask("SELECT zk_lock_release_all()");

$holder->ask('BEGIN');
$holder->ask("SELECT zk_lock_acquire_xact('/deleted')");
$holder->ask("INSERT INTO work VALUES ('deleted')");
$zk->delete('/zklock/deleted/' . ($ensemble->queue('/deleted'))[0]);
wait_for(
	sub { $holder->ask("SELECT state FROM zk_locks") eq 'lost' },
	'the renewal to notice');
$holder->ask('COMMIT');
is($holder->sqlstate, 'ZKL01', 'S10: the renewal notices, and the commit fails');
is(committed('deleted'), 0, 'nothing was committed');

# S11: the whole queue is deleted, and begins again at number 0.
$holder->ask("SELECT zk_lock_acquire('/tree/lock')");
my ($first) = $ensemble->queue('/tree/lock');
$zk->deleteall('/zklock/tree');
is($rival->ask("SELECT zk_lock_acquire('/tree/lock')"),
	't', 'S11: a rival acquires in the new lock node');
my ($second) = $ensemble->queue('/tree/lock');
is(substr($second, -10), substr($first, -10), 'with the same number');
$holder->ask("SELECT zk_lock_verify('/tree/lock')");
is($holder->sqlstate, 'ZKL01', 'S11: the old holder is not fooled by that');
$holder->ask("SELECT zk_lock_release('/tree/lock')");
is_deeply([ $ensemble->queue('/tree/lock') ],
	[$second], 'and it does not delete a contender of another session');
$rival->ask("SELECT zk_lock_release_all()");

# ---- Transaction scope and savepoints.

$holder->ask('BEGIN');
$holder->ask("INSERT INTO work VALUES ('before the savepoint')");
$holder->ask('SAVEPOINT a');
$holder->ask("SELECT zk_lock_acquire_xact('/savepoint')");
$holder->ask("INSERT INTO work VALUES ('after the savepoint')");
$zk->deleteall('/zklock/savepoint');
$holder->ask("SELECT zk_lock_verify('/savepoint')");
is($holder->sqlstate, 'ZKL01', 'a lock is lost in a subtransaction');
$holder->ask('ROLLBACK TO a');
$holder->ask('COMMIT');
like($holder->errors, qr/ZKL01: +lock "\/savepoint" was lost in this transaction/,
	'rolling back to before it was acquired does not make up for the loss');
is(committed('before the savepoint') . committed('after the savepoint'),
	'00', 'nothing of the transaction was committed');

$holder->ask('BEGIN');
$holder->ask('SAVEPOINT a');
$holder->ask("SELECT zk_lock_acquire_xact('/savepoint')");
$holder->ask("INSERT INTO work VALUES ('released savepoint')");
$zk->deleteall('/zklock/savepoint');
wait_for(
	sub { $holder->ask('SELECT state FROM zk_locks') eq 'lost' },
	'the lock to be lost');
$holder->ask('RELEASE a');
$holder->ask('COMMIT');
is($holder->sqlstate, 'ZKL01',
	'releasing the savepoint hands the loss to the transaction');
is(committed('released savepoint'), 0, 'nothing was committed');

$holder->ask('BEGIN');
$holder->ask("SELECT zk_lock_acquire_xact('/savepoint')");
$holder->ask('SAVEPOINT a');
$zk->deleteall('/zklock/savepoint');
$holder->ask("SELECT zk_lock_verify('/savepoint')");
$holder->ask('ROLLBACK TO a');
$holder->ask("SELECT zk_lock_acquire_xact('/savepoint')");
is($holder->sqlstate, 'ZKL01',
	'a transaction cannot acquire again what it has lost');
$holder->ask('ROLLBACK TO a');
$holder->ask('COMMIT');
is($holder->sqlstate, 'ZKL01',
	'and a rollback to a later savepoint does not undo a loss');
is($holder->ask("SELECT count(*) FROM zk_locks"),
	0, 'with the transaction the loss is over');

# ---- The session is ended from outside, repeatedly (S1, S76).

foreach my $round (1 .. 5)
{
	$holder->ask("SELECT zk_lock_acquire('/expired')");
	my $session = $holder->zk_session;
	$proxy->expire($zk, $session->{session_id});
	is($rival->ask("SELECT zk_lock_acquire('/expired')"),
		't', "S76: round $round: the rival acquires");
	$holder->wait_until_lost('/expired');
	$holder->ask('SELECT 1');
	is($holder->sqlstate, 'ZKL01', "round $round: the holder cannot commit");

	# The server may leave the old connection open, and not answer any more.
	like(
		$holder->errors,
		qr/session has expired|lease expired before ZooKeeper confirmed it|ZooKeeper (?:did|had) not confirm/,
		"round $round: and the error has the reason");
	$rival->ask("SELECT zk_lock_release('/expired')");
	is($holder->ask("SELECT zk_lock_acquire('/expired')"),
		't', "round $round: it can acquire the lock again");
	is($holder->zk_session->{sessions},
		$session->{sessions} + 1, "round $round: in one new session");
	is(scalar(my @left = $ensemble->queue('/expired')),
		1, "round $round: with one contender");
	$holder->ask("SELECT zk_lock_release('/expired')");
}

# ---- Closing the session.

$holder->ask("SELECT zk_lock_acquire('/closed/session')");
$holder->ask('BEGIN');
$holder->ask("SELECT zk_lock_acquire_xact('/closed/xact')");
$holder->ask("INSERT INTO work VALUES ('closed')");
$holder->ask('SELECT zk_session_close()');
is($holder->errors, '', 'zk_session_close works in a transaction');
is($holder->ask("SELECT state FROM zk_session()"), 'closed', 'it is closed');
is($ensemble->queue('/closed/session') + $ensemble->queue('/closed/xact'),
	0, 'the contenders are gone');
$holder->ask('COMMIT');
is($holder->sqlstate, 'ZKL01',
	'the transaction that lost its lock with it cannot commit');
like($holder->errors, qr/closed on request/, 'and says why');
is(committed('closed'), 0, 'nothing was committed');
is($holder->ask('SELECT count(*) FROM zk_locks'),
	0, 'locks of session scope were released, not lost');
is($holder->ask("SELECT zk_lock_acquire('/closed/session', '0')"),
	't', 'the next call connects again');

done_testing();
