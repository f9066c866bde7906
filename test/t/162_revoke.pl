# A revoked contender still names its owner: in the queue, for jobs, for waiters and for
# the deadlock check (S289).  When one of several locks is broken, their call ends, at
# any stage (S290).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(check_fast);

my $ensemble = ZkEnsemble->new('main');
my $zk = $ensemble->zk;
my $node = zk_cluster(
	'main',
	$ensemble,
	settings => {
		shared_preload_libraries => 'zklock',
		deadlock_timeout => '100ms'
	});
my ($holder, $waiter, $admin) = map { ZkPsql->new($node) } 1 .. 3;
$node->safe_psql('postgres', 'CREATE TABLE t (a int)');

sub contender_of
{
	my ($session, $path) = @_;
	return $session->ask("SELECT contender FROM zk_locks WHERE path = '$path'");
}

# Revoke a contender and wait until its owner has seen that.
sub revoke
{
	my ($path, $contender) = @_;
	my $znode = "/zklock$path/$contender";
	is($admin->ask("SELECT zk_lock_revoke('$path', '$contender')"),
		't', "S289: $path is revoked");
	wait_for(sub { $zk->get($znode) =~ /"revoked":true/ }, 'its owner to see that');
	return;
}

# Have one hold a lock, another wait for it, and the first one's contender revoked.
sub hold_revoked
{
	my ($path) = @_;
	$holder->ask("SELECT zk_lock_acquire('$path')");
	my $contender = contender_of($holder, $path);
	$waiter->send("SELECT zk_lock_acquire('$path')");
	$ensemble->wait_for_queue($path, 2);
	revoke($path, $contender);
	return $contender;
}

# After a second, zk_lock_break() deletes the contender itself.  Then its owner may find
# only that it is gone: break another one until an owner was fast enough.  The code breaks
# one, and returns how long that took.
my $patience = 0.9;

sub break_in_time
{
	my ($what, $round) = @_;
	check_fast("$what: its owner deletes it", $patience, 1, $round);
	return;
}

# ---- Who holds it shows.

my $contender = hold_revoked('/shown');
is($admin->ask("SELECT pid FROM zk_lock_queue('/shown') WHERE granted"),
	$holder->pid, 'S289: zk_lock_queue shows the holder');
is($admin->ask("SELECT pid FROM zk_lock_tree('/shown')"),
	$holder->pid, 'and so does zk_lock_tree');
wait_for(
	sub { $admin->ask('SELECT holder_pid FROM zk_lock_waits', 'quiet') eq $holder->pid },
	'the waiter to see the holder');
pass('S289: and so does zk_lock_waits');
is($holder->ask("SELECT revoked FROM zk_locks"), 't', 'S289: zk_locks shows it');
like($holder->errors, qr/NOTICE: .*release of lock "\/shown" was requested/, 'and the holder gets a NOTICE');

# Once more: it says so again.
revoke('/shown', $contender);
is($admin->ask("SELECT pid FROM zk_lock_queue('/shown') WHERE granted"),
	$holder->pid, 'S289: after another revocation, too');

# W4: changes of data grant nothing.
is(scalar($ensemble->queue('/shown')), 2, 'both are there');
ok(!$waiter->answered, 'S289: the waiter was not granted the lock by any of that');

# The owner of what was revoked can still be told who breaks it.
break_in_time(
	'S289: a revoked one',
	sub {
		$contender //= hold_revoked('/shown');
		my $begin = time;
		is($admin->ask("SELECT zk_lock_break('/shown', '$contender')"),
			't', 'it is broken');
		my $took = time - $begin;
		undef $contender;
		is($waiter->answer, 't', 'S289: the waiter gets the lock');
		$holder->ask("SELECT zk_lock_verify('/shown')");
		is($holder->sqlstate, 'ZKL01', 'the holder has lost it');
		like($holder->errors, qr/broken by/, 'S289: and the error says who broke it')
		  if $took < $patience;
		$_->ask('SELECT zk_lock_release_all()') foreach ($holder, $waiter);
		return $took;
	});

