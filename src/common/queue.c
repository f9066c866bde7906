/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  What the names below a lock node mean: pure functions, no I/O.
 *
 * A queue is the list of a lock node's children.  Several programs may stand
 * in it, each with names of its own, so this file knows whose names are
 * contenders, how they are ordered, which of them exclude each other, and
 * what follows for one of ours.
 *
 * Q8. A contender with one of the last 2^20 numbers, a negative one, or the
 * same number as a stranger's is refused.  Servers from 3.6 on can give the
 * number 2147483647 twice (ZOOKEEPER-3249).
 *
 * All functions here depend on their arguments only and may be called from
 * any thread.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue.h"
#include "zk_check.h"
#include "zk_lock.h"

/*
 * A contender of ours with this number or a higher one is refused.  A server
 * counts the children ever created below a lock node in 32 bits; beyond
 * 2147483647 it writes negative numbers (ZOOKEEPER-2944) or the same one
 * again and again (ZOOKEEPER-3249), and either gives a lock to two.  The
 * distance leaves room for the contenders that are on their way.
 */
#define SEQUENCE_LIMIT	((INT64_C(1) << 31) - (INT64_C(1) << 20))

/* Longest component of a lock path, in bytes. */
#define COMPONENT_MAX	255

#define STRINGIFY_(x)	#x
#define STRINGIFY(x)	STRINGIFY_(x)

/*
 * What stands between a contender's identity and its number, and what that
 * says.  No word ends in another one, so the order does not matter.
 */
static const struct
{
	const char *text;
	ZkMode		mode;
	bool		may_downgrade;
}			words[] =

{
	/* Curator's mutex, go-zookeeper, zookeeper-client of Rust; ours */
	{"lock-", ZK_EXCLUSIVE, false},
	/* kazoo's Lock and WriteLock */
	{"__lock__", ZK_EXCLUSIVE, false},
	/* kazoo's ReadLock */
	{"__rlock__", ZK_SHARED, false},
	/* Curator's read-write lock; "__READ__" is ours as well */
	{"__READ__", ZK_SHARED, false},
	{"__WRIT__", ZK_EXCLUSIVE, true}
};

/* What stands around the uuid and in front of the number of permits. */
#define PERMIT_START	"_c_"
#define PERMIT_WORD		"-sem"

/*
 * The ways to read the end of a name as a number: what a server's "%010d" can
 * write for 32 bits with a sign, and no other text.  The sign counts in the
 * width, so small negative numbers have nine digits and large ones ten.  A
 * dash in front of ten digits may also be the end of a word, which is why the
 * reading without a sign comes first.
 */
static const struct
{
	size_t		digits;
	bool		negative;
	int64_t		least;			/* of the absolute value */
	int64_t		greatest;
}			readings[] =

{
	{10, false, 0, INT32_MAX},
	{9, true, 1, 999999999},
	{10, true, 1000000000, -(int64_t) INT32_MIN}
};

#define lengthof(array) (sizeof(array) / sizeof((array)[0]))

/*
 * Write the name of a new contender up to its sequence number, which the server
 * will append, to base (size bytes, cut off if too small).  uuid has 36
 * characters; permits is for mode ZK_PERMIT, whose names are nobody else's and
 * so have one style only.  Returns the length of the whole name, as snprintf()
 * does.
 */
int
zk_queue_base_name(char *base, size_t size, ZkZnodeStyle style, ZkMode mode,
				   int permits, const char *uuid)
{
	const char *word;

	if (mode == ZK_PERMIT)
		return snprintf(base, size, PERMIT_START "%s" PERMIT_WORD "%d-", uuid,
						permits);

	if (style == ZK_STYLE_KAZOO)
		return snprintf(base, size, "%.8s%.4s%.4s%.4s%.12s%s",
						uuid, uuid + 9, uuid + 14, uuid + 19, uuid + 24,
						mode == ZK_SHARED ? "__rlock__" : "__lock__");

	if (mode == ZK_SHARED)
		word = "__READ__";
	else if (style == ZK_STYLE_CURATOR_RW)
		word = "__WRIT__";
	else
		word = "lock-";
	return snprintf(base, size, "_c_%s-%s", uuid, word);
}

