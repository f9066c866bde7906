# S371: random transactions of several sessions, each result of which a model predicts.
#
# RANDOM_SECONDS sets how long it goes on, after the first seed; default is a number of
# seeds that are always the same.  RANDOM_SEED is the first one.  RANDOM_SHRINK=1
# shortens the list of steps of a failure.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use RandomGenerator;
use RandomRun;
use RandomShrink qw(play_lines shrink);
use RandomWorld;

my $sessions = 4;
my $steps_each = 150;
my $seeds = 12;

my $seed = $ENV{RANDOM_SEED} || 1;
my $deadline = time + ($ENV{RANDOM_SECONDS} || 0);
my $world = RandomWorld->new;
my ($steps, $runs) = (0, 0);

# Write the steps of a failure where they can be found, and say what failed.
sub report
{
	my ($failure, @lines) = @_;
	my $file = "$ENV{TESTLOGDIR}/$seed.steps";
	if ($ENV{RANDOM_SHRINK})
	{
		@lines = shrink($world, $failure->{kind}, 300, @lines);
		(undef, my $last) = play_lines($world, 0, @lines);
		$failure = $last // $failure;
	}
	append_to_file($file, join '', map { "$_\n" } @lines);
	diag "$file:";
	diag $_ foreach @lines;
	diag "$failure->{kind}: $failure->{text}";
	return;
}

while ($ENV{RANDOM_SECONDS} ? !$runs || time < $deadline : $runs < $seeds)
{
	my $run = RandomRun->new($world, $sessions);
	my $generator = RandomGenerator->new($seed, $steps_each);
	my $failure = $run->play(sub { $generator->next($_[0]) });
	$steps += $run->count;
	$runs++;
	ok(!$failure, "S371: seed $seed, as predicted");
	if ($failure)
	{
		report($failure, $run->lines);
		last;
	}
	$seed++;
}
diag "random: $runs runs, $steps steps";

done_testing();
