
=pod

=head1 NAME

ChaosWorld - everything that a chaos run happens to, and what is left of it

=head1 SYNOPSIS

  my $world = ChaosWorld->new(clusters => [qw(alpha beta)], timeout => 4);
  my $run = $world->begin(seconds => 30, seed => 's');
  ... faults ...
  $run->finish;

=head1 DESCRIPTION

An ensemble of three servers that reach each other through proxies, a proxy
before each of them for the clients, and PostgreSQL clusters that reach the
ensemble through these.  Each cluster has two tables of counters by lock path,
C<plain> and C<fenced>, and one of the sections that were committed.

=cut

package ChaosWorld;

use strict;
use warnings;

use Carp;
use ChaosRandom qw(now);
use File::Path qw(make_path);
use JSON::PP;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZkEnsemble;
use ZkTest;

# What workers do, unless a run says otherwise; see "begin".
my %defaults = (
	workers => 16,
	guards => [qw(session quorum)],
	counters => [qw(plain fenced)],
	fence => 1,
	work => 0.005,
	pause => 0.02,
	long_chance => 0.004,
	several_chance => 0.2,
	mix => {
		xact => 60,
		xact_shared => 12,
		session => 12,
		session_shared => 3,
		savepoint => 5,
		abandon => 6,
		drop => 2
	});

# So many so far: each has a folder of its own.
my $runs = 0;

=pod

=head1 METHODS

=over

=item ChaosWorld->new(%params)

C<clusters>: their names.  C<timeout>: of the ZooKeeper sessions, in seconds.
C<paths>: how many locks there are.  C<peers>: whether servers can be parted
from each other.  C<install_path>: another PostgreSQL with another zklock.
C<ensemble>: one that is there already.

=cut

