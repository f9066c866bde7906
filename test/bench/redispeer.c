/*-------------------------------------------------------------------------
 *
 * redispeer.c
 *	  The peer of the bench that is a lock in Redis.
 *
 *	redispeer HOST PORT
 *
 * The lock is the one of Redis's documentation, on one server: SET key value NX
 * PX, and a script that deletes the key if it still has the value.  Whoever does
 * not get the lock tries again after a random delay, which is what that
 * documentation recommends and all clients do; the delay is the default of
 * node-redlock (others have the same 200 ms).  There is no queue: the client that
 * tries first gets it.
 *
 *-------------------------------------------------------------------------
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <hiredis/hiredis.h>

#include "peer.h"

/* node-redlock's retryDelay and retryJitter: 100 to 300 ms. */
#define RETRY_DELAY_US	200000
#define RETRY_JITTER_US	100000

/* How long Redis keeps a lock that is not released: ms. */
#define TIME_TO_LIVE	"30000"

/* What makes a value unique. */
#define UNIQUE_BYTES	16

#define MAX_KEYS		64
#define MAX_KEY			1024

typedef struct Script
{
	const char *text;
	char		sha[41];		/* as Redis calls it; empty before it is
								 * loaded */
} Script;

typedef struct Session
{
	redisContext *connection;
	unsigned int seed;
	char		value[PEER_DATA_SIZE + 1];	/* of the lock that is held */
	atomic_bool waiting;		/* has tried in vain */
} Session;

static const char *host;
static int	port;

static Script delete_script = {
	.text = "local deleted = 0 "
	"for _, key in ipairs(KEYS) do "
	"if redis.call('get', key) == ARGV[1] then "
	"deleted = deleted + redis.call('del', key) end end "
	"return deleted"
};

static Script set_script = {
	.text = "if redis.call('exists', unpack(KEYS)) > 0 then return 0 end "
	"for _, key in ipairs(KEYS) do "
	"redis.call('set', key, ARGV[1], 'px', " TIME_TO_LIVE ") end "
	"return #KEYS"
};

/*
 * Report why there was no reply, or one that is an error.  Frees the reply;
 * returns false.
 */
static bool
fail(Session *session, redisReply *reply)
{
	if (reply == NULL)
		peer_fail("redis: %s", session->connection->errstr);
	else if (reply->type == REDIS_REPLY_ERROR)
		peer_fail("redis: %s", reply->str);
	else
		peer_fail("redis: a reply of type %d", reply->type);
	if (reply)
		freeReplyObject(reply);
	return false;
}

/*
 * Have the server know a script.  The server that all sessions use is the same.
 */
static bool
load_script(Session *session, Script *script)
{
	redisReply *reply = redisCommand(session->connection,
									 "SCRIPT LOAD %s", script->text);

	if (reply == NULL || reply->type != REDIS_REPLY_STRING)
		return fail(session, reply);
	snprintf(script->sha, sizeof(script->sha), "%s", reply->str);
	freeReplyObject(reply);
	return true;
}

/*
 * Run a script with keys, which are path/0 to path/count-1, or path itself if
 * "count" is 0, and the session's value.  "result" is the number it returns.
 */
static bool
run_script(Session *session, const Script *script, const char *path,
		   int count, long long *result)
{
	char		keys[MAX_KEYS][MAX_KEY];
	char		number[16];
	const char *words[MAX_KEYS + 4] = {"EVALSHA", script->sha, number};
	int			used = 3;
	redisReply *reply;

	snprintf(number, sizeof(number), "%d", count == 0 ? 1 : count);
	if (count == 0)
		words[used++] = path;
	for (int i = 0; i < count; i++)
	{
		snprintf(keys[i], sizeof(keys[i]), "%s/%d", path, i);
		words[used++] = keys[i];
	}
	words[used++] = session->value;
	reply = redisCommandArgv(session->connection, used, words, NULL);
	if (reply == NULL || reply->type != REDIS_REPLY_INTEGER)
		return fail(session, reply);
	*result = reply->integer;
	freeReplyObject(reply);
	return true;
}

/*
 * Random bytes, a few.
 */
static void
fill_random(void *bytes, size_t size)
{
	if (getrandom(bytes, size, 0) != (ssize_t) size)
		abort();
}

/*
 * Give the session a value that no other session has, or has had.
 */
