# TLS connections that one side rejects: an error that says why, in time, and a backend
# that continues to work.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkCertificates;
use ZkEnsemble;
use ZkPsql;

my $tmp = $PostgreSQL::Test::Utils::tmp_check;

my $authority = ZkCertificates->new("$tmp/tls");
my $stranger = ZkCertificates->new("$tmp/other_tls");
$authority->issue_server('server', names => 'DNS:localhost');
$authority->issue('app');
$authority->issue('locked', passphrase => 'Open Sesame');
$authority->issue('other', passphrase => 'Abracadabra');
$authority->issue('comma', passphrase => 'Open, Sesame');
$authority->issue('expired', expired => 1);
append_to_file($authority->file('zero.pass'), "Open Sesame\0\n");
chmod 0600, $authority->file('zero.pass');
append_to_file($authority->file('c,a.pem'), slurp_file($authority->file('ca.pem')));
$authority->issue_server('expired_server', expired => 1);
$stranger->issue('stranger');

my $ensemble = ZkEnsemble->new('tls', tick_time => 2000, tls => $authority->dir);
my $node = zk_cluster(
	'main',
	$ensemble->secure_string,
	settings => {
		'zklock.session_timeout' => '30s',
		'zklock.connect_timeout' => '60s',
		'zklock.tls_verify_host' => 'off',
		'zklock.tls_ca_file' => $authority->file('ca.pem'),
		'zklock.tls_cert_file' => $authority->file('app.pem'),
		'zklock.tls_key_file' => $authority->file('app.key')
	});
my $session = ZkPsql->new($node);
is($session->ask("SELECT zk_lock_acquire('/good', '60 s')"),
	't', 'valid files are accepted');

# A real server for TLS whose certificate has expired; ZooKeeper's end there is never
# reached.
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $said = '';
my $expired = IPC::Run::start(
	[
		'openssl', 's_server', '-quiet', '-accept', "127.0.0.1:$port", '-cert',
		$authority->file('expired_server.pem'), '-key',
		$authority->file('expired_server.key')
	],
	'<', \undef, '>&', \$said);
wait_for(
	sub { IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $port) },
	'openssl to listen');

# What is different, the SQLSTATE, and what is said of it.
my @cases = (
	[
		'a server of another authority',
		{ tls_ca_file => $stranger->file('ca.pem') },
		'08001', qr/certificate/
	],
	[
		'a server whose certificate has expired',
		{ servers => "127.0.0.1:$port" },
		'08001', qr/certificate/
	],
	[
		'a server whose certificate is for another host',
		{ tls_verify_host => 'on' },
		'08001',
		qr/The certificate of the server at \S+ does not match host name "127\.0\.0\.1"/
	],
	[
		'a server that does not speak TLS',
		{ servers => $ensemble->connect_string },
		'08001', qr/could not establish a TLS connection to ZooKeeper/
	],
	[
		'a certificate of another authority',
		{
			tls_cert_file => $stranger->file('stranger.pem'),
			tls_key_file => $stranger->file('stranger.key')
		},
		'28000',
		qr/certificate/
	],
	[
		'a certificate that has expired',
		{
			tls_cert_file => $authority->file('expired.pem'),
			tls_key_file => $authority->file('expired.key')
		},
		'F0000',
		qr/certificate in ".*expired\.pem" has expired/
	],
	[
		'a key that is not the certificate\'s',
		{ tls_key_file => $authority->file('server.key') },
		'F0000', qr/key/
	],
	[
		'a key that wants a passphrase',
		{
			tls_cert_file => $authority->file('locked.pem'),
			tls_key_file => $authority->file('locked.key')
		},
		'F0000',
		qr/key is encrypted/
	],
	[
		'a wrong passphrase',
		{
			tls_cert_file => $authority->file('locked.pem'),
			tls_key_file => $authority->file('locked.key'),
			tls_passphrase_file => $authority->file('other.pass')
		},
		'F0000',
		qr/passphrase/
	],
	[
		'a passphrase that the library cannot be given',
		{
			tls_cert_file => $authority->file('locked.pem'),
			tls_key_file => $authority->file('locked.key'),
			tls_passphrase_file => $authority->file('comma.pass')
		},
		'F0000',
		qr/comma/
	],
	[
		'a passphrase with a zero byte',
		{
			tls_cert_file => $authority->file('locked.pem'),
			tls_key_file => $authority->file('locked.key'),
			tls_passphrase_file => $authority->file('zero.pass')
		},
		'F0000',
		qr/first line contains a zero byte/
	],
	[
		'a path that the library cannot be given',
		{ tls_ca_file => $authority->file('c,a.pem') },
		'F0000', qr/comma/
	],
	[
		'a certificate that is none',
		{ tls_cert_file => $authority->file('app.key') },
		'F0000', qr/app\.key/
	],
	[
		'an authority that is none',
		{ tls_ca_file => $authority->file('app.key') },
		'F0000', qr/app\.key/
	]);

foreach my $case (@cases)
{
	my ($what, $settings, $sqlstate, $message) = @$case;
	my $other = ZkPsql->new($node,
		map { +"zklock.$_" => $settings->{$_} } keys %$settings);
	my $start;

	# The machine may be too busy to get that far in time.
	foreach my $timeout (2, 10, 30)
	{
		$other->ask("SET zklock.connect_timeout = '${timeout}s'");
		$start = time;
		$other->ask("SELECT zk_lock_acquire('/refused')");
		cmp_ok(time - $start, '<', $timeout + 10, "S175: $what: in time");
		last if $other->errors =~ $message;
	}
	is($other->sqlstate, $sqlstate, "S175: $what: SQLSTATE $sqlstate");
	like($other->errors, $message, "S175: $what: message");
	$other->ask("RESET zklock.$_") foreach keys %$settings;
	$other->ask('RESET zklock.connect_timeout');
	is($other->ask("SELECT zk_lock_acquire('/refused'), zk_lock_release('/refused')"),
		't|t', "S175: $what: the backend continues to work");
	$other->quit;
}
$expired->signal('KILL');
$expired->finish;
is($session->ask("SELECT zk_lock_verify('/good') > 0"), 't', 'others are not concerned');

# The certificate is for the name, of which not every address may be the server's (S180).
$session->ask('SELECT zk_session_close()');
$session->ask('SET zklock.tls_verify_host = on');
$session->ask(
	"SET zklock.servers = '@{[ $ensemble->secure_string =~ s/127.0.0.1/localhost/gr ]}'");
is($session->ask("SELECT zk_lock_acquire('/good')"),
	't', 'S180: a certificate for the name by which the server is called');
done_testing();
