/*-------------------------------------------------------------------------
 *
 * peer.h
 *	  What the peers of the bench that are written in C have in common.
 *
 * A peer is a program that takes commands from standard input (see README) and
 * measures one lock client.  Here are the commands; a peer only says how its
 * client connects, acquires and releases.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_BENCH_PEER_H
#define ZKLOCK_BENCH_PEER_H

#include <stdbool.h>

/* What every contender carries where the client lets one choose. */
#define PEER_DATA_SIZE		200

/* The session timeout of all clients, in milliseconds. */
#define PEER_TIMEOUT_MS		30000

/* How long a peer waits for anything, in milliseconds. */
#define PEER_PATIENCE_MS	60000

/* One time that a lock was held; in microseconds of any clock. */
typedef struct PeerHold
{
	double		acquired;		/* when the acquire had returned */
	double		released;		/* just before the release was called */
} PeerHold;

/*
 * A lock client.  Functions that return bool, or a pointer, report by
 * peer_fail() why they return false, or NULL.  A session is used by one thread
 * at a time, except for queued().
 */
typedef struct PeerClient
{
	/* Open a session of its own, and wait until it is connected. */
	void	   *(*connect) (void);

	/*
	 * Optional: connect many; "sessions" is filled.  For clients that can
	 * connect them all at the same time.
	 */
	bool		(*connect_many) (void **sessions, int count);

	/* End a session, and whatever it holds. */
	void		(*disconnect) (void *session);

	/*
	 * Optional: make what a lock needs to be there, such as its lock node.
	 * Called by one session, before others use the path.  Never measured.
	 */
	bool		(*prepare) (void *session, const char *path);

	/*
	 * Optional: do what a session does only once, such as to connect to
	 * something else.  Called for each session before it is used, and maybe
	 * again; for many at the same time, in a thread each.  Never measured,
	 * but left out by "first".
	 */
	bool		(*warm) (void *session);

	/* Acquire, waiting as long as it takes; release, and know that it is. */
	bool		(*acquire) (void *session, const char *path);
	bool		(*release) (void *session, const char *path);

	/*
	 * Optional: the locks path/0 to path/count-1, all or none.  Otherwise
	 * they are acquired one after another.
	 */
	bool		(*acquire_many) (void *session, const char *path, int count);
	bool		(*release_many) (void *session, const char *path, int count);

	/*
	 * Is a session, which has called acquire in another thread, in its place
	 * in the queue, with whatever it waits for set up?  Any thread.  Without
	 * this and release_when() there is no "drain".
	 */
	bool		(*queued) (void *session);

	/*
	 * Optional: acquire, hold for so many microseconds and release, so many
	 * times, and take the times nearer to the lock than the peer could.
	 */
	bool		(*hold) (void *session, const char *path, int count,
						 int hold_us, PeerHold *holds);

	/*
	 * Optional, with hold(): wait until so many others are queued for the
	 * lock that is held, and release it.  "released" is by the same clock.
	 */
	bool		(*release_when) (void *session, const char *path, int waiters,
								 double *released);

	/* It is no lock: all sessions can have it at a time. */
	bool		excludes_nobody;
} PeerClient;

extern int	peer_main(const PeerClient *client);
extern bool peer_fail(const char *format,...) __attribute__((format(printf, 1, 2)));
extern const char *peer_failure(void);
extern double peer_now(void);
extern void peer_sleep_us(long us);
extern bool peer_hold(const PeerClient *what, void *session, const char *path,
					  int hold_us, PeerHold *hold);

#endif							/* ZKLOCK_BENCH_PEER_H */
