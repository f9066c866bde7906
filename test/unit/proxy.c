/*-------------------------------------------------------------------------
 *
 * proxy.c
 *	  A network between the lock client and ZooKeeper that can be broken.
 *
 * A packet is four bytes of length and the rest.  The first in each direction
 * is the handshake; after that a request begins with its xid and type, a reply
 * with the xid of the request.
 *
 * One thread does everything, under one lock except while it waits, so a
 * function of proxy.h has taken effect when it returns.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loopback.h"
#include "proxy.h"

#define MAX_LINKS	16

/* Longest packet that is believed in. */
#define MAX_PACKET	(4 * 1024 * 1024)

/* The xid of what is no reply: an event of a watch. */
#define EVENT_XID	(-1)

/* What a server answers that has too much to do, and a request that changes nothing. */
#define THROTTLED	(-127)
#define EXISTS_TYPE	3

/* The types of requests that are not counted: below 0 is the session's end. */
#define PING_TYPE	11

/* As many requests are remembered as are answered within a moment. */
#define MAX_ASKED	256

/* A request, by its number. */
typedef struct Asked
{
	int32_t		xid;
	int32_t		type;
} Asked;

/* One direction of a connection. */
typedef struct Stream
{
	int			from;
	int			to;
	unsigned char *data;
	size_t		have;
	size_t		room;
	int			packets;		/* forwarded so far */
} Stream;

/* A client's connection; to_server.from is -1 if there is none. */
typedef struct Link
{
	bool		impersonated;
	int			unanswered;		/* requests forwarded, replies not */
	bool		severed;		/* forward no request, cut when all are
								 * answered */
	bool		doomed;			/* cut before the reply to doomed_xid */
	bool		throttled;		/* that is to be replaced */
	int32_t		doomed_xid;
	Asked		asked[MAX_ASKED];	/* the last requests, in a ring */
	Stream		to_server;
	Stream		to_client;
} Link;

/* All under lock, except for the descriptors, which are set once. */
static struct
{
	pthread_mutex_t lock;
	pthread_t	thread;
	struct sockaddr_in server;
	int			listener;
	int			wake;			/* eventfd */
	unsigned int changes;		/* made by the test */
	bool		stop;
	bool		frozen;
	bool		refuse;
	int			type;
	int			nth;
	int			countdown;		/* 0: never */
	ProxyMoment moment;
	bool		repeat;
	int			cuts;
	int			throttled;
	const void *answer;
	size_t		answer_size;
	ProxyAlter	alter;
	Link		links[MAX_LINKS];
}			proxy = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int32_t
read_int(const unsigned char *bytes)
{
	return (int32_t) ((uint32_t) bytes[0] << 24 | (uint32_t) bytes[1] << 16 |
					  (uint32_t) bytes[2] << 8 | (uint32_t) bytes[3]);
}

static void
write_int(unsigned char *bytes, int32_t value)
{
	uint32_t	bits = (uint32_t) value;

	for (int i = 0; i < 4; i++)
		bytes[i] = (unsigned char) (bits >> (24 - 8 * i));
}

static void
close_link(Link *link)
{
	close(link->to_server.from);
	if (link->to_client.from >= 0)
		close(link->to_client.from);
	free(link->to_server.data);
	free(link->to_client.data);
	memset(link, 0, sizeof(*link));
	link->to_server.from = -1;
}

static void
cut_link(Link *link)
{
	close_link(link);
	proxy.cuts++;
}

/*
 * Send it all; false if the other side has hung up.
 */
static bool
send_all(int fd, const unsigned char *data, size_t size)
{
	while (size > 0)
	{
		ssize_t		sent = send(fd, data, size, MSG_NOSIGNAL);

		if (sent < 0 && errno != EINTR)
			return false;
		if (sent > 0)
		{
			data += sent;
			size -= (size_t) sent;
		}
	}
	return true;
}

/*
 * Is this the request to cut at?
 */
static bool
counts_down(const Link *link, const unsigned char *packet, size_t size)
{
	int32_t		type;

	if (proxy.countdown == 0 || link->to_server.packets == 0 || size < 12 ||
		link->severed || link->doomed || link->throttled)
		return false;
	type = read_int(packet + 8);
	if (proxy.type == PROXY_ANY_REQUEST ? type <= 0 || type == PING_TYPE :
		type != proxy.type)
		return false;
	if (--proxy.countdown > 0)
		return false;
	if (proxy.repeat)
		proxy.countdown = proxy.nth;
	return true;
}

