/*
 * permits.pml
 *	  Does a semaphore ever give more permits than it has, and does every waiter get
 *	  one that is free?
 *
 * N clients, each with one contender for one of PERMITS permits.  As in queue.pml there
 * is no time and no lease, and a holder gives up its belief before its contender goes.
 *
 * What stands for what:
 *
 *	 commit()	the leader: carries out a transaction and sends it to the servers of
 *				those that wait, in one order.
 *	 log[c]		what the server of client c has still to apply.
 *	 Server(c)	the server that client c is connected to.  It applies transactions in
 *				order, when it likes: so a list is old, and an event comes late.
 *	 Client(c)	the lock client: create.c, place.c (list, decide_permit() of queue.c),
 *				watch.c (the watches of wait_for_permit(), events), own_watch.c (the
 *				announcement), remove.c.
 *
 * Client c is the one that gets number c.  What a server shows matters only while its
 * client waits, so there is no log before and after that.  A client that waits may give
 * up, and a holder may keep its permit for ever: then the others must be able to go on
 * with the permits that are left.  A waiter that waits in the end is an invalid end
 * state, unless all permits are kept.
 *
 * All gets of the first waiter are one step: one that finds nothing has the same
 * effect as an event, wherever it is among them.
 *
 * With -DKINDS contenders are of any of two kinds, as for semaphores of different numbers
 * of permits, or for a lock and a semaphore.  With -DTIE, and one permit, contenders 0
 * and 1 have the same number (ZOOKEEPER-3249).
 *
 * The mistakes that can be made with -D:
 *
 *	 NO_ANNOUNCEMENT	a new holder writes nothing (rule P4)
 *	 AFTER_WAIT_ONLY	it writes only if it has waited (P4)
 *	 IGNORE_VERSION		what was written between list and get is not seen (P5)
 *	 ANNOUNCE_ONCE		it is not sent again after a loss of the connection (P6)
 *	 WATCH_NEAREST		the first waiter watches one holder (P3)
 *	 WATCH_NOTHING		a get that finds nothing is taken for a watch (Q3)
 *	 EVENT_GRANTS		a deletion is a grant, without a list that shows who is behind (P7);
 *						with ALWAYS_ANNOUNCE that does not matter
 *	 OTHERS_WAIT		those of another kind ahead do not count, instead of a refusal (P1)
 *	 SKIP_OWN			contender 0, released and not deleted yet, does not count for the
 *						one of the same client that waits for its permit (P2)
 *	 TIE_BY_NAME		of two with one number the one with the lower name is first (Q8)
 *
 * And REACH, for what must be reachable: 1, all permits are held while a client waits; 2,
 * a waiter becomes the first one by an announcement; 3, by a version that it sees; 4, all
 * clients have held a permit; 5, a contender is refused.
 */

#ifndef N
#define N 4
#endif
#ifndef PERMITS
#define PERMITS 2
#endif
#ifndef REACH
#define REACH 0
#endif

mtype:transaction = { CREATED, CHANGED, DELETED };

/* Three transactions for each of the others. */
chan log[N] = [3 * N] of { mtype:transaction, byte };

byte next_number;				/* the lock node's counter, at the leader */
byte there;						/* at the leader: a bit for each contender */
byte written;					/* ... and one for those whose data was changed */
bool waits[N];					/* by client: it looks at its server */
byte view[N];					/* by server: as there */
byte changed[N];				/* by server: as written */
byte watched[N];				/* by server: which ones its client watches */
bool fired[N];					/* by server: an event for its client */
byte holders;					/* a bit for each client that believes to hold */
bool all_held;						/* all permits are held */
byte kept;						/* permits that are kept for ever */
byte other;						/* a bit for each contender of the second kind */
byte grants;
#ifdef SKIP_OWN
bool released;					/* contender 0 was */
#endif

#define BIT(which)	(1 << (which))
#define HAS(set, which)	(((set) & BIT(which)) != 0)
#define SAME_KIND(a, b)	(HAS(other, a) == HAS(other, b))

