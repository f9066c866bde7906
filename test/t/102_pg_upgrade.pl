# pg_upgrade of a cluster that uses the extension (S162): everything is preserved, and
# the locks, which pg_upgrade does not know, keep their meaning.
#
# OLD_PG_CONFIG=... selects another PostgreSQL to begin with, of an older major version;
# test/upgrade provides one.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkExtension;
use ZkPsql;

# The programs of the PostgreSQL to begin with, if it is another one, with zklock.
sub old_installation
{
	my $program = $ENV{OLD_PG_CONFIG} or return undef;
	my $copy = copy_postgres('old_postgres', $program);
	build_zklock($copy);
	return pg_config('bindir', $copy);
}

# The major version of the PostgreSQL that has these programs.
sub major
{
	my ($bin) = @_;
	return pg_config('version', "$bin/pg_config") =~ /(\d+)/ ? $1 : die 'no version';
}

# No lock is lost because the machine stands still for a moment.
my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my %timeout = ('zklock.session_timeout' => '60s');
my %settings = (shared_preload_libraries => 'zklock', %timeout);
my %bin = (new => pg_config('bindir'));
$bin{old} = old_installation() // $bin{new};
my ($old_major, $new_major) = map { major($_) } @bin{qw(old new)};
my $old = zk_cluster(
	'old', $ensemble,
	settings => \%settings,
	$bin{old} eq $bin{new} ? () : (install_path => dirname($bin{old})));
my $new = zk_cluster(
	'new', $ensemble,
	settings => \%settings,
	start => 0,
	# Older ones have no checksums unless they are asked to.
	extra => [
		$old_major < 18 && $new_major >= 18 ? '--no-data-checksums' : ()
	]);
my $elsewhere = zk_cluster('elsewhere', $ensemble, settings => \%timeout);
make_jobs_database($old);
my $definitions = jobs_definitions($old, 'jobs');
my $data = jobs_data($old, 'jobs');
my $fence = "SELECT token FROM locks.zk_lock_fences WHERE path = '/account'";
my $old_token = $old->safe_psql('jobs', $fence);
$old->stop;

# Another major version says it in other words: those of what is made in it.
if ($old_major != $new_major)
{
	make_jobs_database($elsewhere);
	$definitions = jobs_definitions($elsewhere, 'jobs');
}

# A session of another cluster holds a lock all the time.
my $holder = ZkPsql->new($elsewhere, 'zklock.root' => '/jobs');
$holder->ask("SELECT zk_lock_acquire('/account')");

chdir $PostgreSQL::Test::Utils::tmp_check or die "chdir: $!";
command_ok(
	[
		'pg_upgrade', '--old-datadir', $old->data_dir, '--new-datadir', $new->data_dir,
		'--old-bindir', $bin{old}, '--new-bindir', $bin{new}, '--socketdir', $new->host,
		'--old-port', $old->port, '--new-port', $new->port,
		$new->pg_version >= 15 ? '--no-sync' : ()
	],
	"S162: the cluster is upgraded, from $old_major to $new_major");
$new->start;

is_deeply(
	[ split /\n/, jobs_definitions($new, 'jobs') ],
	[ split /\n/, $definitions ],
	'S162: the extension, privileges and what uses them are the same');
is(jobs_data($new, 'jobs'), $data, 'S162: so are fences and data');
is( $new->safe_psql(
		'postgres', q{SELECT string_agg(setting, ' ' ORDER BY setting COLLATE "C")
		FROM pg_db_role_setting, unnest(setconfig) setting WHERE setting ~ '^zklock'}),
	'zklock.commit_guard=quorum zklock.preconnect=on zklock.root=/jobs',
	'S162: and settings');

my $user = ZkPsql->new($new);
$user->ask('\c jobs');
is($user->ask("SELECT locks.zk_lock_acquire('/account', '0')"),
	'f', 'S162: a holder in another cluster still holds its lock');
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
	0, 'S162: a view of shared memory works');
$user->ask('ALTER EXTENSION zklock UPDATE');
unlike($user->errors, qr/ERROR/, 'S162: and the extension can be updated');

done_testing();
