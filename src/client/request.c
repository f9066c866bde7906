/*-------------------------------------------------------------------------
 *
 * request.c
 *	  The engine: requests on their way to the ensemble, and what follows from
 *	  their answers.
 *
 * All of the client but the mailbox is under engine_lock.  A thread enters the
 * engine, changes contenders, queries or waits, notes which contenders are to
 * be looked at again, and leaves: then that is done, and what was requested is
 * sent, in one go.
 *
 * D6. What the backend asks for is done by its own thread, if that need not
 * wait: if the library's connection is one on which any thread may send, and
 * nobody else is in the engine.  So no other thread has to be woken before
 * something is sent.  If another thread is in the engine, it takes over: the
 * backend says what it wants (Mailbox.asked) before it tries engine_lock, and
 * each thread looks for that after it has released the lock.  One of the two
 * sees the other.  (The helper, which also releases the lock in other places,
 * looks before it sleeps.) In all other cases the helper is woken: without a
 * connection, for timers, and with TLS or SASL, whose connections have one user
 * (C3).  The backend's thread cannot be kept there: it only tries the lock, no
 * function of the library that the engine calls waits, and where the library
 * fails a check it comes back (guards.c), and does not go there again.  Nor can
 * it leave with the lock: if its signal handlers may not return, it blocks
 * signals (mailbox_begin()).
 *
 * D4. Contexts given to the library are numbers: a request's index in the table
 * and a serial.  A callback that comes late is dropped by its serial, as from a
 * request that was given up; one that never comes (ZOOKEEPER-3868) leaks
 * nothing.
 *
 * So the library knows a few completions only, one for each kind of answer.
 * They take engine_lock, find the request, and call the handler that it was
 * begun with; then what has changed is seen to (zk_engine_leave()).
 *
 * The table is small on purpose: more requests would fill the pipe through
 * which the library wakes its I/O thread, and it closes the connection when
 * that is full.
 *
 *-------------------------------------------------------------------------
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "contender.h"
#include "context.h"
#include "jitter.h"
#include "handle_owner.h"
#include "request.h"

_Static_assert(ZK_MAX_IN_FLIGHT <= ZK_CONTEXT_INDEXES,
			   "a context has no room for the index of every request");

/*
 * How long to wait before a retry while connected, and up to how much longer.
 */
#define RETRY_DELAY		ZK_MS(100)
#define RETRY_JITTER	ZK_MS(50)

/* engine_lock, but for the three pointers, which are constant. */
struct Engine
{
	/*
	 * What zk_engine_leave() calls: see what comes next for a contender, and
	 * for all that had to wait for room; take what the backend has asked for.
	 * Pointers, as they lead up.
	 */
	void		(*advance) (ZkClient *client, Contender *c);
	void		(*resume) (ZkClient *client);
	void		(*take) (ZkClient *client);

	int			free_requests;
	uint32_t	last_serial;
	bool		starved;		/* a free request is waited for */
	Request		requests[ZK_MAX_IN_FLIGHT];
	size_t		watch_bytes;	/* of the paths watched through the handle,
								 * those of watches that have fired included */

	/* contenders to be advanced when the engine is left */
	int			touched_first;	/* a ring */
	int			touched_count;
	uint16_t	touched[ZK_MAX_CONTENDERS];
	bool		is_touched[ZK_MAX_CONTENDERS];
};

/*
 * Make an engine, with nothing on its way: advance sees what comes next for a
 * contender, and resume for all that had to wait for room; take takes what the
 * backend has asked for.  NULL if out of memory.
 */
Engine *
zk_engine_create(void (*advance) (ZkClient *client, Contender *c),
				 void (*resume) (ZkClient *client),
				 void (*take) (ZkClient *client))
{
	Engine	   *engine = calloc(1, sizeof(Engine));

	if (engine == NULL)
		return NULL;
	engine->advance = advance;
	engine->resume = resume;
	engine->take = take;
	engine->free_requests = ZK_MAX_IN_FLIGHT;
	return engine;
}

/* How many more requests can be made.  engine_lock. */
int
zk_requests_free(const ZkClient *client)
{
	return client->engine->free_requests;
}

/*
 * Returns true if so many requests can be sent now.  If only room is missing,
 * "resume" is called when there is some.  engine_lock.
 */
