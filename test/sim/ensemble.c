/*-------------------------------------------------------------------------
 *
 * ensemble.c
 *	  The simulated ensemble: servers that start and end, elections, and what
 *	  others may see of it.
 *
 * An election takes no messages: a server that looks for a leader sees, after
 * some time, the votes of those that it can reach, as FastLeaderElection counts
 * them.  That may go wrong in every way in which it does in reality, because each
 * decides for itself; what makes it safe is what followers tell the leader when they
 * join (leader.c), and a leader that waits for them in vain looks again.
 *
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

/* True time 0 on the wall clocks of the servers. */
#define WALL_MS			INT64_C(1700000000000)

/* Logs are made shorter when they have so many applied transactions. */
#define LOG_LONG		4096

typedef struct Timer
{
	Server	   *server;
	uint64_t	life;
	void		(*action) (Server *server);
	struct Timer *prev;
	struct Timer *next;
} Timer;

Ensemble	ensemble;
EnsembleStats ensemble_stats;

/* ------ time ------ */

int64_t
wall_ms(void)
{
	return WALL_MS + sim_now() / 1000;
}

SimTime
ticks(int count)
{
	return SIM_MS(ensemble.config.tick_ms) * count;
}

int
majority(void)
{
	return ensemble.config.servers / 2 + 1;
}

static void
timer_run(void *argument)
{
	Timer	   *timer = argument;
	Server	   *server = timer->server;

	if (timer->prev != NULL)
		timer->prev->next = timer->next;
	else
		ensemble.timers = timer->next;
	if (timer->next != NULL)
		timer->next->prev = timer->prev;
	if (timer->life == server->life)
		timer->action(server);
	free(timer);
}

void
server_at(Server *server, SimTime when, void (*action) (Server *server))
{
	Timer	   *timer = sim_alloc(sizeof(Timer));

	timer->server = server;
	timer->life = server->life;
	timer->action = action;
	timer->next = ensemble.timers;
	if (ensemble.timers != NULL)
		ensemble.timers->prev = timer;
	ensemble.timers = timer;
	host_at(server->host, when, timer_run, timer);
}

/* ------ roles ------ */

static const char *const role_names[] = {
	"is down", "looks for a leader", "joins", "follows", "prepares to lead", "leads"
};

void
server_set_role(Server *server, Role role)
{
	server->role = role;
	server->life++;
	sim_trace("%s %s", host_name(server->host), role_names[role]);
}

/* Ends whatever the server does in its role. */
static void
server_leave_role(Server *server)
{
	clients_end(server);
	if (server->leading != NULL)
		leader_end(server);
	if (server->following != NULL)
		follower_end(server);
}

static void election_begin(Server *server);
static void election_step(Server *server);

/* The server leaves its role, and votes: at once, or later if leaving takes long. */
void
server_look(Server *server, const char *reason)
{
	sim_trace("%s: %s", host_name(server->host), reason);
	server_leave_role(server);
	server_set_role(server, ROLE_LOOKING);
	server->votes = !chance_one_in(&server->chance, 8);
	if (server->votes)
		server_at(server, sim_now() + chance_between(&server->chance, SIM_MS(20), SIM_MS(300)),
				  election_step);
	else
		server_at(server, sim_now() + chance_between(&server->chance, 0, ticks(3)),
				  election_begin);
}

/* ------ elections ------ */

static bool
reaches(const Server *server, const Server *other)
{
	return other == server ||
		(other->role != ROLE_DOWN && !host_is_stopped(other->host) &&
		 !net_is_cut(server->host, other->host));
}

/* Whom the server follows, or itself if it leads; null while it looks. */
static Server *
choice_of(Server *server)
{
	if (server->leading != NULL)
		return server;
	return server->following != NULL ? server->following->leader : NULL;
}

