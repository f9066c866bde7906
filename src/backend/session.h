/*-------------------------------------------------------------------------
 *
 * session.h
 *	  The backend's side of the client API: start the lock client, judge the lease,
 *	  translate errors, end it at exit.  Waiting for it is in session_wait.c.
 *
 * For the files of backend/.
 *
 * IDENTIFICATION
 *	  src/backend/session.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SESSION_H
#define ZKLOCK_SESSION_H

#include "zklock.h"

extern char *zklock_servers;
extern int	zklock_session_timeout;
extern int	zklock_connect_timeout;
extern int	zklock_znode_style;
extern pqsigfunc zklock_loss_handler;
extern ZkClient *zklock_client;

extern void zklock_session_open(bool idle);
extern void zklock_session_stop(void);
extern void zklock_session_count(void);
extern void zklock_session_wait_for(WaitPurpose event, ZkTime until,
									const char *doing, const char *path);
extern void zklock_session_wait(ZkTime until, const char *doing,
								const char *path);
extern void zklock_session_wait_over(void);
extern void zklock_drain_log(void);
extern void zklock_link_begin(Link *link);
extern void zklock_link_look(Link *link);
extern ZkTime zklock_link_timeout(const Link *link);
pg_noreturn extern void zklock_link_report(const Link *link, const char *what,
										   const char *path);
pg_noreturn extern void zklock_report_error(ZkError error, const char *detail,
											const char *what, const char *path);
extern HoldState zklock_lease_judge(ZkContenderId id, ZkContenderStatus *status);
extern ZkTime zklock_lease_ask(void);
extern HoldState zklock_lease_prove(ZkContenderId id, ZkTime asked,
									ZkTime deadline, const char *path,
									ZkContenderStatus *status);
extern char *zklock_clean_name(const char *name);
extern char *zklock_convert(const char *text, int length, int from, int to);
extern char *zklock_owner_data(void);
extern const char *zklock_host(void);
extern const char *zklock_instance(void);

#endif							/* ZKLOCK_SESSION_H */
