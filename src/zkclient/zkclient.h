/*-------------------------------------------------------------------------
 *
 * zkclient.h
 *	  The interface between the backend side and the lock client.
 *
 * The lock client is plain C with threads of its own; PostgreSQL knows
 * nothing of threads.  All that passes between the two is declared here, and
 * this file includes neither world's headers.  The functions below are for
 * the one thread that started the client (in a backend: the main thread).
 * None of them calls libzookeeper or waits for the network; each takes the
 * mailbox's mutex for a short copy.  Only zk_client_stop() waits, for as long as
 * its caller allows.
 *
 * Words are those of src/README: a lock node is the parent znode of a queue,
 * a contender is an ephemeral sequential child of it, one request for the
 * lock.  Everything about znodes is the client's business: the backend side
 * names a lock node and gets back a state.
 *
 * IDENTIFICATION
 *	  src/zkclient/zkclient.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKCLIENT_H
#define ZKCLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest path of a lock node (root and lock path), terminating NUL included. */
#define ZK_NODE_PATH_SIZE	1024

/* Contenders of one client at a time, wanted ones and those being reaped. */
#define ZK_MAX_CONTENDERS	1024

/*
 * Bytes of contender paths of one client at a time.  The server writes the
 * paths of all ephemeral nodes of a session into the transaction that closes
 * it, and cannot read that transaction back when it has grown too large
 * (ZOOKEEPER-4306).
 */
#define ZK_MAX_PATH_BYTES	(256 * 1024)

/*
 * Contenders that can be created together: so many that their queues can be
 * listed in the same go.
 */
#define ZK_MAX_GROUP		60

/* The most permits that a semaphore can have. */
#define ZK_MAX_PERMITS		1000

/* Requests to the ensemble on their way at a time. */
#define ZK_MAX_IN_FLIGHT	64

/*
 * What one read of a tree visits and keeps: znodes, contenders included; bytes;
 * and bytes of a contender's data, of which one of ours has fewer.
 */
#define ZK_TREE_MAX_ZNODES	100000
#define ZK_TREE_MAX_BYTES	(32 * 1024 * 1024)
#define ZK_TREE_MAX_DATA	4096

/*
 * What one read of published waits visits and keeps: waits; znodes, their locks'
 * contenders included; bytes; and bytes of one wait.
 */
#define ZK_WAITS_MAX		2000
#define ZK_WAITS_MAX_ZNODES	20000
#define ZK_WAITS_MAX_BYTES	(8 * 1024 * 1024)
#define ZK_WAIT_MAX_TEXT	(96 * 1024)

/* Longest name of a contender of our own, terminating NUL included. */
#define ZK_NAME_SIZE		80

/*
 * How the data of a contender of a zklock client begins, and what it is changed
 * to when the contender is broken.
 */
#define ZK_OWNER_PREFIX		"{\"cluster\":"
#define ZK_BREAK_PREFIX		"{\"broken\":"

/* What is kept of a contender's data, terminating NUL included: all of ours. */
#define ZK_OWNER_SIZE		1024

/* Longest explanation of an error, terminating NUL included. */
#define ZK_DETAIL_SIZE		256

/*
 * A point in time or a span, in microseconds.  Points are on CLOCK_BOOTTIME,
 * which never steps and goes on while the machine is suspended.
 */
typedef int64_t ZkTime;

#define ZK_MS(ms)	((ZkTime) (ms) * 1000)

typedef enum ZkMode
{
	ZK_EXCLUSIVE,
	ZK_SHARED,
	ZK_PERMIT					/* of a semaphore, which has a number of them */
} ZkMode;

/* How many modes there are, for arrays by mode. */
#define ZK_MODE_COUNT		3

/* Whose names our contenders have; see the README on what excludes what. */
typedef enum ZkZnodeStyle
{
	ZK_STYLE_CURATOR,			/* Curator's mutex; "__READ__" for shared */
	ZK_STYLE_CURATOR_RW,		/* Curator's read-write lock */
	ZK_STYLE_KAZOO				/* kazoo's Lock and ReadLock */
} ZkZnodeStyle;

