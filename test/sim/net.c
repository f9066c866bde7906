/*-------------------------------------------------------------------------
 *
 * net.c
 *	  The simulated network.
 *
 * A link has two pipes, one for each direction.  What is sent goes into the
 * pipe, with one event for the time at which it comes out: whatever is first in
 * the pipe then.  While the two hosts are cut off from each other events only
 * count what has to come out later; so they do at a host that is stopped.  What
 * TCP itself says (SYN, FIN) goes through the pipes too.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "net.h"

/* The longest time that TCP waits until it tries again after a cut. */
#define RETRY_MAX		SIM_SECONDS(2)

typedef enum ItemKind
{
	ITEM_SYN,					/* a kernel takes it */
	ITEM_ACCEPT,				/* the same, for the process that listens */
	ITEM_SYN_ACK,
	ITEM_DATA,
	ITEM_FIN
} ItemKind;

typedef struct Item
{
	struct Item *next;
	ItemKind	kind;
	Message		message;
} Item;

typedef struct Pipe
{
	Link	   *link;
	int			to;				/* the end that it leads to */
	Item	   *first;
	Item	   *last;
	SimTime		busy_until;		/* nothing comes out before */
	int			held;			/* events that met a cut */
	int			stalled;		/* events that met a stopped host */
	Chance		chance;			/* delays */
} Pipe;

typedef struct End
{
	Host	   *host;
	const LinkCalls *calls;
	void	   *owner;
	bool		open;
	bool		known;			/* to the process, not only to the kernel */
	Link	   *prev;			/* those of the host */
	Link	   *next;
} End;

struct Link
{
	End			ends[2];		/* who has connected, who was connected to */
	Pipe		pipes[2];		/* each leads to the end of its number */
	int			events;			/* to come, or being handled */
	Link	   *prev;			/* all of them */
	Link	   *next;
};

typedef struct HostTimer
{
	Host	   *host;
	SimAction	action;
	void	   *argument;
	struct HostTimer *prev;
	struct HostTimer *next;
	struct HostTimer *next_late;
} HostTimer;

/* What lies between a host and one that was made before it. */
typedef struct Path
{
	bool		cut;
	SimTime		cut_at;
	int			links;			/* that there have ever been */
} Path;

struct Host
{
	int			number;
	char	   *name;
	bool		dead;
	bool		stopped;
	HostAccept	accept;
	const LinkCalls *calls;
	void	   *context;
	Link	   *links;			/* with an open end here */
	HostTimer  *late;			/* timers of a stopped host, newest first */
	Chance		chance;
	Path	   *paths;			/* to the hosts of lower numbers, and itself */
};

typedef struct Net
{
	Host	  **hosts;
	int			host_count;
	Link	   *links;
	HostTimer  *timers;
	Latency		latency;
} Net;

static Net	net;

/* ------ hosts ------ */

void
net_begin(void)
{
	memset(&net, 0, sizeof(net));
	net.latency.low = 100;
	net.latency.high = 1000;
}

static void
discard_items(Pipe *pipe)
{
	while (pipe->first != NULL)
	{
		Item	   *item = pipe->first;

		pipe->first = item->next;
		if (item->message.discard != NULL)
			item->message.discard(item->message.body);
		free(item);
	}
	pipe->last = NULL;
}

static void
link_free(Link *link)
{
	discard_items(&link->pipes[0]);
	discard_items(&link->pipes[1]);
	if (link->prev != NULL)
		link->prev->next = link->next;
	else
		net.links = link->next;
	if (link->next != NULL)
		link->next->prev = link->prev;
	free(link);
}

/* Frees everything.  Events that are still to come must not. */
void
net_end(void)
{
	while (net.links != NULL)
		link_free(net.links);
	while (net.timers != NULL)
	{
		HostTimer  *timer = net.timers;

		net.timers = timer->next;
		free(timer);
	}
	for (int i = 0; i < net.host_count; i++)
	{
		free(net.hosts[i]->name);
		free(net.hosts[i]->paths);
		free(net.hosts[i]);
	}
	free(net.hosts);
	memset(&net, 0, sizeof(net));
}

Host *
net_host(const char *name)
{
	Host	   *host = sim_alloc(sizeof(Host));

	host->number = net.host_count++;
	host->name = sim_strdup(name);
	host->chance = chance_named("host %s", name);
	host->paths = sim_alloc(sizeof(Path) * (size_t) net.host_count);
	net.hosts = sim_realloc(net.hosts, sizeof(Host *) * (size_t) net.host_count);
	net.hosts[host->number] = host;
	return host;
}

