/*
 * lease.pml
 *	  Is there ever a lease that runs while the lock is another's?
 *
 * One holder, called A, in full: its lease, the messages of its ZooKeeper
 * session, the follower it is connected to, the leader that may expire the
 * session, and the transaction it works in.  The next one in the queue, called
 * B, only as far as it can do harm: it is granted at the very moment in which
 * A's contender is gone.  Whoever was there before A ("before") goes whenever
 * it likes.
 *
 * Time.  It is counted in units, and passes in process Time only.  What has no
 * deadline may take any time, so a process that is stopped, a slow network and
 * a partition need no transitions of their own: they are steps that are not
 * taken while time passes.  Counters count down (or up) to where they make no
 * difference any more, which keeps the state space finite although time is
 * not.
 *
 * What stands for what:
 *
 *	 Leader		SessionTrackerImpl and ExpiryQueue of ZooKeeper's leader.  It may
 *				expire the session when it has not heard of it for T units; it
 *				rounds up, so the real one does so up to a tick later.  Here: at
 *				any time from T on.
 *	 Follower	Learner and LearnerSessionTracker.  It notes that it heard of the
 *				session ("touched"), answers pings and reads by itself, forwards
 *				what is to be committed, and tells the leader of whom it has
 *				heard when the leader asks, which it does every FLUSH units
 *				(half a tick).  What is forwarded does not touch the session
 *				at the leader: LeaderZooKeeperServer.submitLearnerRequest()
 *				goes round that.  With AT_LEADER A is connected to the leader,
 *				where every request touches the session.
 *	 A			the lock client (lease.c, contender.c, watch.c), and the backend
 *				(zklock_lease_judge() in session.c, guard_commit() in
 *				xact.c, zk_lock_fence() in fence.c).
 *	 B			another client's acquire and transaction.
 *
 * Between follower and leader there are two streams, each in order: requests
 * and answers to pings to the leader; pings and answers to requests from it.
 * At most one committed operation of A is on its way at a time; what is asked
 * twice is proved by the last that succeeded.  So a stream is: what is ahead of
 * that operation, the operation, what is behind it.
 *
 * What can be chosen with -D:
 *
 *	 T, LEASE	session timeout and length of a lease, in units
 *	 FLUSH		half a tick
 *	 AT_LEADER	A is connected to the leader, else to a follower
 *	 FORWARD_TOUCHES	what a follower forwards touches the session at the
 *				leader, contrary to what ZooKeeper does
 *	 GAP		A's connection is given up when nothing was heard over it for
 *				more units than that, and the leader hears of the session when
 *				it is made again.  Without it a connection can be silent for
 *				any time.
 *	 PROMPT		1: what is between follower and leader arrives before time
 *				passes, until they are cut off from each other, for good; 2: so
 *				does what is between A and its server
 *	 SLOW		A's clock misses one of SLOW units at most (none, if not set)
 *	 GUARD		1: zklock.commit_guard = lease, 2: quorum
 *	 FENCE		transactions call zk_lock_fence() before they work
 *	 HEARD		the lease ends, too, HORIZON units after the leader must have
 *				heard of the session: by a request that was answered RIPE units
 *				before the proof was sent
 *	 BY_SENDING	... by one that was sent so much before, and answered before the
 *				proof was, a mistake that leader_contact.c has made
 *	 CHAIN		the lease ends, too, HORIZON units after the leader must have heard of
 *				the session by the first of a chain of three operations that all went
 *				by way of it: the second was sent RIPE units after the first was
 *				answered, and the third, which is the proof, when the second was.
 *				This is what leader_contact.c does; HEARD and BY_SENDING it did before
 *	 SHORTER	with CHAIN and GAP: a connection that is made again may have so short
 *				a timeout
 *
 * The property to check, one at a time:
 *
 *	 HELD_ALONE			while A's lease runs its contender exists, and at the
 *						moment A is granted B is not
 *	 GUARDED_ALONE		when the commit guard lets A pass B is not granted
 *	 COMMITTED_ALONE	when A's commit record is written B is not granted
 *	 IN_ORDER			when A's commit record is written B has not fenced
 *	 REACH				what must be reachable is not: 1, A commits; 2, B's
 *						transaction ends; 3, A holds for more than 2 T
 *
 * And a mistake that can be made: FROM_RECEIPT, BY_PING, BY_EVENT,
 * UNPROVED_GRANT, CLOCK_STOPS, HASTY_CLOSE; with CHAIN, BY_READS (what a follower
 * answers by itself is taken for an operation of the chain), and with SHORTER, NO_CUT
 * (leases stay as long as they were).
 */

