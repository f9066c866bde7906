# The cost of a place in a queue, in requests to the server: the queue is read at the
# beginning.  A waiter that did not begin right behind the holder reads it once more,
# when only the holder is left ahead.  There is no request between a release and the
# grant (S91).
#
# Each contender has a proxy of its own, which counts.  The session timeout is so long
# that there are no timed requests, with one exception: a session that has held a lock
# for longer than a moment, or is next, watches its own contender.  So the test
# evaluates a round without delays.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;

my $path = '/queue';

# In seconds, how long a hold may take, and a round: then contenders begin to watch
# themselves.
my $short_hold = 0.1;
my $short_round = 1;

my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 120000);
my $zk = $ensemble->zk;
my $node = zk_cluster('main', $ensemble,
	settings => { 'zklock.session_timeout' => '120s' });
my $holder = ZkPsql->new($node);
my $acquire = "SELECT zk_lock_acquire('$path')";
my $release = "SELECT zk_lock_release('$path')";
my @all = map {
	my $proxy = $ensemble->proxy;
	{ proxy => $proxy, session => ZkPsql->new($node, 'zklock.servers' => $proxy->address) }
} 1 .. 5;

# The first lock makes the connection.
foreach (@all)
{
	$_->{session}->ask($acquire);
	$_->{session}->ask($release);
	($_->{id}) = keys %{ $_->{proxy}->sessions };
}

# What a client has sent, and been told by watches, since the last time this was
# asked; added to the sum of its requests.  If a type and a number are given, not before
# so many of it have come.
sub sent
{
	my ($contender, @awaited) = @_;
	my $sent = $contender->{proxy}->cost(qr/^ping$/, @awaited);
	my %count = $sent =~ /(\w+)=(\d+)/g;
	$contender->{requests} += $count{$_} foreach grep { $_ ne 'event' } keys %count;
	return $sent;
}

# Have all queue up; returns them in the order of their contenders.
sub queue_up
{
	$holder->ask($acquire);
	foreach (@all)
	{
		sent($_);
		$_->{requests} = 0;
		$_->{session}->send($acquire);
	}
	$ensemble->wait_for_queue($path, 1 + @all);
	my @owners =
	  map { $zk->stat("/zklock$path/$_")->{ephemeralOwner} } $ensemble->queue($path);
	shift @owners;
	my %by_id = map { hex $_->{id} => $_ } @all;
	my @queue = map { $by_id{ hex $_ } } @owners;

	# Each watches the one ahead, and all but the first the one before that.  The holder
	# watches itself; so do the first two, which will not read the queue again.
	wait_for(
		sub {
			my $watches = $ensemble->count_watches;
			return $watches->{0} == 2 * @all - 1 && $watches->{1} >= 3;
		},
		'all watches');
	return @queue;
}

# Has the server answered that client's last request, which was to read the queue?
# What it says after that, it says after the answer.  A client that is held up has watched
# itself since.
sub has_read_the_queue
{
	my ($contender) = @_;
	return $ensemble->connections->{ $contender->{id} }{lop} eq 'GETC';
}

# One session after the other gets the lock, and holds it until the next one has heard
# that it is next.  The second one watches all that are ahead of it.  Returns whether a
# session was held up, and what each has sent: until the first release, after each
# release, and the number of its requests.
sub go_round
{
	my $start = time;
	my @queue = queue_up();
	my @sent = [ map { sent($_) } @queue ];
	my $since = $start + $short_round;
	my $slow;
	foreach my $turn (0 .. @queue)
	{
		my $now = time;
		($turn == 0 ? $holder : $queue[ $turn - 1 ]{session})->ask($release);
		$slow ||= time - $since > $short_hold;
		$since = $now;
		$queue[$turn]{session}->answer if $turn < @queue;
		$slow ||= !eval {
			wait_for(sub { has_read_the_queue($queue[ $turn + 1 ]) }, 'the next one to know', 5);
		} if $turn >= 1 && $turn < $#queue;

		# The second one hears of the first release over a proxy of its own.
		push @sent, [
			map { sent($queue[$_], $turn == 0 && $_ == 1 ? ('event', 1) : ()) } 0 .. $#queue ];
	}
	$slow ||= time - $start > $short_round;
	return ($slow, \@sent, [ map { $_->{requests} } @queue ]);
}

my ($slow, $sent, $requests);
my $rounds = 0;
wait_for(
	sub {
		$rounds++;
		($slow, $sent, $requests) = go_round();
		return !$slow;
	},
	'a round in which no session is held up',
	600);
note "round $rounds: until the first release: ", join('; ', @{ $sent->[0] });

# The list, the watches on the one or two ahead and, of the first two, on themselves.
is_deeply(
	$sent->[0],
	[ map { "create2=1 getChildren=1 getData=$_" } 2, 3, (2) x ($#all - 1) ],
	'S91: each waiter reads the queue, and sets two watches or three');

# What is expected of each after a release: the one before it, which releases, gets an
# event about that only if it has watched itself.
foreach my $turn (0 .. $#all)
{
	my @others = @{ $sent->[ $turn + 1 ] };
	my $what = 'release ' . ($turn + 1);
	is($others[$turn], 'event=1', "S91: $what: the next one has the lock by an event");
	is($others[ $turn + 1 ], $turn == 0 ? 'event=1' : 'event=1 getChildren=1',
		"S91: $what: the one behind it hears of it, and reads the queue if it must")
	  if $turn < $#all;
	splice @others, 0, $turn + 2;
	is("@others", ' ' x $#others, "S91: $what: no other session hears of it")
	  if @others;
}
is_deeply($requests, [ 5, (6) x $#all ],
	'S91: that is six requests in all, and five for the first in the queue');

done_testing();
