# The tunnel of doc/howto-tls.md, as described there: stunnel before three servers that
# require TLS, for a client library that has none.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use DocPage;
use DocSession;
use ZkCertificates;
use ZkEnsemble;
use ZkPsql;
use ZkTunnel;

my $tmp = $PostgreSQL::Test::Utils::tmp_check;
my $page = DocPage->new('doc/howto-tls.md');

# ---- The servers, whose certificate has the names that are on the page.

my $authority = ZkCertificates->new("$tmp/tls");
my $stranger = ZkCertificates->new("$tmp/other_tls");
$authority->issue_server('server',
	names => join ', ', map { "DNS:zk$_.example.org" } 1 .. 3);
$authority->issue('zklock');
my $ensemble =
  ZkEnsemble->new('tls', servers => 3, tick_time => 2000, tls => $authority->dir);
my $node = zk_cluster(
	'db1',
	'127.0.0.1:1',
	settings => {
		'zklock.session_timeout' => '30s',
		'zklock.connect_timeout' => '60s'
	});

# ---- What is on the page, with the places of this machine.

my %port = map { +"2281$_" => PostgreSQL::Test::Cluster::get_free_port() } 1 .. 3;

my ($block) =
  grep { $_->{text} =~ m{^; /etc/stunnel/zklock\.conf\n} } $page->blocks;
ok($block, 'the page has a configuration');
my $configuration = DocPage::localize(
	$block->{text},
	'/etc/stunnel/' => $authority->dir . '/',
	%port,
	map { +"zk$_.example.org:2281" => $ensemble->secure_address($_) } 1 .. 3);
my $tunnel = ZkTunnel->new("$tmp/zklock.conf", $configuration);

DocSession->run_page($page, $node, %port);
my $servers = join ',', map { "127.0.0.1:$port{$_}" } sort keys %port;
is($node->safe_psql('postgres', 'SHOW zklock.servers'),
	$servers, 'there is no other way to the servers than the tunnel');

# ---- Locks by way of the tunnel.

my $holder = ZkPsql->new($node);
my $waiter = ZkPsql->new($node);
is($holder->ask("SELECT zk_lock_acquire('/tunnel')"), 't', 'S178: a lock is acquired');
$waiter->send("SELECT zk_lock_acquire('/tunnel')");
$ensemble->wait_for_queue('/tunnel', 2);
$holder->ask("SELECT zk_lock_release('/tunnel')");
is($waiter->answer, 't', 'S178: the waiter hears of its release');
my $authenticated = join '', map { slurp_file($ensemble->logfile($_)) } $ensemble->ids;
like($authenticated, qr/Authenticated Id 'CN=zklock' for scheme 'x509'/i,
	'S178: the servers authenticate the owner of the certificate');

# ---- A server fails.

# The waiter, who has the lock now, is connected again; the session is the same, and
# the lock as well.
sub goes_on
{
	my ($what, $before) = @_;
	my $after = $waiter->wait_until_reconnected($before, $what);
	is($after->{session_id}, $before->{session_id}, "S178: $what: the session continues");
	is($waiter->ask("SELECT zk_lock_verify('/tunnel') > 0"),
		't', "S178: $what: the lock is kept");
	return;
}

my $before = $waiter->zk_session;
my ($server) = grep { $before->{server} =~ /:$port{"2281$_"}$/ } $ensemble->ids;
$ensemble->stop_server($server);
goes_on('a server fails', $before);
$ensemble->start_server($server);

# ---- The tunnel dies, and is there again.

# No session gets a lock, and the error comes in time.
sub refused
{
	my ($what) = @_;
	$holder->ask("SELECT zk_session_close()");
	$holder->ask("SET zklock.connect_timeout = '2s'");
	$holder->ask("SELECT zk_lock_acquire('/other')");
	is($holder->sqlstate, '08001', "S178: $what: SQLSTATE 08001");
	like($holder->errors, qr/could not connect to ZooKeeper/, "S178: $what: message");
	$holder->ask("RESET zklock.connect_timeout");
	return;
}

$before = $waiter->zk_session;
$tunnel->kill;
wait_for(sub { $waiter->zk_session->{state} ne 'connected' },
	'the connection to break');
refused('no tunnel');
is($waiter->ask('SELECT count(*) FROM zk_locks'), 1, 'S178: no tunnel: the lock stays');
$tunnel->start;
goes_on('the tunnel dies', $before);
is($holder->ask("SELECT zk_lock_acquire('/other')"),
	't', 'S178: the tunnel dies: other sessions continue, too');
$waiter->ask('SELECT zk_session_close()');
$tunnel->kill;

# ---- What the tunnel checks, and what the servers do.

my @wrong = (
	[
		'another host name',
		sub { s/^(checkHost = ).*/$1zk4.example.org/mg },
		qr/Subject checks failed/
	],
	[
		'another authority',
		sub { s/^CAfile = .*/'CAfile = ' . $stranger->file('ca.pem')/me },
		qr/certificate verify failed/
	],
	[
		'no certificate of ours',
		sub { s/^(cert|key) = .*//mg },
		qr/alert bad certificate|alert handshake failure|alert certificate required/
	]);

foreach my $case (@wrong)
{
	my ($what, $change, $said) = @$case;
	my $name = $what =~ s/ /_/gr;
	local $_ = $configuration;
	ok($change->(), "$what: the configuration is changed");
	my $other = ZkTunnel->new("$tmp/$name.conf", $_);

	# The machine may be too busy to get that far at once.
	foreach (1 .. 5)
	{
		refused($what);
		last if $other->log =~ $said;
	}
	wait_for(sub { $other->log =~ $said }, "stunnel to say why: $what");
	pass("S178: $what: stunnel says why");
}

done_testing();