#ifdef TIE
#define TIED(a, b)	((a) + (b) == 1)
#else
#define TIED(a, b)	false
#endif

/* For atomic steps of a client, whose i this uses. */
inline commit(what, whose)
{
	printf("leader: %e %d\n", what, whose);
	i = 0;
	do
	:: i < N ->
		if
		:: waits[i] && i != c -> log[i]!what(whose)
		:: else
		fi;
		i++
	:: i == N -> break
	od;
	i = 0;
	if
	:: what == CREATED -> there = there | BIT(whose)
	:: what == CHANGED -> written = written | BIT(whose)
	:: what == DELETED -> there = there & ~BIT(whose); written = written & ~BIT(whose)
	fi
}

/* Watches fire once. */
proctype Server(byte c)
{
	mtype:transaction what;
	byte whose;

end:
	do
	:: d_step { log[c]?what(whose) ->
		if
		:: what == CREATED -> view[c] = view[c] | BIT(whose)
		:: what == CHANGED -> changed[c] = changed[c] | BIT(whose)
		:: what == DELETED ->
			view[c] = view[c] & ~BIT(whose);
			changed[c] = changed[c] & ~BIT(whose)
		fi;
		if
		:: what != CREATED && HAS(watched[c], whose) ->
			fired[c] = true;
			watched[c] = watched[c] & ~BIT(whose)
		:: else
		fi;
		what = 0;
		whose = 0 }
	od
}

/* The client looks at its server no more. */
inline stop_waiting()
{
	do
	:: log[c]?_, _
	:: empty(log[c]) -> break
	od;
	waits[c] = false;
	view[c] = 0;
	changed[c] = 0;
	watched[c] = 0;
	fired[c] = false;
	ahead = 0;
	nearest = 0;
	count = 0;
	refused = false;
	seen = false
}

#if defined(SKIP_OWN)
#define COUNTS(c, i)	(SAME_KIND(c, i) && !(c == PERMITS && i == 0 && released))
#else
#define COUNTS(c, i)	(SAME_KIND(c, i))
#endif

#ifdef TIE
#define IS_AHEAD(c, i)	((i) < (c) && !TIED(c, i) || TIED(c, i) && (i) > (c))
#else
#define IS_AHEAD(c, i)	((i) < (c))
#endif

/* decide_permit(): fills in ahead, the ones that count, and refused. */
inline look_ahead()
{
	ahead = 0;
	count = 0;
	last = 0;
	refused = false;
	i = 0;
	do
	:: i < N && i != c && HAS(view[c], i) ->
#ifndef OTHERS_WAIT
		refused = refused || (i < c && !SAME_KIND(i, c));
#endif
#ifndef TIE_BY_NAME
		refused = refused || TIED(i, c);
#endif
		if
		:: IS_AHEAD(c, i) && COUNTS(c, i) ->
			ahead = ahead | BIT(i);
			count++;
			last = i
		:: else
		fi;
		i++
	:: i < N && (i == c || !HAS(view[c], i)) -> i++
	:: i == N -> break
	od;
	i = 0
}

/* A permit is client c's. */
inline grant()
{
	printf("client %d: is granted\n", c);
	holders = holders | BIT(c);
	grants++;
	assert(REACH != 4 || grants < N);
	i = 0;
	count = 0;
	do
	:: i < N ->
		if
		:: HAS(holders, i) -> count++; assert(SAME_KIND(i, c))
		:: else
		fi;
		i++
	:: i == N -> break
	od;
	i = 0;
	assert(count <= PERMITS);
	all_held = (count == PERMITS);
	count = 0
}

/* Somebody is behind it, in the list that is its grant. */
#define BEHIND(c)	((view[c] >> ((c) + 1)) != 0)

#if defined(NO_ANNOUNCEMENT)
#define WRITES	false
#elif defined(AFTER_WAIT_ONLY)
#define WRITES	has_waited
#else
#define WRITES	true
#endif

