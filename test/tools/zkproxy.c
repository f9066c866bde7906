/*-------------------------------------------------------------------------
 *
 * zkproxy.c
 *	  A TCP proxy before a ZooKeeper server that breaks the connection at a
 *	  chosen point of the protocol.
 *
 * Usage: zkproxy [-r] [-l ADDRESS] HOST PORT [LISTEN_PORT]
 *
 * Listens on an IPv4 address, 127.0.0.1 by default, and forwards each connection
 * to that server.  Prints "listening PORT", then reads commands from standard
 * input, one on each line, and answers each with one line that begins with "ok"
 * or "error".  It ends when its standard input does.
 *
 *	pass				forward everything, beginning with what was held;
 *						disarm, undelay, listen again
 *	pass ID				undo every freeze of that session, and nothing else
 *	freeze [ID]			forward nothing either way, closed connections included
 *	freeze-requests [ID]	nothing from clients to the server
 *	freeze-replies [ID]	nothing from the server to clients
 *	cut [ID]			close the connections
 *	refuse				stop listening; connections that exist live on
 *	hang-up				listen, but close each new connection at once
 *	delay MS			forward what the server sends that much later
 *	cut-before-request TYPE [N]	close the connection instead of forwarding the
 *						Nth request of a type from now
 *	cut-after-request TYPE [N]	forward it, and close the connection instead of
 *						forwarding its reply: the server has done it by then
 *	hold-reply TYPE [N]	forward it, and then nothing more on that connection to
 *						the client
 *	hold-request TYPE [N]	forward what an earlier one of these commands has kept
 *						back; keep back the Nth request of a type from now, and
 *						what follows it on that connection
 *	fired				how many of these four have struck so far, and which
 *						session the last one has; 0x0 for one not made yet
 *	count				NAME=NUMBER ...: requests by type since the last
 *						count; and "event", the watch events of clients
 *	sessions			ID:PASSWORD ...: the sessions of open connections
 *	connections			how many are open
 *	accepted			how many were made since the last time this was asked
 *
 * ID (0x...) limits a command to one ZooKeeper session; a freeze then meets
 * the connections that its client makes later, too.
 * TYPE is a name from the table below, or "any" but pings; "connect" is the
 * handshake.  One of the four that strike once can be armed at a time.
 *
 * The protocol: a frame is a length of four bytes and that much payload.  The
 * first one in each direction is the handshake; of all others a request begins
 * with its xid and its type, a reply with the xid of its request.
 *
 * With -r the bytes are not looked at, for the protocols that servers speak to
 * each other.  Commands about sessions and types have nothing to meet then, and
 * a freeze also holds new connections: to the client they look established, but
 * carry no data.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "zkproxy.h"

/*
 * Ports to listen on are below those from which PostgreSQL's test modules
 * take theirs, and below the kernel's for outgoing connections: "refuse" gives
 * the port up and "pass" must get it back.  For the same reason they are not
 * those of ZooKeeper's servers, and not all of them are for every test: see
 * free_ports in test/lib/zookeeper.
 */
#define FIRST_PORT		8200
#define LAST_PORT		10199

/* Longer than any frame: what has such a length is no frame. */
#define MAX_FRAME		(16 * 1024 * 1024)

TypeCount	types[] = {
	{"create", 1, 0},
	{"delete", 2, 0},
	{"exists", 3, 0},
	{"getData", 4, 0},
	{"setData", 5, 0},
	{"getACL", 6, 0},
	{"setACL", 7, 0},
	{"getChildren", 8, 0},
	{"sync", 9, 0},
	{"ping", TYPE_PING, 0},
	{"getChildren2", 12, 0},
	{"check", 13, 0},
	{"multi", 14, 0},
	{"create2", 15, 0},
	{"reconfig", 16, 0},
	{"checkWatches", 17, 0},
	{"removeWatches", 18, 0},
	{"createContainer", 19, 0},
	{"createTTL", 21, 0},
	{"multiRead", 22, 0},
	{"auth", 100, 0},
	{"setWatches", 101, 0},
	{"sasl", 102, 0},
	{"setWatches2", 105, 0},
	{"closeSession", -11, 0},
	{"connect", TYPE_CONNECT, 0},
	{"event", TYPE_EVENT, 0},
	{"any", TYPE_ANY, 0},
	{NULL, 0, 0}
};

Proxy		proxy = {.listener = -1};

