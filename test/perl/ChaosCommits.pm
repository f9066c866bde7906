
=pod

=head1 NAME

ChaosCommits - claims of the checker about commits

=head1 DESCRIPTION

Part of ChaosChecker: the tables have exactly the reported commits, of plain and
prepared transactions, of those of two clusters, and of jobs.

=cut

package ChaosCommits;

use strict;
use warnings;

use ChaosClaim qw(claim grouped in_words);
use List::Util qw(max min);

# These refuse a commit, which then must not have been made.
my $refused = qr/^(ZKL01|57014)$/;

# A fault that hits more than one process takes its time until it has hit all.
my $spreading = 1;

# The table shows the results that COMMIT reported, and the work of the worker.
sub check_commits
{
	my ($self) = @_;
	my $claim = claim('the result of COMMIT is true');
	my $facts = $self->{facts};
	foreach my $section (values %{ $facts->{sections} })
	{
		my $outcome = $section->{commit} // next;
		my $row =
		  $facts->{rows}{ $section->{cluster} // '' }{ $section->{id} // '' };
		$claim->{facts}++;
		push @{ $claim->{violations} },
		  'committed, but not there: ' . in_words($section)
		  if $outcome eq 'ok'
		  && !$row
		  && !$self->lost_in_failover($section, $section->{cluster});
		push @{ $claim->{violations} },
		  'refused, but there: ' . in_words($section)
		  if $outcome =~ $refused && $row;
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

# A claim about sections of a kind; a run may have none of these.
sub claim_of
{
	my ($self, $kind, $text) = @_;
	my $claim = claim($text);
	$claim->{optional} = !$self->{facts}{params}{mix}{$kind};
	return $claim;
}

# ---- Two phases.

# A refused client finds the transaction as it was prepared, and can roll it back.
sub check_prepared
{
	my ($self) = @_;
	my $claim = $self->claim_of('prepared',
		'S300: COMMIT PREPARED that is refused leaves the transaction prepared');
	foreach my $section (
		grep { $_->{prepare} } values %{ $self->{facts}{sections} })
	{
		my $outcome = $section->{commit} // '';
		my $rollback = $section->{rollback_prepared} // 'lost';
		$claim->{facts}++;
		push @{ $claim->{violations} },
		  "ROLLBACK PREPARED: $rollback: " . in_words($section)
		  if $outcome =~ $refused && $rollback !~ /^(ok|lost)$/;
		push @{ $claim->{violations} },
		  'refused, but prepared: ' . in_words($section)
		  if $section->{prepare} =~ $refused
		  && ($section->{resolve} // '') eq 'ok';
	}
	return $claim;
}

# ---- Two clusters.

# A foreign row is there exactly if the local one is, unless a failover has lost the other
# one.
sub check_foreign
{
	my ($self) = @_;
	my $claim = $self->claim_of('foreign',
		'S301: a foreign row is there exactly if the local one is');
	my $facts = $self->{facts};
	my %guests = map { %$_ } values %{ $facts->{guests} };
	foreach my $section (
		grep { $_->{kind} eq 'foreign' } values %{ $facts->{sections} })
	{
		my $here = $facts->{rows}{ $section->{cluster} }{ $section->{id} };
		my $there = delete $guests{ $section->{id} };
		$claim->{facts}++ if $section->{commit};
		$self->half_committed($claim, $section, $here)
		  if !$here != !$there;
	}
	push @{ $claim->{violations} }, "foreign row of no section: $_"
	  foreach sort keys %guests;
	return $claim;
}

# Only one of the rows is there.
sub half_committed
{
	my ($self, $claim, $section, $here) = @_;
	my $text = ($here ? 'local' : 'foreign') . ' row only: ' . in_words($section);
	my $where = $here ? $self->far($section) : $section->{cluster};
	return if $section->{commit} && $self->lost_in_failover($section, $where)
	  && ($here || $section->{commit} eq 'ok');
	my $gap = $here ? '' : $self->two_phases_missing($section);
	push @{ $claim->{ $gap ? 'documented' : 'violations' } },
	  $gap ? "$text\n  $gap" : $text;
	return;
}

# The other cluster.
sub far
{
	my ($self, $section) = @_;
	my ($far) = grep { $_ ne $section->{cluster} }
	  keys %{ $self->{facts}{params}{clusters} };
	return $far // '';
}

# postgres_fdw commits there first, and a failure before the end of the commit here
# leaves a row only there.  Returns that failure; empty if there was none, and always if
# the commit failed for lack of the lock.
sub two_phases_missing
{
	my ($self, $section) = @_;
	my $outcome = $section->{commit} // return '';
	my ($fault) = grep {
			 $_->{begin} <= $section->{commit_returned}
		  && $_->{end} >= $section->{commit_sent} - $spreading
		  && $self->could_cause($_, $section, $outcome)
	} @{ $self->{facts}{faults} };
	return $fault ? "$fault->{kind} of $fault->{cluster} at $fault->{begin}" : '';
}

# Can a fault make COMMIT say that?
sub could_cause
{
	my ($self, $fault, $section, $outcome) = @_;
	my $all = $fault->{kind} =~ /^(kill_backend|failover)$/;
	my $own = $fault->{cluster} eq $section->{cluster}
	  && ($all || $fault->{pid} eq $section->{pid});
	return $own && $fault->{kind} eq 'cancel' if $outcome eq '57014';
	return $own && ($all || $fault->{kind} eq 'terminate')
	  if $outcome =~ /^(lost|57P0[12])$/;
	return $all && $fault->{cluster} eq $self->far($section)
	  if $outcome =~ /^(08006|08001|57P0[123])$/;
	return 0;
}

# ---- Jobs.

# Of each job, the work of each run that was due is there, and once.
sub check_runs
{
	my ($self) = @_;
	my $claim = $self->claim_of('job',
		'S302: each run of a job that was due is done, and once');
	my $jobs = $self->{facts}{params}{jobs} // { paths => {} };
	my $groups =
	  grouped([ grep { $_->{counter} eq 'job' } @{ $self->{committed} } ],
		'cluster', 'path');
	foreach my $cluster (sort keys %{ $jobs->{paths} })
	{
		foreach my $path (@{ $jobs->{paths}{$cluster} })
		{
			my $runs = $groups->{"$cluster $path"} // [];
			$claim->{facts} += @$runs;
			compare_runs($claim, "$cluster $path", $runs, $jobs->{last});
		}
	}
	return $claim;
}

sub compare_runs
{
	my ($claim, $job, $runs, $last) = @_;
	my $done = grouped($runs, 'seen');
	my @missing = grep { !$done->{$_} } 0 .. $last;
	push @{ $claim->{violations} },
	  "$job: " . @missing . " runs of $last left out, the first is $missing[0]"
	  if @missing;
	foreach my $number (sort { $a <=> $b } keys %$done)
	{
		push @{ $claim->{violations} }, join "\n  ",
		  "$job: run $number was repeated:", map { in_words($_) } @{ $done->{$number} }
		  if @{ $done->{$number} } > 1;
	}
	return;
}

# ---- Failovers.

# A failover loses the last commits, so the tables are those of some moment.
sub check_failovers
{
	my ($self) = @_;
	my $claim = claim('S303: a failover loses only the last commits');
	$claim->{optional} = 1;
	foreach my $failover (map { @$_ } values %{ $self->{failovers} // {} })
	{
		my $cluster = $failover->{cluster};
		my $rows = $self->{facts}{rows}{$cluster};
		my @met = grep {
				 $_->{cluster} eq $cluster
			  && defined $_->{commit}
			  && $_->{commit_sent} <= $failover->{applied}
			  && $_->{commit_returned} >= $failover->{begin}
		} values %{ $self->{facts}{sections} };
		my @lost = grep { $_->{commit} eq 'ok' && !$rows->{ $_->{id} } } @met;
		my $first = min(map { $_->{commit_returned} } @lost) // next;
		my @kept =
		  grep { $rows->{ $_->{id} } && $_->{commit_sent} > $first } @met;
		$claim->{facts} += @lost;
		push @{ $claim->{violations} },
		  "kept, but later than what was lost at $first: " . in_words($_)
		  foreach @kept;
	}
	return $claim;
}

1;
