# The tests' own tools, against real servers: their reports are true, and they produce
# the faults that they claim to produce.

use strict;
use warnings;

use Test::More;

use POSIX qw(WNOHANG);
use Time::HiRes qw(time);
use PostgreSQL::Test::Utils;
use ZkEnsemble;

# One server: the probe.

my $ensemble = ZkEnsemble->new('one');
my $zk = $ensemble->zk;

is($ensemble->leader, 1, 'a server alone leads');
is($ensemble->four_letter(1, 'ruok'), 'imok', 'it answers four-letter words');
is($zk->timeout_ms, 10000, 'the session timeout is negotiated');

is($zk->create('/a b', "50 %\n\ttab"), '/a b', 'the probe creates a znode');
is($zk->get('/a b'), "50 %\n\ttab", 'data comes back as it was');
is($zk->create('/a b/n-', '', 'ephemeral,sequential'),
	'/a b/n-0000000000', 'a sequential znode gets a number');
is($zk->stat('/a b/n-0000000000')->{ephemeralOwner},
	$zk->session_id, 'an ephemeral znode belongs to the session');
is($ensemble->ephemeral_count, 1, 'the server counts it');
$zk->set('/a b', '');
is($zk->get('/a b'), '', 'data can be emptied');
$zk->make_path('/a b/deep/path');
is_deeply(
	[ $zk->tree('/a b') ],
	[ '/a b', '/a b/deep', '/a b/deep/path', '/a b/n-0000000000' ],
	'the probe lists a tree');
is($zk->deleteall('/a b'), 4, 'and deletes it');
ok(!$zk->stat('/a b'), 'then there is nothing');
ok(!$zk->delete('/a b'), 'nor anything to delete');
is_deeply([ $zk->ls('/a b') ], [], 'nor to list');
eval { $zk->create('/no/parent') };
like($@, qr/ZooKeeper error -101/, 'an error is not passed over');

$zk->create('/closed');
$zk->set_acl('/closed', 'digest:somebody:x:rwcda,world:anyone:r');
is($zk->acl('/closed'), 'digest:somebody:x:rwcda,world:anyone:r',
	'an ACL is set');
is(($zk->call('create', '/closed/x'))[0], -102, 'and works');

# Connections as the server sees them.

my ($received) = $ensemble->packets($zk->session_id);
$zk->stat('/') foreach 1 .. 3;
is(($ensemble->packets($zk->session_id))[0], $received + 3,
	'the server counts requests');

# The proxy: what it forwards it counts.

my $proxy = $ensemble->proxy;
my $client = ZkProbe->new($proxy->address, 10000);
is($proxy->connections, 1, 'a client comes through the proxy');
is_deeply([ keys %{ $proxy->sessions } ],
	[ $client->session_id ], 'which learns its session');
$proxy->count;
$client->create('/through');
$client->ls('/');
$client->ls('/');
my $counts = $proxy->count;
delete $counts->{ping};
is_deeply($counts, { create => 1, getChildren => 2 }, 'requests are counted');
$counts = $proxy->count;
delete $counts->{ping};
is_deeply($counts, {}, 'each of them once');

# A reply that gets lost: the server has done what it was asked for.

$proxy->cut_after_request('create');
my ($rc) = $client->call('create', '/reply-lost');
is($rc, -4, 'cut after the request: the client lost the connection');
ok($zk->stat('/reply-lost'), 'but the znode exists');
is($proxy->fired, 1, 'the proxy says that it struck');

# A request that gets lost.

$client = ZkProbe->new($proxy->address, 10000);
$proxy->cut_before_request('create', 2);
($rc) = $client->call('create', '/first');
is($rc, 0, 'the first of two passes');
($rc) = $client->call('create', '/request-lost');
is($rc, -4, 'cut before the second: the client lost the connection');
$zk->sync('/');
ok(!$zk->stat('/request-lost'), 'and the znode does not exist');
ok($zk->stat('/first'), 'while the first does');

# A reply that is held, and the session with it.

