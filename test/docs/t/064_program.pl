# zklock's options: its help, its manual page and bash's completion have the same ones, and
# the program knows them (S411); and what bash offers at each place of a line (S410).

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkTerminal;
use ZkTest;

my $tmp = $PostgreSQL::Test::Utils::tmp_check;
chomp(my ($bindir, $share) = `pg_config --bindir --sharedir`);
$share =~ s{(.*/share)/.*}{$1};
my $file = "$share/bash-completion/completions/zklock";
my $program = "$bindir/zklock";
$ENV{PATH} = "$bindir:$ENV{PATH}";
$ENV{HOME} = $tmp;

# ---- S411: options, with "=" behind those that take a value.

# The same option has a long name and mostly a letter, which take a value or do not.
sub from_help
{
	my %options;
	foreach my $line (split /\n/, `$program --help`)
	{
		my ($letter, $name, $value) = $line =~ /^  (?:(-\S), |    )(--[\w-]+)(=)?/ or next;
		$value //= '';
		$options{"$name$value"} = 1;
		$options{"$letter$value"} = 1 if $letter;
	}
	return \%options;
}

# They are in the headings of paragraphs.
sub from_page
{
	my %options;
	my $page = slurp_file('doc/zklock.1');
	foreach my $line ($page =~ /^\.T[PQ]\n(\.B\S* .*\\-.*)/mg)
	{
		$line =~ s/\\-/-/g;
		my $value = $line =~ /=/ ? '=' : '';
		$options{"$_$value"} = 1 foreach $line =~ /(--[\w-]+|(?<=[ "])-[\w?](?=\W))/g;
	}
	return \%options;
}

sub from_source
{
	my $source = slurp_file('src/bin/zklock.c');
	my %options = map { $_ => 1 } '-?', $source =~ /^\t\{"([\w-]+)", no_argument/mg,
	  map { "$_=" } $source =~ /^\t\{"([\w-]+)", required_argument/mg;
	%options = map { (/^-/ ? $_ : "--$_") => 1 } keys %options;
	my ($letters) = $source =~ /"\+([\w:]+)", long_options/;
	$options{"-$1" . ($2 ? '=' : '')} = 1 while $letters =~ /(\w)(:)?/g;
	return \%options;
}

sub from_completion
{
	my ($all) = slurp_file($file) =~ /^_zklock_options=\((.*?)\)$/ms;
	my ($valued) = slurp_file($file) =~ /^_zklock_valued=(\w+)$/m;
	return { map { /^-([$valued])$/ ? "$_=" : $_ => 1 } map { s/'//gr } split ' ', $all };
}

my $options = from_help();
cmp_ok(scalar keys %$options, '>', 20, 'the help has options');
is_deeply(from_page(), $options, 'S411: the manual page has the options of the help');
is_deeply(from_source(), $options, 'S411: the program knows them');
is_deeply(from_completion(), $options, 'S411: the completion has them');
foreach my $option (qw(--help -? --version -V))
{
	like(`$program run $option`, qr/^zklock/, "S411: zklock run $option");
	is(`$program $option`, `$program run $option`, "S411: zklock $option");
}

# ---- S410: bash.

my $bash;

# Start a bash that has nothing but these commands.  C-x * inserts all that it offers, and
# C-x p writes down the line.
sub start_bash
{
	my ($commands) = @_;
	append_to_file(my $rc = "$tmp/bashrc_" . int(rand 1e9), <<"END");
PS1='> '
bind 'set enable-bracketed-paste off'
bind 'set completion-query-items 0'
bind '"\\C-x*": insert-completions'
bind -x '"\\C-xp": printf "%s" "\$READLINE_LINE" >$tmp/line.new; mv $tmp/line.new $tmp/line'
$commands
END
	$bash = ZkTerminal->new('bash', '--noprofile', '--rcfile', $rc, '-i');
	$bash->wait_for_output(qr/^> /m);
	return;
}

# The line after these keys.
sub line_after
{
	my ($keys) = @_;
	unlink "$tmp/line";
	$bash->type("\cU$keys\cXp");
	wait_for(sub { -e "$tmp/line" }, 'the line of bash');
	return slurp_file("$tmp/line");
}

# What bash offers for the last word, in some order.
sub offered
{
	my ($line) = @_;
	my ($before) = $line =~ /^(.* )/;
	my @words = split ' ', substr line_after("$line\cX*"), length $before;
	return [ sort @words ];
}

sub check_completion
{
	my ($with) = @_;
	my @all = map { s/^(-[^-])=$/$1/r } keys %$options;

	is(line_after("zklock r\t"), 'zklock run ', "S410: $with: the command");
	is_deeply(offered('zklock '), [ sort qw(run -? --help -V --version) ],
		"S410: $with: commands, and options that need none");
	is_deeply(offered('zklock run -'), [ sort @all ], "S410: $with: all options");
	is(line_after("zklock run --sh\t"), 'zklock run --shared ', "S410: $with: a flag");
	is(line_after("zklock run --ti\t"),
		'zklock run --timeout=', "S410: $with: an option that takes a value");
	is(line_after("zklock run -sn --ti\t"),
		'zklock run -sn --timeout=', "S410: $with: behind another one");
	is(line_after("zklock run -t 3 --no-p\t"),
		'zklock run -t 3 --no-password ', "S410: $with: behind a value");
	is(line_after("zklock run --timeout=3 -U joe --no-p\t"),
		'zklock run --timeout=3 -U joe --no-password ', "S410: $with: behind two values");
	is(line_after("zklock run -t --no-p\t"),
		'zklock run -t --no-p', "S410: $with: nothing instead of a value");
	is(line_after("zklock run /a/b:c -\t"), 'zklock run /a/b:c -- ', "S410: $with: --");
	foreach my $before ('/a', '/a --', '/a:b=c --', '-- /a', '-sE 3 --dbname=x=y /a')
	{
		is(line_after("zklock run $before zklo\t"),
			"zklock run $before zklock ", "S410: $with: a command behind $before");
	}
	ok((grep { $_ eq 'cat' } @{ offered('zklock run /a ca') }), "S410: $with: any command");
	is(line_after("zklock run /a -- $tmp/scri\t"),
		"zklock run /a -- $tmp/script ", "S410: $with: a command by its file");
	is(line_after("zklock run /a -- cat $tmp/some\t"),
		"zklock run /a -- cat $tmp/somewhere ", "S410: $with: an argument that is a file");
	return;
}

append_to_file("$tmp/script", "#!/bin/sh\n");
chmod 0755, "$tmp/script";
append_to_file("$tmp/somewhere", '');
start_bash(". $file");
check_completion('bash alone');
undef $bash;

# With the package, which also finds the file, and completes the command's own options.
SKIP:
{
	my $package = '/usr/share/bash-completion/bash_completion';
	skip 'no package bash-completion', 1 unless -e $package;
	$ENV{XDG_DATA_DIRS} = "$share:/usr/share";
	start_bash("_zkhosts() { COMPREPLY=(--one --other); }; complete -F _zkhosts zkpeer; . $package");
	check_completion('bash-completion');
	is(join(' ', @{ offered('zklock run /a -- zkpeer ') }), '--one --other',
		'S410: the arguments of a command with a completion of its own');
	is(line_after("zklock run /a -- zklock run /b -- zklock ru\t"),
		'zklock run /a -- zklock run /b -- zklock run ', 'S410: such as zklock');
}

done_testing();