/* Why something could not be done. */
typedef enum ZkError
{
	ZK_OK,
	ZK_ERR_UNRESOLVED,			/* no server's name could be resolved */
	ZK_ERR_UNREACHABLE,			/* no server accepts us as a client */
	ZK_ERR_NOT_ZOOKEEPER,		/* what answers is no ZooKeeper ensemble */
	ZK_ERR_AUTH,				/* authentication failed, or is missing */
	ZK_ERR_NO_THREAD,			/* a thread could not be created */
	ZK_ERR_NO_DESCRIPTOR,		/* a descriptor could not be had */
	ZK_ERR_NO_MEMORY,
	ZK_ERR_POISONED,			/* the library failed a check of its own */
	ZK_ERR_LIMIT,				/* too many contenders or path bytes */
	ZK_ERR_FORBIDDEN,			/* not authorized by an ACL */
	ZK_ERR_REFUSED,				/* likewise, or the password is wrong */
	ZK_ERR_ACL,					/* the ACL for new znodes is not accepted */
	ZK_ERR_QUOTA,				/* a quota of the ensemble is used up */
	ZK_ERR_EPHEMERAL_PARENT,	/* the lock node, or one above it, is ephemeral */
	ZK_ERR_SEQUENCE,			/* sequence numbers are about to run out */
	ZK_ERR_TIED,				/* a stranger has the same sequence number */
	ZK_ERR_VANISHING,			/* the lock node or contender keeps vanishing */
	ZK_ERR_BROKEN,				/* the contender was broken (zk_queue_break) */
	ZK_ERR_TREE,				/* the tree is too large (zk_tree_request) */
	ZK_ERR_UNSTEADY,			/* connections are lost before anything is
								 * answered (likewise) */
	ZK_ERR_UNQUEUED,			/* of a group: not created, or not in this
								 * ZooKeeper session; the group may be asked for
								 * anew */
	ZK_ERR_VANISHED,			/* of a group: deleted by a stranger; likewise */
	ZK_ERR_TLS,					/* no connection by way of TLS */
	ZK_ERR_TLS_FILES,			/* our own certificate, key or CA is of no use */
	ZK_ERR_CERTIFICATE,			/* servers do not accept our certificate */
	ZK_ERR_SASL,				/* SASL authentication failed */
	ZK_ERR_KIND,				/* a lock where a semaphore is asked for, the
								 * reverse, or another number of permits */
	ZK_ERR_OTHER				/* anything else; the detail says what */
} ZkError;

/* Why a lock was lost. */
typedef enum ZkLoss
{
	ZK_NOT_LOST,
	ZK_LOST_EXPIRED,			/* the ZooKeeper session has expired */
	ZK_LOST_CONTENDER,			/* the contender is gone */
	ZK_LOST_BROKEN,				/* likewise: it was broken (zk_queue_break) */
	ZK_LOST_LEASE,				/* not proved in time */
	ZK_LOST_OVERTIME,			/* held for as long as it was to be at most */
	ZK_LOST_POISONED			/* the client can prove nothing any more */
} ZkLoss;

/*
 * The life of a contender.  ABANDONED of the design is not a state of its
 * own: it is an order (zk_contender_abandon) that may come in any state and
 * ends in GONE unseen.
 */
typedef enum ZkContenderState
{
	ZK_NONE,					/* no such contender (any more) */
	ZK_RESERVED,				/* room made by zk_contender_reserve */
	ZK_WANTED,					/* not sent yet */
	ZK_CREATING,				/* create sent, outcome unknown */
	ZK_QUEUED,					/* exists; its place is being looked up */
	ZK_WATCHING,				/* waits for another contender to go */
	ZK_HELD,					/* granted */
	ZK_RELEASING,				/* to be deleted */
	ZK_GONE,					/* certain to exist no more */
	ZK_FAILED,					/* cannot be granted; error says why */
	ZK_LOST						/* was granted; loss says why */
} ZkContenderState;

