# Several locks in one call: their cost, and that it is all or none, in one order,
# whatever happens.
#
# The backends under test connect through a proxy, the others do not.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

# With a session timeout as long as this nothing is renewed while requests are counted,
# and no client leaves a server that does not answer for some time; with a longer one
# libzookeeper, which waits for a sixtieth of it before it connects again, would keep the
# test.  Lock nodes stay, though they are empty between locks.
my $ensemble = ZkEnsemble->new('main',
	maxSessionTimeout => 120_000,
	'java.znode.container.checkIntervalMs' => 3_600_000);
my $zk = $ensemble->zk;
my $proxy = $ensemble->proxy;
my $node = zk_cluster(
	'far', $proxy,
	settings => {
		'zklock.session_timeout' => '2min',
		deadlock_timeout => '10ms',
		log_lock_waits => 'on'
	});
my $near_node =
  zk_cluster('near', $ensemble, settings => { 'zklock.session_timeout' => '2min' });

my $far = ZkPsql->new($node);
my $holder = ZkPsql->new($near_node);

# The literal of an array of paths.
sub array
{
	return "'{" . join(',', @_) . "}'::text[]";
}

# An acquire of several locks, in words.
sub acquire
{
	my ($paths, @arguments) = @_;
	return 'SELECT zk_lock_acquire(' . join(', ', array(@$paths), @arguments) . ')';
}

# What came through the proxy since the last look, without what keeps the session
# and without the watches on own contenders.
sub cost { return $proxy->cost(qr/^(ping|getData|event|sync)$/, @_); }

# The last contender of each queue, or none.
sub last_contenders
{
	return map { ($ensemble->queue($_))[-1] // '' } @_;
}

# The transactions that created the last contenders of some queues, each once.
sub transactions
{
	my (@paths) = @_;
	my %seen;
	foreach my $path (@paths)
	{
		my ($name) = last_contenders($path);
		my $stat = $name && $zk->stat("/zklock$path/$name");
		return () unless $stat;
		$seen{ $stat->{czxid} } = 1;
	}
	return keys %seen;
}

# So many contenders are in each of these queues.
sub wait_for_queues
{
	my ($count, @paths) = @_;
	$ensemble->wait_for_queue($_, $count) foreach @paths;
	return;
}

sub release_all
{
	my ($session, @paths) = @_;
	$session->ask('SELECT zk_lock_release_all()');
	wait_for_queues(0, @paths);
	return;
}

# ---- What it costs.

my @ten = map { "/ten/$_" } 1 .. 10;
$far->ask(acquire(\@ten));
release_all($far, @ten);
cost();
is($far->ask(acquire(\@ten)), 't', 'ten locks at once');
is(cost(), 'getChildren=10 multi=1',
	'S90: cost one transaction, and a list for each');
is(scalar(transactions(@ten)), 1, 'which created all contenders');
my ($first) = last_contenders($ten[0]);
is($far->ask("SELECT zk_lock_token('$ten[7]')"),
	$zk->stat("/zklock$ten[0]/$first")->{czxid},
	'and its zxid is the token of each');
is_deeply([ grep { !/^_c_[-0-9a-f]{36}-lock-\d{10}$/ } $zk->ls("/zklock$ten[0]") ],
	[], 'it left nothing else');
cost();
is($far->ask(acquire([ reverse @ten ])), 't', 'once more, in another order');
is(cost(), '', 'costs nothing');
release_all($far, @ten);

cost();
$proxy->trap('hold_reply', 'multi', sub { $far->send(acquire(\@ten)) });
wait_for_queues(1, @ten);
is(cost('getChildren', 10), 'getChildren=10 multi=1',
	'S90: all is sent without waiting in between');
ok(!$far->answered, 'the answer is waited for');
$proxy->pass;
is($far->answer, 't', 'and then they are held');
is(cost(), '', 'S90: without a second round trip');
release_all($far, @ten);

# ---- Lock nodes that are missing.

my @new = map { "/new/$_" } qw(a b c);
$far->ask("SELECT zk_lock_acquire('/new/b'), zk_lock_release('/new/b')");
cost();
is($far->ask(acquire(\@new)), 't', 'S56: two of three lock nodes are missing');
is(cost(), 'createContainer=2 getChildren=6 multi=2',
	'S56: the lists tell which, and they are made');
release_all($far, @new);
@new = map { "/deep/$_/x/y" } 1 .. 3;
is($far->ask(acquire(\@new)), 't', 'S56: all are missing, and what is above them');
is(scalar(transactions(@new)), 1, 'S56: there is one transaction in the end');
release_all($far, @new);

# ---- All or none.

my @three = map { "/three/$_" } qw(a b c);
$holder->ask("SELECT zk_lock_acquire('/three/b')");
foreach my $timeout ('0', '4 s')
{
	is($far->ask(acquire(\@three, "'$timeout'")),
		'f', "S80: timeout $timeout: one of them is held by another: false");
	is($far->ask('SELECT count(*) FROM zk_locks'), 0, 'S80: nothing is held');
	wait_for_queues(0, '/three/a', '/three/c');
	wait_for_queues(1, '/three/b');
}
$far->ask("SELECT zk_lock_acquire('/three/a')");
is($far->ask(acquire(\@three, "'0'")), 'f', 'one is held here, one by another');
is($far->ask("SELECT path, session_count FROM zk_locks"),
	'/three/a|1', 'then that one is held as before');
$far->ask("SELECT zk_lock_release('/three/a')");

# An error, a cancel.
$far->ask("SET lock_timeout = '4s'");
$far->ask(acquire(\@three), 1);
is($far->sqlstate, '55P03', 'S80: lock_timeout');
like($far->errors, qr/while waiting for exclusive lock "\/three\/b"/,
	'S80: names the lock that was waited for');
$far->ask('RESET lock_timeout');
wait_for_queues(0, '/three/a', '/three/c');
wait_for_queues(1, '/three/b');
my $log_start = -s $node->logfile;
$far->send(acquire(\@three));
wait_for_queues(1, '/three/a', '/three/c');
wait_for_queues(2, '/three/b');
ok($node->wait_for_log(qr/still waiting for exclusive lock "\/three\/b"/, $log_start),
	'log_lock_waits names it, too');
$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\$far->pid})");
$far->answer;
is($far->sqlstate, '57014', 'S41: cancelled');
is($far->ask('SELECT count(*) FROM zk_locks'), 0, 'S41: nothing is held');
wait_for_queues(0, '/three/a', '/three/c');
wait_for_queues(1, '/three/b');

