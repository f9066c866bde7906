/*-------------------------------------------------------------------------
 *
 * leader_contact.c
 *	  The time since which the leader has certainly heard of the ZooKeeper
 *	  session, and the lease that this allows.
 *
 * The leader expires a session that it has not heard of for the session's
 * timeout.  If the session's client is connected to a follower, the leader
 * hears of it (ZooKeeper 3.8 and 3.9; names are those of its classes):
 *
 * - when the session is made, or a connection for it: the follower asks the
 *	 leader whether the session exists (Leader.revalidateSession touches it);
 * - when the follower answers the leader's ping, which it does with the
 *	 sessions that it has heard of since the ping before (Learner.ping,
 *	 LearnerHandler.run).  The leader sends one to each follower every half tick
 *	 (Leader.lead);
 * - but not when the follower forwards a request.  LearnerHandler gives that to
 *	 LeaderZooKeeperServer.submitLearnerRequest, which goes round the place
 *	 where a server's own clients touch their sessions
 *	 (ZooKeeperServer.submitRequestNow).  The session is checked
 *	 (SessionTrackerImpl.checkSession) and not touched.
 *
 * So a committed operation proves that the session was alive, but not for how
 * much longer it will be: if the follower hangs right after it, the leader
 * counts from the last report before it.  tap/037_follower shows it
 * happen.  Nor does the answer to a read say anything, which the follower gives
 * by itself: a leader that is stopped hears nothing, and when it wakes it
 * commits what has queued up and then expires the session.
 * tap/121_leader_pause shows that.
 *
 * So we use a chain of three operations that all pass through the leader, as a
 * sync or a commit:
 *
 *	 x	was answered;
 *	 y	was sent half a tick or more after that answer, and was answered;
 *	 z	was sent after that answer, and was committed.
 *
 * The leader has had x before it was answered, and the follower knew of the
 * session then.  Between x and y it has sent a ping, which is ahead of y's
 * answer in the stream to the follower.  So the follower has answered that ping
 * before it passed y's answer on, and z is behind that in the stream to the
 * leader.  Hence the leader was told, before it committed z, of a session that
 * was heard after x was sent, no matter what was slow or stopped in between.
 * It takes a leader whose thread for pings is not later than y by itself.
 *
 * A quarter of the timeout is at least half a tick, unless minSessionTimeout is
 * set below its default of two ticks.
 *
 * All functions are pure, and deal with times only.  Any thread.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "leader_contact.h"

/*
 * Returns the end of the lease that a proof gives with that session timeout:
 * two thirds of the timeout after the proof was sent, but at the latest a
 * twelfth, for clocks that differ, before the leader can expire the session.
 */
ZkTime
zk_lease_end(ZkProof proof, ZkTime timeout)
{
	ZkTime		end = proof.sent_at + timeout * 2 / 3;
	ZkTime		horizon = proof.leader_heard_at + timeout * 11 / 12;

	return end < horizon ? end : horizon;
}

/* The session is over: the leader has heard nothing of the next one. */
void
zk_leader_contact_forget(ZkLeaderContact *contact)
{
	contact->leader_heard_at = 0;
}

/*
 * A connection was made: the leader was asked about the session, or made it,
 * after that time.  What was answered over another connection is no link.
 */
void
zk_leader_contact_connected(ZkLeaderContact *contact, ZkTime since)
{
	if (since > contact->leader_heard_at)
		contact->leader_heard_at = since;
	contact->count = 0;
}

/*
 * Adds a link, unless it comes soon after another, or there is no room: the
 * oldest one is of use first, and makes room then.
 */
static void
add_link(ZkLeaderContact *contact, ZkLink link, ZkTime timeout)
{
	if (contact->count > 0)
	{
		const ZkLink *last = &contact->links[contact->count - 1];

		if (link.sent_at < last->sent_at ||
			link.answered_at < last->answered_at + timeout / 2 / ZK_LINKS_MAX)
			return;
	}
	if (contact->count < ZK_LINKS_MAX)
		contact->links[contact->count++] = link;
}

/*
 * The leader has answered an operation: of whatever was answered half a tick
 * before that was sent, it is told before it gets what is sent from now on.
 */
void
zk_leader_contact_answered(ZkLeaderContact *contact, ZkTime sent_at, ZkTime answered_at, ZkTime timeout)
{
	int			ripe = 0;
	ZkLink		link;

	while (ripe < contact->count &&
		   contact->links[ripe].answered_at <= sent_at - timeout / 4)
		ripe++;
	if (ripe > 0 && contact->links[ripe - 1].sent_at > contact->leader_heard_at)
		contact->leader_heard_at = contact->links[ripe - 1].sent_at;
	contact->count -= ripe;
	memmove(contact->links, contact->links + ripe, sizeof(ZkLink) * contact->count);
	link.sent_at = sent_at;
	link.answered_at = answered_at;
	add_link(contact, link, timeout);
}
