
=pod

=head1 NAME

ZkKdc - a Kerberos realm for tests

=head1 SYNOPSIS

  plan skip_all => 'no KDC' unless ZkKdc->available;
  my $kdc = ZkKdc->new("$tmp/kdc");
  my $keytab = $kdc->add('zookeeper/localhost');
  $kdc->add('app');
  $kdc->sign_in('app');

=head1 DESCRIPTION

A key distribution center of MIT Kerberos on a free loopback port, whose files are in a
folder of the test's own.  It ends with the test.  What is started after it has been made
finds it, and the tickets, by the environment.

=cut

package ZkKdc;

use strict;
use warnings;

use Carp;
use File::Path qw(make_path);
use IO::Socket::IP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils qw(append_to_file);
use ZkTest qw(has_sasl_plugin stop_process wait_for);

my $realm = 'ZKLOCK.TEST';

my @programs = qw(kadmin.local kdb5_util kinit krb5kdc);
my %program = map { $_ => find($_) } @programs;

# Programs of administrators are not in every user's path.
sub find
{
	my ($name) = @_;
	my ($found) = grep { -x } map { "$_/$name" } split(/:/, $ENV{PATH}), '/usr/sbin', '/sbin';
	return $found;
}

=pod

=head1 METHODS

=over

=item ZkKdc->available

Are the programs there, and Cyrus SASL's plugin?

=cut

sub available
{
	return !(grep { !defined $program{$_} } @programs) && has_sasl_plugin('gssapiv2');
}

# Run one of the programs.  What it says is of interest only if it fails.
sub run
{
	my ($name, @arguments) = @_;
	my $output = '';
	IPC::Run::run([ $program{$name}, @arguments ], '<', \undef, '>&', \$output)
	  or croak "$name @arguments:\n$output";
	return;
}

=pod

=item ZkKdc->new($dir)

Make a realm, and start its KDC.

=cut

sub new
{
	my ($class, $dir) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $self = bless { dir => $dir, port => $port, output => '' }, $class;

	make_path($dir);
	append_to_file("$dir/krb5.conf", <<"END");
[libdefaults]
	default_realm = $realm
	dns_lookup_kdc = false
	dns_lookup_realm = false
	rdns = false
	udp_preference_limit = 1
[realms]
	$realm = {
		kdc = 127.0.0.1:$port
	}
END
	append_to_file("$dir/kdc.conf", <<"END");
[kdcdefaults]
	kdc_listen = ""
	kdc_tcp_listen = 127.0.0.1:$port
[realms]
	$realm = {
		database_name = $dir/principal
		key_stash_file = $dir/stash
	}
[logging]
	kdc = FILE:$dir/kdc.log
END
	$ENV{KRB5_CONFIG} = "$dir/krb5.conf";
	$ENV{KRB5_KDC_PROFILE} = "$dir/kdc.conf";
	$ENV{KRB5CCNAME} = "FILE:$dir/tickets";
	run('kdb5_util', 'create', '-s', '-P', 'of the test only');
	$self->{process} =
	  IPC::Run::start([ $program{krb5kdc}, '-n' ], '<', \undef, '>&', \$self->{output});
	wait_for(sub { IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $port) },
		'the KDC to listen');
	return $self;
}

=pod

=item $kdc->configuration, $kdc->port

The file that says where it is; its port.

=item $kdc->add($name), $kdc->keytab($name)

Add a principal, and return the file with its key; that file.

=item $kdc->principal($name)

With the realm.

=item $kdc->sign_in($name), $kdc->sign_out

Get tickets for a principal, or throw them away.

=item $kdc->pause, $kdc->resume

SIGSTOP and SIGCONT.

=back

=cut

sub configuration { return "$_[0]->{dir}/krb5.conf"; }

sub port { return $_[0]->{port}; }

sub keytab
{
	my ($self, $name) = @_;
	return "$self->{dir}/" . ($name =~ s{/}{_}r) . '.keytab';
}

sub principal
{
	my ($self, $name) = @_;
	return "$name\@$realm";
}

sub add
{
	my ($self, $name) = @_;
	run('kadmin.local', 'addprinc', '-randkey', $name);
	run('kadmin.local', 'ktadd', '-k', $self->keytab($name), $name);
	return $self->keytab($name);
}

sub sign_in
{
	my ($self, $name) = @_;
	run('kinit', '-k', '-t', $self->keytab($name), $name);
	return;
}

sub sign_out
{
	my ($self) = @_;
	unlink "$self->{dir}/tickets" or croak "there are no tickets: $!";
	return;
}

sub pause
{
	my ($self) = @_;
	stop_process($self->{process}{KIDS}[0]{PID});
	return;
}

sub resume
{
	my ($self) = @_;
	$self->{process}->signal('CONT');
	return;
}

sub DESTROY
{
	my ($self) = @_;
	$self->{process}->kill_kill if $self->{process};
	return;
}

1;
