/*-------------------------------------------------------------------------
 *
 * session.c
 *	  The lock client of this backend: start it, judge leases, translate its
 *	  errors, end it.
 *
 * A backend has at most one lock client, started by the first call that needs
 * one and kept until the backend exits or closes it.  Here a lock is only the
 * id of a contender; lock_table.c knows the rest.  Waiting is in
 * session_wait.c, what a contender says about us in self.c.
 *
 * At exit the helper is told to stop and has 500 ms (but see J3): it closes
 * the session, and the ensemble deletes the contenders.  Without an ensemble
 * the session expires.  After SIGKILL or SIGQUIT nothing runs, and locks last
 * until the session timeout.  A background worker without a SIGTERM handler of
 * its own runs exit callbacks from the signal handler: never inside the client,
 * where signals are blocked then (ZkConfig.handlers_exit).  With
 * zklock.release_at_exit = off, the client is left alone if locks are held that
 * were not released: the work of a client may go on for a moment when its
 * connection breaks, and the locks have to outlast that. (S394)
 *
 * D5. Nothing is opened in the postmaster, or before it is needed or, with
 * zklock.preconnect, expected.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "storage/fd.h"
#include "storage/ipc.h"
#include "utils/memutils.h"

#include "zklock.h"
#include "auth_settings.h"
#include "owner.h"
#include "secret_file.h"
#include "session.h"
#include "stats.h"
#include "tls_settings.h"

/*
 * How long the exit of a backend may wait for the end of its ZooKeeper session;
 * an open one blocks others until it expires.  The end of a job's run has
 * longer: see zk_client_stop_at_exit().
 */
#define EXIT_TIMEOUT_MS	500

/*
 * The same in a statement.  The wait cannot be cancelled, so it is shorter; the
 * client's threads finish the work afterwards.
 */
#define STOP_TIMEOUT_MS	20

/*
 * The client's threads interrupt this one by this signal when a lock is lost.
 * PostgreSQL uses no real-time signal, and blocks them where it blocks others.
 */
#define LOSS_SIGNAL			(SIGRTMIN + 6)

/* Settings; see zklock.c for what they mean. */
char	   *zklock_servers = NULL;
int			zklock_session_timeout = 10000; /* ms */
int			zklock_connect_timeout = 10000; /* ms */
int			zklock_znode_style = ZK_STYLE_CURATOR;

/* Handles the loss signal; set at module load, as it is in a file above. */
pqsigfunc	zklock_loss_handler = NULL;

/* The settings that the client, or the last one before it, was started with. */
static struct
{
	char	   *servers;		/* in TopMemoryContext; NULL before the first */
	int			session_timeout;
	int			znode_style;
	uint64		access;			/* zklock_auth_stamp(),
								 * zklock_transport_stamp() */
}			running;

/* Whether the exit of this process does not close the ZooKeeper session. */
static bool left_to_expire = false;

typedef struct ErrorMeaning
{
	int			sqlstate;
	const char *what;
	const char *hint;			/* may be NULL */
} ErrorMeaning;

/* For two errors: it is chance which of the library's complaints comes last. */
#define HINT_UNREACHABLE \
	"Check that \"zklock.servers\" is correct and that a majority of the ensemble is running. A server may require TLS, or its maxClientCnxns may have been reached."

