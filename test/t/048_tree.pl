# Listing all locks: zk_lock_tree(), and the owners' descriptions as columns, whatever
# they contain (S104).  A walk through the tree meets locks below locks, contenders of
# other clients, znodes that it may not read (S60), thousands of znodes without a lock,
# a cancel (S64), a cut connection (S51) and a silent server (S62).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;

# With room for what is too much to be read, and so long a session timeout that no
# connection is given up by itself.
my $ensemble =
  ZkEnsemble->new('main', heap => '768m', maxSessionTimeout => 60000);
my $zk = $ensemble->zk;
my $proxy = $ensemble->proxy;
my $node = zk_cluster('main', $ensemble,
	settings => { 'zklock.session_timeout' => '60s' });
my @session = map { ZkPsql->new($node, application_name => "worker $_") } 1 .. 4;
my $admin = ZkPsql->new($node, 'zklock.servers' => $proxy->address);

# What the tree shows, by default path, mode, holders, waiters.
sub tree
{
	my ($path, $columns) = @_;
	$columns //= 'path, mode, holders, waiters';
	my $argument = defined $path ? "'$path'" : '';
	return $admin->ask("SELECT $columns FROM zk_lock_tree($argument)");
}

# ---- Nothing there.

is(tree(), '', 'no root: nothing');
is(tree('/jobs'), '', 'no lock node: nothing');

# ---- Locks of several backends, of all modes, one below the other.

$session[0]->ask("SELECT zk_lock_acquire('/jobs')");
$session[0]->ask("SELECT zk_lock_acquire('/jobs/nightly')");
$session[1]->ask("SELECT zk_lock_acquire('/jobs/nightly/deep/down', shared => true)");
$session[2]->ask("SELECT zk_lock_acquire('/jobs/nightly/deep/down', shared => true)");
$session[3]->send("SELECT zk_lock_acquire('/jobs/nightly/deep/down')");
$ensemble->wait_for_queue('/jobs/nightly/deep/down', 4 - 1);
$session[1]->ask('BEGIN');
$session[1]->ask("SELECT zk_lock_acquire_xact('/other')");
$session[1]->ask("SELECT zk_lock_acquire_xact('/other', shared => true)");

# Holding shared, and requesting exclusive mode without other clients.
$session[2]->ask("SELECT zk_lock_acquire('/upgraded', shared => true)");
$session[2]->ask("SELECT zk_lock_acquire('/upgraded')");

my $deep = '/jobs/nightly/deep/down|shared|2|1';
my $jobs = "/jobs|exclusive|1|0\n/jobs/nightly|exclusive|1|0\n$deep";
my $all = "$jobs\n/other|exclusive|1|0\n/upgraded|shared|2|0";
is(tree(), $all, 'all locks');
is(tree('/'), $all, 'a slash stands for all');
is($admin->ask('SELECT path, mode, holders, waiters FROM zk_lock_tree(NULL)'),
	$all, 'and so does null');
is(tree('/jobs'), $jobs, 'the locks at and below a path');
is(tree('/jobs/nightly/deep'), $deep, 'at a path that is no lock');
is(tree('/jobs/nightly/deep/down'), $deep, 'of a lock with nothing below');
is(tree('/jobs/night'), '', 'a path is no prefix');

# The same as the queues say.
is( $admin->ask(
		'SELECT count(*) FROM zk_lock_tree() t JOIN LATERAL (
			SELECT count(*) FILTER (WHERE granted) AS holders,
				count(*) FILTER (WHERE NOT granted) AS waiters
			FROM zk_lock_queue(t.path)) q USING (holders, waiters)'),
	5,
	'holders and waiters are those of the queues');
my $columns = 'contender, mode, session_id, token, since, owner, cluster_name,
	host, port, datname, pid, usename, application_name, wait_start';
