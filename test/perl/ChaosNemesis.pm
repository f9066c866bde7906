
=pod

=head1 NAME

ChaosNemesis - faults at random, and a log of them

=head1 SYNOPSIS

  my $nemesis = ChaosNemesis->new($run, mean => 1);
  while ($run->remaining > 0) { $nemesis->tick; $nemesis->rest; }
  $nemesis->end;

=head1 DESCRIPTION

Every fault is a real one: a signal to a process, a connection that a proxy
cuts, a session that another client closes.  The majority of the ensemble is
left alone: one server is disturbed at a time.

The log is FOLDER/faults.tsv, with lines of BEGIN, END, KIND, SCOPE, CLUSTER,
PID, SESSION, APPLIED and the target in words, separated by tabs.  SCOPE shows
whose order of arrival a fault may have disturbed: that of a C<backend>, a
C<session>, a C<cluster>, C<all>, or C<none>.
APPLIED is when the fault was there for certain: END is when it was over.

=cut

package ChaosNemesis;

use strict;
use warnings;

use ChaosFailover;
use ChaosRandom qw(is_stayer now);
use ChaosServers;
use Test::More;
use Time::HiRes qw(sleep);
use ZkProbe;

# How often each kind comes.  Those that need a healthy ensemble are in
# ChaosServers.
my %default_weights = (
	cut_request => 12,
	cut_reply => 18,
	hold_reply => 5,
	cut_session => 8,
	cut_all => 2,
	delay => 8,
	part_backend => 10,
	part_one_way => 6,
	expire => 6,
	pause => 12,
	pause_long => 6,
	pause_commit => 6,
	cancel => 14,
	terminate => 7,
	kill_backend => 1.5,
	server => 15);

# Requests that are worth a cut.
my @requests = qw(multi create2 createContainer getChildren getData sync
  closeSession connect any any any);

# A nap that lasts longer, in seconds, is one of the whole machine.
my $short = 0.3;

=pod

=head1 METHODS

=over

=item ChaosNemesis->new($run, %params)

C<mean>: seconds from one fault to the next.  C<weights>: how often each kind
comes, instead of the usual.

=cut

sub new
{
	my ($class, $run, %params) = @_;
	my $self = bless {
		run => $run,
		world => $run->world,
		timeout => $run->params->{timeout},
		random => ChaosRandom->new($run->params->{seed}, 'nemesis'),
		mean => $params{mean} // 0.9,
		weights => $params{weights} // \%default_weights,
		due => [],
		expiries => [],
		armed => {},
		count => {},
		crashed => {}
	}, $class;
	$self->{servers} = ChaosServers->new($self);
	$self->{failovers} = {
		map { $_->name => ChaosFailover->new($self, $_) }
		grep { $_->standby } values %{ $run->world->clusters }
	};
	$self->{next} = now() + $self->{mean};
	return $self;
}

sub random { return $_[0]->{random}; }
sub world { return $_[0]->{world}; }
sub remaining { return $_[0]->{run}->remaining; }

=pod

=item $nemesis->tick()

Undo faults that have lasted long enough, and begin the next one if it is time.

=item $nemesis->rest()

Until the next tick.  Where that takes far too long the machine has no time for anybody,
which is logged as a C<stall>, and counts as no fault.

=item $nemesis->end()

Undo everything, and wait until the ensemble is whole.

=item $nemesis->count()

How many faults there were, as a hash by kind.

=cut

sub count { return $_[0]->{count}; }

sub tick
{
	my ($self) = @_;
	$self->undo_due(now());
	$self->look_at_expiries;
	$self->look_at_traps;
	$self->{servers}->tick;
	$_->tick foreach values %{ $self->{failovers} };
	return if now() < $self->{next};
	$self->{next} = now() + $self->{random}->interval($self->{mean});
	# A fault that is impossible now is replaced by another one.
	foreach (1 .. 5)
	{
		my $kind = $self->{random}->weighted(%{ $self->{weights} });
		last if $self->can($kind)->($self);
	}
	return;
}