static void
make_value(Session *session)
{
	unsigned char unique[UNIQUE_BYTES];

	memset(session->value, '-', PEER_DATA_SIZE);
	fill_random(unique, sizeof(unique));
	for (int i = 0; i < UNIQUE_BYTES; i++)
	{
		session->value[2 * i] = 'a' + (unique[i] >> 4);
		session->value[2 * i + 1] = 'a' + (unique[i] & 0xf);
	}
}

/*
 * Wait as a client does between two attempts.
 */
static void
sleep_before_retry(Session *session)
{
	double		random = (double) rand_r(&session->seed) / RAND_MAX;

	peer_sleep_us(RETRY_DELAY_US + (2 * random - 1) * RETRY_JITTER_US);
}

/*
 * Connect, and have the server know the scripts.  What this and the functions
 * below that PeerClient lists promise is said there.
 */
static void *
connect_session(void)
{
	Session    *session = calloc(1, sizeof(*session));

	if (session == NULL)
		abort();
	fill_random(&session->seed, sizeof(session->seed));
	session->connection = redisConnect(host, port);
	if (session->connection == NULL || session->connection->err)
		peer_fail("redis: cannot connect to %s:%d", host, port);
	else if ((delete_script.sha[0] || load_script(session, &delete_script)) &&
			 (set_script.sha[0] || load_script(session, &set_script)))
		return session;
	redisFree(session->connection);
	free(session);
	return NULL;
}

static void
disconnect_session(void *arg)
{
	Session    *session = arg;

	redisFree(session->connection);
	free(session);
}

/*
 * One attempt to set a key.  "set" says whether it has been.
 */
static bool
try_acquire(Session *session, const char *path, bool *set)
{
	redisReply *reply;

	reply = redisCommand(session->connection, "SET %s %s NX PX " TIME_TO_LIVE,
						 path, session->value);
	if (reply == NULL || (reply->type != REDIS_REPLY_STATUS &&
						  reply->type != REDIS_REPLY_NIL))
		return fail(session, reply);
	*set = reply->type == REDIS_REPLY_STATUS;
	freeReplyObject(reply);
	return true;
}

static bool
acquire(void *arg, const char *path)
{
	Session    *session = arg;
	bool		set;

	make_value(session);
	while (try_acquire(session, path, &set))
	{
		atomic_store(&session->waiting, !set);
		if (set)
			return true;
		sleep_before_retry(session);
	}
	return false;
}

static bool
release(void *arg, const char *path)
{
	long long	deleted;

	return run_script(arg, &delete_script, path, 0, &deleted) &&
		(deleted == 1 || peer_fail("redis: the lock was gone"));
}

static bool
acquire_many(void *arg, const char *path, int count)
{
	Session    *session = arg;
	long long	set;

	if (count > MAX_KEYS)
		return peer_fail("no more than %d locks together", MAX_KEYS);
	make_value(session);
	while (run_script(session, &set_script, path, count, &set))
	{
		if (set == count)
			return true;
		sleep_before_retry(session);
	}
	return false;
}

static bool
release_many(void *arg, const char *path, int count)
{
	long long	deleted;

	return run_script(arg, &delete_script, path, count, &deleted) &&
		(deleted == count || peer_fail("redis: locks were gone"));
}

/*
 * Whoever has released the lock stands back for as long as one that has tried
 * in vain.  Otherwise it would take the lock again at once, every time, and none
 * would be handed to anybody.
 */
static bool
hold(void *arg, const char *path, int count, int hold_us, PeerHold *holds)
{
	Session    *session = arg;

	for (int i = 0; i < count; i++)
	{
		if (i > 0)
			sleep_before_retry(session);
		if (!acquire(session, path))
			return false;
		holds[i].acquired = peer_now();
		if (hold_us > 0)
			peer_sleep_us(hold_us);
		holds[i].released = peer_now();
		if (!release(session, path))
			return false;
	}
	return true;
}

static bool
queued(void *arg)
{
	return atomic_load(&((Session *) arg)->waiting);
}

int
main(int argc, char **argv)
{
	static const PeerClient client = {
		.connect = connect_session,
		.disconnect = disconnect_session,
		.acquire = acquire,
		.release = release,
		.acquire_many = acquire_many,
		.release_many = release_many,
		.queued = queued,
		.hold = hold,
	};

	if (argc != 3)
	{
		fprintf(stderr, "usage: redispeer HOST PORT\n");
		return 1;
	}
	host = argv[1];
	port = atoi(argv[2]);
	return peer_main(&client);
}
