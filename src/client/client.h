/*-------------------------------------------------------------------------
 *
 * client.h
 *	  The inside of the lock client: shared by its own files only.
 *
 * Threads.  The "backend thread" calls what zkclient/ declares, and carries out
 * its own orders where it need not wait (D6).  The "helper thread" is ours; it
 * alone opens and closes library handles, keeps the timers, and carries out all
 * other orders.  libzookeeper adds an "I/O thread".  Every completion and
 * watcher runs on the "completion thread", which is the I/O thread where the
 * library is linked statically (see threads.c), and else one more that
 * libzookeeper adds.  All but the backend thread are "client threads".
 *
 * Locks.  mailbox.lock guards the mailbox (struct Mailbox): any thread, short
 * copies only, no library call and no other lock inside.  engine_lock guards
 * all else in struct ZkClient.  The backend thread only tries it, so that
 * nothing done under it can hold up the backend.  socket_lock is socket.c's.
 * Order: engine_lock, then socket_lock, then the library's own locks or
 * mailbox.lock.  zookeeper_init2() and zookeeper_close() are called without
 * engine_lock, as they wait for threads that may want it.
 *
 * Contexts given to the library are numbers (see request.c), never pointers:
 * a callback that comes late, or never, neither owns nor frees anything.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CLIENT_H
#define ZKLOCK_CLIENT_H

#ifdef POSTGRES_H
#error "no PostgreSQL header may be included in the lock client"
#endif

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#include "auth.h"
#include "leader_contact.h"
#include "library.h"
#include "mailbox.h"
#include "uuid.h"

/* Each known to the file of its topic; see there. */
typedef struct Contender Contender;
typedef struct Engine Engine;
typedef struct Leases Leases;
typedef struct GroupCreate GroupCreate;
typedef struct Reader Reader;
typedef struct Breaking Breaking;
typedef struct Publication Publication;
typedef struct ServerTimeout ServerTimeout;

/* How far the helper is (helper.c). */
typedef enum ClientStage
{
	CLIENT_RUNNING,
	CLIENT_LEAVING,				/* the backend has said its last word: nothing
								 * is begun any more */
	CLIENT_DONE					/* the session can be closed */
} ClientStage;

/* The handle and its connection; connection.c has a drawing. */
typedef enum ConnectionState
{
	CONNECTION_NONE,			/* no handle */
	CONNECTION_TRYING,			/* a handle is open, or being opened: the
								 * library looks for a server */
	CONNECTION_UP,				/* requests may be sent */
	CONNECTION_DEAD				/* the handle is of no use: close it */
} ConnectionState;

/*
 * The library's handle and the ZooKeeper session.  Written by connection.c,
 * but for close_wanted.  engine_lock.
 */
typedef struct Connection
{
	ConnectionState state;
	zhandle_t  *zh;				/* NULL without a handle, and while one is
								 * being opened that was never connected */
	uintptr_t	epoch;			/* of the handle; a callback with another one
								 * comes from a handle that was given up */
	clientid_t	session;		/* client_id 0 for none */
	int			timeout_ms;		/* the shortest that was negotiated in the
								 * session; asked for before that */
	ZkSessionStatus status;		/* as published last */
	bool		close_wanted;	/* set by those who can delete something in no
								 * other way than by closing the session */
	ZkTime		opened_at;		/* when the handle was */
	ZkTime		disconnected_at;	/* when the connection was lost */
	ZkTime		next_open;		/* no handle is opened before then */
	ZkTime		connect_by;		/* until then a session is wanted, though
								 * nothing is asked for; 0 for never */
	ZkTime		unneeded_since; /* nothing is asked for while there is no
								 * connection; 0 if something is */
} Connection;

struct ZkClient
{
	Mailbox		mailbox;

	/* set at start, constant */
	pthread_t	helper;
	char	   *servers;
	int			session_timeout_ms;
	ZkZnodeStyle style;
	ZkIdentity	identity;
	ZkTransport transport;

	pthread_mutex_t engine_lock;	/* protects everything below */

	ClientStage stage;
	ZkTime		helper_wakes_at;	/* until then the helper sleeps */
	ZkTime		helper_due;		/* the same without own_watch.c's timers */
	ZkTime		leave_by;		/* LEAVING: until then something is waited for */
	Connection	connection;
	Engine	   *engine;			/* request.c */
	ServerTimeout *server_timeout;	/* server_timeout.c */
	ZkLeaderContact leader_contact; /* what the leader has heard of the
									 * session */
	Leases	   *leases;			/* lease.c */
	GroupCreate *group;			/* group.c */
	uint64_t	random;			/* for zk_jitter() */
	ZkUuidSource uuids;			/* for names of contenders */
	bool		warned_foreign; /* of a child that is no contender */
	Query		query;
	Reader	   *reader;			/* reader.c */
	Breaking   *breaking;		/* query.c */
	Publication *publication;	/* publish_wait.c */
	uint16_t	used;			/* contenders in use lie below */
	Contender  *contenders;		/* mailbox.engine_array.items */
};

/* Returns true if requests may be sent.  engine_lock. */
static inline bool
zk_is_connected(const ZkClient *client)
{
	return client->connection.state == CONNECTION_UP;
}

/* Returns true unless the handle was given up.  engine_lock. */
static inline bool
zk_is_current(const ZkClient *client, zhandle_t *zh)
{
	return (uintptr_t) zoo_get_context(zh) == client->connection.epoch;
}

/* The id of the ZooKeeper session; 0 for none.  engine_lock. */
static inline int64_t
zk_session_id(const ZkClient *client)
{
	return client->connection.session.client_id;
}

/* The timeout of the ZooKeeper session, the shortest so far.  engine_lock. */
static inline ZkTime
zk_timeout(const ZkClient *client)
{
	return ZK_MS(client->connection.timeout_ms);
}

/* The helper is to look around at that time, and not before.  engine_lock. */
static inline void
zk_helper_at(ZkClient *client, ZkTime due)
{
	client->helper_wakes_at = due;
	zk_mailbox_set_timer(&client->mailbox, due);
}

/* The helper is to look around at that time, if not before.  engine_lock. */
static inline void
zk_helper_by(ZkClient *client, ZkTime due)
{
	if (client->helper_wakes_at > due)
		zk_helper_at(client, due);
}

#endif							/* ZKLOCK_CLIENT_H */