#ifndef T
#define T 12
#endif
#ifndef LEASE
#define LEASE ((2 * T) / 3)
#endif
#ifndef FLUSH
#define FLUSH 1
#endif
#ifndef GUARD
#define GUARD 1
#endif
#if defined(HEARD) || defined(CHAIN)
#define KEEPS_ACCOUNT
#endif
#ifdef HEARD
#define MAX_TOLD	((11 * T) / 12)
#define MIN_RIPE	(T / 4)
#else
#define MAX_TOLD	((11 * T) / 12)
#define MIN_RIPE	((T + 3) / 4)
#endif
#ifndef RIPE
#define RIPE MIN_RIPE
#endif
#ifndef HORIZON
#define HORIZON MAX_TOLD
#endif
#ifndef PROMPT
#define PROMPT 0
#endif
#ifndef REACH
#define REACH 0
#endif

/*-------------------------------------------------------------------------
 * The leader's side
 *-------------------------------------------------------------------------
 */
bool session = true;			/* the leader has not expired it */
byte life = T;					/* units until it may */
#ifdef SHORTER
byte granted = T;				/* the timeout that was negotiated */
#define TIMEOUT		granted
#define LEASE_NOW	(granted == T -> LEASE : (2 * SHORTER) / 3)
#define HORIZON_NOW	(granted == T -> HORIZON : (11 * SHORTER) / 12)
#else
#define TIMEOUT		T
#define LEASE_NOW	LEASE
#define HORIZON_NOW	HORIZON
#endif
bool contender;					/* A's exists */
bool created;					/* ... or did: B is behind it */
bool before;					/* a contender ahead of A's exists */

/*-------------------------------------------------------------------------
 * The follower, and the streams between it and the leader
 *-------------------------------------------------------------------------
 */
bool touched;					/* it heard of the session, and did not tell */
byte ping_in = FLUSH;			/* units until the leader asks again */
bool touch_ahead, touch_behind; /* in the answer to a ping, ahead of A's
								 * operation or alone, or behind it */
bool ping_ahead, ping_behind;	/* likewise, to the follower */
bool cut;						/* with PROMPT: neither hears the other */

/*-------------------------------------------------------------------------
 * A's operation that is to be committed
 *-------------------------------------------------------------------------
 */
mtype:what = { CREATE, CHECK, DELETE, PROBE };
mtype:where = { NOWHERE, TO_SERVER, TO_LEADER, TO_FOLLOWER, TO_CLIENT };

mtype:what op;
mtype:where op_at = NOWHERE;
bool op_done;					/* it was carried out, not refused */
byte op_left;					/* the lease it will give, if it succeeds: it
								 * runs from the sending */
bool op_for_guard;				/* it was sent for the guard "quorum" */

/*-------------------------------------------------------------------------
 * A's side
 *
 * IDLE -> QUEUED -> HELD -> GUARDED -> COMMITTED, or OVER: lost, rolled back.
 *-------------------------------------------------------------------------
 */
mtype:phase = { IDLE, QUEUED, HELD, GUARDED, COMMITTED, OVER };