/* The first waiter waits for all ahead, any other one for the nearest of them. */
#ifdef WATCH_NEAREST
#define FIRST	false
#else
#define FIRST	(count == PERMITS)
#endif

#ifdef IGNORE_VERSION
#define IS_NEWS	false
#else
#define IS_NEWS	(!FIRST && HAS(changed[c], nearest) != seen)
#endif

#ifdef EVENT_GRANTS
#define EVENT_IS_GRANT	(FIRST && (ahead & ~view[c]) != 0)
#ifdef ALWAYS_ANNOUNCE
#define ANNOUNCES_EVENT	true
#else
#define ANNOUNCES_EVENT	false
#endif
#else
#define EVENT_IS_GRANT	false
#define ANNOUNCES_EVENT	false
#endif

proctype Client(byte c)
{
	byte i;
	byte count;
	byte last;
	byte ahead;					/* in the list last read, a bit each */
	byte nearest;				/* the last one of them */
	bool seen;					/* its data had been changed */
	bool refused;
	bool announce;
#ifdef AFTER_WAIT_ONLY
	bool has_waited;
#endif

#ifdef KINDS
	if
	:: other = other | BIT(c)
	:: skip
	fi;
#endif
	atomic { next_number == c ->
		next_number++;
		commit(CREATED, c);
		waits[c] = true;
		view[c] = there;
		changed[c] = written }

	/* The list, which has its own contender, and the decision. */
read:
	atomic {
		look_ahead();
		fired[c] = false;
		watched[c] = 0;
		announce = !refused && count < PERMITS && BEHIND(c) && WRITES;
		if
		:: nearest != last -> seen = false; nearest = last
		:: else
		fi;
		last = 0;
		if
		:: FIRST
		:: else -> ahead = ahead & BIT(nearest)
		fi
	}
	if
	:: refused -> assert(REACH != 5); goto over
	:: !refused && count < PERMITS -> goto granted
	:: !refused && count >= PERMITS
	fi;

	/* The gets.  The version of the nearest one says whether it was announced before. */
	if
#ifdef WATCH_NOTHING
	:: d_step { watched[c] = ahead & view[c] }
#else
	:: d_step { (ahead & ~view[c]) == 0 && !IS_NEWS -> watched[c] = ahead }
	:: (ahead & ~view[c]) != 0 -> goto read
#endif
	:: d_step { (ahead & ~view[c]) == 0 && IS_NEWS ->
		assert(REACH != 3);
		seen = HAS(changed[c], nearest) }
		goto read
	fi;
#ifdef AFTER_WAIT_ONLY
	has_waited = true;
#endif
	if
	:: goto over				/* sooner or later it gives up */
	:: skip
	fi;
	if
	:: d_step { fired[c] && !EVENT_IS_GRANT ->
		assert(REACH != 2 || FIRST || !HAS(view[c], nearest)) }
		goto read
	:: fired[c] && EVENT_IS_GRANT -> announce = ANNOUNCES_EVENT
	:: kept == PERMITS -> goto end
	:: d_step { REACH == 1 && all_held -> assert(false) }
	fi;

granted:
	atomic { stop_waiting(); grant() }
	if
	:: !announce
	:: announce -> goto release	/* its end is an event as well */
	:: atomic { announce -> commit(CHANGED, c) }
#ifdef ANNOUNCE_ONCE
	:: announce
#endif
	fi;
	announce = false;
	if
	:: d_step { kept < PERMITS -> kept++ } goto end
	:: skip
	fi;

release:
	atomic { announce = false; all_held = false; holders = holders & ~BIT(c);
#ifdef SKIP_OWN
		released = released || c == 0
#endif
		}
over:
	atomic { stop_waiting(); commit(DELETED, c); count = 0 }
end:
	skip
}

init
{
	byte c;

	atomic {
		do
		:: c < N -> run Server(c); run Client(c); c++
		:: c == N -> break
		od
	}
}
