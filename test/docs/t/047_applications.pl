# The code of doc/howto-applications.md in Python and Java, with drivers, pools and ORMs of
# Debian: what it does while locks are free, held and lost, and while ZooKeeper is down (S430).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use DocPage;
use ZkEnsemble;
use ZkPsql;
use ZkTool;

my $tmp = $PostgreSQL::Test::Utils::tmp_check;
my $page = DocPage->new('doc/howto-applications.md');
my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my $node = zk_cluster(
	'db1',
	$ensemble,
	settings => {
		listen_addresses => '127.0.0.1',
		shared_preload_libraries => 'zklock',
		'zklock.on_lock_loss' => 'cancel',
		client_connection_check_interval => '0',
		'zklock.session_timeout' => '60s',
		'zklock.connect_timeout' => '60s'
	});
$node->safe_psql(
	'postgres', q{
	CREATE TABLE report AS SELECT 0 AS number;
	CREATE TABLE counter AS SELECT 0 AS n;
	CREATE TABLE accounts AS SELECT id, 0 AS balance FROM generate_series(1, 2) id;
	ALTER TABLE accounts ADD PRIMARY KEY (id);
	CREATE TABLE files (name text PRIMARY KEY, token bigint)});

# ---- What is on the page: one module, and a file for each class.

sub blocks
{
	my ($language) = @_;
	return map { $_->{text} } grep { $_->{language} eq $language } $page->blocks;
}

mkdir "$tmp/page" or die "$tmp/page: $!";
append_to_file("$tmp/page/page.py", join "\n\n", blocks('python'));
foreach my $text (blocks('java'))
{
	my ($class) = $text =~ /^final class (\w+)/m;
	append_to_file("$tmp/page/$class.java", $text);
}

# Has a program done what it should?
sub answers
{
	my ($program, $command, $expected, $what) = @_;
	is($program->ask($command, 180), $expected, "S430: $what");
	return;
}

# How often the log has had a line by now.
sub logged
{
	my ($pattern) = @_;
	my $count = () = slurp_file($node->logfile) =~ /$pattern/g;
	return $count;
}

# ---- Python.

my $python = ZkTool->new('test/docs/programs/python', "$tmp/page", $node->connstr('postgres'));

answers($python, 'report', '(True, 1, True)', 'the first example works, and releases the lock');
answers($python, 'lost', '(True, 2)', 'a transaction that loses its lock is repeated');
answers($python, 'lost_at_commit', '(True, 2)', 'also if only the commit finds that out');
answers($python, 'serialization', '(True, 2)', 'and one that could not be serialized');
like($python->ask('deadlock'),
	qr/^\[\(True, 1\), \(True, 2\)\]$/, 'S430: and one of two that wait for each other');
answers($python, 'invalid_path', q{('22023', 0)}, 'an error of the program is not repeated');
answers($python, 'broken', '(None, 1)', 'nor is one whose connection broke');
answers($python, 'statement_timeout', q{('57014', 1)}, 'nor is a statement that takes too long');
is($node->safe_psql('postgres', 'SELECT number FROM report'),
	'4', 'S430: the work is there once each time');
answers($python, 'lock_timeout', q{[False, '55P03', '57014']}, 'each timeout has its result');
answers($python, 'cancel', '57014', 'a wait is cancelled, and leaves no waiter');
answers($python, 'autocommit', '[True, True]', 'with autocommit, locks do not exclude');
like($python->ask('token'),
	qr/^\(True, True, 'a newer holder .*'\)$/,
	'S430: another system refuses the token of an older holder');

# Many count under the lock, while it is broken now and then, and ZooKeeper is down for a
# moment.
my $direct = ZkPsql->new($node);
$python->send('count 4 40');
foreach my $part (1 .. 4)
{
	wait_for(
		sub { $direct->ask('SELECT n FROM counter', 'quiet') >= 25 * $part },
		"a count of 25 * $part", 60);
	$direct->ask(q{SELECT zk_lock_break('/count', contender) FROM zk_lock_queue('/count') WHERE granted});
	next unless $part == 2;
	my $failures = logged(qr/could not connect to ZooKeeper/);
	$ensemble->stop;
	wait_for(sub { logged(qr/could not connect to ZooKeeper/) > $failures + 3 },
		'the programs to notice that');
	$ensemble->start;
}
is($python->read_line('count', 300), '160', 'S430: all threads count to the end');
is($direct->ask('SELECT n FROM counter'), '160', 'S430: nothing is counted twice, and nothing lost');

