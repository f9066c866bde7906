
=pod

=head1 NAME

ZkTunnel - stunnel, for a test

=head1 SYNOPSIS

  my $tunnel = ZkTunnel->new("$tmp/stunnel.conf", $configuration);
  ... clients connect ...
  $tunnel->kill;
  $tunnel->start;
  like($tunnel->log, qr/Connected/);

=head1 DESCRIPTION

The configuration is to have C<foreground = yes>.  A tunnel ends when the test does.

=cut

package ZkTunnel;

use strict;
use warnings;

use Carp;
use IPC::Run;
use PostgreSQL::Test::Utils qw(append_to_file slurp_file);
use ZkTest;

=pod

=head1 METHODS

=over

=item ZkTunnel->new($file, $configuration)

Write the configuration to a new file and start.

=item $tunnel->start()

Start, again after C<kill>, and wait until it listens.

=item $tunnel->kill()

With SIGKILL, and wait for the end.

=item $tunnel->log()

What it has said since it was last started.

=back

=cut

sub new
{
	my ($class, $file, $configuration) = @_;
	my $self = bless { file => $file, log => '' }, $class;

	croak "$file exists" if -e $file;
	append_to_file($file, $configuration);
	$self->start;
	return $self;
}

sub start
{
	my ($self) = @_;
	$self->{log} = '';
	$self->{run} =
	  IPC::Run::start([ 'stunnel4', $self->{file} ], '<', \undef, '>&', \$self->{log});
	wait_for(
		sub {
			$self->log =~ /Configuration successful/ || !$self->{run}->pumpable;
		},
		'stunnel to start');
	croak "stunnel does not start: $self->{log}" unless $self->{run}->pumpable;
	return;
}

sub kill
{
	my ($self) = @_;
	my $run = delete $self->{run} or return;
	$run->signal('KILL');
	$run->finish;
	return;
}

sub log
{
	my ($self) = @_;
	$self->{run}->pump_nb if $self->{run} && $self->{run}->pumpable;
	return $self->{log};
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	$self->kill;
	return;
}

1;
