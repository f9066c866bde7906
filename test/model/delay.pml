/*
 * delay.pml
 *	  Is the lock delay waited for after each holder that vanished, and after no other?
 *
 * N clients in one queue, all with a lock delay, and of any mode.  Whether two can hold
 * the lock is a matter of queue.pml.  Here it matters which markers a client believes to
 * be left behind.  There is no time: the delay is a step, in which the client has waited
 * for all that it believes to have vanished.
 *
 * What stands for what:
 *
 *	 there, marked	the leader: the contenders and the markers that exist.
 *	 Leader(c)	carries out the multi-op that makes the marker of client c: at any time,
 *				if the connection was lost before its answer, or not at all.
 *	 log[]		what a server has still to apply: the states of there and marked, which
 *				come into being one after the other.
 *	 Server(s)	applies them, when it likes: a client sees what was true some time ago.
 *	 Client(c)	lock_delay.c (judge(), send_marker()), marker.c, and remove.c (the multi-op
 *				that deletes contender and marker).
 *
 * Client c is the one that gets number c.  With -DCUT_OFF each client may lose its
 * connection once, and so the answer to its multi-op.  With -DRECONNECT it has another
 * server after that, which may be further behind.
 *
 * A holder releases its lock or vanishes: then its contender goes alone.  So may the
 * contender of a client that waits, or has made its marker and does not know yet.  A
 * client may also give up, and then deletes what it may have made.
 *
 * What must hold: when a client is granted the lock, all that had it in a conflicting
 * mode and vanished were waited for, by this client or another one.  Nobody waits for a
 * client that did not vanish.  And no marker is left in the end but of one that vanished.
 *
 * The mistakes that can be made with -D:
 *
 *	 AT_FIRST_SIGHT		a marker that is not in the list before it was left behind,
 *						whatever was read before (rule K2)
 *	 MARKERS_FIRST		the markers are read before the list (K2)
 *	 DOUBT_IS_NONE		a doubtful one is taken for none, and not read again (K2)
 *	 KEEP_READING		what was read is kept after a loss of the connection (K2)
 *	 EVENT_GRANTS		the markers are not read after an event (K3)
 *	 NO_CHECK			the multi-op that makes the marker does not check the contender (K1)
 *	 MARKER_APART		a release deletes the contender first, and then the marker (K1)
 *	 GIVE_UP_ALONE		a client that gives up deletes its contender alone (K6)
 *
 * And REACH, for what must be reachable: 1, a client waits for the delay; 2, a marker is
 * doubtful, and was left behind; 3, the same client waits for another one after that; 4,
 * a multi-op finds that another client has deleted a marker; 5, all clients get the lock.
 */

#ifndef N
#define N 3
#endif
#ifndef REACH
#define REACH 0
#endif

#ifdef RECONNECT
#define SERVERS	2
#else
#define SERVERS	1
#endif

/* The server that client c uses. */
#define S(c)	(SERVERS * (c) + at[c])

mtype:answer = { NONE, DONE, FAILED, MISSING };

chan log[SERVERS * N] = [5 * N] of { byte, byte };

byte next_number;				/* the lock node's counter, at the leader */
byte there;						/* at the leader: a bit for each contender */
byte marked;					/* ... and for each marker */
byte queue[SERVERS * N];		/* by server: there */
byte markers[SERVERS * N];		/* ... and marked */
bool reads[N];					/* by client: it looks at its server */
byte at[N];						/* by client: which server */
bool pending[N];				/* by client: its multi-op is on its way */
byte unclean[N];				/* by client: those it takes for left behind */
byte ops[N];					/* ... and which of them it deletes */
mtype:answer answer[N];			/* ... and the answer */
bool was_cut_off[N];			/* by client: its connection was lost, once */
byte exclusive;					/* a bit for each client */
byte vanished;					/* its contender went alone */
byte owed;						/* ... and it had the lock; nobody has waited for it */
byte grants;
byte ends;						/* how many clients are through */

#define BIT(which)	(1 << (which))
#define HAS(set, which)	(((set) & BIT(which)) != 0)
#define CONFLICT(a, b)	(HAS(exclusive, a) || HAS(exclusive, b))

