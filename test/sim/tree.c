/*-------------------------------------------------------------------------
 *
 * tree.c
 *	  The data of one server, as DataTree keeps them.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "tree.h"

#define PERMS_READ		1
#define PERMS_ALL		31

/* ------ lists ------ */

static void
list_add(NodeList *list, Node *node)
{
	node->prev_owned = list->last;
	node->next_owned = NULL;
	if (list->last != NULL)
		list->last->next_owned = node;
	else
		list->first = node;
	list->last = node;
	list->count++;
}

static void
list_remove(NodeList *list, Node *node)
{
	if (node->prev_owned != NULL)
		node->prev_owned->next_owned = node->next_owned;
	else
		list->first = node->next_owned;
	if (node->next_owned != NULL)
		node->next_owned->prev_owned = node->prev_owned;
	else
		list->last = node->prev_owned;
	list->count--;
}

static void
child_add(Node *parent, Node *child)
{
	child->parent = parent;
	child->prev = parent->last_child;
	if (parent->last_child != NULL)
		parent->last_child->next = child;
	else
		parent->first_child = child;
	parent->last_child = child;
	parent->child_count++;
}

static void
child_remove(Node *parent, Node *child)
{
	if (child->prev != NULL)
		child->prev->next = child->next;
	else
		parent->first_child = child->next;
	if (child->next != NULL)
		child->next->prev = child->prev;
	else
		parent->last_child = child->prev;
	parent->child_count--;
}

/* ------ looking up ------ */

Node *
tree_find_part(const Tree *tree, const char *path, size_t len)
{
	HashEntry  *entry = hash_first(&tree->nodes, hash_path(path, len));

	for (; entry != NULL; entry = hash_next(entry))
	{
		Node	   *node = (Node *) entry;

		if (strncmp(node->path, path, len) == 0 && node->path[len] == '\0')
			return node;
	}
	return NULL;
}

Node *
tree_find(const Tree *tree, const char *path)
{
	return path != NULL ? tree_find_part(tree, path, strlen(path)) : NULL;
}

TreeSession *
tree_session(const Tree *tree, int64_t session)
{
	HashEntry  *entry = hash_first(&tree->sessions, hash_number((uint64_t) session));

	while (entry != NULL && ((TreeSession *) entry)->id != session)
		entry = hash_next(entry);
	return (TreeSession *) entry;
}

size_t
tree_parent_len(const char *path)
{
	size_t		len = (size_t) (strrchr(path, '/') - path);

	return len > 0 ? len : 1;
}

const char *
tree_name(const Node *node)
{
	return strrchr(node->path, '/') + 1;
}

void
tree_stat(const Node *node, struct Stat *stat)
{
	const struct StatPersisted *kept = &node->stat;

	stat->czxid = kept->czxid;
	stat->mzxid = kept->mzxid;
	stat->ctime = kept->ctime;
	stat->mtime = kept->mtime;
	stat->version = kept->version;
	/* for every create there is a delete but for the children that are there */
	stat->cversion = kept->cversion * 2 - node->child_count;
	stat->aversion = kept->aversion;
	stat->ephemeralOwner = kept->ephemeralOwner == CONTAINER_OWNER ? 0 : kept->ephemeralOwner;
	stat->dataLength = node->data != NULL ? node->data->len : 0;
	stat->numChildren = node->child_count;
	stat->pzxid = kept->pzxid;
}

/* ------ nodes ------ */

static Node *
node_add(Tree *tree, const char *path, AclList *acl)
{
	Node	   *node = sim_alloc(sizeof(Node));
	size_t		len = strlen(path);

	node->path = sim_strdup(path);
	node->acl = acl;
	hash_add(&tree->nodes, &node->entry, hash_path(path, len));
	return node;
}

static void
node_free(HashEntry *entry)
{
	Node	   *node = (Node *) entry;

	free(node->path);
	blob_drop(node->data);
	acl_list_drop(node->acl);
	free(node);
}

