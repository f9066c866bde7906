/*-------------------------------------------------------------------------
 *
 * client_packet_test.c
 *	  The library and the lock client against malformed replies.
 *
 * Between them and the ensemble that ZK_SERVERS names there is a proxy, which
 * alters one packet at a time: it is cut at every byte, its length, and every number
 * that could be a length or a count in it, is negative, huge, or off by one, it
 * has another number, it is followed by something, it comes twice.  First that is
 * done with the answer to each kind of request that there is, of a handle of the
 * library; then with what happens to come while the client works.
 *
 * Nothing may crash, which the sanitizers see to; what is malformed may not be
 * taken for a success; and the connection is there again afterwards.
 *
 * Takes long: some seconds in each variant.
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* the library's synchronous functions, too */

#include <arpa/inet.h>
#include <limits.h>

#include "answer.h"
#include "client_proxied.h"
#include "request.h"
#include "random.h"

/* Types of requests that are not in the library's public header. */
#define EXISTS_TYPE			3
#define GET_TYPE			4
#define GET_ACL_TYPE		6
#define SET_ACL_TYPE		7
#define LIST_TYPE			8
#define SYNC_TYPE			9
#define LIST_STAT_TYPE		12
#define MULTI_TYPE			14
#define CREATE2_TYPE		15
#define CONTAINER_TYPE		19
#define AUTH_TYPE			100
#define SET_WATCHES_TYPE	101

/* Where what an operation returns begins, behind length and header. */
#define HEADER				16
#define WORD				4

/*
 * AddressSanitizer sees what a reply does to memory, and tries each way; other variants,
 * one in so many, for what only they see.
 */
#ifdef __SANITIZE_ADDRESS__
#define STRIDE		1
#else
#define STRIDE		5
#endif

/* How often the library is given the address of the proxy: it pauses after the last. */
#define ADDRESSES			40

/* What happened to a request. */
#define NO_ANSWER			1

/* What the proxy does; all under lock. */
static struct
{
	pthread_mutex_t lock;
	int			type;			/* whose next reply is altered */
	int			which;			/* how */
	bool		counted;		/* what it returns begins with a length */
	bool		armed;
	bool		done;			/* it was */
	bool		exhausted;		/* there are not so many ways */
	bool		malformed;		/* what has come of it must not be believed */
	int			total;			/* altered so far */
	enum
	{
		NOT_AT_RANDOM,
		MALFORMED,				/* a reply to whatever, so that it is none */
		ANY_WAY
	}			at_random;
}			plan = {.lock = PTHREAD_MUTEX_INITIALIZER};

static zhandle_t *handle;
static char addresses[ADDRESSES * 24];
static atomic_int answer;		/* to the last request */
static atomic_int events;		/* of its watches */
static atomic_int connections;	/* that it has had so far */
static char list_node[128];
static char data_node[128];
static char scratch[160];

/*-------------------------------------------------------------------------
 * Ways to alter a packet
 *-------------------------------------------------------------------------
 */

static void
put_int(unsigned char *at, int32_t value)
{
	uint32_t	number = htonl((uint32_t) value);

	memcpy(at, &number, sizeof(number));
}

static int32_t
get_int(const unsigned char *at)
{
	uint32_t	number;

	memcpy(&number, at, sizeof(number));
	return (int32_t) ntohl(number);
}

/* Lengths that a packet cannot have. */
static const int32_t bad_lengths[] = {-1, INT_MIN, INT_MAX, 64 * 1024 * 1024 + 1, 0, 15};

/* By how much a packet is longer than it must be. */
static const int excess[] = {1, 4, 20, 100};

/* Values of what stands first in what an operation returns, as a rule a length. */
static const int32_t bad_counts[] = {-1, -2, INT_MIN, INT_MAX, 0x00ffffff, 0x7ffffff0};

/* Numbers of other packets, and errors that no server gives, or not here. */
static const int32_t bad_numbers[] = {0, 1, -2, -3, -4, -8, INT_MAX, INT_MIN};
static const int32_t bad_errors[] = {1, INT_MAX, -4, -9, -116, -117};

#define COUNT(array)	((int) (sizeof(array) / sizeof((array)[0])))

