/*-------------------------------------------------------------------------
 *
 * client_lease_test.c
 *	  The length of leases, and locks when a server fails.
 *
 * Each client is a process of its own, with servers of its own (switchboard.h), so
 * that many hold their locks at the same time, each for another time when its server
 * fails.  All ports lead to the ensemble that ZK_SERVERS names.
 *
 * Runs alone: it has hundreds of clients, whose leases are measured.
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* for client_common.h */

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "client_common.h"
#include "server_timeout.h"
#include "switchboard.h"

#define TIMEOUT			ZK_MS(TIMEOUT_MS)

#define MAX_SERVERS		5

/*
 * Holds are up to that many timeouts long.  Of each kind of failure, with each number of
 * servers, so many locks are held for different times.  Sanitizers take memory for
 * each process, and it is the time that is looked at here.  With them the test does not
 * run alone, and the code is slow, so that the timeout is longer.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIMEOUT_MS		8000
#define LONGEST_HOLD	2
#define HOLDS			2
#define CROWD			0		/* ten would be too few to tell */
#define ROUND_TRIPS		{10, 20, 25, 30, 40}
#else
#define TIMEOUT_MS		4000
#define LONGEST_HOLD	5
#define HOLDS			16
#define CROWD			50
#define ROUND_TRIPS		{10, 20, 25, 30, 40, 45}
#endif

/* How long answers take for some clients, in hundredths of the timeout. */
static const int round_trips[] = ROUND_TRIPS;

#define SLOW			((int) (sizeof(round_trips) / sizeof(round_trips[0])))

/*
 * A client that loses its lock tries again, each time with half as many others beside it:
 * the machine may have been too slow for all of them.  That ends when more are left
 * than a few such groups, for which the machine is no reason.
 */
#define MOST_GROUPS		4

/* What a process with a client does, and has seen; the second half is of one try. */
typedef struct Holder
{
	pid_t		pid;			/* -1: it is to be started; only its parent's */
	Port	   *ports;
	int			port_count;
	PortMode	failure;
	ZkTime		hold;			/* its server fails after that time */

	/* the process */
	atomic_llong held_at;		/* when the lock was acquired */
	atomic_int	server;			/* index of the port it is connected to, or -1 */
	atomic_llong gives_up_at;	/* its first server, if that does not answer;
								 * 0: unknown */
	atomic_bool lost;
	atomic_bool proved;			/* since the request to prove it */
	atomic_llong shortest;		/* what was ever left of the lease */
	atomic_llong shortest_new;	/* ... right after a renewal */
	atomic_llong best;			/* the longest of what was left before a
								 * renewal, had the answers taken no time */
	atomic_llong best_new;		/* the longest right after one, also */
	atomic_int	renewals;		/* with a beat, and so was the one before */
	atomic_int	too_short;		/* of these, with less than both allow */

	/* its parent */
	atomic_bool ask;			/* for a proof */
	atomic_bool end;
	ZkTime		failed_at;
	int			failed_port;
	ZkTime		worked_shortest;	/* as it was when the server failed */
	ZkTime		worked_shortest_new;
	int			worked_renewals;
	int			worked_too_short;
} Holder;

static Holder *holders;
static Port *all_ports;
static int	ports_used;

/* Give a holder servers of its own. */
static void
give_ports(Holder *holder, int count)
{
	holder->ports = all_ports + ports_used;
	holder->port_count = count;
	holder->server = -1;
	ports_used += count;
}

/* Which of its servers is the client connected to? */
static int
server_of_client(const Holder *holder)
{
	ZkSessionStatus status;
	const char *colon;

	zk_client_status(client, &status);
	colon = strrchr(status.server, ':');
	for (int i = 0; colon != NULL && i < holder->port_count; i++)
		if (holder->ports[i].port == atoi(colon + 1))
			return i;
	return -1;
}

static void
keep_least(atomic_llong * least, ZkTime time)
{
	if (*least == 0 || time < *least)
		*least = time;
}

static void
keep_most(atomic_llong * most, ZkTime time)
{
	if (time > *most)
		*most = time;
}

