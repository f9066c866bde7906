/*-------------------------------------------------------------------------
 *
 * request.h
 *	  Requests on their way, and what follows from their answers.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_REQUEST_H
#define ZKLOCK_REQUEST_H

#include "client.h"
#include "engine.h"

/* Room left for those who want locks while a queue or a tree is being read. */
#define ZK_READ_RESERVE		16

/*
 * The context of a request whose answer nobody waits for: it is dropped.  Such
 * requests do not count as requests on their way.
 */
#define ZK_NO_REQUEST		NULL

/* Whose a request on its way is, and with what it is forgotten. */
typedef enum RequestKind
{
	REQ_FREE,
	REQ_FORGOTTEN,				/* nobody waits for the answer any more */
	REQ_CONTENDER,				/* it waits for the answer (pending) */
	REQ_CLIENT,					/* of the ZooKeeper session, or nobody waits */
	REQ_QUERY,
	REQ_PUBLISH
} RequestKind;

/*
 * Deal with the answer to a request, with engine_lock, on the completion
 * thread: any, or one of a contender that waits for it.
 */
typedef struct Answer Answer;
typedef void (*AnswerHandler) (ZkClient *client, const Answer *answer);
typedef void (*ContenderHandler) (ZkClient *client, Contender *c, const Answer *answer);

/*
 * When something can be done for a contender.  Written by request.c.
 * engine_lock.
 */
typedef struct Turn
{
	uint8_t		pending;		/* requests on their way for it */
	ZkTime		retry_at;		/* nothing is sent before then; 0 if there is
								 * nothing to try again */
} Turn;

/* A request on its way.  engine_lock. */
typedef struct Request
{
	uint32_t	serial;			/* tells a late callback from the right one */
	RequestKind kind;
	int			which;			/* slot, index into a listing, or step */
	ZkTime		sent_at;
	ZkTime		leader_heard_at;	/* ZkLeaderContact.leader_heard_at at that
									 * moment */
	AnswerHandler handler;
	ContenderHandler contender_handler; /* of kind CONTENDER, in its place */
} Request;

/*
 * What has come for it: those parts that its kind has.  They live as long as
 * the handler runs.
 */
struct Answer
{
	int			rc;
	const Request *request;
	const char *text;			/* a path that was created, or a znode's data */
	int			len;			/* of the data; -1 if there are none */
	const struct Stat *stat;
	const struct String_vector *children;	/* none if there is no such znode */
	const struct ACL_vector *acl;
};

/* What a request proves if it is a success that was committed. */
static inline ZkProof
zk_request_proof(const Request *request)
{
	ZkProof		proof = {request->sent_at, request->leader_heard_at};

	return proof;
}

extern int	zk_requests_free(const ZkClient *client);
extern bool zk_requests_available(ZkClient *client, int count);
extern void *zk_request_begin(ZkClient *client, RequestKind kind, int which,
							  AnswerHandler handler);
extern void *zk_contender_ask(ZkClient *client, const Contender *c,
							  ContenderHandler handler);
extern void zk_request_undo(ZkClient *client, void *context);
extern bool zk_contender_sent(ZkClient *client, Contender *c, void *context,
							  int rc);
extern void zk_send_children(ZkClient *client, Contender *c, const char *path,
							 ContenderHandler handler);
extern bool zk_contender_multi(ZkClient *client, Contender *c, int count,
							   const zoo_op_t *ops, ContenderHandler handler);
extern void zk_contender_expect(Contender *c);
extern void zk_contender_answered(Contender *c);
extern void zk_contender_retry(ZkClient *client, Contender *c);
extern void zk_contender_retry_at(Contender *c, ZkTime when);
extern void zk_on_void(int rc, const void *context);
extern void zk_on_string(int rc, const char *text, const void *context);
extern void zk_on_created(int rc, const char *path, const struct Stat *stat,
						  const void *context);
extern void zk_on_stat(int rc, const struct Stat *stat, const void *context);
extern void zk_on_data(int rc, const char *data, int len, const struct Stat *stat,
					   const void *context);
extern void zk_on_children(int rc, const struct String_vector *children,
						   const void *context);
extern void zk_watch_asked(ZkClient *client, const char *path);
extern size_t zk_watch_bytes(const ZkClient *client);
extern ZkClient *zk_watch_fired(zhandle_t *zh, int type, const char *path);
extern void zk_on_acl(int rc, struct ACL_vector *acl, struct Stat *stat,
					  const void *context);
extern ZkTime zk_requests_unanswered_since(const ZkClient *client);
extern void zk_requests_forget(ZkClient *client);
extern void zk_requests_forget_kind(ZkClient *client, RequestKind kind);
extern uint32_t zk_request_serial(const void *context);
extern bool zk_multi_possible(const ZkClient *client);

#endif							/* ZKLOCK_REQUEST_H */
