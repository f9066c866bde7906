/*-------------------------------------------------------------------------
 *
 * calls.c
 *	  The functions of the simulated libzookeeper that make requests.
 *
 * Those that the lock client calls, as zookeeper.c has them: a request gets a
 * number, and is queued until it is sent; whoever waits for its answer is queued
 * in the same order.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "handle.h"
#include "memory.h"

const int	ZOO_PERM_READ = 1;
const int	ZOO_PERM_WRITE = 2;
const int	ZOO_PERM_CREATE = 4;
const int	ZOO_PERM_DELETE = 8;
const int	ZOO_PERM_ADMIN = 16;
const int	ZOO_PERM_ALL = 31;
const int	ZOO_PERSISTENT = 0;
const int	ZOO_EPHEMERAL = 1;
const int	ZOO_PERSISTENT_SEQUENTIAL = 2;
const int	ZOO_EPHEMERAL_SEQUENTIAL = 3;
const int	ZOO_CONTAINER = 4;
const int	ZOO_EXPIRED_SESSION_STATE = STATE_EXPIRED;
const int	ZOO_AUTH_FAILED_STATE = STATE_AUTH_FAILED;
const int	ZOO_CONNECTING_STATE = STATE_CONNECTING;
const int	ZOO_ASSOCIATING_STATE = STATE_ASSOCIATING;
const int	ZOO_CONNECTED_STATE = STATE_CONNECTED;
const int	ZOO_READONLY_STATE = 5;
const int	ZOO_NOTCONNECTED_STATE = STATE_NONE;
const int	ZOO_CREATED_EVENT = 1;
const int	ZOO_DELETED_EVENT = 2;
const int	ZOO_CHANGED_EVENT = 3;
const int	ZOO_CHILD_EVENT = 4;
const int	ZOO_SESSION_EVENT = -1;
struct Id	ZOO_ANYONE_ID_UNSAFE = {"world", "anyone"};
struct Id	ZOO_AUTH_IDS = {"auth", ""};
static struct ACL open_acl = {31, {"world", "anyone"}};
struct ACL_vector ZOO_OPEN_ACL_UNSAFE = {1, &open_acl};

/* The types of operations, in the protocol's numbers. */
enum
{
	TYPE_CREATE = 1,
	TYPE_DELETE = 2,
	TYPE_SET = 5,
	TYPE_CHECK = 13,
	TYPE_CREATE_CONTAINER = 19
};

typedef void (*AnyCall) (void);

/*
 * Leaves a request to zk_socket_send(), or to the I/O thread, as
 * adaptor_send_queue() does (socket.c).
 */
static void
leave_to_sender(zhandle_t *zh)
{
	bool		io = task_now() == zh->io;

	if (zh->library->direct && zh->established && (!io || zh->completing) &&
		zh->state == STATE_CONNECTED)
		zh->held_back++;
	else
		handle_wake(zh);
}

/*
 * Queues a request, and who waits for its answer.  Returns ZOK, or why not;
 * then the packet is gone.
 */
static int
submit(zhandle_t *zh, Packet *packet, AnswerKind kind, AnyCall call, const void *data,
	   Completion **made)
{
	Completion *completion;

	task_step();
	if (handle_unrecoverable(zh) || zh->closing)
	{
		packet_free(packet);
		return ZINVALIDSTATE;
	}
	if (memory_is_refused())
	{
		packet_free(packet);
		return ZMARSHALLINGERROR;
	}
	completion = sim_alloc(sizeof(Completion));
	completion->kind = kind;
	completion->call = call;
	completion->data = data;
	completion->xid = packet->xid = ++zh->last_xid;
	packets_add(&zh->to_send, packet);
	completions_add(&zh->sent, completion);
	sim_trace("%s: request %d, kind %d %s", zh->process->name, packet->xid,
			  (int) packet->op.kind, packet->op.path != NULL ? packet->op.path :
			  packet->op.count > 0 ? packet->op.ops[0].path : "");
	leave_to_sender(zh);
	if (made != NULL)
		*made = completion;
	return ZOK;
}

/* A request of that kind for that path. */
static Packet *
request(OpKind kind, const char *path)
{
	Packet	   *packet = packet_make(PACKET_REQUEST);

	packet->op.kind = kind;
	packet->op.path = sim_strdup(path);
	packet->op.len = -1;
	packet->op.version = -1;
	return packet;
}

static void
set_data(Op *op, const char *data, int len)
{
	op->len = data != NULL ? len : -1;
	op->data = op->len >= 0 ? sim_memdup(data, (size_t) op->len) : NULL;
}

