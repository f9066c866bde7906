/*-------------------------------------------------------------------------
 *
 * mailbox.h
 *	  The mailbox between the backend thread and the client threads, from the
 *	  inside.
 *
 * Part of client.h, which says what threads and locks there are.
 *
 * D1. The backend is woken by the eventfd and reads states after it has cleared
 * it; states are published before the eventfd is written.  No wake-up is lost.
 * WaitLatch may report only the latch, so states are read after every return,
 * whatever it says.
 *
 * D2. Giving an order allocates nothing and cannot fail.  What might fail (room
 * for the contender, for the downgrade) was done when the lock was taken.  So
 * locks can be released after commit.
 *
 * D3. An id names a slot and a generation and is never used again, so a late
 * answer or a late order can do no harm.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_MAILBOX_H
#define ZKLOCK_MAILBOX_H

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "array.h"
#include "record.h"
#include "zk_inspect.h"
#include "zk_lock.h"
#include "zk_record.h"
#include "zk_session.h"
#include "zk_types.h"

/*
 * What replaces the last brace of a contender's data when it takes the place of
 * an exclusive one, and the room for it.
 */
#define ZK_TOKEN_MEMBER		",\"token\":%" PRId64 "}"
#define ZK_TOKEN_ROOM		sizeof(",\"token\":9223372036854775807}")

/* No slot. */
#define ZK_NO_SLOT			UINT16_MAX

/* What the backend wants of a slot; later ones overrule earlier ones. */
typedef enum ZkOrder
{
	ZK_ORDER_NONE,
	ZK_ORDER_REQUEST,			/* queue it */
	ZK_ORDER_DOWNGRADE,			/* put it in the place of partner */
	ZK_ORDER_RELEASE,			/* delete it, the backend waits for that */
	ZK_ORDER_ABANDON			/* delete it, the backend does not wait */
} ZkOrder;

/* How far a contender is with its record; record_io.c draws the transitions. */
typedef enum RecordState
{
	RECORD_UNREAD,				/* to be read after the list of the queue */
	RECORD_READ,				/* to be written when the contender ends */
	RECORD_SENT,				/* the multi-op that does both is on its way,
								 * or about to be sent again */
	RECORD_CHANGED,				/* by another client: read it again */
	RECORD_VERIFY,				/* the contender is gone: was it by our
								 * multi-op? */
	RECORD_WRITTEN,				/* it has what was noted */
	RECORD_GIVEN_UP				/* it cannot be written */
} RecordState;

/*
 * What a contender with a record needs for it; allocated when it is requested,
 * so that a release allocates nothing.
 */
typedef struct RecordBuffer
{
	/* mailbox.lock */
	bool		known;			/* found is what the grant came with */
	bool		noted;			/* the backend has noted something */
	ZkRecord	found;
	ZkRecord	note;

	/* engine_lock */
	RecordState state;
	bool		uncertain;		/* a multi-op was not answered, then or before */
	int			attempts;		/* in vain */
	int			version;		/* of the znode as last read; -1 for none */
	ZkRecord	base;			/* what was read then */
	ZkRecord	written;		/* what the multi-op on its way writes */
} RecordBuffer;

/* A query; the strings are malloc'd.  There is none if node is NULL. */
typedef struct Query
{
	ZkQueryKind kind;
	uint32_t	serial;
	char	   *node;
	char	   *name;			/* of the contender, or of the child to leave
								 * out; or NULL */
	char	   *note;			/* what to write into it; or NULL */
} Query;

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

/* What the engine is asked for besides orders. */
typedef struct MailboxNews
{
	bool		renew;			/* prove all contenders */
	Query		query;			/* its strings are NULL once taken */
	WaitText	wait;			/* the same */
} MailboxNews;

/* What the helper alone is told, as it may have to wait for it. */
typedef struct HelperDuties
{
	bool		stop;
	ZkTime		stop_by;		/* then leave what is not done */
	ZkTime		runs_by;		/* except the ends of runs, which have longer */
	ZkTime		connect_by;		/* try for a connection until then, needed or
								 * not */
} HelperDuties;

/* The number of the next query, or wait: never 0. */
static inline uint32_t
zk_next_serial(uint32_t serial)
{
	return serial < UINT32_MAX ? serial + 1 : 1;
}

typedef struct MailboxSlot MailboxSlot; /* slot.h */

/*
 * The mailbox.  Everything is under lock but the descriptors, which are set
 * once, and the atomics.
 */