/*
 * The value of a string of digits, at most 18 of them; -1 if a character is
 * not a digit.
 */
static int64_t
digits_value(const char *digits, size_t count)
{
	int64_t		value = 0;

	for (size_t i = 0; i < count; i++)
	{
		if (digits[i] < '0' || digits[i] > '9')
			return -1;
		value = value * 10 + (digits[i] - '0');
	}
	return value;
}

/*
 * If this is the part before the number, len bytes, of the name of a contender
 * for a permit: how many permits there are.  Else 0.
 */
static int
parse_permits(const char *name, size_t len)
{
	size_t		word = strlen(PERMIT_START) + ZK_UUID_SIZE - 1;
	size_t		digits = word + strlen(PERMIT_WORD);
	int64_t		permits;

	if (len < digits + strlen("1-") || len > digits + strlen("1000-") ||
		memcmp(name, PERMIT_START, strlen(PERMIT_START)) != 0 ||
		memcmp(name + word, PERMIT_WORD, strlen(PERMIT_WORD)) != 0 ||
		name[digits] == '0' || name[len - 1] != '-')
		return 0;
	permits = digits_value(name + digits, len - 1 - digits);
	return permits > 0 && permits <= ZK_MAX_PERMITS ? (int) permits : 0;
}

/*
 * Is this the part before the number, len bytes, of a contender's name?  If
 * so, set the entry's mode, permits and may_downgrade.
 */
static bool
parse_identity(const char *name, size_t len, ZkQueueEntry *entry)
{
	entry->permits = parse_permits(name, len);
	if (entry->permits > 0)
	{
		entry->mode = ZK_PERMIT;
		entry->may_downgrade = false;
		return true;
	}

	for (size_t i = 0; i < lengthof(words); i++)
	{
		size_t		word_len = strlen(words[i].text);

		if (len >= word_len &&
			memcmp(name + len - word_len, words[i].text, word_len) == 0)
		{
			entry->mode = words[i].mode;
			entry->may_downgrade = words[i].may_downgrade;
			return true;
		}
	}

	/*
	 * The "x-<id>-" of ZooKeeper's recipes, the id being that of the
	 * ZooKeeper session in hexadecimal (C) or signed decimal (Java).  It
	 * never ends in a dash: one that seems to is the sign of the number
	 * (ZOOKEEPER-4372).
	 */
	if (len >= strlen("x-0-") && memcmp(name, "x-", 2) == 0 &&
		name[len - 1] == '-' && name[len - 2] != '-')
	{
		entry->mode = ZK_EXCLUSIVE;
		entry->may_downgrade = false;
		return true;
	}

	return false;
}

/*
 * Is a child of this name a contender?  If so, fill in the entry, which
 * borrows the name.  Any other child is nobody's business: it excludes no one
 * (kazoo issues 309 and 385 show that such children happen).
 */
bool
zk_queue_parse(const char *name, ZkQueueEntry *entry)
{
	size_t		len = strlen(name);

	for (size_t i = 0; i < lengthof(readings); i++)
	{
		size_t		width = readings[i].digits + (readings[i].negative ? 1 : 0);
		int64_t		value;

		if (len <= width)
			continue;
		if (readings[i].negative && name[len - width] != '-')
			continue;
		value = digits_value(name + len - readings[i].digits, readings[i].digits);
		if (value < readings[i].least || value > readings[i].greatest)
			continue;
		if (!parse_identity(name, len - width, entry))
			continue;

		entry->name = name;
		entry->sequence = readings[i].negative ? -value : value;
		return true;
	}
	return false;
}

