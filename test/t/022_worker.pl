# The shutdown of a cluster while a background worker waits for a lock (S108): a worker
# of logical replication, whose apply fires a trigger that takes the lock.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my $publisher = zk_cluster('publisher', $ensemble,
	allows_streaming => 'logical');
my $subscriber = zk_cluster('subscriber', $ensemble,
	settings => {
		'zklock.session_timeout' => '4s',
		wal_retrieve_retry_interval => '100ms'
	});

$_->safe_psql('postgres', 'CREATE TABLE work (step text)')
  foreach ($publisher, $subscriber);
$subscriber->safe_psql(
	'postgres', q(
	CREATE FUNCTION take_lock() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM public.zk_lock_acquire_xact('/apply');
		RETURN NEW;
	END $$;
	CREATE TRIGGER take_lock BEFORE INSERT ON work
	FOR EACH ROW EXECUTE FUNCTION take_lock();
	ALTER TABLE work ENABLE ALWAYS TRIGGER take_lock));
$publisher->safe_psql('postgres', 'CREATE PUBLICATION pub FOR TABLE work');
$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION sub CONNECTION '"
	  . $publisher->connstr
	  . " dbname=postgres' PUBLICATION pub");
$subscriber->poll_query_until('postgres',
	"SELECT srsubstate = 'r' FROM pg_subscription_rel")
  or die 'timed out waiting for the table to be synchronized';

# The rival holds the lock, and the worker waits.
my $rival = ZkPsql->new($publisher, 'zklock.session_timeout' => '60s');
$rival->ask("SELECT zk_lock_acquire('/apply')");
$publisher->safe_psql('postgres', "INSERT INTO work VALUES ('a')");
$ensemble->wait_for_queue('/apply', 2);

foreach my $mode ('smart', 'fast', 'immediate')
{
	my ($worker) = $subscriber->safe_psql('postgres',
		'SELECT pid FROM pg_stat_subscription WHERE pid IS NOT NULL');
	my $start = time;
	$subscriber->stop($mode);
	my $took = time - $start;
	note sprintf 'pg_ctl stop -m %s took %.3f s', $mode, $took;
	cmp_ok($took, '<', 30, "S108: $mode: a worker that waits does not hold it up");
	ok(!kill(0, $worker), "S108: $mode: the worker has ended");
	$ensemble->wait_for_queue('/apply', 1);
	pass("S108: $mode: its contender is gone");
	$subscriber->start;
	$ensemble->wait_for_queue('/apply', 2);
	pass("S108: $mode: the next worker waits in its place");
}
unlike(slurp_file($subscriber->logfile), qr/terminated by signal/,
	'S108: no process has crashed');

is($rival->ask("SELECT zk_lock_release('/apply')"), 't', 'the lock is released');
$publisher->wait_for_catchup('sub');
is($subscriber->safe_psql('postgres', 'TABLE work'),
	'a', 'S108: and the worker applies what it waited with');
$ensemble->wait_for_queue('/apply', 0);
pass('S108: and gives the lock back');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION sub');

done_testing();
