# Every block of SQL in the documentation, in the order of its page, by psql: each page
# in a database of its own, on a primary with two hot standbys.  The output of a block
# is what the page shows; see DocPage.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use DocPage;
use DocSession;
use ZkEnsemble;

# Where the reader of a page that needs it has pg_cron, so have we.
chomp(my $libraries = `pg_config --pkglibdir`);
my $has_cron = -e "$libraries/pg_cron.so";
my $cron_page = 'howto_pg_cron';

# ---- The servers.

# No lock is lost, and no server leaves, because the machine stands still for a moment.
my $ensemble = ZkEnsemble->new('docs',
	servers => 3,
	maxSessionTimeout => 60000,
	syncLimit => 60);
my $primary = zk_cluster(
	'db1', $ensemble,
	allows_streaming => 1,
	settings => {
		shared_preload_libraries => $has_cron ? 'zklock,pg_cron' : 'zklock',
		$has_cron ? ('cron.database_name' => $cron_page) : (),
		'zklock.on_lock_loss' => 'cancel',
		'zklock.session_timeout' => '60s',
		max_worker_processes => 20
	});
$primary->backup('base');
my %node = (db1 => $primary);

foreach my $name (qw(db2 db3))
{
	$node{$name} = PostgreSQL::Test::Cluster->new($name);
	$node{$name}->init_from_backup($primary, 'base', has_streaming => 1);
	$node{$name}->append_conf('postgresql.conf', "cluster_name = '$name'");
	$node{$name}->start;
}

# Of the primary, when nothing of the documentation has been run.
my $roles = all('SELECT rolname FROM pg_roles');

# The values of a query on the primary.
sub all
{
	my ($query, $database) = @_;
	return { map { $_ => 1 } split /\n/,
		$primary->safe_psql($database // 'postgres', $query) };
}

# ---- One page.

my ($page, %session, %waiting);

# The session in which a block is to be run.
sub session
{
	my ($server, $name) = @_;
	my $key = $name ? "$server, $name session" : $server;

	# What a block before this one has created is there.
	$primary->wait_for_catchup($node{$server}) unless $server eq 'db1';
	$session{$key} //= DocSession->new($node{$server}, $page->name);
	return $key;
}

# Has a block that was sent done what it should?
sub finish
{
	my ($key, $block) = @_;
	my $where = $page->file . ":$block->{line}";
	my $output = $session{$key}->output;
	my $expected = $block->{expected};

	if ($expected)
	{
		ok(DocPage::same($output, $expected->{text}), "$where: as it is shown")
		  or diag("expected on $key:\n$expected->{text}\nbut it was:\n$output");
	}
	else
	{
		unlike($output, qr/^(ERROR|FATAL|WARNING|\\|invalid)/m, "$where: nothing fails");
	}
	delete $session{$key} if $session{$key}->ended;
	return;
}

# Run a block.  One that waits is looked at when its session is used again.
sub run_block
{
	my ($block) = @_;
	my ($server, $name, $waits) = DocPage::place($block);
	my $key = session($server, $name);
	my $waiting = delete $waiting{$key};

	finish($key, $waiting) if $waiting;
	die $page->file . ": $key has ended\n" unless $session{$key};
	$session{$key}->send($block->{text},
		$block->{expected} && $block->{expected}{text} =~ /^ERROR:/m);
	if ($waits)
	{
		wait_for(sub { $session{$key}->waits },
			$page->file . ":$block->{line} to wait", 60);
		$waiting{$key} = $block;
		return;
	}
	finish($key, $block);
	return;
}

# What a page has left behind that concerns other databases, too.
sub clean_up
{
	finish($_, delete $waiting{$_}) foreach sort keys %waiting;
	(delete $session{$_})->quit foreach sort keys %session;
	foreach my $role (grep { !$roles->{$_} } sort keys %{ all('SELECT rolname FROM pg_roles') })
	{
		$primary->safe_psql($page->name, "DROP OWNED BY $role; DROP ROLE $role");
	}
	$primary->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
	$primary->reload;
	wait_for(
		sub { all("SHOW zklock.auth_file; SHOW zklock.acl")->{open} },
		'settings to be what they were');
	return;
}

sub run_page
{
	my @blocks = grep { $_->{language} eq 'sql' && !$_->{by} } $page->blocks;
	my $name = $page->name;

	# Locks and records of one page are not in the way of another.
	$primary->safe_psql('postgres', "CREATE DATABASE $name");
	$primary->safe_psql('postgres', "ALTER DATABASE $name SET zklock.root = '/$name'");
	$primary->safe_psql($name, 'CREATE EXTENSION zklock')
	  unless grep { $_->{text} =~ /^CREATE EXTENSION zklock;/m } @blocks;
	run_block($_) foreach grep { !$_->{reason} } @blocks;
	clean_up();
	return;
}

# ---- All pages.

my @left_out;
foreach (DocPage->all)
{
	$page = $_;
	my @sql = grep { $_->{language} eq 'sql' } $page->blocks;
	foreach my $block (grep { $_->{by} } @sql)
	{
		ok(-f $block->{by}, $page->file . ":$block->{line}: $block->{by} runs it");
	}
	@sql = grep { !$_->{by} } @sql;
	push @left_out, map { $page->file . ":$_->{line}: $_->{reason}" }
	  grep { $_->{reason} } @sql;

	# SQL is marked as such: nothing else looks like it.
	my @unmarked = grep {
		$_->{language} ne 'sql'
		  && $_->{text} =~ /^(?:\w*=[#>] *)?(?:SELECT|SET|BEGIN|CREATE|ALTER|GRANT|REVOKE)\b[^"']*;/m
	} $page->blocks;
	is("@{[ map { $_->{line} } @unmarked ]}",
		'', $page->file . ': SQL is in blocks of SQL');
  SKIP:
	{
		skip 'there is no package of pg_cron for this PostgreSQL', 1
		  if $page->name eq $cron_page && !$has_cron;
		run_page() if @sql;
	}
}
note "not run: $_" foreach @left_out;
cmp_ok(scalar @left_out, '<=', 3, 'few blocks are not run');

done_testing();
