
=pod

=head1 NAME

ChaosRun - a chaos run in progress: its workers, and its remains

=head1 SYNOPSIS

  my $run = $world->begin(seconds => 30, seed => 's');
  sleep 1 while $run->remaining > 0;
  $run->finish;

=cut

package ChaosRun;

use strict;
use warnings;

use ChaosRandom qw(now);
use File::Basename;
use File::Spec;
use JSON::PP;
use POSIX ();
use Time::HiRes qw(sleep);

# What a server log says of processes that did not end as they should, and of the
# client library.
my $bad_end =
  qr/was[ ]terminated[ ]by[ ]signal | exited[ ]with[ ]exit[ ]code[ ][^012]
	| PANIC | TRAP: | failed[ ]a[ ]check/x;

=pod

=head1 METHODS

=over

=item ChaosRun->new($world, $folder, $params)

What happens to the world, with these parameters; starts the workers, and begins when
they are connected.  What comes of it is collected in the folder.

=cut

sub new
{
	my ($class, $world, $folder, $params) = @_;
	my $self = bless {
		world => $world,
		folder => $folder,
		params => $params,
		workers => [],
		log_marks => { map { $_ => -s $_ // 0 } $world->logs }
	  },
	  $class;
	$self->write_params;
	$self->start_worker($_) foreach 1 .. $params->{workers};
	$self->begin;
	return $self;
}

# Perl may take a long time to start for all the workers.  That time is none of the
# run's: its claims need work, and faults during that.
sub begin
{
	my ($self) = @_;
	my $params = $self->{params};
	my $connected = $self->await_files('backend', 300);
	die "only $connected workers are connected"
	  if $connected < @{ $self->{workers} };
	$params->{begin} = now();
	$params->{end} = $params->{begin} + $params->{seconds};
	$params->{jobs}{first} = time;
	$self->write_params;
	$self->tell_workers('begin');
	$self->start_sampler;
	return;
}

# A line for each worker: the first begins the run, the next says that the faults are over.
# A worker that has died is missed at the end.
sub tell_workers
{
	my ($self, $line) = @_;
	local $SIG{PIPE} = 'IGNORE';
	syswrite $_->{control}, "$line\n" foreach @{ $self->{workers} };
	return;
}

# The parameters, in place of what the file had before.
sub write_params
{
	my ($self) = @_;
	$self->write('params.new',
		JSON::PP->new->canonical->pretty->encode($self->{params}));
	rename "$self->{folder}/params.new", "$self->{folder}/params.json"
	  or die "params.json: $!";
	return;
}

=pod

=item $run->folder()

Where the facts are collected.

=item $run->remaining()

The number of seconds for which the workers run.

=cut

sub folder { return $_[0]->{folder}; }
sub params { return $_[0]->{params}; }
sub world { return $_[0]->{world}; }

sub remaining
{
	my ($self) = @_;
	return $self->{params}{end} - now();
}

=pod

=item $run->is_keeper($worker)

Does it hold its locks for long?

=cut

sub is_keeper
{
	my ($self, $worker) = @_;
	return $worker > $self->{params}{workers} - $self->{params}{keepers};
}

# Put a file into the folder, or lines to its end.
sub write
{
	my ($self, $name, @lines) = @_;
	open my $file, '>>', "$self->{folder}/$name" or die "$name: $!";
	print $file @lines;
	close $file;
	return;
}

# A worker, in a process of its own.
sub start_worker
{
	my ($self, $number) = @_;
	my @command = (
		$^X, (map { "-I$_" } @INC),
		'-MChaosWorker', '-e',
		'ChaosWorker::main(@ARGV)', File::Spec->rel2abs($self->{folder}),
		$number);
	my $pid = open my $control, '|-', @command or die "perl: $!";
	push @{ $self->{workers} }, { pid => $pid, control => $control };
	return;
}

=pod

=item $run->backends()

What the workers are connected to: hashes of C<worker>, C<cluster>, C<pid>, and
C<title>, the processes' title.  Those that have ended are left out.

=cut

sub backends
{
	my ($self) = @_;
	my @backends;
	foreach my $worker (1 .. @{ $self->{workers} })
	{
		open my $file, '<', "$self->{folder}/worker-$worker.backend" or next;
		my ($cluster, $pid) = split ' ', <$file> // '';
		open my $title, '<', "/proc/$pid/cmdline" or next;
		my $text = <$title> // '';
		# The number may be another process's by now.
		next unless $text =~ /^postgres: ${cluster}(?:_b)?: /;
		push @backends,
		  {
			worker => $worker,
			cluster => $cluster,
			pid => $pid,
			title => $text =~ s/[\0 ]+$//r
		  };
	}
	return @backends;
}

# Each second, in a process of its own, as a fault may take long to bring about.
sub start_sampler
{
	my ($self) = @_;
	my $pid = fork // die "fork: $!";
	if ($pid != 0)
	{
		$self->{sampler} = $pid;
		return;
	}
	while ($self->remaining > 0)
	{
		$self->sample_memory;
		sleep 1;
	}
	# END blocks would stop the servers.
	return POSIX::_exit(0);
}

# Note how much memory each backend has for itself.
sub sample_memory
{
	my ($self) = @_;
	my $now = now();
	foreach my $backend ($self->backends)
	{
		open my $status, '<', "/proc/$backend->{pid}/status" or next;
		my ($memory) = join('', <$status>) =~ /^RssAnon:\s*(\d+)/m or next;
		$self->write('memory.tsv',
			"$now\t$backend->{cluster}\t$backend->{pid}\t$memory\n");
	}
	return;
}

=pod

=item $run->finish()

Tell the workers that the faults are over, as they must be.  Wait until they are idle,
and look for remains; then end the workers, and look again; collect the tables and server
logs.

=back

=cut

sub finish
{
	my ($self) = @_;
	my $all = @{ $self->{workers} };
	$self->tell_workers('the faults are over');
	my $idle = $self->await_files('idle', 300);
	waitpid $self->{sampler}, 0;
	$self->fact('idle', $idle, $all);
	$self->observe_rest('idle') if $idle == $all;
	$self->end_workers;
	$self->observe_rest('ended');
	$self->fact('backends', $self->count_backends);
	$self->collect_tables($_) foreach sort keys %{ $self->{world}->clusters };
	$self->collect_log($_) foreach $self->{world}->logs;
	return;
}

# An observation of the end.
sub fact
{
	my ($self, @fields) = @_;
	$self->write('end.tsv', join("\t", @fields), "\n");
	return;
}

# Returns how many workers have made a file of that kind, when all have or the time is
# over.
sub await_files
{
	my ($self, $kind, $seconds) = @_;
	my $deadline = now() + $seconds;
	my $count;
	do
	{
		sleep 0.05;
		$count = () = glob "$self->{folder}/worker-*.$kind";
	} until ($count == @{ $self->{workers} } || now() > $deadline);
	return $count;
}

# What there is of contenders and watches, until there is none or twice the
# session timeout is over.
sub observe_rest
{
	my ($self, $when) = @_;
	my $begin = now();
	my ($contenders, $watches);
	do
	{
		sleep 0.1;
		$contenders = $self->{world}->contenders;
		$watches = $self->{world}->watches;
	  } until (defined $contenders
		  && defined $watches
		  && $contenders + $watches == 0)
	  || now() > $begin + 2 * $self->{params}{timeout};
	$self->fact(
		'rest', $when,
		sprintf('%.1f', now() - $begin),
		$contenders // 'unknown',
		$watches // 'unknown');
	return;
}

# Clients of the clusters that are still there, when none is or a while is over.
sub count_backends
{
	my ($self) = @_;
	my $deadline = now() + 2 * $self->{params}{timeout};
	my $count;
	do
	{
		$count = 0;
		$count += $_->psql('SELECT count(*) - 1 FROM pg_stat_activity'
			  . " WHERE backend_type = 'client backend'")
		  foreach values %{ $self->{world}->clusters };
	} until ($count == 0 || now() > $deadline);
	return $count;
}

sub end_workers
{
	my ($self) = @_;
	foreach my $number (1 .. @{ $self->{workers} })
	{
		my $worker = $self->{workers}[ $number - 1 ];
		# A hanging worker would not notice the end of its input.
		kill('KILL', $worker->{pid})
		  unless -e "$self->{folder}/worker-$number.idle";
		close $worker->{control};
	}
	return;
}

# What was committed.
sub collect_tables
{
	my ($self, $cluster) = @_;
	foreach my $query (
		[ 'sections', 'SELECT id, path, counter, seen, token FROM sections' ],
		[
			'counters',
			"SELECT 'plain', path, n FROM plain"
			  . " UNION ALL SELECT 'fenced', path, n FROM fenced"
		],
		[ 'guests', 'SELECT id FROM guests' ])
	{
		$self->write("$cluster.$query->[0].tsv",
			$self->{world}->clusters->{$cluster}
			  ->psql("COPY ($query->[1]) TO STDOUT"),
			"\n");
	}
	return;
}

# What the server log says about processes that ended badly, since the run
# began.
sub collect_log
{
	my ($self, $log) = @_;
	open my $file, '<', $log or die "$log: $!";
	seek $file, $self->{log_marks}{$log}, 0;
	my ($count, @bad) = (0);
	while (<$file>)
	{
		$count++;
		push @bad, $_ if /$bad_end/;
	}
	$self->fact('log', basename($log), $count);
	$self->write('crashes.txt', @bad);
	return;
}

1;
