/*-------------------------------------------------------------------------
 *
 * packet_test.c
 *	  Checks of replies against their requests (S221).
 *
 * Requests and replies as on the wire, in a notation of hexadecimal digits and some words,
 * with all possible mistakes.  Each packet has memory of exactly its size, so that a
 * sanitizer sees a step beyond it.
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "reply.h"
#include "tap.h"

#define MAX_BYTES	4096

/* Words of the notation. */
#define ZXID	"0000000000000009"
#define OK		ZXID "00000000"
#define NONODE	ZXID "ffffff9b"
#define PATH	"00000002 2f61 "	/* "/a" */
#define NAME	"00000002 6162 "	/* "ab" */
#define DATA	"00000003 780079 "
#define LONG	"0000000000000007 "
#define STAT	LONG LONG LONG LONG "00000000 00000000 00000000" LONG \
				"00000000 00000000" LONG
#define ACLS	"00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 "
#define END		"ffffffff 01 ffffffff "
#define FAILED(error)	"ffffffff 00" error error

/* A multi-op of create, set, check and delete, and its results. */
#define MULTI \
	"0000000e 00000001 00 ffffffff" PATH DATA ACLS "00000000" \
	"00000005 00 ffffffff" PATH DATA "ffffffff" \
	"0000000d 00 ffffffff" PATH "ffffffff" \
	"00000002 00 ffffffff" PATH "ffffffff" END
#define CREATED	"00000001 00 00000000" PATH
#define SET		"00000005 00 00000000" STAT
#define CHECKED	"0000000d 00 00000000"
#define DELETED	"00000002 00 00000000"

/*
 * Kinds of requests, without their xid, and what answers them, without its header.
 */
static const struct
{
	const char *what;
	const char *request;
	const char *reply;
}			kinds[] =

{
	{"create", "00000001", PATH},
	{"create with Stat", "0000000f", PATH STAT},
	{"create of a container", "00000013", PATH STAT},
	{"create with a time to live", "00000015", PATH STAT},
	{"delete", "00000002", ""},
	{"exists", "00000003", STAT},
	{"get", "00000004", DATA STAT},
	{"get of nothing", "00000004", "ffffffff" STAT},
	{"set", "00000005", STAT},
	{"get ACL", "00000006", ACLS STAT},
	{"set ACL", "00000007", STAT},
	{"list", "00000008", "00000002" NAME NAME},
	{"list of nothing", "00000008", "00000000"},
	{"list with Stat", "0000000c", "00000001" NAME STAT},
	{"sync", "00000009", PATH},
	{"end of the session", "fffffff5", ""},
	{"SASL", "00000066", "00000002 0102"},
	{"multi-op", MULTI, CREATED SET CHECKED DELETED END},
	{"multi-op with a time to live", "0000000e 00000015 00 ffffffff" PATH DATA ACLS "00000000" LONG END,
	"00000015 00 00000000" PATH STAT END},
	{"failed multi-op", MULTI,
	FAILED("00000000") FAILED("00000000") FAILED("ffffff99") FAILED("fffffffe") END}
};

/* What is wrong with an answer, with its header but its xid. */
static const struct
{
	const char *what;
	const char *request;
	const char *reply;
}			bad[] =

{
	{"a path that begins elsewhere", "00000001", OK "00000002 6162"},
	{"an empty path", "00000001", OK "00000000"},
	{"a path with a byte of 0", "00000001", OK "00000003 2f0061"},
	{"no path", "00000001", OK "ffffffff"},
	{"a path of a negative length", "0000000f", OK "80000000" STAT},
	{"data of a negative length", "00000004", OK "fffffffe" STAT},
	{"data that is longer than all", "00000004", OK "7fffffff" STAT},
	{"no list", "00000008", OK "ffffffff"},
	{"a list that is longer than all", "00000008", OK "00000003" NAME NAME},
	{"a huge list", "00000008", OK "7fffffff" NAME},
	{"a shorter list", "00000008", OK "00000001" NAME NAME},
	{"a name with a slash", "00000008", OK "00000001 00000002 612f"},
	{"an empty name", "00000008", OK "00000002" NAME "00000000"},
	{"no ACLs", "00000006", OK "ffffffff" STAT},
	{"too many ACLs", "00000006", OK "00000002" ACLS STAT},
	{"a positive error", "00000002", ZXID "00000001"},
	{"a lost connection", "00000002", ZXID "fffffffc"},
	{"a state that is wrong", "00000002", ZXID "fffffff7"},
	{"a handle that is closed", "00000002", ZXID "ffffff8c"},
	{"an error with half a result", "00000001", NONODE "00000002 2f"},
	{"an error with more than a result", "00000002", NONODE "00"},
	{"a request that is not made", "00000077", OK},
	{"results of other operations", MULTI, OK CREATED CHECKED SET DELETED END},
	{"one result less", MULTI, OK CREATED SET CHECKED END},
	{"one result more", MULTI, OK CREATED SET CHECKED DELETED DELETED END},
	{"no results", MULTI, OK END},
	{"results without an end", MULTI, OK CREATED SET CHECKED DELETED},
	{"an end that is none", MULTI, OK CREATED SET CHECKED DELETED "ffffffff 00 ffffffff"},
	{"a truth value that is none", MULTI, OK CREATED SET CHECKED DELETED "ffffffff 02 ffffffff"},
	{"a success with an error", MULTI, OK CREATED SET CHECKED "00000002 00 ffffff9b" END},
	{"a failure of some", MULTI, OK CREATED SET CHECKED FAILED("ffffff9b") END},
	{"two errors of one operation", MULTI, OK FAILED("00000000") FAILED("00000000")
	FAILED("00000000") "ffffffff 00 ffffff9b ffffff9a" END},
	{"a failure without a reason", MULTI,
	OK FAILED("00000000") FAILED("00000000") FAILED("00000000") FAILED("fffffffe") END},
	{"a failure by a lost connection", MULTI,
	OK FAILED("00000000") FAILED("00000000") FAILED("00000000") FAILED("fffffffc") END},
	{"a multi-op of what is not known", "0000000e 00000063 00 ffffffff" END, OK END},
	{"a multi-op that is cut", "0000000e 00000001 00 ffffffff 0000", OK END}
};

