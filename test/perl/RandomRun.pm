
=pod

=head1 NAME

RandomRun - steps of a random run, executed and compared with the model

=head1 SYNOPSIS

  my $run = RandomRun->new($world, 4);
  my $failure = $run->play(sub { $generator->next($_[0]) });
  print "$failure->{kind}: $failure->{text}\n" if $failure;
  print "$_\n" foreach $run->lines;

=head1 DESCRIPTION

One step at a time.  After each the answers of all sessions and the queues in ZooKeeper
must be those of the model.  Nothing is slept for: what the model says must come about,
in so many seconds, and what it excludes must not have happened by then.

=cut

package RandomRun;

use strict;
use warnings;

use POSIX ();
use Time::HiRes qw(sleep time);
use RandomModel;

# For how long the outcome of a step is waited for, in seconds.
my $patience = 30;

# For how long a step may take, in seconds, before the program ends: the client library
# waits without a limit for the end of an answer that has begun.
my $limit = 5 * $patience;

# After how many steps all is compared.
my $period = 15;

=pod

=head1 METHODS

=over

=item RandomRun->new($world, $sessions)

=item $run->play($source)

C<$source> gets the model and returns a step and the model after it, or nothing.
Returns how the run failed, if it did: a hash with C<kind> and C<text>.  A run is over
when a short timeout ends before ZooKeeper has answered, which is no failure.

=item $run->lines(), $run->count()

The steps that were executed.

=back

=cut

sub new
{
	my ($class, $world, $count) = @_;
	return bless { world => $world, sessions => $count, lines => [], tokens => {} }, $class;
}

sub lines { return @{ $_[0]->{lines} }; }
sub count { return scalar @{ $_[0]->{lines} }; }

sub play
{
	my ($self, $source) = @_;
	$self->watch;
	my $failed = !eval { $self->play_all($source); 1 };
	my $error = $@;
	$self->close_all;
	alarm 0;
	return unless $failed;
	return if ref $error && $error->{kind} eq 'slow';
	return $error if ref $error eq 'HASH';
	return { kind => 'error', text => $error };
}

# End the program if a step hangs in the client library, which no error can end.
sub watch
{
	my ($self) = @_;
	my $handler = sub {
		syswrite STDERR, join "\n", 'no end of the last of these steps:', $self->lines, '';
		POSIX::_exit(1);
	};
	POSIX::sigaction(POSIX::SIGALRM, POSIX::SigAction->new($handler));
	return;
}

sub play_all
{
	my ($self, $source) = @_;
	my $world = $self->{world};
	$world->begin_run;
	$self->{model} = RandomModel->new($self->{sessions});
	$self->{clients}{$_} = $world->connect foreach 1 .. $self->{sessions};
	while (my ($step, $next) = $source->($self->{model}))
	{
		push @{ $self->{lines} }, $step->line;
		alarm $limit;
		$self->take($step, $next);
		$self->compare_all if $self->count % $period == 0;
	}
	$self->compare_all;
	return;
}

# The run has failed.
sub fail
{
	my ($self, $kind, $text) = @_;
	$kind = 'slow' if $self->is_overdue || $self->is_past_delay;
	die { kind => $kind, text => $text };
}

# Notes when a run with a limit of time may have begun.  It is over when the step that
# waits for that begins.
sub note_limit
{
	my ($self, $step, $next) = @_;
	my ($verb) = @{ ($step->operations)[0] };
	if ($verb eq 'overtime')
	{
		$self->fail('slow', 'a limited run') if $self->is_overdue;
		delete $self->{limit};
	}
	elsif ($next->limited_run)
	{
		$self->{limit} //= time + RandomStep::max_runtime();
	}
	return;
}

# Has a run with a limit of time been under way for so long that it may be lost?
sub is_overdue
{
	my ($self) = @_;
	return $self->{limit} && time > $self->{limit};
}

# Notes when a lock delay may have begun.
sub note_delay
{
	my ($self, $next) = @_;
	delete $self->{delay_end} unless $self->{before}->queues->is_unclean;
	$self->{delay_end} //= time + RandomStep::lock_delay() if $next->queues->is_unclean;
	return;
}

