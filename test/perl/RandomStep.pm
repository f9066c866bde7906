
=pod

=head1 NAME

RandomStep - one step of a random run, as text, for the model, and in SQL

=head1 SYNOPSIS

  my $step = RandomStep->new('2 do try ; acquire /a x xact wait ; fail ; end ; look');
  $step->session;       # 2
  $step->operations;    # (['try'], ['acquire', '/a', ...], ...)
  $session->send($step->sql);

=head1 DESCRIPTION

A line: a number of a session, and a statement.  Session 0 is the outside world, which
does something to another session:

  0 cancel 2
  0 terminate 2
  0 lose 2 /a          delete its contender, so that it loses the lock
  0 break 2 /a         zk_lock_break(), of a holder or a waiter
  0 expire 2           end its ZooKeeper session
  0 resume 2           let it continue after a pause
  0 notify 2           notify it, as all others, which it handles once it is idle
  0 steal 2 /a         delete its contender; its next step has to notice that
  0 overtime 2 /j      wait until a job has exceeded its max_runtime
  0 revoke 2 /a        zk_lock_revoke(), of a holder

A statement is an operation with its arguments, or C<do>, C<call> or C<function> and
operations separated by semicolons: PL/pgSQL in that form.  The operations:

  acquire PATHS MODE SCOPE TIMEOUT    PATHS separated by commas; MODE x or s;
                                      SCOPE session or xact;
                                      TIMEOUT wait, long, short or try
  permit PATH PERMITS SCOPE TIMEOUT
  release PATH MODE                   MODE x, s or any
  release_permit PATH
  release_all, close
  token PATH, verify PATH, fence PATH
  look                                at zk_locks
  job_begin PATH HOUR TIMEOUT [limited], job_begin_xact PATH HOUR TIMEOUT [limited]
                                      limited: with a max_runtime
  job_end PATH, job_reset PATH HOUR, job_history PATH
  work NUMBER                         write a row
  lock_wait PATHS MODE TIMEOUT        the procedure
  declare NAME hold|plain SCOPE PATHS, fetch NAME, close_cursor NAME
                                      a cursor that acquires with each row
  pause NUMBER                        wait until the outside world resumes it
  setting NAME VALUE                  lock_timeout on|off, statement_timeout on|off,
                                      on_lock_loss cancel|report,
                                      commit_guard lease|quorum|off, lock_delay on|off,
                                      handover on|off, session_scope on|warn|off,
                                      max_locks any|NUMBER, paths all|some
  fail, nothing, set
  try, end                            an exception block, in PL/pgSQL
  begin, commit, rollback, savepoint NAME, rollback_to NAME, release_savepoint NAME
  prepare NAME, commit_prepared NAME, rollback_prepared NAME
  discard ALL, discard TEMP

=cut

package RandomStep;

use strict;
use warnings;

my %parameters = (
	on_lock_loss => 'zklock.on_lock_loss',
	commit_guard => 'zklock.commit_guard',
	lock_delay => 'zklock.lock_delay',
	handover => 'zklock.handover',
	session_scope => 'zklock.session_scope',
	max_locks => 'zklock.max_locks',
	paths => 'zklock.paths');

# What the setting "paths" admits if it is "some".
my @some_paths = qw(/a /p /j);

# The lock delay and the limit of a run, in seconds: on a busy machine a step takes long.
my $lock_delay = 2;
my $max_runtime = 3;

# Values in SQL, where they have another name here.
my %values = (
	lock_timeout => { on => q('300ms'), off => q('0') },
	statement_timeout => { on => q('300ms'), off => q('0') },
	lock_delay => { on => "'${lock_delay}s'", off => q('0') },
	max_locks => { any => '-1' },
	paths => { all => q(''), some => join ', ', map { quote($_) } @some_paths });

my %timeout = (wait => 'NULL', long => q('2 min'), short => q('150 ms'), try => q('0'));

