/*-------------------------------------------------------------------------
 *
 * reply.c
 *	  Check that what a server sends is what was asked for.
 *
 * libzookeeper_mt believes every server.  It ignores that a packet ends too
 * early, or that a length is negative, and uses what it has not filled in; an
 * unexpected answer is an assertion, or a null pointer.  So each packet is
 * checked before the library sees it.  Accepted is what servers of versions 3.5
 * to 3.9 send:
 *
 * - The answer to a request has the request's number (xid).  Servers answer in
 *	 order, except for pings, credentials and watches that are set again, which
 *	 have a number for each kind.
 * - It is a header, and after that what the operation returns, to the last
 *	 byte.  With an error there is only the header.  (A server could add the
 *	 result of a create that has failed; the library does not look at it, so
 *	 that is let through.)
 * - The answer to a multi-op has a result for each operation, of the
 *	 operation's type, or, if it has failed, an error for each, one of which is
 *	 the reason.
 * - An event is the creation, deletion or change of a znode, or of its
 *	 children.
 *
 * Anything else is an error of the socket to the library: it closes the
 * connection, as after any loss of it, and the server log says why.  A packet
 * has at most 64 MB, and a list a million names.  A well-formed reply that says
 * what is not true is believed; but a handshake is not taken for the end of our
 * session, unless it says so, and an invalid answer to the first one means that
 * there is no ZooKeeper (zk_transport_look()).  unit/client_packet_test
 * tries some thousand malformed replies.
 *
 * With the shared library nothing is checked: its calls of recv() are bound
 * before the module is loaded.  A server, or an impostor, can crash a backend
 * then.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reply.h"

/* Numbers of packets that are not those of single requests. */
#define EVENT_XID			(-1)
#define PING_XID			(-2)
#define AUTH_XID			(-4)
#define SET_WATCHES_XID		(-8)

/* Types of requests that need more than a shape. */
#define MULTI_TYPE			14
#define SASL_TYPE			102

/* In the answer to a multi-op: what follows is an error, or nothing. */
#define ERROR_TYPE			(-1)

/* The error of an operation that was not to blame for that of its multi-op. */
#define INCONSISTENCY		(-2)

/* Bytes of a session's password, and the longest session timeout, in ms. */
#define PASSWORD_SIZE		16
#define MAX_TIMEOUT			(INT32_MAX / 2)

/* Bytes before the session in the client's part of the handshake. */
#define BEFORE_SESSION		16

/* The bytes of a znode's Stat, and of what is least in a list. */
#define STAT_SIZE			68
#define MIN_NAME_SIZE		5
#define MIN_ACL_SIZE		12

/*
 * The most names in a list.  For each the library allocates memory of its own,
 * so the length of the packet does not bound what it takes.
 */
#define MAX_NAMES			1000000

/* Events, and the only state of a session that comes with them. */
#define FIRST_EVENT			1
#define LAST_EVENT			4
#define CONNECTED			3

/*
 * Shapes of requests and replies, a letter for each item:
 *
 * i int, l long, b buffer, p path, t Stat, n list of names, a list of ACLs
 *
 * Requests are only looked into if they can be part of a multi-op.
 */
typedef struct Operation
{
	int32_t		type;
	const char *name;
	const char *request;
	const char *reply;
} Operation;

static const Operation operations[] = {
	{1, "create", "pbai", "p"},
	{2, "delete", "pi", ""},
	{3, "exists", NULL, "t"},
	{4, "get", NULL, "bt"},
	{5, "set", "pbi", "t"},
	{6, "get ACL", NULL, "at"},
	{7, "set ACL", NULL, "t"},
	{8, "list", NULL, "n"},
	{9, "sync", NULL, "p"},
	{11, "ping", NULL, ""},
	{12, "list with Stat", NULL, "nt"},
	{13, "check", "pi", ""},
	{MULTI_TYPE, "multi-op", NULL, NULL},
	{15, "create with Stat", "pbai", "pt"},
	{19, "create of a container", "pbai", "pt"},
	{21, "create with a time to live", "pbail", "pt"},
	{100, "credential", NULL, ""},
	{101, "set watches", NULL, ""},
	{SASL_TYPE, "SASL", NULL, "b"},
	{105, "set watches", NULL, ""},
	{-11, "end of the session", NULL, ""}
};

