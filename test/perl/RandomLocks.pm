
=pod

=head1 NAME

RandomLocks - the locks of one session of a random run, as the model has them

=head1 DESCRIPTION

Counts by path, scope, level of subtransaction and mode; and the contenders that stand
for them in the queues.  The rules are those of doc/reference.md ("Stacking", "Shared and
exclusive mode") and of "Losing a lock" in doc/explanation.md.

=cut

package RandomLocks;

use strict;
use warnings;

use List::Util qw(sum0);

my @modes = qw(x s p);

sub new
{
	my ($class, $session, $queues) = @_;
	return bless { session => $session, queues => $queues, locks => {} }, $class;
}

=pod

=head1 METHODS

=over

=item $locks->find($path), $locks->make($path, $permits)

A lock that the session has, even if it was lost; undef if it has none.

=item $locks->forget($lock)

If nothing of it is left.

=item $locks->all()

By path.

=cut

sub find { return $_[0]->{locks}{ $_[1] }; }

sub make
{
	my ($self, $path, $permits) = @_;
	return $self->{locks}{$path} //= {
		path => $path,
		permits => $permits,
		session => {},
		levels => [],
		has => {},
		reserved => 0,
		lost => 0,
		fenced => 0,
		revoked => {},
		job => no_job()
	};
}

sub forget
{
	my ($self, $lock) = @_;
	delete $self->{locks}{ $lock->{path} } unless grep { used($lock, $_) } @modes;
	return;
}

sub all
{
	my ($self) = @_;
	return map { $self->{locks}{$_} } sort keys %{ $self->{locks} };
}

=pod

=item $locks->count($lock, $scope, $mode, $nest)

One more acquisition.

=item $locks->uncount($lock, $mode), $locks->uncount_all($lock)

One of the session's acquisitions less (false if there is none), or all of them.

=cut

sub count
{
	my ($self, $lock, $scope, $mode, $nest) = @_;
	if ($scope eq 'session')
	{
		$lock->{session}{$mode}++;
		return;
	}
	my $levels = $lock->{levels};
	push @$levels, { nest => $nest, count => {} }
	  unless @$levels && $levels->[-1]{nest} == $nest;
	$levels->[-1]{count}{$mode}++;
	return;
}

sub uncount
{
	my ($self, $lock, $mode) = @_;
	return 0 unless $lock->{session}{$mode};
	$lock->{session}{$mode}--;
	$self->settle($lock);
	return 1;
}

sub uncount_all
{
	my ($self, $lock) = @_;
	$lock->{session} = {};
	$self->settle($lock);
	return;
}

# Whether a shared acquisition under an exclusive contender needs a place for later.
sub reserve
{
	my ($self, $lock, $mode) = @_;
	$lock->{reserved} = 1 if $mode eq 's' && $lock->{has}{x} && !$lock->{has}{s};
	return;
}

=pod

=item transaction_count($lock, $mode), session_used($lock), used($lock, $mode)

=item covers($lock, $mode)

Whether what is held is as good as this mode.

=item binds($lock)

Whether the transaction depends on it.

=cut

