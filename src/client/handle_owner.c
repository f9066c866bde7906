/*-------------------------------------------------------------------------
 *
 * handle_owner.c
 *	  The client that has a handle: there is one at a time.
 *
 * Completions come without a handle, so which client they belong to is one
 * variable: only one client of the process has a handle at a time.  (There can
 * be several clients: those that were stopped and did not end in time, as
 * their threads sit in the resolver or wait for the library, and the next.)
 *
 *-------------------------------------------------------------------------
 */
#include <poll.h>

#include "client.h"
#include "handle_owner.h"

/*
 * The client that has a handle.  Written under owner_lock by its helper, while
 * no handle is open; read by the library's threads, which live only as long as
 * the handle.
 */
static pthread_mutex_t owner_lock = PTHREAD_MUTEX_INITIALIZER;
static ZkClient *owner;

/* Returns true if no client has a handle. Any thread. */
bool
zk_client_may_claim(void)
{
	bool		free_to_claim;

	pthread_mutex_lock(&owner_lock);
	free_to_claim = owner == NULL;
	pthread_mutex_unlock(&owner_lock);
	return free_to_claim;
}

/*
 * Becomes the client with the handle; false while another is.  Helper thread.
 */
bool
zk_client_claim(ZkClient *client)
{
	bool		claimed;

	pthread_mutex_lock(&owner_lock);
	if (owner == NULL)
		owner = client;
	claimed = owner == client;
	pthread_mutex_unlock(&owner_lock);
	return claimed;
}

/* The handle is closed.  Helper thread. */
void
zk_client_disclaim(void)
{
	pthread_mutex_lock(&owner_lock);
	owner = NULL;
	pthread_mutex_unlock(&owner_lock);
}

void
zk_clients_await_close(int timeout_ms)
{
	ZkTime		deadline = zk_now() + ZK_MS(timeout_ms);

	while (!zk_client_may_claim() && !atomic_load(&zk_poisoned) &&
		   zk_now() < deadline)
		poll(NULL, 0, 1);
}

/* The client a callback belongs to; for callers that may take no lock. */
ZkClient *
zk_client_owner(void)
{
	return owner;
}

/* Returns the client a callback belongs to, and takes its engine_lock. */
ZkClient *
zk_client_enter(void)
{
	pthread_mutex_lock(&owner->engine_lock);
	return owner;
}
