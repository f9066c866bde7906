
=pod

=head1 NAME

RandomGenerator - random steps for a random run

=head1 SYNOPSIS

  my $generator = RandomGenerator->new($seed, 150);
  while (my ($step, $next) = $generator->next($model)) { ... }

=head1 DESCRIPTION

The same seed gives the same steps, because the model alone decides what is possible.

=cut

package RandomGenerator;

use strict;
use warnings;

use ChaosRandom;
use RandomStep;

my @locks = qw(/a /b /c);
my @semaphores = qw(/p /q);
my @jobs = qw(/j /k);
my @savepoints = qw(one two three);

=pod

=head1 METHODS

=over

=item RandomGenerator->new($seed, $count)

=item $generator->next($model)

A step that is possible, and the model after it; nothing after C<$count> of them.

=back

=cut

sub new
{
	my ($class, $seed, $count) = @_;
	return bless {
		random => ChaosRandom->new($seed, 'random transactions'),
		left => $count,
		names => 0,
		last => 0,
		plan => [],
		first => undef
	}, $class;
}

sub next
{
	my ($self, $model) = @_;
	return if $self->{left}-- <= 0;
	while (1)
	{
		my $step = RandomStep->new($self->invent($model));
		my $next = $model->predict($step) or next;
		return ($step, $next);
	}
}

# What the sessions set at first, so that each is of another kind.
sub first_settings
{
	my ($self, $model) = @_;
	my @lines;
	my $delay = $self->chance(0.5);
	foreach my $number (map { $_->{number} } $model->sessions)
	{
		push @lines, "$number setting on_lock_loss report" if $self->chance(0.4);
		push @lines, "$number setting commit_guard " . $self->pick('quorum', 'quorum', 'off')
		  if $self->chance(0.4);
		push @lines, "$number setting lock_delay on" if $delay && $self->chance(0.7);
	}
	return \@lines;
}

sub pick { my ($self, @list) = @_; return $self->{random}->pick(@list); }
sub chance { my ($self, $chance) = @_; return $self->{random}->chance($chance); }
sub name { my ($self) = @_; return ++$self->{names}; }

# Often the same session as before, because there is more to find in what one does than
# in what all do.
sub session
{
	my ($self, $model) = @_;
	$self->{last} = 1 + int $self->{random}->between(0, scalar $model->sessions)
	  unless $self->{last} && $self->chance(0.6);
	return $model->session($self->{last});
}

# A line, possible or not.
sub invent
{
	my ($self, $model) = @_;
	$self->{first} //= $self->first_settings($model);
	return shift @{ $self->{first} } if @{ $self->{first} };
	return $self->notice($model) if $model->{stolen};
	my ($busy) = grep { grep { $_->{job}{limited} && !$_->{lost} } $_->{locks}->all } $model->sessions;
	return "0 overtime $busy->{number} " . $self->limited_path($busy)
	  if $busy && $self->chance(0.3);
	my $session = $self->session($model);
	my $number = $session->{number};
	return '0 terminate ' . $number if $self->chance(0.01);
	return "0 notify $number" if $self->chance(grep({ $_->{lost} } $session->{locks}->all) ? 0.2 : 0.01);
	my @held = map { $_->{path} } $session->{locks}->all;
	return "0 " . $self->paused($number, @held)
	  if $session->waits && $session->waits->{kind} eq 'pause' && $self->chance(0.6);
	return "0 cancel $number" if $session->waits && $self->chance(0.3);
	return "0 " . $self->pick('lose', 'lose', 'break') . " $number " . $self->pick(@held)
	  if @held && $self->chance(0.07);
	return "0 expire $number" if @held && $self->chance(0.01);
	return "0 revoke $number " . $self->pick(@held) if @held && $self->chance(0.03);
	return "0 steal $number " . $self->pick(@held)
	  if @held && $self->chance($session->setting('commit_guard') eq 'quorum' ? 0.2 : 0.01);
	return "0 break $number " . $self->pick(@locks, @semaphores)
	  if $session->waits && $self->chance(0.1);
	return "$number " . shift @{ $self->{plan} }
	  if @{ $self->{plan} } && $session->{block} eq 'open' && !$session->waits;
	$self->{plan} = [];
	my $method = $session->{block};
	return "$number " . $self->$method($session, $model);
}

