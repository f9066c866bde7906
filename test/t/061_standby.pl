# A primary, its hot standby and an unrelated cluster exclude each other (S333), also
# while the standby is promoted (S120); and an ensemble that uses IPv6.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

# long timeouts are allowed, for a lock that has to outlive a server's restart
my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my %settings = ('zklock.session_timeout' => '60s');
my $primary = zk_cluster('primary', $ensemble,
	allows_streaming => 1,
	settings => \%settings);
$primary->safe_psql('postgres', 'CREATE TABLE job (ran_on text)');
my $standby = zk_standby('standby', $primary);
my $other = zk_cluster('other', $ensemble, settings => \%settings);

my %node = (primary => $primary, standby => $standby, other => $other);
my %session = map { $_ => ZkPsql->new($node{$_}) } keys %node;

is($session{standby}->ask('SELECT pg_is_in_recovery()'),
	't', 'the standby is one');

# ---- Each excludes the other two.

foreach my $holder (sort keys %session)
{
	is($session{$holder}->ask("SELECT zk_lock_acquire('/three')"),
		't', "$holder: acquires");
	foreach my $waiter (grep { $_ ne $holder } sort keys %session)
	{
		is($session{$waiter}->ask("SELECT zk_lock_acquire('/three', '0')"),
			'f', "S333: $holder: excludes $waiter");
		$session{$waiter}->send("SELECT zk_lock_acquire('/three')");
		wait_for(sub { $ensemble->waiter_watch_count > 0 }, 'the watch to be set');
		ok(!$session{$waiter}->answered, "$holder: $waiter waits");
		is($session{$holder}->ask("SELECT zk_lock_release('/three')"),
			't', "$holder: releases");
		is($session{$waiter}->answer, 't', "$holder: and $waiter has the lock");
		$session{$waiter}->ask("SELECT zk_lock_release('/three')");
		$session{$holder}->ask("SELECT zk_lock_acquire('/three', '0')");
	}
	$session{$holder}->ask("SELECT zk_lock_release('/three')");
}

is( $session{other}->ask(
		"SELECT zk_lock_acquire('/shared', '0', true)")
	  . $session{standby}->ask("SELECT zk_lock_acquire('/shared', '0', true)"),
	'tt', 'S333: a primary and a standby share a lock');
is($session{primary}->ask("SELECT zk_lock_acquire('/shared', '0')"),
	'f', 'S333: which excludes an exclusive one');
$session{$_}->ask('SELECT zk_lock_release_all()') foreach keys %session;

# ---- Transactions that write nothing.

foreach my $name ('primary', 'standby')
{
	my $session = $session{$name};
	$session->ask('BEGIN READ ONLY');
	is($session->ask("SELECT zk_lock_acquire_xact('/read-only', '0')"),
		't', "$name: a read-only transaction acquires");
	is($session{other}->ask("SELECT zk_lock_acquire('/read-only', '0')"),
		'f', "$name: and excludes");
	$session->ask('COMMIT');
	is($session->errors, '', "$name: it commits");
	is($session{other}->ask("SELECT zk_lock_acquire('/read-only', '20 s')"),
		't', "$name: which releases the lock");
	$session{other}->ask("SELECT zk_lock_release('/read-only')");
}

# Fencing writes, and so is for a primary.
$session{standby}->ask("SELECT zk_lock_acquire('/fenced')");
foreach my $function ('zk_lock_fence', 'zk_lock_fence_reset')
{
	$session{standby}->ask("SELECT $function('/fenced')");
	is($session{standby}->sqlstate, '25006', "$function fails on a standby");
}
$session{standby}->ask("SELECT zk_lock_release('/fenced')");

# Loss is judged on a standby, too.
$session{standby}->ask('BEGIN');
$session{standby}->ask("SELECT zk_lock_acquire_xact('/lost')");
$ensemble->zk->deleteall('/zklock/lost');
$session{standby}->ask("SELECT zk_lock_verify('/lost')");
is($session{standby}->sqlstate, 'ZKL01', 'a lock is lost on a standby');
$session{standby}->ask('ROLLBACK');

# ---- Promotion, with locks held and waited for.

