
=pod

=head1 NAME

RandomFunctions - the functions of zklock, as the model of a random run has them

=head1 DESCRIPTION

A part of RandomSession.  The rules are those of doc/reference.md and
doc/explanation.md.

=cut

package RandomFunctions;

use strict;
use warnings;

use parent 'RandomJobs';

use List::Util qw(uniq);
use RandomStep;

# ---- Acquiring.

# Whether the settings admit the call; is the first of all checks.
sub check_rights
{
	my ($self, $scope, @paths) = @_;
	my %admitted = map { $_ => 1 } RandomStep::some_paths();
	$self->raise('42501')
	  if $self->setting('paths') eq 'some' && grep { !$admitted{$_} } @paths;
	return if $scope eq 'xact' || $self->setting('session_scope') eq 'on';
	$self->raise('55000') if $self->setting('session_scope') eq 'off';
	$self->notice('WARNING 01000');
	return;
}

# A transaction whose commit will be refused acquires nothing.
sub guard_transaction
{
	my ($self, @paths) = @_;
	return if $self->setting('commit_guard') eq 'off';
	$self->raise('ZKL01') if $self->{conduct} eq 'doomed';
	foreach my $lock ($self->{locks}->all)
	{
		next unless $lock->{lost};
		$self->raise('ZKL01') unless grep { $_ eq $lock->{path} } @paths;
	}
	return;
}

# Which of the locks are to be queued for.
sub sort_out
{
	my ($self, $call) = @_;
	foreach my $path (@{ $call->{paths} })
	{
		my $lock = $self->{locks}->find($path);
		if ($lock)
		{
			$self->raise('55006') if $lock->{permits} != $call->{permits};
			$self->check_job($lock);
			if (!$lock->{lost} && RandomLocks::covers($lock, $call->{mode}))
			{
				push @{ $call->{held} }, $path;
				next;
			}
			$self->raise('ZKL01')
			  if $lock->{lost}
			  && (RandomLocks::binds($lock)
				|| $call->{scope} eq 'xact'
				|| $self->{conduct} eq 'work' && $self->setting('commit_guard') ne 'off');
		}
		push @{ $call->{missing} }, $path;
	}
	my $new = grep { !$self->{locks}->find($_) } @{ $call->{paths} };
	my $limit = $self->setting('max_locks');
	$self->raise('53400') if $limit ne 'any' && $new && $self->{locks}->all + $new > $limit;
	return;
}