# May a lock delay have ended by itself, so that a try succeeds?
sub is_past_delay
{
	my ($self) = @_;
	return $self->{delay_end} && time > $self->{delay_end};
}

sub take
{
	my ($self, $step, $next) = @_;
	my $world = $self->{world};
	my $before = $self->{before} = $self->{model};
	$self->await_published($before, $next->circle);
	$self->note_limit($step, $next);
	$self->note_delay($next);
	$self->{model} = $next;
	if ($step->session == 0)
	{
		my ($verb, $number, @arguments) = @{ ($step->operations)[0] };
		my $method = "world_$verb";
		$self->$method($before, $number, @arguments);
	}
	else
	{
		$world->forbid_to_pass($_->[1]) foreach grep { $_->[0] eq 'pause' } $step->operations;
		$self->{clients}{ $step->session }->send($step->sql);
	}
	$self->compare_answer($_) foreach sort keys %{ $next->answers };
	$self->await_losses($before, $next);
	$self->await_notices;
	$self->compare_queue($_) foreach $next->queues->paths;
	$self->compare_waits;
	$self->fail('slow', 'a limited run') if $self->is_overdue;
	delete $self->{limit} unless $next->limited_run;
	return;
}

# A statement that paused to learn of a loss, and was ended before, may have left its
# session without that knowledge.
sub await_losses
{
	my ($self, $before, $next) = @_;
	foreach my $session (grep { $_->{block} eq 'idle' && !$_->waits } $next->sessions)
	{
		my $wait = $before->session($session->{number})->waits;
		next unless $wait && $wait->{kind} eq 'pause';
		$self->await_loss($session->{number}, $_->{path})
		  foreach grep { $_->{lost} } $session->{locks}->all;
	}
	return;
}

# A statement that waits has done what comes before: else the contender of an earlier
# operation, which does not wait, could be taken for the one that does.
sub await_notices
{
	my ($self) = @_;
	foreach my $session (grep { $_->waits } $self->{model}->sessions)
	{
		my $client = $self->{clients}{ $session->{number} };
		my $count = @{ $session->{statement}{notices} };
		$self->await(
			sub { $client->is_ready || $client->notices_heard >= $count },
			'hang', "session $session->{number} does not say what came before its wait");
	}
	return;
}

# The other sessions of a deadlock have shown what they wait for: the last to do so gets
# the error.  One that holds nothing shows nothing; it is only in the way of an upgrade.
sub await_published
{
	my ($self, $before, undef, @others) = @_;
	my $world = $self->{world};
	foreach my $number (@others)
	{
		my $session = $before->session($number);
		my ($id, @more) = @{ $session->waits->{contenders} };
		next unless @more || grep { !$_->{permits} && !$_->{lost} } $session->{locks}->all;
		my $path = $before->queues->get($id)->{path};
		my $pid = $self->{clients}{$number}->pid;
		my ($znode) = grep { $_->{pid} == $pid } $world->queue($path);
		$self->await(sub { $world->is_published($znode->{session}) },
			'hang', "session $number does not publish that it waits for $path");
	}
	return;
}

# ---- What the outside does.

sub world_cancel
{
	my ($self, $before, $number) = @_;
	my $pid = $self->{clients}{$number}->pid;
	$self->{world}->observer->ask("SELECT pg_cancel_backend($pid)");
	return;
}

sub world_resume
{
	my ($self, $before, $number) = @_;
	$self->{world}->let_pass($before->session($number)->waits->{number});
	return;
}

sub world_notify
{
	my ($self) = @_;
	$self->{world}->observer->ask('NOTIFY news');
	return;
}

sub world_terminate
{
	my ($self, $before, $number) = @_;
	my $world = $self->{world};
	my $client = $self->{clients}{$number};
	$world->observer->ask('SELECT pg_terminate_backend(' . $client->pid . ", 30000)");
	$client->close;
	$self->{clients}{$number} = $world->connect;
	return;
}

sub world_lose
{
	my ($self, $before, $number, $path) = @_;
	my $contender = $self->find_contender($before, $number, $path);
	return $self->lose($before, $number, $path,
		sub { $self->{world}->delete_contender($path, $contender->{name}) });
}

