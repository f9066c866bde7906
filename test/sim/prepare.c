/*-------------------------------------------------------------------------
 *
 * prepare.c
 *	  How the leader makes a transaction of a request: PrepRequestProcessor.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prepare.h"

#define PERM_READ		1
#define PERM_WRITE		2
#define PERM_CREATE		4
#define PERM_DELETE		8
#define PERM_ADMIN		16

#define MODE_EPHEMERAL	1
#define MODE_SEQUENTIAL	2
#define MODE_CONTAINER	4

/* What requests are checked against. */
typedef struct Look
{
	bool		exists;
	int			version;
	int			cversion;		/* the number of creates: for names */
	int			children;
	int64_t		owner;
	AclList    *acl;			/* of whoever it is read from */
} Look;

struct Record
{
	HashEntry	entry;			/* of the newest for its path */
	char	   *path;
	int64_t		zxid;
	Look		look;
	Record	   *older;			/* for the same path */
	Record	   *newer;
	Record	   *prev;
	Record	   *next;
};

/* ------ records ------ */

static Record *
newest(const Prepare *prepare, const char *path, size_t len)
{
	HashEntry  *entry = hash_first(&prepare->records, hash_path(path, len));

	for (; entry != NULL; entry = hash_next(entry))
	{
		Record	   *record = (Record *) entry;

		if (strncmp(record->path, path, len) == 0 && record->path[len] == '\0')
			return record;
	}
	return NULL;
}

/* Finds how a node will be.  Returns false if there will be none. */
static bool
look_at(const Prepare *prepare, const char *path, size_t len, Look *look)
{
	const Record *record = newest(prepare, path, len);
	const Node *node;

	if (record != NULL)
	{
		*look = record->look;
		return look->exists;
	}
	node = tree_find_part(prepare->tree, path, len);
	look->exists = node != NULL;
	if (node == NULL)
		return false;
	look->version = node->stat.version;
	look->cversion = node->stat.cversion;
	look->children = node->child_count;
	look->owner = node->stat.ephemeralOwner;
	look->acl = node->acl;
	return true;
}

/* Notes how a transaction leaves a node. */
static void
note(Prepare *prepare, int64_t zxid, const char *path, size_t len, const Look *look)
{
	Record	   *record = sim_alloc(sizeof(Record));
	Record	   *before = newest(prepare, path, len);

	record->path = sim_alloc(len + 1);
	memcpy(record->path, path, len);
	record->zxid = zxid;
	record->look = *look;
	record->look.acl = look->exists ? acl_list_share(look->acl) : NULL;
	if (before != NULL)
	{
		hash_remove(&prepare->records, &before->entry);
		record->older = before;
		before->newer = record;
	}
	hash_add(&prepare->records, &record->entry, hash_path(path, len));
	record->prev = prepare->last;
	if (prepare->last != NULL)
		prepare->last->next = record;
	else
		prepare->first = record;
	prepare->last = record;
}

static void
note_gone(Prepare *prepare, int64_t zxid, const char *path)
{
	Look		gone = {0};

	note(prepare, zxid, path, strlen(path), &gone);
}

/* Removes the oldest or the newest record of its path. */
static void
forget(Prepare *prepare, Record *record)
{
	if (record->newer != NULL)
		record->newer->older = record->older;
	else
		hash_remove(&prepare->records, &record->entry);
	if (record->older != NULL)
	{
		record->older->newer = record->newer;
		if (record->newer == NULL)
			hash_add(&prepare->records, &record->older->entry, record->entry.hash);
	}
	if (record->prev != NULL)
		record->prev->next = record->next;
	else
		prepare->first = record->next;
	if (record->next != NULL)
		record->next->prev = record->prev;
	else
		prepare->last = record->prev;
	acl_list_drop(record->look.acl);
	free(record->path);
	free(record);
}

void
prepare_applied(Prepare *prepare, int64_t zxid)
{
	while (prepare->first != NULL && prepare->first->zxid <= zxid)
		forget(prepare, prepare->first);
}

/* A multi-op has failed: what its ops would have done is undone. */
static void
roll_back(Prepare *prepare, int64_t zxid)
{
	while (prepare->last != NULL && prepare->last->zxid == zxid)
		forget(prepare, prepare->last);
}

void
prepare_end(Prepare *prepare)
{
	while (prepare->first != NULL)
		forget(prepare, prepare->first);
	hash_clear(&prepare->records, NULL);
}

/* ------ checks ------ */

