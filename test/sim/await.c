/*-------------------------------------------------------------------------
 *
 * await.c
 *	  What simulated backends wait for.
 *
 *-------------------------------------------------------------------------
 */
#include <poll.h>

#include "await.h"
#include "seam.h"
#include "task.h"
#include "zk_session.h"

bool
await(ZkClient *client, Seen seen, void *argument, SimTime longest)
{
	const Process *process = process_now();
	SimTime		until = process_monotonic(process) + longest;

	for (;;)
	{
		SimTime		left;

		zk_client_clear_event(client);
		if (seen(client, argument))
			return true;
		left = until - process_monotonic(process);
		if (left <= 0)
			return false;

		struct pollfd pfd = {.fd = zk_client_event_fd(client),.events = POLLIN};

		seam_poll(&pfd, 1, (int) (left / 1000) + 1);
	}
}

bool
seen_end(ZkClient *client, void *argument)
{
	Awaited    *awaited = argument;
	int			granted = 0;

	for (int i = 0; i < awaited->count; i++)
	{
		ZkContenderStatus *status = &awaited->status[i];

		zk_contender_status(client, awaited->ids[i], status);
		if (status->state == ZK_FAILED || status->state == ZK_LOST)
			awaited->failed = true;
		granted += status->state == ZK_HELD &&
			process_boottime(process_now()) < status->lease_end;
	}
	return awaited->failed || granted == awaited->count;
}

bool
seen_gone(ZkClient *client, void *argument)
{
	Awaited    *awaited = argument;

	for (int i = 0; i < awaited->count; i++)
	{
		zk_contender_status(client, awaited->ids[i], &awaited->status[i]);
		if (awaited->status[i].state != ZK_GONE && awaited->status[i].state != ZK_FAILED)
			return false;
	}
	return true;
}

bool
seen_listing(ZkClient *client, void *argument)
{
	ZkQueueListing **listing = argument;

	*listing = zk_queue_take(client);
	return *listing != NULL;
}