# Who deletes it has not broken it, even if it was revoked before: what its owner has
# written into it since is no change by another client.  (Once more if it was deleted before
# its owner had looked at that.)
my $loss;
foreach (1 .. 10)
{
	$holder->ask("SELECT zk_lock_acquire('/deleted')");
	$contender = contender_of($holder, '/deleted');
	revoke('/deleted', $contender);
	$zk->delete("/zklock/deleted/$contender");
	wait_for(sub { $holder->ask("SELECT state FROM zk_locks WHERE path = '/deleted'", 'quiet') eq 'lost' },
		'the loss to be known');
	$holder->ask("SELECT zk_lock_verify('/deleted')");
	$loss = $holder->errors;
	$holder->ask('SELECT zk_lock_release_all()');
	last if $loss !~ /probably/;
}
like($loss, qr/Another client deleted its contender\./, 'S289: one that was deleted was not broken');

# ---- A lock that was downgraded, a permit, a job.

$holder->ask("SELECT zk_lock_acquire('/down'), zk_lock_acquire('/down', shared => true)");
$holder->ask("SELECT zk_lock_release('/down', false)");
wait_for(sub { contender_of($holder, '/down') =~ /__READ__/ }, 'the downgrade');
revoke('/down', contender_of($holder, '/down'));
is($admin->ask("SELECT pid FROM zk_lock_queue('/down')"),
	$holder->pid, 'S289: one that was downgraded');
$holder->ask("SELECT zk_semaphore_acquire('/permit', 2)");
revoke('/permit', contender_of($holder, '/permit'));
is($admin->ask("SELECT pid FROM zk_lock_queue('/permit')"),
	$holder->pid, 'S289: a permit');
$holder->ask("SELECT zk_job_begin('/job', '2026-01-01')");
revoke('/job', contender_of($holder, '/job'));
is($admin->ask("SELECT pid, running_fire_time IS NOT NULL FROM zk_job_status('/job')"),
	$holder->pid . '|t', 'S289: a job');
$holder->ask('SELECT zk_lock_release_all()');

# ---- A deadlock through PostgreSQL, which is found by who the holder is.

$holder->ask("SELECT zk_lock_acquire('/circle')");
revoke('/circle', contender_of($holder, '/circle'));
$waiter->ask('BEGIN; LOCK TABLE t');
$waiter->send("SELECT zk_lock_acquire('/circle')");
$ensemble->wait_for_queue('/circle', 2);
$holder->send('INSERT INTO t VALUES (1)');
$waiter->answer;
is($waiter->sqlstate, '40P01', 'S289: a deadlock is found with a lock that was revoked');
$waiter->ask('ROLLBACK');
$holder->answer;
$holder->ask('SELECT zk_lock_release_all()');

# ---- Several locks at once: one that was granted already is broken, or one not yet.

foreach my $which ('/group/a', '/group/b')
{
	break_in_time(
		"S290: $which",
		sub {
			$holder->ask("SELECT zk_lock_acquire('/group/b')");
			$waiter->send("SELECT zk_lock_acquire(ARRAY['/group/a', '/group/b'])");
			$ensemble->wait_for_queue('/group/b', 2);
			my $theirs = ($ensemble->queue($which))[-1];
			my $begin;
			wait_for(
				sub {
					$begin = time;
					$admin->ask("SELECT zk_lock_break('$which', '$theirs')") eq 't';
				},
				'it to be broken');
			my $took = time - $begin;
			if ($took >= $patience)
			{
				# The waiter may have queued up again.
				$holder->ask('SELECT zk_lock_release_all()');
				$waiter->answer;
				$waiter->ask('SELECT zk_lock_release_all()');
				return $took;
			}
			$waiter->answer;
			is($waiter->sqlstate, '57000', "S290: breaking $which ends the call for both");
			like($waiter->errors, qr/was broken by/, 'S290: which says by whom');
			$ensemble->wait_for_queue('/group/a', 0);
			$ensemble->wait_for_queue('/group/b', 1);
			pass('S290: and leaves nothing');
			is($waiter->ask('SELECT count(*) FROM zk_locks'),
				'0', 'and none in the lock table');
			$holder->ask('SELECT zk_lock_release_all()');
			return $took;
		});
}

done_testing();
