
=pod

=head1 NAME

ChaosHolders - claims of the checker about the holders of a lock

=head1 DESCRIPTION

Part of ChaosChecker: no other client held it, the protected data shows that, and
it was granted in turn.

=cut

package ChaosHolders;

use strict;
use warnings;

use ChaosClaim qw(claim grouped in_words);
use List::Util qw(max);

# A call that begins this much later queues up later, if nothing is wrong.
my $clearly_later = 2;

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

# The sections that conflict with this one.  Shared ones do not conflict with each
# other, and those of one acquisition do not, either.
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

# A shared holder has read the same values twice.
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

# The sections that changed a counter under a reader.
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
	my $claim = claim('waiters are granted in the order of the queue');
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

# An undisturbed waiter keeps its place: it is granted before all that came
# clearly later.  Sections of one path are compared with those that were
# invoked while they waited.
sub check_arrival
{
	my ($self) = @_;
	my $claim =
	  claim('undisturbed waiters are granted in the order of arrival');
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
# still felt for as long as it takes to find another server.  What else ended its
# ZooKeeper session, or its connection, is one, too.
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

# ---- Long holds.

# A long-time holder keeps its lock while the follower it is connected to fails, or
# its connection does: there are other servers.  A machine that has no time for that may
# lose some: a quarter, and always two.
sub check_kept
{
	my ($self) = @_;
	my $claim = claim('S304: a lock that is held outlives a server that fails');
	my @lost;
	$claim->{optional} = 1;
	foreach my $section (values %{ $self->{facts}{sections} })
	{
		my $end = $section->{refused} // $section->{commit_sent} // next;
		next
		  if $section->{time} < $self->{timeout} / 10
		  || !$self->only_failure($section, $end);
		$claim->{facts}++;
		push @lost, 'lost: ' . in_words($section) if $section->{refused};
	}
	$claim->{ @lost > max(2, $claim->{facts} / 4) ? 'violations' : 'documented' } =
	  \@lost;
	return $claim;
}

# Did that happen during the hold, and nothing else that matters to it?
sub only_failure
{
	my ($self, $section, $end) = @_;
	my $session = $section->{session};
	my $backend = "$section->{cluster} $section->{pid}";
	my @near =
	  grep { $_->{begin} < $end && $_->{end} > $section->{acquired} }
	  @{ $self->{facts}{faults} };
	my $minor = qr/_follower$|^cut_|^hold_/;
	return 0 if grep {
		$_->{kind} !~ $minor
		  && ( $_->{scope} eq 'all'
			|| $_->{session} eq $session
			|| "$_->{cluster} $_->{pid}" eq $backend)
	} @near;
	return grep {
			 $_->{kind} =~ $minor
		  && $_->{begin} > $section->{acquired}
		  && ($_->{session} eq $session || $_->{text} =~ /\b$session\b/)
	} @near;
}

1;
