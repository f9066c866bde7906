# Effects that the hooks for statements do not see, as rows of the table Y5 in
# src/backend/deed.c:
#
# S305: a client calls functions on libpq's fast path.  Its commit is judged, whatever
# else the transaction does.
# S211: replication commands are not guarded.
# S212: a worker of logical replication loses a lock: its changes are rolled back, and
# its origin makes no progress, so it applies them later.
# S213: a function starts a background worker, which continues whatever happens to the
# lock.
# S214: a subscription without a slot has others at the publisher: it is not dropped.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkFastPath;
use ZkLoss;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main');
my $node = zk_cluster('main', $ensemble,
	allows_streaming => 'logical',
	settings => {
		'fsync' => 'off',
		'wal_retrieve_retry_interval' => '100ms'
	});
my $remote = $node->connstr('remote') =~ s/'//gr;
create_lose($node);
$node->safe_psql('postgres', 'CREATE TABLE work (step text)');

my $eye = ZkPsql->new($node);

# ---- S305.

my $notify = 'pg_notify(text,text)';
my $large = 'lo_create(oid)';
my $objects = 'SELECT count(*) FROM pg_largeobject_metadata';
my $client = ZkFastPath->new($node);

# The client has two locks of session scope, and has lost one, or both.
sub lose_locks
{
	my (@paths) = @_;
	$client->ask('ROLLBACK');
	$client->ask('SELECT zk_lock_release_all()');
	$client->ask("SELECT zk_lock_acquire('/one')::text || zk_lock_acquire('/two')::text");
	$client->ask("BEGIN; SELECT lose('$_')::text; ROLLBACK") foreach @paths;
	return;
}

# Another session breaks a lock of the client, which only looks until it has lost it.
sub break_unseen
{
	my ($path) = @_;
	my ($contender) = $ensemble->queue($path);
	is($eye->ask("SELECT zk_lock_break('$path', '$contender')"), 't', "$path is broken");
	wait_for(
		sub { $client->ask("SELECT count(*) FROM zk_locks WHERE state = 'lost'", 'quiet') },
		"the client to lose $path");
	return;
}

# What the client has done since it has lost locks: nothing of it is there.
sub refused
{
	my ($what) = @_;
	is($client->sqlstate, 'ZKL01', "S305: $what: the commit is refused");
	# psql tells of notifications there, too.
	is($eye->ask($objects, 'quiet'), 0, "S305: $what: it has not happened");
	$client->ask('ROLLBACK');
	$eye->ask('SELECT lo_unlink(oid) FROM pg_largeobject_metadata', 'quiet');
	return;
}

$eye->ask('LISTEN channel');
like($client->call($large, 0), qr/^\d+$/, 'S305: the client calls a function');
is($eye->ask($objects), 1, 'S305: which is committed');
$client->call($notify, 'channel', 'x');
like($eye->ask('SELECT 1'), qr/notification "channel"/, 'S305: as is a notification');
$eye->ask('SELECT lo_unlink(oid) FROM pg_largeobject_metadata');

lose_locks('/two');
$client->call($large, 0);
refused('on its own, lo_create');
$client->call($notify, 'channel', 'x');
refused('on its own, pg_notify');
foreach my $function ([ $large, 0 ], [ $notify, 'channel', 'x' ])
{
	my ($name) = @$function;

	lose_locks('/two');
	$client->ask('BEGIN');
	$client->call(@$function);
	$client->ask('COMMIT');
	refused("$name in a block");

	lose_locks('/two');
	$client->ask('BEGIN');
	is($client->ask("SELECT zk_lock_release('/one')"), 't', "$name: a lock is released");
	$client->call(@$function);
	$client->ask('COMMIT');
	refused("$name after a release");

	lose_locks();
	$client->ask('BEGIN');
	$client->call(@$function);
	break_unseen('/one');
	is($client->ask("SELECT zk_lock_release('/one')"), 'f', "$name: and released");
	$client->ask('COMMIT');
	refused("$name before a loss");
}