my $holder = $session{standby};
my $waiter = ZkPsql->new($standby);
my $reader = ZkPsql->new($standby);
$holder->ask("SELECT zk_lock_acquire('/promoted/held')");
my $token = $holder->ask("SELECT zk_lock_token('/promoted/held')");
my $before = $holder->zk_session;
$reader->ask('BEGIN');
$reader->ask("SELECT zk_lock_acquire_xact('/promoted/xact')");
$session{other}->ask("SELECT zk_lock_acquire('/promoted/awaited')");
$waiter->send("SELECT zk_lock_acquire('/promoted/awaited')");
$ensemble->wait_for_queue('/promoted/awaited', 2);

$session{primary}->ask("SELECT zk_lock_acquire('/promoted/fenced')");
my $fenced = $session{primary}->ask("SELECT zk_lock_fence('/promoted/fenced')");
$primary->wait_for_catchup($standby);

$primary->stop('fast');
$standby->promote;
is($holder->ask('SELECT pg_is_in_recovery()'), 'f', 'the standby is promoted');

is($holder->ask("SELECT zk_lock_verify('/promoted/held')"),
	$token, 'S120: a lock held at promotion is held');
is_deeply($holder->zk_session, $before, 'S120: in the same session');
is($session{other}->ask("SELECT zk_lock_acquire('/promoted/held', '0')"),
	'f', 'S120: against others');
is($holder->ask("INSERT INTO job VALUES ('promoted') RETURNING 1"),
	1, 'S120: now the holder can write');
is($holder->ask("SELECT zk_lock_fence('/promoted/held')"),
	$token, 'and fence');
is( $holder->ask(
		"SELECT token FROM zk_lock_fences WHERE path = '/promoted/fenced'"),
	$fenced, 'a fence of the primary is a fence here');
is($session{other}->ask("SELECT zk_lock_acquire('/promoted/xact', '0')"),
	'f', 'S120: so is that of a transaction');
$reader->ask('COMMIT');
is($reader->errors, '', 'S120: which commits');
ok(!$waiter->answered, 'S120: a wait continues');
$session{other}->ask("SELECT zk_lock_release('/promoted/awaited')");
is($waiter->answer, 't', 'S120: until the lock is granted');
is($waiter->errors, '', 'S120: without an error');
$_->quit foreach ($holder, $waiter, $reader, $session{primary});

# ---- Counts in zk_session().

# While a server starts it may forget about who connects (ZooKeeperServer.zkDb is
# null): the proxy lets no client through until it serves.
my $proxy = $ensemble->proxy;
my $counted = ZkPsql->new($other, 'zklock.servers' => $proxy->address);
$counted->ask("SELECT zk_lock_acquire('/counted')");
my $session = $counted->zk_session;
is("$session->{state} $session->{sessions} $session->{reconnects}",
	'connected 1 0', 'one session so far');
$proxy->refuse;
$ensemble->restart_server(1);
$proxy->pass;
$counted->ask("SELECT zk_lock_verify('/counted')");
is($counted->errors, '', 'a lock outlives the restart of the server');
$session = $counted->zk_session;
is("$session->{state} $session->{sessions} $session->{reconnects}",
	'connected 1 1', 'the reconnect is counted');
$counted->ask('SELECT zk_session_close()');
$session = $counted->zk_session;
is("$session->{state} $session->{session_id}", 'closed ',
	'a closed session has no id');
$counted->ask("SELECT zk_lock_acquire('/counted', '20 s')");
$session = $counted->zk_session;
is("$session->{state} $session->{sessions} $session->{reconnects}",
	'connected 1 0', 'counts restart with the next');
like($session->{session_id}, qr/^0x[0-9a-f]+$/, 'which has an id');
is($session->{server}, $proxy->address, 'and a server');

# ---- IPv6.

SKIP:
{
	skip 'this machine has no IPv6 loopback', 4
	  unless -e '/proc/net/if_inet6'
	  && slurp_file('/proc/net/if_inet6') =~ /^0{31}1 /m;

	my $six = ZkEnsemble->new('six', address => '::1');
	my $session = ZkPsql->new($other, 'zklock.servers' => $six->address(1));
	like($six->address(1), qr/^\[::1\]:\d+$/, 'a server listens on IPv6 only');
	is($session->ask("SELECT zk_lock_acquire('/six', '20 s')"),
		't', 'a lock is acquired over IPv6');
	is($session->zk_session->{server},
		$six->address(1), 'zk_session shows the address');
	is(scalar($six->queue('/six')),
		1, 'the contender is on that server');
	$session->quit;
}

done_testing();
