# Malformed replies of a server: the backend closes the connection, and logs the reason;
# it does not crash, and the cluster with it.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPeer;
use ZkTest;

my $ensemble = ZkEnsemble->new('main', tick_time => 500);
my $node = zk_cluster('main', $ensemble,
	settings => {
		'zklock.session_timeout' => '4s',
		'zklock.connect_timeout' => '20s',
		'restart_after_crash' => 'on'
	});
my $real = $ensemble->connect_string;

# Read what has come, and call the code for each packet, less its length.  False when the
# other side has hung up.
sub read_packets
{
	my ($from, $buffer, $code) = @_;
	$from->sysread($$buffer, 65536, length $$buffer) or return 0;
	while (length $$buffer >= 4)
	{
		my $length = unpack 'N', $$buffer;
		last if length $$buffer < 4 + $length;
		$code->(substr $$buffer, 4, $length);
		substr $$buffer, 0, 4 + $length, '';
	}
	return 1;
}

sub send_packet
{
	my ($to, $packet) = @_;
	$to->syswrite(pack 'N/a*', $packet);
	return;
}

# A server that says yes to everything, and nothing else.
sub nod
{
	my ($client) = @_;
	my ($buffer, $packets) = ('', 0);
	while (
		read_packets(
			$client,
			\$buffer,
			sub {
				my ($request) = @_;
				send_packet(
					$client,
					$packets++ == 0
					? pack('N N Q> N/a* C', 0, 4000, 0x12345678, 'x' x 16, 0)
					: substr($request, 0, 4) . pack('Q> N', 1, 0));
			}))
	{
	}
	$client->close;
	return;
}

# The ensemble, but for the replies to requests of a type, which the code alters.
sub forward
{
	my ($client, $type, $alter) = @_;
	my $server = IO::Socket::INET->new($real) or return $client->close;
	my %type;
	my ($up, $down) = ('', '');
	my $both = IO::Select->new($client, $server);
	my ($greeted, $answered) = (0, 0);
	while (1)
	{
		foreach my $from ($both->can_read)
		{
			my $more = $from == $client
			  ? read_packets(
				$from,
				\$up,
				sub {
					my ($xid, $of_type) = unpack 'N N', $_[0];
					$type{$xid} = $of_type if $greeted++;
					send_packet($server, $_[0]);
				})
			  : read_packets(
				$from,
				\$down,
				sub {
					my ($packet) = @_;
					my $xid = unpack 'N', $packet;
					$packet = $alter->($packet)
					  if $answered++ && ($type{$xid} // 0) == $type;
					send_packet($client, $packet);
				});
			return $client->close unless $more;
		}
	}
	return;
}

# A statement meets such a server, and ends with that SQLSTATE, or without; then the same
# backend works with the real one.
sub check_peer
{
	my ($what, $address, $statement, $reason, $sqlstate) = @_;
	my $closed = qr/closing connection to \Q$address\E: $reason/;
	my ($status, $output, $errors, $error, $log);

	# The machine may be too busy to get that far in time.
	foreach my $seconds (2, 6, 20)
	{
		my $log_start = -s $node->logfile;
		my $sql = $statement =~ s/#/$seconds/r;
		$status = $node->psql(
			'postgres', qq{
				SET zklock.servers = '$address';
				$sql;
				SELECT 'released ' || zk_lock_release_all();
				SET zklock.servers = '$real';
				SELECT 'acquired ' || zk_lock_acquire('/good', '30 s');
			},
			on_error_stop => 0,
			stdout => \$output,
			stderr => \$errors,
			extra_params => [ '-v', 'VERBOSITY=verbose' ]);
		($error) = $errors =~ /^psql:.*ERROR:  (\w{5}): /m;
		$log = slurp_file($node->logfile, $log_start);
		last if $status != 0 || ($error // '') =~ $sqlstate && $log =~ $closed;
	}
	is($status, 0, "$what: the backend does not crash");
	like($error // '', $sqlstate, "$what: SQLSTATE");
	like($log, $closed, "$what: the server log says why");
	like($output, qr/^acquired true$/m, "$what: a lock is acquired from a server");
	return;
}

my $one = "SELECT zk_lock_acquire('/bad', '# s')";
my $several = "SELECT zk_lock_acquire(ARRAY['/bad', '/worse'], '# s')";
my $lost = qr/^0800[16]$/;
my $cut = sub { return substr $_[0], 0, -1 };
my $no_body = sub { return substr $_[0], 0, 16 };

# What a length says that comes first.
sub length_of
{
	my ($length) = @_;
	return sub { my ($packet) = @_; substr $packet, 16, 4, pack 'N!', $length; return $packet };
}

check_peer('S223: a server that nods', new_peer(\&nod), $one,
	qr/a reply of 16 bytes to a request \(.*\), with error 0, ends too early/, $lost);

# The lock is there, for the server has made the contender, which is found again.
foreach my $case (
	[ 'a create without a result', 15, $no_body, qr/ends too early/ ],
	[ 'a create that is cut', 15, $cut, qr/ends too early/ ],
	[ 'a create with a huge name', 15, length_of(2**31 - 1), qr/ends too early/ ],
	[ 'a create with less than a name', 15, length_of(-2), qr/negative length/ ])
{
	my ($what, $type, $alter, $reason) = @$case;
	check_peer("S223: $what", new_peer(sub { forward($_[0], $type, $alter) }),
		$one, qr/.*$reason/, qr/^$/);
}

foreach my $case (
	[ 'a list that is cut', 8, $cut, qr/ends too early/ ],
	[ 'a huge list', 8, length_of(2**30), qr/has a list that is longer than itself/ ],
	[ 'less than a list', 8, length_of(-1), qr/negative length/ ],
	[
		'an answer to another request',
		8,
		sub { return pack('N', 1) . substr $_[0], 4 },
		qr/a reply to no request \(1\)/
	],
	[ 'a longer list', 8, sub { return "$_[0]\0" }, qr/is followed by other data/ ])
{
	my ($what, $type, $alter, $reason) = @$case;
	check_peer("S223: $what", new_peer(sub { forward($_[0], $type, $alter) }),
		$one, qr/.*$reason/, $lost);
}
check_peer('S223: results of a multi-op that are cut',
	new_peer(sub { forward($_[0], 14, $cut) }),
	$several, qr/.*ends too early/, qr/^(0800[16])?$/);

unlike(slurp_file($node->logfile),
	qr/terminated by signal|exited with exit code 2|all server processes terminated/,
	'S223: no backend has crashed');

done_testing();
