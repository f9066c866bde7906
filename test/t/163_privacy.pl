# Messages show no more of other sessions than the caller may see; the server log shows
# everything (S291).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main');
my %settings = (
	shared_preload_libraries => 'zklock',
	deadlock_timeout => '100ms',
	log_error_verbosity => 'verbose');
my $node = zk_cluster('here', $ensemble, settings => \%settings);
my $far_node = zk_cluster('there', $ensemble, settings => \%settings);
$node->safe_psql('postgres',
	'CREATE ROLE joe LOGIN; CREATE ROLE ann LOGIN; CREATE ROLE eve LOGIN;'
	  . ' GRANT pg_read_all_stats TO eve');

my $secret = 'nightly-secret';
my $admin = ZkPsql->new($node, application_name => $secret);
my $far = ZkPsql->new($far_node, application_name => $secret);

# A session of a role, logged in as that.
sub session_of
{
	my ($role) = @_;
	my $session = ZkPsql->new($node);
	$session->ask("\\connect - $role");
	$session->{pid} = $session->ask('SELECT pg_backend_pid()');
	$session->ask("SET application_name = '$secret'") if $role eq 'ann';
	return $session;
}
my %session = map { $_ => session_of($_) } qw(joe ann eve);
my $second = session_of('joe');

# Text that would identify another session.
my $traces = qr/$secret|cluster|postgres|\{|_c_/;

# The DETAIL of the error of a session, and that in the log of the server.
sub detail
{
	my ($session) = @_;
	return $session->errors =~ /^DETAIL: +(.*)$/m ? $1 : '';
}

sub logged
{
	my ($pattern, $what) = @_;
	ok($node->wait_for_log($pattern), $what);
	return;
}

# ---- lock_timeout.

# The error of a call that waits for another session.  On a slow machine a timeout may be
# over before it is known who that is, which the log tells: then a longer one is tried.
# What an earlier call has left in the queue must be gone.
sub time_out
{
	my ($session, $path, $call) = @_;
	my $timeout = 150;
	$call //= "zk_lock_acquire('$path')";
	wait_for(
		sub {
			$ensemble->wait_for_queue($path, 1);
			my $log = -s $node->logfile;
			$session->ask("SET lock_timeout = $timeout");
			$session->ask("SELECT $call");
			$timeout *= 2;
			return slurp_file($node->logfile, $log) =~ /DETAIL: .*process \d+ of cluster/;
		},
		'the timeout of a wait');
	is($session->sqlstate, '55P03', 'lock_timeout');
	return;
}

my %holder = (postgres => $admin, ann => $session{ann}, 'another cluster' => $far);
my $number = 0;
foreach my $who (sort keys %holder)
{
	my $path = '/timeout/' . ++$number;
	my $pid = $holder{$who}->pid;
	$holder{$who}->ask("SELECT zk_lock_acquire('$path')");
	time_out($session{joe}, $path);
	is( detail($session{joe}),
		'The lock is held by another session. 1 must go first. Position in queue: 2.',
		"S291: joe does not see that it is $who");
	unlike($session{joe}->errors, $traces, 'and not anywhere else in the message');
	logged(
		qr/canceling statement due to lock timeout\n.*DETAIL: .*The lock is held by process $pid of cluster "t?here" \(.*application "$secret"\)\. 1 must/,
		"S291: the log says that it is $who");
	time_out($session{eve}, $path);
	like(detail($session{eve}), qr/process $pid of cluster "t?here" .*"$secret"/,
		"S291: a member of pg_read_all_stats sees that it is $who");
	$holder{$who}->ask("SELECT zk_lock_release('$path')");
}

$second->ask("SELECT zk_lock_acquire('/timeout/own')");
time_out($session{joe}, '/timeout/own');
like( detail($session{joe}),
	qr/process ${\$second->pid} of cluster "here" .*user "joe"/,
	"S291: joe sees joe's other session");
$second->ask("SELECT zk_lock_release('/timeout/own')");

# A permit; and one further behind.
$admin->ask("SELECT zk_semaphore_acquire('/timeout/permit', 1)");
time_out($session{joe}, '/timeout/permit', "zk_semaphore_acquire('/timeout/permit', 1)");
like(detail($session{joe}), qr/^The only permit is in use\. .*another session\./,
	'S291: the holder of a permit is another session');
unlike(detail($session{joe}), $traces, 'and nothing else');
$admin->ask('SELECT zk_lock_release_all()');

# ---- Breaking: of a holder and of a waiter.

$session{joe}->ask('RESET lock_timeout');
$session{joe}->ask("SELECT zk_lock_acquire('/broken')");
my ($contender) = $ensemble->queue('/broken');
is($admin->ask("SELECT zk_lock_break('/broken', '$contender')"), 't', 'broken');
$session{joe}->ask("SELECT zk_lock_verify('/broken')");
is($session{joe}->sqlstate, 'ZKL01', 'a holder is broken');
like(detail($session{joe}), qr/^Its contender was broken by another session\./,
	'S291: joe is not told by whom');
unlike($session{joe}->errors, qr/$secret|cluster|\{/, 'nor anywhere else');
logged(
	qr/lock "\/broken" was lost\n.*DETAIL: .*Its contender was broken by process ${\$admin->pid} of .*"$secret"/,
	'S291: the log says by whom');
$session{joe}->ask("SELECT zk_lock_release('/broken')");
unlike($session{joe}->errors, qr/$secret|cluster|\{/, 'S291: nor does the warning of the release');

$far->ask("SELECT zk_lock_acquire('/broken')");
$session{joe}->send("SELECT zk_lock_acquire('/broken')");
$ensemble->wait_for_queue('/broken', 2);
$contender = ($ensemble->queue('/broken'))[1];
is($admin->ask("SELECT zk_lock_break('/broken', '$contender')"), 't', 'broken');
$session{joe}->answer;
is($session{joe}->sqlstate, '57000', 'a waiter is broken');
is(detail($session{joe}), 'Its contender was broken by another session.',
	'S291: joe is not told by whom');
logged(
	qr/contender was removed by zk_lock_break\(\)\n.*DETAIL: .*broken by process ${\$admin->pid} of .*"$secret"/,
	'S291: the log says by whom');
$far->ask("SELECT zk_lock_release('/broken')");

# ---- A deadlock.

my $victim = $session{joe};
$victim->ask("SELECT zk_lock_acquire('/circle/a')");
$far->ask("SELECT zk_lock_acquire('/circle/b')");
$far->send("SELECT zk_lock_acquire('/circle/a')");
wait_for(
	sub {
		$far_node->safe_psql('postgres', 'SELECT count(*) FROM zk_lock_waits') eq '1';
	},
	'one to wait');
wait_for(
	sub { (my @waits = $ensemble->zk->ls("/zklock/.zklock/waits")) == 1 },
	'the wait to be published');
$victim->ask("SELECT zk_lock_acquire('/circle/b')");
is($victim->sqlstate, '40P01', 'a deadlock');
like(
	detail($victim),
	qr/^Process ${\$victim->pid} waits for exclusive lock "\/circle\/b" in a cycle of 2\. See the server log for details\.$/,
	'S291: joe sees his own wait');
unlike($victim->errors, $traces, 'and of no other session');
logged(
	qr/deadlock detected\n.*DETAIL: .*\n.*[pP]rocess ${\$far->pid} of cluster "there"/,
	'S291: the log has all');
$victim->ask('SELECT zk_lock_release_all()');
$far->answer;

# ---- A revocation.

$session{joe}->ask("SELECT zk_lock_acquire('/revoked')");
($contender) = $ensemble->queue('/revoked');
$admin->ask("SELECT zk_lock_revoke('/revoked', '$contender')");
my $notices = '';
wait_for(
	sub {
		my $revoked = $session{joe}->ask('SELECT revoked FROM zk_locks', 'quiet');
		$notices .= $session{joe}->errors;
		return $revoked eq 't';
	},
	'joe to know');
like($notices, qr/NOTICE: .*release of lock "\/revoked" was requested/, 'joe is asked');
unlike($notices, qr/$secret|cluster|postgres|\{/, 'S291: but not told by whom');

done_testing();