const char *
host_name(const Host *host)
{
	return host->name;
}

void
host_listen(Host *host, HostAccept accept, const LinkCalls *calls, void *context)
{
	host->accept = accept;
	host->calls = calls;
	host->context = context;
}

bool
host_is_stopped(const Host *host)
{
	return host->stopped;
}

static Path *
path_between(const Host *one, const Host *other)
{
	if (one->number > other->number)
		return &one->paths[other->number];
	return &other->paths[one->number];
}

bool
net_is_cut(const Host *one, const Host *other)
{
	return path_between(one, other)->cut;
}

void
net_latency(const Latency *latency)
{
	net.latency = *latency;
}

/* Returns how long one message takes. */
static SimTime
travel_time(Chance *chance)
{
	const Latency *latency = &net.latency;

	if (latency->slow_one_in > 0 && latency->slow > latency->high &&
		chance_one_in(chance, latency->slow_one_in))
		return chance_between(chance, latency->high, latency->slow);
	return chance_between(chance, latency->low, latency->high);
}

/* ------ pipes ------ */

static void pipe_event(void *argument);

/* Lets the first of the pipe come out at that time, or as soon as it may. */
static void
pipe_schedule(Pipe *pipe, SimTime when)
{
	if (when < pipe->busy_until)
		when = pipe->busy_until;
	pipe->busy_until = when;
	pipe->link->events++;
	sim_at(when, pipe_event, pipe);
}

static void
pipe_send(Pipe *pipe, ItemKind kind, Message message)
{
	Item	   *item = sim_alloc(sizeof(Item));

	item->kind = kind;
	item->message = message;
	if (pipe->last != NULL)
		pipe->last->next = item;
	else
		pipe->first = item;
	pipe->last = item;
	pipe_schedule(pipe, sim_now() + travel_time(&pipe->chance));
}

static void
pipe_send_sign(Pipe *pipe, ItemKind kind)
{
	Message		none = {NULL, NULL};

	pipe_send(pipe, kind, none);
}

static Item *
pipe_take(Pipe *pipe)
{
	Item	   *item = pipe->first;

	pipe->first = item->next;
	if (pipe->first == NULL)
		pipe->last = NULL;
	return item;
}

static void
end_open(Link *link, int which)
{
	End		   *end = &link->ends[which];
	Link	   *first = end->host->links;

	end->open = true;
	end->prev = NULL;
	end->next = first;
	if (first != NULL)
		first->ends[first->ends[0].host == end->host ? 0 : 1].prev = link;
	end->host->links = link;
}

/* The end of the link that is in the list of that host. */
static End *
end_in_list(Link *link, const Host *host)
{
	return &link->ends[link->ends[0].host == host ? 0 : 1];
}

static void
end_shut(Link *link, int which)
{
	End		   *end = &link->ends[which];

	if (!end->open)
		return;
	end->open = false;
	if (end->prev != NULL)
		end_in_list(end->prev, end->host)->next = end->next;
	else
		end->host->links = end->next;
	if (end->next != NULL)
		end_in_list(end->next, end->host)->prev = end->prev;
}

/* Frees the link if both ends are over and no event is to come. */
static void
link_settle(Link *link)
{
	if (link->events == 0 && !link->ends[0].open && !link->ends[1].open &&
		(link->pipes[1].first == NULL || link->pipes[1].first->kind != ITEM_SYN))
		link_free(link);
}

/*
 * A kernel gets a SYN.  Returns true if a process is to be told, and leaves it
 * to the caller to do so.
 */
static bool
kernel_accepts(Link *link)
{
	Host	   *host = link->ends[1].host;

	if (host->dead || host->accept == NULL)
	{
		pipe_send_sign(&link->pipes[0], ITEM_FIN);
		return false;
	}
	link->ends[1].calls = host->calls;
	end_open(link, 1);
	pipe_send_sign(&link->pipes[0], ITEM_SYN_ACK);
	return true;
}

static void
process_accepts(Link *link)
{
	End		   *end = &link->ends[1];
	void	   *owner = end->host->accept(end->host, link, end->host->context);

	end->owner = owner;
	end->known = true;
	if (owner == NULL)
		link_close(link, end->host);
}