/* What is left of a packet; wrong says what was wrong first, or is NULL. */
typedef struct Reader
{
	const unsigned char *at;
	size_t		left;
	const char *wrong;
} Reader;

static const Operation *
find_operation(int32_t type)
{
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		if (operations[i].type == type)
			return &operations[i];
	return NULL;
}

/* Write why a packet is refused, and return false. */
static bool
__attribute__((format(printf, 2, 3)))
refuse(char *why, const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	vsnprintf(why, ZK_REPLY_WHY, fmt, args);
	va_end(args);
	return false;
}

/*-------------------------------------------------------------------------
 * Items of a packet
 *-------------------------------------------------------------------------
 */

/*
 * Skip so many bytes, and return them.  NULL if there are fewer, or something
 * was wrong before.
 */
static const unsigned char *
read_bytes(Reader *reader, size_t size)
{
	const unsigned char *bytes = reader->at;

	if (reader->wrong != NULL)
		return NULL;
	if (size > reader->left)
	{
		reader->wrong = "ends too early";
		return NULL;
	}
	reader->at += size;
	reader->left -= size;
	return bytes;
}

/* Read a number of 4 bytes; 0 if it is missing. */
static int32_t
read_int(Reader *reader)
{
	const unsigned char *bytes = read_bytes(reader, 4);

	if (bytes == NULL)
		return 0;
	return (int32_t) ((uint32_t) bytes[0] << 24 | (uint32_t) bytes[1] << 16 |
					  (uint32_t) bytes[2] << 8 | (uint32_t) bytes[3]);
}

/* Read a number of 8 bytes; 0 if it is missing. */
static int64_t
read_long(Reader *reader)
{
	uint64_t	high = (uint32_t) read_int(reader);
	uint64_t	low = (uint32_t) read_int(reader);

	return (int64_t) (high << 32 | low);
}

/* Read a truth value, which is 0 or 1. */
static bool
read_bool(Reader *reader)
{
	const unsigned char *byte = read_bytes(reader, 1);

	if (byte != NULL && *byte > 1)
		reader->wrong = "has a truth value that is none";
	return byte != NULL && *byte == 1;
}

/*
 * Read a string.  With a byte of 0 in it the library would take its beginning
 * for the whole.
 */
static const unsigned char *
read_string(Reader *reader, int32_t *len)
{
	const unsigned char *string = NULL;

	*len = read_int(reader);
	if (*len < 0)
		reader->wrong = "has a string of a negative length";
	else
		string = read_bytes(reader, (size_t) *len);
	if (string == NULL || memchr(string, '\0', (size_t) *len) == NULL)
		return string;
	reader->wrong = "has a string with a byte of 0";
	return NULL;
}

/* Read data, or its absence. */
static void
read_buffer(Reader *reader)
{
	int32_t		len = read_int(reader);

	if (len < -1)
		reader->wrong = "has data of a negative length";
	else if (len > 0)
		read_bytes(reader, (size_t) len);
}

static void
read_path(Reader *reader)
{
	int32_t		len;
	const unsigned char *path = read_string(reader, &len);

	if (path != NULL && (len == 0 || path[0] != '/'))
		reader->wrong = "has a path that does not begin at the root";
}

/* Read the number of items that follow, of so many bytes at least. */
static int32_t
read_count(Reader *reader, size_t least)
{
	int32_t		count = read_int(reader);

	if (count < 0)
		reader->wrong = "has a list of a negative length";
	else if ((size_t) count > reader->left / least)
		reader->wrong = "has a list that is longer than itself";
	else if (count > MAX_NAMES)
		reader->wrong = "has too long a list";
	return reader->wrong == NULL ? count : 0;
}

