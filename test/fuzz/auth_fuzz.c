/*-------------------------------------------------------------------------
 *
 * auth_fuzz.c
 *	  Credentials and descriptions of ACLs (S367).
 *
 * The input is the text of zklock.acl.  After a line's end comes a credential.
 *
 *-------------------------------------------------------------------------
 */
#include "auth.h"
#include "fuzz.h"
#include "zk_check.h"

#define ROOT	"/zklock"
#define USERS	ROOT "/.zklock/users/"

/* The user that a user node is named for, or an empty text if it is a name of none. */
static char *
user_of(const char *node)
{
	char	   *user = exact_text(node, strlen(node));
	size_t		len = 0;

	for (const char *c = node; *c != '\0'; c++)
	{
		unsigned int byte = (unsigned char) *c;

		if (*c == '%')
		{
			CHECK(sscanf(c + 1, "%2X", &byte) == 1);
			c += 2;
		}
		else
			CHECK(strspn(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
						 "0123456789-_") > 0);
		user[len++] = (char) byte;
	}
	user[len] = '\0';
	return user;
}

/* An ACL is open to all, or to the creator and to those who are named. */
static void
check_entries(const ZkIdentity *identity)
{
	const struct ACL_vector *acl = &identity->acl;

	if (!identity->creator)
	{
		CHECK(acl->count == 1 && strcmp(acl->data[0].id.scheme, "world") == 0);
		return;
	}
	CHECK(acl->count >= 1 && acl->count <= ZK_MAX_ADMINS + 1);
	CHECK(strcmp(acl->data[0].id.scheme, "auth") == 0);
	CHECK(identity->user_acl.count == acl->count + 1);
	CHECK(identity->user_acl.data[acl->count].perms == ZOO_PERM_READ);
	for (int i = 1; i < acl->count; i++)
	{
		const struct Id *id = &acl->data[i].id;

		CHECK(acl->data[i].perms == ZOO_PERM_ALL && id->id[0] != '\0');
		CHECK(strcmp(id->scheme, "digest") == 0 || strcmp(id->scheme, "ip") == 0 ||
			  strcmp(id->scheme, "sasl") == 0);
		CHECK(strchr(id->id, ',') == NULL);
	}
}

/* What is checked can be used: the identity is made of these, and says the same. */
static void
check_identity(const char *acl, const char *credential)
{
	ZkConfig	config = {.acl = acl,.credential = credential,.root = ROOT};
	ZkIdentity	identity;

	memset(&identity, 0, sizeof(identity));
	CHECK(zk_identity_init(&identity, &config));
	CHECK(identity.creator == zk_acl_wants_creator(acl));
	check_entries(&identity);
	if (credential != NULL)
	{
		char	   *user;

		CHECK(strncmp(identity.user_node, USERS, strlen(USERS)) == 0);
		user = user_of(identity.user_node + strlen(USERS));
		CHECK(strlen(user) == (size_t) identity.user_len && identity.user_len > 0);
		CHECK(strncmp(user, credential, strlen(user)) == 0 && credential[strlen(user)] == ':');
		free(user);
	}
	zk_identity_free(&identity);
}

/* Returns the credential if it is one, to be freed; else NULL. */
static char *
take_credential(const uint8_t *data, size_t size)
{
	char	   *copy = exact_copy(data, size);
	const char *wrong = zk_credential_check(copy, size);

	free(copy);
	CHECK(wrong == NULL || wrong[0] != '\0');
	return wrong == NULL ? exact_text(data, size) : NULL;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
	size_t		len = end != NULL ? (size_t) (end - data) : size;
	char	   *acl = exact_text(data, len);
	char	   *credential = end != NULL ? take_credential(end + 1, size - len - 1) : NULL;
	char	   *detail = malloc(ZK_DETAIL_SIZE);

	CHECK(detail != NULL);
	detail[0] = '\0';
	if (zk_acl_check(acl, detail))
	{
		CHECK(detail[0] == '\0');
		check_identity(acl, credential);
	}
	else
	{
		CHECK(memchr(detail, '\0', ZK_DETAIL_SIZE) != NULL && detail[0] != '\0');
		check_identity("open", credential);
	}
	free(take_credential(data, size));
	free(detail);
	free(credential);
	free(acl);
	return 0;
}
