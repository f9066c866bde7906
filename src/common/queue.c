/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  The names below a lock node: pure functions, no I/O, any thread.
 *
 * A queue is the list of a lock node's children.  Several programs may take
 * part in it, each with its own names, so this file knows which names are
 * contenders, how they are ordered, which exclude each other, and what follows
 * for ours.
 *
 * Q8. A contender with one of the last 2^20 numbers, a negative one, or the
 * same number as a stranger's is refused.  Servers from 3.6 on can give the
 * number 2147483647 twice (ZOOKEEPER-3249).
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
 * repeatedly (ZOOKEEPER-3249), and either gives a lock to two.  The distance
 * leaves room for contenders being created.
 */
#define SEQUENCE_LIMIT	((INT64_C(1) << 31) - (INT64_C(1) << 20))

/* Longest component of a lock path, in bytes. */
#define COMPONENT_MAX	255

#define STRINGIFY_(x)	#x
#define STRINGIFY(x)	STRINGIFY_(x)

/*
 * The words between a contender's identity and its number.  No word ends in
 * another one, so the order does not matter.
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

/* The text around the uuid, and in front of the number of permits. */
#define PERMIT_START	"_c_"
#define PERMIT_WORD		"-sem"

/*
 * The ways to read the end of a name as a number: what a server's "%010d" can
 * write for 32 bits with a sign.  The sign counts in the width, so small
 * negative numbers have nine digits and large ones ten.  A dash in front of ten
 * digits may also end a word, so the reading without a sign comes first.
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
 * Writes the name of a new contender up to its number, which the server
 * appends, to base (size bytes, truncated). uuid has 36 characters; permits is
 * for ZK_PERMIT, which has only one style.  Returns the whole length, as
 * snprintf() does.
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

/* Returns the value of at most 18 digits; -1 if one is not a digit. */
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
 * Returns the number of permits if this is the part before the number of a
 * permit's contender, len bytes.  Else 0.
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
 * Sets the entry's mode, permits and may_downgrade if this is the part before
 * the number of a contender's name, len bytes.  Else returns false.
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
	 * The "x-<id>-" of ZooKeeper's recipes; the id is that of the ZooKeeper
	 * session in hexadecimal (C) or signed decimal (Java).  It never ends in
	 * a dash: that would be the sign of the number (ZOOKEEPER-4372).
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
 * Fills in the entry, which borrows the name, if a child of this name is a
 * contender.  Other children, which do exist (kazoo issues 309 and 385),
 * exclude none.
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
 * Writes the name of the shared contender that takes the place of an exclusive
 * one: its own base name, and that one's number.  Returns the length as
 * zk_queue_base_name() does; -1 and an empty name if "exclusive" is no
 * contender.
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
 * Order of two contenders, for qsort().  Only the number decides which is ahead
 * (ZOOKEEPER-2931: comparing names made two holders).  On equal numbers the
 * shared contender of a downgrade comes right behind the exclusive one; beyond
 * that the order only has to be the same for all.
 */
static int
compare_entries(const void *a, const void *b)
{
	const ZkQueueEntry *x = a;
	const ZkQueueEntry *y = b;

	if (x->sequence != y->sequence)
		return x->sequence < y->sequence ? -1 : 1;
	if (x->mode != y->mode)
		return x->mode < y->mode ? -1 : 1;
	return strcmp(x->name, y->name);
}

/*
 * Finds the contenders among count names of children, and puts them into
 * entries (room for count, names borrowed) in queue order.  Returns how many
 * there are.  *ignored, if not NULL, becomes the first name that is none, or
 * NULL.  Of those with a higher number than "last" takes only one, so that
 * their existence shows: a contender near the front of a long queue need not
 * sort what is behind it.
 */
int
zk_queue_sort(int64_t last, const char *const *names, int count,
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
 * Returns true if the name begins with one of these base names, unless empty.
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

/* Returns the index of the contender of exactly this name, or -1. */
static int
find_name(const ZkQueueEntry *entries, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(entries[i].name, name) == 0)
			return i;
	return -1;
}

