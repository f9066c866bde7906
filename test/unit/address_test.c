/*-------------------------------------------------------------------------
 *
 * address_test.c
 *	  Tests of address.c: valid lists of servers, and their contents.
 *
 * The origins of the cases: what libzookeeper makes of a list that it cannot
 * parse (an IPv6 address in brackets fails, 02181 is octal, a slash starts a
 * path for all servers), ZOOKEEPER-2466 (an even number of servers), S63 (a
 * host that cannot be resolved is named).  Needs no network: the resolver is
 * asked for numbers, for localhost, and for a name that is too long for any
 * server.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <stdlib.h>

#include "address.h"
#include "random.h"
#include "tap.h"
#include "zk_check.h"

#define lengthof(array) ((int) (sizeof(array) / sizeof((array)[0])))

#define TEN		"0123456789"
#define FIFTY	TEN TEN TEN TEN TEN

/* bytes of UTF-8 that begin no character */
#define SIX_BYTES	"\x80\x80\x80\x80\x80\x80"
#define MANY_BYTES	SIX_BYTES SIX_BYTES SIX_BYTES SIX_BYTES SIX_BYTES SIX_BYTES

/* no label of a name may have more than 63 characters */
#define BAD_NAME	"a" FIFTY TEN TEN ".invalid"

/* Lists that are valid, and their servers resolved if they are numeric. */
static const struct
{
	const char *what;
	const char *list;
	const char *resolved;
}			valid[] =

{
	{"IPv4", "127.0.0.1:2181", "127.0.0.1:2181"},
	{"IPv6", "[::1]:2181", "::1:2181"},
	{"IPv6, long form", "[0:0:0:0:0:0:0:1]:2181", "::1:2181"},
	{"IPv6, upper case", "[FD00::AB]:2181", "fd00::ab:2181"},
	{"IPv4 in IPv6", "[::ffff:127.0.0.1]:2181", "::ffff:127.0.0.1:2181"},
	{"IPv6 with a scope", "[fe80::1%lo]:2181", "fe80::1%lo:2181"},
	{"lowest port", "127.0.0.1:1", "127.0.0.1:1"},
	{"highest port", "127.0.0.1:65535", "127.0.0.1:65535"},
	{"a port with zeros is decimal", "127.0.0.1:002181", "127.0.0.1:2181"},
	{"a port with many zeros", "127.0.0.1:000000000000000000000000002181", "127.0.0.1:2181"},
	{"three", "127.0.0.1:1,127.0.0.2:2,127.0.0.3:3", "127.0.0.1:1,127.0.0.2:2,127.0.0.3:3"},
	{"two become three", "127.0.0.1:1,127.0.0.2:2", "127.0.0.1:1,127.0.0.2:2,127.0.0.1:1"},
	{"four become five", "127.0.0.1:1,127.0.0.1:2,[::1]:3,127.0.0.1:4",
	"127.0.0.1:1,127.0.0.1:2,::1:3,127.0.0.1:4,127.0.0.1:1"},
	{"one thrice is one", "127.0.0.1:1,127.0.0.1:1,127.0.0.1:01", "127.0.0.1:1"},
	{"one in two spellings is one", "[::1]:1,[0::1]:1", "::1:1"},
	{"three of which two are equal become three", "127.0.0.1:1,127.0.0.2:1,127.0.0.1:1",
	"127.0.0.1:1,127.0.0.2:1,127.0.0.1:1"},
	{"one host, two ports", "127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:1"},
	{"spaces", " 127.0.0.1:1 ,\t[::1]:2\n,  127.0.0.3:3  ", "127.0.0.1:1,::1:2,127.0.0.3:3"},
	{"a name", "zk1.example.com:2181", NULL},
	{"a name without a port", "zk1.example.com", NULL},
	{"addresses without a port", "127.0.0.1,[::1],127.0.0.3:3", "127.0.0.1:2181,::1:2181,127.0.0.3:3"},
	{"a name with dash and underscore", "zk-1_a.local:2181", NULL},
	{"a name with a dot at the end", "zk1.example.com.:2181", NULL},
	{"a name that begins with a digit", "1zk:2181", NULL},
	{"a name of hexadecimal digits", "fe80:2181", NULL},
	{"a longest name", "a" FIFTY "." FIFTY "." FIFTY "." FIFTY "." FIFTY ":2181", NULL},
	{"32 servers",
		"h:1,h:2,h:3,h:4,h:5,h:6,h:7,h:8,h:9,h:10,h:11,h:12,h:13,h:14,h:15,h:16,"
		"h:17,h:18,h:19,h:20,h:21,h:22,h:23,h:24,h:25,h:26,h:27,h:28,h:29,h:30,h:31,h:32",
	NULL}
};

