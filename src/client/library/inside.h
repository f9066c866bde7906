/*-------------------------------------------------------------------------
 *
 * inside.h
 *	  What the files of this folder offer to each other.
 *
 * For the files beside this one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_INSIDE_H
#define ZKLOCK_INSIDE_H

#include "library.h"

/*
 * Declares a function that the linker's --wrap sends to us (library.mk): ours,
 * and the one that was called.
 */
#define WRAPPED(result, name, ...) \
	extern result __real_##name(__VA_ARGS__); \
	extern result __wrap_##name(__VA_ARGS__)

/* in internals.c: the library's private functions */
#ifdef ZKLOCK_STATIC_LIBRARY
extern void *zk_internals_io(zhandle_t *zh);
extern bool zk_internals_replace_completion_thread(void *(*start) (void *), zhandle_t *zh);
extern void zk_internals_complete(zhandle_t *zh);
extern bool zk_internals_flush(zhandle_t *zh);
extern int	zk_internals_wake_sender(zhandle_t *zh, int timeout);
#endif

/* in threads.c: the library's threads */
extern bool zk_threads_enter_init(void);
extern void zk_threads_leave_init(void);

/* in tls.c: the library's connection by way of TLS */
extern bool zk_tls_check(char *const *transport, char *detail);
extern void zk_tls_expect(ZkServers *servers);
extern int	zk_tls_pending(void);

/* in sasl.c: authentication with SASL */
#ifdef ZKLOCK_SASL
extern const sasl_callback_t *zk_sasl_begin(char *const *transport);
extern void zk_sasl_end(void);
#endif

/* in socket.c: its connection */
extern void zk_socket_prepare(bool may_send, int highest, bool several,
							  void (*on_end) (void));
extern void zk_socket_give_up(bool breaking);
extern void zk_socket_part(bool connected);
extern void zk_socket_parted(void);
extern bool zk_socket_given_up(void);
extern bool zk_socket_received(int fd, void *data, size_t size);
extern bool zk_socket_met_no_server(void);
extern void zk_socket_gather(void);
extern int	zk_socket_send_gathered(void);
extern void zk_socket_watch(int fd, int *interest, struct timeval *timeout);
extern int	zk_socket_process(zhandle_t *zh, int events,
							  int (*process) (zhandle_t *zh, int events));
extern void zk_socket_completing(bool completes);
extern void zk_socket_processed(zhandle_t *zh, int rc);
extern bool zk_socket_is_stuck(void);

/* in packets.c: what goes over it, with the library's archive only */
typedef enum ZkReceived
{
	ZK_RECEIVED_GREETING,		/* (a part of) the handshake */
	ZK_RECEIVED_PACKET,			/* (a part of) any other packet */
	ZK_REFUSED_GREETING,
	ZK_REFUSED_PACKET
} ZkReceived;

extern bool zk_packets_begin(int fd);
extern void zk_packets_end(int fd);
extern bool zk_packets_sending(int fd, const void *data, size_t size);
extern void zk_packets_sent(int fd, const void *data, size_t size);
extern ssize_t zk_packets_send(int fd, const void *data, size_t size, int flags,
							   bool keep);
extern int	zk_packets_kept(int fd);
extern int	zk_packets_flush(int fd);
extern ZkReceived zk_packets_received(int fd, void *data, size_t size,
									  char *why);

/* in log.c: what the library has to say */
extern void zk_log_callback(const char *line);
extern void zk_log_cause(ZkError error, const char *fmt,...)
			__attribute__((format(printf, 2, 3)));
extern void zk_log_given_up(const char *server, const char *why);
extern void zk_log_broken_off(bool broken);

#endif							/* ZKLOCK_INSIDE_H */
