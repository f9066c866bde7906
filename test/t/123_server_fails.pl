# A server of the ensemble is stopped, killed, or cut off from the others, at each
# eighth of a session timeout while a lock is held through it: the lock survives, proved
# through another server (S230).
#
# An ensemble of two would have no majority left. unit/client_lease_test tests a client
# that knows only two servers; it has ports for servers.
#
# Takes long: locks are held.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use ZkEnsemble;
use ZkPsql;
use ZkTest;

# Seconds; and for so many eighths of it the longest lock has been held.  If locks are lost
# it is done again, with the next one: the machine may have stood still meanwhile, for
# longer than the short ones leave to find another server.
my @session_timeouts = (6, 6, 12, 20, 30, 30);
my $eighths = 16;

# No server leaves the ensemble by itself before its clients have to leave it.
my $patient = 60;

my %fail = (
	stopped => sub { $_[0]->pause_server($_[1]) },
	killed => sub { $_[0]->kill_server($_[1]) },
	'cut off' => sub { $_[0]->partition($_[1]) });
my %mend = (
	stopped => sub { $_[0]->resume_server($_[1]) },
	killed => sub { $_[0]->start_server($_[1]) },
	'cut off' => sub { $_[0]->heal($_[1]) });

sub server { return $_[0]->ask('SELECT server FROM zk_session()', 'quiet'); }

# Have a session be connected to this server: which one it tries first is random.
sub move_to
{
	my ($session, $address) = @_;
	wait_for(
		sub {
			$session->ask("SELECT zk_session_close(), zk_lock_acquire('/${\$session->pid}'),"
				  . " zk_lock_release('/${\$session->pid}')", 'quiet');
			return server($session) eq $address;
		},
		"a connection to $address");
	return;
}

# Acquire a lock in each session, an eighth of the timeout after the other.
sub hold
{
	my ($session_timeout, @sessions) = @_;
	my $begin = time;
	foreach my $i (0 .. $#sessions)
	{
		wait_for(sub { time >= $begin + $i * $session_timeout / 8 }, 'an eighth');
		$sessions[$i]->ask("SELECT zk_lock_acquire('/held/$i')", 'quiet');
	}
	wait_for(sub { time >= $begin + @sessions * $session_timeout / 8 }, 'the last eighth');
	return;
}

# Does it hold its lock, as the ensemble says through another server than this?
sub survived
{
	my ($session, $path, $address) = @_;
	wait_for(
		sub {
			return server($session) !~ /^(?:\Q$address\E)?$/
			  || $session->lock_state($path) !~ /^(?:held|unproved)$/;
		},
		'another server, or the loss');
	return $session->ask("SELECT zk_lock_verify('$path') > 0") eq 't';
}

foreach my $servers (3, 5)
{
	my $ensemble = ZkEnsemble->new("of_$servers",
		servers => $servers,
		peer_proxies => 1,
		tick_time => 500,
		syncLimit => $patient,
		maxSessionTimeout => 60000);
	my $node = zk_cluster("of_$servers", $ensemble);
	my @sessions = map { ZkPsql->new($node) } 1 .. $eighths;

	foreach my $how (sort keys %fail)
	{
		my $survived = 0;
		foreach my $session_timeout (@session_timeouts)
		{
			my ($server) = $ensemble->followers;
			my $address = $ensemble->address($server);
			$_->ask("SET zklock.session_timeout = '${session_timeout}s'", 'quiet')
			  foreach @sessions;
			move_to($_, $address) foreach @sessions;
			hold($session_timeout, @sessions);
			$fail{$how}->($ensemble, $server);
			$survived =
			  grep { survived($sessions[$_], "/held/$_", $address) } 0 .. $#sessions;
			note "$servers servers, $how, timeout $session_timeout s: $survived locks have survived";
			$mend{$how}->($ensemble, $server);
			wait_for(sub { $ensemble->followers == $servers - 1 }, 'the server to be back');
			$_->ask('SELECT zk_lock_release_all()', 'quiet') foreach @sessions;
			last if $survived == $eighths;
		}
		is($survived, $eighths,
			"S230: one of $servers servers is $how: the lock survives, held for up to 2 T");
	}
	$node->stop;
	$ensemble->stop;
}

done_testing();
