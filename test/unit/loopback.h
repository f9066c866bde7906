/*-------------------------------------------------------------------------
 *
 * loopback.h
 *	  Sockets of a test on the loopback interface.
 *
 * For any thread.  family is AF_INET or AF_INET6.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LOOPBACK_H
#define ZKLOCK_LOOPBACK_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* An address of either family. */
typedef union LoopbackAddress
{
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
} LoopbackAddress;

/* Make the address of a port.  Returns its length. */
static inline socklen_t
loopback_address(int family, int port, LoopbackAddress *address)
{
	memset(address, 0, sizeof(*address));
	address->any.sa_family = (sa_family_t) family;
	if (family == AF_INET)
	{
		address->ipv4.sin_port = htons((uint16_t) port);
		address->ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return sizeof(address->ipv4);
	}
	address->ipv6.sin6_port = htons((uint16_t) port);
	address->ipv6.sin6_addr = in6addr_loopback;
	return sizeof(address->ipv6);
}

/*
 * Make a socket that listens on *port, or, if that is 0, on a free one, which is *port
 * then.  Returns -1 with errno if that fails, as where there is no such interface.
 */
static inline int
loopback_listen(int family, int backlog, int *port)
{
	LoopbackAddress address;
	socklen_t	len = loopback_address(family, *port, &address);
	int			one = 1;
	int			fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
		bind(fd, &address.any, len) != 0 || listen(fd, backlog) != 0 ||
		getsockname(fd, &address.any, &len) != 0)
	{
		close(fd);
		return -1;
	}
	*port = ntohs(family == AF_INET ? address.ipv4.sin_port : address.ipv6.sin6_port);
	return fd;
}

/* Connect a socket to a port.  Returns as connect(). */
static inline int
loopback_connect(int fd, int family, int port)
{
	LoopbackAddress address;
	socklen_t	len = loopback_address(family, port, &address);

	return connect(fd, &address.any, len);
}

/* The next connection to a listening socket; -1 if there is none in so many milliseconds. */
static inline int
loopback_accept(int listening, int timeout_ms)
{
	struct pollfd pfd = {.fd = listening,.events = POLLIN};

	return poll(&pfd, 1, timeout_ms) == 1 ? accept(listening, NULL, NULL) : -1;
}

#endif							/* ZKLOCK_LOOPBACK_H */
