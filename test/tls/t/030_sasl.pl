# A server that serves only clients authenticated by SASL, and their identities.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use DocPage;
use DocSession;
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(has_sasl_plugin);

plan skip_all => 'Cyrus SASL has no DIGEST-MD5 here' unless has_sasl_plugin('digestmd5');

my $tmp = $PostgreSQL::Test::Utils::tmp_check;

# A file with a password that only its owner can read; returns its name.
sub secret
{
	my ($name, $password) = @_;
	append_to_file("$tmp/$name", "$password\n");
	chmod 0600, "$tmp/$name";
	return "$tmp/$name";
}

my $password = secret('password', 'Sesame');
my $other_password = secret('other_password', 'Basil');

# The server is as it is on the page, with one user more.
my $page = DocPage->new('doc/howto-tls.md');
my ($users) = map { $_->{text} } grep { $_->{text} =~ /^Server \{/ } $page->blocks;
my $lines = join "\n",
  map { $_->{text} } grep { $_->{text} =~ /^(?:sessionRequire|fips-mode)/m } $page->blocks;
append_to_file("$tmp/jaas.conf", $users =~ s/(?=user_app=)/user_other="Basil" /r);
my $ensemble = ZkEnsemble->new('sasl',
	tick_time => 2000,
	maxSessionTimeout => 60000,
	'java.java.security.auth.login.config' => "$tmp/jaas.conf",
	$lines =~ /^([\w.-]+)=(.+)$/mg);
my $proxy = $ensemble->proxy;
my $node = zk_cluster(
	'main', $proxy,
	settings => {
		'zklock.session_timeout' => '60s',
		'zklock.connect_timeout' => '60s'
	});

# ---- Who does not authenticate is not served; who does, is (S176).

my $plain = ZkPsql->new($node);
$plain->ask("SELECT zk_lock_acquire('/sasl')");
is($plain->sqlstate, '28000', 'S176: the server wants SASL');
$plain->quit;

DocSession->run_page($page, $node, '/etc/zklock/password' => $password);
my $session = ZkPsql->new($node);
my $second = ZkPsql->new($node);
is($session->ask("SELECT zk_lock_acquire('/sasl')"), 't', 'S176: a lock is acquired');
$second->send("SELECT zk_lock_acquire('/sasl')");
wait_for(
	sub { $session->ask("SELECT count(*) FROM zk_lock_queue('/sasl')", 'quiet') == 2 },
	'the second contender');
$session->ask("SELECT zk_lock_release('/sasl')");
is($second->answer, 't', 'S176: its release is heard of');

# ---- Another connection, another exchange (S176).

foreach my $time (1 .. 3)
{
	my $before = $second->zk_session;
	$proxy->cut;
	my $after = $second->wait_until_reconnected($before, "time $time");
	is($after->{session_id}, $before->{session_id}, "S176: $time: the session continues");
	is($second->ask("SELECT zk_lock_verify('/sasl') > 0"),
		't', "S176: $time: the lock is kept");
}
my $before = $second->zk_session;
$ensemble->restart_server(1);
$second->wait_until_reconnected($before, 'the server is restarted');
is($second->ask("SELECT zk_lock_verify('/sasl') > 0"),
	't', 'S176: the server is restarted: the lock is kept');

# ---- Who that is to the server (S176).

is($session->ask("SELECT zk_lock_acquire('/owned'), zk_lock_release('/owned')"),
	't|t', 'S176: a lock that is for this user only');
my $other = ZkPsql->new($node,
	'zklock.sasl_user' => 'other',
	'zklock.sasl_password_file' => $other_password);
$other->ask("SELECT zk_lock_acquire('/owned')");
is($other->sqlstate, '42501', 'S176: another user is not let in');
$other->ask("SET zklock.root = '/others'");
is($other->ask("SELECT zk_lock_acquire('/owned')"),
	't', 'S176: but has locks of its own');

# ---- What is wrong (S177).

my @cases = (
	[
		'a wrong password',
		{ sasl_password_file => $other_password },
		'28000', qr/SASL|authenticat/
	],
	[
		'a mechanism that is not there',
		{ sasl_mechanism => 'NO-SUCH' },
		'28000', qr/SASL|mechanism/
	],
	[
		'a password file that is not there',
		{ sasl_password_file => "$tmp/missing" },
		'58P01', qr/sasl_password_file/
	]);
foreach my $case (@cases)
{
	my ($what, $settings, $sqlstate, $message) = @$case;
	my $wrong = ZkPsql->new($node,
		map { +"zklock.$_" => $settings->{$_} } keys %$settings);
	my $start = time;
	$wrong->ask("SELECT zk_lock_acquire('/wrong')");
	is($wrong->sqlstate, $sqlstate, "S177: $what: SQLSTATE $sqlstate");
	like($wrong->errors, $message, "S177: $what: message");
	cmp_ok(time - $start, '<', 40, "S177: $what: long before zklock.connect_timeout");
	$wrong->ask("RESET zklock.$_") foreach keys %$settings;
	is($wrong->ask("SELECT zk_lock_acquire('/wrong'), zk_lock_release('/wrong')"),
		't|t', "S177: $what: the backend continues to work");
	$wrong->quit;
}

my $log = slurp_file($node->logfile);
unlike($log, qr/Sesame|Basil/, 'S113: no password is in the server log');
unlike($log,
	qr/terminated by signal|exited with exit code 2|all server processes terminated/,
	'no backend has crashed');

done_testing();
