
=pod

=head1 NAME

DocPage - a page of the documentation, as a test sees it

=head1 SYNOPSIS

  use DocPage;

  foreach my $page (DocPage->all)
  {
	  foreach my $block ($page->blocks)
	  {
		  print $page->file, ':', $block->{line}, ': ', $block->{text}
			if $block->{language} eq 'sql';
	  }
  }

=head1 DESCRIPTION

README.md and the pages in doc, in Markdown.  Our pages use only the following part of
Markdown; any other syntax in these places is an error.

A block of code is between two lines of three backquotes, the first of which names
the language.  SQL may begin with a comment that says where it is entered:

  -- on db2
  -- in another session
  -- in a third session, which waits

The last form does not end before something else happens.  A block of the
language C<text> right after one of SQL, or of C<sh>, is the expected output.  In it, C<…> stands for
any text within a line, and white space and the width of columns do not matter.  If
it has an error, that is expected.  SQL that no test can run is preceded by a line

  <!-- not run: why -->

and SQL that needs servers of its own, by one that names the test that runs it

  <!-- run by test/docs/t/040_tunnel.pl -->

=cut

package DocPage;

use strict;
use warnings;

use Carp;

# The comments with which a block of SQL may begin.
my $comment =
  qr/^-- (?:on (?<server>\w+)|in (?<session>an?\w*(?: \w+)?) session)(?<waits>, which waits)?\n/;

=pod

=head1 METHODS

=over

=item DocPage->all()

Every page, README.md first.  The current directory is the top of the source tree.

=item DocPage->new($file)

=item $page->file()

=item $page->name()

A word for the page, fit to be the name of a database.

=cut

sub all
{
	my ($class) = @_;
	return map { $class->new($_) } ('README.md', sort glob('doc/*.md'));
}

sub new
{
	my ($class, $file) = @_;
	my $self = bless { file => $file, blocks => [], prose => [] }, $class;
	open my $handle, '<', $file or croak "$file: $!";
	$self->{lines} = [<$handle>];
	close $handle;
	$self->parse;
	return $self;
}

sub file { return $_[0]->{file}; }

sub name
{
	my ($self) = @_;
	(my $name = lc $self->{file}) =~ s{^.*/|\.md$}{}g;
	return $name =~ s/\W/_/gr;
}

# Separate the blocks of code from all else.
sub parse
{
	my ($self) = @_;
	my ($block, $before, $reason, $by);
	my $number = 0;
	foreach my $line (@{ $self->{lines} })
	{
		$number++;
		if ($block && $line =~ /^```$/)
		{
			push @{ $self->{blocks} }, $block;
			($before, $block) = ($block, undef);
		}
		elsif ($block)
		{
			$block->{text} .= $line;
		}
		elsif ($line =~ /^```(\w*)$/)
		{
			$block = { language => $1, line => $number, text => '', reason => $reason, by => $by };
			$before->{expected} = $block
			  if $1 eq 'text' && $before && $before->{language} =~ /^(sql|sh)$/;
		}
		elsif ($line =~ /^\s*```/)
		{
			croak "$self->{file}:$number: not the beginning of a block: $line";
		}
		else
		{
			push @{ $self->{prose} }, { line => $number, text => $line };
			undef $before if $line =~ /\S/;
			($reason) = $line =~ /^<!-- not run: (.+) -->$/ if $line =~ /\S/;
			($by) = $line =~ /^<!-- run by (\S+) -->$/ if $line =~ /\S/;
		}
		undef $reason if $block;
		undef $by if $block;
	}
	croak "$self->{file}: a block does not end" if $block;
	return;
}

=pod

=item $page->blocks()

The blocks of code: hashes with C<language>, C<line>, C<text>; C<reason>, if it is
not run; C<by>, the test that runs it if that is not for all pages' one; and
C<expected>, the block with the expected output, if there is one.

=item $page->prose()

The lines that are not in a block: hashes with C<line> and C<text>.

=item DocPage::place($block)

Where a block of SQL is entered: the server, C<db1> by default, the name of a session
there, and whether it waits.

=item DocPage::same($output, $expected)

Returns true if the output is as expected.

=item DocPage::localize($text, %replaced)

The text with the places of this machine instead of those that the page has, which
is to have all of them.

=back

=cut

sub blocks { return @{ $_[0]->{blocks} }; }
sub prose { return @{ $_[0]->{prose} }; }

sub place
{
	my ($block) = @_;
	return ('db1', '', 0) unless $block->{text} =~ $comment;
	return ($+{server} // 'db1', $+{session} // '', defined $+{waits});
}

# What matters of an output: its lines, without those that count rows.
sub essence
{
	my ($text) = @_;
	return grep { $_ ne '' && !/^\(\d+ rows?\)$/ }
	  map { s/\s+/ /gr =~ s/-{2,}/--/gr =~ s/^ | $//gr } split /\n/, $text;
}

sub same
{
	my ($output, $expected) = @_;
	my @output = essence($output);
	my @expected = essence($expected);
	return 0 unless @output == @expected;
	foreach my $line (@expected)
	{
		my $pattern = join '.*', map { quotemeta } split /…/, $line, -1;
		return 0 unless shift(@output) =~ /^$pattern$/;
	}
	return 1;
}

sub localize
{
	my ($text, %replaced) = @_;
	my @names = sort { length $b <=> length $a } keys %replaced;
	my $any = join '|', map { quotemeta } @names;
	foreach my $name (@names)
	{
		croak "there is no $name in: $text" if index($text, $name) < 0;
	}
	return $text =~ s/($any)/$replaced{$1}/gr;
}

1;
