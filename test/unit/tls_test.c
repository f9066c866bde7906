/*-------------------------------------------------------------------------
 *
 * tls_test.c
 *	  Tests of tls.c and certificate.c: what the library hears of OpenSSL, and of whom.
 *
 * This program calls what the library calls, which the linker sends to tls.c, and is the
 * server as well.  client_tls_test tests how handshakes fail.  With a library without TLS,
 * or a shared one, there is nothing to test.
 *
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "inside.h"
#include "loopback.h"
#include "tap.h"

#if defined(ZKLOCK_TLS) && defined(ZKLOCK_STATIC_LIBRARY)

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "certificate.h"

/* Bytes that fill any socket. */
#define MUCH	(8 * 1024 * 1024)

/* A certificate's names, a host, and whether it is for that. */
static const struct
{
	const char *common;
	const char *names;			/* as OpenSSL has them; NULL for none */
	const char *host;
	bool		is_for;
}			certificates[] =

{
	{"zk1.example.com", NULL, "zk1.example.com", true},
	{"zk1.example.com", NULL, "zk2.example.com", false},
	{"zk1.example.com", "DNS:zk2.example.com", "zk2.example.com", true},
	{"zk1.example.com", "DNS:zk2.example.com", "zk1.example.com", false},
	{"test", "DNS:zk1.example.com", "ZK1.example.com", true},
	{"test", "DNS:zk1.example.com", "zk1.example.com.", true},
	{"test", "DNS:zk1.example.com", "zk1.example.co", false},
	{"test", "DNS:*.example.com", "zk1.example.com", true},
	{"test", "DNS:*.example.com", "a.zk1.example.com", false},
	{"test", "DNS:zk*.example.com", "zk1.example.com", false},
	{"test", "IP:10.0.0.1", "10.0.0.1", true},
	{"test", "IP:10.0.0.1", "10.0.0.2", false},
	{"test", "DNS:10.0.0.1", "10.0.0.1", false},
	{"10.0.0.1", NULL, "10.0.0.1", false},
	{"test", "IP:fe80::1", "fe80::1", true},
	{"test", "IP:fe80::1", "fe80::1%eth0", true},
	{"test", "IP:fe80::1", "fe80::2", false},
	{"test", "IP:10.0.0.1", "::ffff:10.0.0.1", false}
};

/* Who the server is, and what both ends trust. */
static EVP_PKEY * key;
static SSL_CTX *server_context;
static SSL_CTX *client_context;

/* A connection: the library's end, and the server's. */
static SSL *ours;
static SSL *theirs;
static int	our_socket;
static int	their_socket;

/* OpenSSL has no memory. */
static bool no_memory;

WRAPPED(SSL_CTX *, SSL_CTX_new, const SSL_METHOD * method);

SSL_CTX *
__wrap_SSL_CTX_new(const SSL_METHOD * method)
{
	return no_memory ? NULL : __real_SSL_CTX_new(method);
}

/* Make a certificate with these names. */
static X509 *
make_certificate(const char *common, const char *names)
{
	X509	   *certificate = X509_new();
	X509_EXTENSION *extension;

	X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
							   (const unsigned char *) common, -1, -1, 0);
	if (names != NULL)
	{
		extension = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
		X509_add_ext(certificate, extension, -1);
		X509_EXTENSION_free(extension);
	}
	return certificate;
}

static void
test_certificates(void)
{
	for (size_t i = 0; i < sizeof(certificates) / sizeof(certificates[0]); i++)
	{
		const char *names = certificates[i].names;
		X509	   *certificate = make_certificate(certificates[i].common, names);

		ok(zk_certificate_is_for(certificate, certificates[i].host) == certificates[i].is_for,
		   "S180: a certificate for %s, %s is %sfor %s", certificates[i].common,
		   names != NULL ? names : "no other", certificates[i].is_for ? "" : "not ",
		   certificates[i].host);
		X509_free(certificate);
	}
}

static void
make_contexts(void)
{
	X509	   *certificate = make_certificate("test", "IP:127.0.0.1,IP:::1,DNS:zk1");

	key = EVP_EC_gen("P-256");
	X509_set_pubkey(certificate, key);
	X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
	X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	X509_sign(certificate, key, EVP_sha256());
	server_context = SSL_CTX_new(TLS_server_method());
	SSL_CTX_use_certificate(server_context, certificate);
	SSL_CTX_use_PrivateKey(server_context, key);
	client_context = SSL_CTX_new(TLS_client_method());
	X509_STORE_add_cert(SSL_CTX_get_cert_store(client_context), certificate);
	X509_free(certificate);
}

