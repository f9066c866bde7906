/*-------------------------------------------------------------------------
 *
 * record_test.c
 *	  The record of a lock as text, and the merge of two.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "record.h"
#include "tap.h"

#define FIRST	"zklock record 1\n"

/* What is a record, and as which text it comes back. */
static const struct
{
	const char *what;
	const char *text;
	const char *back;			/* NULL if it is the same */
}			good[] =

{
	{"an empty one", FIRST, NULL},
	{"a release", FIRST "release 4294967298 _c_aaa-lock-0000000007\n", NULL},
	{"a position", FIRST "position 18446744073709551615 4294967295 FFFFFFFFFFFFFFFF\n", NULL},
	{"a run", FIRST "run -1 9223372036854775807 7 5 1 A0 main on db1\n", NULL},
	{"a run without a runner", FIRST "run 0 -9223372036854775807 0 0 0 0 \n", NULL},
	{"a reset", FIRST "reset -5 4294967298\n", NULL},
	{"runs of two databases, and of a standby",
	FIRST "run 5 6 7 1 1 F x\nrun 5 6 7 2 1 F x\nrun 5 6 7 0 0 0 x\n", NULL},
	{"all of it",
		FIRST "release 1 a\nposition 7 1 1A2B\nposition 8 2 0\nreset 1 2\n"
		"run 5 6 7 1 1 F x y\n",
	NULL},
	{"in another order",
		FIRST "run 5 6 7 1 1 F x\nreset 1 2\nposition 7 1 F\nrelease 1 a\n",
	FIRST "release 1 a\nposition 7 1 F\nreset 1 2\nrun 5 6 7 1 1 F x\n"},
	{"with a line of a later version",
		FIRST "colour blue\nrun 5 6 7 1 1 F x\ncolour\n",
	FIRST "run 5 6 7 1 1 F x\n"}
};

/* What is none, and so an empty one. */
static const struct
{
	const char *what;
	const char *text;
}			bad[] =