static const ErrorMeaning error_meanings[] = {
	[ZK_OK] = {ERRCODE_SYSTEM_ERROR, "unknown reason", NULL},
	[ZK_ERR_UNRESOLVED] = {ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
		"could not resolve the name of any ZooKeeper server",
	"Check \"zklock.servers\"."},
	[ZK_ERR_UNREACHABLE] = {ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
		"could not connect to ZooKeeper",
	HINT_UNREACHABLE},
	[ZK_ERR_CLOSED] = {ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
		"could not connect to ZooKeeper",
	HINT_UNREACHABLE},
	[ZK_ERR_NOT_ZOOKEEPER] = {ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
		"server is not a ZooKeeper server",
	"Check that \"zklock.servers\" uses ZooKeeper's client port (2181 by default)."},
	[ZK_ERR_AUTH] = {ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
		"authentication with ZooKeeper failed",
	"Check the user and the password in \"zklock.auth_file\" or \"zklock.auth\"."},
	[ZK_ERR_NO_THREAD] = {ERRCODE_INSUFFICIENT_RESOURCES,
		"could not create a thread",
	"Each session that uses locks needs up to three threads; check the operating system's limits."},
	[ZK_ERR_NO_DESCRIPTOR] = {ERRCODE_INSUFFICIENT_RESOURCES,
		"could not open a file descriptor",
	"Check the operating system's limits."},
	[ZK_ERR_NO_MEMORY] = {ERRCODE_OUT_OF_MEMORY, "out of memory", NULL},
	[ZK_ERR_POISONED] = {ERRCODE_CONNECTION_FAILURE,
		"the ZooKeeper client library has failed in this session",
	"Start a new database session."},
	[ZK_ERR_LIMIT] = {ERRCODE_PROGRAM_LIMIT_EXCEEDED,
		"too many locks held in this session",
	"Release some locks. A session can hold at most 1024 locks, with 256 kB of paths."},
	[ZK_ERR_FORBIDDEN] = {ERRCODE_INSUFFICIENT_PRIVILEGE,
		"permission denied by a ZooKeeper ACL",
	"Change the ACL, or authenticate as a user that it admits (\"zklock.auth_file\")."},
	[ZK_ERR_REFUSED] = {ERRCODE_INSUFFICIENT_PRIVILEGE,
		"permission denied by a ZooKeeper ACL",
	"The ACL does not admit the configured user, or the password is wrong; ZooKeeper does not report which."},
	[ZK_ERR_ACL] = {ERRCODE_INVALID_PARAMETER_VALUE,
		"ZooKeeper rejected the ACL in \"zklock.acl\"",
	"Check \"zklock.acl\"."},
	[ZK_ERR_QUOTA] = {ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
		"ZooKeeper quota exceeded",
	"Raise the quota, or delete unneeded znodes."},
	[ZK_ERR_EPHEMERAL_PARENT] = {ERRCODE_WRONG_OBJECT_TYPE,
		"lock path leads to an ephemeral znode",
	"Use another path, or delete that znode."},
	[ZK_ERR_SEQUENCE] = {ERRCODE_PROGRAM_LIMIT_EXCEEDED,
		"lock node is running out of sequence numbers",
	"Delete the lock node while the lock is not in use."},
	[ZK_ERR_TIED] = {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
	"another contender has the same sequence number", NULL},
	[ZK_ERR_VANISHING] = {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
	"lock node or contender was deleted repeatedly by another client", NULL},
	[ZK_ERR_BROKEN] = {ERRCODE_OPERATOR_INTERVENTION,
	"contender was removed by zk_lock_break()", NULL},
	[ZK_ERR_TREE] = {ERRCODE_PROGRAM_LIMIT_EXCEEDED,
		"too many locks to list",
	"Pass a path with fewer locks below it."},
	[ZK_ERR_UNSTEADY] = {ERRCODE_CONNECTION_FAILURE,
	"connection to ZooKeeper was lost repeatedly", NULL},
	[ZK_ERR_UNQUEUED] = {ERRCODE_CONNECTION_FAILURE,
	"ZooKeeper session has ended", NULL},
	[ZK_ERR_VANISHED] = {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
	"contender of this lock, or of a lock acquired with it, was deleted repeatedly by another client", NULL},
	[ZK_ERR_KIND] = {ERRCODE_OBJECT_IN_USE,
		"path is in use as a different kind of lock",
	"Use another path, or the same capacity everywhere."},
	[ZK_ERR_TLS] = {ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
		"could not establish a TLS connection to ZooKeeper",
	"Check that \"zklock.servers\" uses the TLS ports, and that \"zklock.tls_ca_file\" contains the CA that issued the servers' certificates."},
	[ZK_ERR_TLS_FILES] = {ERRCODE_CONFIG_FILE_ERROR,
		"could not load TLS certificate or key file",
	"Check \"zklock.tls_ca_file\", \"zklock.tls_cert_file\", \"zklock.tls_key_file\" and \"zklock.tls_passphrase_file\"."},
	[ZK_ERR_CERTIFICATE] = {ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
		"ZooKeeper rejected the client certificate",
	"Check \"zklock.tls_cert_file\" and the servers' trust store."},
	[ZK_ERR_SASL] = {ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
	"SASL authentication with ZooKeeper failed", NULL},
	[ZK_ERR_UNCERTAIN] = {ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN,
		"connection to ZooKeeper was lost, and whether the record was written is unknown",
	"Try again: it may have been written, and can be written again."},
	[ZK_ERR_OTHER] = {ERRCODE_SYSTEM_ERROR, "unexpected response from ZooKeeper", NULL}
};