/*
 * Write the full name of the shared contender that takes the place of an
 * exclusive one: its own base name, and the exclusive one's number just as the
 * server wrote it.  Returns the length as zk_queue_base_name() does, or -1
 * with an empty name if "exclusive" is not the name of a contender.
 */
int
zk_queue_take_place(char *name, size_t size, const char *base,
					const char *exclusive)
{
	ZkQueueEntry entry;

	if (!zk_queue_parse(exclusive, &entry))
	{
		name[0] = '\0';
		return -1;
	}
	return snprintf(name, size, "%s%010d", base, (int) entry.sequence);
}

/*
 * Order of two contenders, for qsort().  Only the number decides who is ahead
 * (ZOOKEEPER-2931: comparing names made two holders).  On equal numbers the
 * shared contender of a downgrade stands right behind the exclusive one whose
 * number it took over; beyond that the order only has to be the same for all.
 */
static int
compare_entries(const void *a, const void *b)
{
	const ZkQueueEntry *x = a;
	const ZkQueueEntry *y = b;

	if (x->sequence != y->sequence)
		return x->sequence < y->sequence ? -1 : 1;
	if (x->mode != y->mode)
		return x->mode == ZK_EXCLUSIVE ? -1 : 1;
	return strcmp(x->name, y->name);
}

/*
 * Find the contenders among count names of children, in any order, and put
 * them into entries (room for count) in queue order.  The entries borrow the
 * names.  Returns how many there are.  If ignored is not NULL, *ignored is set
 * to the first name that is none, or to NULL.
 */
int
zk_queue_sort(const char *const *names, int count, ZkQueueEntry *entries,
			  const char **ignored)
{
	return zk_queue_sort_up_to(INT64_MAX, names, count, entries, ignored);
}

/*
 * The same, but of those with a higher number than "last" only one is taken, if
 * there are any, so that it shows.  Who stands near the front of a long queue
 * need not sort all that is behind it.
 */
int
zk_queue_sort_up_to(int64_t last, const char *const *names, int count,
					ZkQueueEntry *entries, const char **ignored)
{
	int			found = 0;
	bool		one_behind = false;

	if (ignored)
		*ignored = NULL;
	for (int i = 0; i < count; i++)
	{
		if (!zk_queue_parse(names[i], &entries[found]))
		{
			if (ignored && *ignored == NULL)
				*ignored = names[i];
		}
		else if (entries[found].sequence <= last)
			found++;
		else if (!one_behind)
		{
			one_behind = true;
			found++;
		}
	}
	if (found > 1)
		qsort(entries, found, sizeof(ZkQueueEntry), compare_entries);
	return found;
}

/*
 * Does the name begin with one of these base names?  An empty one is nobody's.
 */
static bool
is_own(const char *name, const char *const *own, int own_count)
{
	for (int i = 0; i < own_count; i++)
	{
		size_t		len = strlen(own[i]);

		if (len > 0 && strncmp(name, own[i], len) == 0)
			return true;
	}
	return false;
}

/* The index of the contender of exactly this name, or -1. */
static int
find_name(const ZkQueueEntry *entries, int count, const char *name)
{
	for (int i = 0; i < count; i++)
	{
		if (strcmp(entries[i].name, name) == 0)
			return i;
	}
	return -1;
}

/* The index of a stranger with the same number as entry "which", or -1. */
static int
find_tied(const ZkQueueEntry *entries, int count, int which,
		  const char *const *own, int own_count)
{
	for (int i = 0; i < count; i++)
	{
		if (i != which && entries[i].sequence == entries[which].sequence &&
			!is_own(entries[i].name, own, own_count))
			return i;
	}
	return -1;
}

/*
 * Do two contenders of different clients exclude each other?  One for a permit
 * and one of a lock do; for those of one semaphore see decide_permit().
 */
static bool
conflicts(const ZkQueueEntry *a, const ZkQueueEntry *b)
{
	return a->mode != ZK_SHARED || b->mode != ZK_SHARED;
}

