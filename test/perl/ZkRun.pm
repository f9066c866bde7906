
=pod

=head1 NAME

ZkRun - "zklock run" for tests

=head1 SYNOPSIS

  my $zklock = ZkRun->new($node);
  is($zklock->status_of('/a', 'sh', '-c', 'exit 7'), 7);
  my $run = $zklock->start('/a', '--', 'sleep', '100');
  kill 'TERM', $run->pid;
  is($run->status, 143);

  my $margins = ZkMargins->new($zklock, $ensemble, $other);
  $margins->check('the program is killed', [qw(stubborn family)],
    sub { my ($run) = @_; kill 'KILL', $run->pid });
  $margins->report;

=head1 DESCRIPTION

The program that was installed, with PostgreSQL's bindir.

=cut

package ZkRun;

use strict;
use warnings;

use IPC::Run;

=pod

=head1 METHODS

=over

=item ZkRun->new($node, @options)

Runs that connect to a PostgreSQL::Test::Cluster, or, without one, as the options say.

=item $zklock->under(@command)

The same runs, started by a command that takes one as its last arguments.

=item $zklock->command(@arguments)

The command line of a run, as a list.

=item $zklock->start(@arguments)

Start one; returns an object with the methods C<pid>, of the program, C<guardian>, of that
process, C<said>, what it has said so far, and C<status>, which waits for its end and returns
its status as a shell has it.

=item $zklock->status_of(@arguments)

Start one, and wait for it.

=back

=cut

sub new
{
	my ($class, $node, @options) = @_;
	chomp(my $bindir = `pg_config --bindir`);
	push @options, '-h', $node->host, '-p', $node->port, '-d', 'postgres' if $node;
	return bless { command => [ "$bindir/zklock", 'run', @options ] }, $class;
}

sub under
{
	my ($self, @command) = @_;
	return bless { command => [ @command, @{ $self->{command} } ] }, ref $self;
}

sub command
{
	my ($self, @arguments) = @_;
	return (@{ $self->{command} }, @arguments);
}

sub start
{
	my ($self, @arguments) = @_;
	my $said = '';
	my $run = IPC::Run::start([ $self->command(@arguments) ], '<', \undef, '>&', \$said);
	return bless { run => $run, said => \$said }, 'ZkRun::Running';
}

sub status_of
{
	my ($self, @arguments) = @_;
	return $self->start(@arguments)->status;
}

package ZkRun::Running;

use Test::More;
use ZkTest qw(children_of);

sub pid { return $_[0]->{run}{KIDS}[0]{PID}; }

sub guardian
{
	my ($self) = @_;
	return (children_of($self->pid))[0];
}

sub said
{
	my ($self) = @_;
	$self->{run}->pump_nb if $self->{run}->pumpable;
	return ${ $self->{said} };
}

sub status
{
	my ($self) = @_;
	$self->{run}->finish;
	my $status = $self->{run}->full_result;
	note ${ $self->{said} };
	return $status & 127 ? 128 + ($status & 127) : $status >> 8;
}

1;
