
=pod

=head1 NAME

ZkPeer - a listener in the place of a ZooKeeper server

=head1 SYNOPSIS

  my $silent = new_peer(sub { });
  my $rude = new_peer(sub { $_[0]->close });
  ask($session, "SET zklock.servers = '$silent'");

=head1 DESCRIPTION

Each peer is a process of its own, which is killed when the test ends.

=cut

package ZkPeer;

use strict;
use warnings;

use Exporter 'import';
use IO::Socket::INET;
use POSIX ();

our @EXPORT = qw(new_peer);

my @peers;

=pod

=head1 FUNCTIONS

=over

=item new_peer($code)

Listen on a port, and let the code serve the clients, one after the other: it
is given the socket.  A connection that it does not close stays open.  Returns the
address.

=back

=cut

sub new_peer
{
	my ($code) = @_;
	my $listener = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		Listen => 10,
		ReuseAddr => 1) or die "listen: $!";
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		# not ours: the test's END blocks and its child processes
		$SIG{$_} = sub { POSIX::_exit(0) }
		  foreach qw(INT TERM HUP ALRM);
		$SIG{PIPE} = 'IGNORE';
		alarm 120;
		my @clients;
		while (my $client = $listener->accept)
		{
			$code->($client);
			push @clients, $client if $client->opened;
		}
		POSIX::_exit(0);
	}
	push @peers, $pid;
	my $address = '127.0.0.1:' . $listener->sockport;
	close $listener;
	return $address;
}

END
{
	my $exit_code = $?;
	kill 'KILL', @peers;
	waitpid $_, 0 foreach @peers;
	$? = $exit_code;
}

1;
