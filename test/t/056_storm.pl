# Deadlock detection in a storm: no false deadlocks, and with real ones no session
# hangs.
#
# Backends of two clusters repeatedly take a few locks each, keep them for some
# milliseconds and commit. deadlock_timeout is so short that nearly every wait is
# published and checked.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;

my $seconds = 10;
my $backends = 10;		# of each cluster
# The backends keep a machine busy, and none is to lose a lock or its server for that.
my $ensemble = ZkEnsemble->new('main', maxClientCnxns => 0, maxSessionTimeout => 60000);
my $zk = $ensemble->zk;
my @clusters = map {
	zk_cluster(
		$_,
		$ensemble,
		settings => {
			'zklock.session_timeout' => '60s',
			deadlock_timeout => '10ms',
			lock_timeout => '60s',
			max_connections => 40
		})
} qw(one two);

# Take locks for so long, and count how often all were had, and how often that ended
# as a deadlock.
#
# In order: one to three of six, in their order, shared or exclusive; after that
# sometimes some of three others at once, which no other session takes otherwise.
#
# Else: of the same six in any order, one by one or two at once, and a reader may
# want to be a writer.
my $storm = q{
	CREATE PROCEDURE storm(seconds int, in_order boolean,
		INOUT had int DEFAULT 0, INOUT deadlocks int DEFAULT 0)
	LANGUAGE plpgsql AS $$
	DECLARE
		until timestamptz := clock_timestamp() + make_interval(secs => seconds);
		paths text[];
		path text;
	BEGIN
		WHILE clock_timestamp() < until LOOP
			SELECT array_agg(p ORDER BY CASE WHEN in_order THEN p END, random())
			INTO paths
			FROM (SELECT '/s' || i AS p FROM generate_series(1, 6) i
				ORDER BY random() LIMIT 1 + floor(random() * 3)) AS chosen;
			BEGIN
				IF NOT in_order AND random() < 0.3 AND cardinality(paths) > 2 THEN
					PERFORM zk_lock_acquire_xact(paths[1:2], shared => random() < 0.3);
					paths := paths[3:];
				END IF;
				FOREACH path IN ARRAY paths LOOP
					PERFORM zk_lock_acquire_xact(path, shared => random() < 0.4);
					PERFORM pg_sleep(random() * 0.004);
				END LOOP;
				IF in_order AND random() < 0.3 THEN
					SELECT array_agg('/t' || i ORDER BY random()) INTO paths
					FROM generate_series(1, 3) i WHERE i = 1 OR random() < 0.5;
					PERFORM zk_lock_acquire_xact(paths, shared => random() < 0.3);
				ELSIF NOT in_order AND random() < 0.3 THEN
					PERFORM zk_lock_acquire_xact(path);
				END IF;
				PERFORM pg_sleep(random() * 0.004);
				had := had + 1;
			EXCEPTION WHEN deadlock_detected THEN
				deadlocks := deadlocks + 1;
			END;
			COMMIT;
		END LOOP;
	END $$};
my @sessions;
foreach my $cluster (@clusters)
{
	$cluster->safe_psql('postgres', $storm);
	push @sessions, map { ZkPsql->new($cluster) } 1 .. $backends;
}

# Let it blow.  Returns how often all locks were had, and how many deadlocks there
# were.
sub storm
{
	my ($in_order) = @_;
	my ($had, $deadlocks, @errors) = (0, 0);

	$_->send("CALL storm($seconds, $in_order)") foreach @sessions;
	foreach (@sessions)
	{
		my @result = split /\|/, $_->answer($seconds + 120);
		push @errors, $_->errors if $_->errors ne '';
		$had += $result[0] // 0;
		$deadlocks += $result[1] // 0;
	}
	is("@errors", '', 'all sessions have finished without another error');
	note "$had transactions, $deadlocks deadlocks";
	wait_for(
		sub { !grep { $_ ne '' } $zk->ls('/zklock/.zklock/waits') },
		'all that was published to be gone');
	return ($had, $deadlocks);
}

my ($had, $deadlocks) = storm('true');
is($deadlocks, 0, 'S72: no deadlock is found where all take locks in order');
cmp_ok($had, '>', 10, 'there was a storm');

my $published = $zk->stat('/zklock/.zklock/waits')->{cversion};
cmp_ok($published, '>', 0, 'and waits were published in it');

($had, $deadlocks) = storm('false');
cmp_ok($deadlocks, '>', 0, 'S72: deadlocks are found in disorder');
cmp_ok($had, '>', 10, 'and no session is stuck');

foreach my $cluster (@clusters)
{
	unlike(
		slurp_file($cluster->logfile),
		qr/PANIC|TRAP|terminated by signal|could not check for deadlocks/,
		'nothing strange in the server log');
}
done_testing();
