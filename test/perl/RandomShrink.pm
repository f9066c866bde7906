
=pod

=head1 NAME

RandomShrink - the shortest list of steps that fails in the same way

=head1 SYNOPSIS

  my @fewer = shrink($world, $failure->{kind}, 60, $run->lines);

=head1 DESCRIPTION

Steps are left out, first many at a time and then each (delta debugging), and then
operations of those that have several, as long as the run still fails with the same
kind of failure.  A step that the model does not allow any more is passed over.

=cut

package RandomShrink;

use strict;
use warnings;

use Exporter 'import';
use List::Util qw(max min);
use Test::More;
use Time::HiRes qw(time);
use RandomRun;
use RandomStep;

our @EXPORT_OK = qw(play_lines shrink);

=pod

=head1 FUNCTIONS

=over

=item play_lines($world, $strict, @lines)

Run these steps; returns the RandomRun and the failure, if any.  Where C<$strict>, a step
that the model does not allow is a failure.

=item shrink($world, $kind, $seconds, @lines)

Returns the steps that are left when no fewer fail, or so many seconds are over.

=back

=cut

sub play_lines
{
	my ($world, $strict, @lines) = @_;
	my $sessions = max 1, map { /^0 \w+ (\d+)|^(\d+)/ ? $1 // $2 : () } @lines;
	my $run = RandomRun->new($world, $sessions);
	my $failure = $run->play(
		sub {
			my ($model) = @_;
			while (@lines)
			{
				my $step = RandomStep->new(shift @lines);
				my $next = $model->predict($step);
				return ($step, $next) if $next;
				die { kind => 'impossible', text => $step->line } if $strict;
			}
			return;
		});
	return ($run, $failure);
}

# The steps that were executed, if they fail in that way; else nothing.
sub still_fails
{
	my ($world, $kind, @lines) = @_;
	my ($run, $failure) = play_lines($world, 0, @lines);
	return $failure && $failure->{kind} eq $kind ? $run->lines : ();
}

# The line with some of its operations left out, each time others.
sub shorter_lines
{
	my ($line) = @_;
	my ($head, $list) = $line =~ /^(\d+ (?:do|call|function)) (.*)/ or return;
	my @operations = split / ; /, $list;
	my @shorter;
	foreach my $i (0 .. $#operations)
	{
		my %without = ($i => 1);
		next if $operations[$i] eq 'end';
		$without{ matching_end($i, @operations) } = 1 if $operations[$i] eq 'try';
		my @left = map { $without{$_} ? () : $operations[$_] } 0 .. $#operations;
		push @shorter, "$head " . join ' ; ', @left if @left;
	}
	return @shorter;
}

sub matching_end
{
	my ($i, @operations) = @_;
	my $depth = 0;
	for (;; $i++)
	{
		$depth += $operations[$i] eq 'try' ? 1 : $operations[$i] eq 'end' ? -1 : 0;
		return $i if $depth == 0;
	}
}

# Leave out pieces of that many lines.  Returns what is left.
sub without_pieces
{
	my ($world, $kind, $deadline, $size, @lines) = @_;
	for (my $at = max(0, @lines - $size); time < $deadline; $at -= $size)
	{
		my $begin = max(0, $at);
		my @tried = @lines;
		splice @tried, $begin, min($size, @tried - $begin);
		my @left = @tried ? still_fails($world, $kind, @tried) : ();
		@lines = @left if @left;
		last if $at <= 0;
	}
	return @lines;
}

# Leave out operations.
sub without_operations
{
	my ($world, $kind, $deadline, @lines) = @_;
	for (my $at = 0; $at < @lines; $at++)
	{
		my @shorter = shorter_lines($lines[$at]);
		while (@shorter && time < $deadline)
		{
			my @tried = @lines;
			$tried[$at] = shift @shorter;
			my @left = still_fails($world, $kind, @tried);
			next unless @left == @lines;
			@lines = @left;
			@shorter = shorter_lines($lines[$at]);
		}
	}
	return @lines;
}

sub shrink
{
	my ($world, $kind, $seconds, @lines) = @_;
	my $deadline = time + $seconds;
	my $before;
	do
	{
		$before = join "\n", @lines;
		for (my $size = int(@lines / 2) || 1; $size >= 1; $size = int($size / 2))
		{
			@lines = without_pieces($world, $kind, $deadline, $size, @lines);
		}
		@lines = without_operations($world, $kind, $deadline, @lines);
		note scalar(@lines) . ' steps are left';
	} while (time < $deadline && join("\n", @lines) ne $before);
	return @lines;
}

1;