/*
 * The index of a stranger ahead of entry "which" that is of another kind: a
 * lock's instead of a semaphore's, the reverse, or one of another number of
 * permits.  -1 if there is none.
 */
static int
find_mixed(const ZkQueueEntry *entries, int which, const char *const *own,
		   int own_count)
{
	for (int i = 0; i < which; i++)
	{
		if (entries[i].permits != entries[which].permits &&
			!is_own(entries[i].name, own, own_count))
			return i;
	}
	return -1;
}

/*
 * Decide for a permit.  Those of another kind that are ahead, if any, are our
 * own client's, which is about to delete them, and do not count.  One of the
 * same kind does, our own or not: those behind go by the places of all that
 * they see, and do not know whom we would leave out of account.  own_ahead says
 * that there would be a permit but for those of our own, so that nobody else
 * has it.
 */
static void
decide_permit(const ZkQueueEntry *entries, int count, int self,
			  const char *const *own, int own_count, ZkVerdict *verdict)
{
	int			permits = entries[self].permits;
	int			ahead = 0;
	int			own_ahead = 0;
	int			nearest = -1;

	for (int i = 0; i < self; i++)
	{
		if (entries[i].permits != permits)
			continue;
		if (verdict->first < 0)
			verdict->first = i;
		ahead++;
		own_ahead += is_own(entries[i].name, own, own_count);
		nearest = i;
	}
	if (ahead < permits)
	{
		verdict->decision = ZK_DECIDE_GRANTED;
		verdict->announce = self < count - 1;
		return;
	}
	verdict->decision = ZK_DECIDE_WAIT;
	verdict->watch = nearest;
	verdict->ahead = ahead - permits + 1;
	verdict->first_waiter = ahead == permits;
	verdict->own_ahead = ahead - own_ahead < permits;
}

/*
 * Fill in the first stranger ahead of entry "self", and the conflicting ones:
 * how many, the nearest of them, and whether one waits for us.
 */
static void
look_ahead(const ZkQueueEntry *entries, int self, const char *const *own,
		   int own_count, ZkVerdict *verdict)
{
	bool		own_shared_ahead = false;

	for (int i = 0; i < self; i++)
	{
		/* here the equal ones are our own: see find_tied() */
		if (entries[i].sequence == entries[self].sequence)
			break;

		if (is_own(entries[i].name, own, own_count))
		{
			if (entries[i].mode == ZK_SHARED)
				own_shared_ahead = true;
			continue;
		}
		if (verdict->first < 0)
			verdict->first = i;
		if (!conflicts(&entries[i], &entries[self]))
			continue;

		verdict->ahead++;
		verdict->second_watch = verdict->watch;
		verdict->watch = i;
		if (own_shared_ahead && verdict->deadlock < 0 &&
			entries[i].mode == ZK_EXCLUSIVE &&
			entries[self].mode == ZK_EXCLUSIVE)
			verdict->deadlock = i;
	}
}

/*
 * Can the deletion of entry "other" leave a contender in its place that
 * excludes entry "self", without a trace?
 */
static bool
may_be_replaced(const ZkQueueEntry *entries, int self, int other)
{
	return entries[self].mode == ZK_EXCLUSIVE && entries[other].may_downgrade;
}