sub world_break
{
	my ($self, $before, $number, $path) = @_;
	my $contender = $self->find_contender($before, $number, $path);
	return $self->lose($before, $number, $path,
		sub { $self->{world}->break_contender($path, $contender->{name}) });
}

# Nobody waits until the session knows.
sub world_steal
{
	my ($self, $before, $number, $path) = @_;
	my $contender = $self->find_contender($before, $number, $path);
	$self->{world}->delete_contender($path, $contender->{name});
	return;
}

# The queue shows the end of the run.
sub world_overtime { return; }

sub world_revoke
{
	my ($self, $before, $number, $path) = @_;
	my $contender = $self->find_contender($before, $number, $path);
	$self->{world}->revoke_contender($path, $contender->{name});
	$self->await(
		sub { $self->{world}->is_revoked($path, $contender->{name}) },
		'hang', "session $number does not confirm that $path was revoked");
	return;
}

sub world_expire
{
	my ($self, $before, $number) = @_;
	my ($lock) = grep { !$_->{lost} } $before->session($number)->{locks}->all;
	my $contender = $self->find_contender($before, $number, $lock->{path});
	return $self->lose($before, $number, $lock->{path},
		sub { $self->{world}->expire($contender->{session}) });
}

# The main contender of a session, or the one that waits, as ZooKeeper has it.
sub find_contender
{
	my ($self, $before, $number, $path) = @_;
	my $session = $before->session($number);
	my $lock = $session->{locks}->find($path);
	my @queue = $before->queues->list($path);
	my $id = $lock ? $session->token_of($lock) : 0;
	my ($index) =
	  grep { $lock ? $queue[$_]{id} == $id : $queue[$_]{session} == $number } 0 .. $#queue;
	return ($self->{world}->queue($path))[$index];
}

# Do something that makes a session lose a lock, and wait until it knows; one that pauses
# waits for that itself, unless it ends.
sub lose
{
	my ($self, $before, $number, $path, $sub) = @_;
	my $session = $before->session($number);
	if (my $wait = $session->waits)
	{
		$self->{world}->expect_loss($wait->{number}, $path) if $wait->{kind} eq 'pause';
		return $sub->();
	}

	# The statement that asks would be cancelled as well.
	my $client = $self->{clients}{$number};
	$client->ask('SET zklock.on_lock_loss = report');
	$sub->();
	$self->await_loss($number, $path);
	$client->ask('SET zklock.on_lock_loss = ' . $session->setting('on_lock_loss'));
	return;
}

# Wait until a session that is idle knows that it has lost a lock.
sub await_loss
{
	my ($self, $number, $path) = @_;
	my $client = $self->{clients}{$number};
	$self->await(
		sub {
			my ($row) = $client->ask("SELECT bool_and(state = 'lost')::text"
				  . " FROM zk_locks WHERE path = '$path'");
			return $row->[0] eq 'true';
		},
		'hang', "session $number does not notice that $path was lost");
	return;
}

# ---- Comparisons.

sub await
{
	my ($self, $condition, $kind, $text) = @_;
	my $deadline = time + $patience;
	until ($condition->())
	{
		$self->fail($kind, ref $text ? $text->() : $text) if time > $deadline;
		sleep 0.002;
	}
	return;
}

# Replace the tokens in an expected text: a number of the model, which is bound to the
# real token as soon as that is known.
sub with_tokens
{
	my ($self, $expected, $found) = @_;
	while ($expected =~ /token (\d+)/)
	{
		my ($id, $at) = ($1, $-[0]);
		my ($token) = substr($found, $at) =~ /^(\d+)/;
		$self->{tokens}{$id} //= $token // 'unknown';
		$expected =~ s/token \d+/$self->{tokens}{$id}/;
	}
	return $expected;
}

# An answer as text.  Several losses are reported in any order; a revocation at the end of
# any statement in code.
sub describe
{
	my ($answer) = @_;
	my (@notices, @losses);
	foreach my $notice ((grep { !/was requested$/ } @{ $answer->{notices} }), '')
	{
		push @losses, $notice if $notice =~ /^WARNING ZKL01/;
		next if $notice =~ /^WARNING ZKL01/;
		push @notices, sort(@losses), $notice;
		@losses = ();
	}
	return join "\n", $answer->{state} ne '' ? "error $answer->{state}" : "value $answer->{value}",
	  @notices, sort grep { /was requested$/ } @{ $answer->{notices} };
}

