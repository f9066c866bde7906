# What roles, databases and clients of ZooKeeper can do to the locks of others, as
# SECURITY.md says: what zklock prevents (S428), and what it does not (S429).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $secret = 'Sesame-4be1';
my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my $node = zk_cluster('main', $ensemble,
	settings => { 'zklock.session_timeout' => '60s', shared_preload_libraries => 'zklock' });
my $file = $node->data_dir . '/app.auth';
append_to_file($file, "app:$secret\n");
chmod 0600, $file or die "$file: $!";
$node->append_conf('postgresql.conf',
	"zklock.auth_file = '$file'\nzklock.acl = 'creator'\nzklock.root = '/locked'\n");
$node->reload;
$node->safe_psql(
	'postgres', q{
	CREATE ROLE plain LOGIN; CREATE ROLE owner LOGIN; CREATE ROLE monitor LOGIN;
	CREATE ROLE reader LOGIN; CREATE ROLE other LOGIN;
	GRANT pg_monitor TO monitor; GRANT pg_read_server_files TO reader;
	CREATE DATABASE owned OWNER owner; CREATE DATABASE other});
$node->safe_psql($_, 'CREATE EXTENSION zklock') foreach qw(owned other);

# What a role gets for statements of a session of its own: the result, or its SQLSTATE.
sub answer_to
{
	my ($role, $sql, $database) = @_;
	my ($status, $output, $errors) = $node->psql($database // 'postgres', $sql,
		extra_params => [ '-U', $role, '-v', 'VERBOSITY=verbose' ], on_error_stop => 0);
	my ($sqlstate) = $errors =~ /(?:ERROR|FATAL): +(\w{5}):/;
	return $sqlstate // $output;
}

my $holder = ZkPsql->new($node);
is($holder->ask("SELECT zk_lock_acquire('/jobs/nightly')"), 't', 'a superuser holds a lock');
is($holder->ask("SELECT zk_job_begin('/jobs/report', '2026-01-01 03:00+00')"), 't', 'and runs a job');
is($holder->ask("SELECT zk_job_end('/jobs/report')"), 't', 'which is done');
my ($contender) = split /\n/, $holder->ask("SELECT contender FROM zk_lock_queue('/jobs/nightly')");

# ---- An ordinary role.

my $denied = '42501';
foreach my $sql (
	"SELECT zk_lock_queue('/jobs/nightly')",
	"SELECT zk_lock_tree()",
	"SELECT zk_lock_revoke('/jobs/nightly', '$contender')",
	"SELECT zk_lock_break('/jobs/nightly', '$contender')",
	"SELECT zk_lock_fence_reset('/jobs/nightly')",
	"SELECT zk_job_begin('/jobs/report', '2026-01-02 03:00+00')",
	"SELECT zk_job_reset('/jobs/report', '2026-01-01 03:00+00')",
	"SELECT zk_job_status('/jobs/report')",
	"DELETE FROM zk_lock_fences",
	"DELETE FROM zk_job_runs",
	"SELECT pg_stat_zklock_reset()",
	"SET zklock.max_locks = 5",
	(map { "SET zklock.$_ = ''" } qw(servers root acl auth auth_file paths tls_ca_file)))
{
	is(answer_to('plain', $sql), $denied, "S428: an ordinary role may not: $sql");
}
is(answer_to('plain', "SELECT pg_read_file('$file')"), $denied, 'S428: nor read the credential');
is(answer_to('plain', 'SHOW zklock.auth_file'), $denied, 'S428: nor see where it is');
is(answer_to('plain', "SELECT zk_lock_acquire('/jobs/nightly', '0')"),
	'f', 'S429: it sees that a lock is held');
is(answer_to('plain', 'SELECT path, role_name, outcome FROM zk_job_runs'),
	'/jobs/report|postgres|done', 'S429: and the runs of jobs, with their roles');
is( answer_to(
		'plain', "SET zklock.commit_guard = off; SHOW zklock.commit_guard"), 'off',
	'S429: it can turn off its own commit guard');
my $blocker = ZkPsql->new($node);
$blocker->ask('\connect - plain');
is($blocker->ask("SELECT zk_lock_acquire('/jobs/report')"), 't', 'S429: it holds any lock');
is($holder->ask("SELECT zk_job_begin('/jobs/report', '2026-01-02 03:00+00', '0')"),
	'f', 'S429: and so keeps a job from running');
