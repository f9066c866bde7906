/*-------------------------------------------------------------------------
 *
 * secret.c
 *	  What files with secrets or certificates must contain.
 *
 * The settings about TLS and SASL name these files.  Administrators wrote
 * them, so they can have any bytes.  OpenSSL judges later whether a certificate
 * or key in PEM format is one (C1, tls_settings.c); here a file of another kind
 * is found, and what the library cannot use: it takes the files for TLS and the
 * passphrase as one text, in which commas separate them.
 *
 * The checks return NULL for what is valid, else the reason, fit for a DETAIL,
 * without quoting anything.  All functions are pure, for any thread.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "secret.h"

/* Returns true if the text has this. */
static bool
contains(const char *text, size_t len, const char *part)
{
	return memmem(text, len, part, strlen(part)) != NULL;
}

/*
 * Checks a file whose first line is a password or passphrase.  The library
 * takes the latter (goes_to_library).  Sets *secret_len to its length in
 * bytes, 0 if it is invalid.
 */
const char *
zk_secret_check(const char *text, size_t len, bool goes_to_library,
				size_t *secret_len)
{
	size_t		end = 0;

	*secret_len = 0;
	while (end < len && text[end] != '\n' && text[end] != '\r')
		end++;
	if (end == 0)
		return "Its first line is empty.";
	if (end > ZK_MAX_SECRET)
		return "Its first line is too long.";
	if (memchr(text, '\0', end) != NULL)
		return "Its first line contains a zero byte.";
	if (goes_to_library && memchr(text, ',', end) != NULL)
		return "It contains a comma, which the ZooKeeper client library does not support.";
	*secret_len = end;
	return NULL;
}

/* Checks a file in PEM format. */
const char *
zk_pem_check(const char *text, size_t len, ZkPem pem)
{
	bool		is_key = pem != ZK_PEM_CERTIFICATES;

	if (!contains(text, len, "-----BEGIN ") ||
		!contains(text, len, is_key ? "PRIVATE KEY-----" : "CERTIFICATE-----"))
		return is_key ? "It contains no private key in PEM format." :
			"It contains no certificate in PEM format.";
	if (pem == ZK_PEM_KEY && contains(text, len, "ENCRYPTED"))
		return "The private key is encrypted, and \"zklock.tls_passphrase_file\" is not set.";
	return NULL;
}

/* Checks the path of a file for TLS. */
const char *
zk_library_path_check(const char *path)
{
	if (strchr(path, ',') == NULL)
		return NULL;
	return "Its path contains a comma, which the ZooKeeper client library does not support.";
}
