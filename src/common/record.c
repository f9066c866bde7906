/*-------------------------------------------------------------------------
 *
 * record.c
 *	  The record of a lock as text, and the merge of two.
 *
 * The last holders of a lock leave it to the next ones in a znode apart from
 * the queue, with the lines
 *
 *	zklock record 1
 *	release <token> <contender>
 *	position <system identifier> <timeline> <LSN>
 *	reset <fire time> <token>
 *	run <fire time> <ended at> <system identifier> <database> <timeline>
 *		<LSN> <by>
 *
 * There are up to ZK_RECORD_POSITIONS positions and ZK_RECORD_RUNS runs; only
 * the first line is required.  Times are microseconds since 2000, as in
 * PostgreSQL; the LSN is hexadecimal.  Lines that begin with another word are
 * left to later versions.
 *
 * Any client of the ensemble can have written anything: what is no record is
 * taken for an empty one.  All functions are pure: no I/O, no state, any
 * thread.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

#define FIRST_LINE	"zklock record 1"

/*
 * Writes the path of the record of a lock node, which begins with a root of
 * root_len bytes, into ZK_RECORD_PATH_SIZE bytes.
 */
void
zk_record_path(const char *node, size_t root_len, char *path)
{
	snprintf(path, ZK_RECORD_PATH_SIZE, "%.*s" ZK_RECORDS_NODE "%s",
			 (int) root_len, node, node + root_len);
}

/* Returns the length of the parent of a path of len bytes. */
size_t
zk_path_above(const char *path, size_t len)
{
	while (len > 0 && path[--len] != '/')
		;
	return len;
}

/*
 * Steps through the znodes above a path as they are created: the one with the
 * first *len bytes exists (there), or its parent is missing.  Moves *len one
 * down or up.  Returns false when all exist, or when the root is missing, and
 * so the lock node, too, which is not created here.
 */
bool
zk_path_next_above(const char *path, size_t root_len, size_t *len, bool there)
{
	if (!there)
		*len = zk_path_above(path, *len);
	else if (*len == zk_path_above(path, strlen(path)))
		return false;
	else
		*len += 1 + strcspn(path + *len + 1, "/");
	return *len > root_len;
}

/*
 * Takes a word, up to a space or the end, off the line; NULL if there is none.
 */
static char *
take_word(char **line)
{
	char	   *word = *line;
	char	   *end;

	if (word == NULL || *word == '\0' || *word == ' ')
		return NULL;
	end = strchr(word, ' ');
	if (end != NULL)
		*end++ = '\0';
	*line = end;
	return word;
}

/*
 * The same for an unsigned number up to greatest.  Returns false if it is none.
 */
static bool
take_number(char **line, int base, uint64_t greatest, uint64_t *number)
{
	const char *digits = base == 16 ? "0123456789ABCDEF" : "0123456789";
	const char *word = take_word(line);
	unsigned long long value;

	if (word == NULL || word[strspn(word, digits)] != '\0')
		return false;
	errno = 0;
	value = strtoull(word, NULL, base);
	*number = value;
	return errno == 0 && value <= greatest;
}

/* The same for a number that may be negative. */
static bool
take_signed(char **line, int64_t *number)
{
	bool		negative = *line != NULL && **line == '-';
	uint64_t	value;

	if (negative)
		(*line)++;
	if (!take_number(line, 10, INT64_MAX, &value))
		return false;
	*number = negative ? -(int64_t) value : (int64_t) value;
	return true;
}

/* Parses what follows "release". */
static bool
parse_release(char *line, ZkRecord *record)
{
	const char *name;

	if (!take_signed(&line, &record->token))
		return false;
	name = take_word(&line);
	if (name == NULL || line != NULL || strlen(name) >= ZK_NAME_SIZE)
		return false;
	strcpy(record->contender, name);
	return true;
}

/* Parses what follows "position". */
static bool
parse_position(char *line, ZkRecord *record)
{
	ZkPosition *position = &record->positions[record->position_count];
	uint64_t	timeline;

	if (record->position_count == ZK_RECORD_POSITIONS ||
		!take_number(&line, 10, UINT64_MAX, &position->system) ||
		!take_number(&line, 10, UINT32_MAX, &timeline) ||
		!take_number(&line, 16, UINT64_MAX, &position->lsn) || line != NULL)
		return false;
	position->timeline = (uint32_t) timeline;
	for (int i = 0; i < record->position_count; i++)
		if (record->positions[i].system == position->system)
			return false;
	record->position_count++;
	return true;
}

/* Parses what follows "reset". */
static bool
parse_reset(char *line, ZkRecord *record)
{
	record->has_reset = !record->has_reset &&
		take_signed(&line, &record->reset_time) &&
		take_signed(&line, &record->reset_token) && line == NULL;
	return record->has_reset;
}

