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
#include <limits.h>
#include <string.h>

#include "client.h"
#include "contender.h"
#include "hash.h"
#include "request.h"
#include "slot.h"
#include "world.h"

/* Names of contenders, the last ones; they are unique. */
#define MAX_NAMES	1024
#define NAME_KINDS	4096
typedef struct Names
{
	char		names[MAX_NAMES][ZK_NAME_SIZE];
	unsigned int count;
	unsigned short of_kind[NAME_KINDS]; /* most are not among the names, and
										 * need not be compared with them */
} Names;

static Names tampered;			/* that others have deleted */
static Names losers;			/* that were lost, and never released */

/* Names of one kind have much the same beginning, which is random. */
static unsigned short *
count_of_kind(Names *names, const char *name)
{
	return &names->of_kind[hash_path(name, strnlen(name, 16)) % NAME_KINDS];
}

static void
remember(Names *names, const char *name)
{
	char	   *place = names->names[names->count % MAX_NAMES];

	if (names->count >= MAX_NAMES)
		(*count_of_kind(names, place))--;
	snprintf(place, ZK_NAME_SIZE, "%s", name);
	(*count_of_kind(names, place))++;
	names->count++;
}

static void
forget_all(Names *names)
{
	names->count = 0;
	memset(names->of_kind, 0, sizeof(names->of_kind));
}

static bool
is_among(Names *names, const char *name)
{
	if (*count_of_kind(names, name) == 0)
		return false;
	for (unsigned int i = 0; i < MAX_NAMES && i < names->count; i++)
		if (strcmp(names->names[i], name) == 0)
			return true;
	return false;
}

bool
check_is_tampered(const char *name)
{
	return is_among(&tampered, name);
}

bool
check_is_loser(const char *name)
{
	return is_among(&losers, name);
}

/* The mailbox's slot of what is held; NULL if it is no more. */
const MailboxSlot *
check_slot(const Backend *backend, const Hold *hold)
{
	const Mailbox *mailbox = &backend->client->mailbox;
	const MailboxSlot *slot = &mailbox->slots[hold->id & 0xFFFF];

	return slot->in_use && !slot->dead &&
		slot->generation == (uint32_t) (hold->id >> 16) ? slot : NULL;
}

