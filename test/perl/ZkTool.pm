
=pod

=head1 NAME

ZkTool - a helper program that answers line by line

=head1 DESCRIPTION

The base of ZkProbe and ZkProxy: starts a program, sends it a line and reads a
line.  The programs end when their standard input does, so
none outlives the test, whatever it dies of.

=cut

package ZkTool;

use strict;
use warnings;

use Carp;
use File::Basename;
use File::Spec;
use IPC::Open2;
use Time::HiRes qw(time);
use ZkTest;

# How long to wait for an answer, in seconds.
my $patience = 60;

my $tools =
  File::Spec->rel2abs(File::Spec->catdir(dirname(__FILE__), '..', 'tools'));

=pod

=head1 METHODS

=over

=item ZkTool->new($program, @arguments)

The program is one of test/tools, or a path.

=cut

sub new
{
	my ($class, $program, @arguments) = @_;
	my $path = $program =~ m{/} ? $program : "$tools/$program";
	croak "$path is missing: run make in test/tools" unless -x $path;
	my $self = bless { program => $program, buffer => '' }, $class;
	$self->{pid} = open2($self->{out}, $self->{in}, $path, @arguments);
	return $self;
}

=pod

=item $tool->pid()

=cut

sub pid
{
	my ($self) = @_;
	return $self->{pid};
}

=pod

=item $tool->ask($line, $seconds)

Send a line and return the one it is answered with, within so many seconds (60).

=item $tool->send($line), $tool->answered()

Send a line and do not wait; was it answered by now?  What it was answered with
is not kept.

=cut

sub ask
{
	my ($self, $line, $seconds) = @_;
	$self->send($line);
	return $self->read_line($line, $seconds);
}

sub send
{
	my ($self, $line) = @_;
	syswrite($self->{in}, "$line\n") or croak "$self->{program} has ended: $!";
	return;
}

sub answered
{
	my ($self) = @_;
	my $fds = '';
	vec($fds, fileno($self->{out}), 1) = 1;
	return 0 unless select($fds, undef, undef, 0) > 0;
	$self->read_line('that');
	return 1;
}

# The next line of output; $after is for the error message.
sub read_line
{
	my ($self, $after, $seconds) = @_;
	my $deadline = time + ($seconds // $patience);
	until ($self->{buffer} =~ /\n/)
	{
		my $fds = '';
		vec($fds, fileno($self->{out}), 1) = 1;
		my $left = $deadline - time;
		my $ready = select($fds, undef, undef, $left > 0 ? $left : 0);
		# the end of another program may interrupt it
		next if $ready < 0 && $!{EINTR};
		$ready > 0
		  or croak "$self->{program} does not answer to \"$after\"";
		sysread($self->{out}, $self->{buffer}, 65536, length $self->{buffer})
		  or croak "$self->{program} ended at \"$after\"";
	}
	(my $line, $self->{buffer}) = split /\n/, $self->{buffer}, 2;
	return $line;
}

=pod

=item $tool->kill($signal)

Send a signal, by default SIGKILL, after which the tool is of no more use.

=cut

sub kill
{
	my ($self, $signal) = @_;
	CORE::kill($signal // 'KILL', $self->{pid});
	return;
}

=pod

=item $tool->end()

Let the program end and wait for that.

=back

=cut

sub end
{
	my ($self) = @_;
	return unless $self->{pid};
	close $self->{in};
	waitpid($self->{pid}, 0);
	$self->{pid} = undef;
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	$self->end;
	return;
}

1;
