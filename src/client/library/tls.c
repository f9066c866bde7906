/*-------------------------------------------------------------------------
 *
 * tls.c
 *	  The library's connection with TLS, as far as we have a hand in it.
 *
 * Where the library is linked statically, the linker's --wrap sends the calls
 * below to us, as in socket.c:
 *
 * SSL_connect, SSL_read, SSL_write	  fail with an errno that the library
 *			understands (it checks no other error), and log the reason.
 * SSL_set_fd, SSL_free	  note the connection, whose data must not stay in
 *			OpenSSL's buffers; and have OpenSSL ask us whether the server's
 *			certificate is for the right host, which the library does not check.
 * SSL_CTX_set_default_verify_paths	  does nothing; otherwise the library would
 *			also trust all authorities that the system trusts.
 * select	ends the wait for a handshake when the handle is to be closed.
 * strtok	is that of this thread: the backend thread may be using its own.
 *
 * C1 and C2 of TLS are in tls_settings.c, C3 is in socket.c, C5, C6, C8 and C10
 * are in transport.c.
 *
 * C4. What OpenSSL has read and not given out is processed before the I/O
 * thread waits again, because the socket does not show it.  Servers put one
 * packet into one record; a proxy on the way may put in several.
 *
 * C7. OpenSSL writes without MSG_NOSIGNAL.  All threads of the client have all
 * signals blocked, SIGPIPE among them, and PostgreSQL ignores it.
 *
 * C9. The library checks that the server's certificate is signed by a CA and
 * valid today, but not for which host it is.  We have OpenSSL ask us about the
 * last certificate of a chain that it accepts (verify_host): it must be for a
 * host of zklock.servers that was resolved into the address of the connection,
 * as RFC 2818 says.  So no address is turned into a name, by servers that may
 * lie.  The library also accepts the CAs that the system trusts, with which
 * anybody could be a server; zklock leaves those out.  Both take the library's
 * archive; without it TLS is refused unless zklock.tls_verify_host is off.
 *
 * The library insists on a certificate of ours, and asks a terminal for a
 * passphrase if it is given none, so it always is.
 *
 * C11. What failed is read from OpenSSL, and kept for the error's DETAIL, which
 * the library's next line, "error in ssl connect", does not replace.  A refused
 * certificate is no reason to give up at once, as another server may accept it;
 * when zklock.connect_timeout is over, it is 28000, and all else that has to do
 * with TLS 08001.  With SASL the library's I/O thread ends without an event, so
 * its state is looked at; that is definite, as a wrong password is.
 *
 * With the shared library all of this is missing: without host names TLS works,
 * but a server that hangs in the handshake keeps the handle, and with it all
 * later ones of the backend, until the connection breaks; reasons are unknown,
 * and the system's CAs count.  In any case the files are tried on the helper
 * thread before the library uses them.
 *
 *-------------------------------------------------------------------------
 */
#include "inside.h"

#ifdef ZKLOCK_TLS

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/select.h>

#include "certificate.h"

/* Alerts of TLS have these numbers among OpenSSL's reasons. */
#define IS_ALERT(reason)	((reason) > SSL_AD_REASON_OFFSET)

/* Longest path of a file in a message, in bytes. */
#define SHOWN_PATH			"%.120s"

/* OpenSSL's text for its error, which may be 0; static. */
static const char *
reason_text(unsigned long code)
{
	const char *text = ERR_reason_error_string(code);

	return text != NULL ? text : "no reason was given";
}

/*
 * Write to detail that a file cannot be used for what it is for ("the CA's
 * certificates", ...), and return false.
 */
static bool
useless(const char *what, const char *path, char *detail)
{
	snprintf(detail, ZK_DETAIL_SIZE,
			 "OpenSSL cannot use %s in \"" SHOWN_PATH "\": %s.",
			 what, path, reason_text(ERR_peek_error()));
	return false;
}

/*
 * Returns true if our own certificate is valid today; else false with the
 * reason in detail.
 */
