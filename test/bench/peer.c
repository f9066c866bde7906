/*-------------------------------------------------------------------------
 *
 * peer.c
 *	  The commands of a peer of the bench; see peer.h and README.
 *
 * Whatever is to happen at the same time happens in a thread for each session.
 * A thread notes times and nothing else; they are put together when all threads
 * have ended.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "peer.h"

/* Enough for the resolver, and for a thousand sessions with some threads each. */
#define STACK_SIZE		(256 * 1024)

/* A command: its name, and numbers or paths. */
#define MAX_WORDS		5

/* How often to look whether all are queued. */
#define POLL_US			1000

typedef struct Command
{
	const char *name;
	int			words;			/* after the name */
	bool		(*run) (void);	/* puts durations or text into the answer */
} Command;

/* What the threads of one command have in common. */
typedef struct Contest
{
	const char *path;
	int			hold_us;
	atomic_int	left;			/* holds that are still to be begun */
	atomic_bool over;			/* no cycle is to be begun any more */
	pthread_barrier_t start;
} Contest;

/* A thread: one session's part in that. */
typedef struct Runner
{
	pthread_t	thread;
	void	   *session;
	int			index;
	Contest    *contest;
	bool		(*part) (struct Runner *runner);
	bool		ok;
	PeerHold   *holds;			/* room for all that may come */
	int			count;			/* of holds or cycles */
} Runner;

static const PeerClient *client;

static void **sessions;
static int	session_count;
static int	session_room;

/* How long a cycle pauses before each acquire and release. */
static long pause_us;

/* The command being run. */
static char *words[MAX_WORDS];
static FILE *answer;

/* Why it failed: what happened first. */
static pthread_mutex_t failure_lock = PTHREAD_MUTEX_INITIALIZER;
static char failure[512];

/*
 * Note what went wrong, unless something else was noted before; returns false.
 * Any thread.
 */
bool
peer_fail(const char *format,...)
{
	va_list		args;

	pthread_mutex_lock(&failure_lock);
	if (failure[0] == '\0')
	{
		va_start(args, format);
		vsnprintf(failure, sizeof(failure), format, args);
		va_end(args);
		for (char *c = failure; *c; c++)
			if (*c == '\n')
				*c = ' ';
	}
	pthread_mutex_unlock(&failure_lock);
	return false;
}

/*
 * What was noted; empty if nothing was.
 */
const char *
peer_failure(void)
{
	return failure;
}

/*
 * The time, in microseconds since some moment.  Any thread.
 */
double
peer_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

/*
 * Sleep for so many microseconds.  Any thread.
 */
void
peer_sleep_us(long us)
{
	struct timespec time = {us / 1000000, us % 1000000 * 1000};

	while (nanosleep(&time, &time) != 0 && errno == EINTR)
		;
}

/*
 * Memory for so many things, all zero.  There is always enough.
 */
static void *
allocate(size_t count, size_t size)
{
	void	   *result = calloc(count, size);

	if (result == NULL)
		abort();
	return result;
}

/*
 * Add a duration to the answer.
 */
static void
put_duration(double us)
{
	fprintf(answer, " %.1f", us);
}

/*
 * A word of the command as a number, which must be one and at least "least".
 * Returns -1 and notes the failure if it is not.
 */
static long
number(int word, long least)
{
	char	   *end;
	long		result = strtol(words[word], &end, 10);

	if (*end == '\0' && end != words[word] && result >= least)
		return result;
	peer_fail("not a number, or too small: %s", words[word]);
	return -1;
}

/*-------------------------------------------------------------------------
 * Sessions
 *-------------------------------------------------------------------------
 */

/*
 * Connect sessions until there are "count".
 */
static bool
have_sessions(int count)
{
	if (count > session_room)
	{
		sessions = realloc(sessions, count * sizeof(*sessions));
		if (sessions == NULL)
			abort();
		session_room = count;
	}
	if (client->connect_many && count > session_count)
	{
		if (!client->connect_many(sessions + session_count,
								  count - session_count))
			return false;
		session_count = count;
	}
	for (; session_count < count; session_count++)
		if ((sessions[session_count] = client->connect()) == NULL)
			return false;
	return true;
}

/*-------------------------------------------------------------------------
 * Threads
 *-------------------------------------------------------------------------
 */

