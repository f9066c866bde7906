# Identities in ZooKeeper: credentials, which no user can see, ACLs, and refused users.

use strict;
use warnings;

use Digest::SHA qw(sha1_base64);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use ZkEnsemble;
use ZkPsql;

# Codes of the C client library.
use constant NOAUTH => -102;

my $secret = 'Sesame-71c9e';
my %password = (app => $secret, admin => 'Basil-3f', bob => 'Clove-8a');

# An identity as ACLs have it.
sub digest
{
	my ($user) = @_;
	return "digest:$user:" . sha1_base64("$user:$password{$user}") . '=';
}

# A lock node stays, with its ACL, however long the test takes.
my $ensemble = ZkEnsemble->new('main',
	tick_time => 500,
	maxSessionTimeout => 60000,
	'java.znode.container.checkIntervalMs' => 3_600_000);
my $proxy = $ensemble->proxy;
my $node = zk_cluster(
	'main', $ensemble,
	settings => {
		'zklock.session_timeout' => '60s',
		'zklock.auth_file' => 'app.auth',
		'zklock.acl' => 'creator, ' . digest('admin'),
		'zklock.root' => '/locked',
		'shared_preload_libraries' => 'zklock',
		'log_statement' => 'none',
		'log_min_duration_statement' => -1,
		'log_min_messages' => 'debug1',
	});

# Write a credential file into the data directory.
sub write_auth
{
	my ($name, $text, $mode) = @_;
	my $file = $node->data_dir . "/$name";
	unlink $file;
	PostgreSQL::Test::Utils::append_to_file($file, $text);
	chmod $mode // 0600, $file or die "$file: $!";
	return $file;
}

write_auth('app.auth', "app:$secret\n");
write_auth('bob.auth', "bob:$password{bob}");
write_auth('wrong.auth', "app:not-$secret\n");

# A client that reads znodes as this user, or without an identity.
sub probe
{
	my ($user) = @_;
	my $zk = ZkProbe->new($ensemble->connect_string);
	$zk->auth('digest', "$user:$password{$user}") if $user;
	return $zk;
}

my ($world, $app, $admin) = map { probe($_) } undef, 'app', 'admin';

# An error, promptly: sooner than zklock.connect_timeout or the ZooKeeper session's
# timeout would end the call.
sub refused
{
	my ($what, $session, $sql, $sqlstate, $message) = @_;
	my $start = time;
	$session->ask($sql);
	is($session->sqlstate, $sqlstate, "$what: SQLSTATE $sqlstate");
	like($session->errors, $message, "$what: message");
	unlike($session->errors, qr/$secret/, "$what: without the password");
	cmp_ok(time - $start, '<', 8, "$what: promptly");
	return;
}

sub granted
{
	my ($what, $session, $path) = @_;
	is($session->ask("SELECT zk_lock_acquire('$path', '20 s')"),
		't', "$what: acquired");
	is($session->ask("SELECT zk_lock_release('$path')"), 't', "$what: released");
	return;
}

# ---- ACLs of what is created (S115).

my $expected = digest('app') . ':rwcda,' . digest('admin') . ':rwcda';
my $holder = ZkPsql->new($node);
my $waiter = ZkPsql->new($node);

is($holder->ask("SELECT zk_lock_acquire('/jobs/nightly')"),
	't', 'S115: a lock is acquired');
my ($contender) = $app->ls('/locked/jobs/nightly');
my $path = "/locked/jobs/nightly/$contender";
is($app->acl($_), $expected, "S115: ACL of $_")
  foreach '/locked', '/locked/jobs', '/locked/jobs/nightly', $path,
  '/locked/.zklock', '/locked/.zklock/users';
is($admin->acl('/locked/.zklock/users/app'),
	"$expected,world:anyone:r", 'S115: ACL of the user node');

