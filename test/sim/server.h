/*-------------------------------------------------------------------------
 *
 * server.h
 *	  A server of the simulated ensemble: what its parts share.
 *
 * clients.c	connections, sessions, events
 * requests.c	the requests of sessions in their order, and the answers
 * replication.c	what leader and followers say to each other, the log
 * leader.c		proposals, commits, the quorum, expiry, containers
 * follower.c	joining a leader, what comes from it
 * ensemble.c	servers that start and end, elections, the interface
 *
 * A server does what a message asks for as soon as it comes, in no time: what
 * takes time is the network, and timers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_H
#define SERVER_H

#include "ensemble.h"
#include "prepare.h"
#include "watches.h"

typedef struct Server Server;
typedef struct Endpoint Endpoint;
typedef struct Connection Connection;
typedef struct Learner Learner;
typedef struct Request Request;

/* ------ what servers say to each other ------ */

/* Greater than any PacketKind: the first member of a body tells them apart. */
typedef enum PeerKind
{
	PEER_INFO = 1000,			/* follower: its accepted epoch, last zxid */
	PEER_EPOCH,					/* leader: the new epoch */
	PEER_EPOCH_ACK,				/* follower: its epoch (-1: has voted), zxid */
	PEER_DIFF,					/* leader: what the log has to become */
	PEER_DIFF_ACK,				/* follower: up to the zxid it has it all */
	PEER_UPTODATE,				/* leader: the follower may serve */
	PEER_PROPOSAL,
	PEER_ACK,
	PEER_COMMIT,
	PEER_PING,					/* an answer carries touches */
	PEER_REQUEST,
	PEER_SYNC,
	PEER_REVALIDATE
} PeerKind;

typedef struct PeerMessage
{
	int			kind;
	int			server;			/* info: who */
	int64_t		epoch;
	int64_t		zxid;			/* diff: the log is cut behind it */
	int64_t		committed;		/* diff */
	Transaction **txns;			/* proposal (one), diff */
	int			count;			/* of those, or of the touches */
	Touch	   *touches;
	Request    *request;
	int64_t		session;		/* revalidate */
	int			timeout_ms;
	bool		valid;
} PeerMessage;

extern PeerMessage *peer_make(PeerKind kind);
extern void peer_free(void *message);
extern void peer_send(Server *from, Link *link, PeerMessage *message);

/* ------ the log ------ */

/* What the server has accepted, behind the base; applied ones come first. */
typedef struct Log
{
	Transaction **txns;
	int			count;
	int			room;
	int			applied;
	int64_t		base;
} Log;

extern int64_t log_last(const Log *log);
extern void log_append(Log *log, Transaction *txn); /* takes the reference */
extern int	log_find(const Log *log, int64_t zxid); /* how many are up to it */
extern void log_cut(Log *log, int count);	/* keeps so many */
extern void log_drop(Log *log, int64_t zxid);	/* moves the base */
extern void log_end(Log *log);

/* ------ requests ------ */

typedef enum RequestKind
{
	REQUEST_OPEN,				/* a session */
	REQUEST_OP,					/* OP_CLOSE too */
	REQUEST_PING,
	REQUEST_WATCHES
} RequestKind;

/* What a client asks for; also on its way to the leader, who only reads it. */
struct Request
{
	int			refs;
	RequestKind kind;
	int64_t		session;
	int32_t		cxid;
	Packet	   *packet;			/* null for REQUEST_OPEN */
	Connection *connection;
	Identities *identities;
	int			timeout_ms;
	int			err;			/* found by the leader for a read */
	bool		throttled;
	Request    *next;			/* of the session, in order */
	Request    *next_write;		/* of those that wait for a commit */
	Request    *next_sync;		/* of those that wait for the leader's answer */
};

extern void request_drop(Request *request);
extern Request *request_share(Request *request);

