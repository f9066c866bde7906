# Deadlocks: cycles of waits in ZooKeeper, also together with PostgreSQL's own.
#
# In each scenario exactly one session ends with 40P01, the others get their locks.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use ZkEnsemble;
use ZkProbe;
use ZkPsql;

# A client that leaves a server which does not answer for a tenth of the session timeout
# publishes its wait again, and would be the last one that did.
my $deadlock_timeout = 0.3;
my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 40000);
my $zk = $ensemble->zk;
my $proxy = $ensemble->proxy;
my $waits = '/zklock/.zklock/waits';
my %cluster = map {
	$_ => zk_cluster(
		$_,
		$ensemble,
		settings => {
			cluster_name => $_,
			deadlock_timeout => '300ms',
			'zklock.session_timeout' => '40s'
		})
} qw(a b c);

# Sessions by name: the first letter is the cluster.
my %session = map { $_ => ZkPsql->new($cluster{ substr($_, 0, 1) }) }
  qw(a1 a2 a3 a4 b1 b2 c1);
# They ask who waits: a new connection each time would take longer than some timeouts here.
my %observer = map { $_ => ZkPsql->new($cluster{$_}) } keys %cluster;
my %name_of = map { $session{$_}->pid => $_ } keys %session;
$session{a1}->ask('CREATE TABLE t (id int PRIMARY KEY, n int)');
$session{a1}->ask('INSERT INTO t SELECT i, 0 FROM generate_series(1, 9) i');

# What is published.
sub published
{
	return grep { $_ ne '' } eval { $zk->ls($waits) };
}

sub wait_for_published
{
	my ($count) = @_;
	wait_for(sub { published() == $count }, "$count published waits");
	return;
}

# SQL for a lock, or several, or a row, or a table.
sub lock_of
{
	my ($what, $shared) = @_;
	return "UPDATE t SET n = n + 1 WHERE id = $1 RETURNING true"
	  if $what =~ /^row (\d+)$/;
	return "LOCK TABLE t; SELECT true" if $what eq 'table';
	my $paths = $what =~ /,/ ? "ARRAY['" . join("','", split /,/, $what) . "']"
	  : "'$what'";
	return "SELECT zk_lock_acquire_xact($paths"
	  . ($shared ? ', shared => true' : '') . ')';
}

# Begin a transaction that takes something.
sub hold
{
	my ($name, @what) = @_;
	$session{$name}->ask('BEGIN');
	foreach (@what)
	{
		my ($what, $shared) = ref $_ ? @$_ : ($_);
		is($session{$name}->ask(lock_of($what, $shared)), 't', "$name has $what");
	}
	return;
}

# Is a backend waiting, in PostgreSQL or in a queue of ZooKeeper?
sub is_waiting
{
	my ($name) = @_;
	my $pid = $session{$name}->pid;
	return $observer{ substr($name, 0, 1) }->ask(
		"SELECT count(*) FROM pg_stat_activity WHERE pid = $pid AND"
		  . " wait_event_type IN ('Lock', 'Extension') AND state = 'active'", 'quiet');
}

# Begin a wait; returns when it has begun, or is over already, as that of a victim.
sub begin_wait
{
	my ($name, $what, $shared) = @_;
	$session{$name}->send(lock_of($what, $shared));
	wait_for(sub { is_waiting($name) || $session{$name}->answered },
		"$name to wait for $what");
	return;
}

# The one that ends with an error is the victim; others may have gone on by then.
# Returns its name and what it was told.
sub victim_of
{
	my ($since, $limit, @names) = @_;
	my $victim;
	wait_for(
		sub {
			($victim) = grep {
				$session{$_}->answered
				  && $session{$_}->{psql}->{stderr} =~ /40P01/
			} @names;
			return $victim;
		},
		'a deadlock to be found');
	my $took = time - $since;
	$session{$victim}->answer;
	note sprintf '%s is the victim %.0f ms after the cycle was closed', $victim,
	  1000 * $took;
	cmp_ok($took, '<', $limit + 20, 'it is found in time');
	return ($victim, $session{$victim}->errors);
}

# The others, one after the other, get what they wait for.
sub others_go_on
{
	my (@names) = @_;
	while (@names)
	{
		my $next;
		wait_for(
			sub {
				($next) = grep { $session{$_}->answered } @names;
				return $next;
			},
			"one of @names to continue");
		is($session{$next}->answer, 't', "$next continues");
		is($session{$next}->sqlstate, '', '... without an error');
		$session{$next}->ask('COMMIT');
		@names = grep { $_ ne $next } @names;
	}
	return;
}

