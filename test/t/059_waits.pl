# The display of waits: zk_lock_waits, zk_blocking_pids() and the lines of
# log_lock_waits, with backends of two clusters.  A long queue costs no more to show
# than a short one.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 120000);
my $zk = $ensemble->zk;
my $proxy = $ensemble->proxy;
my %settings = (
	shared_preload_libraries => 'zklock',
	'zklock.session_timeout' => '60s',
	deadlock_timeout => '100ms',
	log_lock_waits => 'on',
	restart_after_crash => 'on');
my $node = zk_cluster('main', $ensemble, settings => \%settings);
my $other_node = zk_cluster('other', $ensemble, settings => \%settings);
my $control = ZkPsql->new($node);
my $other_control = ZkPsql->new($other_node);

# Columns of the row of a session that waits; empty if there is none.
sub row
{
	my ($session, $columns, $control_there) = @_;
	return ($control_there // $control)->ask("SELECT $columns FROM zk_lock_waits"
		  . " WHERE pid = ${\$session->pid}", 'quiet');
}

# Have a session wait for a lock, and see that it does.
sub begin_wait
{
	my ($session, $sql, $control_there) = @_;
	$session->send($sql);
	wait_for(sub { row($session, 'contender', $control_there) ne '' },
		"process ${\$session->pid} to wait");
	return row($session, 'contender', $control_there);
}

sub wait_for_row
{
	my ($session, $columns, $expected) = @_;
	wait_for(sub { row($session, $columns) eq $expected },
		"$columns of process ${\$session->pid} to be $expected");
	is(row($session, $columns), $expected, "$columns: $expected");
	return;
}

# Does a session wait for these, after a moment, and for no others?
sub blocked_by
{
	my ($session, $others, $what) = @_;
	my $expected = join ' ', sort { $a <=> $b } map { $_->pid } @$others;
	my $sql = 'SELECT array_to_string(ARRAY(SELECT p FROM'
	  . " unnest(zk_blocking_pids(${\$session->pid})) p ORDER BY p), ' ')";
	wait_for(sub { $control->ask($sql, 'quiet') eq $expected },
		"process ${\$session->pid} to be blocked by \"$expected\"");
	is($control->ask($sql, 'quiet'), $expected, $what);
	return;
}

sub contender_of
{
	my ($session, $path) = @_;
	return $session->ask("SELECT contender FROM zk_locks WHERE path = '$path'");
}

# ---- A holder in another cluster.

my ($first, $second, $third) = map { ZkPsql->new($node) } 1 .. 3;
my $stranger = ZkPsql->new($other_node, application_name => 'far away');
my $path = '/waits/far';

is($control->ask('SELECT count(*) FROM zk_lock_waits'), '0', 'no session waits');
$stranger->ask("SELECT zk_lock_acquire('$path')");
my $held = contender_of($stranger, $path);
my $mine = begin_wait($first, "SELECT zk_lock_acquire('$path')");
is( row($first, 'datname, path, mode, position, ahead, blocker, holder'),
	"postgres|$path|exclusive|2|1|$held|$held",
	'the wait of the first');
wait_for_row($first,
	'holder_cluster_name, holder_pid, holder_application_name',
	"other|${\$stranger->pid}|far away");