/* What one session waits for: a write or a sync, and what came after it. */
typedef struct SessionQueue
{
	HashEntry	entry;
	int64_t		session;
	Request    *first;
	Request    *last;
} SessionQueue;

/* ------ connections ------ */

/* One end of a link at a server, which a client or a follower has made. */
struct Endpoint
{
	Server	   *server;
	Link	   *link;
	Connection *client;			/* one of them, after the first message */
	Learner    *learner;
	Endpoint   *prev;
	Endpoint   *next;
};

typedef enum ConnectionState
{
	CONNECTION_NEW,
	CONNECTION_WAITS,			/* for the session to be made, or confirmed */
	CONNECTION_READY
} ConnectionState;

struct Connection
{
	int			refs;			/* the endpoint, and requests */
	Endpoint   *endpoint;		/* null when it is closed */
	ConnectionState state;
	Watcher		watcher;
	int64_t		session;
	int			timeout_ms;
	int64_t		idle_until_ms;	/* closed then if nothing comes */
	Identities *identities;
	Packet	  **waiting;		/* came before the session was ready */
	int			waiting_count;
	Connection *prev;
	Connection *next;
};

/* A follower's connection, at the leader. */
struct Learner
{
	Endpoint   *endpoint;
	Owner		owner;			/* of the sessions that it speaks for */
	int			server;			/* -1 until it is known */
	int64_t		last_zxid;		/* of its log, when it came */
	bool		has_answered;	/* it knows the epoch */
	bool		forwarding;		/* it gets proposals and commits */
	bool		synced;			/* it has acknowledged the diff */
	SimTime		heard_at;
	int64_t		deadline_tick;
	Learner    *prev;
	Learner    *next;
};

/* ------ servers ------ */

typedef enum Role
{
	ROLE_DOWN,
	ROLE_LOOKING,				/* for a leader */
	ROLE_JOINING,				/* one, as a follower */
	ROLE_FOLLOWING,
	ROLE_PREPARING,				/* to lead: gathers a quorum */
	ROLE_LEADING
} Role;

/* A sync that waits until the leader has committed that. */
typedef struct PendingSync
{
	struct PendingSync *next;
	int64_t		zxid;
	Owner		owner;			/* of the learner */
} PendingSync;

/* A bit for each server. */
typedef uint32_t ServerSet;

static inline ServerSet
server_bit(int number)
{
	return UINT32_C(1) << number;
}

typedef struct Leading
{
	Tracker		tracker;
	Prepare		prepare;
	Learner    *learners;
	ServerSet	known;			/* have come; those that are gone count, too */
	ServerSet	voted;			/* have accepted the epoch, which was new to
								 * them */
	ServerSet	synced;			/* have acknowledged the diff */
	SimTime		waits_until;	/* for the next of these to be a quorum */
	int64_t		highest_epoch;	/* that the quorum has accepted */
	int64_t		epoch;			/* 0 until it is known */
	bool		epoch_acked;	/* by a quorum */
	int64_t		zxid;			/* the last one given out */
	int64_t		committed;
	int64_t		acked[ENSEMBLE_MAX];
	PendingSync *first_sync;
	PendingSync *last_sync;
	int64_t		tick;
	bool		half_tick;
	SimTime		ticked_at;
	int64_t		clock_ms;		/* of the tracker, minus true time */
	struct String_vector containers;	/* to be deleted, the last one first */
} Leading;

typedef struct Following
{
	Server	   *leader;
	Link	   *link;			/* null between attempts */
	int			attempts;
	int64_t		epoch;			/* 0 until the leader has answered */
	bool		synced;			/* it has the leader's log */
	int64_t		committed;		/* as the leader says */
	SimTime		heard_at;
	SimTime		watched_at;
	TouchTable	touches;
	Request    *first_sync;
	Request    *last_sync;
} Following;

struct Server
{
	int			number;
	Host	   *host;
	Chance		chance;			/* elections, and when sessions expire */
	Role		role;
	uint64_t	life;			/* counts roles: timers of others are void */
	bool		votes;			/* while it looks for a leader */