# To acquire is work, and to release is not.
lose_locks('/one', '/two');
my $release = 'zk_lock_release(text,boolean)';
is($client->call($release, "/$_", 'false'), 'f', "S305: lock /$_ is released by a call")
  foreach 'one', 'two';
is($client->sqlstate, '', 'S305: which is never refused');
is($client->ask('INSERT INTO work VALUES (1) RETURNING 1'), 1, 'S305: then commits succeed');
lose_locks();
$client->ask('BEGIN');
$client->call('zk_lock_acquire(text,interval,boolean)', '/third', '1 min', 'false');
is($client->sqlstate, '', 'S305: a lock is acquired by a call');
break_unseen('/third');
$client->call($release, '/third', 'false');
$client->call($large, 0);
$client->ask('COMMIT');
refused('acquired by a call');
$client->quit;

# ---- S211: a connection for replication, which knows SQL as well.

my $sender = ZkPsql->new($node);
$sender->ask("\\c '" . $node->connstr('postgres') =~ s/'//gr . " replication=database'");
lost_lock($sender, '/sender');
$sender->ask("INSERT INTO work VALUES ('sender')");
is($sender->sqlstate, 'ZKL01', 'S211: SQL of a walsender is refused');
my $slots = q(SELECT count(*) FROM pg_replication_slots);
foreach my $case ([ 'CREATE_REPLICATION_SLOT sender LOGICAL test_decoding', 1 ],
	[ 'DROP_REPLICATION_SLOT sender', 0 ],
	[ 'CREATE_REPLICATION_SLOT sender PHYSICAL', 1 ],
	[ 'DROP_REPLICATION_SLOT sender', 0 ])
{
	my ($command, $expected) = @$case;
	$sender->ask($command);
	is($sender->sqlstate, '', "S211: $command is not guarded");
	is($eye->ask($slots, 'quiet'), $expected, "S211: $command has happened");
}
is($sender->lock_state('/sender'), 'lost', 'S211: the lock is lost still');
$sender->quit;

# ---- S212: what is applied under a lock that is lost repeatedly.  The publisher is
# another database.

$node->safe_psql('postgres', 'CREATE DATABASE remote');
$node->safe_psql(
	'remote', q(
	CREATE TABLE work (step text);
	CREATE PUBLICATION publication FOR TABLE work;
	SELECT pg_create_logical_replication_slot('sub', 'pgoutput')));
$node->safe_psql(
	'postgres', qq(
	CREATE TABLE unlucky AS SELECT true AS yes;
	CREATE FUNCTION apply() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS \$\$
	DECLARE
		held integer;
	BEGIN
		IF new.step = 'hold' THEN
			PERFORM zk_lock_acquire('/apply');
		ELSIF new.step = 'look' THEN
			LOOP
				SELECT count(*) INTO held FROM zk_locks WHERE state = 'held';
				EXIT WHEN held = 0;
			END LOOP;
		ELSE
			PERFORM zk_lock_acquire_xact('/apply');
			IF (SELECT yes FROM unlucky) THEN
				PERFORM lose('/apply');
			END IF;
		END IF;
		RETURN new;
	END \$\$;
	CREATE TRIGGER apply BEFORE INSERT ON work FOR EACH ROW EXECUTE FUNCTION apply();
	ALTER TABLE work ENABLE ALWAYS TRIGGER apply;
	TRUNCATE work;
	CREATE SUBSCRIPTION sub CONNECTION '$remote' PUBLICATION publication
		WITH (create_slot = false, copy_data = false)));

my $progress = 'SELECT remote_lsn FROM pg_replication_origin_status';
my $applied = q(SELECT string_agg(step, ' ' ORDER BY step) FROM work);

# Publish a step; returns where the log of the server ends before that.
sub publish
{
	my ($step) = @_;
	my $end = -s $node->logfile;
	$node->safe_psql('remote', "INSERT INTO work VALUES ('$step')");
	return $end;
}

# How often a worker was refused since.
sub refusals
{
	my ($end) = @_;
	my @lines = slurp_file($node->logfile, $end) =~ /ERROR:  lock "\/apply" was lost/g;
	return scalar @lines;
}

publish('hold');
wait_for(sub { $eye->ask($applied, 'quiet') eq 'hold' }, 'the first row to be applied');
my ($contender) = $ensemble->queue('/apply');
is($eye->ask("SELECT zk_lock_break('/apply', '$contender')"), 't', 'the lock of the worker is broken');
my $end = publish('look');
wait_for(sub { $eye->ask($applied, 'quiet') eq 'hold look' }, 'the next row to be applied');
is(refusals($end), 1, 'S212: a worker that only looks at its lock is refused, and the next one is not');
$ensemble->wait_for_queue('/apply', 0);

my $before = $eye->ask($progress);
$end = publish('work');
wait_for(sub { refusals($end) > 2 }, 'the applied changes to be refused');
is($eye->ask($applied), 'hold look', 'S212: changes that a worker applies under a lost lock are not there');
is($eye->ask($progress), $before, 'S212: its origin has made no progress');
$eye->ask('UPDATE unlucky SET yes = false');
wait_for(sub { $eye->ask($applied, 'quiet') eq 'hold look work' }, 'the row to be applied at last');
pass('S212: it is applied when the lock is held');
isnt($eye->ask($progress), $before, 'S212: and that is progress');
$node->safe_psql('postgres', 'DROP SUBSCRIPTION sub');

# ---- S213.

# Does a process of the server have this in its title?
sub runs_below_postmaster
{
	my ($title) = @_;
	my $postmaster = $node->{_pid};
	foreach my $folder (glob '/proc/[0-9]*')
	{
		# It may end meanwhile.
		open my $stat, '<', "$folder/stat" or next;
		next unless (<$stat> // '') =~ /^\d+ \(postgres\) \S $postmaster /;
		open my $line, '<', "$folder/cmdline" or next;
		return 1 if (<$line> // '') =~ /$title/;
	}
	return 0;
}

$node->safe_psql('postgres', 'CREATE EXTENSION pg_prewarm');
my $holder = ZkPsql->new($node);
lost_lock($holder, '/holder');
$holder->ask('SELECT autoprewarm_start_worker()');
is($holder->sqlstate, 'ZKL01', 'S213: the commit of a session that starts a worker is refused');
wait_for(sub { runs_below_postmaster('autoprewarm') }, 'the worker to run');
pass('S213: the worker runs');

# ---- S214.  It has not synchronized its table, and the slot for that is there.

$node->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION '$remote' PUBLICATION publication"
	  . ' WITH (create_slot = false, enabled = false)');
$node->safe_psql(
	'postgres', q(
	ALTER SUBSCRIPTION sub SET (slot_name = NONE);
	SELECT pg_create_physical_replication_slot(
			format('pg_%s_sync_%s_%s', srsubid, srrelid, system_identifier))
		FROM pg_subscription_rel, pg_control_system()));
foreach my $sql ('DROP SUBSCRIPTION sub', 'BEGIN; DROP SUBSCRIPTION sub; COMMIT')
{
	$holder->ask($sql);
	is($holder->sqlstate, 'ZKL01', "S214: $sql: refused");
	is($eye->ask($slots), 1, "S214: $sql: the slot is there");
	$holder->ask('ROLLBACK', 'quiet');
}
$holder->ask('SELECT zk_lock_release_all()');
$holder->ask('DROP SUBSCRIPTION sub');
is($holder->sqlstate, '', 'S214: without the lock it is dropped');
is($eye->ask($slots), 0, 'S214: with the slot');

done_testing();