/*
 * Alter a packet in the way with this number: its bytes, length in front, are copied
 * already.  Returns how many there are then, 0 if there is no such way; and whether
 * what comes of it is no packet that there can be.  Zxids stay: a server that
 * hears of a later one than its own refuses the handle for ever.
 */
static size_t
alter(unsigned char *packet, size_t size, int which, bool counted,
	  bool *malformed)
{
	int			n = (int) size - WORD;
	unsigned char *body = packet + WORD;

	*malformed = true;
	if (which < n)				/* cut */
	{
		put_int(packet, which);
		return (size_t) which + WORD;
	}
	which -= n;
	if (which < COUNT(bad_lengths))
	{
		put_int(packet, bad_lengths[which]);
		return size;
	}
	which -= COUNT(bad_lengths);
	if (which < COUNT(excess))
	{
		memset(packet + size, which & 1 ? 0xff : 0, (size_t) excess[which]);
		put_int(packet, n + excess[which]);
		return size + (size_t) excess[which];
	}
	which -= COUNT(excess);
	if (which < COUNT(bad_numbers))
	{
		put_int(body, bad_numbers[which]);
		return size;
	}
	which -= COUNT(bad_numbers);
	if (which < COUNT(bad_errors))
	{
		put_int(body + 12, bad_errors[which]);
		return size;
	}
	which -= COUNT(bad_errors);
	if (which < 4)				/* off by one */
	{
		int			at = which < 2 || !counted ? 0 : HEADER;

		put_int(body + at, get_int(body + at) + (which & 1 ? 1 : -1));
		return size;
	}
	which -= 4;
	if (counted && which < COUNT(bad_counts))
	{
		put_int(body + HEADER, bad_counts[which]);
		return size;
	}
	which -= counted ? COUNT(bad_counts) : 0;

	/* From here on it may still be a packet. */
	*malformed = false;
	if (n > HEADER + WORD && which < (n - HEADER - WORD) / 2)
	{
		put_int(body + HEADER + 2 * which, which % 3 == 0 ? INT_MAX : -1);
		return size;
	}
	which -= n > HEADER + WORD ? (n - HEADER - WORD) / 2 : 0;
	if (which < 8)
	{
		for (int i = HEADER; i < n; i++)
			body[i] = (unsigned char) (which == 0 ? 0 : which == 1 ? 0xff : random_below(256));
		return size;
	}
	return 0;
}

/*
 * The same for the handshake, in which other numbers mean something: a truncated
 * one is followed by silence, so that is left out.
 */
static size_t
alter_handshake(unsigned char *packet, size_t size, int which, bool *malformed)
{
	static const struct
	{
		int			at;
		int32_t		value;
	}			changes[] = {
		{0, -1}, {0, 0}, {0, 36}, {0, 38}, {0, INT_MAX}, {0, INT_MIN}, {0, 0x48545450},
		{4, 1}, {4, -1}, {4, INT_MAX},
		{8, 0}, {8, -1}, {8, INT_MIN}, {8, INT_MAX}, {8, INT_MAX / 2 + 1},
		{12, 0}, {12, -1}, {16, 0}, {16, 1},
		{20, 0}, {20, -1}, {20, 15}, {20, 17}, {20, INT_MAX}, {20, INT_MIN},
		{37, -1}
	};

	*malformed = true;
	if (which >= COUNT(changes))
		return 0;
	put_int(packet + changes[which].at, changes[which].value);
	return size;
}

/*
 * The proxy asks what to send in place of a packet.
 */
static size_t
on_packet(int type, const unsigned char *packet, size_t size,
		  unsigned char *altered)
{
	size_t		new_size = 0;
	bool		malformed;

	memcpy(altered, packet, size);
	pthread_mutex_lock(&plan.lock);
	if (plan.at_random != NOT_AT_RANDOM && type != PROXY_HANDSHAKE &&
		random_below(6) == 0)
	{
		new_size = alter(altered, size, random_below((int) size * 2),
						 plan.at_random == ANY_WAY && size > HEADER + 2 * WORD,
						 &malformed);
		if (plan.at_random == MALFORMED && !malformed)
			new_size = 0;
		plan.total += new_size > 0;
	}
	else if (plan.armed && type == plan.type)
	{
		new_size = type == PROXY_HANDSHAKE ?
			alter_handshake(altered, size, plan.which, &plan.malformed) :
			alter(altered, size, plan.which, plan.counted, &plan.malformed);
		plan.armed = false;
		plan.exhausted = new_size == 0;
		plan.total += new_size > 0;
		plan.done = true;
	}
	pthread_mutex_unlock(&plan.lock);
	if (new_size > 0)
		return new_size;
	memcpy(altered, packet, size);
	return size;
}

