/*-------------------------------------------------------------------------
 *
 * transport.c
 *	  How servers are talked to: plain, with TLS, or with SASL.
 *
 * The library speaks TLS and SASL if it was built with them (src/library.mk
 * asks nm, and defines ZKLOCK_TLS and ZKLOCK_SASL), but not both at once.
 *
 *    backend   zklock.tls_*, zklock.sasl_*
 *              tls_settings.c: what fits together, and what this library can do
 *              secret_file.c: who may read the files
 *    ~~~~~~~~~~~~~~~~~~~~~~~~~~~ ZkConfig.transport: texts
 *    helper    transport.c: zookeeper_init2 / _init_ssl / _init_sasl
 *    I/O       tls.c: SSL_connect, SSL_read, ...
 *              sasl.c: user, password, log
 *
 * The library asks for each address again when it opens a handle, and whenever
 * it connects, and then the kernel is asked for all network interfaces first.
 * Where it is linked statically, the linker's --wrap sends its getaddrinfo()
 * to us, which recognizes a number.
 *
 * Of the library's TLS, besides the rules:
 *
 * - Files that cannot be used make the I/O thread try again at once, for ever.
 *	 So they are tried here first, and a handle that comes to that is given up.
 * - The names of the files and the passphrase are one text, separated by
 *	 commas, and without a passphrase a terminal is asked for one.
 * - It does not say why something failed; tls.c finds out.
 * - zookeeper_init_ssl() takes no function for its log, which would be the
 *	 server's standard error.  So it has a stream of ours (catch_log).
 *
 * With SASL the library gives no event when servers refuse it: its I/O thread
 * just ends.
 *
 * C5. The handshake is a loop of the library's, which does not end when the
 * handle is to be closed.  server_timeout.c breaks the connection in time, as
 * one without TLS; before a handle is closed, the connection is broken, and the
 * wait for its socket fails from then on (select, tls.c).  So the end of a
 * session waits for no server.
 *
 * C6. exit() has OpenSSL clean itself up, though threads may be inside it.  A
 * backend that ends waits half a second for its client's threads; if they have
 * not ended then, a function of ours that exit() calls before OpenSSL's ends
 * the process.
 *
 * C8. The library uses select(), for which a descriptor has to be below 1024.
 * If there is none up to 900 when a handle is opened, that is an error (53000);
 * when the library reconnects later, a socket above that is refused.
 *
 * C10. Secrets are read by the backend side, copied once, and wiped on both
 * sides: with the client, and when a handle is closed.  Copies of the library
 * and OpenSSL are not ours: zookeeper_init_ssl() leaks one, of some hundred
 * bytes with the passphrase, each time a handle is opened, which is once in ten
 * seconds at most.  It cuts its text up with strtok(), which would be the
 * backend's, too: with the archive it gets another one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE				/* fopencookie */
#endif

#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inside.h"
#include "zk_check.h"

/*
 * The highest descriptor that the library can use with TLS, and the highest
 * free one with which it is tried: others may be opened in between.
 */
#define MAX_DESCRIPTOR		(FD_SETSIZE - 1)
#define MAX_FREE_DESCRIPTOR	900

/* What stands for the passphrase of a key that has none. */
#define NO_PASSPHRASE		"none"

/* Clients of this process whose threads may use OpenSSL or Cyrus SASL. */
static atomic_int users;

bool
zk_tls_supported(void)
{
#ifdef ZKLOCK_TLS
	return true;
#else
	return false;
#endif
}

bool
zk_tls_verifies_hosts(void)
{
#ifdef ZKLOCK_STATIC_LIBRARY
	return true;
#else
	return false;
#endif
}

bool
zk_sasl_supported(void)
{
#ifdef ZKLOCK_SASL
	return true;
#else
	return false;
#endif
}

static bool
by_tls(const ZkTransport *transport)
{
	return transport->texts[ZK_TLS_CA] != NULL;
}

static bool
by_sasl(const ZkTransport *transport)
{
	return transport->texts[ZK_SASL_MECHANISM] != NULL;
}

/*
 * For on_exit(): if threads may be inside OpenSSL, or what Cyrus SASL has
 * loaded, end the process before these, registered earlier, clean themselves
 * up.
 */
static void
end_at_once(int status, void *arg)
{
	(void) arg;
	if (atomic_load(&users) > 0)
		_exit(status);
}

/*
 * Copy the config's texts.  Returns false if out of memory.  Call
 * zk_transport_free() either way.  Backend thread.
 */
