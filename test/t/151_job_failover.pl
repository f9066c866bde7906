# Takes long: a primary fails repeatedly, at random moments, with asynchronous
# replication that often loses the last commits.  Within the cluster no run of a job
# whose work survived is repeated, and none whose work was lost is omitted (S268, S271).
#
# A failover has to be cheap.  So the servers are a chain, each a standby of the one
# before: the first is killed, the second is promoted, and the third follows it to the
# new timeline, while another copy of a small cluster begins to follow the last.
# FAILOVERS=N chooses their number.  As each copy replays all that came before, the work
# grows faster than that.

use strict;
use warnings;

use DBI;
use DBD::Pg qw(:async);
use File::Path qw(rmtree);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use ZkEnsemble;

my $failovers = $ENV{FAILOVERS} // 40;
my $seed = $ENV{SEED} // time & 0xFFFFFF;
my $folder = $PostgreSQL::Test::Utils::tmp_check;
my $sockets = PostgreSQL::Test::Utils::tempdir_short();
my $base = "$folder/base";
# How many servers there are behind the primary.
my $ahead = 3;
# How many runs are requested again after a failover; one loses no more.
my $asked = 8;

my $ensemble =
  ZkEnsemble->new('main', tick_time => 500, minSessionTimeout => 1000);
my $origin = zk_cluster(
	'origin',
	$ensemble,
	allows_streaming => 1,
	extra => ['--wal-segsize=1'],
	settings => {
		'zklock.session_timeout' => '8s',
		session_preload_libraries => 'zklock',
		fsync => 'off',
		shared_buffers => '4MB',
		max_connections => 12,
		max_wal_senders => 4,
		max_worker_processes => 2,
		autovacuum => 'off',
		wal_keep_size => '1GB',
		max_wal_size => '1GB',
		wal_retrieve_retry_interval => '10ms',
		log_min_messages => 'warning',
		listen_addresses => '',
		unix_socket_directories => $sockets
	},
	start => 0);
$origin->append_conf('postgresql.conf', 'port = 1');

# The servers of the chain by number, which is the port as well: postmaster and folder.
my %server;

# Start a server, as a standby of another one if there is to be one, and do not wait.
sub start_server
{
	my ($number, $upstream) = @_;
	my $dir = "$folder/server-$number";
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDOUT, '>>', "$folder/log/server-$number.log";
		open STDERR, '>&', \*STDOUT;
		system('cp', '-a', $base, $dir) == 0 or POSIX::_exit(1);
		open my $conf, '>>', "$dir/postgresql.conf";
		print $conf "port = $number\n";
		if (defined $upstream)
		{
			print $conf "primary_conninfo = 'host=$sockets port=$upstream'\n";
			open my $signal, '>', "$dir/standby.signal";
		}
		close $conf;
		{ exec 'postgres', '-D', $dir; }
		POSIX::_exit(1);
	}
	$server{$number} = { pid => $pid, dir => $dir };
	return;
}

# A connection, when the server takes one.
sub connect_to
{
	my ($number) = @_;
	return wait_for(
		sub {
			eval {
				DBI->connect(
					"dbi:Pg:dbname=postgres;host=$sockets;port=$number",
					undef, undef,
					{
						PrintError => 0,
						PrintWarn => 0,
						RaiseError => 1,
						pg_server_prepare => 0
					});
			};
		},
		"server $number");
}

# The only value of the only row.
sub value
{
	my ($dbh, $query) = @_;
	return ($dbh->selectrow_array($query))[0];
}

# The fire time of a run, as SQL.
sub due
{
	my ($run) = @_;
	return "timestamptz '2026-01-01 00:00+00' + $run * interval '1 minute'";
}

# The runs whose work a server has: how often each.
sub work
{
	my ($dbh) = @_;
	return map { $_->[0] => $_->[1] }
	  @{ $dbh->selectall_arrayref('SELECT run, count(*) FROM work GROUP BY run') };
}

# A run from beginning to end.  Returns whether it was begun.
sub run_job
{
	my ($dbh, $run) = @_;
	return 0
	  unless value($dbh, "SELECT zk_job_begin('/job', " . due($run) . ", '60 s')");
	$dbh->begin_work;
	$dbh->do("INSERT INTO work VALUES ($run)");
	$dbh->do("SELECT zk_job_end('/job')");
	$dbh->commit;
	return 1;
}

