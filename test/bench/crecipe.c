/*-------------------------------------------------------------------------
 *
 * crecipe.c
 *	  The peer of the bench that is the lock recipe of ZooKeeper's own source,
 *	  in C.
 *
 *	crecipe SERVERS
 *
 * The recipe, zoo_lock.c, is not among the things that are installed with the
 * library, and is no part of this project: see peers.mk for where it comes from.
 * It lets one choose neither the data of a contender, which is empty, nor wait
 * for the lock: it calls back when it has it, in the library's thread.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zookeeper.h>
#include <zoo_lock.h>

#include "peer.h"

#define MAX_PATH		1024

typedef struct Session Session;

/* The recipe's lock on one path. */
typedef struct Lock
{
	struct Lock *next;			/* of the same session */
	Session    *session;
	char	   *path;
	zkr_lock_mutex_t mutex;
	bool		held;			/* this and the next: under the session's
								 * guard */
	bool		news;			/* the recipe has called back */
} Lock;

struct Session
{
	zhandle_t  *handle;
	Lock	   *locks;
	pthread_mutex_t guard;		/* of what follows, and of the locks' */
	pthread_cond_t changed;
	bool		connected;
	bool		queued;			/* behind a contender that it watches */
};

static const char *servers;

/*
 * Wait until a flag of the session, or of a lock of it, is set; the guard must
 * be held.  Returns false, with a failure noted, if that takes too long.
 */
static bool
wait_for(Session *session, const bool *flag, const char *what)
{
	struct timespec deadline;

	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += PEER_PATIENCE_MS / 1000;
	while (!*flag)
		if (pthread_cond_clockwait(&session->changed, &session->guard,
								   CLOCK_MONOTONIC, &deadline) == ETIMEDOUT)
			return peer_fail("timed out waiting for %s", what);
	return true;
}

/*
 * The session's state has changed.  Called by the library's thread.
 */
static void
session_event(zhandle_t *handle, int type, int state, const char *path,
			  void *context)
{
	Session    *session = context;

	(void) handle;
	(void) path;
	if (type != ZOO_SESSION_EVENT)
		return;
	pthread_mutex_lock(&session->guard);
	session->connected = state == ZOO_CONNECTED_STATE;
	pthread_cond_broadcast(&session->changed);
	pthread_mutex_unlock(&session->guard);
}

/*
 * The recipe has acquired (0) or released (1) a lock.  Called by whatever thread
 * is in the recipe.
 */
static void
lock_event(int released, void *context)
{
	Lock	   *lock = context;

	pthread_mutex_lock(&lock->session->guard);
	lock->held = !released;
	lock->news = true;
	pthread_cond_broadcast(&lock->session->changed);
	pthread_mutex_unlock(&lock->session->guard);
}

static void
disconnect_session(void *arg)
{
	Session    *session = arg;
	Lock	   *lock;

	if (session->handle)
		zookeeper_close(session->handle);
	while ((lock = session->locks) != NULL)
	{
		session->locks = lock->next;
		zkr_lock_destroy(&lock->mutex);
		free(lock->path);
		free(lock);
	}
	pthread_cond_destroy(&session->changed);
	pthread_mutex_destroy(&session->guard);
	free(session);
}

/*
 * Begin to connect.  Returns NULL, with a failure noted, if the library does not
 * even begin.
 */
static Session *
begin_session(void)
{
	Session    *session = calloc(1, sizeof(*session));

	if (session == NULL)
		abort();
	pthread_mutex_init(&session->guard, NULL);
	pthread_cond_init(&session->changed, NULL);
	session->handle = zookeeper_init(servers, session_event, PEER_TIMEOUT_MS,
									 NULL, session, 0);
	if (session->handle)
		return session;
	peer_fail("zookeeper_init: %s", strerror(errno));
	disconnect_session(session);
	return NULL;
}

