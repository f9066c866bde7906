/*-------------------------------------------------------------------------
 *
 * zkproxy.h
 *	  What the files of zkproxy share: the state of the proxy.
 *
 * One thread, one loop: nothing of it needs a lock.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKPROXY_H
#define ZKPROXY_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define TYPE_PING		11

/* When what is kept back is due. */
#define NEVER			INT64_MAX

/* Types that are none of the protocol's. */
#define TYPE_ANY		1000
#define TYPE_CONNECT	1001
#define TYPE_EVENT		1002

/* The xid of watch events; and of nothing. */
#define XID_EVENT		(-1)
#define XID_NONE		INT32_MIN

typedef struct TypeCount
{
	const char *name;
	int32_t		type;
	long		count;			/* since the last "count" */
} TypeCount;

/* What a request can be; the last one has no name. */
extern TypeCount types[];

typedef struct Frame
{
	struct Frame *next;
	int64_t		due;			/* not to be sent before, in ms; or NEVER */
	size_t		len;
	size_t		sent;
	unsigned char data[];
} Frame;

/* One way of a connection. */
typedef struct Way
{
	int			from;
	int			to;
	bool		ended;			/* nothing more will be read */
	bool		held;			/* nothing is to be sent */
	bool		handshake_seen;
	unsigned char *input;		/* an incomplete frame */
	size_t		input_len;
	size_t		input_size;
	Frame	   *first;			/* complete ones, to be sent */
	Frame	   *last;
} Way;

typedef struct Link
{
	struct Link *next;
	Way			up;				/* client to server */
	Way			down;			/* server to client */
	bool		opaque;			/* does not speak the protocol */
	bool		cut_handshake;	/* close at the reply to the handshake */
	int32_t		cut_xid;		/* close at the reply with this xid */
	int64_t		session;		/* 0 before the handshake says it */
	unsigned char password[16];
} Link;

typedef enum Trap
{
	TRAP_NONE,
	TRAP_CUT_BEFORE,
	TRAP_CUT_AFTER,
	TRAP_HOLD_REPLY,
	TRAP_HOLD_REQUEST
} Trap;

/* What is held of one ZooKeeper session, on whatever connection. */
typedef struct SessionHold
{
	int64_t		session;
	bool		up;
	bool		down;
} SessionHold;

#define MAX_HOLDS		64

typedef struct Proxy
{
	struct sockaddr_storage server;
	socklen_t	server_len;
	bool		raw;			/* no connection speaks the protocol */
	struct in_addr address;		/* where to listen */
	int			port;
	int			listener;		/* -1: refused */
	Link	   *links;
	bool		held_up;		/* of all sessions */
	bool		held_down;
	bool		hangs_up;
	long		accepted;		/* since it was last asked for */
	SessionHold holds[MAX_HOLDS];
	int			hold_count;
	int			delay_ms;
	Trap		trap;
	int32_t		trap_type;
	long		trap_countdown;
	long		fired;
	int64_t		fired_at;		/* the session that was struck last */
} Proxy;

extern Proxy proxy;

/* in zkproxy.c */
extern void die(const char *what);
extern bool listen_on(int port);
extern void close_link(Link *link);

/* in zkproxycmd.c */
extern bool read_commands(void);

#endif							/* ZKPROXY_H */
