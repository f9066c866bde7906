# Other programs' contenders in the queue: Curator's read-write lock that is downgraded
# from writing to reading, and unexpected data.  And our contenders' description of
# their owner, whatever its names are.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

# Servers that take more data than they do by default, which is 1 MB.
my $ensemble = ZkEnsemble->new('main',
	maxSessionTimeout => 60000,
	'java.jute.maxbuffer' => 8 * 1024 * 1024);
my $zk = $ensemble->zk;
my $proxy = $ensemble->proxy;

# Names as long as they can be, of bytes that JSON must escape and of characters
# of two bytes.
my $database = q(\\") x 10 . "\xc3\xa4" x 21;
my $user = 'x' . "\xc3\xa4" x 31;
my $node = zk_cluster('main', $proxy,
	settings => { 'zklock.session_timeout' => '60s' });
my ($writer, $early, $late) = map { ZkPsql->new($node) } 1 .. 3;

# Let a session wait for a lock; returns when it has set its watch.
sub wait_behind
{
	my ($session, $path, $shared) = @_;
	my $queued = $ensemble->queue($path);
	my $watches = $ensemble->waiter_watch_count;
	$session->send("SELECT zk_lock_acquire('$path', shared => $shared)");
	$ensemble->wait_for_queue($path, $queued + 1);
	wait_for(sub { $ensemble->waiter_watch_count > $watches }, 'the watch');
	return;
}

# Have those that wait looked at the queue so often since the last count?
sub wait_for_looks
{
	my ($looks) = @_;
	my $seen = 0;
	wait_for(
		sub {
			$seen += $proxy->count->{getChildren} // 0;
			return $seen >= $looks;
		},
		"the queue to be read: $looks");
	return;
}

# ---- Curator holds for writing, takes the lock for reading as well, under the same
# number, and gives back the first (S23).

foreach my $style ('curator', 'curator_rw')
{
	my $path = "/turned-down/$style";
	$zk->make_path("/zklock$path");
	$_->ask("SET zklock.znode_style = '$style'") foreach $writer, $early, $late;
	$_->ask('SELECT zk_session_close()') foreach $writer, $early, $late;
	my $write = $zk->create("/zklock$path/_c_4711-__WRIT__", '',
		'ephemeral,sequential');
	wait_behind($early, $path, 'true');
	wait_behind($writer, $path, 'false');
	wait_behind($late, $path, 'true');
	my $read = $zk->create($write =~ s/__WRIT__/__READ__/r, '', 'ephemeral');
	$proxy->count;
	$zk->delete($write);
	is($early->answer, 't', "S23: $style: a reader that came first is let in");
	is($early->ask("SELECT zk_lock_release('$path')"), 't', 'it goes again');
	wait_for_looks(1);
	wait_for(sub { $ensemble->waiter_watch_count == 2 }, 'the watches');
	ok(!$writer->answered && !$late->answered,
		"S23: $style: the writer waits for Curator's reader, and the later client for the writer"
	);
	$zk->delete($read);
	is($writer->answer, 't', "S23: $style: then the writer is granted");
	ok(!$late->answered, "S23: $style: alone");
	$writer->ask("SELECT zk_lock_release('$path')");
	is($late->answer, 't', "S23: $style: then the later client");
	$late->ask("SELECT zk_lock_release('$path')");

	# Without other contenders, the event alone would do in other cases.
	$write = $zk->create("/zklock$path/_c_4712-__WRIT__", '',
		'ephemeral,sequential');
	wait_behind($writer, $path, 'false');
	$read = $zk->create($write =~ s/__WRIT__/__READ__/r, '', 'ephemeral');
	$proxy->count;
	$zk->delete($write);
	wait_for_looks(1);
	wait_for(sub { $ensemble->waiter_watch_count == 1 }, 'the watch');
	ok(!$writer->answered, "S23: $style: a writer that was next continues to wait");
	is($late->ask("SELECT zk_lock_acquire('$path', '0')"),
		'f', "S23: $style: like any other client");
	$zk->delete($read);
	is($writer->answer, 't', "S23: $style: until the reader's contender is deleted");
	$writer->ask("SELECT zk_lock_release('$path')");
}

# ---- What strangers write into their contenders (S104).

my %data = (
	'3 MB' => 'x' x (3 * 1024 * 1024),
	'cut in a character' => 'x' x 254 . "\xc3\xa4" x 10,
	'no text' => "\xff\xfe\x01",
	'lines' => "a\nb\r\n",
	'nothing' => '');
my %length = (
	'cut in a character' => 254 + 10,
	'no text' => length '\xfffe01');
$zk->make_path('/zklock/strange');
foreach my $what (sort keys %data)
{
	my $theirs =
	  $zk->create('/zklock/strange/_c_1-lock-', $data{$what},
		'ephemeral,sequential');
	$writer->ask("BEGIN; SET LOCAL lock_timeout = '6s'", 'quiet');
	$writer->ask("SELECT zk_lock_acquire('/strange')");
	is($writer->sqlstate, '55P03', "S104: $what: a lock that a stranger holds");
	like($writer->errors, qr/The lock is held by a client with ZooKeeper session 0x[0-9a-f]+\. 1 must go first/,
		"S104: $what: the message has nothing of that");
	$writer->ask('ROLLBACK', 'quiet');
	is( $writer->ask(
			"SELECT coalesce(length(owner), 0) FROM zk_lock_queue('/strange')"),
		$length{$what} // length $data{$what},
		"S104: $what: the queue has all of it");
	$writer->send("SELECT zk_lock_acquire('/strange')");
	$ensemble->wait_for_queue('/strange', 2);
	$zk->delete($theirs);
	is($writer->answer, 't', "S104: $what: and it can be waited for");
	$writer->ask("SELECT zk_lock_release('/strange')");
}

# ---- What ours say about themselves: JSON, whatever the names are.

my $owner = "SELECT owner FROM zk_lock_queue('/names') WHERE own";
my $quoted_database = $database =~ s/"/""/gr;
$node->safe_psql('postgres', qq(CREATE ROLE "$user" SUPERUSER));
$node->safe_psql('postgres', qq(CREATE DATABASE "$quoted_database"));
$writer->ask(qq(\\connect "$quoted_database"));
$writer->ask('CREATE EXTENSION zklock');
$writer->ask(qq(SET SESSION AUTHORIZATION "$user"));
$writer->ask(q(SET application_name = '\") . 'x' x 100_000 . q('), 'quiet');
is($writer->ask("SELECT zk_lock_acquire('/names')"), 't', 'odd names: acquired');
my %expected = (
	cluster => 'main',
	database => $database,
	user => $user,
	application_name => '\"' . 'x' x 61);
foreach my $name (sort keys %expected)
{
	is($writer->ask("SELECT ($owner)::json ->> '$name'"),
		$expected{$name}, "S104: $name as it is, or as PostgreSQL has cut it");
}
my $length = length $zk->get('/zklock/names/' . ($ensemble->queue('/names'))[0]);
note "$length bytes";
cmp_ok($length, '<', 1024, 'S104: less than a kilobyte');

$late->ask("SET lock_timeout = '6s'");
$late->ask("SELECT zk_lock_acquire('/names')");
is($late->sqlstate, '55P03', 'S104: a wait for it that times out');
like($late->errors, qr/The lock is held by process \d+ of cluster "main" \(.*, database "/,
	'S104: names the holder');
$late->ask("SELECT owner FROM zk_lock_queue('/names')");
is($late->sqlstate, '', 'S104: and can see all of it');

done_testing();
