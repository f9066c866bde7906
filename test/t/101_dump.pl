# pg_dump, pg_dumpall and restore (S161).  A dump has the extension, its privileges, the
# fences, which guard the data in the dump as well, and the runs of jobs, whose work is
# in it.  It has no locks: those are in ZooKeeper.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkExtension;
use ZkPsql;

# No lock is lost because the machine stands still for a moment.
my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my %settings = ('zklock.session_timeout' => '60s');
my $node = zk_cluster('main', $ensemble, settings => \%settings);
my $other = zk_cluster('other', $ensemble, settings => \%settings, start => 0);
$other->start;
make_jobs_database($node);

my $folder = $PostgreSQL::Test::Utils::tmp_check;
my $fences = 'SELECT count(*) FROM locks.zk_lock_fences';

# Run a program for a server, and have no error.
sub run_for
{
	my ($server, $what, $program, @arguments) = @_;
	$server->command_ok([ $program, @arguments ], $what);
	return;
}

# Make a dump of the database, with these options.
sub dump_jobs
{
	my ($name, @options) = @_;
	run_for($node, "a dump is made: $name",
		'pg_dump', @options, '-f', "$folder/$name", 'jobs');
	return;
}

# A new database on the other server, with what is in these dumps.
sub restore
{
	my ($database, @names) = @_;
	$other->safe_psql('postgres', "CREATE DATABASE $database");
	run_for($other, "$_ is restored", 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1',
		'-f', "$folder/$_", $database)
	  foreach @names;
	return;
}

# ---- All of a cluster, while a session holds a lock and has passed the fence.

my $holder = ZkPsql->new($node);
$holder->ask('\c jobs');
$holder->ask('BEGIN');
$holder->ask("SELECT locks.zk_lock_acquire_xact('/account')");
$holder->ask('UPDATE account SET balance = 0');
is($holder->errors, '', 'a session writes under the lock');
run_for($node, 'S161: a holder of locks and fences does not keep pg_dumpall waiting',
	'pg_dumpall', '-f', "$folder/all");
my ($output, $errors) =
  run_command([ 'psql', '-X', '-q', '-f', "$folder/all", $other->connstr('postgres') ]);
is(join('', grep { /ERROR|FATAL/ && !/role ".*" already exists/ } split /^/, $errors),
	'', 'S161: all is restored');
my $state = jobs_state($node, 'jobs');
like($state, qr/^\/account\|/m, 'there is a fence');
like($state, qr/^\/nightly\|.*\|done\|/m, 'and a job that was done');
is(jobs_state($other, 'jobs'),
	$state, 'S161: the extension, privileges, fences and data are the same');
my $settings = q{
	SELECT datname, rolname, setconfig
	FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase
		LEFT JOIN pg_roles r ON r.oid = setrole
	ORDER BY datname, rolname};
like($node->safe_psql('postgres', $settings), qr/zklock\.root=/, 'there are settings');
is($other->safe_psql('postgres', $settings),
	$node->safe_psql('postgres', $settings),
	'S161: so are settings for the database and for roles');

# ---- What is ZooKeeper's is where it was.

my $user = ZkPsql->new($other);
$user->ask('\c jobs');
$user->ask('INSERT INTO account VALUES (3, 30)');
is($user->sqlstate, '55000', 'S161: the restored trigger requires the lock');
is($user->ask("SELECT locks.zk_lock_acquire('/account', '0')"),
	'f', 'S161: which a session of the dumped database holds');
$holder->ask('ROLLBACK');
is($user->ask("SELECT locks.zk_lock_acquire('/account')"),
	't', 'until that session has released it');
my $token = $user->ask("SELECT token FROM locks.zk_lock_fences WHERE path = '/account'");
$user->ask('INSERT INTO account VALUES (3, 30)');
is($user->errors, '', 'S161: the restored fence lets the next holder pass');
is( $user->ask(
		"SELECT token > $token FROM locks.zk_lock_fences WHERE path = '/account'"),
	't', 'with a newer token');
is($user->ask("SELECT nightly('2026-01-01 03:00:00+00')"),
	'f', 'S161: a job that was done is not run again');
is($user->ask("SELECT nightly('2026-01-02 03:00:00+00')"), 't', 'the next one is');
$_->quit foreach ($user, $holder);

# ---- An archive, restored by several at a time.

dump_jobs('archive', '--format=custom');
$other->safe_psql('postgres', 'CREATE DATABASE archived');
run_for($other, 'it is restored', 'pg_restore', '--exit-on-error', '--jobs=2',
	'--dbname=archived', "$folder/archive");
is(jobs_state($other, 'archived'), $state, 'S161: an archive has the same in it');

# ---- Parts.

dump_jobs('schema', '--schema-only');
dump_jobs('data', '--data-only');
dump_jobs('free', '--data-only', '--disable-triggers');
dump_jobs('unfenced', '--exclude-table-data=locks.zk_lock_fences');

restore('part', 'schema');
is($other->safe_psql('part', $fences), 0, 'S161: the schema alone has no fences');
is($other->safe_psql('part', 'SELECT count(*) FROM locks.zk_job_runs'),
	0, 'S161: and no runs of jobs');
$other->command_checks_all(
	[
		'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-1', '-f', "$folder/data", 'part' ],
	3, [], [qr/without holding lock "\/account"/],
	'S161: data alone is fenced like any other write');
run_for($other, 'but not if triggers are disabled for it',
	'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-1', '-f', "$folder/free", 'part');
is(jobs_state($other, 'part'), $state, 'S161: schema and data are all there is');

restore('unfenced', 'unfenced');
is($other->safe_psql('unfenced', $fences), 0, 'S161: fences can be left out');
is($other->safe_psql('unfenced', 'TABLE account ORDER BY id'),
	$node->safe_psql('jobs', 'TABLE account ORDER BY id'), 'and nothing else is');

done_testing();
