# CALL zk_lock_wait() holds no snapshot while it waits: the benefits on a primary and on
# a standby, and that such a wait is otherwise like any other (S283 to S287, S350).

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
	log_lock_waits => 'on');
my $primary = zk_cluster('primary', $ensemble,
	allows_streaming => 1,
	settings => \%settings);
$primary->safe_psql('postgres',
	'CREATE TABLE t AS SELECT g AS a FROM generate_series(1, 1000) g');

# who has a snapshot that is in the way holds up replay for as long as it has it
my $standby = zk_standby('standby', $primary, max_standby_streaming_delay => -1);
my %node = (primary => $primary, standby => $standby);
my %control = map { $_ => ZkPsql->new($node{$_}) } keys %node;
my $holder = ZkPsql->new($primary);

# What a session has that would be in the way of others, as it shows to them.
sub burden
{
	my ($control, $pid) = @_;
	return $control->ask(
		"SELECT coalesce(backend_xmin::text, '-') || ' ' || coalesce(backend_xid::text, '-')"
		  . " FROM pg_stat_activity WHERE pid = $pid", 'quiet');
}

# Wait until a session waits for a lock, and for so long that all that is done after
# deadlock_timeout is done: it knows who holds the lock.
sub wait_until_waiting
{
	my ($control, $session) = @_;
	my $pid = $session->pid;
	wait_for(
		sub {
			$control->ask(
				"SELECT count(*) FROM zk_lock_waits WHERE pid = $pid AND holder_pid IS NOT NULL"
				  . " AND clock_timestamp() - wait_start > '300 ms'", 'quiet') eq '1';
		},
		"process $pid to wait");
	return;
}

# ---- No snapshot and no transaction ID.

my %statement = (
	'a statement' => "CALL zk_lock_wait('/burden')",
	'of an array' => "CALL zk_lock_wait(ARRAY['/burden', '/more'])",
	'shared' => "CALL zk_lock_wait('/burden', shared => true)",
	'in a DO block' =>
	  "DO \$\$ DECLARE got boolean; BEGIN PERFORM count(*) FROM t;"
	  . " CALL zk_lock_wait('/burden', acquired => got); ASSERT got; END \$\$",
	'after COMMIT' =>
	  "DO \$\$ DECLARE got boolean; BEGIN PERFORM count(*) FROM t; COMMIT;"
	  . " CALL zk_lock_wait('/burden', acquired => got); ASSERT got; END \$\$",
	'in REPEATABLE READ' => "CALL zk_lock_wait('/burden')");

foreach my $name (sort keys %node)
{
	my $waiter = ZkPsql->new($node{$name});
	foreach my $how (sort keys %statement)
	{
		$holder->ask("SELECT zk_lock_acquire('/burden')");
		$waiter->ask('SET default_transaction_isolation = '
			  . ($how =~ /REPEATABLE/ ? "'repeatable read'" : 'DEFAULT'));
		$waiter->send($statement{$how});
		wait_until_waiting($control{$name}, $waiter);
		is(burden($control{$name}, $waiter->pid),
			'- -', "S283: $name, $how: neither backend_xmin nor backend_xid");
		$holder->ask('SELECT zk_lock_release_all()');
		$waiter->answer;
		is($waiter->errors, '', "S283: $name, $how: it is granted");
		isnt($waiter->ask('SELECT zk_lock_release_all()'), '0', 'and released');
	}
	$waiter->quit;
}

# ---- Migrations that wait for each other, while each builds its index.

