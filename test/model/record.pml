/*
 * record.pml
 *	  Does each holder find what earlier ones have left, and is nothing lost?
 *
 * N clients in one queue, with a record, and of any mode.  The record is a set: a release
 * adds its client's bit.  There is no time, as in queue.pml.
 *
 * What stands for what:
 *
 *	 there, record	the leader: the contenders, and the record with its version.
 *	 Leader(c)	carries out the multi-op that ends the contender of client c: at any time,
 *				if the connection was lost before its answer, or not at all.
 *	 log[]		what a server has still to apply: the states at the leader, which come
 *				into being one after the other.
 *	 Server(c)	applies them, when it likes: a client sees what was true some time ago.
 *	 Client(c)	place.c (list), record_io.c, and remove.c (the multi-op).
 *	 Breaker	somebody who deletes one contender, a waiter's or a holder's.
 *
 * Client c is the one that gets number c.  With -DCUT_OFF each client may lose its
 * connection once while it waits for the answer to its multi-op, and sends it again.
 *
 * What must hold: a holder finds the bits of all earlier ones that it conflicts with and
 * that have released the lock; the record has the bits of those, and of no other client;
 * and each client knows in the end whether it has written its own.
 *
 * The mistakes that can be made with -D:
 *
 *	 WRITE_AFTER		the record is written after the contender was deleted (rule R1)
 *	 WRITE_BEFORE		it is written before that (R1)
 *	 NO_VERSION			it is written whatever its version is (R2)
 *	 FORGET_OTHERS		after a conflict it is written as it was read before (R2)
 *	 READ_BEFORE		it is read before the list (R3)
 *	 EVENT_GRANTS		it is not read again after an event (R3)
 *	 GONE_IS_DONE		a contender that is gone was deleted by the own multi-op (R4)
 *	 GONE_IS_BROKEN		... or by another client, whatever was not answered (R4)
 *
 * And REACH, for what must be reachable: 1, the last holder finds all others' bits; 2, a
 * multi-op meets another version; 3, a client verifies that it has written; 4, and that it
 * has not.
 */

#ifndef N
#define N 3
#endif
#ifndef REACH
#define REACH 0
#endif

mtype:answer = { NONE, DONE, GONE, CHANGED };

/* A create and an end, or two, of each client. */
chan log[N] = [3 * N + 1] of { byte, byte, byte };

byte next_number;				/* the lock node's counter, at the leader */
byte there;						/* at the leader: a bit for each contender */
byte record;					/* ... the record */
byte version;					/* ... and its version */
byte queue[N];					/* by server: there */
byte records[N];				/* ... record */
byte versions[N];				/* ... and version */
bool reads[N];					/* by client: it looks at its server */
byte base[N];					/* by client: the record that it has read */
byte base_version[N];			/* ... and its version */
bool pending[N];				/* by client: its multi-op is on its way */
mtype:answer answer[N];			/* ... and the answer */
bool was_cut_off[N];			/* by client: its connection was lost, once */
byte exclusive;					/* a bit for each client */
byte released;					/* by a multi-op that was carried out */
byte ends;						/* how many clients are through */

#define BIT(which)	(1 << (which))
#define HAS(set, which)	(((set) & BIT(which)) != 0)
#define CONFLICT(a, b)	(HAS(exclusive, a) || HAS(exclusive, b))

#ifdef NO_VERSION
#define SAME(c)	true
#else
#define SAME(c)	(base_version[c] == version)
#endif

/* A transaction was carried out.  For atomic steps, whose s this uses. */
inline committed()
{
	s = 0;
	do
	:: s < N && reads[s] -> log[s]!there, record, version; s++
	:: s < N && !reads[s] -> s++
	:: s == N -> break
	od;
	s = 0
}

proctype Server(byte c)
{
end:
	do
	:: d_step { log[c]?queue[c], records[c], versions[c] }
	od
}

proctype Leader(byte c)
{
	byte s;

end:
	do
	:: atomic { pending[c] ->
		pending[c] = false;
		if
		:: !HAS(there, c) -> answer[c] = GONE
		:: HAS(there, c) && !SAME(c) -> answer[c] = CHANGED
		:: HAS(there, c) && SAME(c) ->
			there = there & ~BIT(c);
			record = base[c] | BIT(c);
			version++;
			released = released | BIT(c);
			answer[c] = DONE;
			committed()
		fi;
		printf("leader: the end of %d: %e, record %d\n", c, answer[c], record) }
	/* it is lost */
	:: d_step { pending[c] && was_cut_off[c] -> pending[c] = false }
	od
}

inline read_record()
{
	base[c] = records[c];
	base_version[c] = versions[c]
}

/* Fills in first, and keeps the list. */
inline look_ahead()
{
	listed = queue[c];
	first = true;
	i = 0;
	do
	:: i < c && HAS(listed, i) -> first = first && !CONFLICT(i, c); i++
	:: i < c && !HAS(listed, i) -> i++
	:: i == c -> break
	od;
	i = 0
}

