# "zklock run" on a terminal (S417): the command reads from it, keys interrupt the whole job,
# a script and a pipeline included, and the terminal is as it was when all is over.  Each
# line is typed into an interactive bash.

use strict;
use warnings;

use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkPsql;
use ZkRun;
use ZkTerminal;
use ZkTest qw(process_status wait_for);

my $ensemble = ZkEnsemble->new('main');
my $node = zk_cluster('one', $ensemble);
my $other = ZkPsql->new(zk_cluster('two', $ensemble));
my $zklock = ZkRun->new($node);

# Commands in PATH, so that lines are short.
my $bin = "$PostgreSQL::Test::Utils::tmp_check/bin";
mkdir $bin;
append_to_file("$bin/run",
	"#!/bin/sh\nexec " . join(' ', map { "'$_'" } $zklock->command('/tty')) . " \"\$@\"\n");
# One that stays until a key ends it.  Not a shell: dash loses a SIGINT that comes while it
# starts a program (it has a handler, which does nothing between vfork and exec).
append_to_file("$bin/stay", "#!/usr/bin/perl\n\$| = 1; print \"\@ARGV\\n\"; sleep 1000;\n");
chmod 0755, "$bin/run", "$bin/stay";
local $ENV{PATH} = "$bin:$ENV{PATH}";
my $terminal = ZkTerminal->new('bash', '--norc', '--noprofile', '-i');
my $prompt = qr/shell (\d+)> /;

# Type a line.  The shell's prompts have the status of the last one.
sub type { return $terminal->type($_[0]); }

sub wait_for_prompt { return ($terminal->wait_for_output($prompt))[0]; }

sub wait_for_text { return $terminal->wait_for_output($_[0]); }

# The lock is held by the command that was typed, or by none.
sub wait_for_lock { return $ensemble->wait_for_queue('/tty', $_[0]); }

sub break_lock
{
	is( $other->ask(
			q{SELECT zk_lock_break('/tty', contender) FROM zk_lock_queue('/tty') WHERE granted}),
		't', 'the lock is broken');
	return;
}

type("PS1='shell \$?> '; bind 'set enable-bracketed-paste off'; stty -echo\n");
wait_for_prompt();

# ---- Keys.

type("run cat\n");
wait_for_lock(1);
type("one line\n");
wait_for_text(qr/one line/);
ok(1, 'S417: the command reads from the terminal');
type("\cZ");
type("another\n");
wait_for_text(qr/another/);
ok(1, 'S417: a key does not suspend it');
type("\cD");
is(wait_for_prompt(), 0, 'S417: nor does it end before its input');
type("run cat\n");
wait_for_lock(1);
type("\cC");
is(wait_for_prompt(), 130, 'S417: a key interrupts it');
wait_for_lock(0);
type("run stay ready\n");
wait_for_text(qr/ready/);
type("\cC");
is(wait_for_prompt(), 130, 'S417: also when it has run for a while');

type("run bash -c 'read -rsn1 -p ready key; echo \"<\$key>\"'\n");
wait_for_text(qr/ready/);
type('x');
wait_for_text(qr/<x>/);
is(wait_for_prompt(), 0, 'S417: it changes the modes of the terminal');

type("run bash -c 'read -rsn1 key </dev/tty; echo \"<\$key>\"' </dev/null\n");
wait_for_lock(1);
type('y');
wait_for_text(qr/<y>/);
is(wait_for_prompt(), 0, 'S417: it reads from the terminal, whatever its input is');

# A handler is called once for a key.
type("run bash -c 'trap \"echo caught\" INT; echo ready; read x; echo \"<\$x>\"'\n");
wait_for_text(qr/ready/);
type("\cC");
wait_for_text(qr/caught/);
type("end\n");
wait_for_text(qr/<end>/);
is(wait_for_prompt(), 0, 'S417: the command handles a key');
unlike($terminal->output, qr/caught/, 'once');

$other->ask(q{SELECT zk_lock_acquire('/tty')});
type("run true\n");
wait_for_lock(2);
type("\cC");
is(wait_for_prompt(), 130, 'S417: a key ends the wait for the lock');
wait_for_lock(1);
$other->ask(q{SELECT zk_lock_release('/tty')});