/*
 * Decide what our contender, whose full name is self, has to do, from the
 * queue as just read and sorted by zk_queue_sort().  own[] are the base names
 * of this client's other contenders of the same lock node: none of them ever
 * excludes self.  The rules, each of which was broken somewhere:
 *
 * - Not in the list by its exact name: MISSING.  Nothing else may be concluded
 *   then, least of all that nobody is ahead (CURATOR-604).
 * - A number that says that the server's counter wraps soon, or has: SEQUENCE.
 * - A stranger with the same number: TIED.  Either could claim to be first.
 * - An exclusive contender waits for everybody ahead of it, a shared one for
 *   the exclusive ones only.  It watches the nearest of those, so that a
 *   release wakes few (ZOOKEEPER-3162: the nearest, also when there are gaps).
 *   An exclusive and a shared contender with the same number are a downgrade
 *   on its way; the one to watch is the shared one, which stays.
 * - Nobody to wait for: GRANTED.
 * - A stranger of another kind ahead: MIXED.  So all who hold are of one kind, for
 *   of any two the later one has found the earlier one ahead of it.
 * - The permits of a semaphore are for the first of its queue.  The first waiter
 *   watches all of them, each other one the contender right ahead of it.  That
 *   one, when it comes to be among the first, announces it, so that the one that
 *   watches it becomes the first waiter.  It has to announce it to whoever is
 *   behind it then; those who come later find it among the first.
 *
 * last_ahead says that nothing needs to be read once the watched contender is
 * deleted: it is the only one to wait for, and nothing that could replace it
 * excludes us.  New contenders are no danger, since they get higher numbers,
 * but an exclusive contender that may be downgraded leaves a shared one in its
 * place (CURATOR-276, CURATOR-621).  This needs the event that the watched
 * contender was deleted while it was watched without a break: the absence of
 * a contender, found later, does not say what happened to it before.
 *
 * second_watch is for knowing that in time.  When the contender before the
 * watched one goes, those ahead of it have gone as a rule, and a list read
 * then, while the watched one holds the lock, says last_ahead.
 * last_second_watch says that not even that list is needed, for there is nobody
 * else; by the same reasoning.
 *
 * deadlock names the first exclusive contender that stands between a shared
 * one of own[] and our exclusive one.  If that shared one is held, and not
 * about to be deleted, then each waits for the other and for ever.
 */
void
zk_queue_decide(const ZkQueueEntry *entries, int count, const char *self,
				const char *const *own, int own_count, ZkVerdict *verdict)
{
	int			me = find_name(entries, count, self);

	verdict->decision = ZK_DECIDE_MISSING;
	verdict->watch = -1;
	verdict->self = me;
	verdict->ahead = 0;
	verdict->first = -1;
	verdict->last_ahead = verdict->last_second_watch = false;
	verdict->second_watch = verdict->deadlock = -1;
	verdict->first_waiter = verdict->announce = verdict->own_ahead = false;
	if (me < 0)
		return;

	if (entries[me].sequence < 0 || entries[me].sequence >= SEQUENCE_LIMIT)
	{
		verdict->decision = ZK_DECIDE_SEQUENCE;
		return;
	}

	verdict->watch = find_tied(entries, count, me, own, own_count);
	if (verdict->watch >= 0)
	{
		verdict->decision = ZK_DECIDE_TIED;
		return;
	}

	verdict->watch = find_mixed(entries, me, own, own_count);
	if (verdict->watch >= 0)
	{
		verdict->decision = ZK_DECIDE_MIXED;
		return;
	}
	if (entries[me].mode == ZK_PERMIT)
	{
		decide_permit(entries, count, me, own, own_count, verdict);
		return;
	}

	look_ahead(entries, me, own, own_count, verdict);
	if (verdict->ahead == 0)
	{
		verdict->decision = ZK_DECIDE_GRANTED;
		return;
	}
	verdict->decision = ZK_DECIDE_WAIT;
	if (may_be_replaced(entries, me, verdict->watch))
		verdict->second_watch = -1;
	else
		verdict->last_ahead = verdict->ahead == 1;
	verdict->last_second_watch = verdict->second_watch == 0 && verdict->watch == 1 &&
		verdict->deadlock < 0 && !may_be_replaced(entries, me, 0);
}

/* The ZooKeeper sessions of some contenders, as far as it matters here. */
typedef struct Owners
{
	bool		any;
	bool		one;			/* all are of the session session_id */
	int64_t		session_id;
} Owners;

static void
add_owner(Owners *owners, int64_t session_id)
{
	owners->one = session_id != 0 &&
		(!owners->any || (owners->one && owners->session_id == session_id));
	owners->any = true;
	owners->session_id = session_id;
}