sub acquire
{
	my ($self, $call) = @_;
	my $queues = $self->{world}{queues};
	my $delay = $call->{mode} ne 'p' && $self->setting('lock_delay') eq 'on';
	$self->guard_transaction(@{ $call->{paths} });
	$self->sort_out($call);
	$call->{contenders} = [
		map { $queues->add($self->{number}, $_, @{$call}{qw(mode permits)}, $delay) }
		  @{ $call->{missing} }
	];
	if (grep { $queues->mistaken($_) } @{ $call->{contenders} })
	{
		$self->withdraw($call);
		$self->raise('55006');
	}
	my $granted = "granted_$call->{kind}";
	my $delayed = grep { $queues->is_delayed($_) } @{ $call->{contenders} };
	RandomModel::give_up() if $delayed && $call->{timeout} eq 'short';
	return $self->$granted($call)
	  unless $delayed && $call->{timeout} eq 'try'
	  || grep { $queues->blockers($_) } @{ $call->{contenders} };
	if ($call->{timeout} eq 'try' || $call->{timeout} eq 'short')
	{
		$self->refuse_circle($call) if $call->{timeout} eq 'short';
		$self->withdraw($call);
		$self->raise('55006') if ($call->{verb} // '') eq 'reset';
		return $self->acquired($call, 'false');
	}
	return $self->wait_for($call);
}

# The statement waits, if its timeouts allow that.  It is open which of two timeouts
# comes first.
sub wait_for
{
	my ($self, $call) = @_;
	my $statement = $self->{statement};
	my $lock_timeout = $self->setting('lock_timeout') eq 'on';
	if ($lock_timeout || $statement->{timeout})
	{
		RandomModel::give_up() if $lock_timeout && $statement->{timeout};
		$self->refuse_circle($call);
		$self->withdraw($call);
		$self->raise($lock_timeout ? '55P03' : '57014');
	}
	$statement->{wait} = $call;
	return;
}

# It is open whether a timeout or the check for deadlocks comes first.
sub refuse_circle
{
	my ($self, $call) = @_;
	$self->{statement}{wait} = $call;
	RandomModel::give_up() if $self->{world}->find_circle($self);
	delete $self->{statement}{wait};
	return;
}

# What a function, or the procedure, returns.
sub acquired
{
	my ($self, $call, $text) = @_;
	$text = substr $text, 0, 1 if $call->{plain} && $self->{statement}{kind} eq 'query';
	return $self->result($text);
}

sub do_acquire
{
	my ($self, $paths, $mode, $scope, $timeout) = @_;
	$self->check_rights($scope, split /,/, $paths);
	return $self->acquire(
		{
			kind => 'locks',
			paths => [ uniq sort split /,/, $paths ],
			mode => $mode,
			permits => 0,
			scope => $scope,
			timeout => $timeout,
			held => [],
			missing => []
		});
}

# The procedure needs a place where it can do without a snapshot.
sub do_lock_wait
{
	my ($self, $paths, $mode, $timeout) = @_;
	my $statement = $self->{statement};
	my $atomic = !$statement->{alone} || $statement->{kind} =~ /call|function/;
	$self->check_rights('session', split /,/, $paths);
	$self->raise('25001') if $atomic || @{ $statement->{handlers} } || $self->{wrote};
	return $self->acquire(
		{
			kind => 'locks',
			paths => [ uniq sort split /,/, $paths ],
			mode => $mode,
			permits => 0,
			scope => 'session',
			timeout => $timeout,
			plain => 1,
			held => [],
			missing => []
		});
}

sub do_permit
{
	my ($self, $path, $permits, $scope, $timeout) = @_;
	$self->check_rights($scope, $path);
	return $self->acquire(
		{
			kind => 'locks',
			paths => [$path],
			mode => 'p',
			permits => $permits,
			scope => $scope,
			timeout => $timeout,
			held => [],
			missing => []
		});
}

# The contenders of a call that has come to nothing.
sub withdraw
{
	my ($self, $call) = @_;
	$self->{world}{queues}->remove($_) foreach @{ $call->{contenders} // [] };
	return;
}

sub granted_locks
{
	my ($self, $call) = @_;
	$self->count_granted($call);
	return $self->acquired($call, 'true');
}

sub count_granted
{
	my ($self, $call) = @_;
	my $locks = $self->{locks};
	my $mode = $call->{mode};
	my @contenders = @{ $call->{contenders} };
	$self->{world}{queues}->end_delay($_) foreach @contenders;
	foreach my $path (@{ $call->{missing} })
	{
		my $lock = $locks->make($path, $call->{permits});
		if ($lock->{lost})
		{
			$self->notice("WARNING ZKL01 $path");
			$lock->{lost} = 0;
			$lock->{session} = {};
			$lock->{job}{begun} = 0;
		}
		$lock->{has}{$mode} = shift @contenders;
	}
	foreach my $path (@{ $call->{paths} })
	{
		my $lock = $locks->find($path);
		$locks->reserve($lock, $mode);
		$locks->count($lock, $call->{scope}, $mode, $self->{nest});
	}
	$self->work;
	return;
}

# ---- Releasing.

# A lock is released, or rolled back, that may have been lost: no commit may follow, if
# the transaction may have relied on it.
sub let_go
{
	my ($self, $lock) = @_;
	$self->{conduct} = 'doomed' if $lock->{lost} && $self->{conduct} eq 'work';
	return;
}

sub release_modes
{
	my ($self, $path, @modes) = @_;
	my $locks = $self->{locks};
	my $lock = $locks->find($path);
	my $permit = $modes[0] eq 'p';
	if (   $lock
		&& $lock->{lost}
		&& ($lock->{permits} > 0) == $permit
		&& RandomLocks::session_used($lock))
	{
		$self->notice("WARNING ZKL01 $path");
		$self->let_go($lock);
		$locks->uncount_all($lock);
		$locks->forget($lock);
		return $self->result('false');
	}
	$self->check_job($lock) if $lock && !$permit;
	foreach my $mode (@modes)
	{
		next unless $lock && $lock->{session}{$mode};
		$self->let_go($lock);
		$locks->uncount($lock, $mode);
		$locks->forget($lock);
		return $self->result('true');
	}
	$self->notice("WARNING 01000 $path");
	return $self->result('false');
}

sub do_release
{
	my ($self, $path, $mode) = @_;
	return $self->release_modes($path, $mode eq 'any' ? qw(x s) : $mode);
}

sub do_release_permit
{
	my ($self, $path) = @_;
	return $self->release_modes($path, 'p');
}

sub do_release_all
{
	my ($self) = @_;
	my $locks = $self->{locks};
	my $ended = 0;
	$self->check_jobs;
	my @used = grep { RandomLocks::session_used($_) } $locks->all;
	foreach my $lock (@used)
	{
		$self->notice("WARNING ZKL01 $lock->{path}") if $lock->{lost};
	}
	foreach my $lock (@used)
	{
		$self->let_go($lock);
		$lock->{session} = {};
		$ended += $locks->settle($lock);
		$locks->forget($lock);
	}
	return $self->result($ended);
}

# What the transaction holds is lost with the ZooKeeper session.
sub do_close
{
	my ($self) = @_;
	my $locks = $self->{locks};
	$self->check_jobs;
	foreach my $lock ($locks->all)
	{
		$locks->lose($lock, 'none') if @{ $lock->{levels} } && !$lock->{lost};
		$self->let_go($lock) if RandomLocks::session_used($lock);
		$locks->uncount_all($lock);
		$locks->forget($lock);
	}
	return $self->result('');
}

# ---- Looking.

sub do_look
{
	my ($self) = @_;
	return $self->result(join ', ', $self->{locks}->rows);
}

# A token is that of a contender, which the run knows.
sub token_of
{
	my ($self, $lock) = @_;
	return $lock->{has}{ RandomLocks::main_mode($lock) };
}

sub do_token
{
	my ($self, $path) = @_;
	my $lock = $self->{locks}->find($path);
	$self->raise('55000') unless $lock;
	$self->raise('ZKL01') if $lock->{lost};
	return $self->result('token ' . $self->token_of($lock));
}

sub do_verify { return do_token(@_); }

# ---- Fencing.

sub do_fence
{
	my ($self, $path) = @_;
	my $lock = $self->{locks}->find($path);
	$self->raise('55000') unless $lock && RandomLocks::used($lock, 'x');
	$self->raise('ZKL01') if $lock->{lost};
	return $self->granted_fence({ kind => 'fence', path => $path });
}

# Waits for another transaction at the fence, and comes here again when that has ended.
sub granted_fence
{
	my ($self, $call) = @_;
	my $world = $self->{world};
	my $path = $call->{path};
	my $lock = $self->{locks}->find($path);
	my $token = $self->token_of($lock);
	if (!$lock->{fenced} || $lock->{fence_token} != $token)
	{
		if ($world->fence_owner($path, $self->{number}))
		{
			return $self->wait_for($call);
		}
		$self->{wrote} = 1;
		$self->raise('ZKL01') if $world->fence_token($path) > $token;
		$world->write_fence($path, $self->{number}, $self->{nest}, $token);
		$lock->{fenced} = $self->{nest};
		$lock->{fence_token} = $token;
	}
	return $self->result("token $token");
}

1;
