/*-------------------------------------------------------------------------
 *
 * calm.c
 *	  What must be true when nothing goes wrong: locks are kept, and given on.
 *
 * Calm begins when the faults of a round and their effects are over.  Some worlds
 * have none, because their threads stand still for too long by themselves.  What
 * others do to contenders goes on: they break, revoke and delete them.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "client.h"
#include "contender.h"
#include "handle.h"
#include "queue.h"
#include "slot.h"
#include "world.h"

/* After how many seconds something must have been noticed. */
#define PATIENCE		5

/*
 * Attempts to connect in calm times: new sessions, and no second attempt.  Besides
 * one for each call: a contender that may not be deleted ends its session.
 */
#define MAX_CALM_ATTEMPTS	12

/* Contenders that were revoked in calm times, the last ones. */
#define MAX_REVOKED		32
static struct
{
	char		names[MAX_REVOKED][ZK_NAME_SIZE];
	SimTime		at[MAX_REVOKED];
	unsigned int count;
}			revoked;

bool
calm(void)
{
	return world->steady && sim_now() >= world->calm_from;
}

/* If some names were not resolved, a client may know a single server. */
static bool
knows_servers(const Backend *backend)
{
	const Library *library = backend->process->library;
	const zhandle_t *zh = library->current;

	for (int i = 1; zh != NULL && i < zh->server_count; i++)
		if (zh->servers[i] != zh->servers[0])
			return true;
	return zh == NULL;
}

/* The same, but one server that does not lead may hang: this client has others. */
bool
calm_but_one(const Backend *backend)
{
	return calm() || (world->steady && world->one_hangs && knows_servers(backend));
}

/*
 * How many attempts to connect a client may make in ten seconds, at any time:
 * the library pauses for a sixtieth of the negotiated timeout when it has tried all
 * servers.
 */
static int
most_attempts(void)
{
	return 50 + world->ensemble.servers * 900000 / world->shortest_ms;
}

/* An attempt to connect: there are not too many (src/client/server_timeout.c). */
void
calm_connecting(Backend *backend)
{
	const Library *library = backend->process->library;

	if (library == NULL || library->connecting_since == backend->connecting)
		return;
	backend->connecting = library->connecting_since;
	backend->calm_attempts += calm();
	if (++backend->attempts > most_attempts() ||
		backend->calm_attempts > MAX_CALM_ATTEMPTS + backend->calls)
		sim_violation("storm", "%s has tried to connect %d times in 10 s",
					  backend->process->name, backend->attempts);
}

/*
 * Returns true if it is calm, and no thread stands still for long enough to matter to
 * a session of that timeout, which may be shorter than what clients ask for.
 */
static bool
calm_for(ZkTime timeout)
{
	return calm() && world->pause <= timeout / 40;
}

/* Returns true if L2 says how long the leases of this hold are. */
static bool
has_full_leases(const Backend *backend, const Hold *hold)
{
	const MailboxSlot *slot = check_slot(backend, hold);
	ZkTime		timeout = SIM_MS(backend->client->mailbox.session.timeout_ms);

	return calm_for(timeout) && slot != NULL && slot->status.state == ZK_HELD &&
		slot->order != ZK_ORDER_RELEASE && !hold->downgraded &&
		!check_is_tampered(hold->name) &&
		sim_now() >= world->calm_from + SIM_MS(world->timeout_ms) * 2 &&
		process_boottime(backend->process) >= slot->status.granted_at + timeout;
}

/*
 * The lease of a lock that is held for some time already (L2).  The proof that
 * comes with a beat is good for 0.65 of the timeout, and a beat comes 0.27 after
 * the one before, if round trips took no time.  A proof that a commit asks for in
 * between is good for less, because the leader has not heard of the session since;
 * but no proof ends a lease earlier.
 */
void
calm_hold(const Backend *backend, Hold *hold)
{
	const MailboxSlot *slot = check_slot(backend, hold);
	ZkTime		timeout = SIM_MS(backend->client->mailbox.session.timeout_ms);
	ZkTime		now = process_boottime(backend->process);

	if (!has_full_leases(backend, hold))
	{
		hold->lease_end = 0;
		return;
	}
	if (hold->lease_end == 0 ||
		slot->status.lease_end - slot->status.proved_at >= timeout * 58 / 100)
		hold->beat_at = now;
	if (now > hold->beat_at + timeout * 38 / 100)
		sim_violation("leases", "%s: no proof of %s was good for long enough for %lld ms",
					  backend->process->name, hold->name,
					  (long long) (now - hold->beat_at) / 1000);
	if (slot->status.lease_end < hold->lease_end)
		sim_violation("leases", "%s: a proof of %s shortens its lease by %lld ms",
					  backend->process->name, hold->name,
					  (long long) (hold->lease_end - slot->status.lease_end) / 1000);
	hold->lease_end = slot->status.lease_end;
	if (slot->status.lease_end < now + timeout * 28 / 100)
		sim_violation("leases", "%s: the lease of %s has %lld ms left",
					  backend->process->name, hold->name,
					  (long long) (slot->status.lease_end - now) / 1000);
}