/*
 * Which entries of a sorted queue hold the lock, and how many that are, as far
 * as somebody can tell who sees names and owners only?  session_ids[i] is the
 * ephemeralOwner of entries[i].  Contenders of one ZooKeeper session are taken
 * to be one client's, which do not exclude each other; a persistent one (0) is
 * nobody's.  Of contenders with the same number none is behind another: either
 * they are a downgrade's, or each is free to believe that it is first.  For a
 * permit it does not matter whose the others are.  granted may be NULL.
 *
 * It takes no longer for each than for the first, however long the queue is.
 */
int
zk_queue_all_granted(const ZkQueueEntry *entries, const int64_t *session_ids,
					 int count, bool *granted)
{
	Owners		all = {0};		/* of those ahead, with other numbers */
	Owners		others = {0};	/* the same, but for shared ones */
	bool		mixed = false;	/* they are of several kinds */
	int			total = 0;
	int			ahead = 0;

	for (int i = 0; i < count; i++)
	{
		const Owners *rivals = entries[i].mode == ZK_SHARED ? &others : &all;
		bool		holds;

		for (; entries[ahead].sequence != entries[i].sequence; ahead++)
		{
			add_owner(&all, session_ids[ahead]);
			if (entries[ahead].mode != ZK_SHARED)
				add_owner(&others, session_ids[ahead]);
			mixed |= entries[ahead].permits != entries[0].permits;
		}
		if (!rivals->any)
			holds = true;
		else if (entries[i].mode == ZK_PERMIT)
			holds = !mixed && entries[i].permits == entries[0].permits &&
				ahead < entries[i].permits;
		else
			holds = rivals->one && rivals->session_id == session_ids[i];
		total += holds;
		if (granted != NULL)
			granted[i] = holds;
	}
	return total;
}

/*
 * For whom does entry "which" of a sorted queue wait?  Returns how many entries
 * that are: the first ones.  What is behind the nearest exclusive one ahead of
 * a shared one waits with it, not for it; what is ahead of that is waited for
 * by both.  So it makes no difference whether those in between say that they
 * wait.  Those of its own ZooKeeper session, which it never waits for, are for
 * the caller to leave out.
 */
int
zk_queue_blockers(const ZkQueueEntry *entries, int which)
{
	int			blockers = 0;

	for (int i = 0; i < which; i++)
	{
		if (entries[i].sequence == entries[which].sequence)
			break;
		if (conflicts(&entries[i], &entries[which]))
			blockers = i + 1;
	}
	return blockers;
}

/*
 * How many entries of a sorted queue wait for nobody, as their names alone
 * tell?  These are the first ones, and they hold the lock.  Behind them there
 * may be more that do, but only of ZooKeeper sessions that are among the first
 * ones.
 */
int
zk_queue_front(const ZkQueueEntry *entries, int count)
{
	int			front = 0;

	while (front < count &&
		   (entries[front].sequence == entries[0].sequence ||
			(entries[0].mode == ZK_SHARED && entries[front].mode == ZK_SHARED)))
		front++;
	return front;
}

/*
 * Read one character of UTF-8 from len (at least 1) bytes.  Returns its length
 * and sets *character, or returns 0 if the bytes are none.
 */
static size_t
read_utf8(const char *text, size_t len, uint32_t *character)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned char lead = (unsigned char) text[0];
	size_t		size;

	if (lead < 0x80)
		size = 1;
	else if (lead >= 0xC0 && lead < 0xE0)
		size = 2;
	else if (lead >= 0xE0 && lead < 0xF0)
		size = 3;
	else if (lead >= 0xF0 && lead < 0xF8)
		size = 4;
	else
		return 0;
	if (size > len)
		return 0;

	*character = size == 1 ? lead : lead & (0x7Fu >> size);
	for (size_t i = 1; i < size; i++)
	{
		unsigned char next = (unsigned char) text[i];

		if ((next & 0xC0) != 0x80)
			return 0;
		*character = *character << 6 | (next & 0x3F);
	}
	if (*character < least[size] || *character > 0x10FFFF)
		return 0;
	return size;
}

