# The checker, on histories made by hand: a clean one passes, and each way to break one
# is found by the claim about it, and by no other.

use strict;
use warnings;

use ChaosChecker;
use Test::More;

my $timeout = 4;

# A section that was committed, acquired at some time and held for a second.
sub section
{
	my ($id, $at, %fields) = @_;
	return {
		id => $id,
		hold => $id,
		worker => 1,
		cluster => 'alpha',
		path => '/p',
		mode => 'exclusive',
		counter => 'plain',
		guard => 'lease',
		pid => 100,
		session => '0x1',
		token => int($at * 10),
		seen => 0,
		again => 0,
		invoked => $at - 0.5,
		acquired => $at,
		steady => 1,
		kind => 'xact',
		time => 0,
		commit => 'ok',
		commit_sent => $at + 1,
		commit_returned => $at + 1.1,
		%fields
	};
}

# Facts with these sections, all of which the tables show, and with counters
# that end as they should; and with what is to be different.
sub facts
{
	my ($sections, %fields) = @_;
	my $facts = {
		params => {
			timeout => $timeout,
			seed => 1,
			workers => 2,
			clusters => { alpha => '', beta => '' }
		},
		sections => { map { $_->{id} => $_ } @$sections },
		rows => { alpha => {}, beta => {} },
		guests => { alpha => {}, beta => {} },
		counters => {},
		calls =>
		  { count => 10, outcomes => { commit => { ok => 10 } }, slow => [] },
		faults => [],
		memory => { 'alpha 100' => [ map { [ $_, 2000 ] } 1 .. 12 ] },
		end => {
			idle => [ [ 2, 2 ] ],
			rest => [ [ 'idle', 0.1, 0, 0 ], [ 'ended', 0.1, 0, 0 ] ],
			log => [ [ 'alpha.log', 10 ] ],
			backends => [ [0] ]
		},
		crashes => [],
		accidents => []
	};
	foreach my $section (@$sections)
	{
		my $cluster = $section->{cluster};
		$facts->{rows}{$cluster}{ $section->{id} } =
		  { map { $_ => $section->{$_} } qw(path counter seen token) };
		my $end = \$facts->{counters}{$cluster}{ $section->{counter} }{'/p'};
		$$end = $section->{seen} + 1
		  if $section->{mode} eq 'exclusive'
		  && ($$end // 0) <= $section->{seen};
	}
	return { %$facts, %fields };
}

# What the nemesis did to the first section's backend, or session.
sub fault
{
	my ($kind, $begin, $end, %fields) = @_;
	return {
		kind => $kind,
		scope => 'backend',
		begin => $begin,
		applied => $begin,
		end => $end,
		cluster => 'alpha',
		pid => 100,
		session => '-',
		text => '',
		%fields
	};
}

# Every section that a clean history has: with one another in turn, in two
# clusters, shared and fenced.
sub clean
{
	return (
		section('1.1', 10),
		section('1.2', 12, seen => 1),
		section('2.1', 14, cluster => 'beta', pid => 200, session => '0x2'),
		section('1.3', 16, counter => 'fenced'),
		section('1.4', 18, counter => 'fenced', seen => 1),
		section(
			'1.5', 20,
			mode => 'shared',
			counter => 'read',
			seen => '2/2',
			again => '2/2'),
		section(
			'2.2', 20.5,
			mode => 'shared',
			counter => 'read',
			seen => '2/2',
			again => '2/2',
			pid => 200,
			session => '0x2'));
}

# The claims that are violated, by their numbers; and the documented cases.
sub verdict
{
	my ($facts) = @_;
	my $claims = ChaosChecker->new($facts)->check;
	my @violated = grep { @{ $claims->[$_]{violations} } } 0 .. $#$claims;
	my @documented = map { @{ $_->{documented} } } @$claims;
	note $_
	  foreach map { @{ $_->{violations} }, @{ $_->{documented} } } @$claims;
	return (join(',', map { $claims->[$_]{claim} } @violated),
		scalar @documented);
}

# These claims, and no others, are to be violated, and so many cases excused.
sub finds
{
	my ($what, $facts, $claims, $documented) = @_;
	is_deeply([ verdict($facts) ], [ $claims, $documented // 0 ], $what);
	return;
}

my $overlap = 'no two holders in overlapping committed sections';
my $plain = 'no lost update of a plain counter';
my $fenced =
  'no lost update of a fenced counter, which goes up in the order of tokens';
my $readers = 'nothing changes under a shared lock';
my $order = 'waiters are granted in the order of the queue';
my $arrival = 'undisturbed waiters are granted in the order of arrival';
my $kept = 'S304: a lock that is held outlives a server that fails';
my $commits = 'the result of COMMIT is true';
my $prepared = 'S300: COMMIT PREPARED that is refused leaves the transaction prepared';
my $foreign = 'S301: a foreign row is there exactly if the local one is';
my $runs = 'S302: each run of a job that was due is done, and once';
my $failovers = 'S303: a failover loses only the last commits';
my $errors = 'no error but those that faults give reason for';
my $hang = 'no hang';
my $crash = 'no crash';

finds('a clean history', facts([ clean() ]), '');

# ---- Holders.

finds('two holders at a time, of two clusters',
	facts([ section('1.1', 10), section('2.1', 10.9, cluster => 'beta') ]),
	$overlap);
finds(
	'a holder within the section of another one, which is not the last one',
	facts(
		[
			section('1.1', 10, commit_sent => 20, commit_returned => 20.1),
			section('2.1', 12, cluster => 'beta'),
			section('2.2', 15, cluster => 'beta', seen => 1)
		]),
	"$overlap");
finds(
	'a reader and a writer',
	facts(
		[
			section('1.1', 10),
			section(
				'2.1', 10.5,
				mode => 'shared',
				counter => 'read',
				seen => '0/0',
				again => '0/0')
		]),
	$overlap);
finds(
	'one acquisition, two transactions',
	facts(
		[
			section('1.1', 10),
			section(
				'1.2', 10,
				token => 100,
				hold => '1.1',
				seen => 1,
				commit_sent => 12,
				commit_returned => 12.1)
		]),
	'');
finds(
	'the first of two holders was not committed',
	do
	{
		my $facts = facts(
			[ section('1.1', 10, commit => 'ZKL01'), section('2.1', 10.9) ]);
		delete $facts->{rows}{alpha}{'1.1'};
		$facts;
	},
	'');

# What another client did to the first one's session.
my $closed = fault('expire', 10.5, 10.6, session => '0x1', applied => 10.6);
my @two = (
	section('1.1', 10),
	section('2.1', 10.9, cluster => 'beta', session => '0x2', pid => 200));
finds(
	'a session closed from outside, which the lease does not know',
	facts(\@two, faults => [$closed]),
	'', 1);
$two[0]{guard} = 'quorum';
finds('a guard that asks the ensemble knows it',
	facts(\@two, faults => [$closed]), $overlap);
$two[0]{guard} = 'lease';
@{ $two[0] }{qw(commit_sent commit_returned)} = (13.5, 13.6);
finds('and no lease lasts that long',
	facts(\@two, faults => [$closed]), $overlap);
$two[0]{guard} = 'off';
finds('and no excuse without a guard',
	facts(\@two, faults => [$closed]), $overlap);

# ---- Counters.

my @lost = (section('1.1', 10, pid => 100), section('2.1', 12, pid => 200));
finds('a lost update', facts(\@lost), $plain);
finds(
	'a counter that has gone back',
	facts(
		[ section('1.1', 10), section('1.2', 12, seen => 1) ],
		counters => { alpha => { plain => { '/p' => 1 } } }),
	$plain);
finds('a value that no section wrote',
	facts([ section('1.1', 10), section('1.2', 12, seen => 2) ]), $plain);

$lost[0]{commit_returned} = 20;
finds(
	'a commit under way in a backend that was stopped',
	facts(\@lost, faults => [ fault('pause', 11.05, 19) ]),
	'', 1);
finds('another backend was stopped',
	facts(\@lost, faults => [ fault('pause', 11.05, 19, pid => 101) ]), $plain);
finds('it was stopped, but not for long',
	facts(\@lost, faults => [ fault('pause', 11.05, 11.5) ]), $plain);
finds('it was stopped before COMMIT was sent, and so before the guard',
	facts(\@lost, faults => [ fault('pause', 10.5, 19) ]), $plain);
finds('it was stopped after COMMIT had returned',
	facts(\@lost, faults => [ fault('pause', 20.1, 29) ]), $plain);
$lost[0]{guard} = 'off';
finds('there was no guard',
	facts(\@lost, faults => [ fault('pause', 11.05, 19) ]), $plain);
$lost[0]{guard} = 'lease';
$_->{counter} = 'fenced' foreach @lost;
finds('a lost update of a fenced counter has no excuse',
	facts(\@lost, faults => [ fault('pause', 11.05, 19) ]), $fenced);
finds(
	'a newer token before an older one',
	facts(
		[
			section('1.1', 10, counter => 'fenced', seen => 1),
			section('2.1', 12, counter => 'fenced')
		]),
	$fenced);
finds(
	'two acquisitions with one token',
	facts(
		[
			section('1.1', 10, counter => 'fenced', token => 100),
			section('2.1', 12, counter => 'fenced', token => 100, seen => 1)
		]),
	$fenced);
finds(
	'one acquisition with one token',
	facts(
		[
			section('1.1', 10, counter => 'fenced', token => 100),
			section(
				'1.2', 10,
				counter => 'fenced',
				token => 100,
				seen => 1,
				hold => '1.1',
				commit_sent => 12,
				commit_returned => 12.1)
		]),
	'');

# ---- Readers.

my @read = (
	section('1.1', 10),
	section(
		'2.1', 12,
		mode => 'shared',
		counter => 'read',
		pid => 200,
		seen => '0/0',
		again => '1/0'));
finds('a reader sees a change', facts(\@read), $readers);
$read[0]{commit_returned} = 20;
finds(
	'by a commit that came late',
	facts(\@read, faults => [ fault('pause', 11.05, 19) ]),
	'', 1);

# ---- Order.

finds(
	'a waiter further behind is granted first',
	facts(
		[
			section('1.1', 10, token => 200),
			section('2.1', 12, token => 100, cluster => 'beta')
		]),
	$order);
finds(
	'readers have no order among themselves',
	facts(
		[
			section(
				'1.1', 10,
				mode => 'shared',
				counter => 'read',
				seen => '0/0',
				again => '0/0',
				token => 200),
			section(
				'2.1', 10.2,
				mode => 'shared',
				counter => 'read',
				seen => '0/0',
				again => '0/0',
				token => 100)
		]),
	'');
my @arrived = (
	section('1.1', 20, invoked => 10, seen => 1),
	section(
		'2.1', 18,
		invoked => 12,
		cluster => 'beta',
		session => '0x2',
		pid => 200));
$arrived[0]{seen} = 0;
finds('a later client is granted first', facts(\@arrived), $arrival);
finds('because the first one was disturbed',
	facts(\@arrived, faults => [ fault('pause', 11, 12) ]), '');
finds(
	'because all were',
	facts(
		\@arrived,
		faults => [ fault('kill_leader', 8, 12, scope => 'all', pid => '-') ]),
	'');
{
	local $arrived[0]{steady} = 0;
	finds('because its session was another one before', facts(\@arrived), '');
}
finds('because another one was, which is no reason',
	facts(\@arrived, faults => [ fault('pause', 11, 12, pid => 200) ]),
	$arrival);

# ---- Long holds.

my %server = (scope => 'all', pid => '-', text => 'server 1: 0x1 0x11');
my $hung = fault('pause_follower', 12, 18, %server);
my %long = (time => 10, commit_sent => 20, commit_returned => 20.1);
my %lost = (
	time => 10,
	refused => 15,
	commit => undef,
	commit_sent => undef,
	commit_returned => undef);

# Facts without these sections' rows.
sub without_rows
{
	my ($facts, @ids) = @_;
	foreach my $rows (values %{ $facts->{rows} })
	{
		delete @{$rows}{@ids};
	}
	return $facts;
}

# Sections with these fields, each of a lock of its own; and faults.
sub held
{
	my ($held, @faults) = @_;
	my $number = 0;
	my @sections = map {
		$number++;
		section(
			"1.$number", 10,
			path => "/$number",
			counter => 'none',
			token => $number,
			%$_)
	} @$held;
	my @lost = map { $_->{id} } grep { $_->{refused} } @sections;
	return without_rows(facts(\@sections, faults => \@faults), @lost);
}

foreach my $case (
	[ 'locks that are held while a follower hangs', \%long, [], '' ],
	[ 'locks that are lost while a follower hangs', \%lost, [], $kept ],
	[
		'or while their backend is stopped as well', \%lost,
		[ fault('pause_long', 12, 18) ], ''
	],
	[
		'or their session parted from all servers', \%lost,
		[ fault('part_backend', 12, 18, session => '0x1', pid => 1) ], ''
	],
	[
		'another one being parted is no reason', \%lost,
		[ fault('part_backend', 12, 18, session => '0x2', pid => 1) ], $kept
	],
	[
		'and another follower is not, either', \%lost,
		[
			fault(
				'pause_follower', 12, 18, %server, text => 'server 2: 0x11')
		],
		$kept
	],
	[
		'but a leader is', \%lost,
		[ fault('pause_leader', 12, 18, %server) ], ''
	],
	[
		'and a fault that ended long before is not, either', \%lost,
		[ fault('pause_long', 1, 5) ], $kept
	])
{
	my ($what, $fields, $faults, $claim) = @$case;
	finds($what, held([ ($fields) x 3 ], $hung, @$faults), $claim);
}
finds('two of those that are held', held([ \%lost, \%lost, \%long ], $hung), '', 2);
finds('three of many',
	held([ (\%lost) x 3, (\%long) x 9 ], $hung), '', 3);
finds(
	'locks that were lost while a follower of others hangs',
	held([ ({ %lost, session => '0x2' }) x 3 ], $hung), '');
finds('locks that were held for no long time',
	held([ ({ %lost, time => 0.1 }) x 3 ], $hung), '');

# ---- Commits.

{
	my $facts = facts([ section('1.1', 10), section('1.2', 12, seen => 1) ]);
	delete $facts->{rows}{alpha}{'1.2'};
	$facts->{counters}{alpha}{plain}{'/p'} = 1;
	finds('a commit that was acknowledged is not there', $facts, $commits);
}
finds('a commit that was refused is there',
	facts([ section('1.1', 10, commit => 'ZKL01') ]), $commits);
finds('a commit of which nothing is known is there',
	facts([ section('1.1', 10, commit => 'lost') ]), '');
finds(
	'a row that no section wrote',
	facts(
		[ section('1.1', 10) ],
		rows => {
			alpha => {
				'1.1' => {
					path => '/p',
					counter => 'plain',
					seen => 0,
					token => 99
				}
			}
		}),
	"$commits");

# ---- Failovers.

my $failover = fault('failover', 10.5, 15, scope => 'cluster', applied => 13);

# Of two sections, one on each counter, the first one's row is not there.
sub first_lost
{
	my ($sections, @faults) = @_;
	my $facts = without_rows(facts($sections, faults => [@faults]), '1.1');
	delete $facts->{counters}{alpha}{plain};
	return $facts;
}
my @pair = (section('1.1', 10), section('1.2', 13, counter => 'fenced'));
finds('a commit that was lost by a failover', first_lost(\@pair, $failover), '');
finds(
	'another cluster has failed over',
	first_lost(\@pair, { %$failover, cluster => 'beta' }), $commits);
finds('the commit was replicated before',
	first_lost(\@pair, { %$failover, begin => 11.5 }), $commits);
finds('the primary was dead before',
	first_lost(\@pair, { %$failover, applied => 10.9 }), $commits);
finds(
	'a later one was not lost',
	first_lost(
		[
			section('1.1', 10),
			section('1.2', 11.2, counter => 'fenced', commit_sent => 12.2)
		],
		$failover),
	$failovers);
finds(
	'a counter that does not go back with it',
	do
	{
		my $facts = first_lost([ section('1.1', 10) ], $failover);
		$facts->{rows}{alpha}{'1.2'} =
		  { path => '/p', counter => 'plain', seen => 1, token => 130 };
		$facts->{sections}{'1.2'} = section('1.2', 13, seen => 1);
		$facts->{counters}{alpha}{plain}{'/p'} = 2;
		$facts;
	},
	$plain);

# ---- Two phases.

# A section that was prepared, with or without its row.
sub prepared
{
	my ($row, %fields) = @_;
	my $facts =
	  facts([ section('1.1', 10, kind => 'prepared', prepare => 'ok', %fields) ]);
	return $facts if $row;
	delete $facts->{counters}{alpha};
	return without_rows($facts, '1.1');
}
finds('COMMIT PREPARED', prepared(1), '');
finds(
	'COMMIT PREPARED is refused, and rolled back',
	prepared(0, commit => 'ZKL01', rollback_prepared => 'ok'), '');
finds(
	'COMMIT PREPARED is refused, and has taken effect',
	prepared(1, commit => 'ZKL01', rollback_prepared => '42704'),
	"$commits,$prepared");
finds(
	'COMMIT PREPARED is refused, and the transaction is gone',
	prepared(0, commit => 'ZKL01', rollback_prepared => '42704'), $prepared);
finds(
	'ROLLBACK PREPARED is refused',
	prepared(0, commit => 'ZKL01', rollback_prepared => 'ZKL01'), $prepared);
finds(
	'the connection is lost between the two',
	prepared(0, commit => 'ZKL01', rollback_prepared => 'lost'), '');
finds(
	'PREPARE TRANSACTION is refused, and has taken effect',
	prepared(
		0,
		prepare => 'ZKL01',
		resolve => 'ok',
		commit => undef,
		commit_sent => undef),
	$prepared);
finds(
	'COMMIT PREPARED while another session holds the lock',
	do
	{
		my $facts = prepared(1, commit_sent => 13, commit_returned => 13.1);
		my $other = section('2.1', 12, cluster => 'beta');
		$facts->{sections}{'2.1'} = $other;
		$facts->{rows}{beta}{'2.1'} =
		  { map { $_ => $other->{$_} } qw(path counter seen token) };
		$facts->{counters}{beta}{plain}{'/p'} = 1;
		$facts;
	},
	$overlap);

# ---- Two clusters.

# A section of alpha with a row in beta; what is there of it; what was done.
sub foreign
{
	my ($here, $there, $faults, %fields) = @_;
	my $facts = facts([ section('1.1', 10, kind => 'foreign', %fields) ],
		faults => $faults);
	$facts->{guests}{beta}{'1.1'} = 1 if $there;
	return $facts if $here;
	delete $facts->{counters}{alpha};
	return without_rows($facts, '1.1');
}

# What can come between the two commits.
my @between = (
	fault('terminate', 11.05, 11.05),
	fault('cancel', 11.05, 11.05),
	fault('kill_backend', 11.05, 11.05, scope => 'cluster', pid => 1),
	fault(
		'kill_backend', 11.05, 11.05,
		scope => 'cluster',
		pid => 1,
		cluster => 'beta'));
my ($terminate, $cancel, $crash_here, $crash_there) = @between;
my $failover_there = { %$failover, cluster => 'beta' };
my @never = (commit => undef, commit_sent => undef, commit_returned => undef);

foreach my $case (
	[ 'both rows', 1, 1, [], [], '' ],
	[ 'neither', 0, 0, [], [ commit => 'ZKL01' ], '' ],
	[ 'neither, and no COMMIT', 0, 0, [], [@never], '' ],
	[
		'a foreign row of a commit that was refused', 0, 1,
		[], [ commit => 'ZKL01' ],
		$foreign
	],
	[
		'for which a fault is no excuse', 0, 1,
		[@between], [ commit => 'ZKL01' ],
		$foreign
	],
	[ 'a foreign row without a COMMIT', 0, 1, [@between], [@never], $foreign ],
	[
		'a foreign row of a commit that is not known', 0, 1,
		[], [ commit => 'lost' ],
		$foreign
	],
	[
		'of a backend that was terminated', 0, 1,
		[$terminate], [ commit => 'lost' ],
		'', 1
	],
	[
		'or whose cluster crashed', 0, 1,
		[$crash_here], [ commit => 'lost' ],
		'', 1
	],
	[
		'or was only cancelled', 0, 1, [$cancel], [ commit => 'lost' ], $foreign
	],
	[
		'another backend was terminated', 0, 1,
		[ { %$terminate, pid => 101 } ], [ commit => 'lost' ],
		$foreign
	],
	[
		'or its own, but before', 0, 1,
		[ { %$terminate, begin => 9, end => 9 } ], [ commit => 'lost' ],
		$foreign
	],
	[
		'a COMMIT that was cancelled', 0, 1,
		[$cancel], [ commit => '57014' ],
		'', 1
	],
	[
		'by no section', 0, 1, [$terminate], [ commit => '57014' ], $foreign
	],
	[
		'a COMMIT during which the other cluster crashed', 0, 1,
		[$crash_there], [ commit => '08006' ],
		'', 1
	],
	[
		'or did not', 0, 1, [$crash_here], [ commit => '08006' ], $foreign
	],
	[ 'a local row only', 1, 0, [@between], [], $foreign ],
	[ 'the other one was lost in a failover', 1, 0, [$failover_there], [], '' ],
	[ 'not by one here', 1, 0, [$failover], [], $foreign ],
	[ 'a foreign row only, after a failover here', 0, 1, [$failover], [], '' ],
	[
		'of a commit that was refused', 0, 1,
		[$failover], [ commit => 'ZKL01' ],
		$foreign
	])
{
	my ($what, $here, $there, $faults, $fields, @verdict) = @$case;
	finds($what, foreign($here, $there, $faults, @$fields), @verdict);
}
{
	my $facts = facts([ clean() ]);
	$facts->{guests}{alpha}{'9.9'} = 1;
	finds('a foreign row that no section wrote', $facts, $foreign);
}

# ---- Jobs.

# A history with these runs of a job that was to run three times.
sub job
{
	my (@numbers) = @_;
	my $at = 10;
	my @sections = map {
		section(
			'1.' . $at, $at += 2,
			path => '/j',
			kind => 'job',
			counter => 'job',
			seen => $_,
			again => $_)
	} @numbers;
	my $facts = facts(\@sections);
	$facts->{params}{jobs} = { paths => { alpha => ['/j'], beta => [] }, last => 2 };
	return $facts;
}
finds('each run once', job(0, 1, 2), '');
finds('a run that was left out', job(0, 2), $runs);
finds('the last ones were left out', job(0), $runs);
finds('a run that was repeated', job(0, 1, 1, 2), $runs);
finds(
	'a run that was repeated, because its work was lost',
	do
	{
		my $facts = job(0, 1, 1, 2);
		$facts->{faults} = [ { %$failover, begin => 14.5, applied => 16 } ];
		without_rows($facts, '1.12');
	},
	'');

# ---- What clients were told, and what is left.

my %calls = (count => 10, outcomes => { read => { '55000' => 1 } }, slow => []);
finds('an error that no fault gives reason for',
	facts([ clean() ], calls => \%calls), $errors);
$calls{outcomes} = { resolve => { '42704' => 1 } };
finds('a prepared transaction that is gone',
	facts([ clean() ], calls => \%calls), '');
$calls{outcomes} = { look => { '42704' => 1 } };
finds('something else that is gone', facts([ clean() ], calls => \%calls), $errors);
finds('a worker that failed',
	facts([ clean() ], accidents => ['worker 1: it cannot be']), $errors);

my %slow = (
	worker => 1,
	id => '1.1',
	cluster => 'alpha',
	pid => 100,
	name => 'acquire',
	outcome => 'ok',
	limit => 10);

foreach my $case (
	[ 'a call that takes too long', 45, [], $hang ],
	[ 'a call that takes a little longer', 30, [], '' ],
	[
		'a call of a backend that was stopped', 45,
		[ fault('pause', 5, 40) ], ''
	],
	[
		'a call of a backend that was stopped, but not for long', 45,
		[ fault('pause', 5, 6) ], $hang
	])
{
	my ($what, $end, $faults, $claim) = @$case;
	finds(
		$what,
		facts(
			[ clean() ],
			faults => $faults,
			calls => {
				count => 1,
				outcomes => { acquire => { ok => 1 } },
				slow => [ { %slow, begin => 0, end => $end } ]
			}),
		$claim);
}

# The end of a history, with one thing changed.
sub ended_with
{
	my ($name, @fields) = @_;
	my $facts = facts([ clean() ]);
	$facts->{end}{$name} = [@fields];
	return $facts;
}
finds('a worker that does not end', ended_with('idle', [ 1, 2 ]), $hang);
finds(
	'an orphan',
	ended_with('rest', [ 'idle', 8, 1, 0 ]),
	'no orphan contender after twice the session timeout');
finds(
	'a watch that is left',
	ended_with('rest', [ 'idle', 8, 0, 1 ]),
	'no watch left after twice the session timeout');
finds('a backend that is left', ended_with('backends', [1]), $crash);
my $line = 'server process (PID 100) was terminated by signal';
finds('a crash',
	facts([ clean() ], crashes => ["$line 11: Segmentation fault"]), $crash);
finds('a process that the nemesis has not killed',
	facts([ clean() ], crashes => ["$line 9: Killed"]), $crash);
finds(
	'a process that the nemesis has killed',
	facts(
		[ clean() ],
		crashes => ["$line 9: Killed"],
		faults => [ fault('kill_backend', 1, 1) ]),
	'');
finds(
	'memory that grows',
	facts(
		[ clean() ],
		memory => { 'alpha 100' => [ map { [ $_, 1000 * $_ ] } 1 .. 12 ] }),
	'memory is flat');

# Samples of a life, with so much more in its second half.
sub memory
{
	my ($samples, $more) = @_;
	return {
		'alpha 100' => [
			map { [ $_, $_ < $samples / 2 ? 3000 : 3000 + $more ] }
			  1 .. $samples
		]
	};
}
finds('memory that grows in a young backend',
	facts([ clean() ], memory => memory(12, 500)), '');
finds(
	'memory that grows as much in an old one',
	facts([ clean() ], memory => memory(160, 500)),
	'memory is flat');

# ---- Nothing proves nothing.

my $empty = ChaosChecker->new(
	facts(
		[],
		end => {},
		memory => {},
		calls => { count => 0, outcomes => {}, slow => [] }))->check;
is_deeply([ map { $_->{claim} } grep { $_->{facts} > 0 } @$empty ],
	[], 'an empty history has no facts for any claim');

done_testing();