/* The leader of a majority of those that can be reached, and itself can. */
static Server *
established_leader(const Server *server)
{
	for (int i = 0; i < ensemble.config.servers; i++)
	{
		Server	   *leader = &ensemble.servers[i];
		int			count = 0;

		if (leader == server || leader->leading == NULL || !reaches(server, leader))
			continue;
		for (int j = 0; j < ensemble.config.servers; j++)
		{
			Server	   *other = &ensemble.servers[j];

			if (reaches(server, other) && choice_of(other) == leader)
				count++;
		}
		if (count >= majority())
			return leader;
	}
	return NULL;
}

/* The longer log wins, then the higher number. */
static bool
is_better(const Server *one, const Server *other)
{
	if (one->epoch != other->epoch)
		return one->epoch > other->epoch;
	if (log_last(&one->log) != log_last(&other->log))
		return log_last(&one->log) > log_last(&other->log);
	return one->number > other->number;
}

static bool
is_voting(const Server *server)
{
	return server->role == ROLE_LOOKING && server->votes;
}

/*
 * Returns how many votes the candidate has, as the server sees it.  A server that has
 * decided sticks to its vote; one that looks for a leader votes for any that is not worse
 * than itself.
 */
static int
votes_for(const Server *server, const Server *candidate)
{
	int			count = 0;

	for (int i = 0; i < ensemble.config.servers; i++)
	{
		Server	   *other = &ensemble.servers[i];

		if (reaches(server, other) &&
			(is_voting(other) ? !is_better(other, candidate) : choice_of(other) == candidate))
			count++;
	}
	return count;
}

/*
 * Returns the best server that a majority votes for; or NULL.  One that prepares to lead
 * asked for votes before.
 */
static Server *
elected_leader(Server *server)
{
	Server	   *best = NULL;

	for (int i = 0; i < ensemble.config.servers; i++)
	{
		Server	   *other = &ensemble.servers[i];

		if ((is_voting(other) || other->role == ROLE_PREPARING) && reaches(server, other) &&
			!is_better(server, other) && votes_for(server, other) >= majority() &&
			(best == NULL || is_better(other, best)))
			best = other;
	}
	return best;
}

/* The server asks others for their votes; it decides when it has heard them. */
static void
election_begin(Server *server)
{
	server->votes = true;
	server_at(server, sim_now() + chance_between(&server->chance, SIM_MS(50), SIM_MS(300)),
			  election_step);
}

/* The server looks whether there is somebody to follow. */
static void
election_step(Server *server)
{
	Server	   *leader = established_leader(server);

	if (leader == NULL)
		leader = elected_leader(server);
	if (leader == NULL)
		server_at(server, sim_now() + chance_between(&server->chance, SIM_MS(50), SIM_MS(300)),
				  election_step);
	else if (leader == server)
		leader_begin(server);
	else
		follower_begin(server, leader);
}

/* ------ logs ------ */

/* Drops what all servers have applied from their logs. */
static void
shorten_logs(void)
{
	int64_t		everywhere = INT64_MAX;

	for (int i = 0; i < ensemble.config.servers; i++)
	{
		const Log  *log = &ensemble.servers[i].log;
		int64_t		applied = log->applied > 0 ? log->txns[log->applied - 1]->zxid : log->base;

		if (applied < everywhere)
			everywhere = applied;
	}
	for (int i = 0; i < ensemble.config.servers; i++)
		log_drop(&ensemble.servers[i].log, everywhere);
}

static void
check_logs(void *argument)
{
	bool		is_long = false;

	(void) argument;
	for (int i = 0; i < ensemble.config.servers; i++)
		is_long = is_long || ensemble.servers[i].log.applied >= LOG_LONG;
	if (is_long)
		shorten_logs();
	sim_at(sim_now() + SIM_SECONDS(10), check_logs, NULL);
}

/* ------ servers ------ */

static void
server_begin(Server *server, int number)
{
	char		name[16];

	snprintf(name, sizeof(name), "zk%d", number + 1);
	server->number = number;
	server->host = net_host(name);
	server->chance = chance_named("server %s", name);
	server->tree.changed = clients_changed;
	server->tree.context = server;
	server->watches.send = clients_watch;
	tree_begin(&server->tree);
	host_listen(server->host, endpoint_accept, &endpoint_calls, server);
	server_look(server, "starts");
}

