
=pod

=head1 NAME

BenchWatch - another program's view of a process that is measured

=head1 SYNOPSIS

  my $pid = session_process($world, 'zklock');
  my %roles = thread_roles($pid);
  my $watch = BenchWatch->new('strace', '-f', '-p', $pid);
  $watch->await(sub { is_traced($pid) });
  ...
  $watch->stop;

=cut

package BenchWatch;

use strict;
use warnings;

use Exporter 'import';
use POSIX ();
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep time);
use ZkEnsemble;

our @EXPORT = qw(session_process thread_role thread_roles watch_clients);

# How long such a program may take to begin, and to end, in seconds.
my $patience = 30;

=pod

=head1 FUNCTIONS

=over

=item watch_clients($world, $watch)

Watch the bare client library and zklock, by a function that is called with the world and
the client.  Returns a hash by client of what that returns; if it fails, of a hash whose
C<failure> says why.

=item session_process($world, $who)

Have a client open one session and use it, and return the number of the process with its
threads: the backend if it works in PostgreSQL, or else its program.

=item thread_roles($pid)

A hash by number of the thread, of such a process with nothing to do: C<caller> is the one
that calls the lock client, C<io> waits for a network, C<helper> for other threads.  A
thread with a name of its own has that instead.

=item thread_role($roles, $thread)

That of one thread; one that has begun later is a helper.

=cut

sub watch_clients
{
	my ($world, $watch) = @_;
	my %seen;
	foreach my $who (grep { $world->peer($_) } qw(raw zklock))
	{
		$seen{$who} =
		  eval { $watch->($world, $who) } // { failure => $@ =~ s/\s+$//r };
		$world->peer($who)->command('close');
	}
	return \%seen;
}

sub session_process
{
	my ($world, $who) = @_;
	my $peer = $world->peer($who);
	$peer->command('close');
	$peer->command('open 1');
	$peer->command("cycle /bench/$who/watched 100");
	my ($program, $postmaster) = $world->client($who);
	return $program unless $postmaster;
	my @backends;
	wait_for(
		sub {
			@backends = split /\n/,
			  $world->node->safe_psql('postgres',
				q{SELECT pid FROM pg_stat_activity
				WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()});
			return @backends == 1;
		},
		'all other backends to end');
	return $backends[0];
}

sub thread_roles
{
	my ($pid) = @_;
	my $own_name = slurp_file("/proc/$pid/comm");
	my %roles = ($pid => 'caller');
	foreach my $thread (grep { $_ != $pid } threads($pid))
	{
		my $name = slurp_file("/proc/$pid/task/$thread/comm");
		chomp(
			  $roles{$thread} = $name ne $own_name ? $name
			: waits_in($pid, $thread) =~ /poll/ ? 'io'
			: 'helper');
	}
	return %roles;
}

sub thread_role
{
	my ($roles, $thread) = @_;
	return $roles->{$thread} // 'helper';
}

sub threads
{
	my ($pid) = @_;
	return map { m{(\d+)$} } glob "/proc/$pid/task/*";
}

# The function of the kernel in which a thread waits, once it does; 0 if the kernel keeps
# that to itself.
sub waits_in
{
	my ($pid, $thread) = @_;
	my $function = '0';
	for (my $try = 0; $try < 100 && $function eq '0'; $try++)
	{
		sleep 0.01 if $try;
		$function = slurp_file("/proc/$pid/task/$thread/wchan");
	}
	return $function;
}

=pod

=back

=head1 METHODS

=over

=item BenchWatch->new(@command)

Start it.  It is to end by SIGINT, or with the process that it watches.

=item $watch->await($condition)

Wait until it has begun.  Dies with what it has said if it ends instead.

=item $watch->stop()

End it, and wait for that.

=back

=cut

sub new
{
	my ($class, @command) = @_;
	my $log = "$PostgreSQL::Test::Utils::tmp_check/log/$command[0].log";
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>', $log;
		open STDERR, '>&', \*STDOUT;
		{ no warnings; exec @command; }
		print "$command[0] is not installed\n";
		STDOUT->flush;
		POSIX::_exit(1);
	}
	return bless { pid => $pid, log => $log }, $class;
}

sub await
{
	my ($self, $condition) = @_;
	my $deadline = time + $patience;
	until ($condition->())
	{
		if ($self->has_ended || time > $deadline)
		{
			my ($why) =
			  grep { /\S/ && !/^Error:$/ } split /\n/, slurp_file($self->{log});
			$self->stop;
			die +($why // 'it does not begin') . "\n";
		}
		sleep 0.01;
	}
	return;
}

sub has_ended
{
	my ($self) = @_;
	$self->{ended} ||= waitpid($self->{pid}, POSIX::WNOHANG) != 0;
	return $self->{ended};
}

sub stop
{
	my ($self) = @_;
	my $deadline = time + $patience;
	until ($self->has_ended)
	{
		kill time > $deadline ? 'KILL' : 'INT', $self->{pid};
		sleep 0.1;
	}
	return;
}

1;