# What happens to a session that pauses.
sub paused
{
	my ($self, $number, @held) = @_;
	my $kind = $self->{random}->weighted(
		resume => 40,
		@held ? (lose => 30, break => 15, expire => 15, revoke => 5) : ());
	return "$kind $number" if $kind =~ /^(resume|expire)$/;
	return "$kind $number " . $self->pick(@held);
}

# The path of the run with a limit that the session has.
sub limited_path
{
	my ($self, $session) = @_;
	my ($lock) = grep { $_->{job}{limited} } $session->{locks}->all;
	return $lock->{path};
}

# How a session finds out that a lock was stolen.
sub notice
{
	my ($self, $model) = @_;
	my ($number, $path) = @{ $model->{stolen} }{qw(session path)};
	return "$number "
	  . $self->pick("verify $path", 'commit', 'prepare g' . $self->name, 'work ' . $self->name,
		'nothing');
}

# Outside of a transaction block.
sub idle
{
	my ($self, $session, $model) = @_;
	my $kind = $self->{random}->weighted(
		begin => 30,
		single => 40,
		code => 20,
		prepared => 5,
		discard => 3,
		lock_wait => 8,
		setting => $self->limited($session) ? 20 : 4,
		wrong => 2);
	return 'begin' if $kind eq 'begin';
	return $self->code($session) if $kind eq 'code';
	return $self->operation($session) if $kind eq 'single';
	return $self->lock_wait($session) if $kind eq 'lock_wait';
	return $self->setting($session) if $kind eq 'setting';
	return 'discard ' . $self->pick('ALL', 'ALL', 'TEMP') if $kind eq 'discard';
	return $self->pick('commit', 'rollback', 'savepoint one', 'rollback_to one', 'prepare nothing')
	  if $kind eq 'wrong';
	my @prepared = sort keys %{ $model->{prepared} };
	return $self->pick('commit_prepared', 'commit_prepared', 'rollback_prepared') . ' '
	  . ($self->pick(@prepared) // 'nothing');
}

# In a transaction block.
sub open
{
	my ($self, $session) = @_;
	my $kind = $self->{random}->weighted(
		operation => 50,
		savepoint => 8,
		rollback_to => 6,
		release_savepoint => 4,
		commit => 10,
		rollback => 5,
		prepare => 4,
		cursor => 7,
		nested => 8,
		code => 12,
		setting => $self->limited($session) ? 10 : 2,
		wrong => 1);
	return $self->operation($session) if $kind eq 'operation';
	return $self->code($session) if $kind eq 'code';
	return $self->cursor($session) if $kind eq 'cursor';
	return $self->nested($session) if $kind eq 'nested';
	return $self->setting($session) if $kind eq 'setting';
	return $kind if $kind eq 'commit' || $kind eq 'rollback';
	return 'prepare g' . $self->name if $kind eq 'prepare';
	return $self->lock_wait($session) if $kind eq 'wrong' && $self->chance(0.2);
	return $self->pick('begin', 'discard ALL', 'discard TEMP', 'commit_prepared nothing')
	  if $kind eq 'wrong';
	return 'savepoint ' . $self->pick(@savepoints) if $kind eq 'savepoint';
	my @names = @{ $session->{savepoints} };
	return "$kind " . $self->pick(@names ? @names : @savepoints);
}

# In one that has failed.
sub failed
{
	my ($self, $session) = @_;
	my @names = @{ $session->{savepoints} };
	return 'rollback_to ' . $self->pick(@names) if @names && $self->chance(0.6);
	return $self->pick('rollback', 'rollback', 'commit', 'prepare g' . $self->name, 'look',
		'work ' . $self->name, 'savepoint one');
}

# A lock; preferably one that the session has.
sub held
{
	my ($self, $session) = @_;
	my @held = map { $_->{path} } grep { !$_->{permits} } $session->{locks}->all;
	return $self->pick(@held) if @held && $self->chance(0.7);
	return $self->path;
}

sub path
{
	my ($self) = @_;
	return $self->pick($self->chance(0.03) ? @semaphores : @locks);
}

# How long to wait.  Most calls try, so that not all sessions wait.
sub timeout
{
	my ($self) = @_;
	return $self->{random}->weighted(try => 45, wait => 30, long => 23, short => 2);
}

sub acquire
{
	my ($self, $session) = @_;
	my @paths = ($self->chance(0.3) ? $self->held($session) : $self->path);
	push @paths, $self->path, $self->path if $self->chance(0.15);
	return join ' ', 'acquire', join(',', @paths), $self->pick('x', 'x', 's'),
	  $self->pick('session', 'xact'), $self->timeout;
}

sub permit
{
	my ($self) = @_;
	my $path = $self->pick($self->chance(0.03) ? @locks : @semaphores);
	my %permits = ('/p' => 2, '/q' => 1);
	my $permits = $self->chance(0.03) ? 3 : $permits{$path} // 2;
	return join ' ', 'permit', $path, $permits, $self->pick('session', 'xact'), $self->timeout;
}

# Several steps about one lock, in a subtransaction and around it.  Returns the first.
sub nested
{
	my ($self, $session) = @_;
	my $path = $self->held($session);
	my @deeper = map {
		$self->pick(
			"acquire $path x xact try",
			"acquire $path s xact try",
			"acquire $path x session try",
			"fence $path", $self->job($session), $self->cursor($session))
	} 1 .. 2;
	my @plan = ("acquire $path x xact try", 'savepoint one', @deeper);
	push @plan, 'savepoint two', $self->operation($session),
	  $self->pick('release_savepoint two', 'rollback_to two')
	  if $self->chance(0.4);
	push @plan, $self->pick('release_savepoint one', 'rollback_to one'), 'look';
	push @plan, 'savepoint one', "acquire $path x xact try", 'rollback_to one', 'look'
	  if $self->chance(0.3);
	$self->{plan} = \@plan;
	return shift @plan;
}

# What makes calls fail that would succeed otherwise, and what ends that.
my %unlimited = (
	lock_timeout => 'off',
	statement_timeout => 'off',
	session_scope => 'on',
	max_locks => 'any',
	paths => 'all');

# Such a setting of a session.
sub limited
{
	my ($self, $session) = @_;
	my @limited = grep { $session->setting($_) ne $unlimited{$_} } sort keys %unlimited;
	return $self->pick(@limited);
}

# A value that the setting does not have now.  A limit does not stay for long.
sub setting
{
	my ($self, $session) = @_;
	my $limited = $self->limited($session);
	my $name = $self->{random}->weighted(
		on_lock_loss => 10,
		commit_guard => 10,
		lock_delay => 6,
		handover => 4,
		session_scope => 2,
		max_locks => 2,
		paths => 2,
		lock_timeout => 1,
		statement_timeout => 1);
	return "setting $limited $unlimited{$limited}" if $limited && $self->chance(0.7);
	my @values =
	    $name eq 'on_lock_loss' ? qw(cancel report)
	  : $name eq 'commit_guard' ? qw(lease quorum off)
	  : $name eq 'session_scope' ? qw(on warn off)
	  : $name eq 'max_locks' ? qw(any 0 1 2 3)
	  : $name eq 'paths' ? qw(all some)
	  : qw(off on);
	return "setting $name " . $self->pick(grep { $_ ne $session->setting($name) } @values);
}

sub lock_wait
{
	my ($self, $session) = @_;
	my (undef, $paths, $mode, undef, $timeout) = split ' ', $self->acquire($session);
	return "lock_wait $paths $mode $timeout";
}

# With one of two cursors; preferably one that is there.
sub cursor
{
	my ($self, $session) = @_;
	my @open = sort keys %{ $session->{cursors} };
	return $self->pick('fetch', 'fetch', 'fetch', 'close_cursor') . ' '
	  . ($self->pick(@open) // 'c1')
	  if @open && $self->chance(0.7);
	return join ' ', 'declare', $self->pick('c1', 'c2'), $self->pick('plain', 'hold'),
	  $self->pick('session', 'xact'), join ',', map { $self->path } 1 .. 3;
}

# With jobs; preferably with one that the session runs.
sub job
{
	my ($self, $session) = @_;
	my @own = map { $_->{path} } grep { $_->{job}{state} } $session->{locks}->all;
	my $path = $self->pick(@own && $self->chance(0.6) ? @own : @jobs);
	my $kind = $self->{random}->weighted(
		job_begin => 40,
		job_begin_xact => 15,
		job_end => @own ? 40 : 3,
		job_history => 10,
		job_reset => 3);
	my $hour = 1 + int $self->{random}->between(0, 8);
	return "$kind $path $hour " . $self->timeout . ($self->chance(0.2) ? ' limited' : '')
	  if $kind =~ /begin/;
	return "$kind $path" . ($kind eq 'job_reset' ? " $hour" : '');
}

# What can be done in SQL, in any place.
sub operation
{
	my ($self, $session) = @_;
	my $kind = $self->{random}->weighted(
		acquire => 30,
		job => 12,
		permit => 8,
		release => 16,
		release_permit => 5,
		release_all => 2,
		close => 1,
		look => 8,
		token => 4,
		verify => 2,
		fence => 6,
		work => 10,
		fail => 3,
		pause => $session->{locks}->all ? 4 : 1,
		nothing => 1,
		set => 1);
	return $self->acquire($session) if $kind eq 'acquire';
	return $self->job($session) if $kind eq 'job';
	return $self->permit if $kind eq 'permit';
	return 'release ' . $self->held($session) . ' ' . $self->pick('any', 'any', 'x', 's')
	  if $kind eq 'release';
	return 'release_permit ' . $self->pick(@semaphores) if $kind eq 'release_permit';
	return "$kind " . $self->held($session) if $kind eq 'fence';
	return "$kind " . $self->pick($self->held($session), @semaphores)
	  if $kind =~ /^(token|verify)$/;
	return "$kind " . $self->name if $kind =~ /^(work|pause)$/;
	return $kind;
}

# PL/pgSQL, with exception blocks, and with transactions of its own.
sub code
{
	my ($self, $session) = @_;
	my $form = $self->pick('do', 'do', 'call', 'function');
	my @operations;
	my $depth = 0;
	foreach (1 .. 1 + int 6 * $self->{random}->uniform)
	{
		my $operation = $self->operation($session);
		$operation = $self->pick('commit', 'commit', 'rollback') if $self->chance(0.12);
		$operation = $self->lock_wait($session) if $self->chance(0.05);
		$operation = 'pause ' . $self->name if $self->chance(0.08);
		next if $operation eq 'set' || ($operation eq 'nothing' && $form ne 'do');
		push @operations, $operation;
		next if $form ne 'do';
		if ($self->chance(0.2))
		{
			push @operations, 'try';
			$depth++;
		}
		elsif ($depth && $self->chance(0.3))
		{
			push @operations, 'end';
			$depth--;
		}
	}
	push @operations, 'look' if $self->chance(0.5);
	push @operations, 'look' unless @operations;
	return join ' ', $form, join ' ; ', @operations, ('end') x $depth;
}

1;
