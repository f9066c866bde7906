# The lock node, or a parent, is removed while a contender is about to be created in it:
# by a server that removes empty containers, or by another client.  It is created again,
# but not for ever (S56).
#
# The backend under test connects through a proxy, which holds its request until the
# znode is removed.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

# How many times a lock node is made for one request.
my $limit = 10;

# So long a session timeout that no connection is given up while a request is held back.
# And it is this test alone that removes lock nodes.
my $ensemble = ZkEnsemble->new('main',
	maxSessionTimeout => 60000,
	'java.znode.container.checkIntervalMs' => 3_600_000);
my $zk = $ensemble->zk;
my $proxy = $ensemble->proxy;
my $node = zk_cluster('main', $proxy,
	settings => { 'zklock.session_timeout' => '60s' });
my $session = ZkPsql->new($node);

# Have a lock acquired, and so many times keep back the Nth request of a type,
# the next time the Mth, until a znode is deleted.  Ends earlier if the acquire
# does.  Returns how many times it was deleted.
sub acquire_without
{
	my ($path, $znode, $times, $type, $first, $next) = @_;
	my $fired = $proxy->fired;
	my $deleted = 0;

	$proxy->hold_request($type, $first);
	$proxy->count;
	$session->send("SELECT zk_lock_acquire('$path')");
	while (1)
	{
		wait_for(sub { $proxy->fired > $fired || $session->answered },
			"$type to be held back");
		last if $session->answered;
		$fired = $proxy->fired;
		$zk->delete($znode) or die "$znode is not there";
		last if ++$deleted == $times;
		$proxy->hold_request($type, $next);
	}
	$proxy->pass;
	return $deleted;
}

# The lock is acquired, with one contender in a lock node of now.
sub acquired
{
	my ($what, $path) = @_;
	is($session->answer, 't', "$what: the lock is acquired");
	is($session->errors, '', "$what: without a word");
	is(scalar($ensemble->queue($path)), 1, "$what: with one contender");
	is($zk->stat("/zklock$path")->{cversion},
		1, "$what: the only one ever in this lock node");
	is($session->ask("SELECT zk_lock_release('$path')"), 't', "$what: released");
	return;
}

# The acquire has failed, because a znode was deleted each time.
sub given_up
{
	my ($what, $path, $znode) = @_;
	$session->answer;
	is($session->sqlstate, '55000', "$what: SQLSTATE 55000");
	like(
		$session->errors,
		qr/could not acquire lock "$path": .*deleted repeatedly by another client.*DETAIL: .*"$znode" was deleted $limit times while being created\./s,
		"$what: message");
	is($session->ask('SELECT count(*) FROM zk_locks'), 0, "$what: not held");
	is(scalar($ensemble->queue($path)), 0, "$what: no contender is left");
	is($session->ask("SELECT zk_lock_acquire('$path', '20 s')"),
		't', "$what: the next time it is acquired");
	is($session->ask("SELECT zk_lock_release('$path')"), 't', "$what: released");
	return;
}

$session->ask("SELECT zk_lock_acquire('/warm'), zk_lock_release('/warm')");
$zk->make_path('/zklock/parent');

# ---- The lock node.  The first create finds that there is none, the second
# that it is gone again.

foreach my $times (1, 2, $limit - 1)
{
	my $path = "/parent/removed-$times";
	is(acquire_without($path, "/zklock$path", $times, 'create2', 2, 1),
		$times, "S56: the lock node is removed, $times in all");
	acquired("S56: removed, $times in all", $path);
	is($proxy->count->{createContainer},
		$times + 1, "S56: it was made as often as it was missing");
}

# One that has been there and in use for long.
$session->ask("SELECT zk_lock_acquire('/parent/old')");
$session->ask("SELECT zk_lock_release('/parent/old')");
acquire_without('/parent/old', '/zklock/parent/old', 1, 'create2', 1, 1);
acquired('S56: an old lock node', '/parent/old');

is( acquire_without('/parent/ever', '/zklock/parent/ever', 100, 'create2', 2, 1),
	$limit, 'S56: the lock node is removed all the time: it is made a few times');
is($proxy->count->{createContainer}, $limit, 'S56: and not more often');
given_up('S56: removed all the time', '/parent/ever', '/zklock/parent/ever');

# ---- A znode above it.  Three containers are missing: three times none can be
# made for want of the next, the third try finds a parent, and what is made
# there is gone when the next is to be made in it.

acquire_without('/parent/a/b/c', '/zklock/parent/a', 1,
	'createContainer', 4, 2);
acquired('S56: the parent of the parent is removed', '/parent/a/b/c');
is( acquire_without('/parent/d/e/f', '/zklock/parent/d', 100,
		'createContainer', 4, 2),
	$limit, 'S56: it is removed all the time: it is made a few times');
given_up('S56: a znode above removed all the time',
	'/parent/d/e/f', '/zklock/parent/d');

# ---- A server that removes containers soon after they have become empty, and
# some before they are used.

my $sweeping = ZkEnsemble->new('sweeping',
	'java.znode.container.checkIntervalMs' => 100,
	'java.znode.container.maxNeverUsedIntervalMs' => 1,
	'java.znode.container.maxPerMinute' => 100_000);
my $swept = $sweeping->proxy;
my $stormy = ZkPsql->new($node, 'zklock.servers' => $swept->address);
$stormy->send(
		q(DO $$ BEGIN
			FOR i IN 1 .. 300 LOOP
				IF NOT zk_lock_acquire('/storm/' || i % 20 || '/lock') THEN
					RAISE 'not acquired';
				END IF;
				PERFORM zk_lock_release('/storm/' || i % 20 || '/lock');
				PERFORM pg_sleep(random() * 0.03);
			END LOOP;
		END $$));
is($stormy->answer(600), '', 'S56: a server that removes empty containers soon');
is($stormy->errors, '', 'S56: does not keep locks from being acquired');
my $made = $swept->count->{createContainer};
note "containers were asked for $made times";
cmp_ok($made, '>', 50, 'S56: which takes new containers all the time');

# ---- Ten thousand locks, each with parents of its own: nothing stays.

my $quiet = ZkEnsemble->new('quiet',
	'java.znode.container.checkIntervalMs' => 1000,
	'java.znode.container.maxPerMinute' => 1_000_000);
my $znodes = $quiet->znode_count;
my $many = ZkPsql->new($node, 'zklock.servers' => $quiet->connect_string);
$many->send(
		q(DO $$ BEGIN
			FOR i IN 1 .. 200 LOOP
				IF NOT zk_lock_acquire(ARRAY(
					SELECT format('/many/%s/%s/lock', i, j)
					FROM generate_series(1, 50) j)) THEN
					RAISE 'not acquired';
				END IF;
				IF zk_lock_release_all() <> 50 THEN
					RAISE 'not released';
				END IF;
			END LOOP;
		END $$));
is($many->answer(600), '', 'S93: ten thousand locks, one after the other');
is($many->errors, '', 'S93: are acquired and released');
wait_for(sub { $quiet->znode_count == $znodes },
	'the znodes of ten thousand locks to be removed',
	120);
pass('S93: and leave no znode behind, not even their root');

done_testing();
