# The checker finds violations: in real runs that must have two holders, because nothing
# guards the commits, or because a rule of the queue is broken.

use strict;
use warnings;

use File::Basename;
use File::Path qw(make_path);
use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Chaos;

my $seed = $ENV{CHAOS_SEED} || int(rand(1_000_000_000));
note "seed $seed";

# As short as can be, since that is how long a lock outlives a backend that is
# stopped.
my %world =
  (timeout => 1.5, tick_time => 300, paths => 4, peers => 0, standby => '');
my %workers = (workers => 16, keepers => 0, jobs => 0);

# Run until the checker finds something, for some minutes at most, in rounds each of
# which is longer than the one before: on a machine that is busy a short one is over
# before much has come about.  Returns what was violated, in one text; and how many
# faults there were.
sub find_something
{
	my ($world, $wanted, %params) = @_;
	my ($found, $faults) = ('', 0);
	my $deadline = time + 200;
	for (my $round = 1; time < $deadline; $round++)
	{
		my $facts = run_chaos(
			$world, %workers, %params,
			seconds => min($params{seconds} * $round, 40),
			seed => "$seed $round");
		$found .= join "\n", violations(check_chaos($facts)), '';
		$faults += @{ $facts->{faults} };
		note substr $found, 0, 3000;
		last if $found =~ $wanted;
	}
	return ($found, $faults);
}

# ---- Without guard and fence, and with backends that are stopped for longer
# than their sessions live.

my $world = ChaosWorld->new(%world, clusters => [qw(alpha)]);
my $lost_update = qr/lost update:\n[^\n]*, fenced \d/;
my ($found, $faults) = find_something(
	$world, qr/two holders:.*$lost_update/s,
	seconds => 6,
	guards => ['off'],
	counters => ['fenced'],
	fence => 0,
	mix => { xact => 80, session => 20 },
	several_chance => 0,
	long_chance => 0.1,
	faults => { mean => 0.4, weights => { pause_long => 1 } });
cmp_ok($faults, '>', 0, 'backends were stopped');
ok($found =~ /two holders:/, 'guard and fence off: two holders are found');
ok($found =~ $lost_update, 'guard and fence off: a lost update is found');

# ---- A build with a rule broken: a watch that fires is taken as a grant.

# Run a shell command; true if it succeeds.
sub shell
{
	my ($command) = @_;
	return PostgreSQL::Test::Utils::system_log('bash', '-c',
		"set -euo pipefail; $command") == 0;
}

my $copy = PostgreSQL::Test::Utils::tempdir;
my $top = "$copy/zklock";
my $install = "test/lib/postgres install '$copy/postgres' >'$copy/pg_config'";
my $make = "make -s -C '$top' PG_CONFIG=\"\$(<'$copy/pg_config')\"";
make_path($top);
ok(shell("cp -r Makefile zklock.control doc sql src '$top'"),
	'the sources are copied');
ok(shell("patch -p1 -F0 -d '$top' <test/chaos/rule2.patch"),
	'the patch that breaks rule 2 applies (else adapt test/chaos/rule2.patch)');
ok(shell("$install; $make clean all install"), 'what comes out of it is built');
chomp(my $pg_config = slurp_file("$copy/pg_config"));
my $broken = ChaosWorld->new(
	%world,
	ensemble => $world->ensemble,
	clusters => [qw(gamma)],
	install_path => dirname(dirname($pg_config)));
($found) = find_something(
	$broken, qr/two holders:/,
	seconds => 4,
	mix => { xact => 60, abandon => 40 },
	work => 0.02,
	faults => { mean => 1000 });
ok($found =~ /two holders:/, 'rule 2 broken: two holders are found');
like(
	(split /\n/, $found)[1],
	qr/section \S+ \(gamma pid \d+.*token \d+.*acquired [\d.]+, COMMIT sent/,
	'and told with all that is known');

done_testing();