/* Hands the item, which is no longer in a pipe, to the end. */
static void
end_gets(Link *link, int which, Item *item)
{
	End		   *end = &link->ends[which];

	switch (item->kind)
	{
		case ITEM_SYN:
		case ITEM_ACCEPT:
			process_accepts(link);
			break;
		case ITEM_SYN_ACK:
			end->calls->connected(link, end->owner);
			break;
		case ITEM_DATA:
			end->calls->received(link, end->owner, item->message.body);
			break;
		case ITEM_FIN:
			end_shut(link, which);
			if (end->known)
				end->calls->broken(link, end->owner);
			break;
	}
	free(item);
}

/* The first of the pipe comes out of it: the hosts are not cut off. */
static void
pipe_deliver(Pipe *pipe)
{
	Link	   *link = pipe->link;
	End		   *end = &link->ends[pipe->to];
	Item	   *item = pipe->first;

	if (item->kind == ITEM_SYN)
	{
		if (!kernel_accepts(link))
		{
			free(pipe_take(pipe));
			return;
		}
		item->kind = ITEM_ACCEPT;
	}
	if (end->open && end->host->stopped)
	{
		pipe->stalled++;
		return;
	}
	item = pipe_take(pipe);
	if (end->open)
	{
		end_gets(link, pipe->to, item);
		return;
	}
	if (item->message.discard != NULL)
		item->message.discard(item->message.body);
	free(item);
}

static void
pipe_event(void *argument)
{
	Pipe	   *pipe = argument;
	Link	   *link = pipe->link;

	if (pipe->first != NULL)
	{
		if (net_is_cut(link->ends[0].host, link->ends[1].host))
			pipe->held++;
		else
			pipe_deliver(pipe);
	}
	link->events--;
	link_settle(link);
}

/* ------ cuts ------ */

void
net_cut(Host *one, Host *other)
{
	Path	   *path = path_between(one, other);

	if (path->cut)
		return;
	path->cut = true;
	path->cut_at = sim_now();
}

/* Lets come out what a cut has held, when TCP tries again. */
static void
pipe_resume(Pipe *pipe, SimTime cut_for)
{
	SimTime		wait = cut_for < RETRY_MAX ? cut_for : RETRY_MAX;
	SimTime		when;

	if (pipe->held == 0)
		return;
	when = sim_now() + chance_between(&pipe->chance, 0, wait);
	for (; pipe->held > 0; pipe->held--)
		pipe_schedule(pipe, when);
}

void
net_join(Host *one, Host *other)
{
	Path	   *path = path_between(one, other);

	if (!path->cut)
		return;
	path->cut = false;
	for (Link *link = net.links; link != NULL; link = link->next)
	{
		if ((link->ends[0].host == one && link->ends[1].host == other) ||
			(link->ends[0].host == other && link->ends[1].host == one))
		{
			pipe_resume(&link->pipes[0], sim_now() - path->cut_at);
			pipe_resume(&link->pipes[1], sim_now() - path->cut_at);
		}
	}
}

/* ------ processes that stop, go on, die ------ */

void
host_stop(Host *host)
{
	host->stopped = !host->dead;
}

/* Collects the pipes that lead to the host and have something for it. */
static int
stalled_pipes(Host *host, Pipe ***pipes)
{
	int			count = 0;
	int			room = 0;

	*pipes = NULL;
	for (Link *link = host->links; link != NULL; link = end_in_list(link, host)->next)
	{
		Pipe	   *pipe = &link->pipes[end_in_list(link, host) - link->ends];

		if (pipe->stalled == 0)
			continue;
		if (count == room)
		{
			room = room == 0 ? 16 : room * 2;
			*pipes = sim_realloc(*pipes, sizeof(Pipe *) * (size_t) room);
		}
		(*pipes)[count++] = pipe;
	}
	return count;
}

/* What has come while the host was stopped comes now, in any order of links. */
static void
resume_pipes(Host *host)
{
	Pipe	  **pipes;
	int			count = stalled_pipes(host, &pipes);

	while (count > 0)
	{
		int			i = (int) chance_below(&host->chance, (uint64_t) count);

		pipes[i]->link->events++;
		sim_at(sim_now(), pipe_event, pipes[i]);
		if (--pipes[i]->stalled == 0)
			pipes[i] = pipes[--count];
	}
	free(pipes);
}