/* Clusters of which a record has a position. */
#define ZK_RECORD_POSITIONS	8

/* Databases of which a record has a run. */
#define ZK_RECORD_RUNS		4

/* Longest text that says who ended a run, terminating NUL included. */
#define ZK_RUNNER_SIZE		200

/* How far a cluster's WAL went when a lock was released. */
typedef struct ZkPosition
{
	uint64_t	system;			/* the cluster's system identifier */
	uint32_t	timeline;
	uint64_t	lsn;
} ZkPosition;

/*
 * The run of a job that was ended last in a database.  Times are microseconds since
 * 2000.
 */
typedef struct ZkRun
{
	uint64_t	system;			/* the cluster's system identifier */
	uint32_t	database;		/* whose table has the row of the run; 0 if none has,
								 * because a standby ended it */
	uint32_t	timeline;		/* how far the WAL of the cluster went with it */
	uint64_t	lsn;
	int64_t		fire_time;
	int64_t		ended_at;
	char		ended_by[ZK_RUNNER_SIZE];	/* UTF-8, no control characters */
} ZkRun;

/*
 * What the holders of a lock leave for the next ones: its record.  An empty one is
 * all zeroes.
 */
typedef struct ZkRecord
{
	int64_t		token;			/* of the last release that was recorded */
	char		contender[ZK_NAME_SIZE];	/* and its contender; or empty */
	int			position_count;
	ZkPosition	positions[ZK_RECORD_POSITIONS]; /* one for a cluster, the most
												 * recent one first */

	int			run_count;
	ZkRun		runs[ZK_RECORD_RUNS];	/* one for a database, the most recent one
										 * first */

	/*
	 * Runs of the job that were due before that time count as ended; those due later
	 * count as not ended if a token up to that one ended them.
	 */
	bool		has_reset;
	int64_t		reset_time;
	int64_t		reset_token;
} ZkRecord;

/*
 * A contender as the backend side knows it: slot and generation in one
 * number.  An id is never reused; 0 is none.
 */
typedef uint64_t ZkContenderId;

typedef struct ZkContenderStatus
{
	ZkContenderState state;
	ZkError		error;			/* in FAILED */
	ZkLoss		loss;			/* in LOST */
	char		detail[ZK_DETAIL_SIZE]; /* to error or loss; may be empty */
	char		name[ZK_NAME_SIZE]; /* child name; empty while unknown */
	int64_t		token;			/* czxid of the grant; 0 while unknown */

	/*
	 * When the last operation that proved this contender's existence was
	 * sent.  In HELD the lease runs until lease_end (two thirds of the
	 * negotiated session timeout after proved_at), and at presumed_lost (the
	 * whole timeout after it) the server may have expired the session.
	 */
	ZkTime		proved_at;
	ZkTime		lease_end;
	ZkTime		presumed_lost;
	ZkTime		granted_at;		/* since when it is held */

	bool		revoked;		/* somebody asks for the lock to be given back */
	bool		delayed;		/* in QUEUED: nobody is ahead, the lock delay runs */

	/*
	 * In GONE: what was noted is in the lock's record.  If not, though the
	 * contender was held until it was released, error says why.
	 */
	bool		recorded;

	/* In WATCHING, from the queue as last read. */
	int			ahead;			/* contenders that must go first */
	char		blocker[ZK_NAME_SIZE];	/* the one watched, maybe cut short */
	int			position;		/* in the queue, from 1 on */
	char		holder[ZK_NAME_SIZE];	/* the first one that is not this
										 * client's, maybe cut short */
	int64_t		blocker_session;	/* ZooKeeper session of the one watched; 0
									 * while unknown */
	char		blocker_owner[ZK_OWNER_SIZE];	/* start of its data, which is
												 * anybody's; empty while
												 * unknown.  When the contender was
												 * broken: who did that */

	/*
	 * In WATCHING, for a permit: nobody else is in the way, but contenders of this
	 * client that are about to be deleted.
	 */
	bool		own_ahead;

	/*
	 * In WATCHING: an upgrade that cannot succeed by waiting.  The exclusive
	 * contender named by blocker stands behind our shared one, waits for it,
	 * and is ahead of us.
	 */
	bool		deadlock;
} ZkContenderStatus;