static bool
check_dates(SSL_CTX *context, const char *path, char *detail)
{
	X509	   *certificate = SSL_CTX_get0_certificate(context);
	const char *wrong = NULL;

	if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
		wrong = "has expired";
	else if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0)
		wrong = "is not valid yet";
	if (wrong != NULL)
		snprintf(detail, ZK_DETAIL_SIZE,
				 "The certificate in \"" SHOWN_PATH "\" %s.", path, wrong);
	return wrong == NULL;
}

/* Give OpenSSL the key's passphrase, or none: else it would ask for one. */
static int
give_passphrase(char *buffer, int size, int for_writing, void *passphrase)
{
	int			len;

	(void) for_writing;
	if (passphrase == NULL)
		return 0;
	len = (int) strlen(passphrase);
	if (len > size)
		return 0;
	memcpy(buffer, passphrase, (size_t) len);
	return len;
}

/*
 * Load the files into a context as the library will do.  Returns false with the
 * reason in detail if that fails.
 */
static bool
load_files(SSL_CTX *context, char *const *transport, char *detail)
{
	const char *ca = transport[ZK_TLS_CA];
	const char *cert = transport[ZK_TLS_CERT];
	const char *key = transport[ZK_TLS_KEY];

	if (SSL_CTX_load_verify_locations(context, ca, NULL) != 1)
		return useless("the CA's certificates", ca, detail);
	if (SSL_CTX_use_certificate_chain_file(context, cert) != 1)
		return useless("the certificate", cert, detail);
	SSL_CTX_set_default_passwd_cb(context, give_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(context, transport[ZK_TLS_PASSPHRASE]);
	if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
		return useless("the private key", key, detail);
	if (SSL_CTX_check_private_key(context) != 1)
		return useless("the private key with that certificate", key, detail);
	return check_dates(context, cert, detail);
}

/* See zk_tls_check(). */
static bool
check_files(char *const *transport, char *detail)
{
	SSL_CTX    *context;
	bool		good = false;

	ERR_clear_error();
	context = SSL_CTX_new(TLS_client_method());
	if (context == NULL)
		snprintf(detail, ZK_DETAIL_SIZE, "OpenSSL cannot be used: %s.",
				 reason_text(ERR_peek_error()));
	else
		good = load_files(context, transport, detail);
	SSL_CTX_free(context);
	ERR_clear_error();
	return good;
}

#ifdef ZKLOCK_STATIC_LIBRARY

/* The connection that the I/O thread reads from; NULL for none. */
static __thread SSL *connection;

/* Its peer: "The server at 127.0.0.1:2281", "127.0.0.1:2281", or empty. */
static __thread char the_server[100];
static __thread char the_address[80];

/*
 * The hosts that servers must have certificates for; NULL if that does not
 * matter.  Set while there is no handle, and so no I/O thread.
 */
static ZkEndpoint *expected;
static int	expected_count;

WRAPPED(int, SSL_connect, SSL *ssl);
WRAPPED(int, SSL_read, SSL *ssl, void *data, int size);
WRAPPED(int, SSL_write, SSL *ssl, const void *data, int size);
WRAPPED(int, SSL_set_fd, SSL *ssl, int fd);
WRAPPED(void, SSL_free, SSL *ssl);
WRAPPED(int, SSL_CTX_set_default_verify_paths, SSL_CTX *context);
WRAPPED(int, select, int count, fd_set *to_read, fd_set *to_write,
		fd_set *excepted, struct timeval *timeout);
WRAPPED(char *, strtok, char *text, const char *separators);

/* Returns true for an alert about the certificate of its receiver. */
static bool
about_certificate(int alert)
{
	switch (alert)
	{
		case SSL_AD_NO_CERTIFICATE:
		case SSL_AD_BAD_CERTIFICATE:
		case SSL_AD_UNSUPPORTED_CERTIFICATE:
		case SSL_AD_CERTIFICATE_REVOKED:
		case SSL_AD_CERTIFICATE_EXPIRED:
		case SSL_AD_CERTIFICATE_UNKNOWN:
		case SSL_AD_UNKNOWN_CA:
		case SSL_AD_ACCESS_DENIED:
		case SSL_AD_CERTIFICATE_REQUIRED:
			return true;
		default:
			return false;
	}
}

/* Logs OpenSSL's first error about a connection.  I/O thread or helper. */
static void
log_failure(unsigned long code)
{
	int			reason = ERR_GET_REASON(code);

	if (IS_ALERT(reason) && about_certificate(reason - SSL_AD_REASON_OFFSET))
		zk_log_cause(ZK_ERR_CERTIFICATE, "The %s rejected the client certificate: %s.",
					 the_server, reason_text(code));
	else
		zk_log_cause(ZK_ERR_TLS, "The %s aborted the TLS handshake: %s.",
					 the_server, reason_text(code));
}

/*
 * Returns true if the address of an endpoint is that of the connection, which
 * has brackets around one of IPv6.  I/O thread.
 */
static bool
is_connected_to(const ZkEndpoint *endpoint)
{
	const char *address = endpoint->address;
	const char *port = strrchr(address, ':');
	size_t		len = (size_t) (port - address);

	if (the_address[0] != '[')
		return strcmp(the_address, address) == 0;
	return strncmp(the_address + 1, address, len) == 0 &&
		the_address[1 + len] == ']' && strcmp(the_address + len + 2, port) == 0;
}

/* The first of the hosts that the server may be.  I/O thread. */
static const char *
expected_host(void)
{
	for (int i = 0; i < expected_count; i++)
		if (is_connected_to(&expected[i]))
			return expected[i].host;
	return "";
}

/*
 * Log why a handshake has failed; code is OpenSSL's first error, or 0.  It
 * stays in OpenSSL's queue, where the library looks for one.  I/O thread.
 */
static void
log_handshake(SSL *ssl, unsigned long code)
{
	long		verdict = SSL_get_verify_result(ssl);

	if (zk_socket_given_up())
		zk_log_cause(ZK_ERR_TLS, "The %s did not respond to the TLS handshake in time.",
					 the_server);
	else if (verdict == X509_V_ERR_HOSTNAME_MISMATCH)
		zk_log_cause(ZK_ERR_TLS, "The certificate of the %s does not match host name \"%.100s\".",
					 the_server, expected_host());
	else if (verdict != X509_V_OK)
		zk_log_cause(ZK_ERR_TLS, "Could not verify the certificate of the %s: %s.",
					 the_server, X509_verify_cert_error_string(verdict));
	else if (code == 0 || ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
		zk_log_cause(ZK_ERR_TLS, "The %s closed the connection during the TLS handshake.",
					 the_server);
	else
		log_failure(code);
}

/*
 * A call on a connection returned that: set errno, which OpenSSL clears, for
 * the library, which only asks whether to try again later, and return what it
 * is to see.  I/O thread or helper.
 */
static int
judge(SSL *ssl, int result)
{
	unsigned long code = ERR_peek_error();

	switch (SSL_get_error(ssl, result))
	{
		case SSL_ERROR_WANT_READ:
		case SSL_ERROR_WANT_WRITE:
			errno = EAGAIN;
			return -1;
		case SSL_ERROR_ZERO_RETURN:
			return 0;
		case SSL_ERROR_SSL:
			if (ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
				return 0;
			log_failure(code);
			errno = EPROTO;
			return -1;
		default:
			if (errno == 0 || errno == EAGAIN)
				errno = ECONNRESET;
			return -1;
	}
}

/* As SSL_connect(). */
int
__wrap_SSL_connect(SSL *ssl)
{
	int			result;
	int			error;

	ERR_clear_error();
	result = __real_SSL_connect(ssl);
	if (result == 1)
		return result;
	error = SSL_get_error(ssl, result);
	if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
		log_handshake(ssl, ERR_peek_error());
	return result;
}

/* As SSL_read(), and as recv() in socket.c. */
int
__wrap_SSL_read(SSL *ssl, void *data, int size)
{
	int			got;

	ERR_clear_error();
	got = __real_SSL_read(ssl, data, size);
	if (got <= 0)
		return judge(ssl, got);
	if (zk_socket_received(SSL_get_fd(ssl), data, (size_t) got))
		return got;
	errno = EPROTO;
	return -1;
}

/* As SSL_write(), and as send() in socket.c. */
int
__wrap_SSL_write(SSL *ssl, const void *data, int size)
{
	int			fd = SSL_get_fd(ssl);
	int			sent;

	if (!zk_packets_sending(fd, data, (size_t) size))
		return -1;
	ERR_clear_error();
	sent = __real_SSL_write(ssl, data, size);
	if (sent <= 0)
		return judge(ssl, sent);
	zk_packets_sent(fd, data, (size_t) sent);
	return sent;
}

/*
 * OpenSSL has judged a certificate of the server's chain.  If it is the last,
 * its own, and accepted so far, check that it is for a host that was resolved
 * into this address (RFC 2818, section 3.1).  I/O thread.
 */
static int
verify_host(int accepted, X509_STORE_CTX *chain)
{
	X509	   *certificate = X509_STORE_CTX_get_current_cert(chain);

	if (!accepted || X509_STORE_CTX_get_error_depth(chain) != 0)
		return accepted;
	for (int i = 0; i < expected_count; i++)
		if (is_connected_to(&expected[i]) &&
			zk_certificate_is_for(certificate, expected[i].host))
			return 1;
	X509_STORE_CTX_set_error(chain, X509_V_ERR_HOSTNAME_MISMATCH);
	return 0;
}

/*
 * As SSL_set_fd(), for a new connection.  What could not be sent may lie
 * elsewhere when it is tried again: the library keeps the length of a packet on
 * its stack.  I/O thread.
 */
int
__wrap_SSL_set_fd(SSL *ssl, int fd)
{
	if (zk_socket_peer(the_address, sizeof(the_address)))
		snprintf(the_server, sizeof(the_server), "server at %s", the_address);
	else
	{
		the_address[0] = '\0';
		strcpy(the_server, "server");
	}
	if (expected != NULL)
		SSL_set_verify(ssl, SSL_VERIFY_PEER, verify_host);
	connection = ssl;
	SSL_set_mode(ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return __real_SSL_set_fd(ssl, fd);
}

/* As SSL_free(). */
void
__wrap_SSL_free(SSL *ssl)
{
	if (ssl == connection)
		connection = NULL;
	__real_SSL_free(ssl);
}

/* Succeeds. */
int
__wrap_SSL_CTX_set_default_verify_paths(SSL_CTX *context)
{
	(void) context;
	return 1;
}

/* As select(); fails with ECANCELED when the handle is to be closed. */
int
__wrap_select(int count, fd_set *to_read, fd_set *to_write, fd_set *excepted,
			  struct timeval *timeout)
{
	if (!zk_socket_given_up())
		return __real_select(count, to_read, to_write, excepted, timeout);
	errno = ECANCELED;
	return -1;
}

/* As strtok(), for each thread separately. */
char *
__wrap_strtok(char *text, const char *separators)
{
	static __thread char *rest;

	return strtok_r(text, separators, &rest);
}

#endif							/* ZKLOCK_STATIC_LIBRARY */

#endif							/* ZKLOCK_TLS */

/*
 * Returns true if the files that these texts (see ZkConfig) name can be used;
 * else false with the reason in detail.  Helper.
 */
bool
zk_tls_check(char *const *transport, char *detail)
{
#ifdef ZKLOCK_TLS
	return check_files(transport, detail);
#else
	(void) transport;
	snprintf(detail, ZK_DETAIL_SIZE, "There is no TLS.");
	return false;
#endif
}

/*
 * A handle to these servers is about to be opened: certificates must be theirs,
 * or, with NULL, anybody's.  Takes their endpoints.  Helper, while there is no
 * handle.
 */
void
zk_tls_expect(ZkServers *servers)
{
#if defined(ZKLOCK_TLS) && defined(ZKLOCK_STATIC_LIBRARY)
	free(expected);
	expected = NULL;
	expected_count = 0;
	if (servers == NULL)
		return;
	expected = servers->endpoints;
	expected_count = servers->count;
	servers->endpoints = NULL;
	servers->count = servers->capacity = 0;
#else
	(void) servers;
#endif
}

/*
 * How many bytes this thread's connection has read from the socket, and not
 * given out.  I/O thread.
 */
int
zk_tls_pending(void)
{
#if defined(ZKLOCK_TLS) && defined(ZKLOCK_STATIC_LIBRARY)
	return connection != NULL ? SSL_pending(connection) : 0;
#else
	return 0;
#endif
}
