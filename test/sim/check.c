/*-------------------------------------------------------------------------
 *
 * check.c
 *	  What must be true of the simulated world, after each step.
 *
 * A backend believes that it holds a lock if its mailbox says HELD and the lease
 * runs by its own clock; that is what a commit asks (zklock_lease_judge() of
 * session.c).  No two that exclude each other may believe so at one moment of
 * true time, whatever their clocks say (L1 to L4, Q2).  Beliefs begin when a
 * grant is accepted or a lease is renewed, both in a step of a task of that
 * process, and so only what it holds is compared after the step.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "client.h"
#include "slot.h"
#include "world.h"

/* Names of contenders that others have deleted, the last ones; they are unique. */
#define MAX_TAMPERED	1024
static char tampered[MAX_TAMPERED][ZK_NAME_SIZE];
static unsigned int tampered_count;

static bool
is_tampered(const char *name)
{
	for (unsigned int i = 0; i < MAX_TAMPERED && i < tampered_count; i++)
		if (strcmp(tampered[i], name) == 0)
			return true;
	return false;
}

/* The mailbox's slot of what is held; NULL if it is no more. */
static const MailboxSlot *
slot_of(const Backend *backend, const Hold *hold)
{
	const Mailbox *mailbox = &backend->client->mailbox;
	int			index = (int) (hold->id & 0xFFFF);
	const MailboxSlot *slot = &mailbox->slots[index];

	return slot->in_use && !slot->dead &&
		slot->generation == (uint32_t) (hold->id >> 16) ? slot : NULL;
}

bool
check_believed(const Backend *backend, const Hold *hold)
{
	const MailboxSlot *slot;

	if (!hold->in_use || backend->client == NULL || backend->process->dead)
		return false;
	slot = slot_of(backend, hold);
	return slot != NULL && slot->status.state == ZK_HELD &&
		slot->order != ZK_ORDER_RELEASE &&
		process_boottime(backend->process) < slot->status.lease_end;
}

static bool
exclude(const Hold *a, const Hold *b)
{
	return a->lock == b->lock && (a->mode == ZK_EXCLUSIVE || b->mode == ZK_EXCLUSIVE);
}

/*
 * Others have deleted what is held, or will.  The contender has another name
 * after a downgrade.
 */
static bool
is_spoilt(const Backend *backend, const Hold *hold)
{
	const MailboxSlot *slot = slot_of(backend, hold);

	return is_tampered(hold->name) ||
		(slot != NULL && is_tampered(slot->status.name));
}

static void
report_both(const Backend *a, const Hold *x, const Backend *b, const Hold *y)
{
	sim_violation("exclusion", "%s: %s holds %s (mode %d), %s holds %s (mode %d)",
				  x->lock->node, a->process->name, x->name, (int) x->mode,
				  b->process->name, y->name, (int) y->mode);
}

/* How many permits of a semaphore are believed to be held. */
static int
permits_held(const WorldLock *lock)
{
	int			count = 0;

	for (int i = 0; i < world->clients; i++)
		for (int k = 0; k < MAX_HELD; k++)
		{
			const Hold *hold = &world->backends[i].held[k];

			count += hold->in_use && hold->lock == lock &&
				check_believed(&world->backends[i], hold) &&
				!is_spoilt(&world->backends[i], hold);
		}
	return count;
}

/* Compares a hold that is believed in with all others. */
static void
check_hold(const Backend *backend, const Hold *hold)
{
	if (hold->lock->permits > 0)
	{
		if (permits_held(hold->lock) > hold->lock->permits)
			sim_violation("permits", "%s: more than %d are held", hold->lock->node,
						  hold->lock->permits);
		return;
	}
	for (int i = 0; i < world->clients; i++)
	{
		const Backend *other = &world->backends[i];

		for (int k = 0; k < MAX_HELD && other != backend; k++)
			if (other->held[k].in_use && exclude(hold, &other->held[k]) &&
				check_believed(other, &other->held[k]) &&
				!is_spoilt(other, &other->held[k]) && !is_spoilt(backend, hold))
				report_both(backend, hold, other, &other->held[k]);
	}
}

/* After a step of a task: what its process believes. */
static void
check_step(void)
{
	const Backend *backend = task_last_process()->program;

	world_stats.checks++;
	for (int k = 0; backend != NULL && k < MAX_HELD; k++)
		if (backend->held[k].in_use && check_believed(backend, &backend->held[k]))
			check_hold(backend, &backend->held[k]);
}

void
check_begin(void)
{
	sim_after = check_step;
	tampered_count = 0;
}