typedef enum ZkSessionState
{
	ZK_SESSION_CLOSED,			/* none, and nobody asked for one */
	ZK_SESSION_CONNECTING,		/* the first connection is being made */
	ZK_SESSION_CONNECTED,
	ZK_SESSION_SUSPENDED		/* connection lost; may come back or expire */
} ZkSessionState;

typedef struct ZkSessionStatus
{
	ZkSessionState state;
	int64_t		session_id;		/* 0 when there is none */
	int			timeout_ms;		/* negotiated; 0 when there is none */
	char		server[80];		/* "host:port" in numbers; may be empty */
	ZkTime		state_since;	/* since when in this state */
	int64_t		sessions;		/* sessions this client has had */
	int64_t		reconnects;		/* connections lost and regained */
	int64_t		expiries;		/* sessions that have expired, or must have */

	bool		resolving;		/* the resolver has been asked for names */

	/*
	 * Why there is no connection.  A definite error (no server resolves, the
	 * peer is no ZooKeeper, no thread) is not worth waiting for; else it is
	 * the last hint, ZK_OK and an empty detail if there is none.  Cleared when
	 * connected.
	 */
	ZkError		error;
	bool		definite;
	char		detail[ZK_DETAIL_SIZE];
} ZkSessionStatus;

/*
 * One contender in a queue that was read, or one that was broken, or the first
 * holder of one of the locks in a tree.
 */
typedef struct ZkQueueMember
{
	char	   *name;
	ZkMode		mode;
	bool		granted;
	bool		own;			/* one of this client's contenders */
	bool		hidden;			/* no more than its name may be read */
	int64_t		sequence;
	int64_t		session_id;		/* ephemeralOwner; 0 for a persistent node */
	int64_t		czxid;
	int64_t		mzxid;
	int64_t		ctime_ms;		/* server's wall clock, since 1970 */
	char	   *data;			/* not NUL-terminated, untrusted; NULL if empty */
	int			data_len;

	/*
	 * In a tree only: the lock node, and the contenders below it.  Among waits:
	 * the lock node, of its first contender only.
	 */
	char	   *node;
	int			holders;
	int			waiters;
} ZkQueueMember;

typedef struct ZkQueueListing
{
	ZkError		error;			/* then count is 0 */
	char		detail[ZK_DETAIL_SIZE];
	int			count;			/* contenders, in queue order */
	int			ignored;		/* children that are no contenders */
	int			forbidden;		/* in a tree: znodes that may not be listed; the
								 * detail is the path of one, maybe cut short */
	ZkRecord	record;			/* if that was read; then count is 0 */
	int			waits;			/* among waits: so many members are such, and
								 * behind them are contenders */
	ZkQueueMember *members;
} ZkQueueListing;

/*
 * How servers are talked to.  TLS takes the first three, the names of files in PEM
 * format without a comma, and the passphrase of the key if that has one.  SASL takes the
 * mechanisms (as Cyrus SASL wants them, separated by blanks) and the service, and the
 * others as the mechanism does.  What is not given is NULL.  Not both: zk_tls_supported(),
 * zk_sasl_supported().
 */
typedef enum ZkTransportText
{
	ZK_TLS_CA,					/* certificates of those who sign servers' ones */
	ZK_TLS_CERT,				/* our certificate, and those of who signed it */
	ZK_TLS_KEY,					/* its key */
	ZK_TLS_PASSPHRASE,
	ZK_SASL_MECHANISM,
	ZK_SASL_SERVICE,
	ZK_SASL_HOST,				/* the server's name; NULL for its address */
	ZK_SASL_USER,
	ZK_SASL_REALM,
	ZK_SASL_PASSWORD
} ZkTransportText;

