# "zklock run": what its users rely on.  Statuses and signals (S396), many at a time (S400),
# and that nothing of the command runs when the next holder begins (S397), whatever happens
# to the program, to PostgreSQL, or to the way to ZooKeeper.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkMargins;
use ZkPsql;
use ZkRun;
use ZkTest qw(stop_process wait_for);

my $tmp = $PostgreSQL::Test::Utils::tmp_check;
my $ensemble = ZkEnsemble->new('main');
my $proxy = $ensemble->proxy;
my $node = zk_cluster('one', $proxy,
	settings => { 'zklock.session_timeout' => '6s', max_connections => 150 });
my $other = zk_cluster('two', $ensemble);
my $zklock = ZkRun->new($node);

sub status_of_run { return $zklock->status_of(@_); }

# ---- S396: statuses.

is(status_of_run('/a', '--', 'true'), 0, 'S396: the status is that of the command');
is(status_of_run('/a', 'sh', '-c', 'exit 7'), 7, 'S396: another one');
is(status_of_run('/a', 'sh', '-c', 'kill -9 $$'), 137, 'S396: a signal kills the command');
is(status_of_run('/a', '/nowhere/command'), 127, 'S396: there is no such command');
is(status_of_run('/a', '/etc/passwd'), 126, 'S396: it cannot be executed');
is(status_of_run('--bad', '/a', 'true'), 125, 'S396: wrong options');
is(status_of_run('a', 'true'), 125, 'S396: a wrong path');
is(status_of_run('-p', '1', '/a', 'true'), 122, 'S396: there is no server');
my $running = $zklock->start('/env', 'sh', '-c', 'echo "$ZKLOCK_PATH $ZKLOCK_TOKEN"');
is($running->status, 0, 'a command with its environment');
like($running->said, qr{^/env \d+$}m, 'S396: it has path and token');

chomp(my $bindir = `pg_config --bindir`);
my ($version) = slurp_file('zklock.control') =~ /^default_version = '(.*)'$/m;
chomp(my $said = qx($bindir/zklock --version));
is($said, "zklock $version", 'S396: it has the version of the extension');

# ---- S396: modes.

my $holder = ZkPsql->new($other);
$holder->ask("SELECT zk_lock_acquire('/held')");
is(status_of_run('-n', '/held', 'true'), 124, 'S396: another session has the lock');
is(status_of_run('-n', '-E', '3', '/held', 'true'), 3, 'S396: the status for that can be chosen');
is(status_of_run('-t', '3 s', '/held', 'true'), 124, 'S396: the time is up');
$holder->ask("SELECT zk_lock_release('/held'), zk_lock_acquire('/held', shared => true)");
is(status_of_run('-n', '/held', 'true'), 124, 'S396: a reader is in the way');
is(status_of_run('-n', '-s', '/held', 'true'), 0, 'S396: but not of another one');
$holder->ask("SELECT zk_semaphore_acquire('/sem', 2)");
is(status_of_run('-n', '--semaphore', '2', '/sem', 'true'), 0, 'S396: the second permit');
is(status_of_run('-n', '--semaphore', '1', '/sem', 'true'),
	125, 'S396: another number of permits');
$running = $zklock->start('--note', 'import of May', '/noted', 'sh', '-c',
	"psql -XAtq -c \"SELECT note FROM zk_lock_queue('/noted')\" \"${\$node->connstr('postgres')}\"");
is($running->status, 0, 'a command with a note');
like($running->said, qr/^import of May$/m, 'S396: others see its note');
is(status_of_run('--note', 'x' x 128, '/noted', 'true'), 125, 'S396: a note that is too long');
my @job = ('--job', '2026-01-01 03:00+00', '/job');
is(status_of_run(@job, 'false'), 1, 'S396: a run of a job fails');
is(status_of_run(@job, 'sh', '-c', 'exit 0'), 0, 'S396: the next one succeeds');
is(status_of_run(@job, 'false'), 0, 'S396: then it is done, and not run again');
is($node->safe_psql('postgres', "SELECT outcome FROM zk_job_history('/job') ORDER BY token"),
	"failed\ndone", 'S396: its history says so');

# ---- S396: signals.

foreach my $signal (qw(INT TERM HUP USR1))
{
	my $ready = "$tmp/handles_$signal";
	$running = $zklock->start('/signal', 'sh', '-c',
		"trap 'exit 9' $signal; touch $ready; while :; do sleep 0.05; done");
	wait_for(sub { -e $ready }, "the command to handle SIG$signal");
	kill $signal, $running->pid;
	is($running->status, 9, "S396: the command handles SIG$signal");
}
$running = $zklock->start('/held', 'true');
$ensemble->wait_for_queue('/held', 2);
kill 'TERM', $running->pid;
is($running->status, 128 + 15, 'S396: a signal ends the wait');
$ensemble->wait_for_queue('/held', 1);

# ---- S400: a hundred at a time.

# None loses its lock because so many keep the machine busy.
append_to_file("$tmp/number", "0\n");
$ENV{PGOPTIONS} = '-c zklock.session_timeout=30s';
my $count = "read n <$tmp/number; echo \$((n + 1)) >$tmp/number";
my $command = join ' ', $zklock->command('/number');
is(system('bash', '-c', "for i in {1..100}; do $command -- sh -c '$count' & done; wait"),
	0, 'a hundred runs end');
is(slurp_file("$tmp/number"), "100\n", 'S400: each was alone');
delete $ENV{PGOPTIONS};

# ---- S397.

# Of the command several processes run: all ignore signals, most have sessions of their own,
# and have lost their parents.
my $margins = ZkMargins->new($zklock, $ensemble, $other);

sub check_margin
{
	my ($what, $status, $do, $after) = @_;
	$margins->check($what,
		{ traits => [qw(stubborn family)], status => $status, do => $do, after => $after });
	return;
}

sub backend_of
{
	my ($path) = @_;
	return $node->safe_psql('postgres', "SELECT pid FROM zk_lock_queue('$path') WHERE granted");
}

my $backend;
check_margin('the program is killed', 137, sub { kill 'KILL', $_[0]->pid });
check_margin('the guardian is killed', 125, sub { kill 'KILL', $_[0]->guardian });
check_margin('the backend is frozen', 123,
	sub { $backend = backend_of($_[1]); stop_process($backend) },
	sub { kill 'CONT', $backend });
check_margin('the backend is terminated', 123,
	sub { $node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . backend_of($_[1]) . ')') });
check_margin('ZooKeeper is cut off', 123, sub { $proxy->freeze }, sub { $proxy->pass });
check_margin('PostgreSQL is stopped at once', 123, sub { $node->stop('immediate') },
	sub { $node->start });
$margins->report;

done_testing();
