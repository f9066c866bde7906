# S208: the contender named in messages when a lost lock had several; and S210: the
# token of a downgraded lock.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main');
my $proxy = $ensemble->proxy;
my $node = zk_cluster('main', $proxy);
my $holder = ZkPsql->new($node);

sub contender
{
	my ($mode) = @_;
	return $holder->ask("BEGIN; SELECT contender FROM zk_locks WHERE mode = '$mode'; ROLLBACK",
		'quiet');
}

$holder->ask("SELECT zk_lock_acquire('/names', shared => true)");
my $shared = contender('shared');
$holder->ask("SELECT zk_lock_acquire('/names')");
isnt(contender('exclusive'), $shared, 'each mode has a contender of its own');
$holder->ask("SELECT zk_lock_release('/names', shared => false)");
is(contender('shared'), $shared, 'the shared one remains');
is_deeply([ $ensemble->queue('/names') ], [$shared], 'as the ensemble has it');

$proxy->expire($ensemble->zk, $holder->zk_session->{session_id});
$holder->wait_until_lost('/names');
is(contender('shared'), $shared, 'S208: when it is lost, zk_locks names that one');
$holder->ask('SELECT 1 / 1');
like($holder->errors, qr/ZKL01.*DETAIL: .* It had token \d+ and was lost at/s, 'S208: the error has its token');
like(slurp_file($node->logfile),
	qr/DETAIL: .*Its contender was "\Q$shared\E"/, 'S208: and the server log names it');

# ---- S210: a token is the same for its holder and for all others.

my $waiter = ZkPsql->new($node);
my $admin = ZkPsql->new($node);

sub token_of
{
	my ($session) = @_;
	return $session->ask("SELECT zk_lock_token('/tokens')");
}

# What others are shown as the token of the first contender.
sub shown_token
{
	return $admin->ask("SELECT token FROM zk_lock_queue('/tokens') WHERE position = 1");
}

$holder->ask('SELECT zk_lock_release_all()');
$holder->ask("SELECT zk_lock_acquire('/tokens'), zk_lock_acquire('/tokens', shared => true)");
my $token = token_of($holder);
$waiter->send("SELECT zk_lock_acquire('/tokens')");
$ensemble->wait_for_queue('/tokens', 2);
$holder->ask("SELECT zk_lock_release('/tokens', shared => false)");
wait_for(sub { ($ensemble->queue('/tokens'))[0] =~ /__READ__/ }, 'the downgrade');
$shared = ($ensemble->queue('/tokens'))[0];
is(token_of($holder), $token, 'S210: a downgraded lock keeps its token');
is($holder->ask("SELECT zk_lock_verify('/tokens')"), $token, 'when it is verified, too');
is($holder->ask('SELECT contender, token FROM zk_locks'), "$shared|$token", 'and in zk_locks');
is(shown_token(), $token, 'S210: others see the same in zk_lock_queue');
is($admin->ask("SELECT token FROM zk_lock_tree('/tokens')"), $token, 'S210: and in zk_lock_tree');
$admin->ask("SELECT zk_lock_revoke('/tokens', '$shared')");
wait_for(sub { $ensemble->zk->get("/zklock/tokens/$shared") =~ /"revoked":true/ },
	'the holder to see the revocation');
is(shown_token(), $token, 'S210: also when it was revoked');
cmp_ok($ensemble->zk->stat("/zklock/tokens/$shared")->{czxid},
	'>', $admin->ask("SELECT token FROM zk_lock_queue('/tokens') WHERE position = 2"),
	'S210: its czxid would be later than that of the waiter behind it');
$holder->ask("SELECT zk_lock_release('/tokens')");
is($waiter->answer, 't', 'the next one is granted the lock');
cmp_ok(token_of($waiter), '>', $token, 'S210: with a greater token');
$waiter->ask("SELECT zk_lock_release('/tokens')");

# What others say of themselves is not believed if it cannot be.
foreach my $case ([ '__READ__', '9223372036854775807' ], [ '__READ__', '-1' ],
	[ '__READ__', '"1"' ], [ 'lock-', '1' ])
{
	my ($word, $claim) = @$case;
	my $made = $ensemble->zk->create("/zklock/tokens/_c_stranger-$word",
		qq({"cluster":"x","token":$claim}), 'ephemeral,sequential');
	is(shown_token(), $ensemble->zk->stat($made)->{czxid}, "S210: a stranger's $word of token $claim");
	$ensemble->zk->delete($made);
}

done_testing();
