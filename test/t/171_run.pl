# "zklock run": what its users rely on.  Statuses and signals (S396), many at a time (S400),
# and that nothing of the command runs when the next holder begins (S397), whatever happens
# to the program, to PostgreSQL, or to the way to ZooKeeper.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(children_of stop_process wait_for);

my $tmp = $PostgreSQL::Test::Utils::tmp_check;
my $ensemble = ZkEnsemble->new('main');
my $proxy = $ensemble->proxy;
my $node = zk_cluster('one', $proxy,
	settings => { 'zklock.session_timeout' => '6s', max_connections => 150 });
my $other = zk_cluster('two', $ensemble);
chomp(my $bindir = `pg_config --bindir`);
my @connection = ('-h', $node->host, '-p', $node->port, '-d', 'postgres');

# Starts "zklock run"; returns its run, its process, and what it says.
sub start_run
{
	my (@arguments) = @_;
	my $said = '';
	my $run = IPC::Run::start([ "$bindir/zklock", 'run', @connection, @arguments ],
		'<', \undef, '>&', \$said);
	return { run => $run, pid => $run->{KIDS}[0]{PID}, said => \$said };
}

# Waits for its end; returns its status, as a shell has it.
sub status_of
{
	my ($running) = @_;
	$running->{run}->finish;
	my $status = $running->{run}->full_result;
	note ${ $running->{said} };
	return $status & 127 ? 128 + ($status & 127) : $status >> 8;
}

sub status_of_run { return status_of(start_run(@_)); }

# ---- S396: statuses.

is(status_of_run('/a', '--', 'true'), 0, 'S396: the status is that of the command');
is(status_of_run('/a', 'sh', '-c', 'exit 7'), 7, 'S396: another one');
is(status_of_run('/a', 'sh', '-c', 'kill -9 $$'), 137, 'S396: a signal kills the command');
is(status_of_run('/a', '/nowhere/command'), 127, 'S396: there is no such command');
is(status_of_run('/a', '/etc/passwd'), 126, 'S396: it cannot be executed');
is(status_of_run('--bad', '/a', 'true'), 125, 'S396: wrong options');
is(status_of_run('a', 'true'), 125, 'S396: a wrong path');
is(status_of_run('-p', '1', '/a', 'true'), 122, 'S396: there is no server');
my $running = start_run('/env', 'sh', '-c', 'echo "$ZKLOCK_PATH $ZKLOCK_TOKEN"');
is(status_of($running), 0, 'a command with its environment');
like(${ $running->{said} }, qr{^/env \d+$}m, 'S396: it has path and token');

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
	$running = start_run('/signal', 'sh', '-c',
		"trap 'exit 9' $signal; touch $ready; while :; do sleep 0.05; done");
	wait_for(sub { -e $ready }, "the command to handle SIG$signal");
	kill $signal, $running->{pid};
	is(status_of($running), 9, "S396: the command handles SIG$signal");
}
$running = start_run('/held', 'true');
$ensemble->wait_for_queue('/held', 2);
kill 'TERM', $running->{pid};
is(status_of($running), 128 + 15, 'S396: a signal ends the wait');
$ensemble->wait_for_queue('/held', 1);

# ---- S400: a hundred at a time.

# None loses its lock because so many keep the machine busy.
append_to_file("$tmp/number", "0\n");
$ENV{PGOPTIONS} = '-c zklock.session_timeout=30s';
my $count = "read n <$tmp/number; echo \$((n + 1)) >$tmp/number";
is(system('bash', '-c', "for i in {1..100}; do '$bindir/zklock' run @connection /number "
		  . "-- sh -c '$count' & done; wait"),
	0, 'a hundred runs end');
is(slurp_file("$tmp/number"), "100\n", 'S400: each was alone');
delete $ENV{PGOPTIONS};

# ---- S397.

# A command of which several processes run: all ignore signals, most have sessions of their
# own, and have lost their parents.  They write down when they were last seen.
my $beating = <<'PERL';
use POSIX (); use Time::HiRes qw(sleep time);
my $file = shift;
$SIG{$_} = 'IGNORE' foreach qw(TERM INT HUP);
my $command = $$;
fork // die;
fork // die;
POSIX::setsid();
if (fork // die) { POSIX::_exit(0) if $$ != $command; sleep 1000; }
while (1) { open my $out, '>', "$file.$$" or die; print $out time; close $out; sleep 0.002; }
PERL

my $commands = 0;

# The last time at which a process of the command was seen.
sub last_beat
{
	my ($file) = @_;
	my $last = 0;
	foreach my $name (glob "$file.*")
	{
		my $time = slurp_file($name) || next;
		$last = $time if $time > $last;
	}
	return $last;
}

# Do something to a running command, and see when the next holder begins.
sub check_margin
{
	my ($what, $path, $expected, $do, $after) = @_;
	my $file = "$tmp/beat_" . ++$commands;
	my $running = start_run($path, 'perl', '-e', $beating, $file);
	wait_for(sub { (() = glob "$file.*") >= 3 }, 'the command to run');
	my $next = ZkPsql->new($other);
	$next->send_timed("zk_lock_acquire('$path')");
	$ensemble->wait_for_queue($path, 2);
	$do->($running);
	my ($got, $at) = $next->answer_timed;
	is($got, 't', "$what: the next holder begins");
	cmp_ok(last_beat($file), '<', $at, "S397: $what: nothing of the command runs then");
	note sprintf '%s: ended %.3f s before', $what, $at - last_beat($file);
	$after->($running) if $after;
	is(status_of($running), $expected, "$what: the status") if defined $expected;
	is(last_beat($file) < $at, 1, "S397: $what: nor later");
	$next->quit;
	return;
}

sub backend_of
{
	my ($path) = @_;
	return $node->safe_psql('postgres', "SELECT pid FROM zk_lock_queue('$path') WHERE granted");
}

my $backend;
check_margin('the program is killed', '/killed', 137, sub { kill 'KILL', $_[0]{pid} });
check_margin('the guardian is killed',
	'/guardian', 125, sub { kill 'KILL', (children_of($_[0]{pid}))[0] });
check_margin('the backend is frozen', '/frozen', 123,
	sub { $backend = backend_of('/frozen'); stop_process($backend) },
	sub { kill 'CONT', $backend });
check_margin('the backend is terminated', '/terminated', 123,
	sub { $node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . backend_of('/terminated') . ')') });
check_margin('ZooKeeper is cut off', '/cut', 123, sub { $proxy->freeze }, sub { $proxy->pass });
check_margin('PostgreSQL is stopped at once',
	'/stopped', 123, sub { $node->stop('immediate') }, sub { $node->start });

done_testing();
