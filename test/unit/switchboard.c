/*-------------------------------------------------------------------------
 *
 * switchboard.c
 *	  Many ports before one ZooKeeper server, each of which stands for a server that
 *	  can hang, die, be cut off or be slow.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loopback.h"
#include "switchboard.h"
#include "zk_types.h"

/* How often it looks whether something is to be different now. */
#define LOOK_MS		2

/* What was received and is not to be sent yet. */
typedef struct Chunk
{
	struct Chunk *next;
	ZkTime		due;
	size_t		size;
	char		data[];
} Chunk;

/* One way of a connection. */
typedef struct Way
{
	int			from;
	int			to;				/* -1: nowhere */
	Chunk	   *first;
	Chunk	  **last;
} Way;

typedef struct Call
{
	Port	   *port;
	Way			up;				/* from the client, which is there as long as
								 * up.from is not -1 */
	Way			down;
} Call;

static struct sockaddr_in server;
static Port *ports;
static int	port_count;
static int *listeners;
static Call *calls;
static int	call_count;

static void
drop_chunks(Way *way)
{
	for (Chunk *next; way->first != NULL; way->first = next)
	{
		next = way->first->next;
		free(way->first);
	}
	way->last = &way->first;
}

/* End a connection; the client's end is reset. */
static void
hang_up(Call *call)
{
	struct linger now = {.l_onoff = 1};

	setsockopt(call->up.from, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(call->up.from);
	if (call->down.from >= 0)
		close(call->down.from);
	drop_chunks(&call->up);
	drop_chunks(&call->down);
	call->up.from = -1;
}

static void
init_way(Way *way, int from, int to)
{
	way->from = from;
	way->to = to;
	way->first = NULL;
	way->last = &way->first;
}

/* A client connects to a port. */
static void
accept_call(Port *port, int listener)
{
	int			client = accept(listener, NULL, NULL);
	int			one = 1;
	int			upstream = -1;
	Call	   *call = NULL;

	if (client < 0)
		return;
	for (int i = 0; i < call_count && call == NULL; i++)
		if (calls[i].up.from < 0)
			call = &calls[i];
	if (call == NULL)
	{
		close(client);
		return;
	}
	if (port->mode == PORT_WORKS)
	{
		upstream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(upstream, (struct sockaddr *) &server, sizeof(server)) != 0)
			perror("connect");
		setsockopt(upstream, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	call->port = port;
	init_way(&call->up, client, upstream);
	init_way(&call->down, upstream, client);
	port->accepted_at = zk_now();
}

/* Take what has come.  False if the connection is over. */
static bool
receive(Call *call, Way *way)
{
	char		data[16384];
	ssize_t		got = recv(way->from, data, sizeof(data), 0);
	Chunk	   *chunk;

	if (got <= 0)
		return false;
	if (call->port->mode == PORT_CUT_OFF || way->to < 0)
		return true;
	chunk = malloc(sizeof(Chunk) + (size_t) got);
	if (chunk == NULL)
		return false;
	chunk->next = NULL;
	chunk->due = zk_now() + ZK_MS(call->port->delay_ms);
	chunk->size = (size_t) got;
	memcpy(chunk->data, data, (size_t) got);
	*way->last = chunk;
	way->last = &chunk->next;
	return true;
}

/* Send what is due.  False if the connection is over. */
static bool
send_due(Way *way, ZkTime now)
{
	while (way->first != NULL && way->first->due <= now)
	{
		Chunk	   *chunk = way->first;
		bool		sent = send(way->to, chunk->data, chunk->size, MSG_NOSIGNAL) ==
		(ssize_t) chunk->size;

		way->first = chunk->next;
		if (way->first == NULL)
			way->last = &way->first;
		free(chunk);
		if (!sent)
			return false;
	}
	return true;
}

/* Have the listeners be there, or not, as the ports' modes say. */
static void
keep_listeners(void)
{
	for (int i = 0; i < port_count; i++)
		if (ports[i].mode == PORT_DEAD && listeners[i] >= 0)
		{
			close(listeners[i]);
			listeners[i] = -1;
		}
		else if (ports[i].mode != PORT_DEAD && listeners[i] < 0)
			listeners[i] = loopback_listen(AF_INET, 16, &ports[i].port);
}

/* One turn: wait for something to come, and see to it. */
static void
turn(struct pollfd *fds)
{
	ZkTime		now;

	keep_listeners();
	for (int i = 0; i < port_count; i++)
		fds[i] = (struct pollfd)
	{
		.fd = ports[i].mode == PORT_HANGS ? -1 : listeners[i],.events = POLLIN
	};
	for (int i = 0; i < call_count; i++)
	{
		Call	   *call = &calls[i];
		struct pollfd *fd = &fds[port_count + 2 * i];

		if (call->up.from >= 0 && call->port->mode == PORT_DEAD)
			hang_up(call);
		fd[0] = fd[1] = (struct pollfd)
		{
			.fd = -1,.events = POLLIN
		};
		if (call->up.from < 0 || call->port->mode == PORT_HANGS)
			continue;
		fd[0].fd = call->up.from;
		fd[1].fd = call->down.from;
	}
	poll(fds, (nfds_t) (port_count + 2 * call_count), LOOK_MS);
	now = zk_now();
	for (int i = 0; i < call_count; i++)
	{
		Call	   *call = &calls[i];
		const struct pollfd *fd = &fds[port_count + 2 * i];

		if (call->up.from < 0 || call->port->mode == PORT_HANGS)
			continue;
		if ((fd[0].revents != 0 && !receive(call, &call->up)) ||
			(fd[1].revents != 0 && !receive(call, &call->down)) ||
			!send_due(&call->up, now) || !send_due(&call->down, now))
			hang_up(call);
	}
	for (int i = 0; i < port_count; i++)
		if (fds[i].revents != 0)
			accept_call(&ports[i], listeners[i]);
}

Port *
switchboard_start(const char *address, int count)
{
	char		host[64];
	unsigned int port;
	struct pollfd *fds;
	pid_t		parent = getpid();

	if (sscanf(address, "%63[0-9.]:%u", host, &port) != 2 ||
		inet_pton(AF_INET, host, &server.sin_addr) != 1)
		return NULL;
	server.sin_family = AF_INET;
	server.sin_port = htons((uint16_t) port);
	port_count = count;
	call_count = count * 3;
	ports = mmap(NULL, sizeof(Port) * (size_t) count, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	listeners = malloc(sizeof(int) * (size_t) count);
	calls = calloc((size_t) call_count, sizeof(Call));
	fds = malloc(sizeof(struct pollfd) * (size_t) (count + 2 * call_count));
	if (ports == MAP_FAILED || listeners == NULL || calls == NULL || fds == NULL)
		return NULL;
	for (int i = 0; i < count; i++)
		listeners[i] = loopback_listen(AF_INET, 16, &ports[i].port);
	for (int i = 0; i < call_count; i++)
		calls[i].up.from = -1;
	if (fork() == 0)
	{
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			turn(fds);
		_exit(0);
	}
	for (int i = 0; i < count; i++)
		close(listeners[i]);
	free(listeners);
	free(calls);
	free(fds);
	return ports;
}