/*
 * A backend has accepted a grant.  What is left of the lease then must do until the
 * helper looks at it, after an eighth of the timeout, and it is renewed (S372).
 */
void
calm_granted(const Backend *backend, const Hold *hold)
{
	ZkTime		timeout = SIM_MS(backend->client->mailbox.session.timeout_ms);
	ZkTime		left = check_slot(backend, hold)->status.lease_end -
	process_boottime(backend->process);

	if (calm_for(timeout) && left < timeout * 20 / 100)
		sim_violation("leases", "%s: the lease of %s has %lld ms left at its grant",
					  backend->process->name, hold->name, (long long) left / 1000);
}

/* Many locks were released in that time. */
void
calm_crowd_gone(const Backend *backend, SimTime took)
{
	if (calm() && world->quick && took > SIM_MS(1500))
		sim_violation("room", "%s took %lld ms to release many locks", backend->process->name,
					  (long long) took / 1000);
}

/* A revocation has been written. */
void
calm_revoked(const char *name)
{
	unsigned int at = revoked.count % MAX_REVOKED;

	if (!calm())
		return;
	snprintf(revoked.names[at], ZK_NAME_SIZE, "%s", name);
	revoked.at[at] = sim_now();
	revoked.count++;
}

/* Returns true if it was revoked, and that was some time ago. */
static bool
was_revoked(const char *name)
{
	SimTime		last = SIM_NEVER;

	for (unsigned int i = 0; i < MAX_REVOKED && i < revoked.count; i++)
		if (strcmp(revoked.names[i], name) == 0 && (last == SIM_NEVER || revoked.at[i] > last))
			last = revoked.at[i];
	return last != SIM_NEVER && sim_now() > last + SIM_SECONDS(PATIENCE);
}

/* Returns true if the backend has held it for some time, as it believes. */
static bool
is_settled(const Backend *backend, const Hold *hold)
{
	return check_believed(backend, hold) && !hold->downgraded &&
		process_boottime(backend->process) >
		check_slot(backend, hold)->status.granted_at + SIM_SECONDS(2);
}

/* A contender was broken: its holder knows before others do (W3). */
void
calm_broken(const char *name)
{
	for (int i = 0; i < world->clients && calm(); i++)
	{
		const Backend *backend = &world->backends[i];

		for (int k = 0; k < backend->holds; k++)
			if (is_settled(backend, &backend->held[k]) &&
				strcmp(backend->held[k].name, name) == 0)
				sim_violation("break", "%s still believes in %s, which is broken",
							  backend->process->name, name);
	}
}

/*
 * A backend that runs is told of the end of its lease, whatever is wrong: when it
 * ends while there is no connection, or when a whole timeout is over since the
 * last proof (L3); at once, even if its machine was suspended (S409).
 */
static void
check_told(const Backend *backend, Hold *hold)
{
	const MailboxSlot *slot = check_slot(backend, hold);
	const Connection *connection = &backend->client->connection;
	ZkTime		due;

	if (slot == NULL || slot->status.state != ZK_HELD || backend->process->stopped)
	{
		hold->overdue = 0;
		return;
	}
	due = connection->state != CONNECTION_UP &&
		connection->disconnected_at < slot->status.lease_end ?
		slot->status.lease_end : slot->status.presumed_lost;
	if (process_boottime(backend->process) < due)
		hold->overdue = 0;
	else if (++hold->overdue > 2)
		sim_violation("overdue", "%s does not know that it has lost %s",
					  backend->process->name, hold->name);
}

/* Returns true if a contender has the word of one who wants its lock. */
static bool
is_overwritten(const NodeView *view)
{
	return view->len == (int) strlen(ZK_REVOCATION) &&
		memcmp(view->data, ZK_REVOCATION, (size_t) view->len) == 0;
}

/*
 * What a backend holds: that it is deleted is noticed (W1, W2), and that it is
 * revoked (W4).
 */
static void
check_hold(const Backend *backend, Hold *hold)
{
	const MailboxSlot *slot = check_slot(backend, hold);
	NodeView	view;
	bool		held = slot != NULL && slot->status.state == ZK_HELD;
	bool		exists;

	exists = ensemble_child(hold->lock->node, hold->name, &view);
	if (!held || hold->downgraded || exists)
		hold->deleted = 0;
	else if (++hold->deleted > PATIENCE)
		sim_violation("deleted", "%s still holds %s, which was deleted",
					  backend->process->name, hold->name);
	if (!held || !is_settled(backend, hold) || !was_revoked(hold->name))
		return;
	if (!slot->status.revoked)
		sim_violation("revoke", "%s does not know that %s was revoked",
					  backend->process->name, hold->name);
	if (exists && is_overwritten(&view))
		sim_violation("revoke", "%s does not write the data of %s again",
					  backend->process->name, hold->name);
}