static void *
connect_session(void)
{
	Session    *session = begin_session();
	bool		connected;

	if (session == NULL)
		return NULL;
	pthread_mutex_lock(&session->guard);
	connected = wait_for(session, &session->connected, "a connection");
	pthread_mutex_unlock(&session->guard);
	if (connected)
		return session;
	disconnect_session(session);
	return NULL;
}

/*
 * The session's lock on a path, which is made when it is first asked for.
 */
static Lock *
find_lock(Session *session, const char *path)
{
	Lock	   *lock = session->locks;

	while (lock && strcmp(lock->path, path) != 0)
		lock = lock->next;
	if (lock)
		return lock;
	lock = calloc(1, sizeof(*lock));
	if (lock == NULL || (lock->path = strdup(path)) == NULL)
		abort();
	lock->session = session;
	lock->next = session->locks;
	session->locks = lock;
	zkr_lock_init_cb(&lock->mutex, session->handle, lock->path,
					 &ZOO_OPEN_ACL_UNSAFE, lock_event, lock);
	return lock;
}

/*
 * The recipe creates the last znode of a path, but not those above.
 */
static bool
prepare(void *arg, const char *path)
{
	Session    *session = arg;
	char		part[MAX_PATH];
	int			code;

	for (const char *end = path; end;)
	{
		end = strchr(end + 1, '/');
		snprintf(part, sizeof(part), "%.*s",
				 end ? (int) (end - path) : (int) strlen(path), path);
		code = zoo_create(session->handle, part, NULL, -1,
						  &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
		if (code != ZOK && code != ZNODEEXISTS)
			return peer_fail("cannot create %s: %s", part, zerror(code));
	}
	return true;
}

/*
 * Has the lock a contender?  Waits for the recipe to end what it is doing.
 */
static bool
has_contender(Lock *lock)
{
	bool		result;

	pthread_mutex_lock(&lock->mutex.pmutex);
	result = lock->mutex.id != NULL;
	pthread_mutex_unlock(&lock->mutex.pmutex);
	return result;
}

/*
 * Wait until the recipe calls back, and tell whether the lock is held then.
 */
static bool
wait_for_news(Lock *lock, bool *held)
{
	Session    *session = lock->session;
	bool		ok;

	pthread_mutex_lock(&session->guard);
	session->queued = !lock->news;
	ok = wait_for(session, &lock->news, "a lock");
	session->queued = false;
	lock->news = false;
	*held = lock->held;
	pthread_mutex_unlock(&session->guard);
	return ok;
}

/*
 * The recipe removes its contender and queues again, which it calls a release,
 * if the predecessor has gone between its list and its watch.  When that has
 * happened four times running it gives up and does not say so; then it is to be
 * called again.
 */
static bool
acquire(void *arg, const char *path)
{
	Lock	   *lock = find_lock(arg, path);
	bool		held = false;

	while (!held)
	{
		if (!has_contender(lock))
			zkr_lock_lock(&lock->mutex);
		if (!wait_for_news(lock, &held))
			return false;
	}
	return true;
}

static bool
release(void *arg, const char *path)
{
	int			code = zkr_lock_unlock(&find_lock(arg, path)->mutex);

	return code == ZOK || peer_fail("cannot release: %s", zerror(code));
}

static bool
queued(void *arg)
{
	Session    *session = arg;
	bool		result;

	pthread_mutex_lock(&session->guard);
	result = session->queued;
	pthread_mutex_unlock(&session->guard);
	return result;
}

int
main(int argc, char **argv)
{
	static const PeerClient client = {
		.connect = connect_session,
		.disconnect = disconnect_session,
		.prepare = prepare,
		.acquire = acquire,
		.release = release,
		.queued = queued,
	};

	if (argc != 2)
	{
		fprintf(stderr, "usage: crecipe SERVERS\n");
		return 1;
	}
	servers = argv[1];
	zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
	return peer_main(&client);
}
