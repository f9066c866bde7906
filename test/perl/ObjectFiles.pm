
=pod

=head1 NAME

ObjectFiles - symbols of object files, and object files of a few lines

=cut

package ObjectFiles;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(compile symbols);

=pod

=head1 FUNCTIONS

=over

=item symbols($options, @files)

The symbols that nm lists for these files with these options, without their
versions.

=item compile($compiler, $folder, $name, $source)

Compile a few lines.  Returns the object file, which is left in that folder.

=back

=cut

sub symbols
{
	my ($options, @files) = @_;
	my @lines = `nm --format=posix $options @files`;
	die "nm failed for @files\n" if $? != 0;
	return map { /^(\S+) [A-Za-z]\b/ ? ($1 =~ s/\@.*//r) : () } @lines;
}

sub compile
{
	my ($compiler, $folder, $name, $source) = @_;
	open my $file, '>', "$folder/$name.c" or die "$folder: $!\n";
	print $file $source;
	close $file;
	system("$compiler -fPIC -c -o $folder/$name.o $folder/$name.c") == 0
	  or die "cannot compile\n";
	return "$folder/$name.o";
}

1;
