# Semaphores: no more holders than permits, first come, first served over two clusters,
# and which events wake which waiters (S131).
#
# The backends of the cluster "far" connect through a proxy, the others do not.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

# A lock node stays, though it is empty between permits.
my $ensemble = ZkEnsemble->new('main',
	tick_time => 500,
	maxSessionTimeout => 60000,
	'java.znode.container.checkIntervalMs' => 3_600_000);
my $zk = $ensemble->zk;
my $proxy = $ensemble->proxy;

# So long that no connection is given up because the machine stands still for a moment, as
# requests are counted.  A session that ends without releasing what it has must not keep
# that for so long.
my %short = ('zklock.session_timeout' => '20s');
my %settings = (
	'zklock.session_timeout' => '60s',
	deadlock_timeout => '10ms',
	log_lock_waits => 'on',
	restart_after_crash => 'on',
	max_connections => 100);
my $far_node = zk_cluster('far', $proxy, settings => \%settings);
my $node = zk_cluster('near', $ensemble, settings => \%settings);

# An acquire, in words.
sub acquire
{
	my ($path, $permits, @arguments) = @_;
	return "SELECT zk_semaphore_acquire("
	  . join(', ', "'$path'", $permits, @arguments) . ')';
}

sub release
{
	my ($session, $path) = @_;
	is($session->ask("SELECT zk_semaphore_release('$path')"),
		't', "$path is released");
	return;
}

# So many sessions, by turns in both clusters.
sub sessions
{
	my ($count) = @_;
	return map { ZkPsql->new($_ % 2 ? $far_node : $node) } 1 .. $count;
}

# Have each session ask, in this order, and be in the queue before the next.
sub queue_up
{
	my ($path, $permits, @waiters) = @_;
	my $count = $ensemble->queue($path);
	foreach my $session (@waiters)
	{
		$session->send(acquire($path, $permits));
		$ensemble->wait_for_queue($path, ++$count);
	}
	return;
}

# The watches of waiters are so many, and each has one on its own contender.
sub wait_for_watches
{
	my ($count, $contenders) = @_;
	wait_for(
		sub {
			my $watches = $ensemble->count_watches;
			return $watches->{0} == $count && $watches->{1} == $contenders;
		},
		"$count watches of waiters, $contenders of owners",
		60);
	return;
}

# Nothing is left of a semaphore.
sub is_gone
{
	my ($path) = @_;
	$ensemble->wait_for_queue($path, 0);
	is($ensemble->watch_count, 0, "no contender and no watch is left of $path");
	return;
}

# ---- First come, first served, over two clusters.

my @all = sessions(8);
my ($first, $second, @waiters) = @all;
is($_->ask(acquire('/fifo', 2)), 't', 'S131: a free permit is granted')
  foreach $first, $second;
queue_up('/fifo', 2, @waiters);
my @holders = ($second, $first);
while (my $next = shift @waiters)
{
	release(shift @holders, '/fifo');
	is($next->answer, 't', 'S131: the one that came first is next');
	ok(!$_->answered, 'and no other waiter') foreach @waiters;
	push @holders, $next;
	@holders = reverse @holders if @waiters % 2;
}
release($_, '/fifo') foreach @holders;
is_gone('/fifo');

# ---- A permit that is free costs as much as a lock.

my $idle = qr/^(ping|sync|multi|getData|event)$/;
$proxy->cost($idle);
is($first->ask(acquire('/fifo', 2)), 't', 'once more');
is( $proxy->cost($idle), 'create2=1 getChildren=1',
	'S90: a free permit takes two requests, sent together');
is($first->ask(acquire('/fifo', 2)), 't', 'and again');
is($proxy->cost($idle), '', 'S90: acquiring it again takes none');
release($first, '/fifo');
release($first, '/fifo');
is($proxy->cost($idle), 'delete=1', 'S90: releasing it takes one');
is_gone('/fifo');

# ---- Timeouts: zero, and what runs out; lock_timeout says who is in the way.

$first->ask(acquire('/try', 1));
is($second->ask(acquire('/try', 1, "'0'")), 'f', 'S131: a try without success is false');
is($second->ask(acquire('/try', 1, "'4 s'")),
	'f', 'S131: so is a timeout that runs out');
