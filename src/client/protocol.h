/*-------------------------------------------------------------------------
 *
 * protocol.h
 *	  The life of a contender from request to end: what comes next for it.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PROTOCOL_H
#define ZKLOCK_PROTOCOL_H

#include "client.h"

extern void zk_contender_begin(ZkClient *client, const MailboxOrder *order);
extern void zk_contender_advance(ZkClient *client, Contender *c);
extern void zk_contenders_connected(ZkClient *client);
extern void zk_contenders_disconnected(ZkClient *client);
extern void zk_contenders_handle_closed(ZkClient *client);
extern void zk_contenders_session_over(ZkClient *client, bool expired);

#endif							/* ZKLOCK_PROTOCOL_H */
