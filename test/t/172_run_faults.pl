# "zklock run" where commands, PostgreSQL and networks misbehave: nothing of the command runs
# when the next holder begins, and there is a next holder (S412, S413, S414, S416); on a
# standby (S415); with signals that are ignored (S419); and RUNS times in a row (S418).

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkMargins;
use ZkProxy;
use ZkPsql;
use ZkRun;
use ZkTest qw(children_of process_status stop_process wait_for);

my $tmp = $PostgreSQL::Test::Utils::tmp_check;
my $ensemble = ZkEnsemble->new('main');
my %settings = ('zklock.session_timeout' => '6s', listen_addresses => '127.0.0.1');
my $proxy = $ensemble->proxy;
my $node = zk_cluster('one', $proxy, settings => \%settings);
my $primary = zk_cluster('primary', $ensemble, allows_streaming => 1, settings => \%settings);
my $other = zk_cluster('two', $ensemble);
my $holder = ZkPsql->new($other);
my $zklock = ZkRun->new($node);
my $margins = ZkMargins->new($zklock, $ensemble, $other);

sub address { return '127.0.0.1:' . $_[0]->port; }

# ---- S418: many in a row, beside all that follows.

my $count = $ENV{RUNS} // 1000;
append_to_file("$tmp/number", "0\n");
my $line = join ' ', ZkRun->new($other)->command('/row');
my $took = '';
my $row = IPC::Run::start(
	[
		'bash', '-c',
		"begin=\$(date +%s%N); for ((i = 0; i < $count; i++)); do $line -- sh -c "
		  . "'read n <$tmp/number; echo \$((n + 1)) >$tmp/number' || exit 1; done; "
		  . "echo \$(((\$(date +%s%N) - begin) / 1000 / $count))"
	],
	'<', \undef, '>', \$took);

# ---- S412: commands that do not end as they are asked to.

my @begun = (
	$margins->begin('it ends on SIGTERM', { traits => ['polite'], status => 123 }),
	$margins->begin('it ignores SIGTERM', { traits => ['stubborn'], status => 123 }),
	$margins->begin('it has stopped', { traits => [qw(stops)], status => 123 }),
	$margins->begin('it ignores SIGTERM, left its group and has stopped',
		{ traits => [qw(stubborn family stops)], status => 123 }));
foreach my $begun (@begun[ 2, 3 ])
{
	foreach my $pid (ZkMargins::pids_of($begun->{file}))
	{
		kill 'USR1', $pid;
		wait_for(sub { process_status($pid, 'State') eq 'T' }, 'the command to stop itself');
	}
}
$proxy->freeze;
$margins->finish($_) foreach @begun[ 0 .. 2 ];
$begun[3]{after} = sub { $proxy->pass };
$margins->finish($begun[3]);

# ---- S416: the program is stopped, or its whole job is killed.

@begun = (
	$margins->begin('the program is stopped',
		{ traits => [qw(stubborn family)], status => 123, after => sub { kill 'CONT', $_[0]->pid } }),
	$margins->begin('timeout -k kills the process group',
		{
			traits => [qw(stubborn family)],
			status => 137,
			zklock => ZkRun->new($node)->under('timeout', '-k', '1', '1000')
		}));
stop_process($begun[0]{run}->pid);

# As if its time were over.  The command may need longer to start than a short time.
kill 'TERM', $begun[1]{run}->pid;
$margins->finish($_) foreach @begun;

# ---- S396: the guardian has not read all orders when it ends.

my $late = ZkRun->new($primary)->start('/late', 'sh', '-c',
	"echo started; while [ ! -e $tmp/late ]; do sleep 0.05; done; exit 7");
wait_for(sub { $late->said =~ /started/ }, 'the command to run');
my $guardian = $late->guardian;
my ($pid) = children_of($guardian);
stop_process($guardian);
append_to_file("$tmp/late", '');
wait_for(sub { process_status($pid, 'State') eq 'Z' }, 'the command to end');
my %proofs;
wait_for(
	sub {
		$proofs{ $primary->safe_psql('postgres', "SELECT query_start FROM pg_stat_activity "
				  . "JOIN zk_lock_queue('/late') USING (pid)") } = 1;
		return keys %proofs > 2;
	},
	'two orders');
kill 'CONT', $guardian;
is($late->status, 7, 'S396: the status is that of the command, if its report comes late');

# ---- S413: PostgreSQL does not answer.

