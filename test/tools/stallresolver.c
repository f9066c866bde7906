/*-------------------------------------------------------------------------
 *
 * stallresolver.c
 *	  A resolver that hangs for as long as a test wants.
 *
 * To be preloaded (LD_PRELOAD) into a program.  Its getaddrinfo() is the
 * system's, but a name is not looked up before the file that the environment
 * variable STALL_RESOLVER names is gone: as long as it is there, the caller
 * waits.  A caller that begins to wait adds a line to it, "PID NAME", so that a
 * test knows the waiters.  Numeric addresses never wait, because they need no server to
 * resolve them.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How often to look whether the file is gone. */
#define LOOK_EVERY_NS	(5 * 1000 * 1000)

typedef int (*ResolverFunction) (const char *node, const char *service,
								 const struct addrinfo *hints,
								 struct addrinfo **found);

/*
 * Can the system answer this without asking anybody?  An IPv6 address may
 * have a scope.
 */
static bool
is_numeric(const char *node, const struct addrinfo *hints)
{
	char		address[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE];
	unsigned char binary[sizeof(struct in6_addr)];

	if (node == NULL || (hints != NULL && (hints->ai_flags & AI_NUMERICHOST)))
		return true;
	snprintf(address, sizeof(address), "%s", node);
	address[strcspn(address, "%")] = '\0';
	return inet_pton(AF_INET, address, binary) == 1 ||
		inet_pton(AF_INET6, address, binary) == 1;
}

/*
 * Wait, on any thread, until the file is deleted; note the waiter and the name in
 * it.
 */
static void
wait_for_leave(const char *file, const char *node)
{
	const struct timespec pause = {.tv_nsec = LOOK_EVERY_NS};
	int			fd = open(file, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0)
		return;
	dprintf(fd, "%d %s\n", (int) getpid(), node);
	close(fd);
	while (access(file, F_OK) == 0)
		nanosleep(&pause, NULL);
}

/*
 * As getaddrinfo() of the C library, late.
 */
int
getaddrinfo(const char *node, const char *service,
			const struct addrinfo *hints, struct addrinfo **found)
{
	const char *file = getenv("STALL_RESOLVER");
	ResolverFunction real = (ResolverFunction) dlsym(RTLD_NEXT, "getaddrinfo");

	if (real == NULL)
	{
		errno = ENOSYS;
		return EAI_SYSTEM;
	}
	if (file != NULL && !is_numeric(node, hints))
		wait_for_leave(file, node);
	return real(node, service, hints, found);
}