/* The last proof of a lock. */
typedef struct Proofs
{
	ZkTime		proved_at;		/* 0: none yet */
	ZkLink		sync;			/* of the beat that it came with; or zeros */
	ZkTime		lease;			/* that it gave, had the answers taken no
								 * time; 0 if unknown */
	ZkTime		shortest;		/* what was left of the lease since */
} Proofs;

/*
 * The sync that was sent after one proof, and answered before the next one was
 * sent, which its answer sent (L2).  Zeros if there was none, or it is forgotten.
 */
static ZkLink
sync_between(ZkTime proof, ZkTime next_proof)
{
	ZkLink		sync = {0};

	pthread_mutex_lock(&client->engine_lock);
	for (int i = 0; i < client->leader_contact.count; i++)
	{
		const ZkLink *link = &client->leader_contact.links[i];

		if (link->sent_at > proof && link->answered_at <= next_proof)
			sync = *link;
	}
	pthread_mutex_unlock(&client->engine_lock);
	return sync;
}

/*
 * The lock was proved again.  If that was with a beat, as the time before, the
 * leader has heard of the session since that time's sync was sent.  This goes by
 * the times that the client took, and by nothing that a busy machine changes: how
 * long the answers took, which makes a lease shorter, is added.
 */
static void
note_renewal(Holder *holder, Proofs *proofs, const ZkContenderStatus *status)
{
	ZkLink		last = proofs->sync;
	ZkLink		sync = sync_between(proofs->proved_at, status->proved_at);
	ZkTime		lease = status->lease_end - status->proved_at;
	ZkTime		gap = sync.sent_at - last.answered_at;
	ZkTime		before = proofs->lease;
	ZkProof		proof = {status->proved_at, last.sent_at};

	keep_least(&holder->shortest_new, lease);
	proofs->sync = sync;
	proofs->lease = 0;
	if (sync.sent_at == 0 || last.sent_at == 0)
		return;
	holder->renewals++;
	if (status->lease_end < zk_lease_end(proof, TIMEOUT))
		holder->too_short++;
	proofs->lease = lease + (last.answered_at - last.sent_at) +
		(sync.answered_at - sync.sent_at);
	if (proofs->lease > TIMEOUT * 11 / 12 - gap)
		proofs->lease = TIMEOUT * 11 / 12 - gap;	/* not more than both
													 * allow */
	keep_most(&holder->best_new, proofs->lease);
	if (before != 0)
		keep_most(&holder->best, before - gap);
}

/*
 * When the client gives up its first server; 0 if it waits for no answer, or has
 * another one.
 */
static ZkTime
gives_up_at(void)
{
	ZkSessionStatus status;
	ZkTime		due;

	pthread_mutex_lock(&client->engine_lock);
	due = zk_is_connected(client) ? zk_server_timeout_due(client) : INT64_MAX;
	pthread_mutex_unlock(&client->engine_lock);
	zk_client_status(client, &status);
	return due != INT64_MAX && status.reconnects == 0 ? due : 0;
}

/* Look at the lock once. */
static void
look(Holder *holder, ZkContenderId id, Proofs *proofs)
{
	ZkContenderStatus status;
	ZkTime		now = zk_now();
	ZkTime		due = gives_up_at();

	if (due != 0)
		holder->gives_up_at = due;
	holder->server = server_of_client(holder);
	zk_contender_status(client, id, &status);
	if (status.state != ZK_HELD)
	{
		holder->lost = true;
		return;
	}
	keep_least(&holder->shortest, status.lease_end - now);
	if (status.proved_at != proofs->proved_at)
	{
		if (proofs->proved_at != 0)
			note_renewal(holder, proofs, &status);
		proofs->proved_at = status.proved_at;
		proofs->shortest = INT64_MAX;
	}
	if (status.lease_end - now < proofs->shortest)
		proofs->shortest = status.lease_end - now;
}

