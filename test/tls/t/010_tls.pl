# Locks over TLS, with three servers that require a client certificate: as documented,
# with many backends, and through failures of connections.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use DocPage;
use DocSession;
use InteropClient;
use InteropProgram;
use ZkCertificates;
use ZkEnsemble;
use ZkProxy;
use ZkPsql;
use ZkTest qw(is_connected time_to_end);

my $tmp = $PostgreSQL::Test::Utils::tmp_check;

my $authority = ZkCertificates->new("$tmp/tls");
$authority->issue_server;
$authority->issue('app', passphrase => 'Open Sesame');
$authority->issue('kazoo');
my $ensemble =
  ZkEnsemble->new('tls', servers => 3, tick_time => 2000, tls => $authority->dir);
my $node = zk_cluster(
	'main',
	'127.0.0.1:1',
	settings => {
		'zklock.session_timeout' => '30s',
		'zklock.connect_timeout' => '60s'
	});

# ---- As the documentation says.

my %address =
  map { +"zk$_.example.org:2281" => $ensemble->secure_address($_) } $ensemble->ids;
DocSession->run_page(
	DocPage->new('doc/howto-tls.md'),
	$node,
	'/etc/zklock/' => $authority->dir . '/',
	%address);
is($node->safe_psql('postgres', 'SHOW zklock.servers'),
	$ensemble->secure_string, 'S170: there is no other way to the servers than TLS');

# ---- Locks (S170).

my $one = ZkPsql->new($node);
my $two = ZkPsql->new($node);
is($one->ask("SELECT zk_lock_acquire('/tls')"), 't', 'S170: a lock is acquired');
is($two->ask("SELECT zk_lock_acquire('/tls', '0')"),
	'f', 'S170: it excludes another one');
$ensemble->wait_for_queue('/tls', 1);
$two->send("SELECT zk_lock_acquire('/tls')");
$ensemble->wait_for_queue('/tls', 2);
$one->ask("SELECT zk_lock_release('/tls')");
is($two->answer, 't', 'S170: its release is heard of');
$ensemble->wait_for_queue('/tls', 1);
$one->send("SELECT zk_lock_acquire('/tls')");
$ensemble->wait_for_queue('/tls', 2);
$two->quit;
is($one->answer, 't', 'S170: as is the end of a backend');
my @names = map { "/handed/$_" } 1 .. 20;
is($one->ask("SELECT zk_lock_acquire(ARRAY['@{[ join q(','), @names ]}'])"),
	't', 'S170: many at once');
is($one->ask('SELECT zk_lock_release_all()'), 21, 'S170: and their release');
my $log = join '', map { slurp_file($ensemble->logfile($_)) } $ensemble->ids;
like($log, qr/Authenticated Id 'CN=app' for scheme 'x509'/i,
	'S170: the servers authenticate the owner of the certificate');

# Authentication by password, besides.
$two = ZkPsql->new($node, 'zklock.auth' => 'app:Sesame', 'zklock.acl' => 'creator');
is($two->ask("SELECT zk_lock_acquire('/owned')"), 't', 'S170: with a password as well');
$ensemble->zk->auth('digest', 'app:Sesame');
my ($contender) = $ensemble->latest_queue('/owned');
like($ensemble->zk->acl("/zklock/owned/$contender"),
	qr/digest:app:/, 'S170: the creator is known');
$two->quit;

# ---- Together with kazoo, which comes by way of TLS, too (S170).

my $kazoo = InteropProgram->new('kazoo', $ensemble->secure_string, $node,
	$authority->file('kazoo'));
my $theirs = InteropClient->theirs($kazoo->session, 'extended');
my $ours = InteropClient->ours($node, 'curator', 'exclusive');
foreach my $pair ([ $ours, $theirs ], [ $theirs, $ours ])
{
	my ($first, $then) = @$pair;
	$first->ask(acquire => '/shared');
	$then->send(acquire => '/shared');
	$ensemble->wait_for_queue('/shared', 2);
	ok(!$then->answered, 'S170: kazoo and we exclude each other');
	$first->ask(release => '/shared');
	$then->answer;
	$then->ask(release => '/shared');
}
$ours->session->quit;
$kazoo->end;