# In a subtransaction, with transaction scope.
$far->ask('BEGIN');
$far->ask('SAVEPOINT s');
is($far->ask("SELECT zk_lock_acquire_xact(${\array(@three)}, '0')"),
	'f', 'transaction scope: false, too');
$far->ask('COMMIT');
wait_for_queues(0, '/three/a', '/three/c');
wait_for_queues(1, '/three/b');

# What came first keeps its lease, and its place, while the others are waited for.
$far->ask('SELECT zk_session_close()');
$far->ask("SET zklock.session_timeout = '10s'");
$far->send(acquire(\@three));
wait_for_queues(2, '/three/b');
my @before = last_contenders(@three);
cost();
cost('multi', 4);
is_deeply([ last_contenders(@three) ], \@before,
	'L2: locks granted first are kept while another is waited for');
$holder->ask("SELECT zk_lock_release('/three/b')");
is($far->answer, 't', 'L2: and are held in the end');
is($far->ask("SELECT count(*) FROM zk_locks WHERE state = 'held'"), 3, 'all');
release_all($far, @three);
$far->ask('SELECT zk_session_close()');
$far->ask('RESET zklock.session_timeout');
$far->ask("SELECT zk_lock_acquire('/three/a'), zk_lock_release('/three/a')");

# ---- The answer to the transaction is lost, or it is itself.

