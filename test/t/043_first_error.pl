# A statement fails, or is cancelled, and the release of its locks fails as well: the
# caller sees only the first error (S98).  The remaining cleanup happens later, without
# the backend.
#
# The backend under test connects through a proxy, its rival does not.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble =
  ZkEnsemble->new('main', tick_time => 500, maxSessionTimeout => 30000);
my $zk = $ensemble->zk;
my $proxy = $ensemble->proxy;
my $node = zk_cluster('main', $proxy,
	settings => { 'zklock.session_timeout' => '30s' });
my $session = ZkPsql->new($node);
my $rival =
  ZkPsql->new($node, 'zklock.servers' => $ensemble->connect_string);

# What may befall the connection, and how it comes back.
my %breaks = (
	frozen => sub { $proxy->freeze },
	cut => sub { $proxy->refuse; $proxy->cut });

# What may end a wait: its SQLSTATE, lock_timeout, and what is to be done for it.
my @ends = (
	[ 'cancelled', '57014', '0', sub { kill 'INT', $session->pid } ],
	[ 'lock_timeout', '55P03', '6s', sub { } ]);

# The first error is the only thing that the caller hears.
sub only_error
{
	my ($sqlstate, $what) = @_;
	my @said = $session->errors =~ /^(ERROR|FATAL|WARNING): +(\w+)/mg;
	is("@said", "ERROR $sqlstate", "$what: $sqlstate and nothing else");
	return;
}

# Have the session wait for a lock that its rival holds.
sub wait_behind_rival
{
	my ($path) = @_;
	$rival->ask("SELECT zk_lock_acquire('$path')");
	$session->send("SELECT zk_lock_acquire('$path')");
	$ensemble->wait_for_queue($path, 2);
	wait_for(sub { $ensemble->waiter_watch_count > 0 }, 'the watch to be set');
	return;
}

# Only what the rival holds is left, and the backend works.
sub goes_on
{
	my ($path, $what) = @_;
	$ensemble->wait_for_queue($path, 1);
	$rival->ask("SELECT zk_lock_release('$path')");
	is($session->ask("SELECT zk_lock_acquire('$path', '20 s')"),
		't', "$what: the rest is cleaned up, the backend works");
	is($session->ask("SELECT zk_lock_release('$path')"), 't', "$what: and works");
	is($session->errors, '', "$what: without a word");
	$ensemble->wait_for_queue($path, 0);
	return;
}

# A lock node that contenders can be created in, but not deleted.
sub forbid_delete
{
	my ($path) = @_;
	$zk->make_path("/zklock$path");
	$zk->set_acl("/zklock$path", 'world:anyone:crwa');
	return;
}

sub allow_delete
{
	my ($path) = @_;
	$zk->set_acl("/zklock$path", 'world:anyone:crwda');
	return;
}

# ---- A wait ends while there is no connection.

foreach my $break (sort keys %breaks)
{
	foreach my $end (@ends)
	{
		my ($name, $sqlstate, $lock_timeout, $act) = @$end;
		my $what = "S98: connection $break, $name";
		my $path = "/$break/$name";

		$session->ask("SET lock_timeout = '$lock_timeout'");
		wait_behind_rival($path);
		$breaks{$break}->();
		ok(!$session->answered, "$what: it waits");
		$act->();
		$session->answer;
		only_error($sqlstate, $what);
		like($session->errors, qr/CONTEXT: .*lock "$path"/,
			"$what: which names the lock");
		is(scalar($ensemble->queue($path)), 2,
			"$what: its contender is still there");
		$session->ask('RESET lock_timeout');
		$proxy->pass;
		goes_on($path, $what);
	}
}

# The connection breaks at the cleanup itself.
foreach my $trap ('cut_before_request', 'cut_after_request')
{
	my $what = "S98: $trap of the delete";
	my $path = "/delete/$trap";
	my $fired = $proxy->fired;

	wait_behind_rival($path);
	$proxy->$trap('delete');
	kill 'INT', $session->pid;
	$session->answer;
	only_error('57014', $what);
	wait_for(sub { $proxy->fired > $fired }, 'the delete');
	goes_on($path, $what);
}

# ---- The contender of a wait may not be deleted: it goes with the ZooKeeper
# session.

foreach my $end (@ends)
{
	my ($name, $sqlstate, $lock_timeout, $act) = @$end;
	my $what = "S98: no right to delete, $name";
	my $path = "/forbidden/$name";

	forbid_delete($path);
	$session->ask("SET lock_timeout = '$lock_timeout'");
	wait_behind_rival($path);
	$act->();
	$session->answer;
	only_error($sqlstate, $what);
	$session->ask('RESET lock_timeout');
	$ensemble->wait_for_queue($path, 1);
	allow_delete($path);
	goes_on($path, $what);
}

# Nor is a wait that ran out of time an error for that.
forbid_delete('/forbidden/timeout');
$rival->ask("SELECT zk_lock_acquire('/forbidden/timeout')");
is($session->ask("SELECT zk_lock_acquire('/forbidden/timeout', '5 s')"),
	'f', 'S98: no right to delete: a timeout is false');
is($session->errors, '', 'S98: no right to delete: and nothing else');
$ensemble->wait_for_queue('/forbidden/timeout', 1);
allow_delete('/forbidden/timeout');
goes_on('/forbidden/timeout', 'S98: no right to delete, timeout');