	/* on disk */
	Log			log;
	int64_t		epoch;
	int64_t		accepted_epoch;
	Tree		tree;

	/* of its clients */
	Watches		watches;
	Endpoint   *endpoints;
	Connection *connections;
	HashTable	queues;
	Request    *first_write;
	Request    *last_write;
	int64_t		last_session;

	Leading    *leading;
	Following  *following;
};

#define CLOSED_MAX	256

typedef struct Ensemble
{
	EnsembleConfig config;
	Server		servers[ENSEMBLE_MAX];
	Owner		owners;			/* given out */
	uint64_t	connections;	/* ever made */
	uint64_t	secret;			/* of passwords */
	struct Timer *timers;
	int64_t		closed[CLOSED_MAX]; /* sessions that clients have closed, the
									 * last ones */
	unsigned int closed_count;
	struct
	{
		int64_t		session;
		int			timeout_ms;
	}			shortened[CLOSED_MAX];	/* sessions that were resumed with
										 * less than they had, the last ones */
	unsigned int shortened_count;
} Ensemble;

extern Ensemble ensemble;

/* Runs it at that time, unless the server has another role then. */
extern void server_at(Server *server, SimTime when, void (*action) (Server *server));
extern void server_set_role(Server *server, Role role);

/* The server leaves its role, and looks for a leader. */
extern void server_look(Server *server, const char *reason);
extern int	majority(void);
extern int64_t wall_ms(void);
extern SimTime ticks(int count);

static inline bool
server_serves(const Server *server)
{
	return server->role == ROLE_LEADING || server->role == ROLE_FOLLOWING;
}

/* in clients.c */
extern const LinkCalls endpoint_calls;
extern void *endpoint_accept(Host *host, Link *link, void *context);
extern void endpoint_close(Endpoint *endpoint);
extern void clients_end(Server *server);	/* and what they want */
extern void clients_check_idle(Server *server);
extern void clients_changed(void *context, const TreeEvent *event);
extern void clients_watch(Watcher *watcher, int event, const char *path,
						  const AclList *acl, int64_t zxid);

/* The leader has said whether the session exists. */
extern void clients_revalidated(Server *server, int64_t session, bool valid);

extern void connection_send(Connection *connection, Packet *packet);
extern void connection_opened(Connection *connection, bool valid);
extern void connection_drop(Connection *connection);	/* a reference */

/* Closes the connections of a session at this server, but for one. */
extern void clients_close_session(Server *server, int64_t session, const Connection *but);

/* in requests.c */
extern Request *request_make(RequestKind kind, Connection *connection, Packet *packet);

/* What a client asks for is done, or waits; takes the reference. */
extern void requests_submit(Server *server, Request *request);
extern void requests_end(Server *server);
extern bool request_is_write(const Request *request);

/* The leader's answer to a sync has come. */
extern void requests_synced(Server *server, Request *request);

/* Applies what is committed to the tree, and answers whoever waits for it. */
extern void server_apply(Server *server, const Transaction *txn);

/* Applies the log up to that. */
extern void server_apply_up_to(Server *server, int64_t zxid);

/* in leader.c */
extern void leader_begin(Server *server);
extern void leader_end(Server *server);
extern Learner *leader_learner(Endpoint *endpoint);
extern void leader_received(Learner *learner, PeerMessage *message);
extern void leader_lost(Learner *learner);
extern int64_t leader_clock_ms(const Server *server);
extern void leader_propose(Server *server, Transaction *txn);
extern Transaction *leader_prepare(Server *server, const Request *request, Owner owner);
extern int64_t leader_next_zxid(Server *server);

/* in follower.c */
extern void follower_begin(Server *server, Server *leader);
extern void follower_end(Server *server);
extern void follower_forward(Server *server, Request *request);
extern void follower_revalidate(Server *server, int64_t session, int timeout_ms);

#endif							/* SERVER_H */
