# Causal hand-over (S28): a session that is granted a lock on a standby has replayed the
# previous holder's commits, even after promotions and with other clusters.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(stop_process);

my $ensemble = ZkEnsemble->new('main');
# Nothing is flushed without a request: neither by cleanup, nor by writing pages out.
my $primary = zk_cluster(
	'primary',
	$ensemble,
	allows_streaming => 1,
	settings => {
		shared_preload_libraries => 'zklock',
		'zklock.handover' => 'on',
		autovacuum => 'off',
		bgwriter_lru_maxpages => 0
	});
$primary->safe_psql('postgres', 'CREATE TABLE work (step text)');
my %node = (primary => $primary, map { $_ => zk_standby($_, $primary) } qw(near far));
$node{other} =
  zk_cluster('other', $ensemble, settings => { 'zklock.handover' => 'on' });
my %session = map { $_ => ZkPsql->new($node{$_}) } keys %node;

# Hold a lock for the time of a commit, on that server.
sub work
{
	my ($name, $path) = @_;
	my $session = $session{$name};
	$session->ask("SELECT zk_lock_acquire('$path')");
	$session->ask("INSERT INTO work VALUES ('$path')");
	$session->ask("SELECT zk_lock_release('$path')");
	return;
}

# How often the work under a lock is seen.
sub seen
{
	my ($name, $path) = @_;
	return $session{$name}->ask("SELECT count(*) FROM work WHERE step = '$path'");
}

# Have a standby replay nothing more, or go on.
sub pause_replay
{
	my ($name) = @_;
	$primary->wait_for_catchup($node{$name});
	$session{$name}->ask('SELECT pg_wal_replay_pause()');
	$node{$name}->poll_query_until('postgres',
		"SELECT pg_get_wal_replay_pause_state() = 'paused'");
	return;
}

sub resume_replay
{
	my ($name) = @_;
	$node{$name}->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
	return;
}

# How many sessions of a cluster are shown to wait for others.
sub waits_shown
{
	my ($name) = @_;
	return $node{$name}->safe_psql('postgres', 'SELECT count(*) FROM zk_lock_waits');
}

