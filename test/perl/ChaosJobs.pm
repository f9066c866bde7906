
=pod

=head1 NAME

ChaosJobs - jobs that the workers of a chaos run share, and work that is counted

=head1 DESCRIPTION

Part of ChaosWorker.  Each cluster has jobs of its own, which are due every other
second.  The workers catch up with due runs, one fire time after the other; a run
adds a row with its number to the table of sections.  So the table shows what the
cluster has done, and which run is due: if a failover has lost the work of some they
are due again.

=cut

package ChaosJobs;

use strict;
use warnings;

use ChaosRandom qw(now);
use List::Util qw(all);
use Time::HiRes qw(sleep time);

# At the end a job gets nowhere if there is no further run for so long.
my $patience = 30;

=pod

=head1 METHODS

=over

=item $worker->job($plan)

Begin the run that is due, or try to begin the last one once more, and do its work.
True if that was committed.

=cut

sub job
{
	my ($self, $plan) = @_;
	my $last = $self->last_run($plan) // return 0;
	my $due = $self->due;
	my $number = $last < $due && !$plan->{once_more} ? $last + 1 : $last;

	return 1 if $number < 0;
	return $self->did('begin', 'BEGIN')
	  && $self->begin_run($plan, $number, 'zk_job_begin_xact')
	  && $self->do_run($plan, $number)
	  if $plan->{one_transaction};
	return
		 $self->begin_run($plan, $number, 'zk_job_begin')
	  && $self->did('begin', 'BEGIN')
	  && $self->do_run($plan, $number);
}

# The last run whose work exists: -1 if there is none.
sub last_run
{
	my ($self, $plan) = @_;
	my ($last) = $self->run('look',
			'SELECT coalesce(max(seen::bigint), -1) FROM sections'
		  . " WHERE counter = 'job' AND path = '$plan->{path}'");
	return $self->{outcome} eq 'ok' ? $last : undef;
}

# The last run that is due.
sub due
{
	my ($self) = @_;
	my $jobs = $self->{params}{jobs};
	my $until = $jobs->{last} * $jobs->{step} + $jobs->{first};
	my $now = time;
	return int((($now < $until ? $now : $until) - $jobs->{first}) / $jobs->{step});
}

sub begin_run
{
	my ($self, $plan, $number, $function) = @_;
	my $jobs = $self->{params}{jobs};
	my $fire_time = $jobs->{first} + $number * $jobs->{step};
	my $limit = sprintf '%d ms', 1000 * $plan->{limit};
	my $done = $self->did('job_begin',
		"SELECT $function('$plan->{path}', to_timestamp($fire_time), '$limit')",
		$plan->{limit});
	@{$self}{qw(invoked acquired)} = @{$self}{qw(begin_time end_time)};
	return $done;
}

# The work, and the end of the run, in either order; the end may be that of the
# transaction.  Some are given up after all.
sub do_run
{
	my ($self, $plan, $number) = @_;
	my $path = $plan->{path};
	my ($token, $session) = $self->run('read',
		"SELECT zk_lock_token('$path'), (zk_session()).session_id");
	return 0 unless $self->{outcome} eq 'ok';
	$self->note_section($plan, $session, $token, $number, $number);
	my @steps = (
		sub { $self->did('write', $self->row($plan, $number, $token)) },
		sub { $self->did('job_end', "SELECT zk_job_end('$path')") });
	pop @steps if $plan->{one_transaction};
	@steps = reverse @steps if $plan->{end_first};
	return
		 $self->hold($plan)
	  && (all { $_->() } @steps)
	  && !$plan->{give_up}
	  && $self->did('commit', 'COMMIT');
}

=pod

=item $worker->catch_up()

After the faults: complete all due runs, each worker beginning with another job.  Skips a
job that makes no progress; the checker detects missing runs.

=cut

sub catch_up
{
	my ($self) = @_;
	my @paths = @{ $self->{params}{jobs}{paths}{ $self->{cluster} } };
	push @paths, splice @paths, 0, $self->{number} / 2 % @paths if @paths;
	$self->catch_up_with($_) foreach @paths;
	return;
}

sub catch_up_with
{
	my ($self, $path) = @_;
	my $plan = { $self->job_plan($path), hold => 0, limit => 0 };
	my ($done, $deadline) = (-1, now() + $patience);
	until (now() > $deadline)
	{
		my $last = $self->last_run($plan) // $done;
		last if $last >= $self->{params}{jobs}{last};
		($done, $deadline) = ($last, now() + $patience) if $last > $done;
		# Many want to, but one after the other can.
		sleep $self->{random}->interval(0.2) unless $self->section($plan);
	}
	return;
}

=pod

=item $worker->job_plan($path)

What is different in the plan of a run, of that job or of any.

=back

=cut

sub job_plan
{
	my ($self, $path) = @_;
	my $random = $self->{random};
	return (
		kind => 'job',
		path => $path
		  // $random->pick(@{ $self->{params}{jobs}{paths}{ $self->{cluster} } }),
		scope => 'session',
		mode => 'exclusive',
		counter => 'job',
		once_more => !$path && $random->chance(0.1),
		end_first => $random->chance(0.5),
		one_transaction => $random->chance(0.4),
		give_up => !$path && $random->chance(0.1));
}

1;
