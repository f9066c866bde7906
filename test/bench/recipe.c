/*-------------------------------------------------------------------------
 *
 * recipe.c
 *	  The least that a lock's queue takes, with the bare client library.
 *
 * Create and list are sent together, the list shows the contender ahead, the
 * watch on that one is set immediately by the thread that has the list, and its
 * event alone is the grant.  Only the thread that wants the lock is woken, and
 * only when it has it.
 *
 * That is no lock client.  It relies on no client giving up, no connection ever
 * breaking and no session expiring; with any of that it stops with an error.
 *
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zookeeper/zookeeper.h>

#include "recipe.h"

/* What contenders are called, before the number. */
#define PREFIX			"lock-"

/* Digits of the number. */
#define NUMBER_LENGTH	10

/* Locks that a session can have at a time. */
#define MAX_LOCKS		64

#define MAX_PATH		256

struct Session;

/* A lock that is asked for, or held. */
typedef struct Lock
{
	struct Session *session;
	char		node[MAX_PATH]; /* the lock node */
	char		name[MAX_PATH]; /* the contender's path; empty: none yet */
} Lock;

/*
 * A session.  What is counted and signalled is under its mutex; the rest belongs
 * to the library's completion thread while anything is pending, and to the thread
 * that uses the session while nothing is.
 */
typedef struct Session
{
	zhandle_t  *zh;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int			pending;		/* events to wait for before it continues */
	int			rc;				/* the first error */
	atomic_bool *queued;		/* does it watch a contender ahead of it? */
	atomic_bool own_queued;		/* where that is, unless elsewhere */
	Lock		locks[MAX_LOCKS];
	zoo_op_result_t results[MAX_LOCKS]; /* of a transaction */
} Session;

static const char *servers;

static char data[PEER_DATA_SIZE];

/*
 * One of the things that the session's thread waits for has happened.  Any
 * thread.
 */
static void
done(Session *session, int rc)
{
	pthread_mutex_lock(&session->mutex);
	if (rc != ZOK && session->rc == ZOK)
		session->rc = rc;
	if (--session->pending <= 0 || session->rc != ZOK)
		pthread_cond_signal(&session->changed);
	pthread_mutex_unlock(&session->mutex);
}

/*
 * So many things are to happen from now on.
 */
static void
expect(Session *session, int count)
{
	pthread_mutex_lock(&session->mutex);
	session->pending += count;
	pthread_mutex_unlock(&session->mutex);
}

/*
 * Wait until all of it has, or anything has failed.  Returns false and notes why
 * if it has, or takes too long.
 */
static bool
await(Session *session, const char *what)
{
	struct timespec deadline;
	int			error = 0;
	int			rc;

	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += PEER_PATIENCE_MS / 1000;
	pthread_mutex_lock(&session->mutex);
	while (session->pending > 0 && session->rc == ZOK && error == 0)
		error = pthread_cond_timedwait(&session->changed, &session->mutex,
									   &deadline);
	rc = session->rc;
	pthread_mutex_unlock(&session->mutex);
	if (rc != ZOK)
		return peer_fail("%s: %s", what, zerror(rc));
	return error == 0 || peer_fail("%s: it takes too long", what);
}

/*
 * A request could not even be sent, so there will be no completion.
 */
static void
sent(Session *session, int rc)
{
	if (rc != ZOK)
		done(session, rc);
}

/*-------------------------------------------------------------------------
 * The queue: completion thread
 *-------------------------------------------------------------------------
 */

/* The number of a contender, as text of a fixed length. */
static const char *
number_of(const char *name)
{
	size_t		len = strlen(name);

	return len > NUMBER_LENGTH ? name + len - NUMBER_LENGTH : name;
}

/*
 * The nearest contender ahead of one of ours; NULL if there is none.
 */
static const char *
predecessor(const struct String_vector *names, const char *own)
{
	const char *best = NULL;

	for (int i = 0; i < names->count; i++)
	{
		const char *name = names->data[i];

		if (strcmp(number_of(name), number_of(own)) < 0 &&
			(best == NULL || strcmp(number_of(name), number_of(best)) > 0))
			best = name;
	}
	return best;
}

/*
 * The predecessor has gone, which is the grant.  An event about the session is
 * one about the end of everything here.
 */
static void
on_predecessor_event(zhandle_t *zh, int type, int state, const char *path,
					 void *context)
{
	Lock	   *lock = context;

	(void) zh;
	(void) state;
	(void) path;
	atomic_store(lock->session->queued, false);
	done(lock->session, type == ZOO_DELETED_EVENT ? ZOK : ZCONNECTIONLOSS);
}

/*
 * The watch on the predecessor is set, or there is nothing to watch any more.
 */
