# A job that pg_cron starts on every replica, as in doc/howto-pg_cron.md: it runs on one
# of them for each fire time (S111). pg_cron's unit is the minute, so this takes one.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

chomp(my $libraries = `pg_config --pkglibdir`);
plan skip_all => 'there is no package of pg_cron for this PostgreSQL'
  unless -e "$libraries/pg_cron.so";

my $ensemble = ZkEnsemble->new('main');
my %settings = (
	shared_preload_libraries => 'pg_cron',
	'cron.database_name' => 'postgres',
	'cron.use_background_workers' => 'on',
	max_worker_processes => 20);
my %node = map { $_ => zk_cluster($_, $ensemble, settings => \%settings) }
  qw(one two three);

foreach my $name (sort keys %node)
{
	$node{$name}->safe_psql(
		'postgres', q{
		CREATE EXTENSION pg_cron;
		CREATE TABLE run (fire_time timestamptz);
		CREATE PROCEDURE nightly() LANGUAGE sql AS
			$$INSERT INTO run VALUES (date_trunc('minute', now()))$$;
		SELECT cron.schedule('nightly', '* * * * *', $cron$
			DO $job$
			BEGIN
				IF zk_job_begin('/jobs/nightly', date_trunc('minute', now(), 'UTC'), '30 s') THEN
					CALL nightly();
					PERFORM zk_job_end('/jobs/nightly');
				END IF;
			END
			$job$
		$cron$);});
}

# What a query gives on all servers, as lines.
sub everywhere
{
	my ($query) = @_;
	return map { split /\n/, $node{$_}->safe_psql('postgres', $query) }
	  sort keys %node;
}

# The minutes in which the job was done with on all servers.
sub complete_minutes
{
	my %done;
	$done{$_}++
	  foreach everywhere(
		"SELECT date_trunc('minute', start_time) FROM cron.job_run_details"
		  . " WHERE status = 'succeeded'");
	return grep { $done{$_} == keys %node } sort keys %done;
}

my @minutes;
wait_for(sub { @minutes = complete_minutes() }, 'pg_cron to run the job on all servers',
	190);
my %runs;
$runs{$_}++ foreach everywhere('SELECT fire_time FROM run');
is($runs{$_}, 1, "the job was begun on three servers at $_, and run on one")
  foreach @minutes;
is_deeply([ everywhere("SELECT status, return_message FROM cron.job_run_details WHERE status = 'failed'") ],
	[], 'no server had an error');
my ($last) = $node{one}->safe_psql('postgres',
	"SELECT last_fire_time FROM zk_job_status('/jobs/nightly')");
ok($last ge $minutes[0], 'zk_job_status() shows the run');

done_testing();