/* A transaction was carried out.  For atomic steps, whose s this uses. */
inline committed()
{
	s = 0;
	do
	:: s < SERVERS * N ->
		if
		:: reads[s / SERVERS] -> log[s]!there, marked
		:: else
		fi;
		s++
	:: s == SERVERS * N -> break
	od;
	s = 0
}

proctype Server(byte s)
{
end:
	do
	:: d_step { log[s]?queue[s], markers[s] }
	od
}

#ifdef NO_CHECK
#define CHECKED	true
#else
#define CHECKED	HAS(there, c)
#endif

proctype Leader(byte c)
{
	byte s;

end:
	do
	:: atomic { pending[c] ->
		pending[c] = false;
		if
		:: !CHECKED -> answer[c] = MISSING
		:: CHECKED && (ops[c] & ~marked || HAS(marked, c)) -> answer[c] = FAILED
		:: CHECKED && !(ops[c] & ~marked || HAS(marked, c)) ->
			marked = (marked & ~ops[c]) | BIT(c);
			owed = owed & ~ops[c];
			answer[c] = DONE;
			committed()
		fi;
		ops[c] = 0;
		printf("leader: the marker of %d: %e\n", c, answer[c]) }
	/* it is lost */
	:: d_step { pending[c] && was_cut_off[c] -> pending[c] = false; ops[c] = 0 }
	od
}

/* Fills in first, and keeps the list. */
inline look_ahead()
{
	listed = queue[S(c)];
	first = true;
	i = 0;
	do
	:: i < c && HAS(listed, i) -> first = first && !CONFLICT(i, c); i++
	:: i < c && !HAS(listed, i) -> i++
	:: i == c -> break
	od;
	i = 0
}

/* judge() */
inline judge()
{
	others = found & ~listed & ~BIT(c);
#if defined(AT_FIRST_SIGHT) || defined(DOUBT_IS_NONE)
	doubtful = false;
#else
	doubtful = (others & ~seen) != 0;
#endif
	assert(REACH != 2 || !doubtful || (others & ~vanished) != 0);
#ifdef DOUBT_IS_NONE
	others = others & seen;
#endif
	seen = found & ~BIT(c);
	if
	:: doubtful
	:: !doubtful -> unclean[c] = others
	fi;
	others = 0;
	made = HAS(found, c);
	printf("client %d: lists %d, reads %d, doubtful %d, unclean %d\n", c, listed, found,
		doubtful, unclean[c]);
	found = 0
}

/* The lock is client c's. */
inline grant()
{
	printf("client %d: is granted\n", c);
	i = 0;
	do
	:: i < N ->
		assert(!HAS(owed, i) || !CONFLICT(i, c));
		i++
	:: i == N -> break
	od;
	i = 0;
	grants++;
	assert(REACH != 5 || grants < N)
}

/* It looks at its servers no more. */
inline stop_reading()
{
	reads[c] = false;
	s = SERVERS * c;
	do
	:: log[s]?_, _
	:: empty(log[s]) && s < SERVERS * c + SERVERS - 1 -> queue[s] = 0; markers[s] = 0; s++
	:: empty(log[s]) && s == SERVERS * c + SERVERS - 1 -> queue[s] = 0; markers[s] = 0; break
	od;
	s = 0;
	listed = 0;
	seen = 0;
	waited = 0;
	unclean[c] = 0;
	found = 0;
	first = false;
	doubtful = false;
	made = false
}

