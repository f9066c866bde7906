/*-------------------------------------------------------------------------
 *
 * mailbox.h
 *	  The mailbox between the backend thread and the client threads, from the
 *	  inside.
 *
 * Part of client.h, which says what threads and locks there are.
 *
 * IDENTIFICATION
 *	  src/client/mailbox.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_MAILBOX_H
#define ZKLOCK_MAILBOX_H

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

#include "array.h"
#include "record.h"
#include "zkclient.h"

/*
 * How the data of a contender ends, in place of a brace, that has taken the place of
 * an exclusive one, and so much room it takes.
 */
#define ZK_TOKEN_MEMBER		",\"token\":%" PRId64 "}"
#define ZK_TOKEN_ROOM		sizeof(",\"token\":9223372036854775807}")

/* What the backend wants of a slot; later ones overrule earlier ones. */
typedef enum ZkOrder
{
	ZK_ORDER_NONE,
	ZK_ORDER_REQUEST,			/* queue it */
	ZK_ORDER_DOWNGRADE,			/* put it in the place of partner */
	ZK_ORDER_RELEASE,			/* delete it, somebody watches */
	ZK_ORDER_ABANDON			/* delete it, nobody watches */
} ZkOrder;

/* What comes next for a record that is to be written (record_io.c). */
typedef enum RecordStep
{
	RECORD_WRITE,				/* with the multi-op that ends the contender */
	RECORD_READ,				/* it was changed since */
	RECORD_PARENT,				/* the znode above it is missing */
	RECORD_VERIFY				/* the contender is gone: was it by our multi-op? */
} RecordStep;

/*
 * What a contender with a record needs for it: made when it is asked for, so that
 * nothing has to be when it is released.
 */
typedef struct RecordRoom
{
	/* constant */
	size_t		root_len;		/* bytes of the lock node's path that are the root */

	/* door.lock */
	bool		known;			/* found is what the grant came with */
	bool		noted;			/* the backend has noted something */
	ZkRecord	found;
	ZkRecord	note;

	/* engine_lock */
	RecordStep	step;
	bool		uncertain;		/* a multi-op was not answered */
	bool		given_up;		/* it cannot be written */
	int			attempts;		/* in vain */
	int			version;		/* of the znode as last read; -1 for none */
	ZkRecord	base;			/* what was read then */
	ZkRecord	written;		/* what the multi-op on its way writes */
	size_t		parent_len;		/* bytes of the path of the znode to create */
} RecordRoom;

/* One contender as it lies in the mailbox.  All under door.lock. */
typedef struct DoorSlot
{
	uint32_t	generation;		/* bumped when the slot is freed */
	bool		in_use;
	bool		dead;			/* abandoned: the backend's id is void */
	bool		ordered;		/* in the list of orders */
	bool		relied_on;		/* the backend took it for granted */
	bool		counted;		/* is one of Door.losses */
	bool		overtime;		/* and of Door.overtimes */
	uint16_t	next;			/* next in the list of orders, or free list */
	uint16_t	partner;		/* DOWNGRADE: slot of the exclusive one */
	uint16_t	next_member;	/* REQUEST: next in the ring of its group */
	ZkOrder		order;			/* backend writes, helper takes */
	ZkMode		mode;
	int			permits;		/* for ZK_PERMIT */
	char	   *node;			/* malloc'd by the backend, freed by the helper
								 * when the slot is */
	char	   *owner;			/* likewise; NULL once taken.  With room for
								 * ZK_TOKEN_MEMBER */
	int			owner_len;
	RecordRoom *room;			/* likewise malloc'd and freed; NULL without a
								 * record */
	ZkTime		lock_delay;		/* 0 for none */
	ZkTime		max_hold;		/* likewise */
	bool		no_wait;
	size_t		root_len;		/* bytes of node that are the root, if there is */
	ZkContenderStatus status;	/* client writes, backend reads */
} DoorSlot;

/* What the backend wants to know of, or of, the contenders of others. */
typedef enum ErrandKind
{
	ERRAND_READ,				/* the queue of a lock node */
	ERRAND_HEAD,				/* the same, but only who is first */
	ERRAND_TREE,				/* the locks at and below a znode */
	ERRAND_RECORD,				/* the record of a lock; node is its path */
	ERRAND_WAITS,				/* published waits, and the queues they are in */
	ERRAND_REVOKE,				/* leave word for a contender's owner */
	ERRAND_BREAK				/* break a contender */
} ErrandKind;

/* An errand; the strings are malloc'd.  There is none if node is NULL. */
typedef struct Errand
{
	ErrandKind	kind;
	uint32_t	serial;
	char	   *node;
	char	   *name;			/* of the contender; NULL for READ and HEAD; for
								 * TREE the child of node to leave out, or NULL */
	char	   *note;			/* what to write into it; likewise */
} Errand;

/*
 * A wait to be published; the strings are malloc'd.  There is none if text is
 * NULL.
 */
typedef struct WaitText
{
	uint32_t	serial;
	char	   *parent;			/* znode below which it is to be */
	char	   *text;
	int			len;
} WaitText;

/*
 * The mailbox.  Everything is under lock but the descriptor, which is set
 * once, and the atomics.
 */
