# Jobs after the ensemble was rebuilt empty: there are no marks any more, and tokens
# restart, so a run may get a token that it had before.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main');
my %node = map { $_ => zk_cluster($_, $ensemble) } qw(one two);
my ($one, $two) = map { ZkPsql->new($node{$_}) } qw(one two);
my $due = "'2026-01-01 03:00+00'";
my $next = "'2026-01-02 03:00+00'";

# What became of the runs of a job in a cluster, each outcome with its count.
sub outcomes
{
	my ($name, $path) = @_;
	return $node{$name}->safe_psql('postgres',
		"SELECT string_agg(outcome || ' ' || count, ', ' ORDER BY outcome)"
		  . " FROM (SELECT outcome, count(*) FROM zk_job_history('$path', NULL)"
		  . ' GROUP BY outcome) h');
}

# Let tokens grow, so that those before are higher than those after.
foreach my $number (1 .. 100)
{
	$two->ask("SELECT zk_lock_acquire('/grow'), zk_lock_release('/grow')", 'quiet');
}

# A job of which a run is done in each cluster, one that is done in one of them, and
# one of which runs have failed with every token there will be.
foreach my $session ($one, $two)
{
	my $fire = $session == $one ? $due : $next;
	is($session->ask("SELECT zk_job_begin('/done', $fire, '60 s')"), 't', 'a run is begun');
	is($session->ask("SELECT zk_job_end('/done')"), 't', 'and ended');
}
$ensemble->wait_for_queue('/done', 0);
is($one->ask("SELECT zk_job_begin('/one', $due, '60 s')"), 't', 'another one is begun');
is($one->ask("SELECT zk_job_end('/one')"), 't', 'and ended');
my $attempts = 2000;
$one->ask('INSERT INTO zk_job_runs SELECT path, ' . $due
	  . ", token, begun_at, begun_at, 'failed', 'joe', null, 'far'"
	  . " FROM unnest('{/failed,/xact}'::text[]) path, generate_series(1, $attempts) token,"
	  . " (VALUES (now() - interval '1 day')) v (begun_at)");
is($one->errors, '', 'and two have failed often');

$_->ask('SELECT zk_session_close()') foreach $one, $two;
$ensemble->rebuild;

# ---- A run may get a token that it had before.

is($one->ask("SELECT zk_job_begin('/failed', $due, '60 s')"),
	't', 'S294: a run that has failed is begun with a token that it had before');
is($one->errors, '', 'S294: without an error');
cmp_ok($one->ask("SELECT zk_lock_token('/failed')"), '<', $attempts, 'as it is');
is(outcomes('one', '/failed'), "failed $attempts, running 1", 'S294: it runs once');
is($one->ask("SELECT zk_lock_release('/failed')"), 't', 'it is abandoned');
is($one->ask("SELECT zk_job_begin('/failed', $due)"), 't', 'and begun again');
is($one->ask("SELECT zk_job_end('/failed')"), 't', 'S294: and ended');
is(outcomes('one', '/failed'),
	'done 1, failed ' . ($attempts + 1), 'S294: other rows are as they were');
$one->ask('BEGIN');
is($one->ask("SELECT zk_job_begin_xact('/xact', $due, '60 s')"),
	't', 'S294: so is one that is a transaction');
$one->ask('COMMIT');
is($one->errors, '', 'S294: which commits');
is(outcomes('one', '/xact'), "done 1, failed $attempts", 'S294: it is done');

# ---- What is done in a database is done, and it marks that again.

is($one->ask("SELECT zk_job_begin('/one', $due, '60 s')"),
	'f', 'S294: an earlier run remains done where it was done');
is($two->ask("SELECT zk_job_begin('/one', $due, '60 s')"),
	'f', 'S294: and everywhere from then on');

# ---- It can be reset, although its tokens are higher than those that are to come.

my $token = $one->ask("SELECT max(token) FROM zk_job_runs WHERE path = '/done'");
is($one->ask("SELECT zk_job_reset('/done', $due)"), 't', 'a run is reset');
is($one->ask("SELECT zk_job_begin('/done', $due, '60 s')"), 't', 'S294: then it is due');
cmp_ok($one->ask("SELECT zk_lock_token('/done')"), '<', $token, 'with a lower token');
is($one->ask("SELECT zk_job_end('/done')"), 't', 'S294: and ends');
is(outcomes('one', '/done'), 'done 1, reset 1', 'S294: which the rows say');
is($two->ask("SELECT zk_job_begin('/done', $next, '60 s')"),
	'f', 'S294: in another database what was done before stands');
is($two->ask("SELECT zk_job_reset('/done', $next)"), 't', 'S294: until it is reset there');
is($two->ask("SELECT zk_job_begin('/done', $next, '60 s')"), 't', 'S294: too');
is($two->ask("SELECT zk_job_end('/done')"), 't', 'and ends');

done_testing();