# ---- Connections that break (S172).

# A backend is connected again; the session is the same, and the lock as well.
sub goes_on
{
	my ($what, $before) = @_;
	my $after = $one->wait_until_reconnected($before, $what);
	is($after->{session_id}, $before->{session_id}, "S172: $what: the session continues");
	is($one->ask("SELECT zk_lock_verify('/kept') > 0"),
		't', "S172: $what: the lock is kept");
	return;
}

my @proxies = map { ZkProxy->new($ensemble->secure_address($_), raw => 1) } $ensemble->ids;
my $proxied = join ',', map { $_->address } @proxies;
$one->ask('SELECT zk_session_close()');
$one->ask("SET zklock.servers = '$proxied'");
is($one->ask("SELECT zk_lock_acquire('/kept')"), 't', 'S172: through proxies');

# The proxy, and the number of the server, to which it is connected.
sub connected_to
{
	my ($session) = @_;
	my ($n) = grep { $session->{server} eq $proxies[$_]->address } 0 .. $#proxies;
	return ($proxies[$n], $n + 1);
}

my $before = $one->zk_session;
my ($proxy, $server) = connected_to($before);
$proxy->cut;
goes_on('the connection is cut', $before);

# Nothing comes over the connection; that takes a while to be noticed.
my $frozen = $one->zk_session;
($proxy, $server) = connected_to($frozen);
$proxy->freeze;

# ---- Many backends (S171).

my $script = $node->basedir . '/count.sql';
append_to_file($script, <<'SQL');
BEGIN;
SELECT zk_lock_acquire_xact('/count');
SELECT n AS seen FROM counter \gset
SELECT zk_lock_acquire('/own/' || :client_id), zk_lock_release('/own/' || :client_id);
UPDATE counter SET n = :seen + 1;
COMMIT;
SQL
$node->safe_psql('postgres', 'CREATE TABLE counter AS SELECT 0 AS n');

# So many backends count so many times each, while something happens.
sub count
{
	my ($what, $backends, $times, $meanwhile) = @_;
	my ($output, $errors) = ('', '');
	$node->safe_psql('postgres', 'UPDATE counter SET n = 0');
	my $crowd = IPC::Run::start(
		[
			'pgbench', '--no-vacuum', '--file', $script, '--client', $backends,
			'--jobs', 2, '--transactions', $times, '--host', $node->host, '--port',
			$node->port, 'postgres'
		],
		'>', \$output, '2>', \$errors);
	wait_for(
		sub {
			$meanwhile->();
			$crowd->pump_nb if $crowd->pumpable;
			return !$crowd->pumpable;
		},
		"the backends: $what", 180);
	$crowd->finish;
	is($node->safe_psql('postgres', 'SELECT n FROM counter'),
		$backends * $times, "S171: $what: no count is lost");
	unlike($errors, qr/ERROR/, "S171: $what: no call fails");
	return;
}

count('eight backends', 8, 20, sub { });
goes_on('nothing comes over it', $frozen);
$proxy->pass;

$before = $one->zk_session;
($proxy, $server) = connected_to($before);
$ensemble->stop_server($server);
goes_on('the server ends', $before);
$ensemble->start_server($server);
$one->ask('SELECT zk_session_close()');

# Not for ever: a machine that is busy takes its time to connect.
my ($rounds, $cuts) = (0, 0);
sub break_now_and_then
{
	return if ++$rounds % 25 != 10 || $cuts == 12;
	$proxies[ $cuts++ % 3 ]->cut;
	return;
}
$node->safe_psql('postgres', "ALTER DATABASE postgres SET zklock.servers = '$proxied'");
count('connections break', 4, 20, \&break_now_and_then);
note "$cuts of $rounds rounds";

# ---- A handshake that does not come to its end (S173).

my @proxied = map { (split /:/, $_->address)[1] } @proxies;