/*-------------------------------------------------------------------------
 * A handle of the library
 *-------------------------------------------------------------------------
 */

static void
on_void(int rc, const void *data)
{
	(void) data;
	atomic_store(&answer, rc);
}

/* Look at all of it, so that a sanitizer sees what is not there. */
static void
on_string(int rc, const char *value, const void *data)
{
	(void) data;
	atomic_store(&answer, rc == ZOK && strlen(value) == 0 ? ZAPIERROR : rc);
}

static void
on_string_stat(int rc, const char *value, const struct Stat *stat,
			   const void *data)
{
	(void) stat;
	on_string(rc, value, data);
}

static void
on_strings(int rc, const struct String_vector *strings, const void *data)
{
	size_t		sum = 0;

	(void) data;
	for (int i = 0; rc == ZOK && i < strings->count; i++)
		sum += strlen(strings->data[i]);
	atomic_store(&answer, rc == ZOK && sum == 0 ? ZAPIERROR : rc);
}

static void
on_strings_stat(int rc, const struct String_vector *strings,
				const struct Stat *stat, const void *data)
{
	(void) stat;
	on_strings(rc, strings, data);
}

static void
on_stat(int rc, const struct Stat *stat, const void *data)
{
	(void) stat;
	(void) data;
	atomic_store(&answer, rc);
}

static void
on_data(int rc, const char *value, int value_len, const struct Stat *stat,
		const void *data)
{
	int			sum = 0;

	(void) stat;
	(void) data;
	for (int i = 0; rc == ZOK && i < value_len; i++)
		sum += value[i] == 'x';
	atomic_store(&answer, rc == ZOK && sum > value_len ? ZAPIERROR : rc);
}

static void
on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *data)
{
	size_t		sum = 0;

	(void) stat;
	(void) data;
	for (int i = 0; rc == ZOK && i < acl->count; i++)
		sum += strlen(acl->data[i].id.scheme) + strlen(acl->data[i].id.id);
	atomic_store(&answer, rc == ZOK && sum > INT_MAX ? ZAPIERROR : rc);
}

static void
on_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	(void) zh;
	(void) type;
	(void) state;
	(void) context;
	if (strlen(path) > 0)
		atomic_fetch_add(&events, 1);
}

static void
on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	(void) zh;
	(void) path;
	(void) context;
	if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE)
		atomic_fetch_add(&connections, 1);
}

/*
 * Operations, each an int (*) (void) that returns what the library says to it.
 */
static int
do_create(void)
{
	return zoo_acreate2(handle, scratch, "x", 1, &ZOO_OPEN_ACL_UNSAFE,
						ZOO_EPHEMERAL_SEQUENTIAL, on_string_stat, NULL);
}

static int
do_plain_create(void)
{
	return zoo_acreate(handle, scratch, "x", 1, &ZOO_OPEN_ACL_UNSAFE,
					   ZOO_EPHEMERAL_SEQUENTIAL, on_string, NULL);
}

static int
do_container(void)
{
	static int	asked = 0;		/* another one each time */
	char		path[192];

	snprintf(path, sizeof(path), "%s-c%d", scratch, asked++);
	return zoo_acreate(handle, path, "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER,
					   on_string, NULL);
}

