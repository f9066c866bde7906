# Actions of others on a contender: an administrator breaks it (S75), another client
# deletes it (S10) or requests the lock as Curator does (S105).  The owner knows
# immediately, and the next waiter proceeds.
#
# The timeout of the ZooKeeper sessions is so long that no renewal affects the results.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(check_fast wait_for);

# A quarter of it is when a renewal would find out.
my $session_timeout = 120;
my $at_once = 20;

my $ensemble =
  ZkEnsemble->new('main', maxSessionTimeout => $session_timeout * 1000);
my $zk = $ensemble->zk;
my $node = zk_cluster('main', $ensemble,
	settings => { 'zklock.session_timeout' => "${session_timeout}s" });
$node->safe_psql('postgres', 'CREATE TABLE work (step text)');

my $proxy = $ensemble->proxy;
my $admin = ZkPsql->new($node, 'zklock.servers' => $proxy->address);
$admin->ask("SET application_name = 'the administrator'");
my $holder = ZkPsql->new($node);
my $waiter = ZkPsql->new($node);
my $number = 0;

# Until the server has a watch on a contender.
sub wait_until_watched
{
	my ($path, $contender, $what) = @_;
	wait_for(
		sub { $ensemble->four_letter(1, 'wchp') =~ m{/zklock$path/\Q$contender\E\n} },
		$what);
	return;
}

# A new lock, held for so long that its contender is watched over; returns path
# and contender.
sub held
{
	my ($session, $scope, $young) = @_;
	my $path = '/break/' . ++$number;
	$session->ask('BEGIN') if $scope eq '_xact';
	is($session->ask("SELECT zk_lock_acquire$scope('$path')"),
		't', "$path is acquired");
	my ($contender) = $ensemble->queue($path);
	wait_until_watched($path, $contender, "$path to be watched") unless $young;
	return ($path, $contender);
}

# Let a session wait behind that; returns its contender.
sub wait_behind
{
	my ($path) = @_;
	$waiter->send("SELECT zk_lock_acquire('$path')");
	$ensemble->wait_for_queue($path, 2);
	return ($ensemble->queue($path))[1];
}

# The waiter gets the lock, and gives it back.
sub passes_on
{
	my ($path, $what) = @_;
	is($waiter->answer, 't', "$what: the next in line acquires it");
	is($waiter->ask("SELECT zk_lock_release('$path')"), 't', "$what: and releases");
	return;
}

# After a second, zk_lock_break() deletes the contender itself.  Then its owner may find
# only that it is gone: it has been fast enough if breaking took less than that.
my $patience = 0.9;
my $breaking_took;

sub break_it
{
	my ($path, $contender) = @_;
	my $begin = time;
	my $answer = $admin->ask("SELECT zk_lock_break('$path', '$contender')");
	$breaking_took = time - $begin;
	return $answer;
}

# The transaction in which the lock was lost cannot commit, and this is why.
sub cannot_commit
{
	my ($what, $why) = @_;
	$holder->ask('COMMIT');
	is($holder->sqlstate, 'ZKL01', "$what: cannot commit");
	like($holder->errors, $why, "$what: and the error has the reason");
	return;
}

my $by_admin = qr/DETAIL: .*broken by process \d+ of cluster .*user ".*", application "the administrator"/;

# The same, unless the owner was not fast enough.
sub by_admin
{
	return $breaking_took < $patience
	  ? $by_admin
	  : qr/$by_admin|Another client deleted its contender/;
}

# In its transaction, the holder hears from its watch that its contender is gone.
sub wait_until_noticed
{
	wait_for(sub { $holder->ask('SELECT state FROM zk_locks', 'quiet') eq 'lost' },
		'the holder to notice', $at_once);
	return;
}

# One that was not fast enough has to.
sub wait_until_told
{
	wait_until_noticed() if $breaking_took >= $patience;
	return;
}

# Break contenders until an owner was fast enough.
sub in_time
{
	my ($what, $least, $round) = @_;
	check_fast("$what: its owner deletes it",
		$patience, $least, sub { $round->(); return $breaking_took; });
	return;
}

# ---- zk_lock_break(): a holder that is there.  It has a second to give it up by
# itself, which it does soon, unless the machine is busy.

in_time(
	'S75: broken',
	3,
	sub {
		my ($path, $contender) = held($holder, '_xact');
		$holder->ask("INSERT INTO work VALUES ('broken')");
		wait_behind($path);
		my $log = -s $node->logfile;
		is(break_it($path, $contender), 't', 'S75: a contender is broken');
		passes_on($path, 'S75: broken');
		wait_until_told();
		cannot_commit('S75: broken', by_admin());
		is($node->safe_psql('postgres', 'SELECT count(*) FROM work'),
			0, 'S75: nothing was committed');
		like(
			slurp_file($node->logfile, $log),
			qr/LOG: .*contender "$contender" of lock "$path" was broken by user .*\n.*DETAIL: .*It belonged to process ${\$holder->pid} of /,
			'S75: the server log names both sides');
	});