# Ask for a lock on a standby, and see it wait, although no other session is in the queue.
sub wait_for_replay
{
	my ($name, $path, $statement) = @_;
	$session{$name}->send($statement // "SELECT zk_lock_acquire('$path')");
	$ensemble->wait_for_queue($path, 1);
	wait_for(sub { $ensemble->own_watch_count > 0 }, 'it to be held for a moment');
	ok(!$session{$name}->answered, "$path: the acquire on $name waits for replay");
	return;
}

# ---- The lock is had when the work is there.

work('primary', '/caught-up');
$primary->wait_for_catchup($node{near});
is($session{near}->ask("SELECT zk_lock_acquire('/caught-up', '0')"),
	't', 'S28: no wait for commits that are replayed');
$session{near}->ask("SELECT zk_lock_release('/caught-up')");

pause_replay('near');
work('primary', '/a');
is(seen('near', '/a'), 0, 'the standby is behind');
is($session{near}->ask("SELECT zk_lock_acquire('/a', '0')"),
	'f', 'S28: a try fails');
is($session{near}->errors, '', 'without an error');
$ensemble->wait_for_queue('/a', 0);
is($session{near}->ask("SELECT zk_lock_acquire('/a', '4 s')"),
	'f', 'S28: so does a timeout');
$ensemble->wait_for_queue('/a', 0);
is($session{primary}->ask("SELECT zk_lock_acquire('/a', '0')"),
	't', 'the primary has the lock immediately');
$session{primary}->ask("SELECT zk_lock_release('/a')");
is($session{other}->ask("SELECT zk_lock_acquire('/a', '0')"),
	't', 'S28: so has another cluster');
$session{other}->ask("SELECT zk_lock_release('/a')");

$session{near}->ask('BEGIN');
$session{near}->ask("SET LOCAL lock_timeout = '4 s'");
$session{near}->ask("SELECT zk_lock_acquire('/a')");
is($session{near}->sqlstate, '55P03', 'lock_timeout is an error');
like(
	$session{near}->errors,
	qr/DETAIL:  The last holder committed up to \w+\/\w+ on timeline 1, and this server has replayed up to \w+\/\w+ on timeline 1\./,
	'which says how far replay is');
$session{near}->ask('ROLLBACK');
$ensemble->wait_for_queue('/a', 0);

wait_for_replay('near', '/a');
$node{near}->safe_psql('postgres', "SELECT pg_cancel_backend($session{near}{pid})");
$session{near}->answer;
is($session{near}->sqlstate, '57014', 'a cancel ends the wait');
like($session{near}->errors,
	qr/while waiting for replay of the last commit under lock "\/a"/,
	'and says what it was for');
$ensemble->wait_for_queue('/a', 0);

is( $session{near}->ask("SELECT zk_lock_acquire('{/free,/a}'::text[], '4 s')"),
	'f', 'of several locks all wait');
$ensemble->wait_for_queue('/free', 0);
is($session{near}->ask("SELECT zk_lock_acquire('/free', '0')"),
	't', 'one alone is had');
$session{near}->ask("SELECT zk_lock_release('/free')");

$session{near}->ask('SET zklock.handover = off');
is($session{near}->ask("SELECT zk_lock_acquire('/a', '0')"),
	't', 'without hand-over nothing is waited for');
is(seen('near', '/a'), 0, 'and nothing is there');
$session{near}->ask("SELECT zk_lock_release('/a')");
$session{near}->ask('RESET zklock.handover');

wait_for_replay('near', '/a');
resume_replay('near');
is($session{near}->answer, 't', 'S28: with the replay the lock is had');
is(seen('near', '/a'), 1, 'S28: and the work is there');
is($session{near}->errors, '', 'without a word');
$session{near}->ask("SELECT zk_lock_release('/a')");

# ---- A wait for another session is over when only replay is waited for.

pause_replay('near');
$session{primary}->ask("SELECT zk_lock_acquire('/shown')");
$session{primary}->ask("INSERT INTO work VALUES ('/shown')");
$session{near}->send("SELECT zk_lock_acquire('/shown')");
wait_for(sub { waits_shown('near') == 1 }, 'the wait for the primary to be shown');
$session{primary}->ask("SELECT zk_lock_release('/shown')");
wait_for(sub { waits_shown('near') == 0 }, 'it to be over');
ok(!$session{near}->answered, 'S28: zk_lock_waits does not show a wait for replay');
resume_replay('near');
is($session{near}->answer, 't', 'and then the lock is granted');
$session{near}->ask("SELECT zk_lock_release('/shown')");

# ---- Transaction scope; by way of a standby and another cluster.

pause_replay('near');
$session{primary}->ask('BEGIN');
$session{primary}->ask("SELECT zk_lock_acquire_xact('/xact')");
$session{primary}->ask("INSERT INTO work VALUES ('/xact')");
$session{primary}->ask('COMMIT');
foreach my $name ('other', 'far')
{
	is($session{$name}->ask("SELECT zk_lock_acquire('/xact', '20 s')"),
		't', "the lock is held by $name in between");
	$session{$name}->ask("SELECT zk_lock_release('/xact')");
}
wait_for_replay('near', '/xact');
resume_replay('near');
is($session{near}->answer, 't', 'transaction scope: the lock is granted');
is(seen('near', '/xact'), 1, 'S28: the work of the first of three holders is visible');
$session{near}->ask("SELECT zk_lock_release('/xact')");

# ---- A job is one's own when the run before can be seen.

pause_replay('near');
$session{primary}->ask("SELECT zk_job_begin('/job', '2026-01-01')");
$session{primary}->ask('BEGIN');
$session{primary}->ask("INSERT INTO work VALUES ('/job')");
$session{primary}->ask("SELECT zk_job_end('/job')");
$session{primary}->ask('COMMIT');
$ensemble->wait_for_queue('/job', 0);
is($session{near}->ask("SELECT zk_job_begin('/job', '2026-01-02', '4 s')"),
	'f', 'a run of a job waits for what the one before has committed');
wait_for_replay('near', '/job', "SELECT zk_job_begin('/job', '2026-01-02')");
resume_replay('near');
is($session{near}->answer, 't', 'and is begun when that is there');
is(seen('near', '/job'), 1, 'with the work');
is($session{near}->ask("SELECT zk_job_end('/job')"),
	't', 'it can be ended on a standby');
is( $session{other}->ask("SELECT zk_job_begin('/job', '2026-01-02', '20 s')"),
	'f', 'and is known to be done elsewhere');

# ---- The lock is a lock while its holder waits for replay.

$session{near}->ask('SELECT zk_session_close()');
$session{near}->ask("SET zklock.session_timeout = '10 s'");
pause_replay('near');
work('primary', '/long');
wait_for_replay('near', '/long');
my ($contender) = $ensemble->queue('/long');
is($session{primary}->ask("SELECT zk_lock_acquire('/long', '12 s')"),
	'f', 'no other session has it for longer than a session timeout');
is(($ensemble->queue('/long'))[0], $contender, 'the contender is the same');
$ensemble->zk->deleteall("/zklock/long/$contender");
wait_for(
	sub {
		my ($now) = $ensemble->queue('/long');
		return defined $now && $now ne $contender;
	},
	'it to requeue');
ok(!$session{near}->answered, 'a waiter whose contender was deleted requeues');
resume_replay('near');
is($session{near}->answer, 't', 'and gets the lock in the end');
is(seen('near', '/long'), 1, 'with the work');
$session{near}->ask('SELECT zk_lock_release_all()');

# ---- What is not flushed is not handed over.

$primary->wait_for_catchup($node{near});
my $writer = $session{primary}->ask(
	"SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
$session{primary}->ask('SET synchronous_commit = off');
$session{primary}->ask("SELECT zk_lock_acquire('/async')");
stop_process($writer);
$session{primary}->ask("INSERT INTO work VALUES ('/async')");
my $unflushed = $session{primary}->ask(
	'SELECT pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn()');
$session{primary}->ask("SELECT zk_lock_release('/async')");
is($session{near}->ask("SELECT zk_lock_acquire('/async', '20 s')"),
	't', 'S29: a commit that is not flushed is not waited for');
is($unflushed . seen('near', '/async'), 't0', 'S29: and it is not there');
kill 'CONT', $writer;
$session{near}->ask("SELECT zk_lock_release('/async')");
$session{primary}->ask('RESET synchronous_commit');

# ---- Promotion ends the wait.

# Nothing more gets to the other standby.  If it had replayed anything that the primary
# writes after the promotion, if only its list of running transactions, which it writes
# every 15 s, it could not follow the new timeline.
$primary->wait_for_catchup($node{far});
$node{far}->append_conf('postgresql.conf', "primary_conninfo = ''");
$node{far}->reload;
$node{far}->poll_query_until('postgres',
	'SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)');
pause_replay('near');
work('primary', '/promoted');
$primary->wait_for_catchup($node{near}, 'write');
wait_for_replay('near', '/promoted');
$node{near}->safe_psql('postgres', 'SELECT pg_promote(false)');
is($session{near}->answer, 't', 'S120: a promotion ends the wait');
is($session{near}->errors, '', 'S120: without a word');
is(seen('near', '/promoted'), 1, 'S120: with the work there');
$session{near}->ask("SELECT zk_lock_release('/promoted')");
# A promotion first replays what is there, which suffices for the lock.
ok( $node{near}->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()'),
	'the server is a primary');

# ---- A change of timeline.

# The old primary goes on writing.
$primary->safe_psql('postgres', 'CHECKPOINT');
work('near', '/timeline');
is($session{far}->ask("SELECT zk_lock_acquire('/timeline', '4 s')"),
	'f', 'a standby on the old timeline waits for the new one');
$session{far}->quit;
$node{far}->enable_streaming($node{near});
$node{far}->restart;
$session{far} = ZkPsql->new($node{far});
is($session{far}->ask("SELECT zk_lock_acquire('/timeline', '100 s')"),
	't', 'and has the lock when it follows that');
is($session{far}->errors, '', 'without a word');
is(seen('far', '/timeline'), 1, 'with the work');
is($session{far}->ask("SELECT zk_lock_acquire('/promoted', '100 s')"),
	't', 'commits on the old timeline are on the new one');
is($session{far}->errors, '', 'which is known');
$session{far}->ask('SELECT zk_lock_release_all()');

# ---- What was lost in the failover is not waited for.

foreach my $name ('near', 'far')
{
	work('primary', "/branch/$name") for 1 .. 3;
	is($session{$name}->ask("SELECT zk_lock_acquire('/branch/$name', '20 s')"),
		't', "$name: no wait for commits on an abandoned timeline");
	like(
		$session{$name}->errors,
		qr/WARNING: .*last commit under lock "\/branch\/$name" is missing from this cluster\n.*DETAIL:  The last holder committed up to \w+\/\w+ on timeline 1, which timeline 2 of this server does not include\./s,
		"$name: but a warning");
	is(seen($name, "/branch/$name"), 0, "$name: because the commits are missing");
	$session{$name}->ask("SELECT zk_lock_release('/branch/$name')");
}
is($session{primary}->ask("SELECT zk_lock_acquire('/timeline', '20 s')"),
	't', 'and the server left behind does not wait, either');
like($session{primary}->errors, qr/which timeline 1 of this server does not include/,
	'with the same warning');
$session{primary}->ask("SELECT zk_lock_release('/timeline')");
work('near', '/branch/near');
is($session{far}->ask("SELECT zk_lock_acquire('/branch/near', '100 s')"),
	't', 'a later commit on the new timeline takes its place');
is($session{far}->errors . seen('far', '/branch/near'), '1', 'and is waited for');

done_testing();