foreach my $command (
	[ 'ls', '/locked' ],
	[ 'ls', '/locked/jobs/nightly' ],
	[ 'get', $path ],
	[ 'set', $path, 'x' ],
	[ 'delete', $path ],
	[ 'create', '/locked/jobs/nightly/x' ],
	[ 'create', '/locked/x' ],
	[ 'acl', $path ],
	[ 'acl', '/locked', 'world:anyone:rwcda' ],
	[ 'delete', '/locked/.zklock/users/app' ])
{
	my ($rc) = $world->call(@$command);
	is($rc, NOAUTH, "S115: the world may not: @$command");
}
is(join(',', $world->ls('/locked/.zklock/users/app')),
	'', 'S115: the user node has nothing');

# What a request to give a lock back, and breaking a lock, come down to.
$app->set($path, $app->get($path));
pass('S115: the same user may write to a contender');
ok($admin->delete($path), 'S115: an administrator may delete it');
$holder->wait_until_lost('/jobs/nightly');
$holder->ask("SELECT zk_lock_release('/jobs/nightly')");
is($holder->ask("SELECT zk_lock_acquire('/jobs/nightly')"), 't',
	'S115: acquired again');
ok($app->delete("/locked/jobs/nightly/" . ($app->ls('/locked/jobs/nightly'))[0]),
	'S115: and so may the same user');
$holder->wait_until_lost('/jobs/nightly');
$holder->ask("SELECT zk_lock_release('/jobs/nightly')");

# Who waits, who shares, who turns exclusive into shared.
$holder->ask("SELECT zk_lock_acquire('/jobs/nightly')");
$holder->ask("SELECT zk_lock_acquire('/jobs/nightly', shared => true)");
$waiter->send("SELECT zk_lock_acquire('/jobs/nightly', shared => true)");
wait_for(sub { $app->ls('/locked/jobs/nightly') == 2 }, 'two contenders');
$holder->ask("SELECT zk_lock_release('/jobs/nightly', false)");
is($waiter->answer, 't', 'S115: a reader is let in');
is_deeply(
	[ map { $app->acl("/locked/jobs/nightly/$_") } $app->ls('/locked/jobs/nightly') ],
	[ $expected, $expected ],
	'S115: ACLs of the contenders of both readers');
is($holder->ask("SELECT count(*) FROM zk_lock_queue('/jobs/nightly') WHERE granted"),
	2, 'S115: the queue can be read');
$_->ask('SELECT zk_lock_release_all()') foreach $holder, $waiter;

# An open ACL is one when it is asked for.
$holder->ask("SET zklock.acl = 'open'; SET zklock.root = '/open'");
$holder->ask("SELECT zk_lock_acquire('/a')");
is($world->acl($_), 'world:anyone:rwcda', "open: ACL of $_")
  foreach '/open', '/open/a', '/open/a/' . ($world->ls('/open/a'))[0];
is_deeply([ $world->ls('/open') ], ['a'], 'open: there is no user node');
$holder->ask('SELECT zk_lock_release_all()');
$holder->ask('RESET zklock.acl; RESET zklock.root');

# The library shows who it is on every connection, a new handle as well.
$holder->ask("SET zklock.servers = '${\$proxy->address}'");
$holder->ask("SELECT zk_lock_acquire('/jobs/nightly')");
my $before = $holder->zk_session;
$proxy->cut;
wait_for(
	sub {
		my $now = $holder->zk_session;
		$now->{state} eq 'connected' && $now->{reconnects} > $before->{reconnects};
	},
	'a new connection');
is($holder->zk_session->{session_id},
	$before->{session_id}, 'a new connection of the same ZooKeeper session');
is($holder->ask("SELECT zk_lock_verify('/jobs/nightly') > 0"),
	't', 'is authenticated as well: the lock is proved');
is($holder->ask("SELECT zk_lock_release('/jobs/nightly')"),
	't', 'and released');
granted('another lock, too', $holder, '/jobs/daily');
$holder->ask('RESET zklock.servers');

# ---- A wrong password: 28000.  Not the right one: 42501.

my $wrong = ZkPsql->new($node);
$wrong->ask("SET zklock.auth_file = 'wrong.auth'");
my $failed = qr/authentication with ZooKeeper failed\nDETAIL: .*The configured user's password does not match the ACL of znode ".*"\.\nHINT: .*password/;
refused("wrong password, $_", $wrong, "SELECT zk_lock_acquire('$_')",
	'28000', qr/lock "$_": $failed/)
  foreach '/jobs/nightly', '/new', '/new/below';
