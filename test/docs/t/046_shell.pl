# The commands of doc/howto-shell.md, as a shell runs them, and their output (S399).

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use DocPage;
use ZkEnsemble;

my $ensemble = ZkEnsemble->new('main');
my $node = zk_cluster('db1', $ensemble);
chomp(my $bindir = `pg_config --bindir`);
local @ENV{qw(PATH PGHOST PGPORT PGDATABASE)} =
  ("$bindir:$ENV{PATH}", $node->host, $node->port, 'postgres');

my $page = DocPage->new('doc/howto-shell.md');
foreach my $block (grep { $_->{language} eq 'sh' } $page->blocks)
{
	my ($output, $errors) = ('', '');
	IPC::Run::run([ 'bash', '-e' ], '<', \$block->{text}, '>', \$output, '2>', \$errors);
	is($?, 0, $page->file . ":$block->{line}: the commands succeed");
	is($errors, '', 'and complain of nothing');
	next unless $block->{expected};
	ok(DocPage::same($output, $block->{expected}{text}),
		'S399: ' . $page->file . ":$block->{line}: as it is shown")
	  or diag("expected:\n$block->{expected}{text}\nbut it was:\n$output");
}

done_testing();
