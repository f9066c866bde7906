# Takes long: it starts seventy tools, most of them one after another.
#
# The recipes of doc/howto-migrations.md: its files and its commands, with psql (S420), with
# Django, Alembic and Rails (S421), and with Liquibase if it is in the PATH.  Each command
# is started ten times, and one of them migrates.  Then a lock that is lost in the middle
# (S422), what is in the way of a migration (S423), and a pooler (S424).

use strict;
use warnings;

use DBI;
use File::Basename;
use File::Path qw(make_path);
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Text::ParseWords;
use DocPage;
use ZkBouncer;
use ZkEnsemble;
use ZkPsql;

my $servers = 10;
my $path = '/migrate/app';
my $tmp = $PostgreSQL::Test::Utils::tmp_check;
my $page = DocPage->new('doc/howto-migrations.md');
chomp(my $bindir = `pg_config --bindir`);
my $has_liquibase = grep { -x "$_/liquibase" } split /:/, $ENV{PATH};

# Python and Ruby are Debian's, as are the tools.
$ENV{PATH} = "$bindir:/usr/bin:$ENV{PATH}";

# No lock is lost because the machine stands still for a moment.
my $ensemble = ZkEnsemble->new('main', maxSessionTimeout => 60000);
my %settings = (
	'zklock.session_timeout' => '60s',
	'zklock.on_lock_loss' => 'cancel',
	max_connections => 60);
my %node = (
	eu => zk_cluster('eu', $ensemble, settings => { %settings, listen_addresses => '127.0.0.1' }),
	us => zk_cluster('us', $ensemble, settings => \%settings));
my $holder = ZkPsql->new($node{us});
$_->safe_psql('postgres', 'CREATE ROLE app LOGIN') foreach values %node;
my %connection = (PGHOST => $node{eu}->host, PGPORT => $node{eu}->port, PGUSER => 'app');

# ---- What is on the page.

