# Jobs that take too long: a run ends when its time is up, whatever its backend is
# doing.  And jobs on a standby, which knows which runs are done once it has replayed
# them.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes;
use ZkEnsemble;
use ZkPsql;
use ZkSyncWait;

my $ensemble = ZkEnsemble->new('main');
my $primary = zk_cluster('primary', $ensemble,
	allows_streaming => 1,
	settings => { autovacuum => 'off' });
$primary->safe_psql('postgres', 'CREATE TABLE work (path text)');
my $standby = zk_standby('standby', $primary);
my $other = zk_cluster('other', $ensemble);
my $due = "'2026-01-01 03:00+00'";
my $next = "'2026-01-02 03:00+00'";

# ---- A run that takes too long.  A session that only observes lost locks is not cancelled
# for it, but who runs a job for too long is.

foreach my $action (qw(cancel report))
{
	my $path = "/slow/$action";
	my $runner = ZkPsql->new($primary, 'zklock.on_lock_loss' => $action);
	my $heir = ZkPsql->new($other);

	is($runner->ask("SELECT zk_job_begin('$path', $due, max_runtime => '4 s')"),
		't', "$action: a run is begun that may take some seconds");
	$runner->send('SELECT pg_sleep(120)');
	is($heir->ask("SELECT zk_job_begin('$path', $due, '60 s')"),
		't', 'S269: when its time is up another session can begin it');
	$runner->answer(60);
	is($runner->sqlstate, '57014', 'S269: and its statement ends');
	like(
		$runner->errors,
		qr/ERROR: .* canceling statement because job "$path" exceeded its max_runtime/,
		'S269: with a message that names the job');
	$runner->ask("SELECT zk_job_end('$path')");
	is($runner->sqlstate, 'ZKL01', 'S269: it cannot end the run any more');
	is($heir->ask("SELECT zk_job_end('$path')"), 't', 'S269: but the session that took it over can');

	# in a transaction, with nothing to be cancelled
	$path = "/idle/$action";
	is($runner->ask("SELECT zk_job_begin('$path', $due, max_runtime => '4 s')"),
		't', 'a run is begun');
	$runner->ask('BEGIN');
	$runner->ask("INSERT INTO work VALUES ('$path')");
	$runner->ask("SELECT zk_job_end('$path')");
	is($heir->ask("SELECT zk_job_begin('$path', $due, '60 s')"),
		't', 'S269: its backend is idle in a transaction: another session can begin it');
	$runner->ask('COMMIT');
	is($runner->sqlstate, 'ZKL01', 'S269: the transaction does not commit');
	is( $primary->safe_psql('postgres', "SELECT count(*) FROM work WHERE path = '$path'"),
		0, 'S269: and nothing of it is there');
	$runner->ask("SELECT zk_lock_release('$path')");
	is($heir->ask("SELECT zk_job_end('$path')"), 't', 'S269: its heir ends the run');

	# the run is the transaction
	$path = "/xact/$action";
	$runner->ask('BEGIN');
	is($runner->ask("SELECT zk_job_begin_xact('$path', $due, max_runtime => '4 s')"),
		't', 'a run is begun that is a transaction');
	$runner->send("INSERT INTO work SELECT '$path' FROM pg_sleep(120)");
	is($heir->ask("SELECT zk_job_begin('$path', $due, '60 s')"),
		't', 'S269: when its time is up another session can begin it');
	$runner->answer(60);
	is($runner->sqlstate, '57014', 'S269: and its statement ends');
	$runner->ask('ROLLBACK');
	is($heir->ask("SELECT zk_job_end('$path')"), 't', 'S269: its heir ends the run');
	is($runner->ask('SELECT 1'), 1, 'the first one continues');

	# the run is a subtransaction, whose rollback releases the lock before the statement ends
	$path = "/subtransaction/$action";
	$runner->ask(
		"DO \$\$ BEGIN PERFORM zk_job_begin_xact('$path', $due, max_runtime => '1 s');"
		  . ' PERFORM pg_sleep(120); EXCEPTION WHEN OTHERS THEN NULL; END $$');
	is($runner->sqlstate, '57014', 'S320: a run in an exception block: the statement ends');
	like(
		$runner->errors,
		qr/ERROR: .* canceling statement because job "$path" exceeded its max_runtime/,
		'S320: with a message that names the job');
}

# A handler of query_canceled sees that cancel, and may go on, but with nothing that lasts;
# and another lock that was lost before is not what it is for.

my $handler = ZkPsql->new($primary, 'zklock.on_lock_loss' => 'report');
my $heir = ZkPsql->new($other);
$handler->ask('BEGIN');
$handler->ask("SELECT zk_lock_acquire_xact('/before')");
is($handler->ask("SELECT zk_job_begin('/handler', $due, max_runtime => '5 s')"),
	't', 'a run is begun');