static int
do_delete(void)
{
	zoo_create(stranger, scratch, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
	return zoo_adelete(handle, scratch, -1, on_void, NULL);
}

static int
do_exists(void)
{
	return zoo_aexists(handle, data_node, 0, on_stat, NULL);
}

static int
do_get(void)
{
	return zoo_aget(handle, data_node, 0, on_data, NULL);
}

static int
do_set(void)
{
	return zoo_aset(handle, data_node, "xxxxx", 5, -1, on_stat, NULL);
}

static int
do_get_acl(void)
{
	return zoo_aget_acl(handle, data_node, on_acl, NULL);
}

static int
do_set_acl(void)
{
	return zoo_aset_acl(handle, data_node, -1, &ZOO_OPEN_ACL_UNSAFE, on_void, NULL);
}

static int
do_list(void)
{
	return zoo_aget_children(handle, list_node, 0, on_strings, NULL);
}

static int
do_list_stat(void)
{
	return zoo_aget_children2(handle, list_node, 0, on_strings_stat, NULL);
}

static int
do_sync(void)
{
	return zoo_async(handle, list_node, on_string, NULL);
}

/* The results of a multi-op, which the library fills in whenever it likes to. */
static zoo_op_result_t results[4];
static char made[192];

static int
do_multi(void)
{
	zoo_op_t	ops[4];

	zoo_create_op_init(&ops[0], scratch, "x", 1, &ZOO_OPEN_ACL_UNSAFE, 0, made, sizeof(made));
	zoo_set_op_init(&ops[1], scratch, "y", 1, -1, NULL);
	zoo_check_op_init(&ops[2], scratch, -1);
	zoo_delete_op_init(&ops[3], scratch, -1);
	return zoo_amulti(handle, 4, ops, results, on_void, NULL);
}

/* One that fails. */
static int
do_failing_multi(void)
{
	zoo_op_t	ops[3];

	zoo_check_op_init(&ops[0], data_node, -1);
	zoo_delete_op_init(&ops[1], scratch, -1);
	zoo_check_op_init(&ops[2], data_node, -1);
	return zoo_amulti(handle, 3, ops, results, on_void, NULL);
}

static int
do_auth(void)
{
	return zoo_add_auth(handle, "digest", "a:b", 3, on_void, NULL);
}

/* An event, which is no answer: it has come, or the connection is lost. */
static int
do_event(void)
{
	int			size = 0;
	int			rc = zoo_wget(handle, data_node, on_watch, NULL, NULL, &size, NULL);

	atomic_store(&answer, ZCONNECTIONLOSS);
	zoo_set(stranger, data_node, "x", 1, -1);
	return rc;
}

/* What is sent when the connection is there again: a watch that is set has gone with it. */
static int
do_reconnect(void)
{
	int			size = 0;
	int			rc = zoo_wget(handle, list_node, on_watch, NULL, NULL, &size, NULL);

	atomic_store(&answer, ZCONNECTIONLOSS);
	proxy_cut();
	return rc;
}

typedef enum Begins
{
	BEGINS_WITH_LENGTH,			/* what it returns */
	BEGINS_OTHERWISE,
	ASKED_ANEW					/* on each connection, so it is answered in
								 * the end */
} Begins;

static const struct
{
	const char *what;
	int			type;
	int			(*ask) (void);
	int			good;			/* the answer if it is not altered */
	Begins		begins;
}			kinds[] =

{
	{"create2", CREATE2_TYPE, do_create, ZOK, BEGINS_WITH_LENGTH},
	{"create", ZOO_CREATE_OP, do_plain_create, ZOK, BEGINS_WITH_LENGTH},
	{"create of a container", CONTAINER_TYPE, do_container, ZOK, BEGINS_WITH_LENGTH},
	{"delete", ZOO_DELETE_OP, do_delete, ZOK, BEGINS_OTHERWISE},
	{"exists", EXISTS_TYPE, do_exists, ZOK, BEGINS_OTHERWISE},
	{"get", GET_TYPE, do_get, ZOK, BEGINS_WITH_LENGTH},
	{"set", ZOO_SETDATA_OP, do_set, ZOK, BEGINS_OTHERWISE},
	{"get ACL", GET_ACL_TYPE, do_get_acl, ZOK, BEGINS_WITH_LENGTH},
	{"set ACL", SET_ACL_TYPE, do_set_acl, ZOK, BEGINS_OTHERWISE},
	{"list", LIST_TYPE, do_list, ZOK, BEGINS_WITH_LENGTH},
	{"list with Stat", LIST_STAT_TYPE, do_list_stat, ZOK, BEGINS_WITH_LENGTH},
	{"sync", SYNC_TYPE, do_sync, ZOK, BEGINS_WITH_LENGTH},
	{"multi-op", MULTI_TYPE, do_multi, ZOK, BEGINS_OTHERWISE},
	{"failing multi-op", MULTI_TYPE, do_failing_multi, ZNONODE, BEGINS_OTHERWISE},
	{"event", PROXY_EVENT, do_event, ZCONNECTIONLOSS, BEGINS_OTHERWISE},
	{"set watches", SET_WATCHES_TYPE, do_reconnect, ZCONNECTIONLOSS, BEGINS_OTHERWISE},
	{"handshake", PROXY_HANDSHAKE, do_reconnect, ZCONNECTIONLOSS, BEGINS_OTHERWISE},
	{"credential", AUTH_TYPE, do_auth, ZOK, ASKED_ANEW}
};

/*
 * Have the handle connected, or one in its place whose session is not over.
 */
static bool
have_handle(void)
{
	ZkTime		deadline = zk_now() + DEADLINE;

	for (;;)
	{
		if (handle != NULL && (zoo_state(handle) == ZOO_EXPIRED_SESSION_STATE ||
							   zoo_state(handle) == ZOO_AUTH_FAILED_STATE))
		{
			zookeeper_close(handle);
			handle = NULL;
		}
		if (handle == NULL)
			handle = zookeeper_init2(addresses, on_session, 3000, NULL, NULL,
									 ZOO_NO_LOG_CLIENTENV, zk_log_callback);
		if (handle != NULL && zoo_state(handle) == ZOO_CONNECTED_STATE)
			return true;
		if (zk_now() > deadline)
			return false;
		usleep(300);
	}
}

/* Returns true if the packet that is to be altered was. */
static bool
is_done(void)
{
	bool		done;

	pthread_mutex_lock(&plan.lock);
	done = plan.done;
	pthread_mutex_unlock(&plan.lock);
	return done;
}

/* Alter the next packet that the plan is about. */
static void
arm(void)
{
	pthread_mutex_lock(&plan.lock);
	plan.done = false;
	plan.armed = true;
	pthread_mutex_unlock(&plan.lock);
}

/*
 * Returns true if the packet has not come by now, and will not: the request was
 * lost with its connection, or what comes after that packet is there.
 */
static bool
is_missed(int kind)
{
	struct Stat stat;
	int			rc = atomic_load(&answer);

	if (kinds[kind].good != ZCONNECTIONLOSS)
		return zk_is_connection_error(rc) && !is_done();
	rc = zoo_exists(handle, list_node, 0, &stat);
	return (rc == ZOK || rc == ZINVALIDSTATE) && !is_done();
}

/*
 * Ask for something, and wait for the answer, and until the packet was altered.
 * A busy machine may lose a connection before that packet comes: then ask again.
 * False if it does not come, or no answer.
 */
static bool
ask(int kind)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	int			rc = ZOK;

	while ((rc == ZOK || zk_is_connection_error(rc)) && zk_now() < deadline && have_handle())
	{
		arm();
		atomic_store(&answer, NO_ANSWER);
		rc = kinds[kind].ask();
		while (zk_now() < deadline)
		{
			if (is_done() && atomic_load(&answer) != NO_ANSWER)
				return true;
			if (rc != ZOK || is_missed(kind))
				break;
			usleep(300);
		}
	}
	diag("type %d, way %d: altered %d, answer %d, request %d", plan.type, plan.which,
		 is_done(), atomic_load(&answer), rc);
	return false;
}

