/*-------------------------------------------------------------------------
 *
 * secret.h
 *	  What files with secrets or certificates must contain (secret.c).
 *
 * For backend/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SECRET_H
#define ZKLOCK_SECRET_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of a password or passphrase. */
#define ZK_MAX_SECRET	1000

/* What a file in PEM format is for. */
typedef enum ZkPem
{
	ZK_PEM_CERTIFICATES,
	ZK_PEM_KEY,					/* which must not be encrypted */
	ZK_PEM_KEY_WITH_PASSPHRASE
} ZkPem;

extern const char *zk_secret_check(const char *text, size_t len,
								   bool goes_to_library, size_t *secret_len);
extern const char *zk_pem_check(const char *text, size_t len, ZkPem pem);
extern const char *zk_library_path_check(const char *path);

#endif							/* ZKLOCK_SECRET_H */
