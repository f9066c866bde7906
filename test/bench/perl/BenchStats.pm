
=pod

=head1 NAME

BenchStats - medians and the like

=head1 FUNCTIONS

=over

=item quantile($q, @values)

The value below which a share of $q is, between neighbours if need be; undef if
there are no values.

=item median(@values)

=item quartiles(@values)

The first and the third.

=back

=cut

package BenchStats;

use strict;
use warnings;

use Exporter 'import';
use POSIX qw(floor);

our @EXPORT = qw(median quantile quartiles);

sub quantile
{
	my ($q, @values) = @_;
	return undef unless @values;
	my @sorted = sort { $a <=> $b } @values;
	my $place = $q * $#sorted;
	my $below = floor($place);
	return $sorted[$below] if $below == $#sorted;
	return $sorted[$below] +
	  ($place - $below) * ($sorted[ $below + 1 ] - $sorted[$below]);
}

sub median { return quantile(0.5, @_); }

sub quartiles { return (quantile(0.25, @_), quantile(0.75, @_)); }

1;
