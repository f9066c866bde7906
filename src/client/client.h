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

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#include "address.h"
#include "library.h"
#include "mailbox.h"
#include "nameset.h"
#include "leader_contact.h"
#include "jitter.h"
#include "queue.h"
#include "record.h"
#include "waitgraph.h"

/* Contenders that one renewal proves. */
#define ZK_RENEWAL_BATCH	128

/*
 * How long a contender stays in one place before it gets a watch on its own
 * znode, and how long far behind in a queue, where it will be looked for in a
 * list anyhow.
 */
#define ZK_WATCH_DELAY		ZK_MS(100)
#define ZK_FAR_WATCH_DELAY	ZK_MS(1000)

/* Creates of one contender that may find its lock node gone. */
#define ZK_MAX_ATTEMPTS		10

/* What Curator's Revoker writes into a contender, all of it. */
#define ZK_REVOCATION		"__REVOKE__"

/* Administrators' identities in the ACL of what we create. */
#define ZK_MAX_ADMINS		8

/* Creates at a time of which it is looked whether they are executed late (Q7). */
#define ZK_MAX_DOUBTED		64

#define ZK_NO_SLOT			UINT16_MAX

/* Room left for those who want locks while a queue or a tree is being read. */
#define ZK_READ_RESERVE		16

/*
 * Marks of others that one multi-op deletes, and the operations of a multi-op
 * of a contender's own: it may check itself, and make its mark, besides.
 */
#define ZK_MARK_BATCH	8
#define ZK_OWN_OPS		(ZK_MARK_BATCH + 2)

/* Operations of a group's multi-op besides its creates (group.c). */
#define ZK_STAMP_OPS		3

/* Longest path of a contender of our own, terminating NUL included. */
#define ZK_CONTENDER_PATH_SIZE	(ZK_NODE_PATH_SIZE + ZK_NAME_SIZE)

/* What a request on its way is for. */
typedef enum RequestKind
{
	REQ_FREE,
	REQ_FORGOTTEN,				/* nobody waits for the answer any more */
	REQ_CREATE,					/* the contender */
	REQ_GROUP,					/* a group of contenders, a multi */
	REQ_LIST,					/* the queue, to find its place */
	REQ_SETTLE,					/* a check that is committed before that */
	REQ_FIND,					/* the queue, to find a lost create's name */
	REQ_PARENT,					/* a container on the way to the lock node */
	REQ_STAT,					/* the own contender's Stat */
	REQ_RECORD,					/* the lock's record */
	REQ_RECORD_PARENT,			/* a znode on the way to it */
	REQ_MARKS,					/* the marks of its holders */
	REQ_MARK,					/* the own mark, made or deleted */
	REQ_WATCH,					/* the one to wait for */
	REQ_REWRITE,				/* that it is no waiter any more, to the next */
	REQ_DELETE,					/* the contender */
	REQ_DOWNGRADE,				/* exclusive to shared, a multi */
	REQ_RENEW,					/* a multi of checks */
	REQ_HEARTBEAT,				/* a sync, to be heard by the leader */
	REQ_INQUIRY,				/* an ACL, to learn why something was refused */
	REQ_READ_SYNC,				/* what comes before a read for zk_lock_queue */
	REQ_READ_LIST,				/* the queue, for zk_lock_queue */
	REQ_READ_DATA,				/* a contender's data, likewise */
	REQ_OWN,					/* the own contender's data, and a watch */
	REQ_BREAK,					/* a step of breaking a contender */
	REQ_READ_INQUIRY,			/* an ACL, likewise */
	REQ_TREE,					/* a step of reading a tree, or published
								 * waits */
	REQ_PUBLISH					/* a step of publishing a wait */
} RequestKind;

/*
 * Deals with the answer to a request, with engine_lock, on the completion
 * thread.  "which" is what zk_request_begin() was given.
 */
