/*-------------------------------------------------------------------------
 *
 * owner.c
 *	  What a contender's data says about its owner: writing and reading it.
 *
 * It is one flat JSON object, written by zklock_owner_data(); but any client of
 * the ensemble can have written anything.  So nothing here throws for what it
 * reads.  Nor does PostgreSQL's JSON parser, with two exceptions, for which the
 * text is checked first: nesting too deep for the stack, and an escaped
 * character that the encoding of the database does not have.
 *
 * W6. What contenders say about their owners is shown to administrators, and
 * decides nothing but W3.
 *
 * V6. zk_lock_waits shows what pg_stat_activity would: to all roles that a
 * session waits; to members of the same role and of pg_read_all_stats for what;
 * and what other contenders say about their owners (W6) only to the latter.
 * zk_blocking_pids() returns pids only, as pg_blocking_pids() does.  Messages
 * follow the same rule: details of another session are for members of
 * pg_read_all_stats, or of the role that a process of this instance has logged
 * in as; others read "another session".  The server log has all of it
 * (errdetail_log).  This file puts both into words; data is never shown raw.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>
#include <unistd.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type_d.h"
#include "commands/dbcommands.h"
#include "common/jsonapi.h"
#include "mb/pg_wchar.h"
#include "postmaster/postmaster.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "owner.h"

/* Our own data is never longer; see zklock_owner_data(). */
#define MAX_OWNER_DATA	4096

/* Nor nested more deeply, whatever later versions may add. */
#define MAX_NESTING		8

typedef enum FieldType
{
	FIELD_TEXT,
	FIELD_PORT,
	FIELD_PID,
	FIELD_INT64,
	FIELD_TIME,
	FIELD_TRUE
} FieldType;

/* The members of the object, in the order of OwnerField. */
static const struct
{
	const char *key;
	FieldType	type;
}			fields[OWNER_FIELDS] = {
	{"cluster", FIELD_TEXT},
	{"host", FIELD_TEXT},
	{"port", FIELD_PORT},
	{"database", FIELD_TEXT},
	{"pid", FIELD_PID},
	{"user", FIELD_TEXT},
	{"application_name", FIELD_TEXT},
	{"note", FIELD_TEXT},
	{"start", FIELD_TIME},
	{"instance", FIELD_TEXT},
	{"revoked", FIELD_TRUE},
	{"waited", FIELD_INT64},
	{"fire_time", FIELD_TIME},
	{"token", FIELD_INT64}
};

char	   *zklock_note = NULL;

/* The name of this host; empty if it was not asked for. */
static char host[64 + 1];

/* GUC check hook: a note fits into a contender's data (ZK_OWNER_SIZE). */
bool
zklock_check_note(char **newval, void **extra, GucSource source)
{
	(void) extra;
	(void) source;
	if (strlen(*newval) < NOTE_SIZE)
		return true;
	GUC_check_errdetail("The note must be shorter than %d bytes.", NOTE_SIZE);
	return false;
}

/*
 * Converts text between encodings, where SQL_ASCII stands for the other one.
 * Returns a palloc'd string; NULL if the text is invalid, has no equivalent, or
 * is too long (256 MB).  Needs a transaction.
 */
char *
zklock_convert(const char *text, int length, int from, int to)
{
	Size		size = (Size) length * MAX_CONVERSION_GROWTH + 1;
	char	   *result;
	Oid			conversion;

	if (!AllocSizeIsValid(size))
		return NULL;
	if (from == PG_SQL_ASCII)
		from = to;
	else if (to == PG_SQL_ASCII)
		to = from;
	if (!pg_verify_mbstr(from, text, length, true))
		return NULL;
	if (from == to)
		return pnstrdup(text, length);

	conversion = FindDefaultConversionProc(from, to);
	if (!OidIsValid(conversion))
		return NULL;
	result = palloc(size);
	if (pg_do_encoding_conversion_buf(conversion, from, to,
									  (unsigned char *) unconstify(char *, text),
									  length, (unsigned char *) result, size,
									  true) == length)
		return result;
	pfree(result);
	return NULL;
}