static Packet *
create_request(const char *path, const char *value, int len,
			   const struct ACL_vector *acl, int mode)
{
	Packet	   *packet = request(OP_CREATE, path);

	set_data(&packet->op, value, len);
	packet->op.mode = mode;
	acl_copy(&packet->op.acl, acl != NULL ? acl : &ZOO_OPEN_ACL_UNSAFE);
	return packet;
}

int
zoo_acreate(zhandle_t *zh, const char *path, const char *value, int len,
			const struct ACL_vector *acl, int mode, string_completion_t call,
			const void *data)
{
	return submit(zh, create_request(path, value, len, acl, mode), ANSWER_STRING,
				  (AnyCall) call, data, NULL);
}

int
zoo_acreate2(zhandle_t *zh, const char *path, const char *value, int len,
			 const struct ACL_vector *acl, int mode, string_stat_completion_t call,
			 const void *data)
{
	return submit(zh, create_request(path, value, len, acl, mode), ANSWER_STRING_STAT,
				  (AnyCall) call, data, NULL);
}

int
zoo_adelete(zhandle_t *zh, const char *path, int version, void_completion_t call,
			const void *data)
{
	Packet	   *packet = request(OP_DELETE, path);

	packet->op.version = version;
	return submit(zh, packet, ANSWER_VOID, (AnyCall) call, data, NULL);
}

int
zoo_aexists(zhandle_t *zh, const char *path, int watch, stat_completion_t call,
			const void *data)
{
	(void) watch;
	return submit(zh, request(OP_EXISTS, path), ANSWER_STAT, (AnyCall) call, data, NULL);
}

int
zoo_aget(zhandle_t *zh, const char *path, int watch, data_completion_t call,
		 const void *data)
{
	(void) watch;
	return submit(zh, request(OP_GET, path), ANSWER_DATA, (AnyCall) call, data, NULL);
}

int
zoo_awget(zhandle_t *zh, const char *path, watcher_fn watcher, void *context,
		  data_completion_t call, const void *data)
{
	Packet	   *packet = request(OP_GET, path);
	Completion *completion;
	int			rc;

	packet->op.watch = true;
	rc = submit(zh, packet, ANSWER_DATA, (AnyCall) call, data, &completion);
	if (rc != ZOK)
		return rc;
	completion->watcher = sim_alloc(sizeof(Watcher));
	completion->watcher->path = sim_strdup(path);
	completion->watcher->call = watcher;
	completion->watcher->context = context;
	return ZOK;
}

int
zoo_aget_acl(zhandle_t *zh, const char *path, acl_completion_t call, const void *data)
{
	return submit(zh, request(OP_GET_ACL, path), ANSWER_ACL, (AnyCall) call, data, NULL);
}

int
zoo_aget_children(zhandle_t *zh, const char *path, int watch, strings_completion_t call,
				  const void *data)
{
	(void) watch;
	return submit(zh, request(OP_GET_CHILDREN, path), ANSWER_STRINGS, (AnyCall) call, data,
				  NULL);
}

int
zoo_aset(zhandle_t *zh, const char *path, const char *buffer, int len, int version,
		 stat_completion_t call, const void *data)
{
	Packet	   *packet = request(OP_SET, path);

	set_data(&packet->op, buffer, len);
	packet->op.version = version;
	return submit(zh, packet, ANSWER_STAT, (AnyCall) call, data, NULL);
}

int
zoo_async(zhandle_t *zh, const char *path, string_completion_t call, const void *data)
{
	return submit(zh, request(OP_SYNC, path), ANSWER_STRING, (AnyCall) call, data, NULL);
}

void
zoo_create_op_init(zoo_op_t *op, const char *path, const char *value, int len,
				   const struct ACL_vector *acl, int mode, char *buffer, int size)
{
	memset(op, 0, sizeof(*op));
	op->type = mode == ZOO_CONTAINER ? TYPE_CREATE_CONTAINER : TYPE_CREATE;
	op->create_op.path = path;
	op->create_op.data = value;
	op->create_op.datalen = len;
	op->create_op.acl = acl;
	op->create_op.flags = mode;
	op->create_op.buf = buffer;
	op->create_op.buflen = size;
}

void
zoo_delete_op_init(zoo_op_t *op, const char *path, int version)
{
	memset(op, 0, sizeof(*op));
	op->type = TYPE_DELETE;
	op->delete_op.path = path;
	op->delete_op.version = version;
}

