
=pod

=head1 NAME

InteropProgram - clients of another program, driven line by line

=head1 SYNOPSIS

  my $curator = InteropProgram->new('curator', $ensemble, $node);
  my ($one, $other) = map { $curator->session } 1 .. 2;
  $one->ask('acquire mutex /zklock/a');
  $other->send('acquire mutex /zklock/a');
  ok(!$other->answered);
  $one->ask('release mutex /zklock/a');
  is($other->answer, 't');

=head1 DESCRIPTION

A process of test/interop, which lives as long as the object, with any number of
sessions.  test/interop/README lists the commands.

=cut

package InteropProgram;

use strict;
use warnings;

use Carp;
use File::Basename;
use File::Spec;
use parent 'ZkTool';

my $folder =
  File::Spec->rel2abs(File::Spec->catdir(dirname(__FILE__), '..', 'interop'));

=pod

=head1 METHODS

=over

=item InteropProgram->new($name, $servers, $node, @more)

The name is that of a folder in test/interop.  The program's clients connect to the
servers, an ensemble or their addresses, and those that count to the database
C<postgres> of the node.  The program may take more arguments.

=item $program->session()

A new session, which is connected.  Its methods are C<send>, C<answered>, C<answer> and C<ask>, and are
those of a ZkPsql, with commands instead of SQL.

=cut

sub new
{
	my ($class, $name, $servers, $node, @more) = @_;
	my $self = $class->SUPER::new(
		"$folder/$name/run",
		ref $servers ? $servers->connect_string : $servers,
		$node->connstr('postgres'), @more);
	$self->{name} = $name;
	$self->{sessions} = 0;
	$self->{answers} = {};
	return $self;
}

sub session
{
	my ($self) = @_;
	my $session = InteropSession->new($self, ++$self->{sessions});

	# Its own deadline is to come first.  A virtual machine may have to start, too.
	$session->send('connect');
	my $answer = $session->answer(180);
	croak $session->name . ": $answer" unless $answer eq 't';
	return $session;
}

=pod

=item $program->name()

=item $program->take_answer($session)

What the session of this number has answered by now, which is forgotten then; undef
if nothing.

=item $program->has_answer($session)

=back

=cut

sub name { return $_[0]->{name}; }

sub take_answer
{
	my ($self, $session) = @_;
	return unless $self->has_answer($session);
	return delete $self->{answers}{$session};
}

sub has_answer
{
	my ($self, $session) = @_;
	while ($self->has_output)
	{
		my ($number, $answer) = split / /, $self->read_line('that'), 2;
		$self->{answers}{$number} = $answer;
	}
	return exists $self->{answers}{$session};
}

# Has the program written something that was not read yet?
sub has_output
{
	my ($self) = @_;
	return 1 if $self->{buffer} ne '';
	my $fds = '';
	vec($fds, fileno($self->{out}), 1) = 1;
	return select($fds, undef, undef, 0) > 0;
}

package InteropSession;

use Test::More;
use ZkTest;

sub new
{
	my ($class, $program, $number) = @_;
	return bless { program => $program, number => $number }, $class;
}

# Have a command carried out; do not wait for that.
sub send
{
	my ($self, $command) = @_;
	note $self->name . ": $command";
	$self->{program}->send("$self->{number} $command");
	return;
}

sub answered
{
	my ($self) = @_;
	return $self->{program}->has_answer($self->{number});
}

# Wait for the answer, for so many seconds (120), and return it.
sub answer
{
	my ($self, $seconds) = @_;
	wait_for(sub { $self->answered }, 'an answer of ' . $self->name,
		$seconds // 120);
	my $answer = $self->{program}->take_answer($self->{number});
	note $self->name . " -> $answer";
	return $answer;
}

sub ask
{
	my ($self, $command) = @_;
	$self->send($command);
	return $self->answer;
}

sub name
{
	my ($self) = @_;
	return $self->{program}->name . " $self->{number}";
}

1;