bool
zk_requests_available(ZkClient *client, int count)
{
	if (!zk_is_connected(client) || atomic_load(&zk_poisoned))
		return false;
	if (client->engine->free_requests >= count)
		return true;
	client->engine->starved = true;
	return false;
}

/*
 * Takes a free entry, which must exist.  Returns the context for the library;
 * the answer goes to the handler.
 */
void *
zk_request_begin(ZkClient *client, RequestKind kind, int which, AnswerHandler handler)
{
	Engine	   *engine = client->engine;
	unsigned int index = 0;
	Request    *request;

	while (engine->requests[index].kind != REQ_FREE)
		index++;
	request = &engine->requests[index];
	engine->last_serial = zk_context_next_serial(engine->last_serial, sizeof(void *));
	request->serial = engine->last_serial;
	request->kind = kind;
	request->which = which;
	request->handler = handler;
	request->sent_at = zk_now();
	request->leader_heard_at = client->leader_contact.leader_heard_at;
	client->engine->free_requests--;
	return (void *) (uintptr_t) zk_context_make(index, request->serial);
}

static Request *
find_request(ZkClient *client, const void *context)
{
	Request    *request;

	request = &client->engine->requests[zk_context_index((uintptr_t) context)];
	if (request->kind == REQ_FREE ||
		request->serial != zk_context_serial((uintptr_t) context))
		return NULL;
	return request;
}

/*
 * The same for a contender, which waits for the answer from
 * zk_contender_sent() on, and is advanced when the handler has returned.
 */
void *
zk_contender_ask(ZkClient *client, const Contender *c, ContenderHandler handler)
{
	void	   *context = zk_request_begin(client, REQ_CONTENDER,
										   zk_contender_slot(client, c), NULL);

	find_request(client, context)->contender_handler = handler;
	return context;
}

/* The library refused the request. engine_lock. */
void
zk_request_undo(ZkClient *client, void *context)
{
	find_request(client, context)->kind = REQ_FREE;
	client->engine->free_requests++;
}

/*
 * A request for a contender was handed to the library, which returned rc.
 * Returns true if it is on its way; else it will be tried again.
 */
bool
zk_contender_sent(ZkClient *client, Contender *c, void *context, int rc)
{
	if (rc == ZOK)
	{
		zk_contender_expect(c);
		return true;
	}
	zk_request_undo(client, context);
	zk_contender_retry(client, c);
	return false;
}

/* Asks for the children of a znode, with the contender waiting. */
void
zk_send_children(ZkClient *client, Contender *c, const char *path,
				 ContenderHandler handler)
{
	void	   *context = zk_contender_ask(client, c, handler);

	zk_contender_sent(client, c, context,
					  zoo_aget_children(client->connection.zh, path, 0,
										zk_on_children, context));
}

/*
 * Sends a multi-op of a contender, which has the results.  Returns as
 * zk_contender_sent().
 */
bool
zk_contender_multi(ZkClient *client, Contender *c, int count, const zoo_op_t *ops,
				   ContenderHandler handler)
{
	void	   *context;

	if (!zk_multi_possible(client))
	{
		zk_contender_retry(client, c);
		return false;
	}
	context = zk_contender_ask(client, c, handler);
	memset(c->results, 0, sizeof(c->results));
	return zk_contender_sent(client, c, context,
							 zoo_amulti(client->connection.zh, count, ops,
										c->results, zk_on_void, context));
}

/* The contender waits for one more answer. */
void
zk_contender_expect(Contender *c)
{
	c->turn.pending++;
}

/* The contender has got one of the answers it waits for. */
void
zk_contender_answered(Contender *c)
{
	c->turn.pending--;
}

/* Does nothing for the contender before that time; 0 for no limit. */
void
zk_contender_retry_at(Contender *c, ZkTime when)
{
	c->turn.retry_at = when;
}

/* Try again soon; the helper sees to it. */
void
zk_contender_retry(ZkClient *client, Contender *c)
{
	zk_contender_retry_at(c, zk_now() + RETRY_DELAY +
						  zk_jitter(&client->random, RETRY_JITTER));
	zk_mailbox_wake_helper(&client->mailbox);
}

/* The serial of the request with that context.  Any thread. */
uint32_t
zk_request_serial(const void *context)
{
	return zk_context_serial((uintptr_t) context);
}