mtype:phase a = IDLE;
byte lease;						/* units until it ends */
bool a_asked;					/* the create was sent */
bool a_fenced;					/* its transaction has the row */
bool linked = true;				/* A believes in its connection */
#if REACH == 3
byte held_for;					/* units since the grant, with a lease */
#endif
#ifdef GAP
byte silence;					/* units since something was heard over it */
#endif
#ifdef SLOW
byte next_miss;					/* units until A's clock may miss one */
#endif
#ifdef CLOCK_STOPS
bool stopped;					/* A's clock: the machine is suspended */
#endif

/*
 * What A may conclude about the time at which the leader was told of the
 * session, at the latest: "ground".  "link" is a request that was answered.
 *
 * HEARD: an operation that is sent RIPE units after that is committed after the
 * follower has answered a ping that came after the link, if nothing is slow
 * between follower and leader.  Which of the requests that were answered is the
 * link is any; the best of them is one.
 *
 * CHAIN: an operation that is sent RIPE units after the link was answered is
 * answered itself after the follower has answered a ping that the leader sent
 * after the link.  So whatever is committed later finds that the leader was
 * told.
 */
#ifdef KEEPS_ACCOUNT
#define NONE 255
byte ground;					/* units since that was sent, HORIZON at most */
byte link_age = NONE;			/* units since the link was sent, T at most */
byte link_ripe;					/* units since it was answered, RIPE at most */
byte op_age;					/* units since the operation was sent */
bool op_ripe;					/* the link was ripe then */
#endif

/*
 * HEARD: the small read of a session that has nothing else to send.  One at a
 * time, in one order with A's operation.
 */
#ifdef HEARD
mtype:where read_at = NOWHERE;	/* never on its way to another server */
byte read_age;					/* units since it was sent */
bool read_first = true;			/* A's operation, if any, was sent later */
#endif

/*-------------------------------------------------------------------------
 * B, and the table of fences in A's and B's database
 *-------------------------------------------------------------------------
 */
mtype:rival = { WAITS, GRANTED, FENCED, DONE };

mtype:rival b = WAITS;
bool row_locked;
bool newer_token;				/* B's is in the table, and committed */

#define BELIEVES	((a == HELD || a == GUARDED) && lease > 0)

/*
 * To be said after each step that may make it false.
 */
inline check()
{
#ifdef HELD_ALONE
	assert(!BELIEVES || contender)
#else
	skip
#endif
}

/* The leader hears of the session. */
inline touch()
{
	if
	:: session -> life = TIMEOUT
	:: else
	fi
}

/* A's server hears of the session. */
inline hear()
{
#ifdef AT_LEADER
	touch()
#else
	touched = !cut
#endif
}

/*-------------------------------------------------------------------------
 * The leader carries out an operation (or refuses it, in a session that has
 * expired or if there is nothing to check), expires the session, and lets the
 * one before A go.
 *-------------------------------------------------------------------------
 */
inline carry_out()
{
	printf("leader: carries out: %e\n", op);
	if
	:: !session -> op_done = false
	:: session && op == CREATE -> op_done = true; contender = true; created = true
	:: session && op == CHECK -> op_done = contender
	:: session && op == DELETE -> op_done = true; contender = false
	:: session && op == PROBE -> op_done = true
	fi
}

active proctype Leader()
{
	if
	:: before = true
	:: skip
	fi;
	do
	:: d_step { touch_ahead && !cut -> touch_ahead = false; touch();
		printf("leader: was told of the session\n") }
	:: d_step { !touch_ahead && op_at == TO_LEADER && !cut ->
		carry_out();
#ifdef FORWARD_TOUCHES
		touch();
#endif
		op_at = TO_FOLLOWER;
		touch_ahead = touch_behind;
		touch_behind = false;
		check() }
	:: d_step { session && life == 0 ->
		printf("leader: the session expires\n");
		session = false;
		contender = false;
		check() }
	:: d_step { before -> before = false; printf("the one before A is gone\n") }
	od
}

#ifdef HEARD
#define MAY_ARRIVE	(op_at == TO_SERVER && !(read_at == TO_SERVER && read_first))
#define MAY_ANSWER	(op_at == TO_CLIENT && !(read_at != NOWHERE && read_first))
#else
#define MAY_ARRIVE	(op_at == TO_SERVER)
#define MAY_ANSWER	(op_at == TO_CLIENT)
#endif

