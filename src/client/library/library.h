/*-------------------------------------------------------------------------
 *
 * library.h
 *	  libzookeeper as the lock client uses it, and what must not happen to the process.
 *
 * For the files of client/, and those beside this one.  All of it is of the process: it
 * has one handle at a time (zk_client_claim()).
 *
 * IDENTIFICATION
 *	  src/client/library/library.h
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
	void		(*on_end) (void);	/* zk_transport_look() may have something to
									 * say.  I/O thread, without any lock. */
} ZkHandleWish;

/* Has a handle come to an end of which the library gives no event? */
typedef enum ZkHandleEnd
{
	ZK_HANDLE_WORKS,
	ZK_HANDLE_USELESS,			/* another one would meet the same */
	ZK_HANDLE_REFUSED			/* and so would the session: not authenticated */
} ZkHandleEnd;

#define ZK_NOT_ZOOKEEPER \
	"The server does not answer as a ZooKeeper server does."

/* in transport.c: plain, with TLS, or with SASL */
extern bool zk_transport_init(ZkTransport *transport, const ZkConfig *config);
extern void zk_transport_free(ZkTransport *transport);
extern bool zk_transport_check(const ZkTransport *transport, ZkError *error,
							   char *detail);
extern zhandle_t *zk_transport_open(const ZkTransport *transport, ZkServers *servers,
									const ZkHandleWish *wish, ZkError *error,
									char *detail);
extern void zk_transport_close(const ZkTransport *transport, zhandle_t *zh);
extern bool zk_transport_connecting(int state);
extern ZkHandleEnd zk_transport_look(const ZkTransport *transport, zhandle_t *zh,
									 bool has_session, ZkError *error, char *detail);

/* in socket.c: its connection */
extern void zk_socket_belongs_to(zhandle_t *zh);
extern void zk_socket_send(void);
extern bool zk_socket_peer(char *server, size_t size);
extern ZkTime zk_socket_connecting_since(ZkTime disconnected_at);
extern bool zk_socket_break_connection(ZkTime begun);
extern bool zk_socket_hears_out(void);
extern bool zk_socket_is_open(void);

/* in threads.c: threads */
extern bool zk_threads_probe(void);
extern int	zk_thread_create(pthread_t *thread, void *(*start) (void *),
							 void *arg);

/* in guards.c: what the library must not do to its process */
extern atomic_bool zk_poisoned;
extern void zk_guard_backend(int event_fd, int signal_number);
extern void zk_guard_forget_event_fd(int fd);
extern void zk_signal_loss(void);

/* in log.c: what the library and the lock client have to say */
extern void zk_log(bool warning, const char *fmt,...)
			__attribute__((format(printf, 2, 3)));
extern bool zk_log_take(char *line, size_t size, bool *warning, int *repeats,
						int *dropped);
extern ZkError zk_log_last_error(char *detail);
extern void zk_log_clear_error(void);

#endif							/* ZKLOCK_LIBRARY_H */
