# Settings that were given before the library was loaded, in a cluster that does not
# preload it.  Those that can be applied apply from the first call on; with one that
# cannot, no lock is acquired (S389).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;

my $ensemble = ZkEnsemble->new('main');
my $node = zk_cluster('main', $ensemble);
$node->safe_psql(
	'postgres', q{
	CREATE ROLE plain LOGIN;
	CREATE ROLE good LOGIN; ALTER ROLE good SET zklock.paths = '/app/*';
	CREATE ROLE bad LOGIN; ALTER ROLE bad SET zklock.paths = '/app/*, app';
	CREATE ROLE guard LOGIN; ALTER ROLE guard SET zklock.commit_guard = 'quorrum'});

# What a role gets for its first statements in a new session, with options.
sub answer_to
{
	my ($role, $sql, $options) = @_;
	local $ENV{PGOPTIONS} = $options // '';
	my ($status, $output, $errors) = $node->psql('postgres', $sql,
		extra_params => [ '-U', $role, '-v', 'VERBOSITY=verbose' ], on_error_stop => 0);
	return $output . ($errors =~ /ERROR: +(\w+: .*)$/m ? $1 : '');
}

my $lock = "SELECT zk_lock_acquire_xact('/other')";
my $admitted = "SELECT zk_lock_acquire_xact('/app/a')";
my $bad = '22023: invalid value for parameter "zklock.paths": "/app/*, app"';

# The error for a setting that cannot be applied.
sub not_applied
{
	return qq(22023: could not apply the value that was given for parameter "zklock.$_[0]");
}

is(answer_to('plain', $lock), 't', 'a role without a list may lock anything');
is(answer_to('good', $lock),
	'42501: permission denied for lock "/other"', 'S389: the list of a role applies');
is(answer_to('good', $admitted), 't', 'also to what it admits');
is(answer_to('bad', $_), $bad, "S389: one that cannot be read admits nothing: $_")
  foreach $lock, $admitted;
is(answer_to('bad', "SET zklock.paths = ''; $lock"),
	$bad, 'S389: nor if the role sets it before the library is loaded');
is(answer_to('good', "SET zklock.paths = ''; $lock"),
	'42501: permission denied for lock "/other"', 'S389: which changes nothing of a good one');
is(answer_to('good', $_, '-c zklock.paths='),
	not_applied('paths'), "S389: nor can the role pass one when it connects: $_")
  foreach $lock, $admitted;
is(answer_to('plain', $lock, '-c zklock.root=/else'),
	not_applied('root'), 'S389: nor another root');
is(answer_to('plain', $lock, '-c zklock.commit_guard=quorum'),
	't', 'a setting that any user may change can be passed');
is(answer_to('guard', $lock),
	not_applied('commit_guard'), 'S389: an invalid value of another setting');
is(answer_to('guard', "SELECT zk_session(); SET zklock.commit_guard = quorum; $lock") =~ /t$/,
	1, 'S389: which the session can correct');

# In the configuration file.
$node->append_conf('postgresql.conf', "zklock.paths = '/*/app'");
$node->reload;
is(answer_to('plain', $lock),
	not_applied('paths'), 'S389: an invalid list in the configuration file');
is(answer_to('good', $admitted), 't', 'but that of a role goes before it');

done_testing();