my $look = q(SELECT coalesce(string_agg(format('%s %s %s %s %s', path, mode,
	session_count, transaction_count, state || CASE WHEN revoked THEN ' revoked' ELSE '' END), ', '
	ORDER BY path COLLATE "C", mode COLLATE "C"), '') FROM zk_locks);

my $history = q(SELECT coalesce(string_agg(format('%s %s',
	extract(hour FROM fire_time AT TIME ZONE 'UTC'), outcome), ', '
	ORDER BY fire_time, token), '') FROM );

my %frame = map { $_ => 1 }
  qw(begin commit rollback savepoint rollback_to release_savepoint prepare);

=pod

=head1 METHODS

=over

=item RandomStep->new($line)

=item $step->line(), $step->session(), $step->kind(), $step->operations()

=item $step->sql()

=item RandomStep::max_runtime(), RandomStep::lock_delay()

How long a limited run may take, and the lock delay, in seconds.

=item RandomStep::some_paths()

What the setting C<paths> admits if it is C<some>.

=back

=cut

sub new
{
	my ($class, $line) = @_;
	my ($session, $first, $rest) = split ' ', $line, 3;
	my $is_code = $first =~ /^(do|call|function)$/;
	my @operations =
	  map { [ split ' ' ] } $is_code ? split /;/, $rest : join ' ', $first, $rest // '';
	return bless {
		line => $line,
		session => $session,
		kind => $is_code ? $first : $frame{$first} ? 'transaction' : 'query',
		operations => \@operations
	}, $class;
}

sub max_runtime { return $max_runtime; }
sub lock_delay { return $lock_delay; }
sub some_paths { return @some_paths; }
sub line { return $_[0]->{line}; }
sub session { return $_[0]->{session}; }
sub kind { return $_[0]->{kind}; }
sub operations { return @{ $_[0]->{operations} }; }

sub sql
{
	my ($self) = @_;
	my @operations = $self->operations;
	my $kind = $self->{kind};
	return 'DO $do$ DECLARE r text; got boolean; BEGIN ' . join(' ', map { in_code(@$_) } @operations)
	  . ' END $do$'
	  if $kind eq 'do';
	return ($kind eq 'call' ? 'CALL random_procedure' : 'SELECT random_function')
	  . '(ARRAY[' . join(', ', map { quote(statement(@$_)) } @operations) . '])'
	  if $kind ne 'query' && $kind ne 'transaction';
	return statement(@{ $operations[0] });
}

sub quote
{
	my ($text) = @_;
	$text =~ s/'/''/g;
	return "'$text'";
}

# The call of a function, as an expression; undef if the operation is none.
sub expression
{
	my ($verb, @arguments) = @_;
	my $method = __PACKAGE__->can("call_$verb") or return;
	return $method->(@arguments);
}

# A longer query; undef if the operation is none.
sub query
{
	my ($verb, @arguments) = @_;
	return $look if $verb eq 'look';
	return $history . "zk_job_history('$arguments[0]')" if $verb eq 'job_history';
	return;
}

# An operation as a statement.
sub statement
{
	my ($verb, @arguments) = @_;
	my $call = expression($verb, @arguments);
	return "SELECT $call" if defined $call;
	my $query = query($verb, @arguments);
	return $query if defined $query;
	return declaration(@arguments) if $verb eq 'declare';
	return assignment(@arguments) if $verb eq 'setting';
	return 'CALL zk_lock_wait(' . lock_arguments(@arguments) . ')' if $verb eq 'lock_wait';
	return 'SELECT 1' if $verb eq 'nothing';
	return "INSERT INTO random_work VALUES ($arguments[0])" if $verb eq 'work';
	return q(SET work_mem = '5MB') if $verb eq 'set';
	my %words = (
		rollback_to => 'ROLLBACK TO',
		release_savepoint => 'RELEASE',
		close_cursor => 'CLOSE',
		prepare => 'PREPARE TRANSACTION',
		commit_prepared => 'COMMIT PREPARED',
		rollback_prepared => 'ROLLBACK PREPARED');
	$arguments[0] = quote($arguments[0]) if $verb =~ /prepare/;
	return join ' ', $words{$verb} // uc $verb, @arguments;
}

