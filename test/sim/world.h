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
#include "task.h"
#include "zk_inspect.h"
#include "zk_lock.h"
#include "zk_session.h"

#define WORLD_ROOT		"/zklock"
#define MAX_CLIENTS		50
#define MAX_LOCKS		8
#define MAX_HELD		16

/* A lock of the world. */
typedef struct WorldLock
{
	char		node[32];
	int			permits;		/* 0 for a lock, else of a semaphore */
	int64_t		last_token;		/* of what was granted last, of any mode */
	int64_t		last_exclusive; /* the same, of exclusive ones */
} WorldLock;

/* What a backend relies on. */
typedef struct Hold
{
	bool		in_use;
	WorldLock  *lock;
	ZkMode		mode;
	ZkContenderId id;
	char		name[ZK_NAME_SIZE]; /* of the contender */
} Hold;

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
	SimTime		since;
	Hold		held[MAX_HELD];
	int			life;			/* processes that it has been before */
} Backend;

/* How the world is; chosen by the seed. */
typedef struct World
{
	EnsembleConfig ensemble;
	char		servers[128];
	int			timeout_ms;
	int			clients;
	int			locks;
	SimTime		busy;			/* how long there are faults in each round */
	SimTime		fault_every;	/* on average */
	bool		resting;		/* backends finish what they do, and stop */
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
						   ZkContenderId id, const ZkContenderStatus *status);
extern void check_let_go(Hold *hold);
extern bool check_believed(const Backend *backend, const Hold *hold);
extern void check_tampered(const char *name);
extern void check_at_rest(void);

/* in nemesis.c */
extern void nemesis_begin(SimTime until);
extern void nemesis_heal(void);

#endif							/* WORLD_H */
