/*-------------------------------------------------------------------------
 *
 * leader_contact.h
 *	  Since when the leader has certainly heard of the ZooKeeper session, and
 *	  how long a lease that allows: see leader_contact.c.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LEADER_CONTACT_H
#define ZKLOCK_LEADER_CONTACT_H

#include "zk_types.h"

/* Links that are remembered; they span half a timeout. */
#define ZK_LINKS_MAX		64

/* An operation that the leader has answered, over the connection of now. */
typedef struct ZkLink
{
	ZkTime		sent_at;
	ZkTime		answered_at;
} ZkLink;

typedef struct ZkLeaderContact
{
	ZkTime		leader_heard_at;	/* the leader has heard of the session
									 * since */
	int			count;
	ZkLink		links[ZK_LINKS_MAX];	/* in order */
} ZkLeaderContact;

/*
 * An operation of the session that was committed: when it was sent, and since
 * when the leader had heard of the session, as was known at that moment.
 */
typedef struct ZkProof
{
	ZkTime		sent_at;
	ZkTime		leader_heard_at;
} ZkProof;

extern ZkTime zk_lease_end(ZkProof proof, ZkTime timeout);
extern void zk_leader_contact_forget(ZkLeaderContact *contact);
extern void zk_leader_contact_connected(ZkLeaderContact *contact, ZkTime since);
extern void zk_leader_contact_answered(ZkLeaderContact *contact, ZkTime sent_at, ZkTime answered_at,
									   ZkTime timeout);

#endif							/* ZKLOCK_LEADER_CONTACT_H */
