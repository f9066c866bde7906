/*-------------------------------------------------------------------------
 *
 * resolver.c
 *	  The resolver of the simulated world, which gets numeric addresses only.
 *
 * As the real one it takes memory, of which there may be none, and time; and it may
 * fail for a while.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "memory.h"
#include "resolver.h"
#include "seam.h"
#include "task.h"

/* What an answer is. */
typedef struct Found
{
	struct addrinfo info;
	struct sockaddr_in address;
} Found;

static struct
{
	SimTime		longest;		/* that a look-up takes */
	uint64_t	fail_one_in;	/* look-ups that fail; 0 for none */
}			resolver;

void
resolver_be(SimTime longest, uint64_t fail_one_in)
{
	resolver.longest = longest;
	resolver.fail_one_in = fail_one_in;
}

int
seam_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
				 struct addrinfo **result)
{
	Chance	   *chance = &process_now()->chance;
	Found	   *found;

	if (service != NULL)
		sim_violation("seam", "getaddrinfo() of a service");
	if (resolver.longest > 0)
		task_sleep(chance_between(chance, 0, resolver.longest));
	if (chance_one_in(chance, resolver.fail_one_in))
		return EAI_AGAIN;
	found = memory_get(sizeof(Found));
	if (found == NULL)
		return EAI_MEMORY;
	if (inet_pton(AF_INET, host, &found->address.sin_addr) != 1)
		sim_violation("seam", "getaddrinfo() of %s", host);
	found->address.sin_family = AF_INET;
	found->info.ai_family = AF_INET;
	found->info.ai_socktype = hints->ai_socktype;
	found->info.ai_addrlen = sizeof(found->address);
	found->info.ai_addr = (struct sockaddr *) &found->address;
	*result = &found->info;
	return 0;
}

void
seam_freeaddrinfo(struct addrinfo *result)
{
	memory_put(result);
}
