/*-------------------------------------------------------------------------
 *
 * request.h
 *	  Requests on their way to the ensemble.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/request.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_REQUEST_H
#define ZKLOCK_REQUEST_H

#include "client.h"

extern bool zk_client_may_claim(void);
extern bool zk_client_claim(ZkClient *client);
extern void zk_client_disclaim(void);
extern ZkClient *zk_client_owner(void);
extern ZkClient *zk_client_enter(void);
extern void zk_engine_leave(ZkClient *client);
extern bool zk_requests_available(ZkClient *client, int count);
extern void *zk_request_begin(ZkClient *client, RequestKind kind, int which,
							  AnswerHandler handler);
extern void *zk_contender_ask(ZkClient *client, RequestKind kind, int slot,
							  AnswerHandler handler);
extern void zk_request_expect(ZkClient *client, void *context, AnswerHandler handler);
extern void zk_request_undo(ZkClient *client, void *context);
extern void zk_contender_touch(ZkClient *client, int slot);
extern void zk_contenders_touch_all(ZkClient *client);
extern void zk_on_void(int rc, const void *context);
extern void zk_on_string(int rc, const char *text, const void *context);
extern void zk_on_created(int rc, const char *path, const struct Stat *stat,
						  const void *context);
extern void zk_on_stat(int rc, const struct Stat *stat, const void *context);
extern void zk_on_data(int rc, const char *data, int len, const struct Stat *stat,
					   const void *context);
extern void zk_on_children(int rc, const struct String_vector *children,
						   const void *context);
extern ZkClient *zk_watch_fired(zhandle_t *zh, int type, const char *path);
extern void zk_on_acl(int rc, struct ACL_vector *acl, struct Stat *stat,
					  const void *context);
extern ZkTime zk_requests_unanswered_since(const ZkClient *client);
extern void zk_requests_forget(ZkClient *client);
extern void zk_requests_forget_query(ZkClient *client);
extern void zk_requests_forget_publish(ZkClient *client);
extern bool zk_multi_possible(const ZkClient *client);
extern bool zk_is_connection_error(int rc);
extern bool zk_is_transient(int rc);
extern ZkError zk_answer_error(int rc);
extern const char *zk_answer_text(int rc);

#endif							/* ZKLOCK_REQUEST_H */
