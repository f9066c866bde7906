/*
 * beat.pml
 *	  How long are the leases of a lock that is held?
 *
 * One client with one lock, connected for long to a server that answers.  Only times
 * matter: what each sync and each proof says is taken from leader_contact.c, the periods from
 * zk_lease_beat() and beat_in() in lease.c.  Each round trip takes 0 to ROUND_TRIP units,
 * each period has a random part (not with RESONANT).
 *
 * Everything is an age, in units since it was: so there are few states, and the beats go
 * on for ever.
 *
 * What can be chosen with -D:
 *
 *	 T			session timeout, in units
 *	 ROUND_TRIP	the longest one
 *
 * The properties: right after a proof the lease is at least 0.62 T less its round trip,
 * and it is never less than 0.35 T.  And mistakes that can be made:
 *
 *	 RESONANT	a beat is sent a quarter of the timeout after the last one was sent, and
 *				not after it was answered: so none is ever the ground of the next
 *	 RARE		... five sixteenths after it was answered
 *	 REACH		the properties are that there is no beat
 */

#ifndef T
#define T 192
#endif
#ifndef ROUND_TRIP
#define ROUND_TRIP (T / 96)
#endif

#define RIPE	(T / 4)
#ifdef RESONANT
#define MAX_JITTER	0
#else
#define MAX_JITTER	(T / 64)
#endif
#define LEASE	((2 * T) / 3)
#define HORIZON	((11 * T) / 12)

#ifdef RARE
#define PERIOD	((5 * T) / 16)
#else
#define PERIOD	(T / 4)
#endif

short lease = LEASE;			/* what is left of it */
short told;						/* since the leader has certainly heard */
short sent;						/* since the last sync was sent */
short answered;					/* and answered */
bool linked;					/* there was one */

inline pass(units)
{
	told = told + units;
	sent = sent + units;
	answered = answered + units;
	lease = lease - units;
	assert(lease * 100 >= 35 * T)
}

active proctype Client()
{
	short trip, jitter, period, proof;
	bool ripe;

	period = PERIOD;
	do
	:: select(jitter : 0 .. MAX_JITTER);
		pass(period + jitter);
#ifdef REACH
		assert(false);
#endif

		/* the sync, and what its answer says of the last one: zk_heard_answered() */
		ripe = linked && answered >= RIPE;
		select(trip : 0 .. ROUND_TRIP);
		pass(trip);
		if
		:: ripe && sent < told -> told = sent
		:: else
		fi;
		sent = trip;
		answered = 0;
		linked = true;

		/* the proof: zk_lease_end() */
		proof = (HORIZON - told < LEASE -> HORIZON - told : LEASE);
		assert(proof * 100 >= 62 * T);
		select(trip : 0 .. ROUND_TRIP);
		pass(trip);
		lease = proof - trip;
#ifdef RESONANT
		period = PERIOD - sent;
#else
		period = PERIOD - trip;
#endif
	od
}
