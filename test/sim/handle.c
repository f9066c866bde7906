/*-------------------------------------------------------------------------
 *
 * handle.c
 *	  The I/O thread of the simulated libzookeeper: one connection at a time.
 *
 * It does what zookeeper_interest() and zookeeper_process() of zookeeper.c do,
 * one after the other, as do_io() of mt_adaptor.c has it; and completions run
 * on it, as threads.c of the lock client has it.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "ensemble.h"
#include "handle.h"

/*-------------------------------------------------------------------------
 * Queues
 *-------------------------------------------------------------------------
 */

static void
make_room(PacketQueue *queue)
{
	if (queue->first + queue->count < queue->room)
		return;
	if (queue->first > 0)
	{
		memmove(queue->packets, queue->packets + queue->first,
				sizeof(Packet *) * (size_t) queue->count);
		queue->first = 0;
		return;
	}
	queue->room = queue->room == 0 ? 16 : queue->room * 2;
	queue->packets = sim_realloc(queue->packets, sizeof(Packet *) * (size_t) queue->room);
}

void
packets_add(PacketQueue *queue, Packet *packet)
{
	make_room(queue);
	queue->packets[queue->first + queue->count++] = packet;
}

static void
packets_add_front(PacketQueue *queue, Packet *packet)
{
	packets_add(queue, packet);
	memmove(queue->packets + queue->first + 1, queue->packets + queue->first,
			sizeof(Packet *) * (size_t) (queue->count - 1));
	queue->packets[queue->first] = packet;
}

static Packet *
packets_take(PacketQueue *queue)
{
	if (queue->count == 0)
		return NULL;
	queue->count--;
	return queue->packets[queue->first++];
}

static void
packets_drop(PacketQueue *queue)
{
	while (queue->count > 0)
		packet_free(packets_take(queue));
	queue->first = 0;
}

void
completions_add(CompletionQueue *queue, Completion *completion)
{
	completion->next = NULL;
	if (queue->first == NULL)
		queue->first = completion;
	else
		queue->last->next = completion;
	queue->last = completion;
}

static Completion *
completions_take(CompletionQueue *queue)
{
	Completion *first = queue->first;

	if (first != NULL)
		queue->first = first->next;
	return first;
}

static void
watchers_free(Watcher *watcher)
{
	while (watcher != NULL)
	{
		Watcher    *next = watcher->next;

		free(watcher->path);
		free(watcher);
		watcher = next;
	}
}

static void
completion_free(Completion *completion)
{
	watchers_free(completion->watcher);
	result_free(&completion->result);
	free(completion->buffers);
	free(completion->buffer_sizes);
	free(completion->stats);
	free(completion->path);
	free(completion);
}

/*-------------------------------------------------------------------------
 * Completions and events
 *-------------------------------------------------------------------------
 */

bool
handle_unrecoverable(const zhandle_t *zh)
{
	return zh->state == STATE_EXPIRED || zh->state == STATE_AUTH_FAILED;
}

/* Copies the results of a multi-op to the caller's; returns its error. */
static int
multi_results(Completion *completion)
{
	int			rc = ZOK;

	for (int i = 0; i < completion->result.count; i++)
	{
		Result	   *result = &completion->result.results[i];

		completion->results[i].err = result->err;
		if (rc == ZOK && result->err != ZRUNTIMEINCONSISTENCY)
			rc = result->err;
		if (result->err == ZOK && completion->stats[i] != NULL)
			*completion->stats[i] = result->stat;
		if (result->err == ZOK && result->path != NULL && completion->buffers[i] != NULL)
		{
			strncpy(completion->buffers[i], result->path,
					(size_t) completion->buffer_sizes[i]);
			completion->results[i].value = completion->buffers[i];
		}
	}
	return rc;
}

/* Calls the watchers of an event. */
static void
call_watchers(zhandle_t *zh, Completion *event)
{
	for (Watcher *watcher = event->watcher; watcher != NULL; watcher = watcher->next)
		watcher->call(zh, event->event, event->state, event->path, watcher->context);
}

