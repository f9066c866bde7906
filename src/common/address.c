/*-------------------------------------------------------------------------
 *
 * address.c
 *	  Server lists: check them, and resolve them into numbers.
 *
 * libzookeeper gets numeric addresses only.  With names, it would ask the
 * resolver on each turn of its event loop and on each reconnect, and hang with
 * it (ZOOKEEPER-1998); and it misreads what it cannot parse, a slash as the
 * start of a path and a leading zero as octal.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE				/* for EAI_ADDRFAMILY */
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "address.h"
#include "zk_check.h"

/* Most servers in a list. */
#define SERVERS_MAX		32

/* The port of a server that names none: ZooKeeper's own default. */
#define DEFAULT_PORT	2181

/* Longest piece of a list that a message quotes, terminating NUL included. */
#define QUOTE_SIZE		104

/* Sets of characters, whatever the locale; resolvers know underscores. */
#define SPACES			" \t\n\v\f\r"
#define DIGITS			"0123456789"
#define HOST_CHARACTERS	DIGITS "abcdefghijklmnopqrstuvwxyz" \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ" "-._"

typedef struct Server
{
	char		host[ZK_HOST_SIZE]; /* a name, or an address without brackets */
	int			port;
} Server;

/*
 * Copies a text of len bytes into quote (QUOTE_SIZE bytes), shortened between
 * two characters of UTF-8 if it is too long.  Returns quote.
 */
static const char *
quote_text(char *quote, const char *text, size_t len)
{
	size_t		keep = len;
	const char *tail = "";

	if (len >= QUOTE_SIZE)
	{
		tail = "...";
		keep = QUOTE_SIZE - 1 - strlen(tail);
		while (keep > 0 && ((unsigned char) text[keep] & 0xC0) == 0x80)
			keep--;
	}
	memcpy(quote, text, keep);
	strcpy(quote + keep, tail);
	return quote;
}

/* Says in detail what is wrong with a server of a list.  Returns false. */
static bool
refuse(char *detail, const char *text, size_t len, const char *why)
{
	char		quote[QUOTE_SIZE];

	snprintf(detail, ZK_DETAIL_SIZE, why,
			 quote_text(quote, text, len));
	return false;
}

/* Returns true if the text has none but these characters. */
static bool
consists_of(const char *text, const char *characters)
{
	return text[strspn(text, characters)] == '\0';
}

/* Returns the port that these digits name, and no digit follows, or 0. */
static int
parse_port(const char *text, size_t len)
{
	unsigned long port = strspn(text, DIGITS) == len ? strtoul(text, NULL, 10) : 0;

	return port <= 65535 ? (int) port : 0;
}

/* Checks a host that was not in brackets.  Returns NULL, or what is wrong. */
static const char *
check_host(const char *host)
{
	struct in_addr address;

	if (!consists_of(host, HOST_CHARACTERS))
		return "Server \"%s\" has a character that cannot be in a host name.";
	if (host[0] == '.' || host[0] == '-' || strstr(host, "..") != NULL)
		return "Server \"%s\" has no valid host name.";
	if (consists_of(host, DIGITS ".") && inet_pton(AF_INET, host, &address) != 1)
		return "Server \"%s\" has no valid IPv4 address.";
	return NULL;
}

/*
 * Checks what was in brackets: an IPv6 address, and maybe "%" and the scope of
 * a link-local one.  Returns NULL, or what is wrong.
 */
static const char *
check_ipv6(const char *host)
{
	static const char *const invalid = "Server \"%s\" has no valid IPv6 address in its brackets.";
	struct in6_addr binary;
	char		address[ZK_HOST_SIZE];
	char	   *scope;

	strcpy(address, host);
	scope = strchr(address, '%');
	if (scope)
	{
		*scope++ = '\0';
		if (*scope == '\0' || !consists_of(scope, HOST_CHARACTERS))
			return invalid;
	}
	return inet_pton(AF_INET6, address, &binary) == 1 ? NULL : invalid;
}

/*
 * Splits a server, len bytes, into host and port, which may be missing; *ipv6
 * says whether the host was in brackets.  Returns NULL, or what is wrong.
 */
static const char *
split_server(const char *text, size_t len, const char **host, size_t *host_len,
			 bool *ipv6, int *port)
{
	const char *end = text + len;
	const char *colon;

	*ipv6 = text[0] == '[';
	if (*ipv6)
	{
		const char *bracket = memchr(text, ']', len);

		if (bracket == NULL)
			return "Server \"%s\" has no closing bracket.";
		*host = text + 1;
		*host_len = bracket - *host;
		colon = bracket + 1;
		if (colon < end && *colon != ':')
			return "Server \"%s\" has something between its closing bracket and the port.";
	}
	else
	{
		colon = memchr(text, ':', len);
		if (colon == NULL)
			colon = end;
		else if (memchr(colon + 1, ':', end - colon - 1) != NULL)
			return "Server \"%s\" has more than one colon; separate servers with commas, and enclose IPv6 addresses in brackets.";
		*host = text;
		*host_len = colon - text;
	}

	*port = DEFAULT_PORT;
	if (colon < end)
		*port = parse_port(colon + 1, end - colon - 1);
	if (*port == 0)
		return "Server \"%s\" has no valid port; it must be between 1 and 65535.";
	return NULL;
}

