/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  The plan of a simulated world, and its text.
 *
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

static const char *const words[PLAN_WORDS] = {
	[PLAN_CHANCE] = "chance",
	[PLAN_ENSEMBLE] = "ensemble",
	[PLAN_SESSION] = "session",
	[PLAN_CLIENTS] = "clients",
	[PLAN_LOCKS] = "locks",
	[PLAN_LOCK] = "lock",
	[PLAN_THROTTLE] = "throttle",
	[PLAN_PREEMPT] = "preempt",
	[PLAN_PAUSE] = "pause",
	[PLAN_WAKE] = "wake",
	[PLAN_CLOCKS] = "clocks",
	[PLAN_ROUND] = "round",
	[PLAN_STOP_SERVER] = "stop-server",
	[PLAN_CRASH_SERVER] = "crash-server",
	[PLAN_CRASH_SERVERS] = "crash-servers",
	[PLAN_OVERLOAD] = "overload",
	[PLAN_CUT_SERVERS] = "cut-servers",
	[PLAN_CUT_CLIENT] = "cut-client",
	[PLAN_STOP_CLIENT] = "stop-client",
	[PLAN_KILL_CLIENT] = "kill-client",
	[PLAN_AMBUSH] = "ambush",
	[PLAN_SPLIT_NETWORK] = "split-network",
	[PLAN_HANG_SERVER] = "hang-server",
	[PLAN_DELETE] = "delete",
	[PLAN_DENY] = "deny",
	[PLAN_REVOKE] = "revoke",
	[PLAN_SLOW_NETWORK] = "slow-network",
	[PLAN_SLOW_RESOLVER] = "slow-resolver",
	[PLAN_REFUSE_MEMORY] = "refuse-memory",
	[PLAN_CHANGE_TIMEOUT] = "change-timeout",
	[PLAN_ACQUIRE] = "acquire",
	[PLAN_LIST] = "list",
	[PLAN_HEAD] = "head",
	[PLAN_TREE] = "tree",
	[PLAN_RECORD] = "record",
	[PLAN_WAITS] = "waits",
	[PLAN_PUBLISH] = "publish",
	[PLAN_WITHDRAW] = "withdraw",
	[PLAN_CONNECT] = "connect",
	[PLAN_CROWD] = "crowd",
	[PLAN_CLOSE] = "close",
};

typedef enum Unit
{
	NUMBER,
	SECONDS,
	LETTERS
} Unit;

static const struct
{
	const char *name;
	size_t		offset;
	Unit		unit;
}			keys[] =

{
#define KEY(name, unit) {#name, offsetof(PlanLine, name), unit}
	KEY(at, SECONDS),
	KEY(client, NUMBER),
	KEY(seed, NUMBER),
	KEY(servers, NUMBER),
	KEY(as_39, NUMBER),
	KEY(sync_limit, NUMBER),
	KEY(count, NUMBER),
	KEY(identity, NUMBER),
	KEY(locks, LETTERS),
	KEY(permits, NUMBER),
	KEY(deep, NUMBER),
	KEY(timeout, SECONDS),
	KEY(tls, NUMBER),
	KEY(one_in, NUMBER),
	KEY(longest, SECONDS),
	KEY(slow, NUMBER),
	KEY(fast, NUMBER),
	KEY(busy, SECONDS),
	KEY(keeping, NUMBER),
	KEY(server, NUMBER),
	KEY(other, NUMBER),
	KEY(lasts, SECONDS),
	KEY(suspended, NUMBER),
	KEY(wiped, NUMBER),
	KEY(permissions, NUMBER),
	KEY(guarded, NUMBER),
	KEY(cut, NUMBER),
	KEY(reconnected, NUMBER),
	KEY(side, NUMBER),
	KEY(clients, NUMBER),
	KEY(pick, NUMBER),
	KEY(after, NUMBER),
	KEY(shared, NUMBER),
	KEY(no_wait, NUMBER),
	KEY(recorded, NUMBER),
	KEY(delay, SECONDS),
	KEY(max_hold, SECONDS),
	KEY(patience, SECONDS),
	KEY(hold, SECONDS),
	KEY(commits, NUMBER),
	KEY(commit_after, SECONDS),
	KEY(downgraded, SECONDS),
	KEY(note_first, NUMBER),
	KEY(note_last, NUMBER),
	KEY(released, SECONDS),
	KEY(revoked, NUMBER),
	KEY(broken, NUMBER),
	KEY(hasty, NUMBER),
#undef KEY
};

