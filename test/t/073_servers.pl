# Servers with limits, or with requirements that this client does not meet: an error
# that says so, in time.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;

my $tmp = $PostgreSQL::Test::Utils::tmp_check;

# The limit of connections is the servers' default.
my $ensemble = ZkEnsemble->new('main',
	maxSessionTimeout => 60000,
	maxClientCnxns => 60,
	enforceQuota => 'true');
my $zk = $ensemble->zk;
my $node = zk_cluster('main', $ensemble,
	settings => { 'zklock.connect_timeout' => '20s' });
my $session = ZkPsql->new($node, 'zklock.session_timeout' => '60s');

# A statement fails like this, promptly or after so many seconds.  With several tries one
# suffices.  Returns how many it took.
sub fails
{
	my ($what, $sql, $sqlstate, $message, $seconds, $tries) = @_;
	my $limit = ($seconds // 0) + 7;
	my ($took, $try);
	foreach (1 .. $tries // 1)
	{
		my $start = time;
		$session->ask($sql);
		$took = time - $start;
		$try = $_;
		last if $took < $limit && $session->errors =~ $message;
	}
	is($session->sqlstate, $sqlstate, "$what: SQLSTATE $sqlstate");
	like($session->errors, $message, "$what: message");
	cmp_ok($took, '<', $limit, "$what: in time");
	return $try;
}

# The same without a connection, for which it waits 3 s; the server may stand still for as
# long, so there are more tries.
sub fails_to_connect
{
	my ($what, $sql, $message) = @_;
	$session->ask("SET zklock.connect_timeout = '3s'");
	my $tries = fails($what, $sql, '08001', $message, 3, 5);
	$session->ask('RESET zklock.connect_timeout');
	return $tries;
}

# ---- A quota, as ZooKeeper's own command line sets it (S106).

$zk->make_path('/zklock/quota/below');
$zk->make_path('/zookeeper/quota/zklock/quota');
$zk->create('/zookeeper/quota/zklock/quota/zookeeper_limits',
	'count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3');
$zk->create('/zookeeper/quota/zklock/quota/zookeeper_stats',
	'count=2,bytes=0');
is($session->ask("SELECT zk_lock_acquire('/quota/below')"),
	't', 'S106: within the quota a lock is acquired');
my $other = ZkPsql->new($node, 'zklock.session_timeout' => '60s');
$other->ask("SELECT zk_lock_acquire('/elsewhere')");
fails('S106: beyond the quota', "SELECT zk_lock_acquire('/quota')",
	'53400', qr/lock "\/quota": ZooKeeper quota exceeded\n.*DETAIL: .*quota exceeded.*HINT: .*quota/s);
fails('S106: beyond the quota, with a lock node to be made',
	"SELECT zk_lock_acquire('/quota/new')",
	'53400', qr/lock "\/quota\/new": ZooKeeper quota exceeded\n.*DETAIL: .*"\/zklock\/quota\/new": quota exceeded/s);
is($session->ask("SELECT zk_lock_release('/quota/below')"),
	't', 'S106: a lock that is held can be released');
is($session->ask("SELECT zk_lock_acquire('/quota')"),
	't', 'S106: which makes room');
$session->ask("SELECT zk_lock_release_all()");

# ---- As many backends as a server takes connections from one host, and more (S71).
# The probe has one of them, and a four-letter word takes one for a moment.

my $gate = ZkPsql->new($node);
$session->ask('SELECT zk_session_close()');
$other->ask('SELECT zk_session_close()');
wait_for(sub { keys %{ $ensemble->connections } == 1 },
	'all connections but one to be closed');
my $script = $node->basedir . '/crowd.sql';
append_to_file($script, "SELECT zk_lock_acquire('/crowd/' || pg_backend_pid());\n"
	  . "SELECT pg_advisory_lock_shared(1);\n");
$gate->ask('SELECT pg_advisory_lock(1)');
my ($output, $errors) = ('', '');
my $crowd = do
{
	# Together they keep a machine busy, and none is to fail for that.
	local $ENV{PGOPTIONS} =
	  '-c zklock.connect_timeout=60s -c zklock.session_timeout=60s';
	IPC::Run::start(
		[
			'pgbench', '--no-vacuum', '--file', $script, '--client', 59,
			'--transactions', 1, '--host', $node->host, '--port', $node->port,
			'postgres'
		],
		'>', \$output,
		'2>', \$errors);
};
wait_for(
	sub { 59 == grep { $zk->ls("/zklock/crowd/$_") } $zk->ls('/zklock/crowd') },
	'59 backends to hold a lock', 300);
my $log = slurp_file($ensemble->logfile(1));
my $tries = fails_to_connect(
	'S71: the 61st connection', "SELECT zk_lock_acquire('/crowd')",
	qr/could not connect to ZooKeeper.*HINT: .*maxClientCnxns/s);
my $refused = () =
  substr(slurp_file($ensemble->logfile(1)), length $log) =~
  /Too many connections from/g;
note "refused $refused times";
cmp_ok($refused, '>=', 1, 'S71: it was refused');
cmp_ok($refused, '<=', $tries * 3 * 10, 'S71: and did not ask all the time');
$other->ask("SET zklock.connect_timeout = '60s'");
$other->send("SELECT zk_lock_acquire('/crowd')");
$gate->ask('SELECT pg_advisory_unlock(1)');
$crowd->finish;
like($output, qr{processed: 59/59$}m, 'S71: all others had a connection');
is($other->answer, 't', 'S71: when they have ended, the next client gets a connection');
is($session->ask("SELECT zk_lock_acquire('/crowd/again')"),
	't', 'S71: and so does the one that was refused');
$_->ask('SELECT zk_session_close()') foreach $session, $other;
$ensemble->stop;

# ---- A server that throttles: what it has not executed is tried again (S106).
# No client leaves it because it is slow: that takes a part of the session timeout.

my $slow = ZkEnsemble->new('slow',
	servers => 3,
	syncLimit => 60,
	maxSessionTimeout => 60000,
	'java.zookeeper.request_throttle_max_requests' => 1,
	'java.zookeeper.throttled_op_wait_time' => 300);
my ($follower) = $slow->followers;
my $leader = $slow->leader;
my $proxy = $slow->proxy($follower);
$session->ask("SET zklock.servers = '${\$proxy->address}'");
$other->ask("SET zklock.servers = '${\$slow->address($follower)}'");
foreach my $backend ($session, $other)
{
	$backend->ask("SELECT zk_lock_acquire('/$_'), zk_lock_release('/$_')")
	  foreach qw(throttled first);
}

# How many packets the follower has received from a client; not of ZkEnsemble, which
# would ask the paused leader, too.
sub received
{
	my ($id) = @_;
	my ($count) = $slow->four_letter($follower, 'cons') =~ /recved=(\d+),[^()]*sid=$id,/;
	return $count // 0;
}

# Another backend's request waits for the leader, and this one's first request of a
# type behind it.  A read is outstanding for a moment only, such as a heartbeat.
sub throttled
{
	my ($what, $sql, $answer, $type) = @_;
	my $throttled = $slow->mntr($follower)->{throttled_ops};
	my $fired = $proxy->fired;
	my $times = 0;
	my $id = $session->zk_session->{session_id};
	$proxy->hold_request($type);
	$session->send($sql);
	wait_for(sub { $proxy->fired > $fired }, 'the request to be on its way');
	$slow->pause_server($leader);
	$other->send("SELECT zk_lock_acquire('/first'), zk_lock_release('/first')");
	wait_for(sub {
		$times = $slow->mntr($follower)->{outstanding_requests} > 0 ? $times + 1 : 0;
		return $times == 5;
	}, 'the first request to stay outstanding');
	$proxy->count;
	my $received = received($id);
	$proxy->pass;
	wait_for(sub { received($id) > $received }, 'the follower to have the request');
	my $until = time + 1;
	wait_for(sub { time > $until }, 'a request to have waited long enough');
	$slow->resume_server($leader);
	is($session->answer, $answer, "S106: throttled: $what");
	is($session->errors, '', "S106: throttled: $what: without an error");
	cmp_ok($slow->mntr($follower)->{throttled_ops},
		'>', $throttled, "S106: $what: the server throttled");
	cmp_ok($proxy->count->{$type}, '>=', 1, "S106: $what: it was tried again");
	is($other->answer, 't|t', "S106: $what: so was the other one");
	return;
}

my $queue = "SELECT count(*) FROM zk_lock_queue('/throttled') WHERE own";
throttled('acquire', "SELECT zk_lock_acquire('/throttled')", 't', 'create2');
throttled('list', $queue, '1', 'getChildren');
throttled('data', $queue, '1', 'getData');
throttled('release', "SELECT zk_lock_release('/throttled')", 't', 'delete');
$slow->wait_for_queue('/throttled', 0);
foreach my $backend ($session, $other)
{
	$backend->ask('SELECT zk_session_close()');
	$backend->ask('RESET zklock.session_timeout');
}
$slow->stop;

# ---- A server for TLS only (S117).

my $keys = "$tmp/keys.p12";
my %tls = (
	serverCnxnFactory => 'org.apache.zookeeper.server.NettyServerCnxnFactory',
	'ssl.keyStore.location' => $keys,
	'ssl.keyStore.password' => 'secret',
	'ssl.clientAuth' => 'none');
system_or_bail('keytool', '-genkeypair', '-alias', 'server', '-keyalg', 'EC',
	'-dname', 'CN=localhost', '-storetype', 'PKCS12', '-keystore', $keys,
	'-storepass', $tls{'ssl.keyStore.password'});
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $tls = ZkEnsemble->new('tls', secureClientPort => $port, %tls);
command_like(
	[ 'keytool', '-printcert', '-sslserver', "127.0.0.1:$port" ],
	qr/CN=localhost/,
	'S117: a server speaks TLS');
$session->ask("SET zklock.servers = '127.0.0.1:$port'");
fails_to_connect('S117: TLS only', "SELECT zk_lock_acquire('/tls')",
	qr/could not connect to ZooKeeper\n.*HINT: .* TLS/s);
$session->ask("SET zklock.servers = '${\$tls->connect_string}'");
is($session->ask("SELECT zk_lock_acquire('/tls', '20 s')"),
	't', 'S117: on its other port it takes us');
$session->ask('SELECT zk_session_close()');
$tls->stop;

# ---- Servers that serve only who has authenticated (S117).

my $provider = 'org.apache.zookeeper.server.auth.SASLAuthenticationProvider';
my %strict = (
	sasl => [ sessionRequireClientSASLAuth => 'true' ],
	any => [ 'enforce.auth.enabled' => 'true', 'enforce.auth.schemes' => 'digest,sasl' ]);
foreach my $name (sort keys %strict)
{
	my $strict = ZkEnsemble->new($name, @{ $strict{$name} },
		'authProvider.1' => $provider);
	$session->ask("SET zklock.servers = '${\$strict->connect_string}'");
	foreach my $sql ("SELECT zk_lock_acquire('/strict')",
		"SELECT zk_lock_acquire('/strict', '0')",
		"SELECT * FROM zk_lock_queue('/strict')")
	{
		fails("S117: $name: $sql", $sql, '28000',
			qr/lock "\/strict": authentication.*DETAIL: .*does not serve clients that have not authenticated/s,
			5);
	}

	# The answer may be lost, as the server hangs up right after it.
	$proxy = $strict->proxy;
	$session->ask("SET zklock.servers = '${\$proxy->address}'");
	$proxy->cut_after_request('create2');
	fails("S117: $name: answer lost", "SELECT zk_lock_acquire('/strict', '20 s')",
		'28000', qr/lock "\/strict": authentication.*DETAIL: .*does not serve clients/s, 5);
	is($proxy->fired, 1, "S117: $name: it was");
	$session->ask('SELECT zk_session_close()');
	$strict->stop;
}

is($session->ask('SELECT 1'), 1, 'the backend lives on');

done_testing();
