
=pod

=head1 NAME

ZkExtension - the extension in an installation and in a database: its files, its
objects, and a database that uses it

=head1 SYNOPSIS

  is(extension_catalog($node, 'updated'), extension_catalog($node, 'fresh'));

  make_jobs_database($node);
  my $before = jobs_state($node, 'jobs');
  ... the database is moved ...
  is(jobs_state($other, 'jobs'), $before);

  my $pg_config = copy_postgres('other');
  build_zklock($pg_config);

=head1 DESCRIPTION

What the tests of dumps, upgrades and updates share.

=cut

package ZkExtension;

use strict;
use warnings;

use Exporter 'import';
use File::Basename;
use File::Spec;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(build_zklock copy_postgres extension_catalog jobs_data jobs_definitions
  jobs_state make_jobs_database pg_config);

my $lib = File::Spec->rel2abs(File::Spec->catdir(dirname(__FILE__), '..', 'lib'));

=pod

=head1 FUNCTIONS

=over

=item pg_config($name, $program)

What pg_config says of C<--name>: the one of the installation that is tested, or
another one.

=cut

sub pg_config
{
	my ($name, $program) = @_;
	chomp(my $value = qx('@{[ $program // 'pg_config' ]}' --$name));
	die "pg_config failed\n" if $? != 0 || $value eq '';
	return $value;
}

=pod

=item copy_postgres($name, $program)

Another copy of an installation, into which nothing is installed yet: of the one that
is tested, or of that of another pg_config.  Returns the copy's pg_config.

=cut

sub copy_postgres
{
	my ($name, $program) = @_;
	$program //= pg_config('bindir') . '/pg_config';
	my $root = "$PostgreSQL::Test::Utils::tmp_check/$name";
	chomp(my $copy = qx(PG_CONFIG='$program' bash '$lib/postgres' install '$root'));
	die "there is no copy of the PostgreSQL of $program\n" if $? != 0;
	return $copy;
}

=pod

=item build_zklock($program)

Compile the extension for the PostgreSQL of a pg_config, and install it there.
Must be called from the top folder.

=cut

sub build_zklock
{
	my ($program) = @_;
	my $tree = PostgreSQL::Test::Utils::tempdir();
	system_or_bail('cp', '-r', qw(Makefile zklock.control doc sql src), $tree);
	# What was compiled here is for another one.
	system_or_bail('make', '-s', '-C', $tree, "PG_CONFIG=$program", $_)
	  foreach qw(clean install);
	return;
}

=pod

=item extension_catalog($node, $database)

All facts about the extension's objects, as text, one line or several for each: their
definitions, privileges and comments, and the data for pg_dump.  It is the same for two
databases exactly if a user cannot distinguish their extensions.

=cut

# Access privileges, in an order that does not depend on that of the GRANTs.
sub privileges
{
	my ($acl) = @_;
	return "(SELECT string_agg(a::text, ' ' ORDER BY a::text COLLATE \"C\")"
	  . " FROM unnest($acl) a)";
}

# Queries on "member", the extension's objects by catalog, oid and name.
my @catalog_queries = (
	# every object, and its comment
	q{SELECT concat_ws(' | ', name, obj_description(objid, classid::regclass::text::name))
	  FROM member},

	"SELECT concat_ws(' | ', pg_get_functiondef(p.oid), "
	  . privileges("coalesce(proacl, acldefault('f', proowner))")
	  . q{)
	  FROM member JOIN pg_proc p ON classid = 'pg_proc'::regclass AND objid = p.oid},

	"SELECT concat_ws(' | ', name, relkind, relpersistence, relrowsecurity, reloptions::text, "
	  . privileges("coalesce(relacl, acldefault('r', relowner))")
	  . q{, CASE relkind WHEN 'v' THEN pg_get_viewdef(c.oid) END)
	  FROM relation c},

	"SELECT concat_ws(' | ', name,"
	  . q{ row_number() OVER (PARTITION BY name ORDER BY attnum), attname,
		format_type(atttypid, atttypmod), attnotnull, attcollation::regcollation,
		attstorage, pg_get_expr(adbin, adrelid), } . privileges('attacl') . q{,
		col_description(c.oid, attnum))
	  FROM relation c JOIN pg_attribute a ON attrelid = c.oid
		LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
	  WHERE attnum > 0 AND NOT attisdropped},

	q{SELECT concat_ws(' | ', name, conname, pg_get_constraintdef(o.oid))
	  FROM relation c JOIN pg_constraint o ON conrelid = c.oid},

	q{SELECT concat_ws(' | ', name, pg_get_indexdef(indexrelid))
	  FROM relation c JOIN pg_index ON indrelid = c.oid},

	q{SELECT concat_ws(' | ', name, pg_get_triggerdef(t.oid))
	  FROM relation c JOIN pg_trigger t ON tgrelid = c.oid WHERE NOT tgisinternal},

	"SELECT concat_ws(' | ', name, typtype, typcategory, format_type(typbasetype, typtypmod), "
	  . privileges("coalesce(typacl, acldefault('T', typowner))")
	  . q{, (SELECT string_agg(enumlabel, ' ' ORDER BY enumsortorder)
			FROM pg_enum WHERE enumtypid = t.oid))
	  FROM member JOIN pg_type t ON classid = 'pg_type'::regclass AND objid = t.oid},

	# the initial privileges, which pg_dump omits
	"SELECT concat_ws(' | ', name, i.objsubid, privtype, "
	  . privileges('initprivs')
	  . q{)
	  FROM member JOIN pg_init_privs i ON classid = classoid AND objid = objoid},

	q{SELECT concat_ws(' | ', extname, extversion, extrelocatable,
		extnamespace::regnamespace, extconfig::regclass[]::text, extcondition::text,
		obj_description(oid, 'pg_extension'))
	  FROM pg_extension WHERE extname = 'zklock'});