/* For ereport: the HINT for an error; detail is the client's own words. */
static int
errhint_meaning(ZkError error, const char *detail)
{
	const char *mechanism = zklock_transport_mechanism();
	const char *hint = error_meanings[error].hint;

	if (error == ZK_ERR_UNREACHABLE && zklock_transport_tls())
		return errhint("Check that \"zklock.servers\" is correct and that a majority of the ensemble is running. The ports must be the servers' TLS ports.");
	if (error == ZK_ERR_SASL)
	{
		if (pg_strcasecmp(mechanism, "GSSAPI") == 0)
			return errhint("Check that the server process has a Kerberos ticket.");
		if (strstr(detail, "no mechanism") == NULL)
			return errhint("Check \"zklock.sasl_user\" and \"zklock.sasl_password_file\".");
		return errhint("Install the Cyrus SASL plugin for \"%s\".", mechanism);
	}
	return hint != NULL ? errhint("%s", hint) : 0;
}

/* Returns true if the client certainly has a ZooKeeper session. */
static bool
has_session(ZkClient *client)
{
	ZkSessionStatus status;

	if (zk_client_interrupted(client))
		return false;
	zk_client_status(client, &status);
	return status.session_id != 0;
}

/*
 * Exit callback: closes the ZooKeeper session, so that others need not wait for
 * its expiry; or leaves it to that, if its locks are to outlast this process.
 * An on_proc_exit callback comes after the abort, so no waiter is let in
 * before.  Does nothing in a process that inherited it.
 */
static void
stop_at_exit(int code, Datum arg)
{
	ZkClient   *client = zklock_client;
	bool		to_close;

	(void) code;
	(void) arg;
	if (MyProcPid != (int) getpid())
		return;
	to_close = client != NULL && has_session(client);
	zklock_client = NULL;
	if (to_close && left_to_expire)
		ereport(LOG,
				(errmsg("session ended without releasing its locks"),
				 errdetail("They become free when its ZooKeeper session expires, because \"%s\" is off.",
						   "zklock.release_at_exit")));
	else if (client == NULL || zk_client_stop_at_exit(client, EXIT_TIMEOUT_MS))
		zk_clients_await_close(EXIT_TIMEOUT_MS);	/* those before it */
	else if (to_close)
		ereport(LOG,
				(errmsg("could not close the ZooKeeper session in time"),
				 errdetail("Its locks become free when it expires, if not before.")));
}

/*
 * At the exit of this process, leaves the ZooKeeper session to expire, as the
 * kill of the process would.  For another exit callback; cannot fail.
 */
void
zklock_session_leave(void)
{
	left_to_expire = true;
}

/* Counts what has happened to this backend's ZooKeeper sessions. */
void
zklock_session_count(void)
{
	ZkSessionStatus status;

	if (zklock_client == NULL)
		return;
	zk_client_status(zklock_client, &status);
	zklock_stats_session(&status);
}

/*
 * Exit callback: counts for the last time, while shared memory is ours, also an
 * acquire call that ends with its process (57P01).
 */
static void
count_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	zklock_stats_end(STAT_CANCELS);
	if (zklock_client != NULL && !zk_client_interrupted(zklock_client))
		zklock_session_count();
}

/* Returns true if the settings differ from those the client runs with. */
static bool
settings_changed(void)
{
	return strcmp(running.servers, zklock_servers) != 0 ||
		running.session_timeout != zklock_session_timeout ||
		running.znode_style != zklock_znode_style ||
		running.access != zklock_transport_stamp(zklock_auth_stamp());
}

/* Counts the client's descriptors against the backend's.  Throws 53000. */
static void
acquire_descriptors(void)
{
	for (int i = 0; i < ZK_CLIENT_FDS; i++)
	{
		if (AcquireExternalFD())
			continue;
		while (--i >= 0)
			ReleaseExternalFD();
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not start the ZooKeeper client"),
				 errdetail("There are too many open files in this backend."),
				 errhint("Raise the server's \"max_files_per_process\" and/or \"ulimit -n\" limits.")));
	}
}

static void
release_descriptors(void)
{
	for (int i = 0; i < ZK_CLIENT_FDS; i++)
		ReleaseExternalFD();
}

/* Wipes and frees the secrets of a config. */
static void
forget_secrets(ZkConfig *config)
{
	zklock_wipe(unconstify(char *, config->credential));
	zklock_transport_wipe(config->transport);
}