/*-------------------------------------------------------------------------
 * The follower forwards operations, answers pings, and passes answers on.
 *-------------------------------------------------------------------------
 */
active proctype Follower()
{
end:
	do
#ifdef HEARD
	:: d_step { read_at == TO_SERVER && (read_first || op_at != TO_SERVER) ->
		printf("A's server: answers a read\n");
		hear();
		read_at = TO_CLIENT }
#endif
	:: d_step { MAY_ARRIVE ->
		printf("A's server: got: %e\n", op);
		hear();
#ifdef AT_LEADER
		carry_out();
		op_at = TO_CLIENT;
		check()
#else
		op_at = TO_LEADER
#endif
		}
	:: d_step { ping_ahead && !cut ->
		printf("follower: answers the leader's ping, touched %d\n", touched);
		ping_ahead = false;
		if
		:: touched && op_at == TO_LEADER -> touch_behind = true
		:: touched && op_at != TO_LEADER -> touch_ahead = true
		:: else
		fi;
		touched = false }
	:: d_step { !ping_ahead && op_at == TO_FOLLOWER && !cut ->
		op_at = TO_CLIENT;
		ping_ahead = ping_behind;
		ping_behind = false }
#if PROMPT > 0
	:: d_step { !cut -> cut = true;
		touched = false;
		touch_ahead = false;
		touch_behind = false;
		ping_ahead = false;
		ping_behind = false;
		ping_in = FLUSH;
		printf("follower: cut off from the leader\n") }
#endif
	od
}

/*-------------------------------------------------------------------------
 * A: the lock client
 *-------------------------------------------------------------------------
 */

/* zk_request_begin(): from now on its lease runs, should it succeed. */
inline send(which)
{
	op = which;
	printf("A: sends: %e\n", op);
	op_at = TO_SERVER;
	op_left = LEASE_NOW;
#ifdef CHAIN
	if
	:: ground >= HORIZON_NOW -> op_left = 0
	:: ground < HORIZON_NOW && HORIZON_NOW - ground < op_left ->
		op_left = HORIZON_NOW - ground
	:: else
	fi;
#endif
#ifdef KEEPS_ACCOUNT
	op_age = 0;
	op_ripe = (link_age != NONE && link_ripe == RIPE);
#endif
#ifdef HEARD
	read_first = true
#endif
}

/* zk_contender_set_lease() */
inline set_lease()
{
#ifdef FROM_RECEIPT
	lease = LEASE
#else
	lease = op_left
#endif
}

/* The ground is the link, if that is younger. */
inline stand_on_link()
{
	if
	:: link_age < ground -> ground = link_age
	:: else
	fi
}

/* HEARD: what the link says of an operation that was answered. */
#if defined(BY_SENDING)
#define LINK_SAYS	(link_age != NONE && link_age >= op_age + RIPE)
#else
#define LINK_SAYS	(op_ripe)
#endif

/* zk_heard_lease_end() */
inline limit_lease()
{
#ifdef HEARD
	if
	:: LINK_SAYS -> stand_on_link()
	:: else
	fi;
	if
	:: op_left > HORIZON - ground -> op_left = HORIZON - ground
	:: else
	fi
#else
	skip
#endif
}

/* An operation was answered: that may be the link from now on. */
inline add_link()
{
#ifdef HEARD
	if
	:: a != COMMITTED && a != OVER ->
		link_age = op_age;
		link_ripe = 0
	:: skip
	fi;
	op_age = 0;
	op_ripe = false
#endif
#ifdef CHAIN
	if
	:: op_ripe ->
		stand_on_link();
		link_age = op_age;
		link_ripe = 0
	:: !op_ripe && link_age == NONE -> link_age = op_age; link_ripe = 0
	:: else
	fi;
	op_age = 0;
	op_ripe = false
#endif
	skip
}

