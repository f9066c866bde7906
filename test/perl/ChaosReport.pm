
=pod

=head1 NAME

ChaosReport - report the claims of a chaos run as tests

=head1 SYNOPSIS

  report_chaos(ChaosHistory::read_facts($folder));

=cut

package ChaosReport;

use strict;
use warnings;

use ChaosChecker;
use Exporter 'import';
use List::Util qw(min sum0);
use Test::More;

our @EXPORT = qw(check_chaos report_chaos violations);

# How many violations of one claim are printed.
my $told = 20;

=pod

=head1 FUNCTIONS

=over

=item check_chaos($facts)

The claims (see ChaosChecker).

=item violations($claims)

All of them.

=cut

sub check_chaos
{
	my ($facts) = @_;
	return ChaosChecker->new($facts)->check;
}

sub violations
{
	my ($claims) = @_;
	return map { @{ $_->{violations} } } @$claims;
}

=pod

=item report_chaos($facts)

One test for each claim, and tables of the events.

=back

=cut

sub report_chaos
{
	my ($facts) = @_;
	my $claims = check_chaos($facts);
	my $seed = $facts->{params}{seed};

	foreach my $claim (@$claims)
	{
		my @violations = @{ $claim->{violations} };
		my $proved = $claim->{facts} > 0 || $claim->{optional};
		ok(!@violations && $proved, "$claim->{claim} ($claim->{facts} facts)")
		  or diag("seed $seed: ", join "\n",
			@violations[ 0 .. min($told, scalar @violations) - 1 ]);
		note 'in the documented window: ', $_ foreach @{ $claim->{documented} };
	}
	tell_numbers($facts, $claims);
	return;
}

# Tables of faults and outcomes, and the line at the end.
sub tell_numbers
{
	my ($facts, $claims) = @_;
	my %faults;
	$faults{ $_->{kind} }++ foreach @{ $facts->{faults} };
	note sprintf 'fault %-16s %6d', $_, $faults{$_} foreach sort keys %faults;
	my $outcomes = $facts->{calls}{outcomes};
	foreach my $name (sort keys %$outcomes)
	{
		note "call $name: " . join ', ',
		  map { "$_ $outcomes->{$name}{$_}" } sort keys %{ $outcomes->{$name} };
	}
	note sprintf 'chaos: %d faults, %d committed sections, %d violations,'
	  . ' %d in the documented window, seed %s',
	  scalar(grep { $_->{kind} ne 'stall' } @{ $facts->{faults} }),
	  sum0(map { scalar keys %$_ } values %{ $facts->{rows} }),
	  scalar violations($claims),
	  sum0(map { scalar @{ $_->{documented} } } @$claims),
	  $facts->{params}{seed};
	return;
}

1;
