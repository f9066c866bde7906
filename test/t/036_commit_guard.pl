# The commit guard: its requests to the ensemble, its knowledge, and its limits.
#
# With "session" a commit trusts a running lease; with "quorum" the ensemble proves
# every lock, all in one round trip.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;
use ZkSyncWait;

# Seconds; long enough that nothing is renewed in passing.
my $session_timeout = 1200;

my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 1200000);
my $proxy = $ensemble->proxy;
my $node = zk_cluster('main', $proxy,
	allows_streaming => 1,
	settings => { 'zklock.session_timeout' => "${session_timeout}s" });
$node->safe_psql('postgres', 'CREATE TABLE work (step text)');

my $holder = ZkPsql->new($node);
my $rival = ZkPsql->new($node, 'zklock.servers' => $ensemble->connect_string);

# A transaction under so many locks of transaction scope, /PATH/1 and so on.
sub begin_work
{
	my ($path, $guard, $locks) = @_;
	$holder->ask('ROLLBACK', 'quiet');
	$holder->ask("SET zklock.commit_guard = '$guard'");
	$holder->ask('BEGIN');
	$holder->ask("INSERT INTO work VALUES ('$path')");
	is($holder->ask("SELECT count(*) FROM generate_series(1, $locks) n"
			  . " WHERE zk_lock_acquire_xact('$path/' || n, '20 s')"),
		$locks, "$path: acquired");
	$proxy->count;
	return;
}

sub committed
{
	my ($path) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM work WHERE step = '$path'");
}

# Does a backend wait for an event of this type, or for this one?
sub waits_for
{
	my ($session, $event) = @_;
	return $rival->ask(
		"SELECT '$event' IN (wait_event_type, wait_event)"
		  . " FROM pg_stat_activity WHERE pid = ${\$session->pid}",
		'quiet') eq 't';
}

sub wait_until_waiting
{
	my ($session, $event) = @_;
	wait_for(sub { waits_for($session, $event) },
		"the commit to wait for $event");
	return;
}

