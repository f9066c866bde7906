/*-------------------------------------------------------------------------
 *
 * library.h
 *	  libzookeeper as the lock client uses it.
 *
 * For the files of client/, and those beside this one.  All state is the
 * process's: it has one handle at a time (zk_client_claim()).
 *
 * Only the functions of the library that test/check-symbols lists are called:
 * no chroot, no synchronous call, and no removal of watches (ZOOKEEPER-2320).
 * It gets an odd count of numeric addresses (address.c), with resolution
 * switched off, as it would resolve names on every turn of its loop
 * (ZOOKEEPER-1998).  No more than 64 requests are on their way, and a multi-op
 * is sent only when the library believes in its connection (request.c).
 * Watches of waits that are over stay until what they watch is gone;
 * connection.c opens another handle before that is too much for a server.
 * What it must not do to the process is in guards.c (assertions, descriptors),
 * threads.c (stacks and threads), packets.c and reply.c (replies).
 *
 * N3. libzookeeper_mt 3.8 and 3.9 have the same interface.  Where the library
 * is linked statically, zklock also uses private functions of it (internals.c)
 * and stands between it and the functions that it calls (threads.c, socket.c,
 * tls.c).  src/library.mk asks the archive and the headers for their versions:
 * with any other, or two that differ, the build warns, and zklock uses the
 * library as any program does, with the threads that its makers meant it to
 * have and only by its interface.  ZKLOCK_STATIC_LIBRARY, which is defined
 * otherwise, is the one gate for all of that; test/check-symbols lists the
 * functions and checks that there is no other way to them.  A shared library
 * is always used so, of whatever version.  What is missing then: a failed
 * check or a malformed reply ends the server, programs inherit descriptors,
 * each answer takes one more change of threads, a silent server keeps its
 * connection until leases have expired (server_timeout.c), a handle that is
 * replaced may end its session (L4), and what TLS needs (tls.c).
 * "test/run shared" runs a build of that kind.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LIBRARY_H
#define ZKLOCK_LIBRARY_H

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
#include "zk_session.h"

/* How servers are talked to.  Constant. */
typedef struct ZkTransport
{
	char	   *texts[ZK_TRANSPORT_TEXTS];	/* as in ZkConfig, malloc'd */
	bool		verify_host;
	bool		counted;		/* among those that keep exit() short */
} ZkTransport;

/* What a handle is to be. */
typedef struct ZkHandleWish
{
	watcher_fn	watcher;		/* for the events of its session */
	int			session_timeout_ms; /* to ask for */
	const clientid_t *session;	/* the one to go on with; NULL for a new one */
	void	   *context;		/* zoo_get_context() */
	void		(*on_end) (void);	/* zk_transport_look() may have something
									 * to say.  I/O thread, without any lock. */
} ZkHandleWish;

/* Whether a handle has come to an end of which the library gives no event. */
typedef enum ZkHandleEnd
{
	ZK_HANDLE_WORKS,
	ZK_HANDLE_USELESS,			/* another one would meet the same */
	ZK_HANDLE_REFUSED			/* and so would the session: not authenticated */
} ZkHandleEnd;

#define ZK_NOT_ZOOKEEPER \
	"The server's response is not that of a ZooKeeper server."

/* in transport.c: plain, with TLS, or with SASL */
extern bool zk_transport_init(ZkTransport *transport, const ZkConfig *config);
extern void zk_transport_free(ZkTransport *transport);
extern bool zk_transport_check(const ZkTransport *transport, ZkError *error,
							   char *detail);
extern zhandle_t *zk_transport_open(const ZkTransport *transport, ZkServers *servers,
									const ZkHandleWish *wish, ZkError *error,
									char *detail);
extern void zk_transport_close(const ZkTransport *transport, zhandle_t *zh,
							   bool keep_session);
extern ZkHandleEnd zk_transport_look(const ZkTransport *transport, zhandle_t *zh,
									 bool has_session, ZkError *error, char *detail);

/* in internals.c */
extern bool zk_transport_connecting(int state);

/* in socket.c: its connection */
extern void zk_socket_belongs_to(zhandle_t *zh);
extern void zk_socket_send(void);
extern bool zk_socket_is_direct(void);
extern bool zk_socket_peer(char *server, size_t size);
extern ZkTime zk_socket_connecting_since(ZkTime disconnected_at);
extern bool zk_socket_break_connection(ZkTime begun);
extern bool zk_socket_hears_out(void);
extern bool zk_socket_is_open(void);

/* in threads.c: threads */
extern int	zk_thread_create(pthread_t *thread, void *(*start) (void *),
							 void *arg);

/* in guards.c: what the library must not do to its process */
extern atomic_bool zk_poisoned;
extern void zk_guard_backend(int event_fd, int signal_number);
extern void zk_guard_forget_event_fd(int fd);
extern void zk_signal_loss(void);
extern void zk_guarded(void (*act) (void *arg), void *arg);

/* in log.c: what the library and the lock client have to say */
extern void zk_log(bool warning, const char *fmt,...)
			__attribute__((format(printf, 2, 3)));
extern bool zk_log_take(char *line, size_t size, bool *warning, int *repeats,
						int *dropped);
extern ZkError zk_log_last_error(char *detail);
extern void zk_log_clear_error(void);

#endif							/* ZKLOCK_LIBRARY_H */
