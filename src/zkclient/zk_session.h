/*-------------------------------------------------------------------------
 *
 * zk_session.h
 *	  The lock client: start it, end it, and how its ZooKeeper session is.
 *
 * The lock client is plain C with threads of its own; PostgreSQL knows nothing
 * of threads.  All that passes between the two is declared here, and this file
 * includes neither world's headers.  The functions below are for the one thread
 * that started the client (in a backend: the main thread).  None of them calls
 * libzookeeper or waits for the network; each takes the mailbox's mutex for a
 * short copy.  Only zk_client_stop() waits, for as long as its caller allows.
 *
 * Words are those of src/README: a lock node is the parent znode of a queue,
 * a contender is an ephemeral sequential child of it, one request for the
 * lock.  Everything about znodes is the client's business: the backend side
 * names a lock node and gets back a state.
 *
 * IDENTIFICATION
 *	  src/zkclient/zk_session.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZK_SESSION_H
#define ZK_SESSION_H

#include "zk_types.h"

/* Requests to the ensemble on their way at a time. */
#define ZK_MAX_IN_FLIGHT	64

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
	 * the last hint, ZK_OK and an empty detail if there is none.  Cleared
	 * when connected.
	 */
	ZkError		error;
	bool		definite;
	char		detail[ZK_DETAIL_SIZE];
} ZkSessionStatus;

/*
 * How servers are talked to.  TLS takes the first three, the names of files in
 * PEM format without a comma, and the passphrase of the key if that has one.
 * SASL takes the mechanisms (as Cyrus SASL wants them, separated by blanks) and
 * the service, and the others as the mechanism does.  What is not given is
 * NULL.  Not both: zk_tls_supported(), zk_sasl_supported().
 */
typedef enum ZkTransportText
{
	ZK_TLS_CA,					/* certificates of those who sign servers'
								 * ones */
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
	 * Who the client is, "user:password" that passed zk_credential_check(),
	 * or NULL for anybody; the znode below which its user node is, when it is
	 * somebody; and the ACL of what it creates, which passed zk_acl_check(),
	 * or NULL for an open one.
	 */
	const char *credential;
	const char *root;
	const char *acl;

	/*
	 * How servers are talked to: see ZkTransportText; none for plain.  And,
	 * with TLS, is a server's certificate to be for the host by which servers
	 * has it? Only where zk_tls_verifies_hosts().
	 */
	const char *transport[ZK_TRANSPORT_TEXTS];
	bool		tls_verify_host;
} ZkConfig;

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
 * End the client: close its ZooKeeper session, which deletes every contender of
 * it, and end its threads.  A quarter of a second is left before for records
 * that were noted to be written, for locks that were asked for with a lock
 * delay to be released, for what was sent to be answered, and for a session
 * that is just beginning, so that it can be closed.  The end of a job's run has
 * as long as the session can last without an answer.
 *
 * Waits at most timeout_ms (0: not at all) and returns whether all is done; if
 * not, the threads finish by themselves and free the memory.  Either way the
 * pointer is dead.  Safe to call from an exit callback that interrupted another
 * of these functions: it then gives up at once and leaves the session to
 * expire.
 */
extern bool zk_client_stop(ZkClient *client, int timeout_ms);

/*
 * Likewise, as the process exits, and the threads with it: if the end of a
 * job's run has not been written yet, waits for that in addition, as long as
 * the session can last without an answer.  Or somebody else would run it again.
 */
extern bool zk_client_stop_at_exit(ZkClient *client, int timeout_ms);

/*
 * Wait, for at most timeout_ms, until no client that was stopped has a
 * ZooKeeper session left to close.  To be called as the process exits, when all
 * were.
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
 * Has whoever calls this interrupted another of these functions?  So may an
 * exit callback, which then must not call them.
 */
extern bool zk_client_interrupted(const ZkClient *client);

/* The state of the ZooKeeper session. */
extern void zk_client_status(ZkClient *client, ZkSessionStatus *status);

/*
 * Have a ZooKeeper session before something is asked for.  That is tried for at
 * most so long (timeout_ms), and no longer if there is a definite reason
 * against it; this does not wait for it.  Once it is there it is kept like one
 * that was used.
 */
extern void zk_client_connect(ZkClient *client, int timeout_ms);

/*
 * Take the oldest log line of the client and the library, at most size bytes
 * with the NUL; false if there is none.  *warning says whether it deserves a
 * WARNING or only a LOG entry; *repeats how often it came in a row, and
 * *dropped how many lines were lost before it for want of room.
 */
extern bool zk_client_log_line(ZkClient *client, char *line, size_t size,
							   bool *warning, int *repeats, int *dropped);

#endif							/* ZK_SESSION_H */