/* Parses one server of a list.  Returns false with the reason in detail. */
static bool
parse_server(const char *text, size_t len, Server *server, char *detail)
{
	const char *problem;
	const char *host;
	size_t		host_len;
	bool		ipv6;

	/* libzookeeper would take all that follows for a path */
	if (memchr(text, '/', len) != NULL)
		return refuse(detail, text, len,
					  "Server \"%s\" has a slash; a path behind a server is not supported.");

	problem = split_server(text, len, &host, &host_len, &ipv6, &server->port);
	if (problem == NULL && host_len == 0)
		problem = "Server \"%s\" has no host.";
	if (problem == NULL && host_len >= ZK_HOST_SIZE)
		problem = "Server \"%s\" has a host name that is too long.";
	if (problem)
		return refuse(detail, text, len, problem);

	memcpy(server->host, host, host_len);
	server->host[host_len] = '\0';
	problem = ipv6 ? check_ipv6(server->host) : check_host(server->host);
	if (problem)
		return refuse(detail, text, len, problem);
	return true;
}

/* Parses a list.  Returns how many servers, or 0 with the reason in detail. */
static int
parse_servers(const char *list, Server *servers, char *detail)
{
	int			count = 0;

	if (consists_of(list, SPACES))
	{
		snprintf(detail, ZK_DETAIL_SIZE, "The list of servers is empty.");
		return 0;
	}

	for (;;)
	{
		size_t		len = strcspn(list, ",");
		const char *start = list + strspn(list, SPACES);
		const char *end = list + len;

		while (end > start && strchr(SPACES, end[-1]) != NULL)
			end--;

		if (start == end)
		{
			snprintf(detail, ZK_DETAIL_SIZE,
					 "Server %d of the list is empty.", count + 1);
			return 0;
		}
		if (count == SERVERS_MAX)
		{
			snprintf(detail, ZK_DETAIL_SIZE,
					 "The list contains more than %d servers.", SERVERS_MAX);
			return 0;
		}
		if (!parse_server(start, end - start, &servers[count], detail))
			return 0;
		count++;

		if (list[len] == '\0')
			return count;
		list += len + 1;
	}
}

/*
 * Returns true for a list of one to 32 servers, "host:port" or "[v6]:port",
 * separated by commas and maybe spaces.  The host is a name or a numeric
 * address; nothing is resolved.  Else the reason is in detail (ZK_DETAIL_SIZE
 * bytes).  Any thread.
 */
bool
zk_servers_check(const char *servers, char *detail)
{
	Server		parsed[SERVERS_MAX];

	detail[0] = '\0';
	return parse_servers(servers, parsed, detail) > 0;
}

/* Returns true if that address is known, for that host (NULL: for any). */
static bool
is_known(const ZkServers *servers, int count, const char *address, const char *host)
{
	for (int i = 0; i < count; i++)
		if (strcmp(servers->endpoints[i].address, address) == 0 &&
			(host == NULL || strcmp(servers->endpoints[i].host, host) == 0))
			return true;
	return false;
}

/* Adds an address unless known.  Returns false if out of memory. */
static bool
add_endpoint(ZkServers *servers, const char *address, const char *host)
{
	ZkEndpoint *endpoint;

	if (is_known(servers, servers->count, address, host))
		return true;
	if (servers->count == servers->capacity)
	{
		int			capacity = servers->capacity ? servers->capacity * 2 : 8;
		void	   *endpoints = realloc(servers->endpoints,
										capacity * sizeof(ZkEndpoint));

		if (endpoints == NULL)
			return false;
		servers->endpoints = endpoints;
		servers->capacity = capacity;
	}
	endpoint = &servers->endpoints[servers->count++];
	strcpy(endpoint->address, address);
	strcpy(endpoint->host, host);
	return true;
}

/*
 * Asks the resolver for all addresses of a host.  Returns getaddrinfo()'s
 * result.  Like libzookeeper, leaves out families that this machine has no
 * address of, which could not be reached, unless that leaves nothing.
 */
static int
look_up(const char *host, struct addrinfo **found)
{
	struct addrinfo hints;
	int			rc;

	memset(&hints, 0, sizeof(hints));
	hints.ai_family = AF_UNSPEC;
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = AI_ADDRCONFIG;
	rc = getaddrinfo(host, NULL, &hints, found);
	if (rc == EAI_ADDRFAMILY || rc == EAI_BADFLAGS)
	{
		hints.ai_flags = 0;
		rc = getaddrinfo(host, NULL, &hints, found);
	}
	return rc;
}