foreach my $trap ('cut_after_request', 'cut_before_request')
{
	$proxy->trap($trap, 'multi', sub { $far->send(acquire(\@three)) });
	is($far->answer, 't', "S39: $trap of the multi-op: acquired");
	wait_for_queues(1, @three);
	is(scalar(transactions(@three)), 1, 'S39: with one contender each, of one transaction');
	release_all($far, @three);
}
my @many = map { "/many/$_" } 1 .. 60;
$far->ask(acquire(\@many));
release_all($far, @many);
$proxy->trap('cut_after_request', 'multi', sub { $far->send(acquire(\@many)) });
is($far->answer, 't', 'S39: the same with as many as there can be');
is(scalar(transactions(@many)), 1, 'S39: they are found, every one');
release_all($far, @many);
# Soon: for the client, a server that does not answer for long is none.
my $cancel = ZkPsql->new($node);
foreach my $end ('pass', 'cut')
{
	$proxy->trap('hold_reply', 'multi', sub { $far->send(acquire(\@three)) });
	wait_for_queues(1, @three);
	$cancel->ask("SELECT pg_cancel_backend(${\$far->pid})");
	$far->answer;
	is($far->sqlstate, '57014', "S40: $end: cancelled while the answer is missing");
	$proxy->$end;
	wait_for_queues(0, @three);
	pass("S40: $end: an idle backend deletes all contenders");
	$proxy->pass;
}

# ---- A place is lost: all of them requeue, in one transaction.

foreach my $loss ('expired', 'granted deleted', 'waiting deleted', 'emptied')
{
	$holder->ask("SELECT zk_lock_acquire('/three/b')");
	$far->send(acquire(\@three));
	wait_for_queues(2, '/three/b');
	wait_for(sub { $ensemble->waiter_watch_count == 1 }, 'the watch');
	@before = last_contenders(@three);
	my ($old) = transactions(@three);
	my ($id) = keys %{ $proxy->sessions };
	if ($loss eq 'expired')
	{
		$proxy->expire($zk, $id);
	}
	elsif ($loss eq 'emptied')
	{
		$zk->deleteall("/zklock$three[2]");
	}
	else
	{
		my $which = $loss eq 'granted deleted' ? 0 : 1;
		$zk->delete("/zklock$three[$which]/$before[$which]");
	}
	wait_for(
		sub {
			my ($new, @more) = transactions(@three);
			return defined $new && !@more && $new != $old;
		},
		'all to requeue');
	pass("S3, S10, S55: $loss: all requeue, by one transaction");
	ok(!$far->answered, "$loss: and wait");
	wait_for_queues(1, '/three/a', '/three/c');
	wait_for_queues(2, '/three/b');
	$holder->ask("SELECT zk_lock_release('/three/b')");
	is($far->answer, 't', "S3, S10, S55: $loss: they are granted in the end");
	is($far->ask("SELECT count(*) FROM zk_locks WHERE state = 'held'"), 3, 'all');
	release_all($far, @three);
}

# None is granted yet when the session ends.
$holder->ask(acquire(\@three));
$far->send(acquire(\@three));
wait_for(sub { $ensemble->waiter_watch_count == 3 }, 'the watches');
my ($waiting) = transactions(@three);
$proxy->expire($zk, keys %{ $proxy->sessions });
wait_for(
	sub {
		my ($new, @more) = transactions(@three);
		return defined $new && !@more && $new > $waiting;
	},
	'all to requeue');
pass('S3: the session of a waiter for all ends: it requeues for all, by one transaction');
release_all($holder);
is($far->answer, 't', 'S3: and are granted in the end');
release_all($far, @three);

# The session ends while the answer is missing.
$proxy->trap('hold_reply', 'multi', sub { $far->send(acquire(\@three)) });
wait_for_queues(1, @three);
my ($lost) = transactions(@three);
my ($session_id) = keys %{ $proxy->sessions };
$proxy->expire($zk, $session_id);
$proxy->cut;
is($far->answer, 't', 'S1: the answer is lost, and the session over: acquired');
wait_for_queues(1, @three);
my (@now) = transactions(@three);
is(scalar @now, 1, 'S1: by one transaction');
isnt($now[0], $lost, 'S1: another one');
release_all($far, @three);