$second->ask("SET lock_timeout = '4s'");
$second->ask(acquire('/try', 1));
is($second->sqlstate, '55P03', 'S131: lock_timeout');
like($second->errors,
	qr/DETAIL: +The only permit is in use\. The nearest contender ahead is that of process \d+ of .*\. 1 must go first/,
	'names the one in the way');
like($second->errors, qr/CONTEXT: .*while waiting for a permit of semaphore "\/try"/,
	'and the semaphore');
$second->ask('RESET lock_timeout');
$ensemble->wait_for_queue('/try', 1);
release($first, '/try');
is_gone('/try');

# ---- A cancel.

$first->ask(acquire('/cancel', 1));
foreach my $round (1 .. 10)
{
	$second->send(acquire('/cancel', 1));
	$ensemble->wait_for_queue('/cancel', 2);
	kill('INT', $second->pid);
	$second->answer;
	is($second->sqlstate, '57014', 'S131: a wait is cancelled');
	$ensemble->wait_for_queue('/cancel', 1);
}
release($first, '/cancel');
is_gone('/cancel');

# ---- Transactions.

$first->ask('BEGIN; SAVEPOINT a');
is( $first->ask("SELECT zk_semaphore_acquire_xact('/xact', 1)"),
	't', 'a permit of a transaction');
$second->send("SELECT zk_semaphore_acquire_xact('/xact', 1)");
$ensemble->wait_for_queue('/xact', 2);
$first->ask('ROLLBACK TO a');
is($second->answer, 't', 'S131: goes with the subtransaction that took it');
$ensemble->wait_for_queue('/xact', 0);
$first->ask("SELECT zk_semaphore_acquire_xact('/xact', 1)");
$second->send(acquire('/xact', 1));
$ensemble->wait_for_queue('/xact', 2);
$first->ask('COMMIT');
is($second->answer, 't', 'S131: or at commit');
release($second, '/xact');
is_gone('/xact');

# ---- One kind for a path.

sub refused
{
	my ($session, $sql, $what, $detail) = @_;
	$session->ask($sql);
	is($session->sqlstate, '55006', "S131: $what");
	like($session->errors, qr/DETAIL: .*Contender ".*", which is ahead, is for $detail/,
		"$what: said so");
	$ensemble->wait_for_queue('/kind', 1);
	return;
}

$first->ask(acquire('/kind', 2));
refused($second, acquire('/kind', 3), 'another number of permits',
	'a semaphore with 2 permits');
refused($second, "SELECT zk_lock_acquire('/kind')", 'a lock on a semaphore',
	'a semaphore with 2 permits');
refused($second, "SELECT zk_lock_acquire('/kind', shared => true)",
	'a shared lock on a semaphore', 'a semaphore with 2 permits');
is($second->ask(acquire('/kind', 2)), 't', 'the right number is granted');
release($_, '/kind') foreach $first, $second;
$first->ask("SELECT zk_lock_acquire('/kind', shared => true)");
refused($second, acquire('/kind', 3), 'a semaphore on a lock', 'a lock');
$first->ask("SELECT zk_lock_release('/kind')");
my $foreign =
  $zk->create('/zklock/kind/0123456789abcdef0123456789abcdef__lock__',
	'', 'ephemeral,sequential');
refused($second, acquire('/kind', 3), 'a semaphore on a lock of kazoo', 'a lock');
$zk->delete($foreign);
is_gone('/kind');

# ---- Who is woken.  Twenty wait, those in the cluster that is watched are the
# third and fourth of them, and no others.

my @crowd = map { ZkPsql->new($node, %short) } 1 .. 18;
my ($third, $fourth) = map { ZkPsql->new($far_node) } 1 .. 2;
my @near = map { ZkPsql->new($node) } 1 .. 3;
$_->ask(acquire('/wake', 3)) foreach @near;
my @order = (@crowd[ 0 .. 1 ], $third, $fourth, @crowd[ 2 .. 17 ]);
queue_up('/wake', 3, @order);

# The first waiter watches three, each other one the one ahead.
wait_for_watches(3 + 19, 23);

# What has come through the proxy since the last look, but for what keeps sessions
# and leases.
sub traffic
{
	return $proxy->cost(qr/^(ping|sync|multi)$/);
}