#define SLASH		" has a slash; a path behind a server is not supported."
#define PORT		" has no valid port; it must be between 1 and 65535."
#define COLONS		" has more than one colon; separate servers with commas, and enclose IPv6 addresses in brackets."
#define CHARACTER	" has a character that cannot be in a host name."
#define NAME		" has no valid host name."
#define IPV4		" has no valid IPv4 address."
#define IPV6		" has no valid IPv6 address in its brackets."

static const struct
{
	const char *list;
	const char *detail;
}			invalid[] =

{
	{"", "The list of servers is empty."},
	{" \t", "The list of servers is empty."},
	{",", "Server 1 of the list is empty."},
	{"a:1,", "Server 2 of the list is empty."},
	{"a:1, ,b:2", "Server 2 of the list is empty."},
	{",a:1", "Server 1 of the list is empty."},
	{"a:", "Server \"a:\"" PORT},
	{"[::1]:", "Server \"[::1]:\"" PORT},
	{":2181", "Server \":2181\" has no host."},
	{"[]:2181", "Server \"[]:2181\" has no host."},
	{":", "Server \":\"" PORT},
	{MANY_BYTES MANY_BYTES MANY_BYTES, "Server \"...\"" CHARACTER},
	{"[", "Server \"[\" has no closing bracket."},
	{"[::1:2181", "Server \"[::1:2181\" has no closing bracket."},
	{"[::1]2181", "Server \"[::1]2181\" has something between its closing bracket and the port."},
	{"[::1]x:2181", "Server \"[::1]x:2181\" has something between its closing bracket and the port."},
	{"a:0", "Server \"a:0\"" PORT},
	{"a:000", "Server \"a:000\"" PORT},
	{"a:65536", "Server \"a:65536\"" PORT},
	{"a:99999999999999999999", "Server \"a:99999999999999999999\"" PORT},
	{"a:-1", "Server \"a:-1\"" PORT},
	{"a:+1", "Server \"a:+1\"" PORT},
	{"a:0x885", "Server \"a:0x885\"" PORT},
	{"a:2181x", "Server \"a:2181x\"" PORT},
	{"a: 2181", "Server \"a: 2181\"" PORT},
	{"[::1]:http", "Server \"[::1]:http\"" PORT},
	{"a:1/x,b:2", "Server \"a:1/x\"" SLASH},
	{"a:1,b:2/", "Server \"b:2/\"" SLASH},
	{"http://a:1", "Server \"http://a:1\"" SLASH},
	{"::1:2181", "Server \"::1:2181\"" COLONS},
	{"fe80::1", "Server \"fe80::1\"" COLONS},
	{"a:1:2", "Server \"a:1:2\"" COLONS},
	{"a:1 b:2", "Server \"a:1 b:2\"" COLONS},
	{"a b:1", "Server \"a b:1\"" CHARACTER},
	{"a :1", "Server \"a :1\"" CHARACTER},
	{"a;b:1", "Server \"a;b:1\"" CHARACTER},
	{"user@a:1", "Server \"user@a:1\"" CHARACTER},
	{"a%eth0:1", "Server \"a%eth0:1\"" CHARACTER},
	{"caf\xC3\xA9:1", "Server \"caf\xC3\xA9:1\"" CHARACTER},
	{"::1]:1", "Server \"::1]:1\"" COLONS},
	{"a]:1", "Server \"a]:1\"" CHARACTER},
	{".:1", "Server \".:1\"" NAME},
	{".a:1", "Server \".a:1\"" NAME},
	{"a..b:1", "Server \"a..b:1\"" NAME},
	{"-a:1", "Server \"-a:1\"" NAME},
	{"10.0.0.300:1", "Server \"10.0.0.300:1\"" IPV4},
	{"10.0.0:1", "Server \"10.0.0:1\"" IPV4},
	{"2181:2181", "Server \"2181:2181\"" IPV4},
	{"010.0.0.1:1", "Server \"010.0.0.1:1\"" IPV4},
	{"[127.0.0.1]:1", "Server \"[127.0.0.1]:1\"" IPV6},
	{"[localhost]:1", "Server \"[localhost]:1\"" IPV6},
	{"[::g]:1", "Server \"[::g]:1\"" IPV6},
	{"[::1%]:1", "Server \"[::1%]:1\"" IPV6},
	{"[fe80::1%e 0]:1", "Server \"[fe80::1%e 0]:1\"" IPV6},
	{"[[::1]]:1", "Server \"[[::1]]:1\" has something between its closing bracket and the port."},
	{"h:1,h:2,h:3,h:4,h:5,h:6,h:7,h:8,h:9,h:10,h:11,h:12,h:13,h:14,h:15,h:16,"
		"h:17,h:18,h:19,h:20,h:21,h:22,h:23,h:24,h:25,h:26,h:27,h:28,h:29,h:30,h:31,h:32, x:33",
	"The list contains more than 32 servers."},
	{"bb" FIFTY "." FIFTY "." FIFTY "." FIFTY "." FIFTY ":2181",
		"Server \"bb" FIFTY "." TEN TEN TEN TEN "0123456...\""
	" has a host name that is too long."},
	{FIFTY TEN TEN TEN TEN "012345678" "\xC3\xA9" "0123456789:1",
	"Server \"" FIFTY TEN TEN TEN TEN "012345678" "...\"" CHARACTER}
};

