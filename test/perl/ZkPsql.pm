
=pod

=head1 NAME

ZkPsql - a database session that may be kept waiting

=head1 SYNOPSIS

  my $holder = ZkPsql->new($node);
  is($holder->ask("SELECT zk_lock_acquire('/a')"), 't');

  my $waiter = ZkPsql->new($node);
  $waiter->send("SELECT zk_lock_acquire('/a')");
  ok(!$waiter->answered);
  $holder->ask("SELECT zk_lock_release('/a')");
  is($waiter->answer, 't');
  is($waiter->sqlstate, '');

=head1 DESCRIPTION

A PostgreSQL::Test::BackgroundPsql, which continues after errors, with asynchronous
statements, and with the lines of psql's standard error kept for each of them.

=cut

package ZkPsql;

use strict;
use warnings;

use Carp;
use Test::More;
use Time::HiRes qw(time);
use ZkTest qw(stop_process wait_for wait_for_cluster);

=pod

=head1 METHODS

=over

=item ZkPsql->new($node, %settings)

Connect to database C<postgres>, with these settings.

=cut

sub new
{
	my ($class, $node, %settings) = @_;
	my $self = bless {
		psql => $node->background_psql('postgres', on_error_stop => 0),
		statements => 0
	}, $class;

	# It would end the test some minutes after the connection, whatever happens then;
	# each wait has its own deadline.
	$self->{psql}{timeout}->reset;
	$self->ask('\set VERBOSITY verbose', 'quiet');
	$self->ask("SET $_ = '$settings{$_}'") foreach sort keys %settings;
	$self->{pid} = $self->ask('SELECT pg_backend_pid()');
	return $self;
}

=pod

=item $session->pid()

Of the backend.

=item $session->send($sql, $quiet)

Have it executed; do not wait for that.  With C<$quiet> it is not noted in the
test's output.

=cut

sub pid { return $_[0]->{pid}; }

