/*-------------------------------------------------------------------------
 *
 * auth.h
 *	  The client's identity to the ensemble: its credential, and the ACLs of
 *	  what it creates.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_AUTH_H
#define ZKLOCK_AUTH_H

#include <stdatomic.h>
#include <zookeeper/zookeeper.h>

#include "zk_session.h"
#include "zk_types.h"

/* Administrators' identities in the ACL of what we create. */
#define ZK_MAX_ADMINS		8

/* What the handle has done with the credential. */
typedef enum CredentialState
{
	CREDENTIAL_UNKNOWN,			/* it has none, or will not report an answer */
	CREDENTIAL_PRESENTED,		/* an answer will be reported */
	CREDENTIAL_ANSWERED			/* the ensemble has accepted it */
} CredentialState;

/*
 * The client's identity, and the ACLs of what it creates (auth.c).  Constant
 * except for the state of the credential, and for the flags, which are under
 * engine_lock.
 */
typedef struct ZkIdentity
{
	char	   *credential;		/* malloc'd; NULL for anybody */
	int			user_len;		/* bytes of it before the colon */
	char	   *root;			/* malloc'd; NULL without a credential */
	char	   *user_node;		/* path, malloc'd; NULL without one */
	bool		creator;		/* what we create is not for everybody */
	char	   *acl_text;		/* malloc'd; entries point into it */
	struct ACL	entries[ZK_MAX_ADMINS + 2];
	struct ACL_vector acl;		/* of containers and contenders */
	struct ACL_vector user_acl; /* of the user node */
	_Atomic CredentialState credential_state;
	bool		wanted;			/* the ensemble insists on one */
	bool		user_left;		/* the user node was asked for */
} ZkIdentity;

extern bool zk_identity_init(ZkIdentity *identity, const ZkConfig *config);
extern void zk_identity_free(ZkIdentity *identity);
extern bool zk_identity_present(ZkClient *client, zhandle_t *zh);
extern bool zk_identity_answered(const ZkIdentity *identity);
extern bool zk_identity_settled(const ZkIdentity *identity);
extern void zk_identity_leave_user(ZkClient *client);
extern bool zk_identity_wanted(ZkIdentity *identity, int rc);
#define ZK_IDENTITY_WANTED \
	"The ZooKeeper ensemble does not serve clients that have not authenticated."

#endif							/* ZKLOCK_AUTH_H */