/* Returns the index of a stranger with the same number as "which", or -1. */
static int
find_tied(const ZkQueueEntry *entries, int count, int which,
		  const char *const *own, int own_count)
{
	for (int i = 0; i < count; i++)
		if (i != which && entries[i].sequence == entries[which].sequence &&
			!is_own(entries[i].name, own, own_count))
			return i;
	return -1;
}

/*
 * Returns true if two contenders of different clients exclude each other.  For
 * those of one semaphore see decide_permit().
 */
static bool
conflicts(const ZkQueueEntry *a, const ZkQueueEntry *b)
{
	return a->mode != ZK_SHARED || b->mode != ZK_SHARED;
}

/*
 * Returns the index of a stranger ahead of entry "which" of another kind: a
 * lock's, a semaphore's, or one of another number of permits; or -1.
 */
static int
find_mixed(const ZkQueueEntry *entries, int which, const char *const *own,
		   int own_count)
{
	for (int i = 0; i < which; i++)
		if (entries[i].permits != entries[which].permits &&
			!is_own(entries[i].name, own, own_count))
			return i;
	return -1;
}

/*
 * Decides for a permit.  Those ahead of another kind are our own client's,
 * which is about to delete them, and do not count.  Those of the same kind do,
 * even our own, as others count all that they see. own_ahead says that without
 * our own there would be a permit, so that no other client has it.
 */
static ZkDecision
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
		verdict->announce = self < count - 1;
		return ZK_DECIDE_GRANTED;
	}
	verdict->watch = nearest;
	verdict->ahead = ahead - permits + 1;
	verdict->first_waiter = ahead == permits;
	verdict->own_ahead = ahead - own_ahead < permits;
	return ZK_DECIDE_WAIT;
}

/*
 * Fills in the first stranger ahead of entry "self", and the conflicting ones:
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
 * Returns true if the deletion of entry "other" can leave a contender in its
 * place that excludes entry "self", without a trace.
 */
static bool
may_be_replaced(const ZkQueueEntry *entries, int self, int other)
{
	return entries[self].mode == ZK_EXCLUSIVE && entries[other].may_downgrade;
}

/* Decides for entry "self"; see zk_queue_decide(). */
static ZkDecision
decide(const ZkQueueEntry *entries, int count, int self,
	   const char *const *own, int own_count, ZkVerdict *verdict)
{
	if (self < 0)
		return ZK_DECIDE_MISSING;
	if (entries[self].sequence < 0 || entries[self].sequence >= SEQUENCE_LIMIT)
		return ZK_DECIDE_SEQUENCE;
	verdict->watch = find_tied(entries, count, self, own, own_count);
	if (verdict->watch >= 0)
		return ZK_DECIDE_TIED;
	verdict->watch = find_mixed(entries, self, own, own_count);
	if (verdict->watch >= 0)
		return ZK_DECIDE_MIXED;
	if (entries[self].mode == ZK_PERMIT)
		return decide_permit(entries, count, self, own, own_count, verdict);

	look_ahead(entries, self, own, own_count, verdict);
	if (verdict->ahead == 0)
		return ZK_DECIDE_GRANTED;
	if (may_be_replaced(entries, self, verdict->watch))
		verdict->second_watch = -1;
	else
		verdict->last_ahead = verdict->ahead == 1;
	verdict->last_second_watch = verdict->second_watch == 0 &&
		verdict->watch == 1 && !may_be_replaced(entries, self, 0);
	return ZK_DECIDE_WAIT;
}

