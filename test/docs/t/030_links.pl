# The links in the documentation, and in the pages for contributors: the file exists,
# and so does the chapter in it.  And every page can be reached from README.md.

use strict;
use warnings;

use Test::More;
use DocPage;

# The anchors of a page, which are made of its headings: in small letters, without
# punctuation, blanks become hyphens, and what is there already gets a number.
sub anchors
{
	my ($page) = @_;
	my (%anchor, %count);
	foreach my $line (map { $_->{text} } $page->prose)
	{
		my ($heading) = $line =~ /^#+ +(.*)$/ or next;
		utf8::decode($heading);
		$heading =~ s/\[([^]]*)\]\([^)]*\)/$1/g;
		$heading = lc $heading;
		$heading =~ s/[^\w\- ]//g;
		$heading =~ tr/ /-/;
		utf8::encode($heading);
		my $number = $count{$heading}++;
		$anchor{ $number ? "$heading-$number" : $heading } = 1;
	}
	return \%anchor;
}

# The file that a link in a file means: doc/a.md, ../src/README is src/README.
sub resolve
{
	my ($from, $link) = @_;
	(my $path = $from) =~ s{[^/]*$}{};
	$path .= $link;
	1 while $path =~ s{(^|/)(?!\.\./)[^/]+/\.\./}{$1};
	return $path;
}

my %page = map { $_->file => $_ } DocPage->all,
  map { DocPage->new($_) } qw(CONTRIBUTING.md SECURITY.md);
my %anchors = map { $_ => anchors($page{$_}) } keys %page;
my %linked;
my $links = 0;

foreach my $file (sort keys %page)
{
	foreach my $line ($page{$file}->prose)
	{
		foreach my $link ($line->{text} =~ /\]\(([^)\s]+)\)/g)
		{
			next if $link =~ /^https?:/;
			my ($path, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
			my $target = $path eq '' ? $file : resolve($file, $path);
			my $there = -f $target
			  && (!defined $anchor || ($anchors{$target} // {})->{$anchor});
			$links++;
			$linked{$file}{$target} = 1;
			ok($there, "$file:$line->{line}: $link");
		}
	}
}
cmp_ok($links, '>', 50, 'there are links');

my %reached = ('README.md' => 1);
my @way = ('README.md');
while (defined(my $file = shift @way))
{
	push @way, grep { $page{$_} && !$reached{$_}++ } sort keys %{ $linked{$file} };
}
is_deeply([ grep { !$reached{$_} } sort keys %page ],
	[], 'README.md leads to every page');

done_testing();
