
=pod

=head1 NAME

BenchCalls - the system calls of a cycle

=head1 SYNOPSIS

  my $calls = measure_calls($world);
  $calls->{zklock}{total};
  $calls->{zklock}{threads}{caller}{futex};
  $calls->{zklock}{clock}{total};

=head1 DESCRIPTION

strace counts them in each thread of the process that acquires and releases a lock: in a
backend PostgreSQL's own belong to them.  strace makes that process slow, but not the one
that sends it statements.  So there is a pause before each statement: then a backend waits
for it, as it does without strace.

Both make a cycle take several times as long, in which timers run that a cycle does not
need.  So calls that run by the clock are counted separately, and divided by the time.
These are waits that end because their time is over, and the calls that their thread makes
after that, up to its next wait.

=cut

package BenchCalls;

use strict;
use warnings;

use BenchWatch;
use Exporter 'import';
use File::Path qw(make_path rmtree);
use List::Util qw(sum0);
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time);

our @EXPORT = qw(measure_calls);

# How many cycles are counted.
my $cycles = 1000;

# The pause, in microseconds.
my $pause = 2000;

=pod

=head1 FUNCTIONS

=over

=item measure_calls($world)

A hash by client, of hashes: C<total>, the calls of a cycle, and C<threads>, a hash by role
(see BenchWatch) of hashes by call; C<clock>, a hash of the same for the calls of a second
that run by the clock.  If a client cannot be traced, C<failure> says why.

=back

=cut

sub measure_calls
{
	my ($world) = @_;
	return watch_clients($world, \&client_calls);
}

sub client_calls
{
	my ($world, $who) = @_;
	my $peer = $world->peer($who);
	my $pid = session_process($world, $who);
	my %roles = thread_roles($pid);
	my $dir = "$PostgreSQL::Test::Utils::tmp_check/strace";
	rmtree($dir);
	make_path($dir);

	# A file for each thread, with a line for each call, as short as possible.
	my $strace = BenchWatch->new(qw(strace -ff -q -s 0 -e signal=none),
		'-o', "$dir/thread", '-p', $pid);
	$strace->await(sub { is_traced($pid) });
	my $start = time;
	$peer->command("pause $pause") if $who eq 'zklock';
	$peer->command("cycle /bench/$who/watched $cycles");
	$peer->command('pause 0');
	my $seconds = time - $start;
	$strace->stop;

	my (%cycle, %clock);
	foreach my $file (glob "$dir/thread.*")
	{
		my ($thread) = $file =~ /(\d+)$/;
		my $role = thread_role(\%roles, $thread);
		foreach my $call (calls(slurp_file($file)))
		{
			my ($name, $is_timed) = @$call;
			my ($calls, $times) = $is_timed ? (\%clock, $seconds) : (\%cycle, $cycles);
			$calls->{$role}{$name} += 1 / $times;
		}
	}
	return { %{ counted(\%cycle) }, clock => counted(\%clock) };
}

# The calls of a thread: name, and whether it runs by the clock.  One that reads a timer
# that it sets does; that it may have been woken by the same timer is not seen here.
sub calls
{
	my ($lines) = @_;
	my ($timer) = $lines =~ /^timerfd_settime\((\d+)/m;
	my $is_timed = 0;
	my @calls;
	while ($lines =~ /^(\w+)\((.*)$/mg)
	{
		my ($name, $rest) = ($1, $2);
		if ($name =~ /poll/)
		{
			$is_timed = $rest =~ /= 0\b/;
		}
		elsif ($rest =~ /FUTEX_WAIT/)
		{
			$is_timed = $rest =~ /ETIMEDOUT/;
		}
		elsif ($name eq 'read' && defined $timer && $rest =~ /^$timer,/)
		{
			$is_timed = 1;
		}
		push @calls, [ $name, $is_timed ];
	}
	return @calls;
}

sub counted
{
	my ($threads) = @_;
	return {
		total => 0 + sprintf('%.1f', sum0(map { values %$_ } values %$threads)),
		threads => $threads
	};
}

# Are all threads of a process traced?
sub is_traced
{
	my ($pid) = @_;
	my @states = map { slurp_file($_) } glob "/proc/$pid/task/*/status";
	return !grep { /^TracerPid:\s*0$/m } @states;
}

1;