$blocker->quit;
is(answer_to('plain', "SELECT zk_lock_acquire('/jobs/weekly', '0')"), 't', 'and other locks');
$node->safe_psql('postgres', "ALTER ROLE plain SET zklock.paths = '/app/*'");
is(answer_to('plain', "SELECT zk_lock_acquire('/jobs/weekly', '0')"),
	$denied, 'S428: unless zklock.paths forbids it');
$node->safe_psql('postgres', 'ALTER ROLE plain RESET zklock.paths; ALTER ROLE plain SET zklock.max_locks = 1');

# zklock.max_locks is about locks at a time.
my $app = ZkProbe->new($ensemble->connect_string);
$app->auth('digest', "app:$secret");
my $many = "SELECT count(*) FROM generate_series(1, 300) i"
  . " WHERE zk_lock_acquire('/many/' || i, '0') AND zk_lock_release('/many/' || i)";
is(answer_to('plain', $many), 300, 'a role that may hold one lock uses many, one after another');
cmp_ok(scalar(my @nodes = $app->ls('/locked/many')), '>', 250, 'S429: their lock nodes stay for a while');
is(answer_to('plain', "SET zklock.handover = on; $many"), 300, 'the same with hand-over');
is(scalar(my @records = $app->ls('/locked/.zklock/records/many')),
	300, 'S429: their records stay for good');

# ---- A member of pg_monitor, and of pg_read_server_files.

is(answer_to('monitor', "SELECT count(*) FROM zk_lock_queue('/jobs/nightly') WHERE pid IS NOT NULL"),
	1, 'S429: a member of pg_monitor sees who holds a lock');
is(answer_to('monitor', $_), $denied, "S428: it may not: $_")
  foreach "SELECT zk_lock_break('/jobs/nightly', '$contender')",
  "SELECT zk_lock_revoke('/jobs/nightly', '$contender')",
  "SELECT zk_job_begin('/jobs/report', '2026-01-02 03:00+00')", "SET zklock.servers = ''";
is(answer_to('monitor', 'SHOW zklock.auth_file'), $file, 'S429: it sees the name of the credential file');
is(answer_to('monitor', "SELECT pg_read_file('$file')"), $denied, 'S428: but not what it has');
is(answer_to('reader', "CREATE TEMP TABLE t (line text); COPY t FROM '$file'; TABLE t"),
	"app:$secret", 'S429: a member of pg_read_server_files reads the password');

# ---- The owner of a database.

foreach my $setting ("zklock.root = '/else'", "zklock.servers = '127.0.0.1:1'",
	"zklock.paths = ''", 'zklock.max_locks = 1000', "zklock.acl = 'open'",
	"zklock.auth_file = '/etc/passwd'")
{
	is(answer_to('owner', "ALTER DATABASE owned SET $setting", 'owned'),
		$denied, "S428: the owner of a database may not set $setting");
}
is(answer_to('owner', "SELECT zk_lock_break('/jobs/nightly', '$contender')", 'owned'),
	$denied, 'S428: nor break a lock');
is(answer_to('owner', 'DELETE FROM zk_lock_fences', 'owned'), $denied, 'S428: nor delete fences');
is(answer_to('owner', 'DROP EXTENSION zklock', 'owned'), $denied, 'S428: nor drop the extension');
is( answer_to('owner', 'ALTER DATABASE owned SET zklock.commit_guard = off', 'owned'),
	'', 'it may change the default of a setting that any user may change');
is(answer_to('other', 'SHOW zklock.commit_guard', 'owned'),
	'off', 'S429: also for other roles in that database');
