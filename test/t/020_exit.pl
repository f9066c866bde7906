# The ends of a backend, and the time until others get its locks: immediately if it
# could report its end, after the session timeout if not.  The ensemble never delays the
# end.

use strict;
use warnings;

use List::Util qw(min max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(check_exits children_of gave_up time_to_end times_until_fast wait_for_cluster);

# So long that what comes within milliseconds, or a second or two, does not come by
# itself.
my $ensemble =
  ZkEnsemble->new('main', tick_time => 500, maxSessionTimeout => 60000);
my $main = zk_cluster('main', $ensemble,
	settings => {
		'zklock.session_timeout' => '20s',
		restart_after_crash => 'on',
		# it would lock tables, too
		autovacuum => 'off'
	});
my $other = zk_cluster('other', $ensemble,
	settings => { 'zklock.session_timeout' => '20s' });
my $rival = ZkPsql->new($other);
my $path = '/exit';

# A backend of the cluster that will end, with the lock.
sub new_holder
{
	my (%settings) = @_;
	my $holder = ZkPsql->new($main, %settings);
	$holder->ask("SELECT zk_lock_acquire('$path')") eq 't'
	  or die 'the holder does not get the lock';
	return $holder;
}

# One that waits for it.
sub new_waiter
{
	my ($cluster, $lock) = @_;
	my $waiter = ZkPsql->new($cluster);
	my $queued = $ensemble->queue($lock);
	$waiter->send("SELECT zk_lock_acquire('$lock')");
	$ensemble->wait_for_queue($lock, $queued + 1);
	return $waiter;
}

# The client of a backend that has ended; what it says does not matter.
sub end_client
{
	my ($session) = @_;
	$session->{psql}{run}->finish;
	return;
}

# Let the rival wait for the lock and then something happen.  Returns after how
# many seconds the rival had the lock; the time begins when the event does, or
# when it returns the beginning of another.
sub handover
{
	my ($event) = @_;
	my $queued = $ensemble->queue($path);
	$rival->send_timed("zk_lock_acquire('$path', '60 s')");
	$ensemble->wait_for_queue($path, $queued + 1);
	my $start = time;
	$start = $event->($start) // $start;
	my ($granted, $time) = $rival->answer_timed(90);
	die 'the rival does not get the lock' unless $granted eq 't';
	$rival->ask("SELECT zk_lock_release('$path')");
	note sprintf 'the rival gets it after %.3f s', $time - $start;
	return $time - $start;
}

# What is not measured more than once must be over by then, in seconds: the machine
# may stand still for a moment.
my $late = 8;

# Three times, or more; the machine may be busy with other things at times.
sub at_once
{
	my ($what, $round) = @_;
	check_exits("S47: $what", $main, 0.3, $late, 3, $round);
	return;
}

my $control = ZkPsql->new($main);

# ---- An end that the backend sees coming.

at_once('\q hands the lock over',
	sub {
		my $holder = new_holder();
		return handover(sub { $holder->quit; return; });
	});

at_once(
	'pg_terminate_backend hands the lock over',
	sub {
		my $holder = new_holder();
		my $took = handover(
			sub {
				$control->ask("SELECT pg_terminate_backend(@{[$holder->pid]})");
				return;
			});
		end_client($holder);
		return $took;
	});

at_once(
	'the death of the client hands the lock over',
	sub {
		my $holder = new_holder();
		return handover(
			sub {
				$holder->{psql}{run}->signal('KILL');
				end_client($holder);
				return;
			});
	});

at_once(
	'a waiter that is terminated leaves the queue',
	sub {
		my $holder = new_holder();
		my $waiter = new_waiter($main, $path);
		my $start = time;
		kill 'TERM', $waiter->pid;
		wait_for(sub { $ensemble->queue($path) == 1 }, 'the waiter to leave');
		my $took = time - $start;
		end_client($waiter);
		$holder->quit;
		return $took;
	});

# No waiter gets the lock before the transaction has aborted.
$control->ask('CREATE TABLE work (n integer)');
my $successor = ZkPsql->new($main);
my $clean = 0;
foreach my $round (1 .. 10)
{
	my $holder = ZkPsql->new($main);
	$holder->ask('BEGIN');
	$holder->ask("SELECT zk_lock_acquire_xact('$path')");
	$holder->ask('INSERT INTO work SELECT generate_series(1, 1000)');
	$successor->send(
		qq(DO \$\$ BEGIN
			PERFORM zk_lock_acquire('$path');
			LOCK TABLE work IN ACCESS EXCLUSIVE MODE NOWAIT;
		END \$\$));
	$ensemble->wait_for_queue($path, 2);
	kill 'TERM', $holder->pid;
	$successor->answer;
	$clean++ if $successor->sqlstate eq '';
	$successor->ask('SELECT zk_lock_release_all()');
	end_client($holder);
}
is($clean, 10, 'S47: a transaction has aborted before its lock is free');
$successor->quit;

# ---- The whole cluster ends: a holder, a waiter, and one that is idle.

sub three_backends
{
	my (%settings) = @_;
	$rival->ask("SELECT zk_lock_acquire('/exit-other')");
	my $holder = new_holder(%settings);
	my $waiter = ZkPsql->new($main, %settings);
	$waiter->send("SELECT zk_lock_acquire('/exit-other')");
	$ensemble->wait_for_queue('/exit-other', 2);
	my $idle = ZkPsql->new($main, %settings);
	$idle->ask("SELECT zk_lock_acquire('/exit-idle')");
	$idle->ask("SELECT zk_lock_release('/exit-idle')");
	return ($holder, $waiter, $idle);
}

# What is left of them must not be.
sub nothing_is_left
{
	my ($what, $log) = @_;
	my $start = time;
	wait_for(sub { $ensemble->queue('/exit-other') == 1 }, 'the waiter to end');

	# The rival's, and that of the probe.
	wait_for(sub { keys %{ $ensemble->connections } == 2 },
		'the connections to be closed');
	ok(time - $start < $late || defined $log && gave_up($main, $log),
		"$what: nothing is left behind");
	$rival->ask("SELECT zk_lock_release_all()");
	return;
}

# All backends end, and hand over what they can.
sub hands_over
{
	my ($what, $event) = @_;
	my $log = -s $main->logfile;
	my $took = handover($event);
	ok($took < $late || gave_up($main, $log), "$what: the lock is handed over");
	nothing_is_left($what, $log);
	return;
}

$control->quit;
my @backends = three_backends();
hands_over('S47: pg_ctl stop -m fast', sub { $main->stop('fast'); return; });
$main->start;

@backends = three_backends();
my $postmaster = $main->{_pid};
my @children = children_of($postmaster);
hands_over('S47: the postmaster is killed', sub { $main->kill9; return; });

# As long as one of them is there the next server does not start.
time_to_end($_) foreach @children;
wait_for(sub { !kill 0, $postmaster }, 'the postmaster to be gone');
$main->start;

# ---- The ensemble hangs: the end waits half a second, and no longer.

# A server that hangs, for as long as it takes a process to end.
sub end_while_frozen
{
	my ($pid, $event) = @_;
	$ensemble->pause;
	kill 'TERM', $pid;
	my $took = time_to_end($pid);
	my $thaw = time;
	$ensemble->resume;
	return ($took, $thaw);
}

my @thaws;
my @ends = times_until_fast(
	1.2, 3,
	sub {
		my $holder = new_holder();
		my $took;
		push @thaws,
		  handover(
			sub {
				($took, my $thaw) = end_while_frozen($holder->pid);
				return $thaw;
			});
		end_client($holder);
		return $took;
	});
cmp_ok(min(@ends), '<', 1.2, 'S47: a frozen ensemble holds up an end for 500 ms');
cmp_ok(max(@ends), '<', $late, 'S47: every time');
cmp_ok(min(@thaws), '<', 1, 'S47: the ensemble hears the last requests of a backend');
cmp_ok(scalar(grep { $_ >= $late } @thaws), '<', @thaws / 2, 'S47: nearly every time');

@ends = times_until_fast(
	1.2, 3,
	sub {
		my $holder = new_holder();
		my $waiter = new_waiter($main, $path);
		my ($took) = end_while_frozen($waiter->pid);
		$ensemble->wait_for_queue($path, 1);
		end_client($waiter);
		$holder->quit;
		return $took;
	});
cmp_ok(min(@ends), '<', 1.2, 'S47: and it no longer delays a waiter');
cmp_ok(max(@ends), '<', $late, 'S47: every time');

@ends = times_until_fast(
	1.2, 3,
	sub {
		my $newcomer = ZkPsql->new($main);
		$ensemble->pause;
		$newcomer->send("SELECT zk_lock_acquire('$path')");
		wait_for(
			sub {
				$main->safe_psql('postgres',
					'SELECT wait_event_type FROM pg_stat_activity WHERE pid = '
					  . $newcomer->pid) eq 'Extension';
			},
			'the newcomer to wait');
		kill 'TERM', $newcomer->pid;
		my $took = time_to_end($newcomer->pid);
		$ensemble->resume;
		end_client($newcomer);
		return $took;
	});
cmp_ok(min(@ends), '<', 1.2, 'S69: also the end of one that is about to connect');
cmp_ok(max(@ends), '<', $late, 'S69: every time');
$ensemble->wait_for_queue($path, 0);

# Together, not one after the other.
my $many = 16;
@ends = times_until_fast(
	0.4 * $many,
	1,
	sub {
		@backends = map { ZkPsql->new($main) } 1 .. $many;
		$backends[ $_ - 1 ]->ask("SELECT zk_lock_acquire('/exit-$_')") foreach 1 .. $many;
		$ensemble->pause;
		my $start = time;
		$main->stop('fast');
		my $took = time - $start;
		$ensemble->resume;
		note sprintf 'pg_ctl stop -m fast took %.3f s', $took;
		$start = time;
		$ensemble->wait_for_queue("/exit-$_", 0) foreach 1 .. $many;
		my $heard = time - $start;
		$main->start;
		return $heard < $late ? $took : $took + 0.4 * $many;
	});
cmp_ok(min(@ends), '<', 0.4 * $many,
	"S47: pg_ctl stop -m fast of $many while it is frozen, and all are heard afterwards");

# ---- Without a connection nothing can be said: the session has to expire.

my $proxy = $ensemble->proxy;
my $cut_off = new_holder(
	'zklock.servers' => $proxy->address,
	'zklock.session_timeout' => '6s');
my $took;
my $free = handover(
	sub {
		$proxy->refuse;
		$proxy->cut;
		wait_for(sub { $cut_off->zk_session->{state} eq 'suspended' },
			'the holder to notice');
		kill 'TERM', $cut_off->pid;
		$took = time_to_end($cut_off->pid);
		return;
	});
cmp_ok($took, '<', 4, 'S49: a backend ends without a connection');
cmp_ok($free, '>', 1, 'S49: its lock is not free immediately');
cmp_ok($free, '<', 6 + $late, 'S49: but after the session timeout');
end_client($cut_off);
$proxy->pass;

# ---- An unexpected end: one backend is killed, so the others go
# without a word (S48).

@backends = three_backends('zklock.session_timeout' => '8s');
$free = handover(
	sub {
		kill 'KILL', $backends[0]->pid;
		time_to_end($_->pid) foreach @backends;
		wait_for_cluster($main);
		my $new = ZkPsql->new($main);
		is($new->ask("SELECT zk_lock_acquire('/exit-new', '20 s')"),
			't', 'S48: a new backend works before the old locks are free');
		$new->quit;
		return;
	});
cmp_ok($free, '>', 1, 'S48: the lock of a killed backend is not free immediately');
cmp_ok($free, '<', 8 + $late, 'S48: but after the session timeout');
nothing_is_left('S48: a backend is killed');
my $new = new_holder();
pass('S48: a new backend gets the lock');
$new->quit;

@backends = three_backends('zklock.session_timeout' => '8s');
$free = handover(sub { $main->stop('immediate'); return; });
cmp_ok($free, '>', 1, 'pg_ctl stop -m immediate: not immediately');
cmp_ok($free, '<', 8 + $late, 'but after the session timeout');
nothing_is_left('pg_ctl stop -m immediate');
$main->start;
$new = new_holder();
pass('a new backend gets the lock');
$new->quit;

# ---- With zklock.release_at_exit = off, a lock outlasts the session that has it.

@backends =
  three_backends('zklock.session_timeout' => '8s', 'zklock.release_at_exit' => 'off');
my $log = -s $main->logfile;
$free = handover(sub { $main->stop('fast'); return; });
cmp_ok($free, '>', 1, 'S394: with release_at_exit = off, not immediately');
cmp_ok($free, '<', 8 + $late, 'S394: but after the session timeout');
nothing_is_left('S394: release_at_exit = off');
my $outlasting = () =
  slurp_file($main->logfile, $log) =~ /LOG: +session ended without releasing its locks/g;
is($outlasting, 1, 'S394: only the session that had a lock leaves it, and says so');
$main->start;
$new = new_holder();
ok($new->ask("SELECT zk_lock_release('$path')") eq 't', 'S394: what is released is free');
$new->quit;

# ---- No other backend has crashed.

my @crashes = slurp_file($main->logfile) =~
  /(?:server process|client backend) \(PID \d+\) (?:was terminated by signal \d+|exited with .*)/g;
is(scalar(@crashes), 1, 'S48: one backend was killed, by us');
like($crashes[0], qr/signal 9$/, 'and none has crashed')
  or diag(@crashes);

done_testing();