/*
 * Returns a name in UTF-8 without control characters, palloc'd.  As other
 * databases may have other encodings, invalid bytes become '?'.
 */
char *
zklock_clean_name(const char *name)
{
	char	   *result = zklock_convert(name, (int) strlen(name),
										GetDatabaseEncoding(), PG_UTF8);
	bool		ascii_only = result == NULL;

	if (ascii_only)
		result = pstrdup(name);
	for (unsigned char *c = (unsigned char *) result; *c != '\0'; c++)
		if (*c < 0x20 || *c == 0x7F || (ascii_only && *c > 0x7F))
			*c = '?';
	return result;
}

/* Appends a name, NULL for "", to the JSON object being built in buf. */
static void
append_name(StringInfo buf, const char *key, const char *name)
{
	appendStringInfo(buf, "%c\"%s\":", buf->len == 0 ? '{' : ',', key);
	escape_json(buf, name != NULL ? zklock_clean_name(name) : "");
}

/*
 * Returns the name of this host, as it was when it was first asked for; static.
 * Each acquire needs it, so it is not asked for each time.  Where the host is
 * renamed, this shows its old name until zklock_forget_host().
 */
const char *
zklock_host(void)
{
	if (host[0] == '\0' && gethostname(host, sizeof(host)) != 0)
		host[0] = '\0';
	host[sizeof(host) - 1] = '\0';
	return host;
}

/* A client is about to start: it is to have the name that the host has now. */
void
zklock_forget_host(void)
{
	host[0] = '\0';
}

/*
 * Returns what identifies this running server, and so its process ids; static.
 * A standby shares its primary's system identifier, so the postmaster's start
 * time and process id are included.
 */
const char *
zklock_instance(void)
{
	static char instance[64];

	if (instance[0] == '\0')
		snprintf(instance, sizeof(instance), "%016llx-%llx-%x",
				 (unsigned long long) GetSystemIdentifier(),
				 (unsigned long long) PgStartTime, (unsigned) PostmasterPid);
	return instance;
}

/*
 * Returns the data of our contenders: a line of JSON in UTF-8, which with all
 * that is added to it is shorter than ZK_OWNER_SIZE (each name may become twice
 * as long), and begins with ZK_OWNER_PREFIX.  Palloc'd.  Needs a transaction.
 */
char *
zklock_owner_data(void)
{
	StringInfoData buf;
	char		start[MAXDATELEN + 1];
	int			utc = 0;

	initStringInfo(&buf);
	append_name(&buf, "cluster", cluster_name);
	append_name(&buf, "host", zklock_host());
	appendStringInfo(&buf, ",\"port\":%d", PostPortNumber);
	if (OidIsValid(MyDatabaseId))
		append_name(&buf, "database", get_database_name(MyDatabaseId));
	appendStringInfo(&buf, ",\"pid\":%d", MyProcPid);
	if (OidIsValid(GetSessionUserId()))
		append_name(&buf, "user", GetUserNameFromId(GetSessionUserId(), true));
	append_name(&buf, "application_name", application_name);
	if (zklock_note[0] != '\0')
		append_name(&buf, "note", zklock_note);
	JsonEncodeDateTime(start, TimestampTzGetDatum(GetCurrentTimestamp()),
					   TIMESTAMPTZOID, &utc);
	appendStringInfo(&buf, ",\"start\":\"%s\",\"instance\":\"%s\"}", start,
					 zklock_instance());
	return buf.data;
}

/* The state of the parser. */
typedef struct OwnerParse
{
	JsonLexContext *lex;
	int			field;			/* the current one; -1 for none of ours */
	Datum	   *values;
	bool	   *nulls;
} OwnerParse;

/* Converts UTF-8 to the database's encoding, or to hexadecimal; palloc'd. */
char *
zklock_foreign_string(const char *data, int length)
{
	char	   *converted = zklock_convert(data, length, PG_UTF8,
										   GetDatabaseEncoding());
	char	   *hex;

	if (converted != NULL)
		return converted;
	hex = palloc(2 + 2 * length + 1);
	strcpy(hex, "\\x");
	hex[2 + hex_encode(data, length, hex + 2)] = '\0';
	return hex;
}

