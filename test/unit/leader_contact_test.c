/*-------------------------------------------------------------------------
 *
 * leader_contact_test.c
 *	  The leader's proved view of a session, and the lease that it allows (S236).
 *
 *-------------------------------------------------------------------------
 */
#include "leader_contact.h"
#include "tap.h"

#define T			ZK_MS(12000)

static ZkTime
lease(ZkTime sent_at, ZkTime told)
{
	ZkProof		proof = {sent_at, told};

	return zk_lease_end(proof, T);
}

static void
test_lease(void)
{
	is_int(lease(T, T), T + T * 2 / 3, "a lease is two thirds of the timeout at most");
	is_int(lease(T, T - T / 4), T + T * 2 / 3,
		   "also if the leader has heard of the session a quarter before");
	is_int(lease(T, T - T / 2), T + T * 5 / 12,
		   "S337: it ends eleven twelfths after the leader has heard of it");
	is_int(lease(T * 2, T), T * 23 / 12, "and may be over before it begins");
}

static void
test_chain(void)
{
	ZkLeaderContact heard = {0};

	zk_leader_contact_connected(&heard, 100);
	is_int(heard.leader_heard_at, 100, "the leader hears of a session with its connection");
	zk_leader_contact_answered(&heard, 200, 300, T);
	is_int(heard.leader_heard_at, 100, "of one answer nothing follows");
	zk_leader_contact_answered(&heard, 300 + T / 4 - 1, 301 + T / 4, T);
	is_int(heard.leader_heard_at, 100, "nor of another one, to what was sent too soon");
	zk_leader_contact_answered(&heard, 300 + T / 4, 302 + T / 4, T);
	is_int(heard.leader_heard_at, 200, "of a later one follows that the leader has heard of the first");
	zk_leader_contact_answered(&heard, 301 + T / 2, 310 + T / 2, T);
	is_int(heard.leader_heard_at, 300 + T / 4 - 1, "and so on");
	zk_leader_contact_connected(&heard, 50 + T / 2);
	zk_leader_contact_answered(&heard, 400 + T, 500 + T, T);
	is_int(heard.leader_heard_at, 50 + T / 2, "an answer over another connection is no link");
	zk_leader_contact_connected(&heard, 60);
	is_int(heard.leader_heard_at, 50 + T / 2, "it never goes back");
}

/* With a beat as lease.c has it, and any round trip, leases are as README says. */
static void
test_heartbeat(void)
{
	bool		right = true;

	for (ZkTime round_trip = 0; round_trip < T / 10; round_trip += T / 500)
	{
		ZkLeaderContact heard = {0};
		ZkTime		now = 0;

		zk_leader_contact_connected(&heard, 0);
		for (int i = 0; i < 20; i++)
		{
			ZkTime		sent_at = now;

			zk_leader_contact_answered(&heard, sent_at, sent_at + round_trip, T);
			now = sent_at + round_trip;
			if (i > 1 && lease(now, heard.leader_heard_at) <
				now + T * 11 / 12 - T / 4 - T / 64 - 2 * round_trip)
				right = false;
			zk_leader_contact_answered(&heard, now, now + round_trip, T);
			now += T / 4 + T / 64;
		}
	}
	ok(right, "S231: behind a beat a lease is 11/12 - 1/4 - 1/64 of the timeout less two round trips");
}

/* How many links there are at most does not matter. */
static void
test_many(void)
{
	ZkLeaderContact heard = {0};
	bool		right = true;

	for (ZkTime now = 0; now < 10 * T; now += ZK_MS(1))
	{
		zk_leader_contact_answered(&heard, now, now, T);
		right &= now < T || heard.leader_heard_at >= now - T / 4 - T / 64;
	}
	ok(right, "of many answers as much follows as of few");
}

/* Slow answers are many at a time: more than there is room for. */
static void
test_slow(void)
{
	ZkLeaderContact heard = {0};
	bool		right = true;

	for (ZkTime now = 0; now < 10 * T; now += T / 128)
	{
		zk_leader_contact_answered(&heard, now, now + T / 2, T);
		right &= now < 2 * T || heard.leader_heard_at >= now - T;
	}
	ok(right, "of many slow answers something follows");
}

int
main(void)
{
	test_lease();
	test_chain();
	test_heartbeat();
	test_many();
	test_slow();
	return done_testing();
}
