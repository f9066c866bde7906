
=pod

=head1 NAME

ZkResolver - name resolution that hangs for as long as a test wants

=head1 SYNOPSIS

  my $node = zk_cluster('main', 'localhost:2181', start => 0);
  my $resolver = ZkResolver->new('main');
  $resolver->start_cluster($node);

  $resolver->stall;
  ... a backend asks for a lock ...
  $resolver->wait_for_asking($session->pid, 'localhost');
  $resolver->go_on;

=head1 DESCRIPTION

The servers that are started through it resolve names by the system's resolver,
but not before the test lets them.  See test/tools/stallresolver.c.

=cut

package ZkResolver;

use strict;
use warnings;

use Carp;
use File::Spec;
use PostgreSQL::Test::Utils ();
use ZkTest qw(start_preloaded wait_for);

=pod

=head1 METHODS

=over

=item ZkResolver->new($name)

=cut

sub new
{
	my ($class, $name) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/stall_$name";
	return bless { file => File::Spec->rel2abs($file) }, $class;
}

=pod

=item $resolver->start_cluster($node)

Start a PostgreSQL::Test::Cluster whose resolver this is.

=cut

sub start_cluster
{
	my ($self, $node) = @_;
	start_preloaded($node, 'stallresolver.so', STALL_RESOLVER => $self->{file});
	return;
}

=pod

=item $resolver->stall(), $resolver->go_on()

From now on each request for a name waits; all that wait are answered.

=cut

sub stall
{
	my ($self) = @_;
	PostgreSQL::Test::Utils::append_to_file($self->{file}, '');
	return;
}

sub go_on
{
	my ($self) = @_;
	unlink $self->{file} or croak "$self->{file}: $!";
	return;
}

=pod

=item $resolver->asked()

The processes that asked since the resolver stalled, each as "pid name".

=item $resolver->wait_for_asking($pid, $name)

Wait until this process has.

=back

=cut

sub asked
{
	my ($self) = @_;
	return split /\n/, PostgreSQL::Test::Utils::slurp_file($self->{file});
}

sub wait_for_asking
{
	my ($self, $pid, $name) = @_;
	wait_for(sub { grep { $_ eq "$pid $name" } $self->asked },
		"process $pid to ask for $name");
	return;
}

1;