static void
on_predecessor(int rc, const char *value, int value_len,
			   const struct Stat *stat, const void *context)
{
	Lock	   *lock = (Lock *) context;

	(void) value;
	(void) value_len;
	(void) stat;
	if (rc == ZOK)
		atomic_store(lock->session->queued, true);
	else						/* it has gone before there was a watch */
		done(lock->session, rc == ZNONODE ? ZOK : rc);
}

/*
 * The list has come, after the answer to the create: grant, or watch.
 */
static void
on_list(int rc, const struct String_vector *names, const void *context)
{
	Lock	   *lock = (Lock *) context;
	Session    *session = lock->session;
	const char *ahead;
	char		path[2 * MAX_PATH];

	if (rc != ZOK || lock->name[0] == '\0')
	{
		done(session, rc);
		return;
	}
	ahead = predecessor(names, lock->name);
	if (ahead == NULL)
	{
		done(session, ZOK);
		return;
	}
	snprintf(path, sizeof(path), "%s/%s", lock->node, ahead);
	sent(session, zoo_awget(session->zh, path, on_predecessor_event, lock,
							on_predecessor, lock));
}

/*
 * The contender has its name.
 */
static void
on_create(int rc, const char *name, const void *context)
{
	Lock	   *lock = (Lock *) context;

	if (rc == ZOK)
		snprintf(lock->name, sizeof(lock->name), "%s", name);
	done(lock->session, rc);
}

/*
 * A contender is gone, or what was to be done for several in one transaction is done.
 */
static void
on_done(int rc, const void *context)
{
	done((Session *) context, rc);
}

/*-------------------------------------------------------------------------
 * The lock: the session's thread
 *-------------------------------------------------------------------------
 */

/*
 * A lock is to be asked for; "index" is its place in the session.
 */
static Lock *
begin(Session *session, int index)
{
	Lock	   *lock = &session->locks[index];

	lock->session = session;
	lock->name[0] = '\0';
	atomic_store(session->queued, false);
	return lock;
}

/*
 * Ask for the list of its queue.
 */
static void
list(Session *session, int index)
{
	Lock	   *lock = &session->locks[index];

	sent(session, zoo_aget_children(session->zh, lock->node, 0, on_list, lock));
}

/*
 * Send what asks for a lock.
 */
static void
ask(Session *session, int index, const char *path)
{
	Lock	   *lock = begin(session, index);
	char		name[MAX_PATH + sizeof(PREFIX)];

	snprintf(lock->node, sizeof(lock->node), "%s", path);
	snprintf(name, sizeof(name), "%s/" PREFIX, lock->node);
	expect(session, 2);
	sent(session, zoo_acreate(session->zh, name, data, sizeof(data),
							  &ZOO_OPEN_ACL_UNSAFE,
							  ZOO_EPHEMERAL | ZOO_SEQUENCE, on_create, lock));
	list(session, index);
}

/*
 * Send what gives it back.
 */
static void
give_back(Session *session, int index)
{
	expect(session, 1);
	sent(session, zoo_adelete(session->zh, session->locks[index].name, -1,
							  on_done, session));
}

/*
 * PeerClient.acquire and release.
 */
static bool
recipe_acquire(void *arg, const char *path)
{
	ask(arg, 0, path);
	return await(arg, "acquire");
}

static bool
recipe_release(void *arg, const char *path)
{
	(void) path;
	give_back(arg, 0);
	return await(arg, "release");
}

/*
 * PeerClient.acquire_many and release_many: all contenders in one transaction, and
 * all lists in the same go, which are read when the names are known.
 */
static bool
recipe_acquire_many(void *arg, const char *path, int count)
{
	Session    *session = arg;
	char		names[MAX_LOCKS][MAX_PATH + sizeof(PREFIX)];
	zoo_op_t	ops[MAX_LOCKS];

	if (count > MAX_LOCKS)
		return peer_fail("%d locks are too many", count);
	for (int i = 0; i < count; i++)
	{
		Lock	   *lock = begin(session, i);

		snprintf(lock->node, sizeof(lock->node), "%s/%d", path, i);
		snprintf(names[i], sizeof(names[i]), "%s/" PREFIX, lock->node);
		zoo_create_op_init(&ops[i], names[i], data, sizeof(data),
						   &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL | ZOO_SEQUENCE,
						   lock->name, sizeof(lock->name));
	}
	expect(session, 1 + count);
	sent(session, zoo_amulti(session->zh, count, ops, session->results,
							 on_done, session));
	for (int i = 0; i < count; i++)
		list(session, i);
	return await(session, "acquire");
}