/* Returns the run of a database in a record, or NULL. */
static ZkRun *
find_run(ZkRecord *record, const ZkRun *run)
{
	for (int i = 0; i < record->run_count; i++)
		if (record->runs[i].system == run->system &&
			record->runs[i].database == run->database)
			return &record->runs[i];
	return NULL;
}

/* Parses what follows "run"; its end, the runner, may be empty. */
static bool
parse_run(char *line, ZkRecord *record)
{
	ZkRun		run;
	uint64_t	database;
	uint64_t	timeline;

	memset(&run, 0, sizeof(run));
	if (!take_signed(&line, &run.fire_time) ||
		!take_signed(&line, &run.ended_at) ||
		!take_number(&line, 10, UINT64_MAX, &run.system) ||
		!take_number(&line, 10, UINT32_MAX, &database) ||
		!take_number(&line, 10, UINT32_MAX, &timeline) ||
		!take_number(&line, 16, UINT64_MAX, &run.lsn) ||
		line == NULL || strlen(line) >= ZK_RUNNER_SIZE)
		return false;
	for (const char *c = line; *c != '\0'; c++)
		if ((unsigned char) *c < ' ' || *c == 0x7F)
			return false;
	strcpy(run.ended_by, line);
	run.database = (uint32_t) database;
	run.timeline = (uint32_t) timeline;
	if (record->run_count == ZK_RECORD_RUNS || find_run(record, &run) != NULL)
		return false;
	record->runs[record->run_count++] = run;
	return true;
}

/* Parses one line after the first.  Returns false if it is none of a record. */
static bool
parse_line(char *line, ZkRecord *record)
{
	const char *word = take_word(&line);

	if (word == NULL)
		return false;
	if (strcmp(word, "release") == 0)
		return parse_release(line, record);
	if (strcmp(word, "position") == 0)
		return parse_position(line, record);
	if (strcmp(word, "reset") == 0)
		return parse_reset(line, record);
	if (strcmp(word, "run") == 0)
		return parse_run(line, record);
	return true;
}

/* Parses all lines.  Returns false as above, or if the last one has no end. */
static bool
parse_lines(char *text, ZkRecord *record)
{
	bool		first = true;
	bool		good = true;

	for (char *end; good && *text != '\0'; text = end + 1)
	{
		end = strchr(text, '\n');
		if (end == NULL)
			return false;
		*end = '\0';
		good = first ? strcmp(text, FIRST_LINE) == 0 :
			parse_line(text, record);
		first = false;
	}
	return good;
}

/*
 * Reads a record from the data of a znode, len bytes; an empty one if it is
 * none.
 */
void
zk_record_parse(const char *data, int len, ZkRecord *record)
{
	char		text[ZK_RECORD_MAX_DATA + 1];

	memset(record, 0, sizeof(*record));
	if (data == NULL || len <= 0 || len > ZK_RECORD_MAX_DATA ||
		memchr(data, '\0', (size_t) len) != NULL)
		return;
	memcpy(text, data, (size_t) len);
	text[len] = '\0';
	if (!parse_lines(text, record))
		memset(record, 0, sizeof(*record));
}

/* Writes a record as text into ZK_RECORD_SIZE bytes.  Returns its length. */
int
zk_record_format(const ZkRecord *record, char *text)
{
	int			len = snprintf(text, ZK_RECORD_SIZE, FIRST_LINE "\n");

	if (record->contender[0] != '\0')
		len += snprintf(text + len, ZK_RECORD_SIZE - (size_t) len,
						"release %" PRId64 " %s\n", record->token,
						record->contender);
	for (int i = 0; i < record->position_count; i++)
		len += snprintf(text + len, ZK_RECORD_SIZE - (size_t) len,
						"position %" PRIu64 " %" PRIu32 " %" PRIX64 "\n",
						record->positions[i].system,
						record->positions[i].timeline,
						record->positions[i].lsn);
	if (record->has_reset)
		len += snprintf(text + len, ZK_RECORD_SIZE - (size_t) len,
						"reset %" PRId64 " %" PRId64 "\n", record->reset_time,
						record->reset_token);
	for (int i = 0; i < record->run_count; i++)
		len += snprintf(text + len, ZK_RECORD_SIZE - (size_t) len,
						"run %" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu32
						" %" PRIu32 " %" PRIX64 " %s\n",
						record->runs[i].fire_time, record->runs[i].ended_at,
						record->runs[i].system, record->runs[i].database,
						record->runs[i].timeline, record->runs[i].lsn,
						record->runs[i].ended_by);
	return len;
}

