# What doc/howto-uninstall.md says about sessions, tables, settings and znodes that remain
# when the extension is dropped, and its commands for ZooKeeper's own shell (S433).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use DocPage;
use ZkEnsemble;
use ZkPsql;

my $tmp = $PostgreSQL::Test::Utils::tmp_check;
my $page = DocPage->new('doc/howto-uninstall.md');
my $shell = '/usr/share/zookeeper/bin';
my $ensemble = ZkEnsemble->new('main',
	maxSessionTimeout => 60000,
	'java.znode.container.checkIntervalMs' => 1000);
my $node = zk_cluster('db1', $ensemble, settings => { 'zklock.session_timeout' => '60s' });
my ($holder, $other) = map { ZkPsql->new($node) } 1 .. 2;

# A command on the page, with the places of this machine.
sub run_block
{
	my ($pattern) = @_;
	my ($block) = grep { $_->{language} eq 'sh' && $_->{text} =~ $pattern } $page->blocks;
	local $ENV{PATH} = "$shell:$ENV{PATH}";
	local $ENV{ZOO_LOG_DIR} = $tmp;
	return system_log('bash', '-ec',
		DocPage::localize($block->{text}, 'zk1:2181' => $ensemble->address(1)));
}

# Is a znode there, even if its ACL hides what it is?
sub exists_znode
{
	my ($path) = @_;
	my ($rc) = $ensemble->zk->call('stat', "/zklock$path");
	return $rc != ZkProbe::NONODE();
}

# ---- The extension is dropped while a session holds a lock.

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION zklock');
$node->safe_psql(
	'postgres', q{
	CREATE TABLE guarded (a int);
	CREATE TRIGGER fence BEFORE INSERT ON guarded
		FOR EACH STATEMENT EXECUTE FUNCTION zk_lock_fence_trigger('/held');
	CREATE VIEW mine AS SELECT path FROM zk_locks;
	CREATE FUNCTION acquire() RETURNS boolean LANGUAGE plpgsql AS
		$$BEGIN RETURN zk_lock_acquire('/held', '0'); END$$});
my $job = q{SELECT zk_job_begin('/jobs/nightly', '2026-01-02 03:00+00')};
is($other->ask($job), 't', 'a job begins');
is($other->ask(q{SELECT zk_job_end('/jobs/nightly')}), 't', 'and is done');
is($other->ask($job), 'f', 'and is not begun again');
is($holder->ask(q{SELECT zk_lock_acquire('/held')}), 't', 'a session holds a lock');

$other->ask('DROP EXTENSION zklock');
is($other->sqlstate, '2BP01', 'S433: triggers and views keep the extension from being dropped');
like($other->errors, qr/trigger fence on table guarded/, 'S433: a trigger does');
like($other->errors, qr/view mine/, 'S433: and a view');
$other->ask('DROP EXTENSION zklock CASCADE');
is($other->sqlstate, '', 'S433: unless they are dropped, too');
is($other->ask(q{SELECT (SELECT count(*) FROM pg_trigger), to_regclass('mine')}),
	'0|', 'S433: trigger and view are gone');
$other->ask('SELECT acquire()');
is($other->sqlstate, '42883', 'S433: a function fails when it is called');

sub queue
{
	return $node->safe_psql('other', q{SELECT count(*) FROM zk_lock_queue('/held')});
}
$holder->ask(q{SELECT zk_lock_release('/held')});
is($holder->sqlstate, '42883', 'S433: the holder cannot release the lock by a function');
is($holder->ask('SELECT 1'), '1', 'S433: but can work');
is(queue(), '1', 'S433: and holds the lock on');
$holder->ask('DISCARD ALL');
is(queue(), '0', 'S433: until DISCARD ALL');

# ---- Another session, and what a new extension knows.

$other->ask('CREATE EXTENSION zklock');
is($other->ask($job), 't', 'S433: without its row, a job that is done is begun again');
like($other->errors, qr/WARNING: .* is missing from this cluster/, 'S433: with a warning');
is($other->ask(q{SELECT zk_job_end('/jobs/nightly')}), 't', 'and done again');
is($other->ask(q{SELECT zk_lock_acquire('/held')}), 't', 'the other session holds the lock');
$other->ask('DROP EXTENSION zklock');
$node->safe_psql('other',
	q{SELECT pg_terminate_backend(pid, 60000) FROM zk_lock_queue('/held')});
wait_for(sub { queue() eq '0' }, 'the lock of a backend that was ended');
pass('S433: the end of the session releases the lock');

# ---- Settings.

$node->safe_psql('postgres',
	q{CREATE DATABASE late; ALTER DATABASE late SET session_preload_libraries = 'zklock_missing'});
my (undef, undef, $errors) = $node->psql('late', 'SELECT 1');
like($errors, qr/FATAL: +could not access file/, 'S433: no session without its library');
my $bare = PostgreSQL::Test::Cluster->new('bare');
$bare->init;
$bare->append_conf('postgresql.conf',
	"zklock.servers = 'zk1:2181'\nshared_preload_libraries = 'zklock_missing'");
ok(!$bare->start(fail_ok => 1), 'S433: no server without its library');
$bare->append_conf('postgresql.conf', "shared_preload_libraries = ''");
ok($bare->start(fail_ok => 1), 'S433: but one with other settings');

# ---- ZooKeeper.

$holder->quit;
wait_for(sub { !exists_znode('/held') }, 'an empty lock node to be deleted');
ok(exists_znode(''), 'S433: the root stays');
ok(scalar(grep { m{/records/} } $ensemble->zk->tree('/zklock')), 'S433: and the records of jobs');

is(run_block(qr/^zkCli/), 0, "S433: ZooKeeper's shell deletes them");
ok(!exists_znode(''), 'S433: nothing is left');

append_to_file("$tmp/auth", "app:Sesame\n");
chmod 0600, "$tmp/auth";
$node->append_conf('postgresql.conf', "zklock.auth_file = '$tmp/auth'\nzklock.acl = 'creator'");
$node->reload;
wait_for(
	sub { $node->safe_psql('other', q{LOAD 'zklock'; SHOW zklock.acl}) eq 'creator' },
	'the settings to change');
$node->safe_psql('other', q{SELECT zk_lock_acquire('/a')});
ok(exists_znode('/.zklock/users/app'), 'S433: the name of a user stays');
run_block(qr/^zkCli/);
ok(exists_znode(''), 'S433: another client may not delete that');
is(run_block(qr/addauth/), 0, "S433: ZooKeeper's shell, as that user");
ok(!exists_znode(''), 'S433: nothing is left');

done_testing();