# One that is busy is cancelled, with the reason.
in_time(
	'S75: busy',
	1,
	sub {
		my ($path, $contender) = held($holder, '_xact');
		$holder->ask("SET LOCAL zklock.on_lock_loss = 'cancel'");
		$holder->send('SELECT pg_sleep(300)');
		$holder->wait_until_busy($admin, "wait_event = 'PgSleep'");
		is(break_it($path, $contender), 't', 'S75: the contender of a busy one is broken');
		$holder->answer;
		is($holder->sqlstate, 'ZKL01', 'S75: it is cancelled');
		like($holder->errors, by_admin(), 'S75: and the error has the reason');
		$holder->ask('ROLLBACK');
	});

# One that has just been granted, and has no watch yet.
in_time(
	'S75: young',
	5,
	sub {
		my ($path, $contender) = held($holder, '_xact', 'young');
		is(break_it($path, $contender), 't', 'S75: a young contender is broken');
		wait_until_told();
		cannot_commit('S75: young', by_admin());
	});

# One whose create took longer than it takes until there is a watch.
{
	my $slow = $ensemble->proxy;
	$holder->ask("SET zklock.servers = '${\$slow->address}'");
	$holder->ask("SELECT zk_lock_acquire('/warm'), zk_lock_release('/warm')");
	in_time(
		'S75: slow',
		1,
		sub {
			$slow->delay(300);
			my ($path, $contender) = held($holder, '_xact', 'young');
			$slow->delay(0);
			is(break_it($path, $contender), 't', 'S75: a slow contender is broken');
			wait_until_told();
			cannot_commit('S75: slow', by_admin());
		});
	$holder->ask('RESET zklock.servers');
}

# Both modes of one lock, the downgraded one too.
in_time(
	'S75: downgraded',
	1,
	sub {
		my ($path) = held($holder, '');
		is($holder->ask("SELECT zk_lock_acquire('$path', NULL, true)"), 't', 'shared, too');
		is($holder->ask("SELECT zk_lock_release('$path', false)"), 't', 'downgraded');
		my $shared = wait_for(sub { ($ensemble->queue($path))[0] =~ /(.*__READ__.*)/ && $1 },
			'a shared contender to be in its place');
		is(break_it($path, $shared), 't', 'S75: a downgraded contender is broken');
		wait_for(sub { $holder->lock_state($path) eq 'lost' }, 'it to be lost', $at_once);
		is($holder->ask("SELECT zk_lock_release('$path')"), 'f', 'S75: it was lost');
		like($holder->errors, by_admin(), 'S75: and the warning has the reason');
	});

# ---- A waiter.  One that was not fast enough may queue up again.

in_time(
	'S75: a waiter',
	1,
	sub {
		my ($path) = held($holder, '');
		my $contender = wait_behind($path);
		is(break_it($path, $contender), 't', 'S75: the contender of a waiter is broken');
		if ($breaking_took < $patience)
		{
			$waiter->answer;
			is($waiter->sqlstate, '57000', 'S75: the waiter ends');
			like($waiter->errors, $by_admin, 'S75: and the error has the reason');
		}
		is($holder->ask("SELECT zk_lock_release('$path')"), 't', 'the holder keeps it');
		if ($breaking_took >= $patience)
		{
			$waiter->answer;
			$waiter->ask('SELECT zk_lock_release_all()');
		}
		is(scalar($ensemble->queue($path)), 0, 'S75: no contender is left');
	});

# ---- An owner that cannot hear.  Until it does it believes in its lease; but
# the ensemble can be asked.

{
	my ($path, $contender) = held($holder, '_xact');
	$holder->ask("SET LOCAL zklock.commit_guard = 'quorum'");
	wait_behind($path);
	$holder->stop;
	is(break_it($path, $contender), 't', 'S75: the contender of a stopped one is broken');
	passes_on($path, 'S75: stopped');
	$holder->continue;
	cannot_commit('S75: stopped', qr/Another client deleted its contender/);
}

# ---- Contenders of others: one that belongs to a session of another program,
# and one that belongs to none, such as a server leaves behind when it forgets
# to delete what was ephemeral.