static void
read_names(Reader *reader)
{
	int32_t		count = read_count(reader, MIN_NAME_SIZE);

	for (int32_t i = 0; i < count && reader->wrong == NULL; i++)
	{
		int32_t		len;
		const unsigned char *name = read_string(reader, &len);

		if (name != NULL && (len == 0 || memchr(name, '/', (size_t) len) != NULL))
			reader->wrong = "has a name that no znode can have";
	}
}

static void
read_acls(Reader *reader)
{
	int32_t		count = read_count(reader, MIN_ACL_SIZE);

	for (int32_t i = 0; i < count && reader->wrong == NULL; i++)
	{
		int32_t		len;

		(void) read_int(reader);
		(void) read_string(reader, &len);
		(void) read_string(reader, &len);
	}
}

/* Read what has this shape. */
static void
read_shape(Reader *reader, const char *shape)
{
	for (; *shape != '\0' && reader->wrong == NULL; shape++)
		switch (*shape)
		{
			case 'i':
				(void) read_int(reader);
				break;
			case 'l':
				(void) read_long(reader);
				break;
			case 'b':
				read_buffer(reader);
				break;
			case 'p':
				read_path(reader);
				break;
			case 't':
				(void) read_bytes(reader, STAT_SIZE);
				break;
			case 'n':
				read_names(reader);
				break;
			case 'a':
				read_acls(reader);
				break;
		}
}

/*-------------------------------------------------------------------------
 * Requests
 *-------------------------------------------------------------------------
 */

/*
 * Read the next operation of a multi-op that is about to be sent.  Returns
 * false if there is none, or one that is not known, as the reader will say.
 */
static bool
read_operation(Reader *reader, int32_t *type)
{
	const Operation *operation;
	bool		done;

	*type = read_int(reader);
	done = read_bool(reader);
	(void) read_int(reader);
	if (done || reader->wrong != NULL)
		return false;
	operation = find_operation(*type);
	if (operation == NULL || operation->request == NULL)
		reader->wrong = "has an operation that is not known";
	else
		read_shape(reader, operation->request);
	return reader->wrong == NULL;
}

/*
 * Count the operations of a multi-op, and note their types unless types is
 * NULL. Returns -1 if they are not known.
 */
static int
count_operations(const void *body, size_t size, uint8_t *types)
{
	Reader		reader = {.at = body,.left = size};
	int			count = 0;
	int32_t		type;

	while (read_operation(&reader, &type))
	{
		if (types != NULL)
			types[count] = (uint8_t) type;
		count++;
	}
	return reader.wrong == NULL ? count : -1;
}

/*
 * Note a request, given without its length, that is about to be sent.  Returns
 * false if out of memory.
 */
bool
zk_unanswered_add(ZkUnanswered *unanswered, const void *packet, size_t size)
{
	Reader		reader = {.at = packet,.left = size};
	int32_t		xid = read_int(&reader);
	int32_t		type = read_int(&reader);
	int			count = type != MULTI_TYPE ? 0 :
	count_operations(reader.at, reader.left, NULL);
	ZkSent	   *sent = malloc(sizeof(*sent) + (size_t) (count > 0 ? count : 0));

	if (sent == NULL)
		return false;
	*sent = (ZkSent)
	{
		.xid = xid,.type = type,.count = count
	};
	if (count > 0)
		(void) count_operations(reader.at, reader.left, sent->ops);
	if (unanswered->first == NULL)
		unanswered->first = sent;
	else
		unanswered->last->next = sent;
	unanswered->last = sent;
	unanswered->serving |= type != SASL_TYPE;
	return true;
}

/* Forget them all, and that there was a connection. */
void
zk_unanswered_forget(ZkUnanswered *unanswered)
{
	for (ZkSent *sent = unanswered->first, *next; sent != NULL; sent = next)
	{
		next = sent->next;
		free(sent);
	}
	*unanswered = (ZkUnanswered)
	{
		0
	};
}

/*-------------------------------------------------------------------------
 * Replies
 *-------------------------------------------------------------------------
 */

