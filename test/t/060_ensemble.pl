# An ensemble of three servers and an observer: locks and waits survive the failure of
# servers, and unproved claims are not believed.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

# A leader that hangs is left by the others after 20 ticks, which is longer than the lease
# of a session timeout of 10 s.
my $ensemble = ZkEnsemble->new('main',
	servers => 3, observers => 1,
	syncLimit => 20,
	minSessionTimeout => 2000, maxSessionTimeout => 120000,
	'java.readonlymode.enabled' => 'true');
my @voters = (1, 2, 3);
my $node = zk_cluster('main', $ensemble->connect_string(@voters),
	settings => { 'zklock.session_timeout' => '30s' });

# The same cluster's backends, connected to what the test wants.
sub session_at
{
	my ($servers, %settings) = @_;
	return ZkPsql->new($node, 'zklock.servers' => $servers, %settings);
}

# ---- Any of the servers will do.

foreach my $id (1 .. 4)
{
	my $session = session_at($ensemble->address($id));
	is($session->ask("SELECT zk_lock_acquire('/any')"),
		't', "server $id alone is enough to acquire a lock");
	is($session->zk_session->{server},
		$ensemble->address($id), 'it is the server connected to');
	$session->quit;
	$ensemble->wait_for_queue('/any', 0);
}

# The observer and the followers have one queue: one client, any way in.
my $far = session_at($ensemble->address(4));
my $near = session_at($ensemble->address($ensemble->leader));
$far->ask("SELECT zk_lock_acquire('/observed')");
is($near->ask("SELECT zk_lock_acquire('/observed', '0')"),
	'f', 'a lock held through the observer is held');
$near->send("SELECT zk_lock_acquire('/observed')");
$ensemble->wait_for_queue('/observed', 2);
$far->ask("SELECT zk_lock_release('/observed')");
is($near->answer, 't', 'and so is it granted');
is($far->ask("SELECT zk_lock_acquire('/observed', '0')"),
	'f', 'the other way round, too');
$_->quit foreach ($far, $near);

# ---- Servers die and come back (S51, S116).

# All servers restart, which takes a busy machine some time.
my %patient =
  ('zklock.session_timeout' => '120s', 'zklock.connect_timeout' => '120s');
