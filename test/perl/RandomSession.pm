
=pod

=head1 NAME

RandomSession - one database session of a random run, as the model has it

=head1 DESCRIPTION

Transactions, savepoints and blocks of PL/pgSQL; what a statement returns, with its
warnings or its SQLSTATE; and which commits are refused.  RandomFunctions has what the
functions of zklock do, RandomLocks what the session holds.

A statement is a list of operations with a place in it, so that it can wait in the
middle: a wait ends the Perl function that executes it, and continue() resumes it.

=cut

package RandomSession;

use strict;
use warnings;

use parent qw(RandomFunctions RandomCursors RandomSettings);
use RandomLocks;

sub new
{
	my ($class, $number, $world) = @_;
	my $self = bless { number => $number, world => $world }, $class;
	$self->start;
	return $self;
}

# A connection that has just been made.
sub start
{
	my ($self) = @_;
	$self->{locks} = RandomLocks->new($self->{number}, $self->{world}{queues});
	$self->{block} = 'idle';    # or open, or failed
	$self->{nest} = 0;
	$self->{savepoints} = [];
	$self->{conduct} = 'unknown';
	$self->{rows} = [];
	$self->{cursors} = {};
	$self->start_settings;
	$self->{wrote} = 0;
	$self->{statement} = undef;
	return;
}

=pod

=head1 METHODS

=over

=item $session->waits()

What the statement under way waits for; undef if there is none.

=item $session->execute($kind, @operations)

A statement: of a transaction, a query, or a block.

=item $session->continue()

What it waited for is there.

=item $session->interrupt($state)

It ends with an error that no block handles.

=item $session->throw($state)

Its wait ends with an error that a block may handle.

=item $session->terminate()

=cut

sub waits
{
	my ($self) = @_;
	return $self->{statement} && $self->{statement}{wait};
}

sub execute
{
	my ($self, $kind, @operations) = @_;
	my $statement = $self->{statement} = {
		kind => $kind,
		operations => \@operations,
		next => 0,
		handlers => [],
		value => '',
		notices => [],
		alone => $self->{block} eq 'idle',
		timeout => $self->setting('statement_timeout') eq 'on'
	};
	my $verb = $operations[0][0];
	return $self->answer('25P02')
	  if $self->{block} eq 'failed' && $verb !~ /^(rollback|rollback_to|commit|prepare)$/;
	if ($statement->{alone})
	{
		$self->{nest} = 1;
		$self->{conduct} = 'unknown';
	}
	$self->begin_deed($kind eq 'transaction' ? 'frame' : is_code($statement) ? 'work' : deed($verb));
	return $self->run;
}

# PL/pgSQL: a DO block, a procedure or a function.
sub is_code
{
	my ($statement) = @_;
	return $statement->{kind} =~ /^(do|call|function)$/;
}

# A query of the client's that is a transaction of its own.
sub is_alone
{
	my ($self) = @_;
	my $statement = $self->{statement};
	return $statement->{alone} && $statement->{kind} eq 'query';
}

# What a query does, as far as the veto is concerned.
sub deed
{
	my ($verb) = @_;
	return 'harmless'
	  if $verb =~ /^(release|release_permit|release_all|close|look|set|setting|close_cursor|discard|rollback_prepared)$/;
	return 'locking' if $verb =~ /^(acquire|permit|token|verify|job_begin|lock_wait)$/;
	return 'work';
}

sub begin_deed
{
	my ($self, $deed) = @_;
	$self->{statement}{deed} = $deed;
	$self->work if $deed eq 'work';
	$self->{conduct} = 'harmless' if $deed eq 'harmless' && $self->{conduct} eq 'unknown';
	return;
}

# The transaction may have relied on its locks from here on.
sub work
{
	my ($self) = @_;
	$self->{conduct} = 'work' if $self->{conduct} =~ /^(unknown|harmless)$/;
	return;
}

sub continue
{
	my ($self) = @_;
	my $statement = $self->{statement};
	my $wait = delete $statement->{wait};
	my $method = "granted_$wait->{kind}";
	return unless $self->attempt(sub { $self->$method($wait) });
	return if $statement->{wait};
	$self->end_operation;
	return $self->run;
}

sub interrupt
{
	my ($self, $state) = @_;
	my $statement = $self->{statement};
	my $wait = delete $statement->{wait};
	$self->withdraw($wait);
	return $self->fail($state);
}

sub throw
{
	my ($self, $state) = @_;
	my $statement = $self->{statement};
	$self->withdraw(delete $statement->{wait});
	return unless $self->attempt(sub { $self->raise($state) });
	$statement->{next}++;
	return $self->run;
}

sub terminate
{
	my ($self) = @_;
	$self->withdraw($self->{statement}{wait}) if $self->waits;
	$self->abort;
	$self->{locks}->uncount_all($_) foreach $self->{locks}->all;
	$self->start;
	return;
}

