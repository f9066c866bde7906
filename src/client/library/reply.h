/*-------------------------------------------------------------------------
 *
 * reply.h
 *	  Check that what a server sends is what was asked for.
 *
 * For the files beside this one.  Pure functions, without locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_REPLY_H
#define ZKLOCK_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes that every reply begins with: xid, zxid, and error. */
#define ZK_REPLY_HEADER		16

/*
 * The bytes of a server's part of the handshake, less its length: version,
 * session timeout, session, and password; servers from 3.4 on add a byte that
 * says whether they only let read.
 */
#define ZK_GREETING_OLD		36
#define ZK_GREETING			37

/* Why a packet is refused, as the end of a sentence; with the final NUL. */
#define ZK_REPLY_WHY		160

/* A request that was sent, and what is to be known of it to judge the reply. */
typedef struct ZkSent
{
	struct ZkSent *next;
	int32_t		xid;
	int32_t		type;
	int			count;			/* operations of a multi-op; -1 if unknown */
	uint8_t		ops[];			/* their types */
} ZkSent;

/* The requests of a connection that are not answered, the oldest first. */
typedef struct ZkUnanswered
{
	ZkSent	   *first;
	ZkSent	   *last;
	bool		serving;		/* something but SASL has been asked for */
} ZkUnanswered;

extern bool zk_unanswered_add(ZkUnanswered *unanswered, const void *packet,
							  size_t size);
extern void zk_unanswered_forget(ZkUnanswered *unanswered);

extern int64_t zk_greeting_session(const void *packet, size_t size);
extern bool zk_greeting_begins(const void *packet, size_t size, char *why);
extern bool zk_greeting_check(const void *packet, size_t size,
							  int64_t session, char *why);
extern bool zk_reply_check(ZkUnanswered *unanswered, void *packet,
						   size_t size, char *why);

#endif							/* ZKLOCK_REPLY_H */