typedef struct Answer Answer;
typedef void (*AnswerHandler) (ZkClient *client, int which, const Answer *answer);

/* A request on its way.  engine_lock. */
typedef struct Request
{
	uint32_t	serial;			/* tells a late callback from the right one */
	RequestKind kind;
	int			which;			/* slot, or index into a listing */
	ZkTime		sent_at;
	ZkTime		leader_heard_at;	/* ZkLeaderContact.leader_heard_at at that
									 * moment */
	AnswerHandler handler;		/* of whoever waits for the answer */
	bool		of_contender;	/* of which "which" is the slot */
} Request;

/*
 * What has come for it: those parts that its kind has.  They live as long as
 * the handler runs.
 */
struct Answer
{
	int			rc;
	const Request *request;
	const char *text;			/* a path that was created, or a znode's data */
	int			len;			/* of the data; -1 if there are none */
	const struct Stat *stat;
	const struct String_vector *children;
	const struct ACL_vector *acl;
};

/*
 * Who the client is to the ensemble, and the ACLs of what it creates (auth.c).
 * Constant but for the flags, which are under engine_lock.
 */
typedef struct ZkIdentity
{
	char	   *credential;		/* malloc'd; NULL for anybody */
	int			user_len;		/* bytes of it before the colon */
	char	   *root;			/* malloc'd; NULL without a credential */
	char	   *user_node;		/* path, likewise */
	bool		creator;		/* what we create is not for everybody */
	char	   *acl_text;		/* malloc'd; entries point into it */
	struct ACL	entries[ZK_MAX_ADMINS + 2];
	struct ACL_vector acl;		/* of containers and contenders */
	struct ACL_vector user_acl; /* of the user node */
	bool		presented;		/* the handle knows the credential */
	atomic_bool answered;		/* and the ensemble has said something to it */
	bool		wanted;			/* the ensemble insists on one */
	bool		user_left;		/* the user node was asked for */
} ZkIdentity;

/* Something that an ACL seems to forbid (refusal.c).  engine_lock. */
typedef struct Refusal
{
	char	   *znode;			/* malloc'd; NULL if nothing was refused */
	int			permission;		/* ZOO_PERM_... */
	int			asking;			/* whose ACL is to be read next */
} Refusal;

/* Is a contender's mark there? */
typedef enum MarkState
{
	MARK_ABSENT,
	MARK_UNKNOWN,				/* something was sent, and not answered */
	MARK_THERE
} MarkState;

/*
 * What a contender with a lock delay has to do with marks (lock_delay.c).
 * Lists of names are malloc'd, each name with a NUL and an empty one at the
 * end.  engine_lock.
 */
typedef struct Marking
{
	size_t		parent_len;		/* bytes of the path of the znode to create;
								 * or 0 */
	MarkState	own;
	bool		orphaned_mark;	/* the contender is gone, its mark may not be */
	int			ops;			/* about its mark, in the multi-op on its way */
	int			create_at;		/* the one that makes it; or 0 */
	bool		due;			/* granted but for the marks */
	bool		looked;			/* they were read since the queue was listed */
	bool		doubtful;		/* of one it is not known what it means */
	char	   *queue;			/* who was in the queue when that was listed */
	char	   *seen;			/* the marks of others when last read */
	char	   *unclean;		/* those of who has gone without a release */
	ZkTime		looked_at;		/* when they were read */
	ZkTime		until;			/* not granted before then if there are such */
	ZkTime		shown;			/* until, as the backend was told; or 0 */
} Marking;

/*
 * A contender as the engine knows it.  The slot number is its index in
 * ZkClient.contenders and in Mailbox.slots.  engine_lock.
 *
 * "state" is where the protocol stands.  Once "end" is set (ZK_LOST or
 * ZK_FAILED, both final) the backend sees that, while behind it the znode is
 * still being deleted.
 *
 * Invariant: a znode of ours can exist only while name is set or
 * maybe_exists, and then the slot is in use.  So every contender this client
 * may have created is at every moment wanted or being reaped.
 */