/*
 * Alter the answer to a request of a kind in one way.  Returns whether there are more;
 * counts what was taken for an answer although it is none.
 */
static bool
try_way(int kind, int which, int *believed, bool *stuck)
{
	bool		exhausted;

	pthread_mutex_lock(&plan.lock);
	plan.type = kinds[kind].type;
	plan.which = which;
	plan.counted = kinds[kind].begins == BEGINS_WITH_LENGTH;
	pthread_mutex_unlock(&plan.lock);
	*stuck = !ask(kind);
	pthread_mutex_lock(&plan.lock);
	exhausted = plan.exhausted;
	if (!exhausted && plan.malformed && kinds[kind].begins != ASKED_ANEW &&
		!zk_is_connection_error(atomic_load(&answer)))
	{
		if ((*believed)++ == 0)
			diag("%s: way %d is believed (%d)", kinds[kind].what, which,
				 atomic_load(&answer));
	}
	pthread_mutex_unlock(&plan.lock);
	return !exhausted && !*stuck;
}

/*
 * The answer to a kind of request in all ways; and then as it is.
 */
static void
test_kind(int kind)
{
	const char *what = kinds[kind].what;
	int			believed = 0;
	int			ways = 0;
	bool		stuck;
	ZkTime		deadline;

	while (try_way(kind, kind % STRIDE + ways * STRIDE, &believed, &stuck))
		ways++;

	/*
	 * What was answered by the next connection may still meet the end of the
	 * last one, and a busy machine may lose a good answer.
	 */
	deadline = zk_now() + DEADLINE;
	while (!stuck && atomic_load(&answer) != kinds[kind].good && zk_now() < deadline &&
		   (kinds[kind].begins == ASKED_ANEW || zk_is_connection_error(atomic_load(&answer))))
		stuck = !ask(kind);
	ok(!stuck && ways >= 20 / STRIDE, "%s: %d malformed replies crash nothing (S221)", what, ways);
	is_int(believed, 0, "%s: none is believed", what);
	is_int(atomic_load(&answer), kinds[kind].good, "%s: a good one is", what);
}