# An operation in PL/pgSQL.
sub in_code
{
	my ($verb, @arguments) = @_;
	return 'BEGIN' if $verb eq 'try';
	return q(EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'caught %', SQLSTATE; END;)
	  if $verb eq 'end';
	return 'NULL;' if $verb eq 'nothing';
	return 'CALL zk_lock_wait(' . lock_arguments(@arguments)
	  . q{, acquired => got); RAISE NOTICE '%', got::text;}
	  if $verb eq 'lock_wait';
	my $call = expression($verb, @arguments);
	return "r := $call; RAISE NOTICE '%', r;" if defined $call;
	my $query = query($verb, @arguments);
	return "r := ($query); RAISE NOTICE '%', r;" if defined $query;
	return statement($verb, @arguments) . ';';
}

sub assignment
{
	my ($name, $value) = @_;
	return 'SET ' . ($parameters{$name} // $name) . ' = ' . ($values{$name}{$value} // $value);
}

# Of the functions, and of the procedure.
sub lock_arguments
{
	my ($paths, $mode, $timeout) = @_;
	my @paths = map { quote($_) } split /,/, $paths;
	my $what = @paths > 1 ? 'ARRAY[' . join(', ', @paths) . ']' : $paths[0];
	return "$what, $timeout{$timeout}" . ($mode eq 's' ? ', true' : '');
}

# The function of that name for locks of a scope.
sub in_scope
{
	my ($function, $scope) = @_;
	return $function . ($scope eq 'xact' ? '_xact' : '');
}

sub call_acquire
{
	my ($paths, $mode, $scope, $timeout) = @_;
	return in_scope('zk_lock_acquire', $scope) . '(' . lock_arguments($paths, $mode, $timeout) . ')::text';
}

sub declaration
{
	my ($name, $hold, $scope, $paths) = @_;
	return
		"DECLARE $name NO SCROLL CURSOR"
	  . ($hold eq 'hold' ? ' WITH HOLD' : '')
	  . ' FOR SELECT '
	  . in_scope('zk_lock_acquire', $scope)
	  . q{(path, '0')::text FROM unnest(ARRAY[}
	  . join(', ', map { quote($_) } split /,/, $paths)
	  . ']) AS path';
}

sub call_permit
{
	my ($path, $permits, $scope, $timeout) = @_;
	return in_scope('zk_semaphore_acquire', $scope) . "('$path', $permits, $timeout{$timeout})::text";
}

sub call_release
{
	my ($path, $mode) = @_;
	my %shared = (any => '', x => ', false', s => ', true');
	return "zk_lock_release('$path'$shared{$mode})::text";
}

sub call_release_permit { return "zk_semaphore_release('$_[0]')::text"; }
sub call_release_all { return 'zk_lock_release_all()::text'; }
sub call_close { return 'zk_session_close()::text'; }
sub call_token { return "zk_lock_token('$_[0]')::text"; }
sub call_verify { return "zk_lock_verify('$_[0]')::text"; }
sub call_fence { return "zk_lock_fence('$_[0]')::text"; }
sub fire_time { return sprintf q('2026-01-01 %02d:00+00'), @_; }

sub call_job_begin { return begin_job('session', @_); }
sub call_job_begin_xact { return begin_job('xact', @_); }

sub begin_job
{
	my ($scope, $path, $hour, $timeout, $limited) = @_;
	return
		in_scope('zk_job_begin', $scope)
	  . "('$path', "
	  . fire_time($hour)
	  . ", $timeout{$timeout}"
	  . ($limited ? ", '$max_runtime s'" : '')
	  . ')::text';
}

sub call_job_reset
{
	my ($path, $hour) = @_;
	return "zk_job_reset('$path', " . fire_time($hour) . ')::text';
}

sub call_job_end { return "zk_job_end('$_[0]')::text"; }
sub call_pause { return "random_pause($_[0])"; }
sub call_fail { return '(1 / random_zero())::text'; }

1;
