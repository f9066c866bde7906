# zklock.preconnect: the ZooKeeper session exists before the first lock, only for roles
# that should have one; its failures disturb no session that has not requested a lock
# (S150).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use List::Util qw(sum0);
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(gave_up process_status time_to_end);

# A session that is not closed stays for longer than anything here waits.  And lock nodes
# stay when they are empty, so that the costs of locks can be compared.
my $ensemble = ZkEnsemble->new('main',
	maxSessionTimeout => 300_000,
	'java.znode.container.checkIntervalMs' => 3_600_000);
my $proxy = $ensemble->proxy;
my %settings = ('zklock.session_timeout' => '200s');
my $node = zk_cluster('main', $ensemble,
	allows_streaming => 'logical',
	settings => { %settings, session_preload_libraries => 'zklock' });

# How many threads a process has.  The client's first one is started by the statement,
# or the start of the backend, that begins the session: so when that is done, one says
# that there is none and will be none.
sub threads
{
	my ($pid) = @_;
	return process_status($pid, 'Threads');
}

# How many ZooKeeper sessions there are that are not the probe's, with a connection or
# without.
sub sessions
{
	return $ensemble->mntr(1)->{global_sessions} - 1;
}

# The clusters; and how often their backends had left a session to its expiry, because they
# could not close it in time, when there was no session last.
my @clusters = ($node);
my $expired = 0;

sub sum_given_up { return sum0(map { gave_up($_, 0) } @clusters); }

# Wait until there are so many: for longer if sessions have to expire first.
sub sessions_become
{
	my ($count) = @_;
	my $there = sub { sessions() == $count };
	my $in_time = eval { wait_for($there, 'the number of sessions') };
	my $given_up = sum_given_up();
	if (!$in_time)
	{
		return 0 if $given_up == $expired;
		return 0 unless eval { wait_for($there, 'sessions to expire', 240) };
	}
	$expired = $given_up if $count == 0;
	return 1;
}

sub wait_for_sessions
{
	my ($count, $what) = @_;
	ok(sessions_become($count), $what) or diag "there are @{[ sessions() ]} instead of $count";
	return;
}

# A client that connects and says nothing; returns it with the pid of its backend.
sub silent_client
{
	my ($cluster) = @_;
	my $name = 'silent ' . $cluster->name;
	local $ENV{PGAPPNAME} = $name;
	my $client = $cluster->background_psql('postgres');
	my $pid;
	wait_for(
		sub {
			$pid = $cluster->safe_psql('template1',
				'SELECT pid FROM pg_stat_activity'
				  . " WHERE application_name = '$name' AND state = 'idle'");
		},
		'the backend of a client that says nothing');
	return ($client, $pid);
}

# What a client like that is answered, in whose words PostgreSQL 16 leaves the end of
# the line.
sub answer
{
	my ($client, $query) = @_;
	chomp(my $answer = $client->query($query));
	return $answer;
}

# A session with settings from the beginning, of the connection.
sub connect_with
{
	my ($cluster, %options) = @_;
	local $ENV{PGOPTIONS} =
	  join ' ', map { "-c $_=$options{$_}" } sort keys %options;
	return ZkPsql->new($cluster);
}

# Wait until a backend's ZooKeeper session is there.  If a backend ends before, it waits for
# the answer, but not for as long as the machine may stand still.
sub wait_until_connected
{
	my ($backend) = @_;
	wait_for(sub { $backend->zk_session->{state} eq 'connected' }, 'the session');
	return;
}

$ensemble->zk;
my $control = ZkPsql->new($node);
$control->ask('CREATE ROLE plain LOGIN; CREATE ROLE dba LOGIN SUPERUSER');

# ---- Off: nothing.

$control->ask('SELECT 1') foreach 1 .. 3;
is(threads($control->pid), 1, 'S150: off: no thread');
is(sessions(), 0, 'S150: off: no ZooKeeper session');

# ---- On for a database: when the backend starts.

$control->ask('ALTER DATABASE postgres SET zklock.preconnect = on');
my ($silent, $pid) = silent_client($node);
cmp_ok(threads($pid), '>', 1, 'S150: it is begun before the first statement');
wait_for_sessions(1, 'S150: it is there before the first statement');
is($control->ask('SELECT count(*) FROM zk_locks') . threads($control->pid),
	'01', 'S150: earlier sessions have none');
kill 'TERM', $pid;
time_to_end($pid);
wait_for_sessions(0, 'S150: an end closes it');
$silent->{run}->finish;

# ---- The first lock uses it, and asks for nothing else than a second one does.