traffic();
release(shift @near, '/wake');
is($crowd[0]->answer, 't', 'S131: the first waiter is granted');

# Three of the first waiter, one of each other; and two that were left by the one
# that was granted, on the holders that are there yet.
wait_for_watches(3 + 18 + 2, 22);
is(traffic(), '', 'S131: the third and the fourth waiter do not hear of it');
is(scalar(grep { $_->answered } @order[ 1 .. 19 ]), 0, 'no other waiter is granted');

release(shift @near, '/wake');
is($crowd[1]->answer, 't', 'then the second waiter');
wait_for_watches(3 + 17 + 2 + 1, 21);
is( traffic(),
	'event=1 getChildren=1 getData=3',
	'S131: the one behind it moves up: one event, a list, and watches on all holders'
);

# The third waiter, that is first now, is granted; the fourth moves up.
release(shift @near, '/wake');
is($third->answer, 't', 'then the third');
ok(!$fourth->answered, 'and not the fourth');
wait_for_watches(3 + 16 + 2 + 1, 20);
is( traffic(),
	'event=3 getChildren=2 getData=4 setData=1',
	'S131: one hears of it from a holder, the other from the one ahead');

# One in the middle gives up.
my $quitter = $crowd[8];
kill('INT', $quitter->pid);
$quitter->answer;
is($quitter->sqlstate, '57014', 'one in the middle gives up');
wait_for_watches(3 + 15 + 2 + 1 + 1, 19);
is(traffic(), '', 'S131: only the waiter behind it hears of it');
is(scalar(grep { $_->answered } @order[ 3 .. 9, 11 .. 19 ]),
	0, 'and no waiter is granted a permit');

# ---- A holder is killed; the others go on.

$crowd[0]->crash($node);
pass('a holder is killed, and its cluster comes up again');
$ensemble->wait_for_queue('/wake', 2);
is($fourth->answer(60), 't', 'S131: the first waiter that is left has its permit');
release($_, '/wake') foreach $third, $fourth;
is_gone('/wake');

# ---- The ZooKeeper session of a holder is closed, and that of a waiter.

my ($one, $two, $three) = map { ZkPsql->new($_) } $node, $far_node, $far_node;
$one->ask(acquire('/expire', 1));
queue_up('/expire', 1, $two, $three);
my @names = $ensemble->queue('/expire');
my $owner = $zk->stat("/zklock/expire/$names[1]")->{ephemeralOwner};
$proxy->expire($zk, $owner);
wait_for(
	sub {
		my @now = $ensemble->queue('/expire');
		return @now == 3 && $now[1] eq $names[2];
	},
	'it to requeue, at the end');
release($one, '/expire');
is($three->answer, 't', 'S131: so it has lost its place, and the next one is next');
$owner = $zk->stat('/zklock/expire/' . ($ensemble->queue('/expire'))[0])->{ephemeralOwner};
$proxy->expire($zk, $owner);
is($two->answer, 't', 'S131: and the permit is free');
$three->wait_until_lost('/expire');
$three->ask('SELECT zk_semaphore_release(\'/expire\')');
like($three->errors, qr/semaphore "\/expire" was already lost/, 'S131: that one has lost it');
release($two, '/expire');
is_gone('/expire');

# ---- The connection of one that was granted is lost before the next one was told
# that it is the first waiter now.

my ($other) = ZkPsql->new($node);
$one->ask(acquire('/told', 2));
$other->ask(acquire('/told', 2));
queue_up('/told', 2, $two, $three);
wait_for_watches(2 + 1, 4);
my $behind = ZkPsql->new($node);
queue_up('/told', 2, $behind);
$proxy->trap('cut_before_request', 'setData', sub { release($one, '/told') });
is($two->answer, 't', 'S131: a permit is granted');
release($other, '/told');
is($three->answer, 't', 'S131: and the next one, whose connection was lost, too');
release($two, '/told');
is($behind->answer, 't', 'S131: and the one behind it');
release($_, '/told') foreach $three, $behind;
is_gone('/told');

# ---- The answer to the create is lost, or that to the list, and the connection
# with it (S37): the permit is taken once, and free again after that.