# A backend has a connection, and waits for what comes over it.
sub hanging
{
	my ($what) = @_;
	my $session = ZkPsql->new($node);
	$session->send("SELECT zk_lock_acquire('/hanging')");
	wait_for(sub { is_connected($session->pid, @proxied) }, "a connection: $what");
	ok(!$session->answered, "S173: $what: it waits");
	return $session;
}

# A statement and a backend end as soon as they are to.
sub ends_in_time
{
	my ($what) = @_;
	my $session = hanging($what);
	my $start = time;
	$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\$session->pid})");
	$session->answer;
	is($session->sqlstate, '57014', "S173: $what: cancelled");
	cmp_ok(time - $start, '<', 30, "S173: $what: in time");
	$start = time;
	$session->ask('SELECT zk_session_close()');
	cmp_ok(time - $start, '<', 30, "S173: $what: the session is closed in time");

	my $other = hanging($what);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(${\$other->pid})");
	cmp_ok(time_to_end($other->pid), '<', 30, "S173: $what: the backend ends in time");
	$session->ask("SET zklock.connect_timeout = '1s'");
	$start = time;
	$session->ask("SELECT zk_lock_acquire('/hanging')");
	is($session->sqlstate, '08001', "S173: $what: SQLSTATE 08001");
	cmp_ok(time - $start, '<', 31, "S173: $what: after zklock.connect_timeout");
	$session->quit;
	return;
}

$_->freeze foreach @proxies;
ends_in_time('nothing comes over the connection');
$_->pass foreach @proxies;

$ensemble->pause;
ends_in_time('the servers are stopped');
$ensemble->resume;
my $last = ZkPsql->new($node);
is($last->ask("SELECT zk_lock_acquire('/hanging', '60 s')"),
	't', 'S173: when they continue, locks can be acquired');

# One of them hangs: the others are tried.
$last->ask('SELECT zk_session_close()');
$ensemble->pause_server(wait_for(sub { ($ensemble->followers)[0] }, 'a follower'));
foreach (1 .. 3)
{
	is($last->ask("SELECT zk_lock_acquire('/hanging', '60 s')"),
		't', 'S173: one server of three is stopped');
	$last->ask('SELECT zk_session_close()');
}
$ensemble->resume;

# ---- Descriptors beyond what the library can select() (S174).

# The lowest one that a process has free.
sub free_descriptor
{
	my ($pid) = @_;
	my %used = map { (m{([^/]+)$})[0] => 1 } glob "/proc/$pid/fd/*";
	my $number = 0;
	$number++ while $used{$number};
	return $number;
}

# A table that was read stays open, unless PostgreSQL happens to close all.  This backend
# has had no ZooKeeper session that might just be closing its own.
my $many = ZkPsql->new($node);
sub for_all_tables
{
	my ($statement) = @_;
	$many->ask("DO \$\$ BEGIN FOR n IN 1 .. 950 LOOP"
		  . " EXECUTE format('$statement', n); IF n % 50 = 0 THEN COMMIT; END IF;"
		  . ' END LOOP; END $$');
	return;
}

for_all_tables('CREATE TEMPORARY TABLE t%s AS SELECT 1');
my $start;
foreach (1 .. 5)
{
	for_all_tables('SELECT FROM t%s');
	note 'the next descriptor is ' . free_descriptor($many->pid);
	$start = time;
	$many->ask("SELECT zk_lock_acquire('/files')");
	last if $many->sqlstate;
	$many->ask('SELECT zk_session_close()');
}
like($many->sqlstate, qr/^53/, 'S174: SQLSTATE');
like($many->errors, qr/descriptor/, 'S174: message');
cmp_ok(time - $start, '<', 30, 'S174: immediately');
$many->ask('DISCARD TEMPORARY');
is($many->ask("SELECT zk_lock_acquire('/files', '60 s')"),
	't', 'S174: when there are fewer, there are locks');
$many->quit;

# ---- Nothing is left, nothing has crashed.

$_->quit foreach $one, $last;
wait_for(sub { $ensemble->ephemeral_count == 0 }, 'nothing to be left');
pass('no contender is left');
unlike(slurp_file($node->logfile),
	qr/terminated by signal|exited with exit code 2|all server processes terminated/,
	'no backend has crashed');

done_testing();
