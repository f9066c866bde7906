
=pod

=head1 NAME

RandomCursors - cursors, as the model of a random run has them

=head1 DESCRIPTION

A part of RandomSession.  The query of a cursor tries to acquire one lock for each row, so
each FETCH acquires in its own subtransaction.  What is left of a cursor WITH HOLD is
executed by the commit.

=cut

package RandomCursors;

use strict;
use warnings;

sub do_declare
{
	my ($self, $name, $hold, $scope, $paths) = @_;
	$self->raise('25P01') if $self->{block} eq 'idle' && $hold ne 'hold';
	$self->raise('42P03') if $self->{cursors}{$name};
	$self->{cursors}{$name} = {
		hold => $hold eq 'hold',
		scope => $scope,
		paths => [ split /,/, $paths ],
		rows => undef,
		failed => 0,
		nest => $self->{nest}
	};
	return;
}

sub do_fetch
{
	my ($self, $name) = @_;
	my $cursor = $self->{cursors}{$name} or $self->raise('34000');
	if ($cursor->{rows})
	{
		$self->{statement}{value} = shift @{ $cursor->{rows} } // '';
		return;
	}
	$self->raise('55000') if $cursor->{failed};
	$self->fetch_row($cursor);
	return;
}

sub do_close_cursor
{
	my ($self, $name) = @_;
	delete $self->{cursors}{$name} or $self->raise('34000');
	return;
}

# One row: the value of the statement; empty behind the last one.
sub fetch_row
{
	my ($self, $cursor) = @_;
	$self->{statement}{value} = '';
	my $path = shift @{ $cursor->{paths} };
	return unless defined $path;
	$cursor->{failed} = 1;
	$self->do_acquire($path, 'x', $cursor->{scope}, 'try');
	$cursor->{failed} = 0;
	return;
}

# Before the guard of a commit.
sub hold_cursors
{
	my ($self) = @_;
	my $value = $self->{statement}{value};
	foreach my $name (sort keys %{ $self->{cursors} })
	{
		my $cursor = $self->{cursors}{$name};
		next if !$cursor->{hold} || $cursor->{rows} || $cursor->{failed};
		RandomModel::give_up() if $self->{held_one}++;
		my @rows;
		while (@{ $cursor->{paths} })
		{
			$self->fetch_row($cursor);
			push @rows, $self->{statement}{value};
		}
		$cursor->{rows} = \@rows;
	}
	delete $self->{held_one};
	$self->{statement}{value} = $value;
	return;
}

# Those that the end of a (sub)transaction closes.  Rows that a commit has stored stay.
sub drop_cursors
{
	my ($self, $nest) = @_;
	foreach my $name (keys %{ $self->{cursors} })
	{
		my $cursor = $self->{cursors}{$name};
		delete $self->{cursors}{$name} if $cursor->{nest} >= $nest;
	}
	return;
}

sub pass_cursors_up
{
	my ($self, $nest) = @_;
	foreach my $cursor (values %{ $self->{cursors} })
	{
		$cursor->{nest} = $nest - 1 if $cursor->{nest} == $nest;
	}
	return;
}

1;