void
die(const char *what)
{
	fprintf(stderr, "zkproxy: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int32_t
get_int32(const unsigned char *p)
{
	return (int32_t) ((uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 |
					  (uint32_t) p[2] << 8 | (uint32_t) p[3]);
}

static int64_t
get_int64(const unsigned char *p)
{
	return (int64_t) ((uint64_t) (uint32_t) get_int32(p) << 32 |
					  (uint32_t) get_int32(p + 4));
}

static void
count_type(int32_t type)
{
	size_t		i;

	for (i = 0; types[i].name; i++)
		if (types[i].type == type)
			types[i].count++;
}

/* ---- connections ---- */

static void
set_socket_options(int fd)
{
	int			on = 1;

	if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
		die("fcntl");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/*
 * Listen on a port; false if it is taken.
 */
bool
listen_on(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int			on = 1;
	int			fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket");
	address.sin_addr = proxy.address;
	address.sin_port = htons((uint16_t) port);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *) &address, sizeof(address)) != 0 ||
		listen(fd, 128) != 0)
	{
		close(fd);
		return false;
	}
	set_socket_options(fd);
	proxy.listener = fd;
	proxy.port = port;
	return true;
}

static void
listen_somewhere(void)
{
	const char *setting = getenv("ZKLOCK_PORTS");
	int			slice = 0;
	int			slices = 1;
	int			tries;

	if (setting != NULL && sscanf(setting, "%d/%d", &slice, &slices) != 2)
		die("ZKLOCK_PORTS");
	srandom((unsigned int) (getpid() ^ now_ms()));
	for (tries = 0; tries < 1000; tries++)
	{
		int			among = (int) (random() % ((LAST_PORT - FIRST_PORT + 1) / slices));

		if (listen_on(FIRST_PORT + slice + slices * among))
			return;
	}
	die("no free port");
}

/*
 * Connect to the server; -1 if it does not listen.  On loopback the result is
 * immediate, except for a stopped server with a full queue of connections: the
 * proxy must not wait for that one.
 */
static int
connect_server(void)
{
	int			server = socket(proxy.server.ss_family,
								SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (server < 0)
		die("socket");
	if (connect(server, (struct sockaddr *) &proxy.server, proxy.server_len) == 0 ||
		errno == EINPROGRESS)
		return server;
	close(server);
	return -1;
}

/*
 * The same for a server that looks for its leader, which may listen only a
 * moment later.  If it were refused it would try again soon, but here it was
 * let in already, and if it is thrown out it begins another election.
 */
static int
connect_peer(void)
{
	int			server;
	int			tries;

	for (tries = 0; (server = connect_server()) < 0 && tries < 50; tries++)
		usleep(10000);
	return server;
}

static void
accept_client(void)
{
	int			client = accept4(proxy.listener, NULL, NULL, SOCK_CLOEXEC);
	int			server;
	Link	   *link;

	if (client < 0)
		return;
	proxy.accepted++;
	if (proxy.hangs_up)
	{
		close(client);
		return;
	}
	server = proxy.raw ? connect_peer() : connect_server();
	if (server < 0)
	{
		close(client);
		return;
	}
	set_socket_options(client);
	set_socket_options(server);
	link = calloc(1, sizeof(Link));
	if (!link)
		die("calloc");
	link->up.from = link->down.to = client;
	link->up.to = link->down.from = server;
	link->cut_xid = XID_NONE;
	link->opaque = proxy.raw;
	link->next = proxy.links;
	proxy.links = link;
}

static void
free_way(Way *way)
{
	while (way->first)
	{
		Frame	   *next = way->first->next;

		free(way->first);
		way->first = next;
	}
	free(way->input);
}

void
close_link(Link *link)
{
	Link	  **at;

	for (at = &proxy.links; *at != link; at = &(*at)->next)
		continue;
	*at = link->next;
	close(link->up.from);
	close(link->up.to);
	free_way(&link->up);
	free_way(&link->down);
	free(link);
}

/* ---- frames ---- */

/*
 * Have a frame sent on one way when it is due, after those before it.
 */
static void
append_frame(Way *way, const unsigned char *data, size_t len, int64_t due)
{
	Frame	   *frame = malloc(sizeof(Frame) + len);

	if (!frame)
		die("malloc");
	frame->next = NULL;
	frame->due = due;
	frame->len = len;
	frame->sent = 0;
	memcpy(frame->data, data, len);
	if (way->first)
		way->last->next = frame;
	else
		way->first = frame;
	way->last = frame;
}

/*
 * Does this request on a connection spring the trap that is set?  Then it is no
 * longer set.
 */
static Trap
spring_trap(const Link *link, int32_t type)
{
	Trap		trap = proxy.trap;

	bool		meant = type == proxy.trap_type ||
	(proxy.trap_type == TYPE_ANY && type != TYPE_PING);

	if (trap == TRAP_NONE || !meant || --proxy.trap_countdown > 0)
		return TRAP_NONE;
	proxy.trap = TRAP_NONE;
	proxy.fired++;
	proxy.fired_at = link->session;
	return trap;
}

/*
 * A client's frame: pass it on, and make ready for what is to befall it.
 */
static void
handle_request(Link *link, const unsigned char *frame, size_t len)
{
	bool		handshake = !link->up.handshake_seen;
	int32_t		xid = XID_NONE;
	int32_t		type = TYPE_CONNECT;
	int64_t		due = now_ms();

	link->up.handshake_seen = true;
	if (handshake && len >= 28)
		link->session = get_int64(frame + 20);
	else if (len >= 12)
	{
		xid = get_int32(frame + 4);
		type = get_int32(frame + 8);
	}
	count_type(type);
	switch (spring_trap(link, type))
	{
		case TRAP_NONE:
			break;
		case TRAP_CUT_BEFORE:
			link->up.ended = true;
			return;
		case TRAP_CUT_AFTER:
			link->cut_handshake = handshake;
			link->cut_xid = xid;
			break;
		case TRAP_HOLD_REPLY:
			link->down.held = true;
			break;
		case TRAP_HOLD_REQUEST:
			due = NEVER;
			break;
	}
	append_frame(&link->up, frame, len, due);
}

/*
 * A server's frame: pass it on, unless it is the one to get lost.
 */
static void
handle_reply(Link *link, const unsigned char *frame, size_t len)
{
	bool		handshake = !link->down.handshake_seen;
	int32_t		xid = !handshake && len >= 8 ? get_int32(frame + 4) : XID_NONE;

	link->down.handshake_seen = true;
	if (handshake && len >= 40)
	{
		link->session = get_int64(frame + 12);
		memcpy(link->password, frame + 24, sizeof(link->password));
	}
	if (handshake ? link->cut_handshake : xid != XID_NONE && xid == link->cut_xid)
	{
		link->down.ended = true;
		return;
	}
	if (xid == XID_EVENT)
		count_type(TYPE_EVENT);
	append_frame(&link->down, frame, len, now_ms() + proxy.delay_ms);
}

/*
 * Forward whatever was read.
 */
static void
take_bytes(const Link *link, Way *way)
{
	int			delay_ms = way == &link->down ? proxy.delay_ms : 0;

	append_frame(way, way->input, way->input_len, now_ms() + delay_ms);
	way->input_len = 0;
}

/*
 * Take complete frames off the input of a connection's one way.
 */
static void
take_frames(Link *link, Way *way)
{
	size_t		at = 0;

	while (!way->ended && !link->opaque && way->input_len - at >= 4)
	{
		const unsigned char *frame = way->input + at;
		int32_t		payload = get_int32(frame);
		size_t		len;

		if (payload < 0 || payload > MAX_FRAME)
		{
			link->opaque = true;
			break;
		}
		len = 4 + (size_t) payload;
		if (way->input_len - at < len)
			break;
		if (way == &link->up)
			handle_request(link, frame, len);
		else
			handle_reply(link, frame, len);
		at += len;
	}
	memmove(way->input, way->input + at, way->input_len - at);
	way->input_len -= at;
	if (link->opaque && way->input_len > 0)
		take_bytes(link, way);
}

static void
read_way(Link *link, Way *way)
{
	ssize_t		got;

	if (way->input_size - way->input_len < 65536)
	{
		way->input_size += 65536;
		way->input = realloc(way->input, way->input_size);
		if (!way->input)
			die("realloc");
	}
	got = read(way->from, way->input + way->input_len,
			   way->input_size - way->input_len);
	if (got > 0)
	{
		way->input_len += (size_t) got;
		take_frames(link, way);
	}
	else if (got == 0 || (errno != EAGAIN && errno != EINTR))
		way->ended = true;
}

/*
 * Send what is due.  False if the connection has ended.
 */
static bool
write_way(Way *way)
{
	while (way->first && way->first->due <= now_ms())
	{
		Frame	   *frame = way->first;
		ssize_t		sent = write(way->to, frame->data + frame->sent,
								 frame->len - frame->sent);

		if (sent < 0)
			return errno == EAGAIN || errno == EINTR;
		frame->sent += (size_t) sent;
		if (frame->sent < frame->len)
			return true;
		way->first = frame->next;
		free(frame);
	}
	return way->first || !way->ended;
}

static bool
is_held(const Link *link, const Way *way)
{
	bool		up = way == &link->up;
	int			i;

	for (i = 0; i < proxy.hold_count; i++)
	{
		const SessionHold *hold = &proxy.holds[i];

		if (hold->session == link->session && (up ? hold->up : hold->down))
			return true;
	}
	return way->held || (up ? proxy.held_up : proxy.held_down);
}

/* ---- the loop ---- */

static struct pollfd *poll_fds;
static nfds_t poll_count;
static nfds_t poll_size;

/*
 * Have poll() look at a descriptor; returns the place in poll_fds.
 */
static nfds_t
add_poll(int fd, short events)
{
	if (poll_count == poll_size)
	{
		poll_size = poll_size * 2 + 16;
		poll_fds = realloc(poll_fds, poll_size * sizeof(struct pollfd));
		if (!poll_fds)
			die("realloc");
	}
	poll_fds[poll_count] = (struct pollfd)
	{
		.fd = fd,.events = events
	};
	return poll_count++;
}

/*
 * POLLOUT if something can be sent on one way.  Lowers *timeout to the time
 * until something put off by "delay" is due.
 */
static short
wants_write(const Link *link, const Way *way, int *timeout)
{
	int64_t		wait;

	if (!way->first || way->first->due == NEVER || is_held(link, way))
		return 0;
	wait = way->first->due - now_ms();
	if (wait <= 0)
		return POLLOUT;
	if (*timeout < 0 || wait < *timeout)
		*timeout = (int) wait;
	return 0;
}

/*
 * Forward what can be on one way.  False when the connection is to be closed.
 */
static bool
serve_way(Link *link, Way *way, bool readable)
{
	if (readable && !way->ended)
		read_way(link, way);
	return is_held(link, way) || write_way(way);
}

/*
 * Where connections are to be taken on just now; -1 for nowhere.
 */
static int
active_listener(void)
{
	bool		frozen = proxy.held_up && proxy.held_down;

	return proxy.raw && frozen ? -1 : proxy.listener;
}

static bool
serve_once(void)
{
	Link	   *link;
	Link	   *next;
	nfds_t		at;
	int			timeout = -1;

	poll_count = 0;
	add_poll(STDIN_FILENO, POLLIN);
	add_poll(active_listener(), POLLIN);
	for (link = proxy.links; link; link = link->next)
	{
		short		client = wants_write(link, &link->down, &timeout);
		short		server = wants_write(link, &link->up, &timeout);

		/* A descriptor at its end would be reported for ever: leave it out. */
		client |= link->up.ended ? 0 : POLLIN;
		server |= link->down.ended ? 0 : POLLIN;
		add_poll(client ? link->up.from : -1, client);
		add_poll(server ? link->up.to : -1, server);
	}
	if (poll(poll_fds, poll_count, timeout) < 0)
		return errno == EINTR;

	at = 2;
	for (link = proxy.links; link; link = next)
	{
		bool		client = poll_fds[at++].revents & (POLLIN | POLLHUP | POLLERR);
		bool		server = poll_fds[at++].revents & (POLLIN | POLLHUP | POLLERR);

		next = link->next;
		if (!serve_way(link, &link->up, client) ||
			!serve_way(link, &link->down, server))
			close_link(link);
	}
	if (poll_fds[1].revents)
		accept_client();
	return !poll_fds[0].revents || read_commands();
}

static void
usage(void)
{
	fprintf(stderr,
			"usage: zkproxy [-r] [-l ADDRESS] HOST PORT [LISTEN_PORT]\n");
	exit(1);
}

/*
 * Read the options; returns how many words of the command line they take.
 */
static int
read_options(int argc, char **argv)
{
	int			option;

	proxy.address.s_addr = htonl(INADDR_LOOPBACK);
	while ((option = getopt(argc, argv, "rl:")) != -1)
	{
		if (option == 'r')
			proxy.raw = true;
		else if (option != 'l' || inet_aton(optarg, &proxy.address) == 0)
			usage();
	}
	return optind - 1;
}

int
main(int argc, char **argv)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	int			options = read_options(argc, argv);

	argc -= options;
	argv += options;
	if (argc < 3 || argc > 4)
		usage();
	signal(SIGPIPE, SIG_IGN);
	if (getaddrinfo(argv[1], argv[2], &hints, &found) != 0)
		die("getaddrinfo");
	memcpy(&proxy.server, found->ai_addr, found->ai_addrlen);
	proxy.server_len = found->ai_addrlen;
	freeaddrinfo(found);
	if (argc == 3)
		listen_somewhere();
	else if (!listen_on(atoi(argv[3])))
		die("listen");
	printf("listening %d\n", proxy.port);
	fflush(stdout);
	while (serve_once())
		continue;
	return 0;
}
