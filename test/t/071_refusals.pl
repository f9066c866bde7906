# Refusals by the ensemble, its ACLs, the operating system or missing privileges: an
# error with its SQLSTATE, promptly, and a backend that continues to work.
#
# Runs alone: counts the threads of the user.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main', tick_time => 500, maxSessionTimeout => 60000);
my $zk = $ensemble->zk;
my $proxy = $ensemble->proxy;
my $node = zk_cluster('main', $ensemble,
	settings => { 'zklock.session_timeout' => '10s' });
my $real = $ensemble->connect_string;
my $session = ZkPsql->new($node);
my $other = ZkPsql->new($node);

# What is prompt, in seconds: sooner than zklock.connect_timeout or the ZooKeeper
# session's timeout would end a call.
my $prompt = 5;

# An error, promptly.
sub refused
{
	my ($what, $sql, $sqlstate, $message, $by) = @_;
	my $start = time;
	$by //= $session;
	$by->ask($sql);
	is($by->sqlstate, $sqlstate, "$what: SQLSTATE $sqlstate");
	like($by->errors, $message, "$what: message");
	cmp_ok(time - $start, '<', $prompt, "$what: promptly");
	return;
}

# Acquired, promptly, and released.
sub granted
{
	my ($what, $path) = @_;
	is($session->ask("SELECT zk_lock_acquire('$path', '20 s')"),
		't', "$what: acquired");
	is($session->ask("SELECT zk_lock_release('$path')"), 't', "$what: released");
	return;
}

# ---- A limit of connections (S71).

my $limited = ZkEnsemble->new('limited', maxClientCnxns => 2);
my @backends = map {
	ZkPsql->new($node,
		'zklock.servers' => $limited->connect_string,
		'zklock.connect_timeout' => '20s')
} 1 .. 3;
is($backends[$_]->ask("SELECT zk_lock_acquire('/few/$_')"),
	't', "S71: backend $_ of two has a connection")
  foreach 0, 1;

# After how many seconds does a call end that cannot connect for one?  If that is late, or
# says something else, there are more tries, as the machine may stand still for a moment.
sub time_without_connection
{
	my ($backend, $path, $message) = @_;
	my $took;
	$backend->ask("SET zklock.connect_timeout = '1s'");
	foreach (1 .. 10)
	{
		my $start = time;
		$backend->ask("SELECT zk_lock_acquire('$path')");
		$took = time - $start;
		last if $took < 4 && $backend->errors =~ $message;
	}
	return $took;
}

my $limit_reached =
  qr/lock "\/few\/2": could not connect to ZooKeeper\nDETAIL: .*The server at \S+ closed the connection\.\nHINT: .*maxClientCnxns/s;
my $took = time_without_connection($backends[2], '/few/2', $limit_reached);
is($backends[2]->sqlstate, '08001', 'S71: the third has none: SQLSTATE 08001');
like($backends[2]->errors, $limit_reached, 'S71: message and hint');
cmp_ok($took, '<', 4, 'S71: in time');
$backends[2]->ask("SET zklock.connect_timeout = '20s'");
$backends[0]->ask('SELECT zk_session_close()');
is($backends[2]->ask("SELECT zk_lock_acquire('/few/2', '20 s')"),
	't', 'S71: a connection that is given back is used again');
$_->quit foreach @backends;
$limited->stop;

# ---- An ensemble without a quorum (S62, S106).

my $broken = ZkEnsemble->new('broken', servers => 3, start => 0);
$broken->start_server(1, wait => 0);
wait_for(sub { $broken->four_letter(1, 'ruok') eq 'imok' },
	'one server of three');
