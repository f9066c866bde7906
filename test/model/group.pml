/*
 * group.pml
 *	  Does every call that wants several locks get them in the end?
 *
 * N clients and LOCKS locks.  Each client wants any set of locks, each in any mode, and
 * keeps what it was granted until it has them all.  Then it releases them.  So a circle of
 * waits would be one for ever: an invalid end state.  With -DMUTEXES all modes are
 * exclusive.
 *
 * What stands for what:
 *
 *	 number[]	the leader: of each contender, by lock and client; 0 if it does not exist.
 *	 Client(c)	a call (acquire.c) and its contenders: group.c (the multi-op), create.c,
 *				place.c, remove.c.  Of other clients it sees what is true: that it may be
 *				late is a matter of queue.pml.
 *	 Breaker	somebody who deletes BREAKS contenders, waiters or holders.
 *
 * A multi-op that was not answered was carried out as a whole, or not at all.  In the first
 * case it is as if it had been answered, in the other one the client has sent none yet.  If
 * a contender is missing its member fails, and the call gives up all of them and requests a new group
 * (rule Q9).  So it does if a lock that it holds was broken; it has heard of that before
 * the contender goes.  A call may be cancelled, too.  Deletes are sent before the next
 * group's creates, and so are carried out before them.
 *
 * The mistakes that can be made with -D:
 *
 *	 ONE_BY_ONE			the members are created one after the other, in any order (Q9)
 *	 AGAIN_ALONE		a member that was deleted is created again on its own (Q9)
 *	 UNSENT_ALONE		so is one whose multi-op was not carried out (Q9)
 *	 KEEP_OTHERS		a call that is cancelled leaves what it holds (rule Q5)
 *	 HOLD_BROKEN		a call does not hear that a lock of its was broken (rule W2)
 *
 * And REACH, for what must be reachable: 1, a call has one lock and waits for another one;
 * 2, a call gets all its locks with its second group; 3, all calls get their locks.
 */

#ifndef N
#define N 3
#endif
#ifndef LOCKS
#define LOCKS 2
#endif
#ifndef BREAKS
#define BREAKS 1
#endif
#ifndef REACH
#define REACH 0
#endif

byte number[LOCKS * N];			/* by lock and client: its contender's, or 0 */
byte holds[N];					/* by client: the locks that it believes to hold */
byte wants[N];					/* by client: the locks of its call, a bit each */
byte exclusive[N];				/* ... and those of them that are to be exclusive */
byte served;					/* calls that had all their locks */
byte broken;					/* contenders that were deleted */

#define BIT(which)	(1 << (which))
#define HAS(set, which)	(((set) & BIT(which)) != 0)
#define AT(l, c)	((l) * N + (c))
#define EXISTS(l, c)	(number[AT(l, c)] != 0)
#define CONFLICT(l, a, b)	(HAS(exclusive[a], l) || HAS(exclusive[b], l))

/* Creates the contenders of a set of locks, behind all that exist. */
inline create(set)
{
	i = 0;
	last = 0;
	do
	:: i < LOCKS * N -> last = (number[i] > last -> number[i] : last); i++
	:: i == LOCKS * N -> break
	od;
	i = 0;
	do
	:: i < LOCKS ->
		if
		:: HAS(set, i) -> number[AT(i, c)] = last + 1
		:: else
		fi;
		i++
	:: i == LOCKS -> break
	od;
	printf("client %d: creates %d, exclusive %d, as %d\n", c, set, exclusive[c], last + 1);
	i = 0;
	last = 0
}

/* The contenders go, one after the other. */
inline delete_all()
{
	do
	:: atomic { k < LOCKS -> number[AT(k, c)] = 0; k++ }
	:: atomic { k == LOCKS -> k = 0; break }
	od
}

/* Fills in the locks whose contenders are missing. */
inline look_for_own()
{
	missing = 0;
	i = 0;
	do
	:: i < LOCKS ->
		if
		:: HAS(wants[c], i) && !EXISTS(i, c) -> missing = missing | BIT(i)
		:: else
		fi;
		i++
	:: i == LOCKS -> break
	od;
	i = 0
}

/* Fills in the locks for which the client is not behind anybody who conflicts. */
inline look_ahead()
{
	free = 0;
	i = 0;
	do
	:: i < LOCKS ->
		k = 0;
		do
		:: k < N && (!EXISTS(i, k) || !CONFLICT(i, k, c) ||
			number[AT(i, k)] >= number[AT(i, c)]) -> k++
		:: k < N && !(!EXISTS(i, k) || !CONFLICT(i, k, c) ||
			number[AT(i, k)] >= number[AT(i, c)]) -> break
		:: k == N -> free = free | BIT(i); break
		od;
		i++
	:: i == LOCKS -> break
	od;
	free = free & wants[c];
	i = 0;
	k = 0
}

