# A backend that releases a lock can acquire it again immediately: with a timeout of
# zero, "false" means that another session holds it (S288).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main');
my $node = zk_cluster('main', $ensemble);
my $session = ZkPsql->new($node);
my $other = ZkPsql->new($node);

# How many of so many calls are refused, each in a transaction of a DO block; what is
# to be done at the end of each.
sub refused
{
	my ($count, $call, $end) = @_;
	$session->ask(
		"DO \$\$ DECLARE refused int := 0; BEGIN FOR i IN 1..$count LOOP"
		  . " IF NOT $call THEN refused := refused + 1; END IF; $end;"
		  . " END LOOP; RAISE NOTICE 'refused: %', refused; END \$\$");
	return $session->errors =~ /refused: (\d+)/ ? $1 : $session->errors;
}

# The same, each a statement of its own.
sub refused_alone
{
	my ($count, $call) = @_;
	my $answers = $session->ask(
		join(";\n", 'SET client_min_messages = error', ("SELECT $call") x $count), 'quiet');
	my $errors = $session->errors;
	my @refused = $answers =~ /^f$/mg;
	$session->ask('RESET client_min_messages');
	return $errors || scalar @refused;
}

# ---- Permits: their places in the queue count, in any session.

is(refused(500, "zk_semaphore_acquire_xact('/one', 1, '0')", 'COMMIT'),
	'0', 'S288: a permit after COMMIT');
is(refused(200, "zk_semaphore_acquire_xact('/one', 1, '0')", 'ROLLBACK'),
	'0', 'S288: after ROLLBACK');
is(refused_alone(300, "zk_semaphore_acquire_xact('/one', 1, '0')"),
	'0', 'S288: in statements of their own');
is( refused(100, "(zk_semaphore_acquire('/one', 1, '0')"
		  . " AND zk_semaphore_release('/one'))", 'NULL'),
	'0', 'S288: after a release');
is( refused(100, "zk_semaphore_acquire('/one', 1, '0')", 'PERFORM zk_lock_release_all()'),
	'0', 'S288: after everything was released');
$session->ask('BEGIN');
foreach (1 .. 20)
{
	$session->ask('SAVEPOINT s', 'quiet');
	my $answer = $session->ask("SELECT zk_semaphore_acquire_xact('/one', 1, '0')", 'quiet');
	$session->ask('ROLLBACK TO s', 'quiet');
	next if $answer eq 't' && $_ < 20;
	is($answer, 't', 'S288: after ROLLBACK TO');
	last;
}
$session->ask('COMMIT');

# One of two is another session's.
$other->ask("SELECT zk_semaphore_acquire('/two', 2)");
is(refused(300, "zk_semaphore_acquire_xact('/two', 2, '0')", 'COMMIT'),
	'0', 'S288: the second of two permits');
my $third = ZkPsql->new($node);
$third->ask("SELECT zk_semaphore_acquire('/two', 2)");
is(refused(20, "zk_semaphore_acquire_xact('/two', 2, '0')", 'COMMIT'),
	'20', 'S288: none, when others hold both');

# One that waits is let in first, so the answer depends on another session.
$session->ask('BEGIN');
$third->ask("SELECT zk_semaphore_release('/two')");
is($session->ask("SELECT zk_semaphore_acquire_xact('/two', 2, '0')"),
	't', 'a permit is free again');
$third->send("SELECT zk_semaphore_acquire('/two', 2)");
$ensemble->wait_for_queue('/two', 3);
is($session->ask("COMMIT\\; SELECT zk_semaphore_acquire_xact('/two', 2, '0')"),
	'f', 'S288: the waiter is granted first');
is($third->answer, 't', 'and has the permit');

# ---- Locks, in every way that there is.

my %call = (
	'exclusive' => "zk_lock_acquire_xact('/lock', '0')",
	'shared' => "zk_lock_acquire_xact('/lock', '0', true)",
	'shared and exclusive' => "(zk_lock_acquire_xact('/lock', '0', true)"
	  . " AND zk_lock_acquire_xact('/lock', '0'))",
	'exclusive and shared' => "(zk_lock_acquire_xact('/lock', '0')"
	  . " AND zk_lock_acquire_xact('/lock', '0', true))",
	'several' => "zk_lock_acquire_xact(ARRAY['/lock', '/more'], '0')");
foreach my $settings ('', 'zklock.lock_delay = 1000', 'zklock.handover = on')
{
	$session->ask("SET $settings") if $settings;
	foreach my $kind (sort keys %call)
	{
		is(refused(50, $call{$kind}, 'COMMIT'),
			'0', "S288: $kind, after COMMIT, $settings");
	}
	$session->ask('RESET ' . (split ' ', $settings)[0]) if $settings;
}
is( refused(50, "(zk_job_begin('/job', '2026-01-01'::timestamptz + i * interval '1 s', '0')"
		  . " AND zk_job_end('/job'))", 'COMMIT'),
	'0', 'S288: a job');

done_testing();
