# Fencing: a stale holder's work commits before the next holder's, or not at all, even
# where no guard can detect that it is stale.
#
# All sessions are in one database, because a fence protects one.  The holder loses its
# lock by being stopped, or cut off, for longer than its session timeout; the rival's
# timeout is long, so that it does not lose its own on a busy machine.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main',
	minSessionTimeout => 2000, maxSessionTimeout => 60000);
my $proxy = $ensemble->proxy;

# Commits wait for a standby that will never come, if they ask for it.
my $node = zk_cluster(
	'main', $ensemble,
	allows_streaming => 'logical',
	settings => {
		'zklock.session_timeout' => '60s',
		max_prepared_transactions => 2,
		synchronous_standby_names => 'nobody',
		synchronous_commit => 'local'
	});
my $trigger = q(
	CREATE TRIGGER fence
	BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON guarded
	FOR EACH STATEMENT EXECUTE FUNCTION zk_lock_fence_trigger('/guarded'));
$node->safe_psql('postgres',
	"CREATE TABLE work (step text PRIMARY KEY);
	 CREATE TABLE guarded (step text PRIMARY KEY);
	 $trigger");

my $rival = ZkPsql->new($node);
my $other = ZkPsql->new($node);

# A backend that can be parted from the ensemble, and for that soon loses what
# it holds.
sub short_lived
{
	return ZkPsql->new($node, 'zklock.session_timeout' => '8s',
		'zklock.servers' => $proxy->address, @_);
}

# Wait until a backend waits for something of this kind.
sub wait_until_blocked
{
	my ($session, $type, $event) = @_;
	my $pid = $session->pid;
	$node->poll_query_until('postgres',
			"SELECT wait_event_type = '$type' AND wait_event ~ '^($event)\$'"
		  . " FROM pg_stat_activity WHERE pid = $pid")
	  or die "timed out waiting for $pid to wait for $event";
	return;
}

# What was committed to a table by these steps, in their order.
sub committed
{
	my ($table, @steps) = @_;
	return $node->safe_psql('postgres',
		"SELECT string_agg(step, ' ' ORDER BY step) FROM $table WHERE step IN ("
		  . join(', ', map { "'$_'" } @steps) . ')');
}

# ---- A stale holder has passed the fence: the next one waits for it.

my $holder = short_lived('zklock.commit_guard' => 'off');
my %write = (
	'/function' => [
		'work', "SELECT zk_lock_fence('/function'); INSERT INTO work VALUES"
	],
	'/guarded' => [ 'guarded', 'INSERT INTO guarded VALUES' ]);

foreach my $path (sort keys %write)
{
	my ($table, $write) = @{ $write{$path} };

	$holder->ask('BEGIN');
	$holder->ask("SELECT zk_lock_acquire_xact('$path')");
	$holder->ask("$write ('a')");
	$holder->stop;
	is($rival->ask("SELECT zk_lock_acquire('$path')"),
		't', "$path: the rival acquires while the holder is stopped");
	$rival->ask('BEGIN');
	$rival->send("$write ('b')");
	wait_until_blocked($rival, 'Lock', 'transactionid|tuple');
	$holder->continue;
	ok(!$rival->answered, "S26: $path: but waits at the fence");
	$holder->ask('COMMIT');
	is($holder->errors, '', "$path: the stale holder commits");
	$rival->answer;
	is($rival->errors, '', "S26: $path: and then the rival continues");
	is($rival->ask("SELECT count(*) FROM $table WHERE step = 'a'"),
		1, "S26: $path: sees what the stale one did");
	$rival->ask('COMMIT');
	is($rival->errors, '', "$path: and commits");
	is(committed($table, 'a', 'b'), 'a b', "$path: one after the other");
	$rival->ask("SELECT zk_lock_release('$path')");
}

# ---- It is stopped before it has passed the fence, but after its lock was seen
# to be held: the next one goes first, and it does not get past.

foreach my $path (sort keys %write)
{
	my ($table, $write) = @{ $write{$path} };

	$holder->ask('BEGIN');
	$holder->ask("SELECT zk_lock_acquire_xact('$path')");
	$holder->ask("INSERT INTO work VALUES ('stale $path')");
	my $old_token = $holder->ask("SELECT zk_lock_token('$path')");
	$other->ask('BEGIN; LOCK TABLE zk_lock_fences IN SHARE MODE');
	$holder->send("$write ('c')");
	wait_until_blocked($holder, 'Lock', 'relation');
	$holder->stop;
	is($rival->ask("SELECT zk_lock_acquire('$path')"),
		't', "$path: the rival acquires while the holder is stopped");
	$other->ask('ROLLBACK');
	$rival->ask("BEGIN; $write ('d'); COMMIT");
	is($rival->errors, '', "$path: and commits");
	my $new_token = $rival->ask("SELECT zk_lock_token('$path')");
	$holder->continue;
	$holder->answer;
	is($holder->sqlstate, 'ZKL01', "S26: $path: the stale holder is fenced off");
	like(
		$holder->errors,
		qr/lock "$path" was fenced by a newer holder\nDETAIL: +The fence has had token $new_token since .*; this session's token is $old_token\.\nHINT: .*zk_lock_fence_reset/,
		"$path: and the error names the newer holder's token");
	$holder->ask('COMMIT');
	is(committed($table, 'c', 'd') . committed('work', "stale $path"),
		'd', "S26: $path: nothing of it was committed");
	$rival->ask("SELECT zk_lock_release('$path')");
}
$holder->quit;

# ---- The lock is lost between the guard and the end of the commit.

my $slow = short_lived('synchronous_commit' => 'on');
$slow->ask('BEGIN');
$slow->ask("SELECT zk_lock_acquire_xact('/commit'), zk_lock_fence('/commit')");
$slow->ask("INSERT INTO work VALUES ('e')");
$slow->send('COMMIT');
wait_until_blocked($slow, 'IPC', 'SyncRep');
$proxy->freeze;
is($rival->ask("SELECT zk_lock_acquire('/commit')"),
	't', 'the rival acquires while the holder commits');
is($rival->ask("SELECT count(*) FROM work WHERE step = 'e'"),
	0, 'S26: without a fence it sees nothing of that');
$rival->ask('BEGIN');
$rival->send("SELECT zk_lock_fence('/commit') = zk_lock_token('/commit')");
wait_until_blocked($rival, 'Lock', 'transactionid');
ok(!$slow->answered && !$rival->answered, 'S26: at the fence it waits');
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''");
$node->reload;
$slow->answer;
is($slow->errors, '', 'the commit succeeds');
is($rival->answer, 't', 'S26: and then the rival continues');
is($rival->ask("SELECT count(*) FROM work WHERE step = 'e'"),
	1, 'S26: and sees what was committed');
$rival->ask('COMMIT');
$rival->ask('SELECT zk_lock_release_all()');
$proxy->pass;
$slow->quit;

# ---- A transaction that has fenced a lock which it then finds lost does not get
# to acquire it again: the next holder would be waiting for it.

$rival->ask("SELECT zk_lock_acquire('/again')");
$rival->ask('BEGIN');
$rival->ask("SELECT zk_lock_fence('/again')");
$rival->ask('SAVEPOINT a');
$ensemble->zk->deleteall('/zklock/again');
$rival->ask("SELECT zk_lock_verify('/again')");
is($rival->sqlstate, 'ZKL01', 'a fenced lock is lost');
like($rival->errors, qr/^HINT: +Roll back the transaction/m, 'with a hint');
$rival->ask('ROLLBACK TO a');
is($other->ask("SELECT zk_lock_acquire('/again')"),
	't', 'another session acquires the lock');
$rival->ask("SELECT zk_lock_acquire('/again', '0')");
is($rival->sqlstate, 'ZKL01', 'the transaction cannot acquire it again');
$rival->ask('ROLLBACK TO a');
$rival->ask("SELECT zk_lock_fence('/again')");
is($rival->sqlstate, 'ZKL01', 'and cannot continue as if it were fenced');
$rival->ask('ROLLBACK');
is($rival->ask("SELECT zk_lock_release('/again')"),
	'f', 'after it, the session can see to its loss');
is($rival->ask("SELECT zk_lock_acquire('/again', '0')"),
	'f', 'and try again');
$_->ask('SELECT zk_lock_release_all()') foreach ($rival, $other);

# ---- A transaction that was prepared keeps its place.

$node->safe_psql('postgres',
	'CREATE ROLE worker; GRANT pg_read_all_data, pg_write_all_data TO worker');
$rival->ask('SET ROLE worker');
$rival->ask("SELECT zk_lock_acquire('/guarded')");
$rival->ask('BEGIN');
$rival->ask("INSERT INTO guarded VALUES ('prepared')");
$rival->ask("PREPARE TRANSACTION 'fenced'");
is($rival->errors, '', 'a transaction that has fenced can be prepared');
$rival->ask('BEGIN');
$rival->ask('SAVEPOINT a');
$rival->ask("SET LOCAL lock_timeout = '50ms'");
$rival->ask("INSERT INTO guarded VALUES ('after')");
is($rival->sqlstate, '55P03', 'the next one in this backend waits for it');
$rival->ask('ROLLBACK TO a');
is($rival->ask('SELECT current_user'),
	'worker', 'and is the same user after the error as before');
$rival->ask('ROLLBACK');
$rival->ask("SELECT zk_lock_release('/guarded')");
$other->ask("SELECT zk_lock_acquire('/guarded')");
$other->send("INSERT INTO guarded VALUES ('after')");
wait_until_blocked($other, 'Lock', 'transactionid');
ok(!$other->answered, 'so does the next holder');
$rival->ask("COMMIT PREPARED 'fenced'");
is($rival->errors, '', 'until it is committed');
$other->answer;
is($other->errors, '', 'then the next holder continues');
is(committed('guarded', 'prepared', 'after'), 'after prepared', 'both commit');
$rival->ask('RESET ROLE');
$other->ask('SELECT zk_lock_release_all()');

# ---- Dump and restore carry the fences, and need no lock (S161).

my $fences = 'SELECT path, token, since FROM zk_lock_fences ORDER BY path';
my $dump = "$PostgreSQL::Test::Utils::tmp_check/dump.sql";
$node->safe_psql('postgres', 'CREATE ROLE owner LOGIN');
$node->safe_psql('postgres', 'CREATE DATABASE owned OWNER owner');
$node->safe_psql('owned', 'CREATE EXTENSION zklock');
$node->command_ok([ 'pg_dump', '-U', 'owner', '-f', $dump, 'owned' ],
	'the owner of the database, but not of the extension, can dump it');
$node->command_ok([ 'pg_dump', '-f', $dump, 'postgres' ], 'a dump is made');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok(
	[ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, 'restored' ],
	'and restored without the lock');
is($node->safe_psql('restored', $fences),
	$node->safe_psql('postgres', $fences), 'with all fences');
isnt($node->safe_psql('restored', $fences), '', 'and there are some');
is($node->safe_psql('restored', 'TABLE guarded ORDER BY step'),
	$node->safe_psql('postgres', 'TABLE guarded ORDER BY step'),
	'and the tables behind them');
my ($status, $output, $error) =
  $node->psql('restored', "INSERT INTO guarded VALUES ('z')");
like($error, qr/without holding lock "\/guarded"/, 'the trigger exists');

# ---- What a subscriber applies needs no lock (S163).

my $subscriber = zk_cluster('subscriber', $ensemble);
$subscriber->safe_psql('postgres',
	"CREATE TABLE guarded (step text PRIMARY KEY); $trigger");
$node->safe_psql('postgres', 'CREATE PUBLICATION pub FOR TABLE guarded');
$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION sub CONNECTION '"
	  . $node->connstr
	  . " dbname=postgres' PUBLICATION pub");
