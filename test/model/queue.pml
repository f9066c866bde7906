/*
 * queue.pml
 *	  Is a lock ever granted to two, and does everybody get it in the end?
 *
 * N clients, each with one contender for one lock and a server of its own.
 * There is no time here, and no lease: that a contender is not deleted while
 * its holder believes in it is what lease.pml is about.  So a holder gives up
 * its belief first, and its contender goes at any time after that, whether the
 * lock was released or its ZooKeeper session expired.
 *
 * What stands for what:
 *
 *	 commit()	the leader: carries out a transaction and sends it to every
 *				server, in one order.
 *	 log[c]		a channel for each server: the transactions it has still to
 *				apply.
 *	 Server(c)	the server that client c is connected to.  It applies them in
 *				order, when it likes: a list or a get shows what was true some
 *				time ago, and an event comes late.
 *	 Client(c)	the lock client: create.c (create), place.c (list, decide),
 *				watch.c (get with a watch, event), remove.c (delete, downgrade).
 *
 * Client c is the one that gets number c.  Modes are any.  Whether a client
 * waits to the end or may give up is any, too.  A client that gives up and one
 * whose session expires look the same to the others: its contender goes.
 * Client 0 may downgrade, which puts a shared contender in its exclusive one's
 * place.  (The others need not: all are behind whoever downgrades.)
 *
 * Nothing is ever undone, so every run comes to an end; if somebody waits then,
 * he would wait for ever, and the checker reports an invalid end state.
 *
 * The mistakes that can be made with -D:
 *
 *	 EVENT_GRANTS		a deletion is a grant, whoever else was ahead (rule Q2)
 *	 CHANGE_GRANTS		so is an event that is no deletion
 *	 SILENT_DOWNGRADE	a downgrade deletes without a change of the data before
 *	 KEEP_LAST_AHEAD	an event is believed after a loss of the connection
 *	 EARLY_LIST			the list is read before the create (rule Q1)
 *	 WATCH_NOTHING		a get that finds nothing is taken for a watch (rule Q3)
 *	 CHANGE_COUNTS		any event of the lookout, of two ahead, leaves one
 *	 KEEP_LOOKOUT		it is believed after a loss of the connection
 *	 ANY_LOOKOUT		its deletion leaves one, however many were ahead
 *
 * PLAIN leaves out downgrades and losses of the connection, and NEAREST the
 * lookout.  And REACH, for what must be reachable: 1, a grant by an event; 2, a
 * downgrade that lets a reader in; 3, all clients granted, one after the other; 4,
 * a grant by an event after that of the lookout; 5, the same after a list.
 */

#ifndef N
#define N 3
#endif
#ifndef REACH
#define REACH 0
#endif

#define DOWNGRADED	N			/* client 0's shared contender */
#define NOBODY		255

mtype:transaction = { CREATED, DELETED, REPLACED };
mtype:event = { NO_EVENT, GONE, CHANGED };

/* Two transactions for each client, and a downgrade. */
chan log[N] = [2 * N + 1] of { mtype:transaction, byte };

byte next_number;				/* the lock node's counter, at the leader */
byte view[N];					/* by server: a bit for each contender */
byte watched[N];				/* by server: which one its client watches */
mtype:event event[N];			/* ... and what it has told of that */
byte lookout[N];				/* by server: which one its client looks out for */
mtype:event seen[N];			/* ... and what it has told of that */
bool exclusive[N + 1];			/* by contender: its mode */
bool holds[N];					/* by client: it believes that it holds */
bool shares[N];					/* ... shared */
byte grants;					/* how many there were */

#define BIT(which)	(1 << (which))
#define HAS(c, which)	((view[c] & BIT(which)) != 0)

/* The contender with that number, in the view of server c. */
#define NUMBER(c, i)	((i) == 0 && !HAS(c, 0) -> DOWNGRADED : (i))
#define IN_THE_WAY(c, i)	(HAS(c, NUMBER(c, i)) && \
							 (exclusive[c] || exclusive[NUMBER(c, i)]))

/*
 * A transaction is committed: every server will apply it.  For atomic steps of
 * a client, whose i this uses.
 */
