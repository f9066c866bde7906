
=pod

=head1 NAME

RandomSettings - the settings of a session, as the model of a random run has them

=head1 DESCRIPTION

A part of RandomSession.  As in PostgreSQL, a rollback, also to a savepoint, restores what
a setting was before; DISCARD ALL restores all of them.

=cut

package RandomSettings;

use strict;
use warnings;

my %defaults = (
	lock_timeout => 'off',
	statement_timeout => 'off',
	on_lock_loss => 'cancel',
	commit_guard => 'lease',
	lock_delay => 'off',
	handover => 'off',
	session_scope => 'on',
	max_locks => 'any',
	paths => 'all');

# Those of a new connection.
sub start_settings
{
	my ($self) = @_;
	$self->{settings} = {%defaults};
	$self->{before_settings} = [];
	return;
}

sub setting { return $_[0]->{settings}{ $_[1] }; }

sub do_setting
{
	my ($self, $name, $value) = @_;
	push @{ $self->{before_settings} },
	  { nest => $self->{nest}, name => $name, value => $self->setting($name) };
	$self->{settings}{$name} = $value;
	return;
}

# Undo what a (sub)transaction of that level, and deeper ones, did.
sub roll_back_settings
{
	my ($self, $nest) = @_;
	my $before = $self->{before_settings};
	while (@$before && $before->[-1]{nest} >= $nest)
	{
		my $last = pop @$before;
		$self->{settings}{ $last->{name} } = $last->{value};
	}
	return;
}

sub pass_settings_up
{
	my ($self, $nest) = @_;
	foreach my $entry (@{ $self->{before_settings} })
	{
		$entry->{nest} = $nest - 1 if $entry->{nest} == $nest;
	}
	return;
}

sub keep_settings
{
	my ($self) = @_;
	$self->{before_settings} = [];
	return;
}

sub settings_text
{
	my ($self) = @_;
	my $settings = $self->{settings};
	return join ' ', (map { $settings->{$_} } sort keys %$settings),
	  map { @{$_}{qw(nest name value)} } @{ $self->{before_settings} };
}

1;