/* The process of a client. */
static void
hold(Holder *holder, int number)
{
	char		list[MAX_SERVERS * 24] = "";
	char		node[128];
	char		name[16];
	ZkContenderId id;
	ZkContenderStatus status;
	Proofs		proofs = {0};
	ZkTime		asked_at = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < holder->port_count; i++)
		sprintf(list + strlen(list), "%s127.0.0.1:%d", i > 0 ? "," : "",
				holder->ports[i].port);
	start_client(list, TIMEOUT_MS);
	snprintf(name, sizeof(name), "%d", number);
	node_path(node, name);
	id = request(node, ZK_EXCLUSIVE);
	if (wait_state(id, ZK_HELD, &status))
	{
		holder->server = server_of_client(holder);
		holder->held_at = zk_now();
	}
	else
		holder->lost = true;
	while (!holder->end)
	{
		wait_event();
		look(holder, id, &proofs);
		if (holder->ask && asked_at == 0)
		{
			asked_at = zk_now();
			zk_client_renew(client);
		}
		holder->proved = asked_at != 0 && proofs.proved_at >= asked_at;
	}
	zk_client_stop(client, 500);
	_exit(0);
}

/* Let processes do their work; to be called before there are threads. */
static void
start_holders(int first, int count)
{
	fflush(stdout);
	for (int i = first; i < first + count; i++)
	{
		/*
		 * Not at once into what the child shares: it would write its 0 there,
		 * too.
		 */
		pid_t		pid = fork();

		if (pid == 0)
			hold(&holders[i], i);
		holders[i].pid = pid;
	}
}

static void
end_holders(int first, int count)
{
	for (int i = first; i < first + count; i++)
		holders[i].end = true;
	for (int i = first; i < first + count; i++)
		if (holders[i].pid > 0)
		{
			waitpid(holders[i].pid, NULL, 0);
			holders[i].pid = 0;
		}
}

/* Have the server fail that a holder is connected to. */
static void
fail_server(Holder *holder, ZkTime now)
{
	holder->failed_port = holder->server;
	holder->failed_at = now;
	holder->worked_shortest = holder->shortest;
	holder->worked_shortest_new = holder->shortest_new;
	holder->worked_renewals = holder->renewals;
	holder->worked_too_short = holder->too_short;
	if (holder->failed_port >= 0)
		holder->ports[holder->failed_port].mode = holder->failure;
}

/* Has it come through?  It holds its lock, proved over another connection. */
static bool
came_through(const Holder *holder)
{
	return !holder->lost && holder->proved && holder->server >= 0 &&
		holder->server != holder->failed_port;
}

static double
in_timeouts(ZkTime time)
{
	return (double) time / TIMEOUT;
}

/* A holder has not come through: tell, and have it done once more. */
static void
try_again(Holder *holder)
{
	diag("once more: one of %d servers, failure %d, held for %.2f T: %s",
		 holder->port_count, holder->failure, in_timeouts(holder->hold),
		 holder->lost ? "lost" : "not proved");
	for (int i = 0; i < holder->port_count; i++)
		holder->ports[i].mode = PORT_WORKS;
	memset(&holder->held_at, 0, sizeof(*holder) - offsetof(Holder, held_at));
	holder->pid = -1;
}

/*
 * Judge the leases while the servers worked.  Of the oldest holders, one may have been
 * free of the noise of other processes; effects of such noise are no failure.
 */
static void
report_lengths(int count)
{
	ZkTime		shortest = 0;
	ZkTime		shortest_new = 0;
	ZkTime		best = 0;
	ZkTime		best_new = 0;
	int			renewals = 0;
	int			too_short = 0;

	for (int i = 0; i < count; i++)
	{
		const Holder *holder = &holders[i];

		if (holder->hold < (LONGEST_HOLD - 1) * TIMEOUT)
			continue;
		if (holder->worked_shortest > shortest)
			shortest = holder->worked_shortest;
		if (holder->worked_shortest_new > shortest_new)
			shortest_new = holder->worked_shortest_new;
		if (holder->best > best)
			best = holder->best;
		if (holder->best_new > best_new)
			best_new = holder->best_new;
		if (holder->worked_renewals > renewals)
			renewals = holder->worked_renewals;
		too_short += holder->worked_too_short;
	}
	diag("T = %d ms, held for %d to %d T: the lease is at least %.3f T after each of %d renewals, and never less than %.3f T",
		 TIMEOUT_MS, LONGEST_HOLD - 1, LONGEST_HOLD, in_timeouts(shortest_new), renewals,
		 in_timeouts(shortest));
	ok(renewals > 0 && too_short == 0,
	   "S231: each lease is as long as the sync of the renewal before allows");
	ok(best_new >= TIMEOUT * 62 / 100,
	   "S231: that is 0.62 T right after a renewal, if answers take no time");
	ok(best >= TIMEOUT * 35 / 100, "S231: and 0.35 T right before one");
}

