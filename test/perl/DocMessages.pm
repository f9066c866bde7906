
=pod

=head1 NAME

DocMessages - the messages in the sources, for tests of pages that show them

=head1 SYNOPSIS

  use DocMessages qw(pattern sources $string);
  my @formats = sources() =~ /\berrmsg\(($string)/g;
  ok(grep { $message =~ /^@{[ pattern($_) ]}$/ } @formats);

=cut

package DocMessages;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils qw(slurp_file);

our @EXPORT_OK = qw(pattern sources $string);

=pod

=head1 FUNCTIONS

=over

=item $string

An expression that matches a string in C, also one of several parts.

=item sources()

The text of all source files.

=item pattern($format)

A format of C, with or without its quotes, as an expression that matches what it makes.

=back

=cut

our $string = qr/"(?:[^"\\]|\\.|"\s*")*"/;

sub sources
{
	return join '', map { slurp_file($_) } sort glob 'src/*/*.[ch] src/*/*/*.[ch]';
}

sub pattern
{
	my ($format) = @_;
	$format =~ s/^"(.*)"$/$1/s;
	$format =~ s/"\s*"//g;
	$format =~ s/\\"/"/g;
	$format =~ s/%ld\.%03d/%d/g;
	return join '.+', map { quotemeta } split /%[-.*\d]*l*[a-zX]/, $format, -1;
}

1;
