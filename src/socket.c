/*-------------------------------------------------------------------------
 *
 * socket.c
 *	  The library's connection to a server, as far as we have a hand in it.
 *
 * Where the library is linked statically, the linker's --wrap sends the calls
 * below to us, as in guards.c:
 *
 * socket	makes descriptors that COPY ... TO PROGRAM does not inherit, and lets
 *			us know the server's address without asking the library, whose
 *			accessor races with its own thread.
 * socket, close	tell which connection is the library's, so that one can be
 *			given up that comes to nothing.
 *
 * IDENTIFICATION
 *	  src/socket.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"

/*
 * The library's socket, -1 if it has none, and when it was opened.  Under
 * socket_lock, which any thread may take; held while the socket is used by
 * others than the library, which waits with closing it until then.
 */
static pthread_mutex_t socket_lock = PTHREAD_MUTEX_INITIALIZER;
static int	last_socket = -1;
static ZkTime last_socket_at;

#ifdef ZKLOCK_STATIC_LIBRARY

extern int	__real_socket(int domain, int type, int protocol);
extern int	__real_close(int fd);

extern int	__wrap_socket(int domain, int type, int protocol);
extern int	__wrap_close(int fd);

/*
 * As socket(), close-on-exec, and remembered.
 */
int
__wrap_socket(int domain, int type, int protocol)
{
	int			fd;

	pthread_mutex_lock(&socket_lock);
	last_socket_at = zk_now();
	last_socket = fd = __real_socket(domain, type | SOCK_CLOEXEC, protocol);
	pthread_mutex_unlock(&socket_lock);
	return fd;
}

/*
 * As close(); if it is that socket, it is the library's no longer.
 */
int
__wrap_close(int fd)
{
	pthread_mutex_lock(&socket_lock);
	if (fd == last_socket)
		last_socket = -1;
	pthread_mutex_unlock(&socket_lock);
	return __real_close(fd);
}

#endif							/* ZKLOCK_STATIC_LIBRARY */

/*
 * Write the numeric "host:port" of the server at the other end of the
 * library's socket.  False if that cannot be told.  Any client thread.
 */
bool
zk_socket_peer(char *server, size_t size)
{
	struct sockaddr_storage peer;
	socklen_t	len = sizeof(peer);
	char		host[64];
	char		port[8];
	int			rc;

	pthread_mutex_lock(&socket_lock);
	rc = getpeername(last_socket, (struct sockaddr *) &peer, &len);
	pthread_mutex_unlock(&socket_lock);
	if (rc != 0 ||
		getnameinfo((struct sockaddr *) &peer, len, host, sizeof(host),
					port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return false;
	snprintf(server, size, peer.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
			 host, port);
	return true;
}

/*
 * When did the library begin to make the connection that it has?  Not before
 * that; without our hand on its calls all that is known is since when there was
 * none.  Any client thread.
 */
ZkTime
zk_socket_connecting_since(ZkTime disconnected_at)
{
	ZkTime		since;

	pthread_mutex_lock(&socket_lock);
	since = last_socket_at;
	pthread_mutex_unlock(&socket_lock);
	return since > disconnected_at ? since : disconnected_at;
}

/*
 * Break the connection that the library is making: it goes on to the next
 * server.  False if it has none.  Any client thread.
 */
bool
zk_socket_break_connection(void)
{
	bool		broken;

	pthread_mutex_lock(&socket_lock);
	broken = last_socket >= 0;
	if (broken)
		shutdown(last_socket, SHUT_RDWR);
	pthread_mutex_unlock(&socket_lock);
	return broken;
}