/*
 * A thread: wait for the start, and do the part.  Who fails ends it for all.
 */
static void *
run_part(void *arg)
{
	Runner	   *runner = arg;

	pthread_barrier_wait(&runner->contest->start);
	runner->ok = runner->part(runner);
	if (!runner->ok)
		atomic_store(&runner->contest->over, true);
	return NULL;
}

/*
 * Start threads for the sessions from "first" on, which begin when one more
 * thread has come to the contest's start.  "room" is the number of holds that
 * each of them may note.
 */
static Runner *
start_runners(Contest *contest, bool (*part) (Runner *runner), int first,
			  int count, int room)
{
	Runner	   *runners = allocate(count, sizeof(*runners));

	pthread_barrier_init(&contest->start, NULL, count + 1);
	for (int i = 0; i < count; i++)
	{
		Runner	   *runner = &runners[i];

		runner->session = sessions[first + i];
		runner->index = i;
		runner->contest = contest;
		runner->part = part;
		runner->holds = room > 0 ? allocate(room, sizeof(PeerHold)) : NULL;
		if (pthread_create(&runner->thread, NULL, run_part, runner) != 0)
		{
			/* the others wait at the start, for ever */
			fprintf(stderr, "cannot create thread %d\n", i);
			abort();
		}
	}
	return runners;
}

/*
 * Wait for the threads to end.  Returns whether all have done their part.
 */
static bool
join_runners(Contest *contest, Runner *runners, int count)
{
	bool		ok = true;

	for (int i = 0; i < count; i++)
	{
		pthread_join(runners[i].thread, NULL);
		ok &= runners[i].ok;
	}
	pthread_barrier_destroy(&contest->start);
	return ok;
}

/*
 * Free what start_runners() made, when all have been joined.
 */
static void
free_runners(Runner *runners, int count)
{
	for (int i = 0; i < count; i++)
		free(runners[i].holds);
	free(runners);
}

/*-------------------------------------------------------------------------
 * Getting ready
 *-------------------------------------------------------------------------
 */

/*
 * A part: get one session ready.
 */
static bool
warm_session(Runner *runner)
{
	return client->warm(runner->session);
}

/*
 * Have "count" sessions that are ready to be used.
 */
static bool
warm_sessions(int count)
{
	Contest		contest = {0};
	Runner	   *runners;
	bool		ok;

	if (!have_sessions(count))
		return false;
	if (client->warm == NULL)
		return true;
	runners = start_runners(&contest, warm_session, 0, count, 0);
	pthread_barrier_wait(&contest.start);
	ok = join_runners(&contest, runners, count);
	free_runners(runners, count);
	return ok;
}

/*
 * The same, and a path that they all use.
 */
static bool
prepare(int count, const char *path)
{
	return warm_sessions(count) &&
		(client->prepare == NULL || client->prepare(sessions[0], path));
}

/*
 * The same, with the paths prefix/0 to prefix/paths-1.
 */
static bool
prepare_each(int count, const char *prefix, int paths)
{
	char		path[1024];

	if (!warm_sessions(count))
		return false;
	for (int i = 0; i < paths; i++)
	{
		snprintf(path, sizeof(path), "%s/%d", prefix, i);
		if (client->prepare && !client->prepare(sessions[0], path))
			return false;
	}
	return true;
}

/*
 * open N
 */
static bool
run_open(void)
{
	long		count = number(0, 1);

	return count > 0 && warm_sessions(count);
}

/*
 * close
 */
static bool
run_close(void)
{
	while (session_count > 0)
		client->disconnect(sessions[--session_count]);
	return true;
}

/*-------------------------------------------------------------------------
 * One session
 *-------------------------------------------------------------------------
 */

/*
 * pause US
 */
static bool
run_pause(void)
{
	pause_us = number(0, 0);
	return pause_us >= 0;
}

/*
 * Acquire or release, with the pause before; the time without that.
 */
static bool
timed(bool (*function) (void *session, const char *path), double *us)
{
	double		start;
	bool		ok;

	if (pause_us > 0)
		peer_sleep_us(pause_us);
	start = peer_now();
	ok = function(sessions[0], words[0]);
	*us = peer_now() - start;
	return ok;
}

