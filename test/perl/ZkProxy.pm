
=pod

=head1 NAME

ZkProxy - a TCP proxy that breaks a connection to ZooKeeper where a test wants

=head1 SYNOPSIS

  my $proxy = ZkProxy->new($ensemble->address(1));
  ... clients connect to $proxy->address ...
  $proxy->cut_after_request('create2');
  ... a client creates a contender ...
  is($proxy->fired, 1);

=head1 METHODS

=over

=item ZkProxy->new($server, %params)

Before one server, C<host:port>.  C<< listen => 'address:port' >> says where to
listen instead of anywhere on 127.0.0.1.  With C<< raw => 1 >> it does not
parse the bytes, which need not be the clients' protocol.

=cut

package ZkProxy;

use strict;
use warnings;

use Carp;
use parent 'ZkTool';
use ZkTest;

sub new
{
	my ($class, $server, %params) = @_;
	my ($host, $port) = $server =~ /^\[?(.*?)\]?:(\d+)$/
	  or croak "not a server's address: $server";
	my ($address, @port) = split /:/, $params{listen} // '127.0.0.1';
	my $self = $class->SUPER::new('zkproxy', $params{raw} ? '-r' : (),
		'-l', $address, $host, $port, @port);
	$self->{address} = $address;
	($self->{port}) = $self->read_line('start') =~ /^listening (\d+)$/
	  or croak 'zkproxy does not listen';
	return $self;
}

=pod

=item $proxy->address()

Where clients are to connect: C<address:port>.

=cut

sub address
{
	my ($self) = @_;
	return "$self->{address}:$self->{port}";
}

# Run a command; returns the words after "ok".
sub command
{
	my ($self, @words) = @_;
	my ($ok, @fields) = split / /, $self->ask("@words");
	croak "zkproxy does not do this now: @words" unless $ok eq 'ok';
	return @fields;
}

=pod

=item $proxy->pass(), $proxy->pass($session_id)

=item $proxy->freeze($session_id), freeze_requests, freeze_replies, cut

=item $proxy->refuse(), $proxy->hang_up()

=item $proxy->delay($milliseconds)

=item $proxy->cut_before_request($type, $n), cut_after_request, hold_reply,
hold_request

The commands of test/tools/zkproxy.c.

=item $proxy->fired(), $proxy->connections(), $proxy->accepted()

Numbers.

=cut

foreach my $name (
	qw(pass freeze freeze-requests freeze-replies cut refuse hang-up delay
	cut-before-request cut-after-request hold-reply hold-request fired
	connections accepted))
{
	my $method = $name =~ tr/-/_/r;
	no strict 'refs';
	*$method = sub {
		my ($self, @arguments) = @_;
		my ($result) = $self->command($name, @arguments);
		return $result;
	};
}

=pod

=item $proxy->struck()

How many have C<fired>, and the ZooKeeper session that the last one has met.

=cut

sub struck
{
	my ($self) = @_;
	return $self->command('fired');
}

=pod

=item $proxy->count()

A hash: how many requests of each type came since the last call, and how many
C<event>s, which are watches that fired.  What did not come is not in it.

=cut

sub count
{
	my ($self) = @_;
	return { map { split /=/ } $self->command('count') };
}

=pod

=item $proxy->cost($left_out, $type, $number)

The same as text, by name, without the types that match the pattern.  If a type is
named, not before so many of it have come.

=cut

sub cost
{
	my ($self, $left_out, $type, $number) = @_;
	my %total;
	wait_for(
		sub {
			my $count = $self->count;
			$total{$_} += $count->{$_} foreach keys %$count;
			return !defined $type || ($total{$type} // 0) >= $number;
		},
		defined $type ? "requests of type $type: $number" : 'a count');
	return join ' ',
	  map { "$_=$total{$_}" } grep { $_ !~ $left_out } sort keys %total;
}

=pod

=item $proxy->trap($command, $type, $action)

Give a command that strikes at a request of that type, have something done (a code
reference), and wait until it has struck.

=cut

sub trap
{
	my ($self, $command, $type, $action) = @_;
	my $fired = $self->fired;
	$self->$command($type);
	$action->();
	wait_for(sub { $self->fired > $fired }, "$command of $type to strike");
	return;
}

=pod

=item $proxy->sessions()

A hash: the passwords of the ZooKeeper sessions of open connections, by id.

=cut

sub sessions
{
	my ($self) = @_;
	return { map { split /:/ } $self->command('sessions') };
}

=pod

=item $proxy->expire($probe, $session_id)

End a session that goes through here as if it had expired: another client (the
ZkProbe) joins it and closes it.  The id may be left out when there is only one.

=back

=cut

sub expire
{
	my ($self, $probe, $id) = @_;
	my $sessions = $self->sessions;
	($id) = keys %$sessions if !defined $id && keys %$sessions == 1;
	croak 'which ZooKeeper session?' unless defined $id && $sessions->{$id};
	$probe->expect([ ZkProbe::OK() ], 'expire', $id, $sessions->{$id});
	return;
}

1;
