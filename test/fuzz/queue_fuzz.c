/*-------------------------------------------------------------------------
 *
 * queue_fuzz.c
 *	  Names below a lock node, and queues of them (S362).
 *
 * The first four bytes of the input say which names are our own client's, a bit for each
 * of the first 32; the rest are names, one on each line.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"
#include "queue.h"
#include "zk_check.h"
#include "zk_lock.h"

/* Only so many names are looked at, and of this length: all pairs are compared. */
#define MAX_NAMES	24
#define MAX_NAME	300

#define UUID "01234567-89ab-cdef-0123-456789abcdef"

static const ZkZnodeStyle styles[] = {
	ZK_STYLE_CURATOR, ZK_STYLE_CURATOR_RW, ZK_STYLE_KAZOO
};

/* Returns true if there is a contender of ours of such a kind with that number. */
static void
check_own_name(ZkZnodeStyle style, ZkMode mode, int permits, int sequence)
{
	char		base[ZK_NAME_SIZE];
	char		name[ZK_NAME_SIZE + 12];
	int			len = zk_queue_base_name(base, sizeof(base), style, mode, permits, UUID);
	ZkQueueEntry entry;

	CHECK(len > 0 && (size_t) len + 11 < ZK_NAME_SIZE);
	snprintf(name, sizeof(name), "%s%010d", base, sequence);
	CHECK(zk_queue_parse(name, &entry));
	CHECK(entry.mode == mode && entry.sequence == sequence);
	CHECK(entry.permits == (mode == ZK_PERMIT ? permits : 0));
}

/* The number is also told from the dash of ZooKeeper's own recipes, as from C and Java. */
static void
check_recipe_name(int sequence)
{
	static const char *const forms[] = {"x-15a4-%010d", "x--5-%010d"};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
	{
		char		name[32];
		ZkQueueEntry entry;

		snprintf(name, sizeof(name), forms[i], sequence);
		CHECK(zk_queue_parse(name, &entry));
		CHECK(entry.sequence == sequence && entry.mode == ZK_EXCLUSIVE);
	}
}

/* What is read of a name is what a server has written, and ours are read so, too. */
static void
check_name(const char *name)
{
	char		number[16];
	char		taken[2 * ZK_NAME_SIZE];
	size_t		len = strlen(name);
	ZkQueueEntry entry;
	ZkQueueEntry other;
	bool		is = zk_queue_parse(name, &entry);
	int			width;

	CHECK(zk_contender_check(name) == (is && strchr(name, '/') == NULL));
	CHECK((zk_queue_take_place(taken, sizeof(taken), "_c_" UUID "-__READ__", name) > 0) == is);
	if (!is)
	{
		CHECK(taken[0] == '\0');
		return;
	}
	CHECK(entry.name == name);
	CHECK(entry.sequence >= INT32_MIN && entry.sequence <= INT32_MAX);
	width = snprintf(number, sizeof(number), "%010d", (int) entry.sequence);
	CHECK(len > (size_t) width && strcmp(name + len - width, number) == 0);
	CHECK((entry.mode == ZK_PERMIT) == (entry.permits > 0));
	CHECK(entry.permits >= 0 && entry.permits <= ZK_MAX_PERMITS);

	for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++)
	{
		check_own_name(styles[i], ZK_EXCLUSIVE, 0, (int) entry.sequence);
		check_own_name(styles[i], ZK_SHARED, 0, (int) entry.sequence);
	}
	check_recipe_name((int) entry.sequence);
	if (entry.permits > 0)
		check_own_name(ZK_STYLE_CURATOR, ZK_PERMIT, entry.permits, (int) entry.sequence);
	CHECK(zk_queue_parse(taken, &other));
	CHECK(other.mode == ZK_SHARED && other.sequence == entry.sequence);
}

/* Copies the next names, each once.  Returns how many there are. */
static int
take_names(const uint8_t *data, size_t size, char **names)
{
	int			count = 0;

	for (size_t at = 0; at < size && count < MAX_NAMES;)
	{
		const uint8_t *end = memchr(data + at, '\n', size - at);
		size_t		len = end != NULL ? (size_t) (end - data) - at : size - at;
		char	   *name = exact_text(data + at, len);
		bool		known = false;

		at += len + 1;
		for (int i = 0; i < count; i++)
			known |= strcmp(names[i], name) == 0;
		if (known || len > MAX_NAME || strlen(name) != len)
			free(name);
		else
			names[count++] = name;
	}
	return count;
}

/* The order is that of the numbers, whatever the order of the list. */
static int
check_sort(char *const *names, int count, ZkQueueEntry *entries)
{
	const char *reversed[MAX_NAMES];
	const char *ignored;
	ZkQueueEntry other[MAX_NAMES];
	ZkQueueEntry front[MAX_NAMES];
	ZkQueueEntry entry;
	int			found = zk_queue_sort(INT64_MAX, (const char *const *) names, count, entries,
									  &ignored);
	int			contenders = 0;

	for (int i = 0; i < count; i++)
	{
		reversed[count - 1 - i] = names[i];
		contenders += zk_queue_parse(names[i], &entry);
	}
	CHECK(found == contenders && (found == count) == (ignored == NULL));
	CHECK(ignored == NULL || !zk_queue_parse(ignored, &entry));
	CHECK(zk_queue_sort(INT64_MAX, reversed, count, other, NULL) == found);
	for (int i = 0; i < found; i++)
	{
		int			upto = i + 1;

		CHECK(entries[i].name == other[i].name);
		CHECK(i == 0 || entries[i - 1].sequence <= entries[i].sequence);
		while (upto < found && entries[upto].sequence == entries[i].sequence)
			upto++;
		CHECK(zk_queue_sort(entries[i].sequence, reversed, count, front, NULL) ==
			  upto + (upto < found));
		for (int j = 0; j < upto; j++)
			CHECK(front[j].name == entries[j].name);
	}
	return found;
}

