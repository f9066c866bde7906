
=pod

=head1 NAME

Citations - tests and rules that a text cites

=head1 DESCRIPTION

A test is cited with its suite, as "test/run" takes the two: tap/045_hang,
unit/queue_test, isolation/fifo, regress/locks.  A rule is cited by its letter
and number; the comment at the head of a file states it.

=cut

package Citations;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(cited_rules cited_tests stated_rules test_file test_paths);

my %file_of_suite = (
	isolation => 'test/isolation/specs/%s.spec',
	regress => 'sql/%s.sql',
	tap => 'test/t/%s.pl',
	unit => 'test/unit/%s.c',
	map { $_ => "test/$_/t/%s.pl" } qw(chaos docs interop random shared tls));

my $name = qr/(?:regress|isolation)\/[a-z_]+\b|unit\/\w+_test\b|(?:tap|chaos|docs|interop|random|shared|tls)\/\d{3}\w*/;

# Letters with a number that are rules: all but S, which are scenarios, and Z, which
# are parts of SQLSTATEs.
my $rule = qr/[A-RT-Y]\d{1,2}/;

=pod

=head1 FUNCTIONS

=over

=item cited_tests($text)

The tests that a text cites.

=item test_file($citation)

The file of a cited test.

=item test_paths($text)

The files of tests that a text names by their paths.

=item stated_rules($text)

The rules that the text of a file states in the comment at its head.

=item cited_rules($text)

The rules that a text cites or states, those of "L1 to L3" included.

=back

=cut

sub cited_tests
{
	my ($text) = @_;
	return $text =~ m{(?<![\w/.])($name)(?![\w/.]*[\w/])}g;
}

sub test_file
{
	my ($citation) = @_;
	my ($suite, $test) = split m{/}, $citation;
	return sprintf $file_of_suite{$suite}, $test;
}

sub test_paths
{
	my ($text) = @_;
	return $text =~
	  m{(?<![\w/])(test/(?:(?:\w+/)?t/\w+\.pl|unit/\w+_test\.c|isolation/specs/\w+\.spec))}g;
}

sub stated_rules
{
	my ($text) = @_;
	return $text =~ /^(?: \*|#) ($rule)\. /mg;
}

sub cited_rules
{
	my ($text) = @_;
	my @rules = $text =~ m{(?<![\w.<>"/-])($rule)(?![\w.]*[\w=(])}g;
	push @rules, map { "$1$_" } $2 .. $3 while $text =~ /\b([A-RT-Y])(\d+) to \1(\d+)\b/g;
	return @rules;
}

1;
