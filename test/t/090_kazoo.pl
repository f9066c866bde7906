
# Together with kazoo, the ZooKeeper client for Python, on the same path: the
# locks of one exclude those of the other where README.md says so, and nowhere
# else; also where several are acquired at once.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use ZkTool;

my $ensemble = ZkEnsemble->new('main');
my $node = zk_cluster('main', $ensemble);
my $kazoo = ZkTool->new('kazoolock', $ensemble->connect_string);

# A backend whose contenders are called in this style.
sub backend
{
	my ($style) = @_;
	return ZkPsql->new($node, 'zklock.znode_style' => $style);
}

# How long to wait for a lock, in seconds: where it is expected to be had, as long as a
# busy machine may take.
sub patience
{
	my ($excluded) = @_;
	return $excluded ? 0.3 : 30;
}

# Does a lock of ours, held, keep kazoo's from being acquired, as it is to?
sub excludes_kazoo
{
	my ($ours, $shared, $kind, $expected) = @_;
	$ours->ask("SELECT zk_lock_acquire('/a', shared => $shared)");
	my $acquired = $kazoo->ask("acquire $kind /zklock/a " . patience($expected));
	$kazoo->ask("release $kind /zklock/a") if $acquired eq 'true';
	$ours->ask("SELECT zk_lock_release('/a')");
	return $acquired eq 'true' ? 0 : 1;
}

# Does a lock of kazoo's, held, keep ours from being acquired, as it is to?
sub excludes_ours
{
	my ($ours, $shared, $kind, $expected) = @_;
	my $seconds = patience($expected);
	$kazoo->ask("acquire $kind /zklock/a 30");
	my $acquired =
	  $ours->ask("SELECT zk_lock_acquire('/a', '$seconds s', shared => $shared)");
	$ours->ask("SELECT zk_lock_release('/a')") if $acquired eq 't';
	$kazoo->ask("release $kind /zklock/a");
	return $acquired eq 't' ? 0 : 1;
}

# ---- What excludes what.

# style, shared, kind, does ours exclude kazoo's, does kazoo's exclude ours
my @matrix = (
	[ 'curator', 'false', 'extended', 1, 1 ],
	[ 'curator', 'false', 'lock', 0, 1 ],
	[ 'curator', 'false', 'write', 0, 1 ],
	[ 'curator', 'false', 'read', 0, 1 ],
	[ 'curator', 'true', 'extended', 0, 1 ],
	[ 'curator', 'true', 'read', 0, 0 ],
	[ 'curator_rw', 'false', 'extended', 0, 1 ],
	[ 'kazoo', 'false', 'lock', 1, 1 ],
	[ 'kazoo', 'false', 'write', 1, 1 ],
	[ 'kazoo', 'false', 'read', 1, 1 ],
	[ 'kazoo', 'true', 'lock', 0, 1 ],
	[ 'kazoo', 'true', 'write', 1, 1 ],
	[ 'kazoo', 'true', 'read', 0, 0 ]);

my %ours = map { $_ => backend($_) } qw(curator curator_rw kazoo);
foreach my $row (@matrix)
{
	my ($style, $shared, $kind, $theirs_waits, $ours_waits) = @$row;
	my $what = ($shared eq 'true' ? 'shared' : 'exclusive') .
	  " in style $style, and kazoo's $kind";
	is(excludes_kazoo($ours{$style}, $shared, $kind, $theirs_waits),
		$theirs_waits, "S33: $what: ours, held, excludes theirs: $theirs_waits");
	is(excludes_ours($ours{$style}, $shared, $kind, $ours_waits),
		$ours_waits, "S33: $what: theirs, held, excludes ours: $ours_waits");
}

# ---- First come, first served, and each sees the other's contenders.

my $first = $ours{curator};
my $second = backend('curator');
$first->ask("SELECT zk_lock_acquire('/a')");
$kazoo->send('acquire extended /zklock/a 60');
$ensemble->wait_for_queue('/a', 2);
$second->send("SELECT zk_lock_acquire('/a')");
$ensemble->wait_for_queue('/a', 3);
is( $first->ask(
		q(SELECT string_agg(granted || ' ' || own, ', ' ORDER BY position)
		FROM zk_lock_queue('/a'))),
	'true true, false false, false false',
	"S33: kazoo's contender is in our listing");
$first->ask("SELECT zk_lock_release('/a')");
is($kazoo->read_line('acquire'), 'true', 'S33: kazoo, who came second, is next');
ok(!$second->answered, 'S33: and the third waits');
is($kazoo->ask('contenders extended /zklock/a'),
	2, "S33: which is in kazoo's listing");
$kazoo->ask('release extended /zklock/a');
is($second->answer, 't', 'S33: and is next');
$second->ask("SELECT zk_lock_release('/a')");

# ---- Several at once.

my $all = "'{/several/a,/several/b,/several/c}'::text[]";
$kazoo->ask('acquire lock /zklock/several/b 30');
is($first->ask("SELECT zk_lock_acquire($all, '0')"),
	'f', 'S33: several of ours, of which kazoo holds one: none is acquired');
$ensemble->wait_for_queue("/several/$_", 0) foreach qw(a c);
$first->send("SELECT zk_lock_acquire($all)");
$ensemble->wait_for_queue("/several/$_", $_ eq 'b' ? 2 : 1) foreach qw(a b c);
$kazoo->ask('release lock /zklock/several/b');
is($first->answer, 't', 'S33: when kazoo has released it, all are');
is($kazoo->ask("acquire extended /zklock/several/$_ 0.3"),
	'false', "S33: then kazoo waits for each of them: $_")
  foreach qw(a b c);
$first->ask('SELECT zk_lock_release_all()');
is($kazoo->ask('acquire extended /zklock/several/c 30'),
	'true', 'S33: until they are released');

done_testing();