# How many proofs (multi-ops) were asked for since the last look.
sub proofs { return $proxy->count->{multi} // 0; }

# ---- What a commit costs.

foreach my $case ([ 'off', 0 ], [ 'lease', 0 ], [ 'quorum', 1 ])
{
	my ($guard, $expected) = @$case;
	begin_work("/cost/$guard", $guard, 3);
	$holder->ask('COMMIT');
	is(committed("/cost/$guard"), 1, "$guard: committed");
	is(proofs(), $expected, "$guard: proofs asked for: $expected");
}

# By the server's account, which misses nothing: of a lock of session scope, so that
# none is released.
$holder->ask("SELECT zk_lock_acquire('/cost/packets')");
wait_for(sub { $ensemble->own_watch_count == 1 }, 'the watch on the contender');
my $zk_session = $holder->zk_session->{session_id};
foreach my $case ([ 'quorum', 1 ], [ 'lease', 0 ], [ 'off', 0 ])
{
	my ($guard, $expected) = @$case;
	$holder->ask("SET zklock.commit_guard = '$guard'");
	my @before = $ensemble->packets($zk_session);
	$holder->ask("BEGIN; INSERT INTO work VALUES ('packets/$guard'); COMMIT");
	my @after = $ensemble->packets($zk_session);
	is(committed("packets/$guard"), 1, "$guard: committed");
	is_deeply(
		[ map { $after[$_] - $before[$_] } 0, 1 ],
		[ $expected, $expected ],
		"S86: $guard: packets to the server, and from it: $expected");
}
$holder->ask("SELECT zk_lock_release('/cost/packets')");

# However many locks, one round trip: all is asked before anything is answered.
begin_work('/cost/many', 'quorum', 300);
$proxy->hold_reply('multi');
$holder->send('COMMIT');
my $asked = 0;
wait_for(
	sub {
		$asked += proofs();
		return $asked == 3;
	},
	'all of 300 locks to be asked for');
ok(!$holder->answered, 'quorum: a commit waits for the answer');
$proxy->pass;
$holder->answer;
is($holder->sqlstate, '', 'quorum: and then succeeds');
is(committed('/cost/many'), 1, 'quorum: committed');

# ---- What the local clock cannot know.

foreach my $guard ('lease', 'quorum')
{
	begin_work("/deleted/$guard", $guard, 1);
	my ($contender) = $ensemble->queue("/deleted/$guard/1");
	# The server tells its owner, who is not to hear of it before the commit.
	$proxy->freeze_replies if $guard eq 'lease';
	$ensemble->zk->delete("/zklock/deleted/$guard/1/$contender");
	$holder->ask('COMMIT');
	$proxy->pass;
	is( $holder->sqlstate,
		$guard eq 'quorum' ? 'ZKL01' : '',
		"S10: $guard: a contender that was just deleted by an administrator");
	is(committed("/deleted/$guard"), $guard eq 'quorum' ? 0 : 1, $guard);
}

# Session scope counts as well, and a transaction that only reads.
$holder->ask("SET zklock.commit_guard = 'quorum'");
$holder->ask("SELECT zk_lock_acquire('/session/scope')");
$proxy->count;
$holder->ask('SELECT 1');
is(proofs(), 1, 'quorum: every commit while a lock is held');
my ($contender) = $ensemble->queue('/session/scope');
$ensemble->zk->delete("/zklock/session/scope/$contender");
$holder->ask('SELECT 1');
is($holder->sqlstate, 'ZKL01', 'quorum: a lost lock of session scope');
is($holder->ask("SELECT zk_lock_release('/session/scope')"),
	'f', 'until it is released');
$holder->ask("SET zklock.commit_guard = 'lease'");
$holder->ask("SELECT zk_lock_release_all()");

# ---- An ensemble that does not answer.

begin_work('/silent', 'quorum', 2);
$proxy->freeze;
$holder->send('COMMIT');
wait_until_waiting($holder, 'Extension');
my $start = time;
kill 'INT', $holder->pid;
$holder->answer;
cmp_ok(time - $start, '<', 10, 'quorum: the wait can be cancelled');
is($holder->sqlstate, '57014', 'quorum: SQLSTATE of that');
$proxy->pass;
is(committed('/silent'), 0, 'quorum: nothing was committed');
$holder->ask('ROLLBACK');

# The answer is waited for as long as the lock may still be held.
my $short = ZkPsql->new($node, 'zklock.session_timeout' => '8s',
	'zklock.commit_guard' => 'quorum');
$short->ask('BEGIN');
$short->ask("SELECT zk_lock_acquire_xact('/silent/long')");
$short->ask("INSERT INTO work VALUES ('/silent/long')");
$rival->send("SELECT zk_lock_acquire('/silent/long')");
$ensemble->wait_for_queue('/silent/long', 2);
$proxy->freeze;
$short->ask('COMMIT');
is($short->sqlstate, 'ZKL01', 'quorum: no answer, no commit');
$proxy->pass;
is(committed('/silent/long'), 0, 'quorum: nothing was committed');
is($rival->answer, 't', 'and the next one gets the lock');
$rival->ask('SELECT zk_lock_release_all()');

# A ZooKeeper session that has ended.  (The server tells who pings it.)
$short->ask('ROLLBACK');
$short->ask('BEGIN');
$short->ask("SELECT zk_lock_acquire_xact('/expired')");
$short->ask("INSERT INTO work VALUES ('/expired')");
$proxy->expire($ensemble->zk,
	$short->ask('SELECT session_id FROM zk_session()'));
$short->ask('COMMIT');
is($short->sqlstate, 'ZKL01', 'quorum: a ZooKeeper session that has just ended');
is(committed('/expired'), 0, 'quorum: nothing was committed');

# ---- Once the guard has passed: a commit that waits for a synchronous standby
# which is not there.

my $sync_wait = ZkSyncWait->new($node);
$rival->ask("SET synchronous_commit = 'local'");
$short->ask("SET zklock.commit_guard = 'lease'");
$short->ask('BEGIN');
$short->ask("SELECT zk_lock_acquire_xact('/standby')");
$short->ask("INSERT INTO work VALUES ('/standby')");
my $zk_session = $short->ask('SELECT session_id FROM zk_session()');
$short->send('COMMIT');
wait_until_waiting($short, 'SyncRep');
is($rival->ask("SELECT zk_lock_acquire('/standby', '0')"),
	'f', 'S27: the lock is held while the commit waits for a standby');
$proxy->expire($ensemble->zk, $zk_session);
is($rival->ask("SELECT zk_lock_acquire('/standby')"),
	't', 'the lock is lost, and another session has acquired it');
ok(!$short->answered, 'that does not end the wait for the standby');
is($rival->ask("SELECT count(*) FROM work WHERE step = '/standby'"),
	0, 'and the commit is not visible yet');
$sync_wait->end;
$short->answer;
is($short->errors, '', 'the commit goes through: nothing can undo it any more');
is(committed('/standby'), 1, 'committed');

# ---- The same of a COMMIT within a procedure, which is the statement that runs
# when the lock is lost; with no guard at all.

$node->safe_psql(
	'postgres', q(
	CREATE PROCEDURE work_in_steps() LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM zk_lock_acquire_xact('/procedure');
		INSERT INTO work VALUES ('/procedure');
		COMMIT;
		INSERT INTO work VALUES ('/procedure/next');
	END $$));
$sync_wait = ZkSyncWait->new($node);
my %when_lost = ('zklock.on_lock_loss' => 'cancel', 'zklock.commit_guard' => 'off');
$short->ask("SET $_ = '$when_lost{$_}'") foreach sort keys %when_lost;
$short->ask('SELECT zk_lock_release_all()');
$rival->ask('SELECT zk_lock_release_all()');
$short->send('CALL work_in_steps()');
wait_until_waiting($short, 'SyncRep');
$rival->send("SELECT zk_lock_acquire('/procedure')");
$ensemble->wait_for_queue('/procedure', 2);
$proxy->freeze;
is($rival->answer, 't',
	'S26: off: a lock is lost while a procedure commits, and taken by another');
ok(waits_for($short, 'SyncRep'), 'S26: off: the commit continues to wait');
ok(!$short->answered, 'S26: off: and was not disturbed');
$sync_wait->end;
$short->answer;
is($short->errors, '', 'S26: off: it goes through without a word');
is(committed('/procedure') . committed('/procedure/next'),
	11, 'S26: off: and the procedure continues');
$proxy->pass;

done_testing();