# Did a timeout end before the ensemble had answered?
sub was_slow
{
	my ($self, $number, $answer) = @_;
	return 1 if $answer->{state} =~ /^0800[16]$/ && $self->{lines}[-1] =~ /\bshort\b/;
	return grep {
		my $session = $_->session($number);
		$answer->{state} eq '55P03' && $session->setting('lock_timeout') eq 'on'
		  || $answer->{state} eq '57014' && $session->setting('statement_timeout') eq 'on'
	} @{$self}{qw(before model)};
}

sub compare_answer
{
	my ($self, $number) = @_;
	my $client = $self->{clients}{$number};
	my $expected = describe($self->{model}->answers->{$number});
	my $deadline = time + $patience;
	until ($client->wait(1))
	{
		$self->fail('hang', "session $number does not answer; expected:\n$expected")
		  if time > $deadline;
	}
	my $answer = $client->answer;
	my $found = describe($answer);
	$expected = $self->with_tokens($expected, $found);
	return if $found eq $expected;
	$self->fail('slow', $answer->{message}) if $self->was_slow($number, $answer);
	$self->fail("answer $answer->{state}",
		"session $number: expected:\n$expected\nfound:\n$found\n$answer->{message}");
}

sub compare_queue
{
	my ($self, $path) = @_;
	my @wanted = $self->{model}->queues->list($path);
	my $wanted = join ' ',
	  map { $self->{clients}{ $_->{session} }->pid . $_->{mode} } @wanted;
	my @found;
	$self->await(
		sub {
			@found = $self->{world}->queue($path);
			return $wanted eq join ' ', map { "$_->{pid}$_->{mode}" } @found;
		},
		'queue',
		sub { "queue of $path: expected: $wanted\nfound: " . join ' ', map { "$_->{pid}$_->{mode}" } @found });
	foreach my $i (0 .. $#wanted)
	{
		my $id = $wanted[$i]{id};
		my $token = $self->{tokens}{$id} //= $found[$i]{token};
		$self->fail('token', "contender $id of $path: token $token, but $found[$i]{token}")
		  if $token > $found[$i]{token};
	}
	return;
}

# Those that wait must wait: for a lock of PostgreSQL's (a fence, a pause), as seen there, or for a
# contender, as seen in the queues.
sub compare_waits
{
	my ($self) = @_;
	foreach my $session ($self->{model}->sessions)
	{
		my $number = $session->{number};
		my $client = $self->{clients}{$number};
		my $wait = $session->waits or next;
		$self->await(
			sub { $self->{world}->waits_in_postgres($client->pid) || $client->is_ready },
			'hang', "session $number does not wait in PostgreSQL")
		  if $wait->{kind} =~ /^(fence|pause)$/;
		next unless $client->is_ready;
		$self->fail('early', "session $number does not wait, but answered:\n"
			  . describe($client->answer));
	}
	return;
}

sub compare_all
{
	my ($self) = @_;
	my ($world, $model) = @{$self}{qw(world model)};
	$self->compare('state', $model->{runs}->text, $world->runs, 'runs of jobs');
	$self->compare('state', join(' ', sort keys %{ $model->{work} }),
		$world->committed_rows, 'committed rows');
	$self->compare('state',
		join(' ', map { "$_:" . $self->{tokens}{ $model->{fences}{$_}{token} } }
			grep { $model->{fences}{$_}{token} } sort keys %{ $model->{fences} }),
		$world->fences,
		'fences');
	return;
}

sub compare
{
	my ($self, $kind, $expected, $found, $what) = @_;
	return if $expected eq $found;
	$self->fail($kind, "$what: expected:\n$expected\nfound:\n$found");
}

# End all connections, and see that nothing is left of them.
sub close_all
{
	my ($self) = @_;
	my $observer = $self->{world}->observer;
	eval { $observer->ask('SELECT pg_terminate_backend(' . $_->pid . ', 30000)') }
	  foreach values %{ $self->{clients} };
	$_->close foreach values %{ $self->{clients} };
	$observer->close;
	return;
}

1;