/*
 * Adds all addresses of a server, as "1.2.3.4:2181" or "::1:2181": libzookeeper
 * knows no brackets and splits at the last colon.  It understands a scope, as
 * in "fe80::1%eth0:2181".  Returns 0, or an error of getaddrinfo() or
 * getnameinfo(), such as EAI_MEMORY.
 */
static int
resolve_server(const Server *server, ZkServers *servers)
{
	struct addrinfo *found;
	int			rc = look_up(server->host, &found);

	if (rc != 0)
		return rc;

	for (struct addrinfo *it = found; it && rc == 0; it = it->ai_next)
	{
		char		number[ZK_ADDRESS_SIZE - sizeof(":65535")];
		char		address[ZK_ADDRESS_SIZE];

		rc = getnameinfo(it->ai_addr, it->ai_addrlen, number, sizeof(number),
						 NULL, 0, NI_NUMERICHOST);
		if (rc != 0)
			break;
		snprintf(address, sizeof(address), "%s:%d", number, server->port);
		if (!add_endpoint(servers, address, server->host))
			rc = EAI_MEMORY;
	}
	freeaddrinfo(found);
	return rc;
}

/* Adds to detail, if it fits, why a server (rc, errno) was not resolved. */
static void
note_failure(char *detail, const Server *server, int rc)
{
	size_t		used = strlen(detail);
	size_t		room = ZK_DETAIL_SIZE - used;
	const char *space = used > 0 ? " " : "";
	char		quote[QUOTE_SIZE];
	int			written;

	quote_text(quote, server->host, strlen(server->host));
	if (rc == EAI_SYSTEM)
		written = snprintf(detail + used, room,
						   "%sHost \"%s\" could not be resolved: %m.",
						   space, quote);
	else
		written = snprintf(detail + used, room,
						   "%sHost \"%s\" could not be resolved: %s.",
						   space, quote, gai_strerror(rc));

	/* one whole sentence is better than two, the last one truncated */
	if ((size_t) written >= room && used > 0)
		detail[used] = '\0';
}

/*
 * Returns a malloc'd text of the addresses, each once; NULL if out of memory.
 * An even number is made odd by naming the first one again: after a failure
 * libzookeeper moves on by two servers, and would never try every other one
 * (ZOOKEEPER-2466).
 */
static char *
join_addresses(const ZkServers *servers)
{
	const ZkEndpoint *endpoints = servers->endpoints;
	char	   *joined = malloc((size_t) (servers->count + 1) * ZK_ADDRESS_SIZE);
	char	   *end = joined;
	int			count = 0;

	if (joined == NULL)
		return NULL;
	for (int i = 0; i < servers->count; i++)
	{
		if (is_known(servers, i, endpoints[i].address, NULL))
			continue;
		end += sprintf(end, "%s%s", count > 0 ? "," : "", endpoints[i].address);
		count++;
	}
	if (count % 2 == 0)
		sprintf(end, ",%s", endpoints[0].address);
	return joined;
}

/*
 * Resolves a list that zk_servers_check() accepts into numeric addresses for
 * libzookeeper, as join_addresses() writes them.
 *
 * If only some servers can be resolved, detail (ZK_DETAIL_SIZE bytes) names the
 * others, as far as there is room; else it is empty.  Returns false, with
 * *error and the reason in detail, if none can (ZK_ERR_UNRESOLVED) or memory
 * runs out (ZK_ERR_NO_MEMORY). zk_servers_free() is due in any case.
 *
 * Blocks as long as the resolver does.  Any thread except the backend's.
 */
bool
zk_servers_resolve(const char *list, ZkServers *servers, ZkError *error, char *detail)
{
	Server		parsed[SERVERS_MAX];
	int			count;
	int			rc = 0;

	memset(servers, 0, sizeof(*servers));
	detail[0] = '\0';
	count = parse_servers(list, parsed, detail);
	for (int i = 0; i < count && rc != EAI_MEMORY; i++)
	{
		rc = resolve_server(&parsed[i], servers);
		if (rc != 0)
			note_failure(detail, &parsed[i], rc);
	}

	*error = ZK_ERR_UNRESOLVED;
	if (servers->count > 0 && rc != EAI_MEMORY)
		servers->addresses = join_addresses(servers);
	if (servers->addresses != NULL)
		*error = ZK_OK;
	else if (servers->count > 0 || rc == EAI_MEMORY)
	{
		*error = ZK_ERR_NO_MEMORY;
		snprintf(detail, ZK_DETAIL_SIZE, "Out of memory.");
	}
	return servers->addresses != NULL;
}

/* Frees what there is of these servers. */
void
zk_servers_free(ZkServers *servers)
{
	free(servers->addresses);
	free(servers->endpoints);
	memset(servers, 0, sizeof(*servers));
}