# A client deletes a contender repeatedly: in the end that is an error.
$holder->ask("SELECT zk_lock_acquire('/three/b')");
$far->send(acquire(\@three));
my $deleted = 0;
wait_for(
	sub {
		my (undef, $name) = $ensemble->queue('/three/b');
		$deleted++ if defined $name
		  && ($zk->call('delete', "/zklock/three/b/$name"))[0] == 0;
		return $far->answered;
	},
	'the acquire to fail');
$far->answer;
is($far->sqlstate, '55000', 'S10: repeated deletion is an error');
cmp_ok($deleted, '>=', 5, 'S10: not the first time');
like($far->errors, qr/"\/three\/b"/, 'S10: which names the lock');
wait_for_queues(0, '/three/a', '/three/c');
$holder->ask("SELECT zk_lock_release('/three/b')");

# ---- Two that hold a lock shared both want it exclusive, with another one.

my $second = ZkPsql->new($node);
$_->ask("SELECT zk_lock_acquire('/three/a', shared => true)") foreach $far, $second;
$far->send(acquire([ '/three/b', '/three/a' ]));
wait_for_queues(1, '/three/b');
$second->ask(acquire([ '/three/a', '/three/c' ]), 1);
is($second->sqlstate, '40P01', 'S25: two upgrades at once are a deadlock');
like($second->errors, qr/both hold lock "\/three\/a" in shared mode/, 'S25: of that lock');
wait_for_queues(0, '/three/c');
$second->ask("SELECT zk_lock_release('/three/a')");
is($far->answer, 't', 'S25: the other one continues');
is($far->ask('SELECT count(*) FROM zk_locks'), 3, 'and holds all');
release_all($far, @three);

# ---- Readers and writers of several locks.

# A writer holds one, readers wait for it, and a second writer for them.
$holder->ask("SELECT zk_lock_acquire('/three/b')");
$far->send(acquire(\@three, 'shared => true'));
wait_for_queues(2, '/three/b');
$second->send(acquire([ reverse @three ]));
wait_for_queues(3, '/three/b');
$holder->ask("SELECT zk_lock_release('/three/b')");
is($far->answer, 't', 'S53: the reader is next');
ok(!$second->answered, 'S53: and not the second writer');
$far->ask('SELECT zk_lock_release_all()');
is($second->answer, 't', 'S53: which is granted then');
release_all($second, @three);

# A writer gives up between a holder and a reader.
$holder->ask("SELECT zk_lock_acquire('/three/b')");
$second->send(acquire(\@three));
wait_for_queues(2, '/three/b');
$far->send(acquire(\@three, 'shared => true'));
wait_for_queues(2, '/three/a', '/three/c');
wait_for_queues(3, '/three/b');
$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\$second->pid})");
$second->answer;
is($second->sqlstate, '57014', 'S54: a writer gives up');
wait_for_queues(1, '/three/a', '/three/c');
ok(!$far->answered, 'S54: the reader behind it waits for the holder');
$holder->ask("SELECT zk_lock_release('/three/b')");
is($far->answer, 't', 'S54: and is next');
release_all($far, @three);

# ---- Rights.

$zk->make_path('/zklock/rights/b');
$zk->set_acl('/zklock/rights/b', 'world:anyone:rwda');
my @rights = map { "/rights/$_" } qw(a b c);
$far->ask(acquire(\@rights), 1);
is($far->sqlstate, '42501', 'S60: contenders may not be created in one of the queues');
like($far->errors, qr/CREATE permission is required on znode "\/zklock\/rights\/b"/,
	'S60: the error names it');
wait_for_queues(0, '/rights/a', '/rights/c');
$zk->make_path("/zklock/rights/d");
$zk->set_acl("/zklock/rights/$_", 'world:anyone:crwa') foreach qw(b d);
$far->ask(acquire([ '/rights/b', '/rights/d' ]), 1);
is($far->sqlstate, '42501', 'S60: they may not be deleted');
like($far->errors, qr/DELETE permission is required on znode "\/zklock\/rights\/[bd]"/,
	'S60: that error names a queue, too');
wait_for_queues(0, '/rights/b', '/rights/d');
$zk->set_acl("/zklock/rights/$_", 'world:anyone:crwda') foreach qw(b d);