sub rest
{
	my ($self) = @_;
	my $stall = $self->fault('stall', 'all');
	sleep 0.02;
	$self->log($stall) if now() > $stall->{begin} + $short;
	return;
}

sub end
{
	my ($self) = @_;
	$self->undo_due(9**9**9);
	$self->{servers}->end;
	$_->end foreach values %{ $self->{failovers} };
	my $deadline = now() + 60;
	while (@{ $self->{expiries} } && now() < $deadline)
	{
		$self->look_at_expiries;
		sleep 0.02;
	}
	$_->pass foreach values %{ $self->{world}->proxies };
	return;
}

# Undo the faults that are due at a time.
sub undo_due
{
	my ($self, $time) = @_;
	my @due = sort { $a->{at} <=> $b->{at} } @{ $self->{due} };
	while (@due && $due[0]{at} <= $time)
	{
		my $undo = shift @due;
		$undo->{code}->();
		$self->log($undo->{fault}) if $undo->{fault};
	}
	$self->{due} = \@due;
	return;
}

=pod

=item $nemesis->fault($kind, $scope, %details)

What a log line is made from; begins now.

=item $nemesis->log($fault)

It is over: log it.

=item $nemesis->later($seconds, $code, $fault)

Run the code that much later, and log the fault, if there is one.

=cut

sub fault
{
	my ($self, $kind, $scope, %details) = @_;
	return { begin => now(), kind => $kind, scope => $scope, %details };
}

