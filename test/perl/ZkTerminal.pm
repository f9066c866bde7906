
=pod

=head1 NAME

ZkTerminal - a program on a terminal of its own

=head1 SYNOPSIS

  my $terminal = ZkTerminal->new('bash', '--norc', '-i');
  $terminal->type("cat\n");
  $terminal->wait_for_output(qr/hello/);
  $terminal->type("\cC");
  is($terminal->status, 0);

=head1 DESCRIPTION

A pseudo-terminal that is the controlling terminal of the program, which leads a session as
a login shell does.  The program, and all processes of its session, are killed when the
object is destroyed.

=cut

package ZkTerminal;

use strict;
use warnings;

use Carp;
use IO::Pty;
use POSIX ();
use Test::More;
use ZkTest;

=pod

=head1 METHODS

=over

=item ZkTerminal->new(@command)

=item $terminal->pid()

Of the program.

=item $terminal->type($text)

As if it came from the keyboard: C<"\cC"> interrupts, C<"\cZ"> suspends.

=item $terminal->output()

What has appeared since the last call of C<wait_for_output>, so far.

=item $terminal->wait_for_output($pattern)

Wait until this matches what has appeared; returns the groups, and forgets what came before
the end of the match.

=item $terminal->foreground()

The process group that has the terminal.

=item $terminal->setting($flag)

Returns true if a local mode of the terminal is on, such as POSIX::ECHO.

=item $terminal->hang_up()

As if the connection broke.

=item $terminal->status()

Wait for the end of the program; returns its status, as a shell has it.

=back

=cut

sub new
{
	my ($class, @command) = @_;
	my $pty = IO::Pty->new or croak "no terminal: $!";
	my $slave = $pty->slave;
	my $pid = fork // croak "cannot fork: $!";

	if ($pid == 0)
	{
		$SIG{$_} = 'DEFAULT' foreach qw(INT TERM HUP);
		$pty->make_slave_controlling_terminal;
		POSIX::dup2(fileno($slave), $_) foreach 0 .. 2;
		close $pty;
		close $slave;
		exec { $command[0] } @command or POSIX::_exit(127);
	}
	$pty->blocking(0);
	return bless { pty => $pty, slave => $slave, pid => $pid, output => '' }, $class;
}

sub pid { return $_[0]->{pid}; }

sub type
{
	my ($self, $text) = @_;
	my $written = syswrite $self->{pty}, $text;
	croak "cannot type: $!" unless defined $written && $written == length $text;
	return;
}

sub output
{
	my ($self) = @_;
	1 while $self->{pty} && sysread $self->{pty}, $self->{output}, 65536, length $self->{output};
	return $self->{output};
}

sub wait_for_output
{
	my ($self, $pattern) = @_;
	my @groups;
	my $found = eval {
		wait_for(
			sub {
				return 0 unless $self->output =~ $pattern;
				@groups = map { substr $self->{output}, $-[$_], $+[$_] - $-[$_] } 1 .. $#+;
				substr $self->{output}, 0, $+[0], '';
				return 1;
			},
			"$pattern on the terminal");
	};
	croak "$@, but it has: $self->{output}" unless $found;
	return @groups;
}

sub foreground
{
	my ($self) = @_;
	return POSIX::tcgetpgrp(fileno $self->{pty});
}

sub setting
{
	my ($self, $flag) = @_;
	my $termios = POSIX::Termios->new;
	$termios->getattr(fileno $self->{slave});
	return $termios->getlflag & $flag;
}

sub hang_up
{
	my ($self) = @_;
	close delete $self->{slave};
	close delete $self->{pty};
	return;
}

sub status
{
	my ($self) = @_;
	my $status;
	wait_for(
		sub {
			$self->output;
			return 0 unless waitpid($self->{pid}, POSIX::WNOHANG()) == $self->{pid};
			$status = $?;
			return 1;
		},
		'the program on the terminal to end');
	delete $self->{pid};
	note $self->{output};
	return $status & 127 ? 128 + ($status & 127) : $status >> 8;
}

# The processes of the session, as the kernel sees them.
sub members
{
	my ($self) = @_;
	my @pids;
	foreach my $file (glob '/proc/[0-9]*/stat')
	{
		open my $stat, '<', $file or next;
		my ($pid, $session) = (<$stat> // '') =~ /^(\d+) .*\) \S+ \d+ \d+ (\d+) / or next;
		push @pids, $pid if $session == $self->{pid};
	}
	return @pids;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	return unless $self->{pid};
	kill 'KILL', $self->members;
	waitpid $self->{pid}, 0;
	return;
}

1;
