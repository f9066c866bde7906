/*-------------------------------------------------------------------------
 *
 * client_close_test.c
 *	  A grant that arrives while a handle is being closed.
 *
 * A handle that has been without a connection for half a session timeout is closed, and
 * another one opened, provided that no lease runs.  If the connection comes back
 * between that look and the closing, and a lock is granted, the closing ends the
 * ZooKeeper session of a lock that is believed in.
 *
 * That is a moment of some microseconds, so it is made longer: this program is linked
 * with its own pthread_mutex_unlock() and zookeeper_close().  Each time the helper thread
 * releases engine_lock it can be delayed until the network, which was cut, is back,
 * and all effects of that have happened.
 *
 *-------------------------------------------------------------------------
 */
#define THREADED				/* for client_common.h */

#include <zookeeper/proto.h>

#include "client_proxied.h"
#include "lease.h"
#include "server_timeout.h"

/*
 * From when it may close the handle on, the helper lets go of engine_lock before it decides
 * to, after that, and when it has closed it.
 */
#define MOMENTS		3

/* How often each of them is tried. */
#define ROUNDS		3

/* How long a moment is held on to if nothing is granted in it. */
#define LONG_MOMENT	ZK_MS(1000)

/*
 * When the helper is to be held up: as it lets go of engine_lock for the last of so many
 * times (from 0 on; -1: not at all) after that point in time.
 */
static atomic_llong held_up_from;
static atomic_int held_up_in = -1;

/* The client's, a copy, as the client is freed while other threads of its are there. */
static pthread_t helper;

static atomic_bool held_up;		/* it waits for the network to come back */
static atomic_bool go_on;

static atomic_int closings;		/* handles that were closed so far */
static atomic_int broken_leases;	/* of these, so many while a lease ran */

extern int	__real_pthread_mutex_unlock(pthread_mutex_t *mutex);
extern int	__wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
extern int	__real_zookeeper_close(zhandle_t *zh);
extern int	__wrap_zookeeper_close(zhandle_t *zh);

/* Returns true in the client's helper while the test runs. */
static bool
is_helper(void)
{
	return held_up_from != 0 && pthread_equal(pthread_self(), helper);
}

/* Hold the helper up, if it is this time that it is to be. */
int
__wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int			rc = __real_pthread_mutex_unlock(mutex);

	if (is_helper() && mutex == &client->engine_lock &&
		zk_now() >= held_up_from && held_up_in >= 0 && held_up_in-- == 0)
	{
		held_up = true;
		while (!go_on)
			usleep(500);
		held_up = false;
	}
	return rc;
}

/* No lease may run on the session of a handle that is closed. */
int
__wrap_zookeeper_close(zhandle_t *zh)
{
	if (is_helper())
	{
		pthread_mutex_lock(&client->engine_lock);
		broken_leases += zk_leases_run(client);
		__real_pthread_mutex_unlock(&client->engine_lock);
		closings++;
	}
	return __real_zookeeper_close(zh);
}

/* From when on is the handle, which has lost its connection, to be closed? */
static ZkTime
closing_time(void)
{
	ZkTime		time;

	pthread_mutex_lock(&client->engine_lock);
	time = client->connection.disconnected_at + zk_server_timeout_resolve_after(client);
	pthread_mutex_unlock(&client->engine_lock);
	return time;
}

/* Wait for the helper to be held up; false if it has not been. */
static bool
wait_held_up(void)
{
	ZkTime		deadline = zk_now() + DEADLINE;

	while (!held_up && zk_now() < deadline)
		usleep(500);
	return held_up;
}

/*
 * A lock is wanted, and there is no connection for so long that the handle is to be
 * closed.  Just then the connection comes back.
 */
static void
test_moment(const char *node, int moment)
{
	char		path[PATH_SIZE];
	ZkContenderId id;
	ZkContenderStatus status;
	ZkTime		until;
	struct Stat stat;

	/* were nothing wanted by then, the handle would not be waited for */
	proxy_refuse(true);
	proxy_cut_at(ZOO_CREATE2_OP, 1, PROXY_BEFORE_REQUEST, false);
	id = request(node, ZK_EXCLUSIVE);
	wait_session(ZK_SESSION_SUSPENDED);
	go_on = false;
	held_up_in = moment;
	held_up_from = closing_time();
	if (!wait_held_up())
		diag("the helper does not reach moment %d", moment);
	proxy_refuse(false);
	until = zk_now() + LONG_MOMENT;
	do
	{
		wait_event();
		zk_contender_status(client, id, &status);
	} while (status.state != ZK_HELD && zk_now() < until);
	diag("moment %d: the lock is %s in it", moment,
		 status.state == ZK_HELD ? "granted" : "not granted");
	go_on = true;

	/* whatever the helper was about to do, it has done when it answers this */
	zk_client_renew(client);
	ok(wait_state(id, ZK_HELD, &status), "the lock is granted, before or after");
	snprintf(path, sizeof(path), "%s/%s", node, status.name);
	ok(zoo_exists(stranger, path, 0, &stat) == ZOK, "and there is a contender");
	held_up_from = 0;
	ok(release(id), "which is released");
}

int
main(void)
{
	char		node[128];

	if (!find_servers("client_close_test") || !open_proxied())
		return 1;
	start_client(proxied, TIMEOUT_MS);
	helper = client->helper;
	make_node(node, "closing");
	release(acquire(node, ZK_EXCLUSIVE));
	for (int i = 0; i < MOMENTS * ROUNDS; i++)
		test_moment(node, i % MOMENTS);
	ok(closings >= ROUNDS, "%d handles were closed", closings);
	is_int(broken_leases, 0,
		   "S234: none of them while a lease ran: to decide and to give the handle up is one step");
	ok(zk_client_stop(client, 30000), "the client stops");
	zookeeper_close(stranger);
	proxy_stop();
	return done_testing();
}