/* The slot of a contender, and whose it is; NULL if of no client that runs. */
static const MailboxSlot *
find_slot(const char *name, Backend **backend, Due **due)
{
	for (int i = 0; i < world->clients; i++)
	{
		const Mailbox *mailbox;

		*backend = &world->backends[i];
		if ((*backend)->client == NULL || (*backend)->process->dead)
			continue;
		mailbox = &(*backend)->client->mailbox;
		for (int k = 0; k < mailbox->used && k < MAX_DUE; k++)
			if (mailbox->slots[k].in_use && !mailbox->slots[k].dead &&
				strcmp(mailbox->slots[k].status.name, name) == 0)
			{
				*due = &(*backend)->due[k];
				return &mailbox->slots[k];
			}
	}
	return NULL;
}

/*
 * A contender is in front of its queue: it is granted soon; unless it was not
 * permitted to delete another one, which its client tries again a timeout later.
 */
static void
check_front(const WorldLock *lock, const char *name)
{
	Backend    *backend;
	Due		   *due;
	const MailboxSlot *slot = find_slot(name, &backend, &due);
	ZkContenderState state;

	if (slot == NULL || check_is_tampered(name))
		return;
	state = slot->status.state;
	if (strcmp(due->name, name) != 0 || slot->order == ZK_ORDER_RELEASE ||
		check_denied_lately(2 * SIM_MS(world->timeout_ms)) ||
		(state != ZK_CREATING && state != ZK_QUEUED && state != ZK_WATCHING))
	{
		snprintf(due->name, sizeof(due->name), "%s", name);
		due->seconds = 0;
	}
	else if (++due->seconds > PATIENCE + 3 * slot->request.lock_delay / 1000000)
		sim_violation("waiting", "%s: %s is in front, and not granted",
					  lock->node, name);
}

/* The names of children. */
#define MAX_CHILDREN	256
typedef struct Children
{
	int			count;
	char		names[MAX_CHILDREN][ZK_NAME_SIZE];
	const char *pointers[MAX_CHILDREN];
} Children;

static void
add_child(const char *name, const NodeView *view, void *argument)
{
	Children   *children = argument;

	(void) view;
	if (children->count == MAX_CHILDREN)
		return;
	snprintf(children->names[children->count], ZK_NAME_SIZE, "%s", name);
	children->pointers[children->count] = children->names[children->count];
	children->count++;
}

static void
check_lock(const WorldLock *lock)
{
	static Children children;
	static ZkQueueEntry entries[MAX_CHILDREN];
	int			count;
	int			front;

	children.count = 0;
	ensemble_children(lock->node, add_child, &children);
	count = zk_queue_sort(INT64_MAX, children.pointers, children.count, entries, NULL);
	front = lock->permits == 0 ? zk_queue_front(entries, count) :
		lock->permits < count ? lock->permits : count;
	for (int i = 0; i < front; i++)
		check_front(lock, entries[i].name);
}

static void
check_backend(Backend *backend)
{
	for (int k = 0; k < backend->holds && backend->client != NULL; k++)
	{
		if (!backend->held[k].in_use)
			continue;
		if (world->steady)
			check_told(backend, &backend->held[k]);
		if (calm())
			check_hold(backend, &backend->held[k]);
	}
}

/*
 * Servers that run and reach each other get a leader soon, whatever they were doing: one
 * that waits in vain for a quorum gives up after initLimit, and so do those that follow
 * it.  Calm begins later if they all serve later.
 */
static void
check_servers(void)
{
	const EnsembleConfig *config = &world->ensemble;
	int			serving = ensemble_serving();
	SimTime		wait = SIM_MS(config->tick_ms) * config->init_limit;
	SimTime		since = sim_now() - world->healed_at;

	if (world->healed_at == SIM_NEVER)
		return;
	if ((serving == 0 && since > wait + SIM_SECONDS(10)) ||
		(serving < config->servers && since > 2 * wait + SIM_SECONDS(10) && !world->one_hangs))
		sim_violation("ensemble", "%d of %d servers serve %lld s after the last fault",
					  serving, config->servers, (long long) since / 1000000);
	if (serving < config->servers && !calm())
		world->calm_from = sim_now() + CALMING;
}

/* Each second. */
static void
tick(void *argument)
{
	int			seconds = (int) (sim_now() / 1000000);

	check_servers();
	sim_at(sim_now() + SIM_SECONDS(1), tick, argument);
	for (int i = 0; i < world->clients; i++)
	{
		Backend    *backend = &world->backends[i];

		if (seconds % 10 == 0)
			backend->attempts = backend->calm_attempts = backend->calls = 0;
		check_backend(backend);
	}
	for (int i = 0; i < world->locks && calm(); i++)
		check_lock(&world->lock[i]);
}

void
calm_begin(void)
{
	revoked.count = 0;
	world->calm_from = SIM_NEVER;
	world->healed_at = SIM_NEVER;
	sim_at(SIM_SECONDS(1), tick, NULL);
}