void
zoo_set_op_init(zoo_op_t *op, const char *path, const char *buffer, int len, int version,
				struct Stat *stat)
{
	memset(op, 0, sizeof(*op));
	op->type = TYPE_SET;
	op->set_op.path = path;
	op->set_op.data = buffer;
	op->set_op.datalen = len;
	op->set_op.version = version;
	op->set_op.stat = stat;
}

void
zoo_check_op_init(zoo_op_t *op, const char *path, int version)
{
	memset(op, 0, sizeof(*op));
	op->type = TYPE_CHECK;
	op->check_op.path = path;
	op->check_op.version = version;
}

/* Writes one operation of a multi-op. */
static void
write_op(Op *op, const zoo_op_t *from)
{
	op->len = -1;
	switch (from->type)
	{
		case TYPE_DELETE:
			op->kind = OP_DELETE;
			op->path = sim_strdup(from->delete_op.path);
			op->version = from->delete_op.version;
			break;
		case TYPE_SET:
			op->kind = OP_SET;
			op->path = sim_strdup(from->set_op.path);
			op->version = from->set_op.version;
			set_data(op, from->set_op.data, from->set_op.datalen);
			break;
		case TYPE_CHECK:
			op->kind = OP_CHECK;
			op->path = sim_strdup(from->check_op.path);
			op->version = from->check_op.version;
			break;
		default:
			op->kind = OP_CREATE;
			op->path = sim_strdup(from->create_op.path);
			op->mode = from->create_op.flags;
			set_data(op, from->create_op.data, from->create_op.datalen);
			acl_copy(&op->acl, from->create_op.acl != NULL ? from->create_op.acl :
					 &ZOO_OPEN_ACL_UNSAFE);
			break;
	}
}

int
zoo_amulti(zhandle_t *zh, int count, const zoo_op_t *ops, zoo_op_result_t *results,
		   void_completion_t call, const void *data)
{
	Packet	   *packet = request(OP_MULTI, NULL);
	Completion *completion;
	int			rc;

	packet->op.count = count;
	packet->op.ops = sim_alloc(sizeof(Op) * (size_t) count);
	for (int i = 0; i < count; i++)
		write_op(&packet->op.ops[i], &ops[i]);
	rc = submit(zh, packet, ANSWER_VOID, (AnyCall) call, data, &completion);
	if (rc != ZOK)
		return rc;
	completion->results = results;
	completion->buffers = sim_alloc(sizeof(char *) * (size_t) count);
	completion->buffer_sizes = sim_alloc(sizeof(int) * (size_t) count);
	completion->stats = sim_alloc(sizeof(struct Stat *) * (size_t) count);
	for (int i = 0; i < count; i++)
	{
		if (ops[i].type == TYPE_SET)
			completion->stats[i] = ops[i].set_op.stat;
		if (ops[i].type != TYPE_CREATE && ops[i].type != TYPE_CREATE_CONTAINER)
			continue;
		completion->buffers[i] = ops[i].create_op.buf;
		completion->buffer_sizes[i] = ops[i].create_op.buflen;
	}
	return ZOK;
}

int
zoo_add_auth(zhandle_t *zh, const char *scheme, const char *credential, int len,
			 void_completion_t call, const void *data)
{
	task_step();
	if (handle_unrecoverable(zh) || zh->state == STATE_LOST)
		return ZINVALIDSTATE;
	if (memory_is_refused())
		return ZSYSTEMERROR;
	free(zh->scheme);
	free(zh->credential);
	zh->scheme = sim_strdup(scheme);
	zh->credential = strncpy(sim_alloc((size_t) len + 1), credential, (size_t) len);
	if (zh->auth == NULL)
		zh->auth = sim_alloc(sizeof(Completion));
	zh->auth->kind = ANSWER_AUTH;
	zh->auth->call = (AnyCall) call;
	zh->auth->data = data;
	if (zh->state == STATE_CONNECTED || zh->state == STATE_ASSOCIATING)
	{
		handle_send_credential(zh, false);
		handle_wake(zh);
	}
	return ZOK;
}

const clientid_t *
zoo_client_id(zhandle_t *zh)
{
	return &zh->id;
}

int
zoo_recv_timeout(zhandle_t *zh)
{
	return zh->timeout_ms;
}

int
zoo_state(zhandle_t *zh)
{
	return zh->state;
}

const void *
zoo_get_context(zhandle_t *zh)
{
	return zh->context;
}

void
zoo_set_debug_level(ZooLogLevel level)
{
	(void) level;
}

const char *
zerror(int rc)
{
	static char text[32];

	snprintf(text, sizeof(text), "error %d", rc);
	return text;
}