bool
zk_transport_init(ZkTransport *transport, const ZkConfig *config)
{
	static bool registered = false;

	for (int i = 0; i < ZK_TRANSPORT_TEXTS; i++)
	{
		if (config->transport[i] == NULL)
			continue;
		transport->texts[i] = strdup(config->transport[i]);
		if (transport->texts[i] == NULL)
			return false;
	}
	transport->verify_host = config->tls_verify_host;
	if (!by_tls(transport) && !by_sasl(transport))
		return true;
	transport->counted = true;
	atomic_fetch_add(&users, 1);
	if (!registered)
		registered = on_exit(end_at_once, NULL) == 0;
	return registered;
}

/* Wipe and free the texts.  No other thread uses them any more. */
void
zk_transport_free(ZkTransport *transport)
{
	for (int i = 0; i < ZK_TRANSPORT_TEXTS; i++)
	{
		if (transport->texts[i] == NULL)
			continue;
		explicit_bzero(transport->texts[i], strlen(transport->texts[i]));
		free(transport->texts[i]);
		transport->texts[i] = NULL;
	}
	if (transport->counted)
		atomic_fetch_sub(&users, 1);
	transport->counted = false;
}

/*
 * Returns true if there is a descriptor left that the library can use with TLS;
 * else false with the reason in detail.
 */
static bool
check_descriptors(char *detail)
{
	int			fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	if (fd <= MAX_FREE_DESCRIPTOR)
		return true;			/* without any the library will say so */
	snprintf(detail, ZK_DETAIL_SIZE,
			 "TLS requires file descriptors below %d, and the next one of this process is %d.",
			 FD_SETSIZE, fd);
	return false;
}

/*
 * Returns false with the reason if no handle can be opened.  Sends nothing.
 * Helper.
 */
bool
zk_transport_check(const ZkTransport *transport, ZkError *error, char *detail)
{
	detail[0] = '\0';
	if (!by_tls(transport))
		return true;
	*error = ZK_ERR_NO_DESCRIPTOR;
	if (!check_descriptors(detail))
		return false;
	*error = ZK_ERR_TLS_FILES;
	return zk_tls_check(transport->texts, detail);
}

#ifdef ZKLOCK_STATIC_LIBRARY

WRAPPED(int, getaddrinfo, const char *host, const char *service,
		const struct addrinfo *hints, struct addrinfo **found);

/*
 * As getaddrinfo(), with hints.  A number is an address, of whatever family
 * this machine has addresses.  Helper or I/O thread.
 */
int
__wrap_getaddrinfo(const char *host, const char *service,
				   const struct addrinfo *hints, struct addrinfo **found)
{
	struct addrinfo number = *hints;

	number.ai_flags = (hints->ai_flags & ~AI_ADDRCONFIG) | AI_NUMERICHOST;
	if (__real_getaddrinfo(host, service, &number, found) == 0)
		return 0;
	return __real_getaddrinfo(host, service, hints, found);
}

#endif							/* ZKLOCK_STATIC_LIBRARY */

#if !defined(ZKLOCK_TLS) || !defined(ZKLOCK_SASL)

/* Opens no handle: the library was built without that. */
static zhandle_t *
open_unsupported(const ZkTransport *transport, const char *addresses,
				 const ZkHandleWish *wish)
{
	(void) transport;
	(void) addresses;
	(void) wish;
	errno = ENOSYS;
	return NULL;
}

#endif

#ifdef ZKLOCK_TLS

/* The library writes to the stream of its log.  Any client thread. */
static ssize_t
write_log(void *cookie, const char *data, size_t size)
{
	char		line[512];

	(void) cookie;
	snprintf(line, sizeof(line), "%.*s",
			 (int) strnlen(data, size) - (size > 0 && data[size - 1] == '\n'), data);
	zk_log_callback(line);
	return (ssize_t) size;
}

/*
 * Take the library's log, of all handles that have no function for it.  Returns
 * false if out of memory.
 */
static bool
catch_log(void)
{
	static FILE *stream = NULL;
	cookie_io_functions_t functions = {.write = write_log};

	if (stream == NULL)
		stream = fopencookie(NULL, "w", functions);
	if (stream == NULL)
		return false;
	zoo_set_log_stream(stream);
	return true;
}

/* Open a handle with TLS. */
static zhandle_t *
open_tls(const ZkTransport *transport, const char *addresses,
		 const ZkHandleWish *wish)
{
	char	   *const *texts = transport->texts;
	const char *passphrase = texts[ZK_TLS_PASSPHRASE];
	char	   *files;
	zhandle_t  *zh;

	if (!catch_log() ||
		asprintf(&files, "%s,%s,%s,%s", texts[ZK_TLS_CA], texts[ZK_TLS_CERT],
				 texts[ZK_TLS_KEY],
				 passphrase != NULL ? passphrase : NO_PASSPHRASE) < 0)
	{
		errno = ENOMEM;
		return NULL;
	}
	zh = zookeeper_init_ssl(addresses, files, wish->watcher, wish->session_timeout_ms,
							wish->session, wish->context, ZOO_NO_LOG_CLIENTENV);
	explicit_bzero(files, strlen(files));
	free(files);
	return zh;
}

