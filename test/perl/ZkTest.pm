
=pod

=head1 NAME

ZkTest - functions for the tests and their modules

=head1 SYNOPSIS

  wait_for(sub { ... }, 'the second waiter to queue up');
  wait_for(sub { ... }, 'the ensemble to elect a leader', 60);

=cut

package ZkTest;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use File::Basename;
use File::Spec;
use List::Util qw(max min);
use POSIX ();
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(wait_for);
our @EXPORT_OK =
  qw(check_exits check_fast children_of cpu_time gave_up has_sasl_plugin is_connected process_status start_preloaded stop_process
  time_to_end times_until_fast wait_for_cluster);

# Die of these signals instead of just ending: then the END blocks run, ours
# and those of PostgreSQL::Test::Cluster, and stop the servers.
foreach my $signal (qw(INT TERM HUP))
{
	$SIG{$signal} = sub { die "ended by SIG$signal\n" };
}

=pod

=head1 FUNCTIONS

=over

=item wait_for($condition, $what, $seconds)

Call the condition until it returns something true, and return that: every millisecond at
first, and less and less often, down to every 50 ms, as the tests beside this one need the
processor.  Dies when the time (default: 60 s) is up, with C<$what> in the message.

=cut

sub wait_for
{
	my ($condition, $what, $seconds) = @_;
	my $begin = time;
	my $deadline = $begin + ($seconds // 60);
	while (1)
	{
		my $result = $condition->();
		return $result if $result;
		croak "timed out waiting for $what" if time > $deadline;
		sleep max(0.001, min(0.05, (time - $begin) / 16));
	}
}

=pod

=item wait_for_cluster($node)

Wait until a cluster that restarts after a crash accepts connections.  Not by a query:
psql ends without it while there are none, and to write to a psql that has ended is an
error.

=cut

sub wait_for_cluster
{
	my ($node) = @_;
	my @command = ('pg_isready', '-q', '-h', $node->host, '-p', $node->port);
	wait_for(sub { system(@command) == 0 }, 'the cluster ' . $node->name . ' to restart');
	return;
}

=pod

=item children_of($pid)

The processes that a process has started.

=cut

sub children_of
{
	my ($pid) = @_;
	return split ' ', PostgreSQL::Test::Utils::slurp_file("/proc/$pid/task/$pid/children");
}

=pod

=item cpu_time($pid)

How much of a processor a process, with all its threads, has used, in seconds.

=item has_sasl_plugin($name)

Has Cyrus SASL this plugin here?

=item is_connected($pid, @ports)

Has a process a connection to one of these ports, as its kernel sees it?

=item stop_process($pid)

SIGSTOP, and wait until each thread of the process has stopped: a process that has just
been sent the signal continues to work until a processor handles it.

=item time_to_end($pid)

Wait for a process to end; returns after how many seconds it has.

=item gave_up($node, $log)

How many backends have said since the server log was that long that they leave their
ZooKeeper session to its expiry: on a busy machine the half second that the exit of a
backend waits may not suffice.

=item times_until_fast($limit, $least, $round)

Call the code, which returns after how many seconds something happened, so many times at
least, and go on until it was faster than the limit once, but not for ever: on a busy
machine few rounds may be as fast as promised, but what is slow never is.  Returns the
seconds of all rounds.

=item check_fast($what, $limit, $least, $round)

The same, as a test that it was faster than the limit once.

=item check_exits($what, $node, $limit, $late, $least, $round)

The same for something that the exit of a backend brings about; and a test that no more
rounds took as long as $late than backends gave up, as the server log says.

=item process_status($pid, $name)

A field of /proc/PID/status, or of a thread's if it is named as PID/task/TID.

=item start_preloaded($node, $library, %environment)

Start a PostgreSQL::Test::Cluster with one of the libraries of test/tools loaded
before all others, and with the environment that it needs.

=back

These have to be asked for by name.

=cut

sub cpu_time
{
	my ($pid) = @_;
	my $stat = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/stat");
	my @fields = split ' ', $stat =~ s/^.*\) //sr;
	return ($fields[11] + $fields[12]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

sub has_sasl_plugin
{
	my ($name) = @_;
	return grep { -e } glob "/usr/lib*/sasl2/lib$name.so /usr/lib/*/sasl2/lib$name.so";
}

sub is_connected
{
	my ($pid, @ports) = @_;
	my %port = map { $_ => 1 } @ports;
	my %own = map { (readlink($_) // '') =~ /^socket:\[(\d+)\]$/ ? ($1 => 1) : () }
	  glob "/proc/$pid/fd/*";
	foreach (split /\n/, PostgreSQL::Test::Utils::slurp_file('/proc/net/tcp'))
	{
		my (undef, undef, $to, $state, undef, undef, undef, undef, undef, $inode) = split;
		next unless defined $inode && $state eq '01' && $own{$inode};
		return 1 if $port{ hex((split /:/, $to)[1]) };
	}
	return 0;
}

sub process_status
{
	my ($process, $name) = @_;
	my $status = PostgreSQL::Test::Utils::slurp_file("/proc/$process/status");
	my ($value) = $status =~ /^$name:\s*(\w+)/m;
	return $value;
}

sub start_preloaded
{
	my ($node, $library, %environment) = @_;
	my $path = File::Spec->rel2abs(
		File::Spec->catfile(dirname(__FILE__), '..', 'tools', $library));
	croak "$path is missing: run make in test/tools" unless -e $path;
	local @ENV{ keys %environment } = values %environment;
	local $ENV{LD_PRELOAD} = $path;
	$node->start;
	return;
}

# Has each thread of a process stopped?
sub stopped
{
	my ($pid) = @_;
	foreach my $file (glob "/proc/$pid/task/*/stat")
	{
		open my $stat, '<', $file or next;
		return 0 if (<$stat> // ') T ') !~ /\) T /;
	}
	return 1;
}

sub stop_process
{
	my ($pid) = @_;
	kill('STOP', $pid) or croak "cannot stop $pid: $!";
	wait_for(sub { stopped($pid) }, "process $pid to stop");
	return;
}

# Returns true if a process has ended.  Its parent may be slow to collect it.
sub ended
{
	my ($pid) = @_;
	open my $stat, '<', "/proc/$pid/stat" or return 1;
	return (<$stat> // ') Z') =~ /\) Z/;
}

sub time_to_end
{
	my ($pid) = @_;
	my $start = time;
	until (ended($pid))
	{
		die "process $pid does not end" if time - $start > 60;
		sleep 0.002;
	}
	my $took = time - $start;
	note sprintf 'process %d is gone after %.3f s', $pid, $took;
	return $took;
}

sub gave_up
{
	my ($node, $log) = @_;
	my $count = () = PostgreSQL::Test::Utils::slurp_file($node->logfile, $log) =~
	  /could not close the ZooKeeper session in time/g;
	return $count;
}

sub times_until_fast
{
	my ($limit, $least, $round) = @_;
	my @times;
	push @times, $round->()
	  while @times < $least || (min(@times) >= $limit && @times < 10 * $least);
	return @times;
}

sub check_fast
{
	my ($what, $limit, $least, $round) = @_;
	my @times = times_until_fast($limit, $least, $round);
	cmp_ok(min(@times), '<', $limit, $what);
	return @times;
}

sub check_exits
{
	my ($what, $node, $limit, $late, $least, $round) = @_;
	my $log = -s $node->logfile;
	my @times = check_fast("$what: at once", $limit, $least, $round);
	my $gave_up = gave_up($node, $log);
	note sprintf '%s: after %.1f to %.1f ms; given up: %d', $what, 1000 * min(@times),
	  1000 * max(@times), $gave_up;
	cmp_ok(scalar(grep { $_ >= $late } @times),
		'<=', $gave_up, "$what: every time, or the log says that it gave up");
	return;
}

1;
