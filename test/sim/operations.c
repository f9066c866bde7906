/*-------------------------------------------------------------------------
 *
 * operations.c
 *	  Random operations on an ensemble, and what came of them: one line each.
 *
 * The same object file is linked with the real library, and with the simulated
 * one.  What it prints for the same seed must be the same, except with another
 * version of ZooKeeper that differs.  Several sessions create, delete, write,
 * read, watch and end.  After each operation every session makes a round trip,
 * so that the events that it has caused have come.
 *
 * Transaction ids are printed as their distance from the first one, sessions by
 * their number, and names of the ensemble's own choice as they are.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define THREADED

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

#include "operations.h"

#define SESSIONS	3
#define TIMEOUT_MS	10000
#define MOST_OPS	4
#define TEXT_SIZE	4096
#define PATH_SIZE	80

/* A session, and what has come for it since it was looked at. */
typedef struct Session
{
	zhandle_t  *zh;
	int64_t		id;
	bool		connected;
	char		events[TEXT_SIZE];
} Session;

/* The answer that is waited for. */
typedef struct Waited
{
	bool		answered;
	char		text[TEXT_SIZE];
} Waited;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news;
static Session sessions[SESSIONS];
static int64_t known_sessions[64];
static int	known_count;
static int64_t first_zxid;
static uint64_t random_state;
static Waited waited;
static struct Stat last_created;
static FILE *out;
static char root[32];

/* splitmix64: the choices must not be the simulation's. */
static uint64_t
choose(uint64_t limit)
{
	uint64_t	z = (random_state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return (z ^ (z >> 31)) % limit;
}

/*-------------------------------------------------------------------------
 * Text
 *-------------------------------------------------------------------------
 */

static void add(char *text, const char *fmt,...)
			__attribute__((format(printf, 2, 3)));

/* Appends to a text of TEXT_SIZE bytes. */
static void
add(char *text, const char *fmt,...)
{
	size_t		len = strlen(text);
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text + len, TEXT_SIZE - len, fmt, args);
	va_end(args);
}

/* The number of a session: in the order in which they began. */
static int
session_number(int64_t id)
{
	for (int i = 0; i < known_count; i++)
		if (known_sessions[i] == id)
			return i + 1;
	return id == 0 ? 0 : -1;
}

/* A transaction's distance from the first one. */
static long
distance(int64_t zxid)
{
	return zxid == 0 ? -1 : (long) (zxid - first_zxid);
}

static void
add_stat(char *text, const struct Stat *stat)
{
	if (stat == NULL)
	{
		add(text, " no stat");
		return;
	}
	add(text, " [c%ld m%ld p%ld v%d cv%d av%d s%d len%d n%d]", distance(stat->czxid),
		distance(stat->mzxid), distance(stat->pzxid), stat->version, stat->cversion,
		stat->aversion, session_number(stat->ephemeralOwner), stat->dataLength,
		stat->numChildren);
}

/*-------------------------------------------------------------------------
 * Answers
 *-------------------------------------------------------------------------
 */

static void
answered(void)
{
	waited.answered = true;
	pthread_cond_signal(&news);
	pthread_mutex_unlock(&lock);
}

static void
begin_answer(int rc)
{
	pthread_mutex_lock(&lock);
	add(waited.text, " %d", rc);
}

static void
on_void(int rc, const void *data)
{
	(void) data;
	begin_answer(rc);
	answered();
}

static void
on_string(int rc, const char *path, const void *data)
{
	(void) data;
	begin_answer(rc);
	add(waited.text, " %s", path != NULL ? path : "-");
	answered();
}

static void
on_string_stat(int rc, const char *path, const struct Stat *stat, const void *data)
{
	(void) data;
	begin_answer(rc);
	add(waited.text, " %s", path != NULL ? path : "-");
	add_stat(waited.text, stat);
	if (stat != NULL)
		last_created = *stat;
	answered();
}

static void
on_stat(int rc, const struct Stat *stat, const void *data)
{
	(void) data;
	begin_answer(rc);
	add_stat(waited.text, stat);
	answered();
}

static void
on_data(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
	(void) data;
	begin_answer(rc);
	add(waited.text, " %d \"%.*s\"", len, len > 0 && value != NULL ? len : 0,
		value != NULL ? value : "");
	add_stat(waited.text, stat);
	answered();
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* The order of children is a hash table's: it is no promise. */
static void
on_children(int rc, const struct String_vector *children, const void *data)
{
	(void) data;
	begin_answer(rc);
	if (children != NULL)
	{
		qsort(children->data, (size_t) children->count, sizeof(char *), compare_names);
		for (int i = 0; i < children->count; i++)
			add(waited.text, " %s", children->data[i]);
	}
	answered();
}

static void
on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *data)
{
	(void) data;
	begin_answer(rc);
	for (int i = 0; acl != NULL && i < acl->count; i++)
		add(waited.text, " %s:%d", acl->data[i].id.scheme, acl->data[i].perms);
	add_stat(waited.text, stat);
	answered();
}