/*
 * Forward a packet.  False if the link is closed, as the other side is gone.
 */
static bool
forward(Link *link, Stream *stream, const unsigned char *packet, size_t size)
{
	if (!send_all(stream->to, packet, size))
	{
		close_link(link);
		return false;
	}
	stream->packets++;
	return true;
}

/*
 * Forward a look at the root in the place of a request, so that the answer comes in its
 * turn.  False if the link is closed.
 */
static bool
forward_nothing(Link *link)
{
	unsigned char packet[18] = {[16] = '/'};

	write_int(packet, sizeof(packet) - 4);
	write_int(packet + 4, link->doomed_xid);
	write_int(packet + 8, EXISTS_TYPE);
	write_int(packet + 12, 1);
	return forward(link, &link->to_server, packet, sizeof(packet));
}

/*
 * The answer to that: tell the client that it is to try again.  False if the link is
 * closed.
 */
static bool
forward_refusal(Link *link, const unsigned char *packet)
{
	unsigned char refusal[20];

	memcpy(refusal, packet, sizeof(refusal));
	write_int(refusal, sizeof(refusal) - 4);
	write_int(refusal + 16, THROTTLED);
	link->throttled = false;
	link->unanswered--;
	proxy.throttled++;
	return forward(link, &link->to_client, refusal, sizeof(refusal));
}

/*
 * Forward a request, or do what is to be done instead.  False if the link is
 * closed.
 */
static bool
handle_request(Link *link, const unsigned char *packet, size_t size)
{
	if (counts_down(link, packet, size))
	{
		link->severed = proxy.moment == PROXY_BEFORE_REQUEST;
		link->doomed = proxy.moment == PROXY_BEFORE_REPLY;
		link->throttled = proxy.moment == PROXY_THROTTLE;
		link->doomed_xid = read_int(packet + 4);
		if (link->throttled)
		{
			link->unanswered++;
			return forward_nothing(link);
		}
	}
	if (link->severed)
	{
		if (link->unanswered > 0)
			return true;
		cut_link(link);
		return false;
	}
	link->unanswered++;
	if (link->to_server.packets > 0 && size >= 12)
		link->asked[link->to_server.packets % MAX_ASKED] =
			(Asked)
	{
		.xid = read_int(packet + 4),.type = read_int(packet + 8)
	};
	return forward(link, &link->to_server, packet, size);
}

/*
 * What kind of packet is this, that goes to the client?
 */
static int
kind_of(const Link *link, int32_t xid)
{
	if (link->to_client.packets == 0)
		return PROXY_HANDSHAKE;
	if (xid != EVENT_XID)
		for (int i = 0; i < MAX_ASKED; i++)
			if (link->asked[i].xid == xid)
				return link->asked[i].type;
	return PROXY_EVENT;
}

/*
 * Forward a reply or an event, as it is to be.  False if the link is closed.
 */
static bool
forward_altered(Link *link, const unsigned char *packet, size_t size, int32_t xid)
{
	unsigned char *altered;
	bool		open;

	if (proxy.alter == NULL)
		return forward(link, &link->to_client, packet, size);
	altered = malloc(size + PROXY_ALTER_ROOM);
	if (altered == NULL)
		abort();
	size = proxy.alter(kind_of(link, xid), packet, size, altered);
	open = forward(link, &link->to_client, altered, size);
	free(altered);
	return open;
}

/*
 * The same for a reply or an event.
 */
static bool
handle_reply(Link *link, const unsigned char *packet, size_t size)
{
	int32_t		xid = size >= 8 ? read_int(packet + 4) : EVENT_XID;

	if (link->doomed && link->to_client.packets > 0 && xid == link->doomed_xid)
	{
		cut_link(link);
		return false;
	}
	if (link->throttled && link->to_client.packets > 0 && xid == link->doomed_xid)
		return forward_refusal(link, packet);
	if (!forward_altered(link, packet, size, xid))
		return false;
	if (xid != EVENT_XID)
		link->unanswered--;
	if (!link->severed || link->unanswered > 0)
		return true;
	cut_link(link);
	return false;
}