/*
 * How long a holder of a kind is to hold its lock before its server fails: a tenth of the
 * timeout, then 5, 6, 10, 11 ... eighths, so that 16 holds meet each eighth of a timeout,
 * and at last the longest.
 */
static ZkTime
hold_of(int which)
{
	int			eighths = which % 2 == 0 ? which / 2 * 5 + 1 : (which + 1) / 2 * 5;

	if (which == 0)
		return TIMEOUT / 10;
	if (which == HOLDS - 1)
		return LONGEST_HOLD * TIMEOUT;
	return TIMEOUT * eighths / 8;
}

/*
 * Have all holders go through that whose pid is -1: locks are held, of different age when
 * their servers fail, which they do at about the same time.  Returns when all have had
 * time to lose them, or to prove that they have not.
 */
static void
run_holders(int count)
{
	ZkTime		begin = zk_now();
	ZkTime		deadline = begin + (LONGEST_HOLD + 10) * TIMEOUT;
	ZkTime		last = 0;
	int			left = 0;

	for (int i = 0; i < count; i++)
		left += holders[i].pid == -1;
	while (left > 0 && zk_now() < deadline)
	{
		ZkTime		now = zk_now();

		for (int i = 0; i < count; i++)
		{
			Holder	   *holder = &holders[i];

			if (holder->pid == -1 &&
				now >= begin + LONGEST_HOLD * TIMEOUT - holder->hold)
				start_holders(i, 1);
			if (holder->failed_at != 0 || holder->held_at == 0 ||
				now < holder->held_at + holder->hold)
				continue;
			fail_server(holder, now);
			last = now;
			left--;
		}
		usleep(2000);
	}
	while (left == 0 && zk_now() < last + TIMEOUT * 5 / 4)
		usleep(10000);
	for (int i = 0; i < count; i++)
		holders[i].ask = true;
	deadline = zk_now() + TIMEOUT;
	for (int i = 0; i < count && zk_now() < deadline;)
		if (came_through(&holders[i]) || holders[i].lost)
			i++;
		else
			usleep(2000);
	end_holders(0, count);
}

/* Returns how many of these holders have come through. */
static int
count_through(int first, int count)
{
	int			through = 0;

	for (int i = first; i < first + count; i++)
		through += came_through(&holders[i]);
	return through;
}

/* Those that have not come through try again, at most so many at a time. */
static void
run_again(int count, int most)
{
	int			some = 0;
	int			left = count - count_through(0, count);

	if (left > most * MOST_GROUPS)
		return;
	for (int i = 0; left > 0; i++)
	{
		if (came_through(&holders[i]))
			continue;
		try_again(&holders[i]);
		some++;
		left--;
		if (some == most || left == 0)
		{
			run_holders(count);
			some = 0;
		}
	}
}

/*
 * Servers fail while locks are held, each when its lock has been held for another time.
 */
static void
test_holds(void)
{
	static const int server_counts[] = {2, 3, 5};
	static const char *const names[] = {"works", "hangs", "is cut off", "is killed"};
	const int	count = HOLDS * 9;
	int			most = count;

	memset(holders, 0, sizeof(Holder) * (size_t) count);
	for (int i = 0; i < count; i++)
	{
		Holder	   *holder = &holders[i];

		holder->pid = -1;
		holder->failure = PORT_HANGS + i / (3 * HOLDS);
		holder->hold = hold_of(i % HOLDS);
		give_ports(holder, server_counts[i / HOLDS % 3]);
	}
	run_holders(count);
	for (int tries = 0; tries < 6; tries++)
	{
		most = most > 5 ? most / 2 : 2;
		run_again(count, most);
	}
	report_lengths(count);
	for (int i = 0; i < count; i += HOLDS)
		is_int(count_through(i, HOLDS), HOLDS,
			   "S230: one of %d servers %s: the lock survives, held for 0.1 to %d T",
			   holders[i].port_count, names[holders[i].failure], LONGEST_HOLD);
}