$subscriber->poll_query_until('postgres',
	"SELECT srsubstate = 'r' FROM pg_subscription_rel")
  or die 'timed out waiting for the tables to be synchronized';

sub like_publisher
{
	my ($what) = @_;
	$node->wait_for_catchup('sub');
	is($subscriber->safe_psql('postgres', 'TABLE guarded ORDER BY step'),
		$node->safe_psql('postgres', 'TABLE guarded ORDER BY step'), $what);
	return;
}

like_publisher('the first copy is not fenced');
foreach my $write (
	"INSERT INTO guarded VALUES ('f'), ('g')",
	"UPDATE guarded SET step = 'h' WHERE step = 'g'",
	"DELETE FROM guarded WHERE step = 'f'",
	'TRUNCATE guarded')
{
	$rival->ask("BEGIN; SELECT zk_lock_acquire_xact('/guarded'); $write; COMMIT");
	is($rival->errors, '', $write);
	like_publisher('it is applied');
}
($status, $output, $error) =
  $subscriber->psql('postgres', "INSERT INTO guarded VALUES ('z')");
like($error, qr/without holding lock "\/guarded"/,
	'while a write of the subscriber itself needs the lock');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM zk_lock_fences'),
	0, 'nothing was fenced there');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION sub');

# ---- The ensemble is rebuilt, and tokens restart.