refused(
	'wrong password, queue', $wrong,
	"SELECT * FROM zk_lock_queue('/jobs/nightly')",
	'28000', qr/lock "\/jobs\/nightly": $failed/);
refused('wrong password in zklock.auth', $wrong,
	"SET zklock.auth_file = ''; SET zklock.auth = 'app:not'; SELECT zk_lock_acquire('/new')",
	'28000', qr/lock "\/new": $failed/);
$wrong->ask("SET zklock.auth = 'app:$secret'", 'quiet');
granted('the right one in zklock.auth', $wrong, '/jobs/daily');
$wrong->ask("RESET zklock.auth; SET zklock.auth_file = 'wrong.auth'");

my $bob = ZkPsql->new($node);
$bob->ask("SET zklock.auth_file = 'bob.auth'");
my $denied = qr/permission denied by a ZooKeeper ACL\nDETAIL: +(?:CREATE|READ) permission is required on znode/;
my $no_create = qr/permission denied by a ZooKeeper ACL\nDETAIL: +CREATE permission is required on znode/;
my $no_read = qr/permission denied by a ZooKeeper ACL\nDETAIL: +READ permission is required on znode/;
refused(
	'another user', $bob,
	"SELECT zk_lock_acquire('/jobs/nightly')",
	'42501',
	qr/$no_create "\/locked\/jobs\/nightly"\.\nHINT: .*does not admit.*password/
);
refused(
	'another user, queue', $bob,
	"SELECT * FROM zk_lock_queue('/jobs/nightly')",
	'42501',
	qr/$no_read "\/locked\/jobs\/nightly"\./);
my $anybody = ZkPsql->new($node);
$anybody->ask("SET zklock.auth_file = ''; SET zklock.acl = 'open'");
refused('a client without credentials', $anybody,
	"SELECT zk_lock_acquire('/jobs/nightly')",
	'42501', $no_create);

# What an administrator has made, which tells more or less.
foreach my $case (
	[ 'may be read', digest('app') . ':rwcda,world:anyone:r', '28000' ],
	[ 'may be read, no ADMIN', digest('app') . ':rwcd,world:anyone:r', '28000' ],
	[ 'may not be read', digest('app') . ':rwcda', '42501' ],
	[ 'is for another user', digest('bob') . ':rwcda,world:anyone:r', '42501' ])
{
	my ($what, $acl, $sqlstate) = @$case;
	$world->create('/made');
	$world->set_acl('/made', $acl);
	$wrong->ask("SET zklock.root = '/made'");
	refused("wrong password, a root that $what", $wrong,
		"SELECT zk_lock_acquire('/a/b')",
		$sqlstate, $sqlstate eq '28000' ? $failed : $denied);
	$world->delete('/made');
}
$wrong->quit;

# ---- Forbidden to all: logged once, not repeatedly.

$world->create('/closed');
$world->set_acl('/closed', 'world:anyone:r');
foreach my $root ('/closed', '/closed/root', '/closed/far/away')
{
	$holder->ask("SET zklock.root = '$root'");
	refused("root $root", $holder, "SELECT zk_lock_acquire('/a/b')", '42501',
		qr/lock "\/a\/b": $no_create "\/closed"\.\nHINT: .*ACL/
	);
}
my $session_id = $holder->zk_session->{session_id};
my ($received) = $ensemble->packets($session_id);
my $start = time;
sleep 1;
my ($later) = $ensemble->packets($session_id);
cmp_ok($later - $received, '<=', 3 + 3 * (time - $start),
	'a forbidden root is not tried again');
$holder->ask('RESET zklock.root');
granted('the backend continues to work', $holder, '/jobs/daily');

# An ACL that the ensemble does not accept is not replaced by another one.
foreach my $admin ('ip:nonsense', 'sasl:admin')
{
	$holder->ask("SET zklock.acl = 'creator, $admin'");
	refused("administrator $admin", $holder,
		"SELECT zk_lock_acquire('/odd/acl')", '22023',
		qr/lock "\/odd\/acl": ZooKeeper rejected the ACL in "zklock\.acl"\n.*HINT: .*zklock\.acl/s);
}
$holder->ask('RESET zklock.acl');
is($app->stat('/locked/odd'), undef, 'nothing is made with another ACL');