/* Calls a completion with its answer, as process_completions() does. */
static void
call_completion(zhandle_t *zh, Completion *c)
{
	Result	   *r = &c->result;
	bool		ok = c->rc == ZOK;

	if (c->results != NULL && r->count > 0)
		c->rc = multi_results(c);
	switch (c->kind)
	{
		case ANSWER_EVENT:
			call_watchers(zh, c);
			break;
		case ANSWER_AUTH:
		case ANSWER_VOID:
			((void_completion_t) c->call) (c->rc, c->data);
			break;
		case ANSWER_STRING:
			((string_completion_t) c->call) (c->rc, ok ? r->path : NULL, c->data);
			break;
		case ANSWER_STRING_STAT:
			((string_stat_completion_t) c->call) (c->rc, ok ? r->path : NULL,
												  ok ? &r->stat : NULL, c->data);
			break;
		case ANSWER_STAT:
			((stat_completion_t) c->call) (c->rc, ok ? &r->stat : NULL, c->data);
			break;
		case ANSWER_DATA:
			((data_completion_t) c->call) (c->rc, ok ? r->data : NULL, ok ? r->len : 0,
										   ok ? &r->stat : NULL, c->data);
			break;
		case ANSWER_STRINGS:
			((strings_completion_t) c->call) (c->rc, ok ? &r->children : NULL, c->data);
			break;
		case ANSWER_ACL:
			((acl_completion_t) c->call) (c->rc, ok ? &r->acl : NULL,
										  ok ? &r->stat : NULL, c->data);
			break;
	}
}

static void
run_completions(zhandle_t *zh)
{
	Completion *completion;

	zh->completing = true;
	while ((completion = completions_take(&zh->to_call)) != NULL)
	{
		task_step();
		call_completion(zh, completion);
		completion_free(completion);
	}
	zh->completing = false;
}

static Watcher *
watcher_make(watcher_fn call, void *context)
{
	Watcher    *watcher = sim_alloc(sizeof(Watcher));

	watcher->call = call;
	watcher->context = context;
	return watcher;
}

/* A session event goes to all watchers, which remain. */
static void
session_event(zhandle_t *zh, int state)
{
	Completion *event = sim_alloc(sizeof(Completion));
	Watcher   **link = &event->watcher;

	event->kind = ANSWER_EVENT;
	event->event = -1;			/* ZOO_SESSION_EVENT */
	event->state = state;
	event->path = sim_strdup("");
	*link = watcher_make(zh->watcher, zh->context);
	for (Watcher *watcher = zh->watchers; watcher != NULL; watcher = watcher->next)
	{
		link = &(*link)->next;
		*link = watcher_make(watcher->call, watcher->context);
	}
	completions_add(&zh->to_call, event);
}

/* An event of a path goes to its watchers, which are gone then. */
static void
path_event(zhandle_t *zh, const Packet *packet)
{
	Completion *event = sim_alloc(sizeof(Completion));
	Watcher   **from = &zh->watchers;
	Watcher   **to = &event->watcher;

	event->kind = ANSWER_EVENT;
	event->event = packet->event;
	event->state = STATE_CONNECTED;
	event->path = sim_strdup(packet->path);
	while (*from != NULL)
	{
		Watcher    *watcher = *from;

		if (strcmp(watcher->path, packet->path) != 0)
		{
			from = &watcher->next;
			continue;
		}
		*from = watcher->next;
		watcher->next = NULL;
		*to = watcher;
		to = &watcher->next;
	}
	completions_add(&zh->to_call, event);
}

/*-------------------------------------------------------------------------
 * The end of a connection
 *-------------------------------------------------------------------------
 */

static void
handle_fail_all(zhandle_t *zh, int rc)
{
	Completion *completion;

	while ((completion = completions_take(&zh->sent)) != NULL)
	{
		completion->rc = rc;
		completions_add(&zh->to_call, completion);
	}
	if (zh->auth != NULL)
	{
		zh->auth->rc = rc;
		completions_add(&zh->to_call, zh->auth);
		zh->auth = NULL;
	}
}

/* Closes the connection and forgets what was under way: cleanup(). */
static void
connection_over(zhandle_t *zh, int rc)
{
	if (zh->stage != LINK_NONE && zh->link != NULL)
		link_close(zh->link, zh->process->host);
	zh->link = NULL;
	zh->stage = LINK_NONE;
	zh->established = false;
	zh->held_back = 0;
	if (handle_unrecoverable(zh))
		session_event(zh, zh->state);
	else if (zh->state == STATE_CONNECTED)
		session_event(zh, STATE_CONNECTING);
	packets_drop(&zh->to_send);
	packets_drop(&zh->inbox);
	handle_fail_all(zh, rc);
	if (!handle_unrecoverable(zh))
		zh->state = STATE_LOST;
}