/* No two holders conflict. */
inline check_holders()
{
	i = 0;
	do
	:: i < N ->
		assert(i == c || (holds[i] & holds[c] & (exclusive[i] | exclusive[c])) == 0);
		i++
	:: i == N -> break
	od;
	i = 0
}

/* The next step of a waiter is to be granted something, or to find what is missing. */
#define MISSES(c, l)	(HAS(wants[c], l) && !EXISTS(l, c))
#define BEHIND(c, l, k)	((k) != (c) && EXISTS(l, k) && CONFLICT(l, k, c) && \
						 number[AT(l, k)] < number[AT(l, c)])
#if N == 2
#define WAITS(c, l)	(BEHIND(c, l, 0) || BEHIND(c, l, 1))
#elif N == 3
#define WAITS(c, l)	(BEHIND(c, l, 0) || BEHIND(c, l, 1) || BEHIND(c, l, 2))
#endif
#define CAN_HOLD(c, l)	(HAS(wants[c] & ~holds[c], l) && !MISSES(c, l) && !WAITS(c, l))
#if LOCKS == 2
#define ANY(what)	(what(c, 0) || what(c, 1))
#elif LOCKS == 3
#define ANY(what)	(what(c, 0) || what(c, 1) || what(c, 2))
#endif

proctype Client(byte c)
{
	byte i, k, last;
	byte missing;				/* locks whose contenders are */
	byte free;					/* locks that it may hold */
	bool again;					/* this is its second group */
#ifdef ONE_BY_ONE
	byte left;
#endif

	atomic {
		do
		:: i < LOCKS ->
			if
			:: wants[c] = wants[c] | BIT(i); exclusive[c] = exclusive[c] | BIT(i)
#ifndef MUTEXES
			:: wants[c] = wants[c] | BIT(i)
#endif
			:: i < LOCKS - 1 || wants[c] != 0	/* not this one */
			fi;
			i++
		:: i == LOCKS -> i = 0; break
		od
	}

request:
#ifdef ONE_BY_ONE
	left = wants[c];
	do
	:: atomic { HAS(left, 0) -> create(1); left = left & ~1 }
	:: atomic { HAS(left, 1) -> create(2); left = left & ~2 }
	:: left == 0 -> break
	od;
#else
#ifdef UNSENT_ALONE
	if
	:: atomic { create(wants[c]) }
	:: skip
	fi;
	do
	:: atomic { MISSES(c, 0) -> create(1) }
	:: atomic { MISSES(c, 1) -> create(2) }
	:: else -> break
	od;
#else
	atomic { create(wants[c]) }
#endif
#endif
	if
	:: goto cancel				/* sooner or later */
	:: skip
	fi;

	do
	:: atomic { (ANY(MISSES) || ANY(CAN_HOLD)) ->
		look_for_own();
		look_ahead();
		if
#ifdef AGAIN_ALONE
		:: missing != 0 -> create(missing); holds[c] = holds[c] & ~missing; missing = 0
#else
		:: missing != 0 -> missing = 0; free = 0; goto give_up
#endif
		:: missing == 0 ->
			holds[c] = holds[c] | free;
			printf("client %d: holds %d\n", c, holds[c]);
			free = 0;
			check_holders();
			assert(REACH != 1 || holds[c] == 0 || holds[c] == wants[c])
		fi }
	:: atomic { holds[c] == wants[c] && !ANY(MISSES) ->
		served = served + (REACH == 3);
		assert(REACH != 2 || !again);
		assert(REACH != 3 || served < N) }
		break
	od;

	/* The end of the transaction. */
	holds[c] = 0;
	goto over;

cancel:
	holds[c] = 0;
#ifdef KEEP_OTHERS
	goto end;
#endif

over:
	delete_all();
	goto end;

	/* What is left of the group goes, and a new one is requested. */
give_up:
	atomic { holds[c] = 0; again = (REACH == 2) }
	delete_all();
	goto request;

end:
	atomic { wants[c] = 0; exclusive[c] = 0; }
}

proctype Breaker()
{
	byte l, k;

	do
	:: atomic { broken < BREAKS ->
		do
		:: l < LOCKS - 1 -> l++
		:: k < N - 1 -> k++
		:: break
		od;
		if
		:: EXISTS(l, k) ->
			printf("breaker: lock %d of client %d\n", l, k);
			number[AT(l, k)] = 0;
#ifndef HOLD_BROKEN
			holds[k] = holds[k] & ~BIT(l);
#endif
			broken++
		:: !EXISTS(l, k)
		fi;
		l = 0;
		k = 0 }
	:: break
	od
}

init
{
	byte c;

	atomic {
		do
		:: c < N -> run Client(c); c++
		:: c == N -> break
		od;
		run Breaker()
	}
}