# A contender that may not be read is listed all the same.
$holder->ask("SELECT zk_lock_acquire('/jobs/hidden')");
($contender) = $app->ls('/locked/jobs/hidden');
$app->set_acl("/locked/jobs/hidden/$contender", digest('admin') . ':rwcda');
my $shown =
  $app->may_stat("/locked/jobs/hidden/$contender") ? 't|t|t' : '||';
is( $waiter->ask(
		"SELECT contender, granted, owner IS NULL,
			session_id = '${\$holder->zk_session->{session_id}}', token > 0, age < '1 min'
		 FROM zk_lock_queue('/jobs/hidden')"),
	"$contender|t|t|$shown",
	'a contender that may not be read is in the queue, without its data');
$holder->ask('SELECT zk_session_close()');

# ---- The ensemble refuses the scheme, or insists on one.

my $deaf = ZkEnsemble->new('deaf',
	'java.zookeeper.DigestAuthenticationProvider.enabled' => 'false');
my $deaf_proxy = $deaf->proxy;
$holder->ask("SET zklock.servers = '${\$deaf_proxy->address}'");
refused("refused scheme, $_", $holder, "SELECT zk_lock_acquire('/a')",
	'28000', qr/lock "\/a": authentication with ZooKeeper failed\nDETAIL: .*refused/)
  foreach 'first', 'second';
refused('refused scheme, queue', $holder, "SELECT * FROM zk_lock_queue('/a')",
	'28000', qr/lock "\/a": authentication with ZooKeeper failed/);
wait_for(sub { $holder->zk_session->{state} eq 'closed' }, 'the end of it');
cmp_ok($deaf_proxy->accepted, '<=', 6,
	'refused scheme: hardly more connections than calls');
sleep 2;
is($deaf_proxy->accepted, 0, 'refused scheme: no connection without a call');
$deaf->stop;

my $strict = ZkEnsemble->new(
	'strict',
	'java.zookeeper.enforce.auth.enabled' => 'true',
	'java.zookeeper.enforce.auth.schemes' => 'digest');
$anybody->ask("SET zklock.servers = '${\$strict->connect_string}'");
refused('no credential where one is insisted on',
	$anybody, "SELECT zk_lock_acquire('/a/b')",
	'28000', qr/lock "\/a\/b": authentication with ZooKeeper failed/);
refused('no credential where one is insisted on, queue',
	$anybody, "SELECT * FROM zk_lock_queue('/a/b')",
	'28000', qr/lock "\/a\/b": authentication with ZooKeeper failed/);

# It says so once, and closes the connection: that answer may be lost.
my $strict_proxy = $strict->proxy;
$anybody->ask("SET zklock.servers = '${\$strict_proxy->address}'");
$strict_proxy->cut_after_request('create2', 1);
refused('the answer to no credential is lost',
	$anybody, "SELECT zk_lock_acquire('/a/b')",
	'28000', qr/lock "\/a\/b": authentication with ZooKeeper failed/);
cmp_ok($strict_proxy->fired, '==', 1, 'it was lost');

$holder->ask("SET zklock.servers = '${\$strict->connect_string}'");
granted('a credential where one is insisted on', $holder, '/a/b');
$holder->ask('SELECT zk_session_close(); RESET zklock.servers');
$strict->stop;

# ---- The file.

my $file = $node->data_dir . '/odd.auth';
symlink 'app.auth', $node->data_dir . '/link.auth' or die "symlink: $!";
mkdir $node->data_dir . '/folder.auth' or die "mkdir: $!";
$node->safe_psql('postgres', 'CREATE ROLE nobody LOGIN');
foreach my $case (
	[ 'readable by the group', "app:$secret\n", 0640, 'F0000', qr/access/ ],
	[ 'readable by all', "app:$secret\n", 0604, 'F0000', qr/access/ ],
	[ 'empty', '', 0600, 'F0000', qr/file is empty/ ],
	[ 'without a colon', "$secret\n", 0600, 'F0000', qr/no colon/ ],
	[ 'without a user', ":$secret\n", 0600, 'F0000', qr/no user/ ],
	[ 'of two lines', "app:$secret\nbob:x\n", 0600, 'F0000', qr/one line/ ],
	[ 'with a carriage return', "app:$secret\r\n", 0600, 'F0000', qr/control/ ],
	[ 'too long', "app:$secret" . 'x' x 4096, 0600, 'F0000', qr/longer/ ],
	[ 'unreadable', "app:$secret\n", 0000, '42501', qr/could not open/ ])
{
	my ($what, $text, $mode, $sqlstate, $message) = @$case;
	write_auth('odd.auth', $text, $mode);
	$holder->ask("SET zklock.auth_file = 'odd.auth'");
	refused("a file $what", $holder, "SELECT zk_lock_acquire('/a')",
		$sqlstate, $message);
	like($holder->errors, qr/\Q$file\E/, "a file $what: its name");
}
foreach my $case (
	[ 'odd', '58P01', qr/could not open/ ],
	[ 'folder', 'F0000', qr/not a regular file/ ])
{
	my ($name, $sqlstate, $message) = @$case;
	unlink $file;
	$holder->ask("SET zklock.auth_file = '$name.auth'; SET ROLE nobody");
	refused("$name.auth", $holder, "SELECT zk_lock_acquire('/a')",
		$sqlstate, $message);
	unlike($holder->errors, qr/$name\.auth/,
		"$name.auth: users are not told its name");
	$holder->ask('RESET ROLE');
}
$holder->ask("SET zklock.auth_file = '/etc/passwd'");
refused('a file of root that all can read', $holder, "SELECT zk_lock_acquire('/a')",
	'F0000', qr/group or world access/);
foreach my $good ('link.auth', $node->data_dir . '/app.auth')
{
	$holder->ask("SET zklock.auth_file = '$good'");
	granted("the file $good", $holder, '/jobs/daily');
}
$holder->ask('RESET zklock.auth_file');

# ---- Changes while sessions run (S114).

# With this session timeout the client does not leave a server that is slow.
$holder->ask("SELECT zk_session_close(); SET zklock.session_timeout = '60s'");
$holder->ask("SELECT zk_lock_acquire('/jobs/kept')");
$before = $holder->zk_session;
$node->safe_psql('postgres',
	"ALTER SYSTEM SET zklock.auth_file = '${\$node->data_dir}/bob.auth'");
$node->safe_psql('postgres',
	"ALTER SYSTEM SET zklock.servers = '${\$proxy->address}'");
$node->reload;
wait_for(sub { $holder->ask('SHOW zklock.servers') eq $proxy->address },
	'the settings to be read again');
is($holder->ask("SELECT zk_lock_verify('/jobs/kept') > 0"),
	't', 'S114: a lock that is held is kept');
is($holder->ask("SELECT zk_lock_acquire('/jobs/another')"),
	't', 'S114: and others are acquired as before');
is_deeply($holder->zk_session, $before,
	'S114: with the same ZooKeeper session');
$holder->ask('SELECT zk_lock_release_all()');
refused('S114: when nothing is held the new settings count',
	$holder, "SELECT zk_lock_acquire('/jobs/kept')", '42501', $denied);
isnt($holder->zk_session->{session_id},
	$before->{session_id}, 'S114: with another ZooKeeper session');
is($holder->zk_session->{server}, $proxy->address, 'S114: to another server');
$node->safe_psql('postgres', "ALTER SYSTEM RESET $_")
  foreach 'zklock.auth_file', 'zklock.servers';
$node->reload;
wait_for(sub { $holder->ask('SHOW zklock.auth_file') eq 'app.auth' },
	'the settings to be read again');
granted('S114: and back', $holder, '/jobs/kept');

# The file is read again when it has changed.
$session_id = $holder->zk_session->{session_id};
granted('S114: the same file', $holder, '/jobs/kept');
is($holder->zk_session->{session_id},
	$session_id, 'S114: the same ZooKeeper session');
write_auth('app.auth', "app:not-$secret\n");
refused('S114: another password in the file', $holder,
	"SELECT zk_lock_acquire('/jobs/kept')", '28000', $failed);
write_auth('app.auth', "app:$secret\n");
granted('S114: and back', $holder, '/jobs/kept');

# ---- The password is shown nowhere (S113).

# All that PostgreSQL has about settings, as text.
my @views = (
	'pg_settings', 'pg_show_all_settings()',
	'pg_db_role_setting', 'pg_file_settings',
	'pg_stat_activity', 'pg_proc');

# A value that a superuser has set, seen by others in the same session.
my $spy = ZkPsql->new($node);
$node->safe_psql('postgres',
	'CREATE ROLE monitor LOGIN; GRANT pg_monitor TO monitor');
$spy->ask("SET zklock.auth_file = ''; SET zklock.auth = 'app:$secret'", 'quiet');
granted('S113: it is in use', $spy, '/jobs/daily');
foreach my $role ('postgres', 'monitor', 'nobody')
{
	$spy->ask("SET ROLE $role");
	foreach my $sql (
		'SHOW zklock.auth',
		'SHOW ALL',
		"SELECT current_setting('zklock.auth')",
		"EXPLAIN (SETTINGS, VERBOSE) SELECT 1",
		map { "SELECT v FROM $_ v" } @views)
	{
		my $shown = $spy->ask($sql, 'quiet') . $spy->errors;
		unlike($shown, qr/$secret/, "S113: $role: $sql");
	}
	like($spy->ask('SHOW zklock.auth') . $spy->errors,
		qr/^\*+\n?$|42501/, "S113: $role: all there is to see");
}
$spy->ask('RESET ROLE');

# Nor is a statement that sets it, to whom others' statements are hidden.
my $nobody = ZkPsql->new($node);
$nobody->ask('SET SESSION AUTHORIZATION nobody');
$spy->ask("SET zklock.auth = 'app:$secret'", 'quiet');
is($nobody->ask("SELECT query FROM pg_stat_activity WHERE pid = ${\$spy->pid}"),
	'<insufficient privilege>', 'S113: others do not see the statement');

# What fails, also within functions, which have a context to tell.
foreach my $sql (
	"SET zklock.auth = '$secret'",
	"SELECT set_config('zklock.auth', '$secret', false)",
	"DO \$\$ BEGIN EXECUTE 'SET zklock.auth = ''$secret'''; END \$\$",
	"DO \$\$ BEGIN PERFORM set_config('zklock.auth', '$secret', true); END \$\$",
	"SET zklock.acl = 'creator, digest:app:$secret'",
	"ALTER SYSTEM SET zklock.auth = 'app:$secret'",
	"ALTER DATABASE postgres SET zklock.auth = 'app:$secret'",
	"ALTER ROLE nobody SET zklock.auth = 'app:$secret'",
	"ALTER ROLE nobody IN DATABASE postgres SET zklock.auth = 'app:$secret'",
	"CREATE FUNCTION leak() RETURNS integer LANGUAGE sql SET zklock.auth = 'app:$secret' AS 'SELECT 1'"
  )
{
	$spy->ask($sql, 'quiet');
	my $name = $sql =~ s/$secret/.../r;
	like($spy->sqlstate, qr/^(22023|55P02)$/, "S113: $name: refused");
	unlike($spy->errors, qr/$secret/, "S113: $name: not quoted");
}
$spy->quit;

# Setting it before the library is loaded; and the options of a connection.
my $log_start = -s $node->logfile;
my ($rc, $stdout, $stderr) = $node->psql('postgres',
	"SELECT zk_lock_acquire('/jobs/daily')",
	connstr => $node->connstr('postgres')
	  . " options='-c zklock.auth_file= -c zklock.auth=app:$secret'");
is("$rc|$stdout|$stderr", '0|t|', 'S113: the options of a connection may have it');
($rc, $stdout, $stderr) = $node->psql('postgres', undef,
	connstr => $node->connstr('postgres')
	  . " user=nobody options='-c zklock.auth=app:$secret'");
isnt($rc, 0, 'S113: but not those of an ordinary user');
unlike($stderr, qr/$secret/, 'S113: and the error does not quote it');

# The configuration file: refused, and not told in the log.
$node->append_conf('postgresql.conf', "zklock.auth = 'app:$secret'");
$node->reload;
wait_for(
	sub {
		slurp_file($node->logfile, $log_start) =~
		  /parameter "zklock\.auth" can only be set within a session/;
	},
	'the configuration file to be refused');
is($holder->ask('SHOW zklock.auth'), '', 'S113: the configuration file is refused');
$node->restart;
$holder = ZkPsql->new($node);
is($holder->ask('SHOW zklock.auth'),
	'', 'S113: at the start of the server, too');
refused('S113: the server runs without, and its sessions lock nothing',
	$holder, "SELECT zk_lock_acquire('/jobs/daily')",
	'22023', qr/could not apply the value that was given for parameter "zklock\.auth"/);
$node->adjust_conf('postgresql.conf', 'zklock.auth', undef);
$node->reload;

# Without preloading, PostgreSQL itself takes what an ordinary user sets; that
# comes to nothing when the library is loaded.
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->restart;
$nobody = ZkPsql->new($node);
$nobody->ask('SET SESSION AUTHORIZATION nobody');
$nobody->ask("SET zklock.auth = 'app:$secret'; SET zklock.auth_file = ''", 'quiet');
$nobody->ask("SET zklock.acl = 'open'");
granted('S113: SET of an ordinary user has no effect', $nobody, '/jobs/daily');
like(
	$node->safe_psql('postgres',
		"LOAD 'zklock'; SET zklock.acl = 'open'; SHOW zklock.auth_file"),
	qr/app\.auth/,
	'S113: the setting that does');

# ---- Who may call what (S118).

my %for_public = map { $_ => 1 } qw(
  pg_stat_zklock pg_stat_zklock_waits zk_blocking_pids zk_job_history zk_job_missed zk_lock_waits
  zk_lock_wait zk_lock_acquire
  zk_lock_acquire_xact zk_lock_fence zk_lock_fence_trigger
  zk_lock_release zk_lock_release_all zk_lock_lease zk_lock_token zk_lock_verify zk_locks
  zk_semaphore_acquire zk_semaphore_acquire_xact zk_semaphore_release zk_semaphore_wait
  zk_session zk_session_close);
my @functions = split /\n/, $node->safe_psql('postgres', q(
	SELECT DISTINCT proname, has_function_privilege('nobody', p.oid, 'EXECUTE')
	FROM pg_proc p JOIN pg_depend ON objid = p.oid AND deptype = 'e'
		AND classid = 'pg_proc'::regclass
	WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'zklock')));