/* The next one of the servers, as addrvec_next() has it. */
static void
take_next_server(zhandle_t *zh)
{
	if (zh->next_server >= zh->server_count)
		zh->next_server = 0;
	zh->server = zh->servers[zh->next_server++];
}

/* handle_error(): the connection is over, and the next server is to be tried. */
static void
connection_failed(zhandle_t *zh, int rc, const char *why)
{
	sim_trace("%s: connection to server %d: %s", zh->process->name, zh->server, why);
	strncpy(zh->library->error, why, sizeof(zh->library->error) - 1);
	connection_over(zh, rc);
	zh->delay = zh->next_server >= zh->server_count;
	take_next_server(zh);
}

void
handle_break(zhandle_t *zh)
{
	if (zh->link != NULL)
		link_close(zh->link, zh->process->host);
	zh->link = NULL;
	zh->stage = LINK_BROKEN;
	handle_wake(zh);
}

/*-------------------------------------------------------------------------
 * The network's calls: events
 *-------------------------------------------------------------------------
 */

static void
on_connected(Link *link, void *owner)
{
	zhandle_t  *zh = owner;

	if (zh->link != link)
		return;
	zh->stage = LINK_UP;
	task_wake_all(&zh->io_waits);
}

static void
on_received(Link *link, void *owner, void *body)
{
	zhandle_t  *zh = owner;

	if (zh->link != link)
	{
		packet_free(body);
		return;
	}
	packets_add(&zh->inbox, body);
	task_wake_all(&zh->io_waits);
}

static void
on_broken(Link *link, void *owner)
{
	zhandle_t  *zh = owner;

	if (zh->link != link)
		return;
	zh->link = NULL;
	zh->stage = LINK_BROKEN;
	zh->closed_by_server = true;
	task_wake_all(&zh->io_waits);
	task_wake_all(&zh->parting);
}

static const LinkCalls link_calls = {on_connected, on_received, on_broken};

/*-------------------------------------------------------------------------
 * Sending
 *-------------------------------------------------------------------------
 */

void
handle_wake(zhandle_t *zh)
{
	zh->woken = true;
	task_wake_all(&zh->io_waits);
}

static void
send_packet(zhandle_t *zh, Packet *packet)
{
	Message		message = {packet, (void (*) (void *)) packet_free};

	link_send(zh->link, zh->process->host, message);
	zh->sent_at = process_monotonic(zh->process);
}

void
handle_send_all(zhandle_t *zh)
{
	if (zh->stage != LINK_UP || zh->state != STATE_CONNECTED)
		return;
	while (zh->to_send.count > 0)
		send_packet(zh, packets_take(&zh->to_send));
}

void
handle_send_credential(zhandle_t *zh, bool front)
{
	Packet	   *packet = packet_make(PACKET_AUTH);

	packet->scheme = sim_strdup(zh->scheme);
	packet->credential = sim_strdup(zh->credential);
	if (front)
		packets_add_front(&zh->to_send, packet);
	else
		packets_add(&zh->to_send, packet);
}

/* prime_connection(): says who we are, or want to be. */
static void
send_greeting(zhandle_t *zh)
{
	Packet	   *packet = packet_make(PACKET_CONNECT);

	packet->session = zh->id.client_id;
	packet->password = zh->password;
	packet->timeout_ms = zh->timeout_ms;
	packet->zxid = zh->last_zxid;
	send_packet(zh, packet);
	zh->state = STATE_ASSOCIATING;
}

static void
send_watches(zhandle_t *zh)
{
	Packet	   *packet;

	if (zh->watchers == NULL)
		return;
	packet = packet_make(PACKET_SET_WATCHES);
	packet->zxid = zh->last_zxid;
	for (Watcher *watcher = zh->watchers; watcher != NULL; watcher = watcher->next)
		strings_add(&packet->data_watches, watcher->path);
	packets_add_front(&zh->to_send, packet);
}

/*-------------------------------------------------------------------------
 * zookeeper_interest()
 *-------------------------------------------------------------------------
 */

