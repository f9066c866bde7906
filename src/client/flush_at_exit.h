/*-------------------------------------------------------------------------
 *
 * flush_at_exit.h
 *	  What is still to be done when the client is to end.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/flush_at_exit.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_FLUSH_AT_EXIT_H
#define ZKLOCK_FLUSH_AT_EXIT_H

#include "client.h"

extern bool zk_flush_goes_on(ZkClient *client, const MailboxNews *news);
extern ZkTime zk_flush_timer(const ZkClient *client, ZkTime next);

#endif							/* ZKLOCK_FLUSH_AT_EXIT_H */