#else

#define open_tls	open_unsupported

#endif							/* ZKLOCK_TLS */

#ifdef ZKLOCK_SASL

/* Open a handle with SASL. */
static zhandle_t *
open_sasl(const ZkTransport *transport, const char *addresses,
		  const ZkHandleWish *wish)
{
	zoo_sasl_params_t params = {
		.service = transport->texts[ZK_SASL_SERVICE],
		.host = transport->texts[ZK_SASL_HOST],
		.mechlist = transport->texts[ZK_SASL_MECHANISM],
		.callbacks = zk_sasl_begin(transport->texts)
	};

	if (params.callbacks == NULL)
	{
		errno = ENOMEM;
		return NULL;
	}
	return zookeeper_init_sasl(addresses, wish->watcher, wish->session_timeout_ms,
							   wish->session, wish->context,
							   ZOO_NO_LOG_CLIENTENV, zk_log_callback, &params);
}

#else

#define open_sasl	open_unsupported

#endif							/* ZKLOCK_SASL */

/*
 * Open a handle to these servers, of which it takes what it needs for longer.
 * Returns NULL with the reason if that fails.  Helper, without engine_lock.
 */
zhandle_t *
zk_transport_open(const ZkTransport *transport, ZkServers *servers,
				  const ZkHandleWish *wish, ZkError *error, char *detail)
{
	const char *addresses = servers->addresses;
	zhandle_t  *zh;

	zk_socket_prepare(!by_tls(transport) && !by_sasl(transport),
					  by_tls(transport) ? MAX_DESCRIPTOR : INT_MAX, servers->count > 1,
					  wish->on_end);
	zk_tls_expect(transport->verify_host ? servers : NULL);
	if (!zk_threads_enter_init())
	{
		*error = ZK_ERR_NO_THREAD;
		snprintf(detail, ZK_DETAIL_SIZE, "Could not create a thread.");
		return NULL;
	}
	if (by_tls(transport))
		zh = open_tls(transport, addresses, wish);
	else if (by_sasl(transport))
		zh = open_sasl(transport, addresses, wish);
	else
		zh = zookeeper_init2(addresses, wish->watcher, wish->session_timeout_ms,
							 wish->session, wish->context, ZOO_NO_LOG_CLIENTENV,
							 zk_log_callback);
	zk_threads_leave_init();
	if (zh != NULL)
	{
		zoo_set_servers_resolution_delay(zh, -1);
		return zh;
	}
	*error = ZK_ERR_UNREACHABLE;
	snprintf(detail, ZK_DETAIL_SIZE,
			 "Could not set up the ZooKeeper client library: %m.");
#ifdef ZKLOCK_SASL
	zk_sasl_end();
#endif
	return NULL;
}

/*
 * Close a handle, without waiting for a handshake that may never end.  If it is
 * connected the ensemble is told that the ZooKeeper session ends.  With
 * keep_session it is not: the connection is broken first, and no other one is
 * made.  Helper, without engine_lock.
 */
void
zk_transport_close(const ZkTransport *transport, zhandle_t *zh, bool keep_session)
{
	if (keep_session || by_tls(transport))
		zk_socket_give_up(keep_session || zk_transport_connecting(zoo_state(zh)));
	zk_socket_part(!keep_session && zoo_state(zh) == ZOO_CONNECTED_STATE);
	zookeeper_close(zh);
	zk_socket_parted();
#ifdef ZKLOCK_SASL
	zk_sasl_end();
#endif
}

/*
 * See whether the handle has come to an end of which the library gives no
 * event; then *error and detail (ZK_DETAIL_SIZE bytes) say why.  Something
 * that is no server matters only until there was one (has_session).  Helper.
 */
ZkHandleEnd
zk_transport_look(const ZkTransport *transport, zhandle_t *zh, bool has_session,
				  ZkError *error, char *detail)
{
	if (zk_socket_met_no_server() && !has_session)
	{
		*error = ZK_ERR_NOT_ZOOKEEPER;
		strcpy(detail, ZK_NOT_ZOOKEEPER);
		return ZK_HANDLE_USELESS;
	}
	zk_log_last_error(detail);
	if (by_tls(transport) && zk_socket_is_stuck())
	{
		*error = ZK_ERR_TLS_FILES;
		return ZK_HANDLE_USELESS;
	}
	if (!by_sasl(transport) || zoo_state(zh) != ZOO_AUTH_FAILED_STATE)
		return ZK_HANDLE_WORKS;
	*error = ZK_ERR_SASL;
	if (detail[0] == '\0')
		strcpy(detail, "The ZooKeeper ensemble refused the authentication.");
	return ZK_HANDLE_REFUSED;
}
