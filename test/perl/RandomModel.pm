
=pod

=head1 NAME

RandomModel - what a random run has to look like

=head1 SYNOPSIS

  my $model = RandomModel->new(4);
  my $next = $model->predict(RandomStep->new('1 acquire /a x session wait')) or next;
  $next->answers;    # { 1 => { state => '', value => 'true', notices => [] } }

=head1 DESCRIPTION

The locks of all sessions, their transactions, the fences, and the rows that are
committed.  A step has one outcome, or none that can be predicted: then it is not used.
That is so where sessions that continue at the same time could overtake each other, and
in some deadlocks.

To find the former, a step that wakes others is executed in several orders, which must
all lead to the same.

=cut

package RandomModel;

use strict;
use warnings;

use RandomQueues;
use RandomRuns;
use RandomSession;
use Storable qw(dclone);

=pod

=head1 METHODS

=over

=item RandomModel->new($sessions)

=item $model->predict($step)

The model after that step; undef if it is not possible now, or cannot be predicted.

=item $model->answers()

By session: what the statements return that have ended with the last step.

=item $model->circle()

The sessions of the deadlock that the last step has closed and ended; its own comes first.

=item $model->limited_run()

The lock of a job that runs with a limit of time; undef if there is none.

=item $model->sessions(), $model->session($number), $model->queues()

=cut

sub new
{
	my ($class, $count) = @_;
	my $self = bless {
		queues => RandomQueues->new,
		fences => {},
		runs => RandomRuns->new,
		prepared => {},
		work => {},
		answers => {},
		order => 'eager'
	}, $class;
	$self->{sessions} = [ map { RandomSession->new($_, $self) } 1 .. $count ];
	return $self;
}

sub answers { return $_[0]->{answers}; }
sub circle { return @{ $_[0]->{circle} }; }
sub sessions { return @{ $_[0]->{sessions} }; }
sub session { return $_[0]->{sessions}[ $_[1] - 1 ]; }
sub queues { return $_[0]->{queues}; }

sub limited_run
{
	my ($self) = @_;
	my ($lock) = grep { $_->{job}{limited} && !$_->{lost} } map { $_->{locks}->all } $self->sessions;
	return $lock;
}

sub predict
{
	my ($self, $step) = @_;
	my $first = $self->try($step, 'eager') or return;
	return $first unless $first->{woken};
	my $text = $first->text;
	foreach my $order (qw(lazy reverse))
	{
		my $other = $self->try($step, $order) or return;
		return if $other->text ne $text;
	}
	return $first;
}

sub try
{
	my ($self, $step, $order) = @_;
	my $copy = dclone($self);
	@{$copy}{qw(order answers woken circle)} = ($order, {}, 0, []);
	return $copy if eval { $copy->take($step); 1 };
	die $@ unless ref $@ eq 'RandomUnpredictable';
	return;
}

sub give_up { die bless {}, 'RandomUnpredictable'; }

sub take
{
	my ($self, $step) = @_;
	$self->expect_notice($step);
	if ($step->session == 0)
	{
		my ($verb, $number, @arguments) = @{ ($step->operations)[0] };
		my $method = "world_$verb";
		give_up() unless $self->session($number);
		$self->$method($self->session($number), @arguments);
	}
	else
	{
		my $session = $self->session($step->session) or give_up();
		give_up() if $session->waits;
		$session->execute($step->kind, $step->operations);
	}
	$self->wake_all(0);
	$self->end_deadlock($step->session);
	$self->check_waits;
	$self->check_notice;
	return;
}

# After a theft, which its session may not know of, comes a step of that session which
# finds it out, and fails.
sub expect_notice
{
	my ($self, $step) = @_;
	my $stolen = delete $self->{stolen} or return;
	give_up() unless $step->session == $stolen->{session};
	my $session = $self->session($step->session);
	my ($verb, $path) = @{ ($step->operations)[0] };
	my $asks = $session->setting('commit_guard') eq 'quorum'
	  && $session->{conduct} =~ /^(unknown|work)$/ && !%{ $session->{cursors} };
	give_up()
	  unless $verb eq 'verify' && $path eq $stolen->{path}
	  || $asks && $session->{block} eq 'open' && $verb =~ /^(commit|prepare)$/
	  || $asks && $session->{block} eq 'idle' && $verb =~ /^(work|nothing)$/;
	$self->{noticing} = $step->session;
	return;
}

# It did.
sub check_notice
{
	my ($self) = @_;
	my $number = delete $self->{noticing} or return;
	my $answer = $self->{answers}{$number};
	give_up() unless $answer && $answer->{state} eq 'ZKL01';
	return;
}

# A session whose wait closes a circle of waits for locks gets the error, if the others
# have waited before.
sub end_deadlock
{
	my ($self, $number) = @_;
	return if $number == 0 || $self->{woken};
	my $session = $self->session($number);
	my @circle = $self->find_circle($session) or return;
	give_up() if grep { $self->session($_)->waits->{kind} eq 'fence' } @circle;
	$self->{circle} = \@circle;
	$session->throw('40P01');
	$self->wake_all(0);
	return;
}