/* Forget what does not matter any more, so that fewer states differ. */
inline forget_op()
{
	op_at = NOWHERE;
	op_left = 0;
	op_done = false;
	op_for_guard = false;
#ifdef HEARD
	read_first = true;
#endif
#ifdef GAP
	silence = 0;
#endif
}

inline forget_read()
{
#ifdef HEARD
	read_at = NOWHERE;
	read_age = 0;
	read_first = true;
#endif
	skip
}

inline close_account()
{
#ifdef KEEPS_ACCOUNT
	ground = HORIZON;
	link_age = NONE;
	link_ripe = 0;
	op_age = T;
	op_ripe = false;
#endif
	skip
}

/* The lock is lost, or given up: its transaction is rolled back. */
inline give_up()
{
	printf("A: gives up\n");
	a = OVER;
	lease = 0;
	close_account();
	if
	:: a_fenced -> a_fenced = false; row_locked = false
	:: else
	fi
}

/* zk_contender_cut_lease(); what is on its way will be dated by the new connection */
inline cut_leases()
{
#ifdef SHORTER
	if
	:: lease > (2 * SHORTER) / 3 -> lease = (2 * SHORTER) / 3
	:: else
	fi;
	if
	:: op_left > (2 * SHORTER) / 3 -> op_left = (2 * SHORTER) / 3
	:: else
	fi
#else
	skip
#endif
}

#define QUIET		(op_at == NOWHERE && linked)

/* The leader would not answer in a session that has expired; others may. */
#ifdef AT_LEADER
#define MAY_PING	(linked && op_at != TO_SERVER && session)
#else
#define MAY_PING	(linked && op_at != TO_SERVER)
#endif

#if defined(UNPROVED_GRANT) || defined(BY_EVENT)
#define MAY_GRANT	(a == QUEUED && !before)
#else
#define MAY_GRANT	(a == QUEUED && !before && lease > 0)
#endif

/* What the transaction does under the lock is done, and the lease runs. */
#ifdef FENCE
#define MAY_COMMIT	(a == HELD && lease > 0 && a_fenced)
#else
#define MAY_COMMIT	(a == HELD && lease > 0)
#endif