#define ZK_TRANSPORT_TEXTS	(ZK_SASL_PASSWORD + 1)

typedef struct ZkConfig
{
	const char *servers;		/* passed zk_servers_check() */
	int			session_timeout_ms; /* to ask for */
	ZkZnodeStyle style;
	int			loss_signal;	/* see zk_contender_rely_on(); 0 for none */

	/*
	 * Who the client is, "user:password" that passed zk_credential_check(), or
	 * NULL for anybody; the znode below which its user node is, when it is
	 * somebody; and the ACL of what it creates, which passed zk_acl_check(), or
	 * NULL for an open one.
	 */
	const char *credential;
	const char *root;
	const char *acl;

	/*
	 * How servers are talked to: see ZkTransportText; none for plain.  And, with
	 * TLS, is a server's certificate to be for the host by which servers has it?
	 * Only where zk_tls_verifies_hosts().
	 */
	const char *transport[ZK_TRANSPORT_TEXTS];
	bool		tls_verify_host;
} ZkConfig;

typedef struct ZkClient ZkClient;

/* in clock.c: now, on the clock that all ZkTime points are on.  Any thread. */
extern ZkTime zk_now(void);

/* in helper.c and mailbox.c: the client itself */

/*
 * Start a client: a helper thread with all signals blocked; no connection is
 * made before something is asked for.  The config is copied.  Returns NULL
 * when memory, a descriptor or the thread cannot be had, or when an earlier
 * client of this process was poisoned, with *error set and more about it in
 * detail (ZK_DETAIL_SIZE bytes), which may be empty.  Uses up to ZK_CLIENT_FDS
 * descriptors.
 */
#define ZK_CLIENT_FDS	4
extern ZkClient *zk_client_start(const ZkConfig *config, ZkError *error,
								 char *detail);

/*
 * End the client: close its ZooKeeper session, which deletes every contender of it, and
 * end its threads.  A quarter of a second is left before for records that were noted to
 * be written, for locks that were asked for with a lock delay to be released, for what
 * was sent to be answered, and for a session that is just beginning, so that it can be
 * closed.  The end of a job's run has as long as the session can last without an answer.
 *
 * Waits at most timeout_ms (0: not at all) and returns whether all is done; if not, the
 * threads finish by themselves and free the memory.  Either way the pointer is dead.
 * Safe to call from an exit callback that interrupted another of these functions: it
 * then gives up at once and leaves the session to expire.
 */
extern bool zk_client_stop(ZkClient *client, int timeout_ms);

/*
 * Likewise, as the process exits, and the threads with it: if the end of a job's run has
 * not been written yet, waits for that in addition, as long as the session can last
 * without an answer.  Or somebody else would run it again.
 */
extern bool zk_client_stop_at_exit(ZkClient *client, int timeout_ms);

/*
 * Wait, for at most timeout_ms, until no client that was stopped has a ZooKeeper session
 * left to close.  To be called as the process exits, when all were.
 */
extern void zk_clients_await_close(int timeout_ms);

/*
 * A descriptor that polls readable when any state that is read by
 * zk_contender_status(), zk_client_status() or zk_queue_take() may have
 * changed.  Call zk_client_clear_event() first and read the states after it;
 * in the other order a change could be missed.
 */
extern int	zk_client_event_fd(const ZkClient *client);
extern void zk_client_clear_event(ZkClient *client);

/*
 * Has whoever calls this interrupted another of these functions?  So may an exit
 * callback, which then must not call them.
 */
extern bool zk_client_interrupted(const ZkClient *client);

/* The state of the ZooKeeper session. */
extern void zk_client_status(ZkClient *client, ZkSessionStatus *status);

/*
 * Have a ZooKeeper session before something is asked for.  That is tried for at most
 * so long (timeout_ms), and no longer if there is a definite reason against it; this
 * does not wait for it.  Once it is there it is kept like one that was used.
 */
extern void zk_client_connect(ZkClient *client, int timeout_ms);

