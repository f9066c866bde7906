
=pod

=head1 NAME

ZkProbe - look at znodes and disturb them, through a ZooKeeper client

=head1 SYNOPSIS

  my $zk = $ensemble->zk;
  my @contenders = $zk->ls('/zklock/jobs/nightly');
  $zk->delete("/zklock/jobs/nightly/$contenders[0]");
  is($zk->stat($path)->{ephemeralOwner}, $zk->session_id);

=head1 DESCRIPTION

A connection of its own, in one long-lived process.  What the methods do not
expect dies; C<call> returns everything.

=cut

package ZkProbe;

use strict;
use warnings;

use Carp;
use parent 'ZkTool';

# Codes of the C client library.
use constant {
	OK => 0,
	CONNECTIONLOSS => -4,
	OPERATIONTIMEOUT => -7,
	INVALIDSTATE => -9,
	NONODE => -101,
	NOAUTH => -102,
	EXPIRED => -112
};

# Commands that may be repeated, also in a new session.
my %is_read = map { $_ => 1 } qw(ls stat get sync tree);

=pod

=head1 METHODS

=over

=item ZkProbe->new($servers, $timeout_ms)

=cut

sub new
{
	my ($class, $servers, $timeout_ms) = @_;
	my $self = $class->SUPER::new('zkprobe');

	# The library takes IPv6 addresses without their brackets only.
	$servers =~ tr/[]//d;
	$self->{connect} = [ $servers, $timeout_ms // 10000 ];
	$self->connect;
	return $self;
}

=pod

=item $zk->call(@words)

Run a command (see test/tools/zkprobe.c); returns the library's code and the
fields of the answer.  A command that only reads is repeated a few times, a second later,
if the server does not answer, in a new session if the old one has expired: the probe's
own server, or the whole machine, may have been stopped for too long.  Without the pauses
each attempt could fail at once, before there is a connection again.

=item $zk->call_once(@words)

The same, without repetition.

=cut

sub call
{
	my ($self, @words) = @_;
	my $again = $is_read{ $words[0] } ? 5 : 0;
	while (1)
	{
		my ($rc, @fields) = $self->call_once(@words);
		my $over = $rc == EXPIRED || $rc == INVALIDSTATE;
		my $silent = $rc == CONNECTIONLOSS || $rc == OPERATIONTIMEOUT;
		return ($rc, @fields) unless ($over || $silent) && $again-- > 0;
		sleep 1;
		$self->connect if $over;
	}
}

sub connect
{
	my ($self) = @_;
	($self->{session_id}, $self->{timeout_ms}) =
	  $self->expect([OK], 'connect', @{ $self->{connect} });
	return;
}

sub call_once
{
	my ($self, @words) = @_;
	foreach (@words)
	{
		$_ = '-' if $_ eq '';
		s/([\x00-\x20%\x7f])/sprintf '%%%02x', ord $1/ge;
	}
	my ($rc, @fields) = split /\t/, $self->ask(join ' ', @words), -1;
	s/%([0-9a-f]{2})/chr hex $1/ge foreach @fields;
	return ($rc, @fields);
}

# Run a command that may end with one of these codes.  Returns the fields, or
# nothing if the code is not OK.
sub expect
{
	my ($self, $codes, @words) = @_;
	my ($rc, @fields) = $self->call(@words);
	croak "ZooKeeper error $rc: @words" unless grep { $_ == $rc } @$codes;
	return $rc == OK ? @fields : ();
}

=pod

=item $zk->session_id()

As text: 0x and the number in hexadecimal.

=item $zk->timeout_ms()

The negotiated session timeout.

=cut

sub session_id { return $_[0]->{session_id}; }
sub timeout_ms { return $_[0]->{timeout_ms}; }

=pod

=item $zk->create($path, $data, $flags)

Flags: C<ephemeral>, C<sequential>, C<container>, joined by commas.  Returns the
path that was made.

=cut

sub create
{
	my ($self, $path, $data, $flags) = @_;
	my ($created) =
	  $self->expect([OK], 'create', $path, $data // '', $flags // '');
	return $created;
}

=pod

=item $zk->make_path($path)

Create a znode and those above it as far as they do not exist.

=cut

sub make_path
{
	my ($self, $path) = @_;
	my $so_far = '';
	foreach my $name (split m{/}, substr($path, 1))
	{
		$so_far .= "/$name";
		$self->create($so_far) unless $self->stat($so_far);
	}
	return;
}

=pod

=item $zk->delete($path), $zk->deleteall($path)

Whether there was something, and how many znodes there were.

=cut

sub delete
{
	my ($self, $path) = @_;
	my ($rc) = $self->call('delete', $path);
	croak "ZooKeeper error $rc: delete $path"
	  unless $rc == OK || $rc == NONODE;
	return $rc == OK;
}

sub deleteall
{
	my ($self, $path) = @_;
	my ($count) = $self->expect([ OK, NONODE ], 'deleteall', $path);
	return $count // 0;
}

=pod

=item $zk->get($path), $zk->set($path, $data)

Data; undef if there is no such znode.

=cut

sub get
{
	my ($self, $path) = @_;
	my ($data) = $self->expect([ OK, NONODE ], 'get', $path);
	return $data;
}

sub set
{
	my ($self, $path, $data) = @_;
	$self->expect([OK], 'set', $path, $data);
	return;
}

=pod

=item $zk->stat($path)

A hash with the fields of Stat, by ZooKeeper's names; undef if there is no such
znode.

=cut

sub stat
{
	my ($self, $path) = @_;
	my @fields = $self->expect([ OK, NONODE ], 'stat', $path) or return;
	return { map { split /=/, $_, 2 } @fields };
}

=pod

=item $zk->may_stat($path)

Whether the ensemble shows the Stat of a znode: from 3.9.3 on that needs permission to
read it.

=cut

sub may_stat
{
	my ($self, $path) = @_;
	my ($rc) = $self->call('stat', $path);
	croak "stat $path: $rc" if $rc != OK && $rc != NOAUTH;
	return $rc == OK;
}

=pod

=item $zk->ls($path), $zk->tree($path)

The names of the children, and the paths of the znode and all below it; empty
if there is no such znode.

=cut

sub ls
{
	my ($self, $path) = @_;
	return $self->expect([ OK, NONODE ], 'ls', $path);
}

sub tree
{
	my ($self, $path) = @_;
	return $self->expect([ OK, NONODE ], 'tree', $path);
}

=pod

=item $zk->sync($path)

What is read from here on is not older than this moment.

=cut

sub sync
{
	my ($self, $path) = @_;
	$self->expect([OK], 'sync', $path);
	return;
}

=pod

=item $zk->acl($path), $zk->set_acl($path, $acl)

An ACL as C<scheme:id:permissions,...> with permissions of C<rwcda>.

=item $zk->auth($scheme, $credentials)

=back

=cut

sub acl
{
	my ($self, $path) = @_;
	my ($acl) = $self->expect([OK], 'acl', $path);
	return $acl;
}

sub set_acl
{
	my ($self, $path, $acl) = @_;
	$self->expect([OK], 'acl', $path, $acl);
	return;
}

sub auth
{
	my ($self, $scheme, $credentials) = @_;
	$self->expect([OK], 'auth', $scheme, $credentials);
	return;
}

1;
