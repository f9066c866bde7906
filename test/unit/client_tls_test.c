/*-------------------------------------------------------------------------
 *
 * client_tls_test.c
 *	  The lock client and TLS, with peers that do not get as far as ZooKeeper (S180).
 *
 * With a library without TLS there is nothing to test.  Certificates and their servers
 * are openssl's.  The suite tls tests connections that succeed.
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loopback.h"
#include "tap.h"
#include "zk_check.h"
#include "zk_session.h"
#include "zk_types.h"

/* How long to wait for anything that is to come. */
#define DEADLINE	ZK_MS(60 * 1000)

static char folder[256];		/* below TMPDIR */
static char servers[128];		/* where the client is to connect */
static int	port;
static ZkClient *client;

/* A server of openssl's, 0 for none: where it is, its certificate, a further option. */
static pid_t server;
static const char *server_host;
static const char *server_certificate;
static const char *server_option;

extern const char *__lsan_default_suppressions(void);

/*
 * LeakSanitizer asks for leaks that are known: the library's 3.8 leaks the names of the files
 * with each handle (ZOOKEEPER-4020).
 */
const char *
__lsan_default_suppressions(void)
{
	return "leak:zookeeper_init_ssl\n";
}

/* Have the shell do something in the folder. */
static void
shell(const char *what)
{
	char		command[1024];

	snprintf(command, sizeof(command), "cd %s && %s", folder, what);
	if (system(command) != 0)
		diag("failed: %s", command);
}

/* Make a self-signed certificate for these hosts, and its key. */
static void
make_certificate(const char *name, const char *hosts)
{
	char		command[512];

	snprintf(command, sizeof(command),
			 "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
			 "-subj /CN=test -addext subjectAltName=%s -days 2 -keyout %s.key -out %s.pem "
			 "2>openssl.log", hosts, name, name);
	shell(command);
}

/* A listening socket, to whose port the client connects. */
static int
start_listening(void)
{
	int			fd;

	port = 0;
	fd = loopback_listen(AF_INET, 8, &port);
	if (fd < 0)
		diag("no socket to listen on");
	snprintf(servers, sizeof(servers), "127.0.0.1:%d", port);
	return fd;
}

/* Start a client that trusts one certificate and shows another, with a key. */
static void
start_client(const char *ca, const char *cert, const char *key)
{
	char		paths[3][sizeof(folder) + 32];
	const char *names[] = {ca, cert, key};

	ZkConfig	config = {.servers = servers,.session_timeout_ms = 10000,
	.tls_verify_host = true};
	ZkError		error;
	char		detail[ZK_DETAIL_SIZE];

	for (int i = 0; i < 3; i++)
		snprintf(paths[i], sizeof(paths[i]), "%s/%s", folder, names[i]);
	config.transport[ZK_TLS_CA] = paths[0];
	config.transport[ZK_TLS_CERT] = paths[1];
	config.transport[ZK_TLS_KEY] = paths[2];
	client = zk_client_start(&config, &error, detail);
	if (client == NULL)
		diag("could not start a client: error %d, %s", error, detail);
	zk_client_connect(client, 3600 * 1000);
}

/* Stop it.  True if that took no longer than it was to, and all is done. */
static bool
stop_client(void)
{
	ZkTime		began = zk_now();

	return zk_client_stop(client, 10000) && zk_now() - began < ZK_MS(10000);
}

/* Start it on the host's port. */
static void
run_server(void)
{
	char		address[64];
	char		cert[sizeof(folder) + 32];
	char		key[sizeof(folder) + 32];

	snprintf(address, sizeof(address), "%s:%d", server_host, port);
	snprintf(cert, sizeof(cert), "%s/%s.pem", folder, server_certificate);
	snprintf(key, sizeof(key), "%s/%s.key", folder, server_certificate);
	server = fork();
	if (server == 0)
	{
		if (freopen("/dev/null", "w", stderr) == NULL)
			_exit(126);
		execlp("openssl", "openssl", "s_server", "-quiet", "-accept", address,
			   "-cert", cert, "-key", key, server_option,
			   server_option != NULL ? "1" : NULL, "-verify_return_error", NULL);
		_exit(127);
	}
}

/* Another program may be using the port just now: then try again. */
static void
keep_server(void)
{
	if (server != 0 && waitpid(server, NULL, WNOHANG) == server)
		run_server();
}

/* Start one with that certificate. */
static void
start_server(const char *host, const char *certificate, const char *option)
{
	server_host = host;
	server_certificate = certificate;
	server_option = option;
	run_server();
}

/* Stop it. */
static void
stop_server(void)
{
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	server = 0;
}

/*
 * The client fails for that reason, with a text like this.  Until then, the test
 * closes each connection to the socket, if there is one.
 */
static void
fails(int hang_up_on, ZkError error, const char *detail, const char *what)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	struct pollfd pfd = {.fd = hang_up_on,.events = POLLIN};
	ZkSessionStatus status;
	bool		failed;

	do
	{
		keep_server();
		if (poll(&pfd, hang_up_on >= 0, 20) > 0)
			close(accept(hang_up_on, NULL, NULL));
		zk_client_status(client, &status);
		failed = status.error == error && strstr(status.detail, detail) != NULL;
	} while (!failed && zk_now() < deadline);
	if (!ok(failed, "%s: the error says so", what))
		diag("it is: error %d, %s", status.error, status.detail);
	ok(stop_client(), "%s: the client ends", what);
}

