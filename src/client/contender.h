/*-------------------------------------------------------------------------
 *
 * contender.h
 *	  What can happen to a contender, whatever the protocol is doing.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/contender.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CONTENDER_H
#define ZKLOCK_CONTENDER_H

#include "client.h"

extern void zk_contender_path(const Contender *c, const char *name,
							  char *path);
extern bool zk_contender_sent(ZkClient *client, int slot, void *context,
							  int rc);
extern void zk_contender_retry(ZkClient *client, Contender *c);
extern void zk_contender_publish(ZkClient *client, int slot, bool wake);
extern void zk_contender_new_name(ZkClient *client, Contender *c);
extern void zk_contender_forget(Contender *c);
extern void zk_contender_drop_second_watch(Contender *c);
extern void zk_contender_unwatch(Contender *c);
extern void zk_contender_watch_own_in(Contender *c, ZkTime delay);
extern void zk_contender_placed(Contender *c, const ZkQueueEntry *entries,
								const ZkVerdict *verdict);
extern void zk_contender_seen_ahead(ZkClient *client, int slot, const char *name,
									const struct Stat *stat);
extern void zk_contender_blocker_known(ZkClient *client, int slot,
									   const char *value, int value_len,
									   const struct Stat *stat);
extern Contender *zk_contender_use(ZkClient *client, int slot,
								   const char *node, ZkMode mode);
extern void zk_contender_set_lease(ZkClient *client, Contender *c,
								   ZkProof proof);
extern void zk_contender_proved(ZkClient *client, int slot, ZkProof proof);
extern void zk_contender_cut_lease(ZkClient *client, int slot, ZkTime since);
extern void zk_contender_grant(ZkClient *client, int slot);
extern void zk_contender_fail(ZkClient *client, int slot, ZkError error,
							  const char *fmt,...)
			__attribute__((format(printf, 4, 5)));
extern void zk_contender_lose(ZkClient *client, int slot, ZkLoss loss,
							  const char *detail);
extern void zk_contender_unqueued(ZkClient *client, int slot);
extern void zk_contender_vanished(ZkClient *client, int slot);
extern void zk_contender_parent_missing(Contender *c);
extern void zk_contender_pass_record(Contender *to, Contender *from);
extern void zk_contender_missing(ZkClient *client, int slot);
extern void zk_contender_stuck(ZkClient *client, int slot, bool deleting);
extern void zk_contender_give_up_partner(ZkClient *client, Contender *c);
extern void zk_contender_end(ZkClient *client, int slot, bool abandon);
extern void zk_contender_reap_elsewhere(ZkClient *client, const Contender *c);
extern bool zk_contender_doubted(ZkClient *client, int slot);

#endif							/* ZKLOCK_CONTENDER_H */