/* Parses digits.  Returns what follows them, NULL if there are too few. */
static const char *
parse_digits(const char *text, int least, int most, int *number)
{
	int			count = 0;

	*number = 0;
	while (text != NULL && count < most && isdigit((unsigned char) *text))
	{
		*number = *number * 10 + (*text++ - '0');
		count++;
	}
	return count >= least ? text : NULL;
}

/* Returns what follows a separator; NULL if there is none. */
static const char *
skip_separator(const char *text, char separator)
{
	return text != NULL && *text == separator ? text + 1 : NULL;
}

/* Parses the fraction of a second, which may be missing, into microseconds. */
static const char *
parse_fraction(const char *text, int *fraction)
{
	const char *end;

	*fraction = 0;
	if (text == NULL || *text != '.')
		return text;
	end = parse_digits(text + 1, 1, MAX_TIMESTAMP_PRECISION, fraction);
	for (const char *c = end; c != NULL && c < text + 1 + MAX_TIMESTAMP_PRECISION; c++)
		*fraction *= 10;
	return end;
}

/*
 * Parses a point in time in JSON's form, 2026-01-02T03:04:05.678+00:00.
 * Returns false if it is none.  PostgreSQL's parser takes more, and throws for
 * what looks like the name of a time zone.
 */
static bool
parse_time(const char *text, Datum *value)
{
	struct pg_tm tm = {0};
	int			fraction;
	int			hours;
	int			minutes;
	int			zone;
	TimestampTz result;

	text = parse_digits(text, 4, 6, &tm.tm_year);
	text = parse_digits(skip_separator(text, '-'), 2, 2, &tm.tm_mon);
	text = parse_digits(skip_separator(text, '-'), 2, 2, &tm.tm_mday);
	text = parse_digits(skip_separator(text, 'T'), 2, 2, &tm.tm_hour);
	text = parse_digits(skip_separator(text, ':'), 2, 2, &tm.tm_min);
	text = parse_digits(skip_separator(text, ':'), 2, 2, &tm.tm_sec);
	text = parse_fraction(text, &fraction);
	if (text == NULL || (*text != '+' && *text != '-'))
		return false;
	zone = *text == '+' ? -SECS_PER_MINUTE : SECS_PER_MINUTE;	/* to the west */
	text = parse_digits(text + 1, 2, 2, &hours);
	text = parse_digits(skip_separator(text, ':'), 2, 2, &minutes);
	if (text == NULL || *text != '\0' ||
		ValidateDate(DTK_DATE_M, false, false, false, &tm) != 0 ||
		tm.tm_hour >= HOURS_PER_DAY || tm.tm_min >= MINS_PER_HOUR ||
		tm.tm_sec >= SECS_PER_MINUTE)
		return false;
	zone *= hours * MINS_PER_HOUR + minutes;
	if (tm2timestamp(&tm, fraction, &zone, &result) != 0)
		return false;
	*value = TimestampTzGetDatum(result);
	return true;
}

/* Parses a number from least to greatest.  Returns false if it is none. */
static bool
parse_number(const char *text, int64 least, int64 greatest, int64 *number)
{
	char	   *end;

	errno = 0;
	*number = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0' && *number >= least &&
		*number <= greatest;
}

/* A member of an object begins.  An earlier value of that name is dropped. */
static JSON_ACTION_RESULT
field_start(void *state, char *name, bool isnull)
{
	OwnerParse *parse = state;

	(void) isnull;
	parse->field = -1;
	for (int i = 0; parse->lex->lex_level == 1 && i < OWNER_FIELDS; i++)
		if (strcmp(name, fields[i].key) == 0)
		{
			parse->field = i;
			parse->nulls[i] = true;
		}
	JSON_ACTION_DONE;
}

