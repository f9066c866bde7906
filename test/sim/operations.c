/*-------------------------------------------------------------------------
 *
 * operations.c
 *	  Random operations on an ensemble, and what came of them: one line each.
 *
 * The same object file is linked with the real library, and with the simulated
 * one.  What it prints for the same seed must be the same, except with another
 * version of ZooKeeper that differs.  Several sessions create, delete, write,
 * read, watch, come to another server, and end; and in the middle, one expires.
 * After each operation every session has its server catch up with the leader, so
 * that the events that it has caused have come, and reads find what it has done.
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

#include "operations.h"

#define SESSIONS	3
#define TIMEOUT_MS	20000
#define SHORT_TIMEOUT_MS 2000	/* two ticks */
#define MOST_OPS	4
#define TEXT_SIZE	4096
#define PATH_SIZE	80
#define MAX_EVENTS	32

/* The slots of handles: those of sessions, one to expire with, one for each server. */
#define LAST_SLOT	SESSIONS
#define FIRST_SCOUT	(SESSIONS + 1)

/* A session, and what has come for it since it was looked at. */
typedef struct Session
{
	zhandle_t  *zh;
	int64_t		id;
	bool		connected;
	bool		expired;
	bool		away;			/* it has no server */
	int			event_count;
	char		events[MAX_EVENTS][PATH_SIZE + 16];
} Session;

/* The answer that is waited for. */
typedef struct Waited
{
	bool		answered;
	char		text[TEXT_SIZE];
} Waited;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news;
static const Servers *servers;
static Session sessions[MAX_SLOTS];
static int64_t known_sessions[64];
static int	known_count;
static int64_t first_zxid;
static uint64_t random_state;
static Waited waited;
static struct Stat last_created;
static FILE *out;
static char root[32];
static bool unordered;			/* events of this operation come in any order */

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

/* Events; session events only say whether there is a connection, and a session. */
static void
on_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	Session    *session = context;

	(void) zh;
	pthread_mutex_lock(&lock);
	if (type != ZOO_SESSION_EVENT)
	{
		if (session->event_count < MAX_EVENTS)
			snprintf(session->events[session->event_count++], sizeof(session->events[0]),
					 " event %d %s", type, path);
	}
	else
	{
		session->connected = state == ZOO_CONNECTED_STATE;
		session->expired = state == ZOO_EXPIRED_SESSION_STATE;
	}
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

/* ACLs: anyone, whoever has made it, anyone may read. */
static struct ACL anyone[] = {{31, {"world", "anyone"}}};
static struct ACL creator[] = {{31, {"auth", ""}}};
static struct ACL reader[] = {{1, {"world", "anyone"}}};
static struct ACL_vector acls[] = {{1, anyone}, {1, creator}, {1, reader}, {0, NULL}};

static int
slot_of(const Session *session)
{
	return (int) (session - sessions);
}

/* Waits until there is a connection.  A session that expires meanwhile ends the program. */
static void
await_connection(Session *session)
{
	pthread_mutex_lock(&lock);
	while (!session->connected && !session->expired)
		await_news();
	pthread_mutex_unlock(&lock);
	if (session->connected)
		return;
	fprintf(stderr, "session %d has expired\n", session_number(session->id));
	exit(1);
}

static void
await_expiry(Session *session)
{
	pthread_mutex_lock(&lock);
	while (!session->expired)
		await_news();
	pthread_mutex_unlock(&lock);
}

/* Leads the session to another server, or to none; its connection breaks. */
static void
lead(Session *session, int server)
{
	pthread_mutex_lock(&lock);
	session->connected = false;
	pthread_mutex_unlock(&lock);
	servers->lead(slot_of(session), session->zh, server);
}

/* Makes a handle, with a session if there is one already. */
static void
open_handle(Session *session, int server, int timeout_ms, const clientid_t *id)
{
	session->zh = NULL;
	session->expired = false;
	lead(session, server);
	session->zh = zookeeper_init(servers->address(slot_of(session)), on_event, timeout_ms, id,
								 session, 0);
}

