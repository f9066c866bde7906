
=pod

=head1 NAME

ChaosRemains - claims of the checker about errors and remains

=head1 DESCRIPTION

Part of ChaosChecker: no errors and no hangs but those that there is reason for, and
nothing is left behind.

=cut

package ChaosRemains;

use strict;
use warnings;

use ChaosClaim qw(claim);
use List::Util qw(max min sum0);

# A statement may take so much longer than it is to.  What it waits for may be
# a backend that is stopped, or several of these, one after the other.
my $slack = 25;

# Errors that faults, or the workers themselves, give reason for.
my %justified =
  map { $_ => 1 } qw(ok false lost ZKL01 08001 08006 57014 57P01 57P02 57P03);

# A prepared transaction may be gone, or still with the backend that was to end it.
my %justified_of = (
	resolve => { 42704 => 1, 55000 => 1 },
	rollback_prepared => { 42704 => 1 });

# What a backend may have more in the last quarter of its life than in the
# second, in kB.  One that is young is still doing things for the first time.
# Lives are counted in samples, one of which is taken each second.
my $growth = 256;
my $growth_of_young = 1024;
my $old = 120;

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
			next
			  if $justified{$outcome}
			  || $justified_of{$name}{$outcome}
			  || $outcome eq 'hang';
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