typedef struct Contender
{
	bool		in_use;
	bool		unwanted;		/* delete it: released, abandoned, or ended */
	bool		released;		/* somebody waits for GONE */
	bool		abandoned;		/* nobody does: free the slot then */
	bool		maybe_exists;	/* create sent, name not known */
	bool		settled;		/* what is read now shows whether it does */
	bool		need_parent;	/* the lock node was not there */
	bool		parent_seen;	/* the znode above the one to create was there */
	bool		last_ahead;		/* the watched one is the only one ahead */
	bool		unbroken;		/* it is watched without a break since it was
								 * created: that it is deleted says that
								 * nothing has taken its place */
	bool		last_second_watch;	/* last_ahead, once the second_watch is
									 * deleted */
	bool		relist;			/* the second_watch is gone: list while
								 * waiting */
	bool		proving;		/* granted, but the lease must be proved first */
	bool		next_in_line;	/* only holders are ahead: keep the lease */
	bool		touched;		/* is in ZkClient.touched */
	bool		own_watch;		/* its own znode is being watched */
	bool		changed;		/* its data was changed by somebody else */
	bool		revoked;		/* somebody asks for the lock back */
	bool		grouped;		/* created in one transaction with others */
	bool		watch_all;		/* waits for any of several (semaphore.c) */
	bool		own_ahead;		/* and all of them are our own (likewise) */
	bool		rewrite;		/* its data is to be written once more:
								 * somebody behind may take it for a waiter,
								 * or a revocation has wiped it out */
	bool		reading;		/* granted, but the record is to be read first */
	bool		record_known;	/* it was, since the queue was listed */
	bool		recording;		/* the multi-op on its way writes the record */
	bool		recorded;		/* what was noted is in the record */
	uint8_t		attempts;		/* creates in vain, in a row */
	uint8_t		pending;		/* requests on their way for it */
	uint16_t	partner;		/* exclusive one to take the place of, or to
								 * see gone before this one is */
	uint16_t	successor;		/* the one whose partner this is */
	uint16_t	next_member;	/* of the group that is to be created; a ring */
	uint16_t	parent_len;		/* bytes of the path of the container to
								 * create */
	uint32_t	incarnation;	/* bumped with each new identity (base) */
	uint32_t	watch_serial;	/* of the REQ_OWN on its way; 0 for none */
	uint32_t	rewrite_serial; /* likewise of the REQ_REWRITE */
	int32_t		version;		/* of its data, as last seen; -1 if that may
								 * not be read */
	int32_t		watched_version;	/* likewise of the one watched
									 * (semaphore.c) */
	ZkLockRequest request;
	ZkContenderState state;
	ZkContenderState end;		/* ZK_LOST, ZK_FAILED, or ZK_NONE */
	ZkError		error;
	ZkLoss		loss;
	const char *node;			/* MailboxSlot.node */
	char	   *owner;			/* malloc'd data of the znode */
	int			owner_len;
	char		base[ZK_NAME_SIZE]; /* its name up to the number */
	char		name[ZK_NAME_SIZE]; /* its name; empty while unknown */
	char		detail[ZK_DETAIL_SIZE];
	char	   *watched;		/* malloc'd path of the one waited for */
	char	   *second_watch;	/* malloc'd path of the one before that, while
								 * it is watched as well; or NULL */
	char	   *to_watch;		/* malloc'd names of others to watch, each
								 * with a NUL, an empty one at the end; or
								 * NULL */
	int			watches_asked;	/* bytes of them that were asked for */
	int			watches_answered;	/* and answered */
	char		rival[ZK_NAME_SIZE];	/* makes an upgrade a deadlock; or
										 * empty */
	char		blocker_owner[ZK_OWNER_SIZE];	/* data of the one watched */
	int64_t		blocker_session;	/* whose that is */
	char		holder[ZK_NAME_SIZE];	/* first in the queue */
	int			ahead;
	int			position;
	int64_t		token;
	ZkTime		proved_at;
	ZkTime		asked_at;		/* when the last renewal with it was sent; 0
								 * if there is to be another one at once */
	ZkTime		lease_end;
	ZkTime		presumed_lost;
	ZkTime		granted_at;
	bool		overdue;		/* for longer, by a commit that is under way */
	ZkTime		retry_at;		/* not before then; 0 if there is nothing to
								 * try again */
	ZkTime		doubted_since;	/* when its create was found not to have been
								 * executed, which it may be yet; or 0 */
	ZkTime		watch_at;		/* not before then is its own znode watched */
	Refusal		refusal;		/* to be explained; then it fails */
	RecordBuffer *record;		/* MailboxSlot.record; NULL without a record */
	Marking		marking;
	zoo_op_result_t results[ZK_OWN_OPS];	/* of a multi-op of its own;
											 * written by the library */
} Contender;

