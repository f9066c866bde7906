
=pod

=head1 NAME

ObjectFiles - symbols of object files, and object files of a few lines

=cut

package ObjectFiles;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(compile symbols symbols_by_file);

=pod

=head1 FUNCTIONS

=over

=item symbols($options, @files)

The symbols that nm lists for these files with these options, without their
versions.

=item symbols_by_file($options, @files)

The same for each file: { file => [ symbol, ... ] }.

=item compile($compiler, $folder, $name, $source)

Compile a few lines.  Returns the object file, which is left in that folder.

=back

=cut

sub symbols
{
	my ($options, @files) = @_;
	return map { @$_ } values %{ symbols_by_file($options, @files) };
}

sub symbols_by_file
{
	my ($options, @files) = @_;
	my %symbols = map { $_ => [] } @files;
	my @lines = `nm --format=posix --print-file-name $options @files`;
	die "nm failed for @files\n" if $? != 0;
	foreach (@lines)
	{
		push @{ $symbols{$1} }, $2 =~ s/\@.*//r if /^(\S+): (\S+) [A-Za-z]\b/;
	}
	return \%symbols;
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