$other->ask("SET zklock.servers = '${\$broken->connect_string}'");
my $no_quorum = qr/lock "\/quorum": .*HINT: .*majority of the ensemble/s;
$took = time_without_connection($other, '/quorum', $no_quorum);
is($other->sqlstate, '08001', 'no quorum: SQLSTATE 08001');
like($other->errors, $no_quorum, 'no quorum: message and hint');
cmp_ok($took, '<', 4, 'no quorum: in time');
$broken->stop;
$other->ask('RESET zklock.servers; RESET zklock.connect_timeout');
is($other->ask("SELECT zk_lock_acquire('/quorum', '20 s')"),
	't', 'no quorum: the backend continues to work');

# ---- Nothing is asked of the network for what is wrong by itself (S102).

# No client makes another connection because the server is slow, which takes a tenth of
# the session timeout.
$session->ask("SET zklock.servers = '${\$proxy->address}'");
$session->ask("SET zklock.session_timeout = '60s'");
my $longest = 1023 - length '/zklock';
foreach my $path ("''", "'/'", "'jobs'", "'/jobs/'", "'//jobs'", "'/a//b'",
	"'/./a'", "'/a/..'", "E'/a\\x01'", "E'/a\\n'", "E'/a\\u0085'",
	"E'/a\\ufff0'", "'/zookeeper/a'", "'/.zklock'", "'/.zklock/records'",
	"'/' || repeat('x', $longest)")
{
	foreach my $function (
		qw(zk_lock_acquire zk_lock_acquire_xact zk_lock_release zk_lock_token
		zk_lock_verify zk_lock_queue))
	{
		$session->ask("SELECT $function($path)");
		is($session->sqlstate . '|' . ($session->errors =~ /DETAIL: +\S/),
			'22023|1', "S102: $function($path): 22023, and why");
	}
}
refused('a negative timeout', "SELECT zk_lock_acquire('/a', '-1 s')",
	'22023', qr/timeout must not be negative/);
is($session->zk_session->{state}, 'closed', 'S102: nothing was opened');
is($proxy->count->{connect}, undef, 'S102: and no connection was made');
granted('the longest path',
	substr(('/' . 'x' x 255) x 3 . '/y' x 500, 0, $longest));