static void
test_check(void)
{
	char		detail[ZK_DETAIL_SIZE];

	for (int i = 0; i < lengthof(valid); i++)
	{
		bool		accepted;

		memset(detail, 'x', sizeof(detail));
		accepted = zk_servers_check(valid[i].list, detail);
		if (!ok(accepted && detail[0] == '\0', "valid: %s", valid[i].what))
			diag("  %s", detail);
	}
	for (int i = 0; i < lengthof(invalid); i++)
	{
		memset(detail, 'x', sizeof(detail));
		ok(!zk_servers_check(invalid[i].list, detail), "not valid: \"%.60s\"",
		   invalid[i].list);
		is_str(detail, invalid[i].detail, "and why");
	}
}

static int
count_servers(const char *list)
{
	int			count = 1;

	for (; *list; list++)
		count += *list == ',';
	return count;
}

/* Is every server of the list a numeric address and this port? */
static bool
all_numeric(const char *list, const char *port)
{
	char		copy[1024];
	char	   *rest = copy;
	char	   *server;

	snprintf(copy, sizeof(copy), "%s", list);
	while ((server = strsep(&rest, ",")) != NULL)
	{
		char	   *colon = strrchr(server, ':');
		char		binary[sizeof(struct in6_addr)];

		if (colon == NULL || strcmp(colon + 1, port) != 0)
			return false;
		*colon = '\0';
		if (inet_pton(AF_INET, server, binary) != 1 &&
			inet_pton(AF_INET6, server, binary) != 1)
			return false;
	}
	return true;
}

/* The addresses of a list, malloc'd, or NULL: see zk_servers_resolve(). */
static char *
resolve(const char *list, ZkError *error, char *detail)
{
	ZkServers	found;
	bool		good = zk_servers_resolve(list, &found, error, detail);
	char	   *addresses = good ? strdup(found.addresses) : NULL;

	zk_servers_free(&found);
	return addresses;
}

static void
test_resolve(void)
{
	char		detail[ZK_DETAIL_SIZE];
	ZkError		error;
	char	   *resolved;

	for (int i = 0; i < lengthof(valid); i++)
	{
		if (valid[i].resolved == NULL)
			continue;
		memset(detail, 'x', sizeof(detail));
		error = ZK_ERR_OTHER;
		resolved = resolve(valid[i].list, &error, detail);
		is_str(resolved, valid[i].resolved, "resolved: %s", valid[i].what);
		is_int(error, ZK_OK, "no error: %s", valid[i].what);
		is_str(detail, "", "no detail: %s", valid[i].what);
		free(resolved);
	}

	resolved = resolve("localhost:2181", &error, detail);
	if (ok(resolved != NULL, "localhost is resolved"))
	{
		ok(count_servers(resolved) % 2 == 1, "into an odd number of servers");
		ok(all_numeric(resolved, "2181"), "all of them numbers: %s", resolved);
	}
	free(resolved);
}

