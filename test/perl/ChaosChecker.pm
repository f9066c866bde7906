
=pod

=head1 NAME

ChaosChecker - what a chaos run proves, and what contradicts it

=head1 SYNOPSIS

  my $report = ChaosChecker->new($facts)->check;
  foreach my $claim (@$report) { ... }

=head1 DESCRIPTION

Looks at nothing but the facts (see ChaosHistory), so it can be run again over
a folder that was kept.  Returns a list of claims, each a hash:

=over

=item claim

in words

=item facts

over how many facts it was proved: none at all prove nothing

=item violations

a list of those that contradict it, in words

=item documented

a list of those that would, if doc/explanation.md did not say that this can happen: a
commit that was under way, past the guard, when its backend was stopped or
another client closed its ZooKeeper session; and one by the session guard, soon
after another client closed the session, for the lease does not know of that.
Fenced counters know no such excuse.

=back

The tables say what was committed, also where a client never learned what had
become of its COMMIT.  A lock is taken to be held, at least, from the return of
the acquisition to the sending of COMMIT, by one clock.

=cut

package ChaosChecker;

use strict;
use warnings;

use List::Util qw(max min sum0);

# A statement may take so much longer than it is to.  What it waits for may be
# a backend that is stopped, or several of these, one after the other.
my $slack = 25;

# Errors that faults, or the workers themselves, give reason for.
my %justified =
  map { $_ => 1 } qw(ok false lost ZKL01 08001 08006 57014 57P01 57P02 57P03);

# Who is invoked so much later queues up later, if nothing is wrong.
my $clearly_later = 2;

# What a backend may have more in the last quarter of its life than in the
# second, in kB.  One that is young is still doing things for the first time.
# Lives are counted in samples, one of which is taken each second.
my $growth = 256;
my $growth_of_young = 1024;
my $old = 40;

=pod

=head1 METHODS

=over

=item ChaosChecker->new($facts)

=item $checker->check()

=back

=cut

sub new
{
	my ($class, $facts) = @_;
	my $self = bless { facts => $facts, timeout => $facts->{params}{timeout} },
	  $class;
	$self->{committed} = $self->committed_sections;
	foreach my $fault (@{ $facts->{faults} })
	{
		push @{ $self->{stops}{"$fault->{cluster} $fault->{pid}"} }, $fault
		  if $fault->{kind} =~ /^pause(_long|_commit)?$/;
		push @{ $self->{expiries}{ $fault->{session} } }, $fault
		  if $fault->{kind} eq 'expire';
	}
	return $self;
}

sub check
{
	my ($self) = @_;
	return [
		map { $self->$_ }
		  qw(check_overlap check_plain check_fenced check_readers
		  check_order check_arrival check_commits check_errors check_hangs
		  check_rest check_crashes check_memory)
	];
}

# A claim about to be checked.
sub claim
{
	my ($text) = @_;
	return { claim => $text, facts => 0, violations => [], documented => [] };
}

# The sections whose row is there, in no order.
sub committed_sections
{
	my ($self) = @_;
	my $facts = $self->{facts};
	my @committed;
	foreach my $cluster (sort keys %{ $facts->{rows} })
	{
		foreach my $id (sort keys %{ $facts->{rows}{$cluster} })
		{
			my $section = $facts->{sections}{$id};
			push @committed, $section if $section && $section->{commit_sent};
		}
	}
	return \@committed;
}

# Sections by the value of these fields, joined by blanks.
sub grouped
{
	my ($sections, @fields) = @_;
	my %groups;
	push @{ $groups{ join ' ', @{$_}{@fields} } }, $_ foreach @$sections;
	return \%groups;
}