my @migrations = map { ZkPsql->new($primary) } 1 .. 10;
foreach my $i (0 .. $#migrations)
{
	$migrations[$i]->send("CALL zk_lock_wait('/migrate');\n"
		  . "CREATE INDEX CONCURRENTLY i$i ON t (a);\n"
		  . "SELECT zk_lock_release('/migrate')");
}
foreach my $i (0 .. $#migrations)
{
	is($migrations[$i]->answer, "t\nt", "S284: migration $i is granted the lock");
	is($migrations[$i]->errors, '', "S284: migration $i builds its index");
	$migrations[$i]->quit;
}
is( $primary->safe_psql('postgres',
		"SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass AND indisvalid"),
	'10', 'S284: all indexes are valid');

# ---- A procedure with an OUT parameter, whose result keeps a snapshot until it is made.

$primary->safe_psql('postgres', q(
	CREATE PROCEDURE waits(OUT got boolean) LANGUAGE plpgsql AS $$
	BEGIN
		CALL zk_lock_wait('/burden', acquired => got);
	END $$;
	CREATE PROCEDURE writes(OUT got boolean) LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO t VALUES (0);
		CALL zk_lock_wait('/burden', acquired => got);
	END $$));
$primary->wait_for_catchup($standby);
{
	my $waiter = ZkPsql->new($primary);
	$holder->ask("SELECT zk_lock_acquire('/burden')");
	$waiter->send('CALL waits(NULL)');
	wait_until_waiting($control{primary}, $waiter);
	is(burden($control{primary}, $waiter->pid), '- -', 'S283: in a procedure with a result: no snapshot');
	$holder->ask('SELECT zk_lock_release_all()');
	is($waiter->answer, 't', 'S283: and it has the result');
	$waiter->ask('SELECT zk_lock_release_all()');
	$waiter->ask('CALL writes(NULL)');
	is($waiter->sqlstate, '25001', 'S283: not after the transaction has written');
	like($waiter->errors, qr/DETAIL: .*The transaction has already written/, 'with the reason');
	$waiter->quit;
}

# ---- A standby that replays, during the wait, what no session could read after it.

my $reader = ZkPsql->new($standby, 'zklock.handover' => 'on');
$holder->ask("SET zklock.handover = on");
$holder->ask("SELECT zk_lock_acquire('/work')");
$reader->send("CALL zk_lock_wait('/work')");
wait_until_waiting($control{standby}, $reader);
$holder->ask('DELETE FROM t WHERE a <= 500');
$holder->ask('VACUUM (TRUNCATE OFF) t');
$primary->wait_for_catchup($standby);
ok(!$reader->answered, 'S285: a wait on the standby holds up no replay');
$holder->ask("INSERT INTO t VALUES (2000)");
$holder->ask("SELECT zk_lock_release('/work')");
is($reader->answer, 't', 'S285: and is granted');
is($reader->errors, '', 'S285: without having been cancelled');
is($reader->ask('SELECT max(a), count(*) FROM t'),
	'2000|501', 'S285: with what was committed before');
$reader->quit;

# ---- It is a wait like any other.

my $waiter = ZkPsql->new($primary);
my $call = "CALL zk_lock_wait('/held')";
$holder->ask("SELECT zk_lock_acquire('/held')");

sub fails
{
	my ($how, $sqlstate, $message) = @_;
	$waiter->answer;
	is($waiter->sqlstate, $sqlstate, "S286: $how ends it");
	like($waiter->errors, $message, 'with the message');
	$ensemble->wait_for_queue('/held', 1);
	pass('and leaves nothing behind');
	is($waiter->lock_state('/held'), '', 'and none in the lock table');
	return;
}

$waiter->send($call);
wait_until_waiting($control{primary}, $waiter);
is( $control{primary}->ask("SELECT zk_blocking_pids(${\$waiter->pid})"),
	"{${\$holder->pid}}", 'S286: the blocker is shown');
ok( $primary->wait_for_log(
		qr/process ${\$waiter->pid} still waiting for exclusive lock "\/held"/),
	'log_lock_waits tells');
$control{primary}->ask("SELECT pg_cancel_backend(${\$waiter->pid})");
fails('a cancel', '57014', qr/due to user request.*while waiting for exclusive lock "\/held"/s);

$waiter->send("SET statement_timeout = '200 ms'; $call");
fails('statement_timeout', '57014', qr/due to statement timeout/);
$waiter->send("SET statement_timeout = 0; SET lock_timeout = '200 ms'; $call");
fails('lock_timeout', '55P03', qr/due to lock timeout/);
$waiter->ask('RESET lock_timeout');
is($waiter->ask("CALL zk_lock_wait('/held', '4 s')"),
	'f', 'S286: its own timeout ends it');
is($waiter->ask("CALL zk_lock_wait('/held', '0')"), 'f', 'zero does not wait');

$waiter->send("CALL zk_lock_wait('/other'); $call");
wait_until_waiting($control{primary}, $waiter);
wait_for(sub { (my @waits = $ensemble->zk->ls('/zklock/.zklock/waits')) == 1 },
	'the wait to be published');
$holder->ask("CALL zk_lock_wait('/other')");
is($holder->sqlstate, '40P01', 'S286: a deadlock is found');
$holder->ask('SELECT zk_lock_release_all()');
is($waiter->answer, "t\nt", 'and the other one continues');

$holder->send("CALL zk_lock_wait('/held')");
wait_until_waiting($control{primary}, $holder);
$control{primary}->ask("SELECT pg_terminate_backend(${\$holder->pid})");
$ensemble->wait_for_queue('/held', 1);
pass('S286: a backend that is terminated leaves nothing behind');
$waiter->quit;

# ---- A lock that was lost is acquired again, and the commit guard judges that.

my $loser = ZkPsql->new($primary, 'zklock.on_lock_loss' => 'report');
$loser->ask("CALL zk_lock_wait('/lost')");
$ensemble->zk->deleteall('/zklock/lost');
$loser->wait_until_lost('/lost');
is($loser->ask("CALL zk_lock_wait('/lost', '20 s')"),
	't', 'S287: a lock that was lost is acquired again');
like($loser->errors, qr/WARNING: +ZKL01: +lock "\/lost" was already lost/,
	'S287: with a warning');
$loser->ask("CREATE TABLE after_loss ()");
is($loser->errors, '', 'S287: and the next statement commits');

$ensemble->zk->deleteall('/zklock/lost');
$loser->wait_until_lost('/lost');
$loser->ask("CALL zk_lock_wait('/else', '20 s')");
is($loser->sqlstate, 'ZKL01', 'S287: no call for another lock commits');
$loser->ask('SELECT zk_lock_release_all()');
$loser->quit;

# ---- A pipeline is one transaction: the wait must not end it.

$primary->safe_psql('postgres', 'CREATE TABLE notes (note text)');

sub pipeline
{
	my ($how, $status, $stderr, @statements) = @_;
	$primary->pgbench(
		'--client 1 --transactions 1 --protocol extended --no-vacuum', $status, [qr//],
		[$stderr], "S350: $how", {
			"160_$how" =~ tr/ ,/_/r =>
			  join("\n", '\startpipeline', map({ "$_;" } @statements), '\endpipeline')
		});
	return;
}

foreach my $level ('read committed', 'repeatable read')
{
	$primary->safe_psql('postgres', 'TRUNCATE notes');
	local $ENV{PGOPTIONS} = '-c default_transaction_isolation=' . ($level =~ s/ /\\ /r);
	pipeline("a CALL behind another statement, $level", 2,
		qr/cannot wait for a lock without a snapshot here/,
		'SELECT zk_lock_acquire_xact(\'/before\')', "CALL zk_lock_wait('/behind')",
		"INSERT INTO notes VALUES ('behind')");
	pipeline("a CALL in front, $level", 0, qr//,
		"CALL zk_lock_wait('/first')", "INSERT INTO notes VALUES ('first')");
	is($primary->safe_psql('postgres', 'SELECT note FROM notes'),
		'first', "S350: $level: one commits and one does not");
}

done_testing();
