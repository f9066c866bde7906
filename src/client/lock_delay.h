/*-------------------------------------------------------------------------
 *
 * lock_delay.h
 *	  Lock delay: the markers of a lock's holders, and who has left one behind.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LOCK_DELAY_H
#define ZKLOCK_LOCK_DELAY_H

#include "client.h"
#include "nameset.h"
#include "record.h"

/*
 * Marks of others that one multi-op deletes, and the operations of a multi-op
 * of a contender's own: it may check itself, and make its marker, besides.
 */
#define ZK_MARKER_BATCH	8
#define ZK_OWN_OPS		(ZK_MARKER_BATCH + 2)

/*
 * How far the markers of others are known: UNKNOWN -> LISTED -> DOUBTFUL or
 * READ, and from there back to UNKNOWN.
 */
typedef enum MarkersKnown
{
	MARKERS_UNKNOWN,			/* the queue is to be listed first */
	MARKERS_LISTED,				/* it was, and they are to be read behind that */
	MARKERS_DOUBTFUL,			/* of one it is not known what it means (K2) */
	MARKERS_READ
} MarkersKnown;

/*
 * What a contender with a lock delay knows of the markers of others, of which
 * there may be thousands.  Written by lock_delay.c.  engine_lock.
 */
typedef struct Markers
{
	int			ops;			/* of the multi-op on its way */
	int			create_at;		/* the one that makes it; or 0 */
	MarkersKnown known;
	NameSet		queue;			/* contenders in it when it was listed */
	NameSet		seen;			/* the markers of others when last read */
	NameSet		unclean;		/* those of contenders gone without a release */
	ZkTime		looked_at;		/* when they were read */
	ZkTime		until;			/* not granted before then if there are such */
	ZkTime		shown;			/* until, as the backend was told; or 0 */
} Markers;

extern bool zk_markers_queue_listed(Contender *contender,
									const struct String_vector *list);
extern void zk_send_markers(ZkClient *client, Contender *c);
extern bool zk_markers_advance(ZkClient *client, Contender *c);
extern void zk_markers_outdated(Contender *c);
extern void zk_markers_forget(Contender *contender);
extern ZkTime zk_markers_due(const ZkClient *client, const Contender *contender);

#endif							/* ZKLOCK_LOCK_DELAY_H */