sub extension_catalog
{
	my ($node, $database) = @_;
	return join "\n", map {
		$node->safe_psql(
			$database, "SET search_path = pg_catalog;
			WITH member AS (
				SELECT classid, objid, type || ' ' || identity AS name
				FROM pg_depend d, pg_extension e,
					pg_identify_object(classid, objid, 0)
				WHERE refclassid = 'pg_extension'::regclass AND refobjid = e.oid
					AND deptype = 'e' AND extname = 'zklock'),
			relation AS (
				SELECT name, c.* FROM member
				JOIN pg_class c ON (classid, objid) IN (('pg_class'::regclass, c.oid),
					('pg_type'::regclass, nullif(c.reltype, 0)))),
			answer (line) AS ($_)
			SELECT line FROM answer ORDER BY line COLLATE \"C\"")
	} @catalog_queries;
}

=pod

=item make_jobs_database($node)

Make a database C<jobs> that uses all of the extension: in a schema of its own, with privileges granted and revoked, settings for
the database and a role, a table behind a fence, a view and a function that need the
extension, a fence that has been passed and a job that has run.  The ensemble has to
be there.

=item jobs_definitions($node, $database)

What is defined in such a database, with the extension's objects, as text.  Each
major version of PostgreSQL may put it in its own words.

=item jobs_data($node, $database)

What is in its tables, the fences, and the runs of jobs.

=item jobs_state($node, $database)

Both.

=back

=cut

sub make_jobs_database
{
	my ($node) = @_;
	$node->safe_psql(
		'postgres', q{
		CREATE ROLE operator;
		CREATE ROLE batch LOGIN;
		CREATE DATABASE jobs;
		ALTER DATABASE jobs SET session_preload_libraries = 'zklock';
		ALTER DATABASE jobs SET zklock.root = '/jobs';
		ALTER DATABASE jobs SET zklock.preconnect = 'on';
		ALTER ROLE batch IN DATABASE jobs SET zklock.commit_guard = 'quorum';});
	$node->safe_psql(
		'jobs', q{
		CREATE SCHEMA locks;
		CREATE EXTENSION zklock SCHEMA locks;
		GRANT USAGE ON SCHEMA locks TO batch, operator;
		GRANT EXECUTE ON FUNCTION locks.zk_lock_break(text, text) TO operator;
		REVOKE EXECUTE ON FUNCTION locks.zk_lock_acquire(text, interval, boolean)
			FROM PUBLIC;
		CREATE TABLE account (id integer PRIMARY KEY, balance integer);
		CREATE TABLE entry (account integer REFERENCES account, amount integer);
		CREATE TRIGGER fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON account
			FOR EACH STATEMENT EXECUTE FUNCTION locks.zk_lock_fence_trigger('/account');
		CREATE VIEW held AS SELECT path, mode, token FROM locks.zk_locks;
		CREATE FUNCTION nightly(due timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN
			IF locks.zk_job_begin('/nightly', due, '0') THEN
				RETURN locks.zk_job_end('/nightly');
			END IF;
			RETURN false;
		END $$;
		SELECT locks.zk_lock_acquire('/account');
		INSERT INTO account VALUES (1, 10), (2, 20);
		INSERT INTO entry VALUES (1, 10), (2, 20);
		SELECT nightly('2026-01-01 03:00:00+00');});
	return;
}

sub answers
{
	my ($node, $database, @queries) = @_;
	return map { $node->safe_psql($database, $_) } @queries;
}

sub jobs_definitions
{
	my ($node, $database) = @_;
	return join "\n", extension_catalog($node, $database), answers(
		$node,
		$database,
		q{SELECT pg_get_viewdef('held'::regclass), pg_get_functiondef('nightly'::regproc)},
		q{SELECT tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'fence'});
}

sub jobs_data
{
	my ($node, $database) = @_;
	return join "\n", answers(
		$node, $database,
		'SELECT path, token, since FROM locks.zk_lock_fences ORDER BY path',
		'SELECT path, fire_time, token, begun_at, ended_at, outcome, role_name, cluster_name, host'
		  . ' FROM locks.zk_job_runs ORDER BY path, fire_time, token',
		'TABLE account ORDER BY id',
		'TABLE entry ORDER BY account');
}

sub jobs_state
{
	return join "\n", jobs_definitions(@_), jobs_data(@_);
}

1;
