# Lock delay: after a holder that did not release the lock, and only then, the next one
# waits.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(check_exits time_to_end wait_for_cluster);

# How long the next holder waits, how much later it may have the lock on a busy machine,
# and after what time it has waited at all, in seconds.
my $delay = 7;
my $late = 8;
my $soon = 6;

# A holder that is to vanish has a short session timeout.
my %vanishing = ('zklock.session_timeout' => '8s');

my $ensemble = ZkEnsemble->new('main', tick_time => 500, maxSessionTimeout => 30000);
my $proxy = $ensemble->proxy;
my %settings = (
	'zklock.session_timeout' => '30s',
	'zklock.lock_delay' => "${delay}s",
	autovacuum => 'off');
my $main = zk_cluster('main', $ensemble,
	settings => { %settings, restart_after_crash => 'on' });
my $other = zk_cluster('other', $ensemble, settings => \%settings);
my $zk = $ensemble->zk;
my ($rival, $canceller) = map { ZkPsql->new($other) } 1 .. 2;

# A lock for each part.
my $number = 0;
my $path;

sub next_lock
{
	$path = '/delay/' . ++$number;
	return;
}

# The unclean markers of a lock.
sub markers
{
	my ($lock) = @_;
	my $znode = "/zklock/.zklock/records$lock";
	return 0 unless $zk->stat($znode);
	return scalar grep { /^_c_/ } $zk->ls($znode);
}

# A backend of the cluster that is about to end, with the lock.
sub new_holder
{
	my (%extra) = @_;
	my $holder = ZkPsql->new($main, %extra);
	is($holder->ask("SELECT zk_lock_acquire('$path')"), 't', "$path is held")
	  or die 'the holder does not get the lock';
	return $holder;
}

# Wait until there is no contender of that name, but there was at that time.  Returns when
# it was seen last, and when it was missed.
sub wait_gone
{
	my ($contender, $seen) = @_;
	my $now = $seen;
	wait_for(
		sub {
			($seen, $now) = ($now, time);
			return !$zk->stat("/zklock$path/$contender");
		},
		"$contender to be deleted");
	return ($seen, time);
}

# Let the rival wait while something happens to the holder.  Returns how much later the
# rival had the lock, by its own clock, than the contender was gone: so much at most, and
# at least.
sub handover
{
	my ($event) = @_;
	my ($contender) = $ensemble->queue($path);
	$rival->send_timed("zk_lock_acquire('$path', '60 s')");
	$ensemble->wait_for_queue($path, 2);
	my $begin = time;
	$event->();
	my ($seen, $missed) = wait_gone($contender, $begin);
	my ($granted, $time) = $rival->answer_timed(90);
	is($granted, 't', "$path: the next one gets the lock");
	$rival->ask("SELECT zk_lock_release('$path')");
	is(markers($path), 0, "$path: and releases it, so no marker is left");
	note sprintf 'after %.3f s to %.3f s', $time - $missed, $time - $seen;
	return ($time - $seen, $time - $missed);
}

sub delayed
{
	my ($event, $what) = @_;
	my ($at_most, $at_least) = handover($event);
	cmp_ok($at_most, '>=', $delay, "S140: $what: after the delay");
	cmp_ok($at_least, '<', $delay + $late, 'S140: and soon after that');
	return;
}

sub not_delayed
{
	my ($event, $what) = @_;
	my (undef, $at_least) = handover($event);
	cmp_ok($at_least, '<', $soon, "S141: $what: without a delay");
	return;
}

# The exit of a backend, which may give up on a busy machine: then the log says so.
sub exit_not_delayed
{
	my ($exit, $what) = @_;
	check_exits(
		"S141: $what, without a delay",
		$main, $soon, $soon, 1,
		sub {
			my $holder = new_holder();
			my (undef, $at_least) = handover(sub { $exit->($holder) });
			return $at_least;
		});
	return;
}

sub kill_backend
{
	my ($session) = @_;
	kill 'KILL', $session->pid;
	time_to_end($session->pid);
	$session->{psql}{run}->finish;
	return;
}

# ---- A holder that did not release the lock.

next_lock();
my $holder = new_holder(%vanishing);
is(markers($path), 1, 'a holder has a marker');
delayed(sub { kill_backend($holder) }, 'a backend is killed');
wait_for_cluster($main);

next_lock();
$holder = new_holder(%vanishing);
my ($contender) = $ensemble->queue($path);
$holder->crash($main);
wait_gone($contender);
my $start = time;
is($rival->ask("SELECT zk_lock_acquire('$path', '0')"),
	'f', 'S142: a try fails while the delay runs');