/* Events; session events only say that there is a connection. */
static void
on_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	Session    *session = context;

	(void) zh;
	pthread_mutex_lock(&lock);
	if (type != ZOO_SESSION_EVENT)
		add(session->events, " event %d %s", type, path);
	else if (state == ZOO_CONNECTED_STATE)
		session->connected = true;
	pthread_cond_signal(&news);
	pthread_mutex_unlock(&lock);
}

/* Waits a little.  With the lock. */
static void
await_news(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += 200 * 1000 * 1000;
	if (until.tv_nsec >= 1000 * 1000 * 1000)
	{
		until.tv_sec++;
		until.tv_nsec -= 1000 * 1000 * 1000;
	}
	pthread_cond_timedwait(&news, &lock, &until);
}

/* Waits for the answer to a request that the library returned rc for. */
static void
await_answer(int rc)
{
	pthread_mutex_lock(&lock);
	if (rc != ZOK)
		add(waited.text, " not sent: %d", rc);
	while (rc == ZOK && !waited.answered)
		await_news();
	pthread_mutex_unlock(&lock);
}

static void
begin_wait(void)
{
	pthread_mutex_lock(&lock);
	waited.answered = false;
	waited.text[0] = '\0';
	pthread_mutex_unlock(&lock);
}

/*-------------------------------------------------------------------------
 * Sessions
 *-------------------------------------------------------------------------
 */

static void
open_session(Session *session, const char *servers)
{
	session->connected = false;
	session->zh = zookeeper_init(servers, on_event, TIMEOUT_MS, NULL, session, 0);
	pthread_mutex_lock(&lock);
	while (!session->connected)
		await_news();
	session->id = zoo_client_id(session->zh)->client_id;
	known_sessions[known_count++] = session->id;
	pthread_mutex_unlock(&lock);
}

/* A round trip of each session: what it was sent before has come. */
static void
settle(void)
{
	for (int i = 0; i < SESSIONS; i++)
	{
		begin_wait();
		await_answer(zoo_async(sessions[i].zh, "/", on_string, NULL));
	}
}

static void
print_events(void)
{
	for (int i = 0; i < SESSIONS; i++)
	{
		if (sessions[i].events[0] != '\0')
			fprintf(out, "\tsession %d:%s\n", session_number(sessions[i].id),
					sessions[i].events);
		sessions[i].events[0] = '\0';
	}
}

/*-------------------------------------------------------------------------
 * Operations
 *-------------------------------------------------------------------------
 */

static const char *const names[] = {
	"/a", "/a/x", "/a/y", "/b", "/b/x", "/c", "/none/x", ""
};

static const int modes[] = {0, 1, 2, 3, 4};

/* ACLs: anyone, whoever has made it, anyone may read. */
static struct ACL anyone[] = {{31, {"world", "anyone"}}};
static struct ACL creator[] = {{31, {"auth", ""}}};
static struct ACL reader[] = {{1, {"world", "anyone"}}};
static struct ACL_vector acls[] = {{1, anyone}, {1, creator}, {1, reader}, {0, NULL}};

/* Writes a path, PATH_SIZE bytes. */
static void
some_path(char *path)
{
	snprintf(path, PATH_SIZE, "%s%s", root, names[choose(sizeof(names) / sizeof(names[0]))]);
}

static const struct ACL_vector *
some_acl(void)
{
	return choose(4) > 0 ? &acls[0] : &acls[choose(4)];
}

/* A version: mostly any. */
static int
some_version(void)
{
	return choose(3) > 0 ? -1 : (int) choose(3);
}

/* A path to create: sequential ones may end with a slash. */
static void
path_to_create(int mode, char *path)
{
	some_path(path);
	/* what "/" has had is not the same on all servers */
	if (strcmp(path, root) == 0 && (mode == 2 || mode == 3))
		strcat(path, "/c");
	if (mode == 2 || mode == 3)
		strcat(path, "-");
}

static void
do_create(zhandle_t *zh, bool with_stat)
{
	int			mode = modes[choose(5)];
	char		path[PATH_SIZE];

	path_to_create(mode, path);
	fprintf(out, "create%s %s mode %d:", with_stat ? "2" : "", path, mode);
	await_answer(with_stat ?
				 zoo_acreate2(zh, path, "data", (int) choose(5), some_acl(), mode,
							  on_string_stat, NULL) :
				 zoo_acreate(zh, path, NULL, -1, some_acl(), mode, on_string, NULL));
}