static bool
recipe_release_many(void *arg, const char *path, int count)
{
	Session    *session = arg;
	zoo_op_t	ops[MAX_LOCKS];

	(void) path;
	for (int i = 0; i < count; i++)
		zoo_delete_op_init(&ops[i], session->locks[i].name, -1);
	expect(session, 1);
	sent(session, zoo_amulti(session->zh, count, ops, session->results,
							 on_done, session));
	return await(session, "release");
}

/*
 * PeerClient.queued.
 */
static bool
recipe_queued(void *arg)
{
	return atomic_load(((Session *) arg)->queued);
}

/*-------------------------------------------------------------------------
 * Sessions
 *-------------------------------------------------------------------------
 */

/*
 * The library's default watcher: the session is connected, which is waited for, or
 * was, and all is over.  Completion thread.
 */
static void
on_session_event(zhandle_t *zh, int type, int state, const char *path,
				 void *context)
{
	(void) zh;
	(void) path;
	if (type == ZOO_SESSION_EVENT)
		done(context, state == ZOO_CONNECTED_STATE ? ZOK : ZCONNECTIONLOSS);
}

/*
 * PeerClient.disconnect.
 */
static void
recipe_disconnect(void *arg)
{
	Session    *session = arg;

	if (session->zh)
		zookeeper_close(session->zh);
	pthread_cond_destroy(&session->changed);
	pthread_mutex_destroy(&session->mutex);
	free(session);
}

/*
 * Begin to connect.  Returns NULL if that fails.
 */
static Session *
begin_session(void)
{
	Session    *session = calloc(1, sizeof(*session));
	pthread_condattr_t attributes;

	if (session == NULL)
		abort();
	pthread_mutex_init(&session->mutex, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&session->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	session->queued = &session->own_queued;
	expect(session, 1);
	session->zh = zookeeper_init(servers, on_session_event, PEER_TIMEOUT_MS,
								 NULL, session, ZOO_NO_LOG_CLIENTENV);
	if (session->zh == NULL)
	{
		recipe_disconnect(session);
		peer_fail("the library cannot be set up");
		return NULL;
	}
	/* otherwise it looks names up with each request, numeric ones too */
	zoo_set_servers_resolution_delay(session->zh, -1);
	return session;
}

/*
 * PeerClient.connect_many: all connect at the same time, or none is left.
 */
static bool
recipe_connect_many(void **sessions, int count)
{
	bool		ok = true;
	int			begun = 0;

	while (begun < count && (sessions[begun] = begin_session()) != NULL)
		begun++;
	for (int i = 0; i < begun; i++)
		ok = await(sessions[i], "connect") && ok;
	if (ok && begun == count)
		return true;
	while (begun > 0)
		recipe_disconnect(sessions[--begun]);
	return false;
}

/*
 * PeerClient.connect.
 */
static void *
recipe_connect(void)
{
	void	   *session;

	return recipe_connect_many(&session, 1) ? session : NULL;
}

/*
 * A znode is there, now or for long.  Completion thread.
 */
static void
on_parent(int rc, const char *value, const void *context)
{
	(void) value;
	done((Session *) context, rc == ZNODEEXISTS ? ZOK : rc);
}

/*
 * PeerClient.prepare: make a lock node, and those above it.
 */
static bool
recipe_prepare(void *arg, const char *path)
{
	Session    *session = arg;
	char		parent[MAX_PATH];

	for (const char *end = path; *end; end++)
	{
		if (end[1] != '/' && end[1] != '\0')
			continue;
		snprintf(parent, sizeof(parent), "%.*s", (int) (end + 1 - path), path);
		expect(session, 1);
		sent(session, zoo_acreate(session->zh, parent, "", 0,
								  &ZOO_OPEN_ACL_UNSAFE, 0, on_parent,
								  session));
	}
	return await(session, "prepare");
}

const PeerClient recipe_client = {
	.connect = recipe_connect,
	.connect_many = recipe_connect_many,
	.disconnect = recipe_disconnect,
	.prepare = recipe_prepare,
	.acquire = recipe_acquire,
	.release = recipe_release,
	.acquire_many = recipe_acquire_many,
	.release_many = recipe_release_many,
	.queued = recipe_queued,
};

/*
 * Before anything else: name the servers, by numeric addresses and an odd number
 * of them.  With an even one the library leaves every other one out
 * (ZOOKEEPER-2466).
 */
void
recipe_init(const char *addresses)
{
	servers = addresses;
	memset(data, 'x', sizeof(data));
	zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
}

/*
 * Show from now on whether a session is queued in a place that others see as well.
 */
void
recipe_show_queued(void *arg, atomic_bool *queued)
{
	Session    *session = arg;

	atomic_store(queued, false);
	session->queued = queued;
}
