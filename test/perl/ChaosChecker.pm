
=pod

=head1 NAME

ChaosChecker - the claims that a chaos run proves, and their contradictions

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
after another client closed the session, because the lease cannot show that.
Fenced counters know no such excuse.

=back

The tables show the commits, also where a client never learned the result of
its COMMIT.  A lock is taken to be held, at least, from the return of
the acquisition to the sending of COMMIT, by one clock.

=cut

package ChaosChecker;

use strict;
use warnings;

use parent qw(ChaosHolders ChaosCommits ChaosRemains);

use ChaosClaim qw(in_words);

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
		push @{ $self->{failovers}{ $fault->{cluster} } }, $fault
		  if $fault->{kind} eq 'failover';
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
		  check_order check_arrival check_kept check_commits
		  check_prepared check_foreign check_runs check_failovers
		  check_errors check_hangs check_rest check_crashes
		  check_memory)
	];
}

# The sections whose row exists, in no order.
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

# Had another client closed its session?  A guard that asks the ensemble may miss that
# only if it happens during the commit; one that trusts the lease may miss it
# until that is over.
sub session_closed
{
	my ($self, $section) = @_;
	my $unaware = $section->{guard} eq 'lease' ? $self->{timeout} * 2 / 3 : 0;
	return grep {
			 $section->{commit_returned} >= $_->{begin}
		  && $section->{commit_sent} <= $_->{applied} + $unaware
	} @{ $self->{expiries}{ $section->{session} } // [] };
}

# Was it committed, at home or in another cluster, after what survives a failover of
# that cluster may have ended, and before the primary was dead?
sub lost_in_failover
{
	my ($self, $section, $cluster) = @_;
	return grep {
			 $section->{commit_returned} >= $_->{begin}
		  && $section->{commit_sent} <= $_->{applied}
	} @{ $self->{failovers}{$cluster} // [] };
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

1;
