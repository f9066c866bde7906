# An interrupted wait, for another holder or for the ensemble, ends at once, with
# its own SQLSTATE, and leaves no contender.

use strict;
use warnings;

use List::Util qw(min max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(check_exits children_of time_to_end times_until_fast);

# Tries of each kind, at least.  It takes a few milliseconds; but the machine may be busy
# with other things, or stand still for a moment: the fastest has to be much faster than
# anything that is polled, and none may take as long as what would end it otherwise,
# which is ten seconds.
my $tries = 5;
my $promised = 0.2;
my $late = 5;

my $ensemble =
  ZkEnsemble->new('main', tick_time => 500, maxSessionTimeout => 300000);
my $node = zk_cluster('main', $ensemble,
	allows_streaming => 1,
	settings => { 'zklock.session_timeout' => '10s' });

# Of the holder, as the first one is going to be killed.  It keeps its lock however long
# the machine stands still.
my $other = zk_cluster('other', $ensemble,
	settings => { 'zklock.session_timeout' => '60s' });
my $holder = ZkPsql->new($other);
my $path = '/interrupt';
$holder->ask("SELECT zk_lock_acquire('$path')");

my $waiter = ZkPsql->new($node);
my $control = ZkPsql->new($node);
my $clock = 'SELECT extract(epoch FROM clock_timestamp())';

# Have a session execute something, and then tell what time it is.
sub send_timed
{
	my ($session, $sql) = @_;
	$session->send("$sql;\n$clock");
	return;
}

# When that was; the time before is what the statement returned, if it did.
sub time_of_answer
{
	my ($session) = @_;
	my @lines = split /\n/, $session->answer;
	return $lines[-1];
}

# Did it fail as it should, in every try, and soon?
sub check_tries
{
	my ($what, $sqlstate, $states, $times) = @_;
	is_deeply($states, [ ($sqlstate) x @$times ], "$what: SQLSTATE $sqlstate");
	note sprintf "$what: after %.1f to %.1f ms", 1000 * min(@$times),
	  1000 * max(@$times);
	cmp_ok(min(@$times), '<', $promised, "$what: immediately");
	cmp_ok(max(@$times), '<', $late, "$what: every time");
	return;
}

# Have a statement executed, wait until it waits, and cancel it.
sub check_cancel
{
	my ($what, $sql, $waits) = @_;
	my @states;
	my @times = times_until_fast(
		$promised, $tries,
		sub {
			$ensemble->wait_for_queue($path, 1) if $waits == \&waits_behind;
			send_timed($waiter, $sql);
			wait_for($waits, "$what to wait");
			my ($start) = split /\|/,
			  $control->ask("$clock, pg_cancel_backend(${\$waiter->pid})");
			my $end = time_of_answer($waiter);
			push @states, $waiter->sqlstate;
			return $end - $start;
		});
	check_tries("$what: cancel", '57014', \@states, \@times);
	like($waiter->errors, qr/canceling statement due to user request/,
		"$what: cancel: message");
	return;
}

# Have a statement executed under a timeout of 300 ms.  Returns what was said in all
# tries: in one of them the ensemble may not have answered by then.
sub check_timeout
{
	my ($what, $sql, $setting, $sqlstate) = @_;
	my @states;
	my $errors = '';
	my @times = times_until_fast(
		$promised, $tries,
		sub {
			$waiter->ask("SET $setting = '300ms'");
			$waiter->send("$clock;\n$sql;\nSET $setting = 0;\n$clock");
			my ($start, $end) = split /\n/, $waiter->answer;
			push @states, $waiter->sqlstate;
			$errors .= $waiter->errors;
			return $end - $start - 0.3;
		});
	check_tries("$what: $setting", $sqlstate, \@states, \@times);
	like($errors, qr/canceling statement due to \Q@{[$setting =~ tr{_}{ }r]}\E/,
		"$what: $setting: message");
	cmp_ok(min(@times), '>', -0.005, "$what: $setting: not too early");
	return $errors;
}

# The statements that wait, by what they wait for.
my %acquire = (
	'session scope' => "SELECT zk_lock_acquire('$path')",
	'transaction scope' => "SELECT zk_lock_acquire_xact('$path')",
	'shared' => "SELECT zk_lock_acquire('$path', shared => true)",
	'with a timeout' => "SELECT zk_lock_acquire('$path', '1 h')");

# Does the backend wait for ZooKeeper?
sub waits
{
	return $control->ask('SELECT wait_event_type FROM pg_stat_activity'
		  . " WHERE pid = ${\$waiter->pid}") eq 'Extension';
}

# A waiter is behind the holder, with its watch set.
sub waits_behind
{
	return $ensemble->queue($path) == 2 && $ensemble->waiter_watch_count > 0;
}

# ---- Waiting for another holder (S64).

foreach my $what (sort keys %acquire)
{
	check_cancel($what, $acquire{$what}, \&waits_behind);
	$ensemble->wait_for_queue($path, 1);
}
foreach my $what ('session scope', 'transaction scope')
{
	check_timeout($what, $acquire{$what}, 'statement_timeout', '57014');
	my $errors =
	  check_timeout($what, $acquire{$what}, 'lock_timeout', '55P03');
	$ensemble->wait_for_queue($path, 1);

	# S119: who is waited for, and what for
	like($errors, qr/DETAIL: +The lock is held by process ${\$holder->pid} of /,
		"S119: $what: the message names the holder");
	like($errors, qr/CONTEXT: .*while waiting for exclusive lock "$path"/,
		"S119: $what: and the lock");
}
is($waiter->ask('SELECT count(*) FROM zk_locks'),
	0, 'S17: nothing is held after all this');

# The call's own timeout ends the wait by a result, and takes its contender with
# it (S42).  It is so long that the ensemble has said by then who holds the lock.
my $left = 0;
my @late = times_until_fast(
	$promised, $tries,
	sub {
		$waiter->send(
			"$clock;\nSELECT zk_lock_acquire('$path', '2 s');\n$clock;\n"
			  . "SELECT count(*) FROM zk_lock_queue('$path')");
		my ($start, $result, $end, $count) = split /\n/, $waiter->answer;

		# The ensemble may not have said in time who holds it.
		return $late if $waiter->sqlstate eq '08006';
		die 'the lock is acquired' if $result ne 'f';
		$left++ if $count != 1;
		return $end - $start - 2;
	});
cmp_ok(min(@late), '>=', 0, 'a timeout is not too early');
cmp_ok(min(@late), '<', $promised, 'nor late');
cmp_ok($left, '<', @late / 2, 'S42: when it has passed the contender is gone already');
$ensemble->wait_for_queue($path, 1);

# ---- What ends the backend as well: then the contender is gone with the
# ZooKeeper session (S64).

# After how many seconds from the event has the waiter left the queue?
sub time_to_leave
{
	my ($event) = @_;
	my $start = time;
	$event->();
	until ($ensemble->queue($path) == 1)
	{
		die 'the waiter does not leave' if time - $start > 30;
		sleep 0.001;
	}
	return time - $start;
}

# The SQLSTATE of the error with which a backend has ended.
sub last_state
{
	my ($session) = @_;
	$session->{psql}{run}->finish;
	my ($state) = $session->{psql}{stderr} =~ /FATAL: +([0-9A-Z]{5}):/;
	return $state // '';
}

# A new session that waits.
sub new_waiter
{
	my (%settings) = @_;
	my $session = ZkPsql->new($node, %settings);
	$session->send($acquire{'session scope'});
	wait_for(\&waits_behind, 'the waiter to wait');
	return $session;
}

# Have waiters leave the queue, and check how long that takes.
sub check_leaving
{
	my ($what, $round) = @_;
	check_exits($what, $node, $promised, $late, $tries, $round);
	return;
}

my @states;
check_leaving(
	'S64: terminate',
	sub {
		my $session = new_waiter();
		my $took = time_to_leave(sub { kill 'TERM', $session->pid });
		push @states, last_state($session);
		return $took;
	});
is_deeply(\@states, [ ('57P01') x @states ], 'S64: terminate: SQLSTATE 57P01');

check_leaving(
	'S84: client gone',
	sub {
		my $session = new_waiter('client_connection_check_interval' => '20ms');
		my $took = time_to_leave(sub { $session->{psql}{run}->signal('KILL') });
		$session->{psql}{run}->finish;
		return $took;
	});

# ---- Held, and not waited for: the timeouts of idle sessions.

$node->safe_psql('postgres', 'CREATE ROLE tester');
foreach my $case (
	[ 'idle_in_transaction_session_timeout', '25P03', 'zk_lock_acquire_xact' ],
	[ 'idle_in_transaction_session_timeout', '25P03', 'zk_lock_acquire' ],
	[ 'idle_session_timeout', '57P05', 'zk_lock_acquire' ])
{
	my ($setting, $sqlstate, $function) = @$case;
	my $session = ZkPsql->new($node);
	$session->ask('BEGIN') if $setting =~ /transaction/;
	$session->ask("SELECT $function('/idle')");
	is(scalar($ensemble->queue('/idle')), 1, "$setting, $function: it holds");
	$session->send("SET $setting = '300ms'");
	$ensemble->wait_for_queue('/idle', 0);

	# The client hears of it when it next says something.
	$session->send('SELECT 1');
	is(last_state($session), $sqlstate,
		"S64: $setting, $function: lock released");
}

# ---- An error after the acquire (S46).

foreach my $failure (
	'BEGIN; SELECT zk_lock_acquire_xact($$/error$$); SELECT 1/0',
	'SELECT zk_lock_acquire_xact($$/error$$), 1 / (random() * 0)::integer')
{
	$waiter->ask($failure);
	is($waiter->sqlstate, '22012', 'an error after an acquire');
	$ensemble->wait_for_queue('/error', 0);
	pass('S46: transaction scope: no contender is left');
	$waiter->ask('ROLLBACK');
}
$waiter->ask('SELECT zk_lock_acquire($$/error$$), 1 / (random() * 0)::integer');
is($waiter->sqlstate, '22012', 'an error after an acquire');
is($waiter->ask("SELECT mode, session_count, state FROM zk_locks"),
	'exclusive|1|held', 'S46: session scope: it is held');
is(scalar($ensemble->queue('/error')), 1, 'S46: session scope: it really is');
is($waiter->ask("SELECT zk_lock_release('/error')"), 't', 'and released');

# ---- Timeouts of all kinds (S89).

foreach my $case (
	[ "'0'", 'f', '' ],
	[ "'-1 ms'", '', '22023' ],
	[ "'-178000000 years'", '', '22023' ],
	# not enough to be told whether it is free
	[ "'1 microsecond'", '', '08006' ])
{
	my ($timeout, $result, $sqlstate) = @$case;
	my $start = time;
	is($waiter->ask("SELECT zk_lock_acquire('$path', $timeout)"),
		$result, "S89: a timeout of $timeout: result");
	is($waiter->sqlstate, $sqlstate, "S89: a timeout of $timeout: SQLSTATE");
	cmp_ok(time - $start, '<', $late, "S89: a timeout of $timeout: in time");
}
foreach my $timeout ('NULL', "'178000000 years'", 'make_interval(secs => 9223372036854)')
{
	is($waiter->ask("SELECT zk_lock_acquire('/free', $timeout)"),
		't', "S89: a timeout of $timeout: a free lock is acquired");
	$waiter->ask("SELECT zk_lock_release('/free')");
	$waiter->ask("SET lock_timeout = '100ms'");
	$waiter->ask("SELECT zk_lock_acquire('$path', $timeout)");
	is($waiter->sqlstate, '55P03',
		"S89: a timeout of $timeout: waits until lock_timeout");
	$waiter->ask('RESET lock_timeout');
}
$ensemble->wait_for_queue($path, 1);

# ---- No call sleeps where it can wait for an event (S90).

# The middle one of some times tells a sleep from a busy machine.  It has to be short in
# one series.
sub check_series
{
	my ($what, $count, $limit, $round) = @_;
	my @series;
	times_until_fast(
		$limit, 1,
		sub {
			@series = sort { $a <=> $b } map { $round->() } 1 .. $count;
			note sprintf "$what: %.1f ms", 1000 * $series[ $count / 2 ];
			return $series[ $count / 2 ];
		});
	cmp_ok($series[ $count / 2 ], '<', $limit, "S90: $what: immediately");
	cmp_ok($series[-2], '<', $late / 2, "S90: $what: every time but one");
	cmp_ok($series[-1], '<', $late, "S90: $what: and nearly so that time");
	return;
}

check_series('a free lock is acquired and released', 20, 0.5,
	sub {
		$waiter->send("$clock;\nSELECT zk_lock_acquire('/free');\n$clock;\n"
			  . "SELECT zk_lock_release('/free');\n$clock");
		my ($start, undef, $acquired, undef, $released) =
		  split /\n/, $waiter->answer;
		return max($acquired - $start, $released - $acquired);
	});
check_series('a lock is handed over', 10, 0.5,
	sub {
		send_timed($waiter, "SELECT zk_lock_acquire('$path')");
		wait_for(\&waits_behind, 'the waiter to wait');
		$holder->send("$clock;\nSELECT zk_lock_release('$path')");
		my ($start) = split /\n/, $holder->answer;
		my $took = time_of_answer($waiter) - $start;
		$waiter->ask("SELECT zk_lock_release('$path')");
		$holder->ask("SELECT zk_lock_acquire('$path')");
		return $took;
	});

# ---- Waiting for the ensemble (S62): first with a connection that is there but
# not answered, then without one.  The lock that is held outlives even all rounds of a
# busy machine.  (The client's patience with a silent connection is a tenth of the session
# timeout, or a little more.)

$waiter->ask("SET zklock.session_timeout = '300s'");
$holder->ask("SELECT zk_lock_release('$path')");

my %ask = (
	'acquire' => "SELECT zk_lock_acquire('/frozen/%s')",
	'try' => "SELECT zk_lock_acquire('/frozen/%s', '0')",
	'queue' => "SELECT count(*) FROM zk_lock_queue('/frozen/%s')",
	'release' => 'SELECT zk_lock_release_all()',
	'verify' => "SELECT zk_lock_verify('/frozen/held')");

$waiter->ask("SELECT zk_lock_acquire('/frozen/held')");
$ensemble->pause;
check_cancel("S62: frozen: $_", $ask{$_} =~ s/%s/$_/r, \&waits)
  foreach 'acquire', 'try', 'queue', 'verify';
check_timeout(
	'S62: frozen: acquire', $ask{acquire} =~ s/%s/timeout/r,
	'statement_timeout', '57014');
check_timeout('S62: frozen: acquire',
	$ask{acquire} =~ s/%s/timeout/r,
	'lock_timeout', '55P03');

# A release waits only as long as there is a connection, and a server that has been
# silent for some time was given up by now.
$ensemble->resume;
like($waiter->ask("SELECT zk_lock_verify('/frozen/held')"),
	qr/^\d+$/, 'S62: a lock held before the ensemble stopped is still held');
$ensemble->pause;
send_timed($waiter, $ask{release});
wait_for(\&waits, 'the release to wait');
my ($start) = split /\|/,
  $control->ask("$clock, pg_cancel_backend(${\$waiter->pid})");
cmp_ok(time_of_answer($waiter) - $start,
	'<', $late, 'S62: frozen: release: cancelled immediately');
is($waiter->sqlstate, '57014', 'S62: frozen: release: SQLSTATE 57014');
is($waiter->ask('SELECT count(*) FROM zk_locks'),
	0, 'S62: frozen: release: it is released none the less');
$ensemble->resume;
wait_for(
	sub {
		!grep { m{/_c_} } $ensemble->zk->tree('/zklock/frozen');
	},
	'the contenders to be deleted');
pass('S41: cancelled contenders are deleted when the ensemble answers again');
is($waiter->ask("SELECT zk_lock_acquire('/frozen/held', '20 s')"),
	't', 'and the backend continues to work');
$waiter->ask('SELECT zk_session_close()');
$waiter->ask('RESET zklock.session_timeout');

foreach my $servers ($ensemble->connect_string, '127.0.0.1:1')
{
	my $frozen = $servers ne '127.0.0.1:1';
	my $where = $frozen ? 'S62: not connected' : 'S62: refused';
	$ensemble->pause if $frozen;
	$waiter->ask("SET zklock.servers = '$servers'");
	check_cancel("$where: $_", $ask{$_} =~ s/%s/$_/r, \&waits)
	  foreach 'acquire', 'try', 'queue';
	check_timeout("$where: acquire", $ask{acquire} =~ s/%s/timeout/r,
		'statement_timeout', '57014');
	check_timeout("$where: acquire", $ask{acquire} =~ s/%s/timeout/r,
		'lock_timeout', '55P03');

	# The call's own timeout: the whole call is bounded, and false means that
	# another session holds the lock, which is not known (S87).
	my @took = times_until_fast(
		2, 3,
		sub {
			$waiter->send("$clock;\nSELECT zk_lock_acquire('/frozen/time', '1 s');\n"
				  . $clock);
			my ($begin, $end) = split /\n/, $waiter->answer;
			is($waiter->sqlstate, '08001', "$where: a timeout is an error");
			return $end - $begin;
		});
	cmp_ok(min(@took), '>=', 1, "S87: $where: a timeout of 1 s, not earlier");
	cmp_ok(min(@took), '<', 2, "S87: $where: and not later");
	$ensemble->resume if $frozen;
}
$waiter->ask('RESET zklock.servers');
is($waiter->ask("SELECT zk_lock_acquire('/frozen/held', '20 s')"),
	't', 'S62: and the backend continues to work');
is($waiter->ask('SELECT zk_lock_release_all()'), 1, 'with one lock');
$ensemble->wait_for_queue("/frozen/$_", 0)
  foreach qw(acquire try queue timeout time held);
pass('S62: no contender is left');

# ---- On a standby: a conflict with recovery (S64).

$holder->ask("SELECT zk_lock_acquire('$path')");
$node->safe_psql('postgres', 'CREATE TABLE gone (n int)');
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 0');
$standby->start;

# PostgreSQL cancels again and again, every 5 ms, until the transaction is over.  On a
# loaded machine one of these can meet a backend that is idle by then, and ends
# it; that is of no interest here.
my $went_on;
for (my $round = 1; $round <= 5 && !defined $went_on; $round++)
{
	my $conflicting = ZkPsql->new($standby);
	$node->safe_psql('postgres', 'INSERT INTO gone VALUES (1)');
	$conflicting->send($acquire{'session scope'});
	wait_for(\&waits_behind, 'the waiter on the standby to wait');
	$node->safe_psql('postgres', 'DELETE FROM gone');
	$node->safe_psql('postgres', 'VACUUM gone');
	$conflicting->answer;
	is($conflicting->sqlstate, '40001',
		'S64: a conflict with recovery ends a wait on a standby');
	$ensemble->wait_for_queue($path, 1);
	$went_on = eval {
		$conflicting->send("SELECT zk_lock_acquire('/free', '5 s')");
		$conflicting->answer(10);
	};
	eval { $conflicting->quit };
}
is($went_on, 't', 'S64: and the backend continues to work');
$standby->stop;

# ---- The postmaster dies (S64).

$waiter->quit;
$control->quit;
check_leaving(
	'S64: the postmaster dies',
	sub {
		my $session = new_waiter();
		my $postmaster = $node->{_pid};
		my @children = children_of($postmaster);
		my $took = time_to_leave(sub { $node->kill9 });
		$session->{psql}{run}->finish;

		# As long as one of them is there the next server does not start.
		time_to_end($_) foreach @children;
		wait_for(sub { !kill 0, $postmaster }, 'the postmaster to be gone');
		$node->start;
		return $took;
	});

# ---- The only backends that ended were ended by us.

is($holder->ask("SELECT zk_lock_release('$path')"),
	't', 'the holder has held the lock to the end');
$ensemble->wait_for_queue($path, 0);
$holder->quit;
foreach ($node, $other, $standby)
{
	unlike(slurp_file($_->logfile),
		qr/terminated by signal|exited with exit code 2/,
		$_->name . ': no backend has crashed');
}

done_testing();