static TreeSession *
session_add(Tree *tree, int64_t id, int timeout_ms)
{
	TreeSession *session = sim_alloc(sizeof(TreeSession));

	session->id = id;
	session->timeout_ms = timeout_ms;
	session->prev = tree->last_session;
	if (tree->last_session != NULL)
		tree->last_session->next = session;
	else
		tree->first_session = session;
	tree->last_session = session;
	hash_add(&tree->sessions, &session->entry, hash_number((uint64_t) id));
	return session;
}

static void
session_remove(Tree *tree, TreeSession *session)
{
	if (session->prev != NULL)
		session->prev->next = session->next;
	else
		tree->first_session = session->next;
	if (session->next != NULL)
		session->next->prev = session->prev;
	else
		tree->last_session = session->prev;
	hash_remove(&tree->sessions, &session->entry);
	free(session);
}

static void
session_free(HashEntry *entry)
{
	free(entry);
}

/* An empty tree, with the nodes that each has. */
void
tree_begin(Tree *tree)
{
	Node	   *zookeeper;

	tree->root = node_add(tree, "/", acl_list_open(PERMS_ALL));
	tree->root->data = blob_make("", 0);
	zookeeper = node_add(tree, "/zookeeper", acl_list_open(PERMS_ALL));
	child_add(tree->root, zookeeper);
	child_add(zookeeper, node_add(tree, "/zookeeper/quota", acl_list_open(PERMS_ALL)));
	child_add(zookeeper, node_add(tree, "/zookeeper/config", acl_list_open(PERMS_READ)));
	tree->last_zxid = 0;
}

/* Frees all, and keeps who is told of changes. */
void
tree_end(Tree *tree)
{
	hash_clear(&tree->nodes, node_free);
	hash_clear(&tree->sessions, session_free);
	memset(&tree->containers, 0, sizeof(NodeList));
	tree->root = NULL;
	tree->first_session = NULL;
	tree->last_session = NULL;
	tree->last_zxid = 0;
}

/* ------ transactions ------ */

static void
tell(Tree *tree, int event, int64_t zxid, const Node *node, const Node *parent)
{
	TreeEvent	what = {event, zxid, node->path, node->acl, NULL, NULL};

	if (tree->changed == NULL)
		return;
	if (parent != NULL)
	{
		what.parent = parent->path;
		what.parent_acl = parent->acl;
	}
	tree->changed(tree->context, &what);
}

/* Where a node of that owner is listed; null if it is of nobody. */
static NodeList *
list_of_owner(Tree *tree, int64_t owner)
{
	TreeSession *session;

	if (owner == CONTAINER_OWNER)
		return &tree->containers;
	if (owner == 0)
		return NULL;
	session = tree_session(tree, owner);
	return session != NULL ? &session->ephemerals : NULL;
}

static int
apply_create(Tree *tree, const Transaction *txn, const Change *change)
{
	Node	   *parent = tree_find_part(tree, change->path, tree_parent_len(change->path));
	Node	   *node;
	NodeList   *list;

	if (parent == NULL)
		return ZNONODE;
	if (tree_find(tree, change->path) != NULL)
		return ZNODEEXISTS;
	if (change->version > parent->stat.cversion)
	{
		parent->stat.cversion = change->version;
		parent->stat.pzxid = txn->zxid;
	}
	node = node_add(tree, change->path, acl_list_share(change->acl));
	node->data = blob_share(change->data);
	node->stat.czxid = node->stat.mzxid = node->stat.pzxid = txn->zxid;
	node->stat.ctime = node->stat.mtime = txn->time_ms;
	node->stat.ephemeralOwner = change->owner;
	child_add(parent, node);
	list = list_of_owner(tree, change->owner);
	if (list != NULL)
		list_add(list, node);
	tell(tree, EVENT_CREATED, txn->zxid, node, parent);
	return ZOK;
}