/*
 * Ask for a proof, now, of every held contender: proved_at of each moves to a
 * time after this call, or its state leaves ZK_HELD.
 */
extern void zk_client_renew(ZkClient *client);

/*
 * Take the oldest log line of the client and the library, at most size bytes
 * with the NUL; false if there is none.  *warning says whether it deserves a
 * WARNING or only a LOG entry; *repeats how often it came in a row, and
 * *dropped how many lines were lost before it for want of room.
 */
extern bool zk_client_log_line(ZkClient *client, char *line, size_t size,
							   bool *warning, int *repeats, int *dropped);

/* What contenders are to be. */
typedef struct ZkContenderWish
{
	ZkMode		mode;
	int			permits;		/* in ZK_PERMIT: of how many one is wanted; else 0 */
	const char *owner;			/* their data: at most 4 kB, copied; begins with
								 * ZK_OWNER_PREFIX */
	size_t		owner_len;

	/*
	 * They will not wait behind others: the backend is woken as soon as it is known
	 * that they would have to, not when it is known for whom.
	 */
	bool		no_wait;

	/* The znode below which the lock nodes lie; for the next two, or NULL. */
	const char *root;

	/*
	 * They read the record of their lock and write to it.  It is read before the
	 * contender is granted, and with it.
	 */
	bool		record;

	/*
	 * If not 0: a contender is granted only when so much time has passed since
	 * this client saw a holder of the lock gone that had not released it; and if
	 * it does not release the lock itself, others that were asked for with a delay
	 * will know.  Not in ZK_PERMIT.
	 */
	ZkTime		lock_delay;

	/* If not 0: a contender that has been held for so long is lost, and deleted. */
	ZkTime		max_hold;
} ZkContenderWish;

/*
 * Queue new contenders of at most ZK_MAX_GROUP lock nodes (absolute, checked by
 * zk_path_check(), below ZK_NODE_PATH_SIZE), no two of which are the same, at once:
 * one transaction creates all of them, so that of two groups one is ahead of the
 * other in all queues in which they meet.  Missing znodes on the way are created as
 * containers.  ids gets one for each.  Returns false when out of room or poisoned,
 * with *error set and nothing asked for.
 *
 * From then on somebody must end the life of each: zk_contender_release() and after
 * ZK_GONE zk_contender_abandon(), or zk_contender_abandon() alone, in any state.
 * The client goes on reconnecting and queueing anew as long as the contender is
 * wanted: how long to wait is for the caller to judge.  But one of several does not queue anew on its own, as it would lose the place that it has
 * before others: it fails with ZK_ERR_UNQUEUED or ZK_ERR_VANISHED.  Then all are to
 * be ended, and a new group can be asked for.
 *
 * A contender fails with ZK_ERR_KIND if one of another kind is ahead of it: a lock's
 * for a permit, a permit's for a lock, or one with another number of permits.
 */
extern bool zk_contenders_request(ZkClient *client, const ZkContenderWish *wish,
								  int count, const char *const *nodes,
								  ZkContenderId *ids, ZkError *error);

/*
 * The record of the lock as it was when the contender was granted.  False, and an
 * empty one, if that is not known.
 */
extern bool zk_contender_record(ZkClient *client, ZkContenderId id,
								ZkRecord *record);

/*
 * Note what is to be added to the record, in the transaction that deletes the
 * contender, or that puts a shared one in its place: positions and a run; the
 * client knows the release itself.  Takes the place of what was noted before.
 * Nothing is written for a contender that is not held when it is ended, nor for one
 * that was not asked for with a record.  Allocates nothing and cannot fail.
 */
extern void zk_contender_note(ZkClient *client, ZkContenderId id,
							  const ZkRecord *note);

/*
 * Make room for a shared contender in the place of a held exclusive one, so
 * that zk_contender_downgrade() cannot fail.  Returns 0 as above.
 */
extern ZkContenderId zk_contender_reserve(ZkClient *client,
										  ZkContenderId exclusive,
										  ZkError *error);