active proctype A_client()
{
end:
	do
	/* a ping, or a read, that the server answers by itself */
	:: d_step { MAY_PING ->
		printf("A: a ping, answered by the server\n");
		hear();
#ifdef BY_READS
		if
		:: link_age != NONE && link_ripe == RIPE ->
			stand_on_link();
			link_age = 0;
			link_ripe = 0
		:: link_age == NONE -> link_age = 0; link_ripe = 0
		:: else
		fi;
#endif
#ifdef GAP
		silence = 0;
#endif
#ifdef BY_PING
		if
		:: a == HELD -> lease = LEASE
		:: else
		fi;
#endif
		check() }

	/* zk_send_create(), zk_lease_renew(), zk_send_delete() */
	:: d_step { QUIET && a == IDLE && !a_asked -> a_asked = true; send(CREATE) }
	:: d_step { QUIET && (a == QUEUED || a == HELD) -> send(CHECK);
		op_for_guard = (a == HELD) }
	:: d_step { QUIET && (a == COMMITTED || a == OVER) && created -> send(DELETE) }
#ifdef CHAIN
	:: d_step { QUIET && a == IDLE -> send(PROBE) }
#endif

#ifdef HEARD
	/* zk_heard_speak(), on_heartbeat() */
	:: d_step { linked && read_at == NOWHERE && a != COMMITTED && a != OVER ->
		printf("A: sends a read\n");
		read_at = TO_SERVER;
		read_first = (op_at == NOWHERE) }
	:: atomic { read_at == TO_CLIENT && (read_first || op_at == NOWHERE) ->
		if
		:: !op_ripe && a != COMMITTED && a != OVER -> link_age = read_age; link_ripe = 0
		:: skip
		fi;
		printf("A: the read was answered\n");
		read_at = NOWHERE;
		read_age = 0;
		read_first = true;
#ifdef GAP
		silence = 0
#endif
		}
#endif

	/* its answer, or after a loss of the connection what is found out later */
	:: atomic { MAY_ANSWER && op_done ->
		limit_lease();
		printf("A: it succeeded: %e, lease %d if nobody errs\n", op, op_left);
		if
		:: op == CREATE -> a = QUEUED; set_lease()
		:: op == CHECK && (a == QUEUED || a == HELD || a == GUARDED) -> set_lease()
		:: else
		fi;
		add_link();
#if GUARD == 2
		/* guard_commit(): the answer to what was asked for it */
		if
		:: op_for_guard && MAY_COMMIT ->
			a = GUARDED;
			printf("A: may commit, lease %d\n", lease);
#ifdef GUARDED_ALONE
			assert(b == WAITS)
#endif
		:: else
		fi;
#endif
		forget_op();
		check() }
	:: d_step { MAY_ANSWER && !op_done ->
		if
		:: a == QUEUED || a == HELD -> give_up()
		:: else
		fi;
		forget_op() }

	/* zk_contender_grant(): by a list or by an event, however late that comes */
	:: d_step { MAY_GRANT -> a = HELD;
		printf("A: is granted, lease %d\n", lease);
#ifdef BY_EVENT
		lease = LEASE;
#endif
#if defined(HELD_ALONE) || defined(UNPROVED_GRANT)
		assert(b == WAITS);
#endif
		check() }

	/* zk_lease_check() */
	:: d_step { a == HELD && lease == 0 -> give_up() }

#ifdef HASTY_CLOSE
	/* zookeeper_close() on a connection that is there, while a lease runs */
	:: d_step { a == HELD && session -> session = false; contender = false; check() }
#endif

#ifdef GAP
	/* the connection is lost, and made again, perhaps to another server: the
	 * leader is asked whether there is such a session, which touches it */
	:: d_step { linked -> linked = false;
		printf("A: loses its connection\n");
		forget_read();
		if
		:: op_at == TO_SERVER -> forget_op()
		:: else
		fi }
	:: d_step { !linked && session && (op_at == NOWHERE || op_at == TO_CLIENT) ->
		printf("A: has a connection again\n");
		linked = true;
		silence = 0;
#ifdef KEEPS_ACCOUNT
		ground = 0;
#endif
#if defined(HEARD) || defined(CHAIN)
		link_age = NONE;
		link_ripe = 0;
#endif
#ifdef SHORTER
		if
		:: granted = SHORTER;
			printf("A: has a shorter timeout\n");
#ifndef NO_CUT
			cut_leases()
#endif
		:: skip
		fi;
#endif
		touch() }
#endif
	od
}

/*-------------------------------------------------------------------------
 * A: its transaction
 *-------------------------------------------------------------------------
 */
active proctype A_backend()
{
end:
	do
#ifdef FENCE
	/* zk_lock_fence(): waits for the row, and looks for a higher token */
	:: d_step { a == HELD && !a_fenced && !row_locked ->
		if
		:: newer_token -> give_up()
		:: else -> a_fenced = true; row_locked = true; printf("A: fences\n")
		fi }
#endif
#if GUARD == 1
	/* guard_commit(): by the clock, at this moment */
	:: d_step { MAY_COMMIT ->
		a = GUARDED;
		printf("A: may commit, lease %d\n", lease);
#ifdef GUARDED_ALONE
		assert(b == WAITS)
#endif
		}
#endif
	/* the commit record, at any time after that */
	:: d_step { a == GUARDED ->
		printf("A: commits\n");
		assert(REACH != 1);
#ifdef COMMITTED_ALONE
		assert(b == WAITS);
#endif
#ifdef IN_ORDER
		assert(b != FENCED && b != DONE);
#endif
		a = COMMITTED;
		lease = 0;
		close_account();
		if
		:: a_fenced -> a_fenced = false; row_locked = false
		:: else
		fi }
	od
}

/*-------------------------------------------------------------------------
 * B
 *-------------------------------------------------------------------------
 */