/*
 * A renewal on its way.  There may be as many as it takes to prove all
 * contenders at the same time; and a server that has stalled (ZOOKEEPER-4537)
 * is often woken by the next commit.  engine_lock; results also by the library.
 */
#define ZK_RENEWALS		(ZK_MAX_CONTENDERS / ZK_RENEWAL_BATCH)

typedef struct Renewal
{
	bool		pending;
	int			count;
	uint16_t	slots[ZK_RENEWAL_BATCH];
	uint32_t	incarnations[ZK_RENEWAL_BATCH];
	zoo_op_result_t results[ZK_RENEWAL_BATCH];
} Renewal;

/*
 * A group being created; one at a time, as requests are answered in their
 * order. engine_lock; results, stat and paths also by the library.
 */
typedef struct GroupCreate
{
	bool		pending;
	int			count;
	uint16_t	slots[ZK_MAX_GROUP];
	zoo_op_result_t results[ZK_MAX_GROUP + ZK_STAMP_OPS];
	struct Stat stat;			/* of the transaction: czxid, ephemeralOwner */
	char		paths[ZK_MAX_GROUP][ZK_CONTENDER_PATH_SIZE];
} GroupCreate;

/* A queue being read for the backend.  engine_lock. */
typedef struct QueueRead
{
	bool		listed;
	int			next;			/* first member whose data is not asked for */
	int			end;			/* nor is it from this one on */
	int			pending;		/* answers to come */
	Refusal		refusal;		/* to be explained; then it fails */
	ZkQueueListing *listing;
} QueueRead;

/* How far one item of a tree has come. */
typedef enum TreeStep
{
	TREE_TODO,
	TREE_ASKED,
	TREE_DONE
} TreeStep;

/*
 * What was met in a tree: a znode that may be a lock node, or (lock is not -1)
 * a contender, of which member says what is known: czxid is 0 before that, and
 * again when it has gone.
 */
typedef struct TreeItem
{
	TreeStep	step;
	int			lock;			/* index of a contender's lock node, or -1 */
	int			first;			/* of a znode: index of its first contender */
	int			contenders;		/* and how many there were, in queue order */
	char	   *path;			/* malloc'd; of a znode */
	int			size;			/* of a contender: bytes of its data */
	bool		data_known;		/* which was asked for, and answered */
	ZkQueueMember member;
} TreeItem;

/* A tree being read for the backend (read_tree.c).  engine_lock. */
typedef struct TreeRead
{
	TreeItem   *items;			/* the first is the znode at the top */
	int			count;
	int			capacity;
	int			next;			/* items before it are asked for, or answered */
	int			pending;		/* answers to come */
	size_t		bytes;			/* that all this takes */
	bool		synced;			/* its server was told to catch up */
	bool		progress;		/* something was answered by this connection */
	bool		lost;			/* something was not, for want of it */
	int			failures;		/* connections in a row without progress */
	int			forbidden;		/* znodes that may not be listed */
	NameSet		nodes;			/* lock nodes that published waits name */
	char		detail[ZK_DETAIL_SIZE]; /* path of the first of them */
} TreeRead;