/* As PathUtils.validatePath; the text is taken for ASCII or valid UTF-8. */
static bool
path_is_valid(const char *path)
{
	size_t		len = strlen(path);

	if (path[0] != '/')
		return false;
	if (len == 1)
		return true;
	if (path[len - 1] == '/' || strstr(path, "//") != NULL ||
		strstr(path, "/./") != NULL || strstr(path, "/../") != NULL ||
		strcmp(path + len - 2, "/.") == 0 || (len >= 3 && strcmp(path + len - 3, "/..") == 0))
		return false;
	for (size_t i = 0; i < len; i++)
	{
		if ((unsigned char) path[i] < 0x20 || path[i] == 0x7f)
			return false;
	}
	return true;
}

static bool
path_is_special(const char *path)
{
	return strcmp(path, "/") == 0 || strcmp(path, "/zookeeper") == 0 ||
		strcmp(path, "/zookeeper/quota") == 0 || strcmp(path, "/zookeeper/config") == 0;
}

static bool
may(const Look *look, int perms, const Asker *asker)
{
	return asker->session == 0 || acl_allows(look->acl, perms, asker->identities);
}

static int
check_session(Prepare *prepare, const Asker *asker)
{
	if (asker->session == 0)
		return ZOK;
	return tracker_check(prepare->tracker, asker->session, asker->owner);
}

static bool
same_entry(const struct ACL *a, const struct ACL *b)
{
	return a->perms == b->perms && strcmp(a->id.scheme, b->id.scheme) == 0 &&
		strcmp(a->id.id, b->id.id) == 0;
}

static void
acl_add(struct ACL_vector *acl, int perms, const char *scheme, const char *id)
{
	acl->data = sim_realloc(acl->data, sizeof(struct ACL) * (size_t) (acl->count + 1));
	acl->data[acl->count].perms = perms;
	acl->data[acl->count].id.scheme = sim_strdup(scheme);
	acl->data[acl->count].id.id = sim_strdup(id);
	acl->count++;
}

/* Adds an entry as fixupACL does.  Returns false if it is not valid. */
static bool
acl_fix_entry(struct ACL_vector *to, const struct ACL *entry, const Identities *identities)
{
	if (entry->id.scheme == NULL || entry->id.id == NULL)
		return false;
	if (strcmp(entry->id.scheme, "auth") == 0)
	{
		for (int i = 0; identities != NULL && i < identities->count; i++)
			acl_add(to, entry->perms, "digest", identities->digests[i]);
		return identities != NULL && identities->count > 0;
	}
	if (strcmp(entry->id.scheme, "world") == 0 ? strcmp(entry->id.id, "anyone") != 0 :
		strcmp(entry->id.scheme, "digest") != 0 || strchr(entry->id.id, ':') == NULL)
		return false;
	acl_add(to, entry->perms, entry->id.scheme, entry->id.id);
	return true;
}

/* Returns the ACL of a new node, or null if what was asked for is not valid. */
static AclList *
acl_fix(const struct ACL_vector *asked, const Asker *asker)
{
	struct ACL_vector fixed = {0, NULL};
	bool		valid = asked->count > 0;
	AclList    *list = NULL;

	if (asker->session == 0 && asked->count == 0)
		return acl_list_open(31);
	for (int i = 0; valid && i < asked->count; i++)
	{
		bool		again = false;

		for (int j = 0; j < i && !again; j++)
			again = same_entry(&asked->data[i], &asked->data[j]);
		valid = again || acl_fix_entry(&fixed, &asked->data[i], asker->identities);
	}
	if (valid)
		list = acl_list_make(&fixed);
	acl_free(&fixed);
	return list;
}

/* ------ one op ------ */

/* Where something is asked for, and what of it. */
typedef struct Ask
{
	Prepare    *prepare;
	const Op   *op;
	const Asker *asker;
	int64_t		zxid;
} Ask;

/* The owner of the new node. */
static int64_t
owner_of_mode(const Ask *ask)
{
	if (ask->op->mode & MODE_CONTAINER)
		return CONTAINER_OWNER;
	if ((ask->op->mode & MODE_EPHEMERAL) == 0)
		return 0;
	return ask->asker->session != 0 ? ask->asker->session : ask->op->owner;
}

static bool
is_ephemeral(const Look *look)
{
	return look->owner != 0 && look->owner != CONTAINER_OWNER;
}

/* Makes the path of the new node; to be freed. */
static char *
path_of_create(const Op *op, const Look *parent)
{
	size_t		size = strlen(op->path) + 12;
	char	   *path = sim_alloc(size);

	if ((op->mode & MODE_SEQUENTIAL) && !(op->mode & MODE_CONTAINER))
		snprintf(path, size, "%s%010d", op->path, parent->cversion);
	else
		snprintf(path, size, "%s", op->path);
	return path;
}

static void
note_create(const Ask *ask, const Change *change, Look *parent)
{
	Look		look = {true, 0, 0, 0, change->owner, change->acl};

	parent->children++;
	parent->cversion++;
	note(ask->prepare, ask->zxid, change->path, tree_parent_len(change->path), parent);
	note(ask->prepare, ask->zxid, change->path, strlen(change->path), &look);
}

