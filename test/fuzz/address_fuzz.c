/*-------------------------------------------------------------------------
 *
 * address_fuzz.c
 *	  Lists of servers (S366).
 *
 * The input is the text of zklock.servers.  Lists of numeric addresses are resolved, too:
 * that asks no name server.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>

#include "address.h"
#include "fuzz.h"
#include "utf16.h"
#include "zk_check.h"

#define MAX_SERVERS	32

/* Returns true if the list names no host but by an address, without a scope. */
static bool
is_numeric(const char *list)
{
	for (const char *c = list; *c != '\0'; c++)
	{
		if (*c == '[')
			c += strcspn(c, "]");
		else if (strchr("0123456789.:, \t\n\v\f\r", *c) == NULL)
			return false;
	}
	return strchr(list, '%') == NULL;
}

/* Returns true if the library can take this: an address, a colon, and a port. */
static bool
is_endpoint(const char *text, size_t len)
{
	char		address[ZK_ADDRESS_SIZE];
	struct in6_addr binary;
	char	   *colon;
	char	   *end;
	long		port;

	CHECK(len < sizeof(address));
	memcpy(address, text, len);
	address[len] = '\0';
	colon = strrchr(address, ':');
	CHECK(colon != NULL);
	*colon = '\0';
	port = strtol(colon + 1, &end, 10);
	return end > colon + 1 && *end == '\0' && colon[1] != '0' && port >= 1 && port <= 65535 &&
		inet_pton(strchr(address, ':') != NULL ? AF_INET6 : AF_INET, address, &binary) == 1;
}

static void
check_resolved(const char *list)
{
	char		detail[ZK_DETAIL_SIZE];
	ZkServers	servers;
	ZkError		error;
	int			count = 0;

	CHECK(zk_servers_resolve(list, &servers, &error, detail));
	CHECK(error == ZK_OK && detail[0] == '\0');
	CHECK(servers.count >= 1 && servers.count <= MAX_SERVERS);
	for (const char *start = servers.addresses;; start++)
	{
		size_t		len = strcspn(start, ",");

		CHECK(is_endpoint(start, len));
		count++;
		start += len;
		if (*start == '\0')
			break;
	}
	CHECK(count % 2 == 1 && count <= MAX_SERVERS + 1);
	for (int i = 0; i < servers.count; i++)
	{
		CHECK(is_endpoint(servers.endpoints[i].address, strlen(servers.endpoints[i].address)));
		CHECK(strstr(list, servers.endpoints[i].host) != NULL);
	}
	zk_servers_free(&servers);
}

/* A list that is accepted has the same servers without its blanks. */
static void
check_accepted(const char *list)
{
	char	   *bare = exact_text(list, strlen(list));
	char	   *to = bare;
	char		detail[ZK_DETAIL_SIZE];
	int			servers = 1;

	for (const char *from = list; *from != '\0'; from++)
	{
		servers += *from == ',';
		if (strchr(" \t\n\v\f\r", *from) == NULL)
			*to++ = *from;
	}
	*to = '\0';
	CHECK(servers <= MAX_SERVERS);
	CHECK(zk_servers_check(bare, detail));
	CHECK(strchr(bare, '/') == NULL && strpbrk(bare, "\"'\\") == NULL);
	for (const char *c = bare; *c != '\0'; c++)
		CHECK(*c > ' ' && *c < 0x7F);
	if (is_numeric(list))
		check_resolved(list);
	free(bare);
}

/* Returns true if this is valid UTF-8. */
static bool
is_utf8(const char *text)
{
	size_t		len = strlen(text);
	uint16_t   *units = malloc(sizeof(uint16_t) * (len + 1));
	bool		valid;

	CHECK(units != NULL);
	valid = utf16_decode((const uint8_t *) text, len, units) >= 0;
	free(units);
	return valid;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *list = exact_text(data, size);
	char	   *detail = malloc(ZK_DETAIL_SIZE);
	bool		accepted;

	CHECK(detail != NULL);
	accepted = zk_servers_check(list, detail);
	CHECK(memchr(detail, '\0', ZK_DETAIL_SIZE) != NULL);
	CHECK(accepted == (detail[0] == '\0'));
	if (accepted)
		check_accepted(list);
	else
	{
		CHECK(detail[strlen(detail) - 1] == '.');
		CHECK(!is_utf8(list) || is_utf8(detail));
	}
	free(detail);
	free(list);
	return 0;
}