#define KEY_COUNT	((int) (sizeof(keys) / sizeof(keys[0])))

/* A text that the trace must have. */
typedef struct Expected
{
	int			count;
	int			seen;
	char	   *text;
} Expected;

#define MAX_EXPECTED	16

static struct
{
	int			count;
	int			room;
	PlanLine  **lines;
	int			rounds;
	int			expected_count;
	Expected	expected[MAX_EXPECTED];
}			plan;

void
plan_clear(void)
{
	for (int i = 0; i < plan.count; i++)
		free(plan.lines[i]);
	free(plan.lines);
	for (int i = 0; i < plan.expected_count; i++)
		free(plan.expected[i].text);
	memset(&plan, 0, sizeof(plan));
}

PlanLine *
plan_add(PlanWord word)
{
	PlanLine   *line = sim_alloc(sizeof(PlanLine));

	if (plan.count == plan.room)
	{
		plan.room = plan.room == 0 ? 256 : plan.room * 2;
		plan.lines = sim_realloc(plan.lines, sizeof(PlanLine *) * (size_t) plan.room);
	}
	plan.lines[plan.count++] = line;
	plan.rounds += word == PLAN_ROUND;
	line->word = word;
	line->round = plan.rounds;
	return line;
}

PlanLine *
plan_line(int number)
{
	return number < plan.count ? plan.lines[number] : NULL;
}

int
plan_first_lock(const PlanLine *line)
{
	return __builtin_ffsll(line->locks) - 1;
}

/*-------------------------------------------------------------------------
 * As text
 *-------------------------------------------------------------------------
 */

static int64_t *
value_of(PlanLine *line, int key)
{
	return (int64_t *) ((char *) line + keys[key].offset);
}

/* Reports what is wrong with a file, and ends the program. */
static void
__attribute__((noreturn))
wrong(const char *file, int number, const char *what)
{
	fprintf(stderr, "%s, line %d: %s\n", file, number, what);
	exit(2);
}

/* Reads a number of seconds; false if it is none. */
static bool
read_seconds(const char *text, int64_t *value)
{
	char	   *end;
	int64_t		part = 100000;

	*value = strtoll(text, &end, 10) * 1000000;
	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9'; end++, part /= 10)
			*value += (*end - '0') * part;
	return end != text && *end == '\0';
}

static bool
read_letters(const char *text, int64_t *value)
{
	for (*value = 0; *text >= 'a' && *text <= 'z'; text++)
		*value |= INT64_C(1) << (*text - 'a');
	return *text == '\0';
}

static bool
read_value(const char *text, Unit unit, int64_t *value)
{
	char	   *end;

	if (unit == SECONDS)
		return read_seconds(text, value);
	if (unit == LETTERS)
		return read_letters(text, value);
	*value = strtoll(text, &end, 10);
	return end != text && *end == '\0';
}

/* Reads "name=value" into the line; false if there is no such thing. */
static bool
read_pair(PlanLine *line, char *pair)
{
	char	   *equals = strchr(pair, '=');

	if (equals == NULL)
		return false;
	*equals = '\0';
	for (int i = 0; i < KEY_COUNT; i++)
		if (strcmp(keys[i].name, pair) == 0)
			return read_value(equals + 1, keys[i].unit, value_of(line, i));
	return false;
}

/* Adds what is expected: the text is what follows the count. */
static bool
read_expected(char *count)
{
	Expected   *expected = &plan.expected[plan.expected_count];
	char	   *text = count != NULL ? strchr(count, ' ') : NULL;

	if (text == NULL || plan.expected_count == MAX_EXPECTED)
		return false;
	expected->count = atoi(count);
	expected->text = sim_strdup(text + 1);
	plan.expected_count++;
	return expected->count > 0;
}