/* Returns true if this number stands for a kind of requests. */
static bool
is_shared(int32_t xid)
{
	return xid == PING_XID || xid == AUTH_XID || xid == SET_WATCHES_XID;
}

/*
 * Take out the request that a reply with this number answers, to be freed by
 * the caller.  NULL if there is none.
 */
static ZkSent *
take_sent(ZkUnanswered *unanswered, int32_t xid)
{
	ZkSent	  **place = &unanswered->first;
	ZkSent	   *before = NULL;
	ZkSent	   *sent;

	while (*place != NULL &&
		   (is_shared(xid) ? (*place)->xid != xid : is_shared((*place)->xid)))
	{
		before = *place;
		place = &before->next;
	}
	sent = *place;
	if (sent == NULL || sent->xid != xid)
		return NULL;
	*place = sent->next;
	if (unanswered->last == sent)
		unanswered->last = before;
	return sent;
}

/*
 * Returns true for an error that a server can give.  Others are the library's
 * own, for a lost connection, a wrong state, a handle that is being closed, and
 * nothing to do: they would make a caller wait for another connection.
 */
static bool
is_servers_error(int32_t error)
{
	return error < 0 && error != -4 && error != -9 && error != -116 &&
		error != -117;
}

/*
 * Read the results of a multi-op: one for each operation, and the end.  The
 * library makes a success of a failure if no error is a reason.
 */
static void
read_results(Reader *reader, const ZkSent *sent)
{
	int			errors = 0;
	bool		has_reason = false;

	for (int i = 0; i < sent->count && reader->wrong == NULL; i++)
	{
		int32_t		type = read_int(reader);
		bool		done = read_bool(reader);
		int32_t		error = read_int(reader);

		if (reader->wrong != NULL)
			return;
		if (done)
			reader->wrong = "has too few results";
		else if (type == ERROR_TYPE)
		{
			errors++;
			if (read_int(reader) != error || (error != 0 && !is_servers_error(error)))
				reader->wrong = "has an error that no server gives";
			has_reason |= error != 0 && error != INCONSISTENCY;
		}
		else if (type != sent->ops[i] || error != 0)
			reader->wrong = "has a result of another operation";
		else
			read_shape(reader, find_operation(type)->reply);
	}
	if (read_int(reader) != ERROR_TYPE || !read_bool(reader))
		reader->wrong = reader->wrong != NULL ? reader->wrong : "has too many results";
	(void) read_int(reader);
	if (reader->wrong == NULL && errors > 0 && (errors < sent->count || !has_reason))
		reader->wrong = "has succeeded in part";
}

/* Read what follows the header of a reply without an error. */
static void
read_body(Reader *reader, const ZkSent *sent)
{
	const Operation *operation = find_operation(sent->type);

	if (operation == NULL || sent->count < 0)
		reader->wrong = "answers what zklock does not ask";
	else if (sent->type == MULTI_TYPE)
		read_results(reader, sent);
	else
		read_shape(reader, operation->reply);
	if (reader->wrong == NULL && reader->left > 0)
		reader->wrong = "is followed by other data";
}

/*
 * What is wrong with a reply to this request, with this error in its header;
 * NULL if nothing.  The library ignores that a server failed to set watches, so
 * another connection has to.
 */
static const char *
judge_reply(const ZkSent *sent, Reader reader, int32_t error)
{
	if (error != 0 && !is_servers_error(error))
		return "has an error that no server gives";
	if (error != 0 && sent->xid == SET_WATCHES_XID)
		return "is an error";
	if (error == 0 || reader.left > 0)
		read_body(&reader, sent);
	return reader.wrong;
}

/*
 * Make an empty token of SASL of an absent one, which the library would take
 * for a length of 4 GB.
 */
static void
provide_token(unsigned char *token)
{
	if (memcmp(token, "\xff\xff\xff\xff", 4) == 0)
		memset(token, 0, 4);
}