sub transaction_count
{
	my ($lock, $mode) = @_;
	return sum0 map { $_->{count}{$mode} // 0 } @{ $lock->{levels} };
}

sub session_used
{
	my ($lock) = @_;
	return grep { $_ } values %{ $lock->{session} };
}

sub used
{
	my ($lock, $mode) = @_;
	return $lock->{session}{$mode} || transaction_count($lock, $mode);
}

sub covers
{
	my ($lock, $mode) = @_;
	return $lock->{has}{x} || $lock->{has}{$mode};
}

sub binds
{
	my ($lock) = @_;
	return @{ $lock->{levels} } || $lock->{fenced};
}

=pod

=item $locks->settle($lock)

Ends the contenders that no count needs.  Returns how many there were.

=item $locks->lose($lock, $how)

Its main contender vanishes; with C<all> every one, with C<none> all are released.

=cut

sub settle
{
	my ($self, $lock) = @_;
	my $has = $lock->{has};
	my $ended = 0;
	if ($has->{x} && !used($lock, 'x') && used($lock, 's') && $lock->{reserved})
	{
		$self->{queues}->downgrade($has->{x});
		$has->{s} = delete $has->{x};
		delete $lock->{revoked}{x};
		$lock->{reserved} = 0;
		$lock->{job} = no_job();
	}
	foreach my $mode (@modes)
	{
		next if used($lock, $mode);
		$lock->{reserved} = 0 if $mode eq 's';
		next unless $has->{$mode};
		$self->{queues}->remove(delete $has->{$mode});
		delete $lock->{revoked}{$mode};
		$lock->{job} = no_job() if $mode eq 'x';
		$ended++;
	}
	return $ended;
}

sub lose
{
	my ($self, $lock, $how) = @_;
	my $main = main_mode($lock);
	foreach my $mode (keys %{ $lock->{has} })
	{
		my $vanishes = $how eq 'all' || $how eq 'main' && $mode eq $main;
		my $id = $lock->{has}{$mode};
		$vanishes ? $self->{queues}->vanish($id) : $self->{queues}->remove($id);
	}
	$lock->{has} = {};
	$lock->{revoked} = {};
	$lock->{reserved} = 0;
	$lock->{lost} = 1;
	$lock->{job}{state} = '';
	return;
}

=pod

=item RandomLocks::main_mode($lock)

That of the contender whose token counts; undef if it has none.

=item $locks->drop_levels($nest), $locks->pass_up($nest)

The effects of a subtransaction's rollback, or commit, on all locks.  Level 1 is the
transaction itself.

=cut

sub main_mode
{
	my ($lock) = @_;
	my ($mode) = grep { $lock->{has}{$_} } @modes;
	return $mode;
}

sub drop_levels
{
	my ($self, $nest) = @_;
	foreach my $lock ($self->all)
	{
		@{ $lock->{levels} } = grep { $_->{nest} < $nest } @{ $lock->{levels} };
		$lock->{fenced} = 0 if $lock->{fenced} >= $nest;
		$self->roll_back_job($lock, $nest);
		$self->settle($lock);
		$self->forget($lock);
	}
	return;
}

sub no_job { return { state => '', begun => 0, nest => 0 }; }

# A job that was begun there was not begun; its end there was no end.
sub roll_back_job
{
	my ($self, $lock, $nest) = @_;
	my $job = $lock->{job};
	$job->{state} = 'begun' if $job->{state} eq 'ending' && $job->{nest} >= $nest;
	return if $job->{begun} < $nest;
	$lock->{job} = no_job();
	$lock->{session}{x}-- if $lock->{session}{x};
	return;
}

# What the commit of the transaction does to jobs.
sub commit_jobs
{
	my ($self) = @_;
	foreach my $lock ($self->all)
	{
		$lock->{job}{begun} = 0;
		$lock->{session} = {} if $lock->{job}{state} eq 'ending';
		$self->settle($lock) if $lock->{job}{state} eq 'ending';
	}
	return;
}

sub pass_up
{
	my ($self, $nest) = @_;
	foreach my $lock ($self->all)
	{
		my $levels = $lock->{levels};
		$lock->{fenced} = $nest - 1 if $lock->{fenced} == $nest;
		foreach my $when (qw(begun nest))
		{
			$lock->{job}{$when} = $nest - 1 if $lock->{job}{$when} == $nest;
		}
		next unless @$levels && $levels->[-1]{nest} == $nest;
		if (@$levels > 1 && $levels->[-2]{nest} == $nest - 1)
		{
			my $top = pop @$levels;
			$levels->[-1]{count}{$_} += $top->{count}{$_} foreach keys %{ $top->{count} };
		}
		else
		{
			$levels->[-1]{nest} = $nest - 1;
		}
	}
	return;
}

=pod

=item $locks->rows()

What the view zk_locks shows.

=back

=cut

sub rows
{
	my ($self) = @_;
	my %name = (x => 'exclusive', s => 'shared', p => 'permit');
	my @rows;
	foreach my $lock ($self->all)
	{
		my $state = $lock->{lost} ? 'lost' : 'held';
		push @rows, map {
			"$lock->{path} $name{$_} "
			  . ($lock->{session}{$_} // 0) . ' '
			  . transaction_count($lock, $_)
			  . " $state"
			  . ($lock->{revoked}{ $lock->{has}{$_} ? $_ : 'x' } ? ' revoked' : '')
		} grep { used($lock, $_) } qw(x p s);
	}
	return @rows;
}

sub text
{
	my ($self) = @_;
	return join "\n", $self->rows,
	  map { "$_->{path} fenced $_->{fenced} job "
		  . join ' ', @{ $_->{job} }{qw(state begun nest)}, %{ $_->{revoked} } }
	  $self->all;
}

1;