foreach my $path ('/jobs', '/jobs/nightly', '/jobs/nightly/deep/down',
	'/other', '/upgraded')
{
	is( $admin->ask(
			"SELECT $columns FROM zk_lock_tree() WHERE path = '$path'
			EXCEPT
			SELECT $columns FROM zk_lock_queue('$path') WHERE position = 1"),
		'',
		"the first holder of $path is that of the queue");
}

# Who it is, by the word of PostgreSQL itself.
my $who = "cluster_name = current_setting('cluster_name')
	AND port = current_setting('port')::integer AND t.datname = a.datname
	AND t.usename = a.usename AND a.application_name = t.application_name
	AND wait_start BETWEEN backend_start AND clock_timestamp()
	AND host = '" . `uname -n` =~ s/\n//r . "'
	AND t.age BETWEEN interval '-1 min' AND interval '10 min'";
is( $admin->ask(
		"SELECT path, a.application_name FROM zk_lock_tree() t
		JOIN pg_stat_activity a USING (pid) WHERE $who"),
	"/jobs|worker 1\n/jobs/nightly|worker 1\n/jobs/nightly/deep/down|worker 2\n"
	  . "/other|worker 2\n/upgraded|worker 3",
	'the columns of the tree show the holders');
is( $admin->ask(
		"SELECT position, granted, a.application_name
		FROM zk_lock_queue('/jobs/nightly/deep/down') t
		JOIN pg_stat_activity a USING (pid) WHERE $who ORDER BY 1"),
	"1|t|worker 2\n2|t|worker 3\n3|f|worker 4",
	'and those of the queue the waiters');

$session[1]->ask('COMMIT');
$session[1]->ask("SELECT zk_lock_release_all()");
$session[2]->ask("SELECT zk_lock_release_all()");
is($session[3]->answer, 't', 'the waiter is granted');
is(tree('/jobs/nightly/deep'), '/jobs/nightly/deep/down|exclusive|1|0',
	'and shown as the holder');
is(tree('/other'), '', 'a lock node without contenders is not shown');
$_->ask("SELECT zk_lock_release_all()") foreach @session;

# ---- A znode of our own that is none of the locks.

$zk->make_path('/zklock/.zklock/users');
$zk->create('/zklock/.zklock/users/lock-', '', 'sequential');
$zk->make_path('/zklock/below/.zklock');
$zk->create('/zklock/below/.zklock/lock-', '', 'sequential');
is(tree(), '/below/.zklock|exclusive|1|0', 'reserved znodes are omitted');
is(tree('/below'), '/below/.zklock|exclusive|1|0', 'but only there');
$zk->deleteall("/zklock/$_") foreach '.zklock', 'below';

# ---- Bad arguments.

foreach my $bad ('jobs', '//', '/jobs/', '/..', '/.zklock', '')
{
	tree($bad);
	is($admin->sqlstate, '22023', "path \"$bad\" is refused");
	like($admin->errors, qr/invalid lock path "\Q$bad\E"/, 'by name');
}

# ---- Strangers and their data (S104).

my $ours = '"host":"h","port":5432,"database":"d","pid":4711,"user":"u",'
  . '"application_name":"a","start":"2026-02-03T04:05:06.789+00:00"';
my $shown = 'c|h|5432|d|4711|u|a|2026-02-03 04:05:06.789+00';
my %data = (
	'nothing' => [ '', '|||||||' ],
	'an address, as Curator leaves' => [ '192.0.2.7', '|||||||' ],
	'no text' => [ "\xff\xfe\x01", '|||||||' ],
	'a null character' => [ "{\"cluster\":\"c\0\"}", '|||||||' ],
	'JSON of others' => [ '{"pid":4711,"host":"h"}', '|||||||' ],
	'an array' => [ '["cluster","c"]', '|||||||' ],
	'a string' => [ '"cluster"', '|||||||' ],
	'as ours' => [ "{\"cluster\":\"c\",$ours}", $shown ],
	'in another order' =>
	  [ '{"cluster":"c","pid":1,"host":"h"}', 'c|h|||1|||' ],
	'with more' =>
	  [ "{\"cluster\":\"c\",\"new\":{\"pid\":1,\"host\":[]},$ours}", $shown ],
	'with blanks' => [ "{\"cluster\": \"c\" ,\n\t$ours }", $shown ],
	'broken off' => [ "{\"cluster\":\"c\",$ours", '|||||||' ],
	'with something behind' => [ "{\"cluster\":\"c\",$ours}x", '|||||||' ],
	'with two' => [ '{"cluster":"c"}{"cluster":"d"}', '|||||||' ],
	'only begun' => [ '{"cluster":', '|||||||' ],
	'of other types' => [
		'{"cluster":1,"host":null,"port":"5432","database":[],"pid":{},'
		  . '"user":true,"application_name":1.5,"start":1}',
		'|||||||'
	],
	'numbers out of range' =>
	  [ '{"cluster":"c","port":65536,"pid":2147483648}', 'c|||||||' ],
	'numbers at the end of it' =>
	  [ '{"cluster":"c","port":65535,"pid":2147483647}', 'c||65535||2147483647|||' ],
	'a huge number' =>
	  [ '{"cluster":"c","port":' . '9' x 1000 . ',"pid":1e400}', 'c|||||||' ],
	'odd numbers' => [ '{"cluster":"c","port":-1,"pid":4711.0}', 'c|||||||' ],
	'no time' => [ '{"cluster":"c","start":"2026-02-30T25:00:00Z"}', 'c|||||||' ],
	'a time with a word in it' =>
	  [ '{"cluster":"c","start":"2026-02-03Tp4:05:06+00:00"}', 'c|||||||' ],
	'a time with two dates' =>
	  [ '{"cluster":"c","start":"2026-02-03 T4-05-06"}', 'c|||||||' ],
	'a time elsewhere' => [
		'{"cluster":"c","start":"2026-02-03T04:05:06-01:30"}',
		'c|||||||2026-02-03 05:35:06+00'
	],
	'a word for a time' => [ '{"cluster":"c","start":"now"}', 'c|||||||' ],
	'for ever' => [ '{"cluster":"c","start":"infinity"}', 'c|||||||' ],
	'a time too far off' =>
	  [ '{"cluster":"c","start":"294277-01-01T00:00:00Z"}', 'c|||||||' ],
	'a time of a thousand digits' =>
	  [ '{"cluster":"c","start":"' . '1' x 1000 . '"}', 'c|||||||' ],
	'one thing twice' => [ '{"cluster":"c","pid":1,"pid":2}', 'c||||2|||' ],
	'and then not' => [ '{"cluster":"c","pid":1,"pid":"x"}', 'c|||||||' ],
	'nested' => [ '{"cluster":{"cluster":"c"},"pid":[1]}', '|||||||' ],
	'nested deeply' => [ '{"cluster":' . '[' x 2000 . ']' x 2000 . '}', '|||||||' ],
	'nested without end' => [ '{"cluster":' . '{"a":' x 800, '|||||||' ],
	'escapes' =>
	  [ '{"cluster":"\u00e4\ud83d\ude00\"\\\\","host":"\u0041"}', "\xc3\xa4\xf0\x9f\x98\x80\"\\|A||||||" ],
	'an escape that is none' => [ '{"cluster":"\ud83d"}', '|||||||' ],
	'an escaped null character' => [ '{"cluster":"\u0000"}', '|||||||' ],
	'half a character' => [ "{\"cluster\":\"\xc3\"}", '|||||||' ],
	'a long one' => [ "{\"cluster\":\"c\",\"host\":\"" . 'h' x 4000 . '"}', 'c|' . 'h' x 4000 . '||||||' ],
	'too long a one' => [ "{\"cluster\":\"c\",\"host\":\"" . 'h' x 5000 . '"}', '|||||||' ],
	'half a megabyte' => [ 'x' x (512 * 1024), '|||||||' ],
	'a session that breaks it' => [ "{\"broken\":{\"cluster\":\"c\",$ours}}", '|||||||' ]);
my $owner_columns = 'cluster_name, host, port, datname, pid, usename,
	application_name, wait_start';
$admin->ask("SET timezone = 'UTC'");
$zk->make_path('/zklock/strange');
foreach my $what (sort keys %data)
{
	my ($data, $expected) = @{ $data{$what} };
	my $theirs =
	  $zk->create('/zklock/strange/_c_1-lock-', $data, 'ephemeral,sequential');

	is( $admin->ask("SELECT $owner_columns FROM zk_lock_queue('/strange')", 'quiet'),
		$expected, "S104: $what: columns of the queue");
	is($admin->sqlstate, '', "S104: $what: no error");
	is( $admin->ask("SELECT $owner_columns FROM zk_lock_tree()", 'quiet'),
		$expected, "S104: $what: columns of the tree");
	is( $admin->ask(
			"SELECT t.owner IS NOT DISTINCT FROM q.owner, length(q.owner)
			FROM zk_lock_tree() t, zk_lock_queue('/strange') q",
			'quiet'),
		length $data > 4096 ? 'f|' . length $data
		: $data eq '' ? 't|'
		: 't|' . $admin->ask(
			"SELECT length(owner) FROM zk_lock_queue('/strange')", 'quiet'),
		"S104: $what: the tree has the owner as it is, unless it is too long");
	$zk->delete($theirs);
}

# Contenders in every client's spelling, one without an owner, and children that are
# none, which may have locks below.
$zk->make_path('/zklock/mixed');
my @mixed = (
	$zk->create('/zklock/mixed/0123456789abcdef__rlock__', 'kazoo', 'ephemeral,sequential'),
	$zk->create('/zklock/mixed/_c_1-__READ__', 'Curator', 'ephemeral,sequential'),
	$zk->create('/zklock/mixed/lock-', 'nobody', 'sequential'),
	$zk->create('/zklock/mixed/_c_2-__WRIT__', '', 'ephemeral,sequential'));
$zk->create('/zklock/mixed/leases');
$zk->create("/zklock/mixed/\xc3\xa4 %s{\"}");
$zk->create("/zklock/mixed/\xc3\xa4 %s{\"}/lock-", 'x', 'ephemeral,sequential');
is( tree(undef, 'path, mode, holders, waiters, contender, owner, session_id IS NULL'),
	"/mixed|shared|2|2|" . ($mixed[0] =~ s{.*/}{}r) . "|kazoo|f\n"
	  . "/mixed/\xc3\xa4 %s{\"}|exclusive|1|0|lock-0000000000|x|f",
	'S104: contenders of strangers, and odd names');
$zk->delete($_) foreach @mixed[ 0, 1 ];
is(tree('/mixed', 'path, mode, holders, waiters, owner, session_id IS NULL') =~ s/\n.*//r,
	'/mixed|exclusive|1|1|nobody|t', 'S104: one without an owner');

# Contenders have no children; znodes that look like one are one all the same,
# and no walk goes below.
$zk->create("$mixed[2]/below");
$zk->create("$mixed[2]/below/lock-", '', 'sequential');
$proxy->count;
is(tree('/mixed', 'count(*)'), '2', 'nothing is looked for below a contender');
my $requests = $proxy->count;
is_deeply(
	{ %{$requests}{qw(getChildren getData)} },
	{ getChildren => 3, getData => 2 },
	'one request for each znode, one for each owner');
# Idle sessions send one from time to time, too, to make themselves heard.
cmp_ok($requests->{exists}, '>=', 3, 'and one for each contender');

# In another encoding.
$node->safe_psql('postgres',
	"CREATE DATABASE latin1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
$node->safe_psql('latin1', 'CREATE EXTENSION zklock');
$zk->create('/zklock/mixed/lock-', "{\"cluster\":\"\xe2\x82\xac\"}", 'sequential');
my @escaped = map {
	$zk->make_path("/zklock/latin/$_->[0]");
	$zk->create("/zklock/latin/$_->[0]/lock-", $_->[1], 'sequential')
  }[ 'a', '{"cluster":"\u20ac"}' ], [ 'b', '{"cluster":"\\\\u20ac\u0041"}' ],
  [ 'c', "{\"cluster\":\"\xc3\xa4\"}" ], [ "\xe2\x82\xac", '{"cluster":"d"}' ];
is( $node->safe_psql(
		'latin1',
		"SELECT path, encode(convert_to(cluster_name, 'UTF8'), 'escape')
		FROM zk_lock_tree('/latin')"),
	"/latin/a|\n/latin/b|\\\\u20acA\n/latin/c|\\303\\244\n\\x2f6c6174696e2fe282ac|d",
	'S104: characters that the database encoding lacks are no error');

# In an encoding that is none, where names have any bytes.
$node->safe_psql('postgres',
	"CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0");
$node->safe_psql('ascii', q(CREATE EXTENSION zklock;
	DO $$ BEGIN EXECUTE format('CREATE ROLE %I SUPERUSER', 'b' || chr(228) || 'r'); END $$));
is( $node->safe_psql(
		'ascii', q(
		DO $$ BEGIN
			PERFORM set_config('session_authorization', 'b' || chr(228) || 'r', false);
		END $$;
		SELECT zk_lock_acquire('/bear');
		SELECT length(session_user), usename FROM zk_lock_queue('/bear'))),
	"t\n3|b?r", 'S104: bytes that are no UTF-8 become question marks');

# Other clients can take the root itself for a lock.
my $at_root = $zk->create('/zklock/lock-', 'mine', 'sequential');
like(tree('/', 'path, holders, owner'), qr{^/\|1\|mine$}m, 'the root itself can be a lock');
$zk->delete($at_root);

# ---- What may not be looked into (S60).

$zk->deleteall('/zklock/latin');
$zk->deleteall('/zklock/mixed');
foreach my $path ('/acl/open', '/acl/closed', '/acl/dark', '/acl/hidden')
{
	$zk->make_path("/zklock$path");
	$zk->create("/zklock$path/lock-", 'mine', 'sequential');
}
$zk->set_acl('/zklock/acl/closed', 'world:anyone:cwda');
$zk->set_acl('/zklock/acl/dark', 'world:anyone:cwda');
$zk->set_acl('/zklock/acl/hidden/lock-0000000000', 'world:anyone:cwda');
my $shown = $zk->may_stat('/zklock/acl/hidden/lock-0000000000') ? 't' : '';
is(tree('/acl', 'path, holders, owner, session_id, token > 0'),
	"/acl/hidden|1|||$shown\n/acl/open|1|mine||t", 'S60: the rest is shown');
like($admin->errors,
	qr/WARNING: .*42501: could not list 2 znodes; locks below them are not shown\nDETAIL: +READ permission is required on znode "\/zklock\/acl\/(?:closed|dark)"\./,
	'S60: with a warning');
unlike($admin->errors, qr/WARNING.*WARNING/s, 'S60: one');
tree('/acl/dark');
is($admin->sqlstate, '42501', 'S60: the path that was asked for');
like($admin->errors,
	qr/could not read the locks below "\/acl\/dark": permission denied by a ZooKeeper ACL\nDETAIL: .*"\/zklock\/acl\/dark"/,
	'S60: is an error');
$zk->set_acl("/zklock/acl/$_", 'world:anyone:crwda')
  foreach 'closed', 'dark', 'hidden/lock-0000000000';
$zk->deleteall('/zklock/acl');

# ---- Who may.

$node->safe_psql('postgres', 'CREATE ROLE nobody; CREATE ROLE watcher IN ROLE pg_monitor');
$admin->ask('SET ROLE nobody');
tree();
is($admin->sqlstate, '42501', 'S118: an ordinary role may not look');
$admin->ask('SET ROLE watcher');
is(tree(), '', 'S118: a monitor may');
is($admin->sqlstate, '', 'S118: without an error');
$admin->ask('RESET ROLE');

# ---- Thousands of znodes without a lock, and a lock here and there.

my ($wide, $each) = (100, 40);
foreach my $i (1 .. $wide)
{
	$zk->make_path("/zklock/wide/$i");
	$zk->create("/zklock/wide/$i/$_") foreach 1 .. $each;
}
$session[0]->ask("SELECT zk_lock_acquire('/wide/' || n || '/7')"
	  . " FROM generate_series(1, $wide, 10) n", 'quiet');
my $expected = join '|', $wide / 10, $wide / 10, 0;
my $sums = 'count(*), sum(holders), sum(waiters)';
$proxy->count;
is(tree('/wide', $sums), $expected, 'few locks among many znodes');
is($proxy->count->{getChildren}, 1 + $wide + $wide * $each,
	'each of which was looked into once');

# In a transaction that holds a lock, with others available in the meantime.
$admin->ask('BEGIN');
$admin->ask("SELECT zk_lock_acquire_xact('/mine')");
is(tree('/', 'path') =~ tr/\n//, $wide / 10, 'while holding one');
$admin->ask('COMMIT');
is($admin->sqlstate, '', 'which is not lost by it');

# A long queue counts with what it has.
$zk->make_path('/zklock/long');
$zk->create('/zklock/long/lock-', $_, 'sequential') foreach 1 .. 2000;
is(tree('/long', 'holders, waiters, owner'), '1|1999|1', 'a long queue');
$zk->create('/zklock/long/x__READ__', '', 'sequential') foreach 1 .. 10;
is(tree('/long', 'holders, waiters, owner'), '1|2009|1', 'and longer');
$zk->deleteall('/zklock/long');

# ---- The connection is cut in the middle, now before, now after (S51).

foreach my $case (
	[ 'cut_before_request', 1 ],
	[ 'cut_before_request', 500 ],
	[ 'cut_after_request', 1 ],
	[ 'cut_after_request', 1000 ],
	[ 'cut_after_request', 1 + $wide + $wide * $each ])
{
	my ($cut, $n) = @$case;
	my $fired = $proxy->fired;

	$admin->ask('SELECT zk_session_close()');
	$admin->ask("SELECT * FROM zk_lock_queue('/none')");
	my $reconnects = $admin->zk_session->{reconnects};
	$proxy->count;
	$proxy->$cut('getChildren', $n);
	is(tree('/wide', $sums), $expected, "S51: $cut $n: all is found");
	cmp_ok($proxy->fired, '>', $fired, "S51: $cut $n: the connection was cut");
	is($admin->zk_session->{reconnects}, $reconnects + 1,
		"S51: $cut $n: once");
	cmp_ok($proxy->count->{getChildren}, '<', 1 + $wide + $wide * $each + 100,
		"S51: $cut $n: known znodes are not read again");
}

# Again and again, and the walk comes to its end.
$admin->send("SELECT $sums FROM zk_lock_tree('/wide')");
foreach my $n (1 .. 12)
{
	last if $admin->answered;
	my $fired = $proxy->fired;
	$proxy->cut_after_request('getChildren', 100);
	wait_for(sub { $admin->answered || $proxy->fired > $fired }, "cut $n");
}
is($admin->answer, $expected, 'S51: many cuts: all is found');
$proxy->pass;

# Unless nothing is ever answered.  The delay leaves time to arm the proxy again;
# if it was too short once, it takes some more cuts.
$proxy->delay(300);
$proxy->cut_before_request('getChildren', 1);
my $before = $proxy->fired;
$admin->send("SELECT $sums FROM zk_lock_tree('/wide')");
my $fired = $before;
until ($admin->answered)
{
	wait_for(sub { $admin->answered || $proxy->fired > $fired }, 'a cut');
	$fired = $proxy->fired;
	$proxy->cut_before_request('getChildren', 1) unless $admin->answered;
}
$admin->answer;
is($admin->sqlstate, '08006', 'S51: only cuts: an error');
like($admin->errors,
	qr/could not read the locks below "\/wide": connection to ZooKeeper was lost repeatedly/,
	'S51: that says so');
cmp_ok($proxy->fired - $before, '>=', 5, 'S51: after a few of them');
$proxy->delay(0);
$proxy->pass;

# ---- A cancel, and a server that says nothing (S62, S64).

$proxy->freeze_replies;
$proxy->count;
$admin->send("SELECT $sums FROM zk_lock_tree('/wide')");
wait_for(sub { ($proxy->count->{getChildren} // 0) > 0 }, 'the walk');
my $start = time;
$session[1]->ask("SELECT pg_cancel_backend(${\$admin->pid})");
is($admin->answer, '', 'S64: cancelled');
is($admin->sqlstate, '57014', 'S64: SQLSTATE');
cmp_ok(time - $start, '<', 5, 'S64: immediately');
like($admin->errors, qr/CONTEXT: .*while reading the locks below "\/wide"/,
	'S64: and the context says what was in progress');
$admin->ask("SET statement_timeout = '500ms'");
$admin->send("SELECT $sums FROM zk_lock_tree('/wide')");
is($admin->answer, '', 'S64: statement_timeout ends the walk');
is($admin->sqlstate, '57014', 'S64: with its SQLSTATE');
$admin->ask('RESET statement_timeout');
$proxy->pass;
is(tree('/wide', $sums), $expected, 'S64: the next walk finds all');

# In the middle of it, with answers under way.
$proxy->hold_reply('getChildren', 800);
$proxy->count;
$admin->send("SELECT $sums FROM zk_lock_tree('/wide')");
wait_for(sub { ($proxy->count->{getChildren} // 0) > 0 }, 'the walk');
$session[1]->ask("SELECT pg_cancel_backend(${\$admin->pid})");
$admin->answer;
is($admin->sqlstate, '57014', 'S64: cancelled in the middle');
$proxy->pass;
is(tree('/wide', $sums), $expected, 'S64: and the next one finds all again');

# Nothing is answered, and the connection is lost repeatedly.
$admin->ask('SELECT zk_session_close()');
$admin->ask("SET zklock.session_timeout = '4s'; SET zklock.connect_timeout = '4s'");
$admin->ask("SELECT * FROM zk_lock_queue('/none')");
$proxy->freeze;
$admin->send("SELECT $sums FROM zk_lock_tree('/wide')");
$admin->answer;
is($admin->sqlstate, '08006', 'S62: a server that hangs: an error in time');
like($admin->errors, qr/could not read the locks below "\/wide"/, 'S62: by name');
$proxy->pass;
$admin->ask('RESET zklock.session_timeout; RESET zklock.connect_timeout');
is(tree('/wide', $sums), $expected, 'S62: and then all is found');

# ---- What goes and comes while we look.

my $fast = ZkPsql->new($node);
$fast->send("DO \$\$ BEGIN FOR i IN 1 .. 600 LOOP
	PERFORM zk_lock_acquire('/busy/' || i % 7); PERFORM zk_lock_release_all();
	END LOOP; END \$\$", 'quiet');
my ($looks, $bad) = (0, 0);
until ($fast->answered && $looks >= 20)
{
	my $row = tree('/busy', 'count(*) <= 2, coalesce(bool_and(holders = 1
		AND waiters = 0 AND path LIKE \'/busy/%\' AND pid = ' . $fast->pid . '), true)');
	$bad++ if $row ne 't|t' || $admin->sqlstate ne '';
	$looks++;
}
$fast->answer;
is($bad, 0, "locks that come and go are seen, or not ($looks looks)");

is($session[0]->ask('SELECT zk_lock_release_all()'), $wide / 10, 'released');
is($admin->ask('SELECT count(*) FROM zk_lock_tree()'), 0, 'nothing is left');

# ---- There is a limit to what is shown at once: here, of bytes.

foreach my $i (1 .. 80)
{
	$zk->make_path("/zklock/huge/$i");
	$zk->create("/zklock/huge/$i/" . 'x' x 450_000);
}
tree('/huge');
is($admin->sqlstate, '54000', 'too much: an error');
like($admin->errors,
	qr/could not read the locks below "\/huge": too many locks to list\nDETAIL: .*more than 32 MB\.\nHINT: .*a path with fewer locks/,
	'that says so');
$zk->create('/zklock/huge/1/lock-', '', 'sequential');
is(tree('/huge/1'), '/huge/1|exclusive|1|0', 'further down it can be seen');

my $log = slurp_file($node->logfile);
unlike($log,
	qr/terminated by signal|exited with exit code 2|all server processes terminated/,
	'no backend has crashed');

done_testing();
