# S371: lists of steps that have once failed, or that random steps would hardly ever come to.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;
use RandomShrink qw(play_lines);
use RandomWorld;

my $world = RandomWorld->new;

foreach my $file (sort glob 'test/random/stored/*.steps')
{
	my @lines = grep { !/^#/ } split /\n/, slurp_file($file);
	my ($run, $failure);

	# A run ends early where the machine was too slow for a limit of time.
	foreach (1 .. 10)
	{
		($run, $failure) = play_lines($world, 1, @lines);
		last if $failure || $run->count == @lines;
	}
	ok(!$failure && $run->count == @lines, 'S371: ' . basename($file) . ', as predicted')
	  or diag 'after ' . $run->count . " steps: $failure->{kind}: $failure->{text}";
}

done_testing();