# A frozen server, and one that no packet reaches, and nothing says so.  The lock becomes free
# when the backend has ended because the program is silent.
my $way = ZkProxy->new(address($primary), raw => 1);
my ($host, $port) = split /:/, $way->address;
@begun = (
	$margins->begin('PostgreSQL is frozen', { traits => [qw(stubborn family)], status => 123 }),
	$margins->begin('all packets to PostgreSQL are dropped',
		{
			traits => [qw(stubborn family)],
			status => 123,
			zklock => ZkRun->new(undef, '-h', $host, '-p', $port, '-d', 'postgres')
		}));
my ($postmaster) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');
my @processes = ($postmaster, children_of($postmaster));
stop_process($_) foreach @processes;
$way->freeze;
my $since = time;
$margins->finish($begun[0]);
$margins->finish($begun[1]);
note sprintf 'the next holder began %.1f s after the last packet', time - $since;
kill 'CONT', @processes;

# ---- S415: on a hot standby.

my $standby = zk_standby('standby', $primary);
my $reading = ZkRun->new($standby);
my @hold = ('sh', '-c', "echo started; while [ ! -e $tmp/end ]; do sleep 0.05; done");

is($reading->status_of('/standby', 'sh', '-c', '[ "$ZKLOCK_TOKEN" -gt 0 ]'),
	0, 'S415: a standby runs a command');
my $held = $reading->start('/standby', @hold);
wait_for(sub { $held->said =~ /started/ }, 'the command to run');
foreach my $run (ZkRun->new($primary), ZkRun->new($other), $reading)
{
	is($run->status_of('-n', '/standby', 'true'), 124, 'S415: it excludes the others');
}
my @job = ('--job', '2026-01-01 03:00Z', '/standby/job');
is($reading->status_of(@job, 'sh', '-c', 'exit 7'), 7, 'S415: a standby runs a job');
is($reading->status_of(@job, 'true'), 0, 'S415: once more after a failure');
is(ZkRun->new($other)->status_of(@job, 'false'), 0, 'S415: it is done for others then');

# ---- S414: a failover.  A run on the standby goes on; one on the primary is over.

my $anywhere = ZkRun->new(undef, '-d',
	'host=' . join(',', map { $_->host } $primary, $standby)
	  . ' port=' . join(',', map { $_->port } $primary, $standby)
	  . ' dbname=postgres target_session_attrs=read-write');
my $beginning = $margins->begin('a failover',
	{ traits => [qw(stubborn family)], status => 123, zklock => $anywhere });
$primary->stop('immediate');
$standby->promote;
my $again = $anywhere->start('/after', @hold);
wait_for(sub { $again->said =~ /started/ }, 'the next command to run');
is($standby->safe_psql('postgres',
		"SELECT count(*) FROM zk_lock_queue('/after') JOIN pg_stat_activity USING (pid)"),
	1, 'S414: the next command runs by way of the new primary');
$margins->finish($beginning);
is($holder->ask("SELECT zk_lock_acquire('/standby', '0')"),
	'f', 'S414: a run by way of the standby has its lock still');
append_to_file("$tmp/end", '');
is($held->status, 0, 'S414: and ends well');
is($again->status, 0, 'S414: as does the other one');
$margins->report;

# ---- S419: signals.

# While the lock is waited for, and later; by nohup(1), or as a shell's background job.
$holder->ask("SELECT zk_lock_acquire('/ignored')");
my @ignored = map { ZkRun->new($other)->under('sh', '-c', "trap '' $_; exec \"\$@\"", 'sh')
	  ->start('/ignored', 'echo', 'done') } qw(HUP INT);
$ensemble->wait_for_queue('/ignored', 3);
kill 'HUP', $ignored[0]->pid;
kill 'INT', $ignored[1]->pid;
is($holder->ask("SELECT zk_lock_release('/ignored')"), 't', 'the lock is released');
foreach my $run (@ignored)
{
	is($run->status, 0, 'S419: a signal that is ignored does not end the wait');
	like($run->said, qr/^done$/m, 'S419: and the command runs');
}

# ---- S418.

ok($row->finish, 'S418: many runs in a row succeed');
note sprintf '%d runs: %.1f ms each', $count, $took / 1000;
is(slurp_file("$tmp/number"), "$count\n", 'S418: each did its work');
$ensemble->wait_for_queue('/row', 0);
wait_for(sub { keys %{ $ensemble->connections } <= 4 }, 'the ZooKeeper sessions to end');

done_testing();