typedef struct Mailbox
{
	pthread_mutex_t lock;
	int			event_fd;		/* wakes the backend */
	int			timer_fd;		/* wakes the helper */
	bool		handlers_exit;	/* as in ZkConfig; constant */

	/*
	 * Backend thread only: it is between lock and unlock, or in the engine
	 * (exit callbacks); and its signal mask before that, with handlers_exit
	 */
	volatile int backend_inside;
	sigset_t	outside_mask;

	/* slots counted as lost; written under lock, read by a signal handler */
	atomic_int	losses;
	atomic_int	overtimes;

	/* a commit is under way; a contender is to be given up when it is over */
	bool		committing;
	bool		overdue;
	atomic_int	revocations;	/* of held contenders, ever; written under
								 * lock */

	/* orders for the engine */
	atomic_bool asked;			/* there are some that should not wait, or
								 * news; set under lock */
	uint16_t	first_order;
	uint16_t	last_order;
	uint16_t	first_free;
	uint16_t	used;			/* slots ever in use lie below */
	int			contenders;		/* slots in use */
	int			path_bytes;		/* of their nodes and names */
	MailboxNews news;

	/* for the helper */
	bool		wake;			/* it is to look around */
	bool		asleep;			/* until the timer rings */
	HelperDuties duties;
	bool		orphaned;		/* zk_client_stop() did not wait for the end */
	bool		finished;		/* the helper is done, but for its return */

	/* answers for the backend */
	int64_t		wait_zxid;		/* since when the wait is published; 0 if not */
	ZkQueueListing *listing;
	ZkSessionStatus session;

	/* what is kept for each slot: here, and by the engine */
	MailboxSlot *slots;			/* slot_array.items */
	ZkArray		slot_array;
	ZkArray		engine_array;
} Mailbox;

extern void zk_mailbox_wake_helper(Mailbox *mailbox);

/*
 * Begin and end what must not be broken off, on the backend thread.  Where a
 * signal handler may run exit callbacks (a background worker's default one for
 * SIGTERM), all signals are blocked meanwhile: such a callback would want the
 * mutex, and the ZooKeeper session is to be closed.  backend_inside tells a
 * callback that interrupts us all the same that the mutex will never come free.
 */
static inline void
mailbox_begin(Mailbox *mailbox)
{
	sigset_t	all;

	if (mailbox->handlers_exit)
	{
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &mailbox->outside_mask);
	}
	mailbox->backend_inside = 1;
}

/* The handlers of signals that have come meanwhile run here. */
static inline void
mailbox_end(Mailbox *mailbox)
{
	mailbox->backend_inside = 0;
	if (mailbox->handlers_exit)
		pthread_sigmask(SIG_SETMASK, &mailbox->outside_mask, NULL);
}

/* Enter and leave, on the backend thread. */
static inline void
mailbox_enter(Mailbox *mailbox)
{
	mailbox_begin(mailbox);
	pthread_mutex_lock(&mailbox->lock);
}

static inline void
mailbox_leave(Mailbox *mailbox)
{
	pthread_mutex_unlock(&mailbox->lock);
	mailbox_end(mailbox);
}

/* The same, and wakes the helper. */
static inline void
mailbox_leave_and_wake(Mailbox *mailbox)
{
	pthread_mutex_unlock(&mailbox->lock);
	zk_mailbox_wake_helper(mailbox);
	mailbox_end(mailbox);
}

/* An order as the engine takes it; owner is malloc'd and now the taker's. */
typedef struct MailboxOrder
{
	int			slot;
	ZkOrder		order;
	uint16_t	partner;
	uint16_t	next_member;
	ZkLockRequest request;
	const char *node;
	char	   *owner;
	int			owner_len;
	RecordBuffer *record;
	ZkContenderStatus status;
} MailboxOrder;

/* the mailbox, seen from the client threads */
extern bool zk_mailbox_init(Mailbox *mailbox, size_t engine_size, ZkError *error,
							char *detail);
extern void zk_mailbox_destroy(Mailbox *mailbox);
extern void zk_mailbox_wake_backend(Mailbox *mailbox);
extern bool zk_mailbox_end_hold(Mailbox *mailbox, int index, const char *why);
extern void zk_mailbox_publish(Mailbox *mailbox, int index,
							   const ZkContenderStatus *status, bool wake);
extern void zk_mailbox_publish_session(Mailbox *mailbox, const ZkSessionStatus *session);
extern void zk_mailbox_free_slot(Mailbox *mailbox, int index);
extern int	zk_mailbox_take_slot(Mailbox *mailbox, const char *node);
extern void zk_mailbox_set_timer(Mailbox *mailbox, ZkTime when);
extern void zk_mailbox_wait(Mailbox *mailbox, HelperDuties *duties);
extern bool zk_mailbox_has_run(const Mailbox *mailbox);
extern void zk_mailbox_take_news(Mailbox *mailbox, MailboxNews *news);
extern bool zk_mailbox_next_order(Mailbox *mailbox, MailboxOrder *order);
extern void zk_mailbox_publish_listing(Mailbox *mailbox, uint32_t serial,
									   ZkQueueListing *listing);
extern ZkQueueListing zk_listing_no_memory;
extern void zk_query_clear(Query *query);
extern void zk_wait_clear(WaitText *wait);

/* seen from the backend thread */
extern MailboxSlot *zk_mailbox_find(Mailbox *mailbox, ZkContenderId id);

#endif							/* ZKLOCK_MAILBOX_H */