{
	{"nothing", ""},
	{"a line without an end", "zklock record 1"},
	{"another version", "zklock record 2\nrun 1 2 7 5 1 F x\n"},
	{"no first line", "run 1 2 7 5 1 F x\n"},
	{"JSON", "{\"run\":1}\n"},
	{"an empty line", FIRST "run 1 2 7 5 1 F x\n\n"},
	{"a last line without an end", FIRST "run 1 2 7 5 1 F x\nrelease 1 a"},
	{"a token that is no number", FIRST "run 1 2 7 5 1 F x\nrelease 1x a\n"},
	{"a token that is too large", FIRST "release 9223372036854775808 a\n"},
	{"a release without a contender", FIRST "release 1\n"},
	{"a release with an empty contender", FIRST "release 1 \n"},
	{"a release with more", FIRST "release 1 a b\n"},
	{"a contender that is too long",
		FIRST "release 1 "
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"},
	{"a negative LSN", FIRST "position 7 1 -1\n"},
	{"an LSN in small letters", FIRST "position 7 1 ff\n"},
	{"an LSN that is too large", FIRST "position 7 1 1FFFFFFFFFFFFFFFF\n"},
	{"a timeline that is too large", FIRST "position 7 4294967296 1\n"},
	{"a position with two spaces", FIRST "position 7  1 1\n"},
	{"a position without an LSN", FIRST "position 7 1\n"},
	{"a position with more", FIRST "position 7 1 1 x\n"},
	{"a position without a number", FIRST "position 7 1 \n"},
	{"a position without anything", FIRST "position\n"},
	{"two positions of one cluster", FIRST "position 7 1 1\nposition 7 1 2\n"},
	{"too many positions",
		FIRST "position 1 1 1\nposition 2 1 1\nposition 3 1 1\n"
		"position 4 1 1\nposition 5 1 1\nposition 6 1 1\nposition 7 1 1\n"
	"position 8 1 1\nposition 9 1 1\n"},
	{"two runs of one database", FIRST "run 1 2 7 5 1 F x\nrun 3 4 7 5 1 F x\n"},
	{"too many runs",
		FIRST "run 1 2 7 1 1 F x\nrun 1 2 7 2 1 F x\nrun 1 2 7 3 1 F x\n"
	"run 1 2 7 4 1 F x\nrun 1 2 7 5 1 F x\n"},
	{"a run with one time", FIRST "run 1\n"},
	{"a run with a sign alone", FIRST "run - 2 7 5 1 F x\n"},
	{"a run of no database", FIRST "run 1 2 x\n"},
	{"a run without a position", FIRST "run 1 2 7 5 x\n"},
	{"a run without an LSN", FIRST "run 1 2 7 5 1\n"},
	{"a run without a place for a runner", FIRST "run 1 2 7 5 1 F\n"},
	{"a run without a cluster", FIRST "run 1 2\n"},
	{"a run of a database that is too large", FIRST "run 1 2 7 4294967296 1 F x\n"},
	{"a run on a timeline that is too large", FIRST "run 1 2 7 5 4294967296 F x\n"},
	{"a run by a cluster that is too large",
	FIRST "run 1 2 18446744073709551616 5 1 F x\n"},
	{"a reset without anything", FIRST "reset\n"},
	{"a reset without a token", FIRST "reset 1\n"},
	{"a reset with more", FIRST "reset 1 2 x\n"},
	{"two resets", FIRST "reset 1 2\nreset 1 2\n"},
	{"a control character", FIRST "run 1 2 7 5 1 F a\tb\n"},
	{"a runner whose name is too long",
		FIRST "run 1 2 7 5 1 F "
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	"aaaaaaaa\n"}
};

/* Read a record from a text. */
static ZkRecord
parse(const char *text)
{
	ZkRecord	record;

	zk_record_parse(text, (int) strlen(text), &record);
	return record;
}

/* Does it read as that text? */
static void
is_record(const ZkRecord *record, const char *text, const char *what)
{
	char		got[ZK_RECORD_SIZE];
	int			len = zk_record_format(record, got);

	is_str(got, text, "%s", what);
	is_int(len, (int) strlen(got), "%s: the length", what);
}

static bool
is_empty(const ZkRecord *record)
{
	static const ZkRecord none;

	return memcmp(record, &none, sizeof(none)) == 0;
}

static void
test_text(void)
{
	ZkRecord	record;
	char		large[ZK_RECORD_MAX_DATA + 1];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
	{
		record = parse(good[i].text);
		is_record(&record, good[i].back ? good[i].back : good[i].text,
				  good[i].what);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		record = parse(bad[i].text);
		ok(is_empty(&record), "%s is no record", bad[i].what);
	}
	zk_record_parse(NULL, -1, &record);
	ok(is_empty(&record), "nor is no data at all");
	zk_record_parse(FIRST "run 1 2 7 5 1 F a\0b\n", (int) sizeof(FIRST "run 1 2 7 5 1 F a\0b\n") - 1,
					&record);
	ok(is_empty(&record), "nor is what has a zero byte");
	memset(large, 'x', sizeof(large));
	memcpy(large, FIRST, strlen(FIRST));
	large[sizeof(large) - 1] = '\n';
	zk_record_parse(large, sizeof(large), &record);
	ok(is_empty(&record), "nor is what is too long");
}

/* The largest record there can be fits. */
static void
test_largest(void)
{
	ZkRecord	record;
	ZkRecord	back;
	char		text[ZK_RECORD_SIZE];
	int			len;

	memset(&record, 0, sizeof(record));
	record.token = INT64_MAX;
	memset(record.contender, 'c', ZK_NAME_SIZE - 1);
	record.has_reset = true;
	record.reset_time = record.reset_token = -INT64_MAX;
	record.run_count = ZK_RECORD_RUNS;
	for (int i = 0; i < ZK_RECORD_RUNS; i++)
	{
		ZkRun	   *run = &record.runs[i];

		run->fire_time = run->ended_at = -INT64_MAX;
		run->system = run->lsn = UINT64_MAX;
		run->timeline = UINT32_MAX;
		run->database = UINT32_MAX - (uint32_t) i;
		memset(run->ended_by, 'w', ZK_RUNNER_SIZE - 1);
	}
	record.position_count = ZK_RECORD_POSITIONS;
	for (int i = 0; i < ZK_RECORD_POSITIONS; i++)
	{
		record.positions[i].system = UINT64_MAX - (uint64_t) i;
		record.positions[i].timeline = UINT32_MAX;
		record.positions[i].lsn = UINT64_MAX;
	}
	len = zk_record_format(&record, text);
	ok(len < ZK_RECORD_SIZE && text[len - 1] == '\n', "the largest record fits");
	zk_record_parse(text, len, &back);
	ok(memcmp(&record, &back, sizeof(record)) == 0, "and comes back");
}

/* Merge two texts, and compare. */
static void
is_merged(const char *text, const char *later, const char *result,
		  const char *what)
{
	ZkRecord	record = parse(text);
	ZkRecord	second = parse(later);

	zk_record_merge(&record, &second);
	is_record(&record, result, what);
}

static void
test_merge(void)
{
	is_merged(FIRST, FIRST "release 1 a\nposition 7 1 F\nrun 1 2 7 5 1 F x\n",
			  FIRST "release 1 a\nposition 7 1 F\nrun 1 2 7 5 1 F x\n",
			  "an empty record takes all");
	is_merged(FIRST "release 1 a\nposition 7 1 F\nrun 1 2 7 5 1 F x\n", FIRST,
			  FIRST "release 1 a\nposition 7 1 F\nrun 1 2 7 5 1 F x\n",
			  "an empty one takes nothing away");
	is_merged(FIRST "position 7 1 F\n", FIRST "position 7 1 10\n",
			  FIRST "position 7 1 10\n", "a higher LSN is later");
	is_merged(FIRST "position 7 1 F\n", FIRST "position 7 1 E\n",
			  FIRST "position 7 1 F\n", "a lower one is not");
	is_merged(FIRST "position 7 1 F\n", FIRST "position 7 2 E\n",
			  FIRST "position 7 2 E\n",
			  "a higher timeline is later, whatever the LSN");
	is_merged(FIRST "position 7 2 E\n", FIRST "position 7 1 F\n",
			  FIRST "position 7 2 E\n", "a lower one is not");
	is_merged(FIRST "position 7 1 F\nposition 8 1 F\n",
			  FIRST "position 8 1 10\n",
			  FIRST "position 8 1 10\nposition 7 1 F\n",
			  "the cluster that wrote last comes first");
	is_merged(FIRST "position 1 1 F\nposition 2 1 F\n",
			  FIRST "position 3 1 F\nposition 4 1 F\n",
			  FIRST "position 3 1 F\nposition 4 1 F\nposition 1 1 F\nposition 2 1 F\n",
			  "in the order that they had");
	is_merged(FIRST "position 1 1 1\nposition 2 1 1\nposition 3 1 1\n"
			  "position 4 1 1\nposition 5 1 1\nposition 6 1 1\n"
			  "position 7 1 1\nposition 8 1 1\n",
			  FIRST "position 9 1 1\n",
			  FIRST "position 9 1 1\nposition 1 1 1\nposition 2 1 1\n"
			  "position 3 1 1\nposition 4 1 1\nposition 5 1 1\n"
			  "position 6 1 1\nposition 7 1 1\n",
			  "the one that wrote least recently makes room");
	is_merged(FIRST "position 1 1 1\nposition 2 1 1\nposition 3 1 1\n"
			  "position 4 1 1\nposition 5 1 1\nposition 6 1 1\n"
			  "position 7 1 1\nposition 8 1 F\n",
			  FIRST "position 8 1 E\nposition 9 1 1\n",
			  FIRST "position 9 1 1\nposition 1 1 1\nposition 2 1 1\n"
			  "position 3 1 1\nposition 4 1 1\nposition 5 1 1\n"
			  "position 6 1 1\nposition 7 1 1\n",
			  "and does not come back with an earlier position");
	is_merged(FIRST "position 1 1 1\nposition 2 1 1\nposition 3 1 1\n"
			  "position 4 1 1\nposition 5 1 1\nposition 6 1 1\n"
			  "position 7 1 1\nposition 8 1 F\n",
			  FIRST "position 8 1 10\nposition 9 1 1\n",
			  FIRST "position 8 1 10\nposition 9 1 1\nposition 1 1 1\n"
			  "position 2 1 1\nposition 3 1 1\nposition 4 1 1\n"
			  "position 5 1 1\nposition 6 1 1\n",
			  "but with a later one");
	is_merged(FIRST "run 5 6 7 1 1 F x\n", FIRST "run 6 1 7 1 1 E y\n",
			  FIRST "run 6 1 7 1 1 E y\n",
			  "a run takes the place of another one of the database");
	is_merged(FIRST "run 5 6 7 1 1 F x\n", FIRST "run 4 9 7 1 2 E y\n",
			  FIRST "run 4 9 7 1 2 E y\n",
			  "also of one that was due later, which was lost");
	is_merged(FIRST "run 5 6 7 1 1 F x\nrun 4 6 8 1 1 F x\n",
			  FIRST "run 4 9 8 1 1 F y\n",
			  FIRST "run 4 9 8 1 1 F y\nrun 5 6 7 1 1 F x\n",
			  "but not of another database's");
	is_merged(FIRST "run 5 6 7 1 1 F x\nrun 5 6 7 2 1 F x\n"
			  "run 4 6 7 3 1 F x\nrun 5 6 7 4 1 F x\n",
			  FIRST "run 3 6 7 5 1 F x\n",
			  FIRST "run 3 6 7 5 1 F x\nrun 5 6 7 1 1 F x\n"
			  "run 5 6 7 2 1 F x\nrun 5 6 7 4 1 F x\n",
			  "the one that was due first makes room");
	is_merged(FIRST "run 5 6 7 1 1 F x\nrun 5 6 7 2 1 F x\n"
			  "run 5 6 7 3 1 F x\nrun 5 6 7 4 1 F x\n",
			  FIRST "run 2 6 7 5 1 F x\nrun 3 6 7 6 1 F x\n",
			  FIRST "run 2 6 7 5 1 F x\nrun 3 6 7 6 1 F x\n"
			  "run 5 6 7 3 1 F x\nrun 5 6 7 4 1 F x\n",
			  "but none of the same release");
	is_merged(FIRST "run 5 6 7 1 1 F x\nrun 4 6 7 2 1 F x\nrun 3 6 7 3 1 F x\n",
			  FIRST "reset 4 9\n",
			  FIRST "reset 4 9\nrun 3 6 7 3 1 F x\n",
			  "a reset takes away what was due then, or later");
	is_merged(FIRST "reset 4 9\n", FIRST "reset 2 10\n",
			  FIRST "reset 2 10\n", "the last one counts");
	is_merged(FIRST "reset 4 9\n", FIRST "run 5 6 7 1 1 F x\n",
			  FIRST "reset 4 9\nrun 5 6 7 1 1 F x\n", "and a run after it");
	is_merged(FIRST "release 5 a\n", FIRST "release 4 b\n",
			  FIRST "release 5 a\n", "the higher token counts");
}

static void
test_others(void)
{
	ZkRecord	record = parse(FIRST "release 5 a\nposition 7 1 F\nposition 8 2 E\nrun 1 2 7 5 1 F x\n");
	ZkRecord	written = parse(FIRST "release 5 a\n");
	char		path[ZK_RECORD_PATH_SIZE];

	is_int((int) zk_record_position(&record, 8)->lsn, 0xE,
		   "the position of a cluster is found");
	ok(zk_record_position(&record, 9) == NULL, "or not");
	ok(zk_record_shows(&record, &written), "a release can be seen");
	written = parse(FIRST "release 5 b\nrun 1 2 7 5 1 F x\n");
	ok(zk_record_shows(&record, &written), "or a run");
	written = parse(FIRST "release 5 b\nrun 1 2 7 4 1 F x\n");
	ok(!zk_record_shows(&record, &written), "not that of another database");
	written = parse(FIRST "release 4 a\nrun 1 3 7 5 1 F x\n");
	ok(!zk_record_shows(&record, &written), "or neither");
	written = parse(FIRST);
	ok(!zk_record_shows(&record, &written), "nothing cannot be seen");
	written = parse(FIRST "release 4 a\nreset 4 9\n");
	ok(!zk_record_shows(&record, &written), "a reset that is not there, neither");
	record = parse(FIRST "release 6 a\nreset 4 9\n");
	ok(zk_record_shows(&record, &written), "one that is there can be seen");
	zk_record_path("/zklock/jobs/nightly", strlen("/zklock"), path);
	is_str(path, "/zklock/.zklock/records/jobs/nightly", "the path of a record");
}

/* Each part of what was written has to be the same in the record. */
static void
test_parts(void)
{
	const ZkRecord release = {.token = 7,.contender = "one"};
	const ZkRecord reset = {.has_reset = true,.reset_time = 8,.reset_token = 9};
	ZkRecord	written = release;

	ok(zk_record_shows(&release, &written), "a release is shown");
	written.token = 6;
	ok(!zk_record_shows(&release, &written), "with its token");
	written = release;
	strcpy(written.contender, "two");
	ok(!zk_record_shows(&release, &written), "and its contender");

	written = reset;
	ok(zk_record_shows(&reset, &written), "a reset is shown");
	written.reset_time = 7;
	ok(!zk_record_shows(&reset, &written), "with its time");
	written = reset;
	written.reset_token = 8;
	ok(!zk_record_shows(&reset, &written), "and its token");
	written = reset;
	written.has_reset = false;
	ok(!zk_record_shows(&reset, &written), "if it is one");
}

/* The znodes above a path are tried from below, and made from above. */
static void
test_above(void)
{
	static const char path[] = "/zk/a/b/c";
	size_t		root = strlen("/zk");
	size_t		len = zk_path_above(path, strlen(path));

	is_int((int) len, (int) strlen("/zk/a/b"), "the parent");
	is_int((int) zk_path_above("/a", 2), 0, "one without a parent");
	is_int((int) zk_path_above("a", 1), 0, "or without a slash");
	ok(zk_path_next_above(path, root, &len, false) && len == strlen("/zk/a"),
	   "its parent is missing: that one first");
	ok(!zk_path_next_above(path, root, &len, false) && len == root,
	   "the root is missing: it is not made");
	len = strlen("/zk/a");
	ok(zk_path_next_above(path, root, &len, true) && len == strlen("/zk/a/b"),
	   "one is made: the next one");
	ok(!zk_path_next_above(path, root, &len, true) && len == strlen("/zk/a/b"),
	   "all are made");
}

/* Whatever the text is, it is read without harm, and what was read comes back. */
static void
test_random(void)
{
	static const char pieces[][24] = {
		FIRST, "run ", "position ", "release ", "1", " ", "\n", "-", "F",
		"9223372036854775807", "\t", "\xFF", "x", "position 7 1 1\n",
		"run 1 2 7 5 1 F x\n", "release 3 c\n"
	};
	int			wrong = 0;
	int			filled = 0;

	for (int round = 0; round < 20000; round++)
	{
		char		text[ZK_RECORD_SIZE] = FIRST;
		char		once[ZK_RECORD_SIZE];
		char		twice[ZK_RECORD_SIZE];
		ZkRecord	record;

		for (int i = rand() % 12; i > 0; i--)
			strcat(text, pieces[rand() % (int) (sizeof(pieces) / sizeof(pieces[0]))]);
		record = parse(text);
		filled += !is_empty(&record);
		zk_record_format(&record, once);
		record = parse(once);
		zk_record_format(&record, twice);
		wrong += strcmp(once, twice) != 0;
	}
	is_int(wrong, 0, "any text is a record or none");
	ok(filled > 100, "%d of them had something", filled);
}

int
main(void)
{
	test_text();
	test_largest();
	test_merge();
	test_others();
	test_parts();
	test_above();
	test_random();
	return done_testing();
}
