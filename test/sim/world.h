/*-------------------------------------------------------------------------
 *
 * world.h
 *	  What is in one simulated world: its clients, what they do, what they hold.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORLD_H
#define WORLD_H

#include "ensemble.h"
#include "plan.h"
#include "task.h"
#include "zk_inspect.h"
#include "zk_lock.h"
#include "zk_session.h"

#define WORLD_ROOT		"/zklock"
#define MAX_CLIENTS		50
#define MAX_LOCKS		8
#define MAX_HELD		16
#define MAX_DUE			32

/* How long the effects of faults last. */
#define CALMING			(SIM_SECONDS(10) + SIM_MS(world->timeout_ms) * 4)

/* A lock of the world. */
typedef struct WorldLock
{
	char		node[32];
	int			permits;		/* 0 for a lock, else of a semaphore */
	int64_t		last_token;		/* of what was granted last, of any mode */
	int64_t		last_exclusive; /* the same, of exclusive ones */
	char		unclean[ZK_NAME_SIZE];	/* a holder with a lock delay that was
										 * killed; or empty */
	SimTime		unclean_since;	/* when its contender went; 0 if it is there */
} WorldLock;

/* What a backend relies on. */
typedef struct Hold
{
	bool		in_use;
	WorldLock  *lock;
	ZkMode		mode;
	ZkContenderId id;
	char		name[ZK_NAME_SIZE]; /* of the contender */
	char		last_name[ZK_NAME_SIZE];	/* the same, after a downgrade */
	int64_t		token;
	int64_t		session;		/* whose the contender is */
	ZkTime		lease_end;		/* as seen last; 0 if L2 does not say its
								 * length */
	ZkTime		beat_at;		/* when a proof was good for long */
	ZkTime		delay;			/* the lock delay */
	bool		recorded;		/* it was requested with its record */
	bool		noted;			/* which is to be written */
	int			overdue;		/* for how many seconds it is over, untold */
	int			deleted;		/* for how many seconds its znode is gone */
	bool		lost;
	bool		downgraded;
} Hold;

/* A contender that is in front of its queue, as seen each second. */
typedef struct Due
{
	char		name[ZK_NAME_SIZE];
	int			seconds;
} Due;

/* What a backend is doing; for reports. */
typedef enum Doing
{
	DOING_NOTHING,
	DOING_START,
	DOING_WAIT,					/* for a grant */
	DOING_HOLD,
	DOING_RELEASE,
	DOING_QUERY,
	DOING_STOP,
	DOING_REST					/* nothing is held or wanted any more */
} Doing;

/* A backend: a process with a lock client. */
typedef struct Backend
{
	int			number;
	Process    *process;
	ZkClient   *client;
	ZkConfig	config;
	Doing		doing;
	const PlanLine *line;		/* of the plan, not begun yet; or NULL */
	int			next_line;		/* of the plan, or how many have been chosen */
	SimTime		since;
	Hold		held[MAX_HELD];
	int			holds;			/* so many of these have been in use */
	SimTime		asked_since;	/* what it asks for has not been taken; or 0 */
	int			life;			/* processes that it has been before */
	Due			due[MAX_DUE];	/* by slot */
	SimTime		connecting;		/* the last attempt to connect, and how many
								 * there were in these ten seconds */
	int			attempts;
	int			calm_attempts;	/* those of them in calm times */
	int			calls;			/* and calls that began in these ten seconds */
	const PlanLine *ambush;		/* the fault that waits for a request; or NULL */
	int64_t		reconnects;		/* that there had been when it began to wait */
} Backend;

/* How the world is; the plan says it. */
typedef struct World
{
	EnsembleConfig ensemble;
	char		servers[128];
	int			timeout_ms;
	bool		tls;			/* only clients' I/O threads send */
	int			shortest_ms;	/* what the servers have made of that at least */
	int			clients;
	bool		identity;		/* they have a credential */
	int			locks;
	bool		choosing;		/* the plan is made as the world goes on */
	int			round;			/* from 1 on */
	SimTime		round_began;
	int64_t		slow;			/* clocks, by so many millionths at most */
	int64_t		fast;
	bool		resting;		/* backends finish what they do, and stop */
	bool		keeping;		/* or keep their clients */
	bool		denied;			/* in this round, permissions were taken away,
								 * also for records */
	SimTime		denied_at;		/* permissions for a lock were taken away last */
	SimTime		pause;			/* how long a thread may stand still */
	bool		steady;			/* nothing stands still for long by itself */
	bool		quick;			/* nor for some hundredths of a second */
	SimTime		healed_at;		/* faults are over */
	SimTime		calm_from;		/* and their effects */
	bool		one_hangs;		/* one server does, or did, after that */
	Backend		backends[MAX_CLIENTS];
	WorldLock	lock[MAX_LOCKS];
} World;

extern World world_of_now;
#define world (&world_of_now)

typedef struct WorldStats
{
	uint64_t	grants;
	uint64_t	requests;
	uint64_t	losses;
	uint64_t	faults;
	uint64_t	kills;
	uint64_t	checks;
} WorldStats;

extern WorldStats world_stats;

/* in backend.c */
extern void backend_start(Backend *backend);
extern void backend_kill(Backend *backend);

/* in check.c */
extern void check_begin(void);
extern Hold *check_granted(Backend *backend, WorldLock *lock, ZkMode mode,
						   ZkContenderId id, const ZkContenderStatus *status,
						   const ZkLockRequest *request);
extern void check_group(const Backend *backend, Hold *const *held, int count);
extern void check_let_go(Hold *hold);
extern void check_released(const Backend *backend, const Hold *hold,
						   const ZkContenderStatus *status);
extern bool check_believed(const Backend *backend, const Hold *hold);
extern void check_tampered(const char *name);
extern void check_wiped(void);
extern bool check_is_tampered(const char *name);
extern const char *check_present_name(const Backend *backend, const Hold *hold);
extern bool check_is_spoilt(const Backend *backend, const Hold *hold);
extern bool check_denied_lately(SimTime ago);
extern bool check_is_loser(const char *name);
extern bool check_contender_exists(const Hold *hold);
extern bool check_marker_exists(const Hold *hold);
extern const struct MailboxSlot *check_slot(const Backend *backend, const Hold *hold);
extern void check_at_rest(void);

/* in truth.c */
extern void truth_begin(void);
extern void truth_step(void);
extern void truth_granted(Backend *backend, const Hold *hold);
extern void truth_killed(const Backend *backend);

/* in calm.c */
extern bool calm(void);
extern bool calm_but_one(const Backend *backend);
extern void calm_granted(const Backend *backend, const Hold *hold);
extern void calm_crowd_gone(const Backend *backend, SimTime took);
extern void calm_begin(void);
extern void calm_hold(const Backend *backend, Hold *hold);
extern void calm_connecting(Backend *backend);
extern void calm_revoked(const char *name);
extern void calm_broken(const char *name);

/* undone.c */
extern void undone_step(Backend *backend);

/* in nemesis.c: the faults of a round, and their end */
extern void nemesis_begin(void);
extern void nemesis_heal(void);
extern void nemesis_step(Backend *backend);

/*
 * In choose.c: draws lots for a plan, for one of its rounds, or for what a client
 * does next, in that round, at that time or later.  Calm begins so long after the
 * end of the faults, and clients rest after that.
 */
extern void choose_world(uint64_t seed);
extern void choose_round(int number, SimTime calming, SimTime rest);
extern PlanLine *choose_operation(int client, int number, SimTime since);

#endif							/* WORLD_H */
