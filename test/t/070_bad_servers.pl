# Servers that cannot be reached, do not answer, or are not ZooKeeper: an error with its
# SQLSTATE within the time allowed, and a backend that continues to work.

use strict;
use warnings;

use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use ZkEnsemble;
use ZkPeer;
use ZkPsql;
use ZkTest qw(cpu_time process_status start_preloaded);

my $connect_timeout = 1;
my $ensemble = ZkEnsemble->new('main', tick_time => 500);
my $node = zk_cluster('main', $ensemble,
	settings => {
		'zklock.session_timeout' => '3s',
		'zklock.connect_timeout' => "${connect_timeout}s",
		'restart_after_crash' => 'on'
	});
my $real = $ensemble->connect_string;

# Have a session ask for a lock of such servers.  Returns after how many seconds
# there was an answer.
sub ask_servers
{
	my ($session, $servers, $arguments) = @_;
	$session->ask("SET zklock.servers = '$servers'");
	my $start = time;
	$session->ask("SELECT zk_lock_acquire('/bad'" . ($arguments // '') . ')');
	return time - $start;
}

# In how many seconds does something end?  If that is not within the limit, or not as it
# should, there are more tries, as the machine may stand still for a moment.
sub time_taken
{
	my ($limit, $try, $as_it_should) = @_;
	my $took;
	foreach (1 .. 10)
	{
		$took = $try->();
		last if $took < $limit && (!$as_it_should || $as_it_should->());
	}
	return $took;
}

# After an error: the backend is idle, and works with the real ensemble.
sub check_backend
{
	my ($what, $session) = @_;

	# To close a connection takes as long as its server likes, up to 1.5 s.
	wait_for(
		sub {
			my $before = cpu_time($session->pid);
			sleep 1;
			return cpu_time($session->pid) - $before < 0.1;
		},
		'the backend to be idle');
	pass("$what: afterwards the backend does not burn a processor");
	$session->ask("SET zklock.connect_timeout = '20s'");
	$session->ask("SET zklock.session_timeout = '10s'");
	ask_servers($session, $real);
	is($session->sqlstate, '', "$what: the backend continues to work");
	$session->ask("SELECT zk_lock_release('/bad')");
	$ensemble->wait_for_queue('/bad', 0);
	return;
}

# An error that says why, in time.
sub check_servers
{
	my ($what, $servers, $sqlstate, $message, $limit) = @_;
	my $session = ZkPsql->new($node);
	$limit //= $connect_timeout + 3;
	my $took = time_taken(
		$limit,
		sub { ask_servers($session, $servers) },
		sub { $session->errors =~ $message });
	is($session->sqlstate, $sqlstate, "$what: SQLSTATE $sqlstate");
	like($session->errors, $message, "$what: message");
	like($session->errors, qr/lock "\/bad"/, "$what: it names the lock");
	cmp_ok($took, '<', $limit, "$what: in time");
	check_backend($what, $session);
	$session->quit;
	return;
}

# Can that be told at all?
my $busy = ZkPsql->new($node);
my $used = cpu_time($busy->pid);
wait_for(
	sub {
		$busy->ask(
			q(DO $$ BEGIN
				WHILE clock_timestamp() < now() + interval '1 s' LOOP END LOOP;
			END $$));
		cpu_time($busy->pid) - $used > 0.1;
	},
	'a busy backend to use a processor');
pass('a busy backend is seen to be');
$busy->quit;

# ---- No server is there (S63).

my $unused =
  IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)->sockport;
check_servers('refused', "127.0.0.1:$unused", '08001',
	qr/could not connect to ZooKeeper\nDETAIL: .*\nHINT: .*zklock\.servers/);
check_servers('all of three refused',
	"127.0.0.1:$unused,127.0.0.1:1,[::1]:1",
	'08001', qr/could not connect to ZooKeeper/);
check_servers('misspelt',
	'no-such-host.invalid:2181',
	'08001',
	qr/could not resolve the name of any ZooKeeper server\nDETAIL: .*"no-such-host\.invalid"/,
	20);

# One of several is enough.
my $session = ZkPsql->new($node, 'zklock.connect_timeout' => '30s');
ask_servers($session, "no-such-host.invalid:2181,127.0.0.1:1,$real", ", '30 s'");
is($session->sqlstate, '', 'S63: one server that can be reached is enough');
like(slurp_file($node->logfile),
	qr/ZooKeeper client: Host "no-such-host\.invalid" could not be resolved/,
	'S63: a name that cannot be resolved is named in the server log');
$session->ask('SELECT zk_lock_release_all()');
$session->quit;

# ---- Other programs answer: real peers, each in a process of its own.

# The handshake of a server: a length, protocol version, session timeout, session
# id, password, read-only.
sub handshake
{
	my ($client, $timeout_ms, $id) = @_;
	$client->sysread(my $request, 4096);
	$client->syswrite(pack 'N! N N Q> N/a* C',
		37, 0, $timeout_ms, $id // 0x123456789abcdef, 'x' x 16, 0);
	return;
}

# Who is not taken for a server.
my $not_zookeeper = qr/server is not a ZooKeeper server/;
my $no_answer = qr/could not connect to ZooKeeper/;

check_servers('silent', new_peer(sub { }), '08001', $no_answer);

# A timeout of the call that is over before zklock.connect_timeout.
$session = ZkPsql->new($node);
my $silent = new_peer(sub { });
time_taken(
	$connect_timeout,
	sub { ask_servers($session, $silent, ", '100 ms'") },
	sub { $session->errors =~ /No server had responded/ });
is($session->sqlstate, '08001', 'S87: silent, with a short timeout: SQLSTATE 08001');
like(
	$session->errors,
	qr/DETAIL:  No server had responded when the time for the call was over/,
	'S87: and it names no setting that has nothing to do with it');
$session->quit;
check_servers(
	'closes immediately',
	new_peer(sub { $_[0]->close }),
	'08001', qr/could not connect to ZooKeeper.*maxClientCnxns/s);
check_servers(
	'HTTP',
	new_peer(
		sub {
			my ($client) = @_;
			$client->sysread(my $request, 4096);
			$client->syswrite("HTTP/1.1 400 Bad Request\r\n"
				  . "Content-Type: text/plain; charset=utf-8\r\n"
				  . "Connection: close\r\n\r\n400 Bad Request");
			$client->close;
		}),
	'08001',
	$not_zookeeper);
check_servers(
	'SSH',
	new_peer(sub { $_[0]->syswrite("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n") }),
	'08001',
	qr/$not_zookeeper|$no_answer/);
check_servers('a timeout of 0',
	new_peer(sub { handshake($_[0], 0) }),
	'08001', $not_zookeeper);
check_servers('a timeout of 24 days',
	new_peer(sub { handshake($_[0], 2**31 - 1) }),
	'08001', $not_zookeeper);
check_servers('session id 0',
	new_peer(sub { handshake($_[0], 3000, 0) }),
	'08001', qr/$not_zookeeper|$no_answer/);

# A stand-in for a server until then.

foreach my $case (
	[ 'a negative length', pack('N!', -5), qr/invalid packet length -5$/m ],
	[
		'a huge length',
		pack('N!', 2**31 - 1),
		qr/invalid packet length 2147483647$/m
	],
	[
		'too long a length',
		pack('N!', 2**26 + 1),
		qr/invalid packet length 67108865$/m
	],
	[ 'nothing', '', qr/no response for \d+ ms/ ])
{
	my ($what, $packet, $reason) = @$case;
	my $peer = new_peer(
		sub {
			my ($client) = @_;
			handshake($client, 3000);
			$client->syswrite($packet);
		});
	my $liar;
	my $log_start = -s $node->logfile;

	# In a new backend each time: each logs only a few lines.
	my $took = time_taken(
		5,
		sub {
			$liar->quit if $liar;
			$liar = ZkPsql->new($node);
			return ask_servers($liar, $peer, ", '2 s'");
		},
		sub {
			slurp_file($node->logfile, $log_start) =~ /closing connection to \Q$peer\E: $reason/;
		});
	like($liar->sqlstate, qr/^0800[16]$/, "$what: SQLSTATE");
	like($liar->errors, qr/could not acquire lock "\/bad": /,
		"$what: it names the lock");
	cmp_ok($took, '<', 5, "$what: in time");
	ok($node->wait_for_log(qr/closing connection to \Q$peer\E: $reason/, $log_start),
		"$what: the server log says why");
	cmp_ok(process_status($liar->pid, 'VmPeak'),
		'<', 2**20, "$what: no memory for it");

	check_backend($what, $liar);
	$liar->quit;
}

# ---- A check of the library's fails, which would end the process (S331).

my $no_tables = PostgreSQL::Test::Utils::tempdir() . '/no_tables';
$node->stop;
start_preloaded($node, 'failtable.so', FAIL_TABLE => $no_tables);
my %patient =
  ('zklock.connect_timeout' => '20s', 'zklock.session_timeout' => '10s');
my $poisoned = ZkPsql->new($node, %patient);
my $bystander = ZkPsql->new($node, %patient);
is($bystander->ask("SELECT zk_lock_acquire('/bystander')"),
	't', 'another backend holds a lock');
append_to_file($no_tables, '');
foreach my $try (1 .. 2)
{
	my $took = time_taken(4, sub { ask_servers($poisoned, $real) });
	is($poisoned->sqlstate, '08006', "S331: no lock can be acquired ($try): SQLSTATE");
	like($poisoned->errors,
		qr/ZooKeeper client library has failed in this session/,
		'S331: message');
	cmp_ok($took, '<', 4, 'S331: immediately');
	unlink $no_tables;
}
like(slurp_file($node->logfile), qr/ZooKeeper client library failed a check: /,
	'S331: the server log says so');
is($poisoned->ask('SELECT count(*) FROM pg_class') > 0,
	1, 'S331: the backend lives on');
my $before = cpu_time($poisoned->pid);
sleep 1;
cmp_ok(cpu_time($poisoned->pid) - $before,
	'<', 0.1, 'S331: and does not burn a processor');
is($bystander->ask("SELECT zk_lock_verify('/bystander') > 0"),
	't', 'S331: others are not concerned');
$poisoned->quit;
wait_for(
	sub {
		$bystander->ask(
			"SELECT count(*) FROM pg_stat_activity WHERE pid = ${\$poisoned->pid}"
		) == 0;
	},
	'the backend to end');
pass('S331: it ends as any other');
$bystander->quit;

# ---- No backend has crashed.

unlike(slurp_file($node->logfile),
	qr/terminated by signal|exited with exit code 2|all server processes terminated/,
	'no backend has crashed');

done_testing();