# Execute operations until the statement ends, or waits.
sub run
{
	my ($self) = @_;
	my $statement = $self->{statement};
	my $operations = $statement->{operations};
	while ($statement->{next} < @$operations)
	{
		my ($verb, @arguments) = @{ $operations->[ $statement->{next} ] };
		$self->give_up_if_revoked if $verb =~ /^(fence|job_begin|job_begin_xact|job_end|job_reset|fetch)$/;
		my $method = "do_$verb";
		return unless $self->attempt(sub { $self->$method(@arguments) });
		last if $statement->{answered};
		return if $statement->{wait};
		$self->end_operation;
		$self->{world}->wake($self) if is_code($statement);
	}
	return $self->end;
}

# The operation has succeeded.  In code it may be a statement of its own.
sub end_operation
{
	my ($self) = @_;
	my $statement = $self->{statement};
	my ($verb) = @{ $statement->{operations}[ $statement->{next}++ ] };
	return unless is_code($statement);
	$self->report_revoked
	  if $statement->{kind} eq 'do'
	  ? $verb =~ /^(look|job_history|work|lock_wait|setting|set|pause)$/
	  : $verb !~ /^(commit|rollback)$/;
	return;
}

# At the end of a statement, before that of its transaction.
sub report_revoked
{
	my ($self) = @_;
	foreach my $lock ($self->{locks}->all)
	{
		foreach my $mode (grep { $lock->{revoked}{$_} eq 'new' } keys %{ $lock->{revoked} })
		{
			my $what = $mode eq 'p' ? 'semaphore' : 'lock';
			$self->notice(qq(NOTICE 00000 release of $what "$lock->{path}" was requested));
			$lock->{revoked}{$mode} = 'told';
		}
	}
	return;
}

# What the statements do with which the run asks whether a loss is known.
sub look_for_loss
{
	my ($self) = @_;
	local $self->{statement} = { notices => [] };
	$self->report_revoked;
	$self->{conduct} = 'harmless' if $self->{conduct} eq 'unknown';
	$self->{conduct} = 'unknown' if $self->{block} eq 'idle';
	return;
}

# Queries of their own may report it, even if the function fails.
sub give_up_if_revoked
{
	my ($self) = @_;
	RandomModel::give_up()
	  if grep { grep { $_ eq 'new' } values %{ $_->{revoked} } } $self->{locks}->all;
	return;
}

# Do something that may throw an SQLSTATE.  An exception block may handle that.  Returns
# false if the statement has failed.
sub attempt
{
	my ($self, $sub) = @_;
	return 1 if eval { $sub->(); 1 };
	die $@ unless ref $@ eq 'RandomError';
	my $state = $@->{state};
	my $statement = $self->{statement};
	my $handler = pop @{ $statement->{handlers} };
	if (!$handler || $state eq '57014')
	{
		$self->fail($state);
		return 0;
	}
	$self->abort_to($handler->{nest});
	$self->{nest}--;
	$self->notice("NOTICE 00000 caught $state");
	$statement->{next} = $handler->{end};
	return 1;
}

sub raise
{
	my ($self, $state) = @_;
	die bless { state => $state }, 'RandomError';
}

sub notice
{
	my ($self, $text) = @_;
	push @{ $self->{statement}{notices} }, $text;
	return;
}

# What an operation returns: the result of a query, a notice in a block.
sub result
{
	my ($self, $value) = @_;
	my $statement = $self->{statement};
	is_code($statement)
	  ? $self->notice("NOTICE 00000 $value")
	  : ($statement->{value} = $value);
	return;
}

# The statement has succeeded.  A statement alone is a transaction.
sub end
{
	my ($self) = @_;
	my $statement = $self->{statement};
	return if $statement->{answered};
	$self->report_revoked;
	$self->work if $statement->{deed} eq 'locking';
	if ($statement->{alone} && $self->{block} eq 'idle' && $self->{nest} > 0)
	{
		return unless $self->attempt(sub { $self->commit });
	}
	return $self->answer('');
}

# It has failed.
sub fail
{
	my ($self, $state) = @_;
	$self->work if $self->{statement}{deed} eq 'locking';
	if ($self->{block} eq 'idle')
	{
		$self->abort;
	}
	else
	{
		my $nest = 1 + @{ $self->{savepoints} };
		$nest > 1 ? $self->abort_to($nest) : $self->abort;
		$self->{nest} = $nest;
		$self->{block} = 'failed';
	}
	return $self->answer($state);
}

sub answer
{
	my ($self, $state) = @_;
	my $statement = $self->{statement};
	$statement->{answered} = 1;
	$self->{world}{answers}{ $self->{number} } = {
		state => $state,
		value => $state eq '' ? $statement->{value} : '',
		notices => $statement->{notices}
	};
	$self->{statement} = undef;
	return;
}