typedef struct Door
{
	pthread_mutex_t lock;
	pthread_cond_t wake_helper; /* on CLOCK_MONOTONIC */
	int			event_fd;		/* wakes the backend */

	/* Backend thread only: it is between lock and unlock (exit callbacks) */
	volatile int backend_inside;

	/* slots counted as lost; written under lock, read by a signal handler */
	atomic_int	losses;
	atomic_int	overtimes;

	/* a commit is under way; a contender is to be given up when it is over */
	bool		committing;
	bool		overdue;
	atomic_int	revocations;	/* of held contenders, ever; written under lock */

	/* orders for the helper */
	uint16_t	first_order;
	uint16_t	last_order;
	uint16_t	first_free;
	uint16_t	used;			/* slots ever in use lie below */
	int			contenders;		/* slots in use */
	int			path_bytes;		/* of their nodes and names */
	bool		wake;			/* something below or in the list is new */
	bool		signal;			/* ... and the backend, as it leaves, says so */
	bool		renew;
	bool		stop;
	ZkTime		stop_by;		/* then leave what is not done */
	ZkTime		runs_by;		/* ... but for the ends of runs, which have longer */
	ZkTime		connect_by;		/* try for a connection until then, needed or not */
	bool		orphaned;		/* zk_client_stop() did not wait for the end */
	bool		finished;		/* the helper is done, but for its return */
	Errand		errand;			/* its strings are NULL once taken */
	WaitText	wait;			/* likewise */

	/* answers for the backend */
	int64_t		wait_zxid;		/* since when the wait is published; 0 if not */
	ZkQueueListing *listing;
	ZkSessionStatus session;

	/* what is kept for each slot: here, and by the engine */
	DoorSlot   *slots;			/* slot_array.items */
	ZkArray		slot_array;
	ZkArray		engine_array;
} Door;

/*
 * Enter and leave, on the backend thread.  backend_inside tells an exit
 * callback that interrupted us (a background worker's default SIGTERM handler
 * runs exit callbacks from the handler) that the mutex will never come free.
 */
static inline void
door_enter(Door *door)
{
	door->backend_inside = 1;
	pthread_mutex_lock(&door->lock);
}

/*
 * If the helper is to be woken that is done without the lock, or it would wake to
 * wait for that.  (It cannot end meanwhile: only this thread has it stop.)
 */
static inline void
door_leave(Door *door)
{
	bool		signal = door->signal;

	door->signal = false;
	pthread_mutex_unlock(&door->lock);
	if (signal)
		pthread_cond_signal(&door->wake_helper);
	door->backend_inside = 0;
}

/*
 * There is something new for the helper, which is told so in door_leave(), unless
 * somebody has told it already.  The lock is held.
 */
static inline void
wake_helper(Door *door)
{
	door->signal |= !door->wake;
	door->wake = true;
}

/* An order as the helper takes it; owner is malloc'd and now the taker's. */
typedef struct DoorOrder
{
	int			slot;
	ZkOrder		order;
	uint16_t	partner;
	uint16_t	next_member;
	ZkMode		mode;
	int			permits;
	const char *node;
	char	   *owner;
	int			owner_len;
	RecordRoom *room;
	ZkTime		lock_delay;
	ZkTime		max_hold;
	bool		no_wait;
	size_t		root_len;
	ZkContenderStatus status;
} DoorOrder;

/* What else is new; the errand's strings are the taker's. */
typedef struct DoorNews
{
	bool		stop;
	ZkTime		stop_by;
	ZkTime		runs_by;
	ZkTime		connect_by;
	bool		renew;
	Errand		errand;
	WaitText	wait;
} DoorNews;

/* in mailbox.c: the mailbox, seen from the client threads */
extern bool zk_door_init(Door *door, size_t engine_size, ZkError *error,
						 char *detail);
extern void zk_door_destroy(Door *door);
extern void zk_door_wake_backend(Door *door);
extern bool zk_door_end_hold(Door *door, int index, const char *why);
extern void zk_door_publish(Door *door, int index,
							const ZkContenderStatus *status, bool wake);
extern void zk_door_publish_session(Door *door, const ZkSessionStatus *session);
extern void zk_door_free_slot(Door *door, int index);
extern int	zk_door_take_slot(Door *door, const char *node);
extern void zk_door_wait(Door *door, ZkTime until, DoorNews *news);
extern void zk_door_wake_helper(Door *door);
extern bool zk_door_has_run(const Door *door);
extern bool zk_door_next_order(Door *door, DoorOrder *order);
extern void zk_door_publish_listing(Door *door, uint32_t serial,
									ZkQueueListing *listing);
extern void zk_errand_clear(Errand *errand);
extern void zk_wait_clear(WaitText *wait);

/* in slot.c: its slots */
extern DoorSlot *zk_slot_allocate(Door *door, const char *node, ZkError *error);
extern void zk_slot_free(Door *door, DoorSlot *slot);
extern bool zk_slots_allocate(Door *door, const ZkContenderWish *wish,
							  int count, const char *const *nodes,
							  uint16_t *slots, ZkError *error);

/* in mailbox.c, too: seen from the backend thread */
extern DoorSlot *zk_door_find(Door *door, ZkContenderId id);
extern void zk_door_give_errand(Door *door, const Errand *errand);

#endif							/* ZKLOCK_MAILBOX_H */