/* The contender has changed: it is advanced when the engine is left. */
void
zk_contender_touch(ZkClient *client, Contender *c)
{
	Engine	   *engine = client->engine;
	uint16_t	slot = zk_contender_slot(client, c);

	if (engine->is_touched[slot])
		return;
	engine->is_touched[slot] = true;
	engine->touched[(engine->touched_first + engine->touched_count++) %
					ZK_MAX_CONTENDERS] = slot;
}

/* Advances all contenders when the engine is left. */
void
zk_contenders_touch_all(ZkClient *client)
{
	for (int i = 0; i < client->used; i++)
		if (client->contenders[i].claim != CLAIM_NONE)
			zk_contender_touch(client, &client->contenders[i]);
}

/*
 * Frees the entry of an answered request and copies it to *request.  Returns
 * false if nobody waits for the answer.
 */
static bool
end_request(ZkClient *client, const void *context, Request *request)
{
	Request    *found = find_request(client, context);

	if (found == NULL)
		return false;
	*request = *found;
	found->kind = REQ_FREE;
	client->engine->free_requests++;
	if (client->stage == CLIENT_LEAVING)
		zk_mailbox_wake_helper(&client->mailbox);	/* it waits for just this */
	return request->kind != REQ_FORGOTTEN;
}

/*
 * Advances what has changed, in the order of the changes, so that a contender
 * is deleted before one is created that was requested later.  engine_lock.
 */
static void
advance_touched(ZkClient *client)
{
	Engine	   *engine = client->engine;

	if (engine->starved && client->engine->free_requests > 0)
	{
		engine->starved = false;
		engine->resume(client);
	}
	while (engine->touched_count > 0)
	{
		int			slot = engine->touched[engine->touched_first];

		engine->touched_first = (engine->touched_first + 1) % ZK_MAX_CONTENDERS;
		engine->touched_count--;
		engine->is_touched[slot] = false;
		engine->advance(client, &client->contenders[slot]);
	}
}

/*
 * Enters the engine if the backend has asked for something that nobody has
 * taken, and no other thread is there, and takes it.  Any thread, without
 * engine_lock.
 *
 * Two threads that each write one thing and read the other one (asked, and
 * engine_lock) do not both miss it: between the two is a fence.
 */
static bool
enter_if_asked(ZkClient *client)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load(&client->mailbox.asked) ||
		pthread_mutex_trylock(&client->engine_lock) != 0)
		return false;
	client->engine->take(client);
	return true;
}

/*
 * Leaves the engine: advances what has changed, releases engine_lock, and sends
 * all requests.  Then does the same for what the backend has asked for in the
 * meantime.  Any thread.
 */
void
zk_engine_leave(ZkClient *client)
{
	do
	{
		advance_touched(client);
		pthread_mutex_unlock(&client->engine_lock);
		zk_socket_send();
	} while (enter_if_asked(client));
}

/* As zk_guarded() wants it. */
static void
run_engine(void *client)
{
	if (enter_if_asked(client))
		zk_engine_leave(client);
}

/*
 * Something was asked for by way of the mailbox: sees that it is done (D6).
 * Does not wait, and cannot fail.  Once the library has failed a check nothing
 * is done any more: locks that are wanted for it may never come free.  Backend
 * thread.
 */
void
zk_engine_ask(ZkClient *client)
{
	if (atomic_load(&zk_poisoned))
		return;
	mailbox_begin(&client->mailbox);
	if (zk_socket_is_direct())
		zk_guarded(run_engine, client);
	else
		zk_mailbox_wake_helper(&client->mailbox);
	mailbox_end(&client->mailbox);
}

/*-------------------------------------------------------------------------
 * Completions, for all requests: completion thread
 *-------------------------------------------------------------------------
 */

/* Passes an answer to its handler, under engine_lock. */
static void
deliver(Answer answer, const void *context)
{
	ZkClient   *client = zk_client_enter();
	Request		request;

	if (end_request(client, context, &request))
	{
		answer.request = &request;
		if (request.kind == REQ_CONTENDER)
		{
			Contender  *c = &client->contenders[request.which];

			zk_contender_answered(c);
			request.contender_handler(client, c, &answer);
			zk_contender_touch(client, c);
		}
		else
			request.handler(client, &answer);
	}
	zk_engine_leave(client);
}

