# With the shared library: locks, a server restart, and the end of a backend, with the
# threads that the library starts by default.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use ZkTest;

my $ensemble = ZkEnsemble->new('main', tick_time => 500, maxSessionTimeout => 60000);
my $proxy = $ensemble->proxy;
my $node = zk_cluster('main', $proxy,
	settings => { 'zklock.session_timeout' => '60s' });
my $holder = ZkPsql->new($node);
my $waiter = ZkPsql->new($node);

is($holder->ask("SELECT zk_lock_acquire('/a')"), 't', 'S224: a lock is acquired');
like(slurp_file("/proc/${\$holder->pid}/maps"),
	qr/libzookeeper_mt\.so/, 'S224: the library is the shared one');
my @threads = glob "/proc/${\$holder->pid}/task/*";
is(@threads, 4,
	"S224: the backend's thread, the client's, and two of the library's");
is($waiter->ask("SELECT zk_lock_acquire('/a', '0')"), 'f', 'S224: it excludes');

# A wait ends with the release, across a restart of the server.  There is no connection to
# it while it starts: it might leave one without an answer (ZOOKEEPER-5051), and the lock
# would be lost before the library gave that up.
$ensemble->wait_for_queue('/a', 1);
$waiter->send("SELECT zk_lock_acquire('/a')");
$ensemble->wait_for_queue('/a', 2);
$proxy->refuse;
$ensemble->restart_server(1);
$proxy->pass;
is($holder->ask("SELECT zk_lock_verify('/a') > 0"), 't', 'S224: it is held on');
is($holder->ask("SELECT zk_lock_release('/a')"), 't', 'S224: it is released');
is($waiter->answer, 't', 'S224: the waiter has it');
is($holder->ask("SELECT zk_lock_acquire(ARRAY['/b', '/c'])"),
	't', 'S224: several at once');

# Who exits leaves nothing.
$waiter->quit;
$holder->quit;
$ensemble->wait_for_queue($_, 0) foreach qw(/a /b /c);
pass('S224: nothing is left when they end');
unlike(slurp_file($node->logfile),
	qr/terminated by signal|all server processes terminated/,
	'S224: no backend has crashed');

done_testing();