/* Begins to connect to the next server. */
static void
connect_next(zhandle_t *zh)
{
	Library    *library = zh->library;

	take_next_server(zh);
	library->connecting_since = process_boottime(zh->process);
	zh->received_at = zh->sent_at = process_monotonic(zh->process);
	if (library->avoiding > 0 && zh->server_count > 1 && zh->server == library->avoided)
	{
		library->avoiding--;
		connection_failed(zh, ZCONNECTIONLOSS, "passed over");
		return;
	}
	library->avoiding = 0;
	zh->state = STATE_CONNECTING;
	zh->stage = LINK_CONNECTING;
	zh->link = link_connect(zh->process->host, ensemble_host(zh->server), &link_calls, zh);
}

/* Sends a ping if one is due; returns when the next one is, in so long. */
static SimTime
ping(zhandle_t *zh, SimTime now)
{
	SimTime		third = SIM_MS(zh->timeout_ms) / 3;
	SimTime		left = third - (now - zh->sent_at);

	if (zh->state != STATE_CONNECTED)
		return third;
	if (left > 0)
		return left;
	if (zh->sent.first == NULL)
	{
		packets_add(&zh->to_send, packet_make(PACKET_PING));
		handle_send_all(zh);
	}
	return third;
}

/* Returns for how long there is nothing to do. */
static SimTime
interest(zhandle_t *zh)
{
	SimTime		now;
	SimTime		left;
	SimTime		next_ping;

	if (zh->stage == LINK_NONE)
	{
		if (zh->delay)
		{
			zh->delay = false;
			return SIM_MS(zh->timeout_ms) / 60;
		}
		connect_next(zh);
		if (zh->stage == LINK_NONE)
			return 0;
	}
	now = process_monotonic(zh->process);
	left = SIM_MS(zh->timeout_ms) * 2 / 3 - (now - zh->received_at);
	if (left <= 0)
	{
		connection_failed(zh, ZOPERATIONTIMEOUT, "timed out");
		return 0;
	}
	next_ping = ping(zh, now);
	return left < next_ping ? left : next_ping;
}

/*-------------------------------------------------------------------------
 * zookeeper_process()
 *-------------------------------------------------------------------------
 */

/* The server has accepted us, or says that the session has expired. */
static void
process_greeting(zhandle_t *zh, const Packet *packet)
{
	if (packet->session != zh->id.client_id && zh->id.client_id != 0)
	{
		zh->state = STATE_EXPIRED;
		connection_failed(zh, ZSESSIONEXPIRED, "session expired");
		return;
	}
	zh->timeout_ms = packet->timeout_ms;
	zh->id.client_id = packet->session;
	zh->password = packet->password;
	memcpy(zh->id.passwd, &zh->password, sizeof(zh->password));
	zh->state = STATE_CONNECTED;
	send_watches(zh);
	if (zh->scheme != NULL)
		handle_send_credential(zh, true);
	session_event(zh, STATE_CONNECTED);
}

static void
process_auth(zhandle_t *zh, const Packet *packet)
{
	if (packet->result.err != ZOK)
		zh->state = STATE_AUTH_FAILED;
	if (zh->auth != NULL)
	{
		zh->auth->rc = packet->result.err;
		completions_add(&zh->to_call, zh->auth);
		zh->auth = NULL;
	}
	if (packet->result.err != ZOK)
		connection_failed(zh, ZAUTHFAILED, "authentication failed");
}

/* The same watcher of the same path is there only once. */
static bool
has_watcher(const zhandle_t *zh, const Watcher *like)
{
	for (const Watcher *watcher = zh->watchers; watcher != NULL; watcher = watcher->next)
		if (watcher->call == like->call && watcher->context == like->context &&
			strcmp(watcher->path, like->path) == 0)
			return true;
	return false;
}

static void
process_reply(zhandle_t *zh, Packet *packet)
{
	Completion *completion = completions_take(&zh->sent);

	/* the handle is being closed, and all were called (ZOOKEEPER-804) */
	if (completion == NULL && zh->closing)
		return;
	if (completion == NULL || completion->xid != packet->xid)
		sim_violation("simulation", "%s: an answer to request %d instead of %d",
					  zh->process->name, packet->xid,
					  completion != NULL ? completion->xid : 0);
	if (packet->zxid > 0)
		zh->last_zxid = packet->zxid;
	sim_trace("%s: answer to %d: %d", zh->process->name, packet->xid, packet->result.err);
	completion->rc = packet->result.err;
	completion->result = packet->result;
	memset(&packet->result, 0, sizeof(packet->result));
	if (completion->watcher != NULL && completion->rc == ZOK &&
		!has_watcher(zh, completion->watcher))
	{
		completion->watcher->next = zh->watchers;
		zh->watchers = completion->watcher;
		completion->watcher = NULL;
	}
	completions_add(&zh->to_call, completion);
}