sub new
{
	my ($class, %params) = @_;
	my $self = bless {
		timeout => $params{timeout} // 4,
		paths => [ map { "/chaos/$_" } 1 .. $params{paths} // 12 ]
	}, $class;

	$self->{ensemble} = $params{ensemble} // make_ensemble(%params);
	$self->{proxies} =
	  { map { $_ => $self->{ensemble}->proxy($_) } $self->{ensemble}->ids };
	$self->{clusters} =
	  { map { $_ => $self->make_cluster($_, %params) }
		  @{ $params{clusters} // [qw(alpha beta)] } };
	return $self;
}

# The session timeout is to be more than two ticks, as the lease supposes.  Lock
# nodes are to stay, so that they need not be made anew all the time.
sub make_ensemble
{
	my (%params) = @_;
	return ZkEnsemble->new(
		'chaos',
		servers => 3,
		peer_proxies => $params{peers} // 1,
		tick_time => $params{tick_time} // 500,
		minSessionTimeout => 2 * ($params{tick_time} // 500),
		maxSessionTimeout => 30000,
		'java.znode.container.checkIntervalMs' => 3_600_000);
}

# A cluster with the tables that the workers share.
sub make_cluster
{
	my ($self, $name, %params) = @_;
	my $servers = join ',',
	  map { $self->{proxies}{$_}->address } sort keys %{ $self->{proxies} };
	my $node = zk_cluster(
		$name, $servers,
		install_path => $params{install_path},
		settings => {
			'zklock.session_timeout' => "$self->{timeout}s",
			'zklock.connect_timeout' => '5s',
			session_preload_libraries => 'zklock',
			restart_after_crash => 'on',
			log_statement => 'none',
			log_min_error_statement => 'panic'
		});
	$node->safe_psql(
		'postgres', q{
		CREATE TABLE plain (path text PRIMARY KEY, n bigint)
			WITH (fillfactor = 20);
		CREATE TABLE fenced (LIKE plain INCLUDING ALL) WITH (fillfactor = 20);
		CREATE TABLE sections (id text PRIMARY KEY, path text, counter text,
			seen text, token bigint)});
	return $node;
}

sub ensemble { return $_[0]->{ensemble}; }
sub proxies { return $_[0]->{proxies}; }
sub timeout { return $_[0]->{timeout}; }

=pod

=item $world->begin(%params)

Start workers; returns a ChaosWorld::Run.  C<seconds>, C<seed>; C<workers>: how
many; C<guards>: the values of C<zklock.commit_guard>; C<counters>: which are to
be used; C<fence>: whether fenced ones are; C<mix>: how often each kind of
section comes; C<several_chance>: how often it takes one more lock along, all of
them in one call; C<work>: seconds of work in a section, where there is any;
C<long_chance>: how often it is long; C<pause>: seconds after what did not
succeed.

=cut

sub begin
{
	my ($self, %params) = @_;
	my $folder = "$PostgreSQL::Test::Utils::tmp_check/facts-" . ++$runs;
	make_path($folder);
	$self->reset_counters;
	my $run = bless {
		world => $self,
		folder => $folder,
		workers => [],
		log_marks => { map { $_ => -s $_ // 0 } $self->logs }
	  },
	  'ChaosWorld::Run';
	$run->{params} = {
		%defaults, %params,
		timeout => $self->{timeout},
		paths => $self->{paths},
		clusters =>
		  { map { $_ => $self->data_source($_) } keys %{ $self->{clusters} } },
		begin => now(),
		end => now() + $params{seconds}
	};
	$run->write('params.json',
		JSON::PP->new->canonical->pretty->encode($run->{params}));
	$run->start_worker($_) foreach 1 .. $run->{params}{workers};
	return $run;
}

# A cluster as DBD::Pg takes it.  Who makes clusters is their superuser.
sub data_source
{
	my ($self, $cluster) = @_;
	my $node = $self->{clusters}{$cluster};
	return join ';', 'dbname=postgres', 'user=' . getpwuid($>),
	  'host=' . $node->host, 'port=' . $node->port;
}

sub reset_counters
{
	my ($self) = @_;
	my $rows = join ',', map { "('$_', 0)" } @{ $self->{paths} };
	foreach my $node (values %{ $self->{clusters} })
	{
		$node->safe_psql(
			'postgres', "TRUNCATE plain, fenced, sections;
			INSERT INTO plain VALUES $rows; INSERT INTO fenced VALUES $rows");
	}
	return;
}

# The clusters' server logs.
sub logs
{
	my ($self) = @_;
	return map { $_->logfile } values %{ $self->{clusters} };
}

=pod

=item $world->contenders(), $world->watches()

How many contenders there are, and watches at all servers together; undef if
that cannot be told now.

=back

=cut

sub contenders
{
	my ($self) = @_;
	my $leader = $self->{ensemble}->leader or return;
	return
	  scalar(() =
		  $self->{ensemble}->four_letter($leader, 'dump') =~ m{^\s+/zklock/}mg);
}

sub watches
{
	my ($self) = @_;
	my $count = 0;
	foreach my $id ($self->{ensemble}->ids)
	{
		$count += $self->{ensemble}->mntr($id)->{watch_count} // return;
	}
	return $count;
}

=pod

=head1 A RUN

=over

=cut

package ChaosWorld::Run;

use strict;
use warnings;

use ChaosRandom qw(now);
use File::Basename;
use File::Spec;
use Test::More;
use Time::HiRes qw(sleep);
use ZkTest;

# What a server log says of processes that did not end as they should, and of the
# client library.
my $bad_end =
  qr/was[ ]terminated[ ]by[ ]signal | exited[ ]with[ ]exit[ ]code[ ][^012]
	| PANIC | TRAP: | failed[ ]a[ ]check/x;

=pod

=item $run->folder()

Where the facts are collected.

=item $run->remaining()

For how many seconds the workers go on.

=cut

sub folder { return $_[0]->{folder}; }
sub params { return $_[0]->{params}; }
sub world { return $_[0]->{world}; }

sub remaining
{
	my ($self) = @_;
	return $self->{params}{end} - now();
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
		next unless $text =~ /^postgres: $cluster: /;
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

=pod

=item $run->sample_memory()

Note how much memory each backend has for itself.

=cut

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

Wait until the workers are idle and see what is left; then let them end, and
see again; collect what the tables and server logs say.  The faults must be
over.

=back

=cut

sub finish
{
	my ($self) = @_;
	my $all = @{ $self->{workers} };
	my $idle = $self->await_idle(150);
	$self->fact('idle', $idle, $all);
	$self->observe_rest('idle') if $idle == $all;
	$self->end_workers;
	$self->observe_rest('ended');
	$self->fact('backends', $self->count_backends);
	$self->collect_tables($_) foreach sort keys %{ $self->{world}{clusters} };
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

# Returns how many workers are idle, or have died, when all are or the time is
# over.
sub await_idle
{
	my ($self, $seconds) = @_;
	my $deadline = now() + $seconds;
	my $idle;
	do
	{
		sleep 0.05;
		$idle = () = glob "$self->{folder}/worker-*.idle";
	} until ($idle == @{ $self->{workers} } || now() > $deadline);
	return $idle;
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
		$count += $_->safe_psql('postgres',
				'SELECT count(*) - 1 FROM pg_stat_activity'
			  . " WHERE backend_type = 'client backend'")
		  foreach values %{ $self->{world}{clusters} };
	} until ($count == 0 || now() > $deadline);
	return $count;
}

sub end_workers
{
	my ($self) = @_;
	foreach my $number (1 .. @{ $self->{workers} })
	{
		my $worker = $self->{workers}[ $number - 1 ];
		# Who hangs would not notice the end of its input.
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
	my $node = $self->{world}{clusters}{$cluster};
	foreach my $query (
		[ 'sections', 'SELECT id, path, counter, seen, token FROM sections' ],
		[
			'counters',
			"SELECT 'plain', path, n FROM plain"
			  . " UNION ALL SELECT 'fenced', path, n FROM fenced"
		])
	{
		$self->write("$cluster.$query->[0].tsv",
			$node->safe_psql('postgres', "COPY ($query->[1]) TO STDOUT"), "\n");
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
