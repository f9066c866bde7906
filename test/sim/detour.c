/*-------------------------------------------------------------------------
 *
 * detour.c
 *	  Leads each session of operations.c to the real server of its choice.
 *
 * Each session has a port of its own, from which a thread forwards whatever comes.
 * While it leads nowhere, connections to it are made, and wait: the library need not
 * pause before it tries again.  test/tools/zkproxy can do more to one server, but leads
 * to no other one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "detour.h"
#include "operations.h"

#define MAX_PAIRS	8

/*
 * How often the library has the address: it pauses after the last one, and passes over
 * every other one of an even number.
 */
#define REPEATS		15
#define ADDRESS_SIZE	24

/* A connection of the library, and the one that it leads to. */
typedef struct Pair
{
	int			fds[2];			/* -1 for none */
} Pair;

/* Where a session comes to. */
typedef struct Port
{
	int			listener;
	int			server;			/* -1 for none */
	char		address[REPEATS * ADDRESS_SIZE];
	Pair		pairs[MAX_PAIRS];
} Port;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sockaddr_in servers[MAX_SERVERS];
static int	server_count;
static Port ports[MAX_SLOTS];

static void
die(const char *what)
{
	perror(what);
	exit(1);
}

static void
close_pair(Pair *pair)
{
	close(pair->fds[0]);
	close(pair->fds[1]);
	pair->fds[0] = pair->fds[1] = -1;
}

/* Connects to the port's server; -1 if that is not possible. */
static int
connect_server(const Port *port)
{
	int			fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int			yes = 1;

	if (fd < 0)
		die("socket");
	if (connect(fd, (const struct sockaddr *) &servers[port->server],
				sizeof(servers[0])) < 0)
	{
		close(fd);
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	return fd;
}

/* Returns a pair that is not in use; NULL if there is none. */
static Pair *
free_pair(Port *port)
{
	for (int i = 0; i < MAX_PAIRS; i++)
		if (port->pairs[i].fds[0] < 0)
			return &port->pairs[i];
	return NULL;
}

static void
accept_pair(Port *port)
{
	Pair	   *pair = free_pair(port);
	int			fd = accept(port->listener, NULL, NULL);
	int			server;
	int			yes = 1;

	if (fd < 0)
		return;
	server = pair != NULL ? connect_server(port) : -1;
	if (server < 0)
	{
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	pair->fds[0] = fd;
	pair->fds[1] = server;
}

/* Forwards what has come from one end of a pair to the other one. */
static void
forward(Pair *pair, int from)
{
	char		buffer[65536];
	ssize_t		len = recv(pair->fds[from], buffer, sizeof(buffer), MSG_DONTWAIT);

	if (len <= 0 || send(pair->fds[1 - from], buffer, (size_t) len, MSG_NOSIGNAL) != len)
		close_pair(pair);
}

/* Returns true if something has come. */
static bool
is_readable(int fd)
{
	struct pollfd entry = {.fd = fd,.events = POLLIN};

	return fd >= 0 && poll(&entry, 1, 0) > 0;
}

static void
serve_port(Port *port)
{
	if (port->server >= 0 && is_readable(port->listener))
		accept_pair(port);
	for (int i = 0; i < MAX_PAIRS; i++)
	{
		for (int end = 0; end < 2; end++)
		{
			if (is_readable(port->pairs[i].fds[end]))
				forward(&port->pairs[i], end);
		}
	}
}

/* Waits until something has come for a port; not for long, as it may lead elsewhere then. */
static void
await_port(const Port *port)
{
	struct pollfd entries[1 + 2 * MAX_PAIRS];

	pthread_mutex_lock(&lock);
	entries[0].fd = port->server >= 0 ? port->listener : -1;
	for (int i = 0; i < 2 * MAX_PAIRS; i++)
		entries[1 + i].fd = port->pairs[i / 2].fds[i % 2];
	for (int i = 0; i < 1 + 2 * MAX_PAIRS; i++)
		entries[i].events = POLLIN;
	pthread_mutex_unlock(&lock);
	poll(entries, 1 + 2 * MAX_PAIRS, 10);
}

static void *
serve(void *argument)
{
	Port	   *port = argument;

	for (;;)
	{
		await_port(port);
		pthread_mutex_lock(&lock);
		serve_port(port);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

/* Listens somewhere, in a thread of its own. */
static void
open_port(Port *port)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t	len = sizeof(name);
	pthread_t	thread;
	char		address[ADDRESS_SIZE];

	memset(port->pairs, -1, sizeof(port->pairs));
	port->server = -1;
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	port->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (port->listener < 0 || bind(port->listener, (struct sockaddr *) &name, len) < 0 ||
		listen(port->listener, 16) < 0 ||
		getsockname(port->listener, (struct sockaddr *) &name, &len) < 0)
		die("listen");
	snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(name.sin_port));
	for (int i = 0; i < REPEATS; i++)
	{
		if (i > 0)
			strcat(port->address, ",");
		strcat(port->address, address);
	}
	if (pthread_create(&thread, NULL, serve, port) != 0)
		die("pthread_create");
}

int
detour_begin(const char *list)
{
	char		host[64];
	int			number;
	int			len;

	while (server_count < MAX_SERVERS &&
		   sscanf(list, "%63[0-9.]:%d%n", host, &number, &len) == 2)
	{
		struct sockaddr_in *server = &servers[server_count++];

		server->sin_family = AF_INET;
		server->sin_port = htons((uint16_t) number);
		inet_pton(AF_INET, host, &server->sin_addr);
		list += len + (list[len] == ',');
	}
	for (int i = 0; i < MAX_SLOTS; i++)
		open_port(&ports[i]);
	return server_count;
}

const char *
detour_address(int session)
{
	return ports[session].address;
}

void
detour_lead(int session, int server)
{
	Port	   *port = &ports[session];

	pthread_mutex_lock(&lock);
	port->server = server;
	for (int i = 0; i < MAX_PAIRS; i++)
		for (int end = 0; end < 2; end++)
			if (port->pairs[i].fds[end] >= 0)
				shutdown(port->pairs[i].fds[end], SHUT_RDWR);
	pthread_mutex_unlock(&lock);
}