/* The process is gone: its links are, and what it had in memory. */
void
ensemble_crash(int number)
{
	Server	   *server = &ensemble.servers[number];

	if (server->role == ROLE_DOWN)
		return;
	for (Endpoint *endpoint = server->endpoints; endpoint != NULL; endpoint = endpoint->next)
		endpoint->link = NULL;
	if (server->following != NULL)
		server->following->link = NULL;
	host_die(server->host);
	server_leave_role(server);
	server_set_role(server, ROLE_DOWN);
}

void
ensemble_start(int number)
{
	Server	   *server = &ensemble.servers[number];

	if (server->role != ROLE_DOWN)
		return;
	host_revive(server->host);
	server_look(server, "starts");
}

static void
server_wipe(Server *server)
{
	log_end(&server->log);
	tree_end(&server->tree);
	tree_begin(&server->tree);
	server->epoch = 0;
	server->accepted_epoch = 0;
}

/* Returns true if all servers but one have the whole log of the leader. */
static bool
all_others_are_complete(int number)
{
	int			leader = ensemble_leader();

	for (int i = 0; i < ensemble.config.servers && leader >= 0; i++)
	{
		const Server *server = &ensemble.servers[i];

		if (i != number && (!server_serves(server) || host_is_stopped(server->host) ||
							log_last(&server->log) != log_last(&ensemble.servers[leader].log)))
			return false;
	}
	return leader >= 0;
}

bool
ensemble_wipe_server(int number)
{
	Server	   *server = &ensemble.servers[number];

	if (server->role != ROLE_DOWN || server->log.base > 0 || !all_others_are_complete(number))
		return false;
	server_wipe(server);
	return true;
}

void
ensemble_wipe(void)
{
	for (int i = 0; i < ensemble.config.servers; i++)
	{
		Server	   *server = &ensemble.servers[i];
		bool		was_down = server->role == ROLE_DOWN;

		ensemble_crash(i);
		server_wipe(server);
		if (!was_down)
			ensemble_start(i);
	}
}

void
ensemble_begin(const EnsembleConfig *config)
{
	Chance		secrets;

	memset(&ensemble, 0, sizeof(ensemble));
	memset(&ensemble_stats, 0, sizeof(ensemble_stats));
	ensemble.config = *config;
	secrets = chance_named("secret of the ensemble");
	ensemble.secret = chance_next(&secrets);
	for (int i = 0; i < config->servers; i++)
		server_begin(&ensemble.servers[i], i);
	sim_at(sim_now() + SIM_SECONDS(10), check_logs, NULL);
}

/* Frees all; the network and events that are to come must not be used after. */
void
ensemble_end(void)
{
	for (int i = 0; i < ensemble.config.servers; i++)
	{
		Server	   *server = &ensemble.servers[i];

		for (Endpoint *endpoint = server->endpoints; endpoint != NULL; endpoint = endpoint->next)
			endpoint->link = NULL;
		if (server->following != NULL)
			server->following->link = NULL;
		server_leave_role(server);
		watches_end(&server->watches);
		log_end(&server->log);
		tree_end(&server->tree);
	}
	while (ensemble.timers != NULL)
	{
		Timer	   *timer = ensemble.timers;

		ensemble.timers = timer->next;
		free(timer);
	}
}

/* ------ what others see ------ */

Host *
ensemble_host(int server)
{
	return ensemble.servers[server].host;
}

void
ensemble_add_host(int number, const char *name)
{
	ensemble.servers[number].host = net_host(name);
}

void
ensemble_set_timeouts(int min_timeout_ms, int max_timeout_ms)
{
	ensemble.config.min_timeout_ms = min_timeout_ms;
	ensemble.config.max_timeout_ms = max_timeout_ms;
}

void
ensemble_throttle(uint64_t one_in)
{
	ensemble.config.throttle_one_in = one_in;
}

