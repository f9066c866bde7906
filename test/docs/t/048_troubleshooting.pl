# The messages in doc/troubleshooting.md: those of zklock are in its sources, and PostgreSQL
# has the others (S432).

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use DocMessages qw(pattern sources $string);
use DocPage;
use ZkEnsemble;

# What brings about each message of PostgreSQL, where zklock is not preloaded.
my %cause = (
	'extension "…" is not available' => 'CREATE EXTENSION zklock_missing',
	'could not access file "…": No such file or directory' => "LOAD 'zklock_missing'",
	'could not find function "…" in file "…"' =>
	  q{CREATE FUNCTION new() RETURNS int LANGUAGE c AS '$libdir/zklock', 'zk_new'},
	'unrecognized configuration parameter "…"' => "ALTER SYSTEM SET zklock.paths = '/app/*'",
	'function zk_lock_acquire(…) does not exist' => "SELECT zk_lock_acquire('/a', 5)",
	'permission denied for function …' =>
	  "SET ROLE plain; SELECT zk_lock_queue('/a')");

my $node = zk_cluster('main', '');
$node->safe_psql('postgres', 'CREATE ROLE plain');

# The messages in the sources, without those that have next to no text of their own.
my @patterns =
  map { pattern($_) } grep { length(s/%[-.*\d]*l*[a-zX]//gr) > 10 } sources() =~ /($string)/g;
cmp_ok(scalar @patterns, '>', 500, 'there are messages');

my $rows = 0;
foreach my $line (DocPage->new('doc/troubleshooting.md')->prose)
{
	my ($message) = $line->{text} =~ /^\| `(.+?)` \| / or next;
	my $where = "doc/troubleshooting.md:$line->{line}: $message";
	$rows++;
	if (my $sql = delete $cause{$message})
	{
		my (undef, undef, $errors) = $node->psql('postgres', $sql);
		my $pattern = join '.+', map { quotemeta } split /…/, $message, -1;
		like($errors, qr/ERROR: +$pattern$/m, "S432: $where: PostgreSQL says that");
		next;
	}
	$message =~ s/^…: //;
	ok(scalar(grep { $message =~ /^$_$/ || "what: $message" =~ /^$_$/ } @patterns),
		"S432: $where: zklock says that");
}
cmp_ok($rows, '>', 40, 'there are rows');
is_deeply([ sort keys %cause ], [], 'the page has all messages of PostgreSQL');

done_testing();