# ---- The ends of transactions and subtransactions.

# Is the commit let pass?
sub may_commit
{
	my ($self) = @_;
	return 1 if $self->{conduct} eq 'harmless' || $self->setting('commit_guard') eq 'off';
	return 0 if $self->{conduct} eq 'doomed';
	return !grep { $_->{lost} } $self->{locks}->all;
}

# Throws ZKL01 if the commit is refused.
sub commit
{
	my ($self) = @_;
	$self->hold_cursors;
	$self->raise('ZKL01') unless $self->may_commit;
	$self->finish_commit;
	return;
}

sub finish_commit
{
	my ($self) = @_;
	my $world = $self->{world};
	$world->{work}{ $_->{row} } = 1 foreach @{ $self->{rows} };
	$world->end_writer($self->{number}, 1);
	$_->{nest} = 0 foreach grep { $_->{rows} } values %{ $self->{cursors} };
	$self->{locks}->commit_jobs;
	$self->forget_transaction;
	return;
}

sub abort
{
	my ($self) = @_;
	$self->{world}->end_writer($self->{number}, 0);
	$self->roll_back_settings(1);
	$self->forget_transaction;
	return;
}

# After either.  A block that continues may do anything.
sub forget_transaction
{
	my ($self) = @_;
	my $statement = $self->{statement};
	$self->{rows} = [];
	$self->{wrote} = 0;
	$self->keep_settings;
	$self->drop_cursors(1);
	$self->{locks}->drop_levels(1);
	$self->{conduct} = $statement && is_code($statement) ? 'work' : 'unknown';
	$self->{nest} = 0;
	$self->{savepoints} = [];
	$self->{block} = 'idle';
	return;
}

# Roll back the subtransaction of this level, and deeper ones.  It stays open.
sub abort_to
{
	my ($self, $nest) = @_;
	foreach my $lock ($self->{locks}->all)
	{
		my $levels = $lock->{levels};
		$self->let_go($lock)
		  if $lock->{job}{begun} >= $nest || @$levels && $levels->[-1]{nest} >= $nest;
	}
	$self->{rows} = [ grep { $_->{nest} < $nest } @{ $self->{rows} } ];
	$self->roll_back_settings($nest);
	$self->drop_cursors($nest);
	$self->{world}->roll_back($self->{number}, $nest);
	$self->{locks}->drop_levels($nest);
	$self->{nest} = $nest;
	return;
}

sub commit_level
{
	my ($self) = @_;
	my $nest = $self->{nest}--;
	$self->{locks}->pass_up($nest);
	$self->pass_settings_up($nest);
	$self->pass_cursors_up($nest);
	$self->{world}->pass_up($self->{number}, $nest);
	foreach my $row (@{ $self->{rows} })
	{
		$row->{nest} = $nest - 1 if $row->{nest} == $nest;
	}
	return;
}

# ---- Statements of a transaction.

sub do_begin
{
	my ($self) = @_;
	$self->notice('WARNING 25001') if $self->{block} eq 'open';
	$self->{block} = 'open';
	return;
}

# The end of a transaction block.  Returns false if it had failed, and is rolled back.
sub end_block
{
	my ($self) = @_;
	if ($self->{block} eq 'failed')
	{
		$self->abort;
		return 0;
	}
	$self->commit_level while $self->{nest} > 1;
	$self->{block} = 'idle';
	$self->{savepoints} = [];
	return 1;
}

sub do_commit
{
	my ($self) = @_;
	return $self->commit_in_code(1) if is_code($self->{statement});
	return $self->notice('WARNING 25P01') if $self->{block} eq 'idle';
	$self->report_revoked;
	$self->commit if $self->end_block;
	return;
}

sub do_rollback
{
	my ($self) = @_;
	return $self->commit_in_code(0) if is_code($self->{statement});
	$self->notice('WARNING 25P01') if $self->{block} eq 'idle';
	$self->report_revoked;
	$self->abort;
	return;
}

# COMMIT and ROLLBACK in a procedure, or in DO.
sub commit_in_code
{
	my ($self, $commit) = @_;
	my $statement = $self->{statement};
	$self->raise('2D000')
	  if @{ $statement->{handlers} } || !$statement->{alone} || $statement->{kind} eq 'function';
	$commit ? $self->commit : $self->abort;
	$self->{nest} = 1;
	return;
}

sub do_savepoint
{
	my ($self, $name) = @_;
	$self->raise('25P01') if $self->{block} eq 'idle';
	push @{ $self->{savepoints} }, $name;
	$self->{nest}++;
	return;
}