cmp_ok(scalar @functions, '>', keys %for_public, 'S118: there are functions');
is_deeply(
	[ sort map { /(.*)\|t/ } @functions ],
	[ sort keys %for_public ], 'S118: PUBLIC may execute what concerns own locks only');
refused('S118: the queue of others', $nobody, "SELECT zk_lock_queue('/a')",
	'42501', qr/permission denied for function/);
refused('S118: others\' fences', $nobody, "SELECT zk_lock_fence_reset('/a')",
	'42501', qr/permission denied for function/);

# ---- A path cannot leave the root.

my @outside = grep { !m{^/locked} } $admin->tree('/');
foreach my $bad ('/..', '/../a', '/a/../../../b', '/./a', '//a', '../a', '',
	'/.zklock', '/.zklock/users/app')
{
	refused("path $bad", $nobody, "SELECT zk_lock_acquire('$bad')",
		'22023', qr/invalid lock path/);
}
is_deeply([ grep { !m{^/locked} } $admin->tree('/') ],
	\@outside, 'nothing was made outside of the root');

# ---- Nothing of all that is in the log.

my $log = slurp_file($node->logfile);
unlike($log, qr/$secret/, 'S113: the password is not in the server log');
unlike($log, qr/Clove|Basil/, 'S113: and another one is not, either');
like($log, qr/The file is ".*odd\.auth"/, 'though other things are');
unlike($log,
	qr/terminated by signal|exited with exit code 2|all server processes terminated/,
	'no backend has crashed');

done_testing();