/*
 * A lock is acquired although each answer takes a part of the timeout, up to nearly half
 * of it.  That takes time, in which the other tests run.
 */
static void
begin_slow(int first)
{
	for (int i = 0; i < SLOW; i++)
	{
		Holder	   *holder = &holders[first + i];

		give_ports(holder, 2);
		for (int j = 0; j < 2; j++)
			holder->ports[j].delay_ms = TIMEOUT_MS * round_trips[i] / 200;
		holder->failed_at = zk_now();
	}
	start_holders(first, SLOW);
}

static void
end_slow(int first)
{
	for (int i = 0; i < SLOW; i++)
	{
		const Holder *holder = &holders[first + i];

		while (!holder->lost && holder->held_at == 0 &&
			   zk_now() < holder->failed_at + 15 * TIMEOUT)
			usleep(10000);
		ok(holder->held_at != 0,
		   "S232: a lock is acquired over a round trip of %.2f T", round_trips[i] / 100.0);
		if (holder->held_at != 0)
			diag("after %.1f T", in_timeouts(holder->held_at - holder->failed_at));
	}
	end_holders(first, SLOW);
}

/*
 * Many clients, whose server hangs at the same moment, do not continue in step.
 * That goes by when each is to give up its server, not by when it comes to the next
 * one: a busy machine may do that for many at once.
 */
static void
test_crowd(void)
{
	ZkTime		first = INT64_MAX;
	ZkTime		last = 0;
	ZkTime		deadline;
	int			ready = 0;
	int			came = 0;

	memset(holders, 0, sizeof(Holder) * CROWD);
	for (int i = 0; i < CROWD; i++)
	{
		give_ports(&holders[i], 2);
		holders[i].failure = PORT_HANGS;
	}
	start_holders(0, CROWD);
	deadline = zk_now() + DEADLINE;
	while (ready < CROWD && zk_now() < deadline)
		ready += holders[ready].held_at != 0;
	usleep(500000);

	/* a machine that stood still may have cost some their connection */
	for (int i = 0; i < CROWD; i++)
		while (holders[i].server < 0 && zk_now() < deadline)
			usleep(2000);
	for (int i = 0; i < CROWD; i++)
	{
		holders[i].ports[0].accepted_at = holders[i].ports[1].accepted_at = 0;
		holders[i].gives_up_at = 0;
		fail_server(&holders[i], zk_now());
	}
	deadline = zk_now() + DEADLINE;
	for (int i = 0; i < CROWD; i++)
	{
		const Port *other = &holders[i].ports[1 - holders[i].failed_port];
		ZkTime		due;

		while (other->accepted_at == 0 && zk_now() < deadline)
			usleep(2000);
		came += other->accepted_at != 0;
		due = holders[i].gives_up_at;
		if (due != 0 && due < first)
			first = due;
		if (due > last)
			last = due;
	}
	diag("%d clients give up their server within %.3f T, from %.3f T on", CROWD,
		 in_timeouts(last - first), in_timeouts(first - holders[0].failed_at));
	is_int(came, CROWD, "S233: a crowd whose server hangs comes to the next one");
	ok(last - first >= TIMEOUT / 10, "S233: spread over a tenth of T or more");
	end_holders(0, CROWD);
}

int
main(void)
{
	int			most = HOLDS * 9 > CROWD ? HOLDS * 9 : CROWD;

	servers = getenv("ZK_SERVERS");
	snprintf(root, sizeof(root), "/client_lease_test_%d", (int) getpid());
	holders = mmap(NULL, sizeof(Holder) * (size_t) (most + SLOW), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	all_ports = servers != NULL ?
		switchboard_start(servers, HOLDS * 3 * (2 + 3 + 5) + SLOW * 2 + CROWD * 2) : NULL;
	if (all_ports == NULL || holders == MAP_FAILED)
	{
		fprintf(stderr, "ZK_SERVERS is not set, or there are no ports\n");
		return 1;
	}
	begin_slow(most);
	if (CROWD > 0)
		test_crowd();
	test_holds();
	end_slow(most);
	return done_testing();
}
