
=pod

=head1 NAME

ChaosWorker - an SQL client that works under locks and keeps a history

=head1 SYNOPSIS

  perl -MChaosWorker -e 'ChaosWorker::main(@ARGV)' FOLDER NUMBER

=head1 DESCRIPTION

A process of its own with one connection.  It acquires locks in all possible ways, and
increments the counters that they protect, with one read and one write each.  It writes
its actions and their times into FOLDER/worker-NUMBER.tsv, in lines of fields separated
by tabs:

=over

=item C BEGIN END STATEMENT SECTION OUTCOME LIMIT

A statement, its beginning and its end; the outcome is C<ok>, C<false>, an SQLSTATE, or
C<lost> if the connection was lost; its timeout.

=item S SECTION CLUSTER PATH MODE COUNTER GUARD PID SESSION TOKEN SEEN AGAIN
HOLD INVOKED ACQUIRED STEADY KIND TIME

A section: the findings under a lock.  HOLD is the first section of the same
acquisition.  STEADY is 1 if the backend's section before had the same ZooKeeper
session.  TIME is for how long the worker does nothing before it writes.

=item B TIME CLUSTER PID

A new connection.

=item X TIME TEXT

Something that must not happen.

=back

It connects, waits for a line of input, and works for the time that FOLDER/params.json
sets then.  Another line tells it that the faults are over: it completes the jobs, as no
failover undoes that any more, releases all it holds, creates FOLDER/worker-NUMBER.idle,
and stays connected until its standard input ends.

=cut

package ChaosWorker;

use strict;
use warnings;

use parent qw(ChaosClient ChaosWork ChaosPrepared ChaosJobs);

use ChaosRandom qw(is_stayer now);
use DBD::Pg qw(:async);
use Time::HiRes qw(sleep);

=pod

=head1 FUNCTIONS

=over

=item main($folder, $number)

=back

=cut

sub main
{
	my ($folder, $number) = @_;
	my $self = ChaosWorker->new($folder, $number);
	eval {
		$self->connect;
		$self->await_begin;
		$self->section until now() > $self->{params}{end};
		$self->await_end_of_faults;
		$self->catch_up;
		$self->quiesce;
		1;
	} or $self->note(X => now(), $@ =~ s/\s+/ /gr);
	$self->idle;
	return;
}

# ---- Sections.

# What the next section is to be.
sub plan
{
	my ($self) = @_;
	my $random = $self->{random};
	my $params = $self->{params};
	my $keeper = $self->{number} > $params->{workers} - $params->{keepers};
	my $paths = $keeper ? $params->{kept_paths} : $params->{paths};
	my $kind =
	  $random->weighted(%{ $keeper ? $params->{kept_mix} : $params->{mix} });
	$kind = 'xact' if $kind eq 'drop' && is_stayer($self->{number});
	my %plan = (
		kind => $kind,
		path => $random->pick(@$paths),
		mode => $kind =~ /shared/ ? 'shared' : 'exclusive',
		scope => $kind =~ /session|abandon|prepared/ ? 'session' : 'xact',
		counter => $random->pick(@{ $params->{counters} }),
		far_first => $random->chance(0.5),
		in_statement => $random->chance(0.5),
		transactions => 1);
	$plan{counter} = 'read' if $plan{mode} eq 'shared';
	$plan{counter} = 'plain' if $kind eq 'prepared';
	$self->plan_extent(\%plan, $keeper);
	%plan = (%plan, $self->job_plan) if $kind eq 'job';
	return \%plan;
}

# For how long, and with how many others.
sub plan_extent
{
	my ($self, $plan, $keeper) = @_;
	my $random = $self->{random};
	my $params = $self->{params};
	# From a tenth of the session timeout to five of them, with renewals of the lease.
	$plan->{hold} =
		$keeper || $random->chance($params->{long_chance})
	  ? $params->{timeout} * 10**$random->between(-1, 0.7)
	  : $random->chance(0.3) ? $random->interval($params->{work})
	  : 0;
	# What is prepared keeps others from a row.
	$plan->{hold} /= 2 if $plan->{kind} eq 'prepared';
	$plan->{transactions} += int $random->between(0, 12)
	  if $plan->{kind} =~ /session/ && !$keeper;
	# Some take other locks along.
	$plan->{paths} = [ $plan->{path} ];
	push @{ $plan->{paths} }, $random->pick(@{ $params->{paths} })
	  while !$keeper && $random->chance($params->{several_chance});
	$plan->{limit} = $random->weighted(0 => 15, 0.4 => 30, 10 => 55);
	$plan->{limit} *= $random->uniform if $plan->{limit} < 1;
	$plan->{limit} = $random->between(0.001, 0.05) if $plan->{kind} eq 'abandon';
	return;
}

