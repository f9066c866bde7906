/*-------------------------------------------------------------------------
 *
 * resolver_test.c
 *	  Servers whose names the resolver answers in unusual ways (S63).
 *
 * The functions of the C library that ask it are replaced here.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "tap.h"

/* What the functions return: 0 if they do as always. */
static int	with_addrconfig;	/* getaddrinfo(), if that is asked for */
static int	without_addrconfig; /* ... and if it is not */
static int	to_number;			/* getnameinfo() */
static const char *reason;		/* gai_strerror() */

extern int	__real_getaddrinfo(const char *host, const char *service,
							   const struct addrinfo *hints, struct addrinfo **found);
extern int	__wrap_getaddrinfo(const char *host, const char *service,
							   const struct addrinfo *hints, struct addrinfo **found);
extern int	__real_getnameinfo(const struct sockaddr *address, socklen_t len, char *host,
							   socklen_t host_size, char *service, socklen_t service_size,
							   int flags);
extern int	__wrap_getnameinfo(const struct sockaddr *address, socklen_t len, char *host,
							   socklen_t host_size, char *service, socklen_t service_size,
							   int flags);
extern const char *__real_gai_strerror(int code);
extern const char *__wrap_gai_strerror(int code);

int
__wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
				   struct addrinfo **found)
{
	int			rc = (hints->ai_flags & AI_ADDRCONFIG) != 0 ? with_addrconfig : without_addrconfig;

	if (rc == 0)
		return __real_getaddrinfo(host, service, hints, found);
	errno = EMFILE;
	return rc;
}

int
__wrap_getnameinfo(const struct sockaddr *address, socklen_t len, char *host,
				   socklen_t host_size, char *service, socklen_t service_size, int flags)
{
	if (to_number == 0)
		return __real_getnameinfo(address, len, host, host_size, service, service_size, flags);
	return to_number;
}

const char *
__wrap_gai_strerror(int code)
{
	return reason != NULL ? reason : __real_gai_strerror(code);
}

/* Resolves a list.  Returns the addresses, malloc'd, or NULL. */
static char *
resolve(const char *list, ZkError *error, char *detail)
{
	ZkServers	found;
	char	   *addresses = NULL;

	if (zk_servers_resolve(list, &found, error, detail))
		addresses = strdup(found.addresses);
	zk_servers_free(&found);
	return addresses;
}

/* Nothing is resolved, for that reason. */
static void
is_refused(const char *list, ZkError expected, const char *why, const char *what)
{
	char		detail[ZK_DETAIL_SIZE];
	ZkError		error = ZK_OK;
	char	   *resolved = resolve(list, &error, detail);

	ok(resolved == NULL, "S63: %s: nothing is resolved", what);
	is_int(error, expected, "%s: the error", what);
	is_str(detail, why, "%s: the detail", what);
	free(resolved);
}

/* A machine has no address of the server's family: it is asked for all the same. */
static void
test_families(void)
{
	static const int refusals[] = {EAI_ADDRFAMILY, EAI_BADFLAGS};

	for (int i = 0; i < 2; i++)
	{
		char		detail[ZK_DETAIL_SIZE];
		ZkError		error = ZK_ERR_OTHER;
		char	   *resolved;

		with_addrconfig = refusals[i];
		resolved = resolve("127.0.0.1:1", &error, detail);
		is_str(resolved, "127.0.0.1:1", "another question is asked");
		is_int(error, ZK_OK, "and answered");
		free(resolved);
	}
	without_addrconfig = EAI_FAIL;
	reason = "a reason";
	is_refused("127.0.0.1:1", ZK_ERR_UNRESOLVED,
			   "Host \"127.0.0.1\" could not be resolved: a reason.", "neither is answered");
	with_addrconfig = without_addrconfig = 0;
}

static void
test_reasons(void)
{
	char		too_long[2 * ZK_DETAIL_SIZE] = {0};
	char		why[sizeof(too_long) + ZK_DETAIL_SIZE];

	with_addrconfig = EAI_SYSTEM;
	snprintf(why, sizeof(why), "Host \"a\" could not be resolved: %s.", strerror(EMFILE));
	is_refused("a:1", ZK_ERR_UNRESOLVED, why, "an error of the system");
	with_addrconfig = EAI_MEMORY;
	is_refused("127.0.0.1:1,b:1", ZK_ERR_NO_MEMORY, "Out of memory.", "no memory");

	with_addrconfig = EAI_AGAIN;
	memset(too_long, 'x', sizeof(too_long) - 1);
	reason = too_long;
	snprintf(why, sizeof(why), "Host \"a\" could not be resolved: %s.", reason);
	why[ZK_DETAIL_SIZE - 1] = '\0';
	is_refused("a:1,b:1", ZK_ERR_UNRESOLVED, why, "a reason that does not fit");
	with_addrconfig = 0;

	to_number = EAI_FAMILY;
	reason = "a family";
	is_refused("127.0.0.1:1", ZK_ERR_UNRESOLVED,
			   "Host \"127.0.0.1\" could not be resolved: a family.", "no number");
}

int
main(void)
{
	test_families();
	test_reasons();
	return done_testing();
}
