# Curator, kazoo and zklock in one queue: no update is lost, first come, first served,
# each lists the others' contenders; also where several locks are acquired in one call.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use InteropClient;
use InteropProgram;

# How many times each client counts.
my $times = 15;

# A session timeout that is longer than any machine stands still; ticks bound it.
my $ensemble = ZkEnsemble->new('main', tick_time => 3000);
my $zk = $ensemble->zk;
my $node = zk_cluster('main', $ensemble,
	settings => { 'zklock.session_timeout' => '60s' });
prepare_to_count($node);

# Several processes of each; clients take turns with them.
my %programs = (
	curator => [ map { InteropProgram->new('curator', $ensemble, $node) } 1 .. 2 ],
	kazoo => [ map { InteropProgram->new('kazoo', $ensemble, $node) } 1 .. 3 ]);

# A new client of another program, with a session of its own.
sub theirs
{
	my ($name, $kind) = @_;
	my $program = shift @{ $programs{$name} };
	push @{ $programs{$name} }, $program;
	return InteropClient->theirs($program->session, $kind);
}

# Have the clients get in line one after the other, and each release the lock when
# it has seen it and all that wait in its own listing.
sub line_up
{
	my ($who, $path, @clients) = @_;
	$zk->make_path("/zklock$path");
	foreach my $place (0 .. $#clients)
	{
		$clients[$place]->send(acquire => $path);
		$ensemble->wait_for_queue($path, $place + 1);
	}
	foreach my $place (0 .. $#clients)
	{
		my $client = $clients[$place];
		my $name = $client->name;
		$client->answer;
		is(scalar(grep { $_->answered } @clients[ $place + 1 .. $#clients ]),
			0, "S33: $who: number $place, $name, is next, and alone");
		is( $client->ask(contenders => $path),
			@clients - $place,
			"S33: $who: its listing has all that are there");
		$client->ask(release => $path);
	}
	$ensemble->wait_for_queue($path, 0);
	return;
}

# Have all clients count at once; none begins before all are in the queue.
sub count
{
	my ($who, $path, $style, @clients) = @_;
	my $gate = InteropClient->ours($node, $style, 'exclusive');
	$node->safe_psql('postgres', 'UPDATE counter SET n = 0');
	$gate->ask(acquire => $path);
	$_->send(count => $path, $times) foreach @clients;
	$ensemble->wait_for_queue($path, 1 + @clients);
	$gate->ask(release => $path);
	$_->answer(300) foreach @clients;
	is($node->safe_psql('postgres', 'SELECT n FROM counter'),
		$times * @clients, "S33: $who: no update is lost");
	return;
}

# ---- All of them, where all exclude each other; then each of the other locks that
# doc/interop.md says yes of in both directions, with the style for it.

my @groups = (
	[
		'all', 'curator',
		qw(zklock curator/mutex kazoo/named zklock curator/leader kazoo/named
		  curator/mutex zklock kazoo/named)
	],
	[
		"kazoo with Curator's names", 'curator',
		qw(zklock kazoo/extended kazoo/extended zklock)
	],
	[
		"Curator's read-write lock", 'curator_rw',
		qw(zklock curator/write zklock curator/write curator/write)
	],
	[
		'kazoo as it is', 'kazoo',
		qw(zklock kazoo/lock kazoo/write zklock kazoo/lock)
	]);
foreach my $number (0 .. $#groups)
{
	my ($who, $style, @members) = @{ $groups[$number] };
	my @clients = map {
		$_ eq 'zklock'
		  ? InteropClient->ours($node, $style, 'exclusive')
		  : theirs(split m{/})
	} @members;
	line_up($who, "/line/$number", @clients);
	count($who, "/count/$number", $style, @clients);
	$_->session->quit foreach grep { $_->session->can('quit') } @clients;
}

# ---- What our listing says about the contenders of others.

my $ours = ZkPsql->new($node);
my ($mutex, $lock) = (theirs('curator', 'mutex'), theirs('kazoo', 'extended'));
$ours->ask("SELECT zk_lock_acquire('/listed')");
foreach my $client ($mutex, $lock)
{
	my $place = $ensemble->queue('/listed');
	$client->send(acquire => '/listed');
	$ensemble->wait_for_queue('/listed', $place + 1);
}
is( $ours->ask(
		q(SELECT string_agg(concat_ws(' ', contender, granted, own), ', '
			ORDER BY position) FROM zk_lock_queue('/listed'))),
	sprintf('%s t t, %s f f, %s f f', $ensemble->queue('/listed')),
	'S33: our listing has what others wait with, in order');
$ours->ask("SELECT zk_lock_release('/listed')");
foreach my $client ($mutex, $lock)
{
	$client->answer;
	$client->ask(release => '/listed');
}

# ---- Several of ours at once, one of them held by another client.

sub several
{
	my ($program, $kind) = @_;
	my @paths = map { "/several/$kind/$_" } qw(a b c);
	my $all = sprintf "'{%s}'::text[]", join ',', @paths;
	my @theirs = map { theirs($program, $kind) } @paths;
	$zk->make_path("/zklock$_") foreach @paths;
	$theirs[1]->ask(acquire => $paths[1]);
	is($ours->ask("SELECT zk_lock_acquire($all, '0')"),
		'f', "S33: several, of which $program holds one: none is acquired");
	$ensemble->wait_for_queue($_, 0) foreach @paths[ 0, 2 ];
	$ours->send("SELECT zk_lock_acquire($all)");
	$ensemble->wait_for_queue($paths[$_], (1, 2, 1)[$_]) foreach 0 .. 2;
	ok(!$ours->answered, "S33: several: waited for, as $program holds one");
	$theirs[1]->ask(release => $paths[1]);
	is($ours->answer, 't', "S33: several: when $program has released it, all are");
	$theirs[$_]->send(acquire => $paths[$_]) foreach 0 .. 2;
	$ensemble->wait_for_queue($_, 2) foreach @paths;
	wait_for(sub { $ensemble->waiter_watch_count >= 3 }, 'three to wait');
	is(scalar(grep { $_->answered } @theirs),
		0, "S33: several: $program waits for each of them");
	is($ours->ask('SELECT zk_lock_release_all()'), 3, 'they are released');
	foreach (0 .. 2)
	{
		is($theirs[$_]->answer, 't', "S33: several: and $program has $paths[$_]");
		$theirs[$_]->ask(release => $paths[$_]);
	}
	return;
}

several('kazoo', 'extended');
several('curator', 'mutex');

$_->end foreach map { @$_ } values %programs;
done_testing();
