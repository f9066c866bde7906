# A server that identifies its clients by Kerberos.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use DocPage;
use DocSession;
use ZkEnsemble;
use ZkKdc;
use ZkPsql;
use ZkTest qw(is_connected time_to_end);

plan skip_all => 'no KDC, or no plugin of Cyrus SASL for GSSAPI' unless ZkKdc->available;

my $tmp = $PostgreSQL::Test::Utils::tmp_check;

# The server is as it is on the page, but for where the key is.
my $kdc = ZkKdc->new("$tmp/kdc");
my $keytab = $kdc->add('zookeeper/localhost');
my $service = $kdc->principal('zookeeper/localhost');
my $page = DocPage->new('doc/howto-tls.md');
my ($lines) = map { $_->{text} } grep { $_->{text} =~ /^sessionRequire/m } $page->blocks;
my ($server) = map { $_->{text} } grep { $_->{text} =~ /Krb5LoginModule/ } $page->blocks;
$server =~ s/(?<=keyTab=")[^"]*/$keytab/;
$server =~ s/(?<=principal=")[^"]*/$service/;
append_to_file("$tmp/jaas.conf", $server);
my $ensemble = ZkEnsemble->new('kerberos',
	tick_time => 2000,
	'java.java.security.auth.login.config' => "$tmp/jaas.conf",
	'java.java.security.krb5.conf' => $kdc->configuration,
	$lines =~ /^([\w.]+)=(.+)$/mg);
my $proxy = $ensemble->proxy;
$kdc->add($_) foreach qw(app other);
$kdc->sign_in('app');
my $node = zk_cluster(
	'main', $proxy,
	settings => {
		'zklock.session_timeout' => '30s',
		'zklock.connect_timeout' => '60s',
		'zklock.sasl_mechanism' => 'GSSAPI',
		'zklock.sasl_host' => 'localhost',
		'zklock.acl' => 'creator'
	});

# ---- Who has a ticket is served (S181).

my $session = ZkPsql->new($node);
my $second = ZkPsql->new($node);
is($session->ask("SELECT zk_lock_acquire('/owned')"), 't', 'S181: a lock is acquired');
$second->send("SELECT zk_lock_acquire('/owned')");
wait_for(
	sub { $session->ask("SELECT count(*) FROM zk_lock_queue('/owned')", 'quiet') == 2 },
	'the second contender');
$session->ask("SELECT zk_lock_release('/owned')");
is($second->answer, 't', 'S181: its release is heard of');
my $before = $second->zk_session;
$proxy->cut;
$second->wait_until_reconnected($before, 'another connection, another exchange');
is($second->ask("SELECT zk_lock_verify('/owned') > 0"), 't', 'S181: the lock is kept');
my $log = slurp_file($ensemble->logfile(1));
like($log, qr/app\@ZKLOCK\.TEST/, 'S181: the server knows the principal');
$second->quit;

# ---- Another user has another identity (S181).

$kdc->sign_in('other');
my $other = ZkPsql->new($node);
$other->ask("SELECT zk_lock_acquire('/owned')");
is($other->sqlstate, '42501', 'S181: another user is not let in');
$other->quit;

# ---- Who has no ticket is told so (S181).

$kdc->sign_out;
my $ticketless = ZkPsql->new($node);
$ticketless->ask("SELECT zk_lock_acquire('/owned')");
is($ticketless->sqlstate, '28000', 'S181: no ticket');
like($ticketless->errors, qr/SASL/, 'S181: no ticket: message');
$kdc->sign_in('app');
is($ticketless->ask("SELECT zk_lock_acquire('/owned', '60 s')"),
	't', 'S181: the backend continues to work when it has one');
$_->quit foreach $session, $ticketless;

# ---- The KDC hangs, which has to be asked for a ticket for the server (S182).

# A backend that waits for it.
sub hanging
{
	my $waiting = ZkPsql->new($node);
	$waiting->send("SELECT zk_lock_acquire('/hanging', '60 s')");
	wait_for(sub { is_connected($waiting->pid, $kdc->port) },
		'a backend to ask the KDC');
	ok(!$waiting->answered, 'S182: it waits');
	return $waiting;
}

$kdc->sign_in('app');
$kdc->pause;
my $waiting = hanging();
my $start = time;
$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\$waiting->pid})");
$waiting->answer;
is($waiting->sqlstate, '57014', 'S182: a statement is cancelled');
cmp_ok(time - $start, '<', 20, 'S182: in time');
my $terminated = hanging();
$node->safe_psql('postgres', "SELECT pg_terminate_backend(${\$terminated->pid})");
cmp_ok(time_to_end($terminated->pid), '<', 20, 'S182: a backend ends in time');
$kdc->resume;
is($waiting->ask("SELECT zk_lock_acquire('/hanging', '60 s')"),
	't', 'S182: when it continues, locks can be acquired');
$waiting->quit;

# ---- With a keytab there are always tickets (S181).

$node->stop;
$kdc->sign_out;
local $ENV{KRB5_CLIENT_KTNAME} = $kdc->keytab('app');
$node->start;
$session = ZkPsql->new($node);
is($session->ask("SELECT zk_lock_acquire('/owned', '60 s')"),
	't', 'S181: a keytab takes the place of tickets');
$session->quit;

unlike(slurp_file($node->logfile),
	qr/terminated by signal|exited with exit code 2|all server processes terminated/,
	'no backend has crashed');

done_testing();
