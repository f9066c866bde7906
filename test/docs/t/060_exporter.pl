# The configuration of doc/howto-monitoring.md for Prometheus, in the real exporter (S406):
# what the views count is among its metrics, and none of its queries fails.

use strict;
use warnings;

use HTTP::Tiny;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use DocPage;
use ZkEnsemble;
use ZkPsql;
use ZkTest qw(wait_for);

my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my $node = zk_cluster('db1', $ensemble,
	settings => { shared_preload_libraries => 'zklock', 'zklock.session_timeout' => '60s' });
$node->safe_psql('postgres', 'CREATE ROLE exporter LOGIN; GRANT pg_monitor TO exporter');
my ($holder, $waiter) = map { ZkPsql->new($node) } 1 .. 2;
$holder->ask("SELECT zk_lock_acquire('/jobs/nightly'), zk_lock_acquire('/jobs/report')");
$waiter->ask("SELECT zk_lock_acquire('/jobs/own')");
wait_for(
	sub {
		$waiter->ask("SELECT zk_lock_acquire('/jobs/nightly', '50 ms')", 'quiet');
		return $holder->ask('SELECT sum(waits) > 0 FROM pg_stat_zklock_waits', 'quiet') eq 't';
	},
	'a wait in vain');
$waiter->send("SELECT zk_lock_acquire('/jobs/nightly')");
$waiter->wait_until_behind($holder);

my ($yaml, @others) =
  grep { $_->{language} eq 'yaml' } DocPage->new('doc/howto-monitoring.md')->blocks;
is(scalar(@others), 0, 'there is one configuration');
my $file = PostgreSQL::Test::Utils::tempdir() . '/queries.yaml';
append_to_file($file, $yaml->{text});

local $ENV{DATA_SOURCE_NAME} = sprintf 'user=exporter host=%s port=%d dbname=postgres sslmode=disable',
  $node->host, $node->port;
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $log = '';
my $exporter = IPC::Run::start(
	[ 'prometheus-postgres-exporter', "--web.listen-address=127.0.0.1:$port",
		"--extend.query-path=$file", '--disable-default-metrics' ],
	'<', \undef, '>&', \$log);

# The metrics, by name and labels; none while the exporter does not answer.
sub metrics
{
	$exporter->pump_nb if $exporter->pumpable;
	my $answer = HTTP::Tiny->new->get("http://127.0.0.1:$port/metrics");
	return $answer->{success} ?
	  { map { /^(zklock\w*(?:\{.*?\})?) (\S+)$/ ? ($1 => $2) : () } split /\n/,
		$answer->{content} =~ s/server="[^"]*"//gr =~ s/,\}/}/gr =~ s/\{,?\}//gr =~ s/\{,/{/gr }
	  : {};
}

my $metrics = {};
wait_for(sub { $metrics = metrics(); return exists $metrics->{zklock_attempts} },
	'the exporter to answer');
is( join('|', @$metrics{ qw(zklock_attempts zklock_granted_at_once zklock_timeouts zklock_lost) }),
	$holder->ask('SELECT attempts, granted_at_once, timeouts, lost FROM pg_stat_zklock'),
	'S406: counters');
is($metrics->{zklock_waiting_sessions}, 1, 'S406: a gauge');
is($metrics->{'zklock_lock_grants{path="/jobs/nightly"}'}, 1, 'S406: figures of a lock');
is($metrics->{'zklock_lock_timeouts{path="/jobs/nightly"}'},
	$metrics->{zklock_timeouts}, 'S406: its timeouts');
is($metrics->{'zklock_lock_grants{path="others"}'}, 0, 'S406: and of all others');
is( join('|', @$metrics{ 'zklock_wait_seconds_count', 'zklock_wait_seconds_bucket{le="+Inf"}' }),
	$holder->ask('SELECT sum(waits), sum(waits) FROM pg_stat_zklock_waits'),
	'S406: a histogram');
cmp_ok($metrics->{zklock_wait_seconds_sum}, '>', 0, 'S406: the time waited');

# Each metric of the configuration is there.
my $namespace = '';
foreach (split /\n/, $yaml->{text})
{
	$namespace = $1 if /^(\w+):/;
	next unless /^    - (\w+): \{usage: "(COUNTER|GAUGE)"/;
	my $name = "${namespace}_$1";
	ok((grep { /^$name(\{|$)/ } keys %$metrics), "S406: $name");
}
$exporter->signal('TERM');
$exporter->finish;
unlike($log, qr/level=error|err=/, 'S406: no query fails');

done_testing();