# A cycle is closed by now: see what comes of it.  Edges are [who, for what, whom].
# "who" is who has to be the victim, or undef if that is open.
sub resolve
{
	my ($title, $who, $edges, %options) = @_;
	my @names = map { $_->[0] } @$edges;
	my @bystanders = @{ $options{bystanders} // [] };
	my ($victim, $error) = victim_of($options{since} // time,
		$options{limit} // $deadlock_timeout, @names);
	is($session{$victim}->sqlstate, '40P01', "$title: 40P01");
	is($victim, $who, "$title: it is the session that closed the cycle") if defined $who;
	like($error, qr/deadlock detected/, 'the message');
	foreach (@$edges)
	{
		my ($from, $what, $to) = @$_;
		my ($waiter, $blocker) = map {
			my $cluster = substr($_, 0, 1);
			my $pid = $session{$_}->pid;
			qr/rocess $pid of cluster "$cluster" \([^()]+:\d+, database "postgres"[^()]*\)/
		} $from, $to;
		like(
			$error,
			qr/P$waiter waits for $what; (?:held by|queued behind|blocked by) p$blocker\.$/m,
			"DETAIL: $from waits for $to");
	}
	is(scalar(() = $error =~ / waits for /g),
		scalar @$edges, 'and no other edge');
	$session{$victim}->ask('ROLLBACK');
	others_go_on((grep { $_ ne $victim } @names), @bystanders);
	wait_for_published(0);
	return;
}

# ---- Two clusters, two locks.

hold('a1', '/A');
hold('b1', '/B');
begin_wait('a1', '/B');
wait_for_published(1);
my $since = time;
begin_wait('b1', '/A');
resolve('S72: two clusters', 'b1',
	[ [ 'a1', 'exclusive lock "/B"', 'b1' ], [ 'b1', 'exclusive lock "/A"', 'a1' ] ],
	since => $since);

# Both at the same time.
hold('a1', '/A');
hold('b1', '/B');
$session{a1}->send(lock_of('/B'));
$session{b1}->send(lock_of('/A'));
resolve('S72: at the same time', undef,
	[ [ 'a1', 'exclusive lock "/B"', 'b1' ], [ 'b1', 'exclusive lock "/A"', 'a1' ] ]);

# A timeout that is shorter names the holder.
hold('a1', '/A');
hold('b1', '/B');
begin_wait('a1', '/B');
$session{b1}->ask("SET LOCAL deadlock_timeout = '30s'; SET LOCAL lock_timeout = '4s'");
$session{b1}->ask(lock_of('/A'));
is($session{b1}->sqlstate, '55P03', 'S72: lock_timeout before deadlock_timeout');
like($session{b1}->errors, qr/held by process ${\$session{a1}->pid} of cluster "a" /,
	'... names the holder');
$session{b1}->ask('ROLLBACK');
others_go_on('a1');

# ---- Three in a ring.

hold('a1', '/A');
hold('b1', '/B');
hold('c1', '/C');
begin_wait('a1', '/B');
begin_wait('b1', '/C');
wait_for_published(2);
$since = time;
begin_wait('c1', '/A');
resolve(
	'S72: three clusters', 'c1',
	[
		[ 'a1', 'exclusive lock "/B"', 'b1' ],
		[ 'b1', 'exclusive lock "/C"', 'c1' ],
		[ 'c1', 'exclusive lock "/A"', 'a1' ]
	],
	since => $since);

# ---- Shared and exclusive.

hold('a1', [ '/A', 1 ]);
hold('c1', [ '/A', 1 ]);
hold('b1', '/B');
begin_wait('a1', '/B', 1);
wait_for_published(1);
$since = time;
begin_wait('b1', '/A');
resolve(
	'S72: a reader among others', 'b1',
	[
		[ 'a1', 'shared lock "/B"', 'b1' ],
		[ 'b1', 'exclusive lock "/A"', 'a1' ]
	],
	since => $since);
$session{c1}->ask('COMMIT');
$ensemble->wait_for_queue('/A', 0);

# ---- Upgraders.

hold('a1', [ '/A', 1 ]);
hold('b1', [ '/A', 1 ]);
begin_wait('a1', '/A');
$ensemble->wait_for_queue('/A', 3);
$since = time;
begin_wait('b1', '/A');
my ($victim, $error) = victim_of($since, $deadlock_timeout, 'a1', 'b1');
is($victim, 'b1', 'S25: of two upgraders the later one ends');
like($error, qr/ERROR:  40P01: deadlock detected\n/, '... with 40P01');
$session{b1}->ask('ROLLBACK');
others_go_on('a1');
wait_for_published(0);

hold('a1', [ '/A', 1 ], '/B');
hold('b1', [ '/A', 1 ]);
begin_wait('a1', '/A');
wait_for_published(1);
$since = time;
begin_wait('b1', '/B');
resolve(
	'S25: an upgrade and a second lock', 'b1',
	[
		[ 'a1', 'exclusive lock "/A"', 'b1' ],
		[ 'b1', 'exclusive lock "/B"', 'a1' ]
	],
	since => $since);

# Behind a waiter that holds nothing, and so publishes nothing.
hold('a1', '/A');
hold('b1', '/B', [ '/C', 1 ]);
hold('c1');
begin_wait('c1', '/C');
$ensemble->wait_for_queue('/C', 2);
begin_wait('a1', '/C', 1);
wait_for_published(1);
$since = time;
begin_wait('b1', '/A');
resolve(
	'S72: a waiter in between that has nothing to do with it', 'b1',
	[
		[ 'a1', 'shared lock "/C"', 'b1' ],
		[ 'b1', 'exclusive lock "/A"', 'a1' ]
	],
	since => $since,
	bystanders => ['c1']);

# ---- Several at once.

hold('a1', '/A');
hold('b1');
begin_wait('b1', '/A,/B');
wait_for_published(1);
$since = time;
begin_wait('a1', '/B');
resolve(
	'S72: several at once against one after the other', 'a1',
	[
		[ 'a1', 'exclusive lock "/B"', 'b1' ],
		[ 'b1', 'exclusive lock "/A"', 'a1' ]
	],
	since => $since);

# ---- Through PostgreSQL's own locks, in any order.

foreach my $what ('row 1', 'table')
{
	my $local = $what eq 'table' ? qr/AccessExclusiveLock on relation \d+ of database \d+/
	  : qr/ShareLock on transaction \d+/;

	hold('a1', $what);
	hold('a2', '/A');
	begin_wait('a2', $what);
	$since = time;
	begin_wait('a1', '/A');
	resolve(
		"S73: $what, ZooKeeper last", 'a1',
		[
			[ 'a1', 'exclusive lock "/A"', 'a2' ],
			[ 'a2', $local, 'a1' ]
		],
		since => $since);

	hold('a1', $what);
	hold('a2', '/A');
	begin_wait('a1', '/A');
	sleep 2 * $deadlock_timeout;
	is(scalar published(), 0, 'no session waits for one that waits in ZooKeeper');
	$since = time;
	begin_wait('a2', $what);
	resolve(
		"S73: $what, PostgreSQL last", 'a1',
		[
			[ 'a1', 'exclusive lock "/A"', 'a2' ],
			[ 'a2', $local, 'a1' ]
		],
		since => $since);
}

# What migrations under a lock meet: an index that is built concurrently waits for
# all who have a snapshot, and so for who waits for the lock.
is($session{a1}->ask("SELECT zk_lock_acquire('/A')"), 't', 'a1 has /A');
$session{a2}->send("SELECT zk_lock_acquire('/A')");
$ensemble->wait_for_queue('/A', 2);
$since = time;
$session{a1}->send('CREATE INDEX CONCURRENTLY ON t (n)');
my ($stopped, $why) = victim_of($since, $deadlock_timeout, 'a1', 'a2');
is($stopped, 'a2', 'S73: the session that has a snapshot, and waits for the lock, ends');
like($why, qr/waits for ShareLock on virtual transaction/, '... and the error has the reason');
is($session{a1}->answer, '', 'the index is built');
is($session{a1}->sqlstate, '', '... without an error');
is($session{a1}->ask("SELECT zk_lock_release('/A')"), 't', 'the lock is released');
wait_for_published(0);

# A chain of two waits in PostgreSQL.
hold('a1', 'row 1');
hold('a2', 'row 2');
hold('a3', '/A');
begin_wait('a2', 'row 1');
begin_wait('a3', 'row 2');
$since = time;
begin_wait('a1', '/A');
resolve(
	'S73: two waits in PostgreSQL', 'a1',
	[
		[ 'a1', 'exclusive lock "/A"', 'a3' ],
		[ 'a3', qr/ShareLock on transaction \d+/, 'a2' ],
		[ 'a2', qr/ShareLock on transaction \d+/, 'a1' ]
	],
	since => $since);

# Through another cluster: a1 -> b1 -> a2 -> a1.
hold('a1', 'row 1');
hold('a2', '/A');
hold('b1', '/B');
begin_wait('a1', '/B');
begin_wait('a2', 'row 1');
$since = time;
begin_wait('b1', '/A');
resolve(
	'S73: through another cluster', 'a1',
	[
		[ 'a1', 'exclusive lock "/B"', 'b1' ],
		[ 'b1', 'exclusive lock "/A"', 'a2' ],
		[ 'a2', qr/ShareLock on transaction \d+/, 'a1' ]
	],
	since => $since);

# Two of the cycle are waited for in PostgreSQL: a1 -> a2 -row-> a3 -> a4 -row-> a1.
hold('a1', 'row 1');
hold('a2', '/A');
hold('a3', 'row 2');
hold('a4', '/B');
begin_wait('a2', 'row 2');
begin_wait('a4', 'row 1');
begin_wait('a1', '/A');
$since = time;
begin_wait('a3', '/B');
resolve(
	'S73: two waits in PostgreSQL, not next to each other', undef,
	[
		[ 'a1', 'exclusive lock "/A"', 'a2' ],
		[ 'a2', qr/ShareLock on transaction \d+/, 'a3' ],
		[ 'a3', 'exclusive lock "/B"', 'a4' ],
		[ 'a4', qr/ShareLock on transaction \d+/, 'a1' ]
	],
	since => $since);

# ---- Not the same patience on both sides.

foreach my $impatient ('a1', 'b1')
{
	hold('a1', '/A');
	hold('b1', '/B');
	my ($patient) = grep { $_ ne $impatient } 'a1', 'b1';
	$session{$impatient}->ask("SET LOCAL deadlock_timeout = '50ms'");
	$session{$patient}->ask("SET LOCAL deadlock_timeout = '5s'");
	begin_wait('a1', '/B');
	$since = time;
	begin_wait('b1', '/A');
	resolve("S72: $impatient is impatient", $patient,
		[ [ 'a1', 'exclusive lock "/B"', 'b1' ], [ 'b1', 'exclusive lock "/A"', 'a1' ] ],
		since => $since);
}

# ---- What is published goes with the wait, whatever ends it.

# a1 waits for what b1 holds, and has published that.
sub wait_in_public
{
	my ($setting) = @_;
	hold('a1', '/A');
	hold('b1', '/B');
	$session{a1}->ask("SET LOCAL $setting") if $setting;
	begin_wait('a1', '/B');
	wait_for_published(1);
	my $data = $zk->get("$waits/" . (published())[0]);
	my $pid = $session{a1}->pid;
	like(
		$data,
		qr/^\{"cluster":"a",.*"pid":$pid,.*\}\n_c_[-0-9a-f]+-lock-\d{10} \/zklock\/B\n$/,
		'the published wait');
	return;
}

wait_in_public();
$session{b1}->ask('COMMIT');
is($session{a1}->answer, 't', 'granted');
wait_for_published(0);
$session{a1}->ask('COMMIT');

wait_in_public("lock_timeout = '12s'");
$session{a1}->answer;
is($session{a1}->sqlstate, '55P03', 'lock_timeout');
wait_for_published(0);
$session{$_}->ask('ROLLBACK') foreach 'a1', 'b1';

wait_in_public();
my $cancelled = time;
$cluster{a}->safe_psql('postgres',
	"SELECT pg_cancel_backend(${\$session{a1}->pid})");
$session{a1}->answer;
is($session{a1}->sqlstate, '57014', 'cancelled');
wait_for_published(0);
$session{$_}->ask('ROLLBACK') foreach 'a1', 'b1';

wait_in_public();
$cluster{a}->safe_psql('postgres',
	"SELECT pg_terminate_backend(${\$session{a1}->pid})");
wait_for_published(0);
pass('terminated');
$session{b1}->ask('COMMIT');
$session{a1} = ZkPsql->new($cluster{a});

# ---- Over lost connections.

my $far = zk_cluster(
	'd', $proxy,
	settings => {
		deadlock_timeout => '300ms',
		'zklock.session_timeout' => '40s'
	});
$session{d1} = ZkPsql->new($far);
$cluster{d} = $far;
$observer{d} = ZkPsql->new($far);

# A cycle with a session whose connection hangs is found by the other one; then it
# publishes its wait again.
hold('d1', '/A');
hold('b1', '/B');
begin_wait('d1', '/B');
wait_for_published(1);
my ($before) = published();
my $written = $zk->stat("$waits/$before")->{mzxid};
$proxy->freeze;
$since = time;
begin_wait('b1', '/A');
my ($found) = victim_of($since, $deadlock_timeout, 'd1', 'b1');
is($found, 'b1', 'the one who sees the cycle ends');
$proxy->hang_up;
$proxy->pass;
wait_for(
	sub {
		my $stat = $zk->stat("$waits/$before");
		return !$stat || $stat->{mzxid} ne $written;
	},
	'it to be published again');
$session{b1}->ask('ROLLBACK');
others_go_on('d1');
wait_for_published(0);

# The answer to the create, which follows that of the contender, is lost; what was created
# is deleted with the wait.
hold('d1', '/A');
hold('b1', '/B');
$session{d1}->ask("SET LOCAL lock_timeout = '8s'");
my $struck = $proxy->fired;
$proxy->cut_after_request('create2', 2);
$session{d1}->send(lock_of('/B'));
wait_for(sub { $proxy->fired > $struck }, 'the connection to be cut');
wait_for_published(1);
$session{d1}->answer;
is($session{d1}->sqlstate, '55P03', 'the wait continues over that');
wait_for_published(0);
$session{$_}->ask('ROLLBACK') foreach 'd1', 'b1';

# The answer to the delete is.
hold('d1', '/A');
hold('b1', '/B');
begin_wait('d1', '/B');
wait_for_published(1);
$struck = $proxy->fired;
$proxy->cut_before_request('delete');
$session{b1}->ask('COMMIT');
is($session{d1}->answer, 't', 'granted');
wait_for(sub { $proxy->fired > $struck }, 'the connection to be cut');
wait_for_published(0);
pass('the published wait is deleted over the next connection');
$session{d1}->ask('ROLLBACK');

# The ZooKeeper session expires.
my $id = $session{d1}->zk_session->{session_id};
hold('d1');
hold('b1', '/B');
$session{d1}->send(lock_of('/B,/C'));
wait_for_published(1);
my ($old) = published();
$proxy->expire($zk, $id);
wait_for(
	sub {
		my @now = published();
		return @now == 1 && $now[0] ne $old;
	},
	'it to be published in the next ZooKeeper session');
$session{b1}->ask('COMMIT');
is($session{d1}->answer, 't', 'granted after the ZooKeeper session has expired');
$session{d1}->ask('ROLLBACK');
wait_for_published(0);

# ---- Garbage among what is published.

my @garbage = (
	'', "\n", '{', "{}\nx", "{}\n_c_x-lock-0000000001 /", "\0\0\0 \0",
	"{\"cluster\":\n" . "_c_x-lock-0000000001 /zklock/B\n" x 1000,
	'{"cluster":"x","pid":1,"instance":"x"}' . "\n_c_x-lock-0000000001 /zklock//B\n",
	'[' x 10000, "{}\n" . ' /zklock/A' . "\n", 'x' x 200_000);
foreach my $i (0 .. $#garbage)
{
	my $stranger = $i % 2 ? 'ephemeral' : 'persistent';
	$zk->create("$waits/garbage$i", $garbage[$i], $i % 2 ? ('ephemeral') : ());
}
hold('a1', '/A');
hold('b1', '/B');
begin_wait('a1', '/B');
$since = time;
begin_wait('b1', '/A');
my ($garbled, $text) = victim_of($since, $deadlock_timeout, 'a1', 'b1');
like($text, qr/deadlock detected/, 'a deadlock is found among garbage');
$session{$garbled}->ask('ROLLBACK');
others_go_on(grep { $_ ne $garbled } 'a1', 'b1');
$zk->delete("$waits/garbage$_") foreach 0 .. $#garbage;

# ---- A short wait costs nothing; nor does one of a session without locks.

$session{d1}->ask("SET deadlock_timeout = '10ms'");
my $waiter = ZkPsql->new($far);
is($waiter->ask("SELECT zk_lock_acquire('/E')"), 't', 'a lock');
$waiter->ask("SELECT zk_lock_release('/E')");
hold('b1', '/E');
$waiter->ask("SET deadlock_timeout = '10ms'");
$waiter->send("SELECT zk_lock_acquire('/E')");
$ensemble->wait_for_queue('/E', 2);
sleep 0.5;
is(scalar published(), 0, 'S90: a session that holds nothing publishes nothing');
$session{b1}->ask('COMMIT');
is($waiter->answer, 't', 'granted');

foreach my $cluster (values %cluster)
{
	unlike(slurp_file($cluster->logfile), qr/PANIC|TRAP|terminated by signal|could not check for deadlocks/,
		'nothing strange in the server log');
}
done_testing();
