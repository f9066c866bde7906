# A follower that is cut off from its leader, and still answers its clients, is not
# believed.  A holder that is connected to it detects the loss of its lock before
# another client holds it, and no session acquires a lock on the follower's word.
#
# The ensemble's tick is 500 ms: the leader expires the sessions at the cut-off server
# some fifteen seconds after the cut, the server notices after a minute.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkProbe;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main',
	servers => 3, peer_proxies => 1,
	tick_time => 500, syncLimit => 120, maxSessionTimeout => 300000);
my $leader = $ensemble->leader;
my ($cut_off, $other) = $ensemble->followers;
my $zk = $ensemble->zk($leader);
my $stale_zk = ZkProbe->new($ensemble->address($cut_off), 60000);
my $node = zk_cluster('main', $ensemble->connect_string($leader, $other),
	settings => {
		'zklock.session_timeout' => '15s',
		'zklock.connect_timeout' => '60s'
	});
$node->safe_psql('postgres', 'CREATE TABLE work (step text)');

# A backend that knows the server to be cut off, and no other.
sub session_there
{
	my (%settings) = @_;
	return ZkPsql->new($node,
		'zklock.servers' => $ensemble->address($cut_off), %settings);
}

# What the server to be cut off shows of a queue.
sub stale_queue
{
	my ($path) = @_;
	return [ sort { substr($a, -10) cmp substr($b, -10) }
		  $stale_zk->ls("/zklock$path") ];
}

sub contender_of
{
	my ($session, $path) = @_;
	return $session->ask("SELECT contender FROM zk_locks WHERE path = '$path'");
}

# What was committed.
sub committed
{
	return $node->safe_psql('postgres', 'SELECT step FROM work ORDER BY step');
}

# ---- Before the cut.

my $holder = session_there();
my $worker = session_there();
my $waiter = session_there();
# This one is not to notice that the server does not answer any more.
my $idle = session_there('zklock.session_timeout' => '5min');
my ($rival, $second, $third, $fourth) = map { ZkPsql->new($node) } 1 .. 4;

$holder->ask("SELECT zk_lock_acquire('/held')");
my $token = $holder->ask("SELECT zk_lock_token('/held')");
$worker->ask('BEGIN');
$worker->ask("SELECT zk_lock_acquire_xact('/batch')");
$worker->ask("INSERT INTO work VALUES ('before the cut')");
$third->ask("SELECT zk_lock_acquire('/queue')");
$idle->ask("SELECT zk_lock_acquire('/idle'), zk_lock_release('/idle')");

$rival->send("SELECT zk_lock_acquire('/held')");
$second->send("SELECT zk_lock_acquire('/batch')");
$waiter->send("SELECT zk_lock_acquire('/queue')");
$ensemble->wait_for_queue('/queue', 2);
$fourth->send("SELECT zk_lock_acquire('/queue')");
$ensemble->wait_for_queue('/queue', 3);
$ensemble->wait_for_queue($_, 2) foreach '/held', '/batch';
my @held = $ensemble->queue('/held');
is($held[0], contender_of($holder, '/held'),
	'a backend at the follower holds a lock');
is($holder->ask("SELECT zk_lock_verify('/held')"), $token, 'and can prove it');
wait_for(sub { @{ stale_queue('/held') } == 2 }, 'the follower to know so much');

# ---- The cut: the holder is the first to know.

$ensemble->partition($cut_off);
is($third->ask("SELECT zk_lock_release('/queue')"),
	't', 'the other servers continue to work');
$holder->wait_until_lost('/held');
is_deeply([ $ensemble->queue('/held') ],
	\@held,
	'S7: the holder reports the loss while its contender is the first for all others'
);
ok(!$rival->answered, 'S7: and no other session holds the lock');

is($rival->answer, 't', 'S7: then the next one is granted');
is($second->answer, 't', 'S7: also for the lock of the transaction');

# From here on another session holds both.
$worker->ask('COMMIT');
is($worker->sqlstate, 'ZKL01',
	'S7: a transaction that was begun before cannot commit any more');
$holder->ask("SELECT zk_lock_token('/held')");
is($holder->sqlstate, 'ZKL01', 'S7: and there is no token');
$holder->ask("INSERT INTO work VALUES ('after the cut')");
is($holder->sqlstate, 'ZKL01', 'S7: and the session cannot commit anything');
is(committed(), '', 'S7: nothing was committed');
is($ensemble->mntr($cut_off)->{server_state},
	'follower', 'all this while the server does not know that it is cut off');
