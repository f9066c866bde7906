/*-------------------------------------------------------------------------
 *
 * certificate.c
 *	  For which host a certificate is, by RFC 2818 and OpenSSL.
 *
 * A part of C9 (tls.c).  Pure, for any thread.
 *
 *-------------------------------------------------------------------------
 */
#ifdef ZKLOCK_TLS

#include <arpa/inet.h>
#include <string.h>

#include <openssl/x509v3.h>

#include "address.h"
#include "certificate.h"

/*
 * Returns true if a certificate is for this host, shorter than ZK_HOST_SIZE, as
 * it is in a list of servers.  An address must be in it as an address, without
 * its scope; a name may end in the dot that keeps resolvers from adding a
 * domain.
 *
 * OpenSSL's own function for addresses as text takes others for addresses than
 * resolvers do ("10.0.0.010", "10.0.-0.1").
 */
bool
zk_certificate_is_for(X509 *certificate, const char *host)
{
	size_t		len = strcspn(host, "%");
	char		name[ZK_HOST_SIZE];
	unsigned char address[sizeof(struct in6_addr)];

	memcpy(name, host, len);
	if (name[len - 1] == '.')
		len--;
	name[len] = '\0';
	if (inet_pton(AF_INET, name, address) == 1)
		return X509_check_ip(certificate, address, sizeof(struct in_addr), 0) == 1;
	if (inet_pton(AF_INET6, name, address) == 1)
		return X509_check_ip(certificate, address, sizeof(address), 0) == 1;
	return X509_check_host(certificate, name, len,
						   X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1;
}

#endif							/* ZKLOCK_TLS */