/* Is the znode of a published wait there? */
typedef enum WaitZnode
{
	WAIT_ABSENT,
	WAIT_UNKNOWN,				/* something was sent, and not answered */
	WAIT_THERE
} WaitZnode;

/*
 * The published wait of this client (publish_wait.c).  A znode of ours can
 * exist only while znode is not WAIT_ABSENT; then it is wanted or being reaped.
 * engine_lock.
 */
typedef struct Publication
{
	WaitText	wanted;
	WaitZnode	znode;
	bool		current;		/* it says what is wanted */
	bool		given_up;		/* it cannot be made to */
	bool		stuck;			/* it cannot be deleted */
	bool		pending;		/* an answer is to come */
	bool		need_parents;
	uint8_t		attempts;		/* creates in vain, in a row */
	uint32_t	sent;			/* serial of what was sent last */
	ZkTime		retry_at;		/* nothing is sent before then */
	char		path[ZK_NODE_PATH_SIZE + 32];
} Publication;

/* How far the breaking of a contender has come. */
typedef enum BreakStep
{
	BREAK_LOOK,					/* whose is it? */
	BREAK_MARK,					/* write the note into it */
	BREAK_WATCH,				/* see it go */
	BREAK_AWAIT,
	BREAK_DELETE
} BreakStep;

/* A contender being broken, or revoked.  engine_lock. */
typedef struct Breaking
{
	BreakStep	step;
	bool		pending;		/* an answer is to come */
	bool		begun;			/* something that changes it was sent */
	ZkTime		patience;		/* AWAIT: delete it then */
	ZkQueueListing *found;		/* the contender; NULL while unknown */
} Breaking;

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
	bool		starved;		/* somebody waits for a free request */
	bool		warned_foreign; /* of a child that is no contender */

	/* contenders to be advanced when the engine is left */
	int			touched_first;	/* a ring */
	int			touched_count;
	uint16_t	touched[ZK_MAX_CONTENDERS];
	int			free_requests;
	uint32_t	last_serial;
	Request		requests[ZK_MAX_IN_FLIGHT];
	Renewal		renewals[ZK_RENEWALS];
	GroupCreate group;
	Query		query;			/* what the next three are for */
	QueueRead	read;
	Breaking	breaking;
	TreeRead	tree;
	Publication publication;
	uint16_t	used;			/* contenders in use lie below */
	Contender  *contenders;		/* mailbox.engine_array.items */
};

/* The timeout of the ZooKeeper session.  engine_lock. */
static inline ZkTime
zk_timeout(const ZkClient *client)
{
	return ZK_MS(client->timeout_ms);
}

/*
 * Is there a mark that has to go with the contender?  Not that of a lock that
 * was lost.  engine_lock.
 */
static inline bool
zk_mark_to_go(const Contender *contender)
{
	return contender->marking.own != MARK_ABSENT && contender->end != ZK_LOST;
}

/*
 * Is all there is of the contender a create that may be executed late (Q7)?
 * Nobody wants it any more, and its name is not known.  engine_lock.
 */
static inline bool
zk_is_doubted(const Contender *contender)
{
	return contender->doubted_since != 0 && contender->name[0] == '\0';
}

/* What a request proves if it is a success that was committed. */
static inline ZkProof
zk_request_proof(const Request *request)
{
	ZkProof		proof = {request->sent_at, request->leader_heard_at};

	return proof;
}

/* Do the data of a znode, len bytes, begin with that text?  Any thread. */
static inline bool
zk_begins_with(const char *data, int len, const char *text)
{
	return len >= (int) strlen(text) && memcmp(data, text, strlen(text)) == 0;
}

#endif							/* ZKLOCK_CLIENT_H */