/*
 * A packet has come.  False if the link is closed.
 */
static bool
handle_packet(Link *link, Stream *stream, const unsigned char *packet,
			  size_t size)
{
	if (link->impersonated)
	{
		if (stream->packets++ == 0)
			send_all(stream->from, proxy.answer, proxy.answer_size);
		return true;
	}
	if (stream == &link->to_server)
		return handle_request(link, packet, size);
	return handle_reply(link, packet, size);
}

/*
 * Something has come: handle the packets that are complete.
 */
static void
receive(Link *link, Stream *stream)
{
	ssize_t		got;
	size_t		done = 0;

	if (stream->room - stream->have < 65536)
	{
		stream->room += 65536;
		stream->data = realloc(stream->data, stream->room);
	}
	got = recv(stream->from, stream->data + stream->have,
			   stream->room - stream->have, 0);
	if (got <= 0)
	{
		/* a client may not wait until its connection is cut */
		if (link->severed || link->doomed)
			cut_link(link);
		else
			close_link(link);
		return;
	}
	stream->have += (size_t) got;
	while (stream->have - done >= 4)
	{
		int32_t		length = read_int(stream->data + done);

		if (length < 0 || length > MAX_PACKET)
		{
			close_link(link);
			return;
		}
		if (stream->have - done < (size_t) length + 4)
			break;
		if (!handle_packet(link, stream, stream->data + done,
						   (size_t) length + 4))
			return;
		done += (size_t) length + 4;
	}
	memmove(stream->data, stream->data + done, stream->have - done);
	stream->have -= done;
}

/*
 * A client connects.
 */
static void
accept_client(void)
{
	int			client = accept(proxy.listener, NULL, NULL);
	int			one = 1;
	Link	   *link = NULL;

	if (client < 0)
		return;
	for (int i = 0; i < MAX_LINKS && link == NULL; i++)
		if (proxy.links[i].to_server.from < 0)
			link = &proxy.links[i];
	if (proxy.refuse || link == NULL)
	{
		close(client);
		return;
	}
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	link->to_server.from = link->to_client.to = client;
	link->to_client.from = link->to_server.to = -1;
	link->impersonated = proxy.answer != NULL;
	if (link->impersonated)
		return;
	link->to_client.from = link->to_server.to = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(link->to_server.to, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(link->to_server.to, (struct sockaddr *) &proxy.server,
				sizeof(proxy.server)) != 0)
		close_link(link);
}

/*
 * Wait for something to come from anywhere, without the lock: fds has the wake
 * descriptor, the listener, and two for each link.  False if what came must not
 * be looked at, as the test has changed what may be done.
 */
static bool
wait_for_traffic(struct pollfd *fds)
{
	struct pollfd *fd = fds;
	unsigned int changes = proxy.changes;
	uint64_t	count;

	*fd++ = (struct pollfd)
	{
		.fd = proxy.wake,.events = POLLIN
	};
	*fd++ = (struct pollfd)
	{
		.fd = proxy.listener,.events = POLLIN
	};
	for (int i = 0; i < MAX_LINKS; i++)
	{
		Link	   *link = &proxy.links[i];
		bool		open = link->to_server.from >= 0;

		*fd++ = (struct pollfd)
		{
			.fd = open ? link->to_server.from : -1,.events = POLLIN
		};
		*fd++ = (struct pollfd)
		{
			.fd = open ? link->to_client.from : -1,.events = POLLIN
		};
	}
	if (proxy.frozen)
		for (int i = 1; i < 2 + 2 * MAX_LINKS; i++)
			fds[i].fd = -1;
	pthread_mutex_unlock(&proxy.lock);
	while (poll(fds, 2 + 2 * MAX_LINKS, -1) < 0 && errno == EINTR)
		;
	if (fds[0].revents != 0 && read(proxy.wake, &count, sizeof(count)) < 0)
		perror("eventfd");
	pthread_mutex_lock(&proxy.lock);
	return changes == proxy.changes;
}