/*
 * Check the characters of a path.  NULL, or what is wrong.  The ranges are
 * those of ZooKeeper's PathUtils.validatePath().  It looks at UTF-16, where
 * all that lies beyond U+FFFF is made of surrogates.
 */
static const char *
check_characters(const char *path, size_t len)
{
	size_t		size;

	for (size_t at = 0; at < len; at += size)
	{
		uint32_t	c;

		size = read_utf8(path + at, len - at, &c);
		if (size == 0)
			return "The path is not valid UTF-8.";
		if (c == 0)
			return "The path contains a null character.";
		if (c <= 0x1F || (c >= 0x7F && c <= 0x9F))
			return "The path contains a control character.";
		if ((c >= 0xD800 && c <= 0xF8FF) || c >= 0xFFF0)
			return "The path contains a character that ZooKeeper does not accept.";
	}
	return NULL;
}

/* Is the text, len bytes, this word? */
static bool
equals(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && memcmp(text, word, len) == 0;
}

/*
 * Could the lock node above take a component, of COMPONENT_MAX bytes at most,
 * for a contender?  It would wait for it for ever.
 */
static bool
like_contender(const char *component, size_t len)
{
	char		name[COMPONENT_MAX + 1];
	ZkQueueEntry entry;

	memcpy(name, component, len);
	name[len] = '\0';
	return zk_queue_parse(name, &entry);
}

/* Check one component, len bytes, of a path.  NULL, or what is wrong. */
static const char *
check_component(const char *component, size_t len, bool first)
{
	if (len == 0)
		return "The path has an empty component.";
	if (equals(component, len, "."))
		return "The path has the component \".\".";
	if (equals(component, len, ".."))
		return "The path has the component \"..\".";
	if (len > COMPONENT_MAX)
		return "The path has a component longer than "
			STRINGIFY(COMPONENT_MAX) " bytes.";
	if (like_contender(component, len))
		return "The path has a component that has the form of a contender's name.";
	if (first && equals(component, len, ".zklock"))
		return "The path \"/.zklock\" and all below it are reserved.";
	if (first && equals(component, len, "zookeeper"))
		return "The path \"/zookeeper\" and all below it are ZooKeeper's own.";
	return NULL;
}

/* Is this the name of a contender, of any client that is known? */
bool
zk_contender_check(const char *name)
{
	ZkQueueEntry entry;

	return strchr(name, '/') == NULL && zk_queue_parse(name, &entry);
}

/*
 * Is this, len bytes of UTF-8, an absolute path that ZooKeeper accepts and
 * that names no reserved znode?  NULL if so, else what is wrong: a sentence of
 * static storage, fit for a DETAIL.  ZooKeeper's own subtree is refused too,
 * lest a lock is asked for below it when the root is "/".
 */
const char *
zk_path_check(const char *path, size_t len)
{
	const char *problem;
	size_t		start = 1;

	if (len == 0)
		return "The path is empty.";
	if (path[0] != '/')
		return "The path does not begin with a slash.";
	if (len == 1)
		return "The path must have at least one component after the slash.";
	if (len >= ZK_NODE_PATH_SIZE)
		return "The path must be shorter than "
			STRINGIFY(ZK_NODE_PATH_SIZE) " bytes.";
	if (path[len - 1] == '/')
		return "The path ends with a slash.";

	problem = check_characters(path, len);
	while (problem == NULL && start < len)
	{
		const char *slash = memchr(path + start, '/', len - start);
		size_t		end = slash ? (size_t) (slash - path) : len;

		problem = check_component(path + start, end - start, start == 1);
		start = end + 1;
	}
	return problem;
}
