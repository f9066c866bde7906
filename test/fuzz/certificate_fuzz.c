/*-------------------------------------------------------------------------
 *
 * certificate_fuzz.c
 *	  Certificates and the hosts that they are for (S380).
 *
 * The first line of the input is a host, as in zklock.servers, which is left alone
 * if it is none; the second, the common name of a certificate.  Each further line is
 * another name of it, or, behind an "@", an address: the text of one, or its bytes.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <strings.h>

#include <openssl/x509v3.h>

#include "address.h"
#include "certificate.h"
#include "fuzz.h"
#include "zk_check.h"

#define MAX_NAMES	16

/* A name of the certificate. */
typedef struct Name
{
	bool		is_address;
	size_t		len;
	uint8_t		bytes[ZK_HOST_SIZE];
} Name;

/* What the input says. */
typedef struct Case
{
	char		host[ZK_HOST_SIZE];
	Name		common;
	Name		names[MAX_NAMES];
	int			count;
} Case;

/* Takes a line from the input.  Returns false at its end. */
static bool
next_line(const uint8_t **data, size_t *size, const uint8_t **line, size_t *len)
{
	const uint8_t *end;

	if (*size == 0)
		return false;
	end = memchr(*data, '\n', *size);
	*line = *data;
	*len = end != NULL ? (size_t) (end - *data) : *size;
	*data += *len + (end != NULL);
	*size -= *len + (end != NULL);
	return true;
}

/* The bytes of an address, 4 or 16, or 0 if the text is none. */
static size_t
address_bytes(const char *text, uint8_t *bytes)
{
	if (inet_pton(AF_INET, text, bytes) == 1)
		return 4;
	return inet_pton(AF_INET6, text, bytes) == 1 ? 16 : 0;
}

static void
take_name(Name *name, const uint8_t *line, size_t len, bool may_be_address)
{
	char		text[ZK_HOST_SIZE];

	name->is_address = may_be_address && len > 0 && line[0] == '@';
	if (name->is_address)
	{
		line++;
		len--;
	}
	name->len = len < sizeof(name->bytes) ? len : sizeof(name->bytes) - 1;
	memcpy(name->bytes, line, name->len);
	if (!name->is_address)
		return;
	memcpy(text, name->bytes, name->len);
	text[name->len] = '\0';
	len = address_bytes(text, name->bytes);
	if (len > 0)
		name->len = len;
}

/* Takes the host.  Returns false if zklock.servers cannot have it. */
static bool
take_host(char *host, const uint8_t *line, size_t len)
{
	char		list[ZK_HOST_SIZE + 16];
	char		detail[ZK_DETAIL_SIZE];

	if (len >= ZK_HOST_SIZE)
		return false;
	memcpy(host, line, len);
	host[len] = '\0';
	if (strlen(host) != len || strpbrk(host, ", \t\n\v\f\r[]") != NULL)
		return false;
	snprintf(list, sizeof(list), strchr(host, ':') != NULL ? "[%s]:1" : "%s:1", host);
	return zk_servers_check(list, detail);
}

static bool
take_case(Case *c, const uint8_t *data, size_t size)
{
	const uint8_t *line;
	size_t		len;

	memset(c, 0, sizeof(*c));
	if (!next_line(&data, &size, &line, &len) || !take_host(c->host, line, len))
		return false;
	if (next_line(&data, &size, &line, &len))
		take_name(&c->common, line, len, false);
	while (c->count < MAX_NAMES && next_line(&data, &size, &line, &len))
		take_name(&c->names[c->count++], line, len, true);
	return true;
}

static void
add_name(GENERAL_NAMES * names, const Name *name)
{
	GENERAL_NAME *general = GENERAL_NAME_new();
	ASN1_STRING *string = name->is_address ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();

	CHECK(general != NULL && string != NULL);
	CHECK(ASN1_STRING_set(string, name->bytes, (int) name->len) == 1);
	GENERAL_NAME_set0_value(general, name->is_address ? GEN_IPADD : GEN_DNS, string);
	CHECK(sk_GENERAL_NAME_push(names, general) > 0);
}

static X509 *
make_certificate(const Case *c)
{
	X509	   *certificate = X509_new();
	GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();

	CHECK(certificate != NULL && names != NULL);
	if (c->common.len > 0)
		X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
								   c->common.bytes, (int) c->common.len, -1, 0);
	for (int i = 0; i < c->count; i++)
		add_name(names, &c->names[i]);
	if (c->count > 0)
		CHECK(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, 0) == 1);
	GENERAL_NAMES_free(names);
	return certificate;
}

/* Returns true if a name is this one, or one with a star for its first label. */
static bool
covers(const Name *name, const char *host, size_t host_len)
{
	const char *text = (const char *) name->bytes;
	const char *dot = memchr(host, '.', host_len);
	size_t		rest;

	if (name->len == host_len && strncasecmp(text, host, host_len) == 0)
		return memchr(text, '\0', name->len) == NULL;
	if (dot == NULL || dot == host || name->len < 2 || memcmp(text, "*.", 2) != 0)
		return false;
	rest = host_len - (size_t) (dot - host);
	return name->len - 1 == rest && strncasecmp(text + 1, dot, rest) == 0 &&
		memchr(text, '\0', name->len) == NULL;
}

/*
 * Returns true if RFC 2818 lets the certificate be for a host: by an address of its
 * own, by one of its other names, or, if there is none, by its common name.
 */
static bool
may_be_for(const Case *c, const char *host)
{
	size_t		len = strcspn(host, "%");
	char		text[ZK_HOST_SIZE];
	uint8_t		address[16];
	size_t		address_len;
	bool		has_names = false;

	if (len > 0 && host[len - 1] == '.')
		len--;
	memcpy(text, host, len);
	text[len] = '\0';
	address_len = address_bytes(text, address);
	for (int i = 0; i < c->count; i++)
	{
		const Name *name = &c->names[i];

		has_names |= !name->is_address;
		if (name->is_address ? address_len > 0 && name->len == address_len &&
			memcmp(name->bytes, address, address_len) == 0 :
			address_len == 0 && covers(name, text, len))
			return true;
	}
	return address_len == 0 && !has_names && covers(&c->common, text, len);
}

/* Returns true if one of its names is the host, in so many letters. */
static bool
has_name(const Case *c)
{
	size_t		len = strlen(c->host);

	if (len == 0 || strspn(c->host, "abcdefghijklmnopqrstuvwxyz-.") != len ||
		c->host[0] == '.' || c->host[len - 1] == '.')
		return false;
	for (int i = 0; i < c->count; i++)
		if (!c->names[i].is_address && c->names[i].len == len &&
			memcmp(c->names[i].bytes, c->host, len) == 0)
			return true;
	return false;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Case		c;
	X509	   *certificate;
	char	   *host;
	bool		accepted;

	if (!take_case(&c, data, size))
		return 0;
	certificate = make_certificate(&c);
	host = exact_text(c.host, strlen(c.host));
	accepted = zk_certificate_is_for(certificate, host);
	CHECK(!accepted || may_be_for(&c, host));
	CHECK(accepted || !has_name(&c));
	free(host);
	X509_free(certificate);
	return 0;
}