/* Write what a notation stands for; returns how many bytes that is. */
static size_t
write_bytes(const char *notation, unsigned char *bytes)
{
	size_t		digits = 0;

	memset(bytes, 0, MAX_BYTES);
	for (const char *c = notation; *c != '\0'; c++)
	{
		if (*c == ' ')
			continue;
		bytes[digits / 2] |= (unsigned char)
			((isdigit((unsigned char) *c) ? *c - '0' : *c - 'a' + 10) << (digits % 2 ? 0 : 4));
		digits++;
	}
	return digits / 2;
}

/* Have a request been sent. */
static void
ask(ZkUnanswered *unanswered, const char *xid, const char *request)
{
	unsigned char bytes[MAX_BYTES];
	char		notation[2 * MAX_BYTES];
	void	   *copy;
	size_t		size;

	snprintf(notation, sizeof(notation), "%s%s", xid, request);
	size = write_bytes(notation, bytes);
	copy = malloc(size);
	memcpy(copy, bytes, size);
	if (!zk_unanswered_add(unanswered, copy, size))
		abort();
	free(copy);
}

/* Is a packet of so many of these bytes let through? */
static bool
takes(ZkUnanswered *unanswered, const unsigned char *bytes, size_t size)
{
	char		why[ZK_REPLY_WHY] = "";
	unsigned char *copy = malloc(size > 0 ? size : 1);
	bool		taken;

	memcpy(copy, bytes, size);
	taken = zk_reply_check(unanswered, copy, size, why);
	free(copy);
	if (taken == (why[0] != '\0'))
		abort();
	return taken;
}

/* The same for a notation. */
static bool
answer(ZkUnanswered *unanswered, const char *xid, const char *reply)
{
	unsigned char bytes[MAX_BYTES];
	char		notation[2 * MAX_BYTES];

	snprintf(notation, sizeof(notation), "%s%s", xid, reply);
	return takes(unanswered, bytes, write_bytes(notation, bytes));
}

/* One request, and one packet of these bytes. */
static bool
exchange(const char *request, const unsigned char *bytes, size_t size)
{
	ZkUnanswered unanswered = {0};
	bool		taken;

	ask(&unanswered, "00000005", request);
	taken = takes(&unanswered, bytes, size);
	zk_unanswered_forget(&unanswered);
	return taken;
}

/*
 * Each kind of reply is taken as it is, and in no part, and with nothing behind it;
 * with an error there is none, or all of it.
 */
static void
test_kind(int kind)
{
	unsigned char bytes[MAX_BYTES];
	char		notation[2 * MAX_BYTES];
	const char *what = kinds[kind].what;
	const char *request = kinds[kind].request;
	size_t		size;
	int			taken = 0;

	snprintf(notation, sizeof(notation), "00000005" OK "%s", kinds[kind].reply);
	size = write_bytes(notation, bytes);
	ok(exchange(request, bytes, size), "%s: is taken", what);
	for (size_t i = 0; i < size; i++)
		taken += exchange(request, bytes, i);
	for (size_t i = 1; i < 100; i++)
		taken += exchange(request, bytes, size + i);
	is_int(taken, 0, "%s: not if it is cut anywhere, or followed by something", what);
	memcpy(bytes + 12, "\xff\xff\xff\x9b", 4);
	ok(exchange(request, bytes, 16), "%s: an error is", what);
	ok(exchange(request, bytes, size), "%s: and with what it would have returned", what);
	bytes[3]++;
	ok(!exchange(request, bytes, size), "%s: not with another number", what);
}