is_deeply(stale_queue('/held'), \@held, 'and still shows the old holder');
is($idle->zk_session->{state}, 'connected', 'to backends that are connected');

my $rival_token = $rival->ask("SELECT zk_lock_token('/held')");
cmp_ok($rival_token, '>', $token, 'S7: the new token is greater');
cmp_ok($second->ask("SELECT zk_lock_token('/batch')"),
	'>', $token, 'S7: so is the other one');
is($fourth->answer, 't',
	'S3: the waiter there has lost its place to the next one');
ok(!$waiter->answered, 'S3: and is not granted');

# ---- What the cut-off server shows is no grant.

$rival->ask("SELECT zk_lock_acquire('/later')");
is($stale_zk->stat('/zklock/later'),
	undef, 'S1: the server does not know of a lock that is acquired now');
my $newcomer = session_there('zklock.session_timeout' => '1min');
foreach my $path ('/held', '/later')
{
	foreach my $case ([ 'that connects now', '08001', $newcomer ],
		[ 'that is connected', '08006', $idle ])
	{
		my ($which, $sqlstate, $session) = @$case;
		is($session->ask("SELECT zk_lock_acquire('$path', '500 ms')"),
			'', "S1: a backend $which does not acquire $path");
		is($session->sqlstate, $sqlstate, 'S1: and it does not report it as held');
	}
}
$newcomer->send("SELECT zk_lock_acquire('/held', '0')");
$idle->send("SELECT zk_lock_acquire('/later', '0')");
ok(!$_->answered, 'S1: a try waits for an answer that is true')
  foreach $newcomer, $idle;
is($ensemble->mntr($cut_off)->{server_state},
	'follower', 'the server has not noticed yet');

# ---- It is over.

$ensemble->heal($cut_off);
is($_->answer, 'f', 'S1: with the leader back the answer is that it is taken')
  foreach $newcomer, $idle;
$ensemble->wait_for_queue('/held', 1);
my $left = contender_of($rival, '/held');
is_deeply([ $ensemble->queue('/held') ],
	[$left], 'S7: the only contender is that of the new holder');
wait_for(sub { "@{ stale_queue('/held') }" eq $left },
	'the follower to show the same');
is($holder->lock_state('/held'), 'lost', 'S7: a lost lock stays lost');
$holder->ask('SELECT 1');
is($holder->sqlstate, 'ZKL01', 'S7: and prevents commits');

# The waiter's place is gone, it queues up again.
$ensemble->wait_for_queue('/queue', 2);
is(($ensemble->queue('/queue'))[0],
	contender_of($fourth, '/queue'), 'S3: it queues up behind the new holder');
ok(!$waiter->answered, 'S3: it is not granted');
$fourth->ask("SELECT zk_lock_release('/queue')");
is($waiter->answer, 't', 'S3: until that one goes');

# Old holders come back, in their turn.
$holder->send("SELECT zk_lock_acquire('/held')");
$ensemble->wait_for_queue('/held', 2);
is($rival->ask("SELECT zk_lock_verify('/held')"),
	$rival_token, 'S4: the old holder queues up behind the new one');
ok(!$holder->answered, 'S4: and waits');
$rival->ask("SELECT zk_lock_release('/held')");
is($holder->answer, 't', 'S4: until it is released');
like($holder->errors, qr/WARNING: .*lock "\/held" was already lost/,
	'S4: with a warning');
cmp_ok($holder->ask("SELECT zk_lock_token('/held')"),
	'>', $rival_token, 'S4: the token is greater again');
is(scalar($ensemble->latest_queue('/held')), 1, 'S4: there is one contender');

$second->ask("SELECT zk_lock_release('/batch')");
$worker->ask('BEGIN');
$worker->ask("SELECT zk_lock_acquire_xact('/batch')");
$worker->ask("INSERT INTO work VALUES ('after all')");
$worker->ask('COMMIT');
is($worker->sqlstate, '', 'S4: the next transaction commits');
is(committed(), 'after all', 'S4: its own work, and nothing else');
$ensemble->wait_for_queue('/batch', 0);

$_->quit
  foreach ($holder, $worker, $waiter, $idle, $newcomer,
	$rival, $second, $third, $fourth);
$ensemble->wait_for_queue($_, 0) foreach '/held', '/later', '/queue';
pass('nothing is left');

done_testing();
