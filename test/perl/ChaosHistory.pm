
=pod

=head1 NAME

ChaosHistory - read the files of a chaos run

=head1 SYNOPSIS

  my $facts = ChaosHistory::read_facts($folder);
  my $report = ChaosChecker->new($facts)->check;

=head1 DESCRIPTION

C<read_facts> returns a hash:

=over

=item params

What the run was to be, as ChaosWorld wrote it.

=item sections

A hash by id.  Each is a hash of C<id>, C<worker>, C<cluster>, C<path>,
C<mode>, C<counter>, C<guard>, C<pid>, C<session>, C<token>, C<seen>, C<again>,
C<hold>, C<invoked>, C<acquired>, C<steady>, C<kind> and C<time>, as ChaosWorker wrote
it, and of C<commit>, the outcome of COMMIT or COMMIT PREPARED, C<commit_sent> and
C<commit_returned>, if there was one; of C<prepare>, C<rollback_prepared> and
C<resolve>, the outcomes of these statements; and of C<refused>, when the first
statement was because a lock was lost.

=item rows

By cluster and id: the sections that were committed, with C<path>, C<counter>,
C<seen> and C<token>.

=item guests

By cluster and id: the sections of another cluster that have left a row there.

=item counters

By cluster, C<plain> or C<fenced>, and path: the value at the end.

=item calls

C<count>; C<outcomes>, how many there were of each; C<slow>, those that took
longer than they were to by some seconds.

=item faults

As ChaosNemesis wrote them: C<begin>, C<end>, C<kind>, C<scope>, C<cluster>,
C<pid>, C<session>, C<applied>, C<text>.

=item memory

By backend: a list of time and kB.

=item end

What ChaosWorld observed at the end, lists of fields by the first one.

=item crashes, accidents

Lines of server logs; lines of workers that must not occur.

=back

=cut

package ChaosHistory;

use strict;
use warnings;

use JSON::PP;

# Calls that exceed their limit by so much are kept.
my $slow = 5;

my @section_fields = qw(id cluster path mode counter guard pid session token
  seen again hold invoked acquired steady kind time);
my @fault_fields = qw(begin end kind scope cluster pid session applied text);

=pod

=head1 FUNCTIONS

=over

=item read_facts($folder)

=back

=cut

sub read_facts
{
	my ($folder) = @_;
	my $facts = {
		params => decode_json(slurp("$folder/params.json")),
		sections => {},
		rows => {},
		guests => {},
		counters => {},
		calls => { count => 0, outcomes => {}, slow => [] },
		faults => [],
		memory => {},
		end => {},
		crashes => [ lines("$folder/crashes.txt") ],
		accidents => []
	};
	foreach my $worker (1 .. $facts->{params}{workers})
	{
		read_worker($facts, "$folder/worker-$worker.tsv", $worker);
	}
	foreach my $cluster (keys %{ $facts->{params}{clusters} })
	{
		read_tables($facts, $folder, $cluster);
	}
	read_rest($facts, $folder);
	return $facts;
}

sub slurp
{
	my ($name) = @_;
	open my $file, '<', $name or die "$name: $!";
	local $/ = undef;
	return scalar <$file>;
}

# The lines of a file, none if there is none.
sub lines
{
	my ($name) = @_;
	open my $file, '<', $name or return;
	chomp(my @lines = <$file>);
	return @lines;
}

# One worker's history.
sub read_worker
{
	my ($facts, $name, $worker) = @_;
	open my $file, '<', $name or die "$name: $!";
	while (<$file>)
	{
		chomp;
		my ($type, @fields) = split /\t/, $_, -1;
		if ($type eq 'C')
		{
			add_call($facts, $worker, @fields);
		}
		elsif ($type eq 'S')
		{
			my $section = $facts->{sections}{ $fields[0] } //= {};
			@{$section}{@section_fields} = @fields;
			$section->{worker} = $worker;
		}
		elsif ($type eq 'B')
		{
			$facts->{last_backend}{$worker} = [@fields];
		}
		elsif ($type eq 'X')
		{
			push @{ $facts->{accidents} }, "worker $worker: $fields[1]";
		}
	}
	return;
}

# A statement: its part in its section, and in all statements together.
sub add_call
{
	my ($facts, $worker, $begin, $end, $name, $id, $outcome, $limit) = @_;
	my $calls = $facts->{calls};
	$calls->{count}++;
	$calls->{outcomes}{$name}{$outcome}++;
	if ($name eq 'commit' || $name eq 'commit_prepared')
	{
		@{ $facts->{sections}{$id} }{qw(commit commit_sent commit_returned)} =
		  ($outcome, $begin, $end);
	}
	if (my $section = $facts->{sections}{$id})
	{
		$section->{$name} = $outcome
		  if $name =~ /^(prepare|rollback_prepared|resolve)$/;
		$section->{refused} //= $end if $outcome eq 'ZKL01';
	}
	return if $end - $begin <= $limit + $slow && $outcome ne 'hang';
	my (undef, $cluster, $pid) = @{ $facts->{last_backend}{$worker} // [] };
	push @{ $calls->{slow} },
	  {
		worker => $worker,
		cluster => $cluster // '',
		pid => $pid // 0,
		begin => $begin,
		end => $end,
		name => $name,
		id => $id,
		outcome => $outcome,
		limit => $limit
	  };
	return;
}

# What the tables of a cluster say.
sub read_tables
{
	my ($facts, $folder, $cluster) = @_;
	my $rows = $facts->{rows}{$cluster} = {};
	foreach (lines("$folder/$cluster.sections.tsv"))
	{
		my ($id, @fields) = split /\t/;
		@{ $rows->{$id} }{qw(path counter seen token)} = @fields if defined $id;
	}
	foreach (lines("$folder/$cluster.counters.tsv"))
	{
		my ($counter, $path, $n) = split /\t/;
		$facts->{counters}{$cluster}{$counter}{$path} = $n;
	}
	$facts->{guests}{$cluster} =
	  { map { $_ => 1 } grep { $_ ne '' } lines("$folder/$cluster.guests.tsv") };
	return;
}

# Faults, memory, and the observations at the end.
sub read_rest
{
	my ($facts, $folder) = @_;
	foreach (lines("$folder/faults.tsv"))
	{
		my %fault;
		@fault{@fault_fields} = split /\t/, $_, -1;
		push @{ $facts->{faults} }, \%fault;
	}
	foreach (lines("$folder/memory.tsv"))
	{
		my ($time, $cluster, $pid, $memory) = split /\t/;
		push @{ $facts->{memory}{"$cluster $pid"} }, [ $time, $memory ];
	}
	foreach (lines("$folder/end.tsv"))
	{
		my ($name, @fields) = split /\t/;
		push @{ $facts->{end}{$name} }, \@fields;
	}
	return;
}

1;
