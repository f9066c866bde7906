# Sentences that promise something name their tests by number: rows of
# test/SCENARIOS.md.  Each number that is named anywhere has a row, each row names
# tests, and these name the number.  Every promise in README.md and doc/explanation.md,
# and every limit of one, names a number.

use strict;
use warnings;

use File::Find;
use Test::More;
use Citations;
use DocPage;

# The numbers in a text: S7, or several as in "S7 to S9".
sub numbers
{
	my ($text) = @_;
	my @numbers = $text =~ /\bS(\d+)\b/g;
	push @numbers, $1 .. $2 while $text =~ /\bS(\d+) to S(\d+)\b/g;
	return @numbers;
}

sub text_of
{
	my ($file) = @_;
	open my $handle, '<', $file or die "$file: $!\n";
	local $/ = undef;
	return <$handle>;
}

# The text files in these folders, and these files.
sub files
{
	my @files;
	find({ no_chdir => 1, wanted => sub { push @files, $_ if -f $_ && -T _ } }, @_);
	return sort @files;
}

# ---- The rows.

my (%tests, @twice);
foreach my $line (split /\n/, text_of('test/SCENARIOS.md'))
{
	my ($number, $tests) = $line =~ /^\| S(\d+) \| .* \| (.*) \|$/ or next;
	push @twice, $number if $tests{$number};
	$tests{$number} =
	  [ map { /^test\// ? $_ : test_file($_) } grep { m{/} } $tests =~ /`([^`]+)`/g ];
	cmp_ok(scalar @{ $tests{$number} }, '>', 0, "S$number names a test");
}
cmp_ok(scalar keys %tests, '>', 200, 'there are rows');
is_deeply(\@twice, [], 'no number has two rows');

# Each test that a row names is there, and says so: the file, or one in the folder.
foreach my $number (sort { $a <=> $b } keys %tests)
{
	foreach my $test (@{ $tests{$number} })
	{
		my @saying = -e $test ? grep {
			my $file = $_;
			grep { $_ == $number } numbers(text_of($file))
		} files($test) : ();
		ok(@saying > 0, "S$number: $test is there, and names it");
	}
}

# ---- The texts that name numbers.

# Every row that is named by one of these files is there.
sub known
{
	my ($file, $text) = @_;
	my @numbers = numbers($text);
	is_deeply([ grep { !$tests{$_} } @numbers ], [], "$file names rows that are there")
	  if @numbers;
	return @numbers;
}

my $named = 0;
foreach my $page (DocPage->all)
{
	$named += known($page->file, join '', map { $_->{text} } $page->prose);
}
cmp_ok($named, '>', 80, 'the documentation names some');
known($_, text_of($_)) foreach 'SECURITY.md', files('src');

# Of tests, the row names them as well.
foreach my $file (grep { !/\.md$/ } files(qw(sql test/t test/unit test/isolation/specs
	  test/docs/t test/interop/t test/shared/t test/tls/t)))
{
	next if $file eq 'test/docs/t/050_scenarios.pl' || $file =~ m{/build/};
	my %numbers = map { $_ => 1 } known($file, text_of($file));
	is_deeply(
		[ grep { my $n = $_; !grep { $_ eq $file } @{ $tests{$n} // [] } } sort keys %numbers ],
		[], "$file is in the rows of what it names")
	  if %numbers;
}

# ---- Promises, and their limits: each item of a list and each row of a table in these
# chapters.

# Items of the lists and rows of the tables between two lines of a page, without the head of a table.
sub items
{
	my ($file, $from, $to) = @_;
	my @items;
	my $inside = 0;
	foreach my $line (map { $_->{text} } DocPage->new($file)->prose)
	{
		$inside = 1 if $line =~ $from;
		next unless $inside;
		last if $line =~ $to;
		if ($line =~ /^(?:\*|\d+\.|\|) (?!\| \|)/) { push @items, $line; }
		elsif ($line =~ /^\s+\S/ && @items) { $items[-1] .= $line; }
	}
	return @items;
}

foreach my $chapter (
	[ 'README.md', qr/^## Guarantees/, qr/^## Documentation/, 12 ],
	[ 'doc/explanation.md', qr/^## What zklock guarantees/, qr/^### How that is proved/, 16 ],
	[ 'doc/explanation.md', qr/^## Losing a lock/, qr/^## What happens when/, 8 ],
	[ 'doc/explanation.md', qr/^## What happens when/, qr/^## Waiting without/, 10 ])
{
	my ($file, $from, $to, $least) = @$chapter;
	my @items = items($file, $from, $to);
	cmp_ok(scalar @items, '>=', $least, "$file, $from: there are items");
	foreach my $item (@items)
	{
		my ($begin) = $item =~ /^(.{1,50})/;
		ok(scalar(numbers($item)) > 0 || $item =~ /\(no test/, "$file: a test is named: $begin");
	}
}

done_testing();
