# The servers grant a shorter session timeout than before: a lease that began under the
# longer one does not outlive the session.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my $config = dirname($ensemble->logfile(1)) . '/zoo.cfg';
my $proxy = $ensemble->proxy;
my %settings = ('zklock.session_timeout' => '60s');
my $node = zk_cluster('holder', $proxy, settings => \%settings);
my $rival_node = zk_cluster('rival', $ensemble, settings => \%settings);
my $holder = ZkPsql->new($node);
my $rival = ZkPsql->new($rival_node);

is($holder->ask("SELECT zk_lock_acquire('/shorter')"), 't', 'a lock is held');
$rival->send_timed("zk_lock_acquire('/shorter')");
$ensemble->wait_for_queue('/shorter', 2);
my $reconnects = $holder->zk_session->{reconnects};

# The servers are restarted, and nothing is heard of them as soon as the client has a
# connection and wants to prove its lock.
$ensemble->stop_server(1);
my $text = slurp_file($config);
$text =~ s/^maxSessionTimeout=.*$/maxSessionTimeout=10000/m or die 'no such line';
open my $file, '>', $config or die "$config: $!";
print $file $text;
close $file;
my $fired = $proxy->fired;
$proxy->hold_reply('multi');
$ensemble->start_server(1);
wait_for(sub { $proxy->fired > $fired }, 'the client to come back', 60);
$proxy->freeze;
ok(!$rival->answered, 'the session lives');

# It may be without it again by now, if the machine stood still.
wait_for(sub { $holder->zk_session->{reconnects} > $reconnects },
	'the client to have had another connection');
my $last_held = $holder->last_held;
my ($granted, $got_at) = $rival->answer_timed;
is($granted, 't', 'the next one gets its lock');
cmp_ok($last_held, '<', $got_at, 'S235: which was lost before');
note sprintf 'acquired %.2f s after it was last seen to be held', $got_at - $last_held;

done_testing();