# ---- Scripts and pipelines.

type("bash -c 'for i in 1 2 3; do run stay round \$i; done'\n");
wait_for_text(qr/round 1/);
type("\cC");
is(wait_for_prompt(), 130, 'S417: a key interrupts the script with the command');
type("for i in 1 2 3; do run stay round \$i; done\n");
wait_for_text(qr/round 1/);
type("\cC");
is(wait_for_prompt(), 130, 'S417: and a loop');
type("run bash -c 'read x; echo \"<\$x>\"' | tr x y\n");
wait_for_lock(1);
type("xxx\n");
wait_for_text(qr/<yyy>/);
is(wait_for_prompt(), 0, 'S417: the first command of a pipeline reads from the terminal');
type("run stay text | bash -c 'read x; read -rsn1 y </dev/tty; echo \"<\$x \$y>\"'\n");
wait_for_lock(1);
type('k');
wait_for_text(qr/<text k>/);
ok(1, 'S417: so does another one');
type("\cC");
wait_for_prompt();
wait_for_lock(0);

# Beside other commands that run one.
type("timeout --foreground 100 run head -n 1\n");
wait_for_lock(1);
type("a line\n");
wait_for_text(qr/a line/);
is(wait_for_prompt(), 0, 'S417: under timeout --foreground, it reads from the terminal');
type("timeout 1 run sleep 1000\n");
is(wait_for_prompt(), 124, 'S417: timeout ends it');
wait_for_lock(0);

# ---- The background.

type("run bash -c 'read x; echo \"<\$x>\"' &\n");
wait_for_prompt();
wait_for_text(qr/in the background/);
type("fg\n");
wait_for_text(qr/run/);
type("late\n");
wait_for_text(qr/<late>/);
is(wait_for_prompt(), 0, 'S417: in the foreground, the command goes on to read');

type("stty tostop; run sleep 1000 &\n");
wait_for_prompt();
wait_for_lock(1);
break_lock();
type("wait \$!\n");
wait_for_text(qr/was lost/);
is(wait_for_prompt(), 123, 'S417: in the background, it complains without being stopped');
type("stty -tostop\n");
wait_for_prompt();

# ---- The terminal after a loss.

# What a shell starts is in other groups, and one of these has the terminal.
type("bash -c 'run bash --norc -i; echo \"status \$?\"; read x; echo \"<\$x>\"'\n");
wait_for_lock(1);
type("cat\n");
type("inner\n");
wait_for_text(qr/inner/);
my $foreground = $terminal->foreground;
break_lock();
wait_for_text(qr/status 123/);
isnt($terminal->foreground, $foreground, 'S417: the job has the terminal again');
type("after\n");
wait_for_text(qr/<after>/);
is(wait_for_prompt(), 0, 'S417: and reads from it');

type("stty echo\n");
wait_for_prompt();
type("run perl -e '\$SIG{TERM} = \"IGNORE\"; system \"stty raw -echo\"; print uc \"raw\\n\"; sleep 1000'\n");
wait_for_text(qr/RAW/);
ok(!$terminal->setting(POSIX::ECHO()), 'a command changes the modes of the terminal');
break_lock();
is(wait_for_prompt(), 123, 'and is killed');
type("stty -a | tr '\\n' ' '\n");
my ($modes) = $terminal->wait_for_output(qr/(\S*isig .*\S*echoke)/);
like($modes, qr/ $_ /, "S417: then the terminal has $_") foreach qw(icanon echo);
wait_for_prompt();

# ---- The end of the terminal.

type("run sh -c 'sleep 1000; true'\n");
wait_for_lock(1);
my ($program) = split ' ', slurp_file('/proc/' . $terminal->pid . '/task/' . $terminal->pid . '/children');
$terminal->hang_up;
wait_for_lock(0);
ok(1, 'S417: when the terminal vanishes, the lock is released');
wait_for(sub { !-e "/proc/$program" }, 'the program to end');
$terminal->status;

done_testing();