$control->ask("SELECT zk_lock_acquire('/cost'), zk_lock_release('/cost')");
$control->ask('SELECT zk_session_close()');
my $user = connect_with($node, 'zklock.servers' => $proxy->address);
wait_until_connected($user);
my $session = $user->zk_session;
my $left_out = qr/^(ping|getData|event)$/;
$proxy->accepted;
my @costs = map {
	$proxy->count;
	$user->ask("SELECT zk_lock_acquire('/cost')");
	my $acquire = $proxy->cost($left_out);
	$user->ask("SELECT zk_lock_release('/cost')");
	"$acquire " . $proxy->cost($left_out);
} 1, 2;
is($costs[0], $costs[1], "S150: the first lock costs $costs[1]");
is($proxy->accepted, 0, 'S150: it makes no connection');
is($user->zk_session->{session_id},
	$session->{session_id}, 'S150: it is in the session that was there');

# ---- Closed is closed.

$user->ask('SELECT zk_session_close()');
wait_for(sub { threads($user->pid) == 1 }, 'the client to end');
$user->ask($_)
  foreach 'SELECT 1', 'RESET ALL', 'SET zklock.preconnect = on', 'SELECT 1',
  'DISCARD ALL', 'SELECT 1';
is(threads($user->pid), 1, 'S150: once closed it is not opened by statements');
is($user->ask("SELECT zk_lock_acquire('/again')"),
	't', 'S150: but by the next lock');
$user->quit;

# ---- In a session: with the next statement.

sub process_begins
{
	my ($what, $backend_pid, $expected) = @_;
	my $threads = threads($backend_pid);
	ok($expected ? $threads > 1 : $threads == 1, "S150: $what")
	  or diag "there are $threads threads";
	return;
}

sub begins
{
	my ($what, $backend, $expected) = @_;
	process_begins($what, $backend->pid, $expected);
	return;
}

my $off = connect_with($node, 'zklock.preconnect' => 'off');
begins('the option of a connection overrules the database', $off, 0);
$off->ask('SET zklock.preconnect = on');
begins('SET: not yet', $off, 0);
$off->ask('BEGIN');
begins('SET: with the next statement, which may be BEGIN', $off, 1);
is($off->ask('SHOW transaction_isolation') . $off->sqlstate,
	'read committed', 'S150: the transaction is as it was');
$off->ask('SET TRANSACTION ISOLATION LEVEL SERIALIZABLE');
is($off->sqlstate, '', 'S150: nothing has been done in it');
$off->ask('COMMIT');
wait_until_connected($off);
$off->quit;

my $loaded = connect_with($node,
	session_preload_libraries => '',
	'zklock.preconnect' => 'on');
begins('without the library there is nothing', $loaded, 0);
$loaded->ask(q(LOAD 'zklock'));
begins('LOAD: not yet', $loaded, 0);
$loaded->ask('SELECT 1');
begins('LOAD: with the next statement', $loaded, 1);
wait_until_connected($loaded);
$loaded->quit;

my $nowhere = connect_with($node, 'zklock.servers' => '');
$nowhere->ask('SELECT 1');
begins('without servers it is not begun', $nowhere, 0);
$nowhere->ask("SET zklock.servers = '${\$ensemble->connect_string}'");
begins('but waits for them to be set', $nowhere, 0);
$nowhere->ask('SELECT 1');
begins('and is begun then', $nowhere, 1);
wait_until_connected($nowhere);
$nowhere->quit;

# ---- Who may not lock has none.

# What a role has right after it has connected.
sub role_has
{
	my ($what, $role, $expected, $database) = @_;
	local $ENV{PGUSER} = $role;
	my $backend =
	  $database
	  ? $node->background_psql($database)
	  : ZkPsql->new($node);
	process_begins($what,
		$database ? answer($backend, 'SELECT pg_backend_pid()') : $backend->pid,
		$expected);
	sessions_become(1) or die 'it has no ZooKeeper session' if $expected;
	$backend->quit;
	return;
}

my $functions = 'zk_lock_acquire(text, interval, boolean),'
  . ' zk_lock_acquire(text[], interval, boolean),'
  . ' zk_lock_acquire_xact(text, interval, boolean),'
  . ' zk_lock_acquire_xact(text[], interval, boolean),'
  . ' zk_semaphore_acquire(text, integer, interval),'
  . ' zk_semaphore_acquire_xact(text, integer, interval),'
  . ' zk_lock_wait(text, interval, boolean, boolean),'
  . ' zk_lock_wait(text[], interval, boolean, boolean),'
  . ' zk_semaphore_wait(text, integer, interval, boolean),'
  . ' zk_job_begin(text, timestamptz, interval, interval)';
$control->ask("ALTER DATABASE postgres RESET zklock.preconnect;"
	  . ' ALTER ROLE plain SET zklock.preconnect = on;'
	  . ' ALTER ROLE dba SET zklock.preconnect = on');