active proctype B()
{
end:
	do
	:: d_step { b == WAITS && created && !contender && !before ->
		b = GRANTED;
		printf("B: is granted\n") }
#ifdef FENCE
	:: d_step { b == GRANTED && !row_locked -> b = FENCED; row_locked = true;
		printf("B: fences\n") }
	:: d_step { b == FENCED -> printf("B: commits\n"); assert(REACH != 2); b = DONE;
		row_locked = false; newer_token = true }
#else
	:: d_step { b == GRANTED -> printf("B: commits\n"); assert(REACH != 2);
		b = DONE }
#endif
	od
}

/*-------------------------------------------------------------------------
 * Time
 *-------------------------------------------------------------------------
 */

/* The leader asks the follower.  A ping right behind another says no more. */
inline ask_follower()
{
	ping_in--;
	if
	:: ping_in == 0 && op_at == TO_FOLLOWER -> ping_behind = true; ping_in = FLUSH
	:: ping_in == 0 && op_at != TO_FOLLOWER -> ping_ahead = true; ping_in = FLUSH
	:: else
	fi
}

/* A's clock goes on. */
inline pass_for_A()
{
#if REACH == 3
	if
	:: a == HELD && lease > 0 -> held_for++
	:: else -> held_for = 0
	fi;
	assert(held_for <= 2 * T);
#endif
	if
	:: lease > 0 -> lease--
	:: else
	fi;
	if
	:: op_left > 0 -> op_left--
	:: else
	fi;
#ifdef KEEPS_ACCOUNT
	if
	:: ground < HORIZON -> ground++
	:: else
	fi;
	if
	:: link_age < T -> link_age++
	:: else
	fi;
	if
	:: link_age != NONE && link_ripe < RIPE -> link_ripe++
	:: else
	fi;
	if
	:: op_at != NOWHERE && op_age < T -> op_age++
	:: else
	fi;
#endif
#ifdef HEARD
	if
	:: read_at != NOWHERE && read_age < T -> read_age++
	:: else
	fi;
#endif
	skip
}

/* All others' clocks do. */
inline pass()
{
	printf("-- time passes\n");
	if
	:: life > 0 -> life--
	:: else
	fi;
#ifndef AT_LEADER
	if
	:: !cut -> ask_follower()
	:: else
	fi;
#endif
#ifdef GAP
	if
	:: linked && silence < GAP -> silence++
	:: linked && silence == GAP ->
		printf("A: its connection was silent for too long\n");
		linked = false;
		forget_read();
		if
		:: op_at == TO_SERVER -> forget_op()
		:: else
		fi;
		silence = 0
	:: else
	fi;
#endif
	skip
}

#define NOTHING_BETWEEN	(cut || (!touch_ahead && !ping_ahead && \
								 op_at != TO_LEADER && op_at != TO_FOLLOWER))
#ifdef HEARD
#define NO_READ		(read_at == NOWHERE)
#else
#define NO_READ		true
#endif
#if PROMPT == 2
#define MAY_PASS	(NOTHING_BETWEEN && NO_READ && op_at != TO_SERVER && \
					 op_at != TO_CLIENT)
#elif PROMPT == 1
#define MAY_PASS	(NOTHING_BETWEEN)
#else
#define MAY_PASS	true
#endif

active proctype Time()
{
	do
#if defined(CLOCK_STOPS)
	:: d_step { MAY_PASS && !stopped -> pass(); pass_for_A() }
	:: d_step { MAY_PASS && stopped -> pass() }
	:: d_step { stopped = !stopped }
#elif defined(SLOW)
	:: d_step { MAY_PASS -> pass(); pass_for_A();
		if
		:: next_miss > 0 -> next_miss--
		:: else
		fi }
	:: d_step { MAY_PASS && next_miss == 0 -> pass(); next_miss = SLOW - 1 }
#else
	:: d_step { MAY_PASS -> pass(); pass_for_A() }
#endif
	od
}