static void
test_files(int listening)
{
	struct pollfd pfd = {.fd = listening,.events = POLLIN};

	start_client("ca.pem", "ours.pem", "ca.key");
	fails(-1, ZK_ERR_TLS_FILES, "ca.key", "another one's key");
	start_client("ca.pem", "ours.pem", "missing");
	fails(-1, ZK_ERR_TLS_FILES, "missing", "no key");
	start_client("ca.key", "ours.pem", "ours.key");
	fails(-1, ZK_ERR_TLS_FILES, "ca.key", "no certificate of a CA");
	is_int(poll(&pfd, 1, 0), 0, "the client did not connect");
}

static void
test_silence(int listening)
{
	struct pollfd pfd = {.events = POLLIN};
	ZkTime		took;
	int			rounds = 0;

	/* once more if it took long: the machine may have stood still */
	do
	{
		start_client("ca.pem", "ours.pem", "ours.key");
		pfd.fd = loopback_accept(listening, (int) (DEADLINE / 1000));
		is_int(poll(&pfd, 1, (int) (DEADLINE / 1000)), 1, "a handshake begins");
		took = zk_now();
		ok(stop_client(), "the client ends in the middle of it");
		took = zk_now() - took;
		do
			close(pfd.fd);
		while ((pfd.fd = loopback_accept(listening, 0)) >= 0);
	} while (took > ZK_MS(500) && ++rounds < 5);
	ok(took <= ZK_MS(500), "S173: at once");

	/* no server accepts it, so it waits until it is given up */
	start_client("ca.pem", "ours.pem", "ours.key");
	fails(-1, ZK_ERR_TLS, "did not respond to the TLS handshake in time", "a server that says nothing");
	start_client("ca.pem", "ours.pem", "ours.key");
	fails(listening, ZK_ERR_TLS, "closed the connection during the TLS handshake", "a server that hangs up");
}

static void
test_certificates(void)
{
	start_server("127.0.0.1", "other", NULL);
	start_client("ca.pem", "ours.pem", "ours.key");
	fails(-1, ZK_ERR_TLS, "Could not verify the certificate of the server at ",
		  "a server with another certificate");
	stop_server();

	start_server("127.0.0.1", "ca", "-Verify");
	start_client("ca.pem", "ours.pem", "ours.key");
	fails(-1, ZK_ERR_CERTIFICATE, "rejected the client certificate",
		  "a server that does not know ours");
	stop_server();
}

/* Servers whose certificates are for different hosts. */
static const struct
{
	const char *address;		/* where it listens */
	const char *hosts;			/* in its certificate */
	const char *list;			/* of servers, all with its port */
	bool		good;
	const char *what;
}			hosts[] =

{
	{"127.0.0.1", "IP:127.0.0.1", "127.0.0.1", true, "an address"},
	{"127.0.0.1", "IP:127.0.0.2,DNS:localhost", "127.0.0.1", false, "another address"},
	{"127.0.0.1", "DNS:127.0.0.1", "127.0.0.1", false, "an address as a name"},
	{"127.0.0.1", "DNS:localhost", "localhost", true, "a name"},
	{"127.0.0.1", "DNS:other,IP:127.0.0.1", "localhost", false, "another name"},
	{"127.0.0.1", "DNS:localhost", "127.0.0.1,localhost", true, "one of two"},
	{"[::1]", "IP:0:0:0:0:0:0:0:1", "[::1]", true, "an address of IPv6"},
	{"[::1]", "IP:::2", "[::1]", false, "another one"}
};

/* The list of the servers' hosts with the port, for the client. */
static void
name_servers(const char *list)
{
	size_t		used = 0;

	for (const char *c = list; *c; c += strcspn(c, ",") + (strchr(c, ',') != NULL))
		used += snprintf(servers + used, sizeof(servers) - used, "%s%.*s:%d",
						 used > 0 ? "," : "", (int) strcspn(c, ","), c, port);
}

/*
 * Only a server whose certificate is for the named host is accepted; that server does
 * not accept us.
 */
static void
test_hosts(void)
{
	int			any = 0;
	int			fd = loopback_listen(AF_INET6, 1, &any);
	bool		has_ipv6 = fd >= 0;

	if (has_ipv6)
		close(fd);
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
	{
		if (!has_ipv6 && hosts[i].address[0] == '[')
			continue;
		make_certificate("host", hosts[i].hosts);
		start_server(hosts[i].address, "host", "-Verify");
		name_servers(hosts[i].list);
		start_client("host.pem", "ours.pem", "ours.key");
		if (hosts[i].good)
			fails(-1, ZK_ERR_CERTIFICATE, "rejected the client certificate",
				  hosts[i].what);
		else
			fails(-1, ZK_ERR_TLS, " does not match host name \"",
				  hosts[i].what);
		stop_server();
	}
}

int
main(void)
{
	int			listening;
	const char *parent = getenv("TMPDIR");

	if (!zk_tls_supported())
		return skip_all("the client library was built without TLS");
	signal(SIGPIPE, SIG_IGN);
	snprintf(folder, sizeof(folder), "%s/zklock-tls.XXXXXX", parent != NULL ? parent : "/tmp");
	if (mkdtemp(folder) == NULL)
		return 1;
	make_certificate("ca", "IP:127.0.0.1");
	make_certificate("ours", "DNS:client");
	make_certificate("other", "IP:127.0.0.1");
	listening = start_listening();
	test_files(listening);
	test_silence(listening);
	close(listening);
	test_certificates();
	test_hosts();
	shell("rm -r \"$PWD\"");
	return done_testing();
}