foreach my $flags ('ephemeral', '')
{
	my $path = '/break/foreign' . $flags;
	$zk->make_path("/zklock$path");
	$zk->create("/zklock$path/_c_0f8c5ab2-lock-0000000000", 'not ours', $flags);
	$waiter->send("SELECT zk_lock_acquire('$path')");
	$ensemble->wait_for_queue($path, 2);
	is( break_it($path, '_c_0f8c5ab2-lock-0000000000'),
		't', 'S75: a contender of another program is broken');
	passes_on($path, 'S75: of another program');
}

# ---- What cannot be broken.

is(break_it('/break/none', '_c_1-lock-0000000007'), 'f', 'there is no such lock');
{
	my ($path, $contender) = held($admin, '');
	is(break_it($path, $contender =~ s/\d$/x/r), '', 'no name of a contender');
	is($admin->sqlstate, '22023', 'no name of a contender: 22023');
	foreach my $name ('', '.', '..', "../$contender", "$contender/x", 'NULL', 'rows')
	{
		break_it($path, $name);
		is($admin->sqlstate, '22023', "\"$name\" is no contender");
	}
	is(break_it($path, $contender =~ s/\d$/9/r), 'f', 'there is no such contender');
	break_it($path, $contender);
	is($admin->sqlstate, '55000', "not the backend's own");
	$admin->ask("SELECT zk_lock_break('$path', NULL)");
	is($admin->sqlstate, '22004', 'nor null');
	is($admin->ask("SELECT zk_lock_release('$path')"), 't', 'it is held all the time');
}
$node->safe_psql('postgres', 'CREATE ROLE nobody_special');
foreach my $function (qw(zk_lock_break zk_lock_revoke))
{
	$waiter->ask('SET ROLE nobody_special');
	$waiter->ask("SELECT $function('/break/1', '_c_1-lock-0000000007')");
	is($waiter->sqlstate, '42501', "$function is not for every role");
	$waiter->ask('RESET ROLE');
	$waiter->ask("GRANT EXECUTE ON FUNCTION $function(text, text) TO nobody_special");
	$waiter->ask('SET ROLE nobody_special');
	is($waiter->ask("SELECT $function('/break/none', '_c_1-lock-0000000007')"),
		'f', "$function can be granted");
	$waiter->ask('RESET ROLE');
}

# An ACL that allows no client to delete or change.
{
	my $path = '/break/forbidden';
	my $name = '_c_0f8c5ab2-lock-0000000000';
	$zk->make_path("/zklock$path");
	$zk->create("/zklock$path/$name", 'not ours', 'ephemeral');
	$zk->set_acl("/zklock$path", 'world:anyone:rwca');
	$zk->set_acl("/zklock$path/$name", 'world:anyone:r');
	break_it($path, $name);
	is($admin->sqlstate, '42501', 'S75: an ACL forbids to break it');
	$admin->ask("SELECT zk_lock_revoke('$path', '$name')");
	is($admin->sqlstate, '42501', 'S105: or to revoke it');
}

# ---- The connection is lost in between: the answer is still right.  An owner that was
# not fast enough gets another chance.

$admin->ask("SELECT zk_lock_acquire('/warm'), zk_lock_release('/warm')");
foreach my $case (
	[ 'cut_before_request', 'getData' ], [ 'cut_after_request', 'getData' ],
	[ 'cut_before_request', 'setData' ], [ 'cut_after_request', 'setData' ])
{
	my ($fault, $type) = @$case;
	foreach (1 .. 10)
	{
		my ($path, $contender) = held($holder, '_xact');
		$proxy->$fault($type, 1);
		is(break_it($path, $contender), 't', "S75: broken, $fault $type");
		wait_until_told();
		is(scalar($ensemble->queue($path)), 0, "S75: $fault $type: it is gone");
		$holder->ask('COMMIT');
		last if $breaking_took < $patience || $holder->errors =~ $by_admin;
	}
	is($holder->sqlstate, 'ZKL01', "S75: $fault $type: cannot commit");
	like($holder->errors, $by_admin, "S75: $fault $type: and the error has the reason");
}
foreach my $fault ('cut_before_request', 'cut_after_request')
{
	my $path = "/break/$fault";
	$zk->make_path("/zklock$path");
	$zk->create("/zklock$path/_c_0f8c5ab2-lock-0000000000", 'x', 'ephemeral');
	$proxy->$fault('delete', 1);
	is(break_it($path, '_c_0f8c5ab2-lock-0000000000'), 't', "S75: broken, $fault delete");
	is(scalar($ensemble->queue($path)), 0, "S75: $fault delete: it is gone");
}

# And who is interrupted.
{
	my ($path, $contender) = held($holder, '_xact');
	$proxy->freeze;
	$admin->send("SELECT zk_lock_break('$path', '$contender')");
	$node->poll_query_until('postgres',
		"SELECT state = 'active' FROM pg_stat_activity WHERE pid = ${\$admin->pid}");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\$admin->pid})");
	$admin->answer;
	is($admin->sqlstate, '57014', 'breaking can be cancelled');
	$proxy->pass;
	$holder->ask('ROLLBACK');
}