static void *
accept_connection(void *arg)
{
	(void) arg;
	SSL_accept(theirs);
	return NULL;
}

/* Have both ends of a connection shake hands.  Returns true if the library's does. */
static bool
shake_hands(void)
{
	pthread_t	thread;
	int			result;

	zk_log_clear_error();
	ours = SSL_new(client_context);
	SSL_set_fd(ours, our_socket);
	theirs = SSL_new(server_context);
	SSL_set_rfd(theirs, their_socket);
	SSL_set_wfd(theirs, their_socket);
	pthread_create(&thread, NULL, accept_connection, NULL);
	result = SSL_connect(ours);
	if (result != 1)
		shutdown(our_socket, SHUT_RDWR);
	pthread_join(thread, NULL);
	return result == 1;
}

/* Connect both ends.  Then the library's does not wait any more. */
static void
connect_both(void)
{
	int			sockets[2] = {-1, -1};

	socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
	our_socket = sockets[0];
	their_socket = sockets[1];
	ok(shake_hands(), "a connection is made");
	fcntl(our_socket, F_SETFL, O_NONBLOCK);
}

/* An error of OpenSSL's that has nothing to do with the connection. */
static void
fail_before(void)
{
	ERR_raise(ERR_LIB_USER, 1);
}

static void
disconnect(void)
{
	SSL_free(ours);
	SSL_free(theirs);
	close(our_socket);
	close(their_socket);
}

/* The library reads what there is, and is to try again when there is nothing. */
static void
test_reading(void)
{
	char		data[16];

	fail_before();
	connect_both();
	fail_before();
	ok(SSL_read(ours, data, sizeof(data)) == -1 && errno == EAGAIN,
	   "there is nothing to be read yet");
	is_int(zk_tls_pending(), 0, "nor left in OpenSSL");
	SSL_write(theirs, "hello", 5);
	is_int(SSL_read(ours, data, 2), 2, "a part of a record is read");
	is_int(zk_tls_pending(), 3, "and the rest of it is not forgotten");
	is_int(SSL_read(ours, data, sizeof(data)), 3, "it is read, too");
	is_int(zk_tls_pending(), 0, "and that is all");
	SSL_shutdown(theirs);
	is_int(SSL_read(ours, data, sizeof(data)), 0, "the server ends the connection");
	disconnect();
	is_int(zk_tls_pending(), 0, "nothing is left of a connection that is gone");

	connect_both();
	close(their_socket);
	their_socket = -1;
	is_int(SSL_read(ours, data, sizeof(data)), 0, "the server dies, which is the same");
	disconnect();
}

static void
test_garbage(void)
{
	char		data[16];
	char		detail[ZK_DETAIL_SIZE];

	connect_both();
	is_int((int) write(their_socket, "HTTP/1.1 400 Bad", 16), 16, "the server talks nonsense");
	ok(SSL_read(ours, data, sizeof(data)) == -1 && errno == EPROTO, "which is an error");
	zk_log_last_error(detail);
	ok(strstr(detail, "The server aborted the TLS handshake: ") == detail &&
	   strstr(detail, "no reason") == NULL, "and is said: %s", detail);
	disconnect();
}

/* A connection that fails without a reason. */
static int
fail_to_read(BIO * bio, char *data, int size)
{
	(void) bio;
	(void) data;
	(void) size;
	return -1;
}

static int
fail_to_write(BIO * bio, const char *data, int size)
{
	(void) bio;
	(void) data;
	(void) size;
	return -1;
}

static long
control_nothing(BIO * bio, int what, long number, void *pointer)
{
	(void) bio;
	(void) what;
	(void) number;
	(void) pointer;
	return 0;
}

static void
test_no_reason(void)
{
	BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "broken");
	BIO		   *bio;
	char		data[16] = "";

	BIO_meth_set_read(method, fail_to_read);
	BIO_meth_set_write(method, fail_to_write);
	BIO_meth_set_ctrl(method, control_nothing);
	connect_both();
	bio = BIO_new(method);
	BIO_set_init(bio, 1);
	SSL_set_bio(ours, bio, bio);
	errno = EINVAL;
	ok(SSL_read(ours, data, sizeof(data)) == -1 && errno == ECONNRESET,
	   "an error without a reason ends the connection");
	errno = EINVAL;
	ok(SSL_write(ours, data, sizeof(data)) == -1 && errno == ECONNRESET, "when writing, too");
	disconnect();
	BIO_meth_free(method);
}