answer_to('owner', q{
	CREATE SCHEMA mine;
	CREATE FUNCTION mine.zk_lock_acquire(text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
	GRANT USAGE ON SCHEMA mine TO PUBLIC;
	ALTER DATABASE owned SET search_path = mine, public}, 'owned');
is(answer_to('other', "SELECT zk_lock_acquire('/jobs/nightly')", 'owned'),
	't', 'S429: and put another function before that of zklock');
is(answer_to('other', "SELECT public.zk_lock_acquire('/jobs/nightly', '0')", 'owned'),
	'f', 'S428: but not in its place');

# ---- Another database of the cluster.

is(answer_to('other', "SELECT zk_lock_acquire('/jobs/nightly', '0')", 'other'),
	'f', 'S429: databases with one root share their locks');
is(answer_to('other', 'SELECT count(*) FROM zk_job_runs', 'other'), 0, 'S428: but not the runs of jobs');
my $waiter = ZkPsql->new($node);
$waiter->send("SELECT zk_lock_acquire('/jobs/nightly')");
wait_for(sub { answer_to('other', 'SELECT count(*) FROM zk_lock_waits', 'other') == 1 }, 'its row');
is( answer_to('other', 'SELECT datname, usename, path, holder_pid FROM zk_lock_waits', 'other'),
	'postgres|postgres||', 'S429: roles elsewhere see that a session waits, and whose it is');
$node->safe_psql('postgres', "ALTER DATABASE other SET zklock.root = '/locked_other'");
is(answer_to('other', "SELECT zk_lock_acquire('/jobs/nightly', '0')", 'other'),
	't', 'S428: with a root of its own, a database has locks of its own');

# ---- Clients of ZooKeeper: without the credential, and with it.

my $stranger = ZkProbe->new($ensemble->connect_string);
foreach my $command (
	[ 'ls', '/locked/jobs/nightly' ], [ 'get', "/locked/jobs/nightly/$contender" ],
	[ 'delete', "/locked/jobs/nightly/$contender" ], [ 'create', '/locked/jobs/nightly/x' ])
{
	my ($rc) = $stranger->call(@$command);
	is($rc, -102, "S428: a client without the credential may not: @$command");
}
my ($status) = $stranger->call('create', '/elsewhere');
is($status, 0, 'S429: it may create others, elsewhere');

ok($app->delete("/locked/jobs/nightly/$contender"), 'S429: one with the credential breaks a lock');
$holder->wait_until_lost('/jobs/nightly');
is($waiter->answer, 't', 'and the waiter has it');
$holder->ask('BEGIN; SELECT 1; COMMIT');
is($holder->sqlstate, 'ZKL01', 'S428: but the holder cannot commit');
$holder->ask("SELECT zk_lock_release('/jobs/nightly')");

# ZooKeeper counts its sessions, and calculates the password of each from its number.
my $victim = $waiter->zk_session->{session_id};
my $own = hex(($stranger->session_id =~ /^0x(.*)/)[0]);
cmp_ok(abs($own - hex(($victim =~ /^0x(.*)/)[0])), '<', 1000,
	'S429: the numbers of ZooKeeper sessions are close to each other');
my $program = <<'END';
import socket
import struct
import sys

host, port = sys.argv[1].split(":")
session = int(sys.argv[2], 16)
state = (session ^ 0xB3415C00 ^ 0x5DEECE66D) & (1 << 48) - 1
password = b""
for _ in range(4):
    state = (state * 0x5DEECE66D + 0xB) & (1 << 48) - 1
    password += (state >> 16).to_bytes(4, "little")
requests = [
    struct.pack(">iqiqi16sb", 0, 0, 60000, session, 16, password, 0),
    struct.pack(">ii", 1, -11),
]
with socket.create_connection((host, int(port)), 60) as server:
    server.sendall(b"".join(struct.pack(">i", len(r)) + r for r in requests))
    try:
        while server.recv(4096):
            pass
    except ConnectionError:
        pass
END
wait_for(
	sub {
		# Sometimes the owner reconnects, and has its session back, before the end is read.
		system('/usr/bin/python3', '-c', $program, $ensemble->address(1), $victim) == 0
		  or die 'the program failed';
		return $waiter->lock_state('/jobs/nightly') eq 'lost';
	},
	'the session to end');
pass('S429: a client without the credential ends the ZooKeeper session of another one');
$waiter->ask('BEGIN; SELECT 1; COMMIT');
is($waiter->sqlstate, 'ZKL01', 'S428: but that one cannot commit');

# ---- What belongs to the owner of a database, with all that is in it.

SKIP:
{
	skip 'the schema public is not theirs', 1 if $node->pg_version < 15;
	answer_to('owner', 'DROP SCHEMA public CASCADE', 'owned');
	is($node->safe_psql('owned', 'SELECT count(*) FROM pg_extension WHERE extname = \'zklock\''),
		0, 'S429: the owner of the schema drops the extension with it');
}

done_testing();