cmp_ok($proxy->count->{connect} // 0, '==', 1, 'a valid path makes one');
$session->ask('RESET zklock.servers; RESET zklock.session_timeout');

# ---- Settings.

$session->ask("SET zklock.servers = ''");
refused('no servers', "SELECT zk_lock_acquire('/a')",
	'55000', qr/no ZooKeeper servers are configured\nHINT: .*zklock\.servers/);
$session->ask('RESET zklock.servers');
foreach my $case (
	[ 'servers', 'localhost:', qr/no valid port/ ],
	[ 'servers', 'a:1/x,b:2', qr/slash/ ],
	[ 'servers', '::1:2181', qr/brackets/ ],
	[ 'servers', '[::1:2181', qr/closing bracket/ ],
	[ 'servers', '[::1]:', qr/no valid port/ ],
	[ 'servers', 'a:0x885', qr/no valid port/ ],
	[ 'servers', 'a:65536', qr/no valid port/ ],
	[ 'servers', ':2181', qr/no host/ ],
	[ 'servers', '1.2.3:2181', qr/no valid IPv4 address/ ],
	[ 'servers', 'a b:2181', qr/character/ ],
	[ 'servers', 'a:1,,b:1', qr/Server 2 of the list is empty/ ],
	[ 'servers', join(',', map { "a$_:1" } 1 .. 33), qr/more than 32 servers/ ],
	[ 'root', 'zklock', qr/./ ],
	[ 'root', '/a/../b', qr/./ ],
	[ 'session_timeout', '10', qr/outside the valid range/ ],
	[ 'connect_timeout', '-1', qr/outside the valid range/ ],
	[ 'znode_style', 'etcd', qr/HINT: .*curator/ ],
	[ 'commit_guard', 'maybe', qr/HINT: .*lease/ ])
{
	my ($name, $value, $why) = @$case;
	foreach my $command ('SET', 'ALTER SYSTEM SET')
	{
		refused("$command zklock.$name = '$value'",
			"$command zklock.$name = '$value'",
			'22023', qr/^(?=.*zklock\.$name)(?=.*$why)/s);
	}
}
refused('an unknown setting', "SET zklock.server = 'a:1'", '42602', qr/zklock/);
foreach my $good ('a:1', ' a:1 , [::1]:65535', '[fe80::1%lo]:1', 'a:02181')
{
	$session->ask("SET zklock.servers = '$good'");
	is($session->sqlstate, '', "zklock.servers = '$good' is accepted");
}
$session->ask('RESET zklock.servers');

# ---- Privileges within the database.

$node->safe_psql('postgres', 'CREATE ROLE nobody LOGIN; CREATE ROLE owner LOGIN');
my $nobody = ZkPsql->new($node);
$nobody->ask('SET ROLE nobody');

# Before the module is loaded any role can set it, without effect.
$nobody->ask("SET zklock.servers = 'a:1'");
is($nobody->ask("SELECT zk_lock_acquire('/a'), zk_lock_release('/a')"),
	't|t', 'privileges: every role may use locks of its own');
like($nobody->errors, qr/permission denied to set parameter "zklock\.servers"/,
	'privileges: a setting made too early is not taken');
is($nobody->ask('SHOW zklock.servers'), $real, 'privileges: it is not in force');
refused('privileges', "SELECT * FROM zk_lock_queue('/a')",
	'42501', qr/permission denied for function zk_lock_queue/, $nobody);
refused('privileges', "SET zklock.servers = 'a:1'",
	'42501', qr/permission denied.*zklock\.servers/, $nobody);
refused('privileges', "SET zklock.root = '/'",
	'42501', qr/permission denied.*zklock\.root/, $nobody);
$nobody->quit;

# ---- A pooler that gives each transaction another server connection (S79).

my @server = map { ZkPsql->new($node, application_name => "pooled $_") } 1, 2;
$server[0]->ask("SELECT zk_lock_acquire('/pooled')");
is($server[1]->ask("SELECT zk_lock_release('/pooled')"),
	'f', 'S79: a release on another server connection is false');
like($server[1]->errors, qr/^WARNING: .*you don't own lock "\/pooled"/,
	'S79: with a warning');
is( $server[1]->ask(
		"SELECT owner::json ->> 'pid', owner::json ->> 'application_name'"
		  . " FROM zk_lock_queue('/pooled') WHERE granted AND NOT own"),
	$server[0]->pid . '|pooled 1',
	'S79: the queue shows the holder');
$server[1]->ask("SELECT pg_terminate_backend((owner::json ->> 'pid')::integer)"
	  . " FROM zk_lock_queue('/pooled') WHERE granted");
$ensemble->wait_for_queue('/pooled', 0);
pass('S79: and its backend can be terminated');

# Session-level locks can be forbidden to a role.
my $scope = 'FUNCTION zk_lock_acquire(text, interval, boolean)';
$node->safe_psql('postgres',
	"REVOKE EXECUTE ON $scope FROM PUBLIC; GRANT EXECUTE ON $scope TO owner");
$server[1]->ask('SET ROLE nobody');
refused('S79: session scope is forbidden', "SELECT zk_lock_acquire('/pooled')",
	'42501', qr/permission denied for function zk_lock_acquire/, $server[1]);
is($server[1]->ask("SELECT zk_lock_acquire_xact('/pooled')"),
	't', 'S79: transaction scope is not');
$server[1]->ask('SET ROLE owner');
is($server[1]->ask("SELECT zk_lock_acquire('/pooled'), zk_lock_release('/pooled')"),
	't|t', 'S79: nor is session scope for a role with the privilege');
$node->safe_psql('postgres', "GRANT EXECUTE ON $scope TO PUBLIC");
$server[1]->quit;

# ---- ACLs (S60, S59).

$zk->make_path("/zklock/acl/$_") foreach qw(create list delete up watch);
$zk->set_acl('/zklock/acl/create', 'world:anyone:rwda');
refused('S60: no CREATE permission', "SELECT zk_lock_acquire('/acl/create')",
	'42501',
	qr/could not acquire lock "\/acl\/create": .*ACL.*DETAIL: .*CREATE permission is required on znode/s);
refused('S60: no CREATE permission above',
	"SELECT zk_lock_acquire('/acl/create/below')",
	'42501', qr/lock "\/acl\/create\/below": .*ACL/s);

$zk->set_acl('/zklock/acl/list', 'world:anyone:cwda');
refused('S60: no READ permission', "SELECT zk_lock_acquire('/acl/list')",
	'42501', qr/lock "\/acl\/list": .*ACL.*DETAIL: .*READ permission is required on znode/s);
refused('S60: no READ permission', "SELECT * FROM zk_lock_queue('/acl/list')",
	'42501', qr/lock "\/acl\/list": .*ACL/s);
$zk->set_acl('/zklock/acl/list', 'world:anyone:crwda');
$ensemble->wait_for_queue('/acl/list', 0);
pass('S60: which leaves no contender');

# A contender that cannot be read, so that no client can wait for it.
$other->ask("SELECT zk_lock_acquire('/acl/watch')");
my ($contender) = $ensemble->queue('/acl/watch');
$zk->set_acl("/zklock/acl/watch/$contender", 'world:anyone:a');
refused('S60: a contender without READ permission',
	"SELECT zk_lock_acquire('/acl/watch')",
	'42501', qr/lock "\/acl\/watch": .*ACL.*DETAIL: .*$contender/s);
$zk->set_acl("/zklock/acl/watch/$contender", 'world:anyone:crwda');
$ensemble->wait_for_queue('/acl/watch', 1);
$other->ask("SELECT zk_lock_release('/acl/watch')");

# What cannot be deleted goes with the ZooKeeper session.
$zk->set_acl('/zklock/acl/delete', 'world:anyone:crwa');
is($session->ask("SELECT zk_lock_acquire('/acl/delete')"),
	't', 'S60: no DELETE permission: acquired');
my $start = time;
$session->ask("SELECT zk_lock_release('/acl/delete')");
like(
	$session->errors,
	qr/WARNING: .*could not delete the contender of lock "\/acl\/delete".*DETAIL: .*DELETE permission is required on znode/s,
	'S60: no DELETE permission: the release gives a warning');
cmp_ok(time - $start, '<', $prompt, 'S60: no DELETE permission: promptly');
is($session->ask('SELECT count(*) FROM zk_locks'),
	0, 'S60: no DELETE permission: it is not held');
$ensemble->wait_for_queue('/acl/delete', 0);
pass('S60: no DELETE permission: it goes with the ZooKeeper session');

$zk->set_acl('/zklock/acl/up', 'world:anyone:ca');
granted('S59: no READ permission above', '/acl/up/a/b');
$zk->set_acl('/zklock/acl/up', 'world:anyone:crwda');
granted('the backend continues to work', '/acl/list');

# ---- A root that does not exist (S58).

foreach my $root ('/somewhere', '/very/far/away')
{
	$session->ask("SET zklock.root = '$root'");
	granted("S58: root $root", '/deep/down');
	ok($zk->stat("$root/deep/down"), "S58: root $root: it is made");
}
$zk->create('/closed');
$zk->set_acl('/closed', 'world:anyone:ra');
$session->ask("SET zklock.root = '/closed/root'");
refused('S58: a root that cannot be made', "SELECT zk_lock_acquire('/a')",
	'42501', qr/lock "\/a": .*ACL.*DETAIL: .*CREATE permission is required on znode "\/closed"/s);
$session->ask('RESET zklock.root');

# ---- Lock nodes that are none (S61).

$zk->create('/zklock/ephemeral', '', 'ephemeral');
refused("S61: lock path $_", "SELECT zk_lock_acquire('$_')",
	'42809', qr/lock "$_": .*ephemeral.*DETAIL: .*"\/zklock\/ephemeral/s)
  foreach '/ephemeral', '/ephemeral/below', '/ephemeral/far/below';
$zk->delete('/zklock/ephemeral');
granted('S61: when it is deleted', '/ephemeral/below');

# ---- Children that are no contenders (S82).

$zk->make_path('/zklock/odd');
$zk->create("/zklock/odd/$_")
  foreach 'foo', '0', '.x', '-1', '-', '!', '_', 'lock', 'lock-', '__lock__',
  'lock-x', 'x-', 'lock-12345678901', '__READ__', '_c_', "\xc3\xa4",
  'latch-0000000000', 'lease-0000000001', 'y' x 900;
my $log_start = -s $node->logfile;
$session->ask('SELECT zk_session_close()');
granted('S82: children of odd names', '/odd') foreach 1 .. 3;
is($session->ask("SELECT zk_lock_acquire('/odd', '0', shared => true)"),
	't', 'S82: shared');
is($session->ask("SELECT count(*) FROM zk_lock_queue('/odd')"),
	1, 'S82: the queue shows contenders only');
is($other->ask("SELECT zk_lock_acquire('/odd', '0')"),
	'f', 'S82: which exclude each other');
$session->ask("SELECT zk_lock_release('/odd')");
my @warnings = grep { /ignoring znode ".*" below lock node "\/zklock\/odd"/ } split /\n/,
  slurp_file($node->logfile, $log_start);
is(scalar(grep { /\[${\$session->pid}\]/ } @warnings),
	1, 'S82: one warning in the server log');

# ---- A limit of threads.

# Has a process of this user's as many threads as the limit, no other can have
# one more: a limit of 1 is reached at once.
sub limit_threads
{
	my ($pid, $limit) = @_;
	system_or_bail('prlimit', '--pid', $pid, "--nproc=$limit:");
	return;
}

my $before = $session->ask('SELECT pg_backend_pid()');
my ($limit) = slurp_file("/proc/$before/limits") =~ /^Max processes +(\S+)/m;
$session->ask('SELECT zk_session_close()');
limit_threads($session->pid, 1);
refused("no thread can be created", "SELECT zk_lock_acquire('/threads')",
	'53000', qr/thread/);
refused("and not the next time", "SELECT zk_lock_acquire('/threads')",
	'53000', qr/thread/);
is($session->ask('SELECT 1'), 1, 'the backend lives on');
limit_threads($session->pid, $limit);
granted('with threads again', '/threads');

# The helper can be created, but not the threads of the library.
$session->ask('SELECT zk_session_close()');
my %states;
foreach my $spare (0 .. 4)
{
	my $threads = 0;
	foreach (glob '/proc/[0-9]*/status')
	{
		open my $file, '<', $_ or next;
		my $status = join '', <$file>;
		$threads += $1
		  if $status =~ /^Uid:\t$>\t/m && $status =~ /^Threads:\t(\d+)/m;
	}
	limit_threads($session->pid, $threads + $spare);
	$session->ask("SELECT zk_lock_acquire('/threads', '20 s')");
	$states{ $session->sqlstate }++;
	limit_threads($session->pid, $limit);
	$session->ask("SELECT zk_session_close()");
}
note explain \%states;
is_deeply([ grep { !/^(53000)?$/ } keys %states ],
	[], 'whichever thread cannot be created, the error is the same');
granted('in the end', '/threads');

# ---- No backend has crashed.

$ensemble->wait_for_queue('/threads', 0);
unlike(slurp_file($node->logfile),
	qr/terminated by signal|exited with exit code 2|all server processes terminated/,
	'no backend has crashed');

done_testing();
