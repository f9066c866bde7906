
=pod

=head1 NAME

ZkTest - what the tests' own modules and the tests share

=head1 SYNOPSIS

  wait_for(sub { ... }, 'the second waiter to queue up');
  wait_for(sub { ... }, 'the ensemble to elect a leader', 60);

=cut

package ZkTest;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use PostgreSQL::Test::Utils ();
use Time::HiRes qw(sleep time);

our @EXPORT = qw(wait_for);

# Die of these signals instead of just ending: then the END blocks run, ours
# and those of PostgreSQL::Test::Cluster, and stop the servers.
foreach my $signal (qw(INT TERM HUP))
{
	$SIG{$signal} = sub { die "ended by SIG$signal\n" };
}

=pod

=head1 FUNCTIONS

=over

=item wait_for($condition, $what, $seconds)

Call the condition every 10 ms until it returns something true, and return
that.  Dies, saying what was waited for, when the time (default: 30 s) is over.

=cut

sub wait_for
{
	my ($condition, $what, $seconds) = @_;
	my $deadline = time + ($seconds // 30);
	while (1)
	{
		my $result = $condition->();
		return $result if $result;
		croak "waited in vain for $what" if time > $deadline;
		sleep 0.01;
	}
}

=pod

=back

=cut

1;