# The primary ends without notice, in the midst of a run: when that was begun, or is to
# be ended, or commits, or is over.  How its backend ends differs, too.
sub fail_in_run
{
	my ($primary, $dbh, $run, $walsenders) = @_;
	my $moment = int rand 4;
	my @killed = ($server{$primary}{pid}, @$walsenders);

	push @killed, $dbh->{pg_pid} if rand() < 0.1;
	$dbh->do("SELECT zk_job_begin('/job', " . due($run) . ", '60 s')");
	if ($moment > 0)
	{
		$dbh->begin_work;
		$dbh->do("INSERT INTO work VALUES ($run)");
		$dbh->do("SELECT zk_job_end('/job')");
	}
	if ($moment == 3)
	{
		$dbh->commit;
		sleep rand 0.005;
	}
	elsif ($moment == 2)
	{
		$dbh->do('COMMIT', { pg_async => PG_ASYNC });
		sleep rand 0.003;
	}
	kill 'KILL', @killed;
	waitpid $server{$primary}{pid}, 0;
	eval { $dbh->disconnect };
	remove_server($primary);
	return;
}

# Remove a server that was killed, and its shared memory.
sub remove_server
{
	my ($number) = @_;
	my $dir = $server{$number}{dir};
	my (undef, $id) = split ' ', (split /\n/, slurp_file("$dir/postmaster.pid"))[6];
	system_or_bail('ipcrm', '-m', $id);
	rmtree($dir);
	delete $server{$number};
	return;
}

# Have a standby be the primary.
sub promote
{
	my ($number) = @_;
	my $dbh = connect_to($number);
	open my $signal, '>', "$server{$number}{dir}/promote";
	close $signal;
	kill 'USR1', $server{$number}{pid};
	wait_for(sub { !value($dbh, 'SELECT pg_is_in_recovery()') }, 'a promotion');
	return $dbh;
}

srand $seed;
note "seed $seed";
$origin->start;
my $setup = DBI->connect("dbi:Pg:dbname=postgres;host=$sockets;port=1", undef, undef,
	{ RaiseError => 1 });
$setup->do('CREATE EXTENSION zklock');
$setup->do('CREATE TABLE work (run integer)');
$setup->disconnect;
$origin->stop('fast');
rename $origin->data_dir, $base or die;

start_server(1, undef);
start_server($_, $_ - 1) foreach 2 .. 1 + $ahead;
my $dbh = connect_to(1);
my $last = 0;					# run that was begun
my ($repeated, $left_out, $lost, $lost_rounds, $unlike) = (0) x 5;
my $begin = time;
foreach my $primary (1 .. $failovers)
{
	start_server($primary + $ahead + 1, $primary + $ahead);
	my $standby = connect_to($primary + 1);
	wait_for(
		sub {
			value($dbh,
				'SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()');
		},
		'the standby to follow');
	my @walsenders = map { @$_ }
	  @{ $dbh->selectall_arrayref('SELECT pid FROM pg_stat_replication') };
	run_job($dbh, ++$last) if rand() < 0.5;
	if (rand() < 0.5)
	{
		# from here on nothing gets to the standby
		kill 'STOP', @walsenders;
		run_job($dbh, ++$last) foreach 1 .. 1 + rand 3;
	}
	my %before = work($dbh);
	$standby->disconnect;
	fail_in_run($primary, $dbh, ++$last, \@walsenders);

	$dbh = promote($primary + 1);
	my %survived = work($dbh);
	my @lost = grep { !$survived{$_} } keys %before;
	$lost += @lost;
	$lost_rounds++ if @lost;

	# every server asks for all runs that may have been missed
	foreach my $run (($last > $asked ? $last - $asked : 1) .. $last)
	{
		my $begun = run_job($dbh, $run);
		next if $begun == !$survived{$run};
		$unlike++;
		diag("failover $primary: run $run was " . ($begun ? '' : 'not ') . 'begun again');
	}
	my %work = work($dbh);
	$repeated += grep { $_ > 1 } values %work;
	$left_out += grep { !$work{$_} } 1 .. $last;
	last if $repeated || $left_out || $unlike;
}
note sprintf('%d failovers in %.1f s, %d runs; %d failovers have lost the work of %d runs',
	$failovers, time - $begin, $last, $lost_rounds, $lost);
is($repeated, 0, 'S268: no run is repeated whose work has survived');
is($left_out, 0, 'S268: none is left out whose work was lost');
is($unlike, 0, 'S268: exactly the missing runs are begun again');
cmp_ok($lost_rounds, '>', $failovers / 8, 'and failovers have lost work');
is(value($dbh, "SELECT count(*) FROM zk_job_runs WHERE outcome = 'done'"),
	$last, 'S268: each run has one row that says it is done');

done_testing();

END
{
	my $exit_code = $?;

	kill 'KILL', map { $_->{pid} } values %server;
	waitpid $server{$_}{pid}, 0 foreach keys %server;
	$? = $exit_code;
}
