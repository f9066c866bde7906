# A thousand backends of one machine wait for one lock (S91): each gets it once, in the
# order of the contenders, and their requests to the server grow with their number, not
# with its square.
#
# PostgreSQL's settings are the default ones except for max_connections, ZooKeeper's
# except for maxClientCnxns, which ZkEnsemble sets to 0.
#
# Runs alone: fills the machine.

use strict;
use warnings;

use List::Util qw(sum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;

my $many = 1000;
my $path = '/thousand';

# In seconds; every quarter of it a session may have to make itself heard.  It is the
# longest one that the server grants.  A thousand connections at a time keep a busy
# machine occupied for seconds, and the holder must not lose its lock in that time.
my $session_timeout = 40;

my $ensemble = ZkEnsemble->new('main',
	tick_time => 2000,
	heap => '512m',
	'java.zookeeper.forceSync' => 'yes');
my $node = zk_cluster(
	'main',
	$ensemble,
	settings => {
		max_connections => $many + 10,
		'zklock.session_timeout' => "${session_timeout}s",
		'zklock.connect_timeout' => '60s'
	});
$node->safe_psql(
	'postgres', q{
	CREATE SEQUENCE turns;
	CREATE TABLE grants (turn bigint, contender text, pid integer)});
my $holder = ZkPsql->new($node);

# One of the server's counters.
my $asked = 0;

sub counter
{
	my ($name) = @_;
	$asked++;
	return $ensemble->mntr(1)->{$name};
}

# What the server has received until now, less our own questions, and when that was.
sub received
{
	return (counter('packets_received') - $asked, time);
}

# How many requests came since then for each waiter, without those that a session may
# send by the clock: one every quarter of the timeout.
sub requests_each
{
	my ($what, $before, $since) = @_;
	my ($now, $time) = received();
	my $took = $time - $since;
	note sprintf '%s: %d packets in %.1f s', $what, $now - $before, $took;
	return ($now - $before) / $many - $took / ($session_timeout / 4) - 1;
}

# So many clients that get the lock once each, spread over a few programs.
sub start_waiters
{
	my ($programs) = @_;
	my $script = $node->basedir . '/waiter.sql';
	append_to_file(
		$script, qq{
		SELECT zk_lock_acquire('$path');
		INSERT INTO grants
			SELECT nextval('turns'), contender, pg_backend_pid() FROM zk_locks;
		SELECT zk_lock_release('$path');});
	return map {
		my $output = '';
		my $run = IPC::Run::start(
			[
				'pgbench', '--no-vacuum', '--file', $script,
				'--client', $many / $programs, '--transactions', 1,
				'--host', $node->host, '--port', $node->port, 'postgres'
			],
			'>&', \$output);
		{ run => $run, output => \$output }
	} 1 .. $programs;
}

# What the clients say of errors.
my @waiters;

sub complaints
{
	return join '',
	  map { ${ $_->{output} } =~ /^(.*(?:error|warning|aborted).*\n)/mgi } @waiters;
}

# What the processes of the cluster have for themselves, in MB.
sub memory_used
{
	my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my $total = 0;
	foreach my $pid (split ' ', slurp_file("/proc/$postmaster/task/$postmaster/children"))
	{
		my ($anonymous) = slurp_file("/proc/$pid/status") =~ /^RssAnon:\s*(\d+)/m;
		$total += $anonymous // 0;
	}
	return $total / 1024;
}

# ---- All queue up.

is($holder->ask("SELECT zk_lock_acquire('$path')"), 't', 'a session holds the lock');
my @start = received();
@waiters = start_waiters(4);
my $queued;
wait_for(
	sub {
		$queued = counter('ephemerals_count');
		$_->{run}->pump_nb foreach @waiters;
		return $queued == $many + 1 || complaints();
	},
	'all to queue up', 240);
is(complaints(), '', 'no client has an error');
is($queued, $many + 1, "S91: $many backends wait for one lock");
cmp_ok(requests_each('to queue up', @start),
	'<=', 6, 'S91: with a few requests each');
note sprintf 'memory of the backends: %d MB', memory_used();

# ---- All get it.

my @release = received();
is($holder->ask("SELECT zk_lock_release('$path')"), 't', 'the holder releases');
$_->{run}->finish foreach @waiters;
cmp_ok(requests_each('to get the lock', @release),
	'<=', 4, 'S91: a few more until it has had the lock');

is( sum(
		map {
			my ($processed, $all) = ${ $_->{output} } =~ m{processed: (\d+)/(\d+)};
			($processed // 0) == ($all // -1) ? $processed : 0
		} @waiters),
	$many,
	'S91: every client has done what it was to do');
is(complaints(), '', 'without an error');
is( $node->safe_psql(
		'postgres', q{
		SELECT count(*), count(DISTINCT pid), count(DISTINCT contender),
			bool_and(turn = place)
		FROM (SELECT *, row_number() OVER (ORDER BY right(contender, 10)) AS place
			FROM grants) AS in_order}),
	"$many|$many|$many|t",
	'S91: each has got the lock once, in the order of the contenders');
unlike(slurp_file($node->logfile),
	qr/\b(?:ERROR|FATAL|PANIC|WARNING):/, 'and there is none in the server log');
wait_for(sub { counter('ephemerals_count') == 0 }, 'all contenders to be gone');
pass('no contender is left');

done_testing();