/*
 * Decides what our contender, whose full name is self, has to do, from the
 * queue as just read and sorted by zk_queue_sort().  own[] are the base names
 * of this client's other contenders of the same lock node, which never exclude
 * self.  The rules, each of which has been broken somewhere:
 *
 * - Not in the list by its exact name: MISSING.  Nothing else may be concluded
 *   then, least of all that none is ahead (CURATOR-604).
 * - A number that says that the server's counter wraps soon, or has: SEQUENCE.
 * - A stranger with the same number: TIED.  Either could claim to be first.
 * - A stranger of another kind ahead: MIXED.  So all holders are of one kind,
 *   as of any two the later one has found the earlier one ahead of it.
 * - An exclusive contender waits for all ahead of it, a shared one for the
 *   exclusive ones.  It watches the nearest of those, so that a release wakes
 *   few (ZOOKEEPER-3162: the nearest, also when there are gaps).  An exclusive
 *   and a shared contender with the same number are a downgrade on its way; it
 *   watches the shared one, which stays.
 * - None to wait for: GRANTED.
 * - The permits of a semaphore are for the first of its queue.  The first
 *   waiter watches all of them, each other one the contender right ahead of it.
 *   That one announces it when it comes to be among the first, to whichever is
 *   behind it then; later ones find it among the first.
 *
 * last_ahead says that nothing needs to be read once the watched contender is
 * deleted: it is the only one to wait for, and nothing that could replace it
 * excludes us.  New contenders get higher numbers, but an exclusive contender
 * that may be downgraded leaves a shared one in its place (CURATOR-276,
 * CURATOR-621).  This needs the event that the contender was deleted while it
 * was watched without a break: its later absence does not say what happened to
 * it before.
 *
 * second_watch is for knowing that in time.  When the contender before the
 * watched one is gone, those ahead of it usually are, too, and a list read
 * then, while the watched one holds the lock, says last_ahead.
 * last_second_watch says that not even that list is needed, as there is no
 * other; by the same reasoning.
 *
 * deadlock is the first exclusive contender between a shared one of own[] and
 * our exclusive one.  If that shared one is held, and not about to be deleted,
 * each waits for the other forever.
 */
void
zk_queue_decide(const ZkQueueEntry *entries, int count, const char *self,
				const char *const *own, int own_count, ZkVerdict *verdict)
{
	*verdict = (ZkVerdict)
	{
		.watch = -1,.first = -1,.second_watch = -1,.deadlock = -1
	};
	verdict->self = find_name(entries, count, self);
	verdict->decision = decide(entries, count, verdict->self, own, own_count,
							   verdict);
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
 * Works out which entries of a sorted queue hold the lock, and returns how
 * many, as far as names and owners tell. session_ids[i] is the ephemeralOwner
 * of entries[i].  Contenders of one ZooKeeper session are taken for one
 * client's, which do not exclude each other; a persistent one (0) is no
 * client's.  Of contenders with the same number none is behind another: they
 * are a downgrade's, or each may believe to be first.  For a permit the owners
 * do not matter. granted may be NULL.  Takes linear time.
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
 * Returns how many entries of a sorted queue, the first ones, entry "which"
 * waits for.  Those behind the nearest exclusive one ahead of a shared one wait
 * with it, not for it; both wait for what is ahead of that.  So it does not
 * matter whether those in between say that they wait.  The caller leaves out
 * those of its own ZooKeeper session.
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
 * Returns how many entries of a sorted queue, the first ones, wait for none, by
 * their names alone.  They hold the lock; behind them only contenders of the
 * same ZooKeeper sessions may, too.
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
 * Reads one character of UTF-8 from len (at least 1) bytes.  Returns its length
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
 * Checks the characters of a path, by the ranges of ZooKeeper's
 * PathUtils.validatePath(), which looks at UTF-16, where all beyond U+FFFF is
 * made of surrogates.  Returns NULL, or what is wrong.
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

/* Returns true if the text, len bytes, is this word. */
static bool
equals(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && memcmp(text, word, len) == 0;
}

/*
 * Returns true if the lock node above could take a component, of at most
 * COMPONENT_MAX bytes, for a contender, and would wait for it forever.
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

/*
 * Checks one component, len bytes, of a path.  Returns NULL, or what is wrong.
 */
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

/* Returns true if this is the name of a contender, of any known client. */
bool
zk_contender_check(const char *name)
{
	ZkQueueEntry entry;

	return strchr(name, '/') == NULL && zk_queue_parse(name, &entry);
}

/*
 * Checks that this, len bytes of UTF-8, is an absolute path that ZooKeeper
 * accepts, and no reserved znode.  Returns NULL, or what is wrong: a static
 * sentence for a DETAIL.  ZooKeeper's own subtree is refused in case the root
 * is "/".
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