inline commit(what, whose)
{
	i = 0;
	do
	:: i < N -> log[i]!what(whose); i++
	:: i == N -> break
	od;
	i = 0
}

/*-------------------------------------------------------------------------
 * A server
 *-------------------------------------------------------------------------
 */

/* Tell the client of what happened to a contender.  A watch fires once. */
inline tell(what)
{
	if
	:: watched[c] == whose -> event[c] = what; watched[c] = NOBODY
	:: else
	fi;
	if
	:: lookout[c] == whose -> seen[c] = what; lookout[c] = NOBODY
	:: else
	fi;
	whose = 0
}

proctype Server(byte c)
{
	byte whose;

end:
	do
	:: d_step { log[c]?CREATED(whose) ->
		printf("server %d: %d is created\n", c, whose);
		view[c] = view[c] | BIT(whose);
		whose = 0 }
	:: d_step { log[c]?DELETED(whose) ->
		printf("server %d: %d is deleted\n", c, whose);
		view[c] = view[c] & ~BIT(whose);
		tell(GONE) }
	/* in one: create the shared one, set the exclusive one's data, delete it */
	:: d_step { log[c]?REPLACED(whose) ->
		printf("server %d: %d is downgraded\n", c, whose);
		view[c] = (view[c] | BIT(DOWNGRADED)) & ~BIT(whose);
#ifdef SILENT_DOWNGRADE
		tell(GONE)
#else
		tell(CHANGED)
#endif
		}
	od
}

/*-------------------------------------------------------------------------
 * A client
 *-------------------------------------------------------------------------
 */

/* Do without a lookout. */
inline drop_lookout()
{
	lookout[c] = NOBODY;
	seen[c] = NO_EVENT;
	before = NOBODY
}

/*
 * zk_queue_decide(): how many are ahead that conflict, and the nearest two of them.
 */
inline look_ahead()
{
	drop_lookout();
	ahead = 0;
	target = NOBODY;
	i = 0;
	do
	:: i < c && IN_THE_WAY(c, i) ->
		ahead++;
#ifndef NEAREST
		before = target;
#endif
		target = NUMBER(c, i);
		i++
	:: i < c && !IN_THE_WAY(c, i) -> i++
	:: i == c -> break
	od;
	i = 0;
	last_ahead = (ahead == 1);
	printf("client %d: exclusive %d, lists: %d ahead, the last %d\n", c, exclusive[c],
		ahead, target)
}

/* What does not matter any more is forgotten, so that fewer states differ. */
inline stop_waiting()
{
	ahead = 0;
	target = NOBODY;
	last_ahead = false;
	drop_lookout();
	watched[c] = NOBODY;
	event[c] = NO_EVENT
}

/* The lock is client c's: nobody else may hold it but who shares it. */
inline grant()
{
	printf("client %d: is granted, exclusive %d\n", c, exclusive[c]);
	i = 0;
	do
	:: i < N ->
		assert(i == c || !holds[i] || (shares[i] && !exclusive[c]));
		assert(REACH != 2 || i == c || !holds[i] || !exclusive[i]);
		i++
	:: i == N -> break
	od;
	i = 0;
	holds[c] = true;
	shares[c] = !exclusive[c];
	grants++;
	assert(REACH != 3 || grants < N);
	stop_waiting()
}

/* lookout_gone() */
#if defined(CHANGE_COUNTS)
#define LEAVES_ONE	(ahead == 2)
#elif defined(ANY_LOOKOUT)
#define LEAVES_ONE	(seen[c] == GONE)
#else
#define LEAVES_ONE	(seen[c] == GONE && ahead == 2)
#endif

/* on_watch(), watcher() */
#if defined(EVENT_GRANTS)
#define IS_GRANT	(event[c] == GONE)
#elif defined(CHANGE_GRANTS)
#define IS_GRANT	(last_ahead)
#else
#define IS_GRANT	(event[c] == GONE && last_ahead)
#endif

