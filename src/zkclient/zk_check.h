/*-------------------------------------------------------------------------
 *
 * zk_check.h
 *	  Checks of values, and of what the library supports.
 *
 * Pure functions, for any thread; they need no client.
 *
 * Part of the interface between the worlds: see zk_session.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZK_CHECK_H
#define ZK_CHECK_H

#include "zk_types.h"

/* Returns true if the library was built with TLS, or with SASL. */
extern bool zk_tls_supported(void);
extern bool zk_sasl_supported(void);

/*
 * Returns true if zklock can check with TLS for which host a server's
 * certificate is.  The library does not, so this takes our hooks in its calls.
 */
extern bool zk_tls_verifies_hosts(void);

/*
 * Checks a list of servers, "host:port" or "[v6]:port" separated by commas.
 * If it is invalid, returns false with the reason in detail (ZK_DETAIL_SIZE
 * bytes).
 */
extern bool zk_servers_check(const char *servers, char *detail);

/*
 * Checks a "user:password" for the scheme "digest". Returns NULL if it is
 * valid, else the reason, fit for a DETAIL, without quoting anything.
 */
extern const char *zk_credential_check(const char *credential, size_t len);

/*
 * Checks the description of an ACL: "open", or "creator" and perhaps
 * identities of administrators, "scheme:id", separated by commas.  If it is
 * invalid, returns false with the reason in detail (ZK_DETAIL_SIZE bytes),
 * without quoting anything.
 */
extern bool zk_acl_check(const char *acl, char *detail);

/* Returns true if such a description requires a credential. */
extern bool zk_acl_wants_creator(const char *acl);

/*
 * Checks for an absolute path that ZooKeeper accepts and that names no
 * reserved znode.  Returns NULL if it is one, else the reason, fit for a
 * DETAIL.
 */
extern const char *zk_path_check(const char *path, size_t len);

/* Returns true for the name of a contender, of any known client. */
extern bool zk_contender_check(const char *name);

#endif							/* ZK_CHECK_H */