/* Write until the socket is full.  Returns how many bytes remain. */
static int
fill(const char *data)
{
	int			left = MUCH;
	int			sent;

	while (left > 0 && (sent = SSL_write(ours, data, left < 4096 ? left : 4096)) > 0)
		left -= sent;
	return left;
}

static void
test_writing(void)
{
	char	   *data = calloc(1, MUCH);
	char		copy[4096] = "";
	int			left;

	connect_both();
	fail_before();
	left = fill(data);
	ok(left > 0 && errno == EAGAIN, "there is no room for more");
	fcntl(their_socket, F_SETFL, O_NONBLOCK);
	while (SSL_read(theirs, data, MUCH) > 0)
		;
	is_int(SSL_write(ours, copy, sizeof(copy)), sizeof(copy),
		   "it is sent later, from elsewhere in memory");
	close(their_socket);
	their_socket = -1;
	ok(SSL_write(ours, copy, 1) == -1 && errno == EPIPE, "the server is gone");
	disconnect();
	free(data);
}

/*
 * Connect to a server on the loopback interface, which accepts that; its port is *port.
 * Returns false if there is no such interface.
 */
static bool
connect_sockets(int family, int *port)
{
	int			listening;
	bool		connected;

	*port = 0;
	listening = loopback_listen(family, 1, port);
	if (listening < 0)
		return false;
	our_socket = socket(family, SOCK_STREAM, 0);
	connected = loopback_connect(our_socket, family, *port) == 0;
	if (connected)
		their_socket = accept(listening, NULL, NULL);
	close(listening);
	return connected;
}

/* Servers that are expected, and whether one for 127.0.0.1, ::1 and zk1 is one of them. */
static const struct
{
	int			family;
	const char *addresses[2];	/* with the port of the server, or another one */
	int			other_port[2];
	const char *hosts[2];
	bool		accepted;
	const char *refused;		/* the host in the message */
}			expectations[] =

{
	{AF_INET, {"127.0.0.1"}, {0}, {"127.0.0.1"}, true, NULL},
	{AF_INET, {"127.0.0.1"}, {0}, {"zk1"}, true, NULL},
	{AF_INET, {"127.0.0.1"}, {0}, {"zk2"}, false, "zk2"},
	{AF_INET, {"127.0.0.1", "127.0.0.1"}, {0}, {"zk2", "zk1"}, true, NULL},
	{AF_INET, {"127.0.0.2", "127.0.0.1"}, {0}, {"zk1", "zk2"}, false, "zk2"},
	{AF_INET, {"127.0.0.1", "127.0.0.1"}, {1, 0}, {"zk1", "zk3"}, false, "zk3"},
	{AF_INET, {"127.0.0.1"}, {1}, {"zk1"}, false, ""},
	{AF_INET6, {"::1"}, {0}, {"::1"}, true, NULL},
	{AF_INET6, {"::1"}, {0}, {"zk1"}, true, NULL},
	{AF_INET6, {"::1", "::1"}, {1, 0}, {"zk1", "zk2"}, false, "zk2"},
	{AF_INET6, {"::2", "::1"}, {0}, {"zk1", "zk2"}, false, "zk2"},
	{AF_INET6, {"::", "::1"}, {0}, {"zk1", "zk2"}, false, "zk2"},
	{AF_INET6, {"127.0.0.1", "::1"}, {0}, {"zk1", "zk2"}, false, "zk2"}
};

/* The client is about to connect to these servers. */
static void
expect(int number, int port)
{
	ZkServers	servers = {.endpoints = calloc(2, sizeof(ZkEndpoint))};

	for (int i = 0; i < 2 && expectations[number].addresses[i] != NULL; i++)
	{
		ZkEndpoint *endpoint = &servers.endpoints[servers.count++];

		snprintf(endpoint->address, sizeof(endpoint->address), "%s:%d",
				 expectations[number].addresses[i], port + expectations[number].other_port[i]);
		strcpy(endpoint->host, expectations[number].hosts[i]);
	}
	zk_tls_expect(&servers);
	ok(servers.endpoints == NULL && servers.count == 0, "the servers' hosts are taken");
}

