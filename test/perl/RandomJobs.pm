
=pod

=head1 NAME

RandomJobs - the functions for jobs, as the model of a random run has them

=head1 DESCRIPTION

A part of RandomSession.  The job of a lock is a hash: C<state> is C<begun> or C<ending>;
C<begun> is the level of this transaction at which it was begun, 0 for none; C<nest> the
level at which its end was asked for.

=cut

package RandomJobs;

use strict;
use warnings;

my $world_gives_up = sub { RandomModel::give_up() };

# A lock whose job ends with the transaction can be neither acquired nor released.
sub check_job
{
	my ($self, $lock) = @_;
	$self->raise('55006') if $lock->{job}{state} eq 'ending';
	return;
}

sub check_jobs
{
	my ($self) = @_;
	foreach my $lock ($self->{locks}->all)
	{
		$self->check_job($lock) unless $lock->{lost};
	}
	return;
}

# Acquire the lock of a job, and continue with granted_job().
sub take_job
{
	my ($self, $verb, $path, $time, $scope, $timeout, $limited) = @_;
	my $lock = $self->{locks}->find($path);
	$self->check_rights($verb eq 'reset' ? 'xact' : $scope, $path);
	$self->raise('55006') if $lock && !$lock->{lost};
	return $self->acquire(
		{
			kind => 'job',
			verb => $verb,
			path => $path,
			time => $time,
			job_scope => $scope,
			limited => $limited,
			paths => [$path],
			mode => 'x',
			permits => 0,
			scope => 'session',
			timeout => $timeout,
			held => [],
			missing => []
		});
}

sub do_job_begin
{
	my ($self, $path, $time, $timeout, $limited) = @_;
	return $self->take_job('begin', $path, $time, 'session', $timeout, $limited);
}

sub do_job_begin_xact
{
	my ($self, $path, $time, $timeout, $limited) = @_;
	return $self->take_job('begin', $path, $time, 'xact', $timeout, $limited);
}

# The lock of a job was granted.
sub granted_job
{
	my ($self, $call) = @_;
	my $locks = $self->{locks};
	my $runs = $self->{world}{runs};
	my $path = $call->{path};
	my $done = $runs->is_done($path, $call->{time}, $self->{number});
	$self->count_granted($call);
	my $lock = $locks->find($path);
	return $self->reset_job($lock, $call->{time}, $done) if $call->{verb} eq 'reset';
	if ($done)
	{
		$locks->uncount($lock, 'x');
		$locks->forget($lock);
		return $self->result('false');
	}
	my $outcome = $call->{job_scope} eq 'xact' ? 'done' : 'running';
	$self->fail_runs($path);
	$self->insert_run($lock, $path, $call->{time}, $outcome);
	$world_gives_up->() if $call->{limited} && $self->{world}->limited_run;
	$lock->{job} = {
		state => 'begun',
		begun => $self->{nest},
		nest => 0,
		time => $call->{time},
		limited => $call->{limited}
	};
	if ($outcome eq 'done')
	{
		$lock->{session}{x}--;
		$locks->count($lock, 'xact', 'x', $self->{nest});
		$lock->{job}{state} = 'ending';
		$lock->{job}{nest} = $self->{nest};
		$self->notice("WARNING 25P01") if $self->is_alone;
	}
	return $self->result('true');
}

# Runs that have not ended failed.
sub fail_runs
{
	my ($self, $path) = @_;
	my $runs = $self->{world}{runs};
	my $writer = $self->{number};
	$self->void_runs($path);
	foreach my $row ($runs->select($writer, $path, 'running'))
	{
		$runs->change($row, $writer, $self->{nest}, 'failed')
		  unless $runs->is_locked($row, $writer);
	}
	return;
}

# Done runs that were reset are shown as such.
sub void_runs
{
	my ($self, $path, $insist) = @_;
	my $runs = $self->{world}{runs};
	my $writer = $self->{number};
	foreach my $row (grep { $runs->is_void($_) } $runs->select($writer, $path, 'done'))
	{
		my $locked = $runs->is_locked($row, $writer);
		$world_gives_up->() if $locked && $insist;
		$runs->change($row, $writer, $self->{nest}, 'reset') unless $locked;
	}
	return;
}

sub insert_run
{
	my ($self, $lock, $path, $time, $outcome) = @_;
	my $runs = $self->{world}{runs};
	my $writer = $self->{number};

	# It would wait for another transaction that ends the same run.
	$world_gives_up->() if $outcome eq 'done' && grep {
			 $_->{path} eq $path
		  && $_->{time} == $time
		  && $_->{outcome} eq 'done'
		  && ($_->{made} ne '' || $_->{gone} ne '')
		  && $_->{gone} ne $writer
	} @{ $runs->{versions} };
	$self->{wrote} = 1;
	$runs->insert(
		$writer, $self->{nest},
		path => $path,
		time => $time,
		id => $self->token_of($lock),
		outcome => $outcome);
	return;
}

sub do_job_end
{
	my ($self, $path) = @_;
	my $locks = $self->{locks};
	my $runs = $self->{world}{runs};
	my $writer = $self->{number};
	my $lock = $locks->find($path);
	if ($lock && $lock->{lost})
	{
		$self->let_go($lock) if RandomLocks::session_used($lock);
		$locks->uncount_all($lock);
		$self->raise('ZKL01');
	}
	$self->raise('55000') unless $lock && $lock->{job}{state} eq 'begun';
	$self->raise('55000')
	  if $lock->{session}{x} > 1 || @{ $lock->{levels} } || RandomLocks::used($lock, 's');
	my $job = $lock->{job};
	my $id = $self->token_of($lock);
	my @own = grep { $_->{id} == $id && $_->{time} == $job->{time} } $runs->select($writer, $path);
	$world_gives_up->() if grep { $runs->is_locked($_, $writer) } @own;
	$self->void_runs($path, 1);
	my ($running) = grep { $_->{outcome} eq 'running' } @own;
	$self->raise('ZKL01') if @own && !$running;
	$runs->remove($running, $writer, $self->{nest}) if $running;
	$self->insert_run($lock, $path, $job->{time}, 'done');
	@{$job}{qw(state nest)} = ('ending', $self->{nest});
	return $self->result('true');
}

sub do_job_reset
{
	my ($self, $path, $time) = @_;
	return $self->take_job('reset', $path, $time, 'session', 'try');
}

sub reset_job
{
	my ($self, $lock, $time, $done) = @_;
	my $locks = $self->{locks};
	my $runs = $self->{world}{runs};
	my $writer = $self->{number};
	my $path = $lock->{path};
	if ($done)
	{
		foreach my $row (grep { $_->{time} >= $time } $runs->select($writer, $path, 'done'))
		{
			$world_gives_up->() if $runs->is_locked($row, $writer);
			$runs->change($row, $writer, $self->{nest}, 'reset');
			$self->{wrote} = 1;
		}
		$runs->reset($path, $time, $self->token_of($lock));
	}
	$locks->uncount($lock, 'x');
	$locks->forget($lock);
	return $self->result($done ? 'true' : 'false');
}

sub do_job_history
{
	my ($self, $path) = @_;
	return $self->result(
		RandomRuns::show($self->{world}{runs}->select($self->{number}, $path)));
}

1;