# The ZooKeeper session is not closed while something else is held in it.  A
# backend whose lines in the server log are not limited yet says so there.
$session->quit;
$session = ZkPsql->new($node);
$session->ask("SELECT zk_lock_acquire('/other')");
my $token = $session->ask("SELECT zk_lock_token('/other')");
my $log_start = -s $node->logfile;
forbid_delete('/forbidden/other');
wait_behind_rival('/forbidden/other');
kill 'INT', $session->pid;
$session->answer;
only_error('57014', 'S98: no right to delete, another lock held');
is($session->ask("SELECT zk_lock_verify('/other')"),
	$token, 'S98: the other lock is held as before');
wait_for(
	sub {
		$session->ask("SELECT zk_lock_verify('/other')", 'quiet');
		slurp_file($node->logfile, $log_start) =~
		  m{LOG: .*could not delete a contender of lock node "/zklock/forbidden/other": permission denied};
	},
	'the server log to say what could not be cleaned up');
is(scalar($ensemble->queue('/forbidden/other')),
	2, 'S98: the contender remains until then');
is($session->ask("SELECT zk_lock_release('/other')"),
	't', 'S98: the other lock is released');
$ensemble->wait_for_queue($_->[0], $_->[1])
  foreach [ '/forbidden/other', 1 ], [ '/other', 0 ];
pass('S98: with it goes the contender');
allow_delete('/forbidden/other');
goes_on('/forbidden/other', 'S98: no right to delete, another lock held');

# ---- An error in a transaction whose locks cannot be released.

foreach my $break (sort keys %breaks)
{
	my $what = "S98: transaction, connection $break";
	my $path = "/xact/$break";

	$session->ask('BEGIN');
	is($session->ask("SELECT zk_lock_acquire_xact('$path')"),
		't', "$what: acquired");
	$breaks{$break}->();
	$session->ask('SELECT 1/0');
	only_error('22012', $what);
	$session->ask('ROLLBACK');
	is($session->errors, '', "$what: the rollback says nothing");
	is($session->ask('SELECT count(*) FROM zk_locks'), 0, "$what: not held");
	is($session->errors, '', "$what: which can be asked");
	$proxy->pass;
	$ensemble->wait_for_queue($path, 0);
	pass("$what: the contender is deleted later");
}

# The error and the release within one statement; the delete is lost, or
# forbidden.
sub fail_with_lock
{
	my ($path) = @_;
	$session->ask(
		qq(DO \$\$ BEGIN
			PERFORM zk_lock_acquire_xact('$path');
			RAISE division_by_zero;
		END \$\$));
	return;
}

my $fired = $proxy->fired;
$proxy->cut_before_request('delete');
fail_with_lock('/xact/delete');
only_error('22012', 'S98: statement, the delete lost');
wait_for(sub { $proxy->fired > $fired }, 'the delete');
$ensemble->wait_for_queue('/xact/delete', 0);
pass('S98: statement, the delete lost: it is sent again');

forbid_delete('/xact/forbidden');
fail_with_lock('/xact/forbidden');
only_error('22012', 'S98: statement, no right to delete');
$ensemble->wait_for_queue('/xact/forbidden', 0);
pass('S98: statement, no right to delete: the contender goes');

# An exception block sees the first error, and the transaction goes on and
# commits.  What cannot be deleted stays until the other lock is released.
forbid_delete("/xact/$_") foreach 'waited-for', 'granted';
$rival->ask("SELECT zk_lock_acquire('/xact/waited-for')");
$session->ask("SET lock_timeout = '5s'");
$session->ask(
	q(DO $$ BEGIN
		PERFORM zk_lock_acquire_xact('/xact/outer');
		BEGIN
			PERFORM zk_lock_acquire_xact('/xact/waited-for');
		EXCEPTION WHEN OTHERS THEN
			RAISE NOTICE 'caught %', SQLSTATE;
		END;
		BEGIN
			PERFORM zk_lock_acquire_xact('/xact/granted');
			RAISE division_by_zero;
		EXCEPTION WHEN OTHERS THEN
			RAISE NOTICE 'caught %', SQLSTATE;
		END;
		PERFORM zk_lock_verify('/xact/outer');
	END $$));
is(join(' ', $session->errors =~ /^[A-Z]+: +\S+: (.*)$/mg),
	'caught 55P03 caught 22012', 'S98: exception blocks see the first errors');
$session->ask('RESET lock_timeout');
$ensemble->wait_for_queue($_->[0], $_->[1])
  foreach [ '/xact/outer', 0 ], [ '/xact/granted', 0 ], [ '/xact/waited-for', 1 ];
pass('S98: exception blocks: all contenders go after the commit');
allow_delete("/xact/$_") foreach 'waited-for', 'granted';
goes_on('/xact/waited-for', 'S98: exception block');

# A lock that was lost does not speak up in a transaction that has failed.
$session->ask('BEGIN');
$session->ask("SELECT zk_lock_acquire_xact('/xact/lost')");
$zk->deleteall('/zklock/xact/lost');
wait_for(
	sub { $session->ask('SELECT state FROM zk_locks', 'quiet') eq 'lost' },
	'the lock to be lost');
$session->ask('SELECT 1/0');
only_error('22012', 'S98: transaction, lock lost');
$session->ask('COMMIT');
is($session->errors, '', 'S98: transaction, lock lost: it rolls back');
is($session->ask("SELECT zk_lock_acquire('/xact/lost', '20 s')"),
	't', 'S98: transaction, lock lost: the backend works');
is($session->ask("SELECT zk_lock_release('/xact/lost')"), 't', 'and works');

# ---- All this in one backend.

is($ensemble->watch_count, 0, 'no watch is left');
unlike(slurp_file($node->logfile),
	qr/terminated by signal|exited with exit code 2|PANIC/,
	'no backend has crashed');

done_testing();
