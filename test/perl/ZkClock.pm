
=pod

=head1 NAME

ZkClock - clocks that a test can step

=head1 SYNOPSIS

  my $node = zk_cluster('main', $ensemble, start => 0);
  my $clock = ZkClock->new('main');
  $clock->start_cluster($node);

  $clock->set_wall_clock(3600);
  $clock->suspend(10);

=head1 DESCRIPTION

The servers that are started through it have clocks that differ from the
system's by as much as the test says.  See test/tools/stepclock.c.

=cut

package ZkClock;

use strict;
use warnings;

use Carp;
use File::Spec;
use PostgreSQL::Test::Utils ();
use ZkTest qw(start_preloaded);

=pod

=head1 METHODS

=over

=item ZkClock->new($name)

=cut

sub new
{
	my ($class, $name) = @_;
	my $file =
	  File::Spec->rel2abs("$PostgreSQL::Test::Utils::tmp_check/clock_$name");
	PostgreSQL::Test::Utils::append_to_file($file, pack('q2', 0, 0));
	return bless { file => $file, wall => 0, boot => 0 }, $class;
}

# Have the clocks differ by that much from now on.
sub write_offsets
{
	my ($self) = @_;
	open my $handle, '+<', $self->{file} or croak "$self->{file}: $!";
	syswrite $handle, pack('q2', $self->{wall}, $self->{boot});
	close $handle;
	return;
}

=pod

=item $clock->start_cluster($node)

Start a PostgreSQL::Test::Cluster whose clocks these are.

=cut

sub start_cluster
{
	my ($self, $node) = @_;
	start_preloaded($node, 'stepclock.so', STEP_CLOCK => $self->{file});
	return;
}

=pod

=item $clock->set_wall_clock($seconds)

Set the wall clock forward by so much, or back.

=item $clock->suspend($seconds)

As if the machine had been suspended for so long: the wall clock and the clock
that counts through suspend step, no other does.

=back

=cut

sub set_wall_clock
{
	my ($self, $seconds) = @_;
	$self->{wall} += $seconds;
	$self->write_offsets;
	return;
}

sub suspend
{
	my ($self, $seconds) = @_;
	$self->{wall} += $seconds;
	$self->{boot} += $seconds;
	$self->write_offsets;
	return;
}

1;