static void
process_packet(zhandle_t *zh, Packet *packet)
{
	zh->received_at = process_monotonic(zh->process);
	if (packet->kind != PACKET_CONNECTED)
		zh->established = true;
	switch (packet->kind)
	{
		case PACKET_CONNECTED:
			process_greeting(zh, packet);
			break;
		case PACKET_AUTH_RESULT:
			process_auth(zh, packet);
			break;
		case PACKET_REPLY:
			process_reply(zh, packet);
			break;
		case PACKET_EVENT:
			path_event(zh, packet);
			break;
		default:
			break;
	}
	packet_free(packet);
}

static void
process(zhandle_t *zh)
{
	Packet	   *packet;

	/* an error may be found before what has come is read */
	if (zh->stage == LINK_BROKEN && (zh->inbox.count == 0 || chance_one_in(&zh->chance, 2)))
	{
		connection_failed(zh, ZCONNECTIONLOSS, "connection lost");
		return;
	}
	if (zh->stage == LINK_UP && zh->state == STATE_CONNECTING)
	{
		send_greeting(zh);
		return;
	}
	handle_send_all(zh);
	packet = packets_take(&zh->inbox);
	if (packet != NULL)
		process_packet(zh, packet);
}

/*
 * Returns true if process() has something to do.  What is to be sent is looked at before
 * each wait (zookeeper_interest()): a new connection sends its credential and watches.
 */
static bool
is_due(const zhandle_t *zh)
{
	return zh->woken || zh->closing || zh->stage == LINK_BROKEN ||
		zh->inbox.count > 0 || (zh->stage == LINK_UP && zh->state == STATE_CONNECTING) ||
		(zh->state == STATE_CONNECTED && zh->to_send.count > 0);
}

void *
handle_main(void *argument)
{
	zhandle_t  *zh = argument;

	while (!zh->closing)
	{
		SimTime		span = interest(zh);

		run_completions(zh);
		if (!is_due(zh) && span > 0)
			task_wait(&zh->io_waits, process_monotonic(zh->process) + span, true);
		zh->woken = false;
		task_step();
		process(zh);
		run_completions(zh);
		if (handle_unrecoverable(zh))
		{
			if (zh->on_end != NULL && zh->state == STATE_AUTH_FAILED)
				zh->on_end();
			break;
		}
	}
	run_completions(zh);
	return NULL;
}

/*-------------------------------------------------------------------------
 * zookeeper_close()
 *-------------------------------------------------------------------------
 */

/* How long a server may take to say its last word (socket.c). */
#define LAST_WORD	SIM_MS(500)

/* Says that the session is closed, and waits until the server has read it. */
static void
part(zhandle_t *zh)
{
	Packet	   *packet = packet_make(PACKET_REQUEST);
	SimTime		until = process_monotonic(zh->process) + LAST_WORD;

	handle_send_all(zh);
	packet->xid = ++zh->last_xid;
	packet->op.kind = OP_CLOSE;
	packet->op.len = -1;
	send_packet(zh, packet);
	while (zh->stage == LINK_UP && process_monotonic(zh->process) < until)
		task_wait(&zh->parting, until, true);
}

/* Closes the handle; says so to the server, unless the session is to be kept. */
void
handle_close(zhandle_t *zh, bool keep_session)
{
	zh->closing = true;
	handle_fail_all(zh, ZCLOSING);
	handle_wake(zh);
	task_join(zh->io);
	if (zh->state == STATE_CONNECTED)
		sim_trace("%s: %s session %llx", zh->process->name, keep_session ? "keeps" : "closes",
				  (unsigned long long) zh->id.client_id);
	if (!keep_session && zh->state == STATE_CONNECTED && zh->stage == LINK_UP)
		part(zh);
	if (zh->link != NULL)
		link_close(zh->link, zh->process->host);
	zh->link = NULL;
	packets_drop(&zh->to_send);
	packets_drop(&zh->inbox);
	free(zh->to_send.packets);
	free(zh->inbox.packets);
	watchers_free(zh->watchers);
	free(zh->scheme);
	free(zh->credential);
	free(zh);
}
