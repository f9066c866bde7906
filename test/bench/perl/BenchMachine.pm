
=pod

=head1 NAME

BenchMachine - where the bench runs, and on what versions of everything

=head1 FUNCTIONS

=over

=item machine_facts($world)

Lines of text.

=back

=cut

package BenchMachine;

use strict;
use warnings;

use BenchStats;
use Exporter 'import';
use IO::Handle;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time);

our @EXPORT = qw(machine_facts);

# How often the disk is asked to sync.
my $syncs = 200;

# The first line that a command prints and that matches; empty if there is none.
sub output_of
{
	my ($command, $pattern) = @_;
	foreach my $line (qx(($command) 2>&1))
	{
		return $1 if $line =~ $pattern;
	}
	return '';
}

# Of one of Debian's packages; empty if it is not installed.
sub package_version
{
	my ($package) = @_;
	return output_of("dpkg-query -W -f '\${Version}\\n' $package", qr/^(\d.*)$/);
}

# How long the disk takes to keep 4 kB more of a file: a median in milliseconds.
sub sync_time
{
	my $file = "$PostgreSQL::Test::Utils::tmp_check/sync";
	my @durations;
	open my $handle, '>', $file or die "$file: $!";
	foreach (1 .. $syncs)
	{
		my $start = time;
		syswrite $handle, 'x' x 4096;
		$handle->sync;
		push @durations, 1000 * (time - $start);
	}
	close $handle;
	unlink $file;
	return median(@durations);
}

sub machine_facts
{
	my ($world) = @_;
	my $cores = grep { /^processor/ } split /^/, slurp_file('/proc/cpuinfo');
	my ($model) = slurp_file('/proc/cpuinfo') =~ /^model name\s*:\s*(.*)$/m;
	my ($memory) = slurp_file('/proc/meminfo') =~ /^MemTotal:\s*(\d+)/m;
	my $server = $world->ensemble->four_letter($world->ensemble->leader, 'srvr');
	my ($zookeeper) = $server =~ /version: ([^-,\s]+)/;
	my @facts = (
		[ 'processor', sprintf '%d cores, %s', $cores, $model // 'unknown' ],
		[ 'memory', sprintf '%.0f GB', $memory / 1024 / 1024 ],
		[ 'kernel', output_of('uname -sr', qr/(.*)/) ],
		[
			'disk',
			sprintf '%.2f ms for fsync of 4 kB (median; taken when all was done)',
			sync_time()
		],
		[ 'PostgreSQL', output_of('postgres --version', qr/([0-9].*)/) ],
		[ 'ZooKeeper server', $zookeeper ],
		[ 'libzookeeper_mt', package_version('libzookeeper-mt2') ],
		[ 'Java', output_of('java -version', qr/version "(.*?)"/) ],
		[ 'Curator', package_version('libcurator-recipes-java') ],
		[ 'kazoo', package_version('python3-kazoo') ],
		[ 'Redis', output_of('redis-server --version', qr/v=(\S+)/) ]);
	return map { "$_->[0]: $_->[1]" } grep { $_->[1] } @facts;
}

1;
