
=pod

=head1 NAME

ZkCertificates - an authority, and certificates of it, for tests with TLS

=head1 SYNOPSIS

  my $authority = ZkCertificates->new("$tmp/tls");
  $authority->issue_server;
  $authority->issue('app');
  my $ensemble = ZkEnsemble->new('tls', tls => $authority->dir);
  ... with $authority->file('ca.pem'), 'app.pem' and 'app.key' ...

=head1 DESCRIPTION

Made with the program openssl, in a folder of the test's own.  Keys are on the curve
P-256, which takes no time to find.

=cut

package ZkCertificates;

use strict;
use warnings;

use Carp;
use File::Path qw(make_path);
use PostgreSQL::Test::Utils qw(append_to_file slurp_file);

my @new_key = qw(-newkey ec -pkeyopt ec_paramgen_curve:P-256);

=pod

=head1 METHODS

=over

=item ZkCertificates->new($dir)

Make the folder, and in it the authority: C<ca.pem>, C<ca.key>.

=item $authority->dir(), $authority->file($name)

The folder; the path of a file in there.

=cut

sub new
{
	my ($class, $dir) = @_;
	my $self = bless { dir => $dir }, $class;

	make_path($dir);
	openssl('req', '-x509', @new_key, '-nodes', '-subj', '/CN=zklock test authority',
		'-days', 30, '-keyout', $self->file('ca.key'),
		'-out', $self->file('ca.pem'));
	return $self;
}

sub dir { return $_[0]->{dir}; }

sub file
{
	my ($self, $name) = @_;
	return "$self->{dir}/$name";
}

# Run the program.  What it says is of interest only if it fails.
sub openssl
{
	my @arguments = @_;
	my $output = '';
	IPC::Run::run([ 'openssl', @arguments ], '<', \undef, '>&', \$output)
	  or croak "openssl @arguments:\n$output";
	return;
}

# The options about when a certificate is valid.  What openssl 3.4 refuses, an end
# before the beginning, is all that older versions offer.
sub validity
{
	my ($expired) = @_;
	return ('-days', 30) unless $expired;
	return `openssl x509 -help 2>&1` =~ /-not_after/
	  ? qw(-not_before 20200101000000Z -not_after 20200201000000Z)
	  : ('-days', -1);
}

=pod

=item $authority->issue($name, %params)

A certificate C<NAME.pem> for the subject C<CN=NAME>, and its key C<NAME.key>.  The
parameters: C<names>, other names of the subject, as openssl writes them; C<expired>
for one that is no longer valid; C<passphrase> of the key, also written to C<NAME.pass>.

=item $authority->issue_server($name, %params)

The same for a server on this host, by default called C<server>, and in the form that
test/lib/zookeeper needs: both in C<NAME.pem>.

=back

=cut

sub issue
{
	my ($self, $name, %params) = @_;
	my ($certificate, $key) = map { $self->file("$name.$_") } qw(pem key);
	my @protection = '-nodes';

	if (defined $params{passphrase})
	{
		append_to_file($self->file("$name.pass"), "$params{passphrase}\n");
		chmod 0600, $self->file("$name.pass");
		@protection = ('-passout', 'file:' . $self->file("$name.pass"));
	}
	append_to_file($self->file("$name.ext"),
		"basicConstraints = CA:FALSE\nsubjectAltName = " . ($params{names} // "DNS:$name") . "\n");
	openssl('req', @new_key, @protection, '-subj', "/CN=$name", '-keyout', $key,
		'-out', $self->file("$name.csr"));
	openssl('x509', '-req', '-in', $self->file("$name.csr"), '-CA', $self->file('ca.pem'),
		'-CAkey', $self->file('ca.key'), '-CAcreateserial',
		validity($params{expired}),
		'-extfile', $self->file("$name.ext"), '-out', $certificate);
	chmod 0600, $key;
	return;
}

sub issue_server
{
	my ($self, $name, %params) = @_;
	$name //= 'server';
	$self->issue($name, names => 'DNS:localhost, IP:127.0.0.1', %params);
	append_to_file($self->file("$name.pem"), slurp_file($self->file("$name.key")));
	return;
}

1;