void
zk_on_void(int rc, const void *context)
{
	Answer		answer = {.rc = rc};

	deliver(answer, context);
}

void
zk_on_string(int rc, const char *text, const void *context)
{
	Answer		answer = {.rc = rc,.text = text};

	deliver(answer, context);
}

void
zk_on_created(int rc, const char *path, const struct Stat *stat, const void *context)
{
	Answer		answer = {.rc = rc,.text = path,.stat = stat};

	deliver(answer, context);
}

void
zk_on_stat(int rc, const struct Stat *stat, const void *context)
{
	Answer		answer = {.rc = rc,.stat = stat};

	deliver(answer, context);
}

void
zk_on_data(int rc, const char *data, int len, const struct Stat *stat,
		   const void *context)
{
	Answer		answer = {.rc = rc,.text = data,.len = len,.stat = stat};

	deliver(answer, context);
}

void
zk_on_children(int rc, const struct String_vector *children, const void *context)
{
	static const struct String_vector none;
	Answer		answer = {.rc = rc,.children = rc == ZOK ? children : &none};

	deliver(answer, context);
}

void
zk_on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *context)
{
	Answer		answer = {.rc = rc,.acl = acl,.stat = stat};

	deliver(answer, context);
}

/* A watch is set on that path, through the handle.  engine_lock. */
void
zk_watch_asked(ZkClient *client, const char *path)
{
	client->engine->watch_bytes += strlen(path);
}

/* Bytes of the paths that were watched through the handle.  engine_lock. */
size_t
zk_watch_bytes(const ZkClient *client)
{
	return client->engine->watch_bytes;
}

/*
 * A watch set for a contender has fired.  Returns the client with engine_lock
 * taken, which zk_engine_leave() releases.  Returns NULL, without it, for
 * session events, which come to every watcher, and for events of an earlier
 * handle.  Completion thread.
 */
ZkClient *
zk_watch_fired(zhandle_t *zh, int type, const char *path)
{
	ZkClient   *client;

	if (type == ZOO_SESSION_EVENT)
		return NULL;
	client = zk_client_enter();
	if (zk_is_current(client, zh))
	{
		client->engine->watch_bytes -= strlen(path);
		return client;
	}
	zk_engine_leave(client);
	return NULL;
}

/*-------------------------------------------------------------------------
 * What is on its way
 *-------------------------------------------------------------------------
 */

/*
 * Returns since when the server, which answers in order, owes an answer; or
 * INT64_MAX.
 */
ZkTime
zk_requests_unanswered_since(const ZkClient *client)
{
	ZkTime		since = INT64_MAX;

	for (int i = 0; i < ZK_MAX_IN_FLIGHT; i++)
		if (client->engine->requests[i].kind != REQ_FREE &&
			client->engine->requests[i].sent_at < since)
			since = client->engine->requests[i].sent_at;
	return since;
}

/* The handle is closed: no answer will come. engine_lock. */
void
zk_requests_forget(ZkClient *client)
{
	Engine	   *engine = client->engine;

	for (int i = 0; i < ZK_MAX_IN_FLIGHT; i++)
		engine->requests[i].kind = REQ_FREE;
	for (int i = 0; i < client->used; i++)
		client->contenders[i].turn.pending = 0;
	engine->free_requests = ZK_MAX_IN_FLIGHT;
	engine->starved = false;
	engine->watch_bytes = 0;
}

/*
 * Drops the answers to requests of that kind.  Until these come, the requests
 * count as under way. engine_lock.
 */
void
zk_requests_forget_kind(ZkClient *client, RequestKind kind)
{
	for (int i = 0; i < ZK_MAX_IN_FLIGHT; i++)
	{
		Request    *request = &client->engine->requests[i];

		if (request->kind == kind)
			request->kind = REQ_FORGOTTEN;
	}
}

/*
 * Returns true if a multi-op may be sent.  To be called right before each:
 * zoo_amulti() frees what is not its own, and so ends the process, if it finds
 * the handle dead.  The library knows of a loss before we do, and a handle
 * cannot die without losing its connection first. engine_lock.
 */
bool
zk_multi_possible(const ZkClient *client)
{
	return zoo_state(client->connection.zh) == ZOO_CONNECTED_STATE;
}