/* Returns true if strangers may not hold at the same time. */
static bool
exclude(const ZkQueueEntry *a, const ZkQueueEntry *b)
{
	return a->permits != b->permits || a->mode == ZK_EXCLUSIVE || b->mode == ZK_EXCLUSIVE;
}

/* A verdict refers to entries that it can be about. */
static void
check_verdict(const ZkQueueEntry *entries, int count, int self, const ZkVerdict *verdict)
{
	CHECK(verdict->self == self);
	CHECK(verdict->watch >= -1 && verdict->watch < count && verdict->watch != self);
	CHECK(verdict->second_watch >= -1 && verdict->second_watch < count);
	CHECK(verdict->deadlock >= -1 && verdict->deadlock < self);
	CHECK(verdict->first >= -1 && verdict->first < self);
	switch (verdict->decision)
	{
		case ZK_DECIDE_WAIT:
			CHECK(verdict->watch >= 0 && verdict->watch < self && verdict->ahead > 0);
			CHECK(verdict->second_watch < verdict->watch);
			CHECK(!verdict->last_ahead || verdict->ahead == 1);
			break;
		case ZK_DECIDE_TIED:
			CHECK(verdict->watch >= 0 &&
				  entries[verdict->watch].sequence == entries[self].sequence);
			break;
		case ZK_DECIDE_MIXED:
			CHECK(verdict->watch >= 0 && verdict->watch < self &&
				  entries[verdict->watch].permits != entries[self].permits);
			break;
		case ZK_DECIDE_GRANTED:
			CHECK(entries[self].sequence >= 0);
			break;
		case ZK_DECIDE_SEQUENCE:
			break;
		case ZK_DECIDE_MISSING:
			CHECK(false);
			break;
	}
}

/*
 * If all are strangers, no two hold what excludes the other, no more hold permits than
 * there are, and what others tell of the queue is what its members believe.
 */
static void
check_strangers(const ZkQueueEntry *entries, int count)
{
	int64_t		sessions[MAX_NAMES];
	bool		granted[MAX_NAMES];
	bool		holds[MAX_NAMES];
	int			permits = 0;
	int			total = 0;
	int			all;

	for (int i = 0; i < count; i++)
		sessions[i] = i + 1;
	all = zk_queue_all_granted(entries, sessions, count, granted);
	for (int i = 0; i < count; i++)
	{
		ZkVerdict	verdict;

		zk_queue_decide(entries, count, entries[i].name, NULL, 0, &verdict);
		check_verdict(entries, count, i, &verdict);
		holds[i] = verdict.decision == ZK_DECIDE_GRANTED;
		total += granted[i];
		if (holds[i] || verdict.decision == ZK_DECIDE_WAIT)
		{
			CHECK(granted[i] == holds[i]);
			CHECK(entries[i].mode == ZK_PERMIT ||
				  zk_queue_blockers(entries, i) == (holds[i] ? 0 : verdict.watch + 1));
		}
		for (int j = 0; holds[i] && j < i; j++)
			CHECK(!holds[j] || !exclude(&entries[i], &entries[j]));
		permits += holds[i] && entries[i].mode == ZK_PERMIT;
		CHECK(permits <= entries[i].permits || !holds[i] || entries[i].mode != ZK_PERMIT);
	}
	CHECK(all == total);
	CHECK(zk_queue_front(entries, count) <= count && (count == 0 || granted[0]));
}

/* With contenders of our own nothing is granted that a stranger ahead excludes. */
static void
check_own(const ZkQueueEntry *entries, int count, uint32_t mask)
{
	char	   *own[MAX_NAMES];
	bool		is_own[MAX_NAMES] = {false};
	int			own_count = 0;

	for (int i = 0; i < count; i++)
		if (mask & UINT32_C(1) << i)
			own[own_count++] = exact_text(entries[i].name, strlen(entries[i].name) - 10);
	for (int i = 0; i < count; i++)
		for (int j = 0; j < own_count; j++)
			is_own[i] |= own[j][0] != '\0' &&
				strncmp(entries[i].name, own[j], strlen(own[j])) == 0;
	for (int i = 0; i < count; i++)
	{
		ZkVerdict	verdict;

		zk_queue_decide(entries, count, entries[i].name, (const char *const *) own, own_count,
						&verdict);
		check_verdict(entries, count, i, &verdict);
		for (int j = 0; verdict.decision == ZK_DECIDE_GRANTED && j < i; j++)
			CHECK(is_own[j] || !exclude(&entries[i], &entries[j]));
	}
	for (int i = 0; i < own_count; i++)
		free(own[i]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *names[MAX_NAMES];
	ZkQueueEntry *entries;
	uint32_t	mask;
	int			count;
	int			found;

	if (size < sizeof(mask))
		return 0;
	memcpy(&mask, data, sizeof(mask));
	count = take_names(data + sizeof(mask), size - sizeof(mask), names);
	entries = malloc((size_t) count * sizeof(ZkQueueEntry));
	CHECK(entries != NULL);
	for (int i = 0; i < count; i++)
		check_name(names[i]);
	found = check_sort(names, count, entries);
	check_strangers(entries, found);
	check_own(entries, found, mask);
	free(entries);
	for (int i = 0; i < count; i++)
		free(names[i]);
	return 0;
}
