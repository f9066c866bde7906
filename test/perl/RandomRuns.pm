
=pod

=head1 NAME

RandomRuns - the runs of jobs of a random run, as the model has them

=head1 DESCRIPTION

The rows of zk_job_runs, as far as their transactions are: a version of a row was made by
a writer (a session or a prepared transaction) and may have been removed by one; both
are C<''> when committed.  And what zk_job_reset() left, which no rollback undoes.

=cut

package RandomRuns;

use strict;
use warnings;

sub new
{
	my ($class) = @_;
	return bless { versions => [], resets => {} }, $class;
}

=pod

=head1 METHODS

=over

=item $runs->is_done($path, $time, $writer)

Whether this writer finds that the run of that time, or a later one, is done.

=item $runs->select($writer, $path, $outcome)

The rows of a job that this writer sees; C<$outcome> may be undef.

=item $runs->is_locked($row, $writer)

Whether another writer is about to change it.

=item $runs->insert($writer, $nest, %row), $runs->remove($row, $writer, $nest)

=item $runs->change($row, $writer, $nest, $outcome)

=cut

sub is_done
{
	my ($self, $path, $time, $writer) = @_;
	my $reset = $self->{resets}{$path};
	return 1 if $reset && $time < $reset->{time};
	return grep { $_->{time} >= $time && !$self->is_void($_) }
	  $self->select($writer, $path, 'done');
}

# Was it reset?
sub is_void
{
	my ($self, $row) = @_;
	my $reset = $self->{resets}{ $row->{path} } or return 0;
	return $row->{time} >= $reset->{time} && $row->{id} <= $reset->{id};
}

sub select
{
	my ($self, $writer, $path, $outcome) = @_;
	return grep {
			 $_->{path} eq $path
		  && (!defined $outcome || $_->{outcome} eq $outcome)
		  && ($_->{made} eq '' || $_->{made} eq $writer)
		  && !($_->{gone} ne '' && $_->{gone} eq $writer)
	} @{ $self->{versions} };
}

sub is_locked
{
	my ($self, $row, $writer) = @_;
	return $row->{gone} ne '' && $row->{gone} ne $writer;
}

sub insert
{
	my ($self, $writer, $nest, %row) = @_;
	push @{ $self->{versions} },
	  { %row, made => $writer, made_nest => $nest, gone => '', gone_nest => 0 };
	return;
}

sub remove
{
	my ($self, $row, $writer, $nest) = @_;
	@{$row}{qw(gone gone_nest)} = ($writer, $nest);
	return;
}

sub change
{
	my ($self, $row, $writer, $nest, $outcome) = @_;
	$self->remove($row, $writer, $nest);
	my ($path, $time, $id) = @{$row}{qw(path time id)};
	$self->insert($writer, $nest, path => $path, time => $time, id => $id, outcome => $outcome);
	return;
}

=pod

=item $runs->reset($path, $time, $id)

=item $runs->end_writer($writer, $commit), $runs->rename_writer($writer, $name)

=item $runs->roll_back($writer, $nest), $runs->pass_up($writer, $nest)

=item $runs->text()

The committed rows, as a query shows them.

=back

=cut

sub reset
{
	my ($self, $path, $time, $id) = @_;
	$self->{resets}{$path} = { time => $time, id => $id };
	return;
}

sub end_writer
{
	my ($self, $writer, $commit) = @_;
	my $dead = $commit ? 'gone' : 'made';
	my $versions = $self->{versions};
	@$versions = grep { $_->{$dead} ne $writer } @$versions;
	foreach my $row (@$versions)
	{
		$row->{made} = '' if $row->{made} eq $writer;
		$row->{gone} = '' if $row->{gone} eq $writer;
	}
	return;
}

sub rename_writer
{
	my ($self, $writer, $name) = @_;
	foreach my $row (@{ $self->{versions} })
	{
		$row->{made} = $name if $row->{made} eq $writer;
		$row->{gone} = $name if $row->{gone} eq $writer;
	}
	return;
}

sub roll_back
{
	my ($self, $writer, $nest) = @_;
	my $versions = $self->{versions};
	@$versions = grep { $_->{made} ne $writer || $_->{made_nest} < $nest } @$versions;
	foreach my $row (@$versions)
	{
		$row->{gone} = '' if $row->{gone} eq $writer && $row->{gone_nest} >= $nest;
	}
	return;
}

sub pass_up
{
	my ($self, $writer, $nest) = @_;
	foreach my $row (@{ $self->{versions} })
	{
		$row->{made_nest} = $nest - 1 if $row->{made} eq $writer && $row->{made_nest} == $nest;
		$row->{gone_nest} = $nest - 1 if $row->{gone} eq $writer && $row->{gone_nest} == $nest;
	}
	return;
}

# As the functions and the table show rows.
sub show
{
	my (@rows) = @_;
	return join ', ',
	  map { "$_->{time} $_->{outcome}" } sort { $a->{time} <=> $b->{time} || $a->{id} <=> $b->{id} } @rows;
}

sub text
{
	my ($self) = @_;
	my %by_path;
	push @{ $by_path{ $_->{path} } }, $_ foreach grep { $_->{made} eq '' } @{ $self->{versions} };
	return join '; ', map { "$_ " . show(@{ $by_path{$_} }) } sort keys %by_path;
}

# All that there is, to compare models.
sub state
{
	my ($self) = @_;
	return join '; ', sort map {
		join ' ', @{$_}{qw(path time outcome made made_nest gone gone_nest)}
	} @{ $self->{versions} };
}

1;