/* Stores a value, if it is of one of our members and has its type. */
static JSON_ACTION_RESULT
scalar(void *state, char *token, JsonTokenType type)
{
	OwnerParse *parse = state;
	int			field = parse->lex->lex_level == 1 ? parse->field : -1;
	FieldType	wanted = field < 0 ? FIELD_TEXT : fields[field].type;
	JsonTokenType expected = wanted == FIELD_TEXT || wanted == FIELD_TIME ?
	JSON_TOKEN_STRING : wanted == FIELD_TRUE ? JSON_TOKEN_TRUE : JSON_TOKEN_NUMBER;
	Datum		value = (Datum) 0;
	bool		good = true;
	int64		number;

	if (field < 0)
		JSON_ACTION_DONE;
	if (type != expected)
		good = false;
	else if (wanted == FIELD_TRUE)
		value = BoolGetDatum(true);
	else if (wanted == FIELD_TEXT)
		value = CStringGetTextDatum(token);
	else if (wanted == FIELD_TIME)
		good = parse_time(token, &value);
	else if (wanted == FIELD_INT64)
	{
		good = parse_number(token, 1, PG_INT64_MAX, &number);
		value = Int64GetDatum(number);
	}
	else
	{
		good = parse_number(token, 0, wanted == FIELD_PORT ?
							PG_UINT16_MAX : PG_INT32_MAX, &number);
		value = Int32GetDatum((int32) number);
	}
	parse->values[field] = value;
	parse->nulls[field] = !good;
	JSON_ACTION_DONE;
}

/* Returns true if nesting might exhaust the parser's stack, or for no JSON. */
static bool
nested_deeply(const char *text, int length)
{
	JsonLexContext *lex = json_lex_context(text, length, GetDatabaseEncoding(),
										   false);
	int			depth = 0;

	do
	{
		if (json_lex(lex) != JSON_SUCCESS)
			return true;
		if (lex->token_type == JSON_TOKEN_OBJECT_START ||
			lex->token_type == JSON_TOKEN_ARRAY_START)
			depth++;
		else if (lex->token_type == JSON_TOKEN_OBJECT_END ||
				 lex->token_type == JSON_TOKEN_ARRAY_END)
			depth--;
	} while (lex->token_type != JSON_TOKEN_END && depth <= MAX_NESTING);
	return depth > MAX_NESTING;
}

/* Returns true for an escape that the database's encoding may not have. */
static bool
escapes_foreign(const char *text)
{
	if (GetDatabaseEncoding() == PG_UTF8)
		return false;
	for (const char *c = strchr(text, '\\'); c != NULL; c = strchr(c + 1, '\\'))
	{
		c++;
		if (*c == '\0')
			break;
		if (*c == 'u' && (strncmp(c, "u00", 3) != 0 || c[3] < '0' || c[3] > '7'))
			return true;
	}
	return false;
}

/*
 * Fills in the OWNER_FIELDS members of some data.  Null is what is missing or
 * of the wrong type; everything, if the data is another program's, or no JSON.
 * Throws only 53200.
 */
void
zklock_owner_fields(const char *data, int length, Datum *values, bool *nulls)
{
	OwnerParse	parse = {.field = -1,.values = values,.nulls = nulls};

	JsonSemAction actions = {
		.semstate = &parse,
		.object_field_start = field_start,
		.scalar = scalar
	};
	char	   *text;

	memset(nulls, true, sizeof(bool) * OWNER_FIELDS);
	memset(values, 0, sizeof(Datum) * OWNER_FIELDS);
	if (length > MAX_OWNER_DATA || length < (int) strlen(ZK_OWNER_PREFIX) ||
		memcmp(data, ZK_OWNER_PREFIX, strlen(ZK_OWNER_PREFIX)) != 0)
		return;
	text = zklock_convert(data, length, PG_UTF8, GetDatabaseEncoding());
	if (text == NULL || escapes_foreign(text) ||
		nested_deeply(text, (int) strlen(text)))
		return;
	parse.lex = json_lex_context(text, (int) strlen(text), GetDatabaseEncoding(),
								 true);
	if (pg_parse_json(parse.lex, &actions) != JSON_SUCCESS)
		memset(nulls, true, sizeof(bool) * OWNER_FIELDS);
}

