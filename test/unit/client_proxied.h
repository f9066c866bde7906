/*-------------------------------------------------------------------------
 *
 * client_proxied.h
 *	  The common part of those tests of the lock client that put a proxy
 *	  between it and the ensemble.
 *
 * The stranger has a connection of its own that nothing happens to, and sees
 * what is really there.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CLIENT_PROXIED_H
#define ZKLOCK_CLIENT_PROXIED_H

#include <stdlib.h>

#include "client_common.h"
#include "proxy.h"

/*
 * Short, as tests wait for leases and sessions to end; but a machine may stand still
 * for a moment, and they are not to end by that.
 */
#define TIMEOUT_MS	4000

#define PATH_SIZE	256

static char proxied[64];		/* the ensemble's address, seen from the
								 * client */

/* Learn which ensemble to use, and which part of its tree. */
static inline bool
find_servers(const char *program)
{
	servers = getenv("ZK_SERVERS");
	if (servers == NULL)
		fprintf(stderr, "ZK_SERVERS is not set\n");
	snprintf(root, sizeof(root), "/%s_%d", program, (int) getpid());
	return servers != NULL;
}

/* Start the proxy and connect the stranger. */
static inline bool
open_proxied(void)
{
	if (!proxy_start(servers, proxied, sizeof(proxied)))
	{
		fprintf(stderr, "could not start a proxy for \"%s\"\n", servers);
		return false;
	}
	stranger = open_handle(NULL);
	return true;
}

/*
 * Lose the reply to the next request of a type, and the connection with it.
 * If stay_away is set, no new one is let through until proxy_refuse(false).
 */
static inline void
lose_reply(int type, bool stay_away)
{
	proxy_refuse(stay_away);
	proxy_cut_at(type, 1, PROXY_BEFORE_REPLY, false);
}

/* Wait until what the proxy counts is no longer what it was before. */
static inline bool
wait_counted(int (*counted) (void), int before, const char *missing)
{
	ZkTime		deadline = zk_now() + DEADLINE;

	while (counted() == before)
	{
		if (zk_now() > deadline)
		{
			diag("%s", missing);
			return false;
		}
		usleep(1000);
	}
	return true;
}

/* Wait until the proxy has cut a connection since it had cut so many. */
static inline bool
wait_cut(int before)
{
	return wait_counted(proxy_cuts, before, "no connection was cut");
}

/* Wait until it has answered one more request like a busy server. */
static inline bool
wait_throttled(int before)
{
	return wait_counted(proxy_throttled, before, "no request was throttled");
}

/* Those that only look whether a create has been executed late (Q7). */
static inline int
count_doubted(void)
{
	int			count = 0;

	for (int i = 0; i < client->used; i++)
		count += client->contenders[i].claim != CLAIM_NONE &&
			client->contenders[i].znode.doubted_since != 0 &&
			client->contenders[i].znode.existence != ZNODE_NAMED;
	return count;
}

/* Wait until the client has no contender left, except for the test's own. */
static inline bool
wait_no_contenders(void)
{
	ZkTime		deadline = zk_now() + DEADLINE;
	int			left;

	for (;;)
	{
		pthread_mutex_lock(&client->engine_lock);
		pthread_mutex_lock(&client->mailbox.lock);
		left = client->mailbox.contenders - count_doubted();
		pthread_mutex_unlock(&client->mailbox.lock);
		pthread_mutex_unlock(&client->engine_lock);
		if (left == 0)
			return true;
		if (zk_now() > deadline)
		{
			diag("%d slots are in use", left);
			return false;
		}
		usleep(1000);
	}
}

#endif							/* ZKLOCK_CLIENT_PROXIED_H */