static void *
proxy_main(void *arg)
{
	struct pollfd fds[2 + 2 * MAX_LINKS];

	(void) arg;
	pthread_mutex_lock(&proxy.lock);
	while (!proxy.stop)
	{
		if (!wait_for_traffic(fds))
			continue;
		for (int i = 0; i < MAX_LINKS; i++)
		{
			Link	   *link = &proxy.links[i];

			if (fds[2 + 2 * i].revents != 0)
				receive(link, &link->to_server);
			else if (fds[3 + 2 * i].revents != 0)
				receive(link, &link->to_client);
		}
		if (fds[1].revents != 0)
			accept_client();
	}
	pthread_mutex_unlock(&proxy.lock);
	return NULL;
}

/* Begin and end a change of what the proxy is to do. */
static void
change_begin(void)
{
	pthread_mutex_lock(&proxy.lock);
}

static void
change_end(void)
{
	uint64_t	one = 1;

	proxy.changes++;
	if (write(proxy.wake, &one, sizeof(one)) < 0)
		perror("eventfd");
	pthread_mutex_unlock(&proxy.lock);
}

bool
proxy_start(const char *server, char *address, size_t size)
{
	char		host[64];
	unsigned int port;
	int			own_port = 0;
	sigset_t	all;
	sigset_t	saved;
	int			rc;

	if (sscanf(server, "%63[0-9.]:%u", host, &port) != 2)
		return false;
	proxy.server.sin_family = AF_INET;
	proxy.server.sin_port = htons((uint16_t) port);
	if (inet_pton(AF_INET, host, &proxy.server.sin_addr) != 1)
		return false;
	for (int i = 0; i < MAX_LINKS; i++)
		proxy.links[i].to_server.from = -1;

	proxy.listener = loopback_listen(AF_INET, MAX_LINKS, &own_port);
	proxy.wake = eventfd(0, EFD_CLOEXEC);
	if (proxy.listener < 0 || proxy.wake < 0)
		return false;
	snprintf(address, size, "127.0.0.1:%d", own_port);

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	rc = pthread_create(&proxy.thread, NULL, proxy_main, NULL);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return rc == 0;
}

void
proxy_stop(void)
{
	change_begin();
	proxy.stop = true;
	change_end();
	pthread_join(proxy.thread, NULL);
	for (int i = 0; i < MAX_LINKS; i++)
		if (proxy.links[i].to_server.from >= 0)
			close_link(&proxy.links[i]);
	close(proxy.listener);
	close(proxy.wake);
}

void
proxy_freeze(void)
{
	change_begin();
	proxy.frozen = true;
	change_end();
}

void
proxy_thaw(void)
{
	change_begin();
	proxy.frozen = false;
	change_end();
}

void
proxy_cut(void)
{
	change_begin();
	for (int i = 0; i < MAX_LINKS; i++)
		if (proxy.links[i].to_server.from >= 0)
			cut_link(&proxy.links[i]);
	change_end();
}

void
proxy_refuse(bool refuse)
{
	change_begin();
	proxy.refuse = refuse;
	change_end();
}

void
proxy_cut_at(int type, int nth, ProxyMoment moment, bool repeat)
{
	change_begin();
	proxy.type = type;
	proxy.nth = proxy.countdown = nth;
	proxy.moment = moment;
	proxy.repeat = repeat;
	change_end();
}

void
proxy_throttle_at(int type, int nth)
{
	proxy_cut_at(type, nth, PROXY_THROTTLE, false);
}

int
proxy_throttled(void)
{
	int			throttled;

	pthread_mutex_lock(&proxy.lock);
	throttled = proxy.throttled;
	pthread_mutex_unlock(&proxy.lock);
	return throttled;
}

int
proxy_cuts(void)
{
	int			cuts;

	pthread_mutex_lock(&proxy.lock);
	cuts = proxy.cuts;
	pthread_mutex_unlock(&proxy.lock);
	return cuts;
}

void
proxy_inject(const void *bytes, size_t size)
{
	change_begin();
	for (int i = 0; i < MAX_LINKS; i++)
		if (proxy.links[i].to_server.from >= 0)
			send_all(proxy.links[i].to_server.from, bytes, size);
	change_end();
}

void
proxy_alter(ProxyAlter alter)
{
	change_begin();
	proxy.alter = alter;
	change_end();
}

void
proxy_impersonate(const void *bytes, size_t size)
{
	change_begin();
	proxy.answer = bytes;
	proxy.answer_size = size;
	change_end();
}