/*
 * A token is greater than that of whatever excluded it before: that is what
 * fences rely on (F rules).
 */
static void
check_token(WorldLock *lock, ZkMode mode, int64_t token, const Backend *backend)
{
	int64_t		before = mode == ZK_EXCLUSIVE ? lock->last_token : lock->last_exclusive;

	if (lock->permits > 0)
		return;
	if (token <= before)
		sim_violation("tokens", "%s: %s was granted with token %llx, after %llx",
					  lock->node, backend->process->name, (unsigned long long) token,
					  (unsigned long long) before);
	if (token > lock->last_token)
		lock->last_token = token;
	if (mode == ZK_EXCLUSIVE && token > lock->last_exclusive)
		lock->last_exclusive = token;
}

/* A backend has accepted a grant, and relies on it from now on. */
Hold *
check_granted(Backend *backend, WorldLock *lock, ZkMode mode, ZkContenderId id,
			  const ZkContenderStatus *status)
{
	Hold	   *hold = backend->held;

	while (hold->in_use)
		hold++;
	memset(hold, 0, sizeof(*hold));
	hold->in_use = true;
	hold->lock = lock;
	hold->mode = mode;
	hold->id = id;
	strcpy(hold->name, status->name);
	if (!is_tampered(status->name))
		check_token(lock, mode, status->token, backend);
	world_stats.grants++;
	sim_trace("%s: holds %s, %s", backend->process->name, lock->node, hold->name);
	return hold;
}

void
check_let_go(Hold *hold)
{
	hold->in_use = false;
}

/*
 * Others have deleted a contender, or will: whoever relies on it learns it
 * later, and nothing is promised until then.
 */
void
check_tampered(const char *name)
{
	snprintf(tampered[tampered_count++ % MAX_TAMPERED], ZK_NAME_SIZE, "%s", name);
}

/* A contender that is there although nobody wants anything any more. */
static void
check_orphan(const char *name, void *argument)
{
	const WorldLock *lock = argument;
	char		path[160];
	NodeView	view;

	snprintf(path, sizeof(path), "%s/%s", lock->node, name);
	if (strncmp(name, "_c_", 3) == 0 && ensemble_node(path, &view))
		sim_violation("orphans", "%s is left, of session %llx", path,
					  (unsigned long long) view.stat->ephemeralOwner);
}

/* What every backend does, for the trace. */
static void
trace_backend(const Backend *backend)
{
	const Mailbox *mailbox;

	sim_trace("%s: doing %d since %lld s", backend->process->name, (int) backend->doing,
			  (long long) (sim_now() - backend->since) / 1000000);
	if (backend->client == NULL)
		return;
	mailbox = &backend->client->mailbox;
	sim_trace("  session %d %llx %s", (int) mailbox->session.state,
			  (unsigned long long) mailbox->session.session_id, mailbox->session.detail);
	for (int i = 0; i < mailbox->used; i++)
		if (mailbox->slots[i].in_use)
			sim_trace("  %s/%s state %d order %d error %d blocker %s %s",
					  mailbox->slots[i].node, mailbox->slots[i].status.name,
					  (int) mailbox->slots[i].status.state, (int) mailbox->slots[i].order,
					  (int) mailbox->slots[i].status.error,
					  mailbox->slots[i].status.blocker, mailbox->slots[i].status.detail);
}

static void
trace_contender(const char *name, void *argument)
{
	const WorldLock *lock = argument;

	char		path[160];
	NodeView	view;

	snprintf(path, sizeof(path), "%s/%s", lock->node, name);
	if (ensemble_node(path, &view))
		sim_trace("  %s of session %llx", path,
				  (unsigned long long) view.stat->ephemeralOwner);
}

/* Nobody holds or wants anything, and all is well: nothing is left. */
void
check_at_rest(void)
{
	for (int i = 0; sim_tracing && i < world->clients; i++)
		trace_backend(&world->backends[i]);
	for (int i = 0; sim_tracing && i < world->locks; i++)
		ensemble_children(world->lock[i].node, trace_contender, &world->lock[i]);
	for (int i = 0; i < world->clients; i++)
	{
		const Backend *backend = &world->backends[i];

		if (backend->doing != DOING_REST)
			sim_violation("liveness", "%s does not come to an end: doing %d since %lld s",
						  backend->process->name, (int) backend->doing,
						  (long long) (sim_now() - backend->since) / 1000000);
	}
	for (int i = 0; i < world->locks; i++)
		ensemble_children(world->lock[i].node, check_orphan, &world->lock[i]);
}