/*
 * Turn a held exclusive contender into the reserved shared one, without a
 * gap.  The shared one reads ZK_HELD (or ZK_LOST) from here on and inherits
 * the token; the exclusive one is abandoned and must not be named again.
 */
extern void zk_contender_downgrade(ZkClient *client, ZkContenderId exclusive,
								   ZkContenderId shared);

/*
 * Delete a contender.  Its state reads ZK_RELEASING from here on, or how it has
 * ended (ZK_LOST, ZK_FAILED), until it reads ZK_GONE (or ZK_FAILED when an ACL
 * forbids it).  Goes on over reconnects until certain.
 */
extern void zk_contender_release(ZkClient *client, ZkContenderId id);

/*
 * Give up a contender in whatever state it is.  The client deletes what there
 * is to delete, now or as soon as it can; the id is dead.  Allocates nothing,
 * cannot fail, and may be called after commit.
 */
extern void zk_contender_abandon(ZkClient *client, ZkContenderId id);

/*
 * The caller takes the lock of a contender that was granted, and relies on it:
 * should it be lost before it is released or abandoned, the loss signal is
 * sent to the thread that has started the client, at that moment.
 */
extern void zk_contender_rely_on(ZkClient *client, ZkContenderId id);

/*
 * Is a lock lost that is relied on?  Takes no lock, so that the handler of the
 * loss signal can ask; a signal that comes late may find that there is none any
 * more.
 */
extern bool zk_client_lost_any(const ZkClient *client);

/* Likewise, one that had been held for as long as it was to be at most? */
extern bool zk_client_overtime(const ZkClient *client);

/*
 * A commit that relies on the contenders is under way, or is over.  Meanwhile none is
 * given up because it has been held for long enough.  To be said before they are
 * looked at.
 */
extern void zk_client_commit(ZkClient *client, bool under_way);

/*
 * A number that changes when the owner of a held contender is asked for it
 * (ZkContenderStatus.revoked).  Takes no lock.
 */
extern int	zk_client_revocations(const ZkClient *client);

/* The state of a contender; ZK_NONE for an unknown or dead id. */
extern void zk_contender_status(ZkClient *client, ZkContenderId id,
								ZkContenderStatus *status);

/* Is the contender held, and its lease running?  The same, for less. */
extern bool zk_contender_lease_runs(ZkClient *client, ZkContenderId id);

/*
 * Read the queue below a lock node, as it is when this is called, or later.
 * zk_queue_take() returns NULL until the answer is there, then the listing, to be
 * freed by zk_queue_free().  One read at a time: a new request, or
 * zk_queue_cancel(), drops the one before.
 */
extern void zk_queue_request(ZkClient *client, const char *node);

/*
 * Likewise, but only what the server knows now, and of the contenders themselves
 * only the first one that is not this client's; of the others there are mode and
 * number.  So it takes two requests however long the queue is.
 */
extern void zk_head_request(ZkClient *client, const char *node);
extern ZkQueueListing *zk_queue_take(ZkClient *client);
extern void zk_queue_cancel(ZkClient *client);
extern void zk_queue_free(ZkQueueListing *listing);

/*
 * Has a member that was listed by name gone before more of it could be read?  One that
 * an ACL hides has not.  Any thread; sees the member only.
 */
extern bool zk_member_gone(const ZkQueueMember *member);

/*
 * Read the locks at and below a znode, not from before this call: one member for each that has a contender,
 * by path, which stands for its first holder.  A child of that name (except, or
 * NULL) of the znode itself is left out.  Counts as a read of a queue; if the
 * connection is lost it goes on where it was.  Longer data than ZK_TREE_MAX_DATA
 * is left out.  ZK_ERR_TREE when there is too much to be read.
 */
extern void zk_tree_request(ZkClient *client, const char *node,
							const char *except);

/*
 * Read the record of a lock node; root is ZkContenderWish.root.
 * Counts as a read of a queue; it is empty if there is none.
 */
