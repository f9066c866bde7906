/*-------------------------------------------------------------------------
 *
 * tree.h
 *	  The data of one server: its nodes and sessions, as transactions made them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TREE_H
#define TREE_H

#include "hash.h"
#include "txn.h"

/* As in PACKET_EVENT. */
#define EVENT_CREATED		1
#define EVENT_DELETED		2
#define EVENT_CHANGED		3
#define EVENT_CHILD			4

typedef struct Node Node;
struct Node
{
	HashEntry	entry;			/* by its path */
	char	   *path;
	Node	   *parent;
	Node	   *first_child;
	Node	   *last_child;
	Node	   *prev;			/* siblings */
	Node	   *next;
	int			child_count;
	Blob	   *data;
	AclList    *acl;
	struct StatPersisted stat;	/* cversion: counts creates only */
	Node	   *prev_owned;		/* those of one session; or the containers */
	Node	   *next_owned;
};

typedef struct NodeList
{
	Node	   *first;
	Node	   *last;
	int			count;
} NodeList;

typedef struct TreeSession TreeSession;
struct TreeSession
{
	HashEntry	entry;			/* by its id */
	int64_t		id;
	int			timeout_ms;
	NodeList	ephemerals;
	TreeSession *prev;			/* in the order in which they were made */
	TreeSession *next;
};

/* A node was made, deleted or set; parent is null if it was set. */
typedef struct TreeEvent
{
	int			event;
	int64_t		zxid;
	const char *path;
	const AclList *acl;
	const char *parent;
	const AclList *parent_acl;
} TreeEvent;

typedef struct Tree
{
	HashTable	nodes;
	Node	   *root;
	NodeList	containers;
	HashTable	sessions;
	TreeSession *first_session;
	TreeSession *last_session;
	int64_t		last_zxid;
	void		(*changed) (void *context, const TreeEvent *event);
	void	   *context;
} Tree;

extern void tree_begin(Tree *tree);
extern void tree_end(Tree *tree);

extern Node *tree_find(const Tree *tree, const char *path);
extern Node *tree_find_part(const Tree *tree, const char *path, size_t len);
extern TreeSession *tree_session(const Tree *tree, int64_t session);

/* As clients get to see it. */
extern void tree_stat(const Node *node, struct Stat *stat);

/* The length of the parent's path; the path has a slash. */
extern size_t tree_parent_len(const char *path);

/* The name of a node that is not the root. */
extern const char *tree_name(const Node *node);

/*
 * Applies a transaction.  Changed is called for each change, in the order in
 * which it is made.  If result is not null, it gets the answer.
 */
extern void tree_apply(Tree *tree, const Transaction *txn, Result *result);

#endif							/* TREE_H */
