
=pod

=head1 NAME

ChaosWorld - everything that a chaos run happens to

=head1 SYNOPSIS

  my $world = ChaosWorld->new(clusters => [qw(alpha beta)], timeout => 4);
  my $run = $world->begin(seconds => 30, seed => 's');
  ... faults ...
  $run->finish;

=head1 DESCRIPTION

An ensemble of three servers that reach each other through proxies, a proxy
before each of them for the clients, and PostgreSQL clusters that reach the
ensemble through these: see ChaosCluster.

=cut

package ChaosWorld;

use strict;
use warnings;

use ChaosCluster;
use ChaosRun;
use File::Path qw(make_path);
use JSON::PP;
use PostgreSQL::Test::Utils ();
use ZkEnsemble;

# What workers do, unless a run says otherwise; see "begin".
my %defaults = (
	workers => 40,
	keepers => 8,
	guards => [qw(lease quorum)],
	counters => [qw(plain fenced)],
	fence => 1,
	work => 0.005,
	pause => 0.02,
	long_chance => 0.002,
	several_chance => 0.2,
	jobs => 3,
	mix => {
		xact => 50,
		xact_shared => 10,
		session => 34,
		session_shared => 5,
		savepoint => 4,
		abandon => 5,
		drop => 2,
		prepared => 6,
		foreign => 6,
		job => 10
	},
	kept_mix => {
		xact => 40,
		xact_shared => 10,
		session => 20,
		prepared => 20,
		foreign => 15
	});

# So many so far: each has a folder of its own.
my $runs = 0;

=pod

=head1 METHODS

=over

=item ChaosWorld->new(%params)

C<clusters>: their names.  C<standby>: which of them has one, if any.  C<timeout>: of
the ZooKeeper sessions, in seconds.  C<paths>: how many locks there are.  C<peers>:
whether servers can be parted from each other.  C<install_path>: another PostgreSQL
with another zklock.  C<ensemble>: one that is there already.

=cut

sub new
{
	my ($class, %params) = @_;
	my $self = bless {
		timeout => $params{timeout} // 4,
		paths => [ map { "/chaos/$_" } 1 .. $params{paths} // 30 ],
		kept_paths => [ map { "/chaos/kept/$_" } 1 .. 7 ]
	}, $class;

	$self->{ensemble} = $params{ensemble} // make_ensemble(%params);
	$self->{proxies} =
	  { map { $_ => $self->{ensemble}->proxy($_) } $self->{ensemble}->ids };
	$self->make_clusters(%params);
	return $self;
}

# Two of them write into each other's tables.
sub make_clusters
{
	my ($self, %params) = @_;
	my $servers = join ',',
	  map { $self->{proxies}{$_}->address } sort keys %{ $self->{proxies} };
	my $standby = $params{standby} // 'alpha';
	my @clusters = map {
		ChaosCluster->new(
			$_, $servers,
			timeout => $self->{timeout},
			standby => $_ eq $standby,
			install_path => $params{install_path})
	} @{ $params{clusters} // [qw(alpha beta)] };
	$self->{clusters} = { map { $_->name => $_ } @clusters };
	if (@clusters == 2)
	{
		$clusters[0]->link($clusters[1]);
		$clusters[1]->link($clusters[0]);
	}
	return;
}

# The session timeout is to be more than two ticks, as the lease supposes.  Lock
# nodes must stay, so that they need not be created again all the time.
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

sub ensemble { return $_[0]->{ensemble}; }
sub proxies { return $_[0]->{proxies}; }
sub clusters { return $_[0]->{clusters}; }
sub timeout { return $_[0]->{timeout}; }

=pod

=item $world->begin(%params)

Start workers; returns a ChaosRun.  C<seconds>, C<seed>; C<workers>: how many;
C<keepers>: how many of them hold their locks for long; C<guards>: the values of
C<zklock.commit_guard>; C<counters>: which are to be used; C<fence>: whether fenced
ones are; C<mix>: how often each kind of section comes, and C<kept_mix> of those that
are held for long; C<several_chance>: how often one takes one more lock along, all of
them in one call; C<work>: seconds of work in a section, where there is any;
C<long_chance>: how often others hold it for long; C<pause>: seconds after a failure;
C<jobs>: how many each cluster has.

=cut

sub begin
{
	my ($self, %params) = @_;
	my $folder = "$PostgreSQL::Test::Utils::tmp_check/facts-" . ++$runs;
	make_path($folder);
	my @paths = (@{ $self->{paths} }, @{ $self->{kept_paths} });
	$_->reset_counters(@paths) foreach values %{ $self->{clusters} };
	%params = (
		%defaults, %params,
		timeout => $self->{timeout},
		paths => $self->{paths},
		kept_paths => $self->{kept_paths},
		clusters => {
			map { $_ => $self->{clusters}{$_}->data_source }
			  keys %{ $self->{clusters} }
		});
	$params{jobs} = $self->jobs(%params);
	return ChaosRun->new($self, $folder, \%params);
}

# The jobs of each cluster, and when they are due: every other second of the run.
sub jobs
{
	my ($self, %params) = @_;
	my %paths;
	foreach my $cluster (keys %{ $self->{clusters} })
	{
		$paths{$cluster} =
		  [ map { "/chaos/jobs/$cluster/$_" } 1 .. $params{jobs} ];
	}
	return {
		paths => \%paths,
		step => 2,
		last => int($params{seconds} / 2) - 1
	};
}

# The clusters' server logs.
sub logs
{
	my ($self) = @_;
	return map { $_->logs } values %{ $self->{clusters} };
}

=pod

=item $world->contenders(), $world->watches()

How many contenders there are, and watches at all servers together; undef if
that is unknown now.

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

1;