bool
check_believed(const Backend *backend, const Hold *hold)
{
	const MailboxSlot *slot;

	if (!hold->in_use || backend->client == NULL || backend->process->dead)
		return false;
	slot = check_slot(backend, hold);
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
 * The name of the contender of what is held, as its client knows it.  A downgrade whose
 * answer is lost has given it another one already.  NULL if it is held no more.
 */
const char *
check_present_name(const Backend *backend, const Hold *hold)
{
	return check_slot(backend, hold) == NULL ? NULL :
		backend->client->contenders[hold->id & 0xFFFF].znode.name;
}

/*
 * The session got a shorter timeout by a connection attempt that was not answered: its
 * client cannot know that it may have ended (L1).
 */
static bool
is_shortened_unseen(const Backend *backend, const Hold *hold)
{
	int			shortest = ensemble_shortest_timeout(hold->session);

	return backend->client != NULL && shortest < INT_MAX &&
		SIM_MS(shortest) < zk_timeout(backend->client);
}

/* Others have deleted what is held, or will, or nobody can know whether it is. */
bool
check_is_spoilt(const Backend *backend, const Hold *hold)
{
	const char *present = check_present_name(backend, hold);

	return is_shortened_unseen(backend, hold) || check_is_tampered(hold->name) ||
		check_is_tampered(hold->last_name) ||
		(present != NULL && check_is_tampered(present));
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
		for (int k = 0; k < world->backends[i].holds; k++)
		{
			const Hold *hold = &world->backends[i].held[k];

			count += hold->in_use && hold->lock == lock &&
				check_believed(&world->backends[i], hold) &&
				!check_is_spoilt(&world->backends[i], hold);
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

		for (int k = 0; k < other->holds && other != backend; k++)
			if (other->held[k].in_use && exclude(hold, &other->held[k]) &&
				check_believed(other, &other->held[k]) &&
				!check_is_spoilt(other, &other->held[k]) && !check_is_spoilt(backend, hold))
				report_both(backend, hold, other, &other->held[k]);
	}
}

/*
 * Returns true if permissions for a lock were taken away so recently that they may be
 * missing still, or were until that long ago.
 */
bool
check_denied_lately(SimTime ago)
{
	return world->denied_at > 0 && sim_now() < world->denied_at + SIM_SECONDS(20) + ago;
}

/* Returns true if the lock may be lost because it is no longer permitted to turn it. */
static bool
may_be_refused(const Hold *hold)
{
	return hold->downgraded && check_denied_lately(0);
}

/*
 * What the mailbox says of what is held: lost is final (L4), and the token stays
 * the same (F9).
 */
static void
check_state(const Backend *backend, Hold *hold)
{
	const MailboxSlot *slot = check_slot(backend, hold);

	if (slot == NULL)
		return;
	/* one that is lost may have no name any more */
	if (hold->downgraded && slot->status.state == ZK_HELD)
		strcpy(hold->last_name, slot->status.name);
	if (slot->status.state == ZK_LOST && !hold->lost)
	{
		hold->lost = true;
		world_stats.losses++;
		if (!hold->downgraded)
			remember(&losers, hold->name);
		if (calm_but_one(backend) && slot->status.loss != ZK_LOST_OVERTIME &&
			!check_is_spoilt(backend, hold) && !may_be_refused(hold))
			sim_violation("calm", "%s has lost %s without a reason: %s",
						  backend->process->name, hold->name, slot->status.detail);
	}
	if (slot->status.state == ZK_HELD && hold->lost)
		sim_violation("final", "%s holds %s, which it had lost",
					  backend->process->name, hold->name);
	if (slot->status.state == ZK_HELD && slot->status.token != hold->token)
		sim_violation("tokens", "%s: the token of %s was %llx, and is %llx",
					  backend->process->name, hold->name, (unsigned long long) hold->token,
					  (unsigned long long) slot->status.token);
}

/* After a step of a task: what its process believes. */
static void
check_step(void)
{
	Backend    *backend = task_last_process()->program;

	world_stats.checks++;
	truth_step();
	if (backend == NULL || backend->process->dead)
		return;
	nemesis_step(backend);
	calm_connecting(backend);
	undone_step(backend);
	for (int k = 0; k < backend->holds; k++)
	{
		Hold	   *hold = &backend->held[k];

		if (!hold->in_use || backend->client == NULL)
			continue;
		check_state(backend, hold);
		calm_hold(backend, hold);
		if (check_believed(backend, hold))
			check_hold(backend, hold);
	}
}

void
check_begin(void)
{
	sim_after = check_step;
	truth_begin();
	forget_all(&tampered);
	forget_all(&losers);
}

/*
 * A token is greater than that of whatever excluded it before: that is what
 * fences rely on (F rules).  A grant that is lost before the backend looks may come
 * late: the fence refuses it.
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

bool
check_contender_exists(const Hold *hold)
{
	NodeView	view;

	return ensemble_child(hold->lock->node, hold->name, &view);
}

bool
check_marker_exists(const Hold *hold)
{
	char		path[160];
	NodeView	view;

	snprintf(path, sizeof(path), WORLD_ROOT "/.zklock/records%s/%s",
			 hold->lock->node + strlen(WORLD_ROOT), hold->name);
	return ensemble_node(path, &view);
}

/* A backend has accepted a grant, and relies on it from now on. */
Hold *
check_granted(Backend *backend, WorldLock *lock, ZkMode mode, ZkContenderId id,
			  const ZkContenderStatus *status, const ZkLockRequest *request)
{
	Hold	   *hold = backend->held;

	while (hold->in_use)
		hold++;
	if (hold == backend->held + backend->holds)
		backend->holds++;
	memset(hold, 0, sizeof(*hold));
	hold->in_use = true;
	hold->lock = lock;
	hold->mode = mode;
	hold->id = id;
	hold->token = status->token;
	hold->session = backend->client->mailbox.session.session_id;
	hold->delay = request->lock_delay;
	hold->recorded = request->record;
	strcpy(hold->name, status->name);
	if (check_believed(backend, hold))
	{
		if (!check_is_tampered(status->name))
			check_token(lock, mode, status->token, backend);
		truth_granted(backend, hold);
		calm_granted(backend, hold);
	}
	world_stats.grants++;
	sim_trace("%s: holds %s, %s", backend->process->name, lock->node, hold->name);
	return hold;
}

/* It is about to be given up. */
void
check_let_go(Hold *hold)
{
	hold->in_use = false;
}

/* The locks of one call were granted, and created by one transaction (Q9). */
void
check_group(const Backend *backend, Hold *const *held, int count)
{
	for (int i = 1; i < count; i++)
		if (held[i]->token != held[0]->token)
			sim_violation("groups", "%s: %s has token %llx, and %s has %llx",
						  backend->process->name, held[i]->name,
						  (unsigned long long) held[i]->token, held[0]->name,
						  (unsigned long long) held[0]->token);
}

/*
 * The client says that what was held is gone: then so is the contender (Q6), and
 * with it the marker (K6).
 */
void
check_released(const Backend *backend, const Hold *hold, const ZkContenderStatus *status)
{
	bool		in_order = status->loss == ZK_NOT_LOST && !check_is_tampered(hold->name) &&
	ensemble_session_lives(hold->session);

	/*
	 * a leader that was replaced may say that a session has expired which has
	 * not
	 */
	if (hold->downgraded ||
		backend->client->connection.session.client_id != hold->session)
		return;
	if (check_contender_exists(hold))
		sim_violation("release", "%s: %s is released, and still there",
					  hold->lock->node, hold->name);
	if (in_order && !world->denied && check_marker_exists(hold))
		sim_violation("markers", "%s: %s is released, and its marker still there",
					  hold->lock->node, hold->name);
	if (in_order && hold->noted && hold->mode == ZK_EXCLUSIVE && !status->recorded &&
		status->error == ZK_OK)
		sim_violation("records", "%s: the release of %s is not recorded, without an error",
					  hold->lock->node, hold->name);
	if (status->error == ZK_ERR_UNCERTAIN)
		sim_trace("cannot know whether the release of %s is recorded", hold->lock->node);
}

/*
 * Others have deleted a contender, or will: whoever relies on it learns it
 * later, and nothing is promised until then.
 */
void
check_tampered(const char *name)
{
	remember(&tampered, name);
}

static void
check_tampered_child(const char *name, const NodeView *view, void *argument)
{
	(void) view;
	(void) argument;
	check_tampered(name);
}

/*
 * All data are about to be lost: clients lose their locks later (S12), and what is
 * granted from now on has nothing to do with what was.
 */
void
check_wiped(void)
{
	for (int i = 0; i < world->locks; i++)
	{
		WorldLock  *lock = &world->lock[i];

		ensemble_children(lock->node, check_tampered_child, NULL);
		lock->last_token = lock->last_exclusive = 0;
		lock->unclean[0] = '\0';
	}
	for (int i = 0; i < world->clients; i++)
		for (int k = 0; k < world->backends[i].holds; k++)
			check_tampered(world->backends[i].held[k].name);
}

/* A contender that is there although nobody wants anything any more. */
static void
check_orphan(const char *name, const NodeView *view, void *argument)
{
	(void) argument;
	if (strncmp(name, "_c_", 3) == 0)
		sim_violation("orphans", "%s is left, of session %llx", view->path,
					  (unsigned long long) view->stat->ephemeralOwner);
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
trace_contender(const char *name, const NodeView *view, void *argument)
{
	(void) name;
	(void) argument;
	sim_trace("  %s of session %llx", view->path,
			  (unsigned long long) view->stat->ephemeralOwner);
}

/*
 * A client that is kept although nothing is wanted of it has no slot in use, and
 * no request under way but a heartbeat.
 */
static void
check_kept(const Backend *backend)
{
	if (backend->client == NULL)
		return;
	if (backend->client->mailbox.contenders > 0)
		sim_violation("slots", "%s: %d are in use", backend->process->name,
					  (int) backend->client->mailbox.contenders);
	if (zk_requests_free(backend->client) < ZK_MAX_IN_FLIGHT - 2)
		sim_violation("requests", "%s: %d are under way", backend->process->name,
					  ZK_MAX_IN_FLIGHT - zk_requests_free(backend->client));
}

/* A wait that was withdrawn, or whose client is gone. */
static void
check_wait(const char *name, const NodeView *view, void *argument)
{
	(void) view;
	(void) argument;
	sim_violation("orphans", "the wait of session %s is still published", name);
}

/* Nobody holds or wants anything, and all is well: nothing is left. */
void
check_at_rest(void)
{
	for (int i = 0; sim_tracing && i < world->clients; i++)
		trace_backend(&world->backends[i]);
	for (int i = 0; sim_tracing && i < world->locks; i++)
		ensemble_children(world->lock[i].node, trace_contender, NULL);
	for (int i = 0; i < world->clients; i++)
	{
		const Backend *backend = &world->backends[i];

		check_kept(backend);
		if (backend->doing != DOING_REST)
			sim_violation("liveness", "%s does not come to an end: doing %d since %lld s",
						  backend->process->name, (int) backend->doing,
						  (long long) (sim_now() - backend->since) / 1000000);
	}
	for (int i = 0; i < world->locks; i++)
		ensemble_children(world->lock[i].node, check_orphan, NULL);
	ensemble_children(WORLD_ROOT "/.zklock/waits", check_wait, NULL);
}
