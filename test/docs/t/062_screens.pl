# The screens in doc/screens are what a terminal of 80 by 24 shows today when the first two
# examples of README.md are typed there (S439).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use DocPage;
use ZkEnsemble;

my $tmp = $PostgreSQL::Test::Utils::tmp_check;

# No lock is lost because the machine stands still for a moment.
my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my $primary = zk_cluster(
	'db1', $ensemble,
	allows_streaming => 1,
	settings => { 'zklock.session_timeout' => '60s' });
$primary->safe_psql('postgres', 'CREATE TABLE sales (day date, amount numeric)');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('db2');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

foreach my $node ($primary, $standby)
{
	append_to_file("$tmp/services", sprintf "[%s]\nhost=%s\nport=%d\ndbname=postgres\n",
		$node->name, $node->host, $node->port);
}
$ENV{PGSERVICEFILE} = "$tmp/services";
command_ok([ 'demo/screens', "$tmp/screens" ], 'the screens are made');

# Pages and screens have the same encoding.
sub lines_of { return split /\n/, slurp_file($_[0]), -1; }

my $readme = join '', map { $_->{text} } DocPage->new('README.md')->prose;
my @screens = glob 'doc/screens/*.txt';
is(scalar @screens, 2, 'there are two screens');
foreach my $screen (@screens)
{
	my ($name) = $screen =~ m{([^/]+)$};
	my @lines = lines_of($screen);
	is_deeply([ lines_of("$tmp/screens/$name") ], \@lines, "S439: $screen: a terminal shows it");

	# The last line ends, so what follows is empty.
	cmp_ok(scalar @lines, '<=', 25, 'it has at most 24 lines');
	my @long = grep { utf8::decode($_); length > 80 } @lines;
	is_deeply(\@long, [], 'of at most 80 columns');
	cmp_ok(index($readme, "($screen)"), '>', 0, 'README.md leads to it');
}

done_testing();