my $survivor = short_lived();
$survivor->ask("SELECT zk_lock_acquire('/rebuilt')");
$ensemble->rebuild;
$survivor->wait_until_lost('/rebuilt');
$survivor->ask("SELECT zk_lock_fence('/rebuilt')");
is($survivor->sqlstate, 'ZKL01', 'S12: a lock that was held is lost');
is($survivor->ask("SELECT zk_lock_acquire('/rebuilt', '30 s')"),
	't', 'S12: and can be acquired again');
my $log_start = -s $node->logfile;
my $new = ZkPsql->new($node);
$new->ask("SELECT zk_lock_acquire('/guarded', '30 s')");
$new->ask("INSERT INTO guarded VALUES ('i')");
is($new->sqlstate, 'ZKL01', 'S12: the old fence is above the new tokens');
is($new->ask("SELECT zk_lock_fence_reset('/guarded')"),
	't', 'S12: an administrator removes it');
like(
	slurp_file($node->logfile, $log_start),
	qr/LOG: .*fence of lock "\/guarded" was removed by user "\S+"/,
	'which is in the server log');
is($new->ask("INSERT INTO guarded VALUES ('i') RETURNING step"),
	'i', 'S12: and then the lock can be fenced');
is($new->ask("SELECT zk_lock_fence_reset('/nosuch')"),
	'f', 'there is nothing to be removed elsewhere');

done_testing();