/* Fills in secrets, and acquires descriptors; then forget_secrets() is due. */
static void
gather_secrets(ZkConfig *config)
{
	config->credential = NULL;
	memset(config->transport, 0, sizeof(config->transport));
	PG_TRY();
	{
		zklock_transport_config(config);
		config->credential = zklock_credential();
		acquire_descriptors();
	}
	PG_CATCH();
	{
		forget_secrets(config);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * Starts a client with the current settings.  Throws 53000 if the operating
 * system lacks resources, 08006 if an earlier client failed for good.
 */
static void
start_client(void)
{
	static bool callbacks_registered = false;
	ZkConfig	config;
	ZkError		error;
	char		detail[ZK_DETAIL_SIZE];

	if (!callbacks_registered)
	{
		on_proc_exit(stop_at_exit, 0);
		on_shmem_exit(count_at_exit, 0);
		pqsignal(LOSS_SIGNAL, zklock_loss_handler);
		callbacks_registered = true;
	}

	if (running.servers != NULL)
		pfree(running.servers);
	running.servers = NULL;
	running.servers = MemoryContextStrdup(TopMemoryContext, zklock_servers);
	running.session_timeout = zklock_session_timeout;
	running.znode_style = zklock_znode_style;
	running.access = zklock_transport_stamp(zklock_auth_stamp());
	gather_secrets(&config);
	zklock_forget_host();

	config.servers = running.servers;
	config.session_timeout_ms = running.session_timeout;
	config.style = (ZkZnodeStyle) running.znode_style;
	config.loss_signal = LOSS_SIGNAL;
	config.handlers_exit = MyBackendType == B_BG_WORKER;
	config.root = zklock_root;
	config.acl = zklock_acl;
	zklock_client = zk_client_start(&config, &error, detail);
	forget_secrets(&config);
	zklock_stats_session(NULL);
	if (zklock_client != NULL)
		return;

	release_descriptors();
	ereport(ERROR,
			(errcode(error_meanings[error].sqlstate),
			 errmsg("could not start the ZooKeeper client: %s",
					error_meanings[error].what),
			 detail[0] != '\0' ? errdetail_internal("%s", detail) : 0,
			 errhint_meaning(error, detail)));
}

/*
 * Makes sure that a client runs, which connects when needed.  If the caller has
 * no contenders (idle), replaces a client whose settings have changed; else it
 * stays, as the locks belong to its ZooKeeper session.  Throws 55000 without
 * zklock.servers.
 */
void
zklock_session_open(bool idle)
{
	if (zklock_client != NULL)
	{
		zklock_drain_log();
		if (!idle || !settings_changed())
			return;
		zklock_session_stop();
	}
	if (zklock_servers[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no ZooKeeper servers are configured"),
				 errhint("Set \"zklock.servers\" to the ensemble's servers, as in \"host1:2181,host2:2181,host3:2181\".")));
	start_client();
}

/*
 * Ends the client with all its contenders, whose ids are dead then.  Waits only
 * for a moment; the client's threads finish the work.
 */
void
zklock_session_stop(void)
{
	ZkClient   *client = zklock_client;

	if (client == NULL)
		return;
	zklock_session_count();
	zklock_client = NULL;
	zklock_session_wait_over();
	(void) zk_client_stop(client, STOP_TIMEOUT_MS);
	release_descriptors();
}

/* Begins to watch the connection for one call. */
void
zklock_link_begin(Link *link)
{
	memset(link, 0, sizeof(*link));
	zk_client_status(zklock_client, &link->status);
	link->connections = link->status.sessions + link->status.reconnects;
	zklock_link_look(link);
}

/* Looks at the connection.  One that came and went between two looks was up. */
void
zklock_link_look(Link *link)
{
	int64		connections;

	zk_client_status(zklock_client, &link->status);
	zklock_stats_session(&link->status);
	connections = link->status.sessions + link->status.reconnects;
	if (link->status.state == ZK_SESSION_CONNECTED)
	{
		link->was_up = true;
		link->down_since = 0;
	}
	else if (connections != link->connections)
	{
		link->was_up = true;
		link->down_since = zk_now();
	}
	else if (link->down_since == 0)
		link->down_since = zk_now();
	link->connections = connections;
}

/*
 * Returns until when a call should wait with the connection as it is: forever
 * with one; for zklock.connect_timeout without, or for the ZooKeeper session's
 * timeout if that is longer and there was one before; not at all for a definite
 * reason.
 */
ZkTime
zklock_link_deadline(const Link *link)
{
	int			timeout = zklock_connect_timeout;

	if (link->down_since == 0)
		return ZKLOCK_FOREVER;
	if (link->status.definite)
		return link->down_since;
	if (link->was_up)
		timeout = Max(timeout, running.session_timeout);
	return link->down_since + ZK_MS(timeout);
}

/* Returns why there is no connection, if nothing else is known; palloc'd. */
static char *
describe_silence(const Link *link)
{
	if (zk_now() - link->down_since < ZK_MS(zklock_connect_timeout))
		return pstrdup("No server had responded when the time for the call was over.");
	return psprintf("No server responded within %d ms (\"zklock.connect_timeout\").",
					zklock_connect_timeout);
}

/*
 * Reports what could not be done for lack of an answer: a format for the path,
 * as in "could not acquire lock \"%s\"".  Throws 08001 if there was no
 * connection during this call, 08006 if there was, or a definite reason (28000,
 * 53000, ...).
 */
void
zklock_link_report(const Link *link, const char *what, const char *path)
{
	const ZkSessionStatus *status = &link->status;
	const char *detail = status->detail;

	if (link->down_since != 0 && status->error != ZK_OK &&
		!(link->was_up && (status->error == ZK_ERR_UNREACHABLE ||
						   status->error == ZK_ERR_CLOSED ||
						   status->error == ZK_ERR_TLS)))
		zklock_report_error(status->error, detail, what, path);
	if (!link->was_up)
		zklock_report_error(ZK_ERR_UNREACHABLE,
							detail[0] != '\0' ? detail : describe_silence(link),
							what, path);

	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 link->down_since != 0 ?
			 errmsg("%s: connection to ZooKeeper was lost", psprintf(what, path)) :
			 errmsg("%s: timed out waiting for ZooKeeper", psprintf(what, path)),
			 detail[0] != '\0' ? errdetail_internal("%s", detail) : 0));
}