/*
 * No bytes make the check go astray, whatever is asked for.
 */
static void
test_random(void)
{
	int			taken = 0;

	for (int i = 0; i < 200000; i++)
	{
		unsigned char bytes[MAX_BYTES];
		char		notation[2 * MAX_BYTES];
		int			kind = random_below(sizeof(kinds) / sizeof(kinds[0]));
		size_t		size;

		snprintf(notation, sizeof(notation), "00000005" OK "%s", kinds[kind].reply);
		size = write_bytes(notation, bytes);
		for (int j = random_below(4); j >= 0; j--)
			bytes[16 + random_below((int) size)] =
				(unsigned char) (random_below(2) ? random_below(256) : random_below(4) - 1);
		taken += exchange(kinds[kind].request, bytes, size - (size_t) random_below(2));
	}
	ok(taken > 0 && taken < 200000, "of replies altered at random %d are taken", taken);
}

/*
 * Answers come in order, except for those to no single request.
 */
static void
test_order(void)
{
	ZkUnanswered unanswered = {0};

	ok(!answer(&unanswered, "00000001", OK), "nothing is taken before something is asked for");
	ok(!answer(&unanswered, "fffffffc", OK), "nor an answer to no credential");
	ok(!answer(&unanswered, "ffffffff", OK "00000001 00000003" PATH), "nor an event");
	ask(&unanswered, "00000001", "00000002");
	ask(&unanswered, "fffffffe", "0000000b");
	ask(&unanswered, "fffffffc", "00000064");
	ask(&unanswered, "00000002", "00000009");
	ok(answer(&unanswered, "fffffffc", OK), "a credential is answered when it likes");
	ok(answer(&unanswered, "fffffffe", OK), "and so is a ping");
	ok(!answer(&unanswered, "fffffffe", OK), "which is answered once");
	ok(!answer(&unanswered, "00000002", OK PATH), "a request is not answered before an earlier one");
	ok(answer(&unanswered, "00000001", NONODE), "but in its turn");
	ok(answer(&unanswered, "ffffffff", OK "00000001 00000003" PATH), "an event comes at any time");
	ok(answer(&unanswered, "00000002", OK PATH), "the next one is answered");
	ok(!answer(&unanswered, "00000002", OK PATH), "and not twice");
	ask(&unanswered, "00000003", "00000009");
	ok(answer(&unanswered, "00000003", OK PATH), "and one that is asked for later");
	ask(&unanswered, "00000004", "00000002");
	ask(&unanswered, "fffffffe", "0000000b");
	ok(answer(&unanswered, "fffffffe", OK), "the last one is answered first");
	ask(&unanswered, "00000005", "00000002");
	ok(answer(&unanswered, "00000004", OK) && answer(&unanswered, "00000005", OK),
	   "and then those around it");
	ask(&unanswered, "fffffff8", "00000069");
	ok(!answer(&unanswered, "fffffff8", NONODE), "watches that are not set are no success");
	zk_unanswered_forget(&unanswered);
	ok(unanswered.first == NULL && unanswered.last == NULL, "all are forgotten");
}

/*
 * Events are those that there are.
 */