/* One operation of a multi-op. */
static void
make_op(zoo_op_t *op, char *path, char *buffer)
{
	int			mode = modes[choose(4)];	/* the library cannot read the
											 * answer to a container */

	switch (choose(4))
	{
		case 0:
			path_to_create(mode, path);
			fprintf(out, " create %s mode %d", path, mode);
			zoo_create_op_init(op, path, "multi", 5, some_acl(), mode, buffer,
							   PATH_SIZE);
			break;
		case 1:
			some_path(path);
			fprintf(out, " delete %s", path);
			zoo_delete_op_init(op, path, some_version());
			break;
		case 2:
			some_path(path);
			fprintf(out, " set %s", path);
			zoo_set_op_init(op, path, "new", 3, some_version(), NULL);
			break;
		default:
			some_path(path);
			fprintf(out, " check %s", path);
			zoo_check_op_init(op, path, some_version());
			break;
	}
}

static void
do_multi(zhandle_t *zh)
{
	int			count = 1 + (int) choose(MOST_OPS);
	zoo_op_t	ops[MOST_OPS];
	zoo_op_result_t results[MOST_OPS];
	char		paths[MOST_OPS][PATH_SIZE];
	char		buffers[MOST_OPS][PATH_SIZE];

	memset(results, 0, sizeof(results));
	fprintf(out, "multi");
	for (int i = 0; i < count; i++)
	{
		buffers[i][0] = '\0';
		make_op(&ops[i], paths[i], buffers[i]);
	}
	fprintf(out, ":");
	await_answer(zoo_amulti(zh, count, ops, results, on_void, NULL));
	for (int i = 0; i < count; i++)
		add(waited.text, " (%d %s)", results[i].err, buffers[i]);
}

static void
do_one(Session *session, const char *servers)
{
	zhandle_t  *zh = session->zh;
	char		path[PATH_SIZE];
	int			version = some_version();

	some_path(path);
	begin_wait();
	switch (choose(18))
	{
		case 0:
		case 1:
		case 2:
			do_create(zh, false);
			break;
		case 3:
		case 4:
			do_create(zh, true);
			break;
		case 5:
		case 6:
			fprintf(out, "delete %s version %d:", path, version);
			await_answer(zoo_adelete(zh, path, version, on_void, NULL));
			break;
		case 7:
			fprintf(out, "set %s version %d:", path, version);
			await_answer(zoo_aset(zh, path, "value", (int) choose(6), version, on_stat, NULL));
			break;
		case 8:
			fprintf(out, "exists %s:", path);
			await_answer(zoo_aexists(zh, path, 0, on_stat, NULL));
			break;
		case 9:
			fprintf(out, "get %s:", path);
			await_answer(zoo_aget(zh, path, 0, on_data, NULL));
			break;
		case 10:
		case 11:
		case 12:
			fprintf(out, "watch %s:", path);
			await_answer(zoo_awget(zh, path, on_event, session, on_data, NULL));
			break;
		case 13:
			fprintf(out, "children %s:", path);
			await_answer(zoo_aget_children(zh, path, 0, on_children, NULL));
			break;
		case 14:
			fprintf(out, "acl %s:", path);
			await_answer(zoo_aget_acl(zh, path, on_acl, NULL));
			break;
		case 15:
			if (choose(3) > 0)
			{
				fprintf(out, "auth:");
				await_answer(zoo_add_auth(zh, "digest", "joe:secret", 10, on_void, NULL));
				break;
			}
			fprintf(out, "close:");
			zookeeper_close(zh);
			open_session(session, servers);
			break;
		default:
			do_multi(zh);
			break;
	}
	fprintf(out, "%s\n", waited.text);
}

/* The first transaction that counts: the one that makes the root. */
static void
make_root(void)
{
	begin_wait();
	await_answer(zoo_acreate2(sessions[0].zh, root, "", 0, &acls[0], 0, on_string_stat,
							  NULL));
	first_zxid = last_created.czxid;
}

void
operations_run(FILE *file, const char *servers, uint64_t seed, int count)
{
	pthread_condattr_t attr;

	out = file;
	random_state = seed;
	snprintf(root, sizeof(root), "/t%llu", (unsigned long long) seed);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&news, &attr);
	for (int i = 0; i < SESSIONS; i++)
		open_session(&sessions[i], servers);
	make_root();
	for (int i = 0; i < count; i++)
	{
		int			which = (int) choose(SESSIONS);

		fprintf(out, "%d session %d ", i, session_number(sessions[which].id));
		do_one(&sessions[which], servers);
		settle();
		print_events();
	}
	for (int i = 0; i < SESSIONS; i++)
		zookeeper_close(sessions[i].zh);
}
