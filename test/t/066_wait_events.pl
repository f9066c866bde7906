# Wait events in pg_stat_activity: from PostgreSQL 17 on a name for each kind of wait,
# before that the same for all.  And, from 18 on, the description of the module.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use ZkTest;

# The client does not give up a silent server before the test has seen the wait.
my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 1_200_000);
my $node = zk_cluster('main', $ensemble,
	settings => {
		shared_preload_libraries => 'zklock',
		'zklock.session_timeout' => '20min',
		'zklock.connect_timeout' => '10min'
	});
my $control = ZkPsql->new($node);
my $major = int($control->ask('SHOW server_version_num') / 10000);
my $holder = ZkPsql->new($node);

# Have a session execute something that waits; see what it waits for, and end that.
sub shows_event
{
	my ($session, $sql, $name, $what) = @_;
	my $expected = $major >= 17 ? "Extension|$name" : 'Extension|Extension';
	my $query = 'SELECT wait_event_type, wait_event FROM pg_stat_activity'
	  . " WHERE pid = ${\$session->pid}";
	$session->send($sql);
	wait_for(sub { $control->ask($query, 'quiet') eq $expected },
		"$what to show as $expected");
	pass("S151: $what shows as $expected");
	$control->ask("SELECT pg_cancel_backend(${\$session->pid})");
	$session->answer;
	is($session->sqlstate, '57014', 'and can be cancelled');
	return;
}

# A wait for another session.
is($holder->ask("SELECT zk_lock_acquire('/events/held')"), 't', 'a lock is held');
my $waiter = ZkPsql->new($node);
shows_event($waiter, "SELECT zk_lock_acquire('/events/held')",
	'ZooKeeperLock', 'a wait for a lock');

# Waits for an ensemble that does not answer.
$ensemble->pause;
shows_event($holder, "SELECT zk_lock_verify('/events/held')",
	'ZooKeeperProof', 'a wait for a proof');
shows_event($waiter, "SELECT * FROM zk_lock_queue('/events/held')",
	'ZooKeeperRead', 'a wait for a listing');
shows_event($holder, "SELECT zk_lock_release('/events/held')",
	'ZooKeeperRelease', 'a wait for the end of a contender');
shows_event(ZkPsql->new($node), "SELECT zk_lock_acquire('/events/other')",
	'ZooKeeperConnect', 'a wait for a connection');
$ensemble->resume;

SKIP:
{
	skip 'PostgreSQL before 17 does not list wait events', 1 if $major < 17;
	is( $control->ask(
			q(SELECT string_agg(name, ' ' ORDER BY name) FROM pg_wait_events
			  WHERE type = 'Extension' AND name LIKE 'ZooKeeper%')),
		'ZooKeeperConnect ZooKeeperLock ZooKeeperProof ZooKeeperRead ZooKeeperRelease',
		'S151: all of them are in pg_wait_events');
}

SKIP:
{
	skip 'PostgreSQL before 18 does not tell of modules', 1 if $major < 18;
	my ($version) = $control->ask(
		q(SELECT extversion FROM pg_extension WHERE extname = 'zklock'));
	is( $control->ask(
			q(SELECT version FROM pg_get_loaded_modules() WHERE module_name = 'zklock')),
		$version,
		'the version of the module is that of the extension');
}

done_testing();