sub log
{
	my ($self, $fault) = @_;
	$self->{count}{ $fault->{kind} }++ if $fault->{kind} ne 'stall';
	my $end = now();
	$self->{run}->write(
		'faults.tsv',
		join("\t",
			$fault->{begin},
			$end,
			(map { $fault->{$_} // '-' } qw(kind scope cluster pid session)),
			$fault->{applied} // $fault->{begin},
			$fault->{text} // ''),
		"\n");
	return 1;
}

sub later
{
	my ($self, $seconds, $code, $fault) = @_;
	push @{ $self->{due} },
	  { at => now() + $seconds, code => $code, fault => $fault };
	return 1;
}

# ---- Connections.

# One of the proxies, and its server.
sub any_proxy
{
	my ($self) = @_;
	my $proxies = $self->{world}->proxies;
	my $id = $self->{random}->pick(sort keys %$proxies);
	return ($proxies->{$id}, $id);
}

# Any ZooKeeper session with an open connection: its id and password, and the
# proxy.
sub any_session
{
	my ($self) = @_;
	my ($proxy, $id) = $self->any_proxy;
	my $sessions = $proxy->sessions;
	delete $sessions->{'0x0'};
	my $session = $self->{random}->pick(sort keys %$sessions) // return;
	return ($session, $sessions->{$session}, $proxy, $id);
}

sub cut_request { return $_[0]->arm('cut_request', 'cut_before_request'); }
sub cut_reply { return $_[0]->arm('cut_reply', 'cut_after_request'); }
sub hold_reply { return $_[0]->arm('hold_reply', 'hold_reply'); }

# Set a trap at one of the proxies.  It counts when it has sprung.
sub arm
{
	my ($self, $kind, $method) = @_;
	my ($proxy, $id) = $self->any_proxy;
	return 0 if $self->{armed}{$id};
	my $type = $self->{random}->pick(@requests);
	my $fired = $proxy->fired;
	$proxy->$method($type);
	$self->{armed}{$id} = {
		proxy => $proxy,
		method => $method,
		fired => $fired,
		until => now() + 2,
		fault => $self->fault($kind, 'all', text => "$type at server $id")
	};
	return 1;
}

# Look for traps that have sprung.  One that saw no packet takes the next one.
sub look_at_traps
{
	my ($self) = @_;
	return if now() < ($self->{look_next} // 0);
	$self->{look_next} = now() + 0.1;
	foreach my $id (sort keys %{ $self->{armed} })
	{
		my $trap = $self->{armed}{$id};
		my ($fired, $session) = $trap->{proxy}->struck;
		if ($fired > $trap->{fired})
		{
			@{ $trap->{fault} }{qw(scope session)} = ('session', $session)
			  if $session ne '0x0';
			$self->log($trap->{fault});
			delete $self->{armed}{$id};
		}
		elsif (now() > $trap->{until})
		{
			my $method = $trap->{method};
			$trap->{proxy}->$method('any');
			$trap->{until} = 9**9**9;
			$trap->{fault}{text} =~ s/^\w+/any/;
		}
	}
	return;
}

# One connection, or all of a server's.
sub cut_session
{
	my ($self) = @_;
	my ($session, undef, $proxy, $id) = $self->any_session or return 0;
	my $fault = $self->fault(
		'cut_session', 'session',
		session => $session,
		text => "at server $id");
	# It may have ended just now.
	eval { $proxy->cut($session); 1 } or return 0;
	return $self->log($fault);
}

sub cut_all
{
	my ($self) = @_;
	my ($proxy, $id) = $self->any_proxy;
	my $fault = $self->fault('cut_all', 'all', text => "at server $id");
	$proxy->cut;
	return $self->log($fault);
}

sub delay
{
	my ($self) = @_;
	my ($proxy, $id) = $self->any_proxy;
	return 0 if $self->{delayed}{$id}++;
	my $delay = int $self->{random}->between(5, 300);
	my $fault =
	  $self->fault('delay', 'none', text => "$delay ms at server $id");
	$proxy->delay($delay);
	return $self->later($self->{random}->between(0.5, 2.5),
		sub { $proxy->delay(0); delete $self->{delayed}{$id}; }, $fault);
}

sub part_backend
{
	my ($self) = @_;
	return $self->part('part_backend', 'freeze');
}

sub part_one_way
{
	my ($self) = @_;
	return $self->part('part_one_way',
		$self->{random}->pick(qw(freeze_requests freeze_replies)));
}

# Let nothing of one session through, at whatever server, for a time that may
# be longer than the session lives.
sub part
{
	my ($self, $kind, $method) = @_;
	my ($session) = $self->any_session or return 0;
	return 0 if $self->{parted}{$session}++;
	my $fault =
	  $self->fault($kind, 'session', session => $session, text => $method);
	my @proxies = values %{ $self->{world}->proxies };
	$_->$method($session) foreach @proxies;
	return $self->later(
		$self->{random}->between(0.1, 1.6) * $self->{timeout},
		sub {
			$_->pass($session) foreach @proxies;
			delete $self->{parted}{$session};
		},
		$fault);
}

# Have another client close a session.  It takes a moment, and its own client
# may interfere: see zkprobe.
sub expire
{
	my ($self) = @_;
	return 0 unless $self->{servers}->whole && @{ $self->{expiries} } < 3;
	my ($session, $password, undef, $id) = $self->any_session or return 0;
	return 0 if $self->{parted}{$session};
	my $probe = eval { ZkProbe->new($self->{world}->ensemble->address($id)) }
	  or return 0;
	my $fault = $self->fault(
		'expire', 'session',
		session => $session,
		text => "at server $id");
	$probe->send("expire $session $password");
	push @{ $self->{expiries} }, { probe => $probe, fault => $fault };
	return 1;
}

sub look_at_expiries
{
	my ($self) = @_;
	my @open;
	foreach my $expiry (@{ $self->{expiries} })
	{
		if ($expiry->{probe}->answered)
		{
			$expiry->{fault}{applied} = now();
			$self->log($expiry->{fault});
		}
		else
		{
			push @open, $expiry;
		}
	}
	$self->{expiries} = \@open;
	return;
}

# ---- Backends.

# One of the workers' backends that is not stopped already, and for which the
# condition is true.  Those that hold their locks for long are chosen more often.
sub any_backend
{
	my ($self, $condition) = @_;
	my @backends = grep {
		!$self->{stopped}{ $_->{pid} } && (!$condition || $condition->($_))
	} $self->{run}->backends;
	my @keepers = grep { $self->{run}->is_keeper($_->{worker}) } @backends;
	return $self->{random}
	  ->pick($self->{random}->chance(0.3) && @keepers ? @keepers : @backends);
}

# The common part of all faults that hit a backend.
sub backend_fault
{
	my ($self, $kind, $backend, $scope) = @_;
	return $self->fault(
		$kind, $scope // 'backend',
		cluster => $backend->{cluster},
		pid => $backend->{pid},
		text => "worker $backend->{worker}, \"$backend->{title}\"");
}

sub pause
{
	my ($self) = @_;
	return $self->stop('pause', 0.02, 0.6);
}

sub pause_long
{
	my ($self) = @_;
	return $self->stop('pause_long', 1.1, 1.6);
}

# Just while a backend commits: that is the window that fences are for.
sub pause_commit
{
	my ($self) = @_;
	my $until = now() + 0.1;
	my $backend;
	until ($backend = $self->any_backend(sub { $_[0]{title} =~ /COMMIT$/ }))
	{
		return 0 if now() > $until;
	}
	return $self->stop('pause_commit', 1.1, 1.6, $backend);
}

# Stop a backend for a time, given in session timeouts.
sub stop
{
	my ($self, $kind, $from, $to, $backend) = @_;
	$backend //= $self->any_backend or return 0;
	my $pid = $backend->{pid};
	my $start = process_start($pid) // return 0;
	my $fault = $self->backend_fault($kind, $backend);

	return 0 if $self->fails_over($backend->{cluster});
	kill('STOP', $pid) or return 0;
	$self->{stopped}{$pid} = $backend->{cluster};
	my $deadline = now() + 1;
	sleep 0.001 until process_start($pid, 'T') || now() > $deadline;
	$fault->{applied} = now();
	return $self->later(
		$self->{random}->between($from, $to) * $self->{timeout},
		sub {
			kill('CONT', $pid) if (process_start($pid) // '') eq $start;
			delete $self->{stopped}{$pid};
		},
		$fault);
}

# A server that will be killed does not wait for stopped processes.
sub fails_over
{
	my ($self, $cluster) = @_;
	my $failover = $self->{failovers}{$cluster};
	return $failover && $failover->under_way;
}

=pod

=item $nemesis->has_stopped($cluster)

Is one of the cluster's backends stopped?

=back

=cut

sub has_stopped
{
	my ($self, $cluster) = @_;
	return grep { $_ eq $cluster } values %{ $self->{stopped} };
}

# When a process was started; undef if there is none, or none in that state.
sub process_start
{
	my ($pid, $state) = @_;
	open my $stat, '<', "/proc/$pid/stat" or return;
	my @fields = split ' ', (<$stat> // return) =~ s/^.*\) //sr;
	return if $state && $fields[0] !~ /^$state/i;
	return $fields[19];
}

# What pg_cancel_backend() and pg_terminate_backend() do.
sub cancel
{
	my ($self) = @_;
	return $self->signal('cancel', 'INT');
}

sub terminate
{
	my ($self) = @_;
	return $self->signal('terminate', 'TERM');
}

sub signal
{
	my ($self, $kind, $signal) = @_;
	my $backend =
	  $self->any_backend(sub { $signal eq 'INT' || !is_stayer($_[0]{worker}) })
	  or return 0;
	my $fault = $self->backend_fault($kind, $backend);
	kill($signal, $backend->{pid}) or return 0;
	return $self->log($fault);
}

# The whole cluster restarts then, so not too often, and one more than the
# others: backends are to live for long, too.
sub kill_backend
{
	my ($self) = @_;
	my $cluster = $self->{random}->chance(0.9) ? 'alpha' : 'beta';
	return 0
	  if now() < ($self->{crashed}{$cluster} // 0) + 20
	  || $self->fails_over($cluster);
	my $backend = $self->any_backend(sub { $_[0]{cluster} eq $cluster })
	  or return 0;
	my $fault = $self->backend_fault('kill_backend', $backend, 'cluster');
	kill('KILL', $backend->{pid}) or return 0;
	$self->{crashed}{$cluster} = now();
	return $self->log($fault);
}

# ---- Servers.

sub server
{
	my ($self) = @_;
	return $self->{servers}->strike;
}

1;
