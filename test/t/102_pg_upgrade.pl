# pg_upgrade of a cluster that uses the extension (S162): what was there is there, and
# the locks, which pg_upgrade knows nothing of, go on meaning the same.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkExtension;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main');
my %settings = (shared_preload_libraries => 'zklock');
my $old = zk_cluster('old', $ensemble, settings => \%settings);
my $new = zk_cluster('new', $ensemble, settings => \%settings, start => 0);
my $elsewhere = zk_cluster('elsewhere', $ensemble);
make_jobs_database($old);
my $state = jobs_state($old, 'jobs');
my $fence = "SELECT token FROM locks.zk_lock_fences WHERE path = '/account'";
my $old_token = $old->safe_psql('jobs', $fence);

# Somebody of another cluster holds a lock meanwhile.
my $holder = ZkPsql->new($elsewhere, 'zklock.root' => '/jobs');
$holder->ask("SELECT zk_lock_acquire('/account')");
$old->stop;

chomp(my $bin = `pg_config --bindir`);
chdir $PostgreSQL::Test::Utils::tmp_check or die "chdir: $!";
command_ok(
	[
		'pg_upgrade', '--old-datadir', $old->data_dir, '--new-datadir', $new->data_dir,
		'--old-bindir', $bin, '--new-bindir', $bin, '--socketdir', $new->host,
		'--old-port', $old->port, '--new-port', $new->port,
		$new->pg_version >= 15 ? '--no-sync' : ()
	],
	'S162: the cluster is upgraded');
$new->start;

is(jobs_state($new, 'jobs'),
	$state, 'S162: the extension, privileges, fences and data are the same');
is( $new->safe_psql(
		'postgres', q{SELECT string_agg(setting, ' ' ORDER BY setting COLLATE "C")
		FROM pg_db_role_setting, unnest(setconfig) setting WHERE setting ~ '^zklock'}),
	'zklock.commit_guard=quorum zklock.preconnect=on zklock.root=/jobs',
	'S162: so are settings');

my $user = ZkPsql->new($new);
$user->ask('\c jobs');
is($user->ask("SELECT locks.zk_lock_acquire('/account', '0')"),
	'f', 'S162: who held a lock elsewhere holds it still');
$user->ask('INSERT INTO account VALUES (3, 30)');
is($user->sqlstate, '55000', 'S162: the trigger wants the lock');
$holder->ask('SELECT zk_lock_release_all()');
is($user->ask("SELECT locks.zk_lock_acquire('/account')"), 't', 'it can be had');
$user->ask('INSERT INTO account VALUES (3, 30)');
is($user->errors, '', 'S162: the fence lets the next holder pass');
cmp_ok($user->ask($fence), '>', $old_token, 'with a newer token');
is($user->ask("SELECT nightly('2026-01-01 03:00:00+00')"),
	'f', 'S162: a job that was done is not run again');
is($user->ask('SELECT count(*) FROM locks.zk_lock_waits'),
	0, 'S162: what is in shared memory works');
$user->ask('ALTER EXTENSION zklock UPDATE');
unlike($user->errors, qr/ERROR/, 'S162: and the extension can be updated');

done_testing();
