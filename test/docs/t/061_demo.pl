# Takes long: it waits for session timeouts, one after the other.
#
# "make demo": each scene shows what it says (S435), also those of "zklock run" (S436) and
# of a PgBouncer (S437).  The tutorial can be followed on the servers that it leaves (S438).
# It removes all that it has started, also when it is interrupted.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use DocPage;
use DocSession;
use ZkTest;

my $dir = "$ENV{TMPDIR}/zklock-demo-" . getpwuid $<;

# ---- The demo, as a user starts it.

# Start it in a process group of its own, as a terminal does.
sub start_demo
{
	my (@settings) = @_;
	my $said = '';
	my $run = IPC::Run::start([ qw(make -s demo), @settings ],
		'<', \undef, '>&', \$said, init => sub { setpgrp });
	return { run => $run, pid => $run->{KIDS}[0]{PID}, said => \$said };
}

# Wait until it has said something, or has ended.  With the pattern undef, wait until it
# has ended, and so have all that could say something.
sub wait_until_said
{
	my ($demo, $pattern) = @_;
	wait_for(
		sub {
			$demo->{run}->pump_nb if $demo->{run}->pumpable;
			return !$demo->{run}->pumpable
			  || defined $pattern && ${ $demo->{said} } =~ $pattern;
		},
		'the demo to ' . ($pattern ? "say $pattern" : 'end'),
		300);
	return;
}

# Wait for its end.  Returns its status, and what it said.
sub end_of
{
	my ($demo) = @_;
	wait_until_said($demo);
	$demo->{run}->finish;
	note ${ $demo->{said} };
	return ($demo->{run}->full_result || 0, ${ $demo->{said} });
}

