/*-------------------------------------------------------------------------
 *
 * requests.c
 *	  The requests of sessions in their order, and the answers.
 *
 * As CommitProcessor does it: reads are answered at once, unless a write of
 * their session waits for its commit; then they wait behind it.  Commits come
 * in one order for all servers, so the first write that waits here is the one
 * that a commit of its session and number is for.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "server.h"

#define PERM_READ		1
#define PERM_ADMIN		16

/* ------ requests ------ */

/* Makes a request of a connection; takes the packet. */
Request *
request_make(RequestKind kind, Connection *connection, Packet *packet)
{
	Request    *request = sim_alloc(sizeof(Request));

	request->refs = 1;
	request->kind = kind;
	request->session = connection->session;
	request->cxid = packet != NULL ? packet->xid : 0;
	request->packet = packet;
	request->connection = connection;
	connection->refs++;
	request->identities = identities_share(connection->identities);
	request->timeout_ms = connection->timeout_ms;
	return request;
}

Request *
request_share(Request *request)
{
	request->refs++;
	return request;
}

void
request_drop(Request *request)
{
	if (request == NULL || --request->refs > 0)
		return;
	packet_free(request->packet);
	identities_drop(request->identities);
	connection_drop(request->connection);
	free(request);
}

static bool
request_is_sync(const Request *request)
{
	return request->kind == REQUEST_OP && request->packet->op.kind == OP_SYNC;
}

/* Returns true if the request makes a transaction. */
bool
request_is_write(const Request *request)
{
	if (request->kind == REQUEST_OPEN)
		return true;
	if (request->kind != REQUEST_OP)
		return false;
	switch (request->packet->op.kind)
	{
		case OP_CREATE:
		case OP_DELETE:
		case OP_SET:
		case OP_CHECK:
		case OP_MULTI:
		case OP_CLOSE:
			return true;
		default:
			return false;
	}
}

/* Returns true if the request waits for something from the leader. */
static bool
needs_commit(const Server *server, const Request *request)
{
	if (request->throttled)
		return false;
	return request_is_write(request) ||
		(request_is_sync(request) && server->role == ROLE_FOLLOWING);
}

/* ------ answers ------ */

static PacketKind
answer_kind(const Request *request)
{
	if (request->kind == REQUEST_PING)
		return PACKET_PONG;
	return request->kind == REQUEST_WATCHES ? PACKET_WATCHES_SET : PACKET_REPLY;
}

/* Sends an answer, and takes what is in the result. */
static void
answer(Server *server, const Request *request, Result *result)
{
	Packet	   *packet = packet_make(answer_kind(request));

	packet->xid = request->cxid;
	packet->zxid = server->tree.last_zxid;
	packet->result = *result;
	memset(result, 0, sizeof(Result));
	connection_send(request->connection, packet);
}

/* The stream of chance of a request. */
static Chance
chance_of(const Request *request)
{
	return chance_numbered((uint64_t) request->session, (uint64_t) request->cxid);
}

/* In any order, as a hash set has it. */
static void
add_children(const Node *node, struct String_vector *names, Chance chance)
{

	for (const Node *child = node->first_child; child != NULL; child = child->next)
		strings_add(names, tree_name(child));
	for (int i = names->count - 1; i > 0; i--)
	{
		int			j = (int) chance_below(&chance, (uint64_t) i + 1);
		char	   *name = names->data[i];

		names->data[i] = names->data[j];
		names->data[j] = name;
	}
}

/* Who may not administer a node does not get to see hashes of passwords. */
static void
mask_digests(struct ACL_vector *acl)
{
	for (int i = 0; i < acl->count; i++)
	{
		char	   *colon = strchr(acl->data[i].id.id, ':');

		if (strcmp(acl->data[i].id.scheme, "digest") == 0 && colon != NULL && colon[1] != '\0')
			strcpy(colon + 1, "x");
	}
}

/* Fills in what a read asks of a node that is there. */
static int
read_node(const Request *request, const Node *node, Result *result)
{
	const Op   *op = &request->packet->op;
	bool		is_exists = op->kind == OP_EXISTS;
	int			perms = op->kind == OP_GET_ACL ? PERM_READ | PERM_ADMIN : PERM_READ;

	if ((!is_exists || ensemble.config.behaves_as_39) &&
		!acl_allows(node->acl, perms, request->identities))
		return ZNOAUTH;
	tree_stat(node, &result->stat);
	if (op->kind == OP_GET && node->data != NULL)
	{
		result->data = sim_memdup(node->data->bytes, (size_t) node->data->len);
		result->len = node->data->len;
	}
	if (op->kind == OP_GET_CHILDREN)
		add_children(node, &result->children, chance_of(request));
	if (op->kind == OP_GET_ACL)
	{
		acl_copy(&result->acl, &node->acl->acl);
		if (!acl_allows(node->acl, PERM_ADMIN, request->identities))
			mask_digests(&result->acl);
	}
	return ZOK;
}