# One of several cannot be deleted: the others are, and it is told.
is($far->ask(acquire(\@rights)), 't', 'S81: three are held');
$zk->set_acl('/zklock/rights/b', 'world:anyone:crwa');
is($far->ask('SELECT zk_lock_release_all()', 1),
	3, 'S81: all are released, though one of them cannot be deleted');
like( $far->errors,
	qr/WARNING: .*could not delete the contender of lock "\/rights\/b"/,
	'S81: with a warning');
unlike($far->errors, qr/\/rights\/[ac]/, 'S81: of that one only');
wait_for_queues(0, @rights);
pass('S81: it goes with the ZooKeeper session, which is not needed any more');
$zk->set_acl('/zklock/rights/b', 'world:anyone:crwda');

# What is created belongs to who has authenticated.
my $alice = ZkPsql->new(
	$node,
	'zklock.root' => '/private',
	'zklock.auth' => 'alice:secret',
	'zklock.acl' => 'creator');
is($alice->ask(acquire(\@three)), 't', 'S115: with ACLs of their own, too');
is($alice->ask('SELECT count(DISTINCT token) FROM zk_locks'),
	1, 'S115: by one transaction');
is($alice->ask('SELECT zk_lock_release_all()'), 3, 'S115: and are released');
$alice->quit;

# ---- Many that want several locks, in any order: none waits for ever.

my $script = $node->basedir . '/several.sql';
append_to_file($script, <<'SQL');
DO $$
DECLARE
	wanted text[] := ARRAY(SELECT '/storm/' || n FROM generate_series(1, 6) n
		ORDER BY random() LIMIT 2 + (random() * 3)::integer);
BEGIN
	ASSERT zk_lock_acquire(wanted);
	FOR i IN 1 .. cardinality(wanted) LOOP
		ASSERT pg_try_advisory_lock(hashtext(wanted[i])), 'two holders';
	END LOOP;
	PERFORM pg_advisory_unlock_all();
	ASSERT zk_lock_release_all() = cardinality(wanted);
END
$$;
SQL

# Run it many times in many backends at once; returns the output.
sub storm
{
	my ($interfere) = @_;
	my ($output, $errors) = ('', '');

	# What a backend leaves that ends without a connection is to be over soon, but no
	# lock is to be lost because the machine stands still for a moment.
	local $ENV{PGOPTIONS} =
	  '-c zklock.connect_timeout=60s -c zklock.session_timeout=20s';
	my $storm = IPC::Run::start(
		[
			'pgbench', '--no-vacuum', '--file', $script, '--client', 8,
			'--transactions', 40, '--host', $node->host, '--port', $node->port,
			'postgres'
		],
		'>', \$output, '2>', \$errors);
	wait_for(
		sub {
			$interfere->();
			$storm->pump_nb;
			return !$storm->pumpable;
		},
		'the storm to end', 600);
	$storm->finish;
	$errors = join '', grep { !/^WARNING: .* could not be released yet|^DETAIL: .* becomes free when ZooKeeper can be reached/ }
	  split /(?<=\n)/, $errors;
	unlike($errors, qr/ERROR/, 'no call fails');
	return $output;
}

like(storm(sub { }), qr/processed: 320\/320$/m,
	'crossing calls never deadlock, and exclude each other');

# All connections break after so many releases, not after a time, in which a busy machine
# may not even get them connected again.
# If few of them do, because this test stood still, there is another storm.
my $cuts = 0;
my $released = 0;
$proxy->count;
foreach (1 .. 5)
{
	like(
		storm(sub {
			$released += $proxy->count->{delete} // 0;
			return if $released < 40;
			$released = 0;
			$proxy->cut;
			$cuts++;
		}),
		qr/processed: 320\/320$/m,
		'and do not when connections break all the time, either');
	last if $cuts > 3;
}
cmp_ok($cuts, '>', 3, 'which they did a few times');
wait_for_queues(0, map { "/storm/$_" } 1 .. 6);
$_->quit foreach $far, $second, $holder;
wait_for(sub { $ensemble->ephemeral_count == 0 }, 'nothing to be left');
pass('no contender is left');

done_testing();
