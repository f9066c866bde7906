
=pod

=head1 NAME

ChaosClaim - building blocks for the claims of the checker

=head1 SYNOPSIS

  my $claim = claim('no two holders');
  my $paths = grouped($sections, 'path');
  push @{ $claim->{violations} }, in_words($section);

=cut

package ChaosClaim;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT_OK = qw(claim grouped in_words);

=pod

=head1 FUNCTIONS

=over

=item claim($text)

A claim about to be checked.

=item grouped($sections, @fields)

Sections by the value of these fields, joined by blanks.

=item in_words($section)

What there is to say about a section.

=back

They have to be asked for by name.

=cut

sub claim
{
	my ($text) = @_;
	return { claim => $text, facts => 0, violations => [], documented => [] };
}

sub grouped
{
	my ($sections, @fields) = @_;
	my %groups;
	push @{ $groups{ join ' ', @{$_}{@fields} } }, $_ foreach @$sections;
	return \%groups;
}

sub in_words
{
	my ($section) = @_;
	return
		sprintf 'section %s (%s pid %d, ZooKeeper session %s, guard %s, %s):'
	  . ' %s %s, token %s, %s %s; invoked %.6f, acquired %.6f, COMMIT sent'
	  . ' %.6f, returned %.6f: %s', @{$section}{
		qw(id cluster pid session guard kind mode path token counter seen
		  invoked acquired)
	  },
	  map { $_ // 0 } @{$section}{qw(commit_sent commit_returned commit)};
}

1;