static int
read_op(Server *server, const Request *request, Result *result)
{
	const Op   *op = &request->packet->op;
	const Node *node = tree_find(&server->tree, op->path);
	int			err = ZNONODE;

	if (op->kind == OP_SYNC)
	{
		result->path = sim_strdup(op->path);
		return ZOK;
	}
	if (op->path == NULL)
		return ZBADARGUMENTS;
	if (node != NULL)
		err = read_node(request, node, result);
	if (!op->watch || op->kind == OP_GET_ACL)
		return err;
	if (err == ZOK || (err == ZNONODE && op->kind == OP_EXISTS))
		watches_add(&server->watches,
					op->kind == OP_GET_CHILDREN ? WATCH_CHILDREN : WATCH_DATA,
					op->path, &request->connection->watcher);
	return err;
}

/*
 * Sets a watch again, or sends the event that the client has missed: since is
 * the zxid that it has seen, and at that of the node's last change.
 */
static void
set_watch(Server *server, Connection *connection, WatchKind kind, const char *path,
		  bool missed, int event)
{
	if (missed)
		clients_watch(&connection->watcher, event, path, NULL, -1);
	else
		watches_add(&server->watches, kind, path, &connection->watcher);
}

/* DataTree.setWatches */
static void
set_watches(Server *server, Connection *connection, const Packet *packet)
{
	const Node *node;

	for (int i = 0; i < packet->data_watches.count; i++)
	{
		const char *path = packet->data_watches.data[i];

		node = tree_find(&server->tree, path);
		set_watch(server, connection, WATCH_DATA, path,
				  node == NULL || node->stat.mzxid > packet->zxid,
				  node == NULL ? EVENT_DELETED : EVENT_CHANGED);
	}
	for (int i = 0; i < packet->exist_watches.count; i++)
	{
		const char *path = packet->exist_watches.data[i];

		node = tree_find(&server->tree, path);
		set_watch(server, connection, WATCH_DATA, path, node != NULL, EVENT_CREATED);
	}
	for (int i = 0; i < packet->child_watches.count; i++)
	{
		const char *path = packet->child_watches.data[i];

		node = tree_find(&server->tree, path);
		set_watch(server, connection, WATCH_CHILDREN, path,
				  node == NULL || node->stat.pzxid > packet->zxid,
				  node == NULL ? EVENT_DELETED : EVENT_CHILD);
	}
}

/* Answers what needs no commit, or has its answer to a sync. */
static void
answer_read(Server *server, Request *request)
{
	Connection *connection = request->connection;
	Result		result = {0};

	if (connection->endpoint == NULL)
		return;
	if (request->err == ZSESSIONMOVED)
	{
		endpoint_close(connection->endpoint);
		return;
	}
	result.len = -1;
	result.err = request->throttled ? ZTHROTTLEDOP : request->err;
	if (result.err == ZOK && request->kind == REQUEST_WATCHES)
		set_watches(server, connection, request->packet);
	else if (result.err == ZOK && request->kind == REQUEST_OP)
		result.err = read_op(server, request, &result);
	answer(server, request, &result);
}

/* Answers what a transaction was made of. */
static void
answer_write(Server *server, Request *request, Result *result)
{
	Connection *connection = request->connection;

	if (connection->endpoint == NULL)
		return;
	if (result->err == ZSESSIONMOVED)
	{
		endpoint_close(connection->endpoint);
		return;
	}
	if (request->kind == REQUEST_OPEN)
	{
		connection_opened(connection, true);
		return;
	}
	answer(server, request, result);
	if (request->packet->op.kind == OP_CLOSE)
		endpoint_close(connection->endpoint);
}

/* ------ queues ------ */

static SessionQueue *
find_queue(const Server *server, int64_t session)
{
	HashEntry  *entry = hash_first(&server->queues, hash_number((uint64_t) session));

	while (entry != NULL && ((SessionQueue *) entry)->session != session)
		entry = hash_next(entry);
	return (SessionQueue *) entry;
}

static void
queue_add(Server *server, SessionQueue *queue, Request *request)
{
	if (queue == NULL)
	{
		queue = sim_alloc(sizeof(SessionQueue));
		queue->session = request->session;
		hash_add(&server->queues, &queue->entry, hash_number((uint64_t) request->session));
	}
	if (queue->last != NULL)
		queue->last->next = request;
	else
		queue->first = request;
	queue->last = request;
	if (!needs_commit(server, request))
		return;
	if (server->last_write != NULL)
		server->last_write->next_write = request;
	else
		server->first_write = request;
	server->last_write = request;
}

static Request *
queue_take(SessionQueue *queue)
{
	Request    *request = queue->first;

	queue->first = request->next;
	if (queue->first == NULL)
		queue->last = NULL;
	return request;
}

