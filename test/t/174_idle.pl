# A session that is idle when it loses its lock (S407).  PostgreSQL runs transactions of
# its own in it, for LISTEN and for invalidations: they are not refused, and the server
# log reports the loss, at once and with the right time.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(wait_for);

my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my $node = zk_cluster('main', $ensemble,
	settings => { 'zklock.session_timeout' => '60s', log_statement => 'none' });
my $admin = ZkPsql->new($node);
my $reported = qr/LOG:  lock "([^"]+)" was lost while the session was idle\n.*broken by process/;

# Break the lock of a session.
sub break_lock
{
	my ($path) = @_;
	is($admin->ask("SELECT zk_lock_break('$path', token) FROM zk_lock_queue('$path')"),
		't', "$path is broken");
	return;
}

foreach my $on_lock_loss (qw(cancel report))
{
	foreach my $guard (qw(lease quorum off))
	{
		my $path = "/idle/$on_lock_loss/$guard";
		my $idle = ZkPsql->new($node, 'zklock.on_lock_loss' => $on_lock_loss,
			'zklock.commit_guard' => $guard);
		$idle->ask('LISTEN news');
		$idle->ask("SELECT zk_lock_acquire('$path')");
		my $log = -s $node->logfile;
		break_lock($path);
		$node->wait_for_log($reported, $log);
		my ($lost) = slurp_file($node->logfile, $log) =~ $reported;
		is($lost, $path, 'S407: the loss is in the server log');
		my $after = $admin->ask('SELECT clock_timestamp()');

		# It gets what it listens to, and its connection remains.
		$admin->ask("NOTIFY news, '$path'");
		wait_for(
			sub { $admin->ask("SELECT wait_event FROM pg_stat_activity
					WHERE pid = ${\$idle->pid} AND pg_notification_queue_usage() = 0", 'quiet')
				  eq 'ClientRead' },
			'the session to read the notification');
		like($idle->ask("SELECT state, lost_at < '$after' FROM zk_locks"),
			qr/^lost\|t\n.*notification "news" with payload "$path"/,
			'S407: it lives, was notified, and knows when the lock was lost');
		unlike(slurp_file($node->logfile, $log), qr/ERROR|FATAL/, 'S407: nothing has failed');
		$idle->ask('SELECT 1');
		is($idle->sqlstate, $guard eq 'off' ? '' : 'ZKL01', 'but its own work is refused');
		is($idle->ask("SELECT zk_lock_release('$path')"), 'f', 'until the lock is released');
		is($idle->ask('SELECT 1'), '1', 'then it can go on');
		is(scalar(() = slurp_file($node->logfile, $log) =~ /while the session was idle/g),
			1, 'S407: the loss is reported once');
		$idle->quit;
	}
}

# In a transaction block it is not reported before its end.
my $open = ZkPsql->new($node);
$open->ask('BEGIN');
$open->ask("SELECT zk_lock_acquire_xact('/idle/block')");
my $log = -s $node->logfile;
break_lock('/idle/block');
$admin->ask('NOTIFY news');
$open->ask('COMMIT');
is($open->sqlstate, 'ZKL01', 'a transaction block that was open cannot commit');
unlike(slurp_file($node->logfile, $log), qr/while the session was idle/,
	'S407: and it is not reported as idle');

done_testing();
