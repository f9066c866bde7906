# S201: the effects of a subtransaction's end on locks: random savepoints compared with
# a model of the rules, and the time that subtransactions take while many unrelated
# locks are held.

use strict;
use warnings;

use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $ensemble = ZkEnsemble->new('main');
my $node = zk_cluster('main', $ensemble);
my $session = ZkPsql->new($node);

# ---- Against a model: one hash of counts for each open level, and one for the session.

my $seed = $ENV{SEED} // int(rand(2**31));
note "SEED=$seed";
srand $seed;

my (@levels, %held);

sub acquire
{
	my ($lock, $scope) = @_;
	($scope eq '' ? \%held : $levels[-1])->{$lock}++;
	return "SELECT zk_lock_acquire$scope('/model/$lock')";
}

my %step = (
	acquire => sub { acquire($_[0], '_xact') },
	session => sub { acquire($_[0], '') },
	release => sub {
		my ($lock) = @_;
		$held{$lock}-- if $held{$lock};
		return "SELECT zk_lock_release('/model/$lock')";
	},
	savepoint => sub {
		push @levels, {};
		return "SAVEPOINT s$#levels";
	},
	rollback => sub {
		return 'SELECT 1' if @levels == 1;
		my $level = 1 + int rand $#levels;
		@levels = (@levels[ 0 .. $level - 1 ], {});
		return "ROLLBACK TO s$level";
	},
	keep => sub {
		return 'SELECT 1' if @levels == 1;
		my $level = 1 + int rand $#levels;
		while ($#levels >= $level)
		{
			my $top = pop @levels;
			$levels[-1]{$_} += $top->{$_} foreach keys %$top;
		}
		return "RELEASE s$level";
	});
my @choices =
  (('acquire') x 4, 'session', ('release') x 2, ('savepoint') x 3, ('rollback') x 2, 'keep');

# What the model, and what the backend says is held: lines of path, session, transaction.
sub expected
{
	my %sum;
	foreach my $level (@levels) { $sum{$_} += $level->{$_} foreach keys %$level; }
	return join "\n", map { sprintf '%s|%d|%d', $_, $held{$_} // 0, $sum{$_} // 0 }
	  grep { $held{$_} || $sum{$_} } 'a' .. 'e';
}

sub seen
{
	return $session->ask(
		q(SELECT substr(path, 8), session_count, transaction_count
			FROM zk_locks WHERE path LIKE '/model/%' ORDER BY 1), 'quiet');
}

my @wrong;
foreach my $transaction (1 .. 6)
{
	@levels = ({});
	$session->ask('BEGIN', 'quiet');
	foreach (1 .. 25)
	{
		my $choice = $choices[ rand @choices ];
		my $sql = $step{$choice}->(('a' .. 'e')[ rand 5 ]);
		$session->ask($sql, 'quiet');
		my ($expected, $seen) = (expected(), seen());
		push @wrong, "after $sql:\n$seen\ninstead of\n$expected" if $seen ne $expected;
	}
	$session->ask($transaction % 2 ? 'COMMIT' : 'ROLLBACK', 'quiet');
	@levels = ();
	push @wrong, 'after the transaction: ' . seen() if seen() ne expected();
}
is_deeply(\@wrong, [], "S201: 150 random steps, as the model has it (SEED=$seed)");
$session->ask('SELECT zk_lock_release_all()');
$ensemble->wait_for_queue("/model/$_", 0) foreach 'a' .. 'e';
pass('and nothing is left behind');

# ---- The time of subtransactions does not depend on locks that they have nothing to do
# with.  Of each the best of several tries, taken in turn.

sub milliseconds
{
	return $session->ask(
		q(CREATE TEMP TABLE IF NOT EXISTS took (ms float8); TRUNCATE took;
		DO $$
		DECLARE
			start timestamptz := clock_timestamp();
		BEGIN
			FOR i IN 1..20000 LOOP
				BEGIN
					NULL;
				EXCEPTION WHEN division_by_zero THEN
				END;
			END LOOP;
			INSERT INTO took SELECT extract(epoch FROM clock_timestamp() - start) * 1000;
		END $$;
		SELECT ms FROM took), 'quiet');
}

my (@without, @with);
foreach my $try (1 .. 5)
{
	push @without, milliseconds();
	is($session->ask(q(SELECT count(*) FROM generate_series(1, 960) n
			WHERE zk_lock_acquire('/many/' || n))), 960, "try $try: many locks are held")
	  if $try == 1;
	$session->ask(q(SELECT count(*) FROM generate_series(1, 960) n
			WHERE zk_lock_acquire('/many/' || n)), 'quiet') if $try > 1;
	push @with, milliseconds();
	$session->ask('SELECT zk_lock_release_all()', 'quiet');
	last if min(@with) < 2 * min(@without);
}
note sprintf 'subtransactions took %s ms without locks, %s ms with', join(' ', @without),
  join(' ', @with);
cmp_ok(min(@with), '<', 4 * min(@without),
	'S201: subtransactions are as fast while 960 locks are held');

done_testing();