# ---- SQLAlchemy and Django.

answers($python, 'sqlalchemy', '(True, True)', 'SQLAlchemy: a lock in its transaction');
answers($python, 'pool', '(True, 1, True)', 'SQLAlchemy: its pool keeps locks of the session');
answers($python, 'clean_pool', '(True, 0, True)', 'SQLAlchemy: but not with that hook');
answers($python, 'stale', '0', 'SQLAlchemy: an object from before the lock is old');
answers($python, 'django', '(True, True)', 'Django: a lock in its transaction');
answers($python, 'django_autocommit', '(True, True)', 'Django: no lock outside of atomic');
answers($python, 'django_nested', '[False, True, True]', 'Django: locks and savepoints');
answers($python, 'django_error', '22023', 'Django: where the SQLSTATE is');

# ---- Java.

my $java = ZkTool->new('test/docs/programs/java', "$tmp/page",
	sprintf('jdbc:postgresql://127.0.0.1:%d/postgres?user=%s', $node->port, scalar getpwuid $<));

answers($java, 'busy', 'false true', 'JDBC: false while another session has the lock');
answers($java, 'lost', 'true 2', 'JDBC: a transaction that loses its lock is repeated');
answers($java, 'invalid', '22023 1', 'JDBC: an error of the program is not repeated');
answers($java, 'no cast', '42883 true', 'JDBC: strings need the cast');
answers($java, 'autocommit', 't t', 'JDBC: with autocommit, locks do not exclude');
answers($java, 'query timeout', '57014', 'JDBC: a timeout of a statement cancels the wait');
answers($java, 'socket timeout', '08006 true 2', 'JDBC: one of a socket leaves a waiter');
answers($java, 'pool', '1 t', 'HikariCP: it keeps locks of the session');
answers($java, 'session', 'true 1 0', 'HikariCP: they are released');
answers($java, 'session lost', 'ZKL01 true',
	'HikariCP: and so are lost ones, and the next user can commit');

# A connection that breaks is noticed, if the server looks.
my $holder = ZkPsql->new($node);
$holder->ask("SELECT zk_lock_acquire('/check')");
my $waiter = ZkPsql->new($node, client_connection_check_interval => '50ms');
$waiter->send("SELECT zk_lock_acquire('/check')");
$ensemble->wait_for_queue('/check', 2);
$waiter->{psql}{run}->kill_kill;
$ensemble->wait_for_queue('/check', 1);
pass('S430: a waiter whose client is gone leaves the queue');

# ---- ZooKeeper is down.

my $other = ZkTool->new('test/docs/programs/python', "$tmp/page", $node->connstr('postgres'));
is($other->ask('hold'), 'True', 'a session holds a lock');
$python->send('unreachable');
$ensemble->wait_for_queue('/down', 2);
$ensemble->stop;
answers($java, 'unreachable', '08001 true true', 'HikariCP closes the connection then');
answers($java, 'never', '08001', 'JDBC: a program reports it');
is(logged(qr/could not acquire lock "\/java\/never": could not connect/),
	6, 'S430: JDBC: after several attempts, each with another connection');
answers($other, 'sqlalchemy_error', q{['08001', False, True]}, 'SQLAlchemy keeps it');
my $failures = logged(qr/could not connect to ZooKeeper/);
wait_for(sub { logged(qr/could not connect to ZooKeeper/) > $failures },
	'a program to try again');
$other->ask('let_go');
$ensemble->start;
is($python->read_line('unreachable', 120),
	q{(True, ['08001', '08006'])}, 'S430: a program tries until ZooKeeper is there again');

done_testing();