/* Returns how many servers serve with that leader, itself included; 0 if it does not lead. */
static int
count_serving(const Server *leader)
{
	int			count = 0;

	if (leader->role != ROLE_LEADING || host_is_stopped(leader->host))
		return 0;
	for (int i = 0; i < ensemble.config.servers; i++)
	{
		const Server *other = &ensemble.servers[i];

		if (other == leader ||
			(other->role == ROLE_FOLLOWING && other->following->leader == leader &&
			 other->following->epoch == leader->leading->epoch && reaches(leader, other)))
			count++;
	}
	return count;
}

int
ensemble_leader(void)
{
	int			best = -1;

	for (int i = 0; i < ensemble.config.servers; i++)
	{
		const Server *server = &ensemble.servers[i];

		if (count_serving(server) >= majority() &&
			(best < 0 || server->leading->epoch > ensemble.servers[best].leading->epoch))
			best = i;
	}
	return best;
}

int
ensemble_serving(void)
{
	int			leader = ensemble_leader();

	return leader >= 0 ? count_serving(&ensemble.servers[leader]) : 0;
}

/* The leader's tree, or that of whoever has applied most. */
static const Tree *
committed_tree(void)
{
	int			leader = ensemble_leader();
	const Server *best = &ensemble.servers[leader >= 0 ? leader : 0];

	for (int i = 0; leader < 0 && i < ensemble.config.servers; i++)
	{
		if (ensemble.servers[i].tree.last_zxid > best->tree.last_zxid)
			best = &ensemble.servers[i];
	}
	return &best->tree;
}

static void
view_node(const Node *node, NodeView *view)
{
	static struct Stat stat;

	tree_stat(node, &stat);
	view->path = node->path;
	view->stat = &stat;
	view->data = node->data != NULL ? node->data->bytes : NULL;
	view->len = node->data != NULL ? node->data->len : -1;
}

bool
ensemble_node(const char *path, NodeView *view)
{
	const Node *node = tree_find(committed_tree(), path);

	if (node != NULL)
		view_node(node, view);
	return node != NULL;
}

bool
ensemble_child(const char *path, const char *name, NodeView *view)
{
	size_t		len = strlen(path);
	char		child[160];

	if (len + 1 + strlen(name) >= sizeof(child))
		return false;
	memcpy(child, path, len);
	child[len] = '/';
	strcpy(child + len + 1, name);
	return ensemble_node(child, view);
}

void
ensemble_children(const char *path,
				  void (*each) (const char *name, const NodeView *view, void *argument),
				  void *argument)
{
	const Node *node = tree_find(committed_tree(), path);
	const Node *child = node != NULL ? node->first_child : NULL;
	NodeView	view;

	for (; child != NULL; child = child->next)
	{
		view_node(child, &view);
		each(tree_name(child), &view, argument);
	}
}

bool
ensemble_session_lives(int64_t session)
{
	return tree_session(committed_tree(), session) != NULL;
}

bool
ensemble_session_closed(int64_t session)
{
	for (unsigned int i = 0; i < CLOSED_MAX && i < ensemble.closed_count; i++)
		if (ensemble.closed[i] == session)
			return true;
	return false;
}

int
ensemble_shortest_timeout(int64_t session)
{
	int			shortest = INT_MAX;

	for (unsigned int i = 0; i < CLOSED_MAX && i < ensemble.shortened_count; i++)
		if (ensemble.shortened[i].session == session &&
			ensemble.shortened[i].timeout_ms < shortest)
			shortest = ensemble.shortened[i].timeout_ms;
	return shortest;
}

bool
ensemble_commit(const Op *op, int *err)
{
	int			number = ensemble_leader();
	Asker		nobody = {0, 0, OWNER_NONE, NULL};
	Server	   *leader;
	Transaction *txn;

	if (number < 0)
		return false;
	leader = &ensemble.servers[number];
	txn = prepare_op(&leader->leading->prepare, op, &nobody, leader_next_zxid(leader), wall_ms());
	*err = txn->change.kind == CHANGE_ERROR ? txn->change.err : ZOK;
	for (int i = 0; i < txn->count && *err == ZOK; i++)
	{
		if (txn->changes[i].kind == CHANGE_ERROR)
			*err = txn->changes[i].err;
	}
	leader_propose(leader, txn);
	return true;
}