extern void zk_record_request(ZkClient *client, const char *node,
							  const char *root);

/*
 * Publish what this client waits for: text, of less than ZK_WAIT_MAX_TEXT bytes,
 * copied, as data of an ephemeral child of a znode (parent), which is made if it
 * is missing.  The text is as waitgraph.c has it.  It takes the place of what was
 * published before.  If it cannot be published that is logged, and nothing else
 * comes of it.
 */
extern void zk_wait_publish(ZkClient *client, const char *parent,
							const char *text, size_t len);

/*
 * Have it deleted, if there is something; as with a contender that was abandoned,
 * the client sees to it.  Allocates nothing, and cannot fail.
 */
extern void zk_wait_withdraw(ZkClient *client);

/*
 * The zxid at which what is to be published was, 0 if it is not yet.  It changes
 * when that was done anew, as after the loss of a connection.
 */
extern int64_t zk_wait_zxid(ZkClient *client);

/*
 * Read the waits that are published below a znode, and the queues that they are
 * in.  The members are the waits first, each with the ZooKeeper session and the
 * mzxid of its znode; then the contenders of each lock, in queue order, the first
 * with the lock node.  Only of those that hold the lock (zk_queue_front) are owner
 * and data known.  Counts as a read of a queue; it begins when what this
 * client publishes is there.  ZK_ERR_TREE when there is too much to be read.
 */
extern void zk_waits_request(ZkClient *client, const char *parent);

/*
 * Break a contender of somebody else's (name, passed zk_contender_check()) below
 * a lock node: have its owner give it up, and delete it if that is not done in a
 * moment.  "who", one line of JSON, tells its owner on whose behalf.  Or, if only
 * asked to revoke, leave word for its owner that the lock is wanted back, as
 * Curator's Revoker does.
 *
 * The answer is taken with zk_queue_take(): the contender as it was found, or an
 * empty listing if there is none.  Counts as a read of a queue: it takes the
 * place of one that is under way.  If the connection is lost it is begun anew.
 * Given up with zk_queue_cancel(), it may yet be carried out.
 */
extern void zk_queue_break(ZkClient *client, const char *node,
						   const char *name, const char *who,
						   bool only_revoke);

/* in address.c, auth.c, queue.c, record.c, transport.c: pure, any thread, no client
 * needed */

/*
 * Was the library that is linked built with TLS, or SASL?
 */
extern bool zk_tls_supported(void);
extern bool zk_sasl_supported(void);

/*
 * With TLS, can it be seen to whom a server's certificate was given?  The library does not
 * look, so that takes our hands on its calls.
 */
extern bool zk_tls_verifies_hosts(void);

/*
 * Is this a list of servers, "host:port" or "[v6]:port" separated by commas?
 * False with the reason in detail (ZK_DETAIL_SIZE bytes).
 */
extern bool zk_servers_check(const char *servers, char *detail);

/*
 * Is this "user:password" for the scheme "digest"?  NULL if so, else what is
 * wrong, fit for a DETAIL, without quoting anything.
 */
extern const char *zk_credential_check(const char *credential, size_t len);

/*
 * Is this the description of an ACL, "open" or "creator", the latter maybe with
 * the identities of administrators, "scheme:id", separated by commas?  False
 * with the reason in detail (ZK_DETAIL_SIZE bytes), without quoting anything.
 */
extern bool zk_acl_check(const char *acl, char *detail);

/* Does such a description take a credential? */
extern bool zk_acl_wants_creator(const char *acl);

/*
 * Is this an absolute path that ZooKeeper accepts and that names no reserved
 * znode?  NULL if so, else what is wrong, fit for a DETAIL.
 */
extern const char *zk_path_check(const char *path, size_t len);

/* Is this the name of a contender, of any client that is known? */
extern bool zk_contender_check(const char *name);

/* The position of a cluster in a record, or NULL. */
extern const ZkPosition *zk_record_position(const ZkRecord *record,
											uint64_t system);

#endif							/* ZKCLIENT_H */
