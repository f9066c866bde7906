
=pod

=head1 NAME

DocSession - psql, as a reader of the documentation uses it

=head1 SYNOPSIS

  my $session = DocSession->new($node, 'tutorial');
  $session->send("SELECT zk_lock_acquire('/a')");
  print $session->output;

=head1 DESCRIPTION

Unlike ZkPsql, which is made to ask for values, this one keeps the output as it is
shown to people, errors and notices in between.

=cut

package DocSession;

use strict;
use warnings;

use DocPage;
use IPC::Run;
use Test::More;
use ZkTest;

=pod

=head1 METHODS

=over

=item DocSession->new($node, $database)

=item $session->pid()

Of its backend.

=cut

sub new
{
	my ($class, $node, $database) = @_;
	my $self = bless {
		node => $node,
		database => $database,
		in => '',
		out => '',
		blocks => 0
	}, $class;

	local $ENV{PGCLIENTENCODING} = 'UTF8';
	local $ENV{PGAPPNAME};
	delete $ENV{PGAPPNAME};
	$self->{run} = IPC::Run::start(
		[ 'psql', '-X', '-q', '-d', $node->connstr($database) ],
		'<', \$self->{in}, '>', \$self->{out}, '2>&1');
	$self->send('\pset footer off');
	$self->send('SELECT pg_backend_pid() AS pid \gset');
	$self->send('\echo :pid');
	($self->{pid}) = $self->output =~ /^(\d+)$/m;
	return $self;
}

sub pid { return $_[0]->{pid}; }

=pod

=item $session->send($text, $failing)

Have it executed, do not wait for that.  It ends with the first error, and psql with
it, unless there may be errors.

=item $session->waits()

Returns true if the backend waits for a lock, and knows the holder.

=cut

sub send
{
	my ($self, $text, $failing) = @_;
	my $mark = 'end of block ' . ++$self->{blocks};
	my $stop = $failing ? 0 : 1;

	chomp $text;
	$self->{mark} = qr/^\Q$mark\E\n/m;
	$self->{in} .= "\\set ON_ERROR_STOP $stop\n$text\n";
	$self->{in} .= "\\echo '$mark'\n" unless $text =~ /^\\q$/m;
	$self->{run}->pump_nb;
	return;
}

sub waits
{
	my ($self) = @_;
	$self->{run}->pump_nb unless $self->ended;
	return $self->{node}->safe_psql($self->{database},
		'SELECT count(*) FROM zk_lock_waits'
		  . " WHERE pid = $self->{pid} AND holder_owner IS NOT NULL") == 1;
}

=pod

=item $session->output()

Wait until all statements were executed, or psql has ended, and return the new
output.

=item $session->ended()

Has psql ended?

=item $session->quit()

=item DocSession->run_page($page, $node, %replaced)

Have the blocks of a DocPage executed that are to be run by this test, in database
C<postgres>, with the places of this machine instead of those on the page; see that
they do what the page says.

=back

=cut

sub ended
{
	my ($self) = @_;
	return !$self->{run}->pumpable;
}

sub output
{
	my ($self) = @_;
	wait_for(
		sub {
			$self->{run}->pump_nb if $self->{run}->pumpable;
			return $self->ended || $self->{out} =~ $self->{mark};
		},
		'the end of a block',
		120);
	(my $output = $self->{out}) =~ s/$self->{mark}//;
	$self->{out} = '';
	return $output;
}

sub quit
{
	my ($self) = @_;
	$self->{in} .= "\\q\n" unless $self->ended;
	$self->{run}->finish;
	return;
}

sub run_page
{
	my ($class, $page, $node, %replaced) = @_;
	my @blocks = grep { ($_->{by} // '') eq $0 } $page->blocks;
	my (%session, %used);
	foreach my $block (@blocks)
	{
		my ($server, $name) = DocPage::place($block);
		my $where = $page->file . ":$block->{line}";
		my @there = grep { index($block->{text}, $_) >= 0 } keys %replaced;
		@used{@there} = ();
		$session{$name} //= $class->new($node, 'postgres');
		$session{$name}
		  ->send(DocPage::localize($block->{text}, map { $_ => $replaced{$_} } @there));
		my $output = $session{$name}->output;
		unlike($output, qr/^(ERROR|FATAL|WARNING)/m, "$where: nothing fails");
		ok(DocPage::same($output, $block->{expected}{text}), "$where: as it is shown")
		  or diag($output)
		  if $block->{expected};
	}
	cmp_ok(scalar @blocks, '>', 0, $page->file . ' has SQL for this test');
	is_deeply([ grep { !exists $used{$_} } sort keys %replaced ],
		[], $page->file . ' has all that was replaced');
	$_->quit foreach values %session;
	return;
}

1;