role_has('on for a role: a role has one', 'plain', 1);
$control->ask("REVOKE EXECUTE ON ROUTINE $functions FROM PUBLIC");
is($control->sqlstate, '', 'the rights are gone');
role_has('no rights on any function: none', 'plain', 0);
role_has('a superuser needs none', 'dba', 1);
$control->ask(
	'GRANT EXECUTE ON FUNCTION zk_semaphore_acquire(text, integer, interval) TO plain');
role_has('the right on one of them suffices', 'plain', 1);
$control->ask('CREATE SCHEMA locks; ALTER EXTENSION zklock SET SCHEMA locks');
role_has('not without one on the schema', 'plain', 0);
$control->ask('GRANT USAGE ON SCHEMA locks TO plain');
role_has('but with that', 'plain', 1);
$control->ask('ALTER EXTENSION zklock SET SCHEMA public');
$control->ask("GRANT EXECUTE ON ROUTINE $functions TO PUBLIC");
role_has('not where the extension is not installed', 'dba', 0, 'template1');
$control->ask('ALTER ROLE plain RESET ALL; ALTER ROLE dba RESET ALL');
wait_for_sessions(0, 'S150: all of them are closed');

# ---- No statement waits for it.  Servers that hang open the requested sessions when they
# continue.  No client knows these sessions, so they must expire.

my %short = (
	'zklock.preconnect' => 'on',
	'zklock.session_timeout' => '3s',
	'zklock.connect_timeout' => '3s');
$ensemble->pause;
my $patient = connect_with($node, %short);
is($patient->ask('SELECT 1'),
	1, 'S150: with servers that hang statements are executed');
begins('though it was begun', $patient, 1);
$patient->ask("SELECT zk_lock_acquire('/hang')");
is($patient->sqlstate, '08001', 'S150: the first lock fails as it does without');
my $leaver = connect_with($node, %short);
my $leaver_pid = $leaver->pid;
$leaver->quit;
cmp_ok(time_to_end($leaver_pid), '<', 10, 'S150: and a backend ends');
wait_for(sub { $patient->zk_session->{state} eq 'closed' },
	'the attempts to end');
pass('S150: after zklock.connect_timeout the attempts end');
$ensemble->resume;

# The probe, whose session does not count, may have lost it meanwhile.
wait_for(sub { ($ensemble->zk->call('stat', '/'))[0] == ZkProbe::OK() },
	'the probe to be connected');
$patient->ask("SET zklock.session_timeout = '20s'; SET zklock.connect_timeout = '20s'");
is($patient->ask("SELECT zk_lock_acquire('/hang', '20 s')"),
	't', 'S150: when they continue, locks can be acquired');
$patient->quit;
wait_for_sessions(0, 'S150: sessions that were left expire');

# An attempt that nothing uses ends by itself.
my $refused = connect_with($node, %short, 'zklock.servers' => '127.0.0.1:1');
begins('it tries where no server listens', $refused, 1);
wait_for(sub { $refused->zk_session->{state} eq 'closed' },
	'the attempts to end');
pass('S150: for zklock.connect_timeout');
$refused->ask("SELECT zk_lock_acquire('/refused')");
is($refused->sqlstate, '08001', 'S150: the first lock says why');
$refused->quit;

# ---- What cannot even be begun is told to the log only, without the statement.

my $log_size = -s $node->logfile;
my $blind = connect_with($node, 'zklock.auth_file' => 'missing');
$blind->ask('SET zklock.preconnect = on');
is($blind->ask(q(SELECT 'Sesame-93b1')) . $blind->errors,
	'Sesame-93b1', 'S150: a credential file that is missing disturbs no statement');
my $log = substr slurp_file($node->logfile), $log_size;
like($log,
	qr/LOG: .*could not preconnect to ZooKeeper: could not open file specified by "zklock.auth_file"/,
	'S150: it is logged');
unlike($log, qr/STATEMENT: .*Sesame-93b1/, 'S150: without the statement');
$blind->ask("SELECT zk_lock_acquire('/blind')");
is($blind->sqlstate, '58P01', 'S150: the first lock says so');
is($blind->ask('SELECT 1'), 1, 'S150: and the session continues');
$blind->quit;

# ---- Clients that come and go leave nothing.  Unless the answer to one took too long, on
# a busy machine: then they come once more when that session has expired.

sub come_and_go
{
	local $ENV{PGOPTIONS} =
	  '-c zklock.preconnect=on -c zklock.session_timeout=50s';
	foreach my $round (1 .. 20)
	{
		$node->psql('postgres', $round % 2 ? 'SELECT 1' : '\q') == 0
		  or die 'psql fails';
	}
	wait_for(
		sub {
			$control->ask(
				q(SELECT count(*) FROM pg_stat_activity
				WHERE backend_type = 'client backend'), 'quiet') == 1;
		},
		'the backends to end');
	return eval { wait_for(sub { sessions() == 0 }, 'the sessions to end', 10) };
}

