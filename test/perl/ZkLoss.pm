
=pod

=head1 NAME

ZkLoss - locks that are lost in the middle of SQL

=head1 SYNOPSIS

  use ZkLoss;

  create_lose($node);
  $session->ask("BEGIN; SELECT zk_lock_acquire_xact('/a'); SELECT lose('/a'); COMMIT");
  is($session->sqlstate, 'ZKL01');

  lost_lock($session, '/b');

=cut

package ZkLoss;

use strict;
use warnings;

use Exporter 'import';
use Test::More;

our @EXPORT = qw(create_lose lost_lock);

=pod

=head1 FUNCTIONS

=over

=item create_lose($node)

Create the function C<lose(path)> in database C<postgres>: another backend breaks a lock of the
one that calls it, which waits until the lock is lost.  This takes the extension dblink.

=item lost_lock($session, $path)

Give a ZkPsql a session-scope lock that it has lost.  That is a test.

=back

=cut

sub create_lose
{
	my ($node) = @_;
	my $connection = $node->connstr('postgres') =~ s/'//gr;

	# Its caller may have another search_path, as workers of replication do.
	$node->safe_psql(
		'postgres', qq(
		CREATE EXTENSION dblink;
		CREATE FUNCTION lose(lost text) RETURNS void LANGUAGE plpgsql SET search_path = public
		AS \$\$
		BEGIN
			PERFORM * FROM dblink('$connection', format(
				'SELECT zk_lock_break(%L, %L)', lost,
				(SELECT contender FROM zk_locks WHERE path = lost))) AS t (b boolean);
			WHILE EXISTS (SELECT FROM zk_locks WHERE path = lost AND state <> 'lost') LOOP
				PERFORM pg_sleep(0.005);
			END LOOP;
		END \$\$));
	return;
}

sub lost_lock
{
	my ($session, $path) = @_;
	$session->ask("SELECT zk_lock_acquire('$path')", 'quiet');
	$session->ask("BEGIN; SELECT lose('$path'); ROLLBACK", 'quiet');
	is($session->lock_state($path), 'lost', "$path is lost");
	return;
}

1;