# What there is to say about a section.
sub in_words
{
	my ($section) = @_;
	return
		sprintf 'section %s (%s pid %d, ZooKeeper session %s, guard %s):'
	  . ' %s %s, token %s, %s %s; invoked %.6f, acquired %.6f, COMMIT sent'
	  . ' %.6f, returned %.6f: %s', @{$section}{
		qw(id cluster pid session guard mode path token counter seen
		  invoked acquired)
	  },
	  map { $_ // 0 } @{$section}{qw(commit_sent commit_returned commit)};
}

# ---- What doc/explanation.md says can happen.

# Was the section's backend stopped while it committed, for long enough to lose
# a lock?
sub stopped_in_commit
{
	my ($self, $section) = @_;
	return grep {
			 $section->{commit_sent} <= $_->{applied}
		  && $section->{commit_returned} >= $_->{begin}
		  && $_->{end} - $_->{begin} >= $self->{timeout} / 4
	} @{ $self->{stops}{"$section->{cluster} $section->{pid}"} // [] };
}

# Had another client closed its session?  Who asks the ensemble may not know
# only if that happens during the commit; who trusts the lease may not know
# until that is over.
sub session_closed
{
	my ($self, $section) = @_;
	my $unaware = $section->{guard} eq 'session' ? $self->{timeout} * 2 / 3 : 0;
	return grep {
			 $section->{commit_returned} >= $_->{begin}
		  && $section->{commit_sent} <= $_->{applied} + $unaware
	} @{ $self->{expiries}{ $section->{session} } // [] };
}

# Why a section may have been committed too late, in words; empty if it may not.
sub excuse
{
	my ($self, $section) = @_;
	return '' if $section->{guard} eq 'off';
	my ($stop) = $self->stopped_in_commit($section);
	return sprintf 'stopped at %.6f for %.3f s', $stop->{begin},
	  $stop->{end} - $stop->{begin}
	  if $stop;
	my ($closed) = $self->session_closed($section);
	return sprintf 'session closed from outside at %.6f to %.6f',
	  @{$closed}{qw(begin applied)}
	  if $closed;
	return '';
}

# Two sections contradict each other: note why, or why that can happen.  The
# culprits are those of them that may have been late.
sub contradiction
{
	my ($self, $claim, $what, $sections, @culprits) = @_;
	my @excuses = grep { $_ ne '' } map { $self->excuse($_) } @culprits;
	my $text = "$what:\n  " . join "\n  ", (map { in_words($_) } @$sections),
	  @excuses;
	push @{ @excuses ? $claim->{documented} : $claim->{violations} }, $text;
	return;
}

# ---- Holders.

# Sections of one path in the order in which they were acquired.  Each is
# compared with those before that lasted longest.
sub check_overlap
{
	my ($self) = @_;
	my $claim = claim('no two holders in overlapping committed sections');
	my $paths = grouped($self->{committed}, 'path');
	foreach my $path (sort keys %$paths)
	{
		my %last;
		foreach my $section (sort { $a->{acquired} <=> $b->{acquired} }
			@{ $paths->{$path} })
		{
			$claim->{facts}++;
			$self->compare_holders($claim, \%last, $section);
		}
	}
	return $claim;
}

# The sections that conflict with this one: shared ones do not with each other,
# nor do those of one acquisition.
sub compare_holders
{
	my ($self, $claim, $last, $section) = @_;
	my $mode = $section->{mode};
	foreach my $other (grep { defined }
		@{$last}{ $mode eq 'shared' ? 'exclusive' : ('exclusive', 'shared') })
	{
		next if $other->{commit_sent} <= $section->{acquired};
		next if $other->{hold} eq $section->{hold};
		my ($culprit) = grep { $self->session_closed($_) } $other;
		$self->contradiction(
			$claim, 'two holders',
			[ $other, $section ],
			$culprit // ());
	}
	$last->{$mode} = $section
	  if !$last->{$mode}
	  || $last->{$mode}{commit_sent} < $section->{commit_sent};
	return;
}

# ---- Counters.

sub check_plain
{
	my ($self) = @_;
	my $claim = claim('no lost update of a plain counter');
	$self->check_counters($claim, 'plain');
	return $claim;
}

sub check_fenced
{
	my ($self) = @_;
	my $claim =
	  claim(
		'no lost update of a fenced counter, which goes up in the order of tokens'
	  );
	$self->check_counters($claim, 'fenced');
	return $claim;
}

# Each value of a counter was found by one section, and the last one is the
# counter's own.
sub check_counters
{
	my ($self, $claim, $counter) = @_;
	my $groups =
	  grouped([ grep { $_->{counter} eq $counter } @{ $self->{committed} } ],
		'cluster', 'path');
	foreach my $group (sort keys %$groups)
	{
		my ($cluster, $path) = split ' ', $group;
		my $found = grouped($groups->{$group}, 'seen');
		my @seen = sort { $a <=> $b } keys %$found;
		my $end = $self->{facts}{counters}{$cluster}{$counter}{$path};
		$claim->{facts} += @{ $groups->{$group} };
		$self->check_value($claim, $counter, $found->{$_}) foreach @seen;
		push @{ $claim->{violations} },
		  "$group: $counter counter is $end after sections that saw $seen[0] to"
		  . " $seen[-1], "
		  . @seen
		  . ' values'
		  unless $seen[0] == 0 && $end == @seen && $seen[-1] + 1 == $end;
		$self->check_tokens($claim, map { @{ $found->{$_} } } @seen)
		  if $counter eq 'fenced';
	}
	return;
}

# The sections that found one value: all but one are lost, and must be excused.
sub check_value
{
	my ($self, $claim, $counter, $sections) = @_;
	return if @$sections == 1;
	my @late = grep { $self->excuse($_) ne '' } @$sections;
	my $excused = $counter eq 'plain' && @late >= @$sections - 1;
	$self->contradiction($claim, 'lost update', $sections,
		$excused ? @late : ());
	return;
}

# Sections in the order in which they counted.  One acquisition may have more
# than one, with the same token.
sub check_tokens
{
	my ($self, $claim, @sections) = @_;
	foreach my $i (1 .. $#sections)
	{
		my ($before, $after) = @sections[ $i - 1, $i ];
		next if $before->{token} < $after->{token};
		next
		  if $before->{token} == $after->{token}
		  && $before->{hold} eq $after->{hold};
		$self->contradiction($claim, 'tokens out of order',
			[ $before, $after ]);
	}
	return;
}

# Who shares has seen the same values twice.
sub check_readers
{
	my ($self) = @_;
	my $claim = claim('nothing changes under a shared lock');
	foreach
	  my $section (grep { $_->{mode} eq 'shared' } @{ $self->{committed} })
	{
		$claim->{facts}++;
		next if $section->{seen} eq $section->{again};
		my @writers = $self->writers_during($section);
		my @late = grep { $self->excuse($_) ne '' } @writers;
		$self->contradiction(
			$claim,
			"changed to $section->{again}",
			[ $section, @writers ],
			@late && @late == @writers ? @late : ());
	}
	return $claim;
}

# Who has counted what a reader saw change.
sub writers_during
{
	my ($self, $reader) = @_;
	my %from;
	my %to;
	@from{qw(plain fenced)} = split m{/}, $reader->{seen};
	@to{qw(plain fenced)} = split m{/}, $reader->{again};
	return grep {
			 $_->{mode} eq 'exclusive'
		  && $_->{path} eq $reader->{path}
		  && $_->{cluster} eq $reader->{cluster}
		  && $_->{seen} >= $from{ $_->{counter} }
		  && $_->{seen} < $to{ $_->{counter} }
	} @{ $self->{committed} };
}

# ---- Order.

# The order in which locks are granted is that of tokens, which is that of the
# queue.
sub check_order
{
	my ($self) = @_;
	my $claim = claim('who waits is granted in the order of the queue');
	my $paths = grouped($self->{committed}, 'path');
	foreach my $path (sort keys %$paths)
	{
		my %latest;
		foreach my $section (sort { $a->{token} <=> $b->{token} }
			@{ $paths->{$path} })
		{
			$self->compare_grants($claim, \%latest, $section);
		}
	}
	return $claim;
}

# It counts where there was a wait: it began before the other one's section was
# over.  Shared ones may be granted in any order among themselves.
sub compare_grants
{
	my ($self, $claim, $latest, $section) = @_;
	my $mode = $section->{mode};
	foreach my $before (grep { defined }
		@{$latest}{ $mode eq 'shared' ? 'exclusive' : ('exclusive', 'shared') })
	{
		$claim->{facts}++ if $section->{invoked} < $before->{commit_sent};
		next if $before->{acquired} <= $section->{acquired};
		next if $before->{token} == $section->{token};
		$self->contradiction(
			$claim,
			'granted out of turn',
			[ $before, $section ]);
	}
	$latest->{$mode} = $section
	  if !$latest->{$mode} || $latest->{$mode}{acquired} < $section->{acquired};
	return;
}

# Who was not disturbed keeps its place: it is granted before all who came
# clearly later.  Sections of one path are compared with those that were
# invoked while they waited.
sub check_arrival
{
	my ($self) = @_;
	my $claim =
	  claim('who was not disturbed is granted in the order of arrival');
	$claim->{optional} = 1;
	my $paths = grouped(
		[
			grep { $_->{mode} eq 'exclusive' && $_->{hold} eq $_->{id} }
			  values %{ $self->{facts}{sections} }
		],
		'path');
	foreach my $path (sort keys %$paths)
	{
		my @sections =
		  sort { $a->{invoked} <=> $b->{invoked} } @{ $paths->{$path} };
		$self->compare_arrivals($claim, $sections[$_],
			later_arrivals($_, \@sections))
		  foreach 0 .. $#sections;
	}
	return $claim;
}

# Of the sections in the order of arrival: those that came while one of them had
# been waiting for some time.
sub later_arrivals
{
	my ($at, $sections) = @_;
	my $first = $sections->[$at];
	my @later;

	return if $first->{acquired} - $first->{invoked} < $clearly_later;
	while (++$at < @$sections && $sections->[$at]{invoked} < $first->{acquired})
	{
		push @later, $sections->[$at]
		  if $sections->[$at]{invoked} >= $first->{invoked} + $clearly_later;
	}
	return @later;
}

sub compare_arrivals
{
	my ($self, $claim, $first, @later) = @_;
	return if !@later || $self->disturbed($first);
	foreach my $section (@later)
	{
		$claim->{facts}++;
		next if $first->{acquired} <= $section->{acquired};
		$self->contradiction(
			$claim,
			'not in the order of arrival',
			[ $first, $section ]);
	}
	return;
}

# May a fault have met a waiter?  It may have been one before it came, which is
# still felt for as long as it takes to find another server; or one of a
# ZooKeeper session that is over.
sub disturbed
{
	my ($self, $section) = @_;
	return 1 unless $section->{steady};
	my $from = $section->{invoked} - $self->{timeout} - 1;
	my $backend = "$section->{cluster} $section->{pid}";
	return grep {
			 $_->{begin} < $section->{acquired}
		  && $_->{end} > $from
		  && ( $_->{scope} eq 'all'
			|| $_->{session} eq $section->{session}
			|| "$_->{cluster} $_->{pid}" eq $backend
			|| $_->{scope} eq 'cluster' && $_->{cluster} eq $section->{cluster})
	} @{ $self->{facts}{faults} };
}

# ---- Clients.

# What COMMIT said is what the table shows; and what the table shows is what the
# worker did.
sub check_commits
{
	my ($self) = @_;
	my $claim = claim('what COMMIT says is true');
	my $facts = $self->{facts};
	foreach my $section (values %{ $facts->{sections} })
	{
		my $outcome = $section->{commit} // next;
		my $row =
		  $facts->{rows}{ $section->{cluster} // '' }{ $section->{id} // '' };
		$claim->{facts}++;
		push @{ $claim->{violations} },
		  'committed, but not there: ' . in_words($section)
		  if $outcome eq 'ok' && !$row;
		push @{ $claim->{violations} },
		  'refused, but there: ' . in_words($section)
		  if $outcome =~ /^(ZKL01|57014)$/ && $row;
	}
	$self->check_rows($claim);
	return $claim;
}

sub check_rows
{
	my ($self, $claim) = @_;
	my $facts = $self->{facts};
	foreach my $cluster (sort keys %{ $facts->{rows} })
	{
		foreach my $id (sort keys %{ $facts->{rows}{$cluster} })
		{
			my $row = $facts->{rows}{$cluster}{$id};
			my $section = $facts->{sections}{$id} // {};
			next
			  if $section->{commit_sent}
			  && !grep { $row->{$_} ne $section->{$_} }
			  qw(path counter seen token);
			push @{ $claim->{violations} },
			  "cluster $cluster has a section $id that its worker did not commit";
		}
	}
	return;
}

sub check_errors
{
	my ($self) = @_;
	my $claim = claim('no error but those that faults give reason for');
	my $outcomes = $self->{facts}{calls}{outcomes};
	foreach my $name (sort keys %$outcomes)
	{
		foreach my $outcome (sort keys %{ $outcomes->{$name} })
		{
			my $count = $outcomes->{$name}{$outcome};
			$claim->{facts} += $count;
			next if $justified{$outcome} || $outcome eq 'hang';
			push @{ $claim->{violations} }, "$count times $outcome from $name";
		}
	}
	push @{ $claim->{violations} }, @{ $self->{facts}{accidents} };
	return $claim;
}

# A statement ends when its own limit is over, less the time for which its
# backend was stopped, and some slack.
sub check_hangs
{
	my ($self) = @_;
	my $claim = claim('no hang');
	$claim->{facts} = $self->{facts}{calls}{count};
	foreach my $call (@{ $self->{facts}{calls}{slow} })
	{
		my $stopped = sum0 map {
			max(0,
				min($call->{end}, $_->{end}) - max($call->{begin}, $_->{begin}))
		} @{ $self->{stops}{"$call->{cluster} $call->{pid}"} // [] };
		my $took = $call->{end} - $call->{begin};
		next
		  if $call->{outcome} ne 'hang'
		  && $took <= $call->{limit} + $stopped + $slack;
		push @{ $claim->{violations} },
		  sprintf 'worker %d, section %s, %s pid %d: %s took %.3f s from %.6f,'
		  . ' limit %.3f s, stopped for %.3f s: %s',
		  @{$call}{qw(worker id cluster pid name)}, $took,
		  @{$call}{qw(begin limit)}, $stopped, $call->{outcome};
	}
	my ($idle, $workers) =
	  @{ ($self->{facts}{end}{idle} // [ [ 0, 'all' ] ])->[0] };
	push @{ $claim->{violations} },
	  "$idle of $workers workers came to their end"
	  if $idle ne $workers;
	return $claim;
}

# ---- What is left.

sub check_rest
{
	my ($self) = @_;
	my $contenders =
	  claim('no orphan contender after twice the session timeout');
	my $watches = claim('no watch left after twice the session timeout');
	foreach my $rest (@{ $self->{facts}{end}{rest} // [] })
	{
		my ($when, $seconds, $contender_count, $watch_count) = @$rest;
		$_->{facts}++ foreach ($contenders, $watches);
		push @{ $contenders->{violations} },
		  "$contender_count contenders, $seconds s after the workers were $when"
		  if $contender_count ne '0';
		push @{ $watches->{violations} },
		  "$watch_count watches, $seconds s after the workers were $when"
		  if $watch_count ne '0';
	}
	return ($contenders, $watches);
}

# Of the backends that ended badly, the nemesis has killed every one.
sub check_crashes
{
	my ($self) = @_;
	my $claim = claim('no crash');
	my %killed = map { $_->{pid} => 1 }
	  grep { $_->{kind} eq 'kill_backend' } @{ $self->{facts}{faults} };
	$claim->{facts} = @{ $self->{facts}{end}{log} // [] };
	foreach my $line (@{ $self->{facts}{crashes} })
	{
		next
		  if $line =~ /(?:process|backend) \(PID (\d+)\) was terminated by signal 9\b/
		  && $killed{$1};
		push @{ $claim->{violations} }, $line;
	}
	my ($left) = @{ ($self->{facts}{end}{backends} // [ [0] ])->[0] };
	push @{ $claim->{violations} }, "$left backends outlive their clients"
	  if $left;
	return $claim;
}

# The last quarter of a backend's life against the second.
sub check_memory
{
	my ($self) = @_;
	my $claim = claim('memory is flat');
	foreach my $backend (sort keys %{ $self->{facts}{memory} })
	{
		my @samples = map { $_->[1] } @{ $self->{facts}{memory}{$backend} };
		next if @samples < 8;
		my $quarter = int(@samples / 4);
		my $before = median(@samples[ $quarter .. 2 * $quarter - 1 ]);
		my $after = median(@samples[ -$quarter .. -1 ]);
		$claim->{facts}++;
		push @{ $claim->{violations} },
			"backend $backend: $before kB, then $after kB (of "
		  . @samples
		  . ' samples)'
		  if $after - $before > (@samples < $old ? $growth_of_young : $growth);
	}
	return $claim;
}

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return $sorted[ $#sorted / 2 ];
}

1;
