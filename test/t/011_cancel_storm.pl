# Waits that are cancelled or time out at any point of the protocol, some hundred times:
# a statement holds exactly the locks that it reports as acquired, and nothing stays
# behind.

use strict;
use warnings;

use List::Util qw(sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use ZkEnsemble;
use ZkPsql;

# So long a session timeout that no connection is given up while an answer is held back.
my $ensemble =
  ZkEnsemble->new('main', tick_time => 500, maxSessionTimeout => 60000);
my $proxy = $ensemble->proxy;
my $node = zk_cluster('main', $ensemble,
	settings => { 'zklock.session_timeout' => '60s' });
my $victim = ZkPsql->new($node);
my $rival = ZkPsql->new($node);

srand(my $seed = time ^ $$);
note "seed $seed";

# What has come of the tries: granted, refused (false), or an SQLSTATE.
my %outcome;

# The answer to an acquire of session scope.  See that it is the truth, about
# what is held and, with exact, about what is in the queue; then release it.
#
# As with advisory locks, what was acquired stays when the statement fails after
# that: a cancel that comes when the function has returned says nothing of a wait.
sub judge
{
	my ($path, $exact) = @_;
	my $answer = $victim->answer;
	my $result =
	    $answer eq 't' ? 'granted'
	  : $answer eq 'f' ? 'refused'
	  : $victim->sqlstate;
	my $late = $result eq '57014' && $victim->errors !~ /^CONTEXT: /m;
	my $held = $victim->ask("SELECT count(*) FROM zk_locks");

	$result = 'late' if $late && $held;
	$outcome{$result}++;
	die "$result, and $held locks are held"
	  if $held != ($result =~ /^(granted|late)$/ ? 1 : 0);
	$ensemble->wait_for_queue($path, $held) if $exact;
	$victim->ask("SELECT zk_lock_release_all()") if $held;
	return $result;
}

# Do nothing until then, to the fraction of a millisecond.
sub spin_until
{
	my ($then) = @_;
	1 while time < $then;
	return;
}

# ---- While another backend acquires and releases all the time (S41, S44).

my $path = '/storm';
$rival->send(
	qq(DO \$\$ BEGIN
		LOOP
			PERFORM zk_lock_acquire('$path');
			PERFORM pg_sleep(random() * 0.003);
			PERFORM zk_lock_release('$path');
			PERFORM pg_sleep(random() * 0.001);
		END LOOP;
	END \$\$));
wait_for(sub { $ensemble->zk->stat("/zklock$path") }, 'the rival to begin');

my @acquires = (
	"SELECT zk_lock_acquire('$path')",
	"SELECT zk_lock_acquire('$path', '1 h')",
	"SELECT zk_lock_acquire('$path', '0')",
	"SELECT zk_lock_acquire('$path', shared => true)",
	"SELECT zk_lock_acquire('$path', '3 ms')");

# A busy machine may be slow to begin the statement, and the cancel comes before it.
sub enough
{
	return ($outcome{57014} // 0) > 20 && ($outcome{granted} // 0) > 10;
}

for (my $try = 1; $try <= 400 || (!enough() && $try <= 4000); $try++)
{
	# Some of them begin with a connection, too.
	$victim->ask('SELECT zk_session_close()') if $try % 10 == 0;
	$victim->send($acquires[ rand @acquires ]);

	# psql takes a moment to send it.
	spin_until(time + rand 0.008);
	kill 'INT', $victim->pid;
	if ($try % 3 == 0)
	{
		spin_until(time + rand 0.001);
		kill 'INT', $victim->pid;
	}
	judge($path);
}
note explain \%outcome;
cmp_ok($outcome{57014} // 0, '>', 20, 'S16, S17, S41: some were cancelled');
cmp_ok($outcome{granted} // 0, '>', 10, 'S16, S17, S41: some were granted');

# Three milliseconds are not always enough to connect, or to be answered.
is_deeply(
	[ grep { !/^(57014|late|granted|refused|0800[16])$/ } keys %outcome ],
	[], 'S44: nothing else came of them');

# Of transaction scope, and in a subtransaction: nothing is left at the end.
my $cancelled = 0;
for (my $try = 1; $try <= 100 || ($cancelled <= 10 && $try <= 1000); $try++)
{
	$victim->send(
		$try % 2
		? "SELECT zk_lock_acquire_xact('$path')"
		: "DO \$\$ BEGIN
			BEGIN
				PERFORM zk_lock_acquire_xact('$path');
				RAISE division_by_zero;
			EXCEPTION WHEN division_by_zero THEN
				PERFORM zk_lock_acquire_xact('$path', shared => true);
			END;
		END \$\$");
	spin_until(time + rand 0.008);
	kill 'INT', $victim->pid;
	$victim->answer;
	$cancelled++ if $victim->sqlstate eq '57014';
	die 'a lock is held' if $victim->ask("SELECT count(*) FROM zk_locks");
}
cmp_ok($cancelled, '>', 10, 'S17: transaction scope: some were cancelled');

kill 'INT', $rival->pid;
$rival->answer;
$rival->ask('SELECT zk_lock_release_all()');
$ensemble->wait_for_queue($path, 0);
pass('S41: no contender is left');

# ---- The end of the wait and the grant in the same instant.
#
# The wait ends at a known time, and the holder releases a little before or after
# that.  Each outcome moves the release towards the other one, so that the tries
# gather where it is decided, which takes more tries on a busy machine.

sub duel
{
	my ($what, $acquire, $end_wait, $other) = @_;
	my $delay = 0;
	my $undecided = 0;
	%outcome = ();
	my $enough = sub {
		return ($outcome{granted} // 0) > 10 && ($outcome{$other} // 0) > 10;
	};
	for (
		my $try = 1;
		($try <= 150 + $undecided || (!$enough->() && $try <= 1500)) && $undecided < 1000;
		$try++)
	{
		$rival->ask("SELECT zk_lock_acquire('$path')");
		$victim->send($acquire);
		my $end = time + 0.03;
		my @events = ([ $end, $end_wait ],
			[ $end + $delay, sub { $rival->send("SELECT zk_lock_release('$path')") } ]);
		foreach (sort { $a->[0] <=> $b->[0] } @events)
		{
			spin_until($_->[0]);
			$_->[1]->();
		}
		$rival->answer;
		my $result = judge($path, 1);
		$delay += ($result =~ /^(granted|late)$/ ? 1 : -1) * rand 0.0005;

		# On a busy machine there may be no answer at all in 30 ms.
		$undecided++ if $result eq '08006';
	}
	delete $outcome{'08006'};
	note "$what: ", explain \%outcome;
	cmp_ok($outcome{granted} // 0, '>', 10, "$what: some were granted");
	cmp_ok($outcome{$other} // 0, '>', 10, "$what: some were not");
	is_deeply([ grep { !/^(granted|late|$other)$/ } keys %outcome ],
		[], "$what: nothing else came of them");
	return;
}

duel(
	'S17: cancelled when granted',
	"SELECT zk_lock_acquire('$path')",
	sub { kill 'INT', $victim->pid },
	'57014');
duel(
	'S16: timed out when granted',
	"SELECT zk_lock_acquire('$path', '30 ms')",
	sub { },
	'refused');

# ---- Cancelled while cleaning up: that completes (S44).

my $far = ZkPsql->new($node, 'zklock.servers' => $proxy->address);
$far->ask("SELECT zk_lock_acquire('/far'), zk_lock_release('/far')");

my $fired = 0;
foreach (1 .. 5)
{
	$far->ask("SELECT zk_lock_acquire('/far')");
	$proxy->hold_reply('delete');
	$far->send("SELECT zk_lock_release('/far')");
	wait_for(sub { $proxy->fired > $fired }, 'the delete');
	$fired = $proxy->fired;
	kill 'INT', $far->pid;
	$far->answer;
	die 'the release is not cancelled' if $far->sqlstate ne '57014';
	die 'the lock is held' if $far->ask('SELECT count(*) FROM zk_locks');
	$proxy->pass;
	$ensemble->wait_for_queue('/far', 0);
}
is($far->ask("SELECT zk_lock_acquire('/far', '0'), zk_lock_release('/far')"),
	't|t', 'S44: a release that is cancelled completes');

# When time is up, the contender is waited for a moment.  Cancel just then.  If there
# was no answer until then, it is no such end.
$rival->ask("SELECT zk_lock_acquire('/far')");
my %end;
for (my $try = 1; $try <= 50 && sum0(values %end) < 10; $try++)
{
	$proxy->hold_reply('delete');
	$far->send("SELECT zk_lock_acquire('/far', '500 ms')");
	wait_for(sub { $proxy->fired > $fired }, 'the delete');
	$fired = $proxy->fired;
	kill 'INT', $far->pid;
	my $end = $far->answer eq 'f' ? 'refused' : $far->sqlstate;
	$end{$end}++ unless $end eq '08006';
	die 'the lock is held' if $far->ask('SELECT count(*) FROM zk_locks');
	$proxy->pass;
	$ensemble->wait_for_queue('/far', 1);
}
note explain \%end;
is_deeply([ grep { !/^(57014|refused)$/ } keys %end ],
	[], 'S44: a wait is cancelled after its end');
is(sum0(values %end), 10, 'S44: a few times');
$rival->ask("SELECT zk_lock_release('/far')");
is($far->ask("SELECT zk_lock_acquire('/far', '20 s'), zk_lock_release('/far')"),
	't|t', 'S44: which leaves nothing behind');

# ---- Signals are for the backend's own thread alone (S65).

$rival->ask("SELECT zk_lock_acquire('$path')");
$victim->ask("SET statement_timeout = '1 h'");
$victim->ask("LISTEN storm");
$victim->send("SELECT zk_lock_acquire('$path')");
$ensemble->wait_for_queue($path, 2);
foreach (1 .. 2000)
{
	kill $_, $victim->pid foreach qw(USR1 ALRM URG);
}
$rival->ask("NOTIFY storm") foreach 1 .. 20;
ok(!$victim->answered, 'S65: a storm of signals does not end a wait');
$rival->ask("SELECT zk_lock_release('$path')");
like($victim->answer, qr/^t$/m, 'S65: and it does not prevent the grant');
$victim->ask("SELECT zk_lock_release('$path')");

# ---- Nothing is left of all this.

is($victim->ask("SELECT zk_lock_acquire('$path', '0')"),
	't', 'the backend continues to work');
is($victim->ask("SELECT zk_lock_release('$path')"), 't', 'as ever');
$ensemble->wait_for_queue($_, 0) foreach $path, '/far';
cmp_ok($ensemble->watch_count, '<', 5, 'S92: watches do not pile up');
$_->ask('SELECT zk_session_close()') foreach $victim, $rival, $far;
wait_for(sub { $ensemble->watch_count == 0 }, 'the watches to be removed');
unlike(slurp_file($node->logfile),
	qr/terminated by signal|exited with exit code 2/,
	'no backend has crashed');

done_testing();
