/*-------------------------------------------------------------------------
 *
 * txn.c
 *	  Transactions, and what they share with the trees that they change.
 *
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "txn.h"

Blob *
blob_make(const char *data, int len)
{
	Blob	   *blob;

	if (len < 0 || data == NULL)
		return NULL;
	blob = sim_alloc(sizeof(Blob) + (size_t) len);
	blob->refs = 1;
	blob->len = len;
	memcpy(blob->bytes, data, (size_t) len);
	return blob;
}

Blob *
blob_share(Blob *blob)
{
	if (blob != NULL)
		blob->refs++;
	return blob;
}

void
blob_drop(Blob *blob)
{
	if (blob != NULL && --blob->refs == 0)
		free(blob);
}

AclList *
acl_list_make(const struct ACL_vector *acl)
{
	AclList    *list = sim_alloc(sizeof(AclList));

	list->refs = 1;
	acl_copy(&list->acl, acl);
	return list;
}

AclList *
acl_list_open(int perms)
{
	char		world[] = "world";
	char		anyone[] = "anyone";
	struct ACL	entry = {perms, {world, anyone}};
	struct ACL_vector acl = {1, &entry};

	return acl_list_make(&acl);
}

AclList *
acl_list_share(AclList *list)
{
	if (list != NULL)
		list->refs++;
	return list;
}

void
acl_list_drop(AclList *list)
{
	if (list == NULL || --list->refs > 0)
		return;
	acl_free(&list->acl);
	free(list);
}

Identities *
identities_add(Identities *before, const char *digest)
{
	int			count = before != NULL ? before->count : 0;
	Identities *after = sim_alloc(sizeof(Identities));

	after->refs = 1;
	after->digests = sim_alloc(sizeof(char *) * (size_t) (count + 1));
	for (int i = 0; i < count; i++)
	{
		if (strcmp(before->digests[i], digest) != 0)
			after->digests[after->count++] = sim_strdup(before->digests[i]);
	}
	after->digests[after->count++] = sim_strdup(digest);
	identities_drop(before);
	return after;
}

Identities *
identities_share(Identities *identities)
{
	if (identities != NULL)
		identities->refs++;
	return identities;
}

void
identities_drop(Identities *identities)
{
	if (identities == NULL || --identities->refs > 0)
		return;
	for (int i = 0; i < identities->count; i++)
		free(identities->digests[i]);
	free(identities->digests);
	free(identities);
}

char *
digest_of(const char *credential)
{
	size_t		user_len = strcspn(credential, ":");
	char	   *digest = sim_alloc(user_len + 18);

	snprintf(digest, user_len + 18, "%.*s:%016" PRIx64, (int) user_len, credential,
			 hash_text(credential, strlen(credential)));
	return digest;
}

static bool
entry_matches(const struct Id *id, const Identities *identities)
{
	if (strcmp(id->scheme, "world") == 0)
		return strcmp(id->id, "anyone") == 0;
	if (strcmp(id->scheme, "digest") != 0 || identities == NULL)
		return false;
	for (int i = 0; i < identities->count; i++)
	{
		if (strcmp(identities->digests[i], id->id) == 0)
			return true;
	}
	return false;
}

bool
acl_allows(const AclList *list, int perms, const Identities *identities)
{
	if (list == NULL || list->acl.count == 0)
		return true;
	for (int i = 0; i < list->acl.count; i++)
	{
		if ((list->acl.data[i].perms & perms) != 0 &&
			entry_matches(&list->acl.data[i].id, identities))
			return true;
	}
	return false;
}

Transaction *
txn_make(int64_t zxid, int64_t session, int32_t cxid, int64_t time_ms)
{
	Transaction *txn = sim_alloc(sizeof(Transaction));

	txn->refs = 1;
	txn->zxid = zxid;
	txn->session = session;
	txn->cxid = cxid;
	txn->time_ms = time_ms;
	return txn;
}

Transaction *
txn_share(Transaction *txn)
{
	txn->refs++;
	return txn;
}

static void
change_free(Change *change)
{
	free(change->path);
	blob_drop(change->data);
	acl_list_drop(change->acl);
}

void
txn_drop(Transaction *txn)
{
	if (txn == NULL || --txn->refs > 0)
		return;
	change_free(&txn->change);
	for (int i = 0; i < txn->count; i++)
		change_free(&txn->changes[i]);
	free(txn->changes);
	strings_free(&txn->closed);
	free(txn);
}
