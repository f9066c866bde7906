/*-------------------------------------------------------------------------
 *
 * wire.h
 *	  What clients and servers of the simulated ensemble say to each other.
 *
 * The fields are those of ZooKeeper's protocol, as structs instead of bytes.
 * A packet owns all that it points to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WIRE_H
#define WIRE_H

#include <zookeeper/zookeeper.h>

#include "sim.h"

typedef enum OpKind
{
	OP_CREATE,
	OP_DELETE,
	OP_EXISTS,
	OP_GET,
	OP_GET_ACL,
	OP_GET_CHILDREN,
	OP_SET,
	OP_SET_ACL,					/* of others only (ensemble_commit()) */
	OP_CHECK,					/* in a multi-op only */
	OP_SYNC,
	OP_MULTI,
	OP_CLOSE					/* the session */
} OpKind;

typedef struct Op Op;
struct Op
{
	OpKind		kind;
	char	   *path;
	char	   *data;
	int			len;			/* of data; -1 for none (a null buffer) */
	int			version;		/* delete, set, check; -1 for any */
	int			mode;			/* create: ZOO_EPHEMERAL and so on */
	int64_t		owner;			/* of an ephemeral znode, in ensemble_commit() */
	struct ACL_vector acl;		/* create, set_acl */
	bool		watch;			/* get, exists, get_children */
	int			count;			/* multi */
	Op		   *ops;
};

/* The answer to an op; of a multi-op one for each, and one for the whole. */
typedef struct Result Result;
struct Result
{
	int			err;
	char	   *path;			/* created; or the path of a sync */
	char	   *data;
	int			len;			/* -1 for a null buffer */
	struct Stat stat;
	struct String_vector children;
	struct ACL_vector acl;
	int			count;
	Result	   *results;
};

typedef enum PacketKind
{
	/* from the client */
	PACKET_CONNECT,
	PACKET_AUTH,
	PACKET_SET_WATCHES,
	PACKET_REQUEST,
	PACKET_PING,
	/* from the server */
	PACKET_CONNECTED,			/* session 0: the session has expired */
	PACKET_AUTH_RESULT,
	PACKET_WATCHES_SET,
	PACKET_REPLY,
	PACKET_PONG,
	PACKET_EVENT
} PacketKind;

typedef struct Packet
{
	PacketKind	kind;
	int32_t		xid;			/* request, reply */
	int64_t		zxid;			/* reply: of the transaction, or the last one
								 * applied; connect, set_watches: the last one
								 * that the client has seen */
	int64_t		session;		/* connect (0 for a new one), connected */
	int64_t		password;		/* the same */
	int			timeout_ms;		/* the same: requested, negotiated */
	Op			op;				/* request */
	Result		result;			/* reply; of auth_result only err */
	char	   *scheme;			/* auth */
	char	   *credential;
	int			event;			/* event: ZOO_DELETED_EVENT and so on; here
								 * the numbers 1 to 4 */
	char	   *path;
	struct String_vector data_watches;	/* set_watches */
	struct String_vector exist_watches;
	struct String_vector child_watches;
} Packet;

extern Packet *packet_make(PacketKind kind);
extern void packet_free(Packet *packet);
extern void op_free(Op *op);	/* what it points to */
extern void result_free(Result *result);
extern void acl_copy(struct ACL_vector *to, const struct ACL_vector *from);
extern void acl_free(struct ACL_vector *acl);
extern void strings_add(struct String_vector *strings, const char *text);
extern void strings_free(struct String_vector *strings);

#endif							/* WIRE_H */