my $holder = ZkPsql->new($node, %patient);
my @waiters = map { ZkPsql->new($node, %patient) } 1 .. 3;
$holder->ask("SELECT zk_lock_acquire('/rolling')");
my $token = $holder->ask("SELECT zk_lock_token('/rolling')");
foreach my $i (0 .. $#waiters)
{
	$waiters[$i]->send("SELECT zk_lock_acquire('/rolling')");
	$ensemble->wait_for_queue('/rolling', $i + 2);
}

# Are they where they were?
sub check_in_place
{
	my ($when) = @_;
	is($holder->ask("SELECT zk_lock_verify('/rolling')"),
		$token, "$when: the holder holds");
	is($holder->errors, '', "$when: without an error");
	is(scalar(grep { $_->answered } @waiters), 0, "$when: the waiters wait");
	$ensemble->wait_for_queue('/rolling', 4);
	return;
}

my $leader = $ensemble->leader;
$ensemble->kill_server($leader);
wait_for(sub { ($ensemble->leader // $leader) != $leader },
	'another leader to be elected', 60);
check_in_place('the leader killed');
$ensemble->start_server($leader);

foreach my $id (@voters)
{
	$ensemble->restart_server($id);
	check_in_place("server $id restarted");
}

# All at once: the leader restarts the sessions' timers.
$ensemble->stop;
$ensemble->start;
check_in_place('all servers restarted');
is($holder->zk_session->{sessions}, 1, 'all the time in one session');
cmp_ok($holder->zk_session->{reconnects},
	'>=', 2, 'though not over one connection');

# The order is that of their coming.
my @queue = ($holder, @waiters);
foreach my $i (1 .. 3)
{
	$queue[ $i - 1 ]->ask("SELECT zk_lock_release('/rolling')");
	is($queue[$i]->answer, 't', "waiter $i is granted in its turn");
	is($queue[$i]->errors, '', 'without an error');
	is(scalar(grep { $_->answered } @queue[ $i + 1 .. 3 ]),
		0, 'and no other waiter is');
}
is(join(',', map { $_->zk_session->{sessions} } @waiters),
	'1,1,1', 'no waiter has lost its session');
$_->quit foreach @queue;

# ---- Some servers of the list are dead.

my ($dead) = $ensemble->followers;
$ensemble->stop_server($dead);
my @alive = grep { $_ != $dead } @voters;
foreach my $ids ([ $dead, $alive[0] ], [ $dead, @alive ], [ $alive[0], $dead ])
{
	my $session = session_at($ensemble->connect_string(@$ids));
	is($session->ask("SELECT zk_lock_acquire('/dead', '20 s')"),
		't', "servers @$ids, of which $dead is dead: the lock is acquired");
	$session->quit;
	$ensemble->wait_for_queue('/dead', 0);
}
$ensemble->start_server($dead);

# ---- A server that answers, but is cut off from its leader, proves nothing:
# to stop the leader cuts off both followers.

$leader = $ensemble->leader;
my ($first, $second) = $ensemble->followers;
my $cut_off = session_at($ensemble->address($first),
	'zklock.session_timeout' => '10s');
my $rival = session_at($ensemble->address($second),
	'zklock.connect_timeout' => '60s');
$cut_off->ask("SELECT zk_lock_acquire('/cut-off')");
$rival->send("SELECT zk_lock_acquire('/cut-off')");
$ensemble->wait_for_queue('/cut-off', 2);
$cut_off->ask("SELECT zk_lock_verify('/cut-off')");
$ensemble->pause_server($leader);
$cut_off->wait_until_lost('/cut-off');
ok(!$rival->answered,
	'cut off, the holder reports the lock lost before the rival holds it');
my $state = $cut_off->zk_session->{state};
note "the holder's connection is $state";
$cut_off->ask('SELECT 1');
is($cut_off->sqlstate, 'ZKL01', 'and cannot commit');
wait_for(
	sub {
		my $now = $ensemble->leader;
		return defined $now && $now != $leader;
	},
	'another leader to be elected',
	60);
is($rival->answer, 't', 'with another leader the rival is granted');
$ensemble->resume_server($leader);
is($cut_off->ask("SELECT zk_lock_acquire('/cut-off', '0')"),
	'', 'the old holder does not get it back');
is($cut_off->sqlstate, 'ZKL01', 'and its loss is not forgotten');
$rival->ask("SELECT zk_lock_release('/cut-off')");
is($cut_off->ask("SELECT zk_lock_acquire('/cut-off', '20 s')"),
	't', 'until it acquires the lock again');
$_->quit foreach ($cut_off, $rival);
wait_for(sub { $ensemble->followers == 2 }, 'all servers to be back', 60);

# ---- A member without a majority serves reads at best (S38).

my $minority = session_at($ensemble->address(1),
	'zklock.session_timeout' => '10s', 'zklock.connect_timeout' => '10s');
$minority->ask("SELECT zk_lock_acquire('/minority')");
my $waiter = session_at($ensemble->address(1),
	'zklock.session_timeout' => '10s', 'zklock.connect_timeout' => '10s');
$waiter->send("SELECT zk_lock_acquire('/minority')");
$ensemble->wait_for_queue('/minority', 2);
$ensemble->stop_server($_) foreach (2, 3);
wait_for(sub { ($ensemble->mntr(1)->{server_state} // '') eq 'read-only' },
	'the server that is left to become read-only', 60);
$minority->wait_until_lost('/minority');
pass('S38: the answer of a read-only server is no proof');
$minority->ask('SELECT 1');
is($minority->sqlstate, 'ZKL01', 'S332: without a majority a holder cannot commit');
$waiter->answer;
is($waiter->sqlstate, '08006', 'S332: and a waiter ends with an error');
$waiter->quit;
$minority->ask("SELECT zk_lock_release('/minority')");
$minority->ask("SELECT zk_lock_acquire('/other', '0')");
like($minority->sqlstate, qr/^0800[16]$/,
	'S38: and no lock can be acquired there');
$ensemble->start;
$minority->ask("SET zklock.connect_timeout = '60s'");
is($minority->ask("SELECT zk_lock_acquire('/other', '60 s')"),
	't', 'with a majority they are');
$minority->quit;

done_testing();
