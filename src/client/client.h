/*-------------------------------------------------------------------------
 *
 * client.h
 *	  The inside of the lock client: shared by its own files only.
 *
 * Threads.  The "backend thread" calls what zkclient/ declares.  The "helper
 * thread" is ours; it alone opens and closes library handles, keeps the timers
 * and carries out orders.  libzookeeper adds an "I/O thread".  Every completion
 * and watcher runs on the "completion thread", which is the I/O thread where
 * the library is linked statically (see threads.c), and else one more that
 * libzookeeper adds.  All but the backend thread are "client threads".
 *
 * Locks.  mailbox.lock guards the mailbox (struct Mailbox): any thread, short
 * copies only, no library call and no other lock inside.  engine_lock guards
 * all else in struct ZkClient: client threads only, so that no library call
 * made under it can hold up the backend.  socket_lock is socket.c's.  Order:
 * engine_lock, then socket_lock, then the library's own locks or mailbox.lock.
 * zookeeper_init2() and zookeeper_close() are called without engine_lock, as
 * they wait for threads that may want it.
 *
 * Contexts given to the library are numbers (see request.c), never pointers:
 * a callback that comes late, or never, neither owns nor frees anything.
 *
 * IDENTIFICATION
 *	  src/client/client.h
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

/* Each known to the file of its topic; see there. */
typedef struct Contender Contender;
typedef struct RequestTable RequestTable;
typedef struct Renewal Renewal;
typedef struct GroupCreate GroupCreate;
typedef struct QueueRead QueueRead;
typedef struct TreeRead TreeRead;
typedef struct Breaking Breaking;
typedef struct Publication Publication;

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

	/*
	 * What zk_engine_leave() calls: see what comes next for a contender, and
	 * for all that had to wait for room.  Variables, as they lie in files
	 * above the one that calls them; constant.
	 */
	void		(*advance) (ZkClient *client, int slot);
	void		(*resume) (ZkClient *client);

	pthread_mutex_t engine_lock;	/* protects everything below */

	zhandle_t  *zh;				/* the open handle; only the helper writes */
	zhandle_t  *handle;			/* the same, once it is known to be good */
	uintptr_t	epoch;			/* of the handle; a callback with another one
								 * comes from a handle that was given up */
	bool		connected;		/* requests may be sent */
	bool		dead;			/* the handle is of no use: close it */
	bool		leaving;		/* nothing is begun any more (flush_at_exit.c) */
	ZkTime		leave_by;		/* until then something is waited for, if so */
	bool		close_wanted;	/* a contender can be deleted in no other way */
	clientid_t	client_id;		/* of the session; client_id 0 for none */
	int			timeout_ms;		/* negotiated, or asked for before that */
	ZkSessionStatus status;		/* as published last */
	ZkTime		opened_at;		/* when the handle was */
	ZkTime		disconnected_at;	/* when the connection was lost */
	ZkTime		next_open;		/* not before then */
	ZkTime		connect_by;		/* until then it is to be tried to have a
								 * session, though nothing is asked for; 0 for
								 * never */
	ZkTime		gave_up;		/* when the connection attempt that was given
								 * up last had begun */
	ZkTime		unneeded_since; /* nothing is asked for while there is no
								 * connection; 0 if something is */
	int			given_up;		/* attempts given up since there was a
								 * connection */
	int			silences;		/* connections given up since an answer of the
								 * leader */
	ZkTime		looked_at;		/* when the helper looked for silence last */
	ZkTime		no_timeout_until;	/* nothing is given up before then */
	ZkTime		timeout_jitter; /* random; how much later this connection is */
	ZkTime		round_trip;		/* what the leader's answers take, at worst */
	bool		stale;			/* proofs over this connection will come too
								 * late */
	ZkTime		prove_since;	/* proofs older than this will not do */
	uint64_t	random;			/* for zk_jitter() */
	ZkLeaderContact leader_contact; /* what the leader has heard of the
									 * session */
	bool		heartbeat_pending;	/* a sync for that is on its way */
	ZkTime		heartbeat_sent_at;	/* when the last one was sent */
	ZkTime		heartbeat_at;	/* and answered, or there was a connection:
								 * what was asked before may be asked again */
	ZkTime		heartbeat_due;	/* when to send the next one */
	size_t		watch_bytes;	/* of the paths watched through the handle,
								 * those of watches that have fired included */
	bool		warned_foreign; /* of a child that is no contender */

	int			free_requests;
	RequestTable *requests;		/* request.c */
	Renewal    *renewals;		/* lease.c */
	GroupCreate *group;			/* group.c */
	Query		query;			/* what the next three are for */
	QueueRead  *read;			/* read_queue.c */
	TreeRead   *tree;			/* read_tree.c */
	Breaking   *breaking;		/* query.c */
	Publication *publication;	/* publish_wait.c */
	uint16_t	used;			/* contenders in use lie below */
	Contender  *contenders;		/* mailbox.engine_array.items */
};

/* The timeout of the ZooKeeper session.  engine_lock. */
static inline ZkTime
zk_timeout(const ZkClient *client)
{
	return ZK_MS(client->timeout_ms);
}

#endif							/* ZKLOCK_CLIENT_H */