/*
 * cycle PATH COUNT
 */
static bool
run_cycle(void)
{
	long		count = number(1, 1);

	if (count < 0 || !prepare(1, words[0]))
		return false;
	while (count-- > 0)
	{
		double		acquire_us;
		double		release_us;

		if (!timed(client->acquire, &acquire_us) ||
			!timed(client->release, &release_us))
			return false;
		put_duration(acquire_us + release_us);
	}
	return true;
}

/*
 * Acquire path/0 to path/count-1, or release them, one after another.
 */
static bool
each_of(bool (*function) (void *session, const char *path), const char *path,
		int count)
{
	char		member[1024];

	for (int i = 0; i < count; i++)
	{
		snprintf(member, sizeof(member), "%s/%d", path, i);
		if (!function(sessions[0], member))
			return false;
	}
	return true;
}

/*
 * array PATH K COUNT
 *
 * An array of one is a plain lock.
 */
static bool
run_array(void)
{
	long		members = number(1, 1);
	long		count = number(2, 1);

	if (members < 0 || count < 0 || !prepare_each(1, words[0], members))
		return false;
	while (count-- > 0)
	{
		double		start = peer_now();
		bool		ok;

		ok = client->acquire_many && members > 1 ?
			client->acquire_many(sessions[0], words[0], members) :
			each_of(client->acquire, words[0], members);
		if (!ok)
			return false;
		put_duration(peer_now() - start);
		ok = client->release_many && members > 1 ?
			client->release_many(sessions[0], words[0], members) :
			each_of(client->release, words[0], members);
		if (!ok)
			return false;
	}
	return true;
}

/*
 * first COUNT
 */
static bool
run_first(void)
{
	static const char *const path = "/bench/first";
	long		count = number(0, 1);

	if (count < 0 || !prepare(1, path))
		return false;
	while (count-- > 0)
	{
		double		start = peer_now();
		void	   *session = client->connect();
		bool		ok;

		if (session == NULL)
			return false;
		ok = client->acquire(session, path);
		if (ok)
			put_duration(peer_now() - start);
		ok = ok && client->release(session, path);
		client->disconnect(session);
		if (!ok)
			return false;
	}
	return true;
}

/*-------------------------------------------------------------------------
 * Many sessions
 *-------------------------------------------------------------------------
 */

/*
 * A part: acquire and release a path of its own until it is over.
 */
static bool
cycle_until_over(Runner *runner)
{
	char		path[1024];

	snprintf(path, sizeof(path), "%s/%d", runner->contest->path,
			 runner->index);
	while (!atomic_load(&runner->contest->over))
	{
		if (!client->acquire(runner->session, path) ||
			!client->release(runner->session, path))
			return false;
		runner->count++;
	}
	return true;
}

/*
 * throughput PREFIX N SECONDS
 */
static bool
run_throughput(void)
{
	Contest		contest = {.path = words[0]};
	long		count = number(1, 1);
	double		seconds = atof(words[2]);
	double		start;
	long		cycles = 0;
	Runner	   *runners;
	bool		ok;

	if (count < 0 || !prepare_each(count, words[0], count))
		return false;
	runners = start_runners(&contest, cycle_until_over, 0, count, 0);
	pthread_barrier_wait(&contest.start);
	start = peer_now();
	peer_sleep_us(seconds * 1e6);
	atomic_store(&contest.over, true);
	ok = join_runners(&contest, runners, count);
	for (int i = 0; i < count; i++)
		cycles += runners[i].count;
	fprintf(answer, " %ld %.6f", cycles, (peer_now() - start) / 1e6);
	free_runners(runners, count);
	return ok;
}

/*
 * Hold a lock of a client once, for so many microseconds, and note when.  Any thread.
 */
bool
peer_hold(const PeerClient *what, void *session, const char *path, int hold_us,
		  PeerHold *hold)
{
	if (!what->acquire(session, path))
		return false;
	hold->acquired = peer_now();
	if (hold_us > 0)
		peer_sleep_us(hold_us);
	hold->released = peer_now();
	return what->release(session, path);
}

/*
 * A part: hold the lock once.
 */
static bool
hold_once(Runner *runner)
{
	Contest    *contest = runner->contest;

	return peer_hold(client, runner->session, contest->path, contest->hold_us,
					 &runner->holds[runner->count++]);
}