/* Reads a line without its end; false if it is wrong. */
static bool
read_line(char *text)
{
	char	   *rest;
	char	   *word = strtok_r(text, " ", &rest);
	PlanLine   *line;
	int			i = 0;

	if (word == NULL || word[0] == '#')
		return true;
	if (strcmp(word, "expect") == 0)
		return read_expected(rest);
	while (i < PLAN_WORDS && strcmp(words[i], word) != 0)
		i++;
	if (i == PLAN_WORDS)
		return false;
	line = plan_add((PlanWord) i);
	for (char *pair; (pair = strtok_r(NULL, " ", &rest)) != NULL;)
		if (!read_pair(line, pair))
			return false;
	return true;
}

void
plan_read(const char *file)
{
	FILE	   *in = fopen(file, "r");
	char		text[1024];

	plan_clear();
	if (in == NULL)
		wrong(file, 0, "cannot be read");
	for (int number = 1; fgets(text, sizeof(text), in) != NULL; number++)
	{
		text[strcspn(text, "\n")] = '\0';
		if (!read_line(text))
			wrong(file, number, "is wrong");
	}
	fclose(in);
}

static void
write_seconds(FILE *out, int64_t value)
{
	char		part[8];
	size_t		len;

	snprintf(part, sizeof(part), "%06" PRId64, value % 1000000);
	for (len = 6; len > 0 && part[len - 1] == '0'; len--)
		;
	fprintf(out, "%" PRId64 "%s%.*s", value / 1000000, len > 0 ? "." : "", (int) len, part);
}

static void
write_value(FILE *out, Unit unit, int64_t value)
{
	if (unit == SECONDS)
		write_seconds(out, value);
	else if (unit == LETTERS)
	{
		for (int i = 0; i < 26; i++)
			if (value >> i & 1)
				fputc('a' + i, out);
	}
	else
		fprintf(out, "%" PRId64, value);
}

static void
write_line(FILE *out, PlanLine *line)
{
	fputs(words[line->word], out);
	for (int i = 0; i < KEY_COUNT; i++)
	{
		int64_t		value = *value_of(line, i);

		if (value == 0)
			continue;
		fprintf(out, " %s=", keys[i].name);
		write_value(out, keys[i].unit, value);
	}
	fputc('\n', out);
}

/* In the order of rounds and times, otherwise as they were added. */
static void
sort(void)
{
	for (int i = 1; i < plan.count; i++)
	{
		PlanLine   *line = plan.lines[i];
		int			k = i;

		for (; k > 0 && plan.lines[k - 1]->round == line->round &&
			 plan.lines[k - 1]->at > line->at; k--)
			plan.lines[k] = plan.lines[k - 1];
		plan.lines[k] = line;
	}
}

void
plan_write(const char *file)
{
	FILE	   *out = fopen(file, "w");

	if (out == NULL)
		wrong(file, 0, "cannot be written");
	sort();
	for (int i = 0; i < plan.count; i++)
		write_line(out, plan.lines[i]);
	if (fclose(out) != 0)
		wrong(file, 0, "cannot be written");
}

/*-------------------------------------------------------------------------
 * What is expected
 *-------------------------------------------------------------------------
 */

bool
plan_expects(void)
{
	return plan.expected_count > 0;
}

void
plan_hear(const char *line)
{
	for (int i = 0; i < plan.expected_count; i++)
		if (strstr(line, plan.expected[i].text) != NULL)
			plan.expected[i].seen++;
}

void
plan_check_expected(void)
{
	for (int i = 0; i < plan.expected_count; i++)
		if (plan.expected[i].seen < plan.expected[i].count)
			sim_violation("plan", "%d lines of the trace have \"%s\", not %d",
						  plan.expected[i].seen, plan.expected[i].text,
						  plan.expected[i].count);
}
