/*-------------------------------------------------------------------------
 *
 * zk_check.h
 *	  Is it well formed, and can the library do it?  Pure functions, any thread, no client.
 *
 * Part of the interface between the worlds: see zk_session.h.
 *
 * IDENTIFICATION
 *	  src/zkclient/zk_check.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZK_CHECK_H
#define ZK_CHECK_H

#include "zk_types.h"

/*
 * Was the library that is linked built with TLS, or SASL?
 */
extern bool zk_tls_supported(void);
extern bool zk_sasl_supported(void);

/*
 * With TLS, can it be seen to whom a server's certificate was given?  The
 * library does not look, so that takes our hands on its calls.
 */
extern bool zk_tls_verifies_hosts(void);

/*
 * Is this a list of servers, "host:port" or "[v6]:port" separated by commas?
 * False with the reason in detail (ZK_DETAIL_SIZE bytes).
 */
extern bool zk_servers_check(const char *servers, char *detail);

/*
 * Is this "user:password" for the scheme "digest"?  NULL if so, else what is
 * wrong, fit for a DETAIL, without quoting anything.
 */
extern const char *zk_credential_check(const char *credential, size_t len);

/*
 * Is this the description of an ACL, "open" or "creator", the latter maybe with
 * the identities of administrators, "scheme:id", separated by commas?  False
 * with the reason in detail (ZK_DETAIL_SIZE bytes), without quoting anything.
 */
extern bool zk_acl_check(const char *acl, char *detail);

/* Does such a description take a credential? */
extern bool zk_acl_wants_creator(const char *acl);

/*
 * Is this an absolute path that ZooKeeper accepts and that names no reserved
 * znode?  NULL if so, else what is wrong, fit for a DETAIL.
 */
extern const char *zk_path_check(const char *path, size_t len);

/* Is this the name of a contender, of any client that is known? */
extern bool zk_contender_check(const char *name);

#endif							/* ZK_CHECK_H */