# ---- S10: a stranger deletes it.

{
	my ($path, $contender) = held($holder, '_xact');
	wait_behind($path);
	$zk->delete("/zklock$path/$contender");
	wait_until_noticed();
	passes_on($path, 'S10: deleted');
	cannot_commit('S10: deleted', qr/Another client deleted its contender/);
}
{
	my ($path, $contender) = held($holder, '_xact');
	$holder->ask("SET LOCAL zklock.on_lock_loss = 'cancel'");
	$holder->send('SELECT pg_sleep(300)');
	$holder->wait_until_busy($admin, "wait_event = 'PgSleep'");
	my $begin = time;
	$zk->delete("/zklock$path/$contender");
	$holder->answer;
	cmp_ok(time - $begin, '<', $at_once, 'S10: a busy holder is cancelled immediately');
	is($holder->sqlstate, 'ZKL01', 'S10: because of the loss');
	$holder->ask('ROLLBACK');
}

# A waiter requeues immediately, as no one told it not to.
{
	my ($path) = held($holder, '');
	my $contender = wait_behind($path);
	wait_until_watched($path, $contender, 'the waiter to be watched');
	$zk->delete("/zklock$path/$contender");
	wait_for(
		sub {
			my @queue = $ensemble->queue($path);
			return @queue == 2 && $queue[1] ne $contender;
		},
		'the waiter to requeue',
		$at_once);
	is($holder->ask("SELECT zk_lock_release('$path')"), 't', 'S10: released');
	passes_on($path, 'S10: the waiter deleted');
}

# ---- S105: what is written into a contender.

foreach my $by ('zk_lock_revoke()', 'another program')
{
	my ($path, $contender) = held($holder, '_xact');
	is($holder->ask('SELECT revoked FROM zk_locks'), 'f', 'not revoked');
	if ($by eq 'another program')
	{
		$zk->set("/zklock$path/$contender", '__REVOKE__');
	}
	else
	{
		is($admin->ask("SELECT zk_lock_revoke('$path', '$contender')"),
			't', 'S105: revoked');
	}
	my $notices = '';
	wait_for(
		sub {
			my $revoked = $holder->ask('SELECT revoked FROM zk_locks', 'quiet');
			$notices .= $holder->errors;
			return $revoked eq 't';
		},
		'the holder to know', $at_once);
	$holder->ask("INSERT INTO work VALUES ('revoked')");
	$notices .= $holder->errors;
	my @told = $notices =~ /(NOTICE: .*release of lock "$path" was requested)/g;
	is(scalar(@told), 1, "S105: the holder gets a NOTICE, once ($by)");
	$holder->ask('COMMIT');
	is($holder->errors, '', 'S105: and may continue and commit');
	$ensemble->wait_for_queue($path, 0);
	pass('S105: the lock is released then');
}
is($admin->ask("SELECT zk_lock_revoke('/break/none', '_c_1-lock-0000000007')"),
	'f', 'S105: there is no such contender');

# One that was asked while it waited is told when it has the lock.
{
	my ($path) = held($holder, '');
	my $contender = wait_behind($path);
	wait_until_watched($path, $contender, 'the waiter to be watched');
	$zk->set("/zklock$path/$contender", '__REVOKE__');
	wait_until_watched($path, $contender, 'the waiter to be watched again');
	is($holder->ask("SELECT zk_lock_release('$path')"), 't', 'S105: released');
	is($waiter->answer, 't', 'S105: a revoked waiter acquires all the same');
	my $notices = $waiter->errors;
	wait_for(
		sub {
			my $revoked = $waiter->ask('SELECT revoked FROM zk_locks', 'quiet');
			$notices .= $waiter->errors;
			return $revoked eq 't' && $notices =~ /NOTICE: .*release of lock "$path" was requested/;
		},
		'the waiter to be told', $at_once);
	is($waiter->ask("SELECT zk_lock_release('$path')"), 't', 'S105: and releases');
}

foreach my $data ('', '__REVOKE', '__REVOKE__ ', 'x' x 5000, '{"cluster":1}', "\x01\xff")
{
	my ($path, $contender) = held($holder, '_xact');
	$zk->set("/zklock$path/$contender", $data);
	wait_until_watched($path, $contender, 'the contender to be watched again');
	is( $holder->ask('SELECT state, revoked FROM zk_locks'),
		'held|f', 'S105: other data means nothing');
	$holder->ask('COMMIT');
	is($holder->errors, '', 'S105: and it does not prevent a commit');
}

done_testing();
