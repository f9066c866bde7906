# The servers grant a shorter session timeout than before: a lease that began under the
# longer one does not outlive the session.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 40000);
my $config = dirname($ensemble->logfile(1)) . '/zoo.cfg';
my $proxy = $ensemble->proxy;
my $node = zk_cluster('holder', $proxy,
	settings => { 'zklock.session_timeout' => '40s' });
my $rival_node = zk_cluster('rival', $ensemble,
	settings => { 'zklock.session_timeout' => '40s' });
my $holder = ZkPsql->new($node);
my $rival = ZkPsql->new($rival_node);

is($holder->ask("SELECT zk_lock_acquire('/shorter')"), 't', 'a lock is held');
$rival->send("SELECT zk_lock_acquire('/shorter')");
$ensemble->wait_for_queue('/shorter', 2);

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
my $start = time;
ok(!$rival->answered, 'the session lives');
is($holder->zk_session->{state}, 'connected', 'the client has a connection');
$holder->wait_until_lost('/shorter');
my $lost = time - $start;
ok(!$rival->answered,
	'S235: its lock is lost before the next one has it');
is($rival->answer, 't', 'which gets it then');
note sprintf 'lost after %.2f s, acquired after %.2f s', $lost, time - $start;

done_testing();
