/*-------------------------------------------------------------------------
 *
 * zk_session.h
 *	  The lock client: its start, its end, and the state of its session.
 *
 * The lock client is plain C with threads of its own, which PostgreSQL lacks.
 * The headers in this folder are the interface between the two, and include
 * headers of neither.  Unless a comment says otherwise, only the thread that
 * started the client (in a backend: the main thread) may call the functions.
 * None waits for the network or for another thread; each takes the mailbox's
 * mutex for a short copy, and those that ask for something may send it, if that
 * can be done without waiting.  Only zk_client_stop() waits, as long as its
 * caller allows.
 *
 * src/README defines the terms.  Only the client handles znodes: the backend
 * names a lock node and gets back a state.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZK_SESSION_H
#define ZK_SESSION_H

#include "zk_types.h"

/* Requests to the ensemble that may be pending. */
#define ZK_MAX_IN_FLIGHT	64

typedef enum ZkSessionState
{
	ZK_SESSION_CLOSED,			/* none, and none is requested */
	ZK_SESSION_CONNECTING,		/* first connection under way */
	ZK_SESSION_CONNECTED,
	ZK_SESSION_SUSPENDED		/* connection lost; may return or expire */
} ZkSessionState;

typedef struct ZkSessionStatus
{
	ZkSessionState state;
	int64_t		session_id;		/* 0 when there is none */
	int			timeout_ms;		/* negotiated; 0 when there is none */
	char		server[80];		/* "host:port" in numbers; may be empty */
	ZkTime		state_since;	/* start of this state */
	int64_t		sessions;		/* sessions of this client */
	int64_t		reconnects;		/* connections regained */
	int64_t		expiries;		/* sessions expired, or presumed to be */

	bool		resolving;		/* the resolver is at work */

	/*
	 * Why there is no connection.  A definite error (no server resolves, the
	 * peer is not ZooKeeper, no thread) is not worth waiting for; else it is
	 * the last hint, ZK_OK and an empty detail if there is none.  Cleared
	 * when connected.
	 */
	ZkError		error;
	bool		definite;
	char		detail[ZK_DETAIL_SIZE];
} ZkSessionStatus;

/*
 * Settings of the connection.  TLS uses the first three, names of PEM files
 * without a comma, and the key's passphrase if it has one.  SASL uses the
 * mechanisms (separated by blanks, as for Cyrus SASL), the service, and the
 * others as the mechanism requires.  Values not given are NULL. TLS and SASL
 * exclude each other: zk_tls_supported(), zk_sasl_supported().
 */
typedef enum ZkTransportText
{
	ZK_TLS_CA,					/* certificate authorities of the servers */
	ZK_TLS_CERT,				/* our certificate and its chain */
	ZK_TLS_KEY,					/* its key */
	ZK_TLS_PASSPHRASE,
	ZK_SASL_MECHANISM,
	ZK_SASL_SERVICE,
	ZK_SASL_HOST,				/* the server's name; NULL for its address */
	ZK_SASL_USER,
	ZK_SASL_PASSWORD
} ZkTransportText;

#define ZK_TRANSPORT_TEXTS	(ZK_SASL_PASSWORD + 1)

typedef struct ZkConfig
{
	const char *servers;		/* passed zk_servers_check() */
	int			session_timeout_ms; /* to request */
	ZkZnodeStyle style;
	int			loss_signal;	/* see zk_contender_rely_on(); 0 for none */
	bool		handlers_exit;	/* a signal handler of this thread may run
								 * exit callbacks instead of returning */

	/*
	 * The identity, "user:password" that passed zk_credential_check(), or
	 * NULL for none; the znode above its user node, if there is an identity;
	 * and the ACL of new znodes, which passed zk_acl_check(), or NULL for an
	 * open one.
	 */
	const char *credential;
	const char *root;
	const char *acl;

	/*
	 * See ZkTransportText; all NULL for a plain connection.  With TLS,
	 * tls_verify_host rejects a server's certificate that is not for the host
	 * in servers; only if zk_tls_verifies_hosts().
	 */
	const char *transport[ZK_TRANSPORT_TEXTS];
	bool		tls_verify_host;
} ZkConfig;

/*
 * Starts a client: a helper thread with all signals blocked.  It connects only
 * when something is requested.  The config is copied.  Returns NULL when
 * memory, a descriptor or a thread is not available, or when an earlier client
 * of this process was poisoned, with *error set and more about it in detail
 * (ZK_DETAIL_SIZE bytes), which may be empty.  Uses up to ZK_CLIENT_FDS
 * descriptors.
 */
#define ZK_CLIENT_FDS	5
extern ZkClient *zk_client_start(const ZkConfig *config, ZkError *error,
								 char *detail);

/*
 * Ends the client: closes its ZooKeeper session, which deletes all its
 * contenders, and ends its threads.  First it spends up to a quarter of a
 * second on noted records, on releases of locks with a lock delay, on pending
 * requests, and on a session that is just beginning, so that it can be closed.
 * The end of a job's run gets as long as the session can last without an
 * answer.
 *
 * Waits at most timeout_ms (0: not at all) and returns true if all is done; if
 * not, the threads finish by themselves and free the memory.  Either way the
 * pointer is dead.  Safe in an exit callback that interrupted another of these
 * functions: it then gives up immediately and leaves the session to expire.
 */
extern bool zk_client_stop(ZkClient *client, int timeout_ms);

/*
 * The same when the process, and with it the threads, exits.  If the end of a
 * job's run has not been written yet, also waits for that, as long as the
 * session can last without an answer; otherwise another session would repeat
 * the run.
 */
extern bool zk_client_stop_at_exit(ZkClient *client, int timeout_ms);

/*
 * Waits, at most timeout_ms, until no stopped client has a ZooKeeper session
 * left to close.  For the exit of the process, after all clients were stopped.
 */
extern void zk_clients_await_close(int timeout_ms);

/*
 * A descriptor that polls readable when any state may have changed that
 * zk_contender_status(), zk_client_status() or zk_queue_take() reads.  Call
 * zk_client_clear_event() first and read the states after it; in the other
 * order a change could be missed.
 */
extern int	zk_client_event_fd(const ZkClient *client);
extern void zk_client_clear_event(ZkClient *client);

/*
 * Returns true if the caller, an exit callback, interrupted another of these
 * functions.  Then it must not call them.
 */
extern bool zk_client_interrupted(const ZkClient *client);

/* The state of the ZooKeeper session. */
extern void zk_client_status(ZkClient *client, ZkSessionStatus *status);

/*
 * Opens a ZooKeeper session before anything is requested.  Tries for at most
 * timeout_ms, and stops at a definite error; does not wait for the session.
 * The session is kept like one that was used.
 */
extern void zk_client_connect(ZkClient *client, int timeout_ms);

/*
 * Takes the oldest log line of the client and the library, at most size bytes
 * with the NUL; returns false if there is none.  *warning is true for a
 * WARNING, false for a LOG entry; *repeats counts its repetitions in a row,
 * and *dropped the lines lost before it because the buffer was full.
 */
extern bool zk_client_log_line(ZkClient *client, char *line, size_t size,
							   bool *warning, int *repeats, int *dropped);

#endif							/* ZK_SESSION_H */