# The index of the latest savepoint of that name.
sub find_savepoint
{
	my ($self, $name) = @_;
	$self->raise('25P01') if $self->{block} eq 'idle';
	my $savepoints = $self->{savepoints};
	my ($found) = grep { $savepoints->[$_] eq $name } reverse 0 .. $#$savepoints;
	$self->raise('3B001') unless defined $found;
	return $found;
}

sub do_rollback_to
{
	my ($self, $name) = @_;
	my $index = $self->find_savepoint($name);
	$self->report_revoked;
	$self->abort_to($index + 2);
	$#{ $self->{savepoints} } = $index;
	$self->{block} = 'open';
	return;
}

sub do_release_savepoint
{
	my ($self, $name) = @_;
	my $index = $self->find_savepoint($name);
	$self->report_revoked;
	$self->commit_level while $self->{nest} >= $index + 2;
	$#{ $self->{savepoints} } = $index - 1;
	return;
}

# ---- Two-phase commit.

sub do_prepare
{
	my ($self, $name) = @_;
	return $self->notice('WARNING 25P01') if $self->{block} eq 'idle';
	$self->report_revoked;
	return unless $self->end_block;
	$self->raise('0A000') if grep { $_->{hold} && !$_->{rows} } values %{ $self->{cursors} };
	$self->raise('0A000')
	  if grep { @{ $_->{levels} } || $_->{job}{state} eq 'ending' || $_->{job}{begun} > 0 }
	  $self->{locks}->all;
	$self->work;
	$self->raise('ZKL01') unless $self->may_commit;
	$self->{world}->prepare($name, $self->{number}, $self->{rows});
	$self->forget_transaction;
	return;
}

sub do_commit_prepared
{
	my ($self, $name) = @_;
	$self->raise('25001') unless $self->{statement}{alone};
	$self->raise('ZKL01') unless $self->may_commit;
	$self->{conduct} = 'harmless';
	$self->{world}->end_prepared($name, 1) or $self->raise('42704');
	return;
}

sub do_rollback_prepared
{
	my ($self, $name) = @_;
	$self->raise('25001') unless $self->{statement}{alone};
	$self->{world}->end_prepared($name, 0) or $self->raise('42704');
	return;
}

# ---- Blocks of PL/pgSQL.

sub do_try
{
	my ($self) = @_;
	my $statement = $self->{statement};
	my $depth = 0;
	my $end = $statement->{next};
	while (1)
	{
		my $verb = $statement->{operations}[$end][0];
		$depth += $verb eq 'try' ? 1 : $verb eq 'end' ? -1 : 0;
		last if $depth == 0;
		$end++;
	}
	$self->{nest}++;
	push @{ $statement->{handlers} }, { nest => $self->{nest}, end => $end };
	return;
}

sub do_end
{
	my ($self) = @_;
	pop @{ $self->{statement}{handlers} };
	$self->commit_level;
	return;
}

# ---- Other statements.

sub do_work
{
	my ($self, $row) = @_;
	$self->{wrote} = 1;
	push @{ $self->{rows} }, { nest => $self->{nest}, row => $row };
	return;
}

sub do_fail
{
	my ($self) = @_;
	return $self->raise('22012');
}

sub do_nothing
{
	my ($self) = @_;
	$self->{statement}{value} = 1 unless is_code($self->{statement});
	return;
}

sub do_set { return; }

# Until the outside world resumes it, as if the statement took long.
sub do_pause
{
	my ($self, $number) = @_;
	return $self->wait_for({ kind => 'pause', number => $number });
}

sub granted_pause
{
	my ($self) = @_;
	return $self->result('passed');
}

sub do_discard
{
	my ($self, $what) = @_;
	return if $what ne 'ALL';
	$self->raise('25001') unless $self->{statement}{alone};
	$self->{cursors} = {};
	$self->start_settings;
	foreach my $lock ($self->{locks}->all)
	{
		$self->let_go($lock);
		$self->{locks}->uncount_all($lock);
		$self->{locks}->forget($lock);
	}
	return;
}

=pod

=item $session->text()

What distinguishes this state from others.

=back

=cut

sub text
{
	my ($self) = @_;
	my $statement = $self->{statement};
	return join "\n",
	  "$self->{number} $self->{block} $self->{nest} $self->{conduct} @{ $self->{savepoints} }",
	  $self->settings_text,
	  "rows " . join(' ', map { "$_->{row}/$_->{nest}" } @{ $self->{rows} }),
	  "cursors " . join(' ', map {
			my $cursor = $self->{cursors}{$_};
			"$_ $cursor->{nest} $cursor->{failed} @{ $cursor->{paths} } / @{ $cursor->{rows} // [] }"
	  } sort keys %{ $self->{cursors} }),
	  ($statement ? "in $statement->{next} @{ $statement->{notices} }" : ''),
	  $self->{locks}->text;
}

1;