proctype Client(byte c)
{
	byte i, s;
	byte listed;				/* the queue that was read */
	byte found;					/* the markers that were read */
	byte seen;					/* ... and the time before, those of others */
	byte waited;				/* those that it has waited for */
	byte others;
	bool first;					/* nobody ahead conflicts */
	bool doubtful;
	bool made;					/* its marker was read */

	atomic { next_number == c ->
		if
		:: exclusive = exclusive | BIT(c)
		:: skip
		fi;
		next_number++;
		there = there | BIT(c);
		committed();
		reads[c] = true;
		do
		:: s < SERVERS -> queue[SERVERS * c + s] = there; markers[SERVERS * c + s] = marked; s++
		:: s == SERVERS -> break
		od;
		s = 0 }

	/* The list, and behind it the markers. */
read:
	if
#ifdef MARKERS_FIRST
	:: d_step { found = markers[S(c)] }
		atomic { look_ahead(); judge() }
#else
	:: d_step { look_ahead() }
		atomic { found = markers[S(c)]; judge() }
#endif
	:: goto vanish
	fi;
	if
	:: made -> goto held
	:: !made && !first
	:: !made && first && doubtful -> goto read
	:: !made && first && !doubtful && (unclean[c] & ~waited) != 0 -> goto delay
	:: !made && first && !doubtful && (unclean[c] & ~waited) == 0 -> goto make
	fi;

	/* It waits for somebody ahead. */
	if
	:: goto give_up
	:: goto vanish
	:: (queue[S(c)] & (BIT(c) - 1)) != (listed & (BIT(c) - 1)) ->
#ifdef EVENT_GRANTS
		atomic { look_ahead() };
		if
		:: first -> goto make
		:: else
		fi;
#endif
		goto read
	fi;

	/* It waits for the delay, and reads all again. */
delay:
	if
	:: goto give_up
	:: atomic { printf("client %d: waits for %d\n", c, unclean[c]);
		assert(REACH != 1);
		assert((unclean[c] & ~vanished) == 0);
		assert(REACH != 3 || waited == 0 || (unclean[c] & ~waited) == 0);
		waited = waited | unclean[c] }
		goto read
	fi;

	/* The multi-op that makes its marker, and deletes those that were left behind. */
make:
	atomic { !pending[c] -> answer[c] = NONE; ops[c] = unclean[c]; pending[c] = true }
	if
	:: atomic { answer[c] != NONE ->
		if
		:: answer[c] == DONE -> answer[c] = NONE; goto held
		:: answer[c] == FAILED -> answer[c] = NONE; assert(REACH != 4); goto read
		:: answer[c] == MISSING -> answer[c] = NONE; goto over
		fi }

	/* The connection is lost, and made again: the multi-op may be carried out later. */
#if defined(CUT_OFF) || defined(RECONNECT)
	:: atomic { !was_cut_off[c] ->
		printf("client %d: its connection was lost\n", c);
		was_cut_off[c] = true;
		at[c] = SERVERS - 1;
		listed = 0;
#ifndef KEEP_READING
		seen = 0;
		waited = 0;
		unclean[c] = 0
#endif
		}
		if
		:: goto read
		:: goto give_up
		fi
#endif
	:: goto vanish
	fi;

held:
	atomic { grant(); stop_reading() }
	if
#ifdef MARKER_APART
	:: atomic { there = there & ~BIT(c); committed() }
		atomic { marked = marked & ~BIT(c); committed() }
#else
	:: atomic { there = there & ~BIT(c); marked = marked & ~BIT(c); committed() }
#endif
		goto over
	:: owed = owed | BIT(c); goto vanish
	fi;

give_up:
	atomic { stop_reading();
		there = there & ~BIT(c);
#ifndef GIVE_UP_ALONE
		marked = marked & ~BIT(c);
#endif
		committed();
		printf("client %d: has given up\n", c) }
	goto over;

	/* The end of its ZooKeeper session. */
vanish:
	atomic { stop_reading();
		vanished = vanished | BIT(c);
		there = there & ~BIT(c);
		committed();
		printf("client %d: has vanished\n", c) }

	/* A request of an earlier connection may be carried out now, or never. */
over:
	atomic { !pending[c] -> ends++;
		answer[c] = NONE;
		at[c] = 0;
		was_cut_off[c] = false;
		assert(ends < N || (marked & ~vanished) == 0) }
}

init
{
	byte c;

	atomic {
		do
		:: c < SERVERS * N -> run Server(c); c++
		:: c == SERVERS * N -> break
		od;
		c = 0;
		do
		:: c < N ->
			answer[c] = NONE;
			run Leader(c);
			run Client(c);
			c++
		:: c == N -> break
		od
	}
}
