/*-------------------------------------------------------------------------
 *
 * certificate.h
 *	  For which host a certificate is (certificate.c).
 *
 * For the files beside this one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CERTIFICATE_H
#define ZKLOCK_CERTIFICATE_H

#include <stdbool.h>

#include <openssl/x509.h>

extern bool zk_certificate_is_for(X509 *certificate, const char *host);

#endif							/* ZKLOCK_CERTIFICATE_H */