# ---- Waits.

# Does a wait end?
sub is_over
{
	my ($self, $session) = @_;
	my $wait = $session->waits or return 0;
	return 0 if $wait->{kind} eq 'pause';
	return !$self->fence_owner($wait->{path}, $session->{number}) if $wait->{kind} eq 'fence';
	return !grep { $self->{queues}->blockers($_) } @{ $wait->{contenders} };
}

# Something has happened in the middle of a statement.
sub wake
{
	my ($self, $session) = @_;
	$self->wake_all($session->{number}) if $self->{order} ne 'lazy';
	return;
}

# Let all sessions but this one continue that can.
sub wake_all
{
	my ($self, $but) = @_;
	while (1)
	{
		my @ready = grep { $_->{number} != $but && $self->is_over($_) } $self->sessions;
		last unless @ready;
		$self->{woken}++;
		($self->{order} eq 'reverse' ? $ready[-1] : $ready[0])->continue;
	}
	return;
}

# The sessions that one waits for.
sub waited_for
{
	my ($self, $session) = @_;
	my $wait = $session->waits or return;
	if ($wait->{kind} eq 'fence')
	{
		my $owner = $self->fence_owner($wait->{path}, $session->{number});
		return $owner =~ /^\d+$/ ? $owner : ();
	}
	return if $wait->{kind} eq 'pause' || $wait->{mode} eq 'p';
	return map { $_->{session} } map { $self->{queues}->blockers($_) } @{ $wait->{contenders} };
}

