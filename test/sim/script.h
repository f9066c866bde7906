/*-------------------------------------------------------------------------
 *
 * script.h
 *	  What a single backend does with its lock client, act by act, on a server
 *	  that works well.
 *
 * For programs of which each looks at that in its own way: failing.c, costs.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SCRIPT_H
#define SCRIPT_H

#include "await.h"
#include "ensemble.h"
#include "task.h"

#define SCRIPT_ROOT		"/zklock"
#define SCRIPT_TIMEOUT_MS	4000
#define SCRIPT_LOCK_DELAY	SIM_MS(100)

/* Where waits are published, and what contenders say of their owners. */
#define SCRIPT_WAITS	SCRIPT_ROOT "/.zklock/waits"
#define SCRIPT_OWNER	"{\"cluster\":\"alpha\",\"pid\":1}"

/* A contender of another client. */
#define SCRIPT_OTHER	"_c_x-lock-0000000000"

/* Most of another client's permit, one of two; the last digit follows. */
#define SCRIPT_PERMIT	"_c_f87b3de1-7a4c-4c1e-9d29-6a0b8d6f5e01-sem2-000000000"

/* The lock nodes: locks, and the last one is a semaphore. */
#define SCRIPT_NODES	3
extern const char *const script_nodes[SCRIPT_NODES];

typedef struct Act
{
	const char *name;
	void		(*play) (void);
} Act;

/* All that the client offers, each once. */
#define SCRIPT_ACTS		16
extern const Act script_acts[SCRIPT_ACTS];

/*
 * What is done to it, and what takes long (acts.c); and what it asks (asks.c).  For these
 * there must be memory.
 */
extern const Act script_more_acts[];
extern const int script_more_count;
extern const Act script_questions[];
extern const int script_question_count;

/* Contenders of one request. */
typedef struct Group
{
	int			count;
	ZkContenderId ids[SCRIPT_NODES];
} Group;

extern Process *script_process;
extern ZkClient *script_client;

/* A world with a server, and a process that does nothing yet. */
extern void script_begin(uint64_t seed, const TaskConfig *schedule);

/*
 * The process starts a client, plays its part, and stops; then no contender and
 * no memory may be left.
 */
extern void script_run(void (*part) (void));

/* The world ends. */
extern void script_end(void);

/*
 * All that follow run in the task of that process.  An act is its name in reports,
 * and what it does.
 */
extern void script_play(const Act *act);

/*
 * What the act of now has come to.  Each contender is held, lost, gone, recorded, failed
 * or something other, with the number of the reason, and may be asked for (!) or in a
 * deadlock (?).  An answer has so many members, with a sum of all that it says of these
 * (=), of so many waits, and hides so many (-); or has the record's token; or an error.
 * What is said in words has a number, too (.).
 */
#define SCRIPT_ENDS		160
extern char script_ends[SCRIPT_ENDS];
extern void script_note(const ZkContenderStatus *status);

/* The client starts, and stops: so can acts do with it. */
extern void script_start(void);
extern void script_stop(void);

/* Waits until that is seen, which must not take long; the second, of all in a group. */
extern void script_await(Seen seen, void *argument);
extern void script_await_group(Seen seen, const Group *group);

/*
 * Requests the first locks, with records and a lock delay if "recorded"; false if that
 * fails at once, for want of memory.
 */
extern bool script_request(Group *group, int count, ZkMode mode, bool recorded);
extern void script_release(Group *group);

/* Requests them, and waits until they are granted. */
extern void script_hold(Group *group, int count, ZkMode mode, bool recorded);

/* Turns the first of them into a shared one, and gives that time. */
extern void script_downgrade(Group *group);

/* Waits for the answer to a query; the second one asks it before. */
extern void script_take_answer(void);
extern void script_ask(ZkQueryKind kind, const char *node);

/* An ephemeral znode of the client's own session, if it has one, that it does not know. */
extern void script_create_own(const char *path);

/* What another client does, as soon as the server works; false if it is refused. */
extern bool script_commit(const Op *op);

/* All clients have these permissions for a znode from now on. */
extern void script_permit(const char *path, int perms);

/*
 * Another client's exclusive contender for the first lock, with the number of the next one
 * but so many.
 */
extern void script_create_next(int more, char *path, size_t size);

/* A znode of another client, which creates or deletes it. */
extern bool script_change(OpKind kind, const char *path);

#endif							/* SCRIPT_H */