static int
prepare_create(const Ask *ask, Change *change)
{
	const Op   *op = ask->op;
	Look		parent;
	Look		self;

	if (strrchr(op->path, '/') == NULL)
		return ZBADARGUMENTS;
	change->acl = acl_fix(&op->acl, ask->asker);
	if (change->acl == NULL)
		return ZINVALIDACL;
	if (!look_at(ask->prepare, op->path, tree_parent_len(op->path), &parent))
		return ZNONODE;
	if (!may(&parent, PERM_CREATE, ask->asker))
		return ZNOAUTH;
	change->path = path_of_create(op, &parent);
	if (!path_is_valid(change->path))
		return ZBADARGUMENTS;
	if (look_at(ask->prepare, change->path, strlen(change->path), &self))
		return ZNODEEXISTS;
	if (is_ephemeral(&parent))
		return ZNOCHILDRENFOREPHEMERALS;
	change->kind = CHANGE_CREATE;
	change->data = blob_make(op->data, op->len);
	change->owner = owner_of_mode(ask);
	change->version = parent.cversion + 1;
	note_create(ask, change, &parent);
	return ZOK;
}

/* A deletion: how it leaves the parent. */
static void
note_delete(Prepare *prepare, int64_t zxid, const char *path, Look *parent)
{
	parent->children--;
	note(prepare, zxid, path, tree_parent_len(path), parent);
	note_gone(prepare, zxid, path);
}

static int
prepare_delete(const Ask *ask, Change *change)
{
	const Op   *op = ask->op;
	Look		parent;
	Look		self;

	if (strrchr(op->path, '/') == NULL || path_is_special(op->path))
		return ZBADARGUMENTS;
	if (!look_at(ask->prepare, op->path, tree_parent_len(op->path), &parent))
		return ZNONODE;
	if (!may(&parent, PERM_DELETE, ask->asker))
		return ZNOAUTH;
	if (!look_at(ask->prepare, op->path, strlen(op->path), &self))
		return ZNONODE;
	if (op->version != -1 && op->version != self.version)
		return ZBADVERSION;
	if (self.children > 0)
		return ZNOTEMPTY;
	change->kind = CHANGE_DELETE;
	change->path = sim_strdup(op->path);
	note_delete(ask->prepare, ask->zxid, op->path, &parent);
	return ZOK;
}

/* A write of, or a check of, the data of a node. */
static int
prepare_data(const Ask *ask, Change *change)
{
	const Op   *op = ask->op;
	bool		set = op->kind == OP_SET;
	Look		self;

	if (!path_is_valid(op->path))
		return ZBADARGUMENTS;
	if (!look_at(ask->prepare, op->path, strlen(op->path), &self))
		return ZNONODE;
	if (!may(&self, set ? PERM_WRITE : PERM_READ, ask->asker))
		return ZNOAUTH;
	if (op->version != -1 && op->version != self.version)
		return ZBADVERSION;
	change->kind = set ? CHANGE_SET : CHANGE_CHECK;
	change->path = sim_strdup(op->path);
	change->version = self.version + 1;
	if (!set)
		return ZOK;
	change->data = blob_make(op->data, op->len);
	self.version++;
	note(ask->prepare, ask->zxid, op->path, strlen(op->path), &self);
	return ZOK;
}

static int
prepare_acl(const Ask *ask, Change *change)
{
	const Op   *op = ask->op;
	Look		self;

	if (!look_at(ask->prepare, op->path, strlen(op->path), &self))
		return ZNONODE;
	if (!may(&self, PERM_ADMIN, ask->asker))
		return ZNOAUTH;
	change->acl = acl_fix(&op->acl, ask->asker);
	if (change->acl == NULL)
		return ZINVALIDACL;
	change->kind = CHANGE_SET_ACL;
	change->path = sim_strdup(op->path);
	self.acl = change->acl;
	note(ask->prepare, ask->zxid, op->path, strlen(op->path), &self);
	return ZOK;
}

/* Makes the change that an op asks for, or an error. */
static int
prepare_change(const Ask *ask, Change *change)
{
	int			err = check_session(ask->prepare, ask->asker);

	if (err == ZOK && (ask->op->path == NULL || ask->op->path[0] == '\0'))
		err = ZBADARGUMENTS;
	if (err == ZOK)
	{
		if (ask->op->kind == OP_CREATE)
			err = prepare_create(ask, change);
		else if (ask->op->kind == OP_DELETE)
			err = prepare_delete(ask, change);
		else if (ask->op->kind == OP_SET || ask->op->kind == OP_CHECK)
			err = prepare_data(ask, change);
		else if (ask->op->kind == OP_SET_ACL)
			err = prepare_acl(ask, change);
		else
			err = ZUNIMPLEMENTED;
	}
	if (err != ZOK)
	{
		change->kind = CHANGE_ERROR;
		change->err = err;
	}
	return err;
}