/*
 * A part: contend until all together have held the lock often enough.
 */
static bool
hold_until_enough(Runner *runner)
{
	while (!atomic_load(&runner->contest->over) &&
		   atomic_fetch_sub(&runner->contest->left, 1) > 0)
		if (!hold_once(runner))
			return false;
	return true;
}

/*
 * A part: the same by the client's own means: a share of it for each.
 */
static bool
hold_share(Runner *runner)
{
	Contest    *contest = runner->contest;
	int			share = atomic_load(&contest->left);

	runner->count = share;
	return client->hold(runner->session, contest->path, share,
						contest->hold_us, runner->holds);
}

/*
 * For qsort: by the time of the acquire.
 */
static int
compare_holds(const void *a, const void *b)
{
	double		difference = ((const PeerHold *) a)->acquired -
	((const PeerHold *) b)->acquired;

	return difference < 0 ? -1 : difference > 0;
}

/*
 * Put all holds in order, after "first", which may be NULL, and answer with the
 * times of the hand-offs from one to the next, less the first "skip", "limit" of
 * them at most.  A lock that two had at a time is worth no number.
 */
static bool
put_handoffs(const PeerHold *first, const Runner *runners, int count,
			 int skip, int limit)
{
	PeerHold   *all;
	int			total = 0;
	bool		ok = true;

	for (int i = 0; i < count; i++)
		total += runners[i].count;
	all = allocate(total + 1, sizeof(*all));
	total = 0;
	if (first)
		all[total++] = *first;
	for (int i = 0; i < count; i++)
	{
		memcpy(all + total, runners[i].holds,
			   runners[i].count * sizeof(*all));
		total += runners[i].count;
	}
	qsort(all, total, sizeof(*all), compare_holds);
	for (int i = 1; ok && !client->excludes_nobody && i < total; i++)
		if (all[i].acquired < all[i - 1].released)
			ok = peer_fail("two have held the lock at a time");
	if (ok && total < 1 + skip + limit)
		ok = peer_fail("only %d holds of %d", total, 1 + skip + limit);
	for (int i = 1 + skip; ok && i < 1 + skip + limit; i++)
		put_duration(all[i].acquired - all[i - 1].released);
	free(all);
	return ok;
}

/*
 * handoff PATH N COUNT HOLD_US
 *
 * The first two turns of each are left out, and the last ones, in which there
 * are fewer contenders.
 */
static bool
run_handoff(void)
{
	Contest		contest = {.path = words[0]};
	int			contenders = number(1, 2);
	int			count = number(2, 1);
	int			total = count + 3 * contenders;
	Runner	   *runners;
	bool		ok;

	contest.hold_us = number(3, 0);
	if (contenders < 0 || count < 0 || contest.hold_us < 0 ||
		!prepare(contenders, words[0]))
		return false;
	atomic_store(&contest.left,
				 client->hold ? (total + contenders - 1) / contenders : total);
	runners = start_runners(&contest,
							client->hold ? hold_share : hold_until_enough,
							0, contenders, total);
	pthread_barrier_wait(&contest.start);
	ok = join_runners(&contest, runners, contenders) &&
		put_handoffs(NULL, runners, contenders, 2 * contenders, count);
	free_runners(runners, contenders);
	return ok;
}

/*
 * Wait until sessions 1 to "count" are queued, or one of them has failed.
 */
static bool
wait_until_queued(const Contest *contest, int count)
{
	double		deadline = peer_now() + PEER_PATIENCE_MS * 1e3;

	for (int i = 1; i <= count; i++)
		while (!client->queued(sessions[i]))
		{
			if (atomic_load(&contest->over) || peer_now() > deadline)
				return peer_fail("session %d is not queued", i);
			peer_sleep_us(POLL_US);
		}
	return true;
}

/*
 * Release what session 0 holds when all others are queued, and note when.
 */
static bool
release_when_queued(const Contest *contest, int waiters, double *released)
{
	bool		queued = true;

	if (client->release_when)
		return client->release_when(sessions[0], contest->path, waiters,
									released);
	queued = wait_until_queued(contest, waiters);
	*released = peer_now();
	return client->release(sessions[0], contest->path) && queued;
}

