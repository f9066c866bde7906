
=pod

=head1 NAME

ChaosWorker - an SQL client that works under locks and keeps a history

=head1 SYNOPSIS

  perl -MChaosWorker -e 'ChaosWorker::main(@ARGV)' FOLDER NUMBER

=head1 DESCRIPTION

A process of its own with one connection.  It takes locks in all ways that
there are, counts up the counters that they protect, one read and one write at
a time, and writes into FOLDER/worker-NUMBER.tsv what it did and when, in lines
of fields separated by tabs:

=over

=item C BEGIN END STATEMENT SECTION OUTCOME LIMIT

A statement, from when to when; the outcome is C<ok>, C<false>, an SQLSTATE, or
C<lost> if the connection was; the time after which it has to end by itself.

=item S SECTION CLUSTER PATH MODE COUNTER GUARD PID SESSION TOKEN SEEN AGAIN
HOLD INVOKED ACQUIRED STEADY

A section: what was found under a lock.  HOLD is the first section of the same
acquisition.  STEADY is 1 if the backend's section before had the same ZooKeeper
session.

=item B TIME CLUSTER PID

A new connection.

=item X TIME TEXT

Something that must not happen.

=back

It works until the time is over that FOLDER/params.json says, gives back all
it holds, creates FOLDER/worker-NUMBER.idle, and stays connected until its
standard input ends.

=cut

package ChaosWorker;

use strict;
use warnings;

use ChaosRandom qw(is_stayer now);
use DBD::Pg qw(:async);
use DBI;
use IO::Handle;
use JSON::PP;
use Time::HiRes qw(sleep);

# How long a statement may take beyond its limit before the worker gives up.
my $patience = 60;

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
		$self->section until now() > $self->{params}{end};
		$self->quiesce;
		1;
	} or $self->note(X => now(), $@ =~ s/\s+/ /gr);
	$self->idle;
	return;
}

# Who this is, according to the parameters of the run.
sub new
{
	my ($class, $folder, $number) = @_;
	open my $file, '<', "$folder/params.json" or die "params.json: $!";
	my $params = decode_json(join '', <$file>);
	open my $history, '>', "$folder/worker-$number.tsv" or die "history: $!";
	$history->autoflush(1);
	my $random = ChaosRandom->new($params->{seed}, "worker $number");
	my @clusters = sort keys %{ $params->{clusters} };
	return bless {
		folder => $folder,
		number => $number,
		params => $params,
		history => $history,
		random => $random,
		cluster => $clusters[ $number % @clusters ],
		sections => 0
	}, $class;
}

# A line of the history.
sub note
{
	my ($self, @fields) = @_;
	print { $self->{history} } join("\t", @fields), "\n";
	return;
}

# ---- The connection.

# Connect, however often that takes, and let the nemesis know the backend.
sub connect
{
	my ($self) = @_;
	my $random = $self->{random};
	my $guards = $self->{params}{guards};
	$self->{guard} = $random->pick(@$guards);
	my $loss = $random->pick(qw(cancel report));
	my $options =
	  "-c zklock.commit_guard=$self->{guard} -c zklock.on_lock_loss=$loss";
	my $deadline = now() + $patience;
	delete $self->{dbh};

	until ($self->try_connect($options))
	{
		die "no connection to $self->{cluster} any more: $DBI::errstr\n"
		  if now() > $deadline;
		sleep 0.1;
	}
	return;
}

# One try.  A cluster that restarts refuses, which is no error here.
sub try_connect
{
	my ($self, $options) = @_;
	my $begin = now();
	my $dbh = DBI->connect(
		"dbi:Pg:$self->{params}{clusters}{$self->{cluster}}"
		  . ";connect_timeout=40;options='$options'",
		'', '',
		{
			PrintError => 0,
			PrintWarn => 0,
			RaiseError => 0,
			AutoCommit => 1,
			pg_server_prepare => 0
		});
	$self->note('C', $begin, now(), 'connect', '-', $dbh ? 'ok' : 'lost', 0);
	return 0 unless $dbh;
	$dbh->do('SET client_min_messages = error');
	$self->{dbh} = $dbh;
	$self->{pid} = $dbh->{pg_pid};
	$self->{session} = undef;
	$self->note('B', now(), $self->{cluster}, $self->{pid});
	$self->publish("$self->{cluster} $self->{pid}");
	return 1;
}