# Sessions that backends gave up, and said so, are not counted.
my $left_nothing;
foreach my $try (1 .. 3)
{
	my $told = gave_up($node, 0);
	$left_nothing = come_and_go() || sessions() <= gave_up($node, 0) - $told;
	wait_for(sub { sessions() == 0 }, 'the sessions to expire', 90);
	last if $left_nothing;
}
ok($left_nothing, 'S150: clients that leave immediately leave no session behind');

# ---- A hot standby.

$control->ask('ALTER DATABASE postgres SET zklock.preconnect = on');
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
push @clusters, $standby;
my ($reader, $reader_pid) = silent_client($standby);
cmp_ok(threads($reader_pid), '>', 1, 'S150: a standby opens it as well');
wait_for_sessions(1, 'S150: and has it');
$reader->quit;
$standby->stop;
$control->ask('ALTER DATABASE postgres RESET zklock.preconnect');

# ---- The library is loaded by the postmaster, which opens nothing.

my $shared = zk_cluster('shared', $ensemble,
	allows_streaming => 1,
	settings => {
		%settings,
		shared_preload_libraries => 'zklock',
		'zklock.preconnect' => 'on'
	});
push @clusters, $shared;
is(threads($shared->{_pid}), 1, 'S150: the postmaster has no thread');
($silent, $pid) = silent_client($shared);
is(threads($pid), 1, 'S150: loaded by the postmaster: not before a statement');
$silent->query('SELECT 1');
cmp_ok(threads($pid), '>', 1, 'S150: but with the first one');
wait_for_sessions(1, 'S150: it is there then');

# Processes that are no client's: who counts the threads is the process itself.
my $count = q(SELECT count(*) FROM pg_ls_dir('/proc/self/task'));
cmp_ok(answer($silent, $count), '>', 1, 'a client backend has threads');
my $forced = answer(
	$silent,
	q(SELECT name FROM pg_settings
	WHERE name IN ('force_parallel_mode', 'debug_parallel_query')));
$silent->query("SET $forced = on");
is(answer($silent, $count), 1, 'S150: a parallel worker has none');
$silent->quit;
is( $shared->safe_psql(
		'postgres', $count, connstr => $shared->connstr('postgres') . ' replication=database'),
	1,
	'S150: a WAL sender has none, either');

$node->safe_psql('postgres',
	'CREATE TABLE work (n integer); CREATE PUBLICATION pub FOR TABLE work');

# Our own statements need none: each would be by a client that leaves immediately.
$ENV{PGOPTIONS} = '-c zklock.preconnect=off';
$shared->safe_psql(
	'postgres', qq(
	CREATE TABLE work (n integer);
	CREATE FUNCTION count_threads() RETURNS trigger LANGUAGE plpgsql AS \$\$
	BEGIN
		NEW.n := ($count);
		RETURN NEW;
	END \$\$;
	CREATE TRIGGER count_threads BEFORE INSERT ON work
	FOR EACH ROW EXECUTE FUNCTION count_threads();
	ALTER TABLE work ENABLE ALWAYS TRIGGER count_threads;
	CREATE SUBSCRIPTION sub CONNECTION '${\$node->connstr} dbname=postgres'
	PUBLICATION pub));
$shared->poll_query_until('postgres',
	"SELECT srsubstate = 'r' FROM pg_subscription_rel")
  or die 'timed out waiting for the table to be synchronized';
$node->safe_psql('postgres', 'INSERT INTO work VALUES (0)');
$node->wait_for_catchup('sub');
is($shared->safe_psql('postgres', 'TABLE work'),
	1, 'S150: a worker that applies changes has none, either');
$shared->safe_psql('postgres', 'DROP SUBSCRIPTION sub');
delete $ENV{PGOPTIONS};

# ---- Turned off for all, and on again, while sessions run.

my $idle = ZkPsql->new($shared);
$idle->ask('SELECT zk_session_close()');
wait_for(sub { threads($idle->pid) == 1 }, 'the client to end');
foreach my $value ('off', 'on')
{
	$shared->adjust_conf('postgresql.conf', 'zklock.preconnect', $value);
	$shared->reload;
	wait_for(sub { $idle->ask('SHOW zklock.preconnect', 'quiet') eq $value },
		'the new value');
}
$idle->ask('SELECT 1');
begins('turned on by the configuration file: with the next statement', $idle, 1);
wait_until_connected($idle);
$idle->quit;
wait_for_sessions(0, 'S150: at the end none is left');

done_testing();