/* The server has all that was done before: what it has sent before that has come. */
static void
catch_up(const Session *session)
{
	begin_wait();
	await_answer(zoo_async(session->zh, "/", on_string, NULL));
}

/* Writes the path of a node that goes with the session, PATH_SIZE bytes. */
static void
own_path(const Session *session, char *path)
{
	snprintf(path, PATH_SIZE, "/own%d", slot_of(session));
}

static void
open_session(Session *session, int server)
{
	char		path[PATH_SIZE];

	open_handle(session, server, TIMEOUT_MS, NULL);
	await_connection(session);
	session->id = zoo_client_id(session->zh)->client_id;
	known_sessions[known_count++] = session->id;
	own_path(session, path);
	begin_wait();
	await_answer(zoo_acreate(session->zh, path, NULL, -1, &acls[0], 1, on_string, NULL));
	begin_wait();
}

/* Closes the session, and waits until it is over: the library does not wait for long. */
static void
close_session(Session *session)
{
	Session    *scout = &sessions[FIRST_SCOUT];
	char		path[PATH_SIZE];

	own_path(session, path);
	zookeeper_close(session->zh);
	do
	{
		catch_up(scout);
		begin_wait();
		await_answer(zoo_aexists(scout->zh, path, 0, on_stat, NULL));
	} while (strncmp(waited.text, " 0 ", 3) == 0);
}

static void
settle(void)
{
	for (int i = 0; i < SESSIONS; i++)
	{
		if (!sessions[i].away)
			catch_up(&sessions[i]);
	}
}

/* The session comes to a server that has all that was done before. */
static void
come(Session *session, int server)
{
	catch_up(&sessions[FIRST_SCOUT + server]);
	lead(session, server);
	await_connection(session);
	session->away = false;
}

static int
compare_events(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void
print_events(void)
{
	for (int i = 0; i < SESSIONS; i++)
	{
		Session    *session = &sessions[i];

		if (session->event_count == 0)
			continue;
		if (unordered)
			qsort(session->events, (size_t) session->event_count, sizeof(session->events[0]),
				  compare_events);
		fprintf(out, "\tsession %d:", session_number(session->id));
		for (int k = 0; k < session->event_count; k++)
			fputs(session->events[k], out);
		fputc('\n', out);
		session->event_count = 0;
	}
	unordered = false;
}

static int
some_server(void)
{
	return (int) choose((uint64_t) servers->count);
}

/*-------------------------------------------------------------------------
 * Operations
 *-------------------------------------------------------------------------
 */

static const char *const names[] = {
	"/a", "/a/x", "/a/y", "/b", "/b/x", "/c", "/none/x", ""
};

static const int modes[] = {0, 1, 2, 3, 4};

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

/* The session ends, and another one begins.  Which of its nodes goes first is no promise. */
static void
do_close(Session *session)
{
	unordered = true;
	fprintf(out, "close:");
	close_session(session);
	open_session(session, some_server());
}

/* The session comes to another server, at once or later. */
static void
do_leave(Session *session)
{
	int			server = some_server();

	session->away = choose(2) == 0;
	if (session->away)
	{
		fprintf(out, "leaves");
		lead(session, -1);
		return;
	}
	fprintf(out, "comes to server %d", server);
	come(session, server);
}

/* It has missed events: they come in the order in which the library asks for them. */
static void
do_return(Session *session)
{
	int			server = some_server();

	unordered = true;
	begin_wait();
	fprintf(out, "returns to server %d\n", server);
	come(session, server);
}

static void
do_one(Session *session)
{
	zhandle_t  *zh = session->zh;
	char		path[PATH_SIZE];
	int			version = some_version();

	some_path(path);
	begin_wait();
	switch (choose(19))
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
			do_close(session);
			break;
		case 16:
			do_leave(session);
			break;
		default:
			do_multi(zh);
			break;
	}
	fprintf(out, "%s\n", waited.text);
}

/*-------------------------------------------------------------------------
 * The end of a session that has no server
 *-------------------------------------------------------------------------
 */