/*
 * drain PATH N
 */
static bool
run_drain(void)
{
	Contest		contest = {.path = words[0],.left = 1};
	int			waiters = number(1, 1);
	PeerHold	first = {0};
	Runner	   *runners;
	bool		ok;

	if (waiters < 0 || !prepare(waiters + 1, words[0]) ||
		!client->acquire(sessions[0], words[0]))
		return false;
	runners = start_runners(&contest, client->hold ? hold_share : hold_once,
							1, waiters, 1);
	pthread_barrier_wait(&contest.start);
	ok = release_when_queued(&contest, waiters, &first.released);
	ok = join_runners(&contest, runners, waiters) && ok &&
		put_handoffs(&first, runners, waiters, 0, waiters);
	free_runners(runners, waiters);
	return ok;
}

/*
 * A part: nothing.
 */
static bool
do_nothing(Runner *runner)
{
	(void) runner;
	return true;
}

/*
 * threads N
 *
 * What a drain of so many waiters takes besides the lock.
 */
static bool
run_threads(void)
{
	Contest		contest = {0};
	long		count = number(0, 1);
	Runner	   *runners;
	bool		ok;

	if (count < 0 || !have_sessions(count))
		return false;
	runners = start_runners(&contest, do_nothing, 0, count, 1);
	pthread_barrier_wait(&contest.start);
	ok = join_runners(&contest, runners, count);
	free_runners(runners, count);
	fprintf(answer, " %ld", count);
	return ok;
}

/*-------------------------------------------------------------------------
 * Commands
 *-------------------------------------------------------------------------
 */

static const Command commands[] = {
	{"open", 1, run_open},
	{"cycle", 2, run_cycle},
	{"throughput", 3, run_throughput},
	{"handoff", 4, run_handoff},
	{"drain", 2, run_drain},
	{"array", 3, run_array},
	{"first", 1, run_first},
	{"threads", 1, run_threads},
	{"pause", 1, run_pause},
	{"close", 0, run_close},
};

#define COMMANDS	(sizeof(commands) / sizeof(commands[0]))

/*
 * Can the client do this?
 */
static bool
supported(const Command *command)
{
	return command->run != run_drain || client->queued || client->release_when;
}

/*
 * Run a command and print the answer.
 */
static void
run_command(const Command *command)
{
	char	   *text = NULL;
	size_t		size;

	failure[0] = '\0';
	answer = open_memstream(&text, &size);
	if (answer == NULL)
		abort();
	if (!supported(command))
		puts("unsupported nobody can see who is queued");
	else if (command->run())
	{
		fflush(answer);
		printf("ok%s\n", text);
	}
	else
		printf("error %s\n", failure[0] ? failure : "of an unknown kind");
	fclose(answer);
	free(text);
}

/*
 * Split a line into words and run the command.  Returns false if it was "quit".
 */
static bool
run_line(char *line)
{
	char	   *save;
	char	   *name = strtok_r(line, " \n", &save);
	const Command *command = commands;
	int			count = 0;

	if (name == NULL || strcmp(name, "quit") == 0)
		return name == NULL;
	while (count < MAX_WORDS &&
		   (words[count] = strtok_r(NULL, " \n", &save)) != NULL)
		count++;
	while (command < commands + COMMANDS && strcmp(command->name, name) != 0)
		command++;
	if (command == commands + COMMANDS)
		printf("unsupported no such command: %s\n", name);
	else if (command->words != count)
		printf("error %s takes %d words\n", name, command->words);
	else
		run_command(command);
	fflush(stdout);
	return true;
}

/*
 * Have room for many threads and connections.
 */
static void
raise_limits(void)
{
	struct rlimit limit;
	pthread_attr_t attributes;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
	{
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	pthread_setattr_default_np(&attributes);
	pthread_attr_destroy(&attributes);
	signal(SIGPIPE, SIG_IGN);
}

/*
 * Take commands until the input ends.  Returns the program's exit status.
 */
int
peer_main(const PeerClient *what)
{
	char	   *line = NULL;
	size_t		size = 0;

	client = what;
	raise_limits();
	while (getline(&line, &size, stdin) >= 0 && run_line(line))
		;
	run_close();
	free(line);
	return 0;
}