# Tell the nemesis which backend this is.
sub publish
{
	my ($self, $text) = @_;
	my $name = "$self->{folder}/worker-$self->{number}.backend";
	open my $file, '>', "$name.new" or die "$name: $!";
	print $file "$text\n";
	close $file;
	rename "$name.new", $name or die "$name: $!";
	return;
}

# Execute a statement.  Returns its first row if it succeeds, and sets
# {outcome}; that of a boolean is the value.
sub run
{
	my ($self, $name, $sql, $limit) = @_;
	my $begin = now();
	my $deadline = $begin + ($limit // 0) + $patience;
	my @row = eval { $self->exchange($sql, $deadline) };
	my $error = $@;
	my $end = now();
	$self->{outcome} = 'hang' if $error;
	$self->{outcome} = 'false'
	  if $self->{outcome} eq 'ok'
	  && $name =~ /^(acquire|release)$/
	  && $row[0] eq '0';
	@{$self}{qw(begin_time end_time)} = ($begin, $end);
	$self->note('C', $begin, $end, $name, $self->{id} // '-',
		$self->{outcome}, $limit // 0);
	die $error if $error;
	return @row;
}

# Send a statement and wait for the answer, until a deadline at most.  Sets
# {outcome} and {lost}.
sub exchange
{
	my ($self, $sql, $deadline) = @_;
	my $dbh = $self->{dbh};
	my $statement = $dbh->prepare($sql, { pg_async => PG_ASYNC })
	  or return $self->failed;
	$statement->execute or return $self->failed;
	my $ready;
	until ($ready = $dbh->pg_ready)
	{
		my $fds = '';
		vec($fds, $dbh->{pg_socket}, 1) = 1;
		select($fds, undef, undef, 1);
		die "no answer to: $sql\n" if now() > $deadline;
	}
	# To newer versions of DBD::Pg it is no failure to be cancelled.
	return $self->failed
	  if $ready < 0 || !defined $dbh->pg_result || $dbh->state ne '';
	$self->{outcome} = 'ok';
	return $statement->{NUM_OF_FIELDS} ? $statement->fetchrow_array : ();
}

# A statement has failed, or the connection has, which DBD::Pg tells as 08000,
# whatever the server had to say last.
sub failed
{
	my ($self) = @_;
	my $state = $self->{dbh}->state || '08000';
	$self->{lost} = $state eq '08000' || $state =~ /^57P/;
	$self->{outcome} = $state eq '08000' ? 'lost' : $state;
	return;
}

# Like run, and true if it has succeeded, and was not false.
sub did
{
	my ($self, @arguments) = @_;
	$self->run(@arguments);
	return $self->{outcome} eq 'ok';
}

# The same, again and again: somebody may cancel it.  Ends, too, when the
# connection is lost.
sub insist
{
	my ($self, @arguments) = @_;
	my $deadline = now() + $patience;
	until ($self->{lost} || $self->did(@arguments))
	{
		die "in vain: @arguments: $self->{outcome}\n" if now() > $deadline;
	}
	return;
}

# ---- Sections.

# What the next section is to be.
sub plan
{
	my ($self) = @_;
	my $random = $self->{random};
	my $params = $self->{params};
	my %plan = (
		path => $random->pick(@{ $params->{paths} }),
		kind => $random->weighted(%{ $params->{mix} }),
		counter => $random->pick(@{ $params->{counters} }),
		hold => 0);
	$plan{kind} = 'xact'
	  if $plan{kind} eq 'drop' && is_stayer($self->{number});
	$plan{mode} = $plan{kind} =~ /shared/ ? 'shared' : 'exclusive';
	$plan{scope} = $plan{kind} =~ /session|abandon/ ? 'session' : 'xact';
	$plan{counter} = 'read' if $plan{mode} eq 'shared';
	# One in so many is so long that its lease has to be renewed.
	$plan{hold} =
		$random->chance($params->{long_chance})
	  ? $random->between(0.3, 0.6) * $params->{timeout}
	  : $random->chance(0.3) ? $random->interval($params->{work})
	  : 0;
	# Some take other locks along.
	$plan{paths} = [ $plan{path} ];
	push @{ $plan{paths} }, $random->pick(@{ $params->{paths} })
	  while $random->chance($params->{several_chance});
	$plan{limit} = $random->weighted(0 => 15, 0.4 => 30, 10 => 55);
	$plan{limit} *= $random->uniform if $plan{limit} < 1;
	$plan{limit} = $random->between(0.001, 0.05) if $plan{kind} eq 'abandon';
	return \%plan;
}

# One of them, whatever becomes of it.
sub section
{
	my ($self) = @_;
	my $plan = $self->plan;
	my $scope = $plan->{scope};

	$self->{lost} = 0;
	$self->{id} = "$self->{number}." . ++$self->{sections};
	$self->{hold_id} = $self->{id};
	if ($plan->{kind} eq 'drop')
	{
		$self->drop($plan);
	}
	elsif ($plan->{kind} eq 'abandon')
	{
		$self->abandon($plan);
	}
	elsif (
		  $scope eq 'session'
		? $self->session_scope($plan)
		: $self->xact_scope($plan))
	{
		return;
	}
	$self->clean($scope);
	sleep $self->{random}->interval($self->{params}{pause});
	return;
}

# After a failure: begin anew, over another connection if need be.
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

# A lock of transaction scope, and what is done under it.
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
	foreach my $more (reverse 0 .. int $self->{random}->between(0, 3))
	{
		$self->did('begin', 'BEGIN')
		  && $self->work($plan)
		  && $self->did('commit', 'COMMIT')
		  or return 0;
		$self->{id} = "$self->{number}." . ++$self->{sections} if $more;
	}
	return $self->did('release',
		@{ $plan->{paths} } > 1
		? 'SELECT zk_lock_release_all()'
		: "SELECT zk_lock_release('$plan->{path}')");
}

# Take another lock as well, for a moment, and give it back by a rollback.
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

# The counter is read in one statement and written in another.
sub work
{
	my ($self, $plan) = @_;
	return $self->look($plan) if $plan->{mode} eq 'shared';
	my $table = $plan->{counter};
	my $path = $plan->{path};

	if ($table eq 'fenced' && $self->{params}{fence})
	{
		$self->did('fence', "SELECT zk_lock_fence('$path')") or return 0;
	}
	my ($seen, $token, $session) = $self->run('read',
			"SELECT n, zk_lock_token('$path'), (zk_session()).session_id"
		  . " FROM $table WHERE path = '$path'");
	return 0 unless $self->{outcome} eq 'ok';
	$self->note_section($plan, $session, $token, $seen, $seen);
	sleep $plan->{hold} if $plan->{hold};
	return $self->did('write',
		"WITH counted AS (UPDATE $table SET n = $seen + 1 WHERE path = '$path')"
		  . $self->row($plan, $seen, $token));
}

# Who shares looks twice, and sees that nothing has changed.
sub look
{
	my ($self, $plan) = @_;
	my $path = $plan->{path};
	my @looks;

	foreach (1, 2)
	{
		my ($seen, $token, $session) = $self->run('read',
				"SELECT plain.n || '/' || fenced.n, zk_lock_token('$path'),"
			  . ' (zk_session()).session_id FROM plain'
			  . " JOIN fenced USING (path) WHERE path = '$path'");
		return 0 unless $self->{outcome} eq 'ok';
		push @looks, [ $session, $token, $seen ];
		sleep $plan->{hold} if $plan->{hold} && @looks == 1;
	}
	$self->note_section($plan, @{ $looks[0] }, $looks[1][2]);
	return $self->did('write', $self->row($plan, $looks[0][2], $looks[0][1]));
}

# What tells that the section was committed, in the table of all.
sub row
{
	my ($self, $plan, $seen, $token) = @_;
	return ' INSERT INTO sections VALUES ('
	  . "'$self->{id}', '$plan->{path}', '$plan->{counter}', '$seen', $token)";
}

sub note_section
{
	my ($self, $plan, $session, $token, $seen, $again) = @_;
	$self->note(
		'S',
		$self->{id},
		$self->{cluster},
		@{$plan}{qw(path mode counter)},
		$self->{guard},
		$self->{pid},
		$session,
		$token,
		$seen,
		$again,
		$self->{hold_id},
		@{$self}{qw(invoked acquired)},
		($self->{session} // '') eq $session ? 1 : 0);
	$self->{session} = $session;
	return;
}

# A wait that ends by statement_timeout, if it is not granted before.
sub abandon
{
	my ($self, $plan) = @_;
	my $limit = 1 + int(1000 * $plan->{limit});
	$self->did('set', "SET statement_timeout = '$limit ms'") or return;
	$self->run('acquire', "SELECT zk_lock_acquire('$plan->{path}')",
		$plan->{limit});
	$self->run('release', "SELECT zk_lock_release_all()")
	  if $self->{outcome} eq 'ok';
	$self->insist('set', 'RESET statement_timeout');
	return;
}

# A connection that is closed during the wait, or after it.
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
	return;
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