is($rival->errors, '', 'without an error');
$ensemble->wait_for_queue($path, 0);
pass('and leaves no contender');
is(markers($path), 1, 'and no marker of its own');
is($rival->ask("SELECT zk_lock_acquire('$path', '2 s')"),
	'f', 'S142: so does a timeout');
$ensemble->wait_for_queue($path, 0);
pass('which leaves none, either');
$rival->ask('BEGIN');
$rival->ask("SET LOCAL lock_timeout = '5 s'");
$rival->ask("SELECT zk_lock_acquire('$path')");
is($rival->sqlstate, '55P03', 'S142: lock_timeout is an error');
like($rival->errors,
	qr/DETAIL:  The last holder did not release the lock\. Waiting for "zklock\.lock_delay"\./,
	'which says why');
$rival->ask('ROLLBACK');
$ensemble->wait_for_queue($path, 0);
$rival->send("SELECT zk_lock_acquire('$path')");
$ensemble->wait_for_queue($path, 1);
$start = time;
$canceller->ask('SELECT pg_cancel_backend(' . $rival->pid . ')');
$rival->answer;
is($rival->sqlstate, '57014', 'S142: a cancel ends the wait');
cmp_ok(time - $start, '<', $soon, 'at once');
$ensemble->wait_for_queue($path, 0);
is(markers($path), 1, 'no other marker is left');
$start = time;
is($rival->ask("SELECT zk_lock_acquire('$path', '60 s')"),
	't', 'S140: a newcomer gets the lock');
cmp_ok(time - $start, '>=', $delay, 'S140: after the delay');
cmp_ok(time - $start, '<', $delay + $late, 'and soon after that');
$rival->ask("SELECT zk_lock_release('$path')");
$start = time;
is($rival->ask("SELECT zk_lock_acquire('$path', '0')"),
	't', 'S141: a session that released it does not wait');
$rival->ask("SELECT zk_lock_release('$path')");

next_lock();
$holder = new_holder(%vanishing);
delayed(sub { $holder->stop }, 'a backend is stopped');
$holder->continue;
$holder->wait_until_lost($path);
$holder->ask("SELECT zk_lock_release('$path')");
is(markers($path), 0, 'and does no harm later');

next_lock();
$holder = new_holder('zklock.servers' => $proxy->address);
delayed(sub { $proxy->expire($zk) }, 'a ZooKeeper session expires');
$holder->quit;

next_lock();
$holder = new_holder();
($contender) = $ensemble->queue($path);
delayed(
	sub {
		$other->safe_psql('postgres',
			"SELECT zk_lock_break('$path', '$contender')");
	},
	'a contender is broken');
$holder->quit;

# ---- One that did.

next_lock();
$holder = new_holder();
not_delayed(sub { $holder->ask("SELECT zk_lock_release('$path')") }, 'a release');

$holder = new_holder();
not_delayed(sub { $holder->ask('DISCARD ALL') }, 'DISCARD ALL');

$holder = new_holder();
not_delayed(sub { $holder->ask('SELECT zk_session_close()') },
	'zk_session_close');

foreach my $end ('COMMIT', 'ROLLBACK')
{
	$holder->ask('BEGIN');
	$holder->ask("SELECT zk_lock_acquire_xact('$path')");
	not_delayed(sub { $holder->ask($end) }, $end);
}
$holder->ask('BEGIN');
$holder->ask("SELECT zk_lock_acquire_xact('$path')");
not_delayed(sub { $holder->ask('SELECT 1 / 0'); $holder->ask('ROLLBACK') },
	'an error');

exit_not_delayed(sub { $_[0]->quit }, 'a backend that exits');
exit_not_delayed(
	sub {
		my ($session) = @_;
		$main->safe_psql('postgres',
			'SELECT pg_terminate_backend(' . $session->pid . ')');
		$session->{psql}{run}->finish;
	},
	'pg_terminate_backend');

# ---- Shared holders, a downgrade, several locks, hand-over, jobs.

next_lock();
my @holders = map { ZkPsql->new($other, %vanishing) } 1 .. 2;
foreach my $session (@holders)
{
	is($session->ask("SELECT zk_lock_acquire('$path', shared => true)"),
		't', 'the lock is shared');
}
is(markers($path), 2, 'S143: shared holders have a marker each');
$holders[0]->ask("SELECT zk_lock_release('$path')");
is(markers($path), 1, 'which is deleted with its lock');
is($holders[0]->ask("SELECT zk_lock_acquire('$path', '0', true)"),
	't', 'S143: one does not wait for another');