is( row($first, 'seen_at <= now(), wait_start <= now(), wait_start >=
		(SELECT query_start FROM pg_stat_activity a WHERE a.pid = zk_lock_waits.pid)'),
	't|t|t', 'since it has to wait');
is( row($first, "(holder_owner::json->>'host') = holder_host,
		(SELECT contender FROM zk_lock_queue('$path') LIMIT 1) = holder"),
	't|t', 'the same as the queue says');
is(row($first, 'count(*)', $other_control), '0', 'each cluster sees its own');
blocked_by($first, [], 'no process of this cluster blocks it');

# The next one waits for the first, and after a while knows who holds.
my $next = begin_wait($second, "SELECT zk_lock_acquire('$path', shared => true)");
is(row($second, 'mode, position, ahead, blocker, holder'),
	"shared|3|2|$mine|$held", 'the wait of the second');
wait_for_row($second, 'holder_cluster_name, holder_pid',
	"other|${\$stranger->pid}");
blocked_by($second, [$first], 'the first blocks it');

# ---- The lines in the log.

ok($node->wait_for_log(
		qr/process ${\$first->pid} still waiting for exclusive lock "$path" after .*\n.*DETAIL: .*The lock is held by process ${\$stranger->pid} of cluster "other" .*1 must go first\. Position in queue: 2\. Contender ".*" waits for contender "$held"\./),
	'log_lock_waits tells position and holder');
ok($node->wait_for_log(
		qr/process ${\$second->pid} still waiting for shared lock "$path" after .*\n.*DETAIL: .*The lock is held by process ${\$stranger->pid} of cluster "other" .*2 must go first\. Position in queue: 3\. Contender ".*" waits for contender "$mine"\./),
	'also when the holder is not the contender that it watches');

# ---- What follows a wait: another one, a grant.

$stranger->ask("SELECT zk_lock_release('$path')");
is($first->answer, 't', 'the first is granted');
is(row($first, '*'), '', 'and is not shown any more');
wait_for_row($second, 'position, ahead, blocker, holder, holder_pid',
	"2|1|$mine|$mine|${\$first->pid}");
blocked_by($second, [$first], 'the holder blocks it');
begin_wait($third, "SELECT zk_lock_acquire('$path')");
wait_for_row($third, 'position, holder_pid', "3|${\$first->pid}");
blocked_by($third, [ $first, $second ], 'the holder and the waiter ahead of it block the third');
blocked_by($first, [], 'no session blocks one that does not wait');
is($control->ask('SELECT zk_blocking_pids(0), zk_blocking_pids(NULL)'),
	'{}|', 'no process: nothing');

# ---- A wait that ends in any other way is not shown any more.

$control->ask("SELECT pg_cancel_backend(${\$third->pid})");
$third->answer;
is(row($third, '*'), '', 'cancelled: gone');
foreach my $how ("'5 s'", 'NULL')
{
	$third->ask("SET lock_timeout = '5s'") if $how eq 'NULL';
	begin_wait($third, "SELECT zk_lock_acquire('$path', $how)");
	$third->answer;
	is(row($third, '*'), '', "timeout $how: gone");
}
$third->ask('RESET lock_timeout');
begin_wait($third, "SELECT zk_lock_acquire('$path')");
$control->ask("SELECT pg_terminate_backend(${\$third->pid})");
wait_for(sub { row($third, '*') eq '' }, 'the terminated one to end');
pass('terminated: gone');
$first->ask("SELECT zk_lock_release('$path')");
is($second->answer, 't', 'the second is granted');
$second->ask("SELECT zk_lock_release('$path')");
is($control->ask('SELECT count(*) FROM zk_lock_waits'), '0', 'no session waits');

# ---- A stranger in between: the holder is known all the same.

$path = '/waits/between';
$first->ask("SELECT zk_lock_acquire('$path')");
begin_wait($stranger, "SELECT zk_lock_acquire('$path')", $other_control);
begin_wait($second, "SELECT zk_lock_acquire('$path')");
wait_for_row($second, 'holder_cluster_name, holder_pid',
	"main|${\$first->pid}");
blocked_by($second, [$first], 'the holder of this cluster blocks it, behind a stranger');
is( $other_control->ask("SELECT zk_blocking_pids(${\$stranger->pid})"),
	'{}', 'and none of the stranger\'s cluster blocks that');
$first->ask("SELECT zk_lock_release('$path')");
is($stranger->answer, 't', 'the stranger is granted');
$stranger->ask("SELECT zk_lock_release('$path')");
is($second->answer, 't', 'the second is granted');
$second->ask("SELECT zk_lock_release('$path')");

# ---- Several locks: the one that is waited for at the moment.

$third = ZkPsql->new($node);
$first->ask("SELECT zk_lock_acquire('/waits/a')");
$second->ask("SELECT zk_lock_acquire('/waits/c')");
begin_wait($third, "SELECT zk_lock_acquire('{/waits/c,/waits/b,/waits/a}'::text[])");

# It may have found its place in the one queue before that in the other.
wait_for(sub { row($third, 'path') eq '/waits/c' }, 'a wait for the first of the locks');
my $start = row($third, 'wait_start');
blocked_by($third, [$second], 'several: one at a time');
$second->ask("SELECT zk_lock_release('/waits/c')");
wait_for_row($third, 'path, holder_pid', "/waits/a|${\$first->pid}");
is(row($third, 'wait_start'), $start, 'it is the same wait');
blocked_by($third, [$first], 'several: then the next');
$first->ask("SELECT zk_lock_release('/waits/a')");
is($third->answer, 't', 'several: granted');
is(row($third, '*'), '', 'several: gone');
$third->ask('SELECT zk_lock_release_all()');

# ---- Who may see what.

$node->safe_psql('postgres', q(
	CREATE ROLE alice LOGIN;
	CREATE ROLE bob LOGIN;
	CREATE ROLE watcher LOGIN IN ROLE pg_read_all_stats));
$path = '/waits/secret';
$stranger->ask("SELECT zk_lock_acquire('$path')");
$first->ask('SET SESSION AUTHORIZATION alice');
begin_wait($first, "SELECT zk_lock_acquire('$path')");
wait_for_row($first, 'holder_pid', $stranger->pid);
my %seen;
foreach my $role (qw(alice bob watcher))
{
	my $session = ZkPsql->new($node);
	$session->ask("SET ROLE $role");
	$seen{$role} = $session->ask('SELECT pid, path, position, holder IS NOT NULL,'
		  . ' blocker_owner IS NOT NULL, holder_owner IS NOT NULL, holder_pid'
		  . ' FROM zk_lock_waits');
	is($session->ask("SELECT zk_blocking_pids(${\$first->pid})"),
		'{}', "$role may ask for the processes that block");
}
is($seen{alice}, $first->pid . "|$path|2|t|f|f|",
	'a role sees its own waits, but not the identity of others');
is($seen{bob}, $first->pid . '|||f|f|f|', 'other roles see that a session waits');
is($seen{watcher}, $first->pid . "|$path|2|t|t|t|" . $stranger->pid,
	'members of pg_read_all_stats see all');
$control->ask("SELECT pg_cancel_backend(${\$first->pid})");
$first->answer;
$first->ask('RESET SESSION AUTHORIZATION');

# ---- Owners that are no backends, and say too much.

my $odd = '/waits/odd';
$zk->make_path("/zklock$odd");
my $foreign = $zk->create("/zklock$odd/_c_1-lock-", 'x' x 1278 . "\xc3\xa4" x 10,
	'ephemeral,sequential');
begin_wait($first, "SELECT zk_lock_acquire('$odd')");
wait_for_row($first, 'length(blocker_owner), length(holder_owner), holder_pid',
	'1278|1278|');
blocked_by($first, [], 'a holder of another program is no process of this cluster');
$zk->delete($foreign);
is($first->answer, 't', 'granted');
$first->ask('SELECT zk_lock_release_all()');

# ---- What it costs to know who holds a lock: as much behind many as behind two.

my $counting = ZkPsql->new($node, 'zklock.servers' => $proxy->address);
$counting->ask("SELECT zk_lock_acquire('/waits/connected')");
$counting->ask("SELECT zk_lock_release('/waits/connected')");

# Queue up behind so many; returns the requests until the wait is a long one, and
# the holder known, or for a short one.
sub cost_behind
{
	my ($number, $short) = @_;
	my $here = "/waits/cost/$number";
	$zk->make_path("/zklock$here");
	my @ahead = map {
		$zk->create("/zklock$here/_c_$_-lock-", "number $_", 'ephemeral,sequential')
	} 1 .. $number;
	$proxy->count;
	begin_wait($counting, "SELECT zk_lock_acquire('$here')");
	unless ($short)
	{
		ok($node->wait_for_log(
				qr/still waiting for exclusive lock "$here".*\n.*DETAIL: .*\. $number must go first/),
			"a long wait behind $number");
		wait_for_row($counting, 'position, ahead, holder_owner',
			$number + 1 . "|$number|number 1");
	}
	$control->ask("SELECT pg_cancel_backend(${\$counting->pid})");
	$counting->answer;
	return $proxy->cost(qr/^(ping|multi|sync|delete|event)$/);
}

# Three reads are the watches on the own contender and on the two before it.  The
# next look would be at twice the time.
$counting->ask("SET deadlock_timeout = '6s'");
is(cost_behind(2), 'create2=1 getChildren=2 getData=4',
	'the holder is looked up with a list and one read');
is(cost_behind(50), 'create2=1 getChildren=2 getData=4',
	'also behind fifty');
is(cost_behind(1), 'create2=1 getChildren=1 getData=2',
	'not at all if it is the next');
like(cost_behind(20, 'short'), qr/^create2=1 getChildren=1 getData=[23]$/,
	'and none in a short wait');

# ---- A crash empties all.

begin_wait($second, "SELECT zk_lock_acquire('/waits/secret')");
$control->ask("SELECT zk_lock_acquire('/waits/control')");
kill('KILL', $second->pid) or die "cannot kill: $!";
wait_for(
	sub {
		# A psql that cannot connect may end before it is told anything, which is an error.
		my ($rc, $output) = eval {
			$node->psql('postgres', 'SELECT count(*) FROM zk_lock_waits');
		};
		return defined $rc && $rc == 0 && $output eq '0';
	},
	'the server to be there again');
is( $node->safe_psql('postgres',
		'SELECT scope, attempts FROM pg_stat_zklock'),
	'cluster|0', 'after a crash all counts restart');
is($stranger->ask("SELECT zk_lock_release('/waits/secret')"), 't', 'released');

done_testing();
