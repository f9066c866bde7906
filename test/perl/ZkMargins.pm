
=pod

=head1 NAME

ZkMargins - the time between the end of a command and the next holder

=head1 SYNOPSIS

  my $margins = ZkMargins->new($zklock, $ensemble, $other);
  $margins->check('the program is killed', { traits => [qw(stubborn family)], status => 137,
    do => sub { my ($run) = @_; kill 'KILL', $run->pid } });
  $margins->report;

=head1 DESCRIPTION

Each process of the command writes down every other millisecond that it still runs.  The next
holder is a session of another cluster, which waits for the lock; PostgreSQL says when it had
it.  Both have the same clock.

=cut

package ZkMargins;

use strict;
use warnings;

use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;
use ZkPsql;
use ZkTest;

=pod

=head1 METHODS

=over

=item ZkMargins->new($zklock, $ensemble, $node)

Of commands that a ZkRun runs, with a next holder on that node.

=item $margins->check($what, \%how)

Start a command, do something to it, and see when the next holder begins: a test that
nothing of the command ran then, nor later.  These say how:

=over

=item traits

A list.  With C<stubborn>, the command ignores the signals that ask it to end; with
C<polite>, it ends on SIGTERM; with C<family>, it has several processes, most of them in
another session and without their parents; with C<stops>, they all stop themselves on
SIGUSR1.

=item do, after

What to do to the running program, an object of ZkRun, before the next holder can begin, and
when it has begun.  The second argument is the lock path, the third one a list of the
command's processes.

=item status

That is expected in the end.

=item zklock

Another ZkRun than the one for all.

=back

=item $margins->begin($what, \%how), $margins->finish($begun)

The two halves of that, without C<do>, to check several at a time.

=item $margins->report()

Print a table.

=back

=cut

# Who writes to a file is in its name.  No file is ever empty.
my $command = <<'PERL';
use POSIX (); use Time::HiRes qw(sleep time);
my ($file, %is) = (shift, map { $_ => 1 } @ARGV);
if ($is{stubborn}) { $SIG{$_} = 'IGNORE' foreach qw(TERM INT HUP); }
if ($is{stops}) { $SIG{USR1} = sub { kill 'STOP', $$ }; }
if ($is{family})
{
	my $command = $$;
	fork // die;
	fork // die;
	POSIX::setsid();
	if (fork // die) { POSIX::_exit(0) if $$ != $command; sleep 1000; }
}
my $end = 0;
if ($is{polite}) { $SIG{TERM} = sub { $end = 1 }; }
open my $out, '>', "$file.new.$$" or die;
sub beat { sysseek $out, 0, 0; syswrite $out, sprintf '%.6f', time; }
beat();
rename "$file.new.$$", "$file.$$" or die;
until ($end) { beat(); sleep 0.002; }
PERL

sub new
{
	my ($class, $zklock, $ensemble, $node) = @_;
	return bless {
		zklock => $zklock,
		ensemble => $ensemble,
		node => $node,
		margins => []
	}, $class;
}

# The processes of a command; their last signs of life.
sub beats
{
	my ($file) = @_;
	return map { (/\.(\d+)$/)[0] => slurp_file($_) } grep { !/new/ } glob "$file.*";
}

sub last_beat
{
	my ($file) = @_;
	my %beats = beats($file);
	my ($last) = sort { $b <=> $a } values %beats;
	return $last;
}

sub pids_of
{
	my ($file) = @_;
	my %beats = beats($file);
	return keys %beats;
}

sub begin
{
	my ($self, $what, $how) = @_;
	my $number = ++$self->{begun};
	my $path = "/margin/$number";
	my $file = "$PostgreSQL::Test::Utils::tmp_check/beat_$number";
	my @traits = @{ $how->{traits} };
	my $count = (grep { $_ eq 'family' } @traits) ? 4 : 1;
	my $run = ($how->{zklock} // $self->{zklock})
	  ->start($path, '--', 'perl', '-e', $command, $file, @traits);

	wait_for(sub { pids_of($file) >= $count }, 'the command to run');
	my $next = ZkPsql->new($self->{node});
	$next->send_timed("zk_lock_acquire('$path')");
	$self->{ensemble}->wait_for_queue($path, 2);
	return { %$how, what => $what, run => $run, path => $path, file => $file, next => $next };
}

sub finish
{
	my ($self, $begun) = @_;
	my ($what, $run, $file) = @{$begun}{qw(what run file)};
	my ($got, $at) = $begun->{next}->answer_timed;
	is($got, 't', "$what: the next holder begins");
	my $margin = $at - last_beat($file);
	cmp_ok($margin, '>', 0, "S397: $what: nothing of the command runs then");
	push @{ $self->{margins} }, [ $what, $margin ];
	$begun->{after}->($run, $begun->{path}) if $begun->{after};
	is($run->status, $begun->{status}, "$what: the status") if defined $begun->{status};
	cmp_ok(last_beat($file), '<', $at, "S397: $what: nor later");
	$begun->{next}->quit;
	return;
}

sub check
{
	my ($self, $what, $how) = @_;
	my $begun = $self->begin($what, $how);
	$how->{do}->($begun->{run}, $begun->{path}, pids_of($begun->{file}));
	return $self->finish($begun);
}

sub report
{
	my ($self) = @_;
	note sprintf '%-60s the command ended %6.3f s before the next holder began', @$_
	  foreach @{ $self->{margins} };
	return;
}

1;