/* Appends what an owner says of itself, without control characters. */
static void
append_text(StringInfo buf, const char *format, Datum value)
{
	char	   *string = TextDatumGetCString(value);

	for (unsigned char *c = (unsigned char *) string; *c != '\0'; c++)
		if (*c < 0x20 || *c == 0x7F)
			*c = '?';
	appendStringInfo(buf, format, string);
}

/* Appends a description of a process from its data, which has the pid. */
void
zklock_owner_append(StringInfo buf, const Datum *values, const bool *nulls)
{
	static const struct
	{
		int			field;
		const char *format;
	}			parts[] = {
		{OWNER_DATNAME, "database \"%s\""},
		{OWNER_USENAME, "user \"%s\""},
		{OWNER_APPLICATION, "application \"%s\""},
		{OWNER_NOTE, "note \"%s\""}
	};
	const char *separator = " (";

	appendStringInfo(buf, "process %d", DatumGetInt32(values[OWNER_PID]));
	if (!nulls[OWNER_CLUSTER] &&
		VARSIZE_ANY_EXHDR(DatumGetPointer(values[OWNER_CLUSTER])) > 0)
		append_text(buf, " of cluster \"%s\"", values[OWNER_CLUSTER]);
	if (!nulls[OWNER_HOST] && !nulls[OWNER_PORT])
	{
		append_text(buf, " (%s", values[OWNER_HOST]);
		appendStringInfo(buf, ":%d", DatumGetInt32(values[OWNER_PORT]));
		separator = ", ";
	}
	for (int i = 0; i < (int) lengthof(parts); i++)
	{
		Datum		value = values[parts[i].field];

		if (nulls[parts[i].field] || VARSIZE_ANY_EXHDR(DatumGetPointer(value)) == 0)
			continue;
		appendStringInfoString(buf, separator);
		append_text(buf, parts[i].format, value);
		separator = ", ";
	}
	if (strcmp(separator, ", ") == 0)
		appendStringInfoChar(buf, ')');
}

/*
 * Returns true if the current user may see some data: a member of
 * pg_read_all_stats, or of the role of the process if that is of this instance.
 */
static bool
may_see(const Datum *values, const bool *nulls)
{
	PGPROC	   *proc;

	if (has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS))
		return true;
	if (nulls[OWNER_PID] || nulls[OWNER_INSTANCE] ||
		strcmp(TextDatumGetCString(values[OWNER_INSTANCE]),
			   zklock_instance()) != 0)
		return false;
	proc = BackendPidGetProc(DatumGetInt32(values[OWNER_PID]));
	return proc != NULL && OidIsValid(proc->roleId) &&
		has_privs_of_role(GetUserId(), proc->roleId);
}

/*
 * Describes the owner of a contender by its data, which may be cut short, and
 * its ZooKeeper session, 0 if unknown: as far as the current user may see, or
 * all of it, for the server log.  Says nothing outside a transaction.
 * Palloc'd.
 */
char *
zklock_owner_describe(const char *data, int64 session_id, bool all)
{
	Datum		values[OWNER_FIELDS];
	bool		nulls[OWNER_FIELDS];
	StringInfoData buf;

	/* catalogs tell what may be seen, and convert */
	if (!IsTransactionState())
		return pstrdup("another session");
	zklock_owner_fields(data, (int) strlen(data), values, nulls);
	if (!all && !may_see(values, nulls))
		return pstrdup("another session");
	initStringInfo(&buf);
	if (!nulls[OWNER_PID])
		zklock_owner_append(&buf, values, nulls);
	else if (session_id != 0)
		appendStringInfo(&buf, "a client with ZooKeeper session 0x%llx",
						 (unsigned long long) session_id);
	else
		appendStringInfoString(&buf, "another client");
	return buf.data;
}

/* Says who broke a contender, as zklock_owner_describe() of its data by. */
char *
zklock_broken_sentence(const char *by, bool all)
{
	return psprintf("Its contender was broken by %s.",
					zklock_owner_describe(by, 0, all));
}
