# The effect of synchronous_commit = off on a lock (S29): it is handed over when the
# commit is visible, which is before it is safe.  If the server crashes then, the work
# under the lock is lost, although another session already has the lock.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(children_of stop_process time_to_end);

my $ensemble = ZkEnsemble->new('main');
my $node = zk_cluster('main', $ensemble,
	settings => { autovacuum => 'off', synchronous_commit => 'off' });
my $rival_node = zk_cluster('rival', $ensemble);
my $rival = ZkPsql->new($rival_node);
$node->safe_psql('postgres',
	'SET synchronous_commit = on; CREATE TABLE work (step text)');

# Work under a lock, hand it over, and crash before the WAL writer, which is
# stopped, has written anything.  Returns what is left of the work.
sub crash_after
{
	my ($path, $setting) = @_;
	my $holder = ZkPsql->new($node);
	my $writer = $holder->ask(
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");

	$holder->ask('BEGIN');
	$holder->ask($setting) if $setting;
	$holder->ask("SELECT zk_lock_acquire_xact('$path')");
	$holder->ask("INSERT INTO work VALUES ('$path')");
	$rival->send("SELECT zk_lock_acquire('$path')");
	$ensemble->wait_for_queue($path, 2);
	stop_process($writer);
	$holder->ask('COMMIT');
	is($holder->errors, '', "$path: committed");
	is($rival->answer, 't', "$path: the lock is handed over");

	# While one of them is there the next server does not start.
	my $postmaster = $node->{_pid};
	my @children = children_of($postmaster);
	$node->kill9;
	kill 'KILL', $writer;
	time_to_end($_) foreach @children, $postmaster;
	wait_for(sub { !kill 0, $postmaster }, 'the postmaster to be gone');
	$node->start;
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM work WHERE step = '$path'");
}

is(crash_after('/off', ''), 0,
	'S29: off: work done under a lock that others have by now is lost');
is(crash_after('/on', 'SET LOCAL synchronous_commit = local'),
	1, 'S29: local, for this transaction: it is there');

done_testing();