/* The lock is client c's. */
inline grant()
{
	printf("client %d: is granted, finds %d\n", c, base[c]);
	i = 0;
	do
	:: i < c ->
		assert(!HAS(released, i) || !CONFLICT(i, c) || HAS(base[c], i));
		i++
	:: i == c -> break
	od;
	i = 0;
	assert(REACH != 1 || base[c] != BIT(N - 1) - 1);
	listed = 0;
	first = false
}

proctype Client(byte c)
{
	byte i, s;
	byte listed;				/* the queue that was read */
	bool first;					/* nobody ahead conflicts */
	bool uncertain;				/* a multi-op was not answered */
	bool wrote;					/* it knows that it has written */

	atomic { next_number == c ->
		if
		:: exclusive = exclusive | BIT(c)
		:: skip
		fi;
		next_number++;
		there = there | BIT(c);
		committed();
		reads[c] = true;
		queue[c] = there;
		records[c] = record;
		versions[c] = version }

	/* The list, and behind it the record. */
read:
#ifdef READ_BEFORE
	atomic { read_record() }
	atomic { look_ahead() }
#else
	atomic { look_ahead() }
	d_step { read_record() }
#endif
	if
	:: !HAS(listed, c) -> goto over		/* somebody has deleted it */
	:: HAS(listed, c) && first -> goto held
	:: HAS(listed, c) && !first
	fi;
	if
	:: goto vanish
	:: (queue[c] & (BIT(c + 1) - 1)) != (listed & (BIT(c + 1) - 1)) ->
#ifdef EVENT_GRANTS
		atomic { look_ahead() };
		if
		:: first && HAS(listed, c) -> goto held
		:: else
		fi;
#endif
		goto read
	fi;

held:
	atomic { grant() }
	if
	:: goto vanish				/* the lock is lost, or the backend exits */
	:: skip
	fi;

	/* The multi-op that deletes the contender and writes the record. */
release:
#if defined(WRITE_AFTER)
	atomic { there = there & ~BIT(c); released = released | BIT(c); committed() }
	atomic { read_record(); record = record | BIT(c); version++; committed(); wrote = true }
	goto over;
#elif defined(WRITE_BEFORE)
	atomic { record = record | BIT(c); version++; committed() }
	if
	:: goto vanish
	:: atomic { there = there & ~BIT(c); released = released | BIT(c); committed();
		wrote = true }
		goto over
	fi;
#endif
	atomic { !pending[c] -> answer[c] = NONE; pending[c] = true }
	if
	:: answer[c] == DONE -> wrote = true; goto over
	:: answer[c] == GONE
	:: atomic { answer[c] == CHANGED -> assert(REACH != 2) }
#ifdef FORGET_OTHERS
		d_step { base_version[c] = versions[c] }
#else
		d_step { read_record() }
#endif
		goto release
#ifdef CUT_OFF
	:: atomic { !was_cut_off[c] -> was_cut_off[c] = true; uncertain = true;
		printf("client %d: its connection was lost\n", c) }
		goto release
#endif
	:: goto vanish
	fi;

	/* It is gone.  The server that says so shows what was carried out before. */
#if defined(GONE_IS_DONE)
	wrote = true;
#elif !defined(GONE_IS_BROKEN)
	if
	:: !uncertain
	:: atomic { uncertain && !HAS(queue[c], c) ->
		wrote = HAS(records[c], c);
		assert(REACH != 3 || !wrote);
		assert(REACH != 4 || wrote) }
	fi;
#endif
	goto over;

	/* The end of its ZooKeeper session: nobody is left who would want to know. */
vanish:
	atomic { there = there & ~BIT(c); committed(); wrote = HAS(released, c) }
	if
	:: atomic { !pending[c] -> wrote = HAS(released, c) }
	fi;

over:
	atomic { !pending[c] ->
		reads[c] = false;
		do
		:: log[c]?_, _, _
		:: empty(log[c]) -> break
		od;
		queue[c] = 0;
		records[c] = 0;
		versions[c] = 0;
		base[c] = 0;
		base_version[c] = 0;
		answer[c] = NONE;
		was_cut_off[c] = false;
		uncertain = false;
		listed = 0;
		printf("client %d: is over, wrote %d\n", c, wrote);
		assert(wrote == HAS(released, c));
		wrote = false;
		ends++;
		assert(ends < N || record == released) }
}

/* A holder whose contender is deleted does not hear of it before its end. */
proctype Breaker()
{
	byte k, s;

	do
	:: k < N - 1 -> k++
	:: break
	od;
	if
	:: atomic { HAS(there, k) ->
		printf("breaker: %d\n", k);
		there = there & ~BIT(k);
		committed() }
	:: ends == N
	fi
}

init
{
	byte c;

	atomic {
		do
		:: c < N ->
			answer[c] = NONE;
			run Server(c);
			run Leader(c);
			run Client(c);
			c++
		:: c == N -> break
		od;
		run Breaker()
	}
}