static bool
has_event(const Session *session, const char *path)
{
	for (int i = 0; i < session->event_count; i++)
		if (strstr(session->events[i], path) != NULL)
			return true;
	return false;
}

/*
 * Another handle takes the session, with the shortest timeout: the session lives for so
 * long after the leader has heard of it last.  It may have expired when this returns.
 *
 * A server to which the session was connected may not have told the leader yet that it
 * has heard of it, with the longer timeout: it does so within half a tick.  If it does
 * so later, the end of the session only takes longer.
 */
static void
shorten_timeout(const Session *session, Session *last, int server)
{
	clientid_t	id = *zoo_client_id(session->zh);

	open_handle(last, server, SHORT_TIMEOUT_MS, &id);
	pthread_mutex_lock(&lock);
	while (!last->connected && !last->expired)
		await_news();
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < 4; i++)
	{
		pthread_mutex_lock(&lock);
		await_news();
		pthread_mutex_unlock(&lock);
		if (!last->expired)
			catch_up(last);
	}
}

/* The first session expires: another one is told that its own node has gone. */
static void
expire(void)
{
	char		path[PATH_SIZE];
	Session    *session = &sessions[0];
	Session    *watcher = &sessions[1];
	Session    *last = &sessions[LAST_SLOT];
	int			server = some_server();

	for (int i = 0; i < SESSIONS; i++)
		come(&sessions[i], i == 0 ? server : some_server());
	fprintf(out, "session %d expires\n", session_number(session->id));
	own_path(session, path);
	begin_wait();
	await_answer(zoo_awget(watcher->zh, path, on_event, watcher, on_data, NULL));
	lead(session, -1);
	shorten_timeout(session, last, server);
	lead(last, -1);
	pthread_mutex_lock(&lock);
	while (!has_event(watcher, path))
		await_news();
	pthread_mutex_unlock(&lock);
	lead(last, server);
	await_expiry(last);
	zookeeper_close(last->zh);
	lead(session, server);
	await_expiry(session);
	zookeeper_close(session->zh);
	unordered = true;
	open_session(session, server);
}

/*-------------------------------------------------------------------------
 * All of it
 *-------------------------------------------------------------------------
 */

/* The first transaction that counts: the one that makes the root. */
static void
make_root(void)
{
	begin_wait();
	await_answer(zoo_acreate2(sessions[0].zh, root, "", 0, &acls[0], 0, on_string_stat,
							  NULL));
	first_zxid = last_created.czxid;
	settle();
}

/* A session that is away stays so for some time, unless all are. */
static Session *
some_session(void)
{
	int			first = (int) choose(SESSIONS);
	bool		stays = choose(6) > 0;

	for (int i = 0; i < SESSIONS && stays; i++)
	{
		if (!sessions[(first + i) % SESSIONS].away)
			return &sessions[(first + i) % SESSIONS];
	}
	return &sessions[first];
}

static void
begin(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&news, &attr);
	for (int i = 0; i < servers->count; i++)
		open_session(&sessions[FIRST_SCOUT + i], i);
	for (int i = 0; i < SESSIONS; i++)
		open_session(&sessions[i], i % servers->count);
	make_root();
}

static void
end(void)
{
	for (int i = 0; i < SESSIONS; i++)
		close_session(&sessions[i]);
	for (int i = 0; i < servers->count; i++)
		zookeeper_close(sessions[FIRST_SCOUT + i].zh);
}

void
operations_run(FILE *file, const Servers *which, uint64_t seed, int count)
{
	out = file;
	servers = which;
	random_state = seed;
	snprintf(root, sizeof(root), "/t%llu", (unsigned long long) seed);
	begin();
	for (int i = 0; i < count; i++)
	{
		Session    *session = some_session();

		fprintf(out, "%d session %d ", i, session_number(session->id));
		if (i == count / 2)
			expire();
		else if (session->away)
			do_return(session);
		else
			do_one(session);
		settle();
		print_events();
	}
	end();
}