/* Returns the position of a cluster in a record, or NULL. */
const ZkPosition *
zk_record_position(const ZkRecord *record, uint64_t system)
{
	for (int i = 0; i < record->position_count; i++)
		if (record->positions[i].system == system)
			return &record->positions[i];
	return NULL;
}

/*
 * Returns true if a position of a cluster is later than another one.  The
 * higher timeline counts, whatever the LSNs are: what it forked off from may be
 * lost.
 */
static bool
is_later(const ZkPosition *position, const ZkPosition *other)
{
	if (position->timeline != other->timeline)
		return position->timeline > other->timeline;
	return position->lsn > other->lsn;
}

/*
 * Returns true if a record has no position of the cluster, or an earlier one.
 */
static bool
is_news(const ZkRecord *record, const ZkPosition *position)
{
	const ZkPosition *known = zk_record_position(record, position->system);

	return known == NULL || is_later(position, known);
}

/*
 * Puts a position first into a record, in place of the cluster's earlier one.
 * Replaces the last one if there is no room.
 */
static void
add_position(ZkRecord *record, const ZkPosition *position)
{
	ZkPosition *positions = record->positions;
	int			place = 0;

	while (place < record->position_count &&
		   positions[place].system != position->system)
		place++;
	if (place == ZK_RECORD_POSITIONS)
		place--;
	else if (place == record->position_count)
		record->position_count++;
	memmove(&positions[1], &positions[0], (size_t) place * sizeof(ZkPosition));
	positions[0] = *position;
}

/*
 * Returns the run with the earliest fire time, which makes room for another.
 * Passes over the first ones, "added", which came with the same release.
 */
static ZkRun *
earliest_run(ZkRecord *record, int added)
{
	ZkRun	   *earliest = &record->runs[added];

	for (int i = added + 1; i < record->run_count; i++)
		if (record->runs[i].fire_time < earliest->fire_time)
			earliest = &record->runs[i];
	return earliest;
}

/*
 * Puts a run first into a record, in place of that of the same database: its
 * writer holds the lock, and so knows better.  Replaces the earliest one if
 * there is no room, but none of the first ones, "added".
 */
static void
add_run(ZkRecord *record, const ZkRun *run, int added)
{
	ZkRun	   *runs = record->runs;
	ZkRun	   *old = find_run(record, run);

	if (old == NULL)
		old = record->run_count < ZK_RECORD_RUNS ?
			&runs[record->run_count++] : earliest_run(record, added);
	memmove(&runs[1], &runs[0], (size_t) (old - runs) * sizeof(ZkRun));
	runs[0] = *run;
}

/* Removes runs that were due at that time or later. */
static void
reset_runs(ZkRecord *record, int64_t reset_time, int64_t token)
{
	int			kept = 0;

	for (int i = 0; i < record->run_count; i++)
		if (record->runs[i].fire_time < reset_time)
			record->runs[kept++] = record->runs[i];
	memset(&record->runs[kept], 0,
		   (size_t) (record->run_count - kept) * sizeof(ZkRun));
	record->run_count = kept;
	record->has_reset = true;
	record->reset_time = reset_time;
	record->reset_token = token;
}

/*
 * Adds to a record what a later release says: each cluster's later position,
 * each database's run, and the release with the higher token.  Compares the
 * positions with those before the merge: one that made room for another must
 * not come back with what was earlier.
 */
void
zk_record_merge(ZkRecord *record, const ZkRecord *later)
{
	const ZkRecord before = *record;
	int			added = 0;

	for (int i = later->position_count - 1; i >= 0; i--)
		if (is_news(&before, &later->positions[i]))
			add_position(record, &later->positions[i]);
	if (later->has_reset)
		reset_runs(record, later->reset_time, later->reset_token);
	for (int i = later->run_count - 1; i >= 0; i--)
		add_run(record, &later->runs[i], added++);
	if (later->contender[0] != '\0' && later->token >= record->token)
	{
		record->token = later->token;
		memcpy(record->contender, later->contender, sizeof(record->contender));
	}
}

/*
 * Returns true if a record shows that this release, this run or this reset was
 * written into it.
 */
bool
zk_record_shows(const ZkRecord *record, const ZkRecord *written)
{
	if (written->contender[0] != '\0' && record->token == written->token &&
		strcmp(record->contender, written->contender) == 0)
		return true;
	if (written->has_reset && record->has_reset &&
		record->reset_time == written->reset_time &&
		record->reset_token == written->reset_token)
		return true;
	for (int i = 0; i < record->run_count; i++)
		if (written->run_count > 0 &&
			memcmp(&record->runs[i], &written->runs[0], sizeof(ZkRun)) == 0)
			return true;
	return false;
}