static void
drop_if_empty(Server *server, SessionQueue *queue)
{
	if (queue->first != NULL)
		return;
	hash_remove(&server->queues, &queue->entry);
	free(queue);
}

/* Takes the first write that waits: its time has come. */
static Request *
take_write(Server *server)
{
	Request    *request = server->first_write;
	SessionQueue *queue = find_queue(server, request->session);

	server->first_write = request->next_write;
	if (server->first_write == NULL)
		server->last_write = NULL;
	if (queue == NULL || queue->first != request)
		sim_violation("ensemble", "a write is not the first of its session");
	queue_take(queue);
	drop_if_empty(server, queue);
	return request;
}

/* Answers the reads that have waited for a write of their session. */
static void
drain(Server *server, int64_t session)
{
	SessionQueue *queue = find_queue(server, session);

	if (queue == NULL)
		return;
	while (queue->first != NULL && !needs_commit(server, queue->first))
	{
		Request    *request = queue_take(queue);

		answer_read(server, request);
		request_drop(request);
	}
	drop_if_empty(server, queue);
}

/* Answers the request, or puts it where it waits; takes the reference. */
static void
enqueue(Server *server, Request *request)
{
	SessionQueue *queue = find_queue(server, request->session);

	if (queue != NULL || needs_commit(server, request))
	{
		queue_add(server, queue, request);
		return;
	}
	answer_read(server, request);
	request_drop(request);
}

/* ------ what clients ask for ------ */

/* At the leader: the request touches its session, or is dropped. */
static void
submit_at_leader(Server *server, Request *request)
{
	Tracker    *tracker = &server->leading->tracker;
	Transaction *txn = NULL;

	if (request->kind != REQUEST_OPEN &&
		!tracker_touch(tracker, request->session, request->timeout_ms, leader_clock_ms(server)))
	{
		request_drop(request);
		return;
	}
	if (!request->throttled && request_is_write(request))
		txn = leader_prepare(server, request, OWNER_LEADER);
	else if (!request->throttled)
		request->err = tracker_check(tracker, request->session, OWNER_LEADER);
	enqueue(server, request);
	if (txn != NULL)
		leader_propose(server, txn);
}

void
requests_submit(Server *server, Request *request)
{
	Chance		chance = chance_of(request);

	ensemble_stats.requests++;
	if (request->kind == REQUEST_OP && request->packet->op.kind != OP_CLOSE)
		request->throttled = chance_one_in(&chance, ensemble.config.throttle_one_in);
	if (server->role == ROLE_LEADING)
	{
		submit_at_leader(server, request);
		return;
	}
	touches_add(&server->following->touches, request->session, request->timeout_ms);
	if (needs_commit(server, request))
		follower_forward(server, request_share(request));
	enqueue(server, request);
}

void
requests_synced(Server *server, Request *request)
{
	if (server->first_write != request)
		sim_violation("ensemble", "a sync is not the first to wait");
	take_write(server);
	answer_read(server, request);
	drain(server, request->session);
	request_drop(request);
}

/* Returns true if the first write that waits here is what the commit is of. */
static bool
is_of_first_write(const Server *server, const Transaction *txn)
{
	const Request *request = server->first_write;

	return request != NULL && !request_is_sync(request) &&
		request->session == txn->session && request->cxid == txn->cxid;
}

static void
session_event(Server *server, const Transaction *txn)
{
	bool		is_open = txn->change.kind == CHANGE_OPEN_SESSION;

	if (!is_open && txn->change.kind != CHANGE_CLOSE_SESSION)
		return;
	if (server->leading != NULL && !is_open)
		tracker_remove(&server->leading->tracker, txn->session);
	if (server->following == NULL)
		return;
	if (is_open)
		touches_add(&server->following->touches, txn->session, txn->timeout_ms);
	else
		touches_remove(&server->following->touches, txn->session);
}

void
server_apply(Server *server, const Transaction *txn)
{
	Request    *local = is_of_first_write(server, txn) ? take_write(server) : NULL;
	Result		result = {0};

	result.len = -1;
	session_event(server, txn);
	tree_apply(&server->tree, txn, local != NULL ? &result : NULL);
	if (server->leading != NULL)
		prepare_applied(&server->leading->prepare, txn->zxid);
	if (local != NULL)
	{
		answer_write(server, local, &result);
		drain(server, local->session);
		request_drop(local);
	}
	else if (txn->change.kind == CHANGE_CLOSE_SESSION)
		clients_close_session(server, txn->session, NULL);
	result_free(&result);
}

static void
free_queue(HashEntry *entry)
{
	SessionQueue *queue = (SessionQueue *) entry;

	while (queue->first != NULL)
		request_drop(queue_take(queue));
	free(queue);
}

/* Nobody waits for answers any more. */
void
requests_end(Server *server)
{
	hash_clear(&server->queues, free_queue);
	server->first_write = NULL;
	server->last_write = NULL;
}