proctype Client(byte c)
{
	byte i;
	byte ahead;					/* in the list last read */
	byte target;				/* whom it waits for */
	byte before = NOBODY;		/* whom it looks out for */
	byte kept;					/* whom it waited for before it listed again */
	bool last_ahead;			/* whose deletion is the grant */
	bool was_cut_off;			/* its connection was lost, once */
	bool may_give_up;

	if
	:: exclusive[c] = true
	:: skip
	fi;
	if
	:: may_give_up = true
	:: skip
	fi;
#ifdef EARLY_LIST
	d_step { look_ahead() };
	atomic { next_number == c -> next_number++; commit(CREATED, c) }
	HAS(c, c);
	goto decide;
#else
	atomic { next_number == c -> next_number++; commit(CREATED, c) }
#endif

	/* The own contender is found in the list, or there is no decision. */
read:
	atomic { HAS(c, c) -> look_ahead(); event[c] = NO_EVENT }

	/* A get leaves a watch only on what is there. */
decide:
	if
	:: atomic { ahead == 0 -> grant() }
		goto granted
	:: atomic { ahead > 0 && HAS(c, target) -> watched[c] = target }
look_out:
		if
		:: atomic { before == NOBODY || HAS(c, before) -> lookout[c] = before }
		:: d_step { before != NOBODY && !HAS(c, before) -> seen[c] = CHANGED }
		fi
	:: ahead > 0 && !HAS(c, target) ->
#ifdef WATCH_NOTHING
		skip
#else
		goto read
#endif
	fi;

	do
	:: d_step { event[c] != NO_EVENT && IS_GRANT ->
		assert(REACH != 1);
		grant() }
		goto granted
	:: event[c] != NO_EVENT && !IS_GRANT -> goto read

	/* The lookout is gone.  Either that leaves one, or a list is read, which comes
	 * before events that happen later.  The watch is kept if it is for the same. */
	:: d_step { seen[c] != NO_EVENT && LEAVES_ONE ->
		printf("client %d: its lookout was the other one\n", c);
		assert(REACH != 4);
		drop_lookout();
		ahead = 1;
		last_ahead = true }
	:: atomic { seen[c] != NO_EVENT && !LEAVES_ONE && event[c] == NO_EVENT ->
		kept = target;
		look_ahead() }
		if
		:: d_step { kept == target ->
			assert(REACH != 5 || !last_ahead);
			kept = 0 }
			goto look_out
		:: d_step { kept != target -> watched[c] = NOBODY; event[c] = NO_EVENT; kept = 0 }
			goto decide
		fi

	/* The connection is lost, and made again.  The server is told of the watch,
	 * and says "deleted" of what is not there. */
#ifndef PLAIN
	:: d_step { !was_cut_off && event[c] == NO_EVENT ->
		printf("client %d: its connection was lost\n", c);
		was_cut_off = true;
#ifndef KEEP_LAST_AHEAD
		last_ahead = false;
#endif
#ifdef KEEP_LOOKOUT
		lookout[c] = NOBODY;
#else
		drop_lookout();
#endif
		watched[c] = NOBODY }
		if
		:: d_step { HAS(c, target) -> watched[c] = target }
		:: d_step { !HAS(c, target) -> event[c] = GONE }
		fi;
		if
		:: atomic { before == NOBODY || HAS(c, before) -> lookout[c] = before }
		:: d_step { before != NOBODY && !HAS(c, before) -> seen[c] = GONE }
		fi
#endif

	:: may_give_up -> goto over
	od;

granted:
	if
#ifndef PLAIN
	/* The last exclusive hold goes before a shared one: from now on it believes
	 * in no more than that. */
	:: atomic { c == 0 && exclusive[c] -> shares[c] = true;
		printf("client %d: downgrades\n", c) }
		atomic { commit(REPLACED, c) }
		holds[c] = false;
		atomic { commit(DELETED, DOWNGRADED) }
		goto end
#endif
	:: holds[c] = false
	fi;

	/* zk_send_delete(), or the end of its session */
over:
	atomic { stop_waiting(); commit(DELETED, c);
		printf("client %d: its contender goes\n", c) }
end:
	skip
}

init
{
	byte c;

	atomic {
		do
		:: c < N ->
			watched[c] = NOBODY;
			lookout[c] = NOBODY;
			event[c] = NO_EVENT;
			seen[c] = NO_EVENT;
			run Server(c);
			run Client(c);
			c++
		:: c == N -> break
		od
	}
}