/*
 * Ops ahead of the one that failed have no error, those after it get
 * ZRUNTIMEINCONSISTENCY.
 */
static void
prepare_multi(const Ask *multi, Transaction *txn)
{
	int			failed = -1;

	txn->change.kind = CHANGE_MULTI;
	txn->count = multi->op->count;
	txn->changes = sim_alloc(sizeof(Change) * (size_t) txn->count);
	for (int i = 0; i < txn->count && failed < 0; i++)
	{
		Ask			ask = {multi->prepare, &multi->op->ops[i], multi->asker, multi->zxid};

		if (prepare_change(&ask, &txn->changes[i]) != ZOK)
			failed = i;
	}
	if (failed < 0)
		return;
	roll_back(multi->prepare, multi->zxid);
	for (int i = 0; i < txn->count; i++)
	{
		if (i == failed)
			continue;
		txn->changes[i].kind = CHANGE_ERROR;
		txn->changes[i].err = i < failed ? ZOK : ZRUNTIMEINCONSISTENCY;
	}
}

Transaction *
prepare_op(Prepare *prepare, const Op *op, const Asker *asker, int64_t zxid, int64_t time_ms)
{
	Transaction *txn = txn_make(zxid, asker->session, asker->cxid, time_ms);
	Ask			ask = {prepare, op, asker, zxid};

	if (op->kind == OP_MULTI)
		prepare_multi(&ask, txn);
	else
		prepare_change(&ask, &txn->change);
	return txn;
}

/* ------ the end of a session ------ */

/* In any order, which is that of a hash set. */
static void
shuffle(struct String_vector *strings, Chance chance)
{
	for (int i = strings->count - 1; i > 0; i--)
	{
		int			j = (int) chance_below(&chance, (uint64_t) i + 1);
		char	   *text = strings->data[i];

		strings->data[i] = strings->data[j];
		strings->data[j] = text;
	}
}

/* Collects the nodes that the session will have: there, or on their way. */
static void
collect_ephemerals(const Prepare *prepare, int64_t session, struct String_vector *paths)
{
	const TreeSession *in_tree = tree_session(prepare->tree, session);
	const Node *node = in_tree != NULL ? in_tree->ephemerals.first : NULL;

	for (; node != NULL; node = node->next_owned)
	{
		if (newest(prepare, node->path, strlen(node->path)) == NULL)
			strings_add(paths, node->path);
	}
	for (const Record *record = prepare->first; record != NULL; record = record->next)
	{
		if (record->newer == NULL && record->look.exists && record->look.owner == session)
			strings_add(paths, record->path);
	}
}

/*
 * The records of the parents still count the children that are to go, as those
 * of PrepRequestProcessor do.
 */
Transaction *
prepare_close(Prepare *prepare, const Asker *asker, int64_t zxid, int64_t time_ms)
{
	Transaction *txn = txn_make(zxid, asker->session, asker->cxid, time_ms);

	txn->change.kind = CHANGE_CLOSE_SESSION;
	collect_ephemerals(prepare, asker->session, &txn->closed);
	shuffle(&txn->closed, chance_numbered((uint64_t) asker->session, 0));
	for (int i = 0; i < txn->closed.count; i++)
	{
		const char *path = txn->closed.data[i];
		size_t		len = tree_parent_len(path);
		Look		parent;

		if (look_at(prepare, path, len, &parent))
			note(prepare, zxid, path, len, &parent);
		note_gone(prepare, zxid, path);
	}
	tracker_close(prepare->tracker, asker->session);
	return txn;
}

Transaction *
prepare_delete_container(Prepare *prepare, const char *path, int64_t zxid, int64_t time_ms)
{
	Transaction *txn = txn_make(zxid, 0, 0, time_ms);
	Change	   *change = &txn->change;
	Look		parent;
	Look		self;

	change->kind = CHANGE_ERROR;
	if (!look_at(prepare, path, strlen(path), &self))
		change->err = ZNONODE;
	else if (self.children > 0)
		change->err = ZNOTEMPTY;
	else if (is_ephemeral(&self))
		change->err = ZBADVERSION;
	else if (!look_at(prepare, path, tree_parent_len(path), &parent))
		change->err = ZNONODE;
	if (change->err != ZOK)
		return txn;
	change->kind = CHANGE_DELETE;
	change->path = sim_strdup(path);
	note_delete(prepare, zxid, path, &parent);
	return txn;
}
