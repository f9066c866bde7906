# Two clusters, three ZooKeeper servers, many clients, and faults at random.
#
# CHAOS_SECONDS sets the duration (default 25), CHAOS_SEED the choices.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Chaos;

my $seed = $ENV{CHAOS_SEED} || int(rand(1_000_000_000));
my $seconds = $ENV{CHAOS_SECONDS} || 25;
note "seed $seed, for $seconds s";

my $world = ChaosWorld->new;
report_chaos(run_chaos($world, seconds => $seconds, seed => $seed));

done_testing();
