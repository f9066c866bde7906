/*-------------------------------------------------------------------------
 *
 * stored_settings.c
 *	  Settings that were made before the library was loaded.
 *
 * M2. A setting that was made but cannot be applied is an error, not the
 * default.  PostgreSQL takes any value of a setting that it does not know yet:
 * from the configuration file, a role, a database, or the client that connects.
 * When the library defines the setting, a value that is invalid, or that the
 * client may not set, gives way to the default, with a WARNING.  The default
 * of zklock.paths would admit everything, that of zklock.root other locks, that
 * of zklock.commit_guard weaker checks.  So every call that may acquire a lock
 * fails until the setting is corrected. (S389)
 *
 * This is for what applies to the session from its start.  A SET in the session
 * gives way to that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/memutils.h"

#include "zklock.h"
#include "stored_settings.h"

/* What the names of our settings begin with. */
#define PREFIX	"zklock."

/* Names of settings that were made before; in TopMemoryContext. */
static List *noted = NIL;

/* Returns the setting of that name, or NULL. */
static const struct config_generic *
find_setting(const char *name)
{
	int			count;
	struct config_generic **settings = guc_variables(&count);

	for (int i = 0; i < count; i++)
		if (strcmp(settings[i]->name, name) == 0)
			return settings[i];
	return NULL;
}

/* Notes which settings were made; module load, before they are defined. */
void
zklock_stored_settings_note(void)
{
	int			count;
	struct config_generic **settings = guc_variables(&count);
	MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);

	for (int i = 0; i < count; i++)
		if ((settings[i]->flags & GUC_CUSTOM_PLACEHOLDER) != 0 &&
			settings[i]->reset_source != PGC_S_DEFAULT &&
			strncmp(settings[i]->name, PREFIX, strlen(PREFIX)) == 0)
			noted = lappend(noted, pstrdup(settings[i]->name));
	MemoryContextSwitchTo(caller);
}

/* Checks that they were applied (M2).  Throws 22023. */
void
zklock_stored_settings_check(void)
{
	ListCell   *cell;

	foreach(cell, noted)
	{
		const struct config_generic *setting = find_setting((const char *) lfirst(cell));

		if (setting == NULL || setting->reset_source != PGC_S_DEFAULT ||
			setting->source != PGC_S_DEFAULT)
			noted = foreach_delete_current(noted, cell);
		else
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("could not apply the value that was given for parameter \"%s\"",
							setting->name),
					 errdetail("The value is invalid, or this user may not set it. It was given before zklock was loaded."),
					 errhint("Correct it where it comes from: postgresql.conf, ALTER DATABASE, ALTER ROLE, or the options of the connection. With zklock in \"shared_preload_libraries\", PostgreSQL checks it there.")));
	}
}