/* Which hosts led to which addresses is known, and no address is asked for twice. */
static void
test_hosts(void)
{
	ZkServers	found;
	ZkError		error;
	char		detail[ZK_DETAIL_SIZE];

	ok(zk_servers_resolve("127.1.1.1:1, localhost:2, 127.0.0.1:2, [::1]:2, 127.1.1.1:1",
						  &found, &error, detail), "servers of which some are the same");
	is_str(found.endpoints[0].host, "127.1.1.1", "the host of the first address");
	is_str(found.endpoints[0].address, "127.1.1.1:1", "and the address");
	for (int i = 1; i < found.count; i++)
	{
		const char *address = found.endpoints[i].address;
		const char *host = found.endpoints[i].host;

		ok(strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 ||
		   strcmp(host, "::1") == 0, "address %s is that of %s", address, host);
	}
	ok(found.count >= 4, "an address that two hosts have is there for both");
	for (const char *c = found.addresses; (c = strstr(c, "127.0.0.1:2")) != NULL; c++)
		is_int(strstr(c + 1, "127.0.0.1:2") != NULL, false, "and is given once");
	zk_servers_free(&found);
}

/* Is the text a number of whole sentences? */
static bool
ends_well(const char *text)
{
	size_t		len = strlen(text);

	return len > 0 && text[len - 1] == '.';
}

static void
test_unresolved(void)
{
	char		detail[ZK_DETAIL_SIZE];
	ZkError		error;
	char	   *resolved;

	error = ZK_OK;
	resolved = resolve(BAD_NAME ":2181", &error, detail);
	ok(resolved == NULL && error == ZK_ERR_UNRESOLVED, "S63: no host can be resolved");
	ok(strncmp(detail, "Host \"" BAD_NAME "\" could not be resolved: ",
			   strlen("Host \"" BAD_NAME "\" could not be resolved: ")) == 0 &&
	   ends_well(detail), "S63: detail: %s", detail);
	free(resolved);

	resolved = resolve("127.0.0.1:1," BAD_NAME ":2181,127.0.0.2:2", &error, detail);
	is_str(resolved, "127.0.0.1:1,127.0.0.2:2,127.0.0.1:1",
		   "one of three cannot be resolved, which leaves an even number");
	is_int(error, ZK_OK, "and is no error");
	ok(strstr(detail, BAD_NAME) != NULL && ends_well(detail), "but named: %s", detail);
	free(resolved);

	resolved = resolve("a" BAD_NAME ":1,b" BAD_NAME ":1,c" BAD_NAME ":1,d"
					   BAD_NAME ":1", &error, detail);
	ok(resolved == NULL && error == ZK_ERR_UNRESOLVED, "none of four can be resolved");
	ok(strstr(detail, "\"a" BAD_NAME "\"") != NULL && ends_well(detail),
	   "those there is room for are named: %s", detail);
	free(resolved);

	resolved = resolve("no port", &error, detail);
	ok(resolved == NULL && error == ZK_ERR_UNRESOLVED, "an invalid list");
	is_str(detail, "Server \"no port\"" CHARACTER, "and why it is invalid");
	free(resolved);
}

/*
 * Whatever the text: an answer, a reason if and only if it is no, and nothing
 * that a sanitizer objects to.
 */
static void
test_random_lists(void)
{
	static const char alphabet[] = "a1.:,[]%-/ \xC3";
	int			wrong = 0;
	int			accepted = 0;

	seed_random(1);
	for (int i = 0; i < 200000; i++)
	{
		int			len = random_below(i % 10 ? 12 : 300);
		char	   *list = malloc(len + 1);
		char		detail[ZK_DETAIL_SIZE];

		for (int j = 0; j < len; j++)
			list[j] = alphabet[random_below(sizeof(alphabet) - 1)];
		list[len] = '\0';
		memset(detail, 'x', sizeof(detail));

		if (zk_servers_check(list, detail))
		{
			accepted++;
			wrong += detail[0] != '\0';
		}
		else
			wrong += memchr(detail, '\0', sizeof(detail)) == NULL || !ends_well(detail);
		free(list);
	}
	is_int(wrong, 0, "random lists: a reason with each that is refused");
	ok(accepted > 0, "random lists: %d are valid", accepted);
}

int
main(void)
{
	test_check();
	test_resolve();
	test_hosts();
	test_unresolved();
	test_random_lists();
	return done_testing();
}
