
=pod

=head1 NAME

BenchProfile - where the processor time of a cycle goes

=head1 SYNOPSIS

  my $profile = measure_profile($world);
  my ($role, $function, $file, $microseconds) = @{ $profile->{zklock}{rows}[0] };

=head1 DESCRIPTION

perf takes samples by the clock of the processors, which also works in virtual machines.
That makes each switch between threads more expensive, and an ordinary user may mostly not
see what the kernel does.  So samples tell what functions take, and how much a thread takes
is measured without perf; the difference is the kernel's.

=cut

package BenchProfile;

use strict;
use warnings;

use BenchProcessor;
use BenchStats;
use BenchWatch;
use Exporter 'import';
use File::Basename;
use List::Util qw(max min sum0);
use PostgreSQL::Test::Utils;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

our @EXPORT = qw(measure_profile);

# For how long samples are taken, in seconds, and after how many nanoseconds each.
my $duration = 5;
my $period = 250_000;

=pod

=head1 FUNCTIONS

=over

=item measure_profile($world)

A hash by client, of hashes: C<total>, the microseconds of a cycle, and C<rows>: role (see
BenchWatch), function, file, microseconds of a cycle.  The kernel has no file.  If a client
cannot be watched, C<failure> says why.

=back

=cut

sub measure_profile
{
	my ($world) = @_;
	return watch_clients($world, \&client_profile);
}

sub client_profile
{
	my ($world, $who) = @_;
	my $pid = session_process($world, $who);
	my %roles = thread_roles($pid);
	my $cycle = "cycle /bench/$who/watched";
	my $file = "$PostgreSQL::Test::Utils::tmp_check/perf.data";
	my $median = median($world->peer($who)->command("$cycle 100"));
	my $cycles = min(50_000, max(200, int($duration * 1e6 / $median)));

	my %before = thread_times($pid);
	$world->peer($who)->command("$cycle $cycles");
	my %after = thread_times($pid);

	my $perf = BenchWatch->new(qw(perf record -q -k mono -e cpu-clock:u),
		'-c', $period, '-o', $file, '-p', $pid);
	$perf->await(
		sub {
			grep { (readlink // '') =~ /perf_event/ } glob "/proc/$perf->{pid}/fd/*";
		});
	$world->peer($who)->command("$cycle 100");
	my $begin = clock_gettime(CLOCK_MONOTONIC);
	$world->peer($who)->command("$cycle $cycles");
	my $end = clock_gettime(CLOCK_MONOTONIC);
	$perf->stop;

	# By role, and by function and file.
	my %taken;
	$taken{ thread_role(\%roles, $_) }{"kernel\n"} += ($after{$_} - ($before{$_} // 0)) / $cycles
	  foreach keys %after;
	my $total = sum0(map { values %$_ } values %taken);
	foreach my $sample (samples($file))
	{
		my ($thread, $time, $function) = @$sample;
		next if $time < $begin || $time > $end;
		my $functions = $taken{ thread_role(\%roles, $thread) } //= {};
		$functions->{$function} += $period / 1000 / $cycles;
		$functions->{"kernel\n"} -= $period / 1000 / $cycles;
	}
	return { total => $total, rows => [ rows(\%taken) ] };
}

# The samples of a file: thread, when, and function and file on a line each.
sub samples
{
	my ($file) = @_;
	my @samples;
	open my $script, '-|', "perf script -i '$file' -F tid,time,ip,sym,dso 2>/dev/null"
	  or die "perf script: $!\n";
	while (my $line = <$script>)
	{
		my ($thread, $time, $symbol, $library) =
		  $line =~ /^\s*(\d+)\s+([\d.]+):\s+[0-9a-f]+\s+(.*?)\s+\((.*)\)$/
		  or next;
		push @samples, [ $thread, $time, "$symbol\n" . basename($library) ];
	}
	close $script;
	die "perf has taken no samples\n" unless @samples;
	return @samples;
}

# What each thread has taken, in no order.
sub rows
{
	my ($taken) = @_;
	my @rows;
	foreach my $role (keys %$taken)
	{
		my $functions = $taken->{$role};
		push @rows, map { [ $role, split(/\n/, $_, 2), $functions->{$_} ] }
		  keys %$functions;
	}
	return @rows;
}

1;