static int
apply_delete(Tree *tree, int64_t zxid, const char *path)
{
	Node	   *node = tree_find(tree, path);
	Node	   *parent;
	NodeList   *list;

	if (node == NULL || node->parent == NULL)
		return ZNONODE;
	parent = node->parent;
	child_remove(parent, node);
	if (zxid > parent->stat.pzxid)
		parent->stat.pzxid = zxid;
	hash_remove(&tree->nodes, &node->entry);
	list = list_of_owner(tree, node->stat.ephemeralOwner);
	if (list != NULL)
		list_remove(list, node);
	tell(tree, EVENT_DELETED, zxid, node, parent);
	node_free(&node->entry);
	return ZOK;
}

static int
apply_set(Tree *tree, const Transaction *txn, const Change *change)
{
	Node	   *node = tree_find(tree, change->path);

	if (node == NULL)
		return ZNONODE;
	blob_drop(node->data);
	node->data = blob_share(change->data);
	node->stat.mtime = txn->time_ms;
	node->stat.mzxid = txn->zxid;
	node->stat.version = change->version;
	tell(tree, EVENT_CHANGED, txn->zxid, node, NULL);
	return ZOK;
}

/* No watch fires. */
static int
apply_set_acl(const Tree *tree, const Change *change)
{
	Node	   *node = tree_find(tree, change->path);

	if (node == NULL)
		return ZNONODE;
	acl_list_drop(node->acl);
	node->acl = acl_list_share(change->acl);
	node->stat.aversion++;
	return ZOK;
}

/* Applies one change of a node, and fills in its result if that is wanted. */
static int
apply_change(Tree *tree, const Transaction *txn, const Change *change, Result *result)
{
	int			err = ZOK;
	const Node *node;

	if (change->kind == CHANGE_CREATE)
		err = apply_create(tree, txn, change);
	else if (change->kind == CHANGE_DELETE)
		err = apply_delete(tree, txn->zxid, change->path);
	else if (change->kind == CHANGE_SET)
		err = apply_set(tree, txn, change);
	else if (change->kind == CHANGE_SET_ACL)
		err = apply_set_acl(tree, change);
	else if (change->kind == CHANGE_ERROR)
		err = change->err;
	if (result == NULL)
		return err;
	result->err = err;
	result->len = -1;
	if (err != ZOK || (change->kind != CHANGE_CREATE && change->kind != CHANGE_SET))
		return err;
	if (change->kind == CHANGE_CREATE)
		result->path = sim_strdup(change->path);
	node = tree_find(tree, change->path);
	tree_stat(node, &result->stat);
	return err;
}

/*
 * The error of the whole is that of the op that failed, as the client library
 * makes it from the answers.
 */
static void
apply_multi(Tree *tree, const Transaction *txn, Result *result)
{
	if (result != NULL)
	{
		result->count = txn->count;
		result->results = sim_alloc(sizeof(Result) * (size_t) txn->count);
	}
	for (int i = 0; i < txn->count; i++)
	{
		int			err = apply_change(tree, txn, &txn->changes[i],
									   result != NULL ? &result->results[i] : NULL);

		if (result != NULL && result->err == ZOK && err != ZRUNTIMEINCONSISTENCY)
			result->err = err;
	}
}

/* The session ends, and with it its nodes: first those that the leader knew. */
static void
apply_close(Tree *tree, const Transaction *txn)
{
	TreeSession *session = tree_session(tree, txn->session);

	for (int i = 0; i < txn->closed.count; i++)
		apply_delete(tree, txn->zxid, txn->closed.data[i]);
	if (session == NULL)
		return;
	while (session->ephemerals.first != NULL)
		apply_delete(tree, txn->zxid, session->ephemerals.first->path);
	session_remove(tree, session);
}

void
tree_apply(Tree *tree, const Transaction *txn, Result *result)
{
	switch (txn->change.kind)
	{
		case CHANGE_OPEN_SESSION:
			if (tree_session(tree, txn->session) == NULL)
				session_add(tree, txn->session, txn->timeout_ms);
			break;
		case CHANGE_CLOSE_SESSION:
			apply_close(tree, txn);
			break;
		case CHANGE_MULTI:
			apply_multi(tree, txn, result);
			break;
		default:
			apply_change(tree, txn, &txn->change, result);
			break;
	}
	if (txn->zxid > tree->last_zxid)
		tree->last_zxid = txn->zxid;
}
