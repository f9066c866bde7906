/*-------------------------------------------------------------------------
 *
 * txn.h
 *	  Transactions, and what they share with the trees that they change.
 *
 * All of this has a count of references, and never changes once it is made: all
 * servers share it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TXN_H
#define TXN_H

#include "wire.h"

/* Data of a node; a null pointer is a null buffer. */
typedef struct Blob
{
	int			refs;
	int			len;
	char		bytes[];
} Blob;

typedef struct AclList
{
	int			refs;
	struct ACL_vector acl;
} AclList;

/* Who a connection has shown to be: ids of the scheme "digest". */
typedef struct Identities
{
	int			refs;
	int			count;
	char	  **digests;
} Identities;

typedef enum ChangeKind
{
	CHANGE_CREATE,
	CHANGE_DELETE,
	CHANGE_SET,
	CHANGE_SET_ACL,
	CHANGE_CHECK,
	CHANGE_MULTI,
	CHANGE_OPEN_SESSION,
	CHANGE_CLOSE_SESSION,
	CHANGE_ERROR				/* nothing: the request has failed */
} ChangeKind;

typedef struct Change
{
	ChangeKind	kind;
	int			err;			/* of CHANGE_ERROR; 0 if another one failed */
	char	   *path;
	Blob	   *data;
	AclList    *acl;
	int64_t		owner;			/* create: a session, CONTAINER_OWNER, or 0 */
	int			version;		/* set; of the parent's children: create */
} Change;

/* What the servers keep as the owner of a container. */
#define CONTAINER_OWNER INT64_MIN

typedef struct Transaction
{
	int			refs;
	int64_t		zxid;
	int64_t		session;
	int32_t		cxid;
	int64_t		time_ms;
	int			timeout_ms;		/* of a session that begins */
	Change		change;
	int			count;			/* multi */
	Change	   *changes;
	struct String_vector closed;	/* what a session leaves behind */
} Transaction;

extern Blob *blob_make(const char *data, int len);	/* null for a null buffer */
extern Blob *blob_share(Blob *blob);
extern void blob_drop(Blob *blob);
extern AclList *acl_list_make(const struct ACL_vector *acl);
extern AclList *acl_list_open(int perms);	/* for anyone */
extern AclList *acl_list_share(AclList *list);
extern void acl_list_drop(AclList *list);

/* Those of before and one more; drops the ones of before. */
extern Identities *identities_add(Identities *before, const char *digest);
extern Identities *identities_share(Identities *identities);
extern void identities_drop(Identities *identities);

/* "user:hash" for "user:password"; to be freed. */
extern char *digest_of(const char *credential);

/* Returns true if the ACL, null for none, lets them do it. */
extern bool acl_allows(const AclList *list, int perms, const Identities *identities);

extern Transaction *txn_make(int64_t zxid, int64_t session, int32_t cxid, int64_t time_ms);
extern Transaction *txn_share(Transaction *txn);
extern void txn_drop(Transaction *txn);

#endif							/* TXN_H */
