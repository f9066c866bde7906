# The pooler of doc/howto-pgbouncer.md, configured as described there: PgBouncer with more
# clients than server connections, in transaction mode (S392) and in session mode (S393).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use DocPage;
use ZkBouncer;
use ZkEnsemble;
use ZkPsql;

my $clients = 20;
my $rounds = 5;
my $tmp = $PostgreSQL::Test::Utils::tmp_check;
my $page = DocPage->new('doc/howto-pgbouncer.md');

# No lock is lost because the machine stands still for a moment.
my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my $node = zk_cluster('db1', $ensemble, settings => { 'zklock.session_timeout' => '60s' });
my $direct = ZkPsql->new($node);

# ---- What is on the page, with the places of this machine.

my ($sql) = grep { $_->{text} =~ /^CREATE ROLE web/ } $page->blocks;
my ($grant) = grep { $_->{text} =~ /^GRANT .* TO web/ } $page->blocks;
my ($configuration) = grep { $_->{language} eq 'ini' } $page->blocks;
ok($sql && $grant && $configuration, 'the page has a configuration, and a role');
$node->safe_psql('postgres', "$sql->{text} $grant->{text}
	CREATE ROLE batch LOGIN;
	CREATE TABLE counter AS SELECT 0 AS n; CREATE TABLE job_work (step text);
	GRANT ALL ON counter, job_work TO PUBLIC");
my $bouncer = ZkBouncer->new(
	"$tmp/pgbouncer",
	DocPage::localize($configuration->{text},
		map { ("host=db1 dbname=app pool_mode=$_" =>
			sprintf 'host=%s port=%d dbname=postgres pool_mode=%s pool_size=%d',
			$node->host, $node->port, $_, $_ eq 'session' ? 1 : 3) } qw(transaction session)),
	qw(web batch));

# ---- S392: transaction mode, in which sessions have no locks.

my (undef, undef, $errors) =
  $bouncer->psql('app', 'web', "SELECT zk_lock_acquire('/counter')");
like($errors, qr/^ERROR: +55000: session-level locks are disabled$/m,
	'S392: no lock of a session through the pooler');
like($errors, qr/^HINT: .*zk_lock_acquire_xact\(\)/m, 'and the error says what to use');

append_to_file("$tmp/count.sql", <<'SQL');
BEGIN;
SELECT zk_lock_acquire_xact('/counter', '120 s')::integer AS got \gset
SELECT n FROM counter \gset
UPDATE counter SET n = :n + 1 WHERE :got = 1;
COMMIT;
SQL
command_ok([ 'pgbench', '-n', '-c', $clients, '-t', $rounds, '-f', "$tmp/count.sql",
		$bouncer->connstr('app', 'web') ],
	"$clients clients lock and count over 3 server connections");
is($direct->ask('SELECT n FROM counter'),
	$clients * $rounds, 'S392: no two had the lock of a transaction at once');
is($direct->ask("SELECT zk_lock_acquire('/counter', '0')"), 't', 'and none has it now');

my $run = "SELECT zk_job_begin_xact('/job', '2026-01-01 03:00+00', '60 s')";
foreach my $expected ('t', 'f')
{
	my (undef, $begun) = $bouncer->psql('app', 'web',
		"BEGIN; $run AS begun \\gset\n INSERT INTO job_work SELECT 'done' WHERE :'begun'; COMMIT; \\echo :begun");
	is($begun, $expected, "S392: a run of a job is begun: $expected");
}
is($direct->ask('SELECT count(*) FROM job_work'), '1', 'and its work is there once');

# ---- S393: session mode, where DISCARD ALL comes between two clients.

my (undef, $got) = $bouncer->psql('app_session', 'batch', "SELECT zk_lock_acquire('/left')");
is($got, 't', 'a client in session mode leaves a lock behind');
(undef, $got) = $bouncer->psql('app_session', 'batch', 'SELECT count(*) FROM zk_locks');
is($got, '0', 'S393: the next one, on the same server connection, has none');
is($direct->ask("SELECT zk_lock_acquire('/left', '20 s')"),
	't', 'S393: and another session can have it');

# What a client in session mode has, it has until it leaves.
my $holder = ZkPsql->new($node);
$holder->ask('\connect "' . $bouncer->connstr('app_session', 'batch') . '"');
is($holder->ask("SELECT zk_lock_acquire('/kept')"), 't', 'a client has a lock');
$direct->send("SELECT zk_lock_acquire('/kept', '120 s')");
$ensemble->wait_for_queue('/kept', 2);
is($holder->ask("SELECT zk_lock_verify('/kept') > 0"),
	't', 'S393: it keeps it over several transactions');
ok(!$direct->answered, 'while another one waits');
$holder->quit;
is($direct->answer, 't', 'S393: until it leaves');

done_testing();