my ($contender) = $ensemble->queue('/before');
$ensemble->zk->delete("/zklock/before/$contender");
$handler->send(
	q{DO $$ BEGIN PERFORM pg_sleep(120);
	EXCEPTION WHEN query_canceled THEN RAISE NOTICE 'caught: % %', SQLSTATE, SQLERRM;
		INSERT INTO work VALUES ('/handler'); END $$});
is($heir->ask("SELECT zk_job_begin('/handler', $due, '60 s')"),
	't', 'S320: when its time is up another session can begin it');
$handler->answer(60);
like(
	$handler->errors,
	qr{NOTICE: .*caught: 57014 canceling statement because job "/handler" exceeded its max_runtime$}m,
	'S320: a handler of query_canceled can tell for which job that is');
is($handler->sqlstate, '57014', 'S320: and its statement fails');
like($handler->errors, qr{ERROR: .* job "/handler" exceeded its max_runtime$}m,
	'S320: for the same reason');
$handler->ask('COMMIT');
is( $primary->safe_psql('postgres', "SELECT count(*) FROM work WHERE path = '/handler'"),
	0, 'S320: nothing of it is there');
is($heir->ask("SELECT zk_job_end('/handler')"), 't', 'its heir ends the run');
$_->quit foreach $handler, $heir;

my $session = ZkPsql->new($primary);
is($session->ask("SELECT zk_job_begin('/quick', $due, max_runtime => '100 years')"),
	't', 'a run may have a very long limit');
is($session->ask("SELECT zk_job_end('/quick')"), 't', 'and end');
foreach my $max ('0', '-1 s')
{
	$session->ask("SELECT zk_job_begin('/quick', $due, max_runtime => '$max')");
	is($session->sqlstate, '22023', "but not take $max");
}

# ---- The time runs out under a commit that the guard has let pass.

my $rival = ZkPsql->new($primary, synchronous_commit => 'local');
my $sync_wait = ZkSyncWait->new($primary);
$session->ask('BEGIN');
is($session->ask("SELECT zk_job_begin_xact('/commit', $due, max_runtime => '4 s')"),
	't', 'a run is begun that may take some seconds');
$session->send('COMMIT');
wait_for(
	sub {
		$rival->ask("SELECT wait_event FROM pg_stat_activity WHERE pid = ${\$session->pid}",
			'quiet') eq 'SyncRep';
	},
	'the commit to wait');
my $committing = Time::HiRes::time();
$rival->send("SELECT zk_job_begin_xact('/commit', $due, '60 s')");
$ensemble->wait_for_queue('/commit', 2);
wait_for(sub { Time::HiRes::time() > $committing + 5 }, 'the time to be up');
is(scalar($ensemble->queue('/commit')),
	2, 'S277: the lock is kept, and waited for, during the commit');
$sync_wait->end;
$session->answer;
is($session->errors, '', 'S277: the commit succeeds');
is($rival->answer, 'f', 'S277: so the run is done');
is($session->ask("SELECT zk_job_begin('/commit', $next, max_runtime => '100 years')"),
	't', 'and the next one can be begun');
is($session->ask("SELECT zk_job_end('/commit')"), 't', 'and ended');
$rival->quit;

# ---- A standby that is behind does not know what is done.

my $reader = ZkPsql->new($standby);
$primary->wait_for_catchup($standby);
$reader->ask('SELECT pg_wal_replay_pause()');
$standby->poll_query_until('postgres', "SELECT pg_get_wal_replay_pause_state() = 'paused'");
$session->ask("SELECT zk_job_begin('/behind', $due)");
$session->ask("SELECT zk_job_end('/behind')");
$ensemble->wait_for_queue('/behind', 0);
is($reader->ask("SELECT zk_job_begin('/behind', $due, '0')"),
	'f', 'S270: a standby does not begin a run that may be done');
is($reader->errors, '', 'S270: without a word');
my $since = Time::HiRes::time();
is($reader->ask("SELECT zk_job_begin('/behind', $due, '3 s')"),
	'f', 'S295: it waits for replay, if it may');
is($reader->errors, '', 'S295: without an error');
cmp_ok(Time::HiRes::time() - $since, '>', 2.99, 'S295: for as long as it may');

# The machine may be too busy to get that far in time.
foreach my $timeout ('300 ms', '3 s', '10 s')
{
	$reader->ask("SET lock_timeout = '$timeout'; SELECT zk_job_begin('/behind', $due)");
	last if $reader->errors =~ /DETAIL:  The last holder/;
}
is($reader->sqlstate, '55P03', 'S295: or as lock_timeout lets it');
like($reader->errors, qr/DETAIL:  The last holder committed up to /, 'S295: which says why');
$reader->ask("RESET lock_timeout; SET statement_timeout = '1 s'; SELECT zk_job_begin('/behind', $due)");
is($reader->sqlstate, '57014', 'S295: or until it is cancelled');
$reader->ask('RESET statement_timeout');
$reader->send("SELECT zk_job_begin('/behind', $due)");
my $waiting = "SELECT count(*) FROM pg_stat_activity"
  . " WHERE state = 'active' AND wait_event_type = 'Extension' AND pid =";