# The blocks of a chapter.
sub chapter
{
	my ($title) = @_;
	my @heads = grep { $_->{text} =~ /^## / } $page->prose;
	my ($begin, $end) = (0, 1e9);
	foreach my $i (0 .. $#heads)
	{
		next unless $heads[$i]{text} eq "## $title\n";
		$begin = $heads[$i]{line};
		$end = $heads[ $i + 1 ]{line} if $i < $#heads;
	}
	die "no chapter $title" unless $begin;
	return grep { $_->{line} > $begin && $_->{line} < $end } $page->blocks;
}

# The commands of a chapter that have this comment, or none.
sub commands
{
	my ($title, $comment) = @_;
	my $begin = defined $comment ? qr/^# \Q$comment\E\n/ : qr/^[^#]/;
	my ($block) = grep { $_->{language} eq 'sh' && $_->{text} =~ $begin } chapter($title);
	die "no commands in $title" unless $block;
	return $block->{text};
}

# Write the files of a chapter, whose first lines are their names, to a folder.
sub write_files
{
	my ($title, $dir) = @_;
	foreach my $block (grep { $_->{language} ne 'sh' } chapter($title))
	{
		my ($name) = $block->{text} =~ /^(?:#|--) (\S+\.\w+)\n/ or next;
		write_file("$dir/$name", $block->{text});
	}
	return;
}

sub write_file
{
	my ($file, $text) = @_;
	make_path(dirname($file));
	append_to_file($file, $text);
	return;
}

# ---- Servers that start together.

# A database that keeps a list of what changes its schema.
sub make_database
{
	my ($node, $database) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $database OWNER app");
	$node->safe_psql($database, <<'SQL');
CREATE EXTENSION zklock;
CREATE TABLE ddl (pid integer, tag text);
CREATE FUNCTION note_ddl() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS
$$BEGIN INSERT INTO public.ddl VALUES (pg_backend_pid(), tg_tag); END$$;
CREATE EVENT TRIGGER note_ddl ON ddl_command_end EXECUTE FUNCTION note_ddl();
SQL
	return;
}

# Start commands in a folder, with this environment.
sub start_commands
{
	my ($commands, $dir, %environment) = @_;
	my $running = { said => '' };
	%environment = (%connection, %environment);
	local @ENV{ keys %environment } = values %environment;
	$running->{run} = IPC::Run::start([ qw(timeout 300 bash -ec), "cd '$dir'\n$commands" ],
		'<', \undef, '>&', \$running->{said});
	return $running;
}

# Wait for their end; returns the exit status, and what they have said.
sub end_commands
{
	my ($running) = @_;
	$running->{run}->finish;
	my $status = $? & 127 ? 128 + ($? & 127) : $? >> 8;
	return ($status, $running->{said});
}

sub run_commands { return end_commands(start_commands(@_)); }

# Start the commands so often that all wait for the lock before one has it; environments may
# differ.  Returns what they say; each is to succeed.
sub run_together
{
	my ($what, $commands, $dir, @environments) = @_;
	my (@running, @said);
	is($holder->ask("SELECT zk_lock_acquire('$path', '60 s')"), 't', "$what: they are to wait");
	push @running, start_commands($commands, $dir, %{ $environments[ $_ % @environments ] })
	  foreach 1 .. $servers;
	$ensemble->wait_for_queue($path, 1 + $servers);
	$holder->ask("SELECT zk_lock_release('$path')");
	my $failed = 0;
	foreach my $running (@running)
	{
		my ($status, $said) = end_commands($running);
		diag("$what: status $status: $said") if $status != 0;
		$failed++ if $status != 0;
		push @said, $said;
	}
	is($failed, 0, "$what: $servers at a time succeed");
	return @said;
}

# Test that one of them has migrated: by what they say, and in the database.
sub check_migrated
{
	my ($scenario, $what, $node, $database, $migrated, @said) = @_;
	is(scalar(grep { /$migrated/ } @said), 1, "$scenario: $what: one has migrated")
	  or diag(@said);
	is( $node->safe_psql($database,
			"SELECT count(*), count(DISTINCT pid) FROM ddl WHERE tag = 'CREATE INDEX'"),
		'1|1', "$scenario: $what: one index has been created");
	is( $node->safe_psql($database,
			"SELECT indisvalid FROM pg_index WHERE indexrelid = 'account_email'::regclass"),
		't', "$scenario: $what: it is valid");
	return;
}

# ---- S420: psql.

my $account =
  'CREATE TABLE account AS SELECT g AS id, g::text AS email FROM generate_series(1, 1000) g';
my $psql = "$tmp/psql";
write_files('psql', $psql);
my ($first) = grep { $_->{language} eq 'sh' } $page->blocks;

# Databases with the table that migrations are about.
sub make_app
{
	my ($database, @nodes) = @_;
	foreach my $node (@nodes)
	{
		make_database($node, $database);
		$node->safe_psql($database, "SET ROLE app; $account");
	}
	return;
}

make_app('app', $node{eu});
check_migrated('S420', 'psql', $node{eu}, 'app', qr/^migrated to version 2$/m,
	run_together('psql', $first->{text}, $psql, { PGDATABASE => 'app' }));

# Each server acquires the lock in one cluster or in the other, and migrates both.
make_app('two_clusters', values %node);
write_file("$psql/services", join '',
	map { "[app_$_]\nhost=${\$node{$_}->host}\nport=${\$node{$_}->port}\ndbname=two_clusters\n" }
	  sort keys %node);
my @said = run_together(
	'two clusters',
	commands('psql', 'several clusters'),
	$psql,
	map { { PGSERVICEFILE => "$psql/services", PGSERVICE => "app_$_" } } sort keys %node);
is(scalar(grep { /^migrated.*^migrated/ms } @said), 1, 'S420: one server has migrated both');
is(scalar(grep { /^migrated/m } @said), 1, 'S420: and no other one has migrated any');
foreach my $name (sort keys %node)
{
	check_migrated('S420', $name, $node{$name}, 'two_clusters', qr/^migrated/m, @said);
}

make_app('own', $node{eu});
check_migrated('S420', 'in its own session', $node{eu}, 'own', qr/^migrated to version 2$/m,
	run_together('in its own session', commands('psql', 'in the session that migrates'),
		$psql, { PGDATABASE => 'own' }));

# ---- S421: Django.

my $django = "$tmp/django";
write_files('Django', $django);
write_file("$django/app/$_/__init__.py", '')
  foreach qw(. migrations management management/commands);
write_file("$django/settings.py", <<'PYTHON');
import os

SECRET_KEY = "of this test"
INSTALLED_APPS = ["app"]
DATABASES = {
    "default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}
}
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PYTHON
write_file("$django/manage.py", <<'PYTHON');
import os
import sys

from django.core.management import execute_from_command_line

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
execute_from_command_line(sys.argv)
PYTHON
write_file("$django/app/migrations/0001_account.py", <<'PYTHON');
from django.db import migrations, models


class Migration(migrations.Migration):
    operations = [
        migrations.CreateModel(
            "Account",
            [("id", models.BigAutoField(primary_key=True)), ("email", models.TextField())],
        ),
    ]
PYTHON

# What runs in Kubernetes: the same command, and one that checks whether it has run.
my ($initial, $check) = map { decode_json($_) }
  map { $_->{text} =~ /^ +command: (\[.*?\])$/ms }
  grep { $_->{language} eq 'yaml' } chapter('Wait for a migration elsewhere');
is_deeply($initial, [ shellwords(commands('Django')) ], 'an init container migrates like a server');
my $checking = join ' ', map { "'$_'" } @$check;

make_database($node{eu}, 'django');
my %in_django = (PGDATABASE => 'django');
$holder->ask("SELECT zk_lock_acquire('$path', '60 s')");
my $running = start_commands($checking, $django, %in_django);
$ensemble->wait_for_queue($path, 2);
$holder->ask("SELECT zk_lock_release('$path')");
is((end_commands($running))[0], 1, 'S421: Django: a check waits for the lock; not migrated');
check_migrated('S421', 'Django', $node{eu}, 'django', qr/Applying app\.0002_account_email\.+ OK/,
	run_together('Django', commands('Django'), $django, \%in_django));
is((run_commands($checking, $django, %in_django))[0], 0, 'S421: Django: migrated');

make_database($node{eu}, 'django_own');
%in_django = (PGDATABASE => 'django_own');
check_migrated('S421', 'Django in its own session',
	$node{eu}, 'django_own', qr/Applying app\.0002_account_email\.+ OK/,
	run_together('Django in its own session', commands('Django', 'in the session that migrates'),
		$django, \%in_django));

# ---- S421: Alembic.

my $alembic = "$tmp/alembic";
make_path($alembic);
is((run_commands('alembic init migrations', $alembic))[0], 0, 'Alembic makes its files');
write_files('Alembic', $alembic);
my $ini = slurp_file("$alembic/alembic.ini");
write_file("$alembic/migrations/versions/1_account.py", <<'PYTHON');
import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade():
    op.create_table("account", sa.Column("id", sa.BigInteger), sa.Column("email", sa.Text))
PYTHON

# Have Alembic's files name another database.
sub use_database
{
	my ($database) = @_;
	my $url = "postgresql+psycopg2:///$database";
	my $changed = $ini =~ s|^sqlalchemy\.url = .*|sqlalchemy.url = $url|mr;
	isnt($changed, $ini, 'Alembic uses that database');
	unlink "$alembic/alembic.ini";
	write_file("$alembic/alembic.ini", $changed);
	make_database($node{eu}, $database);
	return;
}

use_database('alembic');
my $done = qr/Running upgrade 1 -> 2/;
isnt((run_commands('alembic current | grep "(head)"', $alembic))[0], 0,
	'S421: Alembic: not migrated');
check_migrated('S421', 'Alembic', $node{eu}, 'alembic', $done,
	run_together('Alembic', commands('Alembic'), $alembic, { PGDATABASE => 'alembic' }));
is((run_commands('alembic current | grep "(head)"', $alembic))[0], 0, 'S421: Alembic: migrated');

use_database('alembic_own');
my ($own) =
  map { $_->{text} =~ /^# in migrations.env\.py\n(.*)/s } chapter('Alembic');
my $env = slurp_file("$alembic/migrations/env.py");
my $changed =
  $env =~ s/^ {8}with context.begin_transaction\(\):\n +context.run_migrations\(\)\n/$own/mr;
isnt($changed, $env, 'the end of run_migrations_online() is replaced');
unlink "$alembic/migrations/env.py";
write_file("$alembic/migrations/env.py", "import sqlalchemy\n$changed");
check_migrated('S421', 'Alembic in its own session', $node{eu}, 'alembic_own', $done,
	run_together('Alembic in its own session', commands('Alembic', 'in the session that migrates'),
		$alembic, {}));

# ---- S421: Rails.

my $rails = "$tmp/rails";
write_files('Rails', $rails);
write_file("$rails/config/application.rb", <<'RUBY');
require "rails"
require "active_record/railtie"

class App < Rails::Application
  config.eager_load = false
  config.secret_key_base = "of this test"
end
RUBY
write_file("$rails/config/environment.rb", <<'RUBY');
require_relative "application"
Rails.application.initialize!
RUBY
write_file("$rails/config/database.yml", "development: {adapter: postgresql, database: rails}\n");
write_file("$rails/Rakefile", <<'RUBY');
require_relative "config/application"
Rails.application.load_tasks
RUBY
write_file("$rails/bin/rails", <<'RUBY');
#!/usr/bin/ruby
APP_PATH = File.expand_path("../config/application", __dir__)
require "rails/commands"
RUBY
chmod 0755, "$rails/bin/rails";
write_file("$rails/db/migrate/20260101000001_create_accounts.rb", <<'RUBY');
class CreateAccounts < ActiveRecord::Migration[6.1]
  def change
    create_table(:accounts) { |t| t.text :email }
  end
end
RUBY
make_database($node{eu}, 'rails');
isnt((run_commands('bin/rails db:abort_if_pending_migrations', $rails))[0], 0,
	'S421: Rails: not migrated');
check_migrated('S421', 'Rails', $node{eu}, 'rails', qr/IndexAccountEmail: migrated/,
	run_together('Rails', commands('Rails'), $rails, { PGDATABASE => 'rails' }));
is((run_commands('bin/rails db:abort_if_pending_migrations', $rails))[0], 0,
	'S421: Rails: migrated');

# ---- S421: Liquibase.

SKIP:
{
	skip 'Liquibase is not installed', 5 unless $has_liquibase;
	my $liquibase = "$tmp/liquibase";
	write_files('Liquibase', $liquibase);

	# The name of a file is not a part of the file.
	my $changelog = slurp_file("$liquibase/db/changelog.sql") =~ s/^.*\n//r;
	unlink "$liquibase/db/changelog.sql";
	write_file("$liquibase/db/changelog.sql", $changelog);
	write_file("$liquibase/liquibase.properties", <<"TEXT");
changelog-file=db/changelog.sql
url=jdbc:postgresql://127.0.0.1:@{[ $node{eu}->port ]}/liquibase
username=app
TEXT
	make_database($node{eu}, 'liquibase');
	check_migrated('S421', 'Liquibase', $node{eu}, 'liquibase', qr/Run: +2\n/,
		run_together('Liquibase', commands('Liquibase'),
			$liquibase, { PGDATABASE => 'liquibase' }));
}

# ---- S422: the lock is lost while the index is being created.

my ($setting, $query, $drop) =
  map { $_->{text} } grep { $_->{language} eq 'sql' } chapter('If the lock is lost');
$node{eu}->safe_psql('postgres', $setting);

# A transaction that an index waits for.
my $old = ZkPsql->new($node{eu});
my $building = "state = 'active' AND wait_event_type = 'Lock' AND query LIKE 'CREATE INDEX%'";

# The number of such sessions.
sub builders
{
	my ($database) = @_;
	return $node{eu}->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE datname = '$database' AND $building");
}

# Begin to migrate, take the lock away in the middle, and see what remains.
sub lose_lock
{
	my ($what, $database, $commands, $expected, $error) = @_;
	make_app($database, $node{eu});
	$old->ask("\\connect $database");
	$old->ask('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	my $running = start_commands($commands, $psql,
		PGDATABASE => $database, PGOPTIONS => '-c zklock.session_timeout=12s');
	wait_for(sub { builders($database) }, 'the index to be waited for');
	is($node{eu}->safe_psql($database, $query), '',
		"$what: an index that is being created is not found");
	is( $holder->ask(
			"SELECT bool_and(zk_lock_break('$path', contender)) FROM zk_lock_queue('$path')"),
		't', "$what: the lock is taken away");
	my ($status, $said) = end_commands($running);
	is($status, $expected, "S422: $what: the status says so") or diag($said);
	like($said, $error, "S422: $what: so does a message");
	unlike($said, qr/migrated to/, "$what: it was not done");
	wait_for(sub { builders($database) == 0 }, 'the session to end');
	is($node{eu}->safe_psql($database, $query), 'account_email',
		"S422: $what: an INVALID index is found");
	$old->ask('COMMIT');
	return;
}

lose_lock('zklock run', 'lost', $first->{text},
	123, qr/^zklock: lock "$path" was lost, and the command was ended$/m);
my ($status, $said) = run_commands($first->{text}, $psql, PGDATABASE => 'lost');
is($status, 0, 'S422: the next server migrates');
like($said, qr/^migrated to version 2$/m, 'and says so');
is($node{eu}->safe_psql('lost', $query), '', 'S422: the index is valid');

lose_lock('psql', 'lost_own', commands('psql', 'in the session that migrates'),
	3, qr/ERROR: +lock "$path" was lost/);
write_file("$psql/drop.sql", $drop);
is((run_commands('psql -X -v ON_ERROR_STOP=1 -f drop.sql', $psql, PGDATABASE => 'lost_own'))[0],
	0, 'S422: it is dropped by hand');
is($node{eu}->safe_psql('lost_own', $query), '', 'and is gone');

# ---- S423: what is in the way of a migration.

make_app('timeouts', $node{eu});
my %in_timeouts = (PGDATABASE => 'timeouts');
$old->ask('\connect timeouts');
$old->ask('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$holder->ask("SELECT zk_lock_acquire('$path', '60 s')");
is((run_commands($first->{text}, $psql, %in_timeouts, PGOPTIONS => '-c lock_timeout=100ms'))[0],
	125, 'S423: lock_timeout ends the wait for the lock');
$running = start_commands($first->{text}, $psql, %in_timeouts,
	PGOPTIONS => '-c statement_timeout=300ms');
$ensemble->wait_for_queue($path, 2);
$holder->ask("SELECT pg_sleep(0.6), zk_lock_release('$path')");
($status, $said) = end_commands($running);
is($status, 3, 'S423: statement_timeout does not');
like($said, qr/ERROR: +canceling statement due to statement timeout/, 'but that of the index');
$old->ask('COMMIT');
is((run_commands($first->{text}, $psql, %in_timeouts))[0], 0, 'S423: it can be repeated');

# A lock of a transaction, in a driver that uses the extended protocol.
my $driver = DBI->connect('dbi:Pg:' . $node{eu}->connstr('timeouts') =~ s/ /;/gr,
	'app', undef, { AutoCommit => 0, RaiseError => 1 });
$driver->selectrow_array('SELECT zk_lock_acquire_xact(?)', undef, $path);
$old->send('DROP INDEX account_email; CREATE INDEX CONCURRENTLY account_email ON account (email)');
wait_for(sub { builders('timeouts') }, 'the index to be waited for');
is( $node{eu}->safe_psql('postgres',
		"SELECT pg_blocking_pids(pid) = ARRAY[$driver->{pg_pid}]
		 FROM pg_stat_activity WHERE datname = 'timeouts' AND $building"),
	't', 'S423: an index waits for the snapshot of a transaction that holds the lock');
$driver->commit;
$old->answer;
is($old->errors, '', 'S423: as long as that lasts');
$driver->disconnect;

# ---- S424: through a pooler.

my $bouncer = ZkBouncer->new("$tmp/pgbouncer", <<"INI", qw(app web));
[databases]
app = host=${\$node{eu}->host} port=${\$node{eu}->port} dbname=pooled pool_mode=transaction
app_session = host=${\$node{eu}->host} port=${\$node{eu}->port} dbname=pooled pool_mode=session

[pgbouncer]
server_reset_query = DISCARD ALL
INI
my %pooled = map { split /=/ } split / /, $bouncer->connstr('app', 'app');
%pooled = (PGHOST => $pooled{host}, PGPORT => $pooled{port});
make_app('pooled', $node{eu});
my $through = commands('Through a pooler', 'through PgBouncer');
check_migrated('S424', 'through a pooler', $node{eu}, 'pooled', qr/^migrated to version 2$/m,
	run_together('through a pooler', $through, $psql, \%pooled));
$node{eu}->safe_psql('postgres',
	'CREATE ROLE web LOGIN; ALTER ROLE web SET zklock.session_scope = off');
(my $transaction = $through) =~ s/-d app_session/-d app/ or die;
($status, $said) = run_commands($transaction, $psql, %pooled, PGUSER => 'web');
is($status, 125, 'S424: no lock of a session in transaction mode') or diag($said);
like($said, qr/ERROR: +session-level locks are disabled/, 'which it says');

done_testing();