# The sessions of a circle in which this one waits for itself; none if there is none.
sub find_circle
{
	my ($self, $session, @before) = @_;
	foreach my $number ($self->waited_for($session))
	{
		return (@before, $session->{number})
		  if $number == ($before[0] // $session->{number});
		next if grep { $_ == $number } @before, $session->{number};
		my @found = $self->find_circle($self->session($number), @before, $session->{number});
		return @found if @found;
	}
	return;
}

# Gives up if sessions wait in a circle, or two at one fence; or if one waits for several
# locks, of which one may be at the end of its lock delay or not.
sub check_waits
{
	my ($self) = @_;
	my %fence;
	foreach my $session ($self->sessions)
	{
		my $wait = $session->waits or next;
		my @contenders = @{ $wait->{contenders} // [] };
		give_up() if $wait->{kind} eq 'fence' && $fence{ $wait->{path} }++;
		give_up() if @contenders > 1 && grep { $self->{queues}->is_delayed($_) } @contenders;
		my %seen;
		my @todo = $self->waited_for($session);
		while (defined(my $number = shift @todo))
		{
			give_up() if $number == $session->{number};
			push @todo, $self->waited_for($self->session($number)) unless $seen{$number}++;
		}
	}
	return;
}

# ---- The outside world.

sub world_cancel
{
	my ($self, $session) = @_;
	give_up() unless $session->waits;
	$session->interrupt('57014');
	return;
}

sub world_resume
{
	my ($self, $session) = @_;
	give_up() unless $session->waits && $session->waits->{kind} eq 'pause';
	$session->continue;
	return;
}

# A session that is idle executes a transaction of its own, whatever it has lost.
sub world_notify { return; }

sub world_terminate
{
	my ($self, $session) = @_;
	$session->terminate;
	return;
}

# The contender of a waiter ends its wait.
sub world_break
{
	my ($self, $session, $path) = @_;
	my $wait = $session->waits;
	return $self->world_lose($session, $path)
	  unless $wait && grep { $self->{queues}->get($_)->{path} eq $path } @{ $wait->{contenders} // [] };
	give_up() if $session->{locks}->find($path);
	$session->throw('57000');
	return;
}

sub world_lose
{
	my ($self, $session, $path) = @_;
	my $lock = $session->{locks}->find($path);
	give_up() if !$lock || $lock->{lost};
	$self->lose_locks($session, 'main', $lock);
	return;
}

# Its session has lost no other lock, so that it asks for this one.
sub world_steal
{
	my ($self, $session, $path) = @_;
	my $lock = $session->{locks}->find($path) or give_up();
	give_up() if $session->waits || $session->{block} eq 'failed' || keys %{ $lock->{has} } > 1;
	give_up() if grep { $_->{lost} } $session->{locks}->all;
	$session->give_up_if_revoked;
	$session->{locks}->lose($lock, 'main');
	$self->{stolen} = { session => $session->{number}, path => $path };
	return;
}

# Whatever the session does, it loses the lock.
sub world_overtime
{
	my ($self, $session, $path) = @_;
	my $lock = $session->{locks}->find($path) or give_up();
	give_up() if $lock->{lost} || !$lock->{job}{limited};
	$session->{locks}->lose($lock, 'main');
	$session->interrupt('57014') if $session->waits;
	return;
}

sub world_revoke
{
	my ($self, $session, $path) = @_;
	my $lock = $session->{locks}->find($path) or give_up();
	my $mode = RandomLocks::main_mode($lock) or give_up();
	give_up() if $lock->{revoked}{$mode} || $session->waits && $session->waits->{kind} =~ /^(fence|job)$/;
	$lock->{revoked}{$mode} = 'new';
	return;
}

# All that it holds.
sub world_expire
{
	my ($self, $session) = @_;
	my @locks = grep { !$_->{lost} } $session->{locks}->all;
	give_up() unless @locks;
	$self->lose_locks($session, 'all', @locks);
	return;
}

# A statement that waits ends, unless it pauses and a loss is only to be reported; a
# session that is idle is asked until it knows.
sub lose_locks
{
	my ($self, $session, $how, @locks) = @_;
	my $wait = $session->waits;
	my $reports = $wait && $session->setting('on_lock_loss') eq 'report';
	give_up() if $session->{block} eq 'failed';

	# another contender of the lock stays until the session looks
	give_up() if $reports && ($wait->{kind} ne 'pause' || grep { keys %{ $_->{has} } > 1 } @locks);
	$session->{locks}->lose($_, $how) foreach @locks;
	return if $reports;
	$wait ? $session->interrupt('ZKL01') : $session->look_for_loss;
	return;
}

# ---- Fences and prepared transactions.  A writer is a session, or a prepared
# transaction.

=pod

=item $model->fence_owner($path, $number)

Another writer whose transaction has fenced this lock; undef if there is none.

=item $model->fence_token($path), $model->write_fence($path, $number, $nest, $token)

=item $model->roll_back($number, $nest), $model->pass_up($number, $nest)

=item $model->end_writer($number, $commit)

=item $model->prepare($name, $number, $rows), $model->end_prepared($name, $commit)

=cut

sub fence_owner
{
	my ($self, $path, $number) = @_;
	my $fence = $self->{fences}{$path} or return;
	return unless @{ $fence->{writes} };
	return $fence->{owner} eq $number ? undef : $fence->{owner};
}

sub fence_token
{
	my ($self, $path) = @_;
	my $fence = $self->{fences}{$path} or return 0;
	return @{ $fence->{writes} } ? $fence->{writes}[-1]{token} : $fence->{token};
}

sub write_fence
{
	my ($self, $path, $number, $nest, $token) = @_;
	my $fence = $self->{fences}{$path} //= { token => 0, writes => [] };
	$fence->{owner} = $number;
	push @{ $fence->{writes} }, { nest => $nest, token => $token };
	return;
}

sub fences_of
{
	my ($self, $writer) = @_;
	return grep { @{ $_->{writes} } && $_->{owner} eq $writer } values %{ $self->{fences} };
}

sub roll_back
{
	my ($self, $number, $nest) = @_;
	$self->{runs}->roll_back($number, $nest);
	foreach my $fence ($self->fences_of($number))
	{
		@{ $fence->{writes} } = grep { $_->{nest} < $nest } @{ $fence->{writes} };
	}
	return;
}

sub pass_up
{
	my ($self, $number, $nest) = @_;
	$self->{runs}->pass_up($number, $nest);
	foreach my $fence ($self->fences_of($number))
	{
		foreach my $write (@{ $fence->{writes} })
		{
			$write->{nest} = $nest - 1 if $write->{nest} == $nest;
		}
	}
	return;
}

sub end_writer
{
	my ($self, $writer, $commit) = @_;
	$self->{runs}->end_writer($writer, $commit);
	foreach my $fence ($self->fences_of($writer))
	{
		$fence->{token} = $fence->{writes}[-1]{token} if $commit;
		$fence->{writes} = [];
	}
	return;
}

sub prepare
{
	my ($self, $name, $number, $rows) = @_;
	$self->{prepared}{$name} = [ map { $_->{row} } @$rows ];
	$self->{runs}->rename_writer($number, $name);
	$_->{owner} = $name foreach $self->fences_of($number);
	return;
}

sub end_prepared
{
	my ($self, $name, $commit) = @_;
	my $rows = delete $self->{prepared}{$name} or return 0;
	$self->end_writer($name, $commit);
	return 1 unless $commit;
	$self->{work}{$_} = 1 foreach @$rows;
	return 1;
}

=pod

=item $model->text()

The whole state and the answers: the same for models that cannot be told apart.

=back

=cut

sub text
{
	my ($self) = @_;
	my @fences = map {
		my $fence = $self->{fences}{$_};
		"fence $_ " . join ' ', $fence->{token},
		  map { "$fence->{owner}/$_->{nest}/$_->{token}" } @{ $fence->{writes} };
	} sort keys %{ $self->{fences} };
	my @answers = map {
		my $answer = $self->{answers}{$_};
		"answer $_ $answer->{state} $answer->{value} @{ $answer->{notices} }";
	} sort keys %{ $self->{answers} };
	return join "\n", "circle @{ $self->{circle} }", $self->{queues}->text, $self->{runs}->state, (map { $_->text } $self->sessions), @fences,
	  (map { "prepared $_ @{ $self->{prepared}{$_} }" } sort keys %{ $self->{prepared} }),
	  'work ' . join(' ', sort keys %{ $self->{work} }), @answers;
}

1;
