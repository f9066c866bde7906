/*-------------------------------------------------------------------------
 *
 * proxy.h
 *	  A network between the lock client and ZooKeeper that can be broken.
 *
 * One TCP proxy in a thread of the test program.  It forwards whole packets of
 * ZooKeeper's protocol, so it can lose just the reply of one request, and a
 * test knows whether the request was executed.
 *
 * All functions are for the test's main thread.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PROXY_H
#define ZKLOCK_PROXY_H

#include <stdbool.h>
#include <stddef.h>

/* Any request but a ping or the end of a session, for proxy_cut_at(). */
#define PROXY_ANY_REQUEST	0

typedef enum ProxyMoment
{
	PROXY_BEFORE_REQUEST,		/* the server never gets it */
	PROXY_BEFORE_REPLY,			/* it is executed, and the reply is lost */
	PROXY_THROTTLE				/* see proxy_throttle_at() */
} ProxyMoment;

/*
 * Start the proxy before a server ("host:port", the host in numbers).  Its own
 * address is left in address.  False if that cannot be done.
 */
extern bool proxy_start(const char *server, char *address, size_t size);

/* End the proxy and all connections through it. */
extern void proxy_stop(void);

/*
 * Forward nothing any more, in both directions, and accept no connection; but
 * lose nothing either: it continues where it stopped when thawed.
 */
extern void proxy_freeze(void);
extern void proxy_thaw(void);

/* Cut all connections. */
extern void proxy_cut(void);

/* Close new connections immediately, or no longer. */
extern void proxy_refuse(bool refuse);

/*
 * Cut a connection when the nth request (1: the next) of a type (ZOO_..._OP of
 * the library's proto.h) comes, before the request or its reply is forwarded,
 * but after the replies to all requests before it; and again at each nth one if
 * repeat is set.  Takes the place of what was asked for before; nth 0 is never.
 */
extern void proxy_cut_at(int type, int nth, ProxyMoment moment, bool repeat);

/*
 * Answer the nth request (1: the next) of a type like a busy server: it is not
 * executed, and the reply says so (ZTHROTTLEDOP).  Replaces an order of
 * proxy_cut_at(), and the reverse.
 */
extern void proxy_throttle_at(int type, int nth);

/* How many requests were answered so. */
extern int	proxy_throttled(void);

/* How many connections were cut so far, by whichever of the functions above. */
extern int	proxy_cuts(void);

/*
 * Send bytes to every client, as if the server had.
 */
extern void proxy_inject(const void *bytes, size_t size);

/* What answers no request that proxy_alter() could name by its type. */
#define PROXY_HANDSHAKE		(-1000)
#define PROXY_EVENT			(-1001)

/* By how many bytes what is sent in place of a packet may be longer. */
#define PROXY_ALTER_ROOM	256

/*
 * What to send in place of a packet to the client: its bytes, the length in front, and the
 * type of the request that it answers.  Fills in altered and returns how many
 * bytes that is.  On the thread of the proxy.
 */
typedef size_t (*ProxyAlter) (int type, const unsigned char *packet,
							  size_t size, unsigned char *altered);

/* Have that done with all packets to clients; with NULL none is altered. */
extern void proxy_alter(ProxyAlter alter);

/*
 * Be another program: answer the first packet of each new connection with these
 * bytes (static), and the rest with nothing.  NULL: be a proxy again.
 */
extern void proxy_impersonate(const void *bytes, size_t size);

#endif							/* ZKLOCK_PROXY_H */
