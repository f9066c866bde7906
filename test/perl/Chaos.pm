
=pod

=head1 NAME

Chaos - a chaos run from beginning to end, as tests

=head1 SYNOPSIS

  my $world = ChaosWorld->new;
  my $facts = run_chaos($world, seconds => 30, seed => 's');
  report_chaos($facts);

=cut

package Chaos;

use strict;
use warnings;

use ChaosHistory;
use ChaosNemesis;
use ChaosRandom qw(now);
use ChaosReport;
use ChaosWorld;
use Exporter 'import';
use List::Util qw(sum0);
use Test::More;

our @EXPORT = (qw(run_chaos), @ChaosReport::EXPORT);

=pod

=head1 FUNCTIONS

=over

=item run_chaos($world, %params)

Let workers work and the nemesis strike; returns the facts.  C<seconds>,
C<seed>, C<faults>: parameters of the nemesis, and what C<begin> of ChaosWorld
takes.

=back

What ChaosReport exports is exported from here as well.

=cut

sub run_chaos
{
	my ($world, %params) = @_;
	my $faults = delete $params{faults} // {};
	my $run = $world->begin(%params);
	my $nemesis = ChaosNemesis->new($run, %$faults);
	my $tell_at = now() + 30;

	while ($run->remaining > 0)
	{
		$nemesis->tick;
		if (now() > $tell_at)
		{
			note sprintf '%d s to go, %d faults', $run->remaining,
			  sum0 values %{ $nemesis->count };
			$tell_at += 30;
		}
		$nemesis->rest;
	}
	$nemesis->end;
	$run->finish;
	note 'facts: ' . $run->folder;
	return ChaosHistory::read_facts($run->folder);
}

1;