sub send
{
	my ($self, $sql, $quiet) = @_;
	my $psql = $self->{psql};
	my $mark = 'answered ' . ++$self->{statements};

	$self->{note} = $quiet ? undef : "pid " . ($self->{pid} // '?');
	note "$self->{note}: $sql" unless $quiet;
	$sql .= ';' unless $sql =~ /^\\/;
	$psql->{stdin} .= "$sql\n\\echo '$mark'\n\\warn '$mark'\n";
	$self->{mark} = qr/\n?\Q$mark\E\n/;
	$psql->{run}->pump_nb;
	return;
}

=pod

=item $session->answered()

Was all that was sent executed by now?

=cut

sub answered
{
	my ($self) = @_;
	my $psql = $self->{psql};

	# Twice: psql may have read the last statement only now.
	foreach (1, 2)
	{
		$psql->{run}->pump_nb if $psql->{run}->pumpable;
	}
	return $psql->{stdout} =~ $self->{mark} && $psql->{stderr} =~ $self->{mark};
}

=pod

=item $session->answer($seconds)

Wait for that, and return the output.  What went wrong is in:

=item $session->errors()

Everything psql said on standard error: errors, warnings, notices.

=item $session->sqlstate()

Of the first error in there; empty if there is none.

=cut

sub answer
{
	my ($self, $seconds) = @_;
	my $psql = $self->{psql};

	wait_for(sub { $self->answered }, 'the end of a statement',
		$seconds // 120);
	($self->{errors} = $psql->{stderr}) =~ s/$self->{mark}//;
	$self->{errors} =~ s/^psql:<stdin>:\d+: //mg;
	(my $output = $psql->{stdout}) =~ s/$self->{mark}//;
	$psql->{stdout} = $psql->{stderr} = '';
	note "$self->{note} -> $output $self->{errors}" if $self->{note};
	return $output;
}

sub errors { return $_[0]->{errors}; }

sub sqlstate
{
	my ($self) = @_;
	my ($state) = $self->{errors} =~ /^(?:ERROR|FATAL): +([0-9A-Z]{5}):/m;
	return $state // '';
}

=pod

=item $session->ask($sql, $quiet)

C<send>, and the C<answer>.

=item $session->send_timed($call), $session->answer_timed($seconds)

The same for the call of a function: what it returns, and when that was, by PostgreSQL's
clock in seconds.

=item $session->zk_session()

The row of that function, as a hash; asked for in a transaction that is rolled
back, so that a lost lock does not stand in the way.

=cut

sub ask
{
	my ($self, $sql, $quiet) = @_;
	$self->send($sql, $quiet);
	return $self->answer;
}

sub send_timed
{
	my ($self, $call) = @_;
	$self->send("SELECT $call, extract(epoch FROM clock_timestamp())");
	return;
}

sub answer_timed
{
	my ($self, $seconds) = @_;
	return split /\|/, $self->answer($seconds);
}

sub zk_session
{
	my ($self) = @_;
	my @names =
	  qw(state session_id server session_timeout sessions reconnects);
	my $row = $self->ask(
		'BEGIN; SELECT ' . join(', ', @names) . ' FROM zk_session(); ROLLBACK',
		'quiet');
	my %session;
	@session{@names} = split /\|/, $row, -1;
	return \%session;
}

=pod

=item $session->last_held($in_transaction)

Wait until its only lock is lost, in its transaction or outside.  Returns when the lock was
last seen to be held, by a clock of PostgreSQL's that was read before: the machine may stand
still before the test can look.

=cut

sub last_held
{
	my ($self, $in_transaction) = @_;
	my $query = 'SELECT extract(epoch FROM clock_timestamp()); SELECT state FROM zk_locks';
	my $held = 0;
	$query = "BEGIN; $query; ROLLBACK" unless $in_transaction;
	wait_for(
		sub {
			my ($now, $state) = split /\n/, $self->ask($query, 'quiet');
			$held = $now if $state ne 'lost';
			return $state eq 'lost';
		},
		'the lock to be lost');
	return $held;
}

=pod

=item $session->wait_until_reconnected($before, $why)

Wait until the ZooKeeper session has another connection than in C<$before>, an earlier
result of zk_session; returns the present one.

=item $session->lock_state($path)

What the view C<zk_locks> says about a lock, empty if nothing; asked for in the
same way.

=item $session->wait_until_lost($path)

=item $session->wait_until_behind($observer, $column)

Until C<zk_lock_waits> shows that it waits for another one, and if a column is given,
until that is known, too.  The session $observer, of the same cluster, looks.

=item $session->wait_until_busy($observer, $condition)

Until the statement that was sent runs, and fulfils a condition on its row of
pg_stat_activity, if there is one.  The session $observer looks.  What is to happen
to a statement that runs must not come before it, as it can after send() alone.

=cut

sub wait_until_reconnected
{
	my ($self, $before, $why) = @_;
	my $now;
	wait_for(
		sub {
			$now = $self->zk_session;
			return $now->{state} eq 'connected'
			  && $now->{reconnects} > $before->{reconnects};
		},
		"another connection: $why");
	return $now;
}

sub lock_state
{
	my ($self, $path) = @_;
	return $self->ask('BEGIN; SELECT state FROM zk_locks'
		  . " WHERE path = '$path'; ROLLBACK", 'quiet');
}

sub wait_until_lost
{
	my ($self, $path) = @_;
	wait_for(sub { $self->lock_state($path) eq 'lost' }, "$path to be lost");
	return;
}

sub wait_until_behind
{
	my ($self, $observer, $column) = @_;
	$column //= '*';
	wait_for(
		sub {
			return $observer->ask(
				"SELECT count($column) FROM zk_lock_waits WHERE pid = $self->{pid}", 'quiet') eq '1';
		},
		"process $self->{pid} to wait");
	return;
}

sub wait_until_busy
{
	my ($self, $observer, $condition) = @_;
	my $row = "pid = $self->{pid} AND state = 'active'"
	  . (defined $condition ? " AND $condition" : '');
	wait_for(
		sub {
			return $observer->ask("SELECT count(*) FROM pg_stat_activity WHERE $row",
				'quiet');
		},
		'the statement to run');
	return;
}

=pod

=item $session->stop(), $session->continue()

SIGSTOP and SIGCONT to the backend.

=cut

sub stop
{
	my ($self) = @_;
	stop_process($self->{pid});
	return;
}

sub continue
{
	my ($self) = @_;
	kill('CONT', $self->{pid}) or croak "cannot continue $self->{pid}: $!";
	return;
}

=pod

=item $session->crash($node)

SIGKILL to the backend.  Returns when its cluster, which ends all other sessions and
restarts, can be used again: for a moment after the signal it still accepts new ones.

=cut

sub crash
{
	my ($self, $node) = @_;
	my $log = -s $node->logfile;
	kill('KILL', $self->{pid}) or croak "cannot kill $self->{pid}: $!";
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $log);
	wait_for_cluster($node);
	$self->{psql}{run}->finish;
	return;
}

=pod

=item $session->quit()

=back

=cut

sub quit
{
	my ($self) = @_;
	$self->{psql}{timeout}->start;
	$self->{psql}->quit;
	return;
}

1;