$client = ZkProbe->new($proxy->address, 6000);
my $id = $client->session_id;
$proxy->hold_reply('delete');
my $other = fork // die "fork: $!";
if ($other == 0)
{
	# Asks, and is answered, while the test looks at the server.
	my ($result) = $client->call('delete', '/first');
	POSIX::_exit($result == 0 ? 0 : 1);
}
wait_for(sub { !$zk->stat('/first') }, 'the held request to be carried out');
is_deeply([ $proxy->struck ], [ 3, $id ],
	'the reply is held, of the session that the proxy names');
is(waitpid($other, WNOHANG), 0, 'the client waits for it');
$proxy->pass;
waitpid($other, 0);
is($?, 0, 'and gets it when it is let go');

# Silence ends a session; a connection that is only cut does not.

$client->create('/ephemeral', '', 'ephemeral');
$proxy->cut;
wait_for(sub { exists $proxy->sessions->{$id} }, 'the client to come back');
ok($zk->stat('/ephemeral'), 'a session outlives its connection');
$proxy->freeze($id);
wait_for(sub { !$zk->stat('/ephemeral') }, 'the session to expire');
pass('a session does not outlive silence');
$proxy->pass;

# Two are frozen, one of them is let go again.

my @frozen = map { ZkProbe->new($proxy->address, 10000) } 1, 2;
$proxy->freeze($_->session_id) foreach @frozen;
$frozen[0]->send('ls /');
$proxy->pass($frozen[1]->session_id);
$frozen[1]->ls('/');
pass('a session that was frozen can be let go');
ok(!$frozen[0]->answered, 'and another one stays frozen');
$proxy->pass;
wait_for(sub { $frozen[0]->answered }, 'the other one to be answered');
$_->end foreach @frozen;

# No server listens; then one does again.

$client = ZkProbe->new($proxy->address, 10000);
$proxy->refuse;
$proxy->cut;
is($proxy->connections, 0, 'a refused client does not come back');
$proxy->pass;
wait_for(sub { $proxy->connections > 0 }, 'the client to come back');
pass('it does when the proxy listens again');
$proxy->accepted;
$proxy->hang_up;
$proxy->cut;
my $accepted = 0;
wait_for(sub { ($accepted += $proxy->accepted) >= 2 }, 'the client to try');
is($proxy->connections, 0, 'a client that is hung up on stays outside');
$proxy->pass;
wait_for(sub { ($client->call('create', '/mine', '', 'ephemeral'))[0] == 0 },
	'the client to be served again');

# Delay.

$proxy->delay(300);
my $start = time;
$client->stat('/');
cmp_ok(time - $start, '>=', 0.3, 'replies can be delayed');
$proxy->pass;

# A session ended from outside.

$proxy->expire($zk, $client->session_id);
ok(!$zk->stat('/mine'), 'a session can be ended by another client');
my $ended = $client->session_id;
ok((grep { $_ eq 'zookeeper' } $client->ls('/')), 'its client can read again');
isnt($client->session_id, $ended, 'in a new session');
$client->end;

# Three servers and an observer.

my $three = ZkEnsemble->new('three', servers => 3, observers => 1);
my $leader = $three->leader;
my @followers = $three->followers;
is(scalar @followers, 2, 'one of three leads, two follow');
is($three->mntr(4)->{server_state}, 'observer', 'the fourth observes');
$three->zk->create('/shared', 'x');
my $far = ZkProbe->new($three->address(4));
$far->sync('/');
is($far->get('/shared'), 'x', 'all servers know a new znode');

$three->kill_server($leader);
wait_for(sub { ($three->leader // $leader) != $leader },
	'another leader to be elected');
pass('another server leads after the death of the leader');
$three->restart_server($leader);
is(scalar(my @all = $three->followers), 2, 'the old leader follows');

my ($paused) = $three->followers;
my $stuck = ZkProbe->new($three->address($paused), 6000);
$three->pause_server($paused);
is(($stuck->call_once('get', '/shared'))[0],
	-7, 'a paused server does not answer its clients');
$three->resume_server($paused);

# By a command that opens a new session if the old one has expired meanwhile.
wait_for(sub { ($stuck->call('ls', '/shared'))[0] == 0 },
	'the paused server to answer again');
pass('a resumed server does');

$three->stop;
is($three->four_letter(1, 'ruok'), '', 'a stopped server is gone');

done_testing();