/*
 * Send a packet that was not asked for, and wait until the connection is lost for that, or
 * was before, and there is another one.  False if that does not come.
 */
static bool
inject(const unsigned char *packet, size_t size)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	int			before = atomic_load(&connections);

	proxy_inject(packet, size);
	while (atomic_load(&connections) == before)
	{
		if (zk_now() > deadline || !have_handle())
			return false;
		usleep(300);
	}
	return true;
}

/*
 * Whatever comes that was not asked for.
 */
static void
test_unasked(void)
{
	unsigned char packet[64];
	int			tries = 200 / STRIDE;
	int			lost = 0;

	for (int i = 0; i < tries && have_handle(); i++)
	{
		int			size = 4 + random_below(56);

		for (int j = 0; j < size; j++)
			packet[WORD + j] = (unsigned char) random_below(256);
		put_int(packet, size);
		put_int(packet + WORD, -(i % 9));
		if (i & 1)
			memset(packet + WORD + 4, 0, (size_t) size - 4);
		if (!inject(packet, (size_t) size + WORD))
			break;
		lost++;
	}
	plan.total += lost;
	is_int(lost, tries, "replies without requests crash nothing (S221)");
}

static void
test_library(void)
{
	size_t		len = 0;

	for (int i = 0; i < ADDRESSES; i++)
		len += (size_t) snprintf(addresses + len, sizeof(addresses) - len, "%s%s",
								 i > 0 ? "," : "", proxied);
	make_node(list_node, "list");
	make_node(data_node, "data");
	snprintf(scratch, sizeof(scratch), "%s/scratch", root);
	for (int i = 0; i < 3; i++)
	{
		char		path[192];

		snprintf(path, sizeof(path), "%s/child-%d", list_node, i);
		zoo_create(stranger, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
	}
	proxy_alter(on_packet);
	for (int kind = 0; kind < COUNT(kinds); kind++)
	{
		zoo_delete(stranger, scratch, -1);
		zoo_set(stranger, data_node, "xxxxx", 5, -1);
		test_kind(kind);
	}
	test_unasked();
	ok(plan.total >= 2000 / STRIDE, "%d replies were malformed", plan.total);
	zookeeper_close(handle);
	proxy_alter(NULL);
}

/*-------------------------------------------------------------------------
 * The lock client
 *-------------------------------------------------------------------------
 */

/*
 * A little of all that the client asks for, whatever comes of it.
 */
static void
work(int round)
{
	char		node[128];
	ZkContenderId ids[4];
	ZkTime		deadline = zk_now() + ZK_MS(300);
	ZkContenderStatus status;

	node_path(node, round % 2 == 0 ? "work" : "other");
	for (int i = 0; i < 4; i++)
		ids[i] = request(node, i < 2 ? ZK_SHARED : ZK_EXCLUSIVE);
	switch (round % 4)
	{
		case 0:
			zk_query_request(client, ZK_QUERY_QUEUE, node, NULL);
			break;
		case 1:
			zk_query_request(client, ZK_QUERY_TREE, root, NULL);
			break;
		case 2:
			zk_query_request(client, ZK_QUERY_WAITS, root, NULL);
			break;
		case 3:
			zk_record_request(client, node, root);
			break;
	}
	do
	{
		wait_event();
		zk_contender_status(client, ids[0], &status);
	} while (status.state != ZK_HELD && zk_now() < deadline);
	zk_queue_free(zk_queue_take(client));
	for (int i = 0; i < 4; i++)
		if (ids[i] != 0)
			zk_contender_abandon(client, ids[i]);
}

/* How many packets have been altered. */
static int
altered(void)
{
	int			total;

	pthread_mutex_lock(&plan.lock);
	total = plan.total;
	pthread_mutex_unlock(&plan.lock);
	return total;
}

static void
set_at_random(int how)
{
	pthread_mutex_lock(&plan.lock);
	plan.at_random = how;
	pthread_mutex_unlock(&plan.lock);
}

/*
 * Have the client work while packets are altered at random: for so many rounds,
 * and until so many were altered, however slow it is.
 */
static void
work_disturbed(int rounds, int how)
{
	ZkSessionStatus session;
	ZkTime		deadline = zk_now() + DEADLINE;
	int			before = altered();

	proxy_alter(on_packet);
	for (int round = 0;
		 round < rounds || (altered() - before < rounds && zk_now() < deadline); round++)
	{
		set_at_random(how);
		work(round);
		set_at_random(NOT_AT_RANDOM);
	}
	proxy_alter(NULL);
	zk_client_status(client, &session);
	ok(altered() - before >= rounds,
	   "%d packets to the client were altered, and %d connections lost",
	   altered() - before, (int) session.reconnects);
}

/*
 * What is no packet does not do more than a loss of the connection.  What is one, but
 * says something else, crashes nothing; but the client may believe that what it
 * has made does not exist, and leave it to the end of its session.
 */
static void
test_client(void)
{
	char		node[128];
	ZkContenderId id;
	ZkContenderStatus status;

	start_client(proxied, TIMEOUT_MS);
	work_disturbed(20, MALFORMED);
	ok(wait_no_contenders(), "the client abandons its requests (S222)");
	node_path(node, "work");
	id = request(node, ZK_EXCLUSIVE);
	ok(wait_state(id, ZK_HELD, &status), "and a lock is acquired by a good connection (S222)");
	ok(release(id), "and released");
	work_disturbed(10, ANY_WAY);
	restart_client(proxied, TIMEOUT_MS);
	id = acquire(node, ZK_EXCLUSIVE);
	ok(release(id), "all is left in order (S222)");
	ok(zk_client_stop(client, 30000), "the client stops");
}

/*
 * A reply whose zxid is of the far future: after that no server lets the handle in.
 */
static size_t
leap_ahead(int type, const unsigned char *packet, size_t size,
		   unsigned char *altered)
{
	memcpy(altered, packet, size);
	if (type == LIST_TYPE)
		put_int(altered + WORD + 4, INT_MAX);
	return size;
}

/*
 * The client opens another handle then.
 */
static void
test_future(void)
{
	char		node[128];
	ZkContenderId id;
	ZkContenderStatus status;

	start_client(proxied, TIMEOUT_MS);
	node_path(node, "future");
	proxy_alter(leap_ahead);
	id = acquire(node, ZK_EXCLUSIVE);
	proxy_alter(NULL);
	proxy_cut();
	ok(wait_state(id, ZK_LOST, &status), "a server from the future is not found again (S222)");
	zk_contender_abandon(client, id);
	id = acquire(node, ZK_EXCLUSIVE);
	ok(release(id), "others do all the same");
	ok(zk_client_stop(client, 30000), "the client stops");
}

int
main(void)
{
	if (!find_servers("client_packet_test") || !open_proxied())
		return 1;
	seed_random(1);
	test_library();
	test_client();
	test_future();
	zookeeper_close(stranger);
	proxy_stop();
	return done_testing();
}