# One of them, as planned or by chance, whatever becomes of it; true if it was
# committed.
sub section
{
	my ($self, $plan) = @_;
	$plan //= $self->plan;
	my %kinds = (
		drop => 'drop',
		abandon => 'abandon',
		prepared => 'prepared_scope',
		job => 'job');
	my $method = $kinds{ $plan->{kind} } // "$plan->{scope}_scope";

	$self->{lost} = 0;
	$self->{id} = "$self->{number}." . ++$self->{sections};
	$self->{hold_id} = $self->{id};
	return 1 if $self->$method($plan);
	$self->clean($plan->{scope});
	sleep $self->{random}->interval($self->{params}{pause});
	return 0;
}

# After a failure: restart, over another connection if necessary.
sub clean
{
	my ($self, $scope) = @_;
	$self->insist('rollback', 'ROLLBACK');
	$self->insist('clean', 'SELECT zk_lock_release_all()')
	  if $scope eq 'session';
	$self->connect if $self->{lost};
	return;
}

# The paths of a plan as an argument: one, or an array of several.
sub paths_argument
{
	my ($plan) = @_;
	my @paths = @{ $plan->{paths} };
	return @paths == 1 ? "'$paths[0]'" : "'{" . join(',', @paths) . "}'::text[]";
}

# Acquire, by the plan; true if that was granted.
sub acquire
{
	my ($self, $plan) = @_;
	my $paths = paths_argument($plan);
	my $function =
	  $plan->{scope} eq 'session' ? 'zk_lock_acquire' : 'zk_lock_acquire_xact';
	my $shared = $plan->{mode} eq 'shared' ? 'true' : 'false';
	my $limit = sprintf '%d ms', 1000 * $plan->{limit};
	my $done =
	  $self->did('acquire',
		"SELECT $function($paths, '$limit', $shared)",
		$plan->{limit});
	@{$self}{qw(invoked acquired)} = @{$self}{qw(begin_time end_time)};
	return $done;
}

# A transaction-level lock, and the work under it.
sub xact_scope
{
	my ($self, $plan) = @_;
	return
		 $self->did('begin', 'BEGIN')
	  && ($plan->{kind} ne 'savepoint' || $self->savepoint($plan))
	  && $self->acquire($plan)
	  && $self->work($plan)
	  && $self->did('commit', 'COMMIT');
}

# A lock of session scope, for some transactions.
sub session_scope
{
	my ($self, $plan) = @_;
	$self->acquire($plan) or return 0;
	foreach my $more (reverse 1 .. $plan->{transactions})
	{
		$self->did('begin', 'BEGIN')
		  && $self->work($plan)
		  && $self->did('commit', 'COMMIT')
		  or return 0;
		$self->{id} = "$self->{number}." . ++$self->{sections} if $more > 1;
	}
	return $self->give_back($plan);
}

sub give_back
{
	my ($self, $plan) = @_;
	return $self->did('release',
		@{ $plan->{paths} } > 1
		? 'SELECT zk_lock_release_all()'
		: "SELECT zk_lock_release('$plan->{path}')");
}

# Take another lock as well, for a moment, and release it by a rollback.
sub savepoint
{
	my ($self, $plan) = @_;
	my $other = $self->{random}->pick(@{ $self->{params}{paths} });
	$self->did('savepoint', 'SAVEPOINT here') or return 0;
	$self->run('acquire',
		"SELECT zk_lock_acquire_xact('$other', '20 ms')", 0.02);
	return 0 if $self->{lost};
	return $self->did('rollback', 'ROLLBACK TO SAVEPOINT here');
}

# A wait that ends by statement_timeout, if it is not granted before.  There is
# something to clean up in any case, as after a failure.
sub abandon
{
	my ($self, $plan) = @_;
	my $limit = 1 + int(1000 * $plan->{limit});
	$self->did('set', "SET statement_timeout = '$limit ms'")
	  or return 0;
	$self->run('acquire', "SELECT zk_lock_acquire('$plan->{path}')",
		$plan->{limit});
	$self->run('release', "SELECT zk_lock_release_all()")
	  if $self->{outcome} eq 'ok';
	$self->insist('set', 'RESET statement_timeout');
	return 0;
}

# The same for a connection that is closed during the wait, or after it.
sub drop
{
	my ($self, $plan) = @_;
	my $statement =
	  $self->{dbh}->prepare("SELECT zk_lock_acquire('$plan->{path}', '2 s')",
		{ pg_async => PG_ASYNC });
	$statement->execute if $statement;
	sleep $self->{random}->interval(0.02);
	undef $statement;
	$self->{dbh}->disconnect;
	$self->{lost} = 1;
	return 0;
}

# ---- The end.

# Give everything back and stay: then there must be nothing left of this worker.
sub quiesce
{
	my ($self) = @_;
	undef $self->{id};
	do
	{
		$self->{lost} = 0;
		$self->insist('rollback', 'ROLLBACK');
		$self->insist('clean', 'SELECT zk_lock_release_all()');
		$self->connect if $self->{lost};
	} while ($self->{lost});
	return;
}

# Until standard input ends.
sub idle
{
	my ($self) = @_;
	open my $file, '>', "$self->{folder}/worker-$self->{number}.idle"
	  or die "idle: $!";
	close $file;
	1 while sysread STDIN, my $input, 4096;
	$self->{dbh}->disconnect if $self->{dbh};
	return;
}

1;
