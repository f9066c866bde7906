# ALTER EXTENSION UPDATE: every version with an installation script, the first one
# included, can be updated to the present one, and the result equals that of CREATE
# EXTENSION (S160).
#
# With only one version this is trivially true.  So the test also uses another copy of
# the installation, with one version more, whose update path is missing, wrong, or
# right.

use strict;
use warnings;

use File::Basename;
use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkExtension;

# The versions that there are scripts to install, the oldest first.
sub versions
{
	my ($folder) = @_;
	my @versions = map { m{/zklock--([0-9.]+)\.sql$} ? $1 : () } glob "$folder/zklock--*.sql";
	my %order = map { $_ => join '', map { sprintf '%05d', $_ } split /\./ } @versions;
	return sort { $order{$a} cmp $order{$b} } @versions;
}

sub default_version
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		"SELECT default_version FROM pg_available_extensions WHERE name = 'zklock'");
}

# The catalog of the extension in a new database, as these statements leave it, or
# the error that they end with.
sub catalog_after
{
	my ($node, @statements) = @_;
	my $catalog;
	$node->safe_psql('postgres', 'CREATE DATABASE tried');
	my ($status, $output, $error) =
	  $node->psql('tried', join('; ', 'SET client_min_messages = warning', @statements),
		on_error_stop => 1);
	$catalog = $status == 0 ? extension_catalog($node, 'tried') : $error;
	$node->safe_psql('postgres', 'DROP DATABASE tried');
	return $catalog;
}

sub fresh
{
	my ($node) = @_;
	return catalog_after($node, 'CREATE EXTENSION zklock');
}

sub updated
{
	my ($node, $version) = @_;
	return catalog_after($node, "CREATE EXTENSION zklock VERSION '$version'",
		'ALTER EXTENSION zklock UPDATE');
}

# The path that an update takes: the versions on it.
sub path
{
	my ($node, $from, $to) = @_;
	return split /--/,
	  $node->safe_psql('postgres',
		"SELECT path FROM pg_extension_update_paths('zklock')"
		  . " WHERE source = '$from' AND target = '$to'");
}

my $folder = pg_config('sharedir') . '/extension';
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;

my @versions = versions($folder);
my $default = default_version($node);
is($versions[0], '1.0', 'the script of the first release is there');
my $fresh = fresh($node);
like($fresh, qr/zk_lock_fences/, 'a fresh extension has something in it');
foreach my $version (@versions)
{
	is(updated($node, $version),
		$fresh, "S160: an update from $version makes what is made fresh");
}
is( $node->safe_psql('postgres',
		"SELECT source FROM pg_extension_update_paths('zklock')"
		  . " WHERE target = '$default' AND path IS NULL"),
	'', 'S160: there is a way from every version');
$node->stop;

# ---- One version more.

my $other_config = copy_postgres('other');
my $other_folder = pg_config('sharedir', $other_config) . '/extension';
copy($_, $other_folder) or die "$_: $!" foreach glob "$folder/zklock*";
copy(pg_config('pkglibdir') . '/zklock.so', pg_config('pkglibdir', $other_config))
  or die "zklock.so: $!";

my $other = PostgreSQL::Test::Cluster->new('other',
	install_path => dirname(pg_config('bindir', $other_config)));
$other->init;
$other->start;

sub script
{
	my ($versions) = @_;
	return slurp_file("$other_folder/zklock--$versions.sql");
}

sub write_script
{
	my ($versions, $text) = @_;
	open my $handle, '>', "$other_folder/zklock--$versions.sql" or die "$versions: $!";
	print $handle $text;
	close $handle or die "$versions: $!";
	return;
}

# What is made fresh is what the scripts on the way to the version before have made,
# and something new.
my $new = q{
	CREATE FUNCTION zk_new() RETURNS integer LANGUAGE sql AS 'SELECT 1';
	REVOKE ALL ON FUNCTION zk_new() FROM PUBLIC;
	ALTER TABLE zk_lock_fences ADD COLUMN note text;};
my $comment = "COMMENT ON FUNCTION zk_new() IS 'new';";
my @path = path($other, $versions[0], $default);
my @scripts = map { script($_ == 0 ? $path[0] : "$path[$_ - 1]--$path[$_]") } 0 .. $#path;
@scripts = script($default) unless @path;
write_script('99', join("\n", @scripts, $new, $comment));
my $control = slurp_file("$other_folder/zklock.control");
$control =~ s/^default_version = .*$/default_version = '99'/m;
unlink "$other_folder/zklock.control";
append_to_file("$other_folder/zklock.control", $control);
is(default_version($other), '99', 'there is another version');

like(updated($other, $versions[0]),
	qr/no update path from version/, 'S160: that it has no path is noticed');
my $other_fresh = fresh($other);
like($other_fresh, qr/zk_new/, 'fresh it is made all the same');
write_script("$default--99", $new);
isnt(updated($other, $versions[0]),
	$other_fresh, 'S160: that a comment was forgotten is noticed');
write_script("$default--99", "$new $comment GRANT SELECT (note) ON zk_lock_fences TO PUBLIC;");
isnt(updated($other, $versions[0]),
	$other_fresh, 'S160: so is a privilege too many');
write_script("$default--99", "$new $comment");
is(updated($other, $versions[0]), $other_fresh, 'S160: and all else is the same');

done_testing();