static void
test_hosts(void)
{
	char		detail[ZK_DETAIL_SIZE];
	char		text[100];
	int			port;

	for (size_t i = 0; i < sizeof(expectations) / sizeof(expectations[0]); i++)
	{
		if (!connect_sockets(expectations[i].family, &port))
			continue;
		expect((int) i, port);
		ok(shake_hands() == expectations[i].accepted, "S180: %s, %s is %s",
		   expectations[i].addresses[0], expectations[i].hosts[0],
		   expectations[i].accepted ? "accepted" : "refused");
		zk_log_last_error(detail);
		snprintf(text, sizeof(text), "does not match host name \"%s\".",
				 expectations[i].accepted ? "" : expectations[i].refused);
		ok((strstr(detail, text) != NULL) == !expectations[i].accepted,
		   "S180: what is said: %s", detail);
		disconnect();
	}
	zk_tls_expect(NULL);
	connect_sockets(AF_INET, &port);
	ok(shake_hands(), "S180: without expectations any host is accepted");
	disconnect();
}

/* The files cannot be looked at. */
static void
test_no_memory(void)
{
	static char *const texts[ZK_TRANSPORT_TEXTS] = {NULL};
	char		detail[ZK_DETAIL_SIZE] = "";

	no_memory = true;
	ok(!zk_tls_check(texts, detail), "S370: OpenSSL has no memory");
	is_str(detail, "OpenSSL cannot be used: no reason was given.", "S370: which is said");
	no_memory = false;
}

/* Fail a handshake with the other end of that socket, for that reason. */
static void
fail_handshake(int fd, const char *reason)
{
	char		detail[ZK_DETAIL_SIZE];
	SSL		   *ssl = SSL_new(client_context);

	zk_log_clear_error();
	SSL_set_fd(ssl, fd);
	ok(SSL_connect(ssl) <= 0, "a handshake fails");
	zk_log_last_error(detail);
	is_str(detail, reason, "and the reason is known");
	SSL_free(ssl);
	close(fd);
}

/* A message names the server of this connection, and not that of the one before. */
static void
test_names(void)
{
	char		reason[ZK_DETAIL_SIZE];
	int			port;

	connect_sockets(AF_INET, &port);
	close(their_socket);
	snprintf(reason, sizeof(reason),
			 "The server at 127.0.0.1:%d closed the connection during the TLS handshake.", port);
	fail_handshake(our_socket, reason);
	fail_handshake(socket(AF_INET, SOCK_STREAM, 0),
				   "The server closed the connection during the TLS handshake.");
}

/* A handle that is being closed waits for no handshake. */
static void
test_select(void)
{
	struct timeval none = {0};

	zk_socket_prepare(false, INT_MAX, false, NULL);
	is_int(select(0, NULL, NULL, NULL, &none), 0, "the library waits");
	zk_socket_give_up(false);
	ok(select(0, NULL, NULL, NULL, &none) == -1 && errno == ECANCELED, "and not any more");
	zk_socket_parted();
	is_int(select(0, NULL, NULL, NULL, &none), 0, "the next handle waits again");
}

static void *
split_another(void *arg)
{
	char		text[] = "key,passphrase";

	(void) arg;
	return strtok(text, ",") == text ? &server_context : NULL;
}

static void
test_strtok(void)
{
	char		text[] = "ca,certificate";
	pthread_t	thread;
	void	   *split = NULL;

	is_str(strtok(text, ","), "ca", "a text is split");
	pthread_create(&thread, NULL, split_another, NULL);
	pthread_join(thread, &split);
	ok(split != NULL, "another thread splits one, too");
	is_str(strtok(NULL, ","), "certificate", "which does not matter to the first");
}

int
main(void)
{
	signal(SIGPIPE, SIG_IGN);
	make_contexts();
	zk_socket_prepare(false, INT_MAX, false, NULL);
	test_certificates();
	test_reading();
	test_garbage();
	test_writing();
	test_no_reason();
	test_names();
	test_hosts();
	test_no_memory();
	test_select();
	test_strtok();
	SSL_CTX_free(client_context);
	SSL_CTX_free(server_context);
	EVP_PKEY_free(key);
	return done_testing();
}

#else

int
main(void)
{
	return skip_all("the client library is a shared one, or was built without TLS");
}

#endif