static void
test_events(void)
{
	static const char *const wrong[] = {
		OK "00000000 00000003" PATH, OK "00000005 00000003" PATH,
		OK "ffffffff 00000003" PATH, OK "ffffffff ffffff90" PATH,
		OK "00000001 00000000" PATH, OK "00000001 00000003 ffffffff",
		OK "00000001 00000003" NAME, OK "00000001 00000003" PATH "00",
		OK "00000001 00000003 00000009 2f61", OK "00000001", NONODE "00000001 00000003" PATH
	};
	ZkUnanswered unanswered = {0};
	int			taken = 0;

	ask(&unanswered, "00000001", "00000066");
	ok(!answer(&unanswered, "ffffffff", OK "00000001 00000003" PATH),
	   "no event during SASL");
	ask(&unanswered, "00000002", "00000004");
	for (int type = 1; type <= 4; type++)
	{
		char		event[100];

		snprintf(event, sizeof(event), "ffffffffffffffff 00000000 0000000%d 00000003" PATH, type);
		ok(answer(&unanswered, "ffffffff", event), "event %d is taken", type);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		taken += answer(&unanswered, "ffffffff", wrong[i]);
	is_int(taken, 0, "no others are");
	zk_unanswered_forget(&unanswered);
}

/* Is a list of so many names let through? */
static bool
takes_list(int count)
{
	static const unsigned char name[] = {0, 0, 0, 1, 'a'};
	unsigned char start[MAX_BYTES];
	size_t		size = write_bytes("00000005" OK "00000000", start);
	unsigned char *bytes = malloc(size + (size_t) count * sizeof(name));
	bool		taken;

	memset(bytes, 0, size);
	bytes[3] = 5;
	for (int i = 0; i < 4; i++)
		bytes[size - 1 - (size_t) i] = (unsigned char) (count >> (8 * i));
	for (int i = 0; i < count; i++)
		memcpy(bytes + size + (size_t) i * sizeof(name), name, sizeof(name));
	taken = exchange("00000008", bytes, size + (size_t) count * sizeof(name));
	free(bytes);
	return taken;
}

/*
 * SASL without a token is one with an empty one.
 */
static void
test_sasl(void)
{
	ZkUnanswered unanswered = {0};
	unsigned char bytes[MAX_BYTES];
	char		why[ZK_REPLY_WHY];
	size_t		size = write_bytes("00000001" OK "ffffffff", bytes);

	ask(&unanswered, "00000001", "00000066");
	ok(zk_reply_check(&unanswered, bytes, size, why), "an absent token is taken");
	ok(memcmp(bytes + 16, "\0\0\0\0", 4) == 0, "and made an empty one");
	zk_unanswered_forget(&unanswered);
}

/* A server's part of the handshake, for a client whose session is 7, or that has none. */
#define PASSWORD	"00000010 31323334353637383132333435363738"
static const struct
{
	const char *what;
	const char *greeting;
	bool		new;			/* is taken for a new session */
	bool		resumed;		/* is taken by a client with a session */
}			greetings[] =

{
	{"a session", "00000025 00000000 00000fa0" LONG PASSWORD "00", true, true},
	{"one that only reads", "00000025 00000000 00000fa0" LONG PASSWORD "01", true, true},
	{"one of an old server", "00000024 00000000 00000fa0" LONG PASSWORD, true, true},
	{"another session", "00000025 00000000 00000fa0 0000000000000008" PASSWORD "00", true, false},
	{"the end of a session", "00000025 00000000 00000000 0000000000000000" PASSWORD "00", false, true},
	{"a session without a timeout", "00000025 00000000 00000000" LONG PASSWORD "00", false, false},
	{"a negative timeout", "00000025 00000000 80000000" LONG PASSWORD "00", false, false},
	{"a huge timeout", "00000025 00000000 7fffffff" LONG PASSWORD "00", false, false},
	{"no session, but a timeout", "00000025 00000000 00000fa0 0000000000000000" PASSWORD "00", false, false},
	{"another version", "00000025 00000001 00000fa0" LONG PASSWORD "00", false, false},
	{"another length of the password", "00000025 00000000 00000fa0" LONG
	"00000011 31323334353637383132333435363738 00", false, false},
	{"a truth value that is none", "00000025 00000000 00000fa0" LONG PASSWORD "02", false, false},
	{"a byte more", "00000024 00000000 00000fa0" LONG PASSWORD "00", false, false},
	{"a byte less", "00000025 00000000 00000fa0" LONG PASSWORD, false, false},
	{"another protocol", "48545450 2f312e31", false, false}
};

static void
test_greetings(void)
{
	unsigned char bytes[MAX_BYTES];
	char		why[ZK_REPLY_WHY];

	for (size_t i = 0; i < sizeof(greetings) / sizeof(greetings[0]); i++)
	{
		size_t		size = write_bytes(greetings[i].greeting, bytes);

		is_int(zk_greeting_check(bytes, size, 0, why), greetings[i].new,
			   "%s, for a new one", greetings[i].what);
		is_int(zk_greeting_check(bytes, size, 7, why), greetings[i].resumed,
			   "%s, for session 7", greetings[i].what);
	}
	write_bytes("00000025", bytes);
	ok(zk_greeting_begins(bytes, 3, why) && zk_greeting_begins(bytes, 4, why),
	   "a handshake begins with its length");
	ok(!zk_greeting_begins("SSH-2.0", 4, why), "and with nothing else");
	write_bytes("00000000 0000000000000000 00000fa0" LONG PASSWORD "00", bytes);
	is_int(zk_greeting_session(bytes, 45), 7, "the client's session is read");
	is_int(zk_greeting_session(bytes, 20), 0, "if it is there");
}

int
main(void)
{
	seed_random(1);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		test_kind((int) i);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		ZkUnanswered unanswered = {0};

		ask(&unanswered, "00000005", bad[i].request);
		ok(!answer(&unanswered, "00000005", bad[i].reply), "%s is not taken", bad[i].what);
		zk_unanswered_forget(&unanswered);
	}
	ok(takes_list(1000000), "a list of a million names is taken");
	ok(!takes_list(1000001), "one more is too many");
	test_order();
	test_events();
	test_sasl();
	test_greetings();
	test_random();
	return done_testing();
}