$holders[0]->ask("SELECT zk_lock_release('$path')");
$holders[1]->stop;
($contender) = $ensemble->queue($path);
wait_gone($contender);
$start = time;
is($holders[0]->ask("SELECT zk_lock_acquire('$path', '60 s', true)"),
	't', 'S143: after one that is gone the next shared one gets it');
cmp_ok(time - $start, '>=', $delay, 'S143: after the delay');
$holders[0]->ask("SELECT zk_lock_release('$path')");
$holders[1]->continue;
$_->quit foreach @holders;

$holder = new_holder();
$holder->ask("SELECT zk_lock_acquire('$path', shared => true)");
$holder->ask("SELECT zk_lock_release('$path', false)");
wait_for(sub { ($ensemble->queue($path))[0] =~ /__READ__/ }, 'the downgrade');
is(markers($path), 1, 'S143: a downgrade keeps the marker');
not_delayed(sub { $holder->ask("SELECT zk_lock_release('$path')") },
	'a downgrade and a release');

$holder->ask("SELECT zk_lock_acquire('{$path,${path}-a,${path}-b}'::text[])");
is(markers($path) + markers("${path}-a") + markers("${path}-b"),
	3, 'S144: several locks have a marker each');
($contender) = $ensemble->queue("${path}-b");
$zk->delete("/zklock${path}-b/$contender");
$holder->wait_until_lost("${path}-b");
$holder->ask('DISCARD ALL');
$ensemble->wait_for_queue($path, 0);
$start = time;
is($rival->ask("SELECT zk_lock_acquire('{$path,${path}-a,${path}-b}'::text[], '0')"),
	'f', 'S144: a try for several fails if one is delayed');
is($rival->ask("SELECT zk_lock_acquire('{$path,${path}-a,${path}-b}'::text[])"),
	't', 'S144: all of them are had');
cmp_ok(time - $start, '>=', $delay, 'S144: after the delay');
$rival->ask('SELECT zk_lock_release_all()');
is(markers($path) + markers("${path}-a") + markers("${path}-b"), 0, 'no marker is left');

next_lock();
$holder->ask('SET zklock.handover = on');
foreach (1 .. 2)
{
	$holder->ask("SELECT zk_lock_acquire('$path')");
	$holder->ask("SELECT zk_lock_release('$path')");
}
like($zk->get("/zklock/.zklock/records$path"),
	qr/^release /m, 'S144: hand-over leaves the record');
is(markers($path), 0, 'and no marker');
is($holder->ask("SELECT zk_job_begin('$path', '2026-01-01')"),
	't', 'S144: a job is begun');
is(markers($path), 1, 'with a marker');
$holder->ask("SELECT zk_job_end('$path')");
$ensemble->wait_for_queue($path, 0);
is(markers($path), 0, 'which goes with its end');
$holder->quit;

# ---- What it costs.

next_lock();
my $session = ZkPsql->new($main, 'zklock.servers' => $proxy->address, %vanishing);
my $left_out = qr/^(ping|getData|event)$/;
foreach (1 .. 2)
{
	$session->ask("SELECT zk_lock_acquire('$path')");
	$session->ask("SELECT zk_lock_release('$path')");
}

# What others ask for meanwhile, such as a heartbeat, may come in between: not always.
sub check_cost
{
	my ($expected, $what) = @_;
	my $cost = '';
	for (my $tries = 0; $cost ne $expected && $tries < 30; $tries++)
	{
		$proxy->cost($left_out);
		$session->ask("SELECT zk_lock_acquire('$path')");
		my $acquire = $proxy->cost($left_out);
		$session->ask("SELECT zk_lock_release('$path')");
		$cost = "$acquire; " . $proxy->cost($left_out);
	}
	is($cost, $expected, $what);
	return;
}

check_cost('create2=1 getChildren=2 multi=1; multi=1',
	'S145: a holder sends two requests more, and one for the release');
$session->ask('SET zklock.lock_delay = 0');
check_cost('create2=1 getChildren=1; delete=1', 'S145: without a delay nothing more is sent');

# No session waits after a holder without a delay, and a session without one never waits.
$session->ask("SELECT zk_lock_acquire('$path')");
is(markers($path), 0, 'S145: and creates no marker');
$session->crash($main);
$ensemble->wait_for_queue($path, 0);
is($rival->ask("SELECT zk_lock_acquire('$path', '0')"),
	't', 'S145: no session waits after a holder without a delay');
$rival->ask("SELECT zk_lock_release('$path')");

done_testing();
