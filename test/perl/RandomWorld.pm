
=pod

=head1 NAME

RandomWorld - the servers of random runs

=head1 SYNOPSIS

  my $world = RandomWorld->new;
  my $failure = $world->run(source => $source)->{failure};

=head1 DESCRIPTION

A ZooKeeper server, a PostgreSQL server, and what the outside does there.  Each run has
a root of its own in ZooKeeper, and empty tables.

=cut

package RandomWorld;

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use RandomClient;
use ZkEnsemble;

=pod

=head1 METHODS

=over

=item RandomWorld->new()

=item $world->begin_run()

=item $world->connect()

A new RandomClient of this run.

=item $world->observer()

A client that sees what the others have done.

=cut

# The body of a procedure or function that executes an array of commands.
my $executor = <<'END_OF_BODY';
DECLARE
	command text;
	result text;
BEGIN
	FOREACH command IN ARRAY commands LOOP
		IF command = 'COMMIT' THEN
			COMMIT;
		ELSIF command = 'ROLLBACK' THEN
			ROLLBACK;
		ELSIF command LIKE 'SELECT%' THEN
			EXECUTE command INTO result;
			RAISE NOTICE '%', result;
		ELSE
			EXECUTE command;
		END IF;
	END LOOP;
END
END_OF_BODY

sub new
{
	my ($class) = @_;
	my $ensemble = ZkEnsemble->new('random', maxSessionTimeout => 60000);
	my $proxy = $ensemble->proxy;
	my $node = zk_cluster(
		'random', $proxy,
		settings => {
			max_prepared_transactions => 20,
			fsync => 'off',
			session_preload_libraries => 'zklock',
			'zklock.session_timeout' => '60s'	# no lock is lost if the machine stands still
		});
	my $connection = $node->connstr('postgres') =~ s/ /;/gr =~ s/'//gr;
	my $self = bless {
		ensemble => $ensemble,
		proxy => $proxy,
		node => $node,
		connection => $connection,
		runs => 0
	}, $class;
	$node->safe_psql('postgres', <<'END');
CREATE TABLE random_work (row integer);
CREATE FUNCTION random_zero() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RETURN 0; END $$;
END
	$node->safe_psql('postgres', <<'END');
CREATE TABLE random_loss (pause integer, path text);
CREATE FUNCTION random_pause(number integer) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_xact_lock_shared(number);
	WHILE EXISTS (SELECT FROM random_loss
			WHERE pause = number
			AND path NOT IN (SELECT path FROM zk_locks WHERE state = 'lost')) LOOP
		PERFORM pg_sleep(0.002);
	END LOOP;
	RETURN 'passed';
END $$;
END
	$node->safe_psql('postgres', <<"END");
CREATE PROCEDURE random_procedure(commands text[]) LANGUAGE plpgsql AS \$\$ $executor \$\$;
CREATE FUNCTION random_function(commands text[]) RETURNS void LANGUAGE plpgsql AS \$\$ $executor \$\$;
END
	return $self;
}

sub begin_run
{
	my ($self) = @_;
	$self->{root} = '/random/' . ++$self->{runs};
	$self->{znodes} = {};
	$self->{observer} = RandomClient->new($self->{connection}, 'zklock.root' => $self->{root});
	$self->{observer}->ask("ROLLBACK PREPARED '$_->[0]'")
	  foreach $self->{observer}->ask('SELECT gid FROM pg_prepared_xacts');
	$self->{observer}->ask('TRUNCATE random_work, random_loss, zk_lock_fences, zk_job_runs');
	return;
}

sub connect
{
	my ($self) = @_;
	my $client = RandomClient->new(
		$self->{connection},
		'zklock.root' => $self->{root},
		'zklock.on_lock_loss' => 'cancel',
		deadlock_timeout => '20ms');
	$client->ask('LISTEN news');
	return $client;
}

sub observer { return $_[0]->{observer}; }

=pod

=item $world->forbid_to_pass($number), $world->let_pass($number)

Whether a session that comes to this pause waits there.

=item $world->expect_loss($number, $path)

The session there is not to continue before it knows that this lock was lost.

=item $world->queue($path)