static void timer_event(void *argument);

static void
resume_timers(Host *host)
{
	HostTimer  *timer = NULL;

	while (host->late != NULL)	/* back into the order of their times */
	{
		HostTimer  *next = host->late->next_late;

		host->late->next_late = timer;
		timer = host->late;
		host->late = next;
	}
	while (timer != NULL)
	{
		HostTimer  *next = timer->next_late;

		sim_at(sim_now(), timer_event, timer);
		timer = next;
	}
}

/* Threads that wait for messages and those that wait for a time race. */
void
host_go_on(Host *host)
{
	bool		timers_first = chance_one_in(&host->chance, 3);

	if (!host->stopped)
		return;
	host->stopped = false;
	if (timers_first)
		resume_timers(host);
	resume_pipes(host);
	if (!timers_first)
		resume_timers(host);
}

/*
 * All its links are reset.  What it has sent last may be lost.  Nobody at the
 * host is told: the process is gone.
 */
void
host_die(Host *host)
{
	host->dead = true;
	host->stopped = false;
	while (host->links != NULL)
	{
		Link	   *link = host->links;
		int			which = (int) (end_in_list(link, host) - link->ends);

		end_shut(link, which);
		if (chance_one_in(&host->chance, 2) && link->ends[1].open)
			discard_items(&link->pipes[1 - which]);
		pipe_send_sign(&link->pipes[1 - which], ITEM_FIN);
	}
	resume_timers(host);
}

void
host_revive(Host *host)
{
	host->dead = false;
	host->stopped = false;
}

static void
timer_event(void *argument)
{
	HostTimer  *timer = argument;

	if (timer->host->stopped)
	{
		timer->next_late = timer->host->late;
		timer->host->late = timer;
		return;
	}
	if (timer->prev != NULL)
		timer->prev->next = timer->next;
	else
		net.timers = timer->next;
	if (timer->next != NULL)
		timer->next->prev = timer->prev;
	timer->action(timer->argument);
	free(timer);
}

void
host_at(Host *host, SimTime when, SimAction action, void *argument)
{
	HostTimer  *timer = sim_alloc(sizeof(HostTimer));

	timer->host = host;
	timer->action = action;
	timer->argument = argument;
	timer->next = net.timers;
	if (net.timers != NULL)
		net.timers->prev = timer;
	net.timers = timer;
	sim_at(when, timer_event, timer);
}

/* ------ links ------ */

Link *
link_connect(Host *from, Host *to, const LinkCalls *calls, void *owner)
{
	Link	   *link;
	int			number;

	if (from == to)
		sim_violation("network", "host %s connects to itself", from->name);
	number = ++path_between(from, to)->links;
	link = sim_alloc(sizeof(Link));
	link->ends[0].host = from;
	link->ends[0].calls = calls;
	link->ends[0].owner = owner;
	link->ends[0].known = true;
	link->ends[1].host = to;
	for (int i = 0; i < 2; i++)
	{
		link->pipes[i].link = link;
		link->pipes[i].to = i;
		link->pipes[i].chance = chance_named("pipe %d of link %d from %s to %s", i, number,
											 from->name, to->name);
	}
	link->next = net.links;
	if (net.links != NULL)
		net.links->prev = link;
	net.links = link;
	end_open(link, 0);
	pipe_send_sign(&link->pipes[1], ITEM_SYN);
	return link;
}

static int
end_at(const Link *link, const Host *host)
{
	return link->ends[0].host == host ? 0 : 1;
}

static bool
syn_is_on_its_way(const Link *link)
{
	const Item *first = link->pipes[1].first;

	return first != NULL && first->kind == ITEM_SYN;
}

void
link_send(Link *link, Host *from, Message message)
{
	int			which = end_at(link, from);

	if (link->ends[which].open)
		pipe_send(&link->pipes[1 - which], ITEM_DATA, message);
	else if (message.discard != NULL)
		message.discard(message.body);
}

void
link_close(Link *link, Host *at)
{
	int			which = end_at(link, at);

	if (!link->ends[which].open)
		return;
	end_shut(link, which);
	if (which == 0 && syn_is_on_its_way(link) && link->pipes[1].held > 0)
	{
		/* it is not sent again when the cut ends */
		discard_items(&link->pipes[1]);
		link_settle(link);
		return;
	}
	pipe_send_sign(&link->pipes[1 - which], ITEM_FIN);
}