/*
 * Reports an error of the lock client, with its SQLSTATE: what, as for
 * zklock_link_report(), the lock path, and the client's own words.
 */
void
zklock_report_error(ZkError error, const char *detail, const char *what,
					const char *path)
{
	const ErrorMeaning *meaning;

	if ((size_t) error >= lengthof(error_meanings))
		error = ZK_ERR_OTHER;
	meaning = &error_meanings[error];
	ereport(ERROR,
			(errcode(meaning->sqlstate),
			 errmsg("%s: %s", psprintf(what, path), meaning->what),
			 detail[0] != '\0' ? errdetail_internal("%s", detail) : 0,
			 errhint_meaning(error, detail)));
}

/*
 * Judges by the local clock whether a granted contender is still held, as a
 * process that was stopped must not trust what it knew before (S5).  Fills
 * *status, which says why it was lost.
 */
HoldState
zklock_lease_judge(ZkContenderId id, ZkContenderStatus *status)
{
	ZkTime		now;

	zk_contender_status(zklock_client, id, status);
	/* Read the clock last, so that a pause before counts. */
	now = zk_now();

	if (status->state == ZK_HELD)
	{
		if (now < status->lease_end)
			return HOLD_PROVED;
		if (now < status->presumed_lost)
			return HOLD_UNPROVED;
		status->state = ZK_LOST;
		status->loss = ZK_LOST_LEASE;
	}
	else if (status->state != ZK_LOST)
		status->loss = ZK_LOST_CONTENDER;
	return HOLD_LOST;
}

/*
 * Waits for a proof that a granted contender is still held, requested at
 * "asked" or later; until the deadline (HOLD_UNPROVED), or until it must be
 * presumed lost. path is for messages.
 */
HoldState
zklock_lease_prove(ZkContenderId id, ZkTime asked, ZkTime deadline,
				   const char *path, ZkContenderStatus *status)
{
	HoldState	state;

	for (;;)
	{
		state = zklock_lease_judge(id, status);
		if (state == HOLD_LOST ||
			(state == HOLD_PROVED && status->proved_at >= asked))
			return state;
		if (zk_now() >= deadline)
			return HOLD_UNPROVED;
		zklock_session_wait_for(WAIT_FOR_PROOF,
								Min(deadline, status->presumed_lost),
								"while verifying lock \"%s\"", path);
	}
}