The contenders in ZooKeeper, in order; each a hash with C<name>, C<mode>, C<pid>,
C<session> and C<token>.

=item $world->delete_contender($path, $name), $world->break_contender($path, $name)

=item $world->revoke_contender($path, $name), $world->is_revoked($path, $name)

Whether its owner knows.

=item $world->expire($session)

A ZooKeeper session.

=item $world->is_published($session)

Whether a ZooKeeper session has published what it waits for.

=item $world->waits_in_postgres($pid)

Whether a backend waits for a lock of PostgreSQL's.

=item $world->committed_rows(), $world->fences(), $world->runs()

As text, in order.

=back

=cut

sub forbid_to_pass
{
	my ($self, $number) = @_;
	$self->{observer}->ask("SELECT pg_advisory_lock($number)");
	return;
}

sub let_pass
{
	my ($self, $number) = @_;
	$self->{observer}->ask("SELECT pg_advisory_unlock($number)");
	return;
}

sub expect_loss
{
	my ($self, $number, $path) = @_;
	$self->{observer}->ask("INSERT INTO random_loss VALUES ($number, '$path')");
	return;
}

sub queue
{
	my ($self, $path) = @_;
	my $zk = $self->{ensemble}->zk;
	my @queue;
	foreach my $name (sort { substr($a, -10) cmp substr($b, -10) } $zk->ls("$self->{root}$path"))
	{
		my $znode = $self->{znodes}{$name} //= $self->read_contender($path, $name) or next;
		push @queue, $znode;
	}
	return @queue;
}

# Undef if it is gone again.
sub read_contender
{
	my ($self, $path, $name) = @_;
	my $zk = $self->{ensemble}->zk;
	my $stat = $zk->stat("$self->{root}$path/$name") or return;
	my ($pid) = ($zk->get("$self->{root}$path/$name") // return) =~ /"pid":(\d+)/;
	return {
		name => $name,
		mode => $name =~ /__READ__/ ? 's' : $name =~ /sem\d+/ ? 'p' : 'x',
		pid => $pid,
		session => $stat->{ephemeralOwner},
		token => $stat->{czxid}
	};
}

sub delete_contender
{
	my ($self, $path, $name) = @_;
	$self->{ensemble}->zk->delete("$self->{root}$path/$name");
	return;
}

sub break_contender
{
	my ($self, $path, $name) = @_;
	$self->{observer}->ask("SELECT zk_lock_break('$path', '$name')");
	return;
}

sub revoke_contender
{
	my ($self, $path, $name) = @_;
	$self->{observer}->ask("SELECT zk_lock_revoke('$path', '$name')");
	return;
}

sub is_revoked
{
	my ($self, $path, $name) = @_;
	my $data = $self->{ensemble}->zk->get("$self->{root}$path/$name") // '';
	return $data =~ /"revoked":true/;
}

sub expire
{
	my ($self, $session) = @_;
	$self->{proxy}->expire($self->{ensemble}->zk, $session);
	return;
}

sub is_published
{
	my ($self, $session) = @_;
	my ($number) = $session =~ /^0x0*(\w+)$/;
	return grep { /$number/ } $self->{ensemble}->zk->ls("$self->{root}/.zklock/waits");
}

sub waits_in_postgres
{
	my ($self, $pid) = @_;
	my ($row) = $self->{observer}
	  ->ask("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid");
	return $row && ($row->[0] // '') eq 't';
}

sub committed_rows
{
	my ($self) = @_;
	return join ' ',
	  map { $_->[0] } $self->{observer}->ask('SELECT row FROM random_work ORDER BY row::text COLLATE "C"');
}

sub runs
{
	my ($self) = @_;
	return join '; ', map { "$_->[0] $_->[1]" } $self->{observer}->ask(
		q(SELECT path, string_agg(format('%s %s',
			extract(hour FROM fire_time AT TIME ZONE 'UTC'), outcome), ', '
			ORDER BY fire_time, token) FROM zk_job_runs GROUP BY path ORDER BY path));
}

sub fences
{
	my ($self) = @_;
	return join ' ', map { "$_->[0]:$_->[1]" }
	  $self->{observer}->ask('SELECT path, token FROM zk_lock_fences ORDER BY path');
}

1;