/* Check an event; there is none before something was asked for. */
static bool
check_event(const ZkUnanswered *unanswered, Reader reader, int32_t error, char *why)
{
	int32_t		type = read_int(&reader);
	int32_t		state = read_int(&reader);

	read_path(&reader);
	if (reader.wrong != NULL)
		return refuse(why, "an event %s", reader.wrong);
	if (reader.left > 0)
		return refuse(why, "an event is followed by other data");
	if (error != 0 || type < FIRST_EVENT || type > LAST_EVENT || state != CONNECTED)
		return refuse(why, "no such event: type %d in state %d with error %d",
					  (int) type, (int) state, (int) error);
	if (!unanswered->serving)
		return refuse(why, "an event of a watch that was not set");
	return true;
}

/*
 * Returns true if the library may see this packet, given without its length;
 * if it answers a request, that is taken out.  Else why says what is wrong.
 * Changes what the library would stumble over.
 */
bool
zk_reply_check(ZkUnanswered *unanswered, void *packet, size_t size, char *why)
{
	Reader		reader = {.at = packet,.left = size};
	int32_t		xid = read_int(&reader);
	int32_t		error;
	ZkSent	   *sent;
	const Operation *operation;
	const char *wrong;

	(void) read_long(&reader);
	error = read_int(&reader);
	if (reader.wrong != NULL)
		return refuse(why, "a packet of %d bytes has no header", (int) size);
	if (xid == EVENT_XID)
		return check_event(unanswered, reader, error, why);
	sent = take_sent(unanswered, xid);
	if (sent == NULL)
		return refuse(why, "a reply to no request (%d)", (int) xid);
	operation = find_operation(sent->type);
	wrong = judge_reply(sent, reader, error);
	if (wrong != NULL)
		refuse(why, "a reply of %d bytes to a request (%s), with error %d, %s", (int) size,
			   operation != NULL ? operation->name : "unknown", (int) error, wrong);
	else if (sent->type == SASL_TYPE && error == 0)
		provide_token((unsigned char *) packet + ZK_REPLY_HEADER);
	free(sent);
	return wrong == NULL;
}

/*-------------------------------------------------------------------------
 * The handshake
 *-------------------------------------------------------------------------
 */

/*
 * The session in the client's part of the handshake, given without its length;
 * 0 for none.
 */
int64_t
zk_greeting_session(const void *packet, size_t size)
{
	Reader		reader = {.at = packet,.left = size};

	(void) read_bytes(&reader, BEFORE_SESSION);
	return read_long(&reader);
}

/*
 * Returns true if a server's part of the handshake can begin with these bytes:
 * nothing else has its length.
 */
bool
zk_greeting_begins(const void *packet, size_t size, char *why)
{
	Reader		reader = {.at = packet,.left = size};
	int32_t		length = read_int(&reader);

	if (reader.wrong != NULL || length == ZK_GREETING || length == ZK_GREETING_OLD)
		return true;
	return refuse(why, "the response is not that of a ZooKeeper server");
}

/*
 * Returns true if this, with its length, answers a handshake with this session,
 * 0 for none.  A session is resumed, or is over, which zeros say.
 */
bool
zk_greeting_check(const void *packet, size_t size, int64_t session, char *why)
{
	Reader		reader = {.at = packet,.left = size};
	int32_t		length = read_int(&reader);
	int32_t		version = read_int(&reader);
	int32_t		timeout = read_int(&reader);
	int64_t		given = read_long(&reader);
	int32_t		password = read_int(&reader);
	bool		expired = session != 0 && given == 0 && timeout == 0;

	(void) read_bytes(&reader, PASSWORD_SIZE);
	if (length == ZK_GREETING)
		(void) read_bool(&reader);
	if (reader.wrong != NULL || reader.left > 0 || version != 0 ||
		password != PASSWORD_SIZE)
		return refuse(why, "the response is not that of a ZooKeeper server");
	if (!expired && (given == 0 || timeout <= 0 || timeout > MAX_TIMEOUT ||
					 (session != 0 && given != session)))
		return refuse(why, "unexpected session 0x%llx with a timeout of %d ms",
					  (unsigned long long) given, (int) timeout);
	return true;
}
