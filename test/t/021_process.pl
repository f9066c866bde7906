# The client's threads, descriptors and log lines in their process: signals go to the
# main thread only, nothing is inherited, nothing begins in the postmaster, and the end
# of a client is detected.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use POSIX ();
use Socket qw(IPPROTO_IP);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(process_status);

my $ensemble = ZkEnsemble->new('main', tick_time => 500);
my $node = zk_cluster('main', $ensemble,
	settings => {
		listen_addresses => '127.0.0.1',
		'zklock.session_timeout' => '10s'
	});
my $control = ZkPsql->new($node);
my $session = ZkPsql->new($node);

# The threads of a backend but the main one.
sub client_threads
{
	my ($pid) = @_;
	return grep { $_ ne "$pid/task/$pid" }
	  map { s{^/proc/}{}r } glob "/proc/$pid/task/*";
}

# What a backend's descriptors are, by number.
sub descriptors
{
	my ($pid) = @_;
	return map { m{(\d+)$} => readlink($_) // 'closed' } glob "/proc/$pid/fd/*";
}

# ---- Threads and signals (S65): every signal but KILL and STOP, which cannot
# be blocked, and the two of the C library.

my $all_blocked = 'fffffffe7ffbfeff';
my $pid = $session->pid;

$session->ask('SELECT state FROM zk_session()');
is(process_status($pid, 'Threads'), 1, 'no thread before a lock is asked for');
my $main_mask = process_status($pid, 'SigBlk');
my $size_before = process_status($pid, 'VmSize');
my %before = descriptors($pid);

is($session->ask("SELECT zk_lock_acquire('/process')"), 't', 'a lock is held');
is(process_status($pid, 'Threads'), 3, 'then there are two more');
is(scalar(my @threads = client_threads($pid)), 2, 'of the client');
is_deeply(
	[ map { process_status($_, 'SigBlk') } client_threads($pid) ],
	[ ($all_blocked) x 2 ],
	'S65: which take no signal');
is(process_status("$pid/task/$pid", 'SigBlk'),
	$main_mask, 'S65: the main thread takes those it took before');

# ---- What that costs.

cmp_ok(process_status($pid, 'VmSize') - $size_before,
	'<', 6 * 1024, 'the process grows by less than 6 MB');

# ---- Descriptors (S70).

my %after = descriptors($pid);
my @new = grep { ($before{$_} // '') ne $after{$_} } keys %after;
cmp_ok(scalar(@new), '>=', 3, 'S70: the client has descriptors');
ok((grep { $after{$_} =~ /^socket:/ } @new), 'the connection among them');
my @inheritable = grep {
	my ($flags) = slurp_file("/proc/$pid/fdinfo/$_") =~ /^flags:\s*(\d+)/m;
	!(oct($flags) & 02000000);
} @new;
is(join(' ', map { "$_ $after{$_}" } @inheritable),
	'', 'S70: all of them are closed when another program is run');
my $list = $node->basedir . '/descriptors';
$session->ask("COPY (SELECT 1) TO PROGRAM 'ls -l /proc/self/fd >$list; cat >&2'");
is($session->sqlstate, '', 'COPY TO PROGRAM runs a program');
my $inherited = slurp_file($list);
like($inherited, qr{-> /}, 'which lists its descriptors');
is(scalar(grep { $inherited =~ /\Q$after{$_}\E$/m } @new),
	0, 'S70: none of them is the client\'s');

# ---- Nothing in the postmaster (S70).

my $preload = zk_cluster('preload', $ensemble,
	settings => { shared_preload_libraries => 'zklock' });
my $postmaster = $preload->{_pid};
my $connections = keys %{ $ensemble->connections };
my @backends = map { ZkPsql->new($preload) } 1 .. 3;
is(keys %{ $ensemble->connections },
	$connections, 'S70: backends of a preloaded library have no connection');
foreach my $n (0 .. 2)
{
	is($backends[$n]->ask("SELECT zk_lock_acquire('/preload/$n')"),
		't', 'S70: until they use it');
}
my %ids = map { $backends[$_]->zk_session->{session_id} => 1 } 0 .. 2;
is(scalar(keys %ids), 3, 'S70: then each has a ZooKeeper session of its own');
is(keys %{ $ensemble->connections },
	$connections + 3, 'and there is no further connection');
is(process_status($postmaster, 'Threads'), 1, 'S70: the postmaster has no thread');
my %preload_fds = descriptors($postmaster);
is(scalar(grep { /eventfd/ } values %preload_fds),
	0, 'and no descriptor of a client');
$_->quit foreach @backends;
$preload->stop;

# ---- A storm of signals and notifications while a backend waits (S65).

my $waiter = ZkPsql->new($node, statement_timeout => '60s');
$waiter->ask('LISTEN storm');
$waiter->send("SELECT zk_lock_acquire('/process')");
$ensemble->wait_for_queue('/process', 2);
my @queue = $ensemble->queue('/process');
my $storm_ends = time + 2;
my $signals = 0;
my $notifications = 0;
while (time < $storm_ends || $signals <= 1000)
{
	foreach my $signal (('USR1', 'ALRM', 'URG', 'HUP') x 5)
	{
		$signals += kill $signal, $waiter->pid;
	}
	$control->ask('NOTIFY storm') if $notifications++ % 10 == 0;
}
note "$signals signals";
cmp_ok($signals, '>', 1000, 'S65: a storm of signals while a backend waits');
ok(!$waiter->answered, 'S65: it continues to wait');
is_deeply([ $ensemble->queue('/process') ], \@queue, 'in its place');
$session->ask("SELECT zk_lock_release('/process')");
like($waiter->answer, qr/^t$/m, 'S65: and gets the lock when it is its turn');
is($waiter->sqlstate, '', 'without an error');
is(process_status($waiter->pid, 'Threads'), 3, 'with all threads there');

# Each SIGINT cancels one wait, whatever the client's threads are doing.
my $cancelled = 0;
$session->ask("SET deadlock_timeout = '1ms'");
foreach my $round (1 .. 50)
{
	$session->send("SELECT zk_lock_acquire('/process')");
	$ensemble->wait_for_queue('/process', 2);
	kill 'INT', $session->pid;
	$session->answer;
	$cancelled++ if $session->sqlstate eq '57014';
	$ensemble->wait_for_queue('/process', 1);
}
is($cancelled, 50, 'S65: fifty cancels end fifty waits');
$waiter->quit;
is($session->ask("SELECT zk_lock_acquire('/process', '20 s')"),
	't', 'and then a lock can be had');
$session->ask("SELECT zk_lock_release('/process')");

# ---- A client that has gone while its backend waits (S84).

# As seen on the backend's side: who it belonged to is dead.
sub kill_client
{
	my ($client) = @_;
	$client->{psql}{run}->signal('KILL');
	$client->{psql}{run}->finish;
	return;
}

$session->ask("SELECT zk_lock_acquire('/client')");
my $unaware = ZkPsql->new($node);
$unaware->send("SELECT zk_lock_acquire('/client')");
$ensemble->wait_for_queue('/client', 2);
my $aware = ZkPsql->new($node, client_connection_check_interval => '100ms');
$aware->send("SELECT zk_lock_acquire('/client')");
$ensemble->wait_for_queue('/client', 3);
@queue = $ensemble->queue('/client');
kill_client($_) foreach $unaware, $aware;
$ensemble->wait_for_queue('/client', 2);
pass('S84: a backend that checks its connection stops waiting');
is_deeply([ $ensemble->queue('/client') ],
	[ @queue[ 0, 1 ] ], 'S84: one that does not check continues to wait');
$session->ask("SELECT zk_lock_release('/client')");
$ensemble->wait_for_queue('/client', 0);
pass('S84: and ends as soon as it has the lock to tell of');

# ---- A client whose host is gone: no word from it any more, not even an end
# of the connection (S84).

# A connection for one client, through a process that forwards bytes until it
# is told to fall silent.  From then on its socket takes in nothing any more, so
# that not even the kernel answers for it.
my @forwarders;

END
{
	my $exit_code = $?;
	end_forwarders();
	$? = $exit_code;
}

sub end_forwarders
{
	kill 'KILL', @forwarders;
	waitpid $_, 0 foreach @forwarders;
	@forwarders = ();
	return;
}

sub forward
{
	my ($from) = @_;
	my $to = IO::Socket::INET->new("127.0.0.1:@{[$node->port]}")
	  or die "cannot connect: $@";
	my $client = $from->accept or die "accept: $!";
	my $silent = 0;
	my $select = IO::Select->new($client, $to);
	local $SIG{USR1} = sub { $silent = 1 };

	until ($silent)
	{
		foreach my $socket ($select->can_read(0.02))
		{
			my $other = $socket == $to ? $client : $to;
			sysread($socket, my $bytes, 65536) or return;
			syswrite $other, $bytes;
		}
	}

	# IP_MINTTL: packets are dropped if their time to live is shorter, and it
	# begins with 64.
	setsockopt($to, IPPROTO_IP, 21, 255)
	  or die "cannot set the socket's minimal time to live: $!";
	kill 'STOP', $$;
	return;
}

sub new_distant_client
{
	my (%settings) = @_;
	my $listener = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		Listen => 1) or die "cannot listen: $@";
	my $forwarder = fork // die "fork: $!";
	if ($forwarder == 0)
	{
		eval { forward($listener) };
		print STDERR $@ if $@;
		POSIX::_exit(1);
	}
	push @forwarders, $forwarder;

	# The same node by another address.
	local $node->{_host} = '127.0.0.1';
	local $node->{_port} = $listener->sockport;
	my $client = ZkPsql->new(
		$node,
		tcp_keepalives_idle => 1,
		tcp_keepalives_interval => 1,
		tcp_keepalives_count => 2,
		tcp_user_timeout => '6s',
		%settings);
	$client->{forwarder} = $forwarder;
	return $client;
}

# The client goes, and the backend sees nothing of it.
sub fall_silent
{
	my ($client) = @_;
	kill 'USR1', $client->{forwarder};
	wait_for(
		sub { slurp_file("/proc/$client->{forwarder}/stat") =~ /\) T / },
		'the forwarder to fall silent');
	kill_client($client);
	return;
}

my $distant = new_distant_client();
is($distant->ask("SELECT zk_lock_acquire('/distant')"),
	't', 'a distant client has a lock');
$session->send("SELECT zk_lock_acquire('/distant')");
$ensemble->wait_for_queue('/distant', 2);
my $start = time;
fall_silent($distant);
sleep 0.3;
ok(kill(0, $distant->pid) && !$session->answered,
	'S84: its backend does not notice its end, and holds the lock');
is($session->answer, 't', 'S84: until TCP does, then the lock is free');
my $took = time - $start;
cmp_ok($took, '>', 1, 'which takes as long as it was set to');
cmp_ok($took, '<', 15, 'and not much longer');

$distant = new_distant_client(client_connection_check_interval => '100ms');
$distant->send("SELECT zk_lock_acquire('/distant')");
$ensemble->wait_for_queue('/distant', 2);
my $offset = -s $node->logfile;
$start = time;
fall_silent($distant);
sleep 0.3;
is(scalar(@queue = $ensemble->queue('/distant')),
	2, 'S84: a backend that waits does not notice either');
$ensemble->wait_for_queue('/distant', 1);
$took = time - $start;
cmp_ok($took, '>', 1, 'S84: until TCP does');
cmp_ok($took, '<', 15, 'and not much longer');
like(slurp_file($node->logfile, $offset),
	qr/FATAL: +connection to client lost/, 'S84: then it ends for that reason');
end_forwarders();
$session->ask('SELECT zk_lock_release_all()');

# ---- What an outage leaves in the server log (S66): little, and in whole
# lines.

$offset = -s $node->logfile;
@backends = map { ZkPsql->new($node, 'zklock.session_timeout' => '5s') } 1 .. 4;
$_->ask("SELECT zk_lock_acquire('/outage', shared => true)")
  foreach @backends[ 0 .. 2 ];
$backends[3]->send("SELECT zk_lock_acquire('/outage', '60 s')");
$ensemble->wait_for_queue('/outage', 4);
$ensemble->stop;
my $outage_ends = time + 6;
while (time < $outage_ends)
{
	$_->ask('BEGIN; SELECT state FROM zk_session(); ROLLBACK')
	  foreach @backends[ 0, 1 ];
	sleep 0.2;
}
$ensemble->start;
wait_for(
	sub {
		# With nothing left to do, one that loses the connection again, on a busy
		# machine, does not come back.
		2 == grep { $_->{sessions} + $_->{reconnects} > 1 }
		  map { $_->zk_session } @backends[ 0 .. 1 ];
	},
	'the backends to connect again');
$_->ask('SELECT zk_lock_release_all()') foreach @backends[ 0 .. 2 ];
$backends[3]->answer;
$_->quit foreach @backends;

my %lines;
my @strange;
foreach (split /\n/, slurp_file($node->logfile, $offset))
{
	next if /^\t/;
	push @strange, $_ unless /^\d{4}-\d\d-\d\d [0-9:.]+ \S+ \[(\d+)\] /;
	$lines{$1}++ if /\[(\d+)\] .*LOG:  ZooKeeper client: /;
}
note explain \%lines;
foreach my $backend (@backends)
{
	my $count = $lines{ $backend->pid } // 0;
	cmp_ok($count, '>=', 1, 'S66: an outage is logged by each backend');
	cmp_ok($count, '<=', 3, 'S66: in three lines at most');
}
is_deeply(\@strange, [],
	'S66: there is no line that PostgreSQL has not written');

done_testing();
