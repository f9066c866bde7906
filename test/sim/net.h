/*-------------------------------------------------------------------------
 *
 * net.h
 *	  The simulated network: hosts, and connections as TCP makes them.
 *
 * What is sent over a connection arrives in order, or not at all if it breaks.
 * Between hosts that are cut off from each other nothing arrives, and neither
 * end notices; what was sent arrives when they are joined again, if both ends
 * are still there.  A host that is stopped (SIGSTOP, suspended) takes what comes
 * and delivers it when it goes on; its kernel still accepts connections, unless
 * the machine is suspended.  A host whose process has died refuses connections,
 * and those that it had are reset.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NET_H
#define NET_H

#include "sim.h"

typedef struct Host Host;
typedef struct Link Link;

/* A message; the receiver owns it, and frees what is lost on the way. */
typedef struct Message
{
	void	   *body;
	void		(*discard) (void *body);
} Message;

/* What happens at one end of a link.  Actions: they must not wait. */
typedef struct LinkCalls
{
	/* only at the end that connected: it is made, or refused */
	void		(*connected) (Link *link, void *owner);
	/* something has come */
	void		(*received) (Link *link, void *owner, void *body);
	/* refused, reset, or closed by the other end; the link is over */
	void		(*broken) (Link *link, void *owner);
} LinkCalls;

/*
 * Called when a connection is made to a host: returns the owner of that end, or
 * null to close it.
 */
typedef void *(*HostAccept) (Host *host, Link *link, void *context);

extern void net_begin(void);
extern void net_end(void);

extern Host *net_host(const char *name);
extern const char *host_name(const Host *host);
extern void host_listen(Host *host, HostAccept accept, const LinkCalls *calls,
						void *context);
extern void host_stop(Host *host);	/* like SIGSTOP */
extern void host_go_on(Host *host);
extern bool host_is_stopped(const Host *host);
extern void host_die(Host *host);	/* the process: links are reset */
extern void host_revive(Host *host);

/*
 * Runs the action at that time, or when the host goes on if it is stopped then:
 * what a timer of one of its processes does.
 */
extern void host_at(Host *host, SimTime when, SimAction action, void *argument);

/* Cuts two hosts off from each other, or joins them. */
extern void net_cut(Host *one, Host *other);
extern void net_join(Host *one, Host *other);
extern bool net_is_cut(const Host *one, const Host *other);

/*
 * How long messages between two hosts take; by default the same for all.  Each
 * message takes a time between low and high; one in so many takes up to slow.
 */
typedef struct Latency
{
	SimTime		low;
	SimTime		high;
	SimTime		slow;
	uint64_t	slow_one_in;	/* 0 for never */
} Latency;

extern void net_latency(const Latency *latency);

/* Connects from a host to another one that listens; never to itself. */
extern Link *link_connect(Host *from, Host *to, const LinkCalls *calls, void *owner);
extern void link_send(Link *link, Host *from, Message message);

/*
 * The end at that host is closed: nothing is delivered to it any more.  What it
 * sent before arrives; then the other end is told.
 */
extern void link_close(Link *link, Host *at);

#endif							/* NET_H */
