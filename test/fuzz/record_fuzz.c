/*-------------------------------------------------------------------------
 *
 * record_fuzz.c
 *	  Records of locks (S363): any client can have written anything.
 *
 * The input is one text.  A byte of 0, which no record has, divides it into two records,
 * the second one a later release's.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"
#include "record.h"

/* Returns true if two records say the same. */
static bool
same(const ZkRecord *a, const ZkRecord *b)
{
	if (a->token != b->token || strcmp(a->contender, b->contender) != 0 ||
		a->position_count != b->position_count || a->run_count != b->run_count ||
		a->has_reset != b->has_reset || a->reset_time != b->reset_time ||
		a->reset_token != b->reset_token)
		return false;
	for (int i = 0; i < a->position_count; i++)
		if (a->positions[i].system != b->positions[i].system ||
			a->positions[i].timeline != b->positions[i].timeline ||
			a->positions[i].lsn != b->positions[i].lsn)
			return false;
	return memcmp(a->runs, b->runs, (size_t) a->run_count * sizeof(ZkRun)) == 0;
}

/* A record is within its bounds, has one entry for each, and survives as text. */
static void
check_record(const ZkRecord *record)
{
	char		text[ZK_RECORD_SIZE];
	ZkRecord	again;
	char	   *copy;
	int			len;

	CHECK(record->position_count >= 0 && record->position_count <= ZK_RECORD_POSITIONS);
	CHECK(record->run_count >= 0 && record->run_count <= ZK_RECORD_RUNS);
	CHECK(memchr(record->contender, '\0', sizeof(record->contender)) != NULL);
	for (int i = 0; i < record->position_count; i++)
		CHECK(zk_record_position(record, record->positions[i].system) == &record->positions[i]);
	for (int i = 0; i < record->run_count; i++)
		for (int j = 0; j < i; j++)
			CHECK(record->runs[i].system != record->runs[j].system ||
				  record->runs[i].database != record->runs[j].database);

	len = zk_record_format(record, text);
	CHECK(len > 0 && len < ZK_RECORD_SIZE && strlen(text) == (size_t) len);
	copy = exact_copy(text, (size_t) len);
	zk_record_parse(copy, len, &again);
	free(copy);
	CHECK(same(record, &again));
}

static void
parse(const uint8_t *data, size_t size, ZkRecord *record)
{
	char	   *copy = exact_copy(data, size);

	zk_record_parse(copy, (int) size, record);
	free(copy);
	check_record(record);
}

/*
 * A release shows in the record that it is merged into, and no cluster's position gets
 * earlier.
 */
static void
check_merge(const ZkRecord *record, const ZkRecord *release)
{
	ZkRecord	merged = *record;

	zk_record_merge(&merged, release);
	check_record(&merged);
	if (release->run_count > 0 ||
		(release->contender[0] != '\0' && release->token >= record->token))
		CHECK(zk_record_shows(&merged, release));
	for (int i = 0; i < merged.position_count; i++)
	{
		const ZkPosition *is = &merged.positions[i];
		const ZkPosition *was = zk_record_position(record, is->system);

		CHECK(was == NULL || is->timeline > was->timeline ||
			  (is->timeline == was->timeline && is->lsn >= was->lsn));
	}
	for (int i = 0; i < release->position_count; i++)
		CHECK(zk_record_position(record, release->positions[i].system) != NULL ||
			  zk_record_position(&merged, release->positions[i].system) != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
	size_t		first = end != NULL ? (size_t) (end - data) : size;
	ZkRecord	whole;
	ZkRecord	record;
	ZkRecord	later;

	parse(data, size, &whole);
	parse(data, first, &record);
	if (end == NULL)
		return 0;
	CHECK(whole.token == 0 && whole.position_count == 0 && whole.run_count == 0);
	parse(end + 1, size - first - 1, &later);
	check_merge(&record, &later);
	check_merge(&later, &record);
	return 0;
}