$standby->poll_query_until('postgres', "$waiting ${\$reader->pid}", 1);
$ensemble->wait_for_queue('/behind', 0);
is($session->ask("SELECT zk_job_begin('/behind', $next, '20 s')"),
	't', 'S270: so it delays no other session');
is($session->ask("SELECT zk_job_end('/behind')"), 't', 'that run ends, too');
ok(!$reader->answered, 'S295: it continues to wait');
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
is($reader->answer, 'f', 'S295: until it has replayed that the run is done');
is($reader->errors, '', 'S295: without an error');
$primary->wait_for_catchup($standby);
is($reader->ask("SELECT zk_job_begin('/behind', $next)"),
	'f', 'S270: a run that has been replayed is done');
is($reader->errors, '', 'S270: without an error');

# ---- What is done on a standby, which can write nothing.

is($reader->ask("SELECT zk_job_begin('/standby', $due)"), 't', 'a run is begun on a standby');
$reader->ask('BEGIN');
is($reader->ask("SELECT zk_job_end('/standby')"), 't', 'and will end with a transaction');
is($session->ask("SELECT zk_job_begin('/standby', $due, '0')"),
	'f', 'S270: before the commit it is in progress');
$reader->ask('ROLLBACK');
is($session->ask("SELECT zk_job_begin('/standby', $due, '0')"),
	'f', 'S270: after a rollback, too');
is($reader->ask("SELECT zk_job_end('/standby')"), 't', 'then it ends');
is($session->ask("SELECT zk_job_begin('/standby', $due, '60 s')"),
	'f', 'S270: its mark counts on the primary');
is($session->ask("SELECT count(*) FROM zk_job_runs WHERE path = '/standby'"),
	0, 'without a row');
is($session->errors, '', 'or a word');
is($session->ask("SELECT zk_job_begin('/standby', $next, '60 s')"), 't', 'the next one is due');
is($session->ask("SELECT zk_job_end('/standby')"), 't', 'and ends there');

# ---- The work is lost, by a failover or otherwise: here a session deletes the row.

$primary->safe_psql('postgres', "DELETE FROM zk_job_runs WHERE path = '/standby'");
is($session->ask("SELECT zk_job_begin('/standby', $due, '60 s')"),
	'f', 'a run that was done on the standby remains done');
is($session->ask("SELECT zk_job_begin('/standby', $next, '60 s')"),
	't', 'S271: a mark without its row does not count');
like(
	$session->errors,
	qr/WARNING: .* the run of job "\/standby" that was due at .* is missing from this cluster/,
	'S271: a warning says so');
$session->ask("SELECT zk_lock_release('/standby')");

# ---- A session that waits on a standby begins a run that was lost in a failover.

$standby->safe_psql('postgres', "ALTER SYSTEM SET primary_conninfo = ''");
$standby->reload;
$standby->poll_query_until('postgres', 'SELECT count(*) FROM pg_stat_wal_receiver', 0);
foreach my $path (qw(/lost /lost/xact))
{
	is($session->ask("SELECT zk_job_begin('$path', $due)"), 't', 'a run is begun');
	is($session->ask("SELECT zk_job_end('$path')"), 't', 'and ended, which is not replicated');
	$ensemble->wait_for_queue($path, 0);
}
my $by = ZkPsql->new($standby);
$reader->send("SELECT zk_job_begin('/lost', $due, '10 min')");
$by->send("SELECT zk_job_begin_xact('/lost/xact', $due, '10 min')");
$standby->poll_query_until('postgres', "$waiting ${\$_->pid}", 1) foreach $reader, $by;
ok(!$reader->answered, 'S295: a session that stands by on the standby waits for replay');
$standby->promote;
is($reader->answer, 't', 'S295: until that has taken over without the work: then it begins the run');
like(
	$reader->errors,
	qr/WARNING: .* the run of job "\/lost" that was due at .* is missing from this cluster/,
	'S295: with a warning');
is($reader->ask("SELECT zk_job_end('/lost')"), 't', 'S295: and ends it');
is($reader->ask("SELECT outcome FROM zk_job_history('/lost')"), 'done', 'S295: with its row');
$by->answer;
is($by->sqlstate, '25006', 'S295: a transaction from before the promotion cannot write');
is($by->ask("SELECT zk_job_begin_xact('/lost/xact', $due)"), 't', 'S295: and can be tried again');
$by->quit;

is($reader->ask("SELECT zk_job_begin('/standby', $next, '60 s')"),
	't', 'S271: and the mark does not count where the standby has taken over');
is($reader->ask("SELECT zk_job_end('/standby')"), 't', 'which does the run again');
is($session->ask("SELECT zk_job_begin('/standby', $next, '60 s')"),
	'f', 'S271: and a primary that was left behind does not');
like($session->errors, qr/WARNING: .* the run of job .* after a failover that left this server behind/,
	'S271: with a warning');

done_testing();
