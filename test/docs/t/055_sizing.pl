# The counts on the page about sizing (S427): measured as "make sizing" does it, with fewer
# backends.

use strict;
use warnings;

use File::Basename;
use File::Spec;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use DocPage;
use ZkEnsemble;

use lib File::Spec->catdir(dirname(__FILE__), '..', '..', 'bench', 'perl');
use BenchSizing;

# Sessions stay whatever the machine does, and lock nodes are removed soon.
my $count = 12;
my $world = BenchSizing->new(
	servers => 1,
	backends => $count,
	timeout => '40s',
	settle => 0,
	zookeeper => { 'java.znode.container.checkIntervalMs' => 1000 });
my $states = $world->states(1);
my $cost = $world->cost;
$world->end;
is($states->{lost}, 0, 'no session has expired');

# The rows of the page that have a formula in N: "2 N + 3".
my %names = (
	'ZooKeeper sessions' => 'global_sessions',
	'connections to ZooKeeper' => 'connections',
	'znodes' => 'znode_count',
	'of these ephemeral' => 'ephemerals_count',
	'watches' => 'watch_count');
my %formula;
foreach my $line (map { $_->{text} } DocPage->new('doc/sizing.md')->prose)
{
	my ($title, @cells) = $line =~ /[^|]+/g;
	$title =~ s/^\s+|\s+$//g;
	$formula{$title} = \@cells if $names{$title} && @cells >= 3 && "@cells" =~ /\bN\b/;
}
is_deeply([ sort keys %formula ], [ sort keys %names ], 'the page has the formulas');

sub value
{
	my ($formula) = @_;
	my ($factor, $more) = $formula =~ /^\s*(?:(\d*)\s*N)?\s*((?:[-+]\s*)?\d+)?\s*$/
	  or die "no formula: $formula\n";
	$more = ($more // 0) =~ s/\s//gr;
	return ($formula =~ /N/ ? ($factor eq '' ? 1 : $factor) * $count : 0) + $more;
}

my @state = qw(hold queue idle);
foreach my $title (sort keys %formula)
{
	foreach my $column (0 .. 2)
	{
		my $formula = $formula{$title}[$column];
		is($states->{ $state[$column] }{ $names{$title} },
			value($formula), "S427: $state[$column]: $title: $formula");
	}
}

# ---- What the page says of a backend, and of a cycle.

is($states->{idle}{memory}{threads} - $states->{connected}{memory}{threads},
	2, 'S427: a backend has two more threads');
foreach my $scope (qw(session transaction))
{
	is(sprintf('%.0f', $cost->{$scope}{$_}), 3, "S427: a cycle at $scope level: 3 packets $_")
	  foreach qw(received sent);
}

done_testing();
