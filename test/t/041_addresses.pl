# The servers of zklock.servers as the client sees them: each one, whatever their
# number, is found when it is the only one that works, and a hanging resolver delays no
# session that needs no names.

use strict;
use warnings;

use List::Util qw(max min sum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use ZkEnsemble;
use ZkPsql;
use ZkResolver;
use ZkTest qw(cpu_time gave_up time_to_end times_until_fast);

# What is to happen at once: the machine may be busy with other things, or stand still
# for a moment, so the fastest of a few tries has to, and none may take as long as a
# ZooKeeper session or a connection may.
my $tries = 3;
my $late = 5;

my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my $node = zk_cluster(
	'main', $ensemble,
	start => 0,
	settings => {
		'zklock.session_timeout' => '15s',
		'zklock.connect_timeout' => '30s'
	});
my $resolver = ZkResolver->new('main');
$resolver->start_cluster($node);
$node->safe_psql('postgres', 'CREATE EXTENSION zklock');

# ---- Lists of one to five servers.  After a failure the library moves on by
# two servers, so it would never try every other one of an even number, and
# where those are down it would try the rest without a pause (ZOOKEEPER-2466).

my @proxies = map { $ensemble->proxy } 1 .. 5;

# Which entry of a list is a session connected to?  Only to be asked when it is.
sub entry_in_use
{
	my ($session, @list) = @_;
	my $server = $session->zk_session->{server};
	my ($entry) = grep { $list[$_]->address eq $server } 0 .. $#list;
	return $entry // "none, but \"$server\"";
}

# Have one entry of the list up and all others down.
sub leave_one
{
	my ($entry, @list) = @_;
	my @others = map { $list[$_] } grep { $_ != $entry } 0 .. $#list;
	$list[$entry]->pass;
	$_->refuse foreach @others;
	$_->cut foreach @others;
	return;
}

# All steps from each of so many entries to each of the others, one way round,
# beginning with the first.
sub all_steps
{
	my ($count) = @_;
	my @route;
	foreach my $from (0 .. $count - 2)
	{
		push @route, $from, $_ foreach $from + 1 .. $count - 1;
	}
	return (@route, 0);
}

# All entries are down: they accept connections and hang up.  Wait until each has
# been tried a few times, or until it is clear that one is not.  Returns how many
# connections were made a second.
sub tries_while_down
{
	my (@list) = @_;
	my @tried = (0) x @list;
	$_->hang_up foreach @list;
	$_->accepted foreach @list;
	my $start = time;
	$_->cut foreach @list;
	until (min(@tried) >= 3 || time - $start > 5)
	{
		sleep 0.01;
		$tried[$_] += $list[$_]->accepted foreach 0 .. $#list;
	}
	note "all are down: connections: @tried";
	return sum(@tried) / (time - $start);
}

# A new backend that holds a lock, with so many entries in its list.  "works" is a
# statement that needs the ensemble for what is held and for what is new.  It
# fails when the lock is lost, which is before the ZooKeeper session can expire:
# so by then it has to find the way to a server.
sub new_holder
{
	my ($count) = @_;
	my @list = @proxies[ 0 .. $count - 1 ];
	$_->pass foreach @list;
	my $session = ZkPsql->new($node,
		'zklock.servers' => join(',', map { $_->address } @list));
	$session->ask("SELECT zk_lock_acquire('/list/$count')");
	return {
		count => $count,
		list => \@list,
		session => $session,
		works => "SELECT zk_lock_verify('/list/$count'),"
		  . " zk_lock_acquire('/other/$count', '15 s'),"
		  . " zk_lock_release('/other/$count')",
		done => $session->ask("SELECT zk_lock_token('/list/$count')") . '|t|t',
		session_id => $session->zk_session->{session_id}
	};
}

# Was it one ZooKeeper session all the time?  Then it may go.
sub end_holder
{
	my ($what, $holder) = @_;
	my $now = $holder->{session}->zk_session;
	is("$now->{sessions} $now->{session_id}",
		"1 $holder->{session_id}", "S51: $what: in one ZooKeeper session");
	$holder->{session}->quit;
	$ensemble->wait_for_queue("/list/$holder->{count}", 0);
	return;
}

# Take a step for each entry of a route: then locks work, and through that one.
sub follow_route
{
	my ($what, $holder, $step, @route) = @_;
	my $session = $holder->{session};
	my @reached;
	foreach my $entry (@route)
	{
		$step->($entry);
		last if $session->ask($holder->{works}) ne $holder->{done};
		push @reached, entry_in_use($session, @{ $holder->{list} });
	}
	is("@reached", "@route", "S51: $what: locks work, over that one");
	return;
}

foreach my $count (1 .. 5)
{
	my $what = "$count in the list";

	# Only one is there, then only another: those in use go one by one.
	my $holder = new_holder($count);
	my @list = @{ $holder->{list} };
	my @route = all_steps($count);
	follow_route("$what: one after the other is up",
		$holder, sub { leave_one($_[0], @list) }, @route);

	# One goes, and the others are there.
	if ($count > 1)
	{
		$_->pass foreach @list;
		$list[ $route[-1] ]->refuse;
		$list[ $route[-1] ]->cut;
		is($holder->{session}->ask($holder->{works}),
			$holder->{done}, "S51: $what: one goes: locks work");
		isnt(entry_in_use($holder->{session}, @list),
			$route[-1], "S51: $what: over another one");
	}
	end_holder($what, $holder);

	# None is there, and then one.
	$holder = new_holder($count);
	my @rates;
	follow_route(
		"$what: all are down, then one is up",
		$holder,
		sub {
			push @rates, tries_while_down(@list);
			$list[ $_[0] ]->pass;
		},
		0 .. $#list);
	note sprintf '%.1f to %.1f connections a second', min(@rates), max(@rates);
	cmp_ok(max(@rates), '<', 100,
		"$what: all are down: no storm of connections");

	# Attempts that are refused cannot be counted, but felt.
	my $session = $holder->{session};
	$_->refuse foreach @list;
	$_->cut foreach @list;
	wait_for(sub { $session->zk_session->{state} ne 'connected' },
		'the connection to be lost');
	my ($start, $used) = (time, cpu_time($session->pid));
	sleep 0.5;
	$used = (cpu_time($session->pid) - $used) / (time - $start);
	cmp_ok($used, '<', 0.2, "$what: all refuse: no processor is burnt");

	$list[-1]->pass;
	is($session->ask($holder->{works}),
		$holder->{done}, "S51: $what: the last one is back: locks work");
	end_holder($what, $holder);
}
$_->pass foreach @proxies;

# ---- The resolver hangs when it is asked for the first time (S63).

# An entry by a name, which the resolver has to look up.
sub by_name
{
	my ($proxy) = @_;
	return $proxy->address =~ s/^127\.0\.0\.1/localhost/r;
}

my $clock = 'SELECT extract(epoch FROM clock_timestamp())';
my $control = ZkPsql->new($node);

# Does the backend wait for ZooKeeper?
sub waits
{
	my ($session) = @_;
	return $control->ask('SELECT wait_event_type FROM pg_stat_activity'
		  . " WHERE pid = ${\$session->pid}", 'quiet') eq 'Extension';
}

# After how many seconds does a statement end?
sub time_to_answer
{
	my ($session, $sql) = @_;
	$session->send("$clock;\n$sql;\n$clock");
	my @lines = split /\n/, $session->answer;
	return $lines[-1] - $lines[0];
}

# Have a statement executed, and cancel it when it waits.  Returns after how many
# seconds it ends.
sub time_to_cancel
{
	my ($session, $sql) = @_;
	$session->send("$sql;\n$clock") if defined $sql;
	wait_for(sub { waits($session) }, 'the backend to wait');
	my ($start) = split /\|/,
	  $control->ask("$clock, pg_cancel_backend(${\$session->pid})");
	return (split /\n/, $session->answer)[-1] - $start;
}

my $name = by_name($proxies[0]);
my $session = ZkPsql->new($node, 'zklock.servers' => $name);
$resolver->stall;
my $took = time_to_answer($session, "SELECT zk_lock_acquire('/stall', '1 s')");
is($session->sqlstate, '08001', 'S63: the resolver hangs: SQLSTATE 08001');
like(
	$session->errors,
	qr/could not acquire lock "\/stall": could not connect to ZooKeeper/,
	'S63: the resolver hangs: message');
like(
	$session->errors,
	qr/DETAIL: +The names in "\Q$name\E" have not been resolved yet\./,
	'S63: the resolver hangs: the host is named');
cmp_ok($took, '>=', 1, 'S87: a timeout of 1 s, not earlier');
cmp_ok($took, '<', 1 + $late, 'S87: and not much later');
is_deeply([ $resolver->asked ],
	[ $session->pid . ' localhost' ],
	'it is the resolver that was waited for');

my @states;
my @times = times_until_fast(
	1, $tries,
	sub {
		my $took = time_to_cancel($session, "SELECT zk_lock_acquire('/stall')");
		push @states, $session->sqlstate;
		return $took;
	});
is_deeply(\@states, [ ('57014') x @times ],
	'S62: the resolver hangs: a wait is cancelled: SQLSTATE 57014');
cmp_ok(min(@times), '<', 1, 'S62: immediately');
cmp_ok(max(@times), '<', $late, 'S62: every time');

@times = times_until_fast(
	3, $tries,
	sub {
		my $leaver = ZkPsql->new($node, 'zklock.servers' => $name);
		$leaver->send("SELECT zk_lock_acquire('/stall')");
		$resolver->wait_for_asking($leaver->pid, 'localhost');
		$control->ask("SELECT pg_terminate_backend(${\$leaver->pid})");
		my $seconds = time_to_end($leaver->pid);
		$leaver->{psql}{run}->finish;
		return $seconds;
	});
cmp_ok(min(@times), '<', 3,
	'S47: the resolver hangs: it holds up an end for 500 ms');
cmp_ok(max(@times), '<', $late, 'S47: every time');

# Servers without names are a way out, in the same backend.
$session->ask("SET zklock.servers = '${\$proxies[0]->address}'");
is($session->ask("SELECT zk_lock_acquire('/stall', '15 s')"),
	't', 'S63: the resolver hangs: numeric addresses do without it');
$session->ask('SELECT zk_lock_release_all()');
$session->ask("SET zklock.servers = '$name'");

# A session that waits long enough connects.
$session->send("SELECT zk_lock_acquire('/stall')");
wait_for(sub { waits($session) }, 'the backend to wait');
$resolver->go_on;
is($session->answer, 't', 'S63: when it answers the lock is acquired');
$session->quit;
$ensemble->wait_for_queue('/stall', 0);
pass('S42: abandoned waits leave no contender');

# ---- It hangs when all are connected: no session needs it (ZOOKEEPER-1998).

my %session;
my %proxy;
@proxy{qw(holder waiter loser latecomer)} = @proxies;
foreach my $role (sort keys %proxy)
{
	$session{$role} = ZkPsql->new(
		$node,
		'zklock.servers' => by_name($proxy{$role}),
		'zklock.session_timeout' => '12s');
	is($session{$role}->ask("SELECT zk_lock_acquire('/stall/$role')"),
		't', "the $role is connected");
}
my ($holder, $waiter, $loser, $latecomer) =
  @session{qw(holder waiter loser latecomer)};
$_->ask('SELECT zk_lock_release_all()') foreach $waiter, $latecomer;
my $rival = ZkPsql->new($node);
$rival->ask("SELECT zk_lock_acquire('/stall/rival')");
$latecomer->send("SELECT zk_lock_acquire('/stall/rival');\n$clock");
$ensemble->wait_for_queue('/stall/rival', 2);

my $id = $holder->zk_session->{session_id};
$resolver->stall;
$proxy{holder}->count;
my $renewals = 0;
wait_for(
	sub {
		$renewals += $proxy{holder}->count->{multi} // 0;
		return $renewals >= 5;
	},
	'five renewals, which take longer than the session timeout');
is($holder->lock_state('/stall/holder'),
	'held', 'S110: the resolver hangs: a lock is kept by renewals');

$proxy{holder}->cut;
is($holder->ask("SELECT zk_lock_verify('/stall/holder') > 0"),
	't', 'S51: the resolver hangs: a connection is lost and regained');
my $now = $holder->zk_session;
like("$now->{session_id} $now->{reconnects}",
	qr/^$id [1-9]/, 'S51: in the same ZooKeeper session');
is( $holder->ask(
		"SELECT zk_lock_acquire('/stall/more'), zk_lock_release('/stall/more'),"
		  . " (SELECT count(*) FROM zk_lock_queue('/stall/rival'))"),
	't|t|2',
	'the resolver hangs: locks work');
is($holder->ask("SELECT zk_lock_acquire('/stall/rival', '0')"),
	'f', 'or do not if they are not free');

$waiter->send("SELECT zk_lock_acquire('/stall/holder')");
$ensemble->wait_for_queue('/stall/holder', 2);
$holder->ask("SELECT zk_lock_release('/stall/holder')");
is($waiter->answer, 't', 'the resolver hangs: a waiter is granted its lock');

# Much sooner than the session would expire.
my $log = -s $node->logfile;
my $start = time;
kill 'TERM', $waiter->pid;
cmp_ok(time_to_end($waiter->pid),
	'<', $late, 'S47: the resolver hangs: a backend ends');
$ensemble->wait_for_queue('/stall/holder', 0);
ok(time - $start < $late || gave_up($node, $log), 'S47: and its lock is free');
$waiter->{psql}{run}->finish;
$holder->quit;
is_deeply([ $resolver->asked ], [], 'no client has asked the resolver');

# ---- It hangs while there is no connection either: who has been without for half
# a session timeout asks for names, as servers may have moved.

$_->refuse foreach @proxy{qw(loser latecomer)};
$_->cut foreach @proxy{qw(loser latecomer)};
$loser->wait_until_lost('/stall/loser');
$loser->ask('SELECT 1');
is($loser->sqlstate, 'ZKL01',
	'the resolver hangs: a holder without a connection loses its lock in time');
$resolver->wait_for_asking($_->pid, 'localhost') foreach $loser, $latecomer;
kill 'TERM', $loser->pid;
cmp_ok(time_to_end($loser->pid),
	'<', $late, 'S47: the resolver hangs: a backend ends without a connection');
$loser->{psql}{run}->finish;

cmp_ok(time_to_cancel($latecomer), '<', $late,
	'S62: the resolver hangs: without a connection: cancelled immediately');
is($latecomer->sqlstate, '57014', 'S62: SQLSTATE 57014');
$latecomer->send("SELECT zk_lock_acquire('/stall/rival')");
wait_for(sub { waits($latecomer) }, 'the backend to wait');
$_->pass foreach @proxies;
ok(!$latecomer->answered, 'a call waits for names');
$resolver->go_on;
$ensemble->wait_for_queue('/stall/rival', 2);
$rival->ask("SELECT zk_lock_release('/stall/rival')");
is($latecomer->answer, 't', 'S51: and continues when there are addresses');
$_->quit foreach $latecomer, $rival;
$ensemble->wait_for_queue("/stall/$_", 0) foreach 'rival', keys %proxy;
pass('no contender is left');

unlike(slurp_file($node->logfile),
	qr/terminated by signal|exited with exit code 2/,
	'no backend has crashed');

done_testing();