# The processes that live in the demo's folder, or were given a name of it.
sub processes
{
	return grep {
		my $process = "/proc/$_";
		my $command = eval { slurp_file("$process/cmdline") };
		grep { index($_ // '', "$dir/") >= 0 } $command,
		  readlink "$process/cwd", readlink "$process/exe";
	} map { m{(\d+)} } glob '/proc/[0-9]*';
}

# Nothing of it is left.
sub check_gone
{
	my ($when) = @_;
	ok(!-e $dir, "S435: $when, its folder is gone");
	is_deeply([ processes() ], [], 'and so are its processes');
	return;
}

# What died left the servers.
END
{
	local $?;
	system('demo/stop') if $dir && -e $dir;
}

# ---- S435: what is missing.

# An ordinary user without Java, and without means to install it.
my $bin = "$PostgreSQL::Test::Utils::tmp_check/bin";
mkdir $bin or die "$bin: $!\n";
foreach my $program (glob '/usr/bin/* /bin/*')
{
	symlink $program, $bin . $program =~ s{^.*/}{/}r;
}
unlink map { "$bin/$_" } qw(java sudo);
{
	local $ENV{PATH} = $bin;
	my ($status, $said) = end_of(start_demo());
	isnt($status, 0, 'without Java, there is no demo');
	like($said, qr/apt-get install .* default-jre-headless$/m, 'S435: but what to install');
}
check_gone('then');

# ---- S435: each scene.

my ($status, $said) = end_of(start_demo('KEEP=1', 'SESSION_TIMEOUT=10s'));
is($status, 0, 'S435: the demo ends well');

my @turns = $said =~ /^\d+\.\d s  (\w+): (I have the lock, working|done)$/mg;
my @names = @turns[ 0, 4, 8 ];
is_deeply(
	\@turns,
	[ map { $_ => 'I have the lock, working', $_ => 'done' } @names ],
	'S435: jobs run one after the other');
is("@{[ sort @names ]}", 'db1 db2 other', 'on all three servers');
like(
	$said,
	qr/killed backend \d+ of db1\n.* s  other: I have the lock\nthe lock has the token \d+$/m,
	'S435: the lock of a killed holder goes to the next');
like(
	$said,
	qr/the leader\nverified, token \d+\ncommitted$/m,
	'S435: a holder survives the failure of a server');
like(
	$said,
	qr/says COMMIT\nERROR:  lock "\S+" was lost\n(?s:.*)rows_written \n-+\n +0$/m,
	'S435: a holder that has lost its lock cannot commit');
like(
	$said,
	qr/has tried for a second: f\n.* replay continues\n.* sees the amount 4711$/m,
	'S435: the next holder sees what the last one has written');
my @runs = $said =~ /it is due at .*\n((?:.*\n){3})/g;
is(scalar @runs, 2, 'a job is due twice');
is_deeply([ map { scalar(() = /has run the job$/mg) . scalar(() = /done already$/mg) } @runs ],
	[qw(12 12)], 'S435: and runs once each time');
like(
	$said,
	qr/ERROR:  deadlock detected\n(?s:.*)^db1 has both locks$/m,
	'S435: a deadlock is detected');

# ---- S436: "zklock run".

my $times = qr/(?<cut>[\d.]+)\ s\ \ db1\ is\ cut\ off\ from\ ZooKeeper\n
	(?s:.*)^zklock:\ lock\ "\S+"\ was\ lost,\ and\ the\ command\ was\ ended\n
	(?<seen>[\d.]+)\ s\ \ the\ command\ was\ last\ seen;.*:\ (?<left>\d+)\n
	(?<next>[\d.]+)\ s\ \ db2:\ the\ next\ command\ begins,\ (?<margin>\d+)\ ms\ later\n
	.*\ has\ ended\ with\ status\ (?<status>\d+)$/mx;
like($said, qr/processes of the command: [1-9]/, 'S436: a command runs under a lock');
like($said, $times, 'and is killed when its server is cut off from ZooKeeper');
SKIP:
{
	skip 'the scene is not there', 4 unless $said =~ $times;
	is($+{left}, 0, 'S436: nothing of it is left when the next one begins');
	cmp_ok($+{cut}, '<=', $+{seen}, 'it is seen after that');
	cmp_ok($+{seen}, '<=', $+{next}, 'S436: but not after the next one has begun');
	is($+{status}, 123, 'the status says that the lock was lost');
}

# ---- S437: PgBouncer.

like(
	$said,
	qr/^pooler=# .*\nERROR:  session-level locks are disabled\n.*\nHINT:  Use zk_lock_acquire_xact/m,
	'S437: session-level locks are refused through a pooler');
like($said, qr/ they count to 100$/m, 'S437: transaction-level locks exclude each other');
like($said, qr/^ web +\| +[1-3]$/m, 'S437: with fewer connections than clients');
like($said, qr/^-- That was it: /m, 'that was it');

# ---- S438: the tutorial on its servers.

# A server of the demo, as DocSession knows one.
package DemoServer
{
	sub connstr { return "host=$dir/$_[0]{name} port=5432 user=postgres dbname=$_[1]"; }

	sub safe_psql
	{
		my ($self, $database, $sql) = @_;
		my $output = '';
		IPC::Run::run([ 'psql', '-XAtq', $self->connstr($database), '-c', $sql ],
			'<', \undef, '>', \$output)
		  or die "$self->{name}: $sql\n";
		return $output =~ s/\n\z//r;
	}
}

my %server = map { $_ => bless { name => $_ }, 'DemoServer' } qw(db1 db2 db3);
my (%session, %waiting);

# Has a block done what it should?
sub finish
{
	my ($server, $block) = @_;
	my $where = "doc/tutorial.md:$block->{line}";
	my $output = $session{$server}->output;
	if ($block->{expected})
	{
		ok(DocPage::same($output, $block->{expected}{text}), "S438: $where: as it is shown")
		  or diag($output);
	}
	else
	{
		unlike($output, qr/^(ERROR|FATAL|WARNING)/m, "S438: $where: nothing fails");
	}
	delete $session{$server} if $session{$server}->ended;
	return;
}

# What a block before this one has written is there.
sub has_replayed
{
	return $server{db1}->safe_psql('tutorial',
		'SELECT count(*) FILTER (WHERE replay_lsn >= pg_current_wal_lsn()) FROM pg_stat_replication')
	  == 2;
}

my @blocks = grep { $_->{language} eq 'sql' } DocPage->new('doc/tutorial.md')->blocks;
like((shift @blocks)->{text}, qr/^CREATE EXTENSION/, 'the demo has done the first step');

# No lock is lost because the machine stands still for a moment.
local $ENV{PGOPTIONS} = '-c zklock.session_timeout=60s';
foreach my $block (@blocks)
{
	my ($server, undef, $waits) = DocPage::place($block);
	wait_for(\&has_replayed, 'the standbys');
	finish($server, delete $waiting{$server}) if $waiting{$server};
	$session{$server} //= DocSession->new($server{$server}, 'tutorial');
	$session{$server}
	  ->send($block->{text}, $block->{expected} && $block->{expected}{text} =~ /^ERROR:/m);
	if ($waits)
	{
		wait_for(sub { $session{$server}->waits }, "doc/tutorial.md:$block->{line} to wait");
		$waiting{$server} = $block;
		next;
	}
	finish($server, $block);
}
cmp_ok(scalar @blocks, '>', 15, 'the tutorial has blocks');
delete $ENV{PGOPTIONS};
$_->quit foreach values %session;

# ---- S435: it cleans up.

($status, $said) = end_of(start_demo());
isnt($status, 0, 'a user has one demo at a time');
like($said, qr/make demo-stop/, 'which says how to end it');
command_ok([qw(make -s demo-stop)], 'make demo-stop');
check_gone('after "make demo-stop"');

my $demo = start_demo('SCENES=pooler zklock_run');
wait_until_said($demo, qr/^\d.* s  db1 is cut off/m);
my $processes = processes();
cmp_ok($processes, '>', 10, 'a demo runs, with all its servers');

# A second time, while it is cleaning up.
kill 'INT', -$demo->{pid};
wait_for(sub { processes() < $processes }, 'the demo to clean up');
kill 'INT', -$demo->{pid};
($status) = end_of($demo);
isnt($status, 0, 'Ctrl-C ends it');
check_gone('after Ctrl-C');

done_testing();
