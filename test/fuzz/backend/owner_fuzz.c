/*-------------------------------------------------------------------------
 *
 * owner_fuzz.c
 *	  The data of contenders, in a backend (S381).
 *
 * owner.c takes PostgreSQL's functions for JSON, times and encodings, so libFuzzer
 * runs within a backend in single-user mode, as an SQL function:
 *
 *	fuzz_owner(text[])	with the arguments of a program of libFuzzer; ends the backend
 *
 * PostgreSQL as it is installed does not run with AddressSanitizer, which would not see
 * what is palloc'd, anyway.  So data lie before memory that cannot be read.
 *
 * The first byte of the input chooses the encoding of the database; then comes the data.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "fuzz.h"
#include "owner.h"

PG_MODULE_MAGIC;

extern Datum fuzz_owner(PG_FUNCTION_ARGS);
extern int	LLVMFuzzerRunDriver(int *argc, char ***argv,
								int (*callback) (const uint8_t *, size_t));

PG_FUNCTION_INFO_V1(fuzz_owner);

/* Bytes of an input, and the end of a text; a multiple of a page. */
#define MAX_OWNER_INPUT		8192

/* The name of the program, for libFuzzer, and NULL at the end. */
#define MORE_ARGUMENTS	2

static int
encoding_of(uint8_t byte)
{
	static const int encodings[] = {PG_UTF8, PG_LATIN1, PG_SQL_ASCII, PG_EUC_JP};

	return encodings[byte % lengthof(encodings)];
}

/* Text in the encoding of the database. */
static void
check_text(const char *text)
{
	CHECK(pg_verify_mbstr(GetDatabaseEncoding(), text, (int) strlen(text), true));
}

/* One of the values that were read. */
static void
check_value(OwnerField field, Datum value)
{
	char	   *string;

	switch (field)
	{
		case OWNER_PORT:
			CHECK(DatumGetInt32(value) >= 0 && DatumGetInt32(value) <= 65535);
			break;
		case OWNER_PID:
			CHECK(DatumGetInt32(value) >= 0);
			break;
		case OWNER_TOKEN:
			CHECK(DatumGetInt64(value) >= 1);
			break;
		case OWNER_START:
		case OWNER_FIRE_TIME:
			CHECK(IS_VALID_TIMESTAMP(DatumGetTimestampTz(value)));
			break;
		default:
			string = TextDatumGetCString(value);
			CHECK(strlen(string) == VARSIZE_ANY_EXHDR(DatumGetPointer(value)));
			check_text(string);
			break;
	}
}

/* What is said about the owner: a line of text in the encoding of the database. */
static void
check_description(const char *data, bool all)
{
	char	   *description = zklock_owner_describe(data, 1, all);

	CHECK(description[0] != '\0');
	check_text(description);
	for (const unsigned char *c = (unsigned char *) description; *c != '\0'; c++)
		CHECK(*c >= ' ' && *c != 0x7F);
}

/* A copy of some data, with the memory behind it unreadable; valid until the next call. */
static char *
guarded(const void *data, size_t size)
{
	static char *guard;
	const size_t page = 4096;

	CHECK(size <= MAX_OWNER_INPUT);
	if (guard == NULL)
	{
		guard = mmap(NULL, MAX_OWNER_INPUT + page, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(guard != MAP_FAILED);
		guard += MAX_OWNER_INPUT;
		CHECK(mprotect(guard, page, PROT_NONE) == 0);
	}
	memcpy(guard - size, data, size);
	return guard - size;
}

static void
check_owner(const uint8_t *data, size_t size)
{
	Datum		values[OWNER_FIELDS];
	bool		nulls[OWNER_FIELDS];
	char	   *text = pnstrdup((const char *) data, size);

	zklock_owner_fields(guarded(data, size), (int) size, values, nulls);
	for (int i = 0; i < OWNER_FIELDS; i++)
		if (!nulls[i])
		{
			CHECK(strncmp(text, ZK_OWNER_PREFIX, strlen(ZK_OWNER_PREFIX)) == 0);
			check_value(i, values[i]);
		}
	check_text(zklock_foreign_string(guarded(data, size), (int) size));
	text = guarded(text, strlen(text) + 1);
	check_description(text, true);
	check_description(text, false);
}

/* For libFuzzer.  Whatever the data is, nothing is thrown. */
static int
test_one_input(const uint8_t *data, size_t size)
{
	static MemoryContext context;
	MemoryContext before;

	if (size == 0)
		return 0;
	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "fuzz", ALLOCSET_DEFAULT_SIZES);
	before = MemoryContextSwitchTo(context);
	SetDatabaseEncoding(encoding_of(data[0]));
	PG_TRY();
	{
		check_owner(data + 1, size - 1);
	}
	PG_CATCH();
	{
		EmitErrorReport();
		abort();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
	MemoryContextReset(context);
	return 0;
}

Datum
fuzz_owner(PG_FUNCTION_ARGS)
{
	Datum	   *arguments;
	char	  **argv;
	int			argc;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false, TYPALIGN_INT, &arguments,
					  NULL, &argc);
	argv = palloc0(sizeof(char *) * (argc + MORE_ARGUMENTS));
	argv[0] = "owner";
	for (int i = 0; i < argc; i++)
		argv[i + 1] = TextDatumGetCString(arguments[i]);
	argc++;
	LLVMFuzzerRunDriver(&argc, &argv, test_one_input);
	PG_RETURN_VOID();
}