foreach my $type ('create2', 'getChildren')
{
	$one->ask(acquire('/lost', 2));
	$proxy->trap('cut_after_request', $type,
		sub { $two->send(acquire('/lost', 2)) });
	is($two->answer, 't', "S37: the answer to $type is lost: the permit is granted");
	is(scalar(@names = $ensemble->queue('/lost')), 2, 'S37: it is taken once');
	is($other->ask(acquire('/lost', 2, "'0'")), 'f', 'S37: there is no third one');
	release($two, '/lost');
	is($other->ask(acquire('/lost', 2, "'0'")), 't', 'S37: and then it is free');
	release($_, '/lost') foreach $one, $other;
	is_gone('/lost');
}

# ---- A holder is revoked, and broken.

$one->ask(acquire('/break', 1));
my ($held) = $ensemble->queue('/break');
is($other->ask("SELECT zk_lock_revoke('/break', '$held')"),
	't', 'S105: a permit is revoked');
wait_for(
	sub {
		$one->ask('SELECT 1', 'quiet');
		return $one->errors =~ /release of semaphore "\/break" was requested/;
	},
	'its holder to be told');
queue_up('/break', 1, $two);
is($other->ask("SELECT zk_lock_break('/break', '$held')"),
	't', 'S75: a permit is broken');
is($two->answer, 't', 'S75: and the next one has it');
$one->wait_until_lost('/break');
pass('S75: its holder has lost it');
$one->ask('ROLLBACK; SELECT zk_lock_release_all()');
release($two, '/break');
is_gone('/break');

# ---- Under load, with holders being killed: never more than there are permits.
#
# Who has a permit takes one of as many slots, which are advisory locks.  If none is
# free, a session is inside that should not be.  A session that is terminated gives its
# slot back as it ends, which is before its ZooKeeper session is closed.

$node->safe_psql('postgres',
	'CREATE TABLE inside (token bigint, slot integer)');
$node->safe_psql('postgres', <<'PROCEDURE');
CREATE PROCEDURE work(rounds integer) LANGUAGE plpgsql AS $$
DECLARE
	slot integer;
BEGIN
	FOR i IN 1 .. rounds LOOP
		PERFORM zk_semaphore_acquire_xact('/load', 3);
		slot := NULL;
		FOR n IN 1 .. 3 LOOP
			IF pg_try_advisory_lock(77, n) THEN
				slot := n;
				EXIT;
			END IF;
		END LOOP;
		IF slot IS NULL THEN
			RAISE EXCEPTION 'more than three are inside';
		END IF;
		PERFORM pg_sleep(random() * 0.004);
		INSERT INTO inside VALUES (zk_lock_token('/load'), slot);
		PERFORM pg_advisory_unlock(77, slot);
		COMMIT;
	END LOOP;
END
$$;
PROCEDURE

my $rounds = 60;
my @workers = map { ZkPsql->new($node) } 1 .. 9;
my $lost = ZkPsql->new($far_node, 'zklock.session_timeout' => '5s');
my @doomed = map { ZkPsql->new($node, %short) } 1 .. 4;
is($lost->ask(acquire('/load', 3)), 't', 'one in the other cluster has a permit');
$_->send("CALL work($rounds)") foreach @workers;
$_->send('CALL work(100000)') foreach @doomed;
kill('KILL', $lost->pid);

# Its permit is free again when its ZooKeeper session is over.
wait_for(
	sub {
		$node->safe_psql('postgres', 'SELECT count(DISTINCT slot) FROM inside') == 3;
	},
	'three to be inside at a time');
pass('S131: the permit of one that was killed is used again');
foreach my $session (@doomed)
{
	my $count = $node->safe_psql('postgres', 'SELECT count(*) FROM inside');
	wait_for(
		sub {
			$node->safe_psql('postgres', 'SELECT count(*) FROM inside') > $count + 20;
		},
		'work to be done');
	is( $node->safe_psql(
			'postgres', 'SELECT pg_terminate_backend(' . $session->pid . ')'),
		't', 'a holder or waiter is terminated');
}
foreach my $session (@workers)
{
	$session->answer(120);
	is($session->errors, '', 'S131: never more than three were inside');
}
cmp_ok($node->safe_psql('postgres', 'SELECT count(DISTINCT token) FROM inside'),
	'>=', $rounds * @workers, 'S131: all have had their turns');
is_gone('/load');

done_testing();
